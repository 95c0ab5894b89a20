/* starts - when each waiting job starts, if nothing new comes. Private to sched.
 *
 * The queue is played forward on the cards there are: a card is free again when the jobs on it have ended, or
 * have stopped where they are asked to; jobs with a claim start when those in the way have gone; the others
 * take, in order, the node where they fit soonest, and hold it as long as they are expected to run. A later
 * job may be in a gap before an earlier one only when it will be done by then. Intervals go along with the
 * times. A job that lacks CPU or memory starts when those that run on a node have given back enough of it.
 *
 * Far behind in a long queue only GPUs are counted, not nodes. */
#pragma once

#include "sched/book.h"

struct starts;

/* `plan` has the decisions of this moment, which are taken as carried out. Both are borrowed. */
struct starts *starts_new(const struct book *book, const struct plan *plan);
void starts_free(struct starts *starts); /* NULL is fine */
DEFINE_CLEANUP(struct starts *, starts_free);
/* Of each waiting job, in the order of the queue, but of those that the plan starts. */
struct when starts_next(struct starts *starts, const struct key *key, enum wait_reason reason);
