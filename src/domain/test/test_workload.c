#include "base/cleanup.h"
#include "base/test/test.h"
#include "domain/workload.h"

static void test_priority_text_is_read_as_the_guide_says(void **state)
{
    static const struct {
        const char *text;
        int32_t value;
        bool warns;
    } rows[] = {
        {"1", 1, false},
        {"0", 0, false},
        {"0-3", -3, false},
        {"-3", -3, false},
        {"", 0, false},
        {" 2 ", 2, false},
        {"high", 0, true},
        {"1.5", 0, true},
        {"0--3", 0, true},
        {"3-0", 0, true},
        {"0-", 0, true},
        {"+1", 0, true},
        {"0-x", 0, true},
        {"00", 0, false},
        {"99999999", 1000000, true},
        {"0-99999999", -1000000, true},
        {"0-10", -10, false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *warning = "";

        assert_int_equal(priority_parse(str_from(rows[i].text), &warning), rows[i].value);
        assert_int_equal(warning != NULL, rows[i].warns);
    }
}

static void test_a_share_counts_as_its_fraction_rounded_up(void **state)
{
    struct demand share = {.min_gpus = 1, .max_gpus = 1, .mib = 8192}, whole = {.min_gpus = 2, .max_gpus = 2};
    struct demand alone = {.min_gpus = 1, .max_gpus = 1, .mib = 8192, .exclusive = true};

    (void)state;
    assert_int_equal(demand_milli(&share, 1, 24576), 334);
    assert_int_equal(demand_milli(&share, 1, 8192), 1000);
    assert_int_equal(demand_milli(&share, 1, 4096), 1000);
    assert_int_equal(demand_milli(&whole, 2, 24576), 2000);
    assert_int_equal(demand_milli(&alone, 1, 24576), 1000);
}

static void test_faults_of_demands_are_named(void **state)
{
    (void)state;
    assert_null(demand_fault(&(struct demand){.min_gpus = 2, .max_gpus = 8, .unit_gpus = 2}));
    assert_null(demand_fault(&(struct demand){0}));
    assert_non_null(demand_fault(&(struct demand){.min_gpus = 2, .max_gpus = 1}));
    assert_non_null(demand_fault(&(struct demand){.min_gpus = 3, .max_gpus = 4, .unit_gpus = 2}));
    assert_non_null(demand_fault(&(struct demand){.min_gpus = 0, .max_gpus = 4}));
    assert_non_null(demand_fault(&(struct demand){.each = {.cpu_milli = -1}}));
}

static void test_only_the_last_epoch_is_the_last(void **state)
{
    (void)state;
    assert_true(workload_in_last_epoch(&(struct workload){.epochs_total = 3, .epochs_done = 2}));
    assert_false(workload_in_last_epoch(&(struct workload){.epochs_total = 3, .epochs_done = 1}));
    assert_false(workload_in_last_epoch(&(struct workload){.epochs_total = 0, .epochs_done = 9}));
}

static void test_a_stop_loses_what_came_after_the_last_checkpoint(void **state)
{
    struct slot slots[2] = {{0, 0, 1}, {0, 1, 1}};
    struct workload w = {.phase = PHASE_RUNNING,
                         .placement = {slots, 2},
                         .demand = {.min_gpus = 2, .max_gpus = 2},
                         .started_ms = 1000,
                         .saved_ms = 5000,
                         .attained_gpu_ms = 50};

    (void)state;
    assert_int_equal(workload_lost_gpu_ms(&w, 6000), 2 * 5000);
    w.can_checkpoint = true;
    assert_int_equal(workload_lost_gpu_ms(&w, 6000), 2 * 1000);
    assert_int_equal(workload_attained(&w, 6000), 50 + 2 * 5000);
    w.phase = PHASE_PREEMPTED;
    assert_int_equal(workload_attained(&w, 6000), 50);
    w.phase = PHASE_STARTING;
    w.started_ms = w.saved_ms = 0;
    assert_int_equal(workload_attained(&w, 6000), 50);
    assert_int_equal(workload_lost_gpu_ms(&w, 6000), 0);
    w.phase = PHASE_STOPPING; /* asked before it ran */
    assert_int_equal(workload_attained(&w, 6000), 50);
}

static void test_a_measured_peak_still_fits_the_largest_card(void **state)
{
    (void)state;
    assert_int_equal(demand_measured_mib(1000, 24576), 1000 + 50 + 64);
    assert_int_equal(demand_measured_mib(24000, 24576), 24576);
    assert_int_equal(demand_measured_mib(30000, 24576), 30000);
    assert_int_equal(demand_measured_mib(INT64_MAX / 2, 24576), UINT32_MAX);
}

static void test_absurd_numbers_of_gpus_are_cut_not_wrapped(void **state)
{
    (void)state;
    assert_int_equal(demand_gpus(4), 4);
    assert_int_equal(demand_gpus(-1), 0);
    assert_int_equal(demand_gpus(4294967295), DEMAND_GPUS_MAX);
    assert_int_equal(demand_gpus((int64_t)1 << 40), DEMAND_GPUS_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_measured_peak_still_fits_the_largest_card),
        cmocka_unit_test(test_absurd_numbers_of_gpus_are_cut_not_wrapped),
        cmocka_unit_test(test_priority_text_is_read_as_the_guide_says),
        cmocka_unit_test(test_a_share_counts_as_its_fraction_rounded_up),
        cmocka_unit_test(test_faults_of_demands_are_named),
        cmocka_unit_test(test_only_the_last_epoch_is_the_last),
        cmocka_unit_test(test_a_stop_loses_what_came_after_the_last_checkpoint),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
