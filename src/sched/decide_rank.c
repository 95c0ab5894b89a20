/* Deciding by rank: jobs are tried in the order of the queue. One that fits starts. One that does not lets
 * those it outranks make room, or waits; jobs behind it may start meanwhile (backfill), but not on the nodes
 * held for the first that waits, unless they will be done by then or it could displace them. Free space only
 * shrinks during a pass, so what did not fit once is not tried again for jobs of the same shape. */
#include "sched/book.h"

#include <stdlib.h>

void book_survey(struct book *book)
{
    book->has_extra = false;
    book->leaving.len = 0;
    VEC_EACH(&book->running, key) {
        const struct workload *w = book_job(book, key->job);

        if (w->phase == PHASE_STOPPING)
            vec_push(&book->leaving, key->job);
        book->has_extra |= w->placement.len > w->demand.min_gpus && demand_elastic(&w->demand);
    }
    book->has_leaving = book->leaving.len > 0;
    vec_reserve(&book->slots, book->space.card_count + 1);
}

/* ---- what keeps a shape from starting ---- */

static bool ever_on(const struct book *book, const struct shape *shape, uint32_t n, uint32_t gpus)
{
    const struct node *node = &book->view->cluster->nodes[n];
    uint32_t fit = 0;

    for (uint32_t g = 0; g < node->gpu_count; g++)
        fit += !node->gpus[g].failed && node->gpus[g].mem_mib >= shape->demand.mib;
    return fit >= gpus && resources_fit(shape->demand.each, node->capacity);
}

/* Units that an empty cluster holds. */
static uint64_t units_ever(const struct book *book, const struct shape *shape, uint32_t unit)
{
    uint64_t units = 0;

    for (uint32_t n = 0; n < book->space.node_count; n++)
        if (book->sets.v[shape->nodes].may[n] && ever_on(book, shape, n, unit))
            units += unit ? book->view->cluster->nodes[n].gpu_count / unit : 1;
    return units;
}

static enum wait_reason why_busy(const struct book *book, const struct shape *shape, uint32_t unit)
{
    bool whole = demand_whole(&shape->demand);
    uint32_t free_cards = 0;

    for (uint32_t n = 0; n < book->space.node_count; n++) {
        const struct space_node *node = &book->space.nodes[n];

        if (!book->sets.v[shape->nodes].may[n] || node->closed)
            continue;
        free_cards += node->whole;
        if (unit == 0 || (whole ? node->whole >= unit : node->max_free >= (int32_t)shape->demand.mib))
            if (!resources_fit(shape->demand.each, node->free))
                return WAIT_CPU;
    }
    if (unit == 0)
        return WAIT_CPU;
    if (!whole)
        return WAIT_SHARE;
    return free_cards >= shape->demand.min_gpus ? WAIT_FRAGMENTED : WAIT_GPUS;
}

static uint32_t unit_of(const struct demand *d)
{
    return d->unit_gpus && d->unit_gpus < d->min_gpus ? d->unit_gpus : d->min_gpus;
}

enum wait_reason why_never(const struct book *book, const struct shape *shape)
{
    const struct demand *d = &shape->demand;

    if (book->sets.v[shape->nodes].count == 0)
        return WAIT_NO_LABEL;
    if (d->mib > book->largest_card)
        return WAIT_NO_CARD;
    if (units_ever(book, shape, unit_of(d)) < demand_units(d, d->min_gpus))
        return WAIT_NO_NODE;
    return WAIT_REASONS;
}

enum wait_reason why_not(const struct book *book, const struct shape *shape)
{
    return shape->never != WAIT_REASONS ? shape->never : why_busy(book, shape, unit_of(&shape->demand));
}

bool wait_is_never(enum wait_reason reason)
{
    return reason == WAIT_NO_NODE || reason == WAIT_NO_CARD || reason == WAIT_NO_LABEL;
}

/* ---- holding nodes for the first that waits ---- */

/* When the last job of each card is expected to have gone. */
static int64_t *card_ends(const struct book *book)
{
    int64_t *ends = mem_zalloc(sizeof(*ends) * (book->space.card_count + 1));

    VEC_EACH(&book->running, key) {
        const struct workload *w = book_job(book, key->job);
        int64_t end = book_end_ms(book, key->job);

        for (uint32_t i = 0; i < w->placement.len; i++) {
            const struct slot *slot = &w->placement.v[i];
            int64_t *at;

            if (slot->node >= book->space.node_count || slot->card >= book->space.nodes[slot->node].cards)
                continue;
            at = ends + book->space.nodes[slot->node].card0 + slot->card;
            *at = end > *at ? end : *at;
        }
    }
    return ends;
}

/* When a node has room for as many of the `left` units as it can hold. */
static int64_t node_ready(const struct book *book, const struct shape *shape, uint32_t n, uint32_t left,
                          const int64_t *ends)
{
    int64_t sorted[NODE_GPUS_MAX];
    uint32_t count = book->space.nodes[n].cards, unit = unit_of(&shape->demand), need;

    if (unit > count || !book->sets.v[shape->nodes].may[n] || book->space.nodes[n].closed ||
        !ever_on(book, shape, n, unit))
        return INT64_MAX;
    for (uint32_t i = 0; i < count; i++) {
        int64_t end = ends[book->space.nodes[n].card0 + i];
        uint32_t at = i;

        for (; at > 0 && sorted[at - 1] > end; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = end;
    }
    need = unit ? (count / unit < left ? count / unit : left) * unit : 1;
    return count ? sorted[need - 1] : INT64_MAX;
}

void hold_for(struct book *book, const struct key *waiter)
{
    const struct shape *shape = &book->shapes.v[waiter->shape];
    const struct demand *d = &shape->demand;
    uint32_t unit = unit_of(d);
    CLEANUP(free) int64_t *ends = card_ends(book);

    book->held_for = *waiter;
    book->held_until = book->now;
    for (uint32_t left = demand_units(d, d->min_gpus); left > 0;) {
        int64_t first = INT64_MAX;
        uint32_t best = SCHED_NONE, units;

        for (uint32_t n = 0; n < book->space.node_count; n++) {
            int64_t ready = book->held[n] ? INT64_MAX : node_ready(book, shape, n, left, ends);

            if (ready < first) {
                first = ready;
                best = n;
            }
        }
        if (best == SCHED_NONE)
            return;
        units = unit ? book->space.nodes[best].cards / unit : left;
        left -= units < left ? units : left;
        book->held[best] = 1;
        book->held_until = first > book->held_until ? first : book->held_until;
    }
}

/* A job behind may use what is held when it will be done by then, or would have to go. */
static bool may_use_held(const struct book *book, const struct key *key)
{
    const struct workload *w = book_job(book, key->job);

    if (w->demand.max_gpus == 0)
        return true;
    if (book->view->options.preemption == PREEMPTION_AUTO && book->policy->outranks && !w->keep &&
        book->policy->outranks(book, &book->held_for, key))
        return true;
    return book->now + book_rest_ms(book, key->job, w->demand.min_gpus) <= book->held_until;
}

/* ---- the pass ---- */

static void start(struct book *book, uint32_t job, uint32_t len, struct plan *plan)
{
    struct action *action = plan_add(plan, ACTION_START, job, book->slots.v, len);

    book_space_use(book, &book_job(book, job)->demand, (struct placement){action->slots, len}, 1);
}

static void fail(struct book *book, const struct key *key, bool held)
{
    struct shape *shape = &book->shapes.v[key->shape];

    book->open -= !held;
    shape->failed_held = true;
    shape->failed = !held;
    shape->reason = held ? WAIT_HELD : why_not(book, shape);
    shape->about = held ? book->held_for.job : SCHED_NONE;
    if (shape->reason == WAIT_GPUS && book->victims_known && book->victims.len == 0 &&
        book->policy->outranks(book, key, &book->running.v[book->running.len - 1]))
        shape->reason = WAIT_PROTECTED;
    if (!held && book->held_for.job == SCHED_NONE && shape->demand.max_gpus > 0 &&
        !wait_is_never(shape->reason) &&
        (book->space.whole > 0 || shape->reason == WAIT_SHARE || shape->reason == WAIT_CPU))
        hold_for(book, key);
}

/* Starts where its claim is, or anywhere else that is free now. */
static bool start_claimed(struct book *book, const struct key *key, struct plan *plan)
{
    const struct workload *w = book_job(book, key->job);
    struct query query = book_query(book, key->job, w->demand.min_gpus);

    book_space_claim(book, &w->demand, w->claim, -1);
    if (space_fits(&book->space, &w->demand, w->claim)) {
        memcpy(book->slots.v, w->claim.v, sizeof(*w->claim.v) * w->claim.len);
        start(book, key->job, w->claim.len, plan);
        return true;
    }
    query.avoid = book->held_for.job != SCHED_NONE ? book->held : NULL;
    if (space_place(&book->space, &query, book->slots.v)) {
        start(book, key->job, query_slots(&query), plan);
        return true;
    }
    book_space_claim(book, &w->demand, w->claim, 1);
    return false;
}

static void try_job(struct book *book, const struct key *key, struct plan *plan)
{
    struct shape *shape = &book->shapes.v[key->shape];
    bool holding = book->held_for.job != SCHED_NONE;
    struct query query;

    if (shape->failed)
        return;
    query = book_query(book, key->job, shape->demand.min_gpus);
    query.avoid = holding && shape->demand.max_gpus ? book->held : NULL;
    if (!shape->failed_held && space_place(&book->space, &query, book->slots.v)) {
        start(book, key->job, query_slots(&query), plan);
        return;
    }
    if (query.avoid) {
        query.avoid = NULL;
        if (space_place(&book->space, &query, book->slots.v)) {
            if (may_use_held(book, key))
                start(book, key->job, query_slots(&query), plan);
            else
                fail(book, key, true);
            return;
        }
    }
    if (!displace(book, key, plan))
        fail(book, key, false);
}

/* A job with a claim, or one that failed not long ago. */
static void try_special(struct book *book, const struct key *key, struct plan *plan)
{
    if (cannot_start(book, key->job))
        return;
    if (has_claim(book, key->job))
        (void)start_claimed(book, key, plan);
    else if (!book->shapes.v[key->shape].failed)
        try_job(book, key, plan);
}

void decide_by_rank(struct book *book, struct plan *plan)
{
    uint32_t specials = book->specials;

    book_survey(book);
    claims_restore(book, plan);
    for (size_t i = 0; i < book->waiting.len && (book->open > 0 || specials > 0); i++) {
        const struct key *key = &book->waiting.v[i];

        if (key->special) {
            specials--;
            try_special(book, key, plan);
        } else if (!book->shapes.v[key->shape].failed) {
            try_job(book, key, plan);
        }
    }
    size_grow(book, plan);
}
