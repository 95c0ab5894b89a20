/* A pod on this node: its newest document, its facts, and one look at them at a time. */
#include "base/clock.h"
#include "base/log.h"
#include "engine/local/internal.h"
#include "engine/local/status.h"
#include "objects/names.h"
#include "registry/access.h"

#define LOG_MODULE        "engine"

#define STATUS_RETRY_NSEC NSEC_PER_SEC
#define DEADLINE_TEXT     "Pod was active on the node longer than the specified deadline"
#define SIDECAR_GRACE_SEC 2 /* at least, however long the others took */

#include <sys/stat.h>

static void pod_on_timer(void *arg)
{
    pod_queue(arg);
}

static void read_object(struct local_pod *pod, const struct object *object)
{
    pod->object = object_ref(object);
    pod->doc = object_json(object, &pod->arena);
}

struct local_pod *local_pod_new(struct local_engine *engine, const struct object *object)
{
    struct local_pod *pod = NEW(struct local_pod);

    pod->engine = engine;
    pod->uid = mem_strdup(object->uid);
    pod->ns = mem_strdup(object->ns);
    pod->name = mem_strdup(object->name);
    pod->dir = mem_printf("%s/pods/%s", engine->data_dir, object->uid);
    pod->etc = mem_printf("%s/pods/%s", engine->run_dir, object->uid);
    read_object(pod, object);
    facts_init(&pod->facts, pod->doc);
    snprintf(pod->facts.host_ip, sizeof(pod->facts.host_ip), "%s", engine->host_ip);
    pod->runs = mem_zalloc((pod->facts.len + 1) * sizeof(*pod->runs));
    for (size_t i = 0; i < pod->facts.len; i++) {
        pod->runs[i].pod = pod;
        pod->runs[i].at = i;
    }
    bind_read(pod->doc, &pod->arena, &pod->need);
    pod->host_network = json_bool(json_at(pod->doc, "spec.hostNetwork"));
    pod->timer = loop_timer_new(engine->loop, pod_on_timer, pod);
    return pod;
}

void local_pod_free(struct local_pod *pod)
{
    if (!pod)
        return;
    pod->dead = true;
    turn_check(pod);
    settle_drop(pod);
    for (size_t i = 0; i < pod->facts.len; i++)
        run_free(&pod->runs[i]);
    loop_timer_free(pod->timer);
    facts_done(&pod->facts);
    object_unref(pod->object);
    arena_done(&pod->arena);
    arena_done(&pod->scratch);
    free(pod->runs);
    free(pod->uid);
    free(pod->ns);
    free(pod->name);
    free(pod->dir);
    free(pod->etc);
    free(pod);
}

void pod_take(struct local_pod *pod, const struct object *object)
{
    struct arena old = pod->arena;

    if (pod->object && object->rv <= pod->object->rv)
        return;
    object_unref(pod->object);
    pod->arena = (struct arena){0};
    read_object(pod, object);
    facts_refresh(&pod->facts, pod->doc);
    arena_done(&old);
}

struct local_run *pod_run(const struct local_pod *pod, const char *container)
{
    for (size_t i = 0; container && i < pod->facts.len; i++)
        if (streq(pod->facts.ctrs[i].name, container))
            return &pod->runs[i];
    return NULL;
}

const struct json *pod_find_object(void *arg, const char *kind, const char *name)
{
    struct local_pod *pod = arg;
    bool secret = streq(kind, "secret");
    const struct object *object =
        store_get(pod->engine->store, secret ? KIND_SECRET : KIND_CONFIG_MAP, pod->ns, name);

    if (object && secret && !pod->user.admin && !access_reads_secret(work_rights(pod->doc), object))
        object = NULL; /* another's: as one that is not there */
    return object ? object_json(object, &pod->scratch) : NULL;
}

struct env_world pod_world(struct local_pod *pod)
{
    const struct object *node = store_get(pod->engine->store, KIND_NODE, "", pod->engine->node_name);
    const struct json *doc = node ? object_json(node, &pod->scratch) : NULL;

    return (struct env_world){.arg = pod,
                              .find = pod_find_object,
                              .pod_ip = pod->facts.pod_ip,
                              .host_ip = pod->facts.host_ip,
                              .node_name = pod->engine->node_name,
                              .allocatable = json_at(doc, "status.allocatable")};
}

/* ---- taking up what runs ---- */

/* id is UID_NAME_N. The run before this daemon may be one further than what was stored. */
int pod_adopt(struct local_pod *pod, const char *id)
{
    const char *name = id + strlen(pod->uid) + 1, *number = strrchr(id, '_');
    CLEANUP(free) char *container = NULL;
    struct local_run *run;
    struct ctr *ctr;
    int64_t n;

    if (pause_is(id))
        return pause_adopt(pod, id);
    if (!number || number < name || !str_to_int(str_from(number + 1), &n))
        return -1;
    container = mem_strndup(name, (size_t)(number - name));
    run = pod_run(pod, container);
    if (!run || run->container || pod->facts.ended || pod->stale)
        return -1;
    ctr = &pod->facts.ctrs[run->at];
    if (n == ctr->restarts + 1 && ctr->state == CTR_EXITED)
        ctr_again(ctr);
    if (n != ctr->restarts || ctr->state == CTR_EXITED ||
        runtime_adopt(pod->engine->rt, id, &run_events, run, &run->container, NULL) < 0)
        return -1;
    snprintf(ctr->id, sizeof(ctr->id), "%s", id);
    if (ctr->state != CTR_RUNNING)
        ctr->state = CTR_STARTING;
    run->mounted = true;
    return 0;
}

/* ---- one look ---- */

struct status_writing {
    struct local_pod *pod;
    const struct pod_plan *plan;
    int64_t now;
};

static bool edit_status(void *arg, struct arena *arena, struct json *doc)
{
    const struct status_writing *writing = arg;
    const struct json *before = json_copy(arena, json_get(doc, "status"));

    if (!streq(json_at_string(doc, "spec.nodeName"), writing->pod->engine->node_name))
        return false; /* it has just lost its node: nothing more is to be said of it */
    status_write(arena, doc, &writing->pod->facts, writing->plan, writing->now);
    if (json_equal(before, json_get(doc, "status")))
        return false;
    settle_anew(writing->pod);
    return true;
}

static void write_status(struct local_pod *pod, const struct pod_plan *plan, int64_t now)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "berth", .now = now};
    const struct object *object = store_by_uid(pod->engine->store, pod->uid);
    struct status_writing writing = {pod, plan, now};
    struct written written;

    if (object &&
        registry_edit_object(pod->engine->registry, &write, object, edit_status, &writing, &written) < 0 &&
        failure.code != 404) {
        log_warn("pod '%s/%s': %s", pod->ns, pod->name, failure.message);
        pod->retry_at = now + STATUS_RETRY_NSEC;
    }
}

static void delete_object(struct local_pod *pod)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "berth"};
    struct delete_options options = {.has_grace = true, .uid = pod->uid};
    struct written written;

    /* Finalizers hold it: it goes when the last of them does. */
    if (json_len(json_at(pod->doc, "metadata.finalizers")) &&
        json_int(json_at(pod->doc, "metadata.deletionGracePeriodSeconds"), -1) == 0)
        return;
    registry_delete(pod->engine->registry, &write, kind_by_id(KIND_POD), pod->ns, pod->name, &options,
                    &written);
}

static int64_t grace_of(const struct local_pod *pod)
{
    const struct json *spec = json_at(pod->doc, "spec.terminationGracePeriodSeconds");

    if (!pod->object && !pod->released)
        return 0;
    return shutdown_grace(pod->engine, json_int(json_at(pod->doc, "metadata.deletionGracePeriodSeconds"),
                                                json_int(spec, LOCAL_GRACE_SEC)));
}

/* Sidecars end after the others, with what is left of the time. */
static int64_t grace_for(struct local_pod *pod, size_t at)
{
    int64_t grace = grace_of(pod), now = clock_monotonic(), left;

    if (!pod->stop_from)
        pod->stop_from = now;
    if (!pod->facts.ctrs[at].sidecar || pod->runs[at].stopping || grace < SIDECAR_GRACE_SEC)
        return grace;
    left = grace - (now - pod->stop_from) / NSEC_PER_SEC;
    return left > SIDECAR_GRACE_SEC ? left : SIDECAR_GRACE_SEC;
}

static void restart(struct local_pod *pod, size_t at)
{
    struct ctr *ctr = &pod->facts.ctrs[at];
    CLEANUP(free) char *old = start_log_path(pod, ctr->name, ctr->restarts - 1);

    start_discard(&pod->runs[at]);
    for (int i = 0; i < LOCAL_LOG_FILES; i++) { /* only the last two runs have logs */
        CLEANUP(free) char *path = i ? mem_printf("%s.%d", old, i) : mem_strdup(old);

        unlink(path);
    }
    ctr_again(ctr);
    run_pull(&pod->runs[at]);
}

static void act(struct local_pod *pod, const struct pod_plan *plan)
{
    for (size_t i = 0; i < plan->len; i++) {
        const struct plan_step *step = &plan->steps[i];

        if (pod->engine->going_down && step->act != PLAN_STOP)
            continue;

        switch (step->act) {
        case PLAN_SANDBOX:
            sandbox_make(pod);
            break;
        case PLAN_PULL:
            run_pull(&pod->runs[step->ctr]);
            break;
        case PLAN_RESTART:
            if (pod_settled(pod))
                restart(pod, step->ctr);
            break;
        case PLAN_STOP:
            run_stop(&pod->runs[step->ctr], grace_for(pod, step->ctr));
            break;
        }
    }
}

static void sleep_until(struct local_pod *pod, const struct pod_plan *plan, int64_t now)
{
    int64_t at = plan->wake_at;

    if (pod->sandbox == SANDBOX_NONE && pod->volumes_retry > now && (!at || pod->volumes_retry < at))
        at = pod->volumes_retry;
    if (pod->retry_at > now && (!at || pod->retry_at < at))
        at = pod->retry_at;
    if (at)
        loop_timer_set(pod->timer, at > now ? at - now : 0);
    else
        loop_timer_stop(pod->timer);
}

void pod_try_again(struct local_pod *pod)
{
    for (size_t i = 0; i < pod->facts.len; i++) {
        struct ctr *ctr = &pod->facts.ctrs[i];

        if (ctr->state == CTR_STUCK && streq(ctr->reason, "CreateContainerConfigError")) {
            ctr->retry_at = 0;
            pod_queue(pod);
        }
    }
    if (pod->sandbox == SANDBOX_NONE && pod->volumes_retry) {
        pod->volumes_retry = 0;
        pod_queue(pod);
    }
}

/* Nothing runs and nothing will. */
static void wind_up(struct local_pod *pod)
{
    bool forget = !pod->object || pod->facts.deleting;

    if (pod->object && pod->sandbox != SANDBOX_GONE && pod->sandbox != SANDBOX_LEAVING && !pod_settled(pod)) {
        if (pod->settle_failed) /* the disk may be full of what it wrote */
            sandbox_make_room(pod);
        return;
    }
    if (pod->sandbox != SANDBOX_GONE)
        sandbox_leave(pod, false);
    if (pod->sandbox != SANDBOX_GONE)
        return;
    if (forget && !keeper_through(pod))
        return;
    if (forget)
        sandbox_leave(pod, true);
    if (!pod->object)
        local_pod_gone(pod);
    else if (forget)
        delete_object(pod);
}

void pod_sync(struct local_pod *pod)
{
    CLEANUP(free) struct pod_plan *plan = NEW(struct pod_plan);
    int64_t now = clock_now();

    fit_check(pod);
    if (!pod->facts.start_time)
        pod->facts.start_time = now;
    if (pod->facts.deadline && pod->facts.deadline <= now && !pod->facts.ended && !*pod->facts.fail_reason) {
        facts_fail(&pod->facts, "DeadlineExceeded", DEADLINE_TEXT);
        pod_event(pod, "Normal", "DeadlineExceeded", DEADLINE_TEXT);
    }
    shutdown_pod(pod);
    plan_pod(&pod->facts, now, plan);
    act(pod, plan);
    if (plan->len) { /* what was begun shows */
        now = clock_now();
        plan_pod(&pod->facts, now, plan);
    }
    if (pod->object)
        write_status(pod, plan, now);
    sleep_until(pod, plan, now);
    if (plan->over)
        wind_up(pod);
    settle_ask(pod);
    turn_check(pod);
}
