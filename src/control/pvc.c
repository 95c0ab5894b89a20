#include "control/pvc.h"

#include "control/util.h"
#include "objects/names.h"
#include "objects/quantity.h"
#include "objects/selector.h"

#include <string.h>

#define BIND_COMPLETED      "pv.kubernetes.io/bind-completed"
#define BOUND_BY_CONTROLLER "pv.kubernetes.io/bound-by-controller"

/* ---- admission ---- */

void pvc_admit(struct arena *arena, struct json *claim, const char *default_class)
{
    struct json *spec = json_need_object(arena, claim, "spec");

    if (spec && default_class && !json_get(spec, "storageClassName"))
        json_set_string(arena, spec, "storageClassName", default_class);
    finalizer_add(arena, claim, PVC_PROTECTION);
}

void pv_admit(struct arena *arena, struct json *volume)
{
    finalizer_add(arena, volume, PV_PROTECTION);
}

bool pod_uses_claim(const struct object *pod, const char *claim, struct arena *arena)
{
    const struct json *doc;

    if (!memmem(pod->text, pod->text_len, claim, strlen(claim)))
        return false;
    doc = object_doc_once(pod, arena);
    if (pod_is_over(doc))
        return false;
    JSON_EACH(json_at(doc, "spec.volumes"), it) {
        if (streq(json_at_string(it, "persistentVolumeClaim.claimName"), claim))
            return true;
        if (json_get(it, "ephemeral") &&
            streq(arena_printf(arena, "%s-%s", pod->name, json_string_or(json_get(it, "name"), "")), claim))
            return true;
    }
    return false;
}

/* ---- finding a volume ---- */

static bool modes_offered(const struct json *offered, const struct json *wanted)
{
    JSON_EACH(wanted, it)
        if (!string_list_has(offered, json_string(it)))
            return false;
    return true;
}

static bool selected(const struct json *claim, const struct json *volume, struct arena *arena)
{
    const struct json *text = json_at(claim, "spec.selector");
    struct selector *selector;

    return !text || (selector_from_json(text, arena, &selector, NULL) == 0 &&
                     selector_matches_labels(selector, json_at(volume, "metadata.labels")));
}

static bool free_for(const struct json *volume, const struct object *claim)
{
    const struct json *ref = json_at(volume, "spec.claimRef");
    const char *uid = json_get_string(ref, "uid");

    if (!ref)
        return true;
    return streq(json_get_string(ref, "namespace"), claim->ns) &&
           streq(json_get_string(ref, "name"), claim->name) && (!uid || !*uid || streq(uid, claim->uid));
}

static bool fits(const struct json *claim, const struct json *volume, struct quantity *size)
{
    struct quantity wanted = {0};

    quantity_from_json(json_at(claim, "spec.resources.requests.storage"), &wanted);
    return quantity_from_json(json_at(volume, "spec.capacity.storage"), size) &&
           quantity_cmp(size, &wanted) >= 0 &&
           modes_offered(json_at(volume, "spec.accessModes"), json_at(claim, "spec.accessModes")) &&
           streq(json_string_or(json_at(volume, "spec.volumeMode"), "Filesystem"),
                 json_string_or(json_at(claim, "spec.volumeMode"), "Filesystem")) &&
           streq(json_string_or(json_at(volume, "spec.storageClassName"), ""),
                 json_string_or(json_at(claim, "spec.storageClassName"), ""));
}

/* Most volumes are somebody else's, which their text tells without being read. */
static bool taken(const struct object *volume, const struct object *claim)
{
    static const char member[] = "\"claimRef\":{";

    return memmem(volume->text, volume->text_len, member, sizeof(member) - 1) &&
           !memmem(volume->text, volume->text_len, claim->name, strlen(claim->name));
}

/* The smallest that fits; one that names this claim itself comes first. */
static const struct object *find_volume(const struct pvc_view *view, const struct json *claim,
                                        struct arena *arena, struct json **ret)
{
    const char *wanted = json_string_or(json_at(claim, "spec.volumeName"), "");
    const struct object *best = NULL;
    struct quantity best_size = {0}, size;

    for (size_t i = 0; i < view->volume_count; i++) {
        const struct object *volume = view->volumes[i];
        struct json *doc;

        if (volume->deleting || (*wanted && !streq(wanted, volume->name)) || taken(volume, view->claim))
            continue;
        doc = object_json(volume, arena);
        if (!free_for(doc, view->claim))
            continue;
        if (*wanted || json_at(doc, "spec.claimRef")) {
            *ret = doc;
            return volume;
        }
        if (fits(claim, doc, &size) && selected(claim, doc, arena) &&
            (!best || quantity_cmp(&size, &best_size) < 0)) {
            best = volume;
            best_size = size;
            *ret = doc;
        }
    }
    return best;
}

/* ---- binding ---- */

static void set_claim_ref(struct arena *arena, struct json *volume, const struct object *claim)
{
    struct json *ref = json_set_object(arena, json_need_object(arena, volume, "spec"), "claimRef");

    json_set_string(arena, ref, "kind", "PersistentVolumeClaim");
    json_set_string(arena, ref, "namespace", claim->ns);
    json_set_string(arena, ref, "name", claim->name);
    json_set_string(arena, ref, "uid", claim->uid);
    json_set_string(arena, ref, "apiVersion", "v1");
    json_set_string(arena, ref, "resourceVersion", arena_printf(arena, "%lld", (long long)claim->rv));
}

static void set_volume_phase(struct arena *arena, struct json *volume, const char *phase, int64_t now)
{
    struct json *status = json_need_object(arena, volume, "status");

    json_set_string(arena, status, "phase", phase);
    time_set(arena, status, "lastPhaseTransitionTime", now);
}

static void bind_claim(const struct pvc_view *view, struct json *claim, const char *name,
                       const struct json *volume, struct effects *effects)
{
    struct arena *arena = effects->arena;
    struct json *annotations =
        json_need_object(arena, json_need_object(arena, claim, "metadata"), "annotations");
    struct json *spec = json_need_object(arena, claim, "spec"), *status;

    json_set_string(arena, annotations, BIND_COMPLETED, "yes");
    if (!json_string_or(json_get(spec, "volumeName"), "")[0]) {
        json_set_string(arena, annotations, BOUND_BY_CONTROLLER, "yes");
        json_set_string(arena, spec, "volumeName", name);
    }
    status = json_need_object(arena, claim, "status");
    json_set_string(arena, status, "phase", "Bound");
    json_set(arena, status, "accessModes", *json_copy(arena, json_at(volume, "spec.accessModes")));
    json_set(arena, status, "capacity", *json_copy(arena, json_at(volume, "spec.capacity")));
    effect_update(effects, view->claim, claim);
}

static void bind_existing(const struct pvc_view *view, struct json *claim, const struct object *volume,
                          struct json *doc, struct effects *effects)
{
    if (!streq(json_at_string(doc, "spec.claimRef.uid"), view->claim->uid) ||
        !streq(json_at_string(doc, "status.phase"), "Bound")) {
        set_claim_ref(effects->arena, doc, view->claim);
        set_volume_phase(effects->arena, doc, "Bound", view->now);
        effect_update(effects, volume, doc);
    }
    bind_claim(view, claim, volume->name, doc, effects);
}

static void provision(const struct pvc_view *view, struct json *claim, struct effects *effects)
{
    struct arena *arena = effects->arena;
    struct json *doc = json_new_object(arena), *meta = json_set_object(arena, doc, "metadata");
    struct json *spec = json_set_object(arena, doc, "spec"), *part;
    const char *name = arena_printf(arena, "pvc-%s", view->claim->uid);
    const struct json *modes = json_at(claim, "spec.accessModes");
    const struct json *size = json_at(claim, "spec.resources.requests.storage");

    json_set_string(arena, meta, "name", name);
    part = json_set_object(arena, meta, "annotations");
    json_set_string(arena, part, "pv.kubernetes.io/provisioned-by", PV_PROVISIONER);
    part = json_set_object(arena, spec, "capacity");
    json_set(arena, part, "storage", size ? *json_copy(arena, size) : json_of_string_ref("0"));
    json_set(arena, spec, "accessModes", modes ? *json_copy(arena, modes) : *json_new_array(arena));
    json_set_string(arena, spec, "persistentVolumeReclaimPolicy", "Delete");
    json_set_string(arena, spec, "storageClassName", json_at_string(claim, "spec.storageClassName"));
    json_set_string(arena, spec, "volumeMode",
                    json_string_or(json_at(claim, "spec.volumeMode"), "Filesystem"));
    part = json_set_object(arena, spec, "csi");
    json_set_string(arena, part, "driver", PV_PROVISIONER);
    json_set_string(arena, part, "volumeHandle", name);
    set_claim_ref(arena, doc, view->claim);
    effect_create(effects, kind_by_id(KIND_PV), "", doc);
    effect_event(effects, "Normal", "ProvisioningSucceeded",
                 arena_printf(arena, "Successfully provisioned volume %s", name));
    part = json_need_object(arena, json_need_object(arena, claim, "metadata"), "annotations");
    json_set_string(arena, part, "volume.kubernetes.io/storage-provisioner", PV_PROVISIONER);
    bind_claim(view, claim, name, doc, effects);
}

/* A claim may grow: a volume that was made for it grows along. */
static void check_size(const struct pvc_view *view, struct json *claim, const struct object *volume,
                       struct effects *effects)
{
    struct arena *arena = effects->arena;
    const struct json *wanted = json_at(claim, "spec.resources.requests.storage");
    struct json *doc = object_json(volume, arena);
    struct quantity want, have = {0}, shown = {0};

    if (!streq(json_at_string(doc, "spec.csi.driver"), PV_PROVISIONER) || !quantity_from_json(wanted, &want))
        return;
    quantity_from_json(json_at(doc, "spec.capacity.storage"), &have);
    quantity_from_json(json_at(claim, "status.capacity.storage"), &shown);
    if (quantity_cmp(&want, &have) > 0) {
        json_set(arena, json_need_object(arena, json_get(doc, "spec"), "capacity"), "storage",
                 *json_copy(arena, wanted));
        effect_update(effects, volume, doc);
        have = want;
    }
    if (quantity_cmp(&have, &shown) <= 0)
        return;
    json_set(arena, json_need_object(arena, json_need_object(arena, claim, "status"), "capacity"), "storage",
             *json_copy(arena, json_at(doc, "spec.capacity.storage")));
    effect_update_status(effects, view->claim, claim);
    effect_event(effects, "Normal", "VolumeResizeSuccessful",
                 arena_printf(arena, "The volume holds %s now",
                              json_string_or(json_at(doc, "spec.capacity.storage"), "")));
}

/* A bound claim whose volume somebody took away. */
static void check_bound(const struct pvc_view *view, struct json *claim, struct effects *effects)
{
    const char *name = json_string_or(json_at(claim, "spec.volumeName"), "");

    for (size_t i = 0; i < view->volume_count; i++)
        if (streq(view->volumes[i]->name, name)) {
            check_size(view, claim, view->volumes[i], effects);
            return;
        }
    json_set_string(effects->arena, json_need_object(effects->arena, claim, "status"), "phase", "Lost");
    effect_update_status(effects, view->claim, claim);
    effect_event(effects, "Warning", "ClaimLost",
                 "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
}

void pvc_look(const struct pvc_view *view, struct effects *effects)
{
    struct json *claim = object_json(view->claim, effects->arena), *doc = NULL;
    const char *phase = json_at_string(claim, "status.phase");
    const struct object *volume;

    if (view->claim->deleting) {
        if (!view->in_use && finalizer_remove(claim, PVC_PROTECTION))
            effect_update(effects, view->claim, claim);
        return;
    }
    if (streq(phase, "Lost"))
        return;
    if (streq(phase, "Bound")) {
        check_bound(view, claim, effects);
        return;
    }
    volume = find_volume(view, claim, effects->arena, &doc);
    if (volume)
        bind_existing(view, claim, volume, doc, effects);
    else if (!json_string_or(json_at(claim, "spec.volumeName"), "")[0] && !json_at(claim, "spec.selector") &&
             json_string_or(json_at(claim, "spec.storageClassName"), "")[0])
        provision(view, claim, effects);
}

/* ---- volumes ---- */

static const char *phase_of(const struct json *volume, const struct object *claim)
{
    const struct json *ref = json_at(volume, "spec.claimRef");
    const char *uid = json_get_string(ref, "uid");

    if (!ref || !uid || !*uid) /* free, or kept for a claim that has not come yet */
        return "Available";
    return claim && streq(claim->uid, uid) ? "Bound" : "Released";
}

void pv_look(const struct object *volume, const struct object *claim, int64_t now, struct effects *effects)
{
    struct json *doc = object_json(volume, effects->arena);
    const char *phase = phase_of(doc, claim);

    if (volume->deleting) {
        if (!streq(phase, "Bound") && finalizer_remove(doc, PV_PROTECTION))
            effect_update(effects, volume, doc);
        return;
    }
    if (streq(phase, "Released") &&
        streq(json_at_string(doc, "spec.persistentVolumeReclaimPolicy"), "Delete")) {
        effect_delete(effects, volume);
        return;
    }
    if (!streq(json_at_string(doc, "status.phase"), phase)) {
        set_volume_phase(effects->arena, doc, phase, now);
        effect_update_status(effects, volume, doc);
    }
}
