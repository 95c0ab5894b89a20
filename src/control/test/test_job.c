#include "control/job.h"
#include "control/util.h"
#include "control_util.h"

#define POD_TEMPLATE                                                                                         \
    "template: {metadata: {labels: {app: t}}, spec: {restartPolicy: Never, containers: [{name: c}]}}"
#define STARTED "startTime: '2026-01-01T00:00:00Z'"
/* A pod: name, phase, and what else its metadata, spec and status have. */
#define POD(name, phase, meta, status)                                                                       \
    "{metadata: {name: " name                                                                                \
    ", creationTimestamp: '2026-01-01T00:00:00Z', finalizers: [" JOB_TRACKING_FINALIZER "], " meta           \
    "}, spec: {nodeName: node}, status: {phase: " phase ", " status "}}"
/* Counted before: without the finalizer. */
#define OLD_POD(name, phase) "{metadata: {name: " name "}, spec: {}, status: {phase: " phase "}}"
#define INDEX(i)             "annotations: {batch.kubernetes.io/job-completion-index: '" #i "'}, "
#define ENDED(at, code)                                                                                      \
    "containerStatuses: [{name: c, state: {terminated: {finishedAt: '2026-01-01T" at "Z', exitCode: " #code  \
    "}}}], "
#define DELETED "deletionTimestamp: '2026-01-01T00:10:00Z', deletionGracePeriodSeconds: 30, "

struct job_case {
    const char *what;
    const char *spec, *status, *pods;
    const char *expect;
    const char *paths; /* of the new status: "path=value path=value"; "-" for absent */
    bool no_creates, deleting;
};

static const struct job_case cases[] = {
    {"a new job makes its pod and starts", "completions: 1, parallelism: 1", "", "[]",
     "create j-?; event SuccessfulCreate; status j", "active=1 ready=0 terminating=0 startTime=" NOW_TEXT},
    {"parallelism is kept, not exceeded", "completions: 5, parallelism: 2", STARTED,
     "[" POD("a", "Running", "", "conditions: [{type: Ready, status: 'True'}]") "]",
     "create j-?; event SuccessfulCreate; status j", "active=2 ready=1"},
    {"no more pods than completions are left", "completions: 3, parallelism: 5", STARTED ", succeeded: 2",
     "[]", "create j-?; event SuccessfulCreate; status j", "active=1 succeeded=2"},
    {"nothing changes, nothing is done", "completions: 1, parallelism: 1",
     STARTED ", active: 1, ready: 0, terminating: 0, uncountedTerminatedPods: {}",
     "[" POD("a", "Running", "", "") "]", "", NULL},
    {"a success is counted and its pod released", "completions: 2, parallelism: 1", STARTED ", active: 1",
     "[" POD("a", "Succeeded", "", ENDED("00:09:59", 0)) "]",
     "create j-?; event SuccessfulCreate; update a; status j", "succeeded=1 active=1"},
    {"a pod that was counted is not counted again", "completions: 3, parallelism: 1",
     STARTED ", succeeded: 1", "[" OLD_POD("a", "Succeeded") "]",
     "create j-?; event SuccessfulCreate; status j", "succeeded=1"},
    {"the last success completes", "completions: 1, parallelism: 1", STARTED ", active: 1",
     "[" POD("a", "Succeeded", "", "") "]", "update a; event Completed; status j",
     "succeeded=1 active=- conditions.0.type=SuccessCriteriaMet conditions.1.type=Complete "
     "conditions.1.reason=CompletionsReached completionTime=" NOW_TEXT},
    {"without completions one success is enough, the others end by themselves", "parallelism: 2", STARTED,
     "[" POD("a", "Succeeded", "", "") ", " POD("b", "Running", "", "") "]", "update a; status j",
     "succeeded=1 active=1 conditions=-"},
    {"a failure waits before it is tried again", "completions: 1, parallelism: 1", STARTED,
     "[" POD("a", "Failed", "", ENDED("00:09:55", 1)) "]", "wake +5; update a; status j",
     "failed=1 active=-"},
    {"each failure doubles the wait", "completions: 1, parallelism: 1", STARTED ", failed: 2",
     "[" POD("a", "Failed", "", ENDED("00:09:00", 1)) ", " POD(
         "b", "Failed", "", ENDED("00:09:20", 1)) ", " POD("e", "Failed", "", ENDED("00:09:50", 1)) "]",
     "wake +30; update a; update b; update e; status j", "failed=5"},
    {"after the wait it is tried again", "completions: 1, parallelism: 1", STARTED,
     "[" POD("a", "Failed", "", ENDED("00:09:49", 1)) "]",
     "create j-?; event SuccessfulCreate; update a; status j", "failed=1 active=1"},
    {"the wait is for failures since the last success", "completions: 9, parallelism: 1", STARTED,
     "[" POD("a", "Failed", "", ENDED("00:09:51", 1)) ", " POD("b", "Succeeded", "",
                                                               ENDED("00:09:52", 0)) "]",
     "create j-?; event SuccessfulCreate; update a; update b; status j", "failed=1 succeeded=1"},
    {"the backoff limit ends it and what runs counts as failed",
     "completions: 2, parallelism: 2, backoffLimit: 0", STARTED,
     "[" POD("a", "Failed", "", ENDED("00:09:51", 1)) ", " POD("b", "Running", "", "") "]",
     "update a; update b; delete b; event SuccessfulDelete; status j",
     "failed=2 active=- terminating=1 conditions.0.type=FailureTarget "
     "conditions.0.reason=BackoffLimitExceeded "
     "conditions.1=-"},
    {"it has failed when the last pod is gone", "completions: 2, parallelism: 2, backoffLimit: 0",
     STARTED ", failed: 2, conditions: [{type: FailureTarget, status: 'True', reason: BackoffLimitExceeded, "
             "message: m}]",
     "[" OLD_POD("a", "Failed") "]", "event BackoffLimitExceeded; status j",
     "failed=2 conditions.1.type=Failed conditions.1.reason=BackoffLimitExceeded completionTime=-"},
    {"containers that restart count against the limit",
     "completions: 1, parallelism: 1, backoffLimit: 2, template: {spec: {restartPolicy: OnFailure}}", STARTED,
     "[" POD("a", "Running", "", "containerStatuses: [{name: c, restartCount: 2}]") "]",
     "update a; delete a; event SuccessfulDelete; status j",
     "failed=1 conditions.0.reason=BackoffLimitExceeded"},
    {"a deadline wakes it", "completions: 1, parallelism: 1, activeDeadlineSeconds: 700", STARTED,
     "[" POD("a", "Running", "", "") "]", "wake +100; status j", "active=1"},
    {"and ends it", "completions: 1, parallelism: 1, activeDeadlineSeconds: 600", STARTED,
     "[" POD("a", "Running", "", "") "]", "update a; delete a; event SuccessfulDelete; status j",
     "failed=1 conditions.0.reason=DeadlineExceeded"},
    {"a deleted pod counts as failed and is replaced", "completions: 1, parallelism: 1", STARTED,
     "[" POD("a", "Running", DELETED, "") "]", "create j-?; event SuccessfulCreate; update a; status j",
     "failed=1 terminating=1 active=1"},
    {"unless only real failures are replaced", "completions: 1, parallelism: 1, podReplacementPolicy: Failed",
     STARTED, "[" POD("a", "Running", DELETED, "") "]", "status j", "failed=- terminating=1"},
    {"suspending deletes what runs, uncounted", "completions: 1, parallelism: 1, suspend: true",
     STARTED ", active: 1", "[" POD("a", "Running", "", "") "]",
     "update a; delete a; event SuccessfulDelete; event Suspended; status j",
     "active=- failed=- conditions.0.type=Suspended conditions.0.status=True"},
    {"a job that starts suspended has no start", "completions: 1, parallelism: 1, suspend: true", "", "[]",
     "event Suspended; status j", "startTime=- active=-"},
    {"resuming starts anew", "completions: 1, parallelism: 1",
     STARTED
     ", conditions: [{type: Suspended, status: 'True', reason: JobSuspended, message: Job suspended}]",
     "[]", "create j-?; event SuccessfulCreate; event Resumed; status j",
     "startTime=" NOW_TEXT " conditions.0.status=False conditions.0.reason=JobResumed"},
    {"fewer wanted: the youngest stage goes first", "completions: 3, parallelism: 1", STARTED,
     "[" POD("a", "Running", "", "") ", " POD("b", "Pending", "", "") "]",
     "update b; delete b; event SuccessfulDelete; status j", "active=1 failed=-"},
    {"indexes are filled from the front", "completions: 4, parallelism: 2, completionMode: Indexed",
     STARTED ", completedIndexes: '0,2'", "[]",
     "create j-1-?; event SuccessfulCreate; create j-3-?; event SuccessfulCreate; status j",
     "succeeded=2 completedIndexes=0,2 active=2"},
    {"an index that succeeds is noted in ranges", "completions: 4, parallelism: 1, completionMode: Indexed",
     STARTED ", completedIndexes: '0,2', succeeded: 2",
     "[" POD("a", "Succeeded", INDEX(1), "") ", " POD("b", "Running", INDEX(3), "") "]", "update a; status j",
     "succeeded=3 completedIndexes=0-2 active=1"},
    {"the same index twice: one goes", "completions: 4, parallelism: 4, completionMode: Indexed", STARTED,
     "[" POD("a", "Running", INDEX(1), "") ", " POD("b", "Pending", INDEX(1), "") "]",
     "update b; delete b; event SuccessfulDelete; status j", "active=1"},
    {"an index may use up its own limit",
     "completions: 2, parallelism: 2, completionMode: Indexed, backoffLimit: 99, backoffLimitPerIndex: 0",
     STARTED, "[" POD("a", "Failed", INDEX(0), "") ", " POD("b", "Succeeded", INDEX(1), "") "]",
     "update a; update b; event FailedIndexes; status j",
     "failedIndexes=0 completedIndexes=1 conditions.1.reason=FailedIndexes"},
    {"a policy can ignore a failure",
     "completions: 1, parallelism: 1, podFailurePolicy: {rules: [{action: Ignore, onPodConditions: [{type: "
     "DisruptionTarget}]}]}",
     STARTED,
     "[" POD("a", "Failed", "",
             "conditions: [{type: DisruptionTarget, status: 'True'}], " ENDED("00:00:01", 1)) "]",
     "create j-?; event SuccessfulCreate; update a; status j", "failed=-"},
    {"a policy can end the job",
     "completions: 1, parallelism: 1, podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: "
     "In, values: "
     "[42]}}]}",
     STARTED, "[" POD("a", "Failed", "", ENDED("00:09:51", 42)) "]",
     "update a; event PodFailurePolicy; status j", "failed=1 conditions.1.reason=PodFailurePolicy"},
    {"a policy that matches nothing counts",
     "completions: 1, parallelism: 1, podFailurePolicy: {rules: [{action: FailJob, onExitCodes: {operator: "
     "NotIn, "
     "values: [1]}}]}",
     STARTED, "[" POD("a", "Failed", "", ENDED("00:00:01", 1)) "]",
     "create j-?; event SuccessfulCreate; update a; status j", "failed=1"},
    {"a success policy ends it early",
     "completions: 3, parallelism: 3, completionMode: Indexed, successPolicy: {rules: [{succeededIndexes: "
     "'0', "
     "succeededCount: 1}]}",
     STARTED, "[" POD("a", "Succeeded", INDEX(0), "") ", " POD("b", "Running", INDEX(1), "") "]",
     "update a; update b; delete b; event SuccessfulDelete; status j",
     "succeeded=1 failed=- conditions.0.reason=SuccessPolicy conditions.1=-"},
    {"a finished job is left alone", "completions: 1",
     STARTED ", conditions: [{type: Complete, status: 'True', lastTransitionTime: '2026-01-01T00:09:00Z'}]",
     "[]", "", NULL},
    {"until its time is over", "completions: 1, ttlSecondsAfterFinished: 100",
     STARTED ", conditions: [{type: Failed, status: 'True', lastTransitionTime: '2026-01-01T00:09:00Z'}]",
     "[]", "wake +40", NULL},
    {"then it goes", "completions: 1, ttlSecondsAfterFinished: 60",
     STARTED ", conditions: [{type: Complete, status: 'True', lastTransitionTime: '2026-01-01T00:09:00Z'}]",
     "[]", "delete j", NULL},
    {"zero completions are complete", "completions: 0, parallelism: 1", "", "[]", "event Completed; status j",
     "conditions.1.type=Complete"},
    {"where pods cannot be made it takes stock", "completions: 2, parallelism: 2", "",
     "[" POD("a", "Running", "", "") "]", "status j", "active=1 startTime=" NOW_TEXT, .no_creates = true},
    {"a job on its way out lets its pods go", "completions: 2, parallelism: 2", STARTED,
     "[" POD("a", "Running", "", "") ", " POD("b", "Succeeded", "", "") "]", "update a; update b; status j",
     "succeeded=1 failed=-", .deleting = true},
    {"somebody else's job is not ours", "managedBy: example.com/x, completions: 1", "", "[]", "", NULL},
};

static char *value_text(struct bench *b, const struct json *value)
{
    if (!value)
        return arena_strdup(&b->arena, "-");
    if (json_string(value))
        return arena_strdup(&b->arena, json_string(value));
    return arena_printf(&b->arena, "%lld", (long long)json_int(value, -1));
}

static void check_paths(struct bench *b, const struct job_case *c)
{
    const struct json *status = json_get(effect_doc(b, EFFECT_UPDATE_STATUS), "status");
    struct str rest = str_from(c->paths), pair, key;

    while (str_split(&rest, ' ', &pair)) {
        const char *have;

        str_split(&pair, '=', &key);
        have = value_text(b, json_at(status, arena_strndup(&b->arena, key.s, key.len)));
        if (!str_is(pair, have))
            fail_msg("%s: %.*s is %s", c->what, STR_ARG(key), have);
    }
}

static void check_case(struct bench *b, const struct job_case *c)
{
    struct job_pod pods[8];
    struct job_view view = {.now = now_ns(), .pods = pods, .no_creates = c->no_creates};
    struct json *doc;
    const char *text;

    bench_reset(b);
    doc = from_yaml(b, arena_printf(&b->arena, "{metadata: {name: j%s}, spec: {%s%s}, status: {%s}}",
                                    c->deleting ? ", deletionTimestamp: '" NOW_TEXT "'" : "", c->spec,
                                    strstr(c->spec, "template:") ? "" : ", " POD_TEMPLATE, c->status));
    view.job = object_of(b, KIND_JOB, doc);
    JSON_EACH(from_yaml(b, c->pods), it)
        job_pod_read(object_of(b, KIND_POD, it), &pods[view.pod_count++]);
    job_look(&view, &b->effects);
    text = effects_text(b);
    if (!streq(text, c->expect))
        fail_msg("%s:\n  got  %s\n  want %s", c->what, text, c->expect);
    if (c->paths)
        check_paths(b, c);
}

static void test_looks(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        check_case(*state, &cases[i]);
}

static void test_pods_look_like_kubernetes_makes_them(void **state)
{
    struct bench *b = *state;
    struct object *job =
        object_from(b, KIND_JOB,
                    "{metadata: {name: j, uid: u}, spec: {completions: 2, completionMode: Indexed, "
                    "template: {metadata: {labels: {app: t}, annotations: {k: v}}, spec: {containers: "
                    "[{name: c, env: [{name: A, value: b}]}]}}}}");
    const struct json *want = from_yaml(
        b, "{metadata: {name: j-1-NAME, generateName: j-1-, namespace: default, labels: {app: t, "
           "batch.kubernetes.io/job-completion-index: '1'}, annotations: {k: v, "
           "batch.kubernetes.io/job-completion-index: '1'}, ownerReferences: [{apiVersion: batch/v1, kind: "
           "Job, name: j, "
           "uid: u, controller: true, blockOwnerDeletion: true}], finalizers: "
           "[batch.kubernetes.io/job-tracking]}, spec: "
           "{hostname: j-1, containers: [{name: c, env: [{name: A, value: b}, {name: JOB_COMPLETION_INDEX, "
           "valueFrom: "
           "{fieldRef: {fieldPath: \"metadata.labels['batch.kubernetes.io/job-completion-index']\"}}}]}]}}");
    struct json *pod = job_pod_document(&b->arena, object_json(job, &b->arena), "j-1-abcde", 1, -1);

    json_set_string(&b->arena, json_get(pod, "metadata"), "name", "j-1-NAME");
    assert_true(json_equal(pod, want));
}

static void test_names_are_cut_and_differ(void **state)
{
    struct bench *b = *state;
    struct json *job = from_yaml(
        b, "{metadata: {uid: u, name: a123456789b123456789c123456789d123456789e123456789f123456789ghi}}");
    const char *one = job_pod_name(&b->arena, job, 7, 1, 0), *two = job_pod_name(&b->arena, job, 7, 1, 1);

    assert_int_equal(strlen(one), 63);
    assert_string_not_equal(one, two);
    assert_string_equal(one, job_pod_name(&b->arena, job, 7, 1, 0));
    assert_true(strncmp(one + 55, "-7-", 3) == 0);
}

static void test_many_pods_take_several_looks(void **state)
{
    struct bench *b = *state;
    struct job_view view = {.now = now_ns()};
    size_t creates = 0;

    view.job = object_from(
        b, KIND_JOB, "{metadata: {name: j}, spec: {completions: 5000, parallelism: 5000, " POD_TEMPLATE "}}");
    job_look(&view, &b->effects);
    for (size_t i = 0; i < b->effects.len; i++)
        creates += b->effects.v[i].type == EFFECT_CREATE;
    assert_int_equal(creates, JOB_CREATES_MAX);
    assert_non_null(strstr(effects_text(b), "wake +0"));
    assert_int_equal(json_int(json_at(effect_doc(b, EFFECT_UPDATE_STATUS), "status.active"), 0),
                     JOB_CREATES_MAX);
}

/* Stored when more was allowed: it ends instead of taking memory for every index. */
static void test_a_job_of_too_many_indexes_ends(void **state)
{
    struct bench *b = *state;
    struct job_view view = {.now = now_ns()};
    struct job_pod pod;

    view.job = object_from(b, KIND_JOB,
                           "{metadata: {name: j}, spec: {completions: 2147483647, parallelism: 5, "
                           "completionMode: Indexed, backoffLimitPerIndex: 1, " POD_TEMPLATE
                           "}, status: {" STARTED ", completedIndexes: 0-2147483646}}");
    job_pod_read(object_from(b, KIND_POD, POD("p", "Running", INDEX(2000000000), "")), &pod);
    view.pods = &pod;
    view.pod_count = 1;
    job_look(&view, &b->effects);
    assert_true(b->arena.total < 1 << 20);
    assert_non_null(strstr(effects_text(b), "delete p"));
    assert_true(
        condition_is(json_get(effect_doc(b, EFFECT_UPDATE_STATUS), "status"), "FailureTarget", "True"));
}

/* Each index of a thousand that fail is looked at once, not once for each other. */
static void test_indexes_that_wait_are_found_at_once(void **state)
{
    enum { COUNT = 20000 };
    struct bench *b = *state;
    struct job_view view = {.now = now_ns()};
    const struct object *object =
        object_from(b, KIND_POD, POD("p", "Failed", INDEX(0), ENDED("00:09:59", 1)));
    struct job_pod *pods = arena_zalloc(&b->arena, COUNT * sizeof(*pods));

    view.job =
        object_from(b, KIND_JOB,
                    "{metadata: {name: j}, spec: {completions: 20001, parallelism: 10, "
                    "completionMode: Indexed, backoffLimitPerIndex: 3, backoffLimit: 100000, " POD_TEMPLATE
                    "}, status: {" STARTED "}}");
    for (int i = 0; i < COUNT; i++) {
        job_pod_read(object, &pods[i]);
        pods[i].index = i;
    }
    view.pods = pods;
    view.pod_count = COUNT;
    job_look(&view, &b->effects);
    assert_non_null(strstr(effects_text(b), "create j-20000-?"));
    assert_non_null(strstr(effects_text(b), "wake +9"));
}

static void test_many_finished_pods_are_counted_in_several_looks(void **state)
{
    struct bench *b = *state;
    struct job_view view = {.now = now_ns()};
    VEC(struct job_pod) pods = {0};

    view.job = object_from(b, KIND_JOB,
                           "{metadata: {name: j}, spec: {completions: 1000, parallelism: 1000, " POD_TEMPLATE
                           "}, status: {" STARTED "}}");
    for (int i = 0; i < 1000; i++) {
        struct job_pod pod;

        job_pod_read(object_from(b, KIND_POD, arena_printf(&b->arena, POD("p%d", "Succeeded", "", ""), i)),
                     &pod);
        vec_push(&pods, pod);
    }
    view.pods = pods.v;
    view.pod_count = pods.len;
    job_look(&view, &b->effects);
    assert_int_equal(json_int(json_at(effect_doc(b, EFFECT_UPDATE_STATUS), "status.succeeded"), 0), 50);
    assert_null(condition_find(json_get(effect_doc(b, EFFECT_UPDATE_STATUS), "status"), "Complete"));
    vec_done(&pods);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)
    const struct CMUnitTest tests[] = {
        T(test_looks),
        T(test_pods_look_like_kubernetes_makes_them),
        T(test_names_are_cut_and_differ),
        T(test_many_pods_take_several_looks),
        T(test_a_job_of_too_many_indexes_ends),
        T(test_indexes_that_wait_are_found_at_once),
        T(test_many_finished_pods_are_counted_in_several_looks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
