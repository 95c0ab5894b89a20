/* What is refused when a training job is submitted, and in which words. */
#include "base/test/test.h"
#include "control/training_check.h"

static int fake_folder(void *arg, const char *path, bool write, struct err *err)
{
    (void)arg;
    (void)write;
    if (starts_with(path, "/closed"))
        return err_set(err, ERR_FORBIDDEN, "ann may not read it");
    return 0;
}

static int fake_file(void *arg, const char *path, struct err *err)
{
    (void)arg;
    if (ends_with(path, "none.py"))
        return err_set(err, ERR_NOT_FOUND, "there is no such file");
    return 0;
}

static int fake_port(void *arg, uint16_t port, struct err *err)
{
    (void)arg;
    if (port == 31346)
        return err_set(err, ERR_EXISTS, "job 'board' of bob has it");
    return 0;
}

static void assert_says(const char *spec, const char *sentence)
{
    static const struct training_facts facts = {.room = {.known = true,
                                                         .gpus = 4,
                                                         .largest_card_mib = 24576,
                                                         .cpu_milli = 8000,
                                                         .cpu_node = "big",
                                                         .mem_mib = 65536,
                                                         .mem_node = "wide"},
                                                .datasets = "/home/ann/datasets",
                                                .snapshots = "/home/ann/.berth/snapshots",
                                                .folder = fake_folder,
                                                .file = fake_file,
                                                .port = fake_port};
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc;
    struct err err = {0};

    assert_int_equal(json_parse(str_from(spec), &arena, &doc, NULL, &err), 0);
    if (!sentence) {
        if (training_check(doc, &facts, &err) < 0)
            fail_msg("%s", err.msg);
        return;
    }
    assert_int_equal(training_check(doc, &facts, &err), -1);
    assert_string_equal(err.msg, sentence);
}

static void test_a_sound_job_passes(void **state)
{
    (void)state;
    assert_says("{}", NULL);
    assert_says(
        "{\"scriptPath\":\"/custom/a.py\",\"customDir\":\"/home/ann/p\",\"estimatedMemoryMiB\":24576,"
        "\"batchSize\":8,\"trainingSetSize\":8,\"estimatedHours\":1.5,\"portMapping\":\"31000:6006\"}",
        NULL);
    assert_says("{\"scriptPath\":\"/home/works/profilerexample.py\"}", NULL); /* in the image */
    assert_says("{\"scriptPath\":\"/data/x.py\"}", NULL);
}

static void test_the_scripts_path_is_the_containers(void **state)
{
    (void)state;
    assert_says("{\"scriptPath\":\"/home/ann/p/t1.py\",\"customDir\":\"/home/ann/p/\"}",
                "--script_path /home/ann/p/t1.py is a path of this machine; in the container that folder is "
                "/custom: give --script_path /custom/t1.py");
    assert_says(
        "{\"scriptPath\":\"/home/ann/datasets/t1.py\"}",
        "--script_path /home/ann/datasets/t1.py is a path of this machine; in the container that folder "
        "is /data: give --script_path /data/t1.py");
    assert_says(
        "{\"scriptPath\":\"/custom/t1.py\"}",
        "--script_path /custom/t1.py is in /custom, where nothing is mounted: add --custom_dir with the "
        "folder that has the script");
    assert_says(
        "{\"scriptPath\":\"./t1.py\"}",
        "--script_path './t1.py' must be a whole path in the container: /custom/t1.py when it lies in "
        "--custom_dir");
    assert_says("{\"scriptPath\":\"/custom/none.py\",\"customDir\":\"/home/ann/p\"}",
                "--script_path /custom/none.py would be /home/ann/p/none.py, but there is no such file");
}

static void test_folders_must_be_open_to_the_submitter(void **state)
{
    (void)state;
    assert_says("{\"customDir\":\"/closed/x\"}", "--custom_dir /closed/x: ann may not read it");
    assert_says("{\"snapshotsDir\":\"/closed\"}", "--snapshots_dir /closed: ann may not read it");
    assert_says("{\"snapshotsDir\":\"s\"}", "--snapshots_dir 's' must be a whole path, from / on");
}

static void test_sizes_must_make_sense(void **state)
{
    (void)state;
    assert_says("{\"estimatedMemoryMiB\":24577}",
                "--estimated_memory 24577 is more than any GPU here has: at most 24576 MiB can be asked for");
    assert_says("{\"batchSize\":9,\"trainingSetSize\":8}",
                "--batch_size 9 is more than --training_set_size 8: an epoch would have no step");
    assert_says("{\"estimatedHours\":1}", "--est_nhours must be more than 1, not 1");
    assert_says("{\"estimatedHours\":0.5}", "--est_nhours must be more than 1, not 0.5");
    assert_says("{\"singleGPU\":true,\"maxGPUs\":2}",
                "--max_gpus 2 goes against --is_single_gpu true: leave one of them out");
}

static void test_what_no_node_could_ever_run_is_refused(void **state)
{
    (void)state;
    assert_says("{\"minGPUs\":4,\"maxGPUs\":4,\"cpu\":\"8\",\"memory\":\"64Gi\"}", NULL);
    assert_says("{\"minGPUs\":1,\"maxGPUs\":9}",
                "--max_gpus 9 is more than the 4 GPUs there are: leave it out to use as many as become free");
    assert_says("{\"env\":[{\"name\":\"NUM_GPUS\",\"value\":\"1\"}]}",
                "--env NUM_GPUS: Berth sets this variable itself; use --max_gpus");
    assert_says("{\"env\":[{\"name\":\"A\",\"value\":\"1\"},{\"name\":\"TF_CONFIG\"}]}",
                "--env TF_CONFIG: Berth sets this variable itself");
    assert_says("{\"minGPUs\":5,\"maxGPUs\":8}", "the job asks for 5 GPUs, but there are only 4");
    assert_says("{\"minGPUs\":5,\"maxGPUs\":0}", NULL);
    assert_says("{\"cpu\":\"8500m\"}", "the job asks for 8.5 CPUs, but the largest node, big, has 8");
    assert_says("{\"memory\":\"900Gi\"}",
                "the job asks for 900.0 GiB of memory, but the largest node, wide, has 64.0 GiB");
}

static void test_without_gpus_the_way_to_run_on_the_cpu_is_told(void **state)
{
    const struct training_facts none = {.room = {.known = true, .cpu_milli = 2000, .mem_mib = 4096}},
                                unknown = {0};
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *gpu, *cpu;
    struct err err = {0};

    (void)state;
    assert_int_equal(json_parse(STR("{\"minGPUs\":1,\"maxGPUs\":1}"), &arena, &gpu, NULL, &err), 0);
    assert_int_equal(json_parse(STR("{\"minGPUs\":0,\"maxGPUs\":0}"), &arena, &cpu, NULL, &err), 0);
    assert_int_equal(training_check(cpu, &none, &err), 0);
    assert_int_equal(training_check(gpu, &unknown, &err), 0);
    assert_int_equal(training_check(gpu, &none, &err), -1);
    assert_string_equal(
        err.msg, "the job asks for 1 GPU, but there are no GPUs here: ask for none to run it on the CPU "
                 "(--gpus 0, maxGPUs: 0), or declare GPUs (berth up --gpus NxMIB)");
}

static void test_ports_must_be_free_and_allowed(void **state)
{
    (void)state;
    assert_says("{\"portMapping\":\"31346:6006\"}",
                "--port_mapping: node port 31346 is taken, choose another: job 'board' of bob has it");
    assert_says(
        "{\"portMapping\":\"80:80\"}",
        "--port_mapping: ports below 1024 are the system's: take a node port from 1024 up instead of 80");
    assert_says("{\"portMapping\":\"31000:1,31000:2\"}", "--port_mapping: node port 31000 is given twice");
    assert_says("{\"portMapping\":\"6006\"}",
                "--port_mapping: '6006' must be nodePort:containerPort, for example 31346:6006");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sound_job_passes),
        cmocka_unit_test(test_the_scripts_path_is_the_containers),
        cmocka_unit_test(test_folders_must_be_open_to_the_submitter),
        cmocka_unit_test(test_sizes_must_make_sense),
        cmocka_unit_test(test_what_no_node_could_ever_run_is_refused),
        cmocka_unit_test(test_without_gpus_the_way_to_run_on_the_cpu_is_told),
        cmocka_unit_test(test_ports_must_be_free_and_allowed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
