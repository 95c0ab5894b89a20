/* map - strings to pointers, hashed with a key of this process. The map owns copies of its keys and
 * borrows its values. Not ordered; iterate for clean-up or counting, sort for anything shown. */
#pragma once

#include "base/cleanup.h"
#include "base/str.h"

struct map;

struct map *map_new(void);
void map_free(struct map *map); /* NULL is fine */
DEFINE_CLEANUP(struct map *, map_free);
size_t map_len(const struct map *map);
void *map_get(const struct map *map, struct str key); /* NULL when absent */
void *map_set(struct map *map, struct str key,
              void *value); /* returns the value it replaces, or NULL; value is not NULL */
void *map_remove(struct map *map, struct str key); /* returns what was there, or NULL */
/* size_t at = 0; while (map_next(map, &at, &key, &value)) ... ; no changes meanwhile. */
bool map_next(const struct map *map, size_t *at, struct str *key, void **value);
