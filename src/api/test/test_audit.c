#include "api/audit.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* cmocka needs the ones above before it */
#include <cmocka.h>

static char folder[] = "/tmp/berth-audit-XXXXXX";

static char *path_of(const char *name)
{
    return mem_printf("%s/%s", folder, name);
}

static size_t size_of(const char *name)
{
    CLEANUP(free) char *path = path_of(name);
    struct stat st;

    return stat(path, &st) == 0 ? (size_t)st.st_size : 0;
}

static void test_files_are_put_aside_at_their_size_and_the_oldest_goes(void **state)
{
    CLEANUP(free) char *path = path_of("log");
    CLEANUP(buf_done) struct buf text = {0};
    struct audit *audit;
    struct stat st;

    (void)state;
    assert_int_equal(audit_open(&(struct audit_config){.path = path, .bytes = 100, .files = 3}, &audit, NULL),
                     0);
    for (int i = 0; i < 100; i++)
        audit_line(audit, STR("{\"a\":\"0123456789012345678901234567890123456789\"}")); /* 49 with its end */
    audit_free(audit);
    assert_int_equal(size_of("log"), 98);
    assert_int_equal(size_of("log.1"), 98);
    assert_int_equal(size_of("log.2"), 98);
    assert_int_equal(size_of("log.3"), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(file_read(path, 1000, &text, NULL), 0);
    assert_int_equal(text.data[text.len - 1], '\n');
}

static void test_a_path_that_cannot_be_is_an_error(void **state)
{
    struct audit *audit;
    struct err err = {0};

    (void)state;
    assert_int_equal(audit_open(&(struct audit_config){.path = "/nowhere/log"}, &audit, &err), -1);
    assert_int_equal(audit_open(&(struct audit_config){.path = folder}, &audit, &err), -1);
}

static int setup(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int teardown(void **state)
{
    static const char *const names[] = {"log", "log.1", "log.2"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        CLEANUP(free) char *path = path_of(names[i]);

        unlink(path);
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files_are_put_aside_at_their_size_and_the_oldest_goes),
        cmocka_unit_test(test_a_path_that_cannot_be_is_an_error),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
