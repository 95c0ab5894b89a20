/* The container log: framing, rotation, and what happens when it cannot be written. */
#include "base/test/test.h"
#include "shim/shim.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define NOW INT64_C(1767323045123456789) /* 2026-01-02T03:04:05.123456789Z */

static struct shim_log log_;
static char folder[] = "/tmp/berth-log-XXXXXX";
static char path[64];

static int set_up(void **state)
{
    (void)state;
    strcpy(folder + strlen(folder) - 6, "XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/log", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        char name[80];

        snprintf(name, sizeof(name), i ? "%s.%d" : "%s", path, i);
        unlink(name);
    }
    return rmdir(folder);
}

static size_t slurp(const char *name, char *ret, size_t size)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, ret, size - 1);

    if (fd >= 0)
        close(fd);
    ret[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

/* Takes the entries of a file apart again; returns the bytes of output. */
static size_t unframe(const char *name, char *ret)
{
    static char text[1 << 20];
    size_t len = slurp(name, text, sizeof(text)), got = 0;
    const char *at = text, *end = text + len;

    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));

        assert_non_null(line_end);
        assert_true(line_end - at >= 40);
        assert_memory_equal(at, "2026-01-02T03:04:05.123456789Z std", 34);
        assert_true(at[38] == 'F' || at[38] == 'P');
        memcpy(ret + got, at + 40, (size_t)(line_end - at) - 40);
        got += (size_t)(line_end - at) - 40;
        if (at[38] == 'F')
            ret[got++] = '\n';
        at = line_end + 1;
    }
    return got;
}

static void test_lines_are_F_and_unfinished_ones_P(void **state)
{
    char text[1024];

    (void)state;
    log_open(&log_, path, 0, 0);
    log_add(&log_, "stdout", "one\ntw", 6, NOW);
    log_add(&log_, "stderr", "o\n\n", 3, NOW);
    log_close(&log_);
    slurp(path, text, sizeof(text));
    assert_string_equal(text, "2026-01-02T03:04:05.123456789Z stdout F one\n"
                              "2026-01-02T03:04:05.123456789Z stdout P tw\n"
                              "2026-01-02T03:04:05.123456789Z stderr F o\n"
                              "2026-01-02T03:04:05.123456789Z stderr F \n");
}

static void test_dates_are_right(void **state)
{
    static const struct {
        int64_t second;
        const char *text;
    } dates[] = {
        {0, "1970-01-01T00:00:00."},          {951782399, "2000-02-28T23:59:59."},
        {951782400, "2000-02-29T00:00:00."},  {4107542399, "2100-02-28T23:59:59."},
        {4107542400, "2100-03-01T00:00:00."}, {1798761599, "2026-12-31T23:59:59."},
    };
    char text[128];

    (void)state;
    for (size_t i = 0; i < sizeof(dates) / sizeof(dates[0]); i++) {
        unlink(path);
        log_open(&log_, path, 0, 0);
        log_add(&log_, "stdout", "x\n", 2, dates[i].second * 1000000000);
        log_close(&log_);
        slurp(path, text, sizeof(text));
        text[20] = '\0';
        assert_string_equal(text, dates[i].text);
    }
}

static void test_any_bytes_come_back_as_they_went_in(void **state)
{
    static char data[SHIM_CHUNK], back[SHIM_CHUNK * 2];

    (void)state;
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (char)(i * 7 + i / 256);
    log_open(&log_, path, 0, 0);
    log_add(&log_, "stdout", data, sizeof(data), NOW);
    log_close(&log_);
    assert_int_equal(unframe(path, back), sizeof(data));
    assert_memory_equal(back, data, sizeof(data));
}

static void test_a_chunk_of_newlines_fits(void **state)
{
    static char data[SHIM_CHUNK], back[SHIM_CHUNK * 2];

    (void)state;
    memset(data, '\n', sizeof(data));
    log_open(&log_, path, 0, 0);
    log_add(&log_, "stdout", data, sizeof(data), NOW);
    log_close(&log_);
    assert_int_equal(unframe(path, back), sizeof(data));
}

static void test_rotation_keeps_every_byte_in_order(void **state)
{
    static char back[1 << 16], all[1 << 16];
    size_t sent = 0, got = 0;

    (void)state;
    log_open(&log_, path, 1000, 50);
    for (int i = 0; i < 200; i++) {
        int n = snprintf(all + sent, 64, "line number %d of the output\n%s", i, i % 3 ? "" : "and a bit");

        log_add(&log_, "stdout", all + sent, (size_t)n, NOW);
        sent += (size_t)n;
    }
    log_close(&log_);
    for (int i = 49; i >= 0; i--) {
        char name[80];
        static char text[65536];

        snprintf(name, sizeof(name), i ? "%s.%d" : "%s", path, i);
        assert_true(slurp(name, text, sizeof(text)) <= 1000);
        got += unframe(name, back + got);
    }
    assert_int_equal(got, sent);
    assert_memory_equal(back, all, sent);
}

static void test_rotation_keeps_as_many_files_as_it_may(void **state)
{
    char name[80];

    (void)state;
    log_open(&log_, path, 100, 3);
    for (int i = 0; i < 100; i++)
        log_add(&log_, "stdout", "some text\n", 10, NOW);
    log_close(&log_);
    snprintf(name, sizeof(name), "%s.2", path);
    assert_int_equal(access(name, F_OK), 0);
    snprintf(name, sizeof(name), "%s.3", path);
    assert_int_equal(access(name, F_OK), -1);
}

static void test_a_full_disk_drops_counts_and_tells(void **state)
{
    struct rlimit old, small = {200, 0};
    static char text[4096];

    (void)state;
    getrlimit(RLIMIT_FSIZE, &old);
    small.rlim_max = old.rlim_max;
    signal(SIGXFSZ, SIG_IGN); /* writes beyond the limit fail with EFBIG, as they do with ENOSPC */
    log_open(&log_, path, 0, 0);
    log_add(&log_, "stdout", "fits\n", 5, NOW);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 10; i++)
        log_add(&log_, "stdout", "0123456789012345678901234567890123456789012345678\n", 50, NOW);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    log_add(&log_, "stdout", "again\n", 6, NOW);
    log_close(&log_);
    assert_true(log_.dropped > 0 && log_.dropped % 50 == 0);
    slurp(path, text, sizeof(text));
    assert_non_null(strstr(text, "stdout F fits\n"));
    assert_non_null(strstr(text, " bytes of output dropped: "));
    assert_non_null(strstr(text, "stdout F again\n"));
    for (const char *line = text; *line; line = strchr(line, '\n') + 1)
        assert_memory_equal(line, "2026-01-02T", 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lines_are_F_and_unfinished_ones_P, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dates_are_right, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_any_bytes_come_back_as_they_went_in, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_chunk_of_newlines_fits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rotation_keeps_every_byte_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rotation_keeps_as_many_files_as_it_may, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_full_disk_drops_counts_and_tells, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
