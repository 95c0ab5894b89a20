/* Columns of the kinds beside workloads: nodes, storage, quota, events, services and the small ones. */
#include "objects/rules.h"
#include "objects/table.h"

#include <ctype.h>

static const char *non_empty(const char *s)
{
    return s && *s ? s : NULL;
}

/* ---- nodes ---- */

static void node_status(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    const char *text = "Unknown";

    JSON_EACH(json_at(doc, "status.conditions"), condition)
        if (streq(json_get_string(condition, "type"), "Ready"))
            text = streq(json_get_string(condition, "status"), "True") ? "Ready" : "NotReady";
    if (json_bool(json_at(doc, "spec.unschedulable")))
        text = arena_printf(ctx->arena, "%s,SchedulingDisabled", text);
    cell_string(out, text);
}

/* Roles are the ends of labels node-role.kubernetes.io/ROLE and the value of kubernetes.io/role; sorted. */
static void node_roles(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    static const char prefix[] = "node-role.kubernetes.io/";
    struct json *roles = json_new_object(ctx->arena);
    CLEANUP(buf_done) struct buf text = {0};

    JSON_EACH_MEMBER(json_at(doc, "metadata.labels"), label) {
        const char *role = NULL;

        if (starts_with(label->key, prefix))
            role = label->key + sizeof(prefix) - 1;
        else if (streq(label->key, "kubernetes.io/role"))
            role = json_string(&label->value);
        if (non_empty(role))
            json_set_bool(ctx->arena, roles, role, true);
    }
    json_sort_members(roles);
    JSON_EACH_MEMBER(roles, role)
        buf_printf(&text, "%s%s", text.len ? "," : "", role->key);
    cell_string(out, text.len ? text.data : NULL);
}

static void write_address(const struct json *doc, const char *type, struct buf *out)
{
    const char *found = NULL;

    JSON_EACH(json_at(doc, "status.addresses"), address)
        if (!found && streq(json_get_string(address, "type"), type))
            found = json_get_string(address, "address");
    cell_string(out, found);
}

static void node_internal_ip(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    (void)ctx;
    write_address(doc, "InternalIP", out);
}

static void node_external_ip(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    (void)ctx;
    write_address(doc, "ExternalIP", out);
}

const struct column columns_node[] = {
    NAME_COLUMN,
    {.name = "Status", .type = "string", .cell = node_status, .doc = "Whether the node takes pods."},
    {.name = "Roles", .type = "string", .cell = node_roles, .doc = "Roles by label."},
    AGE_COLUMN,
    {.name = "Version",
     .type = "string",
     .path = "status.nodeInfo.kubeletVersion",
     .doc = "Version of the node agent."},
    {.name = "Internal-IP",
     .type = "string",
     .priority = 1,
     .cell = node_internal_ip,
     .doc = "Address inside the cluster."},
    {.name = "External-IP",
     .type = "string",
     .priority = 1,
     .cell = node_external_ip,
     .doc = "Address outside the cluster."},
    {.name = "OS-Image",
     .type = "string",
     .priority = 1,
     .path = "status.nodeInfo.osImage",
     .none = "<unknown>",
     .doc = "Operating system."},
    {.name = "Kernel-Version",
     .type = "string",
     .priority = 1,
     .path = "status.nodeInfo.kernelVersion",
     .none = "<unknown>",
     .doc = "Kernel."},
    {.name = "Container-Runtime",
     .type = "string",
     .priority = 1,
     .path = "status.nodeInfo.containerRuntimeVersion",
     .none = "<unknown>",
     .doc = "What runs the containers."},
};

/* ---- events ---- */

static const char *event_first(const struct json *doc)
{
    const char *first = json_get_string(doc, "firstTimestamp");

    return first ? first : json_get_string(doc, "eventTime");
}

static void event_last_seen(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    const struct json *series = json_get(doc, "series");
    const char *last = json_get_string(doc, "lastTimestamp");

    (void)ctx;
    if (json_is(series, JSON_OBJECT))
        last = json_get_string(series, "lastObservedTime");
    else if (!last)
        last = event_first(doc);
    cell_age(out, last);
}

static void event_first_seen(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    (void)ctx;
    cell_age(out, event_first(doc));
}

static void event_object(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    const struct json *involved = json_get(doc, "involvedObject");
    char *kind = arena_strdup(ctx->arena, json_string_or(json_get(involved, "kind"), ""));
    const char *name = non_empty(json_get_string(involved, "name"));

    for (char *c = kind; *c; c++)
        *c = (char)tolower((unsigned char)*c);
    cell_string(out, name ? arena_printf(ctx->arena, "%s/%s", kind, name) : kind);
}

static void event_source(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    const char *component = non_empty(json_at_string(doc, "source.component"));
    const char *instance = non_empty(json_at_string(doc, "source.host"));

    if (!component)
        component = json_string_or(json_get(doc, "reportingComponent"), "");
    if (!instance)
        instance = non_empty(json_get_string(doc, "reportingInstance"));
    cell_string(out, instance ? arena_printf(ctx->arena, "%s, %s", component, instance) : component);
}

static void event_message(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    struct str text = json_str(json_get(doc, "message"));

    (void)ctx;
    while (text.len && isspace((unsigned char)text.s[0]))
        text = (struct str){text.s + 1, text.len - 1};
    while (text.len && isspace((unsigned char)text.s[text.len - 1]))
        text.len--;
    json_write_string(out, text.s ? text : STR(""));
}

static void event_count(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    const struct json *series = json_get(doc, "series");
    long long count = json_int(json_get(doc, "count"), 0);

    (void)ctx;
    if (json_is(series, JSON_OBJECT))
        count = json_int(json_get(series, "count"), 0);
    else if (count == 0)
        count = 1;
    buf_printf(out, "%lld", count);
}

const struct column columns_event[] = {
    {.name = "Last Seen", .type = "string", .cell = event_last_seen, .doc = "Time since it last happened."},
    {.name = "Type", .type = "string", .path = "type", .doc = "Normal or Warning."},
    {.name = "Reason", .type = "string", .path = "reason", .doc = "Why, in one word."},
    {.name = "Object", .type = "string", .cell = event_object, .doc = "What it happened to."},
    {.name = "Subobject",
     .type = "string",
     .priority = 1,
     .path = "involvedObject.fieldPath",
     .doc = "Which part of the object."},
    {.name = "Source", .type = "string", .priority = 1, .cell = event_source, .doc = "Who reports it."},
    {.name = "Message", .type = "string", .cell = event_message, .doc = "What happened."},
    {.name = "First Seen",
     .type = "string",
     .priority = 1,
     .cell = event_first_seen,
     .doc = "Time since it first happened."},
    {.name = "Count", .type = "string", .priority = 1, .cell = event_count, .doc = "How often it happened."},
    {.name = "Name",
     .type = "string",
     .format = "name",
     .priority = 1,
     .path = "metadata.name",
     .doc = "Name of the event."},
};

/* ---- config maps, secrets, namespaces, accounts ---- */

static void config_map_data(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    (void)ctx;
    buf_printf(out, "%zu", json_len(json_get(doc, "data")) + json_len(json_get(doc, "binaryData")));
}

static void service_account_secrets(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    (void)ctx;
    buf_printf(out, "%zu", json_len(json_get(doc, "secrets")));
}

const struct column columns_config_map[] = {
    NAME_COLUMN,
    {.name = "Data", .type = "string", .cell = config_map_data, .doc = "Number of entries."},
    AGE_COLUMN,
};

const struct column columns_secret[] = {
    NAME_COLUMN,
    {.name = "Type", .type = "string", .path = "type", .doc = "What kind of secret it holds."},
    {.name = "Data", .type = "string", .cell = config_map_data, .doc = "Number of entries."},
    AGE_COLUMN,
};

const struct column columns_namespace[] = {
    NAME_COLUMN,
    {.name = "Status", .type = "string", .path = "status.phase", .doc = "Active, or Terminating."},
    AGE_COLUMN,
};

const struct column columns_service_account[] = {
    NAME_COLUMN,
    {.name = "Secrets", .type = "string", .cell = service_account_secrets, .doc = "Number of secrets."},
    AGE_COLUMN,
};

/* ---- storage ---- */

static void write_access_modes(const struct json *modes, struct buf *out)
{
    static const char *const names[][2] = {
        {"ReadWriteOnce", "RWO"},
        {"ReadOnlyMany", "ROX"},
        {"ReadWriteMany", "RWX"},
        {"ReadWriteOncePod", "RWOP"},
    };
    CLEANUP(buf_done) struct buf text = {0};

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        bool found = false;

        JSON_EACH(modes, mode)
            found |= streq(json_string(mode), names[i][0]);
        if (found)
            buf_printf(&text, "%s%s", text.len ? "," : "", names[i][1]);
    }
    json_write_string(out, buf_view(&text));
}

static void write_quantity(const struct json *value, struct buf *out)
{
    struct quantity q = quantity_of_int(0);
    char text[QUANTITY_TEXT_MAX];

    quantity_from_json(value, &q);
    cell_string(out, quantity_format(&q, text));
}

static void volume_status(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    (void)ctx;
    if (json_at(doc, "metadata.deletionTimestamp"))
        cell_string(out, "Terminating");
    else
        cell_string(out, json_string_or(json_at(doc, "status.phase"), ""));
}

static void pvc_capacity(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    (void)ctx;
    if (non_empty(json_at_string(doc, "spec.volumeName")))
        write_quantity(json_at(doc, "status.capacity.storage"), out);
    else
        cell_string(out, "");
}

static void pvc_access_modes(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    (void)ctx;
    write_access_modes(
        non_empty(json_at_string(doc, "spec.volumeName")) ? json_at(doc, "status.accessModes") : NULL, out);
}

/* The annotation is how classes were named before the field. */
static void volume_class(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    const char *name =
        json_get_string(json_at(doc, "metadata.annotations"), "volume.beta.kubernetes.io/storage-class");

    (void)ctx;
    cell_string(out, name ? name : json_string_or(json_at(doc, "spec.storageClassName"), ""));
}

#define VOLUME_STATUS_COLUMN                                                                                 \
    {                                                                                                        \
        .name = "Status", .type = "string", .cell = volume_status, .doc = "Pending, Bound and so on."        \
    }
#define VOLUME_CLASS_COLUMN                                                                                  \
    {                                                                                                        \
        .name = "StorageClass", .type = "string", .cell = volume_class, .doc = "Class of the storage."       \
    }
#define VOLUME_ATTRIBUTES_COLUMN                                                                             \
    {                                                                                                        \
        .name = "VolumeAttributesClass", .type = "string", .path = "spec.volumeAttributesClassName",         \
        .none = "<unset>", .doc = "Class of changeable attributes."                                          \
    }
#define VOLUME_MODE_COLUMN                                                                                   \
    {                                                                                                        \
        .name = "VolumeMode", .type = "string", .priority = 1, .path = "spec.volumeMode", .none = "<unset>", \
        .doc = "Filesystem or Block."                                                                        \
    }

const struct column columns_pvc[] = {
    NAME_COLUMN,
    VOLUME_STATUS_COLUMN,
    {.name = "Volume", .type = "string", .path = "spec.volumeName", .doc = "Volume the claim is bound to."},
    {.name = "Capacity", .type = "string", .cell = pvc_capacity, .doc = "Size of the bound volume."},
    {.name = "Access Modes",
     .type = "string",
     .cell = pvc_access_modes,
     .doc = "How the bound volume can be mounted."},
    VOLUME_CLASS_COLUMN,
    VOLUME_ATTRIBUTES_COLUMN,
    AGE_COLUMN,
    VOLUME_MODE_COLUMN,
};

static void pv_capacity(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    (void)ctx;
    write_quantity(json_at(doc, "spec.capacity.storage"), out);
}

static void pv_access_modes(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    (void)ctx;
    write_access_modes(json_at(doc, "spec.accessModes"), out);
}

static void pv_claim(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    const struct json *claim = json_at(doc, "spec.claimRef");

    if (claim)
        cell_string(out, arena_printf(ctx->arena, "%s/%s", json_string_or(json_get(claim, "namespace"), ""),
                                      json_string_or(json_get(claim, "name"), "")));
    else
        cell_string(out, "");
}

const struct column columns_pv[] = {
    NAME_COLUMN,
    {.name = "Capacity", .type = "string", .cell = pv_capacity, .doc = "Size of the volume."},
    {.name = "Access Modes", .type = "string", .cell = pv_access_modes, .doc = "How it can be mounted."},
    {.name = "Reclaim Policy",
     .type = "string",
     .path = "spec.persistentVolumeReclaimPolicy",
     .doc = "What becomes of it when its claim goes."},
    VOLUME_STATUS_COLUMN,
    {.name = "Claim", .type = "string", .cell = pv_claim, .doc = "Claim it is bound to."},
    VOLUME_CLASS_COLUMN,
    VOLUME_ATTRIBUTES_COLUMN,
    {.name = "Reason", .type = "string", .path = "status.reason", .doc = "Why it is in that state."},
    AGE_COLUMN,
    VOLUME_MODE_COLUMN,
};

static void storage_class_name(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    static const char *const marks[] = {"storageclass.kubernetes.io/is-default-class",
                                        "storageclass.beta.kubernetes.io/is-default-class"};
    const char *name = json_string_or(json_at(doc, "metadata.name"), "");
    bool is_default = false;

    for (size_t i = 0; i < ARRAY_LEN(marks); i++)
        is_default |= streq(json_get_string(json_at(doc, "metadata.annotations"), marks[i]), "true");
    cell_string(out, is_default ? arena_printf(ctx->arena, "%s (default)", name) : name);
}

static void storage_class_expansion(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    (void)ctx;
    buf_puts(out, json_bool(json_get(doc, "allowVolumeExpansion")) ? "true" : "false");
}

const struct column columns_storage_class[] = {
    {.name = "Name",
     .type = "string",
     .format = "name",
     .cell = storage_class_name,
     .doc = "Name of the class; one may be the default."},
    {.name = "Provisioner", .type = "string", .path = "provisioner", .doc = "What makes its volumes."},
    {.name = "ReclaimPolicy",
     .type = "string",
     .path = "reclaimPolicy",
     .none = "Delete",
     .doc = "What becomes of a volume when its claim goes."},
    {.name = "VolumeBindingMode",
     .type = "string",
     .path = "volumeBindingMode",
     .none = "Immediate",
     .doc = "When claims are bound."},
    {.name = "AllowVolumeExpansion",
     .type = "string",
     .cell = storage_class_expansion,
     .doc = "Whether claims may grow."},
    AGE_COLUMN,
};

/* ---- quota and limits ---- */

/* "pods: 1/5, requests.cpu: 10m/1" of what starts with "limits." or of the rest. */
static void write_quota(const struct json *doc, bool limits, struct arena *arena, struct buf *out)
{
    struct json *hard = json_copy(arena, json_at(doc, "status.hard"));
    const struct json *used = json_at(doc, "status.used");
    CLEANUP(buf_done) struct buf text = {0};

    if (json_len(hard))
        json_sort_members(hard);
    JSON_EACH_MEMBER(hard, member) {
        struct quantity have = quantity_of_int(0), may = quantity_of_int(0);
        char have_text[QUANTITY_TEXT_MAX], may_text[QUANTITY_TEXT_MAX];

        if (starts_with(member->key, "limits.") != limits)
            continue;
        quantity_from_json(json_get(used, member->key), &have);
        quantity_from_json(&member->value, &may);
        buf_printf(&text, "%s%s: %s/%s", text.len ? ", " : "", member->key, quantity_format(&have, have_text),
                   quantity_format(&may, may_text));
    }
    json_write_string(out, buf_view(&text));
}

static void quota_request(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    write_quota(doc, false, ctx->arena, out);
}

static void quota_limit(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    write_quota(doc, true, ctx->arena, out);
}

const struct column columns_resource_quota[] = {
    NAME_COLUMN,
    {.name = "Request",
     .type = "string",
     .cell = quota_request,
     .doc = "Requests and objects: used/allowed."},
    {.name = "Limit", .type = "string", .cell = quota_limit, .doc = "Limits: used/allowed."},
    AGE_COLUMN,
};

const struct column columns_limit_range[] = {
    NAME_COLUMN,
    {.name = "Created At",
     .type = "date",
     .path = "metadata.creationTimestamp",
     .doc = "When the object was created."},
};

/* ---- services ---- */

static void service_cluster_ip(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    const char *ip = non_empty(json_at_string(doc, "spec.clusterIPs.0"));

    (void)ctx;
    cell_string(out, ip ? ip : non_empty(json_at_string(doc, "spec.clusterIP")));
}

static void add_text(struct buf *text, const char *s)
{
    if (text->len)
        buf_putc(text, ',');
    buf_puts(text, s);
}

static void service_external_ip(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    const char *type = json_string_or(json_at(doc, "spec.type"), "ClusterIP");
    struct json *balancers = json_new_object(ctx->arena);
    CLEANUP(buf_done) struct buf text = {0};

    if (streq(type, "ExternalName")) {
        cell_string(out, json_string_or(json_at(doc, "spec.externalName"), ""));
        return;
    }
    if (streq(type, "LoadBalancer"))
        JSON_EACH(json_at(doc, "status.loadBalancer.ingress"), ingress) {
            const char *address = non_empty(json_get_string(ingress, "ip"));

            if (!address)
                address = non_empty(json_get_string(ingress, "hostname"));
            if (address)
                json_set_bool(ctx->arena, balancers, address, true);
        }
    json_sort_members(balancers);
    JSON_EACH_MEMBER(balancers, address)
        add_text(&text, address->key);
    JSON_EACH(json_at(doc, "spec.externalIPs"), ip)
        add_text(&text, json_string_or(ip, ""));
    if (text.len)
        cell_string(out, text.data);
    else
        cell_string(out, streq(type, "LoadBalancer") ? "<pending>" : "<none>");
}

static void service_ports(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    CLEANUP(buf_done) struct buf text = {0};

    JSON_EACH(json_at(doc, "spec.ports"), port) {
        long long node_port = json_int(json_get(port, "nodePort"), 0);

        add_text(&text, arena_printf(ctx->arena, "%lld", (long long)json_int(json_get(port, "port"), 0)));
        if (node_port > 0)
            buf_printf(&text, ":%lld", node_port);
        buf_printf(&text, "/%s", json_string_or(json_get(port, "protocol"), "TCP"));
    }
    cell_string(out, text.len ? text.data : NULL);
}

static void service_selector(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    struct json *labels = json_copy(ctx->arena, json_at(doc, "spec.selector"));
    CLEANUP(buf_done) struct buf text = {0};

    if (json_len(labels))
        json_sort_members(labels);
    JSON_EACH_MEMBER(labels, label) {
        add_text(&text, label->key);
        buf_printf(&text, "=%s", json_string_or(&label->value, ""));
    }
    cell_string(out, text.len ? text.data : NULL);
}

const struct column columns_service[] = {
    NAME_COLUMN,
    {.name = "Type", .type = "string", .path = "spec.type", .doc = "How the service can be reached."},
    {.name = "Cluster-IP",
     .type = "string",
     .cell = service_cluster_ip,
     .doc = "Address inside the cluster."},
    {.name = "External-IP",
     .type = "string",
     .cell = service_external_ip,
     .doc = "Addresses outside the cluster."},
    {.name = "Port(s)", .type = "string", .cell = service_ports, .doc = "Ports, with node ports."},
    AGE_COLUMN,
    {.name = "Selector",
     .type = "string",
     .priority = 1,
     .cell = service_selector,
     .doc = "Labels of the pods behind it."},
};

/* ---- endpoints ---- */

#define ENDPOINTS_SHOWN 3

/* Comma-separated, the first few. */
struct short_list {
    struct buf text;
    size_t shown, count;
};

__attribute__((format(printf, 2, 3))) static void short_add(struct short_list *list, const char *fmt, ...)
{
    va_list ap;

    if (list->count++ >= ENDPOINTS_SHOWN)
        return;
    if (list->shown++)
        buf_putc(&list->text, ',');
    va_start(ap, fmt);
    buf_vprintf(&list->text, fmt, ap);
    va_end(ap);
}

static void short_finish(struct short_list *list, const char *none, struct buf *out)
{
    if (list->count > list->shown)
        buf_printf(&list->text, " + %zu more...", list->count - list->shown);
    cell_string(out, list->text.len ? list->text.data : none);
    buf_done(&list->text);
}

static void endpoints_addresses(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    struct short_list list = {0};

    (void)ctx;
    JSON_EACH(json_get(doc, "subsets"), subset) {
        const struct json *addresses = json_get(subset, "addresses");

        if (!json_len(json_get(subset, "ports")))
            JSON_EACH(addresses, it)
                short_add(&list, "%s", json_string_or(json_get(it, "ip"), ""));
        JSON_EACH(json_get(subset, "ports"), port)
            JSON_EACH(addresses, it) {
                const char *ip = json_string_or(json_get(it, "ip"), "");

                short_add(&list, strchr(ip, ':') ? "[%s]:%lld" : "%s:%lld", ip,
                          (long long)json_int(json_get(port, "port"), 0));
            }
    }
    short_finish(&list, json_len(json_get(doc, "subsets")) ? "" : "<none>", out);
}

const struct column columns_endpoints[] = {
    NAME_COLUMN,
    {.name = "Endpoints",
     .type = "string",
     .cell = endpoints_addresses,
     .doc = "Addresses and ports that take connections."},
    AGE_COLUMN,
};

static void slice_ports(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    struct short_list list = {0};

    (void)ctx;
    JSON_EACH(json_get(doc, "ports"), port) {
        const struct json *number = json_get(port, "port");

        if (json_is(number, JSON_INT))
            short_add(&list, "%lld", (long long)number->integer);
        else
            short_add(&list, "%s", json_string_or(json_get(port, "name"), "*"));
    }
    short_finish(&list, "<unset>", out);
}

static void slice_endpoints(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    struct short_list list = {0};

    (void)ctx;
    JSON_EACH(json_get(doc, "endpoints"), endpoint)
        JSON_EACH(json_get(endpoint, "addresses"), address)
            short_add(&list, "%s", json_string_or(address, ""));
    short_finish(&list, "<unset>", out);
}

const struct column columns_endpoint_slice[] = {
    NAME_COLUMN,
    {.name = "AddressType", .type = "string", .path = "addressType", .doc = "IPv4, IPv6 or FQDN."},
    {.name = "Ports", .type = "string", .cell = slice_ports, .doc = "Ports that all of them have."},
    {.name = "Endpoints", .type = "string", .cell = slice_endpoints, .doc = "The addresses."},
    AGE_COLUMN,
};

/* ---- priority classes, leases ---- */

static void priority_value(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    (void)ctx;
    buf_int(out, json_int(json_get(doc, "value"), 0));
}

static void priority_default(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    (void)ctx;
    buf_puts(out, json_bool(json_get(doc, "globalDefault")) ? "true" : "false");
}

const struct column columns_priority_class[] = {
    NAME_COLUMN,
    {.name = "Value", .type = "integer", .cell = priority_value, .doc = "The priority; more goes first."},
    {.name = "Global-Default",
     .type = "boolean",
     .cell = priority_default,
     .doc = "Whether pods that name no class get this one."},
    AGE_COLUMN,
    {.name = "PreemptionPolicy",
     .type = "string",
     .path = "preemptionPolicy",
     .doc = "Whether its pods may displace others."},
};

const struct column columns_lease[] = {
    NAME_COLUMN,
    {.name = "Holder", .type = "string", .path = "spec.holderIdentity", .doc = "Who holds it."},
    AGE_COLUMN,
};
