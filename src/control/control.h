/* control - what Berth does by itself about objects: Jobs make Pods, owners take their dependents along,
 * namespaces empty before they go, quotas count, events age. Each controller is a pure function from
 * the objects it looks at and the time to a list of effects; src/daemon's runner carries them out. */
#pragma once

#include "base/json.h"
#include "objects/kind.h"

enum effect_type {
    EFFECT_CREATE,        /* doc of `kind` in `ns` */
    EFFECT_UPDATE_STATUS, /* doc: the whole object, its status is taken */
    EFFECT_UPDATE,        /* doc: the whole object */
    EFFECT_DELETE,        /* kind, ns, name, uid; grace_sec -1: default */
    EFFECT_EVENT,         /* about the object itself: event_type, reason, message */
    EFFECT_WAKE,          /* look again at wake_at */
};

struct effect {
    enum effect_type type;
    const struct kind *kind;
    const char *ns, *name, *uid;
    struct json *doc;
    int64_t grace_sec;
    const char *event_type, *reason, *message;
    int64_t wake_at;
};

#define EFFECTS_MAX 128 /* of one look at one object: a turn of the loop carries out no more */

struct effects {
    struct arena *arena;
    size_t len;
    bool more; /* there was no room for all: look again at once */
    struct effect v[EFFECTS_MAX];
};

struct effect *effects_add(struct effects *effects, enum effect_type type); /* NULL when full */
