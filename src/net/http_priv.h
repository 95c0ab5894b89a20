/* http_priv - what the files of the HTTP server share; not for users of net.
 *
 * A connection has a line of exchanges, one per request, in the order in which they
 * came. The first one in line writes straight into the connection's output, the others keep theirs
 * until it is their turn. Output is a list of segments: small things are appended to the last one,
 * large bodies are taken over as segments of their own.
 *
 * Nothing is sent and no connection is released from inside a call of a handler. What such a call
 * changes puts the connection on the server's dirty list, and http_settle does the rest at the end of
 * the turn: it writes, tells who must be told, goes on with input that had to wait, closes. Hence
 * all answers of a turn leave together, and no pointer goes stale under a caller. */
#pragma once

#include "base/map.h"
#include "net/http.h"
#include "net/http_parse.h"

#include <openssl/ssl.h>

#define HTTP_SEGMENT         (64 << 10) /* bytes from which a segment is not appended to any more */
#define HTTP_TAKE_ABOVE      (16 << 10) /* a body larger than this is taken over, not copied */
#define HTTP_OUT_PAUSE       (1 << 20)  /* unsent bytes above which no further request is read */
#define HTTP_SCRATCH         (64 << 10) /* bytes read at once */
#define HTTP_SPARE_MAX       64         /* exchanges and segments kept for reuse */
#define HTTP_SPARE_LARGE_MAX 8          /* the same when they are large ones */
#define HTTP_DRAIN_BELOW     (HTTP_STREAM_BUF_MAX / 16 / 2)
#define HTTP_LINGER_MS       2000 /* how long a client may take to notice that we have closed */
#define HTTP_REFUSALS_MAX    64   /* connections past conns_max that still hear a 503 */

struct segment {
    struct segment *next;
    struct buf buf;
    size_t sent;
    bool sealed; /* never appended to */
};

struct output {
    struct segment *first, *last;
    size_t bytes;
};

enum exchange_state {
    EXCHANGE_BODY,     /* its body is being received */
    EXCHANGE_OPEN,     /* with the handler, no answer yet */
    EXCHANGE_STREAM,   /* http_stream_begin was called */
    EXCHANGE_UPGRADED, /* http_upgrade was called */
    EXCHANGE_DONE,     /* answered; waits for its turn */
};

/* What http_upgrade returns. Each exchange has its own, so that one that may not be upgraded cannot get
 * in the way of another. */
struct http_conn {
    struct http_conn_ops ops;
    void *arg;
    bool refused; /* nothing was taken over; `closed` comes soon */
    bool wrote;   /* since the last `drained` */
};

struct exchange {
    struct http_req req;     /* handlers hold a pointer to it */
    struct http_conn handle; /* and to this one after an upgrade */
    struct connection *conn;
    struct exchange *next;
    struct arena arena;
    struct output out; /* empty while first in line */
    struct buf body;
    size_t head_bytes;
    struct share *payer; /* who its body counts for; NULL: nobody in particular */
    size_t body_max;
    uint64_t body_left;
    size_t burst; /* bytes written in the turn `burst_at`, to a stream that had nothing unsent before */
    int64_t burst_at;
    struct http_chunked chunked;
    void (*drain)(struct http_req *req);
    uint8_t state;
    bool chunked_in, chunked_out;
    bool old;        /* HTTP/1.0 */
    bool keep_alive; /* the connection can go on after this one */
    bool quiet;      /* no body may be sent: HEAD, 204, 304 */
    bool head_only;
    bool large; /* its body counts as one */
    bool told;  /* `gone` or `closed` was called; writes do nothing */
};

enum input_state {
    INPUT_HANDSHAKE, /* of TLS */
    INPUT_HEAD,
    INPUT_BODY,    /* of the last exchange in line */
    INPUT_HOLD,    /* the last exchange asked for an upgrade: what follows is not known yet */
    INPUT_RAW,     /* upgraded */
    INPUT_DISCARD, /* no further request is taken */
};

/* http_share.c */
struct share {
    char *name;
    unsigned refs; /* connections and bodies */
    unsigned conns;
    bool reserve;
    size_t bytes; /* of bodies */
    struct connection *idle_first, *idle_last;
};

struct connection {
    struct http_server *server;
    struct share *share; /* NULL: nobody in particular */
    struct connection *idle_prev, *idle_next;
    struct connection *prev, *next;
    struct connection *dirty_next;
    struct loop_io *io;
    struct loop_timer *timer;
    SSL *ssl; /* NULL: plain */
    struct exchange *first, *last;
    struct buf in; /* bytes that wait; none of it while idle */
    size_t scanned;
    struct output out;
    size_t unsent;     /* out and the outputs of all exchanges */
    size_t line_bytes; /* heads and bodies of the exchanges in line */
    int64_t read_at, head_at, body_at, write_at, linger_at, timer_at;
    const char *failed; /* why the connection is of no use any more; NULL: it is */
    int fd;             /* -1: closed */
    unsigned line;      /* exchanges in line */
    uint32_t ssl_wants; /* EPOLLOUT while TLS must write before it can go on */
    uint8_t input;
    bool dirty, torn;    /* torn: failed, and everybody was told */
    bool fresh;          /* no request yet */
    bool idle;           /* in its share's list */
    bool held;           /* input waits for earlier requests, not for the client */
    const char *refused; /* why no request of it is served; NULL: they are */
    bool close_after;    /* when all output has left */
    bool eof, lingering, paused, stop_told;
    bool tell_refused; /* an exchange in line has a refused upgrade to be told of */
    struct http_peer peer;
    char *subject; /* the strings of peer.cert_* */
    char address[56];
};

struct listener {
    struct listener *next;
    struct http_server *server;
    struct loop_io *io;
    struct loop_timer *retry; /* after the process ran out of descriptors */
    struct http_tls *tls;
    char *path; /* of a unix socket; NULL once it was removed */
    char *addr; /* of a TCP one */
    int fd;
};

struct http_server {
    struct loop *loop;
    struct http_config config;
    char *server_name;
    http_handler handler;
    void *arg;
    struct listener *listeners, **listeners_end; /* in the order of http_listen_* */
    struct connection *conns, *dirty_first, *dirty_last;
    unsigned conn_count;
    struct map *shares;              /* name → share */
    size_t large_bytes, small_bytes; /* of all bodies */
    struct exchange *spare_exchanges;
    struct segment *spare_segments;
    unsigned spare_exchange_count, spare_segment_count;
    bool settle_due, freed;
    bool stopping, stop_late;
    struct loop_timer *stop_timer;
    void (*stop_done)(void *arg);
    void *stop_arg;
    int64_t date_at; /* second of `date`, monotonic */
    char date[40];
    struct buf records;    /* scratch of TLS */
    struct http_head head; /* scratch of the parser */
    char scratch[HTTP_SCRATCH];
};

/* http_conn.c */
/* Serves a connected socket, which is the server's then. tls NULL: plain. */
struct connection *connection_new(struct http_server *server, int fd, struct http_tls *tls);
void connection_dirty(struct connection *conn);
void connection_fail(struct connection *conn, const char *why);
void connection_destroy(struct connection *conn); /* at once; tells those who must be told */
void http_settle(struct http_server *server);

/* http_input.c */
bool http_throttled(const struct connection *conn);   /* requests that wait must go on waiting */
bool http_wants_input(const struct connection *conn); /* it should be read now */
void http_read_input(struct connection *conn);
void http_resume_input(struct connection *conn); /* what had to wait may be used now */

/* http_share.c */
struct share *http_share_get(struct http_server *server, const char *name, bool reserve);
void http_share_put(struct http_server *server, struct share *share); /* NULL is fine */
void http_share_join(struct connection *conn, const char *name, bool reserve);
void http_share_leave(struct connection *conn);
void http_share_busy(struct connection *conn);           /* a request of it is under way */
void http_share_settle(struct connection *conn);         /* idle or not, by what it is now */
const char *http_share_refusal(struct connection *conn); /* of a new one; NULL: there is room, or is made */
/* `len` more bytes of its body; NULL: they are counted, else why they cannot be taken. */
const char *http_share_body(struct exchange *ex, size_t len, int *status);
void http_share_body_gone(struct exchange *ex);

/* http_reply.c */
struct exchange *http_exchange_new(struct connection *conn);
void http_exchange_free(struct exchange *ex);                  /* takes it out of line as well */
void http_exchange_done(struct exchange *ex);                  /* answered or given up */
void http_exchange_gone(struct exchange *ex, const char *why); /* tells the handler, once */
void http_exchange_refuse(struct exchange *ex, int status, const char *why);
void http_exchange_continue(struct exchange *ex); /* 100 */
void http_stream_stop(struct exchange *ex);       /* the end of a stream that the server wants */
void http_output_drop(struct connection *conn, struct output *out);
void http_output_sent(struct connection *conn, size_t len);
void http_spares_free(struct http_server *server);

/* http_tls.c; results as of read and write, -1 with errno EAGAIN: later (conn->ssl_wants is set) */
void http_tls_attach(struct connection *conn, struct http_tls *tls);
int http_tls_handshake(struct connection *conn); /* 1: done, 0: later, -1: failed */
ssize_t http_tls_read(struct connection *conn, void *data, size_t len);
int http_tls_send(struct connection *conn);          /* from conn->out, as much as goes now; -1: broken */
size_t http_tls_held(const struct connection *conn); /* encrypted bytes that wait for the socket */
bool http_tls_pending(const struct connection *conn);
void http_tls_close(struct connection *conn, bool orderly);
struct http_tls *http_tls_ref(struct http_tls *tls);
