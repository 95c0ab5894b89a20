/* workload - something that runs on GPUs or CPUs: a TrainingJob, a Pod or a Job, as the scheduler sees it.
 *
 * Everything a workload points at is borrowed. Times are milliseconds since the epoch (or since the start of
 * a simulation), spans are milliseconds. */
#pragma once

#include "base/str.h"
#include "domain/lifecycle.h"
#include "domain/node.h"

#define DEMAND_GPUS_MAX 65536          /* of one workload */
#define SLOT_CPU        ((uint32_t)-1) /* card of a slot without one: only CPU and memory */

enum workload_kind { WORKLOAD_TRAINING, WORKLOAD_POD, WORKLOAD_JOB };

/* What it needs. A unit is what has to be on one node: unit_gpus cards and `each` of CPU and memory. With
 * unit_gpus 0 the workload is one unit. All units start together or none does (a gang). */
struct demand {
    uint32_t min_gpus, max_gpus; /* equal: rigid; 0: CPU only; a multiple of unit_gpus */
    uint32_t unit_gpus;
    uint32_t mib;   /* on each card; 0: whole cards */
    bool exclusive; /* nobody else on its cards, although `mib` is given */
    struct resources each;
};

/* One card of a placement, or (SLOT_CPU) one unit that has none. */
struct slot {
    uint32_t node, card;
    uint32_t mib; /* taken there; the whole card's memory when it is alone there */
};

/* In the order of nodes and units: unit_gpus slots after each other are one unit. */
struct placement {
    const struct slot *v;
    uint32_t len;
};

struct workload {
    uint64_t id; /* not 0 */
    const char *name;
    const char *user; /* NULL: anonymous */
    enum workload_kind kind;
    int32_t priority;
    struct demand demand;
    struct labels selector;
    int64_t submit_ms;
    int64_t not_before_ms; /* back-off after a failure */
    int64_t stop_by_ms;    /* while Stopping: when it is made to stop; 0: not known */

    uint32_t epochs_total, epochs_done; /* total 0: not known */
    int64_t declared_ms;                /* est_nhours, on one GPU; 0: not given */
    int64_t deadline_ms;                /* 0: none */
    bool can_checkpoint;                /* goes on where its last epoch ended */
    bool keep;                          /* never to be preempted */
    bool asked;                         /* its owner asked for the GPUs of others (berth claim) */
    bool blocked;   /* cannot start now for a reason outside sched (quota, limits, account, ...): it is not
                       started, nobody is displaced for it, it holds no claim and blocks nobody */
    bool refused;   /* its last start came to nothing: it may have free cards, but nobody makes room for it */
    bool resumable; /* may be displaced by itself, as it goes on later; false: only for who `asked` */

    enum phase phase;
    struct placement placement; /* while phase_holds() */
    /* While it waits: what is being freed for it. While it is Stopping to be resized, and until it is placed
     * again: the size and place it goes on with. Nobody else gets that. */
    struct placement claim;
    bool resizing;    /* the claim is of the second sort; kept by sched/live */
    int64_t bound_ms; /* a large job that came to the head of the queue is to start by then; 0: none. Kept by
                         sched/live */
    int64_t started_ms; /* when this incarnation ran; 0: it does not yet */
    int64_t saved_ms;   /* when its last epoch ended, in this incarnation; 0: not yet */

    uint64_t attained_gpu_ms; /* of all incarnations before this one */
    int64_t queue_ms;         /* las: its place among those that wait; 0: as it was submitted */
    int64_t queue_run_ms;     /* las: when it had come to run before it was stopped */
    uint32_t queue;           /* las, as Tiresias' simulator: the queue it was found to be in */
    uint32_t restarts, probes;
};

/* What the label `priority` says: an integer, or "0-3" for -3 (a label cannot begin with a minus; "-3" is
 * taken, too). Other text counts as 0; then *warning says so, for an event. It is NULL otherwise. */
int32_t priority_parse(struct str text, const char **warning);

#define PRIORITY_MAX 1000000

static inline bool demand_whole(const struct demand *demand)
{
    return demand->mib == 0 || demand->exclusive;
}

static inline bool demand_elastic(const struct demand *demand)
{
    return demand->max_gpus > demand->min_gpus;
}

/* A number of GPUs as users may write it: what no cluster has is cut at DEMAND_GPUS_MAX. */
static inline uint32_t demand_gpus(int64_t gpus)
{
    return gpus < 0 ? 0 : gpus > DEMAND_GPUS_MAX ? DEMAND_GPUS_MAX : (uint32_t)gpus;
}

/* Units of a placement on `gpus` cards (a CPU-only workload has one). */
uint32_t demand_units(const struct demand *demand, uint32_t gpus);

/* ERR-less check of a demand by itself: what is wrong with it, or NULL. */
const char *demand_fault(const struct demand *demand);

/* Thousandths of a GPU that `gpus` cards of this demand count as, when the smallest card that holds it has
 * card_mib: a share counts as its fraction, rounded up. */
int64_t demand_milli(const struct demand *demand, uint32_t gpus, uint32_t card_mib);

/* Its processes run, or ran when it was asked to stop. */
bool workload_runs(const struct workload *w);
/* What to keep on each card for a job whose largest use was peak_mib: a little more, but not more than the
 * largest card has as long as that has the peak. */
uint32_t demand_measured_mib(int64_t peak_mib, uint32_t largest_card_mib);

/* Whether its claim is its own place, to go on with. */
static inline bool workload_resizing(const struct workload *w)
{
    return w->claim.len > 0 && (w->resizing || w->phase == PHASE_STOPPING);
}
/* GPUs it holds now. */
uint32_t workload_gpus(const struct workload *w);
/* A job in its last epoch is left alone: it would not notice a stop. */
bool workload_in_last_epoch(const struct workload *w);
/* What a stop now would throw away, in GPU-milliseconds. */
int64_t workload_lost_gpu_ms(const struct workload *w, int64_t now_ms);
/* GPU-milliseconds of all its incarnations. */
uint64_t workload_attained(const struct workload *w, int64_t now_ms);
