/* Every object is looked at both as a dependent and as an owner. Owners are told apart by uid alone: an
 * owner of a kind that Berth does not serve can never be found here, so it counts as there. */
#include "control/gc.h"

#include "base/vec.h"
#include "control/util.h"

enum owner_state { OWNER_THERE, OWNER_GONE, OWNER_WAITING /* for its dependents to go first */ };

bool gc_concerns(const struct object *object)
{
    return object->owner_count > 0 ||
           (object->deleting && (finalizer_has(object_doc(object), FINALIZER_FOREGROUND) ||
                                 finalizer_has(object_doc(object), FINALIZER_ORPHAN)));
}

static bool known_kind(const struct json *ref)
{
    const char *api_version = json_get_string(ref, "apiVersion"), *name = json_get_string(ref, "kind");

    for (size_t i = 0; i < kind_count; i++)
        if (kinds[i].stored && streq(kinds[i].name, name) && streq(kind_api_version(&kinds[i]), api_version))
            return true;
    return false;
}

/* Nobody owns what is in another namespace. */
static enum owner_state owner_state(const struct gc_world *world, const struct object *object,
                                    const struct json *ref)
{
    const struct object *owner = world->by_uid(world->arg, json_string_or(json_get(ref, "uid"), ""));

    if (!owner)
        return known_kind(ref) ? OWNER_GONE : OWNER_THERE;
    if (*owner->ns && !streq(owner->ns, object->ns))
        return OWNER_GONE;
    if (owner->deleting && finalizer_has(object_doc(owner), FINALIZER_FOREGROUND))
        return OWNER_WAITING;
    return OWNER_THERE;
}

/* Takes out the references that lead nowhere. */
static void leave_those_there(const struct object *object, const struct gc_world *world,
                              struct effects *effects)
{
    struct json *doc = object_json(object, effects->arena);
    struct json *refs = json_at(doc, "metadata.ownerReferences");

    for (size_t i = json_len(refs); i > 0; i--)
        if (owner_state(world, object, json_item(refs, i - 1)) != OWNER_THERE)
            json_remove_item(refs, i - 1);
    effect_update(effects, object, doc);
}

static void look_as_dependent(const struct object *object, const struct gc_world *world,
                              struct effects *effects)
{
    const struct json *refs = json_at(object_doc(object), "metadata.ownerReferences");
    size_t there = 0, len = json_len(refs);

    JSON_EACH(refs, it)
        there += owner_state(world, object, it) == OWNER_THERE;
    if (there == len)
        return;
    if (there > 0)
        leave_those_there(object, world, effects);
    else if (!object->deleting)
        effect_delete(effects, object);
}

struct dependents {
    const char *uid, *ns;
    struct effects *effects;
    bool blocked; /* one that must go first is there */
    bool full;
};

static void find_blocking(void *arg, const struct object *object)
{
    struct dependents *dependents = arg;
    if (dependents->blocked || (*dependents->ns && !streq(object->ns, dependents->ns)))
        return;
    JSON_EACH(json_at(object_doc(object), "metadata.ownerReferences"), ref)
        if (streq(json_get_string(ref, "uid"), dependents->uid) &&
            json_bool(json_get(ref, "blockOwnerDeletion")))
            dependents->blocked = true;
}

static void set_free(void *arg, const struct object *object)
{
    struct dependents *dependents = arg;
    struct json *doc, *meta, *refs;

    if (effects_room(dependents->effects) < 2) {
        dependents->full = dependents->effects->more = true;
        return;
    }
    doc = object_json(object, dependents->effects->arena);
    meta = json_get(doc, "metadata");
    refs = json_get(meta, "ownerReferences");
    for (size_t i = json_len(refs); i > 0; i--)
        if (streq(json_get_string(json_item(refs, i - 1), "uid"), dependents->uid))
            json_remove_item(refs, i - 1);
    if (json_len(refs) == 0)
        json_remove(meta, "ownerReferences");
    effect_update(dependents->effects, object, doc);
}

static void look_as_owner(const struct object *object, const struct gc_world *world, struct effects *effects)
{
    struct json *doc = object_json(object, effects->arena);
    struct dependents dependents = {.uid = object->uid, .ns = object->ns, .effects = effects};

    if (finalizer_has(doc, FINALIZER_ORPHAN)) {
        world->dependents(world->arg, object->uid, set_free, &dependents);
        if (!dependents.full) {
            finalizer_remove(doc, FINALIZER_ORPHAN);
            effect_update(effects, object, doc);
        }
    } else if (finalizer_has(doc, FINALIZER_FOREGROUND)) {
        world->dependents(world->arg, object->uid, find_blocking, &dependents);
        if (!dependents.blocked) {
            finalizer_remove(doc, FINALIZER_FOREGROUND);
            effect_update(effects, object, doc);
        }
    }
}

void gc_look(const struct object *object, const struct gc_world *world, struct effects *effects)
{
    size_t before = effects->len;

    if (object->deleting)
        look_as_owner(object, world, effects);
    if (object->owner_count > 0 && effects->len == before)
        look_as_dependent(object, world, effects);
}
