/* proxy - connections to a host port, carried into pods by this process: where there is no DNAT, or for one
 * address of the host. With several targets each connection goes to the next one, or (sticky) a sender always
 * to the same, as long as they are the same. Bytes go through a pipe for each direction with splice, so they
 * are not copied here.
 */
#define LOG_MODULE "podnet"
#include "base/clock.h"
#include "base/log.h"
#include "loop/loop.h"
#include "podnet/impl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#define CHUNK        (256 << 10)
#define PUMP_ROUNDS  8 /* of CHUNK, in one turn of the loop */
#define RETRY_ACCEPT (200 * NSEC_PER_MSEC)

/* One direction: from fd[side] through the pipe to fd[!side]. */
struct flow {
    int pipe[2];
    size_t inside; /* bytes in the pipe */
    bool eof;      /* the source has ended */
    bool closed;   /* and the sink was told */
};

struct proxied {
    struct port_proxy *proxy;
    struct proxied *prev, *next;
    struct podnet_dial *dial;
    int fd[2]; /* 0: the client, 1: the pod */
    struct loop_io *io[2];
    uint32_t events[2];
    struct flow flow[2]; /* [i] starts at fd[i] */
};

struct port_proxy {
    struct podnet *net;
    struct proxy_target *targets;
    size_t len, next;
    bool sticky;
    int listen_fd;
    struct loop_io *io;
    struct loop_timer *retry;
    struct proxied *conns;
};

static void conn_free(struct proxied *c)
{
    if (c->prev)
        c->prev->next = c->next;
    else
        c->proxy->conns = c->next;
    if (c->next)
        c->next->prev = c->prev;
    c->proxy->net->proxied--;
    podnet_dial_cancel(c->dial);
    for (int i = 0; i < 2; i++) {
        loop_io_free(c->io[i]);
        fd_close(c->fd[i]);
        fd_close(c->flow[i].pipe[0]);
        fd_close(c->flow[i].pipe[1]);
    }
    free(c);
}

/* Moves what can be moved from side to the other, but no more than PUMP_ROUNDS pieces: two fast ends would
 * keep the loop here for ever. False: the connection is broken. */
static bool pump(struct proxied *c, int side)
{
    struct flow *f = &c->flow[side];

    for (int round = 0; round < PUMP_ROUNDS; round++) {
        ssize_t in = 0, out = 0;

        if (!f->eof && f->inside < CHUNK) {
            in = splice(c->fd[side], NULL, f->pipe[1], NULL, CHUNK - f->inside,
                        SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
            if (in < 0 && errno != EAGAIN && errno != EINTR)
                return false;
            f->eof = in == 0;
            f->inside += in > 0 ? (size_t)in : 0;
        }
        if (f->inside) {
            out = splice(f->pipe[0], NULL, c->fd[!side], NULL, f->inside, SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
            if (out < 0 && errno != EAGAIN && errno != EINTR)
                return false;
            f->inside -= out > 0 ? (size_t)out : 0;
        }
        if (f->eof && !f->inside && !f->closed) {
            (void)shutdown(c->fd[!side], SHUT_WR);
            f->closed = true;
        }
        if (in <= 0 && out <= 0)
            break;
    }
    return true;
}

static void on_conn(void *arg, uint32_t events);

/* A side that was told the end and wants nothing now is not watched: once it has said its own end, EPOLLHUP
 * would come for ever, also while the other side does not take what is in the pipe. */
static void set_events(struct proxied *c)
{
    for (int i = 0; i < 2; i++) {
        uint32_t events = 0;

        if (!c->flow[i].eof && c->flow[i].inside == 0)
            events |= EPOLLIN;
        if (c->flow[!i].inside)
            events |= EPOLLOUT;
        if (!events && c->flow[!i].closed)
            loop_io_free(TAKE_PTR(c->io[i]));
        else if (!c->io[i])
            c->io[i] = loop_io_new(c->proxy->net->loop, c->fd[i], events, on_conn, c);
        else if (events != c->events[i])
            loop_io_set(c->io[i], events);
        c->events[i] = events;
    }
}

static void on_conn(void *arg, uint32_t events)
{
    struct proxied *c = arg;

    if (!pump(c, 0) || !pump(c, 1) || (events & EPOLLERR) || (c->flow[0].closed && c->flow[1].closed))
        conn_free(c);
    else
        set_events(c);
}

/* The client sees a refusal rather than an empty answer. */
static void refuse(int fd)
{
    struct linger reset = {.l_onoff = 1};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
}

static void on_dialed(void *arg, int fd, const struct err *err)
{
    struct proxied *c = arg;

    c->dial = NULL;
    if (err) {
        refuse(c->fd[0]);
        conn_free(c);
        return;
    }
    c->fd[1] = fd;
    for (int i = 0; i < 2; i++)
        if (pipe2(c->flow[i].pipe, O_CLOEXEC | O_NONBLOCK) < 0) {
            log_warn("proxy: make a pipe: %s", strerror(errno));
            conn_free(c);
            return;
        }
    for (int i = 0; i < 2; i++) {
        (void)fcntl(c->flow[i].pipe[1], F_SETPIPE_SZ, CHUNK); /* refused: it is smaller, and slower */
        c->events[i] = EPOLLIN;
        c->io[i] = loop_io_new(c->proxy->net->loop, c->fd[i], EPOLLIN, on_conn, c);
    }
}

static const struct proxy_target *choose(struct port_proxy *p, const struct sockaddr_in *from)
{
    uint32_t hash = ntohl(from->sin_addr.s_addr) * 2654435761u; /* neighbours are not to go together */

    return &p->targets[(p->sticky ? hash >> 16 : p->next++) % p->len];
}

static void on_accept(void *arg, uint32_t events)
{
    struct port_proxy *p = arg;
    struct sockaddr_in from = {0};
    socklen_t len = sizeof(from);
    int fd = accept4(p->listen_fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK), on = 1;
    const struct proxy_target *to;
    struct proxied *c;

    (void)events;
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
        /* The connection stays in the backlog; epoll would report it again and again. */
        log_warn("proxy: cannot accept: %s", strerror(errno));
        loop_io_set(p->io, 0);
        loop_timer_set(p->retry, RETRY_ACCEPT);
    }
    if (fd < 0)
        return;
    if (p->net->proxied >= PODNET_PROXIED_MAX || !p->len) {
        if (!p->len)
            refuse(fd);
        close(fd);
        return;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    p->net->proxied++;
    c = NEW(struct proxied);
    c->proxy = p;
    c->fd[0] = fd;
    c->fd[1] = -1;
    for (int i = 0; i < 2; i++)
        c->flow[i].pipe[0] = c->flow[i].pipe[1] = -1;
    c->next = p->conns;
    if (c->next)
        c->next->prev = c;
    p->conns = c;
    to = choose(p, &from);
    c->dial = dial_pod(p->net, to->pod, to->ip, to->port, on_dialed, c);
}

static void on_retry(void *arg)
{
    struct port_proxy *p = arg;

    loop_io_set(p->io, EPOLLIN);
}

struct port_proxy *port_proxy_new(struct podnet *net, int listen_fd)
{
    struct port_proxy *p = NEW(struct port_proxy);

    *p = (struct port_proxy){.net = net, .listen_fd = listen_fd};
    p->io = loop_io_new(net->loop, listen_fd, EPOLLIN, on_accept, p);
    p->retry = loop_timer_new(net->loop, on_retry, p);
    return p;
}

void port_proxy_lead(struct port_proxy *p, const struct proxy_target *targets, size_t len, bool sticky)
{
    free(p->targets);
    p->targets = mem_zalloc((len + 1) * sizeof(*targets));
    if (len)
        memcpy(p->targets, targets, len * sizeof(*targets));
    p->len = len;
    p->sticky = sticky;
}

void port_proxy_drop_pod(struct port_proxy *p, const struct pod *pod)
{
    size_t kept = 0;

    for (size_t i = 0; p && i < p->len; i++)
        if (p->targets[i].pod != pod)
            p->targets[kept++] = p->targets[i];
    if (p)
        p->len = kept;
}

void port_proxy_free(struct port_proxy *p)
{
    struct proxied *next;

    if (!p)
        return;
    for (struct proxied *c = p->conns; c; c = next) {
        next = c->next;
        conn_free(c);
    }
    loop_io_free(p->io);
    loop_timer_free(p->retry);
    free(p->targets);
    free(p);
}
