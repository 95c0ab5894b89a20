/* mem.c - thin wrappers that end the program where malloc would give NULL. */
#include "base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Takes no memory itself: the message is constant and goes straight to the descriptor. */
void mem_exhausted(void)
{
    static const char msg[] = "out of memory\n";
    ssize_t n = write(STDERR_FILENO, msg, sizeof(msg) - 1);

    (void)n;
    abort();
}

void *mem_alloc(size_t size)
{
    void *p = malloc(size ? size : 1);

    if (!p)
        mem_exhausted();
    return p;
}

void *mem_zalloc(size_t size)
{
    void *p = calloc(1, size ? size : 1);

    if (!p)
        mem_exhausted();
    return p;
}

void *mem_realloc(void *ptr, size_t size)
{
    void *p = realloc(ptr, size ? size : 1);

    if (!p)
        mem_exhausted();
    return p;
}

void *mem_dup(const void *data, size_t size)
{
    void *p = mem_alloc(size);

    if (size)
        memcpy(p, data, size);
    return p;
}

char *mem_strdup(const char *s)
{
    return s ? mem_dup(s, strlen(s) + 1) : NULL;
}

char *mem_strndup(const char *s, size_t len)
{
    char *p = mem_alloc(len + 1);

    if (len)
        memcpy(p, s, len);
    p[len] = '\0';
    return p;
}

char *mem_printf(const char *fmt, ...)
{
    va_list ap;
    char *p = NULL;

    va_start(ap, fmt);
    if (vasprintf(&p, fmt, ap) < 0)
        mem_exhausted();
    va_end(ap);
    return p;
}
