/* slirp - one slirp4netns for each pod, where the machine forbids a bridge. It outlives the daemon as the
 * pod does: its process id is in RUN_DIR/slirp/ID, and is believed only while that process has the pod's
 * namespace on its command line; from then on a pidfd holds on to it, since the number may become another's.
 */
#define LOG_MODULE "podnet"
#include "base/file.h"
#include "base/log.h"
#include "loop/loop.h"
#include "podnet/impl.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#define READY_FD 3 /* in the child */

struct slirp {
    struct podnet *net;
    char *id, *pid_path;
    pid_t pid;
    int pid_fd; /* of one that an earlier daemon has started; -1: none */
    int ready_fd;
    struct loop_io *io;
    struct loop_timer *timer;
    struct loop_child *child; /* NULL: started by an earlier daemon */
    bool leaving;             /* told to end: it goes when that has happened */
    struct slirp *next_leaving;
    slirp_fn ready;
    void *arg;
};

char *slirp_find(void)
{
    const char *path = getenv("PATH");
    struct str rest = str_from(path ? path : "/usr/sbin:/usr/bin:/sbin:/bin"), folder;

    while (str_split(&rest, ':', &folder)) {
        char *file = mem_printf("%.*s/slirp4netns", STR_ARG(folder));

        if (folder.len && access(file, X_OK) == 0)
            return file;
        free(file);
    }
    return NULL;
}

static void tell(struct slirp *s, const struct err *err)
{
    slirp_fn ready = s->ready;

    s->ready = NULL;
    loop_io_free(TAKE_PTR(s->io));
    fd_close(take_fd(&s->ready_fd));
    if (ready)
        ready(s->arg, err);
}

static void on_ready(void *arg, uint32_t events)
{
    struct slirp *s = arg;
    struct err err = {0};
    char c;

    (void)events;
    if (read(s->ready_fd, &c, 1) == 1) {
        tell(s, NULL);
    } else {
        (void)err_set(&err, ERR_UNAVAILABLE, "slirp4netns of pod '%s' ended before it was ready", s->id);
        tell(s, &err);
    }
}

static void on_adopted(void *arg)
{
    struct slirp *s = arg;
    struct err err = {0};

    if (!s->pid)
        (void)err_set(&err, ERR_UNAVAILABLE, "slirp4netns of pod '%s' could not be started", s->id);
    tell(s, s->pid ? NULL : &err);
}

static void on_exit_(void *arg, pid_t pid, int status)
{
    struct slirp *s = arg;

    loop_child_free(TAKE_PTR(s->child));
    s->pid = 0;
    if (s->leaving) {
        slirp_leave(s);
        return;
    }
    unlink(s->pid_path);
    if (!s->ready) /* else the pipe says so */
        log_warn("slirp4netns %d of pod '%s' ended with status %d: it has no network now", (int)pid, s->id,
                 WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
}

/* The slirp4netns of an earlier daemon; false: there is none (any more). */
static bool find_old(struct slirp *s, const char *netns)
{
    CLEANUP(buf_done) struct buf text = {0}, cmdline = {0};
    CLEANUP(free) char *path = NULL;
    CLEANUP(fd_close) int fd = -1;
    int64_t pid;

    if (file_read(s->pid_path, 32, &text, NULL) < 0 || !str_to_int(buf_view(&text), &pid) || pid <= 1 ||
        pid > INT32_MAX)
        return false;
    fd = pidfd_open((pid_t)pid, 0); /* first: what is read afterwards is of this process or of none */
    path = mem_printf("/proc/%d/cmdline", (int)pid);
    if (fd < 0 || file_read(path, 65536, &cmdline, NULL) < 0 ||
        !memmem(cmdline.data, cmdline.len, netns, strlen(netns) + 1) || pidfd_send_signal(fd, 0, NULL, 0) < 0)
        return false;
    s->pid = (pid_t)pid;
    s->pid_fd = take_fd(&fd);
    return true;
}

static int spawn(struct slirp *s, const char *netns, int ready_write)
{
    CLEANUP(free) char *mtu = mem_printf("--mtu=%u", s->net->mtu);
    const char *argv[] = {"slirp4netns",
                          "--configure",
                          "--disable-host-loopback",
                          mtu,
                          "--netns-type=path",
                          "--ready-fd=3",
                          netns,
                          "tap0",
                          NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int status;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&files, 0, 1);
    posix_spawn_file_actions_adddup2(&files, 0, 2);
    posix_spawn_file_actions_adddup2(&files, ready_write, READY_FD);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
    status = posix_spawn(&s->pid, s->net->slirp_path, &files, &attr, (char *const *)argv, environ);
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&files);
    return status;
}

static int start_new(struct slirp *s, const char *netns, struct err *err)
{
    CLEANUP(buf_done) struct buf text = {0};
    int ready[2], status;

    if (pipe2(ready, O_CLOEXEC) < 0)
        return err_errno(err, errno, "make a pipe");
    /* dup2 onto itself would keep close-on-exec. */
    if (ready[1] == READY_FD) {
        ready[1] = fcntl(READY_FD, F_DUPFD_CLOEXEC, READY_FD + 1);
        close(READY_FD);
    }
    status = spawn(s, netns, ready[1]);
    close(ready[1]);
    s->ready_fd = ready[0];
    if (status) {
        s->pid = 0;
        return err_errno(err, status, "start '%s'", s->net->slirp_path);
    }
    s->child = loop_child_new(s->net->loop, s->pid, on_exit_, s, err);
    if (!s->child)
        return -1;
    buf_int(&text, s->pid);
    return file_write_atomic(s->pid_path, buf_view(&text), 0600, err);
}

/* Failures are told as everything is: from the loop. The pipe is at its end by then. */
struct slirp *slirp_start(struct podnet *net, const char *id, const char *netns, slirp_fn ready, void *arg)
{
    struct slirp *s = NEW(struct slirp);
    struct err err = {0};

    s->net = net;
    s->id = mem_strdup(id);
    s->pid_path = mem_printf("%s/slirp/%s", net->run_dir, id);
    s->ready = ready;
    s->arg = arg;
    s->ready_fd = s->pid_fd = -1;
    if (find_old(s, netns) || start_new(s, netns, &err) < 0) {
        if (err.code)
            log_warn("pod '%s': %s", id, err.msg);
        if (s->ready_fd < 0) {
            s->timer = loop_timer_new(net->loop, on_adopted, s);
            loop_timer_set(s->timer, 0);
            return s;
        }
    }
    s->io = loop_io_new(net->loop, s->ready_fd, EPOLLIN, on_ready, s);
    return s;
}

void slirp_leave(struct slirp *s)
{
    if (!s)
        return;
    for (struct slirp **at = &s->net->leaving; *at; at = &(*at)->next_leaving)
        if (*at == s) {
            *at = s->next_leaving;
            break;
        }
    loop_io_free(s->io);
    fd_close(s->ready_fd);
    fd_close(s->pid_fd);
    loop_timer_free(s->timer);
    loop_child_free(s->child);
    free(s->id);
    free(s->pid_path);
    free(s);
}

/* Nobody waits for its end: the loop tells, and a process that hangs holds up nothing. */
void slirp_stop(struct slirp *s)
{
    if (!s)
        return;
    if (s->pid > 0) {
        if (s->child)
            (void)kill(s->pid, SIGTERM); /* not reaped yet, so the pid is its own */
        else if (s->pid_fd >= 0)
            (void)pidfd_send_signal(s->pid_fd, SIGTERM, NULL, 0);
        unlink(s->pid_path);
    }
    if (!s->child) {
        slirp_leave(s);
        return;
    }
    s->leaving = true;
    s->ready = NULL;
    loop_io_free(TAKE_PTR(s->io));
    fd_close(take_fd(&s->ready_fd));
    s->next_leaving = s->net->leaving;
    s->net->leaving = s;
}

void slirps_free(struct podnet *net)
{
    struct slirp *next;

    for (struct slirp *s = net->leaving; s; s = next) {
        next = s->next_leaving;
        slirp_leave(s);
    }
}
