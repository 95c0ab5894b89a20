/* Both kinds of objects come from one list of groups: addresses that have the same ports. A pod's named ports
 * may differ from its neighbour's, so there can be several. */
#include "control/endpoints.h"

#include "control/service.h"
#include "control/util.h"
#include "objects/names.h"

#include <arpa/inet.h>

#define BY_PODS           "endpointslice-controller.k8s.io"
#define BY_MIRRORING      "endpointslicemirroring-controller.k8s.io"
#define BY_ENDPOINTS      "endpoint-controller"
#define SKIP_MIRROR       "endpointslice.kubernetes.io/skip-mirror"
#define HEADLESS          "service.kubernetes.io/headless"
#define OVER_CAPACITY     "endpoints.kubernetes.io/over-capacity"

#define MIRROR_GROUPS_MAX 100 /* of Endpoints that somebody made; addresses: ENDPOINTS_MAX */

/* ---- pods ---- */

static void copy_member(struct arena *arena, struct json *to, const struct json *from, const char *key)
{
    const struct json *value = json_get(from, key);

    if (value)
        json_set(arena, to, key, *json_copy(arena, value));
}

static void copy_ports(struct arena *arena, struct json *to, const struct json *from, const char *key)
{
    struct json *list = NULL;

    JSON_EACH(json_get(from, key), container)
        if (json_len(json_get(container, "ports"))) {
            if (!list)
                list = json_set_array(arena, to, key);
            copy_member(arena, json_push_object(arena, list), container, "ports");
        }
}

struct json *endpoints_digest(struct arena *arena, const struct json *pod)
{
    static const char *const of_meta[] = {"name", "namespace", "uid", "labels"};
    static const char *const of_spec[] = {"hostname", "subdomain", "nodeName"};
    const struct json *meta = json_get(pod, "metadata"), *spec = json_get(pod, "spec");
    struct json *doc = json_new_object(arena), *out = json_set_object(arena, doc, "metadata");

    for (size_t i = 0; i < ARRAY_LEN(of_meta); i++)
        copy_member(arena, out, meta, of_meta[i]);
    if (json_get(meta, "deletionTimestamp")) /* when is nothing to services */
        json_set_string(arena, out, "deletionTimestamp", "");
    out = json_set_object(arena, doc, "spec");
    for (size_t i = 0; i < ARRAY_LEN(of_spec); i++)
        copy_member(arena, out, spec, of_spec[i]);
    copy_ports(arena, out, spec, "containers");
    copy_ports(arena, out, spec, "initContainers");
    out = json_set_object(arena, doc, "status");
    copy_member(arena, out, json_get(pod, "status"), "podIP");
    if (pod_is_over(pod))
        json_set_string(arena, out, "phase", "Failed");
    if (service_pod_ready(pod)) {
        struct json *ready = json_push_object(arena, json_set_array(arena, out, "conditions"));

        json_set_string(arena, ready, "type", "Ready");
        json_set_string(arena, ready, "status", "True");
    }
    return doc;
}

static bool from_pods(const struct json *service)
{
    return json_len(json_at(service, "spec.selector")) &&
           !streq(json_at_string(service, "spec.type"), "ExternalName");
}

bool endpoints_concerns(const struct json *service, const struct json *pod)
{
    return from_pods(service) && service_selects(service, pod);
}

/* ---- groups ---- */

struct place {
    const char *ip;
    struct in6_addr order; /* of the address */
    bool ready, serving, terminating;
    bool in_endpoints;      /* else in slices only */
    const struct json *pod; /* NULL: from Endpoints */
    const struct json *address;
};

struct group {
    const struct json *ports; /* [{name, protocol, port, appProtocol}] */
    const char *type;         /* of the addresses */
    struct place *places;
    size_t len, cap;
};

struct groups {
    struct arena *arena;
    struct group *v;
    size_t len, max;
};

/* "IPv4", "IPv6"; NULL: no address. The order is by value; IPv4 before IPv6. */
static const char *address_type(const char *ip, struct in6_addr *order)
{
    *order = (struct in6_addr){0};
    if (inet_pton(AF_INET, ip, &order->s6_addr[12]) == 1)
        return "IPv4";
    return inet_pton(AF_INET6, ip, order) == 1 ? "IPv6" : NULL;
}

static void groups_add(struct groups *groups, const struct json *ports, struct place place)
{
    const char *type = address_type(place.ip, &place.order);
    struct group *group = NULL;

    if (!type)
        return;
    for (size_t i = 0; i < groups->len && !group; i++)
        if (groups->v[i].type == type && json_equal(groups->v[i].ports, ports))
            group = &groups->v[i];
    if (!group && groups->len == groups->max)
        return;
    if (!group) {
        group = &groups->v[groups->len++];
        *group = (struct group){.ports = ports, .type = type};
    }
    if (group->len == group->cap) {
        struct place *more;

        group->cap = group->cap ? 2 * group->cap : 4;
        more = arena_alloc(groups->arena, group->cap * sizeof(*more));
        if (group->len)
            memcpy(more, group->places, group->len * sizeof(*more));
        group->places = more;
    }
    group->places[group->len++] = place;
}

static struct groups groups_new(struct arena *arena, size_t max)
{
    return (struct groups){arena, arena_alloc(arena, (max + 1) * sizeof(struct group)), 0, max};
}

static int by_order(const void *a, const void *b)
{
    const struct place *left = a, *right = b;
    int order = memcmp(&left->order, &right->order, sizeof(left->order));

    if (order)
        return order;
    return strcmp(json_string_or(json_at(left->pod, "metadata.name"), ""),
                  json_string_or(json_at(right->pod, "metadata.name"), ""));
}

static const struct json *ports_of(struct arena *arena, const struct json *service, const struct json *pod)
{
    struct json *list = json_new_array(arena);

    JSON_EACH(json_at(service, "spec.ports"), port) {
        uint16_t number = service_target_port(port, pod);
        struct json *out;

        if (!number)
            continue;
        out = json_push_object(arena, list);
        json_set_string(arena, out, "name", json_string_or(json_get(port, "name"), ""));
        json_set_string(arena, out, "protocol", json_string_or(json_get(port, "protocol"), "TCP"));
        json_set_int(arena, out, "port", number);
        copy_member(arena, out, port, "appProtocol");
    }
    return list;
}

static struct groups groups_of_pods(const struct endpoints_view *view, const struct json *service,
                                    struct arena *arena)
{
    bool anyway = json_bool(json_at(service, "spec.publishNotReadyAddresses"));
    size_t wanted = json_len(json_at(service, "spec.ports"));
    struct groups groups = groups_new(arena, view->pod_count); /* each could be one of its own */

    for (size_t i = 0; i < view->pod_count; i++) {
        const struct json *pod = view->pods[i], *ports;
        struct place place = {.ip = json_string_or(json_at(pod, "status.podIP"), ""), .pod = pod};

        if (!*place.ip || pod_is_over(pod) || !service_selects(service, pod))
            continue;
        place.serving = service_pod_ready(pod);
        place.terminating = json_at(pod, "metadata.deletionTimestamp") != NULL;
        place.ready = anyway || (place.serving && !place.terminating);
        ports = ports_of(arena, service, pod);
        place.in_endpoints = (anyway || !place.terminating) && (json_len(ports) || !wanted);
        groups_add(&groups, ports, place);
    }
    for (size_t i = 0; i < groups.len; i++)
        qsort(groups.v[i].places, groups.v[i].len, sizeof(struct place), by_order);
    return groups;
}

/* Of Endpoints that somebody made. */
static struct groups groups_of_endpoints(const struct json *endpoints, struct arena *arena)
{
    static const char *const lists[] = {"addresses", "notReadyAddresses"};
    struct groups groups = groups_new(arena, MIRROR_GROUPS_MAX);
    size_t left = ENDPOINTS_MAX;

    JSON_EACH(json_get(endpoints, "subsets"), subset) {
        struct json *ports = json_len(json_get(subset, "ports")) ? json_copy(arena, json_get(subset, "ports"))
                                                                 : json_new_array(arena);

        JSON_EACH(ports, port)
            if (!json_get(port, "name"))
                json_set_string(arena, port, "name", "");
        for (size_t i = 0; i < ARRAY_LEN(lists); i++)
            JSON_EACH(json_get(subset, lists[i]), address)
                if (left && left--)
                    groups_add(&groups, ports,
                               (struct place){.ip = json_string_or(json_get(address, "ip"), ""),
                                              .ready = i == 0,
                                              .address = address});
    }
    return groups;
}

/* ---- Endpoints ---- */

static void set_pod_ref(struct arena *arena, struct json *out, const struct json *service,
                        const struct json *pod)
{
    static const char *const keys[] = {"namespace", "name", "uid"};
    const char *host = json_at_string(pod, "spec.hostname");
    struct json *ref;

    if (host && *host &&
        streq(json_at_string(pod, "spec.subdomain"), json_at_string(service, "metadata.name")))
        json_set_string(arena, out, "hostname", host);
    copy_member(arena, out, json_get(pod, "spec"), "nodeName");
    ref = json_set_object(arena, out, "targetRef");
    json_set_string(arena, ref, "kind", "Pod");
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        copy_member(arena, ref, json_get(pod, "metadata"), keys[i]);
}

static void add_addresses(struct arena *arena, struct json *subset, const char *key, bool ready,
                          const struct group *group, const struct json *service, size_t *left)
{
    struct json *list = NULL;

    for (size_t i = 0; i < group->len; i++) {
        const struct place *place = &group->places[i];
        struct json *out;

        if (!place->in_endpoints || place->ready != ready || !*left)
            continue;
        --*left;
        if (!list)
            list = json_set_array(arena, subset, key);
        out = json_push_object(arena, list);
        json_set_string(arena, out, "ip", place->ip);
        set_pod_ref(arena, out, service, place->pod);
    }
}

static struct json *subsets_of(struct arena *arena, const struct groups *groups, const struct json *service,
                               bool *all)
{
    struct json *subsets = json_new_array(arena);
    size_t left = ENDPOINTS_MAX, wanted = 0;

    for (size_t i = 0; i < groups->len; i++) {
        const struct group *group = &groups->v[i];
        struct json *subset = json_new_object(arena), *ports;

        for (size_t k = 0; k < group->len; k++)
            wanted += group->places[k].in_endpoints;
        add_addresses(arena, subset, "addresses", true, group, service, &left);
        add_addresses(arena, subset, "notReadyAddresses", false, group, service, &left);
        if (!json_len(subset))
            continue;
        if (json_len(group->ports)) {
            ports = json_set(arena, subset, "ports", *json_copy(arena, group->ports));
            JSON_EACH(ports, port)
                if (!json_string_or(json_get(port, "name"), "")[0])
                    json_remove(port, "name");
        }
        json_push(arena, subsets, *subset);
    }
    *all = wanted <= ENDPOINTS_MAX;
    return subsets;
}

/* The service's own labels, and what the headless ones have. */
static struct json *labels_of(struct arena *arena, const struct json *service)
{
    struct json *labels = json_copy(arena, json_at(service, "metadata.labels"));

    if (!json_is(labels, JSON_OBJECT))
        labels = json_new_object(arena);
    json_remove(labels, HEADLESS);
    if (service_is_headless(service))
        json_set_string(arena, labels, HEADLESS, "");
    return labels;
}

static void set_over_capacity(struct arena *arena, struct json *meta, bool all)
{
    struct json *notes = json_get(meta, "annotations");

    if (!all)
        json_set_string(arena, json_need_object(arena, meta, "annotations"), OVER_CAPACITY, "truncated");
    else if (json_remove(notes, OVER_CAPACITY) && !json_len(notes))
        json_remove(meta, "annotations");
}

static void write_endpoints(const struct endpoints_view *view, const struct json *service,
                            const struct groups *groups, struct effects *effects)
{
    struct arena *arena = effects->arena;
    const struct json *before = view->endpoints ? object_json(view->endpoints, arena) : NULL;
    struct json *doc = before ? json_copy(arena, before) : json_new_object(arena), *labels, *subsets;
    struct json *meta = json_need_object(arena, doc, "metadata");
    bool all;

    json_set_string(arena, meta, "name", view->service->name);
    labels = labels_of(arena, service);
    json_set_string(arena, labels, ENDPOINTS_MANAGED, BY_ENDPOINTS);
    json_set(arena, meta, "labels", *labels);
    subsets = subsets_of(arena, groups, service, &all);
    set_over_capacity(arena, meta, all);
    if (json_len(subsets))
        json_set(arena, doc, "subsets", *subsets);
    else
        json_remove(doc, "subsets");
    if (!before)
        effect_create(effects, kind_by_id(KIND_ENDPOINTS), view->service->ns, doc);
    else if (!json_equal(doc, before))
        effect_update(effects, view->endpoints, doc);
}

/* ---- slices ---- */

static void add_endpoint(struct arena *arena, struct json *list, const struct place *place,
                         const struct json *service)
{
    static const char *const keys[] = {"hostname", "nodeName", "targetRef"};
    struct json *out = json_push_object(arena, list), *conditions;

    json_push_string(arena, json_set_array(arena, out, "addresses"), place->ip);
    conditions = json_set_object(arena, out, "conditions");
    json_set_bool(arena, conditions, "ready", place->ready);
    if (!place->pod) {
        for (size_t i = 0; i < ARRAY_LEN(keys); i++)
            copy_member(arena, out, place->address, keys[i]);
        return;
    }
    json_set_bool(arena, conditions, "serving", place->serving);
    json_set_bool(arena, conditions, "terminating", place->terminating);
    set_pod_ref(arena, out, service, place->pod);
}

/* What a slice should say beside its name. */
struct slice {
    const char *type;
    struct json *ports, *endpoints;
};

static void set_owner(struct arena *arena, struct json *meta, const struct object *service)
{
    struct json *owner = json_push_object(arena, json_set_array(arena, meta, "ownerReferences"));

    json_set_string(arena, owner, "apiVersion", "v1");
    json_set_string(arena, owner, "kind", "Service");
    json_set_string(arena, owner, "name", service->name);
    json_set_string(arena, owner, "uid", service->uid);
    json_set_bool(arena, owner, "controller", true);
    json_set_bool(arena, owner, "blockOwnerDeletion", true);
}

static void fill_slice(struct arena *arena, struct json *doc, const struct slice *slice,
                       const struct json *labels)
{
    json_set(arena, json_need_object(arena, doc, "metadata"), "labels", *json_copy(arena, labels));
    json_set_string(arena, doc, "addressType", slice->type);
    json_set(arena, doc, "endpoints", *slice->endpoints);
    if (json_len(slice->ports))
        json_set(arena, doc, "ports", *slice->ports);
    else
        json_remove(doc, "ports");
}

struct old_slice {
    const struct object *object;
    struct json *doc;
    bool used;
};

/* One with the same ports, else (on the second round) any. */
static struct old_slice *find_old(struct old_slice *old, size_t len, const struct slice *slice,
                                  const char *by)
{
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < len; i++) {
            const struct json *doc = old[i].doc, *ports = json_get(doc, "ports");

            if (!old[i].used && streq(json_get_string(doc, "addressType"), slice->type) &&
                streq(json_get_string(json_at(doc, "metadata.labels"), SLICE_MANAGED), by) &&
                (round > 0 || (json_len(ports) == json_len(slice->ports) &&
                               (!json_len(ports) || json_equal(ports, slice->ports)))))
                return &old[i];
        }
    return NULL;
}

static void write_slice(const struct endpoints_view *view, const struct slice *slice,
                        const struct json *labels, struct old_slice *old, struct effects *effects)
{
    struct arena *arena = effects->arena;
    struct json *doc = old ? json_copy(arena, old->doc) : json_new_object(arena), *meta;
    const char *base;

    fill_slice(arena, doc, slice, labels);
    if (old) {
        old->used = true;
        if (!json_equal(doc, old->doc))
            effect_update(effects, old->object, doc);
        return;
    }
    meta = json_get(doc, "metadata");
    base = arena_printf(arena, "%s-", view->service->name);
    json_set_string(arena, meta, "generateName", base);
    set_owner(arena, meta, view->service);
    effect_create(effects, kind_by_id(KIND_ENDPOINT_SLICE), view->service->ns, doc);
}

/* Ours: slices of others may belong to the service, too. */
static struct old_slice *read_old(const struct endpoints_view *view, struct arena *arena, size_t *len)
{
    struct old_slice *old = arena_alloc(arena, (view->slice_count + 1) * sizeof(*old));

    *len = 0;
    for (size_t i = 0; i < view->slice_count; i++) {
        struct json *doc = object_json(view->slices[i], arena);
        const char *by = json_get_string(json_at(doc, "metadata.labels"), SLICE_MANAGED);

        if (!view->slices[i]->deleting && (streq(by, BY_PODS) || streq(by, BY_MIRRORING)))
            old[(*len)++] = (struct old_slice){view->slices[i], doc, false};
    }
    return old;
}

/* by NULL: there are to be none. */
static void write_slices(const struct endpoints_view *view, const struct json *service,
                         const struct groups *groups, const char *by, struct effects *effects)
{
    struct arena *arena = effects->arena;
    struct json *labels = labels_of(arena, service);
    struct slice slice = {.type = "IPv4", .ports = json_new_array(arena)};
    size_t old_len;
    struct old_slice *old = read_old(view, arena, &old_len);

    json_set_string(arena, labels, SLICE_SERVICE, view->service->name);
    json_set_string(arena, labels, SLICE_MANAGED, by ? by : "");
    for (size_t i = 0; i < groups->len; i++)
        for (size_t at = 0; at < groups->v[i].len; at += ENDPOINTS_SLICE_MAX) {
            const struct group *group = &groups->v[i];

            slice = (struct slice){group->type, json_copy(arena, group->ports), json_new_array(arena)};
            for (size_t k = at; k < group->len && k < at + ENDPOINTS_SLICE_MAX; k++)
                add_endpoint(arena, slice.endpoints, &group->places[k], service);
            write_slice(view, &slice, labels, find_old(old, old_len, &slice, by), effects);
        }
    if (!groups->len && by && streq(by, BY_PODS)) { /* one that says there is nobody */
        slice.endpoints = json_new_array(arena);
        write_slice(view, &slice, labels, find_old(old, old_len, &slice, by), effects);
    }
    for (size_t i = 0; i < old_len; i++)
        if (!old[i].used)
            effect_delete(effects, old[i].object);
}

/* ---- all ---- */

static bool is_ours(const struct json *endpoints)
{
    return streq(json_get_string(json_at(endpoints, "metadata.labels"), ENDPOINTS_MANAGED), BY_ENDPOINTS);
}

static bool mirrored(const struct json *endpoints)
{
    return endpoints && !streq(json_get_string(json_at(endpoints, "metadata.labels"), SKIP_MIRROR), "true");
}

void endpoints_look(const struct endpoints_view *view, struct effects *effects)
{
    struct arena *arena = effects->arena;
    const struct json *service = object_json(view->service, arena);
    const struct json *endpoints = view->endpoints ? object_json(view->endpoints, arena) : NULL;
    struct groups groups = {0};

    if (view->service->deleting)
        return;
    if (from_pods(service)) {
        groups = groups_of_pods(view, service, arena);
        write_endpoints(view, service, &groups, effects);
        write_slices(view, service, &groups, BY_PODS, effects);
    } else if (streq(json_at_string(service, "spec.type"), "ExternalName")) {
        if (endpoints && is_ours(endpoints))
            effect_delete(effects, view->endpoints);
        write_slices(view, service, &groups, NULL, effects);
    } else {
        if (mirrored(endpoints))
            groups = groups_of_endpoints(endpoints, arena);
        write_slices(view, service, &groups, BY_MIRRORING, effects);
    }
}
