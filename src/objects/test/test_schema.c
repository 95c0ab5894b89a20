/* The tables and schema_check against what Kubernetes' own decoder (sigs.k8s.io/json on k8s.io/api 0.33) says
 * to the same text. */
#include "base/cleanup.h"
#include "objects/schema.h"
#include "objects/schema_tables.h"

/* cmocka.h wants the others before it */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>
#include <cmocka.h>
/* clang-format on */

static struct json *parse(struct arena *arena, const char *text)
{
    struct json *doc = NULL;
    struct err err = {0};

    if (json_parse(str_from(text), arena, &doc, NULL, &err) < 0)
        fail_msg("%s: %s", text, err.msg);
    return doc;
}

static void test_types_and_fields_are_sorted_and_complete(void **state)
{
    const struct schema_type *type;

    (void)state;
    for (size_t i = 0; (type = schema_type_at(i)); i++) {
        assert_ptr_equal(schema_type_find(type->name), type);
        assert_int_equal(schema_type_index(type), i);
        for (size_t k = 0; k < type->field_count; k++) {
            const struct schema_field *field = &type->fields[k];

            assert_ptr_equal(schema_field_find(type, str_from(field->name)), field);
            assert_int_equal(field->base == SCHEMA_MESSAGE, field->type != NULL);
            assert_int_equal(field->patch == SCHEMA_KEYED, field->patch_key != NULL);
            assert_int_equal(field->apply == SCHEMA_KEYED, field->apply_keys != NULL);
            if (field->patch_key)
                assert_non_null(schema_field_find(field->type, str_from(field->patch_key)));
            for (size_t m = 0; field->number && m < k; m++)
                assert_int_not_equal(field->number, type->fields[m].number);
        }
    }
    assert_null(schema_type_find("Nothing"));
    assert_null(schema_type_find(""));
    assert_null(schema_field_find(schema_type_find("Pod"), STR("spe")));
    assert_null(schema_field_find(schema_type_find("Pod"), STR("specs")));
    assert_null(schema_field_find(schema_type_find("Pod"), STR("")));
}

static const struct schema_field *field_of(const char *type, const char *name)
{
    const struct schema_type *t = schema_type_find(type);

    assert_non_null(t);
    return schema_field_find(t, str_from(name));
}

static void test_lists_merge_by_their_keys(void **state)
{
    static const struct {
        const char *type, *field, *patch, *apply;
    } rows[] = {
        {"PodSpec", "containers", "name", "name"},
        {"PodSpec", "volumes", "name", "name"},
        {"PodSpec", "hostAliases", "ip", "ip"},
        {"PodSpec", "topologySpreadConstraints", "topologyKey", "topologyKey,whenUnsatisfiable"},
        {"Container", "ports", "containerPort", "containerPort,protocol"},
        {"Container", "env", "name", "name"},
        {"Container", "volumeMounts", "mountPath", "mountPath"},
        {"ServiceSpec", "ports", "port", "port,protocol"},
        {"ObjectMeta", "ownerReferences", "uid", "uid"},
        {"PodStatus", "conditions", "type", "type"},
        {"NodeStatus", "addresses", "type", "type"},
        {"PodStatus", "podIPs", "ip", "ip"},
        {"PodSpec", "tolerations", NULL, NULL},
        {"Container", "envFrom", NULL, NULL},
        {"Container", "command", NULL, NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct schema_field *field = field_of(rows[i].type, rows[i].field);

        assert_true(streq(field->patch_key, rows[i].patch));
        assert_true(streq(field->apply_keys, rows[i].apply));
    }
    assert_int_equal(field_of("ObjectMeta", "finalizers")->patch, SCHEMA_SET);
    assert_int_equal(field_of("ObjectMeta", "finalizers")->apply, SCHEMA_SET);
    assert_true(field_of("PodSpec", "volumes")->retain_keys);
    assert_int_equal(field_of("JobSpec", "selector")->apply, SCHEMA_ATOMIC);
    assert_int_equal(field_of("EnvVarSource", "secretKeyRef")->apply, SCHEMA_ATOMIC);
    assert_int_equal(field_of("PodSpec", "nodeSelector")->apply, SCHEMA_ATOMIC);
    assert_int_equal(field_of("ObjectMeta", "labels")->apply, SCHEMA_GRANULAR);
}

/* As Kubernetes' decoder answers. */
static const struct {
    const char *type, *text;
    const char *err;     /* NULL: none */
    const char *unknown; /* NULL: none */
} cases[] = {
    {"Pod", "{\"spec\":{\"containers\":\"x\"}}",
     "json: cannot unmarshal string into Go struct field PodSpec.spec.containers of type []v1.Container",
     NULL},
    {"Pod",
     "{\"spec\":{\"containers\":[{\"name\":\"a\",\"imagee\":\"b\",\"ports\":[{\"containerPort\":\"80\"}]}]}}",
     "json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort "
     "of type int32",
     NULL},
    {"Pod",
     "{\"spec\":{\"containers\":[{\"name\":\"a\",\"imagee\":\"b\",\"ports\":[{\"containerPort\":80,\"zz\":1}]"
     ",\"Image\":\"x\"}],\"foo\":null},\"bar\":{}}",
     NULL,
     "unknown field \"spec.containers[0].imagee\", unknown field \"spec.containers[0].ports[0].zz\", unknown "
     "field \"spec.containers[0].Image\", unknown field \"spec.foo\", unknown field \"bar\""},
    {"Pod", "{\"spec\":{\"containers\":[{\"name\":1}]}}",
     "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string",
     NULL},
    {"Pod", "{\"spec\":{\"containers\":[{\"args\":[1]}]}}",
     "json: cannot unmarshal number into Go struct field Container.spec.containers.args of type string",
     NULL},
    {"Pod", "{\"spec\":{\"containers\":[{\"imagePullPolicy\":5}]}}",
     "json: cannot unmarshal number into Go struct field Container.spec.containers.imagePullPolicy of type "
     "v1.PullPolicy",
     NULL},
    {"Pod", "{\"spec\":{\"containers\":[{\"resources\":{\"limits\":\"x\"}}]}}",
     "json: cannot unmarshal string into Go struct field "
     "ResourceRequirements.spec.containers.resources.limits of type v1.ResourceList",
     NULL},
    {"Pod", "{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":\"x\"}}}]}}",
     "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'", NULL},
    {"Pod", "{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":true}}}]}}",
     "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'", NULL},
    {"Pod",
     "{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":\"0.5\",\"memory\":\"1024Mi\",\"a\":"
     "\"1000m\",\"b\":2,\"c\":1.5,\"d\":null,\"e\":\" 5 "
     "\",\"f\":\"1e3\",\"g\":\"1500m\",\"h\":\"0.5Gi\"}}}]}}",
     NULL, NULL},
    {"Pod", "{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":\"1mm\"}}}]}}",
     "unable to parse quantity's suffix", NULL},
    {"Pod", "{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":\"\"}}}]}}",
     "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'", NULL},
    {"Pod", "{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":\"1..5\"}}}]}}",
     "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'", NULL},
    {"Pod", "{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":\"1e\"}}}]}}",
     "unable to parse quantity's suffix", NULL},
    {"Pod", "{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":\"1KiB\"}}}]}}",
     "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'", NULL},
    {"Pod", "{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":{}}}}]}}",
     "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'", NULL},
    {"Pod", "{\"spec\":{\"containers\":[{\"resources\":{\"limits\":{\"cpu\":\"1E+5\"}}}]}}", NULL, NULL},
    {"Pod", "{\"metadata\":{\"creationTimestamp\":\"x\"}}",
     "parsing time \"x\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"x\" as \"2006\"", NULL},
    {"Pod", "{\"metadata\":{\"creationTimestamp\":5}}",
     "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type "
     "string",
     NULL},
    {"Pod", "{\"metadata\":{\"creationTimestamp\":\"\"}}",
     "parsing time \"\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"2006\"", NULL},
    {"Pod", "{\"metadata\":{\"creationTimestamp\":\"2026-13-01T00:00:00Z\"}}",
     "parsing time \"2026-13-01T00:00:00Z\": month out of range", NULL},
    {"Pod", "{\"metadata\":{\"creationTimestamp\":\"2026-02-30T00:00:00Z\"}}",
     "parsing time \"2026-02-30T00:00:00Z\": day out of range", NULL},
    {"Pod", "{\"metadata\":{\"creationTimestamp\":\"2026-01-01 00:00:00Z\"}}",
     "parsing time \"2026-01-01 00:00:00Z\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \" 00:00:00Z\" as "
     "\"T\"",
     NULL},
    {"Pod", "{\"metadata\":{\"creationTimestamp\":\"2026-01-01T00:00:00\"}}",
     "parsing time \"2026-01-01T00:00:00\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"\" as \"Z07:00\"",
     NULL},
    {"Pod", "{\"metadata\":{\"creationTimestamp\":\"2026-01-01T25:00:00Z\"}}",
     "parsing time \"2026-01-01T25:00:00Z\": hour out of range", NULL},
    {"Pod", "{\"metadata\":{\"creationTimestamp\":\"2026-01-01T05:00:00Zx\"}}",
     "parsing time \"2026-01-01T05:00:00Zx\": extra text: \"x\"", NULL},
    {"Pod", "{\"metadata\":{\"creationTimestamp\":\"2026-01-01T05:00:00+0200\"}}",
     "parsing time \"2026-01-01T05:00:00+0200\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"+0200\" as "
     "\"Z07:00\"",
     NULL},
    {"Pod", "{\"metadata\":{\"creationTimestamp\":\"2026-01-01T05:61:00Z\"}}",
     "parsing time \"2026-01-01T05:61:00Z\": minute out of range", NULL},
    {"Pod", "{\"metadata\":{\"creationTimestamp\":\"2026-01-01T05:00:61Z\"}}",
     "parsing time \"2026-01-01T05:00:61Z\": second out of range", NULL},
    {"Pod", "{\"metadata\":{\"creationTimestamp\":\"2026-01-01T5:00:00Z\"}}", NULL, NULL},
    {"Pod", "{\"metadata\":{\"creationTimestamp\":\"2026-1-01T05:00:00Z\"}}",
     "parsing time \"2026-1-01T05:00:00Z\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"1-01T05:00:00Z\" "
     "as \"01\"",
     NULL},
    {"Pod", "{\"metadata\":{\"creationTimestamp\":\"2026-01-01T05:00:00,5Z\"}}", NULL, NULL},
    {"Pod", "{\"metadata\":{\"creationTimestamp\":\"2026-01-01T05:00:00.123+02:00\"}}", NULL, NULL},
    {"Pod",
     "{\"metadata\":{\"creationTimestamp\":\"0001-01-01T00:00:00Z\",\"labels\":{\"a\":null,\"b\":\"x\"},"
     "\"annotations\":{\"a\":1}}}",
     "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.annotations of type string",
     NULL},
    {"Pod",
     "{\"metadata\":{\"labels\":{\"a\":null,\"b\":\"x\"},\"finalizers\":[null,\"x\"],\"ownerReferences\":["
     "null]}}",
     NULL, NULL},
    {"Pod", "{\"metadata\":{\"labels\":{\"a\":1}}}",
     "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string", NULL},
    {"Pod", "{\"metadata\":{\"labels\":[]}}",
     "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string",
     NULL},
    {"Pod", "{\"metadata\":[]}",
     "json: cannot unmarshal array into Go struct field Pod.metadata of type v1.ObjectMeta", NULL},
    {"Pod", "[]", "json: cannot unmarshal array into Go value of type v1.Pod", NULL},
    {"Pod", "\"x\"", "json: cannot unmarshal string into Go value of type v1.Pod", NULL},
    {"Pod", "{\"spec\":{\"activeDeadlineSeconds\":1.5}}",
     "json: cannot unmarshal number 1.5 into Go struct field PodSpec.spec.activeDeadlineSeconds of type "
     "int64",
     NULL},
    {"Pod", "{\"spec\":{\"activeDeadlineSeconds\":1.0}}",
     "json: cannot unmarshal number 1.0 into Go struct field PodSpec.spec.activeDeadlineSeconds of type "
     "int64",
     NULL},
    {"Pod", "{\"spec\":{\"priority\":3000000000}}",
     "json: cannot unmarshal number 3000000000 into Go struct field PodSpec.spec.priority of type int32",
     NULL},
    {"Pod", "{\"spec\":{\"activeDeadlineSeconds\":99999999999999999999}}",
     "json: cannot unmarshal number 99999999999999999999 into Go struct field "
     "PodSpec.spec.activeDeadlineSeconds of type int64",
     NULL},
    {"Pod", "{\"spec\":{\"hostNetwork\":\"true\"}}",
     "json: cannot unmarshal string into Go struct field PodSpec.spec.hostNetwork of type bool", NULL},
    {"Pod", "{\"spec\":{\"hostNetwork\":1}}",
     "json: cannot unmarshal number into Go struct field PodSpec.spec.hostNetwork of type bool", NULL},
    {"Pod", "{\"spec\":{\"containers\":[{\"livenessProbe\":{\"httpGet\":{\"port\":true}}}]}}",
     "json: cannot unmarshal bool into Go struct field "
     "HTTPGetAction.spec.containers.livenessProbe.httpGet.port of type int32",
     NULL},
    {"Pod", "{\"spec\":{\"containers\":[{\"livenessProbe\":{\"httpGet\":{\"port\":1.5}}}]}}",
     "json: cannot unmarshal number 1.5 into Go struct field "
     "HTTPGetAction.spec.containers.livenessProbe.httpGet.port of type int32",
     NULL},
    {"Pod", "{\"spec\":{\"containers\":[{\"livenessProbe\":{\"httpGet\":{\"port\":{}}}}]}}",
     "json: cannot unmarshal object into Go struct field "
     "HTTPGetAction.spec.containers.livenessProbe.httpGet.port of type int32",
     NULL},
    {"Pod", "{\"spec\":{\"containers\":[{\"livenessProbe\":{\"httpGet\":{\"port\":null,\"path\":5}}}]}}",
     "json: cannot unmarshal number into Go struct field "
     "HTTPGetAction.spec.containers.livenessProbe.httpGet.path of type string",
     NULL},
    {"Pod", "{\"spec\":{\"volumes\":[{\"name\":\"a\",\"hostPath\":5}]}}",
     "json: cannot unmarshal number into Go struct field Volume.spec.volumes.hostPath of type "
     "v1.HostPathVolumeSource",
     NULL},
    {"Pod", "{\"spec\":{\"volumes\":[{\"name\":\"a\",\"hostPath\":{\"path\":5}}]}}",
     "json: cannot unmarshal number into Go struct field HostPathVolumeSource.spec.volumes.hostPath.path of "
     "type string",
     NULL},
    {"Pod", "{\"spec\":{\"tolerations\":{}}}",
     "json: cannot unmarshal object into Go struct field PodSpec.spec.tolerations of type []v1.Toleration",
     NULL},
    {"Secret", "{\"data\":{\"a\":\"$$\"}}", "illegal base64 data at input byte 0", NULL},
    {"Secret", "{\"data\":{\"a\":\"YWJj\"}}", NULL, NULL},
    {"Secret", "{\"data\":{\"a\":\"YWJ\"}}", "illegal base64 data at input byte 0", NULL},
    {"Secret", "{\"data\":{\"a\":5}}",
     "json: cannot unmarshal number into Go struct field Secret.data of type []uint8", NULL},
    {"Secret", "{\"data\":{\"a\":null}}", NULL, NULL},
    {"Lease", "{\"spec\":{\"renewTime\":\"2026-01-01T05:00:00Z\"}}",
     "parsing time \"2026-01-01T05:00:00Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse \"Z\" as "
     "\".000000\"",
     NULL},
    {"Lease", "{\"spec\":{\"renewTime\":\"2026-01-01T05:00:00.123456Z\"}}", NULL, NULL},
    {"Lease", "{\"spec\":{\"renewTime\":\"2026-01-01T05:00:00.123Z\"}}",
     "parsing time \"2026-01-01T05:00:00.123Z\" as \"2006-01-02T15:04:05.000000Z07:00\": cannot parse "
     "\".123Z\" as \".000000\"",
     NULL},
    {"PersistentVolumeClaim", "{\"spec\":{\"accessModes\":[5]}}",
     "json: cannot unmarshal number into Go struct field PersistentVolumeClaimSpec.spec.accessModes of type "
     "v1.PersistentVolumeAccessMode",
     NULL},
    {"PersistentVolumeClaim", "{\"spec\":{\"accessModes\":5},\"status\":{\"allocatedResourceStatuses\":5}}",
     "json: cannot unmarshal number into Go struct field PersistentVolumeClaimSpec.spec.accessModes of type "
     "[]v1.PersistentVolumeAccessMode",
     NULL},
    {"PersistentVolumeClaim", "{\"status\":{\"allocatedResourceStatuses\":5}}",
     "json: cannot unmarshal number into Go struct field "
     "PersistentVolumeClaimStatus.status.allocatedResourceStatuses of type "
     "map[v1.ResourceName]v1.ClaimResourceStatus",
     NULL},
    {"PersistentVolumeClaim", "{\"status\":{\"allocatedResourceStatuses\":{\"a\":5}}}",
     "json: cannot unmarshal number into Go struct field "
     "PersistentVolumeClaimStatus.status.allocatedResourceStatuses of type v1.ClaimResourceStatus",
     NULL},
    {"ResourceQuota", "{\"spec\":{\"hard\":{\"a\":\"x\"}}}",
     "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'", NULL},
    {"Service", "{\"spec\":{\"ports\":[{\"targetPort\":\"http\"},{\"targetPort\":99999999999}]}}",
     "json: cannot unmarshal number 99999999999 into Go struct field ServicePort.spec.ports.targetPort of "
     "type int32",
     NULL},
    {"Pod", "{\"spec\":{\"containers\":[{\"na\\\"me\":\"x\"}],\"é\":1}}", NULL,
     "unknown field \"spec.containers[0].na\\\"me\", unknown field \"spec.é\""},
    {"Pod", "{\"metadata\":{\"managedFields\":[{\"fieldsV1\":{\"f:a\":{\"zz\":1}},\"x\":1}]}}", NULL,
     "unknown field \"metadata.managedFields[0].x\""},
    {"Job",
     "{\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"x\",\"env\":[{\"name\":\"a\",\"value\":"
     "1}]}]}}}}",
     "json: cannot unmarshal number into Go struct field EnvVar.spec.template.spec.containers.env.value of "
     "type string",
     NULL},
    {"Pod", "{\"spec\":{\"nodeName\":1,\"hostNetwork\":\"x\"}}",
     "json: cannot unmarshal number into Go struct field PodSpec.spec.nodeName of type string", NULL},
    {"Pod", "{\"spec\":{\"nodeName\":1,\"overhead\":{\"cpu\":\"x\"}}}",
     "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'", NULL},
    {"Pod", "{\"metadata\":{\"name\":1,\"creationTimestamp\":2}}",
     "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type "
     "string",
     NULL},
};

static void test_answers_are_those_of_kubernetes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        CLEANUP(arena_done) struct arena arena = {0};
        CLEANUP(schema_report_done) struct schema_report report = {0};
        struct json *doc = parse(&arena, cases[i].text);
        struct err err = {0};
        int r = schema_check(schema_type_find(cases[i].type), &arena, doc, true, &report, &err);

        if (!streq(r < 0 ? err.msg : NULL, cases[i].err))
            fail_msg("%s\n  said     %s\n  expected %s", cases[i].text, err.msg, cases[i].err);
        if (r == 0 && !streq(report.unknown_count ? report.unknown.data : NULL, cases[i].unknown))
            fail_msg("%s\n  found    %s\n  expected %s", cases[i].text, report.unknown.data,
                     cases[i].unknown);
    }
}

/* Checks the document as a Pod and compares with what it should be then. */
static void assert_checked(const char *type, const char *text, bool prune, const char *expected)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf out = {0};
    struct json *doc = parse(&arena, text);
    struct err err = {0};

    if (schema_check(schema_type_find(type), &arena, doc, prune, NULL, &err) < 0)
        fail_msg("%s: %s", text, err.msg);
    json_write(&out, doc);
    assert_string_equal(out.data, expected);
}

static void test_unknown_members_go_only_with_prune(void **state)
{
    (void)state;
    assert_checked("Pod", "{\"a\":1,\"kind\":\"Pod\",\"spec\":{\"b\":[],\"nodeName\":\"n\",\"c\":{}}}", true,
                   "{\"kind\":\"Pod\",\"spec\":{\"nodeName\":\"n\"}}");
    assert_checked("Pod", "{\"a\":1,\"kind\":\"Pod\",\"spec\":{\"b\":[]}}", false,
                   "{\"a\":1,\"kind\":\"Pod\",\"spec\":{\"b\":[]}}");
}

static void test_own_kinds_keep_unknown_members(void **state)
{
    (void)state;
    assert_checked("TrainingJob", "{\"spec\":{\"image\":\"x\",\"later\":{\"a\":1}},\"more\":2}", true,
                   "{\"spec\":{\"image\":\"x\",\"later\":{\"a\":1}},\"more\":2}");
}

static void test_nulls_go_or_become_zero_values(void **state)
{
    (void)state;
    assert_checked("Pod",
                   "{\"metadata\":{\"creationTimestamp\":null,\"labels\":{\"a\":null,\"b\":\"x\"},"
                   "\"finalizers\":[null,\"x\"],\"ownerReferences\":[null]},\"spec\":null}",
                   true,
                   "{\"metadata\":{\"labels\":{\"a\":\"\",\"b\":\"x\"},\"finalizers\":[\"\",\"x\"],"
                   "\"ownerReferences\":[{}]}}");
}

static void test_quantities_get_their_canonical_text(void **state)
{
    (void)state;
    assert_checked(
        "ResourceQuota",
        "{\"spec\":{\"hard\":{\"cpu\":\"0.5\",\"memory\":\"1024Mi\",\"a\":\"1000m\",\"b\":2,\"c\":1.5,"
        "\"d\":null,\"e\":\" 5 \",\"f\":\"1e3\",\"g\":\"1500m\",\"h\":\"0.5Gi\",\"i\":\"1E+5\"}}}",
        true,
        "{\"spec\":{\"hard\":{\"cpu\":\"500m\",\"memory\":\"1Gi\",\"a\":\"1\",\"b\":\"2\",\"c\":\"1500m\","
        "\"d\":\"0\",\"e\":\"5\",\"f\":\"1e3\",\"g\":\"1500m\",\"h\":\"512Mi\",\"i\":\"100e3\"}}}");
}

static void test_times_become_utc(void **state)
{
    (void)state;
    assert_checked("Pod", "{\"metadata\":{\"creationTimestamp\":\"2026-01-01T00:30:00.123+02:00\"}}", true,
                   "{\"metadata\":{\"creationTimestamp\":\"2025-12-31T22:30:00Z\"}}");
    assert_checked("Pod", "{\"metadata\":{\"creationTimestamp\":\"2026-01-01T5:00:00,5Z\"}}", true,
                   "{\"metadata\":{\"creationTimestamp\":\"2026-01-01T05:00:00Z\"}}");
    assert_checked("Pod", "{\"metadata\":{\"creationTimestamp\":\"0001-01-01T00:00:00Z\"}}", true,
                   "{\"metadata\":{}}");
    assert_checked("Lease", "{\"spec\":{\"renewTime\":\"2026-01-01T05:00:00.123456-01:00\"}}", true,
                   "{\"spec\":{\"renewTime\":\"2026-01-01T06:00:00.123456Z\"}}");
}

static void test_at_most_100_unknown_fields_are_named(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(schema_report_done) struct schema_report report = {0};
    struct json *doc = json_new_object(&arena);
    struct err err = {0};

    (void)state;
    for (int i = 0; i < 5000; i++)
        json_set(&arena, doc, arena_printf(&arena, "x%d", i), json_of_int(i));
    json_set_string(&arena, doc, "kind", "Pod");
    assert_int_equal(schema_check(schema_type_find("Pod"), &arena, doc, true, &report, &err), 0);
    assert_int_equal(report.unknown_count, 100);
    assert_int_equal(doc->len, 1);
    assert_string_equal(json_get_string(doc, "kind"), "Pod");
}

#define POD                                                                                                  \
    "{\"kind\":\"Pod\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\",\"namespace\":\"b\",\"labels\":{"  \
    "\"a\":\"b\"}},"                                                                                         \
    "\"spec\":{\"restartPolicy\":\"Never\",\"schedulerName\":\"berth\",\"volumes\":[{\"name\":\"v\","        \
    "\"emptyDir\":{\"medium\":\"Memory\"}}],"                                                                \
    "\"containers\":[{\"name\":\"c\",\"image\":\"i\",\"command\":[\"sleep\",\"1\"],\"env\":[{\"name\":"      \
    "\"A\",\"value\":\"1\"}],"                                                                               \
    "\"resources\":{\"limits\":{\"cpu\":\"500m\",\"memory\":\"1Gi\"},\"requests\":{\"cpu\":\"1\"}},\"tty\":" \
    "true,"                                                                                                  \
    "\"volumeMounts\":[{\"name\":\"v\",\"mountPath\":\"/dev/shm\"}],\"imagePullPolicy\":\"Always\"}]}}"

static void test_a_pod_takes_microseconds(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = parse(&arena, POD);
    struct timespec from, to;
    struct err err = {0};
    double us;

    (void)state;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
    for (int i = 0; i < 20000; i++)
        assert_int_equal(schema_check(schema_type_find("Pod"), &arena, doc, true, NULL, &err), 0);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
    us = ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / 20000 / 1e3;
    print_message("          one pod: %.2f us\n", us);
    assert_true(us < 100); /* room for sanitizers and busy machines; plain builds take about 2 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_and_fields_are_sorted_and_complete),
        cmocka_unit_test(test_lists_merge_by_their_keys),
        cmocka_unit_test(test_answers_are_those_of_kubernetes),
        cmocka_unit_test(test_unknown_members_go_only_with_prune),
        cmocka_unit_test(test_own_kinds_keep_unknown_members),
        cmocka_unit_test(test_nulls_go_or_become_zero_values),
        cmocka_unit_test(test_quantities_get_their_canonical_text),
        cmocka_unit_test(test_times_become_utc),
        cmocka_unit_test(test_at_most_100_unknown_fields_are_named),
        cmocka_unit_test(test_a_pod_takes_microseconds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
