/* status - what a pod's status shows, from its facts. Pure. */
#pragma once

#include "engine/local/plan.h"

/* Brings doc's status up to date. Times of conditions that do not change are kept. */
void status_write(struct arena *arena, struct json *doc, const struct facts *facts,
                  const struct pod_plan *plan, int64_t now);
