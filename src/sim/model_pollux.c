/* How fast a pollux64 job is: goodput = what a step brings / what it takes, per placement and epoch; kept
 * once computed. With an adaptive batch, the best of the batches that were measured. */
#include "base/mem.h"
#include "sim/pollux.h"

#include <math.h>
#include <stdlib.h>

struct at packed_at(uint32_t gpus, uint32_t cards, uint8_t *counts)
{
    struct at at = {.gpus = gpus, .counts = counts, .factor = 1};

    while (gpus > 0 && at.nodes < AT_NODES_MAX) {
        counts[at.nodes++] = (uint8_t)(gpus < cards ? gpus : cards);
        gpus -= gpus < cards ? gpus : cards;
    }
    return at;
}

/* The placement's digits, in the smallest rotation; 0: too long to have been measured. */
static uint64_t placement_key(const struct at *at)
{
    uint64_t best = UINT64_MAX;

    if (at->nodes > 16)
        return 0;
    for (uint32_t from = 0; from < at->nodes; from++) {
        uint64_t key = 0;

        for (uint32_t i = 0; i < at->nodes; i++) {
            uint8_t count = at->counts[(from + i) % at->nodes];

            if (count > 9)
                return 0;
            key = key * 10 + count;
        }
        best = key < best ? key : best;
    }
    return best;
}

static const struct step_table *find(const struct step_tables *tables, uint64_t key)
{
    size_t low = 0, high = tables->len;

    while (low < high) {
        size_t mid = low + (high - low) / 2;

        if (tables->v[mid].key < key)
            low = mid + 1;
        else
            high = mid;
    }
    return low < tables->len && tables->v[low].key == key ? &tables->v[low] : NULL;
}

/* The measured placement, or what lies between measured ones; then the nearest there is. */
static const struct step_table *table_of(const struct pollux_app *app, uint64_t key, const struct at *at)
{
    const struct step_table *table = key ? find(&app->placed, key) : NULL;

    for (uint32_t gpus = at->gpus; !table && gpus > 0; gpus--)
        table = find(&app->grid, grid_key(at->nodes < gpus ? at->nodes : gpus, gpus));
    return table;
}

static struct step_point step_at(const struct step_table *table, double local)
{
    const struct step_point *v = table->points.v;
    size_t i = 1, len = table->points.len;
    double f;

    if (len == 1 || local <= v[0].local)
        return v[0];
    while (i + 1 < len && v[i].local < local)
        i++;
    if (local >= v[i].local)
        return v[i];
    f = (local - v[i - 1].local) / (v[i].local - v[i - 1].local);
    return (struct step_point){local, v[i - 1].step_s + f * (v[i].step_s - v[i - 1].step_s),
                               v[i - 1].sync_s + f * (v[i].sync_s - v[i - 1].sync_s)};
}

static double gain(const struct pollux_app *app, double batch, uint32_t epoch)
{
    const struct grad_point *v = &app->grads.v[app->grad_at.v[epoch]];
    size_t len = app->grad_at.v[epoch + 1] - app->grad_at.v[epoch], i = 1;
    double sqr = v[0].sqr, var = v[0].var, f;

    if (len > 1 && batch > v[0].batch) {
        while (i + 1 < len && v[i].batch < batch)
            i++;
        f = fmin((batch - v[i - 1].batch) / (double)(v[i].batch - v[i - 1].batch), 1);
        sqr = v[i - 1].sqr + f * (v[i].sqr - v[i - 1].sqr);
        var = v[i - 1].var + f * (v[i].var - v[i - 1].var);
    }
    return (var + sqr) / (var * app->init_batch / batch + sqr);
}

/* With `local` samples per GPU and micro-batch, `accum` + 1 of them a step. */
static double goodput(const struct pollux_app *app, const struct step_table *table, uint32_t gpus,
                      uint32_t local, uint32_t accum, uint32_t epoch)
{
    struct step_point step = step_at(table, local);
    double total = step.step_s + accum * (step.step_s - step.sync_s);

    return gain(app, (double)gpus * local * (accum + 1), epoch) / total;
}

static double fixed_rate(const struct pollux_app *app, const struct step_table *table, uint32_t gpus,
                         uint32_t batch, uint32_t epoch)
{
    uint32_t local = (uint32_t)ceil((double)batch / gpus - 1e-8), accum, atomic, most;

    accum = (uint32_t)ceil((double)local / app->max_local - 1e-8) - 1;
    if (gpus == 1 && batch > app->init_batch && accum < 1)
        accum = 1;
    atomic = (uint32_t)ceil((double)local / (accum + 1) - 1e-8);
    most = app->max_batch / (gpus * (accum + 1));
    if (atomic > most && most > 0)
        atomic = most;
    return goodput(app, table, gpus, atomic, accum, epoch);
}

#define ACCUM_MAX 15

static double adaptive_rate(const struct pollux_app *app, const struct step_table *table, uint32_t gpus,
                            uint32_t epoch)
{
    double best = 0;

    for (uint32_t accum = 0; accum <= ACCUM_MAX; accum++)
        for (uint32_t i = 0; i <= 32; i++) {
            uint32_t local =
                (uint32_t)lround(app->min_local * pow((double)app->max_local / app->min_local, i / 32.0));
            uint64_t batch = (uint64_t)local * gpus * (accum + 1);

            if (batch > app->max_batch || batch < app->init_batch || local > app->max_local)
                continue;
            if (gpus == 1 && accum == 0 && batch > app->init_batch)
                continue;
            best = fmax(best, goodput(app, table, gpus, local, accum, epoch));
        }
    return best;
}

static struct rate_slot *slot_of(struct pollux *p, const struct rate_slot *key)
{
    uint64_t hash = key->placement * 0x9e3779b97f4a7c15ULL ^ (uint64_t)key->app << 48 ^
                    (uint64_t)key->batch << 20 ^ key->epoch;
    uint32_t at;

    hash = (hash ^ hash >> 29) * 0xbf58476d1ce4e5b9ULL;
    for (at = (uint32_t)(hash >> 32) & (p->cache_size - 1); p->cache[at].rate != 0;
         at = (at + 1) & (p->cache_size - 1))
        if (p->cache[at].placement == key->placement && p->cache[at].app == key->app &&
            p->cache[at].batch == key->batch && p->cache[at].epoch == key->epoch)
            break;
    return &p->cache[at];
}

static void cache_grow(struct pollux *p)
{
    struct rate_slot *old = p->cache;
    uint32_t size = p->cache_size;

    if (p->cache_len * 2 < size)
        return;
    p->cache_size = size ? size * 2 : 4096;
    p->cache = mem_zalloc(sizeof(*p->cache) * p->cache_size);
    for (uint32_t i = 0; i < size; i++)
        if (old[i].rate != 0)
            *slot_of(p, &old[i]) = old[i];
    free(old);
}

static double rate(const struct trace *trace, const struct trace_job *job, const struct at *at,
                   uint32_t epoch)
{
    struct pollux *p = trace->pollux;
    const struct pollux_app *app = &p->apps[job->app];
    uint64_t digits = placement_key(at);
    struct rate_slot key = {digits ? digits : 1ULL << 63 | grid_key(at->nodes, at->gpus), job->app,
                            job->batch, epoch, 0};
    struct rate_slot *slot;
    const struct step_table *table;

    cache_grow(p);
    slot = slot_of(p, &key);
    if (slot->rate == 0) {
        table = table_of(app, digits, at);
        key.rate = 1e-9;
        if (table)
            key.rate = fmax(job->batch ? fixed_rate(app, table, at->gpus, job->batch, epoch)
                                       : adaptive_rate(app, table, at->gpus, epoch),
                            1e-9);
        *slot = key;
        p->cache_len++;
    }
    return slot->rate * at->factor;
}

/* The rules: an epoch that ends within these seconds ends on a whole second. */
static bool run(const struct trace *trace, uint32_t index, const struct at *at, struct progress *p,
                double seconds, double *used)
{
    const struct trace_job *job = &trace->jobs.v[index];
    const struct pollux_app *app = &trace->pollux->apps[job->app];

    *used = 0;
    while (seconds > 0) {
        double speed = rate(trace, job, at, p->epoch), end = app->progress_end.v[p->epoch], delta;

        if (p->done + speed * seconds < end) {
            p->done += speed * seconds;
            *used += seconds;
            return false;
        }
        delta = rint((end - p->done) / speed);
        p->epoch++;
        p->done = end;
        *used += delta;
        seconds -= delta;
        if (p->epoch == app->epochs)
            return true;
    }
    return false;
}

static double left(const struct trace *trace, uint32_t index, const struct at *at, const struct progress *p,
                   bool epoch)
{
    const struct trace_job *job = &trace->jobs.v[index];
    const struct pollux_app *app = &trace->pollux->apps[job->app];
    double sum = 0, done = p->done;

    for (uint32_t e = p->epoch; e < app->epochs; e++) {
        sum += fmax(rint((app->progress_end.v[e] - done) / rate(trace, job, at, e)), 0);
        done = app->progress_end.v[e];
        if (epoch)
            break;
    }
    return sum;
}

/* Work is counted in seconds on the smallest size, at the speeds of the epochs to come. */
static void profile(const struct trace *trace, uint32_t index, const struct progress *p, bool elastic,
                    struct forecast *ret)
{
    static const uint8_t sizes[] = {1, 2, 3, 4, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60, 64};
    const struct trace_job *job = &trace->jobs.v[index];
    uint32_t most = elastic ? job->gpus_max : job->gpus, gpus = cluster_gpus(&trace->cluster);
    double base = 0;

    if (most > gpus)
        most = gpus;
    *ret = (struct forecast){.sigma = 0.1, .shared = 0.65F, .overrun = 1, .measured = true};
    for (size_t i = 0; i < ARRAY_LEN(sizes) && ret->points < CURVE_MAX; i++) {
        uint32_t k = elastic ? sizes[i] : job->gpus;
        uint8_t counts[AT_NODES_MAX];
        struct at at = packed_at(k, 4, counts);
        double s;

        if (k > most)
            break;
        s = left(trace, index, &at, p, false);
        if (i == 0)
            base = s;
        ret->curve[ret->points++] = (struct curve_point){k, (float)(s > 0 ? base / s : 1)};
        if (!elastic)
            break;
    }
    ret->work_s = base;
}

static uint32_t epochs(const struct trace *trace, uint32_t index)
{
    return trace->pollux->apps[trace->jobs.v[index].app].epochs;
}

const struct model model_pollux = {run, left, profile, epochs};

double trace_restart_s(const struct trace *trace, uint32_t job)
{
    const struct pollux *p = trace->pollux;
    double sia = p ? p->apps[trace->jobs.v[job].app].restart_sia_s : 0;

    return sia > 0 ? sia : 30;
}
