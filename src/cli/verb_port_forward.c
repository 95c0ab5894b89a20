/* berth port-forward: local listeners, and SPDY/3.1 inside a WebSocket to the daemon, as kubectl has it. Each
 * connection is two streams, error and data. One poll loop; a local client that does not read holds up the
 * others once HELD_MAX bytes wait for it, since the tunnel has no flow control of its own. */
#include "base/buf.h"
#include "base/mem.h"
#include "cli/verb_exec.h"
#include "net/spdy.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#define PORTS_MAX 64
#define CONNS_MAX 256
#define HELD_MAX  (1 << 20)   /* bytes that wait for one local client before the tunnel is not read */
#define QUEUE_MAX (256 << 10) /* bytes that wait for the tunnel before local clients are not read */

struct listener {
    int fd;
    unsigned port; /* remote */
};

struct conn {
    int fd;
    unsigned port;
    uint32_t error_id, data_id;
    struct buf held; /* for the local client */
    struct buf error;
    bool local_ended, remote_ended;
};

struct forwarder {
    struct socket socket;
    struct spdy *spdy;
    VEC(struct listener) listeners;
    VEC(struct conn *) conns;
    uint32_t next_id;
    unsigned request;
    struct buf out;
};

/* "8080", "8080:80", ":80" */
static bool read_ports(const char *word, uint64_t *local, uint64_t *remote)
{
    const char *colon = strchr(word, ':');

    if (!str_to_uint(str_from(colon ? colon + 1 : word), remote) || *remote < 1 || *remote > 65535)
        return false;
    *local = *remote;
    if (colon && colon == word)
        *local = 0;
    else if (colon && !str_to_uint((struct str){word, (size_t)(colon - word)}, local))
        return false;
    return *local <= 65535;
}

/* A listener on loopback of that family; -1 with errno. *port 0: any, which is told. */
static int listen_on(int family, uint16_t *port)
{
    struct sockaddr_in6 six = {
        .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT, .sin6_port = htons(*port)};
    struct sockaddr_in four = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(*port)};
    struct sockaddr *addr = family == AF_INET ? (struct sockaddr *)&four : (struct sockaddr *)&six;
    socklen_t len = family == AF_INET ? sizeof(four) : sizeof(six);
    CLEANUP(fd_close) int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int on = 1;

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (fd < 0 || bind(fd, addr, len) < 0 || listen(fd, 128) < 0 || getsockname(fd, addr, &len) < 0)
        return -1;
    *port = ntohs(family == AF_INET ? four.sin_port : six.sin6_port);
    return take_fd(&fd);
}

/* On 127.0.0.1, and on ::1 where that is free: `localhost` is both. */
static int open_listener(struct forwarder *f, const char *word)
{
    static const struct {
        int family;
        const char *host;
    } loopbacks[] = {{AF_INET, "127.0.0.1"}, {AF_INET6, "[::1]"}};
    uint64_t local, remote;
    uint16_t port;

    if (!read_ports(word, &local, &remote))
        return cli_fail(CLI_USAGE, "'%s' is no [LOCAL:]REMOTE port", word);
    port = (uint16_t)local;
    for (size_t i = 0; i < ARRAY_LEN(loopbacks); i++) {
        int fd = listen_on(loopbacks[i].family, &port);

        if (fd < 0 && i == 0)
            return cli_fail(CLI_FAILED, "listen on 127.0.0.1:%llu: %s", (unsigned long long)local,
                            strerror(errno));
        if (fd < 0)
            continue;
        printf("Forwarding from %s:%u -> %u\n", loopbacks[i].host, port, (unsigned)remote);
        vec_push(&f->listeners, (struct listener){fd, (unsigned)remote});
    }
    fflush(stdout);
    return CLI_OK;
}

/* ---- the tunnel ---- */

static void send_out(struct forwarder *f)
{
    socket_send(&f->socket, WEBSOCKET_BINARY, buf_view(&f->out));
    buf_clear(&f->out);
}

static void open_streams(struct forwarder *f, struct conn *c)
{
    char port[16], request[16];
    struct spdy_pair pairs[] = {
        {STR("streamtype"), STR("error")},
        {STR("port"), {port, (size_t)snprintf(port, sizeof(port), "%u", c->port)}},
        {STR("requestid"), {request, (size_t)snprintf(request, sizeof(request), "%u", f->request++)}},
    };

    c->error_id = f->next_id;
    c->data_id = f->next_id + 2;
    f->next_id += 4;
    spdy_syn_stream(f->spdy, &f->out, c->error_id, true, pairs, ARRAY_LEN(pairs));
    pairs[0].value = STR("data");
    spdy_syn_stream(f->spdy, &f->out, c->data_id, false, pairs, ARRAY_LEN(pairs));
    send_out(f);
}

static void accept_conn(struct forwarder *f, const struct listener *listener)
{
    int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct conn *c;

    if (fd < 0)
        return;
    c = NEW(struct conn);
    c->fd = fd;
    c->port = listener->port;
    vec_push(&f->conns, c);
    open_streams(f, c);
}

static void free_conn(struct conn *c)
{
    fd_close(c->fd);
    buf_done(&c->held);
    buf_done(&c->error);
    free(c);
}

/* The daemon is told to forget the connection, where it does not know of its end yet. */
static void drop_conn(struct forwarder *f, size_t i)
{
    struct conn *c = f->conns.v[i];

    if (!c->remote_ended || !c->local_ended) {
        spdy_rst_stream(&f->out, c->data_id, 5);
        send_out(f);
    }
    if (c->error.len > 0)
        fprintf(stderr, "berth: %s\n", c->error.data);
    vec_remove(&f->conns, i);
    free_conn(c);
}

/* False: the local client is gone. */
static bool write_local(struct conn *c)
{
    while (c->held.len > 0) {
        ssize_t len = send(c->fd, c->held.data, c->held.len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return errno == EAGAIN;
        buf_drop(&c->held, (size_t)len);
    }
    if (c->remote_ended)
        shutdown(c->fd, SHUT_WR);
    return true;
}

static int on_frame(void *arg, const struct spdy_frame *frame)
{
    struct forwarder *f = arg;

    if (frame->type == SPDY_PING && frame->stream % 2 == 0) {
        spdy_ping(&f->out, frame->stream);
        send_out(f);
    }
    for (size_t i = 0; i < f->conns.len; i++) {
        struct conn *c = f->conns.v[i];

        if (frame->type == SPDY_DATA && frame->stream == c->error_id) {
            buf_str(&c->error, frame->data);
        } else if (frame->type == SPDY_DATA && frame->stream == c->data_id) {
            buf_str(&c->held, frame->data);
            c->remote_ended |= frame->fin;
        } else if (frame->type == SPDY_RST_STREAM &&
                   (frame->stream == c->data_id || frame->stream == c->error_id)) {
            c->remote_ended = c->local_ended = true;
        }
    }
    return frame->type == SPDY_GOAWAY ? -1 : 0;
}

static int on_message(void *arg, enum websocket_type type, struct str payload)
{
    struct forwarder *f = arg;

    return type == WEBSOCKET_BINARY ? spdy_feed(f->spdy, payload, on_frame, f, NULL) : 0;
}

/* ---- the loop ---- */

static void read_local(struct forwarder *f, struct conn *c)
{
    char data[STREAM_CHUNK - 64];
    ssize_t len = recv(c->fd, data, sizeof(data), MSG_DONTWAIT);

    if (len < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (len < 0)
        c->remote_ended = true; /* a reset: nobody is there any more */
    c->local_ended = len <= 0;
    spdy_data(&f->out, c->data_id, len <= 0, (struct str){data, len > 0 ? (size_t)len : 0});
    send_out(f);
}

static void serve_conns(struct forwarder *f, const struct pollfd *fds, size_t count)
{
    for (size_t i = count; i-- > 0;) {
        struct conn *c = f->conns.v[i];

        if ((fds[i].revents & (POLLIN | POLLHUP | POLLERR)) && !c->local_ended)
            read_local(f, c);
        if (!write_local(c) || (c->remote_ended && c->held.len == 0 && c->local_ended) ||
            ((fds[i].revents & POLLERR) && c->local_ended))
            drop_conn(f, i);
    }
}

static int pump(struct forwarder *f, struct err *err)
{
    CLEANUP(free) struct pollfd *fds = mem_zalloc((1 + 2 * PORTS_MAX + CONNS_MAX) * sizeof(*fds));
    int more = 1;

    while (more > 0) {
        bool unsent = socket_unsent(&f->socket) > 0, pending = client_pending(f->socket.client), held = false;
        size_t n = 1, conns = f->conns.len, first;

        for (size_t i = 0; i < f->listeners.len; i++)
            fds[n++] = (struct pollfd){.fd = conns < CONNS_MAX ? f->listeners.v[i].fd : -1, .events = POLLIN};
        first = n;
        for (size_t i = 0; i < conns; i++) {
            const struct conn *c = f->conns.v[i];
            bool reads = !c->local_ended && socket_unsent(&f->socket) < QUEUE_MAX;

            held |= c->held.len > HELD_MAX;
            fds[n++] = (struct pollfd){.fd = reads || c->held.len > 0 ? c->fd : -1,
                                       .events = (short)((reads ? POLLIN : 0) | (c->held.len ? POLLOUT : 0))};
        }
        fds[0] = (struct pollfd){.fd = client_fd(f->socket.client),
                                 .events = (short)((held ? 0 : POLLIN) | (unsent ? POLLOUT : 0))};
        if (poll(fds, n, pending && !held ? 0 : -1) < 0) {
            if (errno != EINTR)
                return err_errno(err, errno, "poll");
            continue;
        }
        if ((fds[0].revents & POLLOUT) && socket_flush(&f->socket, err) < 0)
            return -1;
        if (!held && (pending || (fds[0].revents & (POLLIN | POLLHUP | POLLERR))))
            more = socket_read(&f->socket, on_message, f, err);
        serve_conns(f, fds + first, conns);
        for (size_t i = 0; i < f->listeners.len; i++)
            if (fds[1 + i].revents && f->conns.len < CONNS_MAX)
                accept_conn(f, &f->listeners.v[i]);
    }
    return more;
}

static int forward(struct cli *cli, struct forwarder *f, const struct args *args, const char *target)
{
    struct err err = {0};
    int code = socket_open(cli, &f->socket, target, "SPDY/3.1+portforward.k8s.io");

    for (int i = 1; i < args->count && code == CLI_OK; i++)
        code = open_listener(f, args->rest[i]);
    if (code != CLI_OK)
        return code;
    signal(SIGPIPE, SIG_IGN);
    return pump(f, &err) < 0 ? cli_fail(CLI_FAILED, "%s", err.msg)
                             : cli_fail(CLI_FAILED, "the daemon has closed the connection");
}

int verb_port_forward(struct cli *cli, const struct args *args)
{
    CLEANUP(buf_done) struct buf target = {0};
    struct forwarder f = {.next_id = 1};
    struct target pod;
    int code;

    if (args->count > 1 + PORTS_MAX)
        return cli_usage_error(args->verb, "too many ports");
    code = target_find_live(cli, args, args->rest[0], &pod);
    if (code != CLI_OK)
        return code;
    target_path(&target, pod.ns, pod.pod, "");
    f.spdy = spdy_new();
    buf_puts(&target, "/portforward");
    code = forward(cli, &f, args, target.data);
    while (f.conns.len > 0)
        free_conn(vec_pop(&f.conns));
    VEC_EACH(&f.listeners, it)
        fd_close(it->fd);
    vec_done(&f.conns);
    vec_done(&f.listeners);
    spdy_free(f.spdy);
    socket_done(&f.socket);
    buf_done(&f.out);
    return code;
}
