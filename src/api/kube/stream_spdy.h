/* stream_spdy - the server's side of a SPDY/3.1 connection on a wire: stream ids, replies, pings, refusals.
 * exec, attach and port-forward are sessions above it. Data goes as it comes: there are no windows. */
#pragma once

#include "api/kube/stream_wire.h"
#include "net/spdy.h"

/* Status codes of RST_STREAM and GOAWAY. */
#define SPDY_PROTOCOL_ERROR 1
#define SPDY_INVALID_STREAM 2
#define SPDY_REFUSED_STREAM 3
#define SPDY_CANCEL         5

struct spdy_server_events {
    /* A new stream: 0 takes it (it is answered then), else the status it is refused with. */
    uint32_t (*open)(void *arg, const struct spdy_frame *syn);
    void (*data)(void *arg, uint32_t stream, struct str data, bool fin);
    void (*reset)(void *arg, uint32_t stream);
};

/* Embedded in a session. */
struct spdy_server {
    struct spdy *spdy;
    struct wire *wire;
    const struct spdy_server_events *events;
    void *arg;
    struct buf out;
    uint32_t last; /* the newest stream */
    uint32_t ping; /* id of our last one; even */
};

void spdy_server_init(struct spdy_server *server, struct wire *wire, const struct spdy_server_events *events,
                      void *arg);
void spdy_server_done(struct spdy_server *server);
void spdy_server_input(struct spdy_server *server, struct str data);
void spdy_server_send(struct spdy_server *server, uint32_t stream, bool fin, struct str data);
void spdy_server_reset(struct spdy_server *server, uint32_t stream, uint32_t status);
void spdy_server_ping(struct spdy_server *server);
/* GOAWAY, and the wire is closed. */
void spdy_server_close(struct spdy_server *server, uint32_t status);
