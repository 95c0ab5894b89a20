#include "base/test/test.h"
#include "sched/estimate.h"
#include "sched/usage.h"

#include <math.h>

static const struct estimate_key key = {"image", "/custom/train.py", 32};

static struct workload elastic(void)
{
    struct workload w = {
        .demand = {.min_gpus = 1, .max_gpus = 8}, .epochs_total = 10, .declared_ms = 7200000};

    return w;
}

static void test_declared_hours_count_until_there_are_samples(void **state)
{
    CLEANUP(estimator_free) struct estimator *est = estimator_new();
    struct workload w = elastic();
    struct forecast f;

    (void)state;
    estimator_forecast(est, &key, &w, 32000, 0, &f);
    assert_false(f.measured);
    assert_float_equal(f.work_s, 7200, 1);
    assert_float_equal(forecast_seconds(&f, 1, false), 7200, 1);
    w.epochs_done = 5;
    estimator_forecast(est, &key, &w, 32000, 0, &f);
    assert_float_equal(f.work_s, 3600, 1);
    assert_true(forecast_low(&f, 3600) < 3600 && forecast_high(&f, 3600) > 3600);
}

static void test_samples_replace_what_was_declared_and_serve_the_next_submission(void **state)
{
    CLEANUP(estimator_free) struct estimator *est = estimator_new();
    struct workload w = elastic(), again = elastic();
    struct forecast f;
    double wide;

    (void)state;
    estimator_forecast(est, &key, &w, 32000, 0, &f);
    wide = forecast_high(&f, 1);
    assert_true(estimator_add(est, &key, &(struct sample){1, false, 1000, 0.1, 110, 0}));
    estimator_forecast(est, &key, &again, 32000, 0, &f);
    assert_true(f.measured);
    assert_float_equal(f.work_s, 10 * 110, 1);
    assert_true(forecast_high(&f, 1) < wide);
}

static void test_a_bad_speed_up_is_learned_from_one_measured_size(void **state)
{
    CLEANUP(estimator_free) struct estimator *est = estimator_new();
    struct workload w = elastic();
    struct forecast before, after;

    (void)state;
    estimator_add(est, &key, &(struct sample){1, false, 1000, 0.1, 0, 0});
    estimator_forecast(est, &key, &w, 32000, 0, &before);
    estimator_add(est, &key, &(struct sample){2, false, 1000, 0.19, 0, 0});
    estimator_forecast(est, &key, &w, 32000, 0, &after);
    assert_true(forecast_rate(&before, 2) > 1.7);
    assert_float_equal(forecast_rate(&after, 2), 2 * 0.1 / 0.19, 0.02);
    assert_true(forecast_rate(&after, 8) < 0.6 * forecast_rate(&before, 8));
    assert_true(forecast_tried(&after, 2) && !forecast_tried(&after, 8));
}

static void test_nonsense_is_no_sample(void **state)
{
    CLEANUP(estimator_free) struct estimator *est = estimator_new();
    struct sample row;

    (void)state;
    assert_false(estimator_add(est, &key, &(struct sample){0, false, 10, 0.1, 0, 0}));
    assert_false(estimator_add(est, &key, &(struct sample){1, false, 10, NAN, 0, 0}));
    assert_false(estimator_add(est, &key, &(struct sample){1, false, 10, -1, INFINITY, 0}));
    assert_false(estimator_row(est, &key, 0, &row));
    assert_true(estimator_add(est, &key, &(struct sample){4, true, 10, 0.5, 0, 0}));
    assert_true(estimator_row(est, &key, 0, &row));
    assert_true(row.gpus == 4 && row.shared && row.iterations == 10);
}

static void test_hulls_are_concave_and_keep_the_smallest_size(void **state)
{
    struct forecast f = {.points = 5, .curve = {{1, 1.0F}, {2, 1.1F}, {4, 3.0F}, {8, 2.5F}, {16, 3.2F}}};
    struct curve_point hull[CURVE_MAX];
    uint32_t len = forecast_hull(&f, hull);

    (void)state;
    assert_int_equal(len, 3);
    assert_int_equal(hull[0].gpus, 1);
    assert_int_equal(hull[1].gpus, 4);
    assert_int_equal(hull[2].gpus, 16);
}

static void test_an_overrun_lowers_the_claim(void **state)
{
    struct workload w = {.demand = {.min_gpus = 1, .max_gpus = 4}, .declared_ms = 3600000};
    struct forecast f;

    (void)state;
    forecast_declared(&w, 0, &f);
    assert_float_equal(f.overrun, 1, 0.001);
    w.attained_gpu_ms = 7200000;
    forecast_declared(&w, 0, &f);
    assert_float_equal(f.overrun, 0.5, 0.001);
    assert_true(f.work_s > 0);
}

/* The forecast of a job with `done` of 60 epochs, which began to run at 1000 s, its last epoch at `saved`. */
static struct forecast running(const struct estimator *est, const struct epoch_log *own, uint32_t done,
                               int64_t saved_ms)
{
    static const struct slot slot = {0, 0, 1};
    struct estimate_key plain = {"image", "/custom/train.py", 0, own};
    struct workload w = {.demand = {.min_gpus = 1, .max_gpus = 1},
                         .epochs_total = 60,
                         .epochs_done = done,
                         .phase = PHASE_RUNNING,
                         .placement = {&slot, 1},
                         .started_ms = 1000000,
                         .saved_ms = saved_ms};
    struct forecast f;

    estimator_forecast(est, &plain, &w, 0, saved_ms, &f);
    return f;
}

static void test_own_epochs_count_without_a_batch_size(void **state)
{
    CLEANUP(estimator_free) struct estimator *est = estimator_new();
    struct estimate_key plain = {"image", "/custom/train.py", 0, NULL};
    struct epoch_log own = {0};
    struct forecast f;
    struct when end;

    (void)state;
    for (int i = 0; i < 11; i++)
        estimator_learn_epoch(est, &plain, &own, 1, false, 1, i == 0);
    f = running(est, &own, 11, 1011000);
    end = forecast_end(&f, 1, false, 1000000, 1011500);
    assert_true(f.measured);
    assert_int_equal(end.at_ms, 1060000);
    assert_true(end.lo_ms > 1050000 && end.hi_ms < 1070000);
}

static void test_an_end_does_not_move_while_nothing_is_learned(void **state)
{
    CLEANUP(estimator_free) struct estimator *est = estimator_new();
    struct epoch_log own = {0};
    struct forecast f;
    struct when first;

    (void)state;
    epoch_log_add(&own, 1, false, 100, false);
    epoch_log_add(&own, 1, false, 100, false);
    f = running(est, &own, 2, 1200000);
    first = forecast_end(&f, 1, false, 1000000, 1200000);
    for (int64_t now = 1200000; now <= 1300000; now += 1500) {
        struct when end = forecast_end(&f, 1, false, 1000000, now);

        assert_true(end.at_ms == first.at_ms && end.lo_ms == first.lo_ms && end.hi_ms == first.hi_ms);
    }
}

static void test_what_is_overdue_is_put_off_in_steps_and_never_lies_behind(void **state)
{
    CLEANUP(estimator_free) struct estimator *est = estimator_new();
    struct epoch_log own = {0};
    struct forecast f;
    int64_t last = 0;
    int steps = 0;

    (void)state;
    epoch_log_add(&own, 1, false, 100, false);
    f = running(est, &own, 58, 1200000);
    for (int64_t now = 1200000; now < 1400000; now += 1000) {
        struct when end = forecast_end(&f, 1, false, 1000000, now);

        assert_true(end.at_ms >= now + 99000 && end.lo_ms >= now && end.hi_ms >= end.at_ms);
        steps += end.at_ms != last;
        last = end.at_ms;
    }
    assert_int_equal(steps, 9); /* 100 s, then a tenth more each time, up to 200 s */
}

static void test_a_job_that_does_not_run_yet_ends_so_long_after_its_start(void **state)
{
    CLEANUP(estimator_free) struct estimator *est = estimator_new();
    struct workload w = elastic();
    struct forecast f;
    struct when end;

    (void)state;
    estimator_forecast(est, &key, &w, 0, 5000, &f);
    assert_int_equal(f.as_of_ms, 5000);
    assert_int_equal(forecast_end(&f, 1, false, 0, 9000).at_ms, 9000 + 7200000);
    end = forecast_end_after(&f, 1, (struct when){20000, 10000, 40000});
    assert_int_equal(end.at_ms, 20000 + 7200000);
    assert_true(end.lo_ms < 7200000 && end.hi_ms > 40000 + 7200000);
}

static void test_own_epochs_come_before_those_of_other_runs(void **state)
{
    CLEANUP(estimator_free) struct estimator *est = estimator_new();
    struct estimate_key others = {"image", "/custom/train.py", 0, NULL};
    struct epoch_log other = {0}, own = {0};
    struct forecast f;

    (void)state;
    for (int i = 0; i < 20; i++)
        estimator_learn_epoch(est, &others, &other, 1, false, 10, false);
    f = running(est, &own, 0, 0);
    assert_true(f.measured);
    assert_float_equal(f.work_s, 600, 1);
    epoch_log_add(&own, 1, false, 50, true);
    f = running(est, &own, 1, 1050000);
    assert_float_equal(f.work_s, 59 * 50, 1);
}

static void test_an_epoch_on_another_size_bends_the_curve(void **state)
{
    CLEANUP(estimator_free) struct estimator *est = estimator_new();
    struct epoch_log own = {0};
    struct estimate_key with = {"image", "/custom/train.py", 0, &own};
    struct workload w = elastic();
    struct forecast f;

    (void)state;
    for (int i = 0; i < 5; i++)
        epoch_log_add(&own, 1, false, 100, false);
    epoch_log_add(&own, 2, false, 90, false);
    estimator_forecast(est, &with, &w, 0, 0, &f);
    assert_float_equal(forecast_rate(&f, 1), 1, 0.01);
    assert_true(forecast_rate(&f, 2) < 1.4);
    assert_true(forecast_rate(&f, 8) < 6);
    assert_true(forecast_tried(&f, 1) && forecast_tried(&f, 2) && !forecast_tried(&f, 4));
}

static void test_stored_epochs_give_the_same_forecast_again(void **state)
{
    CLEANUP(estimator_free) struct estimator *est = estimator_new();
    struct epoch_log own = {0}, again = {0};
    struct forecast before, after;

    (void)state;
    epoch_log_add(&own, 1, false, 130, true);
    epoch_log_add(&own, 1, false, 100, false);
    epoch_log_add(&own, 2, false, 60, true);
    before = running(est, &own, 3, 1300000);
    for (uint32_t i = 0; i < own.len; i++)
        epoch_log_load(&again, &own.rows[i]);
    after = running(est, &again, 3, 1300000);
    assert_true(before.work_s == after.work_s && before.sigma == after.sigma);
    epoch_log_load(&again, &(struct epoch_row){.gpus = 4, .count = 2, .mean_s = NAN});
    epoch_log_load(&again, &(struct epoch_row){.gpus = 0, .count = 2, .mean_s = 1});
    assert_int_equal(again.len, own.len);
}

static void test_the_end_of_an_epoch_is_known_from_those_before(void **state)
{
    CLEANUP(estimator_free) struct estimator *est = estimator_new();
    struct epoch_log own = {0};
    struct forecast f;

    (void)state;
    epoch_log_add(&own, 1, false, 100, false);
    f = running(est, &own, 20, 1200000);
    assert_int_equal(forecast_epoch_end(&f, 1, false, 1000000, 1222000).at_ms, 1300000);
    f.epochs = 0;
    assert_true(forecast_epoch_end(&f, 1, false, 1000000, 1222000).at_ms == INT64_MAX);
}

static void test_usage_halves_and_keeps_its_order(void **state)
{
    CLEANUP(usage_free) struct usage *usage = usage_new(1000);

    (void)state;
    usage_add(usage, "ann", 0, 800);
    usage_add(usage, "bob", 2000, 800);
    assert_float_equal(usage_get(usage, "ann", 3000), 100, 0.001);
    assert_float_equal(usage_get(usage, "bob", 3000), 400, 0.001);
    assert_true(usage_step(usage, "ann") < usage_step(usage, "bob"));
    assert_int_equal(usage_step(usage, "cem"), USAGE_NONE);
    usage_add(usage, "ann", 3000, 300);
    assert_float_equal(usage_get(usage, "ann", 3000), 400, 0.001);
    usage_add(usage, "ann", 3000, NAN);
    usage_add(usage, NULL, 3000, 5);
    assert_float_equal(usage_get(usage, "ann", 3000), 400, 0.001);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_declared_hours_count_until_there_are_samples),
        cmocka_unit_test(test_samples_replace_what_was_declared_and_serve_the_next_submission),
        cmocka_unit_test(test_a_bad_speed_up_is_learned_from_one_measured_size),
        cmocka_unit_test(test_nonsense_is_no_sample),
        cmocka_unit_test(test_hulls_are_concave_and_keep_the_smallest_size),
        cmocka_unit_test(test_an_overrun_lowers_the_claim),
        cmocka_unit_test(test_own_epochs_count_without_a_batch_size),
        cmocka_unit_test(test_an_end_does_not_move_while_nothing_is_learned),
        cmocka_unit_test(test_what_is_overdue_is_put_off_in_steps_and_never_lies_behind),
        cmocka_unit_test(test_a_job_that_does_not_run_yet_ends_so_long_after_its_start),
        cmocka_unit_test(test_own_epochs_come_before_those_of_other_runs),
        cmocka_unit_test(test_an_epoch_on_another_size_bends_the_curve),
        cmocka_unit_test(test_stored_epochs_give_the_same_forecast_again),
        cmocka_unit_test(test_the_end_of_an_epoch_is_known_from_those_before),
        cmocka_unit_test(test_usage_halves_and_keeps_its_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
