#include "control/priority.h"

#include <inttypes.h>

void priority_class_read(const struct json *doc, struct arena *arena, struct priority_class *ret)
{
    *ret = (struct priority_class){
        .name = arena_strdup(arena, json_string_or(json_at(doc, "metadata.name"), "")),
        .value = json_int(json_get(doc, "value"), 0),
        .preemption_policy = arena_strdup(arena, json_get_string(doc, "preemptionPolicy")),
        .is_default = json_bool(json_get(doc, "globalDefault")),
    };
}

static const struct priority_class *find(const struct priority_class *classes, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (streq(classes[i].name, name))
            return &classes[i];
    return NULL;
}

/* Where there are several, the lowest. */
static const struct priority_class *find_default(const struct priority_class *classes, size_t count)
{
    const struct priority_class *found = NULL;

    for (size_t i = 0; i < count; i++)
        if (classes[i].is_default && (!found || classes[i].value < found->value))
            found = &classes[i];
    return found;
}

static int refuse(struct arena *arena, struct failure *failure, const struct json *pod, const char *why)
{
    return failure_forbidden(failure, arena, "", "pods", json_string_or(json_at(pod, "metadata.name"), ""),
                             why);
}

int priority_admit_pod(const struct priority_class *classes, size_t count, struct arena *arena,
                       struct json *pod, struct failure *failure)
{
    static const struct priority_class none = {.name = "", .value = 0};
    struct json *spec = json_need_object(arena, pod, "spec");
    const char *name = json_string_or(json_get(spec, "priorityClassName"), "");
    const struct json *value = json_get(spec, "priority");
    const char *policy = json_get_string(spec, "preemptionPolicy"), *computed;
    const struct priority_class *class;

    if (*name) {
        class = find(classes, count, name);
        if (!class)
            return refuse(arena, failure, pod,
                          arena_printf(arena, "no PriorityClass with name %s was found", name));
    } else {
        class = find_default(classes, count);
        if (class)
            json_set_string(arena, spec, "priorityClassName", class->name);
        else
            class = &none;
    }
    if (value && json_int(value, 0) != class->value)
        return refuse(
            arena, failure, pod,
            arena_printf(arena,
                         "the integer value of priority (%" PRId64
                         ") must not be provided in pod spec; priority admission controller computed %" PRId64
                         " from the given PriorityClass name",
                         json_int(value, 0), class->value));
    computed = class->preemption_policy ? class->preemption_policy : "PreemptLowerPriority";
    if (policy && !streq(policy, computed))
        return refuse(
            arena, failure, pod,
            arena_printf(
                arena,
                "the string value of PreemptionPolicy (%s) must not be provided in pod spec; priority "
                "admission controller computed %s from the given PriorityClass name",
                policy, computed));
    json_set_int(arena, spec, "priority", class->value);
    json_set_string(arena, spec, "preemptionPolicy", computed);
    return 0;
}

int priority_admit_class(const struct priority_class *classes, size_t count, struct arena *arena,
                         const struct json *class, bool is_update, struct failure *failure)
{
    const char *name = json_string_or(json_at(class, "metadata.name"), "");
    const struct priority_class *other;

    if (!json_bool(json_get(class, "globalDefault")))
        return 0;
    other = find_default(classes, count);
    if (!other || (is_update && streq(other->name, name)))
        return 0;
    return failure_forbidden(
        failure, arena, "scheduling.k8s.io", "priorityclasses", name,
        arena_printf(arena, "PriorityClass %s is already marked as default. Only one default can exist",
                     other->name));
}
