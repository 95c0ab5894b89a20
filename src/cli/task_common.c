#include "cli/task_common.h"

#include "base/file.h"
#include "base/yaml.h"

int task_read(struct cli *cli, const char *path, struct json **ret)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct err err = {0};

    if (file_read(path, MANIFEST_MAX, &text, &err) < 0)
        return cli_fail(CLI_FAILED, "%s", err.msg);
    if (yaml_parse_one(buf_view(&text), &cli->arena, ret, &err) < 0)
        return cli_fail(CLI_FAILED, "%s: %s", path, err.msg);
    if (!json_is(*ret, JSON_OBJECT))
        return cli_fail(CLI_FAILED, "%s: it is a %s, not an object", path, json_type_name(*ret));
    return CLI_OK;
}

void task_param(struct buf *target, const char *name, const char *value)
{
    buf_putc(target, strchr(target->data, '?') ? '&' : '?');
    buf_puts(target, name);
    buf_putc(target, '=');
    buf_url_encode(target, str_from(value));
}

void task_target(const struct args *args, struct buf *target, const char *prefix, const char *id,
                 const char *rest)
{
    struct str left = str_from(id), part;
    bool first = true;

    buf_puts(target, prefix);
    while (id[0] && str_split(&left, '/', &part)) { /* NAMESPACE/NAME keeps its slash */
        if (!first)
            buf_putc(target, '/');
        buf_url_encode(target, part);
        first = false;
    }
    buf_puts(target, rest);
    if (args_has(args, "namespace"))
        task_param(target, "namespace", args_get(args, "namespace"));
}

int task_output(const struct args *args, enum output *ret)
{
    struct err err = {0};

    if (output_from(args, ret, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    return CLI_OK;
}

int task_delete_all(struct cli *cli, const struct args *args, const char *prefix, const char *what)
{
    int worst = CLI_OK;

    for (int i = 0; i < args->count; i++) {
        CLEANUP(buf_done) struct buf target = {0};
        struct reply reply;
        int code;

        task_target(args, &target, prefix, args->rest[i], "");
        code = cli_send(cli, "DELETE", target.data, NULL, &reply);
        if (code == CLI_OK)
            printf("%s %s deleted\n", what, args->rest[i]);
        else
            worst = code;
    }
    return worst;
}
