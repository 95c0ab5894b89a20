/* Kept logs at rest: compressed when their job is over, each line once, also over kills; removed by age and
 * size. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/test/test.h"
#include "engine/packed.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOW (INT64_C(2000000000) * NSEC_PER_SEC)

static char folder[64];

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/packed.XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
    CLEANUP(free) char *command = mem_printf("rm -rf '%s'", folder);

    (void)state;
    return system(command);
}

static void write_file(const char *name, const char *text, int64_t age_sec)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    struct timespec times[2] = {{NOW / NSEC_PER_SEC - age_sec, 0}, {NOW / NSEC_PER_SEC - age_sec, 0}};

    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    assert_int_equal(futimens(fd, times), 0);
    close(fd);
}

static bool there(const char *name)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", folder, name);

    return access(path, F_OK) == 0;
}

static bool is_alive(void *arg, const char *name)
{
    return arg && streq(arg, name);
}

static struct packed_totals tidy(int64_t sec, int64_t bytes, const char *alive)
{
    struct packed_rules rules = {
        .now = NOW, .sec = sec, .bytes = bytes, .alive = is_alive, .arg = (void *)alive};
    struct packed_totals totals;

    packed_tidy(folder, &rules, &totals);
    return totals;
}

static void assert_reads(const char *name, const char *expected)
{
    char text[4096] = "";
    struct err err = {0};
    int fd = -1;

    if (packed_open(folder, name, &fd, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(read(fd, text, sizeof(text) - 1) >= 0);
    assert_string_equal(text, expected);
    close(fd);
}

static void test_a_log_is_compressed_when_its_job_is_over(void **state)
{
    (void)state;
    write_file("a.log", "one\ntwo\n", PACKED_AFTER_SEC);
    write_file("a.runs", "u 0 8\n", 0);
    write_file("b.log", "runs\n", PACKED_AFTER_SEC);
    write_file("c.log", "new\n", PACKED_AFTER_SEC - 1);
    assert_int_equal(tidy(0, 0, "b").packed, 1);
    assert_true(there("a.gz") && !there("a.log") && !there("a.pack"));
    assert_true(there("b.log") && there("c.log"));
    assert_true(packed_is(folder, "a") && !packed_is(folder, "b"));
    assert_reads("a", "one\ntwo\n");
    assert_reads("b", "runs\n");
    assert_int_equal(tidy(0, 0, "b").packed, 0);
}

static void test_what_is_added_later_comes_after_it(void **state)
{
    (void)state;
    write_file("a.log", "one\n", PACKED_AFTER_SEC);
    tidy(0, 0, NULL);
    write_file("a.log", "two\n", PACKED_AFTER_SEC);
    assert_reads("a", "one\ntwo\n");
    assert_int_equal(tidy(0, 0, NULL).packed, 0);
    assert_reads("a", "one\ntwo\n");
}

static void test_a_kill_at_any_point_leaves_each_line_once(void **state)
{
    CLEANUP(free) char *gz = mem_printf("%s/a.gz", folder), *other = mem_printf("%s/x.gz", folder);

    (void)state;
    write_file("a.pack", "one\n", 9999); /* renamed, and killed */
    write_file("a.gz.new", "half of", 9999);
    assert_reads("a", "one\n");
    assert_int_equal(tidy(0, 0, NULL).packed, 1);
    assert_reads("a", "one\n");
    write_file("a.pack", "one\n", 9999); /* compressed, and killed before the other was removed */
    assert_reads("a", "one\n");
    tidy(0, 0, NULL);
    assert_true(!there("a.pack"));
    assert_reads("a", "one\n");
    assert_int_equal(rename(gz, other), 0);
    assert_reads("x", "one\n");
}

static void test_a_copy_that_was_cut_off_is_left_alone(void **state)
{
    (void)state;
    write_file("a.log", "one\ntw", 9999);
    write_file("a.runs", "u0 0 4\nu1 4\n", 9999);
    assert_int_equal(tidy(0, 0, NULL).packed, 0);
    write_file("a.runs", "u0 0 4\nu1 4\nu1 4 8\n", 9999);
    assert_int_equal(tidy(0, 0, NULL).packed, 1);
}

static void test_what_is_old_or_too_much_goes_but_for_live_work(void **state)
{
    struct packed_totals totals;

    (void)state;
    write_file("old.gz", "0", 5000);
    write_file("old.runs", "u 0 1\n", 5000);
    write_file("large.gz", "0123456789", 300);
    write_file("live.log", "0123456789", 9000);
    write_file("new.log", "1", 1);
    totals = tidy(4000, 0, "live");
    assert_int_equal(totals.removed, 1);
    assert_int_equal(totals.count, 3);
    assert_int_equal(totals.bytes, 21);
    assert_true(!there("old.gz") && !there("old.runs") && there("large.gz") && there("live.log"));
    totals = tidy(4000, 15, "live");
    assert_true(!there("large.gz") && there("live.log") && there("new.log"));
    assert_int_equal(totals.bytes, 11);
}

static void test_whoever_waits_for_a_lock_that_is_removed_gets_the_new_one(void **state)
{
    CLEANUP(free) char *runs = mem_printf("%s/a.runs", folder);
    int first = packed_lock(folder, "a", true, NULL), second;
    struct stat st;

    (void)state;
    assert_true(first >= 0);
    assert_int_equal(packed_lock(folder, "a", false, NULL), -1);
    unlink(runs);
    second = packed_lock(folder, "a", false, NULL);
    assert_true(second >= 0);
    assert_int_equal(fstat(second, &st), 0);
    assert_int_equal(st.st_nlink, 1);
    close(first);
    close(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_log_is_compressed_when_its_job_is_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_added_later_comes_after_it, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_kill_at_any_point_leaves_each_line_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_copy_that_was_cut_off_is_left_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_old_or_too_much_goes_but_for_live_work, setup, teardown),
        cmocka_unit_test_setup_teardown(test_whoever_waits_for_a_lock_that_is_removed_gets_the_new_one, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
