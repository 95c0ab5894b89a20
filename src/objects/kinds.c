/* The table of kinds. Rows hold facts only; cells, defaults and checks of each kind are in columns_*.c,
 * defaults*.c and validate_*.c. The order of rows and of subresources is that of discovery: by group, then by
 * name. */
#include "base/cleanup.h"
#include "objects/rules.h"

#define NAMES(...)                                                                                           \
    (const char *const[])                                                                                    \
    {                                                                                                        \
        __VA_ARGS__, NULL                                                                                    \
    }
#define ALL     NAMES("all")

#define CORE(p) .group = "", .version = "v1", .api_version = "v1", .plural = (p), .resource = (p)
#define GROUP(g, v, p)                                                                                       \
    .group = (g), .version = (v), .api_version = g "/" v, .plural = (p), .resource = p "." g
#define COLUMNS(table)      .columns = (table), .column_count = ARRAY_LEN(table)
#define SUBRESOURCES(table) .subresources = (table), .subresource_count = ARRAY_LEN(table)
#define STORED              .stored = true, .verbs = VERBS_STORED

static const struct subresource pod_subresources[] = {
    {"attach", VERB_CREATE | VERB_GET, "", "v1", "PodAttachOptions"},
    {"binding", VERB_CREATE, "", "v1", "Binding"},
    {"eviction", VERB_CREATE, "policy", "v1", "Eviction"},
    {"exec", VERB_CREATE | VERB_GET, "", "v1", "PodExecOptions"},
    {"log", VERB_GET, NULL, NULL, NULL},
    {"portforward", VERB_CREATE | VERB_GET, "", "v1", "PodPortForwardOptions"},
    {"status", VERBS_STATUS, NULL, NULL, NULL},
};

static const struct subresource namespace_subresources[] = {
    {"finalize", VERB_UPDATE, NULL, NULL, NULL},
    {"status", VERBS_STATUS, NULL, NULL, NULL},
};

static const struct subresource status_only[] = {
    {"status", VERBS_STATUS, NULL, NULL, NULL},
};

static const char *bool_text(const struct json *value)
{
    return json_bool(value) ? "true" : "false";
}

static const char *pod_field(const struct json *doc, const char *field, struct arena *arena)
{
    (void)arena;
    if (streq(field, "spec.hostNetwork"))
        return bool_text(json_at(doc, field));
    if (streq(field, "status.podIPs"))
        return json_at_string(doc, "status.podIPs.0.ip");
    return json_at_string(doc, field);
}

static const char *node_field(const struct json *doc, const char *field, struct arena *arena)
{
    (void)arena;
    return bool_text(json_at(doc, field));
}

static const char *job_field(const struct json *doc, const char *field, struct arena *arena)
{
    (void)field; /* status.successful, the name it had when the selector was made */
    return arena_printf(arena, "%lld", (long long)json_int(json_at(doc, "status.succeeded"), 0));
}

static const char *event_field(const struct json *doc, const char *field, struct arena *arena)
{
    const char *component;

    (void)arena;
    if (!streq(field, "source"))
        return json_at_string(doc, field);
    component = json_at_string(doc, "source.component");
    return component && *component ? component : json_get_string(doc, "reportingComponent");
}

const struct kind kinds[] = {
    {
        .id = KIND_BINDING,
        CORE("bindings"),
        .name = "Binding",
        .singular = "binding",
        .namespaced = true,
        .verbs = VERB_CREATE,
    },
    {
        .id = KIND_CONFIG_MAP,
        CORE("configmaps"),
        .name = "ConfigMap",
        .singular = "configmap",
        .short_names = NAMES("cm"),
        .namespaced = true,
        STORED,
        COLUMNS(columns_config_map),
        .validate = validate_config_map,
    },
    {
        .id = KIND_ENDPOINTS,
        CORE("endpoints"),
        .name = "Endpoints",
        .singular = "endpoints",
        .short_names = NAMES("ep"),
        .namespaced = true,
        STORED,
        COLUMNS(columns_endpoints),
        .defaults = defaults_endpoints,
        .validate = validate_endpoints,
    },
    {
        .id = KIND_EVENT,
        CORE("events"),
        .name = "Event",
        .singular = "event",
        .short_names = NAMES("ev"),
        .namespaced = true,
        STORED,
        .fields = NAMES("involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
                        "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
                        "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type"),
        COLUMNS(columns_event),
        .defaults = defaults_event,
        .validate = validate_event,
        .field_value = event_field,
        .name_rule = "path-segment",
    },
    {
        .id = KIND_LIMIT_RANGE,
        CORE("limitranges"),
        .name = "LimitRange",
        .singular = "limitrange",
        .short_names = NAMES("limits"),
        .namespaced = true,
        STORED,
        COLUMNS(columns_limit_range),
        .defaults = defaults_limit_range,
        .validate = validate_limit_range,
    },
    {
        .id = KIND_NAMESPACE,
        CORE("namespaces"),
        .name = "Namespace",
        .singular = "namespace",
        .short_names = NAMES("ns"),
        .stored = true,
        .verbs = VERBS_STORED & ~VERB_DELETE_COLLECTION,
        .has_status = true,
        SUBRESOURCES(namespace_subresources),
        .fields = NAMES("status.phase"),
        COLUMNS(columns_namespace),
        .defaults = defaults_namespace,
        .prepare = prepare_namespace,
        .validate = validate_namespace,
        .validate_status = validate_namespace_status,
        .name_rule = "dns-label",
    },
    {
        .id = KIND_NODE,
        CORE("nodes"),
        .name = "Node",
        .singular = "node",
        .short_names = NAMES("no"),
        STORED,
        .has_status = true,
        .status_on_create = true,
        SUBRESOURCES(status_only),
        .fields = NAMES("spec.unschedulable"),
        COLUMNS(columns_node),
        .defaults = defaults_node,
        .validate = validate_node,
        .validate_status = validate_node_status,
        .field_value = node_field,
    },
    {
        .id = KIND_PVC,
        CORE("persistentvolumeclaims"),
        .name = "PersistentVolumeClaim",
        .singular = "persistentvolumeclaim",
        .short_names = NAMES("pvc"),
        .namespaced = true,
        STORED,
        .has_status = true,
        SUBRESOURCES(status_only),
        COLUMNS(columns_pvc),
        .defaults = defaults_pvc,
        .prepare = prepare_pvc,
        .validate = validate_pvc,
    },
    {
        .id = KIND_PV,
        CORE("persistentvolumes"),
        .name = "PersistentVolume",
        .singular = "persistentvolume",
        .short_names = NAMES("pv"),
        STORED,
        .has_status = true,
        SUBRESOURCES(status_only),
        COLUMNS(columns_pv),
        .defaults = defaults_pv,
        .prepare = prepare_pv,
        .validate = validate_pv,
    },
    {
        .id = KIND_POD,
        CORE("pods"),
        .name = "Pod",
        .singular = "pod",
        .short_names = NAMES("po"),
        .categories = ALL,
        .namespaced = true,
        STORED,
        .has_status = true,
        .has_generation = true,
        .graceful = true,
        SUBRESOURCES(pod_subresources),
        .fields = NAMES("spec.nodeName", "spec.restartPolicy", "spec.schedulerName",
                        "spec.serviceAccountName", "spec.hostNetwork", "status.phase", "status.podIP",
                        "status.podIPs", "status.nominatedNodeName"),
        COLUMNS(columns_pod),
        .row_conditions = pod_row_conditions,
        .defaults = defaults_pod,
        .prepare = prepare_pod,
        .validate = validate_pod,
        .warnings = warnings_pod,
        .field_value = pod_field,
    },
    {
        .id = KIND_RESOURCE_QUOTA,
        CORE("resourcequotas"),
        .name = "ResourceQuota",
        .singular = "resourcequota",
        .short_names = NAMES("quota"),
        .namespaced = true,
        STORED,
        .has_status = true,
        SUBRESOURCES(status_only),
        COLUMNS(columns_resource_quota),
        .defaults = defaults_resource_quota,
        .validate = validate_resource_quota,
    },
    {
        .id = KIND_SECRET,
        CORE("secrets"),
        .name = "Secret",
        .singular = "secret",
        .namespaced = true,
        STORED,
        .fields = NAMES("type"),
        COLUMNS(columns_secret),
        .defaults = defaults_secret,
        .validate = validate_secret,
        .warnings = warnings_secret,
    },
    {
        .id = KIND_SERVICE_ACCOUNT,
        CORE("serviceaccounts"),
        .name = "ServiceAccount",
        .singular = "serviceaccount",
        .short_names = NAMES("sa"),
        .namespaced = true,
        STORED,
        COLUMNS(columns_service_account),
        .validate = validate_service_account,
    },
    {
        .id = KIND_SERVICE,
        CORE("services"),
        .name = "Service",
        .singular = "service",
        .short_names = NAMES("svc"),
        .categories = ALL,
        .namespaced = true,
        STORED,
        .has_status = true,
        SUBRESOURCES(status_only),
        .fields = NAMES("spec.clusterIP", "spec.type"),
        COLUMNS(columns_service),
        .defaults = defaults_service,
        .prepare = prepare_service,
        .validate = validate_service,
        .name_rule = "dns1035-label",
    },
    {
        .id = KIND_JOB,
        GROUP("batch", "v1", "jobs"),
        .name = "Job",
        .singular = "job",
        .categories = ALL,
        .namespaced = true,
        STORED,
        .has_status = true,
        .has_generation = true,
        SUBRESOURCES(status_only),
        .fields = NAMES("status.successful"),
        COLUMNS(columns_job),
        .defaults = defaults_job,
        .prepare = prepare_job,
        .validate = validate_job,
        .validate_status = validate_job_status,
        .warnings = warnings_job,
        .field_value = job_field,
    },
    {
        .id = KIND_LEASE,
        GROUP("coordination.k8s.io", "v1", "leases"),
        .name = "Lease",
        .singular = "lease",
        .namespaced = true,
        STORED,
        COLUMNS(columns_lease),
        .defaults = defaults_lease,
        .validate = validate_lease,
    },
    {
        .id = KIND_ENDPOINT_SLICE,
        GROUP("discovery.k8s.io", "v1", "endpointslices"),
        .name = "EndpointSlice",
        .singular = "endpointslice",
        .namespaced = true,
        STORED,
        .has_generation = true,
        COLUMNS(columns_endpoint_slice),
        .defaults = defaults_endpoint_slice,
        .validate = validate_endpoint_slice,
        .warnings = warnings_endpoint_slice,
    },
    {
        .id = KIND_PRIORITY_CLASS,
        GROUP("scheduling.k8s.io", "v1", "priorityclasses"),
        .name = "PriorityClass",
        .singular = "priorityclass",
        .short_names = NAMES("pc"),
        STORED,
        .has_generation = true,
        .generation_stays = true,
        COLUMNS(columns_priority_class),
        .defaults = defaults_priority_class,
        .validate = validate_priority_class,
    },
    {
        .id = KIND_STORAGE_CLASS,
        GROUP("storage.k8s.io", "v1", "storageclasses"),
        .name = "StorageClass",
        .singular = "storageclass",
        .short_names = NAMES("sc"),
        STORED,
        COLUMNS(columns_storage_class),
        .defaults = defaults_storage_class,
        .validate = validate_storage_class,
    },
    {
        .id = KIND_TRAINING_JOB,
        GROUP("berth.dev", "v1", "trainingjobs"),
        .name = "TrainingJob",
        .singular = "trainingjob",
        .short_names = NAMES("tj"),
        .categories = ALL,
        .namespaced = true,
        STORED,
        .has_status = true,
        .has_generation = true,
        SUBRESOURCES(status_only),
        .fields = NAMES("status.phase"),
        COLUMNS(columns_training_job),
        .defaults = defaults_training_job,
        .prepare = prepare_training_job,
        .validate = validate_training_job,
    },
    {
        .id = KIND_TASK_TEMPLATE,
        GROUP("berth.dev", "v1", "tasktemplates"),
        .name = "TaskTemplate",
        .singular = "tasktemplate",
        .short_names = NAMES("tt"),
        STORED,
        .has_generation = true,
        COLUMNS(columns_task_template),
        .validate = validate_task_template,
    },
    {
        .id = KIND_TASK_DEFINITION,
        GROUP("berth.dev", "v1", "taskdefinitions"),
        .name = "TaskDefinition",
        .singular = "taskdefinition",
        .short_names = NAMES("td"),
        .namespaced = true,
        STORED,
        .has_generation = true,
        COLUMNS(columns_task_definition),
        .validate = validate_task_definition,
    },
    {
        .id = KIND_TASK,
        GROUP("berth.dev", "v1", "tasks"),
        .name = "Task",
        .singular = "task",
        .categories = ALL,
        .namespaced = true,
        STORED,
        .has_status = true,
        .status_on_create = true,
        .has_generation = true,
        SUBRESOURCES(status_only),
        .fields = NAMES("status.phase"),
        COLUMNS(columns_task),
        .validate = validate_task,
    },
    {
        .id = KIND_SELF_SUBJECT_ACCESS_REVIEW,
        GROUP("authorization.k8s.io", "v1", "selfsubjectaccessreviews"),
        .name = "SelfSubjectAccessReview",
        .singular = "selfsubjectaccessreview",
        .verbs = VERB_CREATE,
    },
    {
        .id = KIND_SELF_SUBJECT_RULES_REVIEW,
        GROUP("authorization.k8s.io", "v1", "selfsubjectrulesreviews"),
        .name = "SelfSubjectRulesReview",
        .singular = "selfsubjectrulesreview",
        .verbs = VERB_CREATE,
    },
    {
        .id = KIND_SELF_SUBJECT_REVIEW,
        GROUP("authentication.k8s.io", "v1", "selfsubjectreviews"),
        .name = "SelfSubjectReview",
        .singular = "selfsubjectreview",
        .verbs = VERB_CREATE,
    },
    {
        .id = KIND_NODE_METRICS,
        GROUP("metrics.k8s.io", "v1beta1", "nodes"),
        .name = "NodeMetrics",
        .singular = "",
        .verbs = VERB_GET | VERB_LIST,
    },
    {
        .id = KIND_POD_METRICS,
        GROUP("metrics.k8s.io", "v1beta1", "pods"),
        .name = "PodMetrics",
        .singular = "",
        .namespaced = true,
        .verbs = VERB_GET | VERB_LIST,
    },
};

const size_t kind_count = ARRAY_LEN(kinds);

#define EACH_KIND(it) for (const struct kind *it = kinds; it < kinds + ARRAY_LEN(kinds); it++)

const struct kind *kind_by_id(int id)
{
    EACH_KIND(kind)
        if (kind->id == id)
            return kind;
    return NULL;
}

const struct kind *kind_by_plural(struct str group, struct str version, struct str plural)
{
    EACH_KIND(kind)
        if (str_is(plural, kind->plural) && str_is(group, kind->group) && str_is(version, kind->version))
            return kind;
    return NULL;
}

const struct schema_type *kind_schema(const struct kind *kind)
{
    return schema_type_find(kind->type_name ? kind->type_name : kind->name);
}

const struct subresource *kind_subresource(const struct kind *kind, struct str name)
{
    for (size_t i = 0; i < kind->subresource_count; i++)
        if (str_is(name, kind->subresources[i].name))
            return &kind->subresources[i];
    return NULL;
}

const char *kind_api_version(const struct kind *kind)
{
    return kind->api_version;
}

const char *kind_resource(const struct kind *kind)
{
    return kind->resource;
}

void kind_prepare(const struct kind *kind, const struct rule_ctx *ctx, struct json *doc,
                  const struct json *old)
{
    const struct json *status = json_get(old, "status");
    struct json *metadata = json_get(doc, "metadata");

    if (!old && metadata) {
        json_remove(metadata, "deletionTimestamp");
        json_remove(metadata, "deletionGracePeriodSeconds");
    }
    if (json_len(json_get(metadata, "ownerReferences")) > 1)
        dedup_owners(ctx, metadata);
    if (kind->has_status && old && status)
        json_set(ctx->arena, doc, "status", *json_copy(ctx->arena, status));
    else if (kind->has_status && old)
        json_remove(doc, "status");
    else if (kind->has_status && !kind->status_on_create)
        json_set_object(ctx->arena, doc, "status");
    if (kind->prepare)
        kind->prepare(ctx, doc, old);
    drop_empty(kind_schema(kind), doc);
}

void kind_prepare_status(const struct kind *kind, struct json *doc)
{
    drop_empty(kind_schema(kind), doc);
}
