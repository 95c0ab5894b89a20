/* http - an HTTP/1.1 server on a loop: TCP, TLS and unix sockets.
 *
 * Strict: what RFC 9112 lets a recipient reject as ambiguous is rejected (two Content-Lengths,
 * Content-Length with Transfer-Encoding, bare LF, folded headers, no or several Hosts, a space before
 * the colon). Keep-alive, pipelining (answers leave in the order of the requests, handlers may answer
 * in any order and at any later time), chunked bodies both ways, Expect: 100-continue, HEAD.
 *
 * A request is handed to the handler once its body is complete. The handler owns the exchange from
 * then on and ends it with exactly one of
 *   http_reply                       a whole answer;
 *   http_stream_begin … _end         an answer in pieces (watch, logs, SSE);
 *   http_upgrade                     takes the connection over (WebSocket, SPDY).
 * When the client goes away earlier, the `gone` callback tells; the exchange must still be ended by
 * http_abandon (or any of the above, which then do nothing but release it). */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "loop/loop.h"

#include <sys/types.h>

#define HTTP_HEAD_MAX         (64 << 10)  /* request line and headers, bytes */
#define HTTP_HEADERS_MAX      100         /* header lines */
#define HTTP_BODY_MAX         (16 << 20)  /* default; see http_config.body_max */
#define HTTP_BODY_SMALL       (64 << 10)  /* a larger body, or one of unknown length, is admitted first */
#define HTTP_BODIES_MAX       (256 << 20) /* large bodies of all requests under way; 503 beyond */
#define HTTP_BODIES_RESERVE   (64 << 20)  /* of these, for callers with the reserve */
#define HTTP_BODIES_EACH      (32 << 20)  /* of one caller; 429 beyond */
#define HTTP_SMALL_BODIES_MAX (64 << 20)  /* small bodies of all requests under way; 503 beyond */
#define HTTP_BODY_RATE        (8 << 10)   /* bytes per second of a body on average, past HTTP_BODY_TIMEOUT */
#define HTTP_PIPELINE_MAX     128         /* unanswered requests of one connection */
#define HTTP_PIPELINE_BYTES   (1 << 20)   /* of unanswered requests of one connection, before more are read */
#define HTTP_CONNS_MAX        8192        /* default */
#define HTTP_CONNS_EACH       1024        /* default, of one uid or address */
#define HTTP_CONNS_LOOPBACK   4096        /* default, of each loopback address: everybody here shares them */
#define HTTP_CONNS_RESERVE    64          /* beyond conns_max, for callers with the reserve */
#define HTTP_HEAD_TIMEOUT     30          /* seconds until the head is complete */
#define HTTP_BODY_TIMEOUT     60          /* seconds without a byte of the body */
#define HTTP_IDLE_TIMEOUT     300         /* seconds between requests */
#define HTTP_WRITE_TIMEOUT    120 /* seconds without progress while we have bytes of a whole answer to send */
#define HTTP_STREAM_BUF_MAX   (8 << 20) /* unsent bytes of one stream before a slow reader is cut off */

#define HTTP_STREAM_PIECE     (64 << 10) /* a good size of what is written at once to a stream */
#define HTTP_CALLER_MAX       256        /* bytes of a caller's name, with the NUL */

struct http_server;
struct http_req;

/* Who is at the other end, as far as the connection itself tells. Borrowed from the connection. */
struct http_peer {
    bool unix_socket;
    uid_t uid; /* of the process, unix sockets only */
    gid_t gid;
    pid_t pid;
    bool tls;
    bool loopback;                 /* TCP from this machine */
    const char *address;           /* "127.0.0.1:40312", "unix" */
    const char *cert_cn;           /* NULL without a verified client certificate */
    const char *const *cert_orgs;  /* NULL-terminated; the O fields */
    const char *cert_serial;       /* lower-case hex */
    int64_t cert_from, cert_until; /* its validity, nanoseconds since 1970 */
};

struct http_header {
    const char *name;  /* as sent */
    const char *value; /* trimmed */
};

/* Handlers may read these; they live until the exchange ends. */
struct http_req {
    const char *method;
    const char *path;  /* raw path of the target, before '?', still %-encoded */
    const char *query; /* raw, without '?'; "" when absent */
    const struct http_header *headers;
    size_t header_count;
    struct str body; /* whole; writable NUL byte behind it (json_parse_in_place may be used) */
    const struct http_peer *peer;
    struct arena *arena; /* for the handler; released with the exchange */
    void *user;          /* for the handler */
    void *owner;         /* for whoever hands requests to handlers */
    /* Set by the handler; called once when the client has left. A client that closed only its sending
     * side counts as gone where this is set; where it is not, the answer still goes out. */
    void (*gone)(struct http_req *req);
    /* Set by the handler: the answer's status is known (not called where the client has left before). */
    void (*answered)(struct http_req *req, int status);
    /* Set by the handler: the exchange is over, its arena goes after this. */
    void (*ended)(struct http_req *req);
    const char *id; /* set by the handler: told to the client as X-Request-Id; NULL: none */
};

const char *http_req_header(const struct http_req *req,
                            const char *name); /* first of that name, NULL when absent */

/* Who a large body counts for. */
struct http_caller {
    char name[HTTP_CALLER_MAX];
    bool reserve;    /* may use what is kept free for admins */
    size_t body_max; /* 0: http_config.body_max */
};

struct http_config {
    size_t body_max;         /* 0: HTTP_BODY_MAX */
    unsigned conns_max;      /* 0: HTTP_CONNS_MAX */
    unsigned conns_each;     /* 0: HTTP_CONNS_EACH */
    unsigned conns_loopback; /* 0: HTTP_CONNS_LOOPBACK */
    /* Asked with the head alone before a body of more than HTTP_BODY_SMALL is read: says who it counts for.
     * False: the request was answered (401), its body is not read. NULL: the connection's peer. `arg` is the
     * handler's. */
    bool (*admit)(void *arg, struct http_req *req, struct http_caller *ret);
    /* Called before a request is refused that never came to the handler: it may set req->id. Of one whose
     * head could not be read, method and path are NULL. NULL: nobody is told. */
    void (*refused)(void *arg, struct http_req *req, int status, const char *why);
    const char *server_name; /* value of the Server header; NULL: none */
    bool nosniff;            /* every answer has X-Content-Type-Options: nosniff */
    int head_timeout_ms, body_timeout_ms, idle_timeout_ms, write_timeout_ms; /* 0: the constants above */
};

typedef void (*http_handler)(void *arg, struct http_req *req);

struct http_server *http_server_new(struct loop *loop, const struct http_config *config, http_handler handler,
                                    void *arg);
/* Closes everything at once; not from a handler. Requests that are open end with it: whoever would answer
 * them later must have been told, or waited for, before. */
void http_server_free(struct http_server *server);

/* "127.0.0.1:5336", "[::1]:5336", ":5443", port 0 picks one. tls NULL: plain. */
struct http_tls;
int http_listen_tcp(struct http_server *server, const char *addr, struct http_tls *tls, struct err *err);
/* Replaces a stale socket file; mode as given (0666: everybody may connect, identity is the uid). */
int http_listen_unix(struct http_server *server, const char *path, mode_t mode, struct err *err);
/* The same again, when somebody has removed the socket file: 1; 0: it is there, or is none of ours. */
int http_listen_again(struct http_server *server, const char *path, mode_t mode, struct err *err);
/* "127.0.0.1:41233" of the n-th TCP listener, for port 0. Borrowed. */
const char *http_server_addr(const struct http_server *server, size_t n);
unsigned http_server_conns(const struct http_server *server); /* that are open */

/* Server certificate and key, and the CA whose client certificates are believed (optional at the
 * client). Files are PEM. */
int http_tls_new(const char *cert_path, const char *key_path, const char *ca_path, struct http_tls **ret,
                 struct err *err);
void http_tls_free(struct http_tls *tls);
/* The files are read again: connections from now on get what is in them, open ones stay as they are. -1: all
 * stays as it was. */
int http_tls_reload(struct http_tls *tls, const char *cert_path, const char *key_path, const char *ca_path,
                    struct err *err);

/* Stops accepting, lets answers under way finish, closes idle connections, ends streams; calls done
 * when all are gone or after timeout_ms. */
void http_server_stop(struct http_server *server, int timeout_ms, void (*done)(void *arg), void *arg);

/* A whole answer. headers may be NULL; Content-Length, Date and Connection are added. body is copied
 * (http_reply) or taken over (http_reply_buf, which leaves *body empty). HEAD sends no body but its length.
 */
void http_reply(struct http_req *req, int status, const char *content_type, const struct http_header *headers,
                size_t header_count, struct str body);
void http_reply_buf(struct http_req *req, int status, const char *content_type,
                    const struct http_header *headers, size_t header_count, struct buf *body);
/* Nothing that its connection asked for before is still to be answered. */
bool http_is_first(struct http_req *req);
/* As if the client had left: what is under way on its connection ends, `gone` and `closed` come. */
void http_cut(struct http_req *req, const char *why);
void http_abandon(struct http_req *req); /* after gone, or to drop the connection */

/* An answer in pieces: chunked (or to the end of the connection for HTTP/1.0). Pieces are sent as they
 * come. What one turn writes to a stream that has sent everything may have any length. What comes later while
 * more than HTTP_STREAM_BUF_MAX of that, or beyond it, has not been sent yet cuts the connection, and `gone`
 * comes: the client reads too slowly. Producers that can wait ask http_stream_unsent and wait for the drain.
 */
void http_stream_begin(struct http_req *req, int status, const char *content_type,
                       const struct http_header *headers, size_t header_count);
void http_stream_write(struct http_req *req, struct str data);
size_t http_stream_unsent(const struct http_req *req);
/* fn once when unsent bytes have fallen to half of HTTP_STREAM_BUF_MAX's 1/16 or less: for producers that
 * wait. */
void http_stream_on_drain(struct http_req *req, void (*fn)(struct http_req *req));
void http_stream_end(struct http_req *req);

/* The connection after an upgrade: bytes both ways. The request (and its arena) lives until http_conn_close.
 */
struct http_conn;
struct http_conn_ops {
    void (*data)(void *arg, struct str data); /* bytes came; all of them are the callee's now */
    void (*drained)(void *arg);               /* all that was written has left */
    void (*closed)(void *arg,
                   const char *why); /* end of stream or error; http_conn_close must still be called */
};
/* Sends `101 Switching Protocols` with these headers (Connection and Upgrade are added) and takes over.
 * Never NULL: when the client has left, `closed` comes soon; when its request had no Connection: Upgrade
 * and Upgrade headers, or a body, it is answered 400 and `closed` comes as well. */
struct http_conn *http_upgrade(struct http_req *req, const char *protocol, const struct http_header *headers,
                               size_t header_count, const struct http_conn_ops *ops, void *arg);
void http_conn_write(struct http_conn *conn, struct str data); /* copies */
size_t http_conn_unsent(const struct http_conn *conn);
void http_conn_pause(struct http_conn *conn, bool paused); /* stop reading: back-pressure to the client */
void http_conn_close(struct http_conn *conn); /* what was written still leaves; callbacks end now */

const char *http_status_text(int status);

/* Query: the n-th value of a decoded parameter in the arena of the request, or NULL. "a=1&a=2": n 0 and 1.
 * ERR-less: undecodable values count as absent. */
const char *http_query(const struct http_req *req, const char *name, size_t n);
