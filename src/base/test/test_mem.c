#include "base/mem.h"
#include "base/test/test.h"

#include <stdlib.h>
#include <string.h>

static void test_zero_bytes_are_an_allocation(void **state)
{
    void *a = mem_alloc(0), *b = mem_dup(NULL, 0);

    (void)state;
    assert_non_null(a);
    assert_non_null(b);
    a = mem_realloc(a, 0);
    assert_non_null(a);
    free(a);
    free(b);
}

static void test_strndup_copies_only_so_much(void **state)
{
    char *s = mem_strndup("abcdef", 3);

    (void)state;
    assert_string_equal(s, "abc");
    free(s);
    assert_null(mem_strdup(NULL));
}

static void test_printf_gives_a_heap_string(void **state)
{
    char *s = mem_printf("%s-%d", "job", 7);

    (void)state;
    assert_string_equal(s, "job-7");
    free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_zero_bytes_are_an_allocation),
        cmocka_unit_test(test_strndup_copies_only_so_much),
        cmocka_unit_test(test_printf_gives_a_heap_string),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
