/* What a client sends after its upgrade, to the sessions of exec and port-forward over SPDY and WebSocket: in
 * one piece and in several, the same answer both times. The first byte chooses the session, the second the
 * cut. Also the entries of log files. */
#include "api/kube/portforward.h"
#include "api/kube/stream_exec.h"
#include "base/buf.h"
#include "engine/log_tail.h"

#include <stdint.h>
#include <stdlib.h>

struct run {
    struct buf out, in;
    struct pod_stream_events events;
    void *arg;
    unsigned started, freed, dials;
    bool closed;
};

static void conn_write(void *arg, struct str data)
{
    buf_str(&((struct run *)arg)->out, data);
}

static size_t conn_unsent(void *arg)
{
    (void)arg;
    return 0;
}

static void conn_pause(void *arg, bool paused)
{
    (void)arg;
    (void)paused;
}

static void conn_close(void *arg)
{
    ((struct run *)arg)->closed = true;
}

static int run_exec(void *arg, const struct pod_ref *pod, const struct pod_exec *exec,
                    const struct pod_stream_events *events, void *events_arg, struct pod_stream **ret,
                    struct err *err)
{
    struct run *run = arg;

    (void)pod;
    (void)exec;
    (void)err;
    run->started++;
    run->events = *events;
    run->arg = events_arg;
    *ret = (struct pod_stream *)(void *)run;
    return 0;
}

static size_t run_write(struct pod_stream *stream, struct str data)
{
    buf_str(&((struct run *)(void *)stream)->in, data);
    return data.len;
}

static void run_close_stdin(struct pod_stream *stream)
{
    buf_puts(&((struct run *)(void *)stream)->in, "|end");
}

static void run_resize(struct pod_stream *stream, uint16_t rows, uint16_t cols)
{
    (void)stream;
    if (rows == 0 || cols == 0)
        abort();
}

static void run_pause(struct pod_stream *stream, bool pause)
{
    (void)stream;
    (void)pause;
}

static void run_free(struct pod_stream *stream)
{
    ((struct run *)(void *)stream)->freed++;
}

static int run_dial(void *arg, const struct pod_ref *pod, uint16_t port,
                    void (*done)(void *done_arg, int fd, const struct err *err), void *done_arg,
                    struct pod_dial **ret, struct err *err)
{
    (void)pod;
    (void)done;
    (void)done_arg;
    (void)err;
    if (port == 0)
        abort();
    ((struct run *)arg)->dials++;
    *ret = (struct pod_dial *)arg;
    return 0;
}

static void run_dial_cancel(struct pod_dial *dial)
{
    ((struct run *)(void *)dial)->dials--;
}

/* *ret: of exec, to be begun when the wire is open. */
static struct wire *make_session(struct loop *loop, const struct pod_ops *ops, uint8_t mode,
                                 struct stream_exec **ret)
{
    static const char *const argv[] = {"x", NULL};
    struct stream_exec_config exec = {.loop = loop,
                                      .ops = ops,
                                      .pod = {"n", "p", "u"},
                                      .exec = {.container = "c", .argv = argv, .tty = mode & 4, .in = true},
                                      .websocket = mode & 1,
                                      .version = mode & 1 ? 4 + (mode >> 3 & 1) : 1 + (mode >> 3 & 3)};
    struct portforward_config forward = {
        .loop = loop, .ops = ops, .pod = {"n", "p", "u"}, .websocket = mode & 1};
    struct wire *wire;

    if (mode & 2)
        return portforward_new(&forward);
    exec.exec.out = true;
    exec.exec.err = !exec.exec.tty;
    *ret = stream_exec_new(&exec, &wire);
    return wire;
}

static void feed(struct loop *loop, uint8_t mode, size_t cut, struct str data, struct run *run)
{
    static const struct wire_io io = {conn_write, conn_unsent, conn_pause, conn_close};
    struct pod_ops ops = {.arg = run,
                          .exec = run_exec,
                          .stream_write = run_write,
                          .stream_close_stdin = run_close_stdin,
                          .stream_resize = run_resize,
                          .stream_pause = run_pause,
                          .stream_free = run_free,
                          .dial = run_dial,
                          .dial_cancel = run_dial_cancel};
    struct stream_exec *exec = NULL;
    struct wire *wire = make_session(loop, &ops, mode, &exec);

    wire_open(wire, &io, run);
    if (exec)
        stream_exec_begin(exec);
    while (data.len > 0 && !run->closed) {
        size_t len = cut > 0 && cut < data.len ? cut : data.len;

        wire_input(wire, (struct str){data.s, len});
        data = (struct str){data.s + len, data.len - len};
    }
    if (run->started && !run->closed) {
        run->events.output(run->arg, 1, STR("out"));
        run->events.ended(run->arg, 3, NULL);
    }
    if (!run->closed)
        wire_gone(wire);
    if (run->freed != run->started || run->dials != 0)
        abort();
}

static void check_entries(struct str data)
{
    struct log_entry entry;
    struct str line;

    while (str_split(&data, '\n', &line))
        if (line.s && log_entry_parse(line.s, line.len, &entry) &&
            (entry.text + entry.text_len != line.s + line.len || entry.time != line.s))
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct run whole = {0}, pieces = {0};
    struct str bytes = {(const char *)data + 2, size - 2};
    struct loop *loop;

    if (size < 2)
        return 0;
    loop = loop_new();
    feed(loop, data[0], 0, bytes, &whole);
    feed(loop, data[0], 1 + data[1], bytes, &pieces);
    /* What is ended early may have started or not: the command starts when a piece has been read. */
    if (!whole.closed && !str_eq(buf_view(&whole.in), buf_view(&pieces.in)))
        abort();
    if (whole.started == pieces.started && !str_eq(buf_view(&whole.out), buf_view(&pieces.out)))
        abort();
    check_entries(bytes);
    buf_done(&whole.out);
    buf_done(&whole.in);
    buf_done(&pieces.out);
    buf_done(&pieces.in);
    loop_free(loop);
    return 0;
}
