/* The client's request says what it speaks: `Upgrade: SPDY/3.1` with X-Stream-Protocol-Version lines, or
 * `Upgrade: websocket` with Sec-WebSocket-Protocol. The first of the client's that we know is taken. */
#include "api/kube/stream.h"

#include "api/kube/portforward.h"
#include "api/kube/stream_exec.h"
#include "net/websocket.h"

#define ARGV_MAX 1024 /* words of a command */

struct protocol {
    const char *name;
    int version;
};

static const struct protocol exec_spdy[] = {
    {"v4.channel.k8s.io", 4},
    {"v3.channel.k8s.io", 3},
    {"v2.channel.k8s.io", 2},
    {"channel.k8s.io", 1},
    {NULL, 0},
};
static const struct protocol exec_websocket[] = {
    {"v5.channel.k8s.io", 5},
    {"v4.channel.k8s.io", 4},
    {NULL, 0},
};
static const struct protocol forward_spdy[] = {{"portforward.k8s.io", 1}, {NULL, 0}};
static const struct protocol forward_websocket[] = {{"SPDY/3.1+portforward.k8s.io", 1}, {NULL, 0}};

/* How the connection goes on. */
struct upgrade {
    bool websocket;
    const char *protocol; /* as answered; NULL: the client named none */
    int version;
};

/* ---- negotiation ---- */

/* The first of the lines `name` (each a list with commas) that is in the table. */
static const struct protocol *choose(const struct http_req *req, const char *name,
                                     const struct protocol *table, struct buf *offered)
{
    for (size_t i = 0; i < req->header_count; i++) {
        struct str rest = str_from(req->headers[i].value), word;

        if (!str_ieq(str_from(req->headers[i].name), str_from(name)))
            continue;
        while (str_split(&rest, ',', &word)) {
            word = str_trim(word);
            for (const struct protocol *row = table; row->name; row++)
                if (str_is(word, row->name))
                    return row;
            buf_printf(offered, "%s%.*s", offered->len ? " " : "", STR_ARG(word));
        }
    }
    return NULL;
}

static void refuse_protocol(struct call *call, const struct protocol *table, const char *header,
                            const char *offered)
{
    CLEANUP(buf_done) struct buf known = {0}, body = {0};
    struct http_header headers[8];
    size_t count = 0;

    for (; table->name; table++) {
        buf_printf(&known, "%s%s", known.len ? " " : "", table->name);
        headers[count++] = (struct http_header){header, table->name};
    }
    failure_set(&call->failure, call->arena, 403, "Forbidden",
                "unable to upgrade: unable to negotiate protocol: client supports [%s], server accepts [%s]",
                offered ? offered : "", known.data);
    json_write(&body, failure_to_json(&call->failure, call->arena));
    http_reply_buf(call->req, 403, "application/json", headers, header ? count : 0, &body);
}

static bool upgrade_is(const struct http_req *req, const char *protocol)
{
    const char *upgrade = http_req_header(req, "Upgrade");

    return upgrade && str_ieq(str_from(upgrade), str_from(protocol));
}

/* False: the request was answered. */
static bool negotiate(struct call *call, const struct protocol *spdy, const struct protocol *websocket,
                      struct upgrade *ret)
{
    CLEANUP(buf_done) struct buf offered = {0};
    const struct protocol *chosen;
    const char *key;

    *ret = (struct upgrade){.websocket = upgrade_is(call->req, "websocket"), .version = 1};
    if (ret->websocket) {
        key = http_req_header(call->req, "Sec-WebSocket-Key");
        if (!key || strlen(key) != 24 || !streq(http_req_header(call->req, "Sec-WebSocket-Version"), "13")) {
            failure_bad_request(&call->failure, call->arena, "not a WebSocket handshake of version 13");
            call_fail(call);
            return false;
        }
        chosen = choose(call->req, "Sec-WebSocket-Protocol", websocket, &offered);
    } else if (upgrade_is(call->req, "SPDY/3.1")) {
        chosen = choose(call->req, "X-Stream-Protocol-Version", spdy, &offered);
        if (!chosen && offered.len == 0 && spdy == exec_spdy)
            return true; /* the oldest clients name none */
    } else {
        failure_bad_request(&call->failure, call->arena, "Upgrade request required");
        call_fail(call);
        return false;
    }
    if (!chosen) {
        refuse_protocol(call, ret->websocket ? websocket : spdy,
                        ret->websocket ? NULL : "X-Accepted-Stream-Protocol-Versions", offered.data);
        return false;
    }
    ret->protocol = chosen->name;
    ret->version = chosen->version;
    return true;
}

/* ---- the connection ---- */

static void http_data(void *arg, struct str data)
{
    wire_input(arg, data);
}

static void http_drained(void *arg)
{
    wire_drained(arg);
}

static void http_closed(void *arg, const char *why)
{
    (void)why;
    wire_gone(arg);
}

static void io_write(void *conn, struct str data)
{
    http_conn_write(conn, data);
}

static size_t io_unsent(void *conn)
{
    return http_conn_unsent(conn);
}

static void io_pause(void *conn, bool paused)
{
    http_conn_pause(conn, paused);
}

static void io_close(void *conn)
{
    http_conn_close(conn);
}

static void switch_protocols(struct call *call, const struct upgrade *upgrade, struct wire *wire)
{
    static const struct http_conn_ops ops = {http_data, http_drained, http_closed};
    static const struct wire_io io = {io_write, io_unsent, io_pause, io_close};
    struct http_header headers[2];
    size_t count = 0;
    char accept[29];

    if (upgrade->websocket) {
        websocket_accept(http_req_header(call->req, "Sec-WebSocket-Key"), accept);
        headers[count++] = (struct http_header){"Sec-WebSocket-Accept", accept};
    }
    if (upgrade->protocol)
        headers[count++] = (struct http_header){
            upgrade->websocket ? "Sec-WebSocket-Protocol" : "X-Stream-Protocol-Version", upgrade->protocol};
    wire_open(
        wire, &io,
        http_upgrade(call->req, upgrade->websocket ? "websocket" : "SPDY/3.1", headers, count, &ops, wire));
}

/* ---- the three ---- */

struct pod_ref stream_pod_ref(const struct object *pod, struct arena *arena)
{
    return (struct pod_ref){arena_strdup(arena, pod->ns), arena_strdup(arena, pod->name),
                            arena_strdup(arena, pod->uid)};
}

/* False: the engine says no, and the request was answered. */
static bool check_pod(struct call *call, const struct pod_ref *pod, const char *container)
{
    const struct pod_ops *ops = call->api->config.pod_ops;
    struct err err = {0};

    if (!ops->check || ops->check(ops->arg, pod, container, &err) == 0)
        return true;
    call_fail_err(call, &err);
    return false;
}

static void begin_exec(struct call *call, const struct object *pod, const char *container,
                       const char *const *argv)
{
    struct stream_exec_config config = {
        .loop = call->api->config.loop,
        .ops = call->api->config.pod_ops,
        .pod = stream_pod_ref(pod, call->arena),
        .exec = {.container = arena_strdup(call->arena, container),
                 .argv = argv,
                 .tty = query_bool(call, "tty"),
                 .in = query_bool(call, "stdin"),
                 .out = query_bool(call, "stdout"),
                 .err = query_bool(call, "stderr") && !query_bool(call, "tty")},
    };
    struct stream_exec *session;
    struct upgrade upgrade;
    struct wire *wire;

    if (!config.exec.in && !config.exec.out && !config.exec.err) {
        failure_bad_request(&call->failure, call->arena,
                            "you must specify at least 1 of stdin, stdout, stderr");
        call_fail(call);
        return;
    }
    if (!check_pod(call, &config.pod, config.exec.container) ||
        !negotiate(call, exec_spdy, exec_websocket, &upgrade))
        return;
    config.version = upgrade.version;
    config.websocket = upgrade.websocket;
    session = stream_exec_new(&config, &wire);
    switch_protocols(call, &upgrade, wire);
    stream_exec_begin(session);
}

void stream_exec(struct call *call, const struct object *pod, const char *container)
{
    const char **argv = arena_zalloc(call->arena, (ARGV_MAX + 2) * sizeof(*argv));
    size_t count = 0;

    while (count <= ARGV_MAX && (argv[count] = http_query(call->req, "command", count)))
        count++;
    if (count == 0 || count > ARGV_MAX) {
        failure_bad_request(&call->failure, call->arena, "%s",
                            count ? "the command has too many words" : "you must specify a command");
        call_fail(call);
        return;
    }
    begin_exec(call, pod, container, argv);
}

void stream_attach(struct call *call, const struct object *pod, const char *container)
{
    begin_exec(call, pod, container, NULL);
}

void stream_portforward(struct call *call, const struct object *pod, const char *container)
{
    struct portforward_config config = {.loop = call->api->config.loop,
                                        .ops = call->api->config.pod_ops,
                                        .pod = stream_pod_ref(pod, call->arena)};
    struct upgrade upgrade;

    if (!check_pod(call, &config.pod, container) ||
        !negotiate(call, forward_spdy, forward_websocket, &upgrade))
        return;
    config.websocket = upgrade.websocket;
    switch_protocols(call, &upgrade, portforward_new(&config));
}
