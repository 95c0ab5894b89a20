#include "engine/local/ask.h"

#include "engine/local/grpc.h"
#include "engine/local/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/ssl.h>
#include <strings.h>
#include <sys/socket.h>

struct ask {
    struct loop *loop;
    struct dial *dial;
    struct loop_io *io;
    int fd;
    SSL_CTX *tls;
    SSL *ssl;
    bool https, shaken, plain; /* plain: a connection will do */
    bool is_grpc;
    struct grpc grpc;
    struct buf out, in;
    size_t sent;
    ask_fn fn;
    void *arg;
};

static void ask_free(struct ask *ask)
{
    dial_cancel(ask->dial);
    loop_io_free(ask->io);
    SSL_free(ask->ssl);
    SSL_CTX_free(ask->tls);
    fd_close(ask->fd);
    grpc_done(&ask->grpc);
    buf_done(&ask->out);
    buf_done(&ask->in);
    free(ask);
}

static void conclude(struct ask *ask, const char *why)
{
    ask_fn fn = ask->fn;
    void *arg = ask->arg;
    CLEANUP(free) char *text = why ? mem_strdup(why) : NULL;

    ask_free(ask);
    fn(arg, text);
}

/* ---- bytes ---- */

enum { AGAIN = -1, BROKEN = -2 };

static int tls_result(struct ask *ask, int n)
{
    int what = SSL_get_error(ask->ssl, n);

    if (n > 0)
        return n;
    if (what == SSL_ERROR_WANT_READ || what == SSL_ERROR_WANT_WRITE) {
        loop_io_set(ask->io, what == SSL_ERROR_WANT_READ ? EPOLLIN : EPOLLOUT);
        return AGAIN;
    }
    return what == SSL_ERROR_ZERO_RETURN ? 0 : BROKEN;
}

static int plain_result(struct ask *ask, ssize_t n, uint32_t wanted)
{
    if (n >= 0)
        return (int)n;
    if (errno != EAGAIN && errno != EINTR)
        return BROKEN;
    loop_io_set(ask->io, wanted);
    return AGAIN;
}

static int put(struct ask *ask)
{
    const char *data = ask->out.data + ask->sent;
    size_t len = ask->out.len - ask->sent;

    if (ask->ssl)
        return tls_result(ask, SSL_write(ask->ssl, data, (int)len));
    return plain_result(ask, send(ask->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT), EPOLLOUT);
}

static int get(struct ask *ask, char *data, size_t len)
{
    if (ask->ssl)
        return tls_result(ask, SSL_read(ask->ssl, data, (int)len));
    return plain_result(ask, recv(ask->fd, data, len, MSG_DONTWAIT), EPOLLIN);
}

/* ---- answers ---- */

/* True: it is over. */
static bool judge_http(struct ask *ask, bool end)
{
    struct str rest = buf_view(&ask->in), line = {0}, version, word;
    int code = 0;
    char why[80];

    if (!end && (!str_split(&rest, '\n', &line) || line.len == ask->in.len))
        return false;
    if (end)
        line = buf_view(&ask->in);
    if (str_split(&line, ' ', &version) && str_split(&line, ' ', &word))
        for (size_t i = 0; i < 3 && i < word.len && word.s[i] >= '0' && word.s[i] <= '9'; i++)
            code = code * 10 + (word.s[i] - '0');
    snprintf(why, sizeof(why), "HTTP probe failed with statuscode: %d", code);
    conclude(ask, code >= 200 && code < 400 ? NULL : why);
    return true;
}

static bool judge_grpc(struct ask *ask, bool end)
{
    switch (grpc_read(&ask->grpc, buf_view(&ask->in), &ask->out)) {
    case GRPC_SERVING:
        conclude(ask, NULL);
        return true;
    case GRPC_NOT:
        conclude(ask, "the gRPC health service does not say SERVING");
        return true;
    case GRPC_BAD:
        conclude(ask, "no answer of a gRPC health service");
        return true;
    default:
        if (end)
            conclude(ask, "the connection was closed before an answer");
        return end;
    }
}

static void ask_on_io(void *arg, uint32_t events)
{
    struct ask *ask = arg;
    char data[4096];
    int n;

    (void)events;
    if (ask->ssl && !ask->shaken) {
        n = tls_result(ask, SSL_connect(ask->ssl));
        if (n == AGAIN)
            return;
        if (n <= 0) {
            conclude(ask, "the TLS handshake failed");
            return;
        }
        ask->shaken = true;
    }
    for (;;) {
        bool end;

        while (ask->sent < ask->out.len) {
            n = put(ask);
            if (n == AGAIN)
                return;
            if (n < 0) {
                conclude(ask, "the request could not be sent");
                return;
            }
            ask->sent += (size_t)n;
        }
        n = get(ask, data, sizeof(data));
        if (n == AGAIN)
            return;
        end = n <= 0 || ask->in.len + (size_t)n > ASK_ANSWER_MAX;
        if (n > 0)
            buf_add(&ask->in, data, (size_t)n);
        if (ask->is_grpc ? judge_grpc(ask, end) : judge_http(ask, end))
            return;
    }
}

/* ---- questions ---- */

static int begin_tls(struct ask *ask)
{
    ask->tls = SSL_CTX_new(TLS_client_method());
    if (!ask->tls)
        return -1;
    SSL_CTX_set_verify(ask->tls, SSL_VERIFY_NONE, NULL);
    ask->ssl = SSL_new(ask->tls);
    return ask->ssl && SSL_set_fd(ask->ssl, ask->fd) == 1 ? 0 : -1;
}

static void dialled(void *arg, int fd, const struct err *err)
{
    struct ask *ask = arg;

    ask->dial = NULL;
    ask->fd = fd;
    if (fd < 0) {
        conclude(ask, err->msg);
    } else if (ask->plain) {
        conclude(ask, NULL);
    } else if (ask->https && begin_tls(ask) < 0) {
        conclude(ask, "no TLS is to be had");
    } else {
        ask->io = loop_io_new(ask->loop, fd, EPOLLIN | EPOLLOUT, ask_on_io, ask);
    }
}

/* What would end a header early is left out: nobody else's header is written by it. */
static void put_clean(struct buf *out, const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text >= ' ')
            buf_putc(out, *text);
}

static void write_host(struct ask *ask, const char *host, uint16_t port)
{
    bool six = strchr(host, ':') && *host != '[';

    buf_puts(&ask->out, six ? "Host: [" : "Host: ");
    put_clean(&ask->out, host);
    buf_printf(&ask->out, "%s:%u\r\n", six ? "]" : "", port);
}

static void write_request(struct ask *ask, const struct json *get, const char *host, uint16_t port)
{
    bool has_host = false;
    const char *path = json_string_or(json_get(get, "path"), "/");

    buf_printf(&ask->out, "GET %s", *path == '/' ? "" : "/");
    for (; *path; path++) /* a blank or a control character would end the line */
        if ((unsigned char)*path > ' ')
            buf_putc(&ask->out, *path);
    buf_puts(&ask->out, " HTTP/1.1\r\n");
    JSON_EACH(json_get(get, "httpHeaders"), it) {
        const char *name = json_string_or(json_get(it, "name"), "");

        has_host = has_host || strcasecmp(name, "Host") == 0;
        put_clean(&ask->out, name);
        buf_puts(&ask->out, ": ");
        put_clean(&ask->out, json_string_or(json_get(it, "value"), ""));
        buf_puts(&ask->out, "\r\n");
    }
    if (!has_host)
        write_host(ask, host, port);
    buf_puts(&ask->out, "User-Agent: kube-probe/1.33\r\nAccept: */*\r\nConnection: close\r\n\r\n");
}

struct ask *ask_new(struct local_pod *pod, const struct ask_what *what, ask_fn fn, void *arg)
{
    struct ask *ask = NEW(struct ask);
    const char *host = what->host ? what->host : "";

    ask->loop = pod->engine->loop;
    ask->fd = -1;
    ask->fn = fn;
    ask->arg = arg;
    ask->plain = !what->http && !what->grpc;
    ask->is_grpc = what->grpc != NULL;
    ask->https = streq(json_string_or(json_get(what->http, "scheme"), "HTTP"), "HTTPS");
    if (what->http)
        write_request(ask, what->http, *host ? host : pod->facts.pod_ip, what->port);
    if (what->grpc)
        grpc_ask(&ask->out, what->grpc);
    ask->dial = *host && !streq(host, pod->facts.pod_ip) ? dial_host(pod, host, what->port, dialled, ask)
                                                         : dial_new(pod, what->port, dialled, ask);
    return ask;
}

void ask_cancel(struct ask *ask)
{
    if (ask)
        ask_free(ask);
}

uint16_t ask_port(const struct json *container, const struct json *port)
{
    const char *name = json_string(port);
    int64_t number = json_int(port, 0);

    JSON_EACH(json_get(container, "ports"), it)
        if (name && streq(json_get_string(it, "name"), name))
            number = json_int(json_get(it, "containerPort"), 0);
    return number > 0 && number < 65536 ? (uint16_t)number : 0;
}
