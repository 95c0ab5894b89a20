/* Memory first, then the disk. A write changes the index, is recorded in the window and joins the batch
 * of this turn; at the end of the turn the batch goes to the writer thread (db.h). When it comes back,
 * the answers that waited for it are given, watches are told, and what no watch can ask for any more
 * leaves the window.
 *
 * Two counters say what is durable: `writes` counts every change of objects and values, `settled` those
 * that came back from the disk. In the window, changes from sequence number `told` on are not durable. When
 * a commit fails, these are taken back, newest first, and so are values; nobody has heard of them. */
#include "store/store.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/vec.h"
#include "objects/kind.h"
#include "objects/object_doc.h"
#include "store/db.h"
#include "store/disk_internal.h"
#include "store/index.h"
#include "store/reader.h"
#include "store/values.h"
#include "store/window.h"

#include <assert.h>
#include <inttypes.h>

#define LOG_MODULE "store"
#include "base/log.h"

#define DISK_WINDOW_CHANGES 500 /* of a disk in memory, whose stores are opened often */
#define PRUNE_BATCH         256 /* states leave the file in groups, with a commit that is made anyway */
#define SETTLE_ROUNDS       16  /* commits that an answer may lead to, each after the other */

struct deferred {
    void (*fn)(void *arg, const struct err *err);
    void *arg;
    uint64_t needs; /* writes that must be settled */
};

struct value_undo {
    char *table, *key;
    char *data; /* NULL: was absent */
    size_t len;
    uint64_t write;
};

/* Outlives the store where the loop still has a call to make. */
struct turn {
    struct store *store;
};

struct store_watch {
    struct store *store; /* NULL: unwatched while watches are being told */
    int kind;            /* 0: all */
    char *ns;            /* NULL: all */
    int64_t from;
    uint64_t next; /* sequence number of the first change not told */
    bool fresh;    /* not told anything yet */
    store_watch_fn fn;
    void (*idle)(void *arg, int64_t revision);
    void *arg;
};

struct store {
    struct loop *loop;
    struct loop_io *io;
    struct db *db;
    struct reader *reader;
    struct store_disk *disk;      /* NULL: a file */
    struct loop_timer *disk_done; /* a commit that takes time */
    struct index *index;
    struct window window;
    struct values values;
    int64_t revision; /* of the newest state in memory */
    int64_t handed;   /* newest revision given out; never goes back */
    int64_t oldest;   /* watches can resume from here on */
    int64_t durable;  /* revision up to which watches may be told */
    uint64_t told;    /* sequence number of the first change that is not durable */
    uint64_t writes, settled;
    struct db_batch *gathering;
    struct turn *turn;
    VEC(struct deferred) deferred;
    size_t deferred_done;
    VEC(struct value_undo) undo;
    VEC(int64_t) prunes;
    VEC(struct store_watch *) watches;
    bool telling, unwatched;
    size_t live_bytes;
    struct store_stats stats;
    char trouble[ERR_MSG_MAX]; /* of the last commit; "": none */
    int64_t
        waiting_since; /* monotonic: the first write that is not durable, or the last one that became so */
    int64_t last_record;
    size_t window_max; /* changes */
};

static void settle(struct store *store);
static void store_free(struct store *store);
static void end_turn(void *arg);

/* ---- loading ---- */

static int load_row(void *arg, const struct db_row *row, struct err *err)
{
    struct store *store = arg;
    const struct kind *kind = kind_by_id((int)row->kind);
    struct object *object = NULL, *before;
    enum store_op op;

    if (!kind || row->kind <= 0 || row->kind >= KIND_MAX)
        return err_set(err, ERR_UNSUPPORTED,
                       "revision %" PRId64 " is of kind %" PRId64 ", which is not known", row->rv, row->kind);
    if (object_parse(kind, row->doc, &object, err) < 0)
        return err_prefix(err, "revision %" PRId64, row->rv);
    op = row->removed ? STORE_DELETED : row->prev ? STORE_MODIFIED : STORE_ADDED;
    if (op == STORE_DELETED)
        before = index_remove(store->index, kind->id, object->ns, object->name);
    else
        before = index_put(store->index, object_ref(object));
    store->live_bytes += (op == STORE_DELETED ? 0 : object->text_len) - (before ? before->text_len : 0);
    store->revision = row->rv;
    if (row->rv > store->oldest && (before ? before->rv : 0) == row->prev) {
        window_push(&store->window, (struct change){op, row->rv, object, before});
        return 0;
    }
    /* Part of the state from which the window starts, or the chain of changes is broken here. */
    if (row->rv > store->oldest) {
        window_done(&store->window);
        store->oldest = row->rv;
    }
    object_unref(object);
    object_unref(before);
    return 0;
}

static void load_value(void *arg, const char *table, const char *key, struct str value)
{
    struct store *store = arg;

    values_set(&store->values, table, key, value);
}

static int load(struct store *store, struct err *err)
{
    const struct db_loader loader = {load_row, load_value, store};

    if (db_oldest(store->db, &store->oldest, err) < 0 || db_load(store->db, &loader, err) < 0 ||
        db_last_record(store->db, &store->last_record, err) < 0)
        return -1;
    if (store->revision < store->oldest)
        store->revision = store->oldest;
    if (db_check_promise(store->db, store->revision, err) < 0)
        return -1;
    store->handed = store->durable = store->revision;
    store->told = store->window.end;
    return 0;
}

/* ---- writing ---- */

static void need_turn(struct store *store)
{
    if (store->turn)
        return;
    store->turn = NEW(struct turn);
    store->turn->store = store;
    loop_later(store->loop, end_turn, store->turn);
}

static struct db_batch *gather(struct store *store)
{
    if (!store->gathering)
        store->gathering = db_batch_new();
    if (store_durable(store))
        store->waiting_since = clock_monotonic();
    need_turn(store);
    store->writes++;
    return store->gathering;
}

/* True when what was gathered is written already, and waits to be settled. */
static bool submit(struct store *store)
{
    struct db_batch *batch = TAKE_PTR(store->gathering);

    if (!batch)
        return false;
    if (store->prunes.len >= PRUNE_BATCH) {
        VEC_EACH(&store->prunes, it)
            vec_push(&batch->prunes, *it);
        store->prunes.len = 0;
        batch->oldest = store->oldest;
    }
    batch->writes = store->writes;
    if (store->disk && store->disk->latency_ms == 0 && db_commit(store->db, batch))
        return true;
    db_submit(store->db, batch);
    if (store->disk && !loop_timer_active(store->disk_done))
        loop_timer_set(store->disk_done, store->disk->latency_ms * NSEC_PER_MSEC);
    return false;
}

int64_t store_next_revision(struct store *store)
{
    return ++store->handed;
}

void store_put(struct store *store, struct object *object)
{
    struct object *before;
    struct db_batch *batch = gather(store);

    assert(object->rv == store->handed && object->rv > store->revision);
    store->revision = object->rv;
    before = index_put(store->index, object_ref(object));
    store->live_bytes += object->text_len - (before ? before->text_len : 0);
    vec_push(&batch->ops, (struct db_op){.type = DB_PUT, .object = object, .prev = before ? before->rv : 0});
    window_push(&store->window,
                (struct change){before ? STORE_MODIFIED : STORE_ADDED, object->rv, object, before});
}

void store_remove(struct store *store, struct object *last)
{
    struct object *before = index_remove(store->index, last->kind->id, last->ns, last->name);
    struct db_batch *batch;

    assert(last->rv == store->handed && last->rv > store->revision);
    if (!before) {
        object_unref(last);
        return;
    }
    batch = gather(store);
    store->revision = last->rv;
    store->live_bytes -= before->text_len;
    vec_push(&batch->ops, (struct db_op){.type = DB_REMOVE, .object = last, .prev = before->rv});
    window_push(&store->window, (struct change){STORE_DELETED, last->rv, last, before});
}

void store_value_set(struct store *store, const char *table, const char *key, struct str value)
{
    struct db_batch *batch = gather(store);
    struct str old = values_get(&store->values, table, key);

    vec_push(&store->undo,
             (struct value_undo){mem_strdup(table), mem_strdup(key),
                                 old.s ? mem_strndup(old.s, old.len) : NULL, old.len, store->writes});
    vec_push(&batch->ops, (struct db_op){.type = DB_VALUE,
                                         .table = mem_strdup(table),
                                         .key = mem_strdup(key),
                                         .data = value.s ? mem_strndup(value.s, value.len) : NULL,
                                         .len = value.len});
    values_set(&store->values, table, key, value);
}

int64_t store_record(struct store *store, const struct record *record)
{
    struct db_batch *batch = gather(store);
    int64_t seq = record->seq ? record->seq : ++store->last_record;

    vec_push(&batch->ops,
             (struct db_op){.type = DB_RECORD,
                            .seq = seq,
                            .record = (int)record->type,
                            .time_ms = record->time_ms,
                            .until_ms = record->until_ms,
                            .table = mem_strdup(record->job ? record->job : ""),
                            .key = mem_strdup(record->user ? record->user : ""),
                            .tag = mem_strdup(record->tag ? record->tag : ""),
                            .data = mem_strndup(record->doc.s ? record->doc.s : "", record->doc.len),
                            .len = record->doc.len});
    return seq;
}

int store_read(struct store *store, const char *person, store_read_fn fn, store_read_done done,
               void (*drop)(void *work), void *owner, void *work, struct store_read **ret, struct err *err)
{
    return reader_start(store->reader, person, fn, done, drop, owner, work, ret, err);
}

struct records_here {
    const struct record_query *query;
    bool (*fn)(void *arg, const struct record *record);
    void *arg;
};

static int read_here(void *work, struct record_source *source, struct err *err)
{
    struct records_here *here = work;

    return records_read(source, here->query, here->fn, here->arg, err);
}

int store_records(struct store *store, const struct record_query *query,
                  bool (*fn)(void *arg, const struct record *record), void *arg, struct err *err)
{
    struct records_here here = {query, fn, arg};

    return db_read(store->db, read_here, &here, err);
}

void store_tidy(struct store *store, const struct store_limits *limits)
{
    db_tidy(store->db, limits);
}

/* ---- what waits for the disk ---- */

/* err is for those that wait now; what they defer themselves is another matter. */
static void run_deferred(struct store *store, const struct err *err)
{
    size_t waiting = store->deferred.len;

    while (store->deferred_done < store->deferred.len) {
        struct deferred it = store->deferred.v[store->deferred_done];

        if (it.needs > store->settled)
            break;
        it.fn(it.arg, store->deferred_done++ < waiting ? err : NULL);
    }
    /* Drop the front in large steps, so that a long queue is not moved for every answer. */
    if (store->deferred_done > 0 && store->deferred_done >= store->deferred.len / 2) {
        store->deferred.len -= store->deferred_done;
        memmove(store->deferred.v, store->deferred.v + store->deferred_done,
                store->deferred.len * sizeof(*store->deferred.v));
        store->deferred_done = 0;
    }
}

uint64_t store_mark(const struct store *store)
{
    return store->writes;
}

/* In the order of what they need, and of their coming. What needs no more than is there waits only for those
 * that are being told right now. */
void store_defer_until(struct store *store, uint64_t mark, void (*fn)(void *arg, const struct err *err),
                       void *arg)
{
    size_t at = store->deferred_done;

    if (mark <= store->settled) {
        if (at == store->deferred.len || store->deferred.v[at].needs > store->settled) {
            fn(arg, NULL);
            return;
        }
        mark = store->settled;
    }
    vec_push(&store->deferred, (struct deferred){fn, arg, mark});
    for (at = store->deferred.len - 1; at > store->deferred_done && store->deferred.v[at - 1].needs > mark;
         at--)
        store->deferred.v[at] = store->deferred.v[at - 1];
    store->deferred.v[at] = (struct deferred){fn, arg, mark};
}

void store_defer(struct store *store, void (*fn)(void *arg, const struct err *err), void *arg)
{
    store_defer_until(store, store->writes, fn, arg);
}

bool store_durable(const struct store *store)
{
    return store->settled == store->writes;
}

static void undo_change(struct store *store, const struct change *change)
{
    struct object *out = NULL;

    if (change->op == STORE_ADDED) {
        out = index_remove(store->index, change->object->kind->id, change->object->ns, change->object->name);
        store->live_bytes -= change->object->text_len;
    } else {
        out = index_put(store->index, object_ref(change->before));
        store->live_bytes += change->before->text_len;
        if (change->op == STORE_MODIFIED)
            store->live_bytes -= change->object->text_len;
    }
    object_unref(out);
    object_unref(change->object);
    object_unref(change->before);
}

static void undo_done(struct value_undo *undo)
{
    free(undo->table);
    free(undo->key);
    free(undo->data);
}

/* Back to the last durable state. */
static void undo_all(struct store *store)
{
    while (store->window.end > store->told) {
        struct change change = window_pop_last(&store->window);

        undo_change(store, &change);
    }
    store->revision = store->durable;
    VEC_EACH(&store->watches, it) /* sequence numbers are used anew, revisions are not */
        if ((*it)->next > store->told)
            (*it)->next = store->told;
    while (store->undo.len > 0) {
        struct value_undo undo = vec_pop(&store->undo);

        values_set(&store->values, undo.table, undo.key, (struct str){undo.data, undo.len});
        undo_done(&undo);
    }
}

/* Prunes of a batch that was not written are for the next one. */
static void give_back(struct store *store, struct db_batch *batch)
{
    VEC_EACH(&batch->prunes, it)
        vec_push(&store->prunes, *it);
    db_batch_free(batch);
}

static void commit_failed(struct store *store, struct db_batch *batch)
{
    struct err err = batch->err;
    uint64_t lost;

    while (batch) {
        struct db_batch *next = batch->next;

        give_back(store, batch);
        batch = next;
    }
    submit(store); /* what gathers now builds on what failed as well */
    for (batch = db_resume(store->db); batch;) {
        struct db_batch *next = batch->next;

        give_back(store, batch);
        batch = next;
    }
    lost = store->writes - store->settled;
    undo_all(store);
    store->settled = store->writes;
    store->stats.failed_commits++;
    store->stats.trouble_at = clock_now();
    snprintf(store->trouble, sizeof(store->trouble), "%s", err.msg);
    log_error("%s; %" PRIu64 " changes were refused", err.msg, lost);
    run_deferred(store, &err);
}

static void commit_done(struct store *store, struct db_batch *batch)
{
    size_t objects = 0, undone = 0;

    VEC_EACH(&batch->ops, it)
        if (it->type == DB_PUT || it->type == DB_REMOVE) {
            objects++;
            store->durable = it->object->rv;
        }
    store->told += objects;
    store->settled = batch->writes;
    while (undone < store->undo.len && store->undo.v[undone].write <= batch->writes)
        undo_done(&store->undo.v[undone++]);
    store->undo.len -= undone;
    if (store->undo.len > 0)
        memmove(store->undo.v, store->undo.v + undone, store->undo.len * sizeof(*store->undo.v));
    store->stats.commits += batch->leads;
    store->stats.rows += batch->ops.len;
    store->stats.last_commit_ns = batch->took_ns;
    store->waiting_since = clock_monotonic();
    store->trouble[0] = '\0';
    if (batch->leads)
        histogram_add(&store->stats.commit, &histogram_latency, batch->took_ns);
    db_batch_free(batch);
}

/* ---- watches ---- */

static bool wanted(const struct store_watch *watch, const struct change *change)
{
    return (watch->kind == 0 || watch->kind == change->object->kind->id) && change->rv > watch->from &&
           (!watch->ns || strcmp(watch->ns, change->object->ns) == 0);
}

static void tell(struct store *store, struct store_watch *watch)
{
    bool fresh = watch->fresh;
    uint64_t end = store->told;

    watch->fresh = false;
    if (watch->next >= end && !fresh)
        return;
    while (watch->store && watch->next < end) {
        const struct change *change = window_at(&store->window, watch->next++);

        if (wanted(watch, change))
            watch->fn(watch->arg,
                      &(struct store_event){change->op, change->rv, change->object, change->before});
    }
    if (watch->store && watch->idle)
        watch->idle(watch->arg, store->durable > watch->from ? store->durable : watch->from);
}

static void watch_free(struct store_watch *watch)
{
    free(watch->ns);
    free(watch);
}

static void sweep_watches(struct store *store)
{
    size_t kept = 0;

    VEC_EACH(&store->watches, it) {
        if ((*it)->store)
            store->watches.v[kept++] = *it;
        else
            watch_free(*it);
    }
    store->watches.len = kept;
    store->unwatched = false;
}

/* Callbacks may watch and unwatch: new ones are told at the end of this round, gone ones are swept. */
static void tell_all(struct store *store)
{
    store->telling = true;
    for (size_t i = 0; i < store->watches.len; i++) {
        struct store_watch *watch = store->watches.v[i];

        if (watch->store)
            tell(store, watch);
    }
    store->telling = false;
    if (store->unwatched)
        sweep_watches(store);
}

int store_watch(struct store *store, int kind, const char *ns, int64_t from, store_watch_fn fn,
                void (*idle)(void *arg, int64_t revision), void *arg, struct store_watch **ret,
                struct err *err)
{
    struct store_watch *watch;

    if (from < store->oldest)
        return err_set(err, ERR_GONE, "too old resource version: %" PRId64 " (%" PRId64 ")", from,
                       store->oldest);
    watch = NEW(struct store_watch);
    *watch = (struct store_watch){.store = store,
                                  .kind = kind,
                                  .ns = mem_strdup(ns),
                                  .from = from,
                                  .next = window_after(&store->window, from),
                                  .fresh = true,
                                  .fn = fn,
                                  .idle = idle,
                                  .arg = arg};
    vec_push(&store->watches, watch);
    need_turn(store);
    *ret = watch;
    return 0;
}

void store_unwatch(struct store_watch *watch)
{
    struct store *store;

    if (!watch)
        return;
    store = TAKE_PTR(watch->store);
    store->unwatched = true;
    if (!store->telling)
        sweep_watches(store);
}

/* ---- the end of a turn, and of a commit ---- */

static void trim(struct store *store)
{
    while (store->window.first < store->told &&
           (store->window.end - store->window.first > store->window_max ||
            store->window.bytes > STORE_WINDOW_BYTES)) {
        struct change change = window_pop_first(&store->window);

        store->oldest = change.rv;
        if (change.before)
            vec_push(&store->prunes, change.before->rv);
        if (change.op == STORE_DELETED)
            vec_push(&store->prunes, change.rv);
        object_unref(change.object);
        object_unref(change.before);
    }
}

static void end_turn(void *arg)
{
    struct turn *turn = arg;
    struct store *store = turn->store;

    free(turn);
    if (!store)
        return;
    store->turn = NULL;
    if (submit(store)) {
        settle(store);
        tell_all(store);
        trim(store);
        return;
    }
    tell_all(store); /* watches that are new */
}

static void settle(struct store *store)
{
    struct db_batch *batch = db_done(store->db);

    while (batch && !batch->failed) {
        struct db_batch *next = batch->next;

        commit_done(store, batch);
        batch = next;
    }
    run_deferred(store, NULL);
    if (batch)
        commit_failed(store, batch);
}

static void store_on_done(void *arg, uint32_t events)
{
    struct store *store = arg;

    (void)events;
    settle(store);
    tell_all(store);
    trim(store);
}

/* ---- opening, closing, asking ---- */

/* Documents that were read are nobody's once the turn is over. */
static void docs_turn(void *arg)
{
    (void)arg;
    object_docs_turn();
}

static void docs_ask(void *arg)
{
    struct store *store = arg;

    loop_later(store->loop, docs_turn, NULL);
}

static struct store *store_new(struct loop *loop)
{
    struct store *store = NEW(struct store);

    store->loop = loop;
    store->index = index_new();
    store->window_max = STORE_WINDOW_CHANGES;
    object_docs_ask(docs_ask, store);
    return store;
}

static int open_path(const char *path, bool accept_loss, struct loop *loop, struct store **ret,
                     struct err *err)
{
    struct store *store = store_new(loop);

    if (db_open(path, accept_loss, &store->db, err) < 0 || load(store, err) < 0 ||
        db_start(store->db, err) < 0) {
        store_close(store);
        return -1;
    }
    store->io = loop_io_new(loop, db_event_fd(store->db), EPOLLIN, store_on_done, store);
    store->reader = reader_new(loop, store->db);
    trim(store);
    *ret = store;
    return 0;
}

int store_open(const char *path, struct loop *loop, struct store **ret, struct err *err)
{
    return open_path(path, false, loop, ret, err);
}

int store_open_lossy(const char *path, struct loop *loop, struct store **ret, struct err *err)
{
    return open_path(path, true, loop, ret, err);
}

const char *store_id(const struct store *store)
{
    return db_id(store->db);
}

static void store_on_disk_done(void *arg)
{
    struct store *store = arg;

    db_wait(store->db);
    store_on_done(store, 0);
}

int store_open_disk(struct store_disk *disk, struct loop *loop, struct store **ret, struct err *err)
{
    struct store *store = store_new(loop);

    store->disk = disk;
    store->window_max = DISK_WINDOW_CHANGES;
    disk->stopped = false;
    disk->stop_after = 0;
    db_open_disk(disk, &store->db);
    if (load(store, err) < 0 || db_start(store->db, err) < 0) {
        store_free(store);
        return -1;
    }
    store->disk_done = loop_timer_new(loop, store_on_disk_done, store);
    store->reader = reader_new(loop, store->db);
    trim(store);
    *ret = store;
    return 0;
}

static void drop_gathering(struct store *store)
{
    if (store->gathering)
        db_batch_free(TAKE_PTR(store->gathering));
    store->settled = store->writes;
}

void store_kill(struct store *store)
{
    const struct err err = {.code = ERR_UNAVAILABLE, .msg = "the daemon was killed"};

    drop_gathering(store);
    while (store->deferred_done < store->deferred.len) {
        run_deferred(store, &err);
        drop_gathering(store);
    }
    store_free(store);
}

static void flush(struct store *store)
{
    submit(store);
    db_wait(store->db);
    settle(store);
}

void store_settle(struct store *store)
{
    if (!store || (!store->io && !store->disk_done))
        return;
    for (int round = 0; round < SETTLE_ROUNDS && store->deferred_done < store->deferred.len; round++)
        flush(store);
}

void store_close(struct store *store)
{
    if (!store)
        return;
    if (store->io || store->disk_done)
        do { /* answers given here may write once more */
            flush(store);
        } while (!store_durable(store) && !(store->disk && store->disk->stopped));
    store_free(store);
}

static void store_free(struct store *store)
{
    loop_io_free(store->io);
    loop_timer_free(store->disk_done);
    reader_free(store->reader);
    db_close(store->db);
    if (store->turn)
        store->turn->store = NULL;
    VEC_EACH(&store->watches, it)
        watch_free(*it);
    vec_done(&store->watches);
    vec_done(&store->deferred);
    vec_done(&store->prunes);
    VEC_EACH(&store->undo, it) /* of a store that was killed */
        undo_done(it);
    vec_done(&store->undo);
    window_done(&store->window);
    values_done(&store->values);
    index_free(store->index);
    object_docs_unask(store);
    object_docs_turn();
    free(store);
}

int64_t store_revision(const struct store *store)
{
    return store->revision;
}

int64_t store_oldest(const struct store *store)
{
    return store->oldest;
}

const struct object *store_get(const struct store *store, int kind, const char *ns, const char *name)
{
    return index_get(store->index, kind, ns, name);
}

const struct object *store_by_uid(const struct store *store, const char *uid)
{
    return index_by_uid(store->index, uid);
}

struct store_slice store_list(const struct store *store, int kind, const char *ns)
{
    return index_list(store->index, kind, ns);
}

size_t store_count(const struct store *store, int kind, const char *ns)
{
    return index_list(store->index, kind, ns).len;
}

const struct object *store_controller(const struct store *store, const struct object *object)
{
    CLEANUP(free)
    char *uid = object->controller ? mem_strndup(object->owners[object->controller - 1].s,
                                                 object->owners[object->controller - 1].len)
                                   : NULL;
    const struct object *owner = uid ? store_by_uid(store, uid) : NULL;

    return owner && object_controls(owner, object) ? owner : NULL;
}

struct parts {
    const struct object *of;
    void (*fn)(void *arg, const struct object *object);
    void *arg;
};

static void see_part(void *arg, const struct object *object)
{
    struct parts *parts = arg;

    if (object_controls(parts->of, object))
        parts->fn(parts->arg, object);
}

void store_parts(const struct store *store, const struct object *object,
                 void (*fn)(void *arg, const struct object *object), void *arg)
{
    struct parts parts = {object, fn, arg};

    store_dependents(store, object->uid, see_part, &parts);
}

void store_dependents(const struct store *store, const char *uid,
                      void (*fn)(void *arg, const struct object *object), void *arg)
{
    index_dependents(store->index, uid, fn, arg);
}

/* ---- the durable state: memory without what is on its way to the disk ---- */

int64_t store_durable_revision(const struct store *store)
{
    return store->durable;
}

static bool is_named(const struct change *change, int kind, const char *ns, const char *name)
{
    return change->object->kind->id == kind && strcmp(change->object->name, name) == 0 &&
           strcmp(change->object->ns, ns) == 0;
}

const struct object *store_get_durable(const struct store *store, int kind, const char *ns, const char *name)
{
    for (uint64_t at = store->told; at < store->window.end; at++) {
        const struct change *change = window_at(&store->window, at);

        if (is_named(change, kind, ns, name)) /* the first one: what was before it is durable */
            return change->before;
    }
    return store_get(store, kind, ns, name);
}

/* What an undurable change made of something: key, and what was before. */
struct lapse {
    const struct object *key;
    struct object *before; /* NULL: nothing */
    uint64_t seq;
};

static int compare_names(const struct object *x, const struct object *y)
{
    int order = strcmp(x->ns, y->ns);

    return order ? order : strcmp(x->name, y->name);
}

static int by_name_then_age(const void *a, const void *b)
{
    const struct lapse *x = a, *y = b;
    int order = compare_names(x->key, y->key);

    return order ? order : x->seq < y->seq ? -1 : 1;
}

struct store_slice store_list_durable(const struct store *store, int kind, const char *ns,
                                      struct arena *arena)
{
    struct store_slice newest = store_list(store, kind, ns);
    VEC(struct lapse) lapses = {0};
    struct object **v;
    size_t at = 0, len = 0;

    for (uint64_t seq = store->told; seq < store->window.end; seq++) {
        const struct change *change = window_at(&store->window, seq);

        if (change->object->kind->id == kind && (!ns || strcmp(change->object->ns, ns) == 0))
            vec_push(&lapses, (struct lapse){change->object, change->before, seq});
    }
    if (lapses.len == 0)
        return newest;
    qsort(lapses.v, lapses.len, sizeof(*lapses.v), by_name_then_age);
    v = arena_alloc(arena, (newest.len + lapses.len) * sizeof(struct object *));
    for (size_t i = 0; i < lapses.len; i++) {
        if (i > 0 && compare_names(lapses.v[i - 1].key, lapses.v[i].key) == 0)
            continue; /* a later change of the same */
        while (at < newest.len && compare_names(newest.v[at], lapses.v[i].key) < 0)
            v[len++] = newest.v[at++];
        if (at < newest.len && compare_names(newest.v[at], lapses.v[i].key) == 0)
            at++;
        if (lapses.v[i].before)
            v[len++] = lapses.v[i].before;
    }
    while (at < newest.len)
        v[len++] = newest.v[at++];
    vec_done(&lapses);
    return (struct store_slice){v, len};
}

struct str store_value(const struct store *store, const char *table, const char *key)
{
    return values_get(&store->values, table, key);
}

void store_values(const struct store *store, const char *table,
                  void (*fn)(void *arg, const char *key, struct str value), void *arg)
{
    values_each(&store->values, table, fn, arg);
}

void store_stats(const struct store *store, struct store_stats *ret)
{
    *ret = store->stats;
    ret->memory_bytes = store->live_bytes + store->window.bytes;
    ret->window_changes = store->window.end - store->window.first;
    ret->watches = store->watches.len;
    ret->trouble = *store->trouble ? store->trouble : NULL;
    ret->waiting_ns = store_durable(store) ? 0 : clock_monotonic() - store->waiting_since;
}
