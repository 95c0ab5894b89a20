/* Amounts of pods. Apart from the rest, as control's lists of resources and sched's amounts have one name. */
#include "queue/need.h"

#include "control/resources.h"

static int64_t amount(const struct resources *list, const char *name, bool milli)
{
    const struct quantity *q = resources_find(list, name);

    if (!q)
        return 0;
    return milli ? quantity_milli(q) : quantity_value(q);
}

void pod_need(const struct json *spec, struct arena *arena, struct pod_need *ret)
{
    struct resources requests = {0};

    pod_resources(spec, "requests", true, arena, &requests);
    *ret = (struct pod_need){.cpu_milli = amount(&requests, "cpu", true),
                             .mem_mib = (amount(&requests, "memory", false) + (1 << 20) - 1) >> 20,
                             .gpus = amount(&requests, "nvidia.com/gpu", false)};
}

int64_t amount_of(const struct json *value, bool milli)
{
    struct quantity q;

    if (!quantity_from_json(value, &q))
        return 0;
    return milli ? quantity_milli(&q) : quantity_value(&q);
}
