/* berth image list, pull, import, rm, gc: what the machine has to run containers from. */
#include "base/mem.h"
#include "cli/image_tools.h"
#include "net/client.h"

#include <stdlib.h>

static const char *size_text(struct cli *cli, int64_t bytes)
{
    return bytes >= 1000000 ? arena_printf(&cli->arena, "%.1f MB", (double)bytes / 1e6)
                            : arena_printf(&cli->arena, "%.1f kB", (double)bytes / 1e3);
}

int verb_image_list(struct cli *cli, const struct args *args)
{
    static const char *const heads[] = {"NAME", "ID", "LAYERS", "SIZE", "USED", "IN USE"};
    struct grid grid = {.columns = ARRAY_LEN(heads)};
    enum output output;
    struct reply reply;
    struct err err = {0};
    int code;

    if (output_from(args, &output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    code = cli_get(cli, "/v1/images", &reply);
    if (code != CLI_OK)
        return code;
    if (output == OUTPUT_JSON || output == OUTPUT_YAML) {
        print_doc(reply.doc, output, stdout);
        return CLI_OK;
    }
    for (size_t i = 0; i < ARRAY_LEN(heads); i++)
        grid_add(&grid, heads[i]);
    JSON_EACH(json_get(reply.doc, "items"), it) {
        const char *id = json_string_or(json_get(it, "id"), "sha256:");

        grid_add(&grid, json_string_or(json_get(it, "name"), ""));
        grid_add(&grid, arena_printf(&cli->arena, "%.12s", strlen(id) > 7 ? id + 7 : id));
        grid_add(&grid, arena_printf(&cli->arena, "%lld", (long long)json_int(json_get(it, "layers"), 0)));
        grid_add(&grid, size_text(cli, json_int(json_get(it, "unpackedBytes"), 0)));
        grid_add(&grid, json_string_or(json_get(it, "used"), ""));
        grid_add(&grid, json_bool(json_get(it, "inUse")) ? "yes" : "no");
    }
    grid_print(&grid, stdout);
    grid_done(&grid);
    return CLI_OK;
}

int verb_image_pull(struct cli *cli, const struct args *args)
{
    CLEANUP(buf_done) struct buf target = {0};
    struct image_lines lines = image_lines_new();
    struct reply reply;
    struct err err = {0};
    int status = 0, code = cli_get(cli, "/version", &reply); /* connects */

    if (code != CLI_OK)
        return code;
    buf_puts(&target, "/v1/images/pull?name=");
    buf_url_encode(&target, str_from(args->rest[0]));
    buf_puts(&target, lines.tty ? "&progress=1" : "");
    if (client_stream(cli->client, "POST", target.data, NULL, 0, (struct str){0}, &status, image_lines_take,
                      &lines, &err) < 0)
        code = cli_fail(CLI_FAILED, "%s", err.msg);
    else if (status != 200)
        code = cli_fail(CLI_FAILED, "%s answered with status %d", cli->where, status);
    else if (!lines.ok)
        code = CLI_FAILED;
    else
        printf("%s is here\n", args->rest[0]);
    buf_done(&lines.rest);
    return code;
}

int verb_image_import(struct cli *cli, const struct args *args)
{
    int code = image_upload(cli, args->rest[0], args->rest[1]);

    if (code == CLI_OK)
        printf("%s is here: image: %s\n", args->rest[1], args->rest[1]);
    return code;
}

int verb_image_rm(struct cli *cli, const struct args *args)
{
    struct reply reply;

    for (int i = 0; i < args->count; i++) {
        CLEANUP(buf_done) struct buf target = {0};
        int code;

        buf_puts(&target, "/v1/images?name=");
        buf_url_encode(&target, str_from(args->rest[i]));
        code = cli_send(cli, "DELETE", target.data, NULL, &reply);
        if (code != CLI_OK)
            return code;
        printf("%s removed\n", args->rest[i]);
    }
    return CLI_OK;
}

int verb_image_gc(struct cli *cli, const struct args *args)
{
    struct reply reply;
    int code = cli_send(cli, "POST", "/v1/images/gc", NULL, &reply);

    (void)args;
    if (code == CLI_OK)
        printf("%lld images and %lld layers removed, %s freed\n",
               (long long)json_int(json_get(reply.doc, "images"), 0),
               (long long)json_int(json_get(reply.doc, "layers"), 0),
               size_text(cli, json_int(json_get(reply.doc, "bytes"), 0)));
    return code;
}
