/* cleanup - resources released by the scope that declares them.
 *
 *     CLEANUP(free) char *line = NULL;
 *     CLEANUP(queue_free) struct queue *q = queue_new(...);
 *     *ret = TAKE_PTR(q);
 */
#pragma once

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CLEANUP(fn) __attribute__((cleanup(fn##_cleanup_)))

/* Defines what CLEANUP(fn) calls: fn on a value of the given type. */
#define DEFINE_CLEANUP(type, fn)                                                                             \
    static inline void fn##_cleanup_(type *value)                                                            \
    {                                                                                                        \
        fn(*value);                                                                                          \
    }                                                                                                        \
    struct fn##_cleanup_needs_a_semicolon_

/* The pointer, which is NULL afterwards: what was cleaned up is now the taker's. */
#define TAKE_PTR(ptr)                                                                                        \
    __extension__({                                                                                          \
        __typeof__(ptr) taken_ = (ptr);                                                                      \
        (ptr) = NULL;                                                                                        \
        taken_;                                                                                              \
    })

/* The descriptor, which is -1 afterwards. */
static inline int take_fd(int *fd)
{
    int taken = *fd;

    *fd = -1;
    return taken;
}

static inline void free_cleanup_(void *ptr)
{
    free(*(void **)ptr);
}

static inline void fd_close(int fd)
{
    if (fd >= 0)
        close(fd);
}
DEFINE_CLEANUP(int, fd_close);

static inline void file_close(FILE *file)
{
    if (file)
        fclose(file);
}
DEFINE_CLEANUP(FILE *, file_close);

#define ARRAY_LEN(array) (sizeof(array) / sizeof((array)[0]))

/* The struct that holds `member` at ptr. */
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
