/* What a run comes to. */
#include "base/mem.h"
#include "sim/engine.h"

#include <math.h>
#include <stdlib.h>

void account(struct run *run)
{
    double dt = run->now - run->last_account;
    uint32_t idle = run->used < run->gpus ? run->gpus - run->used : 0;

    if (dt <= 0)
        return;
    run->last_account = run->now;
    run->busy_s += dt * run->used;
    run->contention += dt * fmax(1, (double)run->wanted / run->gpus);
    if (run->waiting > 0)
        run->idle_s += dt * idle;
}

void sample(struct run *run)
{
    if (run->sample_skip++ % run->sample_every != 0)
        return;
    vec_push(&run->samples, (struct sim_sample){(float)run->now, (float)run->used, (float)run->waiting});
    if (run->samples.len < 2 * SIM_SAMPLES)
        return;
    for (size_t i = 0; i < SIM_SAMPLES; i++)
        run->samples.v[i] = run->samples.v[2 * i];
    run->samples.len = SIM_SAMPLES;
    run->sample_every *= 2;
}

static int float_cmp(const void *va, const void *vb)
{
    float a = *(const float *)va, b = *(const float *)vb;

    return (a > b) - (a < b);
}

static int double_cmp(const void *va, const void *vb)
{
    double a = *(const double *)va, b = *(const double *)vb;

    return (a > b) - (a < b);
}

/* As numpy's percentile: linear between neighbours. */
static double quantile(const double *v, size_t len, double q)
{
    double at = q * (double)(len - 1);
    size_t i = (size_t)at;

    return i + 1 < len ? v[i] + (at - (double)i) * (v[i + 1] - v[i]) : v[len - 1];
}

static double fairness(const struct run *run, uint32_t index)
{
    const struct trace_job *job = &run->trace->jobs.v[index];
    const struct run_job *j = &run->jobs[index];
    double jct = j->end_s - job->submit_s, share;

    if (run->rules.ftf == FTF_TRACE)
        share = fmax(1, (double)run->trace->jobs.len / run->gpus);
    else
        share = jct > 0 ? fmax(1, j->contention_s / jct) : 1;
    return jct / (job->alone_s * share);
}

static void measure(const struct run *run, struct sim_result *ret)
{
    size_t len = run->trace->jobs.len;
    CLEANUP(free) double *jct = mem_alloc(sizeof(*jct) * (len + 1));
    double unfair = 0, starts = 0, end = 0;

    for (uint32_t i = 0; i < len; i++) {
        const struct run_job *j = &run->jobs[i];
        double rho = fairness(run, i);

        jct[i] = j->end_s - run->trace->jobs.v[i].submit_s;
        ret->avg_jct_s += jct[i] / (double)len;
        end = fmax(end, j->end_s);
        ret->worst_ftf = fmax(ret->worst_ftf, rho);
        unfair += rho > 1;
        starts += j->starts > 0 ? j->starts - 1 : 0;
        ret->gpu_hours += j->gpu_s / 3600;
        ret->lost_work_s += j->lost_s;
    }
    qsort(jct, len, sizeof(*jct), double_cmp);
    ret->median_jct_s = quantile(jct, len, 0.5);
    ret->p99_jct_s = quantile(jct, len, 0.99);
    for (int i = 0; i <= 100; i++)
        ret->jct[i] = (float)quantile(jct, len, i / 100.0);
    ret->makespan_s = end;
    ret->unfair_pct = 100 * unfair / (double)len;
    ret->restarts_per_job = starts / (double)len;
    ret->idle_while_waiting_gpu_hours = run->idle_s / 3600;
    ret->promise_jobs = ret->promise_users = ret->promise_s = NAN;
    if (run->promise) {
        struct promise_result broken;

        promise_sum(run->promise, &broken);
        ret->promise_jobs = broken.jobs;
        ret->promise_users = broken.users;
        ret->promise_s = broken.seconds;
    }
    ret->gpu_alloc_pct = end > 0 ? 100 * fmin(run->busy_s / (end * run->gpus), 1) : 0;
}

static const char *information_of(const struct run *run)
{
    const struct sim_options *options = run->options;

    if (run->is->forecasts && options->learned)
        return "declared time, then measured epochs";
    if (run->is->forecasts && (options->noise_size > 0 || options->noise_speed > 0))
        return "declared epochs, profiled speeds, both with error, learned online";
    return run->is->information;
}

void collect(struct run *run, struct sim_result *ret)
{
    result_init(ret, run->trace, run->options->policy, information_of(run));
    ret->jobs = (uint32_t)run->trace->jobs.len;
    ret->gpus = run->gpus;
    measure(run, ret);
    for (size_t i = 0; i < run->samples.len; i += (run->samples.len + SIM_SAMPLES - 1) / SIM_SAMPLES)
        ret->samples[ret->sample_count++] = run->samples.v[i];
    if (run->decisions.len > 0) {
        qsort(run->decisions.v, run->decisions.len, sizeof(float), float_cmp);
        ret->decision_us_p50 = run->decisions.v[run->decisions.len / 2];
        ret->decision_us_p99 = run->decisions.v[run->decisions.len * 99 / 100];
    }
}
