/* bench_sched - how long decisions take. Not part of ./check.
 *
 *     bench_sched            all figures: microseconds of CPU time (other work on the machine does not count)
 *     bench_sched plan|event|large|POLICY    one case, for callgrind
 *
 * The cluster has 8 cards a node. A tenth of the jobs asks for 2 to 8 GPUs, a fifth for a share of a card; 50
 * users. */
#include "base/cleanup.h"
#include "base/mem.h"
#include "sched/live.h"

#include <stdio.h>
#include <time.h>

#define CARDS   8
#define REPEATS 5 /* of a sequence of events */

struct bench {
    uint32_t nodes, jobs;
    struct gpu *gpus;
    struct node *node;
    struct cluster cluster;
    struct workload *work;
    char (*names)[24];
    uint64_t seed;
};

static uint32_t below(struct bench *b, uint32_t n)
{
    b->seed ^= b->seed << 13;
    b->seed ^= b->seed >> 7;
    b->seed ^= b->seed << 17;
    return (uint32_t)(b->seed >> 33) % n;
}

static double now_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static void make_job(struct bench *b, uint32_t i)
{
    static char users[50][8];
    struct workload *w = &b->work[i];
    uint32_t kind = below(b, 10), user = below(b, 50);

    (void)snprintf(users[user], sizeof(users[user]), "u%u", user);
    (void)snprintf(b->names[i], sizeof(b->names[i]), "job-%u", i);
    *w = (struct workload){.id = i + 1,
                           .name = b->names[i],
                           .user = users[user],
                           .submit_ms = below(b, 1000000),
                           .resumable = true};
    w->demand = (struct demand){.min_gpus = 1, .max_gpus = 1, .each = {2000, 8192}};
    if (kind == 0)
        w->demand.min_gpus = w->demand.max_gpus = 2 + below(b, 7);
    else if (kind == 1)
        w->demand.max_gpus = 8;
    else if (kind <= 3)
        w->demand.mib = 4096 * (1 + below(b, 3));
    w->priority = (int32_t)below(b, 3) - 1;
    w->declared_ms = 3600000 * (int64_t)(1 + below(b, 40));
    w->epochs_total = 20;
    w->can_checkpoint = true;
}

static void bench_init(struct bench *b, uint32_t gpus, uint32_t jobs)
{
    *b = (struct bench){.nodes = gpus / CARDS, .jobs = jobs, .seed = 88172645463325252ULL};
    b->gpus = mem_zalloc(sizeof(*b->gpus) * gpus);
    b->node = mem_zalloc(sizeof(*b->node) * b->nodes);
    b->work = mem_zalloc(sizeof(*b->work) * jobs);
    b->names = mem_zalloc(sizeof(*b->names) * jobs);
    for (uint32_t i = 0; i < gpus; i++)
        b->gpus[i].mem_mib = i / CARDS % 4 == 0 ? 16384 : 24576;
    for (uint32_t n = 0; n < b->nodes; n++) {
        b->node[n] = (struct node){.name = "n", .gpus = b->gpus + (size_t)n * CARDS, .gpu_count = CARDS};
        b->node[n].capacity = (struct resources){96000, 786432};
    }
    b->cluster = (struct cluster){b->node, b->nodes};
    for (uint32_t i = 0; i < jobs; i++)
        make_job(b, i);
}

static void bench_done(struct bench *b)
{
    free(b->gpus);
    free(b->node);
    free(b->work);
    free(b->names);
}

static int double_cmp(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void print_figures(const char *what, double *us, size_t len)
{
    qsort(us, len, sizeof(*us), double_cmp);
    printf("%-64s best %9.1f  median %9.1f  p99 %9.1f us\n", what, us[0], us[len / 2], us[len * 99 / 100]);
    (void)fflush(stdout);
}

/* All jobs wait, all GPUs are free: sorting, placing, explaining everything. */
static void bench_plan(const char *policy, uint32_t gpus, uint32_t jobs, int runs)
{
    CLEANUP(plan_done) struct plan plan = {0};
    CLEANUP(free) double *us = mem_zalloc(sizeof(*us) * (size_t)runs);
    struct bench b;
    struct sched_view view;
    char what[128];

    bench_init(&b, gpus, jobs);
    view = (struct sched_view){
        .cluster = &b.cluster, .jobs = b.work, .job_count = jobs, .options = sched_defaults};
    for (int i = 0; i < runs; i++) {
        double start = now_us();

        sched_plan(sched_policy_find(policy), &view, 2000000, &plan);
        us[i] = now_us() - start;
    }
    (void)snprintf(what, sizeof(what), "full plan, %s: %u jobs on %u GPUs, %zu start", policy, jobs, gpus,
                   plan.actions.len);
    print_figures(what, us, (size_t)runs);
    bench_done(&b);
}

static void carry_out(struct live *live, const struct plan *plan, int64_t now)
{
    VEC_EACH(&plan->actions, action) {
        struct live_event event = {.id = live_view(live)->jobs[action->job].id, .at_ms = now};

        event.type = action->type == ACTION_START                                     ? LIVE_PLACE
                     : action->type == ACTION_CLAIM || action->type == ACTION_UNCLAIM ? LIVE_CLAIM
                                                                                      : LIVE_ASK_STOP;
        if (event.type != LIVE_ASK_STOP)
            event.slots = (struct placement){action->slots, action->slot_count};
        (void)live_apply(live, &event, NULL);
        if (event.type == LIVE_PLACE) {
            event.type = LIVE_RUNS;
            (void)live_apply(live, &event, NULL);
        }
    }
}

static uint64_t any_running(struct bench *b, const struct live *live)
{
    const struct sched_view *view = live_view(live);

    for (;;) {
        const struct workload *w = &view->jobs[below(b, view->job_count)];

        if (phase_holds(w->phase))
            return w->id;
    }
}

/* A full cluster and a long queue; then jobs come, end, stop and are relabelled: each with its decision. */
static void run_events(const char *policy, uint32_t gpus, uint32_t jobs, int runs, double *us)
{
    CLEANUP(plan_done) struct plan plan = {0};
    struct sched_options options = sched_defaults;
    struct bench b;
    int64_t now = 2000000;
    struct live *live;

    bench_init(&b, gpus, jobs);
    live = live_new(sched_policy_find(policy), &b.cluster, &options, NULL);
    for (uint32_t i = 0; i < jobs; i++)
        (void)live_apply(live, &(struct live_event){.type = LIVE_ADD, .workload = b.work[i]}, NULL);
    live_decide(live, now, &plan);
    carry_out(live, &plan, now);
    now += 200000;
    for (int i = 0; i < runs; i++) {
        struct live_event event = {.at_ms = now += 1000};
        double start;

        if (i % 3 == 0) {
            event.type = LIVE_ADD;
            event.workload = b.work[below(&b, jobs)];
            event.workload.id = 10000000 + (uint64_t)i;
            event.workload.submit_ms = now;
        } else if (i % 3 == 1) {
            event.id = any_running(&b, live);
            event.type = live_view(live)->jobs[live_find(live, event.id)].phase == PHASE_STOPPING
                             ? LIVE_STOPPED
                             : LIVE_END;
        } else {
            event.id = any_running(&b, live);
            event.type = LIVE_RELABEL;
            event.user = live_view(live)->jobs[live_find(live, event.id)].user;
            event.priority = (int32_t)below(&b, 5);
        }
        start = now_us();
        (void)live_apply(live, &event, NULL);
        live_decide(live, now, &plan);
        us[i] = now_us() - start;
        carry_out(live, &plan, now);
    }
    live_free(live);
    bench_done(&b);
}

/* The events are the same in every repeat: the least time of each is without what else the machine did. */
static void bench_events(const char *policy, uint32_t gpus, uint32_t jobs, int runs)
{
    CLEANUP(free) double *us = mem_zalloc(sizeof(*us) * (size_t)runs * 2);
    double *least = us + runs;
    char what[128];

    for (int k = 0; k < REPEATS; k++) {
        run_events(policy, gpus, jobs, runs, us);
        for (int i = 0; i < runs; i++)
            least[i] = k == 0 || us[i] < least[i] ? us[i] : least[i];
    }
    (void)snprintf(what, sizeof(what), "one event, %s: %u jobs on %u GPUs", policy, jobs, gpus);
    print_figures(what, us, (size_t)runs);
    (void)snprintf(what, sizeof(what), "  the same, least of %d repeats of each event", REPEATS);
    print_figures(what, least, (size_t)runs);
}

int main(int argc, char **argv)
{
    const char *one = argc > 1 ? argv[1] : NULL;

    if (!one || streq(one, "plan"))
        bench_plan("fair", 1000, 10000, one ? 1 : 50);
    if (!one || streq(one, "event"))
        bench_events("fair", 1000, 11000, 600);
    if (!one || streq(one, "large"))
        bench_plan("fair", 10000, 100000, one ? 1 : 10);
    for (const struct sched_policy *const *p = sched_policies + 1; *p; p++)
        if (!one || streq(one, sched_policy_name(*p))) {
            bench_plan(sched_policy_name(*p), 1000, 10000, one ? 1 : 20);
            if (!one)
                bench_events(sched_policy_name(*p), 1000, 11000, 300);
        }
    return 0;
}
