#include "api/kube/stream_spdy.h"

void spdy_server_init(struct spdy_server *server, struct wire *wire, const struct spdy_server_events *events,
                      void *arg)
{
    *server = (struct spdy_server){.spdy = spdy_new(), .wire = wire, .events = events, .arg = arg};
}

void spdy_server_done(struct spdy_server *server)
{
    spdy_free(TAKE_PTR(server->spdy));
    buf_done(&server->out);
}

static void flush(struct spdy_server *server)
{
    wire_send(server->wire, buf_view(&server->out), STR(""));
    buf_clear(&server->out);
}

void spdy_server_send(struct spdy_server *server, uint32_t stream, bool fin, struct str data)
{
    spdy_data(&server->out, stream, fin, data);
    flush(server);
}

void spdy_server_reset(struct spdy_server *server, uint32_t stream, uint32_t status)
{
    spdy_rst_stream(&server->out, stream, status);
    flush(server);
}

void spdy_server_ping(struct spdy_server *server)
{
    spdy_ping(&server->out, server->ping += 2);
    flush(server);
}

void spdy_server_close(struct spdy_server *server, uint32_t status)
{
    if (wire_closed(server->wire))
        return;
    spdy_goaway(&server->out, server->last, status);
    flush(server);
    wire_close(server->wire, status ? 1002 : 1000, "");
}

static void open_stream(struct spdy_server *server, const struct spdy_frame *syn)
{
    uint32_t refusal;

    if (syn->stream % 2 == 0 || syn->stream <= server->last) {
        spdy_server_close(server, SPDY_PROTOCOL_ERROR);
        return;
    }
    server->last = syn->stream;
    refusal = server->events->open(server->arg, syn);
    if (wire_closed(server->wire))
        return;
    if (refusal) {
        spdy_server_reset(server, syn->stream, refusal);
        return;
    }
    spdy_syn_reply(server->spdy, &server->out, syn->stream, false, NULL, 0);
    flush(server);
    if (syn->fin)
        server->events->data(server->arg, syn->stream, STR(""), true);
}

static int on_frame(void *arg, const struct spdy_frame *frame)
{
    struct spdy_server *server = arg;

    switch (frame->type) {
    case SPDY_SYN_STREAM:
        open_stream(server, frame);
        break;
    case SPDY_DATA:
        /* What is still on its way to a stream that is over is no mistake of the client's. */
        if (frame->stream > server->last || frame->stream % 2 == 0)
            spdy_server_close(server, SPDY_PROTOCOL_ERROR);
        else
            server->events->data(server->arg, frame->stream, frame->data, frame->fin);
        break;
    case SPDY_RST_STREAM:
        server->events->reset(server->arg, frame->stream);
        break;
    case SPDY_PING:
        if (frame->stream % 2 == 1) { /* else the answer to ours */
            spdy_ping(&server->out, frame->stream);
            flush(server);
        }
        break;
    default: /* GOAWAY: the client leaves soon; SETTINGS, WINDOW_UPDATE: nothing to do */
        break;
    }
    return wire_closed(server->wire) ? -1 : 0;
}

void spdy_server_input(struct spdy_server *server, struct str data)
{
    struct err err = {0};

    if (spdy_feed(server->spdy, data, on_frame, server, &err) < 0)
        spdy_server_close(server, SPDY_PROTOCOL_ERROR);
}
