#include "base/cleanup.h"
#include "base/str.h"
#include "base/test/test.h"

static void test_order_is_by_bytes_then_length(void **state)
{
    (void)state;
    assert_true(str_cmp(STR("a"), STR("b")) < 0);
    assert_true(str_cmp(STR("a"), STR("aa")) < 0);
    assert_true(str_cmp(STR("\xff"), STR("a")) > 0);
    assert_int_equal(str_cmp(STR(""), (struct str){NULL, 0}), 0);
}

static void test_prefix_suffix_case_and_blanks(void **state)
{
    (void)state;
    assert_true(str_ieq(STR("Content-Type"), STR("content-tYPE")));
    assert_false(str_ieq(STR("a["), STR("a{")));
    assert_true(str_starts(STR("abc"), "ab"));
    assert_false(str_starts(STR("a"), "ab"));
    assert_true(str_ends(STR("abc"), "bc"));
    assert_true(str_ends((struct str){NULL, 0}, ""));
    assert_true(starts_with("abc", "a"));
    assert_false(starts_with(NULL, "a"));
    assert_true(ends_with("abc", "c"));
    assert_true(str_is(str_trim(STR(" \t a b\t ")), "a b"));
    assert_true(str_is(str_trim(STR(" \t ")), ""));
}

static void test_split_gives_empty_pieces(void **state)
{
    struct str rest = STR("a,,b,"), part;

    (void)state;
    assert_true(str_split(&rest, ',', &part) && str_is(part, "a"));
    assert_true(str_split(&rest, ',', &part) && str_is(part, ""));
    assert_true(str_split(&rest, ',', &part) && str_is(part, "b"));
    assert_true(str_split(&rest, ',', &part) && str_is(part, ""));
    assert_false(str_split(&rest, ',', &part));
}

static void test_numbers_are_whole_strings_in_range(void **state)
{
    static const char *const bad[] = {"", "-", "+1", " 1", "1 ", "1x", "--1", "9223372036854775808"};
    int64_t n;
    uint64_t u;

    (void)state;
    assert_true(str_to_int(STR("9223372036854775807"), &n) && n == INT64_MAX);
    assert_true(str_to_int(STR("-9223372036854775808"), &n) && n == INT64_MIN);
    assert_false(str_to_int(STR("-9223372036854775809"), &n));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(str_to_int(str_from(bad[i]), &n));
    assert_true(str_to_uint(STR("18446744073709551615"), &u) && u == UINT64_MAX);
    assert_false(str_to_uint(STR("18446744073709551616"), &u));
    assert_false(str_to_uint(STR("-1"), &u));
}

static void test_utf8_refuses_what_the_standard_refuses(void **state)
{
    static const char *const good[] = {"",
                                       "plain ascii, long enough",
                                       "\xc3\xa9",
                                       "\xe2\x82\xac",
                                       "\xf0\x9f\x98\x80",
                                       "\xef\xbf\xbf",
                                       "\xf4\x8f\xbf\xbf",
                                       "\xed\x9f\xbf"};
    static const char *const bad[] = {
        "\x80",         "\xc0\x80",         "\xc1\xbf",         "\xe0\x9f\xbf",
        "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
        "\xc3",         "\xe2\x82",         "\xf0\x9f\x98",     "12345678\xff"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(utf8_valid(str_from(good[i])));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(utf8_valid(str_from(bad[i])));
    assert_int_equal(utf8_valid_len(STR("abc\xffzzz")), 3);
}

static void test_hash_depends_on_every_byte_and_the_length(void **state)
{
    char text[64] = {0};

    (void)state;
    for (size_t len = 0; len < sizeof(text); len++) {
        uint64_t before = str_hash((struct str){text, len});

        assert_true(before == str_hash((struct str){text, len}));
        assert_true(before != str_hash((struct str){text, len + 1}));
        for (size_t i = 0; i < len; i++) {
            text[i] ^= 1;
            assert_true(before != str_hash((struct str){text, len}));
            text[i] ^= 1;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_is_by_bytes_then_length),
        cmocka_unit_test(test_prefix_suffix_case_and_blanks),
        cmocka_unit_test(test_split_gives_empty_pieces),
        cmocka_unit_test(test_numbers_are_whole_strings_in_range),
        cmocka_unit_test(test_utf8_refuses_what_the_standard_refuses),
        cmocka_unit_test(test_hash_depends_on_every_byte_and_the_length),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
