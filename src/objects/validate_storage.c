/* Claims, volumes and storage classes. */
#include "objects/names.h"
#include "objects/rules.h"

#define PARAMETERS_MAX       512
#define PARAMETERS_BYTES_MAX (256 << 10)

static const char *const volume_modes[] = {"Block", "Filesystem", NULL};
static const char *const reclaim_policies[] = {"Delete", "Recycle", "Retain", NULL};

static void check_access_modes(struct field_errors *errors, const struct json *modes,
                               const char *why_required)
{
    static const char *const choices[] = {"ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce",
                                          "ReadWriteOncePod", NULL};
    bool single = false, others = false;

    if (!json_len(modes))
        field_required(errors, "spec.accessModes", "%s", why_required);
    JSON_EACH(modes, mode) {
        if (!check_one_of(errors, "spec.accessModes", mode, choices))
            continue;
        if (streq(json_string(mode), "ReadWriteOncePod"))
            single = true;
        else
            others = true;
    }
    if (single && others)
        field_forbidden(errors, "spec.accessModes", "may not use ReadWriteOncePod with other access modes");
}

static void check_positive_amount(struct field_errors *errors, const char *path, const struct json *value)
{
    struct quantity q;
    struct json text;

    if (!quantity_from_json(value, &q) || (q.nanos > 0 && q.nanos <= AMOUNT_NANOS_MAX))
        return;
    text = quantity_json(errors->arena, &q);
    field_invalid(errors, path, &text, "%s", q.nanos > 0 ? AMOUNT_RULE : "must be greater than zero");
}

static void check_class_name(struct field_errors *errors, const struct json *spec)
{
    const struct json *name = json_get(spec, "storageClassName");

    if (json_str(name).len)
        check_text(errors, "spec.storageClassName", name, rule_dns_subdomain);
}

/* ---- claims ---- */

static void set_member(struct arena *arena, struct json *to, const char *key, const struct json *value)
{
    if (value)
        json_set(arena, to, key, *json_copy(arena, value));
    else
        json_remove(to, key);
}

static void check_claim_update(struct field_errors *errors, const struct json *doc, const struct json *old)
{
    const struct json *was = json_get(old, "spec");
    struct json *now = json_copy(errors->arena, json_get(doc, "spec"));
    struct json *before = json_copy(errors->arena, was);
    const struct json *size = json_at(doc, "spec.resources.requests.storage");
    const struct json *old_size = json_at(old, "spec.resources.requests.storage");
    struct json *requests = json_at(now, "resources.requests");
    struct quantity q, old_q, capacity = {0};

    if (!json_str(json_get(was, "volumeName")).len)
        set_member(errors->arena, before, "volumeName", json_get(now, "volumeName"));
    /* A class may be filled in where none was asked for. */
    if (!json_present(json_get(was, "storageClassName")))
        set_member(errors->arena, before, "storageClassName", json_get(now, "storageClassName"));
    if (streq(json_at_string(doc, "status.phase"), "Bound") && json_is(requests, JSON_OBJECT))
        set_member(errors->arena, requests, "storage", old_size);
    if (!semantic_equal(now, before))
        field_forbidden(errors, "spec",
                        "spec is immutable after creation except resources.requests and "
                        "volumeAttributesClassName for bound claims\n");
    quantity_from_json(json_at(old, "status.capacity.storage"), &capacity);
    if (quantity_from_json(size, &q) && quantity_from_json(old_size, &old_q) &&
        quantity_cmp(&q, &old_q) < 0 && quantity_cmp(&q, &capacity) <= 0)
        field_forbidden(errors, "spec.resources.requests.storage",
                        "field can not be less than status.capacity");
    check_immutable(errors, "volumeMode", json_at(doc, "spec.volumeMode"), json_get(was, "volumeMode"));
}

void validate_pvc(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                  struct field_errors *errors)
{
    const struct json *spec = json_get(doc, "spec"), *size = json_at(spec, "resources.requests.storage");

    (void)ctx;
    check_access_modes(errors, json_get(spec, "accessModes"), "at least 1 access mode is required");
    check_label_selector(errors, "spec.selector", json_get(spec, "selector"));
    if (!json_present(size))
        field_required(errors, "spec.resources[storage]", "%s", "");
    else
        check_positive_amount(errors, "spec.resources[storage]", size);
    check_class_name(errors, spec);
    if (json_present(json_get(spec, "volumeMode")))
        check_one_of(errors, "spec.volumeMode", json_get(spec, "volumeMode"), volume_modes);
    if (old)
        check_claim_update(errors, doc, old);
}

/* ---- volumes ---- */

/* Members of a volume's spec that are not what holds the data. */
static const char *const not_sources[] = {"accessModes",      "capacity",
                                          "claimRef",         "mountOptions",
                                          "nodeAffinity",     "persistentVolumeReclaimPolicy",
                                          "storageClassName", "volumeAttributesClassName",
                                          "volumeMode",       NULL};

static struct json *source_of(struct arena *arena, const struct json *spec)
{
    struct json *copy = json_copy(arena, spec);

    for (const char *const *name = not_sources; *name; name++)
        json_remove(copy, *name);
    return copy;
}

static void check_volume_update(struct field_errors *errors, const struct json *spec, const struct json *old)
{
    if (!semantic_equal(source_of(errors->arena, spec), source_of(errors->arena, old)))
        field_forbidden(errors, "spec.persistentvolumesource",
                        "spec.persistentvolumesource is immutable after creation\n");
    check_immutable(errors, "volumeMode", json_get(spec, "volumeMode"), json_get(old, "volumeMode"));
    if (json_present(json_get(old, "nodeAffinity")) &&
        !semantic_equal(json_get(spec, "nodeAffinity"), json_get(old, "nodeAffinity")))
        field_invalid(errors, "nodeAffinity", json_get(spec, "nodeAffinity"), "field is immutable");
}

static void check_only_storage(struct field_errors *errors, const struct json *capacity)
{
    static const char *const only_storage[] = {"storage", NULL};

    if (json_present(capacity))
        field_unsupported(errors, "spec.capacity", capacity, only_storage);
    else
        field_message(errors, "spec.capacity", "FieldValueNotSupported",
                      "Unsupported value: core.ResourceList(nil): supported values: \"storage\"");
}

void validate_pv(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                 struct field_errors *errors)
{
    const struct json *spec = json_get(doc, "spec"), *capacity = json_get(spec, "capacity");
    const struct json *required = json_at(spec, "nodeAffinity.required");

    (void)ctx;
    check_access_modes(errors, json_get(spec, "accessModes"), "");
    if (!json_len(capacity))
        field_required(errors, "spec.capacity", "%s", "");
    if (!json_get(capacity, "storage") || json_len(capacity) > 1)
        check_only_storage(errors, capacity);
    JSON_EACH_MEMBER(capacity, member)
        check_positive_amount(errors, AT(errors, "spec.capacity[%s]", member->key), &member->value);
    check_one_of(errors, "spec.persistentVolumeReclaimPolicy",
                 json_get(spec, "persistentVolumeReclaimPolicy"), reclaim_policies);
    if (json_present(json_get(spec, "nodeAffinity"))) {
        if (json_present(required))
            check_node_selector(errors, "spec.nodeAffinity.required", required);
        else
            field_required(errors, "spec.nodeAffinity.required", "must specify required node constraints");
    }
    check_volume_source(errors, "spec", spec, not_sources);
    if (json_present(json_get(spec, "local")) && !json_present(json_get(spec, "nodeAffinity")))
        field_required(errors, "spec.nodeAffinity", "Local volume requires node affinity");
    if (streq(json_at_string(spec, "hostPath.path"), "/") &&
        streq(json_get_string(spec, "persistentVolumeReclaimPolicy"), "Recycle"))
        field_forbidden(errors, "spec.persistentVolumeReclaimPolicy",
                        "may not be 'recycle' for a hostPath mount of '/'");
    check_class_name(errors, spec);
    if (json_present(json_get(spec, "volumeMode")))
        check_one_of(errors, "spec.volumeMode", json_get(spec, "volumeMode"), volume_modes);
    if (old)
        check_volume_update(errors, spec, json_get(old, "spec"));
}

/* ---- storage classes ---- */

static void check_parameters(struct field_errors *errors, const struct json *parameters)
{
    size_t total = 0;

    if (json_len(parameters) > PARAMETERS_MAX) {
        field_too_long(errors, "parameters", PARAMETERS_MAX);
        return;
    }
    JSON_EACH_MEMBER(parameters, member) {
        const struct json key = json_of_string_ref(member->key);

        if (!member->key_len)
            field_invalid(errors, "parameters", &key, "field can not be empty.");
        total += member->key_len + json_str(&member->value).len;
    }
    if (total > PARAMETERS_BYTES_MAX)
        field_too_long(errors, "parameters", PARAMETERS_BYTES_MAX);
}

void validate_storage_class(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                            struct field_errors *errors)
{
    static const char *const policies[] = {"Delete", "Retain", NULL};
    static const char *const modes[] = {"Immediate", "WaitForFirstConsumer", NULL};
    static const char *const fixed[] = {"parameters", "provisioner", "reclaimPolicy"};
    const struct json *provisioner = json_get(doc, "provisioner");

    (void)ctx;
    if (old) {
        for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
            if (!semantic_equal(json_get(doc, fixed[i]), json_get(old, fixed[i])))
                field_forbidden(errors, fixed[i], "updates to %s are forbidden.", fixed[i]);
        check_immutable(errors, "volumeBindingMode", json_get(doc, "volumeBindingMode"),
                        json_get(old, "volumeBindingMode"));
        return;
    }
    if (check_required(errors, "provisioner", provisioner)) {
        char *lower = arena_strdup(errors->arena, json_string(provisioner));

        for (char *c = lower; *c; c++)
            *c = (char)(*c >= 'A' && *c <= 'Z' ? *c + ('a' - 'A') : *c);
        check_str(errors, "provisioner", str_from(lower), rule_qualified_name);
    }
    check_parameters(errors, json_get(doc, "parameters"));
    check_one_of(errors, "reclaimPolicy", json_get(doc, "reclaimPolicy"), policies);
    check_one_of(errors, "volumeBindingMode", json_get(doc, "volumeBindingMode"), modes);
}
