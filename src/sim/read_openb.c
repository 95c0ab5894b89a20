/* openb: nodes with CPU, memory and GPUs of some model; pods that ask for all three. A GPU counts as a
 * thousand MiB, so that thousandths of one are what the scheduler calls memory. */
#include "base/mem.h"
#include "sim/csv.h"
#include "sim/pods.h"

#include <stdlib.h>

static int read_nodes(struct trace *trace, const char *path, struct err *err)
{
    enum { CPU, MEM, GPU, MODEL };
    static const struct csv_column columns[] = {
        {"cpu_milli", 0}, {"memory_mib", 0}, {"gpu", 0}, {"model", 0}};
    CLEANUP(csv_close) struct csv *csv = NULL;
    VEC(struct node) nodes = {0};
    int got;

    if (csv_open(path, columns, ARRAY_LEN(columns), &csv, err) < 0)
        return -1;
    while ((got = csv_next(csv, err)) > 0) {
        struct node node = {.name = "n"};
        double cpu = 0, mem = 0;
        struct label *label = arena_zalloc(&trace->arena, sizeof(*label));
        struct gpu *gpus;

        if (csv_number(csv, CPU, 0, 1e9, &cpu, err) < 0 || csv_number(csv, MEM, 0, 1e12, &mem, err) < 0 ||
            csv_uint(csv, GPU, 0, NODE_GPUS_MAX, &node.gpu_count, err) < 0) {
            got = -1;
            break;
        }
        gpus = arena_zalloc(&trace->arena, sizeof(*gpus) * (node.gpu_count + 1));
        for (uint32_t i = 0; i < node.gpu_count; i++)
            gpus[i].mem_mib = POD_GPU;
        *label = (struct label){"model", arena_strdup(&trace->arena, csv_text(csv, MODEL))};
        node.gpus = gpus;
        node.labels = (struct labels){label, 1};
        node.capacity = (struct resources){(int64_t)cpu, (int64_t)mem};
        vec_push(&nodes, node);
    }
    if (got == 0) {
        struct node *v = arena_alloc(&trace->arena, sizeof(*v) * (nodes.len + 1));

        if (nodes.len)
            memcpy(v, nodes.v, sizeof(*v) * nodes.len);
        trace->cluster = (struct cluster){v, (uint32_t)nodes.len};
    }
    vec_done(&nodes);
    return got;
}

static bool same_demand(const struct demand *a, const struct demand *b)
{
    return a->min_gpus == b->min_gpus && a->max_gpus == b->max_gpus && a->unit_gpus == b->unit_gpus &&
           a->mib == b->mib && a->exclusive == b->exclusive && a->each.cpu_milli == b->each.cpu_milli &&
           a->each.mem_mib == b->each.mem_mib;
}

static uint32_t shape_of(struct pods *pods, const struct pod_shape *shape)
{
    VEC_EACH(&pods->shapes, known)
        if (same_demand(&known->demand, &shape->demand) && streq(known->spec, shape->spec)) {
            known->count++;
            return (uint32_t)(known - pods->shapes.v);
        }
    vec_push(&pods->shapes, *shape);
    return (uint32_t)(pods->shapes.len - 1);
}

static int read_pods(struct trace *trace, const char *path, struct err *err)
{
    enum { CPU, MEM, GPUS, MILLI, SPEC };
    static const struct csv_column columns[] = {
        {"cpu_milli", 0}, {"memory_mib", 0}, {"num_gpu", 0}, {"gpu_milli", 0}, {"gpu_spec", 0}};
    CLEANUP(csv_close) struct csv *csv = NULL;
    int got;

    if (csv_open(path, columns, ARRAY_LEN(columns), &csv, err) < 0)
        return -1;
    while ((got = csv_next(csv, err)) > 0) {
        struct pod_shape shape;
        uint32_t gpus = 0, milli = 0;
        double cpu = 0, mem = 0;

        memset(&shape, 0, sizeof(shape)); /* compared as bytes */
        if (csv_number(csv, CPU, 0, 1e9, &cpu, err) < 0 || csv_number(csv, MEM, 0, 1e12, &mem, err) < 0 ||
            csv_uint(csv, GPUS, 0, NODE_GPUS_MAX, &gpus, err) < 0 ||
            csv_uint(csv, MILLI, 0, POD_GPU, &milli, err) < 0)
            return -1;
        if (gpus > 0 && milli == 0)
            return csv_fault(csv, err, "gpu_milli: a pod with a GPU needs some of it");
        shape.demand.min_gpus = shape.demand.max_gpus = shape.demand.unit_gpus = gpus;
        shape.demand.mib = gpus == 1 && milli < POD_GPU ? milli : 0;
        shape.demand.each = (struct resources){(int64_t)cpu, (int64_t)mem};
        shape.count = 1;
        shape.spec = csv_has(csv, SPEC) ? csv_text(csv, SPEC) : NULL;
        if (shape.spec)
            shape.spec = arena_strdup(&trace->arena, shape.spec);
        vec_push(&trace->pods->list, shape_of(trace->pods, &shape));
    }
    return got;
}

int read_openb(struct trace *trace, const struct trace_request *request, struct err *err)
{
    const char *which = request->workload ? request->workload : "default";

    trace->pods = NEW(struct pods);
    trace->rules = *rules_find("openb");
    trace->name = arena_printf(&trace->arena, "openb/%s", which);
    if (request->cluster)
        return err_set(err, ERR_INVALID, "openb has nodes of its own: --cluster cannot be given");
    if (read_nodes(trace, arena_printf(&trace->arena, "%s/nodes.csv", request->path), err) < 0 ||
        read_pods(trace, arena_printf(&trace->arena, "%s/pods_%s.csv", request->path, which), err) < 0)
        return -1;
    if (trace->pods->list.len == 0 || cluster_gpus(&trace->cluster) == 0)
        return err_set(err, ERR_INVALID, "%s:1: there are no pods or no GPUs", request->path);
    VEC_EACH(&trace->pods->shapes, shape)
        if (shape->spec) {
            struct label *label = arena_zalloc(&trace->arena, sizeof(*label));

            *label = (struct label){"model", shape->spec};
            shape->selector = (struct labels){label, 1};
        }
    return 0;
}

void pods_free(struct pods *pods)
{
    if (!pods)
        return;
    vec_done(&pods->list);
    vec_done(&pods->shapes);
    free(pods);
}
