/* patch - the four ways to change an object in part. All work in place on `doc` (in arena). */
#pragma once

#include "objects/failure.h"
#include "objects/schema.h"

#define PATCH_OPS_MAX 10000 /* operations of one JSON patch */

enum patch_type { PATCH_JSON, PATCH_MERGE, PATCH_STRATEGIC, PATCH_APPLY };

/* "application/merge-patch+json" → type; false when it is none. Parameters (;charset) are ignored. */
bool patch_type_of(const char *content_type, enum patch_type *ret);

/* RFC 6902: add, remove, replace, move, copy, test. Failures worded as Kubernetes does (422 for a test that
 * fails or a missing path, 400 for a malformed patch). */
int patch_json(struct arena *arena, struct json *doc, const struct json *patch, struct failure *failure);
/* RFC 7386. */
int patch_merge(struct arena *arena, struct json *doc, const struct json *patch, struct failure *failure);
/* Kubernetes' strategic merge with its directives ($patch: delete|replace|merge, $setElementOrder/…,
 * $deleteFromPrimitiveList/…, $retainKeys), by the schema's patch columns. */
int patch_strategic(const struct schema_type *type, struct arena *arena, struct json *doc,
                    const struct json *patch, struct failure *failure);

/* Server-side apply. live: the stored object, NULL when it is new. applied: what the manager sends
 * (apiVersion, kind, metadata.name …). *ret: the merged object with metadata.managedFields brought up to
 * date. Conflicts with other managers are a 409 with one cause per field, unless force. now: for
 * managedFields.time. subresource: "" or "status". */
struct apply_request {
    const struct schema_type *type;
    const char *api_version;
    const char *manager;
    const char *subresource;
    const char *now; /* RFC 3339 */
    bool force;
};
/* Whether that can be applied at all: fields the schema does not have, items of one key twice are a 500, as
 * in Kubernetes. For callers that take unknown fields out before patch_apply, which asks this, too. */
int patch_apply_check(const struct apply_request *request, struct arena *arena, const struct json *applied,
                      struct failure *failure);
int patch_apply(const struct apply_request *request, struct arena *arena, const struct json *live,
                const struct json *applied, struct json **ret, struct failure *failure);

/* Field ownership of every other write (create, update, patch): brings doc's metadata.managedFields up to
 * date for what differs between before (NULL: created) and doc. operation is "Update". */
void managed_fields_update(const struct apply_request *request, struct arena *arena,
                           const struct json *before, struct json *doc);
