/* dial - TCP connections into a pod. A socket belongs to the namespace it was made in, for life: the helper
 * thread makes it there, and the loop's thread connects it without ever leaving home. */
#include "base/clock.h"
#include "loop/loop.h"
#include "podnet/impl.h"
#include "podnet/netns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

struct podnet_dial {
    struct net_task task;
    struct podnet *net;
    char *id, *netns; /* netns NULL: the host's */
    struct sockaddr_in to;
    podnet_dial_fn fn; /* NULL: cancelled while the helper thread has it */
    void *arg;
    bool in_task;
    int home, fd;
    struct loop_io *io;
    struct loop_timer *timer;
    struct err err;
};

static void dial_free(struct podnet_dial *d)
{
    VEC_EACH(&d->net->dials, it)
        if (*it == d) {
            *it = vec_pop(&d->net->dials);
            break;
        }
    loop_io_free(d->io);
    loop_timer_free(d->timer);
    fd_close(d->fd);
    free(d->id);
    free(d->netns);
    free(d);
}

static void finish(struct podnet_dial *d, const struct err *err)
{
    podnet_dial_fn fn = d->fn;
    void *arg = d->arg;
    int fd = err ? -1 : take_fd(&d->fd);
    struct err why = err ? *err : (struct err){0};

    loop_io_free(TAKE_PTR(d->io));
    dial_free(d);
    if (fn)
        fn(arg, fd, err ? &why : NULL);
    else
        fd_close(fd);
}

static void fail(struct podnet_dial *d, int sys)
{
    enum err_code code = sys == ETIMEDOUT ? ERR_TIMEOUT : ERR_UNAVAILABLE;
    char ip[INET_ADDRSTRLEN];
    struct err err = {0};

    inet_ntop(AF_INET, &d->to.sin_addr, ip, sizeof(ip));
    (void)err_set(&err, code, "connect to %s:%u in pod '%s': %s", ip, ntohs(d->to.sin_port), d->id,
                  strerror(sys));
    finish(d, &err);
}

static void on_timeout(void *arg)
{
    fail(arg, ETIMEDOUT);
}

static void on_connected(void *arg, uint32_t events)
{
    struct podnet_dial *d = arg;
    int sys = 0;
    socklen_t len = sizeof(sys);

    (void)events;
    if (getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &sys, &len) < 0)
        sys = errno;
    if (sys)
        fail(d, sys);
    else
        finish(d, NULL);
}

static void run_socket(struct net_task *task)
{
    struct podnet_dial *d = CONTAINER_OF(task, struct podnet_dial, task);

    if (d->netns) {
        d->fd = netns_socket(d->home, d->netns, SOCK_STREAM, &d->err);
        return;
    }
    d->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (d->fd < 0)
        (void)err_errno(&d->err, errno, "make a socket");
}

static void done_socket(struct net_task *task)
{
    struct podnet_dial *d = CONTAINER_OF(task, struct podnet_dial, task);
    int on = 1;

    d->in_task = false;
    if (!d->fn) {
        dial_free(d);
        return;
    }
    if (d->err.code) {
        finish(d, &d->err);
        return;
    }
    (void)setsockopt(d->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (connect(d->fd, (struct sockaddr *)&d->to, sizeof(d->to)) == 0) {
        finish(d, NULL);
    } else if (errno != EINPROGRESS) {
        fail(d, errno);
    } else {
        d->io = loop_io_new(d->net->loop, d->fd, EPOLLOUT, on_connected, d);
        d->timer = loop_timer_new(d->net->loop, on_timeout, d);
        loop_timer_set(d->timer, PODNET_DIAL_SEC * NSEC_PER_SEC);
    }
}

static void drop_socket(struct net_task *task)
{
    dial_free(CONTAINER_OF(task, struct podnet_dial, task));
}

static struct podnet_dial *dial_new(struct podnet *net, const char *id, const char *netns, uint32_t ip,
                                    uint16_t port, podnet_dial_fn fn, void *arg)
{
    struct podnet_dial *d = NEW(struct podnet_dial);

    d->task = (struct net_task){run_socket, done_socket, drop_socket, true, NULL};
    d->net = net;
    d->id = mem_strdup(id);
    d->netns = mem_strdup(netns);
    d->to =
        (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ip)};
    d->fn = fn;
    d->arg = arg;
    d->fd = -1;
    d->home = net->home;
    d->in_task = true;
    vec_push(&net->dials, d);
    return d;
}

struct podnet_dial *dial_pod(struct podnet *net, const struct pod *pod, uint32_t ip, uint16_t port,
                             podnet_dial_fn fn, void *arg)
{
    struct podnet_dial *d =
        dial_new(net, pod ? pod->pub.id : "host", pod ? pod->pub.netns : NULL, ip, port, fn, arg);

    worker_push(net->worker, &d->task);
    return d;
}

static void run_nothing(struct net_task *task)
{
    (void)task;
}

struct podnet_dial *podnet_dial(struct podnet *net, const char *id, uint16_t port, podnet_dial_fn fn,
                                void *arg)
{
    const struct pod *pod = map_get(net->pods, str_from(id));
    struct podnet_dial *d;

    if (pod && pod->state == POD_UP)
        return dial_pod(net, pod, INADDR_LOOPBACK, port, fn, arg);
    d = dial_new(net, id, NULL, INADDR_LOOPBACK, port, fn, arg);
    d->task.run = run_nothing;
    (void)err_set(&d->err, ERR_NOT_FOUND, "pod '%s' has no network", id);
    worker_push(net->worker, &d->task);
    return d;
}

void podnet_dial_cancel(struct podnet_dial *d)
{
    if (!d)
        return;
    d->fn = NULL;
    if (!d->in_task)
        dial_free(d);
}

void dials_free(struct podnet *net)
{
    while (net->dials.len)
        dial_free(vec_pop(&net->dials));
    vec_done(&net->dials);
}
