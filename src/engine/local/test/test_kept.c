#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/test/test.h"
#include "engine/local/kept.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRY "2026-01-01T00:00:00.000000000Z stdout "

static char dir[64], logs[128], folder[128];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/kept.XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(logs, sizeof(logs), "%s/pod", dir);
    snprintf(folder, sizeof(folder), "%s/kept", dir);
    return mkdir(logs, 0700) < 0 || mkdir(folder, 0700) < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    CLEANUP(free) char *command = mem_printf("rm -rf '%s'", dir);

    (void)state;
    return system(command);
}

static void write_at(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void write_log(const char *container, const char *file, const char *text)
{
    CLEANUP(free) char *above = mem_printf("%s/%s", logs, container);
    CLEANUP(free) char *path = mem_printf("%s/%s", above, file);

    mkdir(above, 0700);
    write_at(path, text);
}

static void add(const char *uid, int64_t bytes_max)
{
    static const char *const containers[] = {"a", "b", NULL};
    struct kept_pod pod = {.folder = folder,
                           .name = "job",
                           .uid = uid,
                           .logs = logs,
                           .containers = containers,
                           .bytes_max = bytes_max};
    struct err err = {0};

    assert_int_equal(kept_add(&pod, &err), 0);
}

static void check(const char *name, const char *expected)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", folder, name);
    CLEANUP(buf_done) struct buf text = {0};

    assert_int_equal(file_read(path, 1 << 20, &text, NULL), 0);
    assert_string_equal(text.data ? text.data : "", expected);
}

static void test_the_newest_run_of_each_container_is_added_as_text(void **state)
{
    (void)state;
    write_log("a", "0.log", ENTRY "F old\n");
    write_log("a", "1.log.1", ENTRY "F first\n");
    write_log("a", "1.log", ENTRY "P sec\n" ENTRY "F ond\n");
    write_log("b", "0.log", ENTRY "F other\n");
    add("u1", 0);
    check("job.log", "first\nsecond\nother\n");
}

static void test_each_pod_is_in_it_once(void **state)
{
    (void)state;
    write_log("a", "0.log", ENTRY "F one\n");
    add("u1", 0);
    add("u1", 0);
    check("job.log", "one\n");
    add("u2", 0);
    add("u1", 0);
    add("u2", 0);
    check("job.log", "one\none\n");
}

static void test_a_copy_that_was_cut_off_is_begun_again(void **state)
{
    CLEANUP(free) char *log = mem_printf("%s/job.log", folder), *runs = mem_printf("%s/job.runs", folder);

    (void)state;
    write_log("a", "0.log", ENTRY "F whole\n");
    write_at(log, "before\nwh");
    write_at(runs, "u0 0 7\nu1 7\n");
    add("u1", 0);
    check("job.log", "before\nwhole\n");
}

static void test_past_its_limit_the_beginning_goes(void **state)
{
    (void)state;
    write_log("a", "0.log", ENTRY "F 0123456789\n" ENTRY "F 0123456789\n" ENTRY "F 0123456789\n");
    add("u1", 40);
    check("job.log", "0123456789\n0123456789\n0123456789\n");
    write_log("a", "0.log", ENTRY "F the end\n");
    add("u2", 40);
    check("job.log", "[earlier output was removed]\n0123456789\nthe end\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_newest_run_of_each_container_is_added_as_text, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_each_pod_is_in_it_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_copy_that_was_cut_off_is_begun_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_past_its_limit_the_beginning_goes, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
