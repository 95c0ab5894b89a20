/* Each user's sum is kept as its logarithm at time 0: log2(GPU-ms) + t / half-life. Adding is done on that
 * scale, so nothing has to be aged. */
#include "sched/usage.h"

#include "base/map.h"
#include "base/mem.h"

#include <math.h>

struct usage {
    double half_life_ms;
    struct map *users; /* name -> double * */
};

struct usage *usage_new(int64_t half_life_ms)
{
    struct usage *usage = NEW(struct usage);

    usage->half_life_ms = half_life_ms > 0 ? (double)half_life_ms : (double)USAGE_HALF_LIFE_MS;
    usage->users = map_new();
    return usage;
}

void usage_free(struct usage *usage)
{
    size_t at = 0;
    struct str key;
    void *value;

    if (!usage)
        return;
    while (map_next(usage->users, &at, &key, &value))
        free(value);
    map_free(usage->users);
    free(usage);
}

void usage_add(struct usage *usage, const char *user, int64_t now_ms, double gpu_ms)
{
    double *sum, more = log2(gpu_ms) + (double)now_ms / usage->half_life_ms;

    if (!user || !(gpu_ms > 0) || !isfinite(more))
        return;
    sum = map_get(usage->users, str_from(user));
    if (!sum) {
        if (map_len(usage->users) >= USAGE_USERS_MAX)
            return;
        sum = NEW(double);
        *sum = more;
        map_set(usage->users, str_from(user), sum);
        return;
    }
    /* log2(2^a + 2^b) without leaving the range of a double */
    *sum = fmax(*sum, more) + log2(1 + exp(-fabs(*sum - more) * M_LN2));
}

double usage_get(const struct usage *usage, const char *user, int64_t now_ms)
{
    const double *sum = user ? map_get(usage->users, str_from(user)) : NULL;

    return sum ? exp((*sum - (double)now_ms / usage->half_life_ms) * M_LN2) : 0;
}

int32_t usage_step(const struct usage *usage, const char *user)
{
    const double *sum = usage && user ? map_get(usage->users, str_from(user)) : NULL;

    return sum ? (int32_t)floor(fmax(fmin(*sum, 1e9), -1e9)) : USAGE_NONE;
}
