/* What /metrics tells of the queue: counters that life's effects move, and what there is at the moment. */
#include "control/pod_state.h"
#include "queue/internal.h"

#define MODELS_MAX 32 /* kinds of cards that are told apart; the others are "other" */

static const char *const fail_names[] = {
    [FAIL_EXIT] = "exit_code",    [FAIL_SIGNAL] = "signal",
    [FAIL_OOM] = "out_of_memory", [FAIL_GPU_MEMORY] = "gpu_memory",
    [FAIL_EVICTED] = "evicted",   [FAIL_DEADLINE] = "deadline",
    [FAIL_LOST] = "lost",         [FAIL_DELETED] = "pod_deleted",
    [FAIL_OTHER] = "other",
};

static const char *const phase_labels[] = {
    [PHASE_PENDING] = "pending",   [PHASE_STARTING] = "starting",   [PHASE_RUNNING] = "running",
    [PHASE_STOPPING] = "stopping", [PHASE_PREEMPTED] = "preempted", [PHASE_SUCCEEDED] = "succeeded",
    [PHASE_FAILED] = "failed",     [PHASE_CANCELLED] = "cancelled",
};

/* ---- counting ---- */

void counts_exit(struct queue *queue, const struct pod_state *state, bool lost)
{
    enum fail *fail = &queue->counts.fail;

    if (lost)
        *fail = FAIL_LOST;
    else if (!state)
        *fail = FAIL_DELETED;
    else if (state->oom || streq(state->reason, "OOMKilled"))
        *fail = FAIL_OOM;
    else if (streq(state->reason, "Evicted"))
        *fail = FAIL_EVICTED;
    else if (streq(state->reason, "DeadlineExceeded"))
        *fail = FAIL_DEADLINE;
    else if (state->signal)
        *fail = FAIL_SIGNAL;
    else
        *fail = state->exit_code > 0 ? FAIL_EXIT : FAIL_OTHER;
}

static void count_runs(struct queue_counts *counts, const struct life_job *job)
{
    counts->starts++;
    histogram_add(&counts->starting, &histogram_wait, (job->since_ms - job->placed_ms) * NSEC_PER_MSEC);
    if (job->first_start_ms != job->since_ms)
        return;
    counts->first_starts++;
    histogram_add(&counts->waits, &histogram_wait, (job->since_ms - job->w.submit_ms) * NSEC_PER_MSEC);
}

void counts_effect(struct queue *queue, const struct life_effect *effect)
{
    struct queue_counts *counts = &queue->counts;
    const struct life_job *job = effect->job;

    switch (effect->type) {
    case EFFECT_TELL:
        if (effect->tell == TELL_STARTED || effect->tell == TELL_RESTARTED)
            count_runs(counts, job);
        break;
    case EFFECT_RECORD:
        if (effect->phase == PHASE_PREEMPTED)
            counts->stopped[effect->stop ? effect->stop->kind : STOP_NONE]++;
        break;
    case EFFECT_GIVE_BACK:
        counts->given_back++;
        break;
    case EFFECT_END:
        counts->ended[effect->phase]++;
        if (effect->phase == PHASE_FAILED)
            counts->failed[job->stop.kind == STOP_MEMORY ? FAIL_GPU_MEMORY : counts->fail]++;
        counts->fail = FAIL_OTHER;
        break;
    default:
        break;
    }
}

/* ---- cards ---- */

struct model {
    const char *name;
    bool declared;
    double total, used, held, failed;
};

struct models {
    struct model v[MODELS_MAX + 1]; /* the last one: all others */
    size_t len;
};

static struct model *model_of(struct models *models, const struct gpu *gpu)
{
    const char *name = gpu->model ? gpu->model : "unknown";

    for (size_t i = 0; i < models->len; i++)
        if (models->v[i].declared == gpu->declared && streq(models->v[i].name, name))
            return &models->v[i];
    if (models->len == MODELS_MAX)
        return &models->v[MODELS_MAX];
    models->v[models->len] = (struct model){.name = name, .declared = gpu->declared};
    return &models->v[models->len++];
}

static void add_slots(const struct queue *queue, const struct workload *w, struct models *models)
{
    for (uint32_t i = 0; i < w->placement.len; i++) {
        const struct slot *slot = &w->placement.v[i];
        const struct node *node = &queue->cluster.nodes[slot->node];
        const struct gpu *gpu = slot->card < node->gpu_count ? &node->gpus[slot->card] : NULL;
        struct model *model;
        double part;

        if (!gpu)
            continue;
        model = model_of(models, gpu);
        part = gpu->mem_mib ? (double)slot->mib / gpu->mem_mib : 1;
        if (w->phase == PHASE_STARTING)
            model->held += part;
        else
            model->used += part;
    }
}

static void gather_models(const struct queue *queue, struct models *models)
{
    models->v[MODELS_MAX] = (struct model){.name = "other"};
    for (uint32_t i = 0; i < queue->cluster.node_count; i++)
        for (uint32_t j = 0; j < queue->cluster.nodes[i].gpu_count; j++) {
            const struct gpu *gpu = &queue->cluster.nodes[i].gpus[j];
            struct model *model = model_of(models, gpu);

            model->total++;
            model->failed += gpu->failed;
        }
    UNITS_HOLDING(queue, it)
        add_slots(queue, unit_w(it), models);
}

static void put_models(const struct queue *queue, struct metrics *metrics)
{
    struct models models = {0};

    gather_models(queue, &models);
    metrics_family(metrics, "berth_gpus", METRIC_GAUGE,
                   "Cards, by what they do: used by work that runs, held by work that is starting, idle, or "
                   "failed. A share counts as its part of the card's memory.");
    for (size_t i = 0; i <= MODELS_MAX; i++) {
        const struct model *m = &models.v[i];
        double idle = m->total - m->used - m->held - m->failed;
        const struct {
            const char *name;
            double value;
        } states[] = {
            {"used", m->used}, {"held", m->held}, {"idle", idle > 0 ? idle : 0}, {"failed", m->failed}};

        for (size_t j = 0; m->total > 0 && j < ARRAY_LEN(states); j++)
            metrics_gauge(metrics,
                          METRIC_LABELS({"model", m->name}, {"declared", m->declared ? "true" : "false"},
                                        {"state", states[j].name}),
                          states[j].value);
    }
}

/* One value of each card that has it. */
static void put_cards(const struct queue *queue, struct metrics *metrics,
                      double (*value)(const struct gpu *gpu, const struct card_state *state))
{
    for (uint32_t i = 0; i < queue->cluster.node_count; i++)
        for (uint32_t j = 0; j < queue->cluster.nodes[i].gpu_count; j++) {
            double v = value(&queue->cluster.nodes[i].gpus[j], &queue->nodes.v[i].cards[j]);
            char card[16];

            snprintf(card, sizeof(card), "%u", j);
            if (v >= 0)
                metrics_gauge(metrics, METRIC_LABELS({"node", queue->nodes.v[i].name}, {"gpu", card}), v);
        }
}

static double card_memory(const struct gpu *gpu, const struct card_state *state)
{
    (void)state;
    return (double)gpu->mem_mib * (1 << 20);
}

static double card_used(const struct gpu *gpu, const struct card_state *state)
{
    (void)gpu;
    return state->used_mib < 0 ? -1 : (double)state->used_mib * (1 << 20);
}

static double card_busy(const struct gpu *gpu, const struct card_state *state)
{
    (void)gpu;
    return state->busy_percent < 0 ? -1 : state->busy_percent / 100.0;
}

uint32_t queue_failed_cards(const struct queue *queue)
{
    uint32_t failed = 0;

    for (uint32_t i = 0; i < queue->cluster.node_count; i++)
        for (uint32_t j = 0; j < queue->cluster.nodes[i].gpu_count; j++)
            failed += queue->cluster.nodes[i].gpus[j].failed;
    return failed;
}

/* ---- work ---- */

static void put_jobs(const struct queue *queue, struct metrics *metrics)
{
    const struct sched_view *view = live_view(life_live(queue->life));
    uint64_t phases[PHASES] = {0}, blocked = 0;
    int64_t oldest = 0, now = queue_now(queue);
    double waiting_gpus = 0;

    for (uint32_t i = 0; i < view->job_count; i++) {
        const struct workload *w = &view->jobs[i];

        phases[w->phase]++;
        if (!phase_is_waiting(w->phase))
            continue;
        blocked += w->blocked;
        waiting_gpus += (double)live_milli_at(life_live(queue->life), i) / 1000;
        if (!w->blocked && w->phase == PHASE_PENDING && now - w->submit_ms > oldest)
            oldest = now - w->submit_ms;
    }
    metrics_family(metrics, "berth_queue_jobs", METRIC_GAUGE,
                   "Pods (those of Jobs, too) and training jobs in the queue, by state.");
    for (size_t i = 0; i < PHASES; i++)
        if (!phase_is_over((enum phase)i))
            metrics_gauge(metrics, METRIC_LABELS({"state", phase_labels[i]}), (double)phases[i]);
    metrics_family(metrics, "berth_queue_blocked_jobs", METRIC_GAUGE,
                   "Those that wait for something else than room: a quota, a claim, an account.");
    metrics_gauge(metrics, NULL, (double)blocked);
    metrics_family(metrics, "berth_queue_waiting_gpus", METRIC_GAUGE, "Cards that waiting work asks for.");
    metrics_gauge(metrics, NULL, waiting_gpus);
    metrics_family(metrics, "berth_queue_oldest_wait_seconds", METRIC_GAUGE,
                   "How long the one that waits longest for room, and never ran, has waited.");
    metrics_gauge(metrics, NULL, (double)oldest / 1000);
}

static void put_counts(const struct queue_counts *counts, struct metrics *metrics)
{
    static const enum life_stop_kind stops[] = {STOP_NONE, STOP_PREEMPT, STOP_RESIZE, STOP_MEMORY};

    metrics_family(metrics, "berth_starts_total", METRIC_COUNTER, "Runs that a node reported as running.");
    metrics_count(metrics, NULL, counts->starts);
    metrics_family(metrics, "berth_starts_given_back_total", METRIC_COUNTER,
                   "Starts that came to nothing: the work waits again, its cards are free.");
    metrics_count(metrics, NULL, counts->given_back);
    metrics_family(metrics, "berth_ended_total", METRIC_COUNTER,
                   "Pods and training jobs that ended, by how.");
    for (size_t i = 0; i < PHASES; i++)
        if (phase_is_over((enum phase)i) || i == PHASE_PREEMPTED)
            metrics_count(metrics, METRIC_LABELS({"state", phase_labels[i]}), counts->ended[i]);
    metrics_family(metrics, "berth_failures_total", METRIC_COUNTER,
                   "Pods and training jobs that failed, by reason.");
    for (size_t i = 0; i < FAILS; i++)
        metrics_count(metrics, METRIC_LABELS({"reason", fail_names[i]}), counts->failed[i]);
    metrics_family(
        metrics, "berth_preemptions_total", METRIC_COUNTER,
        "Runs that were ended early, by why: for others (preempt), to have another number of cards "
        "(resize), for memory, or because their node was lost.");
    for (size_t i = 0; i < ARRAY_LEN(stops); i++)
        metrics_count(metrics,
                      METRIC_LABELS({"reason", stops[i] == STOP_NONE ? "lost" : life_stop_name(stops[i])}),
                      counts->stopped[stops[i]]);
    metrics_family(metrics, "berth_wait_seconds", METRIC_HISTOGRAM,
                   "From submission to the first time that it runs.");
    metrics_histogram(metrics, NULL, &counts->waits, &histogram_wait);
    metrics_family(metrics, "berth_start_seconds", METRIC_HISTOGRAM,
                   "From the decision to start a run until it runs: images, volumes, network.");
    metrics_histogram(metrics, NULL, &counts->starting, &histogram_wait);
}

/* ---- users ---- */

struct user_count {
    const char *name;
    uint64_t waiting, holding;
    double gpus;
};

struct user_counts {
    struct map *by_name;
    VEC(struct user_count) v; /* the first one: all beyond QUEUE_METRICS_USERS */
};

static struct user_count *user_count_of(struct user_counts *users, const char *name)
{
    size_t at = (size_t)(uintptr_t)map_get(users->by_name, str_from(name));

    if (at || users->v.len > QUEUE_METRICS_USERS)
        return &users->v.v[at];
    vec_push(&users->v, (struct user_count){.name = name});
    map_set(users->by_name, str_from(name), (void *)(uintptr_t)(users->v.len - 1));
    return &users->v.v[users->v.len - 1];
}

static void put_users(const struct queue *queue, struct metrics *metrics)
{
    const struct live *live = life_live(queue->life);
    const struct sched_view *view = live_view(live);
    struct user_counts users = {.by_name = map_new()};

    vec_push(&users.v, (struct user_count){.name = "(others)"});
    for (uint32_t i = 0; i < view->job_count; i++) {
        const struct workload *w = &view->jobs[i];
        struct user_count *user;

        if (phase_is_over(w->phase))
            continue;
        user = user_count_of(&users, w->user ? w->user : "");
        user->waiting += phase_is_waiting(w->phase);
        user->holding += phase_holds(w->phase);
        user->gpus += phase_holds(w->phase) ? (double)live_milli_at(live, i) / 1000 : 0;
    }
    metrics_family(metrics, "berth_user_jobs", METRIC_GAUGE,
                   "Work of a user that waits, and that has a place.");
    VEC_EACH(&users.v, it) {
        metrics_gauge(metrics, METRIC_LABELS({"user", it->name}, {"state", "waiting"}), (double)it->waiting);
        metrics_gauge(metrics, METRIC_LABELS({"user", it->name}, {"state", "running"}), (double)it->holding);
    }
    metrics_family(metrics, "berth_user_gpus", METRIC_GAUGE, "Cards that a user has.");
    VEC_EACH(&users.v, it)
        metrics_gauge(metrics, METRIC_LABELS({"user", it->name}), it->gpus);
    vec_done(&users.v);
    map_free(users.by_name);
}

void queue_metrics(struct queue *queue, struct metrics *metrics, bool users)
{
    put_jobs(queue, metrics);
    put_counts(&queue->counts, metrics);
    put_models(queue, metrics);
    metrics_family(metrics, "berth_gpu_memory_bytes", METRIC_GAUGE, "Memory of a card.");
    put_cards(queue, metrics, card_memory);
    metrics_family(metrics, "berth_gpu_memory_used_bytes", METRIC_GAUGE,
                   "Memory of a card that is in use, as its driver says; absent where none does.");
    put_cards(queue, metrics, card_used);
    metrics_family(metrics, "berth_gpu_busy_ratio", METRIC_GAUGE,
                   "Part of the time in which a card worked, as its driver says; absent where none does.");
    put_cards(queue, metrics, card_busy);
    if (users)
        put_users(queue, metrics);
}
