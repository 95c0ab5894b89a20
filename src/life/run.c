/* Runs: how they start, what becomes of them, how they end. */
#include "life/internal.h"

#include <math.h>
#include <stdlib.h>

#define EPOCH_S_MAX 1e8

/* ---- starting ---- */

static void cards_words(const struct life_job *job, struct buf *text)
{
    uint32_t gpus = workload_gpus(&job->w);

    if (gpus == 0)
        return;
    if (!demand_whole(&job->w.demand))
        buf_printf(text, " on %u MiB of %s", job->w.placement.v[0].mib,
                   gpus > 1 ? "each of its GPUs" : "a GPU");
    else
        buf_printf(text, " on %u GPU%s", gpus, gpus == 1 ? "" : "s");
}

static void say_cards(struct life_job *job, const char *verb)
{
    CLEANUP(buf_done) struct buf text = {0};

    buf_puts(&text, verb);
    cards_words(job, &text);
    text_set(&job->reason, text.data);
}

void run_start(struct step *step, struct life_job *job, const struct slot *slots, uint32_t len)
{
    enum phase before = job->w.phase;
    struct live_event event = {.type = LIVE_PLACE, .slots = {slots, len}};
    struct life_effect *effect;

    if (!job_apply(step, job, &event, NULL))
        return;
    job_times(job, before, step->now);
    job->run++;
    job->run_first_epoch = job->w.epochs_done;
    job->placed_ms = job->progress_ms = step->now;
    job_timed(step, job);
    job->no_stop_epoch = -1;
    job->epoch_at_ms = 0;
    job->iterations = 0;
    job->run_first_step = job->steps_done;
    job->over_times = 0;
    job->now_mib = 0;
    job->stuck = job->over_warned = job->polled = false;
    text_set(&job->trouble, NULL);
    if (!step->life->rules.quiet)
        say_cards(job, "starting");
    effect_spans(step, job, true);
    effect_record(step, job, job->reason, false, 0);
    effect = effect_add(step, EFFECT_START, job);
    effect->slot_count = len;
    effect->slots = slots_keep(&step->out->arena, slots, len);
    job_forecast(step, job);
    effect_write(step, job);
}

int run_runs(struct step *step, struct life_job *job, struct err *err)
{
    enum phase before = job->w.phase;

    if (before != PHASE_STARTING)
        return before == PHASE_RUNNING || before == PHASE_STOPPING
                   ? 0
                   : err_set(err, ERR_CONFLICT, "job '%s' is %s", job->w.name ? job->w.name : "",
                             phase_name(before));
    if (!job_apply(step, job, &(struct live_event){.type = LIVE_RUNS}, err))
        return -1;
    job_times(job, before, step->now);
    if (!job->first_start_ms)
        job->first_start_ms = step->now;
    job->refusals = 0;
    job->stuck = false;
    text_set(&job->trouble, NULL);
    job_forecast(step, job);
    if (!step->life->rules.quiet)
        say_cards(job, "running");
    effect_record(step, job, job->reason, false, 0);
    effect_tell(step, job, job->run > 1 ? TELL_RESTARTED : TELL_STARTED, "%s%s", job->reason,
                job->run > 1 && job->w.epochs_done ? ", from where it was" : "");
    effect_write(step, job);
    return 0;
}

static int64_t backoff_ms(uint32_t refusals)
{
    int64_t ms = LIFE_BACKOFF_FIRST_MS;

    for (uint32_t i = 1; i < refusals && ms < LIFE_BACKOFF_MAX_MS; i++)
        ms *= 2;
    return ms < LIFE_BACKOFF_MAX_MS ? ms : LIFE_BACKOFF_MAX_MS;
}

static void span_words(int64_t ms, struct buf *text)
{
    if (ms < 120000)
        buf_printf(text, "%lld s", (long long)(ms / 1000));
    else
        buf_printf(text, "%lld min", (long long)((ms + 30000) / 60000));
}

/* Its cards are free again; it waits a while. */
void run_give_back(struct step *step, struct life_job *job, const char *why)
{
    enum phase before = job->w.phase;
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(free) char *trouble = mem_strdup(why);
    struct workload w;
    int64_t wait;

    effect_spans(step, job, false);
    if (!job_apply(step, job, &(struct live_event){.type = LIVE_STOPPED, .change = CHANGE_GIVE_BACK}, NULL))
        return;
    job_times(job, before, step->now);
    wait = backoff_ms(++job->refusals);
    w = job->w;
    w.not_before_ms = step->now + wait;
    w.refused = true;
    w.claim = (struct placement){0};
    job_replace(step, job, &w);
    job_timed(step, job);
    text_set(&job->trouble, trouble);
    job->stuck = false;
    buf_printf(&text, "cannot start: %s; next try in ", trouble);
    span_words(wait, &text);
    text_set(&job->reason, text.data);
    stop_clear(&job->stop);
    effect_add(step, EFFECT_GIVE_BACK, job);
    effect_record(step, job, job->reason, false, 0);
    effect_tell(step, job, TELL_CANNOT_START, "%s", job->reason);
    job_forecast(step, job);
    effect_write(step, job);
}

void run_due(struct step *step, struct life_job *job)
{
    const struct life_rules *rules = &step->life->rules;
    int64_t limit = job->stuck ? rules->stuck_ms : rules->start_ms;

    if (job->w.phase != PHASE_STARTING || workload_gpus(&job->w) == 0 || limit <= 0 ||
        step->now - job->progress_ms < limit)
        return; /* one without cards is in nobody's way */
    if (step->now - job->progress_ms - limit > LIFE_LATE_MS) {
        job->progress_ms = step->now; /* nobody is that late: the clock jumped, and its node had no time */
        return;
    }
    run_give_back(step, job, job->trouble ? job->trouble : "its node did not report it running in time");
}

/* ---- epochs, iterations, memory ---- */

/* From the first epoch on the measured peak counts instead of what the user said, but never more than the
 * card it is on. */
static void take_peak(struct step *step, struct life_job *job)
{
    struct workload w = job->w;
    struct slot *slots;

    if (!job->asked_mib || job->peak_mib <= 0)
        return;
    w.demand.mib = demand_measured_mib(job->peak_mib, cluster_largest_card(&step->life->cluster));
    slots = slots_keep(&step->out->arena, w.placement.v, w.placement.len);
    for (uint32_t i = 0; i < w.placement.len && !w.demand.exclusive; i++)
        if (slots[i].card != SLOT_CPU && w.demand.mib < slots[i].mib)
            slots[i].mib = w.demand.mib;
    w.placement.v = slots;
    job_replace(step, job, &w);
}

static bool learn(struct step *step, struct life_job *job, const struct sample *sample)
{
    struct estimate_key key = {job->image, job->script, job->batch_size};

    if (step->life->rules.forecast || !estimator_add(step->life->estimator, &key, sample))
        return false;
    if (sample->epoch_s > 0)
        effect_add(step, EFFECT_LEARNED, job);
    return true;
}

/* An epoch has ended that took `seconds`, as it says. What counts for estimates is the time between two ends,
 * unless the clock jumped. */
static void learn_epoch(struct step *step, struct life_job *job, double seconds, double between, bool shared)
{
    struct estimate_key key = {job->image, job->script, job->batch_size};
    bool first = job->epoch_at_ms == 0;

    if (!first && between > 0.5 * seconds && between < 2 * seconds)
        seconds = between;
    if (step->life->rules.forecast)
        return;
    if (job->profiled) {
        epoch_log_add(&job->epochs, job->w.placement.len, shared, seconds, first);
        return;
    }
    estimator_learn_epoch(step->life->estimator, &key, &job->epochs, job->w.placement.len, shared, seconds,
                          first);
    effect_add(step, EFFECT_LEARNED, job);
}

int run_epoch(struct step *step, struct life_job *job, const struct life_event *event)
{
    uint32_t done = event->epochs, before = job->w.epochs_done;
    double seconds = event->seconds, between;
    int64_t since;

    if (job->w.epochs_total && done > job->w.epochs_total)
        done = job->w.epochs_total;
    if (done <= before || !phase_holds(job->w.phase))
        return 0;                       /* another process has said so, or it is late */
    if (job->w.phase == PHASE_STARTING) /* what ends epochs runs, whatever its node says */
        (void)run_runs(step, job, NULL);
    since = job->epoch_at_ms ? job->epoch_at_ms : job->w.started_ms;
    between = fmax((double)(step->now - since), 1) / 1000 / (done - before);
    if (!(seconds > 0) || seconds > EPOCH_S_MAX)
        seconds = job->last_epoch_s > 0 && job->epoch_at_ms == 0 ? job->last_epoch_s : between;
    learn_epoch(step, job, seconds, between, event->shared);
    job->last_epoch_s = seconds;
    job->epoch_at_ms = step->now;
    job->steps_done = job->run_first_step + job->iterations;
    job_apply(step, job, &(struct live_event){.type = LIVE_EPOCH, .epochs_done = done}, NULL);
    take_peak(step, job);
    effect_add(step, EFFECT_EPOCH, job)->seconds = seconds;
    job_forecast(step, job);
    effect_write(step, job);
    return 0;
}

int run_profile(struct step *step, struct life_job *job, const struct life_event *event, struct err *err)
{
    struct sample sample = *event->sample;
    uint64_t iterations = event->sample->iterations;

    if (!phase_holds(job->w.phase))
        return 0;
    if (!(sample.iteration_s >= 0) || sample.iteration_s > 1e6 || !(sample.epoch_s >= 0) ||
        sample.epoch_s > EPOCH_S_MAX)
        return err_set(err, ERR_INVALID, "a time that cannot be");
    if (sample.epoch_s > 0) {
        job->last_epoch_s = sample.epoch_s;
        job->profiled = true;
    }
    if (iterations <= job->iterations)
        return 0;
    sample.iterations = (uint32_t)(iterations - job->iterations);
    job->iterations = iterations;
    if (sample.epoch_s > 0) /* the count at the end of an epoch may come after the end itself */
        job->steps_done = job->run_first_step + iterations;
    sample.gpus = sample.gpus ? sample.gpus : job->w.placement.len;
    sample.shared = event->shared;
    learn(step, job, &sample);
    job_forecast(step, job);
    step->life->revision++;
    return 0;
}

/* Shares only: who has a card alone harms nobody. */
void run_memory(struct step *step, struct life_job *job, const struct life_event *event)
{
    int64_t mib = event->mib, limit = event->slot.mib;
    CLEANUP(free) char *text = NULL;
    bool far = mib * 100 > limit * LIFE_OVER_STOP_PERCENT;

    if (mib < 0 || !phase_holds(job->w.phase))
        return;
    job->now_mib = mib;
    if (mib > job->peak_mib)
        job->peak_mib = mib;
    if (!job->asked_mib || job->w.demand.exclusive || limit <= 0 || mib <= limit) {
        job->over_times = 0;
        return;
    }
    job->over_times++;
    text = mem_printf("uses %lld MiB on card %u, more than the %lld MiB it reserved", (long long)mib,
                      event->slot.card, (long long)limit);
    if (!job->over_warned) {
        job->over_warned = true;
        effect_tell(step, job, TELL_OVER_MEMORY, "it %s; it will be stopped if it goes on", text);
        return;
    }
    if (job->over_times >= LIFE_OVER_STOP_TIMES || (far && job->over_times >= 2))
        stop_ask(step, job, STOP_MEMORY, NULL, text);
}

/* ---- the end of a run ---- */

/* Until when it worked: a script that is told to stop before an epoch does not begin it, however long it
 * takes to leave. */
static int64_t worked_until(const struct life_job *job, int64_t now)
{
    const struct life_stop *stop = &job->stop;

    return stop->kind && !stop->killed && stop->heard_ms && stop->epoch == job->w.epochs_done ? stop->heard_ms
                                                                                              : now;
}

/* It waits again. */
static void back_in_queue(struct step *step, struct life_job *job, const char *why)
{
    enum phase before = job->w.phase;
    int64_t lost = 0;
    CLEANUP(free) char *text = mem_strdup(why);

    if (before != PHASE_STARTING)
        lost = workload_lost_gpu_ms(&job->w, worked_until(job, step->now));
    if (job->w.placement.len)
        lost /= job->w.placement.len;
    job->lost_ms += lost;
    effect_spans(step, job, false);
    if (!job_apply(step, job, &(struct live_event){.type = LIVE_STOPPED}, NULL))
        return;
    job_times(job, before, step->now);
    text_set(&job->reason, text);
    effect_record(step, job, text, true, lost);
    if (job->w.epochs_total)
        effect_tell(step, job, TELL_PREEMPTED, "%s; %u of %u epochs are done, it goes on from there", text,
                    job->w.epochs_done, job->w.epochs_total);
    else
        effect_tell(step, job, TELL_PREEMPTED, "%s", text);
    stop_clear(&job->stop);
    job->epoch_at_ms = 0;
    job->no_stop_epoch = -1;
    job->polled = job->over_warned = job->stuck = false;
    job->over_times = 0;
    job->now_mib = 0;
    text_set(&job->trouble, NULL);
    job_forecast(step, job);
    effect_write(step, job);
}

void run_stopped(struct step *step, struct life_job *job)
{
    back_in_queue(step, job, job->stop.reason);
}

static const struct {
    enum phase phase;
    enum change change;
    enum life_tell tell;
} ends[] = {
    {PHASE_SUCCEEDED, CHANGE_SUCCEED, TELL_SUCCEEDED},
    {PHASE_FAILED, CHANGE_FAIL, TELL_FAILED},
    {PHASE_CANCELLED, CHANGE_CANCEL, TELL_CANCELLED},
    {PHASE_PREEMPTED, CHANGE_STOPPED, TELL_PREEMPTED}, /* a pod that does not come back */
};

/* Over: what is told of it afterwards is in the effects' memory, since live forgets it. */
void run_end(struct step *step, struct life_job *job, enum phase phase, const char *text)
{
    struct arena *arena = &step->out->arena;
    enum phase before = job->w.phase, next = before;
    struct life *life = step->life;
    size_t at = 0;
    struct workload w;
    uint64_t id = job->w.id;

    while (ends[at].phase != phase)
        at++;
    if (!lifecycle_next(before, ends[at].change, &next))
        return;
    w = job->w;
    w.placement.v = slots_keep(arena, w.placement.v, w.placement.len);
    w.claim = (struct placement){0};
    w.selector = (struct labels){0};
    w.name = arena_strdup(arena, w.name);
    w.user = arena_strdup(arena, w.user);
    w.attained_gpu_ms = phase_holds(before) ? workload_attained(&w, step->now) : w.attained_gpu_ms;
    if (phase_holds(before))
        effect_spans(step, job, false);
    job->ordinal = live_ordinal(life->live, id);
    (void)live_apply(life->live, &(struct live_event){.type = LIVE_END, .id = id, .at_ms = step->now}, NULL);
    map_remove(life->jobs, (struct str){(const char *)&id, sizeof(id)});
    life->revision++;
    w.phase = next;
    job->w = w;
    job->finished_ms = step->now;
    job_times(job, before, step->now);
    text_set(&job->reason, text);
    effect_record(step, job, text, true, 0);
    effect_tell(step, job, ends[at].tell, "%s", text ? text : "");
    effect_write(step, job);
    effect_add(step, EFFECT_END, job);
    vec_push(&step->out->dead, job);
}

static void exit_training(struct step *step, struct life_job *job, const struct life_event *event)
{
    const struct life_stop *stop = &job->stop;
    /* one that left by itself before it was told to has just ended */
    bool told = stop->killed || stop->epoch >= 0;
    bool asked = stop->kind == STOP_PREEMPT || stop->kind == STOP_RESIZE;
    CLEANUP(free) char *text = NULL;

    if (event->lost) {
        back_in_queue(step, job, stop->kind && stop->reason ? stop->reason : event->text);
        return;
    }
    switch (lifecycle_exit(told && asked, event->status, job->w.epochs_done, job->w.epochs_total, false)) {
    case CHANGE_STOPPED:
        back_in_queue(step, job, stop->reason);
        break;
    case CHANGE_SUCCEED:
        text = job->w.epochs_done ? mem_printf("finished: %u of %u epochs are done", job->w.epochs_done,
                                               job->w.epochs_total ? job->w.epochs_total : job->w.epochs_done)
                                  : mem_strdup("finished");
        run_end(step, job, PHASE_SUCCEEDED, text);
        break;
    default:
        run_end(step, job, PHASE_FAILED, event->text ? event->text : "it failed");
    }
}

int run_exit(struct step *step, struct life_job *job, const struct life_event *event, struct err *err)
{
    CLEANUP(free) char *reason = mem_strdup(job->stop.reason);

    if (!phase_holds(job->w.phase) && job->w.kind == WORKLOAD_TRAINING)
        return err_set(err, ERR_CONFLICT, "job '%s' is %s", job->w.name ? job->w.name : "",
                       phase_name(job->w.phase));
    switch (job->stop.kind) {
    case STOP_CANCEL:
        run_end(step, job, PHASE_CANCELLED, reason);
        return 0;
    case STOP_MEMORY:
        run_end(step, job, PHASE_FAILED, reason);
        return 0;
    default:
        break;
    }
    if (job->w.kind == WORKLOAD_TRAINING)
        exit_training(step, job, event);
    else if (job->stop.kind && job->stop.killed)
        run_end(step, job, PHASE_PREEMPTED, reason);
    else if (event->status == 0 && !event->lost)
        run_end(step, job, PHASE_SUCCEEDED, event->text ? event->text : "finished");
    else
        run_end(step, job, PHASE_FAILED, event->text ? event->text : "it failed");
    return 0;
}
