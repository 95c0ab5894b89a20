/* training_check - what can be said against a training job when it is submitted, rather than after an hour in
 * the queue. Pure: what only the machine knows (folders, ports) is asked through functions. */
#pragma once

#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

/* What the nodes have, whether in use or not. Names are borrowed. */
struct training_room {
    bool known;    /* some node has told what it has; otherwise nothing is refused for want of it */
    uint32_t gpus; /* of all nodes */
    uint32_t largest_card_mib;
    int64_t cpu_milli, mem_mib;      /* of the node that has most */
    const char *cpu_node, *mem_node; /* which that is */
};

struct training_facts {
    struct training_room room;
    const char *datasets;  /* folder that becomes /data; NULL: none */
    bool low_ports;        /* may have node ports below 1024 */
    const char *snapshots; /* where snapshots go when the job does not say; NULL: nowhere in particular */
    void *arg;
    /* Whether the submitter may read (and, `write`, change or make) a folder; ERR with why not. NULL: not
     * asked. */
    int (*folder)(void *arg, const char *path, bool write, struct err *err);
    /* Whether the submitter may read that file. NULL: not asked. */
    int (*file)(void *arg, const char *path, struct err *err);
    /* Whether a node port is free; ERR with who has it. NULL: not asked. */
    int (*port)(void *arg, uint16_t port, struct err *err);
};

/* GPUs that it cannot do without; 0: it runs on CPUs alone. */
uint32_t training_min_gpus(const struct json *spec);

/* The first thing wrong with a TrainingJob's spec, as a sentence that names the option of run-scheduler and
 * the way out. ERR_INVALID, ERR_FORBIDDEN (a folder), ERR_EXISTS (a port). */
int training_check(const struct json *spec, const struct training_facts *facts, struct err *err);
