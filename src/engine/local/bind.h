/* bind - whether a pod fits on the node beside those that are there, and which cards it gets. Pure. The
 * scheduler will take its place. */
#pragma once

#include "base/json.h"

#define BIND_CARDS_MAX  64
#define BIND_GPU        "nvidia.com/gpu"
#define BIND_ANNOTATION "berth.dev/gpus" /* "0,3": the cards of a pod */

struct bind_need {
    int64_t cpu_milli, memory_bytes, pods, gpus;
    uint64_t cards; /* of those, the ones it has */
};

void bind_read(const struct json *pod, struct arena *arena, struct bind_need *ret);
void bind_add(struct bind_need *sum, const struct bind_need *need);
/* NULL: it fits. Else why not, "Insufficient cpu". node: the Node's document; used: of all pods on it. */
const char *bind_check(const struct json *pod, const struct bind_need *need, const struct json *node,
                       const struct bind_need *used);
/* The lowest free cards. False: too few. */
bool bind_cards(const struct bind_need *need, uint64_t taken, size_t cards, uint64_t *ret);
char *bind_cards_text(struct arena *arena, uint64_t cards);
uint64_t bind_cards_read(const char *text);
