/* Changes of the store are noted and worked off at the end of the turn: what changed is looked at and told to
 * life as events, then life decides, and what comes out is carried out, until there is nothing more to do. */
#include "control/pod_state.h"
#include "control/training.h"
#include "control/util.h"
#include "queue/internal.h"
#include "queue/job_row.h"

int64_t queue_now(const struct queue *queue)
{
    (void)queue;
    return clock_now() / NSEC_PER_MSEC;
}

static struct queue_anchor *anchor_ref(struct queue_anchor *anchor)
{
    anchor->refs++;
    return anchor;
}

static struct queue *anchor_unref(struct queue_anchor *anchor)
{
    struct queue *queue = anchor->queue;

    if (--anchor->refs == 0)
        free(anchor);
    return queue;
}

static void queue_work(void *arg);

void queue_soon(struct queue *queue)
{
    if (queue->working || loop_timer_active(queue->rest)) /* this turn has had its share */
        return;
    queue->working = true;
    loop_later(queue->loop, queue_work, anchor_ref(queue->anchor));
}

void queue_dirty(struct queue *queue, const char *uid)
{
    map_set(queue->dirty, str_from(uid), queue);
    queue_soon(queue);
}

/* Where the commit fails, nothing of what was done is so: read everything anew. */
static void queue_settled(void *arg, const struct err *err)
{
    struct queue *queue = anchor_unref(arg);

    if (queue && store_durable(queue->store))
        records_ending_clear(queue);
    if (queue)
        queue->settled_revision = 0; /* those of a commit that failed are given out again */
    if (queue && err) {
        log_warn("%s: what was decided is taken back", err->msg);
        queue_reload(queue);
    }
}

void queue_settle(struct queue *queue)
{
    int64_t revision = store_revision(queue->store);

    if (store_durable(queue->store)) {
        records_ending_clear(queue);
    } else if (revision != queue->settled_revision) {
        queue->settled_revision = revision;
        store_defer(queue->store, queue_settled, anchor_ref(queue->anchor));
    }
}

int queue_step(struct queue *queue, const struct life_event *event, struct err *err)
{
    int result = life_step(queue->life, event, queue_now(queue), &queue->effects, err);

    carry_all(queue);
    if (!queue->carrying)
        queue_settle(queue);
    queue_soon(queue);
    return result;
}

static void step_unit(struct queue *queue, const struct unit *unit, struct life_event event)
{
    struct err err = {0};

    event.id = unit->id;
    if (queue_step(queue, &event, &err) < 0)
        log_debug("%s/%s: %s", unit->ns, unit->name, err.msg);
}

/* ---- what changed ---- */

/* The TrainingJob that a pod is of, or NULL: Berth made it for a job of the same namespace. */
static const char *training_of(struct queue *queue, const struct object *pod)
{
    char uid[64] = "";
    const struct object *owner;
    const struct unit *unit;

    if (pod->controller)
        snprintf(uid, sizeof(uid), "%.*s", STR_ARG(pod->owners[pod->controller - 1]));
    unit = unit_find(queue, uid);
    if (unit && unit->kind == KIND_TRAINING_JOB)
        return unit_controls(unit, pod) ? unit->uid : NULL;
    owner = store_controller(queue->store, pod);
    return owner && owner->kind->id == KIND_TRAINING_JOB ? owner->uid : NULL;
}

static void notify_owners(struct queue *queue, const struct object *pod)
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
        notify_owners(queue, object);
        queue_dirty(queue, owner ? owner : object->uid);
        queue->room += event->op == STORE_ADDED;
        if (event->op == STORE_DELETED || pod_ended(object))
            blocked_recheck(queue, object->ns);
        return;
    case KIND_JOB:
        job_row_changed(queue, event);
        return;
    case KIND_TRAINING_JOB:
        queue_dirty(queue, object->uid);
        return;
    default: /* quotas, limits, claims */
        blocked_recheck(queue, object->ns);
    }
}

static void enter_training(struct queue *queue, const struct object *object, const struct json *doc,
                           struct arena *arena);
static bool training_over(const struct json *doc);

/* ---- pods ---- */

static bool is_lost(const struct pod_state *state)
{
    static const char *const reasons[] = {"NodeReboot", "NodeLost", "Shutdown", "Terminated",
                                          "ContainerStatusUnknown"};

    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (streq(state->reason, reasons[i]))
            return true;
    return false;
}

static char *end_text(const struct queue *queue, const struct pod_state *state, const char *pod_uid)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const char *line = NULL;
    char text[POD_STATE_TEXT_MAX];

    if (!state->failed)
        return mem_strdup("finished");
    if (queue->config.last_line)
        line = queue->config.last_line(queue->config.arg, &arena, pod_uid);
    pod_state_end_text(state, line, text);
    return mem_strdup(*text ? text : "it failed");
}

/* What its node says of a pod that is its own unit. */
static void see_state(struct queue *queue, struct unit *unit, const struct pod_state *state)
{
    switch (state->kind) {
    case POD_STATE_PULLING:
    case POD_STATE_STARTING:
        step_unit(queue, unit, (struct life_event){.type = LIFE_PROGRESS, .text = state->text});
        break;
    case POD_STATE_STUCK:
        step_unit(queue, unit, (struct life_event){.type = LIFE_STUCK, .text = state->text});
        break;
    case POD_STATE_RUNNING:
        if (unit_w(unit)->phase == PHASE_STARTING)
            step_unit(queue, unit, (struct life_event){.type = LIFE_RUNS});
        break;
    default:
        break;
    }
}

static void pod_over(struct queue *queue, struct unit *unit, const struct pod_state *state)
{
    CLEANUP(free) char *text = end_text(queue, state, unit->uid);
    CLEANUP(free) char *ns = mem_strdup(unit->ns); /* the unit is gone where the pod is over */

    counts_exit(queue, state, is_lost(state));
    step_unit(queue, unit,
              (struct life_event){.type = LIFE_EXIT, .status = state->failed ? 1 : 0, .text = text});
    blocked_recheck(queue, ns);
}

/* Its object is gone, or the pods of its run: what is left of them is asked about until nothing is. */
static void set_asked(struct queue *queue, struct unit *unit, bool asked)
{
    queue->asked += asked;
    queue->asked -= unit->asked;
    unit->asked = asked;
}

static void set_gone(struct queue *queue, struct unit *unit)
{
    set_asked(queue, unit, true);
    unit->gone = true;
}

static void pod_gone(struct queue *queue, struct unit *unit)
{
    set_gone(queue, unit);
    if (queue->config.pod_alive && queue->config.pod_alive(queue->config.arg, unit->uid))
        return; /* the tick asks again */
    step_unit(queue, unit, (struct life_event){.type = LIFE_LEAVE, .text = "deleted"});
}

static void enter_pod(struct queue *queue, const struct object *object, const struct json *doc,
                      struct arena *arena)
{
    struct unit *unit = unit_need(queue, object);
    struct life_job saved;
    struct life_desc desc;
    struct err err = {0};
    struct life_event event = {.type = LIFE_SUBMIT, .desc = &desc, .id = unit->id};

    unit_describe_pod(queue, unit, object, doc, arena, &desc);
    unit_saved_pod(queue, unit, doc, queue_now(queue), arena, &saved);
    if (saved.w.placement.len || saved.refusals) {
        event.type = LIFE_RESTORE;
        event.saved = &saved;
        if (saved.w.placement.len && saved.w.placement.v[0].card == SLOT_CPU)
            desc.w.demand = (struct demand){.each = desc.w.demand.each};
    }
    if (life_step(queue->life, &event, queue_now(queue), &queue->effects, &err) < 0) {
        log_warn("%s/%s: %s", unit->ns, unit->name, err.msg);
        unit_drop(queue, unit);
        return;
    }
    unit->life = life_find(queue->life, unit->id);
    vec_push(&queue->unseen, unit->id);
    carry_all(queue);
}

void look_enter(struct queue *queue, const struct object *object)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *doc = object_json(object, &arena);

    if (unit_find(queue, object->uid))
        return;
    if (object->kind->id == KIND_POD) {
        if (pod_queues(doc, object) || pod_is_over(doc))
            enter_pod(queue, object, doc, &arena);
    } else if (!training_over(doc)) {
        enter_training(queue, object, doc, &arena);
    }
}

/* Bound by somebody else: it holds what it says it does. */
static void bound_elsewhere(struct queue *queue, struct unit *unit, const struct json *doc)
{
    struct slot slots[UNIT_SLOTS_MAX];
    uint32_t len = pod_slots(queue, doc, slots);

    if (len)
        step_unit(queue, unit, (struct life_event){.type = LIFE_BOUND, .slots = {slots, len}});
}

static void look_pod(struct queue *queue, const struct object *object)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *doc = object_json(object, &arena);
    struct unit *unit = unit_find(queue, object->uid);
    struct pod_state state;
    struct life_desc desc;

    if (pod_is_over(doc) && !unit)
        return;
    if (!pod_queues(doc, object) && !(unit && pod_is_over(doc))) {
        if (unit)
            pod_gone(queue, unit);
        return;
    }
    if (!unit)
        enter_pod(queue, object, doc, &arena);
    unit = unit_find(queue, object->uid);
    if (!unit)
        return;
    pod_state_read(doc, &state);
    if (pod_is_over(doc)) {
        if (object->deleting && unit_w(unit)->phase == PHASE_RUNNING)
            step_unit(queue, unit, (struct life_event){.type = LIFE_CANCEL, .text = "deleted"});
        pod_over(queue, unit, &state);
        return;
    }
    unit_describe_pod(queue, unit, object, doc, &arena, &desc);
    if (pod_is_bound(doc) && phase_is_waiting(unit_w(unit)->phase))
        bound_elsewhere(queue, unit, doc);
    if (phase_holds(unit_w(unit)->phase) && unit_w(unit)->demand.max_gpus == 0)
        desc.w.demand = (struct demand){.each = desc.w.demand.each};
    step_unit(queue, unit, (struct life_event){.type = LIFE_DESCRIBE, .desc = &desc});
    see_state(queue, unit, &state);
    notify_unit(queue, unit);
    if (object->deleting && unit->life && unit->life->stop.kind == STOP_NONE) /* may be its end */
        step_unit(queue, unit, (struct life_event){.type = LIFE_CANCEL, .text = "deleted"});
}

/* ---- the pods of a run ---- */

struct run_pods {
    const struct unit *unit;
    struct arena *arena;
    unsigned count, ended, running;
    int status;
    bool lost;
    struct pod_state bad, slow; /* of one that failed; of the one that is furthest back */
    const char *bad_uid;
    bool has_slow;
    VEC(struct object *) pods, old_pods;
};

static void see_pod(void *arg, const struct object *object)
{
    struct run_pods *run = arg;
    struct pod_state state;
    uint64_t n;

    if (object->kind->id != KIND_POD || !unit_controls(run->unit, object))
        return;
    if (!str_to_uint(object_label(object, RUN_LABEL), &n) || !run->unit->life || n != run->unit->life->run) {
        vec_push(&run->old_pods, object_ref(object));
        return;
    }
    pod_state_read(object_json(object, run->arena), &state);
    run->count++;
    vec_push(&run->pods, object_ref(object));
    run->running += state.kind == POD_STATE_RUNNING || state.kind == POD_STATE_STOPPING;
    if (state.kind == POD_STATE_OVER) {
        run->ended++;
        if (state.failed && (!run->status || !run->bad_uid)) {
            run->status = state.exit_code > 0 ? state.exit_code : 1;
            run->bad = state;
            run->bad_uid = object->uid;
            run->lost = run->lost || is_lost(&state);
        }
    } else if (state.kind == POD_STATE_STUCK || !run->has_slow || run->slow.kind == POD_STATE_RUNNING) {
        run->slow = state;
        run->has_slow = true;
    }
}

static void delete_pods(struct queue *queue, struct object *const *pods, size_t len, int64_t grace)
{
    for (size_t i = 0; i < len; i++) {
        CLEANUP(arena_done) struct arena arena = {0};
        struct failure failure = {0};
        struct write write = {.arena = &arena, .failure = &failure, .manager = "berth"};
        struct delete_options options = {.has_grace = grace >= 0, .grace_sec = grace, .uid = pods[i]->uid};
        struct written written;

        if (!pods[i]->deleting)
            registry_delete(queue->registry, &write, pods[i]->kind, pods[i]->ns, pods[i]->name, &options,
                            &written);
    }
}

/* How many pods a run has: one on each of its nodes. */
static unsigned pods_of_run(const struct unit *unit)
{
    const struct placement *at = &unit_w(unit)->placement;
    unsigned count = 0;

    for (uint32_t i = 0; i < at->len; i++) {
        uint32_t before = 0;

        if (i && at->v[i - 1].node == at->v[i].node)
            continue;
        while (before < i && at->v[before].node != at->v[i].node)
            before++;
        count += before == i;
    }
    return count < TRAINING_NODES_MAX ? count : TRAINING_NODES_MAX;
}

/* Somebody deleted a pod of a run that nobody stops: it has failed, as with a grace period. */
static bool pod_taken(const struct unit *unit, const struct run_pods *run)
{
    return unit->life->stop.kind == STOP_NONE && (run->count == 0 || run->count < pods_of_run(unit));
}

static void run_exited(struct queue *queue, struct unit *unit, struct run_pods *run)
{
    bool taken = pod_taken(unit, run), gone = run->count == 0 && !taken;
    int status = taken && !run->status ? 1 : run->status;
    CLEANUP(free)
    char *text = gone || taken ? mem_strdup("its pod was deleted")
                 : run->lost   ? mem_strdup("its run was lost: the machine or its container went away")
                 : run->status ? end_text(queue, &run->bad, run->bad_uid)
                               : NULL;
    CLEANUP(free) char *uid = mem_strdup(unit->uid); /* the unit is gone where the job is over */

    counts_exit(queue, gone || taken || !run->status ? NULL : &run->bad, run->lost);
    step_unit(
        queue, unit,
        (struct life_event){.type = LIFE_EXIT, .status = status, .text = text, .lost = gone || run->lost});
    if (unit_find(queue, uid) && phase_is_waiting(unit_w(unit)->phase))
        delete_pods(queue, run->pods.v, run->pods.len, -1);
}

/* Processes of any pod of its run. */
static bool still_alive(struct queue *queue, const struct unit *unit)
{
    for (size_t i = 0; i < unit->pods.len && queue->config.pod_alive; i++)
        if (queue->config.pod_alive(queue->config.arg, unit->pods.v[i]))
            return true;
    return false;
}

/* Those of a gang that still run. The one that failed stays: it says how the run has ended. */
static void end_others(struct queue *queue, struct run_pods *run)
{
    VEC_EACH(&run->pods, it)
        if (!pod_is_over(object_json(*it, run->arena)))
            delete_pods(queue, it, 1, queue->config.grace_sec);
}

static void see_run(struct queue *queue, struct unit *unit, struct run_pods *run)
{
    if (run->count)
        unit_set_pod(queue, unit, run->pods.v[0]->uid);
    VEC_EACH(&run->pods, it)
        unit_add_pod(queue, unit, (*it)->uid);
    set_asked(queue, unit, run->count == 0 && still_alive(queue, unit));
    if (unit->asked)
        return;
    if (run->ended == run->count) {
        run_exited(queue, unit, run);
        return;
    }
    if (pod_taken(unit, run) ||
        (run->ended && run->status && unit->life->stop.kind == STOP_NONE)) /* one of a gang has failed */
        end_others(queue, run);
    if (unit_w(unit)->phase != PHASE_STARTING)
        return;
    if (run->running + run->ended == run->count)
        step_unit(queue, unit, (struct life_event){.type = LIFE_RUNS});
    else if (run->has_slow)
        see_state(queue, unit, &run->slow);
}

void look_run(struct queue *queue, struct unit *unit)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct run_pods run = {.unit = unit, .arena = &arena};

    store_dependents(queue->store, unit->uid, see_pod, &run);
    delete_pods(queue, run.old_pods.v, run.old_pods.len, -1);
    if (unit->gone) { /* its pods go with it; its cards are free when they have gone */
        if (run.count == 0 && !still_alive(queue, unit))
            step_unit(queue, unit, (struct life_event){.type = LIFE_LEAVE, .text = "its object was deleted"});
    } else if (unit->life && phase_holds(unit_w(unit)->phase)) {
        see_run(queue, unit, &run);
    }
    VEC_EACH(&run.pods, it)
        object_unref(*it);
    VEC_EACH(&run.old_pods, it)
        object_unref(*it);
    vec_done(&run.pods);
    vec_done(&run.old_pods);
}

/* ---- training jobs ---- */

static void enter_training(struct queue *queue, const struct object *object, const struct json *doc,
                           struct arena *arena)
{
    struct unit *unit = unit_need(queue, object);
    struct life_job saved;
    struct life_desc desc;
    struct err err = {0};
    struct life_event event = {.type = LIFE_SUBMIT, .desc = &desc, .id = unit->id};

    unit_describe_training(queue, unit, object, doc, arena, &desc);
    unit_saved_training(queue, unit, doc, arena, &saved);
    if (saved.reason || saved.run) {
        event.type = LIFE_RESTORE;
        event.saved = &saved;
    }
    if (life_step(queue->life, &event, queue_now(queue), &queue->effects, &err) < 0) {
        log_warn("%s/%s: %s", unit->ns, unit->name, err.msg);
        unit_drop(queue, unit);
        return;
    }
    unit->life = life_find(queue->life, unit->id);
    vec_push(&queue->unseen, unit->id);
    carry_all(queue);
}

static bool training_over(const struct json *doc)
{
    enum phase phase = PHASE_PENDING;

    return phase_find(json_at_string(doc, "status.phase"), &phase) && phase_is_over(phase);
}

static void look_training(struct queue *queue, const struct object *object)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *doc = object_json(object, &arena);
    struct unit *unit = unit_find(queue, object->uid);
    struct life_desc desc;

    if (!unit && training_over(doc))
        return;
    if (!unit)
        enter_training(queue, object, doc, &arena);
    else {
        unit_describe_training(queue, unit, object, doc, &arena, &desc);
        step_unit(queue, unit, (struct life_event){.type = LIFE_DESCRIBE, .desc = &desc});
    }
    unit = unit_find(queue, object->uid);
    if (unit && object->deleting && unit->life && unit->life->stop.kind != STOP_CANCEL)
        step_unit(queue, unit, (struct life_event){.type = LIFE_CANCEL, .text = "its object was deleted"});
    unit = unit_find(queue, object->uid);
    if (!unit)
        return;
    notify_unit(queue, unit);
    look_run(queue, unit);
}

/* ---- all of them ---- */

void queue_look(struct queue *queue, const char *uid)
{
    const struct object *found = store_by_uid(queue->store, uid);
    CLEANUP(object_unref) struct object *object = found ? object_ref(found) : NULL;
    struct unit *unit = unit_find(queue, uid);

    if (object && object->kind->id == KIND_POD) {
        if (!training_of(queue, object))
            look_pod(queue, object);
    } else if (object && object->kind->id == KIND_TRAINING_JOB) {
        look_training(queue, object);
    } else if (unit && unit->kind == KIND_POD) {
        pod_gone(queue, unit);
    } else if (unit) {
        set_gone(queue, unit);
        if (unit->life && unit->life->stop.kind != STOP_CANCEL)
            step_unit(queue, unit,
                      (struct life_event){.type = LIFE_CANCEL, .text = "its object was deleted"});
        unit = unit_find(queue, uid);
        if (unit)
            look_run(queue, unit);
    }
}

static bool holds_processes(struct queue *queue, const struct unit *unit)
{
    return unit->kind == KIND_POD
               ? queue->config.pod_alive && queue->config.pod_alive(queue->config.arg, unit->uid)
               : phase_holds(unit_w(unit)->phase);
}

/* A crash after the object has gone would find nothing of it to record. Processes that are left keep their
 * cards until they have gone, too. */
void look_drop(void *arg, const struct object *object)
{
    struct queue *queue = arg;
    struct unit *unit = unit_find(queue, object->uid);
    bool pod = object->kind->id == KIND_POD;

    if (object->kind->id == KIND_JOB) {
        job_row_dropped(queue, object);
        return;
    }
    if (!unit || !unit->life || unit->job || unit->recorded)
        return; /* pods of a Job have no record of their own */
    if (pod)
        queue_look(queue, object->uid); /* what its node said last */
    unit = unit_find(queue, object->uid);
    if (!unit || !unit->life || !life_find(queue->life, unit->id))
        return;
    set_gone(queue, unit);
    if (!pod && unit->life->stop.kind != STOP_CANCEL)
        step_unit(queue, unit, (struct life_event){.type = LIFE_CANCEL, .text = "its object was deleted"});
    unit = unit_find(queue, object->uid);
    if (!unit || !unit->life || !life_find(queue->life, unit->id))
        return;
    if (!holds_processes(queue, unit)) {
        step_unit(queue, unit, (struct life_event){.type = LIFE_LEAVE, .text = "deleted"});
        return;
    }
    records_end(queue, unit, PHASE_CANCELLED);
    unit->recorded = true;
}

void queue_see(struct queue *queue, const char *uid)
{
    queue_look(queue, uid);
    queue_settle(queue); /* it is there, but not certain yet */
    queue_soon(queue);
}

/* At some of what has changed, LOOK_MAX in a turn; true: there is more. A change of a node makes all jobs
 * dirty at once. */
static bool look_at_dirty(struct queue *queue)
{
    struct str key;
    void *value;

    if (queue->turn != loop_now(queue->loop)) {
        queue->turn = loop_now(queue->loop);
        queue->looked = 0;
    }
    if (!queue->looking) {
        if (map_len(queue->dirty) == 0)
            return false;
        queue->looking = queue->dirty;
        queue->looking_at = 0;
        queue->dirty = map_new();
    }
    for (; queue->looked < LOOK_MAX; queue->looked++) {
        CLEANUP(free) char *uid = NULL;

        if (!map_next(queue->looking, &queue->looking_at, &key, &value)) {
            map_free(TAKE_PTR(queue->looking));
            return false;
        }
        uid = mem_strndup(key.s, key.len);
        queue_look(queue, uid);
    }
    return true;
}

/* ---- nodes ---- */

/* Work on nodes that have gone is lost. */
static void leave_nodes(struct queue *queue)
{
    VEC(uint64_t) lost = {0};

    UNITS_HOLDING(queue, it) {
        const struct placement *at = &unit_w(it)->placement;

        for (uint32_t i = 0; i < at->len; i++)
            if (!queue->nodes.v[at->v[i].node].there) {
                vec_push(&lost, it->id);
                break;
            }
    }
    VEC_EACH(&lost, id) {
        struct unit *unit = unit_by_id(queue, *id);

        if (unit)
            step_unit(queue, unit,
                      (struct life_event){
                          .type = LIFE_EXIT, .status = 1, .lost = true, .text = "its node went away"});
    }
    vec_done(&lost);
}

static void look_at_nodes(struct queue *queue)
{
    queue->nodes_dirty = false;
    if (!world_read(queue))
        return;
    leave_nodes(queue);
    UNITS_EACH(queue, it)
        map_set(queue->dirty, str_from(it->uid), queue);
}

/* ---- deciding ---- */

static void set_tick(struct queue *queue, int64_t now)
{
    int64_t next = life_next_ms(queue->life, now);

    if (queue->asked && now + ALIVE_MS < next)
        next = now + ALIVE_MS;
    if (queue->unseen.len && now + EXPLAIN_MS < next)
        next = now + EXPLAIN_MS;
    if (queue->ends_at && queue->ends_at < next)
        next = queue->ends_at > now ? queue->ends_at : now;
    if (queue->ends_at && now + CLOCK_LOOK_MS < next)
        next = now + CLOCK_LOOK_MS;
    if (queue->blocked && now + RECHECK_MS < next)
        next = now + RECHECK_MS;
    if (queue->explained_revision != queue->revision && now + EXPLAIN_MS < next)
        next = now + EXPLAIN_MS;
    if (next == INT64_MAX)
        loop_timer_stop(queue->tick);
    else
        loop_timer_set(queue->tick, (next - now) * NSEC_PER_MSEC);
}

/* When everything that has changed is known. True: there is more to do, in the next turn. */
static bool decide(struct queue *queue, int64_t now)
{
    blocked_look_again(queue, now);
    life_decide(queue->life, now, blocked_admit, queue, &queue->effects);
    carry_all(queue);
    queue->granted.len = 0;
    job_status_flush(queue);
    explain_ends(queue, now);
    return explain_write(queue, now);
}

static void queue_work(void *arg)
{
    struct queue *queue = anchor_unref(arg);
    int64_t now;

    if (!queue)
        return;
    now = queue_now(queue);
    if (queue->nodes_dirty)
        look_at_nodes(queue);
    if (look_at_dirty(queue) || decide(queue, now))
        loop_timer_set(queue->rest, 0);
    queue->working = false;
    if (map_len(queue->dirty) || queue->nodes_dirty)
        queue_soon(queue);
    queue->settled_revision = 0; /* records have none */
    queue_settle(queue);
    set_tick(queue, now);
}

void queue_on_rest(void *arg)
{
    struct queue *queue = arg;

    queue->looked = 0; /* another turn, although a virtual clock may stand still */
    queue_soon(queue);
}

void queue_on_tick(void *arg)
{
    struct queue *queue = arg;

    UNITS_EACH(queue, it)
        if (queue->asked && it->asked)
            map_set(queue->dirty, str_from(it->uid), queue);
    queue_soon(queue);
}
