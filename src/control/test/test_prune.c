/* Which finished work goes: by its own time, by age, past the count of a namespace, past the bytes of all. */
#include "control/prune.h"
#include "control_util.h"
#include "objects/object_doc.h"

#define DAY (INT64_C(86400) * NSEC_PER_SEC)

struct made {
    const char *ns;
    int age_sec; /* since its end */
    const char *meta, *spec;
    int64_t bytes;
};

static struct object *training(struct bench *b, const char *name, const struct made *made)
{
    char end[CLOCK_TEXT_MAX];
    struct json *doc = from_yaml(
        b, arena_printf(&b->arena,
                        "metadata: {name: %s, namespace: x, %s}\nspec: {image: i, %s}\nstatus: {phase: "
                        "Succeeded, completionTime: '%s'}",
                        name, made->meta ? made->meta : "", made->spec ? made->spec : "",
                        clock_format(now_ns() - made->age_sec * NSEC_PER_SEC, end)));
    struct json *meta = json_get(doc, "metadata");
    struct object *object;

    json_set_string(&b->arena, meta, "namespace", made->ns);
    json_set_string(&b->arena, meta, "uid", name);
    json_set_string(&b->arena, meta, "resourceVersion", "1");
    object = object_new(kind_by_id(KIND_TRAINING_JOB), &b->arena, doc);
    vec_push(&b->objects, object);
    return object;
}

/* Names and reasons of what goes, sorted as told within a namespace; one namespace after the other. */
static const char *going(struct bench *b, const struct prune *prune, struct prune_policy policy)
{
    static const char *const whys[] = {
        [PRUNE_TTL] = "ttl", [PRUNE_AGE] = "age", [PRUNE_COUNT] = "count", [PRUNE_BYTES] = "bytes"};
    struct prune_due due[100];
    size_t len = prune_look(prune, &policy, now_ns(), due, ARRAY_LEN(due));
    const char *text = "";

    for (size_t i = 0; i < len; i++)
        text = arena_printf(&b->arena, "%s%s%s:%s", text, i ? " " : "", due[i].name, whys[due[i].why]);
    return text;
}

static void put(struct prune *prune, const struct object *object, int64_t bytes)
{
    prune_put(prune, object, object_doc(object), bytes);
}

static void put_all(struct bench *b, struct prune *prune, const struct made *made, size_t len)
{
    for (size_t i = 0; i < len; i++)
        put(prune, training(b, arena_printf(&b->arena, "j%zu", i), &made[i]),
            made[i].bytes ? made[i].bytes : 10);
}

struct prune_case {
    const char *what;
    struct made made[8];
    struct prune_policy policy;
    const char *expect;
};

static const struct prune_case cases[] = {
    {"without a policy all stays", {{"a", 9000000}, {"a", 1}}, {0}, ""},
    {"what is older than the age goes", {{"a", 100}, {"a", 20}, {"a", 60}}, {.age_sec = 50}, "j0:age j2:age"},
    {"at its age it goes", {{"a", 50}, {"a", 49}}, {.age_sec = 50}, "j0:age"},
    {"its own time counts instead of the age",
     {{"a", 100, .spec = "ttlSecondsAfterFinished: 200"}, {"a", 30, .spec = "ttlSecondsAfterFinished: 30"}},
     {.age_sec = 50},
     "j1:ttl"},
    {"past the count the oldest of the namespace go",
     {{"a", 5}, {"a", 9}, {"a", 7}, {"b", 99}},
     {.count = 1},
     "j1:count j2:count"},
    {"those that go for age are not counted",
     {{"a", 100}, {"a", 20}, {"a", 10}},
     {.age_sec = 50, .count = 2},
     "j0:age"},
    {"past the bytes the largest namespace gives its oldest",
     {{"a", 5, .bytes = 40}, {"a", 9, .bytes = 40}, {"b", 99, .bytes = 30}},
     {.bytes = 80},
     "j1:bytes"},
    {"until it fits",
     {{"a", 5, .bytes = 40}, {"a", 9, .bytes = 40}, {"b", 99, .bytes = 30}},
     {.bytes = 35},
     "j1:bytes j0:bytes"},
    {"what goes anyway makes room",
     {{"a", 100, .bytes = 40}, {"a", 9, .bytes = 40}, {"b", 20, .bytes = 30}},
     {.age_sec = 50, .bytes = 80},
     "j0:age"},
    {"what is retained stays",
     {{"a", 100, .meta = "annotations: {berth.dev/retain: 'true'}"}, {"a", 90}},
     {.age_sec = 50, .count = 1, .bytes = 5},
     "j1:age"},
    {"but for its own time",
     {{"a", 100, "annotations: {berth.dev/retain: 'true'}", "ttlSecondsAfterFinished: 30"}},
     {0},
     "j0:ttl"},
    {"another word does not retain",
     {{"a", 100, .meta = "annotations: {berth.dev/retain: 'yes'}"}},
     {.age_sec = 50},
     "j0:age"},
    {"what is being deleted is left alone",
     {{"a", 100, .meta = "deletionTimestamp: '2026-01-01T00:00:00Z'"}},
     {.age_sec = 50},
     ""},
};

static void test_what_goes(void **state)
{
    struct bench *b = *state;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(prune_free) struct prune *prune = prune_new();
        const struct prune_case *it = &cases[i];
        size_t len = 0;

        while (len < ARRAY_LEN(it->made) && it->made[len].ns)
            len++;
        put_all(b, prune, it->made, len);
        if (!streq(going(b, prune, it->policy), it->expect))
            fail_msg("%s: '%s', not '%s'", it->what, going(b, prune, it->policy), it->expect);
        bench_reset(b);
    }
}

static void test_too_many_retained_count_as_others(void **state)
{
    struct bench *b = *state;
    CLEANUP(prune_free) struct prune *prune = prune_new();

    for (int i = 0; i < PRUNE_RETAIN_MAX + 2; i++) {
        struct made made = {"a", 1000 - i, .meta = "annotations: {berth.dev/retain: 'true'}"};

        put(prune, training(b, arena_printf(&b->arena, "r%d", i), &made), 1);
    }
    assert_string_equal(going(b, prune, (struct prune_policy){.age_sec = 10}), "r0:age r1:age");
}

static void test_what_is_held_waits_and_does_not_hold_up_others(void **state)
{
    struct bench *b = *state;
    CLEANUP(prune_free) struct prune *prune = prune_new();
    const struct made made[] = {{"a", 100}, {"a", 90}, {"a", 10}};
    const struct prune_policy policy = {.age_sec = 50};

    put_all(b, prune, made, ARRAY_LEN(made));
    prune_hold(prune, "j0", now_ns() + NSEC_PER_SEC);
    assert_string_equal(going(b, prune, policy), "j1:age");
    prune_remove(prune, "j1");
    assert_int_equal(prune_next(prune, &policy, now_ns()), now_ns() + NSEC_PER_SEC);
    prune_hold(prune, "j0", now_ns());
    assert_string_equal(going(b, prune, policy), "j0:age");
}

static void test_the_next_one_is_known(void **state)
{
    struct bench *b = *state;
    CLEANUP(prune_free) struct prune *prune = prune_new();
    const struct made made[] = {{"a", 20, .spec = "ttlSecondsAfterFinished: 25"}, {"b", 10}};
    const struct prune_policy week = {.age_sec = 7 * 86400}, never = {0};

    assert_true(prune_next(prune, &week, now_ns()) == INT64_MAX);
    put_all(b, prune, made, 2);
    assert_int_equal(prune_next(prune, &never, now_ns()), now_ns() + 5 * NSEC_PER_SEC);
    prune_remove(prune, "j0");
    assert_true(prune_next(prune, &never, now_ns()) == INT64_MAX);
    assert_int_equal(prune_next(prune, &week, now_ns()), now_ns() + 7 * DAY - 10 * NSEC_PER_SEC);
}

static void test_sums_follow_what_comes_and_goes(void **state)
{
    struct bench *b = *state;
    CLEANUP(prune_free) struct prune *prune = prune_new();
    const struct made made[] = {{"a", 20, .bytes = 7}, {"b", 10, .bytes = 5}};
    struct object *again;

    put_all(b, prune, made, 2);
    again = training(b, "j0", &made[0]);
    put(prune, again, 9); /* changed */
    assert_int_equal(prune_totals(prune).count, 2);
    assert_int_equal(prune_totals(prune).bytes, 14);
    prune_remove(prune, "j0");
    prune_remove(prune, "j0");
    prune_remove(prune, "j1");
    assert_int_equal(prune_totals(prune).count, 0);
    assert_int_equal(prune_totals(prune).bytes, 0);
}

struct end_case {
    const char *what;
    int kind;
    const char *yaml;
    const char *end; /* NULL: it is not over */
};

static const struct end_case ends[] = {
    {"a pod ends with its last container", KIND_POD,
     "{status: {phase: Succeeded, containerStatuses: [{state: {terminated: {finishedAt: "
     "'2026-01-01T00:00:01Z'}}}, {state: {terminated: {finishedAt: '2026-01-01T00:00:03Z'}}}]}}",
     "2026-01-01T00:00:03Z"},
    {"a pod that never ran ends with what was said of it", KIND_POD,
     "{status: {phase: Failed, conditions: [{type: Ready, lastTransitionTime: '2026-01-01T00:00:02Z'}]}}",
     "2026-01-01T00:00:02Z"},
    {"or when it was made", KIND_POD,
     "{metadata: {creationTimestamp: '2026-01-01T00:00:09Z'}, status: {phase: Failed}}",
     "2026-01-01T00:00:09Z"},
    {"a pod that runs is not over", KIND_POD, "{status: {phase: Running}}", NULL},
    {"a Job is complete", KIND_JOB,
     "{status: {conditions: [{type: Complete, status: 'True', lastTransitionTime: '2026-01-01T00:00:04Z'}]}}",
     "2026-01-01T00:00:04Z"},
    {"a Job has failed", KIND_JOB,
     "{status: {conditions: [{type: Failed, status: 'True', lastTransitionTime: '2026-01-01T00:00:05Z'}]}}",
     "2026-01-01T00:00:05Z"},
    {"a Job that is suspended is not over", KIND_JOB,
     "{status: {conditions: [{type: Suspended, status: 'True'}]}}", NULL},
    {"a task", KIND_TASK, "{status: {phase: Failed, completionTime: '2026-01-01T00:00:06Z'}}",
     "2026-01-01T00:00:06Z"},
    {"a cancelled training job", KIND_TRAINING_JOB,
     "{status: {phase: Cancelled, completionTime: '2026-01-01T00:00:07Z'}}", "2026-01-01T00:00:07Z"},
    {"a preempted one is not over", KIND_TRAINING_JOB, "{status: {phase: Preempted}}", NULL},
    {"a ConfigMap is no work", KIND_CONFIG_MAP, "{data: {a: b}}", NULL},
};

static void test_when_work_ended(void **state)
{
    struct bench *b = *state;

    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        const struct object *object = object_from(b, ends[i].kind, ends[i].yaml);
        int64_t end = prune_finished_at(object, object_doc(object));
        char text[CLOCK_TEXT_MAX] = "";

        if (!streq(end ? clock_format(end, text) : "", ends[i].end ? ends[i].end : ""))
            fail_msg("%s: '%s'", ends[i].what, text);
        bench_reset(b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_goes, bench_setup, bench_teardown),
        cmocka_unit_test_setup_teardown(test_too_many_retained_count_as_others, bench_setup, bench_teardown),
        cmocka_unit_test_setup_teardown(test_what_is_held_waits_and_does_not_hold_up_others, bench_setup,
                                        bench_teardown),
        cmocka_unit_test_setup_teardown(test_the_next_one_is_known, bench_setup, bench_teardown),
        cmocka_unit_test_setup_teardown(test_sums_follow_what_comes_and_goes, bench_setup, bench_teardown),
        cmocka_unit_test_setup_teardown(test_when_work_ended, bench_setup, bench_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
