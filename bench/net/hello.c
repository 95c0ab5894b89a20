/* hello - the smallest server on net, for measuring: /hello answers at once, /big answers 9 MB, /watch
 * streams nothing, /echo upgrades to an echo of bytes.
 *
 *     hello 127.0.0.1:8080 [cert.pem key.pem] */
#include "base/mem.h"
#include "net/http.h"

#include <stdio.h>

#define BIG_BYTES (9 << 20)

struct echo {
    struct http_conn *conn;
};

static void echo_data(void *arg, struct str data)
{
    struct echo *echo = arg;

    http_conn_write(echo->conn, data);
    if (http_conn_unsent(echo->conn) > 1 << 20)
        http_conn_pause(echo->conn, true);
}

static void echo_drained(void *arg)
{
    struct echo *echo = arg;

    http_conn_pause(echo->conn, false);
}

static void echo_closed(void *arg, const char *why)
{
    struct echo *echo = arg;

    (void)why;
    http_conn_close(echo->conn);
}

static const struct http_conn_ops echo_ops = {echo_data, echo_drained, echo_closed};

static void handle(void *arg, struct http_req *req)
{
    struct echo *echo;
    struct buf big = {0};

    (void)arg;
    if (streq(req->path, "/watch")) {
        req->gone = http_abandon;
        http_stream_begin(req, 200, "text/plain", NULL, 0);
    } else if (streq(req->path, "/echo")) {
        echo = arena_zalloc(req->arena, sizeof(*echo));
        echo->conn = http_upgrade(req, "echo", NULL, 0, &echo_ops, echo);
    } else if (streq(req->path, "/big")) {
        memset(buf_reserve(&big, BIG_BYTES), 'x', BIG_BYTES);
        big.len = BIG_BYTES;
        http_reply_buf(req, 200, "text/plain", NULL, 0, &big);
    } else {
        http_reply(req, 200, "text/plain", NULL, 0, STR("hello, world\n"));
    }
}

int main(int argc, char **argv)
{
    CLEANUP(loop_free) struct loop *loop = loop_new();
    struct http_server *server =
        http_server_new(loop, &(struct http_config){.conns_max = 50000}, handle, NULL);
    struct http_tls *tls = NULL;
    struct err err = {0};

    if (argc != 2 && argc != 4) {
        fprintf(stderr, "usage: hello ADDR [CERT KEY]\n");
        return 2;
    }
    if ((argc == 4 && http_tls_new(argv[2], argv[3], NULL, &tls, &err) < 0) ||
        http_listen_tcp(server, argv[1], tls, &err) < 0 || loop_run(loop, &err) < 0) {
        fprintf(stderr, "hello: %s\n", err.msg);
        return 1;
    }
    return 0;
}
