/* From objects to what sched works with. Of a pod everything is read anew whenever it changes. Of a
 * TrainingJob the status is read once, when the queue first sees it: from then on the unit is ahead, being
 * the only writer of it. */
#include "control/util.h"
#include "domain/workload.h"
#include "queue/internal.h"

#define MIB_MAX (1 << 30)

const char *const stop_names[] = {
    [STOP_NONE] = "none",     [STOP_PREEMPT] = "preempt", [STOP_RESIZE] = "resize",
    [STOP_MEMORY] = "memory", [STOP_CANCEL] = "cancel",
};

int64_t now_ms(void)
{
    return clock_now() / NSEC_PER_MSEC;
}

void set_string(char **member, const char *text)
{
    char *copy = text ? mem_strdup(text) : NULL;

    free(*member);
    *member = copy;
}

struct unit *unit_find(const struct queue *queue, const char *uid)
{
    return uid ? map_get(queue->units, str_from(uid)) : NULL;
}

bool unit_next(const struct queue *queue, struct unit_walk *walk)
{
    struct str key;
    void *value;

    if (!map_next(queue->units, &walk->at, &key, &value))
        return false;
    walk->unit = value;
    return true;
}

static struct str id_key(const uint64_t *id)
{
    return (struct str){(const char *)id, sizeof(*id)};
}

struct unit *unit_by_id(const struct queue *queue, uint64_t id)
{
    return map_get(queue->by_id, id_key(&id));
}

struct unit *unit_of_job(const struct queue *queue, const char *job)
{
    return map_get(queue->by_job, str_from(job));
}

static void join_job(struct queue *queue, struct unit *unit, const char *job)
{
    if (unit->job || !job)
        return;
    unit->job = mem_strdup(job);
    unit->next_of_job = map_set(queue->by_job, str_from(job), unit);
}

static void leave_job(struct queue *queue, struct unit *unit)
{
    struct unit *it = unit->job ? unit_of_job(queue, unit->job) : NULL;

    if (it == unit) {
        map_remove(queue->by_job, str_from(unit->job));
        if (unit->next_of_job)
            map_set(queue->by_job, str_from(unit->job), unit->next_of_job);
        return;
    }
    while (it && it->next_of_job != unit)
        it = it->next_of_job;
    if (it)
        it->next_of_job = unit->next_of_job;
}

const char *unit_row(const struct unit *unit)
{
    return unit->job ? unit->job : unit->uid;
}

void unit_stop_clear(struct unit *unit)
{
    free(unit->stop.by);
    free(unit->stop.by_name);
    free(unit->stop.reason);
    unit->stop = (struct stop){.epoch = -1};
}

void unit_place(struct unit *unit, const struct slot *slots, uint32_t len)
{
    struct slot *copy = len ? mem_dup(slots, sizeof(*slots) * len) : NULL;

    free((struct slot *)unit->w.placement.v);
    unit->w.placement = (struct placement){copy, len};
}

void unit_free(struct unit *unit)
{
    if (!unit)
        return;
    unit_stop_clear(unit);
    unit_place(unit, NULL, 0);
    free((struct slot *)unit->w.claim.v);
    selector_free(unit->selector, unit->w.selector.len);
    free((char *)unit->w.user);
    free(unit->uid);
    free(unit->ns);
    free(unit->name);
    free(unit->job);
    free(unit->job_name);
    free(unit->image);
    free(unit->script);
    free(unit->pod);
    free(unit->reason);
    free(unit->said);
    vec_done(&unit->spans);
    vec_done(&unit->span_starts);
    free(unit);
}

void unit_drop(struct queue *queue, struct unit *unit)
{
    struct err err = {0};
    struct live_event event = {.type = LIVE_END, .id = unit->w.id, .at_ms = now_ms()};

    notify_row(queue, unit_row(unit));
    live_apply(queue->live, &event, &err);
    leave_job(queue, unit);
    map_remove(queue->units, str_from(unit->uid));
    map_remove(queue->by_id, id_key(&unit->w.id));
    unit_free(unit);
    queue->revision++;
    queue_soon(queue);
}

void unit_tell(struct queue *queue, struct unit *unit)
{
    struct live_event event = {.type = LIVE_ADD, .id = unit->w.id, .at_ms = now_ms(), .workload = unit->w};
    struct err err = {0};

    unit->w.name = unit->job_name && unit->w.kind == WORKLOAD_JOB ? unit->job_name : unit->name;
    event.workload.name = unit->w.name;
    if (phase_is_over(unit->w.phase)) { /* its processes are not gone: it goes on holding its place */
        event.workload.phase = PHASE_STOPPING;
        event.workload.keep = true;
    }
    if (phase_holds(event.workload.phase) != (unit->w.placement.len > 0))
        return;
    if (live_apply(queue->live, &event, &err) < 0)
        log_warn("%s/%s: %s", unit->ns, unit->name, err.msg);
    queue->revision++;
    notify_unit(queue, unit);
    queue_soon(queue);
}

bool unit_shared(const struct queue *queue, const struct unit *unit)
{
    if (unit->w.placement.len == 0 || !unit->w.demand.mib || unit->w.demand.exclusive)
        return false;
    UNITS_EACH(queue, other)
        for (uint32_t i = 0; other != unit && i < other->w.placement.len; i++)
            for (uint32_t j = 0; j < unit->w.placement.len; j++) {
                const struct slot *a = &other->w.placement.v[i], *b = &unit->w.placement.v[j];

                if (a->card != SLOT_CPU && a->node == b->node && a->card == b->card)
                    return true;
            }
    return false;
}

void unit_forecast(struct queue *queue, struct unit *unit)
{
    struct estimate_key key = {unit->image, unit->script, unit->batch_size};
    struct err err = {0};

    if (unit->kind == KIND_TRAINING_JOB)
        estimator_forecast(queue->estimator, &key, &unit->w, unit->training_set, now_ms(), &unit->forecast);
    else
        forecast_declared(&unit->w, now_ms(), &unit->forecast);
    live_forecast(queue->live, unit->w.id, &unit->forecast, &err);
}

/* ---- what pods and training jobs have in common ---- */

static struct unit *unit_need(struct queue *queue, const struct object *object, bool *fresh)
{
    struct unit *unit = unit_find(queue, object->uid);

    *fresh = !unit;
    if (unit)
        return unit;
    unit = NEW(struct unit);
    unit->uid = mem_strdup(object->uid);
    unit->ns = mem_strdup(object->ns);
    unit->name = mem_strdup(object->name);
    unit->kind = object->kind->id;
    unit->w.id = ++queue->last_id;
    unit->w.resumable = true;
    unit->stop.epoch = unit->no_stop_epoch = -1;
    map_set(queue->units, str_from(object->uid), unit);
    map_set(queue->by_id, id_key(&unit->w.id), unit);
    return unit;
}

/* Objects know the second they were made in; those of one second stay in the order in which they came. */
static int64_t submit_ms(struct queue *queue, const struct json *doc)
{
    int64_t ms = time_of(json_at(doc, "metadata.creationTimestamp"), clock_now()) / NSEC_PER_MSEC;

    ms -= ms % 1000;
    if (ms <= queue->last_submit_ms && queue->last_submit_ms < ms + 999)
        ms = queue->last_submit_ms + 1;
    if (ms > queue->last_submit_ms)
        queue->last_submit_ms = ms;
    return ms;
}

static void read_user(struct unit *unit, const struct json *doc)
{
    char *copy = mem_strdup(work_user(doc));

    free((char *)unit->w.user);
    unit->w.user = copy;
}

static void read_priority(struct queue *queue, struct unit *unit, const struct object *object,
                          const struct json *doc)
{
    const struct json *own = json_at(doc, "spec.priority");
    struct str label = object_label(object, PRIORITY_LABEL);
    const char *warning = NULL;
    int32_t value = 0;

    if (label.s)
        value = priority_parse(label, &warning);
    else if (unit->kind == KIND_TRAINING_JOB)
        value =
            json_is(own, JSON_STRING) ? priority_parse(json_str(own), &warning) : (int32_t)json_int(own, 0);
    if (warning && !unit->bad_priority)
        registry_event(queue->registry, object, "Warning", "BadPriority", "label priority '%.*s': %s",
                       STR_ARG(label.s ? label : json_str(own)), warning);
    unit->bad_priority = warning != NULL;
    unit->w.priority = value;
}

/* Which nodes will do; anew when they have changed. */
static void read_selector(struct queue *queue, struct unit *unit, const struct json *doc)
{
    if (unit->world == queue->world)
        return;
    selector_free(unit->selector, unit->w.selector.len);
    unit->w.selector.len = world_selector(queue, doc, &unit->selector);
    unit->w.selector.v = unit->selector;
    unit->world = queue->world;
}

static void read_common(struct queue *queue, struct unit *unit, const struct object *object,
                        const struct json *doc, bool fresh)
{
    read_user(unit, doc);
    read_priority(queue, unit, object, doc);
    unit->w.asked = unit->w.asked || work_is_claimed(doc);
    unit->w.keep = work_is_kept(doc);
    read_selector(queue, unit, doc);
    if (!fresh)
        return;
    unit->w.submit_ms = submit_ms(queue, doc);
    unit->since_ms = unit->w.submit_ms;
}

/* ---- pods ---- */

static void read_pod_demand(struct unit *unit, const struct json *doc, struct arena *arena)
{
    struct pod_need need;
    int64_t mib = pod_share_mib(doc);

    pod_need(json_get(doc, "spec"), arena, &need);
    if (mib && need.gpus == 0)
        need.gpus = 1;
    unit->asked_mib = need.gpus ? mib : 0;
    unit->w.demand = (struct demand){.min_gpus = demand_gpus(need.gpus),
                                     .max_gpus = demand_gpus(need.gpus),
                                     .unit_gpus = demand_gpus(need.gpus),
                                     .mib = (uint32_t)unit->asked_mib,
                                     .each = {need.cpu_milli, need.mem_mib}};
}

static const struct json *job_owner(const struct json *doc)
{
    JSON_EACH(json_at(doc, "metadata.ownerReferences"), it)
        if (streq(json_get_string(it, "kind"), "Job") && json_bool(json_get(it, "controller")))
            return it;
    return NULL;
}

static void read_job(struct queue *queue, struct unit *unit, const struct json *doc)
{
    const struct json *owner = job_owner(doc);
    const struct object *job = owner ? store_by_uid(queue->store, json_get_string(owner, "uid")) : NULL;
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *job_doc;

    unit->w.kind = owner ? WORKLOAD_JOB : WORKLOAD_POD;
    if (!owner)
        return;
    join_job(queue, unit, json_get_string(owner, "uid"));
    set_string(&unit->job_name, json_get_string(owner, "name"));
    if (!job)
        return;
    job_doc = object_json(job, &arena);
    unit->w.keep = unit->w.keep || work_is_kept(job_doc);
    unit->w.submit_ms = time_of(json_at(job_doc, "metadata.creationTimestamp"), 0) / NSEC_PER_MSEC;
    unit->w.asked = unit->w.asked || work_is_claimed(job_doc);
    if (!label_get(doc, USER_LABEL)) /* labels of the Job count for its pods, too */
        read_user(unit, job_doc);
    if (!label_get(doc, PRIORITY_LABEL)) {
        const char *warning;
        struct str text = object_label(job, PRIORITY_LABEL);

        if (text.s)
            unit->w.priority = priority_parse(text, &warning);
    }
}

static void read_pod_placement(struct queue *queue, struct unit *unit, const struct json *doc)
{
    const char *node_name = json_string_or(json_at(doc, "spec.nodeName"), "");
    const char *cards = annotation_get(doc, CARDS_ANNOTATION);
    uint32_t node = world_node(queue, node_name), len = 0;
    struct card_part parts[CARDS_MAX];
    struct slot slots[CARDS_MAX];
    const struct node *of;
    size_t part_count;

    if (node == SCHED_NONE) {
        unit_place(unit, NULL, 0);
        return;
    }
    of = &queue->cluster.nodes[node];
    if (!cards_read(cards, parts, &part_count))
        part_count = 0;
    for (size_t i = 0; i < part_count; i++) {
        uint32_t card = parts[i].card, mib = parts[i].mib;

        if (mib == 0 && card < of->gpu_count)
            mib = of->gpus[card].mem_mib;
        slots[len++] = (struct slot){node, card, mib};
    }
    if (len == 0) /* only CPU and memory, or bound by somebody else */
        slots[len++] = (struct slot){node, SLOT_CPU, 0};
    if (len && slots[0].card == SLOT_CPU)
        unit->w.demand = (struct demand){.each = unit->w.demand.each};
    unit_place(unit, slots, len);
}

static void read_pod_stop(struct unit *unit, const struct json *doc)
{
    const char *text = annotation_get(doc, STOP_ANNOTATION);
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *stop = NULL;

    if (!text || unit->stop.kind != STOP_NONE || json_parse(str_from(text), &arena, &stop, NULL, NULL) < 0)
        return;
    unit->stop.kind = streq(json_get_string(stop, "kind"), "memory") ? STOP_MEMORY : STOP_PREEMPT;
    set_string(&unit->stop.by, json_get_string(stop, "by"));
    set_string(&unit->stop.by_name, json_get_string(stop, "byName"));
    set_string(&unit->stop.reason, json_get_string(stop, "reason"));
    unit->stop.since_ms = time_of(json_get(stop, "time"), clock_now()) / NSEC_PER_MSEC;
    unit->stop.killed = true;
}

static bool queues(const struct json *doc, const struct object *object, bool bound)
{
    const char *scheduler = json_string_or(json_at(doc, "spec.schedulerName"), "default-scheduler");

    if (bound)
        return true;
    return !object->deleting && !json_len(json_at(doc, "spec.schedulingGates")) &&
           (streq(scheduler, "default-scheduler") || streq(scheduler, "berth"));
}

static void read_pod_script(struct unit *unit, const struct json *doc)
{
    const struct json *first = json_at(doc, "spec.containers.0");

    set_string(&unit->image, json_string_or(json_get(first, "image"), ""));
    set_string(&unit->pod, unit->uid);
}

static int64_t started_of(const struct json *doc)
{
    return time_of(json_at(doc, "status.startTime"), 0) / NSEC_PER_MSEC;
}

struct unit *unit_read_pod(struct queue *queue, const struct object *object)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *doc = object_json(object, &arena);
    bool bound = json_string_or(json_at(doc, "spec.nodeName"), "")[0], fresh;
    struct unit *unit;

    if (!queues(doc, object, bound))
        return NULL;
    unit = unit_need(queue, object, &fresh);
    read_common(queue, unit, object, doc, fresh);
    read_pod_demand(unit, doc, &arena);
    read_job(queue, unit, doc);
    if (fresh)
        read_pod_script(unit, doc);
    if (unit->over)
        return unit;
    if (bound) {
        bool held = phase_holds(unit->w.phase);

        read_pod_placement(queue, unit, doc);
        read_pod_stop(unit, doc);
        if (unit->w.placement.len)
            unit->w.phase = unit->stop.kind ? PHASE_STOPPING : PHASE_RUNNING;
        if (!held && unit->w.placement.len) {
            int64_t started = started_of(doc);

            unit->w.started_ms = started ? started : now_ms();
            unit->first_start_ms = unit->w.started_ms;
            unit->waited_ms = unit->w.started_ms - unit->w.submit_ms;
            unit->since_ms = unit->w.started_ms;
            life_spans_open(queue, unit);
        }
    } else {
        unit->w.phase = PHASE_PENDING;
        unit_place(unit, NULL, 0);
    }
    return unit;
}

/* ---- training jobs ---- */

static void read_training_gpus(struct queue *queue, const struct json *spec, struct demand *demand)
{
    int64_t min = json_int(json_get(spec, "minGPUs"), 1), max = json_int(json_get(spec, "maxGPUs"), -1);
    int64_t largest = world_largest_node(queue);

    if (max == 0) /* only CPU */
        return;
    if (json_bool(json_get(spec, "singleGPU")))
        min = max = 1;
    if (max < 0 || max > largest)
        max = largest;
    demand->min_gpus = demand_gpus(min > 0 ? min : 1);
    demand->max_gpus = max > demand->min_gpus ? (uint32_t)max : demand->min_gpus;
    demand->unit_gpus = 1;
}

static void read_training_demand(struct queue *queue, struct unit *unit, const struct json *spec)
{
    struct demand demand = {
        .each = {amount_of(json_get(spec, "cpu"), true), amount_of(json_get(spec, "memory"), false) >> 20}};
    int64_t mib = json_int(json_get(spec, "estimatedMemoryMiB"), 0);

    read_training_gpus(queue, spec, &demand);
    unit->asked_mib = mib > 0 && mib < MIB_MAX && demand.max_gpus ? mib : 0;
    demand.mib = (uint32_t)unit->asked_mib;
    demand.exclusive = json_bool(json_get(spec, "disableSharing")) && unit->asked_mib;
    if (unit->asked_mib && unit->peak_mib > 0 && unit->w.epochs_done > 0)
        demand.mib = demand_measured_mib(unit->peak_mib, cluster_largest_card(&queue->cluster));
    unit->w.demand = demand;
}

static int64_t seconds_ms(const struct json *value)
{
    if (json_is(value, JSON_REAL))
        return (int64_t)(value->real * 1000);
    return json_int(value, 0) * 1000;
}

static void read_training_spec(struct queue *queue, struct unit *unit, const struct json *spec, bool fresh)
{
    const struct json *hours = json_get(spec, "estimatedHours");

    read_training_demand(queue, unit, spec);
    unit->w.kind = WORKLOAD_TRAINING;
    unit->w.can_checkpoint = true;
    unit->w.epochs_total = (uint32_t)json_int(json_get(spec, "maxEpochs"), 1);
    if (unit->w.epochs_total == 1 && json_len(json_get(spec, "command")))
        unit->w.epochs_total = 0; /* a command of which no epochs are known: it has no last one */
    unit->w.declared_ms = seconds_ms(hours) * 3600;
    unit->w.deadline_ms = time_of(json_get(spec, "deadline"), 0) / NSEC_PER_MSEC;
    if (!fresh)
        return;
    unit->batch_size = (uint32_t)json_int(json_get(spec, "batchSize"), 0);
    unit->training_set = (uint64_t)json_int(json_get(spec, "trainingSetSize"), 0);
    set_string(&unit->image, json_string_or(json_get(spec, "image"), ""));
    if (json_get_string(spec, "scriptPath")) {
        set_string(&unit->script, json_get_string(spec, "scriptPath"));
    } else {
        CLEANUP(buf_done) struct buf text = {0};

        json_write(&text, json_get(spec, "command"));
        json_write(&text, json_get(spec, "args"));
        set_string(&unit->script, text.data ? text.data : "");
    }
}

static enum phase phase_of(const char *name)
{
    enum phase phase = PHASE_PENDING;

    (void)phase_find(name, &phase);
    return phase;
}

static void read_stop(struct unit *unit, const struct json *stop)
{
    if (!json_is(stop, JSON_OBJECT))
        return;
    unit->stop.kind = STOP_PREEMPT;
    for (int k = STOP_PREEMPT; k <= STOP_CANCEL; k++)
        if (streq(stop_names[k], json_get_string(stop, "kind")))
            unit->stop.kind = (enum stop_kind)k;
    set_string(&unit->stop.by, json_get_string(stop, "by"));
    set_string(&unit->stop.by_name, json_get_string(stop, "byName"));
    set_string(&unit->stop.reason, json_get_string(stop, "reason"));
    unit->stop.since_ms = time_of(json_get(stop, "since"), 0) / NSEC_PER_MSEC;
    unit->stop.until_ms = time_of(json_get(stop, "until"), 0) / NSEC_PER_MSEC;
    unit->stop.epoch = json_int(json_get(stop, "epoch"), -1);
    unit->stop.heard_ms = time_of(json_get(stop, "heard"), 0) / NSEC_PER_MSEC;
    unit->stop.killed = json_bool(json_get(stop, "killed"));
}

static void read_cards(struct queue *queue, struct unit *unit, const struct json *cards)
{
    struct slot slots[UNIT_SLOTS_MAX];
    uint32_t len = 0;

    JSON_EACH(cards, it) {
        uint32_t node = world_node(queue, json_get_string(it, "node"));

        if (node != SCHED_NONE && len < UNIT_SLOTS_MAX)
            slots[len++] = (struct slot){node, (uint32_t)json_int(json_get(it, "index"), SLOT_CPU),
                                         (uint32_t)json_int(json_get(it, "mib"), 0)};
    }
    unit_place(unit, slots, len);
}

static void read_training_status(struct queue *queue, struct unit *unit, const struct json *status)
{
    unit->w.phase = phase_of(json_get_string(status, "phase"));
    unit->w.epochs_done = (uint32_t)json_int(json_get(status, "epochsDone"), 0);
    unit->w.restarts = (uint32_t)json_int(json_get(status, "restarts"), 0);
    unit->w.probes = (uint32_t)json_int(json_get(status, "probes"), 0);
    unit->run = (uint32_t)json_int(json_get(status, "run"), 0);
    unit->run_first_epoch = (uint32_t)json_int(json_get(status, "runFirstEpoch"), 0);
    unit->peak_mib = json_int(json_get(status, "peakMemoryMiB"), 0);
    unit->lost_ms = seconds_ms(json_get(status, "lostSeconds"));
    unit->waited_ms = seconds_ms(json_get(status, "waitedSeconds"));
    unit->ran_ms = seconds_ms(json_get(status, "ranSeconds"));
    unit->w.attained_gpu_ms = (uint64_t)seconds_ms(json_get(status, "gpuSeconds"));
    unit->first_start_ms = time_of(json_get(status, "startTime"), 0) / NSEC_PER_MSEC;
    unit->w.started_ms = time_of(json_get(status, "runStarted"), 0) / NSEC_PER_MSEC;
    unit->since_ms =
        time_of(json_get(status, "phaseSince"), unit->w.submit_ms * NSEC_PER_MSEC) / NSEC_PER_MSEC;
    unit->w.saved_ms = unit->epoch_at_ms = time_of(json_get(status, "epochEnded"), 0) / NSEC_PER_MSEC;
    unit->finished_ms = time_of(json_get(status, "completionTime"), 0) / NSEC_PER_MSEC;
    unit->w.not_before_ms = time_of(json_get(status, "notBefore"), 0) / NSEC_PER_MSEC;
    unit->no_stop_epoch = json_int(json_get(status, "noStopEpoch"), -1);
    set_string(&unit->reason, json_get_string(status, "reason"));
    read_stop(unit, json_get(status, "stop"));
    read_cards(queue, unit, json_get(status, "cards"));
}

struct unit *unit_read_training(struct queue *queue, const struct object *object)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct json *doc = object_json(object, &arena), *spec = json_get(doc, "spec");
    struct unit *unit = unit_find(queue, object->uid);
    bool fresh;

    if (!unit && phase_is_over(phase_of(json_at_string(doc, "status.phase"))))
        return NULL;
    unit = unit_need(queue, object, &fresh);
    read_common(queue, unit, object, doc, fresh);
    if (fresh)
        read_training_status(queue, unit, json_get(doc, "status"));
    read_training_spec(queue, unit, spec, fresh);
    if (phase_holds(unit->w.phase) != (unit->w.placement.len > 0) && !phase_is_over(unit->w.phase))
        unit->w.phase = unit->w.placement.len ? PHASE_RUNNING : PHASE_PREEMPTED;
    return unit;
}
