/* window - the latest changes of a store, oldest first, with the state before each. A change is known
 * by its sequence number, which goes up by one; the first numbers leave as the window is trimmed. */
#pragma once

#include "objects/object.h"
#include "store/store.h"

struct change {
    enum store_op op;
    int64_t rv;
    struct object *object; /* the state after; of a deletion: the last state */
    struct object *before; /* NULL for ADDED */
};

/* Zero-initialised is empty. Holds a reference to every state in it. */
struct window {
    struct change *ring;
    size_t cap;          /* power of two */
    uint64_t first, end; /* sequence numbers: [first, end) is there */
    size_t bytes;        /* text of states that live objects do not have any more */
};

void window_done(struct window *window);
void window_push(struct window *window, struct change change); /* takes over both references */
struct change window_pop_last(struct window *window);          /* gives both references */
struct change window_pop_first(struct window *window);
static inline const struct change *window_at(const struct window *window, uint64_t seq)
{
    return &window->ring[seq & (window->cap - 1)];
}
/* First change past revision rv; window->end when there is none. */
uint64_t window_after(const struct window *window, int64_t rv);
