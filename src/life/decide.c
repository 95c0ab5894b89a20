/* What the scheduler decides, turned into steps. Whom something is done for is asked about first: nobody is
 * stopped and no card is held for a job that could not start. */
#include "base/break.h"
#include "life/internal.h"

#include <stdlib.h>

#define BROKEN_IDLE_MS 60000 /* where that rule is broken: jobs wait for so long beside free cards */
#define LOOK_MS        5000  /* while somebody waits, sched is asked at least that often */

/* The job an action is for. */
static struct life_job *beneficiary(const struct life *life, const struct action *action)
{
    const struct sched_view *view = live_view(life->live);
    uint32_t job = action->job;

    if (action->type == ACTION_UNCLAIM)
        return NULL;
    if (action->type == ACTION_PREEMPT || action->type == ACTION_RESIZE)
        job = action->by;
    return job == SCHED_NONE ? NULL : life_find(life, view->jobs[job].id);
}

struct deciding {
    struct step step;
    life_admit_fn admit;
    void *arg;
    struct plan plan;
    VEC(uint64_t) ids, by; /* of the actions; indexes change with the first that is carried out */
};

/* Blocks those that cannot start. Returns how many. */
static uint32_t block_some(struct deciding *d)
{
    struct life *life = d->step.life;
    uint32_t blocked = 0;

    if (!d->admit || rule_broken("1"))
        return 0;
    VEC_EACH(&d->plan.actions, action) {
        struct life_job *job = beneficiary(life, action);
        uint32_t gpus;
        const char *why;

        if (!job || job->w.blocked || !phase_is_waiting(job->w.phase))
            continue;
        gpus = action->type == ACTION_START || action->type == ACTION_CLAIM ? action->slot_count
                                                                            : job->w.demand.min_gpus;
        why = d->admit(d->arg, job, job->w.demand.max_gpus ? gpus : 0, &d->step.out->arena);
        if (!why)
            continue;
        (void)life_step(life, &(struct life_event){.type = LIFE_BLOCK, .id = job->w.id, .text = why},
                        d->step.now, d->step.out, NULL);
        blocked++;
    }
    return blocked;
}

static void note_ids(struct deciding *d)
{
    const struct sched_view *view = live_view(d->step.life->live);

    d->ids.len = d->by.len = 0;
    VEC_EACH(&d->plan.actions, it) {
        vec_push(&d->ids, view->jobs[it->job].id);
        vec_push(&d->by, it->by == SCHED_NONE ? 0 : view->jobs[it->by].id);
    }
}

static void set_claim(struct step *step, struct life_job *job, const struct slot *slots, uint32_t len)
{
    job_apply(step, job, &(struct live_event){.type = LIVE_CLAIM, .slots = {slots, len}}, NULL);
}

static bool stop_for(struct deciding *d, struct life_job *job, const struct action *action, uint64_t by_id,
                     const char *text)
{
    struct step *step = &d->step;
    const struct life_job *by = by_id ? life_find(step->life, by_id) : NULL;
    bool resize = action->type == ACTION_RESIZE;

    if (job->stop.kind || job->placed_ms == step->now) /* nothing starts and stops in one instant */
        return false;
    if (resize && !by && d->admit && d->admit(d->arg, job, action->slot_count, &step->out->arena))
        return false; /* it could not start on that many */
    stop_ask(step, job, resize ? STOP_RESIZE : STOP_PREEMPT, by, text);
    if (resize && job->w.phase == PHASE_STOPPING)
        set_claim(step, job, action->slots, action->slot_count);
    return true;
}

static void unclaim(struct step *step, struct life_job *job)
{
    if (job->stop.kind == STOP_RESIZE && !job->stop.by && stop_withdrawable(job))
        stop_withdraw(step, job); /* it cannot grow any more */
    else
        set_claim(step, job, NULL, 0);
}

/* Those that make room go first: where that takes no time, what they held is free for the others. */
static bool act_stops(struct deciding *d)
{
    struct step *step = &d->step;
    const struct life_rules *rules = &step->life->rules;
    bool any = false;

    for (size_t i = 0; i < d->ids.len; i++) {
        const struct action *action = &d->plan.actions.v[i];
        struct life_job *job = life_find(step->life, d->ids.v[i]);
        CLEANUP(buf_done) struct buf text = {0};

        if (!job || (action->type != ACTION_PREEMPT && action->type != ACTION_RESIZE))
            continue;
        if (!rules->quiet)
            sched_action_text(live_view(step->life->live), action, &text);
        if (!stop_for(d, job, action, d->by.v[i], text.data))
            continue;
        any = true;
        if (rules->at_once)
            run_stopped(step, job);
    }
    return any;
}

static bool start(struct step *step, struct life_job *job, const struct action *action)
{
    if (job->w.blocked || !phase_is_waiting(job->w.phase))
        return false;
    if (rule_broken("4") && step->now - job->since_ms < BROKEN_IDLE_MS)
        return false;
    run_start(step, job, action->slots, action->slot_count);
    return phase_holds(job->w.phase);
}

/* Returns whether to look again: something was done, or, where all is done at once, something could not be.
 */
static bool act(struct deciding *d)
{
    struct step *step = &d->step;
    bool at_once = step->life->rules.at_once, any, failed = false;

    note_ids(d);
    any = act_stops(d);
    for (size_t i = 0; i < d->ids.len; i++) {
        const struct action *action = &d->plan.actions.v[i];
        struct life_job *job = life_find(step->life, d->ids.v[i]);

        if (!job)
            continue;
        if (action->type == ACTION_START || (action->type == ACTION_RESIZE && at_once)) {
            any = any || job->w.claim.len > 0;
            failed = !start(step, job, action) || failed;
        } else if (action->type == ACTION_CLAIM) {
            if (!at_once || !start(step, job, action))
                set_claim(step, job, action->slots, action->slot_count);
            any = true;
        } else if (action->type == ACTION_UNCLAIM) {
            unclaim(step, job);
            any = true;
        }
    }
    return at_once ? failed : any || failed;
}

/* Deadlines. */
static void due(struct step *step)
{
    struct life *life = step->life;
    VEC(struct life_job *) late = {0};
    size_t to = 0;

    VEC_EACH(&life->timed, id) {
        struct life_job *job = life_find(life, *id);

        if (!job)
            continue;
        job->timed =
            phase_holds(job->w.phase) && (job->w.phase == PHASE_STARTING || job->stop.kind != STOP_NONE);
        if (!job->timed)
            continue;
        life->timed.v[to++] = *id;
        vec_push(&late, job);
    }
    life->timed.len = to;
    VEC_EACH(&late, it) {
        stop_due(step, *it);
        run_due(step, *it);
    }
    vec_done(&late);
}

bool life_decide(struct life *life, int64_t now_ms, life_admit_fn admit, void *arg,
                 struct life_effects *effects)
{
    struct deciding d = {.step = {life, now_ms, effects}, .admit = admit, .arg = arg};
    size_t before = effects->v.len;
    uint32_t blocks = 0, passes = 0;

    due(&d.step);
    life->again = false;
    for (;;) {
        uint32_t blocked;

        d.plan.actions.len = d.plan.waits.len = 0;
        arena_reset(&d.plan.arena);
        live_decide(life->live, now_ms, &d.plan);
        if (d.plan.actions.len == 0)
            break;
        blocked = block_some(&d);
        if (blocked) {
            blocks += blocked;
            life->again = blocks >= LIFE_BLOCKS_MAX;
            if (life->again)
                break;
            continue;
        }
        if (!act(&d) || ++passes >= LIFE_PASSES_MAX)
            break;
    }
    plan_done(&d.plan);
    vec_done(&d.ids);
    vec_done(&d.by);
    return effects->v.len > before;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t life_next_ms(const struct life *life, int64_t now_ms)
{
    const struct life_rules *rules = &life->rules;
    struct life_walk walk = {0};
    int64_t next = INT64_MAX, min_run = INT64_MAX;
    bool waits = false;

    if (life->again)
        return now_ms;
    while (life_each(life, &walk)) {
        const struct life_job *job = walk.job;
        const struct workload *w = &job->w;

        if (phase_is_waiting(w->phase)) {
            waits = waits || !w->blocked;
            if (w->not_before_ms > now_ms && !w->blocked)
                next = earlier(next, w->not_before_ms);
        }
        if (job->stop.kind && !job->stop.killed)
            next = earlier(next, job->stop.until_ms);
        if (w->phase == PHASE_STARTING) {
            int64_t limit = job->stuck ? rules->stuck_ms : rules->start_ms;

            next = limit > 0 ? earlier(next, job->progress_ms + limit) : next;
        }
        if (w->phase == PHASE_RUNNING && w->started_ms + rules->sched.min_run_ms > now_ms)
            min_run = earlier(min_run, w->started_ms + rules->sched.min_run_ms);
    }
    if (waits)
        next = earlier(next, earlier(min_run, now_ms + LOOK_MS));
    return next > now_ms ? next : now_ms + 1;
}
