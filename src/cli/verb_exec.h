/* verb_exec - what exec, attach, cp and port-forward share: a WebSocket to a pod. */
#pragma once

#include "cli/target.h"
#include "net/client.h"
#include "net/websocket.h"

#define STREAM_CHUNK (16 << 10) /* what a socket that is ready for writing takes without blocking */

/* A WebSocket on cli's connection, which must have carried a request before. Nothing blocks but reading: what
 * is to be sent is queued, and leaves when the socket is ready. */
struct socket {
    struct client *client;
    struct websocket *ws;
    struct buf out;
    size_t out_at;
};
int socket_open(struct cli *cli, struct socket *s, const char *target,
                const char *protocol); /* an exit code */
void socket_done(struct socket *s);
void socket_send(struct socket *s, enum websocket_type type, struct str payload);
size_t socket_unsent(const struct socket *s);
/* Some of the queue. -1: the connection is broken. */
int socket_flush(struct socket *s, struct err *err);
/* Reads once and hands out messages (pings are answered). 0: the end, -1: broken, 1: go on. */
int socket_read(struct socket *s, int (*fn)(void *arg, enum websocket_type type, struct str payload),
                void *arg, struct err *err);

/* One command in a container, or the main process where argv is NULL. */
struct remote {
    const char *ns, *pod, *container; /* container NULL: the only one */
    const char *const *argv;
    bool in, tty;
    int in_fd, out_fd, err_fd; /* ours */
};
/* Runs it to its end; *ret_code is what it exited with. Returns CLI_OK, or another exit code after saying
 * why. */
int remote_run(struct cli *cli, const struct remote *remote, int *ret_code);
