/* pollux - the tables of a pollux64 folder. Private to sim. */
#pragma once

#include "sim/trace.h"

#define POLLUX_APPS_MAX 32

struct step_point {
    double local, step_s, sync_s;
};

/* Of one placement, by samples per GPU. */
struct step_table {
    uint64_t key;
    VEC(struct step_point) points;
};

struct step_tables {
    struct step_table *v;
    size_t len, cap;
};

struct grad_point {
    uint32_t epoch, batch;
    double sqr, var;
};

struct pollux_app {
    const char *name;
    uint32_t epochs, init_batch, max_batch, min_local, max_local;
    double restart_s, restart_sia_s;
    struct step_tables placed; /* by the digits of the placement */
    struct step_tables grid;   /* by grid_key() */
    VEC(struct grad_point) grads;
    VEC(uint32_t) grad_at; /* by epoch */
    VEC(double) progress_end;
};

/* Progress per second that was computed before. */
struct rate_slot {
    uint64_t placement;
    uint32_t app, batch, epoch;
    double rate;
};

struct pollux {
    struct pollux_app apps[POLLUX_APPS_MAX];
    uint32_t app_count;
    struct rate_slot *cache; /* open addressing */
    uint32_t cache_size, cache_len;
};

static inline uint64_t grid_key(uint32_t nodes, uint32_t gpus)
{
    return (uint64_t)nodes << 32 | gpus;
}

/* `gpus` on as few nodes of `cards` as possible; `counts` has room for AT_NODES_MAX. */
struct at packed_at(uint32_t gpus, uint32_t cards, uint8_t *counts);
