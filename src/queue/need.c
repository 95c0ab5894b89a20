/* Amounts of pods. */
#include "queue/need.h"

#include "control/resources.h"
#include "objects/names.h"

/* Of CPU in thousandths, MiB and cards: more than any cluster has, and a million jobs of it can be added up.
 */
#define NEED_MAX ((int64_t)1 << 42)

static int64_t bounded(int64_t n)
{
    return n < -NEED_MAX ? -NEED_MAX : n > NEED_MAX ? NEED_MAX : n;
}

static int64_t of(const struct quantity *q, enum amount_unit unit)
{
    int64_t bytes;

    if (unit == AMOUNT_MILLI)
        return bounded(quantity_milli(q));
    if (unit == AMOUNT_ONES)
        return bounded(quantity_value(q));
    bytes = quantity_value(q);
    return (bytes >> 20) + (unit == AMOUNT_MIB_UP && (bytes & ((1 << 20) - 1)) != 0);
}

static int64_t amount(const struct resource_list *list, const char *name, enum amount_unit unit)
{
    const struct quantity *q = resource_list_find(list, name);

    return q ? of(q, unit) : 0;
}

void pod_need(const struct json *spec, struct arena *arena, struct pod_need *ret)
{
    struct resource_list requests = {0};

    pod_resources(spec, "requests", true, arena, &requests);
    *ret = (struct pod_need){.cpu_milli = amount(&requests, "cpu", AMOUNT_MILLI),
                             .mem_mib = amount(&requests, "memory", AMOUNT_MIB_UP),
                             .gpus = amount(&requests, GPU_RESOURCE, AMOUNT_ONES)};
}

int64_t amount_of(const struct json *value, enum amount_unit unit)
{
    struct quantity q;

    return quantity_from_json(value, &q) ? of(&q, unit) : 0;
}
