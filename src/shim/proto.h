/* proto - what berthd and berth-shim say to each other. Both are on one machine, but of different ages
 * after an upgrade: fields are added at the end of messages only, and unknown types are skipped.
 *
 * Over shim.sock (and the descriptor SHIM_FD_CONTROL, which is the first such connection): SOCK_SEQPACKET,
 * each message a struct shim_msg and then data. The shim says HELLO first, to everyone who connects.
 *
 * shim.conf and exec-N.conf: "key=value" entries, each ended by a NUL byte, so that paths can be any bytes.
 *
 * exit, the exit record: "key=value" lines. `failed` stands there instead of the others when the container
 * could not be started; it is the OCI runtime's own last log line (JSON) or our sentence. */
#pragma once

#include <stdint.h>

#define SHIM_FD_CONTROL 3
#define SHIM_FD_OCI     4     /* the OCI runtime as a sealed file in memory, if it is open */
#define SHIM_CHUNK      16384 /* data of one message, bytes of one log entry */
#define SHIM_CLIENTS    64    /* connections of one shim */
#define SHIM_CONF_MAX   32768

enum shim_type {
    /* from the shim */
    SHIM_HELLO = 1, /* state; pid, started when it runs */
    SHIM_STARTED,   /* pid, started */
    SHIM_FAILED,    /* data: as `failed` in the record */
    SHIM_EXITED,    /* code, signal, oom, started, finished, dropped */
    SHIM_STDOUT,    /* data, to attached clients */
    SHIM_STDERR,
    SHIM_PTY, /* exec with a tty: its master side comes along (SCM_RIGHTS) */
    /* to the shim */
    SHIM_ATTACH = 32, /* flags */
    SHIM_STDIN,       /* data; none: the end */
    SHIM_RESIZE,      /* rows, cols */
    SHIM_SIGNAL,      /* signal */
};

enum shim_state { SHIM_CREATING = 1, SHIM_RUNNING, SHIM_DRAINING, SHIM_DELETING };
enum shim_attach { SHIM_ATTACH_STDIN = 1, SHIM_ATTACH_OUTPUT = 2 };

/* Requests to `berth-shim serve`, see serve.c. */
#define SERVE_TEXT_MAX   512
#define SERVE_TITLE_ROOM 200 /* of its third word, which children write their own titles over */
struct serve_head {
    uint32_t stdio; /* bit N: a descriptor for N comes along; the others are a null device of its own */
};

struct shim_msg {
    uint16_t type;
    uint16_t state;
    uint32_t flags;
    uint16_t rows, cols;
    int32_t pid;
    int32_t code;
    int32_t signal;
    uint32_t oom;              /* processes the kernel killed for want of memory */
    int32_t shim_pid;          /* of HELLO */
    int64_t started, finished; /* nanoseconds since 1970 */
    int64_t dropped;           /* bytes that did not get into the log */
};
