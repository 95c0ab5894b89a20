/* Which cgroups a machine has, from its mountinfo. */
#include "base/test/test.h"
#include "runtime/cgroup.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_v2_is_found),
        cmocka_unit_test(test_v1_is_found),
        cmocka_unit_test(test_hybrid_hides_its_v2_mount),
        cmocka_unit_test(test_a_v2_mount_without_controllers_is_no_hybrid),
        cmocka_unit_test(test_what_is_missing_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
