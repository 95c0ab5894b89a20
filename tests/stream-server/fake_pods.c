#include "fake_pods.h"

#include "base/mem.h"
#include "engine/log_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pty.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define READ_SIZE (64 << 10)
#define PIPE_SIZE (1 << 20)

struct fake_pods {
    struct loop *loop;
    struct log_watch *watch;
    const char *logs_dir;
    struct pod_log *logs;
    struct pod_stream *streams; /* also those that are freed but for their child */
    struct pod_ops ops;
};

struct pod_log {
    struct pod_log *next, **prev;
    struct log_reader *reader;
    char *pod;
};

/* ---- logs ---- */

static int fake_log(void *arg, const struct pod_ref *pod, const struct pod_log_options *options,
                    const struct pod_log_events *events, void *events_arg, struct pod_log **ret,
                    struct err *err)
{
    struct fake_pods *fake = arg;
    CLEANUP(free)
    char *path = mem_printf("%s/%s%s.log", fake->logs_dir, pod->name, options->previous ? ".previous" : "");
    struct pod_log *log;

    if (starts_with(pod->name, "waiting-"))
        return pod_err_waiting(err, options->container, pod->name, "ContainerCreating");
    if (options->previous && access(path, R_OK) < 0)
        return pod_err_no_previous(err, options->container, pod->name);
    log = NEW(struct pod_log);
    log->pod = mem_strdup(pod->name);
    log->reader = log_reader_new(fake->watch, path, options, events, events_arg);
    log->next = fake->logs;
    log->prev = &fake->logs;
    if (log->next)
        log->next->prev = &log->next;
    fake->logs = log;
    *ret = log;
    return 0;
}

static void fake_log_pause(struct pod_log *log, bool pause)
{
    log_reader_pause(log->reader, pause);
}

static void fake_log_free(struct pod_log *log)
{
    *log->prev = log->next;
    if (log->next)
        log->next->prev = log->prev;
    log_reader_free(log->reader);
    free(log->pod);
    free(log);
}

void fake_pods_finish(struct fake_pods *fake, const char *pod)
{
    for (struct pod_log *log = fake->logs; log; log = log->next)
        if (streq(log->pod, pod))
            log_reader_finish(log->reader);
}

/* ---- commands ---- */

struct pod_stream {
    struct pod_stream *next, **prev;
    struct fake_pods *fake;
    struct pod_stream_events events;
    void *arg;
    pid_t pid;
    struct loop_child *child;
    int fds[3]; /* ours: to stdin, from stdout and stderr; of a tty all in [1] */
    struct loop_io *ios[3];
    bool tty, paused, exited;
    bool freed; /* only its child is waited for */
    bool writable_due, close_due;
    int code;
};

static void close_fd(struct pod_stream *s, int i)
{
    loop_io_free(TAKE_PTR(s->ios[i]));
    fd_close(take_fd(&s->fds[i]));
}

static void free_now(struct pod_stream *s)
{
    *s->prev = s->next;
    if (s->next)
        s->next->prev = s->prev;
    loop_child_free(s->child);
    free(s);
}

static void maybe_ended(struct pod_stream *s)
{
    if (s->exited && s->fds[1] < 0 && s->fds[2] < 0)
        s->events.ended(s->arg, s->code, NULL);
}

static void on_child(void *arg, pid_t pid, int status)
{
    struct pod_stream *s = arg;

    (void)pid;
    loop_child_free(TAKE_PTR(s->child));
    if (s->freed) {
        free_now(s);
        return;
    }
    s->pid = 0;
    s->exited = true;
    s->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    maybe_ended(s);
}

static void read_output(struct pod_stream *s, int i)
{
    char data[READ_SIZE];
    ssize_t len = read(s->fds[i], data, sizeof(data));

    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (len > 0) {
        s->events.output(s->arg, i, (struct str){data, (size_t)len});
        return;
    }
    close_fd(s, i); /* EIO: the tty's other end is closed */
    maybe_ended(s);
}

static void set_events(struct pod_stream *s)
{
    for (int i = 1; i < 3; i++)
        if (s->ios[i])
            loop_io_set(s->ios[i], (s->paused ? 0 : EPOLLIN) | (s->tty && s->writable_due ? EPOLLOUT : 0));
    if (s->ios[0])
        loop_io_set(s->ios[0], s->writable_due ? EPOLLOUT : 0);
}

static void tell_writable(struct pod_stream *s)
{
    s->writable_due = false;
    set_events(s);
    s->events.writable(s->arg);
}

static void on_stdin(void *arg, uint32_t events)
{
    struct pod_stream *s = arg;

    if (events & (EPOLLERR | EPOLLHUP))
        close_fd(s, 0);
    if (s->writable_due)
        tell_writable(s);
}

static void on_out(void *arg, uint32_t events)
{
    struct pod_stream *s = arg;

    if (s->tty && (events & EPOLLOUT) && s->writable_due)
        tell_writable(s);
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        read_output(s, 1);
}

static void on_err(void *arg, uint32_t events)
{
    (void)events;
    read_output(arg, 2);
}

static size_t fake_write(struct pod_stream *s, struct str data)
{
    int fd = s->tty ? s->fds[1] : s->fds[0];
    size_t taken = 0;

    while (fd >= 0 && taken < data.len) {
        ssize_t len = write(fd, data.s + taken, data.len - taken);

        if (len < 0 && errno == EAGAIN) {
            s->writable_due = true;
            set_events(s);
            return taken;
        }
        if (len < 0)
            break;
        taken += (size_t)len;
    }
    return data.len;
}

static void fake_close_stdin(struct pod_stream *s)
{
    if (s->tty)
        fake_write(s, STR("\x04"));
    else
        close_fd(s, 0);
}

static void fake_resize(struct pod_stream *s, uint16_t rows, uint16_t cols)
{
    struct winsize size = {.ws_row = rows, .ws_col = cols};

    if (s->tty && s->fds[1] >= 0)
        ioctl(s->fds[1], TIOCSWINSZ, &size);
}

static void fake_pause(struct pod_stream *s, bool pause)
{
    s->paused = pause;
    set_events(s);
}

static void fake_stream_free(struct pod_stream *s)
{
    for (int i = 0; i < 3; i++)
        close_fd(s, i);
    s->freed = true;
    if (s->pid > 0)
        kill(s->pid, s->tty ? SIGHUP : SIGKILL); /* unlike a container's, these would stay for ever */
    else
        free_now(s);
}

static void run_child(const char *const *argv, const int fds[3])
{
    sigset_t none;

    for (int i = 0; i < 3; i++)
        if (fds[i] >= 0)
            dup2(fds[i], i);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    execvp(argv[0], (char *const *)argv);
    dprintf(2, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

static pid_t start_tty(struct pod_stream *s, const char *const *argv, const struct pod_exec *exec)
{
    struct winsize size = {.ws_row = exec->rows, .ws_col = exec->cols};
    pid_t pid = forkpty(&s->fds[1], NULL, NULL, &size);

    if (pid == 0)
        run_child(argv, (int[3]){-1, -1, -1});
    return pid;
}

static pid_t start_plain(struct pod_stream *s, const char *const *argv, const struct pod_exec *exec)
{
    int in[2], out[2], error[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);
    pid_t pid;

    if (null < 0 || pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 || pipe2(error, O_CLOEXEC) < 0)
        return -1;
    fcntl(in[1], F_SETPIPE_SZ, PIPE_SIZE);
    fcntl(out[0], F_SETPIPE_SZ, PIPE_SIZE);
    pid = fork();
    if (pid == 0)
        run_child(argv, (int[3]){exec->in ? in[0] : null, out[1], error[1]});
    close(null);
    close(in[0]);
    close(out[1]);
    close(error[1]);
    s->fds[0] = in[1];
    s->fds[1] = out[0];
    s->fds[2] = error[0];
    return pid;
}

static int fake_check(void *arg, const struct pod_ref *pod, const char *container, struct err *err)
{
    (void)arg;
    if (!starts_with(pod->name, "stopped-"))
        return 0;
    return container ? pod_err_not_running(err, container) : pod_err_no_sandbox(err, pod->name);
}

static int fake_exec(void *arg, const struct pod_ref *pod, const struct pod_exec *exec,
                     const struct pod_stream_events *events, void *events_arg, struct pod_stream **ret,
                     struct err *err)
{
    static const char *const attached[] = {"sh", "-c", "echo attached; exec cat", NULL};
    static const loop_io_fn fns[3] = {on_stdin, on_out, on_err};
    struct fake_pods *fake = arg;
    struct pod_stream *s;

    if (fake_check(arg, pod, exec->container, err) < 0)
        return -1;
    if (exec->argv && streq(exec->argv[0], "/no/such/program"))
        return err_set(err, ERR_INTERNAL, "exec: \"%s\": stat %s: no such file or directory", exec->argv[0],
                       exec->argv[0]);
    s = NEW(struct pod_stream);
    *s = (struct pod_stream){
        .fake = fake, .events = *events, .arg = events_arg, .tty = exec->tty, .fds = {-1, -1, -1}};
    s->pid = (exec->tty ? start_tty : start_plain)(s, exec->argv ? exec->argv : attached, exec);
    if (s->pid < 0) {
        int sys = errno;

        free(s);
        return err_errno(err, sys, "fork");
    }
    s->next = fake->streams;
    s->prev = &fake->streams;
    if (s->next)
        s->next->prev = &s->next;
    fake->streams = s;
    s->child = loop_child_new(fake->loop, s->pid, on_child, s, NULL);
    for (int i = 0; i < 3; i++)
        if (s->fds[i] >= 0) {
            fcntl(s->fds[i], F_SETFL, fcntl(s->fds[i], F_GETFL) | O_NONBLOCK);
            fcntl(s->fds[i], F_SETFD, FD_CLOEXEC);
            s->ios[i] = loop_io_new(fake->loop, s->fds[i], i ? EPOLLIN : 0, fns[i], s);
        }
    *ret = s;
    return 0;
}

/* ---- ports ---- */

struct pod_dial {
    struct loop_io *io;
    int fd;
    void (*done)(void *arg, int fd, const struct err *err);
    void *arg;
    uint16_t port;
};

static void on_dial(void *arg, uint32_t events)
{
    struct pod_dial *dial = arg;
    struct pod_dial copy = *dial;
    socklen_t len = sizeof(int);
    struct err err = {0};
    int sys = 0;

    (void)events;
    getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &sys, &len);
    loop_io_free(dial->io);
    free(dial);
    if (sys != 0) {
        fd_close(copy.fd);
        err_set(&err, ERR_UNAVAILABLE, "connect to 127.0.0.1:%u: %s", copy.port, strerror(sys));
        copy.done(copy.arg, -1, &err);
    } else {
        copy.done(copy.arg, copy.fd, NULL);
    }
}

static int fake_dial(void *arg, const struct pod_ref *pod, uint16_t port,
                     void (*done)(void *done_arg, int fd, const struct err *err), void *done_arg,
                     struct pod_dial **ret, struct err *err)
{
    struct sockaddr_in addr = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct fake_pods *fake = arg;
    struct pod_dial *dial;

    (void)pod;
    if (fd < 0)
        return err_errno(err, errno, "socket");
    (void)connect(fd, (struct sockaddr *)&addr, sizeof(addr)); /* on_dial hears how it went */
    dial = NEW(struct pod_dial);
    *dial = (struct pod_dial){.fd = fd, .done = done, .arg = done_arg, .port = port};
    dial->io = loop_io_new(fake->loop, fd, EPOLLOUT, on_dial, dial);
    *ret = dial;
    return 0;
}

static void fake_dial_cancel(struct pod_dial *dial)
{
    loop_io_free(dial->io);
    fd_close(dial->fd);
    free(dial);
}

struct fake_pods *fake_pods_new(struct loop *loop, const char *logs_dir)
{
    struct fake_pods *fake = NEW(struct fake_pods);

    fake->loop = loop;
    fake->logs_dir = logs_dir;
    fake->watch = log_watch_new(loop);
    fake->ops = (struct pod_ops){
        .arg = fake,
        .check = fake_check,
        .log = fake_log,
        .log_pause = fake_log_pause,
        .log_free = fake_log_free,
        .exec = fake_exec,
        .stream_write = fake_write,
        .stream_close_stdin = fake_close_stdin,
        .stream_resize = fake_resize,
        .stream_pause = fake_pause,
        .stream_free = fake_stream_free,
        .dial = fake_dial,
        .dial_cancel = fake_dial_cancel,
    };
    return fake;
}

void fake_pods_free(struct fake_pods *fake)
{
    if (!fake)
        return;
    for (struct pod_stream *s = fake->streams, *next; s; s = next) {
        next = s->next;
        kill(s->pid, SIGKILL);
        waitpid(s->pid, NULL, 0);
        free_now(s);
    }
    log_watch_free(fake->watch);
    free(fake);
}

const struct pod_ops *fake_pods_ops(const struct fake_pods *fake)
{
    return &fake->ops;
}
