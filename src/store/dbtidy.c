/* Records that are too old go first, type by type. Where the file is still too large the oldest details go
 * (cards, memory, metrics, epochs, transitions), and only when none are left who had which card, and the jobs
 * themselves. */
#include "store/dbtidy.h"

#include "store/dbfile.h"

#define RECORDS_STEP 200 /* records that go in one step */
#define PAGES_STEP   64  /* pages that are given back in one step: half a megabyte */
#define PAGES_SLACK  256 /* free pages that stay: the next records want them */

enum { TOO_OLD, TOO_MANY_DETAILS, TOO_MANY, PAGES, DONE };

static int failed(sqlite3 *sql, struct err *err)
{
    return dbfile_error(sql, err, "tidy the file");
}

static int number(sqlite3 *sql, const char *text, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt;
    int rc;

    if (sqlite3_prepare_v2(sql, text, -1, &stmt, NULL) != SQLITE_OK)
        return failed(sql, err);
    rc = sqlite3_step(stmt);
    *ret = rc == SQLITE_ROW ? sqlite3_column_int64(stmt, 0) : 0;
    sqlite3_finalize(stmt);
    return rc == SQLITE_ROW ? 0 : failed(sql, err);
}

/* Runs a statement with three numbers; the records it changed are counted. */
static int run(sqlite3 *sql, struct dbtidy *tidy, const char *text, int64_t one, int64_t two, struct err *err)
{
    sqlite3_stmt *stmt;
    int rc;

    if (sqlite3_prepare_v2(sql, text, -1, &stmt, NULL) != SQLITE_OK)
        return failed(sql, err);
    sqlite3_bind_int64(stmt, 1, one);
    sqlite3_bind_int64(stmt, 2, two);
    rc = sqlite3_step(stmt);
    sqlite3_finalize(stmt);
    if (rc != SQLITE_DONE)
        return failed(sql, err);
    tidy->gone += sqlite3_changes(sql);
    return 0;
}

#define TEXT_OF(n) #n
#define TEXT(n)    TEXT_OF(n)
/* Spans that are still open have no end yet. */
#define OPEN "(type = 2 AND until = 0)"

static int drop_old(sqlite3 *sql, struct dbtidy *tidy, struct err *err)
{
    static const char text[] =
        "DELETE FROM record WHERE seq IN (SELECT seq FROM record WHERE type = ?1 AND time < ?2 "
        "AND NOT " OPEN " ORDER BY time LIMIT " TEXT(RECORDS_STEP) ")";

    if (!tidy->limits.records_before_ms || tidy->type >= RECORD_TYPES) {
        tidy->stage++;
        return 1;
    }
    if (run(sql, tidy, text, tidy->type, tidy->limits.records_before_ms, err) < 0)
        return -1;
    if (sqlite3_changes(sql) < RECORDS_STEP)
        tidy->type++;
    return 1;
}

static int is_large(sqlite3 *sql, const struct dbtidy *tidy, bool *ret, struct err *err)
{
    int64_t pages = 0, spare = 0, size = 0;

    if (number(sql, "PRAGMA page_count", &pages, err) < 0 ||
        number(sql, "PRAGMA freelist_count", &spare, err) < 0 ||
        number(sql, "PRAGMA page_size", &size, err) < 0)
        return -1;
    *ret = tidy->limits.bytes_max > 0 && (pages - spare) * size > tidy->limits.bytes_max;
    return 0;
}

/* The oldest by their number, which goes up with time. */
static int drop_first(sqlite3 *sql, struct dbtidy *tidy, const char *which, const char *text, struct err *err)
{
    bool large;

    if (is_large(sql, tidy, &large, err) < 0)
        return -1;
    if (large) {
        sqlite3_stmt *stmt;
        int64_t last = 0;

        if (sqlite3_prepare_v2(sql, which, -1, &stmt, NULL) != SQLITE_OK)
            return failed(sql, err);
        sqlite3_bind_int64(stmt, 1, tidy->seq);
        if (sqlite3_step(stmt) == SQLITE_ROW)
            last = sqlite3_column_int64(stmt, 0);
        sqlite3_finalize(stmt);
        if (last) {
            int result = run(sql, tidy, text, tidy->seq, last, err);

            tidy->seq = last;
            return result < 0 ? -1 : 1;
        }
    }
    tidy->stage++;
    tidy->seq = 0;
    return 1;
}

#define DETAILS "type IN (1, 3, 4, 5, 6)"
#define FIRST(what)                                                                                          \
    "SELECT max(seq) FROM (SELECT seq FROM record WHERE seq > ?1 AND " what                                  \
    " ORDER BY seq LIMIT " TEXT(RECORDS_STEP) ")"
#define DROP(what) "DELETE FROM record WHERE seq > ?1 AND seq <= ?2 AND " what

static int give_pages_back(sqlite3 *sql, struct dbtidy *tidy, struct err *err)
{
    int64_t before = 0, after = 0;

    if (number(sql, "PRAGMA freelist_count", &before, err) < 0)
        return -1;
    if (before > PAGES_SLACK) {
        if (sqlite3_exec(sql, "PRAGMA incremental_vacuum(" TEXT(PAGES_STEP) ")", NULL, NULL, NULL) !=
                SQLITE_OK ||
            number(sql, "PRAGMA freelist_count", &after, err) < 0)
            return failed(sql, err);
        if (after < before)
            return 1;
    }
    tidy->stage++;
    sqlite3_wal_checkpoint_v2(sql, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL,
                              NULL); /* the file gets shorter then */
    return 0;
}

static int step(sqlite3 *sql, struct dbtidy *tidy, struct err *err)
{
    switch (tidy->stage) {
    case TOO_OLD:
        return drop_old(sql, tidy, err);
    case TOO_MANY_DETAILS:
        return drop_first(sql, tidy, FIRST(DETAILS), DROP(DETAILS), err);
    case TOO_MANY:
        return drop_first(sql, tidy, FIRST("NOT " OPEN), DROP("NOT " OPEN), err);
    case PAGES:
        return give_pages_back(sql, tidy, err);
    default:
        return 0;
    }
}

int dbtidy_step(sqlite3 *sql, struct dbtidy *tidy, struct err *err)
{
    int result;

    sqlite3_exec(sql, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
    result = step(sql, tidy, err);
    if (sqlite3_exec(sql, "PRAGMA synchronous = FULL", NULL, NULL, NULL) != SQLITE_OK)
        return failed(sql, err);
    return result;
}
