/* berth - ours: GPUs go where they speed up the most, short jobs first, changes only where they repay their
 * restart. See targets.c. */
#include "sched/pace.h"

static void key(const struct book *book, uint32_t job, int64_t k[4])
{
    const struct workload *w = book_job(book, job);

    k[0] = w->demand.max_gpus > 0;
    k[1] = pace_rest_ms(book, job);
    k[2] = w->submit_ms;
    k[3] = 0;
}

static void decide(struct book *book, struct plan *plan)
{
    targets_by_speed(book);
    decide_by_target(book, plan);
}

const struct sched_policy policy_berth = {
    .is = {.name = "berth",
           .information = "declared epochs, profiled speeds",
           .sizes = SIZES_CHOSEN,
           .forecasts = true,
           .guests = true,
           .own_options = true,
           .gap_ms = 60000},
    .key = key,
    .decide = decide,
    .timed = true,
    .paced = true,
};
