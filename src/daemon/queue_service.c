#include "daemon/queue_service.h"

#include "api/train/look.h"
#include "api/train/train.h"
#include "base/file.h"
#include "daemon/agent.h"
#include "daemon/library.h"
#include "engine/engine.h"
#include "objects/names.h"
#include "queue/queue.h"

#define DATASETS "datasets"

struct queue_service {
    struct store *store;
    struct engine *engine;
    struct train *train;
    struct queue *queue;
    char *library;
    struct looks *looks;
};

/* ---- hooks ---- */

/* Of the pods of a TrainingJob. */
static const char *token(void *arg, const char *pod_uid, struct arena *arena)
{
    const struct queue_service *service = arg;
    const struct object *pod = store_by_uid(service->store, pod_uid),
                        *job = pod ? store_controller(service->store, pod) : NULL;

    return job && job->kind->id == KIND_TRAINING_JOB ? train_token(service->train, arena, job->uid) : NULL;
}

static const char *home(void *arg, struct arena *arena, const char *user)
{
    return library_home(((struct queue_service *)arg)->looks, arena, user, DATASETS);
}

static bool pod_alive(void *arg, const char *pod_uid)
{
    const struct queue_service *service = arg;

    return engine_holds(service->engine, pod_uid);
}

static bool limit(void *arg, const char *pod_uid, uint32_t card, int64_t mib)
{
    const struct queue_service *service = arg;

    return engine_limit(service->engine, pod_uid, card, mib);
}

static void account_known(void *arg)
{
    queue_recheck(((struct queue_service *)arg)->queue);
}

static const char *account(void *arg, struct arena *arena, const char *user)
{
    struct queue_service *service = arg;
    char why[ENGINE_LINE_MAX];

    return engine_account(service->engine, user, account_known, service, why) ? NULL
                                                                              : arena_strdup(arena, why);
}

static const char *last_line(void *arg, struct arena *arena, const char *pod_uid)
{
    const struct queue_service *service = arg;
    char line[ENGINE_LINE_MAX];

    return engine_last_line(service->engine, pod_uid, NULL, line) ? arena_strdup(arena, line) : NULL;
}

/* As object_controls. Where the job has gone before its pods, nobody could name it any more. */
static bool may_be_of(const struct object *job, const struct json *pod)
{
    return !job || (streq(job->ns, json_at_string(pod, "metadata.namespace")) &&
                    str_is(job->maker, work_rights(pod)));
}

/* Output of work that may be looked at when its pods have gone: under the uid of its row. */
static const char *keep_log(void *arg, const struct json *pod, struct arena *arena)
{
    const struct queue_service *service = arg;

    (void)arena;
    JSON_EACH(json_at(pod, "metadata.ownerReferences"), it)
        if (json_bool(json_get(it, "controller")) &&
            (streq(json_get_string(it, "kind"), "TrainingJob") ||
             streq(json_get_string(it, "kind"), "Job")) &&
            may_be_of(store_by_uid(service->store, json_string_or(json_get(it, "uid"), "")), pod))
            return json_get_string(it, "uid");
    return json_string(json_at(pod, "metadata.uid"));
}

static void measured(void *arg, const struct engine_sample *sample)
{
    struct queue_service *service = arg;
    VEC(struct queue_card) cards = {0};
    VEC(struct queue_memory) memory = {0};

    for (size_t i = 0; i < sample->cards_len; i++) {
        const struct engine_card_use *it = &sample->cards[i];

        vec_push(&cards, (struct queue_card){it->card, it->used_mib, it->busy_percent, it->failed});
    }
    for (size_t i = 0; i < sample->pods_len; i++)
        vec_push(&memory,
                 (struct queue_memory){sample->pods[i].pod_uid, sample->pods[i].card, sample->pods[i].mib});
    queue_measured(service->queue, sample->node, cards.v, cards.len, memory.v, memory.len);
    vec_done(&cards);
    vec_done(&memory);
}

/* ---- start and end ---- */

int queue_service_new(const struct queue_service_config *config, struct queue_service **ret, struct err *err)
{
    const struct daemon_config *daemon = config->config;
    struct queue_service *service = NEW(struct queue_service);
    CLEANUP(free) char *log_dir = agent_log_dir(daemon->data_dir);
    struct sched_options options = sched_defaults;
    struct queue_config queue = {.loop = config->loop,
                                 .registry = config->registry,
                                 .inbox = config->inbox,
                                 .policy = daemon->policy,
                                 .preemption = (enum preemption)daemon->preemption, /* the same order */
                                 .half_life_hours = daemon->half_life_hours,
                                 .stop_min_ms = daemon->stop_wait_sec * 1000,
                                 .start_ms = daemon->start_wait_sec * 1000,
                                 .stuck_ms = daemon->stuck_wait_sec * 1000,
                                 .notice_ms = daemon->claim_notice_sec * 1000,
                                 .displace_pods = daemon->displace_pods,
                                 .options = &options,
                                 .home = home,
                                 .account = account,
                                 .last_line = last_line,
                                 .pod_alive = pod_alive,
                                 .limit = limit,
                                 .arg = service};

    if (daemon->min_run_sec >= 0)
        options.min_run_ms = daemon->min_run_sec * 1000;
    service->store = registry_store(config->registry);
    service->looks = train_looks_new();
    service->engine = config->engine;
    service->train = config->train;
    service->library = library_folder(daemon->data_dir);
    queue.log_dir = log_dir;
    queue.library = service->library;
    if (dir_make(log_dir, 0700, err) < 0 || queue_new(&queue, &service->queue, err) < 0) {
        queue_service_free(service);
        return -1;
    }
    engine_keep_logs(service->engine, keep_log, service);
    engine_tokens(service->engine, token, service);
    engine_measure(service->engine, measured, service);
    *ret = service;
    return 0;
}

struct queue *queue_service_queue(const struct queue_service *service)
{
    return service ? service->queue : NULL;
}

void queue_service_free(struct queue_service *service)
{
    if (!service)
        return;
    engine_keep_logs(service->engine, NULL, NULL);
    engine_tokens(service->engine, NULL, NULL);
    engine_measure(service->engine, NULL, NULL);
    queue_free(service->queue);
    train_looks_free(service->looks);
    free(service->library);
    free(service);
}
