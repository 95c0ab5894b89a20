/* What the host sees of cards and of who uses them. */
#include "queue/internal.h"

#define CARD_RECORD_MS   60000
#define MEMORY_RECORD_MS 30000

/* Also where the clock was set back. */
static bool is_due(int64_t last, int64_t every, int64_t now)
{
    return now - last >= every || now < last;
}

static void record_memory(struct queue *queue, struct unit *unit, int64_t now)
{
    CLEANUP(free) char *doc = mem_printf("{\"mib\":%lld}", (long long)unit->life->now_mib);
    struct record record = {.type = RECORD_MEMORY,
                            .time_ms = now,
                            .job = unit_row(unit),
                            .user = unit_w(unit)->user,
                            .doc = str_from(doc)};

    if (!is_due(unit->memory_at_ms, MEMORY_RECORD_MS, now))
        return;
    unit->memory_at_ms = now;
    store_record(queue->store, &record);
}

static uint64_t card_bit(uint32_t card)
{
    return UINT64_C(1) << card;
}

static struct slot slot_of(const struct unit *unit, uint32_t node, uint32_t card)
{
    const struct placement *at = &unit_w(unit)->placement;

    for (uint32_t i = 0; i < at->len; i++)
        if (at->v[i].node == node && at->v[i].card == card)
            return at->v[i];
    return (struct slot){node, card, 0};
}

static void one_memory(struct queue *queue, uint32_t node, const struct queue_memory *memory, int64_t now)
{
    struct unit *unit = unit_of_pod(queue, memory->pod_uid);
    struct slot slot;
    int64_t peak;

    if (!unit || !unit->life || memory->mib < 0 || !phase_holds(unit_w(unit)->phase))
        return;
    slot = slot_of(unit, node, memory->card);
    peak = unit->life->peak_mib;
    if (slot.mib && memory->card < NODE_GPUS_MAX && !(unit->limited & card_bit(memory->card)) &&
        queue->config.limit && unit->life->asked_mib && !unit_w(unit)->demand.exclusive &&
        queue->config.limit(queue->config.arg, memory->pod_uid, memory->card, slot.mib))
        unit->limited |= card_bit(memory->card);
    (void)queue_step(
        queue, &(struct life_event){.type = LIFE_MEMORY, .id = unit->id, .slot = slot, .mib = memory->mib},
        NULL);
    unit = unit_of_pod(queue, memory->pod_uid);
    if (!unit || !unit->life)
        return;
    if (unit->life->peak_mib > peak)
        notify_unit(queue, unit);
    record_memory(queue, unit, now);
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
    int64_t now = queue_now(queue);
    bool record = is_due(queue->cards_recorded_at, CARD_RECORD_MS, now);

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
    idle_look(queue, at, now);
}
