#include "control/pod_pending.h"

#include "control/affinity.h"
#include "control/resources.h"
#include "control/util.h"
#include "objects/names.h"

#define NO_AGENT "no node agent is running on this machine"

/* Why nodes do not do, each with how many of them. */
struct reasons {
    struct resource_list counts; /* text → nodes */
    size_t fitting, ready;
    const char *not_ready; /* what a Node says that is not Ready */
};

static void add_reason(struct reasons *reasons, struct arena *arena, const char *text)
{
    struct quantity one = quantity_of_int(1);

    resource_list_add(&reasons->counts, arena, text, &one);
}

static void check_node(const struct json *pod, const struct resource_list *requests, const struct json *node,
                       struct arena *arena, struct reasons *reasons)
{
    const struct json *offered = json_at(node, "status.allocatable"), *taint;
    struct resource_list there = {0};
    bool fits = true;

    reasons->ready += condition_is(json_get(node, "status"), "Ready", "True");
    JSON_EACH(json_at(node, "status.conditions"), it)
        if (streq(json_get_string(it, "type"), "Ready") &&
            starts_with(json_string_or(json_get(it, "message"), ""), NO_AGENT))
            reasons->not_ready = json_get_string(it, "message");
    if (json_bool(json_at(node, "spec.unschedulable"))) {
        add_reason(reasons, arena, "node(s) were unschedulable");
        return;
    }
    if (!affinity_selects(pod, node)) {
        add_reason(reasons, arena, "node(s) didn't match Pod's node affinity/selector");
        return;
    }
    if ((taint = affinity_untolerated(pod, node))) {
        add_reason(reasons, arena,
                   arena_printf(arena, "node(s) had untolerated taint {%s: %s}",
                                json_string_or(json_get(taint, "key"), ""),
                                json_string_or(json_get(taint, "value"), "")));
        return;
    }
    resource_list_read(&there, arena, offered);
    RESOURCE_LIST_EACH(requests, it) {
        const struct quantity *have = resource_list_find(&there, it->name);

        if (it->amount.nanos == 0 || (have && quantity_cmp(have, &it->amount) >= 0))
            continue;
        add_reason(reasons, arena, arena_printf(arena, "Insufficient %s", it->name));
        fits = false;
    }
    reasons->fitting += fits;
}

/* "0/1 nodes are available: 1 Insufficient nvidia.com/gpu." */
static char *describe(const struct reasons *reasons, size_t node_count, struct arena *arena)
{
    CLEANUP(buf_done) struct buf text = {0};

    buf_printf(&text, "0/%zu nodes are available: ", node_count);
    for (size_t i = 0; i < reasons->counts.len; i++)
        buf_printf(&text, "%s%lld %s", i ? ", " : "", (long long)quantity_value(&reasons->counts.v[i].amount),
                   reasons->counts.v[i].name);
    buf_putc(&text, '.');
    return arena_strndup(arena, text.data, text.len);
}

static const char *why(const struct json *pod, struct object *const *nodes, size_t node_count,
                       struct arena *arena)
{
    struct reasons reasons = {0};
    struct resource_list requests;

    if (node_count == 0)
        return NO_AGENT;
    pod_resources(json_get(pod, "spec"), "requests", true, arena, &requests);
    for (size_t i = 0; i < node_count; i++)
        check_node(pod, &requests, object_doc(nodes[i]), arena, &reasons);
    if (reasons.fitting == 0)
        return describe(&reasons, node_count, arena);
    if (reasons.ready)
        return NULL;
    return reasons.not_ready ? reasons.not_ready : NO_AGENT;
}

void pod_pending_look(const struct object *pod, struct object *const *nodes, size_t node_count, int64_t now,
                      struct effects *effects)
{
    struct json *doc = object_json(pod, effects->arena);
    struct json *status = json_need_object(effects->arena, doc, "status");
    const char *scheduler = json_string_or(json_at(doc, "spec.schedulerName"), "default-scheduler");
    const char *phase = json_string_or(json_get(status, "phase"), "Pending");
    const char *reason = "Unschedulable", *message;

    if (json_string_or(json_at(doc, "spec.nodeName"), "")[0] || !streq(phase, "Pending") ||
        !(streq(scheduler, "default-scheduler") || streq(scheduler, "berth")))
        return;
    if (pod->deleting) { /* nobody runs it: nobody has to end it */
        struct effect *effect = effect_delete(effects, pod);

        if (effect)
            effect->grace_sec = 0;
        return;
    }
    if (json_len(json_at(doc, "spec.schedulingGates"))) {
        reason = "SchedulingGated";
        message = "Scheduling is blocked due to non-empty scheduling gates";
    } else {
        message = why(doc, nodes, node_count, effects->arena);
    }
    if (!message || !pod_set_scheduled(effects->arena, doc, reason, message, now))
        return;
    effect_update_status(effects, pod, doc);
    if (streq(reason, "Unschedulable"))
        effect_event(effects, "Warning", "FailedScheduling", message);
}
