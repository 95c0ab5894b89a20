/* Traces of rigid jobs: shockwave's (epochs that change their length), philly-vc's and Berth's own CSV. */
#include "base/mem.h"
#include "sim/csv.h"
#include "sim/trace.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- shockwave ---- */

enum { SW_JOB, SW_SUBMIT, SW_GPUS, SW_MODEL, SW_BATCH, SW_EPOCHS, SW_ALONE, SW_MEM };
static const struct csv_column shockwave_jobs[] = {{"job", 0},         {"submit_s", 0},   {"gpus", 0},
                                                   {"model", 0},       {"batch", 0},      {"epochs", 0},
                                                   {"exclusive_s", 0}, {"mem_mib_max", 0}};
enum { SEG_JOB, SEG_EPOCHS, SEG_BATCH, SEG_EPOCH_S };
static const struct csv_column shockwave_segments[] = {
    {"job", 0}, {"epochs", 0}, {"batch", 0}, {"epoch_s", 0}};

static int shockwave_job(struct trace *trace, const struct csv *csv, struct err *err)
{
    struct trace_job job = {.name = arena_strdup(&trace->arena, csv_text(csv, SW_JOB))};

    if (csv_number(csv, SW_SUBMIT, 0, TRACE_TIME_MAX, &job.submit_s, err) < 0 ||
        csv_uint(csv, SW_GPUS, 1, 4096, &job.gpus, err) < 0 ||
        csv_uint(csv, SW_BATCH, 1, 10000000, &job.batch, err) < 0 ||
        csv_number(csv, SW_ALONE, 1e-3, TRACE_TIME_MAX, &job.alone_s, err) < 0 ||
        csv_uint(csv, SW_MEM, 1, 1 << 24, &job.mib, err) < 0)
        return -1;
    job.user = job.name; /* nobody is named: each is its own */
    job.gpus_min = job.gpus_max = job.gpus;
    job.app = UINT32_MAX;
    if (trace->pairs) {
        job.app = pairs_app(trace->pairs, csv_text(csv, SW_MODEL));
        if (job.app == UINT32_MAX)
            return csv_fault(csv, err, "unknown model '%.40s'", csv_text(csv, SW_MODEL));
    } else {
        job.mib = 0;
    }
    vec_push(&trace->jobs, job);
    return 0;
}

static int shockwave_segment(struct trace *trace, const struct csv *csv, struct trace_job **at,
                             struct err *err)
{
    struct segment s = {0};

    if (csv_uint(csv, SEG_EPOCHS, 1, 1000000, &s.epochs, err) < 0 ||
        csv_uint(csv, SEG_BATCH, 1, 10000000, &s.batch, err) < 0 ||
        csv_number(csv, SEG_EPOCH_S, 1e-6, TRACE_TIME_MAX, &s.epoch_s, err) < 0)
        return -1;
    if (!streq((*at)->name, csv_text(csv, SEG_JOB))) {
        struct trace_job *next = (*at)->segments > 0 ? *at + 1 : *at;

        if (next == trace->jobs.v + trace->jobs.len || !streq(next->name, csv_text(csv, SEG_JOB)))
            return csv_fault(csv, err, "job '%.40s' is not the next one of the list of jobs",
                             csv_text(csv, SEG_JOB));
        *at = next;
    }
    if ((*at)->segments++ == 0)
        (*at)->segment0 = (uint32_t)trace->segments.len;
    vec_push(&trace->segments, s);
    return 0;
}

static int read_pairs_beside(struct trace *trace, const char *folder, struct err *err)
{
    const char *at = arena_printf(&trace->arena, "%s/../gavel-colocation", folder);

    if (access(at, R_OK) < 0)
        return 0;
    return pairs_load(at, &trace->pairs, err);
}

int read_shockwave(struct trace *trace, const struct trace_request *request, struct err *err)
{
    const char *which = request->workload ? request->workload : "120";
    CLEANUP(csv_close) struct csv *jobs = NULL, *segments = NULL;
    struct trace_job *at;
    int got;

    trace->model = &model_segments;
    trace->rules = *rules_find("shockwave");
    trace->name = arena_printf(&trace->arena, "shockwave/%s", which);
    if (read_pairs_beside(trace, request->path, err) < 0 ||
        csv_open(arena_printf(&trace->arena, "%s/jobs_%s.csv", request->path, which), shockwave_jobs,
                 ARRAY_LEN(shockwave_jobs), &jobs, err) < 0 ||
        csv_open(arena_printf(&trace->arena, "%s/segments_%s.csv", request->path, which), shockwave_segments,
                 ARRAY_LEN(shockwave_segments), &segments, err) < 0)
        return -1;
    while ((got = csv_next(jobs, err)) > 0)
        if (shockwave_job(trace, jobs, err) < 0)
            return -1;
    at = trace->jobs.v;
    while (got == 0 && at && (got = csv_next(segments, err)) > 0) {
        if (shockwave_segment(trace, segments, &at, err) < 0)
            return -1;
        got = 0;
    }
    if (got < 0)
        return -1;
    VEC_EACH(&trace->jobs, job)
        if (job->segments == 0)
            return err_set(err, ERR_INVALID, "%s:1: job '%s' has no segments", request->path, job->name);
    return trace_cluster(trace,
                         request->cluster      ? request->cluster
                         : streq(which, "220") ? "16x4"
                                               : "8x4",
                         err);
}

/* ---- one row a job ---- */

void trace_push(struct trace *trace, struct trace_job job, uint32_t epochs)
{
    job.segment0 = (uint32_t)trace->segments.len;
    job.segments = 1;
    vec_push(&trace->segments, (struct segment){epochs, job.alone_s / epochs, 0});
    vec_push(&trace->jobs, job);
}

int read_philly(struct trace *trace, const struct trace_request *request, struct err *err)
{
    enum { NAME, SUBMIT, GPUS, DURATION, VC };
    static const struct csv_column columns[] = {
        {"job", 0}, {"submit_s", 0}, {"gpus", 0}, {"duration_s", 0}, {"vc", 0}};
    CLEANUP(csv_close) struct csv *csv = NULL;
    int got;

    trace->model = &model_segments;
    trace->rules = *rules_find("tiresias");
    trace->name = "philly-vc";
    if (csv_open(arena_printf(&trace->arena, "%s/jobs.csv", request->path), columns, ARRAY_LEN(columns), &csv,
                 err) < 0)
        return -1;
    while ((got = csv_next(csv, err)) > 0) {
        struct trace_job job = {.name = arena_strdup(&trace->arena, csv_text(csv, NAME)),
                                .user = arena_strdup(&trace->arena, csv_text(csv, VC))};

        if (csv_number(csv, SUBMIT, 0, TRACE_TIME_MAX, &job.submit_s, err) < 0 ||
            csv_uint(csv, GPUS, 1, 4096, &job.gpus, err) < 0 ||
            csv_number(csv, DURATION, 1e-3, TRACE_TIME_MAX, &job.alone_s, err) < 0)
            return -1;
        job.gpus_min = job.gpus_max = job.gpus;
        trace_push(trace, job, 1);
    }
    if (got < 0)
        return -1;
    return trace_cluster(trace, request->cluster ? request->cluster : "32x8", err);
}

enum {
    OWN_JOB,
    OWN_SUBMIT,
    OWN_GPUS,
    OWN_DURATION,
    OWN_USER,
    OWN_MIN,
    OWN_MAX,
    OWN_EPOCHS,
    OWN_MEM,
    OWN_PRIORITY,
    OWN_COMM
};
static const struct csv_column own_columns[] = {
    {"job", 0},      {"submit_s", 0}, {"gpus", 0},    {"duration_s", 0}, {"user", 1}, {"gpus_min", 1},
    {"gpus_max", 1}, {"epochs", 1},   {"mem_mib", 1}, {"priority", 1},   {"comm", 1}};

static int own_job(struct trace *trace, const struct csv *csv, struct err *err)
{
    struct trace_job job = {.name = arena_strdup(&trace->arena, csv_text(csv, OWN_JOB)), .comm = 0.08};
    uint32_t epochs = 1;
    double priority = 0;

    if (csv_has(csv, OWN_USER))
        job.user = arena_strdup(&trace->arena, csv_text(csv, OWN_USER));
    if (csv_number(csv, OWN_SUBMIT, 0, TRACE_TIME_MAX, &job.submit_s, err) < 0 ||
        csv_uint(csv, OWN_GPUS, 1, 4096, &job.gpus, err) < 0 ||
        csv_number(csv, OWN_DURATION, 1e-3, TRACE_TIME_MAX, &job.alone_s, err) < 0)
        return -1;
    job.gpus_min = job.gpus_max = job.gpus;
    if ((csv_has(csv, OWN_MIN) && csv_uint(csv, OWN_MIN, 1, job.gpus, &job.gpus_min, err) < 0) ||
        (csv_has(csv, OWN_MAX) && csv_uint(csv, OWN_MAX, job.gpus, 4096, &job.gpus_max, err) < 0) ||
        (csv_has(csv, OWN_EPOCHS) && csv_uint(csv, OWN_EPOCHS, 1, 1000000, &epochs, err) < 0) ||
        (csv_has(csv, OWN_MEM) && csv_uint(csv, OWN_MEM, 0, 1 << 24, &job.mib, err) < 0) ||
        (csv_has(csv, OWN_PRIORITY) && csv_number(csv, OWN_PRIORITY, -1e6, 1e6, &priority, err) < 0) ||
        (csv_has(csv, OWN_COMM) && csv_number(csv, OWN_COMM, 0, 100, &job.comm, err) < 0))
        return -1;
    job.priority = (int32_t)priority;
    if (trace->jobs.len >= TRACE_JOBS_MAX)
        return csv_fault(csv, err, "more than %d jobs", TRACE_JOBS_MAX);
    trace_push(trace, job, epochs);
    return 0;
}

int read_own(struct trace *trace, const struct trace_request *request, struct err *err)
{
    CLEANUP(csv_close) struct csv *csv = NULL;
    const char *slash = strrchr(request->path, '/');
    int got;

    trace->model = &model_segments;
    trace->rules = *rules_find("berth");
    trace->name = arena_strdup(&trace->arena, slash ? slash + 1 : request->path);
    if (csv_open(request->path, own_columns, ARRAY_LEN(own_columns), &csv, err) < 0)
        return -1;
    while ((got = csv_next(csv, err)) > 0)
        if (own_job(trace, csv, err) < 0)
            return -1;
    if (got < 0)
        return -1;
    return trace_cluster(trace, request->cluster ? request->cluster : "1x8", err);
}
