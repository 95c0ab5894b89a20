/* Connections to a pod's loopback: by podnet into its namespace, or here where it shares the host's; and from
 * here to wherever a probe says. Names are looked up aside, since a name server may be away; of the addresses
 * of a name one after the other is tried. */
#include "base/clock.h"
#include "engine/local/internal.h"
#include "loop/offload.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <sys/socket.h>

#define LOOKUPS_MAX   16 /* at once: others want to look things up, too */
#define ADDRESSES_MAX 8  /* of one name */

struct address {
    struct sockaddr_storage to;
    socklen_t len;
};

struct addresses {
    struct address v[ADDRESSES_MAX];
    size_t len;
};

struct dial {
    struct loop *loop;
    struct podnet_dial *net; /* NULL: in the host's network */
    struct dial_lookup *lookup;
    struct loop_io *io;
    struct loop_timer *timer;
    int fd;
    struct addresses to; /* of a connection from here */
    size_t at;           /* the one that is tried */
    bool outside;        /* not to this machine's loopback, where only its own people may ask */
    char *host;
    uint16_t port;
    int failed; /* errno of the last that was tried */
    podnet_dial_fn fn;
    void *arg;
};

/* What stands for a dial while its name is being looked up. */
struct dial_lookup {
    struct local_engine *engine;
    struct dial *dial; /* NULL: given up */
};

/* What the thread has. */
struct question {
    char *host;
    uint16_t port;
    struct addresses found;
    const char *why; /* there is none */
};

static void dial_free(struct dial *dial)
{
    if (dial->lookup)
        dial->lookup->dial = NULL;
    loop_io_free(dial->io);
    loop_timer_free(dial->timer);
    fd_close(dial->fd);
    free(dial->host);
    free(dial);
}

static struct dial *make(struct loop *loop, const char *host, uint16_t port, podnet_dial_fn fn, void *arg)
{
    struct dial *dial = NEW(struct dial);

    dial->loop = loop;
    dial->fd = -1;
    dial->host = mem_strdup(host);
    dial->port = port;
    dial->fn = fn;
    dial->arg = arg;
    return dial;
}

static void net_done(void *arg, int fd, const struct err *err)
{
    struct dial *dial = arg;
    podnet_dial_fn fn = dial->fn;
    void *fn_arg = dial->arg;

    dial_free(dial);
    fn(fn_arg, fd, err);
}

/* ---- from here ---- */

static void host_failed(struct dial *dial, const char *why)
{
    struct err err = {0};

    err_set(&err, dial->failed == ETIMEDOUT ? ERR_TIMEOUT : ERR_UNAVAILABLE, "connect to %s:%u: %s",
            dial->host, dial->port, why);
    net_done(dial, -1, &err);
}

static void try_next(struct dial *dial);

static void dial_on_connected(void *arg, uint32_t events)
{
    struct dial *dial = arg;
    int sys = 0;
    socklen_t len = sizeof(sys);

    (void)events;
    if (getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &sys, &len) < 0)
        sys = errno;
    if (!sys) {
        net_done(dial, take_fd(&dial->fd), NULL);
        return;
    }
    dial->failed = sys;
    dial->at++;
    try_next(dial);
}

static bool is_loopback(const struct sockaddr_storage *to)
{
    const struct in6_addr *six = &((const struct sockaddr_in6 *)to)->sin6_addr;
    struct in_addr four = ((const struct sockaddr_in *)to)->sin_addr;

    if (to->ss_family == AF_INET6 && !IN6_IS_ADDR_V4MAPPED(six) && !IN6_IS_ADDR_V4COMPAT(six))
        return IN6_IS_ADDR_LOOPBACK(six) || IN6_IS_ADDR_UNSPECIFIED(six);
    if (to->ss_family == AF_INET6) {
        if (IN6_IS_ADDR_LOOPBACK(six) || IN6_IS_ADDR_UNSPECIFIED(six))
            return true;
        memcpy(&four, six->s6_addr + 12, sizeof(four));
    }
    return (ntohl(four.s_addr) >> 24) == IN_LOOPBACKNET || (ntohl(four.s_addr) >> 24) == 0;
}

/* The timer also tells of what failed at once: callbacks never come from inside dial_new. */
static void dial_on_timer(void *arg)
{
    struct dial *dial = arg;

    if (dial->io)
        dial->failed = ETIMEDOUT;
    host_failed(dial, strerror(dial->failed ? dial->failed : ECONNREFUSED));
}

static void try_next(struct dial *dial)
{
    loop_io_free(TAKE_PTR(dial->io));
    fd_close(take_fd(&dial->fd));
    for (; dial->at < dial->to.len; dial->at++) {
        const struct address *to = &dial->to.v[dial->at];

        if (dial->outside && is_loopback(&to->to)) {
            dial->failed = EACCES;
            continue;
        }
        dial->fd = socket(to->to.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (dial->fd >= 0 &&
            (connect(dial->fd, (const struct sockaddr *)&to->to, to->len) == 0 || errno == EINPROGRESS)) {
            dial->io = loop_io_new(dial->loop, dial->fd, EPOLLOUT, dial_on_connected, dial);
            return;
        }
        dial->failed = errno;
        fd_close(take_fd(&dial->fd));
    }
    loop_timer_set(dial->timer, 0);
}

static void connect_here(struct dial *dial)
{
    dial->timer = loop_timer_new(dial->loop, dial_on_timer, dial);
    loop_timer_set(dial->timer, PODNET_DIAL_SEC * NSEC_PER_SEC);
    try_next(dial);
}

static void add_address(struct addresses *list, const struct sockaddr *to, socklen_t len)
{
    if (list->len == ADDRESSES_MAX || len > sizeof(list->v[0].to))
        return;
    memcpy(&list->v[list->len].to, to, len);
    list->v[list->len++].len = len;
}

/* An address as it stands, an IPv6 one also in brackets. */
static bool from_text(const char *host, uint16_t port, struct addresses *list)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    char bare[INET6_ADDRSTRLEN] = "";
    size_t len = strlen(host);

    if (len > 2 && len - 2 < sizeof(bare) && host[0] == '[' && host[len - 1] == ']')
        memcpy(bare, host + 1, len - 2);
    if (inet_pton(AF_INET, host, &four.sin_addr) == 1)
        add_address(list, (struct sockaddr *)&four, sizeof(four));
    else if (inet_pton(AF_INET6, *bare ? bare : host, &six.sin6_addr) == 1)
        add_address(list, (struct sockaddr *)&six, sizeof(six));
    return list->len > 0;
}

/* ---- names ---- */

static void work(void *arg)
{
    struct question *question = arg;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found = NULL;
    char port[8];
    int code;

    snprintf(port, sizeof(port), "%u", question->port);
    code = getaddrinfo(question->host, port, &hints, &found);
    if (code)
        question->why = gai_strerror(code);
    for (const struct addrinfo *it = found; it; it = it->ai_next)
        add_address(&question->found, it->ai_addr, it->ai_addrlen);
    if (found)
        freeaddrinfo(found);
}

static void question_free(void *arg)
{
    struct question *question = arg;

    free(question->host);
    free(question);
}

static void looked_up(void *owner, void *arg)
{
    struct dial_lookup *lookup = owner;
    struct question *question = arg;
    struct dial *dial = lookup->dial;

    VEC_EACH(&lookup->engine->lookups, it)
        if (*it == lookup) {
            *it = vec_pop(&lookup->engine->lookups);
            break;
        }
    free(lookup);
    if (dial) {
        dial->lookup = NULL;
        if (question && question->found.len) {
            dial->to = question->found;
            connect_here(dial);
        } else {
            host_failed(dial, question ? question->why : "its name server does not answer");
        }
    }
    if (question)
        question_free(question);
}

static int look_up(struct dial *dial, struct local_engine *engine)
{
    struct question *question;

    if (engine->lookups.len >= LOOKUPS_MAX)
        return -1;
    question = NEW(struct question);
    question->host = mem_strdup(dial->host);
    question->port = dial->port;
    dial->lookup = NEW(struct dial_lookup);
    *dial->lookup = (struct dial_lookup){engine, dial};
    if (offload_run(engine->offload, OFFLOAD_SEC, work, looked_up, question_free, dial->lookup, question,
                    NULL) < 0) {
        question_free(question);
        free(TAKE_PTR(dial->lookup));
        return -1;
    }
    vec_push(&engine->lookups, dial->lookup);
    return 0;
}

void dial_lookups_done(struct local_engine *engine)
{
    VEC_EACH(&engine->lookups, it) {
        if ((*it)->dial)
            (*it)->dial->lookup = NULL;
        free(*it);
    }
    vec_done(&engine->lookups);
}

/* ---- all ---- */

struct dial *dial_new(struct local_pod *pod, uint16_t port, podnet_dial_fn fn, void *arg)
{
    struct dial *dial = make(pod->engine->loop, "127.0.0.1", port, fn, arg);

    if (pod->host_network || podnet_mode(pod->engine->net) == PODNET_HOST) {
        from_text(dial->host, port, &dial->to);
        connect_here(dial);
    } else {
        dial->net = podnet_dial(pod->engine->net, pod->uid, port, net_done, dial);
    }
    return dial;
}

struct dial *dial_host(struct local_pod *pod, const char *host, uint16_t port, podnet_dial_fn fn, void *arg)
{
    struct local_engine *engine = pod->engine;
    struct dial *dial = make(engine->loop, host, port, fn, arg);

    dial->outside = !pod->user.admin && !pod->host_network;
    if (from_text(host, port, &dial->to) || look_up(dial, engine) < 0) {
        if (!dial->to.len)
            dial->failed = EAGAIN;
        connect_here(dial);
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
