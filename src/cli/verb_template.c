/* berth template list|show|put|delete. */
#include "base/file.h"
#include "cli/task_common.h"

#define PREFIX "/v1/task-templates/"

int verb_template_list(struct cli *cli, const struct args *args)
{
    static const struct column columns[] = {
        {"NAME", "name", CELL_TEXT}, {"AGE", "created", CELL_AGE}, {"DESCRIPTION", "description", CELL_TEXT}};

    return cli_list(cli, args, "/v1/task-templates", "task_templates", columns, ARRAY_LEN(columns));
}

int verb_template_show(struct cli *cli, const struct args *args)
{
    CLEANUP(buf_done) struct buf target = {0};
    enum output output;
    struct reply reply;
    int code = task_output(args, &output);

    if (code != CLI_OK)
        return code;
    task_target(args, &target, PREFIX, args->rest[0], "");
    code = cli_get(cli, target.data, &reply);
    if (code != CLI_OK)
        return code;
    if (output != OUTPUT_TABLE)
        print_doc(reply.doc, output, stdout);
    else
        fputs(json_string_or(json_get(reply.doc, "template"), ""), stdout);
    return CLI_OK;
}

int verb_template_put(struct cli *cli, const struct args *args)
{
    CLEANUP(buf_done) struct buf target = {0}, text = {0};
    struct json *body = json_new_object(&cli->arena);
    struct err err = {0};
    struct reply reply;
    int code;

    if (!args_has(args, "filename"))
        return cli_usage_error(args->verb, "-f FILE is needed: the Jinja text");
    if (file_read(args_get(args, "filename"), MANIFEST_MAX, &text, &err) < 0)
        return cli_fail(CLI_FAILED, "%s", err.msg);
    json_set(&cli->arena, body, "template", json_of_str(&cli->arena, buf_view(&text)));
    if (args_has(args, "description"))
        json_set_string(&cli->arena, body, "description", args_get(args, "description"));
    task_target(args, &target, PREFIX, args->rest[0], "");
    if (args_has(args, "dry-run"))
        task_param(&target, "dryRun", "1");
    code = cli_send(cli, "PUT", target.data, body, &reply);
    if (code == CLI_OK)
        printf("task template %s %s%s\n", args->rest[0], reply.status == 201 ? "made" : "replaced",
               args_has(args, "dry-run") ? " (dry run)" : "");
    return code;
}

int verb_template_delete(struct cli *cli, const struct args *args)
{
    return task_delete_all(cli, args, PREFIX, "task template");
}
