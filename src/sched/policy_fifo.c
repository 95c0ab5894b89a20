/* fifo - in the order of submission, nobody is displaced. Without options.backfill nobody starts before one
 * that waits. */
#include "sched/book.h"

static void key(const struct book *book, uint32_t job, int64_t k[4])
{
    k[0] = book_job(book, job)->submit_ms;
    k[1] = k[2] = k[3] = 0;
}

static void decide(struct book *book, struct plan *plan)
{
    if (book->view->options.backfill) {
        decide_by_rank(book, plan);
        return;
    }
    targets_in_order(book, false);
    decide_by_target(book, plan);
}

const struct sched_policy policy_fifo = {
    .is = {.name = "fifo", .information = "none", .sizes = SIZES_SPARE, .on_change = true},
    .key = key,
    .decide = decide,
};
