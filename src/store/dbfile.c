/* Others may read the file while it is in use; a second daemon is kept out by the lock on its mark (mark.h).
 * Its version is user_version: older files are migrated step by step, each step in one transaction; newer
 * ones are refused, since we would not know what we destroy. */
#include "store/dbfile.h"

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "store/dbsum.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <sys/stat.h>

#define APPLICATION_ID  0x42657274 /* "Bert": tells Berth's files from others' */
#define CHECK_BYTES_MAX (16 << 20) /* larger files are not checked at start: it would take too long */

/* migrations[n] brings version n to n + 1. Never change one that was released. */
static const char *const migrations[] = {
    "CREATE TABLE rev ("
    "  rv INTEGER PRIMARY KEY,"
    "  kind INTEGER NOT NULL,"
    "  removed INTEGER NOT NULL," /* 1: the last state of something deleted */
    "  prev INTEGER NOT NULL,"    /* the state it supersedes; 0: none */
    "  doc TEXT NOT NULL);"
    "CREATE TABLE value ("
    "  tab TEXT NOT NULL,"
    "  key TEXT NOT NULL,"
    "  val BLOB NOT NULL,"
    "  PRIMARY KEY (tab, key)) WITHOUT ROWID;"
    "CREATE TABLE meta (key TEXT PRIMARY KEY, val NOT NULL) WITHOUT ROWID;"
    "INSERT INTO meta VALUES ('oldest', 0);",
    "CREATE TABLE record ("
    "  seq INTEGER PRIMARY KEY,"
    "  type INTEGER NOT NULL,"
    "  time INTEGER NOT NULL,"  /* milliseconds */
    "  until INTEGER NOT NULL," /* 0: not yet */
    "  job TEXT NOT NULL,"
    "  user TEXT NOT NULL,"
    "  tag TEXT NOT NULL,"
    "  doc TEXT NOT NULL);"
    "CREATE INDEX record_by_time ON record (type, time);"
    "CREATE INDEX record_by_job ON record (job, type, seq) WHERE job <> '';",
    /* Each row has a sum of what it holds (dbsum.h), and the file an identity of its own. */
    "ALTER TABLE rev ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE value ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE record ADD COLUMN sum INTEGER NOT NULL DEFAULT 0;"
    "UPDATE rev SET sum = row_sum(rv, kind, removed, prev, doc);"
    "UPDATE value SET sum = row_sum(tab, key, val);"
    "UPDATE record SET sum = row_sum(seq, type, time, until, job, user, tag, doc);"
    "CREATE INDEX record_by_user ON record (user, type, time) WHERE user <> '';"
    "INSERT INTO meta VALUES ('id', new_id());"
    "INSERT INTO meta VALUES ('others', 0);" /* commits that changed values or records */
    "INSERT INTO meta VALUES ('void', 0);",  /* commits that failed */
    /* Work without an owner was the machine's admin's: from now on that is written, and nothing runs without.
     */
    "UPDATE rev SET doc = json_set(doc, '$.metadata.annotations',"
    "  json_patch(coalesce(json_extract(doc, '$.metadata.annotations'), '{}'), "
    "'{\"berth.dev/user\":\"root\"}'))"
    "  WHERE doc ->> '$.kind' IN ('Pod', 'Job', 'TrainingJob', 'Task')"
    "  AND doc ->> '$.metadata.annotations.\"berth.dev/user\"' IS NULL;"
    "UPDATE rev SET sum = row_sum(rv, kind, removed, prev, doc);",
    /* Finished jobs are found by name and by how they ended, spans by their end. */
    "CREATE INDEX record_by_name ON record (" RECORD_NAME_SQL ", time) WHERE type = 7;"
    "CREATE INDEX record_by_tag ON record (tag, time) WHERE type = 7;"
    "CREATE INDEX record_by_end ON record (until) WHERE type = 2;",
};
_Static_assert(ARRAY_LEN(migrations) == STORE_SCHEMA_VERSION, "one migration a version");

/* cache_size holds the pages of one transaction, not the database: objects are read from memory.
 * The log is copied into the file every 1000 pages (8 MB), so that no single commit pays for much (db.c). */
static const char *const settings[] = {
    "PRAGMA page_size = 8192",    "PRAGMA auto_vacuum = INCREMENTAL", "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",  "PRAGMA cache_size = -2048",        "PRAGMA wal_autocheckpoint = 1000",
    "PRAGMA temp_store = MEMORY", "PRAGMA foreign_keys = OFF",        "PRAGMA journal_size_limit = 33554432",
    "PRAGMA secure_delete = OFF",
};

int dbfile_error(sqlite3 *sql, struct err *err, const char *what)
{
    int code = sqlite3_errcode(sql) & 0xff;
    enum err_code kind = ERR_SYSTEM;

    if (code == SQLITE_BUSY || code == SQLITE_LOCKED)
        kind = ERR_CONFLICT;
    else if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT)
        kind = ERR_INVALID;
    else if (code == SQLITE_FULL)
        kind = ERR_UNAVAILABLE;
    err_set(err, kind, "%s: %s", what, sqlite3_errmsg(sql));
    if (err)
        err->sys = sqlite3_system_errno(sql);
    return -1;
}

/* SQLite would make it with the umask's mode, and gives its log the mode of the file. */
static int create_file(const char *path, struct err *err)
{
    CLEANUP(fd_close) int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    CLEANUP(fd_close) int dir = -1;
    CLEANUP(free) char *copy = mem_strdup(path);

    if (fd < 0 && errno == EEXIST)
        return chmod(path, 0600) < 0 ? err_errno(err, errno, "chmod '%s'", path) : 0;
    if (fd < 0)
        return err_errno(err, errno, "create '%s'", path);
    dir = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0 || fsync(dir) < 0)
        return err_errno(err, errno, "fsync the folder of '%s'", path);
    return 0;
}

static int exec(sqlite3 *sql, const char *text, struct err *err)
{
    return sqlite3_exec(sql, text, NULL, NULL, NULL) == SQLITE_OK ? 0 : dbfile_error(sql, err, text);
}

static int exec_all(sqlite3 *sql, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(settings); i++)
        if (exec(sql, settings[i], err) < 0)
            return -1;
    return exec(sql, "BEGIN IMMEDIATE; COMMIT", err);
}

static int query_int(sqlite3 *sql, const char *text, int64_t *ret, struct err *err)
{
    sqlite3_stmt *stmt;
    int rc;

    if (sqlite3_prepare_v2(sql, text, -1, &stmt, NULL) != SQLITE_OK)
        return dbfile_error(sql, err, text);
    rc = sqlite3_step(stmt);
    if (rc == SQLITE_ROW)
        *ret = sqlite3_column_int64(stmt, 0);
    else
        dbfile_error(sql, err, text);
    sqlite3_finalize(stmt);
    return rc == SQLITE_ROW ? 0 : -1;
}

static int migrate_step(sqlite3 *sql, int64_t from, struct err *err)
{
    CLEANUP(free)
    char *text = mem_printf("BEGIN IMMEDIATE; %s PRAGMA application_id = %d; PRAGMA user_version = %" PRId64
                            "; COMMIT",
                            migrations[from], APPLICATION_ID, from + 1);

    if (sqlite3_exec(sql, text, NULL, NULL, NULL) == SQLITE_OK)
        return 0;
    dbfile_error(sql, err, "migrate");
    sqlite3_exec(sql, "ROLLBACK", NULL, NULL, NULL);
    return -1;
}

static int migrate(sqlite3 *sql, struct err *err)
{
    int64_t version = 0, id = 0, tables = 0;

    if (query_int(sql, "PRAGMA user_version", &version, err) < 0 ||
        query_int(sql, "PRAGMA application_id", &id, err) < 0 ||
        query_int(sql, "SELECT count(*) FROM sqlite_schema", &tables, err) < 0)
        return -1;
    if (id != APPLICATION_ID && tables > 0)
        return err_set(err, ERR_INVALID, "it is a database, but not Berth's");
    if (version > STORE_SCHEMA_VERSION)
        return err_set(err, ERR_UNSUPPORTED,
                       "it has schema version %" PRId64 ", made by a newer Berth; this one knows up to %d",
                       version, STORE_SCHEMA_VERSION);
    for (; version < STORE_SCHEMA_VERSION; version++)
        if (migrate_step(sql, version, err) < 0)
            return err_prefix(err, "from schema version %" PRId64, version);
    return 0;
}

/* Files of before schema version 3 cannot shrink in small steps until they were rewritten once. Without the
 * room for that they stay as they are. */
static void make_shrinkable(sqlite3 *sql)
{
    int64_t mode = 0;

    if (query_int(sql, "PRAGMA auto_vacuum", &mode, NULL) == 0 && mode == 0)
        sqlite3_exec(sql, "PRAGMA auto_vacuum = INCREMENTAL; VACUUM", NULL, NULL, NULL);
}

/* A log that was left behind means the last run did not end by itself. */
static bool left_unclean(const char *path)
{
    CLEANUP(free) char *log = mem_printf("%s-wal", path);
    struct stat log_stat, file_stat;

    return stat(log, &log_stat) == 0 && log_stat.st_size > 0 && stat(path, &file_stat) == 0 &&
           file_stat.st_size <= CHECK_BYTES_MAX;
}

static int quick_check(sqlite3 *sql, struct err *err)
{
    sqlite3_stmt *stmt;
    const char *text = NULL;
    int result = 0;

    if (sqlite3_prepare_v2(sql, "PRAGMA quick_check(1)", -1, &stmt, NULL) != SQLITE_OK)
        return dbfile_error(sql, err, "check");
    if (sqlite3_step(stmt) == SQLITE_ROW)
        text = (const char *)sqlite3_column_text(stmt, 0);
    if (!streq(text, "ok"))
        result = err_set(err, ERR_INVALID, "it is damaged: %s", text ? text : sqlite3_errmsg(sql));
    sqlite3_finalize(stmt);
    return result;
}

int dbfile_check(sqlite3 *sql, struct err *err)
{
    int64_t version = 0, id = 0;

    if (query_int(sql, "PRAGMA user_version", &version, err) < 0 ||
        query_int(sql, "PRAGMA application_id", &id, err) < 0)
        return -1;
    if (id != APPLICATION_ID)
        return err_set(err, ERR_INVALID, "it is not a database of Berth's");
    if (version != STORE_SCHEMA_VERSION)
        return err_set(err, ERR_UNSUPPORTED, "it has schema version %" PRId64 ", and this Berth has %d",
                       version, STORE_SCHEMA_VERSION);
    return quick_check(sql, err);
}

static int open_file(const char *path, sqlite3 *sql, struct err *err)
{
    bool unclean = left_unclean(path);

    sqlite3_extended_result_codes(sql, 1);
    sqlite3_busy_timeout(sql, DBFILE_BUSY_MS);
    dbsum_functions(sql);
    if (exec_all(sql, err) < 0) {
        if (err && err->code == ERR_CONFLICT)
            return err_set(err, ERR_CONFLICT, "'%s' is in use by another process", path);
        return err_prefix(err, "open '%s'", path);
    }
    if ((unclean && quick_check(sql, err) < 0) || migrate(sql, err) < 0)
        return err_prefix(err, "open '%s'", path);
    make_shrinkable(sql);
    return 0;
}

int dbfile_open_reader(const char *path, sqlite3 **ret, struct err *err)
{
    static const char *const reader[] = {"PRAGMA query_only = ON", "PRAGMA cache_size = -1024"};
    sqlite3 *sql = NULL;
    int result = 0;

    if (sqlite3_open_v2(path, &sql, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
        result = dbfile_error(sql, err, "open");
    sqlite3_busy_timeout(sql, DBFILE_BUSY_MS);
    for (size_t i = 0; i < ARRAY_LEN(reader) && result == 0; i++)
        result = exec(sql, reader[i], err);
    if (result < 0) {
        dbfile_close(sql);
        return err_prefix(err, "'%s'", path);
    }
    *ret = sql;
    return 0;
}

int dbfile_open(const char *path, sqlite3 **ret, struct err *err)
{
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    sqlite3 *sql = NULL;

    if (!streq(path, ":memory:") && create_file(path, err) < 0)
        return -1;
    if (sqlite3_open_v2(path, &sql, flags, NULL) != SQLITE_OK) {
        dbfile_error(sql, err, "open");
        err_prefix(err, "'%s'", path);
        dbfile_close(sql);
        return -1;
    }
    if (open_file(path, sql, err) < 0) {
        dbfile_close(sql);
        return -1;
    }
    *ret = sql;
    return 0;
}

void dbfile_close(sqlite3 *sql)
{
    sqlite3_close(sql);
}
