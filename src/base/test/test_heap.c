#include "base/cleanup.h"
#include "base/heap.h"
#include "base/test/test.h"

struct item {
    unsigned key;
    size_t place;
};

static bool before(const void *a, const void *b)
{
    return ((const struct item *)a)->key < ((const struct item *)b)->key;
}

/* The same sequence each time: xorshift. */
static unsigned next(unsigned *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed;
}

static void test_items_come_out_in_order_after_any_changes(void **state)
{
    struct item items[500] = {0};
    struct heap heap;
    unsigned seed = 42, last = 0;
    size_t count = 0;

    (void)state;
    heap_init(&heap, before, offsetof(struct item, place));
    assert_null(heap_first(&heap));
    for (size_t i = 0; i < ARRAY_LEN(items); i++) {
        items[i].key = next(&seed) % 1000;
        heap_push(&heap, &items[i]);
    }
    for (size_t i = 0; i < ARRAY_LEN(items); i += 5) {
        heap_remove(&heap, &items[i]);
        assert_true(items[i].place == HEAP_OUT);
        items[i + 1].key = next(&seed) % 1000;
        heap_moved(&heap, &items[i + 1]);
    }
    for (struct item *item; (item = heap_first(&heap)); count++) {
        assert_true(item->key >= last);
        last = item->key;
        heap_remove(&heap, item);
    }
    assert_int_equal(count, ARRAY_LEN(items) / 5 * 4);
    heap_done(&heap);
}

static void test_done_takes_all_out(void **state)
{
    struct item a = {.key = 1}, b = {.key = 0};
    struct heap heap;

    (void)state;
    heap_init(&heap, before, offsetof(struct item, place));
    heap_push(&heap, &a);
    heap_push(&heap, &b);
    assert_ptr_equal(heap_first(&heap), &b);
    heap_done(&heap);
    assert_true(a.place == HEAP_OUT && b.place == HEAP_OUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_items_come_out_in_order_after_any_changes),
        cmocka_unit_test(test_done_takes_all_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
