#include "backup/backup.h"

#include "backup/pack.h"
#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "store/dbcheck.h"
#include "store/mark.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <unistd.h>

#define BUSY_MS 60000

static const char *const pki_files[] = {"pki/ca.crt", "pki/ca.key", "pki/server.crt", "pki/server.key"};

/* ---- making one ---- */

/* A copy of the database as of one commit, while others write it. */
static int copy_database(const char *from, const char *to, struct err *err)
{
    sqlite3 *sql = NULL;
    sqlite3_stmt *stmt = NULL;
    int result = -1;

    if (sqlite3_open_v2(from, &sql, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK ||
        sqlite3_busy_timeout(sql, BUSY_MS) != SQLITE_OK ||
        sqlite3_prepare_v2(sql, "VACUUM INTO ?", -1, &stmt, NULL) != SQLITE_OK ||
        sqlite3_bind_text(stmt, 1, to, -1, SQLITE_STATIC) != SQLITE_OK || sqlite3_step(stmt) != SQLITE_DONE)
        err_set(err, sqlite3_errcode(sql) == SQLITE_FULL ? ERR_UNAVAILABLE : ERR_SYSTEM,
                "copy the database: %s", sqlite3_errmsg(sql));
    else
        result = chmod(to, 0600) < 0 ? err_errno(err, errno, "chmod '%s'", to) : 0;
    sqlite3_finalize(stmt);
    sqlite3_close(sql);
    return result;
}

/* Every row is read, and its checksum compared. */
static int look_into(const char *path, struct backup_info *ret, struct err *err)
{
    struct dbcheck check = {0};

    if (dbcheck_file(path, &check, err) < 0)
        return -1;
    ret->revision = check.revision;
    ret->objects = check.objects;
    memcpy(ret->id, check.id, sizeof(ret->id));
    return 0;
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

static int add_one(struct pack_out *out, struct arena *arena, struct json *sums, const char *name,
                   const char *path, struct err *err)
{
    char sum[PACK_HEX_LEN + 1] = "";

    if (pack_sum(path, sum, err) < 0)
        return -1;
    json_set_string(arena, sums, name, sum);
    return pack_add_file(out, name, path, err);
}

static int add_all(struct pack_out *out, const struct backup_source *source, const char *db,
                   const struct backup_info *info, struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct json *doc = json_new_object(&arena), *sums;
    char time[CLOCK_TEXT_MAX];

    json_set_int(&arena, doc, "format", BACKUP_FORMAT);
    json_set_string(&arena, doc, "version", BERTH_VERSION);
    json_set_string(&arena, doc, "time", clock_format(source->now, time));
    json_set_int(&arena, doc, "timeNs", source->now);
    json_set_string(&arena, doc, "node", source->node_name);
    json_set_string(&arena, doc, "store", info->id);
    json_set_int(&arena, doc, "revision", info->revision);
    json_set_int(&arena, doc, "objects", info->objects);
    sums = json_set_object(&arena, doc, "sha256");
    if (add_one(out, &arena, sums, BACKUP_DB, db, err) < 0 ||
        pack_add_text(out, "claims.json", str_from(source->claims), err) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_LEN(pki_files); i++) {
        CLEANUP(free) char *path = mem_printf("%s/%s", source->data_dir, pki_files[i]);

        if (is_there(path) && add_one(out, &arena, sums, pki_files[i], path, err) < 0)
            return -1;
    }
    if (source->config_file && is_there(source->config_file) &&
        add_one(out, &arena, sums, "berthd.yaml", source->config_file, err) < 0)
        return -1;
    json_write_pretty(&text, doc, 2);
    return pack_add_text(out, "manifest.json", buf_view(&text), err);
}

static int write_archive(const struct backup_source *source, const char *db, const char *path,
                         const struct backup_info *info, struct err *err)
{
    CLEANUP(pack_out_free) struct pack_out *out = NULL;

    if (pack_create(path, &out, err) < 0 || add_all(out, source, db, info, err) < 0)
        return -1;
    return pack_finish(out, err);
}

static int sync_folder_of(const char *path, struct err *err)
{
    const char *slash = strrchr(path, '/');
    CLEANUP(free)
    char *dir = slash ? mem_strndup(path, slash == path ? 1 : (size_t)(slash - path)) : mem_strdup(".");
    CLEANUP(fd_close) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 || fsync(fd) < 0 ? err_errno(err, errno, "sync '%s'", dir) : 0;
}

static int make_parts(const struct backup_source *source, const char *path, const char *db, const char *part,
                      struct backup_info *ret, struct err *err)
{
    CLEANUP(free) char *from = mem_printf("%s/" BACKUP_DB, source->data_dir);
    struct stat st;

    if (copy_database(from, db, err) < 0 || look_into(db, ret, err) < 0 ||
        write_archive(source, db, part, ret, err) < 0)
        return -1;
    if (stat(part, &st) < 0 || rename(part, path) < 0)
        return err_errno(err, errno, "rename '%s'", part);
    ret->bytes = st.st_size;
    return sync_folder_of(path, err);
}

int backup_make(const struct backup_source *source, const char *path, struct backup_info *ret,
                struct err *err)
{
    CLEANUP(free) char *db = mem_printf("%s.db.part", path);
    CLEANUP(free) char *part = mem_printf("%s.part", path);
    struct backup_info info = {.time = source->now};
    int result;

    unlink(db);
    unlink(part);
    snprintf(info.node, sizeof(info.node), "%s", source->node_name);
    snprintf(info.version, sizeof(info.version), "%s", BERTH_VERSION);
    result = make_parts(source, path, db, part, &info, err);
    unlink(db);
    unlink(part);
    if (result == 0)
        *ret = info;
    return result;
}

/* ---- putting one back ---- */

static int64_t limit_of(const char *name)
{
    if (streq(name, BACKUP_DB))
        return BACKUP_FILE_MAX;
    for (size_t i = 0; i < ARRAY_LEN(pki_files); i++)
        if (streq(name, pki_files[i]))
            return BACKUP_SMALL_MAX;
    return streq(name, "manifest.json") || streq(name, "claims.json") || streq(name, "berthd.yaml")
               ? BACKUP_SMALL_MAX
               : -1;
}

static int check_sums(const char *dir, const struct json *sums, struct err *err)
{
    char sum[PACK_HEX_LEN + 1] = "";

    if (!json_get(sums, BACKUP_DB))
        return err_set(err, ERR_INVALID, "its manifest does not name a database");
    JSON_EACH_MEMBER(sums, it) {
        CLEANUP(free) char *path = mem_printf("%s/%s", dir, it->key);

        if (limit_of(it->key) < 0 || pack_sum(path, sum, err) < 0)
            return err_set(err, ERR_INVALID, "'%s' is missing", it->key);
        if (!str_is(json_str(&it->value), sum))
            return err_set(err, ERR_INVALID, "'%s' is damaged: its checksum does not match", it->key);
    }
    return 0;
}

static int check_manifest(const char *dir, struct backup_info *ret, struct err *err)
{
    CLEANUP(free) char *path = mem_printf("%s/manifest.json", dir);
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct json *doc = NULL;
    const char *node, *version;

    if (file_read(path, BACKUP_SMALL_MAX, &text, NULL) < 0 ||
        json_parse(buf_view(&text), &arena, &doc, NULL, NULL) < 0)
        return err_set(err, ERR_INVALID, "it has no manifest: not a backup of Berth's, or cut off");
    if (json_int(json_get(doc, "format"), 0) > BACKUP_FORMAT)
        return err_set(err, ERR_UNSUPPORTED, "it was made by a newer Berth");
    node = json_get_string(doc, "node");
    version = json_get_string(doc, "version");
    snprintf(ret->node, sizeof(ret->node), "%s", node ? node : "");
    snprintf(ret->version, sizeof(ret->version), "%s", version ? version : "");
    ret->time = json_int(json_get(doc, "timeNs"), 0);
    return check_sums(dir, json_get(doc, "sha256"), err);
}

static int unpack(const char *path, const char *dir, struct backup_info *ret, struct err *err)
{
    CLEANUP(free) char *pki = mem_printf("%s/pki", dir), *in_pki = mem_printf("%s/pki/ca.crt", dir);
    CLEANUP(free) char *db = mem_printf("%s/" BACKUP_DB, dir);

    if (dir_make(pki, 0700, err) < 0 || pack_open_into(path, dir, limit_of, err) < 0 ||
        check_manifest(dir, ret, err) < 0 || look_into(db, ret, err) < 0 || sync_folder_of(in_pki, err) < 0)
        return err_prefix(err, "'%s'", path);
    return 0;
}

/* What makes up the present state beside the mark, moved away as it is. */
static const char *const present[] = {BACKUP_DB, BACKUP_DB "-wal", BACKUP_DB "-shm", "pki"};

static int move_away(const char *data_dir, const char *to, bool *ret_any, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(present); i++) {
        CLEANUP(free) char *from = mem_printf("%s/%s", data_dir, present[i]);
        CLEANUP(free) char *target = mem_printf("%s/%s", to, present[i]);

        if (!is_there(from))
            continue;
        if (dir_make(to, 0700, err) < 0)
            return -1;
        if (rename(from, target) < 0)
            return err_errno(err, errno, "move '%s' to '%s'", from, target);
        *ret_any = true;
    }
    return 0;
}

/* Goes last: as long as it is there, a start after a crash refuses what is not what was promised, instead of
 * taking a folder without its database for a new one. It is also the lock. */
static int move_mark_away(const char *data_dir, const char *to, bool any, struct err *err)
{
    CLEANUP(free) char *db = mem_printf("%s/" BACKUP_DB, data_dir), *from = mark_path(db);
    CLEANUP(free) char *target = mem_printf("%s/" BACKUP_DB "-mark", to);

    if (sync_folder_of(db, err) < 0)
        return -1;
    if ((any ? rename(from, target) : unlink(from)) < 0)
        return err_errno(err, errno, "move '%s' to '%s'", from, target);
    return sync_folder_of(db, err);
}

static int move_in(const char *from, const char *data_dir, struct err *err)
{
    static const char *const parts[] = {"pki", BACKUP_DB};

    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        CLEANUP(free) char *source = mem_printf("%s/%s", from, parts[i]);
        CLEANUP(free) char *target = mem_printf("%s/%s", data_dir, parts[i]);

        if (rename(source, target) < 0)
            return err_errno(err, errno, "move '%s' to '%s'", source, target);
    }
    return 0;
}

static void remove_folder(const char *dir)
{
    static const char *const names[] = {"manifest.json",  "claims.json",    "berthd.yaml",     BACKUP_DB,
                                        BACKUP_DB "-wal", BACKUP_DB "-shm", BACKUP_DB "-mark", "pki/ca.crt",
                                        "pki/ca.key",     "pki/server.crt", "pki/server.key"};
    CLEANUP(free) char *pki = mem_printf("%s/pki", dir);

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        CLEANUP(free) char *path = mem_printf("%s/%s", dir, names[i]);

        unlink(path);
    }
    rmdir(pki);
    rmdir(dir);
}

/* A database that was not opened since it came here has promised nothing yet: what comes in its place does.
 */
static void promise(struct mark *mark, const struct mark_point *point, const struct backup_info *info)
{
    struct mark_point next = {.revision = info->revision};

    if (point->id[0])
        return;
    memcpy(next.id, info->id, sizeof(next.id));
    mark_set(mark, &next);
}

static int put_in_place(const char *from, const char *data_dir, int64_t now, const struct backup_info *info,
                        char **ret_replaced, struct err *err)
{
    CLEANUP(free) char *db = mem_printf("%s/" BACKUP_DB, data_dir);
    CLEANUP(free) char *keep = mem_printf("%s/" BACKUP_KEEP_NAME, data_dir);
    CLEANUP(mark_close) struct mark *lock = NULL;
    struct mark_point point;
    char time[CLOCK_TEXT_MAX];
    CLEANUP(free) char *replaced = mem_printf("%s/replaced-%s", data_dir, clock_format(now, time));
    bool any = false;

    if (mark_open(db, &lock, &point, err) < 0) {
        if (err && err->code == ERR_CONFLICT)
            return err_set(err, ERR_CONFLICT,
                           "berthd is using '%s': stop it first ('berth down', or 'systemctl stop berth')",
                           data_dir);
        return -1;
    }
    if (file_write_atomic(keep, str_from(""), 0600, err) < 0)
        return -1;
    promise(lock, &point, info);
    if (move_away(data_dir, replaced, &any, err) < 0 || move_in(from, data_dir, err) < 0 ||
        move_mark_away(data_dir, replaced, any, err) < 0)
        return any ? err_set(err, err->code, "%s; what was there is in '%s'", err->msg, replaced) : -1;
    *ret_replaced = any ? TAKE_PTR(replaced) : NULL;
    return 0;
}

int backup_restore(const char *path, const char *data_dir, int64_t now, struct backup_info *ret,
                   char **ret_replaced, struct err *err)
{
    CLEANUP(free) char *dir = mem_printf("%s/.restore-XXXXXX", data_dir);
    struct backup_info info = {0};
    struct stat st;
    int result;

    if (dir_make(data_dir, 0711, err) < 0)
        return -1;
    if (!mkdtemp(dir))
        return err_errno(err, errno, "make a folder in '%s'", data_dir);
    result = unpack(path, dir, &info, err);
    if (result == 0)
        result = put_in_place(dir, data_dir, now, &info, ret_replaced, err);
    remove_folder(dir);
    if (result < 0)
        return -1;
    info.bytes = stat(path, &st) == 0 ? st.st_size : 0;
    *ret = info;
    return 0;
}
