/* resources - amounts of CPU and main memory. Negative results of a subtraction are kept, so that taking
 * back what was added always gives the old value. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct resources {
    int64_t cpu_milli; /* thousandths of a core */
    int64_t mem_mib;
};

static inline bool resources_fit(struct resources need, struct resources have)
{
    return (need.cpu_milli <= 0 || need.cpu_milli <= have.cpu_milli) &&
           (need.mem_mib <= 0 || need.mem_mib <= have.mem_mib);
}

/* `have` plus `times` times `more`; a negative `times` takes away. */
static inline struct resources resources_add(struct resources have, struct resources more, int64_t times)
{
    uint64_t n = (uint64_t)times; /* absurd amounts wrap around, and back when they are taken away again */

    return (struct resources){(int64_t)((uint64_t)have.cpu_milli + (uint64_t)more.cpu_milli * n),
                              (int64_t)((uint64_t)have.mem_mib + (uint64_t)more.mem_mib * n)};
}

/* How often `need` fits into `have`, at most `limit` times. */
int64_t resources_times(struct resources need, struct resources have, int64_t limit);
