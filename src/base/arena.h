/* arena - memory that is released all at once: the values of one request, one document, one render.
 * Zero-initialised is empty. Allocations are aligned to 16 bytes and never fail (see mem.h). */
#pragma once

#include "base/str.h"

#include <stdarg.h>

struct arena_chunk;
struct arena {
    struct arena_chunk *head;
    char *at, *end;
    size_t total; /* bytes taken from the heap so far */
};

void arena_done(struct arena *arena);  /* leaves an empty, usable arena */
void arena_reset(struct arena *arena); /* forget everything, keep one chunk for the next use */
static inline void arena_done_cleanup_(struct arena *arena)
{
    arena_done(arena);
}

void *arena_more_(struct arena *arena, size_t size);
static inline void *arena_alloc(struct arena *arena, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    if (size <= (size_t)(arena->end - arena->at)) {
        void *p = arena->at;

        arena->at += size;
        return p;
    }
    return arena_more_(arena, size);
}
void *arena_zalloc(struct arena *arena, size_t size);
char *arena_strndup(struct arena *arena, const char *s, size_t len); /* NUL-terminated */
char *arena_strdup(struct arena *arena, const char *s);              /* NULL gives NULL */
char *arena_printf(struct arena *arena, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
