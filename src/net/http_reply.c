/* Exchanges and their answers: the line of a connection, output segments, whole and streamed answers,
 * upgrades. Everything here only queues; http_conn.c sends. */
#include "base/clock.h"
#include "base/mem.h"
#include "net/http_priv.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>
#include <time.h>

static struct exchange *exchange_of(struct http_req *req)
{
    return CONTAINER_OF(req, struct exchange, req);
}

static struct segment *segment_new(struct http_server *server)
{
    struct segment *segment = server->spare_segments;

    if (!segment)
        return NEW(struct segment);
    server->spare_segments = segment->next;
    server->spare_segment_count--;
    segment->next = NULL;
    return segment;
}

static void segment_free(struct http_server *server, struct segment *segment)
{
    bool large = segment->buf.cap > HTTP_TAKE_ABOVE;

    if (segment->buf.cap > 2 * HTTP_SEGMENT ||
        server->spare_segment_count >= (large ? HTTP_SPARE_LARGE_MAX : HTTP_SPARE_MAX)) {
        buf_done(&segment->buf);
        free(segment);
        return;
    }
    buf_clear(&segment->buf);
    segment->sent = 0;
    segment->sealed = false;
    segment->next = server->spare_segments;
    server->spare_segments = segment;
    server->spare_segment_count++;
}

static struct segment *output_push(struct http_server *server, struct output *out)
{
    struct segment *segment = segment_new(server);

    if (out->last)
        out->last->next = segment;
    else
        out->first = segment;
    out->last = segment;
    return segment;
}

void http_output_drop(struct connection *conn, struct output *out)
{
    conn->unsent -= out->bytes;
    while (out->first) {
        struct segment *segment = out->first;

        out->first = segment->next;
        segment_free(conn->server, segment);
    }
    *out = (struct output){0};
}

/* The first len bytes of the connection's output have left. */
void http_output_sent(struct connection *conn, size_t len)
{
    conn->out.bytes -= len;
    conn->unsent -= len;
    while (conn->out.first) {
        struct segment *segment = conn->out.first;
        size_t rest = segment->buf.len - segment->sent;

        if (len < rest) {
            segment->sent += len;
            return;
        }
        len -= rest;
        conn->out.first = segment->next;
        if (!segment->next)
            conn->out.last = NULL;
        segment_free(conn->server, segment);
    }
}

void http_spares_free(struct http_server *server)
{
    while (server->spare_segments) {
        struct segment *segment = server->spare_segments;

        server->spare_segments = segment->next;
        buf_done(&segment->buf);
        free(segment);
    }
    while (server->spare_exchanges) {
        struct exchange *ex = server->spare_exchanges;

        server->spare_exchanges = ex->next;
        arena_done(&ex->arena);
        free(ex);
    }
}

/* Where this exchange writes now. */
static struct output *output_of(struct exchange *ex)
{
    return ex->conn->first == ex ? &ex->conn->out : &ex->out;
}

/* A buffer to append to; the caller reports the bytes with output_added. */
static struct buf *output_tail(struct exchange *ex)
{
    struct output *out = output_of(ex);

    if (!out->last || out->last->sealed || out->last->buf.len >= HTTP_SEGMENT)
        output_push(ex->conn->server, out);
    return &out->last->buf;
}

static void output_added(struct exchange *ex, size_t len)
{
    struct connection *conn = ex->conn;

    if (conn->out.bytes == 0)
        conn->write_at = loop_now(conn->server->loop);
    output_of(ex)->bytes += len;
    conn->unsent += len;
    connection_dirty(conn);
}

static void output_add(struct exchange *ex, struct str data)
{
    buf_str(output_tail(ex), data);
    output_added(ex, data.len);
}

static void output_take(struct exchange *ex, struct buf *data)
{
    struct segment *segment = output_push(ex->conn->server, output_of(ex));
    size_t len = data->len;

    buf_done(&segment->buf);
    segment->buf = *data;
    segment->sealed = true;
    *data = (struct buf){0};
    output_added(ex, len);
}

struct exchange *http_exchange_new(struct connection *conn)
{
    struct http_server *server = conn->server;
    struct exchange *ex = server->spare_exchanges;
    struct arena arena = {0};

    if (ex) {
        server->spare_exchanges = ex->next;
        server->spare_exchange_count--;
        arena = ex->arena;
    } else {
        ex = mem_alloc(sizeof(*ex));
    }
    *ex = (struct exchange){.conn = conn, .arena = arena, .keep_alive = true};
    ex->req.arena = &ex->arena;
    ex->req.peer = &conn->peer;
    ex->req.method = ex->req.path = ex->req.query = "";
    ex->req.body = STR("");
    if (conn->last)
        conn->last->next = ex;
    else
        conn->first = ex;
    conn->last = ex;
    conn->line++;
    http_share_busy(conn);
    return ex;
}

/* Its memory, once it is out of line. */
static void release(struct exchange *ex)
{
    struct http_server *server = ex->conn->server;

    if (ex->req.ended)
        ex->req.ended(&ex->req);
    ex->conn->line--;
    ex->conn->line_bytes -= ex->head_bytes + ex->body.len;
    http_output_drop(ex->conn, &ex->out);
    http_share_body_gone(ex);
    buf_done(&ex->body);
    arena_reset(&ex->arena);
    if (ex->arena.total > HTTP_TAKE_ABOVE || server->spare_exchange_count >= HTTP_SPARE_MAX) {
        arena_done(&ex->arena);
        free(ex);
        return;
    }
    ex->next = server->spare_exchanges;
    server->spare_exchanges = ex;
    server->spare_exchange_count++;
}

void http_exchange_free(struct exchange *ex)
{
    struct connection *conn = ex->conn;
    struct exchange *before = NULL;

    for (struct exchange *it = conn->first; it != ex; it = it->next)
        before = it;
    if (before)
        before->next = ex->next;
    else
        conn->first = ex->next;
    if (conn->last == ex)
        conn->last = before;
    release(ex);
}

/* Moves what the first in line has queued to the connection. */
static void move_up(struct connection *conn)
{
    struct output *from = &conn->first->out;

    if (!from->first)
        return;
    if (conn->out.bytes == 0)
        conn->write_at = loop_now(conn->server->loop);
    if (conn->out.last)
        conn->out.last->next = from->first;
    else
        conn->out.first = from->first;
    conn->out.last = from->last;
    conn->out.bytes += from->bytes;
    *from = (struct output){0};
}

void http_exchange_done(struct exchange *ex)
{
    struct connection *conn = ex->conn;

    if (conn->last == ex && conn->input == INPUT_HOLD)
        conn->input = ex->keep_alive ? INPUT_HEAD : INPUT_DISCARD;
    ex->state = EXCHANGE_DONE;
    ex->req.gone = NULL;
    ex->drain = NULL;
    while ((ex = conn->first) && ex->state == EXCHANGE_DONE) {
        if (!ex->keep_alive)
            conn->close_after = true;
        conn->first = ex->next;
        if (conn->first)
            move_up(conn);
        else
            conn->last = NULL;
        release(ex);
    }
    connection_dirty(conn);
}

void http_exchange_gone(struct exchange *ex, const char *why)
{
    void (*gone)(struct http_req * req) = ex->req.gone;

    ex->told = true;
    ex->req.gone = NULL;
    if (ex->state == EXCHANGE_UPGRADED)
        ex->handle.ops.closed(ex->handle.arg, why);
    else if (gone)
        gone(&ex->req);
}

/* Whether an answer can still reach the client. */
static bool reachable(const struct exchange *ex)
{
    return !ex->told && !ex->conn->failed;
}

static const char *date_now(struct http_server *server)
{
    int64_t second = loop_now(server->loop) / NSEC_PER_SEC;
    time_t wall;
    struct tm tm;

    if (second != server->date_at || !server->date[0]) {
        wall = (time_t)(clock_now() / NSEC_PER_SEC);
        gmtime_r(&wall, &tm);
        strftime(server->date, sizeof(server->date), "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
        server->date_at = second;
    }
    return server->date;
}

/* Control characters would let a value add lines of its own. */
static void add_clean(struct buf *buf, const char *text)
{
    size_t start = buf->len;

    buf_puts(buf, text);
    for (size_t i = start; i < buf->len; i++)
        if ((unsigned char)buf->data[i] < ' ' || buf->data[i] == 0x7f)
            buf->data[i] = ' ';
}

static void add_header(struct buf *buf, const char *name, const char *value)
{
    add_clean(buf, name);
    buf_add(buf, ": ", 2);
    add_clean(buf, value);
    buf_add(buf, "\r\n", 2);
}

static void tell_answered(struct exchange *ex, int status)
{
    void (*answered)(struct http_req * req, int status) = TAKE_PTR(ex->req.answered);

    if (answered)
        answered(&ex->req, status);
}

/* Status line and headers up to those that depend on the kind of answer. */
static void add_head(struct exchange *ex, struct buf *buf, int status, const char *content_type,
                     const struct http_header *headers, size_t header_count)
{
    struct http_server *server = ex->conn->server;

    tell_answered(ex, status);
    if (status == 200)
        buf_str(buf, STR("HTTP/1.1 200 OK\r\n"));
    else
        buf_printf(buf, "HTTP/1.1 %d %s\r\n", status, http_status_text(status));
    buf_puts(buf, date_now(server));
    if (server->server_name)
        add_header(buf, "Server", server->server_name);
    if (content_type)
        add_header(buf, "Content-Type", content_type);
    if (server->config.nosniff) /* logs and values are others' text: no browser may take them for a page */
        buf_str(buf, STR("X-Content-Type-Options: nosniff\r\n"));
    if (ex->req.id)
        add_header(buf, "X-Request-Id", ex->req.id);
    for (size_t i = 0; i < header_count; i++)
        add_header(buf, headers[i].name, headers[i].value);
}

/* A server that stops takes no further request on a connection once its line is answered. */
static void settle_keep_alive(struct exchange *ex)
{
    struct connection *conn = ex->conn;

    if (!conn->server->stopping || conn->last != ex)
        return;
    if (conn->input == INPUT_HOLD || (conn->input == INPUT_HEAD && conn->in.len == 0)) {
        ex->keep_alive = false;
        conn->input = INPUT_DISCARD;
    }
}

static void add_connection(const struct exchange *ex, struct buf *buf)
{
    if (!ex->keep_alive)
        buf_str(buf, STR("Connection: close\r\n"));
    else if (ex->old)
        buf_str(buf, STR("Connection: keep-alive\r\n"));
}

static bool without_body(int status)
{
    return status < 200 || status == 204 || status == 304;
}

/* Queues an answer; `take` is the buffer of a body that may be taken over. */
static void add_answer(struct exchange *ex, int status, const char *content_type,
                       const struct http_header *headers, size_t header_count, struct str body,
                       struct buf *take)
{
    struct buf *buf;
    size_t before;

    settle_keep_alive(ex);
    buf = output_tail(ex);
    before = buf->len;
    add_head(ex, buf, status, content_type, headers, header_count);
    add_connection(ex, buf);
    if (!without_body(status)) {
        buf_str(buf, STR("Content-Length: "));
        buf_int(buf, (int64_t)body.len);
        buf_add(buf, "\r\n", 2);
    }
    buf_add(buf, "\r\n", 2);
    if (ex->head_only || without_body(status))
        body.len = 0;
    if (body.len > 0 && !(take && body.len > HTTP_TAKE_ABOVE)) {
        buf_str(buf, body);
        body.len = 0;
    }
    output_added(ex, buf->len - before);
    if (body.len > 0)
        output_take(ex, take);
}

static void reply(struct http_req *req, int status, const char *content_type,
                  const struct http_header *headers, size_t header_count, struct str body, struct buf *take)
{
    struct exchange *ex = exchange_of(req);

    assert(ex->state <= EXCHANGE_OPEN || ex->told);
    if (reachable(ex))
        add_answer(ex, status, content_type, headers, header_count, body, take);
    http_exchange_done(ex);
}

void http_reply(struct http_req *req, int status, const char *content_type, const struct http_header *headers,
                size_t header_count, struct str body)
{
    reply(req, status, content_type, headers, header_count, body, NULL);
}

void http_reply_buf(struct http_req *req, int status, const char *content_type,
                    const struct http_header *headers, size_t header_count, struct buf *body)
{
    reply(req, status, content_type, headers, header_count, buf_view(body), body);
    buf_done(body);
}

void http_exchange_refuse(struct exchange *ex, int status, const char *why)
{
    const struct http_server *server = ex->conn->server;
    char *text = arena_printf(&ex->arena, "%s: %s\n", http_status_text(status), why);

    if (server->config.refused)
        server->config.refused(server->arg, &ex->req, status, why);
    ex->keep_alive = false;
    ex->conn->input = INPUT_DISCARD;
    http_reply(&ex->req, status, "text/plain; charset=utf-8", NULL, 0, str_from(text));
}

void http_exchange_continue(struct exchange *ex)
{
    output_add(ex, STR("HTTP/1.1 100 Continue\r\n\r\n"));
}

bool http_is_first(struct http_req *req)
{
    return exchange_of(req)->conn->first == exchange_of(req);
}

void http_cut(struct http_req *req, const char *why)
{
    connection_fail(exchange_of(req)->conn, why);
}

void http_abandon(struct http_req *req)
{
    struct exchange *ex = exchange_of(req);

    if (reachable(ex))
        connection_fail(ex->conn, "the request was abandoned");
    http_exchange_done(ex);
}

void http_stream_begin(struct http_req *req, int status, const char *content_type,
                       const struct http_header *headers, size_t header_count)
{
    struct exchange *ex = exchange_of(req);
    struct buf *buf;
    size_t before;

    assert(ex->state == EXCHANGE_OPEN);
    ex->state = EXCHANGE_STREAM;
    if (!reachable(ex))
        return;
    settle_keep_alive(ex);
    ex->quiet = ex->head_only || without_body(status);
    ex->chunked_out = !ex->old && !without_body(status);
    if (ex->old) {
        ex->keep_alive = false; /* the end of the connection is the end of the answer */
        ex->conn->input = INPUT_DISCARD;
    }
    buf = output_tail(ex);
    before = buf->len;
    add_head(ex, buf, status, content_type, headers, header_count);
    add_connection(ex, buf);
    if (ex->chunked_out)
        buf_str(buf, STR("Transfer-Encoding: chunked\r\n"));
    buf_add(buf, "\r\n", 2);
    output_added(ex, buf->len - before);
}

/* What one turn writes at once is nobody's slowness: no socket has refused it yet. */
static void count_burst(struct exchange *ex, size_t len)
{
    int64_t now = loop_now(ex->conn->server->loop);

    if (output_of(ex)->bytes == 0) {
        ex->burst = 0;
        ex->burst_at = now;
    }
    if (ex->burst_at == now)
        ex->burst += len;
}

void http_stream_write(struct http_req *req, struct str data)
{
    struct exchange *ex = exchange_of(req);
    struct buf *buf;
    size_t before;

    assert(ex->state == EXCHANGE_STREAM);
    if (!reachable(ex) || ex->quiet || data.len == 0)
        return;
    count_burst(ex, data.len);
    buf = output_tail(ex);
    before = buf->len;
    if (ex->chunked_out)
        buf_printf(buf, "%zx\r\n", data.len);
    buf_str(buf, data);
    if (ex->chunked_out)
        buf_add(buf, "\r\n", 2);
    output_added(ex, buf->len - before);
    if (ex->burst_at != loop_now(ex->conn->server->loop) &&
        output_of(ex)->bytes > HTTP_STREAM_BUF_MAX + ex->burst)
        connection_fail(ex->conn, "the client reads too slowly");
}

size_t http_stream_unsent(const struct http_req *req)
{
    return output_of(exchange_of((struct http_req *)req))->bytes;
}

void http_stream_on_drain(struct http_req *req, void (*fn)(struct http_req *req))
{
    struct exchange *ex = exchange_of(req);

    ex->drain = fn;
    connection_dirty(ex->conn);
}

static void stream_finish(struct exchange *ex)
{
    if (reachable(ex) && ex->chunked_out && !ex->quiet)
        output_add(ex, STR("0\r\n\r\n"));
}

void http_stream_end(struct http_req *req)
{
    struct exchange *ex = exchange_of(req);

    assert(ex->state == EXCHANGE_STREAM);
    settle_keep_alive(ex);
    stream_finish(ex);
    http_exchange_done(ex);
}

void http_stream_stop(struct exchange *ex)
{
    stream_finish(ex);
    ex->keep_alive = false;
    ex->conn->input = INPUT_DISCARD;
    http_exchange_gone(ex, "the server stops");
}

struct http_conn *http_upgrade(struct http_req *req, const char *protocol, const struct http_header *headers,
                               size_t header_count, const struct http_conn_ops *ops, void *arg)
{
    struct exchange *ex = exchange_of(req);
    struct connection *conn = ex->conn;
    struct buf *buf;
    size_t before;

    assert(ex->state == EXCHANGE_OPEN);
    ex->handle = (struct http_conn){.ops = *ops, .arg = arg};
    ex->req.gone = NULL;
    if (!reachable(ex)) {
        ex->told = false; /* of that, http_settle tells by `closed` */
        conn->torn = false;
        ex->state = EXCHANGE_UPGRADED;
        connection_dirty(conn);
        return &ex->handle;
    }
    if (conn->last != ex || conn->input != INPUT_HOLD) {
        add_answer(ex, 400, "text/plain; charset=utf-8", NULL, 0,
                   STR("Bad Request: Connection: Upgrade and an Upgrade header are needed\n"), NULL);
        ex->handle.refused = conn->tell_refused = true;
        ex->state = EXCHANGE_UPGRADED;
        return &ex->handle;
    }
    ex->state = EXCHANGE_UPGRADED;
    ex->keep_alive = false;
    conn->input = INPUT_RAW;
    tell_answered(ex, 101);
    buf = output_tail(ex);
    before = buf->len;
    buf_str(buf, STR("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"));
    add_header(buf, "Upgrade", protocol);
    if (ex->req.id)
        add_header(buf, "X-Request-Id", ex->req.id);
    for (size_t i = 0; i < header_count; i++)
        add_header(buf, headers[i].name, headers[i].value);
    buf_add(buf, "\r\n", 2);
    output_added(ex, buf->len - before);
    return &ex->handle;
}

static struct exchange *exchange_of_handle(const struct http_conn *handle)
{
    return CONTAINER_OF(handle, struct exchange, handle);
}

void http_conn_write(struct http_conn *handle, struct str data)
{
    struct exchange *ex = exchange_of_handle(handle);

    if (ex->conn->failed || handle->refused || data.len == 0)
        return;
    output_add(ex, data);
    handle->wrote = true;
}

size_t http_conn_unsent(const struct http_conn *handle)
{
    return exchange_of_handle(handle)->conn->unsent;
}

void http_conn_pause(struct http_conn *handle, bool paused)
{
    struct exchange *ex = exchange_of_handle(handle);

    if (handle->refused)
        return;
    ex->conn->paused = paused;
    connection_dirty(ex->conn);
}

void http_conn_close(struct http_conn *handle)
{
    struct exchange *ex = exchange_of_handle(handle);

    assert(ex->state == EXCHANGE_UPGRADED);
    if (!handle->refused) {
        ex->conn->paused = false;
        ex->conn->input = INPUT_DISCARD;
    }
    http_exchange_done(ex);
}
