/* A heap by the time of last sight; the map finds an event that is seen again. */
#include "control/events.h"

#include "base/heap.h"
#include "base/map.h"
#include "base/vec.h"
#include "control/util.h"

#include <stddef.h>

struct entry {
    int64_t seen_at;
    size_t place;
    char *ns, *name, *uid;
};

struct event_queue {
    struct heap by_time;
    struct map *by_uid;
    int64_t age_sec;
};

static bool entry_before(const void *a, const void *b)
{
    const struct entry *left = a, *right = b;

    return left->seen_at != right->seen_at ? left->seen_at < right->seen_at
                                           : strcmp(left->uid, right->uid) < 0;
}

static void entry_free(struct entry *entry)
{
    free(entry->ns);
    free(entry->name);
    free(entry->uid);
    free(entry);
}

struct event_queue *event_queue_new(void)
{
    struct event_queue *queue = NEW(struct event_queue);

    heap_init(&queue->by_time, entry_before, offsetof(struct entry, place));
    queue->by_uid = map_new();
    queue->age_sec = EVENTS_AGE_SEC;
    return queue;
}

void event_queue_set_age(struct event_queue *queue, int64_t age_sec)
{
    queue->age_sec = age_sec ? age_sec : INT64_MAX;
}

void event_queue_free(struct event_queue *queue)
{
    struct str key;
    void *value;
    size_t at = 0;

    if (!queue)
        return;
    heap_done(&queue->by_time);
    while (map_next(queue->by_uid, &at, &key, &value))
        entry_free(value);
    map_free(queue->by_uid);
    free(queue);
}

int64_t event_time(const struct json *doc)
{
    static const char *const paths[] = {"metadata.creationTimestamp", "eventTime", "lastTimestamp",
                                        "series.lastObservedTime"};
    int64_t last = 0;

    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        int64_t t = time_of(json_at(doc, paths[i]), 0);

        last = t > last ? t : last;
    }
    return last;
}

void event_queue_put(struct event_queue *queue, const struct object *event, int64_t seen_at)
{
    struct entry *entry = map_get(queue->by_uid, str_from(event->uid));

    if (entry) {
        entry->seen_at = seen_at;
        heap_moved(&queue->by_time, entry);
        return;
    }
    entry = NEW(struct entry);
    entry->seen_at = seen_at;
    entry->ns = mem_strdup(event->ns);
    entry->name = mem_strdup(event->name);
    entry->uid = mem_strdup(event->uid);
    map_set(queue->by_uid, str_from(entry->uid), entry);
    heap_push(&queue->by_time, entry);
}

static void forget(struct event_queue *queue, struct entry *entry)
{
    map_remove(queue->by_uid, str_from(entry->uid));
    heap_remove(&queue->by_time, entry);
    entry_free(entry);
}

void event_queue_remove(struct event_queue *queue, const char *uid)
{
    struct entry *entry = map_get(queue->by_uid, str_from(uid));

    if (entry)
        forget(queue, entry);
}

static void delete_event(struct event_queue *queue, struct entry *entry, struct effects *effects)
{
    struct effect *effect = effects_add(effects, EFFECT_DELETE);

    if (!effect)
        return;
    effect->kind = kind_by_id(KIND_EVENT);
    effect->ns = arena_strdup(effects->arena, entry->ns);
    effect->name = arena_strdup(effects->arena, entry->name);
    effect->uid = arena_strdup(effects->arena, entry->uid);
    forget(queue, entry);
}

int64_t event_queue_look(struct event_queue *queue, int64_t now, struct effects *effects)
{
    struct entry *entry;

    while ((entry = heap_first(&queue->by_time)) && effects_room(effects) > 0) {
        if (clock_after(entry->seen_at, queue->age_sec) > now)
            break;
        delete_event(queue, entry, effects);
    }
    entry = heap_first(&queue->by_time);
    return entry && queue->age_sec < INT64_MAX ? clock_after(entry->seen_at, queue->age_sec) : 0;
}

static int by_time(const void *a, const void *b)
{
    return entry_before(*(void *const *)a, *(void *const *)b) ? -1 : 1;
}

void event_queue_trim(struct event_queue *queue, const char *ns, struct effects *effects)
{
    VEC(struct entry *) all = {0};

    for (size_t i = 0; i < queue->by_time.len; i++) {
        struct entry *entry = queue->by_time.v[i];

        if (streq(entry->ns, ns))
            vec_push(&all, entry);
    }
    if (all.len > EVENTS_PER_NS_MAX) {
        size_t going = all.len - EVENTS_PER_NS_MAX + EVENTS_TRIM;

        qsort(all.v, all.len, sizeof(*all.v), by_time);
        for (size_t i = 0; i < going && effects_room(effects) > 0; i++)
            delete_event(queue, all.v[i], effects);
    }
    vec_done(&all);
}

size_t event_queue_len(const struct event_queue *queue)
{
    return queue->by_time.len;
}

bool event_queue_trim_all(struct event_queue *queue, struct effects *effects)
{
    bool many = queue->by_time.len > EVENTS_MAX;

    while (many && queue->by_time.len > EVENTS_MAX - EVENTS_TRIM && effects_room(effects) > 0)
        delete_event(queue, heap_first(&queue->by_time), effects);
    return many;
}
