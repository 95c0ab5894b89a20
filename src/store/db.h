/* db - the SQLite file behind a store, and the thread that writes it.
 *
 * Every state of every object is one row of `rev`, keyed by its revision; a state's row is deleted when
 * the change that superseded it has left the window of watches. So the newest row of a name is the live
 * object, the rows since `oldest` are the window, and a crash at any moment leaves both. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "base/vec.h"
#include "objects/object.h"

struct db;

enum db_op_type { DB_PUT, DB_REMOVE, DB_VALUE, DB_RECORD };

struct db_op {
    enum db_op_type type;
    const struct object *object; /* PUT, REMOVE: borrowed until the batch is done */
    int64_t prev;                /* revision that it supersedes; 0: none */
    char *table, *key;           /* VALUE: the batch's own; RECORD: job, user */
    char *data;                  /* NULL: remove */
    size_t len;
    char *tag; /* RECORD, as the rest */
    int64_t seq, time_ms, until_ms;
    int record;
};

/* What is to become durable together. Made by the store, filled, submitted, and given back when done. */
struct db_batch {
    struct db_batch *next;
    VEC(struct db_op) ops;
    VEC(int64_t) prunes; /* revisions that nobody can ask for any more */
    int64_t oldest;      /* start of the window once they are gone; 0: as before */
    uint64_t writes;     /* the store's count of writes, this batch included */
    bool leads;          /* the first of its transaction */
    bool failed;         /* nothing of it is in the file */
    struct err err;
    int64_t took_ns;
};

struct db_batch *db_batch_new(void);
void db_batch_free(struct db_batch *batch);

/* ERR_UNSUPPORTED: made by a newer Berth. ERR_CONFLICT: another process has it open. ERR_INVALID: it is
 * no database of Berth's, damaged, or has less than was promised (mark.h); with accept_loss what can be read
 * is taken, and each loss is logged. */
int db_open(const char *path, bool accept_loss, struct db **ret, struct err *err);
/* After loading: ERR_INVALID where the newest object is older than what was promised. */
int db_check_promise(struct db *db, int64_t revision, struct err *err);
const char *db_path(const struct db *db); /* NULL: it is no file; borrowed */
const char *db_id(const struct db *db);   /* a UUID, made with the file; borrowed */
/* On a disk in memory (disk.h): db_start starts no thread; what is submitted waits for db_wait. */
struct store_disk;
void db_open_disk(struct store_disk *disk, struct db **ret);
/* Stops the thread after everything submitted is written. */
void db_close(struct db *db); /* NULL is fine */

struct db_row {
    int64_t rv;
    int64_t kind;
    bool removed; /* the last state of something deleted */
    int64_t prev;
    struct str doc;
};
/* With accept_loss a row that cannot be read is left out, and said. */
struct db_loader {
    int (*row)(void *arg, const struct db_row *row, struct err *err); /* oldest first */
    void (*value)(void *arg, const char *table, const char *key, struct str value);
    void *arg;
};
int db_oldest(struct db *db, int64_t *ret, struct err *err);
int db_load(struct db *db, const struct db_loader *loader, struct err *err);

int db_last_record(struct db *db, int64_t *ret, struct err *err); /* its seq; 0: none */

/* Starts the thread. From here on only the calls below and db_close are allowed. */
int db_start(struct db *db, struct err *err);
int db_event_fd(const struct db *db); /* readable when batches are done */
void db_submit(struct db *db, struct db_batch *batch);
/* Of a disk in memory: writes the batch in the caller's thread. Only where nothing else is being written:
 * false otherwise, and nothing was done. The batch is `done` then. */
bool db_commit(struct db *db, struct db_batch *batch);
/* What is done since the last call, in order (linked by `next`), or NULL. After a batch that failed none
 * is written until db_resume. */
struct db_batch *db_done(struct db *db);
/* Gives back what was submitted after the failure, unwritten; the thread writes again. */
struct db_batch *db_resume(struct db *db);
/* See store_tidy; on a disk in memory it is done before this returns. */
struct store_limits;
void db_tidy(struct db *db, const struct store_limits *limits);
/* Waits until nothing is being written or waits to be. */
void db_wait(struct db *db);
/* Lets fn read in the caller's thread once the connection is free. */
struct record_source;
int db_read(struct db *db, int (*fn)(void *work, struct record_source *source, struct err *err), void *work,
            struct err *err);
