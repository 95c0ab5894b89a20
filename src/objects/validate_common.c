/* Checks that several kinds share: required and limited values, ports, addresses, selectors, paths inside
 * volumes, resource names and amounts, and equality as Kubernetes means it. */
#include "objects/names.h"
#include "objects/rules.h"
#include "objects/selector.h"

#include <arpa/inet.h>

bool check_required(struct field_errors *errors, const char *path, const struct json *value)
{
    if (json_present(value) && !(value->type == JSON_STRING && value->len == 0))
        return true;
    field_required(errors, path, "%s", "");
    return false;
}

bool check_one_of(struct field_errors *errors, const char *path, const struct json *value,
                  const char *const *choices)
{
    const char *text = json_string_or(value, "");

    for (const char *const *choice = choices; *choice; choice++)
        if (streq(text, *choice))
            return true;
    if (!*text)
        field_required(errors, path, "%s", "");
    else
        field_unsupported(errors, path, value, choices);
    return false;
}

bool check_not_negative(struct field_errors *errors, const char *path, const struct json *value)
{
    if (!json_present(value) || json_int(value, 0) >= 0)
        return true;
    field_invalid(errors, path, value, "must be greater than or equal to 0");
    return false;
}

bool check_positive(struct field_errors *errors, const char *path, const struct json *value)
{
    const struct json zero = json_of_int(0);

    if (json_int(value, 0) > 0)
        return true;
    field_invalid(errors, path, json_present(value) ? value : &zero, "must be greater than zero");
    return false;
}

bool check_range(struct field_errors *errors, const char *path, const struct json *value, int64_t min,
                 int64_t max)
{
    int64_t n = json_int(value, min);

    if (!json_present(value) || (n >= min && n <= max && value->type != JSON_BIG))
        return true;
    field_invalid(errors, path, value, "must be between %lld and %lld, inclusive", (long long)min,
                  (long long)max);
    return false;
}

bool check_port(struct field_errors *errors, const char *path, const struct json *value)
{
    const struct json zero = json_of_int(0);

    return check_range(errors, path, json_present(value) ? value : &zero, 1, UINT16_MAX);
}

bool check_port_or_name(struct field_errors *errors, const char *path, const struct json *value)
{
    if (json_is(value, JSON_STRING))
        return check_text(errors, path, value, rule_port_name);
    return check_port(errors, path, value);
}

bool check_ip(struct field_errors *errors, const char *path, const struct json *value)
{
    const char *text = json_string_or(value, "");
    struct in6_addr address;

    if (inet_pton(AF_INET, text, &address) == 1 || inet_pton(AF_INET6, text, &address) == 1)
        return true;
    field_invalid(errors, path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    return false;
}

/* ---- selectors ---- */

static void check_requirement(struct field_errors *errors, const char *path, const struct json *requirement)
{
    const char *op = json_string_or(json_get(requirement, "operator"), "");
    const struct json *values = json_get(requirement, "values");
    size_t i = 0;

    if (streq(op, "In") || streq(op, "NotIn")) {
        if (!json_len(values))
            field_required(errors, AT(errors, "%s.values", path),
                           "must be specified when `operator` is 'In' or 'NotIn'");
    } else if (streq(op, "Exists") || streq(op, "DoesNotExist")) {
        if (json_len(values))
            field_forbidden(errors, AT(errors, "%s.values", path),
                            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
    } else {
        field_invalid(errors, AT(errors, "%s.operator", path), json_get(requirement, "operator"),
                      "not a valid selector operator");
    }
    check_text(errors, AT(errors, "%s.key", path), json_get(requirement, "key"), rule_qualified_name);
    JSON_EACH(values, value)
        check_text(errors, AT(errors, "%s.values[%zu]", path, i++), value, rule_label_value);
}

void check_label_selector(struct field_errors *errors, const char *path, const struct json *selector)
{
    size_t i = 0;

    check_labels(errors, AT(errors, "%s.matchLabels", path), json_get(selector, "matchLabels"));
    JSON_EACH(json_get(selector, "matchExpressions"), requirement)
        check_requirement(errors, AT(errors, "%s.matchExpressions[%zu]", path, i++), requirement);
}

bool selector_matches_json(const struct json *selector, const struct json *labels, struct arena *arena)
{
    struct selector *parsed;

    if (selector_from_json(selector, arena, &parsed, NULL) < 0)
        return true; /* said already, by check_label_selector */
    return selector_matches_labels(parsed, labels);
}

/* ---- paths ---- */

bool has_backsteps(struct str text)
{
    struct str part;

    while (str_split(&text, '/', &part))
        if (str_is(part, ".."))
            return true;
    return false;
}

bool check_no_backsteps(struct field_errors *errors, const char *path, const struct json *value)
{
    if (!has_backsteps(json_str(value)))
        return true;
    field_invalid(errors, path, value, "must not contain '..'");
    return false;
}

bool check_descending_path(struct field_errors *errors, const char *path, const struct json *value)
{
    bool relative = !starts_with(json_string_or(value, ""), "/");

    if (!relative)
        field_invalid(errors, path, value, "must be a relative path");
    return check_no_backsteps(errors, path, value) && relative;
}

bool check_item_path(struct field_errors *errors, const char *path, const struct json *value)
{
    const char *text = json_string_or(value, "");
    bool good = check_descending_path(errors, path, value);

    if (starts_with(text, "..") && !starts_with(text, "../")) {
        field_invalid(errors, path, value, "must not start with '..'");
        return false;
    }
    return good;
}

/* ---- equality ---- */

static bool in_list(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (streq(name, *list))
            return true;
    return false;
}

/* What typed clients leave out when it is false or 0, so that sending it and not sending it are the same. */
static const char *const left_out[] = {"hostNetwork", "hostPID",  "hostIPC",  "stdin",  "stdinOnce",
                                       "tty",         "readOnly", "hostPort", "weight", NULL};
static const char *const amounts[] = {"limits", "requests", "overhead", "capacity", "hard", NULL};

static bool is_empty(const char *key, const struct json *value)
{
    if (!json_present(value))
        return true;
    switch (value->type) {
    case JSON_STRING:
    case JSON_ARRAY:
    case JSON_OBJECT:
        return value->len == 0;
    case JSON_BOOL:
        return !value->boolean && in_list(key, left_out);
    case JSON_INT:
        return value->integer == 0 && in_list(key, left_out);
    default:
        return false;
    }
}

static bool equal_at(const char *key, const struct json *a, const struct json *b, bool quantities);

static bool equal_members(const struct json *a, const struct json *b, bool quantities)
{
    JSON_EACH_MEMBER(a, member)
        if (!equal_at(member->key, &member->value, json_get(b, member->key), quantities))
            return false;
    JSON_EACH_MEMBER(b, member)
        if (!json_get(a, member->key) && !is_empty(member->key, &member->value))
            return false;
    return true;
}

static bool equal_at(const char *key, const struct json *a, const struct json *b, bool quantities)
{
    struct quantity qa, qb;

    if (json_is(a, JSON_OBJECT) && json_is(b, JSON_OBJECT))
        return equal_members(a, b, in_list(key, amounts));
    if (is_empty(key, a) || is_empty(key, b))
        return is_empty(key, a) && is_empty(key, b);
    if (a->type == JSON_ARRAY && b->type == JSON_ARRAY) {
        if (a->len != b->len)
            return false;
        for (size_t i = 0; i < a->len; i++)
            if (!equal_at("", json_item(a, i), json_item(b, i), false))
                return false;
        return true;
    }
    if (quantities && quantity_from_json(a, &qa) && quantity_from_json(b, &qb))
        return quantity_cmp(&qa, &qb) == 0;
    return json_equal(a, b);
}

bool semantic_equal(const struct json *a, const struct json *b)
{
    return equal_at("", a, b, false);
}

/* ---- resource names and amounts ---- */

bool resource_is_huge_page(const char *name)
{
    return starts_with(name, "hugepages-");
}

static bool is_native(const char *name)
{
    return !strchr(name, '/') || strstr(name, "kubernetes.io/");
}

bool resource_is_extended(const char *name)
{
    const char *msgs[RULE_MSGS_MAX];
    char quota[512];

    if (is_native(name) || starts_with(name, "requests."))
        return false;
    /* It must also be a name under which a quota can count it. */
    if ((size_t)snprintf(quota, sizeof(quota), "requests.%s", name) >= sizeof(quota))
        return false;
    return rule_qualified_name(str_from(quota), msgs) == 0;
}

bool resource_allows_overcommit(const char *name)
{
    return is_native(name) && !resource_is_huge_page(name);
}

static const char *const counted[] = {
    "pods",       "resourcequotas",         "services",           "replicationcontrollers", "secrets",
    "configmaps", "persistentvolumeclaims", "services.nodeports", "services.loadbalancers", NULL,
};
static const char *const computed[] = {
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    NULL,
};
static const char *const container_resources[] = {"cpu", "memory", "ephemeral-storage", NULL};

bool resource_is_standard_quota(const char *name)
{
    return in_list(name, counted) || in_list(name, computed) || resource_is_huge_page(name) ||
           starts_with(name, "requests.hugepages-");
}

static bool complain(struct field_errors *errors, const char *path, const char *name, const char *why)
{
    /* Names of resources stand without quotes. */
    field_message(errors, path, "FieldValueInvalid", "Invalid value: %s: %s", name, why);
    return false;
}

bool check_resource_name(struct field_errors *errors, const char *path, const char *name)
{
    const char *msgs[RULE_MSGS_MAX];
    size_t n = rule_qualified_name(str_from(name), msgs);

    for (size_t i = 0; i < n; i++)
        complain(errors, path, name, msgs[i]);
    if (n)
        return false;
    if (strchr(name, '/') || resource_is_standard_quota(name) || streq(name, "storage"))
        return true;
    return complain(errors, path, name, "must be a standard resource type or fully qualified");
}

bool check_container_resource_name(struct field_errors *errors, const char *path, const char *name)
{
    bool good = check_resource_name(errors, path, name);

    if (!strchr(name, '/')) {
        if (!in_list(name, container_resources) && !resource_is_huge_page(name))
            return complain(errors, path, name, "must be a standard resource for containers");
    } else if (!is_native(name) && !resource_is_extended(name)) {
        return complain(errors, path, name, "doesn't follow extended resource name standard");
    }
    return good;
}

bool check_quota_resource_name(struct field_errors *errors, const char *path, const char *name)
{
    bool good = check_resource_name(errors, path, name);

    if (!strchr(name, '/') && !resource_is_standard_quota(name))
        return complain(errors, path, name, "must be a standard resource for quota");
    return good;
}

struct json quantity_json(struct arena *arena, const struct quantity *q)
{
    char text[QUANTITY_TEXT_MAX];

    return json_of_str(arena, str_from(quantity_format(q, text)));
}

bool check_resource_amount(struct field_errors *errors, const char *path, const char *name,
                           const struct json *value)
{
    struct quantity q;
    struct json text;

    if (!quantity_from_json(value, &q))
        return true; /* schema_check has said so */
    text = quantity_json(errors->arena, &q);
    if (q.nanos < 0) {
        field_invalid(errors, path, &text, "must be greater than or equal to 0");
        return false;
    }
    if (q.nanos > AMOUNT_NANOS_MAX) {
        field_invalid(errors, path, &text, AMOUNT_RULE);
        return false;
    }
    if (streq(name, GPU_RESOURCE) && q.nanos > (__int128)POD_GPUS_MAX * 1000000000) {
        field_invalid(errors, path, &text, "must be less than or equal to %d", POD_GPUS_MAX);
        return false;
    }
    if ((in_list(name, counted) || resource_is_extended(name)) && q.nanos % 1000000000 != 0) {
        field_invalid(errors, path, &text, "must be an integer");
        return false;
    }
    return true;
}
