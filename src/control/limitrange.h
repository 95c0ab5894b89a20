/* limitrange - LimitRange: amounts for containers that name none, and refusing what is too little or too
 * much. Both at the create of a Pod, the latter also for claims. */
#pragma once

#include "base/json.h"
#include "objects/failure.h"

/* Fills in what the containers of a new pod do not say; notes it in an annotation. */
void limitrange_fill(const struct json *range, struct arena *arena, struct json *pod);
/* Refuse with a 403. */
int limitrange_check_pod(const struct json *range, struct arena *arena, const struct json *pod,
                         struct failure *failure);
int limitrange_check_claim(const struct json *range, struct arena *arena, const struct json *claim,
                           struct failure *failure);
