/* world - a small random cluster with jobs that come, run, end and are relabelled: what the property tests
 * play on. All randomness comes from one seed. */
#pragma once

#include "sched/live.h"

#define WORLD_NODES 4
#define WORLD_CARDS 4
#define WORLD_LOG   2000

struct world {
    uint64_t seed;
    int64_t now;
    uint64_t next_id;
    struct gpu gpus[WORLD_NODES][WORLD_CARDS];
    struct label labels[WORLD_NODES][1];
    struct node nodes[WORLD_NODES];
    struct cluster cluster;
    struct sched_options options;
    const struct sched_policy *policy;
    struct live *live;
    struct plan plan;
    struct live_event log[WORLD_LOG];
    uint32_t log_len;
    struct arena arena; /* of the log */
};

void world_init(struct world *world, uint64_t seed, const struct sched_policy *policy);
void world_done(struct world *world);
uint32_t world_random(struct world *world, uint32_t below);
/* One random thing happens. */
void world_step(struct world *world);
void world_add(struct world *world);
/* Decides and carries it out. */
void world_decide(struct world *world);
/* Ends the n-th running job, or lets it stop if it is asked to; false when nothing runs. */
bool world_end_one(struct world *world, uint32_t n);
void world_apply(struct world *world, struct live_event event);
