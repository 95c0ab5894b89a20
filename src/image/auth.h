/* auth - which credentials of docker's config.json fit a repository. Not for other modules. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "image/image.h"

/* The best fitting entry of a config.json or .dockercfg, as a config.json with that one entry, for this
 * registry: false when there is none. Keys are hosts, with or without scheme and path; "*" stands for one
 * label. */
bool auth_choose(struct str text, const struct image_ref *ref, struct buf *ret);
/* The text with the registry's entry set, or removed when password is NULL. Unreadable text counts as empty.
 */
int auth_edit(struct str text, const char *registry, const char *user, const char *password, struct buf *ret,
              struct err *err);
