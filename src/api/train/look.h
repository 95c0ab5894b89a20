/* look - looks that a file server or a directory service may hold up, with a bound on how long the loop
 * waits.
 *
 * Each runs in a thread of its own. Where it is not done in time, the caller goes on without it: the thread
 * keeps what it works on and drops it whenever the call returns. Until then whoever it was for has one look
 * less: who has LOOKS_EACH of them hanging is not waited for at all. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define LOOKS_EACH 2  /* of one user that hang */
#define LOOKS_MAX  64 /* of all */
/* So long the loop waits for all looks of one request: a busy machine needs a while to run a thread. Where
 * somebody's looks hang already, others wait less, and their own not to speak of. */
#define LOOK_MS         400
#define LOOK_OTHERS_MS  100
#define LOOK_HANGING_MS 20

struct looks;
struct looks *train_looks_new(void);
void train_looks_free(struct looks *looks); /* waits for nothing; NULL is fine */

/* Until when looks of one request, for `who`, are waited for. */
int64_t train_looks_deadline(struct looks *looks, const char *who);
/* Runs fn(work) for `who` (any text) until `deadline` (clock_monotonic). True: it is done, and work is the
 * caller's. False: work is the thread's, or was dropped. */
bool train_look(struct looks *looks, const char *who, int64_t deadline, void (*fn)(void *work),
                void (*drop)(void *work), void *work);
