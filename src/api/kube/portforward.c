/* One connection goes: error stream, data stream, dial, bytes both ways, target closes: FIN on data and on
 * error. Each direction ends on its own. SPDY has no windows here, so one target that does not read holds up
 * all of this client's connections, and one client that does not read all of its targets. */
#include "api/kube/portforward.h"

#include "api/kube/stream_spdy.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"

#include <errno.h>
#include <sys/socket.h>

#define READ_SIZE  (64 << 10)
#define READS_MAX  4 /* of one target before the others get their turn */
#define REQUEST_ID 64

struct forward {
    struct forward *next, **prev;
    struct portforward *session;
    char request[REQUEST_ID]; /* the streams' request id */
    uint16_t port;
    uint32_t data_id, error_id; /* 0: not there yet */
    int64_t since;              /* monotonic; of the first stream */
    struct pod_dial *dial;
    int fd; /* -1: not connected */
    struct loop_io *io;
    struct buf in; /* for the target, from in_at */
    size_t in_at;
    bool client_done; /* the client sends no more */
    bool told_target; /* and the target knows */
    bool target_done; /* the target sends no more, and the client knows */
    bool error_done;  /* the error stream is closed */
};

struct portforward {
    struct portforward_config config;
    struct wire *wire;
    struct spdy_server spdy;
    struct forward *forwards;
    size_t count;
    struct loop_timer *timer; /* for streams without partner */
    bool full;                /* the client does not read: targets wait */
};

/* ---- the end of a connection ---- */

static void forward_free(struct forward *f)
{
    *f->prev = f->next;
    if (f->next)
        f->next->prev = f->prev;
    f->session->count--;
    if (f->dial)
        f->session->config.ops->dial_cancel(f->dial);
    loop_io_free(f->io);
    fd_close(f->fd);
    buf_done(&f->in);
    free(f);
}

/* The client is read while no target has too much. */
static void settle_pause(struct portforward *s)
{
    bool pause = false;

    for (struct forward *f = s->forwards; f; f = f->next)
        pause = pause || f->in.len - f->in_at > PORTFORWARD_HIGH;
    wire_pause(s->wire, pause);
}

static void send_ends(struct forward *f, const char *why)
{
    struct spdy_server *spdy = &f->session->spdy;

    if (!f->target_done && f->data_id)
        spdy_server_send(spdy, f->data_id, true, STR(""));
    if (!f->error_done && f->error_id)
        spdy_server_send(spdy, f->error_id, true, str_from(why));
    f->target_done = f->error_done = true;
}

static void forward_end(struct forward *f, const char *why)
{
    struct portforward *s = f->session;

    send_ends(f, why);
    forward_free(f);
    settle_pause(s);
}

static void forward_fail(struct forward *f, const struct err *err)
{
    CLEANUP(free)
    char *why = mem_printf("error forwarding port %u to pod %s, uid %s: %s", f->port,
                           f->session->config.pod.name, f->session->config.pod.uid, err->msg);

    forward_end(f, why);
}

/* ---- bytes ---- */

static void on_target(void *arg, uint32_t events);

/* Without anything to wait for it is not watched at all: a hang-up would come again and again. */
static void set_events(struct forward *f)
{
    uint32_t events = 0;

    if (f->fd < 0)
        return;
    if (!f->target_done && !f->session->full)
        events |= EPOLLIN;
    if (f->in_at < f->in.len)
        events |= EPOLLOUT;
    if (events == 0)
        loop_io_free(TAKE_PTR(f->io));
    else if (f->io)
        loop_io_set(f->io, events);
    else
        f->io = loop_io_new(f->session->config.loop, f->fd, events, on_target, f);
}

/* Whether the client has too much unread already. */
static void set_full(struct portforward *s, bool full)
{
    s->full = full;
    for (struct forward *it = s->forwards; it; it = it->next)
        set_events(it);
}

/* Towards the target; what it does not take now is left. A target that takes nothing any more may still have
 * things to say: what is for it is dropped. */
static void write_target(struct forward *f, struct str *data)
{
    while (data->len > 0) {
        ssize_t len = send(f->fd, data->s, data->len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0 && errno == EAGAIN)
            return;
        if (len < 0) {
            f->client_done = f->told_target = true;
            len = (ssize_t)data->len;
        }
        *data = (struct str){data->s + len, data->len - (size_t)len};
    }
}

static void tell_target(struct forward *f)
{
    if (f->client_done && !f->told_target && f->in.len == 0 && f->fd >= 0) {
        shutdown(f->fd, SHUT_WR);
        f->told_target = true;
    }
}

/* What waited for the target. */
static void flush_target(struct forward *f)
{
    struct str rest = {f->in.data ? f->in.data + f->in_at : "", f->in.len - f->in_at};

    write_target(f, &rest);
    f->in_at = f->in.len - rest.len;
    if (rest.len == 0) {
        buf_done(&f->in);
        f->in_at = 0;
    }
    tell_target(f);
    settle_pause(f->session);
}

static void read_target(struct forward *f)
{
    struct portforward *s = f->session;
    char data[READ_SIZE];

    for (int i = 0; i < READS_MAX && !s->full; i++) {
        ssize_t len = recv(f->fd, data, sizeof(data), MSG_DONTWAIT);

        if (len < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (len <= 0) {
            send_ends(f, "");
            return;
        }
        spdy_server_send(&s->spdy, f->data_id, false, (struct str){data, (size_t)len});
        if (wire_unsent(s->wire) > WIRE_HIGH)
            set_full(s, true);
        if ((size_t)len < sizeof(data))
            return;
    }
}

static void on_target(void *arg, uint32_t events)
{
    struct forward *f = arg;

    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
        flush_target(f);
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) && !f->target_done)
        read_target(f);
    if (f->target_done && f->told_target) {
        forward_end(f, "");
        return;
    }
    set_events(f);
}

static void on_drained(void *arg)
{
    struct portforward *s = arg;

    if (s->full)
        set_full(s, false);
}

/* ---- streams ---- */

static void on_dialled(void *arg, int fd, const struct err *err)
{
    struct forward *f = arg;

    f->dial = NULL;
    if (fd < 0) {
        forward_fail(f, err);
        return;
    }
    f->fd = fd;
    flush_target(f);
    set_events(f);
}

static void dial(struct forward *f)
{
    const struct portforward_config *config = &f->session->config;
    struct err err = {0};

    if (config->ops->dial(config->ops->arg, &config->pod, f->port, on_dialled, f, &f->dial, &err) < 0) {
        f->dial = NULL;
        forward_fail(f, &err);
    }
}

static struct str value_of(const struct spdy_frame *syn, const char *name)
{
    for (size_t i = 0; i < syn->pair_count; i++)
        if (str_is(syn->pairs[i].name, name))
            return syn->pairs[i].value;
    return (struct str){0};
}

static struct forward *forward_new(struct portforward *s, const char *request, uint16_t port)
{
    struct forward *f = NEW(struct forward);

    f->session = s;
    f->port = port;
    f->fd = -1;
    f->since = loop_now(s->config.loop);
    memcpy(f->request, request, strlen(request) + 1);
    f->next = s->forwards;
    f->prev = &s->forwards;
    if (f->next)
        f->next->prev = &f->next;
    s->forwards = f;
    s->count++;
    if (!loop_timer_active(s->timer))
        loop_timer_set(s->timer, PORTFORWARD_PAIR_SEC * NSEC_PER_SEC);
    return f;
}

static bool paired(const struct forward *f)
{
    return f->data_id && f->error_id;
}

static void on_timer(void *arg)
{
    struct portforward *s = arg;
    int64_t limit = PORTFORWARD_PAIR_SEC * NSEC_PER_SEC, left = 0, now = loop_now(s->config.loop);

    for (struct forward *f = s->forwards, *next; f; f = next) {
        next = f->next;
        if (paired(f))
            continue;
        if (now - f->since >= limit) {
            spdy_server_reset(&s->spdy, f->data_id ? f->data_id : f->error_id, SPDY_CANCEL);
            forward_free(f);
        } else if (left == 0 || f->since + limit - now < left) {
            left = f->since + limit - now;
        }
    }
    settle_pause(s); /* what the freed ones held does not hold the client up */
    if (left > 0)
        loop_timer_set(s->timer, left);
}

/* Clients before request ids: the data stream follows its error stream. */
static bool request_id(const struct spdy_frame *syn, bool error, char ret[REQUEST_ID])
{
    struct str given = value_of(syn, "requestid");

    if (given.len >= REQUEST_ID || (given.len > 0 && memchr(given.s, 0, given.len)))
        return false;
    if (given.len > 0)
        snprintf(ret, REQUEST_ID, "%.*s", STR_ARG(given));
    else
        snprintf(ret, REQUEST_ID, "#%u", error ? syn->stream : syn->stream - 2);
    return true;
}

static uint32_t on_open(void *arg, const struct spdy_frame *syn)
{
    struct portforward *s = arg;
    struct str type = value_of(syn, "streamtype");
    bool error = str_is(type, "error");
    char request[REQUEST_ID];
    struct forward *f;
    uint64_t port;

    if ((!error && !str_is(type, "data")) || !str_to_uint(value_of(syn, "port"), &port) || port < 1 ||
        port > UINT16_MAX || !request_id(syn, error, request))
        return SPDY_PROTOCOL_ERROR;
    for (f = s->forwards; f && !(streq(f->request, request) && !paired(f)); f = f->next)
        ;
    if (f && (f->port != port || (error ? f->error_id : f->data_id)))
        return SPDY_PROTOCOL_ERROR;
    if (!f && s->count >= PORTFORWARD_MAX)
        return SPDY_REFUSED_STREAM;
    if (!f)
        f = forward_new(s, request, (uint16_t)port);
    *(error ? &f->error_id : &f->data_id) = syn->stream;
    return 0;
}

static void take_data(struct forward *f, struct str data, bool fin)
{
    f->client_done |= fin;
    if (f->fd >= 0 && f->in.len == 0)
        write_target(f, &data);
    if (data.len > 0) {
        buf_str(&f->in, data);
        settle_pause(f->session);
    }
    tell_target(f);
    if (f->target_done && f->told_target)
        forward_end(f, "");
    else
        set_events(f);
}

static void on_data(void *arg, uint32_t stream, struct str data, bool fin)
{
    struct portforward *s = arg;

    for (struct forward *f = s->forwards; f; f = f->next)
        if (f->data_id == stream && !f->client_done) {
            take_data(f, data, fin);
            return;
        }
}

static void on_reset(void *arg, uint32_t stream)
{
    struct portforward *s = arg;

    for (struct forward *f = s->forwards; f && stream; f = f->next) {
        if (f->data_id == stream) {
            f->target_done = true; /* nothing may be sent on it any more */
            forward_end(f, "");
            return;
        }
        if (f->error_id == stream)
            f->error_done = true;
    }
}

/* Dials for what became complete. Not from on_open: its stream must be answered first. */
static void dial_new(struct portforward *s)
{
    for (struct forward *f = s->forwards, *next; f; f = next) {
        next = f->next;
        if (paired(f) && !f->dial && f->fd < 0)
            dial(f);
    }
}

/* ---- the session ---- */

static void on_input(void *arg, struct str data)
{
    struct portforward *s = arg;
    uint32_t before = s->spdy.last;

    spdy_server_input(&s->spdy, data);
    if (s->spdy.last != before && !wire_closed(s->wire))
        dial_new(s);
}

static void on_released(void *arg)
{
    struct portforward *s = arg;

    for (struct forward *f = s->forwards, *next; f; f = next) {
        next = f->next;
        forward_free(f);
    }
    loop_timer_free(s->timer);
    spdy_server_done(&s->spdy);
    free(s);
}

struct wire *portforward_new(const struct portforward_config *config)
{
    static const struct spdy_server_events spdy_events = {on_open, on_data, on_reset};
    static const struct wire_events events = {on_input, on_drained, on_released};
    struct portforward *s = NEW(struct portforward);

    s->config = *config;
    s->timer = loop_timer_new(config->loop, on_timer, s);
    s->wire = wire_new(config->websocket, &events, s);
    spdy_server_init(&s->spdy, s->wire, &spdy_events, s);
    return s->wire;
}
