/* live - the scheduler with a memory: events in, actions out, the price of one event instead of a whole plan.
 *
 * It owns a copy of every active workload and the sorted queue. An event changes the workload, its user's
 * ordinals and its place in the queue; live_decide() then looks at what could start or has to stop. The
 * decisions are those that sched_plan() takes over the same workloads (a property test holds that).
 * Positions, reasons and start estimates of everything that waits are made on request. */
#pragma once

#include "base/err.h"
#include "sched/sched.h"

#define LIVE_JOBS_MAX 1000000

enum live_event_type {
    LIVE_ADD,      /* `workload`: new, or as a whole in place of the one with that id */
    LIVE_PLACE,    /* it holds `slots` and is being started; counts restarts and probes */
    LIVE_RUNS,     /* a node reports it running */
    LIVE_ASK_STOP, /* the stop was sent */
    LIVE_UNASK,    /* the stop was withdrawn; its claim goes with it */
    LIVE_CLAIM,    /* `slots` are kept for it; none: no longer. While it holds cards: it is being resized */
    LIVE_STOPPED,  /* it waits again, by `change`; its claim stays */
    LIVE_EPOCH,    /* epochs_done */
    LIVE_RELABEL,  /* priority, user */
    LIVE_BLOCK,    /* `blocked`, or no longer */
    LIVE_CHANGE,   /* of `workload`: demand, selector, keep, asked, resumable, epochs_total, not_before_ms */
    LIVE_END,      /* succeeded, failed, cancelled or deleted: forgotten */
};

struct live_event {
    enum live_event_type type;
    uint64_t id;
    int64_t at_ms;
    struct workload workload; /* LIVE_ADD, LIVE_CHANGE */
    struct placement slots;   /* LIVE_PLACE, LIVE_CLAIM */
    /* LIVE_STOPPED: CHANGE_STOPPED, _LOST, _RETRY or _GIVE_BACK; CHANGE_PLACE (0): as its phase tells. */
    enum change change;
    bool blocked;
    int64_t stop_by_ms; /* LIVE_ASK_STOP: when it is made to stop at the latest; 0: not known */
    uint32_t epochs_done;
    int32_t priority;
    const char *user;
};

struct live;

/* cluster and usage are borrowed. ERR-less: options are taken as they are. */
struct live *live_new(const struct sched_policy *policy, const struct cluster *cluster,
                      const struct sched_options *options, const struct usage *usage);
void live_free(struct live *live); /* NULL is fine */
DEFINE_CLEANUP(struct live *, live_free);

/* Copies what it keeps. ERR_NOT_FOUND: no such job. ERR_CONFLICT: the life cycle has no such step.
 * ERR_LIMIT: LIVE_JOBS_MAX. ERR_INVALID: a slot that does not exist or is taken. */
int live_apply(struct live *live, const struct live_event *event, struct err *err);
/* A better idea of how long a job takes; ERR_NOT_FOUND. */
int live_forecast(struct live *live, uint64_t id, const struct forecast *forecast, struct err *err);
/* How jobs slow each other on one card; called in decisions. */
void live_pairs(struct live *live, sched_pair_fn pair, void *of);
/* What usage knows of this user changed. */
void live_usage(struct live *live, const char *user);
/* The cluster changed: nodes keep their indexes, placements on what has gone are LIVE_STOPPED first. */
void live_cluster(struct live *live, const struct cluster *cluster);

/* What to do now; job indexes are of live_view(). plan->waits stays empty. */
void live_decide(struct live *live, int64_t now_ms, struct plan *plan);
/* The same as a question: nothing is noted of it. */
void live_try(struct live *live, int64_t now_ms, struct plan *plan);
/* For whom free cards were kept at the last decision; 0: nobody. */
uint64_t live_held_for(const struct live *live);
/* When time alone changes the order of those that run; INT64_MAX: never. */
int64_t live_turn_ms(const struct live *live, int64_t now_ms);
/* As sched_plan() at this moment, with all waits. */
void live_plan(struct live *live, int64_t now_ms, struct plan *plan);
/* The workloads as a view; lives until the next event. Indexes of jobs that have ended are reused; such an
 * entry is over until then. */
const struct sched_view *live_view(const struct live *live);
uint32_t live_find(const struct live *live, uint64_t id); /* SCHED_NONE: no such job */
/* Thousandths of a GPU: its user's GPUs up to and including it; what it counts as itself. 0: no such job. */
int64_t live_ordinal(const struct live *live, uint64_t id);
int64_t live_ordinal_at(const struct live *live, uint32_t job); /* by its index in live_view() */
int64_t live_milli_at(const struct live *live, uint32_t job);
/* The i-th of those that run, in the policy's order; SCHED_NONE past the last. */
uint32_t live_running(const struct live *live, size_t i);
uint64_t live_digest(const struct live *live); /* equal for equal states */
