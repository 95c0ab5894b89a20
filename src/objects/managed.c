/* How it works: what a write changed or added becomes the writer's, and is taken from everybody else; what
 * it removed is nobody's. An object that has no managers at all although it exists stays so: somebody
 * cleared them, or it is older than they are. */
#include "objects/apply_managed.h"
#include "objects/patch.h"

#include <stdlib.h>

#define UPDATE_MANAGERS_MAX 10

/* ---- reading and writing entries ---- */

static bool read_entry(const struct json *entry, struct manager *ret)
{
    const char *operation = json_get_string(entry, "operation");
    const struct json *set = json_get(entry, "fieldsV1");
    struct manager manager = {
        .name = json_string_or(json_get(entry, "manager"), ""),
        .api_version = json_string_or(json_get(entry, "apiVersion"), ""),
        .subresource = json_string_or(json_get(entry, "subresource"), ""),
        .time = json_get_string(entry, "time"),
        .applied = streq(operation, "Apply"),
        .set = {.type = JSON_OBJECT},
    };

    if ((!manager.applied && !streq(operation, "Update")) || !*manager.api_version ||
        !streq(json_get_string(entry, "fieldsType"), "FieldsV1"))
        return false;
    if (set && set->type != JSON_NULL) {
        if (!set_is_valid(set))
            return false;
        manager.set = *set;
    }
    *ret = manager;
    return true;
}

struct manager *managers_add(struct managers *managers, struct manager manager)
{
    if (managers->len == managers->cap) {
        size_t cap = managers->cap ? managers->cap * 2 : 4;
        struct manager *v = arena_alloc(managers->arena, cap * sizeof(*v));

        if (managers->len)
            memcpy(v, managers->v, managers->len * sizeof(*v));
        managers->v = v;
        managers->cap = cap;
    }
    managers->v[managers->len] = manager;
    return &managers->v[managers->len++];
}

bool managers_read(struct managers *managers, const struct json *managed_fields)
{
    struct manager manager, *there;

    managers->len = 0;
    JSON_EACH(managed_fields, entry) {
        if (!read_entry(entry, &manager)) {
            managers->len = 0;
            return false;
        }
        there = managers_find(managers, &manager);
        if (there)
            *there = manager;
        else
            managers_add(managers, manager);
    }
    return true;
}

struct manager *managers_find(const struct managers *managers, const struct manager *like)
{
    for (size_t i = 0; i < managers->len; i++) {
        struct manager *m = &managers->v[i];

        if (m->applied == like->applied && streq(m->name, like->name) &&
            streq(m->subresource, like->subresource) &&
            (m->applied || streq(m->api_version, like->api_version)))
            return m;
    }
    return NULL;
}

static int text_cmp(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "");
}

static int manager_cmp(const void *a, const void *b)
{
    const struct manager *x = a, *y = b;
    int cmp = (int)y->applied - (int)x->applied;

    cmp = cmp ? cmp : text_cmp(x->time, y->time);
    cmp = cmp ? cmp : strcmp(x->name, y->name);
    cmp = cmp ? cmp : strcmp(x->api_version, y->api_version);
    return cmp ? cmp : strcmp(x->subresource, y->subresource);
}

static int older(const void *a, const void *b)
{
    const struct manager *x = *(struct manager *const *)a, *y = *(struct manager *const *)b;
    int cmp = text_cmp(x->time, y->time);

    return cmp ? cmp : strcmp(x->name, y->name);
}

/* About as many as its text has. */
static size_t set_bytes(const struct json *set)
{
    size_t bytes = 2;

    JSON_EACH_MEMBER(set, it)
        bytes += it->key_len + 4 + set_bytes(&it->value);
    return bytes;
}

/* Each manager's fields may be all of the object's: those of many are many times as much as it holds itself.
 * The oldest are forgotten where they are too many or too much. */
static void forget_oldest(struct managers *managers)
{
    struct manager **others = arena_alloc(managers->arena, (managers->len + 1) * sizeof(struct manager *));
    size_t count = 0, bytes = 0, left = SCHEMA_MANAGERS_MAX, kept = 0;

    for (size_t i = 0; i < managers->len; i++) {
        if (managers->v[i].wrote)
            left--;
        else
            others[count++] = &managers->v[i];
    }
    qsort(others, count, sizeof(struct manager *), older);
    while (count && left) { /* from the newest */
        bytes += set_bytes(&others[count - 1]->set);
        if (bytes > SCHEMA_MANAGED_BYTES)
            break;
        count--, left--;
    }
    for (size_t i = 0; i < count; i++)
        others[i]->set = (struct json){.type = JSON_OBJECT};
    for (size_t i = 0; i < managers->len; i++)
        if (!set_is_empty(&managers->v[i].set))
            managers->v[kept++] = managers->v[i];
    managers->len = kept;
}

void managers_write(struct managers *managers, struct json *doc)
{
    struct arena *arena = managers->arena;
    struct json *meta = json_need_object(arena, doc, "metadata"), *list;
    size_t kept = 0;

    if (!meta)
        return;
    for (size_t i = 0; i < managers->len; i++)
        if (!set_is_empty(&managers->v[i].set))
            managers->v[kept++] = managers->v[i];
    managers->len = kept;
    forget_oldest(managers);
    kept = managers->len;
    if (!kept) {
        json_remove(meta, "managedFields");
        return;
    }
    if (kept > 1)
        qsort(managers->v, kept, sizeof(*managers->v), manager_cmp);
    list = json_set_array(arena, meta, "managedFields");
    for (size_t i = 0; i < kept; i++) {
        const struct manager *m = &managers->v[i];
        struct json *entry = json_push_object(arena, list);

        json_set_string(arena, entry, "manager", m->name);
        json_set(arena, entry, "operation", json_of_string_ref(m->applied ? "Apply" : "Update"));
        json_set_string(arena, entry, "apiVersion", m->api_version);
        if (m->time)
            json_set_string(arena, entry, "time", m->time);
        json_set(arena, entry, "fieldsType", json_of_string_ref("FieldsV1"));
        json_set(arena, entry, "fieldsV1", m->set);
        if (*m->subresource)
            json_set_string(arena, entry, "subresource", m->subresource);
    }
}

/* ---- who owns what after a write ---- */

void managers_lose(struct managers *managers, const struct manager *except, const struct json *fields)
{
    if (set_is_empty(fields))
        return;
    for (size_t i = 0; i < managers->len; i++) {
        struct manager *m = &managers->v[i];

        if (m != except)
            m->set = set_combine(managers->arena, &m->set, fields, SET_DIFFERENCE);
    }
}

/* The oldest become one entry for each version; the first of a version stays itself until there is a
 * second. */
void managers_cap(struct managers *managers)
{
    struct manager **updates = arena_alloc(managers->arena, (managers->len + 1) * sizeof(struct manager *));
    size_t count = 0, left;

    for (size_t i = 0; i < managers->len; i++)
        if (!managers->v[i].applied && !set_is_empty(&managers->v[i].set))
            updates[count++] = &managers->v[i];
    if (count <= UPDATE_MANAGERS_MAX)
        return;
    qsort(updates, count, sizeof(struct manager *), older);
    left = count;
    for (size_t i = 0; i < count && left > UPDATE_MANAGERS_MAX; i++) {
        struct manager *first = NULL;

        for (size_t j = 0; j < i && !first; j++)
            if (!set_is_empty(&updates[j]->set) && streq(updates[j]->api_version, updates[i]->api_version))
                first = updates[j];
        if (!first)
            continue;
        first->name = "ancient-changes";
        first->subresource = "";
        first->set = set_combine(managers->arena, &first->set, &updates[i]->set, SET_UNION);
        first->time = updates[i]->time;
        updates[i]->set = (struct json){.type = JSON_OBJECT};
        left--;
    }
}

void managers_adopt(struct managers *managers, struct walk *walk, const struct schema_type *type,
                    const char *api_version, const char *now, const struct json *live)
{
    struct comparison all;

    walk_compare(walk, type, NULL, live, &all);
    managers_add(managers, (struct manager){
                               .name = "before-first-apply",
                               .api_version = api_version,
                               .subresource = "",
                               .time = now,
                               .set = set_combine(managers->arena, &all.added, &all.modified, SET_UNION),
                           });
}

/* `[]` and `[{}]` say: forget them all. */
static bool is_reset(const struct json *managed_fields)
{
    if (!json_is(managed_fields, JSON_ARRAY))
        return false;
    return managed_fields->len == 0 ||
           (managed_fields->len == 1 && json_is(managed_fields->items->v, JSON_OBJECT) &&
            managed_fields->items->v[0].len == 0);
}

/* The managers a write starts from: as the writer sent them, else as they were. */
static void read_current(struct managers *managers, const struct apply_request *request,
                         const struct json *before, const struct json *doc)
{
    const struct json *sent = json_at(doc, "metadata.managedFields");

    if (!*request->subresource) {
        if (is_reset(sent))
            return;
        if (managers_read(managers, sent) && managers->len)
            return;
    }
    before = json_at(before, "metadata.managedFields");
    managers_read(managers, json_copy(managers->arena, before)); /* doc may outlive before */
}

static void take_fields(struct managers *managers, const struct apply_request *request,
                        const struct json *fields)
{
    struct manager me = {
        .name = request->manager && *request->manager ? request->manager : "unknown",
        .api_version = request->api_version,
        .subresource = request->subresource,
        .time = request->now,
        .wrote = true,
        .set = *fields,
    };
    struct manager *mine = managers_find(managers, &me);

    if (mine)
        mine->wrote = true;
    if (set_is_empty(fields))
        return;
    if (!mine) {
        managers_add(managers, me);
        return;
    }
    mine->set = set_combine(managers->arena, &mine->set, fields, SET_UNION);
    mine->time = me.time;
}

void managed_fields_update(const struct apply_request *request, struct arena *arena,
                           const struct json *before, struct json *doc)
{
    CLEANUP(walk_done)
    struct walk walk = {.arena = arena, .ignored = *request->subresource ? "spec" : "status"};
    struct managers managers = {.arena = arena};
    struct json *meta = json_need_object(arena, doc, "metadata");
    struct comparison difference;
    struct json changed;

    if (!meta)
        return;
    read_current(&managers, request, before, doc);
    json_remove(meta, "managedFields");
    if (!managers.len && before)
        return;
    walk_compare(&walk, request->type, before, doc, &difference);
    changed = set_is_empty(&difference.modified)
                  ? difference.added
                  : set_combine(arena, &difference.modified, &difference.added, SET_UNION);
    managers_lose(&managers, NULL, &changed);
    managers_lose(&managers, NULL, &difference.removed);
    take_fields(&managers, request, &changed);
    managers_cap(&managers);
    managers_write(&managers, doc);
}
