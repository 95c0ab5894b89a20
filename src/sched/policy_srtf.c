/* srtf - the job with the least time to go runs first, as far as forecasts tell; longer ones make room. A
 * running job is given the cost of its restart, so that two of a length do not take turns. */
#include "sched/book.h"

static void key(const struct book *book, uint32_t job, int64_t k[4])
{
    const struct workload *w = book_job(book, job);
    int64_t rest = book_rest_ms(book, job, w->demand.min_gpus);

    k[0] = w->demand.max_gpus > 0;
    k[1] = phase_holds(w->phase) ? rest - book->view->options.restart_ms : rest;
    k[2] = w->submit_ms;
    k[3] = 0;
}

static void decide(struct book *book, struct plan *plan)
{
    targets_in_order(book, true);
    decide_by_target(book, plan);
}

const struct sched_policy policy_srtf = {
    .is = {.name = "srtf", .information = "oracle", .sizes = SIZES_ASKED, .forecasts = true},
    .key = key,
    .decide = decide,
    .timed = true,
};
