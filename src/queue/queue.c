/* Start and end. */
#include "queue/queue.h"

#include "queue/internal.h"
#include "queue/job_row.h"

#define STOP_MIN_MS 60000
#define STOP_MAX_MS 3600000
#define GRACE_SEC   30

static const int watched[QUEUE_WATCHES] = {KIND_NODE, KIND_TRAINING_JOB,   KIND_POD,        KIND_JOB,
                                           KIND_PVC,  KIND_RESOURCE_QUOTA, KIND_LIMIT_RANGE};

static struct life_rules rules_of(const struct queue_config *config)
{
    struct life_rules rules = life_defaults;

    rules.sched = config->options ? *config->options : sched_defaults;
    rules.sched.preemption = config->preemption;
    rules.stop_min_ms = config->stop_min_ms;
    rules.stop_max_ms = config->stop_max_ms;
    rules.start_ms = config->start_ms ? config->start_ms : rules.start_ms;
    rules.stuck_ms = config->stuck_ms ? config->stuck_ms : rules.stuck_ms;
    rules.notice_ms = config->notice_ms ? config->notice_ms : rules.notice_ms;
    if (config->half_life_hours > 0)
        rules.half_life_ms = (int64_t)(config->half_life_hours * 3600000);
    return rules;
}

static void drop_all(struct queue *queue)
{
    UNITS_EACH(queue, it)
        unit_free(it);
    queue->dropped++;
    job_row_free(queue);
    blocked_free(queue);
    map_free(queue->units);
    map_free(queue->by_id);
    map_free(queue->by_job);
    map_free(queue->by_pod);
    map_free(queue->dirty);
    map_free(TAKE_PTR(queue->looking));
    map_free(queue->recheck);
    vec_done(&queue->explain);
    queue->to_write.len = queue->unseen.len = 0;
    queue->blocked = queue->asked = 0;
    queue->ends_at = 0;
    life_effects_clear(&queue->effects);
    life_free(queue->life);
    queue->life = NULL;
}

static void load(struct queue *queue)
{
    struct life_rules rules = rules_of(&queue->config);

    queue->units = map_new();
    queue->jobs = map_new();
    queue->jobs_blocked = map_new();
    job_row_load(queue);
    queue->by_id = map_new();
    queue->by_job = map_new();
    queue->by_pod = map_new();
    queue->dirty = map_new();
    queue->recheck = map_new();
    (void)world_read(queue);
    queue->life = life_new(queue->policy, &queue->cluster, &rules);
    usage_load(queue);
    samples_load(queue);
    OBJECTS_EACH(store_list(queue->store, KIND_TRAINING_JOB, NULL), it)
        look_enter(queue, *it);
}

/* Pods of no TrainingJob. */
static bool is_own(struct queue *queue, const struct object *pod)
{
    const struct object *owner = store_controller(queue->store, pod);

    return !owner || owner->kind->id != KIND_TRAINING_JOB;
}

/* It ended, and the daemon did before it had recorded that. The end of a Job's pod is the Job's to record. */
static bool ended_meanwhile(struct queue *queue, const struct object *pod)
{
    return !store_controller(queue->store, pod) && !row_recorded(queue, pod->uid);
}

static void load_pods(struct queue *queue)
{
    VEC(struct object *) pods = {0};

    OBJECTS_EACH(store_list(queue->store, KIND_POD, NULL), it)
        if (is_own(queue, *it) && (!pod_ended(*it) || ended_meanwhile(queue, *it)))
            vec_push(&pods, object_ref(*it));
    VEC_EACH(&pods, it) {
        look_enter(queue, *it); /* spans are found below, not opened anew */
        object_unref(*it);
    }
    vec_done(&pods);
}

static void load_all(struct queue *queue)
{
    queue->loading = true;
    load(queue);
    load_pods(queue);
    queue->loading = false;
    records_spans_load(queue);
    carry_all(queue);
    UNITS_EACH(queue, it) {
        map_set(queue->dirty, str_from(it->uid), queue);
        if (it->life && phase_holds(unit_w(it)->phase)) /* more may be known by now about when it ends */
            job_status_write(queue, it);
    }
    queue->revision++;
    job_row_catch_up(queue);
}

void queue_reload(struct queue *queue)
{
    drop_all(queue);
    records_ending_clear(queue);
    load_all(queue);
    queue_settle(queue); /* what it wrote may be taken back in its turn */
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
    queue->anchor = NEW(struct queue_anchor);
    *queue->anchor = (struct queue_anchor){queue, 1};
    queue->tick = loop_timer_new(queue->loop, queue_on_tick, queue);
    queue->notify_timer = loop_timer_new(queue->loop, notify_later, queue);
    queue->rest = loop_timer_new(queue->loop, queue_on_rest, queue);
    queue->revision = (uint64_t)queue_now(queue); /* goes on over restarts */
    keep_guard(queue->registry);
    told_watch(queue, true);
    registry_on_drop(queue->registry, look_drop, queue);
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
    told_watch(queue, false);
    registry_on_drop(queue->registry, NULL, NULL);
    for (size_t i = 0; i < ARRAY_LEN(watched); i++)
        store_unwatch(queue->watches[i]);
    drop_all(queue);
    world_done(queue);
    loop_timer_free(queue->tick);
    loop_timer_free(queue->notify_timer);
    loop_timer_free(queue->rest);
    map_free(queue->changed);
    records_ending_clear(queue);
    map_free(queue->ending);
    vec_done(&queue->unsaved);
    VEC_EACH(&queue->watching, it)
        free(*it);
    vec_done(&queue->watching);
    vec_done(&queue->to_write);
    vec_done(&queue->unseen);
    vec_done(&queue->granted);
    life_effects_done(&queue->effects);
    queue->anchor->queue = NULL;
    if (--queue->anchor->refs == 0)
        free(queue->anchor);
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
