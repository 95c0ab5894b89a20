/* pod_pending - says of a pod without a node why it waits. Placing pods is the scheduler's; this only
 * sees that nothing can take the pod, or that nobody is there to. */
#pragma once

#include "control/control.h"
#include "objects/object.h"

void pod_pending_look(const struct object *pod, struct object *const *nodes, size_t node_count, int64_t now,
                      struct effects *effects);
