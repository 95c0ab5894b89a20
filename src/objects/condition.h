/* condition - the entries of status.conditions, by their type. */
#pragma once

#include "base/json.h"

/* The condition of that type, or NULL. */
struct json *condition_find(const struct json *status, const char *type);
bool condition_is(const struct json *status, const char *type, const char *value);
/* Sets or adds it; false when status, reason and message are as they were. now is its transition time, which
 * is kept where the status does not change. */
bool condition_set(struct arena *arena, struct json *status, const char *type, const char *value,
                   const char *reason, const char *message, int64_t now);
