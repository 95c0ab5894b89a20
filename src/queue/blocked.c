/* What cannot start now for reasons outside the scheduler: quota, limits, a spec that no pod can have, a
 * claim that is not bound, a person without an account. Asked before anything is done for a job, so that
 * nobody makes room for work that could not use it; asked again when something in its namespace changes. */
#include "control/training.h"
#include "control/util.h"
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
static const char *creation_trouble(struct queue *queue, const char *ns, struct json *doc,
                                    struct arena *arena)
{
    struct failure failure = {0};
    struct write write = {.arena = arena,
                          .failure = &failure,
                          .manager = "berth",
                          .dry_run = true,
                          .now = queue_now(queue) * NSEC_PER_MSEC};
    CLEANUP(written_done) struct written written = {0};

    if (registry_create(queue->registry, &write, kind_by_id(KIND_POD), ns, doc, &written) == 0)
        return NULL;
    return failure.message ? failure.message : "its pod could not be made";
}

static const char *run_trouble(struct queue *queue, const struct unit *unit, const struct life_job *job,
                               uint32_t gpus, struct arena *arena)
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
    struct json *pod;
    const char *why;

    if (!object || object->deleting || queue->nodes.len == 0)
        return NULL;
    doc = object_json(object, arena);
    if (queue->config.account &&
        (why = queue->config.account(queue->config.arg, arena, work_rights(doc))) != NULL)
        return why;
    node->name = queue->nodes.v[0].name;
    node->address = queue->nodes.v[0].address;
    node->card_count = gpus < TRAINING_CARDS_MAX ? gpus : TRAINING_CARDS_MAX;
    for (uint32_t i = 0; i < node->card_count; i++)
        node->cards[i] = i;
    pod = carry_run_pod(queue, unit, object, doc, &run, arena);
    why = volumes_trouble(queue, unit->ns, json_get(pod, "spec"), arena);
    return why ? why : creation_trouble(queue, unit->ns, pod, arena);
}

static const char *pod_trouble(struct queue *queue, const struct unit *unit, struct arena *arena)
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
    if (queue->config.account && unit_w(unit)->demand.max_gpus)
        why = queue->config.account(queue->config.arg, arena, work_rights(doc));
    return why ? why : volumes_trouble(queue, unit->ns, json_get(doc, "spec"), arena);
}

const char *blocked_admit(void *arg, const struct life_job *job, uint32_t gpus, struct arena *arena)
{
    struct queue *queue = arg;
    const struct unit *unit = unit_by_id(queue, job->w.id);
    const char *why;

    if (!unit)
        return NULL;
    why =
        unit->kind == KIND_POD ? pod_trouble(queue, unit, arena) : run_trouble(queue, unit, job, gpus, arena);
    if (why && phase_is_waiting(job->w.phase))
        queue->blocked++;
    return why;
}

const char *blocked_job(struct queue *queue, const struct object *job, struct arena *arena)
{
    const struct json *doc = object_json(job, arena), *template = json_at(doc, "spec.template");
    struct json *pod = json_new_object(arena), *meta;

    if (!template)
        return NULL;
    meta = json_get(template, "metadata");
    json_set(arena, pod, "metadata", meta ? *json_copy(arena, meta) : *json_new_object(arena));
    json_set(arena, pod, "spec", *json_copy(arena, json_get(template, "spec")));
    json_set_string(arena, json_get(pod, "metadata"), "name", object_generate_name(arena, "job-"));
    return creation_trouble(queue, job->ns, pod, arena);
}

/* ---- again ---- */

void blocked_recheck(struct queue *queue, const char *ns)
{
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

static int by_submit(const void *a, const void *b)
{
    const struct unit *x = *(struct unit *const *)a, *y = *(struct unit *const *)b;

    return x->submit_ms < y->submit_ms ? -1 : x->submit_ms > y->submit_ms;
}

/* Those that can start now are told so; of many that wait for the same, the first ones are asked about. */
static void look_at(struct queue *queue, unit_list *units)
{
    CLEANUP(arena_done) struct arena arena = {0};
    size_t asked = 0;

    qsort(units->v, units->len, sizeof(*units->v), by_submit);
    VEC_EACH(units, it) {
        const struct life_job *job = (*it)->life;
        struct life_event event = {.type = LIFE_BLOCK, .id = (*it)->id};
        uint32_t before = queue->blocked;

        if (asked++ >= RECHECK_MAX)
            break;
        event.text = blocked_admit(queue, job, job->w.demand.min_gpus, &arena);
        queue->blocked = before;
        (void)life_step(queue->life, &event, queue_now(queue), &queue->effects, NULL);
        arena_reset(&arena);
    }
    carry_all(queue);
}

void blocked_look_again(struct queue *queue, int64_t now)
{
    bool all = now - queue->rechecked_at >= RECHECK_MS;
    unit_list units = {0};
    uint32_t count = 0;

    if (queue->blocked == 0 || (!all && map_len(queue->recheck) == 0))
        return;
    UNITS_EACH(queue, it)
        if (it->life && it->life->blocked && phase_is_waiting(unit_w(it)->phase)) {
            count++;
            if (all || map_get(queue->recheck, str_from(it->ns)))
                vec_push(&units, it);
        }
    queue->blocked = count;
    if (all)
        queue->rechecked_at = now;
    map_free(queue->recheck);
    queue->recheck = map_new();
    if (units.len)
        look_at(queue, &units);
    vec_done(&units);
}
