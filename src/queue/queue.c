/* Start and end. */
#include "queue/queue.h"

#include "queue/internal.h"
#include "queue/job_row.h"

#define STOP_MIN_MS 60000
#define STOP_MAX_MS 3600000
#define GRACE_SEC   30

static const int watched[] = {KIND_NODE, KIND_TRAINING_JOB, KIND_POD, KIND_JOB};

static struct sched_options options_of(const struct queue_config *config)
{
    struct sched_options options = config->options ? *config->options : sched_defaults;

    options.preemption = config->preemption;
    return options;
}

static void drop_all(struct queue *queue)
{
    UNITS_EACH(queue, it)
        unit_free(it);
    job_row_free(queue);
    map_free(queue->units);
    map_free(queue->by_id);
    map_free(queue->by_job);
    map_free(queue->dirty);
    live_free(queue->live);
    usage_free(queue->usage);
    estimator_free(queue->estimator);
    plan_done(&queue->plan);
    queue->plan = (struct plan){0};
    queue->plan_at = 0;
}

static void load(struct queue *queue)
{
    struct sched_options options = options_of(&queue->config);

    queue->units = map_new();
    queue->jobs = map_new();
    job_row_load(queue);
    queue->by_id = map_new();
    queue->by_job = map_new();
    queue->dirty = map_new();
    queue->usage =
        usage_new(queue->config.half_life_hours > 0 ? (int64_t)(queue->config.half_life_hours * 3600000)
                                                    : USAGE_HALF_LIFE_MS);
    queue->estimator = estimator_new();
    usage_load(queue);
    samples_load(queue);
    world_read(queue);
    queue->live = live_new(queue->policy, &queue->cluster, &options, queue->usage);
    OBJECTS_EACH(store_list(queue->store, KIND_TRAINING_JOB, NULL), it) {
        struct unit *unit = unit_read_training(queue, *it);

        if (unit)
            queue_dirty(queue, unit->uid);
    }
}

/* Pods of no TrainingJob. */
static bool is_own(struct queue *queue, const struct object *pod)
{
    for (uint32_t i = 0; i < pod->owner_count; i++) {
        char uid[64];
        const struct object *owner;

        snprintf(uid, sizeof(uid), "%.*s", STR_ARG(pod->owners[i]));
        owner = store_by_uid(queue->store, uid);
        if (owner && owner->kind->id == KIND_TRAINING_JOB)
            return false;
    }
    return true;
}

static bool pod_ended(const struct object *pod)
{
    CLEANUP(arena_done) struct arena arena = {0};

    return pod_is_over(object_json(pod, &arena));
}

/* It ended, and the daemon did before it had recorded that. The end of a Job's pod is the Job's to record. */
static bool ended_meanwhile(struct queue *queue, const struct object *pod)
{
    return pod->owner_count == 0 && !row_recorded(queue, pod->uid);
}

static void load_pods(struct queue *queue)
{
    VEC(struct object *) pods = {0};

    OBJECTS_EACH(store_list(queue->store, KIND_POD, NULL), it)
        if (is_own(queue, *it) && (!pod_ended(*it) || ended_meanwhile(queue, *it)))
            vec_push(&pods, object_ref(*it));
    VEC_EACH(&pods, it) {
        struct unit *unit = unit_find(queue, (*it)->uid);

        if (!unit) { /* spans are found below, not opened anew */
            unit = unit_read_pod(queue, *it);
            if (unit)
                queue_dirty(queue, unit->uid);
        }
        object_unref(*it);
    }
    vec_done(&pods);
}

static void tell_all(struct queue *queue)
{
    queue->loading = false;
    life_spans_load(queue);
    UNITS_EACH(queue, it) {
        unit_tell(queue, it);
        unit_forecast(queue, it);
    }
    queue->revision++;
}

static void load_all(struct queue *queue)
{
    queue->loading = true;
    load(queue);
    load_pods(queue);
    tell_all(queue);
    job_row_catch_up(queue);
}

void queue_reload(struct queue *queue)
{
    drop_all(queue);
    life_ending_clear(queue);
    load_all(queue);
    queue_soon(queue);
}

int queue_new(const struct queue_config *config, struct queue **ret, struct err *err)
{
    const struct sched_policy *policy =
        config->policy ? sched_policy_find(config->policy) : sched_policies[0];
    struct queue *queue;

    if (!policy)
        return err_set(err, ERR_INVALID, "no policy '%s'", config->policy);
    queue = NEW(struct queue);
    queue->config = *config;
    queue->config.policy = NULL;
    queue->config.stop_min_ms = config->stop_min_ms ? config->stop_min_ms : STOP_MIN_MS;
    queue->config.stop_max_ms = config->stop_max_ms ? config->stop_max_ms : STOP_MAX_MS;
    queue->config.grace_sec = config->grace_sec ? config->grace_sec : GRACE_SEC;
    queue->config.datasets = mem_strdup(config->datasets);
    queue->config.library = mem_strdup(config->library);
    if (config->options) {
        queue->options = *config->options;
        queue->config.options = &queue->options;
    }
    queue->policy = policy;
    queue->url = mem_strdup(config->url);
    queue->log_dir = mem_strdup(config->log_dir);
    queue->loop = config->loop;
    queue->registry = config->registry;
    queue->store = registry_store(config->registry);
    queue->changed = map_new();
    queue->ending = map_new();
    queue->life = NEW(struct life);
    *queue->life = (struct life){queue, 1};
    queue->tick = loop_timer_new(queue->loop, queue_tick, queue);
    queue->notify_timer = loop_timer_new(queue->loop, notify_later, queue);
    queue->revision = (uint64_t)now_ms(); /* goes on over restarts */
    keep_guard(queue->registry);
    load_all(queue);
    for (size_t i = 0; i < ARRAY_LEN(watched); i++)
        store_watch(queue->store, watched[i], NULL, store_revision(queue->store), queue_on_store, NULL, queue,
                    &queue->watches[i], NULL); /* from now on: cannot be too old */
    queue_soon(queue);
    *ret = queue;
    return 0;
}

void queue_free(struct queue *queue)
{
    if (!queue)
        return;
    for (size_t i = 0; i < ARRAY_LEN(watched); i++)
        store_unwatch(queue->watches[i]);
    drop_all(queue);
    world_done(queue);
    loop_timer_free(queue->tick);
    loop_timer_free(queue->notify_timer);
    map_free(queue->changed);
    life_ending_clear(queue);
    map_free(queue->ending);
    vec_done(&queue->unsaved);
    VEC_EACH(&queue->watching, it)
        free(*it);
    vec_done(&queue->watching);
    vec_done(&queue->wait_of);
    vec_done(&queue->global_of);
    queue->life->queue = NULL;
    if (--queue->life->refs == 0)
        free(queue->life);
    free(queue->url);
    free(queue->log_dir);
    free((char *)queue->config.datasets);
    free((char *)queue->config.library);
    free(queue);
}

void queue_set_url(struct queue *queue, const char *url)
{
    set_string(&queue->url, url);
}

uint64_t queue_revision(const struct queue *queue)
{
    return queue->revision;
}
