#include "domain/resources.h"

static int64_t times_of(int64_t need, int64_t have, int64_t limit)
{
    if (need <= 0)
        return limit;
    if (have < need)
        return 0;
    return have / need < limit ? have / need : limit;
}

int64_t resources_times(struct resources need, struct resources have, int64_t limit)
{
    return times_of(need.mem_mib, have.mem_mib, times_of(need.cpu_milli, have.cpu_milli, limit));
}
