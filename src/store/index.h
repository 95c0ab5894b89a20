/* index - the live objects of a store: sorted by kind, namespace and name, findable by uid, and listed
 * under the uids of their owners. The index holds one reference to each object it contains. */
#pragma once

#include "objects/kind.h"
#include "objects/object.h"
#include "store/store.h"

struct index;

struct index *index_new(void);
void index_free(struct index *index); /* NULL is fine */

/* Takes over the reference. Returns what it replaces, whose reference is now the caller's, or NULL. */
struct object *index_put(struct index *index, struct object *object);
/* Takes out what has this key; its reference is the caller's. NULL when absent. */
struct object *index_remove(struct index *index, int kind, const char *ns, const char *name);

struct object *index_get(const struct index *index, int kind, const char *ns, const char *name);
struct object *index_by_uid(const struct index *index, const char *uid);
struct store_slice index_list(const struct index *index, int kind, const char *ns);
void index_dependents(const struct index *index, const char *uid,
                      void (*fn)(void *arg, const struct object *object), void *arg);
