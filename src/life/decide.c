/* What the scheduler decides, turned into steps. Whom something is done for is asked about first: nobody is
 * stopped and no card is held for a job that could not start. */
#include "base/break.h"
#include "life/internal.h"

#include <stdlib.h>

#define BROKEN_IDLE_MS 60000 /* where that rule is broken: jobs wait for so long beside free cards */
#define HELD_ASK_MS    1000  /* whether the job that cards are kept for could start is asked that often */
#define CLOCK_BACK_MS  2000  /* less is left alone */
#define LOOK_MS        5000  /* while somebody waits, sched is asked at least that often */

const char life_admit_later[] = "after those that start now";

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
    VEC(uint64_t) later;   /* jobs for which nothing is done in this call */
};

/* Blocks those that cannot start. Returns how many. */
static uint32_t block_some(struct deciding *d)
{
    struct life *life = d->step.life;
    uint32_t blocked = 0;

    d->later.len = 0;
    if (!d->admit || rule_broken("1"))
        return 0;
    VEC_EACH(&d->plan.actions, action) {
        struct life_job *job = beneficiary(life, action);
        uint32_t gpus;
        bool placed;
        const char *why;

        if (!job || job->w.blocked || !phase_is_waiting(job->w.phase))
            continue;
        placed = action->type == ACTION_START || action->type == ACTION_CLAIM;
        gpus = placed ? action->slot_count : job->w.demand.min_gpus;
        why = d->admit(d->arg, job, placed ? action->slots : NULL, job->w.demand.max_gpus ? gpus : 0,
                       &d->step.out->arena);
        if (why == life_admit_later) {
            vec_push(&d->later, job->w.id);
            life->again = true;
        }
        if (!why || why == life_admit_later)
            continue;
        (void)life_step(life, &(struct life_event){.type = LIFE_BLOCK, .id = job->w.id, .text = why},
                        d->step.now, d->step.out, NULL);
        blocked++;
    }
    return blocked;
}

/* Cards are kept for no job that could not start on them. */
static bool block_held(struct deciding *d)
{
    struct life *life = d->step.life;
    uint64_t id = live_held_for(life->live);
    struct life_job *job = id && d->admit ? life_find(life, id) : NULL;
    const char *why;

    if (!job || job->w.blocked || !phase_is_waiting(job->w.phase) || rule_broken("1") ||
        (life->held_id == id && d->step.now - life->held_ms < HELD_ASK_MS && d->step.now >= life->held_ms))
        return false;
    life->held_id = id;
    life->held_ms = d->step.now;
    why = d->admit(d->arg, job, NULL, job->w.demand.min_gpus, &d->step.out->arena);
    if (!why || why == life_admit_later)
        return false;
    (void)life_step(life, &(struct life_event){.type = LIFE_BLOCK, .id = id, .text = why}, d->step.now,
                    d->step.out, NULL);
    return true;
}

static bool is_later(const struct deciding *d, uint64_t id)
{
    VEC_EACH(&d->later, it)
        if (*it == id)
            return true;
    return false;
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

static bool has_slot(struct placement at, const struct slot *slot)
{
    for (uint32_t i = 0; i < at.len; i++)
        if (at.v[i].node == slot->node && at.v[i].card == slot->card)
            return true;
    return false;
}

/* Whether others are still on cards that a job would grow to: it goes on until those have gone. */
static bool must_wait(const struct life *life, const struct life_job *job, const struct action *action)
{
    const struct sched_view *view = live_view(life->live);
    uint32_t other;

    if (life->rules.at_once || !demand_whole(&job->w.demand))
        return false;
    for (size_t i = 0; (other = live_running(life->live, i)) != SCHED_NONE; i++)
        for (uint32_t k = 0; view->jobs[other].id != job->w.id && k < action->slot_count; k++)
            if (has_slot(view->jobs[other].placement, &action->slots[k]))
                return true;
    return false;
}

static bool stop_for(struct deciding *d, struct life_job *job, const struct action *action, uint64_t by_id,
                     const char *text)
{
    struct step *step = &d->step;
    const struct life_job *by = by_id ? life_find(step->life, by_id) : NULL;
    bool resize = action->type == ACTION_RESIZE;

    if (job->stop.kind || job->placed_ms == step->now) /* nothing starts and stops in one instant */
        return false;
    if (resize && !by && must_wait(step->life, job, action))
        return false;
    if (resize && !by && d->admit &&
        d->admit(d->arg, job, action->slots, action->slot_count, &step->out->arena))
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

        if (!job || (action->type != ACTION_PREEMPT && action->type != ACTION_RESIZE) ||
            is_later(d, d->by.v[i]))
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

        if (!job || is_later(d, d->ids.v[i]))
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

/* The wall clock was set back: what was to be done in a while is not put off by that. */
static void clock_back(struct step *step, int64_t by)
{
    VEC_EACH(&step->life->timed, id) {
        struct life_job *job = life_find(step->life, *id);

        if (!job)
            continue;
        job->progress_ms -= by;
        if (job->stop.kind)
            job->stop.until_ms -= by;
        if (job->w.not_before_ms > step->now) {
            struct workload w = job->w;

            w.not_before_ms -= by;
            job_replace(step, job, &w);
        }
        effect_write(step, job);
    }
}

/* Deadlines. */
static void due(struct step *step)
{
    struct life *life = step->life;
    VEC(struct life_job *) late = {0};
    size_t to = 0;

    if (step->now + CLOCK_BACK_MS < life->now_ms)
        clock_back(step, life->now_ms - step->now);
    life->now_ms = step->now;
    VEC_EACH(&life->timed, id) {
        struct life_job *job = life_find(life, *id);

        if (!job)
            continue;
        job->timed = phase_holds(job->w.phase) ? job->w.phase == PHASE_STARTING || job->stop.kind != STOP_NONE
                                               : job->w.not_before_ms > step->now;
        if (!job->timed)
            continue;
        life->timed.v[to++] = *id;
        if (phase_holds(job->w.phase))
            vec_push(&late, job);
    }
    life->timed.len = to;
    VEC_EACH(&late, it) {
        stop_due(step, *it);
        run_due(step, *it);
    }
    vec_done(&late);
}

/* A job that stops to grow, and has not heard of it. */
static bool is_growing(const struct life_job *job)
{
    return job->stop.kind == STOP_RESIZE && !job->stop.by && stop_withdrawable(job) &&
           job->w.claim.len > job->w.placement.len;
}

/* Whether the plan starts a job on one of the cards it would grow to. */
static bool is_in_the_way(const struct plan *plan, const struct life_job *growing, struct placement claim)
{
    VEC_EACH(&plan->actions, action)
        for (uint32_t i = 0; action->type == ACTION_START && i < action->slot_count; i++)
            if (has_slot(claim, &action->slots[i]) && !has_slot(growing->w.placement, &action->slots[i]))
                return true;
    return false;
}

struct grower {
    struct life_job *job;
    struct placement claim;
};
typedef VEC(struct grower) grower_list; /* one type for the helpers below */

static void find_growers(const struct life *life, grower_list *ret)
{
    const struct sched_view *view = live_view(life->live);
    uint32_t job;

    for (size_t i = 0; (job = live_running(life->live, i)) != SCHED_NONE; i++) {
        struct life_job *it = life_find(life, view->jobs[job].id);

        if (it && is_growing(it))
            vec_push(ret, ((struct grower){.job = it}));
    }
}

static bool anyone_could_start(const struct life *life, int64_t now)
{
    struct life_walk walk = {0};

    while (life_each(life, &walk)) {
        const struct workload *w = &walk.job->w;

        if (phase_is_waiting(w->phase) && !w->blocked && w->not_before_ms <= now && w->demand.max_gpus > 0)
            return true;
    }
    return false;
}

/* A job that stops to grow keeps free cards for itself, for up to an epoch. Who waits and would start on them
 * comes first: what would be done without those that grow is asked for, and not more is withdrawn. */
static bool withdraw_growth(struct deciding *d)
{
    struct step *step = &d->step;
    grower_list growers = {0};
    bool any = false;

    find_growers(step->life, &growers);
    if (growers.len && anyone_could_start(step->life, step->now)) {
        VEC_EACH(&growers, it) {
            const struct workload *w = &it->job->w;

            it->claim =
                (struct placement){slots_keep(&step->out->arena, w->claim.v, w->claim.len), w->claim.len};
            set_claim(step, it->job, w->placement.v, w->placement.len);
        }
        live_try(step->life->live, step->now, &d->plan);
        VEC_EACH(&growers, it) {
            if (!is_in_the_way(&d->plan, it->job, it->claim)) {
                set_claim(step, it->job, it->claim.v, it->claim.len);
                continue;
            }
            stop_withdraw(step, it->job);
            any = true;
        }
    }
    vec_done(&growers);
    return any;
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
        if (block_held(&d)) {
            if (++blocks >= LIFE_BLOCKS_MAX)
                break;
            continue;
        }
        blocked = block_some(&d);
        if (blocked) {
            blocks += blocked;
            if (blocks < LIFE_BLOCKS_MAX)
                continue;
            life->again = true;
            break;
        }
        if ((!act(&d) && !withdraw_growth(&d)) || ++passes >= LIFE_PASSES_MAX)
            break;
    }
    plan_done(&d.plan);
    vec_done(&d.ids);
    vec_done(&d.by);
    vec_done(&d.later);
    return effects->v.len > before;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Of a job that has a deadline. */
static int64_t deadline_ms(const struct life *life, const struct life_job *job, int64_t now)
{
    int64_t limit = job->stuck ? life->rules.stuck_ms : life->rules.start_ms;
    const struct workload *w = &job->w;

    if (phase_is_waiting(w->phase))
        return w->not_before_ms > now && !w->blocked ? w->not_before_ms : INT64_MAX;
    if (job->stop.kind)
        return job->stop.killed ? INT64_MAX : job->stop.until_ms;
    return w->phase == PHASE_STARTING && limit > 0 && workload_gpus(w) > 0 ? job->progress_ms + limit
                                                                           : INT64_MAX;
}

/* Reads those that have a deadline and those that run, not those that wait: there may be ten thousand. */
int64_t life_next_ms(const struct life *life, int64_t now_ms)
{
    const struct sched_view *view = live_view(life->live);
    int64_t next = INT64_MAX, min_run = INT64_MAX;
    size_t running = 0;

    if (life->again)
        return now_ms;
    VEC_EACH(&life->timed, id) {
        const struct life_job *job = life_find(life, *id);

        if (job)
            next = earlier(next, deadline_ms(life, job, now_ms));
    }
    for (uint32_t job; (job = live_running(life->live, running)) != SCHED_NONE; running++) {
        const struct workload *w = &view->jobs[job];
        int64_t until = w->started_ms + life->rules.sched.min_run_ms;

        if (w->phase == PHASE_RUNNING && until > now_ms)
            min_run = earlier(min_run, until);
    }
    if (map_len(life->jobs) > running)
        next = earlier(next, earlier(min_run, now_ms + LOOK_MS));
    return next > now_ms ? next : now_ms + 1;
}
