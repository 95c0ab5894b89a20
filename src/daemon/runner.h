/* runner - lets the controllers of src/control work: changes in the store become keys in a queue, each key is
 * looked at by its controller, and the effects go through the registry. Also answers the registry's
 * questions about quotas, limits and priorities (admission).
 *
 * A key is in the queue once, however many changes there were; a look that fails is tried again after a
 * while that doubles; a look can ask to be repeated at a time. At start everything is looked at once. */
#pragma once

#include "base/cleanup.h"

struct loop;
struct registry;
struct runner;

struct runner *runner_new(struct loop *loop, struct registry *registry);
void runner_free(struct runner *runner); /* NULL is fine; before the registry and the store */
DEFINE_CLEANUP(struct runner *, runner_free);
/* Events go that long after they were last seen; 0: when there are too many. */
void runner_set_event_age(struct runner *runner, int64_t age_sec);
