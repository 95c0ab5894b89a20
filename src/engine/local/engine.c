/* The engine: pods of this node by their uid, and a queue of those to look at. Changes in the store and
 * reports of the parts put a pod into the queue; looks happen at the end of the turn, so nothing is written
 * from inside a watch. */
#include "base/clock.h"
#include "base/file.h"
#include "engine/local/internal.h"
#include "engine/log_reader.h"
#include "loop/offload.h"

#include <stdarg.h>

#define COMMIT_RETRY_NSEC NSEC_PER_SEC
#define RUN_NSEC          (20 * NSEC_PER_MSEC) /* of one go at the queue */

static void run_queue(void *arg);

void local_look(struct local_engine *engine)
{
    if (engine->running || engine->closed)
        return;
    engine->running = true;
    loop_later(engine->loop, run_queue, engine);
}

void pod_queue(struct local_pod *pod)
{
    struct local_engine *engine = pod->engine;

    if (pod->queued || pod->dead || engine->closed)
        return;
    pod->queued = true;
    pod->next = NULL;
    *engine->tail = pod;
    engine->tail = &pod->next;
    local_look(engine);
}

struct local_pod *local_find(const struct local_engine *engine, const char *uid)
{
    return map_get(engine->pods, str_from(uid));
}

static void seen(struct local_engine *engine, const struct object *object);

void local_pod_gone(struct local_pod *pod)
{
    const struct object *object = store_by_uid(pod->engine->store, pod->uid);

    map_remove(pod->engine->pods, str_from(pod->uid));
    pod->dead = true;
    if (object) /* it may have got a node again meanwhile */
        seen(pod->engine, object);
}

void local_free(struct local_engine *engine)
{
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(engine->pods, &at, &key, &value))
        local_pod_free(value);
    map_free(engine->pods);
    accounts_free(engine);
    for (size_t i = 0; engine->admins && engine->admins[i]; i++)
        free(engine->admins[i]);
    free(engine->admins);
    free(engine->node_name);
    free(engine->data_dir);
    free(engine->run_dir);
    free(engine->log_dir);
    free(engine->cgroup);
    free(engine);
}

/* ---- what could not be made durable ---- */

/* The store takes back what it could not commit (a full disk): every pod is looked at again, and writes what
 * the store does not have. */
struct commit {
    struct local_engine *engine; /* NULL: it is gone */
};

static void local_on_retry(void *arg)
{
    struct local_engine *engine = arg;
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(engine->pods, &at, &key, &value))
        pod_queue(value);
}

static void local_on_commit(void *arg, const struct err *err)
{
    CLEANUP(free) struct commit *commit = arg;
    struct local_engine *engine = commit->engine;

    if (!engine)
        return;
    engine->commit = NULL;
    if (err && !engine->closed)
        loop_timer_set(engine->retry, COMMIT_RETRY_NSEC);
}

static void watch_commit(struct local_engine *engine)
{
    if (engine->commit || store_durable(engine->store))
        return;
    engine->commit = NEW(struct commit);
    engine->commit->engine = engine;
    store_defer(engine->store, local_on_commit, engine->commit);
}

static void run_queue(void *arg)
{
    struct local_engine *engine = arg;
    int64_t start = clock_monotonic();

    engine->running = false;
    if (engine->closed)
        return;
    while (engine->head) {
        struct local_pod *pod = engine->head;

        engine->head = pod->next;
        if (!engine->head)
            engine->tail = &engine->head;
        pod->queued = false;
        pod_sync(pod);
        if (pod->dead && !pod->pending && !pod->queued)
            local_pod_free(pod);
        if (engine->head && clock_monotonic() - start > RUN_NSEC) {
            local_look(engine);
            break;
        }
    }
    shutdown_check(engine);
    watch_commit(engine);
}

void pod_event(struct local_pod *pod, const char *type, const char *reason, const char *fmt, ...)
{
    const struct object *about = store_by_uid(pod->engine->store, pod->uid);
    CLEANUP(buf_done) struct buf text = {0};
    va_list ap;

    if (!about)
        return;
    va_start(ap, fmt);
    buf_vprintf(&text, fmt, ap);
    va_end(ap);
    registry_event(pod->engine->registry, about, type, reason, "%s", text.data);
}

/* ---- what changes in the store ---- */

static size_t node_field(void)
{
    const struct kind *kind = kind_by_id(KIND_POD);
    size_t i = 0;

    while (kind->fields[i] && !streq(kind->fields[i], "spec.nodeName"))
        i++;
    return i;
}

static bool is_ours(const struct local_engine *engine, const struct object *object)
{
    return str_is(object_field(object, node_field()), engine->node_name);
}

static void seen(struct local_engine *engine, const struct object *object)
{
    struct local_pod *pod = local_find(engine, object->uid);

    if (!is_ours(engine, object)) {
        if (pod)
            release_pod(pod);
        return;
    }
    if (pod && pod->released) /* what is left of its last time here goes first */
        return;
    if (pod) {
        pod_take(pod, object);
        volumes_update(pod, false, NULL);
    } else {
        pod = local_pod_new(engine, object);
        pod->stale = release_begun(pod);
        map_set(engine->pods, str_from(object->uid), pod);
    }
    pod_queue(pod);
}

static void gone(struct local_engine *engine, const struct object *object)
{
    struct local_pod *pod = local_find(engine, object->uid);

    if (!pod || !pod->object)
        return;
    object_unref(TAKE_PTR(pod->object));
    pod->facts.deleting = true;
    pod_queue(pod);
}

static void local_on_pod(void *arg, const struct store_event *event)
{
    services_soon(arg);
    if (event->op == STORE_DELETED)
        gone(arg, event->object);
    else
        seen(arg, event->object);
}

static void show_change(struct local_engine *engine, const struct store_event *event, bool secret)
{
    struct str key;
    void *value;
    size_t at = 0;

    if (event->op == STORE_DELETED)
        return; /* files stay as they are */
    while (map_next(engine->pods, &at, &key, &value)) {
        struct local_pod *pod = value;

        if (streq(pod->ns, event->object->ns) && pod->object) {
            volumes_update(pod, secret, event->object->name);
            pod_try_again(pod);
        }
    }
}

static void local_on_map(void *arg, const struct store_event *event)
{
    show_change(arg, event, false);
}

static void local_on_secret(void *arg, const struct store_event *event)
{
    show_change(arg, event, true);
}

/* A volume that was made here has its size enforced where that can be, and goes with its object, unless that
 * says Retain. */
static void local_on_volume(void *arg, const struct store_event *event)
{
    struct local_engine *engine = arg;
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(free) char *dir = NULL;
    const struct json *doc;

    if (event->op != STORE_DELETED) {
        claims_limit(engine, event->object->name);
        return;
    }
    claims_gone(engine, event->object->name);
    doc = object_json(event->object, &arena);
    if (!streq(json_at_string(doc, "spec.csi.driver"), LOCAL_DRIVER) ||
        !streq(json_at_string(doc, "spec.persistentVolumeReclaimPolicy"), "Delete"))
        return;
    dir = mem_printf("%s/volumes/%s", engine->data_dir, event->object->name);
    sandbox_remove_tree(engine, dir);
}

/* ---- start and end ---- */

static char **copy_list(const char *const *list)
{
    size_t n = 0;
    char **copy;

    while (list && list[n])
        n++;
    copy = mem_zalloc((n + 1) * sizeof(*copy));
    for (size_t i = 0; i < n; i++)
        copy[i] = mem_strdup(list[i]);
    return copy;
}

static int make_folders(const struct local_engine *engine, struct err *err)
{
    CLEANUP(free) char *pods = mem_printf("%s/pods", engine->data_dir);
    CLEANUP(free) char *volumes = mem_printf("%s/volumes", engine->data_dir);
    CLEANUP(free) char *etc = mem_printf("%s/pods", engine->run_dir);

    if (engine->log_dir && dir_make(engine->log_dir, 0700, err) < 0)
        return -1;
    return dir_make(pods, 0700, err) < 0 || dir_make(volumes, 0700, err) < 0 || dir_make(etc, 0700, err) < 0
               ? -1
               : 0;
}

int local_engine_new(const struct local_config *config, struct engine **ret, struct err *err)
{
    struct local_engine *engine = NEW(struct local_engine);

    engine->base.ops = &local_ops;
    engine->loop = config->loop;
    engine->registry = config->registry;
    engine->store = registry_store(config->registry);
    engine->rt = config->runtime;
    engine->images = config->images;
    engine->net = config->net;
    engine->gpus = config->gpus;
    engine->cdi = config->cdi;
    engine->cards = config->gpus ? gpu_count(config->gpus) : 0;
    engine->node_name = mem_strdup(config->node_name);
    engine->data_dir = mem_strdup(config->data_dir);
    engine->run_dir = mem_strdup(config->run_dir);
    engine->log_dir = mem_strdup(config->log_dir);
    engine->cgroup = mem_strdup(config->cgroup ? config->cgroup : "/berth");
    engine->admins = copy_list(config->admins);
    snprintf(engine->host_ip, sizeof(engine->host_ip), "%s", config->host_ip ? config->host_ip : "127.0.0.1");
    engine->pods = map_new();
    engine->accounts = map_new();
    engine->tail = &engine->head;
    engine->logs = log_watch_new(engine->loop);
    engine->offload = offload_new(engine->loop);
    engine->retry = loop_timer_new(engine->loop, local_on_retry, engine);
    ops_init(engine);
    engine->pids_max = usage_pids_max();
    usage_start(engine);
    services_start(engine);
    if (make_folders(engine, err) < 0 || slots_start(engine, err) < 0) {
        local_close(engine);
        local_free(engine);
        return -1;
    }
    claims_start(engine, config);
    OBJECTS_EACH(store_list(engine->store, KIND_POD, NULL), it)
        seen(engine, *it);
    sweep_start(engine, config->keep_unknown);
    disk_start(engine);
    store_watch(engine->store, KIND_POD, NULL, store_revision(engine->store), local_on_pod, NULL, engine,
                &engine->watch, NULL); /* from now on: cannot be too old */
    store_watch(engine->store, KIND_CONFIG_MAP, NULL, store_revision(engine->store), local_on_map, NULL,
                engine, &engine->map_watch, NULL);
    store_watch(engine->store, KIND_SECRET, NULL, store_revision(engine->store), local_on_secret, NULL,
                engine, &engine->secret_watch, NULL);
    store_watch(engine->store, KIND_PV, NULL, store_revision(engine->store), local_on_volume, NULL, engine,
                &engine->volume_watch, NULL);
    *ret = &engine->base;
    return 0;
}

void local_close(struct local_engine *engine)
{
    struct str key;
    void *value;
    size_t at = 0;

    if (!engine)
        return;
    engine->closed = true;
    store_unwatch(engine->watch);
    store_unwatch(engine->volume_watch);
    store_unwatch(engine->map_watch);
    store_unwatch(engine->secret_watch);
    engine->map_watch = engine->secret_watch = NULL;
    engine->watch = engine->volume_watch = NULL;
    ops_done(engine);
    usage_stop(engine);
    services_stop(engine);
    while (map_next(engine->pods, &at, &key, &value)) {
        struct local_pod *pod = value;

        for (size_t i = 0; i < pod->facts.len; i++)
            run_free(&pod->runs[i]);
    }
    trash_done(engine);
    turns_done(engine);
    slots_done(engine);
    image_host_free(TAKE_PTR(engine->host_view));
    log_watch_free(engine->logs);
    engine->logs = NULL;
    loop_timer_free(engine->retry);
    engine->retry = NULL;
    offload_close(TAKE_PTR(engine->offload));
    keeper_stop(engine);
    sample_stop(engine);
    claims_stop(engine);
    dial_lookups_done(engine);
    loop_timer_free(engine->disk_timer);
    engine->disk_timer = NULL;
    if (engine->commit)
        engine->commit->engine = NULL;
    engine->commit = NULL;
}
