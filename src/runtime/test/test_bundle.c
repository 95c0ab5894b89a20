/* config.json: what stands in it for which spec. */
#include "base/json.h"
#include "base/mem.h"
#include "base/test/test.h"
#include "runtime/bundle.h"
#include "runtime/bundle_caps.h"
#include "runtime/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *const args[] = {"/bin/true", "x y", NULL};

struct fixture {
    struct arena arena;
    struct bundle_host host;
    struct runtime_spec spec;
    struct err err;
};

static int set_up(void **state)
{
    struct fixture *f = NEW(struct fixture);

    f->host = (struct bundle_host){.crun = true,
                                   .cgroup_parent = "/berth",
                                   .seccomp = seccomp_new(),
                                   .caps_own = CAPS_ALL,
                                   .rlimit_max = 20000,
                                   .init_path = "/usr/bin/tini-static",
                                   .fd_dir = "/state/c1/mnt"};
    f->spec = (struct runtime_spec){.id = "c1", .rootfs = "/rootfs", .args = args};
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    seccomp_free(f->host.seccomp);
    arena_done(&f->arena);
    free(f);
    return 0;
}

static struct json *make(struct fixture *f)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct json *doc;

    if (bundle_config(&f->host, &f->spec, &text, &f->err) < 0)
        fail_msg("%s", f->err.msg);
    assert_int_equal(json_parse(buf_view(&text), &f->arena, &doc, NULL, NULL), 0);
    return doc;
}

static const struct json *mount_at(const struct json *doc, const char *target)
{
    const struct json *found = NULL;

    JSON_EACH(json_get(doc, "mounts"), it)
        if (streq(json_get_string(it, "destination"), target)) {
            assert_null(found);
            found = it;
        }
    return found;
}

static bool has(const struct json *array, const char *word)
{
    JSON_EACH(array, it)
        if (streq(json_string(it), word))
            return true;
    return false;
}

static bool has_ns(const struct json *doc, const char *type)
{
    JSON_EACH(json_at(doc, "linux.namespaces"), it)
        if (streq(json_get_string(it, "type"), type))
            return true;
    return false;
}

static void test_the_plain_container(void **state)
{
    const struct json *doc = make(*state);

    assert_string_equal(json_at_string(doc, "process.args.1"), "x y");
    assert_string_equal(json_at_string(doc, "process.cwd"), "/");
    assert_string_equal(json_at_string(doc, "root.path"), "/rootfs");
    assert_string_equal(json_at_string(doc, "linux.cgroupsPath"), "/berth/c1");
    assert_int_equal(json_len(json_at(doc, "process.capabilities.bounding")), 14);
    assert_null(json_at(doc, "process.capabilities.inheritable"));
    assert_true(has(json_at(doc, "process.env"),
                    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
    assert_true(has_ns(doc, "mount") && has_ns(doc, "pid") && has_ns(doc, "network") && has_ns(doc, "ipc") &&
                has_ns(doc, "uts"));
    assert_false(has_ns(doc, "cgroup"));
    assert_true(has(json_at(doc, "linux.maskedPaths"), "/proc/kcore"));
    assert_true(has(json_get(mount_at(doc, "/sys"), "options"), "ro"));
    assert_false(json_bool(json_at(doc, "linux.resources.devices.0.allow")));
    assert_null(json_at(doc, "linux.resources.memory"));
}

static void test_v2_has_a_cgroup_namespace(void **state)
{
    struct fixture *f = *state;

    f->host.cgroups = RUNTIME_CGROUPS_V2;
    assert_true(has_ns(make(f), "cgroup"));
}

static void test_limits(void **state)
{
    struct fixture *f = *state;
    const struct json *doc;

    f->spec.cpu_milli = 1500;
    f->spec.memory_bytes = 1 << 30;
    f->spec.pids_max = 100;
    f->spec.cpu_shares = 2048;
    doc = make(f);
    assert_int_equal(json_int(json_at(doc, "linux.resources.cpu.quota"), 0), 150000);
    assert_int_equal(json_int(json_at(doc, "linux.resources.cpu.period"), 0), 100000);
    assert_int_equal(json_int(json_at(doc, "linux.resources.cpu.shares"), 0), 2048);
    assert_int_equal(json_int(json_at(doc, "linux.resources.memory.limit"), 0), 1 << 30);
    assert_null(json_at(doc, "linux.resources.memory.swap"));
    assert_int_equal(json_int(json_at(doc, "linux.resources.pids.limit"), 0), 100);
    f->host.has_swap = true;
    f->spec.cpu_milli = 1;
    doc = make(f);
    assert_int_equal(json_int(json_at(doc, "linux.resources.memory.swap"), 0), 1 << 30);
    assert_int_equal(json_int(json_at(doc, "linux.resources.cpu.quota"), 0), 1000);
    f->spec.cpu_milli = INT64_MAX;
    assert_int_equal(json_int(json_at(make(f), "linux.resources.cpu.quota"), 0), 100000000000);
}

static void test_capabilities_are_dropped_then_added(void **state)
{
    struct fixture *f = *state;
    const char *const add[] = {"SYS_PTRACE", "cap_net_admin", NULL}, *const drop[] = {"ALL", NULL};
    const struct json *caps;

    f->spec.cap_add = add;
    f->spec.cap_drop = drop;
    caps = json_at(make(f), "process.capabilities.effective");
    assert_int_equal(json_len(caps), 2);
    assert_true(has(caps, "CAP_SYS_PTRACE") && has(caps, "CAP_NET_ADMIN"));
}

static void test_only_own_capabilities_are_given(void **state)
{
    struct fixture *f = *state;
    const struct json *doc;

    f->spec.privileged = true;
    f->host.caps_own = CAPS_ALL & ~caps_mask("CAP_SYS_RESOURCE");
    doc = make(f);
    assert_int_equal(json_len(json_at(doc, "process.capabilities.bounding")), CAPS_COUNT - 1);
    assert_true(json_bool(json_at(doc, "linux.resources.devices.0.allow")));
    assert_null(json_at(doc, "linux.maskedPaths"));
    assert_null(json_get(json_get(doc, "annotations"), "run.oci.seccomp_bpf_data"));
}

/* What an ioctl on a pipe says under the filter: 0, or the first request (all with one half) that is refused
 * and should not be, or is not and should be. */
static uint32_t wrong_ioctl(int fd)
{
    for (uint32_t low = 0; low <= UINT16_MAX; low++) {
        bool forbidden = low == (FS_IOC_FSSETXATTR & UINT16_MAX) || low == (FS_IOC_SETFLAGS & UINT16_MAX);

        errno = 0;
        syscall(SYS_ioctl, fd, 0x7fff40000000UL | low, NULL); /* the filter must not be led astray */
        if (forbidden ? errno != EPERM : errno == EPERM || errno == ENOSYS)
            return low;
    }
    return 0;
}

static void test_quotas_cannot_be_left_by_ioctl(void **state)
{
    struct seccomp *seccomp = seccomp_new();
    CLEANUP(buf_done) struct buf program = {0};
    const char *base64;
    int fds[2], status = 0;
    pid_t pid;

    (void)state;
    assert_int_equal(seccomp_bpf(seccomp, 0, &base64, NULL), 0);
    assert_true(buf_base64_decode(&program, str_from(base64)));
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    pid = fork();
    if (pid == 0) {
        struct sock_fprog filter = {(unsigned short)(program.len / sizeof(struct sock_filter)),
                                    (struct sock_filter *)(void *)program.data};

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) < 0)
            _exit(2);
        _exit(wrong_ioctl(fds[0]) ? 1 : 0);
    }
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    seccomp_free(seccomp);
}

static void test_seccomp_is_compiled_for_crun_and_listed_for_runc(void **state)
{
    struct fixture *f = *state;
    const struct json *doc = make(f);
    CLEANUP(buf_done) struct buf program = {0};

    assert_null(json_at(doc, "linux.seccomp"));
    assert_true(buf_base64_decode(
        &program, json_str(json_get(json_get(doc, "annotations"), "run.oci.seccomp_bpf_data"))));
    assert_true(program.len > 1000 && program.len % 8 == 0);
    f->host.crun = false;
    doc = make(f);
    assert_null(json_get(json_get(doc, "annotations"), "run.oci.seccomp_bpf_data"));
    assert_string_equal(json_at_string(doc, "linux.seccomp.defaultAction"), "SCMP_ACT_ERRNO");
    assert_true(json_len(json_at(doc, "linux.seccomp.syscalls.0.names")) > 300);
    f->spec.seccomp_unconfined = true;
    assert_null(json_at(make(f), "linux.seccomp"));
}

static void test_users_cannot_steer_the_oci_runtime_by_annotations(void **state)
{
    struct fixture *f = *state;
    const struct runtime_pair pairs[] = {{"run.oci.hooks.stdout", "/etc/passwd"}, {"team", "cv"}};
    const struct json *annotations;

    f->spec.annotations = pairs;
    f->spec.annotations_len = 2;
    f->spec.seccomp_unconfined = true;
    annotations = json_get(make(f), "annotations");
    assert_int_equal(json_len(annotations), 1);
    assert_string_equal(json_get_string(annotations, "team"), "cv");
}

static void test_rlimits_and_oom_score_are_clamped(void **state)
{
    struct fixture *f = *state;
    const struct runtime_rlimit limits[] = {{"RLIMIT_NOFILE", 1024, 1 << 20},
                                            {"RLIMIT_CORE", UINT64_MAX, UINT64_MAX}};
    const struct json *doc;

    f->spec.rlimits = limits;
    f->spec.rlimits_len = 2;
    f->spec.oom_score_adj = -500;
    f->host.oom_score_own = 3;
    doc = make(f);
    assert_int_equal(json_int(json_at(doc, "process.rlimits.0.hard"), 0), 20000);
    assert_int_equal(json_int(json_at(doc, "process.rlimits.0.soft"), 0), 1024);
    assert_int_equal(json_int(json_at(doc, "process.rlimits.1.soft"), 0), 20000);
    assert_int_equal(json_int(json_at(doc, "process.oomScoreAdj"), 0), 3);
}

static void test_mounts(void **state)
{
    struct fixture *f = *state;
    const struct runtime_mount mounts[] = {
        {.source = "/data", .target = "/data", .flags = RUNTIME_MOUNT_RO | RUNTIME_MOUNT_REC},
        {.source_fd = 7, .target = "/fd"},
        {.source = "shm", .target = "/dev/shm", .type = "tmpfs", .options = "size=1g,mode=1777"},
    };
    const struct json *doc, *mount;

    f->spec.mounts = mounts;
    f->spec.mounts_len = 3;
    f->spec.init = true;
    doc = make(f);
    mount = mount_at(doc, "/data");
    assert_true(has(json_get(mount, "options"), "rbind") && has(json_get(mount, "options"), "ro"));
    assert_string_equal(json_get_string(mount_at(doc, "/fd"), "source"), "/state/c1/mnt/1");
    assert_true(has(json_get(mount_at(doc, "/dev/shm"), "options"), "size=1g"));
    assert_non_null(mount_at(doc, BUNDLE_INIT));
    assert_string_equal(json_at_string(doc, "process.args.0"), BUNDLE_INIT);
    assert_string_equal(json_at_string(doc, "process.args.2"), "/bin/true");
}

static void test_devices_and_hooks(void **state)
{
    struct fixture *f = *state;
    const struct runtime_device device = {.path = "/dev/nvidia0", .type = 'c', .major = 195, .access = "rw"};
    const char *const hook_args[] = {"hook", "create-symlinks", NULL};
    const struct runtime_hook hook = {.when = "createContainer", .path = "/usr/bin/hook", .args = hook_args};
    const struct json *doc;

    f->spec.devices = &device;
    f->spec.devices_len = 1;
    f->spec.hooks = &hook;
    f->spec.hooks_len = 1;
    doc = make(f);
    assert_string_equal(json_at_string(doc, "linux.devices.0.path"), "/dev/nvidia0");
    assert_int_equal(json_int(json_at(doc, "linux.resources.devices.1.major"), 0), 195);
    assert_string_equal(json_at_string(doc, "linux.resources.devices.1.access"), "rw");
    assert_string_equal(json_at_string(doc, "hooks.createContainer.0.args.1"), "create-symlinks");
}

static void test_namespaces_of_the_host_and_of_others(void **state)
{
    struct fixture *f = *state;
    const struct json *doc;

    f->spec.net.mode = RUNTIME_NS_HOST;
    f->spec.ipc = (struct runtime_ns){RUNTIME_NS_PATH, "/run/berth/ns/p.ipc"};
    f->spec.uts = (struct runtime_ns){RUNTIME_NS_PATH, "/run/berth/ns/p.uts"};
    f->spec.hostname = "ignored";
    doc = make(f);
    assert_false(has_ns(doc, "network"));
    assert_string_equal(json_at_string(doc, "linux.namespaces.2.path"), "/run/berth/ns/p.ipc");
    assert_null(json_get(doc, "hostname"));
}

static void refuse(struct fixture *f, enum err_code code, const char *sentence)
{
    CLEANUP(buf_done) struct buf text = {0};

    f->err = (struct err){0};
    assert_int_equal(bundle_config(&f->host, &f->spec, &text, &f->err), -1);
    assert_int_equal(f->err.code, code);
    assert_string_equal(f->err.msg, sentence);
}

static void test_what_is_wrong_is_said(void **state)
{
    struct fixture *f = *state;
    const char *const none[] = {NULL}, *const bad_env[] = {"=x", NULL}, *const bad_cap[] = {"FLY", NULL};
    const struct runtime_mount up = {.source = "/", .target = "/a/../../b"},
                               rel = {.source = "x", .target = "/b"};
    const struct runtime_mount kernel = {.source = "/a", .target = "/./proc//self"};
    struct runtime_spec good = f->spec;

    f->spec.id = "../x";
    refuse(f, ERR_INVALID, "container id '../x' is not valid");
    f->spec = good;
    f->spec.args = none;
    refuse(f, ERR_INVALID, "no command specified");
    f->spec = good;
    f->spec.env = bad_env;
    refuse(f, ERR_INVALID, "environment '=x' has no name");
    f->spec = good;
    f->spec.cap_add = bad_cap;
    refuse(f, ERR_INVALID, "unknown capability 'FLY'");
    f->spec = good;
    f->spec.mounts = &up;
    f->spec.mounts_len = 1;
    refuse(f, ERR_INVALID, "mount target '/a/../../b' must be an absolute path below / without '..'");
    f->spec.mounts = &kernel;
    refuse(f, ERR_INVALID, "mount target '/./proc//self' is inside /proc");
    f->spec.mounts = &rel;
    refuse(f, ERR_INVALID, "mount of '/b': source 'x' must be an absolute path");
    f->spec = good;
    f->spec.init = true;
    f->host.init_path = NULL;
    refuse(f, ERR_NOT_FOUND, "an init process is wanted, but tini-static is not installed");
}

static void test_ids(void **state)
{
    char longest[RUNTIME_ID_MAX + 2];

    (void)state;
    memset(longest, 'a', sizeof(longest));
    longest[RUNTIME_ID_MAX + 1] = '\0';
    assert_false(bundle_id_valid(longest));
    longest[RUNTIME_ID_MAX] = '\0';
    assert_true(bundle_id_valid(longest));
    assert_true(bundle_id_valid("a-1_b.C"));
    assert_false(bundle_id_valid(""));
    assert_false(bundle_id_valid(".a"));
    assert_false(bundle_id_valid("-a"));
    assert_false(bundle_id_valid("a/b"));
    assert_false(bundle_id_valid("a b"));
}

static void test_a_command_takes_over_what_it_does_not_say(void **state)
{
    struct fixture *f = *state;
    const gid_t groups[] = {5, 6};
    const char *const env[] = {"A=b", NULL}, *const sh[] = {"sh", NULL};
    const uid_t root = 0;
    struct runtime_exec exec = {.args = sh};
    struct bundle_user user;
    CLEANUP(buf_done) struct buf config = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct json *doc;

    f->spec.env = env;
    f->spec.uid = 1000;
    f->spec.gid = 1001;
    f->spec.groups = groups;
    f->spec.groups_len = 2;
    f->spec.init = true;
    assert_int_equal(bundle_config(&f->host, &f->spec, &config, NULL), 0);
    assert_int_equal(bundle_process(buf_view(&config), &exec, &text, &user, NULL), 0);
    assert_int_equal(json_parse(buf_view(&text), &f->arena, &doc, NULL, NULL), 0);
    assert_string_equal(json_at_string(doc, "args.0"), "sh");
    assert_true(has(json_get(doc, "env"), "A=b"));
    assert_int_equal(json_int(json_at(doc, "user.uid"), 0), 1000);
    assert_int_equal(json_len(json_at(doc, "user.additionalGids")), 2);
    assert_int_equal(user.gid, 1001);
    exec.uid = &root;
    exec.tty = true;
    exec.rows = 50;
    buf_clear(&text);
    assert_int_equal(bundle_process(buf_view(&config), &exec, &text, &user, NULL), 0);
    assert_int_equal(json_parse(buf_view(&text), &f->arena, &doc, NULL, NULL), 0);
    assert_true(json_bool(json_get(doc, "terminal")));
    assert_int_equal(json_int(json_at(doc, "consoleSize.height"), 0), 50);
    assert_int_equal(user.uid, 0);
    assert_int_equal(json_len(json_at(doc, "user.additionalGids")), 0);
    assert_true(has(json_get(doc, "env"), "TERM=xterm"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_the_plain_container),
        TEST(test_v2_has_a_cgroup_namespace),
        TEST(test_limits),
        TEST(test_capabilities_are_dropped_then_added),
        TEST(test_only_own_capabilities_are_given),
        TEST(test_quotas_cannot_be_left_by_ioctl),
        TEST(test_seccomp_is_compiled_for_crun_and_listed_for_runc),
        TEST(test_users_cannot_steer_the_oci_runtime_by_annotations),
        TEST(test_rlimits_and_oom_score_are_clamped),
        TEST(test_mounts),
        TEST(test_devices_and_hooks),
        TEST(test_namespaces_of_the_host_and_of_others),
        TEST(test_what_is_wrong_is_said),
        TEST(test_ids),
        TEST(test_a_command_takes_over_what_it_does_not_say),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
