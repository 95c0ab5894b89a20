/* resources - lists of named amounts ({"cpu": "100m", "memory": "1Gi"}), and what a pod adds up to. */
#pragma once

#include "base/json.h"
#include "objects/quantity.h"

struct resource {
    const char *name; /* borrowed */
    struct quantity amount;
};

/* Zero-initialised is empty. Lives in an arena; sorted by name. */
struct resource_list {
    struct resource *v;
    size_t len, cap;
};
#define RESOURCE_LIST_EACH(list, it)                                                                         \
    for (struct resource *it = (list)->v, *it##_end = it ? it + (list)->len : it; it < it##_end; it++)

void resource_list_read(struct resource_list *list, struct arena *arena,
                        const struct json *doc); /* adds what is no junk */
struct quantity *resource_list_find(const struct resource_list *list,
                                    const char *name); /* NULL when absent */
/* All three make the entry when it is absent. */
void resource_list_set(struct resource_list *list, struct arena *arena, const char *name,
                       const struct quantity *amount);
void resource_list_add(struct resource_list *list, struct arena *arena, const char *name,
                       const struct quantity *amount);
void resource_list_max(struct resource_list *list, struct arena *arena, const char *name,
                       const struct quantity *amount);
void resource_list_write(const struct resource_list *list, struct arena *arena, struct json *parent,
                         const char *key);

/* What all containers of a pod ask for together; init containers count where they need more. `which` is
 * "requests" or "limits". */
void pod_resources(const struct json *spec, const char *which, bool with_overhead, struct arena *arena,
                   struct resource_list *ret);
bool is_extended_resource(const char *name); /* nvidia.com/gpu: has a domain that is not Kubernetes' own */
