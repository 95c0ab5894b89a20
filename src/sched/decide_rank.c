/* Deciding by rank: jobs are tried in the order of the queue. One that fits starts. One that does not gets a
 * claim on what is being freed, or lets those it outranks make room, or waits. Claims are made anew in each
 * pass, so that what becomes free goes to the first in the order that can use it, whatever it had a claim on.
 *
 * Jobs behind one that waits may start meanwhile (backfill), but not on the cards held for the first that
 * waits, unless they will be done by then or it could displace them. A job of several GPUs that has come to
 * the head of the queue stays there: workload.bound_ms, until when its cards are held, and what comes later
 * may use them only if done by then.
 *
 * Free space only shrinks during a pass, so what did not fit once is not tried again for jobs of the same
 * shape. */
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

/* Whether a node has cards for one unit, whatever else it lacks. */
static bool has_cards(const struct shape *shape, const struct space_node *node, uint32_t unit)
{
    if (unit == 0)
        return true;
    return demand_whole(&shape->demand) ? node->whole >= unit : node->max_free >= (int32_t)shape->demand.mib;
}

/* Which of two nodes comes nearer to what is asked for. */
static bool is_nearer(struct resources need, struct resources a, struct resources b)
{
    bool cpu_a = need.cpu_milli <= a.cpu_milli, cpu_b = need.cpu_milli <= b.cpu_milli;

    if (cpu_a != cpu_b)
        return cpu_a;
    return cpu_a ? a.mem_mib > b.mem_mib : a.cpu_milli > b.cpu_milli;
}

static enum wait_reason why_busy(const struct book *book, struct shape *shape, uint32_t unit)
{
    shape->free_gpus = 0;
    shape->node = SCHED_NONE;
    for (uint32_t n = 0; n < book->space.node_count; n++) {
        const struct space_node *node = &book->space.nodes[n];

        if (!book->sets.v[shape->nodes].may[n] || node->closed)
            continue;
        shape->free_gpus += node->whole;
        if (has_cards(shape, node, unit) && !resources_fit(shape->demand.each, node->free) &&
            (shape->node == SCHED_NONE || is_nearer(shape->demand.each, node->free, shape->free))) {
            shape->node = n;
            shape->free = node->free;
        }
    }
    if (shape->node != SCHED_NONE || unit == 0)
        return WAIT_CPU;
    if (!demand_whole(&shape->demand))
        return WAIT_SHARE;
    return shape->free_gpus >= shape->demand.min_gpus ? WAIT_FRAGMENTED : WAIT_GPUS;
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

enum wait_reason why_not(const struct book *book, struct shape *shape)
{
    return shape->never != WAIT_REASONS ? shape->never : why_busy(book, shape, unit_of(&shape->demand));
}

bool wait_is_never(enum wait_reason reason)
{
    return reason == WAIT_NO_NODE || reason == WAIT_NO_CARD || reason == WAIT_NO_LABEL;
}

/* ---- holding cards for the first that waits ---- */

static void end_at(const struct book *book, struct placement at, int64_t end, int64_t *ends)
{
    for (uint32_t i = 0; i < at.len; i++) {
        int64_t *card;

        if (at.v[i].node >= book->space.node_count || at.v[i].card >= book->space.nodes[at.v[i].node].cards)
            continue;
        card = ends + book->space.nodes[at.v[i].node].card0 + at.v[i].card;
        *card = end > *card ? end : *card;
    }
}

/* When each card is expected to be free: of those that run, those that start now, and those that are kept
 * for others. */
static int64_t *card_ends(const struct book *book, const struct plan *plan)
{
    int64_t *ends = mem_zalloc(sizeof(*ends) * (book->space.card_count + 1));

    VEC_EACH(&book->running, key)
        end_at(book, book_job(book, key->job)->placement, book_end_ms(book, key->job), ends);
    VEC_EACH(&plan->actions, action)
        if (action->type == ACTION_START)
            end_at(book, (struct placement){action->slots, action->slot_count},
                   book->now + book_rest_ms(book, action->job, action->slot_count), ends);
    for (uint32_t c = 0; c < book->space.card_count; c++)
        if (book->space.cards[c].claimed > 0 || book->space.cards[c].total == 0)
            ends[c] = INT64_MAX;
    return ends;
}

/* Whether a node has a unit's cards free before then; the quick look before node_ready(). */
static bool is_sooner(const struct book *book, uint32_t unit, uint32_t n, int64_t then, const int64_t *ends)
{
    const struct space_node *node = &book->space.nodes[n];
    uint32_t sooner = 0;

    for (uint32_t c = node->card0; c < node->card0 + node->cards; c++)
        sooner += ends[c] < then;
    return sooner >= unit;
}

/* Units of a placement that are on that node. */
static int64_t units_on(const struct demand *d, struct placement at, uint32_t n)
{
    uint32_t unit = d->max_gpus == 0 ? 1 : unit_of(d);
    int64_t slots = 0;

    for (uint32_t i = 0; i < at.len; i++)
        slots += at.v[i].node == n;
    return unit ? slots / unit : slots;
}

/* Whether a node has CPU and memory for so many units once all that is expected to end by then has gone. */
static bool has_resources_by(const struct book *book, const struct shape *shape, uint32_t n, uint32_t units,
                             int64_t then)
{
    struct resources need = resources_add((struct resources){0, 0}, shape->demand.each, units),
                     have = book->space.nodes[n].free;

    if (resources_fit(need, have))
        return true;
    VEC_EACH(&book->running, key) {
        const struct workload *w = book_job(book, key->job);

        if (book_end_ms(book, key->job) <= then)
            have = resources_add(have, w->demand.each, units_on(&w->demand, w->placement, n));
    }
    return resources_fit(need, have);
}

/* The cards of a node that suit the shape, those that are free first before the others, as far as they are
 * needed for `left` units. Returns when the last of them is free; INT64_MAX: the node will not do. */
static int64_t node_ready(const struct book *book, const struct shape *shape, uint32_t n, uint32_t left,
                          const int64_t *ends, struct slot *ret, uint32_t *len)
{
    const struct space_node *node = &book->space.nodes[n];
    const struct card *cards = &book->space.cards[node->card0];
    uint32_t unit = unit_of(&shape->demand), count = 0, units;
    bool whole = demand_whole(&shape->demand);
    int64_t ready;

    if (!book->sets.v[shape->nodes].may[n] || node->closed || !ever_on(book, shape, n, unit))
        return INT64_MAX;
    for (uint32_t c = 0; c < node->cards; c++) {
        int64_t end = ends[node->card0 + c];
        uint32_t at = count;

        if (cards[c].total < (int32_t)shape->demand.mib || end == INT64_MAX)
            continue;
        for (; at > 0 && ends[node->card0 + ret[at - 1].card] > end; at--)
            ret[at] = ret[at - 1];
        ret[at] = (struct slot){n, c, whole ? (uint32_t)cards[c].total : shape->demand.mib};
        count++;
    }
    units = unit ? count / unit : 0;
    *len = (units < left ? units : left) * unit;
    if (*len == 0)
        return INT64_MAX;
    ready = ends[node->card0 + ret[*len - 1].card];
    /* Cards that would be idle until CPU or memory is there are not held. */
    return has_resources_by(book, shape, n, *len / unit, ready > book->now ? ready : book->now) ? ready
                                                                                                : INT64_MAX;
}

static bool is_held(const struct book *book, uint32_t node)
{
    VEC_EACH(&book->held, slot)
        if (slot->node == node)
            return true;
    return false;
}

void hold_use(struct book *book, int times)
{
    book_space_claim(book, &book->held_demand, (struct placement){book->held.v, (uint32_t)book->held.len},
                     times);
}

/* CPU and memory are held only where they are free beside the cards: what runs there may still have them. */
static void hold_resources(struct book *book)
{
    uint32_t unit = unit_of(&book->held_demand), node = SCHED_NONE;
    int64_t units = 0;

    for (size_t i = 0; i < book->held.len; i += unit) {
        units = book->held.v[i].node == node ? units + 1 : 1;
        node = book->held.v[i].node;
        if (resources_times(book->held_demand.each, book->space.nodes[node].free, units) < units)
            book->held_demand.each = (struct resources){0, 0};
    }
}

/* Keeps cards for held_for, where it will fit soonest. */
static void hold_for(struct book *book, const struct plan *plan)
{
    const struct shape *shape = &book->shapes.v[book->held_for.shape];
    uint32_t unit = unit_of(&shape->demand);
    CLEANUP(free) int64_t *ends = card_ends(book, plan);

    book->hold_known = true;
    book->held_demand = shape->demand;
    book->fits_ms = book->now;
    for (uint32_t left = demand_units(&shape->demand, shape->demand.min_gpus); left > 0;) {
        struct slot best[NODE_GPUS_MAX], slots[NODE_GPUS_MAX];
        uint32_t best_len = 0, len;
        int64_t first = INT64_MAX;

        for (uint32_t n = 0; n < book->space.node_count; n++) {
            int64_t ready;

            if (!is_sooner(book, unit, n, first, ends) || is_held(book, n))
                continue;
            ready = node_ready(book, shape, n, left, ends, slots, &len);
            if (ready < first) {
                first = ready;
                best_len = len;
                memcpy(best, slots, sizeof(*slots) * len);
            }
        }
        if (first == INT64_MAX) { /* not as things are: nothing is held in vain */
            book->held.len = 0;
            book->fits_ms = INT64_MAX;
            break;
        }
        for (uint32_t i = 0; i < best_len; i++)
            vec_push(&book->held, best[i]);
        left -= best_len / unit;
        book->fits_ms = first > book->fits_ms ? first : book->fits_ms;
    }
    book->held_until = book->fits_ms;
    if (book_job(book, book->held_for.job)->bound_ms > book->held_until)
        book->held_until = book_job(book, book->held_for.job)->bound_ms;
    hold_resources(book);
    hold_use(book, 1);
}

/* A job behind may use what is held when it will be done by then, or would have to go. Not the latter where a
 * time is bound: as others end, its ordinal becomes smaller, and it would not have to go any more. */
static bool may_use_held(const struct book *book, const struct key *key)
{
    const struct workload *w = book_job(book, key->job);

    if (w->demand.max_gpus == 0)
        return true;
    if (book_job(book, book->held_for.job)->bound_ms == 0 &&
        book->view->options.preemption == PREEMPTION_AUTO && book->policy->outranks && !w->keep &&
        w->resumable && book->policy->outranks(book, &book->held_for, key))
        return true;
    return book->now + book_rest_ms(book, key->job, w->demand.min_gpus) <= book->held_until;
}

/* ---- the pass ---- */

static void start(struct book *book, uint32_t job, uint32_t len, struct plan *plan)
{
    struct action *action = plan_add(plan, ACTION_START, job, book->slots.v, len);

    book_space_use(book, &book_job(book, job)->demand, (struct placement){action->slots, len}, 1);
}

static bool is_large(const struct demand *d)
{
    return d->min_gpus > 1 && demand_whole(d);
}

/* Whether it comes before the one that cards are held for, but for that, or its owner asked, as the other's
 * did not. What it may displace it may displace there, too, and it gets the place it made so. */
static bool is_before_held(const struct book *book, const struct key *key)
{
    return book->policy->outranks &&
           ((book_job(book, key->job)->asked && !book_job(book, book->held_for.job)->asked) ||
            book->policy->outranks(book, key, &book->held_for));
}

static void set_reason(struct book *book, const struct key *key, bool held, const struct plan *plan)
{
    struct shape *shape = &book->shapes.v[key->shape];
    uint32_t pod;

    shape->reason = held ? WAIT_HELD : why_not(book, shape);
    shape->about = held ? book->held_for.job : SCHED_NONE;
    if (held || wait_is_never(shape->reason) || shape->demand.max_gpus == 0)
        return;
    if (shape->reason == WAIT_GPUS && book->victims_known && book->victims.len == 0 &&
        book->running.len > 0 && book->policy->outranks(book, key, &book->running.v[book->running.len - 1]))
        shape->reason = WAIT_PROTECTED;
    hold_use(book, -1);
    pod = would_take(book, key, plan);
    hold_use(book, 1);
    if (pod != SCHED_NONE) {
        shape->reason = WAIT_ASK;
        shape->about = pod;
    }
}

/* Whether a node that it could use has too little CPU or memory now. */
static bool lacks_resources(const struct book *book, const struct shape *shape)
{
    for (uint32_t n = 0; n < book->space.node_count; n++)
        if (book->sets.v[shape->nodes].may[n] && !book->space.nodes[n].closed &&
            !resources_fit(shape->demand.each, book->space.nodes[n].free))
            return true;
    return false;
}

static void fail(struct book *book, const struct key *key, bool held, const struct plan *plan)
{
    struct shape *shape = &book->shapes.v[key->shape];

    if (book_job(book, key->job)->refused) /* nobody makes room for it, but others of its shape may ask */
        return;
    book->open -= !held;
    shape->failed_held = true;
    shape->failed = !held;
    shape->reason = shape->never;
    if (book->explains)
        set_reason(book, key, held, plan);
    if (held || book->held_for.job != SCHED_NONE || shape->demand.max_gpus == 0 ||
        shape->never != WAIT_REASONS)
        return;
    book->held_for = *key;
    if (lacks_resources(book, shape)) {
        hold_for(book, plan);
        if (book->held.len == 0) { /* cards are not what it waits for: the next one may hold some */
            book->held_for.job = SCHED_NONE;
            book->hold_known = false;
            return;
        }
    }
    if (book->policy->reserves && is_large(&shape->demand) && book->claims == 0)
        book->head = key->job;
}

/* What is held is found out when it matters: most often nobody behind could start anyway. */
static bool hold_ready(struct book *book, const struct plan *plan)
{
    if (book->held_for.job == SCHED_NONE || book->hold_known)
        return false;
    hold_for(book, plan);
    return true;
}

static bool start_on_claim(struct book *book, const struct key *key, struct plan *plan)
{
    const struct workload *w = book_job(book, key->job);

    if (w->claim.len == 0 || w->claim.len > book->space.card_count ||
        !space_fits(&book->space, &w->demand, w->claim))
        return false;
    memcpy(book->slots.v, w->claim.v, sizeof(*w->claim.v) * w->claim.len);
    start(book, key->job, w->claim.len, plan);
    return true;
}

/* With what is held, as if it were not: whether it is served, and if not, whether that is because of it. */
static bool try_held(struct book *book, const struct key *key, const struct query *query, struct plan *plan,
                     bool *fits)
{
    bool may = may_use_held(book, key), before = is_before_held(book, key), served = false;

    hold_use(book, -1);
    *fits = space_place(&book->space, query, book->slots.v);
    if (*fits && may) {
        start(book, key->job, query_slots(query), plan);
        served = true;
    } else {
        served = before && start_on_claim(book, key, plan);
    }
    if (!served && (may || before))
        served = claim_leaving(book, key, !may, plan) || displace(book, key, plan);
    *fits = *fits || (!served && book->soon_known && space_place(&book->soon, query, book->slots.v));
    hold_use(book, 1);
    return served;
}

/* What is free and not held only becomes less in a pass: what did not fit is not tried again. */
static bool place_free(struct book *book, struct shape *shape, const struct query *query)
{
    shape->full = shape->full || !space_place(&book->space, query, book->slots.v);
    return !shape->full;
}

static void try_job(struct book *book, const struct key *key, struct plan *plan)
{
    struct shape *shape = &book->shapes.v[key->shape];
    struct query query = book_query(book, key->job, shape->demand.min_gpus);
    bool held = false;

    if (!shape->failed_held) {
        bool fits = place_free(book, shape, &query);

        if ((fits || book->has_leaving || book->soon_known || may_displace(book, key)) &&
            hold_ready(book, plan) && fits)
            fits = place_free(book, shape, &query);
        if (fits) {
            start(book, key->job, query_slots(&query), plan);
            return;
        }
        if (claim_leaving(book, key, false, plan) || displace(book, key, plan))
            return;
    }
    if (book->held.len > 0 && try_held(book, key, &query, plan, &held))
        return;
    fail(book, key, held, plan);
}

static void unclaim(struct book *book, const struct key *key, struct plan *plan)
{
    if (book_job(book, key->job)->claim.len == 0)
        return;
    VEC_EACH(&book->unclaimed, gone)
        if (*gone == key->job)
            return;
    plan_add(plan, ACTION_UNCLAIM, key->job, NULL, 0);
    vec_push(&book->unclaimed, key->job);
}

/* A job that was resized goes on where it was told, as soon as all of that is empty. */
static void try_place(struct book *book, const struct key *key, struct plan *plan)
{
    const struct workload *w = book_job(book, key->job);

    book_space_claim(book, &w->demand, w->claim, -1);
    hold_use(book, -1);
    if (!start_on_claim(book, key, plan)) {
        book_space_claim(book, &w->demand, w->claim, 1);
        book->claims++;
    }
    hold_use(book, 1);
}

/* Whether the plan, from `from` on, starts it or keeps a place for it. */
static bool is_served(const struct book *book, const struct plan *plan, size_t from, uint32_t claims,
                      uint32_t job)
{
    for (size_t i = from; i < plan->actions.len; i++)
        if (plan->actions.v[i].job == job)
            return true;
    return book->claims != claims;
}

/* One whose owner asked, although others of its shape could not be served. */
static void displace_asked(struct book *book, const struct key *key, struct plan *plan)
{
    bool lifts = book->held.len > 0 && is_before_held(book, key);

    if (lifts)
        hold_use(book, -1);
    (void)(claim_leaving(book, key, lifts, plan) || displace(book, key, plan));
    if (lifts)
        hold_use(book, 1);
}

/* A job with a claim, one that is blocked or failed not long ago, or one whose owner asked. */
static void try_special(struct book *book, const struct key *key, struct plan *plan)
{
    size_t actions = plan->actions.len;
    uint32_t claims = book->claims;

    if (cannot_start(book, key->job)) {
        unclaim(book, key, plan);
        return;
    }
    if (has_place(book, key->job)) {
        try_place(book, key, plan);
        return;
    }
    if (!book->shapes.v[key->shape].failed)
        try_job(book, key, plan);
    else if (book_job(book, key->job)->asked)
        displace_asked(book, key, plan);
    if (!is_served(book, plan, actions, claims, key->job))
        unclaim(book, key, plan);
}

void decide_by_rank(struct book *book, struct plan *plan)
{
    CLEANUP(walk_done) struct walk walk = {.book = book};
    size_t specials = book->specials.len;
    const struct key *key;

    book_survey(book);
    order_ends(book);
    claims_restore(book, plan);
    while ((book->open > 0 || specials > 0) && (key = walk_next(&walk))) {
        if (key->special) {
            specials--;
            try_special(book, key, plan);
        } else if (!book->shapes.v[key->shape].failed) {
            try_job(book, key, plan);
        }
    }
    if (book->space.whole > 0 || (book->head != SCHED_NONE && book_job(book, book->head)->bound_ms == 0))
        (void)hold_ready(book, plan);
    size_grow(book, plan);
}
