/* Which daemon: --server or $BERTH_SERVER; else the socket of --data; else the machine's socket, then the one
 * in the user's own data folder, whichever answers first. */
#include "base/file.h"
#include "base/yaml.h"
#include "cli/cli.h"
#include "net/client.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define SYSTEM_CONFIG "/etc/berth/berthd.yaml"
#define SYSTEM_DATA   "/var/lib/berth"
#define SYSTEM_SOCKET "/run/berth/berth.sock"

void cli_done(struct cli *cli)
{
    client_free(cli->client);
    arena_done(&cli->arena);
}

int cli_fail(int code, const char *fmt, ...)
{
    va_list ap;

    fflush(stdout);
    fputs("berth: ", stderr);
    va_start(ap, fmt);
    cli_vsay(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    return code;
}

int cli_usage_error(const struct verb *verb, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "%s%s: ", verb->link ? "" : "berth ", verb->name);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fprintf(stderr, ": see '%s%s --help'\n", verb->link ? "" : "berth ", verb->name);
    return CLI_USAGE;
}

/* ---- where ---- */

bool socket_answers(const char *path, pid_t *pid)
{
    CLEANUP(fd_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    struct ucred peer = {.pid = 0};
    socklen_t len = sizeof(peer);

    if (fd < 0 || strlen(path) >= sizeof(addr.sun_path))
        return false;
    memcpy(addr.sun_path, path, strlen(path) + 1);
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        return false;
    if (pid)
        *pid = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 ? peer.pid : 0;
    return true;
}

static const char *user_data_dir(struct cli *cli)
{
    const char *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");

    if (geteuid() == 0)
        return SYSTEM_DATA;
    if (xdg && xdg[0] == '/')
        return arena_printf(&cli->arena, "%s/berth", xdg);
    return arena_printf(&cli->arena, "%s/.local/share/berth", home ? home : "");
}

static const char *absolute(struct cli *cli, const char *path)
{
    CLEANUP(free) char *cwd = path[0] == '/' ? NULL : getcwd(NULL, 0);

    return cwd ? arena_printf(&cli->arena, "%s/%s", cwd, path) : path;
}

/* The settings of a config file, as far as they say where the daemon is. NULL: no such file, or not readable:
 * berthd itself says what is wrong with it. */
static struct json *read_config(struct cli *cli, const char *path)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct json *doc = NULL;

    if (!path || file_read(path, 1 << 20, &text, NULL) < 0)
        return NULL;
    return yaml_parse_one(buf_view(&text), &cli->arena, &doc, NULL) < 0 ? NULL : doc;
}

struct place cli_place(struct cli *cli, const char *config_file)
{
    struct place place = {.data_dir = cli->data_flag ? absolute(cli, cli->data_flag) : user_data_dir(cli)};
    struct json *config = NULL;

    if (config_file)
        config = read_config(cli, config_file);
    else if (geteuid() == 0 && !cli->data_flag)
        config = read_config(cli, SYSTEM_CONFIG);
    if (!config && !config_file)
        config = read_config(cli, arena_printf(&cli->arena, "%s/berthd.yaml", place.data_dir));
    if (!cli->data_flag && json_get_string(config, "data"))
        place.data_dir = json_get_string(config, "data");
    if (json_get_string(config, "socket"))
        place.socket = json_get_string(config, "socket");
    else if (geteuid() == 0 && streq(place.data_dir, SYSTEM_DATA))
        place.socket = SYSTEM_SOCKET;
    else
        place.socket = arena_printf(&cli->arena, "%s/berth.sock", place.data_dir);
    return place;
}

/* The URL to ask, or NULL after saying that nobody is there. */
static const char *find_server(struct cli *cli)
{
    struct place place;

    if (cli->server && cli->server[0])
        return cli->server[0] == '/' ? arena_printf(&cli->arena, "unix:%s", cli->server) : cli->server;
    if (!cli->data_flag && socket_answers(SYSTEM_SOCKET, NULL))
        return "unix:" SYSTEM_SOCKET;
    place = cli_place(cli, NULL);
    if (socket_answers(place.socket, NULL))
        return arena_printf(&cli->arena, "unix:%s", place.socket);
    if (cli->data_flag || streq(place.socket, SYSTEM_SOCKET))
        cli_fail(0, "no Berth daemon at %s: start one with 'berth up'", place.socket);
    else
        cli_fail(0, "no Berth daemon at %s or %s: start one with 'berth up'", SYSTEM_SOCKET, place.socket);
    return NULL;
}

/* ---- asking ---- */

static int connect_once(struct cli *cli)
{
    const char *url;

    if (cli->client)
        return CLI_OK;
    url = find_server(cli);
    if (!url)
        return CLI_UNREACHABLE;
    cli->where = starts_with(url, "unix:") ? url + strlen("unix:") : url;
    cli->client =
        client_new(&(struct client_config){.url = url, .ca_path = cli->ca_path, .token = cli->token});
    return CLI_OK;
}

int cli_again(struct cli *cli, struct cli *ret)
{
    int code;

    *ret = (struct cli){
        .server = cli->server, .data_flag = cli->data_flag, .ca_path = cli->ca_path, .token = cli->token};
    code = connect_once(ret);
    ret->where = code == CLI_OK ? arena_strdup(&cli->arena, ret->where) : NULL;
    return code;
}

/* NULL: there is none. */
static const char *answer_header(const struct client_answer *answer, const char *name)
{
    for (size_t i = 0; i < answer->header_count; i++)
        if (str_ieq(str_from(answer->headers[i].name), str_from(name)))
            return answer->headers[i].value;
    return NULL;
}

static bool is_json(const struct client_answer *answer)
{
    const char *type = answer_header(answer, "Content-Type");

    return type && starts_with(type, "application/json");
}

int cli_try(struct cli *cli, const struct call *call, struct reply *ret, struct err *err)
{
    struct http_header headers[] = {
        {"Accept", call->accept ? call->accept : "application/json"},
        {"User-Agent", "berth/" BERTH_VERSION},
        {"Content-Type", call->content_type ? call->content_type : "application/json"},
    };
    struct client_answer answer = {.status = 0};
    int result = client_do(cli->client, call->method, call->target, headers, call->body.s ? 3 : 2, call->body,
                           &answer, err);

    *ret = (struct reply){.status = answer.status};
    if (result == 0) {
        ret->id = arena_strdup(&cli->arena, answer_header(&answer, "X-Request-Id"));
        ret->text = (struct str){
            arena_strndup(&cli->arena, answer.body.data ? answer.body.data : "", answer.body.len),
            answer.body.len};
        if (is_json(&answer))
            result = json_parse(ret->text, &cli->arena, &ret->doc, NULL, err);
        if (ret->doc && isatty(STDOUT_FILENO))
            doc_tame(ret->doc);
    }
    client_answer_done(&answer);
    return result;
}

int cli_ask(struct cli *cli, const struct call *call, struct reply *ret)
{
    struct err err = {0};
    int code = connect_once(cli);

    if (code != CLI_OK)
        return code;
    if (cli_try(cli, call, ret, &err) == 0)
        return CLI_OK;
    if (err.code == ERR_UNAVAILABLE && starts_with(cli->where, "http")) /* certificates, names, firewalls */
        return cli_fail(CLI_UNREACHABLE, "no Berth daemon answers: %s", err.msg);
    if (err.code == ERR_UNAVAILABLE)
        return cli_fail(CLI_UNREACHABLE, "no Berth daemon at %s: start one with 'berth up'", cli->where);
    if (ret->status)
        return cli_fail(CLI_FAILED, "%s answered with broken JSON: %s", cli->where, err.msg);
    return cli_fail(CLI_FAILED, "%s: %s", cli->where, err.msg);
}

const char *reply_message(struct cli *cli, const struct reply *reply)
{
    const char *message = json_get_string(reply->doc, "message");
    const char *id = reply->id ? reply->id : json_get_string(reply->doc, "requestId");

    if (!message)
        message = json_get_string(reply->doc, "error");
    if (!message || !message[0])
        message = arena_printf(&cli->arena, "%s answered with status %d", cli->where, reply->status);
    if (reply->status < 500 || !id)
        return message;
    return arena_printf(&cli->arena, "%s (request %s in berthd's log)", message, id);
}

int reply_exit(const struct reply *reply)
{
    switch (reply->status) {
    case 401:
    case 403:
        return CLI_DENIED;
    case 404:
        return CLI_NOT_FOUND;
    case 409:
        return CLI_CONFLICT;
    default:
        return reply->status >= 200 && reply->status < 300 ? CLI_OK : CLI_FAILED;
    }
}

int cli_refused(struct cli *cli, int status, struct str body)
{
    struct reply reply = {.status = status};

    (void)json_parse(body, &cli->arena, &reply.doc, NULL, NULL);
    return cli_fail(reply_exit(&reply) ? reply_exit(&reply) : CLI_FAILED, "%s", reply_message(cli, &reply));
}

int cli_call(struct cli *cli, const struct call *call, struct reply *ret)
{
    int code = cli_ask(cli, call, ret);

    if (code != CLI_OK)
        return code;
    code = reply_exit(ret);
    return code == CLI_OK ? CLI_OK : cli_fail(code, "%s", reply_message(cli, ret));
}

int cli_get(struct cli *cli, const char *target, struct reply *ret)
{
    return cli_call(cli, &(struct call){.method = "GET", .target = target}, ret);
}

int cli_send(struct cli *cli, const char *method, const char *target, const struct json *body,
             struct reply *ret)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct call call = {.method = method, .target = target};

    if (body) {
        json_write(&text, body);
        call.body = buf_view(&text);
    }
    return cli_call(cli, &call, ret);
}

/* ---- answers that are printed as they come ---- */

struct printing {
    int status;
    struct buf refusal;
};

static int print_piece(void *arg, struct str data)
{
    struct printing *p = arg;

    if (p->status != 200) {
        buf_str(&p->refusal, data);
        return 0;
    }
    while (data.len > 0) {
        ssize_t len = write(STDOUT_FILENO, data.s, data.len);

        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return -1;
        data = (struct str){data.s + len, data.len - (size_t)len};
    }
    return 0;
}

int cli_print(struct cli *cli, const char *target)
{
    struct printing printing = {0};
    struct err err = {0};
    int code = CLI_OK;

    if (client_stream(cli->client, "GET", target, NULL, 0, (struct str){0}, &printing.status, print_piece,
                      &printing, &err) < 0)
        code = cli_fail(CLI_FAILED, "%s", err.msg);
    if (code == CLI_OK && reply_exit(&(struct reply){.status = printing.status}) != CLI_OK)
        code = cli_refused(cli, printing.status, buf_view(&printing.refusal));
    buf_done(&printing.refusal);
    return code;
}

int cli_whoami(struct cli *cli, struct reply *ret)
{
    static const char review[] =
        "{\"apiVersion\":\"authentication.k8s.io/v1\",\"kind\":\"SelfSubjectReview\"}";

    return cli_call(cli,
                    &(struct call){.method = "POST",
                                   .target = "/apis/authentication.k8s.io/v1/selfsubjectreviews",
                                   .body = {review, sizeof(review) - 1}},
                    ret);
}

const char *cli_namespace(struct cli *cli, const struct args *args, int *code)
{
    const char *given = args_get(args, "namespace"), *user;
    struct reply reply;

    if (given)
        return given;
    *code = cli_whoami(cli, &reply);
    if (*code != CLI_OK)
        return NULL;
    user = json_at_string(reply.doc, "status.userInfo.username");
    JSON_EACH(json_at(reply.doc, "status.userInfo.groups"), it)
        if (streq(json_string(it), "system:masters"))
            return "default";
    return user && !strchr(user, ':') ? user : "default";
}
