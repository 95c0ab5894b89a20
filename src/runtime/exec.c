/* Commands in running containers. The command's pipes or terminal are ours directly, so bytes take no detour;
 * the helper (berth-shim exec) starts it, waits for it and says how it ended. A stream has ended when that is
 * known and its output is read to the end. */
#include "runtime/exec.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define CONFIG_MAX (16 << 20)
#define DRAIN_TIME (200 * NSEC_PER_MSEC)

static void exec_listen(struct runtime_stream *s);

/* ---- the end ---- */

void stream_ended(struct runtime_stream *s, const struct runtime_exit *how)
{
    if (s->ended)
        return;
    s->ended = true;
    if (s->events->ended)
        s->events->ended(s->arg, s, how);
}

void stream_failed(struct runtime_stream *s, const char *sentence)
{
    if (s->ended)
        return;
    s->ended = true;
    if (s->events->failed)
        s->events->failed(s->arg, s, sentence);
    else if (s->events->ended)
        s->events->ended(s->arg, s, NULL);
}

static void drop_io(struct loop_io **io)
{
    loop_io_free(*io);
    *io = NULL;
}

static void close_output(struct runtime_stream *s, int which)
{
    drop_io(&s->out_io[which]);
    fd_close(take_fd(&s->out[which]));
}

static void check_end(struct runtime_stream *s)
{
    if (s->has_exit && s->out[0] < 0 && s->out[1] < 0)
        stream_ended(s, &s->how);
}

static void on_drained(void *arg)
{
    struct runtime_stream *s = arg;

    if (s->paused) { /* who takes nothing for the moment does not lose what is there */
        loop_timer_set(s->drain, DRAIN_TIME);
        return;
    }
    close_output(s, 0);
    close_output(s, 1);
    check_end(s);
}

/* ---- bytes ---- */

static void on_output(struct runtime_stream *s, int which)
{
    static char chunk[RUNTIME_CHUNK_MAX];
    ssize_t n = read(s->out[which], chunk, sizeof(chunk));

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) { /* EIO: the terminal has no user any more */
        close_output(s, which);
        check_end(s);
        return;
    }
    if (s->events->output)
        s->events->output(s->arg, s, which + 1, chunk, (size_t)n);
}

static void on_stdout(void *arg, uint32_t events)
{
    (void)events;
    on_output(arg, 0);
}

static void on_stderr(void *arg, uint32_t events)
{
    (void)events;
    on_output(arg, 1);
}

static void on_writable(void *arg, uint32_t events)
{
    struct runtime_stream *s = arg;

    drop_io(&s->in_io);
    s->want_write = false;
    if (events & EPOLLERR) { /* nobody reads it any more */
        fd_close(take_fd(&s->in));
        return;
    }
    if (s->events->writable)
        s->events->writable(s->arg, s);
}

/* A paused stream is not watched at all: the end of a pipe would be reported all the time. */
static void exec_listen(struct runtime_stream *s)
{
    static const loop_io_fn fns[2] = {on_stdout, on_stderr};

    for (int i = 0; i < 2; i++) {
        bool want = s->out[i] >= 0 && !s->paused;

        if (want && !s->out_io[i])
            s->out_io[i] = loop_io_new(s->rt->loop, s->out[i], EPOLLIN, fns[i], s);
        else if (!want)
            drop_io(&s->out_io[i]);
    }
    if (s->want_write && !s->in_io && s->in >= 0)
        s->in_io = loop_io_new(s->rt->loop, s->in, EPOLLOUT, on_writable, s);
}

static size_t exec_write(struct runtime_stream *s, const char *data, size_t len)
{
    size_t done = 0;

    while (s->in >= 0 && done < len) {
        ssize_t n = write(s->in, data + done, len - done);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            s->want_write = true;
            exec_listen(s);
            return done;
        }
        if (n < 0) { /* closed by the command: the rest is nobody's */
            drop_io(&s->in_io);
            fd_close(take_fd(&s->in));
            return len;
        }
        done += (size_t)n;
    }
    return done;
}

/* ---- what the helper says ---- */

static void take_terminal(struct runtime_stream *s, int fd)
{
    if (fd < 0)
        return;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    s->out[0] = fd;
    s->in = fcntl(fd, F_DUPFD_CLOEXEC, 3); /* epoll takes a descriptor once */
    if (s->rows)
        runtime_stream_resize(s, s->rows, s->cols);
    exec_listen(s);
    if (s->in >= 0 && s->events->writable)
        s->events->writable(s->arg, s);
}

static void on_ended(struct runtime_stream *s, const struct shim_msg *msg)
{
    s->has_exit = true;
    s->how = (struct runtime_exit){
        .code = msg->code, .signal = msg->signal, .started = msg->started, .finished = msg->finished};
    loop_timer_set(s->drain, DRAIN_TIME);
    check_end(s);
}

static void on_control(void *arg, uint32_t events)
{
    struct runtime_stream *s = arg;
    static char data[SHIM_CHUNK];
    struct shim_msg msg = {0};
    int fd = -1;
    ssize_t len = oci_recv(s->control, &msg, data, sizeof(data), &fd);

    (void)events;
    if (len < 0 && errno == EAGAIN)
        return;
    if (len < 0) {
        drop_io(&s->control_io);
        fd_close(take_fd(&s->control));
        if (!s->has_exit)
            stream_failed(s, "the command's monitor ended unexpectedly");
        return;
    }
    if (msg.type == SHIM_PTY && s->tty && s->out[0] < 0) {
        take_terminal(s, fd);
        return;
    }
    fd_close(fd);
    if (msg.type == SHIM_EXITED) {
        on_ended(s, &msg);
    } else if (msg.type == SHIM_FAILED) {
        CLEANUP(free) char *sentence = oci_sentence((struct str){data, (size_t)len});

        s->has_exit = true;
        stream_failed(s, sentence);
    }
}

/* ---- start ---- */

struct runtime_stream *stream_new(struct runtime *rt, const struct runtime_stream_events *events, void *arg)
{
    struct runtime_stream *s = NEW(struct runtime_stream);

    s->rt = rt;
    s->events = events;
    s->arg = arg;
    s->control = s->in = s->out[0] = s->out[1] = -1;
    return s;
}

static int make_pipe(int *ours, int *theirs, bool reads, uid_t uid, gid_t gid, struct err *err)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return err_errno(err, errno, "make a pipe");
    *ours = fds[reads ? 0 : 1];
    *theirs = fds[reads ? 1 : 0];
    fcntl(*ours, F_SETFL, O_NONBLOCK);
    /* So that the command's user can open /dev/stdout and its like again. */
    if (fchown(fds[0], uid, gid) < 0)
        return err_errno(err, errno, "give a pipe to user %u", (unsigned)uid);
    return 0;
}

static int make_stdio(struct runtime_stream *s, const struct runtime_exec *exec,
                      const struct bundle_user *user, int theirs[3], struct err *err)
{
    if (exec->tty)
        return 0;
    if (exec->stdin_open && make_pipe(&s->in, &theirs[0], false, user->uid, user->gid, err) < 0)
        return -1;
    if (make_pipe(&s->out[0], &theirs[1], true, user->uid, user->gid, err) < 0)
        return -1;
    return make_pipe(&s->out[1], &theirs[2], true, user->uid, user->gid, err);
}

static int write_files(struct runtime_container *c, const struct runtime_exec *exec, const char *number,
                       struct bundle_user *user, struct err *err)
{
    CLEANUP(buf_done) struct buf config = {0};
    CLEANUP(buf_done) struct buf process = {0};
    CLEANUP(buf_done) struct buf conf = {0};
    CLEANUP(free) char *path = mem_printf("%s/config.json", c->dir);
    char name[40];

    if (file_read(path, CONFIG_MAX, &config, err) < 0 ||
        bundle_process(buf_view(&config), exec, &process, user, err) < 0)
        return -1;
    oci_conf_common(c->rt, &conf, c->dir);
    oci_conf_int(&conf, "tty", exec->tty);
    oci_conf_int(&conf, "rows", exec->rows ? exec->rows : 24);
    oci_conf_int(&conf, "cols", exec->cols ? exec->cols : 80);
    snprintf(name, sizeof(name), "exec-%s.json", number);
    if (oci_write(c->dir, name, buf_view(&process), err) < 0)
        return -1;
    snprintf(name, sizeof(name), "exec-%s.conf", number);
    return oci_write(c->dir, name, buf_view(&conf), err);
}

static void remove_files(const struct runtime_container *c, const char *number)
{
    static const char *const ends[] = {"json", "conf"};

    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        CLEANUP(free) char *path = mem_printf("%s/exec-%s.%s", c->dir, number, ends[i]);

        unlink(path);
    }
}

static int start_helper(struct runtime_stream *s, struct runtime_container *c, const char *number,
                        const int *fds, struct err *err)
{
    const char *words[] = {"exec", c->id, number, NULL};
    int pair[2], rc;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "make a socket pair");
    s->control = pair[0];
    rc = nursery_shim(s->rt, c->dir, words, fds, pair[1], err);
    close(pair[1]);
    if (rc < 0)
        return -1;
    s->control_io = loop_io_new(s->rt->loop, s->control, EPOLLIN, on_control, s);
    return 0;
}

int runtime_exec(struct runtime_container *c, const struct runtime_exec *exec,
                 const struct runtime_stream_events *events, void *arg, struct runtime_stream **ret,
                 struct err *err)
{
    CLEANUP(runtime_stream_free) struct runtime_stream *s = NULL;
    int theirs[3] = {-1, -1, -1};
    struct bundle_user user = {0};
    char number[17];
    int rc;

    if (c->state != CONTAINER_RUNNING)
        return err_set(err, ERR_CONFLICT, "container '%s' does not run", c->id);
    random_hex(number, 8);
    s = stream_new(c->rt, events, arg);
    s->tty = exec->tty;
    s->drain = loop_timer_new(s->rt->loop, on_drained, s);
    rc = write_files(c, exec, number, &user, err);
    if (rc == 0)
        rc = make_stdio(s, exec, &user, theirs, err);
    if (rc == 0)
        rc = start_helper(s, c, number, theirs, err);
    for (int i = 0; i < 3; i++)
        fd_close(theirs[i]);
    if (rc < 0) {
        remove_files(c, number); /* the helper's to remove, where there is one */
        return -1;
    }
    exec_listen(s);
    *ret = TAKE_PTR(s);
    return 0;
}

/* ---- both kinds ---- */

size_t runtime_stream_write(struct runtime_stream *s, const char *data, size_t len)
{
    if (s->ended)
        return 0;
    if (s->attach)
        return attach_write(s, data, len);
    if (s->tty && s->in < 0 && !s->has_exit) /* the terminal has not come yet; `writable` follows */
        return 0;
    return exec_write(s, data, len);
}

void runtime_stream_close_stdin(struct runtime_stream *s)
{
    if (s->attach) {
        attach_close_stdin(s);
    } else if (s->tty) {
        if (s->in >= 0 && write(s->in, "\004", 1) < 0) /* as a person would end it */
            return;
    } else {
        drop_io(&s->in_io);
        fd_close(take_fd(&s->in));
    }
}

void runtime_stream_pause(struct runtime_stream *s, bool pause)
{
    s->paused = pause;
    if (s->attach)
        attach_listen(s);
    else
        exec_listen(s);
}

void runtime_stream_resize(struct runtime_stream *s, uint16_t rows, uint16_t cols)
{
    struct shim_msg msg = {.type = SHIM_RESIZE, .rows = rows, .cols = cols};
    struct winsize size = {.ws_row = rows, .ws_col = cols};

    if (s->attach && s->control >= 0)
        oci_send(s->control, &msg, NULL, 0);
    else if (s->tty && s->out[0] >= 0)
        ioctl(s->out[0], TIOCSWINSZ, &size);
    s->rows = rows; /* the terminal may be on its way yet */
    s->cols = cols;
}

void runtime_stream_signal(struct runtime_stream *s, int signo)
{
    struct shim_msg msg = {.type = SHIM_SIGNAL, .signal = signo};

    if (!s->attach && s->control >= 0)
        oci_send(s->control, &msg, NULL, 0);
}

void runtime_stream_free(struct runtime_stream *s)
{
    if (!s)
        return;
    drop_io(&s->control_io);
    drop_io(&s->in_io);
    fd_close(s->control);
    fd_close(s->in);
    close_output(s, 0);
    close_output(s, 1);
    loop_timer_free(s->drain);
    free(s);
}
