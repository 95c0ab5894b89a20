/* Exit records and the OCI runtime's words. */
#include "base/test/test.h"
#include "runtime/runtime_internal.h"

static void test_a_record_is_read_back(void **state)
{
    struct record record;
    struct err err = {0};

    (void)state;
    assert_int_equal(
        record_parse(STR("code=137\nsignal=9\noom=2\nstarted=100\nfinished=200\ndropped=7\n"), &record, &err),
        0);
    assert_null(record.failed);
    assert_int_equal(record.how.end, RUNTIME_END_EXITED);
    assert_int_equal(record.how.code, 137);
    assert_int_equal(record.how.signal, 9);
    assert_true(record.how.oom);
    assert_int_equal(record.how.started, 100);
    assert_int_equal(record.how.finished, 200);
    assert_int_equal(record.how.log_dropped, 7);
}

static void test_fields_of_a_newer_shim_are_skipped(void **state)
{
    struct record record;

    (void)state;
    assert_int_equal(record_parse(STR("code=0\ncolour=blue\nsignal=0\n"), &record, NULL), 0);
    assert_int_equal(record.how.code, 0);
}

static void test_a_damaged_record_is_none(void **state)
{
    static const char *const texts[] = {"",         "\n",         "signal=9\n", "code=\n",
                                        "code=x\n", "code=999\n", "code=-1\n"};
    struct record record;
    struct err err;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        err = (struct err){0};
        assert_int_equal(record_parse(str_from(texts[i]), &record, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
    }
}

static void test_a_failed_start_keeps_the_sentence(void **state)
{
    struct record record;
    CLEANUP(free) char *sentence = NULL;

    (void)state;
    assert_int_equal(
        record_parse(STR("failed={\"msg\":\"executable file `x` not found\",\"level\":\"error\"}\n"), &record,
                     NULL),
        0);
    sentence = oci_sentence(str_from(record.failed));
    free(record.failed);
    assert_string_equal(sentence, "executable file `x` not found");
}

static void test_words_that_are_no_json_stay_as_they_are(void **state)
{
    CLEANUP(free) char *sentence = oci_sentence(STR("open the log: no such file"));

    (void)state;
    assert_string_equal(sentence, "open the log: no such file");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_record_is_read_back),
        cmocka_unit_test(test_fields_of_a_newer_shim_are_skipped),
        cmocka_unit_test(test_a_damaged_record_is_none),
        cmocka_unit_test(test_a_failed_start_keeps_the_sentence),
        cmocka_unit_test(test_words_that_are_no_json_stay_as_they_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
