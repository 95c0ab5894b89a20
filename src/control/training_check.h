/* training_check - what can be said against a training job when it is submitted, rather than after an hour in
 * the queue. Pure: what only the machine knows (folders, ports) is asked through functions. */
#pragma once

#include "base/err.h"
#include "base/json.h"

#include <stdbool.h>
#include <stdint.h>

struct training_facts {
    uint32_t largest_card_mib; /* 0: there are none, or it is not known */
    const char *datasets;      /* folder that becomes /data; NULL: none */
    bool low_ports;            /* may have node ports below 1024 */
    const char *snapshots;     /* where snapshots go when the job does not say; NULL: nowhere in particular */
    void *arg;
    /* Whether the submitter may read (and, `write`, change or make) a folder; ERR with why not. NULL: not
     * asked. */
    int (*folder)(void *arg, const char *path, bool write, struct err *err);
    /* Whether the submitter may read that file. NULL: not asked. */
    int (*file)(void *arg, const char *path, struct err *err);
    /* Whether a node port is free; ERR with who has it. NULL: not asked. */
    int (*port)(void *arg, uint16_t port, struct err *err);
};

/* The first thing wrong with a TrainingJob's spec, as a sentence that names the option of run-scheduler and
 * the way out. ERR_INVALID, ERR_FORBIDDEN (a folder), ERR_EXISTS (a port). */
int training_check(const struct json *spec, const struct training_facts *facts, struct err *err);
