/* Layers on disk: what they hold arrives, and nothing leaves the folder, whatever they say. */
#include "base/file.h"
#include "base/mem.h"
#include "base/test/test.h"
#include "image/work/tree.h"
#include "image/work/unpack.h"
#include "tar.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>

/* top/ has the layer's folder "fs" and beside it "outside", which must stay as it is. */
static char top[64];

static int setup(void **state)
{
    CLEANUP(free) char *outside = NULL;
    CLEANUP(free) char *fs = NULL;
    CLEANUP(fd_close) int fd = -1;

    (void)state;
    snprintf(top, sizeof(top), "/tmp/berth-unpack-XXXXXX");
    if (!mkdtemp(top))
        return -1;
    outside = mem_printf("%s/outside", top);
    fs = mem_printf("%s/fs", top);
    fd = open(outside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return mkdir(fs, 0755) < 0 || write(fd, "safe", 4) != 4 ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    return tree_remove(AT_FDCWD, top, NULL);
}

static int unpack_bytes(struct str bytes, int64_t bytes_max, int64_t files_max, struct fail *fail)
{
    CLEANUP(free) char *path = mem_printf("%s/fs", top);
    CLEANUP(fd_close) int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(fd_close) int fd = memfd_create("tar", MFD_CLOEXEC);
    struct unpack_options options = {.bytes_max = bytes_max, .files_max = files_max};
    struct unpack_counts counts;

    assert_true(root >= 0 && fd >= 0);
    assert_int_equal(write(fd, bytes.s, bytes.len), bytes.len);
    lseek(fd, 0, SEEK_SET);
    return unpack_tar(fd, root, &options, &counts, fail);
}

static int unpack_as(const struct tar_row *rows, size_t len, const char *filter, struct fail *fail)
{
    CLEANUP(buf_done) struct buf tar = {0};

    tar_make(rows, len, filter, &tar);
    return unpack_bytes(buf_view(&tar), 1 << 20, 1000, fail);
}
#define UNPACK(fail, ...)                                                                                    \
    unpack_as((const struct tar_row[]){__VA_ARGS__}, ARRAY_LEN(((const struct tar_row[]){__VA_ARGS__})), "", \
              fail)

static struct stat look(const char *name)
{
    CLEANUP(free) char *path = mem_printf("%s/fs/%s", top, name);
    struct stat st = {0};

    if (lstat(path, &st) < 0)
        fail_msg("%s: %s", name, strerror(errno));
    return st;
}

static bool absent(const char *name)
{
    CLEANUP(free) char *path = mem_printf("%s/fs/%s", top, name);
    struct stat st;

    return lstat(path, &st) < 0;
}

static void expect_text(const char *name, const char *text)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", top, name);
    CLEANUP(buf_done) struct buf read = {0};
    struct err err = {0};

    if (file_read(path, 1 << 20, &read, &err) < 0)
        fail_msg("%s", err.msg);
    assert_string_equal(buf_view(&read).s, text);
}

static bool is_opaque(const char *name)
{
    CLEANUP(free) char *path = mem_printf("%s/fs/%s", top, name);
    char value[2] = "";

    return (lgetxattr(path, "trusted.overlay.opaque", value, 1) == 1 ||
            lgetxattr(path, "user.overlay.opaque", value, 1) == 1) &&
           value[0] == 'y';
}

static bool is_whiteout(const char *name)
{
    struct stat st = look(name);

    return S_ISCHR(st.st_mode) && st.st_rdev == 0;
}

static void test_files_keep_what_they_are(void **state)
{
    static const char *const filters[] = {"", "gzip", "zstd", "xz"};
    static const struct tar_row rows[] = {
        {'d', "./", NULL, 0711},
        {'d', "bin/", NULL, 0755},
        {'-', "bin/su", "setuid", 04755, 0, 0, NULL},
        {'h', "bin/again", "bin/su"},
        {'l', "bin/sh", "su"},
        {'l', "abs", "/etc/passwd"},
        {'p', "pipe", NULL, 0640},
        {'-', "deep/er/file", "x", 0600, 1000, 1001, "user.note"},
        {'-', "ünï", "utf-8"},
        {'c', "dev/null", NULL},
    };
    struct stat st;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
        struct fail fail = {0};

        if (i > 0) {
            teardown(NULL);
            setup(NULL);
        }
        if (unpack_as(rows, ARRAY_LEN(rows), filters[i], &fail) < 0)
            fail_msg("%s: %s", filters[i], fail.err.msg);
        expect_text("fs/bin/su", "setuid");
        assert_int_equal(look("bin/su").st_mode, S_IFREG | 04755);
        assert_int_equal(look("bin/su").st_ino, look("bin/again").st_ino);
        assert_int_equal(look("bin/su").st_mtime, 1000000000);
        assert_int_equal(look("bin").st_mtime, 1000000000);
        assert_int_equal(look("").st_mode, S_IFDIR | 0711);
        assert_int_equal(look("pipe").st_mode, S_IFIFO | 0640);
        assert_true(S_ISLNK(look("abs").st_mode));
        st = look("deep/er/file");
        if (geteuid() == 0) {
            assert_int_equal(st.st_uid, 1000);
            assert_int_equal(st.st_gid, 1001);
        }
        expect_text("fs/ünï", "utf-8");
        assert_true(absent("dev/null"));
    }
}

static void test_whiteouts_become_overlays_own(void **state)
{
    struct fail fail = {0};

    (void)state;
    assert_int_equal(UNPACK(&fail, {'-', "etc/.wh.gone"}, {'-', "a/b/.wh..wh..opq"}, {'-', "a/b/new", "n"},
                            {'-', ".wh.top"}, {'-', ".wh..wh.plnk", "aufs"}, {'h', ".wh.linked", "a/b/new"}),
                     0);
    assert_true(is_whiteout("etc/gone"));
    assert_true(is_whiteout("top"));
    assert_true(is_whiteout("linked"));
    assert_true(is_opaque("a/b"));
    assert_false(is_opaque("a"));
    expect_text("fs/a/b/new", "n");
    assert_true(absent(".wh..wh.plnk"));
    assert_true(absent("etc/.wh.gone"));
}

static void test_whiteout_and_new_one_of_the_same_name(void **state)
{
    struct fail fail = {0};

    (void)state;
    assert_int_equal(UNPACK(&fail, {'-', ".wh.d"}, {'d', "d"}, {'-', "d/x", "x"}, {'d', "e"}, {'-', ".wh.e"},
                            {'-', "f", "f"}, {'-', ".wh.f"}, {'-', ".wh.g"}, {'-', "g/h", "h"}),
                     0);
    assert_true(is_opaque("d"));
    assert_true(is_opaque("e"));
    assert_true(is_opaque("g"));
    expect_text("fs/d/x", "x");
    expect_text("fs/f", "f");
    expect_text("fs/g/h", "h");
}

static void test_later_entries_replace_earlier(void **state)
{
    struct fail fail = {0};

    (void)state;
    assert_int_equal(UNPACK(&fail, {'d', "a"}, {'-', "a/x", "1"}, {'-', "a", "file"}, {'-', "b", "1"},
                            {'d', "b"}, {'-', "b/y", "2"}, {'l', "c", "b"}, {'-', "c", "own"},
                            {'-', "c", "again"}),
                     0);
    expect_text("fs/a", "file");
    expect_text("fs/b/y", "2");
    expect_text("fs/c", "again");
}

static void test_links_in_names_stay_inside(void **state)
{
    struct fail fail = {0};

    (void)state;
    assert_int_equal(UNPACK(&fail, {'d', "usr/bin"}, {'l', "bin", "usr/bin"}, {'-', "bin/x", "x"},
                            {'d', "real"}, {'l', "abs", "/real"}, {'-', "abs/y", "y"},
                            {'l', "up", "../../../.."}, {'-', "up/z", "z"}),
                     0);
    expect_text("fs/usr/bin/x", "x");
    expect_text("fs/real/y", "y");
    expect_text("fs/z", "z"); /* above the root is the root */
}

static void test_hostile_layers_are_refused_and_touch_nothing(void **state)
{
    static const struct {
        const char *what;
        struct tar_row rows[3];
    } cases[] = {
        {"parent", {{'-', "../outside", "evil"}}},
        {"parent inside", {{'-', "a/../../outside", "evil"}}},
        {"absolute with parent", {{'-', "/../outside", "evil"}}},
        {"link to a file outside", {{'l', "l", "../outside"}, {'-', "l/x", "evil"}}},
        {"hard link out", {{'h', "h", "../outside"}}},
        {"hard link through a link", {{'l', "l", ".."}, {'h', "h", "l/outside"}}},
        {"absolute hard link", {{'h', "h", "/etc/passwd"}}},
        {"hard link to a folder", {{'d', "d"}, {'h', "h", "d"}}},
        {"hard link to a whiteout", {{'-', ".wh.w"}, {'h', "h", "w"}}},
        {"whiteout of the parent", {{'-', ".wh..."}}},
        {"whiteout of the folder", {{'-', ".wh.."}}},
        {"whiteout of nothing", {{'-', ".wh."}}},
        {"whiteout outside", {{'-', "../.wh.outside"}}},
        {"opaque outside", {{'-', "../.wh..wh..opq"}}},
        {"opaque through a link", {{'l', "l", ".."}, {'-', "x/../l/.wh..wh..opq"}}},
        {"below a file", {{'-', "f", "f"}, {'-', "f/x", "evil"}}},
        {"below a dangling link", {{'l', "l", "/nowhere"}, {'-', "l/x", "evil"}}},
        {"root is a link", {{'l', "./", "/tmp"}}},
        {"root is a file", {{'-', ".", "x"}}},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct fail fail = {0};
        size_t len = 0;
        CLEANUP(free) char *path = mem_printf("%s/outside", top);
        struct stat st;

        while (len < 3 && cases[i].rows[len].path)
            len++;
        if (unpack_as(cases[i].rows, len, "", &fail) == 0)
            fail_msg("%s: was taken", cases[i].what);
        assert_int_equal(fail_kind(&fail), IMAGE_FAIL_INVALID);
        expect_text("outside", "safe");
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_nlink, 1);
        teardown(NULL);
        setup(NULL);
    }
}

static void test_absolute_names_are_inside(void **state)
{
    struct fail fail = {0};

    (void)state;
    assert_int_equal(UNPACK(&fail, {'-', "/etc//./hostname", "me"}), 0);
    expect_text("fs/etc/hostname", "me");
}

static void test_overlays_own_attributes_are_left_out(void **state)
{
    CLEANUP(free) char *path = mem_printf("%s/fs/d", top);
    struct fail fail = {0};
    char value[8];

    (void)state;
    assert_int_equal(UNPACK(&fail, {'d', "d", .xattr = "trusted.overlay.redirect"}), 0);
    assert_true(lgetxattr(path, "trusted.overlay.redirect", value, sizeof(value)) < 0);
    assert_int_equal(UNPACK(&fail, {'d', "d", .xattr = "user.overlay.opaque"}), 0);
    assert_true(lgetxattr(path, "user.overlay.opaque", value, sizeof(value)) < 0);
    assert_int_equal(UNPACK(&fail, {'d', "d", .xattr = "user.mine"}), 0);
    assert_int_equal(lgetxattr(path, "user.mine", value, sizeof(value)), 1);
}

static void test_limits_hold(void **state)
{
    CLEANUP(buf_done) struct buf tar = {0};
    struct tar_row rows[20];
    struct fail files = {0}, bytes = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        rows[i] = (struct tar_row){'-', i % 2 ? "a" : "b", "0123456789"};
    tar_make(rows, ARRAY_LEN(rows), "", &tar);
    assert_int_equal(unpack_bytes(buf_view(&tar), 1000, 10, &files), -1);
    assert_int_equal(fail_kind(&files), IMAGE_FAIL_LIMIT);
    assert_string_equal(files.err.msg, "a layer has more than 10 files");
    assert_int_equal(unpack_bytes(buf_view(&tar), 100, 1000, &bytes), -1);
    assert_int_equal(fail_kind(&bytes), IMAGE_FAIL_LIMIT);
}

/* One entry's name can stand for two thousand folders, which the tar does not describe. */
static void test_folders_that_are_implied_count(void **state)
{
    struct tar_row row = {'-', "a/b/c/d/e/f/g/h/i/file", "x"};
    CLEANUP(buf_done) struct buf tar = {0};
    struct fail fail = {0}, none = {0};

    (void)state;
    tar_make(&row, 1, "", &tar);
    assert_int_equal(unpack_bytes(buf_view(&tar), 1000, 9, &fail), -1);
    assert_int_equal(fail_kind(&fail), IMAGE_FAIL_LIMIT);
    assert_true(absent("a/b/c/d/e/f/g/h/i"));
    assert_int_equal(unpack_bytes(buf_view(&tar), 1000, 10, &none), 0);
}

#define LONG_NAMES 17000 /* of 4 kB each: more than UNPACK_NAMES_MAX */

/* The same folder again and again: its names are kept, and they have a limit of their own. */
static void test_names_of_folders_have_a_limit(void **state)
{
    static struct tar_row rows[LONG_NAMES];
    CLEANUP(buf_done) struct buf path = {0}, tar = {0};
    struct fail fail = {0};

    (void)state;
    for (size_t i = 0; path.len < UNPACK_PATH_MAX - 250; i++)
        buf_printf(&path, "%s%0200zu", i ? "/" : "", i);
    for (size_t i = 0; i < LONG_NAMES; i++)
        rows[i] = (struct tar_row){'d', path.data, NULL};
    tar_make(rows, LONG_NAMES, "zstd", &tar);
    assert_int_equal(unpack_bytes(buf_view(&tar), 1000, 1000000, &fail), -1);
    assert_int_equal(fail_kind(&fail), IMAGE_FAIL_LIMIT);
    assert_string_equal(fail.err.msg, "the names of a layer's folders have more than 67108864 bytes");
}

static void test_long_names_are_refused(void **state)
{
    CLEANUP(free) char *name = mem_alloc(8000);
    struct fail fail = {0};

    (void)state;
    memset(name, 'n', 7999);
    name[7999] = '\0';
    assert_int_equal(UNPACK(&fail, {'-', name, "x"}), -1);
    assert_int_equal(fail_kind(&fail), IMAGE_FAIL_INVALID);
    for (size_t i = 1; i < 7999; i += 2)
        name[i] = '/';
    assert_int_equal(UNPACK(&fail, {'-', name, "x"}), -1);
    name[399] = '\0'; /* two hundred folders deep is fine, and can be deleted again */
    if (UNPACK(&fail, {'-', name, "x"}) < 0)
        fail_msg("%s", fail.err.msg);
}

static void test_damaged_and_empty_ones(void **state)
{
    CLEANUP(buf_done) struct buf tar = {0};
    struct fail cut = {0}, noise = {0}, none = {0}, zeros = {0};
    static const char nothing[1024];

    (void)state;
    tar_make((const struct tar_row[]){{'-', "a", "some text"}}, 1, "gzip", &tar);
    assert_int_equal(unpack_bytes((struct str){tar.data, tar.len / 2}, 1000, 10, &cut), -1);
    assert_int_equal(fail_kind(&cut), IMAGE_FAIL_INVALID);
    assert_int_equal(
        unpack_bytes(STR("this is no tar at all, however long one looks at it"), 1000, 10, &noise), -1);
    assert_int_equal(unpack_bytes((struct str){"", 0}, 1000, 10, &none), 0);
    assert_int_equal(unpack_bytes((struct str){nothing, sizeof(nothing)}, 1000, 10, &zeros), 0);
}

static void test_deep_trees_are_deleted(void **state)
{
    CLEANUP(free) char *path = mem_printf("%s/fs", top);
    CLEANUP(fd_close) int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char name[201] = "";
    struct err err = {0};

    (void)state;
    memset(name, 'd', sizeof(name) - 1);
    for (int i = 0; i < 200; i++) { /* deeper than a path can say */
        int next;

        assert_int_equal(mkdirat(dir, name, 0700), 0);
        next = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        assert_true(next >= 0);
        close(dir);
        dir = next;
    }
    if (tree_remove(AT_FDCWD, path, &err) < 0)
        fail_msg("%s", err.msg);
    assert_true(absent(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_files_keep_what_they_are, setup, teardown),
        cmocka_unit_test_setup_teardown(test_whiteouts_become_overlays_own, setup, teardown),
        cmocka_unit_test_setup_teardown(test_whiteout_and_new_one_of_the_same_name, setup, teardown),
        cmocka_unit_test_setup_teardown(test_later_entries_replace_earlier, setup, teardown),
        cmocka_unit_test_setup_teardown(test_links_in_names_stay_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hostile_layers_are_refused_and_touch_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_absolute_names_are_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(test_overlays_own_attributes_are_left_out, setup, teardown),
        cmocka_unit_test_setup_teardown(test_limits_hold, setup, teardown),
        cmocka_unit_test_setup_teardown(test_folders_that_are_implied_count, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names_of_folders_have_a_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_names_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_damaged_and_empty_ones, setup, teardown),
        cmocka_unit_test_setup_teardown(test_deep_trees_are_deleted, setup, teardown),
    };

    setlocale(LC_CTYPE, "C.UTF-8");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
