/* berth logs: the answer goes to stdout as it comes. */
#include "base/buf.h"
#include "cli/follow.h"
#include "cli/target.h"

/* Option → parameter; those without a value are true. */
static const char *const params[][2] = {
    {"container", "container"},    {"follow", "follow"},        {"previous", "previous"},
    {"timestamps", "timestamps"},  {"since-time", "sinceTime"}, {"tail", "tailLines"},
    {"limit-bytes", "limitBytes"},
};

static int add_params(const struct args *args, struct buf *target)
{
    const char *since = args_get(args, "since");
    int64_t seconds;

    for (size_t i = 0; i < ARRAY_LEN(params); i++) {
        const char *value = args_get(args, params[i][0]);

        if (value && !streq(value, "-1"))
            target_param(target, params[i][1], value[0] ? value : "true");
    }
    if (!since)
        return CLI_OK;
    if (!parse_ttl(since, &seconds))
        return cli_usage_error(args->verb, "--since: '%s' is no time like 90s, 5m, 3h", since);
    buf_printf(target, "%ssinceSeconds=%lld", target->data[target->len - 1] == '?' ? "" : "&",
               (long long)seconds);
    return CLI_OK;
}

static int print_task_log(struct cli *cli, const struct args *args, const struct target *found)
{
    CLEANUP(buf_done) struct buf target = {0};

    buf_puts(&target, "/v1/jobs/");
    buf_url_encode(&target, str_from(found->task));
    buf_puts(&target, "/logs?");
    target_param(&target, "namespace", found->ns);
    if (args_has(args, "follow"))
        target_param(&target, "follow", "1");
    if (args_has(args, "tail"))
        target_param(&target, "tail", args_get(args, "tail"));
    return cli_print(cli, target.data);
}

int verb_logs(struct cli *cli, const struct args *args)
{
    static const char *const of_pods[] = {"container", "previous",   "timestamps",
                                          "since",     "since-time", "limit-bytes"};
    CLEANUP(buf_done) struct buf target = {0};
    struct target found;
    bool whole = true;
    int code;

    /* The logs of training jobs, of tasks and of pods that have gone are one text, and know fewer options. */
    for (size_t i = 0; i < ARRAY_LEN(of_pods); i++)
        whole &= !args_has(args, of_pods[i]);
    code = target_find(cli, args, args->rest[0], whole, &found);
    if (code != CLI_OK)
        return code;
    if (found.row)
        return print_job_log(cli, found.row, args_has(args, "follow"), args_get(args, "tail"));
    if (found.task)
        return print_task_log(cli, args, &found);
    target_path(&target, found.ns, found.pod, "log");
    code = add_params(args, &target);
    return code == CLI_OK ? cli_print(cli, target.data) : code;
}
