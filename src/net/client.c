/* A blocking client: the socket has receive and send timeouts, TLS works on top of it. The connection
 * is kept and used again; when the server has closed it meanwhile, which shows as a readable socket
 * before anything was asked, a new one is made. */
#include "net/client.h"

#include "base/mem.h"
#include "net/http_parse.h"
#include "net/tls_bio.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>

#define TIMEOUT_SEC      30
#define CLIENT_BODY_MAX  ((size_t)1 << 30) /* bytes of an answer that is read as a whole */
#define CLIENT_READ_SIZE (64 << 10)

struct client {
    char *url, *host, *port, *path; /* path: of a unix socket; host without brackets */
    char *ca_path, *cert_path, *key_path, *token;
    bool tls, bad_url;
    int timeout_sec;
    int fd;
    SSL_CTX *ctx;
    SSL *ssl;
    struct buf in; /* bytes read but not used */
    char *head;    /* of the last answer; its headers point into it */
    struct http_head *parsed;
    bool reused; /* this connection has carried an answer before */
};

/* "scheme://host:port" into its parts. */
static void parse_url(struct client *client)
{
    const char *rest = client->url, *colon;
    size_t len;

    if (starts_with(rest, "unix:")) {
        rest += 5;
        while (rest[0] == '/' && rest[1] == '/')
            rest++; /* unix:///run/x */
        client->path = mem_strdup(rest);
        client->host = mem_strdup("localhost");
        return;
    }
    client->tls = starts_with(rest, "https://");
    if (!client->tls && !starts_with(rest, "http://")) {
        client->bad_url = true;
        return;
    }
    rest += client->tls ? 8 : 7;
    len = strcspn(rest, "/?#");
    colon = memrchr(rest, ':', len);
    if (rest[0] == '[') {
        const char *end = memchr(rest, ']', len);

        if (!end) {
            client->bad_url = true;
            return;
        }
        client->host = mem_strndup(rest + 1, (size_t)(end - rest) - 1);
        colon = end[1] == ':' ? end + 1 : NULL;
    } else {
        client->host = mem_strndup(rest, colon ? (size_t)(colon - rest) : len);
    }
    client->port = colon ? mem_strndup(colon + 1, len - (size_t)(colon + 1 - rest))
                         : mem_strdup(client->tls ? "443" : "80");
    client->bad_url = !client->host[0] || !client->port[0];
}

struct client *client_new(const struct client_config *config)
{
    struct client *client = NEW(struct client);

    client->url = mem_strdup(config->url ? config->url : "");
    client->ca_path = mem_strdup(config->ca_path);
    client->cert_path = mem_strdup(config->cert_path);
    client->key_path = mem_strdup(config->key_path);
    client->token = mem_strdup(config->token);
    client->timeout_sec = config->timeout_sec > 0 ? config->timeout_sec : TIMEOUT_SEC;
    client->parsed = NEW(struct http_head);
    client->fd = -1;
    parse_url(client);
    return client;
}

static void disconnect(struct client *client)
{
    if (client->ssl) {
        SSL_shutdown(client->ssl);
        SSL_free(TAKE_PTR(client->ssl));
        ERR_clear_error();
    }
    fd_close(take_fd(&client->fd));
    buf_clear(&client->in);
    client->reused = false;
}

void client_free(struct client *client)
{
    if (!client)
        return;
    disconnect(client);
    SSL_CTX_free(client->ctx);
    buf_done(&client->in);
    free(client->url);
    free(client->host);
    free(client->port);
    free(client->path);
    free(client->ca_path);
    free(client->cert_path);
    free(client->key_path);
    free(client->token);
    free(client->head);
    free(client->parsed);
    free(client);
}

void client_answer_done(struct client_answer *answer)
{
    buf_done(&answer->body);
}

static int tls_error(const struct client *client, struct err *err, const char *what)
{
    char text[256] = "unknown error";
    unsigned long code = ERR_peek_last_error();
    long verify = client->ssl ? SSL_get_verify_result(client->ssl) : X509_V_OK;

    if (verify != X509_V_OK)
        snprintf(text, sizeof(text), "%s", X509_verify_cert_error_string(verify));
    else if (code)
        ERR_error_string_n(code, text, sizeof(text));
    ERR_clear_error();
    return err_set(err, ERR_UNAVAILABLE, "%s: %s: %s", client->url, what, text);
}

/* The context is made once: it reads files. */
static int make_context(struct client *client, struct err *err)
{
    if (client->ctx)
        return 0;
    client->ctx = SSL_CTX_new(TLS_client_method());
    if (!client->ctx)
        return err_set(err, ERR_INTERNAL, "no TLS context");
    SSL_CTX_set_min_proto_version(client->ctx, TLS1_2_VERSION);
    SSL_CTX_set_options(client->ctx, SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_verify(client->ctx, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_alpn_protos(client->ctx, (const unsigned char *)"\x08http/1.1", 9);
    if ((client->ca_path ? SSL_CTX_load_verify_locations(client->ctx, client->ca_path, NULL)
                         : SSL_CTX_set_default_verify_paths(client->ctx)) != 1)
        return tls_error(client, err, "certificates of authorities");
    if (client->cert_path && SSL_CTX_use_certificate_chain_file(client->ctx, client->cert_path) != 1)
        return tls_error(client, err, "client certificate");
    if (client->cert_path &&
        SSL_CTX_use_PrivateKey_file(client->ctx, client->key_path ? client->key_path : client->cert_path,
                                    SSL_FILETYPE_PEM) != 1)
        return tls_error(client, err, "client key");
    return 0;
}

static int start_tls(struct client *client, struct err *err)
{
    X509_VERIFY_PARAM *param;
    BIO *bio = tls_bio_new(client->fd);

    client->ssl = bio ? SSL_new(client->ctx) : NULL;
    if (!client->ssl) {
        BIO_free(bio);
        return err_set(err, ERR_INTERNAL, "no TLS state");
    }
    SSL_set_bio(client->ssl, bio, bio);
    param = SSL_get0_param(client->ssl);
    if (X509_VERIFY_PARAM_set1_ip_asc(param, client->host) != 1) { /* no address, so a name */
        ERR_clear_error();
        X509_VERIFY_PARAM_set1_host(param, client->host, 0);
        SSL_set_tlsext_host_name(client->ssl, client->host);
    }
    if (SSL_connect(client->ssl) != 1)
        return tls_error(client, err, "TLS");
    return 0;
}

/* 0: none. */
static void set_timeout(int fd, int sec)
{
    struct timeval timeout = {.tv_sec = sec};

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)); /* bounds connect, too */
}

static int open_socket(const struct client *client, int family, const void *addr, socklen_t len)
{
    CLEANUP(fd_close) int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;

    if (fd < 0)
        return -1;
    set_timeout(fd, client->timeout_sec);
    if (family != AF_UNIX) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    }
    return connect(fd, addr, len) == 0 ? take_fd(&fd) : -1;
}

static int refused(const struct client *client, int sys, struct err *err)
{
    if (sys == EACCES || sys == EPERM)
        return err_errno(err, sys, "connect to %s", client->url);
    return err_set(err, sys == EINPROGRESS || sys == EAGAIN ? ERR_TIMEOUT : ERR_UNAVAILABLE,
                   "connect to %s: %s", client->url, strerror(sys == EINPROGRESS ? ETIMEDOUT : sys));
}

static int connect_unix(struct client *client, struct err *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};

    if (strlen(client->path) >= sizeof(addr.sun_path))
        return err_set(err, ERR_INVALID, "'%s' is too long for a socket", client->path);
    memcpy(addr.sun_path, client->path, strlen(client->path) + 1);
    client->fd = open_socket(client, AF_UNIX, &addr, sizeof(addr));
    return client->fd < 0 ? refused(client, errno, err) : 0;
}

static int connect_tcp(struct client *client, struct err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *list = NULL;
    int rc = getaddrinfo(client->host, client->port, &hints, &list), saved = ENOENT;

    if (rc != 0)
        return err_set(err, ERR_UNAVAILABLE, "%s: %s", client->url, gai_strerror(rc));
    for (const struct addrinfo *it = list; it && client->fd < 0; it = it->ai_next) {
        client->fd = open_socket(client, it->ai_family, it->ai_addr, it->ai_addrlen);
        saved = errno;
    }
    freeaddrinfo(list);
    if (client->fd < 0)
        return refused(client, saved, err);
    if (client->tls && start_tls(client, err) < 0) {
        disconnect(client);
        return -1;
    }
    return 0;
}

static int need_connection(struct client *client, struct err *err)
{
    struct pollfd poll_fd = {.fd = client->fd, .events = POLLIN | POLLRDHUP};

    if (client->bad_url)
        return err_set(err, ERR_INVALID, "'%s' is no address of a server", client->url);
    /* Nothing was asked, so what comes can only be the end; or, in TLS, a late session ticket. */
    if (client->fd >= 0 && poll(&poll_fd, 1, 0) > 0 &&
        (!client->ssl || (poll_fd.revents & (POLLHUP | POLLERR | POLLRDHUP))))
        disconnect(client);
    if (client->fd >= 0) {
        set_timeout(client->fd, client->timeout_sec);
        return 0;
    }
    if (client->tls && make_context(client, err) < 0)
        return -1;
    return client->path ? connect_unix(client, err) : connect_tcp(client, err);
}

static int timed_out(const struct client *client, struct err *err)
{
    return err_set(err, ERR_TIMEOUT, "%s: nothing for %d seconds", client->url, client->timeout_sec);
}

int client_write(struct client *client, struct str data, struct err *err)
{
    while (data.len > 0) {
        size_t most = data.len < 1 << 30 ? data.len : 1 << 30;
        ssize_t len;

        errno = 0;
        len = client->ssl ? SSL_write(client->ssl, data.s, (int)most)
                          : send(client->fd, data.s, most, MSG_NOSIGNAL);
        if (len <= 0 && !client->ssl && errno == EINTR)
            continue;
        if (len <= 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return timed_out(client, err);
        if (len <= 0) {
            ERR_clear_error();
            return err_set(err, ERR_UNAVAILABLE, "%s: the server has closed the connection", client->url);
        }
        data = (struct str){data.s + len, data.len - (size_t)len};
    }
    return 0;
}

/* Bytes from the connection itself. */
static ssize_t read_some(struct client *client, void *data, size_t len, struct err *err)
{
    for (;;) {
        ssize_t got;

        errno = 0;
        got = client->ssl ? SSL_read(client->ssl, data, len < 1 << 30 ? (int)len : 1 << 30)
                          : recv(client->fd, data, len, 0);
        if (got > 0)
            return got;
        if (client->ssl && SSL_get_error(client->ssl, (int)got) == SSL_ERROR_ZERO_RETURN)
            return 0;
        if (got == 0 && !client->ssl)
            return 0;
        if (errno == EINTR)
            continue;
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return timed_out(client, err);
        if (client->ssl)
            return tls_error(client, err, "read");
        return err_set(err, ERR_UNAVAILABLE, "%s: %s", client->url, strerror(errno));
    }
}

ssize_t client_read(struct client *client, void *data, size_t len, struct err *err)
{
    if (client->in.len > 0) {
        if (len > client->in.len)
            len = client->in.len;
        memcpy(data, client->in.data, len);
        buf_drop(&client->in, len);
        return (ssize_t)len;
    }
    return read_some(client, data, len, err);
}

int client_fd(const struct client *client)
{
    return client->fd;
}

bool client_pending(const struct client *client)
{
    return client->in.len > 0 || (client->ssl && SSL_pending(client->ssl) > 0);
}

bool client_readable(struct client *client)
{
    struct pollfd p = {.fd = client->fd, .events = POLLIN};
    int flags = fcntl(client->fd, F_GETFL), got, why = SSL_ERROR_NONE;
    char byte;

    if (client_pending(client))
        return true;
    if (poll(&p, 1, 0) <= 0 || !client->ssl)
        return p.revents != 0;
    fcntl(client->fd, F_SETFL, flags | O_NONBLOCK);
    got = SSL_peek(client->ssl, &byte, 1);
    if (got <= 0)
        why = SSL_get_error(client->ssl, got);
    fcntl(client->fd, F_SETFL, flags);
    ERR_clear_error();
    return why != SSL_ERROR_WANT_READ && why != SSL_ERROR_WANT_WRITE;
}

/* Adds to client->in; ERR_UNAVAILABLE at the end of the stream. */
static int read_more(struct client *client, struct err *err)
{
    ssize_t got = read_some(client, buf_reserve(&client->in, CLIENT_READ_SIZE), CLIENT_READ_SIZE, err);

    if (got < 0)
        return -1;
    if (got == 0)
        return err_set(err, ERR_UNAVAILABLE, "%s: the server has closed the connection", client->url);
    client->in.len += (size_t)got;
    client->in.data[client->in.len] = '\0';
    return 0;
}

static void add_header(struct buf *out, const char *name, const char *value)
{
    buf_printf(out, "%s: %s\r\n", name, value);
}

static int send_request(struct client *client, const char *method, const char *target,
                        const struct http_header *headers, size_t header_count, struct str body,
                        struct err *err)
{
    CLEANUP(buf_done) struct buf out = {0};
    bool v6 = client->host && strchr(client->host, ':');

    buf_printf(&out, "%s %s HTTP/1.1\r\nHost: %s%s%s", method, target, v6 ? "[" : "", client->host,
               v6 ? "]" : "");
    if (client->port)
        buf_printf(&out, ":%s", client->port);
    buf_puts(&out, "\r\n");
    if (client->token)
        buf_printf(&out, "Authorization: Bearer %s\r\n", client->token);
    for (size_t i = 0; i < header_count; i++)
        add_header(&out, headers[i].name, headers[i].value);
    if (body.len > 0 || streq(method, "POST") || streq(method, "PUT") || streq(method, "PATCH"))
        buf_printf(&out, "Content-Length: %zu\r\n", body.len);
    buf_puts(&out, "\r\n");
    if (body.len < CLIENT_READ_SIZE) {
        buf_str(&out, body); /* one packet */
        body.len = 0;
    }
    if (client_write(client, buf_view(&out), err) < 0)
        return -1;
    return client_write(client, body, err);
}

/* The head of the answer; 1xx answers but 101 are skipped. *silent: not a byte came. */
static int read_head(struct client *client, bool *silent, struct err *err)
{
    const char *why = NULL;
    size_t at = 0;
    ssize_t len;

    *silent = client->in.len == 0;
    for (;;) {
        while ((len = http_scan_head(client->in.data ? client->in.data : "", client->in.len, &at, &why)) ==
               0) {
            if (client->in.len > HTTP_HEAD_MAX)
                return err_set(err, ERR_LIMIT, "%s: the head of the answer is too large", client->url);
            if (read_more(client, err) < 0)
                return -1;
            *silent = false;
        }
        free(client->head);
        client->head = len > 0 ? mem_strndup(client->in.data, (size_t)len) : NULL;
        if (len < 0 || http_parse_answer(client->head, (size_t)len, client->parsed, &why) != 0)
            return err_set(err, ERR_INVALID, "%s: no HTTP answer: %s", client->url, why);
        buf_drop(&client->in, (size_t)len);
        if (client->parsed->status >= 200 || client->parsed->status == 101)
            return 0;
        at = 0;
    }
}

/* Sends and reads the head, on a new connection when the kept one turns out to be dead. */
static int exchange(struct client *client, const char *method, const char *target,
                    const struct http_header *headers, size_t header_count, struct str body, struct err *err)
{
    bool safe = streq(method, "GET") || streq(method, "HEAD"), silent, reused;

    for (;;) {
        if (need_connection(client, err) < 0)
            return -1;
        silent = true;
        reused = client->reused;
        /* A server that refuses early answers before it has read all: look for the answer in any case. */
        (void)send_request(client, method, target, headers, header_count, body, err);
        if (read_head(client, &silent, err) == 0)
            return 0;
        disconnect(client);
        if (!silent || !reused || !safe)
            return -1;
    }
}

typedef int (*piece_fn)(void *arg, struct str data);

static int read_chunked(struct client *client, piece_fn piece, void *arg, struct err *err)
{
    struct http_chunked chunked = {0};
    const char *why = NULL;

    for (;;) {
        struct str rest = buf_view(&client->in), data;
        enum http_chunked_result result = http_chunked_next(&chunked, &rest, &data, &why);

        while (result == HTTP_CHUNKED_PIECE) {
            if (piece(arg, data) < 0)
                return 1;
            result = http_chunked_next(&chunked, &rest, &data, &why);
        }
        buf_drop(&client->in, client->in.len - rest.len);
        if (result == HTTP_CHUNKED_END)
            return 0;
        if (result == HTTP_CHUNKED_BAD)
            return err_set(err, ERR_INVALID, "%s: %s", client->url, why);
        if (read_more(client, err) < 0)
            return -1;
    }
}

/* `left` bytes, or all until the end. */
static int read_plain(struct client *client, bool to_end, uint64_t left, piece_fn piece, void *arg,
                      struct err *err)
{
    while (to_end || left > 0) {
        struct str data = buf_view(&client->in);

        if (data.len == 0) {
            ssize_t got =
                read_some(client, buf_reserve(&client->in, CLIENT_READ_SIZE), CLIENT_READ_SIZE, err);

            if (got == 0 && to_end)
                return 0;
            if (got == 0)
                return err_set(err, ERR_UNAVAILABLE, "%s: the answer ends too early", client->url);
            if (got < 0)
                return -1;
            client->in.len += (size_t)got;
            continue;
        }
        if (!to_end && data.len > left)
            data.len = (size_t)left;
        left -= data.len;
        if (piece(arg, data) < 0)
            return 1;
        buf_drop(&client->in, data.len);
    }
    return 0;
}

/* The body in pieces. 1: piece did not want more. */
static int read_body(struct client *client, const char *method, piece_fn piece, void *arg, struct err *err)
{
    const struct http_head *head = client->parsed;
    bool none = streq(method, "HEAD") || head->status == 204 || head->status == 304;
    bool to_end = !none && !head->chunked && !head->has_length;
    int result = 0;

    if (none)
        result = 0;
    else if (head->chunked)
        result = read_chunked(client, piece, arg, err);
    else
        result = read_plain(client, to_end, head->length, piece, arg, err);
    if (result != 0 || to_end || !head->keep_alive || client->in.len > 0)
        disconnect(client);
    else
        client->reused = true;
    return result;
}

static int collect(void *arg, struct str data)
{
    struct buf *body = arg;

    if (data.len > CLIENT_BODY_MAX - body->len)
        return -1;
    buf_str(body, data);
    return 0;
}

static void copy_head(const struct client *client, struct client_answer *ret)
{
    ret->status = client->parsed->status;
    ret->header_count = client->parsed->header_count;
    memcpy(ret->headers, client->parsed->headers, sizeof(ret->headers));
}

int client_do(struct client *client, const char *method, const char *target,
              const struct http_header *headers, size_t header_count, struct str body,
              struct client_answer *ret, struct err *err)
{
    CLEANUP(buf_done) struct buf text = {0};
    int result;

    if (exchange(client, method, target, headers, header_count, body, err) < 0)
        return -1;
    result = read_body(client, method, collect, &text, err);
    if (result > 0)
        return err_set(err, ERR_LIMIT, "%s: the answer is too large", client->url);
    if (result < 0)
        return -1;
    copy_head(client, ret);
    ret->body = text;
    text = (struct buf){0};
    return 0;
}

int client_stream(struct client *client, const char *method, const char *target,
                  const struct http_header *headers, size_t header_count, struct str body, int *ret_status,
                  int (*piece)(void *arg, struct str data), void *arg, struct err *err)
{
    if (exchange(client, method, target, headers, header_count, body, err) < 0)
        return -1;
    set_timeout(client->fd, 0);
    *ret_status = client->parsed->status; /* before the pieces: they may depend on it */
    return read_body(client, method, piece, arg, err) < 0 ? -1 : 0;
}

int client_upgrade(struct client *client, const char *method, const char *target,
                   const struct http_header *headers, size_t header_count, struct client_answer *ret,
                   struct err *err)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (exchange(client, method, target, headers, header_count, (struct str){0}, err) < 0)
        return -1;
    if (client->parsed->status != 101 && read_body(client, method, collect, &text, err) < 0)
        return -1;
    if (client->parsed->status == 101)
        set_timeout(client->fd, 0);
    copy_head(client, ret);
    ret->body = text;
    text = (struct buf){0};
    return 0;
}
