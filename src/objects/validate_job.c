/* Jobs: counts, the selector, the template, and what stays fixed once a job exists. */
#include "objects/names.h"
#include "objects/rules.h"

#define FAILED_INDEXES_MAX 100000
#define FAILURE_RULES_MAX  20
#define SUCCESS_RULES_MAX  20
#define MANAGED_BY_MAX     63
#define EXIT_CODES_MAX     255
#define NO_MATCH           "`selector` does not match template `labels`"

static void check_indexed(struct field_errors *errors, const struct json *spec)
{
    const struct json *completions = json_get(spec, "completions");
    const struct json *failed = json_get(spec, "maxFailedIndexes");

    if (!json_present(completions))
        field_required(errors, "spec.completions", "when completion mode is Indexed");
    if (json_int(completions, 0) > JOB_INDEXES_MAX)
        field_invalid(errors, "spec.completions", completions,
                      "must be less than or equal to %d when completion mode is Indexed", JOB_INDEXES_MAX);
    if (json_present(completions) && json_int(failed, 0) > json_int(completions, 0))
        field_invalid(errors, "spec.maxFailedIndexes", failed, "must be less than or equal to completions");
    if (json_int(failed, 0) > FAILED_INDEXES_MAX)
        field_invalid(errors, "spec.maxFailedIndexes", failed, "must be less than or equal to %d",
                      FAILED_INDEXES_MAX);
}

static void check_mode(struct field_errors *errors, const struct json *spec)
{
    static const char *const modes[] = {"NonIndexed", "Indexed", NULL};
    static const char *const indexed_only[] = {"backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"};
    const struct json *mode = json_get(spec, "completionMode");

    if (json_present(mode))
        check_one_of(errors, "spec.completionMode", mode, modes);
    if (streq(json_string(mode), "Indexed")) {
        check_indexed(errors, spec);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(indexed_only); i++)
        if (json_present(json_get(spec, indexed_only[i])))
            field_invalid(errors, AT(errors, "spec.%s", indexed_only[i]), json_get(spec, indexed_only[i]),
                          "requires indexed completion mode");
}

static bool has_container(const struct json *pod, const char *name)
{
    static const char *const lists[] = {"containers", "initContainers"};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        JSON_EACH(json_get(pod, lists[i]), container)
            if (streq(json_get_string(container, "name"), name))
                return true;
    return false;
}

static void check_exit_codes(struct field_errors *errors, const char *path, const struct json *codes,
                             const struct json *pod)
{
    static const char *const operators[] = {"In", "NotIn", NULL};
    const struct json *op = json_get(codes, "operator"), *values = json_get(codes, "values");
    const struct json *name = json_get(codes, "containerName"), *last = NULL;
    bool ordered = true;
    size_t i = 0;

    if (!json_str(op).len)
        field_required(errors, AT(errors, "%s.operator", path), "valid values: [\"In\" \"NotIn\"]");
    else
        check_one_of(errors, AT(errors, "%s.operator", path), op, operators);
    if (json_present(name) && !has_container(pod, json_string(name)))
        field_invalid(errors, AT(errors, "%s.containerName", path), name,
                      "must be one of the container or initContainer names in the pod template");
    if (!json_len(values))
        field_invalid(errors, AT(errors, "%s.values", path), values, "at least one value is required");
    else if (json_len(values) > EXIT_CODES_MAX)
        field_too_many(errors, AT(errors, "%s.values", path), (int)json_len(values), EXIT_CODES_MAX);
    JSON_EACH(values, value) {
        const char *at = AT(errors, "%s.values[%zu]", path, i++);

        if (streq(json_string(op), "In") && json_int(value, 1) == 0)
            field_invalid(errors, at, value, "must not be 0 for the In operator");
        if (last && json_equal(last, value))
            field_duplicate(errors, at, value);
        ordered &= !last || json_int(last, 0) <= json_int(value, 0);
        last = value;
    }
    if (!ordered)
        field_invalid(errors, AT(errors, "%s.values", path), values, "must be ordered");
}

static void check_failure_rule(struct field_errors *errors, const char *path, const struct json *rule,
                               const struct json *spec)
{
    static const char *const actions[] = {"Count", "FailIndex", "FailJob", "Ignore", NULL};
    const struct json *action = json_get(rule, "action"), *codes = json_get(rule, "onExitCodes");
    size_t conditions = json_len(json_get(rule, "onPodConditions"));

    if (!json_str(action).len)
        field_required(errors, AT(errors, "%s.action", path),
                       "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]");
    else if (streq(json_string(action), "FailIndex") && !json_present(json_get(spec, "backoffLimitPerIndex")))
        field_invalid(errors, AT(errors, "%s.action", path), action,
                      "requires the backoffLimitPerIndex to be set");
    else
        check_one_of(errors, AT(errors, "%s.action", path), action, actions);
    if (json_present(codes))
        check_exit_codes(errors, AT(errors, "%s.onExitCodes", path), codes, json_at(spec, "template.spec"));
    if (json_present(codes) && conditions)
        field_message(errors, path, "FieldValueInvalid",
                      "Invalid value: specifying both OnExitCodes and OnPodConditions is not supported");
    if (!json_present(codes) && !conditions)
        field_message(errors, path, "FieldValueInvalid",
                      "Invalid value: specifying one of OnExitCodes and OnPodConditions is required");
}

static void check_policies(struct field_errors *errors, const struct json *spec)
{
    static const char *const replacement[] = {"Failed", "TerminatingOrFailed", NULL};
    static const char *const only_failed[] = {"Failed", NULL};
    const struct json *failure = json_get(spec, "podFailurePolicy"), *rules = json_get(failure, "rules");
    const struct json *success = json_get(spec, "successPolicy");
    size_t i = 0;

    if (json_len(rules) > FAILURE_RULES_MAX)
        field_too_many(errors, "spec.podFailurePolicy.rules", (int)json_len(rules), FAILURE_RULES_MAX);
    JSON_EACH(rules, rule)
        check_failure_rule(errors, AT(errors, "spec.podFailurePolicy.rules[%zu]", i++), rule, spec);
    if (json_present(success) && streq(json_get_string(spec, "completionMode"), "Indexed")) {
        size_t count = json_len(json_get(success, "rules"));

        if (!count)
            field_required(errors, "spec.successPolicy.rules",
                           "at least one rules must be specified when the successPolicy is specified");
        if (count > SUCCESS_RULES_MAX)
            field_too_many(errors, "spec.successPolicy.rules", (int)count, SUCCESS_RULES_MAX);
    }
    if (json_present(json_get(spec, "podReplacementPolicy")))
        check_one_of(errors, "spec.podReplacementPolicy", json_get(spec, "podReplacementPolicy"),
                     json_present(failure) ? only_failed : replacement);
}

static void check_template(struct field_errors *errors, const struct json *spec)
{
    static const char *const policies[] = {"OnFailure", "Never", NULL};
    const struct json *template = json_get(spec, "template"), *pod = json_get(template, "spec");
    const struct json *policy = json_get(pod, "restartPolicy");
    const char *text = json_string_or(policy, "");

    check_labels(errors, "spec.template.labels", json_at(template, "metadata.labels"));
    check_annotations(errors, "spec.template.annotations", json_at(template, "metadata.annotations"));
    check_pod_spec(errors, "spec.template.spec", pod, false);
    if (json_len(json_get(pod, "ephemeralContainers")))
        field_forbidden(errors, "spec.template.spec.ephemeralContainers",
                        "ephemeral containers not allowed in pod template");
    if (!*text || streq(text, "Always"))
        field_required(errors, "spec.template.spec.restartPolicy", "valid values: \"OnFailure\", \"Never\"");
    else if (check_one_of(errors, "spec.template.spec.restartPolicy", policy, policies) &&
             json_present(json_get(spec, "podFailurePolicy")) && !streq(text, "Never"))
        field_invalid(errors, "spec.template.spec.restartPolicy", policy,
                      "only \"Never\" is supported when podFailurePolicy is specified");
}

/* Labels and selector that the server makes must be as it makes them. */
static void check_generated(struct field_errors *errors, const struct json *doc)
{
    const char *uid = json_string_or(json_at(doc, "metadata.uid"), "");
    const char *name = json_string_or(json_at(doc, "metadata.name"), "");
    const char *const expected[][2] = {
        {"controller-uid", uid},
        {"job-name", name},
        {"batch.kubernetes.io/controller-uid", uid},
        {"batch.kubernetes.io/job-name", name},
    };
    const struct json *labels = json_at(doc, "spec.template.metadata.labels");
    const struct json *selector = json_at(doc, "spec.selector");
    struct json *generated = json_new_object(errors->arena);

    for (size_t i = 0; i < ARRAY_LEN(expected); i++) {
        const char *path = AT(errors, "spec.template.metadata.labels[%s]", expected[i][0]);
        const char *value = json_get_string(labels, expected[i][0]);

        json_set_string(errors->arena, generated, expected[i][0], expected[i][1]);
        if (!value)
            field_required(errors, path, "must be '%s'", expected[i][1]);
        else if (!streq(value, expected[i][1]))
            field_invalid(errors, path, labels, "must be '%s'", expected[i][1]);
    }
    if (!selector_matches_json(selector, generated, errors->arena))
        field_invalid(errors, "spec.selector", selector, "`selector` not auto-generated");
}

static void check_job_selector(struct field_errors *errors, const struct json *doc, const struct json *spec)
{
    const struct json *selector = json_get(spec, "selector");
    const struct json *labels = json_at(doc, "spec.template.metadata.labels");

    if (json_present(selector))
        check_label_selector(errors, "spec.selector", selector);
    else
        field_required(errors, "spec.selector", "%s", "");
    if (json_present(selector) && selector_matches_json(selector, labels, errors->arena))
        return;
    if (labels)
        field_invalid(errors, "spec.template.metadata.labels", labels, NO_MATCH);
    else
        field_message(errors, "spec.template.metadata.labels", "FieldValueInvalid",
                      "Invalid value: map[string]string(nil): " NO_MATCH);
}

/* ---- changes ---- */

/* While a job is suspended and has never run, where its pods go may be changed. */
static struct json *without_steering(struct arena *arena, const struct json *template)
{
    static const char *const spec_keys[] = {"nodeSelector", "tolerations", "schedulingGates"};
    static const char *const meta_keys[] = {"labels", "annotations"};
    struct json *copy = json_copy(arena, template), *spec = json_get(copy, "spec");
    struct json *affinity = json_get(spec, "affinity");

    for (size_t i = 0; i < ARRAY_LEN(spec_keys); i++)
        json_remove(spec, spec_keys[i]);
    for (size_t i = 0; i < ARRAY_LEN(meta_keys); i++)
        json_remove(json_get(copy, "metadata"), meta_keys[i]);
    json_remove(affinity, "nodeAffinity");
    return copy;
}

static void check_fixed(struct field_errors *errors, const char *path, const struct json *now,
                        const struct json *before)
{
    if (!semantic_equal(now, before))
        field_invalid(errors, path, now, "field is immutable");
}

static void check_job_update(struct field_errors *errors, const struct json *spec, const struct json *old)
{
    static const char *const fixed[] = {"completionMode", "podFailurePolicy", "backoffLimitPerIndex",
                                        "managedBy", "successPolicy"};
    const struct json *before = json_get(old, "spec");
    const struct json *template = json_get(spec, "template"), *old_template = json_get(before, "template");
    const struct json *completions = json_get(spec, "completions");

    if (!streq(json_get_string(spec, "completionMode"), "Indexed"))
        check_fixed(errors, "spec.completions", completions, json_get(before, "completions"));
    else if (!json_equal(completions, json_get(before, "completions")) && json_present(completions) &&
             !json_equal(completions, json_get(spec, "parallelism")))
        field_invalid(errors, "spec.completions", completions,
                      "can only be modified in tandem with spec.parallelism");
    check_fixed(errors, "spec.selector", json_get(spec, "selector"), json_get(before, "selector"));
    if (json_bool(json_get(before, "suspend")) && !json_present(json_at(old, "status.startTime"))) {
        template = without_steering(errors->arena, template);
        old_template = without_steering(errors->arena, old_template);
    }
    if (!semantic_equal(template, old_template))
        field_invalid(errors, "spec.template", json_get(spec, "template"), "field is immutable");
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        check_fixed(errors, AT(errors, "spec.%s", fixed[i]), json_get(spec, fixed[i]),
                    json_get(before, fixed[i]));
}

static void check_hostname(struct field_errors *errors, const struct json *doc, const struct json *spec)
{
    int64_t completions = json_int(json_get(spec, "completions"), 0);
    const struct json *name = json_at(doc, "metadata.name");
    const char *msgs[RULE_MSGS_MAX];
    const char *last;

    if (!streq(json_get_string(spec, "completionMode"), "Indexed") || completions <= 0)
        return;
    last = AT(errors, "%s-%lld", json_string_or(name, ""), (long long)completions - 1);
    if (rule_dns_label(str_from(last), msgs))
        field_invalid(errors, "metadata.name", name, "will not able to create pod with invalid DNS label: %s",
                      last);
}

static void check_managed_by(struct field_errors *errors, const struct json *managed)
{
    struct str path = json_str(managed), domain;

    if (path.len > MANAGED_BY_MAX)
        field_too_long(errors, "spec.managedBy", MANAGED_BY_MAX);
    if (!check_required(errors, "spec.managedBy", managed))
        return;
    if (!memchr(path.s, '/', path.len) || !str_split(&path, '/', &domain) || !domain.len || !path.len)
        field_invalid(errors, "spec.managedBy", managed,
                      "must be a domain-prefixed path (such as \"acme.io/foo\")");
    else
        check_str(errors, "spec.managedBy", domain, rule_dns_subdomain);
}

void validate_job(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                  struct field_errors *errors)
{
    static const char *const counts[] = {"parallelism",
                                         "completions",
                                         "activeDeadlineSeconds",
                                         "backoffLimit",
                                         "ttlSecondsAfterFinished",
                                         "backoffLimitPerIndex",
                                         "maxFailedIndexes"};
    const struct json *spec = json_get(doc, "spec"), *managed = json_get(spec, "managedBy");

    (void)ctx;
    if (json_present(json_get(spec, "selector")) && !json_bool(json_get(spec, "manualSelector")))
        check_generated(errors, doc);
    for (size_t i = 0; i < ARRAY_LEN(counts); i++)
        check_not_negative(errors, AT(errors, "spec.%s", counts[i]), json_get(spec, counts[i]));
    if (json_int(json_get(spec, "parallelism"), 0) > JOB_PARALLELISM_MAX)
        field_invalid(errors, "spec.parallelism", json_get(spec, "parallelism"),
                      "must be less than or equal to %d", JOB_PARALLELISM_MAX);
    if (json_present(json_get(spec, "maxFailedIndexes")) &&
        !json_present(json_get(spec, "backoffLimitPerIndex")))
        field_required(errors, "spec.backoffLimitPerIndex", "when maxFailedIndexes is specified");
    if (json_present(managed))
        check_managed_by(errors, managed);
    check_mode(errors, spec);
    check_policies(errors, spec);
    check_template(errors, spec);
    check_job_selector(errors, doc, spec);
    if (old)
        check_job_update(errors, spec, old);
    else
        check_hostname(errors, doc, spec);
}
