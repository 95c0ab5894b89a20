#include "control/resources.h"

static struct resource *place_of(const struct resource_list *list, const char *name, bool *found)
{
    size_t low = 0, high = list->len;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (strcmp(list->v[mid].name, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    *found = low < list->len && strcmp(list->v[low].name, name) == 0;
    return list->v + low;
}

struct quantity *resource_list_find(const struct resource_list *list, const char *name)
{
    bool found;
    struct resource *place = list->len ? place_of(list, name, &found) : NULL;

    return place && found ? &place->amount : NULL;
}

static struct quantity *need(struct resource_list *list, struct arena *arena, const char *name, bool *made)
{
    bool found = false;
    size_t at = list->len ? (size_t)(place_of(list, name, &found) - list->v) : 0;

    *made = !found;
    if (found)
        return &list->v[at].amount;
    if (list->len == list->cap) {
        size_t cap = list->cap ? 2 * list->cap : 8;
        struct resource *v = arena_alloc(arena, cap * sizeof(*v));

        if (list->len)
            memcpy(v, list->v, list->len * sizeof(*v));
        list->v = v;
        list->cap = cap;
    }
    memmove(list->v + at + 1, list->v + at, (list->len - at) * sizeof(*list->v));
    list->len++;
    list->v[at] = (struct resource){.name = name};
    return &list->v[at].amount;
}

void resource_list_set(struct resource_list *list, struct arena *arena, const char *name,
                       const struct quantity *amount)
{
    bool made;

    *need(list, arena, name, &made) = *amount;
}

void resource_list_add(struct resource_list *list, struct arena *arena, const char *name,
                       const struct quantity *amount)
{
    bool made;
    struct quantity *sum = need(list, arena, name, &made);

    if (made)
        *sum = *amount;
    else
        quantity_add(sum, amount);
}

void resource_list_max(struct resource_list *list, struct arena *arena, const char *name,
                       const struct quantity *amount)
{
    bool made;
    struct quantity *max = need(list, arena, name, &made);

    if (made || quantity_cmp(amount, max) > 0)
        *max = *amount;
}

void resource_list_read(struct resource_list *list, struct arena *arena, const struct json *doc)
{
    JSON_EACH_MEMBER(doc, it) {
        struct quantity amount;

        if (quantity_from_json(&it->value, &amount))
            resource_list_add(list, arena, it->key, &amount);
    }
}

void resource_list_write(const struct resource_list *list, struct arena *arena, struct json *parent,
                         const char *key)
{
    struct json *doc = json_set_object(arena, parent, key);
    char text[QUANTITY_TEXT_MAX];

    RESOURCE_LIST_EACH(list, it)
        json_set_string(arena, doc, it->name, quantity_format(&it->amount, text));
}

static void add_all(struct resource_list *list, struct arena *arena, const struct resource_list *more)
{
    RESOURCE_LIST_EACH(more, it)
        resource_list_add(list, arena, it->name, &it->amount);
}

/* Init containers run one after another, each beside the sidecars that were started before it. */
static void add_init_containers(const struct json *containers, const char *which, struct arena *arena,
                                struct resource_list *ret)
{
    struct resource_list peak = {0}, sidecars = {0};

    JSON_EACH(containers, it) {
        struct resource_list own = {0};

        resource_list_read(&own, arena, json_get(json_get(it, "resources"), which));
        if (streq(json_get_string(it, "restartPolicy"), "Always")) {
            add_all(ret, arena, &own);
            add_all(&sidecars, arena, &own);
            own = (struct resource_list){0};
        }
        add_all(&own, arena, &sidecars);
        RESOURCE_LIST_EACH(&own, one)
            resource_list_max(&peak, arena, one->name, &one->amount);
    }
    RESOURCE_LIST_EACH(&peak, one)
        resource_list_max(ret, arena, one->name, &one->amount);
}

void pod_resources(const struct json *spec, const char *which, bool with_overhead, struct arena *arena,
                   struct resource_list *ret)
{
    *ret = (struct resource_list){0};
    JSON_EACH(json_get(spec, "containers"), it)
        resource_list_read(ret, arena, json_get(json_get(it, "resources"), which));
    add_init_containers(json_get(spec, "initContainers"), which, arena, ret);
    if (with_overhead && (streq(which, "requests") || ret->len > 0))
        resource_list_read(ret, arena, json_get(spec, "overhead"));
}

bool is_extended_resource(const char *name)
{
    const char *slash = strchr(name, '/');

    return slash && !strstr(name, "kubernetes.io/") && !starts_with(name, "requests.");
}
