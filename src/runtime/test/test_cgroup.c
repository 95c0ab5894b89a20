/* Which cgroups a machine has, from its mountinfo. */
#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/test/test.h"
#include "runtime/cgroup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define V1(name) "29 28 0:25 / /sys/fs/cgroup/" name " rw,relatime shared:9 - cgroup cgroup rw," name "\n"
#define ROOT     "1 0 8:1 / / rw,relatime - ext4 /dev/vda rw\n"
#define ALL_V1   ROOT V1("cpu") V1("cpuacct") V1("memory") V1("devices") V1("pids") V1("freezer")
#define UNIFIED  "40 28 0:35 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n"
#define V2       ROOT "30 28 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"

static void test_v2_is_found(void **state)
{
    CLEANUP(cgroup_free) struct cgroup *cg = NULL;
    CLEANUP(free) char *oom = NULL;

    (void)state;
    assert_int_equal(cgroup_parse(STR(V2), STR("cpuset cpu io memory pids"), "/berth", &cg, NULL), 0);
    assert_int_equal(cgroup_mode(cg), RUNTIME_CGROUPS_V2);
    assert_null(cgroup_hide(cg));
    oom = cgroup_oom_path(cg, "a");
    assert_string_equal(oom, "/sys/fs/cgroup/berth/a/memory.events");
}

static void test_v1_is_found(void **state)
{
    CLEANUP(cgroup_free) struct cgroup *cg = NULL;
    CLEANUP(free) char *oom = NULL;

    (void)state;
    assert_int_equal(cgroup_parse(STR(ALL_V1), STR(""), "/berth", &cg, NULL), 0);
    assert_int_equal(cgroup_mode(cg), RUNTIME_CGROUPS_V1);
    oom = cgroup_oom_path(cg, "a");
    assert_string_equal(oom, "/sys/fs/cgroup/memory/berth/a/memory.oom_control");
}

static void test_hybrid_hides_its_v2_mount(void **state)
{
    CLEANUP(cgroup_free) struct cgroup *cg = NULL;

    (void)state;
    assert_int_equal(cgroup_parse(STR(ALL_V1 UNIFIED), STR("hugetlb"), "/berth", &cg, NULL), 0);
    assert_int_equal(cgroup_mode(cg), RUNTIME_CGROUPS_HYBRID);
    assert_string_equal(cgroup_hide(cg), "/sys/fs/cgroup/unified");
}

static void test_a_v2_mount_without_controllers_is_no_hybrid(void **state)
{
    CLEANUP(cgroup_free) struct cgroup *cg = NULL;

    (void)state;
    assert_int_equal(cgroup_parse(STR(ALL_V1 UNIFIED), STR(""), "/berth", &cg, NULL), 0);
    assert_int_equal(cgroup_mode(cg), RUNTIME_CGROUPS_V1);
    assert_null(cgroup_hide(cg));
}

static void test_what_is_missing_is_named(void **state)
{
    struct cgroup *cg = NULL;
    struct err err = {0};

    (void)state;
    assert_int_equal(cgroup_parse(STR(ROOT), STR(""), "/berth", &cg, &err), -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    assert_string_equal(err.msg, "no cgroups are mounted (/sys/fs/cgroup)");
    assert_int_equal(cgroup_parse(STR(ROOT V1("cpu")), STR(""), "/berth", &cg, &err), -1);
    assert_non_null(strstr(err.msg, "'memory' is not mounted"));
    assert_int_equal(cgroup_parse(STR(V2), STR("cpu io"), "/berth", &cg, &err), -1);
    assert_non_null(strstr(err.msg, "memory controller is not available"));
    assert_null(cg);
}

/* ---- figures, from folders that stand for cgroupfs ---- */

struct fake {
    char dir[32];
    struct buf mounts;
};

static void fake_init(struct fake *fake)
{
    *fake = (struct fake){.dir = "/tmp/berth-cgroup-XXXXXX"};
    assert_non_null(mkdtemp(fake->dir));
}

static void fake_done(struct fake *fake)
{
    CLEANUP(free) char *command = mem_printf("rm -r %s", fake->dir);

    assert_int_equal(system(command), 0);
    buf_done(&fake->mounts);
}

static void fake_file(struct fake *fake, const char *hierarchy, const char *name, const char *text)
{
    CLEANUP(free) char *dir = mem_printf("%s/%s/berth/a", fake->dir, hierarchy);
    CLEANUP(free) char *path = mem_printf("%s/%s", dir, name);
    struct err err = {0};

    assert_int_equal(dir_make(dir, 0700, &err), 0);
    assert_int_equal(file_write_atomic(path, str_from(text), 0600, &err), 0);
}

static void check_figures(const struct cgroup *cg)
{
    struct runtime_stats stats;
    struct err err = {0};

    assert_int_equal(cgroup_stats(cg, "a", &stats, &err), 0);
    assert_int_equal(stats.memory_bytes, 1000000);
    assert_int_equal(stats.working_set_bytes, 600000);
    assert_int_equal(stats.oom_kills, 3);
    assert_int_equal(stats.cpu_ns, 123456000);
    assert_int_equal(stats.pids, 7);
    assert_int_equal(cgroup_cpu(cg, "a"), 123456000);
    assert_int_equal(cgroup_cpu(cg, "b"), 0);
    assert_int_equal(cgroup_stats(cg, "b", &stats, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
}

static void test_figures_of_v2(void **state)
{
    CLEANUP(cgroup_free) struct cgroup *cg = NULL;
    struct fake fake;

    (void)state;
    fake_init(&fake);
    fake_file(&fake, "u", "memory.current", "1000000\n");
    fake_file(&fake, "u", "memory.stat", "anon 5\ninactive_file 400000\nactive_file 1\n");
    fake_file(&fake, "u", "memory.events", "low 0\noom 4\noom_kill 3\n");
    fake_file(&fake, "u", "cpu.stat", "usage_usec 123456\nuser_usec 1\n");
    fake_file(&fake, "u", "pids.current", "7\n");
    buf_printf(&fake.mounts, "30 28 0:26 / %s/u rw - cgroup2 cgroup2 rw\n", fake.dir);
    assert_int_equal(cgroup_parse(buf_view(&fake.mounts), STR("cpu memory pids"), "/berth", &cg, NULL), 0);
    check_figures(cg);
    fake_done(&fake);
}

static void test_figures_of_a_hybrid_machine_are_those_of_v1(void **state)
{
    static const char *const controllers[] = {"memory", "cpu", "cpuacct", "devices", "pids"};
    CLEANUP(cgroup_free) struct cgroup *cg = NULL;
    struct fake fake;

    (void)state;
    fake_init(&fake);
    fake_file(&fake, "memory", "memory.usage_in_bytes", "1000000\n");
    fake_file(&fake, "memory", "memory.stat", "inactive_file 5\ntotal_inactive_file 400000\n");
    fake_file(&fake, "memory", "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n");
    fake_file(&fake, "cpuacct", "cpuacct.usage", "123456000\n");
    fake_file(&fake, "pids", "pids.current", "7\n");
    for (size_t i = 0; i < ARRAY_LEN(controllers); i++)
        buf_printf(&fake.mounts, "30 28 0:26 / %s/%s rw - cgroup cgroup rw,%s\n", fake.dir, controllers[i],
                   controllers[i]);
    buf_printf(&fake.mounts, "31 28 0:27 / %s/unified rw - cgroup2 cgroup2 rw\n", fake.dir);
    assert_int_equal(cgroup_parse(buf_view(&fake.mounts), STR("hugetlb"), "/berth", &cg, NULL), 0);
    assert_int_equal(cgroup_mode(cg), RUNTIME_CGROUPS_HYBRID);
    check_figures(cg);
    fake_done(&fake);
}

static void check_file(const struct fake *fake, const char *name, const char *text)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", fake->dir, name);
    CLEANUP(buf_done) struct buf found = {0};

    assert_int_equal(file_read(path, 100, &found, NULL), 0);
    assert_string_equal(found.data, text);
}

/* A plain file keeps the end of longer text that was there: "+memory", then "+pids". */
static void test_v2_has_controllers_switched_on_and_a_weight(void **state)
{
    CLEANUP(cgroup_free) struct cgroup *cg = NULL;
    CLEANUP(free) char *weight = NULL;
    struct fake fake;

    (void)state;
    fake_init(&fake);
    fake_file(&fake, "u", "../../cgroup.subtree_control", "");
    fake_file(&fake, "u", "../cpu.weight", "");
    buf_printf(&fake.mounts, "30 28 0:26 / %s/u rw - cgroup2 cgroup2 rw\n", fake.dir);
    assert_int_equal(cgroup_parse(buf_view(&fake.mounts), STR("cpu memory pids"), "/berth", &cg, NULL), 0);
    cgroup_make_parent(cg);
    check_file(&fake, "u/cgroup.subtree_control", "+pidsry");
    weight = mem_printf("%ld", 100 * sysconf(_SC_NPROCESSORS_ONLN));
    check_file(&fake, "u/berth/cpu.weight", weight);
    fake_done(&fake);
}

static void test_folders_of_any_depth_and_name_are_removed(void **state)
{
    static const char *const names[] = {"x", ".hidden", "y"};
    CLEANUP(cgroup_free) struct cgroup *cg = NULL;
    CLEANUP(free) char *top = NULL;
    struct fake fake;
    struct err err = {0};
    int fd;

    (void)state;
    fake_init(&fake);
    top = mem_printf("%s/u/berth/a", fake.dir);
    assert_int_equal(dir_make(top, 0700, &err), 0);
    fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int depth = 0; depth < 3000; depth++) { /* longer than a path may be */
        int below;

        for (size_t i = 0; i < ARRAY_LEN(names); i++)
            assert_int_equal(mkdirat(fd, names[i], 0700), 0);
        below = openat(fd, names[depth % 2], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = below;
        assert_true(fd >= 0);
    }
    close(fd);
    buf_printf(&fake.mounts, "30 28 0:26 / %s/u rw - cgroup2 cgroup2 rw\n", fake.dir);
    assert_int_equal(cgroup_parse(buf_view(&fake.mounts), STR("cpu memory pids"), "/berth", &cg, NULL), 0);
    if (cgroup_remove(cg, "a", &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(access(top, F_OK), -1);
    fake_done(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_folders_of_any_depth_and_name_are_removed),
        cmocka_unit_test(test_v2_is_found),
        cmocka_unit_test(test_v1_is_found),
        cmocka_unit_test(test_hybrid_hides_its_v2_mount),
        cmocka_unit_test(test_a_v2_mount_without_controllers_is_no_hybrid),
        cmocka_unit_test(test_what_is_missing_is_named),
        cmocka_unit_test(test_figures_of_v2),
        cmocka_unit_test(test_v2_has_controllers_switched_on_and_a_weight),
        cmocka_unit_test(test_figures_of_a_hybrid_machine_are_those_of_v1),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
