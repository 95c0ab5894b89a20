/* Why jobs wait. All of it is made on request; what the objects themselves say is renewed now and then, a few
 * at a time, so that a long queue does not turn every change into thousands of writes. */
#include "control/util.h"
#include "queue/internal.h"

/* Of all that run in order, then of all that wait. */
static void add_up(struct queue *queue)
{
    const struct sched_view *view = live_view(queue->live);
    int64_t sum = 0;
    uint32_t job;

    queue->global_of.len = 0;
    vec_reserve(&queue->global_of, view->job_count + 1);
    memset(queue->global_of.v, 0, sizeof(*queue->global_of.v) * (view->job_count + 1));
    queue->global_of.len = view->job_count;
    for (size_t i = 0; (job = live_running(queue->live, i)) != SCHED_NONE; i++)
        queue->global_of.v[job] = sum += live_milli(queue->live, view->jobs[job].id);
    VEC_EACH(&queue->plan.waits, it)
        queue->global_of.v[it->job] = sum += live_milli(queue->live, view->jobs[it->job].id);
}

int64_t explain_global(struct queue *queue, const struct unit *unit)
{
    uint32_t job = live_find(queue->live, unit->w.id);

    explain_plan(queue);
    return job != SCHED_NONE && job < queue->global_of.len ? queue->global_of.v[job] : 0;
}

const struct plan *explain_plan(struct queue *queue)
{
    int64_t now = now_ms();

    if (queue->plan_at && queue->plan_revision == queue->revision && now - queue->plan_at < PLAN_AGE_MS)
        return &queue->plan;
    queue->plan.actions.len = queue->plan.waits.len = 0;
    arena_reset(&queue->plan.arena);
    live_plan(queue->live, now, &queue->plan);
    queue->wait_of.len = 0;
    vec_reserve(&queue->wait_of, live_view(queue->live)->job_count + 1);
    memset(queue->wait_of.v, 0, sizeof(*queue->wait_of.v) * (live_view(queue->live)->job_count + 1));
    queue->wait_of.len = live_view(queue->live)->job_count;
    for (uint32_t i = 0; i < queue->plan.waits.len; i++)
        queue->wait_of.v[queue->plan.waits.v[i].job] = i + 1;
    add_up(queue);
    queue->plan_at = now;
    queue->plan_revision = queue->revision;
    return &queue->plan;
}

const struct wait *explain_find(struct queue *queue, const struct unit *unit)
{
    const struct plan *plan = explain_plan(queue);
    uint32_t job = live_find(queue->live, unit->w.id);

    if (job == SCHED_NONE || job >= queue->wait_of.len || !queue->wait_of.v[job])
        return NULL;
    return &plan->waits.v[queue->wait_of.v[job] - 1];
}

static bool any_ready(const struct queue *queue)
{
    VEC_EACH(&queue->nodes, it)
        if (it->ready)
            return true;
    return false;
}

void explain_text(struct queue *queue, const struct wait *wait, struct buf *buf)
{
    if (any_ready(queue))
        sched_wait_text(live_view(queue->live), wait, buf);
    else
        buf_puts(buf, "waits: no node is ready to run it");
}

/* ---- what objects say ---- */

struct saying {
    struct unit *unit;
    const struct wait *wait;
    const char *text;
    bool changed;
};

static bool edit_pod(void *arg, struct arena *arena, struct json *doc)
{
    struct saying *s = arg;

    if (json_string_or(json_at(doc, "spec.nodeName"), "")[0])
        return false;
    s->changed = pod_set_scheduled(
        arena, doc, "Unschedulable",
        arena_printf(arena, "position %u in the queue: %s", s->wait->position, s->text), clock_now());
    return s->changed;
}

static bool edit_training(void *arg, struct arena *arena, struct json *doc)
{
    struct saying *s = arg;
    struct json *status = json_need_object(arena, doc, "status");
    char time[CLOCK_TEXT_MAX];

    json_set_int(arena, status, "position", s->wait->position);
    json_set_string(arena, status, "reason", s->text);
    if (s->wait->start_ms != INT64_MAX)
        json_set_string(arena, status, "startEstimate",
                        clock_format(s->wait->start_ms * NSEC_PER_MSEC, time));
    s->changed = true;
    return true;
}

static bool is_never(enum wait_reason reason)
{
    return reason == WAIT_NO_NODE || reason == WAIT_NO_CARD || reason == WAIT_NO_LABEL;
}

static bool say(struct queue *queue, struct unit *unit, const struct wait *wait)
{
    CLEANUP(buf_done) struct buf text = {0};
    const struct object *object = store_by_uid(queue->store, unit->uid);
    struct saying saying = {.unit = unit, .wait = wait};
    bool first = !unit->seen;

    explain_text(queue, wait, &text);
    if (wait->reason == WAIT_BACKOFF && unit->kind == KIND_TRAINING_JOB && unit->reason &&
        starts_with(unit->reason, "cannot start")) {
        buf_clear(&text);
        buf_puts(&text, unit->reason);
    }
    saying.text = text.data;
    if (!object || (unit->seen && unit->said_position == wait->position && streq(unit->said, text.data)))
        return false;
    unit->seen = true;
    unit->said_position = wait->position;
    set_string(&unit->said, text.data);
    if (unit->kind == KIND_POD && (!any_ready(queue) || is_never(wait->reason)) && !unit->asked_mib)
        return false; /* the controller of pods says which node lacks what */
    edit_object(queue, object, unit->kind == KIND_POD ? edit_pod : edit_training, &saying, NULL);
    if (unit->kind == KIND_TRAINING_JOB)
        set_string(&unit->reason, text.data);
    if (first && unit->kind == KIND_POD && saying.changed)
        registry_event(queue->registry, object, "Warning", "FailedScheduling", "%s", text.data);
    notify_unit(queue, unit);
    return true;
}

void explain_write(struct queue *queue, int64_t now)
{
    bool due = now - queue->explained_at >= EXPLAIN_MS && queue->explained_revision != queue->revision;
    uint64_t revision = queue->revision;
    bool fresh = false;
    int written = 0;
    const struct plan *plan;

    UNITS_EACH(queue, it)
        fresh = fresh || (!it->seen && phase_is_waiting(it->w.phase));
    if (!due && !fresh)
        return;
    plan = explain_plan(queue);
    VEC_EACH(&plan->waits, it) {
        struct unit *unit = unit_by_id(queue, live_view(queue->live)->jobs[it->job].id);

        if (!unit || (!due && unit->seen))
            continue;
        if (written < EXPLAIN_MAX)
            written += say(queue, unit, it);
    }
    if (due) {
        queue->explained_at = now;
        queue->explained_revision = written < EXPLAIN_MAX ? revision : 0;
    }
}
