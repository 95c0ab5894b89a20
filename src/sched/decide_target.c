/* Deciding by target: every job has a number of GPUs it should have. What runs with that number stays where
 * it is; what should have another, or none, is asked to stop; the others are placed in order as if that had
 * happened already. Those whose place is really empty start, the others get a claim on it. */
#include "base/mem.h"
#include "sched/book.h"

#include <stdlib.h>

/* A running job that has to change: its number differs and it may be stopped. */
static bool changes(const struct book *book, const struct workload *w, uint32_t job)
{
    uint32_t gpus = workload_gpus(w), target = book->target.v[job];

    return w->phase == PHASE_RUNNING && gpus > 0 &&
           (gpus != target || (book->policy->is.guests && book->role.v[job] == ROLE_MOVES)) &&
           may_stop(book, job) && space_exists(&book->space, w->placement);
}

static void changed_use(struct book *book, int times)
{
    VEC_EACH(&book->running, key) {
        const struct workload *w = book_job(book, key->job);

        if (changes(book, w, key->job))
            space_use(&book->space, &w->demand, w->placement, times);
    }
}

/* At the target, or at the next smaller number that fits. */
static uint32_t place_at_most(struct book *book, uint32_t job, uint32_t target)
{
    const struct demand *d = &book_job(book, job)->demand;
    uint32_t step = d->unit_gpus ? d->unit_gpus : 1;

    if (d->min_gpus > book->space.card_count)
        return 0;
    while (target > book->space.card_count && target >= d->min_gpus + step)
        target -= step;
    for (uint32_t gpus = d->max_gpus ? target : 0;; gpus -= step) {
        struct query query = book_query(book, job, gpus);

        if (space_place(&book->space, &query, book->slots.v))
            return query_slots(&query);
        if (gpus < d->min_gpus + step)
            return 0;
    }
}

static void place_running(struct book *book, const struct key *key, struct plan *plan)
{
    const struct workload *w = book_job(book, key->job);
    uint32_t target = book->target.v[key->job], len = target ? place_at_most(book, key->job, target) : 0;
    struct action *action;

    if (len > 0 && len == workload_gpus(w) && !book->policy->is.guests &&
        space_fits(&book->space, &w->demand, w->placement)) {
        space_use(&book->space, &w->demand, w->placement, 1);
        book->target.v[key->job] = len; /* stays, as nothing better fits */
        return;
    }
    action = plan_add(plan, len ? ACTION_RESIZE : ACTION_PREEMPT, key->job, book->slots.v, len);
    action->lost_gpu_ms = workload_lost_gpu_ms(w, book->now);
    if (len > 0)
        space_use(&book->space, &w->demand, (struct placement){action->slots, len}, 1);
}

/* The places of those that stop to be resized are theirs. */
static void keep_places(struct book *book, struct plan *plan)
{
    VEC_EACH(&book->leaving, job) {
        const struct workload *w = book_job(book, *job);

        if (!workload_resizing(w))
            continue;
        if (space_fits(&book->space, &w->demand, w->claim))
            space_use(&book->space, &w->demand, w->claim, 1);
        else
            plan_add(plan, ACTION_UNCLAIM, *job, NULL, 0);
    }
}

/* A claim that still fits what the job should get is kept. */
static bool keep_claim(struct book *book, const struct workload *w, uint32_t job)
{
    uint32_t slots = w->demand.max_gpus ? book->target.v[job] : 1;
    struct demand demand = w->demand;

    demand.exclusive |= book->policy->is.guests;
    return w->claim.len > 0 && w->claim.len == slots && space_fits(&book->space, &demand, w->claim);
}

static void place_waiting(struct book *book, const struct key *key, struct plan *plan)
{
    const struct workload *w = book_job(book, key->job);
    struct shape *shape = &book->shapes.v[key->shape];
    struct placement at = w->claim;

    if (book->target.v[key->job] == 0 || cannot_start(book, key->job)) {
        if (w->claim.len > 0)
            plan_add(plan, ACTION_UNCLAIM, key->job, NULL, 0);
        return;
    }
    if (!keep_claim(book, w, key->job)) {
        if (shape->failed_held)
            return;
        at = (struct placement){book->slots.v, place_at_most(book, key->job, book->target.v[key->job])};
    }
    if (at.len == 0) {
        shape->failed_held = true;
        shape->reason = why_not(book, shape);
        return;
    }
    at.v = plan_add(plan, ACTION_START, key->job, at.v, at.len)->slots;
    space_use(&book->space, &w->demand, at, 1);
}

/* With all that has not gone yet in the space again: is there still room for these slots? */
static bool is_empty_now(const struct book *book, const struct action *action)
{
    for (uint32_t i = 0; i < action->slot_count; i++) {
        const struct space_node *node = &book->space.nodes[action->slots[i].node];
        const struct resources *each = &book_job(book, action->job)->demand.each;

        if ((each->cpu_milli > 0 && node->free.cpu_milli < 0) ||
            (each->mem_mib > 0 && node->free.mem_mib < 0))
            return false;
        if (action->slots[i].card != SLOT_CPU) {
            const struct card *card = &book->space.cards[node->card0 + action->slots[i].card];

            if (card->used > card->total ||
                (book->policy->is.guests && card->used > (int32_t)action->slots[i].mib))
                return false;
        }
    }
    return true;
}

/* Says of every stop for whom it is: a job that is going to be on one of its nodes. */
static void name_takers(struct book *book, struct plan *plan)
{
    CLEANUP(free) uint32_t *taker = mem_alloc(sizeof(*taker) * (book->space.node_count + 1));

    memset(taker, 0xff, sizeof(*taker) * (book->space.node_count + 1));
    VEC_EACH(&plan->actions, action)
        for (uint32_t i = 0; action->type == ACTION_CLAIM && i < action->slot_count; i++)
            if (taker[action->slots[i].node] == SCHED_NONE)
                taker[action->slots[i].node] = action->job;
    VEC_EACH(&plan->actions, action) {
        struct placement at = book_job(book, action->job)->placement;

        if (action->type != ACTION_PREEMPT && action->type != ACTION_RESIZE)
            continue;
        for (uint32_t i = 0; i < at.len && action->by == SCHED_NONE; i++)
            action->by = taker[at.v[i].node];
        if (action->by != SCHED_NONE)
            action->by_ordinal = book->jobs.v[action->by].ordinal;
    }
}

/* A claim that is there already needs no action. */
static void drop_known_claims(const struct book *book, struct plan *plan)
{
    size_t to = 0;

    VEC_EACH(&plan->actions, action) {
        struct placement old = book_job(book, action->job)->claim;

        if (action->type != ACTION_CLAIM || old.len != action->slot_count ||
            memcmp(old.v, action->slots, sizeof(*old.v) * old.len) != 0)
            plan->actions.v[to++] = *action;
    }
    plan->actions.len = to;
}

void decide_by_target(struct book *book, struct plan *plan)
{
    book_survey(book);
    leaving_use(book, -1);
    keep_places(book, plan);
    VEC_EACH(&book->waiting, key)
        if (key->special && workload_resizing(book_job(book, key->job)))
            place_waiting(book, key, plan);
    changed_use(book, -1);
    VEC_EACH(&book->running, key)
        if (changes(book, book_job(book, key->job), key->job))
            place_running(book, key, plan);
    VEC_EACH(&book->waiting, key)
        if ((book->target.v[key->job] > 0 || key->special) && !workload_resizing(book_job(book, key->job)))
            place_waiting(book, key, plan);
    leaving_use(book, 1);
    VEC_EACH(&plan->actions, action)
        if (action->type == ACTION_PREEMPT || action->type == ACTION_RESIZE) {
            const struct workload *w = book_job(book, action->job);

            space_use(&book->space, &w->demand, w->placement, 1);
        }
    VEC_EACH(&plan->actions, action)
        if (action->type == ACTION_START && !is_empty_now(book, action))
            action->type = ACTION_CLAIM;
    if (book->policy->is.guests)
        guests_place(book, plan);
    name_takers(book, plan);
    drop_known_claims(book, plan);
}
