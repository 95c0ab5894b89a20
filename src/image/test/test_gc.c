/* Which images are collected. */
#include "base/test/test.h"
#include "image/internal.h"

#include <stdio.h>

#define L(c) .digest = "sha256:" c

static const struct image_layer base[] = {{L("base"), .unpacked = 100}};
static const struct image_layer on_base[] = {{L("base"), .unpacked = 100}, {L("x"), .unpacked = 10}};
static const struct image_layer alone[] = {{L("y"), .unpacked = 40}, {L("y"), .unpacked = 40}};
static const struct image a = {.id = "sha256:a", .layers = base, .layers_len = 1};
static const struct image b = {.id = "sha256:b", .layers = on_base, .layers_len = 2};
static const struct image c = {.id = "sha256:c", .layers = alone, .layers_len = 2};

static void test_old_ones_go_whatever_the_disk(void **state)
{
    struct gc_item items[] = {{.image = &a, .used = 10}, {.image = &c, .used = 90}};

    (void)state;
    assert_int_equal(gc_plan(items, 2, 100, 50, 0), 100);
    assert_true(items[0].remove);
    assert_false(items[1].remove);
    assert_int_equal(gc_plan(items, 2, 100, -1, 0), 0);
    assert_false(items[0].remove);
}

static void test_least_recently_used_go_until_enough_is_free(void **state)
{
    struct gc_item items[] = {
        {.image = &b, .used = 30}, {.image = &c, .used = 10}, {.image = &a, .used = 20}};

    (void)state;
    assert_int_equal(gc_plan(items, 3, 100, -1, 30), 40);
    assert_true(items[1].remove);
    assert_false(items[0].remove || items[2].remove);
}

static void test_shared_layers_free_nothing_until_the_last_goes(void **state)
{
    struct gc_item items[] = {
        {.image = &a, .used = 10}, {.image = &b, .used = 20}, {.image = &c, .used = 30}};

    (void)state;
    /* a alone frees nothing, since b has its layer; so b goes, too. */
    assert_int_equal(gc_plan(items, 3, 100, -1, 50), 110);
    assert_true(items[0].remove && items[1].remove);
    assert_false(items[2].remove);
}

static void test_busy_ones_stay(void **state)
{
    struct gc_item items[] = {{.image = &a, .used = 1, .busy = true}, {.image = &b, .used = 2}};

    (void)state;
    assert_int_equal(gc_plan(items, 2, 100, 10, 1000), 10);
    assert_false(items[0].remove);
    assert_true(items[1].remove);
}

static void test_a_clock_that_jumps_ages_nothing(void **state)
{
    const int64_t day = INT64_C(86400) * 1000000000, opened = 20000 * day;

    (void)state;
    assert_int_equal(gc_time(opened + 2 * day, opened, 2 * day), opened + 2 * day);
    assert_int_equal(gc_time(opened + 40 * day, opened, 2 * day), opened + 2 * day);
    assert_int_equal(gc_time(opened - 40 * day, opened, 2 * day),
                     opened - 40 * day); /* nothing is old then */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_old_ones_go_whatever_the_disk),
        cmocka_unit_test(test_least_recently_used_go_until_enough_is_free),
        cmocka_unit_test(test_shared_layers_free_nothing_until_the_last_goes),
        cmocka_unit_test(test_busy_ones_stay),
        cmocka_unit_test(test_a_clock_that_jumps_ages_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
