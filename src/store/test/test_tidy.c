/* What leaves the file: old records, then details before jobs, then free pages; commits go on meanwhile. */
#include "base/clock.h"
#include "base/mem.h"
#include "store_util.h"

#include <sqlite3.h>
#include <sys/stat.h>

static bool count_record(void *arg, const struct record *record)
{
    (void)record;
    ++*(size_t *)arg;
    return true;
}

static size_t count(struct fixture *f, enum record_type type)
{
    struct record_query query = {.type = type};
    size_t n = 0;

    assert_int_equal(store_records(f->store, &query, count_record, &n, NULL), 0);
    return n;
}

static void add(struct fixture *f, enum record_type type, int records, int64_t time_ms)
{
    CLEANUP(free) char *text = mem_zalloc(1000);

    memset(text, 'x', 999);
    for (int i = 0; i < records; i++)
        store_record(f->store, &(struct record){.type = type,
                                                .time_ms = time_ms + i,
                                                .until_ms = type == RECORD_SPAN && i % 2 ? time_ms : 0,
                                                .doc = {text, 999}});
    settle(f);
}

/* Until no more of them go, or those that are wanted are left. */
static void tidy(struct fixture *f, struct store_limits limits, enum record_type type, size_t wanted)
{
    int64_t end = clock_monotonic() + 60 * NSEC_PER_SEC;

    store_tidy(f->store, &limits);
    while (count(f, type) != wanted && clock_monotonic() < end)
        loop_turn(f->loop, 1, NULL);
    assert_int_equal(count(f, type), wanted);
}

static void test_old_records_go_and_new_ones_stay(void **state)
{
    struct fixture *f = *state;

    add(f, RECORD_METRIC, 1000, 1000);
    add(f, RECORD_JOB, 500, 1000);
    add(f, RECORD_METRIC, 10, 100000);
    tidy(f, (struct store_limits){.records_before_ms = 1900}, RECORD_METRIC, 110);
    tidy(f, (struct store_limits){.records_before_ms = 100000}, RECORD_METRIC, 10);
    tidy(f, (struct store_limits){.records_before_ms = 100000}, RECORD_JOB, 0);
}

static void test_spans_that_are_open_stay(void **state)
{
    struct fixture *f = *state;

    add(f, RECORD_SPAN, 100, 1000);
    tidy(f, (struct store_limits){.records_before_ms = 100000}, RECORD_SPAN, 50);
}

static void test_where_nothing_fits_all_go(void **state)
{
    struct fixture *f = *state;

    add(f, RECORD_JOB, 500, 1000);
    add(f, RECORD_METRIC, 1000, 1000);
    tidy(f, (struct store_limits){.bytes_max = 1}, RECORD_JOB, 0);
    assert_int_equal(count(f, RECORD_METRIC), 0);
}

static void test_details_go_before_jobs(void **state)
{
    struct fixture *f = *state;
    int64_t end = clock_monotonic() + 60 * NSEC_PER_SEC;

    add(f, RECORD_JOB, 500, 1000);
    add(f, RECORD_EPOCH, 3000, 1000);
    store_tidy(f->store, &(struct store_limits){.bytes_max = 2 << 20});
    while (count(f, RECORD_EPOCH) > 1600 && clock_monotonic() < end)
        loop_turn(f->loop, 1, NULL);
    fixture_reopen(f); /* ends after the step at hand */
    assert_in_range(count(f, RECORD_EPOCH), 1, 1600);
    assert_int_equal(count(f, RECORD_JOB), 500);
}

static int64_t file_bytes(struct fixture *f)
{
    struct stat st;

    assert_int_equal(stat(f->path, &st), 0);
    return st.st_size;
}

static void test_the_file_gets_shorter_while_writes_go_on(void **state)
{
    struct fixture *f = *state;
    int64_t full, end = clock_monotonic() + 60 * NSEC_PER_SEC;

    add(f, RECORD_METRIC, 20000, 1000);
    fixture_reopen(f); /* all of the log is in the file */
    full = file_bytes(f);
    assert_true(full > 20 << 20);
    store_tidy(f->store, &(struct store_limits){.records_before_ms = 1000000});
    for (int i = 0; file_bytes(f) > full / 4 && clock_monotonic() < end; i++) {
        put(f, "a", i % 2 ? "one" : "two"); /* each is durable before the next */
        settle(f);
    }
    assert_true(file_bytes(f) <= full / 4);
    assert_int_equal(store_count(f->store, KIND_CONFIG_MAP, "a"), 2);
    fixture_reopen(f);
    assert_int_equal(store_count(f->store, KIND_CONFIG_MAP, "a"), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_old_records_go_and_new_ones_stay, fixture_setup,
                                        fixture_teardown),
        cmocka_unit_test_setup_teardown(test_spans_that_are_open_stay, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_where_nothing_fits_all_go, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_details_go_before_jobs, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_the_file_gets_shorter_while_writes_go_on, fixture_setup,
                                        fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
