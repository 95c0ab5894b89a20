/* One connection: bytes in, requests to the handler, bytes out, timeouts, closing.
 *
 * Reading goes through a buffer that all connections share; only what cannot be used yet (part of a
 * head, requests beyond the pipeline limit) is kept per connection, so an idle one holds none.
 *
 * A timer is not moved with every byte. It is armed for the nearest deadline and, when it fires, looks
 * at what the deadline is by then. */
#include "base/clock.h"
#include "base/mem.h"
#include "net/http_priv.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define READS_MAX  8          /* reads of one connection before others get their turn */
#define WRITE_IOVS 32         /* segments sent at once */
#define WRITE_MAX  (1 << 20)  /* bytes of TLS sent before others get their turn */
#define BODY_FIRST (64 << 10) /* bytes of body memory taken on the word of Content-Length */

static void on_io(void *arg, uint32_t events);
static void on_timer(void *arg);

static int64_t now_of(const struct connection *conn)
{
    return loop_now(conn->server->loop);
}

static int64_t timeout_ns(int configured_ms, int fallback_sec)
{
    return configured_ms > 0 ? configured_ms * NSEC_PER_MSEC : fallback_sec * NSEC_PER_SEC;
}

struct connection *connection_new(struct http_server *server, int fd, struct http_tls *tls)
{
    struct connection *conn = NEW(struct connection);

    conn->server = server;
    conn->fd = fd;
    conn->fresh = true;
    conn->input = tls ? INPUT_HANDSHAKE : INPUT_HEAD;
    conn->read_at = conn->head_at = conn->write_at = clock_monotonic();
    conn->timer_at = INT64_MAX;
    conn->peer.address = conn->address;
    conn->peer.uid = (uid_t)-1;
    conn->peer.gid = (gid_t)-1;
    conn->next = server->conns;
    if (conn->next)
        conn->next->prev = conn;
    server->conns = conn;
    server->conn_count++;
    conn->timer = loop_timer_new(server->loop, on_timer, conn);
    conn->io = loop_io_new(server->loop, fd, EPOLLIN, on_io, conn);
    if (tls)
        http_tls_attach(conn, tls);
    connection_dirty(conn); /* arms the timer */
    return conn;
}

static void settle_later(void *arg)
{
    struct http_server *server = arg;

    server->settle_due = false;
    if (server->freed)
        free(server);
    else
        http_settle(server);
}

void connection_dirty(struct connection *conn)
{
    struct http_server *server = conn->server;

    if (conn->dirty)
        return;
    conn->dirty = true;
    conn->dirty_next = NULL;
    if (server->dirty_last)
        server->dirty_last->dirty_next = conn;
    else
        server->dirty_first = conn;
    server->dirty_last = conn;
    if (!server->settle_due) {
        server->settle_due = true;
        loop_later(server->loop, settle_later, server);
    }
}

void connection_fail(struct connection *conn, const char *why)
{
    if (!conn->failed)
        conn->failed = why;
    connection_dirty(conn);
}

static void close_fd(struct connection *conn, bool orderly)
{
    if (conn->fd < 0)
        return;
    loop_io_free(TAKE_PTR(conn->io));
    loop_timer_free(TAKE_PTR(conn->timer));
    http_tls_close(conn, orderly);
    fd_close(take_fd(&conn->fd));
    buf_done(&conn->in);
}

static struct exchange *first_untold(const struct connection *conn)
{
    for (struct exchange *ex = conn->first; ex; ex = ex->next)
        if (!ex->told)
            return ex;
    return NULL;
}

/* The connection is of no use any more: closes it and tells everyone who still works for it. They end
 * their exchanges now or later; the last one releases the connection. */
static void tear_down(struct connection *conn)
{
    struct exchange *ex;

    conn->torn = true;
    close_fd(conn, false);
    http_output_drop(conn, &conn->out);
    while ((ex = first_untold(conn))) {
        if (ex->state == EXCHANGE_BODY || ex->state == EXCHANGE_DONE)
            http_exchange_free(ex);
        else
            http_exchange_gone(ex, conn->failed);
    }
}

void connection_destroy(struct connection *conn)
{
    struct http_server *server = conn->server;

    conn->dirty = true; /* never queued again */
    if (!conn->failed)
        conn->failed = "the server is gone";
    if (!conn->torn)
        tear_down(conn);
    while (conn->first)
        http_exchange_free(conn->first);
    http_output_drop(conn, &conn->out); /* what exchanges that ended later have moved up */
    if (conn->prev)
        conn->prev->next = conn->next;
    else
        server->conns = conn->next;
    if (conn->next)
        conn->next->prev = conn->prev;
    server->conn_count--;
    free((void *)conn->peer.cert_orgs);
    free(conn->subject);
    free(conn);
}

/* Whether requests that wait must go on waiting. */
static bool throttled(const struct connection *conn)
{
    return conn->line >= HTTP_PIPELINE_MAX || conn->unsent > HTTP_OUT_PAUSE;
}

static bool wants_input(const struct connection *conn)
{
    if (conn->failed || conn->eof)
        return false;
    switch (conn->input) {
    case INPUT_HEAD:
        return !throttled(conn);
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

/* What stands in a complete head, as an exchange. */
static void head_complete(struct connection *conn, const char *data, size_t len)
{
    struct http_server *server = conn->server;
    struct http_head *head = &server->head;
    struct exchange *ex = http_exchange_new(conn);
    const char *why = NULL;
    int status;

    conn->fresh = false;
    status = http_parse_request(arena_strndup(&ex->arena, data, len), len, head, &why);
    ex->req.method = head->method;
    ex->req.path = head->path;
    ex->req.query = head->query;
    ex->head_only = streq(head->method, "HEAD");
    ex->old = head->minor == 0;
    if (status == 0 && conn->refused)
        status = 503, why = "too many connections";
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
    struct http_server *server = ex->conn->server;

    if (data.len > server->config.body_max - ex->body.len) {
        http_exchange_refuse(ex, 413, "the body is too large");
        return false;
    }
    if (data.len > HTTP_BODIES_MAX - server->body_bytes) {
        http_exchange_refuse(ex, 503, "too many large requests at once");
        return false;
    }
    buf_str(&ex->body, data);
    server->body_bytes += data.len;
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

        if (!wants_input(conn))
            return data.len - rest.len;
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

static void read_input(struct connection *conn)
{
    struct http_server *server = conn->server;

    for (int i = 0; i < READS_MAX && wants_input(conn); i++) {
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

static void shake_hands(struct connection *conn)
{
    int result = http_tls_handshake(conn);

    connection_dirty(conn);
    if (result < 0)
        connection_fail(conn, "the TLS handshake failed");
    if (result <= 0)
        return;
    conn->input = INPUT_HEAD;
    conn->head_at = now_of(conn);
    read_input(conn);
}

static uint32_t wanted_events(const struct connection *conn)
{
    uint32_t events = conn->ssl_wants;

    if (wants_input(conn))
        events |= EPOLLIN;
    if (conn->out.bytes > 0)
        events |= EPOLLOUT;
    return events;
}

static int64_t deadline(const struct connection *conn)
{
    const struct http_config *config = &conn->server->config;
    int64_t at = INT64_MAX, head = timeout_ns(config->head_timeout_ms, HTTP_HEAD_TIMEOUT);

    if (conn->lingering)
        return conn->linger_at + HTTP_LINGER_MS * NSEC_PER_MSEC;
    if (conn->input == INPUT_HANDSHAKE ||
        (conn->input == INPUT_HEAD && !throttled(conn) && (conn->in.len > 0 || conn->fresh)))
        at = conn->head_at + head;
    else if (conn->input == INPUT_BODY)
        at = conn->read_at + timeout_ns(config->body_timeout_ms, HTTP_BODY_TIMEOUT);
    else if (conn->input == INPUT_HEAD && conn->line == 0 && conn->unsent == 0)
        at = conn->read_at + timeout_ns(config->idle_timeout_ms, HTTP_IDLE_TIMEOUT);
    if (conn->out.bytes > 0) {
        int64_t write = conn->write_at + timeout_ns(config->write_timeout_ms, HTTP_WRITE_TIMEOUT);

        at = write < at ? write : at;
    }
    return at;
}

static void arm_timer(struct connection *conn)
{
    int64_t at = deadline(conn);

    if (at >= conn->timer_at)
        return;
    conn->timer_at = at;
    loop_timer_set(conn->timer, at - clock_monotonic());
}

static void on_timer(void *arg)
{
    struct connection *conn = arg;
    int64_t write_due;

    conn->timer_at = INT64_MAX;
    if (deadline(conn) > now_of(conn)) {
        arm_timer(conn);
        return;
    }
    write_due = conn->write_at + timeout_ns(conn->server->config.write_timeout_ms, HTTP_WRITE_TIMEOUT);
    if (conn->out.bytes > 0 && write_due <= now_of(conn))
        connection_fail(conn, "the client does not read");
    else if (!conn->lingering && conn->input == INPUT_BODY)
        http_exchange_refuse(conn->last, 408, "the body does not come");
    else if (!conn->lingering && conn->input == INPUT_HEAD && conn->in.len > 0)
        http_exchange_refuse(http_exchange_new(conn), 408, "the head does not come");
    else
        connection_fail(conn, "the connection was idle");
}

static void on_io(void *arg, uint32_t events)
{
    struct connection *conn = arg;

    if (conn->input == INPUT_HANDSHAKE) {
        shake_hands(conn);
        return;
    }
    if (events & EPOLLOUT)
        connection_dirty(conn);
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) || conn->ssl_wants) {
        if (wants_input(conn))
            read_input(conn);
        else if (events & (EPOLLHUP | EPOLLERR))
            connection_fail(conn, "the connection broke");
    }
    if (conn->dirty)
        return; /* http_settle does the rest */
    arm_timer(conn);
    loop_io_set(conn->io, wanted_events(conn));
}

static ssize_t write_plain(struct connection *conn)
{
    struct iovec iov[WRITE_IOVS];
    struct msghdr msg = {.msg_iov = iov};

    for (struct segment *it = conn->out.first; it && msg.msg_iovlen < WRITE_IOVS; it = it->next)
        iov[msg.msg_iovlen++] = (struct iovec){it->buf.data + it->sent, it->buf.len - it->sent};
    return sendmsg(conn->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void write_output(struct connection *conn)
{
    size_t total = 0;

    if (conn->input == INPUT_HANDSHAKE)
        return;
    while (conn->out.bytes > 0 && total < WRITE_MAX) {
        const struct segment *first = conn->out.first;
        ssize_t len = conn->ssl
                          ? http_tls_write(conn, first->buf.data + first->sent, first->buf.len - first->sent)
                          : write_plain(conn);

        if (len < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (len < 0) {
            connection_fail(conn, "the connection broke");
            return;
        }
        total += (size_t)len;
        conn->write_at = now_of(conn);
        http_output_sent(conn, (size_t)len);
        if (!conn->ssl && conn->out.bytes > 0 && total > 0 && conn->out.first->sent > 0)
            return; /* the socket is full */
    }
}

/* Producers that wait for room. They may write again; that is for the next round. */
static void tell_drained(struct connection *conn)
{
    struct exchange *ex = conn->first;

    if (ex && ex->drain && ex->state == EXCHANGE_STREAM && !ex->told && conn->out.bytes <= HTTP_DRAIN_BELOW) {
        void (*drain)(struct http_req * req) = ex->drain;

        ex->drain = NULL;
        drain(&ex->req);
    } else if (conn->input == INPUT_RAW && conn->unsent == 0 && conn->last->handle.wrote) {
        struct http_conn *handle = &conn->last->handle;

        handle->wrote = false;
        if (handle->ops.drained)
            handle->ops.drained(handle->arg);
    }
}

/* Upgrades that could not be: http_upgrade has answered, now its caller hears of it. */
static void tell_refused(struct connection *conn)
{
    struct exchange *ex = conn->first;

    conn->tell_refused = false;
    while (ex) {
        if (!ex->handle.refused || ex->told) {
            ex = ex->next;
            continue;
        }
        http_exchange_gone(ex, "the client did not ask for an upgrade");
        ex = conn->first; /* any of them may be gone now */
    }
}

static void tell_stopping(struct connection *conn)
{
    struct exchange *ex = conn->first;

    conn->stop_told = true;
    while (ex) {
        bool told = ex->told;

        if (ex->state == EXCHANGE_STREAM && !told)
            http_stream_stop(ex);
        else if (ex->state == EXCHANGE_UPGRADED && !told)
            http_exchange_gone(ex, "the server stops");
        else
            told = true;
        ex = told ? ex->next : conn->first; /* any of them may be gone after a call */
    }
}

/* All is answered and sent: is the connection to be closed? */
static bool finished(const struct connection *conn)
{
    if (conn->line > 0 || conn->out.bytes > 0 || conn->lingering)
        return false;
    return conn->close_after || conn->eof ||
           (conn->server->stopping && conn->input == INPUT_HEAD && conn->in.len == 0);
}

/* Closing a socket with unread bytes resets it, and the reset may overtake the answer. So the client
 * is told that nothing more comes, and what it still sends is read for a while. */
static void linger(struct connection *conn)
{
    conn->lingering = true;
    conn->linger_at = now_of(conn);
    conn->input = INPUT_DISCARD;
    buf_done(&conn->in);
    http_tls_close(conn, true);
    conn->ssl_wants = 0;
    shutdown(conn->fd, SHUT_WR);
    read_input(conn);
}

/* Input that had to wait, here or inside TLS where epoll does not see it. */
static void resume_input(struct connection *conn)
{
    if (!wants_input(conn) || conn->input == INPUT_HANDSHAKE)
        return;
    if (conn->in.len > 0) {
        size_t before = conn->in.len, used = use_input(conn, buf_view(&conn->in));

        if (used == before)
            buf_done(&conn->in);
        else if (used > 0)
            buf_drop(&conn->in, used);
    }
    if (conn->ssl && !conn->lingering && http_tls_pending(conn))
        read_input(conn);
}

static void settle(struct connection *conn)
{
    if (conn->server->stopping && !conn->stop_told && !conn->failed)
        tell_stopping(conn);
    if (conn->tell_refused && !conn->failed)
        tell_refused(conn);
    if (!conn->failed && conn->out.bytes > 0)
        write_output(conn);
    if (!conn->failed)
        tell_drained(conn);
    if (!conn->failed)
        resume_input(conn);
    if (!conn->failed && finished(conn)) {
        if (conn->eof)
            conn->failed = "closed";
        else
            linger(conn);
    }
    if (conn->lingering && conn->eof)
        conn->failed = "closed";
    if (conn->failed && !conn->torn)
        tear_down(conn);
    if (conn->torn) {
        while (conn->first && conn->first->state == EXCHANGE_DONE)
            http_exchange_free(conn->first);
        if (!conn->first && !conn->dirty)
            connection_destroy(conn);
        return;
    }
    arm_timer(conn);
    loop_io_set(conn->io, wanted_events(conn));
}

void http_settle(struct http_server *server)
{
    struct connection *conn = server->dirty_first;

    server->dirty_first = server->dirty_last = NULL;
    while (conn) {
        /* Stays what it is: only its own turn here releases a connection. */
        struct connection *next = conn->dirty_next;

        conn->dirty = false;
        settle(conn);
        conn = next;
    }
    if (server->stop_done && (server->conn_count == 0 || server->stop_late)) {
        void (*done)(void *arg) = server->stop_done;

        server->stop_done = NULL;
        done(server->stop_arg); /* may free the server */
    }
}
