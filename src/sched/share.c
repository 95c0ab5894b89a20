/* Extra GPUs while nobody waits: all of them are shared out anew, those that elastic jobs have already among
 * them, as `berth` does (speed.c). Each elastic job has its smallest size for certain, the rest goes by bids.
 * A job that has more than its bids bring shrinks, as far as another can use it; one that starts gets what is
 * free. */
#include "base/mem.h"
#include "sched/book.h"

#include <stdlib.h>

struct sharer {
    uint32_t job, had; /* GPUs it has; 0: it is starting */
    uint32_t action;   /* its START; SCHED_NONE: it runs */
    uint32_t gpus;     /* it should have */
    uint32_t points, next;
    struct curve_point hull[CURVE_MAX];
    double work_s, alone_s, weight, value;
    struct placement at; /* where it will be */
};

typedef VEC(struct sharer) sharer_list; /* one type for the helpers below */

/* A job that stops to change its size makes room for others under its user's quota: they might start, and it
 * could not go on. */
static bool has_blocked(const struct book *book, uint32_t user)
{
    VEC_EACH(&book->specials, job)
        if (book_job(book, *job)->blocked && book->jobs.v[*job].user == user)
            return true;
    return false;
}

static void add_sharer(struct book *book, sharer_list *list, uint32_t job, uint32_t action,
                       struct placement at)
{
    const struct workload *w = book_job(book, job);
    struct sharer one = {.job = job, .had = action == SCHED_NONE ? at.len : 0, .action = action, .at = at};
    struct forecast room;
    const struct forecast *f = book_forecast(book, job, &room);

    one.points = forecast_hull(f, one.hull);
    while (one.points > 1 && one.hull[one.points - 1].gpus > book->space.card_count)
        one.points--;
    if (w->probes >= book->view->options.probes_max && f->tried)
        while (one.points > 1 && one.hull[one.points - 1].gpus > one.had &&
               !forecast_tried(f, one.hull[one.points - 1].gpus))
            one.points--;
    if (one.points == 0 || one.hull[0].gpus != w->demand.min_gpus)
        return;
    one.gpus = one.hull[0].gpus;
    one.next = 1;
    one.work_s = f->work_s;
    one.alone_s = f->work_s / one.hull[one.points - 1].rate;
    one.weight = f->overrun;
    vec_push(list, one);
}

static void find_sharers(struct book *book, const struct plan *plan, sharer_list *list)
{
    CLEANUP(free) uint8_t *planned = mem_zalloc(book->jobs.len + 1);

    for (uint32_t i = 0; i < plan->actions.len; i++) {
        const struct action *action = &plan->actions.v[i];
        const struct workload *w = book_job(book, action->job);

        planned[action->job] = 1;
        if (action->type == ACTION_START && demand_elastic(&w->demand) && !w->resizing)
            add_sharer(book, list, action->job, i, (struct placement){action->slots, action->slot_count});
    }
    VEC_EACH(&book->running, key) {
        const struct workload *w = book_job(book, key->job);

        if (demand_elastic(&w->demand) && !planned[key->job] && may_stop(book, key->job) &&
            space_exists(&book->space, w->placement) && !has_blocked(book, book->jobs.v[key->job].user))
            add_sharer(book, list, key->job, SCHED_NONE, w->placement);
    }
}

static int sharer_cmp(const void *va, const void *vb)
{
    const struct sharer *a = va, *b = vb;

    if (a->work_s != b->work_s)
        return a->work_s > b->work_s ? -1 : 1;
    return (a->job > b->job) - (a->job < b->job);
}

static void value_step(const struct book *book, struct sharer *one)
{
    const struct sched_options *o = &book->view->options;
    const struct curve_point *to = &one->hull[one->next];

    one->value = -1;
    if (one->next >= one->points)
        return;
    if (one->had > 0 && to->gpus > one->had && !resize_pays(book, one->job, one->had, to->gpus))
        return;
    one->value = one->weight * (to->rate - to[-1].rate) / (to->gpus - to[-1].gpus);
    if (one->had >= to->gpus)
        one->value *= 1 + (double)o->restart_ms / (double)(o->repay_ms > 0 ? o->repay_ms : 1);
}

/* How many GPUs each should have, of `left` beyond their smallest sizes. */
static void share_out(struct book *book, sharer_list *list, uint32_t left)
{
    const double *weights = rank_weights(book, list->len);
    double total = 0;

    qsort(list->v, list->len, sizeof(*list->v), sharer_cmp);
    VEC_EACH(list, one)
        total += one->work_s / one->hull[0].rate * one->hull[0].gpus / book->space.card_count;
    for (size_t i = 0; i < list->len; i++) {
        list->v[i].weight *= weights[i] * long_weight(list->v[i].alone_s, total);
        value_step(book, &list->v[i]);
    }
    while (left > 0) {
        struct sharer *best = NULL;

        VEC_EACH(list, one)
            if (one->value > 0 && (!best || one->value > best->value))
                best = one;
        if (!best)
            return;
        if (best->hull[best->next].gpus - best->gpus > left) {
            best->value = -1;
            continue;
        }
        left -= best->hull[best->next].gpus - best->gpus;
        best->gpus = best->hull[best->next++].gpus;
        value_step(book, best);
    }
}

static void sharer_use(struct book *book, const struct sharer *one, struct placement at, int times)
{
    space_use(&book->space, &book_job(book, one->job)->demand, at, times);
}

/* At what it should have or at the next smaller number that fits; what it has had, when that is not more. */
static void place_sharer(struct book *book, struct plan *plan, struct sharer *one)
{
    const struct demand *d = &book_job(book, one->job)->demand;
    uint32_t step = d->unit_gpus ? d->unit_gpus : 1;
    struct slot *slots;

    for (uint32_t gpus = one->gpus; gpus > one->had && gpus >= d->min_gpus; gpus -= step) {
        struct query query = book_query(book, one->job, gpus);

        if (!space_place(&book->space, &query, book->slots.v))
            continue;
        if (one->had > 0 && !resize_pays(book, one->job, one->had, gpus))
            break;
        slots = arena_alloc(&plan->arena, sizeof(*slots) * gpus);
        memcpy(slots, book->slots.v, sizeof(*slots) * gpus);
        one->at = (struct placement){slots, gpus};
        break;
    }
    sharer_use(book, one, one->at, 1);
}

/* What it keeps of its cards: those of the nodes where it has the most, in their order. */
static void keep_most(struct book *book, struct plan *plan, struct sharer *one)
{
    const struct workload *w = book_job(book, one->job);
    uint32_t step = w->demand.unit_gpus ? w->demand.unit_gpus : w->placement.len, len = 0;
    struct slot *slots = arena_alloc(&plan->arena, sizeof(*slots) * w->placement.len);
    CLEANUP(free) uint32_t *on = mem_zalloc(sizeof(*on) * (book->space.node_count + 1));

    if (w->demand.unit_gpus == 0) { /* all on one node */
        memcpy(slots, w->placement.v, sizeof(*slots) * one->gpus);
        len = one->gpus;
    }
    for (uint32_t i = 0; i < w->placement.len; i++)
        on[w->placement.v[i].node]++;
    while (len < one->gpus) {
        uint32_t best = SCHED_NONE;

        for (uint32_t i = 0; i < w->placement.len; i += step)
            if (on[w->placement.v[i].node] > 0 &&
                (best == SCHED_NONE || on[w->placement.v[i].node] > on[best]))
                best = w->placement.v[i].node;
        on[best] = 0;
        for (uint32_t i = 0; i < w->placement.len && len < one->gpus; i += step)
            if (w->placement.v[i].node == best) {
                memcpy(slots + len, &w->placement.v[i], sizeof(*slots) * step);
                len += step;
            }
    }
    one->at = (struct placement){slots, one->gpus};
    sharer_use(book, one, one->at, 1);
}

static bool shrinks(const struct sharer *one)
{
    return one->had > one->gpus;
}

/* Those that start get what is really free; then those that shrink give what the others take, the most
 * valuable first. Who gave up what nobody could use keeps it. */
static void place_all(struct book *book, struct plan *plan, sharer_list *list)
{
    for (size_t i = list->len; i-- > 0;)
        if (list->v[i].action != SCHED_NONE) {
            sharer_use(book, &list->v[i], list->v[i].at, -1);
            place_sharer(book, plan, &list->v[i]);
        }
    VEC_EACH(list, one)
        if (one->action == SCHED_NONE && one->gpus != one->had)
            sharer_use(book, one, one->at, -1);
    VEC_EACH(list, one)
        if (shrinks(one))
            keep_most(book, plan, one);
    for (size_t i = list->len; i-- > 0;)
        if (list->v[i].action == SCHED_NONE && list->v[i].gpus > list->v[i].had)
            place_sharer(book, plan, &list->v[i]);
    VEC_EACH(list, one) {
        const struct workload *w = book_job(book, one->job);

        if (!shrinks(one))
            continue;
        sharer_use(book, one, one->at, -1);
        if (space_fits(&book->space, &w->demand, w->placement))
            one->at = w->placement;
        sharer_use(book, one, one->at, 1);
    }
}

void share_anew(struct book *book, struct plan *plan)
{
    sharer_list list = {0};
    uint32_t left = book->space.whole;

    find_sharers(book, plan, &list);
    VEC_EACH(&list, one)
        left += one->at.len - one->gpus;
    if (left > 0 && list.len > 0) {
        share_out(book, &list, left);
        place_all(book, plan, &list);
    }
    VEC_EACH(&list, one)
        if (one->action != SCHED_NONE) {
            plan->actions.v[one->action].slots = one->at.v;
            plan->actions.v[one->action].slot_count = one->at.len;
        } else if (one->at.len != one->had) {
            plan_add(plan, ACTION_RESIZE, one->job, one->at.v, one->at.len)->lost_gpu_ms =
                workload_lost_gpu_ms(book_job(book, one->job), book->now);
        }
    vec_done(&list);
}
