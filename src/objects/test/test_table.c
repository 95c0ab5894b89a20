/* Rows of the Table, kind by kind: a document in, the cells out, as kubectl prints them. */
#include "base/clock.h"
#include "objects/table.h"

/* cmocka.h wants the others before it */
/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
/* clang-format on */

#define NOW        "2026-03-01T12:00:00Z"
#define MADE       "\"creationTimestamp\":\"2026-03-01T11:57:55Z\"" /* 2m5s before */
#define META(name) "\"metadata\":{\"name\":\"" name "\",\"uid\":\"u\",\"resourceVersion\":\"7\"," MADE "}"
#define GOING(name)                                                                                          \
    "\"metadata\":{\"name\":\"" name "\",\"uid\":\"u\",\"resourceVersion\":\"7\"," MADE                      \
    ",\"deletionTimestamp\":\"2026-03-01T12:00:10Z\"}"

static struct object *make(int kind, const char *text)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct err err = {0};
    struct json *doc;

    if (json_parse(str_from(text), &arena, &doc, NULL, &err) < 0)
        fail_msg("%s in %s", err.msg, text);
    return object_new(kind_by_id(kind), &arena, doc);
}

static void row_of(int kind, const char *text, enum table_include include, struct buf *out)
{
    CLEANUP(object_unref) struct object *object = make(kind, text);
    int64_t now;

    assert_true(clock_parse(STR(NOW), &now));
    table_row(out, object, include, now);
}

static void assert_cells(int kind, const char *text, const char *expected)
{
    CLEANUP(buf_done) struct buf row = {0}, want = {0};

    buf_printf(&want, "{\"cells\":[%s],\"object\":null}", expected);
    row_of(kind, text, TABLE_NONE, &row);
    assert_string_equal(row.data, want.data);
}

struct row {
    int kind;
    const char *doc;
    const char *cells;
};

#define POD(spec, status) "{" META("p") ",\"spec\":{" spec "},\"status\":{" status "}}"
#define TWO               "\"containers\":[{\"name\":\"a\"},{\"name\":\"b\"}]"
#define ONE               "\"containers\":[{\"name\":\"a\"}]"
#define INIT              "\"initContainers\":[{\"name\":\"i\"},{\"name\":\"j\"}]," ONE
#define SIDECAR           "\"initContainers\":[{\"name\":\"s\",\"restartPolicy\":\"Always\"}]," ONE
#define TAIL              ",\"2m5s\",\"<none>\",\"<none>\",\"<none>\",\"<none>\""
#define RUNS(name)        "{\"name\":\"" name "\",\"ready\":true,\"restartCount\":0,\"state\":{\"running\":{}}}"
#define STATE(name, what) "{\"name\":\"" name "\",\"ready\":false,\"restartCount\":0,\"state\":{" what "}}"

static const struct row pod_rows[] = {
    {KIND_POD, POD(ONE, "\"phase\":\"Pending\""), "\"p\",\"0/1\",\"Pending\",\"0\"" TAIL},
    {KIND_POD, POD(TWO, "\"phase\":\"Running\",\"containerStatuses\":[" RUNS("a") "," RUNS("b") "]"),
     "\"p\",\"2/2\",\"Running\",\"0\"" TAIL},
    {KIND_POD, POD(ONE, "\"phase\":\"Running\",\"reason\":\"Evicted\""),
     "\"p\",\"0/1\",\"Evicted\",\"0\"" TAIL},
    {KIND_POD,
     POD(ONE, "\"phase\":\"Pending\",\"conditions\":[{\"type\":\"PodScheduled\",\"status\":\"False\","
              "\"reason\":\"SchedulingGated\"}]"),
     "\"p\",\"0/1\",\"SchedulingGated\",\"0\"" TAIL},
    {KIND_POD,
     POD(ONE, "\"phase\":\"Pending\",\"containerStatuses\":[" STATE(
                  "a", "\"waiting\":{\"reason\":\"ContainerCreating\"}") "]"),
     "\"p\",\"0/1\",\"ContainerCreating\",\"0\"" TAIL},
    {KIND_POD,
     POD(ONE, "\"phase\":\"Running\",\"containerStatuses\":[" STATE(
                  "a", "\"terminated\":{\"exitCode\":137,\"signal\":9}") "]"),
     "\"p\",\"0/1\",\"Signal:9\",\"0\"" TAIL},
    {KIND_POD,
     POD(ONE,
         "\"phase\":\"Running\",\"containerStatuses\":[" STATE("a", "\"terminated\":{\"exitCode\":3}") "]"),
     "\"p\",\"0/1\",\"ExitCode:3\",\"0\"" TAIL},
    {KIND_POD,
     POD(TWO, "\"phase\":\"Running\",\"containerStatuses\":[" STATE(
                  "a", "\"terminated\":{\"exitCode\":0,\"reason\":\"Completed\"}") "," RUNS("b") "]"),
     "\"p\",\"1/2\",\"NotReady\",\"0\"" TAIL},
    {KIND_POD,
     POD(TWO, "\"phase\":\"Running\",\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}],"
              "\"containerStatuses\":[" STATE(
                  "a", "\"terminated\":{\"exitCode\":0,\"reason\":\"Completed\"}") "," RUNS("b") "]"),
     "\"p\",\"1/2\",\"Running\",\"0\"" TAIL},
    {KIND_POD,
     POD(INIT, "\"phase\":\"Pending\",\"initContainerStatuses\":[" STATE(
                   "i", "\"terminated\":{\"exitCode\":0}") "," STATE("j", "\"running\":{}") "]"),
     "\"p\",\"0/1\",\"Init:1/2\",\"0\"" TAIL},
    {KIND_POD,
     POD(INIT, "\"phase\":\"Pending\",\"initContainerStatuses\":[" STATE(
                   "i", "\"waiting\":{\"reason\":\"CrashLoopBackOff\"}") "]"),
     "\"p\",\"0/1\",\"Init:CrashLoopBackOff\",\"0\"" TAIL},
    {KIND_POD,
     POD(INIT, "\"phase\":\"Pending\",\"initContainerStatuses\":[" STATE(
                   "i", "\"terminated\":{\"exitCode\":2,\"signal\":0}") "]"),
     "\"p\",\"0/1\",\"Init:ExitCode:2\",\"0\"" TAIL},
    {KIND_POD,
     POD(SIDECAR, "\"phase\":\"Running\",\"initContainerStatuses\":[{\"name\":\"s\",\"ready\":true,"
                  "\"started\":true,\"restartCount\":1,\"state\":{\"running\":{}}}],"
                  "\"containerStatuses\":[" RUNS("a") "]"),
     "\"p\",\"2/2\",\"Running\",\"1\"" TAIL},
    {KIND_POD,
     POD(ONE,
         "\"phase\":\"Running\",\"containerStatuses\":[{\"name\":\"a\",\"ready\":true,\"restartCount\":3,"
         "\"state\":{\"running\":{}},\"lastState\":{\"terminated\":{\"finishedAt\":"
         "\"2026-03-01T11:55:00Z\"}}}]"),
     "\"p\",\"1/1\",\"Running\",\"3 (5m ago)\"" TAIL},
    {KIND_POD, "{" GOING("p") ",\"spec\":{" ONE "},\"status\":{\"phase\":\"Running\"}}",
     "\"p\",\"0/1\",\"Terminating\",\"0\"" TAIL},
    {KIND_POD,
     POD(ONE ",\"nodeName\":\"n1\",\"readinessGates\":[{\"conditionType\":\"x\"},{\"conditionType\":\"y\"}]",
         "\"phase\":\"Running\",\"podIP\":\"10.0.0.2\",\"podIPs\":[{\"ip\":\"10.0.0.2\"}],"
         "\"nominatedNodeName\":\"n2\",\"conditions\":[{\"type\":\"x\",\"status\":\"True\"}]"),
     "\"p\",\"0/1\",\"Running\",\"0\",\"2m5s\",\"10.0.0.2\",\"n1\",\"n2\",\"1/2\""},
};

#define JOB(spec, status) "{" META("j") ",\"spec\":{" spec "},\"status\":{" status "}}"
#define JOB_TEMPLATE                                                                                         \
    "\"selector\":{\"matchLabels\":{\"b\":\"2\",\"a\":\"1\"}},"                                              \
    "\"template\":{\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"},{\"name\":\"d\",\"image\":"    \
    "\"k\"}]}}"
#define JOB_WIDE "\"2m5s\",\"c,d\",\"i,k\",\"a=1,b=2\""

static const struct row rows[] = {
    {KIND_JOB, JOB("\"completions\":3,\"parallelism\":1," JOB_TEMPLATE, "\"succeeded\":1"),
     "\"j\",\"Running\",\"1/3\",\"\"," JOB_WIDE},
    {KIND_JOB, JOB("\"parallelism\":4," JOB_TEMPLATE, "\"startTime\":\"2026-03-01T11:59:00Z\""),
     "\"j\",\"Running\",\"0/1 of 4\",\"60s\"," JOB_WIDE},
    {KIND_JOB,
     JOB("\"completions\":1," JOB_TEMPLATE,
         "\"succeeded\":1,\"startTime\":\"2026-03-01T11:59:00Z\",\"completionTime\":\"2026-03-01T11:59:30Z\","
         "\"conditions\":[{\"type\":\"Complete\",\"status\":\"True\"}]"),
     "\"j\",\"Complete\",\"1/1\",\"30s\"," JOB_WIDE},
    {KIND_JOB,
     JOB("\"completions\":1," JOB_TEMPLATE, "\"conditions\":[{\"type\":\"Suspended\",\"status\":\"True\"}]"),
     "\"j\",\"Suspended\",\"0/1\",\"\"," JOB_WIDE},
    {KIND_NODE,
     "{\"metadata\":{\"name\":\"n\",\"uid\":\"u\",\"resourceVersion\":\"1\"," MADE
     ",\"labels\":{\"node-role.kubernetes.io/worker\":\"\",\"node-role.kubernetes.io/gpu\":\"\"}},"
     "\"spec\":{\"unschedulable\":true},\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]"
     ","
     "\"addresses\":[{\"type\":\"InternalIP\",\"address\":\"10.1.1.1\"}],"
     "\"nodeInfo\":{\"kubeletVersion\":\"v1.33\",\"osImage\":\"Debian\"}}}",
     "\"n\",\"Ready,SchedulingDisabled\",\"gpu,worker\",\"2m5s\",\"v1.33\",\"10.1.1.1\",\"<none>\","
     "\"Debian\","
     "\"<unknown>\",\"<unknown>\""},
    {KIND_EVENT,
     "{" META("e") ",\"involvedObject\":{\"kind\":\"Pod\",\"name\":\"p\",\"fieldPath\":\"spec\"},\"reason\":"
                   "\"Started\","
                   "\"message\":\" "
                   "hi\\n\",\"type\":\"Normal\",\"count\":4,\"firstTimestamp\":\"2026-03-01T11:00:00Z\","
                   "\"lastTimestamp\":\"2026-03-01T11:59:59Z\",\"source\":{\"component\":\"kubelet\","
                   "\"host\":\"n\"}}",
     "\"1s\",\"Normal\",\"Started\",\"pod/p\",\"spec\",\"kubelet, n\",\"hi\",\"60m\",4,\"e\""},
    {KIND_EVENT,
     "{" META("e") ",\"involvedObject\":{\"kind\":\"Pod\"},\"eventTime\":\"2026-03-01T11:59:50.000000Z\","
                   "\"reportingComponent\":\"berth\"}",
     "\"10s\",\"\",\"\",\"pod\",\"\",\"berth\",\"\",\"10s\",1,\"e\""},
    {KIND_NAMESPACE, "{" META("ns") ",\"status\":{\"phase\":\"Active\"}}", "\"ns\",\"Active\",\"2m5s\""},
    {KIND_CONFIG_MAP, "{" META("cm") ",\"data\":{\"a\":\"1\"},\"binaryData\":{\"b\":\"\"}}",
     "\"cm\",2,\"2m5s\""},
    {KIND_SECRET, "{" META("s") ",\"type\":\"Opaque\",\"data\":{\"a\":\"\"}}", "\"s\",\"Opaque\",1,\"2m5s\""},
    {KIND_SERVICE_ACCOUNT, "{" META("sa") "}", "\"sa\",0,\"2m5s\""},
    {KIND_PVC,
     "{" META(
         "c") ",\"spec\":{\"volumeName\":\"v\",\"storageClassName\":\"fast\",\"volumeMode\":\"Filesystem\"},"
              "\"status\":{\"phase\":\"Bound\",\"capacity\":{\"storage\":\"1024Mi\"},"
              "\"accessModes\":[\"ReadWriteMany\",\"ReadWriteOnce\"]}}",
     "\"c\",\"Bound\",\"v\",\"1Gi\",\"RWO,RWX\",\"fast\",\"<unset>\",\"2m5s\",\"Filesystem\""},
    {KIND_PVC, "{" GOING("c") ",\"spec\":{},\"status\":{\"phase\":\"Pending\"}}",
     "\"c\",\"Terminating\",\"\",\"\",\"\",\"\",\"<unset>\",\"2m5s\",\"<unset>\""},
    {KIND_PV,
     "{" META("v") ",\"spec\":{\"capacity\":{\"storage\":\"5Gi\"},\"accessModes\":[\"ReadWriteOncePod\"],"
                   "\"persistentVolumeReclaimPolicy\":\"Retain\",\"claimRef\":{\"namespace\":\"a\",\"name\":"
                   "\"c\"},"
                   "\"volumeMode\":\"Block\"},\"status\":{\"phase\":\"Bound\"}}",
     "\"v\",\"5Gi\",\"RWOP\",\"Retain\",\"Bound\",\"a/c\",\"\",\"<unset>\",\"\",\"2m5s\",\"Block\""},
    {KIND_RESOURCE_QUOTA,
     "{" META("q") ",\"status\":{\"hard\":{\"requests.cpu\":\"1k\",\"pods\":\"5k\",\"limits.cpu\":\"2\"},"
                   "\"used\":{\"pods\":\"1\",\"requests.cpu\":\"10m\"}}}",
     "\"q\",\"pods: 1/5k, requests.cpu: 10m/1k\",\"limits.cpu: 0/2\",\"2m5s\""},
    {KIND_LIMIT_RANGE, "{" META("l") "}", "\"l\",\"2026-03-01T11:57:55Z\""},
    {KIND_SERVICE,
     "{" META(
         "s") ",\"spec\":{\"type\":\"NodePort\",\"clusterIP\":\"10.0.0.1\",\"clusterIPs\":[\"10.0.0.1\"],"
              "\"ports\":[{\"port\":80,\"nodePort\":30080,\"protocol\":\"TCP\"},{\"port\":53,\"protocol\":"
              "\"UDP\"}],"
              "\"selector\":{\"b\":\"2\",\"a\":\"1\"}}}",
     "\"s\",\"NodePort\",\"10.0.0.1\",\"<none>\",\"80:30080/TCP,53/UDP\",\"2m5s\",\"a=1,b=2\""},
    {KIND_SERVICE, "{" META("s") ",\"spec\":{\"type\":\"ClusterIP\",\"clusterIP\":\"None\"}}",
     "\"s\",\"ClusterIP\",\"None\",\"<none>\",\"<none>\",\"2m5s\",\"<none>\""},
    {KIND_SERVICE, "{" META("s") ",\"spec\":{\"type\":\"LoadBalancer\"},\"status\":{\"loadBalancer\":{}}}",
     "\"s\",\"LoadBalancer\",\"<none>\",\"<pending>\",\"<none>\",\"2m5s\",\"<none>\""},
    {KIND_SERVICE, "{" META("s") ",\"spec\":{\"type\":\"ExternalName\",\"externalName\":\"x.org\"}}",
     "\"s\",\"ExternalName\",\"<none>\",\"x.org\",\"<none>\",\"2m5s\",\"<none>\""},
    {KIND_PRIORITY_CLASS, "{" META("h") ",\"value\":100,\"preemptionPolicy\":\"Never\"}",
     "\"h\",100,false,\"2m5s\",\"Never\""},
    {KIND_LEASE, "{" META("l") ",\"spec\":{\"holderIdentity\":\"me\"}}", "\"l\",\"me\",\"2m5s\""},
    {KIND_STORAGE_CLASS,
     "{\"metadata\":{\"name\":\"f\",\"uid\":\"u\",\"resourceVersion\":\"1\"," MADE
     ",\"annotations\":{\"storageclass.kubernetes.io/is-default-class\":\"true\"}},\"provisioner\":\"p\","
     "\"reclaimPolicy\":\"Retain\",\"allowVolumeExpansion\":true}",
     "\"f (default)\",\"p\",\"Retain\",\"Immediate\",true,\"2m5s\""},
    {KIND_TRAINING_JOB,
     "{" META("t") ",\"spec\":{\"maxEpochs\":10},\"status\":{\"phase\":\"Running\",\"epochsDone\":3,"
                   "\"gpus\":[\"0\",\"1\"],\"eta\":\"2026-03-01T14:05:00Z\",\"reason\":\"Runs on 2 GPUs\"}}",
     "\"t\",\"Running\",\"3/10\",2,\"125m\",\"2m5s\",\"\",\"root\",\"Runs on 2 GPUs\""},
    {KIND_TASK_TEMPLATE, "{" META("t") ",\"spec\":{\"description\":\"d\"}}", "\"t\",\"d\",\"2m5s\""},
    {KIND_TASK_DEFINITION,
     "{" META(
         "t") ",\"spec\":{\"taskTemplateName\":\"tt\",\"creator\":\"me\",\"application\":\"Production\"}}",
     "\"t\",\"tt\",\"me\",\"Production\",\"2m5s\""},
};

static void test_pod_status_is_what_users_know(void **state)
{
    (void)state;
    for (const struct row *row = pod_rows; row < pod_rows + ARRAY_LEN(pod_rows); row++)
        assert_cells(row->kind, row->doc, row->cells);
}

static void test_every_kind_has_its_cells(void **state)
{
    (void)state;
    for (const struct row *row = rows; row < rows + ARRAY_LEN(rows); row++)
        assert_cells(row->kind, row->doc, row->cells);
}

static void test_finished_pods_carry_a_condition(void **state)
{
    CLEANUP(buf_done) struct buf done = {0}, failed = {0}, runs = {0};

    (void)state;
    row_of(KIND_POD, POD(ONE, "\"phase\":\"Succeeded\""), TABLE_NONE, &done);
    row_of(KIND_POD, POD(ONE, "\"phase\":\"Failed\""), TABLE_NONE, &failed);
    row_of(KIND_POD, POD(ONE, "\"phase\":\"Running\""), TABLE_NONE, &runs);
    assert_non_null(strstr(
        done.data, "\"conditions\":[{\"type\":\"Completed\",\"status\":\"True\",\"reason\":\"Succeeded\""));
    assert_non_null(strstr(failed.data, "\"reason\":\"Failed\""));
    assert_null(strstr(runs.data, "conditions"));
}

static void test_row_carries_metadata_or_the_object(void **state)
{
    CLEANUP(object_unref) struct object *object = make(KIND_LEASE, "{" META("l") "}");
    CLEANUP(buf_done) struct buf meta = {0}, whole = {0}, want = {0};

    (void)state;
    table_row(&meta, object, TABLE_METADATA, clock_now());
    table_row(&whole, object, TABLE_OBJECT, clock_now());
    buf_printf(&want,
               ",\"object\":{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/"
               "v1\",\"metadata\":%.*s}}",
               (int)object->meta_len, object->text + object->meta_at);
    assert_non_null(strstr(meta.data, want.data));
    buf_clear(&want);
    buf_printf(&want, ",\"object\":%s}", object->text);
    assert_non_null(strstr(whole.data, want.data));
}

static void test_kept_cells_age(void **state)
{
    CLEANUP(object_unref) struct object *object = make(KIND_NAMESPACE, "{" META("n") "}");
    CLEANUP(buf_done) struct buf first = {0}, later = {0};
    int64_t now;

    (void)state;
    assert_true(clock_parse(STR(NOW), &now));
    table_row(&first, object, TABLE_NONE, now);
    table_row(&later, object, TABLE_NONE, now + 60 * NSEC_PER_SEC);
    assert_string_equal(first.data, "{\"cells\":[\"n\",\"\",\"2m5s\"],\"object\":null}");
    assert_string_equal(later.data, "{\"cells\":[\"n\",\"\",\"3m5s\"],\"object\":null}");
}

static void test_text_cannot_forge_an_age(void **state)
{
    (void)state;
    assert_cells(KIND_NAMESPACE, "{" META("n") ",\"status\":{\"phase\":\"\\u0001" NOW "\\u0001\"}}",
                 "\"n\",\"\\u0001" NOW "\\u0001\",\"2m5s\"");
}

static void test_table_is_one_json_document(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct err err = {0};

    (void)state;
    for (size_t i = 0; i < kind_count; i++) {
        CLEANUP(buf_done) struct buf out = {0};
        struct json *doc;

        table_begin(&out, &kinds[i], STR("{\"resourceVersion\":\"9\"}"), true);
        table_end(&out);
        assert_int_equal(json_parse(buf_view(&out), &arena, &doc, NULL, &err), 0);
        assert_int_equal(json_len(json_get(doc, "columnDefinitions")), kinds[i].column_count);
        assert_string_equal(json_at_string(doc, "metadata.resourceVersion"), "9");
    }
}

static void test_later_watch_events_have_no_columns(void **state)
{
    CLEANUP(buf_done) struct buf out = {0};

    (void)state;
    table_begin(&out, kind_by_id(KIND_POD), STR(""), false);
    table_end(&out);
    assert_string_equal(out.data, "{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":{},"
                                  "\"columnDefinitions\":null,\"rows\":[]}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pod_status_is_what_users_know),
        cmocka_unit_test(test_every_kind_has_its_cells),
        cmocka_unit_test(test_finished_pods_carry_a_condition),
        cmocka_unit_test(test_row_carries_metadata_or_the_object),
        cmocka_unit_test(test_kept_cells_age),
        cmocka_unit_test(test_text_cannot_forge_an_age),
        cmocka_unit_test(test_table_is_one_json_document),
        cmocka_unit_test(test_later_watch_events_have_no_columns),
    };

    return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
