/* What a change means for whom. Each question is answered from what the store keeps ready (owners, fields,
 * flags); documents are read only where a change is rare. */
#include "base/clock.h"
#include "control/gc.h"
#include "control/job.h"
#include "control/util.h"
#include "daemon/runner_internal.h"

static struct str field(const struct object *object, const char *name)
{
    for (size_t i = 0; object->kind->fields && object->kind->fields[i]; i++)
        if (streq(object->kind->fields[i], name))
            return object_field(object, i);
    return (struct str){0};
}

static bool pod_ended(const struct object *pod)
{
    struct str phase = field(pod, "status.phase");
    char text[16];

    snprintf(text, sizeof(text), "%.*s", STR_ARG(phase));
    return pod_phase_is_over(text);
}

/* ---- owners and dependents ---- */

static void enqueue_gc(void *arg, const struct object *object)
{
    runner_enqueue(arg, CONTROLLER_GC, object->uid);
}

static void tell_gc(struct runner *runner, const struct object *object, bool deleted)
{
    if (!deleted && gc_concerns(object))
        runner_enqueue(runner, CONTROLLER_GC, object->uid);
    if (deleted || (object->deleting && finalizer_has(object_doc(object), FINALIZER_FOREGROUND)))
        store_dependents(runner->store, object->uid, enqueue_gc, runner);
    for (uint32_t i = 0; deleted && i < object->owner_count; i++) {
        char uid[64];
        const struct object *owner;

        snprintf(uid, sizeof(uid), "%.*s", STR_ARG(object->owners[i]));
        owner = store_by_uid(runner->store, uid);
        if (owner && owner->deleting)
            runner_enqueue(runner, CONTROLLER_GC, uid);
    }
}

/* ---- namespaces ---- */

static void tell_namespace(struct runner *runner, const struct object *object, bool deleted)
{
    const struct object *ns;

    if (!deleted || !*object->ns)
        return;
    ns = store_get(runner->store, KIND_NAMESPACE, "", object->ns);
    if (ns && (ns->deleting || (object->kind->id == KIND_SERVICE_ACCOUNT && streq(object->name, "default"))))
        runner_enqueue(runner, CONTROLLER_NAMESPACE, ns->uid);
}

/* ---- quotas ---- */

/* Whether the change can move what a quota counts: most updates of pods cannot. */
static bool moves_usage(const struct object *object, const struct object *before, bool deleted)
{
    if (deleted || !before)
        return true;
    if (object->kind->id == KIND_POD)
        return object->deleting != before->deleting || pod_ended(object) != pod_ended(before);
    return object->kind->id == KIND_PVC || object->kind->id == KIND_SERVICE;
}

static void tell_quotas(struct runner *runner, const struct object *object, const struct object *before,
                        bool deleted)
{
    if (!*object->ns || store_count(runner->store, KIND_RESOURCE_QUOTA, object->ns) == 0 ||
        !moves_usage(object, before, deleted))
        return;
    OBJECTS_EACH(store_list(runner->store, KIND_RESOURCE_QUOTA, object->ns), it)
        runner_enqueue(runner, CONTROLLER_QUOTA, (*it)->uid);
}

/* ---- pods, nodes ---- */

static void tell_owner_jobs(struct runner *runner, const struct object *pod, bool deleted)
{
    const struct object *owner = store_controller(runner->store, pod);

    if (owner && owner->kind->id == KIND_JOB)
        runner_enqueue(runner, CONTROLLER_JOB, owner->uid);
    else if (!deleted && finalizer_has(object_doc(pod), JOB_TRACKING_FINALIZER))
        runner_enqueue(runner, CONTROLLER_POD, pod->uid);
}

static void pod_changed(struct runner *runner, const struct object *pod, bool deleted)
{
    tell_owner_jobs(runner, pod, deleted);
    if (!deleted && field(pod, "spec.nodeName").len == 0 && !pod_ended(pod))
        runner_enqueue(runner, CONTROLLER_POD, pod->uid);
    if (deleted || pod_ended(pod))
        OBJECTS_EACH(store_list(runner->store, KIND_PVC, pod->ns), it)
            if ((*it)->deleting)
                runner_enqueue(runner, CONTROLLER_CLAIM, (*it)->uid);
}

/* Heartbeats come often; what pods wait for changes seldom. */
static bool node_matters(const struct object *node, const struct object *before)
{
    static const char *const paths[] = {"spec", "metadata.labels", "status.allocatable"};
    const struct json *now, *old;

    if (!before)
        return true;
    now = object_doc(node);
    old = object_doc(before);
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        if (!json_equal(json_at(now, paths[i]), json_at(old, paths[i])))
            return true;
    return condition_is(json_get(now, "status"), "Ready", "True") !=
           condition_is(json_get(old, "status"), "Ready", "True");
}

static void node_changed(struct runner *runner, const struct object *node, const struct object *before,
                         bool deleted)
{
    if (!deleted && !node_matters(node, before))
        return;
    OBJECTS_EACH(store_list(runner->store, KIND_POD, NULL), it)
        if (field(*it, "spec.nodeName").len == 0 && !pod_ended(*it))
            runner_enqueue(runner, CONTROLLER_POD, (*it)->uid);
}

/* ---- claims, volumes ---- */

static void claim_changed(struct runner *runner, const struct object *claim, bool deleted)
{
    const struct object *volume;

    if (!deleted) {
        runner_enqueue(runner, CONTROLLER_CLAIM, claim->uid);
        return;
    }
    volume = store_get(runner->store, KIND_PV, "",
                       json_string_or(json_at(object_doc(claim), "spec.volumeName"), ""));
    if (volume)
        runner_enqueue(runner, CONTROLLER_VOLUME, volume->uid);
}

static bool claim_names(const struct object *claim, const char *volume, struct arena *arena)
{
    return streq(json_at_string(object_doc_once(claim, arena), "spec.volumeName"), volume);
}

static bool claim_waits(const struct object *claim, struct arena *arena)
{
    return streq(json_at_string(object_doc_once(claim, arena), "status.phase"), "Pending");
}

static void volume_changed(struct runner *runner, const struct object *volume, const struct object *before,
                           bool deleted)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *ref;
    const struct object *claim;

    runner_volume_noted(runner, volume, before, deleted);
    if (!deleted)
        runner_enqueue(runner, CONTROLLER_VOLUME, volume->uid);
    if (before && !deleted)
        return;
    ref = json_at(object_doc(volume), "spec.claimRef");
    if (ref) { /* nobody else's */
        claim = store_get(runner->store, KIND_PVC, json_string_or(json_get(ref, "namespace"), ""),
                          json_string_or(json_get(ref, "name"), ""));
        if (claim)
            runner_enqueue(runner, CONTROLLER_CLAIM, claim->uid);
        return;
    }
    OBJECTS_EACH(store_list(runner->store, KIND_PVC, NULL), it)
        if (deleted ? claim_names(*it, volume->name, &arena) : claim_waits(*it, &arena))
            runner_enqueue(runner, CONTROLLER_CLAIM, (*it)->uid);
}

/* ---- events ---- */

void runner_events_look(void *arg)
{
    struct runner *runner = arg;
    CLEANUP(arena_done) struct arena arena = {0};
    struct effects *effects = runner->effects;
    int64_t now = clock_now(), next;

    runner->events_soon = false;
    effects->len = 0;
    effects->arena = &arena;
    next = event_queue_look(runner->events, now, effects);
    OBJECTS_EACH(store_list(runner->store, KIND_NAMESPACE, NULL), it)
        if (store_count(runner->store, KIND_EVENT, (*it)->name) > EVENTS_PER_NS_MAX)
            event_queue_trim(runner->events, (*it)->name, effects);
    event_queue_trim_all(runner->events, effects);
    effects->arena = &runner->arena;
    for (size_t i = 0; i < effects->len; i++) {
        struct failure failure = {0};
        struct write write = {.arena = &arena, .failure = &failure, .now = now};
        struct delete_options options = {.uid = effects->v[i].uid};
        struct written written;

        registry_delete(runner->registry, &write, effects->v[i].kind, effects->v[i].ns, effects->v[i].name,
                        &options, &written); /* gone already is as good */
    }
    if (effects->len == EFFECTS_MAX)
        next = now;
    if (next)
        loop_timer_set(runner->events_timer, next > now ? next - now : 0);
}

void runner_set_event_age(struct runner *runner, int64_t age_sec)
{
    event_queue_set_age(runner->events, age_sec);
    runner->events_soon = true;
    loop_timer_set(runner->events_timer, 0);
}

static void event_changed(struct runner *runner, const struct object *event, bool deleted)
{
    if (deleted) {
        event_queue_remove(runner->events, event->uid);
        return;
    }
    event_queue_put(runner->events, event, event_time(object_doc(event)));
    if (!loop_timer_active(runner->events_timer) ||
        (!runner->events_soon && (store_count(runner->store, KIND_EVENT, event->ns) > EVENTS_PER_NS_MAX ||
                                  event_queue_len(runner->events) > EVENTS_MAX))) {
        runner->events_soon = true; /* once: a stream of events must not push it away */
        loop_timer_set(runner->events_timer, NSEC_PER_SEC);
    }
}

/* ---- all ---- */

static void changed(struct runner *runner, const struct object *object, const struct object *before,
                    bool deleted, bool start)
{
    tell_quotas(runner, object, before, deleted);
    tell_namespace(runner, object, deleted);
    switch (object->kind->id) {
    case KIND_EVENT:
        event_changed(runner, object, deleted);
        return; /* nobody owns events, and they own nothing */
    case KIND_NAMESPACE:
        if (!deleted)
            runner_enqueue(runner, CONTROLLER_NAMESPACE, object->uid);
        break;
    case KIND_JOB:
        if (!deleted)
            runner_enqueue(runner, CONTROLLER_JOB, object->uid);
        break;
    case KIND_POD:
        pod_changed(runner, object, deleted);
        if (!start)
            runner_endpoints_pod(runner, object, before, deleted);
        break;
    case KIND_SERVICE:
        runner_endpoints_service(runner, object, deleted);
        break;
    case KIND_ENDPOINTS:
    case KIND_ENDPOINT_SLICE:
        runner_endpoints_kept(runner, object, start);
        break;
    case KIND_NODE:
        node_changed(runner, object, before, deleted);
        break;
    case KIND_PVC:
        claim_changed(runner, object, deleted);
        break;
    case KIND_PV:
        volume_changed(runner, object, before, deleted);
        break;
    case KIND_RESOURCE_QUOTA:
        if (!deleted)
            runner_enqueue(runner, CONTROLLER_QUOTA, object->uid);
        break;
    default:
        break;
    }
    tell_gc(runner, object, deleted);
    if (deleted)
        runner_forget(runner, object->uid);
}

/* A pod whose job has just gone may still be held by it. */
static void free_job_pods(void *arg, const struct object *object)
{
    if (object->kind->id == KIND_POD)
        runner_enqueue(arg, CONTROLLER_POD, object->uid);
}

void runner_event(void *arg, const struct store_event *event)
{
    struct runner *runner = arg;
    bool deleted = event->op == STORE_DELETED;

    changed(runner, event->object, deleted ? NULL : event->before, deleted, false);
    if (deleted && event->object->kind->id == KIND_JOB)
        store_dependents(runner->store, event->object->uid, free_job_pods, runner);
}

void runner_seen(struct runner *runner, const struct object *object)
{
    changed(runner, object, NULL, false, true);
}
