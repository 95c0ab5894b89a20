/* What pods are refused for, as a real API server (1.33) words it. Volumes are in test_validate_volume.c. */
#include "test_validate.h"

static const struct create_case creates[] = {
    /* dup containers */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'a','image':'x'},"
     "{'name':'a','image':'x'}]}}",
     "spec.containers[1].name: Duplicate value: \"a\"\n"},
    /* init dup */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'initContainers':[{'name':'c','image':'x'}]}}",
     "spec.initContainers[0].name: Duplicate value: \"c\"\n"},
    /* pull policy */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'imagePullPolicy':'Sometimes'}]}}",
     "spec.containers[0].imagePullPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", "
     "\"IfNotPresent\", \"Never\"\n"},
    /* msg policy */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'terminationMessagePolicy':'X'}]}}",
     "spec.containers[0].terminationMessagePolicy: Unsupported value: \"X\": supported values: \"File\", "
     "\"FallbackToLogsOnError\"\n"},
    /* env empty */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'env':[{'name':''},{'name':'a=b'},{'name':'ü'}]}]}}",
     "spec.containers[0].env[0].name: Required value\n"
     "spec.containers[0].env[1].name: Invalid value: \"a=b\": a valid environment variable name must consist "
     "only of printable ASCII characters other than '='\n"
     "spec.containers[0].env[2].name: Invalid value: \"ü\": a valid environment variable name must consist "
     "only of printable ASCII characters other than '='\n"},
    /* env from none */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'env':[{'name':'a','valueFrom':{}}]}]}}",
     "spec.containers[0].env[0].valueFrom: Invalid value: \"\": must specify one of: `fieldRef`, "
     "`resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`\n"},
    /* env both */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'env':[{'name':'a','value':'x','valueFrom':{'secretKeyRef':{'name':'s','key':'k'}}}]}]}}",
     "spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not be specified when `value` is not "
     "empty\n"},
    /* env two */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'env':[{'name':'a','valueFrom':{'secretKeyRef':{'name':'S','key':'k "
     "k'},'configMapKeyRef':{'name':'c','key':''}}}]}]}}",
     "spec.containers[0].env[0].valueFrom.configMapKeyRef.key: Required value\n"
     "spec.containers[0].env[0].valueFrom.secretKeyRef.name: Invalid value: \"S\": a lowercase RFC 1123 "
     "subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with "
     "an alphanumeric character (e.g. 'example.com', regex used for validation is "
     "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n"
     "spec.containers[0].env[0].valueFrom.secretKeyRef.key: Invalid value: \"k k\": a valid config key must "
     "consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', "
     "regex used for validation is '[-._a-zA-Z0-9]+')\n"
     "spec.containers[0].env[0].valueFrom: Invalid value: \"\": may not have more than one field specified "
     "at a time\n"},
    /* env resource */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'env':[{'name':'a','valueFrom':{'resourceFieldRef':{'resource':'limits.x'}}},{'name':'b','valueFrom':{"
     "'resourceFieldRef':{'resource':''}}}]}]}}",
     "spec.containers[0].env[0].valueFrom.resourceFieldRef.resource: Unsupported value: \"limits.x\": "
     "supported values: \"limits.cpu\", \"limits.ephemeral-storage\", \"limits.memory\", \"requests.cpu\", "
     "\"requests.ephemeral-storage\", \"requests.memory\"\n"
     "spec.containers[0].env[1].valueFrom.resourceFieldRef.resource: Required value\n"},
    /* envFrom */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'envFrom':[{},{'prefix':'a=','configMapRef':{'name':'C'}},{'configMapRef':{'name':''}},{'configMapRef'"
     ":{'name':'c'},'secretRef':{'name':'s'}}]}]}}",
     "spec.containers[0].envFrom: Invalid value: \"\": must specify one of: `configMapRef` or `secretRef`\n"
     "spec.containers[0].envFrom[1].prefix: Invalid value: \"a=\": a valid environment variable name must "
     "consist only of printable ASCII characters other than '='\n"
     "spec.containers[0].envFrom[1].configMapRef.name: Invalid value: \"C\": a lowercase RFC 1123 subdomain "
     "must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an "
     "alphanumeric character (e.g. 'example.com', regex used for validation is "
     "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n"
     "spec.containers[0].envFrom[2].configMapRef.name: Required value\n"
     "spec.containers[0].envFrom: Invalid value: \"\": may not have more than one field specified at a "
     "time\n"},
    /* ports */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'ports':[{'containerPort':0},{'containerPort':70000},{'containerPort':1,'hostPort':-1},{'"
     "containerPort':2,'protocol':'X'},{'containerPort':3,'name':'A--b-'},{'containerPort':4,'name':'http'},{"
     "'containerPort':5,'name':'http'},{'containerPort':6,'name':'1234'},{'containerPort':7,'name':'"
     "abcdefghijklmnop'}]}]}}",
     "spec.containers[0].ports[0].containerPort: Required value\n"
     "spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, "
     "inclusive\n"
     "spec.containers[0].ports[2].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive\n"
     "spec.containers[0].ports[3].protocol: Unsupported value: \"X\": supported values: \"SCTP\", \"TCP\", "
     "\"UDP\"\n"
     "spec.containers[0].ports[4].name: Invalid value: \"A--b-\": must contain only alpha-numeric characters "
     "(a-z, 0-9), and hyphens (-)\n"
     "spec.containers[0].ports[4].name: Invalid value: \"A--b-\": must not contain consecutive hyphens\n"
     "spec.containers[0].ports[4].name: Invalid value: \"A--b-\": must not begin or end with a hyphen\n"
     "spec.containers[0].ports[6].name: Duplicate value: \"http\"\n"
     "spec.containers[0].ports[7].name: Invalid value: \"1234\": must contain at least one letter (a-z)\n"
     "spec.containers[0].ports[8].name: Invalid value: \"abcdefghijklmnop\": must be no more than 15 "
     "characters\n"},
    /* host ports */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'ports':[{'containerPort':1,'hostPort':5},{'containerPort':2,'hostPort':5}]}]}}",
     "spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//5\"\n"},
    /* hostnet */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'ports':[{'containerPort':1,'hostPort':5}]}],'hostNetwork':true}}",
     "spec.containers[0].ports[0].hostPort: Invalid value: 5: must match `containerPort` when `hostNetwork` "
     "is true\n"},
    /* res order */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'resources':{'limits':{'cpu':'1'},'requests':{'cpu':'2'}}}]}}",
     "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to cpu limit "
     "of 1\n"},
    /* res gpu req only */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'resources':{'requests':{'nvidia.com/gpu':'1'}}}]}}",
     "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable "
     "resources\n"},
    /* res gpu neq */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'resources':{'limits':{'nvidia.com/gpu':'2'},'requests':{'nvidia.com/gpu':'1'}}}]}}",
     "spec.containers[0].resources.requests: Invalid value: \"1\": must be equal to nvidia.com/gpu limit of "
     "2\n"},
    /* res neg */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'resources':{'limits':{'cpu':'-1'}}}]}}",
     "spec.containers[0].resources.limits[cpu]: Invalid value: \"-1\": must be greater than or equal to 0\n"
     "spec.containers[0].resources.requests[cpu]: Invalid value: \"-1\": must be greater than or equal to "
     "0\n"},
    /* res huge */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'resources':{'limits':{'hugepages-2Mi':'2Mi'}}}]}}",
     "spec.containers[0].resources: Forbidden: HugePages require cpu or memory\n"},
    /* res k8s */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'resources':{'limits':{'kubernetes.io/x':'1','requests.x/y':'1','x.y/z z':'1'}}}]}}",
     "spec.containers[0].resources.limits[requests.x/y]: Invalid value: requests.x/y: doesn't follow "
     "extended resource name standard\n"
     "spec.containers[0].resources.limits[x.y/z z]: Invalid value: x.y/z z: name part must consist of "
     "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
     "'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
     "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"
     "spec.containers[0].resources.limits[x.y/z z]: Invalid value: x.y/z z: doesn't follow extended resource "
     "name standard\n"
     "spec.containers[0].resources.requests[requests.x/y]: Invalid value: requests.x/y: doesn't follow "
     "extended resource name standard\n"
     "spec.containers[0].resources.requests[x.y/z z]: Invalid value: x.y/z z: name part must consist of "
     "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
     "'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
     "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"
     "spec.containers[0].resources.requests[x.y/z z]: Invalid value: x.y/z z: doesn't follow extended "
     "resource name standard\n"},
    /* probe none */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'livenessProbe':{}}]}}",
     "spec.containers[0].livenessProbe: Required value: must specify a handler type\n"},
    /* probe two */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'livenessProbe':{'exec':{'command':[]},'httpGet':{'port':1}}}]}}",
     "spec.containers[0].livenessProbe.exec.command: Required value\n"
     "spec.containers[0].livenessProbe.httpGet: Forbidden: may not specify more than 1 handler type\n"},
    /* probe http */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'readinessProbe':{'httpGet':{'port':0,'scheme':'X','httpHeaders':[{'name':'a "
     "b','value':'x'}]},'terminationGracePeriodSeconds':3}}]}}",
     "spec.containers[0].readinessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, "
     "inclusive\n"
     "spec.containers[0].readinessProbe.httpGet.scheme: Unsupported value: \"X\": supported values: "
     "\"HTTP\", \"HTTPS\"\n"
     "spec.containers[0].readinessProbe.httpGet.httpHeaders: Invalid value: \"a b\": a valid HTTP header "
     "must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is "
     "'[-A-Za-z0-9]+')\n"
     "spec.containers[0].readinessProbe.terminationGracePeriodSeconds: Invalid value: 3: must not be set for "
     "readinessProbes\n"},
    /* probe counts */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'livenessProbe':{'tcpSocket':{'port':'A'},'initialDelaySeconds':-1,'timeoutSeconds':-1,'periodSeconds'"
     ":-1,'successThreshold':2,'failureThreshold':-1,'terminationGracePeriodSeconds':0}}]}}",
     "spec.containers[0].livenessProbe.tcpSocket.port: Invalid value: \"A\": must contain only alpha-numeric "
     "characters (a-z, 0-9), and hyphens (-)\n"
     "spec.containers[0].livenessProbe.tcpSocket.port: Invalid value: \"A\": must contain at least one "
     "letter (a-z)\n"
     "spec.containers[0].livenessProbe.initialDelaySeconds: Invalid value: -1: must be greater than or equal "
     "to 0\n"
     "spec.containers[0].livenessProbe.timeoutSeconds: Invalid value: -1: must be greater than or equal to "
     "0\n"
     "spec.containers[0].livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0\n"
     "spec.containers[0].livenessProbe.failureThreshold: Invalid value: -1: must be greater than or equal to "
     "0\n"
     "spec.containers[0].livenessProbe.terminationGracePeriodSeconds: Invalid value: 0: must be greater than "
     "0\n"
     "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1\n"},
    /* hooks */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'lifecycle':{'postStart':{},'preStop':{'sleep':{'seconds':99}}}}]}}",
     "spec.containers[0].lifecycle.postStart: Required value: must specify a handler type\n"
     "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 99: must be non-negative and less than "
     "terminationGracePeriodSeconds (30)\n"},
    /* init probe */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'initContainers':[{'name':'i','image':'x','livenessProbe':{'exec':{'command':['a']}},'lifecycle':{'"
     "preStop':{'exec':{'command':['a']}}}}]}}",
     "spec.initContainers[0].lifecycle: Forbidden: may not be set for init containers without "
     "restartPolicy=Always\n"
     "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without "
     "restartPolicy=Always\n"},
    /* init restart */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'initContainers':[{'name':'i','image':'x','restartPolicy':'Never'}]}}",
     "spec.initContainers[0].restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"\n"},
    /* ctr restart */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'restartPolicy':'Always'}]}}",
     "spec.containers[0].restartPolicy: Forbidden: may not be set for non-init containers\n"},
    /* sec ctx */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'securityContext':{'runAsUser':-1,'runAsGroup':2147483648}}],'securityContext':{'fsGroup':-5,'"
     "supplementalGroups':[1,-1],'fsGroupChangePolicy':'X','runAsUser':-2}}}",
     "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, "
     "inclusive\n"
     "spec.containers[0].securityContext.runAsGroup: Invalid value: 2147483648: must be between 0 and "
     "2147483647, inclusive\n"
     "spec.securityContext.fsGroup: Invalid value: -5: must be between 0 and 2147483647, inclusive\n"
     "spec.securityContext.runAsUser: Invalid value: -2: must be between 0 and 2147483647, inclusive\n"
     "spec.securityContext.supplementalGroups[1]: Invalid value: -1: must be between 0 and 2147483647, "
     "inclusive\n"
     "spec.securityContext.fsGroupChangePolicy: Unsupported value: \"X\": supported values: \"Always\", "
     "\"OnRootMismatch\"\n"},
    /* sys admin */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'securityContext':{'allowPrivilegeEscalation':false,'capabilities':{'add':['CAP_SYS_ADMIN']}}}]}}",
     "spec.containers[0].securityContext: Invalid value: "
     "{\"allowPrivilegeEscalation\":false,\"capabilities\":{\"add\":[\"CAP_SYS_ADMIN\"]}}: cannot set "
     "`allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN\n"},
    /* restart */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'restartPolicy':'X'}}",
     "spec.restartPolicy: Unsupported value: \"X\": supported values: \"Always\", \"OnFailure\", "
     "\"Never\"\n"},
    /* dns */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'dnsPolicy':'X'}}",
     "spec.dnsPolicy: Unsupported value: \"X\": supported values: \"ClusterFirstWithHostNet\", "
     "\"ClusterFirst\", \"Default\", \"None\"\n"},
    /* dns none */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'dnsPolicy':'None'}}",
     "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None\n"},
    /* dns none cfg */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'dnsPolicy':'None','dnsConfig':{}}}",
     "spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` "
     "is None\n"},
    /* dns cfg */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'dnsConfig':{'nameservers':['1.2.3.4','x','::1','1.1.1.1'],'options':[{'name':''}]}}}",
     "spec.dnsConfig.nameservers: Invalid value: [\"1.2.3.4\",\"x\",\"::1\",\"1.1.1.1\"]: must not have more "
     "than 3 nameservers\n"
     "spec.dnsConfig.nameservers[1]: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or "
     "2001:db8::ffff)\n"
     "spec.dnsConfig.options[0]: Required value: must not be empty\n"},
    /* deadline */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'activeDeadlineSeconds':0}}",
     "spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive\n"},
    /* hostname */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'hostname':'A.b','subdomain':'x_y'}}",
     "spec.hostname: Invalid value: \"A.b\": a lowercase RFC 1123 label must consist of lower case "
     "alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name', "
     " or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')\n"
     "spec.subdomain: Invalid value: \"x_y\": a lowercase RFC 1123 label must consist of lower case "
     "alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name', "
     " or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')\n"},
    /* pid */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'hostPID':true,'shareProcessNamespace':true}}",
     "spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID "
     "cannot both be enabled\n"},
    /* os */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'os':{'name':'mac'}}}",
     "spec.os: Unsupported value: \"mac\": supported values: \"linux\", \"windows\"\n"},
    /* alias */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'hostAliases':[{'ip':'x','hostnames':['A']}]}}",
     "spec.hostAliases[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or "
     "2001:db8::ffff)\n"
     "spec.hostAliases[0].hostnames[0]: Invalid value: \"A\": a lowercase RFC 1123 subdomain must consist of "
     "lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character "
     "(e.g. 'example.com', regex used for validation is "
     "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')\n"},
    /* gates */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'schedulingGates':[{'name':'a b'},{'name':'x'},{'name':'x'}],'nodeName':'n'}}",
     "spec.schedulingGates[0]: Invalid value: \"a b\": name part must consist of alphanumeric characters, "
     "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  "
     "or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"
     "spec.schedulingGates[2]: Duplicate value: \"x\"\n"
     "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared\n"},
    /* rgates */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'readinessGates':[{'conditionType':'a b'}]}}",
     "spec.readinessGates[0].conditionType: Invalid value: \"a b\": name part must consist of alphanumeric "
     "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or "
     "'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"},
    /* tol */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'tolerations':[{'key':'a "
     "b','operator':'Exists'},{'operator':'Equal'},{'key':'a','operator':'X'},{'key':'a','operator':'Exists',"
     "'value':'v'},{'key':'a','value':'-'},{'key':'a','effect':'X'},{'key':'a','tolerationSeconds':3}]}}",
     "spec.tolerations[0].key: Invalid value: \"a b\": name part must consist of alphanumeric characters, "
     "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  "
     "or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"
     "spec.tolerations[1].operator: Invalid value: \"Equal\": operator must be Exists when `key` is empty, "
     "which means \"match all values and all keys\"\n"
     "spec.tolerations[2].operator: Unsupported value: \"X\": supported values: \"Equal\", \"Exists\"\n"
     "spec.tolerations[3].operator: Invalid value: \"v\": value must be empty when `operator` is 'Exists'\n"
     "spec.tolerations[4].operator: Invalid value: \"-\": a valid label must be an empty string or consist "
     "of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
     "(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
     "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')\n"
     "spec.tolerations[5].effect: Unsupported value: \"X\": supported values: \"NoSchedule\", "
     "\"PreferNoSchedule\", \"NoExecute\"\n"
     "spec.tolerations[6].effect: Invalid value: \"\": effect must be 'NoExecute' when `tolerationSeconds` "
     "is set\n"},
    /* nodesel */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'nodeSelector':{'a b':'c d'}}}",
     "spec.nodeSelector: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' "
     "or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
     "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"
     "spec.nodeSelector: Invalid value: \"c d\": a valid label must be an empty string or consist of "
     "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
     "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
     "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')\n"},
    /* affinity */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':[{"
     "'matchExpressions':[{'key':'a','operator':'In'},{'key':'a','operator':'Exists','values':['x']},{'key':'"
     "','operator':'Gt'},{'key':'a','operator':'X','values':['a "
     "b']}],'matchFields':[{'key':'x','operator':'In','values':['a','b']},{'key':'metadata.name','operator':'"
     "Exists'}]}]}}}}}",
     "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
     "matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'\n"
     "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
     "matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or "
     "'DoesNotExist'\n"
     "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
     "matchExpressions[2].values: Required value: must be specified single value when `operator` is 'Lt' or "
     "'Gt'\n"
     "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
     "matchExpressions[2].key: Invalid value: \"\": name part must be non-empty\n"
     "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
     "matchExpressions[2].key: Invalid value: \"\": name part must consist of alphanumeric characters, '-', "
     "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
     "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"
     "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
     "matchExpressions[3].operator: Invalid value: \"X\": not a valid selector operator\n"
     "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
     "matchExpressions[3].values[0]: Invalid value: \"a b\": a valid label must be an empty string or "
     "consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
     "character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
     "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')\n"
     "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
     "matchFields[0].values: Required value: must be only one value when `operator` is 'In' or 'NotIn' for "
     "node field selector\n"
     "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
     "matchFields[0].key: Invalid value: \"x\": not a valid field selector key\n"
     "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]."
     "matchFields[1].operator: Invalid value: \"Exists\": not a valid selector operator\n"},
    /* affinity empty */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':{'nodeSelectorTerms':[]"
     "}}}}}",
     "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required "
     "value: must have at least one node selector term\n"},
    /* affinity pref */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'affinity':{'nodeAffinity':{'preferredDuringSchedulingIgnoredDuringExecution':[{'weight':0,'"
     "preference':{}},{'weight':101,'preference':{'matchExpressions':[{'key':'a','operator':'In'}]}}]}}}}",
     "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: "
     "0: must be in the range 1-100\n"
     "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].weight: Invalid value: "
     "101: must be in the range 1-100\n"
     "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[1].preference."
     "matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'\n"},
    /* pod affinity */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'affinity':{'podAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':[{'topologyKey':'','"
     "labelSelector':{'matchExpressions':[{'key':'a','operator':'In'}],'matchLabels':{'a':'b "
     "c'}}}]},'podAntiAffinity':{'preferredDuringSchedulingIgnoredDuringExecution':[{'weight':0,'"
     "podAffinityTerm':{'topologyKey':'a b','namespaces':['A']}}]}}}}",
     "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector.matchLabels: "
     "Invalid value: \"b c\": a valid label must be an empty string or consist of alphanumeric characters, "
     "'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or "
     "'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')\n"
     "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector."
     "matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'\n"
     "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required "
     "value: can not be empty\n"
     "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid "
     "value: \"\": name part must be non-empty\n"
     "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid "
     "value: \"\": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and "
     "end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
     "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"
     "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid "
     "value: 0: must be in the range 1-100\n"
     "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm."
     "namespace: Invalid value: \"A\": a lowercase RFC 1123 label must consist of lower case alphanumeric "
     "characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or "
     "'123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')\n"
     "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].podAffinityTerm."
     "topologyKey: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', '_' or "
     "'.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
     "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')\n"},
    /* spread */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'topologySpreadConstraints':[{'maxSkew':0,'topologyKey':'','whenUnsatisfiable':'X'},{'maxSkew':1,'"
     "topologyKey':'a'}]}}",
     "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero\n"
     "spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty\n"
     "spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: \"X\": supported values: "
     "\"DoNotSchedule\", \"ScheduleAnyway\"\n"
     "spec.topologySpreadConstraints[1].whenUnsatisfiable: Unsupported value: \"\": supported values: "
     "\"DoNotSchedule\", \"ScheduleAnyway\"\n"},
    /* ephemeral */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'ephemeralContainers':[{'name':'e','image':'i'}]}}",
     "spec.ephemeralContainers: Forbidden: cannot be set on create\n"},
    /* image pull secrets */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'imagePullSecrets':[{'name':''}]}}",
     ""},
};

static const struct update_case updates[] = {
    {KIND_POD, "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "{'spec':{'containers':[{'name':'c','image':'j:2'}]}}", ""},
    {KIND_POD, "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "{'spec':{'containers':[{'name':'c','image':'i:1','command':['x']}]}}",
     "spec: Forbidden: pod updates may not change fields other than "
     "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec."
     "tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it "
     "to be set to 1 if it was previously negative)\n"
     "\n"},
    {KIND_POD, "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "{'spec':{'containers':[{'name':'c','image':'i:1'},{'name':'d','image':'i:1'}]}}",
     "spec.containers: Forbidden: pod updates may not add or remove containers\n"},
    {KIND_POD,
     "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}],'activeDeadlineSeconds':10}"
     "}",
     "{'spec':{'activeDeadlineSeconds':20}}",
     "spec.activeDeadlineSeconds: Invalid value: 20: must be less than or equal to previous value\n"},
    {KIND_POD,
     "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}],'activeDeadlineSeconds':10}"
     "}",
     "{'spec':{'activeDeadlineSeconds':5}}", ""},
    {KIND_POD,
     "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}],'activeDeadlineSeconds':10}"
     "}",
     "{'spec':{'activeDeadlineSeconds':null}}",
     "spec.activeDeadlineSeconds: Invalid value: \"null\": must not update from a positive integer to nil "
     "value\n"},
    {KIND_POD, "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "{'spec':{'activeDeadlineSeconds':20}}", ""},
    {KIND_POD,
     "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}],'tolerations':[{'key':'x','"
     "operator':'Exists'}]}}",
     "{'spec':{'tolerations':[{'key':'y','operator':'Exists'}]}}",
     "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds\n"},
    {KIND_POD,
     "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}],'tolerations':[{'key':'x','"
     "operator':'Exists'}]}}",
     "{'spec':{'tolerations':[{'key':'x','operator':'Exists'},{'key':'y','operator':'Exists'}]}}", ""},
    {KIND_POD,
     "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}],'schedulingGates':[{'name':'"
     "a.b/c'}]}}",
     "{'spec':{'schedulingGates':null}}", ""},
    {KIND_POD, "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "{'spec':{'schedulingGates':[{'name':'a.b/c'}]}}",
     "spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate "
     "'a.b/c'\n"},
    {KIND_POD,
     "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}],'schedulingGates':[{'name':'"
     "a.b/c'}]}}",
     "{'spec':{'schedulingGates':[{'name':'a.b/c'},{'name':'x'}]}}",
     "spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate "
     "'x'\n"},
    {KIND_POD,
     "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}],'schedulingGates':[{'name':'"
     "a.b/c'}],'nodeSelector':{'a':'b'}}}",
     "{'spec':{'nodeSelector':{'c':'d'}}}", ""},
    {KIND_POD,
     "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}],'schedulingGates':[{'name':'"
     "a.b/c'}],'nodeSelector':{'a':'b'}}}",
     "{'spec':{'nodeSelector':{'a':'d'}}}",
     "spec.nodeSelector: Invalid value: {\"a\":\"d\"}: only additions to spec.nodeSelector are allowed (no "
     "mutations or deletions)\n"},
    {KIND_POD, "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "{'spec':{'nodeSelector':{'a':'b'}}}",
     "spec: Forbidden: pod updates may not change fields other than "
     "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec."
     "tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it "
     "to be set to 1 if it was previously negative)\n"
     "\n"},
    {KIND_POD,
     "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}],'schedulingGates':[{'name':'"
     "a.b/c'}]}}",
     "{'spec':{'affinity':{'nodeAffinity':{'requiredDuringSchedulingIgnoredDuringExecution':{'"
     "nodeSelectorTerms':[{'matchExpressions':[{'key':'a','operator':'Exists'}]}]}}}}}",
     ""},
    {KIND_POD,
     "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i','resources':{'limits':{'cpu':'0."
     "5'}}}]}}",
     "{'spec':{'containers':[{'name':'c','image':'i','resources':{'limits':{'cpu':'500m'}}}]}}", ""},
    {KIND_POD,
     "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i','resources':{'limits':{'cpu':'0."
     "5'}}}]}}",
     "{'spec':{'containers':[{'name':'c','image':'i','resources':{'limits':{'cpu':'501m'}}}]}}",
     "spec: Forbidden: pod updates may not change fields other than "
     "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec."
     "tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it "
     "to be set to 1 if it was previously negative)\n"
     "\n"},
    {KIND_POD, "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "{'spec':{'hostNetwork':false}}", ""},
    {KIND_POD, "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "{'spec':{'nodeName':'n1'}}",
     "spec: Forbidden: pod updates may not change fields other than "
     "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec."
     "tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it "
     "to be set to 1 if it was previously negative)\n"
     "\n"},
    {KIND_POD, "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "{'metadata':{'labels':{'priority':'0-3'}}}", ""},
    {KIND_POD, "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "{'metadata':{'labels':{'priority':'-3'}}}",
     "metadata.labels: Invalid value: \"-3\": a valid label must be an empty string or consist of "
     "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
     "'MyValue',  or 'my_value',  or '12345', regex used for validation is "
     "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')\n"},
    {KIND_POD, "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "{'metadata':{'name':'q'}}", "metadata.name: Invalid value: \"q\": field is immutable\n"},
    {KIND_POD, "{'metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'}]}}",
     "{'spec':{'terminationGracePeriodSeconds':5}}",
     "spec: Forbidden: pod updates may not change fields other than "
     "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec."
     "tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it "
     "to be set to 1 if it was previously negative)\n"
     "\n"},
};

static void test_pods_that_are_refused(void **state)
{
    (void)state;
    check_creates(creates, ARRAY_LEN(creates));
}

static void test_changes_of_pods(void **state)
{
    (void)state;
    check_updates(updates, ARRAY_LEN(updates));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pods_that_are_refused),
        cmocka_unit_test(test_changes_of_pods),
    };

    return cmocka_run_group_tests_name("validate_pod", tests, NULL, NULL);
}
