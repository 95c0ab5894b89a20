/* yaml - YAML text to json values, as kubectl reads it: YAML 1.1 scalars (y, yes, on, 0644, 0x1f,
 * 1_000, ~, .inf refused), anchors and aliases, `<<` merges, block scalars, several documents.
 *
 * Errors are ERR_INVALID: "line L, column C: what", followed by the source line where there is one.
 * Repeated keys are errors. Keys must be scalars and become strings. */
#pragma once

#include "base/json.h"

#define YAML_TEXT_MAX  (16 << 20) /* bytes */
#define YAML_NODES_MAX 1000000    /* values after aliases are resolved, so that small text cannot explode */
#define YAML_BYTES_MAX (64 << 20) /* bytes of strings after aliases are resolved */
#define YAML_DEPTH_MAX 100
#define YAML_DOCS_MAX  10000

/* The documents as an array; empty documents (stray `---`, comments only) are left out.
 * lines, where not NULL, gets as many ints: the line at which each document starts (in arena). */
int yaml_parse(struct str text, struct arena *arena, struct json **ret_docs, const int **lines,
               struct err *err);

/* Exactly one document. ERR_INVALID when there is none or more. */
int yaml_parse_one(struct str text, struct arena *arena, struct json **ret, struct err *err);

/* Block style as kubectl prints it: two spaces, strings quoted only where they must be, members in
 * order, lists not indented below their key. */
void yaml_write(struct buf *buf, const struct json *value);
