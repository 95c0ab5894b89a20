/* Real containers, from start to removal, with the OCI runtime named by the first argument and the shim named
 * by the second. Prints its measurements. */
#include "base/file.h"
#include "base/mem.h"
#include "live.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

static const char *oci, *shim;

static int set_up(void **state)
{
    *state = live_new(oci, shim);
    return 0;
}

static int tear_down(void **state)
{
    live_done(*state);
    return 0;
}

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

static void test_a_signal_is_told(void **state)
{
    struct box box;

    box_run(*state, &box, "exec sleep 100");
    assert_int_equal(runtime_container_pid(box.c), box.pid);
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

static void test_exec_gives_output_input_and_exit_code(void **state)
{
    struct live *live = *state;
    struct box box;
    struct pipe_box p = {0};
    static char big[300000];
    const uid_t uid = 77;
    const char *const args[] = {"id", NULL};
    struct runtime_exec exec = {.args = args, .uid = &uid, .gid = &uid};

    box_run(live, &box, "exec sleep 100");
    pipe_sh(&box, "echo out; echo err >&2; grep Seccomp: /proc/self/status; exit 5", &p);
    assert_string_equal(p.out[0].data, "out\nSeccomp:\t2\n");
    assert_string_equal(p.out[1].data, "err\n");
    assert_int_equal(p.how.code, 5);
    pipe_done(&p);

    memset(big, 'x', sizeof(big));
    p.input = big;
    p.input_len = sizeof(big);
    pipe_sh(&box, "cat", &p);
    assert_int_equal(p.out[0].len, sizeof(big));
    assert_int_equal(p.how.code, 0);
    pipe_done(&p);

    pipe_exec(&box, &exec, &p);
    UNTIL(live, p.ended);
    assert_int_equal(memcmp(p.out[0].data, "uid=77 gid=77", 13), 0);
    pipe_done(&p);
    box_remove(&box);
}

static void test_exec_of_nothing_fails_and_signals_end_it(void **state)
{
    struct live *live = *state;
    struct box box;
    struct pipe_box p = {0};
    const char *const nothing[] = {"no-such-program", NULL}, *const sleeps[] = {"sleep", "100", NULL};
    struct runtime_exec exec = {.args = nothing};

    box_run(live, &box, "exec sleep 100");
    pipe_exec(&box, &exec, &p);
    UNTIL(live, p.ended || p.failed);
    assert_int_equal(p.failed, 1);
    assert_non_null(strstr(p.sentence, "no-such-program"));
    pipe_done(&p);

    exec.args = sleeps;
    pipe_exec(&box, &exec, &p);
    runtime_stream_signal(p.s, SIGKILL);
    UNTIL(live, p.ended);
    assert_int_equal(p.how.signal, SIGKILL);
    pipe_done(&p);

    pipe_exec(&box, &exec, &p); /* given up at once: nothing may break */
    pipe_done(&p);
    box_remove(&box);
}

static void test_exec_on_a_terminal(void **state)
{
    struct live *live = *state;
    struct box box;
    struct pipe_box p = {0};
    const char *const args[] = {"sh", "-c", "stty size; read x; echo got $x; stty size; exit 4", NULL};
    struct runtime_exec exec = {.args = args, .tty = true, .stdin_open = true, .rows = 40, .cols = 120};

    box_run(live, &box, "exec sleep 100");
    pipe_exec(&box, &exec, &p);
    UNTIL(live, p.out[0].len >= 7);
    assert_memory_equal(p.out[0].data, "40 120", 6);
    runtime_stream_resize(p.s, 50, 132);
    assert_int_equal(runtime_stream_write(p.s, "word\r", 5), 5);
    UNTIL(live, p.ended);
    assert_int_equal(p.how.code, 4);
    buf_puts(&p.out[0], "");
    assert_non_null(strstr(p.out[0].data, "got word"));
    assert_non_null(strstr(p.out[0].data, "50 132"));
    pipe_done(&p);
    box_remove(&box);
}

static void test_a_paused_exec_loses_nothing(void **state)
{
    struct live *live = *state;
    struct box box;
    struct pipe_box p = {0};
    const char *const args[] = {"sh", "-c", "seq 1 100000", NULL};
    struct runtime_exec exec = {.args = args};

    box_run(live, &box, "exec sleep 100");
    pipe_exec(&box, &exec, &p);
    runtime_stream_pause(p.s, true);
    for (int i = 0; i < 20; i++)
        loop_turn(live->loop, 20, NULL);
    assert_int_equal(p.out[0].len, 0);
    runtime_stream_pause(p.s, false);
    UNTIL(live, p.ended);
    assert_int_equal(p.out[0].len, 588895);
    pipe_done(&p);
    box_remove(&box);
}

static void test_attach_serves_several_clients(void **state)
{
    struct live *live = *state;
    struct box box;
    struct pipe_box a = {0}, b = {0};
    struct runtime_spec spec =
        box_spec(live, &box, "while read x; do echo got $x; done; echo over >&2; exit 9");

    spec.stdin_open = spec.stdin_once = true;
    box_start(&box, &spec);
    UNTIL(live, box.started);
    assert_int_equal(runtime_attach(box.c, true, true, &pipe_events, &a, &a.s, NULL), 0);
    assert_int_equal(runtime_attach(box.c, false, true, &pipe_events, &b, &b.s, NULL), 0);
    for (int i = 0; i < 5; i++)
        loop_turn(live->loop, 20, NULL);
    assert_int_equal(runtime_stream_write(a.s, "one\n", 4), 4);
    UNTIL(live, a.out[0].len >= 8 && b.out[0].len >= 8);
    runtime_stream_close_stdin(a.s);
    UNTIL(live, a.ended && b.ended);
    assert_true(a.has_how && a.how.code == 9);
    buf_puts(&b.out[0], "");
    assert_string_equal(b.out[0].data, "got one\n");
    assert_int_equal(a.out[1].len, 5);
    box_wait(&box);
    pipe_done(&a);
    pipe_done(&b);
    box_remove(&box);
}

static void test_attach_to_a_terminal(void **state)
{
    struct live *live = *state;
    struct box box;
    struct pipe_box a = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct runtime_spec spec = box_spec(live, &box, "stty size; read x; stty size; echo got $x; exit 2");

    spec.stdin_open = spec.tty = true;
    spec.tty_rows = 33;
    spec.tty_cols = 99;
    box_start(&box, &spec);
    UNTIL(live, box.started);
    assert_int_equal(runtime_attach(box.c, true, true, &pipe_events, &a, &a.s, NULL), 0);
    for (int i = 0; i < 5; i++)
        loop_turn(live->loop, 20, NULL);
    assert_int_equal(runtime_resize(box.c, 44, 111, NULL), 0);
    for (int i = 0; i < 3; i++)
        loop_turn(live->loop, 20, NULL);
    assert_int_equal(runtime_stream_write(a.s, "word\r", 5), 5);
    UNTIL(live, a.ended);
    box_wait(&box);
    assert_int_equal(box.how.code, 2);
    box_output(&box, NULL, &text);
    assert_non_null(strstr(text.data, "33 99"));
    assert_non_null(strstr(text.data, "44 111"));
    assert_non_null(strstr(text.data, "got word"));
    pipe_done(&a);
    box_remove(&box);
}

static void test_rotation_of_any_bytes_loses_none(void **state)
{
    struct live *live = *state;
    struct box box;
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(free) char *blob = mem_printf("%s/blob", live->rootfs);
    static char data[400000];
    struct runtime_spec spec = box_spec(live, &box, "cat /blob");

    random_bytes(data, sizeof(data));
    assert_int_equal(file_write_atomic(blob, (struct str){data, sizeof(data)}, 0644, NULL), 0);
    spec.log_max_bytes = 20000;
    spec.log_max_files = 200;
    box_start(&box, &spec);
    box_wait(&box);
    box_output(&box, "stdout", &text);
    assert_int_equal(text.len, sizeof(data));
    assert_memory_equal(text.data, data, sizeof(data));
    assert_int_equal(box.how.log_dropped, 0);
    box_remove(&box);
}

static void test_a_full_log_disk_does_not_hold_up_the_container(void **state)
{
    struct live *live = *state;
    struct box box;
    CLEANUP(free) char *small = mem_printf("%s/small", live->dir);
    CLEANUP(free) char *log = mem_printf("%s/small/log", live->dir);
    struct runtime_spec spec = box_spec(live, &box, "seq 1 200000; exit 6");

    assert_int_equal(dir_make(small, 0755, NULL), 0);
    assert_int_equal(mount("small", small, "tmpfs", 0, "size=64k"), 0);
    spec.log_path = log;
    box_start(&box, &spec);
    box_wait(&box);
    assert_int_equal(umount2(small, MNT_DETACH), 0);
    assert_int_equal(box.how.code, 6);
    assert_true(box.how.log_dropped > 1000000);
    box_remove(&box);
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

static pid_t shim_of(const struct box *box)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(free) char *path = mem_printf("/proc/%d/status", (int)box->pid);
    const char *at;

    assert_int_equal(file_read(path, 65536, &text, NULL), 0);
    at = strstr(text.data, "PPid:\t");
    return (pid_t)strtol(at + 6, NULL, 10);
}

static void test_a_killed_shim_takes_its_container_along(void **state)
{
    struct live *live = *state;
    struct box box, late;
    pid_t pid;

    box_run(live, &box, "while true; do sleep 0.1; done");
    box_run(live, &late, "while true; do sleep 0.1; done");
    pid = box.pid;
    kill(shim_of(&box), SIGKILL);
    box_wait(&box);
    assert_int_equal(box.how.end, RUNTIME_END_LOST);
    UNTIL(live, kill(pid, 0) < 0);
    box_remove(&box);
    /* And when it happens while no daemon is there. */
    kill(shim_of(&late), SIGKILL);
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
    kill(shim_of(&crashed), SIGKILL);
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

static long pss_kb(pid_t pid)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(free) char *path = mem_printf("/proc/%d/smaps_rollup", (int)pid);
    const char *at;

    assert_int_equal(file_read(path, 65536, &text, NULL), 0);
    at = strstr(text.data, "\nPss:");
    return at ? strtol(at + 5, NULL, 10) : -1;
}

static void count_done(void *arg, const char *sentence)
{
    if (sentence)
        fail_msg("%s", sentence);
    ++*(int *)arg;
}

/* As a queue of short jobs does it: each is removed as soon as it has ended. */
static void on_short_exited(void *arg, struct runtime_container *c, const struct runtime_exit *how)
{
    assert_int_equal(how->code, 0);
    runtime_remove(c, count_done, arg);
}

static void test_a_burst_of_short_ones(void **state)
{
    struct live *live = *state;
    static const struct runtime_events events = {.exited = on_short_exited};
    int64_t begun = clock_monotonic();
    enum { BURST = 100, AT_ONCE = 4 };
    struct runtime_container *c;
    struct box box;
    int done = 0;

    for (int i = 0; i < BURST; i++) {
        struct runtime_spec spec = box_spec(live, &box, "true");

        assert_int_equal(runtime_start(live->rt, &spec, &events, &done, &c, NULL), 0);
        UNTIL(live, i - done < AT_ONCE);
    }
    UNTIL(live, done == BURST);
    print_message("%s: %d times `true`, %d in flight: %.0f a second\n", oci, BURST, AT_ONCE,
                  BURST * 1e9 / (double)(clock_monotonic() - begun));
}

#define MANY 50
static void test_fifty_at_once(void **state)
{
    struct live *live = *state;
    static struct box boxes[MANY];
    int64_t begun = clock_monotonic(), running, ended;
    size_t count;
    long alone, together;

    box_run(live, &boxes[0], "exec sleep 100");
    alone = pss_kb(shim_of(&boxes[0]));
    box_remove(&boxes[0]);
    begun = clock_monotonic();
    for (size_t i = 0; i < MANY; i++) {
        struct runtime_spec spec = box_spec(live, &boxes[i], "exec sleep 100");

        box_start(&boxes[i], &spec);
    }
    for (size_t i = 0; i < MANY; i++)
        UNTIL(live, boxes[i].started);
    running = clock_monotonic();
    together = pss_kb(shim_of(&boxes[0]));
    for (size_t i = 0; i < MANY; i++)
        runtime_kill_all(boxes[i].c);
    for (size_t i = 0; i < MANY; i++)
        box_wait(&boxes[i]);
    ended = clock_monotonic();
    for (count = 0; count < MANY; count++)
        box_remove(&boxes[count]);
    print_message("%s: %d at once: all running after %.0f ms, killed in %.0f ms, removed in %.0f ms\n", oci,
                  MANY, (double)(running - begun) / 1e6, (double)(ended - running) / 1e6,
                  (double)(clock_monotonic() - ended) / 1e6);
    print_message("%s: PSS of a shim: %ld kB alone, %ld kB among %d\n", oci, alone, together, MANY);
    assert_true(together <= 200);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

#define ROUNDS 15
static void test_times(void **state)
{
    struct live *live = *state;
    static double start[ROUNDS], whole[ROUNDS], execs[ROUNDS];
    struct box box, host;
    struct pipe_box p = {0};

    for (int i = 0; i < ROUNDS; i++) {
        int64_t begun = clock_monotonic();
        struct runtime_spec spec = box_spec(live, &box, "true");

        box_start(&box, &spec);
        UNTIL(live, box.started);
        start[i] = (double)(clock_monotonic() - begun) / 1e6;
        box_wait(&box);
        whole[i] = (double)(clock_monotonic() - begun) / 1e6;
        box_remove(&box);
    }
    box_run(live, &host, "exec sleep 100");
    for (int i = 0; i < ROUNDS; i++) {
        int64_t begun = clock_monotonic();

        pipe_sh(&host, "true", &p);
        execs[i] = (double)(clock_monotonic() - begun) / 1e6;
        pipe_done(&p);
    }
    box_remove(&host);
    qsort(start, ROUNDS, sizeof(*start), by_value);
    qsort(whole, ROUNDS, sizeof(*whole), by_value);
    qsort(execs, ROUNDS, sizeof(*execs), by_value);
    print_message(
        "%s: start to running %.1f ms (best %.1f), to exit of `true` %.1f ms (best %.1f), exec true %.1f ms "
        "(best %.1f)\n",
        oci, start[ROUNDS / 2], start[0], whole[ROUNDS / 2], whole[0], execs[ROUNDS / 2], execs[0]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(test_exit_code_and_both_outputs_are_kept),
        TEST(test_a_signal_is_told),
        TEST(test_what_cannot_be_started_fails_with_a_sentence),
        TEST(test_specs_are_refused_at_once),
        TEST(test_TERM_without_init_needs_the_KILL_and_with_init_not),
        TEST(test_want_of_memory_is_told),
        TEST(test_the_user_the_limits_and_the_walls),
        TEST(test_seccomp_refuses_what_needs_a_capability),
        TEST(test_mounts_by_path_and_by_descriptor),
        TEST(test_exec_gives_output_input_and_exit_code),
        TEST(test_exec_of_nothing_fails_and_signals_end_it),
        TEST(test_exec_on_a_terminal),
        TEST(test_a_paused_exec_loses_nothing),
        TEST(test_attach_serves_several_clients),
        TEST(test_attach_to_a_terminal),
        TEST(test_rotation_of_any_bytes_loses_none),
        TEST(test_a_full_log_disk_does_not_hold_up_the_container),
        TEST(test_pods_share_namespaces),
        TEST(test_figures),
        TEST(test_a_daemon_restart_finds_what_runs_and_what_ended),
        TEST(test_a_killed_shim_takes_its_container_along),
        TEST(test_cleanup_removes_what_nobody_keeps),
        TEST(test_removing_while_it_starts_leaves_nothing),
        TEST(test_fifty_at_once),
        TEST(test_a_burst_of_short_ones),
        TEST(test_times),
    };
    const char *obstacle;

    if (argc < 3) {
        fprintf(stderr, "usage: %s crun|runc SHIM [TEST]\n", argv[0]);
        return 2;
    }
    oci = argv[1];
    shim = argv[2];
    obstacle = live_obstacle(oci);
    if (obstacle) {
        printf("skipped: %s\n", obstacle);
        return 77;
    }
    if (argc > 3)
        cmocka_set_test_filter(argv[3]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
