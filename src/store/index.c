/* One sorted array of pointers per kind: lists are slices of it, look-ups are binary searches, and an
 * insert moves the pointers behind it (8 bytes an object, one memmove).
 *
 * Every uid has a slot that outlives the states of its object, so that an update touches neither the
 * uid map nor the owners' lists, unless the owners themselves change. A slot knows its place in each
 * owner's list: leaving one is a swap with the last. */
#include "store/index.h"

#include "base/map.h"
#include "base/vec.h"

#include <assert.h>

struct slot;

/* One of an owner's dependents: which of the slot's memberships this is, so that both ends are found at
 * once however many owners and dependents there are. */
struct dependent {
    struct slot *slot;
    size_t at;
};

struct owner {
    char *uid;
    VEC(struct dependent) dependents;
};

struct membership {
    struct owner *owner;
    size_t place;
};

struct slot {
    struct object *object; /* borrowed from the sorted array */
    size_t owner_count;
    struct membership *owners;
};

typedef VEC(struct object *) objects;

struct index {
    objects kinds[KIND_MAX];
    struct map *slots;  /* uid → struct slot */
    struct map *owners; /* uid → struct owner */
};

struct index *index_new(void)
{
    struct index *index = NEW(struct index);

    index->slots = map_new();
    index->owners = map_new();
    return index;
}

void index_free(struct index *index)
{
    void *value;
    size_t at = 0;

    if (!index)
        return;
    while (map_next(index->slots, &at, &(struct str){0}, &value)) {
        struct slot *slot = value;

        free(slot->owners);
        free(slot);
    }
    at = 0;
    while (map_next(index->owners, &at, &(struct str){0}, &value)) {
        struct owner *owner = value;

        vec_done(&owner->dependents);
        free(owner->uid);
        free(owner);
    }
    map_free(index->slots);
    map_free(index->owners);
    for (size_t i = 0; i < KIND_MAX; i++) {
        VEC_EACH(&index->kinds[i], it)
            object_unref(*it);
        vec_done(&index->kinds[i]);
    }
    free(index);
}

static int key_cmp(const struct object *object, const char *ns, const char *name)
{
    int cmp = strcmp(object->ns, ns);

    return cmp ? cmp : strcmp(object->name, name);
}

/* First place whose key is not before (ns, name). */
static size_t place_of(struct object *const *v, size_t len, const char *ns, const char *name)
{
    size_t low = 0, high = len;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (key_cmp(v[mid], ns, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static struct owner *owner_need(struct index *index, struct str uid)
{
    struct owner *owner = map_get(index->owners, uid);

    if (!owner) {
        owner = NEW(struct owner);
        owner->uid = mem_strndup(uid.s, uid.len);
        map_set(index->owners, uid, owner);
    }
    return owner;
}

static void slot_join(struct index *index, struct slot *slot, const struct object *object)
{
    slot->owner_count = object->owner_count;
    if (slot->owner_count == 0)
        return;
    slot->owners = mem_alloc(slot->owner_count * sizeof(*slot->owners));
    for (size_t i = 0; i < slot->owner_count; i++) {
        struct owner *owner = owner_need(index, object->owners[i]);

        slot->owners[i] = (struct membership){owner, owner->dependents.len};
        vec_push(&owner->dependents, (struct dependent){slot, i});
    }
}

static void slot_leave(struct index *index, struct slot *slot)
{
    for (size_t i = 0; i < slot->owner_count; i++) {
        struct owner *owner = slot->owners[i].owner;
        size_t place = slot->owners[i].place, last = owner->dependents.len - 1;
        struct dependent moved = owner->dependents.v[last];

        owner->dependents.v[place] = moved;
        moved.slot->owners[moved.at].place = place;
        if (--owner->dependents.len == 0) {
            map_remove(index->owners, str_from(owner->uid));
            vec_done(&owner->dependents);
            free(owner->uid);
            free(owner);
        }
    }
    free(slot->owners);
    slot->owners = NULL;
    slot->owner_count = 0;
}

static bool same_owners(const struct slot *slot, const struct object *object)
{
    if (slot->owner_count != object->owner_count)
        return false;
    for (size_t i = 0; i < slot->owner_count; i++)
        if (!str_is(object->owners[i], slot->owners[i].owner->uid))
            return false;
    return true;
}

static void uid_put(struct index *index, struct object *object)
{
    struct str uid = str_from(object->uid);
    struct slot *slot = map_get(index->slots, uid);

    if (!slot) {
        slot = NEW(struct slot);
        map_set(index->slots, uid, slot);
    }
    slot->object = object;
    if (!same_owners(slot, object)) {
        slot_leave(index, slot);
        slot_join(index, slot, object);
    }
}

static void uid_remove(struct index *index, const struct object *object)
{
    struct slot *slot = map_get(index->slots, str_from(object->uid));

    if (!slot || slot->object != object)
        return;
    map_remove(index->slots, str_from(object->uid));
    slot_leave(index, slot);
    free(slot);
}

struct object *index_put(struct index *index, struct object *object)
{
    objects *of_kind = &index->kinds[object->kind->id];
    size_t at = place_of(of_kind->v, of_kind->len, object->ns, object->name);
    struct object *before = NULL;

    if (at < of_kind->len && key_cmp(of_kind->v[at], object->ns, object->name) == 0) {
        before = of_kind->v[at];
        of_kind->v[at] = object;
        if (strcmp(before->uid, object->uid) != 0)
            uid_remove(index, before);
    } else {
        vec_insert(of_kind, at, object);
    }
    uid_put(index, object);
    return before;
}

struct object *index_remove(struct index *index, int kind, const char *ns, const char *name)
{
    objects *of_kind = &index->kinds[kind];
    size_t at = place_of(of_kind->v, of_kind->len, ns, name);
    struct object *object;

    if (at == of_kind->len || key_cmp(of_kind->v[at], ns, name) != 0)
        return NULL;
    object = of_kind->v[at];
    vec_remove(of_kind, at);
    uid_remove(index, object);
    return object;
}

struct object *index_get(const struct index *index, int kind, const char *ns, const char *name)
{
    const objects *of_kind = &index->kinds[kind];
    size_t at = place_of(of_kind->v, of_kind->len, ns, name);

    return at < of_kind->len && key_cmp(of_kind->v[at], ns, name) == 0 ? of_kind->v[at] : NULL;
}

struct object *index_by_uid(const struct index *index, const char *uid)
{
    const struct slot *slot = map_get(index->slots, str_from(uid));

    return slot ? slot->object : NULL;
}

/* How many objects at the front of v are in namespace ns. */
static size_t namespace_len(struct object *const *v, size_t len, const char *ns)
{
    size_t low = 0, high = len;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (strcmp(v[mid]->ns, ns) == 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct store_slice index_list(const struct index *index, int kind, const char *ns)
{
    const objects *of_kind = &index->kinds[kind];
    size_t at;

    if (!ns || of_kind->len == 0)
        return (struct store_slice){of_kind->v, of_kind->len};
    at = place_of(of_kind->v, of_kind->len, ns, "");
    return (struct store_slice){of_kind->v + at, namespace_len(of_kind->v + at, of_kind->len - at, ns)};
}

size_t store_slice_after(struct store_slice slice, const char *ns, const char *name)
{
    size_t at = place_of(slice.v, slice.len, ns, name);

    return at < slice.len && key_cmp(slice.v[at], ns, name) == 0 ? at + 1 : at;
}

void index_dependents(const struct index *index, const char *uid,
                      void (*fn)(void *arg, const struct object *object), void *arg)
{
    struct owner *owner = map_get(index->owners, str_from(uid));

    if (!owner)
        return;
    VEC_EACH(&owner->dependents, it)
        fn(arg, it->slot->object);
}
