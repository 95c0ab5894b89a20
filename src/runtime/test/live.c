#include "live.h"

#include "base/file.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* ---- the world ---- */

const char *live_oci;
static const char *live_shim;

static const char *busybox(void)
{
    static const char *const places[] = {"/bin/busybox", "/usr/bin/busybox"};

    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (access(places[i], X_OK) == 0)
            return places[i];
    return NULL;
}

static const char *obstacle(const char *oci)
{
    char path[64];

    if (geteuid() != 0)
        return "needs root";
    snprintf(path, sizeof(path), "/usr/bin/%s", oci);
    if (access(path, X_OK) < 0) {
        snprintf(path, sizeof(path), "/usr/sbin/%s", oci);
        if (access(path, X_OK) < 0)
            return "the OCI runtime is not installed (apt install crun runc)";
    }
    return busybox() ? NULL : "busybox is not installed (apt install busybox-static)";
}

static void copy_file(const char *from, const char *to)
{
    CLEANUP(buf_done) struct buf data = {0};

    assert_int_equal(file_read(from, 64 << 20, &data, NULL), 0);
    assert_int_equal(file_write_atomic(to, buf_view(&data), 0755, NULL), 0);
}

static void make_rootfs(struct live *live)
{
    static const char *const applets[] = {"sh",     "true", "false", "sleep", "cat",   "echo", "id",
                                          "kill",   "head", "tail",  "yes",   "stty",  "grep", "hostname",
                                          "seq",    "dd",   "ls",    "touch", "mkdir", "wc",   "tr",
                                          "printf", "test", "env",   "stat"};
    static const char *const dirs[] = {"bin", "proc", "dev", "sys", "tmp", "etc"};
    char path[160];

    for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
        snprintf(path, sizeof(path), "%s/%s", live->rootfs, dirs[i]);
        assert_int_equal(dir_make(path, 0755, NULL), 0);
    }
    snprintf(path, sizeof(path), "%s/tmp", live->rootfs);
    chmod(path, 01777);
    snprintf(path, sizeof(path), "%s/bin/busybox", live->rootfs);
    copy_file(busybox(), path);
    for (size_t i = 0; i < ARRAY_LEN(applets); i++) {
        snprintf(path, sizeof(path), "%s/bin/%s", live->rootfs, applets[i]);
        assert_int_equal(symlink("busybox", path), 0);
    }
}

static void make_runtime(struct live *live)
{
    CLEANUP(free) char *state = mem_printf("%s/containers", live->dir);
    CLEANUP(free) char *run = mem_printf("%s/run", live->dir);
    struct runtime_config config = {.state_dir = state,
                                    .run_dir = run,
                                    .oci_runtime = live->oci,
                                    .shim_path = live->shim,
                                    .cgroup_parent = live->cgroup};
    struct err err = {0};

    if (runtime_new(live->loop, &config, &live->rt, &err) < 0)
        fail_msg("%s", err.msg);
}

int live_set_up(void **state)
{
    struct live *live = NEW(struct live);

    strcpy(live->dir, "/tmp/berth-live-XXXXXX");
    assert_non_null(mkdtemp(live->dir));
    snprintf(live->rootfs, sizeof(live->rootfs), "%s/rootfs", live->dir);
    snprintf(live->cgroup, sizeof(live->cgroup), "/%s", strrchr(live->dir, '/') + 1);
    live->oci = live_oci;
    live->shim = live_shim;
    live->loop = loop_new();
    make_rootfs(live);
    make_runtime(live);
    *state = live;
    return 0;
}

int live_prepare(int argc, char **argv)
{
    const char *why;

    if (argc < 3) {
        fprintf(stderr, "usage: %s crun|runc SHIM [TEST]\n", argv[0]);
        return 2;
    }
    live_oci = argv[1];
    live_shim = argv[2];
    why = obstacle(live_oci);
    if (why) {
        printf("skipped: %s\n", why);
        return 77;
    }
    if (argc > 3)
        cmocka_set_test_filter(argv[3]);
    return 0;
}

void live_restart(struct live *live)
{
    runtime_free(live->rt);
    live->rt = NULL;
    make_runtime(live);
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* Our own parent cgroups, which must have nothing below them. */
static void remove_cgroups(const struct live *live)
{
    DIR *dir = opendir("/sys/fs/cgroup");
    const struct dirent *entry;
    char path[400];

    while (dir && (entry = readdir(dir))) {
        snprintf(path, sizeof(path), "/sys/fs/cgroup/%s%s", entry->d_name, live->cgroup);
        if (rmdir(path) < 0 && errno != ENOENT && errno != ENOTDIR)
            fail_msg("%s: %s", path, strerror(errno));
    }
    if (dir)
        closedir(dir);
}

static void check_no_mounts(const struct live *live)
{
    CLEANUP(buf_done) struct buf mounts = {0};

    assert_int_equal(file_read("/proc/self/mountinfo", 4 << 20, &mounts, NULL), 0);
    assert_null(strstr(mounts.data, live->dir));
}

/* A process with its current folder in ours; 0: none. */
static pid_t left_behind(const struct live *live)
{
    DIR *dir = opendir("/proc");
    const struct dirent *entry;
    char path[64], cwd[256];
    pid_t pid = 0;

    while (dir && !pid && (entry = readdir(dir))) {
        ssize_t n;

        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        snprintf(path, sizeof(path), "/proc/%.20s/cwd", entry->d_name);
        n = readlink(path, cwd, sizeof(cwd) - 1);
        cwd[n > 0 ? n : 0] = '\0';
        if (starts_with(cwd, live->dir))
            pid = (pid_t)strtol(entry->d_name, NULL, 10);
    }
    if (dir)
        closedir(dir);
    return pid;
}

/* The helper of a command that was given up waits for the OCI runtime, which may take a moment. */
static void check_no_processes(const struct live *live)
{
    pid_t pid = 0;

    for (int i = 0; i < 200 && (pid = left_behind(live)); i++)
        usleep(10000);
    if (pid)
        fail_msg("process %d is left", (int)pid);
}

int live_tear_down(void **state)
{
    struct live *live = *state;

    runtime_free(live->rt);
    loop_free(live->loop);
    check_no_mounts(live);
    check_no_processes(live);
    remove_cgroups(live);
    nftw(live->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    assert_int_equal(access(live->dir, F_OK), -1);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child, not even a dead one */
    free(live);
    return 0;
}

/* ---- containers ---- */

static void on_started(void *arg, struct runtime_container *c, pid_t pid, int64_t time)
{
    struct box *box = arg;

    (void)c;
    assert_true(time > 0);
    box->started++;
    box->pid = pid;
}

static void on_exited(void *arg, struct runtime_container *c, const struct runtime_exit *how)
{
    struct box *box = arg;

    (void)c;
    box->exited++;
    box->how = *how;
}

static void on_failed(void *arg, struct runtime_container *c, const char *sentence)
{
    struct box *box = arg;

    (void)c;
    box->failed++;
    snprintf(box->sentence, sizeof(box->sentence), "%s", sentence);
}

const struct runtime_events box_events = {on_started, on_exited, on_failed};

struct runtime_spec box_spec(struct live *live, struct box *box, const char *script)
{
    static const char *args[4];

    memset(box, 0, sizeof(*box));
    box->live = live;
    snprintf(box->id, sizeof(box->id), "box%d", live->serial++);
    snprintf(box->log, sizeof(box->log), "%s/%s.log", live->dir, box->id);
    args[0] = "sh";
    args[1] = "-c";
    args[2] = script;
    return (struct runtime_spec){.id = box->id, .rootfs = live->rootfs, .args = args, .log_path = box->log};
}

void box_start(struct box *box, const struct runtime_spec *spec)
{
    struct err err = {0};

    if (runtime_start(box->live->rt, spec, &box_events, box, &box->c, &err) < 0)
        fail_msg("%s", err.msg);
}

void box_run(struct live *live, struct box *box, const char *script)
{
    struct runtime_spec spec = box_spec(live, box, script);

    box_start(box, &spec);
    UNTIL(live, box->started || box->failed);
    if (box->failed)
        fail_msg("%s", box->sentence);
}

void box_wait(struct box *box)
{
    UNTIL(box->live, box->exited || box->failed);
    if (box->failed)
        fail_msg("%s", box->sentence);
}

static void on_removed(void *arg, const char *sentence)
{
    bool *done = arg;

    if (sentence)
        fail_msg("%s", sentence);
    *done = true;
}

void box_remove(struct box *box)
{
    CLEANUP(free) char *dir = mem_printf("%s/containers/%s", box->live->dir, box->id);
    bool done = false;

    runtime_remove(box->c, on_removed, &done);
    box->c = NULL;
    UNTIL(box->live, done);
    assert_int_equal(access(dir, F_OK), -1);
}

/* Right after the start its parent may still be the rest of a crun that is about to leave. */
pid_t box_shim(const struct box *box)
{
    for (int i = 0; i < 500; i++) {
        CLEANUP(buf_done) struct buf text = {0};
        CLEANUP(buf_done) struct buf comm = {0};
        CLEANUP(free) char *status = mem_printf("/proc/%d/status", (int)box->pid);
        CLEANUP(free) char *name = NULL;
        pid_t pid;

        assert_int_equal(file_read(status, 65536, &text, NULL), 0);
        pid = (pid_t)strtol(strstr(text.data, "PPid:\t") + 6, NULL, 10);
        name = mem_printf("/proc/%d/comm", (int)pid);
        if (file_read(name, 64, &comm, NULL) == 0 && streq(comm.data, "berth-shim\n"))
            return pid;
        usleep(2000);
    }
    fail_msg("%s has no shim", box->id);
    return 0;
}

static void unframe(struct str text, const char *stream, struct buf *ret)
{
    struct str line;

    while (text.len > 0 && str_split(&text, '\n', &line)) {
        if (line.len < 40)
            continue;
        if (stream && memcmp(line.s + 31, stream, 6) != 0)
            continue;
        buf_add(ret, line.s + 40, line.len - 40);
        if (line.s[38] == 'F')
            buf_putc(ret, '\n');
    }
}

void box_output(const struct box *box, const char *stream, struct buf *ret)
{
    buf_clear(ret);
    for (int i = 200; i >= 0; i--) {
        CLEANUP(buf_done) struct buf text = {0};
        CLEANUP(free) char *path = i ? mem_printf("%s.%d", box->log, i) : mem_strdup(box->log);

        if (file_read(path, 64 << 20, &text, NULL) == 0)
            unframe(buf_view(&text), stream, ret);
    }
    buf_puts(ret, "");
}

/* ---- streams ---- */

static void feed(struct pipe_box *p)
{
    size_t n;

    if (!p->input)
        return;
    n = runtime_stream_write(p->s, p->input, p->input_len);
    p->input += n;
    p->input_len -= n;
    if (p->input_len == 0) {
        p->input = NULL;
        runtime_stream_close_stdin(p->s);
    }
}

static void on_output(void *arg, struct runtime_stream *s, int fd, const char *data, size_t len)
{
    struct pipe_box *p = arg;

    (void)s;
    buf_add(&p->out[fd - 1], data, len);
}

static void on_writable(void *arg, struct runtime_stream *s)
{
    (void)s;
    feed(arg);
}

static void on_ended(void *arg, struct runtime_stream *s, const struct runtime_exit *how)
{
    struct pipe_box *p = arg;

    (void)s;
    p->ended++;
    p->has_how = how != NULL;
    if (how)
        p->how = *how;
}

static void on_stream_failed(void *arg, struct runtime_stream *s, const char *sentence)
{
    struct pipe_box *p = arg;

    (void)s;
    p->failed++;
    snprintf(p->sentence, sizeof(p->sentence), "%s", sentence);
}

const struct runtime_stream_events pipe_events = {on_output, on_writable, on_ended, on_stream_failed};

void pipe_exec(struct box *box, const struct runtime_exec *exec, struct pipe_box *p)
{
    struct err err = {0};

    if (runtime_exec(box->c, exec, &pipe_events, p, &p->s, &err) < 0)
        fail_msg("%s", err.msg);
    if (!exec->tty)
        feed(p);
}

void pipe_sh(struct box *box, const char *script, struct pipe_box *p)
{
    const char *const args[] = {"sh", "-c", script, NULL};
    struct runtime_exec exec = {.args = args, .stdin_open = p->input != NULL};

    pipe_exec(box, &exec, p);
    UNTIL(box->live, p->ended || p->failed);
    if (p->failed)
        fail_msg("%s", p->sentence);
    buf_puts(&p->out[0], "");
    buf_puts(&p->out[1], "");
}

void pipe_done(struct pipe_box *p)
{
    runtime_stream_free(p->s);
    buf_done(&p->out[0]);
    buf_done(&p->out[1]);
    *p = (struct pipe_box){0};
}
