/* fair - the lab's rule: everybody's first GPU before anybody's second. See order.c for ordinals. */
#include "base/break.h"
#include "sched/book.h"

enum { CLASS_CPU, CLASS_HEAD, CLASS_FIRST, CLASS_LATER, CLASS_ANONYMOUS };

#define FIRST_GPU  1000 /* thousandths: a user's first */
#define MUCH_STEPS 2    /* factors of two by which a job has to be shorter to be much shorter */

static int class_of(const struct book *book, uint32_t job)
{
    const struct workload *w = book_job(book, job);

    if (w->demand.max_gpus == 0)
        return CLASS_CPU;
    if (w->bound_ms > 0 && phase_is_waiting(w->phase))
        return CLASS_HEAD;
    if (!w->user)
        return CLASS_ANONYMOUS;
    if (rule_broken("2"))
        return book->jobs.v[job].ordinal <= FIRST_GPU ? CLASS_LATER : CLASS_FIRST;
    return book->jobs.v[job].ordinal <= FIRST_GPU ? CLASS_FIRST : CLASS_LATER;
}

/* Class and length, ordinal, usage of late, submission; then name. */
static void key(const struct book *book, uint32_t job, int64_t k[4])
{
    const struct workload *w = book_job(book, job);
    const struct book_job *of = &book->jobs.v[job];
    int class = class_of(book, job);

    k[0] = class << 16;
    k[1] = k[2] = 0;
    k[3] = w->submit_ms;
    if (class == CLASS_CPU)
        return;
    k[0] += of->rank_step;
    k[1] = of->ordinal;
    k[2] = book->users.v[of->user].step;
}

/* Whether it is so much shorter that stopping the other for it pays. */
static bool is_much_shorter(const struct book *book, int64_t mine_ms, int64_t their_ms)
{
    return length_step((double)mine_ms / 1000) + MUCH_STEPS <= length_step((double)their_ms / 1000) &&
           their_ms - mine_ms > book->view->options.repay_ms;
}

/* A first GPU goes before all later ones. Beyond that, a job has to go for one of smaller ordinal that is not
 * longer, or for another user's that is much shorter; among equals nobody is displaced. */
static bool outranks(const struct book *book, const struct key *waiter, const struct key *runner)
{
    const struct workload *w = book_job(book, waiter->job), *r = book_job(book, runner->job);
    int64_t mine = book->jobs.v[waiter->job].ordinal, theirs = book->jobs.v[runner->job].ordinal;
    int64_t mine_ms, their_ms;

    if (rule_broken("3"))
        return false;
    if (r->demand.max_gpus == 0 || (w->user != NULL) != (r->user != NULL))
        return r->demand.max_gpus > 0 && w->user;
    if (w->user && (mine <= FIRST_GPU) != (theirs <= FIRST_GPU))
        return mine <= FIRST_GPU;
    if (phase_is_waiting(r->phase))
        return mine < theirs;
    if (mine >= theirs &&
        (mine <= FIRST_GPU || book->jobs.v[waiter->job].user == book->jobs.v[runner->job].user))
        return false;
    mine_ms = book->jobs.v[waiter->job].rest_ms;
    their_ms = book_end_ms(book, runner->job) - book->now;
    return (mine < theirs && length_step((double)mine_ms / 1000) <= length_step((double)their_ms / 1000)) ||
           (mine > FIRST_GPU && is_much_shorter(book, mine_ms, their_ms));
}

const struct sched_policy policy_fair = {
    .is = {.name = "fair",
           .summary = "everybody's first GPU before anybody's second; beyond that short jobs first",
           .information = "declared time",
           .sizes = SIZES_SPARE},
    .key = key,
    .outranks = outranks,
    .decide = decide_by_rank,
    .reserves = true,
};
