/* What the files of configMap, secret, downwardAPI and projected volumes hold. They are written in a thread,
 * when a pod starts and when an object changes: there may be thousands of them, in many pods. */
#include "engine/local/content.h"
#include "engine/local/internal.h"
#include "loop/offload.h"

#define DEFAULT_MODE 0644
#define WRITE_SEC    60

struct gathering {
    struct local_pod *pod;
    struct content *content;
    int64_t mode; /* of the volume */
    struct err *err;
};

static int put(struct gathering *c, const char *path, struct str data, const struct json *mode_of)
{
    return content_put(c->content, path, data, (mode_t)json_int(json_get(mode_of, "mode"), c->mode) & 0777,
                       c->err);
}

static int put_object(struct gathering *c, const struct json *source, const char *name, bool secret)
{
    const char *kind = secret ? "secret" : "configmap";
    const struct json *object = pod_find_object(c->pod, kind, name), *items = json_get(source, "items");
    bool optional = json_bool(json_get(source, "optional"));
    static const char *const members[] = {"data", "binaryData"};

    if (!object)
        return optional ? 0 : err_set(c->err, ERR_NOT_FOUND, "%s \"%s\" not found", kind, name);
    JSON_EACH(items, it) {
        const char *key = json_string_or(json_get(it, "key"), "");
        struct str value = env_key(&c->pod->scratch, object, secret, key);

        if (!value.s && !optional)
            return err_set(c->err, ERR_NOT_FOUND, "references non-existent %s key: %s",
                           secret ? "secret" : "config", key);
        if (value.s && put(c, json_string_or(json_get(it, "path"), ""), value, it) < 0)
            return -1;
    }
    for (size_t i = 0; !json_len(items) && i < ARRAY_LEN(members); i++)
        JSON_EACH_MEMBER(json_get(object, members[i]), it)
            if (put(c, it->key, env_value(&c->pod->scratch, &it->value, secret || i == 1), NULL) < 0)
                return -1;
    return 0;
}

static int put_downward(struct gathering *c, const struct json *source)
{
    struct env_world world = pod_world(c->pod);

    JSON_EACH(json_get(source, "items"), it) {
        const struct json *field = json_get(it, "fieldRef"), *resource = json_get(it, "resourceFieldRef");
        const char *value = "";

        if (field && env_field(&c->pod->scratch, c->pod->doc,
                               json_string_or(json_get(field, "fieldPath"), ""), &world, &value, c->err) < 0)
            return -1;
        if (resource &&
            env_resource(&c->pod->scratch, c->pod->doc, NULL, resource, &world, &value, c->err) < 0)
            return -1;
        if (put(c, json_string_or(json_get(it, "path"), ""), str_from(value), it) < 0)
            return -1;
    }
    return 0;
}

static int put_source(struct gathering *c, const struct json *from)
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

static int collect(struct gathering *c, const struct json *volume)
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

static struct content *gather(struct local_pod *pod, const struct json *volume, const char *dir, gid_t group,
                              struct err *err)
{
    struct content *content = content_new(dir, pod->user.admin ? (uid_t)-1 : pod->user.uid, group);
    struct gathering gathering = {.pod = pod, .content = content, .mode = DEFAULT_MODE, .err = err};

    if (collect(&gathering, volume) == 0)
        return content;
    content_free(content);
    return NULL;
}

/* ---- in a thread ---- */

struct gather_work {
    VEC(struct content *) contents;
    struct err err; /* the first */
};

void gather_drop(void *arg)
{
    struct gather_work *work = arg;

    if (!work)
        return;
    VEC_EACH(&work->contents, it)
        content_free(*it);
    vec_done(&work->contents);
    free(work);
}

static void gather_run(void *arg)
{
    struct gather_work *work = arg;

    VEC_EACH(&work->contents, it) {
        struct err err = {0};

        if (content_apply(*it, &err) < 0 && !work->err.code) {
            work->err = err;
            err_prefix(&work->err, "cannot mount volume \"%s\"", strrchr((*it)->dir, '/') + 1);
        }
    }
}

static void gather_done(void *owner, void *arg)
{
    struct local_pod *pod = owner;
    struct gather_work *work = arg;
    struct err err = {0};

    pod->content_busy = false;
    if (!work)
        err_set(&err, ERR_TIMEOUT, "cannot mount its volumes: their files are not written after %d s",
                WRITE_SEC);
    pod->content_done(pod, !work ? &err : work->err.code ? &work->err : NULL);
    gather_drop(work);
    if (pod->content_again) {
        pod->content_again = false;
        volumes_refresh(pod);
    }
    sandbox_part_gone(pod);
}

int gather_add(struct gather_work **work, struct local_pod *pod, const struct json *volume, const char *dir,
               gid_t group, struct err *err)
{
    struct content *content = gather(pod, volume, dir, group, err);

    if (!content)
        return -1;
    if (!*work)
        *work = NEW(struct gather_work);
    vec_push(&(*work)->contents, content);
    return 0;
}

int gather_send(struct local_pod *pod, struct gather_work *work,
                void (*done)(struct local_pod *pod, const struct err *err), struct err *err)
{
    if (offload_run(pod->engine->offload, WRITE_SEC, gather_run, gather_done, gather_drop, pod, work, err) <
        0)
        return -1;
    pod->content_done = done;
    pod->content_busy = true;
    pod->pending++;
    return 0;
}
