/* Warnings, and statuses that others than Berth's controllers write: as Kubernetes 1.33 words them. */
#include "test_validate.h"

struct warning_case {
    int kind;
    const char *doc;
    const char *said; /* lines */
};

#define POD(name, containers, rest)                                                                          \
    "{'metadata':{'name':'" name "'},'spec':{'containers':[" containers "]" rest "}}"
#define JOB(name, containers)                                                                                \
    "{'metadata':{'name':'" name                                                                             \
    "'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[" containers "]}}}}"

static const struct warning_case warning_cases[] = {
    {KIND_POD, POD("p", "{'name':'c','env':[{'name':'A'},{'name':'B'}],'ports':[{'containerPort':1}]}", ""),
     ""},
    {KIND_POD, POD("a.b", "{'name':'c'}", ""),
     "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS "
     "label "
     "is recommended: [must not contain dots]\n"},
    {KIND_POD,
     POD("p",
         "{'name':'c','env':[{'name':'A','value':'1'},{'name':'A','value':'$(A)2'},{'name':'A','value':'3'}]"
         "}",
         ""),
     "spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when using "
     "apply\n"},
    {KIND_POD,
     POD("p",
         "{'name':'c','ports':[{'containerPort':80},{'containerPort':80},{'containerPort':80,'protocol':'UDP'"
         "}]}",
         ""),
     "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]\n"},
    {KIND_POD,
     POD("p",
         "{'name':'c','ports':[{'containerPort':80}]},{'name':'d','ports':[{'containerPort':80,'hostPort':8}]"
         "}",
         ""),
     "spec.containers[1].ports[0]: overlapping port definition with spec.containers[0].ports[0]\n"},
    {KIND_POD, POD("p", "{'name':'c','resources':{'requests':{'memory':'100m','cpu':'100m'}}}", ""),
     "spec.containers[0].resources.requests[memory]: fractional byte value \"100m\" is invalid, must be an "
     "integer\n"},
    {KIND_POD, POD("p", "{'name':'c'}", ",'nodeSelector':{'beta.kubernetes.io/os':'linux'}"),
     "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead\n"},
    {KIND_POD, POD("p", "{'name':'c'}", ",'imagePullSecrets':[{'name':'x'},{'name':'x'}]"),
     "spec.imagePullSecrets[1].name: duplicate name \"x\"\n"},
    {KIND_POD,
     "{'metadata':{'name':'p','annotations':{'container.apparmor.security.beta.kubernetes.io/"
     "c':'unconfined'}},"
     "'spec':{'containers':[{'name':'c'}]}}",
     "metadata.annotations[container.apparmor.security.beta.kubernetes.io/c]: deprecated since v1.30; use "
     "the "
     "\"appArmorProfile\" field instead\n"},
    {KIND_JOB, JOB("j.k", "{'name':'c','env':[{'name':'A'},{'name':'A'}]}"),
     "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS "
     "label is recommended: [must not contain dots]\n"
     "spec.template.spec.containers[0].env[1]: hides previous definition of \"A\", which may be dropped when "
     "using apply\n"},
    {KIND_SECRET,
     "{'metadata':{'name':'s'},'type':'kubernetes.io/tls','data':{'tls.crt':'eA==','tls.key':'eA=='}}",
     "tls: failed to find any PEM data in certificate input\n"},
    {KIND_SECRET, "{'metadata':{'name':'s'},'data':{'tls.crt':'eA=='}}", ""},
    {KIND_CONFIG_MAP, "{'metadata':{'name':'c','ownerReferences':[{'uid':'u1'},{'uid':'u2'},{'uid':'u1'}]}}",
     ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, and "
     "may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: u1\n"},
};

static void test_warnings_of_new_objects(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(warning_cases); i++) {
        const struct kind *kind = kind_by_id(warning_cases[i].kind);
        CLEANUP(arena_done) struct arena arena = {0};
        CLEANUP(buf_done) struct buf text = {0};
        struct rule_ctx ctx = {.arena = &arena, .warnings = json_new_array(&arena)};
        struct json *doc = parse_quoted(&arena, warning_cases[i].doc);

        if (kind->defaults)
            kind->defaults(&ctx, doc);
        kind_prepare(kind, &ctx, doc, NULL);
        if (kind->warnings)
            kind->warnings(&ctx, doc, NULL, ctx.warnings);
        JSON_EACH(ctx.warnings, warning)
            buf_printf(&text, "%s\n", json_string(warning));
        assert_string_equal(text.data ? text.data : "", warning_cases[i].said);
    }
}

static void test_owners_are_kept_once(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct rule_ctx ctx = {.arena = &arena};
    struct json *doc =
        parse_quoted(&arena, "{'metadata':{'ownerReferences':[{'uid':'u1'},{'uid':'u2'},{'uid':'u1'}]}}");

    (void)state;
    kind_prepare(kind_by_id(KIND_CONFIG_MAP), &ctx, doc, NULL);
    assert_int_equal(json_len(json_at(doc, "metadata.ownerReferences")), 2);
}

/* ---- statuses ---- */

struct status_case {
    int kind;
    const char *before, *now; /* documents */
    const char *errors;
};

#define ON(type)     "{'type':'" type "','status':'True'}"
#define STATUS(text) "{'spec':{'completions':2},'status':{" text "}}"
#define DONE         "'startTime':'2026-01-01T00:00:00Z','completionTime':'2026-01-01T01:00:00Z'"

static const struct status_case status_cases[] = {
    {KIND_JOB, STATUS(""), STATUS("'active':1,'ready':1"), ""},
    {KIND_JOB, STATUS(""), STATUS(DONE ",'conditions':[" ON("SuccessCriteriaMet") "," ON("Complete") "]"),
     ""},
    {KIND_JOB, STATUS(""), STATUS("'active':-1"),
     "status.active: Invalid value: -1: must be greater than or equal to 0\n"},
    {KIND_JOB, STATUS("'succeeded':2,'failed':1"), STATUS("'succeeded':1"),
     "status.failed: Invalid value: 0: cannot decrease the failed counter\n"
     "status.succeeded: Invalid value: 1: cannot decrease the succeeded counter\n"},
    {KIND_JOB, STATUS(""), STATUS("'conditions':[" ON("Complete") "]"),
     "status.completionTime: Required value: completionTime is required for Complete jobs\n"
     "status.conditions: Invalid value: cannot set Complete=True condition without the "
     "SuccessCriteriaMet=true "
     "condition\n"
     "status.startTime: Required value: startTime is required for finished job\n"},
    {KIND_JOB, STATUS(DONE ",'conditions':[" ON("SuccessCriteriaMet") "," ON("Complete") "]"), STATUS(DONE),
     "status.completionTime: Invalid value: 2026-01-01 01:00:00 +0000 UTC: cannot set completionTime when "
     "there "
     "is no Complete=True condition\n"
     "status.conditions: Invalid value: cannot disable the terminal Complete=True condition\n"
     "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition\n"},
    {KIND_JOB, STATUS("'startTime':'2026-01-01T00:00:00Z'"), STATUS(""),
     "status.startTime: Required value: startTime cannot be removed for unsuspended job\n"},
    {KIND_JOB, STATUS(""), STATUS("'uncountedTerminatedPods':{'succeeded':['u'],'failed':['','u']}"),
     "status.uncountedTerminatedPods.failed[0]: Invalid value: \"\": must not be empty\n"
     "status.uncountedTerminatedPods.failed[1]: Duplicate value: \"u\"\n"},
    {KIND_JOB, STATUS(""), STATUS("'completedIndexes':'1','ready':1,'failedIndexes':'0'"),
     "status.completedIndexes: Invalid value: \"1\": cannot set non-empty completedIndexes when non-indexed "
     "completion mode\n"
     "status.failedIndexes: Invalid value: \"0\": cannot set non-null failedIndexes when "
     "backoffLimitPerIndex is "
     "null\n"
     "status.ready: Invalid value: 1: cannot set more ready pods than active\n"},
    {KIND_NAMESPACE, "{}", "{'status':{'phase':'Active'}}", ""},
    {KIND_NAMESPACE, "{}", "{'status':{'phase':'Terminating'}}",
     "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty\n"},
    {KIND_NAMESPACE, "{}", "{'metadata':{'deletionTimestamp':'x'},'status':{}}",
     "status.Phase: Invalid value: \"\": may only be 'Terminating' if `deletionTimestamp` is not empty\n"},
    {KIND_NODE, "{}", "{'status':{'capacity':{'cpu':'1500m','nvidia.com/gpu':'2'}}}", ""},
    {KIND_NODE, "{}", "{'status':{'capacity':{'cpu':'-1'},'allocatable':{'nvidia.com/gpu':'1500m'}}}",
     "status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0\n"
     "status.allocatable.nvidia.com/gpu: Invalid value: \"1500m\": must be an integer\n"},
};

static void test_statuses_that_contradict_themselves_are_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(status_cases); i++) {
        const struct kind *kind = kind_by_id(status_cases[i].kind);
        CLEANUP(arena_done) struct arena arena = {0};
        CLEANUP(buf_done) struct buf text = {0};
        struct rule_ctx ctx = {.arena = &arena};
        struct field_errors errors = {.arena = &arena};

        kind->validate_status(&ctx, parse_quoted(&arena, status_cases[i].now),
                              parse_quoted(&arena, status_cases[i].before), &errors);
        JSON_EACH(errors.causes, cause)
            buf_printf(&text, "%s: %s\n", json_get_string(cause, "field"), json_get_string(cause, "message"));
        assert_string_equal(text.data ? text.data : "", status_cases[i].errors);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_warnings_of_new_objects),
        cmocka_unit_test(test_owners_are_kept_once),
        cmocka_unit_test(test_statuses_that_contradict_themselves_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
