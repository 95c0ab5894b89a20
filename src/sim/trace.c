/* Which reader a path is for, the rules by name, and clusters. */
#include "sim/trace.h"

#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOUR_MS (3600 * (int64_t)1000)

/* The options under which the references were made: nothing is left alone, places may change at once. */
#define REFERENCE                                                                                            \
    .preemption = PREEMPTION_AUTO, .restart_ms = 30000, .repay_ms = 300000, .rank_power = 0.3,               \
    .critical_margin = 1.2

const struct sim_rules sim_rules[] = {
    {.name = "pollux",
     .summary = "rounds of 60 s, each start costs 30 s, stops anywhere, emptiest node first",
     .round_s = 60,
     .first_s = 60,
     .restart_s = 30,
     .options = {REFERENCE, .las_split_ms = 16 * HOUR_MS, .place = PLACE_EMPTIEST}},
    {.name = "sia",
     .summary = "as pollux, a start costs what the model needs",
     .round_s = 60,
     .first_s = 60,
     .restart_s = -1,
     .options = {REFERENCE, .las_split_ms = 16 * HOUR_MS, .place = PLACE_EMPTIEST}},
    {.name = "shockwave",
     .summary =
         "rounds of 120 s, 20 s lost by a job that did not run in the round before, places do not matter",
     .round_s = 120,
     .renew_s = 840,
     .restart_s = 20,
     .ftf = FTF_TRACE,
     .options = {REFERENCE, .las_split_ms = 16 * HOUR_MS, .place = PLACE_BEST_FIT}},
    {.name = "tiresias",
     .summary = "at events, stops anywhere and for free, GPUs are only counted",
     .first_free = true,
     .options = {REFERENCE, .las_split_ms = 3250000, .las_split2_ms = 7200000, .las_keep = true,
                 .place = PLACE_BEST_FIT}},
    {.name = "openb",
     .summary = "pods one by one until they ask for 130% of the GPUs, nobody leaves",
     .options = {REFERENCE}},
    {.name = "berth",
     .summary = "at events, stops at the ends of epochs, each start but the first costs 30 s",
     .restart_s = 30,
     .first_free = true,
     .at_epochs = true,
     .options = {.preemption = PREEMPTION_AUTO,
                 .place = PLACE_BEST_FIT,
                 .min_run_ms = 120000,
                 .restart_ms = 30000,
                 .repay_ms = 300000,
                 .las_split_ms = 16 * HOUR_MS,
                 .rank_power = 0.3,
                 .critical_margin = 1.2,
                 .probes_max = 2,
                 .backfill = true}},
    {.name = NULL},
};

const struct sim_rules *rules_find(const char *name)
{
    for (const struct sim_rules *r = sim_rules; r->name; r++)
        if (streq(r->name, name))
            return r;
    return NULL;
}

/* ---- clusters ---- */

struct group {
    uint64_t nodes, cards, mib;
};

static int parse_group(struct str text, struct group *ret, struct err *err)
{
    struct str part;
    uint64_t *to[] = {&ret->nodes, &ret->cards, &ret->mib};
    size_t n = 0;

    *ret = (struct group){0, 0, 16384};
    for (struct str rest = text; n < 4 && str_split(&rest, 'x', &part); n++)
        if (n == 3 || !str_to_uint(part, to[n]))
            n = 4;
    if (n < 2 || n > 3 || ret->nodes < 1 || ret->nodes > TRACE_NODES_MAX || ret->cards < 1 ||
        ret->cards > NODE_GPUS_MAX || ret->mib < 1 || ret->mib > 1 << 24)
        return err_set(
            err, ERR_INVALID,
            "cluster '%.*s': write it as NODESxCARDS or NODESxCARDSxMIB, such as 16x4 or 2x8x24576",
            STR_ARG(text));
    return 0;
}

int trace_cluster(struct trace *trace, const char *spec, struct err *err)
{
    struct str rest = str_from(spec), part;
    VEC(struct group) groups = {0};
    uint64_t nodes = 0, cards = 0, at = 0;
    struct node *v;
    struct gpu *gpus;
    int result = 0;

    while (result == 0 && str_split(&rest, ',', &part)) {
        struct group group;

        result = parse_group(part, &group, err);
        if (result == 0) {
            nodes += group.nodes;
            cards += group.nodes * group.cards;
            vec_push(&groups, group);
        }
    }
    if (result == 0 && (nodes == 0 || nodes > TRACE_NODES_MAX || cards > TRACE_GPUS_MAX))
        result = err_set(err, ERR_LIMIT, "cluster '%s': 1 to %d nodes with at most %d GPUs", spec,
                         TRACE_NODES_MAX, TRACE_GPUS_MAX);
    if (result < 0) {
        vec_done(&groups);
        return -1;
    }
    v = arena_zalloc(&trace->arena, sizeof(*v) * nodes);
    gpus = arena_zalloc(&trace->arena, sizeof(*gpus) * cards);
    VEC_EACH(&groups, group)
        for (uint64_t n = 0; n < group->nodes; n++) {
            v[at] = (struct node){.name = "n", .gpus = gpus, .gpu_count = (uint32_t)group->cards};
            v[at++].capacity = (struct resources){1000000000, 1000000000};
            for (uint64_t c = 0; c < group->cards; c++)
                (gpus++)->mem_mib = (uint32_t)group->mib;
        }
    trace->cluster = (struct cluster){v, (uint32_t)nodes};
    vec_done(&groups);
    return 0;
}

/* ---- loading ---- */

static const struct {
    const char *marker; /* a file only this format has */
    int (*read)(struct trace *trace, const struct trace_request *request, struct err *err);
} formats[] = {
    {"speed_grid.csv", read_pollux},
    {"segments_120.csv", read_shockwave},
    {"nodes.csv", read_openb},
    {"jobs.csv", read_philly},
};

static int read_folder(struct trace *trace, const struct trace_request *request, struct err *err)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        const char *marker = arena_printf(&trace->arena, "%s/%s", request->path, formats[i].marker);

        if (access(marker, R_OK) == 0)
            return formats[i].read(trace, request, err);
    }
    return err_set(err, ERR_INVALID,
                   "%s:1: no trace in this folder: none of speed_grid.csv (pollux64), segments_120.csv "
                   "(shockwave), nodes.csv (openb), jobs.csv (philly-vc)",
                   request->path);
}

static int job_cmp(const void *va, const void *vb)
{
    const struct trace_job *a = va, *b = vb;

    if (a->submit_s != b->submit_s)
        return a->submit_s < b->submit_s ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

static int finish(struct trace *trace, const struct trace_request *request, struct err *err)
{
    uint32_t gpus = cluster_gpus(&trace->cluster);

    if (request->rules) {
        const struct sim_rules *rules = rules_find(request->rules);

        if (!rules)
            return err_set(err, ERR_INVALID,
                           "rules '%s': there are pollux, sia, shockwave, tiresias, openb, berth",
                           request->rules);
        if (streq(rules->name, "openb") != (trace->pods != NULL))
            return err_set(err, ERR_INVALID, "rules 'openb' and the openb trace go together only");
        trace->rules = *rules;
    }
    for (size_t i = 0; i < trace->jobs.len; i++)
        trace->jobs.v[i].row = (uint32_t)i;
    if (trace->jobs.len > 0)
        qsort(trace->jobs.v, trace->jobs.len, sizeof(*trace->jobs.v), job_cmp);
    else if (!trace->pods)
        return err_set(err, ERR_INVALID, "%s:1: there are no jobs", request->path);
    VEC_EACH(&trace->jobs, job)
        if (job->gpus > gpus || job->gpus_min > gpus)
            return err_set(err, ERR_INVALID, "%s: job '%s' asks for %u GPUs, the cluster has %u", trace->name,
                           job->name, job->gpus, gpus);
    return 0;
}

int trace_load(const struct trace_request *request, struct trace **ret, struct err *err)
{
    CLEANUP(trace_free) struct trace *trace = NEW(struct trace);
    struct stat st;
    int result;

    trace->batch = request->batch;
    if (request->generate) {
        result = generate(trace, request, err);
    } else if (stat(request->path, &st) < 0) {
        result = err_errno(err, errno, "trace '%s'", request->path);
    } else if (S_ISDIR(st.st_mode)) {
        result = read_folder(trace, request, err);
    } else {
        result = read_own(trace, request, err);
    }
    if (result < 0 || finish(trace, request, err) < 0)
        return -1;
    *ret = TAKE_PTR(trace);
    return 0;
}

void trace_free(struct trace *trace)
{
    if (!trace)
        return;
    vec_done(&trace->jobs);
    vec_done(&trace->segments);
    pollux_free(trace->pollux);
    pairs_free(trace->pairs);
    pods_free(trace->pods);
    arena_done(&trace->arena);
    free(trace);
}
