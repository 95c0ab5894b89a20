/* Subnets and the addresses handed out of them. */
#include "base/test/test.h"
#include "podnet/addr.h"

static void test_subnet_is_read(void **state)
{
    struct subnet s;
    struct err err = {0};

    (void)state;
    assert_int_equal(subnet_parse("10.88.0.0/16", &s, &err), 0);
    assert_int_equal(s.base, 0x0a580000);
    assert_int_equal(s.prefix, 16);
}

static void test_what_is_no_subnet_is_refused(void **state)
{
    static const char *const bad[] = {
        "",           "10.88.0.0",    "10.88.0.0/",    "10.88.0/16",   "10.88.0.1/16",
        "10.0.0.0/8", "10.88.0.0/29", "10.88.0.0/16x", "::/16",        "/16",
        "a.b.c.d/16", "10.88.0.0/-1", "300.1.1.0/24",  "10.88.0.0/ 16"};
    struct subnet s;

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err err = {0};

        assert_int_equal(subnet_parse(bad[i], &s, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
    }
}

static void test_subnets_overlap_when_one_holds_the_other(void **state)
{
    struct subnet wide = {0x0a000000, 8}, narrow = {0x0a580000, 16}, other = {0x0a590000, 16};

    (void)state;
    assert_true(subnet_overlaps(&wide, &narrow));
    assert_true(subnet_overlaps(&narrow, &wide));
    assert_false(subnet_overlaps(&narrow, &other));
}

static void test_pool_gives_each_address_once_and_none_of_the_special_ones(void **state)
{
    struct subnet s = {0x0a580000, 28};
    struct addr_pool pool;
    uint32_t ip, seen = 0;

    (void)state;
    addr_pool_init(&pool, &s);
    for (int i = 0; i < 13; i++) {
        assert_true(addr_pool_take(&pool, &ip));
        assert_in_range(ip - s.base, 2, 14);
        assert_false(seen & 1U << (ip - s.base));
        seen |= 1U << (ip - s.base);
    }
    assert_false(addr_pool_take(&pool, &ip));
    addr_pool_done(&pool);
}

static void test_address_given_back_rests_while_others_are_free(void **state)
{
    struct subnet s = {0x0a580000, 28};
    struct addr_pool pool;
    uint32_t first, ip;

    (void)state;
    addr_pool_init(&pool, &s);
    assert_true(addr_pool_take(&pool, &first));
    addr_pool_give(&pool, first);
    for (int i = 0; i < 12; i++) {
        assert_true(addr_pool_take(&pool, &ip));
        assert_int_not_equal(ip, first);
    }
    assert_true(addr_pool_take(&pool, &ip));
    assert_int_equal(ip, first);
    addr_pool_done(&pool);
}

static void test_claimed_address_is_not_handed_out(void **state)
{
    struct subnet s = {0x0a580000, 28};
    struct addr_pool pool;
    uint32_t ip;

    (void)state;
    addr_pool_init(&pool, &s);
    assert_true(addr_pool_claim(&pool, s.base + 2));
    assert_false(addr_pool_claim(&pool, s.base + 2));
    assert_false(addr_pool_claim(&pool, s.base + 1));  /* the bridge */
    assert_false(addr_pool_claim(&pool, s.base + 15)); /* broadcast */
    assert_false(addr_pool_claim(&pool, s.base + 16)); /* not in it */
    assert_true(addr_pool_take(&pool, &ip));
    assert_int_equal(ip, s.base + 3);
    addr_pool_done(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_subnet_is_read),
        cmocka_unit_test(test_what_is_no_subnet_is_refused),
        cmocka_unit_test(test_subnets_overlap_when_one_holds_the_other),
        cmocka_unit_test(test_pool_gives_each_address_once_and_none_of_the_special_ones),
        cmocka_unit_test(test_address_given_back_rests_while_others_are_free),
        cmocka_unit_test(test_claimed_address_is_not_handed_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
