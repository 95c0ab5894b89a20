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
        cmocka_unit_test(test_usage_halves_and_keeps_its_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
