/* berth define add|list|show|schema|delete: task definitions. */
#include "cli/task_common.h"

#define PREFIX "/v1/task-definitions/"

int verb_define_add(struct cli *cli, const struct args *args)
{
    CLEANUP(buf_done) struct buf target = {0};
    const char *method = "POST";
    struct json *form;
    struct reply reply;
    enum output output;
    int code = task_output(args, &output);

    if (code != CLI_OK)
        return code;
    if (!args_has(args, "filename"))
        return cli_usage_error(args->verb, "-f FILE is needed: the definition as JSON or YAML");
    code = task_read(cli, args_get(args, "filename"), &form);
    if (code != CLI_OK)
        return code;
    if (args_has(args, "replace")) {
        method = "PUT";
        task_target(args, &target, PREFIX, json_string_or(json_get(form, "name"), ""), "");
    } else {
        task_target(args, &target, "/v1/task-definitions", "", "");
    }
    if (args_has(args, "dry-run"))
        task_param(&target, "dryRun", "1");
    code = cli_send(cli, method, target.data, form, &reply);
    if (code != CLI_OK)
        return code;
    if (output != OUTPUT_TABLE)
        print_doc(reply.doc, output, stdout);
    else
        printf("task definition %s %s%s\n", json_string_or(json_get(reply.doc, "name"), ""),
               reply.status == 201 ? "registered" : "replaced",
               args_has(args, "dry-run") ? " (dry run)" : "");
    return CLI_OK;
}

int verb_define_list(struct cli *cli, const struct args *args)
{
    static const struct column columns[] = {{"NAME", "name", CELL_TEXT},
                                            {"NAMESPACE", "namespace", CELL_TEXT},
                                            {"TEMPLATE", "task_template_name", CELL_TEXT},
                                            {"CREATOR", "creator", CELL_TEXT},
                                            {"APPLICATION", "application", CELL_TEXT},
                                            {"AGE", "created", CELL_AGE},
                                            {"DESCRIPTION", "description", CELL_TEXT}};
    CLEANUP(buf_done) struct buf target = {0};

    task_target(args, &target, "/v1/task-definitions", "", "");
    return cli_list(cli, args, target.data, "task_definitions", columns, ARRAY_LEN(columns));
}

static int show(struct cli *cli, const struct args *args, const char *rest, enum output fallback)
{
    CLEANUP(buf_done) struct buf target = {0};

    task_target(args, &target, PREFIX, args->rest[0], rest);
    return cli_show(cli, args, target.data, fallback);
}

int verb_define_show(struct cli *cli, const struct args *args)
{
    return show(cli, args, "", OUTPUT_YAML);
}

int verb_define_schema(struct cli *cli, const struct args *args)
{
    return show(cli, args, "/schema", OUTPUT_JSON);
}

int verb_define_delete(struct cli *cli, const struct args *args)
{
    return task_delete_all(cli, args, PREFIX, "task definition");
}
