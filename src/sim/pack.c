/* Packing pods (openb): shuffled, repeated until they ask for 130% of all GPUs, placed one by one with the
 * scheduler's own placement; who does not fit is dropped. The figure is how much of the GPUs is given out,
 * over ten shuffles. */
#include "base/mem.h"
#include "sched/space.h"
#include "sim/pods.h"
#include "sim/sim.h"

#include <stdlib.h>
#include <time.h>

#define DEMAND_PERCENT 130
#define SHUFFLES       10

struct packing {
    const struct trace *trace;
    struct space space;
    struct frag *frag;
    uint8_t **may; /* per shape: nodes it may use; NULL: all */
    struct query query;
    VEC(float) us;
};

static uint64_t next(uint64_t *seed)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15ULL;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
    return z ^ z >> 31;
}

static int64_t milli_of(const struct demand *d)
{
    return d->mib ? d->mib : (int64_t)d->min_gpus * POD_GPU;
}

static void shuffle(uint32_t *v, size_t len, uint64_t seed)
{
    for (size_t i = len; i > 1; i--) {
        size_t k = next(&seed) % i;
        uint32_t kept = v[i - 1];

        v[i - 1] = v[k];
        v[k] = kept;
    }
}

static double clock_us(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* Thousandths given out, of one shuffle. */
static int64_t pack_once(struct packing *p, uint64_t seed, double *dropped)
{
    const struct pods *pods = p->trace->pods;
    CLEANUP(free) uint32_t *order = mem_dup(pods->list.v, sizeof(*order) * pods->list.len);
    int64_t all = (int64_t)cluster_gpus(&p->trace->cluster) * POD_GPU, asked = 0, given = 0;

    space_init(&p->space, &p->trace->cluster);
    frag_reset(p->frag);
    shuffle(order, pods->list.len, seed);
    for (size_t i = 0; asked < all * DEMAND_PERCENT / 100; i++) {
        uint32_t which = order[i % pods->list.len];
        const struct demand *d = &pods->shapes.v[which].demand;
        struct slot slots[NODE_GPUS_MAX];
        double before = clock_us();
        bool fits;

        p->query.demand = d;
        p->query.gpus = d->min_gpus;
        p->query.nodes = p->may[which];
        p->query.shape = which;
        fits = space_place(&p->space, &p->query, slots);
        vec_push(&p->us, (float)(clock_us() - before));
        asked += milli_of(d);
        if (i > 100 * pods->list.len)
            break; /* nobody asks for GPUs */
        if (!fits) {
            *dropped += 1;
            continue;
        }
        given += milli_of(d);
        space_use(&p->space, d, (struct placement){slots, d->min_gpus ? d->min_gpus : 1}, 1);
        if (p->frag)
            frag_changed(p->frag, slots[0].node);
    }
    space_done(&p->space);
    return given;
}

static void packing_init(struct packing *p, const struct trace *trace, const char *policy)
{
    const struct pods *pods = trace->pods;
    CLEANUP(free) struct mix_row *mix = mem_zalloc(sizeof(*mix) * (pods->shapes.len + 1));

    *p = (struct packing){.trace = trace};
    p->may = mem_zalloc(sizeof(*p->may) * (pods->shapes.len + 1));
    for (size_t i = 0; i < pods->shapes.len; i++) {
        const struct pod_shape *shape = &pods->shapes.v[i];

        mix[i] = (struct mix_row){shape->demand, shape->selector, shape->count};
        if (!shape->spec)
            continue;
        p->may[i] = mem_zalloc(trace->cluster.node_count + 1);
        for (uint32_t n = 0; n < trace->cluster.node_count; n++)
            p->may[i][n] = labels_match(trace->cluster.nodes[n].labels, shape->selector);
    }
    p->query.rule = streq(policy, "bestfit") ? PLACE_BEST_FIT : PLACE_FRAGMENT;
    if (p->query.rule == PLACE_FRAGMENT)
        p->frag = frag_new(&trace->cluster, mix, (uint32_t)pods->shapes.len,
                           streq(policy, "berth") ? FRAG_AHEAD : 0);
    p->query.frag = p->frag;
}

static void packing_done(struct packing *p)
{
    for (size_t i = 0; i < p->trace->pods->shapes.len; i++)
        free(p->may[i]);
    free(p->may);
    frag_free(p->frag);
    vec_done(&p->us);
}

static int float_cmp(const void *va, const void *vb)
{
    float a = *(const float *)va, b = *(const float *)vb;

    return (a > b) - (a < b);
}

int sim_pack(const struct trace *trace, const struct sim_options *options, struct sim_result *ret,
             struct err *err)
{
    double before = clock_us(), sum = 0, dropped = 0;
    uint32_t gpus = cluster_gpus(&trace->cluster);
    struct packing p;

    (void)err;
    packing_init(&p, trace, options->policy);
    for (uint32_t i = 0; i < SHUFFLES; i++) {
        sum += (double)pack_once(&p, options->seed * 1000 + i, &dropped) / ((double)gpus * POD_GPU);
        if (options->progress)
            options->progress(options->of, (i + 1.0) / SHUFFLES);
    }
    result_init(ret, trace, options->policy,
                streq(options->policy, "bestfit") ? "none" : "how often which pods come");
    ret->jobs = (uint32_t)trace->pods->list.len;
    ret->gpus = gpus;
    ret->gpu_alloc_pct = 100 * sum / SHUFFLES;
    qsort(p.us.v, p.us.len, sizeof(float), float_cmp);
    ret->decision_us_p50 = p.us.v[p.us.len / 2];
    ret->decision_us_p99 = p.us.v[p.us.len * 99 / 100];
    ret->wall_s = (clock_us() - before) / 1e6;
    packing_done(&p);
    return 0;
}
