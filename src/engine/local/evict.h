/* evict - whether a pod has to go because disk or memory run short, and which one. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EVICT_MEMORY_BYTES (INT64_C(100) << 20) /* available on the machine */

struct evict_pod {
    int64_t used, requested, priority;
};

bool evict_disk_short(int64_t free, int64_t total);
/* Which one goes first: who uses more than was asked for, then the least important, then the one that uses
 * most over its request. -1: nobody uses anything. */
int evict_choose(const struct evict_pod *pods, size_t len);
