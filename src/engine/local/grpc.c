#include "engine/local/grpc.h"

#include <string.h>

enum { DATA = 0, HEADERS = 1, RST_STREAM = 3, SETTINGS = 4, PING = 6, GOAWAY = 7 };
enum { ACK = 1, END_STREAM = 1, END_HEADERS = 4, PADDED = 8 };
#define HEAD    9 /* bytes before a frame's payload */
#define PREFIX  5 /* bytes before a gRPC message: compressed or not, length */
#define SERVING 1

void grpc_done(struct grpc *grpc)
{
    buf_done(&grpc->msg);
}

static void frame(struct buf *out, int type, int flags, uint32_t stream, struct str payload)
{
    const char head[HEAD] = {
        (char)(payload.len >> 16), (char)(payload.len >> 8), (char)payload.len,   (char)type,  (char)flags,
        (char)(stream >> 24),      (char)(stream >> 16),     (char)(stream >> 8), (char)stream};

    buf_add(out, head, sizeof(head));
    buf_str(out, payload);
}

static void text(struct buf *out, const char *s) /* shorter than 127: one byte of length, no Huffman code */
{
    buf_putc(out, (char)strlen(s));
    buf_puts(out, s);
}

void grpc_ask(struct buf *out, const char *service)
{
    CLEANUP(buf_done) struct buf head = {0}, body = {0}, msg = {0};
    size_t len = strnlen(service, GRPC_SERVICE_MAX);

    buf_puts(out, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    frame(out, SETTINGS, 0, 0, STR(""));
    buf_add(&head, "\x83\x86\x04", 3); /* :method POST, :scheme http, :path of the static table */
    text(&head, "/grpc.health.v1.Health/Check");
    buf_putc(&head, 0x01); /* :authority */
    text(&head, "localhost");
    buf_add(&head, "\x0f\x10", 2); /* content-type */
    text(&head, "application/grpc");
    buf_putc(&head, 0x00);
    text(&head, "te");
    text(&head, "trailers");
    frame(out, HEADERS, END_HEADERS, 1, buf_view(&head));
    if (len) {
        buf_putc(&msg, 0x0a); /* field 1, a string */
        if (len > 127)
            buf_putc(&msg, (char)(len & 127) | (char)0x80);
        buf_putc(&msg, (char)(len > 127 ? len >> 7 : len));
        buf_add(&msg, service, len);
    }
    buf_add(&body, "\0\0\0", 3);
    buf_putc(&body, (char)(msg.len >> 8));
    buf_putc(&body, (char)msg.len);
    buf_str(&body, buf_view(&msg));
    frame(out, DATA, END_STREAM, 1, buf_view(&body));
}

/* The message of stream 1, when all of it is there: field 1 is the status; none is 0. */
static enum grpc_state judge(const struct buf *msg)
{
    const unsigned char *p = (const unsigned char *)msg->data;
    size_t len;

    if (msg->len < PREFIX)
        return GRPC_MORE;
    len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
    if (p[0] || len > GRPC_FRAME_MAX)
        return GRPC_BAD;
    if (msg->len < PREFIX + len)
        return GRPC_MORE;
    return len >= 2 && p[PREFIX] == 0x08 && p[PREFIX + 1] == SERVING ? GRPC_SERVING : GRPC_NOT;
}

static enum grpc_state take(struct grpc *grpc, int type, int flags, uint32_t stream, struct str payload,
                            struct buf *out)
{
    enum grpc_state state;

    switch (type) {
    case SETTINGS:
        if (!(flags & ACK))
            frame(out, SETTINGS, ACK, 0, STR(""));
        return GRPC_MORE;
    case PING:
        if (!(flags & ACK))
            frame(out, PING, ACK, 0, payload);
        return GRPC_MORE;
    case DATA:
        if (stream != 1)
            return GRPC_MORE;
        if (flags & PADDED) {
            size_t pad = payload.len ? (unsigned char)payload.s[0] : 0;

            if (payload.len < pad + 1)
                return GRPC_BAD;
            payload = (struct str){payload.s + 1, payload.len - pad - 1};
        }
        buf_str(&grpc->msg, payload);
        state = judge(&grpc->msg);
        return state == GRPC_MORE && (flags & END_STREAM) ? GRPC_BAD : state;
    case HEADERS: /* the end without a message is an error's trailers */
        return stream == 1 && (flags & END_STREAM) ? GRPC_BAD : GRPC_MORE;
    case RST_STREAM:
    case GOAWAY:
        return GRPC_BAD;
    default:
        return GRPC_MORE;
    }
}

enum grpc_state grpc_read(struct grpc *grpc, struct str in, struct buf *out)
{
    while (in.len - grpc->at >= HEAD) {
        const unsigned char *p = (const unsigned char *)in.s + grpc->at;
        size_t len = (size_t)p[0] << 16 | (size_t)p[1] << 8 | p[2];
        uint32_t stream = (uint32_t)(p[5] & 0x7f) << 24 | (uint32_t)p[6] << 16 | (uint32_t)p[7] << 8 | p[8];
        enum grpc_state state;

        if (len > GRPC_FRAME_MAX)
            return GRPC_BAD;
        if (in.len - grpc->at - HEAD < len)
            return GRPC_MORE;
        grpc->at += HEAD + len;
        state = take(grpc, p[3], p[4], stream, (struct str){(const char *)p + HEAD, len}, out);
        if (state != GRPC_MORE)
            return state;
    }
    return GRPC_MORE;
}
