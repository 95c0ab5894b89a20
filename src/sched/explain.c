/* Why each job waits and when it may start (starts.h plays the queue forward). */
#include "base/mem.h"
#include "sched/starts.h"

#include <stdlib.h>

enum mark { MARK_NONE, MARK_STARTS, MARK_CLAIMS };

static uint8_t *marks_of(const struct book *book, const struct plan *plan)
{
    uint8_t *marks = mem_zalloc(book->jobs.len + 1);

    VEC_EACH(&plan->actions, action)
        if (action->type == ACTION_START)
            marks[action->job] = MARK_STARTS;
        else if (action->type == ACTION_CLAIM)
            marks[action->job] = MARK_CLAIMS;
    return marks;
}

/* Whom a job with a claim waits for. */
static uint32_t in_the_way(const struct book *book, const struct plan *plan, uint32_t job)
{
    struct placement claim = book_job(book, job)->claim;

    VEC_EACH(&plan->actions, action)
        if (action->by == job)
            return action->job;
    VEC_EACH(&book->running, key) {
        const struct workload *w = book_job(book, key->job);

        for (uint32_t i = 0; w->phase == PHASE_STOPPING && i < w->placement.len; i++)
            for (uint32_t k = 0; k < claim.len; k++)
                if (w->placement.v[i].node == claim.v[k].node && w->placement.v[i].card == claim.v[k].card)
                    return key->job;
    }
    return SCHED_NONE;
}

static void set_reason(const struct book *book, const struct plan *plan, const struct key *key, uint8_t mark,
                       struct wait *wait)
{
    const struct shape *shape = &book->shapes.v[key->shape];

    wait->reason = WAIT_ORDER;
    wait->about = SCHED_NONE;
    if (key->special && book_job(book, key->job)->blocked) {
        wait->reason = WAIT_BLOCKED;
    } else if (key->special && book_job(book, key->job)->not_before_ms > book->now) {
        wait->reason = WAIT_BACKOFF;
    } else if (mark == MARK_CLAIMS || (key->special && has_claim(book, key->job))) {
        wait->reason = WAIT_VICTIM;
        wait->about = in_the_way(book, plan, key->job);
    } else if (shape->failed || shape->failed_held) {
        wait->reason = shape->reason;
        wait->about = shape->about;
        wait->node = shape->node;
        wait->free = shape->free;
        wait->free_gpus = shape->free_gpus;
        if (wait->reason == WAIT_ASK &&
            !book->policy->outranks(book, key, &(struct key){.job = wait->about, .k = {INT64_MAX}})) {
            wait->reason = WAIT_GPUS; /* another of this shape could */
            wait->about = SCHED_NONE;
        }
    }
}

/* A large job at the head starts by the time it was told. */
static void keep_bound(const struct book *book, struct wait *wait)
{
    int64_t bound = book_job(book, wait->job)->bound_ms;

    if (bound <= book->now || wait->start_ms == INT64_MAX)
        return;
    wait->start_hi_ms = bound;
    wait->start_ms = wait->start_ms < bound ? wait->start_ms : bound;
    wait->start_lo_ms = wait->start_lo_ms < wait->start_ms ? wait->start_lo_ms : wait->start_ms;
}

void explain_waits(struct book *book, struct plan *plan)
{
    CLEANUP(free) uint8_t *marks = marks_of(book, plan);
    CLEANUP(starts_free) struct starts *starts = NULL;

    order_flat(book);
    starts = starts_new(book, plan);
    vec_reserve(&plan->waits, book->waiting.len);
    VEC_EACH(&book->waiting, key) {
        struct wait wait = {.job = key->job, .ordinal = book->jobs.v[key->job].ordinal};
        struct when start;

        if (marks[key->job] == MARK_STARTS)
            continue;
        wait.position = (uint32_t)plan->waits.len + 1;
        set_reason(book, plan, key, marks[key->job], &wait);
        start = starts_next(starts, key, wait.reason);
        wait.start_ms = start.at_ms;
        wait.start_lo_ms = start.lo_ms;
        wait.start_hi_ms = start.hi_ms;
        if (key->special)
            keep_bound(book, &wait);
        vec_push(&plan->waits, wait);
    }
}
