/* arena.c - a list of chunks, the current one first. Chunks grow with what was taken already, so a
 * small document costs one malloc and a large one a few dozen. A request too large for the usual
 * chunk gets its own, put behind the current one, whose rest stays in use. */
#include "base/arena.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

#define CHUNK_FIRST ((size_t)4 << 10)
#define CHUNK_MAX   ((size_t)2 << 20)

struct arena_chunk {
    struct arena_chunk *next;
    size_t size; /* of data */
    _Alignas(16) char data[];
};

static void free_chunks(struct arena_chunk *chunk)
{
    while (chunk) {
        struct arena_chunk *next = chunk->next;

        ARENA_SHOW(chunk->data, chunk->size);
        free(chunk);
        chunk = next;
    }
}

void arena_done(struct arena *arena)
{
    free_chunks(arena->head);
    *arena = (struct arena){0};
}

void arena_reset(struct arena *arena)
{
    struct arena_chunk *head = arena->head;

    if (!head)
        return;
    free_chunks(head->next);
    head->next = NULL;
    ARENA_HIDE(head->data, head->size);
    arena->at = head->data;
    arena->end = head->data + head->size;
    arena->total = sizeof(*head) + head->size;
}

static struct arena_chunk *chunk_new(struct arena *arena, size_t size)
{
    struct arena_chunk *chunk;

    if (size > SIZE_MAX / 2)
        abort();
    chunk = mem_alloc(sizeof(*chunk) + size);
    chunk->size = size;
    ARENA_HIDE(chunk->data, size);
    arena->total += sizeof(*chunk) + size;
    return chunk;
}

void *arena_more_(struct arena *arena, size_t size)
{
    size_t usual = arena->total < CHUNK_FIRST ? CHUNK_FIRST
                   : arena->total > CHUNK_MAX ? CHUNK_MAX
                                              : arena->total;
    struct arena_chunk *chunk;

    usual = (usual & ~(size_t)15) - sizeof(*chunk);
    if (size > usual / 4 && arena->head) {
        chunk = chunk_new(arena, size);
        chunk->next = arena->head->next;
        arena->head->next = chunk;
        return chunk->data;
    }
    chunk = chunk_new(arena, size > usual ? size : usual);
    chunk->next = arena->head;
    arena->head = chunk;
    arena->at = chunk->data + size;
    arena->end = chunk->data + chunk->size;
    return chunk->data;
}

void arena_expect(struct arena *arena, size_t size)
{
    if (arena->head)
        return;
    if (size > CHUNK_MAX)
        size = CHUNK_MAX;
    arena->head = chunk_new(arena, (size + 15) & ~(size_t)15);
    arena->head->next = NULL;
    arena->at = arena->head->data;
    arena->end = arena->head->data + arena->head->size;
}

void *arena_zalloc(struct arena *arena, size_t size)
{
    void *p = arena_alloc(arena, size);

    if (size)
        memset(p, 0, size);
    return p;
}

char *arena_strndup(struct arena *arena, const char *s, size_t len)
{
    char *p = arena_alloc(arena, len + 1);

    if (len)
        memcpy(p, s, len);
    p[len] = '\0';
    return p;
}

char *arena_strdup(struct arena *arena, const char *s)
{
    return s ? arena_strndup(arena, s, strlen(s)) : NULL;
}

char *arena_printf(struct arena *arena, const char *fmt, ...)
{
    char small[256], *p;
    va_list ap, again;
    int n;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(small, sizeof(small), fmt, ap);
    va_end(ap);
    if (n < 0)
        abort(); /* a format mistake of ours */
    p = arena_alloc(arena, (size_t)n + 1);
    if ((size_t)n < sizeof(small))
        memcpy(p, small, (size_t)n + 1);
    else
        vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}
