/* cdi_edits - see cdi_edits.h. Every member is checked: these files come from packages and generators, and
 * what is read here is done as root. */
#include "gpu/cdi_edits.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

/* Room for one more of an array in the arena. */
static void *grow(struct arena *arena, void *v, size_t len, size_t *cap, size_t size)
{
    void *more;

    if (len < *cap)
        return v;
    *cap = *cap ? *cap * 2 : 8;
    more = arena_alloc(arena, *cap * size);
    if (len)
        memcpy(more, v, len * size);
    return more;
}

#define PUSH(arena, edits, list, ...)                                                                        \
    ((edits)->list = grow(arena, (void *)(edits)->list, (edits)->list##_len, &(edits)->list##_cap,           \
                          sizeof(*(edits)->list)),                                                           \
     (edits)->list[(edits)->list##_len++] = (__VA_ARGS__))

void cdi_edits_env(struct arena *arena, struct cdi_edits *edits, const char *name_value)
{
    const char *copy = arena_strdup(arena, name_value);
    const char *equals = strchr(copy, '=');
    size_t name = equals ? (size_t)(equals - copy) + 1 : strlen(copy);

    for (size_t i = 0; i < edits->env_len; i++)
        if (strlen(edits->env[i]) >= name && memcmp(edits->env[i], copy, name) == 0) {
            edits->env[i] = copy;
            return;
        }
    PUSH(arena, edits, env, copy);
}

void cdi_edits_hook(struct arena *arena, struct cdi_edits *edits, const struct cdi_hook *hook)
{
    PUSH(arena, edits, hooks, *hook);
}

/* One node a path: two devices of a file often bring the same control node. */
void cdi_edits_device(struct arena *arena, struct cdi_edits *edits, const struct cdi_device *device)
{
    for (size_t i = 0; i < edits->devices_len; i++)
        if (streq(edits->devices[i].path, device->path)) {
            edits->devices[i] = *device;
            return;
        }
    PUSH(arena, edits, devices, *device);
}

/* ---- members ---- */

static int too_many(size_t len, struct err *err)
{
    if (len >= CDI_EDITS_MAX)
        return err_set(err, ERR_LIMIT, "more than %d edits of one kind", CDI_EDITS_MAX);
    return 0;
}

/* A string member without NUL bytes; absent gives NULL. */
static int get_text(const struct json *object, const char *key, struct arena *arena, const char **ret,
                    struct err *err)
{
    const struct json *value = json_get(object, key);

    *ret = NULL;
    if (!value || value->type == JSON_NULL)
        return 0;
    if (value->type != JSON_STRING || memchr(value->string, '\0', value->len))
        return err_set(err, ERR_INVALID, "%s must be a string", key);
    *ret = arena_strndup(arena, value->string, value->len);
    return 0;
}

static int need_path(const char *path, const char *key, struct err *err)
{
    if (!path || path[0] != '/')
        return err_set(err, ERR_INVALID, "%s must be an absolute path", key);
    if (strstr(path, "/../") || ends_with(path, "/.."))
        return err_set(err, ERR_INVALID, "%s '%s' goes up", key, path);
    return 0;
}

static int get_number(const struct json *object, const char *key, int64_t max, int64_t fallback, int64_t *ret,
                      struct err *err)
{
    const struct json *value = json_get(object, key);

    *ret = fallback;
    if (!value || value->type == JSON_NULL)
        return 0;
    if (value->type != JSON_INT || value->integer < 0 || value->integer > max)
        return err_set(err, ERR_INVALID, "%s is not in 0..%lld", key, (long long)max);
    *ret = value->integer;
    return 0;
}

/* An array of strings as a NULL-terminated list; absent gives NULL. */
static int get_texts(const struct json *object, const char *key, struct arena *arena, const char *const **ret,
                     struct err *err)
{
    const struct json *value = json_get(object, key);
    const char **list;
    size_t n = 0;

    *ret = NULL;
    if (!value || value->type == JSON_NULL)
        return 0;
    if (value->type != JSON_ARRAY)
        return err_set(err, ERR_INVALID, "%s must be a list", key);
    if (too_many(value->len, err) < 0)
        return -1;
    list = arena_alloc(arena, (value->len + (size_t)1) * sizeof(*list));
    JSON_EACH(value, it) {
        if (it->type != JSON_STRING || memchr(it->string, '\0', it->len))
            return err_set(err, ERR_INVALID, "%s must be a list of strings", key);
        list[n++] = arena_strndup(arena, it->string, it->len);
    }
    list[n] = NULL;
    *ret = list;
    return 0;
}

/* ---- kinds of edits ---- */

struct adding {
    struct arena *arena;
    struct cdi_edits *edits;
    bool ask_host;
};

static int add_env(const struct adding *a, const struct json *item, struct err *err)
{
    if (item->type != JSON_STRING || memchr(item->string, '\0', item->len) || item->string[0] == '=' ||
        !strchr(item->string, '='))
        return err_set(err, ERR_INVALID, "must be NAME=value");
    if (too_many(a->edits->env_len, err) < 0)
        return -1;
    cdi_edits_env(a->arena, a->edits, item->string);
    return 0;
}

int cdi_node_stat(struct cdi_device *device, struct err *err)
{
    struct stat st;

    if (stat(device->host_path, &st) < 0)
        return err_errno(err, errno, "device node '%s'", device->host_path);
    if (S_ISCHR(st.st_mode))
        device->type = 'c';
    else if (S_ISBLK(st.st_mode))
        device->type = 'b';
    else if (S_ISFIFO(st.st_mode))
        device->type = 'p';
    else
        return err_set(err, ERR_INVALID, "'%s' is no device", device->host_path);
    device->major = device->type == 'p' ? 0 : (int64_t)major(st.st_rdev);
    device->minor = device->type == 'p' ? 0 : (int64_t)minor(st.st_rdev);
    if (!device->mode)
        device->mode = st.st_mode & 0777;
    return 0;
}

static bool is_access(const char *text)
{
    return text[0] && strspn(text, "rwm") == strlen(text);
}

static int add_node(const struct adding *a, const struct json *item, struct err *err)
{
    struct cdi_device d = {0};
    const char *type;
    int64_t mode, uid, gid;

    if (get_text(item, "path", a->arena, &d.path, err) < 0 || need_path(d.path, "path", err) < 0 ||
        get_text(item, "hostPath", a->arena, &d.host_path, err) < 0 ||
        get_text(item, "type", a->arena, &type, err) < 0 ||
        get_text(item, "permissions", a->arena, &d.access, err) < 0 ||
        get_number(item, "major", UINT32_MAX, 0, &d.major, err) < 0 ||
        get_number(item, "minor", UINT32_MAX, 0, &d.minor, err) < 0 ||
        get_number(item, "fileMode", 07777, 0, &mode, err) < 0 ||
        get_number(item, "uid", UINT32_MAX, 0, &uid, err) < 0 ||
        get_number(item, "gid", UINT32_MAX, 0, &gid, err) < 0 || too_many(a->edits->devices_len, err) < 0)
        return -1;
    if (!d.host_path || !d.host_path[0])
        d.host_path = d.path;
    else if (need_path(d.host_path, "hostPath", err) < 0)
        return -1;
    if (type && type[0] && (strlen(type) != 1 || !strchr("bcup", type[0])))
        return err_set(err, ERR_INVALID, "type '%s' is none of b, c, u, p", type);
    if (!d.access || !d.access[0])
        d.access = "rwm";
    else if (!is_access(d.access))
        return err_set(err, ERR_INVALID, "permissions '%s' are not of r, w, m", d.access);
    d.type = type && type[0] ? type[0] == 'u' ? 'c' : type[0] : '\0';
    d.mode = (uint32_t)mode;
    d.uid = (uid_t)uid;
    d.gid = (gid_t)gid;
    if (a->ask_host && (!d.type || (d.type != 'p' && !d.major)) && cdi_node_stat(&d, err) < 0)
        return -1;
    if (!d.mode)
        d.mode = 0666;
    cdi_edits_device(a->arena, a->edits, &d);
    return 0;
}

static int add_mount(const struct adding *a, const struct json *item, struct err *err)
{
    struct cdi_mount m = {0};
    const char *const *options;
    CLEANUP(buf_done) struct buf joined = {0};

    if (get_text(item, "hostPath", a->arena, &m.source, err) < 0 ||
        get_text(item, "containerPath", a->arena, &m.target, err) < 0 ||
        need_path(m.target, "containerPath", err) < 0 || get_text(item, "type", a->arena, &m.type, err) < 0 ||
        get_texts(item, "options", a->arena, &options, err) < 0 || too_many(a->edits->mounts_len, err) < 0)
        return -1;
    if (m.type && (!m.type[0] || streq(m.type, "none") || streq(m.type, "bind")))
        m.type = NULL;
    if (!m.source || !m.source[0])
        return err_set(err, ERR_INVALID, "hostPath must be given");
    if (!m.type && need_path(m.source, "hostPath", err) < 0)
        return -1;
    for (const char *const *o = options; o && *o; o++) {
        if (!(*o)[0] || strchr(*o, ','))
            return err_set(err, ERR_INVALID, "'%s' is no mount option", *o);
        buf_printf(&joined, "%s%s", joined.len ? "," : "", *o);
    }
    if (joined.len)
        m.options = arena_strndup(a->arena, joined.data, joined.len);
    for (size_t i = 0; i < a->edits->mounts_len; i++)
        if (streq(a->edits->mounts[i].target, m.target)) { /* libraries that several devices bring */
            a->edits->mounts[i] = m;
            return 0;
        }
    PUSH(a->arena, a->edits, mounts, m);
    return 0;
}

static int add_hook(const struct adding *a, const struct json *item, struct err *err)
{
    static const char *const names[] = {"prestart",       "createRuntime", "createContainer",
                                        "startContainer", "poststart",     "poststop"};
    struct cdi_hook h = {0};
    const char *name;
    int64_t timeout;

    if (get_text(item, "hookName", a->arena, &name, err) < 0 ||
        get_text(item, "path", a->arena, &h.path, err) < 0 || need_path(h.path, "path", err) < 0 ||
        get_texts(item, "args", a->arena, &h.args, err) < 0 ||
        get_texts(item, "env", a->arena, &h.env, err) < 0 ||
        get_number(item, "timeout", 86400, 0, &timeout, err) < 0 || too_many(a->edits->hooks_len, err) < 0)
        return -1;
    h.timeout_sec = (int)timeout;
    for (size_t i = 0; name && i < ARRAY_LEN(names); i++)
        if (streq(names[i], name))
            h.when = names[i];
    if (!h.when)
        return err_set(err, ERR_INVALID, "hookName '%s' is not known", name ? name : "");
    cdi_edits_hook(a->arena, a->edits, &h);
    return 0;
}

static int add_gid(const struct adding *a, const struct json *item, struct err *err)
{
    if (item->type != JSON_INT || item->integer < 0 || item->integer >= UINT32_MAX)
        return err_set(err, ERR_INVALID, "must be a group id");
    if (item->integer == 0) /* the specification has it ignored */
        return 0;
    for (size_t i = 0; i < a->edits->gids_len; i++)
        if (a->edits->gids[i] == (gid_t)item->integer)
            return 0;
    if (too_many(a->edits->gids_len, err) < 0)
        return -1;
    PUSH(a->arena, a->edits, gids, (gid_t)item->integer);
    return 0;
}

static const struct {
    const char *key;
    int (*add)(const struct adding *a, const struct json *item, struct err *err);
} kinds[] = {
    {"env", add_env},    {"deviceNodes", add_node},   {"mounts", add_mount},
    {"hooks", add_hook}, {"additionalGids", add_gid}, {"additionalGIDs", add_gid},
};

int cdi_edits_add(struct arena *arena, struct cdi_edits *edits, const struct json *object, bool ask_host,
                  struct err *err)
{
    struct adding a = {arena, edits, ask_host};

    if (!object || object->type == JSON_NULL)
        return 0;
    if (object->type != JSON_OBJECT)
        return err_set(err, ERR_INVALID, "containerEdits must be an object");
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        const struct json *list = json_get(object, kinds[i].key);
        size_t at = 0;

        if (!list || list->type == JSON_NULL)
            continue;
        if (list->type != JSON_ARRAY)
            return err_set(err, ERR_INVALID, "%s must be a list", kinds[i].key);
        JSON_EACH(list, it) {
            if (kinds[i].add(&a, it, err) < 0)
                return err_prefix(err, "%s[%zu]", kinds[i].key, at);
            at++;
        }
    }
    return 0;
}
