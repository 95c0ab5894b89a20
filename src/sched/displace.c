/* Making room. Candidates are the running jobs from the end of the list on; within one rank, who loses the
 * least work comes first, and before all of them the extra GPUs of elastic jobs. They are taken away one
 * after the other, as if they had gone, until the waiting job fits; then those that turn out not to be needed
 * are spared, and elastic jobs give no more than is needed. Nothing is freed by that: the waiting job has a
 * claim on the place, and starts when it is really empty.
 *
 * The claim of a job that is being resized is its own place, kept whatever comes. Claims of others are made
 * anew in each pass, in the order of the queue (decide_rank.c). */
#include "sched/book.h"

#include <stdlib.h>

static uint32_t unit_step(const struct demand *d)
{
    return d->unit_gpus ? d->unit_gpus : 1;
}

/* ---- what a victim gives ---- */

/* Where the waiting job would like to be. */
struct wish {
    const struct query *query;
    uint32_t node; /* SCHED_NONE: wherever the query may */
};

static bool wished(const struct wish *wish, uint32_t node)
{
    if (wish->node != SCHED_NONE)
        return node == wish->node;
    return !wish->query->nodes || wish->query->nodes[node];
}

/* Splits a placement into what an elastic job gives, `units` of it from the end on, those on wished nodes
 * first, and what it keeps. */
static void split(struct book *book, const struct victim *victim, const struct wish *wish)
{
    const struct workload *w = book_job(book, victim->key.job);
    uint32_t step = unit_step(&w->demand), left = victim->units * step;

    book->given.len = book->kept.len = 0;
    vec_reserve(&book->given, w->placement.len + 1);
    vec_reserve(&book->kept, w->placement.len + 1);
    book->kept.len = w->placement.len;
    memcpy(book->kept.v, w->placement.v, sizeof(*book->kept.v) * w->placement.len);
    for (int any = 0; any < 2; any++)
        for (size_t i = book->kept.len; left > 0 && i >= step; i -= step) {
            struct slot *unit = &book->kept.v[i - step];

            if (!any && !wished(wish, unit->node))
                continue;
            memcpy(&book->given.v[book->given.len], unit, sizeof(*unit) * step);
            book->given.len += step;
            left -= step;
            memmove(unit, unit + step, sizeof(*unit) * (book->kept.len - i));
            book->kept.len -= step;
        }
}

static void victim_use(struct book *book, const struct victim *victim, const struct wish *wish, int times)
{
    const struct workload *w = book_job(book, victim->key.job);
    struct demand demand = w->demand;

    if (!victim->shrink) {
        space_use(&book->soon, &demand, w->placement, times);
        return;
    }
    split(book, victim, wish);
    if (demand.unit_gpus == 0) /* one unit: it keeps its CPU and memory */
        demand.each = (struct resources){0, 0};
    space_use(&book->soon, &demand, (struct placement){book->given.v, (uint32_t)book->given.len}, times);
}

/* Units beyond its smallest size that are where they help. */
static uint32_t units_extra(const struct book *book, uint32_t job, const struct wish *wish)
{
    const struct workload *w = book_job(book, job);
    uint32_t step = unit_step(&w->demand), extra, here = 0;

    if (!demand_elastic(&w->demand) || w->placement.len <= w->demand.min_gpus)
        return 0;
    extra = (w->placement.len - w->demand.min_gpus) / step;
    for (uint32_t i = 0; i + step <= w->placement.len; i += step)
        here += wished(wish, w->placement.v[i].node);
    return here < extra ? here : extra;
}

/* ---- claims of those that are being resized ---- */

void leaving_use(struct book *book, int times)
{
    VEC_EACH(&book->leaving, job)
        space_use(&book->space, &book_job(book, *job)->demand, book_job(book, *job)->placement, times);
}

static void restore_one(struct book *book, uint32_t job, struct plan *plan)
{
    const struct workload *w = book_job(book, job);

    if (!w->blocked && space_fits(&book->space, &w->demand, w->claim)) {
        space_claim(&book->space, &w->demand, w->claim, 1);
    } else {
        plan_add(plan, ACTION_UNCLAIM, job, NULL, 0);
        vec_push(&book->unclaimed, job);
    }
}

bool has_claim(const struct book *book, uint32_t job)
{
    VEC_EACH(&book->unclaimed, gone)
        if (*gone == job)
            return false;
    return book_job(book, job)->claim.len > 0;
}

bool has_place(const struct book *book, uint32_t job)
{
    return workload_resizing(book_job(book, job)) && has_claim(book, job);
}

static int order_cmp(const void *va, const void *vb, void *of)
{
    const struct book *book = of;
    uint32_t a = *(const uint32_t *)va, b = *(const uint32_t *)vb;
    struct key x = {.job = a}, y = {.job = b};

    memcpy(x.k, book->jobs.v[a].k, sizeof(x.k));
    memcpy(y.k, book->jobs.v[b].k, sizeof(y.k));
    return key_cmp(book, &x, &y);
}

/* Those that still run, then those that have stopped, each in order: most often there are none. */
void claims_restore(struct book *book, struct plan *plan)
{
    VEC(uint32_t) jobs = {0};
    size_t stopping;

    VEC_EACH(&book->leaving, job)
        if (workload_resizing(book_job(book, *job)))
            vec_push(&jobs, *job);
    stopping = jobs.len;
    VEC_EACH(&book->specials, job)
        if (workload_resizing(book_job(book, *job)))
            vec_push(&jobs, *job);
    if (jobs.len > stopping + 1)
        qsort_r(jobs.v + stopping, jobs.len - stopping, sizeof(*jobs.v), order_cmp, book);
    if (jobs.len > 0) {
        leaving_use(book, -1);
        VEC_EACH(&jobs, job)
            restore_one(book, *job, plan);
        leaving_use(book, 1);
    }
    vec_done(&jobs);
}

/* ---- candidates ---- */

/* Within one rank: who loses the least. */
static int victim_cmp(const void *va, const void *vb)
{
    const struct victim *a = va, *b = vb;

    if (a->lost_gpu_ms != b->lost_gpu_ms)
        return a->lost_gpu_ms < b->lost_gpu_ms ? -1 : 1;
    for (int i = 2; i < 4; i++)
        if (a->key.k[i] != b->key.k[i])
            return a->key.k[i] > b->key.k[i] ? -1 : 1;
    return a->key.job > b->key.job ? -1 : 1;
}

static bool same_rank(const struct victim *a, const struct victim *b)
{
    return a->shrink == b->shrink && a->key.k[0] == b->key.k[0] && a->key.k[1] == b->key.k[1];
}

/* They stand by rank already, as running jobs do. */
static void victims_sort(struct book *book)
{
    struct victim *v = book->victims.v;

    for (size_t i = 0, k; i < book->victims.len; i = k) {
        for (k = i + 1; k < book->victims.len && same_rank(&v[i], &v[k]); k++)
            ;
        if (k > i + 1)
            qsort(&v[i], k - i, sizeof(*v), victim_cmp);
    }
}

static bool is_asked(const struct plan *plan, uint32_t job)
{
    VEC_EACH(&plan->actions, action)
        if (action->job == job && (action->type == ACTION_PREEMPT || action->type == ACTION_RESIZE))
            return true;
    return false;
}

/* The first waiting job that asks outranks the most, unless it is only kept at the head: those that come
 * after it need no other candidates. */
static bool victims_serve(const struct book *book, const struct key *waiter)
{
    return book->victims_known &&
           book->jobs.v[waiter->job].ordinal >= book->jobs.v[book->victims_for.job].ordinal;
}

static void add_victim(struct book *book, const struct key *key, const struct plan *plan, bool shrink)
{
    const struct workload *w = book_job(book, key->job);

    if (!may_stop_asked(book, key->job) || !space_exists(&book->space, w->placement))
        return;
    vec_push(&book->victims, (struct victim){.key = *key,
                                             .lost_gpu_ms = workload_lost_gpu_ms(w, book->now),
                                             .asked = !w->resumable,
                                             .taken = is_asked(plan, key->job),
                                             .shrink = shrink});
    book->victims_asked |= !w->resumable && !shrink;
}

static void find_victims(struct book *book, const struct key *waiter, const struct plan *plan)
{
    book->victims.len = 0;
    book->victims_for = *waiter;
    book->victims_known = true;
    book->victims_asked = false;
    for (size_t i = book->running.len; i-- > 0 && book->has_extra;) {
        const struct workload *w = book_job(book, book->running.v[i].job);

        if (demand_elastic(&w->demand) && w->placement.len > w->demand.min_gpus)
            add_victim(book, &book->running.v[i], plan, true);
    }
    for (size_t i = book->running.len; i-- > 0;)
        if (book->policy->outranks(book, waiter, &book->running.v[i]))
            add_victim(book, &book->running.v[i], plan, false);
    victims_sort(book);
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
    bool asked;    /* its owner asked: also those that cannot resume */
    VEC(struct victim *) out;
};

static struct wish wish_of(const struct attempt *a)
{
    return (struct wish){&a->query, a->node};
}

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

/* Whether any of its cards is where the waiting job may be. */
static bool victim_helps(const struct placement *at, const struct wish *wish)
{
    for (uint32_t i = 0; i < at->len; i++)
        if (wished(wish, at->v[i].node))
            return true;
    return false;
}

/* A job stopped as a whole has no extra GPUs left to give: it takes the place of those. */
static void add_out(struct book *book, struct attempt *a, struct victim *victim, const struct wish *wish)
{
    VEC_EACH(&a->out, other)
        if ((*other)->key.job == victim->key.job) {
            victim_use(book, *other, wish, 1);
            *other = victim;
            return;
        }
    vec_push(&a->out, victim);
}

static bool gather(struct book *book, const struct key *waiter, struct attempt *a)
{
    struct wish wish = wish_of(a);

    VEC_EACH(&book->victims, victim) {
        const struct workload *w = book_job(book, victim->key.job);

        if (!victim->shrink && !book->policy->outranks(book, waiter, &victim->key))
            continue;
        if (victim->taken || (victim->asked && !a->asked) || w->demand.max_gpus == 0 ||
            !victim_helps(&w->placement, &wish))
            continue;
        victim->units = victim->shrink ? units_extra(book, victim->key.job, &wish) : 0;
        if (victim->shrink && victim->units == 0)
            continue;
        add_out(book, a, victim, &wish);
        victim_use(book, victim, &wish, -1);
        if (fits_after(book, a, victim))
            return true;
    }
    return false;
}

/* The least that an elastic job has to give, of what it gave as `wide` had it. */
static void give_least(struct book *book, struct attempt *a, struct victim *victim)
{
    struct wish wish = wish_of(a);
    uint32_t most = victim->units;

    for (victim->units = 1;; victim->units++) {
        victim_use(book, victim, &wish, -1);
        if (victim->units >= most || fits(book, a))
            return;
        victim_use(book, victim, &wish, 1);
    }
}

/* Puts back, best rank first, whom the job does not need gone. */
static void spare(struct book *book, struct attempt *a)
{
    const struct wish wide = {&a->query, SCHED_NONE};
    size_t to = 0;

    for (size_t i = a->out.len; i-- > 0;) {
        struct victim *victim = a->out.v[i];

        victim_use(book, victim, &wide, 1);
        if ((a->node != SCHED_NONE && !victim_on(book, victim, a->node)) || fits(book, a))
            a->out.v[i] = NULL;
        else if (victim->shrink)
            give_least(book, a, victim);
        else
            victim_use(book, victim, &wide, -1);
    }
    for (size_t i = 0; i < a->out.len; i++)
        if (a->out.v[i])
            a->out.v[to++] = a->out.v[i];
    a->out.len = to;
}

static void undo(struct book *book, struct attempt *a, const struct wish *wish)
{
    VEC_EACH(&a->out, it)
        victim_use(book, *it, wish, 1);
}

static void write_down(struct book *book, const struct key *waiter, struct attempt *a, struct plan *plan)
{
    struct wish wish = wish_of(a);

    VEC_EACH(&a->out, it) {
        struct action *action;

        VEC_EACH(&book->victims, same)
            if (same->key.job == (*it)->key.job)
                same->taken = true;
        if ((*it)->shrink) {
            split(book, *it, &wish);
            action = plan_add(plan, ACTION_RESIZE, (*it)->key.job, book->kept.v, (uint32_t)book->kept.len);
        } else {
            action = plan_add(plan, ACTION_PREEMPT, (*it)->key.job, NULL, 0);
        }
        action->by = waiter->job;
        action->by_ordinal = book->jobs.v[waiter->job].ordinal;
        action->lost_gpu_ms = (*it)->lost_gpu_ms;
    }
}

static bool allowed(const struct book *book, const struct key *waiter, bool asked)
{
    enum preemption rule = book->view->options.preemption;

    return book->policy->outranks && !book_job(book, waiter->job)->refused &&
           book_job(book, waiter->job)->demand.max_gpus > 0 &&
           (rule == PREEMPTION_AUTO || (rule == PREEMPTION_ASK && asked));
}

/* Whether nobody at all would have to go for it: nobody has extra GPUs or is outranked. */
static bool hopeless(const struct book *book, const struct key *waiter)
{
    if (book->running.len == 0)
        return true;
    if (victims_serve(book, waiter))
        return book->victims.len == 0;
    return false;
}

bool may_displace(const struct book *book, const struct key *waiter)
{
    return allowed(book, waiter, book_job(book, waiter->job)->asked) && !hopeless(book, waiter);
}

static void look_ahead(struct book *book)
{
    book->soon_known = true;
    space_copy(&book->soon, &book->space);
    VEC_EACH(&book->leaving, job)
        space_use(&book->soon, &book_job(book, *job)->demand, book_job(book, *job)->placement, -1);
}

/* Keeps the place for it; the claim it has already needs no action. */
static void claim(struct book *book, const struct key *waiter, struct placement at, struct plan *plan)
{
    const struct workload *w = book_job(book, waiter->job);

    book_space_claim(book, &w->demand, at, 1);
    if (w->claim.len != at.len || memcmp(w->claim.v, at.v, sizeof(*at.v) * at.len) != 0)
        plan_add(plan, ACTION_CLAIM, waiter->job, at.v, at.len);
    book->claims++;
}

bool claim_leaving(struct book *book, const struct key *waiter, bool own, struct plan *plan)
{
    const struct workload *w = book_job(book, waiter->job);
    struct query query = book_query(book, waiter->job, w->demand.min_gpus);

    if (!book->policy->outranks || w->demand.max_gpus == 0 || (!book->has_leaving && !book->soon_known))
        return false;
    if (!book->soon_known)
        look_ahead(book);
    if (w->claim.len == w->demand.min_gpus && space_fits(&book->soon, &w->demand, w->claim)) {
        claim(book, waiter, w->claim, plan);
        return true;
    }
    if (own || !space_place(&book->soon, &query, book->slots.v))
        return false;
    claim(book, waiter, (struct placement){book->slots.v, query.gpus}, plan);
    return true;
}

static struct attempt attempt_of(struct book *book, const struct key *waiter, const struct plan *plan)
{
    struct attempt a = {.query = book_query(book, waiter->job, book_job(book, waiter->job)->demand.min_gpus),
                        .slots = book->slots.v,
                        .node = SCHED_NONE};

    if (!victims_serve(book, waiter))
        find_victims(book, waiter, plan);
    if (!book->soon_known)
        look_ahead(book);
    return a;
}

bool displace(struct book *book, const struct key *waiter, struct plan *plan)
{
    struct attempt a;
    struct wish wish;
    bool found;

    if (!may_displace(book, waiter))
        return false;
    a = attempt_of(book, waiter, plan);
    a.asked = book_job(book, waiter->job)->asked;
    found = gather(book, waiter, &a);
    if (found) {
        spare(book, &a);
        (void)fits(book, &a);
        write_down(book, waiter, &a, plan);
        claim(book, waiter, (struct placement){a.slots, a.query.gpus}, plan);
    } else {
        wish = wish_of(&a);
        undo(book, &a, &wish);
    }
    vec_done(&a.out);
    return found;
}

uint32_t would_take(struct book *book, const struct key *waiter, const struct plan *plan)
{
    struct attempt a;
    struct wish wish;
    uint32_t taken = SCHED_NONE;

    if (book_job(book, waiter->job)->asked || !allowed(book, waiter, true) || hopeless(book, waiter) ||
        (victims_serve(book, waiter) && !book->victims_asked &&
         book->view->options.preemption == PREEMPTION_AUTO))
        return SCHED_NONE;
    a = attempt_of(book, waiter, plan);
    a.asked = true;
    if ((book->victims_asked || book->view->options.preemption == PREEMPTION_ASK) &&
        gather(book, waiter, &a)) {
        spare(book, &a);
        VEC_EACH(&a.out, it)
            if (taken == SCHED_NONE || !book_job(book, (*it)->key.job)->resumable)
                taken = (*it)->key.job;
    }
    wish = wish_of(&a);
    undo(book, &a, &wish);
    vec_done(&a.out);
    return taken;
}
