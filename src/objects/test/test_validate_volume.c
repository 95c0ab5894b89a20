/* What volumes and mounts of pods are refused for, as a real API server (1.33) words it. */
#include "test_validate.h"

static const struct create_case creates[] = {
    /* mount none */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'volumeMounts':[{'name':'w','mountPath':'/x'}]}],'volumes':[{'name':'v','emptyDir':{}}]}}",
     "spec.containers[0].volumeMounts[0].name: Not found: \"w\"\n"},
    /* mount empty */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'volumeMounts':[{'name':'','mountPath':''}]}],'volumes':[{'name':'v','emptyDir':{}}]}}",
     "spec.containers[0].volumeMounts[0].name: Required value\n"
     "spec.containers[0].volumeMounts[0].name: Not found: \"\"\n"
     "spec.containers[0].volumeMounts[0].mountPath: Required value\n"},
    /* mount twice */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'volumeMounts':[{'name':'v','mountPath':'/x'},{'name':'v','mountPath':'/"
     "x'}]}],'volumes':[{'name':'v','emptyDir':{}}]}}",
     "spec.containers[0].volumeMounts[1].mountPath: Invalid value: \"/x\": must be unique\n"},
    /* subpath */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'volumeMounts':[{'name':'v','mountPath':'/x','subPath':'/a'},{'name':'v','mountPath':'/"
     "y','subPath':'a/../b','subPathExpr':'c'}]}],'volumes':[{'name':'v','emptyDir':{}}]}}",
     "spec.containers[0].volumeMounts.subPath: Invalid value: \"/a\": must be a relative path\n"
     "spec.containers[0].volumeMounts.subPath: Invalid value: \"a/../b\": must not contain '..'\n"
     "spec.containers[0].volumeMounts[1].subPathExpr: Invalid value: \"c\": subPathExpr and subPath are "
     "mutually exclusive\n"},
    /* propagation */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'volumeMounts':[{'name':'v','mountPath':'/"
     "x','mountPropagation':'Bidirectional'},{'name':'v','mountPath':'/"
     "y','mountPropagation':'X'}]}],'volumes':[{'name':'v','emptyDir':{}}]}}",
     "spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is "
     "available only to privileged containers\n"
     "spec.containers[0].volumeMounts.mountPropagation: Unsupported value: \"X\": supported values: "
     "\"Bidirectional\", \"HostToContainer\", \"None\"\n"},
    /* devices */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     ",'volumeDevices':[{'name':'v','devicePath':'/dev/"
     "x'},{'name':'w','devicePath':''},{'name':'','devicePath':'/a/../"
     "b'}]}],'volumes':[{'name':'v','emptyDir':{}}]}}",
     "spec.containers[0].volumeDevices[0].name: Invalid value: \"v\": can only use volume source type of "
     "PersistentVolumeClaim or Ephemeral for block mode\n"
     "spec.containers[0].volumeDevices[1].name: Not found: \"w\"\n"
     "spec.containers[0].volumeDevices[1].devicePath: Required value\n"
     "spec.containers[0].volumeDevices[2].name: Required value\n"
     "spec.containers[0].volumeDevices[2].name: Not found: \"\"\n"
     "spec.containers[0].volumeDevices[2].devicePath: Invalid value: \"/a/../b\": can not contain backsteps "
     "('..')\n"},
    /* vol dup */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'volumes':[{'name':'v','emptyDir':{}},{'name':'v','emptyDir':{}}]}}",
     "spec.volumes[1].name: Duplicate value: \"v\"\n"},
    /* vol name */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'volumes':[{'name':'V','emptyDir':{}},{'name':'','emptyDir':{}}]}}",
     "spec.volumes[0].name: Invalid value: \"V\": a lowercase RFC 1123 label must consist of lower case "
     "alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name', "
     " or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')\n"
     "spec.volumes[1].name: Required value\n"},
    /* vol two */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'volumes':[{'name':'v','emptyDir':{},'hostPath':{'path':'/x'}}]}}",
     "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type\n"},
    /* hostPath */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'volumes':[{'name':'v','hostPath':{'path':''}},{'name':'w','hostPath':{'path':'/a/"
     "..','type':'X'}}]}}",
     "spec.volumes[0].hostPath.path: Required value\n"
     "spec.volumes[1].hostPath.path: Invalid value: \"/a/..\": must not contain '..'\n"
     "spec.volumes[1].hostPath.type: Unsupported value: \"X\": supported values: \"\", \"BlockDevice\", "
     "\"CharDevice\", \"Directory\", \"DirectoryOrCreate\", \"File\", \"FileOrCreate\", \"Socket\"\n"},
    /* cm vol */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'volumes':[{'name':'v','configMap':{'name':'','defaultMode':1000,'items':[{'key':'','path':''},{'"
     "key':'a','path':'/x','mode':-1},{'key':'a','path':'..x'},{'key':'b','path':'../x'}]}}]}}",
     "spec.volumes[0].configMap.name: Required value\n"
     "spec.volumes[0].configMap.defaultMode: Invalid value: 1000: must be a number between 0 and 0777 "
     "(octal), both inclusive\n"
     "spec.volumes[0].configMap.items[0].key: Required value\n"
     "spec.volumes[0].configMap.items[0].path: Required value\n"
     "spec.volumes[0].configMap.items[1].path: Invalid value: \"/x\": must be a relative path\n"
     "spec.volumes[0].configMap.items[1].mode: Invalid value: -1: must be a number between 0 and 0777 "
     "(octal), both inclusive\n"
     "spec.volumes[0].configMap.items[2].path: Invalid value: \"..x\": must not start with '..'\n"
     "spec.volumes[0].configMap.items[3].path: Invalid value: \"../x\": must not contain '..'\n"},
    /* secret vol */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'volumes':[{'name':'v','secret':{'secretName':'','items':[{'key':'k','path':'a/../b'}]}}]}}",
     "spec.volumes[0].secret.secretName: Required value\n"
     "spec.volumes[0].secret.items[0].path: Invalid value: \"a/../b\": must not contain '..'\n"},
    /* pvc vol */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'volumes':[{'name':'v','persistentVolumeClaim':{'claimName':''}}]}}",
     "spec.volumes[0].persistentVolumeClaim.claimName: Required value\n"},
    /* nfs vol */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'volumes':[{'name':'v','nfs':{'server':'','path':''}},{'name':'w','nfs':{'server':'s','path':'x'}}]}"
     "}",
     "spec.volumes[0].nfs.server: Required value\n"
     "spec.volumes[0].nfs.path: Required value\n"
     "spec.volumes[0].nfs.path: Invalid value: \"\": must be an absolute path\n"
     "spec.volumes[1].nfs.path: Invalid value: \"x\": must be an absolute path\n"},
    /* emptydir */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'volumes':[{'name':'v','emptyDir':{'sizeLimit':'-1'}}]}}",
     "spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity\n"},
    /* downward */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'volumes':[{'name':'v','downwardAPI':{'items':[{'path':''},{'path':'a','fieldRef':{'fieldPath':'"
     "metadata.name'},'resourceFieldRef':{'resource':'limits.cpu','containerName':'c'}}]}}]}}",
     "spec.volumes[0].downwardAPI.path: Required value\n"
     "spec.volumes[0].downwardAPI: Required value: one of fieldRef and resourceFieldRef is required\n"
     "spec.volumes[0].downwardAPI: Invalid value: \"resource\": fieldRef and resourceFieldRef can not be "
     "specified simultaneously\n"},
    /* projected */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'volumes':[{'name':'v','projected':{'sources':[{},{'secret':{'name':''}},{'secret':{'name':'a'},'"
     "configMap':{'name':'b'}}]}}]}}",
     "spec.volumes[0].projected.sources[1].secret.name: Required value\n"
     "spec.volumes[0].projected.sources[2]: Forbidden: may not specify more than 1 volume type per source\n"},
    /* projected token no sa */
    {KIND_POD,
     "{'apiVersion':'v1','kind':'Pod','metadata':{'name':'p'},'spec':{'containers':[{'name':'c','image':'i:1'"
     "}],'volumes':[{'name':'v','projected':{'sources':[{'serviceAccountToken':{'path':'t'}}]}}]}}",
     "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when "
     "serviceAccountName is not set\n"},
};

static void test_volumes_that_are_refused(void **state)
{
    (void)state;
    check_creates(creates, ARRAY_LEN(creates));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_volumes_that_are_refused),
    };

    return cmocka_run_group_tests_name("validate_volume", tests, NULL, NULL);
}
