/* Generated jobs: a plain stream for measuring speed, and a lab as it lives through its days.
 * docs/scheduling.md describes both distributions. The same seed gives the same jobs. */
#include "sim/trace.h"

#include <math.h>
#include <stdlib.h>

#define HOUR_S 3600.0
#define DAY_S  86400.0

static double uniform(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (double)(*seed >> 11) * 0x1p-53;
}

static double normal(uint64_t *seed)
{
    return sqrt(-2 * log(uniform(seed) + 1e-12)) * cos(6.283185307 * uniform(seed));
}

static double clamp(double x, double low, double high)
{
    return fmin(fmax(x, low), high);
}

/* ---- a plain stream ---- */

static void generate_stream(struct trace *trace, uint32_t count, uint64_t seed)
{
    static const struct {
        double upto;
        uint32_t gpus;
    } gangs[] = {{0.70, 1}, {0.85, 2}, {0.94, 4}, {0.99, 8}, {1.01, 16}};
    double at = 0;

    trace->name = arena_printf(&trace->arena, "generated/%u", count);
    vec_reserve(&trace->jobs, count);
    for (uint32_t i = 0; i < count; i++) {
        double u = uniform(&seed), length = normal(&seed);
        struct trace_job job = {.name = arena_printf(&trace->arena, "job-%u", i), .comm = 0.08};
        size_t k = 0;

        while (u > gangs[k].upto)
            k++;
        job.gpus = job.gpus_min = job.gpus_max = gangs[k].gpus;
        job.user = arena_printf(&trace->arena, "u%u", (uint32_t)(pow(uniform(&seed), 2) * 500));
        job.alone_s = clamp(exp(7.6 + 1.6 * length), 30, 30 * DAY_S);
        job.submit_s = floor(at);
        at += -log(uniform(&seed) + 1e-12) * GENERATE_GAP_S * 100000 / count;
        trace_push(trace, job, job.alone_s > 600 ? 10 : 1);
    }
}

/* ---- a lab ---- */

struct lab {
    double gpus, users, days, load, elastic, jitter, early;
};

static const struct {
    const char *key;
    size_t offset;
    double low, high, fallback;
} lab_fields[] = {
    {"gpus", offsetof(struct lab, gpus), 8, 64, 32},       /* nodes of 8, the last may be smaller */
    {"users", offsetof(struct lab, users), 10, 50, 20},    /* some far more eager than others */
    {"days", offsetof(struct lab, days), 1, 60, 7},        /* the first is a Monday */
    {"load", offsetof(struct lab, load), 0.1, 3, 0.9},     /* work that comes per GPU time there is */
    {"elastic", offsetof(struct lab, elastic), 0, 1, 0.5}, /* of the trainings that could be */
    {"jitter", offsetof(struct lab, jitter), 0, 1, 0.05},  /* sigma of the logarithm of an epoch's time */
    {"early", offsetof(struct lab, early), 0, 1, 0.1},     /* trainings that stop before their last epoch */
};

/* What people run. Shares are of jobs; most of the GPU time is in the long ones. */
static const struct lab_kind {
    double share, median_s, sigma, low_s, high_s; /* on its gang */
    double epoch_s;                               /* typical */
    double gangs[4];                              /* shares of 1, 2, 4, 8 GPUs */
    double sweep;                                 /* how often it comes with several like it */
    bool training;
} lab_kinds[] = {
    {0.45, 240, 0.9, 20, 1800, 300, {0.90, 0.08, 0.02, 0}, 0, false},           /* debugging */
    {0.30, 3000, 0.8, 600, 4 * HOUR_S, 150, {0.85, 0.12, 0.03, 0}, 0.10, true}, /* short */
    {0.20, 8 * HOUR_S, 0.7, 2 * HOUR_S, 40 * HOUR_S, 600, {0.55, 0.25, 0.18, 0.02}, 0.15, true}, /* long */
    {0.05, 6 * HOUR_S, 0.6, HOUR_S, 24 * HOUR_S, 600, {0, 0, 0.6, 0.4}, 0, true},                /* large */
};

static int lab_read(struct str text, struct lab *lab, struct err *err)
{
    struct str word, key;

    for (size_t i = 0; i < ARRAY_LEN(lab_fields); i++)
        memcpy((char *)lab + lab_fields[i].offset, &lab_fields[i].fallback, sizeof(double));
    while (text.len > 0 && str_split(&text, ',', &word)) {
        char number[32] = "", *end = number;
        double value = NAN;
        size_t i = 0;

        if (str_split(&word, '=', &key) && word.len > 0 && word.len < sizeof(number)) {
            memcpy(number, word.s, word.len);
            value = strtod(number, &end);
        }
        while (i < ARRAY_LEN(lab_fields) && !str_eq(key, str_from(lab_fields[i].key)))
            i++;
        if (i == ARRAY_LEN(lab_fields))
            return err_set(
                err, ERR_INVALID,
                "unknown setting '%.*s' of a lab: there are gpus, users, days, load, elastic, jitter, early",
                STR_ARG(key));
        if (end == number || *end || !(value >= lab_fields[i].low && value <= lab_fields[i].high))
            return err_set(err, ERR_INVALID, "lab: %s must be a number from %g to %g", lab_fields[i].key,
                           lab_fields[i].low, lab_fields[i].high);
        memcpy((char *)lab + lab_fields[i].offset, &value, sizeof(value));
    }
    lab->gpus = floor(lab->gpus);
    lab->users = floor(lab->users);
    return 0;
}

/* How busy people are in an hour of the week. */
static double lab_hour(uint32_t hour)
{
    static const double day[24] = {0.10, 0.06, 0.04, 0.03, 0.03, 0.03, 0.05, 0.15, 0.50, 0.90, 1.10, 1.10,
                                   0.80, 0.95, 1.15, 1.15, 1.10, 1.00, 0.70, 0.45, 0.40, 0.40, 0.35, 0.20};

    return day[hour % 24] * (hour / 24 % 7 >= 5 ? 0.3 : 1);
}

static double lab_submit(const struct lab *lab, uint64_t *seed)
{
    uint32_t hours = (uint32_t)(lab->days * 24), hour = 0;
    double sum = 0, at = uniform(seed);

    for (uint32_t h = 0; h < hours; h++)
        sum += lab_hour(h);
    for (at *= sum; hour + 1 < hours && at >= lab_hour(hour); hour++)
        at -= lab_hour(hour);
    return floor((hour + uniform(seed)) * HOUR_S);
}

static uint32_t lab_user(const struct lab *lab, uint64_t *seed)
{
    double sum = 0, at = uniform(seed);
    uint32_t user = 0;

    for (uint32_t u = 0; u < (uint32_t)lab->users; u++)
        sum += pow(u + 1, -0.7);
    for (at *= sum; user + 1 < (uint32_t)lab->users && at >= pow(user + 1, -0.7); user++)
        at -= pow(user + 1, -0.7);
    return user;
}

/* Epochs of their own lengths, each a segment; the first is slower. */
static void lab_push(struct trace *trace, const struct lab *lab, struct trace_job job, uint32_t epochs,
                     uint64_t *seed)
{
    double mean_s = job.alone_s / epochs;

    job.segment0 = (uint32_t)trace->segments.len;
    job.segments = epochs;
    job.alone_s = 0;
    for (uint32_t i = 0; i < epochs; i++) {
        double epoch_s = mean_s * exp(lab->jitter * normal(seed)) * (i == 0 ? 1.1 : 1);

        job.alone_s += epoch_s;
        vec_push(&trace->segments, (struct segment){1, epoch_s, 0});
    }
    vec_push(&trace->jobs, job);
}

static double ring_rate(double comm, uint32_t gpus)
{
    return gpus / (1 + comm * 2 * (gpus - 1) / gpus);
}

static struct trace_job lab_job(const struct lab *lab, const struct lab_kind *kind, uint64_t *seed)
{
    struct trace_job job = {.comm = 0.03 + 0.12 * uniform(seed)};
    double u = uniform(seed), p = uniform(seed);
    uint32_t most = (uint32_t)lab->gpus < 8 ? 4 : 8;
    size_t k = 0;

    for (; k < 3 && u >= kind->gangs[k]; k++)
        u -= kind->gangs[k];
    job.gpus = job.gpus_min = job.gpus_max = 1U << k;
    job.alone_s = clamp(kind->median_s * exp(kind->sigma * normal(seed)), kind->low_s, kind->high_s);
    if (kind->training && uniform(seed) < lab->elastic) {
        job.gpus_min = 1;
        job.gpus_max = job.gpus * 2 < most ? job.gpus * 2 : most;
    }
    job.priority = p < 0.1 ? -1 : p > 0.9 ? 1 : 0;
    job.app = UINT32_MAX;
    /* People are off by a factor of two, and say whole and half hours. */
    job.declared_s = job.alone_s * ring_rate(job.comm, job.gpus) * exp(0.7 * normal(seed));
    job.declared_s = fmax(ceil(job.declared_s / 1800), 1) * 1800;
    return job;
}

/* One job, or several like it within minutes. Returns the GPU time they bring. */
static double lab_submission(struct trace *trace, const struct lab *lab, uint64_t *seed)
{
    const struct lab_kind *kind = lab_kinds;
    double u = uniform(seed), sum = 0, at = lab_submit(lab, seed);
    uint32_t user = lab_user(lab, seed), count = 1;
    struct trace_job like;

    for (; kind < lab_kinds + ARRAY_LEN(lab_kinds) - 1 && u >= kind->share; kind++)
        u -= kind->share;
    like = lab_job(lab, kind, seed);
    if (uniform(seed) < kind->sweep)
        count = 3 + (uint32_t)(uniform(seed) * 6);
    for (uint32_t i = 0; i < count; i++) {
        struct trace_job job = like;
        double epoch_s = kind->epoch_s * exp(0.5 * normal(seed));
        uint32_t epochs;

        job.name = arena_printf(&trace->arena, "job-%zu", trace->jobs.len);
        job.user = arena_printf(&trace->arena, "user%u", user);
        job.submit_s = at + i * 7;
        job.alone_s *= count > 1 ? exp(0.1 * normal(seed)) : 1;
        epochs = (uint32_t)clamp(round(job.alone_s / epoch_s), 1, 200);
        if (kind->training && epochs > 4 && uniform(seed) < lab->early) {
            job.announced = epochs;
            epochs = (uint32_t)(epochs * (0.4 + 0.6 * uniform(seed)));
            job.alone_s *= (double)epochs / job.announced;
        }
        lab_push(trace, lab, job, epochs, seed);
        sum += job.alone_s * job.gpus;
    }
    return sum;
}

static int generate_lab(struct trace *trace, const struct trace_request *request, struct str text,
                        uint64_t seed, struct err *err)
{
    struct lab lab;
    double left;
    uint32_t whole, rest;

    if (lab_read(text, &lab, err) < 0)
        return -1;
    trace->name =
        arena_printf(&trace->arena, "lab/%u-%llu", (uint32_t)lab.gpus, (unsigned long long)request->seed);
    for (left = lab.load * lab.gpus * lab.days * DAY_S; left > 0 && trace->jobs.len < TRACE_JOBS_MAX;)
        left -= lab_submission(trace, &lab, &seed);
    whole = (uint32_t)lab.gpus / 8;
    rest = (uint32_t)lab.gpus % 8;
    return trace_cluster(trace,
                         request->cluster ? request->cluster
                         : rest > 0       ? arena_printf(&trace->arena, "%ux8x24576,1x%ux24576", whole, rest)
                                          : arena_printf(&trace->arena, "%ux8x24576", whole),
                         err);
}

int generate(struct trace *trace, const struct trace_request *request, struct err *err)
{
    uint64_t seed = request->seed * 0x9e3779b97f4a7c15ULL + 88172645463325252ULL, count = 0;
    struct str rest = str_from(request->generate), word;

    trace->model = &model_segments;
    trace->rules = *rules_find("berth");
    if (str_split(&rest, ':', &word) && str_eq(word, str_from("lab")))
        return generate_lab(trace, request, rest, seed, err);
    if (!str_to_uint(str_from(request->generate), &count) || count < 1 || count > TRACE_JOBS_MAX)
        return err_set(err, ERR_INVALID,
                       "--generate %s: write 1 to %d for so many jobs, or lab, or lab:gpus=32,users=30",
                       request->generate, TRACE_JOBS_MAX);
    generate_stream(trace, (uint32_t)count, seed);
    return trace_cluster(trace, request->cluster ? request->cluster : "1250x8", err);
}
