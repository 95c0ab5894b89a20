/* Defaults of every kind but pods, and what the server itself writes into new objects of these kinds. */
#include "base/clock.h"
#include "objects/rules.h"

/* ---- jobs ---- */

void defaults_job(const struct rule_ctx *ctx, struct json *doc)
{
    struct arena *arena = ctx->arena;
    struct json *spec = json_need_object(arena, doc, "spec"), *template, *policy;

    if (!spec)
        return;
    if (!json_get(spec, "completions") && !json_get(spec, "parallelism"))
        json_set_int(arena, spec, "completions", 1);
    default_int(arena, spec, "parallelism", 1);
    default_int(arena, spec, "backoffLimit", json_get(spec, "backoffLimitPerIndex") ? INT32_MAX : 6);
    default_string(arena, spec, "completionMode", "NonIndexed");
    default_bool(arena, spec, "suspend", false);
    default_bool(arena, spec, "manualSelector", false);
    policy = json_get(spec, "podFailurePolicy");
    JSON_EACH(json_get(policy, "rules"), rule)
        JSON_EACH(json_get(rule, "onPodConditions"), pattern)
            default_string(arena, pattern, "status", "True");
    default_string(arena, spec, "podReplacementPolicy", policy ? "Failed" : "TerminatingOrFailed");
    template = json_need_object(arena, spec, "template");
    if (!template)
        return;
    json_need_object(arena, template, "metadata");
    defaults_pod_spec(arena, json_need_object(arena, template, "spec"));
}

/* A job's pods carry its uid and name, under the names of today and those of the past. */
static void generate_selector(struct arena *arena, struct json *doc)
{
    const char *uid = json_string_or(json_at(doc, "metadata.uid"), "");
    const char *name = json_string_or(json_at(doc, "metadata.name"), "");
    struct json *spec = json_get(doc, "spec"), *metadata, *labels, *selector, *match;

    metadata = json_need_object(arena, json_get(spec, "template"), "metadata");
    labels = metadata ? json_need_object(arena, metadata, "labels") : NULL;
    if (labels) {
        default_string(arena, labels, "batch.kubernetes.io/controller-uid", uid);
        default_string(arena, labels, "batch.kubernetes.io/job-name", name);
        default_string(arena, labels, "controller-uid", uid);
        default_string(arena, labels, "job-name", name);
    }
    selector = json_need_object(arena, spec, "selector");
    match = selector ? json_need_object(arena, selector, "matchLabels") : NULL;
    if (match && !json_get(match, "batch.kubernetes.io/controller-uid"))
        json_set_string(arena, match, "batch.kubernetes.io/controller-uid", uid);
}

/* The labels made here reach the job itself only with its next reading, so nothing is said of them there. */
static bool labels_are_valid(const struct json *labels)
{
    const char *msgs[RULE_MSGS_MAX];

    JSON_EACH_MEMBER(labels, label)
        if (rule_qualified_name((struct str){label->key, label->key_len}, msgs) ||
            rule_label_value(json_str(&label->value), msgs))
            return false;
    return true;
}

void prepare_job(const struct rule_ctx *ctx, struct json *doc, const struct json *old)
{
    struct json *spec = json_get(doc, "spec"), *metadata = json_get(doc, "metadata");
    const struct json *labels = json_at(doc, "spec.template.metadata.labels");
    bool given = json_len(labels) > 0;

    if (!json_is(json_get(spec, "template"), JSON_OBJECT))
        return;
    if (!old && !json_bool(json_get(spec, "manualSelector")))
        generate_selector(ctx->arena, doc);
    labels = json_at(doc, "spec.template.metadata.labels");
    if (json_is(metadata, JSON_OBJECT) && !json_len(json_get(metadata, "labels")) && json_len(labels) &&
        (given || labels_are_valid(labels)))
        json_set(ctx->arena, metadata, "labels", *json_copy(ctx->arena, labels));
}

/* ---- namespaces, nodes, secrets ---- */

void defaults_namespace(const struct rule_ctx *ctx, struct json *doc)
{
    struct json *metadata = json_get(doc, "metadata"), *labels;
    const char *name = json_get_string(metadata, "name");

    if (!name || !*name)
        return;
    labels = json_need_object(ctx->arena, metadata, "labels");
    if (labels)
        json_set_string(ctx->arena, labels, "kubernetes.io/metadata.name", name);
}

void prepare_namespace(const struct rule_ctx *ctx, struct json *doc, const struct json *old)
{
    struct json *spec = json_need_object(ctx->arena, doc, "spec"), *finalizers;
    const struct json *kept = json_at(old, "spec.finalizers");

    if (!spec)
        return;
    if (old && kept) {
        json_set(ctx->arena, spec, "finalizers", *json_copy(ctx->arena, kept));
        return;
    }
    if (old) {
        json_remove(spec, "finalizers");
        return;
    }
    json_set_string(ctx->arena, json_set_object(ctx->arena, doc, "status"), "phase", "Active");
    spec = json_get(doc, "spec");
    finalizers = json_get(spec, "finalizers");
    JSON_EACH(finalizers, finalizer)
        if (streq(json_string(finalizer), "kubernetes"))
            return;
    if (!json_is(finalizers, JSON_ARRAY))
        finalizers = json_set_array(ctx->arena, spec, "finalizers");
    json_push_string(ctx->arena, finalizers, "kubernetes");
}

void defaults_node(const struct rule_ctx *ctx, struct json *doc)
{
    static const char *const info_keys[] = {"machineID",      "systemUUID",       "bootID",
                                            "kernelVersion",  "osImage",          "containerRuntimeVersion",
                                            "kubeletVersion", "kubeProxyVersion", "operatingSystem",
                                            "architecture"};
    struct json *status = json_get(doc, "status"), *info, *endpoints;
    struct json *capacity = json_get(status, "capacity");

    json_need_object(ctx->arena, doc, "spec");
    status = json_get(doc, "status");
    default_quantities(ctx->arena, capacity);
    default_quantities(ctx->arena, json_get(status, "allocatable"));
    if (json_is(capacity, JSON_OBJECT) && !json_get(status, "allocatable"))
        json_set(ctx->arena, status, "allocatable", *json_copy(ctx->arena, capacity));
    status = json_need_object(ctx->arena, doc, "status");
    info = status ? json_need_object(ctx->arena, status, "nodeInfo") : NULL;
    for (size_t i = 0; info && i < ARRAY_LEN(info_keys); i++)
        if (!json_get(info, info_keys[i]))
            json_set_string(ctx->arena, info, info_keys[i], "");
    endpoints = status ? json_need_object(ctx->arena, status, "daemonEndpoints") : NULL;
    endpoints = endpoints ? json_need_object(ctx->arena, endpoints, "kubeletEndpoint") : NULL;
    if (endpoints)
        default_int(ctx->arena, endpoints, "Port", 0);
}

/* stringData is a way to write data without base64; only data is kept. */
void defaults_secret(const struct rule_ctx *ctx, struct json *doc)
{
    const struct json *plain = json_copy(ctx->arena, json_get(doc, "stringData"));
    struct json *data;

    default_string(ctx->arena, doc, "type", "Opaque");
    if (!plain)
        return;
    json_remove(doc, "stringData");
    data = json_len(plain) ? json_need_object(ctx->arena, doc, "data") : NULL;
    if (!data)
        return;
    JSON_EACH_MEMBER(plain, member) {
        CLEANUP(buf_done) struct buf text = {0};

        buf_base64(&text, json_str(&member->value));
        json_set_str(ctx->arena, data, (struct str){member->key, member->key_len},
                     json_of_str(ctx->arena, buf_view(&text)));
    }
}

/* ---- storage ---- */

void defaults_pvc(const struct rule_ctx *ctx, struct json *doc)
{
    struct json *spec = json_need_object(ctx->arena, doc, "spec");

    if (!spec)
        return;
    default_string(ctx->arena, spec, "volumeMode", "Filesystem");
    default_quantities(ctx->arena, json_at(spec, "resources.requests"));
    default_quantities(ctx->arena, json_at(spec, "resources.limits"));
}

void prepare_pvc(const struct rule_ctx *ctx, struct json *doc, const struct json *old)
{
    if (!old)
        json_set_string(ctx->arena, json_set_object(ctx->arena, doc, "status"), "phase", "Pending");
}

void defaults_pv(const struct rule_ctx *ctx, struct json *doc)
{
    struct json *spec = json_need_object(ctx->arena, doc, "spec"), *host_path;

    if (!spec)
        return;
    default_string(ctx->arena, spec, "persistentVolumeReclaimPolicy", "Retain");
    default_string(ctx->arena, spec, "volumeMode", "Filesystem");
    default_quantities(ctx->arena, json_get(spec, "capacity"));
    host_path = json_get(spec, "hostPath");
    if (json_is(host_path, JSON_OBJECT) && !json_get(host_path, "type"))
        json_set_string(ctx->arena, host_path, "type", "");
}

void prepare_pv(const struct rule_ctx *ctx, struct json *doc, const struct json *old)
{
    char now[CLOCK_TEXT_MAX];
    struct json *status;

    if (old)
        return;
    status = json_set_object(ctx->arena, doc, "status");
    json_set_string(ctx->arena, status, "phase", "Pending");
    json_set_string(ctx->arena, status, "lastPhaseTransitionTime", clock_format(ctx->now, now));
}

void defaults_storage_class(const struct rule_ctx *ctx, struct json *doc)
{
    default_string(ctx->arena, doc, "reclaimPolicy", "Delete");
    default_string(ctx->arena, doc, "volumeBindingMode", "Immediate");
}

/* ---- limits, quota ---- */

static void defaults_limit_item(struct arena *arena, struct json *item)
{
    static const char *const lists[] = {"max", "min", "default", "defaultRequest", "maxLimitRequestRatio"};
    struct json *limits, *requests;

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        default_quantities(arena, json_get(item, lists[i]));
    if (!streq(json_get_string(item, "type"), "Container"))
        return;
    limits = json_need_object(arena, item, "default");
    if (!limits)
        return;
    default_quantities_missing(arena, limits, json_get(item, "max"));
    requests = json_need_object(arena, item, "defaultRequest");
    if (!requests)
        return;
    default_quantities_missing(arena, requests, json_get(item, "default"));
    default_quantities_missing(arena, requests, json_get(item, "min"));
    if (!json_len(json_get(item, "default")))
        json_remove(item, "default");
    if (!json_len(json_get(item, "defaultRequest")))
        json_remove(item, "defaultRequest");
}

void defaults_limit_range(const struct rule_ctx *ctx, struct json *doc)
{
    JSON_EACH(json_at(doc, "spec.limits"), item)
        if (json_is(item, JSON_OBJECT))
            defaults_limit_item(ctx->arena, item);
}

void defaults_resource_quota(const struct rule_ctx *ctx, struct json *doc)
{
    default_quantities(ctx->arena, json_at(doc, "spec.hard"));
}

/* ---- events, services, priority classes ---- */

void defaults_event(const struct rule_ctx *ctx, struct json *doc)
{
    json_need_object(ctx->arena, doc, "source");
    if (!json_get(doc, "reportingComponent"))
        json_set_string(ctx->arena, doc, "reportingComponent", "");
    if (!json_get(doc, "reportingInstance"))
        json_set_string(ctx->arena, doc, "reportingInstance", "");
}

static void defaults_session_affinity(struct arena *arena, struct json *spec)
{
    struct json *config;

    default_string(arena, spec, "sessionAffinity", "None");
    if (!streq(json_get_string(spec, "sessionAffinity"), "ClientIP")) {
        json_remove(spec, "sessionAffinityConfig");
        return;
    }
    if (json_at(spec, "sessionAffinityConfig.clientIP.timeoutSeconds"))
        return;
    config = json_set_object(arena, spec, "sessionAffinityConfig");
    json_set_int(arena, json_set_object(arena, config, "clientIP"), "timeoutSeconds", 3 * 3600);
}

void defaults_service(const struct rule_ctx *ctx, struct json *doc)
{
    struct arena *arena = ctx->arena;
    struct json *spec = json_need_object(arena, doc, "spec");
    const char *type;
    bool external;

    if (!spec)
        return;
    defaults_session_affinity(arena, spec);
    default_string(arena, spec, "type", "ClusterIP");
    type = json_get_string(spec, "type");
    JSON_EACH(json_get(spec, "ports"), port) {
        const struct json *target = json_get(port, "targetPort");

        if (!json_is(port, JSON_OBJECT))
            continue;
        default_string(arena, port, "protocol", "TCP");
        if (!target || (target->type == JSON_STRING && !target->len) ||
            (target->type == JSON_INT && !target->integer))
            json_set_int(arena, port, "targetPort", json_int(json_get(port, "port"), 0));
    }
    external = streq(type, "LoadBalancer") || streq(type, "NodePort") ||
               (streq(type, "ClusterIP") && json_len(json_get(spec, "externalIPs")));
    if (external)
        default_string(arena, spec, "externalTrafficPolicy", "Cluster");
    if (!streq(type, "ExternalName"))
        default_string(arena, spec, "internalTrafficPolicy", "Cluster");
    if (streq(type, "LoadBalancer"))
        default_bool(arena, spec, "allocateLoadBalancerNodePorts", true);
}

static bool has_node_ports(const struct json *spec)
{
    return streq(json_get_string(spec, "type"), "NodePort") ||
           streq(json_get_string(spec, "type"), "LoadBalancer");
}

/* Goes, unless the writer says something new about it. */
static void drop_same(struct json *spec, const struct json *old, const char *const *keys)
{
    for (; *keys; keys++)
        if (json_equal(json_get(spec, *keys), json_get(old, *keys)))
            json_remove(spec, *keys);
}

/* A service that becomes one of another type gives up what the new type does not have. */
static void drop_for_type(struct json *spec, const struct json *old)
{
    static const char *const inside[] = {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", NULL};
    static const char *const outside[] = {"externalTrafficPolicy", "healthCheckNodePort", NULL};
    static const char *const balancer[] = {"allocateLoadBalancerNodePorts", "loadBalancerClass", NULL};

    if (streq(json_get_string(spec, "type"), "ExternalName") &&
        !streq(json_get_string(old, "type"), "ExternalName"))
        drop_same(spec, old, inside);
    if (streq(json_get_string(old, "type"), "LoadBalancer") &&
        !streq(json_get_string(spec, "type"), "LoadBalancer"))
        drop_same(spec, old, balancer);
    if (has_node_ports(spec) || !has_node_ports(old))
        return;
    if (!json_len(json_get(spec, "externalIPs")))
        drop_same(spec, old, outside);
    JSON_EACH(json_get(spec, "ports"), port)
        JSON_EACH(json_get(old, "ports"), old_port)
            if (json_get(port, "nodePort") &&
                json_equal(json_get(port, "nodePort"), json_get(old_port, "nodePort")))
                json_remove(port, "nodePort");
}

/* An update that leaves out what the server once chose means to keep it. */
static void keep_allocated(struct arena *arena, struct json *spec, const struct json *old)
{
    static const char *const keys[] = {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"};

    drop_for_type(spec, old);
    if (streq(json_get_string(spec, "type"), "ExternalName") ||
        streq(json_get_string(old, "type"), "ExternalName"))
        return;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (!json_get(spec, keys[i]) && json_get(old, keys[i]))
            json_set(arena, spec, keys[i], *json_copy(arena, json_get(old, keys[i])));
    if (streq(json_get_string(spec, "type"), "ClusterIP"))
        return;
    JSON_EACH(json_get(spec, "ports"), port)
        JSON_EACH(json_get(old, "ports"), old_port)
            if (!json_int(json_get(port, "nodePort"), 0) && json_get(old_port, "nodePort") &&
                json_equal(json_get(port, "port"), json_get(old_port, "port")) &&
                json_equal(json_get(port, "protocol"), json_get(old_port, "protocol")))
                json_set(arena, port, "nodePort", *json_get(old_port, "nodePort"));
}

/* clusterIP is the first of clusterIPs; who changes the one need not know of the other. */
static bool changed_alone(const struct json *spec, const struct json *old)
{
    return old && !json_equal(json_get(spec, "clusterIP"), json_get(old, "clusterIP")) &&
           json_equal(json_get(spec, "clusterIPs"), json_get(old, "clusterIPs"));
}

void prepare_service(const struct rule_ctx *ctx, struct json *doc, const struct json *old)
{
    struct json *spec = json_get(doc, "spec");
    const char *ip;

    if (!json_is(spec, JSON_OBJECT))
        return;
    if (!old) {
        json_set_object(ctx->arena, json_set_object(ctx->arena, doc, "status"), "loadBalancer");
        spec = json_get(doc, "spec");
    } else {
        keep_allocated(ctx->arena, spec, json_get(old, "spec"));
    }
    ip = json_get_string(spec, "clusterIP");
    if (ip && *ip && (!json_len(json_get(spec, "clusterIPs")) || changed_alone(spec, json_get(old, "spec"))))
        json_push_string(ctx->arena, json_set_array(ctx->arena, spec, "clusterIPs"), ip);
    if (streq(json_get_string(spec, "type"), "ExternalName"))
        return;
    if (!json_len(json_get(spec, "ipFamilies")))
        json_push_string(ctx->arena, json_set_array(ctx->arena, spec, "ipFamilies"),
                         ip && strchr(ip, ':') ? "IPv6" : "IPv4");
    default_string(ctx->arena, spec, "ipFamilyPolicy", "SingleStack");
}

void defaults_endpoints(const struct rule_ctx *ctx, struct json *doc)
{
    JSON_EACH(json_get(doc, "subsets"), subset)
        JSON_EACH(json_get(subset, "ports"), port)
            if (json_is(port, JSON_OBJECT))
                default_string(ctx->arena, port, "protocol", "TCP");
}

void defaults_endpoint_slice(const struct rule_ctx *ctx, struct json *doc)
{
    JSON_EACH(json_get(doc, "endpoints"), endpoint)
        if (json_is(endpoint, JSON_OBJECT))
            json_need_object(ctx->arena, endpoint, "conditions");
    JSON_EACH(json_get(doc, "ports"), port) {
        if (!json_is(port, JSON_OBJECT))
            continue;
        if (!json_present(json_get(port, "name")))
            json_set_string(ctx->arena, port, "name", "");
        if (!json_present(json_get(port, "protocol")))
            json_set_string(ctx->arena, port, "protocol", "TCP");
    }
}

/* Which of several candidates leads is not something we coordinate: the fields for it are off, as they are in
 * Kubernetes by default. */
void defaults_lease(const struct rule_ctx *ctx, struct json *doc)
{
    struct json *spec = json_need_object(ctx->arena, doc, "spec");

    if (!spec)
        return;
    json_remove(spec, "strategy");
    json_remove(spec, "preferredHolder");
}

void defaults_priority_class(const struct rule_ctx *ctx, struct json *doc)
{
    default_int(ctx->arena, doc, "value", 0);
    default_string(ctx->arena, doc, "preemptionPolicy", "PreemptLowerPriority");
}

/* ---- our own kinds ---- */

void defaults_training_job(const struct rule_ctx *ctx, struct json *doc)
{
    struct json *spec = json_need_object(ctx->arena, doc, "spec");

    if (!spec)
        return;
    default_int(ctx->arena, spec, "maxEpochs", 1);
    default_bool(ctx->arena, spec, "singleGPU", false);
    default_bool(ctx->arena, spec, "disableSharing", false);
    default_int(ctx->arena, spec, "priority", 0);
}

void prepare_training_job(const struct rule_ctx *ctx, struct json *doc, const struct json *old)
{
    if (!old)
        json_set_string(ctx->arena, json_set_object(ctx->arena, doc, "status"), "phase", "Pending");
}
