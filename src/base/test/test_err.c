#include "base/err.h"
#include "base/str.h"
#include "base/test/test.h"

#include <errno.h>

static void test_set_fills_and_fails(void **state)
{
    struct err err = {.sys = 5};

    (void)state;
    assert_int_equal(err_set(&err, ERR_LIMIT, "queue '%s' is full", "gpu"), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_int_equal(err.sys, 0);
    assert_string_equal(err.msg, "queue 'gpu' is full");
}

static void test_errno_chooses_the_code(void **state)
{
    struct err err = {0};

    (void)state;
    err_errno(&err, ENOENT, "open '%s'", "/x");
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_string_equal(err.msg, "open '/x': No such file or directory");
    err_errno(&err, EPERM, "x");
    assert_int_equal(err.code, ERR_FORBIDDEN);
    err_errno(&err, EEXIST, "x");
    assert_int_equal(err.code, ERR_EXISTS);
    err_errno(&err, EIO, "x");
    assert_int_equal(err.code, ERR_SYSTEM);
    assert_int_equal(err.sys, EIO);
}

static void test_prefix_goes_in_front_and_keeps_the_code(void **state)
{
    struct err err = {0};

    (void)state;
    err_set(&err, ERR_INVALID, "bad");
    assert_int_equal(err_prefix(&err, "%s:%d", "file", 3), -1);
    assert_string_equal(err.msg, "file:3: bad");
    assert_int_equal(err.code, ERR_INVALID);
}

static void test_message_may_quote_the_old_one(void **state)
{
    struct err err = {0};

    (void)state;
    err_set(&err, ERR_INVALID, "inner");
    err_set(&err, ERR_INTERNAL, "outer (%s)", err.msg);
    assert_string_equal(err.msg, "outer (inner)");
}

static void test_long_messages_are_cut_between_characters(void **state)
{
    struct err err = {0};
    char text[ERR_MSG_MAX * 2];

    (void)state;
    for (size_t i = 0; i + 2 < sizeof(text); i += 2)
        memcpy(text + i, "\xc3\xa9", 3);
    err_set(&err, ERR_INVALID, "%s", text);
    assert_true(strlen(err.msg) >= ERR_MSG_MAX - 3);
    assert_true(utf8_valid(str_from(err.msg)));
    err_prefix(&err, "x%s", text);
    assert_true(utf8_valid(str_from(err.msg)));
}

static void test_null_err_is_fine(void **state)
{
    (void)state;
    assert_int_equal(err_set(NULL, ERR_INVALID, "x"), -1);
    assert_int_equal(err_errno(NULL, EIO, "x"), -1);
    assert_int_equal(err_prefix(NULL, "x"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set_fills_and_fails),
        cmocka_unit_test(test_errno_chooses_the_code),
        cmocka_unit_test(test_prefix_goes_in_front_and_keeps_the_code),
        cmocka_unit_test(test_message_may_quote_the_old_one),
        cmocka_unit_test(test_long_messages_are_cut_between_characters),
        cmocka_unit_test(test_null_err_is_fine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
