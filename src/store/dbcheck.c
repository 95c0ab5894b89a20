#include "store/dbcheck.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "store/dbfile.h"
#include "store/dbsum.h"

#include <inttypes.h>
#include <stdio.h>

struct fact {
    const char *sql;
    const char *wrong; /* what is said where the answer is not 0; NULL: it is only asked */
};

static int ask(sqlite3 *sql, const char *text, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt;
    int rc;

    if (sqlite3_prepare_v2(sql, text, -1, &stmt, NULL) != SQLITE_OK)
        return dbfile_error(sql, err, "check");
    rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *ret = sqlite3_column_int64(stmt, 0);
    else
        dbfile_error(sql, err, "check");
    sqlite3_finalize(stmt);
    return rc == SQLITE_ROW ? 0 : -1;
}

static int ask_id(sqlite3 *sql, char ret[37], struct err *err)
{
    sqlite3_stmt *stmt;
    int rc;

    if (sqlite3_prepare_v2(sql, "SELECT val FROM meta WHERE key = 'id'", -1, &stmt, NULL) != SQLITE_OK)
        return dbfile_error(sql, err, "check");
    rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        snprintf(ret, 37, "%s", (const char *)sqlite3_column_text(stmt, 0));
    sqlite3_finalize(stmt);
    return rc == SQLITE_ROW ? 0 : err_set(err, ERR_INVALID, "it has no identity");
}

static int check_rows(sqlite3 *sql, struct err *err)
{
    static const struct fact facts[] = {
        {"SELECT count(*) FROM rev WHERE sum <> row_sum(rv, kind, removed, prev, doc)", "objects"},
        {"SELECT count(*) FROM value WHERE sum <> row_sum(tab, key, val)", "values"},
        {"SELECT count(*) FROM record WHERE sum <> row_sum(seq, type, time, until, job, user, tag, doc)",
         "records"},
    };

    for (size_t i = 0; i < sizeof(facts) / sizeof(*facts); i++) {
        int64_t bad = 0;

        if (ask(sql, facts[i].sql, &bad, err) < 0)
            return -1;
        if (bad > 0)
            return err_set(err, ERR_INVALID, "it is damaged: the checksums of %" PRId64 " %s do not match",
                           bad, facts[i].wrong);
    }
    return 0;
}

static int check(sqlite3 *sql, struct dbcheck *ret, struct err *err)
{
    if (dbfile_check(sql, err) < 0 || check_rows(sql, err) < 0 || ask_id(sql, ret->id, err) < 0 ||
        ask(sql,
            "SELECT max(coalesce((SELECT max(rv) FROM rev), 0), (SELECT val FROM meta WHERE key = 'oldest'))",
            &ret->revision, err) < 0)
        return -1;
    return ask(sql, "SELECT count(*) FROM rev WHERE removed = 0 AND rv NOT IN (SELECT prev FROM rev)",
               &ret->objects, err);
}

int dbcheck_file(const char *path, struct dbcheck *ret, struct err *err)
{
    sqlite3 *sql = NULL;
    int result = -1;

    if (sqlite3_open_v2(path, &sql, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
        dbfile_error(sql, err, "open");
    } else {
        dbsum_functions(sql);
        result = check(sql, ret, err);
    }
    sqlite3_close(sql);
    return result;
}
