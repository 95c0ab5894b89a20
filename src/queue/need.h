/* need - what a pod asks for, as plain numbers. */
#pragma once

#include "base/json.h"

enum amount_unit { AMOUNT_ONES, AMOUNT_MILLI, AMOUNT_MIB /* rounded down */, AMOUNT_MIB_UP };

/* Amounts are cut at what can be added up safely, far beyond what any node has. */
struct pod_need {
    int64_t cpu_milli, mem_mib, gpus;
};
void pod_need(const struct json *spec, struct arena *arena, struct pod_need *ret);
int64_t amount_of(const struct json *value, enum amount_unit unit); /* of a quantity; 0: none */
