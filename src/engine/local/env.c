#include "engine/local/env.h"

#include "base/cleanup.h"
#include "objects/quantity.h"

#define FIELDS_TEXT_MAX (1 << 20)

/* ---- the list ---- */

static bool named(const char *entry, const char *name, size_t len)
{
    return strncmp(entry, name, len) == 0 && entry[len] == '=';
}

void env_set(struct env_list *list, struct arena *arena, const char *name, const char *value)
{
    size_t len = strlen(name), bytes = len + (value ? strlen(value) : 0) + 2;
    const char *entry;

    if (bytes > ENV_TEXT_MAX || list->bytes + bytes > ENV_BYTES_MAX || list->len >= ENV_COUNT_MAX) {
        list->full = true;
        return;
    }
    list->bytes += bytes;
    entry = arena_printf(arena, "%s=%s", name, value ? value : "");
    for (size_t i = 0; i < list->len; i++)
        if (named(list->v[i], name, len)) {
            list->v[i] = entry;
            return;
        }
    if (list->len + 2 > list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 32;
        const char **grown = arena_alloc(arena, cap * sizeof(*grown));

        if (list->len)
            memcpy(grown, list->v, list->len * sizeof(*grown));
        list->v = grown;
        list->cap = cap;
    }
    list->v[list->len++] = entry;
    list->v[list->len] = NULL;
}

static const char *get(const struct env_list *list, const char *name, size_t len)
{
    for (size_t i = 0; i < list->len; i++)
        if (named(list->v[i], name, len))
            return list->v[i] + len + 1;
    return NULL;
}

const char *env_expand(struct arena *arena, const char *text, const struct env_list *list)
{
    CLEANUP(buf_done) struct buf out = {0};
    const char *value, *end;

    if (!strchr(text, '$'))
        return text;
    for (const char *p = text; *p && out.len <= ENV_TEXT_MAX; p++) {
        if (p[0] == '$' && p[1] == '$') {
            buf_putc(&out, '$');
            p++;
        } else if (p[0] == '$' && p[1] == '(' && (end = strchr(p, ')'))) {
            value = get(list, p + 2, (size_t)(end - p - 2));
            if (value)
                buf_puts(&out, value);
            else
                buf_add(&out, p, (size_t)(end - p + 1));
            p = end;
        } else {
            buf_putc(&out, *p);
        }
    }
    return out.len > ENV_TEXT_MAX ? NULL : arena_strndup(arena, out.data ? out.data : "", out.len);
}

/* ---- fields and amounts ---- */

static const char *map_text(struct arena *arena, const struct json *map)
{
    CLEANUP(buf_done) struct buf out = {0};

    JSON_EACH_MEMBER(map, it) {
        if (out.len > FIELDS_TEXT_MAX)
            break;
        buf_printf(&out, "%s%s=", out.len ? "\n" : "", it->key);
        json_write_string(&out, json_str(&it->value));
    }
    return arena_strndup(arena, out.data ? out.data : "", out.len);
}

/* metadata.labels['KEY'] */
static bool subscript(const char *path, const char *map, struct str *key)
{
    size_t len = strlen(map), total = strlen(path);

    if (strncmp(path, map, len) != 0 || strncmp(path + len, "['", 2) != 0 || total < len + 4 ||
        strcmp(path + total - 2, "']") != 0)
        return false;
    *key = (struct str){path + len + 2, total - len - 4};
    return true;
}

int env_field(struct arena *arena, const struct json *pod, const char *path, const struct env_world *world,
              const char **ret, struct err *err)
{
    static const char *const plain[] = {"metadata.name", "metadata.namespace", "metadata.uid",
                                        "spec.serviceAccountName", "spec.nodeName"};
    struct str key;

    for (size_t i = 0; i < ARRAY_LEN(plain); i++)
        if (streq(path, plain[i])) {
            *ret = json_string_or(json_at(pod, path), "");
            return 0;
        }
    if (streq(path, "status.podIP") || streq(path, "status.podIPs"))
        *ret = world->pod_ip;
    else if (streq(path, "status.hostIP") || streq(path, "status.hostIPs"))
        *ret = world->host_ip;
    else if (streq(path, "metadata.labels") || streq(path, "metadata.annotations"))
        *ret = map_text(arena, json_at(pod, path));
    else if (subscript(path, "metadata.labels", &key))
        *ret = json_string_or(json_get_str(json_at(pod, "metadata.labels"), key), "");
    else if (subscript(path, "metadata.annotations", &key))
        *ret = json_string_or(json_get_str(json_at(pod, "metadata.annotations"), key), "");
    else
        return err_set(err, ERR_INVALID, "unsupported fieldPath: %s", path);
    return 0;
}

static const struct json *container_named(const struct json *pod, const char *name)
{
    static const char *const lists[] = {"spec.containers", "spec.initContainers"};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        JSON_EACH(json_at(pod, lists[i]), it)
            if (streq(json_get_string(it, "name"), name))
                return it;
    return NULL;
}

int env_resource(struct arena *arena, const struct json *pod, const struct json *container,
                 const struct json *ref, const struct env_world *world, const char **ret, struct err *err)
{
    const char *what = json_string_or(json_get(ref, "resource"), "");
    const char *other = json_get_string(ref, "containerName");
    const char *dot = strchr(what, '.');
    struct quantity amount = {0}, divisor = quantity_of_int(1), given;
    const struct json *resources;

    if (other && *other)
        container = container_named(pod, other);
    if (!dot)
        return err_set(err, ERR_INVALID, "unsupported resource: %s", what);
    resources = json_get_str(json_get(container, "resources"), (struct str){what, (size_t)(dot - what)});
    if (!quantity_from_json(json_get(resources, dot + 1), &amount) && starts_with(what, "limits."))
        quantity_from_json(json_get(world->allocatable, dot + 1), &amount);
    if (quantity_from_json(json_get(ref, "divisor"), &given) && given.nanos > 0)
        divisor = given;
    *ret = arena_printf(arena, "%lld", (long long)((amount.nanos + divisor.nanos - 1) / divisor.nanos));
    return 0;
}

struct str env_value(struct arena *arena, const struct json *value, bool coded)
{
    struct str text = json_str(value), none = {NULL, 0};
    CLEANUP(buf_done) struct buf raw = {0};

    if (!coded)
        return text;
    if (!text.s || !buf_base64_decode(&raw, text))
        return none;
    return (struct str){arena_strndup(arena, raw.data ? raw.data : "", raw.len), raw.len};
}

struct str env_key(struct arena *arena, const struct json *object, bool secret, const char *key)
{
    const struct json *value = json_get(json_get(object, "data"), key);

    if (secret || json_str(value).s)
        return env_value(arena, value, secret);
    return env_value(arena, json_get(json_get(object, "binaryData"), key), true);
}

/* ---- a container's env ---- */

static int missing(struct err *err, const struct json *ref, const char *kind, const char *name,
                   const char *key)
{
    if (json_bool(json_get(ref, "optional")))
        return 0;
    if (key)
        return err_set(err, ERR_NOT_FOUND, "couldn't find key %s in %s %s", key, kind, name);
    return err_set(err, ERR_NOT_FOUND, "%s \"%s\" not found", kind, name);
}

/* *ret stays NULL when it is optional and absent. */
static int from_object(struct arena *arena, const struct json *ref, bool secret,
                       const struct env_world *world, const char **ret, struct err *err)
{
    const char *kind = secret ? "secret" : "configmap";
    const char *name = json_string_or(json_get(ref, "name"), "");
    const char *key = json_string_or(json_get(ref, "key"), "");
    const struct json *object = world->find(world->arg, kind, name);
    struct str value;

    if (!object)
        return missing(err, ref, kind, name, NULL);
    value = env_key(arena, object, secret, key);
    if (!value.s)
        return missing(err, ref, secret ? "Secret" : "ConfigMap", name, key);
    *ret = value.s;
    return 0;
}

static bool is_name(const char *s)
{
    return *s && !strchr(s, '=');
}

static int fill_from(struct env_list *list, struct arena *arena, const struct json *from,
                     const struct env_world *world, struct err *err)
{
    const struct json *secret = json_get(from, "secretRef"), *map = json_get(from, "configMapRef");
    const struct json *ref = secret ? secret : map, *object;
    const char *kind = secret ? "secret" : "configmap";
    const char *name = json_string_or(json_get(ref, "name"), "");
    const char *prefix = json_string_or(json_get(from, "prefix"), "");

    object = world->find(world->arg, kind, name);
    if (!object)
        return missing(err, ref, kind, name, NULL);
    JSON_EACH_MEMBER(json_get(object, "data"), it) {
        struct str value = env_key(arena, object, secret != NULL, it->key);

        if (list->full)
            break;
        if (value.s && is_name(it->key))
            env_set(list, arena, arena_printf(arena, "%s%s", prefix, it->key), value.s);
    }
    return 0;
}

static int value_from(struct arena *arena, const struct json *pod, const struct json *container,
                      const struct json *from, const struct env_world *world, const char **ret,
                      struct err *err)
{
    const struct json *ref;

    if ((ref = json_get(from, "fieldRef")))
        return env_field(arena, pod, json_string_or(json_get(ref, "fieldPath"), ""), world, ret, err);
    if ((ref = json_get(from, "resourceFieldRef")))
        return env_resource(arena, pod, container, ref, world, ret, err);
    if ((ref = json_get(from, "configMapKeyRef")))
        return from_object(arena, ref, false, world, ret, err);
    if ((ref = json_get(from, "secretKeyRef")))
        return from_object(arena, ref, true, world, ret, err);
    return 0;
}

int env_fill(struct env_list *list, struct arena *arena, const struct json *pod, const struct json *container,
             const struct env_world *world, struct err *err)
{
    JSON_EACH(json_get(container, "envFrom"), it)
        if (fill_from(list, arena, it, world, err) < 0)
            return -1;
    JSON_EACH(json_get(container, "env"), it) {
        const char *name = json_string_or(json_get(it, "name"), "");
        const struct json *from = json_get(it, "valueFrom");
        const char *value = NULL;

        if (from) {
            if (value_from(arena, pod, container, from, world, &value, err) < 0)
                return -1;
            if (!value)
                continue;
        } else {
            value = env_expand(arena, json_string_or(json_get(it, "value"), ""), list);
            if (!value)
                return err_set(err, ERR_LIMIT, "variable %.64s is longer than %d KiB with what it refers to",
                               name, ENV_TEXT_MAX >> 10);
        }
        env_set(list, arena, name, value);
    }
    return list->full ? err_set(err, ERR_LIMIT,
                                "the environment is too large: a variable may have %d KiB, all together %d "
                                "KiB, and there "
                                "may be %d of them",
                                ENV_TEXT_MAX >> 10, ENV_BYTES_MAX >> 10, ENV_COUNT_MAX)
                      : 0;
}
