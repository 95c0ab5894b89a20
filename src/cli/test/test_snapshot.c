/* The copy of a project: what is in it, what is left out. */
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/test/test.h"
#include "cli/snapshot.h"

#include <stdlib.h>
#include <unistd.h>

static void put(const char *dir, const char *name, const char *text)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", dir, name);
    CLEANUP(free) char *folder = mem_strdup(path);

    *strrchr(folder, '/') = '\0';
    assert_int_equal(dir_make(folder, 0755, NULL), 0);
    assert_int_equal(file_write_atomic(path, str_from(text), 0644, NULL), 0);
}

static bool there(const char *dir, const char *name)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", dir, name);

    return access(path, F_OK) == 0;
}

static void remove_tree(const char *dir)
{
    CLEANUP(free) char *command = mem_printf("rm -rf '%s'", dir);

    assert_int_equal(system(command), 0);
}

static void copies_what_a_job_needs(void **state)
{
    char dir[] = "/tmp/berth-snapshot-XXXXXX";
    CLEANUP(free) char *from = NULL, *to = NULL, *link = NULL;
    struct snapshot_stats stats;
    struct err err = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    from = mem_printf("%s/project", dir);
    to = mem_printf("%s/copy", dir);
    link = mem_printf("%s/latest", from);
    put(from, "train.py", "print('now')\n");
    put(from, "lib/net.py", "x = 1\n");
    put(from, ".git/config", "");
    put(from, "lib/__pycache__/net.cpython-311.pyc", "");
    put(from, "data/big.bin", "0000");
    put(from, "notes/data/kept.txt", "kept");
    put(from, "run.log", "old");
    put(from, SNAPSHOT_IGNORE, "# what the job does not need\n/data/\n*.log\nlib/skip.*\n");
    put(from, "lib/skip.me", "");
    assert_int_equal(symlink("train.py", link), 0);

    assert_int_equal(snapshot_take(from, to, &stats, &err), 0);
    assert_true(there(to, "train.py") && there(to, "lib/net.py") && there(to, "latest"));
    assert_false(there(to, ".git"));
    assert_false(there(to, "lib/__pycache__"));
    assert_false(there(to, "run.log"));
    assert_false(there(to, "lib/skip.me"));
    assert_true(stats.bytes > 0 && stats.skipped >= 4);
    remove_tree(dir);
}

static void leaves_snapshots_out_of_a_snapshot(void **state)
{
    char dir[] = "/tmp/berth-snapshot-XXXXXX";
    CLEANUP(free) char *to = NULL;
    struct snapshot_stats stats;
    struct err err = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    to = mem_printf("%s/.local/share/berth/runs/now", dir);
    put(dir, "train.py", "x = 1\n");
    put(dir, ".local/share/berth/runs/earlier/train.py", "x = 0\n");
    put(dir, ".local/share/other", "y\n");
    assert_int_equal(snapshot_take(dir, to, &stats, &err), 0);
    assert_true(there(to, "train.py") && there(to, ".local/share/other"));
    assert_false(there(to, ".local/share/berth/runs"));
    remove_tree(dir);
}

static void leaves_nothing_behind_when_it_fails(void **state)
{
    char dir[] = "/tmp/berth-snapshot-XXXXXX";
    CLEANUP(free) char *from = NULL, *to = NULL;
    CLEANUP(buf_done) struct buf deep = {0};
    struct snapshot_stats stats;
    struct err err = {0};

    (void)state;
    assert_non_null(mkdtemp(dir));
    from = mem_printf("%s/project", dir);
    to = mem_printf("%s/copy", dir);
    for (int i = 0; i < SNAPSHOT_DEPTH_MAX + 2; i++)
        buf_puts(&deep, "d/");
    buf_puts(&deep, "file");
    put(from, deep.data, "x");
    put(from, "train.py", "x = 1\n");
    assert_int_equal(snapshot_take(from, to, &stats, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    assert_false(there(dir, "copy"));
    remove_tree(dir);
}

static void says_which_folder_is_missing(void **state)
{
    struct snapshot_stats stats;
    struct err err = {0};

    (void)state;
    assert_int_equal(snapshot_take("/nonexistent/project", "/tmp/berth-never", &stats, &err), -1);
    assert_non_null(strstr(err.msg, "/nonexistent/project"));
    assert_false(there("/tmp", "berth-never"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_what_a_job_needs),
        cmocka_unit_test(leaves_snapshots_out_of_a_snapshot),
        cmocka_unit_test(leaves_nothing_behind_when_it_fails),
        cmocka_unit_test(says_which_folder_is_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
