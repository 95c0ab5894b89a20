/* Real containers, from start to removal. */
#include "base/file.h"
#include "base/mem.h"
#include "live.h"
#include "runtime/runtime_internal.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

static void test_exit_code_and_both_outputs_are_kept(void **state)
{
    struct box box;
    CLEANUP(buf_done) struct buf text = {0};

    box_run(*state, &box, "echo out; echo err >&2; printf tail; exit 3");
    box_wait(&box);
    assert_int_equal(box.how.end, RUNTIME_END_EXITED);
    assert_int_equal(box.how.code, 3);
    assert_int_equal(box.how.signal, 0);
    assert_false(box.how.oom);
    assert_true(box.how.finished >= box.how.started && box.how.started > 0);
    box_output(&box, "stdout", &text);
    assert_string_equal(text.data, "out\ntail");
    box_output(&box, "stderr", &text);
    assert_string_equal(text.data, "err\n");
    box_remove(&box);
}

static void test_shims_come_from_another_process_when_theirs_is_killed(void **state)
{
    struct live *live = *state;
    struct box first, second;

    box_run(live, &first, "exec sleep 100");
    kill(live->rt->nursery_pid, SIGKILL);
    box_run(live, &second, "exit 3");
    box_wait(&second);
    assert_int_equal(second.how.code, 3);
    assert_int_equal(runtime_signal(first.c, 0, NULL), 0); /* it runs on */
    box_remove(&second);
    box_remove(&first);
}

static void remove_folder(const struct box *box)
{
    CLEANUP(free) char *dir = mem_printf("%s/%s", box->live->rt->state_dir, box->id);
    CLEANUP(free) char *oci = mem_printf("%s/%s", box->live->rt->oci_root, box->id);

    removal_tree(dir);
    removal_tree(oci);
    assert_int_not_equal(access(dir, F_OK), 0);
}

static bool has_file(const struct box *box, const char *name)
{
    CLEANUP(free) char *path = mem_printf("%s/%s/%s", box->live->rt->state_dir, box->id, name);

    return access(path, F_OK) == 0;
}

static void test_removed_folder_of_a_running_container_is_made_again(void **state)
{
    struct live *live = *state;
    struct box box;
    struct pipe_box pipe = {0};

    box_run(live, &box, "while [ ! -e /tmp/end ]; do sleep 0.05; done; exit 7");
    assert_int_equal(runtime_mend(live->rt), 0);
    remove_folder(&box);
    assert_int_equal(runtime_mend(live->rt), 1);
    UNTIL(live, has_file(&box, "shim.sock"));
    pipe_sh(&box, "echo in; touch /tmp/end", &pipe); /* commands run in it again */
    assert_string_equal(pipe.out[0].data, "in\n");
    pipe_done(&pipe);
    box_wait(&box);
    assert_int_equal(box.how.end, RUNTIME_END_EXITED);
    assert_int_equal(box.how.code, 7);
    box_remove(&box);
}

static void test_restart_without_folders_finds_running_containers(void **state)
{
    struct live *live = *state;
    struct box box;

    box_run(live, &box, "exec sleep 100");
    remove_folder(&box);
    live_restart(live);
    assert_int_equal(runtime_rescue(live->rt), 1);
    assert_int_equal(runtime_rescue(live->rt), 0);
    box.started = 0;
    assert_int_equal(runtime_pid(live->rt, box.id), box.pid);
    assert_int_equal(runtime_adopt(live->rt, box.id, &box_events, &box, &box.c, NULL), 0);
    UNTIL(live, box.started);
    assert_int_equal(runtime_signal(box.c, SIGKILL, NULL), 0);
    box_wait(&box);
    assert_int_equal(box.how.signal, SIGKILL);
    box_remove(&box);
}

static void test_exit_that_nobody_heard_is_kept_without_its_folder(void **state)
{
    struct live *live = *state;
    struct box box;
    pid_t pid;

    box_run(live, &box, "exec sleep 100");
    pid = box.pid;
    runtime_forget(box.c);
    remove_folder(&box);
    kill(pid, SIGTERM);
    kill(pid, SIGKILL);
    box.exited = 0;
    UNTIL(live, has_file(&box, "exit"));
    assert_int_equal(runtime_adopt(live->rt, box.id, &box_events, &box, &box.c, NULL), 0);
    box_wait(&box);
    assert_int_equal(box.how.end, RUNTIME_END_EXITED);
    assert_int_equal(box.how.signal, SIGKILL);
    box_remove(&box);
}

static void test_a_signal_is_told(void **state)
{
    struct box box;

    box_run(*state, &box, "exec sleep 100");
    assert_int_equal(runtime_signal(box.c, SIGKILL, NULL), 0);
    box_wait(&box);
    assert_int_equal(box.how.signal, SIGKILL);
    assert_int_equal(box.how.code, 137);
    assert_int_equal(runtime_signal(box.c, SIGKILL, NULL), -1);
    box_remove(&box);
}

static void test_what_cannot_be_started_fails_with_a_sentence(void **state)
{
    struct live *live = *state;
    struct box box;
    const char *const args[] = {"/no/such/program", NULL};
    struct runtime_spec spec = box_spec(live, &box, NULL);

    spec.args = args;
    box_start(&box, &spec);
    UNTIL(live, box.failed);
    assert_int_equal(box.started, 0);
    assert_non_null(strstr(box.sentence, "/no/such/program"));
    box_remove(&box);
}

static void test_specs_are_refused_at_once(void **state)
{
    struct live *live = *state;
    struct box box, other;
    struct runtime_spec spec = box_spec(live, &box, "exec sleep 100");
    struct runtime_container *c;
    struct err err = {0};

    spec.rootfs = "/no/such/rootfs";
    assert_int_equal(runtime_start(live->rt, &spec, &box_events, &other, &c, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    spec.rootfs = live->rootfs;
    box_start(&box, &spec);
    assert_int_equal(runtime_start(live->rt, &spec, &box_events, &other, &c, &err), -1);
    assert_int_equal(err.code, ERR_EXISTS);
    UNTIL(live, box.started);
    box_remove(&box);
}

static void test_TERM_without_init_needs_the_KILL_and_with_init_not(void **state)
{
    struct live *live = *state;
    struct box box;
    struct runtime_spec spec = box_spec(live, &box, "exec sleep 100");

    box_start(&box, &spec);
    UNTIL(live, box.started);
    runtime_stop(box.c, 0, 300 * NSEC_PER_MSEC);
    box_wait(&box);
    assert_int_equal(box.how.signal, SIGKILL);
    assert_true(box.how.finished - box.how.started >= 250 * NSEC_PER_MSEC);
    box_remove(&box);

    spec = box_spec(live, &box, "exec sleep 100");
    spec.init = true;
    box_start(&box, &spec);
    UNTIL(live, box.started);
    loop_turn(live->loop, 50, NULL); /* tini needs a moment to have its child */
    runtime_stop(box.c, 0, 20 * NSEC_PER_SEC);
    box_wait(&box);
    assert_int_equal(box.how.code, 143);
    assert_true(box.how.finished - box.how.started < 15 * NSEC_PER_SEC);
    box_remove(&box);
}

static void test_want_of_memory_is_told(void **state)
{
    struct live *live = *state;
    struct box box;
    struct runtime_spec spec = box_spec(live, &box, "head -c 200m /dev/zero | tail; echo survived; exit 7");

    spec.memory_bytes = 16 << 20;
    box_start(&box, &spec);
    box_wait(&box);
    assert_true(box.how.oom);
    assert_int_equal(box.how.code, 7); /* the shell lives; only its child was killed */
    box_remove(&box);
}

static void test_the_user_the_limits_and_the_walls(void **state)
{
    struct live *live = *state;
    struct box box;
    CLEANUP(buf_done) struct buf text = {0};
    const gid_t groups[] = {4001, 4002};
    const char *const env[] = {"COLOUR=blue green", NULL};
    const struct runtime_device device = {.path = "/dev/extra", .type = 'c', .major = 1, .minor = 3};
    struct runtime_spec spec = box_spec(
        live, &box,
        "id; echo $COLOUR; hostname; grep -E '^(Seccomp|NoNewPrivs|CapBnd):' /proc/self/status; "
        "touch /x 2>/dev/null || echo readonly; echo hello > /dev/extra && echo device; pwd; cat /dev/fd/0; "
        "echo again > /dev/stdout; cat /proc/sys/net/ipv4/ip_unprivileged_port_start; ls /sys/fs/cgroup | "
        "head -1");
    const struct runtime_pair sysctl = {"net.ipv4.ip_unprivileged_port_start", "0"};

    spec.uid = 4000;
    spec.gid = 4001;
    spec.groups = groups;
    spec.groups_len = 2;
    spec.env = env;
    spec.hostname = "box-host";
    spec.no_new_privileges = true;
    spec.rootfs_readonly = true;
    spec.devices = &device;
    spec.devices_len = 1;
    spec.cwd = "/tmp";
    spec.sysctls = &sysctl;
    spec.sysctls_len = 1;
    spec.cpu_milli = 500;
    spec.pids_max = 50;
    box_start(&box, &spec);
    box_wait(&box);
    box_output(&box, "stdout", &text);
    assert_non_null(strstr(text.data, "uid=4000 gid=4001 groups=4001,4002"));
    assert_non_null(strstr(text.data, "blue green\nbox-host\n"));
    assert_non_null(strstr(text.data, "NoNewPrivs:\t1"));
    assert_non_null(strstr(text.data, "Seccomp:\t2"));
    assert_non_null(strstr(text.data, "CapBnd:\t00000000a80425fb"));
    assert_non_null(strstr(text.data, "readonly\ndevice\n/tmp\nagain\n0\n"));
    box_remove(&box);
}

static void test_seccomp_refuses_what_needs_a_capability(void **state)
{
    struct box box;
    CLEANUP(buf_done) struct buf text = {0};

    box_run(*state, &box, "/bin/busybox unshare -m true 2>&1; /bin/busybox mount -t tmpfs x /tmp 2>&1; true");
    box_wait(&box);
    box_output(&box, NULL, &text);
    assert_non_null(strstr(text.data, "unshare: unshare(0x20000): Operation not permitted"));
    assert_non_null(strstr(text.data, "mount: permission denied"));
    box_remove(&box);
}

static void test_mounts_by_path_and_by_descriptor(void **state)
{
    struct live *live = *state;
    struct box box;
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(free) char *data = mem_printf("%s/data", live->dir);
    CLEANUP(free) char *file = mem_printf("%s/data/file", live->dir);
    struct runtime_spec spec;
    int fd;

    assert_int_equal(dir_make(data, 0755, NULL), 0);
    assert_int_equal(file_write_atomic(file, STR("content\n"), 0644, NULL), 0);
    fd = open(data, O_PATH | O_CLOEXEC);
    spec = box_spec(
        live, &box,
        "cat /mnt/ro/file /mnt/fd/file; touch /mnt/ro/x 2>/dev/null || echo ro; touch /mnt/fd/x && echo rw");
    spec.mounts = (const struct runtime_mount[]){
        {.source = data, .target = "/mnt/ro", .flags = RUNTIME_MOUNT_RO},
        {.source_fd = fd, .target = "/mnt/fd"},
    };
    spec.mounts_len = 2;
    box_start(&box, &spec);
    box_wait(&box);
    close(fd);
    box_output(&box, NULL, &text);
    assert_string_equal(text.data, "content\ncontent\nro\nrw\n");
    box_remove(&box);
}

static void test_a_privileged_container_has_everything(void **state)
{
    struct live *live = *state;
    struct box box;
    CLEANUP(buf_done) struct buf text = {0};
    struct runtime_spec spec =
        box_spec(live, &box,
                 "grep Seccomp: /proc/self/status; /bin/busybox mount -t tmpfs x /tmp && echo "
                 "mounted; test -c /dev/kmsg && echo kmsg");

    spec.privileged = true;
    box_start(&box, &spec);
    box_wait(&box);
    box_output(&box, NULL, &text);
    assert_non_null(strstr(text.data, "Seccomp:\t0\nmounted\n"));
    if (access("/dev/kmsg", F_OK) == 0)
        assert_non_null(strstr(text.data, "kmsg"));
    box_remove(&box);
}

static void test_the_pause_program_holds_a_pid_namespace(void **state)
{
    struct live *live = *state;
    struct box pause, box;
    CLEANUP(buf_done) struct buf text = {0};
    const char *const args[] = {"/dev/pause", "pause", NULL};
    char pid_ns[64];
    struct runtime_spec spec = box_spec(live, &pause, NULL);

    spec.args = args;
    spec.mounts = &(const struct runtime_mount){
        .source = runtime_shim_path(live->rt), .target = "/dev/pause", .flags = RUNTIME_MOUNT_RO};
    spec.mounts_len = 1;
    box_start(&pause, &spec);
    UNTIL(live, pause.started);
    spec = box_spec(live, &box, "sleep 100 & tr '\\0' ' ' < /proc/1/cmdline");
    snprintf(pid_ns, sizeof(pid_ns), "/proc/%d/ns/pid", (int)pause.pid);
    spec.pid = (struct runtime_ns){RUNTIME_NS_PATH, pid_ns};
    box_start(&box, &spec);
    box_wait(&box); /* the sleep it leaves behind goes with its cgroup */
    box_output(&box, NULL, &text);
    assert_string_equal(text.data, "/dev/pause pause ");
    box_remove(&box);
    runtime_stop(pause.c, SIGTERM, 10 * NSEC_PER_SEC);
    box_wait(&pause);
    assert_int_equal(pause.how.code, 0);
    box_remove(&pause);
}

static void test_pods_share_namespaces(void **state)
{
    struct live *live = *state;
    struct box box;
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(free) char *ipc = runtime_ns_path(live->rt, "pod1", "ipc");
    CLEANUP(free) char *uts = runtime_ns_path(live->rt, "pod1", "uts");
    char own[64], pid_ns[64];
    struct runtime_spec spec;
    struct box first;

    assert_int_equal(runtime_ns_pin(live->rt, "pod1", "pod-one", NULL), 0);
    assert_int_equal(runtime_ns_pin(live->rt, "pod1", "pod-one", NULL), 0);
    box_run(live, &first, "exec sleep 100");
    spec = box_spec(live, &box, "hostname; test -d /proc/1 && tr '\\0' ' ' < /proc/1/cmdline");
    spec.ipc = (struct runtime_ns){RUNTIME_NS_PATH, ipc};
    spec.uts = (struct runtime_ns){RUNTIME_NS_PATH, uts};
    snprintf(pid_ns, sizeof(pid_ns), "/proc/%d/ns/pid", (int)first.pid);
    spec.pid = (struct runtime_ns){RUNTIME_NS_PATH, pid_ns};
    spec.net.mode = RUNTIME_NS_HOST;
    box_start(&box, &spec);
    box_wait(&box);
    box_output(&box, NULL, &text);
    assert_string_equal(text.data, "pod-one\nsleep 100 ");
    assert_int_equal(gethostname(own, sizeof(own)), 0);
    assert_string_not_equal(own, "pod-one");
    box_remove(&box);
    box_remove(&first);
    runtime_ns_unpin(live->rt, "pod1");
    assert_int_equal(access(ipc, F_OK), -1);
}

static void test_figures(void **state)
{
    struct live *live = *state;
    struct box box;
    struct runtime_stats stats = {0};
    struct err err = {0};

    box_run(live, &box, "while true; do true; done");
    for (int i = 0; i < 10; i++)
        loop_turn(live->loop, 20, NULL);
    UNTIL(live, runtime_stats(box.c, &stats, &err) == 0 && stats.cpu_ns > 10 * NSEC_PER_MSEC);
    assert_true(stats.memory_bytes > 0 && stats.working_set_bytes <= stats.memory_bytes);
    assert_true(stats.pids >= 1);
    runtime_kill_all(box.c);
    box_wait(&box);
    box_remove(&box);
}

static void test_a_daemon_restart_finds_what_runs_and_what_ended(void **state)
{
    struct live *live = *state;
    struct box runs, ended, gone;
    struct pipe_box p = {0};
    CLEANUP(free) char *conf = NULL;
    CLEANUP(buf_done) struct buf text = {0};
    pid_t pid;
    char **ids;
    size_t len;

    box_run(live, &runs, "echo before; sleep 1; while true; do sleep 0.1; done");
    box_run(live, &ended, "sleep 0.2; exit 8");
    box_run(live, &gone, "exec sleep 100");
    pid = runs.pid;
    live_restart(live);
    assert_int_equal(runtime_list(live->rt, &ids, &len, NULL), 0);
    assert_int_equal(len, 3);
    runtime_list_free(ids, len);
    usleep(1500000);
    /* A machine that was started anew: nothing runs, and the folder is of another boot. */
    kill(gone.pid, SIGKILL);
    conf = mem_printf("%s/containers/%s/exit", live->dir, gone.id);
    for (int i = 0; i < 500 && access(conf, F_OK) < 0; i++)
        usleep(10000);
    usleep(300000);
    assert_int_equal(unlink(conf), 0);
    free(TAKE_PTR(conf));
    conf = mem_printf("%s/containers/%s/shim.conf", live->dir, gone.id);
    assert_int_equal(file_write_atomic(conf, STR("boot=other"), 0600, NULL), 0);
    free(TAKE_PTR(conf));
    conf = mem_printf("%s/containers/%s/shim.sock", live->dir, gone.id);
    assert_int_equal(file_write_atomic(conf, STR(""), 0600, NULL), 0);

    runs.started = ended.started = gone.started = 0;
    assert_int_equal(runtime_adopt(live->rt, runs.id, &box_events, &runs, &runs.c, NULL), 0);
    assert_int_equal(runtime_adopt(live->rt, ended.id, &box_events, &ended, &ended.c, NULL), 0);
    assert_int_equal(runtime_adopt(live->rt, gone.id, &box_events, &gone, &gone.c, NULL), 0);
    UNTIL(live, runs.started && ended.exited && gone.exited);
    assert_int_equal(runs.pid, pid);
    assert_int_equal(ended.how.end, RUNTIME_END_EXITED);
    assert_int_equal(ended.how.code, 8);
    assert_int_equal(gone.how.end, RUNTIME_END_VANISHED);
    pipe_sh(&runs, "echo still here", &p);
    assert_string_equal(p.out[0].data, "still here\n");
    pipe_done(&p);
    runtime_stop(runs.c, SIGTERM, 100 * NSEC_PER_MSEC);
    box_wait(&runs);
    box_output(&runs, "stdout", &text);
    assert_string_equal(text.data, "before\n");
    box_remove(&runs);
    box_remove(&ended);
    box_remove(&gone);
}

static void test_a_daemon_killed_before_it_started_the_shim(void **state)
{
    struct live *live = *state;
    CLEANUP(free) char *dir = mem_printf("%s/containers/early", live->dir);
    CLEANUP(free) char *conf = mem_printf("%s/shim.conf", dir);
    struct box early = {0};
    struct err err = {0};

    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(file_write_atomic(conf, STR("boot="), 0600, NULL), 0);
    assert_int_equal(runtime_adopt(live->rt, "early", &box_events, &early, &early.c, &err), -1);
    assert_int_equal(err.code, ERR_NOT_FOUND);
    assert_int_equal(access(dir, F_OK), -1);
}

static void test_a_killed_shim_takes_its_container_along(void **state)
{
    struct live *live = *state;
    struct box box, late;
    pid_t pid;

    box_run(live, &box, "while true; do sleep 0.1; done");
    box_run(live, &late, "while true; do sleep 0.1; done");
    pid = box.pid;
    kill(box_shim(&box), SIGKILL);
    box_wait(&box);
    assert_int_equal(box.how.end, RUNTIME_END_LOST);
    UNTIL(live, kill(pid, 0) < 0);
    box_remove(&box);
    /* And when it happens while no daemon is there. */
    kill(box_shim(&late), SIGKILL);
    live_restart(live);
    assert_int_equal(runtime_adopt(live->rt, late.id, &box_events, &late, &late.c, NULL), 0);
    box_wait(&late);
    assert_int_equal(late.how.end, RUNTIME_END_LOST);
    box_remove(&late);
}

static bool keep_first(void *arg, const char *id)
{
    (void)arg;
    return streq(id, "box0");
}

static bool swept;

static void on_swept(void *arg, const char *sentence)
{
    (void)arg;
    if (sentence)
        fail_msg("%s", sentence);
    swept = true;
}

static void test_cleanup_removes_what_nobody_keeps(void **state)
{
    struct live *live = *state;
    struct box kept, stray, crashed;
    char **ids;
    size_t len;

    box_run(live, &kept, "exec sleep 100");
    box_run(live, &stray, "exec sleep 100");
    box_run(live, &crashed, "exec sleep 100");
    kill(box_shim(&crashed), SIGKILL);
    assert_int_equal(runtime_ns_pin(live->rt, "old-pod", "x", NULL), 0);
    live_restart(live);
    swept = false;
    runtime_cleanup(live->rt, keep_first, on_swept, NULL);
    UNTIL(live, swept);
    assert_int_equal(runtime_list(live->rt, &ids, &len, NULL), 0);
    assert_int_equal(len, 1);
    runtime_list_free(ids, len);
    assert_int_equal(kill(kept.pid, 0), 0);
    assert_int_equal(runtime_adopt(live->rt, kept.id, &box_events, &kept, &kept.c, NULL), 0);
    box_remove(&kept);
}

static void test_removing_while_it_starts_leaves_nothing(void **state)
{
    struct live *live = *state;
    struct box box;

    for (int i = 0; i < 5; i++) {
        struct runtime_spec spec = box_spec(live, &box, "exec sleep 100");

        box_start(&box, &spec);
        for (int turn = 0; turn < i; turn++)
            loop_turn(live->loop, 3, NULL);
        box_remove(&box);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        LIVE_TEST(test_exit_code_and_both_outputs_are_kept),
        LIVE_TEST(test_shims_come_from_another_process_when_theirs_is_killed),
        LIVE_TEST(test_removed_folder_of_a_running_container_is_made_again),
        LIVE_TEST(test_restart_without_folders_finds_running_containers),
        LIVE_TEST(test_exit_that_nobody_heard_is_kept_without_its_folder),
        LIVE_TEST(test_a_signal_is_told),
        LIVE_TEST(test_what_cannot_be_started_fails_with_a_sentence),
        LIVE_TEST(test_specs_are_refused_at_once),
        LIVE_TEST(test_TERM_without_init_needs_the_KILL_and_with_init_not),
        LIVE_TEST(test_want_of_memory_is_told),
        LIVE_TEST(test_the_user_the_limits_and_the_walls),
        LIVE_TEST(test_seccomp_refuses_what_needs_a_capability),
        LIVE_TEST(test_mounts_by_path_and_by_descriptor),
        LIVE_TEST(test_a_privileged_container_has_everything),
        LIVE_TEST(test_the_pause_program_holds_a_pid_namespace),
        LIVE_TEST(test_pods_share_namespaces),
        LIVE_TEST(test_figures),
        LIVE_TEST(test_a_daemon_restart_finds_what_runs_and_what_ended),
        LIVE_TEST(test_a_daemon_killed_before_it_started_the_shim),
        LIVE_TEST(test_a_killed_shim_takes_its_container_along),
        LIVE_TEST(test_cleanup_removes_what_nobody_keeps),
        LIVE_TEST(test_removing_while_it_starts_leaves_nothing),
    };
    int status = live_prepare(argc, argv);

    return status ? status : cmocka_run_group_tests(tests, NULL, NULL);
}
