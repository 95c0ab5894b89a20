/* How fast a job made of segments is: an epoch takes what the trace says on the job's gang; on other numbers
 * of GPUs as a ring all-reduce has it (the scaling model of sched/estimate.c). */
#include "sim/trace.h"

#include <math.h>

static double ring_rate(double comm, double gpus)
{
    return gpus / (1 + comm * 2 * (gpus - 1) / gpus);
}

static double speed(const struct trace_job *job, const struct at *at)
{
    if (at->gpus == job->gpus)
        return at->factor;
    return at->factor * ring_rate(job->comm, at->gpus) / ring_rate(job->comm, job->gpus);
}

/* The segment of an epoch. */
static const struct segment *segment_of(const struct trace *trace, const struct trace_job *job,
                                        uint32_t epoch)
{
    const struct segment *s = &trace->segments.v[job->segment0], *last = s + job->segments - 1;

    while (s < last && epoch >= s->epochs) {
        epoch -= s->epochs;
        s++;
    }
    return s;
}

static uint32_t epochs(const struct trace *trace, uint32_t index)
{
    const struct trace_job *job = &trace->jobs.v[index];
    uint32_t sum = 0;

    for (uint32_t i = 0; i < job->segments; i++)
        sum += trace->segments.v[job->segment0 + i].epochs;
    return sum;
}

static bool run(const struct trace *trace, uint32_t index, const struct at *at, struct progress *p,
                double seconds, double *used)
{
    const struct trace_job *job = &trace->jobs.v[index];
    double rate = speed(job, at);
    uint32_t all = epochs(trace, index);

    *used = 0;
    while (rate > 0) {
        double need = (segment_of(trace, job, p->epoch)->epoch_s - p->done) / rate;

        if (need > seconds + 1e-9) {
            p->done += seconds * rate;
            *used += seconds;
            return false;
        }
        *used += need;
        seconds = fmax(seconds - need, 0);
        p->epoch++;
        p->done = 0;
        if (p->epoch == all)
            return true;
        if (seconds <= 0)
            return false;
    }
    *used += seconds;
    return false;
}

/* Seconds on the gang. */
static double work_left(const struct trace *trace, const struct trace_job *job, const struct progress *p)
{
    double sum = -p->done;
    uint32_t skip = p->epoch;

    for (uint32_t i = 0; i < job->segments; i++) {
        const struct segment *s = &trace->segments.v[job->segment0 + i];
        uint32_t gone = skip < s->epochs ? skip : s->epochs;

        skip -= gone;
        sum += (s->epochs - gone) * s->epoch_s;
    }
    return fmax(sum, 0);
}

static double left(const struct trace *trace, uint32_t index, const struct at *at, const struct progress *p,
                   bool epoch)
{
    const struct trace_job *job = &trace->jobs.v[index];
    double rate = speed(job, at);

    if (epoch)
        return (segment_of(trace, job, p->epoch)->epoch_s - p->done) / rate;
    return work_left(trace, job, p) / rate;
}

static void profile(const struct trace *trace, uint32_t index, const struct progress *p, bool elastic,
                    struct forecast *ret)
{
    static const uint16_t sizes[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256};
    const struct trace_job *job = &trace->jobs.v[index];
    uint32_t low = elastic ? job->gpus_min : job->gpus, high = elastic ? job->gpus_max : job->gpus;
    double base = ring_rate(job->comm, low);

    *ret = (struct forecast){.sigma = 0.1, .shared = 0.65F, .overrun = 1};
    ret->measured = epochs(trace, index) > 1; /* else there is nothing to measure before the end */
    ret->curve[ret->points++] = (struct curve_point){low, 1};
    for (size_t i = 0; i < ARRAY_LEN(sizes) && ret->points < CURVE_MAX - 1; i++)
        if (sizes[i] > low && sizes[i] < high)
            ret->curve[ret->points++] =
                (struct curve_point){sizes[i], (float)(ring_rate(job->comm, sizes[i]) / base)};
    if (high > low)
        ret->curve[ret->points++] = (struct curve_point){high, (float)(ring_rate(job->comm, high) / base)};
    ret->work_s = work_left(trace, job, p) * ring_rate(job->comm, job->gpus) / base;
}

const struct model model_segments = {run, left, profile, epochs};
