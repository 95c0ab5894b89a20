/* berth prune: lets finished work go now, or says what would go. */
#include "cli/cli.h"

static int read_limits(struct cli *cli, const struct args *args, struct json *body)
{
    const char *age = args_get(args, "older-than"), *keep = args_get(args, "keep");
    int64_t n;

    if (age) {
        if (!parse_ttl(age, &n) || n < 1)
            return cli_usage_error(args->verb, "--older-than %s: a time such as 7d, 12h or 30m", age);
        json_set_int(&cli->arena, body, "olderThanSeconds", n);
    }
    if (keep) {
        if (!str_to_int(str_from(keep), &n) || n < 1)
            return cli_usage_error(args->verb, "--keep %s: a number from 1", keep);
        json_set_int(&cli->arena, body, "keep", n);
    }
    return CLI_OK;
}

int verb_prune(struct cli *cli, const struct args *args)
{
    static const struct column columns[] = {
        {"KIND", "kind", CELL_TEXT},   {"NAMESPACE", "namespace", CELL_TEXT},
        {"NAME", "name", CELL_TEXT},   {"FINISHED", "finished", CELL_AGE},
        {"BYTES", "bytes", CELL_TEXT}, {"BECAUSE OF", "reason", CELL_TEXT}};
    struct json *body = json_new_object(&cli->arena);
    const struct json *items;
    enum output output;
    struct reply reply;
    struct err err = {0};
    bool dry = args_has(args, "dry-run");
    int code;

    if (output_from(args, &output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    code = read_limits(cli, args, body);
    if (code == CLI_OK)
        code = cli_send(cli, "POST", dry ? "/v1/prune?dryRun=1" : "/v1/prune", body, &reply);
    if (code != CLI_OK)
        return code;
    items = json_get(reply.doc, "items");
    if (output != OUTPUT_TABLE)
        print_doc(reply.doc, output, stdout);
    else if (!json_len(items))
        puts("nothing to prune");
    else
        print_columns(cli, items, columns, ARRAY_LEN(columns), stdout);
    return CLI_OK;
}
