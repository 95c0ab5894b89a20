#include "base/file.h"
#include "base/mem.h"
#include "base/test/test.h"

#include <dirent.h>

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/berth-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    CLEANUP(free) char *command = mem_printf("rm -rf '%s'", folder);

    (void)state;
    return system(command);
}

static size_t count_files(const char *path)
{
    DIR *dir = opendir(path);
    size_t n = 0;

    while (readdir(dir))
        n++;
    closedir(dir);
    return n - 2;
}

static void test_written_file_reads_back(void **state)
{
    CLEANUP(free) char *path = mem_printf("%s/a", folder);
    CLEANUP(buf_done) struct buf buf = {0};
    struct err err = {0};
    struct stat st;

    (void)state;
    assert_int_equal(file_write_atomic(path, STR("one\0two"), 0640, &err), 0);
    assert_int_equal(file_write_atomic(path, STR("three"), 0604, &err), 0);
    assert_int_equal(file_read(path, 5, &buf, &err), 0);
    assert_string_equal(buf.data, "three");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0604);
    assert_int_equal(count_files(folder), 1);
    unlink(path);
}

static void test_errors_name_the_file(void **state)
{
    CLEANUP(free) char *path = mem_printf("%s/none/x", folder);
    CLEANUP(buf_done) struct buf buf = {0};
    struct err err = {0};

    (void)state;
    assert_int_equal(file_read(path, 10, &buf, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_non_null(strstr(err.msg, path));
    assert_int_equal(file_write_atomic(path, STR("x"), 0600, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void test_large_files_are_refused(void **state)
{
    CLEANUP(free) char *path = mem_printf("%s/big", folder);
    CLEANUP(buf_done) struct buf buf = {0};
    struct err err = {0};

    (void)state;
    assert_int_equal(file_write_atomic(path, STR("123456"), 0600, &err), 0);
    assert_int_equal(file_read(path, 5, &buf, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_int_equal(file_read("/dev/zero", 1000, &buf, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_int_equal(file_read("/proc/self/status", 1 << 20, &buf, &err), 0);
    assert_true(buf.len > 100);
    unlink(path);
}

static void test_failed_rename_leaves_no_temporary(void **state)
{
    struct err err = {0};

    (void)state;
    assert_int_equal(file_write_atomic(folder, STR("x"), 0600, &err), -1); /* a folder stands there */
    assert_int_equal(count_files(folder), 0);
}

static void test_folders_are_made_with_parents(void **state)
{
    CLEANUP(free) char *path = mem_printf("%s/x/y/z/", folder);
    CLEANUP(free) char *file = mem_printf("%s/f", folder);
    CLEANUP(free) char *below = mem_printf("%s/f/g", folder);
    struct err err = {0};
    struct stat st;

    (void)state;
    assert_int_equal(dir_make(path, 0700, &err), 0);
    assert_int_equal(dir_make(path, 0700, &err), 0);
    assert_true(stat(path, &st) == 0 && S_ISDIR(st.st_mode));
    assert_int_equal(file_write_atomic(file, STR(""), 0600, &err), 0);
    assert_int_equal(dir_make(file, 0700, &err), -1);
    assert_int_equal(dir_make(below, 0700, &err), -1);
}

static void test_random_texts_have_their_form(void **state)
{
    char a[37], b[37], hex[401];

    (void)state;
    random_uuid(a);
    random_uuid(b);
    assert_string_not_equal(a, b);
    assert_int_equal(strlen(a), 36);
    assert_int_equal(a[14], '4');
    assert_non_null(strchr("89ab", a[19]));
    assert_true(a[8] == '-' && a[13] == '-' && a[18] == '-' && a[23] == '-');
    random_hex(hex, 200);
    assert_int_equal(strlen(hex), 400);
    assert_int_equal(strspn(hex, "0123456789abcdef"), 400);
    random_hex(hex, 0);
    assert_string_equal(hex, "");
}

static void test_seeded_texts_repeat_themselves(void **state)
{
    char a[37], b[37], c[37];

    (void)state;
    random_use(4711);
    random_uuid(a);
    random_uuid(b);
    random_use(4711);
    random_uuid(c);
    assert_string_equal(a, c);
    assert_string_not_equal(a, b);
    random_use(0);
    random_uuid(c);
    assert_string_not_equal(a, c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_written_file_reads_back),
        cmocka_unit_test(test_errors_name_the_file),
        cmocka_unit_test(test_large_files_are_refused),
        cmocka_unit_test(test_failed_rename_leaves_no_temporary),
        cmocka_unit_test(test_folders_are_made_with_parents),
        cmocka_unit_test(test_random_texts_have_their_form),
        cmocka_unit_test(test_seeded_texts_repeat_themselves),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
