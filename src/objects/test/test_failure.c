/* Refusals, as Kubernetes 1.33 words them. */
#include "base/cleanup.h"
#include "base/test/test.h"
#include "objects/failure.h"

static char *status_text(const struct failure *failure, struct arena *arena)
{
    struct buf text = {0};
    char *copy;

    json_write(&text, failure_to_json(failure, arena));
    copy = arena_strdup(arena, text.data);
    buf_done(&text);
    return copy;
}

static void test_statuses_name_what_they_are_about(void **state)
{
    CLEANUP(arena_done) struct arena a = {0};
    struct failure f = {0};

    (void)state;
    assert_int_equal(failure_not_found(&f, &a, "", "pods", "x"), -1);
    assert_string_equal(status_text(&f, &a),
                        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
                        "\"message\":\"pods \\\"x\\\" not found\",\"reason\":\"NotFound\","
                        "\"details\":{\"name\":\"x\",\"kind\":\"pods\"},\"code\":404}");
    failure_exists(&f, &a, "batch", "jobs", "j");
    assert_string_equal(f.message, "jobs.batch \"j\" already exists");
    assert_string_equal(f.reason, "AlreadyExists");
    assert_string_equal(f.group, "batch");
    assert_int_equal(f.code, 409);
    failure_conflict(&f, &a, "", "pods", "x", "the object has been modified");
    assert_string_equal(f.message,
                        "Operation cannot be fulfilled on pods \"x\": the object has been modified");
    failure_forbidden(&f, &a, "", "pods", "", "no");
    assert_string_equal(f.message, "pods is forbidden: no");
    failure_forbidden(&f, &a, "", "pods", "x", "no");
    assert_string_equal(f.message, "pods \"x\" is forbidden: no");
    failure_forbidden(&f, &a, "", "", "", "no");
    assert_string_equal(f.message, "forbidden: no");
    failure_bad_request(&f, &a, "no %s", "way");
    assert_string_equal(status_text(&f, &a),
                        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
                        "\"message\":\"no way\",\"reason\":\"BadRequest\",\"code\":400}");
}

static void test_every_error_code_has_a_status(void **state)
{
    static const struct {
        enum err_code code;
        int status;
        const char *reason;
    } cases[] = {
        {ERR_INVALID, 400, "BadRequest"},
        {ERR_UNAUTHENTICATED, 401, "Unauthorized"},
        {ERR_FORBIDDEN, 403, "Forbidden"},
        {ERR_NOT_FOUND, 404, "NotFound"},
        {ERR_EXISTS, 409, "AlreadyExists"},
        {ERR_CONFLICT, 409, "Conflict"},
        {ERR_GONE, 410, "Expired"},
        {ERR_LIMIT, 413, "RequestEntityTooLarge"},
        {ERR_UNSUPPORTED, 405, "MethodNotAllowed"},
        {ERR_TIMEOUT, 504, "Timeout"},
        {ERR_UNAVAILABLE, 503, "ServiceUnavailable"},
        {ERR_SYSTEM, 500, "InternalError"},
        {ERR_INTERNAL, 500, "InternalError"},
        {ERR_NONE, 500, "InternalError"},
    };
    CLEANUP(arena_done) struct arena a = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err err = {.code = cases[i].code, .msg = "why"};
        struct failure f = {0};

        failure_from_err(&f, &a, &err);
        assert_int_equal(f.code, cases[i].status);
        assert_string_equal(f.reason, cases[i].reason);
        assert_string_equal(f.message, f.code == 500 ? "Internal error occurred: why" : "why");
    }
}

static void test_one_field_error_is_said_plainly(void **state)
{
    CLEANUP(arena_done) struct arena a = {0};
    struct field_errors errors = {.arena = &a};
    struct json value = json_of_string_ref("a\"b\n");
    struct failure f = {0};

    (void)state;
    assert_int_equal(field_errors_finish(&errors, &f, "", "Pod", "x"), 0);
    assert_int_equal(f.code, 0);
    field_invalid(&errors, "spec.y", &value, "must be %d", 1);
    assert_int_equal(field_errors_finish(&errors, &f, "batch", "Job", "x"), -1);
    assert_string_equal(
        status_text(&f, &a),
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
        "\"message\":\"Job.batch \\\"x\\\" is invalid: spec.y: Invalid value: "
        "\\\"a\\\\\\\"b\\\\n\\\": must be 1\",\"reason\":\"Invalid\",\"details\":{\"name\":\"x\","
        "\"group\":\"batch\",\"kind\":\"Job\",\"causes\":[{\"reason\":\"FieldValueInvalid\","
        "\"message\":\"Invalid value: \\\"a\\\\\\\"b\\\\n\\\": must be 1\","
        "\"field\":\"spec.y\"}]},\"code\":422}");
}

static void test_several_field_errors_are_a_list_without_repetition(void **state)
{
    static const char *const choices[] = {"a", "b", NULL};
    CLEANUP(arena_done) struct arena a = {0};
    struct field_errors errors = {.arena = &a};
    struct json text = json_of_string_ref("x"), object = {.type = JSON_OBJECT};
    struct failure f = {0};

    (void)state;
    field_required(&errors, "a", "%s", "");
    field_required(&errors, "a", "%s", "");
    field_required(&errors, "b", "must be there");
    field_forbidden(&errors, "c", "not now");
    field_duplicate(&errors, "d", &text);
    field_not_found(&errors, "e", &text);
    field_unsupported(&errors, "f", &text, choices);
    field_too_long(&errors, "g", 63);
    field_too_many(&errors, "h", 5, 3);
    field_invalid(&errors, "j", &object, "%s", "");
    field_invalid(&errors, "k", NULL, "%s", "");
    field_errors_finish(&errors, &f, "", "Pod", "x");
    assert_string_equal(
        f.message,
        "Pod \"x\" is invalid: [a: Required value, b: Required value: must be there, "
        "c: Forbidden: not now, d: Duplicate value: \"x\", e: Not found: \"x\", "
        "f: Unsupported value: \"x\": supported values: \"a\", \"b\", "
        "g: Too long: may not be more than 63 bytes, "
        "h: Too many: 5: must have at most 3 items, j: Invalid value: {}, k: Invalid value: \"null\"]");
    assert_int_equal(json_len(f.causes), 11);
}

static void test_details_carry_uid_and_retry(void **state)
{
    CLEANUP(arena_done) struct arena a = {0};
    struct failure f = {0};

    (void)state;
    failure_set(&f, &a, 429, "TooManyRequests", "slow");
    f.retry_after = 3;
    f.uid = "u";
    assert_non_null(
        strstr(status_text(&f, &a), "\"details\":{\"uid\":\"u\",\"retryAfterSeconds\":3},\"code\":429"));
}

static void test_every_invalid_has_a_cause_for_old_kubectls(void **state)
{
    CLEANUP(arena_done) struct arena a = {0};
    struct failure f = {0};

    (void)state;
    failure_set(&f, &a, 422, "Invalid", "there are too few GPUs");
    assert_non_null(strstr(status_text(&f, &a), "\"details\":{\"causes\":[{\"reason\":\"FieldValueInvalid\","
                                                "\"message\":\"there are too few GPUs\"}]},\"code\":422"));
    failure_concerns(&f, &a, "berth.dev", "TrainingJob", "big");
    assert_string_equal(
        status_text(&f, &a),
        "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\","
        "\"message\":\"there are too few GPUs\",\"reason\":\"Invalid\",\"details\":{\"name\":\"big\","
        "\"group\":\"berth.dev\",\"kind\":\"TrainingJob\",\"causes\":[{\"reason\":\"FieldValueInvalid\","
        "\"message\":\"there are too few GPUs\",\"field\":\"spec\"}]},\"code\":422}");
    failure_set(&f, &a, 422, "Invalid", "endpoints[0].endpoint: missing");
    assert_non_null(
        strstr(status_text(&f, &a), "\"message\":\"missing\",\"field\":\"endpoints[0].endpoint\""));
    failure_generic(&f, &a, 422, "Invalid", "the server rejected it"); /* as Kubernetes itself */
    failure_concerns(&f, &a, "", "Pod", "x");
    assert_non_null(strstr(status_text(&f, &a), "\"details\":{},\"code\":422"));
}

static void test_only_an_invalid_without_an_object_is_given_one(void **state)
{
    CLEANUP(arena_done) struct arena a = {0};
    struct failure f = {0};

    (void)state;
    failure_set(&f, &a, 403, "Forbidden", "no");
    failure_concerns(&f, &a, "", "Pod", "x");
    assert_null(f.kind);
    failure_set(&f, &a, 422, "Invalid", "no");
    failure_concerns(&f, &a, "", "Pod", "x");
    failure_concerns(&f, &a, "batch", "Job", "y");
    assert_string_equal(f.kind, "Pod");
    assert_string_equal(f.name, "x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statuses_name_what_they_are_about),
        cmocka_unit_test(test_every_error_code_has_a_status),
        cmocka_unit_test(test_one_field_error_is_said_plainly),
        cmocka_unit_test(test_several_field_errors_are_a_list_without_repetition),
        cmocka_unit_test(test_details_carry_uid_and_retry),
        cmocka_unit_test(test_every_invalid_has_a_cause_for_old_kubectls),
        cmocka_unit_test(test_only_an_invalid_without_an_object_is_given_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
