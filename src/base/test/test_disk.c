#include "base/cleanup.h"
#include "base/disk.h"
#include "base/mem.h"
#include "base/test/test.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void test_imports_stop_before_pods_are_evicted(void **state)
{
    const int64_t gib = INT64_C(1) << 30;

    (void)state;
    assert_int_equal(disk_mark(100 * gib), 2 * gib);
    assert_int_equal(disk_mark(1000), 100);
    assert_int_equal(disk_keep(100 * gib), 2 * gib + gib / 2);
    assert_true(disk_keep(4000) > disk_mark(4000));
}

static void write_file(int dir, const char *name)
{
    static const char data[65536] = "x";
    int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_int_equal(write(fd, data, sizeof(data)), sizeof(data));
    close(fd);
}

/* 150 levels with a name of 200 bytes each: far more than a path can have. */
static void test_a_tree_is_measured_however_deep_it_is(void **state)
{
    char top[] = "/tmp/berth-test-XXXXXX", name[201];
    CLEANUP(free) char *command = NULL;
    int fd, next;

    (void)state;
    memset(name, 'd', 200);
    name[200] = '\0';
    assert_non_null(mkdtemp(top));
    fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 150; i++) {
        assert_int_equal(mkdirat(fd, name, 0700), 0);
        next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = next;
        if (i % 50 == 49) {
            write_file(fd, "file");
            assert_int_equal(symlinkat("/", fd, "link"), 0);
        }
        assert_int_equal(mkdirat(fd, "side", 0700), 0);
    }
    close(fd);
    assert_true(disk_tree_bytes(top) >= 3 * 65536);
    assert_true(disk_tree_bytes(top) < 16 << 20);
    assert_int_equal(disk_tree_bytes("/no/such/folder"), 0);
    command = mem_printf("rm -rf '%s'", top);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_imports_stop_before_pods_are_evicted),
        cmocka_unit_test(test_a_tree_is_measured_however_deep_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
