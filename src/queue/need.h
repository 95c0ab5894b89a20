/* need - what a pod asks for, as plain numbers. */
#pragma once

#include "base/json.h"

struct pod_need {
    int64_t cpu_milli, mem_mib, gpus;
};
void pod_need(const struct json *spec, struct arena *arena, struct pod_need *ret);
int64_t amount_of(const struct json *value, bool milli); /* of a quantity; 0: none. Memory in bytes */
