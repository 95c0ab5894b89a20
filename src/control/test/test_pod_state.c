#include "control/pod_state.h"
#include "control/test/control_util.h"

static struct arena arena;
static struct pod_state state;

static void read_yaml(const char *text)
{
    struct json *doc = NULL;

    assert_int_equal(yaml_parse_one(str_from(text), &arena, &doc, NULL), 0);
    pod_state_read(doc, &state);
}

/* A pod on a node whose one container waits. */
static void read_waiting(const char *reason, const char *message)
{
    read_yaml(
        arena_printf(&arena,
                     "spec: {nodeName: node-1}\n"
                     "status:\n"
                     "  phase: Pending\n"
                     "  conditions:\n"
                     "  - {type: PodScheduled, status: 'True', lastTransitionTime: '2026-01-01T00:00:00Z'}\n"
                     "  - {type: berth.dev/CannotStart, status: 'True', lastTransitionTime: " NOW_TEXT "}\n"
                     "  containerStatuses:\n"
                     "  - {name: a, image: lab/x, state: {waiting: {reason: %s, message: \"%s\"}}}\n",
                     reason, message));
}

static void test_a_pod_without_a_node_is_pending_and_says_why(void **unused)
{
    (void)unused;
    read_yaml("spec: {}\nstatus: {phase: Pending, conditions: [{type: PodScheduled, status: 'False', "
              "reason: Unschedulable, message: waiting for 1 GPU}]}");
    assert_int_equal(state.kind, POD_STATE_PENDING);
    assert_string_equal(state.text, "waiting for 1 GPU");
    read_yaml("spec: {nodeName: ''}");
    assert_int_equal(state.kind, POD_STATE_PENDING);
    assert_string_equal(state.text, "");
}

static void test_a_bound_pod_without_statuses_is_starting(void **unused)
{
    (void)unused;
    read_yaml("spec: {nodeName: node-1}\nstatus: {phase: Pending}");
    assert_int_equal(state.kind, POD_STATE_STARTING);
    assert_string_equal(state.text, "creating its containers");
    read_waiting("ContainerCreating", "");
    assert_int_equal(state.kind, POD_STATE_STARTING);
    read_waiting("PodInitializing", "");
    assert_int_equal(state.kind, POD_STATE_STARTING);
}

static void test_a_pull_shows_its_progress(void **unused)
{
    char text[POD_STATE_TEXT_MAX];

    (void)unused;
    pod_state_pulling_text("lab/x", 40, text);
    read_waiting("ContainerCreating", text);
    assert_int_equal(state.kind, POD_STATE_PULLING);
    assert_string_equal(state.text, "pulling image lab/x: 40 %");
    pod_state_pulling_text("lab/x", -1, text);
    read_waiting("ContainerCreating", text);
    assert_int_equal(state.kind, POD_STATE_PULLING);
    assert_string_equal(state.text, "pulling image lab/x");
}

static void test_every_failing_reason_is_stuck_since_the_first_failure(void **unused)
{
    static const struct {
        const char *reason, *message, *text;
    } cases[] = {
        {"ErrImagePull", "not found", "cannot pull image lab/x: not found"},
        {"ImagePullBackOff", "not found", "cannot pull image lab/x: not found"},
        {"ErrImageNeverPull", "not present", "cannot pull image lab/x: not present"},
        {"InvalidImageName", "invalid image name 'X'", "invalid image name 'X'"},
        {"CreateContainerConfigError", "user 'eve' has no account on this machine",
         "user 'eve' has no account on this machine"},
        {"CreateContainerError", "no space left", "no space left"},
        {"RunContainerError", "", "RunContainerError"},
        {"CreatePodSandboxError", "port 80 is in use", "port 80 is in use"},
    };

    (void)unused;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        read_waiting(cases[i].reason, cases[i].message);
        assert_int_equal(state.kind, POD_STATE_STUCK);
        assert_string_equal(state.reason, cases[i].reason);
        assert_string_equal(state.text, cases[i].text);
        assert_true(state.since == now_ns());
    }
}

static void test_without_the_condition_a_pod_is_stuck_since_it_was_bound(void **unused)
{
    (void)unused;
    read_yaml("spec: {nodeName: node-1}\n"
              "status: {phase: Pending, conditions: [{type: PodScheduled, status: 'True', "
              "lastTransitionTime: " NOW_TEXT
              "}], containerStatuses: [{name: a, image: i, state: {waiting: {reason: ErrImagePull}}}]}");
    assert_int_equal(state.kind, POD_STATE_STUCK);
    assert_string_equal(state.text, "cannot pull image i");
    assert_true(state.since == now_ns());
}

static void test_a_command_that_cannot_be_started_is_stuck(void **unused)
{
    (void)unused;
    read_yaml("spec: {nodeName: node-1}\n"
              "status: {phase: Running, containerStatuses: [{name: a, image: i, state: {waiting: {reason: "
              "CrashLoopBackOff, message: back-off 10s}}, lastState: {terminated: {exitCode: 128, reason: "
              "StartError, message: 'exec /nope: no such file'}}}]}");
    assert_int_equal(state.kind, POD_STATE_STUCK);
    assert_string_equal(state.text, "exec /nope: no such file");
}

static void test_running_is_what_the_node_reported(void **unused)
{
    (void)unused;
    read_yaml("spec: {nodeName: node-1}\n"
              "status: {phase: Running, containerStatuses: [{name: a, state: {running: {startedAt: " NOW_TEXT
              "}}}]}");
    assert_int_equal(state.kind, POD_STATE_RUNNING);
    assert_string_equal(state.text, "");
    assert_true(state.since == now_ns());
    read_yaml(
        "spec: {nodeName: node-1}\n"
        "status: {phase: Running, containerStatuses: [{name: a, state: {waiting: {reason: CrashLoopBackOff, "
        "message: back-off 10s}}, lastState: {terminated: {exitCode: 1, reason: Error, startedAt: " NOW_TEXT
        "}}}]}");
    assert_int_equal(state.kind, POD_STATE_RUNNING);
    assert_string_equal(state.reason, "CrashLoopBackOff");
    assert_string_equal(state.text, "back-off 10s");
    assert_true(state.since == now_ns());
}

static void test_a_pod_whose_init_container_runs_is_starting(void **unused)
{
    (void)unused;
    read_yaml("spec: {nodeName: node-1}\n"
              "status: {phase: Pending, initContainerStatuses: [{name: fetch, state: {running: {}}}], "
              "containerStatuses: [{name: a, state: {waiting: {reason: PodInitializing}}}]}");
    assert_int_equal(state.kind, POD_STATE_STARTING);
    assert_string_equal(state.text, "init container fetch is running");
}

static void test_a_deleted_pod_is_stopping_since_it_was_asked(void **unused)
{
    (void)unused;
    read_yaml("metadata: {deletionTimestamp: '2026-01-01T00:10:30Z', deletionGracePeriodSeconds: 30}\n"
              "spec: {nodeName: node-1}\nstatus: {phase: Running}");
    assert_int_equal(state.kind, POD_STATE_STOPPING);
    assert_true(state.since == now_ns());
}

static void read_end(const char *phase, const char *end, const char *more)
{
    read_yaml(arena_printf(&arena,
                           "spec: {nodeName: node-1}\nstatus:\n  phase: %s\n  containerStatuses:\n"
                           "  - {name: a, state: {terminated: {finishedAt: " NOW_TEXT ", %s}}}\n%s",
                           phase, end, more));
    assert_int_equal(state.kind, POD_STATE_OVER);
    assert_true(state.since == now_ns());
}

static void test_an_end_is_told_with_its_last_line(void **unused)
{
    char text[POD_STATE_TEXT_MAX];

    (void)unused;
    read_end("Succeeded", "exitCode: 0, reason: Completed", "");
    assert_false(state.failed);
    assert_string_equal(state.text, "");
    read_end("Failed", "exitCode: 1, reason: Error", "");
    assert_true(state.failed);
    assert_string_equal(state.text, "exit code 1");
    pod_state_end_text(&state, "ValueError: x", text);
    assert_string_equal(text, "exit code 1: ValueError: x");
    read_end("Failed", "exitCode: 2, reason: Error, message: \"Traceback\\nKeyError: 3\\n\\n\"", "");
    assert_string_equal(state.text, "exit code 2: KeyError: 3");
    assert_string_equal(state.message, "Traceback\nKeyError: 3\n\n");
}

static void test_signals_and_lack_of_memory_are_told(void **unused)
{
    (void)unused;
    read_end("Failed", "exitCode: 139, signal: 11, reason: Error", "");
    assert_int_equal(state.signal, 11);
    assert_string_equal(state.text, "killed by signal 11");
    read_end("Failed", "exitCode: 137, signal: 9, reason: OOMKilled", "");
    assert_true(state.oom);
    assert_string_equal(state.text, "out of memory (killed, exit code 137)");
}

static void test_a_pod_ended_as_a_whole_says_why(void **unused)
{
    (void)unused;
    read_end("Failed", "exitCode: 137, reason: Error", "  reason: Evicted\n  message: the disk is full\n");
    assert_string_equal(state.reason, "Evicted");
    assert_string_equal(state.text, "Evicted: the disk is full");
    assert_int_equal(state.exit_code, 137);
    read_yaml("status: {phase: Failed, reason: Preempted}");
    assert_int_equal(state.kind, POD_STATE_OVER);
    assert_int_equal(state.exit_code, -1);
    assert_string_equal(state.text, "Preempted");
}

static void test_the_container_that_failed_is_the_one_told_of(void **unused)
{
    (void)unused;
    read_yaml("status: {phase: Failed, containerStatuses: [{name: a, state: {terminated: {exitCode: 0}}}, "
              "{name: b, state: {terminated: {exitCode: 3}}}]}");
    assert_int_equal(state.exit_code, 3);
    read_yaml(
        "status: {phase: Failed, initContainerStatuses: [{name: i, state: {terminated: {exitCode: 4}}}], "
        "containerStatuses: [{name: b, state: {waiting: {reason: PodInitializing}}}]}");
    assert_int_equal(state.exit_code, 4);
}

static void test_a_long_sentence_is_cut_between_characters(void **unused)
{
    char long_text[2 * POD_STATE_TEXT_MAX + 1];

    (void)unused;
    for (size_t i = 0; i < POD_STATE_TEXT_MAX; i++)
        memcpy(long_text + 2 * i, "\xc3\xa9", 2);
    long_text[sizeof(long_text) - 1] = '\0';
    read_waiting("CreateContainerConfigError", long_text);
    assert_int_equal(strlen(state.text), POD_STATE_TEXT_MAX - 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pod_without_a_node_is_pending_and_says_why),
        cmocka_unit_test(test_a_bound_pod_without_statuses_is_starting),
        cmocka_unit_test(test_a_pull_shows_its_progress),
        cmocka_unit_test(test_every_failing_reason_is_stuck_since_the_first_failure),
        cmocka_unit_test(test_without_the_condition_a_pod_is_stuck_since_it_was_bound),
        cmocka_unit_test(test_a_command_that_cannot_be_started_is_stuck),
        cmocka_unit_test(test_running_is_what_the_node_reported),
        cmocka_unit_test(test_a_pod_whose_init_container_runs_is_starting),
        cmocka_unit_test(test_a_deleted_pod_is_stopping_since_it_was_asked),
        cmocka_unit_test(test_an_end_is_told_with_its_last_line),
        cmocka_unit_test(test_signals_and_lack_of_memory_are_told),
        cmocka_unit_test(test_a_pod_ended_as_a_whole_says_why),
        cmocka_unit_test(test_the_container_that_failed_is_the_one_told_of),
        cmocka_unit_test(test_a_long_sentence_is_cut_between_characters),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);

    arena_done(&arena);
    return failed;
}
