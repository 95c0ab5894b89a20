#include "base/test/test.h"
#include "engine/log_line.h"

#include <fcntl.h>
#include <unistd.h>

static char line[64];

static const char *pick(const char *text)
{
    return log_line_pick(str_from(text), line, sizeof(line)) ? line : NULL;
}

static void test_the_last_line_is_told(void **state)
{
    (void)state;
    assert_string_equal(pick("a\nb\n\n  \n"), "b");
    assert_null(pick(""));
    assert_null(pick("\n \n"));
}

static void test_a_traceback_is_told_by_its_exception(void **state)
{
    (void)state;
    assert_string_equal(pick("x\nTraceback (most recent call last):\n  File \"a.py\", line 1\n    f()\n"
                             "ValueError: x\nclosing the file\n"),
                        "ValueError: x");
    assert_string_equal(pick("Traceback (most recent call last):\n  a\nKeyError: 1\n\nDuring handling\n\n"
                             "Traceback (most recent call last):\n  b\nOSError: 2\n"),
                        "OSError: 2");
}

static void test_of_a_progress_bar_the_newest_state_is_told(void **state)
{
    (void)state;
    assert_string_equal(pick("10%\r20%\r30%\r\n"), "30%");
}

static void test_colours_and_control_characters_are_left_out(void **state)
{
    (void)state;
    assert_string_equal(pick("\033[31mred\033[0m\tand\a plain"), "red and plain");
}

static void test_a_long_line_is_cut_between_characters(void **state)
{
    char text[200];

    (void)state;
    for (size_t i = 0; i < sizeof(text) / 2; i++)
        memcpy(text + 2 * i, "\xc3\xa9", 2);
    assert_true(log_line_pick((struct str){text, sizeof(text)}, line, sizeof(line)));
    assert_int_equal(strlen(line), sizeof(line) - 2);
}

static void write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void test_entries_are_read_from_the_file_and_the_one_before_it(void **state)
{
    char dir[] = "/tmp/log_line.XXXXXX", path[64], before[64];

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/0.log", dir);
    snprintf(before, sizeof(before), "%s/0.log.1", dir);
    assert_false(log_line_read(path, line, sizeof(line)));
    write_text(path, "2026-01-01T00:00:00Z stderr P Value\n2026-01-01T00:00:00Z stderr F Error: x\n");
    assert_true(log_line_read(path, line, sizeof(line)));
    assert_string_equal(line, "ValueError: x");
    write_text(path, "2026-01-01T00:00:00Z stderr F Traceback (most recent call last):\n"
                     "2026-01-01T00:00:00Z stdout F begun\n"
                     "2026-01-01T00:00:00Z stderr F   File \"a.py\"\n"
                     "2026-01-01T00:00:00Z stderr F ValueError: x\n");
    assert_true(log_line_read(path, line, sizeof(line)));
    assert_string_equal(line, "ValueError: x");
    assert_int_equal(rename(path, before), 0);
    write_text(path, "");
    assert_true(log_line_read(path, line, sizeof(line)));
    assert_string_equal(line, "ValueError: x");
    unlink(path);
    unlink(before);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_last_line_is_told),
        cmocka_unit_test(test_a_traceback_is_told_by_its_exception),
        cmocka_unit_test(test_of_a_progress_bar_the_newest_state_is_told),
        cmocka_unit_test(test_colours_and_control_characters_are_left_out),
        cmocka_unit_test(test_a_long_line_is_cut_between_characters),
        cmocka_unit_test(test_entries_are_read_from_the_file_and_the_one_before_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
