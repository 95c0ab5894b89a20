/* Cards of the model: at most two jobs on one, each slower for the other. */
#include "sim/engine.h"

#include <math.h>

static uint32_t *cards_of(const struct run *run, const struct slot *slot)
{
    return &run->on_card[2 * (run->card0[slot->node] + slot->card)];
}

/* The batch a job trains with now. */
static uint32_t batch_of(const struct run *run, uint32_t index)
{
    const struct trace_job *job = &run->trace->jobs.v[index];
    uint32_t epoch = run->jobs[index].p.epoch;

    for (uint32_t i = 0; i < job->segments; i++) {
        const struct segment *s = &run->trace->segments.v[job->segment0 + i];

        if (epoch < s->epochs || i + 1 == job->segments)
            return s->batch;
        epoch -= s->epochs;
    }
    return job->batch;
}

static double pair_factor(const struct run *run, uint32_t a, uint32_t b)
{
    const struct trace_job *ja = &run->trace->jobs.v[a], *jb = &run->trace->jobs.v[b];

    if (!run->trace->pairs)
        return 0.65;
    return pairs_factor(run->trace->pairs, ja->gpus, ja->app, batch_of(run, a), jb->app, batch_of(run, b));
}

float told_factor(void *of, uint64_t id, uint64_t with)
{
    return (float)pair_factor(of, (uint32_t)id - 1, (uint32_t)with - 1);
}

void refactor(struct run *run, uint32_t index)
{
    struct run_job *j = &run->jobs[index];
    double factor = 1;

    for (uint32_t i = 0; i < j->at.gpus && run->shares; i++) {
        const uint32_t *on = cards_of(run, &j->slots[i]);

        for (int k = 0; k < 2; k++)
            if (on[k] && on[k] != index + 1)
                factor = fmin(factor, fmax(pair_factor(run, index, on[k] - 1), 0.05));
    }
    j->at.factor = factor;
}

void occupy(struct run *run, uint32_t index, bool on)
{
    struct run_job *j = &run->jobs[index];

    for (uint32_t i = 0; i < j->at.gpus && run->shares; i++) {
        uint32_t *cards = cards_of(run, &j->slots[i]);
        uint32_t from = on ? 0 : index + 1, to = on ? index + 1 : 0, other;

        run->used += on && !cards[0] && !cards[1];
        if (cards[0] == from)
            cards[0] = to;
        else if (cards[1] == from)
            cards[1] = to;
        run->used -= !on && !cards[0] && !cards[1];
        other = cards[0] && cards[0] != index + 1 ? cards[0] : cards[1] != index + 1 ? cards[1] : 0;
        if (other && run->jobs[other - 1].running) {
            advance(run, other - 1, run->now);
            refactor(run, other - 1);
            set_due(run, other - 1);
        }
    }
}
