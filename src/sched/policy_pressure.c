/* pressure - deadline and cost, as the optimiser that the lab's DL scheduler descends from (ANDREAS): jobs by
 * how late they would be at best, the latest first; each on the fewest GPUs that meet its deadline, or on the
 * fastest number when none does. Without a deadline, submission plus the declared hours is one; priority
 * weighs lateness. */
#include "sched/book.h"

#include <math.h>

#define BEYOND_MS (INT64_MAX / 4)

#define LATE_MAX  9e18

static int64_t deadline_of(const struct book *book, uint32_t job)
{
    const struct workload *w = book_job(book, job);
    struct forecast room;

    if (w->deadline_ms > 0)
        return w->deadline_ms < BEYOND_MS ? w->deadline_ms : BEYOND_MS;
    if (w->declared_ms > 0)
        return w->submit_ms + (w->declared_ms < REST_MAX_MS ? w->declared_ms : REST_MAX_MS);
    return w->submit_ms + ms_of_s(book_forecast(book, job, &room)->work_s);
}

static uint32_t fastest(const struct forecast *f)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < f->points; i++)
        if (f->curve[i].rate > f->curve[best].rate)
            best = i;
    return best;
}

static void key(const struct book *book, uint32_t job, int64_t k[4])
{
    const struct workload *w = book_job(book, job);
    struct forecast room;
    const struct forecast *f = book_forecast(book, job, &room);
    double best_ms = f->work_s / (f->points ? f->curve[fastest(f)].rate : 1) * 1000;
    double late = (double)(book->now - deadline_of(book, job)) + best_ms;
    double weight = exp(fmax(fmin(w->priority, 20), -20) * M_LN2);

    k[0] = w->demand.max_gpus > 0;
    k[1] = -(int64_t)fmax(fmin(late > 0 ? late * weight : late / weight, LATE_MAX), -LATE_MAX);
    k[2] = w->submit_ms;
    k[3] = 0;
}

/* The fewest GPUs, which cost the least, that are in time. */
static uint32_t size_of(const struct book *book, uint32_t job)
{
    struct forecast room;
    const struct forecast *f = book_forecast(book, job, &room);
    double left_s = (double)(deadline_of(book, job) - book->now) / 1000;

    for (uint32_t i = 0; i < f->points; i++)
        if (f->work_s / f->curve[i].rate <= left_s)
            return f->curve[i].gpus;
    return f->points ? f->curve[fastest(f)].gpus : book_job(book, job)->demand.min_gpus;
}

static void decide(struct book *book, struct plan *plan)
{
    targets_in_order(book, true);
    targets_resize(book, size_of);
    decide_by_target(book, plan);
}

const struct sched_policy policy_pressure = {
    .is = {.name = "pressure",
           .information = "declared epochs, profiled speeds",
           .sizes = SIZES_CHOSEN,
           .forecasts = true,
           .gap_ms = 60000},
    .key = key,
    .decide = decide,
    .timed = true,
    .timed_waiting = true,
};
