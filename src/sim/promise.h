/* promise - whether a policy keeps what guide 5 promises: everybody's first GPU comes before anybody's
 * second.
 *
 * It is broken while a job that needs no more than its user's first GPU waits, no card is free or being freed
 * for it, and somebody's later GPU goes on although it could be stopped: past its minimum run, not in its
 * last epoch. Jobs without a user are promised nothing. It looks at what sched was told, whatever the policy.
 */
#pragma once

#include "sched/live.h"

struct promise;

struct promise_result {
    uint32_t jobs, users; /* that waited longer than they should have */
    double seconds;       /* in all */
};

/* Jobs have the ids 1 to `jobs`. `live` and `cluster` are borrowed. */
struct promise *promise_new(const struct live *live, const struct cluster *cluster, uint32_t jobs,
                            int64_t min_run_ms);
void promise_free(struct promise *promise); /* NULL is fine */
DEFINE_CLEANUP(struct promise *, promise_free);
/* What was so after the last call held until now; from now on it is as `live` says. Call it after decisions.
 */
void promise_look(struct promise *promise, int64_t now_ms);
void promise_sum(const struct promise *promise, struct promise_result *ret);
