/* Each look reads all workloads and marks the cards: meant for clusters of a lab's size. */
#include "sim/promise.h"

#include "base/map.h"
#include "base/mem.h"

#define FIRST_GPU 1000 /* thousandths */
#define NOTICE_MS 1000 /* less is no wait */

enum card_state { CARD_FREE, CARD_LEAVING, CARD_TAKEN };

struct late {
    const char *user; /* of a job that waited too long; borrowed from live, which keeps them */
    int64_t ms;
};

struct promise {
    const struct live *live;
    const struct cluster *cluster;
    int64_t min_run_ms;
    struct late *late; /* per job */
    uint32_t jobs;
    uint32_t *card0; /* of each node */
    uint8_t *cards;  /* enum card_state */
    uint32_t card_count;
    VEC(uint64_t) waiting; /* who has no card coming, as of the last look */
    int64_t since_ms;      /* from when on that is too long; INT64_MAX: it is not */
};

struct promise *promise_new(const struct live *live, const struct cluster *cluster, uint32_t jobs,
                            int64_t min_run_ms)
{
    struct promise *p = NEW(struct promise);

    *p = (struct promise){
        .live = live, .cluster = cluster, .jobs = jobs, .min_run_ms = min_run_ms, .since_ms = INT64_MAX};
    p->late = mem_zalloc(sizeof(*p->late) * (jobs + 1));
    p->card0 = mem_zalloc(sizeof(*p->card0) * (cluster->node_count + 1));
    for (uint32_t n = 0; n < cluster->node_count; n++) {
        p->card0[n] = p->card_count;
        p->card_count += cluster->nodes[n].gpu_count;
    }
    p->cards = mem_zalloc(p->card_count + 1);
    return p;
}

void promise_free(struct promise *p)
{
    if (!p)
        return;
    free(p->late);
    free(p->card0);
    free(p->cards);
    vec_done(&p->waiting);
    free(p);
}

static bool is_first(const struct promise *p, const struct workload *w)
{
    return w->user && w->demand.max_gpus > 0 && live_ordinal(p->live, w->id) <= FIRST_GPU;
}

static void mark(const struct promise *p, struct placement at, enum card_state state)
{
    for (uint32_t i = 0; i < at.len; i++)
        if (at.v[i].card != SLOT_CPU && p->cards[p->card0[at.v[i].node] + at.v[i].card] < state)
            p->cards[p->card0[at.v[i].node] + at.v[i].card] = (uint8_t)state;
}

/* From when on a running job's later GPUs could go; INT64_MAX: it has none, or may not be stopped. */
static int64_t could_go(const struct promise *p, const struct workload *w)
{
    bool extra = demand_elastic(&w->demand) && w->placement.len > w->demand.min_gpus;

    if (w->phase != PHASE_RUNNING || w->keep || !w->resumable || workload_in_last_epoch(w) ||
        !demand_whole(&w->demand) || (is_first(p, w) && !extra))
        return INT64_MAX;
    return w->started_ms + p->min_run_ms;
}

/* Cards that are free or will be, and are not kept for a job that is not first. */
static uint32_t coming(const struct promise *p)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < p->card_count; i++)
        sum += p->cards[i] != CARD_TAKEN;
    return sum;
}

void promise_look(struct promise *p, int64_t now_ms)
{
    const struct sched_view *view = live_view(p->live);
    int64_t first = INT64_MAX;
    uint32_t served;

    if (now_ms - NOTICE_MS > p->since_ms)
        VEC_EACH(&p->waiting, id)
            p->late[*id - 1].ms += now_ms - p->since_ms;
    p->waiting.len = 0;
    p->since_ms = INT64_MAX;
    memset(p->cards, CARD_FREE, p->card_count);
    for (uint32_t i = 0; i < view->job_count; i++) {
        const struct workload *w = &view->jobs[i];

        if (phase_is_waiting(w->phase) && is_first(p, w)) {
            if (w->not_before_ms <= now_ms && !w->blocked)
                vec_push(&p->waiting, w->id);
            continue;
        }
        if (phase_is_over(w->phase))
            continue;
        mark(p, w->claim, CARD_TAKEN);
        mark(p, w->placement, w->phase == PHASE_STOPPING ? CARD_LEAVING : CARD_TAKEN);
        if (phase_holds(w->phase)) {
            int64_t from = could_go(p, w);

            first = from < first ? from : first;
        }
    }
    served = coming(p);
    if (p->waiting.len <= served || first == INT64_MAX) {
        p->waiting.len = 0;
        return;
    }
    p->waiting.len -= served; /* who is served first does not matter for how many are not */
    p->since_ms = first > now_ms ? first : now_ms;
    VEC_EACH(&p->waiting, id)
        p->late[*id - 1].user = view->jobs[live_find(p->live, *id)].user;
}

void promise_sum(const struct promise *p, struct promise_result *ret)
{
    struct map *users = map_new();

    *ret = (struct promise_result){0};
    for (uint32_t i = 0; i < p->jobs; i++)
        if (p->late[i].ms > 0) {
            ret->jobs++;
            ret->seconds += (double)p->late[i].ms / 1000;
            map_set(users, str_from(p->late[i].user), p->late);
        }
    ret->users = (uint32_t)map_len(users);
    map_free(users);
}
