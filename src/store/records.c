/* Which index serves a query is decided here and said to SQLite, which has no statistics to go by. Bounds of
 * what the query goes along (time, or the end of spans) are part of the place from which a piece starts, so
 * that each piece seeks to its first row. */
#include "store/records.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "store/dbfile.h"

#define STEPS_BETWEEN_LOOKS 10000 /* of SQLite's machine: a fraction of a millisecond */

/* Where the next piece begins: behind (before, going down) this place. */
struct place {
    int64_t key, seq;
};

/* What a query goes along. */
struct way {
    const char *key, *index;
    bool down;
};

static bool is_set(const char *text)
{
    return text && *text;
}

/* Spans that overlap a time: by their end, since all of them began before. */
static bool by_end(const struct record_query *query)
{
    return query->type == RECORD_SPAN && query->from_ms && !query->job && !is_set(query->user);
}

static struct way way_of(const struct record_query *query)
{
    if (query->job)
        return (struct way){"seq", "record_by_job", query->newest_first};
    if (query->name && query->type == RECORD_JOB)
        return (struct way){"time", "record_by_name", query->newest_first};
    if (is_set(query->user))
        return (struct way){"time", "record_by_user", query->newest_first};
    if (by_end(query))
        return (struct way){"until", "record_by_end", false};
    if (query->tag && query->type == RECORD_JOB)
        return (struct way){"time", "record_by_tag", query->newest_first};
    return (struct way){"time", "record_by_time", query->newest_first};
}

static int prepare(sqlite3 *sql, const struct record_query *query, const struct way *way, sqlite3_stmt **ret,
                   struct err *err)
{
    CLEANUP(buf_done) struct buf text = {0};

    buf_printf(
        &text,
        "SELECT seq, type, time, until, job, user, tag, doc, %s FROM record INDEXED BY %s WHERE type = %d "
        "AND (%s, seq) %s (?1, ?2)",
        way->key, way->index, (int)query->type, way->key, way->down ? "<" : ">");
    if (query->job) /* `<> ''` makes SQLite see that the index is for it */
        buf_puts(&text, " AND job = ?3 AND job <> ''");
    if (query->user)
        buf_puts(&text, *query->user ? " AND user = ?4 AND user <> ''" : " AND user = ?4");
    if (query->tag)
        buf_puts(&text, " AND tag = ?5");
    if (query->name)
        buf_puts(&text, " AND " RECORD_NAME_SQL " = ?6");
    if (query->ns)
        buf_puts(&text, " AND " RECORD_NAMESPACE_SQL " = ?7");
    if (query->from_ms && query->type == RECORD_SPAN)
        buf_puts(&text, " AND (until = 0 OR until >= ?8)");
    else if (query->from_ms && (way->down || query->job)) /* else the start has it */
        buf_puts(&text, " AND time >= ?8");
    if (query->to_ms && (!way->down || query->job))
        buf_puts(&text, " AND time < ?9");
    if (by_end(query))
        buf_puts(&text, " AND until <= ?11");
    buf_printf(&text, " ORDER BY %s%s, seq%s LIMIT ?10", way->key, way->down ? " DESC" : "",
               way->down ? " DESC" : "");
    if (sqlite3_prepare_v2(sql, text.data, (int)text.len, ret, NULL) != SQLITE_OK)
        return dbfile_error(sql, err, "read the records");
    if (query->job)
        sqlite3_bind_text(*ret, 3, query->job, -1, SQLITE_STATIC);
    if (query->user)
        sqlite3_bind_text(*ret, 4, query->user, -1, SQLITE_STATIC);
    if (query->tag)
        sqlite3_bind_text(*ret, 5, query->tag, -1, SQLITE_STATIC);
    if (query->name)
        sqlite3_bind_text(*ret, 6, query->name, -1, SQLITE_STATIC);
    if (query->ns)
        sqlite3_bind_text(*ret, 7, query->ns, -1, SQLITE_STATIC);
    sqlite3_bind_int64(*ret, 8, query->from_ms);
    sqlite3_bind_int64(*ret, 9, query->to_ms);
    return 0; /* what the text does not name cannot be bound, and need not */
}

static bool stopped(const struct record_source *source)
{
    return source->stop && atomic_load_explicit(source->stop, memory_order_relaxed);
}

static int look_for_stop(void *arg)
{
    return stopped(arg);
}

void record_source_init(struct record_source *source, sqlite3 *sql, const atomic_bool *stop)
{
    *source = (struct record_source){sql, stop};
    sqlite3_progress_handler(sql, stop ? STEPS_BETWEEN_LOOKS : 0, stop ? look_for_stop : NULL, source);
}

static struct str column_str(sqlite3_stmt *stmt, int column)
{
    const void *data = sqlite3_column_blob(stmt, column);

    return (struct str){data ? data : "", (size_t)sqlite3_column_bytes(stmt, column)};
}

struct walk {
    struct record_source *source;
    sqlite3_stmt *stmt;
    bool (*fn)(void *arg, const struct record *record);
    void *arg;
    struct place place;
    uint64_t left; /* rows that are still wanted */
    bool ended;    /* by fn */
};

/* One piece. 1: there may be more. */
static int piece(struct walk *walk, struct err *err)
{
    uint64_t want = walk->left < RECORDS_PIECE ? walk->left : RECORDS_PIECE, got = 0;
    sqlite3_stmt *stmt = walk->stmt;
    int rc = SQLITE_DONE;

    sqlite3_bind_int64(stmt, 1, walk->place.key);
    sqlite3_bind_int64(stmt, 2, walk->place.seq);
    sqlite3_bind_int64(stmt, 10, (int64_t)want);
    while (!walk->ended && !stopped(walk->source) && (rc = sqlite3_step(stmt)) == SQLITE_ROW) {
        struct record record = {.seq = sqlite3_column_int64(stmt, 0),
                                .type = (enum record_type)sqlite3_column_int(stmt, 1),
                                .time_ms = sqlite3_column_int64(stmt, 2),
                                .until_ms = sqlite3_column_int64(stmt, 3),
                                .job = (const char *)sqlite3_column_text(stmt, 4),
                                .user = (const char *)sqlite3_column_text(stmt, 5),
                                .tag = (const char *)sqlite3_column_text(stmt, 6),
                                .doc = column_str(stmt, 7)};

        got++;
        walk->place = (struct place){sqlite3_column_int64(stmt, 8), record.seq};
        walk->ended = !walk->fn(walk->arg, &record);
    }
    walk->left -= got;
    if (!walk->ended && stopped(walk->source)) {
        sqlite3_reset(stmt);
        return err_set(err, ERR_UNAVAILABLE, "the read was stopped");
    }
    if (!walk->ended && rc != SQLITE_DONE) {
        dbfile_error(walk->source->sql, err, "read the records");
        sqlite3_reset(stmt);
        return -1;
    }
    sqlite3_reset(stmt);
    return !walk->ended && got == want && walk->left > 0;
}

/* From `place` on; `last`: how far spans go by their end. */
static int run(struct walk *walk, struct place place, int64_t last, struct err *err)
{
    int more;

    walk->place = place;
    sqlite3_bind_int64(walk->stmt, 11, last);
    while ((more = piece(walk, err)) > 0)
        ;
    return more;
}

static struct place start_of(const struct record_query *query, const struct way *way)
{
    bool by_seq = query->job != NULL;

    if (query->after.seq)
        return (struct place){by_seq ? query->after.seq : query->after.time_ms, query->after.seq};
    if (way->down)
        return (struct place){by_seq || !query->to_ms ? INT64_MAX : query->to_ms, INT64_MIN};
    return (struct place){
        by_seq || !query->from_ms || query->type == RECORD_SPAN ? INT64_MIN : query->from_ms, INT64_MIN};
}

int records_read(struct record_source *source, const struct record_query *query,
                 bool (*fn)(void *arg, const struct record *record), void *arg, struct err *err)
{
    struct way way = way_of(query);
    struct walk walk = {
        .source = source, .fn = fn, .arg = arg, .left = query->limit ? query->limit : UINT64_MAX};
    int result;

    if (prepare(source->sql, query, &way, &walk.stmt, err) < 0)
        return -1;
    if (by_end(query)) { /* those that are open, then those that ended late enough */
        result = run(&walk, (struct place){0, INT64_MIN}, 0, err);
        if (result == 0 && !walk.ended && walk.left > 0)
            result = run(&walk, (struct place){query->from_ms > 0 ? query->from_ms : 1, INT64_MIN}, INT64_MAX,
                         err);
    } else {
        result = run(&walk, start_of(query, &way), 0, err);
    }
    sqlite3_finalize(walk.stmt);
    return result;
}
