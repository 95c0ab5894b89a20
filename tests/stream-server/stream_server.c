/* stream_server LOGS SOCKET PKI - berthd's API on an empty store in memory, with pods that are faked by
 * fake_pods, for tests/e2e/test_streams.py. Serves SOCKET, plain HTTP, and HTTPS
 * with PKI/server.crt, server.key and ca.crt. Says "ready: http://ADDR https://ADDR" when it is. Reads lines:
 * `finish POD` ends the container whose log is followed; the end of stdin ends the server. */
#include "api/api.h"
#include "base/mem.h"
#include "fake_pods.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

struct server {
    struct loop *loop;
    struct store *store;
    struct registry *registry;
    struct fake_pods *fake;
    struct api *api;
    struct http_tls *tls;
    struct http_server *http;
    struct loop_io *in;
    struct buf line;
};

static void stopped(void *arg)
{
    struct server *s = arg;

    loop_stop(s->loop);
}

static void on_signal(void *arg, int signo)
{
    struct server *s = arg;

    (void)signo;
    http_server_stop(s->http, 500, stopped, s);
}

static void on_stdin(void *arg, uint32_t events)
{
    struct server *s = arg;
    ssize_t len = read(0, buf_reserve(&s->line, 4096), 4096);
    char *newline;

    (void)events;
    if (len <= 0) {
        loop_io_free(TAKE_PTR(s->in));
        on_signal(s, 0);
        return;
    }
    s->line.len += (size_t)len;
    while ((newline = memchr(s->line.data, '\n', s->line.len))) {
        *newline = '\0';
        if (starts_with(s->line.data, "finish "))
            fake_pods_finish(s->fake, s->line.data + strlen("finish "));
        buf_drop(&s->line, (size_t)(newline + 1 - s->line.data));
    }
}

static int start(struct server *s, const char *logs, const char *socket, const char *pki, struct err *err)
{
    CLEANUP(free) char *cert = mem_printf("%s/server.crt", pki);
    CLEANUP(free) char *key = mem_printf("%s/server.key", pki);
    CLEANUP(free) char *ca = mem_printf("%s/ca.crt", pki);
    struct api_config config = {0};

    s->loop = loop_new();
    if (loop_signal(s->loop, SIGTERM, on_signal, s, err) < 0 ||
        store_open(":memory:", s->loop, &s->store, err) < 0)
        return -1;
    s->registry = registry_new(s->store);
    s->fake = fake_pods_new(s->loop, logs);
    config.loop = s->loop;
    config.registry = s->registry;
    config.pod_ops = fake_pods_ops(s->fake);
    s->api = api_new(&config);
    s->http = http_server_new(s->loop, &(struct http_config){0}, api_handle, s->api);
    if (http_tls_new(cert, key, ca, &s->tls, err) < 0 || http_listen_unix(s->http, socket, 0600, err) < 0 ||
        http_listen_tcp(s->http, "127.0.0.1:0", NULL, err) < 0 ||
        http_listen_tcp(s->http, "127.0.0.1:0", s->tls, err) < 0)
        return -1;
    s->in = loop_io_new(s->loop, 0, EPOLLIN, on_stdin, s);
    printf("ready: http://%s https://%s\n", http_server_addr(s->http, 0), http_server_addr(s->http, 1));
    fflush(stdout);
    return 0;
}

int main(int argc, char **argv)
{
    struct server s = {0};
    struct err err = {0};
    int result;

    if (argc != 4) {
        fputs("Usage: stream_server LOGS SOCKET PKI\n", stderr);
        return 2;
    }
    result = start(&s, argv[1], argv[2], argv[3], &err);
    if (result == 0)
        result = loop_run(s.loop, &err);
    if (result < 0)
        fprintf(stderr, "stream_server: %s\n", err.msg);
    loop_io_free(s.in);
    buf_done(&s.line);
    api_free(s.api);
    http_server_free(s.http);
    http_tls_free(s.tls);
    fake_pods_free(s.fake);
    registry_free(s.registry);
    store_close(s.store);
    loop_free(s.loop);
    return result < 0 ? 1 : 0;
}
