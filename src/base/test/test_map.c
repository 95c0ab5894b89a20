#include "base/map.h"
#include "base/test/test.h"

#define MANY 5000

static struct str key_of(char *text, size_t i)
{
    snprintf(text, 32, "key-%zu", i);
    return str_from(text);
}

static void test_set_returns_what_it_replaces(void **state)
{
    CLEANUP(map_free) struct map *map = map_new();
    int a, b;

    (void)state;
    assert_null(map_get(map, STR("x")));
    assert_null(map_remove(map, STR("x")));
    assert_null(map_set(map, STR("x"), &a));
    assert_ptr_equal(map_set(map, STR("x"), &b), &a);
    assert_ptr_equal(map_get(map, STR("x")), &b);
    assert_int_equal(map_len(map), 1);
    assert_ptr_equal(map_remove(map, STR("x")), &b);
    assert_int_equal(map_len(map), 0);
}

static void test_removals_lose_no_other_key(void **state)
{
    CLEANUP(map_free) struct map *map = map_new();
    static int values[MANY];
    char text[32];

    (void)state;
    for (size_t i = 0; i < MANY; i++)
        map_set(map, key_of(text, i), &values[i]);
    for (size_t i = 0; i < MANY; i += 3)
        assert_ptr_equal(map_remove(map, key_of(text, i)), &values[i]);
    for (size_t i = 0; i < MANY; i++)
        assert_ptr_equal(map_get(map, key_of(text, i)), i % 3 ? &values[i] : NULL);
    for (size_t i = 0; i < MANY; i += 3)
        map_set(map, key_of(text, i), &values[i]);
    assert_int_equal(map_len(map), MANY);
}

static void test_iteration_sees_each_once(void **state)
{
    CLEANUP(map_free) struct map *map = map_new();
    static int values[MANY];
    char text[32];
    struct str key;
    void *value;
    size_t at = 0, count = 0;

    (void)state;
    assert_false(map_next(map, &at, &key, &value));
    for (size_t i = 0; i < MANY; i++)
        map_set(map, key_of(text, i), &values[i]);
    at = 0;
    while (map_next(map, &at, &key, &value)) {
        (*(int *)value)++;
        assert_ptr_equal(map_get(map, key), value);
        count++;
    }
    assert_int_equal(count, MANY);
    for (size_t i = 0; i < MANY; i++)
        assert_int_equal(values[i], 1);
}

static void test_keys_are_bytes(void **state)
{
    CLEANUP(map_free) struct map *map = map_new();
    int a, b, c;

    (void)state;
    map_set(map, STR("a\0b"), &a);
    map_set(map, STR("a\0c"), &b);
    map_set(map, STR(""), &c);
    assert_ptr_equal(map_get(map, STR("a\0b")), &a);
    assert_ptr_equal(map_get(map, STR("a\0c")), &b);
    assert_ptr_equal(map_get(map, (struct str){NULL, 0}), &c);
    assert_null(map_get(map, STR("a")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set_returns_what_it_replaces),
        cmocka_unit_test(test_removals_lose_no_other_key),
        cmocka_unit_test(test_iteration_sees_each_once),
        cmocka_unit_test(test_keys_are_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
