#include "control/affinity.h"

#include "base/str.h"

static bool is_among(const struct json *values, struct str text)
{
    JSON_EACH(values, it)
        if (str_eq(json_str(it), text))
            return true;
    return false;
}

/* Gt, Lt: one value, both are whole numbers. */
static bool compares(const struct json *values, struct str have, bool greater)
{
    int64_t a, b;

    if (json_len(values) != 1 || !str_to_int(have, &a) || !str_to_int(json_str(json_item(values, 0)), &b))
        return false;
    return greater ? a > b : a < b;
}

/* have: {NULL, 0} where the node lacks the key. */
static bool holds(const struct json *requirement, struct str have)
{
    const char *op = json_string_or(json_get(requirement, "operator"), "");
    const struct json *values = json_get(requirement, "values");

    if (streq(op, "In"))
        return have.s && is_among(values, have);
    if (streq(op, "NotIn"))
        return !have.s || !is_among(values, have);
    if (streq(op, "Exists"))
        return have.s != NULL;
    if (streq(op, "DoesNotExist"))
        return have.s == NULL;
    if (streq(op, "Gt") || streq(op, "Lt"))
        return have.s && compares(values, have, op[0] == 'G');
    return false;
}

static bool all_hold(const struct json *requirements, const struct json *have)
{
    JSON_EACH(requirements, it)
        if (!holds(it, json_str(json_get(have, json_string_or(json_get(it, "key"), "")))))
            return false;
    return true;
}

/* The only field there is to match is metadata.name. */
static bool fields_hold(const struct json *requirements, const struct json *node)
{
    JSON_EACH(requirements, it)
        if (!streq(json_get_string(it, "key"), "metadata.name") ||
            !holds(it, json_str(json_at(node, "metadata.name"))))
            return false;
    return true;
}

/* terms: nodeSelectorTerms, of which one must hold; a term without any requirement holds for no node. */
static bool one_holds(const struct json *terms, const struct json *node)
{
    JSON_EACH(terms, it) {
        const struct json *labels = json_get(it, "matchExpressions"), *fields = json_get(it, "matchFields");

        if (json_len(labels) + json_len(fields) > 0 && all_hold(labels, json_at(node, "metadata.labels")) &&
            fields_hold(fields, node))
            return true;
    }
    return false;
}

bool affinity_selects(const struct json *pod, const struct json *node)
{
    const struct json *labels = json_at(node, "metadata.labels");
    const struct json *terms =
        json_at(pod, "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
                     ".nodeSelectorTerms");

    JSON_EACH_MEMBER(json_at(pod, "spec.nodeSelector"), it)
        if (!json_equal(json_get(labels, it->key), &it->value))
            return false;
    return !terms || one_holds(terms, node);
}

static bool keeps_out(const struct json *taint)
{
    const char *effect = json_string_or(json_get(taint, "effect"), "");

    return (streq(effect, "NoSchedule") || streq(effect, "NoExecute")) &&
           !starts_with(json_string_or(json_get(taint, "key"), ""), "node.kubernetes.io/");
}

static bool tolerates(const struct json *tolerations, const struct json *taint)
{
    const char *key = json_string_or(json_get(taint, "key"), "");
    const char *effect = json_string_or(json_get(taint, "effect"), "");

    JSON_EACH(tolerations, it) {
        const char *its_key = json_string_or(json_get(it, "key"), "");
        const char *its_effect = json_string_or(json_get(it, "effect"), "");
        bool exists = streq(json_string_or(json_get(it, "operator"), "Equal"), "Exists");

        if (*its_effect && !streq(its_effect, effect))
            continue;
        if ((exists && !*its_key) ||
            (streq(its_key, key) && (exists || streq(json_string_or(json_get(it, "value"), ""),
                                                     json_string_or(json_get(taint, "value"), "")))))
            return true;
    }
    return false;
}

const struct json *affinity_untolerated(const struct json *pod, const struct json *node)
{
    JSON_EACH(json_at(node, "spec.taints"), it)
        if (keeps_out(it) && !tolerates(json_at(pod, "spec.tolerations"), it))
            return it;
    return NULL;
}

bool affinity_takes(const struct json *pod, const struct json *node)
{
    return affinity_selects(pod, node) && !affinity_untolerated(pod, node);
}
