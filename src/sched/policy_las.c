/* las - least attained service in two or three queues (Tiresias): a job that has had options.las_split_ms of
 * GPU time goes behind all that have not; within a queue, first come first served. Needs no idea of how long
 * a job takes.
 *
 * With options.las_keep it is as in Tiresias' own simulator, event by event. A job goes into the next queue,
 * one at a time, when a decision finds that it has had enough; then it stands behind all that wait there,
 * although it runs. Otherwise those that run come first, as they came to run, and one that had to stop waits
 * before all that wait. When it will have had enough is computed there from its time instead of its GPU time,
 * in whole seconds: gangs are moved late, which makes up to a tenth of the average. */
#include "sched/book.h"

static int level_of(const struct sched_options *o, uint64_t had)
{
    return (had >= (uint64_t)o->las_split_ms) + (o->las_split2_ms > 0 && had >= (uint64_t)o->las_split2_ms);
}

static int64_t place_ms(const struct workload *w)
{
    return w->queue_ms ? w->queue_ms : w->submit_ms;
}

/* When it came into the queue it is in. */
static int64_t came_ms(const struct sched_options *o, const struct workload *w, int64_t now)
{
    uint64_t had = workload_attained(w, now);
    int level = level_of(o, had);
    uint64_t split = (uint64_t)(level == 2 ? o->las_split2_ms : o->las_split_ms);

    if (level == level_of(o, w->attained_gpu_ms))
        return place_ms(w);
    return now - (int64_t)((had - split) / workload_gpus(w));
}

/* ---- as in Tiresias' simulator ---- */

static int64_t split_of(const struct sched_options *o, uint32_t queue)
{
    return queue == 0 ? o->las_split_ms : queue == 1 && o->las_split2_ms > 0 ? o->las_split2_ms : INT64_MAX;
}

/* Whether a decision at this moment moves it into the next queue. */
static bool moves(const struct sched_options *o, const struct workload *w, int64_t now)
{
    return workload_runs(w) && w->queue_ms != now &&
           (int64_t)workload_attained(w, now) >= split_of(o, w->queue);
}

static void key_keep(const struct sched_options *o, const struct workload *w, int64_t now, int64_t k[4])
{
    bool waits = !phase_holds(w->phase), fresh = !waits && (moves(o, w, now) || w->queue_ms == now);
    int64_t joined = w->queue_ms > w->started_ms ? w->queue_ms : w->started_ms;

    k[0] = w->demand.max_gpus > 0 ? 2 + 2 * (w->queue + moves(o, w, now)) + (waits || fresh) : 0;
    k[1] = waits ? place_ms(w) : fresh ? now : joined;
    k[2] = waits ? w->queue_run_ms : fresh ? 0 : place_ms(w);
    k[3] = waits || fresh ? 0 : w->queue_run_ms;
}

static void looked(const struct sched_options *o, struct workload *w, int64_t now)
{
    if (!o->las_keep || !moves(o, w, now))
        return;
    w->queue++;
    w->queue_ms = now;
    w->queue_run_ms = 0;
}

void las_stopped(const struct sched_options *o, struct workload *w, int64_t now)
{
    if (!o->las_keep) {
        w->queue_ms = came_ms(o, w, now);
    } else if (w->queue_ms != now) {
        w->queue_run_ms = w->queue_ms > w->started_ms ? w->queue_ms : w->started_ms;
        w->queue_ms = -now; /* the last to be stopped is the first to go on */
    }
}

static int64_t next_keep(const struct sched_options *o, const struct workload *w, int64_t now)
{
    int64_t split = split_of(o, w->queue), gpus = workload_gpus(w), left;

    if (split == INT64_MAX || gpus == 0)
        return INT64_MAX;
    left = split - (int64_t)workload_attained(w, now) / gpus;
    return left > 0 ? now + (left + gpus * 1000 - 1) / (gpus * 1000) * 1000 : INT64_MAX;
}

/* ---- the policy ---- */

static void key(const struct book *book, uint32_t job, int64_t k[4])
{
    const struct workload *w = book_job(book, job);
    const struct sched_options *o = &book->view->options;

    if (o->las_keep) {
        key_keep(o, w, book->now, k);
        return;
    }
    k[0] = w->demand.max_gpus > 0;
    k[1] = level_of(o, workload_attained(w, book->now));
    k[2] = came_ms(o, w, book->now);
    k[3] = 0;
}

/* When a running job has had so much that it goes into the next queue. */
static int64_t next_ms(const struct book *book, uint32_t job)
{
    const struct sched_options *o = &book->view->options;
    const struct workload *w = book_job(book, job);
    int64_t had = (int64_t)workload_attained(w, book->now), next = INT64_MAX;
    uint32_t gpus = workload_gpus(w);

    if (!workload_runs(w) || gpus == 0)
        return INT64_MAX;
    if (o->las_keep)
        return next_keep(o, w, book->now);
    for (uint32_t queue = 0; queue < LAS_SPLITS; queue++)
        if (had < split_of(o, queue) && split_of(o, queue) != INT64_MAX) {
            int64_t at = book->now + (split_of(o, queue) - had + gpus - 1) / gpus;

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
    .is = {.name = "las", .information = "none", .sizes = SIZES_ASKED},
    .key = key,
    .decide = decide,
    .next_ms = next_ms,
    .looked = looked,
    .timed = true,
};
