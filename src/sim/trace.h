/* trace - jobs to simulate, the cluster they run on, how fast they are, and the rules under which the results
 * of others for the same jobs were made. A reader per format fills it; the engine and the policies know no
 * format.
 *
 * Work is counted in units of the trace's own model; the engine asks the model how far a job comes in some
 * seconds where it runs, and what a profile of it would say. */
#pragma once

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/vec.h"
#include "domain/node.h"
#include "sched/estimate.h"
#include "sched/sched.h"

#define TRACE_GPUS_MAX  1000000
#define TRACE_NODES_MAX 100000
#define TRACE_JOBS_MAX  1000000
#define TRACE_TIME_MAX  1e10 /* seconds */
#define GENERATE_GAP_S  1.35 /* mean seconds between the jobs of 100,000 */

/* Epochs of equal length, on the job's gang alone. */
struct segment {
    uint32_t epochs;
    double epoch_s;
    uint32_t batch;
};

struct trace_job {
    const char *name, *user; /* in the arena; user may be NULL */
    const char *like;        /* jobs of the same script have the same; NULL: its own name */
    uint32_t row;            /* as in the file: what comes at one instant stays in that order */
    double submit_s;
    uint32_t gpus;               /* the gang of rigid policies */
    uint32_t gpus_min, gpus_max; /* what elastic policies may choose from */
    uint32_t mib;                /* 0: whole cards */
    int32_t priority;
    uint32_t app, batch; /* of the model */
    uint32_t segment0, segments;
    double comm;        /* of the ring model of a job with segments: what an all-reduce costs */
    double alone_s;     /* on its gang, alone */
    double declared_s;  /* what its user said it takes on one GPU; 0: nothing */
    uint32_t announced; /* epochs its user said it has, when it stops early; 0: as many as it has */
};

enum ftf_rule {
    FTF_SEEN,  /* against the demand for GPUs while the job was there */
    FTF_TRACE, /* against all jobs of the trace per GPU */
};

/* What the reference results of a workload were made under. */
struct sim_rules {
    const char *name, *summary;
    double round_s;   /* decisions every so often; 0: at events */
    double first_s;   /* the first decision of rounds */
    double renew_s;   /* fifo, which stands for Gavel's: decides anew at most so often; 0: every round */
    double restart_s; /* without progress after a start */
    bool first_free;  /* but not after the first */
    bool at_epochs;   /* a stop waits for the end of the epoch */
    enum ftf_rule ftf;
    struct sched_options options;
};

enum batch_rule { BATCH_FIXED, BATCH_ADAPTIVE };

/* A place: GPUs per node, in the order they were taken. */
#define AT_NODES_MAX 1024
struct at {
    uint32_t gpus, nodes;
    const uint8_t *counts;
    double factor; /* of the speed alone: what neighbours on its cards leave */
};

struct progress {
    uint32_t epoch;
    double done; /* within all of it (pollux64) or of this epoch, in seconds on the gang (segments) */
};

struct trace;
struct model {
    /* Lets a job go on for up to `seconds`; *used is less when it finished. True: it has. */
    bool (*run)(const struct trace *trace, uint32_t job, const struct at *at, struct progress *p,
                double seconds, double *used);
    /* Seconds until it is done (or its epoch ends) there. */
    double (*left)(const struct trace *trace, uint32_t job, const struct at *at, const struct progress *p,
                   bool epoch);
    /* What is known after profiling, without error: curve and work left. */
    void (*profile)(const struct trace *trace, uint32_t job, const struct progress *p, bool elastic,
                    struct forecast *ret);
    uint32_t (*epochs)(const struct trace *trace, uint32_t job);
};

struct pollux;
struct pairs;
struct pods;

struct trace {
    const char *name;           /* "pollux64/w6" */
    VEC(struct trace_job) jobs; /* by submission */
    VEC(struct segment) segments;
    struct cluster cluster;
    struct sim_rules rules;
    enum batch_rule batch;
    const struct model *model;
    struct pollux *pollux;
    struct pairs *pairs; /* how jobs slow each other; NULL: they do not share */
    struct pods *pods;   /* what is packed instead of run (openb) */
    struct arena arena;
};

struct trace_request {
    const char *path, *workload, *rules, *cluster; /* NULL: what the format has */
    enum batch_rule batch;
    const char *generate; /* instead of a path: "2000" jobs, or "lab:gpus=32,users=30" */
    uint64_t seed;
};

/* Finds the format by the files that are there. ERR_INVALID with FILE:LINE. */
int trace_load(const struct trace_request *request, struct trace **ret, struct err *err);
void trace_free(struct trace *trace); /* NULL is fine */
DEFINE_CLEANUP(struct trace *, trace_free);

/* What a start of this job costs, where the rules leave it to the trace. */
double trace_restart_s(const struct trace *trace, uint32_t job);
/* "16x4", "16x4x16384,2x8" as nodes x cards [x MiB]. */
int trace_cluster(struct trace *trace, const char *spec, struct err *err);
const struct sim_rules *rules_find(const char *name); /* NULL: no such rules */
extern const struct sim_rules sim_rules[];            /* name NULL at the end */

/* ---- readers ---- */

int read_pollux(struct trace *trace, const struct trace_request *request, struct err *err);
int read_shockwave(struct trace *trace, const struct trace_request *request, struct err *err);
int read_philly(struct trace *trace, const struct trace_request *request, struct err *err);
int read_openb(struct trace *trace, const struct trace_request *request, struct err *err);
int read_own(struct trace *trace, const struct trace_request *request, struct err *err);
/* Fills the trace with jobs and its cluster as request->generate says. ERR_INVALID: cannot be read. */
int generate(struct trace *trace, const struct trace_request *request, struct err *err);
/* Adds a job of one segment: `epochs` of equal length. */
void trace_push(struct trace *trace, struct trace_job job, uint32_t epochs);
void pollux_free(struct pollux *pollux);
void pods_free(struct pods *pods);

extern const struct model model_segments, model_pollux;

/* ---- pairs (gavel-colocation) ---- */

int pairs_load(const char *folder, struct pairs **ret, struct err *err);
void pairs_free(struct pairs *pairs);
/* Speed of a, relative to alone, when b is on the same GPUs; 0: they cannot. */
double pairs_factor(const struct pairs *pairs, uint32_t gpus, uint32_t app_a, uint32_t batch_a,
                    uint32_t app_b, uint32_t batch_b);
uint32_t pairs_app(const struct pairs *pairs, const char *model); /* UINT32_MAX: not known */
