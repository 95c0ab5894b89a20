/* The files of configMap, secret, downwardAPI and projected volumes. They are written once, when the pod
 * starts. */
#include "base/file.h"
#include "engine/local/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#define DEFAULT_MODE 0644

struct content {
    struct pod *pod;
    struct arena *arena;
    const char *dir;
    gid_t group;
    int64_t mode; /* of the volume */
    struct err *err;
};

/* Paths were validated when the pod was made; what would lead out is refused here again. */
static bool safe_path(const char *path)
{
    struct str rest = str_from(path), part;

    if (!*path || *path == '/')
        return false;
    while (str_split(&rest, '/', &part))
        if (part.len == 0 || str_is(part, ".."))
            return false;
    return true;
}

static int put(struct content *c, const char *path, struct str data, const struct json *mode_of)
{
    const char *full = arena_printf(c->arena, "%s/%s", c->dir, path);
    mode_t mode = (mode_t)json_int(json_get(mode_of, "mode"), c->mode) & 0777;
    char *slash;
    CLEANUP(fd_close) int fd = -1;

    if (!safe_path(path))
        return err_set(c->err, ERR_INVALID, "path '%s' leads out of the volume", path);
    if (strchr(path, '/')) {
        char *folder = arena_strdup(c->arena, full);

        slash = strrchr(folder, '/');
        *slash = '\0';
        if (dir_make(folder, 0755, c->err) < 0)
            return -1;
    }
    fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || (data.len && write(fd, data.s, data.len) != (ssize_t)data.len))
        return err_errno(c->err, fd < 0 ? errno : ENOSPC, "write '%s'", full);
    if (c->group && fchown(fd, (uid_t)-1, c->group) == 0)
        mode |= mode >> 3 & 0040; /* the group may read it */
    if (!c->pod->user.admin && fchown(fd, c->pod->user.uid, (gid_t)-1) < 0)
        return err_errno(c->err, errno, "chown '%s'", full);
    fchmod(fd, mode);
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
    return 0; /* serviceAccountToken: there is none */
}

int content_write(struct pod *pod, const struct json *volume, const char *dir, gid_t group, struct err *err)
{
    static const char *const sources[] = {"configMap", "secret", "downwardAPI", "projected"};
    CLEANUP(arena_done) struct arena arena = {0};
    struct content content = {
        .pod = pod, .arena = &arena, .dir = dir, .group = group, .mode = DEFAULT_MODE, .err = err};

    for (size_t i = 0; i < ARRAY_LEN(sources); i++)
        content.mode = json_int(json_get(json_get(volume, sources[i]), "defaultMode"), content.mode);
    if (!json_get(volume, "projected"))
        return put_source(&content, volume);
    JSON_EACH(json_at(volume, "projected.sources"), it)
        if (put_source(&content, it) < 0)
            return -1;
    return 0;
}
