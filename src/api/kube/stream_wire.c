/* WebSocket control frames are dealt with here; sessions see binary messages only. Whatever ends the wire
 * while bytes are being handled takes effect when that is over, so that no reader is freed under its feet. */
#include "api/kube/stream_wire.h"

#include "base/mem.h"
#include "net/websocket.h"

#include <assert.h>

struct wire {
    struct wire_events events;
    void *arg;
    struct wire_io io;
    void *conn;
    struct websocket *ws; /* NULL: raw */
    struct buf message, frame;
    bool busy;   /* inside wire_input */
    bool closed; /* nothing is sent or handed out any more */
    bool paused; /* by the session */
    bool full;   /* by us */
};

struct wire *wire_new(bool websocket, const struct wire_events *events, void *arg)
{
    struct wire *wire = NEW(struct wire);

    wire->events = *events;
    wire->arg = arg;
    wire->ws = websocket ? websocket_new(true) : NULL;
    return wire;
}

void wire_open(struct wire *wire, const struct wire_io *io, void *conn)
{
    wire->io = *io;
    wire->conn = conn;
}

static void release(struct wire *wire)
{
    wire->events.released(wire->arg);
    websocket_free(wire->ws);
    buf_done(&wire->message);
    buf_done(&wire->frame);
    free(wire);
}

static void send_frame(struct wire *wire, enum websocket_type type, struct str payload)
{
    buf_clear(&wire->frame);
    websocket_frame(&wire->frame, type, false, payload);
    wire->io.write(wire->conn, buf_view(&wire->frame));
}

void wire_send(struct wire *wire, struct str head, struct str data)
{
    if (wire->closed)
        return;
    if (!wire->ws) {
        if (head.len > 0)
            wire->io.write(wire->conn, head);
        if (data.len > 0)
            wire->io.write(wire->conn, data);
        return;
    }
    if (head.len > 0 && data.len > 0) {
        buf_clear(&wire->message);
        buf_str(&wire->message, head);
        buf_str(&wire->message, data);
        data = buf_view(&wire->message);
    }
    send_frame(wire, WEBSOCKET_BINARY, data.len > 0 ? data : head);
}

size_t wire_unsent(const struct wire *wire)
{
    return wire->closed ? 0 : wire->io.unsent(wire->conn);
}

bool wire_closed(const struct wire *wire)
{
    return wire->closed;
}

static void set_pause(struct wire *wire, bool paused, bool full)
{
    bool before = wire->paused || wire->full;

    wire->paused = paused;
    wire->full = full;
    if (!wire->closed && before != (paused || full))
        wire->io.pause(wire->conn, paused || full);
}

void wire_pause(struct wire *wire, bool paused)
{
    set_pause(wire, paused, wire->full);
}

void wire_ping(struct wire *wire)
{
    if (wire->ws && !wire->closed)
        send_frame(wire, WEBSOCKET_PING, STR(""));
}

/* The end, but for the memory: nothing is sent or handed out any more. */
static void shut(struct wire *wire)
{
    wire->closed = true;
    wire->io.close(wire->conn);
}

static void shut_with(struct wire *wire, unsigned code, const char *reason)
{
    if (wire->ws) {
        buf_clear(&wire->frame);
        websocket_close_frame(&wire->frame, false, code, reason);
        wire->io.write(wire->conn, buf_view(&wire->frame));
    }
    shut(wire);
}

void wire_close(struct wire *wire, unsigned code, const char *reason)
{
    if (wire->closed)
        return;
    shut_with(wire, code, reason);
    if (!wire->busy)
        release(wire);
}

static int on_message(void *arg, enum websocket_type type, struct str payload)
{
    struct wire *wire = arg;

    switch (type) {
    case WEBSOCKET_BINARY:
        wire->events.data(wire->arg, payload);
        break;
    case WEBSOCKET_PING:
        send_frame(wire, WEBSOCKET_PONG, payload);
        break;
    case WEBSOCKET_CLOSE:
        /* the same code back; none for none */
        send_frame(wire, WEBSOCKET_CLOSE, (struct str){payload.s, payload.len < 2 ? 0 : 2});
        shut(wire);
        break;
    case WEBSOCKET_TEXT:
        shut_with(wire, 1003, "only binary messages are understood");
        break;
    case WEBSOCKET_PONG:
        break;
    }
    return wire->closed ? -1 : 0;
}

void wire_input(struct wire *wire, struct str data)
{
    struct err err = {0};

    assert(!wire->busy);
    if (wire->closed)
        return;
    wire->busy = true;
    if (!wire->ws)
        wire->events.data(wire->arg, data);
    else if (websocket_feed(wire->ws, data, on_message, wire, &err) < 0 && !wire->closed)
        shut_with(wire, err.code == ERR_LIMIT ? 1009 : 1002, err.msg);
    wire->busy = false;
    if (wire->closed)
        release(wire);
    else if (wire->io.unsent(wire->conn) > WIRE_FULL)
        set_pause(wire, wire->paused, true);
}

void wire_drained(struct wire *wire)
{
    set_pause(wire, wire->paused, false);
    wire->events.drained(wire->arg);
}

void wire_gone(struct wire *wire)
{
    if (wire->closed)
        return;
    shut(wire);
    if (!wire->busy)
        release(wire);
}
