/* The shim of one container: starts it by the OCI runtime, keeps its stdio, log and terminal, and writes down
 * how it ended. One poll loop, one state: CREATING (the OCI runtime works), RUNNING, DRAINING (the process
 * has ended, output may still come), DELETING (the record is on disk and told; the OCI runtime cleans up).
 *
 * As a subreaper the shim becomes the parent of the container's first process once the OCI runtime has left.
 * Until then only the OCI runtime is waited for: the container may end first, and its status must not be
 * taken before its pid is known.
 *
 * An attached client that does not take its output holds up reading for CLIENT_PATIENCE, then it is cut off.
 */
#include "shim/shim.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define MSEC            ((int64_t)1000000)
#define CLIENT_PATIENCE (5000 * MSEC)
#define DRAIN_TIME      (200 * MSEC) /* a process left behind may hold the pipe open for ever */

struct client {
    int fd;
    unsigned flags;  /* enum shim_attach */
    char *pending;   /* a message that did not fit, NULL: none */
    size_t len;      /* its data */
    uint16_t type;   /* and type */
    int64_t give_up; /* when to cut it off */
};

static struct {
    struct shim_conf conf;
    struct shim_kept kept;
    struct shim_log log;
    enum shim_state state;
    const char *id, *runtime, *root, *hide;
    bool tty, stdin_once;
    pid_t oci, pid;
    int sig_fd, listen_fd, console_fd;
    int out[2];    /* stdout (or the terminal), stderr; -1: ended */
    int child[3];  /* the container's ends, until it is started */
    int in;        /* stdin (or the terminal); -1: closed */
    bool in_close; /* after what is pending */
    char *in_data; /* bytes for stdin that did not fit */
    size_t in_len, in_at;
    int signal; /* to send once it runs */
    int64_t started, finished, drain_end;
    int status;
    uint32_t oom;
    struct client clients[SHIM_CLIENTS];
    char chunk[SHIM_CHUNK];
} shim;

static void client_drop(struct client *client)
{
    close(client->fd);
    free(client->pending);
    *client = (struct client){.fd = -1};
}

static void client_send(struct client *client, const struct shim_msg *msg, const char *data, size_t len)
{
    if (client->fd < 0 || sock_send(client->fd, msg, data, len, -1) == 0)
        return;
    if ((errno != EAGAIN && errno != ENOBUFS) || !(msg->type == SHIM_STDOUT || msg->type == SHIM_STDERR) ||
        !(client->pending = malloc(len ? len : 1))) {
        client_drop(client);
        return;
    }
    memcpy(client->pending, data, len);
    client->len = len;
    client->type = msg->type;
    client->give_up = now_mono() + CLIENT_PATIENCE;
}

static void client_retry(struct client *client)
{
    struct shim_msg msg = {.type = client->type};
    char *data = client->pending;

    client->pending = NULL;
    if (sock_send(client->fd, &msg, data, client->len, -1) == 0) {
        free(data);
        return;
    }
    client->pending = data;
    if (errno != EAGAIN && errno != ENOBUFS)
        client_drop(client);
}

static void tell_all(const struct shim_msg *msg, const char *data, size_t len)
{
    for (struct client *c = shim.clients; c < shim.clients + SHIM_CLIENTS; c++)
        client_send(c, msg, data, len);
}

static bool held_up(void)
{
    for (struct client *c = shim.clients; c < shim.clients + SHIM_CLIENTS; c++)
        if (c->pending)
            return true;
    return false;
}

static void client_new(int fd)
{
    struct shim_msg hello = {.type = SHIM_HELLO,
                             .state = (uint16_t)shim.state,
                             .pid = shim.pid,
                             .started = shim.started,
                             .flags = shim.tty,
                             .shim_pid = getpid()};

    for (struct client *c = shim.clients; c < shim.clients + SHIM_CLIENTS; c++)
        if (c->fd < 0) {
            *c = (struct client){.fd = fd};
            client_send(c, &hello, NULL, 0);
            return;
        }
    close(fd);
}

/* ---- ends ---- */

static void fd_gone(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void close_stdin(void)
{
    if (shim.tty)
        return; /* the terminal has one descriptor for both ways */
    fd_gone(&shim.in);
    free(shim.in_data);
    shim.in_data = NULL;
}

static const char *oci_log_path(void)
{
    return "oci.log";
}

static bool remove_folder(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        if (entry->d_name[0] != '.' || (entry->d_name[1] != '.' && entry->d_name[1] != '\0'))
            unlinkat(dirfd(dir), entry->d_name, 0);
    if (dir)
        closedir(dir);
    return rmdir(path) == 0 || errno == ENOENT;
}

/* What `delete` of the OCI runtime comes to for a container whose processes are all gone and that has no
 * poststop hook (berthd says so by `quick`): its cgroups and the runtime's note of it. A third of the time
 * that a short container takes would go into starting the OCI runtime for this. */
static bool delete_quickly(void)
{
    static char path[4200];
    bool done = true;

    if (!conf_int(&shim.conf, "quick", 0))
        return false;
    for (int i = 0; done; i++) {
        const char *cgroup;

        snprintf(path, sizeof(path), "cgroup%d", i);
        cgroup = conf_get(&shim.conf, path);
        if (!cgroup)
            break;
        done = rmdir(cgroup) == 0 || errno == ENOENT;
    }
    snprintf(path, sizeof(path), "%s/%s", shim.root, shim.id);
    return done && remove_folder(path);
}

static void leave(void)
{
    unlink("shim.sock");
    _exit(0);
}

static void spawn_delete(void)
{
    const char *argv[] = {shim.runtime, "--root", shim.root, "delete", "-f", shim.id, NULL};
    const int none[3] = {-1, -1, -1};

    shim.state = SHIM_DELETING;
    shim.oci = oci_spawn(argv, none, shim.hide);
    if (shim.oci < 0)
        _exit(1);
}

static void failed(const char *sentence)
{
    struct shim_msg msg = {.type = SHIM_FAILED};
    static char record[8192];
    int n = snprintf(record, sizeof(record), "failed=%s\n", sentence);

    if (n >= (int)sizeof(record))
        n = (int)sizeof(record) - 1;
    record_write("exit", record, (size_t)n);
    tell_all(&msg, sentence, strlen(sentence));
    spawn_delete();
}

/* Somebody removed something of the folder. While the OCI runtime is at work it fails by itself, and
 * afterwards the folder may be berthd's to remove. */
static void mend(void)
{
    if ((shim.state != SHIM_RUNNING && shim.state != SHIM_DRAINING) ||
        !folder_mend(&shim.conf, &shim.kept, shim.id, shim.pid) || access("shim.sock", F_OK) == 0)
        return;
    fd_gone(&shim.listen_fd);
    shim.listen_fd = sock_listen("shim.sock", SOCK_SEQPACKET);
}

/* The record first, then the notice: whoever was told can rely on it. */
static void finish(void)
{
    struct shim_msg msg = {.type = SHIM_EXITED, .started = shim.started, .finished = shim.finished};
    char record[256];
    int n;

    close_stdin();
    log_close(&shim.log);
    if (WIFSIGNALED(shim.status)) {
        msg.signal = WTERMSIG(shim.status);
        msg.code = 128 + msg.signal;
    } else {
        msg.code = WEXITSTATUS(shim.status);
    }
    msg.oom = shim.oom;
    msg.dropped = shim.log.dropped;
    n = snprintf(record, sizeof(record),
                 "code=%d\nsignal=%d\noom=%u\nstarted=%lld\nfinished=%lld\ndropped=%lld\n", msg.code,
                 msg.signal, msg.oom, (long long)msg.started, (long long)msg.finished,
                 (long long)msg.dropped);
    if (record_write("exit", record, (size_t)n) < 0 && errno == ENOENT) { /* the folder is gone */
        mend();
        record_write("exit", record, (size_t)n);
    }
    tell_all(&msg, NULL, 0);
    if (delete_quickly())
        leave();
    spawn_delete();
}

/* ---- the container's output and input ---- */

static void read_output(int which)
{
    int *fd = &shim.out[which];
    ssize_t n = read(*fd, shim.chunk, sizeof(shim.chunk));
    struct shim_msg msg = {.type = which == 0 ? SHIM_STDOUT : SHIM_STDERR};

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) { /* EIO: nobody has the terminal open any more */
        if (shim.tty && shim.state == SHIM_RUNNING) {
            /* It may be opened again (a process that daemonises): look now and then instead of spinning. */
            shim.drain_end = now_mono() + DRAIN_TIME;
            return;
        }
        if (shim.tty && shim.in == *fd)
            shim.in = -1;
        fd_gone(fd);
        return;
    }
    log_add(&shim.log, which == 0 ? "stdout" : "stderr", shim.chunk, (size_t)n, now_real());
    for (struct client *c = shim.clients; c < shim.clients + SHIM_CLIENTS; c++)
        if (c->flags & SHIM_ATTACH_OUTPUT)
            client_send(c, &msg, shim.chunk, (size_t)n);
}

static void write_stdin(void)
{
    while (shim.in_data && shim.in_at < shim.in_len) {
        ssize_t n = write(shim.in, shim.in_data + shim.in_at, shim.in_len - shim.in_at);

        if (n < 0 && errno == EAGAIN)
            return;
        if (n < 0) { /* the reader is gone */
            close_stdin();
            break;
        }
        shim.in_at += (size_t)n;
    }
    free(shim.in_data);
    shim.in_data = NULL;
    if (shim.in_close)
        close_stdin();
}

static void take_stdin(const char *data, size_t len)
{
    if (shim.in < 0)
        return;
    if (len == 0) {
        if (!shim.stdin_once)
            return;
        shim.in_close = true;
    } else if (!shim.in_data && (shim.in_data = malloc(len))) {
        memcpy(shim.in_data, data, len);
        shim.in_len = len;
        shim.in_at = 0;
    }
    write_stdin();
}

static void send_signal(int signo)
{
    if (shim.state == SHIM_CREATING)
        shim.signal = signo;
    else if (shim.state == SHIM_RUNNING) /* not reaped yet, so the pid is still its own */
        kill(shim.pid, signo);
}

static void client_read(struct client *client)
{
    struct shim_msg msg = {0};
    struct iovec iov[2] = {{&msg, sizeof(msg)}, {shim.chunk, sizeof(shim.chunk)}};
    struct msghdr head = {.msg_iov = iov, .msg_iovlen = 2};
    ssize_t n = recvmsg(client->fd, &head, MSG_DONTWAIT);
    size_t len = n > (ssize_t)sizeof(msg) ? (size_t)n - sizeof(msg) : 0;

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        bool had_stdin = client->flags & SHIM_ATTACH_STDIN;

        client_drop(client);
        if (had_stdin)
            take_stdin(NULL, 0);
        return;
    }
    switch (msg.type) {
    case SHIM_ATTACH:
        client->flags = msg.flags;
        break;
    case SHIM_STDIN:
        if (client->flags & SHIM_ATTACH_STDIN)
            take_stdin(shim.chunk, len);
        break;
    case SHIM_RESIZE:
        if (shim.tty && shim.in >= 0)
            tty_resize(shim.in, msg.rows, msg.cols);
        break;
    case SHIM_SIGNAL:
        send_signal(msg.signal);
        break;
    default:
        break;
    }
}

/* ---- children ---- */

/* Its own weight, which the OCI runtime was not to have in its way. Without it the process has more of a
 * busy machine than it asked for, which is no reason to end it. */
static void set_weight(void)
{
    const char *path = conf_get(&shim.conf, "weight_path"), *text = conf_get(&shim.conf, "weight");
    int fd = path && text ? open(path, O_WRONLY | O_CLOEXEC) : -1;

    if (fd >= 0) {
        write_all(fd, text, strlen(text));
        close(fd);
    }
}

static void oci_ended(int status)
{
    static char line[4096];
    struct shim_msg msg = {.type = SHIM_STARTED};

    shim.oci = 0;
    if (shim.state == SHIM_DELETING)
        leave();
    for (int i = 0; i < 3; i++)
        fd_gone(&shim.child[i]);
    shim.pid = pidfile_read("pid");
    if (status != 0 || shim.pid <= 0) {
        shim.pid = 0;
        failed(last_line(oci_log_path(), line, sizeof(line)) ? line
                                                             : "the OCI runtime failed without a word");
        return;
    }
    if (shim.tty && shim.out[0] < 0) {
        failed("the OCI runtime gave no terminal");
        return;
    }
    shim.state = SHIM_RUNNING;
    shim.started = now_real();
    kept_open_state(&shim.kept, shim.root, shim.id);
    msg.pid = shim.pid;
    msg.started = shim.started;
    tell_all(&msg, NULL, 0);
    set_weight();
    if (shim.signal)
        kill(shim.pid, shim.signal);
}

static void process_ended(int status)
{
    const char *path = conf_get(&shim.conf, "oom");

    shim.status = status;
    shim.finished = now_real();
    shim.oom = (uint32_t)counter_read(path, "oom_kill"); /* gone with the cgroup */
    shim.state = SHIM_DRAINING;
    shim.drain_end = now_mono() + DRAIN_TIME;
}

static void reap(void)
{
    struct signalfd_siginfo info;
    int status;
    pid_t pid;

    while (read(shim.sig_fd, &info, sizeof(info)) > 0)
        if (info.ssi_signo == SIGHUP)
            mend();
    if (shim.state == SHIM_CREATING) {
        if (waitpid(shim.oci, &status, WNOHANG) != shim.oci)
            return;
        oci_ended(status);
    }
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == shim.pid && shim.state == SHIM_RUNNING)
            process_ended(status);
        else if (pid == shim.oci)
            oci_ended(status);
    }
}

static void take_terminal(void)
{
    int conn = accept4(shim.console_fd, NULL, NULL, SOCK_CLOEXEC);
    int fd;

    if (conn < 0)
        return;
    fd = sock_take_fd(conn);
    close(conn);
    if (fd < 0)
        return;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    tty_resize(fd, (unsigned)conf_int(&shim.conf, "rows", 24), (unsigned)conf_int(&shim.conf, "cols", 80));
    shim.out[0] = shim.in = fd;
    fd_gone(&shim.console_fd);
    unlink("console.sock");
}

/* ---- start ---- */

static int make_pipe(int *ours, int *theirs, bool reads, uid_t uid, gid_t gid)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -1;
    *ours = fds[reads ? 0 : 1];
    *theirs = fds[reads ? 1 : 0];
    fcntl(*ours, F_SETFL, O_NONBLOCK);
    /* So that /dev/stdout and its like can be opened again by the container's user. */
    return fchown(fds[0], uid, gid);
}

static int open_stdio(void)
{
    uid_t uid = (uid_t)conf_int(&shim.conf, "uid", 0);
    gid_t gid = (gid_t)conf_int(&shim.conf, "gid", 0);

    if (shim.tty) {
        shim.console_fd = sock_listen("console.sock", SOCK_STREAM);
        return shim.console_fd < 0 ? -1 : 0;
    }
    if (conf_int(&shim.conf, "stdin", 0) && make_pipe(&shim.in, &shim.child[0], false, uid, gid) < 0)
        return -1;
    if (make_pipe(&shim.out[0], &shim.child[1], true, uid, gid) < 0)
        return -1;
    return make_pipe(&shim.out[1], &shim.child[2], true, uid, gid);
}

/* The current folder is the bundle. The console's path goes by our own /proc entry: state folders can be
 * deeper than a socket's name is long, and the OCI runtime changes directory. */
static int spawn_run(void)
{
    const char *bundle = conf_get(&shim.conf, "bundle");
    static char pid_path[4200], log_path[4200], console[64];
    const char *argv[20];
    size_t n = 0;

    snprintf(pid_path, sizeof(pid_path), "%s/pid", bundle);
    snprintf(log_path, sizeof(log_path), "%s/%s", bundle, oci_log_path());
    snprintf(console, sizeof(console), "/proc/%d/cwd/console.sock", (int)getpid());
    argv[n++] = shim.runtime;
    argv[n++] = "--root";
    argv[n++] = shim.root;
    argv[n++] = "--log";
    argv[n++] = log_path;
    argv[n++] = "--log-format";
    argv[n++] = "json";
    argv[n++] = "run";
    argv[n++] = "--detach";
    argv[n++] = "--bundle";
    argv[n++] = bundle;
    argv[n++] = "--pid-file";
    argv[n++] = pid_path;
    if (shim.tty) {
        argv[n++] = "--console-socket";
        argv[n++] = console;
    }
    argv[n++] = shim.id;
    argv[n] = NULL;
    shim.oci = oci_spawn(argv, shim.child, shim.hide);
    return shim.oci < 0 ? -1 : 0;
}

static int set_up(const char *id)
{
    sigset_t mask;

    shim.id = id;
    shim.state = SHIM_CREATING;
    shim.console_fd = shim.out[0] = shim.out[1] = shim.in = -1;
    shim.child[0] = shim.child[1] = shim.child[2] = -1;
    for (struct client *c = shim.clients; c < shim.clients + SHIM_CLIENTS; c++)
        c->fd = -1;
    if (conf_read(&shim.conf, "shim.conf") < 0)
        return -1;
    shim.runtime = conf_get(&shim.conf, "runtime");
    shim.root = conf_get(&shim.conf, "root");
    shim.hide = conf_get(&shim.conf, "hide");
    shim.tty = conf_int(&shim.conf, "tty", 0);
    shim.stdin_once = conf_int(&shim.conf, "stdin_once", 0);
    if (!shim.runtime || !shim.root || !conf_get(&shim.conf, "bundle")) {
        errno = EINVAL;
        return -1;
    }
    sigfillset(&mask); /* nothing but KILL ends a shim; the OCI runtime gets an empty mask */
    sigprocmask(SIG_SETMASK, &mask, NULL);
    sigemptyset(&mask);
    sigaddset(&mask, SIGCHLD);
    sigaddset(&mask, SIGHUP); /* see mend.c */
    shim.sig_fd = signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK);
    if (shim.sig_fd < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)
        return -1;
    kept_open(&shim.kept);
    shim.listen_fd = sock_listen("shim.sock", SOCK_SEQPACKET);
    if (shim.listen_fd < 0)
        return -1;
    client_new(SHIM_FD_CONTROL);
    return 0;
}

/* ---- the loop ---- */

enum {
    AT_SIGNAL,
    AT_LISTEN,
    AT_CONSOLE,
    AT_OUT,
    AT_ERR,
    AT_IN,
    AT_CLIENTS,
    AT_END = AT_CLIENTS + SHIM_CLIENTS
};

/* Stdin that does not fit waits in the client's socket. */
static bool waits(const struct client *c)
{
    return shim.in_data && (c->flags & SHIM_ATTACH_STDIN);
}

static void fill(struct pollfd *fds)
{
    bool read_out = (shim.state == SHIM_RUNNING || shim.state == SHIM_DRAINING) && !held_up();

    /* A terminal nobody has open reports an end all the time; see read_output. */
    if (shim.tty && shim.state == SHIM_RUNNING && now_mono() < shim.drain_end)
        read_out = false;
    for (int i = 0; i < AT_END; i++)
        fds[i] = (struct pollfd){.fd = -1, .events = POLLIN};
    fds[AT_SIGNAL].fd = shim.sig_fd;
    fds[AT_LISTEN].fd = shim.listen_fd;
    fds[AT_CONSOLE].fd = shim.console_fd;
    if (read_out) {
        fds[AT_OUT].fd = shim.out[0];
        fds[AT_ERR].fd = shim.out[1];
    }
    if (shim.in_data) {
        fds[AT_IN].fd = shim.in;
        fds[AT_IN].events = POLLOUT;
    }
    for (int i = 0; i < SHIM_CLIENTS; i++) {
        struct client *c = &shim.clients[i];
        bool wait = waits(c);

        if (c->fd < 0)
            continue;
        fds[AT_CLIENTS + i].fd = wait && !c->pending ? -1 : c->fd;
        fds[AT_CLIENTS + i].events = (short)((wait ? 0 : POLLIN) | (c->pending ? POLLOUT : 0));
    }
}

/* Milliseconds until something is due; -1: nothing is. */
static int due(void)
{
    int64_t at = INT64_MAX, left;

    if ((shim.state == SHIM_DRAINING && !held_up()) || (shim.tty && shim.drain_end > now_mono()))
        at = shim.drain_end;
    for (struct client *c = shim.clients; c < shim.clients + SHIM_CLIENTS; c++)
        if (c->pending && c->give_up < at)
            at = c->give_up;
    if (at == INT64_MAX)
        return -1;
    left = at - now_mono();
    return left <= 0 ? 0 : (int)(left / MSEC) + 1;
}

static void check_time(void)
{
    int64_t now = now_mono();
    bool ended = shim.out[0] < 0 && shim.out[1] < 0;

    if (shim.state == SHIM_DRAINING && held_up()) /* nothing was read meanwhile: its time begins afterwards */
        shim.drain_end = now + DRAIN_TIME;
    for (struct client *c = shim.clients; c < shim.clients + SHIM_CLIENTS; c++)
        if (c->pending && now >= c->give_up)
            client_drop(c);
    if (shim.state == SHIM_DRAINING && (ended || now >= shim.drain_end) && !held_up())
        finish();
}

static void turn(void)
{
    static struct pollfd fds[AT_END];

    fill(fds);
    if (poll(fds, AT_END, due()) < 0)
        return;
    if (fds[AT_CONSOLE].revents)
        take_terminal();
    if (fds[AT_OUT].revents)
        read_output(0);
    if (fds[AT_ERR].revents && !held_up())
        read_output(1);
    if (fds[AT_IN].revents)
        write_stdin();
    for (int i = 0; i < SHIM_CLIENTS; i++) {
        struct client *c = &shim.clients[i];
        short got = fds[AT_CLIENTS + i].revents;

        if (c->fd >= 0 && (got & POLLOUT) && c->pending)
            client_retry(c);
        /* Another client's input may have come in between, and does not fit yet. */
        if (c->fd >= 0 && (got & (POLLIN | POLLHUP | POLLERR)) && !waits(c))
            client_read(c);
    }
    if (fds[AT_LISTEN].revents) {
        int fd = accept4(shim.listen_fd, NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0)
            client_new(fd);
    }
    if (fds[AT_SIGNAL].revents)
        reap();
    check_time();
}

int shim_run(const char *id)
{
    static char sentence[256];

    if (set_up(id) < 0)
        return 1;
    log_open(&shim.log, conf_get(&shim.conf, "log"), conf_int(&shim.conf, "log_max", 0),
             (unsigned)conf_int(&shim.conf, "log_files", 2));
    if (open_stdio() < 0 || spawn_run() < 0) {
        snprintf(sentence, sizeof(sentence), "start the OCI runtime: %s", strerrordesc_np(errno));
        failed(sentence);
    }
    for (;;)
        turn();
}
