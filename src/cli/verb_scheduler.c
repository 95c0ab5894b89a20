/* The sisters of run-scheduler: scheduler-state (once scheduler-situation), scheduler-cancel-job,
 * scheduler-get-logs. Links to this program under those names. */
#include "base/buf.h"
#include "cli/follow.h"
#include "cli/queue_view.h"

#include <inttypes.h>
#include <stdlib.h>

#define NLAST_DEFAULT 10
#define NLAST_MAX     10000

static const struct cli_option state_options[] = {
    {0, "all_users", NULL, "everybody's jobs, not only yours", NULL},
    {0, "all", NULL, "the same, by its old name", NULL},
    {0, "nlast", "N", "the last N jobs submitted (10)", NULL},
    {0, "extended", NULL, "with all options of each", NULL},
    OPTION_OUTPUT("json yaml"),
    {0, NULL, NULL, NULL, NULL},
};

static int compare_submitted(const void *a, const void *b)
{
    const struct json *x = *(const struct json *const *)a, *y = *(const struct json *const *)b;

    return strcmp(json_string_or(json_get(y, "submitted"), ""), json_string_or(json_get(x, "submitted"), ""));
}

/* Those that are active and those that have ended, the last submitted first: history is by end, so a job that
 * was submitted late and ended early may stand far down there. */
static int last_jobs(struct cli *cli, int64_t nlast, bool all, struct json *ret)
{
    VEC(const struct json *) jobs = {0};
    struct reply active, ended;
    int code = cli_get(cli, "/v1/queue", &active);

    if (code == CLI_OK)
        code =
            cli_get(cli, arena_printf(&cli->arena, "/v1/history?limit=%d%s", NLAST_MAX, all ? "" : "&mine=1"),
                    &ended);
    if (code != CLI_OK)
        return code;
    JSON_EACH(json_get(active.doc, "jobs"), it)
        if (all || json_bool(json_get(it, "mine")))
            vec_push(&jobs, it);
    JSON_EACH(json_get(ended.doc, "jobs"), it)
        if (all || json_bool(json_get(it, "mine")))
            vec_push(&jobs, it);
    if (jobs.len > 0)
        qsort(jobs.v, jobs.len, sizeof(*jobs.v), compare_submitted);
    for (size_t i = 0; i < jobs.len && (int64_t)i < nlast; i++)
        json_push(&cli->arena, ret, *jobs.v[i]);
    vec_done(&jobs);
    return CLI_OK;
}

static const char *epochs_text(struct cli *cli, const struct json *job)
{
    if (!json_is(json_get(job, "epochsTotal"), JSON_INT))
        return "-";
    return arena_printf(&cli->arena, "%" PRId64 "/%" PRId64, json_int(json_get(job, "epochsDone"), 0),
                        json_int(json_get(job, "epochsTotal"), 0));
}

static void print_jobs(struct cli *cli, const struct json *jobs)
{
    static const char *const names[] = {"JOBID", "NAME",   "USER",      "STATUS",
                                        "GPUS",  "EPOCHS", "SUBMITTED", "REASON"};
    struct grid grid = {.columns = ARRAY_LEN(names)};

    if (json_len(jobs) == 0) {
        fputs("no jobs\n", stderr);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        grid_add(&grid, names[i]);
    JSON_EACH(jobs, it) {
        const char *user = json_get_string(it, "user");

        grid_add(&grid, json_string_or(json_get(it, "id"), ""));
        grid_add(&grid, json_string_or(json_get(it, "name"), ""));
        grid_add(&grid, user ? user : "anonymous");
        grid_add(&grid, json_string_or(json_get(it, "state"), ""));
        grid_add(&grid, view_gpus(cli, it));
        grid_add(&grid, epochs_text(cli, it));
        grid_add(&grid, json_string_or(json_get(it, "submitted"), ""));
        grid_add(&grid, json_string_or(json_get(it, "reason"), ""));
    }
    grid_print(&grid, stdout);
    grid_done(&grid);
}

/* A value as one line. */
static void print_value(const char *name, const struct json *value)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (!value || json_is(value, JSON_NULL))
        return;
    if (json_string(value))
        buf_puts(&text, json_string(value));
    else
        json_write(&text, value);
    printf("  %-22s %s\n", name, text.data);
}

static int print_extended(struct cli *cli, const struct json *jobs)
{
    static const char *const members[] = {"user", "state",    "reason",       "position", "priority",
                                          "gpus", "cards",    "submitted",    "started",  "finished",
                                          "eta",  "restarts", "peakMemoryMiB"};

    JSON_EACH(jobs, it) {
        struct reply reply;
        int code = cli_get(cli, job_target(cli, json_string_or(json_get(it, "id"), ""), ""), &reply);

        if (code != CLI_OK)
            return code;
        printf("%s  %s\n", json_string_or(json_get(it, "id"), ""), json_string_or(json_get(it, "name"), ""));
        for (size_t i = 0; i < ARRAY_LEN(members); i++)
            print_value(members[i], json_get(reply.doc, members[i]));
        print_value("epochs", json_new_string(&cli->arena, epochs_text(cli, reply.doc)));
        JSON_EACH_MEMBER(json_at(reply.doc, "manifest.spec"), option)
            print_value(option->key, &option->value);
        putchar('\n');
    }
    return CLI_OK;
}

static int state(struct cli *cli, const struct args *args)
{
    struct json *jobs = json_new_array(&cli->arena);
    const char *text = args_get(args, "nlast");
    int64_t nlast = NLAST_DEFAULT;
    enum output output;
    struct err err = {0};
    int code;

    if (output_from(args, &output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    if (text && (!str_to_int(str_from(text), &nlast) || nlast < 1 || nlast > NLAST_MAX))
        return cli_usage_error(args->verb, "--nlast must be a number from 1 to %d, not '%s'", NLAST_MAX,
                               text);
    code = last_jobs(cli, nlast, args_has(args, "all_users") || args_has(args, "all"), jobs);
    if (code != CLI_OK)
        return code;
    if (output != OUTPUT_TABLE)
        print_doc(jobs, output, stdout);
    else if (args_has(args, "extended"))
        return print_extended(cli, jobs);
    else
        print_jobs(cli, jobs);
    return CLI_OK;
}

static int get_logs(struct cli *cli, const struct args *args)
{
    return print_job_log(cli, args->rest[0], false, NULL);
}

const struct verb link_verbs[] = {
    {"run-scheduler", "job_name", "Submit a training job", .max_args = -1, .raw = true, .link = true,
     .run = verb_train, .usage = train_usage},
    {"scheduler-state", "", "Show the state of the last jobs submitted", state_options, .link = true,
     .run = state},
    {"scheduler-situation", "", "Show the state of the last jobs submitted", state_options, .link = true,
     .run = state},
    {"scheduler-cancel-job", "JOBID", "End a job, wherever it is", .min_args = 1, .max_args = -1,
     .link = true, .run = verb_cancel},
    {"scheduler-get-logs", "JOBID", "Print what a job has written", .min_args = 1, .max_args = 1,
     .link = true, .run = get_logs},
    {NULL},
};
