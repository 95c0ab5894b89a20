/* Quotas, limit ranges and priorities: what is filled in, what is refused, and in which words. */
#include "control/limitrange.h"
#include "control/priority.h"
#include "control/quota.h"
#include "control_util.h"

/* ---- quotas ---- */

struct quota_case {
    const char *what;
    const char *quota; /* its spec */
    int kind;
    const char *there; /* list of objects */
    const char *wanted;
    const char *used;    /* of the quota before, "name=value,…" */
    const char *refusal; /* NULL: admitted */
};

#define C(name, resources) "{name: " name ", resources: {" resources "}}"

static const struct quota_case quota_cases[] = {
    {"pods are counted", "{hard: {pods: 2}}", KIND_POD, "[{}]", "{metadata: {name: p}}", "pods=1", NULL},
    {"and refused", "{hard: {pods: 1}}", KIND_POD, "[{}]", "{metadata: {name: p}}", "pods=1",
     "pods \"p\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"},
    {"finished pods do not count, but are objects", "{hard: {pods: 1, count/pods: 1}}", KIND_POD,
     "[{status: {phase: Failed}}]", "{metadata: {name: p}}", "count/pods=1,pods=0",
     "pods \"p\" is forbidden: exceeded quota: q, requested: count/pods=1, used: count/pods=1, limited: "
     "count/pods=1"},
    {"requests add up over containers", "{hard: {requests.cpu: 1, cpu: 1, requests.memory: 1Gi}}", KIND_POD,
     "[{spec: {containers: [" C("a", "requests: {cpu: 500m, memory: 512Mi}") "]}}]",
     "{metadata: {name: p}, spec: {containers: [" C("a", "requests: {cpu: 300m, memory: 1Mi}") ", " C(
         "b", "requests: {cpu: 300m, memory: 1Mi}") "]}}",
     "cpu=500m,requests.cpu=500m,requests.memory=512Mi",
     "pods \"p\" is forbidden: exceeded quota: q, requested: cpu=600m,requests.cpu=600m, used: "
     "cpu=500m,requests.cpu=500m, limited: cpu=1,requests.cpu=1"},
    {"an init container counts where it needs more", "{hard: {limits.memory: 1Gi}}", KIND_POD, "[]",
     "{metadata: {name: p}, spec: {initContainers: [" C("i", "limits: {memory: 2Gi}") "], containers: [" C(
         "a", "limits: {memory: 512Mi}") "]}}",
     "limits.memory=0",
     "pods \"p\" is forbidden: exceeded quota: q, requested: limits.memory=2Gi, used: limits.memory=0, "
     "limited: "
     "limits.memory=1Gi"},
    {"a quota on cpu makes it a duty to say how much", "{hard: {limits.cpu: 1, requests.memory: 1}}",
     KIND_POD, "[]",
     "{metadata: {name: p}, spec: {containers: [" C("b", "") ", " C("a", "requests: {memory: 1}") "]}}",
     "limits.cpu=0,requests.memory=0",
     "pods \"p\" is forbidden: failed quota: q: must specify limits.cpu for: a,b; requests.memory for: b"},
    {"GPUs", "{hard: {requests.nvidia.com/gpu: 2}}", KIND_POD,
     "[{spec: {containers: [" C("a", "requests: {nvidia.com/gpu: 1}") "]}}]",
     "{metadata: {name: p}, spec: {containers: [" C("a", "requests: {nvidia.com/gpu: 2}") "]}}",
     "requests.nvidia.com/gpu=1",
     "pods \"p\" is forbidden: exceeded quota: q, requested: requests.nvidia.com/gpu=2, used: "
     "requests.nvidia.com/gpu=1, "
     "limited: requests.nvidia.com/gpu=2"},
    {"a scope leaves others out", "{hard: {pods: 0}, scopes: [Terminating]}", KIND_POD, "[{}]",
     "{metadata: {name: p}}", "pods=0", NULL},
    {"and takes its own", "{hard: {pods: 0}, scopes: [Terminating]}", KIND_POD, "[{}]",
     "{metadata: {name: p}, spec: {activeDeadlineSeconds: 5}}", "pods=0",
     "pods \"p\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0"},
    {"best effort", "{hard: {pods: 1}, scopes: [BestEffort]}", KIND_POD,
     "[{}, {spec: {containers: [" C("a", "requests: {cpu: 1}") "]}}]", "{metadata: {name: p}}", "pods=1",
     "pods \"p\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"},
    {"by priority class",
     "{hard: {pods: 0}, scopeSelector: {matchExpressions: [{scopeName: PriorityClass, operator: In, values: "
     "[high]}]}}",
     KIND_POD, "[]", "{metadata: {name: p}, spec: {priorityClassName: low}}", "pods=0", NULL},
    {"claims and their size", "{hard: {persistentvolumeclaims: 5, requests.storage: 3Gi}}", KIND_PVC,
     "[{spec: {resources: {requests: {storage: 2Gi}}}}]",
     "{metadata: {name: p}, spec: {resources: {requests: {storage: 2Gi}}}}",
     "persistentvolumeclaims=1,requests.storage=2Gi",
     "persistentvolumeclaims \"p\" is forbidden: exceeded quota: q, requested: requests.storage=2Gi, used: "
     "requests.storage=2Gi, limited: requests.storage=3Gi"},
    {"by storage class", "{hard: {fast.storageclass.storage.k8s.io/requests.storage: 1Gi}}", KIND_PVC, "[]",
     "{metadata: {name: p}, spec: {storageClassName: slow, resources: {requests: {storage: 2Gi}}}}",
     "fast.storageclass.storage.k8s.io/requests.storage=0", NULL},
    {"any kind can be counted", "{hard: {count/jobs.batch: 1}}", KIND_JOB, "[{}]", "{metadata: {name: j}}",
     "count/jobs.batch=1",
     "jobs.batch \"j\" is forbidden: exceeded quota: q, requested: count/jobs.batch=1, used: "
     "count/jobs.batch=1, "
     "limited: count/jobs.batch=1"},
    {"services and what is dear about them",
     "{hard: {services: 5, services.nodeports: 1, services.loadbalancers: 0}}", KIND_SERVICE,
     "[{spec: {type: NodePort, ports: [{}]}}]",
     "{metadata: {name: s}, spec: {type: LoadBalancer, ports: [{}]}}",
     "services=1,services.loadbalancers=0,services.nodeports=1",
     "services \"s\" is forbidden: exceeded quota: q, requested: "
     "services.loadbalancers=1,services.nodeports=1, used: "
     "services.loadbalancers=0,services.nodeports=1, limited: services.loadbalancers=0,services.nodeports=1"},
    {"other kinds are none of its business", "{hard: {pods: 0}}", KIND_CONFIG_MAP, "[{}]",
     "{metadata: {name: c}}", "pods=0", NULL},
};

static char *print(struct bench *b, const struct resource_list *list)
{
    CLEANUP(buf_done) struct buf text = {0};
    char amount[QUANTITY_TEXT_MAX];

    RESOURCE_LIST_EACH(list, it)
        buf_printf(&text, "%s%s=%s", text.len ? "," : "", it->name, quantity_format(&it->amount, amount));
    return arena_strndup(&b->arena, text.data ? text.data : "", text.len);
}

static void check_quota(struct bench *b, const struct quota_case *c)
{
    struct json *doc = from_yaml(b, arena_printf(&b->arena, "{metadata: {name: q}, spec: %s}", c->quota));
    const struct kind *kind = kind_by_id(c->kind);
    struct quota quota;
    struct quota_usage usage;
    struct resource_list used;
    struct failure failure = {0};
    struct quota_request request = {.kind = kind, .usage = &usage, .now = now_ns()};
    int result;

    quota_read(doc, &b->arena, &quota);
    quota_zero(&quota, &b->arena, &used);
    JSON_EACH(from_yaml(b, c->there), it) {
        quota_measure(kind, it, &b->arena, &usage);
        quota_add(&quota, &usage, now_ns(), &used);
    }
    if (!streq(print(b, &used), c->used))
        fail_msg("%s: used %s", c->what, print(b, &used));
    request.doc = from_yaml(b, c->wanted);
    request.name = json_at_string(request.doc, "metadata.name");
    quota_measure(kind, request.doc, &b->arena, &usage);
    result = quota_admit(&quota, &used, &request, &b->arena, &failure);
    if (!streq(failure.message, c->refusal))
        fail_msg("%s:\n  got  %s\n  want %s", c->what, failure.message, c->refusal);
    assert_int_equal(result, c->refusal ? -1 : 0);
    assert_int_equal(failure.code, c->refusal ? 403 : 0);
}

static void test_quotas(void **state)
{
    for (size_t i = 0; i < ARRAY_LEN(quota_cases); i++) {
        bench_reset(*state);
        check_quota(*state, &quota_cases[i]);
    }
}

static void test_an_update_is_charged_its_difference(void **state)
{
    struct bench *b = *state;
    struct quota quota;
    struct quota_usage old, usage;
    struct resource_list used;
    struct failure failure = {0};
    struct quota_request request = {.kind = kind_by_id(KIND_PVC), .name = "p", .usage = &usage, .old = &old};

    quota_read(from_yaml(b, "{metadata: {name: q}, spec: {hard: {requests.storage: 3Gi}}}"), &b->arena,
               &quota);
    quota_zero(&quota, &b->arena, &used);
    quota_measure(request.kind, from_yaml(b, "{spec: {resources: {requests: {storage: 2Gi}}}}"), &b->arena,
                  &old);
    quota_add(&quota, &old, 0, &used);
    quota_measure(request.kind, from_yaml(b, "{spec: {resources: {requests: {storage: 3Gi}}}}"), &b->arena,
                  &usage);
    assert_int_equal(quota_admit(&quota, &used, &request, &b->arena, &failure), 0);
    quota_measure(request.kind, from_yaml(b, "{spec: {resources: {requests: {storage: 4Gi}}}}"), &b->arena,
                  &usage);
    assert_int_equal(quota_admit(&quota, &used, &request, &b->arena, &failure), -1);
    assert_string_equal(
        failure.message,
        "persistentvolumeclaims \"p\" is forbidden: exceeded quota: q, requested: requests.storage=2Gi, "
        "used: requests.storage=2Gi, limited: requests.storage=3Gi");
}

/* Such claims were taken once; what they ask for is more than any quota, not less than nothing. */
static void test_claims_beyond_reason_exceed_every_quota(void **state)
{
    struct bench *b = *state;
    struct quota quota;
    struct quota_usage usage;
    struct resource_list used;
    struct failure failure = {0};
    struct quota_request request = {.kind = kind_by_id(KIND_PVC), .name = "p", .usage = &usage};

    quota_read(from_yaml(b, "{metadata: {name: q}, spec: {hard: {requests.storage: 3Gi}}}"), &b->arena,
               &quota);
    quota_zero(&quota, &b->arena, &used);
    quota_measure(request.kind, from_yaml(b, "{spec: {resources: {requests: {storage: 1e40}}}}"), &b->arena,
                  &usage);
    assert_int_equal(quota_admit(&quota, &used, &request, &b->arena, &failure), -1);
    quota_add(&quota, &usage, 0, &used);
    quota_add(&quota, &usage, 0, &used);
    quota_measure(request.kind, from_yaml(b, "{spec: {resources: {requests: {storage: '1'}}}}"), &b->arena,
                  &usage);
    assert_int_equal(quota_admit(&quota, &used, &request, &b->arena, &failure), -1);
}

static void test_a_pod_stuck_in_its_end_stops_counting(void **state)
{
    struct bench *b = *state;
    struct quota quota;
    struct quota_usage usage;
    struct resource_list used;

    quota_read(from_yaml(b, "{metadata: {name: q}, spec: {hard: {pods: 3}}}"), &b->arena, &quota);
    quota_measure(
        kind_by_id(KIND_POD),
        from_yaml(b,
                  "{metadata: {deletionTimestamp: '2026-01-01T00:10:00Z', deletionGracePeriodSeconds: 30}}"),
        &b->arena, &usage);
    quota_zero(&quota, &b->arena, &used);
    quota_add(&quota, &usage, now_ns() + 29 * NSEC_PER_SEC, &used);
    assert_string_equal(print(b, &used), "pods=1");
    quota_add(&quota, &usage, now_ns() + 31 * NSEC_PER_SEC, &used);
    assert_string_equal(print(b, &used), "pods=1");
}

static void test_quota_status_is_written_when_it_changes(void **state)
{
    struct bench *b = *state;
    struct object *object =
        object_from(b, KIND_RESOURCE_QUOTA, "{metadata: {name: q}, spec: {hard: {pods: 3}}}");
    struct quota quota;
    struct resource_list used;

    quota_read(object_json(object, &b->arena), &b->arena, &quota);
    quota_zero(&quota, &b->arena, &used);
    quota_look(object, &quota, &used, &b->effects);
    assert_string_equal(effects_text(b), "status q");
    assert_true(json_equal(json_get(effect_doc(b, EFFECT_UPDATE_STATUS), "status"),
                           from_yaml(b, "{hard: {pods: '3'}, used: {pods: '0'}}")));
    object = object_of(b, KIND_RESOURCE_QUOTA, effect_doc(b, EFFECT_UPDATE_STATUS));
    b->effects.len = 0;
    quota_look(object, &quota, &used, &b->effects);
    assert_string_equal(effects_text(b), "");
}

/* ---- limit ranges ---- */

struct limit_case {
    const char *what;
    const char *limits;
    const char *resources; /* of the one container; of a claim when it starts with "storage" */
    const char *problem;
};

static const struct limit_case limit_cases[] = {
    {"max by limit", "{type: Container, max: {memory: 24Gi}}", "limits: {memory: 32Gi}",
     "maximum memory usage per Container is 24Gi, but limit is 32Gi"},
    {"max without a limit", "{type: Container, max: {memory: 24Gi}}", "",
     "maximum memory usage per Container is 24Gi.  No limit is specified"},
    {"min by request", "{type: Container, min: {cpu: 100m}}", "requests: {cpu: 50m}",
     "minimum cpu usage per Container is 100m, but request is 50m"},
    {"min without a request", "{type: Container, min: {cpu: 100m}}", "",
     "minimum cpu usage per Container is 100m.  No request is specified"},
    {"ratio", "{type: Container, maxLimitRequestRatio: {cpu: 2}}", "requests: {cpu: 1}, limits: {cpu: 3}",
     "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"},
    {"ratio without a request", "{type: Container, maxLimitRequestRatio: {cpu: 2}}", "limits: {cpu: 3}",
     "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0"},
    {"pods as a whole", "{type: Pod, max: {cpu: 1}}", "limits: {cpu: 2}",
     "maximum cpu usage per Pod is 1, but limit is 2"},
    {"several problems in brackets", "{type: Container, max: {cpu: 1, memory: 1Gi}}",
     "limits: {cpu: 2, memory: 2Gi}",
     "[maximum cpu usage per Container is 1, but limit is 2, maximum memory usage per Container is 1Gi, but "
     "limit is 2Gi]"},
    {"all is well", "{type: Container, max: {cpu: 1}, min: {cpu: 100m}}",
     "requests: {cpu: 1}, limits: {cpu: 1}", NULL},
};

static void test_limits(void **state)
{
    struct bench *b = *state;

    for (size_t i = 0; i < ARRAY_LEN(limit_cases); i++) {
        const struct limit_case *c = &limit_cases[i];
        struct json *range = from_yaml(b, arena_printf(&b->arena, "{spec: {limits: [%s]}}", c->limits));
        struct json *pod = from_yaml(
            b,
            arena_printf(&b->arena, "{metadata: {name: p}, spec: {containers: [{name: c, resources: {%s}}]}}",
                         c->resources));
        struct failure failure = {0};
        const char *want =
            c->problem ? arena_printf(&b->arena, "pods \"p\" is forbidden: %s", c->problem) : NULL;

        limitrange_check_pod(range, &b->arena, pod, &failure);
        if (!streq(failure.message, want))
            fail_msg("%s:\n  got  %s\n  want %s", c->what, failure.message, want);
    }
}

static void test_claims_have_limits_too(void **state)
{
    struct bench *b = *state;
    struct json *range = from_yaml(
        b, "{spec: {limits: [{type: PersistentVolumeClaim, min: {storage: 1Gi}, max: {storage: 2Gi}}]}}");
    struct failure failure = {0};

    assert_int_equal(limitrange_check_claim(
                         range, &b->arena,
                         from_yaml(b, "{metadata: {name: c}, spec: {resources: {requests: {storage: 3Gi}}}}"),
                         &failure),
                     -1);
    assert_string_equal(failure.message,
                        "persistentvolumeclaims \"c\" is forbidden: maximum storage usage per "
                        "PersistentVolumeClaim is 2Gi, but request is 3Gi");
    failure = (struct failure){0};
    assert_int_equal(limitrange_check_claim(
                         range, &b->arena,
                         from_yaml(b, "{metadata: {name: c}, spec: {resources: {requests: {storage: 2Gi}}}}"),
                         &failure),
                     0);
}

static void test_limit_range_fills_in_what_is_missing(void **state)
{
    struct bench *b = *state;
    struct json *pod =
        from_yaml(b, "{metadata: {name: p}, spec: {containers: [{name: a}, {name: b, resources: {limits: "
                     "{cpu: 2}, requests: {cpu: 2}}}], initContainers: [{name: i}]}}");
    const struct json *want =
        from_yaml(b, "{metadata: {name: p, annotations: {kubernetes.io/limit-ranger: 'LimitRanger plugin "
                     "set: cpu, memory request for "
                     "container a; cpu, memory limit for container a; memory request for container b; memory "
                     "limit for container b; "
                     "cpu, memory request for init container i; cpu, memory limit for init container i'}}, "
                     "spec: {containers: "
                     "[{name: a, resources: {limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 1, memory: "
                     "1Gi}}}, {name: b, resources: "
                     "{limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 2, memory: 1Gi}}}], initContainers: "
                     "[{name: i, resources: "
                     "{limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 1, memory: 1Gi}}}]}}");

    limitrange_fill(
        from_yaml(b, "{spec: {limits: [{type: Container, default: {memory: 1Gi, cpu: 1}, defaultRequest: "
                     "{memory: 1Gi, cpu: 1}}]}}"),
        &b->arena, pod);
    assert_true(json_equal(pod, want));
}

/* ---- priorities ---- */

static const struct priority_class classes[] = {
    {.name = "high", .value = 1000, .preemption_policy = "Never"},
    {.name = "low", .value = 10, .is_default = true},
    {.name = "lower", .value = 20, .is_default = true},
};

struct priority_case {
    const char *spec;
    size_t count;
    int64_t value;
    const char *class, *policy;
    const char *problem;
};

static const struct priority_case priority_cases[] = {
    {"{}", 1, 0, NULL, "PreemptLowerPriority", NULL},
    {"{}", 3, 10, "low", "PreemptLowerPriority", NULL},
    {"{priorityClassName: high}", 3, 1000, "high", "Never", NULL},
    {"{priorityClassName: high, priority: 1000}", 3, 1000, "high", "Never", NULL},
    {"{priorityClassName: none}", 3, 0, NULL, NULL, "no PriorityClass with name none was found"},
    {"{priorityClassName: high, priority: 7}", 3, 0, NULL, NULL,
     "the integer value of priority (7) must not be provided in pod spec; priority admission controller "
     "computed 1000 from "
     "the given PriorityClass name"},
    {"{priorityClassName: low, preemptionPolicy: Never}", 3, 0, NULL, NULL,
     "the string value of PreemptionPolicy (Never) must not be provided in pod spec; priority admission "
     "controller computed "
     "PreemptLowerPriority from the given PriorityClass name"},
};

static void test_priorities(void **state)
{
    struct bench *b = *state;

    for (size_t i = 0; i < ARRAY_LEN(priority_cases); i++) {
        const struct priority_case *c = &priority_cases[i];
        struct json *pod = from_yaml(b, arena_printf(&b->arena, "{metadata: {name: p}, spec: %s}", c->spec));
        struct failure failure = {0};
        int result = priority_admit_pod(classes, c->count, &b->arena, pod, &failure);

        if (c->problem) {
            assert_int_equal(result, -1);
            assert_string_equal(failure.message,
                                arena_printf(&b->arena, "pods \"p\" is forbidden: %s", c->problem));
            continue;
        }
        assert_int_equal(result, 0);
        assert_int_equal(json_int(json_at(pod, "spec.priority"), -1), c->value);
        assert_true(streq(json_at_string(pod, "spec.priorityClassName"), c->class));
        assert_string_equal(json_at_string(pod, "spec.preemptionPolicy"), c->policy);
    }
}

static void test_there_is_one_default_class(void **state)
{
    struct bench *b = *state;
    struct failure failure = {0};
    struct json *class = from_yaml(b, "{metadata: {name: new}, globalDefault: true}");

    assert_int_equal(priority_admit_class(classes, 2, &b->arena, class, false, &failure), -1);
    assert_string_equal(failure.message,
                        "priorityclasses.scheduling.k8s.io \"new\" is forbidden: PriorityClass low is "
                        "already marked as default. Only one default can exist");
    json_set_string(&b->arena, json_get(class, "metadata"), "name", "low");
    assert_int_equal(priority_admit_class(classes, 2, &b->arena, class, true, &failure), 0);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, bench_setup, bench_teardown)
    const struct CMUnitTest tests[] = {
        T(test_quotas),
        T(test_an_update_is_charged_its_difference),
        T(test_claims_beyond_reason_exceed_every_quota),
        T(test_a_pod_stuck_in_its_end_stops_counting),
        T(test_quota_status_is_written_when_it_changes),
        T(test_limits),
        T(test_claims_have_limits_too),
        T(test_limit_range_fills_in_what_is_missing),
        T(test_priorities),
        T(test_there_is_one_default_class),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
