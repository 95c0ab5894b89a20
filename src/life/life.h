/* life - what happens to work, as a function: state, event and time in, new state and effects out.
 *
 * A life holds every job that is not over, the scheduler (sched/live), what was learned about how long jobs
 * take, and who used how much. It does no I/O and asks no clock. berthd feeds it from the store and carries
 * its effects out through the registry; `berth simulate` feeds it from a trace and carries them out in a
 * model; tests/world does both at once. Phases change only through the table of domain/lifecycle.h.
 *
 * One event is one call of life_step(). Then life_decide() asks the scheduler what to do about it. Effects
 * come out in the order in which they are to be carried out. Each can be carried out twice without harm: a
 * run has a number, a stop is a state, and whoever crashes between two effects restores the job from what it
 * stored (LIFE_RESTORE) and steps on from there.
 *
 * A job goes Pending -> Starting (its cards are held, a pod is being made) -> Running (a node said so) ->
 * Stopping (for whom and why is in `stop`) -> Preempted or one of the three ends. What cannot start for a
 * reason outside the scheduler is `blocked`: it is never started, and nobody is displaced for it. */
#pragma once

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/vec.h"
#include "sched/live.h"

#define LIFE_BACKOFF_FIRST_MS  10000
#define LIFE_BACKOFF_MAX_MS    600000
#define LIFE_LATE_MS           10000 /* what is due is looked at sooner, unless the clock jumps */
#define LIFE_PLAN_AGE_MS       1000  /* an explained plan is used that long while nothing changes */
#define LIFE_PASSES_MAX        16    /* decisions that change something, at one instant */
#define LIFE_BLOCKS_MAX        64 /* jobs found to be blocked, at one instant: the others have their turn later */
#define LIFE_OVER_STOP_PERCENT 110 /* of the reservation: stopped when measured twice */
#define LIFE_OVER_STOP_TIMES   3   /* less than that above it: stopped when measured that often */

enum life_stop_kind { STOP_NONE, STOP_PREEMPT, STOP_RESIZE, STOP_MEMORY, STOP_CANCEL };
const char *life_stop_name(enum life_stop_kind kind); /* "preempt", as stored */
enum life_stop_kind life_stop_find(const char *name); /* STOP_NONE: no such kind */

/* An outstanding stop. Strings are the job's own. */
struct life_stop {
    enum life_stop_kind kind;
    char *by, *by_name; /* row and name of the job that needs the place; NULL: nobody */
    uint64_t by_id;     /* 0: not known (any more) */
    char *reason;
    int64_t since_ms;
    int64_t until_ms; /* when it is killed if it has not stopped by itself */
    int64_t epoch;    /* the first epoch whose question was answered with yes; -1: none was */
    int64_t heard_ms; /* when that was */
    bool killed;      /* TERM was sent, or its pod is being deleted */
};

/* A job that is not over. Borrowed from the life, read-only for everybody else but `of`. */
struct life_job {
    struct workload w; /* as sched has it */
    void *of;          /* the caller's own */
    char *row;         /* what people know it by: the uid of its own object, or of the Job it is a pod of */
    char *image, *script;
    uint32_t batch_size;
    uint64_t training_set;
    int64_t asked_mib; /* on each card, as the user says; 0: whole cards */

    char *reason;  /* one sentence: why it is in this phase */
    char *blocked; /* why it cannot start now; NULL: it can */
    char *trouble; /* Starting, or waiting after that failed: what the node said; NULL: nothing */
    struct life_stop stop;
    struct forecast forecast;

    uint32_t run;             /* number of the present or last run; 0: none yet */
    uint32_t run_first_epoch; /* epochs that were done when it began */
    uint32_t refusals;        /* starts in a row that came to nothing */
    bool stuck;               /* Starting, and the node says that it cannot go on */
    int64_t placed_ms;        /* of the present run */
    int64_t progress_ms;      /* Starting: when the node last said something new */
    int64_t first_start_ms;   /* 0: never ran */
    int64_t finished_ms;      /* 0: not over */
    int64_t since_ms;         /* of the present phase */
    int64_t waited_ms, ran_ms, lost_ms;
    double last_epoch_s;
    struct epoch_log epochs;   /* what they took, over all runs */
    int64_t epoch_at_ms;       /* when the last epoch of this run ended; 0: none did */
    int64_t no_stop_epoch;     /* the newest epoch whose question was answered with no; -1: none */
    uint64_t iterations;       /* reported in this run */
    uint64_t steps_done;       /* over all runs, when the last epoch ended */
    uint64_t run_first_step;   /* steps that were done when the run began */
    int64_t peak_mib, now_mib; /* measured on one card, the largest; 0: not */
    uint32_t over_times;
    bool over_warned, polled, profiled;
    bool timed;      /* may have a deadline */
    int64_t ordinal; /* when it ended: what life_ordinal says of it from then on */
    uint32_t place;  /* in live_view() */
};

/* ---- events ---- */

enum life_event_type {
    LIFE_SUBMIT,   /* `desc`: a new job */
    LIFE_RESTORE,  /* `desc` and `saved`: as it was stored */
    LIFE_DESCRIBE, /* `desc`: its description has changed (labels, spec, priority, claim) */
    LIFE_BLOCK,    /* `text`: why it cannot start now; NULL: nothing is in the way any more */
    LIFE_REFUSED,  /* EFFECT_START could not be carried out; `text`: why */
    LIFE_PROGRESS, /* Starting; `text`: how far it is */
    LIFE_STUCK,    /* Starting; `text`: what keeps it from starting */
    LIFE_RUNS,     /* a node reports it running */
    LIFE_EPOCH,    /* `epochs` are done, over all runs; `seconds`: of the last one, 0: not said */
    LIFE_PROFILE,  /* `sample`: how long its iterations take */
    LIFE_MEMORY,   /* `mib` measured on `slot` */
    LIFE_EXIT,     /* its processes are gone; `status`, `text`: what they said; `lost`: not their fault */
    LIFE_CANCEL,   /* `text`: by whom */
    LIFE_CLAIM,    /* its owner asks for the GPUs of others */
    LIFE_UNCLAIM,  /* and takes that back */
    LIFE_BOUND,    /* somebody else has placed it on `slots` */
    LIFE_LEAVE,    /* nothing is left of it: forgotten, cancelled where it was not over */
};

/* What is known of a job before it runs; strings are copied. Of `w` the description counts: name, user, kind,
 * priority, demand, selector, submit, deadline, declared time, epochs_total, can_checkpoint, keep, asked,
 * resumable, not_before. */
struct life_desc {
    const char *row;
    struct workload w;
    const char *image, *script;
    uint32_t batch_size;
    uint64_t training_set;
    int64_t asked_mib;
    void *of;
};

struct life_event {
    enum life_event_type type;
    uint64_t id;
    const struct life_desc *desc;
    const struct life_job *saved; /* what of it is stored, `w` included; strings are copied */
    const char *text;
    uint32_t epochs;
    double seconds;
    const struct sample *sample;
    struct slot slot;
    struct placement slots;
    int64_t mib;
    int status;
    bool lost;
    bool shared; /* EPOCH, PROFILE: somebody else was on its cards */
};

/* ---- effects ---- */

enum life_effect_type {
    EFFECT_START,     /* run `run` on `slots`: bind the pod, or make the pods of the run */
    EFFECT_GIVE_BACK, /* the start came to nothing: unbind the pod, or delete the pods of the run */
    EFFECT_KILL,      /* TERM now, KILL after the grace */
    EFFECT_WRITE,     /* what is stored of it has changed */
    EFFECT_RECORD,    /* a transition: `phase`, `text`, `stop`, `lost_ms` */
    EFFECT_SPANS,     /* `on`: it holds its cards from now on; else: no longer (`slots`: which) */
    EFFECT_TELL,      /* its owner: `tell`, `text` */
    EFFECT_LEARNED,   /* the estimator knows more about its image and script: to be stored */
    EFFECT_EPOCH,     /* an epoch ended, in `seconds` */
    EFFECT_END,       /* over, as `phase` says: the last effect of it; it is forgotten after the call */
};

enum life_tell {
    TELL_STARTED,
    TELL_RESTARTED,
    TELL_STOPPING, /* to be preempted */
    TELL_RESIZING,
    TELL_NOTICE, /* a pod that cannot resume is going to be stopped */
    TELL_KILLING,
    TELL_WITHDRAWN, /* goes on: the place is not needed any more */
    TELL_PREEMPTED,
    TELL_OVER_MEMORY,
    TELL_CANNOT_START,
    TELL_SUCCEEDED,
    TELL_FAILED,
    TELL_CANCELLED,
    TELLS,
};
/* "Preempting", "Warning": reason and type of an event about it. */
const char *life_tell_reason(enum life_tell tell);
bool life_tell_warns(enum life_tell tell);

struct life_effect {
    enum life_effect_type type;
    struct life_job *job; /* lives until the effects are cleared */
    enum phase phase;
    enum life_tell tell;
    bool on;
    const struct slot *slots; /* in the effects' arena */
    uint32_t slot_count;
    const char *text; /* in the effects' arena */
    const struct life_stop
        *stop; /* RECORD: the stop it was about; strings in the effects' arena. NULL: none */
    int64_t lost_ms;
    double seconds;
};

/* Zero-initialised is empty. */
struct life_effects {
    VEC(struct life_effect) v;
    VEC(struct life_job *) dead; /* jobs that are over, freed by life_effects_clear */
    struct arena arena;
};
void life_effects_clear(struct life_effects *effects);
void life_effects_done(struct life_effects *effects);
static inline void life_effects_done_cleanup_(struct life_effects *effects)
{
    life_effects_done(effects);
}

/* ---- the whole ---- */

struct life_rules {
    struct sched_options sched;
    int64_t stop_min_ms, stop_max_ms; /* how long a job may take to stop at an epoch's end */
    int64_t start_ms;                 /* Starting without a word from the node: given back after that */
    int64_t stuck_ms;                 /* Starting, and the node says that it cannot go on: likewise */
    int64_t notice_ms; /* between the notice to the owner of a pod that cannot resume and its stop */
    int64_t half_life_ms;
    bool quiet;   /* no RECORD, TELL and texts: the simulator's */
    bool at_once; /* a job that is asked to stop has stopped: models in which that is possible anywhere */
    /* What the caller's model knows of a job's speed, in place of the estimator; NULL: the estimator. */
    void (*forecast)(void *of, const struct life_job *job, int64_t now_ms, struct forecast *ret);
    void *of;
};
extern const struct life_rules life_defaults;

struct life;
struct life *life_new(const struct sched_policy *policy, const struct cluster *cluster,
                      const struct life_rules *rules);
void life_free(struct life *life); /* NULL is fine */
DEFINE_CLEANUP(struct life *, life_free);

/* ERR_NOT_FOUND: no such job. ERR_CONFLICT: the life cycle has no such step (an event that came late: nothing
 * has changed). ERR_INVALID: a demand that cannot be. ERR_LIMIT. */
int life_step(struct life *life, const struct life_event *event, int64_t now_ms, struct life_effects *effects,
              struct err *err);

/* Asked before anything is done for a job: why it cannot start on so many cards now, in the arena, or NULL.
 * slots: which those would be, NULL: not known yet. What it said yes to in the same call of life_decide() has
 * not been carried out yet; where that decides the answer, it says life_admit_later, and is asked again
 * after that. */
typedef const char *(*life_admit_fn)(void *arg, const struct life_job *job, const struct slot *slots,
                                     uint32_t gpus, struct arena *arena);
extern const char life_admit_later[];
/* What the scheduler decides now, and what is due: deadlines of stops and starts. Returns whether anything
 * came out. admit NULL: everything may start. */
bool life_decide(struct life *life, int64_t now_ms, life_admit_fn admit, void *arg,
                 struct life_effects *effects);
/* When life_decide() should be called although nothing happens; INT64_MAX: not before the next event. */
int64_t life_next_ms(const struct life *life, int64_t now_ms);

/* Does it have to stop before `epoch`? The first answer for an epoch stands for all processes that ask. epoch
 * -1: not said, the one after those that are done. *write: the answer has to be durable before it is given.
 */
int life_has_to_stop(struct life *life, uint64_t id, int64_t epoch, int64_t now_ms, bool *ret, bool *write,
                     struct err *err);

/* The cluster changed: nodes keep their indexes. */
void life_cluster(struct life *life, const struct cluster *cluster);

/* ---- reading ---- */

struct life_job *life_find(const struct life *life, uint64_t id); /* NULL: no such job */
struct life_walk {
    size_t at;
    struct life_job *job;
};
bool life_each(const struct life *life, struct life_walk *walk); /* in no order */
const struct live *life_live(const struct life *life);
struct live *life_live_mut(struct life *life); /* for live_pairs */
struct estimator *life_estimator(struct life *life);
struct usage *life_usage(struct life *life);
bool life_shared(const struct life *life, const struct life_job *job); /* somebody is on one of its cards */

/* When a job starts and when it ends: the only place that says so. 0: not known; INT64_MAX: never here. Times
 * that have been (a running job's start) are not estimates and have lo = hi. */
struct life_when {
    int64_t start_ms, start_lo_ms, start_hi_ms;
    int64_t end_ms, end_lo_ms, end_hi_ms;
};
void life_when(struct life *life, const struct life_job *job, int64_t now_ms, struct life_when *ret);
/* Its place in the queue; NULL: it does not wait. Valid until the next change. */
const struct wait *life_wait(struct life *life, const struct life_job *job, int64_t now_ms);
const struct plan *life_plan(struct life *life, int64_t now_ms); /* explained: all that wait, in order */
/* Thousandths of GPUs of its user up to and including it; of one that is over, as it was. */
int64_t life_ordinal(const struct life *life, const struct life_job *job);
/* Thousandths of GPUs of everybody up to and including it, in the order of the queue. */
int64_t life_global(struct life *life, const struct life_job *job, int64_t now_ms);
/* What state it is in and why, in words: the only place that says so. */
void life_why(struct life *life, const struct life_job *job, int64_t now_ms, struct buf *ret);
