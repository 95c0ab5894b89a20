#include "net/test/fixture.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>

#define BIG_BYTES (9 << 20)

static struct fixture *current; /* `gone` has no argument of its own */

static void on_gone(struct http_req *req)
{
    current->gone++;
    for (size_t i = 0; i < current->held_count; i++)
        if (current->held[i] == req)
            current->held[i] = NULL;
    http_abandon(req);
}

static void on_data(void *arg, struct str data)
{
    struct fixture *f = arg;

    buf_str(&f->upgraded_got, data);
    http_conn_write(f->upgraded, data);
}

static void on_drained(void *arg)
{
    struct fixture *f = arg;

    f->drained++;
}

static void on_closed(void *arg, const char *why)
{
    struct fixture *f = arg;

    snprintf(f->closed, sizeof(f->closed), "%s", why);
    http_conn_close(f->handles[f->refusals++]);
}

static void hold(struct fixture *f, struct http_req *req)
{
    assert_true(f->held_count < HELD_MAX);
    f->held[f->held_count++] = req;
}

static void echo(struct http_req *req)
{
    CLEANUP(buf_done) struct buf text = {0};

    buf_printf(&text, "%s %s ?%s [", req->method, req->path, req->query);
    buf_str(&text, req->body);
    buf_putc(&text, ']');
    http_reply_buf(req, 200, "text/plain", NULL, 0, &text);
}

void fixture_upgrade(struct fixture *f, struct http_req *req)
{
    static const struct http_conn_ops ops = {on_data, on_drained, on_closed};
    const struct http_header header = {"X-A", "b\r\nX-Evil: 1"};

    assert_true(f->upgrades < ARRAY_LEN(f->handles));
    f->upgraded = http_upgrade(req, "echo", &header, 1, &ops, f);
    f->handles[f->upgrades++] = f->upgraded;
}

void fixture_handle(void *arg, struct http_req *req)
{
    struct fixture *f = arg;
    struct buf big = {0};

    f->requests++;
    snprintf(f->peer, sizeof(f->peer), "%s|%s|%s|%s", req->peer->address, req->peer->tls ? "tls" : "plain",
             req->peer->cert_cn ? req->peer->cert_cn : "-",
             req->peer->cert_orgs && req->peer->cert_orgs[0] ? req->peer->cert_orgs[0] : "-");
    if (streq(req->path, "/hello")) {
        http_reply(req, 200, "text/plain", NULL, 0, STR("hello"));
    } else if (streq(req->path, "/hold")) {
        req->gone = on_gone;
        hold(f, req);
    } else if (streq(req->path, "/quiet")) {
        hold(f, req);
    } else if (streq(req->path, "/stream")) {
        req->gone = on_gone;
        http_stream_begin(req, 200, "text/plain", NULL, 0);
        hold(f, req);
    } else if (streq(req->path, "/big")) {
        memset(buf_reserve(&big, BIG_BYTES), 'x', BIG_BYTES);
        big.len = BIG_BYTES;
        http_reply_buf(req, 200, "text/plain", NULL, 0, &big);
        assert_null(big.data);
    } else if (streq(req->path, "/upgrade")) {
        if (f->upgrade_later)
            hold(f, req);
        else
            fixture_upgrade(f, req);
    } else {
        echo(req);
    }
}

struct fixture *fixture_new(const struct http_config *config)
{
    struct fixture *f = NEW(struct fixture);

    current = f;
    f->fd = -1;
    f->loop = loop_new();
    f->server = http_server_new(f->loop, config, fixture_handle, f);
    fixture_connect(f);
    return f;
}

void fixture_free(struct fixture *f)
{
    http_server_free(f->server);
    loop_free(f->loop);
    fd_close(f->fd);
    buf_done(&f->got);
    buf_done(&f->upgraded_got);
    free(f);
}

void fixture_connect(struct fixture *f)
{
    int fds[2];

    fd_close(f->fd);
    buf_clear(&f->got);
    f->eof = false;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    f->fd = fds[0];
    f->conn = connection_new(f->server, fds[1], NULL);
}

void fixture_send(struct fixture *f, struct str data)
{
    while (data.len > 0) {
        ssize_t len = send(f->fd, data.s, data.len, MSG_NOSIGNAL);

        if (len < 0 && errno == EAGAIN) {
            loop_turn(f->loop, 0, NULL);
            continue;
        }
        if (len < 0)
            return; /* the server has closed; the test looks at the answer */
        data = (struct str){data.s + len, data.len - (size_t)len};
    }
}

static void drop_dates(struct buf *text)
{
    char *at;

    while (text->len > 0 && (at = memmem(text->data, text->len < 4096 ? text->len : 4096, "Date: ", 6))) {
        char *end = strstr(at, "\r\n");

        if (!end)
            return;
        end += 2;
        memmove(at, end, (size_t)(text->data + text->len - end) + 1);
        text->len -= (size_t)(end - at);
    }
}

static bool receive(struct fixture *f)
{
    ssize_t len = recv(f->fd, buf_reserve(&f->got, 64 << 10), 64 << 10, 0);

    if (len > 0)
        f->got.len += (size_t)len;
    f->got.data[f->got.len] = '\0';
    f->eof |= len == 0;
    return len > 0;
}

void fixture_turn(struct fixture *f)
{
    for (int idle = 0; idle < 4;) {
        assert_int_equal(loop_turn(f->loop, 0, NULL), 0);
        idle = receive(f) ? 0 : idle + 1;
    }
    drop_dates(&f->got);
}

void fixture_expect(struct fixture *f, const char *text)
{
    fixture_turn(f);
    assert_string_equal(f->got.data ? f->got.data : "", text);
    buf_clear(&f->got);
}

void fixture_ask(struct fixture *f, const char *request, const char *answer)
{
    fixture_send(f, str_from(request));
    fixture_expect(f, answer);
}
