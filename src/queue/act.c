/* Carries out what sched decided. What is written here in one turn becomes durable together: a TrainingJob's
 * status and the pod of its run, a pod's binding and the record of its cards. */
#include "control/training.h"
#include "control/util.h"
#include "queue/internal.h"

/* ---- binding pods ---- */

struct binding {
    const struct unit *unit;
    const char *node, *cards;
};

static char *cards_text(struct arena *arena, const struct slot *slots, uint32_t len, uint32_t node,
                        bool shares)
{
    struct card_part parts[CARDS_MAX];
    size_t count = 0;

    for (uint32_t i = 0; i < len && count < CARDS_MAX; i++)
        if (slots[i].node == node && slots[i].card != SLOT_CPU)
            parts[count++] = (struct card_part){slots[i].card, shares ? slots[i].mib : 0};
    return cards_write(arena, parts, count);
}

static bool is_share(const struct unit *unit)
{
    return unit->w.demand.mib && !unit->w.demand.exclusive;
}

static bool edit_binding(void *arg, struct arena *arena, struct json *doc)
{
    const struct binding *binding = arg;

    json_set_string(arena, json_need_object(arena, doc, "spec"), "nodeName", binding->node);
    if (*binding->cards)
        annotation_set(arena, doc, CARDS_ANNOTATION, binding->cards);
    pod_set_scheduled(arena, doc, NULL, NULL, clock_now());
    return true;
}

static void not_now(struct queue *queue, struct unit *unit, const char *why)
{
    unit->w.not_before_ms = now_ms() + RUN_RETRY_MS;
    set_string(&unit->reason, why);
    life_write(queue, unit);
    unit_tell(queue, unit);
}

static void started(struct queue *queue, struct unit *unit, const struct action *action)
{
    int64_t now = now_ms();
    CLEANUP(buf_done) struct buf text = {0};
    uint32_t gpus = unit->w.demand.max_gpus ? action->slot_count : 0;

    unit_place(unit, action->slots, action->slot_count);
    free((struct slot *)unit->w.claim.v);
    unit->w.claim = (struct placement){0};
    unit->w.restarts += unit->w.phase == PHASE_PREEMPTED;
    life_phase(unit, PHASE_RUNNING, now);
    unit->w.started_ms = now;
    unit->w.saved_ms = 0;
    unit->w.not_before_ms = 0;
    if (!unit->first_start_ms)
        unit->first_start_ms = now;
    if (gpus == 0)
        buf_puts(&text, "runs");
    else if (is_share(unit))
        buf_printf(&text, "runs on %u MiB of %s", action->slots[0].mib,
                   gpus > 1 ? "each of its GPUs" : "a GPU");
    else
        buf_printf(&text, "runs on %u GPU%s", gpus, gpus == 1 ? "" : "s");
    set_string(&unit->reason, text.data);
    life_record(queue, unit, PHASE_RUNNING, text.data, NULL, 0);
    life_spans_open(queue, unit);
}

static void start_pod(struct queue *queue, struct unit *unit, const struct action *action)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct object *object = store_by_uid(queue->store, unit->uid);
    uint32_t node = action->slots[0].node;
    struct binding binding = {unit, queue->nodes.v[node].name,
                              cards_text(&arena, action->slots, action->slot_count, node, is_share(unit))};

    if (!object || object->deleting)
        return;
    if (edit_object(queue, object, edit_binding, &binding, NULL) < 0) {
        not_now(queue, unit, "could not be bound; tried again soon");
        return;
    }
    registry_event(queue->registry, object, "Normal", "Scheduled", "Successfully assigned %s/%s to %s",
                   unit->ns, unit->name, binding.node);
    started(queue, unit, action);
    unit_tell(queue, unit);
}

/* ---- runs of training jobs ---- */

static uint32_t run_nodes(struct queue *queue, const struct action *action, struct training_node *nodes)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < action->slot_count; i++) {
        const struct slot *slot = &action->slots[i];
        const struct node *node = &queue->cluster.nodes[slot->node];
        uint32_t at = 0;

        while (at < count && !streq(nodes[at].name, node->name))
            at++;
        if (at == TRAINING_NODES_MAX || (at < count && nodes[at].card_count == TRAINING_CARDS_MAX))
            continue;
        if (at == count) {
            nodes[count++] =
                (struct training_node){.name = node->name, .address = queue->nodes.v[slot->node].address};
        }
        if (slot->card != SLOT_CPU && slot->card < node->gpu_count) {
            nodes[at].uuids[nodes[at].card_count] = node->gpus[slot->card].uuid;
            nodes[at].cards[nodes[at].card_count++] = slot->card;
        }
    }
    return count;
}

static void set_owner(struct arena *arena, struct json *meta, const struct object *job)
{
    struct json *owner = json_push_object(arena, json_set_array(arena, meta, "ownerReferences"));

    json_set_string(arena, owner, "apiVersion", job->kind->api_version);
    json_set_string(arena, owner, "kind", job->kind->name);
    json_set_string(arena, owner, "name", job->name);
    json_set_string(arena, owner, "uid", job->uid);
    json_set_bool(arena, owner, "controller", true);
    json_set_bool(arena, owner, "blockOwnerDeletion", true);
}

static void set_metadata(struct arena *arena, struct json *pod, const struct object *job,
                         const struct json *job_doc, const struct training_run *run, const char *cards,
                         const struct unit *unit)
{
    struct json *meta = json_need_object(arena, pod, "metadata");
    struct json *labels = json_need_object(arena, meta, "labels");
    struct json *notes = json_need_object(arena, meta, "annotations");
    const char *whose = annotation_get(job_doc, OWNER_ANNOTATION);

    json_set_string(arena, meta, "name", run->pod_name);
    json_set_string(arena, meta, "namespace", job->ns);
    json_set_string(arena, labels, RUN_LABEL, arena_printf(arena, "%u", run->number));
    json_set_string(arena, labels, RANK_LABEL, arena_printf(arena, "%u", run->rank));
    if (unit->w.user)
        json_set_string(arena, labels, USER_LABEL, unit->w.user);
    if (whose)
        json_set_string(arena, notes, OWNER_ANNOTATION, whose);
    if (*cards)
        json_set_string(arena, notes, CARDS_ANNOTATION, cards);
    set_owner(arena, meta, job);
}

static const char *datasets_of(struct queue *queue, struct arena *arena, const struct unit *unit,
                               const struct json *job_doc)
{
    const char *whose = annotation_get(job_doc, OWNER_ANNOTATION);
    const char *home = NULL;

    if (queue->config.home)
        home = queue->config.home(queue->config.arg, arena, whose ? whose : unit->w.user);
    return home ? arena_printf(arena, "%s/%s", home,
                               queue->config.datasets ? queue->config.datasets : "datasets")
                : NULL;
}

static bool edit_scheduled(void *arg, struct arena *arena, struct json *doc)
{
    (void)arg;
    return pod_set_scheduled(arena, doc, NULL, NULL, clock_now());
}

/* One pod of the run. On failure *why says so, in the arena. */
static int make_pod(struct queue *queue, struct unit *unit, const struct object *job,
                    struct training_run *run, const struct action *action, struct arena *arena,
                    const char **why)
{
    const struct json *job_doc = object_json(job, arena);
    uint32_t node = world_node(queue, run->nodes[run->rank].name);
    char *cards = cards_text(arena, action->slots, action->slot_count, node, is_share(unit));
    struct failure failure = {0};
    struct write write = {.arena = arena, .failure = &failure, .manager = "berth"};
    struct written written;
    struct json *pod;

    run->pod_name = run->node_count > 1 ? arena_printf(arena, "%s-%u-%u", unit->name, run->number, run->rank)
                                        : arena_printf(arena, "%s-%u", unit->name, run->number);
    if (store_get(queue->store, KIND_POD, job->ns, run->pod_name))
        run->pod_name = object_generate_name(arena, arena_printf(arena, "%s-", run->pod_name));
    pod = training_pod(arena, job_doc, run);
    set_metadata(arena, pod, job, job_doc, run, cards, unit);
    json_set_string(arena, json_need_object(arena, pod, "spec"), "nodeName", run->nodes[run->rank].name);
    if (registry_create(queue->registry, &write, kind_by_id(KIND_POD), job->ns, pod, &written) < 0) {
        *why = failure.message ? failure.message : "its pod could not be made";
        return -1;
    }
    if (run->rank == 0)
        set_string(&unit->pod, written.object->uid);
    edit_object(queue, written.object, edit_scheduled, NULL, NULL);
    return 0;
}

static void undo_pods(struct queue *queue, const struct unit *unit, const struct training_run *run,
                      uint32_t made, struct arena *arena)
{
    for (uint32_t rank = 0; rank < made; rank++) {
        struct failure failure = {0};
        struct write write = {.arena = arena, .failure = &failure, .manager = "berth"};
        struct delete_options options = {.has_grace = true};
        struct written written;

        registry_delete(queue->registry, &write, kind_by_id(KIND_POD), unit->ns,
                        arena_printf(arena, "%s-%u-%u", unit->name, run->number, rank), &options, &written);
    }
}

static void start_training(struct queue *queue, struct unit *unit, const struct action *action)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct object *found = store_by_uid(queue->store, unit->uid);
    CLEANUP(object_unref) struct object *job = found ? object_ref(found) : NULL;
    struct training_node *nodes = arena_zalloc(&arena, sizeof(*nodes) * TRAINING_NODES_MAX);
    struct training_run run = {.number = unit->run + 1,
                               .restarted = unit->run > 0,
                               .epochs_done = unit->w.epochs_done,
                               .num_gpus = unit->w.demand.max_gpus ? action->slot_count : 0,
                               .nodes = nodes,
                               .mib = is_share(unit) ? action->slots[0].mib : 0,
                               .url = queue->url,
                               .library = queue->config.library};
    const char *why = NULL;

    if (!job || job->deleting)
        return;
    run.node_count = run_nodes(queue, action, nodes);
    if (queue->config.token)
        run.token = queue->config.token(queue->config.arg, &arena, unit->uid);
    run.datasets = datasets_of(queue, &arena, unit, object_json(job, &arena));
    for (run.rank = 0; run.rank < run.node_count; run.rank++)
        if (make_pod(queue, unit, job, &run, action, &arena, &why) < 0) {
            CLEANUP(free) char *text = mem_printf("cannot start now: %s", why);

            undo_pods(queue, unit, &run, run.rank, &arena);
            set_string(&unit->pod, NULL);
            tell_owner(queue, unit, "Warning", "FailedCreate", "%s", text);
            not_now(queue, unit, text);
            return;
        }
    unit->run = run.number;
    unit->run_first_epoch = unit->w.epochs_done;
    unit->no_stop_epoch = -1;
    unit->epoch_at_ms = 0;
    started(queue, unit, action);
    unit_forecast(queue, unit);
    life_write(queue, unit);
    unit_tell(queue, unit);
    tell_owner(queue, unit, "Normal", unit->run > 1 ? "Restarted" : "Started", "%s%s", unit->reason,
               unit->run > 1 ? ", from where it was" : "");
}

/* ---- stopping ---- */

/* How long a training job may take: two of its epochs, within bounds. */
static int64_t patience_ms(const struct queue *queue, const struct unit *unit)
{
    int64_t ms = (int64_t)(unit->last_epoch_s * 2000);

    if (ms < queue->config.stop_min_ms)
        ms = queue->config.stop_min_ms;
    return ms < queue->config.stop_max_ms ? ms : queue->config.stop_max_ms;
}

static bool edit_evicted(void *arg, struct arena *arena, struct json *doc)
{
    const struct unit *unit = arg;
    struct json *stop = json_new_object(arena);
    CLEANUP(buf_done) struct buf text = {0};
    char time[CLOCK_TEXT_MAX];

    json_set_string(arena, stop, "kind", stop_names[unit->stop.kind]);
    json_set_string(arena, stop, "by", unit->stop.by);
    json_set_string(arena, stop, "byName", unit->stop.by_name);
    json_set_string(arena, stop, "reason", unit->stop.reason);
    json_set_string(arena, stop, "time", clock_format_micro(unit->stop.since_ms * NSEC_PER_MSEC, time));
    json_write(&text, stop);
    json_set(arena, json_need_object(arena, json_need_object(arena, doc, "metadata"), "annotations"),
             STOP_ANNOTATION, json_of_str(arena, buf_view(&text)));
    condition_set(arena, json_need_object(arena, doc, "status"), "DisruptionTarget", "True",
                  unit->stop.kind == STOP_PREEMPT ? PREEMPTION_REASON : "TerminationByBerth",
                  unit->stop.reason, clock_now());
    return true;
}

static void delete_pod(struct queue *queue, const struct object *pod, int64_t grace)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "berth"};
    struct delete_options options = {.has_grace = grace >= 0, .grace_sec = grace, .uid = pod->uid};
    struct written written;

    if (registry_delete(queue->registry, &write, pod->kind, pod->ns, pod->name, &options, &written) < 0)
        log_warn("pod '%s/%s': %s", pod->ns, pod->name, failure.message);
}

static void evict(struct queue *queue, struct unit *unit)
{
    const struct object *object = store_by_uid(queue->store, unit->uid);

    if (!object)
        return;
    edit_object(queue, object, edit_evicted, unit, NULL);
    unit->stop.killed = true;
    object = store_by_uid(queue->store, unit->uid);
    if (object && !object->deleting)
        delete_pod(queue, object, -1);
}

struct killing {
    VEC(struct object *) pods;
};

static void add_pod(void *arg, const struct object *object)
{
    struct killing *killing = arg;

    if (object->kind->id == KIND_POD && !object->deleting)
        vec_push(&killing->pods, object_ref(object));
}

/* TERM now, KILL after the grace. */
static void kill_run(struct queue *queue, struct unit *unit)
{
    struct killing killing = {0};

    unit->stop.killed = true;
    store_dependents(queue->store, unit->uid, add_pod, &killing);
    VEC_EACH(&killing.pods, it) {
        delete_pod(queue, *it, queue->config.grace_sec);
        object_unref(*it);
    }
    vec_done(&killing.pods);
}

void act_stop(struct queue *queue, struct unit *unit, enum stop_kind kind, const struct unit *by,
              const char *reason)
{
    int64_t now = now_ms();
    bool hard = kind == STOP_CANCEL || kind == STOP_MEMORY;

    if (unit->stop.kind == kind || (unit->stop.kind && !hard))
        return;
    unit_stop_clear(unit);
    unit->stop.kind = kind;
    unit->stop.since_ms = now;
    unit->stop.until_ms = now + (hard ? 0 : patience_ms(queue, unit));
    set_string(&unit->stop.by, by ? unit_row(by) : NULL);
    set_string(&unit->stop.by_name, by ? by->w.name : NULL);
    set_string(&unit->stop.reason, reason);
    set_string(&unit->reason, reason);
    life_phase(unit, PHASE_STOPPING, now);
    life_record(queue, unit, PHASE_STOPPING, reason, &unit->stop, 0);
    tell_owner(queue, unit, hard ? "Warning" : "Normal",
               kind == STOP_RESIZE ? "Resizing" : change_name(CHANGE_ASK_STOP), "%s", reason);
    if (unit->kind == KIND_POD)
        evict(queue, unit);
    else if (hard)
        kill_run(queue, unit);
    life_write(queue, unit);
    unit_tell(queue, unit);
}

void act_deadline(struct queue *queue, struct unit *unit, int64_t now)
{
    if (unit->kind != KIND_TRAINING_JOB || !unit->stop.kind || unit->stop.killed || now < unit->stop.until_ms)
        return;
    tell_owner(queue, unit, "Warning", "Stopping",
               "it did not stop at the end of an epoch: it gets TERM, and KILL %lld s later",
               (long long)queue->config.grace_sec);
    kill_run(queue, unit);
    life_write(queue, unit);
}

/* ---- plans ---- */

static void stop_for(struct queue *queue, struct unit *unit, const struct action *action)
{
    const struct sched_view *view = live_view(queue->live);
    struct unit *by = action->by == SCHED_NONE ? NULL : unit_by_id(queue, view->jobs[action->by].id);
    CLEANUP(buf_done) struct buf text = {0};

    sched_action_text(view, action, &text);
    act_stop(queue, unit, action->type == ACTION_RESIZE ? STOP_RESIZE : STOP_PREEMPT, by, text.data);
}

static void claim(struct queue *queue, struct unit *unit, const struct action *action)
{
    bool on = action->type == ACTION_CLAIM;
    struct live_event event = {.type = LIVE_CLAIM, .id = unit->w.id, .at_ms = now_ms()};
    struct err err = {0};

    free((struct slot *)unit->w.claim.v);
    unit->w.claim = (struct placement){0};
    if (on)
        unit->w.claim = (struct placement){
            mem_dup(action->slots, sizeof(*action->slots) * action->slot_count), action->slot_count};
    event.slots = unit->w.claim;
    if (live_apply(queue->live, &event, &err) < 0)
        log_warn("%s/%s: %s", unit->ns, unit->name, err.msg);
}

void act_plan(struct queue *queue, const struct plan *plan)
{
    /* Indexes are those of the view before the first action changes it; ids stay. */
    VEC(uint64_t) ids = {0};

    VEC_EACH(&plan->actions, it)
        vec_push(&ids, live_view(queue->live)->jobs[it->job].id);
    for (size_t i = 0; i < ids.len && ids.v; i++) {
        const struct action *action = &plan->actions.v[i];
        struct unit *unit = unit_by_id(queue, ids.v[i]);

        if (!unit)
            continue;
        switch (action->type) {
        case ACTION_START:
            if (unit->kind == KIND_POD)
                start_pod(queue, unit, action);
            else
                start_training(queue, unit, action);
            break;
        case ACTION_PREEMPT:
        case ACTION_RESIZE:
            stop_for(queue, unit, action);
            break;
        default:
            claim(queue, unit, action);
        }
    }
    vec_done(&ids);
}
