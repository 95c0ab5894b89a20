/* berth inbox: what happened to the caller's jobs since the last look. */
#include "base/buf.h"
#include "cli/inbox.h"
#include "cli/queue_view.h"

#include <unistd.h>

#define ITEMS_MAX 200 /* a box has no more */

void inbox_hint(struct cli *cli, FILE *out)
{
    struct reply reply;
    struct err err = {0};
    int64_t count;

    if (!isatty(1) ||
        cli_try(cli, &(struct call){.method = "GET", .target = "/v1/inbox?unseen=1&limit=1"}, &reply, &err) <
            0 ||
        reply_exit(&reply) != CLI_OK)
        return;
    count = json_int(json_get(reply.doc, "unseen"), 0);
    if (count == 1)
        fputs("1 thing happened to your jobs: berth inbox\n", out);
    else if (count > 1)
        fprintf(out, "%lld things happened to your jobs: berth inbox\n", (long long)count);
}

const struct json *inbox_about(const struct json *items, const char *job)
{
    JSON_EACH(items, it)
        if (streq(json_get_string(it, "job"), job))
            return it;
    return NULL;
}

/* "over-memory" as people write it. */
static const char *kind_text(struct cli *cli, const struct json *item)
{
    char *text = arena_strdup(&cli->arena, json_string_or(json_get(item, "kind"), ""));

    for (char *c = text; *c; c++)
        *c = *c == '-' ? ' ' : *c;
    return text;
}

static void print_items(struct cli *cli, const struct json *items, FILE *out)
{
    static const char *const names[] = {"AGE", "WHAT", "JOB", "MORE"};
    struct grid grid = {.columns = ARRAY_LEN(names)};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        grid_add(&grid, names[i]);
    JSON_EACH(items, it) {
        grid_add(&grid, view_age(cli, json_get(it, "time")));
        grid_add(&grid, kind_text(cli, it));
        grid_add(&grid, json_string_or(json_get(it, "name"), "-"));
        grid_add(&grid, json_string_or(json_get(it, "text"), ""));
    }
    grid_print(&grid, out);
    grid_done(&grid);
}

static const char *target_of(struct cli *cli, const struct args *args)
{
    CLEANUP(buf_done) struct buf target = {0};

    buf_printf(&target, "/v1/inbox?limit=%d", ITEMS_MAX);
    if (!args_has(args, "all"))
        buf_puts(&target, "&unseen=1");
    if (args_has(args, "user")) {
        buf_puts(&target, "&user=");
        buf_url_encode(&target, str_from(args_get(args, "user")));
    }
    return arena_strndup(&cli->arena, target.data, target.len);
}

int verb_inbox(struct cli *cli, const struct args *args)
{
    const struct json *items;
    struct json *seen = json_new_object(&cli->arena);
    enum output output;
    struct reply reply, answer;
    struct err err = {0};
    int code;

    if (output_from(args, &output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    code = cli_get(cli, target_of(cli, args), &reply);
    if (code != CLI_OK)
        return code;
    items = json_get(reply.doc, "items");
    if (output == OUTPUT_JSON || output == OUTPUT_YAML)
        print_doc(items, output, stdout);
    else if (json_len(items))
        print_items(cli, items, stdout);
    else if (args_has(args, "all"))
        puts("nothing has happened to your jobs");
    else
        puts("nothing new (what has happened so far: berth inbox --all)");
    if (json_int(json_get(reply.doc, "unseen"), 0) == 0 || args_has(args, "keep") || args_has(args, "user"))
        return CLI_OK;
    json_set_int(&cli->arena, seen, "id", json_int(json_get(reply.doc, "last"), 0));
    return fflush(stdout) == 0 ? cli_send(cli, "POST", "/v1/inbox/seen", seen, &answer) : CLI_FAILED;
}
