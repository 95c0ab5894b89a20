/* Pods whose nodeName somebody wrote passed no scheduler: as the kubelet does, they are looked at here, and
 * those that do not fit beside the others are Failed with reason OutOfcpu and the like. Cards are given, too.
 */
#include "base/clock.h"
#include "control/affinity.h"
#include "control/resources.h"
#include "control/util.h"
#include "engine/local/internal.h"
#include "objects/names.h"

static bool counts(const struct local_pod *pod)
{
    return !pod->facts.ended || (pod->sandbox != SANDBOX_GONE && pod->sandbox != SANDBOX_NONE);
}

static void sum_others(const struct local_pod *pod, struct arena *arena, struct resource_list *sum,
                       uint64_t *cards)
{
    const struct quantity one = quantity_of_int(1);
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(pod->engine->pods, &at, &key, &value)) {
        const struct local_pod *other = value;
        struct resource_list its = {0};

        if (other == pod || !counts(other) || !other->doc)
            continue;
        pod_resources(json_get(other->doc, "spec"), "requests", true, arena, &its);
        RESOURCE_LIST_EACH(&its, it)
            resource_list_add(sum, arena, it->name, &it->amount);
        resource_list_add(sum, arena, "pods", &one);
        *cards |= other->need.cards;
    }
}

static void refuse(struct local_pod *pod, const char *name, const struct quantity *asked,
                   const struct quantity *used, const struct quantity *offered)
{
    bool milli = streq(name, "cpu");
    char reason[64], text[256];
    const struct quantity none = {0};

    used = used ? used : &none;
    offered = offered ? offered : &none;
    snprintf(reason, sizeof(reason), "OutOf%s", name);
    snprintf(
        text, sizeof(text),
        "Pod was rejected: Node didn't have enough resource: %s, requested: %lld, used: %lld, capacity: %lld",
        name, (long long)(milli ? quantity_milli(asked) : quantity_value(asked)),
        (long long)(milli ? quantity_milli(used) : quantity_value(used)),
        (long long)(milli ? quantity_milli(offered) : quantity_value(offered)));
    facts_fail(&pod->facts, reason, text);
    pod_event(pod, "Warning", reason, "%s", text);
}

static bool selected(struct local_pod *pod, const struct json *node)
{
    static const char text[] = "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match "
                               "Pod's node affinity/selector";

    if (affinity_selects(pod->doc, node))
        return true;
    facts_fail(&pod->facts, "NodeAffinity", text);
    pod_event(pod, "Warning", "NodeAffinity", "%s", text);
    return false;
}

static bool edit_cards(void *arg, struct arena *arena, struct json *doc)
{
    annotation_set(arena, doc, CARDS_ANNOTATION, arg);
    return true;
}

/* The lowest that are free. */
static void give_cards(struct local_pod *pod, int64_t wanted, uint64_t taken)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct card_part parts[CARDS_MAX];
    size_t len = 0;
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .manager = "berth", .keep_generation = true};
    const struct object *object = store_by_uid(pod->engine->store, pod->uid);
    struct written written;

    for (size_t i = 0; wanted > 0 && i < pod->engine->cards && i < CARDS_MAX; i++)
        if (!(taken >> i & 1)) {
            parts[len++] = (struct card_part){.card = (uint32_t)i};
            pod->need.cards |= UINT64_C(1) << i;
            wanted--;
        }
    if (object && len)
        registry_edit_object(pod->engine->registry, &write, object, edit_cards,
                             cards_write(&arena, parts, len), &written);
}

void fit_check(struct local_pod *pod)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct object *node = store_get(pod->engine->store, KIND_NODE, "", pod->engine->node_name);
    const struct json *doc = node ? object_json(node, &arena) : NULL;
    const struct quantity one = quantity_of_int(1);
    struct resource_list asked = {0}, used = {0}, offered = {0};
    const struct quantity *cards_asked;
    uint64_t cards = 0;

    if (pod->fit_checked || !pod->object)
        return;
    pod->fit_checked = true;
    if (pod->facts.start_time || pod->facts.ended || pod->facts.deleting || !doc ||
        condition_is(json_get(pod->doc, "status"), SCHEDULED_CONDITION, "True"))
        return; /* a scheduler has looked, or it was here before */
    if (!selected(pod, doc))
        return;
    resource_list_read(&offered, &arena, json_at(doc, "status.allocatable"));
    sum_others(pod, &arena, &used, &cards);
    pod_resources(json_get(pod->doc, "spec"), "requests", true, &arena, &asked);
    resource_list_add(&asked, &arena, "pods", &one);
    RESOURCE_LIST_EACH(&asked, it) {
        struct quantity *there = resource_list_find(&offered, it->name),
                        *busy = resource_list_find(&used, it->name);

        if (it->amount.nanos == 0 || (there && there->nanos >= it->amount.nanos + (busy ? busy->nanos : 0)))
            continue;
        refuse(pod, it->name, &it->amount, busy, there);
        return;
    }
    cards_asked = resource_list_find(&asked, GPU_RESOURCE);
    if (cards_asked && !pod->need.cards)
        give_cards(pod, quantity_value(cards_asked), cards);
}
