/* Quantities, against what Kubernetes 1.33's resource.Quantity says to the same text. */
#include "base/test/test.h"
#include "objects/quantity.h"

#include <stdio.h>

static void test_canonical_form_keeps_the_family_and_loses_nothing(void **state)
{
    static const char *const cases[][2] = {
        {"0", "0"},
        {"0.5", "500m"},
        {"1", "1"},
        {"1.5", "1500m"},
        {"2000m", "2"},
        {"1500m", "1500m"},
        {"100m", "100m"},
        {"1000", "1k"},
        {"1000000", "1M"},
        {"1000k", "1M"},
        {"00012", "12"},
        {"+5", "5"},
        {"5.", "5"},
        {".5", "500m"},
        {"-0", "0"},
        {"-1.5", "-1500m"},
        {"1n", "1n"},
        {"1000n", "1u"},
        {"1Ki", "1Ki"},
        {"1024Ki", "1Mi"},
        {"1024Mi", "1Gi"},
        {"1.5Gi", "1536Mi"},
        {"1025Ki", "1025Ki"},
        {"0.5Ki", "512"},
        {"0.1Ki", "102400m"},
        {"1.1Ki", "1126400m"},
        {"-1024Ki", "-1Mi"},
        {"4.5Ti", "4608Gi"},
        {"1e3", "1e3"},
        {"1E3", "1e3"},
        {"1000e0", "1e3"},
        {"1.5e3", "1500"},
        {"123e4", "1230e3"},
        {"1e-3", "1e-3"},
        {"1e+3", "1e3"},
        {"1E", "1E"},
        {"12345678901234567890", "12345678901234567890"},
        {"1e20", "100e18"},
        {"1e27", "1e27"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[QUANTITY_TEXT_MAX];
        struct quantity q;

        if (!quantity_parse(str_from(cases[i][0]), &q))
            fail_msg("'%s' is refused", cases[i][0]);
        assert_string_equal(quantity_format(&q, text), cases[i][1]);
    }
}

static void test_what_is_finer_than_a_nano_is_rounded_up(void **state)
{
    static const char *const cases[][2] = {
        {"0.1n", "1n"},   {"0.0000000001", "1n"},          {"1e-10", "1e-9"},    {"3.3e-9", "4e-9"},
        {"-0.1n", "-1n"}, {"1.0000000001", "1000000001n"}, {"0.001Ki", "1024m"}, {"1e-99999", "1e-9"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[QUANTITY_TEXT_MAX];
        struct quantity q;

        assert_true(quantity_parse(str_from(cases[i][0]), &q));
        assert_string_equal(quantity_format(&q, text), cases[i][1]);
    }
}

static void test_what_is_no_quantity_is_refused(void **state)
{
    static const char *const cases[] = {"",     " 1",  "1 ",   "abc", "1.1.1", "1kk", "1ki", "1KI",  "1i",
                                        "1e",   "1ee", "1e3M", "--1", "1_0",   ".",   "+",   "Ki",   "0x10",
                                        "1Kie", "1e-", "1,5",  "NaN", "1 Gi",  "mi",  "1mi", "1e3Ki"};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct quantity q;

        if (quantity_parse(str_from(cases[i]), &q))
            fail_msg("'%s' is accepted", cases[i]);
    }
}

static void test_binary_amounts_are_capped_and_others_saturate(void **state)
{
    char text[QUANTITY_TEXT_MAX];
    struct quantity q;

    (void)state;
    assert_true(quantity_parse(STR("9Ei"), &q));
    assert_string_equal(quantity_format(&q, text), "9223372036854775807");
    assert_true(quantity_parse(STR("99999999999999999999999999999999999999999999"), &q));
    assert_int_equal(quantity_value(&q), INT64_MAX);
    assert_true(quantity_parse(STR("1e9999999"), &q));
    assert_int_equal(quantity_value(&q), INT64_MAX);
    quantity_add(&q, &q);
    assert_int_equal(quantity_milli(&q), INT64_MAX);
    assert_true(quantity_parse(STR("-1e9999999"), &q));
    assert_int_equal(quantity_value(&q), INT64_MIN);
    assert_true(strlen(quantity_format(&q, text)) < QUANTITY_TEXT_MAX);
}

static void test_values_are_rounded_up_to_whole_units(void **state)
{
    struct quantity q;

    (void)state;
    assert_true(quantity_parse(STR("1500m"), &q));
    assert_int_equal(quantity_value(&q), 2);
    assert_int_equal(quantity_milli(&q), 1500);
    assert_true(quantity_parse(STR("1n"), &q));
    assert_int_equal(quantity_value(&q), 1);
    assert_int_equal(quantity_milli(&q), 1);
    assert_true(quantity_parse(STR("2Gi"), &q));
    assert_int_equal(quantity_value(&q), INT64_C(2) << 30);
}

static void test_sums_keep_the_format_of_what_was_there(void **state)
{
    struct quantity a = {0}, b;
    char text[QUANTITY_TEXT_MAX];

    (void)state;
    assert_true(quantity_parse(STR("1Gi"), &b));
    quantity_add(&a, &b);
    quantity_add(&a, &b);
    assert_string_equal(quantity_format(&a, text), "2Gi");
    assert_true(quantity_parse(STR("1048576"), &b));
    quantity_sub(&a, &b);
    assert_string_equal(quantity_format(&a, text), "2047Mi");
    assert_int_equal(quantity_cmp(&a, &b), 1);
    assert_int_equal(quantity_cmp(&b, &a), -1);
    assert_int_equal(quantity_cmp(&b, &b), 0);
}

static void test_json_numbers_are_quantities(void **state)
{
    struct json big = {.type = JSON_BIG, .len = 20, .string = "12345678901234567890"};
    struct json integer = json_of_int(4), real = json_of_real(0.5), text = json_of_string_ref("4Gi"),
                boolean = json_of_bool(true);
    char out[QUANTITY_TEXT_MAX];
    struct quantity q;

    (void)state;
    assert_true(quantity_from_json(&integer, &q));
    assert_string_equal(quantity_format(&q, out), "4");
    assert_true(quantity_from_json(&real, &q));
    assert_string_equal(quantity_format(&q, out), "500m");
    assert_true(quantity_from_json(&text, &q));
    assert_string_equal(quantity_format(&q, out), "4Gi");
    assert_true(quantity_from_json(&big, &q));
    assert_string_equal(quantity_format(&q, out), "12345678901234567890");
    assert_false(quantity_from_json(&boolean, &q));
    assert_false(quantity_from_json(NULL, &q));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical_form_keeps_the_family_and_loses_nothing),
        cmocka_unit_test(test_what_is_finer_than_a_nano_is_rounded_up),
        cmocka_unit_test(test_what_is_no_quantity_is_refused),
        cmocka_unit_test(test_binary_amounts_are_capped_and_others_saturate),
        cmocka_unit_test(test_values_are_rounded_up_to_whole_units),
        cmocka_unit_test(test_sums_keep_the_format_of_what_was_there),
        cmocka_unit_test(test_json_numbers_are_quantities),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
