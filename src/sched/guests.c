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

static bool is_earlier(const struct workload *a, const struct workload *b)
{
    return a->started_ms != b->started_ms ? a->started_ms < b->started_ms : a->id < b->id;
}

static uint32_t *owner_of(const struct book *book, uint32_t *owners, const struct slot *slot)
{
    return &owners[book->space.nodes[slot->node].card0 + slot->card];
}

/* Whoever started first on a card has it. */
static void find_owners(const struct book *book, uint32_t *owners)
{
    memset(owners, 0xff, sizeof(*owners) * (book->space.card_count + 1));
    VEC_EACH(&book->running, key) {
        const struct workload *w = book_job(book, key->job);

        for (uint32_t i = 0; i < w->placement.len && space_exists(&book->space, w->placement); i++) {
            uint32_t *owner =
                w->placement.v[i].card == SLOT_CPU ? NULL : owner_of(book, owners, &w->placement.v[i]);

            if (owner && (*owner == SCHED_NONE || is_earlier(w, book_job(book, *owner))))
                *owner = key->job;
        }
    }
}

void guests_find(struct book *book)
{
    CLEANUP(free) uint32_t *owners = NULL;
    bool shares = false;

    vec_reserve(&book->role, book->jobs.len + 1);
    vec_reserve(&book->host, book->jobs.len + 1);
    memset(book->role.v, ROLE_PLAIN, book->jobs.len + 1);
    memset(book->host.v, 0xff, sizeof(*book->host.v) * (book->jobs.len + 1));
    VEC_EACH(&book->running, key)
        shares |= !demand_whole(&book_job(book, key->job)->demand);
    if (!shares)
        return;
    owners = mem_alloc(sizeof(*owners) * (book->space.card_count + 1));
    find_owners(book, owners);
    VEC_EACH(&book->running, key) {
        struct placement at = book_job(book, key->job)->placement;

        for (uint32_t i = 0; i < at.len && space_exists(&book->space, at); i++) {
            uint32_t owner = at.v[i].card == SLOT_CPU ? key->job : *owner_of(book, owners, &at.v[i]);

            if (owner != key->job) {
                book->role.v[key->job] = ROLE_GUEST;
                book->host.v[key->job] = owner;
            }
        }
    }
}

/* One that may have a guest. */
struct host {
    uint32_t job, gpus;
    int32_t free;  /* MiB on each of its cards */
    double shared; /* its speed beside another, where nobody knows pairs */
};

typedef VEC(struct host) host_list; /* one type for the helpers below */

/* A host stays where it is, has no guest yet and may have one. */
static bool may_host(const struct book *book, uint32_t host, const uint8_t *taken)
{
    const struct workload *w = book_job(book, host);

    return w->phase == PHASE_RUNNING && !taken[host] && book->role.v[host] == ROLE_PLAIN &&
           book->target.v[host] == workload_gpus(w) && !demand_whole(&w->demand) &&
           space_exists(&book->space, w->placement);
}

static void find_hosts(struct book *book, const uint8_t *taken, host_list *list)
{
    VEC_EACH(&book->running, key) {
        struct placement at = book_job(book, key->job)->placement;
        struct host host = {.job = key->job, .gpus = at.len, .free = INT32_MAX};
        struct forecast room;

        if (!may_host(book, key->job, taken))
            continue;
        for (uint32_t i = 0; i < at.len; i++) {
            const struct space_node *node = &book->space.nodes[at.v[i].node];
            int32_t free = card_free(&book->space.cards[node->card0 + at.v[i].card]);

            host.free = free < host.free ? free : host.free;
        }
        if (!book->view->pair)
            host.shared = book_forecast(book, key->job, &room)->shared;
        vec_push(list, host);
    }
}

static struct host *best_host(const struct book *book, uint32_t job, const host_list *list)
{
    const struct demand *d = &book_job(book, job)->demand;
    struct host *best = NULL;
    struct forecast room;
    double most = PAIR_SUM_MIN, shared = book->view->pair ? 0 : book_forecast(book, job, &room)->shared;

    VEC_EACH(list, host) {
        double mine = shared, theirs = host->shared;

        if (host->gpus != d->min_gpus || host->free < (int32_t)d->mib)
            continue;
        if (book->view->pair) {
            mine = pair_rate(book, job, host->job);
            theirs = pair_rate(book, host->job, job);
        }
        if (mine > 0 && theirs > 0 && mine + theirs >= most) {
            most = mine + theirs;
            best = host;
        }
    }
    return best;
}

void guests_place(struct book *book, struct plan *plan)
{
    CLEANUP(free) uint8_t *taken = mem_zalloc(book->jobs.len + 1);
    host_list list = {0};
    uint32_t tried = 0;

    VEC_EACH(&book->running, key)
        if (book->host.v[key->job] != SCHED_NONE)
            taken[book->host.v[key->job]] = 1;
    VEC_EACH(&plan->actions, action)
        taken[action->job] = 1;
    find_hosts(book, taken, &list);
    for (size_t i = 0; i < book->waiting.len && list.len > 0 && tried < GUESTS_TRIED; i++) {
        uint32_t job = book->waiting.v[i].job;
        const struct workload *w = book_job(book, job);
        struct placement at;
        struct host *host;

        if (demand_whole(&w->demand) || book->target.v[job] > 0 || cannot_start(book, job) || taken[job])
            continue;
        tried++;
        host = best_host(book, job, &list);
        if (!host)
            continue;
        at = book_job(book, host->job)->placement;
        memcpy(book->slots.v, at.v, sizeof(*at.v) * at.len);
        for (uint32_t k = 0; k < at.len; k++)
            book->slots.v[k].mib = w->demand.mib;
        at.v = plan_add(plan, ACTION_START, job, book->slots.v, at.len)->slots;
        space_use(&book->space, &w->demand, at, 1);
        vec_remove(&list, (size_t)(host - list.v));
    }
    vec_done(&list);
}
