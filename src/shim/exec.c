/* One command in a running container. The caller's descriptors 0, 1, 2 are the command's; with a terminal
 * its master side goes to the caller. Detached in any case: the OCI runtime leaves, and this small process
 * waits as a subreaper, which both runtimes allow and which gives the true wait status.
 *
 * When the caller goes away the command goes on, as in Kubernetes, and this process with it. */
#include "shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    struct shim_conf conf;
    char base[32], process[4200], pid_path[4200], log_path[4200], console[64], console_name[48];
    int control, sig_fd, console_fd;
    pid_t oci, pid;
    int64_t started;
    int signal;
    bool tty;
} ex;

static void say(const struct shim_msg *msg, const char *data, size_t len)
{
    if (ex.control >= 0)
        sock_send(ex.control, msg, data, len, -1);
}

static void tidy(void)
{
    char name[64];

    snprintf(name, sizeof(name), "%s.conf", ex.base);
    unlink(name);
    unlink(ex.process);
    unlink(ex.pid_path);
    unlink(ex.log_path);
    unlink(ex.console_name);
}

static void fail(const char *sentence)
{
    struct shim_msg msg = {.type = SHIM_FAILED};

    say(&msg, sentence, strlen(sentence));
    tidy();
    _exit(0);
}

static void oci_ended(int status)
{
    static char line[4096];
    struct shim_msg msg = {.type = SHIM_STARTED};

    ex.oci = 0;
    ex.pid = pidfile_read(ex.pid_path);
    if (status != 0 || ex.pid <= 0)
        fail(last_line(ex.log_path, line, sizeof(line)) ? line : "the OCI runtime failed without a word");
    tidy();
    ex.started = now_real();
    msg.pid = ex.pid;
    msg.started = ex.started;
    say(&msg, NULL, 0);
    if (ex.signal)
        kill(ex.pid, ex.signal);
    /* The streams end when the command's own descriptors do. */
    for (int fd = 0; fd < 3; fd++)
        close(fd);
}

static void command_ended(int status)
{
    struct shim_msg msg = {.type = SHIM_EXITED, .started = ex.started, .finished = now_real()};

    msg.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    msg.code = msg.signal ? 128 + msg.signal : WEXITSTATUS(status);
    say(&msg, NULL, 0);
    _exit(0);
}

static void reap(void)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;

    while (read(ex.sig_fd, &info, sizeof(info)) > 0)
        ;
    if (ex.oci) {
        if (waitpid(ex.oci, &status, WNOHANG) != ex.oci)
            return;
        oci_ended(status);
    }
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        if (pid == ex.pid)
            command_ended(status);
}

static void pass_terminal(void)
{
    struct shim_msg msg = {.type = SHIM_PTY};
    int conn = accept4(ex.console_fd, NULL, NULL, SOCK_CLOEXEC);
    int fd = conn < 0 ? -1 : sock_take_fd(conn);

    if (conn >= 0)
        close(conn);
    if (fd < 0)
        return;
    tty_resize(fd, (unsigned)conf_int(&ex.conf, "rows", 24), (unsigned)conf_int(&ex.conf, "cols", 80));
    if (ex.control >= 0)
        sock_send(ex.control, &msg, NULL, 0, fd);
    close(fd);
    close(ex.console_fd);
    ex.console_fd = -1;
}

static void read_control(void)
{
    struct shim_msg msg = {0};
    ssize_t n = recv(ex.control, &msg, sizeof(msg), MSG_DONTWAIT);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        close(ex.control);
        ex.control = -1;
    } else if (msg.type == SHIM_SIGNAL) {
        if (ex.pid > 0)
            kill(ex.pid, msg.signal);
        else
            ex.signal = msg.signal;
    }
}

static int spawn(const char *id)
{
    const char *runtime = conf_get(&ex.conf, "runtime"), *root = conf_get(&ex.conf, "root");
    const int fds[3] = {-1, -1, -1}; /* as they are */
    const char *argv[20];
    size_t n = 0;

    if (!runtime || !root)
        return -1;
    argv[n++] = runtime;
    argv[n++] = "--root";
    argv[n++] = root;
    argv[n++] = "--log";
    argv[n++] = ex.log_path;
    argv[n++] = "--log-format";
    argv[n++] = "json";
    argv[n++] = "exec";
    argv[n++] = "--detach";
    argv[n++] = "--pid-file";
    argv[n++] = ex.pid_path;
    argv[n++] = "--process";
    argv[n++] = ex.process;
    if (ex.tty) {
        argv[n++] = "--console-socket";
        argv[n++] = ex.console;
    }
    argv[n++] = id;
    argv[n] = NULL;
    ex.oci = oci_spawn(argv, fds, conf_get(&ex.conf, "hide"));
    /* crun gives the terminal its size while the command is on its way already, and must not be the later of
     * the two. Its children are scheduled as usual; where this is not allowed they see the size by SIGWINCH.
     */
    if (ex.tty && ex.oci > 0)
        sched_setscheduler(ex.oci, SCHED_FIFO | SCHED_RESET_ON_FORK,
                           &(struct sched_param){.sched_priority = 1});
    return ex.oci < 0 ? -1 : 0;
}

static int set_up(const char *number)
{
    const char *bundle;
    char name[64];
    sigset_t mask;

    ex.control = SHIM_FD_CONTROL;
    ex.console_fd = -1;
    snprintf(ex.base, sizeof(ex.base), "exec-%.20s", number);
    snprintf(name, sizeof(name), "%s.conf", ex.base);
    if (conf_read(&ex.conf, name) < 0 || !(bundle = conf_get(&ex.conf, "bundle")))
        return -1;
    ex.tty = conf_int(&ex.conf, "tty", 0);
    snprintf(ex.process, sizeof(ex.process), "%s/%s.json", bundle, ex.base);
    snprintf(ex.pid_path, sizeof(ex.pid_path), "%s/%s.pid", bundle, ex.base);
    snprintf(ex.log_path, sizeof(ex.log_path), "%s/%s.log", bundle, ex.base);
    snprintf(ex.console_name, sizeof(ex.console_name), "%s.sock", ex.base);
    snprintf(ex.console, sizeof(ex.console), "/proc/%d/cwd/%s.sock", (int)getpid(), ex.base);
    sigfillset(&mask);
    sigprocmask(SIG_SETMASK, &mask, NULL);
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    ex.sig_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (ex.sig_fd < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return -1;
    if (ex.tty && (ex.console_fd = sock_listen(ex.console_name, SOCK_STREAM)) < 0)
        return -1;
    return 0;
}

int shim_exec(const char *id, const char *number)
{
    if (set_up(number) < 0 || spawn(id) < 0)
        fail("set up the command: the shim's folder is not usable");
    for (;;) {
        struct pollfd fds[3] = {{.fd = ex.sig_fd, .events = POLLIN},
                                {.fd = ex.control, .events = POLLIN},
                                {.fd = ex.console_fd, .events = POLLIN}};

        if (poll(fds, 3, -1) < 0)
            continue;
        if (fds[2].revents)
            pass_terminal();
        if (fds[1].revents)
            read_control();
        if (fds[0].revents)
            reap();
    }
}
