#include "engine/local/bind.h"

#include "control/resources.h"
#include "objects/names.h"

static void read_cards(const char *text, struct bind_need *ret)
{
    struct card_part parts[CARDS_MAX];
    size_t len;

    if (!cards_read(text, parts, &len))
        return;
    for (size_t i = 0; i < len; i++) {
        ret->share = ret->share || parts[i].mib;
        ret->cards |= UINT64_C(1) << parts[i].card;
    }
}

void bind_read(const struct json *pod, struct arena *arena, struct bind_need *ret)
{
    struct resource_list requests = {0};
    const struct quantity *gpus;

    pod_resources(json_get(pod, "spec"), "requests", true, arena, &requests);
    gpus = resource_list_find(&requests, GPU_RESOURCE);
    *ret = (struct bind_need){.gpus = gpus ? quantity_value(gpus) : 0};
    read_cards(annotation_get(pod, CARDS_ANNOTATION), ret);
}
