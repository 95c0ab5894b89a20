/* sched - who runs next, where, on how many GPUs, and who has to make room: a pure function.
 *
 * sched_plan() looks at a cluster and its workloads at one instant and writes down what to do (actions) and,
 * for everything that goes on waiting, why and for how long (waits). Same arguments, same plan. The caller
 * carries actions out in their order and tells the outcome by calling again with changed workloads; what is
 * not carried out is simply planned again. live.h has the same decisions at the price of one event. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/vec.h"
#include "domain/workload.h"
#include "sched/estimate.h"
#include "sched/usage.h"

#define LAS_SPLITS 2
#define SCHED_NONE ((uint32_t)-1) /* no job */

enum preemption {
    PREEMPTION_AUTO, /* waiting jobs displace those of larger rank by themselves */
    PREEMPTION_ASK,  /* only those whose owner said so: workload.asked */
    PREEMPTION_OFF,
};

enum place_rule {
    PLACE_BEST_FIT, /* where the least is left over */
    PLACE_EMPTIEST, /* where the most is left over */
    PLACE_FRAGMENT, /* where the GPUs left over suit most of view.mix */
};

/* What sort of workload comes how often: PLACE_FRAGMENT keeps room in these shapes. */
struct mix_row {
    struct demand demand; /* min_gpus of it */
    struct labels selector;
    double weight; /* any scale */
};

struct sched_options {
    enum preemption preemption;
    enum place_rule place;
    int64_t min_run_ms;     /* after its start a job is left alone that long */
    int64_t restart_ms;     /* what stopping and starting again costs */
    int64_t repay_ms;       /* within which a change of size has to repay that */
    int64_t las_split_ms;   /* las: GPU time after which a job is in the second queue */
    int64_t las_split2_ms;  /* and in the third; 0: there is none */
    bool las_keep;          /* within a queue, what runs stays */
    double rank_power;      /* berth: how strongly short jobs come first, 0..0.9 */
    double critical_margin; /* berth: a job is critical when that many times its own time exceeds that of all
                               work */
    uint32_t probes_max;    /* restarts spent on learning a job's speed-up */
    bool backfill;          /* fifo: jobs that fit may start before one that does not */
    bool spread_shares;     /* shares go to an empty card while there is one */
};
extern const struct sched_options sched_defaults;

/* Speed of `job` relative to alone while `with` is on its cards; 0: they cannot share. */
typedef float (*sched_pair_fn)(void *of, uint64_t job, uint64_t with);

struct sched_view {
    const struct cluster *cluster;
    const struct workload *jobs; /* those that are over are skipped */
    uint32_t job_count;
    const struct forecast *forecasts; /* one per job; NULL: made from what the jobs declare */
    const struct usage *usage;        /* NULL: nobody used anything */
    const struct mix_row *mix;        /* NULL: made from the jobs */
    uint32_t mix_len;
    struct sched_options options;
    sched_pair_fn pair; /* NULL: not known; then forecast.shared counts */
    void *pair_of;
};

enum action_type {
    ACTION_START,   /* on `slots` */
    ACTION_PREEMPT, /* stop `job`; `by` is going to run there */
    ACTION_RESIZE,  /* stop `job` at its epoch's end, then start it on `slots`; `by`: who needs the rest */
    ACTION_CLAIM,   /* `slots` are kept for `job` until those that are in the way have gone */
    ACTION_UNCLAIM, /* the claim of `job` cannot come true any more */
};

struct action {
    enum action_type type;
    uint32_t job, by; /* indexes of view.jobs; by: SCHED_NONE when nobody */
    const struct slot *slots;
    uint32_t slot_count;
    int64_t lost_gpu_ms; /* of a PREEMPT or RESIZE: work done again */
    int64_t by_ordinal;  /* thousandths of a GPU: "preempted by X's 1st GPU job" */
};

enum wait_reason {
    WAIT_GPUS,       /* all GPUs it could use are taken by jobs of no larger rank */
    WAIT_FRAGMENTED, /* enough are free, but not together on one node */
    WAIT_SHARE,      /* no card has that much memory free */
    WAIT_CPU,        /* GPUs would be free where CPU or memory is not */
    WAIT_VICTIM,     /* `about` is asked to stop for it */
    WAIT_HELD,       /* free GPUs are kept for `about`, which is ahead */
    WAIT_PROTECTED,  /* those it may displace are in their last epoch or have just started */
    WAIT_BACKOFF,    /* until its not_before */
    WAIT_ASK,        /* `about` cannot resume: it makes room only if the owner asks (berth claim) */
    WAIT_BLOCKED,    /* something outside sched keeps it from starting; who said so knows what */
    WAIT_NO_NODE,    /* no node has that many GPUs, or that much CPU and memory */
    WAIT_NO_CARD,    /* no card has that much memory */
    WAIT_NO_LABEL,   /* no node has the labels it asks for */
    WAIT_ORDER,      /* the policy gives all GPUs to others now */
    WAIT_REASONS,
};

struct wait {
    uint32_t job;
    uint32_t position; /* 1 is next */
    enum wait_reason reason;
    uint32_t about;                             /* a job the reason names, or SCHED_NONE */
    uint32_t node;                              /* of WAIT_CPU: the node that comes nearest, and */
    struct resources free;                      /* what it has free */
    uint32_t free_gpus;                         /* of WAIT_GPUS: GPUs that nobody uses */
    int64_t ordinal;                            /* thousandths of a GPU; fair's rank */
    int64_t start_ms, start_lo_ms, start_hi_ms; /* estimate; INT64_MAX: never as things are */
};

/* Zero-initialised is empty; can be used again and again. */
struct plan {
    VEC(struct action) actions;
    VEC(struct wait) waits; /* by position */
    struct arena arena;     /* of the slots */
};
void plan_done(struct plan *plan);
static inline void plan_done_cleanup_(struct plan *plan)
{
    plan_done(plan);
}

enum sched_sizes {
    SIZES_ASKED,  /* jobs run on as many GPUs as they ask for */
    SIZES_SPARE,  /* elastic jobs also get what nobody waits for */
    SIZES_CHOSEN, /* the policy chooses the number for every elastic job */
};

/* What a policy is, for whoever runs it: nobody has to know one by its name. */
struct sched_traits {
    const char *name;
    const char *information; /* what it has to know about jobs */
    enum sched_sizes sizes;
    bool guests;      /* jobs have cards of their own, and guests where both together are faster */
    bool forecasts;   /* believes what is known of lengths and speeds; errors in them matter */
    bool own_options; /* chosen with sched_defaults: rules of a simulation are about the others */
    bool on_change;   /* decides nothing new unless jobs came or went */
    int64_t gap_ms;   /* between decisions on more than SCHED_SMALL_GPUS GPUs; 0: one for every event */
};
#define SCHED_SMALL_GPUS 1024

struct sched_policy;
extern const struct sched_policy *const sched_policies[]; /* NULL at the end; the first is the default */
const struct sched_policy *sched_policy_find(const char *name); /* NULL: no such policy */
const struct sched_traits *sched_policy_traits(const struct sched_policy *policy);
const char *sched_policy_name(const struct sched_policy *policy);

void sched_plan(const struct sched_policy *policy, const struct sched_view *view, int64_t now_ms,
                struct plan *plan);

/* ---- in words ---- */

/* "waiting for 2 GPUs: 1 of 4 is free" */
void sched_wait_text(const struct sched_view *view, const struct wait *wait, struct buf *buf);
/* "preempted by ann's 1st GPU job train-7" */
void sched_action_text(const struct sched_view *view, const struct action *action, struct buf *buf);
/* "1st", "2nd", "0.5th" GPU of thousandths. */
void sched_ordinal_text(int64_t milli, struct buf *buf);
