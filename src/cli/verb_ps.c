/* berth ps: the caller's jobs: those that run and wait, and those that ended lately with what happened. */
#include "base/clock.h"
#include "cli/inbox.h"
#include "cli/queue_view.h"

#include <unistd.h>

#define ENDED_MAX   10
#define ENDED_HOURS 24

/* Leaves only the caller's jobs in an answer of /v1/queue. */
static struct json *keep_mine(struct cli *cli, struct json *doc)
{
    struct json *jobs = json_get(doc, "jobs"), *mine = json_new_array(&cli->arena);

    JSON_EACH(jobs, it)
        if (json_bool(json_get(it, "mine")))
            json_push(&cli->arena, mine, *it);
    if (jobs)
        *jobs = *mine;
    return jobs;
}

/* Says what happened to each job, where the inbox has something about it. */
static void add_happened(struct cli *cli, struct json *jobs, const struct json *items)
{
    JSON_EACH(jobs, it) {
        const struct json *item = inbox_about(items, json_get_string(it, "id"));

        if (item)
            json_set(&cli->arena, it, "happened", *item);
    }
}

static void print_ended(struct cli *cli, const struct json *jobs, FILE *out)
{
    static const char *const names[] = {"ENDED", "JOB", "STATE", "GPUS", "RAN", "WHAT HAPPENED"};
    struct grid grid = {.columns = ARRAY_LEN(names)};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        grid_add(&grid, names[i]);
    JSON_EACH(jobs, it) {
        const char *text = json_at_string(it, "happened.text");

        grid_add(&grid, view_age(cli, json_get(it, "finished")));
        grid_add(&grid, json_string_or(json_get(it, "name"), ""));
        grid_add(&grid, json_string_or(json_get(it, "state"), ""));
        grid_add(&grid, view_gpus(cli, it));
        grid_add(&grid, view_span(cli, view_number(json_get(it, "ranSeconds"), -1)));
        grid_add(&grid, text ? text : json_string_or(json_get(it, "reason"), ""));
    }
    fputs("\nEnded in the last 24 hours:\n", out);
    grid_print(&grid, out);
    grid_done(&grid);
}

int verb_ps(struct cli *cli, const struct args *args)
{
    char from[CLOCK_TEXT_MAX];
    struct json *jobs, *ended;
    enum output output;
    struct reply queue, history, inbox;
    struct err err = {0};
    int code;

    if (output_from(args, &output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    clock_format(clock_now() - ENDED_HOURS * 3600 * NSEC_PER_SEC, from);
    code = cli_get(cli, "/v1/queue", &queue);
    if (code == CLI_OK)
        code = cli_get(cli, arena_printf(&cli->arena, "/v1/history?mine=1&limit=%d&from=%s", ENDED_MAX, from),
                       &history);
    if (code == CLI_OK)
        code = cli_get(cli, "/v1/inbox?limit=200", &inbox);
    if (code != CLI_OK)
        return code;
    jobs = keep_mine(cli, queue.doc);
    ended = json_get(history.doc, "jobs");
    add_happened(cli, jobs, json_get(inbox.doc, "items"));
    add_happened(cli, ended, json_get(inbox.doc, "items"));
    if (output == OUTPUT_JSON || output == OUTPUT_YAML) {
        JSON_EACH(ended, it)
            json_push(&cli->arena, jobs, *it);
        print_doc(jobs, output, stdout);
        return CLI_OK;
    }
    view_queue(cli, queue.doc, output == OUTPUT_WIDE, isatty(1), stdout);
    if (json_len(ended))
        print_ended(cli, ended, stdout);
    inbox_hint(cli, stdout);
    return CLI_OK;
}
