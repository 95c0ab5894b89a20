/* A Job's status as others than Berth's own controller may write it: counts make sense and do not go back, a
 * finished job is finished in every respect and stays so. The order of checks is that of Kubernetes. */
#include "objects/rules.h"

struct status_check {
    struct field_errors *errors;
    const struct json *spec, *now, *before; /* job's spec; its status, now and before */
};

static bool has_condition(const struct json *status, const char *type)
{
    JSON_EACH(json_get(status, "conditions"), condition)
        if (streq(json_get_string(condition, "type"), type))
            return streq(json_get_string(condition, "status"), "True");
    return false;
}

static bool is_finished(const struct json *status)
{
    return has_condition(status, "Complete") || has_condition(status, "Failed");
}

static int64_t count_of(const struct json *status, const char *key)
{
    return json_int(json_get(status, key), 0);
}

static void condition_error(struct status_check *check, const char *what)
{
    field_message(check->errors, "status.conditions", "FieldValueInvalid", "Invalid value: %s", what);
}

static void count_error(struct status_check *check, const char *key, const char *what)
{
    struct json value = json_of_int(count_of(check->now, key));

    field_invalid(check->errors, AT(check->errors, "status.%s", key), &value, "%s", what);
}

/* Kubernetes prints times of refused statuses as Go does: 2026-01-02 04:14:05 +0000 UTC. */
static void completion_error(struct status_check *check, const char *what)
{
    char *text =
        arena_strdup(check->errors->arena, json_string_or(json_get(check->now, "completionTime"), ""));
    char *mark = strchr(text, 'T');

    if (mark)
        *mark = ' ';
    mark = strchr(text, 'Z');
    if (mark)
        *mark = 0;
    field_message(check->errors, "status.completionTime", "FieldValueInvalid",
                  "Invalid value: %s +0000 UTC: %s", text, what);
}

static void check_uncounted(struct status_check *check)
{
    static const char *const lists[] = {"succeeded", "failed"};
    struct json *seen = json_new_object(check->errors->arena);

    for (size_t l = 0; l < ARRAY_LEN(lists); l++) {
        size_t i = 0;

        JSON_EACH(json_get(json_get(check->now, "uncountedTerminatedPods"), lists[l]), uid) {
            const char *path = AT(check->errors, "status.uncountedTerminatedPods.%s[%zu]", lists[l], i++);

            if (!json_str(uid).len)
                field_invalid(check->errors, path, uid, "must not be empty");
            else if (json_get(seen, json_string(uid)))
                field_duplicate(check->errors, path, uid);
            else
                json_set_bool(check->errors->arena, seen, json_string(uid), true);
        }
    }
}

static void check_ends(struct status_check *check)
{
    const char *start = json_get_string(check->now, "startTime");
    const char *end = json_get_string(check->now, "completionTime");
    bool complete = has_condition(check->now, "Complete"), failed = has_condition(check->now, "Failed");

    if (complete && failed)
        condition_error(check, "cannot set Complete=True and Failed=true conditions");
    if (complete && has_condition(check->now, "FailureTarget"))
        condition_error(check, "cannot set Complete=True and FailureTarget=true conditions");
    if (end && !complete)
        completion_error(check, "cannot set completionTime when there is no Complete=True condition");
    if (complete && !end)
        field_required(check->errors, "status.completionTime",
                       "completionTime is required for Complete jobs");
    if (start && end && strcmp(end, start) < 0) /* RFC 3339 in UTC: the order of texts is that of times */
        completion_error(check, "completionTime cannot be set before startTime");
    if (failed && !has_condition(check->now, "FailureTarget"))
        condition_error(check, "cannot set Failed=True condition without the FailureTarget=true condition");
    if (complete && !has_condition(check->now, "SuccessCriteriaMet"))
        condition_error(check,
                        "cannot set Complete=True condition without the SuccessCriteriaMet=true condition");
    if (!complete && !failed)
        return;
    if (count_of(check->now, "active") > 0)
        count_error(check, "active", "active>0 is invalid for finished job");
    if (!start)
        field_required(check->errors, "status.startTime", "startTime is required for finished job");
    if (json_len(json_at(check->now, "uncountedTerminatedPods.succeeded")) ||
        json_len(json_at(check->now, "uncountedTerminatedPods.failed")))
        field_invalid(check->errors, "status.uncountedTerminatedPods",
                      json_get(check->now, "uncountedTerminatedPods"),
                      "uncountedTerminatedPods needs to be empty for finished job");
}

static void check_indexes(struct status_check *check)
{
    const struct json *completed = json_get(check->now, "completedIndexes");

    if (json_str(completed).len && !streq(json_get_string(check->spec, "completionMode"), "Indexed"))
        field_invalid(check->errors, "status.completedIndexes", completed,
                      "cannot set non-empty completedIndexes when non-indexed completion mode");
    if (json_present(json_get(check->now, "failedIndexes")) &&
        !json_present(json_get(check->spec, "backoffLimitPerIndex")))
        field_invalid(check->errors, "status.failedIndexes", json_get(check->now, "failedIndexes"),
                      "cannot set non-null failedIndexes when backoffLimitPerIndex is null");
    if (json_present(json_get(check->now, "ready")) &&
        count_of(check->now, "ready") > count_of(check->now, "active"))
        count_error(check, "ready", "cannot set more ready pods than active");
    if (is_finished(check->now) && count_of(check->now, "terminating") > 0)
        count_error(check, "terminating", "terminating>0 is invalid for finished job");
}

static void check_transition(struct status_check *check)
{
    static const char *const terminal[] = {"Failed", "Complete", "FailureTarget"};
    const struct json *spec = check->spec, *start = json_get(check->before, "startTime");
    const struct json *end = json_get(check->before, "completionTime");
    bool scales = streq(json_get_string(spec, "completionMode"), "Indexed") &&
                  json_equal(json_get(spec, "completions"), json_get(spec, "parallelism"));

    for (size_t i = 0; i < ARRAY_LEN(terminal); i++)
        if (has_condition(check->before, terminal[i]) && !has_condition(check->now, terminal[i]))
            condition_error(check,
                            AT(check->errors, "cannot disable the terminal %s=True condition", terminal[i]));
    if (count_of(check->now, "failed") < count_of(check->before, "failed"))
        count_error(check, "failed", "cannot decrease the failed counter");
    if (count_of(check->now, "succeeded") < count_of(check->before, "succeeded") && !scales)
        count_error(check, "succeeded", "cannot decrease the succeeded counter");
    if (json_present(end) && !json_equal(end, json_get(check->now, "completionTime")))
        completion_error(check, "completionTime cannot be mutated");
    if (json_present(start) && !json_bool(json_get(spec, "suspend")) &&
        !json_equal(start, json_get(check->now, "startTime")))
        field_required(check->errors, "status.startTime", "startTime cannot be removed for unsuspended job");
    if (has_condition(check->now, "SuccessCriteriaMet") && has_condition(check->now, "Failed"))
        condition_error(check, "cannot set SuccessCriteriaMet=True and Failed=true conditions");
    if (has_condition(check->now, "SuccessCriteriaMet") && has_condition(check->now, "FailureTarget"))
        condition_error(check, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
    if (has_condition(check->before, "SuccessCriteriaMet") &&
        !has_condition(check->now, "SuccessCriteriaMet"))
        condition_error(check, "cannot disable the SuccessCriteriaMet=True condition");
}

void validate_job_status(const struct rule_ctx *ctx, const struct json *doc, const struct json *old,
                         struct field_errors *errors)
{
    static const char *const counts[] = {"active", "succeeded", "failed", "ready", "terminating"};
    struct status_check check = {.errors = errors,
                                 .spec = json_get(doc, "spec"),
                                 .now = json_get(doc, "status"),
                                 .before = json_get(old, "status")};

    (void)ctx;
    if (json_equal(check.now, check.before))
        return;
    for (size_t i = 0; i < ARRAY_LEN(counts); i++)
        check_not_negative(errors, AT(errors, "status.%s", counts[i]), json_get(check.now, counts[i]));
    check_uncounted(&check);
    check_ends(&check);
    check_indexes(&check);
    check_transition(&check);
}
