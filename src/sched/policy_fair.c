/* fair - the lab's rule: everybody's first GPU before anybody's second. See order.c for ordinals. */
#include "base/break.h"
#include "sched/book.h"

enum { CLASS_CPU, CLASS_HEAD, CLASS_FIRST, CLASS_LATER, CLASS_ANONYMOUS };

#define FIRST_GPU  1000 /* thousandths: a user's first */
#define MUCH_STEPS 2    /* factors of two by which a job has to be shorter to be much shorter */

static int class_of(const struct book *book, uint32_t job)
{
    const struct book_job *of = &book->jobs.v[job];

    if (of->cpu_only)
        return CLASS_CPU;
    if (of->bound)
        return CLASS_HEAD;
    if (!book->users.v[of->user].name)
        return CLASS_ANONYMOUS;
    if (rule_broken("2"))
        return of->ordinal <= FIRST_GPU ? CLASS_LATER : CLASS_FIRST;
    return of->ordinal <= FIRST_GPU ? CLASS_FIRST : CLASS_LATER;
}

/* Class and length, ordinal, usage of late, submission; then name. */
static void key(const struct book *book, uint32_t job, int64_t k[4])
{
    const struct book_job *of = &book->jobs.v[job];
    int class = class_of(book, job);

    k[0] = class << 16;
    k[1] = k[2] = 0;
    k[3] = of->submit_ms;
    if (class == CLASS_CPU)
        return;
    k[0] += of->rank_step;
    k[1] = of->ordinal;
    k[2] = book->users.v[of->user].step;
}

/* Whether it is so much shorter that stopping the other for it pays. */
static bool is_much_shorter(const struct book *book, int64_t mine_ms, int64_t their_ms)
{
    return their_ms - mine_ms > book->view->options.repay_ms &&
           length_step_ms(mine_ms) + MUCH_STEPS <= length_step_ms(their_ms);
}

/* A first GPU goes before all later ones. Beyond that, a job has to go for one of smaller ordinal that is not
 * longer, or for another user's that is much shorter; among equals nobody is displaced. */
static bool outranks(const struct book *book, const struct key *waiter, const struct key *runner)
{
    const struct book_job *w = &book->jobs.v[waiter->job], *r = &book->jobs.v[runner->job];
    bool named = book->users.v[w->user].name;
    int64_t their_ms;

    if (rule_broken("3"))
        return false;
    if (r->cpu_only || named != (book->users.v[r->user].name != NULL))
        return !r->cpu_only && named;
    if (named && (w->ordinal <= FIRST_GPU) != (r->ordinal <= FIRST_GPU))
        return w->ordinal <= FIRST_GPU;
    if (r->where == WHERE_WAITING)
        return w->ordinal < r->ordinal;
    if (w->ordinal >= r->ordinal && (w->ordinal <= FIRST_GPU || w->user == r->user))
        return false;
    their_ms = book_end_ms(book, runner->job) - book->now;
    return (w->ordinal < r->ordinal && length_step_ms(w->rest_ms) <= length_step_ms(their_ms)) ||
           (w->ordinal > FIRST_GPU && is_much_shorter(book, w->rest_ms, their_ms));
}

const struct sched_policy policy_fair = {
    .is = {.name = "fair", .information = "declared time", .sizes = SIZES_CHOSEN},
    .key = key,
    .outranks = outranks,
    .decide = decide_by_rank,
    .reserves = true,
    .shares_anew = true,
    .by_user = true,
};
