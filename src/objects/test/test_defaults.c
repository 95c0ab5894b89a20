/* What the server fills in, kind by kind. The results are those of a real API server (1.33) without its
 * admission plugins for priorities and accounts. */
#include "test_validate.h"

struct default_case {
    int kind;
    const char *doc;
    const char *result; /* metadata is left out where it is only the name */
};

static const struct default_case cases[] = {
    /* a pod */
    {KIND_POD, "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'busybox:1.36'}]}}",
     "{'spec':{'containers':[{'name':'c','image':'busybox:1.36','resources':{},'terminationMessagePath':'/"
     "dev/"
     "termination-log','terminationMessagePolicy':'File','imagePullPolicy':'IfNotPresent'}],'restartPolicy':'"
     "Always','terminationGracePeriodSeconds':30,'dnsPolicy':'ClusterFirst','securityContext':{},'"
     "schedulerName':'default-scheduler','enableServiceLinks':true,'tolerations':[{'key':'node.kubernetes.io/"
     "not-ready','operator':'Exists','effect':'NoExecute','tolerationSeconds':300},{'key':'node.kubernetes."
     "io/"
     "unreachable','operator':'Exists','effect':'NoExecute','tolerationSeconds':300}]},'status':{'phase':'"
     "Pending','qosClass':'BestEffort'}}"},
    /* no tag */
    {KIND_POD, "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'r:5000/a/b'}]}}",
     "{'spec':{'containers':[{'name':'c','image':'r:5000/a/b','resources':{},'terminationMessagePath':'/dev/"
     "termination-log','terminationMessagePolicy':'File','imagePullPolicy':'Always'}],'restartPolicy':'"
     "Always','terminationGracePeriodSeconds':30,'dnsPolicy':'ClusterFirst','securityContext':{},'"
     "schedulerName':'default-scheduler','enableServiceLinks':true,'tolerations':[{'key':'node.kubernetes.io/"
     "not-ready','operator':'Exists','effect':'NoExecute','tolerationSeconds':300},{'key':'node.kubernetes."
     "io/"
     "unreachable','operator':'Exists','effect':'NoExecute','tolerationSeconds':300}]},'status':{'phase':'"
     "Pending','qosClass':'BestEffort'}}"},
    /* a digest */
    {KIND_POD, "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'a@sha256:aa'}]}}",
     "{'spec':{'containers':[{'name':'c','image':'a@sha256:aa','resources':{},'terminationMessagePath':'/dev/"
     "termination-log','terminationMessagePolicy':'File','imagePullPolicy':'IfNotPresent'}],'restartPolicy':'"
     "Always','terminationGracePeriodSeconds':30,'dnsPolicy':'ClusterFirst','securityContext':{},'"
     "schedulerName':'default-scheduler','enableServiceLinks':true,'tolerations':[{'key':'node.kubernetes.io/"
     "not-ready','operator':'Exists','effect':'NoExecute','tolerationSeconds':300},{'key':'node.kubernetes."
     "io/"
     "unreachable','operator':'Exists','effect':'NoExecute','tolerationSeconds':300}]},'status':{'phase':'"
     "Pending','qosClass':'BestEffort'}}"},
    /* latest */
    {KIND_POD, "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'r:5000/a:latest'}]}}",
     "{'spec':{'containers':[{'name':'c','image':'r:5000/a:latest','resources':{},'terminationMessagePath':'/"
     "dev/"
     "termination-log','terminationMessagePolicy':'File','imagePullPolicy':'Always'}],'restartPolicy':'"
     "Always','terminationGracePeriodSeconds':30,'dnsPolicy':'ClusterFirst','securityContext':{},'"
     "schedulerName':'default-scheduler','enableServiceLinks':true,'tolerations':[{'key':'node.kubernetes.io/"
     "not-ready','operator':'Exists','effect':'NoExecute','tolerationSeconds':300},{'key':'node.kubernetes."
     "io/"
     "unreachable','operator':'Exists','effect':'NoExecute','tolerationSeconds':300}]},'status':{'phase':'"
     "Pending','qosClass':'BestEffort'}}"},
    /* requests follow limits; numbers become text */
    {KIND_POD,
     "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1','resources':{'limits':{'cpu':'"
     "500m','memory':'1Gi','nvidia.com/gpu':2},'requests':{'cpu':'100m'}}}]}}",
     "{'spec':{'containers':[{'name':'c','image':'i:1','resources':{'limits':{'cpu':'500m','memory':'1Gi','"
     "nvidia.com/gpu':'2'},'requests':{'cpu':'100m','memory':'1Gi','nvidia.com/"
     "gpu':'2'}},'terminationMessagePath':'/dev/"
     "termination-log','terminationMessagePolicy':'File','imagePullPolicy':'IfNotPresent'}],'restartPolicy':'"
     "Always','terminationGracePeriodSeconds':30,'dnsPolicy':'ClusterFirst','securityContext':{},'"
     "schedulerName':'default-scheduler','enableServiceLinks':true,'tolerations':[{'key':'node.kubernetes.io/"
     "not-ready','operator':'Exists','effect':'NoExecute','tolerationSeconds':300},{'key':'node.kubernetes."
     "io/"
     "unreachable','operator':'Exists','effect':'NoExecute','tolerationSeconds':300}]},'status':{'phase':'"
     "Pending','qosClass':'Burstable'}}"},
    /* guaranteed */
    {KIND_POD,
     "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1','resources':{'limits':{'cpu':'"
     "1','memory':'1Gi'}}}]}}",
     "{'spec':{'containers':[{'name':'c','image':'i:1','resources':{'limits':{'cpu':'1','memory':'1Gi'},'"
     "requests':{'cpu':'1','memory':'1Gi'}},'terminationMessagePath':'/dev/"
     "termination-log','terminationMessagePolicy':'File','imagePullPolicy':'IfNotPresent'}],'restartPolicy':'"
     "Always','terminationGracePeriodSeconds':30,'dnsPolicy':'ClusterFirst','securityContext':{},'"
     "schedulerName':'default-scheduler','enableServiceLinks':true,'tolerations':[{'key':'node.kubernetes.io/"
     "not-ready','operator':'Exists','effect':'NoExecute','tolerationSeconds':300},{'key':'node.kubernetes."
     "io/"
     "unreachable','operator':'Exists','effect':'NoExecute','tolerationSeconds':300}]},'status':{'phase':'"
     "Pending','qosClass':'Guaranteed'}}"},
    /* host network */
    {KIND_POD,
     "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1','ports':[{'containerPort':80}]"
     "}],'hostNetwork':true}}",
     "{'spec':{'containers':[{'name':'c','image':'i:1','ports':[{'containerPort':80,'protocol':'TCP','"
     "hostPort':80}],'resources':{},'terminationMessagePath':'/dev/"
     "termination-log','terminationMessagePolicy':'File','imagePullPolicy':'IfNotPresent'}],'hostNetwork':"
     "true,'restartPolicy':'Always','terminationGracePeriodSeconds':30,'dnsPolicy':'ClusterFirst','"
     "securityContext':{},'schedulerName':'default-scheduler','enableServiceLinks':true,'tolerations':[{'key'"
     ":'node.kubernetes.io/"
     "not-ready','operator':'Exists','effect':'NoExecute','tolerationSeconds':300},{'key':'node.kubernetes."
     "io/"
     "unreachable','operator':'Exists','effect':'NoExecute','tolerationSeconds':300}]},'status':{'phase':'"
     "Pending','qosClass':'BestEffort'}}"},
    /* probes and hooks */
    {KIND_POD,
     "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1','livenessProbe':{'httpGet':{'"
     "port':1}},'startupProbe':{'grpc':{'port':2},'periodSeconds':5},'lifecycle':{'preStop':{'httpGet':{'"
     "port':3,'path':'/x'}}}}]}}",
     "{'spec':{'containers':[{'name':'c','image':'i:1','livenessProbe':{'httpGet':{'port':1,'path':'/"
     "','scheme':'HTTP'},'timeoutSeconds':1,'periodSeconds':10,'successThreshold':1,'failureThreshold':3},'"
     "startupProbe':{'grpc':{'port':2,'service':''},'periodSeconds':5,'timeoutSeconds':1,'successThreshold':"
     "1,'failureThreshold':3},'lifecycle':{'preStop':{'httpGet':{'port':3,'path':'/"
     "x','scheme':'HTTP'}}},'resources':{},'terminationMessagePath':'/dev/"
     "termination-log','terminationMessagePolicy':'File','imagePullPolicy':'IfNotPresent'}],'restartPolicy':'"
     "Always','terminationGracePeriodSeconds':30,'dnsPolicy':'ClusterFirst','securityContext':{},'"
     "schedulerName':'default-scheduler','enableServiceLinks':true,'tolerations':[{'key':'node.kubernetes.io/"
     "not-ready','operator':'Exists','effect':'NoExecute','tolerationSeconds':300},{'key':'node.kubernetes."
     "io/"
     "unreachable','operator':'Exists','effect':'NoExecute','tolerationSeconds':300}]},'status':{'phase':'"
     "Pending','qosClass':'BestEffort'}}"},
    /* environment */
    {KIND_POD,
     "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1','env':[{'name':'A','valueFrom'"
     ":{'fieldRef':{'fieldPath':'metadata.name'}}},{'name':'B','valueFrom':{'resourceFieldRef':{'resource':'"
     "limits.cpu'}}}]}]}}",
     "{'spec':{'containers':[{'name':'c','image':'i:1','env':[{'name':'A','valueFrom':{'fieldRef':{'"
     "fieldPath':'metadata.name','apiVersion':'v1'}}},{'name':'B','valueFrom':{'resourceFieldRef':{'resource'"
     ":'limits.cpu','divisor':'0'}}}],'resources':{},'terminationMessagePath':'/dev/"
     "termination-log','terminationMessagePolicy':'File','imagePullPolicy':'IfNotPresent'}],'restartPolicy':'"
     "Always','terminationGracePeriodSeconds':30,'dnsPolicy':'ClusterFirst','securityContext':{},'"
     "schedulerName':'default-scheduler','enableServiceLinks':true,'tolerations':[{'key':'node.kubernetes.io/"
     "not-ready','operator':'Exists','effect':'NoExecute','tolerationSeconds':300},{'key':'node.kubernetes."
     "io/"
     "unreachable','operator':'Exists','effect':'NoExecute','tolerationSeconds':300}]},'status':{'phase':'"
     "Pending','qosClass':'BestEffort'}}"},
    /* volumes */
    {KIND_POD,
     "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'busybox:1.36'}],'volumes':[{'name':"
     "'a'},{'name':'b','hostPath':{'path':'/"
     "x'}},{'name':'c','secret':{'secretName':'s'}},{'name':'d','configMap':{'name':'m','defaultMode':256}},{"
     "'name':'e','projected':{'sources':[{'serviceAccountToken':{'path':'t'}},{'downwardAPI':{'items':[{'"
     "path':'n','fieldRef':{'fieldPath':'metadata.name'}}]}}]}},{'name':'f','emptyDir':{'medium':'Memory'}}]}"
     "}",
     "{'spec':{'containers':[{'name':'c','image':'busybox:1.36','resources':{},'terminationMessagePath':'/"
     "dev/"
     "termination-log','terminationMessagePolicy':'File','imagePullPolicy':'IfNotPresent'}],'volumes':[{'"
     "name':'a','emptyDir':{}},{'name':'b','hostPath':{'path':'/"
     "x','type':''}},{'name':'c','secret':{'secretName':'s','defaultMode':420}},{'name':'d','configMap':{'"
     "name':'m','defaultMode':256}},{'name':'e','projected':{'sources':[{'serviceAccountToken':{'path':'t','"
     "expirationSeconds':3600}},{'downwardAPI':{'items':[{'path':'n','fieldRef':{'fieldPath':'metadata.name',"
     "'apiVersion':'v1'}}]}}],'defaultMode':420}},{'name':'f','emptyDir':{'medium':'Memory'}}],'"
     "restartPolicy':'Always','terminationGracePeriodSeconds':30,'dnsPolicy':'ClusterFirst','securityContext'"
     ":{},'schedulerName':'default-scheduler','enableServiceLinks':true,'tolerations':[{'key':'node."
     "kubernetes.io/"
     "not-ready','operator':'Exists','effect':'NoExecute','tolerationSeconds':300},{'key':'node.kubernetes."
     "io/"
     "unreachable','operator':'Exists','effect':'NoExecute','tolerationSeconds':300}]},'status':{'phase':'"
     "Pending','qosClass':'BestEffort'}}"},
    /* gates, account, own toleration */
    {KIND_POD,
     "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'busybox:1.36'}],'schedulingGates':["
     "{'name':'g'}],'serviceAccount':'me','tolerations':[{'key':'node.kubernetes.io/"
     "not-ready','operator':'Exists','effect':'NoExecute','tolerationSeconds':5}]}}",
     "{'spec':{'containers':[{'name':'c','image':'busybox:1.36','resources':{},'terminationMessagePath':'/"
     "dev/"
     "termination-log','terminationMessagePolicy':'File','imagePullPolicy':'IfNotPresent'}],'schedulingGates'"
     ":[{'name':'g'}],'serviceAccount':'me','tolerations':[{'key':'node.kubernetes.io/"
     "not-ready','operator':'Exists','effect':'NoExecute','tolerationSeconds':5},{'key':'node.kubernetes.io/"
     "unreachable','operator':'Exists','effect':'NoExecute','tolerationSeconds':300}],'restartPolicy':'"
     "Always','terminationGracePeriodSeconds':30,'dnsPolicy':'ClusterFirst','serviceAccountName':'me','"
     "securityContext':{},'schedulerName':'default-scheduler','enableServiceLinks':true},'status':{'phase':'"
     "Pending','qosClass':'BestEffort','conditions':[{'type':'PodScheduled','status':'False','"
     "lastTransitionTime':'2026-03-01T12:00:00Z','reason':'SchedulingGated','message':'Scheduling is blocked "
     "due to non-empty scheduling gates'}]}}"},
    /* empty values, negative grace, a status of its own */
    {KIND_POD,
     "{'metadata':{'name':'p','labels':{},'deletionTimestamp':'2026-01-01T00:00:00Z'},'spec':{'containers':[{"
     "'name':'c','image':'i:1','command':[],'workingDir':'','tty':false}],'nodeSelector':{},'hostname':'','"
     "terminationGracePeriodSeconds':-1},'status':{'phase':'Running'}}",
     "{'spec':{'containers':[{'name':'c','image':'i:1','resources':{},'terminationMessagePath':'/dev/"
     "termination-log','terminationMessagePolicy':'File','imagePullPolicy':'IfNotPresent'}],'"
     "terminationGracePeriodSeconds':1,'restartPolicy':'Always','dnsPolicy':'ClusterFirst','securityContext':"
     "{},'schedulerName':'default-scheduler','enableServiceLinks':true,'tolerations':[{'key':'node."
     "kubernetes.io/"
     "not-ready','operator':'Exists','effect':'NoExecute','tolerationSeconds':300},{'key':'node.kubernetes."
     "io/"
     "unreachable','operator':'Exists','effect':'NoExecute','tolerationSeconds':300}]},'status':{'phase':'"
     "Pending','qosClass':'BestEffort'}}"},
    /* a job */
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c',"
     "'image':'i'}]}}}}",
     "{'metadata':{'name':'j','labels':{'batch.kubernetes.io/"
     "controller-uid':'11111111-2222-4333-8444-555555555555','batch.kubernetes.io/"
     "job-name':'j','controller-uid':'11111111-2222-4333-8444-555555555555','job-name':'j'}},'spec':{'"
     "template':{'spec':{'restartPolicy':'Never','containers':[{'name':'c','image':'i','resources':{},'"
     "terminationMessagePath':'/dev/"
     "termination-log','terminationMessagePolicy':'File','imagePullPolicy':'Always'}],'"
     "terminationGracePeriodSeconds':30,'dnsPolicy':'ClusterFirst','securityContext':{},'schedulerName':'"
     "default-scheduler'},'metadata':{'labels':{'batch.kubernetes.io/"
     "controller-uid':'11111111-2222-4333-8444-555555555555','batch.kubernetes.io/"
     "job-name':'j','controller-uid':'11111111-2222-4333-8444-555555555555','job-name':'j'}}},'completions':"
     "1,'parallelism':1,'backoffLimit':6,'completionMode':'NonIndexed','suspend':false,'manualSelector':"
     "false,'podReplacementPolicy':'TerminatingOrFailed','selector':{'matchLabels':{'batch.kubernetes.io/"
     "controller-uid':'11111111-2222-4333-8444-555555555555'}}},'status':{}}"},
    /* a job of several pods, with labels */
    {KIND_JOB,
     "{'metadata':{'name':'j'},'spec':{'parallelism':3,'backoffLimitPerIndex':1,'template':{'metadata':{'"
     "labels':{'a':'b'}},'spec':{'containers':[]}}}}",
     "{'metadata':{'name':'j','labels':{'a':'b','batch.kubernetes.io/"
     "controller-uid':'11111111-2222-4333-8444-555555555555','batch.kubernetes.io/"
     "job-name':'j','controller-uid':'11111111-2222-4333-8444-555555555555','job-name':'j'}},'spec':{'"
     "parallelism':3,'backoffLimitPerIndex':1,'template':{'metadata':{'labels':{'a':'b','batch.kubernetes.io/"
     "controller-uid':'11111111-2222-4333-8444-555555555555','batch.kubernetes.io/"
     "job-name':'j','controller-uid':'11111111-2222-4333-8444-555555555555','job-name':'j'}},'spec':{'"
     "containers':[],'restartPolicy':'Always','terminationGracePeriodSeconds':30,'dnsPolicy':'ClusterFirst','"
     "securityContext':{},'schedulerName':'default-scheduler'}},'backoffLimit':2147483647,'completionMode':'"
     "NonIndexed','suspend':false,'manualSelector':false,'podReplacementPolicy':'TerminatingOrFailed','"
     "selector':{'matchLabels':{'batch.kubernetes.io/"
     "controller-uid':'11111111-2222-4333-8444-555555555555'}}},'status':{}}"},
    /* a job with a failure policy and a selector of its own */
    {KIND_JOB,
     "{'metadata':{'name':'j','labels':{'x':'y'}},'spec':{'manualSelector':true,'podFailurePolicy':{'rules':["
     "{'action':'Ignore','onPodConditions':[{'type':'DisruptionTarget'}]}]},'template':{'spec':{'containers':"
     "[]}}}}",
     "{'metadata':{'name':'j','labels':{'x':'y'}},'spec':{'manualSelector':true,'podFailurePolicy':{'rules':["
     "{'action':'Ignore','onPodConditions':[{'type':'DisruptionTarget','status':'True'}]}]},'template':{'"
     "spec':{'containers':[],'restartPolicy':'Always','terminationGracePeriodSeconds':30,'dnsPolicy':'"
     "ClusterFirst','securityContext':{},'schedulerName':'default-scheduler'},'metadata':{}},'completions':1,"
     "'parallelism':1,'backoffLimit':6,'completionMode':'NonIndexed','suspend':false,'podReplacementPolicy':'"
     "Failed'},'status':{}}"},
    /* a namespace */
    {KIND_NAMESPACE, "{'metadata':{'name':'n'}}",
     "{'metadata':{'name':'n','labels':{'kubernetes.io/"
     "metadata.name':'n'}},'status':{'phase':'Active'},'spec':{'finalizers':['kubernetes']}}"},
    /* a node */
    {KIND_NODE, "{'metadata':{'name':'n'},'status':{'capacity':{'cpu':4}}}",
     "{'status':{'capacity':{'cpu':'4'},'allocatable':{'cpu':'4'},'nodeInfo':{'machineID':'','systemUUID':'',"
     "'bootID':'','kernelVersion':'','osImage':'','containerRuntimeVersion':'','kubeletVersion':'',"
     "'kubeProxyVersion':'','operatingSystem':'','architecture':''},'daemonEndpoints':{'kubeletEndpoint':"
     "{'Port':0}}},'spec':{}}"},
    /* a secret */
    {KIND_SECRET, "{'metadata':{'name':'s'},'data':{'a':'eA=='},'stringData':{'a':'y','b':''}}",
     "{'data':{'a':'eQ==','b':''},'type':'Opaque'}"},
    /* a claim */
    {KIND_PVC, "{'metadata':{'name':'v'},'spec':{'resources':{'requests':{'storage':5}}}}",
     "{'spec':{'resources':{'requests':{'storage':'5'}},'volumeMode':'Filesystem'},'status':{'phase':'"
     "Pending'}}"},
    /* a volume */
    {KIND_PV, "{'metadata':{'name':'v'},'spec':{'hostPath':{'path':'/x'}}}",
     "{'spec':{'hostPath':{'path':'/"
     "x','type':''},'persistentVolumeReclaimPolicy':'Retain','volumeMode':'Filesystem'},'status':{'phase':'"
     "Pending','lastPhaseTransitionTime':'2026-03-01T12:00:00Z'}}"},
    /* a storage class */
    {KIND_STORAGE_CLASS, "{'metadata':{'name':'c'},'provisioner':'p'}",
     "{'provisioner':'p','reclaimPolicy':'Delete','volumeBindingMode':'Immediate'}"},
    /* a priority class */
    {KIND_PRIORITY_CLASS, "{'metadata':{'name':'c'}}",
     "{'value':0,'preemptionPolicy':'PreemptLowerPriority'}"},
    /* a lease */
    {KIND_LEASE, "{'metadata':{'name':'l'}}", "{'spec':{}}"},
    /* an event */
    {KIND_EVENT, "{'metadata':{'name':'e'}}", "{'source':{},'reportingComponent':'','reportingInstance':''}"},
    /* a config map */
    {KIND_CONFIG_MAP, "{'metadata':{'name':'c'},'data':{}}", "{}"},
    /* a quota */
    {KIND_RESOURCE_QUOTA, "{'metadata':{'name':'q'},'spec':{'hard':{'pods':4}}}",
     "{'spec':{'hard':{'pods':'4'}},'status':{}}"},
    /* a limit range */
    {KIND_LIMIT_RANGE,
     "{'metadata':{'name':'l'},'spec':{'limits':[{'type':'Container','max':{'cpu':'2','memory':'24Gi'},'"
     "default':{'memory':'512Mi'},'min':{'a.b/c':1}},{'type':'Pod','max':{'cpu':4}}]}}",
     "{'spec':{'limits':[{'type':'Container','max':{'cpu':'2','memory':'24Gi'},'default':{'memory':'512Mi','"
     "cpu':'2'},'min':{'a.b/c':'1'},'defaultRequest':{'memory':'512Mi','cpu':'2','a.b/"
     "c':'1'}},{'type':'Pod','max':{'cpu':'4'}}]}}"},
    /* a service */
    {KIND_SERVICE,
     "{'metadata':{'name':'s'},'spec':{'ports':[{'port':80},{'port':81,'targetPort':'http','protocol':'UDP'}]"
     "}}",
     "{'spec':{'ports':[{'port':80,'protocol':'TCP','targetPort':80},{'port':81,'targetPort':'http','"
     "protocol':'UDP'}],'sessionAffinity':'None','type':'ClusterIP','internalTrafficPolicy':'Cluster','"
     "ipFamilies':['IPv4'],'ipFamilyPolicy':'SingleStack'},'status':{'loadBalancer':{}}}"},
    /* a balanced service */
    {KIND_SERVICE,
     "{'metadata':{'name':'s'},'spec':{'type':'LoadBalancer','sessionAffinity':'ClientIP','ports':[{'port':"
     "80}]}}",
     "{'spec':{'type':'LoadBalancer','sessionAffinity':'ClientIP','ports':[{'port':80,'protocol':'TCP','"
     "targetPort':80}],'sessionAffinityConfig':{'clientIP':{'timeoutSeconds':10800}},'externalTrafficPolicy':"
     "'Cluster','internalTrafficPolicy':'Cluster','allocateLoadBalancerNodePorts':true,'ipFamilies':['IPv4'],"
     "'ipFamilyPolicy':'SingleStack'},'status':{'loadBalancer':{}}}"},
    /* a headless service */
    {KIND_SERVICE, "{'metadata':{'name':'s'},'spec':{'clusterIP':'None'}}",
     "{'spec':{'clusterIP':'None','sessionAffinity':'None','type':'ClusterIP','internalTrafficPolicy':'"
     "Cluster','clusterIPs':['None'],'ipFamilies':['IPv4'],'ipFamilyPolicy':'SingleStack'},'status':{'"
     "loadBalancer':{}}}"},
    /* a name elsewhere */
    {KIND_SERVICE, "{'metadata':{'name':'s'},'spec':{'type':'ExternalName','externalName':'x.org'}}",
     "{'spec':{'type':'ExternalName','externalName':'x.org','sessionAffinity':'None'},'status':{'"
     "loadBalancer':{}}}"},
    /* a training job */
    {KIND_TRAINING_JOB, "{'metadata':{'name':'t'},'spec':{'image':'x'}}",
     "{'spec':{'image':'x','maxEpochs':1,'singleGPU':false,'disableSharing':false,'priority':0},'status':{'"
     "phase':'Pending'}}"},
    /* a task definition */
    {KIND_TASK_DEFINITION, "{'metadata':{'name':'t'},'spec':{'taskTemplateName':'x','creator':''}}",
     "{'spec':{'taskTemplateName':'x','creator':''}}"},
};

static void test_defaults_are_those_of_kubernetes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(arena_done) struct arena arena = {0};
        CLEANUP(buf_done) struct buf is = {0}, should = {0};
        const struct kind *kind = kind_by_id(cases[i].kind);
        struct json *doc = make_ready(&arena, kind, cases[i].doc, NULL), *meta = json_get(doc, "metadata");

        json_remove(meta, "uid");
        json_remove(meta, "namespace");
        if (meta->len == 1)
            json_remove(doc, "metadata");
        json_write_sorted(&is, doc);
        json_write_sorted(&should, parse_quoted(&arena, cases[i].result));
        if (!streq(is.data, should.data))
            fail_msg("%s\n-- gives --\n%s\n-- not --\n%s", cases[i].doc, is.data, should.data);
    }
}

static void test_defaults_change_nothing_the_second_time(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(arena_done) struct arena arena = {0};
        const struct rule_ctx ctx = {.arena = &arena, .now = 1, .name = ""};
        const struct kind *kind = kind_by_id(cases[i].kind);
        struct json *doc = make_ready(&arena, kind, cases[i].doc, NULL), *again = json_copy(&arena, doc);

        if (kind->defaults)
            kind->defaults(&ctx, again);
        kind_prepare(kind, &ctx, again, doc);
        if (!json_equal(doc, again))
            fail_msg("%s is not stable", cases[i].doc);
    }
}

static void test_updates_do_not_touch_status(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct rule_ctx ctx = {.arena = &arena, .now = 1, .name = ""};
    const struct kind *kind = kind_by_id(KIND_POD);
    struct json *old =
        parse_quoted(&arena, "{'metadata':{'name':'p'},'spec':{},'status':{'phase':'Running'}}");
    struct json *doc =
        parse_quoted(&arena, "{'metadata':{'name':'p'},'spec':{},'status':{'phase':'Failed'}}");
    struct json *bare = parse_quoted(&arena, "{'metadata':{'name':'p'},'spec':{}}");

    (void)state;
    kind_prepare(kind, &ctx, doc, old);
    kind_prepare(kind, &ctx, bare, old);
    assert_string_equal(json_at_string(doc, "status.phase"), "Running");
    assert_string_equal(json_at_string(bare, "status.phase"), "Running");
}

static void test_updates_keep_what_the_server_chose(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct rule_ctx ctx = {.arena = &arena, .now = 1, .name = ""};
    struct json *old =
        parse_quoted(&arena, "{'spec':{'type':'NodePort','clusterIP':'10.0.0.1','clusterIPs':['10.0.0.1'],"
                             "'ports':[{'port':80,'protocol':'TCP','nodePort':30080}]}}");
    struct json *doc =
        parse_quoted(&arena, "{'spec':{'type':'NodePort','ports':[{'port':80,'protocol':'TCP'}]}}");
    struct json *ns = parse_quoted(&arena, "{'spec':{}}");

    (void)state;
    kind_prepare(kind_by_id(KIND_SERVICE), &ctx, doc, old);
    assert_string_equal(json_at_string(doc, "spec.clusterIP"), "10.0.0.1");
    assert_int_equal(json_int(json_at(doc, "spec.ports.0.nodePort"), 0), 30080);
    kind_prepare(kind_by_id(KIND_NAMESPACE), &ctx, ns,
                 parse_quoted(&arena, "{'spec':{'finalizers':['kubernetes']}}"));
    assert_string_equal(json_at_string(ns, "spec.finalizers.0"), "kubernetes");
}

static void test_services_of_another_type_give_up_what_it_lacks(void **state)
{
    static const char *const from =
        "{'spec':{'type':'%s','clusterIP':'10.0.0.1','clusterIPs':['10.0.0.1'],"
        "'externalTrafficPolicy':'Cluster','ports':[{'port':80,'nodePort':30080}]%s}}";
    static const char *const keys[] = {"externalTrafficPolicy", "clusterIP", "allocateLoadBalancerNodePorts"};
    static const struct {
        const char *type;
        bool kept[4]; /* of keys, and of the node port */
    } types[] = {{"NodePort", {true, true, false, true}},
                 {"ClusterIP", {false, true, false, false}},
                 {"ExternalName", {false, false, false, false}}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        CLEANUP(arena_done) struct arena arena = {0};
        const struct rule_ctx ctx = {.arena = &arena, .now = 1, .name = ""};
        struct json *old = parse_quoted(
            &arena, arena_printf(&arena, from, "LoadBalancer", ",'allocateLoadBalancerNodePorts':true"));
        struct json *doc = json_copy(&arena, old);

        json_set_string(&arena, json_get(doc, "spec"), "type", types[i].type);
        kind_prepare(kind_by_id(KIND_SERVICE), &ctx, doc, old);
        for (size_t k = 0; k < ARRAY_LEN(keys); k++)
            assert_int_equal(json_get(json_get(doc, "spec"), keys[k]) != NULL, types[i].kept[k]);
        assert_int_equal(json_at(doc, "spec.ports.0.nodePort") != NULL, types[i].kept[3]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults_are_those_of_kubernetes),
        cmocka_unit_test(test_defaults_change_nothing_the_second_time),
        cmocka_unit_test(test_updates_do_not_touch_status),
        cmocka_unit_test(test_updates_keep_what_the_server_chose),
        cmocka_unit_test(test_services_of_another_type_give_up_what_it_lacks),
    };

    return cmocka_run_group_tests_name("defaults", tests, NULL, NULL);
}
