/* node - what a cluster is made of: nodes with labels, CPU, memory and GPUs. A description only: what is
 * taken and what is free is the scheduler's (sched/space.h). Everything is borrowed. */
#pragma once

#include "domain/resources.h"

#include <stddef.h>

#define NODE_GPUS_MAX 64 /* cards of one node */

struct label {
    const char *key, *value;
};

struct labels {
    const struct label *v;
    size_t len;
};

const char *labels_get(struct labels labels, const char *key); /* NULL when absent */
/* Whether `labels` has what every label of `selector` asks. A selector's value may name several that will
 * do, with | between them (label values cannot contain one): "V100|A100". */
bool labels_match(struct labels labels, struct labels selector);

struct gpu {
    const char *uuid, *model; /* may be NULL */
    uint32_t mem_mib;
    bool declared; /* by the operator; no driver vouches for it */
    bool failed;   /* takes no new work */
};

struct node {
    const char *name;
    struct labels labels;
    const struct gpu *gpus;
    uint32_t gpu_count; /* at most NODE_GPUS_MAX */
    struct resources capacity;
    bool unschedulable; /* takes no new work */
};

struct cluster {
    const struct node *nodes;
    uint32_t node_count;
};

uint32_t cluster_gpus(const struct cluster *cluster);
uint32_t cluster_largest_node(const struct cluster *cluster); /* its GPUs */
/* Memory of the largest card, and of the smallest that has at least `mib` (0: none has). */
uint32_t cluster_largest_card(const struct cluster *cluster);
uint32_t cluster_smallest_card(const struct cluster *cluster, uint32_t mib);
