/* bind - which cards a pod has, by its annotation. */
#pragma once

#include "base/json.h"

struct bind_need {
    int64_t gpus;
    uint64_t cards; /* those it has, one bit each */
    bool share;     /* MiB of cards: every container of it sees them */
};

void bind_read(const struct json *pod, struct arena *arena, struct bind_need *ret);
