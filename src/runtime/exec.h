/* exec - what exec and attach share: a stream whose bytes go by descriptors of its own (exec) or as messages
 * over the shim's socket (attach). */
#pragma once

#include "runtime/runtime_internal.h"

struct runtime_stream {
    struct runtime *rt;
    const struct runtime_stream_events *events;
    void *arg;
    bool attach, tty, paused, ended;
    bool want_write; /* a write was cut short: `writable` is owed */
    int control;
    struct loop_io *control_io;
    /* exec only */
    int in, out[2];      /* out[0] is the terminal's master, and in a copy of it, with tty */
    uint16_t rows, cols; /* asked for; 0: not yet */
    struct loop_io *in_io, *out_io[2];
    struct loop_timer *drain; /* a process left behind may hold the output open for ever */
    bool has_exit;
    struct runtime_exit how;
};

struct runtime_stream *stream_new(struct runtime *rt, const struct runtime_stream_events *events, void *arg);
void stream_ended(struct runtime_stream *s, const struct runtime_exit *how); /* at most once */
void stream_failed(struct runtime_stream *s, const char *sentence);

/* exec_attach.c */
size_t attach_write(struct runtime_stream *s, const char *data, size_t len);
void attach_close_stdin(struct runtime_stream *s);
void attach_listen(struct runtime_stream *s); /* as paused and want_write say */
