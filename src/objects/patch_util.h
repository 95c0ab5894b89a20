/* patch_util - what the kinds of patches share. Not for others. */
#pragma once

#include "objects/patch.h"

/* The 422 that Kubernetes gives for a patch that is well-formed but does not fit; it does not say why. */
int patch_rejected(struct failure *failure, struct arena *arena);

/* Removes the members of object that patch has as null. One pass, however many they are. */
void patch_remove_nulled(struct arena *arena, struct json *object, const struct json *patch);

/* Go's name of a decoded JSON type ("map[string]interface {}") and its %v form ("map[a:1 b:[x y]]"). */
const char *patch_go_type(const struct json *value);
void patch_go_print(struct buf *out, const struct json *value);
