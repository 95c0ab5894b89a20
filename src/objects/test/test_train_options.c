/* The options of run-scheduler: names, types, and what is said about bad values. */
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/test/test.h"
#include "objects/train_options.h"

static void assert_read(const char *body, const char *spec)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct train_request request;
    struct json *doc;
    struct err err = {0};

    assert_int_equal(json_parse(str_from(body), &arena, &doc, NULL, &err), 0);
    if (train_request_read(&arena, doc, &request, &err) < 0)
        fail_msg("%s", err.msg);
    json_write_sorted(&text, request.spec);
    assert_string_equal(text.data, spec);
}

static void assert_refused(const char *body, const char *sentence)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct train_request request;
    struct json *doc;
    struct err err = {0};

    assert_int_equal(json_parse(str_from(body), &arena, &doc, NULL, &err), 0);
    assert_int_equal(train_request_read(&arena, doc, &request, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_string_equal(err.msg, sentence);
}

static void test_the_guides_options_make_a_spec(void **state)
{
    (void)state;
    assert_read(
        "{\"job_name\":\"a\",\"image_name\":\"img\",\"script_path\":\"/custom/t.py\",\"custom_dir\":\"/h/a\","
        "\"batch_size\":\"32\",\"training_set_size\":1000,\"max_epochs\":\"5\",\"is_single_gpu\":\"True\","
        "\"disable_gpu_sharing\":\"FALSE\",\"estimated_memory\":\"4096\",\"est_nhours\":\"1.5\"}",
        "{\"batchSize\":32,\"customDir\":\"/h/a\",\"disableSharing\":false,\"estimatedHours\":1.5,"
        "\"estimatedMemoryMiB\":4096,\"image\":\"img\",\"maxEpochs\":5,\"scriptPath\":\"/custom/t.py\","
        "\"singleGPU\":true,\"trainingSetSize\":1000}");
}

static void test_the_older_names_of_submit_do_too(void **state)
{
    (void)state;
    assert_read(
        "{\"jobName\":\"a\",\"dockerImage\":\"i\",\"scriptPath\":\"/s\",\"directoryToMount\":\"/d\","
        "\"batchSize\":1,\"trainingSetSize\":2,\"maxEpochs\":3,\"isSingleGPU\":true,"
        "\"disableGPUSharing\":true,\"estimatedMemory\":5,\"username\":\"u\"}",
        "{\"batchSize\":1,\"customDir\":\"/d\",\"disableSharing\":true,\"estimatedMemoryMiB\":5,"
        "\"image\":\"i\",\"maxEpochs\":3,\"scriptPath\":\"/s\",\"singleGPU\":true,\"trainingSetSize\":2}");
}

static void test_a_spec_is_a_start_that_options_change(void **state)
{
    (void)state;
    assert_read(
        "{\"spec\":{\"image\":\"i\",\"maxEpochs\":1,\"later\":2},\"max_epochs\":4,\"env\":[\"A=b=c\"],"
        "\"max-gpus\":2,\"priority\":\"0-3\",\"est_nhours\":\"\"}",
        "{\"env\":[{\"name\":\"A\",\"value\":\"b=c\"}],\"image\":\"i\",\"later\":2,\"maxEpochs\":4,"
        "\"maxGPUs\":2,\"priority\":-3}");
    assert_read("{}", "{\"image\":\"host\"}");
}

static void test_bad_values_are_named_with_what_they_should_be(void **state)
{
    (void)state;
    assert_refused("{\"batch_size\":\"many\"}", "--batch_size must be a whole number, not 'many'");
    assert_refused("{\"max_epochs\":0}", "--max_epochs must be at least 1, not 0");
    assert_refused("{\"is_single_gpu\":\"maybe\"}", "--is_single_gpu must be true or false, not 'maybe'");
    assert_refused("{\"est_nhours\":1}",
                   "--est_nhours must be more than 1, not 1: give the hours generously, the first epoch "
                   "corrects them");
    assert_refused("{\"est_nhours\":\"nan\"}", "--est_nhours must be a number, not 'nan'");
    assert_refused("{\"image_name\":7}", "--image_name cannot be a number");
    assert_refused("{\"cpu\":\"lots\"}", "--cpu must be an amount such as 2, 500m or 4Gi, not 'lots'");
    assert_refused("{\"env\":\"A\"}", "--env must be NAME=VALUE, not 'A'");
    assert_refused("{\"bach_size\":7}",
                   "there is no option 'bach_size': see run-scheduler --help for those there are");
}

static void test_names_of_experiments_become_names_of_objects(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};

    (void)state;
    assert_string_equal(train_object_name(&arena, "My Exp_01 (b)"), "my-exp-01-b");
    assert_string_equal(train_object_name(&arena, "--"), "");
    assert_string_equal(train_object_name(&arena, NULL), "");
    assert_int_equal(
        strlen(train_object_name(&arena, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
                                         "aaaaaaaaaa")),
        TRAIN_NAME_MAX);
}

static void test_a_spec_can_be_typed_again(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct json *spec;
    struct err err = {0};

    (void)state;
    assert_int_equal(json_parse(STR("{\"image\":\"host\",\"customDir\":\"/a b/it's\",\"maxEpochs\":3,"
                                    "\"estimatedHours\":2.0,\"env\":[{\"name\":\"A\",\"value\":\"1\"}]}"),
                                &arena, &spec, NULL, &err),
                     0);
    train_command_line(&text, spec, "net");
    assert_string_equal(text.data,
                        "run-scheduler --image_name host --custom_dir '/a b/it'\\''s' --max_epochs 3 "
                        "--est_nhours 2 --env A=1 net");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_guides_options_make_a_spec),
        cmocka_unit_test(test_the_older_names_of_submit_do_too),
        cmocka_unit_test(test_a_spec_is_a_start_that_options_change),
        cmocka_unit_test(test_bad_values_are_named_with_what_they_should_be),
        cmocka_unit_test(test_names_of_experiments_become_names_of_objects),
        cmocka_unit_test(test_a_spec_can_be_typed_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
