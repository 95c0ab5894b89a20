/* Where pods may go: node selectors, affinity, tolerations, spreading. */
#include "objects/rules.h"

static void check_node_expression(struct field_errors *errors, const char *path,
                                  const struct json *expression)
{
    const char *op = json_string_or(json_get(expression, "operator"), "");
    const struct json *values = json_get(expression, "values");
    size_t i = 0;

    if (streq(op, "In") || streq(op, "NotIn")) {
        if (!json_len(values))
            field_required(errors, AT(errors, "%s.values", path),
                           "must be specified when `operator` is 'In' or 'NotIn'");
    } else if (streq(op, "Exists") || streq(op, "DoesNotExist")) {
        if (json_len(values))
            field_forbidden(errors, AT(errors, "%s.values", path),
                            "may not be specified when `operator` is 'Exists' or 'DoesNotExist'");
    } else if (streq(op, "Gt") || streq(op, "Lt")) {
        if (json_len(values) != 1)
            field_required(errors, AT(errors, "%s.values", path),
                           "must be specified single value when `operator` is 'Lt' or 'Gt'");
    } else {
        field_invalid(errors, AT(errors, "%s.operator", path), json_get(expression, "operator"),
                      "not a valid selector operator");
    }
    check_text(errors, AT(errors, "%s.key", path), json_get(expression, "key"), rule_qualified_name);
    JSON_EACH(values, value)
        check_text(errors, AT(errors, "%s.values[%zu]", path, i++), value, rule_label_value);
}

static void check_node_field(struct field_errors *errors, const char *path, const struct json *expression)
{
    const char *op = json_string_or(json_get(expression, "operator"), "");
    const struct json *values = json_get(expression, "values");

    if (!streq(op, "In") && !streq(op, "NotIn"))
        field_invalid(errors, AT(errors, "%s.operator", path), json_get(expression, "operator"),
                      "not a valid selector operator");
    else if (json_len(values) != 1)
        field_required(errors, AT(errors, "%s.values", path),
                       "must be only one value when `operator` is 'In' or 'NotIn' for node field selector");
    if (!streq(json_get_string(expression, "key"), "metadata.name"))
        field_invalid(errors, AT(errors, "%s.key", path), json_get(expression, "key"),
                      "not a valid field selector key");
}

static void check_node_term(struct field_errors *errors, const char *path, const struct json *term)
{
    size_t i = 0, k = 0;

    JSON_EACH(json_get(term, "matchExpressions"), expression)
        check_node_expression(errors, AT(errors, "%s.matchExpressions[%zu]", path, i++), expression);
    JSON_EACH(json_get(term, "matchFields"), expression)
        check_node_field(errors, AT(errors, "%s.matchFields[%zu]", path, k++), expression);
}

void check_node_selector(struct field_errors *errors, const char *path, const struct json *selector)
{
    const struct json *terms = json_get(selector, "nodeSelectorTerms");
    size_t i = 0;

    if (!json_len(terms))
        field_required(errors, AT(errors, "%s.nodeSelectorTerms", path),
                       "must have at least one node selector term");
    JSON_EACH(terms, term)
        check_node_term(errors, AT(errors, "%s.nodeSelectorTerms[%zu]", path, i++), term);
}

static void check_weight(struct field_errors *errors, const char *path, const struct json *term)
{
    const struct json *weight = json_get(term, "weight"), zero = json_of_int(0);
    int64_t n = json_int(weight, 0);

    if (n < 1 || n > 100)
        field_invalid(errors, AT(errors, "%s.weight", path), weight ? weight : &zero,
                      "must be in the range 1-100");
}

static void check_pod_term(struct field_errors *errors, const char *path, const struct json *term)
{
    const struct json *key = json_get(term, "topologyKey");

    check_label_selector(errors, AT(errors, "%s.labelSelector", path), json_get(term, "labelSelector"));
    check_label_selector(errors, AT(errors, "%s.namespaceSelector", path),
                         json_get(term, "namespaceSelector"));
    JSON_EACH(json_get(term, "namespaces"), name)
        check_text(errors, AT(errors, "%s.namespace", path), name, rule_dns_label);
    if (!json_str(key).len)
        field_required(errors, AT(errors, "%s.topologyKey", path), "can not be empty");
    check_text(errors, AT(errors, "%s.topologyKey", path), key, rule_qualified_name);
}

#define REQUIRED  "requiredDuringSchedulingIgnoredDuringExecution"
#define PREFERRED "preferredDuringSchedulingIgnoredDuringExecution"

static void check_pod_affinity(struct field_errors *errors, const char *path, const struct json *affinity)
{
    size_t i = 0, k = 0;

    JSON_EACH(json_get(affinity, REQUIRED), term)
        check_pod_term(errors, AT(errors, "%s." REQUIRED "[%zu]", path, i++), term);
    JSON_EACH(json_get(affinity, PREFERRED), term) {
        const char *at = AT(errors, "%s." PREFERRED "[%zu]", path, k++);

        check_weight(errors, at, term);
        check_pod_term(errors, AT(errors, "%s.podAffinityTerm", at), json_get(term, "podAffinityTerm"));
    }
}

void check_affinity(struct field_errors *errors, const char *path, const struct json *affinity)
{
    static const char *const pods[] = {"podAffinity", "podAntiAffinity"};
    const struct json *node = json_get(affinity, "nodeAffinity"), *required = json_get(node, REQUIRED);
    size_t i = 0;

    if (json_present(required))
        check_node_selector(errors, AT(errors, "%s.nodeAffinity." REQUIRED, path), required);
    JSON_EACH(json_get(node, PREFERRED), term) {
        const char *at = AT(errors, "%s.nodeAffinity." PREFERRED "[%zu]", path, i++);

        check_weight(errors, at, term);
        check_node_term(errors, AT(errors, "%s.preference", at), json_get(term, "preference"));
    }
    for (size_t k = 0; k < ARRAY_LEN(pods); k++)
        if (json_present(json_get(affinity, pods[k])))
            check_pod_affinity(errors, AT(errors, "%s.%s", path, pods[k]), json_get(affinity, pods[k]));
}

const char *const taint_effects[] = {"NoSchedule", "PreferNoSchedule", "NoExecute", NULL};

static void check_toleration(struct field_errors *errors, const char *path, const struct json *toleration)
{
    static const char *const operators[] = {"Equal", "Exists", NULL};
    const struct json *key = json_get(toleration, "key"), *op = json_get(toleration, "operator");
    const struct json *value = json_get(toleration, "value"), *effect = json_get(toleration, "effect");
    const struct json empty = json_of_string_ref("");
    const char *op_text = json_string_or(op, "");
    const char *msgs[RULE_MSGS_MAX];
    const char *op_path = AT(errors, "%s.operator", path);

    if (json_str(key).len)
        check_text(errors, AT(errors, "%s.key", path), key, rule_qualified_name);
    else if (!streq(op_text, "Exists"))
        field_invalid(errors, op_path, op ? op : &empty,
                      "operator must be Exists when `key` is empty, which means \"match all values and all "
                      "keys\"");
    if (json_present(json_get(toleration, "tolerationSeconds")) && !streq(json_string(effect), "NoExecute"))
        field_invalid(errors, AT(errors, "%s.effect", path), effect ? effect : &empty,
                      "effect must be 'NoExecute' when `tolerationSeconds` is set");
    if (streq(op_text, "Exists")) {
        if (json_str(value).len)
            field_invalid(errors, op_path, value, "value must be empty when `operator` is 'Exists'");
    } else if (!*op_text || streq(op_text, "Equal")) {
        if (value && rule_label_value(json_str(value), msgs))
            field_invalid(errors, op_path, value, "%s", msgs[0]);
    } else {
        field_unsupported(errors, op_path, op, operators);
    }
    if (json_str(effect).len)
        check_one_of(errors, AT(errors, "%s.effect", path), effect, taint_effects);
}

void check_tolerations(struct field_errors *errors, const char *path, const struct json *tolerations)
{
    size_t i = 0;

    JSON_EACH(tolerations, toleration)
        check_toleration(errors, AT(errors, "%s[%zu]", path, i++), toleration);
}

void check_spread(struct field_errors *errors, const char *path, const struct json *constraints)
{
    static const char *const actions[] = {"DoNotSchedule", "ScheduleAnyway", NULL};
    const struct json empty = json_of_string_ref("");
    size_t i = 0;

    JSON_EACH(constraints, constraint) {
        const char *at = AT(errors, "%s[%zu]", path, i++);
        const struct json *action = json_get(constraint, "whenUnsatisfiable");

        check_positive(errors, AT(errors, "%s.maxSkew", at), json_get(constraint, "maxSkew"));
        if (!json_str(json_get(constraint, "topologyKey")).len)
            field_required(errors, AT(errors, "%s.topologyKey", at), "can not be empty");
        if (json_str(action).len)
            check_one_of(errors, AT(errors, "%s.whenUnsatisfiable", at), action, actions);
        else
            field_unsupported(errors, AT(errors, "%s.whenUnsatisfiable", at), &empty, actions);
        check_label_selector(errors, AT(errors, "%s.labelSelector", at),
                             json_get(constraint, "labelSelector"));
    }
}
