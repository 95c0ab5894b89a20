/* json - values as JSON knows them, in an arena: read, changed, written. YAML and templates use the
 * same tree.
 *
 * Every value lives in the arena it was made in, with everything below it; nothing is freed singly.
 * Values are plain structs and may be copied (`*dst = *src` shares what lies below; json_copy does
 * not). Strings are borrowed from the arena, NUL-terminated, may hold NUL bytes inside, valid UTF-8.
 * Objects keep the order of their members. Whole numbers that fit are INT, other whole numbers BIG
 * (their text), the rest REAL. Lookups in large objects are hashed. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#define JSON_DEPTH_MAX  128  /* nesting of arrays and objects, read or written */
#define JSON_HASH_ABOVE 16   /* members from which an object has an index */
#define JSON_DUPS_BYTES 4096 /* of the paths of repeated members; those beyond are left out */

enum json_type { JSON_NULL, JSON_BOOL, JSON_INT, JSON_BIG, JSON_REAL, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json_items;
struct json_members;

struct json {
    uint8_t type;
    uint32_t len; /* of STRING and BIG: bytes; ARRAY: items; OBJECT: members */
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *string;
        struct json_items *items;     /* NULL when empty */
        struct json_members *members; /* NULL when empty */
    };
};

struct json_member {
    const char *key; /* NUL-terminated */
    uint32_t key_len;
    struct json value;
};

struct json_items {
    uint32_t cap;
    struct json v[];
};

struct json_members {
    uint32_t cap;
    uint32_t index_mask; /* 0: no index yet */
    uint32_t *index;     /* 1 + place in v, open addressing */
    struct json_member v[];
};

/* Reading text. Strict JSON (RFC 8259): UTF-8, no trailing bytes, no NaN; depth up to JSON_DEPTH_MAX.
 * ERR_INVALID with "line L, column C: what" otherwise. A later member of the same name wins; with
 * dups not NULL the paths of repeated members ("spec.replicas") are added there, comma-separated, until
 * they are JSON_DUPS_BYTES long. */
int json_parse(struct str text, struct arena *arena, struct json **ret, struct buf *dups, struct err *err);
/* The same, but strings without escapes point into `text` where they can: text must outlive the tree
 * and is modified (NULs are written behind strings). text[len] must be writable. */
int json_parse_in_place(char *text, size_t len, struct arena *arena, struct json **ret, struct err *err);

/* Writing. Compact, members in order, UTF-8 as it is; REAL with the fewest digits that read back the
 * same, always with "." or "e". */
void json_write(struct buf *buf, const struct json *value);
void json_write_pretty(struct buf *buf, const struct json *value, int indent);
void json_write_string(struct buf *buf, struct str s); /* quoted and escaped */
void json_write_sorted(struct buf *buf,
                       const struct json *value); /* members by name: for hashes and comparisons */

/* Asking. A NULL value is fine everywhere and behaves as absent: NULL, 0, false, "". */
struct json *json_get(const struct json *object, const char *key); /* NULL when absent or no object */
struct json *json_get_str(const struct json *object, struct str key);
struct json *
json_at(const struct json *value,
        const char *path); /* "metadata.labels"; digits index arrays ("spec.containers.0.name") */
struct json *json_item(const struct json *array, size_t i); /* NULL past the end */
static inline bool json_is(const struct json *value, enum json_type type)
{
    return value && value->type == type;
}
const char *json_string(const struct json *value); /* NULL when it is no string */
const char *json_string_or(const struct json *value, const char *fallback);
struct str json_str(const struct json *value); /* {NULL, 0} when it is no string */
bool json_bool(const struct json *value);      /* true only for `true` */
int64_t json_int(const struct json *value, int64_t fallback);
static inline size_t json_len(const struct json *value) /* items or members; 0 for anything else */
{
    return value && (value->type == JSON_ARRAY || value->type == JSON_OBJECT) ? value->len : 0;
}
const char *json_get_string(const struct json *object, const char *key); /* NULL when absent */
const char *json_at_string(const struct json *value, const char *path);  /* NULL when absent */
bool json_equal(const struct json *a,
                const struct json *b); /* member order does not matter; 1 and 1.0 are equal */
const char *
json_type_name(const struct json *value); /* "null" "boolean" "number" "string" "array" "object" */

/* for (struct json *it ...) over an array; NULL and other types have no items. */
#define JSON_EACH(array, it)                                                                                 \
    for (struct json *it = json_is((array), JSON_ARRAY) && (array)->len ? (array)->items->v : NULL,          \
                     *it##_end = it ? it + (array)->len : NULL;                                              \
         it < it##_end; it++)
/* for (struct json_member *it ...) over an object. */
#define JSON_EACH_MEMBER(object, it)                                                                         \
    for (struct json_member *it = json_is((object), JSON_OBJECT) && (object)->len ? (object)->members->v     \
                                                                                  : NULL,                    \
                            *it##_end = it ? it + (object)->len : NULL;                                      \
         it < it##_end; it++)

/* Making. Strings are copied into the arena; the _ref forms borrow (NUL-terminated, outliving it). */
struct json *json_new_object(struct arena *arena);
struct json *json_new_array(struct arena *arena);
struct json *json_new_string(struct arena *arena, const char *s); /* NULL gives a null value */
struct json *json_new_int(struct arena *arena, int64_t n);
struct json *json_new_null(struct arena *arena);
struct json json_of_str(struct arena *arena, struct str s);
struct json json_of_string_ref(const char *s);
struct json json_of_int(int64_t n);
struct json json_of_real(double d);
struct json json_of_bool(bool b);
struct json *json_copy(struct arena *arena, const struct json *value); /* deep; into that arena */

/* Changing. The setters replace a member of that name in place or append one, and return the stored
 * value (valid until the object grows). Keys are copied. `object` must be an object, `array` an array. */
struct json *json_set(struct arena *arena, struct json *object, const char *key, struct json value);
void json_reserve(struct arena *arena, struct json *object,
                  size_t count); /* an empty one will get so many members */
struct json *json_set_str(struct arena *arena, struct json *object, struct str key, struct json value);
struct json *json_set_string(struct arena *arena, struct json *object, const char *key, const char *s);
struct json *json_set_int(struct arena *arena, struct json *object, const char *key, int64_t n);
struct json *json_set_bool(struct arena *arena, struct json *object, const char *key, bool b);
struct json *json_set_object(struct arena *arena, struct json *object,
                             const char *key); /* an empty object there */
struct json *json_set_array(struct arena *arena, struct json *object, const char *key);
/* The object at key, made when absent or null. NULL when something else stands there. */
struct json *json_need_object(struct arena *arena, struct json *object, const char *key);
bool json_remove(struct json *object, const char *key); /* false when absent; order is kept */
bool json_remove_str(struct json *object, struct str key);
struct json *json_push(struct arena *arena, struct json *array, struct json value);
struct json *json_push_string(struct arena *arena, struct json *array, const char *s);
struct json *json_push_object(struct arena *arena, struct json *array);
void json_insert(struct arena *arena, struct json *array, size_t at, struct json value);
void json_remove_item(struct json *array, size_t at);
void json_sort_members(struct json *object); /* by name */
