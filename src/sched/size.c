/* Extra GPUs under a ranking policy while somebody waits (else: share.c): cards that are still free after
 * everybody in order was tried go to elastic jobs, one step of their curve at a time, to where a GPU speeds
 * up the most for the work that is left. A job that is only starting grows for nothing; a running one only
 * when that repays the restart. They are the first to go when somebody waits (displace.c). */
#include "sched/book.h"

#include <math.h>
#include <stdlib.h>

struct grower {
    uint32_t job, gpus; /* it has, or is going to have */
    uint32_t action;    /* its START; SCHED_NONE: it runs */
    struct placement at;
    struct curve_point hull[CURVE_MAX];
    uint32_t points;
    double work_s, claim;
    bool grown;
};

typedef VEC(struct grower) growers; /* one type for the helpers below */

static void add_grower(struct book *book, growers *list, uint32_t job, uint32_t action, struct placement at)
{
    const struct workload *w = book_job(book, job);
    struct grower g = {.job = job, .gpus = at.len, .action = action, .at = at};
    struct forecast room;
    const struct forecast *f = book_forecast(book, job, &room);

    g.points = forecast_hull(f, g.hull);
    while (g.points > 0 && g.hull[g.points - 1].gpus > book->space.card_count)
        g.points--;
    if (w->probes >= book->view->options.probes_max && f->tried)
        while (g.points > 0 && !forecast_tried(f, g.hull[g.points - 1].gpus))
            g.points--;
    g.work_s = f->work_s;
    g.claim = f->overrun;
    vec_push(list, g);
}

static void find_growers(struct book *book, struct plan *plan, growers *list)
{
    for (uint32_t i = 0; i < plan->actions.len; i++) {
        const struct action *action = &plan->actions.v[i];

        if (action->type == ACTION_START && demand_elastic(&book_job(book, action->job)->demand) &&
            !book_job(book, action->job)->resizing)
            add_grower(book, list, action->job, i, (struct placement){action->slots, action->slot_count});
    }
    VEC_EACH(&book->running, key) {
        const struct workload *w = book_job(book, key->job);
        bool stopped = false;

        if (!demand_elastic(&w->demand) || w->placement.len >= w->demand.max_gpus ||
            !may_stop(book, key->job))
            continue;
        VEC_EACH(&plan->actions, action)
            stopped |= action->job == key->job;
        if (!stopped && space_exists(&book->space, w->placement))
            add_grower(book, list, key->job, SCHED_NONE, w->placement);
    }
}

static const struct curve_point *next_point(const struct grower *g)
{
    for (uint32_t i = 0; i < g->points; i++)
        if (g->hull[i].gpus > g->gpus)
            return &g->hull[i];
    return NULL;
}

static double value_of(const struct book *book, const struct grower *g)
{
    const struct curve_point *next = next_point(g);
    struct forecast room;
    double rate;

    if (!next)
        return -1;
    rate = forecast_rate(book_forecast(book, g->job, &room), g->gpus);
    if (g->action == SCHED_NONE &&
        !resize_pays(book, g->job, book_job(book, g->job)->placement.len, next->gpus))
        return -1;
    return g->claim * (next->rate - rate) / (next->gpus - g->gpus) / sqrt(fmax(g->work_s, 1));
}

/* What it takes: a running job keeps its old place until it has stopped. */
static void occupy(struct book *book, const struct grower *g, int times)
{
    const struct workload *w = book_job(book, g->job);

    if (g->action == SCHED_NONE)
        space_use(&book->space, &w->demand, w->placement, times);
    if (g->action != SCHED_NONE || g->grown)
        space_use(&book->space, &w->demand, g->at, times);
}

/* What is held for long may be lent to elastic jobs: they give it back when it is needed. */
static bool may_lend(const struct book *book)
{
    return book->policy->outranks && book->view->options.preemption == PREEMPTION_AUTO &&
           book->fits_ms - book->now > 2 * book->view->options.repay_ms;
}

/* One step up, if there is a place for it. */
static bool grow(struct book *book, struct plan *plan, struct grower *g)
{
    struct query query = book_query(book, g->job, next_point(g)->gpus);
    struct slot *slots;
    bool found;

    occupy(book, g, -1);
    found = space_place(&book->space, &query, book->slots.v);
    if (found) {
        slots = arena_alloc(&plan->arena, sizeof(*slots) * query.gpus);
        memcpy(slots, book->slots.v, sizeof(*slots) * query.gpus);
        g->at = (struct placement){slots, query.gpus};
        g->gpus = query.gpus;
        g->grown = true;
    }
    occupy(book, g, 1);
    return found;
}

static void write_down(const struct book *book, struct plan *plan, const struct grower *g)
{
    if (!g->grown)
        return;
    if (g->action != SCHED_NONE) {
        plan->actions.v[g->action].slots = g->at.v;
        plan->actions.v[g->action].slot_count = g->at.len;
    } else {
        plan_add(plan, ACTION_RESIZE, g->job, g->at.v, g->at.len)->lost_gpu_ms =
            workload_lost_gpu_ms(book_job(book, g->job), book->now);
    }
}

static void hand_out(struct book *book, struct plan *plan)
{
    growers list = {0};

    find_growers(book, plan, &list);
    for (size_t left = list.len; left > 0 && book->space.whole > 0;) {
        struct grower *best = NULL;
        double most = 0;

        VEC_EACH(&list, g) {
            double value = g->points ? value_of(book, g) : -1;

            if (value > most) {
                most = value;
                best = g;
            }
        }
        if (!best)
            break;
        if (!grow(book, plan, best)) {
            best->points = 0;
            left--;
        }
    }
    VEC_EACH(&list, g)
        write_down(book, plan, g);
    vec_done(&list);
}

static bool nobody_waits(const struct book *book)
{
    return book->held_for.job == SCHED_NONE && book->claims == 0;
}

void size_grow(struct book *book, struct plan *plan)
{
    bool lend = book->held.len > 0 && may_lend(book);

    if (book->policy->shares_anew && nobody_waits(book)) {
        share_anew(book, plan);
        return;
    }
    if (lend)
        hold_use(book, -1);
    if (book->space.whole > 0)
        hand_out(book, plan);
    if (lend)
        hold_use(book, 1);
}
