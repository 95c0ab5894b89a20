/* berth task run|list|show|logs|rerun|delete. */
#include "base/yaml.h"
#include "cli/task_common.h"
#include "net/client.h"

#include <errno.h>
#include <unistd.h>

#define PREFIX "/v1/jobs/"

/* ---- values ---- */

/* "process.train.maxStep=100" into values; what is right of = is read as YAML. */
static int set_value(struct cli *cli, const struct args *args, struct json *values, const char *text)
{
    const char *equals = strchr(text, '=');
    struct str path, key;
    struct json *at = values, *value;

    if (!equals || equals == text)
        return cli_usage_error(args->verb, "--set must be PATH=VALUE, not '%s'", text);
    path = (struct str){text, (size_t)(equals - text)};
    if (!equals[1])
        value = json_new_string(&cli->arena, "");
    else if (yaml_parse_one(str_from(equals + 1), &cli->arena, &value, NULL) < 0)
        value = json_new_string(&cli->arena, equals + 1);
    while (str_split(&path, '.', &key)) {
        const char *name = arena_strndup(&cli->arena, key.s, key.len);

        if (!path.s) {
            json_set(&cli->arena, at, name, *value);
            break;
        }
        at = json_need_object(&cli->arena, at, name);
        if (!at)
            return cli_usage_error(args->verb, "--set %s: '%s' is no map", text, name);
    }
    return CLI_OK;
}

static int read_values(struct cli *cli, const struct args *args, struct json **ret)
{
    struct json *values = json_new_object(&cli->arena);
    int code = CLI_OK;

    if (args_has(args, "filename"))
        code = task_read(cli, args_get(args, "filename"), &values);
    for (size_t i = 0; i < args->values.len && code == CLI_OK; i++)
        if (streq(args->values.v[i].option->name, "set"))
            code = set_value(cli, args, values, args->values.v[i].value);
    *ret = values;
    return code;
}

/* ---- starting ---- */

static int print_made(const struct args *args, const struct reply *reply, enum output output)
{
    if (output != OUTPUT_TABLE) {
        print_doc(reply->doc, output, stdout);
    } else if (args_has(args, "dry-run")) {
        fputs(json_string_or(json_get(reply->doc, "yaml"), ""), stdout);
    } else {
        printf("task %s started\n", json_string_or(json_get(reply->doc, "task_id"), ""));
        JSON_EACH(json_get(reply->doc, "objects"), it)
            printf("  %s %s\n", json_string_or(json_get(it, "kind"), ""),
                   json_string_or(json_get(it, "name"), ""));
    }
    return CLI_OK;
}

static int send_values(struct cli *cli, const struct args *args, struct buf *target)
{
    struct json *values;
    struct reply reply;
    enum output output;
    int code = task_output(args, &output);

    if (code == CLI_OK)
        code = read_values(cli, args, &values);
    if (code != CLI_OK)
        return code;
    if (args_has(args, "dry-run"))
        task_param(target, "dryRun", "1");
    code = cli_send(cli, "POST", target->data, values, &reply);
    return code == CLI_OK ? print_made(args, &reply, output) : code;
}

int verb_task_run(struct cli *cli, const struct args *args)
{
    CLEANUP(buf_done) struct buf target = {0};

    if (!args_has(args, "filename") && !args_has(args, "set"))
        return cli_usage_error(args->verb, "-f FILE is needed: the filled values as JSON or YAML");
    task_target(args, &target, "/v1/jobs", "", "");
    return send_values(cli, args, &target);
}

int verb_task_rerun(struct cli *cli, const struct args *args)
{
    CLEANUP(buf_done) struct buf target = {0};

    task_target(args, &target, PREFIX, args->rest[0], "/rerun");
    return send_values(cli, args, &target);
}

/* ---- showing ---- */

int verb_task_list(struct cli *cli, const struct args *args)
{
    static const struct column columns[] = {
        {"ID", "task_id", CELL_TEXT},      {"TASKDEF", "task_def", CELL_TEXT},
        {"STATUS", "status", CELL_TEXT},   {"PROGRESS", "progress", CELL_TEXT},
        {"CREATOR", "creator", CELL_TEXT}, {"AGE", "submitted", CELL_AGE},
        {"REASON", "reason", CELL_TEXT}};
    static const char *const filters[][2] = {{"creator", "creator"},
                                             {"application", "application"},
                                             {"task-def", "taskDef"},
                                             {"status", "status"},
                                             {"limit", "limit"}};
    CLEANUP(buf_done) struct buf target = {0};

    task_target(args, &target, "/v1/jobs", "", "");
    for (size_t i = 0; i < ARRAY_LEN(filters); i++)
        if (args_has(args, filters[i][0]))
            task_param(&target, filters[i][1], args_get(args, filters[i][0]));
    return cli_list(cli, args, target.data, "jobs", columns, ARRAY_LEN(columns));
}

int verb_task_show(struct cli *cli, const struct args *args)
{
    CLEANUP(buf_done) struct buf target = {0};

    task_target(args, &target, PREFIX, args->rest[0], "");
    return cli_show(cli, args, target.data, OUTPUT_YAML);
}

/* ---- logs ---- */

int verb_task_logs(struct cli *cli, const struct args *args)
{
    CLEANUP(buf_done) struct buf show_target = {0}, target = {0};
    struct reply reply;
    int code;

    task_target(args, &show_target, PREFIX, args->rest[0], "");
    code =
        cli_get(cli, show_target.data, &reply); /* connects, and knows better words for what is not there */
    if (code != CLI_OK)
        return code;
    task_target(args, &target, PREFIX, args->rest[0], "/logs");
    if (args_has(args, "follow"))
        task_param(&target, "follow", "1");
    if (args_has(args, "tail"))
        task_param(&target, "tail", args_get(args, "tail"));
    return cli_print(cli, target.data);
}

int verb_task_delete(struct cli *cli, const struct args *args)
{
    return task_delete_all(cli, args, PREFIX, "task");
}
