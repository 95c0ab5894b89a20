/* What claims, volumes, storage classes, quotas and limit ranges are refused for, as a real API server (1.33)
 * words it. */
#include "test_validate.h"

static const struct create_case creates[] = {
    /* pvc none */
    {KIND_PVC, "{'metadata':{'name':'v'},'spec':{'storageClassName':'x'}}",
     "spec.accessModes: Required value: at least 1 access mode is required\n"
     "spec.resources[storage]: Required value\n"},
    /* pvc zero */
    {KIND_PVC,
     "{'metadata':{'name':'v'},'spec':{'accessModes':['ReadWriteOnce'],'storageClassName':'x','resources':{'"
     "requests':{'storage':'0'}}}}",
     "spec.resources[storage]: Invalid value: \"0\": must be greater than zero\n"},
    /* pvc modes */
    {KIND_PVC,
     "{'metadata':{'name':'v'},'spec':{'accessModes':['X','ReadWriteOncePod','ReadWriteMany'],'"
     "storageClassName':'x','resources':{'requests':{'storage':'1Gi'}}}}",
     "spec.accessModes: Unsupported value: \"X\": supported values: \"ReadOnlyMany\", \"ReadWriteMany\", "
     "\"ReadWriteOnce\", \"ReadWriteOncePod\"\n"
     "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes\n"},
    /* pvc class */
    {KIND_PVC,
     "{'metadata':{'name':'v'},'spec':{'accessModes':['ReadWriteOnce'],'storageClassName':'A','resources':{'"
     "requests':{'storage':'1Gi'}}}}",
     "spec.storageClassName: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case "
     "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
     "'example.com', regex used for validation is "
     "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n"},
    /* pvc mode */
    {KIND_PVC,
     "{'metadata':{'name':'v'},'spec':{'accessModes':['ReadWriteOnce'],'storageClassName':'x','resources':{'"
     "requests':{'storage':'1Gi'}},'volumeMode':'X'}}",
     "spec.volumeMode: Unsupported value: \"X\": supported values: \"Block\", \"Filesystem\"\n"},
    /* pvc sel */
    {KIND_PVC,
     "{'metadata':{'name':'v'},'spec':{'accessModes':['ReadWriteOnce'],'storageClassName':'x','resources':{'"
     "requests':{'storage':'1Gi'}},'selector':{'matchExpressions':[{'key':'a','operator':'X'}]}}}",
     "spec.selector.matchExpressions[0].operator: Invalid value: \"X\": not a valid selector operator\n"},
    /* pv none */
    {KIND_PV, "{'metadata':{'name':'kinds-x'},'spec':{}}",
     "spec.accessModes: Required value\n"
     "spec.capacity: Required value\n"
     "spec.capacity: Unsupported value: core.ResourceList(nil): supported values: \"storage\"\n"
     "spec: Required value: must specify a volume type\n"},
    /* pv two */
    {KIND_PV,
     "{'metadata':{'name':'kinds-x'},'spec':{'capacity':{'storage':'1Gi'},'accessModes':['ReadWriteOnce'],'"
     "hostPath':{'path':'/d'},'nfs':{'server':'s','path':'/x'}}}",
     "spec.nfs: Forbidden: may not specify more than 1 volume type\n"},
    /* pv cap */
    {KIND_PV,
     "{'metadata':{'name':'kinds-x'},'spec':{'capacity':{'storage':'0','cpu':'1'},'accessModes':['"
     "ReadWriteOnce'],'hostPath':{'path':'/d'}}}",
     "spec.capacity: Unsupported value: {\"storage\":\"0\",\"cpu\":\"1\"}: supported values: \"storage\"\n"
     "spec.capacity[storage]: Invalid value: \"0\": must be greater than zero\n"},
    /* pv reclaim */
    {KIND_PV,
     "{'metadata':{'name':'kinds-x'},'spec':{'capacity':{'storage':'1Gi'},'accessModes':['ReadWriteOnce'],'"
     "hostPath':{'path':'/d'},'persistentVolumeReclaimPolicy':'X'}}",
     "spec.persistentVolumeReclaimPolicy: Unsupported value: \"X\": supported values: \"Delete\", "
     "\"Recycle\", \"Retain\"\n"},
    /* pv recycle */
    {KIND_PV,
     "{'metadata':{'name':'kinds-x'},'spec':{'capacity':{'storage':'1Gi'},'accessModes':['ReadWriteOnce'],'"
     "hostPath':{'path':'/'},'persistentVolumeReclaimPolicy':'Recycle'}}",
     "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'\n"},
    /* pv aff */
    {KIND_PV,
     "{'metadata':{'name':'kinds-x'},'spec':{'capacity':{'storage':'1Gi'},'accessModes':['ReadWriteOnce'],'"
     "hostPath':{'path':'/d'},'nodeAffinity':{}}}",
     "spec.nodeAffinity.required: Required value: must specify required node constraints\n"},
    /* pv mode */
    {KIND_PV,
     "{'metadata':{'name':'kinds-x'},'spec':{'capacity':{'storage':'1Gi'},'accessModes':['ReadWriteOnce'],'"
     "hostPath':{'path':'/d'},'volumeMode':'X','storageClassName':'A'}}",
     "spec.storageClassName: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case "
     "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
     "'example.com', regex used for validation is "
     "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n"
     "spec.volumeMode: Unsupported value: \"X\": supported values: \"Block\", \"Filesystem\"\n"},
    /* sc */
    {KIND_STORAGE_CLASS,
     "{'metadata':{'name':'kinds-sc2'},'provisioner':'','reclaimPolicy':'X','volumeBindingMode':'Y'}",
     "provisioner: Required value\n"
     "reclaimPolicy: Unsupported value: \"X\": supported values: \"Delete\", \"Retain\"\n"
     "volumeBindingMode: Unsupported value: \"Y\": supported values: \"Immediate\", "
     "\"WaitForFirstConsumer\"\n"},
    /* sc2 */
    {KIND_STORAGE_CLASS, "{'metadata':{'name':'kinds-sc2'},'provisioner':'a b','parameters':{'':'x'}}",
     "provisioner: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or "
     "'.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
     "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"
     "parameters: Invalid value: \"\": field can not be empty.\n"},
    /* quota */
    {KIND_RESOURCE_QUOTA,
     "{'metadata':{'name':'q'},'spec':{'hard':{'pods':'1.5','x':'1','requests.nvidia.com/gpu':'1','count/"
     "jobs.batch':'3','cpu':'-1','limits.x':'1','a b/c':'1'}}}",
     "spec.hard[pods]: Invalid value: \"1500m\": must be an integer\n"
     "spec.hard[x]: Invalid value: x: must be a standard resource type or fully qualified\n"
     "spec.hard[x]: Invalid value: x: must be a standard resource for quota\n"
     "spec.hard[cpu]: Invalid value: \"-1\": must be greater than or equal to 0\n"
     "spec.hard[limits.x]: Invalid value: limits.x: must be a standard resource type or fully qualified\n"
     "spec.hard[limits.x]: Invalid value: limits.x: must be a standard resource for quota\n"
     "spec.hard[a b/c]: Invalid value: a b/c: prefix part a lowercase RFC 1123 subdomain must consist of "
     "lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character "
     "(e.g. 'example.com', regex used for validation is "
     "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n"},
    /* quota scope */
    {KIND_RESOURCE_QUOTA,
     "{'metadata':{'name':'q'},'spec':{'hard':{'pods':'1','services':'1'},'scopes':['X','BestEffort','"
     "NotBestEffort']}}",
     "spec.scopes: Invalid value: [\"X\",\"BestEffort\",\"NotBestEffort\"]: unsupported scope\n"
     "spec.scopes: Invalid value: [\"X\",\"BestEffort\",\"NotBestEffort\"]: unsupported scope applied to "
     "resource\n"
     "spec.scopes: Invalid value: [\"X\",\"BestEffort\",\"NotBestEffort\"]: conflicting scopes\n"},
    /* quota sel */
    {KIND_RESOURCE_QUOTA,
     "{'metadata':{'name':'q'},'spec':{'hard':{'pods':'1'},'scopeSelector':{'matchExpressions':[{'scopeName':"
     "'PriorityClass','operator':'In'},{'scopeName':'Terminating','operator':'In','values':['a']},{'"
     "scopeName':'PriorityClass','operator':'Exists','values':['a']},{'scopeName':'PriorityClass','operator':"
     "'X'}]}}}",
     "spec.scopeSelector.matchExpressions.values: Required value: must be at least one value when `operator` "
     "is 'In' or 'NotIn' for scope selector\n"
     "spec.scopeSelector.matchExpressions.operator: Invalid value: \"In\": must be 'Exists' when scope is "
     "any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
     "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity\n"
     "spec.scopeSelector.matchExpressions.values: Invalid value: [\"a\"]: must be no value when `operator` "
     "is 'Exist' or 'DoesNotExist' for scope selector\n"
     "spec.scopeSelector.matchExpressions.operator: Invalid value: \"X\": not a valid selector operator\n"},
    /* lim */
    {KIND_LIMIT_RANGE,
     "{'metadata':{'name':'l'},'spec':{'limits':[{'type':'X'},{'type':''},{'type':'Pod','default':{'cpu':'1'}"
     ",'defaultRequest':{'cpu':'1'}},{'type':'Pod'},{'type':'PersistentVolumeClaim'}]}}",
     "spec.limits[0].type: Invalid value: \"X\": must be a standard limit type or fully qualified\n"
     "spec.limits[1].type: Invalid value: \"\": name part must be non-empty\n"
     "spec.limits[1].type: Invalid value: \"\": name part must consist of alphanumeric characters, '-', '_' "
     "or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
     "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"
     "spec.limits[2].default: Forbidden: may not be specified when `type` is 'Pod'\n"
     "spec.limits[2].defaultRequest: Forbidden: may not be specified when `type` is 'Pod'\n"
     "spec.limits[3].type: Duplicate value: \"Pod\"\n"
     "spec.limits[4].limits: Required value: either minimum or maximum storage value is required, but "
     "neither was provided\n"},
    /* lim2 */
    {KIND_LIMIT_RANGE,
     "{'metadata':{'name':'l'},'spec':{'limits':[{'type':'Container','max':{'cpu':'1','x':'1'},'min':{'cpu':'"
     "2'},'default':{'cpu':'3'},'defaultRequest':{'cpu':'4'},'maxLimitRequestRatio':{'cpu':'0.5'}}]}}",
     "spec.limits[0].max[x]: Invalid value: x: must be a standard resource type or fully qualified\n"
     "spec.limits[0].max[x]: Invalid value: x: must be a standard resource for containers\n"
     "spec.limits[0].default[x]: Invalid value: x: must be a standard resource type or fully qualified\n"
     "spec.limits[0].default[x]: Invalid value: x: must be a standard resource for containers\n"
     "spec.limits[0].defaultRequest[x]: Invalid value: x: must be a standard resource type or fully "
     "qualified\n"
     "spec.limits[0].defaultRequest[x]: Invalid value: x: must be a standard resource for containers\n"
     "spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1\n"
     "spec.limits[0].defaultRequest[cpu]: Invalid value: \"4\": default request value 4 is greater than max "
     "value 1\n"
     "spec.limits[0].defaultRequest[cpu]: Invalid value: \"4\": default request value 4 is greater than "
     "default limit value 3\n"
     "spec.limits[0].default[cpu]: Invalid value: \"1\": default value 3 is greater than max value 1\n"
     "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"500m\": ratio 500m is less than 1\n"},
    /* lim ratio */
    {KIND_LIMIT_RANGE,
     "{'metadata':{'name':'l'},'spec':{'limits':[{'type':'Container','max':{'cpu':'4'},'min':{'cpu':'2'},'"
     "maxLimitRequestRatio':{'cpu':'3'}}]}}",
     "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"3\": ratio 3 is greater than max/min = "
     "2.000000\n"},
    /* lim ext */
    {KIND_LIMIT_RANGE,
     "{'metadata':{'name':'l'},'spec':{'limits':[{'type':'Container','default':{'a.b/"
     "c':'2'},'defaultRequest':{'a.b/c':'1'}}]}}",
     "spec.limits[0].defaultRequest[a.b/c]: Invalid value: \"1\": default value 2 must equal to "
     "defaultRequest value 1 in a.b/c\n"},
};

static const struct update_case updates[] = {
    {KIND_PVC,
     "{'metadata':{'name':'v'},'spec':{'accessModes':['ReadWriteOnce'],'storageClassName':'k','resources':{'"
     "requests':{'storage':'1Gi'}}}}",
     "{'spec':{'resources':{'requests':{'storage':'2Gi'}}}}",
     "spec: Forbidden: spec is immutable after creation except resources.requests and "
     "volumeAttributesClassName for bound claims\n"
     "\n"},
    {KIND_PVC,
     "{'metadata':{'name':'v'},'spec':{'accessModes':['ReadWriteOnce'],'storageClassName':'k','resources':{'"
     "requests':{'storage':'1Gi'}}}}",
     "{'spec':{'resources':{'requests':{'storage':'1024Mi'}}}}", ""},
    {KIND_PVC,
     "{'metadata':{'name':'v'},'spec':{'accessModes':['ReadWriteOnce'],'storageClassName':'k','resources':{'"
     "requests':{'storage':'1Gi'}}}}",
     "{'spec':{'storageClassName':'m'}}",
     "spec: Forbidden: spec is immutable after creation except resources.requests and "
     "volumeAttributesClassName for bound claims\n"
     "\n"},
    {KIND_PVC,
     "{'metadata':{'name':'v'},'spec':{'accessModes':['ReadWriteOnce'],'resources':{'requests':{'storage':'"
     "1Gi'}}}}",
     "{'spec':{'storageClassName':'m'}}", ""},
    {KIND_PVC,
     "{'metadata':{'name':'v'},'spec':{'accessModes':['ReadWriteOnce'],'storageClassName':'k','resources':{'"
     "requests':{'storage':'1Gi'}}}}",
     "{'spec':{'volumeName':'x'}}", ""},
    {KIND_PVC,
     "{'metadata':{'name':'v'},'spec':{'accessModes':['ReadWriteOnce'],'storageClassName':'k','resources':{'"
     "requests':{'storage':'1Gi'}}}}",
     "{'spec':{'volumeMode':'Block'}}",
     "spec: Forbidden: spec is immutable after creation except resources.requests and "
     "volumeAttributesClassName for bound claims\n"
     "\n"
     "volumeMode: Invalid value: \"Block\": field is immutable\n"},
    {KIND_PV,
     "{'metadata':{'name':'v'},'spec':{'capacity':{'storage':'1Gi'},'accessModes':['ReadWriteOnce'],'"
     "hostPath':{'path':'/d'}}}",
     "{'spec':{'hostPath':{'path':'/e'}}}",
     "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation\n"
     "\n"},
    {KIND_PV,
     "{'metadata':{'name':'v'},'spec':{'capacity':{'storage':'1Gi'},'accessModes':['ReadWriteOnce'],'"
     "hostPath':{'path':'/d'}}}",
     "{'spec':{'capacity':{'storage':'2Gi'}}}", ""},
    {KIND_PV,
     "{'metadata':{'name':'v'},'spec':{'capacity':{'storage':'1Gi'},'accessModes':['ReadWriteOnce'],'"
     "hostPath':{'path':'/d'}}}",
     "{'spec':{'volumeMode':'Block'}}", "volumeMode: Invalid value: \"Block\": field is immutable\n"},
    {KIND_STORAGE_CLASS, "{'metadata':{'name':'c'},'provisioner':'x/y'}", "{'parameters':{'a':'b'}}",
     "parameters: Forbidden: updates to parameters are forbidden.\n"},
    {KIND_STORAGE_CLASS, "{'metadata':{'name':'c'},'provisioner':'x/y'}",
     "{'provisioner':'a/b','reclaimPolicy':'Retain','volumeBindingMode':'WaitForFirstConsumer'}",
     "provisioner: Forbidden: updates to provisioner are forbidden.\n"
     "reclaimPolicy: Forbidden: updates to reclaimPolicy are forbidden.\n"
     "volumeBindingMode: Invalid value: \"WaitForFirstConsumer\": field is immutable\n"},
    {KIND_STORAGE_CLASS, "{'metadata':{'name':'c'},'provisioner':'x/y'}", "{'allowVolumeExpansion':true}",
     ""},
    {KIND_RESOURCE_QUOTA, "{'metadata':{'name':'q'},'spec':{'hard':{'pods':'1'}}}",
     "{'spec':{'scopes':['BestEffort']}}",
     "spec.scopes: Invalid value: [\"BestEffort\"]: field is immutable\n"},
    {KIND_RESOURCE_QUOTA, "{'metadata':{'name':'q'},'spec':{'hard':{'pods':'1'}}}",
     "{'spec':{'hard':{'cpu':'1'}}}", ""},
};

static void test_objects_that_are_refused(void **state)
{
    (void)state;
    check_creates(creates, ARRAY_LEN(creates));
}

static void test_changes_of_objects(void **state)
{
    (void)state;
    check_updates(updates, ARRAY_LEN(updates));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects_that_are_refused),
        cmocka_unit_test(test_changes_of_objects),
    };

    return cmocka_run_group_tests_name("validate_storage", tests, NULL, NULL);
}
