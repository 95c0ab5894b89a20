#include "base/test/test.h"
#include "base/vec.h"

static void test_push_insert_remove_pop(void **state)
{
    VEC(int) v = {0};
    int sum = 0;

    (void)state;
    for (int i = 0; i < 100; i++)
        vec_push(&v, i);
    vec_insert(&v, 0, -1);
    vec_insert(&v, v.len, 100);
    assert_int_equal(v.v[0], -1);
    assert_int_equal(v.v[101], 100);
    vec_remove(&v, 0);
    vec_remove(&v, 50);
    assert_int_equal(v.v[50], 51);
    assert_int_equal(vec_pop(&v), 100);
    VEC_EACH(&v, it)
        sum += *it;
    assert_int_equal(sum, 99 * 100 / 2 - 50);
    vec_done(&v);
    assert_int_equal(v.len, 0);
}

static void test_reserve_is_enough(void **state)
{
    VEC(long) v = {0};

    (void)state;
    vec_reserve(&v, 1000);
    assert_true(v.cap >= 1000);
    assert_int_equal(v.len, 0);
    vec_done(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_push_insert_remove_pop),
        cmocka_unit_test(test_reserve_is_enough),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
