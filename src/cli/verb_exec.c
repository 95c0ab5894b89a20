/* berth exec and attach, over the WebSocket protocol v5.channel.k8s.io: the first byte of a message is its
 * channel.
 *
 * One poll loop. stdin is read only while nothing waits to be sent, and the socket is written only when it is
 * ready, so that a command that writes much and reads little (or the other way round) never stops both of us.
 */
#include "cli/verb_exec.h"

#include "base/buf.h"
#include "base/file.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

enum { CH_STDIN, CH_STDOUT, CH_STDERR, CH_ERROR, CH_RESIZE };

/* ---- the socket ---- */

static bool has_header(const struct client_answer *answer, const char *name, const char *value)
{
    for (size_t i = 0; i < answer->header_count; i++)
        if (str_ieq(str_from(answer->headers[i].name), str_from(name)) &&
            streq(answer->headers[i].value, value))
            return true;
    return false;
}

int socket_open(struct cli *cli, struct socket *s, const char *target, const char *protocol)
{
    CLEANUP(buf_done) struct buf key = {0};
    struct client_answer answer = {.status = 0};
    struct err err = {0};
    char raw[16], accept[29];
    int code = CLI_OK;

    random_bytes(raw, sizeof(raw));
    buf_base64(&key, (struct str){raw, sizeof(raw)});
    websocket_accept(key.data, accept);
    struct http_header headers[] = {
        {"Connection", "Upgrade"},
        {"Upgrade", "websocket"},
        {"Sec-WebSocket-Version", "13"},
        {"Sec-WebSocket-Key", key.data},
        {"Sec-WebSocket-Protocol", protocol},
        {"User-Agent", "berth/" BERTH_VERSION},
    };

    if (client_upgrade(cli->client, "GET", target, headers, ARRAY_LEN(headers), &answer, &err) < 0)
        return cli_fail(CLI_FAILED, "%s", err.msg);
    if (answer.status != 101) {
        code = cli_refused(cli, answer.status, buf_view(&answer.body));
    } else if (!has_header(&answer, "Sec-WebSocket-Accept", accept) ||
               !has_header(&answer, "Sec-WebSocket-Protocol", protocol)) {
        code = cli_fail(CLI_FAILED, "%s does not speak %s", cli->where, protocol);
    } else {
        *s = (struct socket){.client = cli->client, .ws = websocket_new(false)};
    }
    client_answer_done(&answer);
    return code;
}

void socket_done(struct socket *s)
{
    websocket_free(TAKE_PTR(s->ws));
    buf_done(&s->out);
}

void socket_send(struct socket *s, enum websocket_type type, struct str payload)
{
    websocket_frame(&s->out, type, true, payload);
}

size_t socket_unsent(const struct socket *s)
{
    return s->out.len - s->out_at;
}

int socket_flush(struct socket *s, struct err *err)
{
    size_t len = socket_unsent(s) < STREAM_CHUNK ? socket_unsent(s) : STREAM_CHUNK;

    if (len == 0)
        return 0;
    if (client_write(s->client, (struct str){s->out.data + s->out_at, len}, err) < 0)
        return -1;
    s->out_at += len;
    if (s->out_at == s->out.len) {
        buf_clear(&s->out);
        s->out_at = 0;
    }
    return 0;
}

struct reading {
    struct socket *socket;
    int (*fn)(void *arg, enum websocket_type type, struct str payload);
    void *arg;
    bool closed;
};

static int on_message(void *arg, enum websocket_type type, struct str payload)
{
    struct reading *reading = arg;

    if (type == WEBSOCKET_PING)
        socket_send(reading->socket, WEBSOCKET_PONG, payload);
    reading->closed |= type == WEBSOCKET_CLOSE;
    return type == WEBSOCKET_PING || type == WEBSOCKET_PONG ? 0 : reading->fn(reading->arg, type, payload);
}

int socket_read(struct socket *s, int (*fn)(void *arg, enum websocket_type type, struct str payload),
                void *arg, struct err *err)
{
    static char data[64 << 10];
    struct reading reading = {.socket = s, .fn = fn, .arg = arg};
    ssize_t len = client_read(s->client, data, sizeof(data), err);

    if (len <= 0)
        return len < 0 ? -1 : 0;
    if (websocket_feed(s->ws, (struct str){data, (size_t)len}, on_message, &reading, err) < 0)
        return -1;
    return !reading.closed;
}

/* ---- one command ---- */

struct session {
    const struct remote *remote;
    struct socket socket;
    struct buf status; /* what came on the error channel */
    bool in_ended;
    bool out_broken; /* nobody reads what we print */
    int signals;     /* a signalfd; -1: none */
    int signal;      /* that ends us */
};

static void write_out(struct session *s, int fd, struct str data)
{
    while (data.len > 0 && !s->out_broken) {
        ssize_t len = write(fd, data.s, data.len);

        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0 && errno == EAGAIN) { /* somebody else made our terminal nonblocking */
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
            continue;
        }
        if (len < 0) {
            s->out_broken = true;
            return;
        }
        data = (struct str){data.s + len, data.len - (size_t)len};
    }
}

static int on_channel(void *arg, enum websocket_type type, struct str payload)
{
    struct session *s = arg;

    if (type != WEBSOCKET_BINARY || payload.len == 0)
        return 0;
    switch (payload.s[0]) {
    case CH_STDOUT:
        write_out(s, s->remote->out_fd, (struct str){payload.s + 1, payload.len - 1});
        break;
    case CH_STDERR:
        write_out(s, s->remote->err_fd, (struct str){payload.s + 1, payload.len - 1});
        break;
    case CH_ERROR:
        buf_add(&s->status, payload.s + 1, payload.len - 1);
        break;
    default:
        break;
    }
    return s->out_broken ? -1 : 0;
}

static void send_channel(struct session *s, unsigned char channel, struct str data)
{
    CLEANUP(buf_done) struct buf message = {0};

    buf_putc(&message, (char)channel);
    buf_str(&message, data);
    socket_send(&s->socket, WEBSOCKET_BINARY, buf_view(&message));
}

static void send_stdin(struct session *s)
{
    char data[STREAM_CHUNK - 64];
    ssize_t len = read(s->remote->in_fd, data, sizeof(data));

    if (len < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (len > 0) {
        send_channel(s, CH_STDIN, (struct str){data, (size_t)len});
        return;
    }
    s->in_ended = true;
    send_channel(s, 255, (struct str){"", 1}); /* the end of channel 0 */
}

static void send_size(struct session *s)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct winsize size;

    if (ioctl(s->remote->in_fd, TIOCGWINSZ, &size) < 0 || size.ws_col == 0 || size.ws_row == 0)
        return;
    buf_printf(&text, "{\"Width\":%u,\"Height\":%u}\n", size.ws_col, size.ws_row);
    send_channel(s, CH_RESIZE, buf_view(&text));
}

static void take_signal(struct session *s)
{
    struct signalfd_siginfo info;

    if (read(s->signals, &info, sizeof(info)) != sizeof(info))
        return;
    if (info.ssi_signo == SIGWINCH)
        send_size(s);
    else
        s->signal = (int)info.ssi_signo;
}

/* 0: the server has closed the connection. */
static int pump(struct session *s, struct err *err)
{
    int more = 1;

    while (more > 0 && !s->signal) {
        bool unsent = socket_unsent(&s->socket) > 0, pending = client_pending(s->socket.client);
        bool reads = s->remote->in && !s->in_ended && !unsent;
        struct pollfd fds[] = {
            {.fd = client_fd(s->socket.client), .events = (short)(POLLIN | (unsent ? POLLOUT : 0))},
            {.fd = reads ? s->remote->in_fd : -1, .events = POLLIN},
            {.fd = s->signals, .events = POLLIN},
        };

        if (poll(fds, ARRAY_LEN(fds), pending ? 0 : -1) < 0) {
            if (errno != EINTR)
                return err_errno(err, errno, "poll");
            continue;
        }
        if (fds[2].revents)
            take_signal(s);
        if ((fds[0].revents & POLLOUT) && socket_flush(&s->socket, err) < 0 && !(fds[0].revents & POLLIN))
            return -1;
        if (pending || (fds[0].revents & (POLLIN | POLLHUP | POLLERR)))
            more = socket_read(&s->socket, on_channel, s, err);
        if (fds[1].revents)
            send_stdin(s);
    }
    return more;
}

/* What the Status on the error channel says. */
static int read_status(struct cli *cli, struct session *s, int *ret_code)
{
    struct json *doc = NULL;
    const char *message;
    int64_t code;

    if (s->status.len == 0 || json_parse(buf_view(&s->status), &cli->arena, &doc, NULL, NULL) < 0)
        return cli_fail(CLI_FAILED, "the connection was cut");
    *ret_code = 0;
    if (streq(json_get_string(doc, "status"), "Success"))
        return CLI_OK;
    message = json_string_or(json_get(doc, "message"), "it failed");
    JSON_EACH(json_at(doc, "details.causes"), it)
        if (streq(json_get_string(it, "reason"), "ExitCode") &&
            str_to_int(json_str(json_get(it, "message")), &code)) {
            *ret_code = (int)code;
            return CLI_OK;
        }
    return cli_fail(CLI_FAILED, "%s", message);
}

static int open_session(struct cli *cli, struct session *s)
{
    const struct remote *r = s->remote;
    CLEANUP(buf_done) struct buf target = {0};

    target_path(&target, r->ns, r->pod, r->argv ? "exec" : "attach");
    for (size_t i = 0; r->argv && r->argv[i]; i++)
        target_param(&target, "command", r->argv[i]);
    if (r->container)
        target_param(&target, "container", r->container);
    target_param(&target, "stdin", r->in ? "true" : "false");
    target_param(&target, "stdout", "true");
    target_param(&target, r->tty ? "tty" : "stderr", "true");
    return socket_open(cli, &s->socket, target.data, "v5.channel.k8s.io");
}

static int run_session(struct cli *cli, struct session *s, int *ret_code)
{
    struct err err = {0};
    int result;

    if (s->remote->tty)
        send_size(s);
    result = pump(s, &err);
    if (s->signal) {
        *ret_code = 128 + s->signal;
        return CLI_OK;
    }
    if (s->out_broken) {
        *ret_code = 128 + SIGPIPE;
        return CLI_OK;
    }
    if (result < 0 && s->status.len == 0)
        return cli_fail(CLI_FAILED, "%s", err.msg);
    return read_status(cli, s, ret_code);
}

int remote_run(struct cli *cli, const struct remote *remote, int *ret_code)
{
    struct session s = {.remote = remote, .signals = -1};
    struct termios before;
    sigset_t signals, old;
    int code = open_session(cli, &s);
    bool raw = code == CLI_OK && remote->tty && remote->in && tcgetattr(remote->in_fd, &before) == 0;

    if (code != CLI_OK)
        return code;
    signal(SIGPIPE, SIG_IGN);
    if (raw) {
        struct termios now = before;

        /* Ctrl-C and the like go to the command; what would kill us must not leave the terminal raw. */
        sigemptyset(&signals);
        for (size_t i = 0; i < 3; i++)
            sigaddset(&signals, (const int[]){SIGWINCH, SIGTERM, SIGHUP}[i]);
        sigprocmask(SIG_BLOCK, &signals, &old);
        s.signals = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
        cfmakeraw(&now);
        tcsetattr(remote->in_fd, TCSADRAIN, &now);
    }
    code = run_session(cli, &s, ret_code);
    if (raw) {
        tcsetattr(remote->in_fd, TCSADRAIN, &before);
        sigprocmask(SIG_SETMASK, &old, NULL);
    }
    fd_close(s.signals);
    socket_done(&s.socket);
    buf_done(&s.status);
    return code;
}

/* Finding the pod has made the connection. */
static int run_in_pod(struct cli *cli, const struct args *args, const char *const *argv)
{
    struct remote remote = {.container = args_get(args, "container"),
                            .argv = argv,
                            .in = args_has(args, "stdin"),
                            .tty = args_has(args, "tty"),
                            .out_fd = 1,
                            .err_fd = 2};
    struct target target;
    int exit_code = 0, code = target_find_live(cli, args, args->rest[0], &target);

    if (code != CLI_OK)
        return code;
    remote.ns = target.ns;
    remote.pod = target.pod;
    if (remote.tty && remote.in && !isatty(0)) {
        fputs("berth: stdin is no terminal, so -t is left out\n", stderr);
        remote.tty = false;
    }
    code = remote_run(cli, &remote, &exit_code);
    return code == CLI_OK ? exit_code : code;
}

int verb_exec(struct cli *cli, const struct args *args)
{
    return run_in_pod(cli, args, (const char *const *)(args->rest + 1));
}

int verb_attach(struct cli *cli, const struct args *args)
{
    return run_in_pod(cli, args, NULL);
}
