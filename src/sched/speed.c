/* Targets of `berth`: GPUs go where they bring the most.
 *
 * Elastic jobs: the job with the i-th largest remaining work has weight (i^a - (i-1)^a)^(1/a), a = 1/(1-p):
 * the shares that minimise the average completion time when speed grows as GPUs^p (heSRPT), written as
 * weights. A GPU is worth weight times the speed it adds on the concave hull of the job's speed-up curve; the
 * most valuable step is handed out first. What a running job has is worth more to it by what a restart costs.
 * The longest jobs, which decide when everything is over, count for more.
 *
 * Where all jobs are rigid: shortest remaining time first, weighed by the gang, a restart added for those
 * that do not run. A job that takes nearly as long as all work spread over all GPUs decides when everything
 * is over: it is critical, goes first and has no guests; that needs a measured forecast. A job that takes
 * longer than its fair share of the GPUs would have let it counts for more. Declared lengths that nothing has
 * measured tell short from long, not long from longer: from some length on it is first come, first served,
 * and what runs mostly stays, so that the longest do not give way for ever. */
#include "base/mem.h"
#include "sched/book.h"

#include <math.h>
#include <stdlib.h>

#define RIGID_GPUS   0.5  /* power of the gang's size in the order of rigid jobs: 0 is SRTF, 1 is SRSF */
#define LATE_FROM    0.9  /* of its fair time, from where on a rigid job counts for more */
#define LATE_POWER   4.0  /* by that power of it */
#define CRITICAL_MAX 3.0  /* a job longer than that many times all the rest is last whatever one does */
#define CRITICAL_GPU 0.5  /* part of the GPUs that critical jobs may have */
#define CRITICAL_RUN 1.15 /* a critical job that runs stays so a little longer */
#define UNSURE_AGE   0.01 /* of two such jobs the one that came earlier counts for more, by that an hour */
#define UNSURE_KEEP  2.0  /* and while it runs it counts that many times */
#define LONG_FROM    0.8  /* elastic jobs that take longer than that part of all work count for more, */
#define LONG_POWER   0.5  /* by that power of it */
#define LONG_MOST    20.0

struct claimant {
    uint32_t job;
    uint32_t now; /* GPUs it has, of its own */
    uint32_t points, next;
    struct curve_point hull[CURVE_MAX];
    double work_s, weight, alone_s;
    double value; /* of its next step, per GPU */
    bool critical, rigid, measured;
};

/* Largest remaining work first. */
static int claimant_cmp(const void *va, const void *vb)
{
    const struct claimant *a = va, *b = vb;

    if (a->work_s != b->work_s)
        return a->work_s > b->work_s ? -1 : 1;
    return (a->job > b->job) - (a->job < b->job);
}

/* What the next step up the hull is worth per GPU. */
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
    if (c->rigid) {
        c->value = c->weight;
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

    *c = (struct claimant){.job = job,
                           .now = workload_gpus(w),
                           .work_s = f->work_s,
                           .weight = f->overrun,
                           .measured = f->measured};
    if (book->role.v[job] == ROLE_GUEST)
        c->now = 0;
    c->points = forecast_hull(f, c->hull);
    while (c->points > 1 && c->hull[c->points - 1].gpus > book->space.card_count)
        c->points--;
    if (w->probes >= book->view->options.probes_max && f->tried)
        while (c->points > 1 && c->hull[c->points - 1].gpus > c->now &&
               !forecast_tried(f, c->hull[c->points - 1].gpus))
            c->points--;
    c->alone_s = c->points ? f->work_s / c->hull[c->points - 1].rate : 0;
    return c->points > 0;
}

/* How much longer a job takes than it would on its share of the cluster; 1: just that. */
static double lateness(const struct book *book, const struct claimant *c, double contention)
{
    const struct workload *w = book_job(book, c->job);
    double gone_s = (double)(book->now - w->submit_ms) / 1000, had_s, left_s = c->work_s / c->hull[0].rate;

    had_s = (double)workload_attained(w, book->now) / 1000 / (w->demand.min_gpus ? w->demand.min_gpus : 1);
    return (gone_s + left_s) / ((had_s + left_s) * contention + 60);
}

static void weigh_rigid(const struct book *book, struct claimant *c, double contention)
{
    const struct sched_options *o = &book->view->options;
    double restart = c->now ? 0 : (double)o->restart_ms / 1000, work_s = c->work_s;

    c->rigid = true;
    if (c->critical) {
        c->weight = 1e12 + c->alone_s;
        return;
    }
    if (!c->measured)
        work_s = fmin(work_s, UNSURE_S);
    c->weight = 1 / ((work_s + restart + 1) * pow(c->hull[0].gpus, RIGID_GPUS));
    if (!c->measured && c->now)
        c->weight *= UNSURE_KEEP;
    if (c->work_s > work_s)
        c->weight *= 1 + UNSURE_AGE * (double)(book->now - book_job(book, c->job)->submit_ms) / 3600e3;
    c->weight *= pow(fmax(lateness(book, c, contention) / LATE_FROM, 1), LATE_POWER);
}

static void weigh(struct book *book, struct claimant *v, size_t len, int64_t milli)
{
    const struct sched_options *o = &book->view->options;
    double a = 1 / (1 - fmin(fmax(o->rank_power, 0), 0.9)), before = 0, total = 0, wanted = 0;
    double gpus = (double)(milli > 0 ? milli : 1) / 1000, contention;
    double critical = 0;
    bool elastic = false;

    qsort(v, len, sizeof(*v), claimant_cmp);
    for (size_t i = 0; i < len; i++) {
        total += v[i].work_s / v[i].hull[0].rate * v[i].hull[0].gpus / gpus;
        wanted += v[i].hull[0].gpus / gpus;
        elastic |= demand_elastic(&book_job(book, v[i].job)->demand);
    }
    contention = fmax(wanted, 1);
    for (size_t i = 0; i < len; i++) {
        double upto = a == 2 ? (double)(i + 1) * (double)(i + 1) : pow((double)(i + 1), a);
        double step = upto - before, ratio = v[i].alone_s / (total > 0 ? total : 1);

        before = upto;
        v[i].critical = v[i].measured && ratio < CRITICAL_MAX &&
                        ratio * o->critical_margin * (v[i].now ? CRITICAL_RUN : 1) > 1 &&
                        critical + v[i].hull[0].gpus <= gpus * CRITICAL_GPU;
        critical += v[i].critical ? v[i].hull[0].gpus : 0;
        if (v[i].critical && book->role.v[v[i].job] == ROLE_PLAIN)
            book->role.v[v[i].job] = ROLE_CRITICAL;
        if (elastic) {
            v[i].weight *= a == 2 ? sqrt(step) : pow(step, 1 / a);
            if (ratio > LONG_FROM)
                v[i].weight *= fmin(pow(ratio / LONG_FROM, LONG_POWER), LONG_MOST);
        } else {
            weigh_rigid(book, &v[i], contention);
        }
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
        int64_t need = c->value < 0 ? 0 : (int64_t)(c->hull[c->next].gpus - from) * 1000;

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

/* Guests whose turn it is move to cards of their own, if that repays the move; others stay as long as their
 * host stays and is not critical. */
static void settle_guests(struct book *book)
{
    const struct sched_options *o = &book->view->options;

    VEC_EACH(&book->running, key) {
        uint32_t host = book->host.v[key->job], gpus = workload_gpus(book_job(book, key->job));
        double gain;

        if (book->role.v[key->job] != ROLE_GUEST)
            continue;
        gain = book_rest_s(book, key->job, gpus) * (1 - pair_rate(book, key->job, host));
        if (book->role.v[host] == ROLE_CRITICAL && book->target.v[key->job] == 0)
            continue;
        if (book->target.v[key->job] > 0 &&
            (book->role.v[host] == ROLE_CRITICAL || gain > 3 * (double)o->restart_ms / 1000))
            book->role.v[key->job] = ROLE_MOVES;
        else
            book->target.v[key->job] = gpus;
    }
}

void targets_by_speed(struct book *book)
{
    int64_t all = targets_clear(book), left = all;
    size_t most = book->running.len + book->waiting.len, len = 0;
    CLEANUP(free) struct claimant *v = mem_alloc(sizeof(*v) * (most + 1));

    guests_find(book);
    left -= targets_resized(book);
    VEC_EACH(&book->running, key) {
        const struct workload *w = book_job(book, key->job);
        uint32_t gpus = workload_gpus(w);

        if (gpus == 0 || !may_stop(book, key->job)) {
            bool stays = w->phase != PHASE_STOPPING;

            book->target.v[key->job] = stays ? (gpus ? gpus : 1) : 0;
            left -= stays && book->role.v[key->job] != ROLE_GUEST ? gpus * (int64_t)1000 : 0;
        } else {
            len += add_claimant(book, key->job, &v[len]);
        }
    }
    VEC_EACH(&book->waiting, key) {
        const struct workload *w = book_job(book, key->job);

        if (w->demand.max_gpus == 0)
            book->target.v[key->job] = 1;
        else if (book->target.v[key->job] == 0 && !book->shapes.v[key->shape].failed &&
                 !cannot_start(book, key->job))
            len += add_claimant(book, key->job, &v[len]);
    }
    weigh(book, v, len, all);
    hand_out(book, v, len, left);
    settle_guests(book);
}
