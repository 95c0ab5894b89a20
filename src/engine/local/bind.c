#include "engine/local/bind.h"

#include "base/buf.h"
#include "control/resources.h"

static void read_cards(struct str text, struct bind_need *ret)
{
    struct str part;

    while (text.s && str_split(&text, ',', &part)) {
        const char *colon = memchr(part.s, ':', part.len);
        uint64_t n;

        if (colon) {
            ret->share = true;
            part.len = (size_t)(colon - part.s);
        }
        if (str_to_uint(part, &n) && n < BIND_CARDS_MAX)
            ret->cards |= UINT64_C(1) << n;
    }
}

void bind_read(const struct json *pod, struct arena *arena, struct bind_need *ret)
{
    struct resource_list requests = {0};
    const struct quantity *gpus;

    pod_resources(json_get(pod, "spec"), "requests", true, arena, &requests);
    gpus = resource_list_find(&requests, BIND_GPU);
    *ret = (struct bind_need){.gpus = gpus ? quantity_value(gpus) : 0};
    read_cards(json_str(json_get(json_at(pod, "metadata.annotations"), BIND_ANNOTATION)), ret);
}
