/* metrics.k8s.io: what pods and nodes use now, as the engine measures it. Nothing of it is stored. */
#include "api/kube/kube.h"
#include "base/clock.h"
#include "engine/pod_ops.h"

static void set_usage(struct arena *arena, struct json *out, const struct pod_usage *usage)
{
    struct json *amounts = json_set_object(arena, out, "usage");

    json_set_string(arena, amounts, "cpu",
                    arena_printf(arena, "%llun", (unsigned long long)usage->cpu_nanos));
    json_set_string(arena, amounts, "memory",
                    arena_printf(arena, "%lluKi", (unsigned long long)(usage->memory_bytes >> 10)));
}

static void set_window(struct arena *arena, struct json *item, const struct pod_usage *usage)
{
    char time[CLOCK_TEXT_MAX];

    json_set_string(arena, item, "timestamp", clock_format(usage->end, time));
    json_set_string(arena, item, "window",
                    arena_printf(arena, "%.3fs", (double)usage->window_ns / (double)NSEC_PER_SEC));
}

static struct json *item_new(struct call *call, const struct route *route, const struct object *object)
{
    const struct json *labels = json_at(object_json(object, call->arena), "metadata.labels");
    struct json *item = json_new_object(call->arena), *meta;
    char time[CLOCK_TEXT_MAX];

    json_set_string(call->arena, item, "kind", route->kind->name);
    json_set_string(call->arena, item, "apiVersion", kind_api_version(route->kind));
    meta = json_set_object(call->arena, item, "metadata");
    json_set_string(call->arena, meta, "name", object->name);
    if (route->kind->namespaced)
        json_set_string(call->arena, meta, "namespace", object->ns);
    json_set_string(call->arena, meta, "creationTimestamp", clock_format(call->now, time));
    if (labels)
        json_set(call->arena, meta, "labels", *labels);
    return item;
}

struct adding {
    struct arena *arena;
    struct json *item, *containers;
};

static void add_container(void *arg, const struct pod_usage *usage)
{
    struct adding *adding = arg;
    struct json *out;

    if (!adding->containers) {
        set_window(adding->arena, adding->item, usage);
        adding->containers = json_set_array(adding->arena, adding->item, "containers");
    }
    out = json_push_object(adding->arena, adding->containers);
    json_set_string(adding->arena, out, "name", usage->container);
    set_usage(adding->arena, out, usage);
}

/* NULL: there are no figures. */
static struct json *measure(struct call *call, const struct route *route, const struct object *object)
{
    const struct pod_ops *ops = call->api->config.pod_ops;
    struct json *item = item_new(call, route, object);
    struct adding adding = {call->arena, item, NULL};
    struct pod_usage usage;

    if (route->kind->id == KIND_POD_METRICS) {
        const struct pod_ref ref = {object->ns, object->name, object->uid};

        if (ops && ops->usage)
            ops->usage(ops->arg, &ref, add_container, &adding);
        return adding.containers ? item : NULL;
    }
    if (!ops || !ops->node_usage || !ops->node_usage(ops->arg, object->name, &usage))
        return NULL;
    set_window(call->arena, item, &usage);
    set_usage(call->arena, item, &usage);
    return item;
}

static void reply_one(struct call *call, const struct route *route, int kind)
{
    const struct object *object = store_get(call->store, kind, route->ns, route->name);
    const struct json *item = object ? measure(call, route, object) : NULL;

    if (item) {
        call_reply_json(call, 200, item);
        return;
    }
    failure_not_found(&call->failure, call->arena, route->kind->group, route->kind->plural,
                      *route->ns ? arena_printf(call->arena, "%s/%s", route->ns, route->name) : route->name);
    call_fail(call);
}

void metrics_handle(struct call *call, const struct route *route)
{
    int kind = route->kind->id == KIND_POD_METRICS ? KIND_POD : KIND_NODE;
    struct route of = *route;
    struct json *doc, *items;
    struct selector *selector;

    if (*route->name) {
        reply_one(call, route, kind);
        return;
    }
    of.kind = kind_by_id(kind);
    if (list_selector(call, &of, &selector) < 0) {
        call_fail(call);
        return;
    }
    doc = json_new_object(call->arena);
    json_set_string(call->arena, doc, "kind", arena_printf(call->arena, "%sList", route->kind->name));
    json_set_string(call->arena, doc, "apiVersion", kind_api_version(route->kind));
    json_set_object(call->arena, doc, "metadata");
    items = json_set_array(call->arena, doc, "items");
    OBJECTS_EACH(store_list(call->store, kind, *route->ns ? route->ns : NULL), it) {
        const struct json *item = selector_matches(selector, *it) ? measure(call, route, *it) : NULL;

        if (item)
            json_push(call->arena, items, *item);
    }
    call_reply_json(call, 200, doc);
}
