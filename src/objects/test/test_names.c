#include "base/cleanup.h"
#include "base/test/test.h"
#include "objects/condition.h"
#include "objects/names.h"

static struct json *parse(struct arena *arena, const char *text)
{
    struct json *doc = NULL;

    assert_int_equal(json_parse(str_from(text), arena, &doc, NULL, NULL), 0);
    return doc;
}

static void test_user_of_work_is_label_then_owner_then_root(void **state)
{
    static const struct {
        const char *doc, *user;
    } rows[] = {
        {"{\"metadata\":{\"labels\":{\"user\":\"ann\"},\"annotations\":{\"berth.dev/user\":\"bob\"}}}",
         "ann"},
        {"{\"metadata\":{\"labels\":{\"user\":\"\"},\"annotations\":{\"berth.dev/user\":\"bob\"}}}", "bob"},
        {"{\"metadata\":{\"annotations\":{\"berth.dev/user\":\"bob\"}}}", "bob"},
        {"{\"metadata\":{\"annotations\":{\"berth.dev/user\":\"system:admin\"}}}", "root"},
        {"{\"metadata\":{}}", "root"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(arena_done) struct arena arena = {0};

        assert_string_equal(work_user(parse(&arena, rows[i].doc)), rows[i].user);
    }
    assert_string_equal(work_user(NULL), "root");
}

static void test_pod_is_over_when_it_succeeded_or_failed(void **state)
{
    (void)state;
    assert_true(pod_phase_is_over("Succeeded"));
    assert_true(pod_phase_is_over("Failed"));
    assert_false(pod_phase_is_over("Running"));
    assert_false(pod_phase_is_over("Pending"));
    assert_false(pod_phase_is_over(NULL));
    assert_false(pod_is_over(NULL));
}

static void test_cards_are_written_as_they_are_read(void **state)
{
    static const char *const rows[] = {"", "0", "0,3", "0:8192", "0:8192,3:8192", "63"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(arena_done) struct arena arena = {0};
        struct card_part parts[CARDS_MAX];
        size_t len;

        assert_true(cards_read(rows[i], parts, &len));
        assert_string_equal(cards_write(&arena, parts, len), rows[i]);
    }
}

static void test_other_text_has_no_cards(void **state)
{
    static const char *const rows[] = {"64", "a", "0,", "0:", "0:x", ",", "-1", "0:4294967296", "0 ,1"};
    struct card_part parts[CARDS_MAX];
    size_t len;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (cards_read(rows[i], parts, &len))
            fail_msg("'%s' was read", rows[i]);
    assert_true(cards_read(NULL, parts, &len));
    assert_int_equal(len, 0);
}

static void test_share_is_said_by_label_or_annotation(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};

    (void)state;
    assert_int_equal(
        pod_share_mib(parse(&arena, "{\"metadata\":{\"labels\":{\"berth.dev/gpu-memory\":\"4096\"}}}")),
        4096);
    assert_int_equal(
        pod_share_mib(parse(&arena, "{\"metadata\":{\"annotations\":{\"berth.dev/gpu-memory\":\"512\"}}}")),
        512);
    assert_int_equal(
        pod_share_mib(parse(&arena, "{\"metadata\":{\"labels\":{\"berth.dev/gpu-memory\":\"half\"}}}")), 0);
    assert_int_equal(pod_share_mib(parse(&arena, "{}")), 0);
}

static void test_scheduled_condition_says_why_it_waits_until_it_has_a_node(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = parse(&arena, "{\"metadata\":{}}");
    const struct json *condition;

    (void)state;
    assert_true(pod_set_scheduled(&arena, doc, "Unschedulable", "no GPU", 1000));
    assert_false(pod_set_scheduled(&arena, doc, "Unschedulable", "no GPU", 2000));
    condition = condition_find(json_get(doc, "status"), "PodScheduled");
    assert_string_equal(json_get_string(condition, "message"), "no GPU");
    assert_true(pod_set_scheduled(&arena, doc, NULL, NULL, 3000));
    assert_true(condition_is(json_get(doc, "status"), "PodScheduled", "True"));
    assert_null(json_get(condition_find(json_get(doc, "status"), "PodScheduled"), "reason"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_user_of_work_is_label_then_owner_then_root),
        cmocka_unit_test(test_pod_is_over_when_it_succeeded_or_failed),
        cmocka_unit_test(test_cards_are_written_as_they_are_read),
        cmocka_unit_test(test_other_text_has_no_cards),
        cmocka_unit_test(test_share_is_said_by_label_or_annotation),
        cmocka_unit_test(test_scheduled_condition_says_why_it_waits_until_it_has_a_node),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
