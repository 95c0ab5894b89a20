/* The scaling model: an iteration on k GPUs takes t1 * (1 + beta * f(k)) with f(k) = 2 (k - 1) / k, the
 * traffic of a ring all-reduce; as the batch is per GPU, k GPUs then do k / (1 + beta f(k)) times the work of
 * one. beta has a prior and is pulled by every size that was measured; a measured size counts as measured.
 * Sharing a card has a factor with a prior, too. All sums are plain means over iterations, so the order of
 * samples does not matter. */
#include "sched/estimate.h"

#include "base/break.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"

#include <math.h>

#define BETA_PRIOR    0.08
#define BETA_WEIGHT   20.0 /* iterations that the prior counts as */
#define SHARED_PRIOR  0.65
#define SHARED_WEIGHT 20.0
#define ROWS_MAX      32 /* per key */
#define WEIGHT_MAX    500.0

/* Of logarithms; chosen with bench/estimates so that intervals hold what they say. */
#define SIGMA_TYPICAL  1.5  /* nothing is known */
#define SIGMA_DECLARED 0.8  /* what users declare */
#define SIGMA_OTHERS   0.3  /* what other runs of the same took */
#define SIGMA_EPOCH    0.12 /* of one epoch's time, while there are too few to tell, */
#define EPOCH_WEIGHT   3.0  /* which counts as so many epochs */
#define SIGMA_DRIFT    0.08 /* of the epochs to come against those that were: restarts, early ends */
#define QUANTILE_80    1.28

#define LATE_STEP      1.1 /* what is overdue is put off by so much, again and again */
#define FIRST_WEIGHT   0.3 /* of the first epoch of a run */
#define OWN_WEIGHT_MAX 20.0
#define TRUST          0.3 /* own epochs on a size count as much as the model when they are so many */

struct row {
    uint32_t gpus;
    bool shared;
    double weight, iteration_s; /* iterations, capped; mean */
    double epochs, epoch_s;
};

struct model {
    VEC(struct row) rows;
};

struct estimator {
    struct map *models;
};

/* ---- curves ---- */

static const uint32_t sizes[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024};

static double ring(uint32_t gpus)
{
    return 2.0 * (gpus - 1) / gpus;
}

static double model_rate(double beta, uint32_t gpus)
{
    return gpus / (1 + beta * ring(gpus));
}

/* The sizes to think about: the smallest, the largest, and well-spaced ones between. */
static void curve_sizes(const struct demand *d, struct forecast *f)
{
    uint32_t unit = d->unit_gpus ? d->unit_gpus : 1, count = 0, skip;

    f->points = 0;
    if (d->min_gpus == d->max_gpus || d->min_gpus == 0) {
        f->curve[f->points++].gpus = d->min_gpus ? d->min_gpus : 1;
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
        count += sizes[i] > d->min_gpus && sizes[i] < d->max_gpus && sizes[i] % unit == 0;
    skip = count > CURVE_MAX - 2 ? count - (CURVE_MAX - 2) : 0;
    f->curve[f->points++].gpus = d->min_gpus;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        if (sizes[i] <= d->min_gpus || sizes[i] >= d->max_gpus || sizes[i] % unit != 0)
            continue;
        if (skip > 0 && (sizes[i] & (sizes[i] - 1)) != 0) {
            skip--; /* what is no power of two is left out first */
            continue;
        }
        if (f->points < CURVE_MAX - 1)
            f->curve[f->points++].gpus = sizes[i];
    }
    f->curve[f->points++].gpus = d->max_gpus;
}

double forecast_rate(const struct forecast *f, uint32_t gpus)
{
    double g0 = 0, r0 = 0;

    for (uint32_t i = 0; i < f->points; i++) {
        const struct curve_point *p = &f->curve[i];

        if (gpus <= p->gpus)
            return r0 + (p->rate - r0) * (gpus - g0) / (p->gpus - g0);
        g0 = p->gpus;
        r0 = p->rate;
    }
    return r0;
}

bool forecast_tried(const struct forecast *f, uint32_t gpus)
{
    for (uint32_t i = 0; i < f->points; i++)
        if (f->curve[i].gpus == gpus)
            return f->tried >> i & 1;
    return false;
}

double forecast_seconds(const struct forecast *f, uint32_t gpus, bool shared)
{
    double rate = forecast_rate(f, gpus ? gpus : 1) * (shared ? f->shared : 1);

    return rate > 0 ? f->work_s / rate : INFINITY;
}

double forecast_low(const struct forecast *f, double seconds)
{
    return seconds * exp(-QUANTILE_80 * f->sigma);
}

double forecast_high(const struct forecast *f, double seconds)
{
    return seconds * exp(QUANTILE_80 * f->sigma);
}

/* ---- ends ---- */

static const struct when never = {INT64_MAX, INT64_MAX, INT64_MAX};

static int64_t after(int64_t from_ms, double seconds)
{
    return seconds < 1e12 ? from_ms + llround(seconds * 1000) : INT64_MAX;
}

static int64_t not_before(int64_t ms, int64_t now_ms)
{
    return ms > now_ms ? ms : now_ms;
}

/* What was to take `seconds` and has taken `elapsed` already. */
static double put_off(double seconds, double elapsed)
{
    seconds = fmax(seconds, 0.1);
    while (seconds < elapsed)
        seconds *= LATE_STEP;
    return seconds;
}

/* Where the work that is left is counted from. */
static int64_t counted_from(const struct forecast *f, int64_t since_ms, int64_t now_ms)
{
    if (since_ms == 0)
        return now_ms;
    return f->as_of_ms > since_ms ? f->as_of_ms : since_ms;
}

struct when forecast_end(const struct forecast *f, uint32_t gpus, bool shared, int64_t since_ms,
                         int64_t now_ms)
{
    double total = forecast_seconds(f, gpus, shared), late;
    int64_t from = rule_broken("8") ? now_ms : counted_from(f, since_ms, now_ms);
    double elapsed = now_ms > from ? (double)(now_ms - from) / 1000 : 0;
    double epoch = f->epochs > 1 ? total / f->epochs : total;
    struct when ret;

    if (!isfinite(total))
        return never;
    late = put_off(epoch, elapsed) - epoch; /* the end of an epoch would have been reported */
    ret.at_ms = not_before(after(from, total + late), now_ms);
    ret.lo_ms = not_before(after(from, forecast_low(f, total) + late), now_ms);
    ret.hi_ms = not_before(after(from, forecast_high(f, total) + late), now_ms);
    return ret;
}

int64_t forecast_end_holds(const struct forecast *f, uint32_t gpus, int64_t since_ms, int64_t now_ms)
{
    double total = forecast_seconds(f, gpus, false), epoch = f->epochs > 1 ? total / f->epochs : total;
    int64_t from = counted_from(f, since_ms, now_ms);

    if (since_ms == 0 || rule_broken("8") || !isfinite(total))
        return INT64_MIN;
    return after(from, put_off(epoch, now_ms > from ? (double)(now_ms - from) / 1000 : 0)) - 1;
}

struct when forecast_epoch_end(const struct forecast *f, uint32_t gpus, bool shared, int64_t since_ms,
                               int64_t now_ms)
{
    double epoch = f->epochs > 0 ? forecast_seconds(f, gpus, shared) / fmax(f->epochs, 1) : INFINITY;
    int64_t from = counted_from(f, since_ms, now_ms);
    double sigma = fmax(f->sigma, SIGMA_EPOCH);
    struct when ret;

    if (!isfinite(epoch))
        return never;
    epoch = put_off(epoch, now_ms > from ? (double)(now_ms - from) / 1000 : 0);
    ret.at_ms = after(from, epoch);
    ret.lo_ms = not_before(after(from, epoch * exp(-QUANTILE_80 * sigma)), now_ms);
    ret.hi_ms = after(from, epoch * exp(QUANTILE_80 * sigma));
    return ret;
}

struct when forecast_end_after(const struct forecast *f, uint32_t gpus, struct when start)
{
    double total = forecast_seconds(f, gpus, false);

    if (start.at_ms == INT64_MAX || !isfinite(total))
        return never;
    return (struct when){after(start.at_ms, total), after(start.lo_ms, forecast_low(f, total)),
                         after(start.hi_ms, forecast_high(f, total))};
}

uint32_t forecast_hull(const struct forecast *f, struct curve_point *ret)
{
    uint32_t len = 0;

    for (uint32_t i = 0; i < f->points; i++) {
        struct curve_point p = f->curve[i];

        if (!(p.rate > 0) || (len > 0 && p.rate <= ret[len - 1].rate))
            continue;
        /* The smallest size stays: it is what the job needs at least. */
        while (len > 1) {
            const struct curve_point *a = &ret[len - 2], *b = &ret[len - 1];

            if ((b->rate - a->rate) * (float)(p.gpus - a->gpus) >
                (p.rate - a->rate) * (float)(b->gpus - a->gpus))
                break;
            len--;
        }
        ret[len++] = p;
    }
    return len;
}

/* ---- without samples ---- */

/* How many there are still; less than one when it goes on past its last. 0: not known. */
static double epochs_left(const struct workload *w)
{
    if (w->epochs_total == 0)
        return 0;
    return w->epochs_done < w->epochs_total ? w->epochs_total - w->epochs_done : 0.01 * w->epochs_total;
}

/* When what is known of its progress was so. */
static int64_t as_of(const struct workload *w, int64_t now_ms)
{
    if (!workload_runs(w))
        return now_ms;
    return w->saved_ms > w->started_ms ? w->saved_ms : w->started_ms;
}

/* Less than 1 when it has had more GPU time than it declared. */
float forecast_overrun(const struct workload *w, double declared_s, int64_t now_ms)
{
    double attained_s = (double)workload_attained(w, now_ms) / 1000;

    return declared_s > 0 && attained_s > declared_s ? (float)(declared_s / attained_s) : 1;
}

static double declared_s(const struct workload *w)
{
    return (double)(w->declared_ms > 0 ? w->declared_ms : FORECAST_TYPICAL_MS) / 1000;
}

double forecast_allowed_s(const struct workload *w, const struct forecast *f)
{
    return declared_s(w) * f->curve[0].gpus;
}

void forecast_declared(const struct workload *w, int64_t now_ms, struct forecast *ret)
{
    double base, left;

    *ret = (struct forecast){.sigma = w->declared_ms > 0 ? SIGMA_DECLARED : SIGMA_TYPICAL,
                             .shared = (float)SHARED_PRIOR,
                             .as_of_ms = as_of(w, now_ms)};
    curve_sizes(&w->demand, ret);
    for (uint32_t i = 0; i < ret->points; i++)
        ret->curve[i].rate = (float)model_rate(BETA_PRIOR, ret->curve[i].gpus);
    /* Of a gang that cannot be smaller, the hours are those on the gang. */
    base = declared_s(w) * ret->curve[0].rate;
    ret->overrun = forecast_overrun(w, forecast_allowed_s(w, ret), now_ms);
    left = epochs_left(w);
    if (left > 0) {
        ret->epochs = (float)left;
        ret->work_s = base * left / w->epochs_total;
        return;
    }
    ret->work_s = base - (double)w->attained_gpu_ms / 1000 * ret->curve[0].rate / ret->curve[0].gpus;
    ret->work_s = fmax(ret->work_s, 0.1 * base);
}

/* ---- samples ---- */

struct estimator *estimator_new(void)
{
    struct estimator *est = NEW(struct estimator);

    est->models = map_new();
    return est;
}

void estimator_free(struct estimator *est)
{
    size_t at = 0;
    struct str key;
    void *value;

    if (!est)
        return;
    while (map_next(est->models, &at, &key, &value)) {
        struct model *model = value;

        vec_done(&model->rows);
        free(model);
    }
    map_free(est->models);
    free(est);
}

static struct model *model_of(const struct estimator *est, const struct estimate_key *key, bool make)
{
    CLEANUP(free)
    char *text = mem_printf("%zu:%s %s %u", key->image ? strlen(key->image) : 0, key->image ? key->image : "",
                            key->script ? key->script : "", key->batch_size);
    struct model *model = map_get(est->models, str_from(text));

    if (!model && make && map_len(est->models) < ESTIMATE_KEYS_MAX) {
        model = NEW(struct model);
        map_set(est->models, str_from(text), model);
    }
    return model;
}

static struct row *row_of(struct model *model, uint32_t gpus, bool shared)
{
    VEC_EACH(&model->rows, row)
        if (row->gpus == gpus && row->shared == shared)
            return row;
    if (model->rows.len >= ROWS_MAX)
        return NULL;
    vec_push(&model->rows, (struct row){.gpus = gpus, .shared = shared});
    return &model->rows.v[model->rows.len - 1];
}

static bool sane(double seconds)
{
    return isfinite(seconds) && seconds > 0 && seconds < 1e9;
}

bool estimator_add(struct estimator *est, const struct estimate_key *key, const struct sample *s)
{
    struct model *model;
    struct row *row;

    if (s->gpus == 0 || ((!sane(s->iteration_s) || s->iterations == 0) && !sane(s->epoch_s)))
        return false;
    model = model_of(est, key, true);
    row = model ? row_of(model, s->gpus, s->shared) : NULL;
    if (!row)
        return false;
    if (sane(s->iteration_s) && s->iterations > 0) {
        row->weight += s->iterations;
        row->iteration_s += (s->iteration_s - row->iteration_s) * s->iterations / row->weight;
        row->weight = fmin(row->weight, WEIGHT_MAX); /* so that a job that changes is followed */
    }
    if (sane(s->epoch_s)) {
        row->epochs = fmin(row->epochs + 1, 20);
        row->epoch_s += (s->epoch_s - row->epoch_s) / row->epochs;
    }
    return true;
}

bool estimator_row(const struct estimator *est, const struct estimate_key *key, uint32_t i,
                   struct sample *ret)
{
    const struct model *model = model_of(est, key, false);

    if (!model || i >= model->rows.len)
        return false;
    *ret = (struct sample){
        model->rows.v[i].gpus,        model->rows.v[i].shared,  (uint32_t)model->rows.v[i].weight,
        model->rows.v[i].iteration_s, model->rows.v[i].epoch_s, 0};
    return true;
}

/* ---- a job's own epochs ---- */

static struct epoch_row *epoch_row_of(struct epoch_log *of, uint32_t gpus, bool shared)
{
    for (uint32_t i = 0; i < of->len; i++)
        if (of->rows[i].gpus == gpus && of->rows[i].shared == shared)
            return &of->rows[i];
    if (of->len == EPOCH_ROWS_MAX)
        return NULL;
    of->rows[of->len] = (struct epoch_row){.gpus = gpus, .shared = shared};
    return &of->rows[of->len++];
}

void epoch_log_add(struct epoch_log *of, uint32_t gpus, bool shared, double seconds, bool first)
{
    double weight = first ? FIRST_WEIGHT : 1, off;
    struct epoch_row *row;

    if (gpus == 0 || !sane(seconds))
        return;
    row = epoch_row_of(of, gpus, shared);
    if (!row)
        return;
    if (row->count > 0 && !first) {
        off = log(seconds / row->mean_s);
        row->sigma2 += (off * off - row->sigma2) / fmin(row->count, OWN_WEIGHT_MAX);
    }
    row->count++;
    row->weight = fmin(row->weight + weight, OWN_WEIGHT_MAX); /* so that a job that changes is followed */
    row->mean_s += (seconds - row->mean_s) * weight / row->weight;
}

void epoch_log_load(struct epoch_log *of, const struct epoch_row *stored)
{
    struct epoch_row *row;

    if (stored->gpus == 0 || stored->count == 0 || !sane(stored->mean_s))
        return;
    row = epoch_row_of(of, stored->gpus, stored->shared);
    if (!row)
        return;
    *row = *stored;
    if (!(row->weight > 0) || row->weight > OWN_WEIGHT_MAX)
        row->weight = fmin(row->count, OWN_WEIGHT_MAX);
    if (!(row->sigma2 >= 0 && row->sigma2 < 1))
        row->sigma2 = SIGMA_EPOCH * SIGMA_EPOCH;
}

void estimator_learn_epoch(struct estimator *est, const struct estimate_key *key, struct epoch_log *of,
                           uint32_t gpus, bool shared, double seconds, bool first)
{
    epoch_log_add(of, gpus, shared, seconds, first);
    if (!first || of->len == 0 || of->rows[0].count == 1)
        (void)estimator_add(est, key, &(struct sample){.gpus = gpus, .shared = shared, .epoch_s = seconds});
}

/* The row that tells the most. */
static const struct epoch_row *best_row(const struct epoch_log *own)
{
    const struct epoch_row *best = NULL;
    double most = 0;

    for (uint32_t i = 0; own && i < own->len; i++) {
        double weight = own->rows[i].weight * (own->rows[i].shared ? 0.25 : 1);

        if (weight > most) {
            most = weight;
            best = &own->rows[i];
        }
    }
    return best;
}

/* Bends the curve to the sizes that the job itself was on: `one` is an epoch's work. */
static void curve_own(const struct epoch_log *own, double one, struct forecast *ret)
{
    double bend = 1; /* of the sizes from here on */

    for (uint32_t i = 0; i < ret->points; i++) {
        struct curve_point *p = &ret->curve[i];

        for (uint32_t k = 0; k < own->len; k++) {
            const struct epoch_row *row = &own->rows[k];

            if (row->gpus == p->gpus && !row->shared) {
                double trust = row->weight / (row->weight + TRUST);

                bend = 1 - trust + trust * one / row->mean_s / p->rate;
                ret->tried |= 1U << i;
            }
        }
        p->rate *= (float)bend;
    }
}

/* Variance of the logarithm of what so many epochs take. */
static double own_variance(const struct epoch_log *own, double left)
{
    double weight = 0, over = SIGMA_EPOCH * SIGMA_EPOCH * EPOCH_WEIGHT, under = EPOCH_WEIGHT, one;

    for (uint32_t i = 0; i < own->len; i++) {
        weight += own->rows[i].weight;
        over += own->rows[i].sigma2 * own->rows[i].weight;
        under += own->rows[i].weight;
    }
    one = over / under;
    return one / weight + one / fmax(left, 1) + SIGMA_DRIFT * SIGMA_DRIFT;
}

/* ---- from samples ---- */

struct fit {
    double t1, beta, shared;
    double epoch_factor; /* an epoch takes that much longer than its iterations: validation, loading */
};

/* Seconds of an iteration on one GPU alone, as the best-known row tells. */
static bool fit_base(const struct model *model, struct fit *fit)
{
    double most = 0;

    VEC_EACH(&model->rows, row) {
        double weight = row->weight * (row->gpus == 1 ? 4 : 1) * (row->shared ? 0.25 : 1);

        if (weight > most) {
            most = weight;
            fit->t1 = row->iteration_s / (1 + fit->beta * ring(row->gpus)) * (row->shared ? fit->shared : 1);
        }
    }
    return most > 0;
}

static void fit_beta(const struct model *model, struct fit *fit)
{
    double over = BETA_PRIOR * BETA_WEIGHT, under = BETA_WEIGHT;

    VEC_EACH(&model->rows, row) {
        double f = ring(row->gpus), seen = row->iteration_s / fit->t1 - 1;

        if (row->shared || row->gpus < 2 || row->weight <= 0)
            continue;
        over += row->weight * f * fmax(seen, -0.2);
        under += row->weight * f * f;
    }
    fit->beta = fmax(over / under, 0);
}

static void fit_shared(const struct model *model, struct fit *fit)
{
    double over = SHARED_PRIOR * SHARED_WEIGHT, under = SHARED_WEIGHT;

    VEC_EACH(&model->rows, row)
        if (row->shared && row->weight > 0) {
            over += row->weight * fmin(fit->t1 * (1 + fit->beta * ring(row->gpus)) / row->iteration_s, 1);
            under += row->weight;
        }
    fit->shared = over / under;
}

static double iterations_of(uint64_t training_set, uint32_t batch, uint32_t gpus)
{
    return fmax(floor((double)training_set / ((double)batch * gpus)), 1);
}

static void fit_epoch(const struct model *model, uint64_t training_set, uint32_t batch, struct fit *fit)
{
    double over = 0, under = 0;

    VEC_EACH(&model->rows, row)
        if (row->epochs > 0 && row->weight > 0) {
            double plain = iterations_of(training_set, batch, row->gpus) * row->iteration_s;

            over += row->epochs * fmin(fmax(row->epoch_s / plain, 1), 10);
            under += row->epochs;
        }
    fit->epoch_factor = under > 0 ? over / under : 1;
}

static void curve_from(const struct model *model, const struct fit *fit, struct forecast *ret)
{
    for (uint32_t i = 0; i < ret->points; i++) {
        struct curve_point *p = &ret->curve[i];
        double t = fit->t1 * (1 + fit->beta * ring(p->gpus));

        VEC_EACH(&model->rows, row)
            if (row->gpus == p->gpus && !row->shared && row->weight > 0) {
                double trust = row->weight / (row->weight + 3);

                t = t * (1 - trust) + row->iteration_s * trust;
                ret->tried |= 1U << i;
            }
        p->rate = (float)(p->gpus * fit->t1 / t);
    }
}

/* A job that tells only of epochs: an epoch is one iteration of so much work, whatever the number of GPUs. */
static struct model by_epochs(const struct model *model)
{
    struct model ret = {0};

    VEC_EACH(&model->rows, row)
        if (row->epochs > 0) {
            struct row copy = *row;

            copy.weight = row->epochs;
            copy.iteration_s = row->epoch_s * row->gpus;
            vec_push(&ret.rows, copy);
        }
    return ret;
}

/* Seconds of an epoch on one GPU alone, by the epochs there were; 0: none. */
static double epoch_seconds(const struct model *model, const struct fit *fit, const struct forecast *f)
{
    double sum = 0, count = 0;

    VEC_EACH(&model->rows, row) {
        sum += row->epochs * row->epoch_s * forecast_rate(f, row->gpus) * (row->shared ? fit->shared : 1);
        count += row->epochs;
    }
    return count > 0 ? sum / count : 0;
}

static bool fit_model(const struct model *model, struct fit *fit, struct forecast *ret)
{
    if (!fit_base(model, fit))
        return false;
    for (int i = 0; i < 3; i++) {
        fit_beta(model, fit);
        fit_shared(model, fit);
        fit_base(model, fit);
    }
    curve_from(model, fit, ret);
    ret->shared = (float)fit->shared;
    return true;
}

/* The curve as other runs have it, from their epochs alone. They may have been of other lengths. */
static bool curve_of_epochs(const struct model *model, struct fit *fit, struct forecast *ret)
{
    struct model epochs = by_epochs(model);
    bool fits = fit_model(&epochs, fit, ret);

    vec_done(&epochs.rows);
    for (uint32_t i = 0; i < ret->points; i++)
        ret->curve[i].rate = fminf(ret->curve[i].rate, (float)ret->curve[i].gpus);
    return fits;
}

void estimator_forecast(const struct estimator *est, const struct estimate_key *key, const struct workload *w,
                        uint64_t training_set, int64_t now_ms, struct forecast *ret)
{
    const struct model *model = model_of(est, key, false);
    const struct epoch_row *row = best_row(key->own);
    struct fit fit = {0, BETA_PRIOR, SHARED_PRIOR, 1};
    double one = 0, left = epochs_left(w);
    bool iterations, others;

    forecast_declared(w, now_ms, ret);
    iterations = model && fit_model(model, &fit, ret);
    others = iterations || (model && !row && curve_of_epochs(model, &fit, ret));
    if (row) {
        one = row->mean_s * forecast_rate(ret, row->gpus) * (row->shared ? ret->shared : 1);
        curve_own(key->own, one, ret);
    } else if (iterations && training_set && key->batch_size) {
        fit_epoch(model, training_set, key->batch_size, &fit);
        one = iterations_of(training_set, key->batch_size, 1) * fit.t1 * fit.epoch_factor;
    } else if (others) {
        one = epoch_seconds(model, &fit, ret);
    }
    if (one <= 0 || left <= 0)
        return;
    ret->work_s = one * left;
    ret->measured = true;
    ret->sigma = row ? sqrt(own_variance(key->own, left)) : SIGMA_OTHERS;
    ret->overrun = forecast_overrun(w, (double)w->declared_ms / 1000, now_ms);
}
