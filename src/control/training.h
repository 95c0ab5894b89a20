/* training - from a TrainingJob to the pod of one of its runs: environment, mounts, command, ports. Pure. */
#pragma once

#include "base/arena.h"
#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

#define TRAINING_NODES_MAX 64
#define TRAINING_CARDS_MAX 64 /* of one node */

#define TRAINING_LIBRARY   "/opt/berth/python" /* where containers find the Python library */

/* One node of a run and the cards the run has there. */
struct training_node {
    const char *name;
    const char *address; /* as the others reach it; NULL: not known */
    uint32_t card_count;
    uint32_t cards[TRAINING_CARDS_MAX];    /* indexes */
    const char *uuids[TRAINING_CARDS_MAX]; /* NULL: not known */
};

/* One incarnation of a training job, as it was placed. */
struct training_run {
    uint32_t number;      /* from 1 */
    uint32_t epochs_done; /* EPOCHS_DONE; JOB_RESTARTED once there is one */
    uint64_t steps_done;  /* BERTH_STEPS_DONE: steps of metrics go on from there */
    uint32_t num_gpus;    /* of all nodes */
    const struct training_node *nodes;
    uint32_t node_count; /* 0: no cards, any node */
    uint32_t rank;       /* the node this pod is for: place in nodes */
    uint32_t mib;        /* reserved on each card; 0: whole cards */
    const char *pod_name;
    const char *url;      /* BERTH_URL; NULL: not set */
    const char *datasets; /* folder that becomes /data; NULL: none */
    const char *library;  /* folder of the Python library, for TRAINING_LIBRARY; NULL: none */
};

/* The document of the pod of `run->rank`: everything but the binding (nodeName, the annotation with the
 * cards), which the queue adds, as it does name, namespace, owner and the labels RUN_LABEL, RANK_LABEL,
 * user and priority. restartPolicy is Never; resources.limits has nvidia.com/gpu. In the arena. */
struct json *training_pod(struct arena *arena, const struct json *trainingjob,
                          const struct training_run *run);
