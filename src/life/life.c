/* Jobs and the events that change them. The workload of a job is sched/live's: every change goes there as an
 * event, and what comes back is the job's. What is kept here beside it is what the scheduler does not need:
 * runs, stops, times, words. */
#include "life/internal.h"

#include <stdlib.h>

const struct life_rules life_defaults = {
    .stop_min_ms = 60000,
    .stop_max_ms = 3600000,
    .start_ms = 30 * 60000,
    .stuck_ms = 120000,
    .notice_ms = 300000,
    .half_life_ms = USAGE_HALF_LIFE_MS,
};

static struct str id_key(const uint64_t *id)
{
    return (struct str){(const char *)id, sizeof(*id)};
}

struct life *life_new(const struct sched_policy *policy, const struct cluster *cluster,
                      const struct life_rules *rules)
{
    struct life *life = NEW(struct life);

    life->rules = *rules;
    life->policy = policy;
    life->cluster = *cluster;
    life->jobs = map_new();
    life->usage = usage_new(rules->half_life_ms > 0 ? rules->half_life_ms : USAGE_HALF_LIFE_MS);
    life->estimator = estimator_new();
    life->live = live_new(policy, cluster, &rules->sched, life->usage);
    return life;
}

void life_free(struct life *life)
{
    struct life_effects all = {0};
    struct life_walk walk = {0};

    if (!life)
        return;
    while (life_each(life, &walk))
        vec_push(&all.dead, walk.job);
    life_effects_done(&all);
    map_free(life->jobs);
    vec_done(&life->timed);
    live_free(life->live);
    usage_free(life->usage);
    estimator_free(life->estimator);
    plan_done(&life->plan);
    vec_done(&life->wait_of);
    vec_done(&life->global_of);
    free(life);
}

/* ---- reading ---- */

struct life_job *life_find(const struct life *life, uint64_t id)
{
    return map_get(life->jobs, id_key(&id));
}

bool life_each(const struct life *life, struct life_walk *walk)
{
    struct str key;
    void *value;

    if (!map_next(life->jobs, &walk->at, &key, &value))
        return false;
    walk->job = value;
    return true;
}

const struct live *life_live(const struct life *life)
{
    return life->live;
}

struct live *life_live_mut(struct life *life)
{
    return life->live;
}

struct estimator *life_estimator(struct life *life)
{
    return life->estimator;
}

struct usage *life_usage(struct life *life)
{
    return life->usage;
}

/* ---- jobs ---- */

void text_set(char **member, const char *text)
{
    char *copy = mem_strdup(text);

    free(*member);
    *member = copy;
}

void job_refresh(struct life *life, struct life_job *job)
{
    job->w = live_view(life->live)->jobs[job->place];
}

bool job_apply(struct step *step, struct life_job *job, struct live_event *event, struct err *err)
{
    event->id = job->w.id;
    event->at_ms = step->now;
    if (live_apply(step->life->live, event, err) < 0)
        return false;
    step->life->revision++;
    job_refresh(step->life, job);
    return true;
}

void job_replace(struct step *step, struct life_job *job, const struct workload *w)
{
    struct live_event event = {.type = LIVE_ADD, .workload = *w};

    (void)job_apply(step, job, &event, NULL);
}

void job_times(struct life_job *job, enum phase before, int64_t now)
{
    int64_t span = now > job->since_ms ? now - job->since_ms : 0;

    if (job->w.phase == before)
        return;
    if (phase_holds(before))
        job->ran_ms += span;
    else if (phase_is_waiting(before))
        job->waited_ms += span;
    job->since_ms = now;
}

void job_timed(struct step *step, struct life_job *job)
{
    if (!job->timed)
        vec_push(&step->life->timed, job->w.id);
    job->timed = true;
}

void job_forecast(struct step *step, struct life_job *job)
{
    const struct life *life = step->life;
    struct estimate_key key = {job->image, job->script, job->batch_size, &job->epochs};

    if (life->rules.forecast)
        life->rules.forecast(life->rules.of, job, step->now, &job->forecast);
    else if (job->w.kind == WORKLOAD_TRAINING)
        estimator_forecast(life->estimator, &key, &job->w, job->training_set, step->now, &job->forecast);
    else
        forecast_declared(&job->w, step->now, &job->forecast);
    (void)live_forecast(life->live, job->w.id, &job->forecast, NULL);
}

bool life_shared(const struct life *life, const struct life_job *job)
{
    struct life_walk walk = {0};

    if (job->w.placement.len == 0 || demand_whole(&job->w.demand))
        return false;
    while (life_each(life, &walk))
        for (uint32_t i = 0; walk.job != job && i < walk.job->w.placement.len; i++)
            for (uint32_t j = 0; j < job->w.placement.len; j++) {
                const struct slot *a = &walk.job->w.placement.v[i], *b = &job->w.placement.v[j];

                if (a->card != SLOT_CPU && a->node == b->node && a->card == b->card)
                    return true;
            }
    return false;
}

/* ---- what is known of a job before it runs ---- */

static void describe(struct life_job *job, const struct life_desc *desc)
{
    text_set(&job->row, desc->row);
    text_set(&job->image, desc->image);
    text_set(&job->script, desc->script);
    job->batch_size = desc->batch_size;
    job->training_set = desc->training_set;
    job->asked_mib = desc->asked_mib;
    job->of = desc->of;
}

static struct life_job *job_new(struct life *life, const struct life_desc *desc)
{
    struct life_job *job = NEW(struct life_job);

    job->stop.epoch = job->no_stop_epoch = -1;
    job->since_ms = desc->w.submit_ms;
    describe(job, desc);
    map_set(life->jobs, id_key(&desc->w.id), job);
    return job;
}

static void job_drop(struct step *step, struct life_job *job, uint64_t id)
{
    map_remove(step->life->jobs, id_key(&id));
    vec_push(&step->out->dead, job);
}

static int submit(struct step *step, const struct life_event *event, struct err *err)
{
    const struct life_desc *desc = event->desc;
    struct live_event add = {.type = LIVE_ADD, .id = desc->w.id, .at_ms = step->now, .workload = desc->w};
    struct life_job *job = job_new(step->life, desc);

    add.workload.phase = PHASE_PENDING;
    add.workload.placement = add.workload.claim = (struct placement){0};
    if (live_apply(step->life->live, &add, err) < 0) {
        job_drop(step, job, desc->w.id);
        return -1;
    }
    step->life->revision++;
    job->place = live_find(step->life->live, desc->w.id);
    job_refresh(step->life, job);
    if (!step->life->rules.quiet)
        text_set(&job->reason, "submitted");
    effect_record(step, job, "submitted", false, 0);
    job_forecast(step, job);
    effect_write(step, job);
    return 0;
}

/* The stored state, less what cannot be. */
static struct workload restored(const struct life *life, const struct life_desc *desc,
                                const struct life_job *saved)
{
    struct workload w = desc->w;

    w.phase = saved->w.phase;
    w.placement = saved->w.placement;
    w.claim = saved->w.claim;
    w.started_ms = saved->w.started_ms;
    w.saved_ms = saved->w.saved_ms;
    w.epochs_done = saved->w.epochs_done;
    w.attained_gpu_ms = saved->w.attained_gpu_ms;
    w.queue_ms = saved->w.queue_ms;
    w.stop_by_ms = saved->stop.until_ms;
    w.restarts = saved->w.restarts;
    w.probes = saved->w.probes;
    w.not_before_ms = saved->w.not_before_ms;
    w.refused = saved->refusals > 0;
    if (desc->asked_mib && saved->peak_mib > 0 && w.epochs_done > 0)
        w.demand.mib = demand_measured_mib(saved->peak_mib, cluster_largest_card(&life->cluster));
    if (phase_holds(w.phase) != (w.placement.len > 0)) {
        w.phase = w.placement.len ? PHASE_RUNNING : PHASE_PREEMPTED;
        if (w.phase == PHASE_RUNNING && !w.started_ms)
            w.phase = PHASE_STARTING;
    }
    return w;
}

static void restore_rest(struct life_job *job, const struct life_job *saved)
{
    text_set(&job->reason, saved->reason);
    text_set(&job->trouble, saved->trouble);
    stop_copy(&job->stop, &saved->stop);
    job->run = saved->run;
    job->run_first_epoch = saved->run_first_epoch;
    job->refusals = saved->refusals;
    job->steps_done = saved->steps_done;
    job->run_first_step = saved->run_first_step;
    job->iterations = saved->iterations;
    job->placed_ms = saved->placed_ms;
    job->first_start_ms = saved->first_start_ms;
    job->since_ms = saved->since_ms ? saved->since_ms : job->since_ms;
    job->waited_ms = saved->waited_ms;
    job->ran_ms = saved->ran_ms;
    job->lost_ms = saved->lost_ms;
    job->last_epoch_s = saved->last_epoch_s;
    job->epochs = saved->epochs;
    job->epoch_at_ms = saved->epoch_at_ms;
    job->no_stop_epoch = saved->no_stop_epoch;
    job->peak_mib = saved->peak_mib;
}

static int restore(struct step *step, const struct life_event *event, struct err *err)
{
    const struct life_desc *desc = event->desc;
    struct live_event add = {.type = LIVE_ADD, .id = desc->w.id, .at_ms = step->now};
    struct life_job *job = job_new(step->life, desc);

    add.workload = restored(step->life, desc, event->saved);
    if (add.workload.not_before_ms > step->now + LIFE_BACKOFF_MAX_MS) /* the clock was set back meanwhile */
        add.workload.not_before_ms = step->now + LIFE_BACKOFF_MAX_MS;
    if (live_apply(step->life->live, &add, err) < 0) {
        job_drop(step, job, desc->w.id);
        return -1;
    }
    step->life->revision++;
    job->place = live_find(step->life->live, desc->w.id);
    restore_rest(job, event->saved);
    job_refresh(step->life, job);
    if (job->w.phase == PHASE_STARTING)
        job->progress_ms = step->now;
    if (job->w.phase == PHASE_STOPPING && job->stop.kind == STOP_NONE)
        job->stop.kind = STOP_PREEMPT;
    job_timed(step, job);
    job_forecast(step, job);
    return 0;
}

static bool same_texts(const char *a, const char *b)
{
    return a == b || (a && b && streq(a, b));
}

static bool same_labels(struct labels a, struct labels b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (!streq(a.v[i].key, b.v[i].key) || !streq(a.v[i].value, b.v[i].value))
            return false;
    return true;
}

static bool same_demand(const struct demand *a, const struct demand *b)
{
    return a->min_gpus == b->min_gpus && a->max_gpus == b->max_gpus && a->unit_gpus == b->unit_gpus &&
           a->mib == b->mib && a->exclusive == b->exclusive && a->each.cpu_milli == b->each.cpu_milli &&
           a->each.mem_mib == b->each.mem_mib;
}

/* What runs keeps what it has: its demand is the one it was placed with. */
static void describe_again(struct step *step, struct life_job *job, const struct life_desc *desc)
{
    const struct workload *to = &desc->w;
    struct workload w = job->w;
    bool measured = job->asked_mib && job->peak_mib > 0 && w.epochs_done > 0;

    w.name = to->name;
    w.user = to->user;
    w.priority = to->priority;
    w.selector = to->selector;
    w.keep = to->keep;
    w.asked = to->asked;
    w.resumable = to->resumable;
    w.epochs_total = to->epochs_total;
    w.declared_ms = to->declared_ms;
    w.deadline_ms = to->deadline_ms;
    w.submit_ms = to->submit_ms;
    if (!phase_holds(w.phase)) {
        uint32_t mib = w.demand.mib;

        w.demand = to->demand;
        if (measured)
            w.demand.mib = mib;
    }
    if (same_texts(w.name, job->w.name) && same_texts(w.user, job->w.user) && w.priority == job->w.priority &&
        same_labels(w.selector, job->w.selector) && w.keep == job->w.keep && w.asked == job->w.asked &&
        w.resumable == job->w.resumable && w.epochs_total == job->w.epochs_total &&
        w.declared_ms == job->w.declared_ms && w.deadline_ms == job->w.deadline_ms &&
        w.submit_ms == job->w.submit_ms && same_demand(&w.demand, &job->w.demand))
        return;
    describe(job, desc);
    job_replace(step, job, &w);
    job_forecast(step, job);
}

/* ---- events ---- */

static void block(struct step *step, struct life_job *job, const char *why)
{
    if (same_texts(job->blocked, why))
        return;
    text_set(&job->blocked, why);
    if (job->w.blocked != (why != NULL))
        job_apply(step, job, &(struct live_event){.type = LIVE_BLOCK, .blocked = why != NULL}, NULL);
    if (why && job->w.claim.len)
        job_apply(step, job, &(struct live_event){.type = LIVE_CLAIM}, NULL);
    step->life->revision++;
    effect_write(step, job);
}

static void progress(struct step *step, struct life_job *job, const char *text, bool stuck)
{
    if (job->w.phase != PHASE_STARTING || (job->stuck == stuck && same_texts(job->trouble, text)))
        return;
    if (!stuck || !job->stuck) /* more of the same trouble does not put the deadline off */
        job->progress_ms = step->now;
    job->stuck = stuck;
    text_set(&job->trouble, text);
    step->life->revision++;
    effect_write(step, job);
}

static int cancel(struct step *step, struct life_job *job, const char *text)
{
    CLEANUP(free) char *reason = mem_strdup(text ? text : "cancelled");

    if (phase_holds(job->w.phase))
        stop_ask(step, job, STOP_CANCEL, NULL, reason);
    else
        run_end(step, job, PHASE_CANCELLED, reason);
    return 0;
}

static void claim(struct step *step, struct life_job *job, bool asked)
{
    struct workload w = job->w;

    if (w.asked == asked)
        return;
    w.asked = asked;
    job_replace(step, job, &w);
}

static void bound(struct step *step, struct life_job *job, struct placement slots)
{
    struct workload w = job->w;
    enum phase before = w.phase;

    if (!phase_is_waiting(before) || slots.len == 0 || !lifecycle_next(before, CHANGE_PLACE, &w.phase))
        return;
    w.placement = slots;
    w.claim = (struct placement){0};
    w.started_ms = 0;
    if (slots.v[0].card == SLOT_CPU)
        w.demand = (struct demand){.each = w.demand.each};
    job_replace(step, job, &w);
    if (!phase_holds(job->w.phase))
        return;
    job_times(job, before, step->now);
    job->run++;
    job->placed_ms = job->progress_ms = step->now;
    job_timed(step, job);
    text_set(&job->reason, "starting: bound by somebody else");
    effect_spans(step, job, true);
    effect_record(step, job, job->reason, false, 0);
    effect_write(step, job);
}

static void leave(struct step *step, struct life_job *job, const char *text)
{
    CLEANUP(free)
    char *reason = mem_strdup(job->stop.kind && job->stop.reason ? job->stop.reason
                              : text                             ? text
                                                                 : "deleted");
    bool preempted = job->stop.kind == STOP_PREEMPT && job->w.kind != WORKLOAD_TRAINING;

    run_end(step, job,
            preempted                       ? PHASE_PREEMPTED
            : job->stop.kind == STOP_MEMORY ? PHASE_FAILED
                                            : PHASE_CANCELLED,
            reason);
}

int life_step(struct life *life, const struct life_event *event, int64_t now_ms, struct life_effects *effects,
              struct err *err)
{
    struct step step = {life, now_ms, effects};
    uint64_t id = event->desc ? event->desc->w.id : event->id;
    struct life_job *job = life_find(life, id);
    bool describes =
        event->type == LIFE_SUBMIT || event->type == LIFE_RESTORE || event->type == LIFE_DESCRIBE;

    if (describes && !event->desc)
        return err_set(err, ERR_INVALID, "an event without its description");
    if (event->type == LIFE_SUBMIT || event->type == LIFE_RESTORE)
        return job                          ? err_set(err, ERR_CONFLICT, "there is a job of that id already")
               : event->type == LIFE_SUBMIT ? submit(&step, event, err)
                                            : restore(&step, event, err);
    if (!job)
        return err_set(err, ERR_NOT_FOUND, "no job %llu", (unsigned long long)id);
    switch (event->type) {
    case LIFE_DESCRIBE:
        describe_again(&step, job, event->desc);
        return 0;
    case LIFE_BLOCK:
        block(&step, job, event->text);
        return 0;
    case LIFE_REFUSED:
        if (job->w.phase != PHASE_STARTING)
            return err_set(err, ERR_CONFLICT, "it is not starting");
        run_give_back(&step, job, event->text ? event->text : "its pod could not be made");
        return 0;
    case LIFE_PROGRESS:
    case LIFE_STUCK:
        progress(&step, job, event->text, event->type == LIFE_STUCK);
        return 0;
    case LIFE_RUNS:
        return run_runs(&step, job, err);
    case LIFE_EPOCH:
        return run_epoch(&step, job, event);
    case LIFE_PROFILE:
        return run_profile(&step, job, event, err);
    case LIFE_MEMORY:
        run_memory(&step, job, event);
        return 0;
    case LIFE_EXIT:
        return run_exit(&step, job, event, err);
    case LIFE_CANCEL:
        return cancel(&step, job, event->text);
    case LIFE_CLAIM:
    case LIFE_UNCLAIM:
        claim(&step, job, event->type == LIFE_CLAIM);
        return 0;
    case LIFE_BOUND:
        bound(&step, job, event->slots);
        return 0;
    default:
        leave(&step, job, event->text);
        return 0;
    }
}

void life_cluster(struct life *life, const struct cluster *cluster)
{
    struct life_walk walk = {0};

    life->cluster = *cluster;
    live_cluster(life->live, cluster);
    life->revision++;
    while (life_each(life, &walk))
        job_refresh(life, walk.job);
}
