/* What waiting objects say of their place. It is renewed now and then, a few at a time, so that a long queue
 * does not turn every change into thousands of writes. */
#include "control/util.h"
#include "queue/internal.h"

struct saying {
    const struct wait *wait;
    const char *text;
    int64_t now;
    bool changed;
};

static bool edit_pod(void *arg, struct arena *arena, struct json *doc)
{
    struct saying *s = arg;
    const char *text = s->text;

    if (pod_is_bound(doc))
        return false;
    if (s->wait)
        text = arena_printf(arena, "position %u in the queue: %s", s->wait->position, s->text);
    s->changed = pod_set_scheduled(arena, doc, "Unschedulable", text, s->now * NSEC_PER_MSEC);
    return s->changed;
}

static bool edit_training(void *arg, struct arena *arena, struct json *doc)
{
    struct saying *s = arg;
    struct json *status = json_need_object(arena, doc, "status");
    char time[CLOCK_TEXT_MAX];

    json_set_string(arena, status, "reason", s->text);
    if (s->wait)
        json_set_int(arena, status, "position", s->wait->position);
    if (s->wait && s->wait->start_ms != INT64_MAX)
        json_set_string(arena, status, "startEstimate",
                        clock_format(s->wait->start_ms * NSEC_PER_MSEC, time));
    else
        json_remove(status, "startEstimate");
    s->changed = true;
    return true;
}

static bool any_ready(const struct queue *queue)
{
    VEC_EACH(&queue->nodes, it)
        if (it->ready)
            return true;
    return false;
}

static bool is_never(enum wait_reason reason)
{
    return reason == WAIT_NO_NODE || reason == WAIT_NO_CARD || reason == WAIT_NO_LABEL;
}

static bool say(struct queue *queue, struct unit *unit, int64_t now)
{
    CLEANUP(buf_done) struct buf text = {0};
    const struct object *object = store_by_uid(queue->store, unit->uid);
    const struct wait *wait = life_wait(queue->life, unit->life, now);
    struct saying saying = {.wait = unit->life->blocked ? NULL : wait, .now = now};
    int64_t position = saying.wait ? saying.wait->position : 0;
    bool first = !unit->seen;

    life_why(queue->life, unit->life, now, &text);
    saying.text = text.data ? text.data : "";
    if (!object || (unit->seen && unit->said_position == position && streq(unit->said, saying.text)))
        return false;
    unit->seen = true;
    unit->said_position = position;
    set_string(&unit->said, saying.text);
    if (unit->kind == KIND_POD && wait && !unit->life->blocked && !unit->life->asked_mib &&
        (!any_ready(queue) || is_never(wait->reason)))
        return false; /* the controller of pods says which node lacks what */
    edit_object(queue, object, unit->kind == KIND_POD ? edit_pod : edit_training, &saying, NULL);
    if (first && unit->kind == KIND_POD && saying.changed)
        registry_event(queue->registry, object, "Warning", "FailedScheduling", "%s", saying.text);
    notify_unit(queue, unit);
    return true;
}

static bool waits(const struct unit *unit)
{
    return unit && unit->life && phase_is_waiting(unit_w(unit)->phase);
}

/* Those that came since: each says at once where it stands. */
static void say_new(struct queue *queue, int64_t now)
{
    size_t written = 0, at = 0;

    for (; at < queue->unseen.len && written < EXPLAIN_MAX; at++) {
        struct unit *unit = unit_by_id(queue, queue->unseen.v[at]);

        if (waits(unit) && !unit->seen)
            written += say(queue, unit, now);
    }
    queue->unseen.len -= at;
    if (queue->unseen.len)
        memmove(queue->unseen.v, queue->unseen.v + at, sizeof(*queue->unseen.v) * queue->unseen.len);
    if (queue->unseen.len)
        queue_soon(queue);
}

static bool is_due(const struct queue *queue, int64_t now)
{
    bool waited =
        now - queue->explained_at >= EXPLAIN_MS || now < queue->explained_at; /* the clock was set */

    return waited && queue->explained_revision != queue->revision;
}

bool explain_write(struct queue *queue, int64_t now)
{
    size_t end;

    if (queue->unseen.len)
        say_new(queue, now);
    if (queue->explain.len == 0 && is_due(queue, now)) {
        queue->explain_at = queue->explain_written = 0;
        queue->explain_revision = queue->revision;
        VEC_EACH(&life_plan(queue->life, now)->waits, it)
            vec_push(&queue->explain, live_view(life_live(queue->life))->jobs[it->job].id);
        queue->explained_at = now;
        queue->explained_revision = queue->explain.len ? 0 : queue->revision;
    }
    end = queue->explain_at + EXPLAIN_LOOK;
    while (queue->explain_at < queue->explain.len && queue->explain_at < end &&
           queue->explain_written < EXPLAIN_MAX) {
        struct unit *unit = unit_by_id(queue, queue->explain.v[queue->explain_at++]);

        if (waits(unit))
            queue->explain_written += say(queue, unit, now);
    }
    if (queue->explain.len == 0)
        return false;
    if (queue->explain_at < queue->explain.len && queue->explain_written < EXPLAIN_MAX)
        return true;
    if (queue->explain_written < EXPLAIN_MAX)
        queue->explained_revision = queue->explain_revision;
    vec_done(&queue->explain);
    return false;
}

/* Of all, when an epoch is late; of those that share cards, whenever somebody may have come or gone there. */
void explain_ends(struct queue *queue, int64_t now)
{
    const struct sched_view *view = live_view(life_live(queue->life));
    bool back = now < queue->ends_looked_at; /* the clock was set */
    bool due = queue->ends_at && (now >= queue->ends_at || back);
    VEC(uint64_t) ids = {0};
    uint32_t job;

    queue->ends_looked_at = now;
    if (!due && queue->ends_revision == queue->revision)
        return;
    queue->ends_revision = queue->revision;
    if (due)
        queue->ends_at = 0;
    for (size_t i = 0; (job = live_running(life_live(queue->life), i)) != SCHED_NONE; i++)
        if (due || view->jobs[job].demand.mib)
            vec_push(&ids, view->jobs[job].id);
    VEC_EACH(&ids, id) {
        struct unit *unit = unit_by_id(queue, *id);
        struct life_when when;

        if (!unit || unit->kind != KIND_TRAINING_JOB || !unit->life)
            continue;
        life_when(queue->life, unit->life, now, &when);
        if (when.end_ms != unit->said_eta) {
            job_status_write(queue, unit);
            notify_unit(queue, unit);
        } else {
            job_status_due(queue, unit, now);
        }
    }
    vec_done(&ids);
}
