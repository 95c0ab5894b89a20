/* grpc - one question of gRPC's health service over plain HTTP/2, as bytes: what to send, and what the bytes
 * that come back mean. No I/O. */
#pragma once

#include "base/buf.h"

#define GRPC_SERVICE_MAX 1024
#define GRPC_FRAME_MAX   16384 /* HTTP/2's smallest allowed limit; ours */

enum grpc_state {
    GRPC_MORE,    /* nothing said yet */
    GRPC_SERVING, /* healthy */
    GRPC_NOT,     /* it answered, but not so */
    GRPC_BAD,     /* no gRPC, or an error instead of an answer */
};

struct grpc {
    size_t at;      /* bytes understood so far */
    struct buf msg; /* of stream 1 */
};
void grpc_done(struct grpc *grpc);
/* Preface, settings, headers and the request for a service ("" is the server as a whole). */
void grpc_ask(struct buf *out, const char *service);
/* in: all bytes received since the start. What has to be answered (settings, pings) is added to out. */
enum grpc_state grpc_read(struct grpc *grpc, struct str in, struct buf *out);
