/* Amounts of pods. */
#include "queue/need.h"

#include "control/resources.h"
#include "objects/names.h"

static int64_t amount(const struct resource_list *list, const char *name, bool milli)
{
    const struct quantity *q = resource_list_find(list, name);

    if (!q)
        return 0;
    return milli ? quantity_milli(q) : quantity_value(q);
}

void pod_need(const struct json *spec, struct arena *arena, struct pod_need *ret)
{
    struct resource_list requests = {0};

    pod_resources(spec, "requests", true, arena, &requests);
    *ret = (struct pod_need){.cpu_milli = amount(&requests, "cpu", true),
                             .mem_mib = (amount(&requests, "memory", false) + (1 << 20) - 1) >> 20,
                             .gpus = amount(&requests, GPU_RESOURCE, false)};
}

int64_t amount_of(const struct json *value, bool milli)
{
    struct quantity q;

    if (!quantity_from_json(value, &q))
        return 0;
    return milli ? quantity_milli(&q) : quantity_value(&q);
}
