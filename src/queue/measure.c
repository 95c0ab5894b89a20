/* What the host sees of cards and of who uses them. A job past its reservation is warned, then stopped; those
 * beside it are left alone. */
#include "queue/internal.h"

#define CARD_RECORD_MS   60000
#define MEMORY_RECORD_MS 30000

static struct unit *unit_of_pod(struct queue *queue, const char *pod_uid)
{
    struct unit *unit = unit_find(queue, pod_uid);

    if (unit)
        return unit;
    UNITS_EACH(queue, it)
        if (it->pod && streq(it->pod, pod_uid))
            return it;
    return NULL;
}

static void record_memory(struct queue *queue, struct unit *unit, int64_t now)
{
    CLEANUP(free) char *doc = mem_printf("{\"mib\":%lld}", (long long)unit->now_mib);
    struct record record = {.type = RECORD_MEMORY,
                            .time_ms = now,
                            .job = unit_row(unit),
                            .user = unit->w.user,
                            .doc = str_from(doc)};

    if (now - unit->memory_at_ms < MEMORY_RECORD_MS)
        return;
    unit->memory_at_ms = now;
    store_record(queue->store, &record);
}

static const struct slot *slot_of(const struct unit *unit, uint32_t node, uint32_t card)
{
    for (uint32_t i = 0; i < unit->w.placement.len; i++)
        if (unit->w.placement.v[i].node == node && unit->w.placement.v[i].card == card)
            return &unit->w.placement.v[i];
    return NULL;
}

/* Shares only: who has a card alone harms nobody. */
static void judge(struct queue *queue, struct unit *unit, const struct slot *slot, int64_t mib)
{
    CLEANUP(free) char *text = NULL;

    if (!unit->asked_mib || unit->w.demand.exclusive || !slot || mib <= slot->mib) {
        unit->over_times = 0;
        return;
    }
    unit->over_times++;
    text = mem_printf("uses %lld MiB on card %u, more than the %u MiB it reserved", (long long)mib,
                      slot->card, slot->mib);
    if (!unit->over_warned) {
        unit->over_warned = true;
        tell_owner(queue, unit, "Warning", "OverReservation", "%s; it will be stopped if it goes on", text);
        if (mib * 100 <= (int64_t)slot->mib * OVER_STOP_PERCENT)
            return;
    }
    if (unit->over_times < 2 ||
        (unit->over_times < OVER_STOP_TIMES && mib * 100 <= (int64_t)slot->mib * OVER_STOP_PERCENT))
        return;
    act_stop(queue, unit, STOP_MEMORY, NULL, text);
}

static void one_memory(struct queue *queue, uint32_t node, const struct queue_memory *memory, int64_t now)
{
    struct unit *unit = unit_of_pod(queue, memory->pod_uid);
    const struct slot *slot = unit ? slot_of(unit, node, memory->card) : NULL;

    if (!unit || memory->mib < 0 || !phase_holds(unit->w.phase))
        return;
    unit->now_mib = memory->mib;
    if (memory->mib > unit->peak_mib) {
        unit->peak_mib = memory->mib;
        notify_unit(queue, unit);
    }
    record_memory(queue, unit, now);
    if (slot && !unit->limited && queue->config.limit && unit->asked_mib && !unit->w.demand.exclusive)
        unit->limited = queue->config.limit(queue->config.arg, memory->pod_uid, memory->card, slot->mib);
    judge(queue, unit, slot, memory->mib);
}

static void record_card(struct queue *queue, uint32_t node, const struct queue_card *card, int64_t now)
{
    const struct node *of = &queue->cluster.nodes[node];
    CLEANUP(buf_done) struct buf doc = {0};
    struct record record = {.type = RECORD_CARD, .time_ms = now, .tag = of->name};

    buf_printf(&doc, "{\"index\":%u", card->card);
    if (card->busy_percent >= 0)
        buf_printf(&doc, ",\"compute\":%.2f", card->busy_percent / 100.0);
    if (card->used_mib >= 0 && card->card < of->gpu_count && of->gpus[card->card].mem_mib)
        buf_printf(&doc, ",\"memory\":%.3f", (double)card->used_mib / of->gpus[card->card].mem_mib);
    buf_putc(&doc, '}');
    record.doc = buf_view(&doc);
    store_record(queue->store, &record);
}

void queue_measured(struct queue *queue, const char *node, const struct queue_card *cards, size_t card_count,
                    const struct queue_memory *memory, size_t memory_count)
{
    uint32_t at = world_node(queue, node);
    int64_t now = now_ms();
    bool record = now - queue->cards_recorded_at >= CARD_RECORD_MS;

    if (at == SCHED_NONE)
        return;
    for (size_t i = 0; i < card_count; i++) {
        if (cards[i].card >= NODE_GPUS_MAX)
            continue;
        queue->nodes.v[at].cards[cards[i].card] =
            (struct card_state){cards[i].used_mib, cards[i].busy_percent};
        if (record && (cards[i].used_mib >= 0 || cards[i].busy_percent >= 0))
            record_card(queue, at, &cards[i], now);
    }
    if (record)
        queue->cards_recorded_at = now;
    for (size_t i = 0; i < memory_count; i++)
        one_memory(queue, at, &memory[i], now);
}
