/* The life of a session: begin; on SPDY wait for the streams the options promise; for a terminal wait a
 * moment for its size, so that the command never sees another; start the command; bytes both ways; the
 * command ends: outputs are closed, the status goes out on the error channel, the wire is closed. A client
 * that leaves earlier ends the session; what becomes of the command is the engine's.
 *
 * Back-pressure: output is paused while the client has WIRE_HIGH unread bytes. Input that the command does
 * not take is kept, and the client is not read until it is gone; since a client that leaves goes unnoticed
 * then, it is pinged. */
#include "api/kube/stream_exec.h"

#include "api/kube/stream_spdy.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/mem.h"

#define RESIZE_MAX 256 /* bytes of one size in JSON */

enum channel { CH_STDIN, CH_STDOUT, CH_STDERR, CH_ERROR, CH_RESIZE, CH_COUNT, CH_CLOSE = 255 };

static const char *const channel_names[CH_COUNT] = {"stdin", "stdout", "stderr", "error", "resize"};

struct stream_exec {
    struct stream_exec_config config;
    struct wire *wire;
    struct spdy_server spdy; /* unused on WebSocket */
    uint32_t ids[CH_COUNT];  /* stream ids of SPDY; 0: not open */
    struct pod_stream *stream;
    struct loop_timer *timer;
    struct buf in; /* stdin that the command has not taken yet, from in_at */
    size_t in_at;
    bool in_ended; /* by the client */
    bool sizing;   /* a command waits for the size of its terminal */
    bool out_paused;
    struct buf resize; /* a size that is not complete yet */
};

static void on_released(void *arg)
{
    struct stream_exec *s = arg;

    if (s->stream)
        s->config.ops->stream_free(s->stream);
    loop_timer_free(s->timer);
    spdy_server_done(&s->spdy);
    buf_done(&s->in);
    buf_done(&s->resize);
    free(s);
}

static void send_channel(struct stream_exec *s, enum channel channel, bool fin, struct str data)
{
    char head = (char)channel;

    if (s->config.websocket)
        wire_send(s->wire, (struct str){&head, 1}, data);
    else if (s->ids[channel])
        spdy_server_send(&s->spdy, s->ids[channel], fin, data);
}

/* ---- the end ---- */

static void add_error(struct buf *out, const char *what)
{
    CLEANUP(buf_done) struct buf text = {0};

    buf_printf(&text, "Internal error occurred: %s", what);
    buf_puts(out, "{\"metadata\":{},\"status\":\"Failure\",\"message\":");
    json_write_string(out, buf_view(&text));
    buf_puts(out, ",\"reason\":\"InternalError\",\"details\":{\"causes\":[{\"message\":");
    json_write_string(out, str_from(what));
    buf_puts(out, "}]},\"code\":500}");
}

static void add_exit_code(struct buf *out, int code)
{
    buf_printf(out,
               "{\"metadata\":{},\"status\":\"Failure\",\"message\":\"command terminated with non-zero exit "
               "code: command terminated with exit code %d\",\"reason\":\"NonZeroExitCode\",\"details\":{"
               "\"causes\":[{\"reason\":\"ExitCode\",\"message\":\"%d\"}]}}",
               code, code);
}

/* A Status from version 4 on; before that a sentence, and nothing when all went well. */
static void add_status(struct buf *out, int version, int code, const char *error)
{
    if (version < 4) {
        if (error)
            buf_puts(out, error);
        else if (code != 0)
            buf_printf(out,
                       "command terminated with non-zero exit code: command terminated with exit code %d",
                       code);
    } else if (error) {
        add_error(out, error);
    } else if (code != 0) {
        add_exit_code(out, code);
    } else {
        buf_puts(out, "{\"metadata\":{},\"status\":\"Success\"}");
    }
}

static void on_ended(void *arg, int code, const struct err *err)
{
    CLEANUP(buf_done) struct buf status = {0}, error = {0};
    struct stream_exec *s = arg;

    if (err)
        buf_printf(&error, "error %s container: %s",
                   s->config.exec.argv ? "executing command in" : "attaching to", err->msg);
    if (!s->config.websocket) {
        send_channel(s, CH_STDOUT, true, STR(""));
        send_channel(s, CH_STDERR, true, STR(""));
    }
    add_status(&status, s->config.version, code, err ? error.data : NULL);
    send_channel(s, CH_ERROR, true, buf_view(&status));
    if (s->config.websocket)
        wire_close(s->wire, 1000, "");
    else
        spdy_server_close(&s->spdy, 0);
}

/* ---- from the command to the client ---- */

static void on_output(void *arg, int fd, struct str data)
{
    struct stream_exec *s = arg;
    enum channel channel = fd == 2 && !s->config.exec.tty ? CH_STDERR : CH_STDOUT;

    if (data.len == 0 || !(channel == CH_STDERR ? s->config.exec.err : s->config.exec.out))
        return;
    send_channel(s, channel, false, data);
    if (!s->out_paused && wire_unsent(s->wire) > WIRE_HIGH) {
        s->out_paused = true;
        s->config.ops->stream_pause(s->stream, true);
    }
}

static void on_drained(void *arg)
{
    struct stream_exec *s = arg;

    if (s->out_paused && s->stream) {
        s->out_paused = false;
        s->config.ops->stream_pause(s->stream, false);
    }
}

/* ---- from the client to the command ---- */

static void hold_input(struct stream_exec *s, bool hold)
{
    wire_pause(s->wire, hold);
    if (s->sizing) /* the timer waits for the terminal's size, which may be behind what is held */
        return;
    if (hold)
        loop_timer_set(s->timer, STREAM_PING_SEC * NSEC_PER_SEC);
    else
        loop_timer_stop(s->timer);
}

static void on_writable(void *arg)
{
    struct stream_exec *s = arg;

    if (s->in_at < s->in.len)
        s->in_at +=
            s->config.ops->stream_write(s->stream, (struct str){s->in.data + s->in_at, s->in.len - s->in_at});
    if (s->in_at < s->in.len)
        return;
    buf_done(&s->in);
    s->in_at = 0;
    hold_input(s, false);
    if (s->in_ended)
        s->config.ops->stream_close_stdin(s->stream);
}

static void take_stdin(struct stream_exec *s, struct str data)
{
    size_t taken = 0;

    if (!s->config.exec.in || s->in_ended)
        return;
    if (s->stream && s->in.len == 0)
        taken = s->config.ops->stream_write(s->stream, data);
    if (taken == data.len)
        return;
    buf_add(&s->in, data.s + taken, data.len - taken);
    if (s->stream || s->in.len > WIRE_HIGH)
        hold_input(s, true);
}

static void end_stdin(struct stream_exec *s)
{
    if (!s->config.exec.in || s->in_ended)
        return;
    s->in_ended = true;
    if (s->stream && s->in.len == 0)
        s->config.ops->stream_close_stdin(s->stream);
}

static void run_command(struct stream_exec *s);

static void set_size(struct stream_exec *s, uint16_t rows, uint16_t cols)
{
    s->config.exec.rows = rows;
    s->config.exec.cols = cols;
    if (s->stream)
        s->config.ops->stream_resize(s->stream, rows, cols);
    else if (s->sizing)
        run_command(s);
}

/* {"Width":80,"Height":24}, as many as come, cut anywhere. */
static void take_resize(struct stream_exec *s, struct str data)
{
    for (size_t i = 0; i < data.len; i++) {
        struct arena arena = {0};
        struct json *size = NULL;
        int64_t cols, rows;

        buf_putc(&s->resize, data.s[i]);
        if (s->resize.len > RESIZE_MAX)
            buf_clear(&s->resize);
        if (data.s[i] != '}')
            continue;
        if (json_parse(buf_view(&s->resize), &arena, &size, NULL, NULL) == 0) {
            cols = json_int(json_get(size, "Width"), 0);
            rows = json_int(json_get(size, "Height"), 0);
            if (cols > 0 && cols <= UINT16_MAX && rows > 0 && rows <= UINT16_MAX)
                set_size(s, (uint16_t)rows, (uint16_t)cols);
        }
        buf_clear(&s->resize);
        arena_done(&arena);
    }
}

static void take_channel(struct stream_exec *s, enum channel channel, struct str data)
{
    if (channel == CH_STDIN)
        take_stdin(s, data);
    else if (channel == CH_RESIZE && s->config.exec.tty)
        take_resize(s, data);
}

/* ---- the two framings ---- */

static void run_command(struct stream_exec *s)
{
    static const struct pod_stream_events events = {on_output, on_writable, on_ended};
    struct err err = {0};

    s->sizing = false;
    loop_timer_stop(s->timer);
    if (wire_closed(s->wire))
        return;
    if (s->config.ops->exec(s->config.ops->arg, &s->config.pod, &s->config.exec, &events, s, &s->stream,
                            &err) < 0) {
        s->stream = NULL;
        on_ended(s, 0, &err);
        return;
    }
    if (s->in.len > 0 || s->in_ended)
        on_writable(s); /* what came before */
}

static void start_command(struct stream_exec *s)
{
    s->sizing = s->config.exec.argv && s->config.exec.tty && !s->config.exec.rows;
    if (s->sizing)
        loop_timer_set(s->timer, STREAM_SIZE_MSEC * NSEC_PER_MSEC);
    else
        run_command(s);
}

static void on_message(void *arg, struct str data)
{
    struct stream_exec *s = arg;
    unsigned channel;

    if (data.len == 0)
        return;
    channel = (unsigned char)data.s[0];
    data = (struct str){data.s + 1, data.len - 1};
    if (channel == CH_CLOSE && s->config.version >= 5) {
        if (data.len == 1 && data.s[0] == CH_STDIN)
            end_stdin(s);
    } else {
        take_channel(s, channel, data);
    }
}

static bool expected(const struct stream_exec *s, enum channel channel)
{
    const struct pod_exec *exec = &s->config.exec;

    switch (channel) {
    case CH_STDIN:
        return exec->in;
    case CH_STDOUT:
        return exec->out;
    case CH_STDERR:
        return exec->err;
    case CH_RESIZE:
        return exec->tty && s->config.version >= 3;
    default:
        return channel == CH_ERROR;
    }
}

static bool complete(const struct stream_exec *s)
{
    for (enum channel ch = 0; ch < CH_COUNT; ch++)
        if (expected(s, ch) && !s->ids[ch])
            return false;
    return true;
}

static void on_timer(void *arg)
{
    struct stream_exec *s = arg;

    if (s->sizing) {
        run_command(s);     /* who has no size gets the usual one */
    } else if (s->stream) { /* the timer is the pings' now */
        if (s->config.websocket)
            wire_ping(s->wire);
        else
            spdy_server_ping(&s->spdy);
        loop_timer_set(s->timer, STREAM_PING_SEC * NSEC_PER_SEC);
    } else {
        spdy_server_close(&s->spdy, SPDY_PROTOCOL_ERROR); /* the streams did not come in time */
    }
}

static uint32_t on_open(void *arg, const struct spdy_frame *syn)
{
    struct stream_exec *s = arg;
    struct str type = {0};

    for (size_t i = 0; i < syn->pair_count; i++)
        if (str_is(syn->pairs[i].name, "streamtype"))
            type = syn->pairs[i].value;
    for (enum channel ch = 0; ch < CH_COUNT; ch++) {
        if (!type.s || !str_is(type, channel_names[ch]))
            continue;
        if (!expected(s, ch) || s->ids[ch])
            return SPDY_REFUSED_STREAM;
        s->ids[ch] = syn->stream;
        return 0;
    }
    return SPDY_PROTOCOL_ERROR;
}

static void on_stream_data(void *arg, uint32_t stream, struct str data, bool fin)
{
    struct stream_exec *s = arg;

    for (enum channel ch = 0; ch < CH_COUNT; ch++) {
        if (s->ids[ch] != stream)
            continue;
        if (data.len > 0)
            take_channel(s, ch, data);
        if (fin && ch == CH_STDIN)
            end_stdin(s);
    }
}

static void on_stream_reset(void *arg, uint32_t stream)
{
    struct stream_exec *s = arg;

    for (enum channel ch = 0; ch < CH_COUNT; ch++) {
        if (s->ids[ch] != stream || stream == 0)
            continue;
        if (ch == CH_STDIN)
            end_stdin(s);
        else if (ch == CH_STDOUT)
            s->config.exec.out = false;
        else if (ch == CH_STDERR)
            s->config.exec.err = false;
    }
}

static void on_spdy_message(void *arg, struct str data)
{
    struct stream_exec *s = arg;
    bool before = complete(s);

    spdy_server_input(&s->spdy, data);
    if (!before && complete(s))
        start_command(s);
}

struct stream_exec *stream_exec_new(const struct stream_exec_config *config, struct wire **ret)
{
    static const struct spdy_server_events spdy_events = {on_open, on_stream_data, on_stream_reset};
    struct wire_events events = {config->websocket ? on_message : on_spdy_message, on_drained, on_released};
    struct stream_exec *s = NEW(struct stream_exec);

    s->config = *config;
    s->timer = loop_timer_new(config->loop, on_timer, s);
    *ret = s->wire = wire_new(config->websocket, &events, s);
    if (!config->websocket)
        spdy_server_init(&s->spdy, s->wire, &spdy_events, s);
    return s;
}

void stream_exec_begin(struct stream_exec *s)
{
    if (s->config.websocket)
        start_command(s);
    else
        loop_timer_set(s->timer, STREAM_CREATE_SEC * NSEC_PER_SEC);
}
