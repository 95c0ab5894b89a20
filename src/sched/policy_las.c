/* las - least attained service in two queues (Tiresias): a job that has had options.las_split_ms of GPU time
 * goes behind all that have not; within a queue, earlier submission first. Needs no idea of how long a job
 * takes. */
#include "sched/book.h"

static void key(const struct book *book, uint32_t job, int64_t k[4])
{
    const struct workload *w = book_job(book, job);

    k[0] = w->demand.max_gpus > 0;
    k[1] = workload_attained(w, book->now) > (uint64_t)book->view->options.las_split_ms;
    k[2] = w->submit_ms;
    k[3] = 0;
}

static void decide(struct book *book, struct plan *plan)
{
    targets_in_order(book, true);
    decide_by_target(book, plan);
}

const struct sched_policy policy_las = {
    .name = "las",
    .summary = "least attained service first, in two queues (Tiresias)",
    .key = key,
    .decide = decide,
    .timed = true,
};
