/* How many GPUs each job should have, for policies that decide that first. GPUs are counted in thousandths,
 * over the whole cluster; where they are is the business of decide_target.c. */
#include "base/mem.h"
#include "sched/book.h"

#include <math.h>
#include <stdlib.h>

static int64_t capacity_milli(const struct book *book)
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
static int64_t targets_clear(struct book *book)
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

/* What cannot be stopped keeps what it has. */
static int64_t keep_running(struct book *book, bool all)
{
    int64_t taken = 0;

    VEC_EACH(&book->running, key) {
        const struct workload *w = book_job(book, key->job);
        uint32_t gpus = workload_gpus(w);

        if (w->phase != PHASE_RUNNING || (!all && gpus > 0 && may_stop(book, key->job)))
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
    if (book->shapes.v[key->shape].failed || book_job(book, key->job)->not_before_ms > book->now)
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

        if (running && job->phase != PHASE_RUNNING)
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

/* ---- by marginal speed-up ---- */

struct claimant {
    uint32_t job;
    uint32_t now; /* GPUs it has */
    uint32_t points, next;
    struct curve_point hull[CURVE_MAX];
    double work_s, weight, alone_s;
    double value; /* of its next step, per GPU */
};

/* Largest remaining work first. */
static int claimant_cmp(const void *va, const void *vb)
{
    const struct claimant *a = va, *b = vb;

    if (a->work_s != b->work_s)
        return a->work_s > b->work_s ? -1 : 1;
    return (a->job > b->job) - (a->job < b->job);
}

/* What the next step up the hull is worth per GPU; a running job's own GPUs are worth more to it by its
 * restart. */
static void value_next(const struct book *book, struct claimant *c)
{
    const struct sched_options *o = &book->view->options;
    const struct curve_point *to = &c->hull[c->next];
    uint32_t from = c->next ? c->hull[c->next - 1].gpus : 0;
    double rate = c->next ? c->hull[c->next - 1].rate : 0;
    double keep = (double)o->restart_ms / (double)(o->repay_ms > 0 ? o->repay_ms : 1);

    if (c->next >= c->points) {
        c->value = -1;
        return;
    }
    c->value = c->weight * (to->rate - rate) / (to->gpus - from);
    if (c->now >= to->gpus)
        c->value *= 1 + keep;
    else if (c->now > 0 && from >= c->now && !resize_pays(book, c->job, c->now, to->gpus))
        c->value = -1;
}

static bool add_claimant(const struct book *book, uint32_t job, struct claimant *c)
{
    const struct workload *w = book_job(book, job);
    struct forecast room;
    const struct forecast *f = book_forecast(book, job, &room);

    *c = (struct claimant){.job = job, .now = workload_gpus(w), .work_s = f->work_s, .weight = f->overrun};
    c->points = forecast_hull(f, c->hull);
    if (w->probes >= book->view->options.probes_max && f->tried)
        while (c->points > 1 && c->hull[c->points - 1].gpus > c->now &&
               !forecast_tried(f, c->hull[c->points - 1].gpus))
            c->points--;
    c->alone_s = c->points ? f->work_s / c->hull[c->points - 1].rate : 0;
    return c->points > 0;
}

/* Ranks by remaining work (heSRPT as weights); a job that would take longer than all work spread over all
 * GPUs is critical for the end of it all, and comes first. */
static void weigh(const struct book *book, struct claimant *v, size_t len, int64_t milli)
{
    double a = 1 / (1 - fmin(fmax(book->view->options.rank_power, 0), 0.9)), before = 0, total = 0, top;

    qsort(v, len, sizeof(*v), claimant_cmp);
    for (size_t i = 0; i < len; i++) {
        total += v[i].work_s / v[i].hull[0].rate * v[i].hull[0].gpus;
    }
    total = total / ((double)(milli > 0 ? milli : 1) / 1000) * book->view->options.critical_margin;
    top = pow((double)len, a) - pow((double)len - 1, a);
    for (size_t i = 0; i < len; i++) {
        double upto = a == 2 ? (double)(i + 1) * (double)(i + 1) : pow((double)(i + 1), a);
        double step = upto - before;

        before = upto;
        if (v[i].alone_s > total)
            step = top * 1.01;
        v[i].weight *= a == 2 ? sqrt(step) : pow(step, 1 / a);
        v[i].next = 0;
        value_next(book, &v[i]);
    }
}

/* A heap of claimants, the most valuable step first. */
static bool more_valuable(const struct claimant *a, const struct claimant *b)
{
    return a->value != b->value ? a->value > b->value : a->job < b->job;
}

static void sift(struct claimant **heap, size_t len, size_t at)
{
    struct claimant *one = heap[at];

    for (size_t child; (child = 2 * at + 1) < len; at = child) {
        if (child + 1 < len && more_valuable(heap[child + 1], heap[child]))
            child++;
        if (!more_valuable(heap[child], one))
            break;
        heap[at] = heap[child];
    }
    heap[at] = one;
}

static void hand_out(struct book *book, struct claimant *v, size_t len, int64_t left)
{
    CLEANUP(free) struct claimant **heap = mem_alloc(sizeof(*heap) * (len + 1));

    for (size_t i = 0; i < len; i++)
        heap[i] = &v[i];
    for (size_t i = len / 2; i-- > 0;)
        sift(heap, len, i);
    while (len > 0 && left > 0) {
        struct claimant *c = heap[0];
        uint32_t from = c->next ? c->hull[c->next - 1].gpus : 0;
        int64_t need = c->value < 0 ? 0 : (c->hull[c->next].gpus - from) * card_milli(book, c->job);

        if (c->value < 0 || need > left) {
            heap[0] = heap[--len];
        } else {
            left -= need;
            book->target.v[c->job] = c->hull[c->next++].gpus;
            value_next(book, c);
        }
        if (len > 0)
            sift(heap, len, 0);
    }
}

void targets_by_speed(struct book *book)
{
    int64_t all = targets_clear(book), left = all - keep_running(book, false);
    size_t most = book->running.len + book->waiting.len, len = 0;
    CLEANUP(free) struct claimant *v = mem_alloc(sizeof(*v) * (most + 1));

    VEC_EACH(&book->running, key)
        if (book->target.v[key->job] == 0 && book_job(book, key->job)->phase == PHASE_RUNNING)
            len += add_claimant(book, key->job, &v[len]);
    VEC_EACH(&book->waiting, key) {
        const struct workload *w = book_job(book, key->job);

        if (w->demand.max_gpus == 0)
            book->target.v[key->job] = 1;
        else if (!book->shapes.v[key->shape].failed && w->not_before_ms <= book->now)
            len += add_claimant(book, key->job, &v[len]);
    }
    weigh(book, v, len, all);
    hand_out(book, v, len, left);
}
