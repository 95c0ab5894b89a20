/* A whole connection: the bytes are served twice, once in one piece and once cut as the first byte
 * says, and both times the same answers must come. Handlers by the path's first letter: h is answered
 * at the end, s streams, u upgrades to an echo; everything else is echoed. */
#include "net/http_priv.h"

#include <stdlib.h>
#include <sys/socket.h>

#define INPUT_MAX (64 << 10)
#define HELD_MAX  1024

struct upgrade {
    struct http_conn *conn;
};

struct run {
    struct loop *loop;
    struct http_server *server;
    struct http_req *held[HELD_MAX];
    size_t held_count;
    struct buf got;
    int fd;
};

static void on_data(void *arg, struct str data)
{
    struct upgrade *upgrade = arg;

    http_conn_write(upgrade->conn, data);
}

static void on_closed(void *arg, const char *why)
{
    struct upgrade *upgrade = arg;

    (void)why;
    http_conn_close(upgrade->conn);
}

static void echo(struct http_req *req)
{
    struct buf text = {0};

    buf_printf(&text, "%s %s?%s", req->method, req->path, req->query);
    for (size_t i = 0; i < req->header_count; i++)
        buf_printf(&text, "\n%s: %s", req->headers[i].name, req->headers[i].value);
    buf_putc(&text, '\n');
    buf_str(&text, req->body);
    ((char *)req->body.s)[req->body.len] = '\0';
    http_query(req, "a", 1);
    http_reply_buf(req, 200, http_req_header(req, "accept"), NULL, 0, &text);
}

static void handle(void *arg, struct http_req *req)
{
    static const struct http_conn_ops ops = {on_data, NULL, on_closed};
    struct run *run = arg;
    char kind = req->path[0] ? req->path[1] : '\0';

    if (kind == 'h' && run->held_count < HELD_MAX) {
        run->held[run->held_count++] = req;
    } else if (kind == 's') {
        http_stream_begin(req, 200, NULL, NULL, 0);
        http_stream_write(req, req->body);
        http_stream_write(req, STR("x"));
        http_stream_end(req);
    } else if (kind == 'u' && http_req_header(req, "upgrade")) {
        struct upgrade *upgrade = arena_zalloc(req->arena, sizeof(*upgrade));

        upgrade->conn = http_upgrade(req, "x", req->headers, req->header_count, &ops, upgrade);
    } else {
        echo(req);
    }
}

static void turn(struct run *run)
{
    for (int idle = 0; idle < 3;) {
        ssize_t len;

        loop_turn(run->loop, 0, NULL);
        len = recv(run->fd, buf_reserve(&run->got, INPUT_MAX), INPUT_MAX, MSG_DONTWAIT);
        idle = len > 0 ? 0 : idle + 1;
        run->got.len += len > 0 ? (size_t)len : 0;
    }
}

static void send_piece(struct run *run, struct str data)
{
    while (data.len > 0) {
        ssize_t len = send(run->fd, data.s, data.len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (len < 0)
            return; /* closed after an error answer */
        data = (struct str){data.s + len, data.len - (size_t)len};
    }
}

/* The seconds may differ between the two runs. */
static void blank_dates(struct buf *text)
{
    size_t left;

    for (char *at = text->data; at; at++) {
        left = text->len - (size_t)(at - text->data);
        at = memmem(at, left, "\nDate: ", 7);
        if (!at)
            return;
        left = text->len - (size_t)(at - text->data) - 7;
        memset(at + 7, '-', left < 29 ? left : 29);
    }
}

static void serve(struct run *run, struct str data, unsigned cut)
{
    int fds[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0)
        abort();
    run->fd = fds[0];
    connection_new(run->server, fds[1], NULL);
    while (data.len > 0) {
        size_t len = cut ? 1 + (cut * 7919 + data.len) % cut : data.len;

        len = len < data.len ? len : data.len;
        send_piece(run, (struct str){data.s, len});
        data = (struct str){data.s + len, data.len - len};
        loop_turn(run->loop, 0, NULL);
    }
    turn(run);
    while (run->held_count > 0) {
        for (; run->held_count > 0; run->held_count--)
            echo(run->held[run->held_count - 1]);
        turn(run);
    }
    shutdown(run->fd, SHUT_WR);
    turn(run);
    fd_close(run->fd);
    for (int i = 0; i < 3; i++)
        loop_turn(run->loop, 0, NULL);
    if (run->server->conn_count > 0)
        abort();
    blank_dates(&run->got);
}

/* One server for all inputs: making one costs more than most of them. */
static void need_server(struct run *run)
{
    if (run->loop)
        return;
    run->loop = loop_new();
    run->server = http_server_new(run->loop, &(struct http_config){.body_max = 4096}, handle, run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct run whole, pieces;
    struct str bytes = {(const char *)data + 1, size - 1};

    if (size < 1 || size > INPUT_MAX)
        return 0;
    need_server(&whole);
    need_server(&pieces);
    serve(&whole, bytes, 0);
    serve(&pieces, bytes, 1 + data[0] % 64);
    if (!str_eq(buf_view(&whole.got), buf_view(&pieces.got)))
        abort();
    buf_done(&whole.got);
    buf_done(&pieces.got);
    return 0;
}
