/* What the files of queue share.
 *
 * What happens to jobs is decided by src/life, which is pure. This folder is its edge: look.c turns changes
 * of the store into events, carry.c carries effects out through the registry, the others show what there is.
 * The clock is asked in one place (queue_now).
 *
 * A unit is what sched places: a Pod, or a TrainingJob (its run's pods together). A row is what people see: a
 * TrainingJob, a Job with all its pods, or a Pod that belongs to neither. */
#pragma once

#include "base/clock.h"
#include "base/map.h"
#include "base/metrics.h"
#include "life/life.h"
#include "loop/loop.h"
#include "objects/names.h"
#include "queue/need.h"
#include "queue/queue.h"
#include "registry/registry.h"

#define LOG_MODULE "queue"
#include "base/log.h"
#define PREEMPTION_REASON "PreemptionByScheduler"
#define NOTIFY_MS         100   /* watchers hear at most that often */
#define EXPLAIN_MS        5000  /* what waiting objects say of their place is renewed that often */
#define EXPLAIN_MAX       50    /* of them at once */
#define EXPLAIN_LOOK      3000  /* that many are looked at in one turn */
#define LOOK_MAX          100   /* changed objects that are looked at in one turn */
#define ALIVE_MS          1000  /* what has gone and still holds cards is asked about that often */
#define RECHECK_MAX       64    /* blocked jobs of a namespace that are looked at again at once */
#define RECHECK_MS        5000  /* those whose owner has no account are looked at again that often, */
#define RECHECK_ALL_MS    60000 /* and all that are blocked */
#define CLOCK_LOOK_MS     60000 /* a clock that is set is noticed after that at the latest */
#define UNIT_SLOTS_MAX    1024
#define UNSAVED_MAX       10000

struct training_run;

struct unit {
    struct life_job *life; /* NULL: the object is known and does not queue yet, or is over */
    uint64_t id;
    char *uid, *ns, *name;
    char *maker;          /* whose it is, as object->maker; NULL: nobody's */
    char *job, *job_name; /* of a Job's pod: the Job; else NULL */
    struct unit *next_of_job;
    int kind; /* KIND_POD or KIND_TRAINING_JOB */
    struct label *selector;
    size_t selector_len;
    uint64_t world;     /* the queue's when the selector was made */
    int64_t submit_ms;  /* 0: not read yet */
    bool seen;          /* explained at least once */
    bool gone;          /* its object is gone */
    bool asked;         /* it or its run's pods are gone: asked whether its processes are */
    bool recorded;      /* its end is, since that was certain: what is left of it is on its way out */
    bool write;         /* its status is to be written at the end of the turn */
    uint64_t limited;   /* cards of its pod whose memory the kernel limits, a bit each */
    bool no_account;    /* blocked for that */
    uint64_t rechecked; /* the queue's count when it was last asked about again */
    bool bad_priority;
    bool noticed;         /* its object says that it is to be stopped */
    char *pod;            /* uid of its pod, or of the first pod of its run that is there */
    VEC(char *) pods;     /* uids of all pods of its run, also of those whose objects have gone */
    VEC(uint16_t) ports;  /* of the node, that a training job asks for */
    int64_t memory_at_ms; /* when its memory was last recorded */
    int64_t used_at_ms;   /* when one of its cards was last seen in use; 0: not looked at yet */
    bool idle_told;       /* its owner knows that it uses none */
    VEC(int64_t) spans;   /* seq of its open span records, one for each slot with a card */
    VEC(int64_t) span_starts;
    int64_t said_position; /* what its object says */
    int64_t said_eta;      /* likewise; 0: nothing */
    char *said;
    struct map *metrics; /* names of its metrics since the start; NULL: none */
};

struct card_state {
    int64_t used_mib; /* -1: not known */
    int busy_percent;
};

struct queue_node {
    char *name, *facts; /* facts: what of the object matters, as text */
    char *address;
    bool ready, there;
    struct card_state cards[NODE_GPUS_MAX];
};

/* A record that may not be on the disk yet, where it would be read. */
struct unsaved {
    enum record_type type;
    int64_t seq, time_ms;
    char *job, *doc;
};

/* Why the pods of a Job could not be made when it was last asked. */
struct job_blocked {
    uint64_t room; /* the queue's then */
    int64_t rv;    /* the Job's */
    char *why;     /* NULL: they could */
};

struct queue_watch {
    struct queue *queue; /* NULL: unwatched while being told */
    queue_watch_fn fn;
    void *arg;
};

/* Outlives the queue for those that call back later. */
struct queue_anchor {
    struct queue *queue;
    unsigned refs;
};

/* Why work failed, in words that a metric can have. */
enum fail {
    FAIL_EXIT,       /* a status other than 0 */
    FAIL_SIGNAL,     /* killed, not by us */
    FAIL_OOM,        /* its cgroup's memory */
    FAIL_GPU_MEMORY, /* more of a card than it had reserved */
    FAIL_EVICTED,    /* the machine ran short of disk or memory, or it outgrew its volume */
    FAIL_DEADLINE,
    FAIL_LOST,    /* its node or container went away */
    FAIL_DELETED, /* its pod was */
    FAIL_OTHER,
    FAILS,
};

/* Since the start; for /metrics. */
struct queue_counts {
    uint64_t starts, first_starts, given_back;
    uint64_t ended[PHASES];
    uint64_t failed[FAILS];
    uint64_t stopped[STOP_CANCEL +
                     1];       /* back in the queue or gone for others, by life_stop_kind; STOP_NONE: lost */
    struct histogram waits;    /* from submission to the first run, on the scale histogram_wait */
    struct histogram starting; /* from the cards to the run, on the same */
    enum fail fail;            /* of the exit that is being told to life */
};

#define QUEUE_WATCHES 7

struct queue {
    struct queue_config config;
    char *url, *log_dir;
    struct loop *loop;
    struct registry *registry;
    struct store *store;
    struct store_watch *watches[QUEUE_WATCHES];
    const struct sched_policy *policy;
    struct life *life;
    struct life_effects effects;
    bool carrying;
    struct arena cluster_arena;
    struct cluster cluster;
    VEC(struct queue_node) nodes; /* places never change */
    uint64_t world;               /* counts changes of the nodes; not 0 */
    struct map *units;            /* uid → unit */
    uint64_t dropped;             /* counts units that have gone: pointers to others are good */
    struct map *by_id;            /* id → unit */
    struct map *by_job;           /* uid of a Job → its first unit */
    struct map *by_pod;           /* uid of the pod of a run → unit */
    struct map *dirty;            /* uids to look at */
    struct map *looking;          /* those that are being looked at, some in each turn; NULL: none */
    size_t looking_at;
    int64_t turn; /* the last one in which something was looked at, and at how much */
    uint32_t looked;
    struct map *recheck;    /* namespaces in which something may have become possible */
    int64_t ends_at;        /* when the end of a running job has to be said anew; 0: never */
    uint64_t ends_revision; /* when those of shares were looked at */
    int64_t ends_looked_at;
    VEC(uint64_t) to_write; /* ids of units whose status is to be written */
    VEC(uint64_t) unseen;   /* ids of units whose objects say nothing of their place yet */
    uint32_t blocked;       /* about how many units are */
    uint32_t asked;         /* how many units are asked whether their processes are gone */
    bool nodes_dirty, working, loading;
    struct sched_options options;
    uint64_t last_id;
    int64_t last_submit_ms;
    int64_t rechecked_at, rechecked_all_at;
    uint64_t rechecks;
    uint64_t room;            /* counts changes of what pods can be made */
    struct map *jobs_blocked; /* uid of a Job -> job_blocked */
    VEC(uint64_t) granted;    /* ids of units that may start, and of which nothing is made yet */
    int64_t settled_revision; /* up to here a failed commit will be heard of */
    struct loop_timer *tick, *notify_timer;
    struct loop_timer *rest;     /* what is left of this turn's work, in the next one */
    struct map *ending;          /* uid → text of rows that ended and are not durable yet */
    uint64_t shown_mark;         /* of the store: what rows show is durable when this is */
    VEC(struct unsaved) unsaved; /* transitions and epochs, in their order */
    struct map *jobs;            /* uid → Job, until its end is recorded: its object may have gone before */
    struct map *job_sums; /* uid of a Job that is not over → what its pods had of cards (job_row.c) */
    struct map *changed;  /* rows to tell watchers about */
    VEC(struct queue_watch *) watching;
    bool telling;
    uint64_t revision;
    int64_t cards_recorded_at;
    int64_t idle_warn_ms, idle_stop_ms; /* 0: never */
    int64_t explained_at;
    uint64_t explained_revision;
    VEC(uint64_t) explain; /* units in their order, while their objects are being told their places */
    size_t explain_at, explain_written;
    uint64_t explain_revision; /* of what they are told */
    struct queue_anchor *anchor;
    struct queue_counts counts;
};

int64_t queue_now(const struct queue *queue); /* milliseconds: the only place that asks the clock */

/* ---- units.c: from objects to what life works with ---- */
struct unit *unit_find(const struct queue *queue, const char *uid);
struct unit *unit_of_job(const struct queue *queue, const char *job); /* the first one; NULL: none */
struct unit *unit_by_id(const struct queue *queue, uint64_t id);
struct unit *unit_of_pod(const struct queue *queue, const char *pod_uid); /* also of the pods of a run */
/* As object_controls; the job's object may have gone. */
bool unit_controls(const struct unit *unit, const struct object *pod);
struct unit *unit_need(struct queue *queue, const struct object *object); /* makes it when it is new */
void unit_drop(struct queue *queue, struct unit *unit);                   /* out of everything, freed */
void unit_free(struct unit *unit);
/* The first pod of its run that is there; NULL: it has no run. */
void unit_set_pod(struct queue *queue, struct unit *unit, const char *pod_uid);
void unit_add_pod(struct queue *queue, struct unit *unit, const char *pod_uid); /* one more of its run */
const char *unit_row(const struct unit *unit);                                  /* uid of its row */
const struct workload *
unit_w(const struct unit *unit); /* never NULL: of one that does not queue, an empty one */
/* Its description. Texts are borrowed from doc and unit. */
void unit_describe_pod(struct queue *queue, struct unit *unit, const struct object *object,
                       const struct json *doc, struct arena *arena, struct life_desc *ret);
void unit_describe_training(struct queue *queue, struct unit *unit, const struct object *object,
                            const struct json *doc, struct arena *arena, struct life_desc *ret);
/* What is stored of it; in the arena. */
void unit_saved_pod(struct queue *queue, struct unit *unit, const struct json *doc, int64_t now,
                    struct arena *arena, struct life_job *ret);
void unit_saved_training(struct queue *queue, struct unit *unit, const struct json *doc, struct arena *arena,
                         struct life_job *ret);
uint32_t pod_slots(struct queue *queue, const struct json *doc, struct slot slots[UNIT_SLOTS_MAX]);
bool pod_queues(const struct json *doc, const struct object *object);
bool pod_is_bound(const struct json *doc);
bool pod_ended(const struct object *pod);
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

/* Each unit that holds a place on a node, in the order of those that run; nothing may change meanwhile. Costs
 * what runs, not what waits. */
struct unit *unit_holding(const struct queue *queue, size_t *at); /* NULL: that was all */
#define UNITS_HOLDING(queue, it)                                                                             \
    for (size_t it##_at = 0, it##_one = 1; it##_one; it##_one = 0)                                           \
        for (struct unit * it; (it = unit_holding((queue), &it##_at));)

/* ---- world.c ---- */
bool world_read(struct queue *queue);                             /* the nodes; true when something changed */
uint32_t world_node(const struct queue *queue, const char *name); /* SCHED_NONE: no such node */
void world_done(struct queue *queue);
uint32_t world_largest_node(const struct queue *queue);
/* Which of a pod's selector, required affinity and tolerations matter, as a selector: in malloc'ed memory. */
size_t world_selector(const struct queue *queue, const struct json *doc, struct label **ret);
void selector_free(struct label *selector, size_t len);

/* ---- look.c: changes of the store become events ---- */
void queue_dirty(struct queue *queue, const char *uid);
void queue_soon(struct queue *queue); /* decide at the end of this turn */
void queue_on_store(void *arg, const struct store_event *event);
void queue_on_tick(void *arg);
void queue_on_rest(void *arg);
void queue_look(struct queue *queue, const char *uid); /* now, before the watch tells */
/* Something was written that belongs to what is known here: where its commit fails, all is read anew. */
void queue_settle(struct queue *queue);
/* One event, its effects carried out. 0, or -1 with err. */
int queue_step(struct queue *queue, const struct life_event *event, struct err *err);
void look_enter(struct queue *queue, const struct object *object); /* when everything is read */
void look_run(struct queue *queue, struct unit *unit);             /* the pods of a TrainingJob */
/* Its object is about to go from the store: its end is recorded in the same commit. */
void look_drop(void *arg, const struct object *object);

/* ---- queue.c ---- */
void queue_reload(struct queue *queue); /* everything from the store */

/* ---- blocked.c: what cannot start now ---- */
/* What keeps a waiting unit from starting now, outside the scheduler; NULL: nothing. */
const char *blocked_why(struct queue *queue, struct unit *unit, struct arena *arena);
const char *blocked_admit(void *arg, const struct life_job *job, const struct slot *slots, uint32_t gpus,
                          struct arena *arena);
/* Something in this namespace has changed that may have kept jobs from starting. */
void blocked_recheck(struct queue *queue, const char *ns);
void blocked_look_again(struct queue *queue, int64_t now); /* at those of the namespaces noted */
/* Why the pods of a Job that has none cannot be made, in the arena; NULL: they can. */
const char *blocked_job(struct queue *queue, const struct object *job, struct arena *arena);
void blocked_job_forget(struct queue *queue, const char *uid);
void blocked_free(struct queue *queue);

/* ---- carry.c: effects carried out through the registry ---- */
void carry_all(struct queue *queue);
/* The document of a pod of a run, with everything but its binding. */
struct json *carry_run_pod(struct queue *queue, const struct unit *unit, const struct object *job,
                           const struct json *job_doc, struct training_run *run, struct arena *arena);

/* ---- counts.c ---- */
void counts_effect(struct queue *queue, const struct life_effect *effect);
/* What the next exit means. state NULL: there is none to read. */
struct pod_state;
void counts_exit(struct queue *queue, const struct pod_state *state, bool lost);

/* ---- job_status.c: what a TrainingJob's object says ---- */
int job_status_write(struct queue *queue, struct unit *unit);
void job_status_save(struct queue *queue, struct unit *unit); /* at once, outside of a turn's work */
void job_status_flush(struct queue *queue);                   /* all that are to be written */
/* Its end is said anew when the present epoch is late (explain_ends). */
void job_status_due(struct queue *queue, const struct unit *unit, int64_t now);

/* ---- records.c ---- */
void records_ending_set(struct queue *queue, const char *row, const struct json *doc);
void records_ending_clear(struct queue *queue); /* everything is on the disk */
/* Rows show something from now on that is on its way to the disk. */
void records_note(struct queue *queue);
/* Stores it and keeps it in mind until it is on the disk. */
int64_t records_put(struct queue *queue, const struct record *record);
void records_transition(struct queue *queue, const struct unit *unit, const struct life_effect *effect);
void records_epoch(struct queue *queue, const struct unit *unit, double seconds);
void records_spans(struct queue *queue, struct unit *unit, const struct life_effect *effect);
void records_spans_load(struct queue *queue);
void records_end(struct queue *queue, struct unit *unit, enum phase phase);

/* ---- keep.c ---- */
void keep_guard(struct registry *registry);

/* ---- samples.c ---- */
void samples_load(struct queue *queue);
void samples_save(struct queue *queue, const struct life_job *job);
void usage_load(struct queue *queue);

/* ---- idle.c: who holds cards and uses none ---- */
void idle_look(struct queue *queue, uint32_t node, int64_t now); /* after a measurement of that node */

/* ---- told.c: what the owner's inbox gets ---- */
void told_effect(struct queue *queue, const struct unit *unit, const struct life_effect *effect);
void told_job(struct queue *queue, const struct object *job, enum phase phase, const char *user,
              const char *reason);
void told_watch(struct queue *queue, bool on); /* hears who deletes work */

/* ---- notify.c ---- */
void notify_row(struct queue *queue, const char *row);
void notify_unit(struct queue *queue, const struct unit *unit);
void notify_later(void *arg);

/* ---- explain.c ---- */
bool explain_write(struct queue *queue, int64_t now); /* true: there is more to write, in the next turn */
void explain_ends(struct queue *queue, int64_t now);  /* of running jobs */

/* ---- row.c ---- */
struct json *row_json(struct queue *queue, const struct identity *who, const char *uid, struct arena *arena);
/* Rows as text, one after another. who is borrowed; NULL: Berth itself. */
struct row_writer;
struct row_writer *row_writer_new(struct queue *queue, const struct identity *who);
void row_writer_free(struct row_writer *writer);
/* Where a row stands in the list. */
struct row_place {
    enum phase phase;
    int64_t by; /* within those that run, or those that wait */
};
/* unit: what the uid is of; NULL: is looked up. False: no such row. */
bool row_place(struct row_writer *writer, const char *uid, struct unit *unit, struct row_place *place);
/* Adds the row's text; false: no such row. */
bool row_write(struct row_writer *writer, const char *uid, struct unit *unit, struct buf *out);
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
bool row_recorded(struct queue *queue, const char *uid); /* its end is; reads the disk: for the start */
/* Is it theirs? An admin of this machine works under the name of root. */
bool row_mine(const struct identity *who, const char *user, const char *ns);
/* Members of a row that a smaller document has as well; null where it lacks one (a record of an older Berth).
 */
void row_copy(struct arena *arena, struct json *out, const struct json *row, const char *const *keys,
              size_t len);

/* ---- changing objects ---- */
int edit_object(struct queue *queue, const struct object *object, registry_edit edit, void *arg,
                struct failure *failure);
