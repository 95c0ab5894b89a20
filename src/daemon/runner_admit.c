/* Admission: priorities, limits, classes of storage, addresses of services, quotas; in this order, as a quota
 * must see what the others fill in. Where a namespace has no limits and no quotas these questions cost two
 * look-ups. */
#include "base/clock.h"
#include "control/limitrange.h"
#include "control/pvc.h"
#include "control/service.h"
#include "daemon/runner_internal.h"

#define NOT_READY "node.kubernetes.io/not-ready"

/* ---- priorities ---- */

/* Every write has a higher revision than all before, so the newest one and their number tell whether
 * the classes are still those that were read. */
static void read_classes(struct runner *runner)
{
    struct store_slice slice = store_list(runner->store, KIND_PRIORITY_CLASS, NULL);
    int64_t newest = 0;

    OBJECTS_EACH(slice, it)
        newest = (*it)->rv > newest ? (*it)->rv : newest;
    if (newest == runner->class_rv && slice.len == runner->class_count)
        return;
    arena_done(&runner->class_arena);
    runner->classes = arena_zalloc(&runner->class_arena, (slice.len + 1) * sizeof(*runner->classes));
    for (size_t i = 0; i < slice.len; i++)
        priority_class_read(object_doc(slice.v[i]), &runner->class_arena, &runner->classes[i]);
    runner->class_count = slice.len;
    runner->class_rv = newest;
}

/* ---- limits ---- */

static int admit_limits(struct runner *runner, const struct write *write, const struct kind *kind,
                        const char *ns, struct json *doc)
{
    struct store_slice slice = store_list(runner->store, KIND_LIMIT_RANGE, ns);

    if (kind->id == KIND_POD)
        OBJECTS_EACH(slice, it)
            limitrange_fill(object_doc(*it), write->arena, doc);
    OBJECTS_EACH(slice, it) {
        const struct json *range = object_doc(*it);

        if ((kind->id == KIND_POD ? limitrange_check_pod(range, write->arena, doc, write->failure)
                                  : limitrange_check_claim(range, write->arena, doc, write->failure)) < 0)
            return -1;
    }
    return 0;
}

/* ---- storage ---- */

static const char *default_storage_class(struct runner *runner)
{
    OBJECTS_EACH(store_list(runner->store, KIND_STORAGE_CLASS, NULL), it) {
        const struct json *annotations = json_at(object_doc(*it), "metadata.annotations");

        if (streq(json_get_string(annotations, "storageclass.kubernetes.io/is-default-class"), "true"))
            return (*it)->name;
    }
    return NULL;
}

/* ---- quotas ---- */

static int admit_quota(struct runner *runner, const struct write *write, const struct object *object,
                       const char *ns, const struct quota_request *request)
{
    struct resource_list used;
    struct quota quota;

    quota_read(object_doc(object), write->arena, &quota);
    if (!quota_limits_kind(&quota, request->kind))
        return 0;
    runner_quota_used(runner, &quota, request->kind, ns, request->now, write->arena, &used);
    return quota_admit(&quota, &used, request, write->arena, write->failure);
}

static int admit_quotas(struct runner *runner, const struct write *write, const struct kind *kind,
                        const char *ns, const struct json *doc, const struct object *old)
{
    struct store_slice slice = store_list(runner->store, KIND_RESOURCE_QUOTA, ns);
    struct quota_usage usage, before;
    struct quota_request request = {.kind = kind,
                                    .name = json_string_or(json_at(doc, "metadata.name"), ""),
                                    .doc = doc,
                                    .usage = &usage,
                                    .copies = write->copies,
                                    .now = write->now ? write->now : clock_now()};

    if (slice.len == 0 || (old && (!write->who || !quota_counts_updates(kind))))
        return 0;
    quota_measure(kind, doc, write->arena, &usage);
    if (old) {
        quota_measure(kind, object_doc(old), write->arena, &before);
        if (kind->id == KIND_POD && usage.terminating == before.terminating)
            return 0; /* what pods ask for cannot change, only the scope they are in */
        request.old = &before;
    }
    OBJECTS_EACH(slice, it)
        if (admit_quota(runner, write, *it, ns, &request) < 0)
            return -1;
    return 0;
}

/* ---- services ---- */

enum { FIELD_CLUSTER_IP, FIELD_TYPE }; /* of the kind's fields */

static int admit_service(struct runner *runner, const struct write *write, struct json *doc,
                         const struct object *old)
{
    const struct json *before = old ? json_get(object_doc(old), "spec") : NULL;
    struct service_taken taken = {0};

    if (!service_needs_addresses(json_get(doc, "spec"), before))
        return 0;
    OBJECTS_EACH(store_list(runner->store, KIND_SERVICE, NULL), it) {
        if (old && streq((*it)->uid, old->uid))
            continue;
        service_take_ip(&taken, object_field(*it, FIELD_CLUSTER_IP));
        if (!str_is(object_field(*it, FIELD_TYPE), "ClusterIP"))
            service_take_ports(&taken, json_get(object_doc_once(*it, write->arena), "spec"));
    }
    return service_admit(&taken, write->arena, doc, str_hash(str_from(json_at_string(doc, "metadata.uid"))),
                         write->failure);
}

/* ---- nodes ---- */

/* A node that a user registers takes no pods until somebody says that it is ready. */
static void admit_node(struct arena *arena, struct json *doc)
{
    struct json *spec = json_need_object(arena, doc, "spec"), *taints, *taint;

    if (!spec)
        return;
    JSON_EACH(json_get(spec, "taints"), it)
        if (streq(json_get_string(it, "key"), NOT_READY) &&
            streq(json_get_string(it, "effect"), "NoSchedule"))
            return;
    taints = json_get(spec, "taints");
    if (!json_is(taints, JSON_ARRAY))
        taints = json_set_array(arena, spec, "taints");
    taint = json_push_object(arena, taints);
    json_set_string(arena, taint, "key", NOT_READY);
    json_set_string(arena, taint, "effect", "NoSchedule");
}

/* ---- all ---- */

static int admit_pod(struct runner *runner, const struct write *write, const struct kind *kind,
                     const char *ns, struct json *doc)
{
    const char *runtime = json_at_string(doc, "spec.runtimeClassName");

    /* There are none, but the one that GPU operators install: here cards come with every runtime. */
    if (runtime && *runtime && !streq(runtime, "nvidia"))
        return failure_forbidden(
            write->failure, write->arena, kind->group, kind->plural,
            json_string_or(json_at(doc, "metadata.name"), ""),
            arena_printf(write->arena, "pod rejected: RuntimeClass \"%s\" not found", runtime));
    read_classes(runner);
    if (admit_limits(runner, write, kind, ns, doc) < 0)
        return -1;
    return priority_admit_pod(runner->classes, runner->class_count, write->arena, doc, write->failure);
}

int runner_admit(void *arg, const struct write *write, const struct kind *kind, const char *ns,
                 struct json *doc, const struct object *old)
{
    struct runner *runner = arg;

    switch (kind->id) {
    case KIND_POD:
        if (!old && admit_pod(runner, write, kind, ns, doc) < 0)
            return -1;
        break;
    case KIND_PVC:
        if (!old)
            pvc_admit(write->arena, doc, default_storage_class(runner));
        if ((!old || write->who) && admit_limits(runner, write, kind, ns, doc) < 0)
            return -1;
        break;
    case KIND_PV:
        if (!old)
            pv_admit(write->arena, doc);
        break;
    case KIND_SERVICE:
        if (admit_service(runner, write, doc, old) < 0)
            return -1;
        break;
    case KIND_NODE:
        if (!old && write->who)
            admit_node(write->arena, doc);
        break;
    case KIND_PRIORITY_CLASS:
        read_classes(runner);
        if (priority_admit_class(runner->classes, runner->class_count, write->arena, doc, old != NULL,
                                 write->failure) < 0)
            return -1;
        break;
    default:
        break;
    }
    return kind->namespaced ? admit_quotas(runner, write, kind, ns, doc, old) : 0;
}
