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

/* Under AddressSanitizer every allocation is followed by bytes nobody may touch. */
#if defined(__SANITIZE_ADDRESS__)
#define ARENA_GAP ((size_t)16)
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_GAP ((size_t)16)
#endif
#endif
#ifdef ARENA_GAP
#include <sanitizer/asan_interface.h>
#define ARENA_SHOW(p, size) ASAN_UNPOISON_MEMORY_REGION((p), (size))
#define ARENA_HIDE(p, size) ASAN_POISON_MEMORY_REGION((p), (size))
#else
#define ARENA_GAP           ((size_t)0)
#define ARENA_SHOW(p, size) ((void)0)
#define ARENA_HIDE(p, size) ((void)0)
#endif

void *arena_more_(struct arena *arena, size_t size);
static inline void *arena_alloc(struct arena *arena, size_t size)
{
    size_t need = ((size + 15) & ~(size_t)15) + ARENA_GAP;
    void *p;

    if (need <= (size_t)(arena->end - arena->at)) {
        p = arena->at;
        arena->at += need;
    } else {
        p = arena_more_(arena, need);
    }
    ARENA_SHOW(p, size);
    return p;
}
/* Takes room for about `size` bytes from the heap at once; only in an arena that is empty. */
void arena_expect(struct arena *arena, size_t size);
void *arena_zalloc(struct arena *arena, size_t size);
char *arena_strndup(struct arena *arena, const char *s, size_t len); /* NUL-terminated */
char *arena_strdup(struct arena *arena, const char *s);              /* NULL gives NULL */
char *arena_printf(struct arena *arena, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
