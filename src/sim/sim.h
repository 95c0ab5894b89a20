/* sim - a policy run over a trace under a virtual clock. The scheduler is the one of the daemon
 * and so is the life cycle (life/life.h): the engine tells it what happened, carries out its effects, and
 * lets jobs advance as the trace's model says. Same arguments, same result (but for decision times). */
#pragma once

#include "base/buf.h"
#include "sim/trace.h"

struct life;

#define SIM_SAMPLES 512 /* of the plots over time */

struct sim_options {
    const char *policy;
    uint64_t seed;
    double noise_size, noise_speed; /* sigma of the logarithm of what forecasts are off by */
    double restart_s;               /* instead of the rules'; negative: theirs */
    bool learned; /* forecasts are the daemon's: declared hours, then measured epochs; noise does not count */
    /* After all that happens at one moment; for measuring (bench/estimates). NULL: nobody watches. */
    void (*watch)(void *of, struct life *life, int64_t now_ms);
    void (*progress)(void *of, double part);
    void *of;
};

struct sim_sample {
    float at_s, gpus, waiting;
};

/* What -o json prints, and what the plots need. */
struct sim_result {
    char trace[64], policy[24], rules[16], information[80];
    uint32_t jobs, gpus;
    double avg_jct_s, median_jct_s, p99_jct_s, makespan_s, worst_ftf, unfair_pct, gpu_hours,
        idle_while_waiting_gpu_hours, restarts_per_job, lost_work_s, gpu_alloc_pct, decision_us_p50,
        decision_us_p99;
    /* Jobs and users that waited for their first GPU behind somebody's later one (promise.h), and how long in
     * all; NaN where nobody looked. */
    double promise_jobs, promise_users, promise_s;
    double wall_s;
    struct sim_sample samples[SIM_SAMPLES];
    uint32_t sample_count;
    float jct[101]; /* quantiles, for the CDF */
};

/* The names a trace can be run with: those of sched, or of placement rules (openb). */
bool sim_policy_known(const struct trace *trace, const char *policy);
int sim_run(const struct trace *trace, const struct sim_options *options, struct sim_result *ret,
            struct err *err);
int sim_pack(const struct trace *trace, const struct sim_options *options, struct sim_result *ret,
             struct err *err);

/* Empty, but for what was run. */
void result_init(struct sim_result *ret, const struct trace *trace, const char *policy,
                 const char *information);

/* ---- reports ---- */

void report_json(const struct sim_result *results, size_t count, struct buf *buf);
void report_table(const struct sim_result *results, size_t count, struct buf *buf);
void report_html(const struct sim_result *results, size_t count, const char *command, struct buf *buf);
