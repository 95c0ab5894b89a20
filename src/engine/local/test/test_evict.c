#include "base/test/test.h"
#include "engine/local/evict.h"

static void test_disk_is_short_by_share_and_by_size(void **state)
{
    const int64_t gib = INT64_C(1) << 30;

    (void)state;
    assert_true(evict_disk_short(1 * gib, 100 * gib));
    assert_false(evict_disk_short(5 * gib, 100 * gib)); /* 5 %, but plenty */
    assert_false(evict_disk_short(1 * gib, 4 * gib));   /* little, but a quarter */
}

static void test_who_uses_more_than_asked_goes_first(void **state)
{
    const struct evict_pod pods[] = {{.used = 900, .requested = 1000}, {.used = 20, .requested = 10}};

    (void)state;
    assert_int_equal(evict_choose(pods, 2), 1);
}

static void test_the_less_important_goes_first_then_the_largest(void **state)
{
    const struct evict_pod pods[] = {
        {.used = 900, .priority = 5}, {.used = 100}, {.used = 200}, {.used = 0, .priority = -9}};

    (void)state;
    assert_int_equal(evict_choose(pods, 4), 2);
    assert_int_equal(evict_choose(pods, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_disk_is_short_by_share_and_by_size),
        cmocka_unit_test(test_who_uses_more_than_asked_goes_first),
        cmocka_unit_test(test_the_less_important_goes_first_then_the_largest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
