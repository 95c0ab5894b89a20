/* What config maps, secrets, nodes, events, services and the small kinds are refused for, as a real API
 * server (1.33) words it. */
#include "test_validate.h"

static const struct create_case creates[] = {
    /* cm keys */
    {KIND_CONFIG_MAP,
     "{'metadata':{'name':'c'},'data':{'a "
     "b':'','..':'','.':'','..a':'','':'x','both':'1'},'binaryData':{'both':'eA==','x y':'eA=='}}",
     "data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', "
     "'_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
     "'[-._a-zA-Z0-9]+')\n"
     "data[..]: Invalid value: \"..\": must not be '..'\n"
     "data[.]: Invalid value: \".\": must not be '.'\n"
     "data[..a]: Invalid value: \"..a\": must not start with '..'\n"
     "data[]: Invalid value: \"\": a valid config key must consist of alphanumeric characters, '-', '_' or "
     "'.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')\n"
     "binaryData[x y]: Invalid value: \"x y\": a valid config key must consist of alphanumeric characters, "
     "'-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
     "'[-._a-zA-Z0-9]+')\n"
     "data[both]: Invalid value: \"both\": duplicate of key present in binaryData\n"},
    /* secret types */
    {KIND_SECRET, "{'metadata':{'name':'s'},'type':'kubernetes.io/tls'}",
     "data[tls.crt]: Required value\n"
     "data[tls.key]: Required value\n"},
    /* secret ba */
    {KIND_SECRET, "{'metadata':{'name':'s'},'type':'kubernetes.io/basic-auth'}",
     "data[username]: Required value\n"
     "data[password]: Required value\n"},
    /* secret ba ok */
    {KIND_SECRET, "{'metadata':{'name':'s'},'type':'kubernetes.io/basic-auth','stringData':{'username':'x'}}",
     ""},
    /* secret ssh */
    {KIND_SECRET, "{'metadata':{'name':'s'},'type':'kubernetes.io/ssh-auth'}",
     "data[ssh-privatekey]: Required value\n"},
    /* secret sa */
    {KIND_SECRET, "{'metadata':{'name':'s'},'type':'kubernetes.io/service-account-token'}",
     "metadata.annotations[kubernetes.io/service-account.name]: Required value\n"},
    /* secret dc */
    {KIND_SECRET, "{'metadata':{'name':'s'},'type':'kubernetes.io/dockercfg'}",
     "data[.dockercfg]: Required value\n"},
    /* secret key */
    {KIND_SECRET, "{'metadata':{'name':'s'},'stringData':{'a b':'x'}}",
     "data[a b]: Invalid value: \"a b\": a valid config key must consist of alphanumeric characters, '-', "
     "'_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
     "'[-._a-zA-Z0-9]+')\n"},
    /* ns */
    {KIND_NAMESPACE, "{'metadata':{'name':'A.b'}}",
     "metadata.name: Invalid value: \"A.b\": a lowercase RFC 1123 label must consist of lower case "
     "alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name', "
     " or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')\n"},
    /* ns fin */
    {KIND_NAMESPACE, "{'metadata':{'name':'kinds-ff'},'spec':{'finalizers':['x','a.b/c']}}",
     "spec.finalizers: Invalid value: \"x\": name is neither a standard finalizer name nor is it fully "
     "qualified\n"},
    /* node */
    {KIND_NODE,
     "{'metadata':{'name':'kinds-nn'},'status':{'capacity':{'cpu':'-1','nvidia.com/"
     "gpu':'1.5'}},'spec':{'taints':[{'key':'a b','effect':''}]}}",
     "metadata.taints[0].key: Invalid value: \"a b\": name part must consist of alphanumeric characters, "
     "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  "
     "or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"
     "metadata.taints[0].effect: Required value\n"
     "status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0\n"
     "status.capacity.nvidia.com/gpu: Invalid value: \"1500m\": must be an integer\n"
     "status.allocatable.cpu: Invalid value: \"-1\": must be greater than or equal to 0\n"
     "status.allocatable.nvidia.com/gpu: Invalid value: \"1500m\": must be an integer\n"},
    /* ev ns */
    {KIND_EVENT,
     "{'metadata':{'name':'e'},'involvedObject':{'kind':'Pod','name':'p','namespace':'other'},'reason':'R','"
     "message':'m','type':'Normal'}",
     "involvedObject.namespace: Invalid value: \"other\": does not match event.namespace\n"},
    /* ev none */
    {KIND_EVENT,
     "{'metadata':{'name':'e'},'involvedObject':{'kind':'Pod','name':'p','namespace':''},'reason':'R','"
     "message':'m','type':'Normal'}",
     "involvedObject.namespace: Invalid value: \"\": does not match event.namespace\n"},
    /* ev modern */
    {KIND_EVENT,
     "{'metadata':{'name':'e'},'involvedObject':{'kind':'Pod','name':'p','namespace':'team'},'reason':'','"
     "message':'m','type':'Normal','eventTime':'2026-01-01T00:00:00.000000Z','reportingComponent':'a b'}",
     "reportingComponent: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', "
     "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
     "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"
     "reportingInstance: Required value\n"
     "action: Required value\n"
     "reason: Required value\n"},
    /* sa */
    {KIND_SERVICE_ACCOUNT, "{'metadata':{'name':'A'}}",
     "metadata.name: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of lower case "
     "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
     "'example.com', regex used for validation is "
     "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n"},
    /* pc */
    {KIND_PRIORITY_CLASS, "{'metadata':{'name':'kinds-pc2'},'value':1000000001,'preemptionPolicy':'X'}",
     "value: Forbidden: maximum allowed value of a user defined priority is 1000000000\n"
     "preemptionPolicy: Unsupported value: \"X\": supported values: \"PreemptLowerPriority\", \"Never\"\n"},
    /* pc sys */
    {KIND_PRIORITY_CLASS, "{'metadata':{'name':'system-x'},'value':1}",
     "metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. "
     "error: system-x is not a known system priority class\n"},
    /* lease */
    {KIND_LEASE, "{'metadata':{'name':'l'},'spec':{'leaseDurationSeconds':-1}}",
     "spec.leaseDurationSeconds: Invalid value: -1: must be greater than 0\n"},
    /* svc none */
    {KIND_SERVICE, "{'metadata':{'name':'s'},'spec':{}}", "spec.ports: Required value\n"},
    /* svc name */
    {KIND_SERVICE, "{'metadata':{'name':'1a'},'spec':{'ports':[{'port':80}]}}",
     "metadata.name: Invalid value: \"1a\": a DNS-1035 label must consist of lower case alphanumeric "
     "characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. "
     "'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')\n"},
    /* svc ports */
    {KIND_SERVICE,
     "{'metadata':{'name':'s'},'spec':{'ports':[{'port':0},{'port':80,'name':'A','protocol':'X','targetPort':"
     "'a_b'},{'port':81,'name':'b','appProtocol':'a b'},{'port':82,'name':'b'}]}}",
     "spec.ports[0].name: Required value\n"
     "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive\n"
     "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive\n"
     "spec.ports[1].name: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case "
     "alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name', "
     " or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')\n"
     "spec.ports[1].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", \"UDP\"\n"
     "spec.ports[1].targetPort: Invalid value: \"a_b\": must contain only alpha-numeric characters (a-z, "
     "0-9), and hyphens (-)\n"
     "spec.ports[2].appProtocol: Invalid value: \"a b\": name part must consist of alphanumeric characters, "
     "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  "
     "or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"
     "spec.ports[3].name: Duplicate value: \"b\"\n"},
    /* svc nodeport */
    {KIND_SERVICE, "{'metadata':{'name':'s'},'spec':{'ports':[{'port':80,'nodePort':30001}]}}",
     "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'\n"},
    /* svc ext */
    {KIND_SERVICE, "{'metadata':{'name':'s'},'spec':{'type':'ExternalName'}}",
     "spec.externalName: Required value\n"},
    /* svc ext2 */
    {KIND_SERVICE,
     "{'metadata':{'name':'s'},'spec':{'type':'ExternalName','externalName':'A b','clusterIP':'None'}}",
     "spec.clusterIPs: Forbidden: may not be set for ExternalName services\n"
     "spec.externalName: Invalid value: \"A b\": a lowercase RFC 1123 subdomain must consist of lower case "
     "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
     "'example.com', regex used for validation is "
     "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n"},
    /* svc lb none */
    {KIND_SERVICE,
     "{'metadata':{'name':'s'},'spec':{'type':'LoadBalancer','clusterIP':'None','ports':[{'port':1}]}}",
     "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for LoadBalancer services\n"},
    /* svc ip */
    {KIND_SERVICE, "{'metadata':{'name':'s'},'spec':{'clusterIP':'x','ports':[{'port':1}]}}",
     "spec.clusterIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or "
     "2001:db8::ffff)\n"},
    /* svc ips */
    {KIND_SERVICE, "{'metadata':{'name':'s'},'spec':{'clusterIPs':['10.0.0.9'],'ports':[{'port':1}]}}",
     "spec.clusterIPs: Invalid value: [\"10.0.0.9\"]: must be empty when `clusterIP` is not specified\n"},
    /* svc aff */
    {KIND_SERVICE, "{'metadata':{'name':'s'},'spec':{'ports':[{'port':1}],'sessionAffinity':'X'}}",
     "spec.sessionAffinity: Unsupported value: \"X\": supported values: \"ClientIP\", \"None\"\n"},
    /* svc aff2 */
    {KIND_SERVICE,
     "{'metadata':{'name':'s'},'spec':{'ports':[{'port':1}],'sessionAffinity':'ClientIP','"
     "sessionAffinityConfig':{'clientIP':{'timeoutSeconds':90000}}}}",
     "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 90000: must be greater than 0 and "
     "less than 86400\n"},
    /* svc traffic */
    {KIND_SERVICE,
     "{'metadata':{'name':'s'},'spec':{'ports':[{'port':1}],'externalTrafficPolicy':'Local','"
     "internalTrafficPolicy':'X'}}",
     "spec.externalTrafficPolicy: Invalid value: \"Local\": may only be set for externally-accessible "
     "services\n"
     "spec.internalTrafficPolicy: Unsupported value: \"X\": supported values: \"Cluster\", \"Local\"\n"},
    /* svc extip */
    {KIND_SERVICE, "{'metadata':{'name':'s'},'spec':{'ports':[{'port':1}],'externalIPs':['x','127.0.0.1']}}",
     "spec.externalIPs[0]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or "
     "2001:db8::ffff)\n"
     "spec.externalIPs[1]: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, "
     "::1/128)\n"},
    /* svc sel */
    {KIND_SERVICE, "{'metadata':{'name':'s'},'spec':{'ports':[{'port':1}],'selector':{'a':'b c'}}}",
     "spec.selector: Invalid value: \"b c\": a valid label must be an empty string or consist of "
     "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
     "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
     "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')\n"},
    /* svc alloc */
    {KIND_SERVICE,
     "{'metadata':{'name':'s'},'spec':{'ports':[{'port':1}],'allocateLoadBalancerNodePorts':true}}",
     "spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'\n"},
    /* svc fam */
    {KIND_SERVICE,
     "{'metadata':{'name':'s'},'spec':{'ports':[{'port':1}],'ipFamilies':['X'],'ipFamilyPolicy':'X'}}",
     "spec.ipFamilies[0]: Unsupported value: \"X\": supported values: \"IPv4\", \"IPv6\"\n"
     "spec.ipFamilyPolicy: Unsupported value: \"X\": supported values: \"PreferDualStack\", "
     "\"RequireDualStack\", \"SingleStack\"\n"},
};

static const struct update_case updates[] = {
    {KIND_CONFIG_MAP, "{'metadata':{'name':'c'},'data':{'a':'b'}}", "{'data':{'x y':'1'}}",
     "data[x y]: Invalid value: \"x y\": a valid config key must consist of alphanumeric characters, '-', "
     "'_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is "
     "'[-._a-zA-Z0-9]+')\n"},
    {KIND_CONFIG_MAP, "{'metadata':{'name':'c'},'data':{'a':'b'},'immutable':true}", "{'data':{'x':'1'}}",
     "data: Forbidden: field is immutable when `immutable` is set\n"},
    {KIND_CONFIG_MAP, "{'metadata':{'name':'c'},'data':{'a':'b'},'immutable':true}", "{'immutable':false}",
     "immutable: Forbidden: field is immutable when `immutable` is set\n"},
    {KIND_CONFIG_MAP, "{'metadata':{'name':'c'},'data':{'a':'b'},'immutable':true}",
     "{'metadata':{'labels':{'a':'b'}}}", ""},
    {KIND_SECRET, "{'metadata':{'name':'s'}}", "{'type':'a/b'}",
     "type: Invalid value: \"a/b\": field is immutable\n"},
    {KIND_SECRET, "{'metadata':{'name':'s'},'data':{'a':'eA=='},'immutable':true}",
     "{'stringData':{'a':'y'}}", "data: Forbidden: field is immutable when `immutable` is set\n"},
    {KIND_PRIORITY_CLASS, "{'metadata':{'name':'c'},'value':5}", "{'value':6}",
     "value: Forbidden: may not be changed in an update.\n"},
    {KIND_PRIORITY_CLASS, "{'metadata':{'name':'c'},'value':5}", "{'preemptionPolicy':'Never'}",
     "preemptionPolicy: Invalid value: \"Never\": field is immutable\n"},
    {KIND_PRIORITY_CLASS, "{'metadata':{'name':'c'},'value':5}", "{'description':'x'}", ""},
    {KIND_NODE, "{'metadata':{'name':'n'},'spec':{'providerID':'a'}}", "{'spec':{'providerID':'b'}}",
     "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid\n"},
    {KIND_NODE, "{'metadata':{'name':'n'}}",
     "{'spec':{'taints':[{'key':'a','effect':'NoSchedule'},{'key':'a','effect':'NoSchedule'}]}}",
     "metadata.taints[1]: Duplicate value: {\"key\":\"a\",\"effect\":\"NoSchedule\"}: taints must be unique "
     "by key and effect pair\n"},
    {KIND_NODE, "{'metadata':{'name':'n'}}", "{'spec':{'unschedulable':true}}", ""},
    {KIND_LEASE, "{'metadata':{'name':'l'}}", "{'spec':{'leaseTransitions':-1,'leaseDurationSeconds':0}}",
     "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0\n"
     "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0\n"},
    {KIND_NAMESPACE, "{'metadata':{'name':'n'}}", "{'spec':{'finalizers':[]}}", ""},
    {KIND_SERVICE, "{'metadata':{'name':'s'},'spec':{'clusterIP':'10.0.0.1','ports':[{'port':80}]}}",
     "{'spec':{'clusterIP':'None'}}",
     "spec.clusterIPs[0]: Invalid value: [\"None\"]: may not change once set\n"},
    {KIND_SERVICE, "{'metadata':{'name':'s'},'spec':{'clusterIP':'10.0.0.1','ports':[{'port':80}]}}",
     "{'spec':{'clusterIP':null,'clusterIPs':null,'ports':[{'port':81}]}}", ""},
    {KIND_SERVICE, "{'metadata':{'name':'s'},'spec':{'clusterIP':'10.0.0.1','ports':[{'port':80}]}}",
     "{'spec':{'ports':[{'port':80},{'port':81}]}}",
     "spec.ports[0].name: Required value\n"
     "spec.ports[1].name: Required value\n"},
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

static const char *errors_of_size(struct arena *arena, int id, size_t bytes)
{
    const struct kind *kind = kind_by_id(id);
    char *value = arena_alloc(arena, bytes + 1);
    struct json *doc;

    memset(value, 'a', bytes);
    value[bytes] = '\0';
    doc = make_ready(arena, kind,
                     arena_printf(arena, "{'metadata':{'name':'c'},'%s':{'k':'%s'}}",
                                  id == KIND_SECRET ? "stringData" : "data", value),
                     NULL);
    return errors_of(arena, kind, doc, NULL);
}

static void test_data_is_bounded(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};

    (void)state;
    assert_string_equal(errors_of_size(&arena, KIND_CONFIG_MAP, 1 << 20), "");
    assert_string_equal(errors_of_size(&arena, KIND_SECRET, 1 << 20), "");
    assert_string_equal(errors_of_size(&arena, KIND_CONFIG_MAP, (1 << 20) + 1),
                        "[]: Too long: may not be more than 1048576 bytes\n");
    assert_string_equal(errors_of_size(&arena, KIND_SECRET, (1 << 20) + 1),
                        "data: Too long: may not be more than 1048576 bytes\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_objects_that_are_refused),
        cmocka_unit_test(test_changes_of_objects),
        cmocka_unit_test(test_data_is_bounded),
    };

    return cmocka_run_group_tests_name("validate_core", tests, NULL, NULL);
}
