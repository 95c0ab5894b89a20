/* What cards and the pods on them use, and what pods may take of a card. The driver is asked in a thread, one
 * question at a time, as one that sleeps may take seconds to answer: the handle travels with the work, and a
 * thread that hangs keeps it. */
#include "base/clock.h"
#include "base/log.h"
#include "engine/local/internal.h"
#include "loop/offload.h"

#include <dirent.h>

#define LOG_MODULE  "engine"
#define FIRST_SEC   1
#define SAMPLE_SEC  5
#define HANG_SEC    60 /* after which another thread is tried */
#define CGROUP_ROOT "/sys/fs/cgroup"

struct pod_card {
    struct engine_pod_use use;
    char uid[GPU_CONTAINER_ID_MAX + 1];
};

struct card_limit {
    char *uid;
    uint32_t card;
    int64_t mib;
};

/* The thread's, or the loop's while none runs. */
struct sample_work {
    struct gpus *gpus;
    char *cgroup;
    bool can_limit;
    VEC(struct card_limit) limits; /* to be set */
    VEC(struct engine_card_use) cards;
    VEC(struct pod_card) pods;
};

struct sampler {
    struct loop_timer *timer;
    struct sample_work *work; /* NULL: a thread has it */
    engine_sample_fn fn;
    void *arg;
    bool can_limit;
    VEC(struct card_limit) limits; /* wanted, for the next work */
};

/* ---- in the thread ---- */

/* Limits every container of a pod below one root of cgroups. */
static void limit_below(const struct sample_work *work, const char *root, const struct card_limit *limit)
{
    CLEANUP(free) char *parent = mem_printf("%s%s", root, work->cgroup);
    DIR *dir = opendir(parent);
    const struct dirent *entry;
    size_t len = strlen(limit->uid);

    while (dir && (entry = readdir(dir)))
        if (strncmp(entry->d_name, limit->uid, len) == 0 && entry->d_name[len] == '_') {
            CLEANUP(free) char *path = mem_printf("%s/%s", parent, entry->d_name);
            struct err err = {0};

            if (gpu_limit_set(work->gpus, limit->card, path, limit->mib, limit->mib, &err) < 0)
                log_warn("limit of card %u for pod %s: %s", limit->card, limit->uid, err.msg);
        }
    if (dir)
        closedir(dir);
}

static void add_proc(struct sample_work *work, const struct gpu_proc *proc)
{
    struct pod_card found = {.use = {NULL, (uint32_t)proc->card, proc->used_mib}};
    char *end;

    if (proc->used_mib < 0 || !gpu_container_of(proc->pid, work->cgroup, found.uid))
        return;
    if ((end = strchr(found.uid, '_')))
        *end = '\0';
    VEC_EACH(&work->pods, it)
        if (it->use.card == found.use.card && streq(it->uid, found.uid)) {
            it->use.mib += proc->used_mib;
            return;
        }
    vec_push(&work->pods, found);
}

static void sample_run(void *arg)
{
    struct sample_work *work = arg;
    struct gpu_procs procs = {0};
    struct gpu_config config = {0};
    const char *why;

    work->cards.len = work->pods.len = 0;
    if (!work->gpus && gpu_open(&config, &work->gpus, NULL) < 0)
        return;
    work->can_limit = gpu_limits_available(work->gpus, &why);
    VEC_EACH(&work->limits, it) {
        limit_below(work, CGROUP_ROOT, it);
        limit_below(work, CGROUP_ROOT "/unified", it);
    }
    gpu_refresh(work->gpus);
    for (size_t i = 0; i < gpu_count(work->gpus); i++) {
        const struct gpu_card *card = gpu_at(work->gpus, i);

        vec_push(&work->cards,
                 (struct engine_card_use){(uint32_t)i, card->used_mib, card->busy_percent, !card->healthy});
    }
    gpu_procs(work->gpus, &procs);
    VEC_EACH(&procs, it)
        add_proc(work, it);
    vec_done(&procs);
}

static void sample_drop(void *arg)
{
    struct sample_work *work = arg;

    if (!work)
        return;
    VEC_EACH(&work->limits, it)
        free(it->uid);
    gpu_close(work->gpus);
    vec_done(&work->limits);
    vec_done(&work->cards);
    vec_done(&work->pods);
    free(work->cgroup);
    free(work);
}

/* ---- in the loop ---- */

static void tell(const struct local_engine *engine, struct sample_work *work)
{
    VEC(struct engine_pod_use) pods = {0};
    struct engine_sample sample = {
        .node = engine->node_name, .cards = work->cards.v, .cards_len = work->cards.len};

    VEC_EACH(&work->pods, it) {
        it->use.pod_uid = it->uid;
        vec_push(&pods, it->use);
    }
    sample.pods = pods.v;
    sample.pods_len = pods.len;
    engine->sampler->fn(engine->sampler->arg, &sample);
    vec_done(&pods);
}

static void sample_done(void *owner, void *arg)
{
    struct local_engine *engine = owner;
    struct sampler *sampler = engine->sampler;
    struct sample_work *work = arg;

    if (!work) {
        log_warn("the driver of the cards has not answered for %d s", HANG_SEC);
    } else {
        VEC_EACH(&work->limits, it)
            free(it->uid);
        work->limits.len = 0;
        sampler->work = work;
        sampler->can_limit = work->can_limit;
        if (sampler->fn && work->cards.len)
            tell(engine, work);
    }
    if (sampler->fn)
        loop_timer_set(sampler->timer, SAMPLE_SEC * NSEC_PER_SEC);
}

static void sample_on_timer(void *arg)
{
    struct local_engine *engine = arg;
    struct sampler *sampler = engine->sampler;
    struct sample_work *work = TAKE_PTR(sampler->work);
    struct err err = {0};

    if (!work) {
        work = NEW(struct sample_work);
        work->cgroup = mem_strdup(engine->cgroup);
    }
    VEC_EACH(&sampler->limits, it)
        vec_push(&work->limits, *it);
    sampler->limits.len = 0;
    if (offload_run(engine->offload, HANG_SEC, sample_run, sample_done, sample_drop, engine, work, &err) <
        0) {
        sampler->work = work;
        loop_timer_set(sampler->timer, SAMPLE_SEC * NSEC_PER_SEC);
    }
}

void sample_start(struct local_engine *engine, engine_sample_fn fn, void *arg)
{
    struct sampler *sampler = engine->sampler;

    if (!sampler) {
        if (!fn || engine->cards == 0 || gpu_at(engine->gpus, 0)->declared)
            return;
        sampler = engine->sampler = NEW(struct sampler);
        sampler->timer = loop_timer_new(engine->loop, sample_on_timer, engine);
    }
    sampler->fn = fn;
    sampler->arg = arg;
    if (fn)
        loop_timer_set(sampler->timer, FIRST_SEC * NSEC_PER_SEC);
    else
        loop_timer_stop(sampler->timer);
}

bool sample_limit(struct local_engine *engine, const char *pod_uid, uint32_t card, int64_t mib)
{
    struct sampler *sampler = engine->sampler;

    if (!sampler || !sampler->can_limit)
        return false;
    vec_push(&sampler->limits, (struct card_limit){mem_strdup(pod_uid), card, mib});
    return true;
}

/* After the offload is closed. */
void sample_stop(struct local_engine *engine)
{
    struct sampler *sampler = TAKE_PTR(engine->sampler);

    if (!sampler)
        return;
    loop_timer_free(sampler->timer);
    sample_drop(sampler->work);
    VEC_EACH(&sampler->limits, it)
        free(it->uid);
    vec_done(&sampler->limits);
    free(sampler);
}
