#include "base/clock.h"
#include "base/test/test.h"
#include "control/pod_state.h"
#include "engine/local/status.h"

#define T0 (INT64_C(1700000000) * NSEC_PER_SEC)

static struct arena arena;

static struct json *pod_doc(const char *policy)
{
    struct json *doc;
    char *text = arena_printf(&arena,
                              "{\"metadata\":{\"name\":\"p\",\"namespace\":\"n\",\"uid\":\"u\"},\"spec\":{"
                              "\"restartPolicy\":\"%s\",\"containers\":[{\"name\":\"a\",\"image\":\"i\"}]}}",
                              policy);

    assert_int_equal(json_parse(str_from(text), &arena, &doc, NULL, NULL), 0);
    return doc;
}

static const char *at(const struct json *doc, const char *path)
{
    return json_string_or(json_at(doc, path), "-");
}

static void show(struct json *doc, struct facts *facts, int64_t now)
{
    static struct pod_plan plan;

    plan_pod(facts, now, &plan);
    status_write(&arena, doc, facts, &plan, now);
}

static void test_states_are_shown_as_kubernetes_does(void **state)
{
    struct json *doc = pod_doc("Always");
    CLEANUP(facts_done) struct facts facts = {0};

    (void)state;
    facts_init(&facts, doc);
    facts.sandbox = true;
    show(doc, &facts, T0);
    assert_string_equal(at(doc, "status.phase"), "Pending");
    assert_string_equal(at(doc, "status.containerStatuses.0.state.waiting.reason"), "ContainerCreating");
    ctr_stuck(&facts.ctrs[0], "ErrImagePull", "no such image", T0);
    show(doc, &facts, T0);
    assert_string_equal(at(doc, "status.containerStatuses.0.state.waiting.reason"), "ErrImagePull");
    ctr_started(&facts.ctrs[0], T0);
    facts.ctrs[0].ready = facts.ctrs[0].begun = true;
    show(doc, &facts, T0);
    assert_string_equal(at(doc, "status.phase"), "Running");
    assert_string_equal(at(doc, "status.containerStatuses.0.state.running.startedAt"),
                        "2023-11-14T22:13:20Z");
    assert_true(json_bool(json_at(doc, "status.containerStatuses.0.ready")));
    ctr_exited(&facts.ctrs[0], 1, 0, "Error", NULL, 0, T0 + NSEC_PER_SEC);
    ctr_again(&facts.ctrs[0]);
    ctr_started(&facts.ctrs[0], T0 + 2 * NSEC_PER_SEC);
    ctr_exited(&facts.ctrs[0], 1, 0, "Error", NULL, 0, T0 + 3 * NSEC_PER_SEC);
    show(doc, &facts, T0 + 4 * NSEC_PER_SEC);
    assert_string_equal(at(doc, "status.containerStatuses.0.state.waiting.reason"), "CrashLoopBackOff");
    assert_string_equal(at(doc, "status.containerStatuses.0.state.waiting.message"),
                        "back-off 10s restarting failed container=a pod=p_n(u)");
    assert_string_equal(at(doc, "status.containerStatuses.0.lastState.terminated.reason"), "Error");
    assert_int_equal(json_int(json_at(doc, "status.containerStatuses.0.restartCount"), 0), 1);
}

static void test_stored_status_gives_the_same_facts(void **state)
{
    struct json *doc = pod_doc("Always");
    CLEANUP(facts_done) struct facts facts = {0}, again = {0};

    (void)state;
    facts_init(&facts, doc);
    facts.sandbox = true;
    facts.start_time = T0;
    for (int i = 0; i < 2; i++) {
        ctr_started(&facts.ctrs[0], T0);
        ctr_exited(&facts.ctrs[0], 3, 0, "Error", "bad", 0, T0 + NSEC_PER_SEC);
        if (i == 0)
            ctr_again(&facts.ctrs[0]);
    }
    show(doc, &facts, T0 + NSEC_PER_SEC);
    facts_init(&again, doc);
    assert_int_equal(again.ctrs[0].state, CTR_EXITED);
    assert_int_equal(again.ctrs[0].restarts, 1);
    assert_int_equal(again.ctrs[0].end.code, 3);
    assert_string_equal(again.ctrs[0].end.message, "bad");
    assert_int_equal(again.ctrs[0].end.finished, T0 + NSEC_PER_SEC);
    assert_int_equal(again.start_time, T0);
}

static void test_finished_pod_says_so(void **state)
{
    struct json *doc = pod_doc("Never");
    CLEANUP(facts_done) struct facts facts = {0};

    (void)state;
    facts_init(&facts, doc);
    facts.sandbox = true;
    ctr_started(&facts.ctrs[0], T0);
    ctr_exited(&facts.ctrs[0], 0, 0, "Completed", NULL, 0, T0 + NSEC_PER_SEC);
    show(doc, &facts, T0 + NSEC_PER_SEC);
    assert_string_equal(at(doc, "status.phase"), "Succeeded");
    assert_string_equal(at(doc, "status.containerStatuses.0.state.terminated.reason"), "Completed");
    JSON_EACH(json_at(doc, "status.conditions"), it)
        if (streq(json_get_string(it, "type"), "Ready"))
            assert_string_equal(json_get_string(it, "reason"), "PodCompleted");
}

static const struct json *condition(const struct json *doc, const char *type)
{
    JSON_EACH(json_at(doc, "status.conditions"), it)
        if (streq(json_get_string(it, "type"), type))
            return it;
    return NULL;
}

static void test_every_way_to_be_stuck_is_read_as_such(void **state)
{
    static const char *const reasons[] = {"ErrImagePull", "ErrImageNeverPull", "InvalidImageName",
                                          "CreateContainerConfigError", "CreateContainerError"};
    struct pod_state got;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(reasons); i++) {
        struct json *doc = pod_doc("Never");
        CLEANUP(facts_done) struct facts facts = {0};

        json_set_string(&arena, json_get(doc, "spec"), "nodeName", "here");
        facts_init(&facts, doc);
        facts.sandbox = true;
        ctr_stuck(&facts.ctrs[0], reasons[i], "why", T0);
        show(doc, &facts, T0 + 5 * NSEC_PER_SEC);
        pod_state_read(doc, &got);
        assert_int_equal(got.kind, POD_STATE_STUCK);
        assert_non_null(strstr(got.text, "why"));
    }
}

static void test_a_pod_that_cannot_be_made_is_stuck_since_its_first_failure(void **state)
{
    struct json *doc = pod_doc("Never");
    CLEANUP(facts_done) struct facts facts = {0}, again = {0};
    struct pod_state got;

    (void)state;
    json_set_string(&arena, json_get(doc, "spec"), "nodeName", "here");
    facts_init(&facts, doc);
    facts_no_sandbox(&facts, "CreateContainerConfigError", "user 'eve' has no account on this machine");
    show(doc, &facts, T0);
    facts_no_sandbox(&facts, "CreateContainerConfigError", "user 'eve' has no account on this machine");
    show(doc, &facts, T0 + NSEC_PER_SEC);
    facts_init(&again, doc); /* a daemon that starts knows it still */
    show(doc, &again, T0 + 2 * NSEC_PER_SEC);
    pod_state_read(doc, &got);
    assert_int_equal(got.kind, POD_STATE_STUCK);
    assert_string_equal(got.text, "user 'eve' has no account on this machine");
    assert_true(got.since == T0);
    facts_sandbox_ready(&again);
    ctr_started(&again.ctrs[0], T0 + 3 * NSEC_PER_SEC);
    show(doc, &again, T0 + 3 * NSEC_PER_SEC);
    assert_string_equal(json_get_string(condition(doc, POD_CANNOT_START), "status"), "False");
}

static void test_another_try_is_stuck_until_something_comes_in(void **state)
{
    struct json *doc = pod_doc("Never");
    CLEANUP(facts_done) struct facts facts = {0};
    struct pod_state got;

    (void)state;
    json_set_string(&arena, json_get(doc, "spec"), "nodeName", "here");
    facts_init(&facts, doc);
    facts_sandbox_ready(&facts);
    facts.ctrs[0].state = CTR_PULLING;
    facts.ctrs[0].fetching = true;
    show(doc, &facts, T0);
    pod_state_read(doc, &got);
    assert_int_equal(got.kind, POD_STATE_PULLING);
    assert_string_equal(got.text, "pulling image i");
    ctr_stuck(&facts.ctrs[0], "ErrImagePull", "not found", T0);
    facts.ctrs[0].state = CTR_PULLING;
    show(doc, &facts, T0 + 20 * NSEC_PER_SEC);
    pod_state_read(doc, &got);
    assert_int_equal(got.kind, POD_STATE_STUCK);
    assert_string_equal(got.text, "cannot pull image i: not found");
    facts.ctrs[0].percent = 7;
    show(doc, &facts, T0 + 21 * NSEC_PER_SEC);
    pod_state_read(doc, &got);
    assert_int_equal(got.kind, POD_STATE_PULLING);
    assert_string_equal(got.text, "pulling image i: 7 %");
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
        cmocka_unit_test(test_states_are_shown_as_kubernetes_does),
        cmocka_unit_test(test_stored_status_gives_the_same_facts),
        cmocka_unit_test(test_finished_pod_says_so),
        cmocka_unit_test(test_every_way_to_be_stuck_is_read_as_such),
        cmocka_unit_test(test_a_pod_that_cannot_be_made_is_stuck_since_its_first_failure),
        cmocka_unit_test(test_another_try_is_stuck_until_something_comes_in),
    };

    return cmocka_run_group_tests(tests, NULL, done);
}
