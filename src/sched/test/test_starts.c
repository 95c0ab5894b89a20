/* When waiting jobs start: the queue played forward on small clusters. Times are seconds after T0. */
#include "base/test/test.h"
#include "sched/sched.h"

#define CARDS 8
#define JOBS  16
#define T0    1000000000000LL

struct fixture {
    struct gpu cards[2][CARDS];
    struct node nodes[2];
    struct cluster cluster;
    struct workload jobs[JOBS];
    struct slot slots[JOBS][CARDS];
    struct forecast forecasts[JOBS];
    struct sched_view view;
    struct plan plan;
};

static void init(struct fixture *f, uint32_t nodes, uint32_t cards)
{
    memset(f, 0, sizeof(*f));
    for (uint32_t n = 0; n < nodes; n++) {
        f->nodes[n] = (struct node){.name = "n", .gpus = f->cards[n], .gpu_count = cards};
        f->nodes[n].capacity = (struct resources){64000, 262144};
        for (uint32_t c = 0; c < cards; c++)
            f->cards[n][c].mem_mib = 24576;
    }
    f->cluster = (struct cluster){f->nodes, nodes};
    f->view = (struct sched_view){
        .cluster = &f->cluster, .jobs = f->jobs, .forecasts = f->forecasts, .options = sched_defaults};
}

/* Takes `seconds` on its GPUs, in ten epochs. */
static struct workload *job(struct fixture *f, const char *name, uint32_t gpus, double seconds)
{
    struct forecast *forecast = &f->forecasts[f->view.job_count];
    struct workload *w = &f->jobs[f->view.job_count++];

    *w = (struct workload){.id = f->view.job_count,
                           .name = name,
                           .user = name,
                           .submit_ms = T0 + f->view.job_count,
                           .epochs_total = 10,
                           .can_checkpoint = true,
                           .resumable = true,
                           .keep = true};
    w->demand.min_gpus = w->demand.max_gpus = gpus;
    *forecast = (struct forecast){.points = 1,
                                  .curve = {{gpus, 1}},
                                  .work_s = seconds,
                                  .epochs = 10,
                                  .sigma = 0.1,
                                  .shared = 1,
                                  .measured = true,
                                  .as_of_ms = T0};
    return w;
}

static struct workload *running(struct fixture *f, struct workload *w, uint32_t node, uint32_t card)
{
    uint32_t i = (uint32_t)(w - f->jobs);

    for (uint32_t k = 0; k < w->demand.min_gpus; k++)
        f->slots[i][k] = (struct slot){node, card + k, 24576};
    w->phase = PHASE_RUNNING;
    w->placement = (struct placement){f->slots[i], w->demand.min_gpus};
    w->started_ms = T0;
    return w;
}

static const struct wait *wait_of(const struct fixture *f, const struct workload *w)
{
    VEC_EACH(&f->plan.waits, wait)
        if (&f->jobs[wait->job] == w)
            return wait;
    fail_msg("job '%s' does not wait", w->name);
    return NULL;
}

/* Seconds after T0 as seen then. */
static double start_of(struct fixture *f, const struct workload *w, double now)
{
    const struct wait *wait;

    sched_plan(sched_policy_find("fair"), &f->view, T0 + (int64_t)(now * 1000), &f->plan);
    wait = wait_of(f, w);
    assert_true(wait->start_lo_ms <= wait->start_ms && wait->start_ms <= wait->start_hi_ms);
    return (double)(wait->start_ms - T0) / 1000;
}

static void test_a_job_behind_a_stopping_one_starts_at_the_end_of_its_epoch(void **state)
{
    struct fixture f;
    struct workload *stopping, *waiter;

    (void)state;
    init(&f, 1, 1);
    stopping = running(&f, job(&f, "long", 1, 5000), 0, 0);
    stopping->phase = PHASE_STOPPING;
    waiter = job(&f, "next", 1, 100);
    assert_float_equal(start_of(&f, waiter, 100), 502, 0.1);
    stopping->stop_by_ms = T0 + 160000;
    assert_float_equal(start_of(&f, waiter, 100), 160, 0.1);
    plan_done(&f.plan);
}

static void test_a_start_does_not_move_while_nothing_is_learned(void **state)
{
    struct fixture f;
    struct workload *first, *second;

    (void)state;
    init(&f, 1, 1);
    running(&f, job(&f, "long", 1, 5000), 0, 0);
    first = job(&f, "first", 1, 100);
    second = job(&f, "second", 1, 100);
    for (int now = 0; now < 500; now += 7) {
        assert_float_equal(start_of(&f, first, now), 5000, 0.001);
        assert_float_equal(start_of(&f, second, now), 5100, 0.001);
    }
    plan_done(&f.plan);
}

static void test_cards_on_two_nodes_are_no_place_for_one_job(void **state)
{
    struct fixture f;
    struct workload *waiter;

    (void)state;
    init(&f, 2, 2);
    running(&f, job(&f, "a", 1, 100), 0, 0);
    running(&f, job(&f, "b", 1, 2000), 0, 1);
    running(&f, job(&f, "c", 1, 200), 1, 0);
    running(&f, job(&f, "d", 1, 3000), 1, 1);
    waiter = job(&f, "pair", 2, 100);
    assert_float_equal(start_of(&f, waiter, 10), 2000, 0.1);
    plan_done(&f.plan);
}

static void test_a_short_job_starts_before_a_large_one_and_a_long_one_does_not(void **state)
{
    struct fixture f;
    struct workload *large, *brief, *slow;

    (void)state;
    init(&f, 1, 2);
    running(&f, job(&f, "a", 1, 100), 0, 0);
    running(&f, job(&f, "b", 1, 2000), 0, 1);
    large = job(&f, "large", 2, 500);
    large->priority = 2;
    brief = job(&f, "brief", 1, 300);
    slow = job(&f, "slow", 1, 3000);
    large->user = brief->user = slow->user = "ann";
    assert_float_equal(start_of(&f, large, 10), 2000, 0.1);
    assert_float_equal(start_of(&f, brief, 10), 100, 0.1);
    assert_float_equal(start_of(&f, slow, 10), 2500, 0.1);
    plan_done(&f.plan);
}

static void test_what_a_shrinking_job_keeps_is_not_free(void **state)
{
    struct fixture f;
    struct workload *elastic, *first, *second;

    (void)state;
    init(&f, 1, 2);
    elastic = job(&f, "elastic", 2, 5000);
    f.forecasts[0] = (struct forecast){
        .points = 2, .curve = {{1, 1}, {2, 2}}, .work_s = 10000, .epochs = 10, .as_of_ms = T0};
    running(&f, elastic, 0, 0);
    elastic->demand.min_gpus = 1;
    elastic->phase = PHASE_STOPPING;
    elastic->claim = (struct placement){f.slots[0], 1};
    first = job(&f, "first", 1, 400);
    second = job(&f, "second", 1, 400);
    assert_float_equal(start_of(&f, first, 100), 502, 0.1);
    assert_float_equal(start_of(&f, second, 100), 902, 0.1);
    plan_done(&f.plan);
}

static void test_intervals_grow_with_what_is_not_known(void **state)
{
    struct fixture f;
    struct workload *waiter;
    int64_t narrow;

    (void)state;
    init(&f, 1, 1);
    running(&f, job(&f, "long", 1, 5000), 0, 0);
    waiter = job(&f, "next", 1, 100);
    (void)start_of(&f, waiter, 100);
    narrow = wait_of(&f, waiter)->start_hi_ms - wait_of(&f, waiter)->start_lo_ms;
    f.forecasts[0].sigma = 0.8;
    (void)start_of(&f, waiter, 100);
    assert_true(wait_of(&f, waiter)->start_hi_ms - wait_of(&f, waiter)->start_lo_ms > 2 * narrow);
    plan_done(&f.plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_behind_a_stopping_one_starts_at_the_end_of_its_epoch),
        cmocka_unit_test(test_a_start_does_not_move_while_nothing_is_learned),
        cmocka_unit_test(test_cards_on_two_nodes_are_no_place_for_one_job),
        cmocka_unit_test(test_a_short_job_starts_before_a_large_one_and_a_long_one_does_not),
        cmocka_unit_test(test_what_a_shrinking_job_keeps_is_not_free),
        cmocka_unit_test(test_intervals_grow_with_what_is_not_known),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
