/* values - the small named values of a store, sorted by table and key. */
#pragma once

#include "base/str.h"
#include "base/vec.h"

struct value {
    char *table, *key;
    char *data; /* NUL-terminated */
    size_t len;
};

/* Zero-initialised is empty. */
struct values {
    VEC(struct value) sorted;
};

void values_done(struct values *values);
struct str values_get(const struct values *values, const char *table,
                      const char *key); /* {NULL, 0}: absent */
/* Sets, or removes where value.s is NULL. */
void values_set(struct values *values, const char *table, const char *key, struct str value);
void values_each(const struct values *values, const char *table,
                 void (*fn)(void *arg, const char *key, struct str value), void *arg);
