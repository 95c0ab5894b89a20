/* The store on a disk in memory: what is committed when, and what a kill leaves. */
#include "base/buf.h"
#include "base/clock.h"
#include "store/disk.h"
#include "store_util.h"

static struct clock_virtual virtual_time;

struct lab {
    struct fixture f; /* without folder */
    struct store_disk *disk;
    struct buf log;
};

static void lab_open(struct lab *lab)
{
    struct err err = {0};

    if (store_open_disk(lab->disk, lab->f.loop, &lab->f.store, &err) < 0)
        fail_msg("%s", err.msg);
}

static int setup(void **state)
{
    struct lab *lab = calloc(1, sizeof(*lab));

    virtual_time = (struct clock_virtual){1000 * NSEC_PER_SEC, 1000 * NSEC_PER_SEC};
    clock_use(&virtual_time);
    lab->f.loop = loop_new();
    loop_use_clock(lab->f.loop, &virtual_time);
    lab->disk = store_disk_new();
    lab_open(lab);
    *state = lab;
    return 0;
}

static int teardown(void **state)
{
    struct lab *lab = *state;

    store_close(lab->f.store);
    loop_turn(lab->f.loop, 0, NULL);
    loop_free(lab->f.loop);
    store_disk_free(lab->disk);
    clock_use(NULL);
    buf_done(&lab->log);
    free(lab);
    return 0;
}

static void note_answer(void *arg, const struct err *err)
{
    buf_puts(arg, err ? "lost " : "kept ");
}

static bool count_record(void *arg, const struct record *record)
{
    (void)record;
    ++*(int *)arg;
    return true;
}

static int records(struct lab *lab)
{
    struct record_query query = {.type = RECORD_JOB};
    int count = 0;

    assert_int_equal(store_records(lab->f.store, &query, count_record, &count, NULL), 0);
    return count;
}

static void test_a_turn_is_committed_at_its_end(void **state)
{
    struct lab *lab = *state;

    put(&lab->f, "a", "x");
    assert_false(store_durable(lab->f.store));
    assert_int_equal(loop_turn(lab->f.loop, 0, NULL), 0);
    assert_true(store_durable(lab->f.store));
    assert_int_equal(store_disk_commits(lab->disk), 1);
    assert_int_equal(virtual_time.monotonic, 1000 * NSEC_PER_SEC);
}

static void test_a_kill_keeps_what_was_committed_and_nothing_else(void **state)
{
    struct lab *lab = *state;

    put(&lab->f, "a", "kept");
    store_value_set(lab->f.store, "t", "k", STR("1"));
    store_record(lab->f.store, &(struct record){.type = RECORD_JOB, .job = "j", .time_ms = 1});
    settle(&lab->f);
    put(&lab->f, "a", "lost");
    store_value_set(lab->f.store, "t", "k", STR("2"));
    store_record(lab->f.store, &(struct record){.type = RECORD_JOB, .job = "j", .time_ms = 2});
    store_defer(lab->f.store, note_answer, &lab->log);
    store_kill(lab->f.store);
    assert_string_equal(lab->log.data, "lost ");
    lab_open(lab);
    assert_non_null(store_get(lab->f.store, KIND_CONFIG_MAP, "a", "kept"));
    assert_null(store_get(lab->f.store, KIND_CONFIG_MAP, "a", "lost"));
    assert_true(str_eq(store_value(lab->f.store, "t", "k"), STR("1")));
    assert_int_equal(records(lab), 1);
}

static void test_a_slow_disk_commits_after_its_latency(void **state)
{
    struct lab *lab = *state;

    store_disk_set_latency(lab->disk, 20);
    put(&lab->f, "a", "x");
    store_defer(lab->f.store, note_answer, &lab->log);
    assert_int_equal(loop_turn(lab->f.loop, 0, NULL), 0);
    assert_int_equal(loop_turn(lab->f.loop, 19, NULL), 0);
    assert_null(lab->log.data);
    assert_int_equal(loop_turn(lab->f.loop, 19, NULL), 0);
    assert_string_equal(lab->log.data, "kept ");
    assert_int_equal(virtual_time.monotonic, 1000 * NSEC_PER_SEC + 20 * NSEC_PER_MSEC);
}

static const char *durable_names(struct lab *lab, const char *ns, struct buf *text)
{
    CLEANUP(arena_done) struct arena arena = {0};

    buf_clear(text);
    buf_puts(text, "");
    OBJECTS_EACH(store_list_durable(lab->f.store, KIND_CONFIG_MAP, ns, &arena), it)
        buf_printf(text, "%s/%s@%lld ", (*it)->ns, (*it)->name, (long long)(*it)->rv);
    return text->data;
}

static void test_the_durable_state_is_that_without_what_is_on_its_way(void **state)
{
    struct lab *lab = *state;
    CLEANUP(buf_done) struct buf text = {0};

    put(&lab->f, "a", "gone");
    put(&lab->f, "a", "kept");
    put(&lab->f, "b", "same");
    settle(&lab->f);
    assert_string_equal(durable_names(lab, NULL, &text), "a/gone@1 a/kept@2 b/same@3 ");
    store_disk_set_latency(lab->disk, 1000);
    put(&lab->f, "a", "kept");
    put(&lab->f, "a", "kept");
    drop(&lab->f, "a", "gone");
    put(&lab->f, "a", "new");
    put(&lab->f, "a", "brief");
    drop(&lab->f, "a", "brief");
    drop(&lab->f, "b", "same");
    put(&lab->f, "b", "same");
    assert_int_equal(loop_turn(lab->f.loop, 0, NULL), 0);
    assert_string_equal(durable_names(lab, NULL, &text), "a/gone@1 a/kept@2 b/same@3 ");
    assert_string_equal(durable_names(lab, "a", &text), "a/gone@1 a/kept@2 ");
    assert_int_equal(store_durable_revision(lab->f.store), 3);
    assert_int_equal(store_get_durable(lab->f.store, KIND_CONFIG_MAP, "a", "kept")->rv, 2);
    assert_int_equal(store_get_durable(lab->f.store, KIND_CONFIG_MAP, "b", "same")->rv, 3);
    assert_non_null(store_get_durable(lab->f.store, KIND_CONFIG_MAP, "a", "gone"));
    assert_null(store_get_durable(lab->f.store, KIND_CONFIG_MAP, "a", "new"));
    settle(&lab->f);
    assert_string_equal(durable_names(lab, NULL, &text), "a/kept@5 a/new@7 b/same@11 ");
    assert_int_equal(store_durable_revision(lab->f.store), 11);
}

static void note_first(void *arg, const struct err *err)
{
    (void)err;
    buf_puts(arg, "first ");
}

static void note_second(void *arg, const struct err *err)
{
    (void)err;
    buf_puts(arg, "second ");
}

static void test_what_needs_less_does_not_wait_for_more(void **state)
{
    struct lab *lab = *state;
    uint64_t before = store_mark(lab->f.store), mark;

    store_disk_set_latency(lab->disk, 1000);
    put(&lab->f, "a", "x");
    mark = store_mark(lab->f.store);
    put(&lab->f, "a", "y");
    store_defer(lab->f.store, note_second, &lab->log);
    store_defer_until(lab->f.store, mark, note_first, &lab->log);
    assert_null(lab->log.data);
    store_defer_until(lab->f.store, before, note_answer, &lab->log);
    assert_string_equal(lab->log.data, "kept ");
    settle(&lab->f);
    assert_string_equal(lab->log.data, "kept first second ");
}

static void test_a_failed_commit_is_undone(void **state)
{
    struct lab *lab = *state;

    store_disk_fail(lab->disk, 1);
    put(&lab->f, "a", "x");
    store_defer(lab->f.store, note_answer, &lab->log);
    settle(&lab->f);
    assert_null(store_get(lab->f.store, KIND_CONFIG_MAP, "a", "x"));
    put(&lab->f, "a", "y");
    store_defer(lab->f.store, note_answer, &lab->log);
    settle(&lab->f);
    assert_non_null(store_get(lab->f.store, KIND_CONFIG_MAP, "a", "y"));
    assert_string_equal(lab->log.data, "lost kept ");
}

static void test_after_a_stop_nothing_comes_back(void **state)
{
    struct lab *lab = *state;

    store_disk_stop_after(lab->disk, 1);
    put(&lab->f, "a", "kept");
    assert_int_equal(loop_turn(lab->f.loop, 0, NULL), 0);
    assert_true(store_disk_stopped(lab->disk));
    put(&lab->f, "a", "lost");
    store_defer(lab->f.store, note_answer, &lab->log);
    assert_int_equal(loop_turn(lab->f.loop, 1000, NULL), 0);
    assert_int_equal(loop_turn(lab->f.loop, 1000, NULL), 0);
    assert_null(lab->log.data);
    store_kill(lab->f.store);
    lab_open(lab);
    assert_false(store_disk_stopped(lab->disk));
    assert_non_null(store_get(lab->f.store, KIND_CONFIG_MAP, "a", "kept"));
    assert_null(store_get(lab->f.store, KIND_CONFIG_MAP, "a", "lost"));
}

static void test_the_window_survives_a_kill(void **state)
{
    struct lab *lab = *state;
    int64_t newest;

    for (int i = 0; i < 2000; i++)
        put(&lab->f, "a", "x");
    settle(&lab->f);
    put(&lab->f, "a", "y");
    settle(&lab->f);
    newest = store_revision(lab->f.store);
    store_kill(lab->f.store);
    lab_open(lab);
    assert_int_equal(store_revision(lab->f.store), newest);
    assert_int_equal(store_count(lab->f.store, KIND_CONFIG_MAP, NULL), 2);
}

static void test_what_waits_and_what_failed_is_told(void **state)
{
    struct lab *lab = *state;
    struct store_stats stats;

    store_disk_set_latency(lab->disk, 20000);
    put(&lab->f, "a", "x");
    assert_int_equal(loop_turn(lab->f.loop, 0, NULL), 0);
    virtual_time.monotonic += 12 * NSEC_PER_SEC;
    store_stats(lab->f.store, &stats);
    assert_int_equal(stats.waiting_ns, 12 * NSEC_PER_SEC);
    settle(&lab->f);
    store_stats(lab->f.store, &stats);
    assert_int_equal(stats.waiting_ns, 0);
    assert_int_equal(stats.commit.count, 1);
    store_disk_set_latency(lab->disk, 0);
    store_disk_fail(lab->disk, 1);
    put(&lab->f, "a", "y");
    settle(&lab->f);
    store_stats(lab->f.store, &stats);
    assert_non_null(stats.trouble);
    assert_int_equal(stats.failed_commits, 1);
    assert_int_equal(stats.trouble_at, virtual_time.now);
    put(&lab->f, "a", "z");
    settle(&lab->f);
    store_stats(lab->f.store, &stats);
    assert_null(stats.trouble);
    assert_int_equal(stats.failed_commits, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        TEST(test_a_turn_is_committed_at_its_end),
        TEST(test_a_kill_keeps_what_was_committed_and_nothing_else),
        TEST(test_a_slow_disk_commits_after_its_latency),
        TEST(test_the_durable_state_is_that_without_what_is_on_its_way),
        TEST(test_what_needs_less_does_not_wait_for_more),
        TEST(test_a_failed_commit_is_undone),
        TEST(test_after_a_stop_nothing_comes_back),
        TEST(test_the_window_survives_a_kill),
        TEST(test_what_waits_and_what_failed_is_told),
    };

    return cmocka_run_group_tests_name("disk", tests, NULL, NULL);
}
