/* vec.c - the one function behind the typed macros. */
#include "base/vec.h"

#include <stdint.h>

void *vec_grow_(void *v, size_t *cap, size_t need, size_t size)
{
    size_t more = *cap ? *cap * 2 : 8, bytes;

    if (more < need)
        more = need;
    if (__builtin_mul_overflow(more, size, &bytes))
        abort();
    *cap = more;
    return mem_realloc(v, bytes);
}
