/* vec - typed arrays that grow.
 *
 *     VEC(struct job *) jobs = {0};
 *     vec_push(&jobs, job);
 *     VEC_EACH (&jobs, it) use(*it);
 *     vec_done(&jobs);
 */
#pragma once

#include "base/mem.h"

#include <stdlib.h>
#include <string.h>

#define VEC(type)                                                                                            \
    struct {                                                                                                 \
        type *v;                                                                                             \
        size_t len, cap;                                                                                     \
    }

void *vec_grow_(void *v, size_t *cap, size_t need, size_t size);

#define vec_reserve(vec, n)                                                                                  \
    ((vec)->cap >= (n) ? (void)0                                                                             \
                       : (void)((vec)->v = vec_grow_((vec)->v, &(vec)->cap, (n), sizeof(*(vec)->v))))
#define vec_push(vec, ...) (vec_reserve(vec, (vec)->len + 1), (vec)->v[(vec)->len++] = (__VA_ARGS__))
/* `at` is evaluated more than once; (vec)->len appends. */
#define vec_insert(vec, at, ...)                                                                             \
    (vec_reserve(vec, (vec)->len + 1),                                                                       \
     memmove(&(vec)->v[(at) + 1], &(vec)->v[at], ((vec)->len - (at)) * sizeof(*(vec)->v)),                   \
     (vec)->v[at] = (__VA_ARGS__), (void)(vec)->len++)
#define vec_remove(vec, at)                                                                                  \
    (memmove(&(vec)->v[at], &(vec)->v[(at) + 1], ((vec)->len - (at)-1) * sizeof(*(vec)->v)), (vec)->len--)
#define vec_pop(vec)  ((vec)->v[--(vec)->len])
#define vec_done(vec) (free((vec)->v), (vec)->v = NULL, (vec)->len = (vec)->cap = 0)
#define VEC_EACH(vec, it)                                                                                    \
    for (__typeof__((vec)->v + 0) it = (vec)->v, it##_end = it ? it + (vec)->len : it; it < it##_end; it++)
