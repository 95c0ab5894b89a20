/* What training jobs, task templates and task definitions are refused for. */
#include "test_validate.h"

static const struct create_case creates[] = {
    {KIND_TRAINING_JOB,
     "{'metadata':{'name':'t'},'spec':{'image':'x','scriptPath':'/custom/t.py','customDir':'/home/a/"
     "x','snapshotsDir':'/home/a/"
     "y','batchSize':32,'trainingSetSize':50000,'maxEpochs':10,'singleGPU':false,'disableSharing':true,'"
     "estimatedMemoryMiB':8000,'portMapping':'31346:6006,31347:8888','estimatedHours':2.5,'priority':'0-3','"
     "maxGPUs':4,'env':[{'name':'A','value':'b'}],'cpu':'4','memory':'8Gi','deadline':'2026-03-01T00:00:00Z'}"
     "}",
     ""},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x'}}", ""},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{}}", "spec.image: Required value\n"},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'host'}}",
     "spec.command: Required value: `command` or `scriptPath` must be specified for image 'host'\n"},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'host','command':['true']}}", ""},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','scriptPath':'/a.py','command':['x']}}",
     "spec.scriptPath: Forbidden: may not be specified when `command` is\n"},
    {KIND_TRAINING_JOB,
     "{'metadata':{'name':'t'},'spec':{'image':'x','customDir':'home','snapshotsDir':'/a/../b'}}",
     "spec.customDir: Invalid value: \"home\": must be an absolute path\n"
     "spec.snapshotsDir: Invalid value: \"/a/../b\": must not contain '..'\n"},
    {KIND_TRAINING_JOB,
     "{'metadata':{'name':'t'},'spec':{'image':'x','batchSize':0,'trainingSetSize':-1,'maxEpochs':0,'maxGPUs'"
     ":-1,'minGPUs':-1,'estimatedMemoryMiB':0}}",
     "spec.batchSize: Invalid value: 0: must be greater than zero\n"
     "spec.trainingSetSize: Invalid value: -1: must be greater than zero\n"
     "spec.maxEpochs: Invalid value: 0: must be greater than zero\n"
     "spec.maxGPUs: Invalid value: -1: must not be negative\n"
     "spec.minGPUs: Invalid value: -1: must not be negative\n"
     "spec.estimatedMemoryMiB: Invalid value: 0: must be greater than zero\n"},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','maxGPUs':0}}", ""}, /* only CPU */
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','ttlSecondsAfterFinished':0}}", ""},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','ttlSecondsAfterFinished':-1}}",
     "spec.ttlSecondsAfterFinished: Invalid value: -1: must not be negative\n"},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','minGPUs':0,'maxGPUs':0}}", ""},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','minGPUs':2,'maxGPUs':2}}", ""},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','minGPUs':2}}", ""},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','minGPUs':3,'maxGPUs':2}}",
     "spec.minGPUs: Invalid value: 3: must not be more than `maxGPUs`\n"},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','minGPUs':2,'singleGPU':true}}",
     "spec.minGPUs: Invalid value: 2: must not be more than `maxGPUs`\n"},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','maxGPUs':4097}}",
     "spec.maxGPUs: Invalid value: 4097: must be no more than 4096\n"},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','estimatedHours':1}}",
     "spec.estimatedHours: Invalid value: 1: must be greater than 1\n"},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','estimatedHours':1.5}}", ""},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','estimatedHours':0.5}}",
     "spec.estimatedHours: Invalid value: 0.5: must be greater than 1\n"},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','singleGPU':true,'maxGPUs':2}}",
     "spec.maxGPUs: Invalid value: 2: must be 1 when `singleGPU` is true\n"},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','portMapping':'x'}}",
     "spec.portMapping: Invalid value: \"x\": must be nodePort:containerPort pairs, separated by commas "
     "(e.g. '31346:6006')\n"},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','portMapping':'1:2,3'}}",
     "spec.portMapping: Invalid value: \"1:2,3\": must be nodePort:containerPort pairs, separated by commas "
     "(e.g. '31346:6006')\n"},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','portMapping':'1:70000'}}",
     "spec.portMapping: Invalid value: \"1:70000\": must be nodePort:containerPort pairs, separated by "
     "commas (e.g. '31346:6006')\n"},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','priority':'high'}}",
     "spec.priority: Invalid value: \"high\": must be a whole number from -1000000 to 1000000; '0-3' means "
     "-3\n"},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','priority':-3}}", ""},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','priority':'-3'}}", ""},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','priority':'0-'}}",
     "spec.priority: Invalid value: \"0-\": must be a whole number from -1000000 to 1000000; '0-3' means "
     "-3\n"},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','env':[{'name':''}]}}",
     "spec.env[0].name: Required value\n"},
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x','cpu':'0','memory':'-1'}}",
     "spec.cpu: Invalid value: \"0\": must be greater than zero\n"
     "spec.memory: Invalid value: \"-1\": must be greater than zero\n"},
    {KIND_TASK_TEMPLATE, "{'metadata':{'name':'t'},'spec':{}}", "spec.template: Required value\n"},
    {KIND_TASK_TEMPLATE, "{'metadata':{'name':'t'},'spec':{'template':'kind: Job'}}", ""},
    {KIND_TASK_DEFINITION, "{'metadata':{'name':'t'},'spec':{}}", "spec.taskTemplateName: Required value\n"},
    {KIND_TASK_DEFINITION, "{'metadata':{'name':'t'},'spec':{'taskTemplateName':'Bad Name'}}",
     "spec.taskTemplateName: Invalid value: \"Bad Name\": a lowercase RFC 1123 subdomain must consist of "
     "lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character "
     "(e.g. 'example.com', regex used for validation is "
     "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n"},
    {KIND_TASK_DEFINITION,
     "{'metadata':{'name':'t'},'spec':{'taskTemplateName':'a','systemValues':'image:\\n  tag: "
     "x\\n','userValuesExample':'- 1\\n','userValuesDescription':'taskDef: (Required) name\\nprocess:\\n  "
     "train:\\n  - number: number of steps\\n'}}",
     "spec.userValuesExample: Invalid value: \"- 1\\n\": must be an object, or YAML text of one\n"
     "spec.userValuesDescription.process.train[0].number: Invalid value: \"number of steps\": must begin "
     "with '(Required)' or '(Optional)'\n"},
    {KIND_TASK_DEFINITION,
     "{'metadata':{'name':'t'},'spec':{'taskTemplateName':'a','userValuesDescription':{'a':'(Optional) "
     "b','c':3}}}",
     "spec.userValuesDescription.c: Invalid value: 3: must begin with '(Required)' or '(Optional)'\n"},
};

static const struct update_case updates[] = {
    {KIND_TRAINING_JOB,
     "{'metadata':{'name':'t'},'spec':{'image':'x','scriptPath':'/custom/t.py','customDir':'/home/a/"
     "x','snapshotsDir':'/home/a/"
     "y','batchSize':32,'trainingSetSize':50000,'maxEpochs':10,'singleGPU':false,'disableSharing':true,'"
     "estimatedMemoryMiB':8000,'portMapping':'31346:6006,31347:8888','estimatedHours':2.5,'priority':'0-3','"
     "maxGPUs':4,'env':[{'name':'A','value':'b'}],'cpu':'4','memory':'8Gi','deadline':'2026-03-01T00:00:00Z'}"
     "}",
     "{'spec':{'priority':5,'maxEpochs':20,'estimatedHours':9,'deadline':null,'maxGPUs':2}}", ""},
    {KIND_TRAINING_JOB,
     "{'metadata':{'name':'t'},'spec':{'image':'x','scriptPath':'/custom/t.py','customDir':'/home/a/"
     "x','snapshotsDir':'/home/a/"
     "y','batchSize':32,'trainingSetSize':50000,'maxEpochs':10,'singleGPU':false,'disableSharing':true,'"
     "estimatedMemoryMiB':8000,'portMapping':'31346:6006,31347:8888','estimatedHours':2.5,'priority':'0-3','"
     "maxGPUs':4,'env':[{'name':'A','value':'b'}],'cpu':'4','memory':'8Gi','deadline':'2026-03-01T00:00:00Z'}"
     "}",
     "{'spec':{'image':'y','batchSize':64,'scriptPath':'/custom/u.py'}}",
     "spec.image: Invalid value: \"y\": field is immutable\n"
     "spec.scriptPath: Invalid value: \"/custom/u.py\": field is immutable\n"
     "spec.batchSize: Invalid value: 64: field is immutable\n"},
};

static void test_objects_that_are_refused(void **state)
{
    (void)state;
    check_creates(creates, ARRAY_LEN(creates));
}

static void test_changes_of_training_jobs(void **state)
{
    (void)state;
    check_updates(updates, ARRAY_LEN(updates));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects_that_are_refused),
        cmocka_unit_test(test_changes_of_training_jobs),
    };

    return cmocka_run_group_tests_name("validate_train", tests, NULL, NULL);
}
