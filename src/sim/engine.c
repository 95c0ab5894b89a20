/* The engine. Rounds: every so often all running jobs advance, then the scheduler decides. Events: a heap of
 * what happens next; the scheduler decides whenever a job came, ended or stopped. A job that starts makes no
 * progress for the cost of a start. */
#include "base/heap.h"
#include "base/mem.h"
#include "sched/live.h"
#include "sim/promise.h"
#include "sim/sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define PASSES_MAX  4      /* decisions at one instant */
#define STUCK_MAX   100000 /* rounds without anything running */

#define SMALL_GPUS  1024 /* up to here every event has its decision */
#define LARGE_GAP_S 60.0

struct run_job {
    struct progress p;
    double last_s;  /* progress is known up to then */
    double delay_s; /* of the start, still to go */
    double due_s;   /* when it is to be looked at (events) */
    double end_s, gpu_s, lost_s;
    double contention_s; /* demand per GPU over its life; negative of where it began until it is over */
    size_t place;        /* in the heap */
    struct slot *slots;
    uint8_t *counts;
    struct at at;
    uint32_t starts;
    uint32_t known; /* sizes of its curve that were measured */
    uint32_t told;  /* epochs the scheduler was told of */
    bool running, stopping, over;
};

struct run {
    const struct trace *trace;
    const struct sim_options *options;
    struct sim_rules rules;
    struct sched_options sched;
    struct live *live;
    struct promise *promise; /* NULL: too many GPUs to look each time */
    struct plan plan;
    struct run_job *jobs;
    struct heap heap;
    bool stale;           /* jobs came or went since the last decision */
    double renewed;       /* when that was */
    VEC(uint32_t) active; /* running ones, for rounds */
    VEC(float) decisions; /* microseconds */
    VEC(struct sim_sample) samples;
    uint32_t *on_card; /* two for each card: job + 1 */
    uint32_t *card0;   /* of each node */
    bool elastic, shares, pending;
    double now, contention, idle_s, busy_s, last_account;
    double gap_s, decided_s; /* between decisions of policies that weigh all jobs against each other */
    VEC(double) starts;      /* of jobs that could not be stopped yet when the scheduler looked, by time */
    size_t starts_seen;
    uint32_t arrived, finished, waiting, gpus, used, wanted;
    uint32_t sample_every, sample_skip;
};

static int64_t ms_of(double s)
{
    return llround(s * 1000);
}

/* ---- noise: lasting, the same for the same seed ---- */

static double gauss(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t x =
        seed * 0x9e3779b97f4a7c15ULL ^ (a + 1) * 0xbf58476d1ce4e5b9ULL ^ (b + 1) * 0x94d049bb133111ebULL;
    double sum = 0;

    for (int i = 0; i < 12; i++) {
        x += 0x9e3779b97f4a7c15ULL;
        uint64_t z = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ULL;

        z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
        sum += (double)((z ^ z >> 31) >> 11) * 0x1p-53;
    }
    return sum - 6;
}

/* What the scheduler is told of a job: its profile, wrong as noise has it where it was not measured. */
static void tell_forecast(struct run *run, uint32_t index)
{
    struct run_job *j = &run->jobs[index];
    struct forecast f;

    run->trace->model->profile(run->trace, index, &j->p, run->elastic, &f);
    for (uint32_t i = 0; i < f.points; i++)
        if (j->known >> i & 1 || run->options->noise_speed <= 0) /* the profile is right */
            f.tried |= 1U << i;
        else if (run->options->noise_speed > 0)
            f.curve[i].rate *=
                (float)exp(run->options->noise_speed * gauss(run->options->seed, index, i + 1));
    if (run->options->noise_size > 0) {
        double left = 1 - (double)j->p.epoch / run->trace->model->epochs(run->trace, index);

        f.work_s *= exp(run->options->noise_size * left * gauss(run->options->seed, index, 0));
    }
    f.as_of_ms = ms_of(j->last_s + j->delay_s);
    (void)live_forecast(run->live, index + 1, &f, NULL);
}

static void measured(struct run *run, uint32_t index)
{
    struct run_job *j = &run->jobs[index];
    const struct forecast *f = &live_view(run->live)->forecasts[live_find(run->live, index + 1)];

    for (uint32_t i = 0; i < f->points; i++)
        if (f->curve[i].gpus == j->at.gpus)
            j->known |= 1U << i;
}

/* ---- sharing ---- */

static uint32_t *cards_of(const struct run *run, const struct slot *slot)
{
    return &run->on_card[2 * (run->card0[slot->node] + slot->card)];
}

/* The batch a job trains with now. */
static uint32_t batch_of(const struct run *run, uint32_t index)
{
    const struct trace_job *job = &run->trace->jobs.v[index];
    uint32_t epoch = run->jobs[index].p.epoch;

    for (uint32_t i = 0; i < job->segments; i++) {
        const struct segment *s = &run->trace->segments.v[job->segment0 + i];

        if (epoch < s->epochs || i + 1 == job->segments)
            return s->batch;
        epoch -= s->epochs;
    }
    return job->batch;
}

static double pair_factor(const struct run *run, uint32_t a, uint32_t b)
{
    const struct trace_job *ja = &run->trace->jobs.v[a], *jb = &run->trace->jobs.v[b];

    if (!run->trace->pairs)
        return 0.65;
    return pairs_factor(run->trace->pairs, ja->gpus, ja->app, batch_of(run, a), jb->app, batch_of(run, b));
}

static float told_factor(void *of, uint64_t id, uint64_t with)
{
    return (float)pair_factor(of, (uint32_t)id - 1, (uint32_t)with - 1);
}

static void refactor(struct run *run, uint32_t index)
{
    struct run_job *j = &run->jobs[index];
    double factor = 1;

    for (uint32_t i = 0; i < j->at.gpus && run->shares; i++) {
        const uint32_t *on = cards_of(run, &j->slots[i]);

        for (int k = 0; k < 2; k++)
            if (on[k] && on[k] != index + 1)
                factor = fmin(factor, fmax(pair_factor(run, index, on[k] - 1), 0.05));
    }
    j->at.factor = factor;
}

static void set_due(struct run *run, uint32_t index);
static void advance(struct run *run, uint32_t index, double to);

/* Neighbours are slower or faster from now on. */
static void occupy(struct run *run, uint32_t index, bool on)
{
    struct run_job *j = &run->jobs[index];

    for (uint32_t i = 0; i < j->at.gpus && run->shares; i++) {
        uint32_t *cards = cards_of(run, &j->slots[i]);
        uint32_t from = on ? 0 : index + 1, to = on ? index + 1 : 0, other;

        run->used += on && !cards[0] && !cards[1];
        if (cards[0] == from)
            cards[0] = to;
        else if (cards[1] == from)
            cards[1] = to;
        run->used -= !on && !cards[0] && !cards[1];
        other = cards[0] && cards[0] != index + 1 ? cards[0] : cards[1] != index + 1 ? cards[1] : 0;
        if (other && run->jobs[other - 1].running) {
            advance(run, other - 1, run->now);
            refactor(run, other - 1);
            set_due(run, other - 1);
        }
    }
}

/* ---- jobs ---- */

static void account(struct run *run)
{
    double dt = run->now - run->last_account;
    uint32_t idle = run->used < run->gpus ? run->gpus - run->used : 0;

    if (dt <= 0)
        return;
    run->last_account = run->now;
    run->busy_s += dt * run->used;
    run->contention += dt * fmax(1, (double)run->wanted / run->gpus);
    if (run->waiting > 0)
        run->idle_s += dt * idle;
}

static void end_job(struct run *run, uint32_t index, double at)
{
    struct run_job *j = &run->jobs[index];

    j->over = true;
    j->running = false;
    j->end_s = at;
}

static void advance(struct run *run, uint32_t index, double to)
{
    struct run_job *j = &run->jobs[index];
    double seconds = to - j->last_s, delay = fmin(j->delay_s, fmax(seconds, 0)), used = 0;

    if (seconds <= 0 || j->over)
        return;
    j->delay_s -= delay;
    seconds -= delay;
    j->lost_s += delay * j->at.gpus;
    if (seconds > 0 && run->trace->model->run(run->trace, index, &j->at, &j->p, seconds, &used)) {
        j->gpu_s += (delay + used) * j->at.gpus;
        end_job(run, index, j->last_s + delay + used);
        return;
    }
    j->gpu_s += (to - j->last_s) * j->at.gpus;
    j->last_s = to;
}

static void set_due(struct run *run, uint32_t index)
{
    struct run_job *j = &run->jobs[index];
    bool epochs = run->rules.at_epochs;

    if (run->rules.round_s > 0 || !j->running)
        return;
    j->due_s = j->last_s + j->delay_s +
               fmax(run->trace->model->left(run->trace, index, &j->at, &j->p, epochs), 1e-6);
    if (j->place == HEAP_OUT)
        heap_push(&run->heap, j);
    else
        heap_moved(&run->heap, j);
}

static struct demand demand_of(const struct run *run, uint32_t index)
{
    const struct trace_job *job = &run->trace->jobs.v[index];
    struct demand d = {.min_gpus = job->gpus, .max_gpus = job->gpus, .unit_gpus = 1};

    if (run->elastic) {
        d.min_gpus = job->gpus_min;
        d.max_gpus = job->gpus_max < run->gpus ? job->gpus_max : run->gpus;
    }
    if (run->shares)
        d.mib = job->mib;
    return d;
}

static void arrive(struct run *run, uint32_t index)
{
    const struct trace_job *job = &run->trace->jobs.v[index];
    struct live_event event = {.type = LIVE_ADD, .at_ms = ms_of(run->now)};

    event.workload = (struct workload){.id = index + 1,
                                       .user = job->user,
                                       .priority = job->priority,
                                       .demand = demand_of(run, index),
                                       .submit_ms = ms_of(job->submit_s),
                                       .declared_ms = ms_of(job->declared_s),
                                       .can_checkpoint = true,
                                       .resumable = true};
    if (run->rules.at_epochs)
        event.workload.epochs_total =
            job->announced ? job->announced : run->trace->model->epochs(run->trace, index);
    account(run);
    run->jobs[index].contention_s = -run->contention;
    run->jobs[index].last_s = run->now;
    if (live_apply(run->live, &event, NULL) < 0)
        return;
    tell_forecast(run, index);
    run->waiting++;
    run->wanted += job->gpus;
}

static void release(struct run *run, uint32_t index)
{
    struct run_job *j = &run->jobs[index];

    account(run);
    if (!run->shares)
        run->used -= j->at.gpus;
    j->running = false;
    occupy(run, index, false);
    if (j->place != HEAP_OUT && run->rules.round_s <= 0)
        heap_remove(&run->heap, j);
    for (size_t i = 0; i < run->active.len && run->rules.round_s > 0; i++)
        if (run->active.v[i] == index) {
            run->active.v[i] = run->active.v[--run->active.len];
            break;
        }
}

static void finish(struct run *run, uint32_t index)
{
    struct live_event event = {.type = LIVE_END, .id = index + 1, .at_ms = ms_of(run->now)};

    release(run, index);
    run->wanted -= run->trace->jobs.v[index].gpus;
    run->jobs[index].contention_s += run->contention;
    run->finished++;
    (void)live_apply(run->live, &event, NULL);
}

static void stop(struct run *run, uint32_t index)
{
    struct live_event event = {.type = LIVE_STOPPED, .id = index + 1, .at_ms = ms_of(run->now)};
    struct run_job *j = &run->jobs[index];

    advance(run, index, run->now);
    if (j->over) {
        finish(run, index);
        return;
    }
    release(run, index);
    j->stopping = false;
    j->delay_s = 0;
    run->waiting++;
    measured(run, index);
    (void)live_apply(run->live, &event, NULL);
    tell_forecast(run, index);
}

static double restart_cost(const struct run *run, uint32_t index)
{
    if (run->rules.first_free && run->jobs[index].starts == 0)
        return 0;
    if (run->rules.restart_s >= 0)
        return run->rules.restart_s;
    return trace_restart_s(run->trace, index);
}

static bool start(struct run *run, uint32_t index, const struct slot *slots, uint32_t len)
{
    struct live_event event = {.type = LIVE_PLACE, .id = index + 1, .at_ms = ms_of(run->now)};
    struct run_job *j = &run->jobs[index];

    event.slots = (struct placement){slots, len};
    if (j->running || live_apply(run->live, &event, NULL) < 0)
        return false;
    event.type = LIVE_RUNS;
    (void)live_apply(run->live, &event, NULL);
    account(run);
    j->slots = mem_realloc(j->slots, sizeof(*slots) * len);
    memcpy(j->slots, slots, sizeof(*slots) * len);
    j->counts = mem_realloc(j->counts, len);
    j->at = (struct at){.gpus = len, .counts = j->counts, .factor = 1};
    for (uint32_t i = 0; i < len; i++) {
        if (i == 0 || slots[i].node != slots[i - 1].node)
            j->counts[j->at.nodes++] = 0;
        j->counts[j->at.nodes - 1]++;
    }
    j->delay_s = restart_cost(run, index);
    j->starts++;
    j->last_s = run->now;
    j->running = true;
    if (!run->shares)
        run->used += len;
    run->waiting--;
    if (run->rules.round_s > 0)
        vec_push(&run->active, index);
    else if (run->sched.min_run_ms > 0)
        vec_push(&run->starts, run->now);
    occupy(run, index, true);
    refactor(run, index);
    set_due(run, index);
    tell_forecast(run, index);
    return true;
}

/* ---- deciding ---- */

static void ask_stop(struct run *run, uint32_t index)
{
    struct live_event event = {.type = LIVE_ASK_STOP, .id = index + 1, .at_ms = ms_of(run->now)};

    if (live_apply(run->live, &event, NULL) < 0)
        return;
    if (run->rules.at_epochs)
        run->jobs[index].stopping = true;
    else
        stop(run, index);
}

static void claim(struct run *run, uint32_t index, const struct slot *slots, uint32_t len)
{
    struct live_event event = {.type = LIVE_CLAIM, .id = index + 1, .at_ms = ms_of(run->now)};

    event.slots = (struct placement){slots, len};
    (void)live_apply(run->live, &event, NULL);
}

static double clock_us(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* One decision, carried out. Returns whether something could not be at once. */
static bool pass(struct run *run)
{
    double before = clock_us();
    bool again = false;

    live_decide(run->live, ms_of(run->now), &run->plan);
    vec_push(&run->decisions, (float)(clock_us() - before));
    VEC_EACH(&run->plan.actions, action)
        action->job = (uint32_t)live_view(run->live)->jobs[action->job].id - 1;
    VEC_EACH(&run->plan.actions, action)
        if (action->type == ACTION_PREEMPT || action->type == ACTION_RESIZE)
            ask_stop(run, action->job);
    VEC_EACH(&run->plan.actions, action) {
        if (action->type == ACTION_UNCLAIM)
            claim(run, action->job, NULL, 0);
        if (action->slot_count == 0 || (action->type == ACTION_RESIZE && run->jobs[action->job].running))
            continue;
        if (!start(run, action->job, action->slots, action->slot_count)) {
            if (action->type == ACTION_CLAIM)
                claim(run, action->job, action->slots, action->slot_count);
            else
                again = true;
        }
    }
    return again;
}

static void sample(struct run *run)
{
    if (run->sample_skip++ % run->sample_every != 0)
        return;
    vec_push(&run->samples, (struct sim_sample){(float)run->now, (float)run->used, (float)run->waiting});
    if (run->samples.len < 2 * SIM_SAMPLES)
        return;
    for (size_t i = 0; i < SIM_SAMPLES; i++)
        run->samples.v[i] = run->samples.v[2 * i];
    run->samples.len = SIM_SAMPLES;
    run->sample_every *= 2;
}

static void decide(struct run *run)
{
    for (int i = 0; i < PASSES_MAX && pass(run); i++)
        ;
    sample(run);
    if (run->options->progress)
        run->options->progress(run->options->of, (double)run->finished / (double)run->trace->jobs.len);
}

static void look_at_promise(struct run *run)
{
    if (run->promise)
        promise_look(run->promise, ms_of(run->now));
}

/* ---- time ---- */

static bool arrivals(struct run *run)
{
    const struct trace *trace = run->trace;
    bool any = false;

    for (; run->arrived < trace->jobs.len && trace->jobs.v[run->arrived].submit_s <= run->now; any = true)
        arrive(run, run->arrived++);
    return any;
}

static void step_round(struct run *run)
{
    for (size_t i = 0; i < run->active.len;) {
        uint32_t index = run->active.v[i];
        struct run_job *j = &run->jobs[index];
        uint32_t epoch = j->p.epoch;

        if (run->shares)
            refactor(run, index);
        advance(run, index, run->now);
        if (j->over) {
            finish(run, index); /* the last one takes its place */
            continue;
        }
        if (j->p.epoch != epoch) {
            measured(run, index);
            tell_forecast(run, index);
        }
        i++;
    }
}

/* Whether a decision is due: Gavel makes its allocation anew only when jobs came or went, and not too often.
 */
static bool renew(struct run *run, bool changed)
{
    if (run->rules.renew_s <= 0 || !streq(run->options->policy, "fifo"))
        return true;
    run->stale |= changed;
    if (!run->stale || run->now - run->renewed < run->rules.renew_s)
        return false;
    run->stale = false;
    run->renewed = run->now;
    return true;
}

static int run_rounds(struct run *run, struct err *err)
{
    uint32_t stuck = 0;

    run->renewed = -INFINITY;

    for (run->now = run->rules.first_s; run->finished < run->trace->jobs.len;
         run->now += run->rules.round_s) {
        size_t finished = run->finished;
        bool came;

        account(run);
        step_round(run);
        came = arrivals(run);
        if (renew(run, came || run->finished != finished))
            decide(run);
        look_at_promise(run);
        stuck = run->active.len > 0 || run->arrived < run->trace->jobs.len ? 0 : stuck + 1;
        if (stuck > STUCK_MAX)
            return err_set(err, ERR_INTERNAL, "policy '%s' starts nothing any more", run->options->policy);
    }
    return 0;
}

/* When time alone changes the order: las. */
static double next_crossing(const struct run *run)
{
    int64_t at = live_next_ms(run->live, ms_of(run->now));

    return at == INT64_MAX ? INFINITY : (double)at / 1000;
}

/* What is due by now. Returns whether the scheduler should look. */
static bool due(struct run *run)
{
    struct run_job *j;
    bool look = false;

    while ((j = heap_first(&run->heap)) && j->due_s <= run->now + 1e-9) {
        uint32_t index = (uint32_t)(j - run->jobs);

        advance(run, index, run->now > j->due_s ? run->now : j->due_s);
        if (j->over) {
            finish(run, index);
            look = true;
        } else if (j->stopping) {
            stop(run, index);
            look = true;
        } else {
            if (run->rules.at_epochs && j->p.epoch > j->told) {
                struct live_event event = {.type = LIVE_EPOCH, .id = index + 1, .at_ms = ms_of(run->now)};

                event.epochs_done = j->told = j->p.epoch;
                (void)live_apply(run->live, &event, NULL);
                if (!(j->known & 1U << 31)) {
                    measured(run, index);
                    j->known |= 1U << 31;
                    tell_forecast(run, index);
                }
            }
            set_due(run, index);
        }
    }
    return look;
}

/* When the next of those that have just started may be stopped. */
static double next_may_stop(const struct run *run)
{
    return run->starts_seen < run->starts.len && run->waiting > 0
               ? run->starts.v[run->starts_seen] + (double)run->sched.min_run_ms / 1000
               : INFINITY;
}

/* Whether one of them may be stopped from now on. */
static bool may_stop_now(struct run *run)
{
    size_t seen = run->starts_seen;

    while (run->starts_seen < run->starts.len && next_may_stop(run) <= run->now)
        run->starts_seen++;
    return run->starts_seen != seen;
}

static int run_events(struct run *run, struct err *err)
{
    const struct trace *trace = run->trace;
    double crossing = INFINITY;

    while (run->finished < trace->jobs.len) {
        const struct run_job *first = heap_first(&run->heap);
        double next = first ? first->due_s : INFINITY;
        bool look;

        if (run->arrived < trace->jobs.len)
            next = fmin(next, trace->jobs.v[run->arrived].submit_s);
        next = fmin(next, crossing);
        if (run->pending)
            next = fmin(next, run->decided_s + run->gap_s);
        next = fmin(next, next_may_stop(run));
        if (!isfinite(next))
            return err_set(err, ERR_INTERNAL, "policy '%s' starts nothing any more", run->options->policy);
        run->now = fmax(next, run->now);
        account(run);
        look = due(run);
        look = arrivals(run) || look;
        look = may_stop_now(run) || look || run->pending || run->now >= crossing;
        run->pending = look && run->now < run->decided_s + run->gap_s;
        if (look && !run->pending) {
            run->decided_s = run->now;
            decide(run);
            crossing = next_crossing(run);
        }
        look_at_promise(run);
    }
    return 0;
}

/* ---- the whole ---- */

static bool due_before(const void *va, const void *vb)
{
    const struct run_job *a = va, *b = vb;

    return a->due_s != b->due_s ? a->due_s < b->due_s : a < b;
}

static void run_init(struct run *run, const struct trace *trace, const struct sim_options *options)
{
    const struct sched_policy *policy = sched_policy_find(options->policy);
    uint32_t at = 0;

    *run = (struct run){.trace = trace, .options = options, .rules = trace->rules, .sample_every = 1};
    run->sched = trace->rules.options;
    if (options->restart_s >= 0)
        run->rules.restart_s = options->restart_s;
    run->sched.restart_ms = ms_of(fmax(run->rules.restart_s, 0));
    if (streq(options->policy, "berth")) { /* the rules say how others place */
        run->sched.place = PLACE_BEST_FIT;
        run->sched.probes_max = sched_defaults.probes_max;
        run->sched.rank_power = sched_defaults.rank_power;
        run->sched.repay_ms = sched_defaults.repay_ms;
        run->sched.critical_margin = sched_defaults.critical_margin;
    }
    run->elastic =
        streq(options->policy, "berth") || streq(options->policy, "pressure") ||
        (trace->rules.at_epochs && !streq(options->policy, "las") && !streq(options->policy, "srtf"));
    run->shares = trace->pairs ? streq(options->policy, "berth") : trace->rules.at_epochs;
    run->gpus = cluster_gpus(&trace->cluster);
    if (run->gpus > SMALL_GPUS && (streq(options->policy, "berth") || streq(options->policy, "pressure")))
        run->gap_s = LARGE_GAP_S;
    run->decided_s = -run->gap_s;
    run->jobs = mem_zalloc(sizeof(*run->jobs) * (trace->jobs.len + 1));
    for (size_t i = 0; i < trace->jobs.len; i++)
        run->jobs[i].place = HEAP_OUT;
    run->on_card = mem_zalloc(sizeof(*run->on_card) * 2 * (run->gpus + 1));
    run->card0 = mem_zalloc(sizeof(*run->card0) * (trace->cluster.node_count + 1));
    for (uint32_t n = 0; n < trace->cluster.node_count; n++) {
        run->card0[n] = at;
        at += trace->cluster.nodes[n].gpu_count;
    }
    heap_init(&run->heap, due_before, offsetof(struct run_job, place));
    run->live = live_new(policy, &trace->cluster, &run->sched, NULL);
    if (run->gpus <= SMALL_GPUS)
        run->promise =
            promise_new(run->live, &trace->cluster, (uint32_t)trace->jobs.len, run->sched.min_run_ms);
    if (run->shares && trace->pairs)
        live_pairs(run->live, told_factor, run);
}

static void run_done(struct run *run)
{
    for (size_t i = 0; i < run->trace->jobs.len; i++) {
        free(run->jobs[i].slots);
        free(run->jobs[i].counts);
    }
    free(run->jobs);
    free(run->on_card);
    free(run->card0);
    heap_done(&run->heap);
    promise_free(run->promise);
    live_free(run->live);
    plan_done(&run->plan);
    vec_done(&run->active);
    vec_done(&run->starts);
    vec_done(&run->decisions);
    vec_done(&run->samples);
}

static int float_cmp(const void *va, const void *vb)
{
    float a = *(const float *)va, b = *(const float *)vb;

    return (a > b) - (a < b);
}

static int double_cmp(const void *va, const void *vb)
{
    double a = *(const double *)va, b = *(const double *)vb;

    return (a > b) - (a < b);
}

/* As numpy's percentile: linear between neighbours. */
static double quantile(const double *v, size_t len, double q)
{
    double at = q * (double)(len - 1);
    size_t i = (size_t)at;

    return i + 1 < len ? v[i] + (at - (double)i) * (v[i + 1] - v[i]) : v[len - 1];
}

static double fairness(const struct run *run, uint32_t index)
{
    const struct trace_job *job = &run->trace->jobs.v[index];
    const struct run_job *j = &run->jobs[index];
    double jct = j->end_s - job->submit_s, share;

    if (run->rules.ftf == FTF_TRACE)
        share = fmax(1, (double)run->trace->jobs.len / run->gpus);
    else
        share = jct > 0 ? fmax(1, j->contention_s / jct) : 1;
    return jct / (job->alone_s * share);
}

static void measure(const struct run *run, struct sim_result *ret)
{
    size_t len = run->trace->jobs.len;
    CLEANUP(free) double *jct = mem_alloc(sizeof(*jct) * (len + 1));
    double unfair = 0, starts = 0, end = 0;

    for (uint32_t i = 0; i < len; i++) {
        const struct run_job *j = &run->jobs[i];
        double rho = fairness(run, i);

        jct[i] = j->end_s - run->trace->jobs.v[i].submit_s;
        ret->avg_jct_s += jct[i] / (double)len;
        end = fmax(end, j->end_s);
        ret->worst_ftf = fmax(ret->worst_ftf, rho);
        unfair += rho > 1;
        starts += j->starts > 0 ? j->starts - 1 : 0;
        ret->gpu_hours += j->gpu_s / 3600;
        ret->lost_work_s += j->lost_s;
    }
    qsort(jct, len, sizeof(*jct), double_cmp);
    ret->median_jct_s = quantile(jct, len, 0.5);
    ret->p99_jct_s = quantile(jct, len, 0.99);
    for (int i = 0; i <= 100; i++)
        ret->jct[i] = (float)quantile(jct, len, i / 100.0);
    ret->makespan_s = end;
    ret->unfair_pct = 100 * unfair / (double)len;
    ret->restarts_per_job = starts / (double)len;
    ret->idle_while_waiting_gpu_hours = run->idle_s / 3600;
    ret->promise_jobs = ret->promise_users = ret->promise_s = NAN;
    if (run->promise) {
        struct promise_result broken;

        promise_sum(run->promise, &broken);
        ret->promise_jobs = broken.jobs;
        ret->promise_users = broken.users;
        ret->promise_s = broken.seconds;
    }
    ret->gpu_alloc_pct = end > 0 ? 100 * fmin(run->busy_s / (end * run->gpus), 1) : 0;
}

static const char *information_of(const struct sim_options *options)
{
    static const struct {
        const char *policy, *what;
    } rows[] = {{"fifo", "none"}, {"fair", "declared time"}, {"las", "none"}};

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (streq(rows[i].policy, options->policy))
            return rows[i].what;
    if (options->noise_size > 0 || options->noise_speed > 0)
        return "declared epochs, profiled speeds, both with error, learned online";
    return streq(options->policy, "srtf") ? "oracle" : "declared epochs, profiled speeds";
}

static void collect(struct run *run, struct sim_result *ret)
{
    result_init(ret, run->trace, run->options->policy, information_of(run->options));
    ret->jobs = (uint32_t)run->trace->jobs.len;
    ret->gpus = run->gpus;
    measure(run, ret);
    for (size_t i = 0; i < run->samples.len; i += (run->samples.len + SIM_SAMPLES - 1) / SIM_SAMPLES)
        ret->samples[ret->sample_count++] = run->samples.v[i];
    if (run->decisions.len > 0) {
        qsort(run->decisions.v, run->decisions.len, sizeof(float), float_cmp);
        ret->decision_us_p50 = run->decisions.v[run->decisions.len / 2];
        ret->decision_us_p99 = run->decisions.v[run->decisions.len * 99 / 100];
    }
}

bool sim_policy_known(const struct trace *trace, const char *policy)
{
    if (trace->pods)
        return streq(policy, "bestfit") || streq(policy, "fgd") || streq(policy, "berth");
    return sched_policy_find(policy) != NULL;
}

int sim_run(const struct trace *trace, const struct sim_options *options, struct sim_result *ret,
            struct err *err)
{
    double before = clock_us();
    struct run run;
    int result;

    if (trace->pods)
        return sim_pack(trace, options, ret, err);
    run_init(&run, trace, options);
    result = run.rules.round_s > 0 ? run_rounds(&run, err) : run_events(&run, err);
    if (result == 0) {
        collect(&run, ret);
        ret->wall_s = (clock_us() - before) / 1e6;
    }
    run_done(&run);
    return result;
}
