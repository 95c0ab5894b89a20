/* berth queue, top: what runs, what waits, on which cards. */
#include "base/buf.h"
#include "cli/inbox.h"
#include "cli/queue_view.h"

#include <unistd.h>

struct queue_view {
    const char *target;
    bool wide, groups;
    void (*print)(struct cli *cli, const struct queue_view *view, const struct json *doc, FILE *out);
};

static void print_queue(struct cli *cli, const struct queue_view *view, const struct json *doc, FILE *out)
{
    view_queue(cli, doc, view->wide, view->groups, out);
}

static void print_nodes(struct cli *cli, const struct queue_view *view, const struct json *doc, FILE *out)
{
    (void)view;
    view_nodes(cli, doc, out);
}

static int draw(struct cli *cli, void *arg, FILE *out, struct err *err)
{
    const struct queue_view *view = arg;
    struct reply reply;

    if (cli_try(cli, &(struct call){.method = "GET", .target = view->target}, &reply, err) < 0)
        return -1;
    if (reply_exit(&reply) != CLI_OK)
        return err_set(err, ERR_INVALID, "%s", reply_message(cli, &reply));
    view->print(cli, view, reply.doc, out);
    return CLI_OK;
}

/* Asks once in any case, so that what is wrong is said before the screen is taken. */
static int show(struct cli *cli, const struct args *args, struct queue_view *view, bool watch)
{
    enum output output;
    struct reply reply;
    struct err err = {0};
    int code;

    if (output_from(args, &output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    code = cli_get(cli, view->target, &reply);
    if (code != CLI_OK)
        return code;
    if (output == OUTPUT_JSON || output == OUTPUT_YAML) {
        print_doc(reply.doc, output, stdout);
        return CLI_OK;
    }
    view->wide = output == OUTPUT_WIDE;
    view->groups = isatty(1);
    if (watch)
        return screen_run(cli, draw, view);
    view->print(cli, view, reply.doc, stdout);
    if (view->print == print_queue)
        inbox_hint(cli, stdout);
    return CLI_OK;
}

int verb_queue(struct cli *cli, const struct args *args)
{
    CLEANUP(buf_done) struct buf target = {0};
    const char *user = args_get(args, "user"), *state = args_get(args, "state");
    struct queue_view view = {.print = print_queue};

    buf_puts(&target, "/v1/queue");
    if (user) {
        buf_puts(&target, "?user=");
        buf_url_encode(&target, str_from(user));
    }
    if (state) {
        buf_printf(&target, "%cstate=", user ? '&' : '?');
        buf_url_encode(&target, str_from(state));
    }
    view.target = arena_strndup(&cli->arena, target.data, target.len);
    return show(cli, args, &view, args_has(args, "watch"));
}

int verb_top(struct cli *cli, const struct args *args)
{
    struct queue_view view = {.target = "/v1/nodes", .print = print_nodes};

    return show(cli, args, &view, !args_has(args, "once"));
}
