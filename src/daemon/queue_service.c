/* What the cards' driver says is asked in a thread of its own, one question at a time, as a driver that
 * sleeps may take seconds to answer. */
#include "daemon/queue_service.h"

#include "api/train/train.h"
#include "base/clock.h"
#include "base/file.h"
#include "daemon/agent.h"
#include "daemon/library.h"
#include "gpu/gpu.h"
#include "queue/queue.h"
#include "store/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#define LOG_MODULE "queue"
#include "base/log.h"

#define DATASETS      "datasets"
#define MEASURE_SEC   5
#define LOG_FILES_MAX 10
#define LOG_LINE_MAX  (1 << 20)
#define CGROUP_ROOT   "/sys/fs/cgroup"

struct measured {
    struct queue_memory memory;
    char uid[GPU_CONTAINER_ID_MAX + 1];
};

struct queue_service {
    struct loop *loop;
    struct registry *registry;
    struct agent *agent;
    struct train *train;
    struct queue *queue;
    char *data_dir, *log_dir, *node_name, *library;
    /* measuring */
    struct gpus *gpus;
    struct loop_timer *timer;
    pthread_t thread;
    bool asking;
    VEC(struct measured) found;
    VEC(struct queue_card) cards;
};

/* ---- hooks ---- */

static const char *token(void *arg, struct arena *arena, const char *job_uid)
{
    return train_token(((struct queue_service *)arg)->train, arena, job_uid);
}

static const char *home(void *arg, struct arena *arena, const char *user)
{
    (void)arg;
    return library_home(arena, user, DATASETS);
}

static bool pod_alive(void *arg, const char *pod_uid)
{
    const struct queue_service *service = arg;

    return service->agent && agent_holds(service->agent, pod_uid);
}

/* One log file of a container, without the times and stream names of its lines. */
static void copy_log(FILE *out, const char *path)
{
    CLEANUP(file_close) FILE *in = fopen(path, "re");
    CLEANUP(free) char *line = NULL;
    size_t cap = 0;
    ssize_t len;

    while (in && (len = getline(&line, &cap, in)) > 0) {
        const char *text = line;
        bool whole = true;

        for (int i = 0; i < 3 && text; i++) { /* time, stream, F or P */
            whole = text[0] != 'P' || i != 2;
            text = strchr(text, ' ');
            text = text ? text + 1 : NULL;
        }
        if (!text)
            continue;
        len -= text - line;
        fwrite(text, 1, (size_t)(whole ? len : len - 1), out);
        if (cap > LOG_LINE_MAX) {
            free(TAKE_PTR(line));
            cap = 0;
        }
    }
}

static void copy_rotated(FILE *out, const char *path)
{
    for (int i = LOG_FILES_MAX; i >= 0; i--) {
        CLEANUP(free) char *name = i ? mem_printf("%s.%d", path, i) : mem_strdup(path);

        if (access(name, F_OK) == 0)
            copy_log(out, name);
    }
}

static void append_log(const struct queue_service *service, const char *pod_uid, const struct json *pod,
                       const char *path)
{
    CLEANUP(arena_done) struct arena arena = {0};
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    CLEANUP(file_close) FILE *out = fd >= 0 ? fdopen(fd, "a") : NULL;

    if (!out) {
        log_warn("open '%s': %s", path, strerror(errno));
        fd_close(fd);
        return;
    }
    JSON_EACH(json_at(pod, "status.containerStatuses"), it)
        copy_rotated(out, arena_printf(&arena, "%s/pods/%s/logs/%s/%lld.log", service->data_dir, pod_uid,
                                       json_string_or(json_get(it, "name"), ""),
                                       (long long)json_int(json_get(it, "restartCount"), 0)));
}

/* Uid of the training job that a pod is a run of; NULL: of none. */
static const char *training_of(const struct json *pod)
{
    JSON_EACH(json_at(pod, "metadata.ownerReferences"), it)
        if (streq(json_get_string(it, "kind"), "TrainingJob"))
            return json_get_string(it, "uid");
    return NULL;
}

/* What the runs of a training job have written stays, in one file. */
static void save_log(void *arg, const char *pod_uid, const struct json *pod)
{
    const struct queue_service *service = arg;
    CLEANUP(arena_done) struct arena arena = {0};
    const char *job = training_of(pod);
    const char *path = job ? queue_log_path(service->queue, job, &arena) : NULL;

    if (path)
        append_log(service, pod_uid, pod, path);
}

/* Limits every container of a pod below one root of cgroups. */
static bool limit_below(struct queue_service *service, const char *root, const char *pod_uid, uint32_t card,
                        int64_t mib)
{
    CLEANUP(free) char *parent = mem_printf("%s%s", root, agent_cgroup(service->agent));
    DIR *dir = opendir(parent);
    const struct dirent *entry;
    size_t uid_len = strlen(pod_uid);
    bool done = false;

    while (dir && (entry = readdir(dir)))
        if (strncmp(entry->d_name, pod_uid, uid_len) == 0 && entry->d_name[uid_len] == '_') {
            CLEANUP(free) char *path = mem_printf("%s/%s", parent, entry->d_name);
            struct err err = {0};

            if (gpu_limit_set(service->gpus, card, path, mib, mib, &err) == 0)
                done = true;
            else
                log_warn("limit of card %u for pod %s: %s", card, pod_uid, err.msg);
        }
    if (dir)
        closedir(dir);
    return done;
}

static bool limit(void *arg, const char *pod_uid, uint32_t card, int64_t mib)
{
    struct queue_service *service = arg;
    const char *why;

    if (!service->gpus || service->asking || !gpu_limits_available(service->gpus, &why))
        return false;
    return limit_below(service, CGROUP_ROOT, pod_uid, card, mib) ||
           limit_below(service, CGROUP_ROOT "/unified", pod_uid, card, mib);
}

/* ---- measuring ---- */

static void add_memory(struct queue_service *service, const struct gpu_proc *proc)
{
    char id[GPU_CONTAINER_ID_MAX + 1];
    char *end;

    if (proc->used_mib < 0 || !gpu_container_of(proc->pid, agent_cgroup(service->agent), id))
        return;
    if ((end = strchr(id, '_')))
        *end = '\0';
    VEC_EACH(&service->found, it)
        if (it->memory.card == (uint32_t)proc->card && streq(it->uid, id)) {
            it->memory.mib += proc->used_mib;
            return;
        }
    vec_push(&service->found, (struct measured){{NULL, (uint32_t)proc->card, proc->used_mib}, ""});
    memcpy(service->found.v[service->found.len - 1].uid, id, sizeof(id));
}

static void measured(void *arg)
{
    struct queue_service *service = arg;
    VEC(struct queue_memory) memory = {0};

    pthread_join(service->thread, NULL);
    service->asking = false;
    VEC_EACH(&service->found, it) {
        vec_push(&memory, it->memory);
        memory.v[memory.len - 1].pod_uid = it->uid;
    }
    queue_measured(service->queue, service->node_name, service->cards.v, service->cards.len, memory.v,
                   memory.len);
    vec_done(&memory);
    loop_timer_set(service->timer, MEASURE_SEC * NSEC_PER_SEC);
}

static void *ask(void *arg)
{
    struct queue_service *service = arg;
    struct gpu_procs procs = {0};

    service->found.len = service->cards.len = 0;
    gpu_refresh(service->gpus);
    for (size_t i = 0; i < gpu_count(service->gpus); i++) {
        const struct gpu_card *card = gpu_at(service->gpus, i);

        vec_push(&service->cards,
                 (struct queue_card){(uint32_t)i, card->used_mib, card->busy_percent, !card->healthy});
    }
    gpu_procs(service->gpus, &procs);
    VEC_EACH(&procs, it)
        add_memory(service, it);
    vec_done(&procs);
    loop_post(service->loop, measured, service);
    return NULL;
}

static void on_timer(void *arg)
{
    struct queue_service *service = arg;

    if (service->asking)
        return;
    service->asking = true;
    if (pthread_create(&service->thread, NULL, ask, service) != 0) {
        service->asking = false;
        loop_timer_set(service->timer, MEASURE_SEC * NSEC_PER_SEC);
    }
}

/* Declared cards have nobody to ask. */
static void start_measuring(struct queue_service *service, const struct daemon_config *config)
{
    struct gpu_config gpu = {0};
    struct err err = {0};

    if (!service->agent || config->gpus.len || gpu_open(&gpu, &service->gpus, &err) < 0 ||
        gpu_count(service->gpus) == 0)
        return;
    service->timer = loop_timer_new(service->loop, on_timer, service);
    loop_timer_set(service->timer, NSEC_PER_SEC);
}

/* ---- start and end ---- */

int queue_service_new(const struct queue_service_config *config, struct queue_service **ret, struct err *err)
{
    const struct daemon_config *daemon = config->config;
    struct queue_service *service = NEW(struct queue_service);
    struct sched_options options = sched_defaults;
    struct queue_config queue = {.loop = config->loop,
                                 .registry = config->registry,
                                 .inbox = config->inbox,
                                 .policy = daemon->policy,
                                 .preemption = (enum preemption)daemon->preemption, /* the same order */
                                 .half_life_hours = daemon->half_life_hours,
                                 .stop_min_ms = daemon->stop_wait_sec * 1000,
                                 .options = &options,
                                 .token = token,
                                 .home = home,
                                 .pod_alive = pod_alive,
                                 .limit = limit,
                                 .arg = service};

    if (daemon->min_run_sec >= 0)
        options.min_run_ms = daemon->min_run_sec * 1000;
    service->loop = config->loop;
    service->registry = config->registry;
    service->agent = config->agent;
    service->train = config->train;
    service->data_dir = mem_strdup(daemon->data_dir);
    service->node_name = mem_strdup(daemon->node_name);
    service->log_dir = mem_printf("%s/logs", daemon->data_dir);
    service->library = library_folder(daemon->data_dir);
    queue.log_dir = service->log_dir;
    queue.library = service->library;
    if (dir_make(service->log_dir, 0700, err) < 0 || queue_new(&queue, &service->queue, err) < 0) {
        queue_service_free(service);
        return -1;
    }
    agent_on_forget(service->agent, save_log, service);
    start_measuring(service, daemon);
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
    agent_on_forget(service->agent, NULL, NULL);
    loop_timer_free(service->timer);
    if (service->asking)
        pthread_join(service->thread, NULL);
    queue_free(service->queue);
    gpu_close(service->gpus);
    vec_done(&service->found);
    vec_done(&service->cards);
    free(service->data_dir);
    free(service->log_dir);
    free(service->node_name);
    free(service->library);
    free(service);
}
