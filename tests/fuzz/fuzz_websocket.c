/* WebSocket frames in pieces, as a server and as a client: whatever is taken must be taken the same way
 * in one piece, and what was taken is written and read back. */
#include "net/websocket.h"

#include <stdint.h>
#include <stdlib.h>

static int add_message(void *arg, enum websocket_type type, struct str payload)
{
    struct buf *text = arg;

    buf_printf(text, "%d %zu ", (int)type, payload.len);
    buf_str(text, payload);
    return 0;
}

static int write_back(void *arg, enum websocket_type type, struct str payload)
{
    if (type == WEBSOCKET_CLOSE)
        return -1;
    websocket_frame(arg, type, true, payload);
    return 0;
}

static int feed(bool server, struct str data, size_t cut, struct buf *ret, struct err *err)
{
    CLEANUP(websocket_free) struct websocket *ws = websocket_new(server);

    while (data.len > 0) {
        size_t len = cut > 0 && cut < data.len ? cut : data.len;

        if (websocket_feed(ws, (struct str){data.s, len}, add_message, ret, err) < 0)
            return -1;
        data = (struct str){data.s + len, data.len - len};
    }
    return 0;
}

/* Frames of ours must come back as the messages they were made of. */
static void check_round_trip(bool server, struct str data)
{
    CLEANUP(websocket_free) struct websocket *ws = websocket_new(server), *again = websocket_new(true);
    CLEANUP(buf_done) struct buf frames = {0}, text = {0};

    websocket_feed(ws, data, write_back, &frames, NULL);
    if (websocket_feed(again, buf_view(&frames), add_message, &text, NULL) < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(buf_done) struct buf whole = {0}, pieces = {0};
    struct err one = {0}, two = {0};
    struct str bytes = {(const char *)data + 1, size - 1};
    bool server = size > 0 && data[0] & 1;

    if (size < 1)
        return 0;
    if (feed(server, bytes, 0, &whole, &one) != feed(server, bytes, 1 + data[0] / 2, &pieces, &two))
        abort();
    if (one.code != two.code || !str_eq(buf_view(&whole), buf_view(&pieces)))
        abort();
    check_round_trip(server, bytes);
    return 0;
}
