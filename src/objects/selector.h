/* selector - label and field selectors of lists and watches. */
#pragma once

#include "base/arena.h"
#include "objects/object.h"

#define SELECTOR_TEXT_MAX  (64 << 10)
#define SELECTOR_TERMS_MAX 1000

struct selector; /* label and field terms together; lives in its arena */

/* NULL or "" texts select everything. ERR_INVALID, worded as Kubernetes does (`unable to parse
 * requirement: …`, `field label not supported: X`). */
int selector_parse(const struct kind *kind, const char *labels, const char *fields, struct arena *arena,
                   struct selector **ret, struct err *err);
/* From a LabelSelector object (matchLabels, matchExpressions); NULL doc selects nothing. */
int selector_from_json(const struct json *doc, struct arena *arena, struct selector **ret, struct err *err);
bool selector_matches(const struct selector *selector, const struct object *object); /* NULL selector: true */
bool selector_matches_labels(const struct selector *selector, const struct json *labels);
