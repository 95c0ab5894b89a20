/* What jobs are refused for, as a real API server (1.33) words it. */
#include "test_validate.h"

static const struct create_case creates[] = {
    /* job always */
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Always','containers':[{'name':'c'"
     ",'image':'i:1'}]}}}}",
     "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"\n"},
    /* job none */
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':null,'containers':[{'name':'c','"
     "image':'i:1'}]}}}}",
     "spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"\n"},
    /* job bad */
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'X','containers':[{'name':'c','"
     "image':'i:1'}]}}}}",
     "spec.template.spec.restartPolicy: Unsupported value: \"X\": supported values: \"Always\", "
     "\"OnFailure\", \"Never\"\n"
     "spec.template.spec.restartPolicy: Unsupported value: \"X\": supported values: \"OnFailure\", "
     "\"Never\"\n"},
    /* job counts */
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1'}]}},'parallelism':-1,'completions':-1,'backoffLimit':-1,'activeDeadlineSeconds':-1,'"
     "ttlSecondsAfterFinished':-1}}",
     "spec.parallelism: Invalid value: -1: must be greater than or equal to 0\n"
     "spec.completions: Invalid value: -1: must be greater than or equal to 0\n"
     "spec.activeDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0\n"
     "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0\n"
     "spec.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or equal to 0\n"},
    /* job indexed */
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1'}]}},'completionMode':'Indexed','parallelism':100001}}",
     "spec.parallelism: Invalid value: 100001: must be less than or equal to 10000\n"
     "spec.completions: Required value: when completion mode is Indexed\n"},
    /* job mode */
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1'}]}},'completionMode':'X'}}",
     "spec.completionMode: Unsupported value: \"X\": supported values: \"NonIndexed\", \"Indexed\"\n"},
    /* job perindex */
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1'}]}},'backoffLimitPerIndex':1,'maxFailedIndexes':1}}",
     "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode\n"
     "spec.maxFailedIndexes: Invalid value: 1: requires indexed completion mode\n"},
    /* job maxfailed */
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1'}]}},'completionMode':'Indexed','completions':1,'maxFailedIndexes':2}}",
     "spec.backoffLimitPerIndex: Required value: when maxFailedIndexes is specified\n"
     "spec.maxFailedIndexes: Invalid value: 2: must be less than or equal to completions\n"},
    /* job pfp */
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'OnFailure','containers':[{'name':"
     "'c','image':'i:1'}]}},'podFailurePolicy':{'rules':[{'action':'X','onExitCodes':{'operator':'In','"
     "values':[]}},{'action':'','onExitCodes':{'operator':'','values':[3,2,2]}},{'action':'FailIndex','"
     "onExitCodes':{'containerName':'zz','operator':'NotIn','values':[1]},'onPodConditions':[{'type':'A'}]}]}"
     ",'podReplacementPolicy':'TerminatingOrFailed'}}",
     "spec.podFailurePolicy.rules[0].action: Unsupported value: \"X\": supported values: \"Count\", "
     "\"FailIndex\", \"FailJob\", \"Ignore\"\n"
     "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: []: at least one value is required\n"
     "spec.podFailurePolicy.rules[1].action: Required value: valid values: [\"Count\" \"FailIndex\" "
     "\"FailJob\" \"Ignore\"]\n"
     "spec.podFailurePolicy.rules[1].onExitCodes.operator: Required value: valid values: [\"In\" \"NotIn\"]\n"
     "spec.podFailurePolicy.rules[1].onExitCodes.values[2]: Duplicate value: 2\n"
     "spec.podFailurePolicy.rules[1].onExitCodes.values: Invalid value: [3,2,2]: must be ordered\n"
     "spec.podFailurePolicy.rules[2].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex "
     "to be set\n"
     "spec.podFailurePolicy.rules[2].onExitCodes.containerName: Invalid value: \"zz\": must be one of the "
     "container or initContainer names in the pod template\n"
     "spec.podFailurePolicy.rules[2]: Invalid value: specifying both OnExitCodes and OnPodConditions is not "
     "supported\n"
     "spec.podReplacementPolicy: Unsupported value: \"TerminatingOrFailed\": supported values: \"Failed\"\n"
     "spec.template.spec.restartPolicy: Invalid value: \"OnFailure\": only \"Never\" is supported when "
     "podFailurePolicy is specified\n"},
    /* job prp */
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1'}]}},'podReplacementPolicy':'X'}}",
     "spec.podReplacementPolicy: Unsupported value: \"X\": supported values: \"Failed\", "
     "\"TerminatingOrFailed\"\n"},
    /* job success */
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1'}]}},'successPolicy':{'rules':[]}}}",
     "spec.successPolicy: Invalid value: {\"rules\":[]}: requires indexed completion mode\n"},
    /* job success2 */
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1'}]}},'completionMode':'Indexed','completions':2,'successPolicy':{'rules':[]}}}",
     "spec.successPolicy.rules: Required value: at least one rules must be specified when the successPolicy "
     "is specified\n"},
    /* job sel */
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1'}]}},'selector':{'matchLabels':{'a':'b'}}}}",
     "spec.selector: Invalid value: "
     "{\"matchLabels\":{\"a\":\"b\",\"batch.kubernetes.io/"
     "controller-uid\":\"11111111-2222-4333-8444-555555555555\"}}: `selector` not auto-generated\n"
     "spec.template.metadata.labels: Invalid value: "
     "{\"batch.kubernetes.io/controller-uid\":\"11111111-2222-4333-8444-555555555555\",\"batch.kubernetes.io/"
     "job-name\":\"j\",\"controller-uid\":\"11111111-2222-4333-8444-555555555555\",\"job-name\":\"j\"}: "
     "`selector` does not match template `labels`\n"},
    /* job manual */
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1'}]},'metadata':{'labels':{'a':'c'}}},'manualSelector':true,'selector':{'matchLabels':{'a':"
     "'b'}}}}",
     "spec.template.metadata.labels: Invalid value: {\"a\":\"c\"}: `selector` does not match template "
     "`labels`\n"},
    /* job uid label */
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1'}]},'metadata':{'labels':{'controller-uid':'x','job-name':'y'}}}}}",
     "spec.template.metadata.labels[controller-uid]: Invalid value: "
     "{\"controller-uid\":\"x\",\"job-name\":\"y\",\"batch.kubernetes.io/"
     "controller-uid\":\"11111111-2222-4333-8444-555555555555\",\"batch.kubernetes.io/job-name\":\"j\"}: "
     "must be '11111111-2222-4333-8444-555555555555'\n"
     "spec.template.metadata.labels[job-name]: Invalid value: "
     "{\"controller-uid\":\"x\",\"job-name\":\"y\",\"batch.kubernetes.io/"
     "controller-uid\":\"11111111-2222-4333-8444-555555555555\",\"batch.kubernetes.io/job-name\":\"j\"}: "
     "must be 'j'\n"},
    /* job tmpl */
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[],'hostname'"
     ":'A'},'metadata':{'labels':{'a':'b c'},'annotations':{'x y':'z'}}}}}",
     "metadata.labels: Invalid value: \"b c\": a valid label must be an empty string or consist of "
     "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
     "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
     "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')\n"
     "spec.template.labels: Invalid value: \"b c\": a valid label must be an empty string or consist of "
     "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
     "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
     "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')\n"
     "spec.template.annotations: Invalid value: \"x y\": name part must consist of alphanumeric characters, "
     "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  "
     "or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"
     "spec.template.spec.containers: Required value\n"
     "spec.template.spec.hostname: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower "
     "case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. "
     "'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')\n"},
    /* job managedby2 */
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1'}]}},'managedBy':''}}",
     "spec.managedBy: Required value\n"},
};

static const struct update_case updates[] = {
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1','resources':{'limits':{'cpu':'0.5'}}}]}}}}",
     "{'spec':{'parallelism':3}}", ""},
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1','resources':{'limits':{'cpu':'0.5'}}}]}}}}",
     "{'spec':{'completions':3}}", "spec.completions: Invalid value: 3: field is immutable\n"},
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1','resources':{'limits':{'cpu':'0.5'}}}]}},'completionMode':'Indexed','completions':2,'"
     "parallelism':2}}",
     "{'spec':{'completions':3}}",
     "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism\n"},
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1','resources':{'limits':{'cpu':'0.5'}}}]}},'completionMode':'Indexed','completions':2,'"
     "parallelism':2}}",
     "{'spec':{'completions':3,'parallelism':3}}", ""},
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1','resources':{'limits':{'cpu':'0.5'}}}]}}}}",
     "{'spec':{'template':{'spec':{'containers':[{'name':'c','image':'x'}]}}}}",
     "spec.template: Invalid value: "
     "{\"spec\":{\"restartPolicy\":\"Never\",\"containers\":[{\"name\":\"c\",\"image\":\"x\",\"resources\":{}"
     ",\"terminationMessagePath\":\"/dev/"
     "termination-log\",\"terminationMessagePolicy\":\"File\",\"imagePullPolicy\":\"Always\"}],"
     "\"terminationGracePeriodSeconds\":30,\"dnsPolicy\":\"ClusterFirst\",\"securityContext\":{},"
     "\"schedulerName\":\"default-scheduler\"},\"metadata\":{\"labels\":{\"batch.kubernetes.io/"
     "controller-uid\":\"11111111-2222-4333-8444-555555555555\",\"batch.kubernetes.io/"
     "job-name\":\"j\",\"controller-uid\":\"11111111-2222-4333-8444-555555555555\",\"job-name\":\"j\"}}}: "
     "field is immutable\n"},
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1','resources':{'limits':{'cpu':'0.5'}}}]}}}}",
     "{'spec':{'template':{'spec':{'containers':[{'name':'c','image':'i:1','resources':{'limits':{'cpu':'"
     "500m'}}}]}}}}",
     ""},
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1','resources':{'limits':{'cpu':'0.5'}}}]}},'completions':1}}",
     "{'spec':{'completionMode':'Indexed'}}",
     "spec.completionMode: Invalid value: \"Indexed\": field is immutable\n"},
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1','resources':{'limits':{'cpu':'0.5'}}}]}}}}",
     "{'spec':{'backoffLimit':1,'ttlSecondsAfterFinished':5,'activeDeadlineSeconds':9,'suspend':true}}", ""},
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1','resources':{'limits':{'cpu':'0.5'}}}]}}}}",
     "{'spec':{'backoffLimit':-1}}",
     "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0\n"},
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1','resources':{'limits':{'cpu':'0.5'}}}]}},'suspend':true}}",
     "{'spec':{'template':{'metadata':{'labels':{'x':'y'}},'spec':{'nodeSelector':{'a':'b'},'tolerations':[{'"
     "key':'t','operator':'Exists'}]}}}}",
     ""},
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1','resources':{'limits':{'cpu':'0.5'}}}]}},'suspend':true}}",
     "{'spec':{'template':{'spec':{'hostname':'h'}}}}",
     "spec.template: Invalid value: "
     "{\"spec\":{\"restartPolicy\":\"Never\",\"containers\":[{\"name\":\"c\",\"image\":\"i:1\",\"resources\":"
     "{\"limits\":{\"cpu\":\"0.5\"}},\"terminationMessagePath\":\"/dev/"
     "termination-log\",\"terminationMessagePolicy\":\"File\",\"imagePullPolicy\":\"IfNotPresent\"}],"
     "\"terminationGracePeriodSeconds\":30,\"dnsPolicy\":\"ClusterFirst\",\"securityContext\":{},"
     "\"schedulerName\":\"default-scheduler\",\"hostname\":\"h\"},\"metadata\":{\"labels\":{\"batch."
     "kubernetes.io/controller-uid\":\"11111111-2222-4333-8444-555555555555\",\"batch.kubernetes.io/"
     "job-name\":\"j\",\"controller-uid\":\"11111111-2222-4333-8444-555555555555\",\"job-name\":\"j\"}}}: "
     "field is immutable\n"},
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1','resources':{'limits':{'cpu':'0.5'}}}]}}}}",
     "{'spec':{'template':{'spec':{'nodeSelector':{'a':'b'}}}}}",
     "spec.template: Invalid value: "
     "{\"spec\":{\"restartPolicy\":\"Never\",\"containers\":[{\"name\":\"c\",\"image\":\"i:1\",\"resources\":"
     "{\"limits\":{\"cpu\":\"0.5\"}},\"terminationMessagePath\":\"/dev/"
     "termination-log\",\"terminationMessagePolicy\":\"File\",\"imagePullPolicy\":\"IfNotPresent\"}],"
     "\"terminationGracePeriodSeconds\":30,\"dnsPolicy\":\"ClusterFirst\",\"securityContext\":{},"
     "\"schedulerName\":\"default-scheduler\",\"nodeSelector\":{\"a\":\"b\"}},\"metadata\":{\"labels\":{"
     "\"batch.kubernetes.io/controller-uid\":\"11111111-2222-4333-8444-555555555555\",\"batch.kubernetes.io/"
     "job-name\":\"j\",\"controller-uid\":\"11111111-2222-4333-8444-555555555555\",\"job-name\":\"j\"}}}: "
     "field is immutable\n"},
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i:1','resources':{'limits':{'cpu':'0.5'}}}]}}}}",
     "{'spec':{'selector':{'matchLabels':{'x':'y'}}}}",
     "spec.selector: Invalid value: "
     "{\"matchLabels\":{\"batch.kubernetes.io/"
     "controller-uid\":\"11111111-2222-4333-8444-555555555555\",\"x\":\"y\"}}: `selector` not "
     "auto-generated\n"
     "spec.template.metadata.labels: Invalid value: "
     "{\"batch.kubernetes.io/controller-uid\":\"11111111-2222-4333-8444-555555555555\",\"batch.kubernetes.io/"
     "job-name\":\"j\",\"controller-uid\":\"11111111-2222-4333-8444-555555555555\",\"job-name\":\"j\"}: "
     "`selector` does not match template `labels`\n"
     "spec.selector: Invalid value: "
     "{\"matchLabels\":{\"batch.kubernetes.io/"
     "controller-uid\":\"11111111-2222-4333-8444-555555555555\",\"x\":\"y\"}}: field is immutable\n"},
};

static void test_jobs_that_are_refused(void **state)
{
    (void)state;
    check_creates(creates, ARRAY_LEN(creates));
}

static void test_changes_of_jobs(void **state)
{
    (void)state;
    check_updates(updates, ARRAY_LEN(updates));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jobs_that_are_refused),
        cmocka_unit_test(test_changes_of_jobs),
    };

    return cmocka_run_group_tests_name("validate_job", tests, NULL, NULL);
}
