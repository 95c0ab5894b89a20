/* Carries out what life decided. What is written here in one turn becomes durable together: a TrainingJob's
 * status and the pod of its run, a pod's binding and the record of its cards. */
#include "control/training.h"
#include "control/util.h"
#include "queue/internal.h"

int edit_object(struct queue *queue, const struct object *object, registry_edit edit, void *arg,
                struct failure *failure)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct failure none = {0};
    struct write write = {
        .arena = &arena, .failure = failure ? failure : &none, .manager = "berth", .keep_generation = true};
    struct written written;
    int result = registry_edit_object(queue->registry, &write, object, edit, arg, &written);

    if (result < 0)
        log_warn("%s '%s/%s': %s", object->kind->singular, object->ns, object->name, write.failure->message);
    if (result < 0 && failure) /* the message is in an arena that goes */
        failure->message = NULL;
    return result;
}

static bool is_share(const struct life_job *job)
{
    return !demand_whole(&job->w.demand);
}

static void refuse(struct queue *queue, struct unit *unit, const char *why)
{
    struct life_event event = {.type = LIFE_REFUSED, .id = unit->id, .text = why};

    (void)life_step(queue->life, &event, queue_now(queue), &queue->effects, NULL);
}

/* ---- binding pods ---- */

struct binding {
    const char *node, *cards;
    int64_t now;
    const struct life_job *job; /* of one that is taken back */
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

static bool edit_binding(void *arg, struct arena *arena, struct json *doc)
{
    const struct binding *binding = arg;

    json_set_string(arena, json_need_object(arena, doc, "spec"), "nodeName", binding->node);
    if (*binding->cards)
        annotation_set(arena, doc, CARDS_ANNOTATION, binding->cards);
    pod_set_scheduled(arena, doc, NULL, NULL, binding->now);
    return true;
}

static void bind_pod(struct queue *queue, struct unit *unit, const struct life_effect *effect)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct object *object = store_by_uid(queue->store, unit->uid);
    uint32_t node = effect->slots[0].node;
    struct binding binding = {
        queue->nodes.v[node].name,
        cards_text(&arena, effect->slots, effect->slot_count, node, is_share(effect->job)),
        queue_now(queue) * NSEC_PER_MSEC};

    if (!object || object->deleting) /* its end is on its way */
        return;
    if (edit_object(queue, object, edit_binding, &binding, NULL) < 0) {
        refuse(queue, unit, "it could not be bound to its node");
        return;
    }
    registry_event(queue->registry, object, "Normal", "Scheduled", "Successfully assigned %s/%s to %s",
                   unit->ns, unit->name, binding.node);
}

/* When it is tried again, and after what: kept with the pod, so that a restart does not forget it. */
static void write_retry(struct arena *arena, struct json *doc, const struct life_job *job)
{
    struct json *out = json_new_object(arena);
    CLEANUP(buf_done) struct buf text = {0};
    char time[CLOCK_TEXT_MAX];

    json_set_int(arena, out, "refusals", job->refusals);
    json_set_string(arena, out, "notBefore", clock_format_micro(job->w.not_before_ms * NSEC_PER_MSEC, time));
    json_set_string(arena, out, "trouble", job->trouble);
    json_write(&text, out);
    annotation_set(arena, doc, RETRY_ANNOTATION, text.data);
}

static bool edit_unbinding(void *arg, struct arena *arena, struct json *doc)
{
    static const char *const of_run[] = {
        "containerStatuses", "initContainerStatuses", "startTime", "hostIP", "hostIPs", "podIP", "podIPs"};
    const struct binding *binding = arg;
    struct json *status = json_need_object(arena, doc, "status");

    if (!pod_is_bound(doc))
        return false;
    json_remove(json_get(doc, "spec"), "nodeName");
    json_remove(json_at(doc, "metadata.annotations"), CARDS_ANNOTATION);
    for (size_t i = 0; i < ARRAY_LEN(of_run); i++)
        json_remove(status, of_run[i]);
    json_set_string(arena, status, "phase", "Pending");
    json_set_array(arena, status, "conditions");
    pod_set_scheduled(arena, doc, "CannotStart", binding->cards, binding->now);
    write_retry(arena, doc, binding->job);
    return true;
}

static void unbind_pod(struct queue *queue, const struct unit *unit, const struct life_job *job)
{
    const struct object *object = store_by_uid(queue->store, unit->uid);
    struct binding binding = {NULL, job->reason ? job->reason : "it could not start",
                              queue_now(queue) * NSEC_PER_MSEC, job};

    if (object && !object->deleting)
        edit_object(queue, object, edit_unbinding, &binding, NULL);
}

/* ---- runs of training jobs ---- */

static uint32_t run_nodes(struct queue *queue, const struct life_effect *effect, struct training_node *nodes)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < effect->slot_count; i++) {
        const struct slot *slot = &effect->slots[i];
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

static const char *datasets_of(struct queue *queue, struct arena *arena, const struct json *job_doc)
{
    const char *whose = work_owner(job_doc), *home = NULL;

    if (queue->config.home)
        home = queue->config.home(queue->config.arg, arena, whose ? whose : work_user(job_doc));
    return home ? arena_printf(arena, "%s/%s", home,
                               queue->config.datasets ? queue->config.datasets : "datasets")
                : NULL;
}

struct json *carry_run_pod(struct queue *queue, const struct unit *unit, const struct object *job,
                           const struct json *job_doc, struct training_run *run, struct arena *arena)
{
    struct json *pod, *meta;

    run->pod_name = run->node_count > 1 ? arena_printf(arena, "%s-%u-%u", unit->name, run->number, run->rank)
                                        : arena_printf(arena, "%s-%u", unit->name, run->number);
    if (store_get(queue->store, KIND_POD, job->ns, run->pod_name))
        run->pod_name = object_generate_name(arena, arena_printf(arena, "%s-", run->pod_name));
    run->url = queue->url;
    run->library = queue->config.library;
    run->datasets = datasets_of(queue, arena, job_doc);
    pod = training_pod(arena, job_doc, run);
    meta = json_need_object(arena, pod, "metadata");
    json_set_string(arena, meta, "name", run->pod_name);
    json_set_string(arena, meta, "namespace", job->ns);
    label_set(arena, pod, RUN_LABEL, arena_printf(arena, "%u", run->number));
    label_set(arena, pod, RANK_LABEL, arena_printf(arena, "%u", run->rank));
    label_set(arena, pod, USER_LABEL, work_user(job_doc));
    set_owner(arena, meta, job);
    return pod;
}

static bool edit_scheduled(void *arg, struct arena *arena, struct json *doc)
{
    return pod_set_scheduled(arena, doc, NULL, NULL, *(const int64_t *)arg);
}

/* One pod of the run. On failure *why says so, in the arena. */
static int make_pod(struct queue *queue, struct unit *unit, const struct object *job,
                    struct training_run *run, const struct life_effect *effect, struct arena *arena,
                    const char **why, char *uid)
{
    const struct json *job_doc = object_json(job, arena);
    uint32_t node = world_node(queue, run->nodes[run->rank].name);
    char *cards = cards_text(arena, effect->slots, effect->slot_count, node, is_share(effect->job));
    struct failure failure = {0};
    struct write write = {.arena = arena, .failure = &failure, .manager = "berth"};
    struct written written;
    struct json *pod = carry_run_pod(queue, unit, job, job_doc, run, arena);
    int64_t now = queue_now(queue) * NSEC_PER_MSEC;

    if (*cards)
        annotation_set(arena, pod, CARDS_ANNOTATION, cards);
    json_set_string(arena, json_need_object(arena, pod, "spec"), "nodeName", run->nodes[run->rank].name);
    if (registry_create(queue->registry, &write, kind_by_id(KIND_POD), job->ns, pod, &written) < 0) {
        *why = failure.message ? failure.message : "its pod could not be made";
        return -1;
    }
    snprintf(uid, 64, "%s", written.object->uid);
    if (run->rank == 0)
        unit_set_pod(queue, unit, written.object->uid);
    else
        unit_add_pod(queue, unit, written.object->uid);
    edit_object(queue, written.object, edit_scheduled, &now, NULL);
    return 0;
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

static void make_run(struct queue *queue, struct unit *unit, const struct life_effect *effect)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct object *found = store_by_uid(queue->store, unit->uid);
    CLEANUP(object_unref) struct object *job = found ? object_ref(found) : NULL;
    struct training_node *nodes = arena_zalloc(&arena, sizeof(*nodes) * TRAINING_NODES_MAX);
    const struct life_job *of = effect->job;
    struct training_run run = {.number = of->run,
                               .epochs_done = of->w.epochs_done,
                               .steps_done = of->steps_done,
                               .num_gpus = of->w.demand.max_gpus ? effect->slot_count : 0,
                               .nodes = nodes,
                               .mib = is_share(of) ? effect->slots[0].mib : 0};
    char(*uids)[64] = arena_zalloc(&arena, sizeof(*uids) * TRAINING_NODES_MAX);
    const char *why = NULL;

    if (!job || job->deleting) /* its end is on its way */
        return;
    unit_set_pod(queue, unit, NULL); /* those of the run before */
    run.node_count = run_nodes(queue, effect, nodes);
    for (run.rank = 0; run.rank < run.node_count; run.rank++) {
        if (make_pod(queue, unit, job, &run, effect, &arena, &why, uids[run.rank]) == 0)
            continue;
        for (uint32_t rank = 0; rank < run.rank; rank++) {
            const struct object *pod = store_by_uid(queue->store, uids[rank]);

            if (pod)
                delete_pod(queue, pod, 0);
        }
        unit_set_pod(queue, unit, NULL);
        refuse(queue, unit, why);
        return;
    }
}

/* ---- stopping ---- */

struct pods_of {
    VEC(struct object *) pods;
};

static void add_pod(void *arg, const struct object *object)
{
    struct pods_of *of = arg;

    if (object->kind->id == KIND_POD && !object->deleting)
        vec_push(&of->pods, object_ref(object));
}

/* TERM now, KILL after the grace. */
static void kill_run(struct queue *queue, const struct unit *unit, int64_t grace)
{
    struct pods_of of = {0};

    store_dependents(queue->store, unit->uid, add_pod, &of);
    VEC_EACH(&of.pods, it) {
        if (unit_controls(unit, *it))
            delete_pod(queue, *it, grace);
        object_unref(*it);
    }
    vec_done(&of.pods);
}

struct stopping {
    const struct life_job *job;
    int64_t now;
};

static void write_stop(struct arena *arena, struct json *doc, const struct life_stop *stop)
{
    struct json *out = json_new_object(arena);
    CLEANUP(buf_done) struct buf text = {0};
    char time[CLOCK_TEXT_MAX];

    json_set_string(arena, out, "kind", life_stop_name(stop->kind));
    json_set_string(arena, out, "by", stop->by);
    json_set_string(arena, out, "byName", stop->by_name);
    json_set_string(arena, out, "reason", stop->reason);
    json_set_string(arena, out, "time", clock_format_micro(stop->since_ms * NSEC_PER_MSEC, time));
    json_set_string(arena, out, "until", clock_format_micro(stop->until_ms * NSEC_PER_MSEC, time));
    if (stop->killed)
        json_set_bool(arena, out, "killed", true);
    json_write(&text, out);
    annotation_set(arena, doc, STOP_ANNOTATION, text.data);
}

static bool edit_evicted(void *arg, struct arena *arena, struct json *doc)
{
    const struct stopping *stopping = arg;
    const struct life_stop *stop = &stopping->job->stop;

    write_stop(arena, doc, stop);
    condition_set(arena, json_need_object(arena, doc, "status"), "DisruptionTarget", "True",
                  stop->kind == STOP_PREEMPT ? PREEMPTION_REASON : "TerminationByBerth", stop->reason,
                  stopping->now);
    return true;
}

static void evict(struct queue *queue, struct unit *unit)
{
    const struct object *object = store_by_uid(queue->store, unit->uid);
    struct stopping stopping = {unit->life, queue_now(queue) * NSEC_PER_MSEC};

    if (!object)
        return;
    if (unit->life->stop.kind != STOP_CANCEL)
        edit_object(queue, object, edit_evicted, &stopping, NULL);
    object = store_by_uid(queue->store, unit->uid);
    if (object && !object->deleting)
        delete_pod(queue, object, -1);
}

/* A stop that its pod has notice of: kept with the pod, so that a restart does not forget it. */
static bool edit_notice(void *arg, struct arena *arena, struct json *doc)
{
    const struct stopping *stopping = arg;

    if (stopping->job->stop.kind == STOP_NONE && !annotation_get(doc, STOP_ANNOTATION))
        return false;
    if (stopping->job->stop.kind == STOP_NONE)
        json_remove(json_at(doc, "metadata.annotations"), STOP_ANNOTATION);
    else
        write_stop(arena, doc, &stopping->job->stop);
    return true;
}

static void write_pod(struct queue *queue, struct unit *unit, const struct life_job *job)
{
    const struct object *object = store_by_uid(queue->store, unit->uid);
    struct stopping stopping = {job, queue_now(queue) * NSEC_PER_MSEC};
    bool notice = job->stop.kind == STOP_PREEMPT && !job->stop.killed;

    if (!object || object->deleting || notice == unit->noticed)
        return;
    unit->noticed = notice;
    if (!job->stop.killed)
        edit_object(queue, object, edit_notice, &stopping, NULL);
}

/* ---- telling ---- */

static void tell(struct queue *queue, const struct unit *unit, const struct life_effect *effect)
{
    const struct object *about = row_object(queue, unit_row(unit));

    log_info("%s/%s: %s", unit->ns, effect->job->w.name ? effect->job->w.name : unit->name, effect->text);
    if (about && !(unit->kind == KIND_POD && effect->tell == TELL_STARTED)) /* its node says so itself */
        registry_event(queue->registry, about, life_tell_warns(effect->tell) ? "Warning" : "Normal",
                       life_tell_reason(effect->tell), "%s", effect->text);
}

/* ---- all of it ---- */

static void carry_write(struct queue *queue, struct unit *unit, const struct life_job *job)
{
    queue->revision++;
    notify_unit(queue, unit);
    if (unit->kind == KIND_POD) {
        write_pod(queue, unit, job);
    } else if (!unit->write) {
        unit->write = true;
        vec_push(&queue->to_write, unit->id);
    }
}

static void carry_start(struct queue *queue, struct unit *unit, const struct life_effect *effect)
{
    if (unit->kind == KIND_POD)
        bind_pod(queue, unit, effect);
    else
        make_run(queue, unit, effect);
}

static void give_back(struct queue *queue, struct unit *unit, const struct life_job *job)
{
    if (unit->kind == KIND_POD) {
        unbind_pod(queue, unit, job);
        return;
    }
    kill_run(queue, unit, 0);
    unit_set_pod(queue, unit, NULL);
}

static void carry_end(struct queue *queue, struct unit *unit, const struct life_effect *effect)
{
    unit->life = effect->job; /* as it was at its end */
    if (!unit->job && !unit->recorded)
        records_end(queue, unit, effect->phase);
    if (unit->kind == KIND_TRAINING_JOB)
        job_status_write(queue, unit);
    blocked_recheck(queue, unit->ns);
    unit_drop(queue, unit);
}

static void carry_one(struct queue *queue, const struct life_effect *effect)
{
    struct unit *unit = unit_by_id(queue, effect->job->w.id);

    if (!unit)
        return;
    unit->life = effect->job;
    counts_effect(queue, effect);
    switch (effect->type) {
    case EFFECT_START:
        carry_start(queue, unit, effect);
        break;
    case EFFECT_GIVE_BACK:
        give_back(queue, unit, effect->job);
        break;
    case EFFECT_KILL:
        if (unit->kind == KIND_POD)
            evict(queue, unit);
        else
            kill_run(queue, unit, queue->config.grace_sec);
        break;
    case EFFECT_WRITE:
        carry_write(queue, unit, effect->job);
        break;
    case EFFECT_RECORD:
        records_transition(queue, unit, effect);
        break;
    case EFFECT_SPANS:
        records_spans(queue, unit, effect);
        break;
    case EFFECT_TELL:
        tell(queue, unit, effect);
        told_effect(queue, unit, effect);
        break;
    case EFFECT_LEARNED:
        samples_save(queue, effect->job);
        break;
    case EFFECT_EPOCH:
        records_epoch(queue, unit, effect->seconds);
        break;
    case EFFECT_END:
        carry_end(queue, unit, effect);
        break;
    }
}

void carry_all(struct queue *queue)
{
    if (queue->carrying) /* further down the stack: it goes on to the last one */
        return;
    queue->carrying = true;
    for (size_t i = 0; i < queue->effects.v.len; i++) {
        struct life_effect effect = queue->effects.v.v[i]; /* refusals add some */

        carry_one(queue, &effect);
    }
    queue->carrying = false;
    life_effects_clear(&queue->effects);
}
