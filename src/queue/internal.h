/* What the files of queue share.
 *
 * A unit is what sched places: a Pod, or a TrainingJob (its run's pods together). A row is what people see: a
 * TrainingJob, a Job with all its pods, or a Pod that belongs to neither. */
#pragma once

#include "base/clock.h"
#include "base/map.h"
#include "loop/loop.h"
#include "objects/names.h"
#include "queue/need.h"
#include "queue/queue.h"
#include "registry/registry.h"
#include "sched/live.h"

#define LOG_MODULE "queue"
#include "base/log.h"
#define PREEMPTION_REASON "PreemptionByScheduler"
#define RUN_RETRY_MS      10000 /* after a run could not be made */
#define TICK_MS           1000
#define NOTIFY_MS         100  /* watchers hear at most that often */
#define EXPLAIN_MS        5000 /* what waiting objects say of their place is renewed that often */
#define EXPLAIN_MAX       50   /* of them at once */
#define PLAN_AGE_MS       1000 /* an explained plan is used that long while nothing changes */
#define OVER_WARN_PERCENT 100
#define OVER_STOP_PERCENT 110 /* of the reservation, or twice measured above it */
#define OVER_STOP_TIMES   3
#define UNIT_SLOTS_MAX    1024
#define UNSAVED_MAX       10000

enum stop_kind { STOP_NONE, STOP_PREEMPT, STOP_RESIZE, STOP_MEMORY, STOP_CANCEL };
extern const char *const stop_names[];

/* An outstanding stop. Strings are the unit's. */
struct stop {
    enum stop_kind kind;
    char *by, *by_name, *reason;
    int64_t since_ms, until_ms; /* until: then TERM */
    int64_t epoch;              /* the first epoch whose question was answered with yes; -1: none was */
    int64_t heard_ms;           /* when that was */
    bool killed;                /* its pods are being deleted */
};

struct unit {
    struct workload w; /* as sched has it; strings and placements are the unit's */
    char *uid, *ns, *name;
    char *job, *job_name; /* of a Job's pod: the Job; else NULL */
    struct unit *next_of_job;
    int kind;             /* KIND_POD or KIND_TRAINING_JOB */
    char *image, *script; /* script: what samples are kept under */
    struct label *selector;
    uint64_t world; /* the queue's when the selector was made */
    uint32_t batch_size;
    uint64_t training_set;
    int64_t asked_mib; /* as the user says; 0: whole cards */
    bool seen;         /* explained at least once */
    bool over;         /* ended: stays until its cards are free */
    bool gone;         /* its object is gone */
    bool bad_priority;
    struct stop stop;
    uint32_t run;        /* of a TrainingJob: number of the present or last one */
    char *pod;           /* uid of its pod, or of the first pod of its run */
    int64_t finished_ms; /* 0: not */
    int64_t first_start_ms;
    int64_t lost_ms;                     /* over all stops */
    int64_t waited_ms, ran_ms, since_ms; /* since: of the present phase */
    char *reason;
    double last_epoch_s;
    int64_t epoch_at_ms; /* when the last one ended */
    uint32_t run_first_epoch;
    uint64_t samples_iterations;
    bool epochs_profiled;      /* its profiles say how long epochs take */
    int64_t peak_mib, now_mib; /* measured on one card, the largest; 0: not */
    int64_t memory_at_ms;      /* when it was last recorded */
    uint32_t over_times;
    bool over_warned, limited, polled;
    int64_t no_stop_epoch; /* the newest epoch whose question was answered with no; -1: none */
    struct forecast forecast;
    VEC(int64_t) spans; /* seq of its open span records, one for each slot with a card */
    VEC(int64_t) span_starts;
    int64_t said_position; /* what its object says */
    char *said;
};

struct card_state {
    int64_t used_mib; /* -1: not known */
    int busy_percent;
};

struct queue_node {
    char *name, *facts; /* facts: what of the object matters, as text */
    char *address;
    bool ready;
    struct card_state cards[NODE_GPUS_MAX];
};

/* A record that may not be on the disk yet, where store_records would find it. */
struct unsaved {
    enum record_type type;
    int64_t seq, time_ms;
    char *job, *doc;
};

struct queue_watch {
    struct queue *queue; /* NULL: unwatched while being told */
    queue_watch_fn fn;
    void *arg;
};

struct queue {
    struct queue_config config;
    char *url, *log_dir;
    struct loop *loop;
    struct registry *registry;
    struct store *store;
    struct store_watch *watches[4];
    const struct sched_policy *policy;
    struct usage *usage;
    struct estimator *estimator;
    struct live *live;
    struct arena cluster_arena;
    struct cluster cluster;
    VEC(struct queue_node) nodes; /* places never change */
    uint64_t world;               /* counts changes of the nodes; not 0 */
    struct map *units;            /* uid → unit */
    struct map *by_id;            /* w.id → unit */
    struct map *by_job;           /* uid of a Job → its first unit */
    struct map *dirty;            /* uids to look at */
    bool nodes_dirty, working, decide_wanted, loading;
    struct sched_options options;
    uint64_t last_id;
    int64_t last_submit_ms;
    struct loop_timer *tick, *notify_timer;
    struct map *ending;          /* uid → text of rows that ended and are not durable yet */
    VEC(struct unsaved) unsaved; /* transitions and epochs, in their order */
    struct map *jobs;            /* uid → Job, until its end is recorded: its object may have gone before */
    struct map *changed;         /* rows to tell watchers about */
    VEC(struct queue_watch *) watching;
    bool telling;
    uint64_t revision;
    struct plan plan;       /* the explained one */
    VEC(uint32_t) wait_of;  /* by job of the view: 1 + place in plan.waits; 0: none */
    VEC(int64_t) global_of; /* by job of the view: thousandths of GPUs of all up to it */
    int64_t plan_at;
    uint64_t plan_revision;
    int64_t cards_recorded_at;
    int64_t explained_at;
    uint64_t explained_revision;
    struct life *life;
};

struct life {
    struct queue *queue;
    unsigned refs;
};

/* ---- units.c ---- */
int64_t now_ms(void);
struct unit *unit_find(const struct queue *queue, const char *uid);
struct unit *unit_of_job(const struct queue *queue, const char *job); /* the first one; NULL: none */
struct unit *unit_by_id(const struct queue *queue, uint64_t id);
void unit_drop(struct queue *queue, struct unit *unit); /* out of everything, freed */
void unit_free(struct unit *unit);
/* Reads its object into it; makes it when it is new. Returns NULL where the object does not queue. */
struct unit *unit_read_pod(struct queue *queue, const struct object *object);
struct unit *unit_read_training(struct queue *queue, const struct object *object);
void unit_tell(struct queue *queue, struct unit *unit); /* sched hears of it as it is now */
void unit_place(struct unit *unit, const struct slot *slots, uint32_t len);
void unit_stop_clear(struct unit *unit);
const char *unit_row(const struct unit *unit); /* uid of its row */
void unit_forecast(struct queue *queue, struct unit *unit);
bool unit_shared(const struct queue *queue,
                 const struct unit *unit); /* somebody else is on one of its cards */
void set_string(char **member, const char *text);
/* Each unit, in no order; none may come or go meanwhile. */
struct unit_walk {
    size_t at;
    struct unit *unit;
};
bool unit_next(const struct queue *queue, struct unit_walk *walk);
#define UNITS_EACH(queue, it)                                                                                \
    for (struct unit_walk it##_walk = {0}; unit_next((queue), &it##_walk);)                                  \
        for (struct unit *it = it##_walk.unit; it; it = NULL)

/* ---- world.c ---- */
bool world_read(struct queue *queue);                             /* the nodes; true when something changed */
uint32_t world_node(const struct queue *queue, const char *name); /* SCHED_NONE: no such node */
void world_done(struct queue *queue);
uint32_t world_largest_node(const struct queue *queue);
/* The nodes that a pod's selector, required affinity and tolerations take, as a selector: in malloc'ed
 * memory. */
size_t world_selector(const struct queue *queue, const struct json *doc, struct label **ret);
void selector_free(struct label *selector, size_t len);

/* ---- work.c ---- */
void queue_dirty(struct queue *queue, const char *uid);
void queue_soon(struct queue *queue); /* decide at the end of this turn */
void queue_on_store(void *arg, const struct store_event *event);
void queue_tick(void *arg);
void queue_look(struct queue *queue, const char *uid); /* now, before the watch tells */

/* ---- queue.c ---- */
void queue_reload(struct queue *queue); /* everything from the store */

/* ---- act.c: what sched decided, done through the registry ---- */
void act_plan(struct queue *queue, const struct plan *plan);
void act_stop(struct queue *queue, struct unit *unit, enum stop_kind kind, const struct unit *by,
              const char *reason);
void act_deadline(struct queue *queue, struct unit *unit, int64_t now);

/* ---- life.c: what becomes of runs and pods ---- */
void life_pod(struct queue *queue, struct unit *unit); /* the pods of a run have changed */
void life_over(struct queue *queue, struct unit *unit, enum phase phase, const char *reason);
void life_ending_set(struct queue *queue, const char *row, const struct json *doc);
void life_ending_clear(struct queue *queue); /* everything is on the disk */
/* Stores it and keeps it in mind until it is on the disk. */
int64_t life_put(struct queue *queue, const struct record *record);
void life_spans_open(struct queue *queue, struct unit *unit);
void life_spans_close(struct queue *queue, struct unit *unit);
void life_spans_load(struct queue *queue);
void life_record(struct queue *queue, struct unit *unit, enum phase phase, const char *reason,
                 const struct stop *stop, int64_t lost_ms);
/* Writes a TrainingJob's status from its unit. */
int life_write(struct queue *queue, struct unit *unit);
void life_phase(struct unit *unit, enum phase phase, int64_t now); /* with its times */

/* ---- told.c: what goes to the owner's inbox ---- */
void told_transition(struct queue *queue, const struct unit *unit, enum phase phase, const char *reason,
                     const struct stop *stop);
void told_event(struct queue *queue, const struct unit *unit, const char *reason, const char *text);
void told_job(struct queue *queue, const struct object *job, enum phase phase, const char *user,
              const char *reason);

/* ---- keep.c ---- */
void keep_guard(struct registry *registry);

/* ---- samples.c ---- */
void samples_load(struct queue *queue);
void samples_add(struct queue *queue, struct unit *unit, const struct sample *sample);
void usage_load(struct queue *queue);

/* ---- notify.c ---- */
void notify_row(struct queue *queue, const char *row);
void notify_unit(struct queue *queue, const struct unit *unit);
void notify_later(void *arg);

/* ---- explain.c ---- */
const struct plan *explain_plan(struct queue *queue);
const struct wait *explain_find(struct queue *queue, const struct unit *unit);
int64_t explain_global(struct queue *queue, const struct unit *unit);
void explain_text(struct queue *queue, const struct wait *wait, struct buf *buf); /* why, in words */
void explain_write(struct queue *queue, int64_t now);

/* ---- row.c ---- */
struct json *row_json(struct queue *queue, const struct identity *who, const char *uid, struct arena *arena);
void json_set_real(struct arena *arena, struct json *object, const char *key, double value);
void json_set_null(struct arena *arena, struct json *object, const char *key);
void json_set_ms(struct arena *arena, struct json *object, const char *key, int64_t ms); /* 0: null */
char *ms_text(int64_t ms, char text[CLOCK_TEXT_MAX]);
void row_cards(struct queue *queue, const struct unit *unit, struct arena *arena, struct json *array);
enum phase row_phase(struct queue *queue, const char *uid);
/* The units of a row: of a Job several. */
typedef VEC(struct unit *) unit_list;
void row_units(struct queue *queue, const char *uid, unit_list *ret);
/* The row's object, or NULL; of a Job also while its end is being recorded. */
const struct object *row_object(struct queue *queue, const char *uid);
bool row_recorded(struct queue *queue, const char *uid); /* its end is; reads the disk */
/* Is it theirs? An admin of this machine works under the name of root. */
bool row_mine(const struct identity *who, const char *user, const char *ns);

/* ---- changing objects ---- */
int edit_object(struct queue *queue, const struct object *object, registry_edit edit, void *arg,
                struct failure *failure);
__attribute__((format(printf, 5, 6))) void tell_owner(struct queue *queue, const struct unit *unit,
                                                      const char *type, const char *reason, const char *fmt,
                                                      ...);
