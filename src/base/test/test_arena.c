#include "base/arena.h"
#include "base/cleanup.h"
#include "base/test/test.h"

static void test_every_allocation_is_aligned_and_its_own(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    unsigned char *p[400];

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(p); i++) {
        size_t size = i % 7 == 0 ? i * 300 : i % 40 + 1;

        p[i] = arena_alloc(&arena, size ? size : 1);
        assert_int_equal((uintptr_t)p[i] % 16, 0);
        memset(p[i], (int)(i & 0xff), size);
    }
    for (size_t i = 1; i < ARRAY_LEN(p); i++)
        assert_int_equal(p[i][0], i & 0xff);
}

static void test_reset_keeps_one_chunk(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    size_t kept;

    (void)state;
    arena_reset(&arena);
    for (int i = 0; i < 10000; i++)
        arena_alloc(&arena, 100);
    arena_reset(&arena);
    kept = arena.total;
    assert_true(kept > 0);
    arena_alloc(&arena, 100);
    assert_int_equal(arena.total, kept);
}

static void test_large_allocation_leaves_the_current_chunk_in_use(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    char *a = arena_alloc(&arena, 16);

    (void)state;
    arena_alloc(&arena, 1 << 20);
    assert_ptr_equal(arena_alloc(&arena, 16), a + 16 + ARENA_GAP);
}

static void test_strings(void **state)
{
    CLEANUP(arena_done) struct arena arena = {0};
    char *s;

    (void)state;
    assert_null(arena_strdup(&arena, NULL));
    assert_string_equal(arena_strdup(&arena, "x"), "x");
    assert_string_equal(arena_strndup(&arena, "xyz", 2), "xy");
    assert_string_equal(arena_printf(&arena, "%s%d", "a", 1), "a1");
    s = arena_printf(&arena, "%500d", 1);
    assert_int_equal(strlen(s), 500);
    s = arena_zalloc(&arena, 100);
    for (int i = 0; i < 100; i++)
        assert_int_equal(s[i], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_allocation_is_aligned_and_its_own),
        cmocka_unit_test(test_reset_keeps_one_chunk),
        cmocka_unit_test(test_large_allocation_leaves_the_current_chunk_in_use),
        cmocka_unit_test(test_strings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
