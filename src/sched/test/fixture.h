/* fixture - a small cluster with a few jobs, for tests of single decisions. */
#pragma once

#include "base/test/test.h"
#include "sched/sched.h"

#define CARDS 8
#define JOBS  16

struct fixture {
    struct gpu cards[2][CARDS];
    struct node nodes[2];
    struct cluster cluster;
    struct workload jobs[JOBS];
    struct slot slots[JOBS][CARDS];
    struct forecast forecasts[JOBS];
    struct sched_view view;
    struct plan plan;
};

static inline void init(struct fixture *f, uint32_t nodes, uint32_t cards)
{
    memset(f, 0, sizeof(*f));
    for (uint32_t n = 0; n < nodes; n++) {
        f->nodes[n] = (struct node){.name = "n", .gpus = f->cards[n], .gpu_count = cards};
        f->nodes[n].capacity = (struct resources){64000, 262144};
        for (uint32_t c = 0; c < cards; c++)
            f->cards[n][c].mem_mib = 24576;
    }
    f->cluster = (struct cluster){f->nodes, nodes};
    f->view = (struct sched_view){.cluster = &f->cluster, .jobs = f->jobs, .options = sched_defaults};
}

static inline struct workload *job(struct fixture *f, const char *name, const char *user, uint32_t gpus)
{
    struct workload *w = &f->jobs[f->view.job_count++];

    *w = (struct workload){.id = f->view.job_count,
                           .name = name,
                           .user = user,
                           .submit_ms = f->view.job_count,
                           .resumable = true};
    w->demand.min_gpus = w->demand.max_gpus = gpus;
    return w;
}

/* Runs since half an hour on cards from `card` of node 0. */
static inline struct workload *running(struct fixture *f, struct workload *w, uint32_t card)
{
    uint32_t i = (uint32_t)(w - f->jobs);

    for (uint32_t k = 0; k < w->demand.min_gpus; k++)
        f->slots[i][k] = (struct slot){0, card + k, w->demand.mib ? w->demand.mib : 24576};
    w->phase = PHASE_RUNNING;
    w->placement = (struct placement){f->slots[i], w->demand.min_gpus};
    w->started_ms = -1800 * 1000;
    return w;
}

static inline void decide(struct fixture *f, const char *policy)
{
    sched_plan(sched_policy_find(policy), &f->view, 1000, &f->plan);
}

static inline const struct action *action_of(const struct fixture *f, const struct workload *w)
{
    VEC_EACH(&f->plan.actions, action)
        if (&f->jobs[action->job] == w)
            return action;
    return NULL;
}

static inline void done(struct fixture *f)
{
    plan_done(&f->plan);
}
