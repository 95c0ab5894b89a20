/* store - all objects, their revisions, and what must outlive the daemon. SQLite behind it (WAL,
 * synchronous=FULL); `:memory:` for tests.
 *
 * All live objects and a window of past changes are in memory; reads never touch the disk. A write
 * changes memory at once and goes to the writer thread, which commits whatever has gathered while the
 * last commit was on its way to the disk (group commit). Nothing may be told to anybody before it is
 * durable: answers are given through store_defer, or are made of the durable state (store_get_durable), and
 * watchers hear of a change only after its commit.
 *
 * Where a commit fails (disk full), all that is not yet durable is undone in memory, deferred answers
 * get that error, and the store goes on.
 *
 * One thread calls all of this (the loop's); the writer thread is the store's own. */
#pragma once

#include "base/err.h"
#include "base/metrics.h"
#include "loop/loop.h"
#include "objects/object.h"

#define STORE_WINDOW_CHANGES 20000      /* changes kept for watches that resume */
#define STORE_WINDOW_BYTES   (10 << 20) /* and at most this much text of superseded states */
#define STORE_SCHEMA_VERSION 5

struct store;

/* Creates the file (mode 0600) when absent. ERR_UNSUPPORTED: made by a newer Berth. ERR_CONFLICT: another
 * process has it open. */
int store_open(const char *path, struct loop *loop, struct store **ret, struct err *err);
/* As store_open, but goes on with what can be read where the file is damaged, is not the one that was here
 * before, or has less than was acknowledged; each loss is logged. store_open refuses these (ERR_INVALID). */
int store_open_lossy(const char *path, struct loop *loop, struct store **ret, struct err *err);
const char *store_id(const struct store *store); /* made with the file, the same for its life; borrowed */
void store_close(struct store *store);           /* waits until everything is durable; NULL is fine */

/* The revision of the newest write, and the oldest from which a watch can resume. */
int64_t store_revision(const struct store *store);
int64_t store_oldest(const struct store *store);
/* The revision for the next write: goes into metadata.resourceVersion of what is then put. Never goes
 * back, also over crashes. */
int64_t store_next_revision(struct store *store);

/* Borrowed: valid until control returns to the loop; object_ref to keep. NULL when absent. */
const struct object *store_get(const struct store *store, int kind, const char *ns, const char *name);
const struct object *store_by_uid(const struct store *store, const char *uid);
/* Objects of a kind sorted by namespace, then name; a slice of the store's own array: no writes while it is
 * used. ns NULL: all namespaces. */
struct store_slice {
    struct object *const *v;
    size_t len;
};
struct store_slice store_list(const struct store *store, int kind, const char *ns);
/* First place in the slice past (ns, name), for `continue`. */
size_t store_slice_after(struct store_slice slice, const char *ns, const char *name);
#define OBJECTS_EACH(slice, it)                                                                              \
    for (struct object *const *it = (slice).v, *const *it##_end = it ? it + (slice).len : it; it < it##_end; \
         it++)
size_t store_count(const struct store *store, int kind, const char *ns);
/* What an object is part of (object_controls); NULL: of nothing, or that has gone. */
const struct object *store_controller(const struct store *store, const struct object *object);
/* The parts of an object: calls fn for each (no writes inside). */
void store_parts(const struct store *store, const struct object *object,
                 void (*fn)(void *arg, const struct object *object), void *arg);
/* Objects that name uid in ownerReferences, whoever wrote that: calls fn for each (no writes inside). */
void store_dependents(const struct store *store, const char *uid,
                      void (*fn)(void *arg, const struct object *object), void *arg);

/* The same of what is durable: what a reader may be told at once, however long the disk takes for what was
 * written since. The revision is that of this state: a watch from there tells all that follows. Where
 * something of the slice is not durable, the slice is in the arena. */
int64_t store_durable_revision(const struct store *store);
const struct object *store_get_durable(const struct store *store, int kind, const char *ns, const char *name);
struct store_slice store_list_durable(const struct store *store, int kind, const char *ns,
                                      struct arena *arena);

/* Stores a new state; takes over the caller's reference. It replaces what has that kind, namespace and
 * name. object->rv must come from store_next_revision and be the newest. */
void store_put(struct store *store, struct object *object);
/* Removes; `last` is the final state with its own new revision (what DELETED events carry), taken over. */
void store_remove(struct store *store, struct object *last);

/* Runs fn once everything written so far is durable: at once (from this call) when it is already, else
 * from the loop. err is NULL on success. Calls come in order. */
void store_defer(struct store *store, void (*fn)(void *arg, const struct err *err), void *arg);
/* The same for what was written up to a mark, which store_mark gave. Answers that need less come before those
 * that need more. */
uint64_t store_mark(const struct store *store);
void store_defer_until(struct store *store, uint64_t mark, void (*fn)(void *arg, const struct err *err),
                       void *arg);
/* Waits for what was written so far and gives the answers that wait for it: before those who hold them go. */
void store_settle(struct store *store);        /* NULL is fine */
bool store_durable(const struct store *store); /* nothing is on its way to the disk */

enum store_op { STORE_ADDED, STORE_MODIFIED, STORE_DELETED };
struct store_event {
    enum store_op op;
    int64_t rv;
    const struct object *object; /* borrowed for the callback; ref to keep */
    const struct object *before; /* state before MODIFIED or DELETED; NULL for ADDED */
};
struct store_watch;
typedef void (*store_watch_fn)(void *arg, const struct store_event *event);
/* Events of one kind (0: all kinds) after revision `from`, oldest first, from the loop (never from this
 * call), each after its commit. ns NULL: all. ERR_GONE: `from` is older than the window. A `from` in the
 * future is fine: nothing before it is told. `idle`, where not NULL, is called after each batch with the
 * revision up to which everything has been told (for bookmarks). */
int store_watch(struct store *store, int kind, const char *ns, int64_t from, store_watch_fn fn,
                void (*idle)(void *arg, int64_t revision), void *arg, struct store_watch **ret,
                struct err *err);
void store_unwatch(struct store_watch *watch); /* NULL is fine; also from its own callback */

/* Small named values beside the objects: token hashes, counters, cursors. Durable as the rest (use
 * store_defer). get: {NULL, 0} when absent; borrowed until the next change. */
struct str store_value(const struct store *store, const char *table, const char *key);
void store_value_set(struct store *store, const char *table, const char *key,
                     struct str value); /* value.s NULL removes */
/* Calls fn for all of a table, sorted by key. */
void store_values(const struct store *store, const char *table,
                  void (*fn)(void *arg, const char *key, struct str value), void *arg);

/* ---- records: what happened, appended, kept on disk only, bounded per type ---- */

/* Stored in the database: never renumber. */
enum record_type {
    RECORD_TRANSITION = 1, /* of a job's state; tag: the new state */
    RECORD_SPAN = 2,       /* a job on a card; time to until; tag: the node */
    RECORD_EPOCH = 3,
    RECORD_METRIC = 4, /* tag: its name */
    RECORD_MEMORY = 5, /* GPU memory of a job */
    RECORD_CARD = 6,   /* utilisation of a card; tag: the node */
    RECORD_JOB = 7,    /* a job that has ended; tag: how */
    RECORD_TYPES = 8,
};

struct record {
    int64_t seq; /* given by the store, ascending; when putting: 0 appends, else that one is replaced */
    enum record_type type;
    int64_t time_ms, until_ms;    /* until 0: not yet, or has none */
    const char *job, *user, *tag; /* NULL: "" */
    struct str doc;               /* JSON */
};
/* Becomes durable together with the objects written in the same turn. Returns its seq. Of each type only the
 * newest are kept (db.c has the limits). */
int64_t store_record(struct store *store, const struct record *record);

struct record_query {
    enum record_type type;
    const char *job, *user, *tag; /* NULL: any */
    const char *name, *ns;        /* of finished jobs (RECORD_JOB): their document's; NULL: any */
    int64_t from_ms, to_ms;       /* of time, or (spans) overlapping; 0: no bound */
    struct {
        int64_t time_ms, seq;
    } after; /* behind this record, in the order of the query; seq 0: from the first */
    bool newest_first;
    size_t limit; /* 0: all */
};
/* Records of one job come in the order of seq, others by time, then seq. Spans of a time (from_ms) come by
 * their end, open ones first, whatever newest_first says. fn returns false to end it; the record is borrowed
 * for the call. ERR_UNAVAILABLE: the read was stopped. */
struct record_source;
int records_read(struct record_source *source, const struct record_query *query,
                 bool (*fn)(void *arg, const struct record *record), void *arg, struct err *err);

/* Reads in a thread: the loop does not wait for the disk. What is committed is seen, and nothing else. Reads
 * of one person come one after another; STORE_READERS run at a time. */
#define STORE_READERS      2
#define STORE_READS_PERSON 128  /* reads of one person that wait */
#define STORE_READS_MAX    1024 /* of all */
struct store_read;
typedef int (*store_read_fn)(void *work, struct record_source *source,
                             struct err *err);                                   /* touches work alone */
typedef void (*store_read_done)(void *owner, void *work, const struct err *err); /* err NULL: success */
/* fn in a thread, then done from the loop, which frees work. ERR_LIMIT: too many wait; work stays the
 * caller's. */
int store_read(struct store *store, const char *person, store_read_fn fn, store_read_done done,
               void (*drop)(void *work), void *owner, void *work, struct store_read **ret, struct err *err);
/* Done does not come any more: work is dropped, now or in its thread, where it ends soon. */
void store_read_cancel(struct store_read *read); /* NULL is fine */
/* Reads in the caller's thread, after waiting for a commit under way; what this turn has written is not there
 * yet. For the start, when nobody waits for the loop, and for tests. */
int store_records(struct store *store, const struct record_query *query,
                  bool (*fn)(void *arg, const struct record *record), void *arg, struct err *err);

/* What the file may hold; 0: no limit. */
struct store_limits {
    int64_t records_before_ms; /* older records go */
    int64_t bytes_max;         /* of the file: past it the oldest records go, details before jobs */
};
/* Lets go what is past these limits and makes the file shorter: by the writer thread, while nothing waits for
 * it, in small steps. Returns at once. */
void store_tidy(struct store *store, const struct store_limits *limits);

struct store_stats {
    uint64_t commits, rows; /* since start */
    int64_t last_commit_ns; /* how long the last one took */
    size_t memory_bytes;    /* text of live and past states */
    size_t window_changes;
    size_t watches;          /* open ones, Berth's own included */
    struct histogram commit; /* how long commits took, on the scale histogram_latency */
    uint64_t failed_commits; /* since start */
    const char *trouble;     /* why the last commit failed, borrowed until the next one; NULL: it did not */
    int64_t trouble_at;      /* when that was, nanoseconds since 1970 */
    int64_t waiting_ns; /* so long has nothing become durable although something waits; 0: nothing does */
};
void store_stats(const struct store *store, struct store_stats *ret);
