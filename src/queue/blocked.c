/* What cannot start now for reasons outside the scheduler: quota, limits, a spec that no pod can have, a
 * claim that is not bound, a person without an account. Asked before anything is done for a job, so that
 * nobody makes room for work that could not use it; asked again when something in its namespace changes. */
#include "control/training.h"
#include "control/util.h"
#include "objects/object_doc.h"
#include "queue/internal.h"

/* ---- volumes ---- */

static const char *claim_trouble(struct queue *queue, const char *ns, const char *name, struct arena *arena)
{
    const struct object *claim = store_get(queue->store, KIND_PVC, ns, name);
    const char *phase;

    if (!claim)
        return arena_printf(arena, "its volume claim '%s' does not exist", name);
    phase = json_string_or(json_at(object_json(claim, arena), "status.phase"), "Pending");
    return streq(phase, "Bound") ? NULL : arena_printf(arena, "its volume claim '%s' is not bound yet", name);
}

static const char *volumes_trouble(struct queue *queue, const char *ns, const struct json *spec,
                                   struct arena *arena)
{
    JSON_EACH(json_get(spec, "volumes"), it) {
        const char *name = json_at_string(it, "persistentVolumeClaim.claimName");
        const char *why = name ? claim_trouble(queue, ns, name, arena) : NULL;

        if (why)
            return why;
    }
    return NULL;
}

/* ---- pods that are to be made ---- */

/* As the registry would answer: defaults, validation, limits and quota. */
static const char *creation_trouble(struct queue *queue, const char *ns, struct json *doc, uint32_t copies,
                                    struct arena *arena)
{
    struct failure failure = {0};
    struct write write = {.arena = arena,
                          .failure = &failure,
                          .manager = "berth",
                          .dry_run = true,
                          .copies = copies,
                          .now = queue_now(queue) * NSEC_PER_MSEC};
    CLEANUP(written_done) struct written written = {0};
    const char *refused;

    if (registry_create(queue->registry, &write, kind_by_id(KIND_POD), ns, doc, &written) == 0)
        return NULL;
    if (!failure.message)
        return "its pod could not be made";
    /* 'pods "x-1" is forbidden: exceeded quota ...': nobody knows of a pod by that name yet. */
    refused = failure.code == 403 ? strstr(failure.message, " is forbidden: ") : NULL;
    return refused ? refused + strlen(" is forbidden: ") : failure.message;
}

/* Whether somebody has an account is known to a directory that tells nobody of changes. */
static const char *account_trouble(struct queue *queue, struct unit *unit, const struct json *doc,
                                   struct arena *arena)
{
    const char *why = NULL;

    if (queue->config.account)
        why = queue->config.account(queue->config.arg, arena, work_rights(doc));
    unit->no_account = why != NULL;
    return why;
}

/* Whether the running job of that place stops for this one. */
static bool stops_for(struct queue *queue, size_t at, const struct unit *by)
{
    const struct live *live = life_live(queue->life);
    const struct life_job *job = life_find(queue->life, live_view(live)->jobs[live_running(live, at)].id);

    return job && job->stop.by && streq(job->stop.by, by->uid);
}

/* Jobs of the same namespace that wait for somebody to stop for them: pods of theirs are to come. */
static uint32_t kept_for(struct queue *queue, const struct unit *unit, const char **first)
{
    const struct live *live = life_live(queue->life);
    uint32_t count = 0, job;

    if (store_list(queue->store, KIND_RESOURCE_QUOTA, unit->ns).len == 0)
        return 0;
    for (size_t i = 0; (job = live_running(live, i)) != SCHED_NONE; i++) {
        const struct life_job *stops = life_find(queue->life, live_view(live)->jobs[job].id);
        const struct unit *by = stops && stops->stop.by ? unit_find(queue, stops->stop.by) : NULL;

        if (!by || by == unit || by->kind == KIND_POD || !by->life || !streq(by->ns, unit->ns) ||
            !phase_is_waiting(unit_w(by)->phase))
            continue;
        for (size_t k = 0; k < i && by; k++) /* several may stop for one */
            if (stops_for(queue, k, by))
                by = NULL;
        *first = by ? by->name : *first;
        count += by != NULL;
    }
    return count;
}

static const char *run_trouble(struct queue *queue, struct unit *unit, const struct life_job *job,
                               uint32_t pods, uint32_t gpus, struct arena *arena)
{
    const struct object *object = store_by_uid(queue->store, unit->uid);
    const struct json *doc;
    struct training_node *node = arena_zalloc(arena, sizeof(*node));
    struct training_run run = {.number = job->run + 1,
                               .epochs_done = job->w.epochs_done,
                               .num_gpus = gpus,
                               .nodes = node,
                               .node_count = 1,
                               .mib = demand_whole(&job->w.demand) ? 0 : job->w.demand.mib};
    const char *why, *first = NULL;
    struct json *pod;
    uint32_t kept;

    if (!object || object->deleting || queue->nodes.len == 0)
        return NULL;
    doc = object_json(object, arena);
    if ((why = account_trouble(queue, unit, doc, arena)) != NULL)
        return why;
    node->name = queue->nodes.v[0].name;
    node->address = queue->nodes.v[0].address;
    node->card_count = gpus < TRAINING_CARDS_MAX ? gpus : TRAINING_CARDS_MAX;
    for (uint32_t i = 0; i < node->card_count; i++)
        node->cards[i] = i;
    pod = carry_run_pod(queue, unit, object, doc, &run, arena);
    why = volumes_trouble(queue, unit->ns, json_get(pod, "spec"), arena);
    if (!why)
        why = creation_trouble(queue, unit->ns, json_copy(arena, pod), pods, arena);
    if (!why && (kept = kept_for(queue, unit, &first)) > 0 &&
        creation_trouble(queue, unit->ns, pod, pods + kept, arena))
        why = arena_printf(arena, "the rest of the quota is kept for job '%s', for which room is being made",
                           first);
    return why;
}

static const char *pod_trouble(struct queue *queue, struct unit *unit, struct arena *arena)
{
    const struct object *object = store_by_uid(queue->store, unit->uid);
    const struct json *doc;
    const char *why = NULL;

    if (!object)
        return NULL;
    doc = object_json(object, arena);
    if (pod_is_bound(doc)) /* by somebody else, to a node that is not there: it is theirs, not ours to move */
        return arena_printf(arena, "it is bound to node '%.64s', which does not exist",
                            json_at_string(doc, "spec.nodeName"));
    if (unit_w(unit)->demand.max_gpus)
        why = account_trouble(queue, unit, doc, arena);
    return why ? why : volumes_trouble(queue, unit->ns, json_get(doc, "spec"), arena);
}

/* A run has a pod on each of its nodes. */
static uint32_t pods_of(const struct queue *queue, const struct slot *slots, uint32_t gpus)
{
    uint32_t count = 0, largest = world_largest_node(queue);

    if (!slots)
        return largest && gpus > largest ? (gpus + largest - 1) / largest : 1;
    for (uint32_t i = 0; i < gpus; i++) {
        uint32_t at = 0;

        while (slots[at].node != slots[i].node)
            at++;
        count += at == i;
    }
    return count ? count : 1;
}

/* What was granted to another job of a namespace with a quota is not counted there before its pods are made.
 */
static bool is_granted(struct queue *queue, const struct unit *unit)
{
    VEC_EACH(&queue->granted, id) {
        const struct unit *other = *id == unit->id ? NULL : unit_by_id(queue, *id);

        if (other && streq(other->ns, unit->ns))
            return true;
    }
    return false;
}

static bool grants(struct queue *queue, const struct unit *unit)
{
    if (unit->kind == KIND_POD || store_list(queue->store, KIND_RESOURCE_QUOTA, unit->ns).len == 0)
        return true;
    if (is_granted(queue, unit))
        return false;
    vec_push(&queue->granted, unit->id);
    return true;
}

static const char *trouble_of(struct queue *queue, struct unit *unit, const struct life_job *job,
                              const struct slot *slots, uint32_t gpus, struct arena *arena)
{
    if (unit->kind == KIND_POD)
        return pod_trouble(queue, unit, arena);
    return run_trouble(queue, unit, job, pods_of(queue, slots, gpus), gpus, arena);
}

const char *blocked_admit(void *arg, const struct life_job *job, const struct slot *slots, uint32_t gpus,
                          struct arena *arena)
{
    struct queue *queue = arg;
    struct unit *unit = unit_by_id(queue, job->w.id);
    const char *why;

    if (!unit)
        return NULL;
    why = trouble_of(queue, unit, job, slots, gpus, arena);
    if (why && phase_is_waiting(job->w.phase))
        queue->blocked++;
    return why || grants(queue, unit) ? why : life_admit_later;
}

const char *blocked_why(struct queue *queue, struct unit *unit, struct arena *arena)
{
    return trouble_of(queue, unit, unit->life, NULL, unit_w(unit)->demand.min_gpus, arena);
}

static const char *job_trouble(struct queue *queue, const struct object *job, struct arena *arena)
{
    const struct json *doc = object_doc(job), *template = json_at(doc, "spec.template");
    struct json *pod = json_new_object(arena), *meta;
    const char *why;

    if (!template)
        return NULL;
    meta = json_get(template, "metadata");
    json_set(arena, pod, "metadata", meta ? *json_copy(arena, meta) : *json_new_object(arena));
    json_set(arena, pod, "spec", *json_copy(arena, json_get(template, "spec")));
    json_set_string(arena, json_get(pod, "metadata"), "name", object_generate_name(arena, "job-"));
    why = volumes_trouble(queue, job->ns, json_get(pod, "spec"), arena);
    if (why || (why = creation_trouble(queue, job->ns, pod, 1, arena)) == NULL)
        return why;
    return arena_printf(arena, "its pods cannot be made: %s", why);
}

/* The answer of before, for as long as nothing has changed that it goes by: the list asks of every row. */
const char *blocked_job(struct queue *queue, const struct object *job, struct arena *arena)
{
    struct job_blocked *known = map_get(queue->jobs_blocked, str_from(job->uid));
    const char *why;

    if (!known || known->rv != job->rv || known->room != queue->room) {
        if (!known)
            known = NEW(struct job_blocked);
        else
            free(known->why);
        why = job_trouble(queue, job, arena);
        *known = (struct job_blocked){queue->room, job->rv, mem_strdup(why)};
        map_set(queue->jobs_blocked, str_from(job->uid), known);
    }
    return known->why ? arena_strdup(arena, known->why) : NULL;
}

void blocked_job_forget(struct queue *queue, const char *uid)
{
    struct job_blocked *known = map_remove(queue->jobs_blocked, str_from(uid));

    if (known)
        free(known->why);
    free(known);
}

void blocked_free(struct queue *queue)
{
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(queue->jobs_blocked, &at, &key, &value)) {
        free(((struct job_blocked *)value)->why);
        free(value);
    }
    map_free(queue->jobs_blocked);
}

/* ---- again ---- */

void blocked_recheck(struct queue *queue, const char *ns)
{
    queue->room++;
    if (queue->blocked == 0)
        return;
    map_set(queue->recheck, str_from(ns), queue);
    queue_soon(queue);
}

void queue_recheck(struct queue *queue)
{
    if (queue->blocked == 0)
        return;
    UNITS_EACH(queue, it)
        if (it->life && it->life->blocked)
            map_set(queue->recheck, str_from(it->ns), queue);
    queue_soon(queue);
}

/* Those that were not asked about for longest come first: nobody is left out where there are many. */
static int by_turn(const void *a, const void *b)
{
    const struct unit *x = *(struct unit *const *)a, *y = *(struct unit *const *)b;

    if (x->rechecked != y->rechecked)
        return x->rechecked < y->rechecked ? -1 : 1;
    return x->submit_ms < y->submit_ms ? -1 : x->submit_ms > y->submit_ms;
}

/* Those that can start now are told so; of many that wait for the same, the first ones are asked about. */
static void look_at(struct queue *queue, unit_list *units)
{
    CLEANUP(arena_done) struct arena arena = {0};
    size_t asked = 0;

    qsort(units->v, units->len, sizeof(*units->v), by_turn);
    queue->rechecks++;
    VEC_EACH(units, it) {
        const struct life_job *job = (*it)->life;
        struct life_event event = {.type = LIFE_BLOCK, .id = (*it)->id};

        if (asked++ >= RECHECK_MAX)
            break;
        (*it)->rechecked = queue->rechecks;
        event.text = trouble_of(queue, *it, job, NULL, job->w.demand.min_gpus, &arena);
        (void)life_step(queue->life, &event, queue_now(queue), &queue->effects, NULL);
        arena_reset(&arena);
    }
    carry_all(queue);
}

void blocked_look_again(struct queue *queue, int64_t now)
{
    bool due = now - queue->rechecked_at >= RECHECK_MS || now < queue->rechecked_at;
    bool all = now - queue->rechecked_all_at >= RECHECK_ALL_MS || now < queue->rechecked_all_at;
    unit_list units = {0};
    uint32_t count = 0;

    if (queue->blocked == 0 || (!due && !all && map_len(queue->recheck) == 0))
        return;
    UNITS_EACH(queue, it)
        if (it->life && it->life->blocked && phase_is_waiting(unit_w(it)->phase)) {
            count++;
            if (all || (due && it->no_account) || map_get(queue->recheck, str_from(it->ns)))
                vec_push(&units, it);
        }
    queue->blocked = count;
    if (due)
        queue->rechecked_at = now;
    if (all)
        queue->rechecked_all_at = now;
    map_free(queue->recheck);
    queue->recheck = map_new();
    if (units.len)
        look_at(queue, &units);
    vec_done(&units);
}
