#include "base/buf.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/test/test.h"
#include "engine/local/content.h"

#include <sys/stat.h>
#include <unistd.h>

#define MANY 15000

static char dir[64];

static int setup(void **state)
{
    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/content.XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
    CLEANUP(free) char *command = mem_printf("rm -rf '%s'", dir);

    (void)state;
    return system(command);
}

static void check(const char *name, const char *expected)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", dir, name);
    CLEANUP(buf_done) struct buf text = {0};

    if (!expected) {
        assert_int_equal(access(path, F_OK), -1);
        return;
    }
    assert_int_equal(file_read(path, 1 << 20, &text, NULL), 0);
    assert_string_equal(text.data ? text.data : "", expected);
}

static void test_files_are_shown_and_changed_all_at_once(void **state)
{
    struct content *content = content_new(dir, (uid_t)-1, 0);
    struct err err = {0};
    char before[64] = "", after[64] = "";
    CLEANUP(free) char *link = mem_printf("%s/..data", dir);

    (void)state;
    assert_int_equal(content_put(content, "a", STR("1"), 0644, &err), 0);
    assert_int_equal(content_put(content, "sub/b", STR("2"), 0600, &err), 0);
    assert_int_equal(content_apply(content, &err), 0);
    check("a", "1");
    check("sub/b", "2");
    assert_true(readlink(link, before, sizeof(before) - 1) > 0);
    assert_int_equal(content_apply(content, &err), 0);
    assert_true(readlink(link, after, sizeof(after) - 1) > 0);
    assert_string_equal(before, after); /* nothing was to be done */
    content_free(content);
    content = content_new(dir, (uid_t)-1, 0);
    assert_int_equal(content_put(content, "a", STR("3"), 0644, &err), 0);
    assert_int_equal(content_apply(content, &err), 0);
    check("a", "3");
    check("sub", NULL);
    content_free(content);
}

static void test_a_later_source_of_a_path_wins(void **state)
{
    struct content *content = content_new(dir, (uid_t)-1, 0);
    struct err err = {0};

    (void)state;
    assert_int_equal(content_put(content, "a", STR("old"), 0644, &err), 0);
    assert_int_equal(content_put(content, "a", STR("new"), 0644, &err), 0);
    assert_int_equal(content->files.len, 1);
    assert_int_equal(content_apply(content, &err), 0);
    check("a", "new");
    content_free(content);
}

static void test_paths_that_lead_out_are_refused(void **state)
{
    static const char *const paths[] = {"", "/etc/passwd", "../a", "a/../../b", "a//b"};
    struct content *content = content_new(dir, (uid_t)-1, 0);
    struct err err = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        assert_int_equal(content_put(content, paths[i], STR("x"), 0644, &err), -1);
    content_free(content);
}

static void test_many_keys_cost_little_each(void **state)
{
    struct content *content = content_new(dir, (uid_t)-1, 0);
    struct err err = {0};
    int64_t start = clock_monotonic();
    char path[32];

    (void)state;
    for (int i = 0; i < MANY; i++) {
        snprintf(path, sizeof(path), "key-%d", i);
        assert_int_equal(content_put(content, path, STR("value"), 0644, &err), 0);
    }
    assert_int_equal(content->files.len, MANY);
    assert_true(clock_monotonic() - start < NSEC_PER_SEC / 2); /* comparing each with each: several seconds */
    content_free(content);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_files_are_shown_and_changed_all_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_later_source_of_a_path_wins, setup, teardown),
        cmocka_unit_test_setup_teardown(test_paths_that_lead_out_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_keys_cost_little_each, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
