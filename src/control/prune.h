/* prune - which finished work leaves the store, and when: an index of what is over (TrainingJobs, Jobs,
 * Tasks, pods that nothing controls) and the rules by which it goes. Pure: the time is an argument, and
 * whoever asks carries it out.
 *
 * Something goes
 *   - when its own ttlSecondsAfterFinished is over;
 *   - when it ended longer ago than the policy's age, where it has no such time of its own;
 *   - when its namespace has more finished work than the policy's count: the oldest of it;
 *   - when all finished work takes more than the policy's bytes: the oldest of the namespace that takes most.
 * RETAIN_ANNOTATION exempts from all but the first; of the PRUNE_RETAIN_MAX newest of a namespace, so that
 * nobody fills the memory with it. */
#pragma once

#include "base/cleanup.h"
#include "objects/object.h"

#include <stdint.h>

#define PRUNE_RETAIN_MAX 50

struct prune_policy {
    int64_t age_sec; /* 0: not for age */
    int64_t count;   /* of one namespace; 0: any number */
    int64_t bytes;   /* of all together; 0: any number */
};

enum prune_why { PRUNE_TTL, PRUNE_AGE, PRUNE_COUNT, PRUNE_BYTES };

/* One that goes. Texts are borrowed from the index until it changes. */
struct prune_due {
    const char *uid, *ns, *name;
    int kind;
    enum prune_why why;
    int64_t finished_at, bytes;
};

struct prune_totals {
    size_t count, retained;
    int64_t bytes;
};

struct prune;
struct prune *prune_new(void);
void prune_free(struct prune *prune); /* NULL is fine */
DEFINE_CLEANUP(struct prune *, prune_free);

/* doc: the object's document. When this work ended (nanoseconds since 1970); 0: it is not over, is going
 * already, or is no work. */
int64_t prune_finished_at(const struct object *object, const struct json *doc);
/* It is there, or has changed; bytes: of it and of what it owns. What is not over leaves the index. */
void prune_put(struct prune *prune, const struct object *object, const struct json *doc, int64_t bytes);
void prune_remove(struct prune *prune, const char *uid);
/* It cannot go before then (something of it still runs). */
void prune_hold(struct prune *prune, const char *uid, int64_t until);

/* Up to max of those that go now. Those that are told count as gone in the sums of this call alone: tell
 * prune_remove what has gone, prune_hold what has not. */
size_t prune_look(const struct prune *prune, const struct prune_policy *policy, int64_t now,
                  struct prune_due *ret, size_t max);
/* When the next one goes by time; INT64_MAX: none does. */
int64_t prune_next(const struct prune *prune, const struct prune_policy *policy, int64_t now);
struct prune_totals prune_totals(const struct prune *prune);
