/* The reader collects a frame's header byte by byte and copies payloads, unmasked, into the message.
 * It never holds more than one message and one control frame. */
#include "net/websocket.h"

#include "base/file.h"
#include "base/mem.h"

#include <openssl/sha.h>

#define CONTROL_MAX 125 /* bytes of a control frame's payload */
#define HEAD_MAX    14  /* bytes of a frame's header */

struct websocket {
    bool server;
    bool closed; /* a close frame came: nothing after it counts */
    uint8_t head[HEAD_MAX];
    size_t head_len; /* bytes of the header so far */
    bool in_payload;
    uint64_t left; /* of this frame's payload */
    size_t mask_at;
    uint8_t message_type; /* of the message that is being joined; 0: none */
    struct buf message;
    uint8_t control[CONTROL_MAX];
    size_t control_len;
};

void websocket_accept(const char *key, char value[29])
{
    CLEANUP(buf_done) struct buf text = {0}, answer = {0};
    unsigned char digest[SHA_DIGEST_LENGTH];

    buf_puts(&text, key);
    buf_puts(&text, "258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    SHA1((const unsigned char *)text.data, text.len, digest);
    buf_base64(&answer, (struct str){(const char *)digest, sizeof(digest)});
    memcpy(value, answer.data, 29);
}

struct websocket *websocket_new(bool server)
{
    struct websocket *ws = NEW(struct websocket);

    ws->server = server;
    return ws;
}

void websocket_free(struct websocket *ws)
{
    if (!ws)
        return;
    buf_done(&ws->message);
    free(ws);
}

/* How long the header is, as far as its first two bytes tell. */
static size_t head_size(const struct websocket *ws)
{
    unsigned len = ws->head[1] & 127;
    size_t size = 2 + (len == 126 ? 2 : len == 127 ? 8 : 0);

    return ws->head[1] & 128 ? size + 4 : size;
}

static const uint8_t *mask_of(const struct websocket *ws)
{
    return ws->head + head_size(ws) - 4;
}

static unsigned opcode_of(const struct websocket *ws)
{
    return ws->head[0] & 15;
}

static bool is_control(const struct websocket *ws)
{
    return ws->head[0] & 8;
}

static bool is_final(const struct websocket *ws)
{
    return ws->head[0] & 128;
}

/* The first two bytes decide about almost everything. */
static int check_start(struct websocket *ws, struct err *err)
{
    unsigned opcode = opcode_of(ws), len = ws->head[1] & 127;
    bool masked = ws->head[1] & 128;

    if (ws->head[0] & 0x70)
        return err_set(err, ERR_INVALID, "reserved bits are set");
    if (masked != ws->server)
        return err_set(err, ERR_INVALID,
                       masked ? "a masked frame from a server" : "an unmasked frame from a client");
    if (is_control(ws)) {
        if (opcode > WEBSOCKET_PONG)
            return err_set(err, ERR_INVALID, "opcode %u is not known", opcode);
        if (!is_final(ws) || len > CONTROL_MAX)
            return err_set(err, ERR_INVALID, "a control frame in pieces or too long");
        return 0;
    }
    if (opcode > WEBSOCKET_BINARY)
        return err_set(err, ERR_INVALID, "opcode %u is not known", opcode);
    if (opcode == 0 && !ws->message_type)
        return err_set(err, ERR_INVALID, "a continuation of nothing");
    if (opcode != 0 && ws->message_type)
        return err_set(err, ERR_INVALID, "a new message inside another");
    return 0;
}

static int check_length(struct websocket *ws, struct err *err)
{
    unsigned code = ws->head[1] & 127;
    uint64_t len = code;

    if (code >= 126) {
        size_t bytes = code == 126 ? 2 : 8;

        len = 0;
        for (size_t i = 0; i < bytes; i++)
            len = len << 8 | ws->head[2 + i];
        if (len < 126 || (bytes == 8 && len < 65536) || len >> 63)
            return err_set(err, ERR_INVALID, "a length that is not written in the shortest way");
    }
    if (!is_control(ws) && len > WEBSOCKET_MESSAGE_MAX - ws->message.len)
        return err_set(err, ERR_LIMIT, "a message larger than %d bytes", WEBSOCKET_MESSAGE_MAX);
    ws->left = len;
    ws->mask_at = 0;
    ws->control_len = 0;
    ws->in_payload = true;
    if (!is_control(ws) && opcode_of(ws) != 0)
        ws->message_type = (uint8_t)opcode_of(ws);
    return 0;
}

/* Takes header bytes off *data. */
static int feed_head(struct websocket *ws, struct str *data, struct err *err)
{
    while (data->len > 0 && !ws->in_payload) {
        ws->head[ws->head_len++] = (uint8_t)data->s[0];
        *data = (struct str){data->s + 1, data->len - 1};
        if (ws->head_len == 2 && check_start(ws, err) < 0)
            return -1;
        if (ws->head_len >= 2 && ws->head_len == head_size(ws) && check_length(ws, err) < 0)
            return -1;
    }
    return 0;
}

/* to = from with the mask, which goes on where the last piece has ended. */
static void unmask(struct websocket *ws, char *to, const char *from, size_t len)
{
    const uint8_t *mask = mask_of(ws);
    uint8_t eight[8];
    uint64_t wide, word;
    size_t i = 0;

    if (!ws->server) {
        memcpy(to, from, len);
        return;
    }
    for (size_t k = 0; k < 8; k++)
        eight[k] = mask[(ws->mask_at + k) & 3];
    memcpy(&wide, eight, 8);
    for (; i + 8 <= len; i += 8) {
        memcpy(&word, from + i, 8);
        word ^= wide;
        memcpy(to + i, &word, 8);
    }
    for (; i < len; i++)
        to[i] = (char)(from[i] ^ eight[i & 7]);
    ws->mask_at += len;
}

static void feed_payload(struct websocket *ws, struct str *data)
{
    size_t len = data->len < ws->left ? data->len : (size_t)ws->left;

    if (is_control(ws)) {
        unmask(ws, (char *)ws->control + ws->control_len, data->s, len);
        ws->control_len += len;
    } else if (len > 0) {
        unmask(ws, buf_reserve(&ws->message, len), data->s, len);
        ws->message.len += len;
        ws->message.data[ws->message.len] = '\0';
    }
    ws->left -= len;
    *data = (struct str){data->s + len, data->len - len};
}

static int check_close(struct str payload, struct err *err)
{
    unsigned code;

    if (payload.len == 0)
        return 0;
    if (payload.len == 1)
        return err_set(err, ERR_INVALID, "half a close code");
    code = (unsigned)(uint8_t)payload.s[0] << 8 | (uint8_t)payload.s[1];
    if (code < 1000 || code >= 5000 || (code >= 1004 && code <= 1006) || (code >= 1015 && code < 3000))
        return err_set(err, ERR_INVALID, "close code %u", code);
    if (!utf8_valid((struct str){payload.s + 2, payload.len - 2}))
        return err_set(err, ERR_INVALID, "a close reason that is not UTF-8");
    return 0;
}

/* A frame is complete: hands out what it completes. */
static int finish_frame(struct websocket *ws,
                        int (*fn)(void *arg, enum websocket_type type, struct str payload), void *arg,
                        struct err *err)
{
    enum websocket_type type = opcode_of(ws);
    struct str payload = {(const char *)ws->control, ws->control_len};
    int result;

    ws->in_payload = false;
    ws->head_len = 0;
    if (is_control(ws)) {
        if (type == WEBSOCKET_CLOSE) {
            ws->closed = true;
            if (check_close(payload, err) < 0)
                return -1;
        }
        return fn(arg, type, payload);
    }
    if (!is_final(ws))
        return 0;
    type = ws->message_type;
    ws->message_type = 0;
    payload = buf_view(&ws->message);
    if (type == WEBSOCKET_TEXT && !utf8_valid(payload))
        return err_set(err, ERR_INVALID, "text that is not UTF-8");
    result = fn(arg, type, payload);
    if (ws->message.cap > 64 << 10)
        buf_done(&ws->message); /* large ones are rare */
    else
        buf_clear(&ws->message);
    return result;
}

int websocket_feed(struct websocket *ws, struct str data,
                   int (*fn)(void *arg, enum websocket_type type, struct str payload), void *arg,
                   struct err *err)
{
    while (data.len > 0 && !ws->closed) {
        if (!ws->in_payload && feed_head(ws, &data, err) < 0)
            return -1;
        if (!ws->in_payload)
            return 0;
        feed_payload(ws, &data);
        if (ws->left == 0 && finish_frame(ws, fn, arg, err) < 0)
            return -1;
    }
    return 0;
}

void websocket_frame(struct buf *out, enum websocket_type type, bool masked, struct str payload)
{
    uint8_t head[HEAD_MAX] = {(uint8_t)(128 | type)}, *mask;
    size_t len = 2;

    if (payload.len < 126) {
        head[1] = (uint8_t)payload.len;
    } else {
        int bytes = payload.len < 65536 ? 2 : 8;

        head[1] = bytes == 2 ? 126 : 127;
        for (int i = bytes - 1; i >= 0; i--)
            head[len++] = (uint8_t)((uint64_t)payload.len >> (8 * i));
    }
    mask = head + len;
    if (masked) {
        head[1] |= 128;
        random_bytes(mask, 4);
        len += 4;
    }
    buf_add(out, head, len);
    buf_str(out, payload);
    if (masked)
        for (size_t i = 0; i < payload.len; i++)
            out->data[out->len - payload.len + i] ^= (char)mask[i & 3];
}

void websocket_close_frame(struct buf *out, bool masked, unsigned code, const char *reason)
{
    CLEANUP(buf_done) struct buf payload = {0};
    size_t len = reason ? strlen(reason) : 0;

    if (len > CONTROL_MAX - 2) {
        len = CONTROL_MAX - 2;
        while (len > 0 && ((uint8_t)reason[len] & 0xc0) == 0x80) /* not inside a character */
            len--;
    }
    buf_putc(&payload, (char)(code >> 8));
    buf_putc(&payload, (char)code);
    buf_add(&payload, reason, len);
    websocket_frame(out, WEBSOCKET_CLOSE, masked, buf_view(&payload));
}
