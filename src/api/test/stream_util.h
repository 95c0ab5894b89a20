/* stream_util - a wire whose other end is a buffer, and pods that do what the test says. */
#pragma once

#include "api/kube/stream_exec.h"
#include "base/buf.h"
#include "base/test/test.h"
#include "net/spdy.h"
#include "net/websocket.h"

/* Below a wire. */
struct fake_conn {
    struct buf out;
    size_t unsent; /* what it claims */
    bool paused, closed;
};

/* Above pod_ops. */
struct fake_pod {
    struct pod_ops ops;
    struct pod_stream_events events; /* of the command that runs */
    void *arg;
    struct pod_exec exec;
    struct buf in;  /* what it was given */
    size_t in_room; /* what it takes */
    unsigned started, freed;
    bool in_closed, paused;
    uint16_t rows, cols;
    const char *refusal;
};

static inline void fake_conn_write(void *arg, struct str data)
{
    struct fake_conn *conn = arg;

    buf_str(&conn->out, data);
}

static inline size_t fake_conn_unsent(void *arg)
{
    return ((struct fake_conn *)arg)->unsent;
}

static inline void fake_conn_pause(void *arg, bool paused)
{
    ((struct fake_conn *)arg)->paused = paused;
}

static inline void fake_conn_close(void *arg)
{
    ((struct fake_conn *)arg)->closed = true;
}

static const struct wire_io fake_io = {fake_conn_write, fake_conn_unsent, fake_conn_pause, fake_conn_close};

static inline int fake_exec(void *arg, const struct pod_ref *pod, const struct pod_exec *exec,
                            const struct pod_stream_events *events, void *events_arg, struct pod_stream **ret,
                            struct err *err)
{
    struct fake_pod *fake = arg;

    (void)pod;
    if (fake->refusal)
        return err_set(err, ERR_INTERNAL, "%s", fake->refusal);
    fake->started++;
    fake->exec = *exec;
    fake->events = *events;
    fake->arg = events_arg;
    *ret = (struct pod_stream *)(void *)fake;
    return 0;
}

static inline struct fake_pod *fake_of(struct pod_stream *stream)
{
    return (struct fake_pod *)(void *)stream;
}

static inline size_t fake_write(struct pod_stream *stream, struct str data)
{
    struct fake_pod *fake = fake_of(stream);
    size_t len = data.len < fake->in_room ? data.len : fake->in_room;

    buf_add(&fake->in, data.s, len);
    fake->in_room -= len;
    return len;
}

static inline void fake_close_stdin(struct pod_stream *stream)
{
    fake_of(stream)->in_closed = true;
}

static inline void fake_resize(struct pod_stream *stream, uint16_t rows, uint16_t cols)
{
    fake_of(stream)->rows = rows;
    fake_of(stream)->cols = cols;
}

static inline void fake_pause(struct pod_stream *stream, bool pause)
{
    fake_of(stream)->paused = pause;
}

static inline void fake_free(struct pod_stream *stream)
{
    fake_of(stream)->freed++;
}

static inline void fake_pod_init(struct fake_pod *fake)
{
    *fake = (struct fake_pod){.in_room = SIZE_MAX};
    fake->ops = (struct pod_ops){.arg = fake,
                                 .exec = fake_exec,
                                 .stream_write = fake_write,
                                 .stream_close_stdin = fake_close_stdin,
                                 .stream_resize = fake_resize,
                                 .stream_pause = fake_pause,
                                 .stream_free = fake_free};
}

/* A stream opened with up to three header pairs; NULL name: fewer. */
static inline void open_stream(struct spdy *client, struct buf *out, uint32_t id, bool fin, const char *type,
                               const char *port, const char *request)
{
    struct spdy_pair pairs[3] = {{STR("streamtype"), str_from(type)},
                                 {STR("port"), str_from(port)},
                                 {STR("requestid"), str_from(request)}};

    spdy_syn_stream(client, out, id, fin, pairs, port ? 3 : 1);
}

/* What a client reads, one line a frame: "reply 1", "data 5 fin [text]", "rst 7 1", "ping 1", "goaway 9 0".
 */
static inline int describe_frame(void *arg, const struct spdy_frame *frame)
{
    static const char *const names[] = {"data", "syn", "reply", "rst", "settings", "?", "ping", "goaway"};
    struct buf *text = arg;

    buf_printf(text, "%s %u%s", names[frame->type], frame->stream, frame->fin ? " fin" : "");
    if (frame->type == SPDY_DATA)
        buf_printf(text, " [%.*s]", STR_ARG(frame->data));
    if (frame->type == SPDY_RST_STREAM || frame->type == SPDY_GOAWAY)
        buf_printf(text, " %u", frame->status);
    buf_putc(text, '\n');
    return 0;
}

static inline void assert_frames(const struct fake_conn *conn, const char *wanted)
{
    CLEANUP(spdy_free) struct spdy *client = spdy_new();
    CLEANUP(buf_done) struct buf text = {0};

    buf_puts(&text, "");
    assert_int_equal(spdy_feed(client, buf_view(&conn->out), describe_frame, &text, NULL), 0);
    assert_string_equal(text.data, wanted);
}
