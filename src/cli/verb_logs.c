/* berth logs: the answer goes to stdout as it comes. */
#include "base/buf.h"
#include "cli/follow.h"
#include "cli/queue_view.h"
#include "cli/verb_exec.h"

#include <errno.h>
#include <unistd.h>

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
            stream_param(target, params[i][1], value[0] ? value : "true");
    }
    if (!since)
        return CLI_OK;
    if (!parse_ttl(since, &seconds))
        return cli_usage_error(args->verb, "--since: '%s' is no time like 90s, 5m, 3h", since);
    buf_printf(target, "%ssinceSeconds=%lld", target->data[target->len - 1] == '?' ? "" : "&",
               (long long)seconds);
    return CLI_OK;
}

/* A training job's log is one text over all its pods. NULL: the word means a pod. */
static const char *training_job(struct cli *cli, const char *word)
{
    static const char *const prefixes[] = {"trainingjob/", "trainingjobs/", "trainingjob.berth.dev/"};
    struct reply reply;

    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++)
        if (starts_with(word, prefixes[i]))
            return word + strlen(prefixes[i]);
    if (strchr(word, '/') ||
        cli_ask(cli, &(struct call){.method = "GET", .target = job_target(cli, word, "")}, &reply) != CLI_OK)
        return NULL;
    return streq(json_get_string(reply.doc, "kind"), "TrainingJob") ? json_get_string(reply.doc, "id") : NULL;
}

int verb_logs(struct cli *cli, const struct args *args)
{
    CLEANUP(buf_done) struct buf target = {0}, pod_target = {0};
    struct reply reply = {0};
    const char *ns, *pod, *job = NULL;
    int code = CLI_OK;

    ns = cli_namespace(cli, args, &code);
    if (ns && !args_has(args, "container") && !args_has(args, "namespace"))
        job = training_job(cli, args->rest[0]);
    if (job)
        return print_job_log(cli, job, args_has(args, "follow"), args_get(args, "tail"));
    pod = ns ? stream_pod(cli, ns, args->rest[0], &code) : NULL;
    if (!pod)
        return code;
    stream_target(&pod_target, ns, pod, "");
    code = cli_get(cli, pod_target.data, &reply);
    stream_target(&target, ns, pod, "log");
    if (code == CLI_OK)
        code = add_params(args, &target);
    if (code != CLI_OK)
        return code;
    return cli_print(cli, target.data);
}
