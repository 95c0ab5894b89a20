/* Each controller with what it looks at. What is dear to find out about an object and asked again and again
 * (of a job's pods, of what a quota counts) is kept until the object changes. */
#include "base/clock.h"
#include "control/gc.h"
#include "control/job.h"
#include "control/namespace.h"
#include "control/pod_pending.h"
#include "control/pvc.h"
#include "control/quota.h"
#include "daemon/runner_internal.h"

struct pod_facts {
    int64_t rv;
    struct job_pod pod;
};

struct usage_facts {
    int64_t rv;
    struct arena arena;
    struct quota_usage usage;
};

static void usage_free(struct usage_facts *facts)
{
    if (facts)
        arena_done(&facts->arena);
    free(facts);
}

void runner_forget(struct runner *runner, const char *uid)
{
    struct str key;
    void *value;
    size_t at = 0;

    if (uid) {
        free(map_remove(runner->job_pods, str_from(uid)));
        usage_free(map_remove(runner->usages, str_from(uid)));
        runner_endpoints_forget(runner, uid);
        return;
    }
    while (map_next(runner->job_pods, &at, &key, &value))
        free(value);
    at = 0;
    while (map_next(runner->usages, &at, &key, &value))
        usage_free(value);
}

/* ---- garbage ---- */

static const struct object *gc_by_uid(void *arg, const char *uid)
{
    return store_by_uid(arg, uid);
}

static void gc_dependents(void *arg, const char *uid, void (*fn)(void *fn_arg, const struct object *object),
                          void *fn_arg)
{
    store_dependents(arg, uid, fn, fn_arg);
}

static void look_gc(struct runner *runner, const struct object *object)
{
    struct gc_world world = {gc_by_uid, gc_dependents, runner->store};

    gc_look(object, &world, runner->effects);
}

/* ---- namespaces ---- */

static void look_namespace(struct runner *runner, const struct object *ns, int64_t now)
{
    const struct object *content[EFFECTS_MAX];
    struct namespace_view view = {
        .ns = ns,
        .content = content,
        .has_account = store_get(runner->store, KIND_SERVICE_ACCOUNT, ns->name, "default") != NULL,
        .now = now,
    };

    for (size_t i = 0; ns->deleting && i < kind_count; i++) {
        struct store_slice slice;

        if (!kinds[i].stored || !kinds[i].namespaced)
            continue;
        slice = store_list(runner->store, kinds[i].id, ns->name);
        view.total += slice.len;
        for (size_t j = 0; j < slice.len && view.content_count < EFFECTS_MAX; j++)
            if (!slice.v[j]->deleting)
                content[view.content_count++] = slice.v[j];
    }
    namespace_look(&view, runner->effects);
}

/* ---- jobs, pods ---- */

struct pod_list {
    struct runner *runner;
    VEC(struct job_pod) pods;
};

static void add_pod(void *arg, const struct object *object)
{
    struct pod_list *list = arg;
    struct pod_facts *facts;

    if (object->kind->id != KIND_POD)
        return;
    facts = map_get(list->runner->job_pods, str_from(object->uid));
    if (!facts) {
        facts = NEW(struct pod_facts);
        map_set(list->runner->job_pods, str_from(object->uid), facts);
    }
    if (facts->rv != object->rv) {
        job_pod_read(object, &facts->pod);
        facts->rv = object->rv;
    }
    facts->pod.object = object;
    vec_push(&list->pods, facts->pod);
}

static void look_job(struct runner *runner, const struct object *job, int64_t now, bool no_creates)
{
    struct pod_list list = {.runner = runner};
    struct job_view view = {.job = job, .now = now, .no_creates = no_creates};

    store_parts(runner->store, job, add_pod, &list);
    view.pods = list.pods.v;
    view.pod_count = list.pods.len;
    job_look(&view, runner->effects);
    vec_done(&list.pods);
}

static bool has_job(struct runner *runner, const struct object *pod)
{
    const struct object *owner = store_controller(runner->store, pod);

    return owner && owner->kind->id == KIND_JOB;
}

static void look_pod(struct runner *runner, const struct object *pod, int64_t now)
{
    struct store_slice nodes = store_list(runner->store, KIND_NODE, NULL);

    if (!has_job(runner, pod))
        job_orphan_look(pod, runner->effects);
    if (runner->effects->len == 0)
        pod_pending_look(pod, nodes.v, nodes.len, now, runner->effects);
}

/* ---- quotas ---- */

static const struct quota_usage *usage_of(struct runner *runner, const struct object *object)
{
    struct usage_facts *facts = map_get(runner->usages, str_from(object->uid));

    if (!facts) {
        facts = NEW(struct usage_facts);
        map_set(runner->usages, str_from(object->uid), facts);
    }
    if (facts->rv != object->rv) {
        CLEANUP(arena_done) struct arena arena = {0};

        arena_done(&facts->arena);
        quota_measure(object->kind, object_doc_once(object, &arena), &facts->arena, &facts->usage);
        facts->rv = object->rv;
    }
    return &facts->usage;
}

static void add_kind(struct runner *runner, const struct quota *quota, const struct kind *kind,
                     const char *ns, int64_t now, struct arena *arena, struct resource_list *used)
{
    struct store_slice slice = store_list(runner->store, kind->id, ns);
    struct quota_usage plain;

    if (!quota_limits_kind(quota, kind))
        return;
    quota_measure(kind, NULL, arena, &plain);
    for (size_t i = 0; i < slice.len; i++)
        quota_add(quota, quota_counts_updates(kind) ? usage_of(runner, slice.v[i]) : &plain, now, used);
}

void runner_quota_used(struct runner *runner, const struct quota *quota, const struct kind *only,
                       const char *ns, int64_t now, struct arena *arena, struct resource_list *ret)
{
    quota_zero(quota, arena, ret);
    for (size_t i = 0; i < kind_count; i++)
        if (kinds[i].stored && kinds[i].namespaced && (!only || only == &kinds[i]))
            add_kind(runner, quota, &kinds[i], ns, now, arena, ret);
}

static void look_quota(struct runner *runner, const struct object *object, int64_t now)
{
    struct arena *arena = &runner->arena;
    struct resource_list used;
    struct quota quota;

    quota_read(object_doc(object), arena, &quota);
    runner_quota_used(runner, &quota, NULL, object->ns, now, arena, &used);
    quota_look(object, &quota, &used, runner->effects);
}

/* ---- claims, volumes ---- */

static void look_claim(struct runner *runner, const struct object *claim, int64_t now)
{
    struct pvc_view view = {.claim = claim, .now = now};

    runner_volumes_for(runner, claim, &view);
    if (claim->deleting)
        OBJECTS_EACH(store_list(runner->store, KIND_POD, claim->ns), it)
            view.in_use = view.in_use || pod_uses_claim(*it, claim->name, &runner->arena);
    pvc_look(&view, runner->effects);
}

static void look_volume(struct runner *runner, const struct object *volume, int64_t now)
{
    const struct json *ref = json_at(object_doc(volume), "spec.claimRef");
    const struct object *claim =
        store_get(runner->store, KIND_PVC, json_string_or(json_get(ref, "namespace"), ""),
                  json_string_or(json_get(ref, "name"), ""));

    pv_look(volume, claim, now, runner->effects);
}

void runner_look(struct runner *runner, enum controller controller, const struct object *object, int64_t now,
                 bool no_creates)
{
    switch (controller) {
    case CONTROLLER_GC:
        look_gc(runner, object);
        break;
    case CONTROLLER_NAMESPACE:
        look_namespace(runner, object, now);
        break;
    case CONTROLLER_JOB:
        look_job(runner, object, now, no_creates);
        break;
    case CONTROLLER_POD:
        look_pod(runner, object, now);
        break;
    case CONTROLLER_QUOTA:
        look_quota(runner, object, now);
        break;
    case CONTROLLER_CLAIM:
        look_claim(runner, object, now);
        break;
    case CONTROLLER_VOLUME:
        look_volume(runner, object, now);
        break;
    case CONTROLLER_ENDPOINTS:
        runner_endpoints_look(runner, object);
        break;
    default:
        break;
    }
}
