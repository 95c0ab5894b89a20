/* gc - owners take their dependents along. An object all of whose owners are gone is deleted; an owner with
 * the finalizer foregroundDeletion waits for the dependents that block it; one with `orphan` leaves its
 * dependents behind, with its reference taken off. */
#pragma once

#include "control/control.h"
#include "objects/object.h"

#define FINALIZER_FOREGROUND "foregroundDeletion"
#define FINALIZER_ORPHAN     "orphan"

/* What there is to look at. */
struct gc_world {
    const struct object *(*by_uid)(void *arg, const char *uid);
    void (*dependents)(void *arg, const char *uid, void (*fn)(void *fn_arg, const struct object *object),
                       void *fn_arg);
    void *arg;
};

void gc_look(const struct object *object, const struct gc_world *world, struct effects *effects);
/* Whether a look could have any effect: cheap. */
bool gc_concerns(const struct object *object);
