/* quota - ResourceQuota: what a namespace uses, and refusing what would be too much.
 *
 * Usage is always added up from the objects themselves, never from status.used, so that two requests in the
 * same moment cannot slip through and a new quota counts from its first moment on. */
#pragma once

#include "control/control.h"
#include "control/resources.h"
#include "objects/failure.h"
#include "objects/object.h"

/* What one object takes, under all names a quota can have for it. */
struct quota_usage {
    struct resource_list resources;
    bool is_pod;
    bool terminating, best_effort;
    const char *priority_class; /* NULL: none */
    int64_t lives_until;        /* from then on it counts only as an object; INT64_MAX: no end known */
};
void quota_measure(const struct kind *kind, const struct json *doc, struct arena *arena,
                   struct quota_usage *ret);
/* Whether an update to an object of this kind can change what it takes. */
bool quota_counts_updates(const struct kind *kind);

struct quota_scope {
    const char *name, *op;
    const struct json *values;
};
struct quota {
    const char *name;
    struct resource_list hard;
    struct quota_scope *scopes;
    size_t scope_count;
};
void quota_read(const struct json *doc, struct arena *arena, struct quota *ret);
/* Zero for every amount of the quota: where quota_add starts. */
void quota_zero(const struct quota *quota, struct arena *arena, struct resource_list *ret);
void quota_add(const struct quota *quota, const struct quota_usage *usage, int64_t now,
               struct resource_list *used);
/* Whether objects of this kind matter to the quota. */
bool quota_limits_kind(const struct quota *quota, const struct kind *kind);

/* Refuses (403) what exceeds the quota or lacks amounts it asks for. old: usage before an update, or NULL.
 * used: of everything there is, old included. */
struct quota_request {
    const struct kind *kind;
    const char *name;
    const struct json *doc;
    const struct quota_usage *usage, *old;
    int64_t now;
    uint32_t copies; /* so many of it at once; 0: one */
};
int quota_admit(const struct quota *quota, const struct resource_list *used,
                const struct quota_request *request, struct arena *arena, struct failure *failure);

void quota_look(const struct object *object, const struct quota *quota, const struct resource_list *used,
                struct effects *effects);
