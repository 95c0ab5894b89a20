/* endpoints - where the connections to a service go, as objects that can be looked at: one Endpoints of the
 * service's name, and EndpointSlices that the service owns. Services with a selector have them from their
 * pods; for one without, the Endpoints somebody made are kept, and shown as slices, too. Whoever changes what
 * Berth keeps gets it back as it was. */
#pragma once

#include "control/control.h"
#include "objects/object.h"

#define ENDPOINTS_MAX       1000 /* addresses of one Endpoints; more are left out, and an annotation says so */
#define ENDPOINTS_SLICE_MAX 100  /* of one slice */
#define ENDPOINTS_MANAGED   "endpoints.kubernetes.io/managed-by"
#define SLICE_MANAGED       "endpointslice.kubernetes.io/managed-by"
#define SLICE_SERVICE       "kubernetes.io/service-name"

struct endpoints_view {
    const struct object *service;
    const struct object *endpoints;     /* of its name; NULL: none */
    const struct object *const *slices; /* what the service owns */
    size_t slice_count;
    const struct json *const *pods; /* of its namespace: documents, or what endpoints_digest made of them */
    size_t pod_count;
};
void endpoints_look(const struct endpoints_view *view, struct effects *effects);

/* What of a pod matters to services, as a small document of the same shape. Equal ones are the same to all
 * services. */
struct json *endpoints_digest(struct arena *arena, const struct json *pod);
/* Whether the service takes its endpoints from pods and its selector chooses this one, ready or not. */
bool endpoints_concerns(const struct json *service, const struct json *pod);
