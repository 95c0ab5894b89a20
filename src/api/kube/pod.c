/* What can be asked of a pod beside its document: binding to a node, eviction, and the streams that a
 * node agent serves. */
#include "api/kube/stream.h"
#include "base/clock.h"
#include "objects/condition.h"
#include "objects/names.h"

struct bind {
    const char *node;
    const struct json *annotations;
    int64_t now;
};

static bool set_node(void *arg, struct arena *arena, struct json *doc)
{
    const struct bind *bind = arg;
    struct json *annotations;

    json_set_string(arena, json_need_object(arena, doc, "spec"), "nodeName", bind->node);
    if (json_len(bind->annotations)) {
        annotations = json_need_object(arena, json_get(doc, "metadata"), "annotations");
        JSON_EACH_MEMBER(bind->annotations, it)
            json_set_str(arena, annotations, (struct str){it->key, it->key_len}, it->value);
    }
    pod_set_scheduled(arena, doc, NULL, NULL, bind->now);
    json_set(arena, condition_find(json_get(doc, "status"), SCHEDULED_CONDITION), "lastProbeTime",
             *json_new_null(arena)); /* as Kubernetes has it */
    return true;
}

static const struct object *find_pod(struct call *call, const struct route *route)
{
    const struct object *pod = store_get(call->store, KIND_POD, route->ns, route->name);

    if (!pod)
        failure_not_found(&call->failure, call->arena, "", "pods", route->name);
    return pod;
}

static int bind_conflict(struct call *call, const struct object *pod, const char *why)
{
    return failure_conflict(&call->failure, call->arena, "", "pods/binding", pod->name, why);
}

static int bind_pod(struct call *call, const struct object *pod, const struct json *binding)
{
    const struct json *doc = object_json(pod, call->arena);
    const char *uid = json_at_string(binding, "metadata.uid"), *node = json_at_string(doc, "spec.nodeName");
    struct bind bind = {.node = json_at_string(binding, "target.name"),
                        .annotations = json_at(binding, "metadata.annotations"),
                        .now = call->now};
    struct write write = {.arena = call->arena,
                          .failure = &call->failure,
                          .now = call->now,
                          .keep_generation = true,
                          .dry_run = streq(query_string(call, "dryRun"), "All")};
    const char *target = json_string_or(json_at(binding, "target.kind"), "");
    const char *name = json_string_or(json_at(binding, "metadata.name"), "");
    CLEANUP(written_done) struct written written = {0};

    if (*name && !streq(name, pod->name))
        return failure_bad_request(&call->failure, call->arena,
                                   "name in URL does not match name in Binding object");
    if (!bind.node || !*bind.node)
        return failure_set(&call->failure, call->arena, 500, "", "target.name: Required value");
    if (*target && !streq(target, "Node"))
        return failure_set(&call->failure, call->arena, 500, "",
                           "target.kind: Unsupported value: \"%s\": supported values: \"Node\", \"<empty>\"",
                           target);
    if (uid && *uid && !streq(uid, pod->uid))
        return failure_conflict(
            &call->failure, call->arena, "", "pods", pod->name,
            arena_printf(call->arena, "Precondition failed: UID in precondition: %s, UID in object meta: %s",
                         uid, pod->uid));
    if (pod->deleting)
        return bind_conflict(
            call, pod,
            arena_printf(call->arena, "pod %s is being deleted, cannot be assigned to a host", pod->name));
    if (node && *node)
        return bind_conflict(
            call, pod,
            arena_printf(call->arena, "pod %s is already assigned to node \"%s\"", pod->name, node));
    if (json_len(json_at(doc, "spec.schedulingGates")))
        return bind_conflict(
            call, pod, arena_printf(call->arena, "pod %s has non-empty .spec.schedulingGates", pod->name));
    return registry_edit_object(call->registry, &write, pod, set_node, &bind, &written);
}

static void reply_success(struct call *call, int status)
{
    struct json *doc = json_new_object(call->arena);

    json_set_string(call->arena, doc, "kind", "Status");
    json_set_string(call->arena, doc, "apiVersion", "v1");
    json_set_object(call->arena, doc, "metadata");
    json_set_string(call->arena, doc, "status", "Success");
    json_set_int(call->arena, doc, "code", status);
    call_reply_json(call, status, doc);
}

static int decode_as(struct call *call, const char *type, struct json **ret)
{
    static const struct kind binding = {.name = "Binding", .version = "v1", .group = ""};
    static const struct kind eviction = {.name = "Eviction", .version = "v1", .group = "policy"};
    const struct kind *kind = streq(type, "Binding") ? &binding : &eviction;
    const char *duplicates = NULL;
    struct err err = {0};

    if (body_decode(call, kind, ret, &duplicates) < 0)
        return -1;
    if (schema_check(schema_type_find(type), call->arena, *ret, true, NULL, &err) < 0)
        return failure_bad_request(&call->failure, call->arena,
                                   "%s in version \"v1\" cannot be handled as a %s: %s", type, type, err.msg);
    return 0;
}

void pod_binding(struct call *call, const struct route *route)
{
    struct route pod_route = *route;
    const struct object *pod;
    struct json *doc;

    if (decode_as(call, "Binding", &doc) < 0) {
        call_fail(call);
        return;
    }
    if (!*pod_route.name)
        pod_route.name = json_string_or(json_at(doc, "metadata.name"), "");
    if (!(pod = find_pod(call, &pod_route)) || bind_pod(call, pod, doc) < 0)
        call_fail(call);
    else
        reply_success(call, 201);
}

static int check_eviction_name(struct call *call, const struct route *route, const struct json *doc)
{
    const char *name = json_string_or(json_at(doc, "metadata.name"), "");

    if (*name && !streq(name, route->name))
        return failure_bad_request(&call->failure, call->arena,
                                   "name in URL does not match name in Eviction object");
    return 0;
}

static bool add_disruption(void *arg, struct arena *arena, struct json *doc)
{
    struct json *status = json_need_object(arena, doc, "status");
    const char *phase = json_string_or(json_get(status, "phase"), "");

    return !pod_phase_is_over(phase) &&
           condition_set(arena, status, "DisruptionTarget", "True", "EvictionByEvictionAPI",
                         "Eviction API: evicting", *(const int64_t *)arg);
}

/* Says on the pod why it goes, so that Jobs need not count it as a failure. */
static void mark_evicted(struct call *call, const struct object *pod)
{
    struct failure ignored = {0};
    struct write write = {.arena = call->arena, .failure = &ignored, .now = call->now};
    struct written written;

    registry_edit_object(call->registry, &write, pod, add_disruption, &call->now, &written);
}

/* Preconditions are about the pod as the caller saw it: before the mark. */
static bool as_expected(const struct object *pod, const struct delete_options *options)
{
    int64_t rv;

    return (!options->uid || streq(options->uid, pod->uid)) &&
           (!options->resource_version ||
            (str_to_int(str_from(options->resource_version), &rv) && rv == pod->rv));
}

static void eviction(struct call *call, const struct route *route)
{
    CLEANUP(written_done) struct written written = {0};
    struct delete_options options = {0};
    const struct object *pod;
    struct write write;
    struct json *doc, *value;

    if (decode_as(call, "Eviction", &doc) < 0 || body_write(call, &write, route, NULL) < 0 ||
        check_eviction_name(call, route, doc) < 0 || !(pod = find_pod(call, route))) {
        call_fail(call);
        return;
    }
    if ((value = json_at(doc, "deleteOptions.gracePeriodSeconds"))) {
        options.has_grace = true;
        options.grace_sec = json_int(value, 0);
    }
    options.uid = json_at_string(doc, "deleteOptions.preconditions.uid");
    options.resource_version = json_at_string(doc, "deleteOptions.preconditions.resourceVersion");
    write.dry_run |= streq(json_string(json_item(json_at(doc, "deleteOptions.dryRun"), 0)), "All");
    if (!write.dry_run && !pod->deleting && as_expected(pod, &options)) {
        mark_evicted(call, pod);
        options.resource_version = NULL; /* it was this one */
    }
    if (registry_delete(call->registry, &write, route->kind, route->ns, route->name, &options, &written) < 0)
        call_fail(call);
    else
        reply_success(call, 201);
}

/* Which container is meant: the one named, or the only one. */
static int find_container(struct call *call, const struct object *pod, const struct json *doc,
                          const char **ret)
{
    static const char *const lists[] = {"spec.containers", "spec.initContainers", "spec.ephemeralContainers"};
    const char *asked = query_string(call, "container");
    CLEANUP(buf_done) struct buf names = {0};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        JSON_EACH(json_at(doc, lists[i]), it) {
            const char *name = json_get_string(it, "name");

            if (*asked && streq(asked, name)) {
                *ret = name;
                return 0;
            }
            if (i == 0)
                buf_printf(&names, "%s%s", names.len ? " " : "", name);
        }
    if (*asked)
        return failure_bad_request(&call->failure, call->arena, "container %s is not valid for pod %s", asked,
                                   pod->name);
    if (json_len(json_at(doc, "spec.containers")) != 1)
        return failure_bad_request(&call->failure, call->arena,
                                   "a container name must be specified for pod %s, choose one of: [%s]",
                                   pod->name, names.data);
    *ret = json_get_string(json_item(json_at(doc, "spec.containers"), 0), "name");
    return 0;
}

static void check_log_number(struct call *call, struct field_errors *errors, const char *name, int64_t min)
{
    const char *text = query_string(call, name);
    int64_t value;

    if (!*text)
        return;
    if (!str_to_int(str_from(text), &value))
        field_invalid(errors, name, json_new_string(call->arena, text), "%s", "must be a whole number");
    else if (value < min)
        field_invalid(errors, name, json_new_int(call->arena, value), "must be greater than %s%lld",
                      min ? "" : "or equal to ", (long long)(min ? min - 1 : 0));
}

static int check_log_options(struct call *call, const struct route *route)
{
    struct field_errors errors = {.arena = call->arena};

    check_log_number(call, &errors, "tailLines", 0);
    check_log_number(call, &errors, "limitBytes", 1);
    if (*query_string(call, "sinceSeconds") && *query_string(call, "sinceTime"))
        field_forbidden(&errors, "[]", "%s", "at most one of `sinceTime` or `sinceSeconds` may be specified");
    else
        check_log_number(call, &errors, "sinceSeconds", 1);
    return field_errors_finish(&errors, &call->failure, "", "PodLogOptions", route->name);
}

/* log, exec, attach, portforward: what can be said without the engine, then the engine's part. */
static void stream(struct call *call, const struct route *route, stream_fn begin)
{
    const struct object *pod = find_pod(call, route);
    bool log = begin == log_begin;
    const char *container = NULL;
    struct buf nothing = {0};
    struct json *doc;

    if (!pod || (log && check_log_options(call, route) < 0)) {
        call_fail(call);
        return;
    }
    doc = object_json(pod, call->arena);
    if (begin != stream_portforward && find_container(call, pod, doc, &container) < 0) {
        call_fail(call);
        return;
    }
    if (log && !json_string_or(json_at(doc, "spec.nodeName"), "")[0]) {
        call_reply(call, 204, NULL, &nothing);
        return;
    }
    if (!json_string_or(json_at(doc, "spec.nodeName"), "")[0]) {
        failure_bad_request(&call->failure, call->arena, "pod %s does not have a host assigned", pod->name);
        call_fail(call);
    } else if (!call->api->config.pod_ops) {
        failure_set(&call->failure, call->arena, 503, "ServiceUnavailable",
                    "no node agent serves the streams of pod %s", pod->name);
        call_fail(call);
    } else {
        begin(call, pod, container);
    }
}

static const struct pod_route {
    const char *name;
    void (*handle)(struct call *call, const struct route *route);
    stream_fn begin; /* instead of handle */
} pod_routes[] = {
    {"binding", pod_binding, NULL},  {"eviction", eviction, NULL},
    {"log", NULL, log_begin},        {"exec", NULL, stream_exec},
    {"attach", NULL, stream_attach}, {"portforward", NULL, stream_portforward},
};

bool pod_subresource(struct call *call, const struct route *route)
{
    if (route->kind->id != KIND_POD)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(pod_routes); i++)
        if (streq(pod_routes[i].name, route->sub->name)) {
            if (pod_routes[i].begin)
                stream(call, route, pod_routes[i].begin);
            else
                pod_routes[i].handle(call, route);
            return true;
        }
    return false;
}
