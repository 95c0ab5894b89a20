/* Connections to a pod's loopback: by podnet into its namespace, or here where it shares the host's. */
#include "base/clock.h"
#include "engine/local/internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

struct dial {
    struct podnet_dial *net; /* NULL: in the host's network */
    struct loop_io *io;
    struct loop_timer *timer;
    int fd;
    struct in_addr to; /* of a connection from here */
    uint16_t port;
    podnet_dial_fn fn;
    void *arg;
};

static void dial_free(struct dial *dial)
{
    loop_io_free(dial->io);
    loop_timer_free(dial->timer);
    fd_close(dial->fd);
    free(dial);
}

static void net_done(void *arg, int fd, const struct err *err)
{
    struct dial *dial = arg;
    podnet_dial_fn fn = dial->fn;
    void *fn_arg = dial->arg;

    dial_free(dial);
    fn(fn_arg, fd, err);
}

static void host_done(struct dial *dial, int sys)
{
    struct err err = {0};
    int fd = sys ? -1 : take_fd(&dial->fd);

    if (sys)
        err_set(&err, sys == ETIMEDOUT ? ERR_TIMEOUT : ERR_UNAVAILABLE, "connect to %s:%u: %s",
                inet_ntoa(dial->to), dial->port, strerror(sys));
    net_done(dial, fd, sys ? &err : NULL);
}

static void on_connected(void *arg, uint32_t events)
{
    struct dial *dial = arg;
    int sys = 0;
    socklen_t len = sizeof(sys);

    (void)events;
    if (getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &sys, &len) < 0)
        sys = errno;
    host_done(dial, sys);
}

/* The timer also tells of what failed at once: callbacks never come from inside dial_new. */
static void on_timer(void *arg)
{
    struct dial *dial = arg;

    host_done(dial, dial->io ? ETIMEDOUT : ECONNREFUSED);
}

static void connect_here(struct dial *dial, struct loop *loop)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htons(dial->port), .sin_addr = dial->to};

    dial->timer = loop_timer_new(loop, on_timer, dial);
    dial->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (dial->fd < 0 ||
        (connect(dial->fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 && errno != EINPROGRESS)) {
        loop_timer_set(dial->timer, 0);
        return;
    }
    dial->io = loop_io_new(loop, dial->fd, EPOLLOUT, on_connected, dial);
    loop_timer_set(dial->timer, PODNET_DIAL_SEC * NSEC_PER_SEC);
}

struct dial *dial_new(struct pod *pod, uint16_t port, podnet_dial_fn fn, void *arg)
{
    struct dial *dial = NEW(struct dial);

    dial->fd = -1;
    dial->port = port;
    dial->fn = fn;
    dial->arg = arg;
    dial->to.s_addr = htonl(INADDR_LOOPBACK);
    if (pod->host_network || podnet_mode(pod->engine->net) == PODNET_HOST)
        connect_here(dial, pod->engine->loop);
    else
        dial->net = podnet_dial(pod->engine->net, pod->uid, port, net_done, dial);
    return dial;
}

struct dial *dial_host(struct loop *loop, const char *host, uint16_t port, podnet_dial_fn fn, void *arg)
{
    struct dial *dial = NEW(struct dial);

    dial->fd = -1;
    dial->port = port;
    dial->fn = fn;
    dial->arg = arg;
    if (inet_pton(AF_INET, host, &dial->to) == 1 || streq(host, "localhost")) {
        if (streq(host, "localhost"))
            dial->to.s_addr = htonl(INADDR_LOOPBACK);
        connect_here(dial, loop);
    } else { /* names are not looked up: that may take long */
        dial->timer = loop_timer_new(loop, on_timer, dial);
        loop_timer_set(dial->timer, 0);
    }
    return dial;
}

void dial_cancel(struct dial *dial)
{
    if (!dial)
        return;
    podnet_dial_cancel(dial->net);
    dial_free(dial);
}
