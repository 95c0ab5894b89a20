/* yaml_scalar - what a plain YAML scalar means: reader and writer must agree on it. Not for others.
 */
#pragma once

#include "base/json.h"

/* Resolves as go-yaml v2 does. False when it is a number JSON has not: .inf, .nan. */
bool yaml_resolve(struct arena *arena, struct str text, struct json *ret);
/* The same for a given tag: only values of that type ("int", "float", "bool", "null"). */
bool yaml_resolve_as(struct arena *arena, const char *type, struct str text, struct json *ret);
/* Whether some YAML 1.1 reader would take the plain text for something else than a string. */
bool yaml_needs_quotes(struct str text);
