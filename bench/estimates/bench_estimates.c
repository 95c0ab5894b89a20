/* bench_estimates - how true the estimates are that people are shown.
 *
 *     bench_estimates [POLICY [SEED]]    labs of seeds SEED to SEED + 3 (fair, 1)
 *     bench_estimates --check            fails when the estimates are worse than promised (a test)
 *
 * Generated labs are simulated with the daemon's own code (life, sched, the estimator): jobs declare hours
 * that are off by a factor of two, epochs take longer or shorter by chance, the first one of a run is slower,
 * some trainings stop early, elastic ones are resized, jobs are preempted, and jobs nobody foresaw come
 * first. What life_when() says is noted at certain moments and compared with what happened. An error is
 * relative to the time that was really left; an interval should hold 4 times of 5. */
#include "base/mem.h"
#include "life/life.h"
#include "sim/sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SEEDS 4

/* What was asked, and when. */
enum question {
    END_AT_START,   /* of a job that has just begun to run: declared hours */
    END_EPOCH_1,    /* after one epoch */
    END_EPOCH_2,    /* after two */
    END_HALF,       /* when half of its epochs are done */
    START_ANY,      /* of a job that has just come and waits */
    START_KNOWN,    /* the same, all that run have had two epochs */
    START_STOPPING, /* the same, behind one of them that has to stop */
    QUESTIONS,
};

static const char *const titles[QUESTIONS] = {
    [END_AT_START] = "end, asked at the start (declared hours)",
    [END_EPOCH_1] = "end, asked after one epoch",
    [END_EPOCH_2] = "end, asked after two epochs",
    [END_HALF] = "end, asked after half of the epochs",
    [START_ANY] = "start, asked when the job comes",
    [START_KNOWN] = "start, behind jobs with two measured epochs",
    [START_STOPPING] = "start, behind such a job that has to stop",
};

struct answer {
    uint64_t id;
    enum question question;
    int64_t asked_ms;
    struct when when;
};

struct tally {
    VEC(double) errors, ratios;
    uint32_t held, early, late;
};

struct bench {
    struct tally tallies[QUESTIONS];
    VEC(struct answer) open;
    uint32_t *seen; /* per job: questions that were asked */
};

static void tally_add(struct tally *t, const struct answer *a, int64_t real_ms)
{
    double left = (double)(real_ms - a->asked_ms) / 1000;

    if (left < 1 || a->when.at_ms == INT64_MAX)
        return;
    vec_push(&t->errors, fabs((double)(a->when.at_ms - real_ms)) / 1000 / left);
    vec_push(&t->ratios, (double)(a->when.at_ms - a->asked_ms) / 1000 / left);
    t->held += real_ms >= a->when.lo_ms - 1000 && real_ms <= a->when.hi_ms + 1000;
    t->early += real_ms < a->when.lo_ms - 1000;
    t->late += real_ms > a->when.hi_ms + 1000;
}

static void ask(struct bench *b, const struct life_job *job, enum question question, int64_t now,
                struct when when)
{
    if (b->seen[job->w.id] >> question & 1)
        return;
    b->seen[job->w.id] |= 1U << question;
    vec_push(&b->open, (struct answer){job->w.id, question, now, when});
}

static void ask_end(struct bench *b, struct life *life, const struct life_job *job, int64_t now)
{
    uint32_t done = job->w.epochs_done, total = job->w.epochs_total;
    enum question question = done == 0   ? END_AT_START
                             : done == 1 ? END_EPOCH_1
                             : done == 2 ? END_EPOCH_2
                                         : END_HALF;
    struct life_when when;

    if (job->w.phase != PHASE_RUNNING || total < 5 || (question == END_HALF && done != total / 2))
        return;
    if (b->seen[job->w.id] >> question & 1)
        return;
    life_when(life, job, now, &when);
    ask(b, job, question, now, (struct when){when.end_ms, when.end_lo_ms, when.end_hi_ms});
}

static bool is_measured(const struct life_job *job)
{
    return job->w.epochs_done >= 2;
}

static void ask_start(struct bench *b, struct life *life, const struct life_job *job, int64_t now)
{
    struct life_walk walk = {0};
    struct life_when when;
    struct when start;
    bool known = true; /* all that run are measured, and nobody waits before it */

    if (b->seen[job->w.id] >> START_ANY & 1 || job->run > 0)
        return;
    life_when(life, job, now, &when);
    start = (struct when){when.start_ms, when.start_lo_ms, when.start_hi_ms};
    ask(b, job, START_ANY, now, start);
    while (life_each(life, &walk)) {
        const struct life_job *other = walk.job;

        if (!phase_holds(other->w.phase))
            continue;
        known = known && is_measured(other);
        if (other->w.phase == PHASE_STOPPING && other->stop.by_id == job->w.id && is_measured(other))
            ask(b, job, START_STOPPING, now, start);
    }
    if (known && life_wait(life, job, now)->position == 1)
        ask(b, job, START_KNOWN, now, start);
}

/* Whether what was asked for has happened. */
static bool settled(struct bench *b, struct life *life, const struct answer *a, int64_t now)
{
    const struct life_job *job = life_find(life, a->id);

    if (job && (a->question < START_ANY || job->run == 0))
        return false;
    tally_add(&b->tallies[a->question], a, job ? job->placed_ms : now);
    return true;
}

static void watch(void *of, struct life *life, int64_t now)
{
    struct bench *b = of;
    struct life_walk walk = {0};
    size_t to = 0;

    for (size_t i = 0; i < b->open.len; i++)
        if (!settled(b, life, &b->open.v[i], now))
            b->open.v[to++] = b->open.v[i];
    b->open.len = to;
    while (life_each(life, &walk))
        if (phase_is_waiting(walk.job->w.phase))
            ask_start(b, life, walk.job, now);
        else
            ask_end(b, life, walk.job, now);
}

static int double_cmp(const void *va, const void *vb)
{
    double a = *(const double *)va, b = *(const double *)vb;

    return (a > b) - (a < b);
}

static double quantile(double *v, size_t len, double q)
{
    qsort(v, len, sizeof(*v), double_cmp);
    return len ? v[(size_t)(q * (double)(len - 1))] : NAN;
}

static void run_lab(struct bench *b, const char *policy, const char *lab, uint64_t seed)
{
    struct trace_request request = {.generate = lab, .seed = seed};
    struct sim_options options = {
        .policy = policy, .seed = seed, .restart_s = -1, .learned = true, .watch = watch, .of = b};
    CLEANUP(trace_free) struct trace *trace = NULL;
    struct sim_result result;
    struct err err = {0};

    if (trace_load(&request, &trace, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    b->seen = mem_zalloc(sizeof(*b->seen) * (trace->jobs.len + 2));
    b->open.len = 0;
    if (sim_run(trace, &options, &result, &err) < 0) {
        (void)fprintf(stderr, "%s\n", err.msg);
        exit(1);
    }
    free(b->seen);
}

/* What docs/queue.md promises. 0: nothing. */
static const struct {
    double median, held_low, held_high;
} promised[QUESTIONS] = {
    [END_EPOCH_2] = {0.15, 0.7, 0.9},
    [END_HALF] = {0.15, 0.7, 0.9},
    [START_ANY] = {0, 0.7, 0.9},
    [START_KNOWN] = {0.3, 0.7, 0.9},
};

static bool print_row(enum question q, struct tally *t)
{
    double n = (double)t->errors.len, median = quantile(t->errors.v, t->errors.len, 0.5), held = t->held / n;

    printf("%-46s %6zu %7.1f%% %7.0f%% %8.2f %8.1f %8.1f %8.1f\n", titles[q], t->errors.len, 100 * median,
           100 * quantile(t->errors.v, t->errors.len, 0.9), quantile(t->ratios.v, t->ratios.len, 0.5),
           100 * held, 100 * t->early / n, 100 * t->late / n);
    vec_done(&t->errors);
    vec_done(&t->ratios);
    return (promised[q].median <= 0 || median <= promised[q].median) &&
           (promised[q].held_low <= 0 || (held >= promised[q].held_low && held <= promised[q].held_high));
}

int main(int argc, char **argv)
{
    static const char *const labs[] = {"lab:gpus=8,users=10", "lab:gpus=16,users=15,load=0.8",
                                       "lab:gpus=32,users=30,jitter=0.1", "lab:gpus=64,users=50,load=1.1"};
    bool check = argc > 1 && streq(argv[1], "--check"), kept = true;
    const char *policy = argc > 1 && !check ? argv[1] : "fair";
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    struct bench b = {0};

    if (!sched_policy_find(policy)) {
        (void)fprintf(stderr, "no policy '%s'\n", policy);
        return 2;
    }
    for (uint64_t seed = first; seed < first + SEEDS; seed++)
        for (size_t i = 0; i < ARRAY_LEN(labs); i++)
            run_lab(&b, policy, labs[i], seed);
    printf("%-46s %6s %8s %8s %8s %8s %8s %8s\n", policy, "asked", "median", "p90", "ratio", "held %",
           "early %", "late %");
    for (size_t q = 0; q < QUESTIONS; q++)
        kept = print_row((enum question)q, &b.tallies[q]) && kept;
    vec_done(&b.open);
    return check && !kept;
}
