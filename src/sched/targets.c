/* How many GPUs each job should have, for policies that decide that first. GPUs are counted in thousandths,
 * over the whole cluster; where they are is the business of decide_target.c. */
#include "base/mem.h"
#include "sched/book.h"

#include <math.h>
#include <stdlib.h>

int64_t capacity_milli(const struct book *book)
{
    int64_t sum = 0;

    for (uint32_t n = 0; n < book->space.node_count; n++)
        for (uint32_t c = 0; c < book->space.nodes[n].cards && !book->space.nodes[n].closed; c++)
            sum += book->space.cards[book->space.nodes[n].card0 + c].total > 0 ? 1000 : 0;
    return sum;
}

/* Thousandths that one of its cards counts as. */
static int64_t card_milli(const struct book *book, uint32_t job)
{
    uint32_t gpus = book_job(book, job)->demand.min_gpus;

    return gpus ? book->jobs.v[job].milli / gpus : 0;
}

/* Clears the targets and marks the shapes that can never run. Returns the thousandths there are to give. */
int64_t targets_clear(struct book *book)
{
    vec_reserve(&book->target, book->jobs.len + 1);
    memset(book->target.v, 0, sizeof(*book->target.v) * book->jobs.len);
    VEC_EACH(&book->shapes, shape) {
        shape->reason = why_not(book, shape);
        shape->failed = wait_is_never(shape->reason);
        shape->about = SCHED_NONE;
    }
    return capacity_milli(book);
}

int64_t targets_resized(struct book *book)
{
    int64_t taken = 0;

    VEC_EACH(&book->running, key) {
        const struct workload *w = book_job(book, key->job);

        if (w->phase == PHASE_STOPPING && workload_resizing(w))
            taken += w->claim.len * card_milli(book, key->job);
    }
    VEC_EACH(&book->specials, job) {
        if (!workload_resizing(book_job(book, *job)) || cannot_start(book, *job))
            continue;
        book->target.v[*job] = book_job(book, *job)->claim.len;
        taken += book->target.v[*job] * card_milli(book, *job);
    }
    return taken;
}

/* What cannot be stopped keeps what it has. */
static int64_t keep_running(struct book *book, bool all)
{
    int64_t taken = targets_resized(book);

    VEC_EACH(&book->running, key) {
        const struct workload *w = book_job(book, key->job);
        uint32_t gpus = workload_gpus(w);

        if (w->phase == PHASE_STOPPING || (!all && gpus > 0 && may_stop(book, key->job)))
            continue;
        book->target.v[key->job] = gpus ? gpus : 1;
        taken += gpus * card_milli(book, key->job);
    }
    return taken;
}

static bool give(struct book *book, const struct key *key, uint32_t gpus, int64_t *left)
{
    int64_t need = gpus * card_milli(book, key->job);

    if (book->target.v[key->job] > 0)
        return true;
    if (book->shapes.v[key->shape].failed || cannot_start(book, key->job))
        return true; /* does not count as one that has to wait for GPUs */
    if (need > *left)
        return false;
    book->target.v[key->job] = gpus ? gpus : 1;
    *left -= need;
    return true;
}

void targets_in_order(struct book *book, bool preemptive)
{
    int64_t left = targets_clear(book) - keep_running(book, !preemptive);
    size_t r = preemptive ? 0 : book->running.len, w = 0;

    while (r < book->running.len || w < book->waiting.len) {
        bool running = w == book->waiting.len ||
                       (r < book->running.len && key_cmp(book, &book->running.v[r], &book->waiting.v[w]) < 0);
        const struct key *key = running ? &book->running.v[r++] : &book->waiting.v[w++];
        const struct workload *job = book_job(book, key->job);

        if (running && job->phase == PHASE_STOPPING)
            continue;
        if (!give(book, key, running ? workload_gpus(job) : job->demand.min_gpus, &left) && !preemptive)
            return;
    }
}

bool resize_pays(const struct book *book, uint32_t job, uint32_t from, uint32_t to)
{
    struct forecast room;
    const struct forecast *f = book_forecast(book, job, &room);
    double old = forecast_rate(f, from), new = forecast_rate(f, to);
    double window = (double)book->view->options.repay_ms / 1000,
           restart = (double)book->view->options.restart_ms / 1000;

    if (to < from || new <= 0 || old <= 0)
        return to < from;
    window = fmin(window, f->work_s / old);
    return new *(window - restart) > old *window;
}

static void resize_one(struct book *book, const struct key *key, int64_t *left,
                       uint32_t (*size)(const struct book *book, uint32_t job))
{
    const struct workload *w = book_job(book, key->job);
    uint32_t now = book->target.v[key->job], want;
    int64_t need;

    if (now == 0 || !demand_elastic(&w->demand))
        return;
    want = size(book, key->job);
    need = ((int64_t)want - now) * card_milli(book, key->job);
    if (want < w->demand.min_gpus || want == now || need > *left)
        return;
    if (phase_holds(w->phase) && (!may_stop(book, key->job) || !resize_pays(book, key->job, now, want)))
        return;
    book->target.v[key->job] = want;
    *left -= need;
}

void targets_resize(struct book *book, uint32_t (*size)(const struct book *book, uint32_t job))
{
    int64_t left = capacity_milli(book);

    VEC_EACH(&book->running, key)
        left -= book->target.v[key->job] * card_milli(book, key->job);
    VEC_EACH(&book->waiting, key)
        left -= book->target.v[key->job] * card_milli(book, key->job);
    VEC_EACH(&book->running, key)
        resize_one(book, key, &left, size);
    VEC_EACH(&book->waiting, key)
        resize_one(book, key, &left, size);
}
