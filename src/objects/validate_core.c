/* Config maps, secrets, namespaces, nodes, events, accounts, priority classes and leases. */
#include "objects/rules.h"

#define DATA_BYTES_MAX    (1 << 20)
#define USER_PRIORITY_MAX 1000000000
#define EVENT_TEXT_MAX    128
#define EVENT_MESSAGE_MAX 1024

/* ---- config maps and secrets ---- */

static size_t check_keys(struct field_errors *errors, const char *path, const struct json *data, bool base64)
{
    size_t total = 0;

    JSON_EACH_MEMBER(data, member) {
        struct str value = json_str(&member->value);

        check_str(errors, AT(errors, "%s[%s]", path, member->key), (struct str){member->key, member->key_len},
                  rule_config_key);
        total += base64 ? value.len / 4 * 3 - str_ends(value, "=") - str_ends(value, "==") : value.len;
    }
    return total;
}

/* An object marked immutable stays so, with its data. */
static void check_sealed(struct field_errors *errors, const struct json *doc, const struct json *old)
{
    static const char *const parts[] = {"data", "binaryData"};

    if (!json_bool(json_get(old, "immutable")))
        return;
    if (!json_bool(json_get(doc, "immutable")))
        field_forbidden(errors, "immutable", "field is immutable when `immutable` is set");
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if (!semantic_equal(json_get(doc, parts[i]), json_get(old, parts[i])))
            field_forbidden(errors, parts[i], "field is immutable when `immutable` is set");
}

void validate_config_map(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                         struct field_errors *errors)
{
    const struct json *data = json_get(doc, "data"), *binary = json_get(doc, "binaryData");
    size_t total;

    (void)ctx;
    total = check_keys(errors, "data", data, false) + check_keys(errors, "binaryData", binary, true);
    JSON_EACH_MEMBER(data, member) {
        struct json key = json_of_string_ref(member->key);

        if (json_get(binary, member->key))
            field_invalid(errors, AT(errors, "data[%s]", member->key), &key,
                          "duplicate of key present in binaryData");
    }
    if (total > DATA_BYTES_MAX)
        field_too_long(errors, "[]", DATA_BYTES_MAX); /* so Kubernetes prints "the whole object" */
    check_sealed(errors, doc, old);
}

/* What secrets of a known type must hold. */
static const struct {
    const char *type;
    const char *keys[2];
    bool any; /* one of them is enough */
} secret_types[] = {
    {"kubernetes.io/dockercfg", {".dockercfg"}, false},
    {"kubernetes.io/dockerconfigjson", {".dockerconfigjson"}, false},
    {"kubernetes.io/basic-auth", {"username", "password"}, true},
    {"kubernetes.io/ssh-auth", {"ssh-privatekey"}, false},
    {"kubernetes.io/tls", {"tls.crt", "tls.key"}, false},
};

static void check_docker_json(struct field_errors *errors, const char *key, const struct json *value)
{
    CLEANUP(buf_done) struct buf text = {0};
    const struct json hidden = json_of_string_ref("<secret contents redacted>");
    struct json *parsed;
    struct err err = {0};

    if (!buf_base64_decode(&text, json_str(value)))
        return;
    if (json_parse(buf_view(&text), errors->arena, &parsed, NULL, &err) < 0 || !json_is(parsed, JSON_OBJECT))
        field_invalid(errors, AT(errors, "data[%s]", key), &hidden, "%s",
                      err.code ? err.msg : "must be a JSON object");
}

static void check_secret_type(struct field_errors *errors, const struct json *doc)
{
    const struct json *data = json_get(doc, "data");
    const char *type = json_string_or(json_get(doc, "type"), "");

    if (streq(type, "kubernetes.io/service-account-token") &&
        !json_str(json_get(json_at(doc, "metadata.annotations"), "kubernetes.io/service-account.name")).len)
        field_required(errors, "metadata.annotations[kubernetes.io/service-account.name]", "%s", "");
    for (size_t i = 0; i < ARRAY_LEN(secret_types); i++) {
        bool found = false;

        if (!streq(type, secret_types[i].type))
            continue;
        for (size_t k = 0; k < 2 && secret_types[i].keys[k]; k++)
            found |= json_get(data, secret_types[i].keys[k]) != NULL;
        for (size_t k = 0; k < 2 && secret_types[i].keys[k]; k++)
            if (!json_get(data, secret_types[i].keys[k]) && !(secret_types[i].any && found))
                field_required(errors, AT(errors, "data[%s]", secret_types[i].keys[k]), "%s", "");
        if (i < 2 && found)
            check_docker_json(errors, secret_types[i].keys[0], json_get(data, secret_types[i].keys[0]));
    }
}

void validate_secret(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                     struct field_errors *errors)
{
    (void)ctx;
    if (old) {
        check_immutable(errors, "type", json_get(doc, "type"), json_get(old, "type"));
        check_sealed(errors, doc, old);
    }
    if (check_keys(errors, "data", json_get(doc, "data"), true) > DATA_BYTES_MAX)
        field_too_long(errors, "data", DATA_BYTES_MAX);
    check_secret_type(errors, doc);
}

/* ---- namespaces and nodes ---- */

void validate_namespace(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                        struct field_errors *errors)
{
    (void)ctx;
    (void)old;
    JSON_EACH(json_at(doc, "spec.finalizers"), finalizer) {
        const char *text = json_string_or(finalizer, "");

        if (!check_text(errors, "spec.finalizers", finalizer, rule_qualified_name))
            continue;
        if (!finalizer_is_known(text))
            field_invalid(errors, "spec.finalizers", finalizer,
                          "name is neither a standard finalizer name nor is it fully qualified");
    }
}

void validate_namespace_status(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                               struct field_errors *errors)
{
    const struct json *phase = json_at(doc, "status.phase"), empty = json_of_string_ref("");
    bool deleting = json_present(json_at(doc, "metadata.deletionTimestamp"));

    (void)ctx;
    (void)old;
    if (!phase)
        phase = &empty;
    if (!deleting && !streq(json_string(phase), "Active"))
        field_invalid(errors, "status.Phase", phase, "may only be 'Active' if `deletionTimestamp` is empty");
    if (deleting && !streq(json_string(phase), "Terminating"))
        field_invalid(errors, "status.Phase", phase,
                      "may only be 'Terminating' if `deletionTimestamp` is not empty");
}

static void check_taints(struct field_errors *errors, const char *path, const struct json *taints)
{
    struct json *seen = json_new_object(errors->arena);
    size_t i = 0;

    JSON_EACH(taints, taint) {
        const char *at = AT(errors, "%s[%zu]", path, i++);
        const struct json *value = json_get(taint, "value");
        const char *pair = AT(errors, "%s:%s", json_string_or(json_get(taint, "key"), ""),
                              json_string_or(json_get(taint, "effect"), ""));

        check_text(errors, AT(errors, "%s.key", at), json_get(taint, "key"), rule_qualified_name);
        if (value)
            check_text(errors, AT(errors, "%s.value", at), value, rule_label_value);
        check_one_of(errors, AT(errors, "%s.effect", at), json_get(taint, "effect"), taint_effects);
        if (json_get(seen, pair)) {
            CLEANUP(buf_done) struct buf text = {0};

            json_write(&text, taint);
            field_message(errors, at, "FieldValueDuplicate",
                          "Duplicate value: %s: taints must be unique by key and effect pair", text.data);
        }
        json_set_bool(errors->arena, seen, pair, true);
    }
}

void validate_node_status(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                          struct field_errors *errors)
{
    static const char *const lists[] = {"capacity", "allocatable"};

    (void)ctx;
    (void)old;
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        JSON_EACH_MEMBER(json_get(json_get(doc, "status"), lists[i]), member)
            check_resource_amount(errors, AT(errors, "status.%s.%s", lists[i], member->key), member->key,
                                  &member->value);
}

void validate_node(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                   struct field_errors *errors)
{
    const struct json *provider = json_at(doc, "spec.providerID"), *had = json_at(old, "spec.providerID");

    check_taints(errors, "metadata.taints", json_at(doc, "spec.taints")); /* that path is Kubernetes' */
    validate_node_status(ctx, doc, old, errors);
    if (json_str(had).len && !json_equal(provider, had))
        field_forbidden(errors, "spec.providerID",
                        "node updates may not change providerID except from \"\" to valid");
    if (json_len(json_at(old, "spec.podCIDRs")) &&
        !json_equal(json_at(doc, "spec.podCIDRs"), json_at(old, "spec.podCIDRs")))
        field_forbidden(errors, "spec.podCIDRs",
                        "node updates may not change podCIDR except from \"\" to valid");
}

/* ---- events ---- */

static void check_event_text(struct field_errors *errors, const struct json *doc, const char *key, size_t max,
                             bool required)
{
    const struct json *value = json_get(doc, key), empty = json_of_string_ref("");

    if (required)
        check_required(errors, key, value);
    if (json_str(value).len > max)
        field_invalid(errors, key, &empty, "can have at most %zu characters", max);
}

void validate_event(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                    struct field_errors *errors)
{
    const char *ns = json_string_or(json_at(doc, "metadata.namespace"), "");
    const struct json *involved_ns = json_at(doc, "involvedObject.namespace");
    const struct json empty = json_of_string_ref("");
    const char *involved = json_string_or(involved_ns, "");
    bool modern = json_present(json_get(doc, "eventTime"));
    bool matches;

    (void)ctx;
    (void)old;
    if (*involved)
        matches = modern || streq(ns, involved);
    else
        matches = !*ns || streq(ns, "default") || (modern && streq(ns, "kube-system"));
    if (!matches)
        field_invalid(errors, "involvedObject.namespace", involved_ns ? involved_ns : &empty,
                      "does not match event.namespace");
    if (!modern)
        return;
    check_event_text(errors, doc, "reportingComponent", SIZE_MAX, true);
    check_text(errors, "reportingComponent", json_get(doc, "reportingComponent"), rule_qualified_name);
    check_event_text(errors, doc, "reportingInstance", EVENT_TEXT_MAX, true);
    check_event_text(errors, doc, "action", EVENT_TEXT_MAX, true);
    check_event_text(errors, doc, "reason", EVENT_TEXT_MAX, true);
    check_event_text(errors, doc, "message", EVENT_MESSAGE_MAX, false);
}

/* ---- the small ones ---- */

void validate_service_account(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                              struct field_errors *errors)
{
    /* References to secrets may be dangling; there is nothing beyond metadata to refuse. */
    (void)ctx;
    (void)doc;
    (void)old;
    (void)errors;
}

void validate_priority_class(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                             struct field_errors *errors)
{
    static const char *const policies[] = {"PreemptLowerPriority", "Never", NULL};
    static const struct {
        const char *name;
        int64_t value;
    } system_classes[] = {{"system-node-critical", 2000001000}, {"system-cluster-critical", 2000000000}};
    const char *name = json_string_or(json_at(doc, "metadata.name"), "");
    const struct json *policy = json_get(doc, "preemptionPolicy"), *value = json_get(doc, "value");

    (void)ctx;
    if (starts_with(name, "system-")) {
        bool known = false;

        for (size_t i = 0; i < ARRAY_LEN(system_classes); i++)
            known |= streq(name, system_classes[i].name) && json_int(value, 0) == system_classes[i].value &&
                     !json_bool(json_get(doc, "globalDefault"));
        if (!known)
            field_forbidden(errors, "metadata.name",
                            "priority class names with 'system-' prefix are reserved for system use only. "
                            "error: %s is not a known system priority class",
                            name);
    } else if (json_int(value, 0) > USER_PRIORITY_MAX) {
        field_forbidden(errors, "value", "maximum allowed value of a user defined priority is %d",
                        USER_PRIORITY_MAX);
    }
    if (json_present(policy))
        check_one_of(errors, "preemptionPolicy", policy, policies);
    if (!old)
        return;
    if (json_int(value, 0) != json_int(json_get(old, "value"), 0))
        field_forbidden(errors, "value", "may not be changed in an update.");
    check_immutable(errors, "preemptionPolicy", policy, json_get(old, "preemptionPolicy"));
}

void validate_lease(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                    struct field_errors *errors)
{
    const struct json *spec = json_get(doc, "spec");
    const struct json *duration = json_get(spec, "leaseDurationSeconds");

    (void)ctx;
    (void)old;
    if (json_present(duration) && json_int(duration, 0) <= 0)
        field_invalid(errors, "spec.leaseDurationSeconds", duration, "must be greater than 0");
    check_not_negative(errors, "spec.leaseTransitions", json_get(spec, "leaseTransitions"));
}
