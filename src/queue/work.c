/* Changes of the store are noted and worked off at the end of the turn: what changed is read, then sched
 * decides, then that is done, until it has nothing more to do. */
#include "control/util.h"
#include "queue/internal.h"
#include "queue/job_row.h"

#define PASSES_MAX 8

static struct life *life_ref(struct life *life)
{
    life->refs++;
    return life;
}

static struct queue *life_unref(struct life *life)
{
    struct queue *queue = life->queue;

    if (--life->refs == 0)
        free(life);
    return queue;
}

static void work(void *arg);

void queue_soon(struct queue *queue)
{
    queue->decide_wanted = true;
    if (queue->working)
        return;
    queue->working = true;
    loop_later(queue->loop, work, life_ref(queue->life));
}

void queue_dirty(struct queue *queue, const char *uid)
{
    map_set(queue->dirty, str_from(uid), queue);
    queue_soon(queue);
}

/* ---- what changed ---- */

/* The TrainingJob that a pod is of, or NULL. */
static const char *training_of(struct queue *queue, const struct object *pod)
{
    for (uint32_t i = 0; i < pod->owner_count; i++) {
        char uid[64];
        const struct object *owner;
        struct unit *unit;

        snprintf(uid, sizeof(uid), "%.*s", STR_ARG(pod->owners[i]));
        if ((unit = unit_find(queue, uid)) && unit->kind == KIND_TRAINING_JOB)
            return unit->uid;
        owner = store_by_uid(queue->store, uid);
        if (owner && owner->kind->id == KIND_TRAINING_JOB)
            return owner->uid;
    }
    return NULL;
}

static void owner_dirty(struct queue *queue, const struct object *pod)
{
    for (uint32_t i = 0; i < pod->owner_count; i++) {
        char uid[64];

        snprintf(uid, sizeof(uid), "%.*s", STR_ARG(pod->owners[i]));
        notify_row(queue, uid);
    }
}

void queue_on_store(void *arg, const struct store_event *event)
{
    struct queue *queue = arg;
    const struct object *object = event->object;
    const char *owner;

    switch (object->kind->id) {
    case KIND_NODE:
        queue->nodes_dirty = true;
        queue_soon(queue);
        return;
    case KIND_POD:
        owner = training_of(queue, object);
        owner_dirty(queue, object);
        queue_dirty(queue, owner ? owner : object->uid);
        return;
    case KIND_JOB:
        job_row_changed(queue, event);
        return;
    default:
        queue_dirty(queue, object->uid);
    }
}

/* ---- looking at one ---- */

static void pod_over(struct queue *queue, struct unit *unit, const struct json *doc)
{
    bool failed = streq(json_at_string(doc, "status.phase"), "Failed");
    const char *message = json_at_string(doc, "status.message");
    int code = 0;
    CLEANUP(free) char *text = NULL;

    JSON_EACH(json_at(doc, "status.containerStatuses"), it)
        if (json_int(json_at(it, "state.terminated.exitCode"), 0))
            code = (int)json_int(json_at(it, "state.terminated.exitCode"), 0);
    if (unit->stop.kind)
        text = mem_strdup(unit->stop.reason);
    else if (!failed)
        text = mem_strdup("finished");
    else if (message)
        text = mem_strdup(message);
    else
        text = mem_printf("ended with exit code %d", code);
    life_over(queue, unit,
              unit->stop.kind == STOP_PREEMPT ? PHASE_PREEMPTED
              : failed || unit->stop.kind     ? PHASE_FAILED
                                              : PHASE_SUCCEEDED,
              text);
    unit_drop(queue, unit);
}

static void pod_gone(struct queue *queue, struct unit *unit)
{
    unit->gone = true;
    if (queue->config.pod_alive && queue->config.pod_alive(queue->config.arg, unit->uid))
        return; /* the tick asks again */
    if (unit->stop.kind)
        life_over(queue, unit, unit->stop.kind == STOP_MEMORY ? PHASE_FAILED : PHASE_PREEMPTED,
                  unit->stop.reason);
    else
        life_over(queue, unit, PHASE_CANCELLED, "deleted");
    unit_drop(queue, unit);
}

static void look_pod(struct queue *queue, const struct object *object)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *doc = object_json(object, &arena);
    struct unit *unit = unit_find(queue, object->uid);
    bool fresh = !unit;
    enum phase before = unit ? unit->w.phase : PHASE_PENDING;

    if (pod_is_over(doc)) {
        if (unit)
            pod_over(queue, unit, doc);
        return;
    }
    unit = unit_read_pod(queue, object);
    if (!unit) {
        if ((unit = unit_find(queue, object->uid)))
            pod_gone(queue, unit);
        return;
    }
    if (fresh && unit->w.phase == PHASE_PENDING)
        life_record(queue, unit, PHASE_PENDING, "submitted", NULL, 0);
    else if (unit->w.phase == PHASE_RUNNING && before != PHASE_RUNNING && fresh)
        life_record(queue, unit, PHASE_RUNNING, "runs", NULL, 0);
    unit_tell(queue, unit);
}

static void look_training(struct queue *queue, const struct object *object)
{
    bool fresh = !unit_find(queue, object->uid);
    struct unit *unit = unit_read_training(queue, object);

    if (!unit)
        return;
    if (fresh && unit->w.phase == PHASE_PENDING && unit->run == 0) {
        set_string(&unit->reason, "submitted");
        life_record(queue, unit, PHASE_PENDING, "submitted", NULL, 0);
        life_write(queue, unit);
    }
    unit_tell(queue, unit);
    if (fresh)
        unit_forecast(queue, unit);
    if (object->deleting && phase_holds(unit->w.phase) && unit->stop.kind != STOP_CANCEL)
        act_stop(queue, unit, STOP_CANCEL, NULL, "its object was deleted");
    life_pod(queue, unit);
}

static void look(struct queue *queue, const char *uid)
{
    const struct object *object = store_by_uid(queue->store, uid);
    struct unit *unit = unit_find(queue, uid);

    if (object && object->kind->id == KIND_POD) {
        look_pod(queue, object);
    } else if (object && object->kind->id == KIND_TRAINING_JOB) {
        look_training(queue, object);
    } else if (unit && unit->kind == KIND_POD) {
        pod_gone(queue, unit);
    } else if (unit) {
        unit->gone = true;
        if (phase_holds(unit->w.phase) && unit->stop.kind != STOP_CANCEL)
            act_stop(queue, unit, STOP_CANCEL, NULL, "its object was deleted");
        life_pod(queue, unit);
    }
}

void queue_see(struct queue *queue, const char *uid)
{
    look(queue, uid);
    queue_soon(queue);
}

void queue_look(struct queue *queue, const char *uid)
{
    look(queue, uid);
}

static void look_at_dirty(struct queue *queue)
{
    struct map *dirty = queue->dirty;
    struct str key;
    void *value;
    size_t at = 0;

    if (map_len(dirty) == 0)
        return;
    queue->dirty = map_new();
    while (map_next(dirty, &at, &key, &value)) {
        CLEANUP(free) char *uid = mem_strndup(key.s, key.len);

        look(queue, uid);
    }
    map_free(dirty);
}

/* ---- deciding ---- */

static void decide(struct queue *queue)
{
    for (int pass = 0; pass < PASSES_MAX; pass++) {
        struct plan plan = {0};
        bool done;

        live_decide(queue->live, now_ms(), &plan);
        done = plan.actions.len == 0;
        act_plan(queue, &plan);
        plan_done(&plan);
        if (done)
            break;
    }
}

/* Where the commit fails, nothing of what was done is so: read everything anew. */
static void settled(void *arg, const struct err *err)
{
    struct queue *queue = life_unref(arg);

    if (queue && store_durable(queue->store))
        life_ending_clear(queue);
    if (queue && err) {
        log_warn("%s: what was decided is taken back", err->msg);
        queue_reload(queue);
    }
}

static void work(void *arg)
{
    struct queue *queue = life_unref(arg);

    if (!queue)
        return;
    if (queue->nodes_dirty) {
        queue->nodes_dirty = false;
        if (world_read(queue))
            UNITS_EACH(queue, it)
                queue_dirty(queue, it->uid);
    }
    look_at_dirty(queue);
    queue->decide_wanted = false;
    decide(queue);
    explain_write(queue, now_ms());
    queue->working = false;
    if (map_len(queue->dirty) || queue->nodes_dirty)
        queue_soon(queue);
    if (!store_durable(queue->store))
        store_defer(queue->store, settled, life_ref(queue->life));
    else
        life_ending_clear(queue);
    if (map_len(queue->units) && !loop_timer_active(queue->tick))
        loop_timer_set(queue->tick, TICK_MS * NSEC_PER_MSEC);
}

/* The reason for a stop has gone before anybody noticed it. */
static void withdraw(struct queue *queue, struct unit *unit)
{
    const struct unit *by = unit_find(queue, unit->stop.by);

    if (unit->kind != KIND_TRAINING_JOB || unit->stop.kind != STOP_PREEMPT || unit->stop.killed ||
        unit->stop.epoch >= 0 || !unit->stop.by || (by && phase_is_waiting(by->w.phase)))
        return;
    if (!by && row_phase(queue, unit->stop.by) == PHASE_PENDING) /* a Job that waits */
        return;
    unit_stop_clear(unit);
    life_phase(unit, PHASE_RUNNING, now_ms());
    set_string(&unit->reason, "goes on: who needed its place no longer does");
    life_record(queue, unit, PHASE_RUNNING, unit->reason, NULL, 0);
    life_write(queue, unit);
    unit_tell(queue, unit);
    tell_owner(queue, unit, "Normal", "StopWithdrawn", "%s", unit->reason);
}

void queue_tick(void *arg)
{
    struct queue *queue = arg;
    int64_t now = now_ms();
    bool busy = false;

    UNITS_EACH(queue, it) {
        busy = busy || phase_is_waiting(it->w.phase) || it->stop.kind || it->gone;
        act_deadline(queue, it, now);
        withdraw(queue, it);
        if (it->gone)
            queue_dirty(queue, it->uid);
    }
    if (busy)
        queue_soon(queue);
    if (busy)
        loop_timer_set(queue->tick, TICK_MS * NSEC_PER_MSEC);
}
