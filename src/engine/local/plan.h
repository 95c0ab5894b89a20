/* plan - what to do next for a pod: a pure function of its facts and the time. */
#pragma once

#include "engine/local/facts.h"

enum plan_act {
    PLAN_SANDBOX, /* make network and volumes */
    PLAN_PULL,    /* get the image of a container, then start it */
    PLAN_RESTART, /* begin another run: ctr_again, then as PULL */
    PLAN_STOP,    /* end a running container, with grace */
};

struct plan_step {
    enum plan_act act;
    size_t ctr;
};

struct pod_plan {
    struct plan_step steps[FACTS_CONTAINERS_MAX + 1];
    size_t len;
    int64_t wake_at;   /* look again then; 0: only when something happens */
    bool over;         /* nothing runs and nothing will */
    const char *phase; /* to show: "Pending" "Running" "Succeeded" "Failed" */
};

void plan_pod(const struct facts *facts, int64_t now, struct pod_plan *ret);
/* All init containers are through. */
bool plan_initialized(const struct facts *facts);
/* When the container may run again; 0: it will not. */
int64_t plan_restart_at(const struct facts *facts, const struct ctr *ctr);
