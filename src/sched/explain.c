/* Why each job waits and when it may start. The estimate plays the queue forward: GPU time frees up when
 * running jobs are expected to end; each waiting job, in order, takes the earliest it needs, and gives it
 * back when it is expected to be done. Places on nodes are not played, so it is a lower bound with an honest
 * interval. */
#include "base/mem.h"
#include "sched/book.h"

#include <math.h>
#include <stdlib.h>

/* So many thousandths of a GPU are free from then on. */
struct chunk {
    int64_t at, milli;
};

struct chunks {
    VEC(struct chunk) heap;
    int64_t total;
};

static void chunks_push(struct chunks *c, int64_t at, int64_t milli)
{
    size_t i = c->heap.len;

    if (milli <= 0)
        return;
    c->total += milli;
    vec_push(&c->heap, (struct chunk){at, milli});
    for (; i > 0 && c->heap.v[(i - 1) / 2].at > at; i = (i - 1) / 2)
        c->heap.v[i] = c->heap.v[(i - 1) / 2];
    c->heap.v[i] = (struct chunk){at, milli};
}

/* The first chunk has another time, or is replaced by `last`. */
static void chunks_sift(struct chunks *c, struct chunk one)
{
    size_t i = 0;

    for (size_t k; (k = 2 * i + 1) < c->heap.len; i = k) {
        k += k + 1 < c->heap.len && c->heap.v[k + 1].at < c->heap.v[k].at;
        if (c->heap.v[k].at >= one.at)
            break;
        c->heap.v[i] = c->heap.v[k];
    }
    c->heap.v[i] = one;
}

/* Takes so much; when the last of it is free. */
static int64_t chunks_take(struct chunks *c, int64_t milli, int64_t used_ms)
{
    int64_t at = 0, left = milli;

    if (milli > c->total)
        return INT64_MAX;
    while (left > 0) {
        struct chunk *first = &c->heap.v[0];

        at = first->at;
        if (first->milli > left) {
            first->milli -= left;
            left = 0;
        } else if (first->milli == left && milli == left) {
            chunks_sift(c, (struct chunk){at + used_ms, milli}); /* most often: one for one */
            return at;
        } else {
            left -= first->milli;
            c->heap.len--;
            if (c->heap.len > 0)
                chunks_sift(c, c->heap.v[c->heap.len]);
        }
    }
    c->total -= milli;
    chunks_push(c, at + used_ms, milli);
    return at;
}

/* What is free now, and what will be when running jobs end. */
static void chunks_fill(const struct book *book, const struct plan *plan, struct chunks *c)
{
    int64_t free = 0;

    for (uint32_t i = 0; i < book->space.card_count; i++)
        free += book->space.cards[i].total > 0 ? 1000 : 0;
    VEC_EACH(&book->running, key) {
        uint32_t gpus = workload_gpus(book_job(book, key->job));
        int64_t milli = demand_milli(&book_job(book, key->job)->demand, gpus, book->smallest_card);

        milli = milli < free ? milli : free;
        free -= milli;
        chunks_push(c, book_end_ms(book, key->job), milli);
    }
    VEC_EACH(&plan->actions, action) {
        int64_t milli = book->jobs.v[action->job].milli;

        if (action->type != ACTION_START || milli == 0)
            continue;
        milli = milli < free ? milli : free;
        free -= milli;
        chunks_push(c, book->now + book_rest_ms(book, action->job, action->slot_count), milli);
    }
    chunks_push(c, book->now, free);
}

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
    }
}

/* Reads the job itself only when it has to: there may be a hundred thousand. */
static void set_start(const struct book *book, const struct key *key, struct chunks *chunks,
                      struct wait *wait)
{
    const struct book_job *of = &book->jobs.v[key->job];
    int64_t at = INT64_MAX;

    if (!wait_is_never(wait->reason) && wait->reason != WAIT_BLOCKED)
        at = of->milli == 0 ? book->now : chunks_take(chunks, of->milli, of->rest_ms);
    if (at != INT64_MAX && key->special && at < book_job(book, key->job)->not_before_ms)
        at = book_job(book, key->job)->not_before_ms;
    wait->start_ms = wait->start_lo_ms = wait->start_hi_ms = at;
    if (at != INT64_MAX) {
        wait->start_lo_ms = book->now + (at - book->now) / 2;
        wait->start_hi_ms = book->now + (at - book->now) * 2;
    }
}

void explain_waits(struct book *book, struct plan *plan)
{
    CLEANUP(free) uint8_t *marks = marks_of(book, plan);
    struct chunks chunks = {0};

    chunks_fill(book, plan, &chunks);
    vec_reserve(&plan->waits, book->waiting.len);
    VEC_EACH(&book->waiting, key) {
        struct wait wait = {.job = key->job, .ordinal = book->jobs.v[key->job].ordinal};

        if (marks[key->job] == MARK_STARTS)
            continue;
        wait.position = (uint32_t)plan->waits.len + 1;
        set_reason(book, plan, key, marks[key->job], &wait);
        set_start(book, key, &chunks, &wait);
        vec_push(&plan->waits, wait);
    }
    vec_done(&chunks.heap);
}
