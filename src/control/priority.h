/* priority - what a pod's priorityClassName means: its number and its preemption policy. */
#pragma once

#include "base/json.h"
#include "objects/failure.h"

struct priority_class {
    const char *name;
    int64_t value;
    const char *preemption_policy; /* NULL: PreemptLowerPriority */
    bool is_default;
};
void priority_class_read(const struct json *doc, struct arena *arena, struct priority_class *ret);

/* Fills in a new pod. 403: no such class, or the pod says something else itself. */
int priority_admit_pod(const struct priority_class *classes, size_t count, struct arena *arena,
                       struct json *pod, struct failure *failure);
/* 403: a second default class. */
int priority_admit_class(const struct priority_class *classes, size_t count, struct arena *arena,
                         const struct json *class, bool is_update, struct failure *failure);
