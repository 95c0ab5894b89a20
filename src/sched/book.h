/* book - what one decision works on: jobs with their ordinals and shapes, both queues in order, the free
 * space. Private to sched. sched_plan() makes one for a view and drops it; live keeps one and changes it. */
#pragma once

#include "sched/space.h"

/* Where a job stands: smaller is earlier, compared from k[0] on, then by name, then by id. */
struct key {
    int64_t k[4];
    uint32_t job, user, shape;
    bool special; /* has a claim or a bound, is blocked, asked, or may have to wait for its not_before */
};

/* Jobs that need the same: what does not fit for one does not fit for the others. */
struct shape {
    struct demand demand;
    struct labels selector;
    uint32_t nodes;                  /* index of the selector's node set */
    enum wait_reason never;          /* why it can never run here; WAIT_REASONS: it can */
    enum wait_reason reason;         /* of this pass, once `failed` */
    uint32_t about, node, free_gpus; /* as struct wait has them */
    struct resources free;
    uint32_t waiting; /* how many keys of the queue have it */
    bool full;        /* does not fit into what is free */
    bool failed;      /* and cannot be served otherwise */
    bool failed_held; /* does not fit without what is held for another */
};

struct book_user {
    const char *name;      /* NULL: anonymous */
    int32_t step;          /* of usage */
    VEC(uint32_t) jobs;    /* in the user's own order */
    VEC(struct key) queue; /* those that wait, by key; of policies by user */
};

struct node_set {
    struct labels selector;
    uint8_t *may; /* per node */
    uint32_t count;
};

struct hash {
    uint32_t *slots; /* index + 1, or 0 */
    uint32_t size, len;
};

/* A running job that may be displaced, or the extra GPUs of an elastic one. */
struct victim {
    struct key key;
    int64_t lost_gpu_ms;
    bool shrink;    /* only what it has beyond its smallest size */
    bool taken;     /* it or another part of it is asked to stop in this pass */
    bool asked;     /* only for one whose owner asked: it cannot resume */
    uint32_t units; /* of a shrink: how much it gives */
};

/* On cards of its own; a guest on those of another; one that must not have guests; a guest that gets its own.
 */
enum role { ROLE_PLAIN, ROLE_GUEST, ROLE_CRITICAL, ROLE_MOVES };

enum where { WHERE_NONE, WHERE_WAITING, WHERE_RUNNING };

/* What is read for all jobs of a user with each change of one of them comes first. */
struct book_job {
    int64_t milli;   /* thousandths of a GPU it counts as */
    int64_t ordinal; /* running sum of its user's, including it */
    int64_t submit_ms;
    uint32_t shape, user;
    int32_t priority;
    int32_t step;      /* while it waits: length_step() of what it is expected to take; else 0 */
    int32_t rank_step; /* not less than those of its user's waiting jobs of higher priority */
    uint8_t where;     /* enum where */
    bool queued;       /* its key is up to date */
    bool waits;        /* and could start */
    bool cpu_only;
    bool bound; /* waits at the head (workload.bound_ms) */

    int64_t rest_ms;              /* while it waits: what it will take on its smallest size */
    int64_t end_ms, end_holds_ms; /* while it holds cards: book_end(), and until when that is so */
    int64_t k[4];                 /* its key in the queue, as it was put there */
    uint32_t special;             /* its place in book->specials + 1; 0: it is not there */
};

struct pace;
struct pace_row;

struct book {
    const struct sched_policy *policy;
    const struct sched_view *view;
    int64_t now;
    struct space space;
    struct space soon; /* as if all that is asked to stop had gone; made when first needed in a pass */
    bool soon_known;
    struct frag *frag;
    VEC(struct book_job) jobs; /* parallel to view.jobs */
    VEC(struct key) running, scratch;
    VEC(struct key) waiting;           /* of policies by user: only after order_flat(); else always */
    VEC(struct key) heads;             /* of policies by user: the first of each user's queue, sorted */
    VEC(uint32_t) places, kept_places; /* scratch */
    VEC(struct shape) shapes;
    VEC(struct node_set) sets;
    VEC(struct book_user) users;
    VEC(struct pace) paces; /* per job; of paced policies (pace.h) */
    VEC(struct pace_row) rows;
    VEC(uint32_t) paces_changed; /* jobs whose rows are out of date */
    VEC(double) weights;         /* by rank */
    VEC(uint32_t) specials;      /* jobs whose keys are special, in no order */
    uint32_t queued;             /* jobs that wait */
    struct hash user_hash, shape_hash, set_hash;
    uint32_t smallest_card, largest_card;

    /* of one pass */
    VEC(struct slot) slots;       /* room for one placement */
    VEC(uint32_t) leaving;        /* jobs that are asked to stop */
    VEC(uint32_t) unclaimed;      /* jobs whose claim was taken back */
    VEC(struct slot) given, kept; /* of an elastic job that makes room */
    uint32_t claims;              /* waiting jobs that a place is kept for */
    VEC(uint32_t) target;         /* GPUs per job, of policies that decide by targets */
    VEC(uint32_t) host;           /* of each guest */
    VEC(uint8_t) role;            /* enum role of each job, of policies that let jobs share by themselves */
    VEC(struct victim) victims;   /* who could be displaced, in that order; made when first needed */
    struct key victims_for;       /* for whom they were found */
    bool victims_known, victims_asked, has_leaving, has_extra;
    uint32_t open;         /* shapes that wait and have not failed in this pass */
    VEC(struct slot) held; /* cards that are kept for held_for */
    struct demand held_demand;
    struct key held_for; /* the first that has to wait; job SCHED_NONE: nothing is held */
    bool hold_known;     /* what is held for it was found out */
    bool explains;       /* reasons are wanted */
    int64_t held_until;  /* what is done by then may use what is held */
    int64_t fits_ms;     /* when it is expected to fit */
    uint32_t head;       /* held_for when it is a large job at the head; else SCHED_NONE */
};

struct sched_policy {
    struct sched_traits is;
    void (*key)(const struct book *book, uint32_t job, int64_t k[4]);
    /* Whether a waiting job may displace a running one; NULL: never. */
    bool (*outranks)(const struct book *book, const struct key *waiter, const struct key *runner);
    void (*decide)(struct book *book, struct plan *plan);
    /* When a running job's place in the order changes by itself; INT64_MAX: never. NULL: never. */
    int64_t (*next_ms)(const struct book *book, uint32_t job);
    /* A decision was taken: what it found out about a running job is noted in it. NULL: nothing. */
    void (*looked)(const struct sched_options *options, struct workload *w, int64_t now);
    bool paced;         /* reads pace.h */
    bool by_user;       /* keys depend on ordinals: one change moves many jobs of a user */
    bool shares_anew;   /* while nobody waits, extra GPUs are shared out anew (share.c) */
    bool reserves;      /* a job of several GPUs that comes to the head stays there (workload.bound_ms) */
    bool timed;         /* keys of running jobs change as time goes by */
    bool timed_waiting; /* and those of waiting jobs */
};

/* Notes where a running job that stops now will stand in the queues of las. */
void las_stopped(const struct sched_options *options, struct workload *w, int64_t now);

extern const struct sched_policy policy_fair, policy_fifo, policy_srtf, policy_las, policy_pressure,
    policy_berth;

void book_init(struct book *book, const struct sched_policy *policy, const struct sched_view *view,
               int64_t now);
void book_done(struct book *book);
static inline void book_done_cleanup_(struct book *book)
{
    book_done(book);
}

static inline const struct workload *book_job(const struct book *book, uint32_t job)
{
    return &book->view->jobs[job];
}

/* The forecast of the view, or one made into *room, as of its own moment. */
const struct forecast *book_forecast_as_of(const struct book *book, uint32_t job, struct forecast *room);
/* And played forward to now. */
const struct forecast *book_forecast(const struct book *book, uint32_t job, struct forecast *room);
int64_t book_rest_ms(const struct book *book, uint32_t job, uint32_t gpus);
/* Seconds as milliseconds, within REST_MAX_MS: sums over a whole queue do not overflow. */
int64_t ms_of_s(double seconds);
#define REST_MAX_MS 1000000000000                                         /* 31 years */
double book_rest_s(const struct book *book, uint32_t job, uint32_t gpus); /* seconds to go */
/* When a job that holds cards is expected to end: forecast_end() of it. */
struct when book_end(const struct book *book, uint32_t job);
int64_t book_end_ms(const struct book *book, uint32_t job); /* the same, kept for as long as it holds */
/* Since when it runs; one that is starting is expected to have run from when it was placed. */
int64_t book_since_ms(const struct workload *w, const struct forecast *f);
struct query book_query(const struct book *book, uint32_t job, uint32_t gpus);

/* The logarithm of a length, so that what is about as long counts as equal. */
static inline int length_step(uint64_t seconds)
{
    return 64 - __builtin_clzll(seconds > 0 ? seconds : 1);
}
static inline int length_step_ms(int64_t ms)
{
    return length_step(ms > 0 ? (uint64_t)ms / 1000 : 0);
}
/* A length that nothing was measured of tells short from long, not long from longer. */
#define UNSURE_S 5000.0

/* ---- order.c ---- */

int key_cmp_names(const struct book *book, const struct key *a, const struct key *b);
static inline int key_cmp(const struct book *book, const struct key *a, const struct key *b)
{
    for (int i = 0; i < 4; i++)
        if (a->k[i] != b->k[i])
            return a->k[i] < b->k[i] ? -1 : 1;
    return key_cmp_names(book, a, b);
}
/* Reads all jobs of the view: users, ordinals, both queues. */
void order_build(struct book *book);
/* Job `job` is new, has changed or is over (`gone`): its user's ordinals and both queues follow. */
void order_change(struct book *book, uint32_t job, bool gone);
/* Whether both are of one user, who wants the first before the other. */
bool order_own(const struct book *book, uint32_t job, uint32_t other);
/* Takes (1) or gives back (-1) what a job holds in the space. */
void book_use(struct book *book, uint32_t job, int times);
/* An epoch of it has ended: it keeps its place, its end is nearer. */
void order_epoch(struct book *book, uint32_t job);
/* Ends that are overdue are put off. */
void order_ends(struct book *book);
void order_usage(struct book *book, const char *user);
/* Time has passed: keys of running jobs of a timed policy. */
void order_time(struct book *book);

/* The queue in its order, one key after the other; the cost is that of the keys read. Zero but for the book;
 * nothing may be changed meanwhile. */
struct cursor {
    int64_t k[2];               /* of the key it is at, which most often tell */
    const struct key *at, *end; /* of one user's list */
};
struct walk {
    const struct book *book;
    size_t at;
    VEC(struct cursor) cursors; /* a heap of the lists that were begun */
};
const struct key *walk_next(struct walk *walk); /* NULL: that was the last */
static inline void walk_done_cleanup_(struct walk *walk)
{
    vec_done(&walk->cursors);
}
/* Puts all of the queue into book->waiting. */
void order_flat(struct book *book);

/* ---- deciding ---- */

/* Starts what fits in order; the outranked make room. */
void decide_by_rank(struct book *book, struct plan *plan);
/* Looks at what runs, makes room in book->slots. */
void book_survey(struct book *book);
/* Targets: the smallest size for jobs in order, as long as there are GPUs; what runs keeps its size.
 * Preemptive: what runs has to be in order, too. Else what runs stays, and the first that does not fit ends
 * it. */
void targets_in_order(struct book *book, bool preemptive);
/* Gives those with a target the size they would like, in order, from what is left. */
void targets_resize(struct book *book, uint32_t (*size)(const struct book *book, uint32_t job));
/* Clears the targets and marks the shapes that can never run. Returns the thousandths of GPUs there are. */
int64_t targets_clear(struct book *book);
int64_t capacity_milli(const struct book *book);
/* Jobs that are being resized get what they were told; the thousandths of GPUs of all of them. */
int64_t targets_resized(struct book *book);
/* Targets by marginal speed-up weighted by the rank of the remaining time. */
void targets_by_speed(struct book *book);
/* What elastic jobs count for by the rank of their work, the most of it first. */
const double *rank_weights(struct book *book, size_t len);
/* By how much more a job counts that takes long when all work takes total_s. */
double long_weight(double alone_s, double total_s);
/* Who of the running is a guest on whose cards: roles and, per job, the host (SCHED_NONE). */
void guests_find(struct book *book);
/* Lets jobs without a target be guests of running ones that stay, where both together are faster. */
void guests_place(struct book *book, struct plan *plan);
/* Speed of a beside b, relative to alone; 0: they cannot share. */
double pair_rate(const struct book *book, uint32_t a, uint32_t b);
/* Whether a running job gains more by the change of size than its restart costs. */
bool resize_pays(const struct book *book, uint32_t job, uint32_t from, uint32_t to);
bool wait_is_never(enum wait_reason reason);
/* Gives every job book->target GPUs: keeps, starts, resizes, preempts. */
void decide_by_target(struct book *book, struct plan *plan);
/* Hands GPUs that nobody waiting can use to elastic jobs. */
void size_grow(struct book *book, struct plan *plan);
/* While nobody waits: shares out all extra GPUs anew. */
void share_anew(struct book *book, struct plan *plan);
/* Whether a waiting job cannot start now, whatever is free. */
bool cannot_start(const struct book *book, uint32_t job);
/* Whether a running job may be stopped now: by itself, and for one whose owner asked. */
bool may_stop(const struct book *book, uint32_t job);
bool may_stop_asked(const struct book *book, uint32_t job);
struct action *plan_add(struct plan *plan, enum action_type type, uint32_t job, const struct slot *slots,
                        uint32_t len);
/* Why this shape can never run on this cluster; WAIT_REASONS: it can. */
enum wait_reason why_never(const struct book *book, const struct shape *shape);
/* Why this shape does not fit now. */
enum wait_reason why_not(const struct book *book, struct shape *shape);
/* The places of jobs that are being resized are put into the space; those that cannot come true any more are
 * taken back. */
void claims_restore(struct book *book, struct plan *plan);
bool has_place(const struct book *book, uint32_t job); /* that was restored */
bool has_claim(const struct book *book, uint32_t job); /* that was not taken back in this pass */
/* All that is asked to stop, as if it had gone (times -1), and back (1). */
void leaving_use(struct book *book, int times);
/* In the space and, when there is one, in the one to come. */
void book_space_use(struct book *book, const struct demand *demand, struct placement at, int times);
void book_space_claim(struct book *book, const struct demand *demand, struct placement at, int times);
/* A claim on what is being freed, if it fits there; `own`: only the claim it has already. */
bool claim_leaving(struct book *book, const struct key *waiter, bool own, struct plan *plan);
/* Lets outranked jobs make room: PREEMPT or RESIZE actions and a CLAIM. */
bool displace(struct book *book, const struct key *waiter, struct plan *plan);
/* Whether there may be somebody it could displace. */
bool may_displace(const struct book *book, const struct key *waiter);
/* Whom it would displace if its owner asked, one that cannot resume if any; SCHED_NONE: nobody. */
uint32_t would_take(struct book *book, const struct key *waiter, const struct plan *plan);
/* Takes (1) what is held, or lifts that for a while (-1). */
void hold_use(struct book *book, int times);
/* Runs the policy: actions only. */
void book_decide(struct book *book, struct plan *plan);
/* Positions, reasons and start estimates, after book_decide(). */
void explain_waits(struct book *book, struct plan *plan);
