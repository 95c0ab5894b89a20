#include "base/buf.h"
#include "base/test/test.h"

static void test_grows_and_stays_terminated(void **state)
{
    CLEANUP(buf_done) struct buf buf = {0};

    (void)state;
    for (int i = 0; i < 1000; i++) {
        buf_putc(&buf, 'x');
        buf_puts(&buf, "yz");
        assert_int_equal(strlen(buf.data), buf.len);
    }
    assert_int_equal(buf.len, 3000);
}

static void test_printf_fits_any_length(void **state)
{
    CLEANUP(buf_done) struct buf buf = {0};

    (void)state;
    buf_printf(&buf, "%200d|", 1);
    buf_printf(&buf, "%63d|", 2);
    buf_printf(&buf, "%s", "");
    assert_int_equal(buf.len, 265);
    assert_int_equal(strlen(buf.data), 265);
    assert_true(str_ends(buf_view(&buf), " 2|"));
}

static void test_int_writes_the_extremes(void **state)
{
    CLEANUP(buf_done) struct buf buf = {0};

    (void)state;
    buf_int(&buf, INT64_MIN);
    buf_putc(&buf, ' ');
    buf_int(&buf, INT64_MAX);
    buf_putc(&buf, ' ');
    buf_int(&buf, 0);
    buf_putc(&buf, ' ');
    buf_int(&buf, -10);
    assert_string_equal(buf.data, "-9223372036854775808 9223372036854775807 0 -10");
}

static void test_drop_removes_from_the_front(void **state)
{
    CLEANUP(buf_done) struct buf buf = {0};

    (void)state;
    buf_drop(&buf, 3);
    buf_puts(&buf, "abcdef");
    buf_drop(&buf, 2);
    assert_string_equal(buf.data, "cdef");
    buf_drop(&buf, 99);
    assert_string_equal(buf.data, "");
    assert_int_equal(buf.len, 0);
}

static void test_take_gives_a_string_even_when_empty(void **state)
{
    struct buf buf = {0};
    char *s = buf_take(&buf);

    (void)state;
    assert_string_equal(s, "");
    free(s);
    buf_puts(&buf, "x");
    s = buf_take(&buf);
    assert_string_equal(s, "x");
    assert_null(buf.data);
    free(s);
}

static void test_base64_both_ways(void **state)
{
    static const char *const pairs[][2] = {{"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"\xff\xfe", "//4="}};
    CLEANUP(buf_done) struct buf buf = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        buf_clear(&buf);
        buf_base64(&buf, str_from(pairs[i][0]));
        assert_string_equal(buf.data, pairs[i][1]);
        buf_clear(&buf);
        assert_true(buf_base64_decode(&buf, str_from(pairs[i][1])));
        assert_string_equal(buf.data, pairs[i][0]);
    }
    buf_clear(&buf);
    assert_true(buf_base64_decode(&buf, STR("Zm9v\nYg==\r\n")));
    assert_string_equal(buf.data, "foob");
}

static void test_base64_refuses_other_text(void **state)
{
    static const char *const bad[] = {
        "Z", "Zg", "Zg=", "Zg===", "Zg==Zg==", "=Zg=", "Zh==", "Zm9=", "Zm9 ", "Zm-_", "===="};
    CLEANUP(buf_done) struct buf buf = {0};

    (void)state;
    buf_puts(&buf, "kept");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(buf_base64_decode(&buf, str_from(bad[i])));
        assert_string_equal(buf.data, "kept");
    }
}

static void test_url_escapes_both_ways(void **state)
{
    CLEANUP(buf_done) struct buf buf = {0};
    CLEANUP(buf_done) struct buf back = {0};

    (void)state;
    buf_url_encode(&buf, STR("a b/c?~-._\xc3\xa9"));
    assert_string_equal(buf.data, "a%20b%2Fc%3F~-._%C3%A9");
    assert_true(buf_url_decode(&back, buf_view(&buf), false));
    assert_string_equal(back.data, "a b/c?~-._\xc3\xa9");
    buf_clear(&back);
    assert_true(buf_url_decode(&back, STR("a+b%2b"), true));
    assert_string_equal(back.data, "a b+");
    assert_false(buf_url_decode(&back, STR("%"), false));
    assert_false(buf_url_decode(&back, STR("%4"), false));
    assert_false(buf_url_decode(&back, STR("%zz"), false));
    assert_false(buf_url_decode(&back, STR("x%00"), false));
    assert_string_equal(back.data, "a b+");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grows_and_stays_terminated),
        cmocka_unit_test(test_printf_fits_any_length),
        cmocka_unit_test(test_int_writes_the_extremes),
        cmocka_unit_test(test_drop_removes_from_the_front),
        cmocka_unit_test(test_take_gives_a_string_even_when_empty),
        cmocka_unit_test(test_base64_both_ways),
        cmocka_unit_test(test_base64_refuses_other_text),
        cmocka_unit_test(test_url_escapes_both_ways),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
