#include "engine/local/evict.h"

#include "base/disk.h"

bool evict_disk_short(int64_t free, int64_t total)
{
    return free < disk_mark(total);
}

/* Whether a goes before b. */
static bool before(const struct evict_pod *a, const struct evict_pod *b)
{
    bool over_a = a->used > a->requested, over_b = b->used > b->requested;

    if (over_a != over_b)
        return over_a;
    if (a->priority != b->priority)
        return a->priority < b->priority;
    return a->used - a->requested > b->used - b->requested;
}

int evict_choose(const struct evict_pod *pods, size_t len)
{
    int best = -1;

    for (size_t i = 0; i < len; i++)
        if (pods[i].used > 0 && (best < 0 || before(&pods[i], &pods[best])))
            best = (int)i;
    return best;
}
