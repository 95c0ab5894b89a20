/* fair - the lab's rule: everybody's first GPU before anybody's second. See order.c for ordinals. */
#include "sched/book.h"

enum { CLASS_CPU, CLASS_HEAD, CLASS_KNOWN, CLASS_ANONYMOUS };

/* Class, ordinal, usage of late, submission; then name. */
static void key(const struct book *book, uint32_t job, int64_t k[4])
{
    const struct workload *w = book_job(book, job);
    const struct book_job *of = &book->jobs.v[job];

    k[0] = w->demand.max_gpus == 0                         ? CLASS_CPU
           : w->bound_ms > 0 && phase_is_waiting(w->phase) ? CLASS_HEAD
           : w->user                                       ? CLASS_KNOWN
                                                           : CLASS_ANONYMOUS;
    k[1] = w->demand.max_gpus == 0 ? 0 : of->ordinal;
    k[2] = w->demand.max_gpus == 0 ? 0 : book->users.v[of->user].step;
    k[3] = w->submit_ms;
}

/* Only a larger ordinal has to go; among equals nobody is displaced. */
static bool outranks(const struct book *book, const struct key *waiter, const struct key *runner)
{
    bool known = book_job(book, waiter->job)->user != NULL, other = book_job(book, runner->job)->user != NULL;

    if (runner->k[0] == CLASS_CPU || known != other)
        return runner->k[0] != CLASS_CPU && known;
    return book->jobs.v[waiter->job].ordinal < book->jobs.v[runner->job].ordinal;
}

const struct sched_policy policy_fair = {
    .is = {.name = "fair",
           .summary = "everybody's first GPU before anybody's second; larger ordinals make room",
           .information = "declared time",
           .sizes = SIZES_SPARE},
    .key = key,
    .outranks = outranks,
    .decide = decide_by_rank,
    .reserves = true,
};
