/* berth user add|list. */
#include "base/file.h"
#include "cli/cli.h"

int hand_out_kubeconfig(const char *text, const char *path)
{
    struct err err = {0};

    if (!text)
        return cli_fail(CLI_FAILED, "the daemon sent no kubeconfig");
    if (!path) {
        fputs(text, stdout);
        return CLI_OK;
    }
    if (file_write_atomic(path, str_from(text), 0600, &err) < 0)
        return cli_fail(CLI_FAILED, "%s", err.msg);
    fprintf(stderr, "wrote %s\n", path);
    return CLI_OK;
}

int verb_user_add(struct cli *cli, const struct args *args)
{
    struct json *body = json_new_object(&cli->arena), *groups;
    const char *file = args_get(args, "kubeconfig");
    enum output output;
    struct reply reply;
    struct err err = {0};
    int code;

    if (output_from(args, &output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    json_set_string(&cli->arena, body, "name", args->rest[0]);
    groups = json_set_array(&cli->arena, body, "groups");
    for (size_t i = 0; i < args->values.len; i++)
        if (streq(args->values.v[i].option->name, "group"))
            json_push_string(&cli->arena, groups, args->values.v[i].value);
    code = cli_send(cli, "POST", "/v1/users", body, &reply);
    if (code != CLI_OK)
        return code;
    if (output == OUTPUT_JSON || output == OUTPUT_YAML) {
        print_doc(reply.doc, output, stdout);
        return CLI_OK;
    }
    fprintf(stderr, "user %s added\n", args->rest[0]);
    return hand_out_kubeconfig(json_get_string(reply.doc, "kubeconfig"), file);
}

int verb_user_list(struct cli *cli, const struct args *args)
{
    static const struct column columns[] = {
        {"NAME", "name", CELL_TEXT}, {"PODS", "pods", CELL_TEXT}, {"JOBS", "jobs", CELL_TEXT}};
    enum output output;
    struct reply reply;
    struct err err = {0};
    int code;

    if (output_from(args, &output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    code = cli_get(cli, "/v1/users", &reply);
    if (code != CLI_OK)
        return code;
    if (output != OUTPUT_TABLE)
        print_doc(reply.doc, output, stdout);
    else
        print_columns(cli, json_get(reply.doc, "items"), columns, ARRAY_LEN(columns), stdout);
    return CLI_OK;
}
