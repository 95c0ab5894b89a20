#include "base/test/test.h"
#include "domain/lifecycle.h"

static void test_nothing_leads_out_of_an_end(void **state)
{
    enum phase next;

    (void)state;
    for (int p = 0; p < PHASES; p++)
        for (int c = 0; c < CHANGES; c++)
            if (phase_is_over((enum phase)p))
                assert_false(lifecycle_next((enum phase)p, (enum change)c, &next));
}

static void test_every_phase_is_waiting_holding_or_over(void **state)
{
    (void)state;
    for (int i = 0; i < PHASES; i++) {
        enum phase p = (enum phase)i;

        assert_int_equal(phase_is_over(p) + phase_is_waiting(p) + phase_holds(p), 1);
        assert_non_null(phase_name(p));
    }
    for (int i = 0; i < CHANGES; i++)
        assert_non_null(change_name((enum change)i));
}

static void test_everything_that_is_not_over_can_be_cancelled(void **state)
{
    (void)state;
    for (int i = 0; i < PHASES; i++) {
        enum phase next = PHASE_PENDING;

        if (!phase_is_over((enum phase)i)) {
            assert_true(lifecycle_next((enum phase)i, CHANGE_CANCEL, &next));
            assert_int_equal(next, PHASE_CANCELLED);
        }
    }
}

static void test_a_preempted_job_runs_again(void **state)
{
    enum phase p = PHASE_PENDING;

    (void)state;
    assert_false(lifecycle_next(p, CHANGE_START, &p));
    assert_true(lifecycle_next(p, CHANGE_PLACE, &p));
    assert_true(lifecycle_next(p, CHANGE_START, &p));
    assert_true(lifecycle_next(p, CHANGE_ASK_STOP, &p));
    assert_false(lifecycle_next(p, CHANGE_PLACE, &p));
    assert_true(lifecycle_next(p, CHANGE_STOPPED, &p));
    assert_int_equal(p, PHASE_PREEMPTED);
    assert_true(lifecycle_next(p, CHANGE_PLACE, &p));
    assert_true(lifecycle_next(p, CHANGE_START, &p));
    assert_true(lifecycle_next(p, CHANGE_SUCCEED, &p));
    assert_int_equal(p, PHASE_SUCCEEDED);
}

static void test_what_cannot_be_started_waits_again(void **state)
{
    enum phase p = PHASE_STARTING;

    (void)state;
    assert_true(phase_holds(p));
    assert_true(lifecycle_next(p, CHANGE_GIVE_BACK, &p));
    assert_int_equal(p, PHASE_PENDING);
}

static void test_a_stop_before_it_ran_can_be_withdrawn(void **state)
{
    enum phase p = PHASE_STARTING;

    (void)state;
    assert_true(lifecycle_next(p, CHANGE_ASK_STOP, &p));
    assert_int_equal(p, PHASE_STOPPING);
    assert_true(lifecycle_next(p, CHANGE_UNASK_EARLY, &p));
    assert_int_equal(p, PHASE_STARTING);
}

static void test_every_phase_is_found_by_its_name_and_old_names_are_known(void **state)
{
    enum phase found = PHASES;

    (void)state;
    for (int i = 0; i < PHASES; i++) {
        assert_true(phase_find(phase_name((enum phase)i), &found));
        assert_int_equal(found, i);
    }
    assert_true(phase_find("Preempting", &found));
    assert_int_equal(found, PHASE_STOPPING);
    assert_false(phase_find("Sleeping", &found));
    assert_false(phase_find(NULL, &found));
}

static void test_status_0_with_a_stop_outstanding_is_a_preemption(void **state)
{
    (void)state;
    assert_int_equal(lifecycle_exit(true, 0, 3, 10, false), CHANGE_STOPPED);
    assert_int_equal(lifecycle_exit(true, 143, 3, 10, false), CHANGE_STOPPED);
    assert_int_equal(lifecycle_exit(true, 0, 10, 10, false), CHANGE_SUCCEED);
    assert_int_equal(lifecycle_exit(false, 0, 3, 10, false), CHANGE_SUCCEED);
    assert_int_equal(lifecycle_exit(false, 1, 3, 10, true), CHANGE_RETRY);
    assert_int_equal(lifecycle_exit(false, 1, 3, 10, false), CHANGE_FAIL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_leads_out_of_an_end),
        cmocka_unit_test(test_every_phase_is_waiting_holding_or_over),
        cmocka_unit_test(test_everything_that_is_not_over_can_be_cancelled),
        cmocka_unit_test(test_a_preempted_job_runs_again),
        cmocka_unit_test(test_what_cannot_be_started_waits_again),
        cmocka_unit_test(test_a_stop_before_it_ran_can_be_withdrawn),
        cmocka_unit_test(test_every_phase_is_found_by_its_name_and_old_names_are_known),
        cmocka_unit_test(test_status_0_with_a_stop_outstanding_is_a_preemption),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
