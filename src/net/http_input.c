/* What arrives: bytes to heads, bodies, requests for the handler, and raw bytes after an upgrade.
 *
 * Reading goes through a buffer that all connections share; only what cannot be used yet (part of a
 * head, requests beyond the pipeline limit) is kept per connection, so an idle one holds none. */
#include "net/http_priv.h"

#include <errno.h>
#include <sys/socket.h>

#define READS_MAX  8         /* reads of one connection before others get their turn */
#define BODY_FIRST (8 << 10) /* bytes of body memory taken on the word of Content-Length */

static int64_t now_of(const struct connection *conn)
{
    return loop_now(conn->server->loop);
}

/* Whether requests that wait must go on waiting. HTTP/1.0 has no pipelining: an answer that ends with the
 * connection would have those of later requests in it. */
bool http_throttled(const struct connection *conn)
{
    return conn->line >= HTTP_PIPELINE_MAX || conn->unsent > HTTP_OUT_PAUSE ||
           conn->line_bytes > HTTP_PIPELINE_BYTES || (conn->last && conn->last->old);
}

bool http_wants_input(const struct connection *conn)
{
    if (conn->failed || conn->eof)
        return false;
    switch (conn->input) {
    case INPUT_HEAD:
        return !http_throttled(conn);
    case INPUT_HOLD:
        return false;
    case INPUT_RAW:
        return !conn->paused;
    default:
        return true;
    }
}

static void dispatch(struct exchange *ex)
{
    struct connection *conn = ex->conn;
    struct http_server *server = conn->server;

    ex->req.body = buf_view(&ex->body);
    if (ex->body.len == 0)
        ex->req.body = (struct str){arena_strndup(&ex->arena, "", 0), 0}; /* a NUL that may be written */
    ex->state = EXCHANGE_OPEN;
    server->handler(server->arg, &ex->req);
}

/* The last exchange has all of its body. */
static void body_complete(struct connection *conn)
{
    struct exchange *ex = conn->last;

    conn->head_at = now_of(conn);
    if (conn->input == INPUT_BODY)
        conn->input = ex->keep_alive ? INPUT_HEAD : INPUT_DISCARD;
    dispatch(ex);
}

/* Whether the body may come; else the request is answered. */
static bool admit(struct exchange *ex, const struct http_head *head)
{
    struct connection *conn = ex->conn;
    struct http_server *server = conn->server;
    struct http_caller caller = {0};
    bool chunked = head->chunked, keep_alive = ex->keep_alive;
    uint64_t length = head->length;

    ex->body_max = server->config.body_max;
    ex->large = chunked || length > HTTP_BODY_SMALL;
    if (!ex->large || !server->config.admit) {
        ex->payer = conn->share ? http_share_get(server, conn->share->name, false) : NULL;
        return true;
    }
    ex->keep_alive = false;
    conn->input = INPUT_DISCARD;
    ex->state = EXCHANGE_OPEN;
    if (!server->config.admit(server->arg, &ex->req, &caller))
        return false;
    ex->keep_alive = keep_alive;
    conn->input = INPUT_BODY;
    ex->state = EXCHANGE_BODY;
    ex->payer = http_share_get(server, caller.name, caller.reserve);
    if (caller.body_max && caller.body_max < ex->body_max)
        ex->body_max = caller.body_max;
    if (length <= ex->body_max)
        return true;
    http_exchange_refuse(ex, 413, "the body is too large");
    return false;
}

/* What stands in a complete head, as an exchange. */
static void head_complete(struct connection *conn, const char *data, size_t len)
{
    struct http_server *server = conn->server;
    struct http_head *head = &server->head;
    struct exchange *ex = http_exchange_new(conn);
    const char *why = NULL;
    int status;

    conn->fresh = false;
    conn->body_at = now_of(conn);
    ex->head_bytes = len;
    conn->line_bytes += len;
    status = http_parse_request(arena_strndup(&ex->arena, data, len), len, head, &why);
    ex->req.method = head->method;
    ex->req.path = head->path;
    ex->req.query = head->query;
    ex->head_only = streq(head->method, "HEAD");
    ex->old = head->minor == 0;
    if (status == 0 && conn->refused)
        status = 503, why = conn->refused;
    if (status == 0 && head->has_length && head->length > server->config.body_max)
        status = 413, why = "the body is too large";
    if (status != 0) {
        http_exchange_refuse(ex, status, why);
        return;
    }
    ex->req.header_count = head->header_count;
    ex->req.headers = arena_alloc(&ex->arena, head->header_count * sizeof(head->headers[0]));
    if (head->header_count > 0)
        memcpy((void *)ex->req.headers, head->headers, head->header_count * sizeof(head->headers[0]));
    ex->keep_alive = head->keep_alive;
    ex->chunked_in = head->chunked;
    ex->body_left = head->length;
    if (head->upgrade && !head->chunked && head->length == 0) {
        conn->input = INPUT_HOLD;
        dispatch(ex);
        return;
    }
    conn->input = INPUT_BODY;
    if (!head->chunked && head->length == 0) {
        body_complete(conn);
        return;
    }
    if (!admit(ex, head))
        return;
    if (head->has_length)
        buf_reserve(&ex->body, head->length < BODY_FIRST ? head->length : BODY_FIRST);
    if (head->expect_continue)
        http_exchange_continue(ex);
}

static size_t head_input(struct connection *conn, struct str data)
{
    const char *why = NULL;
    ssize_t len = http_scan_head(data.s, data.len, &conn->scanned, &why);
    size_t so_far = len > 0 ? (size_t)len : data.len;
    int status = 0;

    if (len < 0)
        status = 400;
    else if (so_far > HTTP_HEAD_MAX)
        status = 431, why = "the head is too large";
    if (status != 0) {
        conn->fresh = false;
        http_exchange_refuse(http_exchange_new(conn), status, why);
        return data.len;
    }
    if (len == 0)
        return 0;
    conn->scanned = 0;
    head_complete(conn, data.s, so_far);
    return so_far;
}

/* False when the request was refused instead. */
static bool add_body(struct exchange *ex, struct str data)
{
    const char *why;
    int status;

    if (data.len > ex->body_max - ex->body.len) {
        http_exchange_refuse(ex, 413, "the body is too large");
        return false;
    }
    if ((why = http_share_body(ex, data.len, &status))) {
        http_exchange_refuse(ex, status, why);
        return false;
    }
    buf_str(&ex->body, data);
    ex->conn->line_bytes += data.len;
    return true;
}

static size_t chunked_input(struct connection *conn, struct str data)
{
    struct exchange *ex = conn->last;
    struct str rest = data, piece;
    const char *why = NULL;

    for (;;) {
        switch (http_chunked_next(&ex->chunked, &rest, &piece, &why)) {
        case HTTP_CHUNKED_MORE:
            return data.len;
        case HTTP_CHUNKED_PIECE:
            if (!add_body(ex, piece))
                return data.len;
            break;
        case HTTP_CHUNKED_END:
            body_complete(conn);
            return data.len - rest.len;
        case HTTP_CHUNKED_BAD:
            http_exchange_refuse(ex, 400, why);
            return data.len;
        }
    }
}

static size_t body_input(struct connection *conn, struct str data)
{
    struct exchange *ex = conn->last;

    if (ex->chunked_in)
        return chunked_input(conn, data);
    if (data.len > ex->body_left)
        data.len = (size_t)ex->body_left;
    if (!add_body(ex, data))
        return data.len; /* the rest is discarded */
    ex->body_left -= data.len;
    if (ex->body_left == 0)
        body_complete(conn);
    return data.len;
}

/* Uses as much as it can now; returns how much. */
static size_t use_input(struct connection *conn, struct str data)
{
    struct str rest = data;

    while (rest.len > 0) {
        size_t used = 0;

        if (!http_wants_input(conn)) {
            conn->held = true;
            return data.len - rest.len;
        }
        if (conn->input == INPUT_HEAD) {
            used = head_input(conn, rest);
            if (used == 0)
                return data.len - rest.len;
        } else if (conn->input == INPUT_BODY) {
            used = body_input(conn, rest);
        } else if (conn->input == INPUT_RAW) {
            used = rest.len;
            conn->last->handle.ops.data(conn->last->handle.arg, rest);
        } else {
            return data.len; /* discarded */
        }
        rest = (struct str){rest.s + used, rest.len - used};
    }
    return data.len;
}

static void feed(struct connection *conn, struct str data)
{
    size_t used;

    if (conn->in.len == 0) {
        used = use_input(conn, data);
        if (used < data.len) {
            conn->head_at = now_of(conn);
            buf_add(&conn->in, data.s + used, data.len - used);
        }
        return;
    }
    buf_str(&conn->in, data);
    used = use_input(conn, buf_view(&conn->in));
    if (used == conn->in.len)
        buf_done(&conn->in);
    else if (used > 0)
        buf_drop(&conn->in, used);
}

/* The client sends no more. Answers under way may still reach it, but who asked to be told when it
 * leaves is told: almost every client that closes half has closed all. */
static void end_of_input(struct connection *conn)
{
    conn->eof = true;
    connection_dirty(conn);
    if (conn->input == INPUT_RAW) {
        if (!conn->last->told)
            http_exchange_gone(conn->last, "end of stream");
        return;
    }
    if (conn->input == INPUT_HANDSHAKE || conn->input == INPUT_BODY) {
        connection_fail(conn, "the client left in the middle of a request");
        return;
    }
    for (struct exchange *ex = conn->first; ex; ex = ex->next)
        if (ex->req.gone)
            connection_fail(conn, "the client left");
}

void http_read_input(struct connection *conn)
{
    struct http_server *server = conn->server;

    for (int i = 0; i < READS_MAX && http_wants_input(conn); i++) {
        ssize_t len = conn->ssl && !conn->lingering ? http_tls_read(conn, server->scratch, HTTP_SCRATCH)
                                                    : recv(conn->fd, server->scratch, HTTP_SCRATCH, 0);

        if (len > 0) {
            conn->read_at = now_of(conn);
            if (conn->lingering)
                continue;
            feed(conn, (struct str){server->scratch, (size_t)len});
            if (conn->ssl && !conn->lingering ? !http_tls_pending(conn) : len < HTTP_SCRATCH)
                return; /* what comes later, epoll tells; no need to ask now */
        } else if (len == 0) {
            end_of_input(conn);
        } else if (errno == EAGAIN || errno == EINTR) {
            return;
        } else {
            connection_fail(conn, "the connection broke");
        }
    }
    if (conn->ssl && http_tls_pending(conn))
        connection_dirty(conn); /* epoll does not see what OpenSSL has read already */
}

/* Input that had to wait, here or inside TLS where epoll does not see it. */
void http_resume_input(struct connection *conn)
{
    if (!http_wants_input(conn) || conn->input == INPUT_HANDSHAKE)
        return;
    if (conn->held) { /* the client's time begins now */
        conn->held = false;
        conn->head_at = now_of(conn);
    }
    if (conn->in.len > 0) {
        size_t before = conn->in.len, used = use_input(conn, buf_view(&conn->in));

        if (used == before)
            buf_done(&conn->in);
        else if (used > 0)
            buf_drop(&conn->in, used);
    }
    if (conn->ssl && !conn->lingering && http_tls_pending(conn))
        http_read_input(conn);
}
