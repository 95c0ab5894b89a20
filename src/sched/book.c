/* A book is made in linear time but for sorting. Shapes, selectors and users are interned in hash tables with
 * a fixed hash, so that nothing depends on the process. */
#include "base/mem.h"
#include "sched/pace.h"

#include <math.h>
#include <stdlib.h>

const struct sched_options sched_defaults = {
    .preemption = PREEMPTION_AUTO,
    .place = PLACE_BEST_FIT,
    .min_run_ms = 120 * 1000,
    .restart_ms = 30 * 1000,
    .repay_ms = 300 * 1000,
    .las_split_ms = 16 * 3600 * (int64_t)1000,
    .rank_power = 0.3,
    .critical_margin = 1.2,
    .probes_max = 2,
    .backfill = true,
};

const struct sched_policy *const sched_policies[] = {
    &policy_fair, &policy_fifo, &policy_srtf, &policy_las, &policy_pressure, &policy_berth, NULL,
};

const struct sched_policy *sched_policy_find(const char *name)
{
    for (const struct sched_policy *const *p = sched_policies; *p; p++)
        if (streq((*p)->is.name, name))
            return *p;
    return NULL;
}

const struct sched_traits *sched_policy_traits(const struct sched_policy *policy)
{
    return &policy->is;
}

const char *sched_policy_name(const struct sched_policy *policy)
{
    return policy->is.name;
}

void book_init(struct book *book, const struct sched_policy *policy, const struct sched_view *view,
               int64_t now)
{
    *book = (struct book){.policy = policy, .view = view, .now = now, .held_for.job = SCHED_NONE};
    space_init(&book->space, view->cluster);
    space_init(&book->soon, view->cluster);
    book->largest_card = cluster_largest_card(view->cluster);
    book->smallest_card = cluster_smallest_card(view->cluster, 1);
    if (view->options.place == PLACE_FRAGMENT && view->mix)
        book->frag = frag_new(view->cluster, view->mix, view->mix_len, FRAG_AHEAD);
}

void book_done(struct book *book)
{
    VEC_EACH(&book->users, user) {
        vec_done(&user->jobs);
        vec_done(&user->queue);
    }
    VEC_EACH(&book->sets, set)
        free(set->may);
    space_done(&book->space);
    space_done(&book->soon);
    frag_free(book->frag);
    vec_done(&book->jobs);
    vec_done(&book->waiting);
    vec_done(&book->running);
    vec_done(&book->scratch);
    vec_done(&book->heads);
    vec_done(&book->paces);
    vec_done(&book->rows);
    vec_done(&book->paces_changed);
    vec_done(&book->weights);
    vec_done(&book->specials);
    vec_done(&book->places);
    vec_done(&book->kept_places);
    vec_done(&book->shapes);
    vec_done(&book->sets);
    vec_done(&book->users);
    vec_done(&book->slots);
    vec_done(&book->victims);
    vec_done(&book->target);
    vec_done(&book->role);
    vec_done(&book->host);
    vec_done(&book->unclaimed);
    vec_done(&book->leaving);
    free(book->user_hash.slots);
    free(book->shape_hash.slots);
    free(book->set_hash.slots);
    vec_done(&book->held);
    vec_done(&book->given);
    vec_done(&book->kept);
}

const struct forecast *book_forecast_as_of(const struct book *book, uint32_t job, struct forecast *room)
{
    const struct forecast *f = book->view->forecasts ? &book->view->forecasts[job] : NULL;

    if (f && f->points > 0)
        return f;
    forecast_declared(book_job(book, job), book->now, room);
    return room;
}

const struct forecast *book_forecast(const struct book *book, uint32_t job, struct forecast *room)
{
    const struct workload *w = book_job(book, job);
    const struct forecast *f = book_forecast_as_of(book, job, room);

    if (f->as_of_ms == 0 || f->as_of_ms >= book->now || !workload_runs(w))
        return f;
    *room = *f;
    room->work_s -= (double)(book->now - f->as_of_ms) / 1000 * forecast_rate(f, workload_gpus(w));
    room->work_s = room->work_s > f->work_s / 100 ? room->work_s : f->work_s / 100;
    return room;
}

double book_rest_s(const struct book *book, uint32_t job, uint32_t gpus)
{
    struct forecast room;

    return forecast_seconds(book_forecast(book, job, &room), gpus, false);
}

int64_t ms_of_s(double seconds)
{
    return seconds * 1000 < (double)REST_MAX_MS ? (int64_t)(seconds * 1000) : REST_MAX_MS;
}

int64_t book_rest_ms(const struct book *book, uint32_t job, uint32_t gpus)
{
    return ms_of_s(book_rest_s(book, job, gpus));
}

int64_t book_since_ms(const struct workload *w, const struct forecast *f)
{
    return workload_runs(w) ? w->started_ms : f->as_of_ms;
}

struct when book_end(const struct book *book, uint32_t job)
{
    const struct workload *w = book_job(book, job);
    struct forecast room;
    const struct forecast *f = book_forecast_as_of(book, job, &room);

    return forecast_end(f, workload_gpus(w), false, book_since_ms(w, f), book->now);
}

int64_t book_end_ms(const struct book *book, uint32_t job)
{
    const struct book_job *of = &book->jobs.v[job];

    return of->end_holds_ms >= book->now ? of->end_ms : book_end(book, job).at_ms;
}

struct query book_query(const struct book *book, uint32_t job, uint32_t gpus)
{
    const struct shape *shape = &book->shapes.v[book->jobs.v[job].shape];

    return (struct query){
        .demand = &book_job(book, job)->demand,
        .gpus = gpus,
        .nodes = shape->selector.len ? book->sets.v[shape->nodes].may : NULL,
        .rule = book->view->options.place,
        .spread_shares = book->view->options.spread_shares,
        .alone = book->policy->is.guests,
        .frag = book->frag,
    };
}

void plan_done(struct plan *plan)
{
    vec_done(&plan->actions);
    vec_done(&plan->waits);
    arena_done(&plan->arena);
}

struct action *plan_add(struct plan *plan, enum action_type type, uint32_t job, const struct slot *slots,
                        uint32_t len)
{
    struct slot *copy = NULL;

    if (len > 0) {
        copy = arena_alloc(&plan->arena, sizeof(*slots) * len);
        memcpy(copy, slots, sizeof(*slots) * len);
    }
    vec_push(&plan->actions, (struct action){type, job, SCHED_NONE, copy, len, 0, 0});
    return &plan->actions.v[plan->actions.len - 1];
}

void book_space_use(struct book *book, const struct demand *demand, struct placement at, int times)
{
    space_use(&book->space, demand, at, times);
    if (book->soon_known)
        space_use(&book->soon, demand, at, times);
}

void book_space_claim(struct book *book, const struct demand *demand, struct placement at, int times)
{
    space_claim(&book->space, demand, at, times);
    if (book->soon_known)
        space_claim(&book->soon, demand, at, times);
}

bool cannot_start(const struct book *book, uint32_t job)
{
    const struct workload *w = book_job(book, job);

    return w->blocked || w->not_before_ms > book->now;
}

/* A job just started is left alone; one in its last epoch would not notice. */
bool may_stop_asked(const struct book *book, uint32_t job)
{
    const struct workload *w = book_job(book, job);

    return w->phase == PHASE_RUNNING && !w->keep && !workload_in_last_epoch(w) && book->now > w->started_ms &&
           book->now - w->started_ms >= book->view->options.min_run_ms;
}

bool may_stop(const struct book *book, uint32_t job)
{
    return book_job(book, job)->resumable && may_stop_asked(book, job);
}

void book_decide(struct book *book, struct plan *plan)
{
    plan->actions.len = 0;
    plan->waits.len = 0;
    arena_reset(&plan->arena);
    book->open = 0;
    VEC_EACH(&book->shapes, shape) {
        shape->full = shape->failed = shape->failed_held = false;
        book->open += shape->waiting > 0;
    }
    book->victims_known = book->soon_known = false;
    book->victims.len = book->unclaimed.len = 0;
    book->held.len = 0;
    book->held_for.job = book->head = SCHED_NONE;
    book->hold_known = false;
    book->claims = 0;
    if (book->policy->timed)
        order_time(book);
    book->policy->decide(book, plan);
}

void sched_plan(const struct sched_policy *policy, const struct sched_view *view, int64_t now_ms,
                struct plan *plan)
{
    CLEANUP(book_done) struct book book;

    book_init(&book, policy, view, now_ms);
    order_build(&book);
    book.explains = true;
    book_decide(&book, plan);
    explain_waits(&book, plan);
}
