#include "base/clock.h"
#include "base/metrics.h"
#include "base/test/test.h"

static void test_a_value_on_a_bound_is_in_its_bucket(void **state)
{
    struct histogram h = {0};

    (void)state;
    histogram_add(&h, &histogram_latency, 250000);
    histogram_add(&h, &histogram_latency, 250001);
    assert_int_equal(h.in[0], 0);
    assert_int_equal(h.in[1], 1);
    assert_int_equal(h.in[2], 1);
    assert_int_equal(h.count, 2);
    assert_int_equal(h.sum, 500001);
}

static void test_what_is_above_all_bounds_counts_as_infinite(void **state)
{
    struct histogram h = {0};

    (void)state;
    histogram_add(&h, &histogram_latency, INT64_MAX);
    histogram_add(&h, &histogram_latency, INT64_MAX);
    histogram_add(&h, &histogram_latency, -5);
    assert_int_equal(h.in[HISTOGRAM_BUCKETS_MAX], 2);
    assert_int_equal(h.in[0], 1);
    assert_int_equal(h.sum, INT64_MAX);
}

static void test_bounds_ascend(void **state)
{
    static const struct histogram_scale *const scales[] = {&histogram_latency, &histogram_wait};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        assert_true(scales[i]->len <= HISTOGRAM_BUCKETS_MAX);
        for (size_t j = 1; j < scales[i]->len; j++)
            assert_true(scales[i]->bounds[j - 1] < scales[i]->bounds[j]);
    }
}

static void test_labels_are_quoted(void **state)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct metrics m = {.out = &out};

    (void)state;
    metrics_family(&m, "a_total", METRIC_COUNTER, "What a is.");
    metrics_count(&m, METRIC_LABELS({"x", "say \"a\\b\"\n\xff"}, {"y", NULL}), UINT64_MAX);
    metrics_family(&m, "b", METRIC_GAUGE, "What b is.");
    metrics_gauge(&m, NULL, -0.25);
    assert_string_equal(out.data, "# HELP a_total What a is.\n"
                                  "# TYPE a_total counter\n"
                                  "a_total{x=\"say \\\"a\\\\b\\\"\\n?\",y=\"\"} 18446744073709551615\n"
                                  "# HELP b What b is.\n"
                                  "# TYPE b gauge\n"
                                  "b -0.25\n");
}

static void test_buckets_add_up(void **state)
{
    CLEANUP(buf_done) struct buf out = {0};
    static const struct histogram_scale scale = {2, {NSEC_PER_MSEC, NSEC_PER_SEC}};
    struct metrics m = {.out = &out};
    struct histogram h = {0};

    (void)state;
    histogram_add(&h, &scale, 1);
    histogram_add(&h, &scale, 500 * NSEC_PER_MSEC);
    histogram_add(&h, &scale, 2 * NSEC_PER_SEC);
    metrics_family(&m, "t_seconds", METRIC_HISTOGRAM, "Time.");
    metrics_histogram(&m, METRIC_LABELS({"k", "v"}), &h, &scale);
    assert_string_equal(out.data, "# HELP t_seconds Time.\n"
                                  "# TYPE t_seconds histogram\n"
                                  "t_seconds_bucket{k=\"v\",le=\"0.001\"} 1\n"
                                  "t_seconds_bucket{k=\"v\",le=\"1\"} 2\n"
                                  "t_seconds_bucket{k=\"v\",le=\"+Inf\"} 3\n"
                                  "t_seconds_sum{k=\"v\"} 2.500000001\n"
                                  "t_seconds_count{k=\"v\"} 3\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_value_on_a_bound_is_in_its_bucket),
        cmocka_unit_test(test_what_is_above_all_bounds_counts_as_infinite),
        cmocka_unit_test(test_bounds_ascend),
        cmocka_unit_test(test_labels_are_quoted),
        cmocka_unit_test(test_buckets_add_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
