/* engine - what the files of the engine share. Private to sim.
 *
 * life (life/life.h) decides what happens to jobs: the engine tells it what the trace and the model do, and
 * carries its effects out in the model. Phases, restarts, claims and attained service are life's; the engine
 * keeps where a job is and how far it has come. */
#pragma once

#include "base/heap.h"
#include "life/life.h"
#include "sim/promise.h"
#include "sim/sim.h"

struct run_job {
    struct progress p;
    double last_s;  /* progress is known up to then */
    double delay_s; /* of the start, still to go */
    double due_s;   /* when it is to be looked at (events) */
    double end_s, gpu_s, lost_s;
    double contention_s; /* demand per GPU over its life; negative of where it began until it is over */
    size_t place;        /* in the heap */
    struct slot *slots;
    uint8_t *counts;
    struct at at;
    uint32_t starts;
    uint32_t known; /* sizes of its curve that were measured */
    bool running;   /* in the model */
    bool over;
    bool learned; /* what it ran on counts as measured with its next forecast */
};

struct run {
    const struct trace *trace;
    const struct sim_options *options;
    struct sim_rules rules;
    const struct sched_traits *is;
    struct sched_options sched;
    struct life *life;
    struct life_effects effects;
    struct promise *promise; /* NULL: too many GPUs to look each time */
    struct run_job *jobs;
    struct heap heap;
    bool stale;           /* jobs came or went since the last decision */
    double renewed;       /* when that was */
    VEC(uint32_t) active; /* running ones, for rounds */
    VEC(float) decisions; /* microseconds */
    VEC(struct sim_sample) samples;
    uint32_t *on_card; /* two for each card: job + 1 */
    uint32_t *card0;   /* of each node */
    bool elastic, shares, pending;
    double now, contention, idle_s, busy_s, last_account;
    double gap_s, decided_s; /* between decisions of policies that weigh all jobs against each other */
    VEC(double) starts;      /* of jobs that could not be stopped yet when the scheduler looked, by time */
    size_t starts_seen;
    uint32_t arrived, finished, waiting, gpus, used, wanted;
    uint32_t sample_every, sample_skip;
};

int64_t ms_of(double seconds);
double clock_us(void);
/* Lets a job go on in the model up to then; it may be over before. */
void advance(struct run *run, uint32_t index, double to);
void set_due(struct run *run, uint32_t index);

/* ---- cards.c: who is on which card, and how they slow each other ---- */

/* Sets at.factor as its neighbours have it. */
void refactor(struct run *run, uint32_t index);
/* It comes to its cards or leaves them; its neighbours are slower or faster from now on. */
void occupy(struct run *run, uint32_t index, bool on);
float told_factor(void *of, uint64_t id, uint64_t with); /* for live_pairs */

/* ---- result.c ---- */

void account(struct run *run); /* up to now */
void sample(struct run *run);
void collect(struct run *run, struct sim_result *ret);
