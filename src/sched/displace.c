/* Making room. Candidates are the running jobs from the end of the list on; within one rank, who loses the
 * least work comes first, and before all of them the extra GPUs of elastic jobs. They are taken away one
 * after the other, as if they had gone, until the waiting job fits; then those that turn out not to be needed
 * are spared. Nothing is freed by that: the waiting job has a claim on the place, and starts when it is
 * really empty. */
#include "sched/book.h"

#include <stdlib.h>

/* What a victim gives: all its slots, or those beyond its smallest size. */
static void victim_use(struct book *book, const struct victim *victim, int times)
{
    const struct workload *w = book_job(book, victim->key.job);
    struct placement at = w->placement;
    struct demand demand = w->demand;

    if (victim->shrink) {
        at.v += demand.min_gpus;
        at.len -= demand.min_gpus;
        if (demand.unit_gpus == 0)
            demand.each = (struct resources){0, 0};
    }
    space_use(&book->soon, &demand, at, times);
}

void leaving_use(struct book *book, int times)
{
    VEC_EACH(&book->leaving, job)
        space_use(&book->space, &book_job(book, *job)->demand, book_job(book, *job)->placement, times);
}

static bool claim_holds(const struct book *book, const struct workload *w)
{
    return w->claim.len > 0 && space_fits(&book->space, &w->demand, w->claim);
}

static void restore_one(struct book *book, const struct key *key, struct plan *plan)
{
    const struct workload *w = book_job(book, key->job);

    if (w->claim.len == 0 || w->phase == PHASE_RUNNING || w->phase == PHASE_STARTING)
        return;
    if (!w->blocked && claim_holds(book, w)) {
        space_claim(&book->space, &w->demand, w->claim, 1);
    } else {
        plan_add(plan, ACTION_UNCLAIM, key->job, NULL, 0);
        vec_push(&book->unclaimed, key->job);
    }
}

bool has_claim(const struct book *book, uint32_t job)
{
    VEC_EACH(&book->unclaimed, gone)
        if (*gone == job)
            return false;
    return book_job(book, job)->claim.len > 0;
}

void claims_restore(struct book *book, struct plan *plan)
{
    uint32_t specials = book->specials;

    book->unclaimed.len = 0;
    leaving_use(book, -1);
    VEC_EACH(&book->running, key)
        if (key->special)
            restore_one(book, key, plan);
    for (size_t i = 0; i < book->waiting.len && specials > 0; i++)
        if (book->waiting.v[i].special) {
            specials--;
            restore_one(book, &book->waiting.v[i], plan);
        }
    leaving_use(book, 1);
}

/* ---- candidates ---- */

static int victim_cmp(const void *va, const void *vb)
{
    const struct victim *a = va, *b = vb;

    if (a->shrink != b->shrink)
        return a->shrink ? -1 : 1;
    for (int i = 0; i < 2; i++)
        if (a->key.k[i] != b->key.k[i])
            return a->key.k[i] > b->key.k[i] ? -1 : 1;
    if (a->lost_gpu_ms != b->lost_gpu_ms)
        return a->lost_gpu_ms < b->lost_gpu_ms ? -1 : 1;
    for (int i = 2; i < 4; i++)
        if (a->key.k[i] != b->key.k[i])
            return a->key.k[i] > b->key.k[i] ? -1 : 1;
    return a->key.job > b->key.job ? -1 : 1;
}

/* The first waiting job that asks outranks the most: nobody else is a candidate in this pass. */
static void find_victims(struct book *book, const struct key *waiter)
{
    bool outranked = true;

    book->victims.len = 0;
    book->victims_known = true;
    for (size_t i = book->running.len; i-- > 0 && (outranked || book->has_extra);) {
        const struct key *key = &book->running.v[i];
        const struct workload *w = book_job(book, key->job);
        struct victim victim = {
            .key = *key, .lost_gpu_ms = workload_lost_gpu_ms(w, book->now), .asked = !w->resumable};

        outranked = outranked && book->policy->outranks(book, waiter, key);
        if (!may_stop_asked(book, key->job) || !space_exists(&book->space, w->placement))
            continue;
        if (outranked)
            vec_push(&book->victims, victim);
        victim.shrink = true;
        if (demand_elastic(&w->demand) && w->placement.len > w->demand.min_gpus)
            vec_push(&book->victims, victim);
    }
    if (book->victims.len > 1)
        qsort(book->victims.v, book->victims.len, sizeof(*book->victims.v), victim_cmp);
}

static bool victim_on(const struct book *book, const struct victim *victim, uint32_t node)
{
    struct placement at = book_job(book, victim->key.job)->placement;

    for (uint32_t i = 0; i < at.len; i++)
        if (at.v[i].node == node)
            return true;
    return false;
}

/* ---- one attempt ---- */

struct attempt {
    struct query query;
    struct slot *slots;
    uint32_t node; /* where it fits; SCHED_NONE: a gang over several */
    VEC(struct victim *) out;
};

static bool is_gang(const struct query *q)
{
    return q->demand->unit_gpus > 0 && q->gpus > q->demand->unit_gpus;
}

static bool fits(struct book *book, struct attempt *a)
{
    if (a->node == SCHED_NONE)
        return space_place(&book->soon, &a->query, a->slots);
    return space_place_on(&book->soon, &a->query, a->node, a->slots);
}

/* Whether it fits now that this victim has gone: only the victim's nodes have changed. */
static bool fits_after(struct book *book, struct attempt *a, const struct victim *victim)
{
    struct placement at = book_job(book, victim->key.job)->placement;

    if (is_gang(&a->query))
        return fits(book, a);
    for (uint32_t i = 0; i < at.len; i++) {
        if (i > 0 && at.v[i].node == at.v[i - 1].node)
            continue;
        a->node = at.v[i].node;
        if (fits(book, a))
            return true;
    }
    a->node = SCHED_NONE;
    return false;
}

/* A job stopped as a whole has no extra GPUs left to give, and the other way round. */
static bool already_out(const struct attempt *a, const struct victim *victim)
{
    VEC_EACH(&a->out, other)
        if ((*other)->key.job == victim->key.job)
            return true;
    return false;
}

/* Whether any of its cards is where the waiting job may be. */
static bool victim_helps(const struct placement *at, const uint8_t *nodes)
{
    for (uint32_t i = 0; i < at->len; i++)
        if (!nodes || nodes[at->v[i].node])
            return true;
    return false;
}

static bool gather(struct book *book, const struct key *waiter, struct attempt *a)
{
    VEC_EACH(&book->victims, victim) {
        const struct workload *w = book_job(book, victim->key.job);

        if (!victim->shrink && !book->policy->outranks(book, waiter, &victim->key))
            break;
        if (victim->taken || (victim->asked && !book_job(book, waiter->job)->asked) ||
            w->demand.max_gpus == 0 || !victim_helps(&w->placement, a->query.nodes))
            continue;
        if (demand_elastic(&w->demand) && already_out(a, victim)) {
            VEC_EACH(&a->out, other)
                if ((*other)->key.job == victim->key.job) {
                    victim_use(book, *other, 1);
                    *other = victim;
                }
        } else {
            vec_push(&a->out, victim);
        }
        victim_use(book, victim, -1);
        if (fits_after(book, a, victim))
            return true;
    }
    return false;
}

/* Puts back, best rank first, whom the job does not need gone. */
static void spare(struct book *book, struct attempt *a)
{
    size_t to = 0;

    for (size_t i = a->out.len; i-- > 0;) {
        struct victim *victim = a->out.v[i];

        victim_use(book, victim, 1);
        if ((a->node != SCHED_NONE && !victim_on(book, victim, a->node)) || fits(book, a))
            a->out.v[i] = NULL;
        else
            victim_use(book, victim, -1);
    }
    for (size_t i = 0; i < a->out.len; i++)
        if (a->out.v[i])
            a->out.v[to++] = a->out.v[i];
    a->out.len = to;
}

static void write_down(struct book *book, const struct key *waiter, struct attempt *a, struct plan *plan)
{
    VEC_EACH(&a->out, it) {
        const struct workload *w = book_job(book, (*it)->key.job);
        struct action *action;

        VEC_EACH(&book->victims, same)
            if (same->key.job == (*it)->key.job)
                same->taken = true;
        if ((*it)->shrink)
            action = plan_add(plan, ACTION_RESIZE, (*it)->key.job, w->placement.v, w->demand.min_gpus);
        else
            action = plan_add(plan, ACTION_PREEMPT, (*it)->key.job, NULL, 0);
        action->by = waiter->job;
        action->by_ordinal = book->jobs.v[waiter->job].ordinal;
        action->lost_gpu_ms = (*it)->lost_gpu_ms;
    }
    plan_add(plan, ACTION_CLAIM, waiter->job, a->slots, a->query.gpus);
}

static bool allowed(const struct book *book, const struct key *waiter)
{
    const struct workload *w = book_job(book, waiter->job);
    enum preemption rule = book->view->options.preemption;

    return book->policy->outranks && w->demand.max_gpus > 0 &&
           (rule == PREEMPTION_AUTO || (rule == PREEMPTION_ASK && w->asked));
}

/* Whether nobody at all would have to go for it: nobody is leaving, has extra GPUs or is outranked. */
static bool hopeless(const struct book *book, const struct key *waiter)
{
    if (book->running.len == 0)
        return true;
    if (book->victims_known)
        return book->victims.len == 0 && !book->has_leaving;
    return !book->policy->outranks(book, waiter, &book->running.v[book->running.len - 1]) &&
           !book->has_leaving && !book->has_extra;
}

static void look_ahead(struct book *book)
{
    book->soon_known = true;
    space_copy(&book->soon, &book->space);
    VEC_EACH(&book->leaving, job)
        space_use(&book->soon, &book_job(book, *job)->demand, book_job(book, *job)->placement, -1);
}

bool displace(struct book *book, const struct key *waiter, struct plan *plan)
{
    const struct workload *w = book_job(book, waiter->job);
    struct attempt a = {.query = book_query(book, waiter->job, w->demand.min_gpus), .node = SCHED_NONE};
    bool found;

    if (!allowed(book, waiter) || hopeless(book, waiter))
        return false;
    if (!book->victims_known)
        find_victims(book, waiter);
    if (!book->soon_known)
        look_ahead(book);
    a.slots = book->slots.v;
    found = space_place(&book->soon, &a.query, a.slots) || gather(book, waiter, &a);
    if (found) {
        spare(book, &a);
        (void)fits(book, &a);
        write_down(book, waiter, &a, plan);
        book_space_claim(book, &w->demand, (struct placement){a.slots, a.query.gpus}, 1);
    } else {
        VEC_EACH(&a.out, it)
            victim_use(book, *it, 1);
    }
    vec_done(&a.out);
    return found;
}
