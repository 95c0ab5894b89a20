/* The files of configMap, secret, downwardAPI and projected volumes. As in Kubernetes, VOLUME/..data is a
 * link to a folder with all files, VOLUME/NAME a link to ..data/NAME: a change makes a new folder and swaps
 * the one link, so readers see either all old files or all new ones. */
#include "base/clock.h"
#include "base/file.h"
#include "engine/local/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#define DEFAULT_MODE 0644
#define DATA_LINK    "..data"
#define FILES_MAX    16384

struct content_file {
    const char *path;
    struct str data;
    mode_t mode;
};

struct content {
    struct local_pod *pod;
    struct arena *arena;
    VEC(struct content_file) files;
    gid_t group;
    int64_t mode; /* of the volume */
    struct err *err;
};

/* ---- what there is to write ---- */

/* Paths were validated when the pod was made; what would lead out is refused here again. */
static bool safe_path(const char *path)
{
    struct str rest = str_from(path), part;

    if (!*path || *path == '/' || starts_with(path, ".."))
        return false;
    while (str_split(&rest, '/', &part))
        if (part.len == 0 || str_is(part, ".."))
            return false;
    return true;
}

static int put(struct content *c, const char *path, struct str data, const struct json *mode_of)
{
    mode_t mode = (mode_t)json_int(json_get(mode_of, "mode"), c->mode) & 0777;

    if (!safe_path(path))
        return err_set(c->err, ERR_INVALID, "path '%s' leads out of the volume", path);
    if (c->files.len >= FILES_MAX)
        return err_set(c->err, ERR_LIMIT, "more than %d files", FILES_MAX);
    for (size_t i = 0; i < c->files.len; i++)
        if (streq(c->files.v[i].path, path)) { /* a later source wins */
            c->files.v[i] = (struct content_file){path, data, mode};
            return 0;
        }
    vec_push(&c->files, (struct content_file){path, data, mode});
    return 0;
}

static int put_object(struct content *c, const struct json *source, const char *name, bool secret)
{
    const char *kind = secret ? "secret" : "configmap";
    const struct json *object = pod_find_object(c->pod, kind, name), *items = json_get(source, "items");
    bool optional = json_bool(json_get(source, "optional"));
    static const char *const members[] = {"data", "binaryData"};

    if (!object)
        return optional ? 0 : err_set(c->err, ERR_NOT_FOUND, "%s \"%s\" not found", kind, name);
    JSON_EACH(items, it) {
        const char *key = json_string_or(json_get(it, "key"), "");
        struct str value = env_key(c->arena, object, secret, key);

        if (!value.s && !optional)
            return err_set(c->err, ERR_NOT_FOUND, "references non-existent %s key: %s",
                           secret ? "secret" : "config", key);
        if (value.s && put(c, json_string_or(json_get(it, "path"), ""), value, it) < 0)
            return -1;
    }
    for (size_t i = 0; !json_len(items) && i < ARRAY_LEN(members); i++)
        JSON_EACH_MEMBER(json_get(object, members[i]), it)
            if (put(c, it->key, env_key(c->arena, object, secret, it->key), NULL) < 0)
                return -1;
    return 0;
}

static int put_downward(struct content *c, const struct json *source)
{
    struct env_world world = pod_world(c->pod);

    JSON_EACH(json_get(source, "items"), it) {
        const struct json *field = json_get(it, "fieldRef"), *resource = json_get(it, "resourceFieldRef");
        const char *value = "";

        if (field && env_field(c->arena, c->pod->doc, json_string_or(json_get(field, "fieldPath"), ""),
                               &world, &value, c->err) < 0)
            return -1;
        if (resource && env_resource(c->arena, c->pod->doc, NULL, resource, &world, &value, c->err) < 0)
            return -1;
        if (put(c, json_string_or(json_get(it, "path"), ""), str_from(value), it) < 0)
            return -1;
    }
    return 0;
}

static int put_source(struct content *c, const struct json *from)
{
    const struct json *source;

    if ((source = json_get(from, "configMap")))
        return put_object(c, source, json_string_or(json_get(source, "name"), ""), false);
    if ((source = json_get(from, "secret")))
        return put_object(
            c, source,
            json_string_or(json_get(source, "secretName"), json_string_or(json_get(source, "name"), "")),
            true);
    if ((source = json_get(from, "downwardAPI")))
        return put_downward(c, source);
    if ((source = json_get(from, "serviceAccountToken"))) /* an identity that opens nothing: an empty file */
        return put(c, json_string_or(json_get(source, "path"), ""), STR(""), NULL);
    return 0;
}

static int collect(struct content *c, const struct json *volume)
{
    static const char *const sources[] = {"configMap", "secret", "downwardAPI", "projected"};

    for (size_t i = 0; i < ARRAY_LEN(sources); i++)
        c->mode = json_int(json_get(json_get(volume, sources[i]), "defaultMode"), c->mode);
    if (!json_get(volume, "projected"))
        return put_source(c, volume);
    JSON_EACH(json_at(volume, "projected.sources"), it)
        if (put_source(c, it) < 0)
            return -1;
    return 0;
}

/* ---- writing ---- */

static int write_file(struct content *c, const char *dir, const struct content_file *file)
{
    const char *full = arena_printf(c->arena, "%s/%s", dir, file->path);
    char *folder = arena_strdup(c->arena, full);
    mode_t mode = file->mode;
    CLEANUP(fd_close) int fd = -1;

    *strrchr(folder, '/') = '\0';
    if (dir_make(folder, 0755, c->err) < 0)
        return -1;
    fd = open(full, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || (file->data.len && write(fd, file->data.s, file->data.len) != (ssize_t)file->data.len))
        return err_errno(c->err, fd < 0 ? errno : ENOSPC, "write '%s'", full);
    if (c->group && fchown(fd, (uid_t)-1, c->group) == 0)
        mode |= mode >> 3 & 0040; /* the group may read it */
    if (!c->pod->user.admin && fchown(fd, c->pod->user.uid, (gid_t)-1) < 0)
        return err_errno(c->err, errno, "chown '%s'", full);
    return fchmod(fd, mode) < 0 ? err_errno(c->err, errno, "chmod '%s'", full) : 0;
}

static bool same_file(const char *dir, const struct content_file *file)
{
    CLEANUP(free) char *path = mem_printf("%s/" DATA_LINK "/%s", dir, file->path);
    CLEANUP(buf_done) struct buf text = {0};

    return file_read(path, file->data.len + 1, &text, NULL) == 0 && text.len == file->data.len &&
           (!text.len || memcmp(text.data, file->data.s, text.len) == 0);
}

static size_t counted; /* by count_one: nftw has no argument for it */

static int count_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)path;
    (void)st;
    (void)at;
    counted += type == FTW_F;
    return 0;
}

static bool unchanged(const struct content *c, const char *dir)
{
    CLEANUP(free) char *data = mem_printf("%s/" DATA_LINK "/.", dir);

    if (access(data, F_OK) < 0)
        return false;
    VEC_EACH(&c->files, it)
        if (!same_file(dir, it))
            return false;
    counted = 0;
    nftw(data, count_one, 8, FTW_PHYS);
    return counted == c->files.len;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path) < 0 && errno != ENOENT;
}

static int link_to(struct content *c, const char *target, const char *dir, const char *name)
{
    const char *path = arena_printf(c->arena, "%s/%s", dir, name);
    const char *fresh = arena_printf(c->arena, "%s/..tmp", dir);

    unlink(fresh);
    if (symlink(target, fresh) < 0 || rename(fresh, path) < 0)
        return err_errno(c->err, errno, "link '%s'", path);
    return 0;
}

/* VOLUME/first part of each path. */
static int link_names(struct content *c, const char *dir)
{
    VEC_EACH(&c->files, it) {
        size_t len = strcspn(it->path, "/");
        const char *name = arena_strndup(c->arena, it->path, len);
        const char *target = arena_printf(c->arena, DATA_LINK "/%s", name);
        const char *path = arena_printf(c->arena, "%s/%s", dir, name);
        char there[512];
        ssize_t n = readlink(path, there, sizeof(there));

        if ((n < 0 || (size_t)n != strlen(target) || memcmp(there, target, (size_t)n) != 0) &&
            link_to(c, target, dir, name) < 0)
            return -1;
    }
    return 0;
}

/* Links to what is no longer there. */
static void drop_names(const char *dir)
{
    DIR *folder = opendir(dir);
    const struct dirent *entry;

    while (folder && (entry = readdir(folder)))
        if (!starts_with(entry->d_name, "..") && faccessat(dirfd(folder), entry->d_name, F_OK, 0) < 0 &&
            errno == ENOENT)
            unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        closedir(folder);
}

static int swap(struct content *c, const char *dir)
{
    const char *name = arena_printf(c->arena, "..%lld", (long long)clock_now());
    const char *fresh = arena_printf(c->arena, "%s/%s", dir, name);
    const char *data = arena_printf(c->arena, "%s/" DATA_LINK, dir);
    char old[256];
    ssize_t n = readlink(data, old, sizeof(old) - 1);

    if (dir_make(fresh, 0755, c->err) < 0)
        return -1;
    VEC_EACH(&c->files, it)
        if (write_file(c, fresh, it) < 0) {
            nftw(fresh, remove_one, 8, FTW_DEPTH | FTW_PHYS);
            return -1;
        }
    if (link_to(c, name, dir, DATA_LINK) < 0 || link_names(c, dir) < 0)
        return -1;
    drop_names(dir);
    if (n > 0 && starts_with(old, "..")) {
        old[n] = '\0';
        if (!strchr(old, '/'))
            nftw(arena_printf(c->arena, "%s/%s", dir, old), remove_one, 8, FTW_DEPTH | FTW_PHYS);
    }
    return 0;
}

int content_write(struct local_pod *pod, const struct json *volume, const char *dir, gid_t group,
                  struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct content content = {.pod = pod, .arena = &arena, .group = group, .mode = DEFAULT_MODE, .err = err};
    int result = collect(&content, volume);

    if (result == 0 && !unchanged(&content, dir))
        result = swap(&content, dir);
    vec_done(&content.files);
    return result;
}
