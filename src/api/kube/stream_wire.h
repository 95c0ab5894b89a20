/* stream_wire - the connection of a client after its upgrade: raw bytes (SPDY) or WebSocket messages.
 *
 * What is below is a struct of functions, so that tests need no socket. A wire bounds what is unsent: above
 * WIRE_FULL it stops reading the client until all has left, whatever the client asks for. Sessions pause
 * their own sources at WIRE_HIGH. */
#pragma once

#include "base/str.h"

#define WIRE_HIGH (256 << 10) /* unsent bytes at which a session pauses its sources */
#define WIRE_FULL (2 << 20)   /* unsent bytes at which the client is not read any more */

struct wire;

struct wire_io {
    void (*write)(void *conn, struct str data);
    size_t (*unsent)(void *conn);
    void (*pause)(void *conn, bool paused);
    void (*close)(void *conn); /* what was written still leaves */
};

struct wire_events {
    void (*data)(void *arg, struct str data); /* bytes, or one binary message */
    void (*drained)(void *arg);               /* nothing is unsent any more */
    /* The client has left, broke the protocol, or wire_close was called: the last call. The wire is gone
     * after it, so everything that uses it ends here. Never from inside wire_send. */
    void (*released)(void *arg);
};

struct wire *wire_new(bool websocket, const struct wire_events *events, void *arg);
/* What lies below. Must follow before anything else is called. */
void wire_open(struct wire *wire, const struct wire_io *io, void *conn);

/* One message (head and data together), or just these bytes. Nothing once the wire is closed. */
void wire_send(struct wire *wire, struct str head, struct str data);
size_t wire_unsent(const struct wire *wire);
void wire_pause(struct wire *wire, bool paused); /* back-pressure to the client */
void wire_ping(struct wire *wire);               /* WebSocket only: makes a dead peer show itself */
bool wire_closed(const struct wire *wire);
/* code and reason: of the WebSocket close frame. `released` comes from inside this call, or, when called
 * from inside `data`, right after that returns. */
void wire_close(struct wire *wire, unsigned code, const char *reason);

/* From below. */
void wire_input(struct wire *wire, struct str data);
void wire_drained(struct wire *wire);
void wire_gone(struct wire *wire);
