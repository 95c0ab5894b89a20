/* portforward - the ports of a pod through one SPDY connection: for each TCP connection at the client an
 * error stream and a data stream, paired by their request id.
 *
 * A session frees itself when its wire is released. */
#pragma once

#include "api/kube/stream_wire.h"
#include "engine/pod_ops.h"
#include "loop/loop.h"

#define PORTFORWARD_MAX      512         /* connections (and half-opened ones) of one client */
#define PORTFORWARD_PAIR_SEC 30          /* until a stream without its partner is dropped */
#define PORTFORWARD_HIGH     (256 << 10) /* bytes a target has not taken, from which the client is not read */

struct portforward_config {
    struct loop *loop;
    const struct pod_ops *ops;
    struct pod_ref pod; /* borrowed for as long as the session is there */
    bool websocket;     /* the SPDY bytes travel in binary messages */
};

/* The wire is to be opened. */
struct wire *portforward_new(const struct portforward_config *config);
