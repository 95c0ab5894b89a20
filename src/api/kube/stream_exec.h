/* stream_exec - one exec or attach: the channels of a client (stdin, stdout, stderr, error, resize) on one
 * side, a pod_stream on the other. On SPDY each channel is a stream that the client opens, on WebSocket the
 * first byte of a message.
 *
 * A session frees itself when its wire is released. */
#pragma once

#include "api/kube/stream_wire.h"
#include "engine/pod_ops.h"
#include "loop/loop.h"

#define STREAM_CREATE_SEC 30  /* until the client has opened all streams of SPDY */
#define STREAM_SIZE_MSEC  200 /* until a terminal has its size; kubectl sends it at once */
#define STREAM_PING_SEC   15  /* how often a client is pinged that we do not read */

struct stream_exec_config {
    struct loop *loop;
    const struct pod_ops *ops;
    struct pod_ref pod;   /* these two are borrowed for as long as the session is there */
    struct pod_exec exec; /* tty without err; the container is named */
    int version;          /* N of vN.channel.k8s.io; 1: unversioned */
    bool websocket;       /* version 4 or 5; else SPDY, 1 to 4 */
};

/* The wire is to be opened, then stream_exec_begin called. */
struct stream_exec *stream_exec_new(const struct stream_exec_config *config, struct wire **ret);
void stream_exec_begin(struct stream_exec *s);
