/* Attached clients: each has a connection of its own to the container's shim, which holds back its output
 * while this side does not read, and whose stdin waits in the socket while the container does not read. */
#include "runtime/exec.h"

#include <errno.h>

static void on_event(void *arg, uint32_t events)
{
    struct runtime_stream *s = arg;
    static char data[SHIM_CHUNK];
    struct shim_msg msg = {0};
    struct runtime_exit how;
    ssize_t len;

    if ((events & EPOLLOUT) && s->want_write) {
        s->want_write = false;
        attach_listen(s);
        if (s->events->writable) {
            s->events->writable(s->arg, s);
            return; /* it may have freed s; what can be read is still there in the next turn */
        }
    }
    if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return;
    len = oci_recv(s->control, &msg, data, sizeof(data), NULL);
    if (len < 0 && errno == EAGAIN)
        return;
    if (len < 0) {
        loop_io_free(s->control_io);
        s->control_io = NULL;
        fd_close(take_fd(&s->control));
        stream_ended(s, NULL);
        return;
    }
    switch (msg.type) {
    case SHIM_STDOUT:
    case SHIM_STDERR:
        if (s->events->output)
            s->events->output(s->arg, s, msg.type == SHIM_STDOUT ? 1 : 2, data, (size_t)len);
        break;
    case SHIM_EXITED:
        how = (struct runtime_exit){.code = msg.code,
                                    .signal = msg.signal,
                                    .oom = msg.oom > 0,
                                    .started = msg.started,
                                    .finished = msg.finished,
                                    .log_dropped = msg.dropped};
        stream_ended(s, &how);
        break;
    default:
        break;
    }
}

/* Paused means not watched: the end of a connection would be reported all the time. */
void attach_listen(struct runtime_stream *s)
{
    uint32_t events = (s->paused ? 0U : EPOLLIN) | (s->want_write ? EPOLLOUT : 0U);

    if (!events || s->control < 0) {
        loop_io_free(s->control_io);
        s->control_io = NULL;
    } else if (!s->control_io) {
        s->control_io = loop_io_new(s->rt->loop, s->control, events, on_event, s);
    } else {
        loop_io_set(s->control_io, events);
    }
}

size_t attach_write(struct runtime_stream *s, const char *data, size_t len)
{
    struct shim_msg msg = {.type = SHIM_STDIN};
    size_t done = 0;

    while (s->control >= 0 && done < len) {
        size_t n = len - done < SHIM_CHUNK ? len - done : SHIM_CHUNK;

        if (oci_send(s->control, &msg, data + done, n) < 0) {
            if (errno != EAGAIN && errno != ENOBUFS)
                return len; /* its end follows */
            s->want_write = true;
            attach_listen(s);
            return done;
        }
        done += n;
    }
    return done;
}

void attach_close_stdin(struct runtime_stream *s)
{
    struct shim_msg msg = {.type = SHIM_STDIN};

    if (s->control >= 0)
        oci_send(s->control, &msg, NULL, 0);
}

int runtime_attach(struct runtime_container *c, bool with_stdin, bool with_output,
                   const struct runtime_stream_events *events, void *arg, struct runtime_stream **ret,
                   struct err *err)
{
    CLEANUP(runtime_stream_free) struct runtime_stream *s = stream_new(c->rt, events, arg);
    struct shim_msg msg = {.type = SHIM_ATTACH};

    if (c->state == CONTAINER_ENDED || oci_connect(c->dir, &s->control) < 0)
        return err_set(err, ERR_CONFLICT, "container '%s' does not run", c->id);
    s->attach = true;
    s->tty = c->tty;
    msg.flags = (with_stdin ? SHIM_ATTACH_STDIN : 0U) | (with_output ? SHIM_ATTACH_OUTPUT : 0U);
    if (oci_send(s->control, &msg, NULL, 0) < 0)
        return err_errno(err, errno, "attach to container '%s'", c->id);
    attach_listen(s);
    *ret = TAKE_PTR(s);
    return 0;
}
