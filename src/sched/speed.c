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
#include "sched/pace.h"

#include <math.h>
#include <stdlib.h>

#define LATE_FROM    0.9 /* of its fair time, from where on a rigid job counts for more, by the fourth power */
#define CRITICAL_MAX 3.0  /* a job longer than that many times all the rest is last whatever one does */
#define CRITICAL_GPU 0.5  /* part of the GPUs that critical jobs may have */
#define CRITICAL_RUN 1.15 /* a critical job that runs stays so a little longer */
#define UNSURE_AGE   0.01 /* of two such jobs the one that came earlier counts for more, by that an hour */
#define UNSURE_KEEP  2.0  /* and while it runs it counts that many times */
#define LONG_FROM    0.8  /* elastic jobs that take longer than that part of all work count for more, */
#define LONG_POWER   0.5  /* by that power of it */
#define LONG_MOST    20.0

/* What a job offers for the next step up its hull. */
struct bid {
    double value; /* per GPU; negative: there is no such step */
    double weight;
    uint32_t job, now; /* GPUs it has, of its own */
    uint8_t next;      /* the step */
    bool rigid;
};

/* One that runs and may be stopped: as a row of those that wait, and what it has. */
struct runner {
    struct pace_row row;
    uint32_t now;
};

/* What is the same for all bids of a decision. */
struct market {
    double gpus, total, contention; /* total: seconds that all work takes on all GPUs */
    double critical;                /* GPUs of critical jobs */
    bool elastic;
};

static bool repays(const struct sched_options *o, double work_s, double old, double new)
{
    double window = fmin((double)o->repay_ms / 1000, work_s / old), restart = (double)o->restart_ms / 1000;

    return new *(window - restart) > old *window;
}

/* What the next step up the hull is worth per GPU. */
static void value_next(struct book *book, struct bid *bid)
{
    const struct sched_options *o = &book->view->options;
    const struct pace *pace = pace_of(book, bid->job);
    const struct curve_point *to = &pace->hull[bid->next];
    uint32_t from = bid->next ? to[-1].gpus : 0;
    double rate = bid->next ? to[-1].rate : 0;

    if (bid->next >= pace->points) {
        bid->value = -1;
        return;
    }
    if (bid->rigid) {
        bid->value = bid->weight;
        return;
    }
    bid->value = bid->weight * (to->rate - rate) / (to->gpus - from);
    if (bid->now >= to->gpus)
        bid->value *= 1 + (double)o->restart_ms / (double)(o->repay_ms > 0 ? o->repay_ms : 1);
    else if (bid->now > 0 && from >= bid->now &&
             !repays(o, pace_work_s(pace, book->now), pace->rate, to->rate))
        bid->value = -1;
}

/* How much longer a job takes than it would on its share of the cluster; 1: just that. */
static double lateness(const struct book *book, const struct pace_row *row, double contention)
{
    double gone_s = (double)(book->now - row->submit_ms) / 1000;

    return (gone_s + row->left_s) / ((row->had_s + row->left_s) * contention + 60);
}

static double weigh_rigid(const struct book *book, const struct pace_row *row, bool runs, bool critical,
                          double contention)
{
    double restart = runs ? 0 : (double)book->view->options.restart_ms / 1000, work_s = row->work_s, weight;
    double late = lateness(book, row, contention) / LATE_FROM;

    if (critical)
        return 1e12 + row->alone_s;
    if (!row->measured)
        work_s = fmin(work_s, UNSURE_S);
    weight = 1 / ((work_s + restart + 1) * row->gang);
    if (!row->measured && runs)
        weight *= UNSURE_KEEP;
    if (row->work_s > work_s)
        weight *= 1 + UNSURE_AGE * (double)(book->now - row->submit_ms) / 3600e3;
    return late > 1 ? weight * (late * late) * (late * late) : weight;
}

double long_weight(double alone_s, double total_s)
{
    if (alone_s <= LONG_FROM * total_s || total_s <= 0)
        return 1;
    return fmin(pow(alone_s / total_s / LONG_FROM, LONG_POWER), LONG_MOST);
}

/* They depend on the power alone. */
const double *rank_weights(struct book *book, size_t len)
{
    double a = 1 / (1 - fmin(fmax(book->view->options.rank_power, 0), 0.9));

    for (size_t i = book->weights.len; i < len; i++) {
        double step = pow((double)(i + 1), a) - pow((double)i, a);

        vec_push(&book->weights, pow(step, 1 / a));
    }
    return book->weights.v;
}

static bool is_critical(struct book *book, struct market *m, const struct pace_row *row, bool runs)
{
    double margin = book->view->options.critical_margin * (runs ? CRITICAL_RUN : 1);

    if (!row->measured || row->alone_s * margin <= m->total || row->alone_s >= CRITICAL_MAX * m->total ||
        m->critical + row->gpus > m->gpus * CRITICAL_GPU)
        return false;
    m->critical += row->gpus;
    if (book->role.v[row->job] == ROLE_PLAIN)
        book->role.v[row->job] = ROLE_CRITICAL;
    return true;
}

/* Rows come with the most work first. */
static void make_bid(struct book *book, struct market *m, const struct pace_row *row, uint32_t now,
                     double rank_weight, struct bid *bid)
{
    bool critical = is_critical(book, m, row, now > 0);

    *bid = (struct bid){.job = row->job, .now = now, .rigid = !m->elastic};
    if (bid->rigid) {
        bid->value = bid->weight = weigh_rigid(book, row, now > 0, critical, m->contention);
        return;
    }
    bid->weight = row->claim * rank_weight * long_weight(row->alone_s, m->total);
    if (now > 0)
        value_next(book, bid);
    else
        bid->value = bid->weight * row->first;
}

static bool may_bid(const struct book *book, const struct pace_row *row)
{
    return !row->cpu_only && !book->shapes.v[row->shape].failed &&
           (!row->special || (book->target.v[row->job] == 0 && !cannot_start(book, row->job)));
}

static void count_in(struct market *m, const struct pace_row *row, uint64_t *wanted)
{
    m->total += row->left_s * row->gpus;
    *wanted += row->gpus;
    m->elastic |= row->elastic;
}

static void look_around(struct book *book, const struct runner *runners, size_t len, struct market *m)
{
    uint64_t wanted = 0;

    for (size_t i = 0; i < len; i++)
        count_in(m, &runners[i].row, &wanted);
    VEC_EACH(&book->rows, row) {
        row->skipped = !may_bid(book, row);
        if (!row->skipped)
            count_in(m, row, &wanted);
        else if (row->cpu_only)
            book->target.v[row->job] = 1;
    }
    m->total = m->total > 0 ? m->total / m->gpus : 1;
    m->contention = fmax((double)wanted / m->gpus, 1);
}

static size_t collect(struct book *book, const struct runner *runners, size_t len, int64_t milli,
                      struct bid *bids)
{
    struct market m = {.gpus = (double)(milli > 0 ? milli : 1) / 1000};
    const struct pace_row *row = book->rows.v, *end = row ? row + book->rows.len : row;
    const double *weights;
    size_t count = 0, r = 0;

    look_around(book, runners, len, &m);
    weights = rank_weights(book, m.elastic ? len + book->rows.len : 0);
    while (r < len || row < end) {
        bool runs = row == end || (r < len && pace_row_cmp(&runners[r].row, row) < 0);

        if (runs || !row->skipped) {
            make_bid(book, &m, runs ? &runners[r].row : row, runs ? runners[r].now : 0,
                     m.elastic ? weights[count] : 1, &bids[count]);
            count++;
        }
        r += runs;
        row += !runs;
    }
    return count;
}

/* A heap of bids, the most valuable first. */
struct offer {
    double value;
    uint32_t bid, job;
};

static bool more_valuable(const struct offer *a, const struct offer *b)
{
    return a->value != b->value ? a->value > b->value : a->job < b->job;
}

static void sift(struct offer *heap, size_t len, size_t at)
{
    struct offer one = heap[at];

    for (size_t child; (child = 2 * at + 1) < len; at = child) {
        if (child + 1 < len && more_valuable(&heap[child + 1], &heap[child]))
            child++;
        if (!more_valuable(&heap[child], &one))
            break;
        heap[at] = heap[child];
    }
    heap[at] = one;
}

static void hand_out(struct book *book, struct bid *bids, size_t len, int64_t left)
{
    CLEANUP(free) struct offer *heap = mem_alloc(sizeof(*heap) * (len + 1));

    for (size_t i = 0; i < len; i++)
        heap[i] = (struct offer){bids[i].value, (uint32_t)i, bids[i].job};
    for (size_t i = len / 2; i-- > 0;)
        sift(heap, len, i);
    while (len > 0 && left > 0 && heap[0].value >= 0) {
        struct bid *bid = &bids[heap[0].bid];
        const struct curve_point *to = &book->paces.v[bid->job].hull[bid->next];
        int64_t need = (int64_t)(to->gpus - (bid->next ? to[-1].gpus : 0)) * 1000;

        if (need > left) {
            heap[0] = heap[--len];
        } else {
            left -= need;
            book->target.v[bid->job] = to->gpus;
            bid->next++;
            value_next(book, bid);
            heap[0].value = bid->value;
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

static struct runner runner_of(struct book *book, uint32_t job)
{
    const struct workload *w = book_job(book, job);
    const struct pace *pace = pace_of(book, job);
    struct runner one = {.now = book->role.v[job] == ROLE_GUEST ? 0 : workload_gpus(w)};

    one.row = pace_row_of(book, job);
    one.row.work_s = pace_work_s(pace, book->now);
    one.row.had_s =
        (double)workload_attained(w, book->now) / 1000 / (w->demand.min_gpus ? w->demand.min_gpus : 1);
    if (pace->points > 0) {
        one.row.alone_s = one.row.work_s / pace->hull[pace->points - 1].rate;
        one.row.left_s = one.row.work_s / pace->hull[0].rate;
    }
    return one;
}

static int runner_cmp(const void *va, const void *vb)
{
    return pace_row_cmp(&((const struct runner *)va)->row, &((const struct runner *)vb)->row);
}

void targets_by_speed(struct book *book)
{
    int64_t all = targets_clear(book), left = all;
    CLEANUP(free) struct runner *runners = mem_alloc(sizeof(*runners) * (book->running.len + 1));
    CLEANUP(free) struct bid *bids = NULL;
    size_t len = 0, count;

    guests_find(book);
    pace_rows(book);
    left -= targets_resized(book);
    for (size_t i = book->running.len; i-- > 0;) {
        uint32_t job = book->running.v[i].job, gpus = workload_gpus(book_job(book, job));

        if (gpus == 0 || !may_stop(book, job)) {
            bool stays = book_job(book, job)->phase != PHASE_STOPPING;

            book->target.v[job] = stays ? (gpus ? gpus : 1) : 0;
            left -= stays && book->role.v[job] != ROLE_GUEST ? gpus * (int64_t)1000 : 0;
        } else {
            runners[len] = runner_of(book, job);
            len += book->paces.v[job].points > 0;
        }
    }
    qsort(runners, len, sizeof(*runners), runner_cmp);
    bids = mem_alloc(sizeof(*bids) * (len + book->rows.len + 1));
    count = collect(book, runners, len, all, bids);
    hand_out(book, bids, count, left);
    settle_guests(book);
}
