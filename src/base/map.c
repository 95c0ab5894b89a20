/* map.c - open addressing with linear probing; a removal moves the followers up, so there are no
 * tombstones. Slots keep the hash: probing compares it first and growing need not hash again. */
#include "base/map.h"

#include "base/mem.h"

#define SLOTS_FIRST 16 /* a power of two, as every size after it */

struct slot {
    uint64_t hash;
    char *key; /* ours */
    size_t key_len;
    void *value; /* NULL: empty slot */
};

struct map {
    struct slot *slots; /* NULL until the first entry */
    size_t mask, len;
};

struct map *map_new(void)
{
    return NEW(struct map);
}

void map_free(struct map *map)
{
    if (!map)
        return;
    for (size_t i = 0; map->slots && i <= map->mask; i++)
        free(map->slots[i].key);
    free(map->slots);
    free(map);
}

size_t map_len(const struct map *map)
{
    return map->len;
}

/* The slot that holds the key, or the empty one where it would go. */
static struct slot *find(const struct map *map, struct str key, uint64_t hash)
{
    for (size_t i = hash & map->mask;; i = (i + 1) & map->mask) {
        struct slot *slot = &map->slots[i];

        if (!slot->value)
            return slot;
        if (slot->hash == hash && str_eq((struct str){slot->key, slot->key_len}, key))
            return slot;
    }
}

void *map_get(const struct map *map, struct str key)
{
    return map->len ? find(map, key, str_hash(key))->value : NULL;
}

static void resize(struct map *map, size_t size)
{
    struct slot *old = map->slots;
    size_t old_size = old ? map->mask + 1 : 0;

    map->slots = mem_zalloc(size * sizeof(*map->slots));
    map->mask = size - 1;
    for (size_t i = 0; i < old_size; i++) {
        size_t at = old[i].hash & map->mask;

        if (!old[i].value)
            continue;
        while (map->slots[at].value)
            at = (at + 1) & map->mask;
        map->slots[at] = old[i];
    }
    free(old);
}

void *map_set(struct map *map, struct str key, void *value)
{
    uint64_t hash = str_hash(key);
    struct slot *slot;
    void *old;

    if (!map->slots)
        resize(map, SLOTS_FIRST);
    else if ((map->len + 1) * 4 > (map->mask + 1) * 3)
        resize(map, (map->mask + 1) * 2);
    slot = find(map, key, hash);
    old = slot->value;
    if (!old) {
        *slot = (struct slot){.hash = hash, .key = mem_strndup(key.s, key.len), .key_len = key.len};
        map->len++;
    }
    slot->value = value;
    return old;
}

/* Fills the hole with the next entry that may move there: one whose home is not between hole and it. */
static void close_hole(struct map *map, size_t hole)
{
    for (size_t i = (hole + 1) & map->mask; map->slots[i].value; i = (i + 1) & map->mask) {
        size_t home = map->slots[i].hash & map->mask;

        if (((i - home) & map->mask) < ((i - hole) & map->mask))
            continue;
        map->slots[hole] = map->slots[i];
        hole = i;
    }
    map->slots[hole] = (struct slot){0};
}

void *map_remove(struct map *map, struct str key)
{
    struct slot *slot;
    void *old;

    if (!map->len)
        return NULL;
    slot = find(map, key, str_hash(key));
    old = slot->value;
    if (!old)
        return NULL;
    free(slot->key);
    map->len--;
    close_hole(map, (size_t)(slot - map->slots));
    return old;
}

bool map_next(const struct map *map, size_t *at, struct str *key, void **value)
{
    for (size_t i = *at; map->slots && i <= map->mask; i++) {
        if (!map->slots[i].value)
            continue;
        if (key)
            *key = (struct str){map->slots[i].key, map->slots[i].key_len};
        if (value)
            *value = map->slots[i].value;
        *at = i + 1;
        return true;
    }
    return false;
}
