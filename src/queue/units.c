/* From objects to what life works with: a description, read anew whenever an object changes, and, when the
 * queue first sees it, what is stored of it. */
#include "control/pod_state.h"
#include "control/training_check.h"
#include "control/util.h"
#include "objects/object_doc.h"
#include "queue/internal.h"

#define MIB_MAX         (1 << 30)
#define EPOCHS_MAX      1000000000
#define GPU_SECONDS_MAX 1e12 /* 31,000 years of one GPU */

void set_string(char **member, const char *text)
{
    char *copy = text ? mem_strdup(text) : NULL;

    free(*member);
    *member = copy;
}

/* ---- finding them ---- */

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

struct unit *unit_holding(const struct queue *queue, size_t *at)
{
    const struct live *live = life_live(queue->life);
    uint32_t job;

    while ((job = live_running(live, *at)) != SCHED_NONE) {
        struct unit *unit = unit_by_id(queue, live_view(live)->jobs[job].id);

        ++*at;
        if (unit && phase_holds(unit_w(unit)->phase))
            return unit;
    }
    return NULL;
}

struct unit *unit_of_job(const struct queue *queue, const char *job)
{
    return map_get(queue->by_job, str_from(job));
}

struct unit *unit_of_pod(const struct queue *queue, const char *pod_uid)
{
    struct unit *unit = unit_find(queue, pod_uid);

    return unit ? unit : map_get(queue->by_pod, str_from(pod_uid));
}

const struct workload *unit_w(const struct unit *unit)
{
    static const struct workload none = {.phase = PHASE_PENDING};

    return unit->life ? &unit->life->w : &none;
}

const char *unit_row(const struct unit *unit)
{
    return unit->job ? unit->job : unit->uid;
}

/* ---- making and dropping ---- */

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

static void forget_pods(struct queue *queue, struct unit *unit)
{
    VEC_EACH(&unit->pods, it) {
        map_remove(queue->by_pod, str_from(*it));
        free(*it);
    }
    unit->pods.len = 0;
}

void unit_add_pod(struct queue *queue, struct unit *unit, const char *pod_uid)
{
    if (map_get(queue->by_pod, str_from(pod_uid)) == unit)
        return;
    vec_push(&unit->pods, mem_strdup(pod_uid));
    map_set(queue->by_pod, str_from(pod_uid), unit);
}

void unit_set_pod(struct queue *queue, struct unit *unit, const char *pod_uid)
{
    if (unit->pod && pod_uid && streq(unit->pod, pod_uid))
        return;
    unit->limited = 0;
    set_string(&unit->pod, pod_uid);
    if (pod_uid)
        unit_add_pod(queue, unit, pod_uid);
    else
        forget_pods(queue, unit);
}

struct unit *unit_need(struct queue *queue, const struct object *object)
{
    struct unit *unit = unit_find(queue, object->uid);

    if (unit)
        return unit;
    unit = NEW(struct unit);
    unit->uid = mem_strdup(object->uid);
    unit->ns = mem_strdup(object->ns);
    unit->name = mem_strdup(object->name);
    unit->maker = object->maker.s ? mem_strndup(object->maker.s, object->maker.len) : NULL;
    unit->kind = object->kind->id;
    unit->id = ++queue->last_id;
    map_set(queue->units, str_from(object->uid), unit);
    map_set(queue->by_id, id_key(&unit->id), unit);
    if (unit->kind == KIND_POD)
        unit_set_pod(queue, unit, unit->uid);
    return unit;
}

bool unit_controls(const struct unit *unit, const struct object *pod)
{
    return pod->controller && str_is(pod->owners[pod->controller - 1], unit->uid) &&
           streq(pod->ns, unit->ns) && !pod->maker.s == !unit->maker &&
           (!unit->maker || str_is(pod->maker, unit->maker));
}

void unit_free(struct unit *unit)
{
    if (!unit)
        return;
    selector_free(unit->selector, unit->selector_len);
    free(unit->uid);
    free(unit->ns);
    free(unit->name);
    free(unit->maker);
    free(unit->job);
    free(unit->job_name);
    free(unit->pod);
    VEC_EACH(&unit->pods, it)
        free(*it);
    vec_done(&unit->pods);
    vec_done(&unit->ports);
    free(unit->said);
    vec_done(&unit->spans);
    vec_done(&unit->span_starts);
    map_free(unit->metrics);
    free(unit);
}

void unit_drop(struct queue *queue, struct unit *unit)
{
    queue->asked -= unit->asked;
    queue->dropped++;
    notify_row(queue, unit_row(unit));
    leave_job(queue, unit);
    unit_set_pod(queue, unit, NULL);
    map_remove(queue->units, str_from(unit->uid));
    map_remove(queue->by_id, id_key(&unit->id));
    unit_free(unit);
    queue->revision++;
    queue_soon(queue);
}

/* ---- what pods and training jobs have in common ---- */

/* Objects know the second they were made in; those of one second stay in the order in which they came. */
static int64_t submit_ms(struct queue *queue, const struct json *doc)
{
    int64_t ms =
        time_of(json_at(doc, "metadata.creationTimestamp"), queue_now(queue) * NSEC_PER_MSEC) / NSEC_PER_MSEC;

    ms -= ms % 1000;
    if (ms <= queue->last_submit_ms && queue->last_submit_ms < ms + 999)
        ms = queue->last_submit_ms + 1;
    if (ms > queue->last_submit_ms)
        queue->last_submit_ms = ms;
    return ms;
}

static int32_t priority_of(struct queue *queue, struct unit *unit, const struct object *object,
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
    return value;
}

/* Which nodes will do; anew when they have changed. */
static void read_selector(struct queue *queue, struct unit *unit, const struct json *doc)
{
    if (unit->world == queue->world)
        return;
    selector_free(unit->selector, unit->selector_len);
    unit->selector_len = world_selector(queue, doc, &unit->selector);
    unit->world = queue->world;
}

static void describe_common(struct queue *queue, struct unit *unit, const struct object *object,
                            const struct json *doc, struct life_desc *ret)
{
    if (!unit->submit_ms)
        unit->submit_ms = submit_ms(queue, doc);
    read_selector(queue, unit, doc);
    *ret = (struct life_desc){.of = unit};
    ret->w = (struct workload){.id = unit->id,
                               .name = unit->name,
                               .user = work_user(doc),
                               .priority = priority_of(queue, unit, object, doc),
                               .submit_ms = unit->submit_ms,
                               .selector = {unit->selector, unit->selector_len},
                               .keep = work_is_kept(doc),
                               .asked = work_is_claimed(doc) || unit_w(unit)->asked,
                               .not_before_ms = unit_w(unit)->not_before_ms};
}

static uint32_t count_of(const struct json *value, int64_t fallback)
{
    int64_t n = json_int(value, fallback);

    return (uint32_t)(n < 0 ? 0 : n > EPOCHS_MAX ? EPOCHS_MAX : n);
}

/* ---- pods ---- */

static void pod_demand(const struct json *doc, struct arena *arena, struct life_desc *ret)
{
    struct pod_need need;
    int64_t mib = pod_share_mib(doc);
    uint32_t gpus;

    pod_need(json_get(doc, "spec"), arena, &need);
    if (mib && need.gpus == 0)
        need.gpus = 1;
    gpus = demand_gpus(need.gpus);
    ret->asked_mib = gpus && mib < MIB_MAX ? mib : 0;
    ret->w.demand = (struct demand){.min_gpus = gpus,
                                    .max_gpus = gpus,
                                    .unit_gpus = gpus,
                                    .mib = (uint32_t)ret->asked_mib,
                                    .each = {need.cpu_milli, need.mem_mib}};
}

/* The reference to the Job that a pod is part of; NULL: it is not, whatever it says. */
static const struct json *job_owner(struct queue *queue, const struct unit *unit, const struct object *pod,
                                    const struct json *doc)
{
    JSON_EACH(json_at(doc, "metadata.ownerReferences"), it) {
        const char *uid = json_string_or(json_get(it, "uid"), "");
        const struct object *job;

        if (!streq(json_get_string(it, "kind"), "Job") || !json_bool(json_get(it, "controller")))
            continue;
        job = row_object(queue, uid);
        if (job ? object_controls(job, pod) : streq(unit->job, uid))
            return it;
    }
    return NULL;
}

/* A Job whose pods are made again when they fail; one that says that they are not is left alone. */
static bool is_retried(const struct json *job)
{
    const struct json *limit = json_at(job, "spec.backoffLimit");

    return json_int(limit, 6) > 0 || json_get(json_get(job, "spec"), "podFailurePolicy");
}

static void describe_job_pod(struct queue *queue, struct unit *unit, const struct object *pod,
                             const struct json *doc, struct arena *arena, struct life_desc *ret)
{
    const struct json *owner = job_owner(queue, unit, pod, doc), *job_doc;
    const struct object *job = owner ? store_by_uid(queue->store, json_get_string(owner, "uid")) : NULL;

    ret->w.kind = owner ? WORKLOAD_JOB : WORKLOAD_POD;
    ret->w.resumable = owner ? unit_w(unit)->resumable : queue->config.displace_pods;
    if (owner) {
        join_job(queue, unit, json_get_string(owner, "uid"));
        set_string(&unit->job_name, json_get_string(owner, "name"));
        ret->w.name = unit->job_name;
    }
    if (!job)
        return;
    job_doc = object_json(job, arena);
    ret->w.resumable = is_retried(job_doc);
    ret->w.keep = ret->w.keep || work_is_kept(job_doc);
    ret->w.asked = ret->w.asked || work_is_claimed(job_doc);
    ret->w.submit_ms = time_of(json_at(job_doc, "metadata.creationTimestamp"), 0) / NSEC_PER_MSEC;
    if (!label_get(doc, USER_LABEL)) /* labels of the Job count for its pods, too */
        ret->w.user = work_user(job_doc);
    if (!label_get(doc, PRIORITY_LABEL) && label_get(job_doc, PRIORITY_LABEL)) {
        const char *warning;

        ret->w.priority = priority_parse(str_from(label_get(job_doc, PRIORITY_LABEL)), &warning);
    }
}

void unit_describe_pod(struct queue *queue, struct unit *unit, const struct object *object,
                       const struct json *doc, struct arena *arena, struct life_desc *ret)
{
    describe_common(queue, unit, object, doc, ret);
    pod_demand(doc, arena, ret);
    describe_job_pod(queue, unit, object, doc, arena, ret);
    ret->row = unit_row(unit);
    ret->image = json_string_or(json_at(doc, "spec.containers.0.image"), "");
}

bool pod_is_bound(const struct json *doc)
{
    return json_string_or(json_at(doc, "spec.nodeName"), "")[0] != '\0';
}

bool pod_ended(const struct object *pod)
{
    return pod_is_over(object_doc(pod));
}

bool pod_queues(const struct json *doc, const struct object *object)
{
    const char *scheduler = json_string_or(json_at(doc, "spec.schedulerName"), "default-scheduler");

    if (pod_is_bound(doc))
        return true;
    return !object->deleting && !json_len(json_at(doc, "spec.schedulingGates")) &&
           (streq(scheduler, "default-scheduler") || streq(scheduler, "berth"));
}

uint32_t pod_slots(struct queue *queue, const struct json *doc, struct slot slots[UNIT_SLOTS_MAX])
{
    uint32_t node = world_node(queue, json_string_or(json_at(doc, "spec.nodeName"), ""));
    struct card_part parts[CARDS_MAX];
    size_t len = 0;

    if (node == SCHED_NONE)
        return 0;
    if (!cards_read(annotation_get(doc, CARDS_ANNOTATION), parts, &len))
        len = 0;
    for (size_t i = 0; i < len; i++) {
        const struct node *of = &queue->cluster.nodes[node];

        slots[i] = (struct slot){node, parts[i].card, parts[i].mib};
        if (slots[i].mib == 0 && slots[i].card < of->gpu_count)
            slots[i].mib = of->gpus[slots[i].card].mem_mib;
    }
    if (len == 0) /* only CPU and memory, or bound by somebody else */
        slots[len++] = (struct slot){node, SLOT_CPU, 0};
    return (uint32_t)len;
}

static void saved_stop(const struct json *doc, struct arena *arena, struct life_stop *ret)
{
    const char *text = annotation_get(doc, STOP_ANNOTATION);
    struct json *stop = NULL;

    if (!text || json_parse(str_from(text), arena, &stop, NULL, NULL) < 0)
        return;
    ret->kind = life_stop_find(json_get_string(stop, "kind"));
    if (ret->kind == STOP_NONE)
        ret->kind = STOP_PREEMPT;
    ret->by = (char *)json_get_string(stop, "by");
    ret->by_name = (char *)json_get_string(stop, "byName");
    ret->reason = (char *)json_get_string(stop, "reason");
    ret->since_ms = time_of(json_get(stop, "time"), 0) / NSEC_PER_MSEC;
    ret->until_ms = time_of(json_get(stop, "until"), 0) / NSEC_PER_MSEC;
    ret->killed = ret->until_ms == 0 || json_bool(json_get(stop, "killed"));
}

/* A pod that waits after starts that came to nothing. */
static void saved_retry(const struct json *doc, struct arena *arena, struct life_job *ret)
{
    const char *text = annotation_get(doc, RETRY_ANNOTATION);
    struct json *retry = NULL;

    if (!text || json_parse(str_from(text), arena, &retry, NULL, NULL) < 0)
        return;
    ret->refusals = ret->run = count_of(json_get(retry, "refusals"), 0);
    ret->w.not_before_ms = time_of(json_get(retry, "notBefore"), 0) / NSEC_PER_MSEC;
    ret->trouble = (char *)json_string_or(json_get(retry, "trouble"), "it could not start");
    ret->reason = arena_printf(arena, "cannot start: %s", ret->trouble);
}

void unit_saved_pod(struct queue *queue, struct unit *unit, const struct json *doc, int64_t now,
                    struct arena *arena, struct life_job *ret)
{
    struct slot *slots = arena_alloc(arena, sizeof(*slots) * UNIT_SLOTS_MAX);
    struct pod_state state;

    *ret = (struct life_job){.no_stop_epoch = -1, .stop = {.epoch = -1}, .run = 1};
    pod_state_read(doc, &state);
    ret->w.placement = (struct placement){slots, pod_slots(queue, doc, slots)};
    saved_stop(doc, arena, &ret->stop);
    if (ret->w.placement.len == 0) {
        ret->stop = (struct life_stop){.epoch = -1};
        ret->run = 0;
        saved_retry(doc, arena, ret);
        return;
    }
    ret->placed_ms = time_of(json_at(doc, "status.startTime"), now * NSEC_PER_MSEC) / NSEC_PER_MSEC;
    if (state.kind == POD_STATE_RUNNING || state.kind == POD_STATE_STOPPING || state.kind == POD_STATE_OVER)
        ret->w.started_ms =
            state.kind == POD_STATE_RUNNING && state.since ? state.since / NSEC_PER_MSEC : ret->placed_ms;
    ret->w.phase = ret->stop.kind ? PHASE_STOPPING : ret->w.started_ms ? PHASE_RUNNING : PHASE_STARTING;
    ret->first_start_ms = ret->w.started_ms;
    ret->waited_ms = ret->placed_ms > unit->submit_ms ? ret->placed_ms - unit->submit_ms : 0;
    ret->since_ms = ret->w.started_ms ? ret->w.started_ms : ret->placed_ms;
    ret->reason = ret->stop.kind
                      ? ret->stop.reason
                      : arena_strdup(arena, ret->w.phase == PHASE_RUNNING ? "running" : "starting");
}

/* ---- training jobs ---- */

static void training_gpus(struct queue *queue, const struct json *spec, struct demand *demand)
{
    int64_t min = training_min_gpus(spec), max = json_int(json_get(spec, "maxGPUs"), -1);
    int64_t largest = world_largest_node(queue);

    if (min == 0) /* only CPU */
        return;
    if (json_bool(json_get(spec, "singleGPU")))
        max = 1;
    if (max < 0 || max > largest)
        max = largest;
    demand->min_gpus = demand_gpus(min);
    demand->max_gpus = max > demand->min_gpus ? demand_gpus(max) : demand->min_gpus;
    demand->unit_gpus = 1;
}

static void training_demand(struct queue *queue, const struct json *spec, struct life_desc *ret)
{
    struct demand demand = {.each = {amount_of(json_get(spec, "cpu"), AMOUNT_MILLI),
                                     amount_of(json_get(spec, "memory"), AMOUNT_MIB)}};
    int64_t mib = json_int(json_get(spec, "estimatedMemoryMiB"), 0);

    training_gpus(queue, spec, &demand);
    ret->asked_mib = mib > 0 && mib < MIB_MAX && demand.max_gpus ? mib : 0;
    demand.mib = (uint32_t)ret->asked_mib;
    demand.exclusive = json_bool(json_get(spec, "disableSharing")) && ret->asked_mib;
    ret->w.demand = demand;
}

/* Thousandths of a number as anybody may have stored it, cut at max. */
static int64_t milli_of(const struct json *value, double max)
{
    double n = json_is(value, JSON_REAL)  ? value->real
               : json_is(value, JSON_BIG) ? max
                                          : (double)json_int(value, 0);

    return n > 0 ? (int64_t)((n < max ? n : max) * 1000) : 0;
}

/* "31346:6006,…": the ports before the colons. */
static void read_ports(struct unit *unit, struct str mapping)
{
    struct str pair;

    unit->ports.len = 0;
    while (mapping.len && str_split(&mapping, ',', &pair)) {
        struct str right = str_trim(pair), left;
        uint64_t n;

        if (str_split(&right, ':', &left) && str_to_uint(str_trim(left), &n) && n <= UINT16_MAX)
            vec_push(&unit->ports, (uint16_t)n);
    }
}

void unit_describe_training(struct queue *queue, struct unit *unit, const struct object *object,
                            const struct json *doc, struct arena *arena, struct life_desc *ret)
{
    const struct json *spec = json_get(doc, "spec");

    describe_common(queue, unit, object, doc, ret);
    read_ports(unit, json_str(json_get(spec, "portMapping")));
    training_demand(queue, spec, ret);
    ret->w.kind = WORKLOAD_TRAINING;
    ret->w.can_checkpoint = ret->w.resumable = true;
    ret->w.epochs_total = count_of(json_get(spec, "maxEpochs"), 1);
    if (ret->w.epochs_total == 1 && json_len(json_get(spec, "command")))
        ret->w.epochs_total = 0; /* a command of which no epochs are known: it has no last one */
    ret->w.declared_ms = milli_of(json_get(spec, "estimatedHours"), TRAIN_HOURS_MAX) * 3600;
    ret->w.deadline_ms = time_of(json_get(spec, "deadline"), 0) / NSEC_PER_MSEC;
    ret->row = unit->uid;
    ret->batch_size = count_of(json_get(spec, "batchSize"), 0);
    ret->training_set = (uint64_t)json_int(json_get(spec, "trainingSetSize"), 0);
    ret->image = json_string_or(json_get(spec, "image"), "");
    ret->script = json_get_string(spec, "scriptPath");
    if (!ret->script) {
        CLEANUP(buf_done) struct buf text = {0};

        json_write(&text, json_get(spec, "command"));
        json_write(&text, json_get(spec, "args"));
        ret->script = arena_strndup(arena, text.data ? text.data : "", text.len);
    }
}

static int64_t time_ms(const struct json *status, const char *key)
{
    return time_of(json_get(status, key), 0) / NSEC_PER_MSEC;
}

static void training_stop(const struct json *stop, struct life_stop *ret)
{
    if (!json_is(stop, JSON_OBJECT))
        return;
    ret->kind = life_stop_find(json_get_string(stop, "kind"));
    if (ret->kind == STOP_NONE)
        ret->kind = STOP_PREEMPT;
    ret->by = (char *)json_get_string(stop, "by");
    ret->by_name = (char *)json_get_string(stop, "byName");
    ret->reason = (char *)json_get_string(stop, "reason");
    ret->since_ms = time_ms(stop, "since");
    ret->until_ms = time_ms(stop, "until");
    ret->epoch = json_int(json_get(stop, "epoch"), -1);
    ret->heard_ms = time_ms(stop, "heard");
    ret->killed = json_bool(json_get(stop, "killed"));
}

static struct placement training_cards(struct queue *queue, const struct json *cards, struct arena *arena)
{
    struct slot *slots = arena_alloc(arena, sizeof(*slots) * (json_len(cards) + 1));
    uint32_t len = 0;

    JSON_EACH(cards, it) {
        uint32_t node = world_node(queue, json_get_string(it, "node"));

        if (node != SCHED_NONE && len < UNIT_SLOTS_MAX)
            slots[len++] = (struct slot){node, (uint32_t)json_int(json_get(it, "index"), SLOT_CPU),
                                         (uint32_t)json_int(json_get(it, "mib"), 0)};
    }
    return (struct placement){slots, len};
}

static double seconds_of(const struct json *value)
{
    return json_is(value, JSON_REAL) ? value->real : (double)json_int(value, 0);
}

/* Older versions stored one time for each number of GPUs. */
static void saved_epochs(const struct json *status, struct epoch_log *ret)
{
    const struct json *rows = json_get(status, "epochTimes");

    JSON_EACH(rows, it) {
        struct epoch_row row = {.gpus = (uint32_t)json_int(json_get(it, "gpus"), 0),
                                .shared = json_bool(json_get(it, "shared")),
                                .count = (uint32_t)json_int(json_get(it, "epochs"), 0),
                                .mean_s = seconds_of(json_get(it, "seconds")),
                                .weight = seconds_of(json_get(it, "weight")),
                                .sigma2 = seconds_of(json_get(it, "variance"))};

        epoch_log_load(ret, &row);
    }
    if (rows)
        return;
    JSON_EACH_MEMBER(json_get(status, "secondsPerEpoch"), it) {
        uint64_t gpus = 0;

        if (str_to_uint(str_from(it->key), &gpus) && gpus <= UNIT_SLOTS_MAX)
            epoch_log_load(ret, &(struct epoch_row){
                                    .gpus = (uint32_t)gpus, .count = 1, .mean_s = seconds_of(&it->value)});
    }
}

void unit_saved_training(struct queue *queue, struct unit *unit, const struct json *doc, struct arena *arena,
                         struct life_job *ret)
{
    const struct json *status = json_get(doc, "status");
    enum phase phase = PHASE_PENDING;

    (void)unit;
    *ret = (struct life_job){.stop = {.epoch = -1}};
    (void)phase_find(json_get_string(status, "phase"), &phase);
    ret->w.phase = phase;
    ret->w.epochs_done = count_of(json_get(status, "epochsDone"), 0);
    ret->w.restarts = (uint32_t)json_int(json_get(status, "restarts"), 0);
    ret->w.probes = (uint32_t)json_int(json_get(status, "probes"), 0);
    ret->w.attained_gpu_ms = (uint64_t)milli_of(json_get(status, "gpuSeconds"), GPU_SECONDS_MAX);
    ret->w.started_ms = time_ms(status, "runStarted");
    ret->w.saved_ms = ret->epoch_at_ms = time_ms(status, "epochEnded");
    ret->w.not_before_ms = time_ms(status, "notBefore");
    ret->w.placement = training_cards(queue, json_get(status, "cards"), arena);
    ret->w.claim = training_cards(queue, json_get(status, "reserved"), arena);
    ret->run = (uint32_t)json_int(json_get(status, "run"), 0);
    ret->run_first_epoch = (uint32_t)json_int(json_get(status, "runFirstEpoch"), 0);
    ret->steps_done = (uint64_t)json_int(json_get(status, "stepsDone"), 0);
    ret->run_first_step = (uint64_t)json_int(json_get(status, "runFirstStep"), 0);
    if (ret->steps_done > ret->run_first_step)
        ret->iterations = ret->steps_done - ret->run_first_step;
    ret->refusals = (uint32_t)json_int(json_get(status, "refusals"), 0);
    ret->peak_mib = json_int(json_get(status, "peakMemoryMiB"), 0);
    ret->lost_ms = milli_of(json_get(status, "lostSeconds"), GPU_SECONDS_MAX);
    ret->waited_ms = milli_of(json_get(status, "waitedSeconds"), GPU_SECONDS_MAX);
    ret->ran_ms = milli_of(json_get(status, "ranSeconds"), GPU_SECONDS_MAX);
    ret->placed_ms = time_ms(status, "runPlaced");
    ret->first_start_ms = time_ms(status, "startTime");
    ret->since_ms = time_ms(status, "phaseSince");
    ret->finished_ms = time_ms(status, "completionTime");
    ret->no_stop_epoch = json_int(json_get(status, "noStopEpoch"), -1);
    ret->last_epoch_s = seconds_of(json_get(status, "lastEpochSeconds"));
    saved_epochs(status, &ret->epochs);
    ret->reason = (char *)json_get_string(status, "reason");
    ret->trouble = (char *)json_get_string(status, "trouble");
    training_stop(json_get(status, "stop"), &ret->stop);
}
