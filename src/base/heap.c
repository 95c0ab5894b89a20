/* heap.c - the usual binary heap; every move writes the item's new place into the item. */
#include "base/heap.h"

#include "base/mem.h"
#include "base/vec.h"

#include <assert.h>

static size_t *place_of(const struct heap *heap, void *item)
{
    return (size_t *)(void *)((char *)item + heap->place_offset);
}

static void put(struct heap *heap, size_t at, void *item)
{
    heap->v[at] = item;
    *place_of(heap, item) = at;
}

static void sift_up(struct heap *heap, size_t at, void *item)
{
    while (at > 0 && heap->before(item, heap->v[(at - 1) / 2])) {
        put(heap, at, heap->v[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(heap, at, item);
}

static void sift_down(struct heap *heap, size_t at, void *item)
{
    for (;;) {
        size_t child = 2 * at + 1;

        if (child >= heap->len)
            break;
        if (child + 1 < heap->len && heap->before(heap->v[child + 1], heap->v[child]))
            child++;
        if (!heap->before(heap->v[child], item))
            break;
        put(heap, at, heap->v[child]);
        at = child;
    }
    put(heap, at, item);
}

/* Puts an item that may be too early or too late at `at`. */
static void settle(struct heap *heap, size_t at, void *item)
{
    if (at > 0 && heap->before(item, heap->v[(at - 1) / 2]))
        sift_up(heap, at, item);
    else
        sift_down(heap, at, item);
}

void heap_init(struct heap *heap, bool (*before)(const void *a, const void *b), size_t place_offset)
{
    *heap = (struct heap){.before = before, .place_offset = place_offset};
}

void heap_done(struct heap *heap)
{
    for (size_t i = 0; i < heap->len; i++)
        *place_of(heap, heap->v[i]) = HEAP_OUT;
    vec_done(heap);
}

void heap_push(struct heap *heap, void *item)
{
    vec_push(heap, item);
    sift_up(heap, heap->len - 1, item);
}

void *heap_first(const struct heap *heap)
{
    return heap->len ? heap->v[0] : NULL;
}

void heap_remove(struct heap *heap, void *item)
{
    size_t at = *place_of(heap, item);
    void *last;

    assert(at < heap->len && heap->v[at] == item);
    last = vec_pop(heap);
    *place_of(heap, item) = HEAP_OUT;
    if (last != item)
        settle(heap, at, last);
}

void heap_moved(struct heap *heap, void *item)
{
    size_t at = *place_of(heap, item);

    assert(at < heap->len && heap->v[at] == item);
    settle(heap, at, item);
}
