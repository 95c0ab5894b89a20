/* mem - memory that is there or the program ends. A daemon that cannot get a few bytes cannot keep a
 * promise either: out of memory is a message on stderr and abort(), never a NULL to check. What users
 * can make grow is bounded by named limits before it is allocated. */
#pragma once

#include <stddef.h>

void *mem_alloc(size_t size) __attribute__((malloc, returns_nonnull));  /* not cleared */
void *mem_zalloc(size_t size) __attribute__((malloc, returns_nonnull)); /* zeroed */
void *mem_realloc(void *ptr, size_t size) __attribute__((returns_nonnull));
void *mem_dup(const void *data, size_t size) __attribute__((returns_nonnull));
char *mem_strdup(const char *s);              /* NULL gives NULL */
char *mem_strndup(const char *s, size_t len); /* NUL-terminated copy of len bytes */
char *mem_printf(const char *fmt, ...) __attribute__((format(printf, 1, 2), returns_nonnull));
/* That end itself, for what other libraries could not allocate. */
void mem_exhausted(void) __attribute__((noreturn, cold));

#define NEW(type) ((type *)mem_zalloc(sizeof(type)))
