/* Who watches the queue hears of rows that changed, at most every NOTIFY_MS. */
#include "queue/internal.h"

void notify_row(struct queue *queue, const char *row)
{
    if (queue->watching.len == 0)
        return;
    map_set(queue->changed, str_from(row), queue);
    if (!loop_timer_active(queue->notify_timer))
        loop_timer_set(queue->notify_timer, NOTIFY_MS * NSEC_PER_MSEC);
}

void notify_unit(struct queue *queue, const struct unit *unit)
{
    notify_row(queue, unit_row(unit));
}

static void sweep(struct queue *queue)
{
    size_t kept = 0;

    VEC_EACH(&queue->watching, it) {
        if ((*it)->queue)
            queue->watching.v[kept++] = *it;
        else
            free(*it);
    }
    queue->watching.len = kept;
}

void notify_later(void *arg)
{
    struct queue *queue = arg;
    struct map *changed = queue->changed;
    CLEANUP(arena_done) struct arena arena = {0};
    const char **upsert = arena_alloc(&arena, sizeof(*upsert) * (map_len(changed) + 1));
    const char **remove = arena_alloc(&arena, sizeof(*remove) * (map_len(changed) + 1));
    struct queue_change change = {queue->revision, upsert, 0, remove, 0};
    struct str key;
    void *value;
    size_t at = 0;

    queue->changed = map_new();
    while (map_next(changed, &at, &key, &value)) {
        const char *uid = arena_strndup(&arena, key.s, key.len);

        if (phase_is_over(row_phase(queue, uid)))
            remove[change.remove_len++] = uid;
        else
            upsert[change.upsert_len++] = uid;
    }
    map_free(changed);
    queue->telling = true;
    for (size_t i = 0; i < queue->watching.len; i++)
        if (queue->watching.v[i]->queue)
            queue->watching.v[i]->fn(queue->watching.v[i]->arg, &change);
    queue->telling = false;
    sweep(queue);
}

struct queue_watch *queue_watch(struct queue *queue, queue_watch_fn fn, void *arg)
{
    struct queue_watch *watch = NEW(struct queue_watch);

    *watch = (struct queue_watch){queue, fn, arg};
    vec_push(&queue->watching, watch);
    return watch;
}

void queue_unwatch(struct queue_watch *watch)
{
    struct queue *queue;

    if (!watch)
        return;
    queue = TAKE_PTR(watch->queue);
    if (!queue->telling)
        sweep(queue);
}
