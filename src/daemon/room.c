/* What is counted is at least what is there: every admitted write adds to it, and only where that would be
 * too much the objects themselves are added up again. */
#include "daemon/room.h"

#include "base/map.h"
#include "base/mem.h"
#include "objects/names.h"
#include "registry/access.h"

#define SPACES_MAX 10000 /* namespaces that are counted; beyond, all are forgotten and counted again */

struct room {
    struct registry *registry;
    size_t limit;
    struct map *used; /* namespace → size_t */
};

static void forget(struct room *room)
{
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(room->used, &at, &key, &value))
        free(value);
    map_free(room->used);
    room->used = map_new();
}

static size_t add_up(const struct room *room, const char *ns)
{
    struct store *store = registry_store(room->registry);
    size_t sum = 0;

    for (size_t i = 0; i < kind_count; i++)
        if (kinds[i].stored && kinds[i].namespaced) {
            struct store_slice slice = store_list(store, kinds[i].id, ns);

            OBJECTS_EACH(slice, it)
                sum += (*it)->text_len;
        }
    return sum;
}

static size_t *used_of(struct room *room, const char *ns)
{
    size_t *used = map_get(room->used, str_from(ns));

    if (used)
        return used;
    if (map_len(room->used) >= SPACES_MAX)
        forget(room);
    used = NEW(size_t);
    *used = add_up(room, ns);
    map_set(room->used, str_from(ns), used);
    return used;
}

/* What Berth makes for somebody counts as well: each pod of a Job holds the Job's whole template. */
static bool is_held(const struct write *write, const struct json *doc, const struct object *old)
{
    return write->who ? !access_is_admin(write->who) : !old && work_owner(doc);
}

static int admit(void *arg, const struct write *write, const struct kind *kind, const char *ns,
                 struct json *doc, const struct object *old)
{
    struct room *room = arg;
    CLEANUP(buf_done) struct buf text = {0};
    size_t *used, before = old ? old->text_len : 0;

    if (!kind->namespaced || !is_held(write, doc, old))
        return 0;
    json_write(&text, doc);
    used = used_of(room, ns);
    if (text.len > before && *used + text.len > room->limit)
        *used = add_up(room, ns);
    if (text.len > before && *used - (before < *used ? before : *used) + text.len > room->limit)
        return failure_forbidden(
            write->failure, write->arena, kind->group, kind->plural,
            json_string_or(json_at(doc, "metadata.name"), ""),
            arena_printf(write->arena,
                         "the objects of namespace \"%s\" have %zu of %zu MiB, and this one has %zu bytes: "
                         "delete some that are not needed",
                         ns, *used >> 20, room->limit >> 20, text.len));
    if (!write->dry_run)
        *used += text.len;
    return 0;
}

struct room *room_new(struct registry *registry, size_t limit)
{
    struct room *room = NEW(struct room);

    room->registry = registry;
    room->limit = limit;
    room->used = map_new();
    registry_add_admission(registry, admit, room);
    return room;
}

void room_free(struct room *room)
{
    if (!room)
        return;
    forget(room);
    map_free(room->used);
    free(room);
}
