/* json.c - the tree: asking, making, changing. Reading is in json_read.c, writing in json_write.c.
 *
 * An object with more than JSON_HASH_ABOVE members carries an index: a table of 1 + place, open
 * addressing, at most half full. Whoever changes the members keeps it right; a table entry whose place
 * is not below the object's len is ignored, so a copied struct that still has the old len stays sane. */
#include "base/json.h"

#include "base/json_build.h"
#include "base/mem.h"

#include <assert.h>
#include <stdio.h>

#define CAP_FIRST 4

static struct str member_key(const struct json_member *member)
{
    return (struct str){member->key, member->key_len};
}

/* --- the index of large objects --- */

static void index_add(struct json_members *members, uint32_t place)
{
    uint32_t at = (uint32_t)str_hash(member_key(&members->v[place])) & members->index_mask;

    while (members->index[at])
        at = (at + 1) & members->index_mask;
    members->index[at] = place + 1;
}

/* Fills the table that is there anew. */
static void index_refill(struct json_members *members, uint32_t len)
{
    if (!members->index_mask)
        return;
    memset(members->index, 0, ((size_t)members->index_mask + 1) * sizeof(*members->index));
    for (uint32_t i = 0; i < len; i++)
        index_add(members, i);
}

/* Takes the entry of a place out, and moves the places behind it up by one. Called before the members
 * themselves move. */
static void index_remove(struct json_members *members, uint32_t place)
{
    uint32_t mask = members->index_mask, *index = members->index;
    uint32_t hole = (uint32_t)str_hash(member_key(&members->v[place])) & mask;

    while (index[hole] != place + 1) {
        if (!index[hole])
            return; /* two copies of one struct were both changed */
        hole = (hole + 1) & mask;
    }
    /* Followers whose home is not between the hole and them fill it, so that probing finds them. */
    for (uint32_t at = (hole + 1) & mask; index[at]; at = (at + 1) & mask) {
        uint32_t home = (uint32_t)str_hash(member_key(&members->v[index[at] - 1])) & mask;

        if (((at - home) & mask) < ((at - hole) & mask))
            continue;
        index[hole] = index[at];
        hole = at;
    }
    index[hole] = 0;
    for (size_t at = 0; at <= mask; at++)
        index[at] -= index[at] > place;
}

/* An empty table with room for cap members, where so many need one. */
static void index_make(struct arena *arena, struct json_members *members, uint32_t cap)
{
    size_t size = 2 * JSON_HASH_ABOVE;

    members->index_mask = 0;
    members->index = NULL;
    if (cap <= JSON_HASH_ABOVE)
        return;
    while (size < (size_t)cap * 2)
        size *= 2;
    members->index = arena_zalloc(arena, size * sizeof(*members->index));
    members->index_mask = (uint32_t)(size - 1);
}

/* The place of the key, or len. */
static uint32_t find_member(const struct json_members *members, uint32_t len, struct str key)
{
    if (len <= JSON_HASH_ABOVE || !members->index_mask) {
        for (uint32_t i = 0; i < len; i++)
            if (str_eq(member_key(&members->v[i]), key))
                return i;
        return len;
    }
    for (uint32_t at = (uint32_t)str_hash(key) & members->index_mask; members->index[at];
         at = (at + 1) & members->index_mask) {
        uint32_t place = members->index[at] - 1;

        if (place < len && str_eq(member_key(&members->v[place]), key))
            return place;
    }
    return len;
}

/* --- building from parts --- */

static struct json_items *items_new(struct arena *arena, size_t cap)
{
    struct json_items *items;

    if (cap > UINT32_MAX)
        abort(); /* texts are limited far below */
    items = arena_alloc(arena, sizeof(*items) + cap * sizeof(items->v[0]));
    items->cap = (uint32_t)cap;
    return items;
}

static struct json_members *members_new(struct arena *arena, size_t cap)
{
    struct json_members *members;

    if (cap > INT32_MAX)
        abort();
    members = arena_alloc(arena, sizeof(*members) + cap * sizeof(members->v[0]));
    members->cap = (uint32_t)cap;
    index_make(arena, members, (uint32_t)cap);
    return members;
}

struct json json_build_array(struct arena *arena, const struct json *v, size_t n)
{
    struct json value = {.type = JSON_ARRAY, .len = (uint32_t)n};

    if (n == 0)
        return value;
    value.items = items_new(arena, n);
    memcpy(value.items->v, v, n * sizeof(*v));
    return value;
}

/* One bit of 64 for each key: only keys whose bit is taken need the search for a duplicate. */
static uint64_t key_bit(const struct json_member *member)
{
    unsigned n = member->key_len;
    unsigned first = n ? (unsigned char)member->key[0] : 0, last = n ? (unsigned char)member->key[n - 1] : 0;

    return UINT64_C(1) << ((first * 7 + last * 3 + n) & 63);
}

struct json json_build_object(struct arena *arena, const struct json_member *v, size_t n,
                              void (*dup)(void *arg, size_t at), void *arg)
{
    struct json value = {.type = JSON_OBJECT};
    struct json_members *members;
    uint64_t seen = 0;
    uint32_t len = 0;

    if (n == 0)
        return value;
    members = members_new(arena, n);
    for (size_t i = 0; i < n; i++) {
        uint64_t bit = key_bit(&v[i]);
        uint32_t place = len;

        if (len > JSON_HASH_ABOVE || (seen & bit))
            place = find_member(members, len, member_key(&v[i]));
        seen |= bit;
        if (place < len) {
            members->v[place].value = v[i].value;
            if (dup)
                dup(arg, i);
            continue;
        }
        members->v[len] = v[i];
        if (members->index_mask)
            index_add(members, len);
        len++;
    }
    value.len = len;
    value.members = members;
    return value;
}

/* --- asking --- */

struct json *json_get_str(const struct json *object, struct str key)
{
    uint32_t place;

    if (!json_is(object, JSON_OBJECT) || object->len == 0)
        return NULL;
    place = find_member(object->members, object->len, key);
    return place < object->len ? &object->members->v[place].value : NULL;
}

struct json *json_get(const struct json *object, const char *key)
{
    return json_get_str(object, str_from(key));
}

struct json *json_item(const struct json *array, size_t i)
{
    return json_is(array, JSON_ARRAY) && i < array->len ? &array->items->v[i] : NULL;
}

struct json *json_at(const struct json *value, const char *path)
{
    struct str rest = str_from(path), part;
    struct json *at = NULL;

    while (str_split(&rest, '.', &part)) {
        uint64_t i;

        if (json_is(value, JSON_ARRAY))
            at = str_to_uint(part, &i) ? json_item(value, i) : NULL;
        else
            at = json_get_str(value, part);
        if (!at)
            return NULL;
        value = at;
    }
    return at;
}

const char *json_string(const struct json *value)
{
    return json_is(value, JSON_STRING) ? value->string : NULL;
}

const char *json_string_or(const struct json *value, const char *fallback)
{
    return json_is(value, JSON_STRING) ? value->string : fallback;
}

struct str json_str(const struct json *value)
{
    return json_is(value, JSON_STRING) ? (struct str){value->string, value->len} : (struct str){NULL, 0};
}

bool json_bool(const struct json *value)
{
    return json_is(value, JSON_BOOL) && value->boolean;
}

int64_t json_int(const struct json *value, int64_t fallback)
{
    return json_is(value, JSON_INT) ? value->integer : fallback;
}

const char *json_get_string(const struct json *object, const char *key)
{
    return json_string(json_get(object, key));
}

const char *json_at_string(const struct json *value, const char *path)
{
    return json_string(json_at(value, path));
}

const char *json_type_name(const struct json *value)
{
    static const char *const names[] = {
        [JSON_NULL] = "null",   [JSON_BOOL] = "boolean",  [JSON_INT] = "number",  [JSON_BIG] = "number",
        [JSON_REAL] = "number", [JSON_STRING] = "string", [JSON_ARRAY] = "array", [JSON_OBJECT] = "object",
    };

    return names[value ? value->type : JSON_NULL];
}

static bool is_number(const struct json *value)
{
    return value->type == JSON_INT || value->type == JSON_BIG || value->type == JSON_REAL;
}

#define TWO_63 9223372036854775808.0

/* Compared as exact numbers: a REAL equals a whole number only when it is that very number. */
static bool real_equals_whole(double real, const struct json *whole)
{
    char text[400]; /* the largest double has 309 digits */

    if (whole->type == JSON_INT)
        return real >= -TWO_63 && real < TWO_63 && (double)(int64_t)real == real &&
               (int64_t)real == whole->integer;
    if (!(real - real == 0)) /* NaN, infinite */
        return false;
    snprintf(text, sizeof(text), "%.0f", real);
    return (real >= TWO_63 || real < -TWO_63) && str_is((struct str){whole->string, whole->len}, text);
}

static bool numbers_equal(const struct json *a, const struct json *b)
{
    if (a->type == b->type) {
        if (a->type == JSON_INT)
            return a->integer == b->integer;
        if (a->type == JSON_REAL)
            return a->real == b->real;
        return a->len == b->len && memcmp(a->string, b->string, a->len) == 0;
    }
    if (a->type == JSON_REAL)
        return real_equals_whole(a->real, b);
    return b->type == JSON_REAL && real_equals_whole(b->real, a);
}

static bool objects_equal(const struct json *a, const struct json *b)
{
    if (a->len != b->len)
        return false;
    for (uint32_t i = 0; i < a->len; i++) {
        const struct json_member *m = &a->members->v[i];
        const struct json_member *same = &b->members->v[i]; /* most often the order is the same */
        const struct json *other =
            str_eq(member_key(m), member_key(same)) ? &same->value : json_get_str(b, member_key(m));

        if (!other || !json_equal(&m->value, other))
            return false;
    }
    return true;
}

bool json_equal(const struct json *a, const struct json *b)
{
    if (!a || !b)
        return a == b;
    if (is_number(a) && is_number(b))
        return numbers_equal(a, b);
    if (a->type != b->type)
        return false;
    switch ((enum json_type)a->type) {
    case JSON_BOOL:
        return a->boolean == b->boolean;
    case JSON_STRING:
        return str_eq(json_str(a), json_str(b));
    case JSON_ARRAY:
        if (a->len != b->len)
            return false;
        for (uint32_t i = 0; i < a->len; i++)
            if (!json_equal(&a->items->v[i], &b->items->v[i]))
                return false;
        return true;
    case JSON_OBJECT:
        return objects_equal(a, b);
    default:
        return true;
    }
}

/* --- making --- */

static struct json *box(struct arena *arena, struct json value)
{
    struct json *p = arena_alloc(arena, sizeof(*p));

    *p = value;
    return p;
}

struct json *json_new_object(struct arena *arena)
{
    return box(arena, (struct json){.type = JSON_OBJECT});
}

struct json *json_new_array(struct arena *arena)
{
    return box(arena, (struct json){.type = JSON_ARRAY});
}

static struct json of_string(struct arena *arena, const char *s)
{
    return s ? json_of_str(arena, str_from(s)) : (struct json){.type = JSON_NULL};
}

struct json *json_new_string(struct arena *arena, const char *s)
{
    return box(arena, of_string(arena, s));
}

struct json *json_new_int(struct arena *arena, int64_t n)
{
    return box(arena, json_of_int(n));
}

struct json *json_new_null(struct arena *arena)
{
    return box(arena, (struct json){.type = JSON_NULL});
}

struct json json_of_str(struct arena *arena, struct str s)
{
    if (s.len > UINT32_MAX)
        abort();
    return (struct json){
        .type = JSON_STRING, .len = (uint32_t)s.len, .string = arena_strndup(arena, s.s, s.len)};
}

struct json json_of_string_ref(const char *s)
{
    return (struct json){.type = JSON_STRING, .len = (uint32_t)strlen(s), .string = s};
}

struct json json_of_int(int64_t n)
{
    return (struct json){.type = JSON_INT, .integer = n};
}

struct json json_of_real(double d)
{
    return (struct json){.type = JSON_REAL, .real = d};
}

struct json json_of_bool(bool b)
{
    return (struct json){.type = JSON_BOOL, .boolean = b};
}

static struct json copy(struct arena *arena, const struct json *value);

static struct json copy_object(struct arena *arena, const struct json *value)
{
    struct json dst = *value;

    if (value->len == 0)
        return (struct json){.type = JSON_OBJECT};
    dst.members = members_new(arena, value->len);
    for (uint32_t i = 0; i < value->len; i++) {
        const struct json_member *m = &value->members->v[i];

        dst.members->v[i] = (struct json_member){
            .key = arena_strndup(arena, m->key, m->key_len),
            .key_len = m->key_len,
            .value = copy(arena, &m->value),
        };
    }
    index_refill(dst.members, value->len);
    return dst;
}

static struct json copy(struct arena *arena, const struct json *value)
{
    struct json dst = *value;

    switch ((enum json_type)value->type) {
    case JSON_STRING:
    case JSON_BIG:
        dst.string = arena_strndup(arena, value->string, value->len);
        return dst;
    case JSON_ARRAY:
        dst.items = value->len ? items_new(arena, value->len) : NULL;
        for (uint32_t i = 0; i < value->len; i++)
            dst.items->v[i] = copy(arena, &value->items->v[i]);
        return dst;
    case JSON_OBJECT:
        return copy_object(arena, value);
    default:
        return dst;
    }
}

struct json *json_copy(struct arena *arena, const struct json *value)
{
    return value ? box(arena, copy(arena, value)) : NULL;
}

/* --- changing --- */

static void grow_members(struct arena *arena, struct json *object)
{
    uint32_t cap = object->members ? object->members->cap : 0;
    struct json_members *members;

    if (object->len < cap)
        return;
    members = members_new(arena, object->len ? (size_t)object->len * 2 : CAP_FIRST);
    if (object->members)
        memcpy(members->v, object->members->v, object->len * sizeof(members->v[0]));
    index_refill(members, object->len);
    object->members = members;
}

void json_reserve(struct arena *arena, struct json *object, size_t count)
{
    assert(json_is(object, JSON_OBJECT) && object->len == 0);
    object->members = members_new(arena, count);
}

struct json *json_set_str(struct arena *arena, struct json *object, struct str key, struct json value)
{
    struct json *old = json_get_str(object, key);
    struct json_member *member;

    assert(json_is(object, JSON_OBJECT) && key.len <= UINT32_MAX);
    if (old) {
        *old = value;
        return old;
    }
    grow_members(arena, object);
    member = &object->members->v[object->len];
    member->key = arena_strndup(arena, key.s, key.len);
    member->key_len = (uint32_t)key.len;
    member->value = value;
    if (object->members->index_mask)
        index_add(object->members, object->len);
    object->len++;
    return &member->value;
}

struct json *json_set(struct arena *arena, struct json *object, const char *key, struct json value)
{
    return json_set_str(arena, object, str_from(key), value);
}

struct json *json_set_string(struct arena *arena, struct json *object, const char *key, const char *s)
{
    return json_set(arena, object, key, of_string(arena, s));
}

struct json *json_set_int(struct arena *arena, struct json *object, const char *key, int64_t n)
{
    return json_set(arena, object, key, json_of_int(n));
}

struct json *json_set_bool(struct arena *arena, struct json *object, const char *key, bool b)
{
    return json_set(arena, object, key, json_of_bool(b));
}

struct json *json_set_object(struct arena *arena, struct json *object, const char *key)
{
    return json_set(arena, object, key, (struct json){.type = JSON_OBJECT});
}

struct json *json_set_array(struct arena *arena, struct json *object, const char *key)
{
    return json_set(arena, object, key, (struct json){.type = JSON_ARRAY});
}

struct json *json_need_object(struct arena *arena, struct json *object, const char *key)
{
    struct json *there = json_get(object, key);

    if (!there || there->type == JSON_NULL)
        return json_set_object(arena, object, key);
    return there->type == JSON_OBJECT ? there : NULL;
}

bool json_remove_str(struct json *object, struct str key)
{
    struct json_members *members;
    uint32_t place;

    if (!json_is(object, JSON_OBJECT) || object->len == 0)
        return false;
    members = object->members;
    place = find_member(members, object->len, key);
    if (place == object->len)
        return false;
    if (members->index_mask)
        index_remove(members, place);
    object->len--;
    memmove(&members->v[place], &members->v[place + 1], (object->len - place) * sizeof(members->v[0]));
    return true;
}

bool json_remove(struct json *object, const char *key)
{
    return json_remove_str(object, str_from(key));
}

static void grow_items(struct arena *arena, struct json *array)
{
    uint32_t cap = array->items ? array->items->cap : 0;
    struct json_items *items;

    if (array->len < cap)
        return;
    items = items_new(arena, array->len ? (size_t)array->len * 2 : CAP_FIRST);
    if (array->items)
        memcpy(items->v, array->items->v, array->len * sizeof(items->v[0]));
    array->items = items;
}

void json_insert(struct arena *arena, struct json *array, size_t at, struct json value)
{
    struct json *v;

    assert(json_is(array, JSON_ARRAY) && at <= array->len);
    grow_items(arena, array);
    v = array->items->v;
    memmove(&v[at + 1], &v[at], (array->len - at) * sizeof(*v));
    v[at] = value;
    array->len++;
}

struct json *json_push(struct arena *arena, struct json *array, struct json value)
{
    json_insert(arena, array, json_len(array), value);
    return &array->items->v[array->len - 1];
}

struct json *json_push_string(struct arena *arena, struct json *array, const char *s)
{
    return json_push(arena, array, of_string(arena, s));
}

struct json *json_push_object(struct arena *arena, struct json *array)
{
    return json_push(arena, array, (struct json){.type = JSON_OBJECT});
}

void json_remove_item(struct json *array, size_t at)
{
    struct json *v;

    assert(json_is(array, JSON_ARRAY) && at < array->len);
    v = array->items->v;
    array->len--;
    memmove(&v[at], &v[at + 1], (array->len - at) * sizeof(*v));
}

static int compare_members(const void *a, const void *b)
{
    return str_cmp(member_key(a), member_key(b));
}

void json_sort_members(struct json *object)
{
    if (!json_is(object, JSON_OBJECT) || object->len < 2)
        return;
    qsort(object->members->v, object->len, sizeof(object->members->v[0]), compare_members);
    index_refill(object->members, object->len);
}
