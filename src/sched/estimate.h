/* estimate - how long a job takes, and how much faster it is on more GPUs.
 *
 * Work is measured in seconds alone on one GPU. A forecast says how much of it is left and how fast it goes
 * on each number of GPUs. It comes from samples (seconds per iteration by GPUs and sharing) that are kept per
 * (image, script, batch size), so that the second submission of the same job starts with a good one; sizes
 * that were never tried come from a scaling model with a prior; without samples the declared hours count. */
#pragma once

#include "base/cleanup.h"
#include "domain/workload.h"

#define CURVE_MAX           20
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
    double work_s;    /* left */
    double sigma;     /* of the logarithm of work_s */
    float shared;     /* rate when another job is on its card, relative to alone */
    bool measured;    /* false: only what the user declared */
    int64_t as_of_ms; /* when work_s was so; a running job has done some since. 0: work_s is as of now */
    float overrun;    /* 1, or less the more it is beyond what was expected: lowers its claim to extra GPUs */
};

/* Seconds left on `gpus` cards (interpolated), and the ends of an interval that holds it 4 times of 5. */
double forecast_rate(const struct forecast *f, uint32_t gpus);
double forecast_seconds(const struct forecast *f, uint32_t gpus, bool shared);
double forecast_low(const struct forecast *f, double seconds);
double forecast_high(const struct forecast *f, double seconds);

bool forecast_tried(const struct forecast *f, uint32_t gpus); /* was that number measured? */

/* Of a job nobody measured: declared hours, less the epochs done; FORECAST_TYPICAL_MS when nothing was
 * declared. */
void forecast_declared(const struct workload *w, int64_t now_ms, struct forecast *ret);

/* Leaves only the points on the upper concave hull from (0, 0): adding GPUs pays less and less. Returns how
 * many there are; `ret` has room for CURVE_MAX. */
uint32_t forecast_hull(const struct forecast *f, struct curve_point *ret);

/* ---- samples ---- */

struct estimator;

/* Which job this is; strings are borrowed for the call. */
struct estimate_key {
    const char *image, *script;
    uint32_t batch_size; /* per GPU */
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
/* training_set 0: not known; then epochs count as declared. */
void estimator_forecast(const struct estimator *est, const struct estimate_key *key, const struct workload *w,
                        uint64_t training_set, int64_t now_ms, struct forecast *ret);
/* Means kept for one key, for storing and showing: the i-th, or false. */
bool estimator_row(const struct estimator *est, const struct estimate_key *key, uint32_t i,
                   struct sample *ret);
