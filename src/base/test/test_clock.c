#include "base/cleanup.h"
#include "base/clock.h"
#include "base/test/test.h"

#include <time.h>

#define SEC(n) ((int64_t)(n)*NSEC_PER_SEC)

static void test_format_agrees_with_the_c_library(void **state)
{
    char ours[CLOCK_TEXT_MAX], theirs[CLOCK_TEXT_MAX];

    (void)state;
    for (int64_t t = INT64_C(-9000000000); t < INT64_C(9200000000); t += 12345677) {
        time_t sec = (time_t)t;
        struct tm tm;
        int64_t back;

        gmtime_r(&sec, &tm);
        strftime(theirs, sizeof(theirs), "%Y-%m-%dT%H:%M:%SZ", &tm);
        assert_string_equal(clock_format(SEC(t), ours), theirs);
        assert_true(clock_parse(str_from(ours), &back));
        assert_int_equal(back, SEC(t));
    }
}

static void test_micro_has_six_digits_and_rounds_down(void **state)
{
    char text[CLOCK_TEXT_MAX];

    (void)state;
    assert_string_equal(clock_format_micro(SEC(1) + 1999, text), "1970-01-01T00:00:01.000001Z");
    assert_string_equal(clock_format_micro(-1, text), "1969-12-31T23:59:59.999999Z");
    assert_string_equal(clock_format(-1, text), "1969-12-31T23:59:59Z");
    clock_format(INT64_MIN, text);
    assert_string_equal(text, "1677-09-21T00:12:43Z");
    assert_string_equal(clock_format(INT64_MAX, text), "2262-04-11T23:47:16Z");
}

static void test_parse_takes_offsets_and_fractions(void **state)
{
    int64_t t;

    (void)state;
    assert_true(clock_parse(STR("1970-01-01T01:00:00+01:00"), &t) && t == 0);
    assert_true(clock_parse(STR("1969-12-31T23:30:00-00:30"), &t) && t == 0);
    assert_true(clock_parse(STR("1970-01-01T00:00:00.5Z"), &t) && t == NSEC_PER_SEC / 2);
    assert_true(clock_parse(STR("1970-01-01T00:00:00.0000000019Z"), &t) && t == 1);
    assert_true(clock_parse(STR("2024-02-29T00:00:00Z"), &t));
}

static void test_parse_refuses_the_rest(void **state)
{
    static const char *const bad[] = {
        "",
        "2026-01-02",
        "2026-01-02T03:04:05",
        "2026-01-02 03:04:05Z",
        "2026-13-02T03:04:05Z",
        "2026-00-02T03:04:05Z",
        "2026-02-29T03:04:05Z",
        "1900-02-29T03:04:05Z",
        "2026-01-32T03:04:05Z",
        "2026-01-02T24:04:05Z",
        "2026-01-02T03:60:05Z",
        "2026-01-02T03:04:61Z",
        "2026-01-02T03:04:05.Z",
        "2026-01-02T03:04:05Zx",
        "2026-01-02T03:04:05+1:00",
        "2026-01-02T03:04:05+24:00",
        "9999-01-02T03:04:05Z",
        "0001-01-01T00:00:00Z",
    };
    int64_t t;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(clock_parse(str_from(bad[i]), &t));
}

static void test_age_is_what_kubectl_prints(void **state)
{
    enum { MIN = 60, HOUR = 3600, DAY = 86400, YEAR = 365 * DAY };
    static const struct {
        int64_t sec;
        const char *text;
    } ages[] = {
        {-2, "<invalid>"},
        {-1, "0s"},
        {0, "0s"},
        {1, "1s"},
        {119, "119s"},
        {120, "2m"},
        {185, "3m5s"},
        {10 * MIN - 1, "9m59s"},
        {10 * MIN + 5, "10m"},
        {3 * HOUR - 1, "179m"},
        {3 * HOUR, "3h"},
        {3 * HOUR + 20 * MIN, "3h20m"},
        {8 * HOUR - 1, "7h59m"},
        {8 * HOUR + 59 * MIN, "8h"},
        {48 * HOUR - 1, "47h"},
        {2 * DAY, "2d"},
        {2 * DAY + 3 * HOUR, "2d3h"},
        {8 * DAY - 1, "7d23h"},
        {8 * DAY + HOUR, "8d"},
        {2 * YEAR - 1, "729d"},
        {2 * YEAR, "2y"},
        {3 * YEAR + 45 * DAY, "3y45d"},
        {INT64_C(8) * YEAR - 1, "7y364d"},
        {INT64_C(8) * YEAR + DAY, "8y"},
    };
    char text[CLOCK_TEXT_MAX];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(ages); i++)
        assert_string_equal(clock_age(SEC(ages[i].sec), text), ages[i].text);
    assert_string_equal(clock_age(-SEC(2) + 1, text), "0s");
}

static void test_seconds_are_added_as_far_as_a_time_goes(void **state)
{
    (void)state;
    assert_true(clock_after(5, 2) == 5 + 2 * NSEC_PER_SEC);
    assert_true(clock_after(5 * NSEC_PER_SEC, -2) == 3 * NSEC_PER_SEC);
    assert_true(clock_after(5, INT64_C(10000000000)) == INT64_MAX);
    assert_true(clock_after(INT64_MAX - 1, 1) == INT64_MAX);
    assert_true(clock_after(5, -INT64_C(10000000000)) == INT64_MIN);
}

static void test_monotonic_does_not_go_back(void **state)
{
    int64_t a = clock_monotonic(), b = clock_monotonic();

    (void)state;
    assert_true(a <= b);
    assert_true(clock_now() > SEC(1600000000));
}

static void test_a_virtual_clock_is_read_until_it_is_put_away(void **state)
{
    const struct clock_virtual clock = {.now = SEC(100), .monotonic = SEC(7)};

    (void)state;
    clock_use(&clock);
    assert_int_equal(clock_now(), SEC(100));
    assert_int_equal(clock_monotonic(), SEC(7));
    clock_use(NULL);
    assert_true(clock_now() > SEC(1600000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format_agrees_with_the_c_library),
        cmocka_unit_test(test_seconds_are_added_as_far_as_a_time_goes),
        cmocka_unit_test(test_micro_has_six_digits_and_rounds_down),
        cmocka_unit_test(test_parse_takes_offsets_and_fractions),
        cmocka_unit_test(test_parse_refuses_the_rest),
        cmocka_unit_test(test_age_is_what_kubectl_prints),
        cmocka_unit_test(test_monotonic_does_not_go_back),
        cmocka_unit_test(test_a_virtual_clock_is_read_until_it_is_put_away),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
