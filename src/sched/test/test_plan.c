/* Single decisions on small clusters. */
#include "sched/test/fixture.h"

static void test_a_first_gpu_job_displaces_a_second_and_says_so(void **state)
{
    struct fixture f;
    struct workload *a2, *b1;
    struct buf text = {0};

    (void)state;
    init(&f, 1, 2);
    running(&f, job(&f, "a1", "ann", 1), 0);
    a2 = running(&f, job(&f, "a2", "ann", 1), 1);
    b1 = job(&f, "b1", "bob", 1);
    decide(&f, "fair");
    assert_int_equal(f.plan.actions.len, 2);
    assert_int_equal(action_of(&f, a2)->type, ACTION_PREEMPT);
    assert_int_equal(action_of(&f, b1)->type, ACTION_CLAIM);
    assert_int_equal(action_of(&f, b1)->slots[0].card, 1);
    sched_action_text(&f.view, action_of(&f, a2), &text);
    assert_string_equal(text.data, "preempted by bob's 1st GPU job b1");
    buf_clear(&text);
    sched_wait_text(&f.view, &f.plan.waits.v[0], &text);
    assert_string_equal(text.data, "starting as soon as 'a2' has stopped");
    buf_done(&text);
    done(&f);
}

static void test_equal_ordinals_displace_nobody(void **state)
{
    struct fixture f;

    (void)state;
    init(&f, 1, 1);
    running(&f, job(&f, "a1", "ann", 1), 0);
    job(&f, "b1", "bob", 1);
    decide(&f, "fair");
    assert_int_equal(f.plan.actions.len, 0);
    assert_int_equal(f.plan.waits.v[0].reason, WAIT_GPUS);
    done(&f);
}

static void test_within_a_rank_the_least_lost_work_goes(void **state)
{
    struct fixture f;
    struct workload *a2, *b2;

    (void)state;
    init(&f, 1, 4);
    running(&f, job(&f, "a1", "ann", 1), 0);
    a2 = running(&f, job(&f, "a2", "ann", 1), 1);
    running(&f, job(&f, "b1", "bob", 1), 2);
    b2 = running(&f, job(&f, "b2", "bob", 1), 3);
    a2->can_checkpoint = true;
    a2->saved_ms = 500;
    job(&f, "c1", "cem", 1);
    decide(&f, "fair");
    assert_int_equal(action_of(&f, a2)->type, ACTION_PREEMPT);
    assert_null(action_of(&f, b2));
    assert_int_equal(action_of(&f, a2)->lost_gpu_ms, 500);
    done(&f);
}

static void test_last_epochs_and_fresh_starts_are_left_alone(void **state)
{
    struct fixture f;
    struct workload *a2;

    (void)state;
    init(&f, 1, 2);
    running(&f, job(&f, "a1", "ann", 1), 0);
    a2 = running(&f, job(&f, "a2", "ann", 1), 1);
    a2->epochs_total = 5;
    a2->epochs_done = 4;
    job(&f, "b1", "bob", 1);
    decide(&f, "fair");
    assert_int_equal(f.plan.actions.len, 0);
    a2->epochs_done = 0;
    a2->started_ms = 500;
    decide(&f, "fair");
    assert_int_equal(f.plan.actions.len, 0);
    a2->started_ms = -1000000;
    a2->keep = true;
    decide(&f, "fair");
    assert_int_equal(f.plan.actions.len, 0);
    a2->keep = false;
    f.view.options.preemption = PREEMPTION_ASK;
    decide(&f, "fair");
    assert_int_equal(f.plan.actions.len, 0);
    f.jobs[2].asked = true;
    decide(&f, "fair");
    assert_int_equal(f.plan.actions.len, 2);
    done(&f);
}

static void test_a_claim_starts_when_the_place_is_empty(void **state)
{
    struct fixture f;
    struct workload *a1, *b1;
    struct slot claim = {0, 0, 24576};

    (void)state;
    init(&f, 1, 2);
    running(&f, job(&f, "a0", "ann", 1), 1);
    a1 = running(&f, job(&f, "a1", "ann", 1), 0);
    b1 = job(&f, "b1", "bob", 1);
    b1->claim = (struct placement){&claim, 1};
    a1->phase = PHASE_STOPPING;
    job(&f, "c1", "cem", 1);
    decide(&f, "fair");
    assert_int_equal(f.plan.actions.len, 0);
    assert_int_equal(f.plan.waits.v[0].reason, WAIT_VICTIM);
    a1->phase = PHASE_PREEMPTED;
    a1->placement = (struct placement){0};
    decide(&f, "fair");
    assert_int_equal(f.plan.actions.len, 1);
    assert_int_equal(action_of(&f, b1)->type, ACTION_START);
    done(&f);
}

static void test_shares_fill_a_card_and_never_more(void **state)
{
    struct fixture f;

    (void)state;
    init(&f, 1, 1);
    for (int i = 0; i < 4; i++)
        job(&f, "s", "ann", 1)->demand.mib = 8192;
    decide(&f, "fair");
    assert_int_equal(f.plan.actions.len, 3);
    assert_int_equal(f.plan.waits.v[0].reason, WAIT_SHARE);
    done(&f);
}

static void test_who_disables_sharing_is_alone_on_a_card(void **state)
{
    struct fixture f;
    struct workload *s, *x;

    (void)state;
    init(&f, 1, 2);
    s = running(&f, job(&f, "s", "ann", 1), 0);
    s->demand.mib = 1024;
    f.slots[0][0].mib = 1024;
    x = job(&f, "x", "bob", 1);
    x->demand.mib = 1024;
    x->demand.exclusive = true;
    job(&f, "t", "cem", 1)->demand.mib = 24576;
    decide(&f, "fair");
    assert_int_equal(action_of(&f, x)->slots[0].card, 1);
    assert_int_equal(action_of(&f, x)->slots[0].mib, 24576);
    assert_int_equal(f.plan.actions.len, 1);
    done(&f);
}

static void test_what_can_never_run_is_said(void **state)
{
    static const struct label ssd[] = {{"disk", "ssd"}};
    struct fixture f;

    (void)state;
    init(&f, 2, 4);
    job(&f, "five", "ann", 5);
    job(&f, "huge", "bob", 1)->demand.mib = 99999;
    job(&f, "ssd", "cem", 1)->selector = (struct labels){ssd, 1};
    decide(&f, "fair");
    assert_int_equal(f.plan.waits.len, 3);
    VEC_EACH(&f.plan.waits, wait) {
        static const enum wait_reason reasons[] = {WAIT_NO_NODE, WAIT_NO_CARD, WAIT_NO_LABEL};

        assert_int_equal(wait->reason, reasons[wait->job]);
        assert_true(wait->start_ms == INT64_MAX);
    }
    done(&f);
}

/* What the reason of the job says. */
static const char *reason(const struct fixture *f, const struct workload *w, struct buf *text)
{
    buf_clear(text);
    VEC_EACH(&f->plan.waits, wait)
        if (&f->jobs[wait->job] == w)
            sched_wait_text(&f->view, wait, text);
    return text->data ? text->data : "";
}

static void test_what_no_node_has_is_named_with_what_there_is(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct workload *gpus, *cpu, *memory, *gang, *card;
    struct fixture f;

    (void)state;
    init(&f, 2, 4);
    gpus = job(&f, "gpus", "ann", 5);
    cpu = job(&f, "cpu", "bob", 1);
    cpu->demand.each.cpu_milli = 65500;
    memory = job(&f, "memory", "cem", 0);
    memory->demand.each.mem_mib = 900 * 1024;
    gang = job(&f, "gang", "dan", 10);
    gang->demand.unit_gpus = 2;
    card = job(&f, "card", "eve", 1);
    card->demand.mib = 30000;
    decide(&f, "fair");
    assert_string_equal(reason(&f, gpus, &text), "cannot run: no node has 5 GPUs (largest: n, 4)");
    assert_string_equal(reason(&f, cpu, &text), "cannot run: no node has 65.5 CPUs (largest: n, 64)");
    assert_string_equal(reason(&f, memory, &text),
                        "cannot run: no node has 900 GiB of memory (largest: n, 256 GiB)");
    assert_string_equal(reason(&f, gang, &text), "cannot run: it asks for 10 GPUs, there are 8");
    assert_string_equal(reason(&f, card, &text),
                        "cannot run: no GPU has 30000 MiB of GPU memory (largest: 24576 MiB)");
    done(&f);
}

/* A runs on the CPU alone and has nearly all of it; B asks for all cards and more CPU than is left. */
static void test_no_card_is_held_for_a_job_that_lacks_cpu(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct slot slot = {0, SLOT_CPU, 0};
    struct workload *hog, *big, *small, *later;
    struct fixture f;

    (void)state;
    init(&f, 1, 4);
    hog = job(&f, "hog", "ann", 0);
    hog->demand.each = (struct resources){63000, 1024};
    hog->declared_ms = 3600 * 1000;
    hog->phase = PHASE_RUNNING;
    hog->placement = (struct placement){&slot, 1};
    hog->started_ms = 1;
    big = job(&f, "big", "bob", 4);
    big->demand.each.cpu_milli = 1500;
    small = job(&f, "small", "cem", 1);
    small->demand.each.cpu_milli = 100;
    small->declared_ms = 60 * 1000;
    f.view.options.preemption = PREEMPTION_OFF;
    for (const char *const *p = (const char *const[]){"fair", "fifo", "berth", NULL}; *p; p++) {
        decide(&f, *p);
        assert_null(action_of(&f, big));
        assert_int_equal(action_of(&f, small)->type, ACTION_START);
    }
    decide(&f, "fifo");
    assert_string_equal(reason(&f, big, &text), "waiting for 1.5 CPUs: 1 of 64 free on node n");
    assert_in_range(f.plan.waits.v[0].start_ms, 3500 * 1000, 3700 * 1000); /* when the hog ends */

    /* Now a card is in use as well: it still lacks CPU, and holds none. */
    running(&f, small, 0);
    later = job(&f, "later", "dan", 1);
    decide(&f, "fifo");
    assert_null(action_of(&f, big));
    assert_int_equal(action_of(&f, later)->type, ACTION_START);

    /* With the CPU it would have its cards held. */
    hog->demand.each.cpu_milli = 1000;
    decide(&f, "fifo");
    assert_null(action_of(&f, later));
    done(&f);
}

static void test_a_gang_starts_over_several_nodes_or_not_at_all(void **state)
{
    struct fixture f;
    struct workload *gang;

    (void)state;
    init(&f, 2, 4);
    gang = job(&f, "gang", "ann", 6);
    gang->demand.unit_gpus = 2;
    decide(&f, "fair");
    assert_int_equal(action_of(&f, gang)->slot_count, 6);
    gang->demand.min_gpus = gang->demand.max_gpus = 10;
    decide(&f, "fair");
    assert_int_equal(f.plan.actions.len, 0);
    assert_int_equal(f.plan.waits.v[0].reason, WAIT_NO_NODE);
    done(&f);
}

static void test_nodes_are_held_for_the_first_that_waits(void **state)
{
    struct fixture f;
    struct workload *big, *small;

    (void)state;
    init(&f, 1, 4);
    running(&f, job(&f, "a1", "ann", 2), 0);
    big = job(&f, "big", "bob", 4);
    small = job(&f, "small", "cem", 4);
    small->demand.min_gpus = small->demand.max_gpus = 2;
    f.view.options.preemption = PREEMPTION_OFF;
    decide(&f, "fifo");
    assert_null(action_of(&f, big));
    assert_null(action_of(&f, small));
    assert_int_equal(f.plan.waits.v[1].reason, WAIT_HELD);
    assert_ptr_equal(&f.jobs[f.plan.waits.v[1].about], big);
    small->declared_ms = 1000; /* done long before */
    decide(&f, "fifo");
    assert_int_equal(action_of(&f, small)->type, ACTION_START);
    done(&f);
}

static void test_idle_gpus_go_to_an_elastic_job_and_back(void **state)
{
    struct fixture f;
    struct workload *e, *b;

    (void)state;
    init(&f, 1, 4);
    e = job(&f, "e", "ann", 1);
    e->demand.max_gpus = 4;
    e->declared_ms = 36000000;
    decide(&f, "fair");
    assert_int_equal(action_of(&f, e)->slot_count, 4);
    running(&f, e, 0);
    e->placement.len = 4;
    for (uint32_t k = 0; k < 4; k++)
        f.slots[0][k] = (struct slot){0, k, 24576};
    b = job(&f, "b", "bob", 2);
    decide(&f, "fair");
    assert_int_equal(action_of(&f, e)->type, ACTION_RESIZE);
    assert_int_equal(action_of(&f, e)->slot_count, 2); /* what is needed, not more */
    assert_int_equal(action_of(&f, b)->type, ACTION_CLAIM);
    done(&f);
}

/* A share on the half-used card of node 0 leaves a rest that is of no use to the usual half-card job; on node
 * 1 it fills up. */
/* Each GPU more adds a little less speed. */
static void goes_on_for(struct fixture *f, const struct workload *w, double work_s)
{
    struct forecast *of = &f->forecasts[w - f->jobs];

    *of = (struct forecast){.work_s = work_s, .shared = 0.5F, .overrun = 1, .measured = true};
    for (uint32_t gpus = w->demand.min_gpus; gpus <= w->demand.max_gpus; gpus++)
        of->curve[of->points++] = (struct curve_point){gpus, (float)gpus * (1.05F - 0.05F * (float)gpus)};
    f->view.forecasts = f->forecasts;
}

/* A long job on three of four cards, a short one on the other, both elastic; nobody waits. */
static void long_and_short(struct fixture *f, struct workload **is_long, struct workload **is_short)
{
    init(f, 1, 4);
    *is_long = running(f, job(f, "long", "ann", 3), 0);
    *is_short = running(f, job(f, "short", "bob", 1), 3);
    (*is_long)->demand.min_gpus = 1;
    (*is_long)->demand.max_gpus = (*is_short)->demand.max_gpus = 4;
    goes_on_for(f, *is_long, 360000);
    goes_on_for(f, *is_short, 3600);
}

static void test_extra_gpus_go_where_they_help_most_while_nobody_waits(void **state)
{
    struct fixture f;
    struct workload *is_long, *is_short;

    (void)state;
    long_and_short(&f, &is_long, &is_short);
    decide(&f, "fair");
    assert_int_equal(action_of(&f, is_long)->type, ACTION_RESIZE);
    assert_int_equal(action_of(&f, is_long)->slot_count, 2);
    assert_int_equal(action_of(&f, is_short)->type, ACTION_RESIZE);
    assert_int_equal(action_of(&f, is_short)->slot_count, 2);
    done(&f);
}

static void test_a_job_keeps_its_size_while_work_of_its_user_is_blocked(void **state)
{
    struct fixture f;
    struct workload *is_long, *is_short;

    (void)state;
    long_and_short(&f, &is_long, &is_short);
    job(&f, "over-quota", "ann", 1)->blocked = true;
    goes_on_for(&f, &f.jobs[2], 60);
    decide(&f, "fair");
    assert_null(action_of(&f, is_long));
    assert_null(action_of(&f, is_short));
    done(&f);
}

static void test_fragments_are_left_where_the_usual_jobs_can_use_them(void **state)
{
    struct mix_row mix[] = {{.demand = {.min_gpus = 1, .max_gpus = 1, .mib = 12288}, .weight = 1}};
    struct fixture f;
    struct workload *half, *third;

    (void)state;
    init(&f, 2, 1);
    half = running(&f, job(&f, "half", "ann", 1), 0);
    half->demand.mib = f.slots[0][0].mib = 12288;
    third = running(&f, job(&f, "third", "bob", 1), 0);
    third->demand.mib = f.slots[1][0].mib = 10240;
    f.slots[1][0].node = 1;
    job(&f, "small", "cem", 1)->demand.mib = 2048;
    f.view.options.place = PLACE_FRAGMENT;
    f.view.mix = mix;
    f.view.mix_len = 1;
    decide(&f, "fair");
    assert_int_equal(action_of(&f, &f.jobs[2])->slots[0].node, 1);
    f.view.options.place = PLACE_BEST_FIT;
    decide(&f, "fair");
    assert_int_equal(action_of(&f, &f.jobs[2])->slots[0].node, 0);
    done(&f);
}

static void test_list_policies_run_who_is_first_in_their_order(void **state)
{
    struct fixture f;
    struct workload *old, *brief;

    (void)state;
    init(&f, 1, 1);
    old = running(&f, job(&f, "old", "ann", 1), 0);
    old->attained_gpu_ms = 17 * 3600 * 1000ULL;
    old->declared_ms = 100 * 3600 * 1000LL;
    brief = job(&f, "brief", "bob", 1);
    brief->declared_ms = 1800 * 1000;
    for (const char *const *name = (const char *const[]){"las", "srtf", "berth", NULL}; *name; name++) {
        decide(&f, *name);
        assert_int_equal(action_of(&f, old)->type, ACTION_PREEMPT);
        assert_int_equal(action_of(&f, brief)->type, ACTION_CLAIM);
    }
    decide(&f, "fifo");
    assert_int_equal(f.plan.actions.len, 0);
    brief->declared_ms = 3600 * 1000; /* lengths nothing has measured: not worth a restart for berth */
    decide(&f, "berth");
    assert_int_equal(f.plan.actions.len, 0);
    done(&f);
}

static void test_pressure_takes_the_fewest_gpus_that_are_in_time(void **state)
{
    struct fixture f;
    struct workload *late, *calm;

    (void)state;
    init(&f, 1, 8);
    calm = job(&f, "calm", "ann", 1);
    calm->demand.max_gpus = 4;
    calm->declared_ms = 3600 * 1000;
    calm->deadline_ms = 10 * 3600 * 1000;
    late = job(&f, "late", "bob", 1);
    late->demand.max_gpus = 4;
    late->declared_ms = 3600 * 1000;
    late->deadline_ms = 1500 * 1000;
    decide(&f, "pressure");
    assert_int_equal(f.plan.actions.v[0].job, 1);
    assert_int_equal(action_of(&f, late)->slot_count, 3);
    assert_int_equal(action_of(&f, calm)->slot_count, 1);
    done(&f);
}

static void test_what_cannot_resume_makes_room_only_for_who_asked(void **state)
{
    struct fixture f;

    (void)state;
    init(&f, 1, 1);
    running(&f, job(&f, "bob-1", "bob", 1), 1); /* on a card the node does not have: bob's first */
    struct workload *pod = running(&f, job(&f, "bob-2", "bob", 1), 0), *w = job(&f, "ann-1", "ann", 1);

    pod->resumable = false;
    decide(&f, "fair");
    assert_null(action_of(&f, pod));
    w->asked = true;
    decide(&f, "fair");
    assert_int_equal(action_of(&f, pod)->type, ACTION_PREEMPT);
    plan_done(&f.plan);
}

static void test_a_blocked_job_is_not_started_and_displaces_nobody(void **state)
{
    struct fixture f;

    (void)state;
    init(&f, 1, 2);
    running(&f, job(&f, "bob-1", "bob", 1), 0);
    struct workload *later = running(&f, job(&f, "bob-2", "bob", 1), 1), *w = job(&f, "ann-1", "ann", 1);

    w->blocked = true;
    decide(&f, "fair");
    assert_int_equal(f.plan.actions.len, 0);
    assert_int_equal(f.plan.waits.v[0].reason, WAIT_BLOCKED);
    later->phase = PHASE_CANCELLED;
    decide(&f, "fair");
    assert_int_equal(f.plan.actions.len, 0);
    decide(&f, "berth");
    assert_int_equal(f.plan.actions.len, 0);
    plan_done(&f.plan);
}

/* What the book of one decision takes is bounded by the cluster, whatever jobs ask for. */
static void test_absurd_demands_wait_for_ever_and_cost_nothing(void **state)
{
    struct fixture f;

    (void)state;
    init(&f, 2, 4);
    struct workload *w = job(&f, "gang", "ann", UINT32_MAX), *e = job(&f, "elastic", "bob", 1);

    w->demand.unit_gpus = 1;
    e->demand.max_gpus = UINT32_MAX - 1;
    e->demand.unit_gpus = 1;
    e->demand.each = (struct resources){1, 1};
    for (const struct sched_policy *const *p = sched_policies; *p; p++) {
        decide(&f, sched_policy_name(*p));
        assert_null(action_of(&f, w));
        assert_int_equal(action_of(&f, e)->type, ACTION_START);
        assert_true(action_of(&f, e)->slot_count <= 8);
    }
    w->demand.each = (struct resources){INT64_MAX, INT64_MAX};
    decide(&f, "fair");
    assert_null(action_of(&f, w));
    done(&f);
}

static void test_a_node_that_lost_cards_under_a_job_is_no_surprise(void **state)
{
    struct fixture f;

    (void)state;
    init(&f, 1, 4);
    struct workload *a = running(&f, job(&f, "a", "ann", 4), 0), *g = job(&f, "g", "bob", 2);

    a->demand.mib = 1000; /* a share, so that guests are thought of */
    g->demand.mib = 1000;
    f.nodes[0].gpu_count = 2;
    for (const struct sched_policy *const *p = sched_policies; *p; p++)
        decide(&f, sched_policy_name(*p));
    a->demand.mib = g->demand.mib = 0;
    decide(&f, "fair");
    assert_null(action_of(&f, g)); /* the two cards that are left are still in use */
    f.nodes[0].gpu_count = 0;
    decide(&f, "fair");
    f.cluster.node_count = 0;
    decide(&f, "fair");
    done(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_absurd_demands_wait_for_ever_and_cost_nothing),
        cmocka_unit_test(test_a_node_that_lost_cards_under_a_job_is_no_surprise),
        cmocka_unit_test(test_what_cannot_resume_makes_room_only_for_who_asked),
        cmocka_unit_test(test_a_blocked_job_is_not_started_and_displaces_nobody),
        cmocka_unit_test(test_a_first_gpu_job_displaces_a_second_and_says_so),
        cmocka_unit_test(test_equal_ordinals_displace_nobody),
        cmocka_unit_test(test_within_a_rank_the_least_lost_work_goes),
        cmocka_unit_test(test_last_epochs_and_fresh_starts_are_left_alone),
        cmocka_unit_test(test_a_claim_starts_when_the_place_is_empty),
        cmocka_unit_test(test_shares_fill_a_card_and_never_more),
        cmocka_unit_test(test_who_disables_sharing_is_alone_on_a_card),
        cmocka_unit_test(test_what_can_never_run_is_said),
        cmocka_unit_test(test_what_no_node_has_is_named_with_what_there_is),
        cmocka_unit_test(test_no_card_is_held_for_a_job_that_lacks_cpu),
        cmocka_unit_test(test_a_gang_starts_over_several_nodes_or_not_at_all),
        cmocka_unit_test(test_nodes_are_held_for_the_first_that_waits),
        cmocka_unit_test(test_idle_gpus_go_to_an_elastic_job_and_back),
        cmocka_unit_test(test_extra_gpus_go_where_they_help_most_while_nobody_waits),
        cmocka_unit_test(test_a_job_keeps_its_size_while_work_of_its_user_is_blocked),
        cmocka_unit_test(test_fragments_are_left_where_the_usual_jobs_can_use_them),
        cmocka_unit_test(test_list_policies_run_who_is_first_in_their_order),
        cmocka_unit_test(test_pressure_takes_the_fewest_gpus_that_are_in_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
