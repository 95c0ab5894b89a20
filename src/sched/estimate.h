/* estimate - how long a job takes, how much faster it is on more GPUs, and when it ends.
 *
 * Work is measured in seconds alone on one GPU. A forecast says how much of it was left at one moment and how
 * fast it goes on each number of GPUs. The epochs of the job itself count first; before one has ended, what
 * other runs of the same image, script and batch size took; before there were any, the declared hours. Sizes
 * that were never tried come from a scaling model with a prior.
 *
 * forecast_end() is the only place that says when a job ends. It does not move while nothing new is learned.
 */
#pragma once

#include "base/cleanup.h"
#include "domain/workload.h"

#define CURVE_MAX           20
#define EPOCH_ROWS_MAX      12
#define FORECAST_TYPICAL_MS (4 * 3600 * (int64_t)1000)
#define ESTIMATE_KEYS_MAX   100000

struct curve_point {
    uint32_t gpus;
    float rate; /* work per second: 1 is one GPU alone */
};

struct forecast {
    struct curve_point curve[CURVE_MAX]; /* ascending; the first is min_gpus */
    uint32_t points;
    uint32_t tried;   /* bit i: curve[i] was measured */
    double work_s;    /* left at as_of_ms */
    double sigma;     /* of the logarithm of work_s */
    float epochs;     /* left at as_of_ms, all of the same length; 0: not known */
    float shared;     /* rate when another job is on its card, relative to alone */
    bool measured;    /* false: only what the user declared */
    int64_t as_of_ms; /* when work_s was so: a running job has done some since */
    float overrun;    /* 1, or less the more it is beyond what was expected: lowers its claim to extra GPUs */
};

double forecast_rate(const struct forecast *f, uint32_t gpus); /* interpolated */
bool forecast_tried(const struct forecast *f, uint32_t gpus);  /* was that number measured? */
/* Seconds that work_s takes on `gpus` cards, and the ends of an interval that holds it 4 times of 5. */
double forecast_seconds(const struct forecast *f, uint32_t gpus, bool shared);
double forecast_low(const struct forecast *f, double seconds);
double forecast_high(const struct forecast *f, double seconds);

/* A moment, and the ends of an interval that holds it 4 times of 5. INT64_MAX: never. */
struct when {
    int64_t at_ms, lo_ms, hi_ms;
};

/* When a job ends that has run on `gpus` cards since since_ms (0: does not run yet; then it counts from now).
 * What is overdue is put off in steps of a quarter of its time, so that this stays where it is while nothing
 * new is learned; it is never before now. */
struct when forecast_end(const struct forecast *f, uint32_t gpus, bool shared, int64_t since_ms,
                         int64_t now_ms);
/* Until when that stays as it is, if nothing new is learned; INT64_MIN: it does not. */
int64_t forecast_end_holds(const struct forecast *f, uint32_t gpus, int64_t since_ms, int64_t now_ms);
/* When the epoch ends that it is in, likewise; INT64_MAX when its epochs are not known. */
struct when forecast_epoch_end(const struct forecast *f, uint32_t gpus, bool shared, int64_t since_ms,
                               int64_t now_ms);
/* When a job that starts then will end. */
struct when forecast_end_after(const struct forecast *f, uint32_t gpus, struct when start);

/* Of a job nobody measured: declared hours, less the epochs done; FORECAST_TYPICAL_MS when nothing was
 * declared. As of its last epoch or its start while it runs, else of now_ms. */
void forecast_declared(const struct workload *w, int64_t now_ms, struct forecast *ret);
/* GPU seconds that it declared so, and forecast.overrun of a job that was allowed so many. */
double forecast_allowed_s(const struct workload *w, const struct forecast *f);
float forecast_overrun(const struct workload *w, double allowed_s, int64_t now_ms);

/* Leaves only the points on the upper concave hull from (0, 0): adding GPUs pays less and less. Returns how
 * many there are; `ret` has room for CURVE_MAX. */
uint32_t forecast_hull(const struct forecast *f, struct curve_point *ret);

/* ---- samples ---- */

struct estimator;

/* Epochs of one job on so many GPUs, over all its runs. This is what is stored with a job so that estimates
 * outlive the daemon: status.secondsPerEpoch of a TrainingJob. */
struct epoch_row {
    uint32_t gpus;
    bool shared;
    uint32_t count;
    double mean_s;
    double weight; /* of the mean: the first epoch of a run counts less */
    double sigma2; /* variance of the logarithm, as far as known */
};

struct epoch_log {
    struct epoch_row rows[EPOCH_ROWS_MAX]; /* no two for the same gpus and shared */
    uint32_t len;
};

/* One epoch has ended. first: the first of its run, which warms up. Nonsense is ignored. */
void epoch_log_add(struct epoch_log *epochs, uint32_t gpus, bool shared, double seconds, bool first);
/* A row that was stored; weight 0: as many as `count`. */
void epoch_log_load(struct epoch_log *epochs, const struct epoch_row *row);

/* Which job this is; strings are borrowed for the call. */
struct estimate_key {
    const char *image, *script;
    uint32_t batch_size;         /* per GPU */
    const struct epoch_log *own; /* the job's own epochs; NULL: it has had none */
};

struct sample {
    uint32_t gpus;
    bool shared;
    uint32_t iterations; /* how many the mean is over */
    double iteration_s;  /* mean */
    double epoch_s;      /* 0: no epoch ended; else all of it, with validation */
    double overhead_s;   /* of the start, when known */
};

struct estimator *estimator_new(void);
void estimator_free(struct estimator *est); /* NULL is fine */
DEFINE_CLEANUP(struct estimator *, estimator_free);
/* Nonsense (no GPU, no time, NaN) is ignored. Returns whether it was used. */
bool estimator_add(struct estimator *est, const struct estimate_key *key, const struct sample *sample);
/* One epoch of the job that `epochs` belongs to has ended: for it, and for others of the same key. */
void estimator_learn_epoch(struct estimator *est, const struct estimate_key *key, struct epoch_log *epochs,
                           uint32_t gpus, bool shared, double seconds, bool first);
/* training_set 0: not known. now_ms counts for a job that does not run; a running one's forecast is as of its
 * last epoch or its start. */
void estimator_forecast(const struct estimator *est, const struct estimate_key *key, const struct workload *w,
                        uint64_t training_set, int64_t now_ms, struct forecast *ret);
/* Means kept for one key, for storing and showing: the i-th, or false. */
bool estimator_row(const struct estimator *est, const struct estimate_key *key, uint32_t i,
                   struct sample *ret);
