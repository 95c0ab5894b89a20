/* The engine. Rounds: every so often all running jobs advance, then life decides. Events: a heap of what
 * happens next; life decides whenever a job came, ended or stopped. A job that starts makes no progress for
 * the cost of a start. */
#include "sim/engine.h"

#include "base/mem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define STUCK_MAX 100000          /* rounds without anything running */
#define PATIENT   (INT64_MAX / 4) /* a stop waits for the end of the epoch, however long that takes */

int64_t ms_of(double s)
{
    return llround(s * 1000);
}

double clock_us(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
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

/* What of its curve was measured. */
static void note_sizes(struct run_job *j, const struct forecast *f)
{
    for (uint32_t i = 0; i < f->points; i++)
        if (f->curve[i].gpus == j->at.gpus)
            j->known |= 1U << i;
    j->learned = false;
}

/* What life is told of a job: its profile, wrong as noise has it where it was not measured. */
static void profile(void *of, const struct life_job *job, int64_t now_ms, struct forecast *ret)
{
    struct run *run = of;
    uint32_t index = (uint32_t)job->w.id - 1, epochs = run->trace->model->epochs(run->trace, index);
    struct run_job *j = &run->jobs[index];

    (void)now_ms;
    if (j->running && !phase_holds(job->w.phase)) { /* it has just been stopped */
        advance(run, index, run->now);
        j->learned = true;
    }
    run->trace->model->profile(run->trace, index, &j->p, run->elastic, ret);
    if (j->learned)
        note_sizes(j, ret);
    for (uint32_t i = 0; i < ret->points; i++)
        if (j->known >> i & 1 || run->options->noise_speed <= 0) /* then the profile is right */
            ret->tried |= 1U << i;
        else
            ret->curve[i].rate *=
                (float)exp(run->options->noise_speed * gauss(run->options->seed, index, i + 1));
    if (run->options->noise_size > 0) {
        double left = 1 - (double)j->p.epoch / epochs;

        ret->work_s *= exp(run->options->noise_size * left * gauss(run->options->seed, index, 0));
    }
    if (run->rules.at_epochs && j->p.epoch < epochs)
        ret->epochs = (float)(epochs - j->p.epoch);
    ret->as_of_ms = ms_of(j->last_s + (j->running ? j->delay_s : 0));
}

static void tell(struct run *run, struct life_event event)
{
    (void)life_step(run->life, &event, ms_of(run->now), &run->effects, NULL);
}

/* ---- jobs in the model ---- */

static void end_job(struct run *run, uint32_t index, double at)
{
    struct run_job *j = &run->jobs[index];

    j->over = true;
    j->running = false;
    j->end_s = at;
}

void advance(struct run *run, uint32_t index, double to)
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

void set_due(struct run *run, uint32_t index)
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
    struct life_desc desc = {.row = "", .image = job->like ? job->like : job->name};

    /* Nobody has a name: what comes at one instant stays in the order of the file. */
    desc.w = (struct workload){.id = index + 1,
                               .name = "",
                               .user = job->user,
                               .priority = job->priority,
                               .demand = demand_of(run, index),
                               .submit_ms = ms_of(job->submit_s),
                               .declared_ms = ms_of(job->declared_s),
                               .can_checkpoint = true,
                               .resumable = true};
    if (run->rules.at_epochs)
        desc.w.epochs_total = job->announced ? job->announced : run->trace->model->epochs(run->trace, index);
    account(run);
    run->jobs[index].contention_s = -run->contention;
    run->jobs[index].last_s = run->now;
    run->waiting++;
    run->wanted += job->gpus;
    tell(run, (struct life_event){.type = LIFE_SUBMIT, .desc = &desc});
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

/* Its processes have gone. */
static void leave(struct run *run, uint32_t index)
{
    release(run, index);
    tell(run, (struct life_event){.type = LIFE_EXIT, .id = index + 1});
}

static void stop(struct run *run, uint32_t index)
{
    advance(run, index, run->now);
    release(run, index);
    run->jobs[index].delay_s = 0;
    run->waiting++;
}

static double restart_cost(const struct run *run, uint32_t index)
{
    if (run->rules.first_free && run->jobs[index].starts == 0)
        return 0;
    if (run->rules.restart_s >= 0)
        return run->rules.restart_s;
    return trace_restart_s(run->trace, index);
}

static void start(struct run *run, uint32_t index, const struct slot *slots, uint32_t len)
{
    struct run_job *j = &run->jobs[index];

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
    tell(run, (struct life_event){.type = LIFE_RUNS, .id = index + 1});
}

static void finish(struct run *run, uint32_t index)
{
    run->wanted -= run->trace->jobs.v[index].gpus;
    run->jobs[index].contention_s += run->contention;
    run->finished++;
}

/* ---- deciding ---- */

/* What life wants done; carrying one out may add others. */
static void carry_out(struct run *run)
{
    for (size_t i = 0; i < run->effects.v.len; i++) {
        struct life_effect effect = run->effects.v.v[i];
        uint32_t index = (uint32_t)effect.job->w.id - 1;

        if (effect.type == EFFECT_START)
            start(run, index, effect.slots, effect.slot_count);
        else if (effect.type == EFFECT_KILL)
            stop(run, index);
        else if (effect.type == EFFECT_END)
            finish(run, index);
    }
    life_effects_clear(&run->effects);
}

static void decide(struct run *run)
{
    double before = clock_us();

    (void)life_decide(run->life, ms_of(run->now), NULL, NULL, &run->effects);
    vec_push(&run->decisions, (float)(clock_us() - before));
    carry_out(run);
    sample(run);
    if (run->options->progress)
        run->options->progress(run->options->of, (double)run->finished / (double)run->trace->jobs.len);
}

static void look(struct run *run)
{
    if (run->promise)
        promise_look(run->promise, ms_of(run->now));
    if (run->options->watch)
        run->options->watch(run->options->of, run->life, ms_of(run->now));
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

/* Its speed is known better than before. */
static void tell_speed(struct run *run, uint32_t index)
{
    struct run_job *j = &run->jobs[index];
    struct sample sample = {.gpus = j->at.gpus, .iterations = j->p.epoch + 1};

    j->learned = true;
    tell(run, (struct life_event){.type = LIFE_PROFILE, .id = index + 1, .sample = &sample});
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
            leave(run, index); /* the last one takes its place */
            continue;
        }
        if (j->p.epoch != epoch)
            tell_speed(run, index);
        i++;
    }
    carry_out(run);
}

/* Whether a decision is due: Gavel makes its allocation anew only when jobs came or went, and not too often.
 */
static bool renew(struct run *run, bool changed)
{
    if (run->rules.renew_s <= 0 || !run->is->on_change)
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
        look(run);
        stuck = run->active.len > 0 || run->arrived < run->trace->jobs.len ? 0 : stuck + 1;
        if (stuck > STUCK_MAX)
            return err_set(err, ERR_INTERNAL, "policy '%s' starts nothing any more", run->is->name);
    }
    return 0;
}

/* An epoch has ended. Returns whether the job leaves, as it was asked to. */
static bool end_epoch(struct run *run, uint32_t index)
{
    struct run_job *j = &run->jobs[index];
    bool has_to_stop = false, write;

    j->learned = true;
    tell(run, (struct life_event){
                  .type = LIFE_EPOCH, .id = index + 1, .epochs = j->p.epoch, .shared = j->at.factor < 1});
    (void)life_has_to_stop(run->life, index + 1, j->p.epoch, ms_of(run->now), &has_to_stop, &write, NULL);
    if (!has_to_stop)
        return false;
    stop(run, index);
    tell(run, (struct life_event){.type = LIFE_EXIT, .id = index + 1});
    return true;
}

/* What is due by now. Returns whether life should decide. */
static bool due(struct run *run)
{
    struct run_job *j;
    bool any = false;

    while ((j = heap_first(&run->heap)) && j->due_s <= run->now + 1e-9) {
        uint32_t index = (uint32_t)(j - run->jobs), epoch = j->p.epoch;

        advance(run, index, run->now > j->due_s ? run->now : j->due_s);
        if (j->over) {
            leave(run, index);
            any = true;
        } else if (run->rules.at_epochs && j->p.epoch > epoch && end_epoch(run, index)) {
            any = true;
        } else {
            set_due(run, index);
        }
    }
    carry_out(run);
    return any;
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

/* When time alone may change the order of those that run (las). */
static double next_turn(const struct run *run)
{
    int64_t at = live_turn_ms(life_live(run->life), ms_of(run->now));

    return at == INT64_MAX ? INFINITY : (double)at / 1000;
}

static int run_events(struct run *run, struct err *err)
{
    const struct trace *trace = run->trace;
    double turn = INFINITY;

    while (run->finished < trace->jobs.len) {
        const struct run_job *first = heap_first(&run->heap);
        double next = first ? first->due_s : INFINITY;
        bool any;

        if (run->arrived < trace->jobs.len)
            next = fmin(next, trace->jobs.v[run->arrived].submit_s);
        next = fmin(next, next_may_stop(run));
        next = fmin(next, run->pending ? run->decided_s + run->gap_s : turn);
        if (!isfinite(next))
            return err_set(err, ERR_INTERNAL, "policy '%s' starts nothing any more", run->is->name);
        run->now = fmax(next, run->now);
        account(run);
        any = due(run);
        any = arrivals(run) || any;
        any = may_stop_now(run) || any || run->pending || run->now >= turn;
        run->pending = any && run->now < run->decided_s + run->gap_s;
        if (any && !run->pending) {
            run->decided_s = run->now;
            decide(run);
            turn = next_turn(run);
        }
        look(run);
    }
    return 0;
}

/* ---- the whole ---- */

static bool due_before(const void *va, const void *vb)
{
    const struct run_job *a = va, *b = vb;

    return a->due_s != b->due_s ? a->due_s < b->due_s : a < b;
}

/* The rules say how others place and decide; a policy with constants of its own keeps them. */
static struct sched_options options_of(const struct run *run)
{
    struct sched_options ret = run->rules.options;

    ret.restart_ms = ms_of(fmax(run->rules.restart_s, 0));
    if (run->is->own_options) {
        ret.place = PLACE_BEST_FIT;
        ret.probes_max = sched_defaults.probes_max;
        ret.rank_power = sched_defaults.rank_power;
        ret.repay_ms = sched_defaults.repay_ms;
        ret.critical_margin = sched_defaults.critical_margin;
    }
    return ret;
}

static void life_init(struct run *run, const struct sched_policy *policy)
{
    struct life_rules rules = {.sched = run->sched,
                               .stop_min_ms = run->rules.at_epochs ? PATIENT : 0,
                               .stop_max_ms = PATIENT,
                               .quiet = true,
                               .at_once = !run->rules.at_epochs,
                               .forecast = run->options->learned ? NULL : profile,
                               .of = run};

    run->life = life_new(policy, &run->trace->cluster, &rules);
    if (run->gpus <= SCHED_SMALL_GPUS) /* what starts in a round runs for that round */
        run->promise = promise_new(life_live(run->life), &run->trace->cluster, (uint32_t)run->trace->jobs.len,
                                   (int64_t)fmax((double)run->sched.min_run_ms, run->rules.round_s * 1000));
    if (run->shares && run->trace->pairs)
        live_pairs(life_live_mut(run->life), told_factor, run);
}

static void run_init(struct run *run, const struct trace *trace, const struct sim_options *options)
{
    const struct sched_policy *policy = sched_policy_find(options->policy);
    uint32_t at = 0;

    *run = (struct run){.trace = trace, .options = options, .rules = trace->rules, .sample_every = 1};
    run->is = sched_policy_traits(policy);
    if (options->restart_s >= 0)
        run->rules.restart_s = options->restart_s;
    run->sched = options_of(run);
    run->elastic =
        run->is->sizes == SIZES_CHOSEN || (trace->rules.at_epochs && run->is->sizes != SIZES_ASKED);
    run->shares = trace->pairs ? run->is->guests : trace->rules.at_epochs;
    run->gpus = cluster_gpus(&trace->cluster);
    if (run->gpus > SCHED_SMALL_GPUS)
        run->gap_s = (double)run->is->gap_ms / 1000;
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
    life_init(run, policy);
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
    life_effects_done(&run->effects);
    life_free(run->life);
    vec_done(&run->active);
    vec_done(&run->starts);
    vec_done(&run->decisions);
    vec_done(&run->samples);
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
