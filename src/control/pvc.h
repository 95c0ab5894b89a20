/* pvc - claims get volumes. On one machine every storage class is the same: a folder. A claim binds a
 * volume that is there and fits, else one is made for it, at once; the volume goes with the claim
 * (unless its reclaim policy is Retain). A claim that pods use stays until they have ended. */
#pragma once

#include "control/control.h"
#include "objects/object.h"

#define PVC_PROTECTION "kubernetes.io/pvc-protection"
#define PV_PROTECTION  "kubernetes.io/pv-protection"
#define PV_PROVISIONER "berth.dev/local"
#define STORAGE_CLASS  "standard" /* of claims that name none */

struct pvc_view {
    const struct object *claim;
    const struct object *const *volumes; /* those it could get, and its own */
    size_t volume_count;
    bool in_use; /* by a pod that has not ended */
    int64_t now;
};
void pvc_look(const struct pvc_view *view, struct effects *effects);

/* claim: what claimRef names, NULL when there is none of that name. */
void pv_look(const struct object *volume, const struct object *claim, int64_t now, struct effects *effects);

/* New claims and volumes: class and protection. default_class: NULL when there is none. */
void pvc_admit(struct arena *arena, struct json *claim, const char *default_class);
void pv_admit(struct arena *arena, struct json *volume);
/* Whether a pod mounts the claim and has not ended. */
bool pod_uses_claim(const struct object *pod, const char *claim, struct arena *arena);
