/* The pod of a training job's run: environment, mounts, command, ports, resources. */
#include "base/test/test.h"
#include "control/training.h"

#include <stdlib.h>

static struct json *pod_of(struct arena *arena, const char *spec, const struct training_run *run)
{
    struct json *job;
    struct err err = {0};
    const char *text =
        arena_printf(arena, "{\"metadata\":{\"uid\":\"8f14e45f\",\"name\":\"net\"},\"spec\":%s}", spec);

    if (json_parse(str_from(text), arena, &job, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    return training_pod(arena, job, run);
}

static const char *env_of(const struct json *pod, const char *name)
{
    const char *value = NULL;

    JSON_EACH(json_at(pod, "spec.containers.0.env"), it)
        if (streq(json_get_string(it, "name"), name)) {
            assert_null(value); /* once */
            value = json_get_string(it, "value");
        }
    return value;
}

static void assert_json(const struct json *value, const char *text)
{
    CLEANUP(buf_done) struct buf out = {0};

    json_write_sorted(&out, value);
    assert_string_equal(out.data, text);
}

static const struct training_node one_node[] = {{.name = "lab1", .card_count = 2, .cards = {1, 3}}};

static void test_the_guides_variables_are_all_there(void **state)
{
    static const char *const expected[][2] = {
        {"WORLD_SIZE", "1"},
        {"MASTER_ADDR", "127.0.0.1"},
        {"NODE_RANK", "0"},
        {"JOB_UUID", "8f14e45f"},
        {"JOB_RESTARTED", "TRUE"},
        {"RESERVED_MEM", "4096"},
        {"EPOCHS_DONE", "3"},
        {"HEARTBEAT_FREQ", "50"},
        {"NODELIST", "lab1"},
        {"NUM_GPUS", "2"},
        {"NUM_NODES", "1"},
        {"PL_TORCH_DISTRIBUTED_BACKEND", "nccl"},
        {"BATCH_SIZE", "10"},
        {"EPOCHS_TO_BE_DONE", "7"},
        {"TRAINING_SET_SIZE", "10000"},
        {"BERTH_URL", "http://10.88.0.1:5337"},
        {"BERTH_HOST", "10.88.0.1:5337"},
    };
    CLEANUP(arena_done) struct arena arena = {0};
    struct training_run run = {.epochs_done = 3,
                               .num_gpus = 2,
                               .nodes = one_node,
                               .node_count = 1,
                               .mib = 4096,
                               .url = "http://10.88.0.1:5337"};
    struct json *pod =
        pod_of(&arena, "{\"image\":\"i\",\"batchSize\":10,\"trainingSetSize\":10000,\"maxEpochs\":7}", &run);
    const char *port = env_of(pod, "MASTER_PORT");

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(expected); i++)
        assert_string_equal(env_of(pod, expected[i][0]), expected[i][1]);
    assert_non_null(port);
    assert_null(env_of(pod, "BERTH_TOKEN")); /* whoever may read the pod could speak for the job */
    assert_string_equal(env_of(pod, "TF_CONFIG"),
                        arena_printf(&arena,
                                     "{\"cluster\": {\"worker\": [\"127.0.0.1:%d\"]}, \"task\": {\"type\": "
                                     "\"worker\", \"index\": 0}}",
                                     atoi(port) + 1));
    assert_json(
        json_at(pod, "spec.containers.0.resources"),
        "{\"limits\":{\"nvidia.com/gpu\":\"2\"},\"requests\":{\"cpu\":\"200m\",\"nvidia.com/gpu\":\"2\"}}");
    assert_json(json_at(pod, "spec.restartPolicy"), "\"Never\"");
}

static void test_a_run_is_a_restart_once_an_epoch_is_done(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct training_run first_epoch_was_not_done = {.number = 2}, one_was = {.number = 2, .epochs_done = 1};

    (void)state;
    assert_string_equal(
        env_of(pod_of(&arena, "{\"image\":\"i\"}", &first_epoch_was_not_done), "JOB_RESTARTED"), "FALSE");
    assert_string_equal(env_of(pod_of(&arena, "{\"image\":\"i\"}", &one_was), "JOB_RESTARTED"), "TRUE");
}

static void test_a_job_without_numbers_has_the_variables_all_the_same(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct training_run run = {.number = 1};
    struct json *pod = pod_of(&arena, "{\"image\":\"i\"}", &run);

    (void)state;
    assert_string_equal(env_of(pod, "JOB_RESTARTED"), "FALSE");
    assert_string_equal(env_of(pod, "BATCH_SIZE"), "1");
    assert_string_equal(env_of(pod, "EPOCHS_TO_BE_DONE"), "1");
    assert_string_equal(env_of(pod, "TRAINING_SET_SIZE"), "1");
    assert_string_equal(env_of(pod, "NUM_GPUS"), "0");
    assert_string_equal(env_of(pod, "NODELIST"), "localhost");
    assert_string_equal(env_of(pod, "PL_TORCH_DISTRIBUTED_BACKEND"), "gloo");
    assert_null(env_of(pod, "BERTH_URL"));
    assert_null(json_at(pod, "spec.containers.0.command"));
}

static void test_folders_are_mounted_where_scripts_look(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct training_run run = {.datasets = "/home/a/datasets", .library = "/usr/share/berth/python"};
    struct json *pod =
        pod_of(&arena,
               "{\"image\":\"host\",\"scriptPath\":\"/custom/t.py\",\"customDir\":\"/home/a/p\","
               "\"snapshotsDir\":\"/home/a/s\",\"args\":[\"-v\"]}",
               &run);

    (void)state;
    assert_json(json_at(pod, "spec.containers.0.command"), "[\"python3\",\"/custom/t.py\"]");
    assert_json(json_at(pod, "spec.containers.0.args"), "[\"-v\"]");
    assert_json(json_at(pod, "spec.containers.0.workingDir"), "\"/custom\"");
    assert_json(json_at(pod, "spec.containers.0.volumeMounts"),
                "[{\"mountPath\":\"/custom\",\"name\":\"custom\"},{\"mountPath\":\"/"
                "snapshots\",\"name\":\"snapshots\"},"
                "{\"mountPath\":\"/data\",\"name\":\"data\"},{\"mountPath\":\"/opt/berth/python\",\"name\":"
                "\"berth-library\",\"readOnly\":true},{\"mountPath\":\"/dev/shm\",\"name\":\"shm\"}]");
    assert_json(
        json_at(pod, "spec.volumes.1"),
        "{\"hostPath\":{\"path\":\"/home/a/s\",\"type\":\"DirectoryOrCreate\"},\"name\":\"snapshots\"}");
    assert_string_equal(env_of(pod, "PYTHONPATH"), "$(PYTHONPATH):/opt/berth/python");
    pod = pod_of(&arena, "{\"image\":\"lab/x\",\"scriptPath\":\"/w/t.py\"}", &run);
    assert_json(json_at(pod, "spec.containers.0.command"), "[\"python\",\"/w/t.py\"]");
    assert_json(json_at(pod, "spec.volumes.0"), "{\"emptyDir\":{},\"name\":\"snapshots\"}");
}

static void test_own_variables_come_too_but_replace_only_defaults(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct training_run run = {.library = "/l"};
    struct json *pod = pod_of(
        &arena,
        "{\"image\":\"i\",\"env\":[{\"name\":\"A\",\"value\":\"1\"},{\"name\":\"JOB_UUID\",\"value\":\"x\"},"
        "{\"name\":\"HEARTBEAT_FREQ\",\"value\":\"5\"},{\"name\":\"PYTHONPATH\",\"value\":\"/mine\"}]}",
        &run);

    (void)state;
    assert_string_equal(env_of(pod, "A"), "1");
    assert_string_equal(env_of(pod, "JOB_UUID"), "8f14e45f");
    assert_string_equal(env_of(pod, "HEARTBEAT_FREQ"), "5");
    assert_string_equal(env_of(pod, "PYTHONPATH"), "/mine:/opt/berth/python");
}

static void test_several_nodes_find_each_other(void **state)
{
    static const struct training_node nodes[] = {{.name = "a", .address = "10.0.0.1", .card_count = 4},
                                                 {.name = "b", .card_count = 2}};
    CLEANUP(arena_done) struct arena arena = {0};
    struct training_run run = {.num_gpus = 6, .nodes = nodes, .node_count = 2, .rank = 1};
    struct json *pod = pod_of(&arena, "{\"image\":\"i\",\"portMapping\":\"31346:6006\"}", &run);
    int port = atoi(env_of(pod, "MASTER_PORT"));

    (void)state;
    assert_string_equal(env_of(pod, "MASTER_ADDR"), "10.0.0.1");
    assert_string_equal(env_of(pod, "WORLD_SIZE"), "2");
    assert_string_equal(env_of(pod, "NODELIST"), "a,b");
    assert_string_equal(env_of(pod, "TF_CONFIG"),
                        arena_printf(&arena,
                                     "{\"cluster\": {\"worker\": [\"10.0.0.1:%d\", \"b:%d\"]}, \"task\": "
                                     "{\"type\": \"worker\", \"index\": 1}}",
                                     port + 1, port + 1));
    assert_null(json_at(pod, "spec.containers.0.ports")); /* the first has them */
}

static void test_ports_of_the_node_lead_into_the_container(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct training_run run = {.number = 1};
    struct json *pod = pod_of(&arena, "{\"image\":\"i\",\"portMapping\":\"31346:6006, 31347:8888\"}", &run);

    (void)state;
    assert_json(json_at(pod, "spec.containers.0.ports"),
                "[{\"containerPort\":6006,\"hostPort\":31346,\"protocol\":\"TCP\"},"
                "{\"containerPort\":8888,\"hostPort\":31347,\"protocol\":\"TCP\"}]");
}

static void test_cores_are_a_weight_until_a_limit_is_asked_for(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct training_run run = {.number = 1};
    struct json *pod = pod_of(&arena, "{\"image\":\"i\",\"cpu\":4,\"memory\":\"8Gi\"}", &run);

    (void)state;
    assert_json(
        json_at(pod, "spec.containers.0.resources"),
        "{\"limits\":{\"cpu\":4,\"memory\":\"8Gi\"},\"requests\":{\"cpu\":\"100m\",\"memory\":\"8Gi\"}}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_guides_variables_are_all_there),
        cmocka_unit_test(test_a_run_is_a_restart_once_an_epoch_is_done),
        cmocka_unit_test(test_a_job_without_numbers_has_the_variables_all_the_same),
        cmocka_unit_test(test_folders_are_mounted_where_scripts_look),
        cmocka_unit_test(test_own_variables_come_too_but_replace_only_defaults),
        cmocka_unit_test(test_several_nodes_find_each_other),
        cmocka_unit_test(test_ports_of_the_node_lead_into_the_container),
        cmocka_unit_test(test_cores_are_a_weight_until_a_limit_is_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
