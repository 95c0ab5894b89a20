/* The thread takes all batches that wait, writes them in one transaction and puts them on the `done`
 * list; what is submitted meanwhile makes the next transaction. The lists are all that is shared, and what
 * batches point at does not change. The connection belongs to whoever has set `writing`: the thread, or
 * the store's own one while it reads at the start, or writes to a disk in memory (db_commit).
 *
 * When a transaction fails, the batches behind it build on states that never came to be. So the thread
 * stands still until the store has undone them and says db_resume. */
#include "store/db.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "objects/kind.h"
#include "store/dbfile.h"
#include "store/dbsum.h"
#include "store/dbtidy.h"
#include "store/disk_internal.h"
#include "store/mark.h"
#include "store/records.h"
#include "store/store.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOG_MODULE "store"
#include "base/log.h"

#define WAY_OUT                                                                                              \
    "; restore a backup with 'berth restore FILE', or start berthd with --accept-loss to go on with what "   \
    "is there"
#define WAL_PAGES          1000 /* of 8 KiB; as PRAGMA wal_autocheckpoint has it */
#define WAL_PAGES_MAX      4000 /* from here on readers are waited for */
#define WAL_WAIT_MS        500  /* ours are done long before: theirs are short (records.h) */
#define WRITER_STACK_BYTES (256 << 10)
#define TIDY_REST_NSEC     (5 * NSEC_PER_MSEC) /* between two steps, for whoever wants the file */

enum {
    STMT_PUT,
    STMT_PRUNE,
    STMT_OLDEST,
    STMT_VALUE_SET,
    STMT_VALUE_REMOVE,
    STMT_RECORD,
    STMT_RECORD_PRUNE,
    STMT_RECORD_PRUNE_JOB,
    STMT_RECORD_PRUNE_USER,
    STMT_OTHERS,
    STMT_BEGIN,
    STMT_COMMIT,
    STMTS
};

static const char *const statements[STMTS] = {
    [STMT_PUT] = "INSERT INTO rev (rv, kind, removed, prev, doc, sum) VALUES (?, ?, ?, ?, ?, ?)",
    [STMT_PRUNE] = "DELETE FROM rev WHERE rv = ?",
    [STMT_OLDEST] = "UPDATE meta SET val = ? WHERE key = 'oldest'",
    [STMT_VALUE_SET] = "INSERT OR REPLACE INTO value (tab, key, val, sum) VALUES (?, ?, ?, ?)",
    [STMT_VALUE_REMOVE] = "DELETE FROM value WHERE tab = ? AND key = ?",
    [STMT_RECORD] = "INSERT OR REPLACE INTO record (seq, type, time, until, job, user, tag, doc, sum)"
                    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
    [STMT_RECORD_PRUNE] = "DELETE FROM record WHERE type = ?1 AND time < (SELECT time FROM record WHERE"
                          " type = ?1 ORDER BY time DESC LIMIT 1 OFFSET ?2)",
    [STMT_RECORD_PRUNE_JOB] =
        "DELETE FROM record WHERE job = ?3 AND job <> '' AND type = ?1 AND seq < (SELECT"
        " seq FROM record WHERE job = ?3 AND job <> '' AND type = ?1"
        " ORDER BY seq DESC LIMIT 1 OFFSET ?2)",
    [STMT_RECORD_PRUNE_USER] = "DELETE FROM record WHERE user = ?3 AND user <> '' AND type = ?1 AND time <"
                               " (SELECT time FROM record WHERE user = ?3 AND user <> '' AND type = ?1"
                               " ORDER BY time DESC LIMIT 1 OFFSET ?2)",
    [STMT_OTHERS] = "UPDATE meta SET val = ? WHERE key = 'others'",
    [STMT_BEGIN] = "BEGIN IMMEDIATE",
    [STMT_COMMIT] = "COMMIT",
};

#define RECORDS_PRUNE_EVERY 5000 /* records of a type, from one look at its limit to the next */
#define PRUNE_EVERY_EACH    1000 /* the same of one user or job */
#define ADDED_MAX           4096 /* users and jobs that are counted; past it all are counted anew */

/* How many are kept: the newest. Those of one user, and of one job, have limits of their own, so that
 * nobody's records drive out the others'. 0: none. */
static const struct {
    int64_t all, user, job;
} record_limits[RECORD_TYPES] = {
    [RECORD_TRANSITION] = {300000, 100000, 10000},
    [RECORD_SPAN] = {300000, 150000, 0},
    [RECORD_EPOCH] = {500000, 200000, 20000},
    [RECORD_METRIC] = {1000000, 250000, 50000},
    [RECORD_MEMORY] = {300000, 100000, 20000},
    [RECORD_CARD] = {300000, 0, 0},
    [RECORD_JOB] = {200000, 100000, 0},
};

struct list {
    struct db_batch *head, **tail;
};

struct db {
    sqlite3 *sql;
    struct store_disk *disk;         /* whose `sql` is; NULL: a file, or SQLite's own memory */
    char *path;                      /* NULL: not a file */
    struct mark *mark;               /* likewise */
    struct mark_point promised, now; /* what the mark said at start, what it says */
    bool accept_loss;
    sqlite3_stmt *stmts[STMTS];
    int event_fd;
    bool started;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct list waiting, done;
    bool writing, broken, stop;
    bool untidy, asked; /* there is something to tidy; from the beginning, by these limits */
    struct store_limits limits;
    struct dbtidy tidy;                  /* the thread's */
    int64_t records_added[RECORD_TYPES]; /* since the last look at the limit; of whoever writes */
    int log_tried;                       /* pages when readers were waited for last */
    struct map *added;                   /* "type user x", "type job x" → how many, as an address */
};

static struct db_batch *list_take(struct list *list)
{
    struct db_batch *head = list->head;

    list->head = NULL;
    list->tail = &list->head;
    return head;
}

static void list_append(struct list *list, struct db_batch *batches)
{
    *list->tail = batches;
    while (*list->tail)
        list->tail = &(*list->tail)->next;
}

struct db_batch *db_batch_new(void)
{
    return NEW(struct db_batch);
}

void db_batch_free(struct db_batch *batch)
{
    VEC_EACH(&batch->ops, it) {
        free(it->table);
        free(it->key);
        free(it->data);
        free(it->tag);
    }
    vec_done(&batch->ops);
    vec_done(&batch->prunes);
    free(batch);
}

static struct db *db_new(void)
{
    struct db *db = NEW(struct db);

    db->event_fd = -1;
    list_take(&db->waiting);
    list_take(&db->done);
    pthread_mutex_init(&db->lock, NULL);
    pthread_cond_init(&db->changed, NULL);
    db->added = map_new();
    return db;
}

void db_open_disk(struct store_disk *disk, struct db **ret)
{
    *ret = db_new();
    (*ret)->disk = disk;
    (*ret)->sql = disk->sql;
}

/* Nothing is refused that the admin has accepted; it is said all the same. */
static int refuse(const struct db *db, const struct err *why, struct err *err)
{
    if (db->accept_loss) {
        log_warn("%s: accepted", why->msg);
        return 0;
    }
    return err_set(err, ERR_INVALID, "%s" WAY_OUT, why->msg);
}

static int query_meta(struct db *db, const char *key, sqlite3_stmt **ret, struct err *err)
{
    if (sqlite3_prepare_v2(db->sql, "SELECT val FROM meta WHERE key = ?", -1, ret, NULL) != SQLITE_OK)
        return dbfile_error(db->sql, err, "read the file's own facts");
    sqlite3_bind_text(*ret, 1, key, -1, SQLITE_STATIC);
    if (sqlite3_step(*ret) == SQLITE_ROW)
        return 0;
    dbfile_error(db->sql, err, "read the file's own facts");
    sqlite3_finalize(*ret);
    return -1;
}

static int read_facts(struct db *db, struct err *err)
{
    sqlite3_stmt *stmt;

    if (query_meta(db, "id", &stmt, err) < 0)
        return -1;
    snprintf(db->now.id, sizeof(db->now.id), "%s", (const char *)sqlite3_column_text(stmt, 0));
    sqlite3_finalize(stmt);
    if (query_meta(db, "others", &stmt, err) < 0)
        return -1;
    db->now.others = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return 0;
}

/* Was there something here before? */
static int check_identity(struct db *db, const char *path, struct err *err)
{
    struct err why = {0};

    if (!db->promised.id[0] || streq(db->promised.id, db->now.id))
        return 0;
    err_set(&why, ERR_INVALID,
            "'%s' is not the database that was used here before (that one was at revision %" PRId64 ")", path,
            db->promised.revision);
    return refuse(db, &why, err);
}

static bool is_empty(const char *path)
{
    struct stat st;

    return stat(path, &st) < 0 || st.st_size == 0;
}

static int open_file(struct db *db, const char *path, struct err *err)
{
    struct err why = {0};

    if (mark_open(path, &db->mark, &db->promised, err) < 0)
        return -1;
    db->path = mem_strdup(path);
    if (db->promised.id[0] && is_empty(path)) {
        err_set(&why, ERR_INVALID, "'%s' is missing or empty, but revision %" PRId64 " was stored in it",
                path, db->promised.revision);
        if (refuse(db, &why, err) < 0)
            return -1;
    }
    if (dbfile_open(path, &db->sql, err) < 0)
        return err && err->code == ERR_INVALID ? err_set(err, ERR_INVALID, "%s" WAY_OUT, err->msg) : -1;
    if (read_facts(db, err) < 0)
        return -1;
    return check_identity(db, path, err);
}

int db_open(const char *path, bool accept_loss, struct db **ret, struct err *err)
{
    struct db *db = db_new();

    db->accept_loss = accept_loss;
    if ((streq(path, ":memory:") ? dbfile_open(path, &db->sql, err) : open_file(db, path, err)) < 0) {
        db_close(db);
        return -1;
    }
    *ret = db;
    return 0;
}

int db_check_promise(struct db *db, int64_t revision, struct err *err)
{
    bool same = streq(db->promised.id, db->now.id);
    struct err why = {0};

    db->now.revision = revision;
    if (same && revision < db->promised.revision)
        err_set(&why, ERR_INVALID,
                "the database ends at revision %" PRId64 ", but revision %" PRId64 " was acknowledged",
                revision, db->promised.revision);
    else if (same && db->now.others < db->promised.others)
        err_set(&why, ERR_INVALID,
                "the database lacks the last %" PRId64 " changes of tokens, settings or history",
                db->promised.others - db->now.others);
    if (why.code && refuse(db, &why, err) < 0)
        return -1;
    if (db->mark)
        mark_set(db->mark, &db->now);
    return 0;
}

const char *db_path(const struct db *db)
{
    return db->path;
}

const char *db_id(const struct db *db)
{
    return db->now.id;
}

static void free_batches(struct db_batch *batch)
{
    while (batch) {
        struct db_batch *next = batch->next;

        db_batch_free(batch);
        batch = next;
    }
}

void db_close(struct db *db)
{
    if (!db)
        return;
    if (db->started) {
        pthread_mutex_lock(&db->lock);
        db->stop = true;
        pthread_cond_broadcast(&db->changed);
        pthread_mutex_unlock(&db->lock);
        pthread_join(db->thread, NULL);
    }
    free_batches(list_take(&db->waiting));
    free_batches(list_take(&db->done));
    for (size_t i = 0; i < STMTS; i++)
        sqlite3_finalize(db->stmts[i]);
    if (!db->disk)
        dbfile_close(db->sql);
    mark_close(db->mark); /* last: it keeps others out */
    fd_close(db->event_fd);
    pthread_mutex_destroy(&db->lock);
    pthread_cond_destroy(&db->changed);
    map_free(db->added);
    free(db->path);
    free(db);
}

static int sql_error(struct db *db, struct err *err, const char *what)
{
    return dbfile_error(db->sql, err, what);
}

int db_oldest(struct db *db, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt;
    int rc;

    if (sqlite3_prepare_v2(db->sql, "SELECT val FROM meta WHERE key = 'oldest'", -1, &stmt, NULL) !=
        SQLITE_OK)
        return sql_error(db, err, "read the window's start");
    rc = sqlite3_step(stmt);
    *ret = rc == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : 0;
    if (rc != SQLITE_ROW)
        sql_error(db, err, "read the window's start");
    sqlite3_finalize(stmt);
    return rc == SQLITE_ROW ? 0 : -1;
}

static struct str column_str(sqlite3_stmt *stmt, int column)
{
    const void *data = sqlite3_column_blob(stmt, column);

    return (struct str){data ? data : "", (size_t)sqlite3_column_bytes(stmt, column)};
}

static uint32_t sum_row(const struct db_row *row)
{
    uint32_t sum = dbsum_int(0, row->rv);

    sum = dbsum_int(dbsum_int(dbsum_int(sum, row->kind), row->removed), row->prev);
    return dbsum_text(sum, row->doc);
}

static uint32_t sum_value(const char *table, const char *key, struct str value)
{
    return dbsum_text(dbsum_text(dbsum_text(0, str_from(table)), str_from(key)), value);
}

static uint32_t sum_record(const struct record *record)
{
    uint32_t sum = dbsum_int(0, record->seq);

    sum = dbsum_int(dbsum_int(dbsum_int(sum, (int64_t)record->type), record->time_ms), record->until_ms);
    sum = dbsum_text(dbsum_text(sum, str_from(record->job)), str_from(record->user));
    return dbsum_text(dbsum_text(sum, str_from(record->tag)), record->doc);
}

/* 0: give it on. 1: it is damaged, which was accepted. */
static int take_row(struct db *db, const struct db_loader *loader, const struct db_row *row, uint32_t sum,
                    struct err *err)
{
    struct err why = {0};

    if (sum != sum_row(row))
        err_set(&why, ERR_INVALID, "revision %" PRId64 " is damaged: its checksum does not match", row->rv);
    else if (loader->row(loader->arg, row, &why) == 0)
        return 0;
    if (why.code != ERR_INVALID) {
        if (err)
            *err = why;
        return -1;
    }
    return refuse(db, &why, err);
}

static int load_rows(struct db *db, const struct db_loader *loader, struct err *err)
{
    sqlite3_stmt *stmt;
    int rc, result = 0;

    if (sqlite3_prepare_v2(db->sql, "SELECT rv, kind, removed, prev, doc, sum FROM rev ORDER BY rv", -1,
                           &stmt, NULL) != SQLITE_OK)
        return sql_error(db, err, "read the objects");
    while (result == 0 && (rc = sqlite3_step(stmt)) != SQLITE_DONE) {
        struct db_row row;

        if (rc != SQLITE_ROW) {
            result = sql_error(db, err, "read the objects");
            break;
        }
        row = (struct db_row){sqlite3_column_int64(stmt, 0), sqlite3_column_int64(stmt, 1),
                              sqlite3_column_int(stmt, 2) != 0, sqlite3_column_int64(stmt, 3),
                              column_str(stmt, 4)};
        result = take_row(db, loader, &row, (uint32_t)sqlite3_column_int64(stmt, 5), err);
    }
    sqlite3_finalize(stmt);
    return result;
}

static int load_values(struct db *db, const struct db_loader *loader, struct err *err)
{
    sqlite3_stmt *stmt;
    int rc, result = 0;

    if (sqlite3_prepare_v2(db->sql, "SELECT tab, key, val, sum FROM value ORDER BY tab, key", -1, &stmt,
                           NULL) != SQLITE_OK)
        return sql_error(db, err, "read the values");
    while (result == 0 && (rc = sqlite3_step(stmt)) != SQLITE_DONE) {
        const char *table = (const char *)sqlite3_column_text(stmt, 0);
        const char *key = (const char *)sqlite3_column_text(stmt, 1);
        struct err why = {0};

        if (rc != SQLITE_ROW) {
            result = sql_error(db, err, "read the values");
        } else if ((uint32_t)sqlite3_column_int64(stmt, 3) != sum_value(table, key, column_str(stmt, 2))) {
            err_set(&why, ERR_INVALID, "value '%s' of '%s' is damaged: its checksum does not match", key,
                    table);
            result = refuse(db, &why, err);
        } else {
            loader->value(loader->arg, table, key, column_str(stmt, 2));
        }
    }
    sqlite3_finalize(stmt);
    return result;
}

int db_load(struct db *db, const struct db_loader *loader, struct err *err)
{
    if (load_rows(db, loader, err) < 0 || load_values(db, loader, err) < 0)
        return -1;
    sqlite3_db_release_memory(db->sql); /* pages read once: not needed again */
    return 0;
}

static int run(struct db *db, int stmt)
{
    int rc = sqlite3_step(db->stmts[stmt]);

    sqlite3_reset(db->stmts[stmt]);
    return rc == SQLITE_DONE ? 0 : -1;
}

static int write_object(struct db *db, const struct db_op *op)
{
    sqlite3_stmt *stmt = db->stmts[STMT_PUT];

    sqlite3_bind_int64(stmt, 1, op->object->rv);
    sqlite3_bind_int(stmt, 2, op->object->kind->id);
    sqlite3_bind_int(stmt, 3, op->type == DB_REMOVE);
    sqlite3_bind_int64(stmt, 4, op->prev);
    sqlite3_bind_text64(stmt, 5, op->object->text, op->object->text_len, SQLITE_STATIC, SQLITE_UTF8);
    sqlite3_bind_int64(
        stmt, 6,
        sum_row(&(struct db_row){op->object->rv, op->object->kind->id, op->type == DB_REMOVE, op->prev,
                                 (struct str){op->object->text, op->object->text_len}}));
    return run(db, STMT_PUT);
}

static int write_value(struct db *db, const struct db_op *op)
{
    int which = op->data ? STMT_VALUE_SET : STMT_VALUE_REMOVE;
    sqlite3_stmt *stmt = db->stmts[which];

    sqlite3_bind_text(stmt, 1, op->table, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 2, op->key, -1, SQLITE_STATIC);
    if (op->data) {
        sqlite3_bind_blob64(stmt, 3, op->data, op->len, SQLITE_STATIC);
        sqlite3_bind_int64(stmt, 4, sum_value(op->table, op->key, (struct str){op->data, op->len}));
    }
    return run(db, which);
}

/* One more record of that user or job: now and then those past the limit go. */
static int prune_each(struct db *db, const struct db_op *op, int which, const char *what, const char *name,
                      int64_t limit)
{
    CLEANUP(free) char *key = NULL;
    uintptr_t count;

    if (!limit || !name || !*name)
        return 0;
    key = mem_printf("%d %s %s", op->record, what, name);
    if (map_len(db->added) >= ADDED_MAX && !map_get(db->added, str_from(key))) {
        map_free(db->added);
        db->added = map_new();
    }
    count = (uintptr_t)map_get(db->added, str_from(key)) + 1;
    if (count < PRUNE_EVERY_EACH) {
        map_set(db->added, str_from(key), (void *)count);
        return 0;
    }
    map_remove(db->added, str_from(key));
    sqlite3_bind_int(db->stmts[which], 1, op->record);
    sqlite3_bind_int64(db->stmts[which], 2, limit);
    sqlite3_bind_text(db->stmts[which], 3, name, -1, SQLITE_STATIC);
    return run(db, which);
}

static int write_record(struct db *db, const struct db_op *op)
{
    sqlite3_stmt *stmt = db->stmts[STMT_RECORD], *prune = db->stmts[STMT_RECORD_PRUNE];

    sqlite3_bind_int64(stmt, 1, op->seq);
    sqlite3_bind_int(stmt, 2, op->record);
    sqlite3_bind_int64(stmt, 3, op->time_ms);
    sqlite3_bind_int64(stmt, 4, op->until_ms);
    sqlite3_bind_text(stmt, 5, op->table, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 6, op->key, -1, SQLITE_STATIC);
    sqlite3_bind_text(stmt, 7, op->tag, -1, SQLITE_STATIC);
    sqlite3_bind_text64(stmt, 8, op->data, op->len, SQLITE_STATIC, SQLITE_UTF8);
    sqlite3_bind_int64(
        stmt, 9,
        sum_record(&(struct record){op->seq, (enum record_type)op->record, op->time_ms, op->until_ms,
                                    op->table, op->key, op->tag, (struct str){op->data, op->len}}));
    if (run(db, STMT_RECORD) < 0)
        return -1;
    if (prune_each(db, op, STMT_RECORD_PRUNE_JOB, "job", op->table, record_limits[op->record].job) < 0 ||
        prune_each(db, op, STMT_RECORD_PRUNE_USER, "user", op->key, record_limits[op->record].user) < 0)
        return -1;
    if (++db->records_added[op->record] < RECORDS_PRUNE_EVERY)
        return 0;
    db->records_added[op->record] = 0;
    sqlite3_bind_int(prune, 1, op->record);
    sqlite3_bind_int64(prune, 2, record_limits[op->record].all);
    return run(db, STMT_RECORD_PRUNE);
}

static int write_op(struct db *db, const struct db_op *op)
{
    switch (op->type) {
    case DB_VALUE:
        return write_value(db, op);
    case DB_RECORD:
        return write_record(db, op);
    default:
        return write_object(db, op);
    }
}

static int write_batch(struct db *db, struct db_batch *batch)
{
    VEC_EACH(&batch->ops, it)
        if (write_op(db, it) < 0)
            return -1;
    VEC_EACH(&batch->prunes, it) {
        sqlite3_bind_int64(db->stmts[STMT_PRUNE], 1, *it);
        if (run(db, STMT_PRUNE) < 0)
            return -1;
    }
    if (batch->oldest == 0)
        return 0;
    sqlite3_bind_int64(db->stmts[STMT_OLDEST], 1, batch->oldest);
    return run(db, STMT_OLDEST);
}

/* Where the mark will be once these are written. */
static struct mark_point point_after(const struct db *db, const struct db_batch *batches)
{
    struct mark_point point = db->now;
    bool others = false;

    for (const struct db_batch *it = batches; it; it = it->next)
        VEC_EACH(&it->ops, op) {
            if (op->type == DB_PUT || op->type == DB_REMOVE)
                point.revision = op->object->rv;
            else
                others = true;
        }
    point.others += others;
    return point;
}

static int write_others(struct db *db, int64_t others)
{
    if (others == db->now.others)
        return 0;
    sqlite3_bind_int64(db->stmts[STMT_OTHERS], 1, others);
    return run(db, STMT_OTHERS);
}

static int write_all(struct db *db, struct db_batch *batches, struct err *err)
{
    struct mark_point point = point_after(db, batches);
    int result;

    if (db->disk && !disk_takes(db->disk, err))
        return -1;
    result = run(db, STMT_BEGIN);
    for (struct db_batch *it = batches; it && result == 0; it = it->next)
        result = write_batch(db, it);
    if (result == 0)
        result = write_others(db, point.others);
    if (result == 0)
        result = run(db, STMT_COMMIT);
    if (result == 0) {
        db->now = point;
        if (db->mark)
            mark_set(db->mark, &point);
        if (db->disk)
            disk_committed(db->disk);
        return 0;
    }
    sql_error(db, err, "commit");
    if (!sqlite3_get_autocommit(db->sql))
        sqlite3_exec(db->sql, "ROLLBACK", NULL, NULL, NULL);
    /* The log may hold all of what was refused, whole but not synced: after a crash it would appear.
     * Something else is written over it, whether or not that can be synced. */
    sqlite3_exec(db->sql, "UPDATE meta SET val = val + 1 WHERE key = 'void'", NULL, NULL, NULL);
    /* A full disk may have room for what the log of changes already takes: let it be used anew. */
    sqlite3_wal_checkpoint_v2(db->sql, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    return -1;
}

static void signal_done(struct db *db)
{
    const uint64_t one = 1;

    while (write(db->event_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

/* One transaction, without the lock; `writing` is set. */
static void transact(struct db *db, struct db_batch *batches)
{
    int64_t start = clock_monotonic();
    struct err err = {0};
    bool failed = write_all(db, batches, &err) < 0;

    for (struct db_batch *it = batches; it; it = it->next) {
        it->leads = it == batches;
        it->failed = failed;
        if (failed)
            it->err = err;
        it->took_ns = clock_monotonic() - start;
    }
    pthread_mutex_lock(&db->lock);
    list_append(&db->done, batches);
    db->writing = false;
    db->broken = failed;
    pthread_cond_broadcast(&db->changed);
}

bool db_commit(struct db *db, struct db_batch *batch)
{
    bool idle;

    pthread_mutex_lock(&db->lock);
    idle = !(db->disk && db->disk->stopped) && !db->writing && !db->broken && !db->waiting.head &&
           !db->done.head;
    if (idle)
        db->writing = true;
    pthread_mutex_unlock(&db->lock);
    if (!idle)
        return false;
    transact(db, batch);
    pthread_mutex_unlock(&db->lock);
    return true;
}

/* One step, with the lock; `writing` is not set. Then others have their turn. */
static void tidy_some(struct db *db)
{
    struct timespec until;
    struct err err = {0};
    int result;

    if (db->asked)
        db->tidy = (struct dbtidy){.limits = db->limits};
    db->asked = false;
    db->writing = true;
    pthread_mutex_unlock(&db->lock);
    result = dbtidy_step(db->sql, &db->tidy, &err);
    if (result < 0)
        log_warn("%s", err.msg);
    else if (result == 0 && db->tidy.gone)
        log_info("%" PRId64 " records left the history", db->tidy.gone);
    pthread_mutex_lock(&db->lock);
    db->writing = false;
    db->untidy = result > 0 || db->asked;
    pthread_cond_broadcast(&db->changed);
    if (!db->untidy)
        return;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += TIDY_REST_NSEC;
    until.tv_sec += until.tv_nsec / NSEC_PER_SEC;
    until.tv_nsec %= NSEC_PER_SEC;
    pthread_cond_timedwait(&db->changed, &db->lock, &until);
}

void db_tidy(struct db *db, const struct store_limits *limits)
{
    struct dbtidy tidy = {.limits = *limits};

    if (db->disk) {
        while (!db->disk->stopped && dbtidy_step(db->sql, &tidy, NULL) > 0)
            ;
        return;
    }
    pthread_mutex_lock(&db->lock);
    db->limits = *limits;
    db->asked = db->untidy = true;
    pthread_cond_broadcast(&db->changed);
    pthread_mutex_unlock(&db->lock);
}

static void *writer(void *arg)
{
    struct db *db = arg;

    pthread_mutex_lock(&db->lock);
    for (;;) {
        struct db_batch *batches;

        while (!db->stop && (db->writing || db->broken || (!db->waiting.head && !db->untidy)))
            pthread_cond_wait(&db->changed, &db->lock);
        if (!db->stop && !db->waiting.head) {
            tidy_some(db);
            continue;
        }
        if (db->broken || !db->waiting.head)
            break; /* stop */
        batches = list_take(&db->waiting);
        db->writing = true;
        pthread_mutex_unlock(&db->lock);
        transact(db, batches);
        signal_done(db);
    }
    pthread_mutex_unlock(&db->lock);
    return NULL;
}

/* The log of changes is put into the file as it grows. Where there is always somebody who still reads an
 * older state, it is never used anew from its beginning: once it is long, new readers get the newest state
 * and the others are waited for. */
static int db_on_log(void *arg, sqlite3 *sql, const char *name, int pages)
{
    struct db *db = arg;

    if (pages < WAL_PAGES)
        db->log_tried = 0;
    else if (pages < WAL_PAGES_MAX || pages < db->log_tried + WAL_PAGES)
        sqlite3_wal_checkpoint_v2(sql, name, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
    else {
        db->log_tried = pages;
        sqlite3_busy_timeout(sql, WAL_WAIT_MS);
        sqlite3_wal_checkpoint_v2(sql, name, SQLITE_CHECKPOINT_RESTART, NULL, NULL);
        sqlite3_busy_timeout(sql, DBFILE_BUSY_MS);
    }
    return SQLITE_OK;
}

static int prepare(struct db *db, struct err *err)
{
    if (db->path)
        sqlite3_wal_hook(db->sql, db_on_log, db);
    for (int i = 0; i < STMTS; i++)
        if (sqlite3_prepare_v3(db->sql, statements[i], -1, SQLITE_PREPARE_PERSISTENT, &db->stmts[i], NULL) !=
            SQLITE_OK)
            return sql_error(db, err, statements[i]);
    return 0;
}

int db_start(struct db *db, struct err *err)
{
    pthread_attr_t attr;
    sigset_t all, old;
    int rc;

    if (prepare(db, err) < 0)
        return -1;
    if (db->disk)
        return 0;
    if ((db->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
        return err_errno(err, errno, "eventfd");
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, WRITER_STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&db->thread, &attr, writer, db);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (rc != 0)
        return err_errno(err, rc, "start the store's writer");
    db->started = true;
    return 0;
}

int db_event_fd(const struct db *db)
{
    return db->event_fd;
}

void db_submit(struct db *db, struct db_batch *batch)
{
    pthread_mutex_lock(&db->lock);
    list_append(&db->waiting, batch);
    pthread_cond_broadcast(&db->changed);
    pthread_mutex_unlock(&db->lock);
}

struct db_batch *db_done(struct db *db)
{
    struct db_batch *batches;
    uint64_t count;

    while (db->event_fd >= 0 && read(db->event_fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
    pthread_mutex_lock(&db->lock);
    batches = list_take(&db->done);
    pthread_mutex_unlock(&db->lock);
    return batches;
}

struct db_batch *db_resume(struct db *db)
{
    struct db_batch *batches;

    pthread_mutex_lock(&db->lock);
    batches = list_take(&db->waiting);
    db->broken = false;
    pthread_cond_broadcast(&db->changed);
    pthread_mutex_unlock(&db->lock);
    return batches;
}

/* ---- records ---- */

int db_last_record(struct db *db, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt;
    int rc;

    if (sqlite3_prepare_v2(db->sql, "SELECT max(seq) FROM record", -1, &stmt, NULL) != SQLITE_OK)
        return sql_error(db, err, "read the records");
    rc = sqlite3_step(stmt); /* one row always, of NULL where there is no record */
    if (rc == SQLITE_ROW)
        *ret = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    return rc == SQLITE_ROW ? 0 : sql_error(db, err, "read the records");
}

int db_read(struct db *db, int (*fn)(void *work, struct record_source *source, struct err *err), void *work,
            struct err *err)
{
    struct record_source source;
    int result;

    pthread_mutex_lock(&db->lock);
    while (db->writing)
        pthread_cond_wait(&db->changed, &db->lock);
    db->writing = true;
    pthread_mutex_unlock(&db->lock);
    record_source_init(&source, db->sql, NULL);
    result = fn(work, &source, err);
    pthread_mutex_lock(&db->lock);
    db->writing = false;
    pthread_cond_broadcast(&db->changed);
    pthread_mutex_unlock(&db->lock);
    return result;
}

/* What the thread does for a file. */
static void write_waiting(struct db *db)
{
    struct db_batch *batches;

    if (db->disk->stopped || db->broken || !db->waiting.head)
        return;
    batches = list_take(&db->waiting);
    db->writing = true;
    transact(db, batches);
    pthread_mutex_unlock(&db->lock);
}

void db_wait(struct db *db)
{
    if (db->disk) {
        write_waiting(db);
        return;
    }
    pthread_mutex_lock(&db->lock);
    while (db->writing || (db->waiting.head && !db->broken))
        pthread_cond_wait(&db->changed, &db->lock);
    pthread_mutex_unlock(&db->lock);
}
