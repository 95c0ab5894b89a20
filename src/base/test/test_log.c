#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/test/test.h"

#include <errno.h>
#include <fcntl.h>

#define LOG_MODULE "test"

static char out[65536];

/* What is written to stderr between these two. */
static int pipe_fds[2], saved_stderr;

static void capture(void)
{
    assert_int_equal(pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK), 0);
    saved_stderr = dup(STDERR_FILENO);
    dup2(pipe_fds[1], STDERR_FILENO);
}

static const char *captured(void)
{
    ssize_t n = read(pipe_fds[0], out, sizeof(out) - 1);

    out[n > 0 ? n : 0] = '\0';
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    return out;
}

static void test_line_has_time_level_and_module(void **state)
{
    struct str line, part;
    int64_t t;

    (void)state;
    unsetenv("JOURNAL_STREAM");
    capture();
    errno = ENOSPC;
    log_warn("disk %d%% full", 99);
    assert_int_equal(errno, ENOSPC);
    line = str_from(captured());
    assert_true(str_split(&line, ' ', &part) && clock_parse(part, &t));
    assert_true(str_is(line, "warn test: disk 99% full\n"));
}

static void test_journal_gets_priorities(void **state)
{
    (void)state;
    setenv("JOURNAL_STREAM", "8:1", 1);
    capture();
    log_error("x");
    log_info("y");
    assert_string_equal(captured(), "<3>test: x\n<6>test: y\n");
    unsetenv("JOURNAL_STREAM");
}

static void test_nobody_can_forge_a_line(void **state)
{
    (void)state;
    setenv("JOURNAL_STREAM", "8:1", 1);
    capture();
    log_info("%s", "a\nb\x1b[2J\t\xc2\x85\xff\xc3\xa9\x7f");
    assert_string_equal(captured(), "<6>test: a\\nb\\x1b[2J\\t\\u0085\\xff\xc3\xa9\\x7f\n");
    unsetenv("JOURNAL_STREAM");
}

static void test_level_filters(void **state)
{
    (void)state;
    capture();
    log_debug("hidden");
    log_set_level(LOG_LEVEL_ERROR);
    log_warn("hidden");
    assert_string_equal(captured(), "");
    log_set_level(LOG_LEVEL_DEBUG);
    capture();
    log_debug("seen");
    assert_non_null(strstr(captured(), "debug test: seen\n"));
}

static void test_long_lines_are_cut(void **state)
{
    CLEANUP(free) char *text = malloc(100001);

    (void)state;
    memset(text, 'x', 100000);
    text[100000] = '\0';
    capture();
    log_error("%s", text);
    assert_true(strlen(captured()) < 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_has_time_level_and_module),
        cmocka_unit_test(test_journal_gets_priorities),
        cmocka_unit_test(test_nobody_can_forge_a_line),
        cmocka_unit_test(test_level_filters),
        cmocka_unit_test(test_long_lines_are_cut),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
