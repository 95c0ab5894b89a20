/* apply_set - field sets, and how documents become them. Not for others than apply and managed.
 *
 * A set is what Kubernetes stores as FieldsV1, kept as that very tree: a path's elements are member names
 * ("f:image", `k:{"name":"c"}`, `v:"x"`), {} is a field that belongs to the set, and a field that belongs
 * to it along with fields below it has a member ".". The root itself never belongs to a set.
 *
 * Documents are walked by the schema's apply column. What lies below atomic fields is not looked at.
 * Fields nobody owns (kind, metadata.name, …) and the top-level field `ignored` are skipped. */
#pragma once

#include "objects/failure.h"
#include "objects/schema.h"

enum set_op { SET_UNION, SET_DIFFERENCE, SET_INTERSECTION };

struct walk {
    struct arena *arena;
    const char *ignored; /* "status", "spec"; NULL: none */
    int depth;
    struct buf scratch;
};
void walk_done(struct walk *walk);
static inline void walk_done_cleanup_(struct walk *walk)
{
    walk_done(walk);
}

struct json set_combine(struct arena *arena, const struct json *a, const struct json *b, enum set_op op);
static inline bool set_is_empty(const struct json *set)
{
    return set->len == 0;
}
/* Does the node belong to its set itself? */
bool set_has(const struct json *node);
/* Is this tree a set? It may come from anyone. */
bool set_is_valid(const struct json *tree);
/* With every field of a message that has fields below made part of the set. */
struct json set_with_named(struct walk *walk, const struct schema_type *type, const struct json *set);
/* Calls back with the text of each path: `.spec.containers[name="c"].image`. */
void set_each_path(const struct json *set, void (*each)(void *arg, const char *path), void *arg);

/* What differs between two documents. before may be NULL: a new object. */
struct comparison {
    struct json added, modified, removed;
};
void walk_compare(struct walk *walk, const struct schema_type *type, const struct json *before,
                  const struct json *after, struct comparison *ret);
/* The fields a document has. */
struct json walk_fields(struct walk *walk, const struct schema_type *type, const struct json *doc);
/* live with applied laid over it; live may be NULL. The result shares what it can with both. */
struct json walk_merge(struct walk *walk, const struct schema_type *type, const struct json *live,
                       const struct json *applied);
/* doc without the fields of set; what becomes empty goes too. Shares what it can with doc. */
struct json walk_remove(struct walk *walk, const struct schema_type *type, const struct json *doc,
                        const struct json *set);
/* Are all fields those of the schema, and keys of keyed lists there once? If not, what is wrong, in arena;
 * else NULL. */
const char *walk_check(struct walk *walk, const struct schema_type *type, const struct json *doc);
