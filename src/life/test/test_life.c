/* What becomes of jobs, step by step, on a node of a few cards and a clock that the test turns. */
#include "base/test/test.h"
#include "life/life.h"

#define CARD_MIB 24576

struct fixture {
    struct gpu gpus[8];
    struct node node;
    struct cluster cluster;
    struct life *life;
    struct life_effects effects;
    int64_t now;
    uint64_t last;
    const char *refuse; /* what admit() says of the job of that name */
    const char *refused_name;
};

static void start(struct fixture *f, uint32_t cards)
{
    struct life_rules rules = life_defaults;

    *f = (struct fixture){.now = 1000000};
    for (uint32_t i = 0; i < cards; i++)
        f->gpus[i] = (struct gpu){.mem_mib = CARD_MIB};
    f->node =
        (struct node){.name = "lab", .gpus = f->gpus, .gpu_count = cards, .capacity = {64000, 512 * 1024}};
    f->cluster = (struct cluster){&f->node, 1};
    rules.sched = sched_defaults;
    rules.sched.min_run_ms = 0;
    f->life = life_new(sched_policies[0], &f->cluster, &rules);
}

static void stop(struct fixture *f)
{
    life_effects_done(&f->effects);
    life_free(f->life);
}

static const char *admit(void *arg, const struct life_job *job, const struct slot *slots, uint32_t gpus,
                         struct arena *arena)
{
    struct fixture *f = arg;

    (void)slots;
    (void)gpus;
    (void)arena;
    return f->refuse && streq(job->w.name, f->refused_name) ? f->refuse : NULL;
}

static void decide(struct fixture *f)
{
    life_decide(f->life, f->now, admit, f, &f->effects);
}

static int step(struct fixture *f, struct life_event event)
{
    return life_step(f->life, &event, f->now, &f->effects, NULL);
}

static struct life_desc describe(struct fixture *f, const char *name, const char *user, uint32_t gpus,
                                 uint32_t epochs)
{
    struct life_desc desc = {.row = name, .image = "x", .script = "y"};

    desc.w = (struct workload){.id = ++f->last,
                               .name = name,
                               .user = user,
                               .kind = WORKLOAD_TRAINING,
                               .demand = {.min_gpus = gpus, .max_gpus = gpus, .unit_gpus = 1},
                               .submit_ms = f->now,
                               .epochs_total = epochs,
                               .can_checkpoint = true,
                               .resumable = true};
    return desc;
}

static uint64_t enter(struct fixture *f, struct life_desc desc)
{
    assert_int_equal(step(f, (struct life_event){.type = LIFE_SUBMIT, .desc = &desc}), 0);
    decide(f);
    return desc.w.id;
}

static uint64_t training(struct fixture *f, const char *name, const char *user, uint32_t gpus,
                         uint32_t epochs)
{
    return enter(f, describe(f, name, user, gpus, epochs));
}

static uint64_t pod(struct fixture *f, const char *name, const char *user, uint32_t gpus)
{
    struct life_desc desc = describe(f, name, user, gpus, 0);

    desc.w.kind = WORKLOAD_POD;
    desc.w.can_checkpoint = desc.w.resumable = false;
    return enter(f, desc);
}

static const struct life_job *job(struct fixture *f, uint64_t id)
{
    const struct life_job *found = life_find(f->life, id);

    assert_non_null(found);
    return found;
}

static void runs(struct fixture *f, uint64_t id)
{
    assert_int_equal(step(f, (struct life_event){.type = LIFE_RUNS, .id = id}), 0);
    decide(f);
}

static void leaves(struct fixture *f, uint64_t id, int status)
{
    assert_int_equal(
        step(f, (struct life_event){.type = LIFE_EXIT, .id = id, .status = status, .text = "exit code 1"}),
        0);
    decide(f);
}

static void assert_phase(struct fixture *f, uint64_t id, enum phase phase)
{
    assert_string_equal(phase_name(job(f, id)->w.phase), phase_name(phase));
}

/* The phase a job ended in, by its last effect; PHASES: it did not end since the effects were cleared. */
static enum phase end_of(const struct fixture *f, uint64_t id)
{
    VEC_EACH(&f->effects.v, it)
        if (it->type == EFFECT_END && it->job->w.id == id)
            return it->phase;
    return PHASES;
}

static unsigned count(const struct fixture *f, enum life_effect_type type, uint64_t id)
{
    unsigned n = 0;

    VEC_EACH(&f->effects.v, it)
        n += it->type == type && it->job->w.id == id;
    return n;
}

/* ---- from the queue to its end ---- */

static void test_a_job_is_running_when_its_node_says_so(void **state)
{
    struct fixture f;
    uint64_t id;

    (void)state;
    start(&f, 1);
    id = training(&f, "a", "ann", 1, 3);
    assert_phase(&f, id, PHASE_STARTING);
    assert_int_equal(count(&f, EFFECT_START, id), 1);
    assert_int_equal(job(&f, id)->first_start_ms, 0);
    f.now += 5000;
    runs(&f, id);
    assert_phase(&f, id, PHASE_RUNNING);
    assert_int_equal(job(&f, id)->first_start_ms, f.now);
    leaves(&f, id, 0);
    assert_int_equal(end_of(&f, id), PHASE_SUCCEEDED);
    assert_null(life_find(f.life, id));
    stop(&f);
}

static void test_a_failed_job_says_how(void **state)
{
    struct fixture f;
    uint64_t id;

    (void)state;
    start(&f, 1);
    id = training(&f, "a", "ann", 1, 3);
    runs(&f, id);
    leaves(&f, id, 1);
    assert_int_equal(end_of(&f, id), PHASE_FAILED);
    assert_string_equal(f.effects.v.v[f.effects.v.len - 1].job->reason, "exit code 1");
    stop(&f);
}

static void test_a_cancelled_job_that_exits_well_is_cancelled(void **state)
{
    struct fixture f;
    uint64_t id;

    (void)state;
    start(&f, 1);
    id = pod(&f, "p", "ann", 1);
    runs(&f, id);
    assert_int_equal(step(&f, (struct life_event){.type = LIFE_CANCEL, .id = id, .text = "deleted"}), 0);
    assert_phase(&f, id, PHASE_STOPPING);
    assert_int_equal(count(&f, EFFECT_KILL, id), 1);
    leaves(&f, id, 0);
    assert_int_equal(end_of(&f, id), PHASE_CANCELLED);
    stop(&f);
}

static void test_events_that_come_late_change_nothing(void **state)
{
    struct fixture f;
    uint64_t id;
    struct err err = {0};

    (void)state;
    start(&f, 1);
    id = training(&f, "a", "ann", 2, 3); /* does not fit */
    assert_int_equal(step(&f, (struct life_event){.type = LIFE_RUNS, .id = id}), -1);
    assert_int_equal(step(&f, (struct life_event){.type = LIFE_EXIT, .id = id}), -1);
    assert_int_equal(step(&f, (struct life_event){.type = LIFE_EPOCH, .id = id, .epochs = 1}), 0);
    assert_int_equal(job(&f, id)->w.epochs_done, 0);
    assert_int_equal(
        life_step(f.life, &(struct life_event){.type = LIFE_RUNS, .id = 99}, f.now, &f.effects, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    stop(&f);
}

/* ---- what cannot start ---- */

static void test_nobody_makes_room_for_a_job_that_cannot_start(void **state)
{
    struct fixture f;
    uint64_t first, second, over;

    (void)state;
    start(&f, 2);
    first = training(&f, "a1", "ann", 1, 9);
    f.now += 1000;
    second = training(&f, "a2", "ann", 1, 9);
    runs(&f, first);
    runs(&f, second);
    f.now += 1000;
    f.refuse = "exceeded quota: pods";
    f.refused_name = "over";
    over = training(&f, "over", "bob", 1, 9);
    assert_phase(&f, over, PHASE_PENDING);
    assert_true(job(&f, over)->w.blocked);
    assert_string_equal(job(&f, over)->blocked, "exceeded quota: pods");
    assert_phase(&f, second, PHASE_RUNNING);
    assert_int_equal(job(&f, over)->w.claim.len, 0);

    f.refuse = NULL;
    assert_int_equal(step(&f, (struct life_event){.type = LIFE_BLOCK, .id = over}), 0);
    decide(&f);
    assert_phase(&f, second, PHASE_STOPPING); /* bob's 1st goes before ann's 2nd */
    stop(&f);
}

static void test_a_start_that_is_refused_waits_longer_each_time(void **state)
{
    struct fixture f;
    uint64_t id;
    int64_t waits[3];

    (void)state;
    start(&f, 1);
    id = training(&f, "a", "ann", 1, 9);
    for (int i = 0; i < 3; i++) {
        assert_phase(&f, id, PHASE_STARTING);
        assert_int_equal(step(&f, (struct life_event){.type = LIFE_REFUSED, .id = id, .text = "no"}), 0);
        decide(&f);
        assert_phase(&f, id, PHASE_PENDING);
        waits[i] = job(&f, id)->w.not_before_ms - f.now;
        assert_true(life_next_ms(f.life, f.now) <= f.now + waits[i]);
        f.now += waits[i];
        decide(&f);
    }
    assert_int_equal(waits[0], LIFE_BACKOFF_FIRST_MS);
    assert_int_equal(waits[1], 2 * waits[0]);
    assert_int_equal(waits[2], 4 * waits[0]);
    stop(&f);
}

static void test_a_job_that_its_node_cannot_start_gives_its_cards_back(void **state)
{
    struct fixture f;
    uint64_t id, other;
    CLEANUP(buf_done) struct buf why = {0};

    (void)state;
    start(&f, 1);
    id = training(&f, "typo", "ann", 1, 9);
    other = training(&f, "good", "ann", 1, 9);
    assert_int_equal(
        step(&f, (struct life_event){.type = LIFE_STUCK, .id = id, .text = "cannot pull image x: not found"}),
        0);
    life_why(f.life, job(&f, id), f.now, &why);
    assert_string_equal(why.data, "cannot start: cannot pull image x: not found");
    f.now += life_defaults.stuck_ms;
    decide(&f);
    assert_phase(&f, id, PHASE_PENDING);
    assert_int_equal(count(&f, EFFECT_GIVE_BACK, id), 1);
    assert_phase(&f, other, PHASE_STARTING);
    buf_clear(&why);
    life_why(f.life, job(&f, id), f.now, &why);
    assert_string_equal(why.data, "cannot start: cannot pull image x: not found; next try in 10 s");
    stop(&f);
}

static void test_a_slow_pull_is_no_failure(void **state)
{
    struct fixture f;
    uint64_t id;
    char text[64];

    (void)state;
    start(&f, 1);
    id = training(&f, "big", "ann", 1, 9);
    for (int percent = 0; percent < 100; percent += 10) {
        f.now += life_defaults.start_ms - 1000;
        snprintf(text, sizeof(text), "pulling image big: %d %%", percent);
        step(&f, (struct life_event){.type = LIFE_PROGRESS, .id = id, .text = text});
        decide(&f);
        assert_phase(&f, id, PHASE_STARTING);
    }
    f.now += life_defaults.start_ms;
    decide(&f);
    assert_phase(&f, id, PHASE_PENDING);
    stop(&f);
}

static void test_a_clock_that_jumps_takes_no_card_from_a_job_that_starts(void **state)
{
    struct fixture f;
    uint64_t id;

    (void)state;
    start(&f, 1);
    id = training(&f, "new", "ann", 1, 9);
    f.now += 86400000; /* at once */
    decide(&f);
    assert_phase(&f, id, PHASE_STARTING);
    assert_int_equal(count(&f, EFFECT_GIVE_BACK, id), 0);
    f.now += life_defaults.start_ms; /* it has its time from then on, and no more */
    decide(&f);
    assert_phase(&f, id, PHASE_PENDING);
    stop(&f);
}

/* ---- stops ---- */

/* ann has both cards, bob wants one. Returns ann's second job, which is asked to stop. */
static uint64_t crowd(struct fixture *f, uint64_t *bob, uint32_t epochs)
{
    uint64_t one, two;

    start(f, 2);
    one = training(f, "a1", "ann", 1, 9);
    f->now += 1000;
    two = training(f, "a2", "ann", 1, epochs);
    runs(f, one);
    runs(f, two);
    f->now += 1000;
    step(f, (struct life_event){.type = LIFE_EPOCH, .id = two, .epochs = epochs > 1 ? 1 : 0, .seconds = 1});
    *bob = training(f, "b1", "bob", 1, 9);
    return two;
}

static void test_a_job_that_was_told_to_stop_goes_on_later(void **state)
{
    struct fixture f;
    uint64_t bob, two;
    bool stop_now = false, write = false;

    (void)state;
    two = crowd(&f, &bob, 9);
    assert_phase(&f, two, PHASE_STOPPING);
    assert_int_equal(life_has_to_stop(f.life, two, -1, f.now, &stop_now, &write, NULL), 0);
    assert_true(stop_now && write);
    leaves(&f, two, 0);
    assert_phase(&f, two, PHASE_PREEMPTED);
    assert_phase(&f, bob, PHASE_STARTING);
    assert_int_equal(job(&f, two)->w.epochs_done, 1);
    runs(&f, bob);
    leaves(&f, bob, 0);
    assert_phase(&f, two, PHASE_STARTING);
    assert_int_equal(job(&f, two)->run, 2);
    assert_int_equal(job(&f, two)->w.restarts, 1);
    stop(&f);
}

static void test_an_end_in_the_only_epoch_is_an_end(void **state)
{
    struct fixture f;
    uint64_t bob, two;
    bool stop_now = true, write = false;

    (void)state;
    two = crowd(&f, &bob, 1);
    if (job(&f, two)->w.phase == PHASE_STOPPING) {
        assert_int_equal(life_has_to_stop(f.life, two, 0, f.now, &stop_now, &write, NULL), 0);
        assert_false(stop_now); /* the last epoch is not interrupted */
    }
    leaves(&f, two, 0);
    assert_int_equal(end_of(&f, two), PHASE_SUCCEEDED);
    stop(&f);
}

static void test_the_first_answer_about_an_epoch_stands(void **state)
{
    struct fixture f;
    uint64_t id;
    bool answer = true, write;

    (void)state;
    start(&f, 1);
    id = training(&f, "a", "ann", 1, 9);
    runs(&f, id);
    assert_int_equal(life_has_to_stop(f.life, id, 3, f.now, &answer, &write, NULL), 0);
    assert_false(answer);
    step(&f, (struct life_event){.type = LIFE_CANCEL, .id = id, .text = "cancelled by ann"});
    assert_int_equal(life_has_to_stop(f.life, id, 3, f.now, &answer, &write, NULL), 0);
    assert_false(answer);
    assert_int_equal(life_has_to_stop(f.life, id, 4, f.now, &answer, &write, NULL), 0);
    assert_true(answer);
    stop(&f);
}

static void test_a_stop_that_nobody_heard_of_is_withdrawn(void **state)
{
    struct fixture f;
    uint64_t bob, two;

    (void)state;
    two = crowd(&f, &bob, 9);
    assert_phase(&f, two, PHASE_STOPPING);
    step(&f, (struct life_event){.type = LIFE_CANCEL, .id = bob, .text = "cancelled by bob"});
    decide(&f);
    assert_phase(&f, two, PHASE_RUNNING);
    assert_int_equal(job(&f, two)->stop.kind, STOP_NONE);
    stop(&f);
}

static void test_a_job_that_does_not_stop_is_killed(void **state)
{
    struct fixture f;
    uint64_t bob, two;

    (void)state;
    two = crowd(&f, &bob, 9);
    assert_int_equal(count(&f, EFFECT_KILL, two), 0);
    assert_int_equal(life_next_ms(f.life, f.now) <= job(&f, two)->stop.until_ms, 1);
    f.now = job(&f, two)->stop.until_ms;
    decide(&f);
    assert_int_equal(count(&f, EFFECT_KILL, two), 1);
    leaves(&f, two, 137);
    assert_phase(&f, two, PHASE_PREEMPTED);
    stop(&f);
}

static void test_a_bare_pod_goes_by_claim_alone(void **state)
{
    struct fixture f;
    uint64_t hers, his;

    (void)state;
    start(&f, 2);
    hers = pod(&f, "hers", "ann", 2);
    runs(&f, hers);
    f.now += 1000;
    his = training(&f, "his", "bob", 1, 9);
    assert_phase(&f, hers, PHASE_RUNNING);
    assert_int_equal(step(&f, (struct life_event){.type = LIFE_CLAIM, .id = his}), 0);
    decide(&f);
    assert_phase(&f, hers, PHASE_STOPPING);
    assert_int_equal(count(&f, EFFECT_KILL, hers), 0); /* its owner has notice */
    f.now += life_defaults.notice_ms;
    decide(&f);
    assert_int_equal(count(&f, EFFECT_KILL, hers), 1);
    leaves(&f, hers, 143);
    assert_int_equal(end_of(&f, hers), PHASE_PREEMPTED);
    assert_phase(&f, his, PHASE_STARTING);
    stop(&f);
}

static void test_a_shrinking_job_keeps_what_it_shrinks_to(void **state)
{
    struct fixture f;
    struct life_desc wide;
    uint64_t id, one, two;

    (void)state;
    start(&f, 2);
    wide = describe(&f, "wide", "dan", 1, 90);
    wide.w.demand.max_gpus = 2;
    id = enter(&f, wide);
    runs(&f, id);
    f.now += 600000;
    step(&f, (struct life_event){.type = LIFE_EPOCH, .id = id, .epochs = 1, .seconds = 100});
    decide(&f);
    if (job(&f, id)->w.placement.len < 2) { /* it grew by a restart */
        leaves(&f, id, 0);
        runs(&f, id);
    }
    assert_int_equal(job(&f, id)->w.placement.len, 2);
    f.now += 600000;
    one = training(&f, "a1", "ann", 1, 9);
    two = training(&f, "a2", "ann", 1, 9);
    assert_phase(&f, id, PHASE_STOPPING);
    assert_int_equal(job(&f, id)->stop.kind, STOP_RESIZE);
    assert_int_equal(job(&f, id)->w.claim.len, 1);
    step(&f, (struct life_event){.type = LIFE_EXIT, .id = id, .lost = true, .text = "gone"});
    decide(&f);
    assert_phase(&f, id, PHASE_STARTING); /* dan's 1st is not lost to ann's 2nd */
    assert_int_equal(job(&f, id)->w.placement.len, 1);
    assert_phase(&f, one, PHASE_STARTING);
    assert_phase(&f, two, PHASE_PENDING);
    stop(&f);
}

static void test_a_job_past_its_reservation_is_warned_then_stopped(void **state)
{
    struct fixture f;
    struct life_desc desc;
    uint64_t id;

    (void)state;
    start(&f, 1);
    desc = describe(&f, "share", "ann", 1, 9);
    desc.asked_mib = desc.w.demand.mib = 4000;
    id = enter(&f, desc);
    runs(&f, id);
    for (int i = 0; i < LIFE_OVER_STOP_TIMES; i++) {
        assert_phase(&f, id, PHASE_RUNNING);
        step(&f, (struct life_event){.type = LIFE_MEMORY, .id = id, .slot = {0, 0, 4000}, .mib = 4100});
    }
    assert_phase(&f, id, PHASE_STOPPING);
    leaves(&f, id, 0);
    assert_int_equal(end_of(&f, id), PHASE_FAILED);
    stop(&f);
}

/* ---- times ---- */

static void test_the_end_does_not_slide(void **state)
{
    struct fixture f;
    struct life_when first, later;
    uint64_t id;

    (void)state;
    start(&f, 1);
    id = training(&f, "a", "ann", 1, 60);
    runs(&f, id);
    for (uint32_t i = 1; i <= 11; i++) {
        f.now += 1000;
        step(&f, (struct life_event){.type = LIFE_EPOCH, .id = id, .epochs = i, .seconds = 1});
    }
    life_when(f.life, job(&f, id), f.now, &first);
    assert_in_range(first.end_ms - f.now, 40000, 60000); /* 49 epochs of a second */
    life_when(f.life, job(&f, id), f.now + 700, &later);
    assert_int_equal(later.end_ms, first.end_ms);
    stop(&f);
}

static void test_the_minimum_run_counts_from_running(void **state)
{
    struct fixture f;
    struct life_rules rules = life_defaults;
    uint64_t one, two;

    (void)state;
    start(&f, 2);
    life_free(f.life);
    rules.sched = sched_defaults;
    rules.sched.min_run_ms = 60000;
    f.life = life_new(sched_policies[0], &f.cluster, &rules);
    one = training(&f, "a1", "ann", 1, 9);
    two = training(&f, "a2", "ann", 1, 9);
    f.now += 300000; /* a long pull */
    runs(&f, one);
    runs(&f, two);
    training(&f, "b", "bob", 1, 9);
    assert_phase(&f, two, PHASE_RUNNING);
    f.now += 60000;
    decide(&f);
    assert_int_equal(job(&f, one)->w.phase == PHASE_STOPPING || job(&f, two)->w.phase == PHASE_STOPPING, 1);
    stop(&f);
}

static void test_steps_go_on_counting_over_runs(void **state)
{
    struct fixture f;
    struct sample sample = {.gpus = 1, .iterations = 50, .iteration_s = 0.1, .epoch_s = 5};
    uint64_t id;

    (void)state;
    start(&f, 1);
    id = training(&f, "a", "ann", 1, 9);
    runs(&f, id);
    step(&f, (struct life_event){.type = LIFE_PROFILE, .id = id, .sample = &sample});
    step(&f, (struct life_event){.type = LIFE_EPOCH, .id = id, .epochs = 1});
    assert_int_equal(job(&f, id)->steps_done, 50);
    step(&f, (struct life_event){.type = LIFE_EXIT, .id = id, .lost = true, .text = "its node went away"});
    decide(&f);
    assert_int_equal(job(&f, id)->run_first_step, 50);
    runs(&f, id);
    sample.iterations = 60;
    step(&f, (struct life_event){.type = LIFE_PROFILE, .id = id, .sample = &sample});
    assert_int_equal(job(&f, id)->steps_done, 110);
    stop(&f);
}

static void test_a_restored_job_is_as_it_was(void **state)
{
    struct fixture f;
    struct slot slot = {0, 0, CARD_MIB};
    struct life_desc desc;
    struct life_job saved = {.run = 3,
                             .reason = (char *)"running on 1 GPU",
                             .stop = {.kind = STOP_PREEMPT,
                                      .by = (char *)"b",
                                      .reason = (char *)"for bob",
                                      .until_ms = 2000000,
                                      .epoch = 4},
                             .no_stop_epoch = 3};

    (void)state;
    start(&f, 1);
    desc = describe(&f, "a", "ann", 1, 9);
    saved.w = (struct workload){
        .phase = PHASE_STOPPING, .placement = {&slot, 1}, .started_ms = 500000, .epochs_done = 4};
    assert_int_equal(step(&f, (struct life_event){.type = LIFE_RESTORE, .desc = &desc, .saved = &saved}), 0);
    decide(&f);
    assert_phase(&f, desc.w.id, PHASE_STOPPING);
    assert_int_equal(job(&f, desc.w.id)->run, 3);
    assert_int_equal(count(&f, EFFECT_START, desc.w.id), 0); /* its run is not made again */
    leaves(&f, desc.w.id, 0);
    assert_int_equal(job(&f, desc.w.id)->w.epochs_done, 4);
    assert_phase(&f, desc.w.id, PHASE_STARTING); /* nobody else wants the card */
    assert_int_equal(job(&f, desc.w.id)->run, 4);
    stop(&f);
}

static void test_a_clock_that_was_set_back_puts_no_try_off_for_long(void **state)
{
    struct fixture f;
    struct life_desc desc;
    struct life_job saved = {
        .run = 2, .refusals = 2, .reason = (char *)"cannot start", .stop = {.epoch = -1}};

    (void)state;
    start(&f, 1);
    desc = describe(&f, "a", "ann", 1, 9);
    saved.w = (struct workload){.phase = PHASE_PENDING, .not_before_ms = f.now + 10 * LIFE_BACKOFF_MAX_MS};
    assert_int_equal(step(&f, (struct life_event){.type = LIFE_RESTORE, .desc = &desc, .saved = &saved}), 0);
    assert_true(job(&f, desc.w.id)->w.refused);
    assert_int_equal(job(&f, desc.w.id)->w.not_before_ms, f.now + LIFE_BACKOFF_MAX_MS);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_is_running_when_its_node_says_so),
        cmocka_unit_test(test_a_failed_job_says_how),
        cmocka_unit_test(test_a_cancelled_job_that_exits_well_is_cancelled),
        cmocka_unit_test(test_events_that_come_late_change_nothing),
        cmocka_unit_test(test_nobody_makes_room_for_a_job_that_cannot_start),
        cmocka_unit_test(test_a_start_that_is_refused_waits_longer_each_time),
        cmocka_unit_test(test_a_job_that_its_node_cannot_start_gives_its_cards_back),
        cmocka_unit_test(test_a_slow_pull_is_no_failure),
        cmocka_unit_test(test_a_clock_that_jumps_takes_no_card_from_a_job_that_starts),
        cmocka_unit_test(test_a_job_that_was_told_to_stop_goes_on_later),
        cmocka_unit_test(test_an_end_in_the_only_epoch_is_an_end),
        cmocka_unit_test(test_the_first_answer_about_an_epoch_stands),
        cmocka_unit_test(test_a_stop_that_nobody_heard_of_is_withdrawn),
        cmocka_unit_test(test_a_job_that_does_not_stop_is_killed),
        cmocka_unit_test(test_a_bare_pod_goes_by_claim_alone),
        cmocka_unit_test(test_a_shrinking_job_keeps_what_it_shrinks_to),
        cmocka_unit_test(test_a_job_past_its_reservation_is_warned_then_stopped),
        cmocka_unit_test(test_the_end_does_not_slide),
        cmocka_unit_test(test_the_minimum_run_counts_from_running),
        cmocka_unit_test(test_steps_go_on_counting_over_runs),
        cmocka_unit_test(test_a_restored_job_is_as_it_was),
        cmocka_unit_test(test_a_clock_that_was_set_back_puts_no_try_off_for_long),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
