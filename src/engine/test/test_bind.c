#include "base/cleanup.h"
#include "base/test/test.h"
#include "engine/local/bind.h"

static struct arena arena;

static struct json *json(const char *text)
{
    struct json *doc;

    assert_int_equal(json_parse(str_from(text), &arena, &doc, NULL, NULL), 0);
    return doc;
}

static void test_reasons(void **state)
{
    static const struct {
        const char *pod, *node;
        struct bind_need used;
        const char *why;
    } rows[] = {
        {"{\"spec\":{\"containers\":[{}]}}", "{}", {.pods = 9}, NULL},
        {"{\"spec\":{\"containers\":[{}]}}", "{}", {.pods = 10}, "Too many pods"},
        {"{\"spec\":{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"500m\"}}}]}}",
         "{}",
         {.cpu_milli = 1500},
         NULL},
        {"{\"spec\":{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"500m\"}}}]}}",
         "{}",
         {.cpu_milli = 1501},
         "Insufficient cpu"},
        {"{\"spec\":{\"containers\":[{\"resources\":{\"requests\":{\"nvidia.com/gpu\":1}}}]}}",
         "{}",
         {.gpus = 4},
         "Insufficient nvidia.com/gpu"},
        {"{\"spec\":{\"containers\":[{}],\"nodeSelector\":{\"a\":\"b\"}}}",
         "{}",
         {0},
         "node(s) didn't match Pod's node affinity/selector"},
        {"{\"spec\":{\"containers\":[{}]}}", "{\"unschedulable\":true}", {0}, "node(s) were unschedulable"},
        {"{\"spec\":{\"containers\":[{}]}}",
         "{\"taints\":[{\"key\":\"x\",\"effect\":\"NoSchedule\"}]}",
         {0},
         "node(s) had untolerated taint(s)"},
        {"{\"spec\":{\"containers\":[{}],\"tolerations\":[{\"key\":\"x\",\"operator\":\"Exists\"}]}}",
         "{\"taints\":[{\"key\":\"x\",\"effect\":\"NoSchedule\"}]}",
         {0},
         NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct json *pod = json(rows[i].pod), *node = json_new_object(&arena);
        struct bind_need need;

        json_set(&arena, node, "spec", *json(rows[i].node));
        json_set(&arena, node, "status",
                 *json("{\"allocatable\":{\"cpu\":\"2\",\"memory\":\"1Gi\",\"pods\":\"10\","
                       "\"nvidia.com/gpu\":\"4\"}}"));
        bind_read(pod, &arena, &need);
        if (!streq(bind_check(pod, &need, node, &rows[i].used), rows[i].why))
            fail_msg("%s: %s", rows[i].pod, bind_check(pod, &need, node, &rows[i].used));
    }
}

static void test_lowest_free_cards_are_given(void **state)
{
    struct bind_need need = {.gpus = 2};
    uint64_t cards;

    (void)state;
    assert_true(bind_cards(&need, 0x1, 4, &cards));
    assert_string_equal(bind_cards_text(&arena, cards), "1,2");
    assert_int_equal(bind_cards_read("1,2"), cards);
    assert_false(bind_cards(&need, 0x7, 4, &cards));
}

static int done(void **state)
{
    (void)state;
    arena_done(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reasons),
        cmocka_unit_test(test_lowest_free_cards_are_given),
    };

    return cmocka_run_group_tests(tests, NULL, done);
}
