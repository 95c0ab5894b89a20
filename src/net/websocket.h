/* websocket - RFC 6455 frames, server side and client side, without I/O: bytes in, messages out. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#define WEBSOCKET_MESSAGE_MAX (4 << 20)

enum websocket_type {
    WEBSOCKET_TEXT = 1,
    WEBSOCKET_BINARY = 2,
    WEBSOCKET_CLOSE = 8,
    WEBSOCKET_PING = 9,
    WEBSOCKET_PONG = 10
};

/* value[29] gets what Sec-WebSocket-Accept answers to Sec-WebSocket-Key. */
void websocket_accept(const char *key, char value[29]);

struct websocket;                             /* reader state */
struct websocket *websocket_new(bool server); /* a server wants masked frames, a client unmasked ones */
void websocket_free(struct websocket *ws);
DEFINE_CLEANUP(struct websocket *, websocket_free);
/* Feeds bytes; fn gets each whole message (fragments joined; control frames between them as they come)
 * and returns -1 to stop: websocket_feed returns -1 then and leaves err as fn has left it. A CLOSE has
 * an empty payload or code and reason; bytes after it are dropped. ERR_INVALID: protocol error (close
 * with 1002). ERR_LIMIT: too large (1009). */
int websocket_feed(struct websocket *ws, struct str data,
                   int (*fn)(void *arg, enum websocket_type type, struct str payload), void *arg,
                   struct err *err);
/* Appends one frame. masked: as clients must. */
void websocket_frame(struct buf *out, enum websocket_type type, bool masked, struct str payload);
void websocket_close_frame(struct buf *out, bool masked, unsigned code, const char *reason);
