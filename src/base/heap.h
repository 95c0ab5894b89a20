/* heap - a binary min-heap of borrowed items that know their place in it, so that any of them can be
 * removed or moved in O(log n). `before` must be a strict order. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define HEAP_OUT ((size_t)-1) /* place of an item that is in no heap */

struct heap {
    void **v;
    size_t len, cap;
    bool (*before)(const void *a, const void *b);
    size_t place_offset; /* of the size_t in each item that holds its place */
};

void heap_init(struct heap *heap, bool (*before)(const void *a, const void *b), size_t place_offset);
void heap_done(struct heap *heap);
void heap_push(struct heap *heap, void *item);
void *heap_first(const struct heap *heap); /* NULL when empty */
void heap_remove(struct heap *heap, void *item);
void heap_moved(struct heap *heap, void *item); /* its key changed */
