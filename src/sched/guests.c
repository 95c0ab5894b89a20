/* Guests: a job that has to wait may run on the cards of another meanwhile, when their speeds add up to
 * clearly more than one. Whoever started first on a card is the host. A guest is not counted against the
 * GPUs; when it is its turn it gets cards of its own. A job that decides when everything is over has no
 * guests. */
#include "base/mem.h"
#include "sched/book.h"

#include <math.h>
#include <stdlib.h>

#define GUESTS_TRIED 32  /* waiting jobs looked at in one decision */
#define PAIR_SUM_MIN 1.6 /* speeds of both, relative to alone */

double pair_rate(const struct book *book, uint32_t a, uint32_t b)
{
    const struct sched_view *view = book->view;
    struct forecast room;

    if (view->pair)
        return view->pair(view->pair_of, book_job(book, a)->id, book_job(book, b)->id);
    return book_forecast(book, a, &room)->shared;
}

static int started_cmp(const void *va, const void *vb, void *of)
{
    const struct workload *jobs = of, *a = &jobs[*(const uint32_t *)va], *b = &jobs[*(const uint32_t *)vb];

    if (a->started_ms != b->started_ms)
        return a->started_ms < b->started_ms ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

void guests_find(struct book *book)
{
    CLEANUP(free) uint32_t *order = NULL, *owner = NULL;
    size_t len = 0;
    bool shares = false;

    vec_reserve(&book->role, book->jobs.len + 1);
    vec_reserve(&book->host, book->jobs.len + 1);
    memset(book->role.v, ROLE_PLAIN, book->jobs.len + 1);
    memset(book->host.v, 0xff, sizeof(*book->host.v) * (book->jobs.len + 1));
    VEC_EACH(&book->running, key)
        shares |= !demand_whole(&book_job(book, key->job)->demand);
    if (!shares)
        return;
    order = mem_alloc(sizeof(*order) * (book->running.len + 1));
    owner = mem_alloc(sizeof(*owner) * (book->space.card_count + 1));
    memset(owner, 0xff, sizeof(*owner) * (book->space.card_count + 1));
    VEC_EACH(&book->running, key)
        if (space_exists(&book->space, book_job(book, key->job)->placement))
            order[len++] = key->job;
    qsort_r(order, len, sizeof(*order), started_cmp, (void *)book->view->jobs);
    for (size_t i = 0; i < len; i++) {
        struct placement at = book_job(book, order[i])->placement;

        for (uint32_t k = 0; k < at.len; k++) {
            uint32_t *card;

            if (at.v[k].card == SLOT_CPU)
                continue;
            card = &owner[book->space.nodes[at.v[k].node].card0 + at.v[k].card];
            if (*card == SCHED_NONE) {
                *card = order[i];
            } else {
                book->role.v[order[i]] = ROLE_GUEST;
                book->host.v[order[i]] = *card;
            }
        }
    }
}

/* A host stays where it is, has no guest yet and may have one. */
static bool may_host(const struct book *book, uint32_t host, const uint8_t *taken)
{
    const struct workload *w = book_job(book, host);

    return w->phase == PHASE_RUNNING && !taken[host] && book->role.v[host] == ROLE_PLAIN &&
           book->target.v[host] == workload_gpus(w) && !demand_whole(&w->demand);
}

static uint32_t best_host(const struct book *book, uint32_t job, const uint8_t *taken)
{
    const struct demand *d = &book_job(book, job)->demand;
    uint32_t best = SCHED_NONE;
    double most = PAIR_SUM_MIN;

    VEC_EACH(&book->running, key) {
        const struct workload *w = book_job(book, key->job);
        double mine, theirs;
        bool fits = true;

        if (workload_gpus(w) != d->min_gpus || !may_host(book, key->job, taken) ||
            !space_exists(&book->space, w->placement))
            continue;
        for (uint32_t i = 0; i < w->placement.len && fits; i++) {
            const struct space_node *node = &book->space.nodes[w->placement.v[i].node];

            fits = card_free(&book->space.cards[node->card0 + w->placement.v[i].card]) >= (int32_t)d->mib;
        }
        if (!fits)
            continue;
        mine = pair_rate(book, job, key->job);
        theirs = pair_rate(book, key->job, job);
        if (mine > 0 && theirs > 0 && mine + theirs >= most) {
            most = mine + theirs;
            best = key->job;
        }
    }
    return best;
}

void guests_place(struct book *book, struct plan *plan)
{
    CLEANUP(free) uint8_t *taken = NULL;
    uint32_t tried = 0;
    bool hosts = false;

    VEC_EACH(&book->running, key)
        hosts |= !demand_whole(&book_job(book, key->job)->demand);
    if (!hosts)
        return;
    taken = mem_zalloc(book->jobs.len + 1);
    VEC_EACH(&book->running, key)
        if (book->host.v[key->job] != SCHED_NONE)
            taken[book->host.v[key->job]] = 1;
    VEC_EACH(&plan->actions, action)
        taken[action->job] = 1;
    VEC_EACH(&book->waiting, key) {
        const struct workload *w = book_job(book, key->job);
        struct placement at;
        uint32_t host;

        if (demand_whole(&w->demand) || book->target.v[key->job] > 0 || cannot_start(book, key->job) ||
            taken[key->job])
            continue;
        if (tried++ == GUESTS_TRIED)
            return;
        host = best_host(book, key->job, taken);
        if (host == SCHED_NONE)
            continue;
        at = book_job(book, host)->placement;
        memcpy(book->slots.v, at.v, sizeof(*at.v) * at.len);
        for (uint32_t i = 0; i < at.len; i++)
            book->slots.v[i].mib = w->demand.mib;
        at.v = plan_add(plan, ACTION_START, key->job, book->slots.v, at.len)->slots;
        space_use(&book->space, &w->demand, at, 1);
        taken[host] = 1;
    }
}
