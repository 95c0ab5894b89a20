/* spdy - SPDY/3.1 framing as kubectl uses it (exec, attach, port-forward), both sides, without I/O.
 * One struct per connection: it holds the two header compression states. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

#define SPDY_FRAME_MAX                                                                                       \
    (1 << 20) /* payload of a data frame we send, bytes; larger ones are taken, in pieces */
#define SPDY_CONTROL_MAX (64 << 10) /* payload of a control frame */
#define SPDY_HEADERS_MAX (32 << 10) /* a decompressed header block */
#define SPDY_PAIRS_MAX   64

enum spdy_type {
    SPDY_DATA = 0,
    SPDY_SYN_STREAM = 1,
    SPDY_SYN_REPLY = 2,
    SPDY_RST_STREAM = 3,
    SPDY_SETTINGS = 4,
    SPDY_PING = 6,
    SPDY_GOAWAY = 7,
    SPDY_HEADERS = 8,
    SPDY_WINDOW_UPDATE = 9
};

struct spdy_pair {
    struct str name, value; /* names are lower case */
};

struct spdy_frame {
    enum spdy_type type;
    uint32_t stream;               /* id; of PING the ping's id; of GOAWAY the last good stream */
    uint32_t status;               /* RST_STREAM, GOAWAY; of WINDOW_UPDATE the delta */
    bool fin;                      /* DATA, SYN_STREAM, SYN_REPLY, HEADERS */
    struct str data;               /* DATA; comes in pieces as it arrives: fin only on the last */
    const struct spdy_pair *pairs; /* SYN_STREAM, SYN_REPLY, HEADERS; borrowed for the callback */
    size_t pair_count;
};

struct spdy;
struct spdy *spdy_new(void);
void spdy_free(struct spdy *spdy);
DEFINE_CLEANUP(struct spdy *, spdy_free);
/* Unknown control frames are skipped. fn returns -1 to stop: spdy_feed returns -1 then and leaves err as
 * fn has left it. ERR_INVALID, ERR_LIMIT: the connection cannot go on. */
int spdy_feed(struct spdy *spdy, struct str data, int (*fn)(void *arg, const struct spdy_frame *frame),
              void *arg, struct err *err);

void spdy_syn_stream(struct spdy *spdy, struct buf *out, uint32_t stream, bool fin,
                     const struct spdy_pair *pairs, size_t count);
void spdy_syn_reply(struct spdy *spdy, struct buf *out, uint32_t stream, bool fin,
                    const struct spdy_pair *pairs, size_t count);
void spdy_data(struct buf *out, uint32_t stream, bool fin, struct str data);
void spdy_rst_stream(struct buf *out, uint32_t stream, uint32_t status);
void spdy_ping(struct buf *out, uint32_t id);
void spdy_goaway(struct buf *out, uint32_t last_stream, uint32_t status);
