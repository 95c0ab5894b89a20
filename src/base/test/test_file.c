#include "base/file.h"
#include "base/mem.h"
#include "base/test/test.h"

#include <dirent.h>
#include <fcntl.h>

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

static void check_text(const char *path, const char *text)
{
    CLEANUP(buf_done) struct buf buf = {0};

    assert_int_equal(file_read(path, 1000, &buf, NULL), 0);
    assert_string_equal(buf.data, text);
}

static void test_what_is_no_file_is_written_into(void **state)
{
    CLEANUP(free) char *pipe_path = mem_printf("%s/pipe", folder);
    struct stat before, after;
    struct err err = {0};
    char text[16] = "";
    int fd;

    (void)state;
    assert_int_equal(stat("/dev/null", &before), 0);
    assert_int_equal(file_write_atomic("/dev/null", STR("x"), 0600, &err), 0);
    assert_int_equal(stat("/dev/null", &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(before.st_mode, after.st_mode);
    assert_int_equal(file_write_atomic("/dev/full", STR("x"), 0600, &err), -1);
    assert_int_equal(file_write_atomic(folder, STR("x"), 0600, &err), -1);

    assert_int_equal(mkfifo(pipe_path, 0604), 0);
    fd = open(pipe_path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_int_equal(file_write_atomic(pipe_path, STR("told"), 0600, &err), 0);
    assert_int_equal(read(fd, text, sizeof(text)), 4);
    assert_string_equal(text, "told");
    close(fd);
    assert_int_equal(lstat(pipe_path, &after), 0);
    assert_true(S_ISFIFO(after.st_mode) && (after.st_mode & 0777) == 0604);
    unlink(pipe_path);
    assert_int_equal(count_files(folder), 0);
}

static void test_a_name_of_a_descriptor_is_written_into(void **state)
{
    CLEANUP(free) char *path = mem_printf("%s/out", folder), *link = mem_printf("%s/link", folder);
    struct err err = {0};
    char name[40];
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    (void)state;
    snprintf(name, sizeof(name), "/dev/fd/%d", fd);
    assert_int_equal(file_write_atomic(name, STR("one"), 0600, &err), 0);
    check_text(path, "one");
    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    assert_int_equal(symlink(name, link), 0); /* as /dev/stdout is */
    assert_int_equal(file_write_atomic(link, STR("two"), 0600, &err), 0);
    check_text(path, "two");
    close(fd);
    unlink(path);
    unlink(link);
}

static void test_a_link_is_followed_once(void **state)
{
    CLEANUP(free) char *file = mem_printf("%s/file", folder), *link = mem_printf("%s/link", folder);
    CLEANUP(free) char *second = mem_printf("%s/second", folder);
    struct err err = {0};
    struct stat st;

    (void)state;
    assert_int_equal(symlink("file", link), 0);
    assert_int_equal(file_write_atomic(link, STR("one"), 0604, &err), 0); /* not there yet */
    assert_int_equal(file_write_atomic(link, STR("two"), 0604, &err), 0);
    check_text(file, "two");
    assert_int_equal(lstat(link, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(symlink(link, second), 0);
    assert_int_equal(file_write_atomic(second, STR("three"), 0600, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    check_text(file, "two");
    if (geteuid() == 0) {
        assert_int_equal(lchown(link, 77, 77), 0);
        assert_int_equal(file_write_atomic(link, STR("three"), 0600, &err), -1);
        assert_int_equal(err.code, ERR_FORBIDDEN);
        check_text(file, "two");
    }
    unlink(file);
    unlink(link);
    unlink(second);
    assert_int_equal(count_files(folder), 0);
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
        cmocka_unit_test(test_what_is_no_file_is_written_into),
        cmocka_unit_test(test_a_name_of_a_descriptor_is_written_into),
        cmocka_unit_test(test_a_link_is_followed_once),
        cmocka_unit_test(test_errors_name_the_file),
        cmocka_unit_test(test_large_files_are_refused),
        cmocka_unit_test(test_failed_rename_leaves_no_temporary),
        cmocka_unit_test(test_folders_are_made_with_parents),
        cmocka_unit_test(test_random_texts_have_their_form),
        cmocka_unit_test(test_seeded_texts_repeat_themselves),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
