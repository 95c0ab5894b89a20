#include "engine/local/bind.h"

#include "base/buf.h"
#include "control/resources.h"

static int64_t amount(const struct resources *list, const char *name, bool milli)
{
    const struct quantity *q = resources_find(list, name);

    if (!q)
        return 0;
    return milli ? quantity_milli(q) : quantity_value(q);
}

void bind_read(const struct json *pod, struct arena *arena, struct bind_need *ret)
{
    struct resources requests = {0};

    pod_resources(json_get(pod, "spec"), "requests", true, arena, &requests);
    *ret = (struct bind_need){.cpu_milli = amount(&requests, "cpu", true),
                              .memory_bytes = amount(&requests, "memory", false),
                              .pods = 1,
                              .gpus = amount(&requests, BIND_GPU, false)};
    ret->cards =
        bind_cards_read(json_string(json_get(json_at(pod, "metadata.annotations"), BIND_ANNOTATION)));
}

void bind_add(struct bind_need *sum, const struct bind_need *need)
{
    sum->cpu_milli += need->cpu_milli;
    sum->memory_bytes += need->memory_bytes;
    sum->pods += need->pods;
    sum->gpus += need->gpus;
    sum->cards |= need->cards;
}

static bool tolerated(const struct json *pod, const struct json *taint)
{
    const char *key = json_string_or(json_get(taint, "key"), "");
    const char *effect = json_string_or(json_get(taint, "effect"), "");

    JSON_EACH(json_at(pod, "spec.tolerations"), it) {
        const char *its_key = json_string_or(json_get(it, "key"), "");
        const char *its_effect = json_string_or(json_get(it, "effect"), "");
        bool exists = streq(json_string_or(json_get(it, "operator"), "Equal"), "Exists");

        if (*its_effect && !streq(its_effect, effect))
            continue;
        if ((exists && !*its_key) ||
            (streq(its_key, key) && (exists || streq(json_string_or(json_get(it, "value"), ""),
                                                     json_string_or(json_get(taint, "value"), "")))))
            return true;
    }
    return false;
}

static int64_t offered(const struct json *node, const char *name, bool milli)
{
    struct quantity q;

    if (!quantity_from_json(json_get(json_at(node, "status.allocatable"), name), &q))
        return 0;
    return milli ? quantity_milli(&q) : quantity_value(&q);
}

const char *bind_check(const struct json *pod, const struct bind_need *need, const struct json *node,
                       const struct bind_need *used)
{
    const struct json *labels = json_at(node, "metadata.labels");

    if (json_bool(json_at(node, "spec.unschedulable")))
        return "node(s) were unschedulable";
    JSON_EACH_MEMBER(json_at(pod, "spec.nodeSelector"), it)
        if (!json_equal(json_get(labels, it->key), &it->value))
            return "node(s) didn't match Pod's node affinity/selector";
    JSON_EACH(json_at(node, "spec.taints"), it)
        if (!streq(json_get_string(it, "effect"), "PreferNoSchedule") && !tolerated(pod, it))
            return "node(s) had untolerated taint(s)";
    if (need->cpu_milli && used->cpu_milli + need->cpu_milli > offered(node, "cpu", true))
        return "Insufficient cpu";
    if (need->memory_bytes && used->memory_bytes + need->memory_bytes > offered(node, "memory", false))
        return "Insufficient memory";
    if (used->pods + need->pods > offered(node, "pods", false))
        return "Too many pods";
    if (need->gpus && used->gpus + need->gpus > offered(node, BIND_GPU, false))
        return "Insufficient " BIND_GPU;
    return NULL;
}

bool bind_cards(const struct bind_need *need, uint64_t taken, size_t cards, uint64_t *ret)
{
    int64_t left = need->gpus;

    *ret = 0;
    for (size_t i = 0; left > 0 && i < cards && i < BIND_CARDS_MAX; i++)
        if (!(taken >> i & 1)) {
            *ret |= UINT64_C(1) << i;
            left--;
        }
    return left <= 0;
}

char *bind_cards_text(struct arena *arena, uint64_t cards)
{
    CLEANUP(buf_done) struct buf text = {0};

    for (unsigned i = 0; i < BIND_CARDS_MAX; i++)
        if (cards >> i & 1)
            buf_printf(&text, "%s%u", text.len ? "," : "", i);
    return arena_strndup(arena, text.data ? text.data : "", text.len);
}

uint64_t bind_cards_read(const char *text)
{
    struct str rest = str_from(text), part;
    uint64_t cards = 0, n;

    while (str_split(&rest, ',', &part))
        if (str_to_uint(part, &n) && n < BIND_CARDS_MAX)
            cards |= UINT64_C(1) << n;
    return cards;
}
