/* What happened, in the record log: transitions, epochs, who had which card when, how jobs ended. */
#include "base/break.h"
#include "control/util.h"
#include "queue/internal.h"
#include "queue/job_row.h"

static void put_doc(struct queue *queue, struct record *record, const struct json *doc)
{
    CLEANUP(buf_done) struct buf text = {0};

    json_write(&text, doc);
    record->doc = buf_view(&text);
    record->seq = records_put(queue, record);
}

void records_note(struct queue *queue)
{
    queue->shown_mark = store_mark(queue->store);
}

uint64_t queue_mark(const struct queue *queue)
{
    return queue->shown_mark;
}

static void unsaved_forget(struct queue *queue, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(queue->unsaved.v[i].job);
        free(queue->unsaved.v[i].doc);
    }
    queue->unsaved.len -= count;
    if (queue->unsaved.len)
        memmove(queue->unsaved.v, queue->unsaved.v + count, sizeof(*queue->unsaved.v) * queue->unsaved.len);
}

int64_t records_put(struct queue *queue, const struct record *record)
{
    int64_t seq = store_record(queue->store, record);

    if (record->type != RECORD_TRANSITION && record->type != RECORD_EPOCH)
        return seq;
    if (queue->unsaved.len >= UNSAVED_MAX) /* the older ones have long been written */
        unsaved_forget(queue, UNSAVED_MAX / 2);
    vec_push(&queue->unsaved, (struct unsaved){record->type, seq, record->time_ms, mem_strdup(record->job),
                                               mem_strndup(record->doc.s, record->doc.len)});
    return seq;
}

void records_transition(struct queue *queue, const struct unit *unit, const struct life_effect *effect)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = json_new_object(&arena);
    const struct workload *w = &effect->job->w;
    const struct life_stop *stop = effect->stop;
    struct record record = {.type = RECORD_TRANSITION,
                            .time_ms = queue_now(queue),
                            .job = unit_row(unit),
                            .user = w->user,
                            .tag = phase_name(effect->phase)};

    json_set_string(&arena, doc, "state", phase_name(effect->phase));
    json_set_string(&arena, doc, "reason", effect->text);
    json_set_string(&arena, doc, "by", stop ? stop->by : NULL);
    json_set_string(&arena, doc, "byName", stop ? stop->by_name : NULL);
    json_set_real(&arena, doc, "lostSeconds", (double)effect->lost_ms / 1000);
    json_set_int(&arena, doc, "gpus", workload_gpus(w));
    json_set_int(&arena, doc, "run", effect->job->run);
    json_set_int(&arena, doc, "epochsDone", w->epochs_done);
    json_set_string(&arena, doc, "name", unit->name);
    row_cards(queue, unit, &arena, json_set_array(&arena, doc, "cards"));
    put_doc(queue, &record, doc);
    if (!phase_is_waiting(effect->phase)) /* that it waits follows from its object alone */
        records_note(queue);
}

void records_epoch(struct queue *queue, const struct unit *unit, double seconds)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = json_new_object(&arena);
    const struct workload *w = unit_w(unit);
    struct record record = {
        .type = RECORD_EPOCH, .time_ms = queue_now(queue), .job = unit->uid, .user = w->user, .tag = ""};

    json_set_int(&arena, doc, "epoch", w->epochs_done);
    json_set_real(&arena, doc, "seconds", seconds);
    json_set_int(&arena, doc, "gpus", w->placement.len);
    json_set_int(&arena, doc, "run", unit->life->run);
    put_doc(queue, &record, doc);
    records_note(queue);
}

/* ---- spans: who had which card when ---- */

/* Which part of a card a slot is. */
static double share_of(const struct queue *queue, const struct slot *slot)
{
    const struct node *node = &queue->cluster.nodes[slot->node];

    if (slot->card < node->gpu_count && node->gpus[slot->card].mem_mib > slot->mib)
        return (double)slot->mib / node->gpus[slot->card].mem_mib;
    return 1;
}

static void put_span(struct queue *queue, struct unit *unit, const struct slot *at, int64_t seq,
                     int64_t start, int64_t end)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = json_new_object(&arena);
    const struct workload *w = unit_w(unit);
    struct record record = {.seq = seq,
                            .type = RECORD_SPAN,
                            .time_ms = start,
                            .until_ms = end,
                            .job = unit_row(unit),
                            .user = w->user,
                            .tag = queue->nodes.v[at->node].name};

    json_set_int(&arena, doc, "index", at->card);
    json_set_int(&arena, doc, "mib", at->mib);
    json_set_real(&arena, doc, "share", share_of(queue, at));
    json_set_string(&arena, doc, "name", w->name ? w->name : unit->name);
    json_set_string(&arena, doc, "unit", unit->uid);
    json_set_int(&arena, doc, "run", unit->life ? unit->life->run : 0);
    put_doc(queue, &record, doc);
    if (unit->job)
        job_row_span(queue, unit->job, start, end);
    if (!seq) {
        vec_push(&unit->spans, record.seq);
        vec_push(&unit->span_starts, start);
    }
}

static void spans_open(struct queue *queue, struct unit *unit, const struct slot *slots, uint32_t len)
{
    int64_t now = queue_now(queue);

    if (unit->spans.len || queue->loading)
        return;
    for (uint32_t i = 0; i < len; i++)
        if (slots[i].card != SLOT_CPU)
            put_span(queue, unit, &slots[i], 0, now, 0);
}

static void spans_close(struct queue *queue, struct unit *unit, const struct slot *slots, uint32_t len)
{
    int64_t now = queue_now(queue);
    size_t at = 0;

    for (uint32_t i = 0; i < len && at < unit->spans.len; i++)
        if (slots[i].card != SLOT_CPU) {
            put_span(queue, unit, &slots[i], unit->spans.v[at], unit->span_starts.v[at], now);
            at++;
        }
    unit->spans.len = unit->span_starts.len = 0;
}

void records_spans(struct queue *queue, struct unit *unit, const struct life_effect *effect)
{
    if (effect->on)
        spans_open(queue, unit, effect->slots, effect->slot_count);
    else
        spans_close(queue, unit, effect->slots, effect->slot_count);
}

/* Spans that were open when the daemon ended: of units that still hold, or to be closed. */
struct loading {
    struct queue *queue;
    VEC(struct record) lost;
    struct arena arena;
};

static bool load_span(void *arg, const struct record *record)
{
    struct loading *loading = arg;
    struct json *doc = NULL;
    struct unit *unit;

    if (record->until_ms || json_parse(record->doc, &loading->arena, &doc, NULL, NULL) < 0)
        return true;
    unit = unit_find(loading->queue, json_get_string(doc, "unit"));
    if (unit && phase_holds(unit_w(unit)->phase) && unit->spans.len < unit_w(unit)->placement.len &&
        json_int(json_get(doc, "run"), 0) == unit->life->run) {
        vec_push(&unit->spans, record->seq);
        vec_push(&unit->span_starts, record->time_ms);
        return true;
    }
    vec_push(&loading->lost, *record);
    loading->lost.v[loading->lost.len - 1].job = arena_strdup(&loading->arena, record->job);
    loading->lost.v[loading->lost.len - 1].user = arena_strdup(&loading->arena, record->user);
    loading->lost.v[loading->lost.len - 1].tag = arena_strdup(&loading->arena, record->tag);
    loading->lost.v[loading->lost.len - 1].doc.s =
        arena_strndup(&loading->arena, record->doc.s, record->doc.len);
    return true;
}

void records_spans_load(struct queue *queue)
{
    struct loading loading = {.queue = queue};
    struct record_query query = {.type = RECORD_SPAN, .from_ms = INT64_MAX};
    struct err err = {0};
    int64_t now = queue_now(queue);

    if (store_records(queue->store, &query, load_span, &loading, &err) < 0)
        log_warn("%s", err.msg);
    VEC_EACH(&loading.lost, it) {
        it->until_ms = now;
        store_record(queue->store, it);
        job_row_span(queue, it->job, it->time_ms, now);
    }
    vec_done(&loading.lost);
    arena_done(&loading.arena);
    UNITS_EACH(queue, unit)
        if (phase_holds(unit_w(unit)->phase))
            spans_open(queue, unit, unit_w(unit)->placement.v, unit_w(unit)->placement.len);
}

/* ---- the end ---- */

void records_end(struct queue *queue, struct unit *unit, enum phase phase)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct life_job *job = unit->life;
    struct json *doc = row_json(queue, NULL, unit_row(unit), &arena);
    struct record record = {.type = RECORD_JOB,
                            .time_ms = job->finished_ms ? job->finished_ms : queue_now(queue),
                            .job = unit_row(unit),
                            .user = job->w.user,
                            .tag = phase_name(phase)};
    bool holds = phase_holds(job->w.phase); /* processes that are left: it is over for people */
    int64_t held = holds ? record.time_ms - job->since_ms : 0;
    uint64_t attained = holds ? workload_attained(&job->w, record.time_ms) : job->w.attained_gpu_ms;

    if (!doc || (rule_broken("6") && phase == PHASE_CANCELLED))
        return;
    json_set_string(&arena, doc, "state", phase_name(phase));
    json_set_real(&arena, doc, "waitedSeconds", (double)job->waited_ms / 1000);
    json_set_real(&arena, doc, "ranSeconds", (double)(job->ran_ms + (held > 0 ? held : 0)) / 1000);
    json_set_real(&arena, doc, "gpuHours", (double)attained / 3600000);
    json_set_ms(&arena, doc, "finished", record.time_ms);
    put_doc(queue, &record, doc);
    records_ending_set(queue, unit_row(unit), doc);
}

void records_ending_set(struct queue *queue, const char *row, const struct json *doc)
{
    CLEANUP(buf_done) struct buf text = {0};

    json_write(&text, doc);
    records_note(queue);
    free(map_set(queue->ending, str_from(row), buf_take(&text)));
}

void records_ending_clear(struct queue *queue)
{
    struct str key;
    void *value;
    size_t at = 0;

    unsaved_forget(queue, queue->unsaved.len);
    if (map_len(queue->ending) == 0)
        return;
    while (map_next(queue->ending, &at, &key, &value))
        free(value);
    map_free(queue->ending);
    queue->ending = map_new();
}
