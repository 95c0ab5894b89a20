/* Stops. A training job is asked by its library at the end of an epoch and has `patience` to go; a pod that
 * can be run again goes at once; a pod that cannot resume goes only for somebody who claimed its place, and
 * its owner has notice. A stop that nobody has heard of yet is withdrawn when its reason has gone. */
#include "life/internal.h"

#include <stdlib.h>

static const char *const stop_names[] = {
    [STOP_NONE] = "none",     [STOP_PREEMPT] = "preempt", [STOP_RESIZE] = "resize",
    [STOP_MEMORY] = "memory", [STOP_CANCEL] = "cancel",
};

const char *life_stop_name(enum life_stop_kind kind)
{
    return stop_names[kind];
}

enum life_stop_kind life_stop_find(const char *name)
{
    for (size_t i = 0; name && i < ARRAY_LEN(stop_names); i++)
        if (streq(stop_names[i], name))
            return (enum life_stop_kind)i;
    return STOP_NONE;
}

void stop_clear(struct life_stop *stop)
{
    free(stop->by);
    free(stop->by_name);
    free(stop->reason);
    *stop = (struct life_stop){.epoch = -1};
}

void stop_copy(struct life_stop *to, const struct life_stop *from)
{
    stop_clear(to);
    *to = *from;
    to->by = mem_strdup(from->by);
    to->by_name = mem_strdup(from->by_name);
    to->reason = mem_strdup(from->reason);
    if (to->kind == STOP_NONE)
        to->epoch = -1;
}

/* How long it may take to stop by itself. */
static int64_t patience(const struct life *life, const struct life_job *job)
{
    int64_t ms = (int64_t)(job->last_epoch_s * 2000);

    if (job->w.phase == PHASE_STARTING)
        return 0; /* it has nothing to save */
    if (job->w.kind == WORKLOAD_JOB)
        return 0;
    if (job->w.kind == WORKLOAD_POD)
        return job->w.resumable ? 0 : life->rules.notice_ms;
    if (ms < life->rules.stop_min_ms)
        ms = life->rules.stop_min_ms;
    return ms < life->rules.stop_max_ms ? ms : life->rules.stop_max_ms;
}

static void kill_now(struct step *step, struct life_job *job)
{
    job->stop.killed = true;
    effect_add(step, EFFECT_KILL, job);
    effect_write(step, job);
}

static void tell_stop(struct step *step, struct life_job *job)
{
    const struct life_stop *stop = &job->stop;

    switch (stop->kind) {
    case STOP_PREEMPT:
        if (stop->until_ms > step->now && job->w.kind != WORKLOAD_TRAINING)
            effect_tell(step, job, TELL_NOTICE, "%s; it will be stopped in %lld s", stop->reason,
                        (long long)(stop->until_ms - step->now) / 1000);
        else
            effect_tell(step, job, TELL_STOPPING, "%s", stop->reason);
        break;
    case STOP_RESIZE:
        effect_tell(step, job, TELL_RESIZING, "%s", stop->reason);
        break;
    case STOP_MEMORY:
        effect_tell(step, job, TELL_OVER_MEMORY, "stopping: it %s", stop->reason);
        break;
    default:
        break;
    }
}

void stop_ask(struct step *step, struct life_job *job, enum life_stop_kind kind, const struct life_job *by,
              const char *reason)
{
    bool hard = kind == STOP_CANCEL || kind == STOP_MEMORY;
    enum phase before = job->w.phase;
    bool killed = job->stop.killed;
    int64_t until = step->now + (hard ? 0 : patience(step->life, job));

    if (!phase_holds(job->w.phase) || job->stop.kind == kind || (job->stop.kind && !hard))
        return;
    if (before != PHASE_STOPPING &&
        !job_apply(step, job, &(struct live_event){.type = LIVE_ASK_STOP, .stop_by_ms = until}, NULL))
        return;
    stop_clear(&job->stop);
    job_timed(step, job);
    job->stop.kind = kind;
    job->stop.killed = killed;
    job->stop.since_ms = step->now;
    job->stop.by = by ? mem_strdup(by->row) : NULL;
    job->stop.by_name = by ? mem_strdup(by->w.name) : NULL;
    job->stop.by_id = by ? by->w.id : 0;
    job->stop.reason = mem_strdup(reason ? reason : "");
    job->stop.until_ms = until;
    job_times(job, before, step->now);
    text_set(&job->reason, reason);
    effect_record(step, job, reason, true, 0);
    tell_stop(step, job);
    if (job->stop.until_ms <= step->now && !killed)
        kill_now(step, job);
    effect_write(step, job);
}

bool stop_withdrawable(const struct life_job *job)
{
    return job->w.phase == PHASE_STOPPING && !job->stop.killed && job->stop.epoch < 0 &&
           (job->stop.kind == STOP_PREEMPT || job->stop.kind == STOP_RESIZE);
}

void stop_withdraw(struct step *step, struct life_job *job)
{
    enum phase before = job->w.phase;

    if (!job_apply(step, job, &(struct live_event){.type = LIVE_UNASK}, NULL))
        return;
    if (job->w.claim.len)
        job_apply(step, job, &(struct live_event){.type = LIVE_CLAIM}, NULL);
    job_times(job, before, step->now);
    text_set(&job->reason, "running on: its place is no longer needed");
    effect_record(step, job, job->reason, true, 0);
    effect_tell(step, job, TELL_WITHDRAWN, "%s", job->reason);
    stop_clear(&job->stop);
    effect_write(step, job);
}

/* Whether the job that needs the place still waits for it. */
static bool still_needed(const struct life *life, const struct life_job *job)
{
    const struct life_job *by;
    struct life_walk walk = {0};

    if (!job->stop.by)
        return true;
    if (job->stop.by_id) {
        by = life_find(life, job->stop.by_id);
        return by && phase_is_waiting(by->w.phase) && !by->w.blocked;
    }
    while (life_each(life, &walk)) /* after a restart */
        if (phase_is_waiting(walk.job->w.phase) && streq(walk.job->row, job->stop.by))
            return true;
    return false;
}

void stop_due(struct step *step, struct life_job *job)
{
    if (job->stop.kind == STOP_NONE || job->stop.killed)
        return;
    if (stop_withdrawable(job) && !still_needed(step->life, job)) {
        stop_withdraw(step, job);
        return;
    }
    if (step->now < job->stop.until_ms)
        return;
    if (job->w.kind == WORKLOAD_TRAINING)
        effect_tell(step, job, TELL_KILLING,
                    "it did not stop at the end of an epoch and is being terminated");
    kill_now(step, job);
}

int life_has_to_stop(struct life *life, uint64_t id, int64_t epoch, int64_t now_ms, bool *ret, bool *write,
                     struct err *err)
{
    struct life_job *job = life_find(life, id);
    struct life_stop *stop;
    bool asked, last;

    *write = false;
    if (!job)
        return err_set(err, ERR_NOT_FOUND, "no job %llu", (unsigned long long)id);
    stop = &job->stop;
    job->polled = true;
    if (epoch < 0)
        epoch = job->w.epochs_done;
    asked = stop->kind == STOP_PREEMPT || stop->kind == STOP_RESIZE || stop->kind == STOP_CANCEL;
    last = job->w.epochs_total && epoch + 1 >= job->w.epochs_total && stop->kind != STOP_CANCEL;
    if (!asked || epoch <= job->no_stop_epoch || last) {
        *ret = false;
        if (epoch > job->no_stop_epoch) {
            job->no_stop_epoch = epoch;
            *write = job->w.placement.len > 1;
        }
        return 0;
    }
    if (stop->epoch < 0) {
        stop->epoch = epoch;
        stop->heard_ms = now_ms;
        *write = true;
    }
    *ret = epoch >= stop->epoch;
    return 0;
}
