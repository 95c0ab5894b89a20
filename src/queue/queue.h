/* queue - everybody's work on the GPUs there are: Pods, Jobs and TrainingJobs in one order.
 *
 * It watches the store, keeps sched's view of it up to date, and carries out what sched decides, through the
 * registry: binds pods to nodes and cards, makes the pods of training jobs, asks for stops, evicts, tells the
 * owners. What it decides is stored (the objects' own status and annotations, and the record log) in the
 * same commit as what it does, so that a crash at any instant loses no job and runs none twice; at start it
 * reads all of it back from the objects.
 *
 * Everything is on the loop. Reads make documents in the caller's arena, in the form of docs/rest.md; they
 * never touch the disk. What only the disk has is read by threads and told later (queue_past). Errors:
 * ERR_NOT_FOUND no such job, ERR_CONFLICT the name is ambiguous or the job's state does not allow it,
 * ERR_FORBIDDEN not yours, ERR_INVALID, ERR_LIMIT. */
#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json.h"
#include "sched/sched.h"

#include <stdbool.h>
#include <stdint.h>

struct identity;
struct inbox;
struct loop;
struct metrics;
struct object;
struct queue;
struct registry;

/* What a measurement found of one pod on one card. */
struct queue_memory {
    const char *pod_uid;
    uint32_t card;
    int64_t mib;
};
/* What a measurement found of one card; -1: not known. */
struct queue_card {
    uint32_t card;
    int64_t used_mib;
    int busy_percent;
    bool failed;
};

/* Strings are copied, the rest is borrowed. */
struct queue_config {
    struct loop *loop;
    struct registry *registry;
    struct inbox *inbox; /* where owners are told what happened; NULL: nobody is told */
    const char *policy;  /* NULL: the default */
    enum preemption preemption;
    double half_life_hours;           /* of usage; 0: a week */
    int64_t stop_min_ms, stop_max_ms; /* how long a job may take to stop at an epoch's end; 0: 60 s, 1 h */
    int64_t grace_sec;                /* TERM to KILL; 0: 30 */
    int64_t start_ms;   /* a job that starts without a word from its node gives its cards back; 0: 30 min */
    int64_t stuck_ms;   /* likewise one of which its node says that it cannot start; 0: 2 min */
    int64_t notice_ms;  /* between the notice to a pod's owner and its stop for a claim; 0: 5 min */
    bool displace_pods; /* pods that nothing starts again are displaced as others are, without a claim */
    const struct sched_options *options; /* NULL: sched_defaults; `preemption` above counts */
    const char *url;      /* of the library's calls, as containers reach it: BERTH_URL; NULL: none yet */
    const char *log_dir;  /* output of training jobs: log_dir/UID.log; NULL: not kept */
    const char *datasets; /* folder under a home that becomes /data; NULL: "datasets" */
    const char *library;  /* folder of the Python library, for training.h; NULL: none */
    /* Home folder of a user of this machine, in the arena; NULL: none. */
    const char *(*home)(void *arg, struct arena *arena, const char *user);
    /* Why this user's work cannot run here (no account; user NULL: it is nobody's), in the arena; NULL: it
     * can. Must not block. */
    const char *(*account)(void *arg, struct arena *arena, const char *user);
    /* The last line that a pod's container wrote, in the arena; NULL: none. Must not block. */
    const char *(*last_line)(void *arg, struct arena *arena, const char *pod_uid);
    /* Whether processes of a pod are still there although its object has gone; NULL: never. */
    bool (*pod_alive)(void *arg, const char *pod_uid);
    /* Limits what a pod may take on a card, where the driver can; false: it cannot. NULL: it cannot. */
    bool (*limit)(void *arg, const char *pod_uid, uint32_t card, int64_t mib);
    void *arg;
};

/* ERR_INVALID: no such policy. Takes up what is stored. */
int queue_new(const struct queue_config *config, struct queue **ret, struct err *err);
void queue_free(struct queue *queue); /* before the registry; NULL is fine */
DEFINE_CLEANUP(struct queue *, queue_free);
/* The address may be known only after the server listens. */
void queue_set_url(struct queue *queue, const char *url);

/* Looks now at an object that the store will tell of in a moment: who has made it can ask about it then. */
void queue_see(struct queue *queue, const char *uid);
/* Something outside the store has changed (an account is known): what cannot start is looked at again, soon.
 */
void queue_recheck(struct queue *queue);

/* ---- looking up ---- */

/* The uid of the row that a uid, NAME or NAMESPACE/NAME means (also a pod of a training job or Job: its
 * owner), among those that are in memory: of others queue_recall knows. own: a plain name is first looked for
 * in this namespace; NULL: none. In the arena. */
int queue_find(struct queue *queue, const char *id, const char *own, struct arena *arena, const char **ret,
               struct err *err);
/* The same for a TrainingJob that is in the queue now: looks at nothing but memory. */
int queue_find_queued(struct queue *queue, const char *id, struct arena *arena, const char **ret,
                      struct err *err);
/* May `who` read what belongs to the job alone (logs, manifest, metrics, events)? change: may cancel and the
 * like? */
bool queue_may(struct queue *queue, const struct identity *who, const char *uid, bool change);

/* ---- reads: documents of docs/rest.md; who: for "mine" and for what is private, NULL: Berth itself ---- */

/* NULL: all of the NULL-terminated list are names of states; else a sentence about the first that is none. */
const char *queue_states_fault(const char *const *states, struct arena *arena);

struct queue_filter {
    const char *user;          /* NULL: all */
    const char *const *states; /* NULL-terminated; NULL: all that are not over */
};
/* What rows show of the state of work (what has started, stopped, ended, how many epochs are done) may be
 * told once this mark of the store is durable (store_defer_until). Places and estimates are forecasts, and do
 * not count. */
uint64_t queue_mark(const struct queue *queue);
/* The queue as JSON text. Thousands of rows take longer than the loop may be held: they come in pieces, each
 * a few milliseconds' work, one a turn. Which rows there are, and their order, is settled with the first
 * piece, and so is the revision that it tells; each row is as it is when it is written, at least that new,
 * and left out when it is over by then. who is borrowed, the filter copied. */
struct queue_listing;
struct queue_listing *queue_listing_new(struct queue *queue, const struct identity *who,
                                        const struct queue_filter *filter);
bool queue_listing_next(struct queue_listing *listing, struct buf *out); /* adds a piece; true: more follow */
void queue_listing_free(struct queue_listing *listing);                  /* NULL is fine */
/* All at once: for few. */
struct json *queue_list_json(struct queue *queue, const struct identity *who,
                             const struct queue_filter *filter, struct arena *arena);
struct json *queue_capacity(struct queue *queue, struct arena *arena); /* "C" */
/* One row, without what is only in queue_show. last: its last row, of a job that is over (queue_recall);
 * NULL: none is known. */
int queue_job(struct queue *queue, const struct identity *who, const char *uid, const struct json *last,
              struct arena *arena, struct json **ret, struct err *err);
/* Whether its row is settled by its record alone: it is over, and nothing of it waits for the disk. */
bool queue_is_past(struct queue *queue, const char *uid);
int queue_why(struct queue *queue, const struct identity *who, const char *uid, const struct json *last,
              struct arena *arena, struct json **ret, struct err *err);
struct json *queue_nodes(struct queue *queue, struct arena *arena);

/* ---- what was: read from the record log by a thread, told from the loop ---- */

/* A read that is under way. Where the store has no file there is nothing to wait for: `done` comes from the
 * call that starts it, which gives NULL. */
struct queue_past;
struct queue_answer {
    struct buf text;  /* the document; who is told may take it */
    const char *next; /* of a history: the cursor of what follows; NULL: that was all */
    size_t count;     /* of a history: its jobs */
    const char *uid;  /* of queue_recall; NULL: there is none */
    struct json *row; /* likewise: its last row */
};
typedef void (*queue_past_done)(void *arg, struct queue_answer *answer, const struct err *err);
struct queue_reader {
    const char *person;   /* whose read it is: those of one person come one after another */
    queue_past_done done; /* once, unless cancelled; the answer is borrowed; err NULL: success */
    void *arg;
};
void queue_past_cancel(struct queue_past *past); /* NULL is fine; not once it is done */
/* A job that is not in memory, or is over: its uid and last row, by uid, NAME or NAMESPACE/NAME. */
int queue_recall(struct queue *queue, const struct identity *who, const char *id,
                 const struct queue_reader *reader, struct queue_past **ret, struct err *err);
/* All that is known of a job, in memory or not. ERR_NOT_FOUND and others may come to `done`. */
int queue_show(struct queue *queue, const struct identity *who, const char *id, const char *own,
               const struct queue_reader *reader, struct queue_past **ret, struct err *err);
/* Times are milliseconds since 1970; to_ms 0: now. */
int queue_timeline(struct queue *queue, int64_t from_ms, int64_t to_ms, const struct queue_reader *reader,
                   struct queue_past **ret, struct err *err);
struct queue_history_query {
    const char *user;          /* NULL: all */
    const char *const *states; /* NULL-terminated; NULL: all */
    int64_t from_ms, to_ms;    /* of the end; 0: no bound */
    size_t limit;              /* 0: 100; at most QUEUE_HISTORY_MAX */
    const char *after;         /* a cursor; NULL: from the newest */
    bool mine;                 /* only those of who asks */
    bool csv;                  /* lines, without a head */
};
#define QUEUE_HISTORY_MAX 1000
int queue_history(struct queue *queue, const struct identity *who, const struct queue_history_query *query,
                  const struct queue_reader *reader, struct queue_past **ret, struct err *err);
void queue_history_csv_head(struct buf *out);
/* ERR_INVALID: there would be too many rows. */
int queue_usage(struct queue *queue, int64_t from_ms, int64_t to_ms, bool by_day,
                const struct queue_reader *reader, struct queue_past **ret, struct err *err);
/* Path of a training job's log file; NULL: none is kept. In the arena. */
const char *queue_log_path(struct queue *queue, const char *uid, struct arena *arena);

/* Families berth_queue_*, berth_gpu* and others about work (docs/monitoring.md). Costs what is queued and
 * what runs. users: also by the users' names, the first QUEUE_METRICS_USERS of them. */
#define QUEUE_METRICS_USERS 500
void queue_metrics(struct queue *queue, struct metrics *metrics, bool users);
/* Cards that do not answer. */
uint32_t queue_failed_cards(const struct queue *queue);

/* ---- watching ---- */

struct queue_watch;
/* Called from the loop, at most 10 times a second, when rows changed; the uids are borrowed for the call. The
 * rows are had by queue_job (with the reader's identity). */
struct queue_change {
    uint64_t revision;
    const char *const *upsert;
    size_t upsert_len;
    const char *const *remove; /* over or deleted: no longer in the list */
    size_t remove_len;
};
typedef void (*queue_watch_fn)(void *arg, const struct queue_change *change);
struct queue_watch *queue_watch(struct queue *queue, queue_watch_fn fn, void *arg);
void queue_unwatch(struct queue_watch *watch); /* NULL is fine; also from its own callback */
uint64_t queue_revision(const struct queue *queue);

/* ---- actions: check that `who` may (NULL: Berth itself); answers leave through store_defer ---- */

/* That check alone, for callers with something to read first. */
int queue_check_change(struct queue *queue, const struct identity *who, const char *uid, struct err *err);
int queue_cancel(struct queue *queue, const struct identity *who, const char *uid, struct err *err);
int queue_set_priority(struct queue *queue, const struct identity *who, const char *uid, int64_t priority,
                       struct err *err);
/* The owner asks for the GPUs of jobs of larger rank, also of those that cannot resume. *ret: who is asked to
 * stop, or why nobody is yet; in the arena. ERR_CONFLICT: it does not wait, or nobody would make room. */
int queue_claim(struct queue *queue, const struct identity *who, const char *uid, struct arena *arena,
                const char **ret, struct err *err);
/* A new object with the same spec, of the caller; its uid in the arena. */
int queue_rerun(struct queue *queue, const struct identity *who, const char *uid, struct arena *arena,
                const char **ret, struct err *err);
/* Where a TrainingJob (or Pod) document would stand if it were submitted now: {"job", "position",
 * "startEstimate", "startLow", "startHigh"}. Nothing is stored. The document has passed its checks. */
int queue_dry_run(struct queue *queue, const struct identity *who, const struct json *doc,
                  struct arena *arena, struct json **ret, struct err *err);
/* What the nodes have, for checks at submit. */
struct training_room;
void queue_room(const struct queue *queue, struct training_room *ret);
/* Whether a node port is asked for by a job that is not over; name: whose, in the arena. */
bool queue_port_taken(struct queue *queue, uint16_t port, struct arena *arena, const char **name);

/* ---- what the training library says; job: uid of the TrainingJob ---- */

/* The same answer for every process that asks about the same epoch. epoch -1: not said, the one after those
 * that are done. An answer of true may be given only once the store is durable (store_defer). */
int queue_has_to_stop(struct queue *queue, const char *job, int64_t epoch, bool *ret, struct err *err);
/* `done` epochs are done, over all runs; never goes down, may jump. seconds: of the last one, 0: not said. */
int queue_epoch_done(struct queue *queue, const char *job, uint32_t done, double seconds, struct err *err);
struct queue_profile {
    uint32_t rank;
    uint32_t gpus;       /* as the library says; 0: those it has */
    uint64_t iterations; /* of this run so far */
    double iteration_s;  /* mean */
    double epoch_s;      /* of the epoch that ended; 0: none did */
    int64_t memory_mib;  /* as the library says; 0: not known */
};
int queue_profile(struct queue *queue, const char *job, const struct queue_profile *profile, struct err *err);
/* The script says that it is done (old libraries): nothing but a record. */
int queue_signal_end(struct queue *queue, const char *job, struct err *err);
#define QUEUE_RECORDS_MAX 1000  /* of one call */
#define QUEUE_VALUES_MAX  32000 /* in all of them */
#define QUEUE_METRICS_MAX 64    /* names of one job */
/* records: [{"time", "step", "epoch", "values": {"loss": 0.1}}…]; all of them are stored or none. A time that
 * has not come yet counts as now: what is kept longest is decided by this machine's clock. ERR_INVALID,
 * ERR_LIMIT. */
int queue_log_metrics(struct queue *queue, const char *job, uint32_t rank, const struct json *records,
                      struct err *err);

/* ---- measurements from the host side ---- */

/* The owner of work that has cards and has used none for so long is told; after so long it is cancelled. 0:
 * never. */
void queue_set_idle(struct queue *queue, int64_t warn_ms, int64_t stop_ms);

void queue_measured(struct queue *queue, const char *node, const struct queue_card *cards, size_t card_count,
                    const struct queue_memory *memory, size_t memory_count);
