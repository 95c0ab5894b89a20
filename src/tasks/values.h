/* values - what is filled into a task: given as an object or as YAML text of one, described leaf by leaf
 * ("(Required) Max step", "(Optional) …"), merged, and made safe to stand in a template. Pure functions on
 * value trees; results are in the arena and may share what they were made from. */
#pragma once

#include "base/err.h"
#include "base/json.h"

#define VALUES_TEXT_MAX   (1 << 20)  /* bytes of YAML text of one of a definition's values */
#define VALUES_HIDDEN     "(hidden)" /* instead of values that are not shown */
#define VALUES_PATHS_MAX  200        /* missing paths that are named */
#define VALUES_PATH_BYTES 1024       /* of one of them; what is longer is cut */
#define VALUES_LOOKS_MAX  1000000    /* at values and items, to check them against a description */

/* An object, YAML text of one (line ends of any kind), or nothing (absent, null, empty text): an empty
 * object. ERR_INVALID otherwise. */
int values_read(const struct json *given, struct arena *arena, struct json **ret, struct err *err);

/* The maps of both, over's where both have one. A null of over leaves what is under it. */
struct json *values_merge(struct arena *arena, const struct json *under, const struct json *over);

/* What a template gets: the user's values, and over them the system's, which the user cannot change.
 * overridable: a list of paths ("image.tag"; "*": all) where the user's win all the same. locked gets the
 * paths where the user gave something else in vain; may be NULL. */
struct json *values_lock(struct arena *arena, const struct json *system, const struct json *user,
                         const struct json *overridable, struct json *locked);

/* The same maps and lists with every other value hidden. */
struct json *values_hidden(struct arena *arena, const struct json *values);

/* Paths of required values that are not there (absent or null), as strings: "process.train.saveStep",
 * "endpoints[0].endpoint". Lists of maps: a description whose `type` is one word ("(Required) dataset")
 * is about the items of that type, any other about the item at its place. wrong gets sentences about values
 * that are no map or list where one is described. */
void values_missing(const struct json *description, const struct json *values, struct arena *arena,
                    struct json *missing, struct json *wrong);

/* The description as a JSON Schema (draft 2020-12), with types and examples taken from the example. */
struct json *values_schema(const struct json *description, const struct json *example, struct arena *arena);

/* JSON text of a value to stand between single quotes in YAML: quotes are doubled, what YAML does not print
 * is written \uXXXX, and there are no line ends. The reader of that YAML gets the JSON text back. */
struct json values_quoted(const struct json *value, struct arena *arena);

/* Lower-case letters, digits and '-' from any name, at most max bytes, starting with a letter. "" where none
 * is left. */
char *values_slug(const char *name, size_t max, struct arena *arena);
