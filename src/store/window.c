/* A ring that grows. Bytes are counted with the change that supersedes them: the state before it, and
 * for a deletion the last state as well, since no live object holds that. */
#include "store/window.h"

#include "base/mem.h"

#include <assert.h>

#define RING_MIN 256

static size_t change_bytes(const struct change *change)
{
    return (change->before ? change->before->text_len : 0) +
           (change->op == STORE_DELETED ? change->object->text_len : 0);
}

static struct change *slot(const struct window *window, uint64_t seq)
{
    return &window->ring[seq & (window->cap - 1)];
}

void window_done(struct window *window)
{
    for (uint64_t seq = window->first; seq < window->end; seq++) {
        object_unref(slot(window, seq)->object);
        object_unref(slot(window, seq)->before);
    }
    free(window->ring);
    *window = (struct window){0};
}

static void grow(struct window *window)
{
    struct window grown = *window;

    grown.cap = window->cap ? 2 * window->cap : RING_MIN;
    grown.ring = mem_alloc(grown.cap * sizeof(*grown.ring));
    for (uint64_t seq = window->first; seq < window->end; seq++)
        *slot(&grown, seq) = *slot(window, seq);
    free(window->ring);
    *window = grown;
}

void window_push(struct window *window, struct change change)
{
    if (window->end - window->first == window->cap)
        grow(window);
    *slot(window, window->end++) = change;
    window->bytes += change_bytes(&change);
}

struct change window_pop_last(struct window *window)
{
    struct change change;

    assert(window->end > window->first);
    change = *slot(window, --window->end);
    window->bytes -= change_bytes(&change);
    return change;
}

struct change window_pop_first(struct window *window)
{
    struct change change;

    assert(window->end > window->first);
    change = *slot(window, window->first++);
    window->bytes -= change_bytes(&change);
    return change;
}

uint64_t window_after(const struct window *window, int64_t rv)
{
    uint64_t low = window->first, high = window->end;

    while (low < high) {
        uint64_t mid = low + (high - low) / 2;

        if (slot(window, mid)->rv <= rv)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}
