/* pollux64: measured step times and gradient statistics of six models, and jobs that train them. A step of
 * `local` samples per GPU takes step_s, of which sync_s is the all-reduce; larger batches are split into
 * micro-batches; how much one step brings on depends on the noise of the gradient. The README of the folder
 * has the formulas. */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "sim/csv.h"
#include "sim/pollux.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define APPS_JSON_MAX (1 << 20)

static const struct sim_rules *rules_pollux(void)
{
    return rules_find("pollux");
}

static int app_of(const struct pollux *p, const char *name)
{
    for (uint32_t i = 0; i < p->app_count; i++)
        if (streq(p->apps[i].name, name))
            return (int)i;
    return -1;
}

static int read_apps(struct trace *trace, const char *folder, struct err *err)
{
    CLEANUP(buf_done) struct buf text = {0};
    const char *path = arena_printf(&trace->arena, "%s/apps.json", folder);
    struct pollux *p = trace->pollux;
    struct json *doc = NULL;

    if (file_read(path, APPS_JSON_MAX, &text, err) < 0)
        return -1;
    if (json_parse(buf_view(&text), &trace->arena, &doc, NULL, err) < 0)
        return err_prefix(err, "%s", path);
    JSON_EACH_MEMBER(doc, it) {
        struct pollux_app *app = &p->apps[p->app_count];
        static const char *const keys[] = {"epochs", "init_batch", "max_batch", "min_local_batch",
                                           "max_local_batch"};
        uint32_t *to[] = {&app->epochs, &app->init_batch, &app->max_batch, &app->min_local, &app->max_local};

        if (p->app_count == POLLUX_APPS_MAX)
            return err_set(err, ERR_LIMIT, "%s:1: more than %d models", path, POLLUX_APPS_MAX);
        app->name = it->key;
        for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
            const struct json *value = json_get(&it->value, keys[i]);

            if (!json_is(value, JSON_INT) || value->integer < 1 || value->integer > 1000000)
                return err_set(err, ERR_INVALID, "%s:1: %s: %s is missing or not in 1..1000000", path,
                               it->key, keys[i]);
            *to[i] = (uint32_t)value->integer;
        }
        app->restart_s = 30;
        if (json_is(json_get(&it->value, "restart_s_sia"), JSON_INT))
            app->restart_sia_s = (double)json_get(&it->value, "restart_s_sia")->integer;
        p->app_count++;
    }
    if (p->app_count == 0)
        return err_set(err, ERR_INVALID, "%s:1: there are no models", path);
    return 0;
}

/* ---- tables of step times ---- */

static int table_cmp(const void *va, const void *vb)
{
    const struct step_table *a = va, *b = vb;

    return (a->key > b->key) - (a->key < b->key);
}

static void table_add(struct step_tables *tables, uint64_t key, struct step_point point)
{
    if (tables->len == 0 || tables->v[tables->len - 1].key != key)
        vec_push(tables, (struct step_table){.key = key});
    vec_push(&tables->v[tables->len - 1].points, point);
}

static void tables_sort(struct step_tables *tables)
{
    if (tables->len > 0)
        qsort(tables->v, tables->len, sizeof(*tables->v), table_cmp);
}

enum { STEP_APP, STEP_A, STEP_B, STEP_LOCAL, STEP_S, STEP_SYNC };

static int read_point(const struct csv *csv, uint32_t local_at, struct step_point *ret, struct err *err)
{
    uint32_t local = 0;

    if (csv_uint(csv, local_at, 1, 1000000, &local, err) < 0 ||
        csv_number(csv, local_at + 1, 1e-9, 1e6, &ret->step_s, err) < 0 ||
        csv_number(csv, local_at + 2, 0, 1e6, &ret->sync_s, err) < 0)
        return -1;
    ret->local = local;
    return 0;
}

static int known_app(const struct pollux *p, const struct csv *csv, uint32_t column, struct err *err)
{
    int app = app_of(p, csv_text(csv, column));

    return app >= 0 ? app : csv_fault(csv, err, "unknown model '%.40s'", csv_text(csv, column));
}

static int read_placements(struct pollux *p, const char *path, struct err *err)
{
    static const struct csv_column columns[] = {
        {"app", 0}, {"placement", 0}, {"local_batch", 0}, {"step_s", 0}, {"sync_s", 0}};
    CLEANUP(csv_close) struct csv *csv = NULL;
    int got;

    if (csv_open(path, columns, ARRAY_LEN(columns), &csv, err) < 0)
        return -1;
    while ((got = csv_next(csv, err)) > 0) {
        int app = known_app(p, csv, 0, err);
        struct step_point point;
        uint64_t key;

        if (app < 0 || read_point(csv, 2, &point, err) < 0)
            return -1;
        if (!str_to_uint(str_from(csv_text(csv, 1)), &key))
            return csv_fault(csv, err, "placement: '%.40s' is no list of digits", csv_text(csv, 1));
        table_add(&p->apps[app].placed, key, point);
    }
    return got;
}

static int read_grid(struct pollux *p, const char *path, struct err *err)
{
    static const struct csv_column columns[] = {{"app", 0},         {"nodes", 0},  {"gpus", 0},
                                                {"local_batch", 0}, {"step_s", 0}, {"sync_s", 0}};
    CLEANUP(csv_close) struct csv *csv = NULL;
    int got;

    if (csv_open(path, columns, ARRAY_LEN(columns), &csv, err) < 0)
        return -1;
    while ((got = csv_next(csv, err)) > 0) {
        int app = known_app(p, csv, 0, err);
        uint32_t nodes = 0, gpus = 0;
        struct step_point point;

        if (app < 0 || csv_uint(csv, 1, 1, 1000, &nodes, err) < 0 ||
            csv_uint(csv, 2, 1, 10000, &gpus, err) < 0 || read_point(csv, 3, &point, err) < 0)
            return -1;
        table_add(&p->apps[app].grid, grid_key(nodes, gpus), point);
    }
    return got;
}

static int read_validation(struct pollux *p, const char *path, struct err *err)
{
    static const struct csv_column columns[] = {
        {"app", 0}, {"batch", 0}, {"epoch", 0}, {"grad_sqr", 0}, {"grad_var", 0}};
    CLEANUP(csv_close) struct csv *csv = NULL;
    int got;

    if (csv_open(path, columns, ARRAY_LEN(columns), &csv, err) < 0)
        return -1;
    while ((got = csv_next(csv, err)) > 0) {
        int app = known_app(p, csv, 0, err);
        struct grad_point g = {0};

        if (app < 0 || csv_uint(csv, 1, 1, 10000000, &g.batch, err) < 0 ||
            csv_uint(csv, 2, 0, 100000, &g.epoch, err) < 0 || csv_number(csv, 3, 0, 1e300, &g.sqr, err) < 0 ||
            csv_number(csv, 4, 0, 1e300, &g.var, err) < 0)
            return -1;
        vec_push(&p->apps[app].grads, g);
    }
    return got;
}

static int grad_cmp(const void *va, const void *vb)
{
    const struct grad_point *a = va, *b = vb;

    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    return (a->batch > b->batch) - (a->batch < b->batch);
}

/* Where each epoch's points begin. */
static int index_grads(struct pollux *p, const char *path, struct err *err)
{
    for (uint32_t i = 0; i < p->app_count; i++) {
        struct pollux_app *app = &p->apps[i];
        size_t at = 0;

        if (app->grads.len > 0)
            qsort(app->grads.v, app->grads.len, sizeof(*app->grads.v), grad_cmp);
        for (uint32_t e = 0; e <= app->epochs; e++) {
            while (at < app->grads.len && app->grads.v[at].epoch < e)
                at++;
            vec_push(&app->grad_at, (uint32_t)at);
            if (e < app->epochs && (at == app->grads.len || app->grads.v[at].epoch != e))
                return err_set(err, ERR_INVALID, "%s:1: %s has no row for epoch %u", path, app->name, e);
        }
    }
    return 0;
}

static int read_progress(struct pollux *p, const char *path, struct err *err)
{
    static const struct csv_column columns[] = {{"app", 0}, {"epoch", 0}, {"progress_end", 0}};
    CLEANUP(csv_close) struct csv *csv = NULL;
    int got;

    if (csv_open(path, columns, ARRAY_LEN(columns), &csv, err) < 0)
        return -1;
    while ((got = csv_next(csv, err)) > 0) {
        int app = known_app(p, csv, 0, err);
        uint32_t epoch = 0;
        double end = 0;

        if (app < 0 || csv_uint(csv, 1, 0, 100000, &epoch, err) < 0 ||
            csv_number(csv, 2, 0, 1e12, &end, err) < 0)
            return -1;
        if (epoch != p->apps[app].progress_end.len)
            return csv_fault(csv, err, "epochs of a model have to come in order, each once");
        vec_push(&p->apps[app].progress_end, end);
    }
    for (uint32_t i = 0; i < p->app_count && got == 0; i++)
        if (p->apps[i].progress_end.len != p->apps[i].epochs)
            return err_set(err, ERR_INVALID, "%s:1: %s has %zu epochs here and %u in apps.json", path,
                           p->apps[i].name, p->apps[i].progress_end.len, p->apps[i].epochs);
    return got;
}

/* ---- jobs ---- */

enum { JOB_NAME, JOB_SUBMIT, JOB_APP, JOB_GPUS, JOB_BATCH };

static int read_job(struct trace *trace, const struct csv *csv, struct err *err)
{
    const struct pollux_app *app;
    struct trace_job job = {.name = arena_strdup(&trace->arena, csv_text(csv, JOB_NAME))};
    int at = known_app(trace->pollux, csv, JOB_APP, err);

    if (at < 0 || csv_number(csv, JOB_SUBMIT, 0, TRACE_TIME_MAX, &job.submit_s, err) < 0 ||
        csv_uint(csv, JOB_GPUS, 1, 4096, &job.gpus, err) < 0 ||
        csv_uint(csv, JOB_BATCH, 1, 10000000, &job.batch, err) < 0)
        return -1;
    app = &trace->pollux->apps[at];
    job.user = job.name; /* nobody is named: each is its own */
    job.app = (uint32_t)at;
    if (trace->batch == BATCH_ADAPTIVE)
        job.batch = 0;
    job.gpus_min = 1;
    job.gpus_max = (job.batch ? job.batch : app->max_batch) / app->min_local;
    if (job.gpus_max < 1)
        job.gpus_max = 1;
    if (streq(app->name, "ncf") && trace->batch == BATCH_ADAPTIVE)
        job.batch = app->max_batch; /* the artifact keeps it */
    vec_push(&trace->jobs, job);
    return 0;
}

static int read_jobs(struct trace *trace, const char *path, struct err *err)
{
    static const struct csv_column columns[] = {
        {"job", 0}, {"submit_s", 0}, {"app", 0}, {"tuned_gpus", 0}, {"tuned_batch", 0}};
    CLEANUP(csv_close) struct csv *csv = NULL;
    int got;

    if (csv_open(path, columns, ARRAY_LEN(columns), &csv, err) < 0)
        return -1;
    while ((got = csv_next(csv, err)) > 0)
        if (read_job(trace, csv, err) < 0)
            return -1;
    return got;
}

/* What a job takes alone on its tuned gang. */
static void alone(struct trace *trace)
{
    VEC_EACH(&trace->jobs, job) {
        struct progress none = {0};
        uint8_t counts[AT_NODES_MAX];
        struct at at = packed_at(job->gpus, 4, counts);

        job->alone_s = model_pollux.left(trace, (uint32_t)(job - trace->jobs.v), &at, &none, false);
    }
}

int read_pollux(struct trace *trace, const struct trace_request *request, struct err *err)
{
    const char *dir = request->path, *workload = request->workload ? request->workload : "w6";
    struct arena *arena = &trace->arena;

    trace->pollux = NEW(struct pollux);
    trace->model = &model_pollux;
    trace->rules = *rules_pollux();
    trace->name = arena_printf(arena, "pollux64/%s", workload);
    if (read_apps(trace, dir, err) < 0 ||
        read_placements(trace->pollux, arena_printf(arena, "%s/placements.csv", dir), err) < 0 ||
        read_grid(trace->pollux, arena_printf(arena, "%s/speed_grid.csv", dir), err) < 0 ||
        read_validation(trace->pollux, arena_printf(arena, "%s/validation.csv", dir), err) < 0 ||
        index_grads(trace->pollux, arena_printf(arena, "%s/validation.csv", dir), err) < 0 ||
        read_progress(trace->pollux, arena_printf(arena, "%s/epoch_progress.csv", dir), err) < 0)
        return -1;
    for (uint32_t i = 0; i < trace->pollux->app_count; i++) {
        tables_sort(&trace->pollux->apps[i].placed);
        tables_sort(&trace->pollux->apps[i].grid);
    }
    if (read_jobs(trace, arena_printf(arena, "%s/jobs_%s.csv", dir, workload), err) < 0)
        return -1;
    alone(trace);
    return trace_cluster(trace, request->cluster ? request->cluster : "16x4", err);
}

static void tables_done(struct step_tables *tables)
{
    VEC_EACH(tables, table)
        vec_done(&table->points);
    vec_done(tables);
}

void pollux_free(struct pollux *p)
{
    if (!p)
        return;
    for (uint32_t i = 0; i < p->app_count; i++) {
        tables_done(&p->apps[i].placed);
        tables_done(&p->apps[i].grid);
        vec_done(&p->apps[i].grads);
        vec_done(&p->apps[i].grad_at);
        vec_done(&p->apps[i].progress_end);
    }
    free(p->cache);
    free(p);
}
