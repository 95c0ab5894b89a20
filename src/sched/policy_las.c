/* las - least attained service in two or three queues (Tiresias): a job that has had options.las_split_ms of
 * GPU time goes behind all that have not; within a queue, first come first served. Needs no idea of how long
 * a job takes. */
#include "sched/book.h"

static int level_of(const struct sched_options *o, uint64_t had)
{
    return (had >= (uint64_t)o->las_split_ms) + (o->las_split2_ms > 0 && had >= (uint64_t)o->las_split2_ms);
}

int64_t las_queue_ms(const struct sched_options *o, const struct workload *w, int64_t now)
{
    uint64_t had = workload_attained(w, now);
    int level = level_of(o, had);
    uint64_t split = (uint64_t)(level == 2 ? o->las_split2_ms : o->las_split_ms);

    if (level == level_of(o, w->attained_gpu_ms))
        return w->queue_ms ? w->queue_ms : w->submit_ms;
    return now - (int64_t)((had - split) / workload_gpus(w));
}

static void key(const struct book *book, uint32_t job, int64_t k[4])
{
    const struct workload *w = book_job(book, job);
    const struct sched_options *o = &book->view->options;

    k[0] = w->demand.max_gpus > 0;
    k[1] = level_of(o, workload_attained(w, book->now));
    k[2] = o->las_keep && !phase_holds(w->phase);
    k[3] = las_queue_ms(o, w, book->now);
}

/* When a running job has had so much that it goes into the next queue. */
static int64_t next_ms(const struct book *book, uint32_t job)
{
    const struct workload *w = book_job(book, job);
    const int64_t splits[] = {book->view->options.las_split_ms, book->view->options.las_split2_ms};
    int64_t had = (int64_t)workload_attained(w, book->now), next = INT64_MAX;
    uint32_t gpus = workload_gpus(w);

    for (size_t i = 0; i < ARRAY_LEN(splits) && workload_runs(w) && gpus > 0; i++)
        if (had < splits[i]) {
            int64_t at = book->now + (splits[i] - had + gpus - 1) / gpus;

            next = at < next ? at : next;
        }
    return next;
}

static void decide(struct book *book, struct plan *plan)
{
    targets_in_order(book, true);
    decide_by_target(book, plan);
}

const struct sched_policy policy_las = {
    .is = {.name = "las",
           .summary = "least attained service first, in two queues (Tiresias)",
           .information = "none",
           .sizes = SIZES_ASKED},
    .key = key,
    .decide = decide,
    .next_ms = next_ms,
    .timed = true,
};
