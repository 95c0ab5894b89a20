/* pod_ops - what an engine offers to those who look into a pod: its logs, commands run in it, its main
 * process' streams, its ports. The API speaks HTTP, SPDY and WebSocket to the client and calls these; the
 * engine knows containers and nothing of the wire.
 *
 * Everything is on the loop. Callbacks come from the loop, never from inside a call of an operation, and none
 * comes after the handle's free. Nobody may block: an operation that cannot take bytes says how many it took
 * and calls `writable` later; who cannot take output says so with `pause`, and what is still given meanwhile
 * (one piece at most) must be taken. The API has checked that the pod is there, that the caller may, and that
 * the pod has a container of that name; its state is the engine's to judge.
 *
 * Refusals are an err; its code becomes the answer's status (ERR_INVALID 400, ERR_NOT_FOUND 404,
 * ERR_UNAVAILABLE 503, ERR_INTERNAL and ERR_SYSTEM 500). The usual ones are below, in Kubernetes' words.
 *
 * The operations must stay callable until the HTTP server is freed: that is when the last handle is. */
#pragma once

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

struct pod_log;    /* all three are the engine's own */
struct pod_stream; /* of exec or attach */
struct pod_dial;

/* Which pod. Borrowed for the call. */
struct pod_ref {
    const char *ns, *name, *uid;
};

/* ---- logs ---- */

struct pod_log_options {
    const char *container;
    bool previous;   /* of the run before the current one */
    bool follow;     /* goes on until the container ends */
    bool timestamps; /* each line begins with its time */
    int64_t since; /* only what was written at or after this time (nanoseconds since 1970); INT64_MIN: all */
    int64_t tail;  /* the last lines, before `since` is looked at; -1: all */
    int64_t limit_bytes; /* ends after so many bytes; -1: no limit */
};

struct pod_log_events {
    void (*data)(void *arg, struct str data); /* as the client shall get it */
    void (*end)(void *arg,
                const struct err *err); /* once, last. NULL: that was all. The handle is still to be freed */
};

/* ---- exec and attach ---- */

struct pod_exec {
    const char *container;
    const char *const *argv; /* NULL-terminated; NULL: attach to the main process */
    bool tty;                /* stdout and stderr are one then, given as fd 1 */
    bool in, out, err;       /* which of stdin, stdout, stderr the client has; the others need not be given */
    uint16_t rows, cols;     /* 0: not known yet */
};

struct pod_stream_events {
    void (*output)(void *arg, int fd, struct str data); /* fd 1 or 2 */
    void (*writable)(void *arg);                        /* after a short write */
    /* Once, last, after all output: the exit code (exec; attach always gives 0), or why there is none. */
    void (*ended)(void *arg, int code, const struct err *err);
};

/* ---- figures ---- */

/* What a container, or a node, uses. */
struct pod_usage {
    const char *container;  /* NULL: of a node */
    uint64_t cpu_nanos;     /* nanoseconds of processor time a second, over the window */
    uint64_t memory_bytes;  /* without page cache that can go at once */
    int64_t end, window_ns; /* when the window ended (nanoseconds since 1970), and how long it was */
};

/* ---- the operations ---- */

struct pod_ops {
    void *arg; /* the first argument of check, log, exec and dial */

    /* Whether exec and attach in that container (container NULL: dial) would be refused now, so that the
     * client hears it before the connection is switched over. May be NULL. */
    int (*check)(void *arg, const struct pod_ref *pod, const char *container, struct err *err);

    int (*log)(void *arg, const struct pod_ref *pod, const struct pod_log_options *options,
               const struct pod_log_events *events, void *events_arg, struct pod_log **ret, struct err *err);
    void (*log_pause)(struct pod_log *log, bool pause);
    void (*log_free)(struct pod_log *log);

    /* A command that cannot be started (no such program) need not be known at once: `ended` tells. */
    int (*exec)(void *arg, const struct pod_ref *pod, const struct pod_exec *exec,
                const struct pod_stream_events *events, void *events_arg, struct pod_stream **ret,
                struct err *err);
    /* How many bytes were taken; fewer than len: `writable` follows. When nobody will ever read them, all are
     * taken and dropped. */
    size_t (*stream_write)(struct pod_stream *stream, struct str data);
    void (*stream_close_stdin)(struct pod_stream *stream); /* after what was taken */
    void (*stream_resize)(struct pod_stream *stream, uint16_t rows, uint16_t cols);
    void (*stream_pause)(struct pod_stream *stream, bool pause);
    /* The client has left or all is over. A process of exec goes on, as in Kubernetes; on a tty it gets HUP.
     */
    void (*stream_free)(struct pod_stream *stream);

    /* Connects to a port on the pod's loopback. done is called once: with a connected, nonblocking descriptor
     * that is the callee's from then on, or with -1 and why ("connect to 127.0.0.1:80: Connection refused").
     * The handle is gone with that call, or with dial_cancel. */
    int (*dial)(void *arg, const struct pod_ref *pod, uint16_t port,
                void (*done)(void *done_arg, int fd, const struct err *err), void *done_arg,
                struct pod_dial **ret, struct err *err);
    void (*dial_cancel)(struct pod_dial *dial);

    /* For `kubectl top`; both may be NULL. Calls fn for each running container of the pod, before it
     * returns. */
    void (*usage)(void *arg, const struct pod_ref *pod,
                  void (*fn)(void *fn_arg, const struct pod_usage *usage), void *fn_arg);
    /* False: it is not the engine's node. */
    bool (*node_usage)(void *arg, const char *node, struct pod_usage *ret);
};

/* ---- refusals, as Kubernetes words them; all return -1 ---- */

/* 400 container "c" in pod "p" is waiting to start: ContainerCreating */
int pod_err_waiting(struct err *err, const char *container, const char *pod, const char *reason);
/* 400 previous terminated container "c" in pod "p" not found */
int pod_err_no_previous(struct err *err, const char *container, const char *pod);
/* 500 container not found ("c"): exec or attach to what does not run */
int pod_err_not_running(struct err *err, const char *container);
/* 500 pod "p" is not running: dial, when none of its containers runs */
int pod_err_no_sandbox(struct err *err, const char *pod);
