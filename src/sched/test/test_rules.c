/* What the order promises: who gets a card that becomes free, who keeps one, who makes room and how much. */
#include "sched/live.h"
#include "sched/test/fixture.h"

#define HOUR_MS (3600 * (int64_t)1000)

/* Runs on `gpus` cards from `card` on. */
static struct workload *wide(struct fixture *f, struct workload *w, uint32_t gpus, uint32_t max)
{
    uint32_t i = (uint32_t)(w - f->jobs);

    running(f, w, 0);
    w->demand.max_gpus = max;
    w->demand.unit_gpus = 1;
    for (uint32_t k = 0; k < gpus; k++)
        f->slots[i][k] = (struct slot){0, k, 24576};
    w->placement.len = gpus;
    return w;
}

static void test_an_elastic_job_gives_what_is_needed_and_no_more(void **state)
{
    struct fixture f;
    struct workload *e, *b;

    (void)state;
    init(&f, 1, 4);
    e = wide(&f, job(&f, "e", "ann", 1), 4, 4);
    b = job(&f, "b", "bob", 1);
    decide(&f, "fair");
    assert_int_equal(action_of(&f, e)->type, ACTION_RESIZE);
    assert_int_equal(action_of(&f, e)->slot_count, 3);
    assert_int_equal(action_of(&f, b)->type, ACTION_CLAIM);
    for (uint32_t k = 0; k < 3; k++)
        assert_int_not_equal(action_of(&f, e)->slots[k].card, action_of(&f, b)->slots[0].card);
    done(&f);
}

static void test_two_waiting_jobs_take_two_cards_of_one_elastic_job(void **state)
{
    struct fixture f;
    struct workload *e;

    (void)state;
    init(&f, 1, 4);
    e = wide(&f, job(&f, "e", "ann", 1), 4, 4);
    job(&f, "b", "bob", 2);
    decide(&f, "fair");
    assert_int_equal(action_of(&f, e)->slot_count, 2);
    done(&f);
}

static void test_a_freed_card_goes_to_the_first_whatever_it_had_a_claim_on(void **state)
{
    struct fixture f;
    struct workload *first, *third, *leaving;
    struct slot claims[2] = {{0, 0, 24576}, {0, 1, 24576}};

    (void)state;
    init(&f, 1, 3);
    running(&f, job(&f, "a1", "ann", 1), 2);
    leaving = running(&f, job(&f, "a2", "ann", 1), 0);
    leaving->phase = PHASE_STOPPING;
    first = job(&f, "b1", "bob", 1);
    third = job(&f, "a3", "ann", 1);
    first->claim = (struct placement){&claims[0], 1}; /* of the card that is not free yet */
    third->claim = (struct placement){&claims[1], 1}; /* of the one that is */
    decide(&f, "fair");
    assert_int_equal(action_of(&f, first)->type, ACTION_START);
    assert_int_equal(action_of(&f, first)->slots[0].card, 1);
    assert_int_equal(action_of(&f, third)->type, ACTION_CLAIM);
    assert_int_equal(action_of(&f, third)->slots[0].card, 0);
    done(&f);
}

static void test_a_resized_job_keeps_its_place_while_it_restarts(void **state)
{
    struct fixture f;
    struct workload *e, *b;
    struct slot claim = {0, 0, 24576};

    (void)state;
    init(&f, 1, 1);
    e = job(&f, "e", "ann", 1);
    e->demand.max_gpus = 4;
    e->phase = PHASE_PREEMPTED;
    e->claim = (struct placement){&claim, 1};
    e->resizing = true;
    b = job(&f, "b", "bob", 1);
    e->submit_ms = 100; /* bob's first comes before */
    decide(&f, "fair");
    assert_null(action_of(&f, b));
    assert_int_equal(action_of(&f, e)->type, ACTION_START);
    assert_int_equal(action_of(&f, e)->slot_count, 1);
    decide(&f, "berth");
    assert_int_equal(action_of(&f, e)->type, ACTION_START);
    done(&f);
}

static void test_a_stopping_job_keeps_what_it_shrinks_to(void **state)
{
    struct fixture f;
    struct workload *e, *b;
    struct slot claim = {0, 0, 24576};

    (void)state;
    init(&f, 1, 2);
    e = wide(&f, job(&f, "e", "ann", 1), 2, 2);
    e->phase = PHASE_STOPPING;
    e->claim = (struct placement){&claim, 1};
    e->resizing = true;
    b = job(&f, "b", "bob", 1);
    job(&f, "c", "cem", 1);
    for (const char *const *p = (const char *const[]){"fair", "berth", "srtf", NULL}; *p; p++) {
        decide(&f, *p);
        VEC_EACH(&f.plan.actions, action) {
            assert_int_equal(action->type, ACTION_CLAIM);
            assert_int_equal(action->slots[0].card, 1);
        }
        assert_int_equal(f.plan.actions.len, 1);
    }
    (void)b;
    done(&f);
}

static void test_a_job_in_the_way_that_cannot_resume_is_named(void **state)
{
    struct fixture f;
    struct workload *pod;
    struct buf text = {0};

    (void)state;
    init(&f, 1, 2);
    running(&f, job(&f, "a1", "ann", 1), 0)->resumable = false;
    pod = running(&f, job(&f, "a2", "ann", 1), 1);
    pod->resumable = false;
    job(&f, "b1", "bob", 1);
    decide(&f, "fair");
    assert_int_equal(f.plan.actions.len, 0);
    assert_int_equal(f.plan.waits.v[0].reason, WAIT_ASK);
    assert_ptr_equal(&f.jobs[f.plan.waits.v[0].about], pod);
    sched_wait_text(&f.view, &f.plan.waits.v[0], &text);
    assert_string_equal(text.data, "waiting for 1 GPU: 'berth claim' would stop 'a2', which cannot resume");
    buf_done(&text);
    done(&f);
}

static void test_who_gains_nothing_by_asking_is_not_told_to(void **state)
{
    struct fixture f;

    (void)state;
    init(&f, 1, 2);
    running(&f, job(&f, "a1", "ann", 1), 0)->resumable = false;
    running(&f, job(&f, "a2", "ann", 1), 1)->resumable = false;
    job(&f, "b1", "bob", 1);
    job(&f, "b2", "bob", 1); /* a second does not go before a second */
    decide(&f, "fair");
    assert_int_equal(f.plan.waits.v[0].reason, WAIT_ASK);
    assert_int_equal(f.plan.waits.v[1].reason, WAIT_GPUS);
    done(&f);
}

static void test_among_first_gpus_the_short_one_goes_first(void **state)
{
    struct fixture f;
    struct workload *brief;

    (void)state;
    init(&f, 1, 1);
    job(&f, "a1", "ann", 1)->declared_ms = 10 * HOUR_MS;
    brief = job(&f, "b1", "bob", 1);
    brief->declared_ms = HOUR_MS / 6;
    decide(&f, "fair");
    assert_int_equal(action_of(&f, brief)->type, ACTION_START);
    assert_int_equal(f.plan.actions.len, 1);
    done(&f);
}

static void test_beyond_the_first_only_a_shorter_or_equal_job_displaces(void **state)
{
    struct fixture f;
    struct workload *third, *second;

    (void)state;
    init(&f, 1, 4);
    running(&f, job(&f, "a1", "ann", 1), 0);
    running(&f, job(&f, "a2", "ann", 1), 1);
    third = running(&f, job(&f, "a3", "ann", 1), 2);
    running(&f, job(&f, "b1", "bob", 1), 3);
    for (uint32_t i = 0; i < 4; i++)
        f.jobs[i].declared_ms = HOUR_MS;
    second = job(&f, "b2", "bob", 1);
    second->declared_ms = 10 * HOUR_MS;
    decide(&f, "fair");
    assert_int_equal(f.plan.actions.len, 0);
    second->declared_ms = HOUR_MS / 2;
    decide(&f, "fair");
    assert_int_equal(action_of(&f, third)->type, ACTION_PREEMPT);
    done(&f);
}

static void test_a_much_shorter_later_gpu_goes_before_a_long_one_of_another_user(void **state)
{
    struct fixture f;
    struct workload *lasting, *brief;

    (void)state;
    init(&f, 1, 4);
    running(&f, job(&f, "a1", "ann", 1), 0);
    lasting = running(&f, job(&f, "a2", "ann", 1), 1);
    running(&f, job(&f, "b1", "bob", 1), 2);
    running(&f, job(&f, "b2", "bob", 1), 3);
    for (uint32_t i = 0; i < 4; i++)
        f.jobs[i].declared_ms = 20 * HOUR_MS;
    brief = job(&f, "b3", "bob", 1);
    brief->declared_ms = HOUR_MS / 6;
    decide(&f, "fair");
    assert_int_equal(action_of(&f, lasting)->type, ACTION_PREEMPT); /* not bob's own */
    assert_int_equal(action_of(&f, brief)->type, ACTION_CLAIM);
    assert_int_equal(f.plan.actions.len, 2); /* first GPUs stay */
    done(&f);
}

static void test_a_short_job_does_not_go_before_its_users_higher_priority(void **state)
{
    struct fixture f;
    struct workload *urgent;

    (void)state;
    init(&f, 1, 2);
    running(&f, job(&f, "a1", "ann", 1), 0)->priority = 9;
    urgent = job(&f, "a2", "ann", 1);
    urgent->priority = 5;
    urgent->declared_ms = 20 * HOUR_MS;
    job(&f, "a3", "ann", 1)->declared_ms = HOUR_MS / 60;
    decide(&f, "fair");
    assert_int_equal(action_of(&f, urgent)->type, ACTION_START);
    assert_int_equal(f.plan.actions.len, 1);
    running(&f, urgent, 1);
    decide(&f, "fair");
    assert_int_equal(f.plan.actions.len, 0);
    done(&f);
}

/* ---- over time ---- */

struct lab {
    struct fixture f;
    struct live *live;
    int64_t now;
    uint64_t ids;
};

static void lab_init(struct lab *lab, uint32_t cards)
{
    struct sched_options options = sched_defaults;

    *lab = (struct lab){.now = HOUR_MS};
    init(&lab->f, 1, cards);
    lab->live = live_new(sched_policies[0], &lab->f.cluster, &options, NULL);
}

static void lab_done(struct lab *lab)
{
    live_free(lab->live);
    done(&lab->f);
}

static void tell(struct lab *lab, struct live_event event)
{
    struct err err = {0};

    event.at_ms = lab->now;
    if (live_apply(lab->live, &event, &err) < 0)
        fail_msg("event %d: %s", (int)event.type, err.msg);
}

static uint64_t submit(struct lab *lab, const char *user, uint32_t gpus, int64_t declared_ms)
{
    struct workload w = {.id = ++lab->ids,
                         .name = "job",
                         .user = user,
                         .demand = {.min_gpus = gpus, .max_gpus = gpus, .unit_gpus = gpus},
                         .declared_ms = declared_ms,
                         .resumable = true,
                         .submit_ms = lab->now};

    tell(lab, (struct live_event){.type = LIVE_ADD, .id = w.id, .workload = w});
    return w.id;
}

/* Decides and carries it out; whether the job holds cards then. */
static bool holds(struct lab *lab, uint64_t id)
{
    live_decide(lab->live, lab->now, &lab->f.plan);
    VEC_EACH(&lab->f.plan.actions, action) {
        uint64_t of = live_view(lab->live)->jobs[action->job].id;

        if (action->type == ACTION_START) {
            tell(lab, (struct live_event){
                          .type = LIVE_PLACE, .id = of, .slots = {action->slots, action->slot_count}});
            tell(lab, (struct live_event){.type = LIVE_RUNS, .id = of});
        } else if (action->type != ACTION_CLAIM && action->type != ACTION_UNCLAIM) {
            tell(lab, (struct live_event){.type = LIVE_ASK_STOP, .id = of});
        }
    }
    return phase_holds(live_view(lab->live)->jobs[live_find(lab->live, id)].phase);
}

static void test_a_large_job_at_the_head_is_not_starved_by_later_first_gpus(void **state)
{
    struct lab lab;
    uint64_t first, large, late;
    int64_t bound;

    (void)state;
    lab_init(&lab, 4);
    first = submit(&lab, "ann", 1, HOUR_MS);
    assert_true(holds(&lab, first));
    large = submit(&lab, "bob", 4, HOUR_MS);
    assert_false(holds(&lab, large));
    bound = live_view(lab.live)->jobs[live_find(lab.live, large)].bound_ms;
    assert_int_equal(bound, lab.now + 2 * HOUR_MS);
    lab.now += 60000;
    late = submit(&lab, "cem", 1, 8 * HOUR_MS); /* would be in the way then */
    assert_false(holds(&lab, late));
    assert_true(holds(&lab, submit(&lab, "dora", 1, HOUR_MS))); /* will be done */
    live_plan(lab.live, lab.now, &lab.f.plan);
    assert_int_equal(lab.f.plan.waits.v[0].start_hi_ms, bound);
    assert_int_equal(lab.f.plan.waits.v[1].reason, WAIT_HELD);
    tell(&lab, (struct live_event){.type = LIVE_END, .id = first});
    tell(&lab, (struct live_event){.type = LIVE_END, .id = lab.ids});
    assert_true(holds(&lab, large));
    lab_done(&lab);
}

static void test_nothing_is_stopped_in_the_instant_in_which_it_started(void **state)
{
    struct lab lab;
    struct sched_options options = sched_defaults;
    uint64_t first, second;

    (void)state;
    lab_init(&lab, 1);
    options.min_run_ms = 0;
    live_free(lab.live);
    lab.live = live_new(sched_policies[0], &lab.f.cluster, &options, NULL);
    tell(&lab,
         (struct live_event){.type = LIVE_BLOCK, .id = first = submit(&lab, "ann", 1, 0), .blocked = true});
    second = submit(&lab, "ann", 1, 0);
    assert_true(holds(&lab, second));
    assert_false(holds(&lab, submit(&lab, "bob", 1, 0)));
    assert_int_equal(lab.f.plan.actions.len, 0);
    lab.now += 1;
    assert_false(holds(&lab, lab.ids));
    assert_int_equal(lab.f.plan.actions.v[0].type, ACTION_PREEMPT);
    (void)first;
    lab_done(&lab);
}

static void test_a_probe_is_a_restart_on_a_number_nobody_measured(void **state)
{
    static const struct slot slots[] = {{0, 0, 24576}, {0, 1, 24576}};
    struct forecast forecast = {.curve = {{1, 1}, {2, 1.9F}}, .points = 2, .work_s = 3600, .tried = 1};
    struct lab lab;
    const struct workload *w;
    uint64_t id;

    (void)state;
    lab_init(&lab, 2);
    id = submit(&lab, "ann", 1, 0);
    w = &live_view(lab.live)->jobs[0];
    struct workload elastic = *w;

    elastic.demand = (struct demand){.min_gpus = 1, .max_gpus = 2, .unit_gpus = 1};
    tell(&lab, (struct live_event){.type = LIVE_CHANGE, .id = id, .workload = elastic});
    assert_int_equal(live_forecast(lab.live, id, &forecast, NULL), 0);
    for (uint32_t run = 0; run < 3; run++) { /* 1, 2, 1 GPUs */
        tell(&lab, (struct live_event){.type = LIVE_PLACE, .id = id, .slots = {slots, 1 + run % 2}});
        tell(&lab, (struct live_event){.type = LIVE_RUNS, .id = id});
        tell(&lab, (struct live_event){.type = LIVE_ASK_STOP, .id = id});
        tell(&lab, (struct live_event){.type = LIVE_STOPPED, .id = id});
        assert_int_equal(w->probes, run > 0);
    }
    lab_done(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_elastic_job_gives_what_is_needed_and_no_more),
        cmocka_unit_test(test_two_waiting_jobs_take_two_cards_of_one_elastic_job),
        cmocka_unit_test(test_a_freed_card_goes_to_the_first_whatever_it_had_a_claim_on),
        cmocka_unit_test(test_a_resized_job_keeps_its_place_while_it_restarts),
        cmocka_unit_test(test_a_stopping_job_keeps_what_it_shrinks_to),
        cmocka_unit_test(test_a_job_in_the_way_that_cannot_resume_is_named),
        cmocka_unit_test(test_who_gains_nothing_by_asking_is_not_told_to),
        cmocka_unit_test(test_among_first_gpus_the_short_one_goes_first),
        cmocka_unit_test(test_beyond_the_first_only_a_shorter_or_equal_job_displaces),
        cmocka_unit_test(test_a_much_shorter_later_gpu_goes_before_a_long_one_of_another_user),
        cmocka_unit_test(test_a_short_job_does_not_go_before_its_users_higher_priority),
        cmocka_unit_test(test_a_large_job_at_the_head_is_not_starved_by_later_first_gpus),
        cmocka_unit_test(test_nothing_is_stopped_in_the_instant_in_which_it_started),
        cmocka_unit_test(test_a_probe_is_a_restart_on_a_number_nobody_measured),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
