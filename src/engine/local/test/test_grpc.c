#include "base/cleanup.h"
#include "base/test/test.h"
#include "engine/local/grpc.h"

#define SETTINGS "\0\0\0\4\0\0\0\0\0"
#define HEADERS  "\0\0\1\1\4\0\0\0\1\x88"

static enum grpc_state read_all(const char *bytes, size_t len, struct buf *out)
{
    struct grpc grpc = {0};
    enum grpc_state state = grpc_read(&grpc, (struct str){bytes, len}, out);

    grpc_done(&grpc);
    return state;
}

#define READ(bytes, out) read_all(bytes, sizeof(bytes) - 1, out)

static void test_serving_is_well(void **state)
{
    CLEANUP(buf_done) struct buf out = {0};

    (void)state;
    assert_int_equal(READ(SETTINGS HEADERS "\0\0\7\0\0\0\0\0\1\0\0\0\0\2\x08\1", &out), GRPC_SERVING);
    assert_int_equal(out.len, 9); /* settings are acknowledged */
}

static void test_not_serving_is_not(void **state)
{
    CLEANUP(buf_done) struct buf out = {0};

    (void)state;
    assert_int_equal(READ(HEADERS "\0\0\7\0\0\0\0\0\1\0\0\0\0\2\x08\2", &out), GRPC_NOT);
    assert_int_equal(READ(HEADERS "\0\0\5\0\0\0\0\0\1\0\0\0\0\0", &out), GRPC_NOT);
}

static void test_errors_and_other_protocols_are_bad(void **state)
{
    CLEANUP(buf_done) struct buf out = {0};

    (void)state;
    assert_int_equal(READ("\0\0\1\1\5\0\0\0\1\x88", &out), GRPC_BAD); /* trailers alone */
    assert_int_equal(READ("HTTP/1.1 400 Bad Request\r\n", &out), GRPC_BAD);
}

static void test_part_of_an_answer_is_waited_for(void **state)
{
    CLEANUP(buf_done) struct buf out = {0};

    (void)state;
    assert_int_equal(READ(HEADERS "\0\0\7\0\0\0\0\0\1\0\0\0", &out), GRPC_MORE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_serving_is_well),
        cmocka_unit_test(test_not_serving_is_not),
        cmocka_unit_test(test_errors_and_other_protocols_are_bad),
        cmocka_unit_test(test_part_of_an_answer_is_waited_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
