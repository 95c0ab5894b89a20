/* When a job starts and ends, where it stands, and why: for page, command line, kubectl, REST, history and
 * simulator alike. */
#include "life/internal.h"

#include <stdlib.h>

/* Of all that run in order, then of all that wait. */
static void add_up(struct life *life)
{
    const struct sched_view *view = live_view(life->live);
    int64_t sum = 0;
    uint32_t job;

    life->global_of.len = 0;
    vec_reserve(&life->global_of, view->job_count + 1);
    memset(life->global_of.v, 0, sizeof(*life->global_of.v) * (view->job_count + 1));
    life->global_of.len = view->job_count;
    for (size_t i = 0; (job = live_running(life->live, i)) != SCHED_NONE; i++)
        life->global_of.v[job] = sum += live_milli_at(life->live, job);
    VEC_EACH(&life->plan.waits, it)
        life->global_of.v[it->job] = sum += live_milli_at(life->live, it->job);
}

const struct plan *life_plan(struct life *life, int64_t now_ms)
{
    uint32_t count;

    if (life->plan_at && life->plan_revision == life->revision && now_ms >= life->plan_at &&
        now_ms - life->plan_at < LIFE_PLAN_AGE_MS)
        return &life->plan;
    life->plan.actions.len = life->plan.waits.len = 0;
    arena_reset(&life->plan.arena);
    live_plan(life->live, now_ms, &life->plan);
    count = live_view(life->live)->job_count;
    life->wait_of.len = 0;
    vec_reserve(&life->wait_of, count + 1);
    memset(life->wait_of.v, 0, sizeof(*life->wait_of.v) * (count + 1));
    life->wait_of.len = count;
    for (uint32_t i = 0; i < life->plan.waits.len; i++)
        life->wait_of.v[life->plan.waits.v[i].job] = i + 1;
    add_up(life);
    life->plan_at = now_ms;
    life->plan_revision = life->revision;
    return &life->plan;
}

const struct wait *life_wait(struct life *life, const struct life_job *job, int64_t now_ms)
{
    const struct plan *plan;

    if (!phase_is_waiting(job->w.phase))
        return NULL;
    plan = life_plan(life, now_ms);
    if (job->place >= life->wait_of.len || !life->wait_of.v[job->place])
        return NULL;
    return &plan->waits.v[life->wait_of.v[job->place] - 1];
}

int64_t life_ordinal(const struct life *life, const struct life_job *job)
{
    return job->finished_ms ? job->ordinal : live_ordinal_at(life->live, job->place);
}

int64_t life_global(struct life *life, const struct life_job *job, int64_t now_ms)
{
    life_plan(life, now_ms);
    return job->place < life->global_of.len ? life->global_of.v[job->place] : 0;
}

static void set_end(struct life_when *ret, struct when end)
{
    ret->end_ms = end.at_ms;
    ret->end_lo_ms = end.lo_ms;
    ret->end_hi_ms = end.hi_ms;
}

/* Whether anybody said how long it takes. */
static bool has_length(const struct life_job *job)
{
    return job->forecast.points && (job->w.kind == WORKLOAD_TRAINING || job->w.declared_ms);
}

void life_when(struct life *life, const struct life_job *job, int64_t now_ms, struct life_when *ret)
{
    const struct wait *wait;

    *ret = (struct life_when){0};
    if (phase_is_over(job->w.phase)) {
        ret->start_ms = ret->start_lo_ms = ret->start_hi_ms = job->first_start_ms;
        ret->end_ms = ret->end_lo_ms = ret->end_hi_ms = job->finished_ms;
        return;
    }
    if (phase_holds(job->w.phase)) {
        int64_t since = job->w.started_ms ? job->w.started_ms : job->placed_ms;

        ret->start_ms = ret->start_lo_ms = ret->start_hi_ms = since;
        if (has_length(job) && job->stop.kind != STOP_PREEMPT && job->stop.kind != STOP_RESIZE)
            set_end(ret, forecast_end(&job->forecast, workload_gpus(&job->w), life_shared(life, job), since,
                                      now_ms));
        return;
    }
    wait = job->blocked ? NULL : life_wait(life, job, now_ms);
    if (!wait)
        return;
    ret->start_ms = wait->start_ms;
    ret->start_lo_ms = wait->start_lo_ms;
    ret->start_hi_ms = wait->start_hi_ms;
    if (has_length(job) && wait->start_ms != INT64_MAX)
        set_end(ret, forecast_end_after(&job->forecast, job->w.demand.min_gpus,
                                        (struct when){wait->start_ms, wait->start_lo_ms, wait->start_hi_ms}));
}

static bool any_open(const struct life *life)
{
    for (uint32_t i = 0; i < life->cluster.node_count; i++)
        if (!life->cluster.nodes[i].unschedulable)
            return true;
    return false;
}

static void why_waits(struct life *life, const struct life_job *job, int64_t now_ms, struct buf *ret)
{
    const struct wait *wait;

    if (job->blocked) {
        buf_printf(ret, "cannot start: %s", job->blocked);
        return;
    }
    if (job->trouble && job->w.not_before_ms > now_ms) {
        buf_puts(ret, job->reason);
        return;
    }
    wait = life_wait(life, job, now_ms);
    if (!wait)
        buf_puts(ret, job->reason ? job->reason : "");
    else if (any_open(life))
        sched_wait_text(live_view(life->live), wait, ret);
    else
        buf_puts(ret, "waiting: no node is ready");
    if (wait && job->trouble)
        buf_printf(ret, "; the last start failed: %s", job->trouble);
}

void life_why(struct life *life, const struct life_job *job, int64_t now_ms, struct buf *ret)
{
    if (phase_is_waiting(job->w.phase)) {
        why_waits(life, job, now_ms, ret);
        return;
    }
    if (job->w.phase == PHASE_STARTING && job->stuck) {
        buf_printf(ret, "cannot start: %s", job->trouble ? job->trouble : "");
        return;
    }
    buf_puts(ret, job->reason ? job->reason : "");
    if (job->w.phase == PHASE_STARTING && job->trouble)
        buf_printf(ret, ": %s", job->trouble);
}
