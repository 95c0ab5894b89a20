/* Work that holds cards and uses none of them. Its owner is told once for each of its pods; where the lab has
 * set so, it is cancelled when that goes on. A card whose use cannot be measured counts as used, and so does
 * one that somebody else uses as well. What was seen before a restart of the daemon does not count. */
#include "notify/inbox.h"
#include "queue/internal.h"

void queue_set_idle(struct queue *queue, int64_t warn_ms, int64_t stop_ms)
{
    queue->idle_warn_ms = warn_ms;
    queue->idle_stop_ms = stop_ms;
}

/* False: it has no card on this node. */
static bool cards_on(const struct queue *queue, const struct unit *unit, uint32_t node, bool *used)
{
    const struct placement *at = &unit_w(unit)->placement;
    bool there = false;

    for (uint32_t i = 0; i < at->len; i++) {
        if (at->v[i].node != node || at->v[i].card == SLOT_CPU || at->v[i].card >= NODE_GPUS_MAX)
            continue;
        there = true;
        *used = *used || queue->nodes.v[node].cards[at->v[i].card].busy_percent != 0;
    }
    return there;
}

/* "4 h", "90 min" */
static const char *long_text(int64_t ms, struct arena *arena)
{
    int64_t minutes = ms / 60000;

    return minutes >= 120 && minutes % 60 == 0
               ? arena_printf(arena, "%lld h", (long long)(minutes / 60))
               : arena_printf(arena, "%lld min", (long long)(minutes ? minutes : 1));
}

static void warn(struct queue *queue, struct unit *unit, int64_t now)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct object *object = row_object(queue, unit_row(unit));
    const char *text =
        arena_printf(&arena, "its GPUs have not been used for %s", long_text(queue->idle_warn_ms, &arena));

    if (queue->idle_stop_ms)
        text = arena_printf(&arena, "%s; it is cancelled after %s without use", text,
                            long_text(queue->idle_stop_ms, &arena));
    unit->idle_told = true;
    if (!inbox_tell(
            queue->config.inbox,
            &(struct inbox_item){.user = unit_w(unit)->user,
                                 .kind = INBOX_NOTICE,
                                 .job = unit_row(unit),
                                 .ns = unit->ns,
                                 .name = unit->job ? unit->job_name : unit->name,
                                 .text = text,
                                 .once = arena_printf(&arena, "idle %s", unit->pod ? unit->pod : unit->uid),
                                 .at_ms = now}))
        return;
    if (object)
        registry_event(queue->registry, object, "Warning", "IdleGPUs", "%s", text);
    log_info("%s/%s: %s", unit->ns, unit->name, text);
}

static void look_at(struct queue *queue, struct unit *unit, int64_t now)
{
    CLEANUP(free) char *row = NULL;
    int64_t idle = now - unit->used_at_ms;
    struct err err = {0};

    if (queue->idle_warn_ms && idle >= queue->idle_warn_ms && !unit->idle_told)
        warn(queue, unit, now);
    if (!queue->idle_stop_ms || idle < queue->idle_stop_ms || (queue->idle_warn_ms && !unit->idle_told))
        return;
    unit->used_at_ms = now; /* asked once */
    log_info("%s/%s: cancelled: its GPUs were idle", unit->ns, unit->name);
    row = mem_strdup(unit_row(unit));
    if (queue_cancel(queue, NULL, row, &err) < 0)
        log_warn("%s", err.msg);
}

void idle_look(struct queue *queue, uint32_t node, int64_t now)
{
    VEC(uint64_t) idle = {0};

    UNITS_HOLDING(queue, unit) {
        bool used = unit_w(unit)->phase != PHASE_RUNNING;

        if (!cards_on(queue, unit, node, &used))
            continue;
        if (used || !unit->used_at_ms || unit->used_at_ms > now) {
            unit->idle_told = unit->idle_told && !used;
            unit->used_at_ms = now;
        } else {
            vec_push(&idle, unit->id);
        }
    }
    VEC_EACH(&idle, id) {
        struct unit *unit = unit_by_id(queue, *id);

        if (unit)
            look_at(queue, unit, now);
    }
    vec_done(&idle);
}
