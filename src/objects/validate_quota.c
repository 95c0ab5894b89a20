/* Resource quotas and limit ranges. */
#include "objects/rules.h"

/* ---- quotas ---- */

static const char *const scopes[] = {"Terminating",
                                     "NotTerminating",
                                     "BestEffort",
                                     "NotBestEffort",
                                     "PriorityClass",
                                     "VolumeAttributesClass",
                                     "CrossNamespacePodAffinity",
                                     NULL};

static bool in_list(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (streq(name, *list))
            return true;
    return false;
}

/* Scopes choose pods (or claims), so they go only with what is counted of those. */
static bool scope_covers(const char *scope, const char *resource)
{
    static const char *const of_pods[] = {"pods",          "cpu",          "memory",          "limits.cpu",
                                          "limits.memory", "requests.cpu", "requests.memory", NULL};
    static const char *const of_claims[] = {"persistentvolumeclaims", "requests.storage", NULL};

    if (streq(scope, "BestEffort"))
        return streq(resource, "pods");
    if (streq(scope, "VolumeAttributesClass"))
        return in_list(resource, of_claims);
    return !in_list(scope, scopes) || in_list(resource, of_pods);
}

struct scope_set {
    bool has[ARRAY_LEN(scopes)];
};

static void check_scope(struct field_errors *errors, const char *path, const struct json *value,
                        const char *scope, const struct json *hard, struct scope_set *set)
{
    if (!in_list(scope, scopes))
        field_invalid(errors, path, value, "unsupported scope");
    JSON_EACH_MEMBER(hard, member)
        if (resource_is_standard_quota(member->key) && !scope_covers(scope, member->key))
            field_invalid(errors, path, value, "unsupported scope applied to resource");
    for (size_t i = 0; scopes[i]; i++)
        set->has[i] |= streq(scope, scopes[i]);
}

static void check_conflicts(struct field_errors *errors, const char *path, const struct json *value,
                            const struct scope_set *set)
{
    if ((set->has[0] && set->has[1]) || (set->has[2] && set->has[3]))
        field_invalid(errors, path, value, "conflicting scopes");
}

static void check_scope_expression(struct field_errors *errors, const char *path,
                                   const struct json *expression)
{
    const char *scope = json_string_or(json_get(expression, "scopeName"), "");
    const struct json *op = json_get(expression, "operator"), *values = json_get(expression, "values");
    const char *op_text = json_string_or(op, "");

    if (in_list(scope, scopes) && !streq(scope, "PriorityClass") && !streq(scope, "VolumeAttributesClass") &&
        !streq(op_text, "Exists"))
        field_invalid(errors, AT(errors, "%s.operator", path), op,
                      "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
                      "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
                      "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity");
    if (streq(op_text, "In") || streq(op_text, "NotIn")) {
        if (!json_len(values))
            field_required(
                errors, AT(errors, "%s.values", path),
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector");
    } else if (streq(op_text, "Exists") || streq(op_text, "DoesNotExist")) {
        if (json_len(values))
            field_invalid(errors, AT(errors, "%s.values", path), values,
                          "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector");
    } else {
        field_invalid(errors, AT(errors, "%s.operator", path), op, "not a valid selector operator");
    }
}

static bool same_set(const struct json *a, const struct json *b)
{
    JSON_EACH(a, item) {
        bool found = false;

        JSON_EACH(b, other)
            found |= json_equal(item, other);
        if (!found)
            return false;
    }
    return true;
}

void validate_resource_quota(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                             struct field_errors *errors)
{
    static const char path[] = "spec.scopeSelector.matchExpressions";
    const struct json *spec = json_get(doc, "spec"), *hard = json_get(spec, "hard");
    const struct json *listed = json_get(spec, "scopes"), *selector = json_get(spec, "scopeSelector");
    const struct json *old_scopes = json_at(old, "spec.scopes");
    struct scope_set set = {0}, chosen = {0};

    (void)ctx;
    JSON_EACH_MEMBER(hard, member) {
        const char *at = AT(errors, "spec.hard[%s]", member->key);

        check_quota_resource_name(errors, at, member->key);
        check_resource_amount(errors, at, member->key, &member->value);
    }
    JSON_EACH(listed, scope)
        check_scope(errors, "spec.scopes", listed, json_string_or(scope, ""), hard, &set);
    check_conflicts(errors, "spec.scopes", listed, &set);
    JSON_EACH(json_get(selector, "matchExpressions"), expression) {
        check_scope(errors, path, selector, json_string_or(json_get(expression, "scopeName"), ""), hard,
                    &chosen);
        check_scope_expression(errors, path, expression);
    }
    check_conflicts(errors, path, selector, &chosen);
    if (old && (!same_set(listed, old_scopes) || !same_set(old_scopes, listed)))
        field_invalid(errors, "spec.scopes", listed, "field is immutable");
}

/* ---- limit ranges ---- */

struct limit_values {
    struct quantity min, max, limit, request, ratio;
    bool has_min, has_max, has_limit, has_request, has_ratio;
};

/* a must not be above b. */
static void check_order(struct field_errors *errors, const char *path, const struct quantity *shown,
                        const struct quantity *a, const char *a_name, const struct quantity *b,
                        const char *b_name)
{
    char a_text[QUANTITY_TEXT_MAX], b_text[QUANTITY_TEXT_MAX];
    struct json value;

    if (quantity_cmp(a, b) <= 0)
        return;
    value = quantity_json(errors->arena, shown);
    field_invalid(errors, path, &value, "%s value %s is greater than %s value %s", a_name,
                  quantity_format(a, a_text), b_name, quantity_format(b, b_text));
}

static void check_ratio(struct field_errors *errors, const char *path, const char *name,
                        const struct limit_values *v)
{
    const struct quantity one = quantity_of_int(1);
    char text[QUANTITY_TEXT_MAX];
    struct json value = quantity_json(errors->arena, &v->ratio);
    double most;

    path = AT(errors, "%s.maxLimitRequestRatio[%s]", path, name);
    if (quantity_cmp(&v->ratio, &one) < 0)
        field_invalid(errors, path, &value, "ratio %s is less than 1", quantity_format(&v->ratio, text));
    if (!v->has_min || !v->has_max || v->min.nanos <= 0)
        return;
    most = (double)v->max.nanos / (double)v->min.nanos;
    if ((double)v->ratio.nanos / 1e9 > most)
        field_invalid(errors, path, &value, "ratio %s is greater than max/min = %f",
                      quantity_format(&v->ratio, text), most);
}

static void check_limit(struct field_errors *errors, const char *path, const char *name,
                        const struct json *item)
{
    struct limit_values v = {0};
    const char *min_path = AT(errors, "%s.min[%s]", path, name);
    const char *default_path = AT(errors, "%s.default[%s]", path, name);
    const char *request_path = AT(errors, "%s.defaultRequest[%s]", path, name);
    char limit_text[QUANTITY_TEXT_MAX], request_text[QUANTITY_TEXT_MAX];

    v.has_min = quantity_from_json(json_get(json_get(item, "min"), name), &v.min);
    v.has_max = quantity_from_json(json_get(json_get(item, "max"), name), &v.max);
    v.has_limit = quantity_from_json(json_get(json_get(item, "default"), name), &v.limit);
    v.has_request = quantity_from_json(json_get(json_get(item, "defaultRequest"), name), &v.request);
    v.has_ratio = quantity_from_json(json_get(json_get(item, "maxLimitRequestRatio"), name), &v.ratio);
    if (v.has_min && v.has_max)
        check_order(errors, min_path, &v.min, &v.min, "min", &v.max, "max");
    if (v.has_request && v.has_min)
        check_order(errors, request_path, &v.request, &v.min, "min", &v.request, "default request");
    if (v.has_request && v.has_max)
        check_order(errors, request_path, &v.request, &v.request, "default request", &v.max, "max");
    if (v.has_request && v.has_limit)
        check_order(errors, request_path, &v.request, &v.request, "default request", &v.limit,
                    "default limit");
    if (v.has_limit && v.has_min)
        check_order(errors, default_path, &v.min, &v.min, "min", &v.limit, "default");
    if (v.has_limit && v.has_max)
        check_order(errors, default_path, &v.max, &v.limit, "default", &v.max, "max");
    if (v.has_ratio)
        check_ratio(errors, path, name, &v);
    if (!resource_allows_overcommit(name) && v.has_limit && v.has_request &&
        quantity_cmp(&v.limit, &v.request) != 0) {
        struct json value = quantity_json(errors->arena, &v.request);

        field_invalid(errors, request_path, &value,
                      "default value %s must equal to defaultRequest value %s in %s",
                      quantity_format(&v.limit, limit_text), quantity_format(&v.request, request_text), name);
    }
}

static void check_limit_item(struct field_errors *errors, const char *path, const struct json *item)
{
    static const char *const lists[] = {"max", "min", "default", "defaultRequest", "maxLimitRequestRatio"};
    const char *type = json_string_or(json_get(item, "type"), "");
    bool of_pods = streq(type, "Pod"), of_containers = of_pods || streq(type, "Container");
    struct json *seen = json_new_object(errors->arena);

    for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
        const struct json *list = json_get(item, lists[i]);
        const char *at = AT(errors, "%s.%s", path, lists[i]);

        if (of_pods && (i == 2 || i == 3)) {
            if (json_len(list))
                field_forbidden(errors, at, "may not be specified when `type` is 'Pod'");
            continue;
        }
        JSON_EACH_MEMBER(list, member) {
            if (of_containers)
                check_container_resource_name(errors, AT(errors, "%s[%s]", at, member->key), member->key);
            else
                check_resource_name(errors, AT(errors, "%s[%s]", at, member->key), member->key);
            json_set_bool(errors->arena, seen, member->key, true);
        }
    }
    if (streq(type, "PersistentVolumeClaim") && !json_get(json_get(item, "min"), "storage") &&
        !json_get(json_get(item, "max"), "storage"))
        field_required(errors, AT(errors, "%s.limits", path),
                       "either minimum or maximum storage value is required, but neither was provided");
    JSON_EACH_MEMBER(seen, name)
        check_limit(errors, path, name->key, item);
}

void validate_limit_range(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                          struct field_errors *errors)
{
    static const char *const types[] = {"Pod", "Container", "PersistentVolumeClaim", NULL};
    struct json *seen = json_new_object(errors->arena);
    size_t i = 0;

    (void)ctx;
    (void)old;
    JSON_EACH(json_at(doc, "spec.limits"), item) {
        const char *path = AT(errors, "spec.limits[%zu]", i++);
        const char *type_path = AT(errors, "%s.type", path);
        const struct json *type = json_get(item, "type");
        const char *text = json_string_or(type, "");

        if (check_text(errors, type_path, type, rule_qualified_name) && !strchr(text, '/') &&
            !in_list(text, types))
            field_invalid(errors, type_path, type, "must be a standard limit type or fully qualified");
        if (json_get(seen, text))
            field_duplicate(errors, type_path, type);
        json_set_bool(errors->arena, seen, text, true);
        check_limit_item(errors, path, item);
    }
}
