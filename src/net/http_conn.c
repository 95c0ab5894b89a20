/* One connection: its life from accept to close, what it sends, its timeouts.
 *
 * A timer is not moved with every byte. It is armed for the nearest deadline and, when it fires, looks
 * at what the deadline is by then. */
#include "base/clock.h"
#include "base/mem.h"
#include "net/http_priv.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define WRITE_IOVS 32 /* segments sent at once */

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
    conn->read_at = conn->head_at = conn->body_at = conn->write_at = clock_monotonic();
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
    http_share_leave(conn);
    free((void *)conn->peer.cert_orgs);
    free(conn->subject);
    free(conn);
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
    http_read_input(conn);
}

/* Bytes that have not been given to the kernel yet. */
static size_t unwritten(const struct connection *conn)
{
    return conn->out.bytes + http_tls_held(conn);
}

static uint32_t wanted_events(const struct connection *conn)
{
    uint32_t events = conn->ssl_wants;

    if (http_wants_input(conn))
        events |= EPOLLIN;
    if (unwritten(conn) > 0)
        events |= EPOLLOUT;
    return events;
}

/* When a client that does not read is cut off. Whoever follows a stream may stop reading for a while (a
 * pager, Ctrl-S): its producer waits, and TCP's keep-alive notices when nobody is there. */
static int64_t write_deadline(const struct connection *conn)
{
    const struct exchange *first = conn->first;

    if (unwritten(conn) == 0 || conn->input == INPUT_RAW || (first && first->state == EXCHANGE_STREAM))
        return INT64_MAX;
    return conn->write_at + timeout_ns(conn->server->config.write_timeout_ms, HTTP_WRITE_TIMEOUT);
}

/* When a body is given up: no byte for a while, or too few of them in all that time. */
static int64_t body_deadline(const struct connection *conn)
{
    int64_t wait = timeout_ns(conn->server->config.body_timeout_ms, HTTP_BODY_TIMEOUT);
    int64_t slow = (int64_t)(conn->last->body.len / HTTP_BODY_RATE) * NSEC_PER_SEC;

    return conn->read_at < conn->body_at + slow ? conn->read_at + wait : conn->body_at + slow + wait;
}

static int64_t deadline(const struct connection *conn)
{
    const struct http_config *config = &conn->server->config;
    int64_t at = INT64_MAX, head = timeout_ns(config->head_timeout_ms, HTTP_HEAD_TIMEOUT);

    if (conn->lingering)
        return conn->linger_at + HTTP_LINGER_MS * NSEC_PER_MSEC;
    if (conn->input == INPUT_HANDSHAKE || (conn->input == INPUT_HEAD && !http_throttled(conn) &&
                                           !conn->held && (conn->in.len > 0 || conn->fresh)))
        at = conn->head_at + head;
    else if (conn->input == INPUT_BODY)
        at = body_deadline(conn);
    else if (conn->input == INPUT_HEAD && conn->line == 0 && conn->unsent == 0)
        at = conn->read_at + timeout_ns(config->idle_timeout_ms, HTTP_IDLE_TIMEOUT);
    return write_deadline(conn) < at ? write_deadline(conn) : at;
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

    conn->timer_at = INT64_MAX;
    if (deadline(conn) > now_of(conn)) {
        arm_timer(conn);
        return;
    }
    if (write_deadline(conn) <= now_of(conn))
        connection_fail(conn, "the client does not read");
    else if (!conn->lingering && conn->input == INPUT_BODY)
        http_exchange_refuse(conn->last, 408, "the body does not come, or comes too slowly");
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
        if (http_wants_input(conn))
            http_read_input(conn);
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

/* -1: the connection is broken. */
static int send_plain(struct connection *conn)
{
    while (conn->out.bytes > 0) {
        ssize_t len = write_plain(conn);

        if (len < 0)
            return errno == EAGAIN || errno == EINTR ? 0 : -1;
        http_output_sent(conn, (size_t)len);
        if (conn->out.bytes > 0 && conn->out.first->sent > 0)
            return 0; /* the socket is full */
    }
    return 0;
}

static void write_output(struct connection *conn)
{
    size_t before = unwritten(conn);

    if (before == 0 || conn->input == INPUT_HANDSHAKE)
        return;
    if ((conn->ssl ? http_tls_send(conn) : send_plain(conn)) < 0)
        connection_fail(conn, "the connection broke");
    if (unwritten(conn) < before)
        conn->write_at = now_of(conn);
}

/* Producers that wait for room. They may write again; that is for the next round. */
static void tell_drained(struct connection *conn)
{
    struct exchange *ex = conn->first;

    if (ex && ex->drain && ex->state == EXCHANGE_STREAM && !ex->told && conn->out.bytes <= HTTP_DRAIN_BELOW) {
        void (*drain)(struct http_req * req) = ex->drain;

        ex->drain = NULL;
        drain(&ex->req);
    } else if (conn->input == INPUT_RAW && conn->last->handle.wrote && conn->unsent == 0 &&
               unwritten(conn) == 0) {
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
    if (conn->line > 0 || conn->lingering || unwritten(conn) > 0)
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
    http_read_input(conn);
}

static void settle(struct connection *conn)
{
    if (conn->server->stopping && !conn->stop_told && !conn->failed)
        tell_stopping(conn);
    if (conn->tell_refused && !conn->failed)
        tell_refused(conn);
    if (!conn->failed)
        write_output(conn);
    if (!conn->failed)
        tell_drained(conn);
    if (!conn->failed)
        http_resume_input(conn);
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
    http_share_settle(conn);
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
