/* util - the few questions and changes that all controllers have for documents. */
#pragma once

#include "base/clock.h"
#include "control/control.h"
#include "objects/condition.h"
#include "objects/object_doc.h"

/* The effect, filled; the members that an update or a deletion needs are taken from the object. */
struct effect *effect_update(struct effects *effects, const struct object *object, struct json *doc);
struct effect *effect_update_status(struct effects *effects, const struct object *object, struct json *doc);
struct effect *effect_delete(struct effects *effects, const struct object *object);
struct effect *effect_create(struct effects *effects, const struct kind *kind, const char *ns,
                             struct json *doc);
struct effect *effect_event(struct effects *effects, const char *type, const char *reason,
                            const char *message);
void effect_wake(struct effects *effects, int64_t at);
static inline size_t effects_room(const struct effects *effects)
{
    return EFFECTS_MAX - effects->len;
}

bool finalizer_has(const struct json *doc, const char *name);
void finalizer_add(struct arena *arena, struct json *doc, const char *name);
bool finalizer_remove(struct json *doc, const char *name); /* false when it was not there */

int64_t time_of(const struct json *value, int64_t fallback); /* RFC 3339 text */
void time_set(struct arena *arena, struct json *object, const char *key, int64_t t);
void string_list_remove(struct json *list, const char *s);
bool string_list_has(const struct json *list, const char *s);
