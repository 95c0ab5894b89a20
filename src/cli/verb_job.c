/* berth show, why, cancel, claim, priority: one job of the queue. */
#include "base/buf.h"
#include "cli/queue_view.h"

#include <inttypes.h>

#define HISTORY_SHOWN 50 /* newest entries of a job's history */

static void line(const char *name, const char *value)
{
    if (value && value[0] && !streq(value, "-"))
        printf("%-12s %s\n", name, value);
}

static const char *seconds_per_epoch(struct cli *cli, const struct json *job)
{
    CLEANUP(buf_done) struct buf text = {0};

    JSON_EACH_MEMBER(json_get(job, "secondsPerEpoch"), it)
        buf_printf(&text, "%s%.3g s on %s GPU%s", text.len ? ", " : "", view_number(&it->value, 0), it->key,
                   streq(it->key, "1") ? "" : "s");
    return text.len ? arena_strndup(&cli->arena, text.data, text.len) : "-";
}

static const char *memory_text(struct cli *cli, const struct json *job)
{
    int64_t reserved = json_int(json_get(job, "memoryMiB"), 0),
            peak = json_int(json_get(job, "peakMemoryMiB"), -1);
    const char *protection = json_get_string(job, "protection");
    CLEANUP(buf_done) struct buf text = {0};

    if (reserved <= 0 && peak < 0)
        return "-";
    if (reserved > 0)
        buf_printf(&text, "%" PRId64 " MiB of each card reserved", reserved);
    else
        buf_puts(&text, "whole cards");
    if (peak >= 0)
        buf_printf(&text, ", at most %" PRId64 " MiB used", peak);
    if (protection)
        buf_printf(&text, " (protection: %s)", protection);
    return arena_strndup(&cli->arena, text.data, text.len);
}

static void print_history(struct cli *cli, const struct json *history)
{
    struct grid grid = {.columns = 4};
    size_t skip = json_len(history) > HISTORY_SHOWN ? json_len(history) - HISTORY_SHOWN : 0;

    if (json_len(history) == 0)
        return;
    printf("\nHistory:\n");
    grid_add(&grid, "  TIME");
    grid_add(&grid, "STATE");
    grid_add(&grid, "GPUS");
    grid_add(&grid, "REASON");
    for (size_t i = skip; i < json_len(history); i++) {
        const struct json *it = json_item(history, i);
        double lost = view_number(json_get(it, "lostSeconds"), 0);
        const char *reason = json_string_or(json_get(it, "reason"), "");

        grid_add(&grid, arena_printf(&cli->arena, "  %s", json_string_or(json_get(it, "time"), "")));
        grid_add(&grid, json_string_or(json_get(it, "state"), ""));
        grid_add(&grid, arena_printf(&cli->arena, "%.3g", view_number(json_get(it, "gpus"), 0)));
        grid_add(&grid,
                 lost > 0 ? arena_printf(&cli->arena, "%s; lost %s", reason, view_span(cli, lost)) : reason);
    }
    grid_print(&grid, stdout);
    grid_done(&grid);
}

static void print_events(struct cli *cli, const struct json *events)
{
    static const struct column columns[] = {{"  AGE", "time", CELL_AGE},
                                            {"TYPE", "type", CELL_TEXT},
                                            {"REASON", "reason", CELL_TEXT},
                                            {"MESSAGE", "message", CELL_TEXT}};

    if (json_len(events) == 0)
        return;
    printf("\nEvents:\n");
    print_columns(cli, events, columns, ARRAY_LEN(columns), stdout);
}

static void print_job(struct cli *cli, const struct json *job)
{
    const char *user = json_get_string(job, "user");

    line("Job", json_get_string(job, "name"));
    line("ID", json_get_string(job, "id"));
    line("Kind", json_get_string(job, "kind"));
    line("Namespace", json_get_string(job, "namespace"));
    line("User", user ? user : "anonymous");
    line("State", json_get_string(job, "state"));
    line("Reason", json_get_string(job, "reason"));
    if (json_is(json_get(job, "position"), JSON_INT)) {
        line("Position", arena_printf(&cli->arena, "%" PRId64, json_int(json_get(job, "position"), 0)));
        line("Starts", view_until(cli, json_get(job, "startEstimate"), json_get(job, "startLow"),
                                  json_get(job, "startHigh")));
    }
    line("GPUs", view_gpus(cli, job));
    line("User's GPU", view_ordinal(cli, job));
    line("Priority", view_priority(cli, job));
    line("Submitted", json_get_string(job, "submitted"));
    line("Started", json_get_string(job, "started"));
    line("Finished", json_get_string(job, "finished"));
    line("Progress", view_progress(cli, job));
    line("Ends", view_until(cli, json_get(job, "eta"), json_get(job, "etaLow"), json_get(job, "etaHigh")));
    line("Per epoch", seconds_per_epoch(cli, job));
    line("Memory", memory_text(cli, job));
    line("Image", json_get_string(job, "image"));
    line("Restarts", arena_printf(&cli->arena, "%" PRId64, json_int(json_get(job, "restarts"), 0)));
    line("Again", json_get_string(job, "command"));
    print_history(cli, json_get(job, "history"));
    print_events(cli, json_get(job, "events"));
}

int verb_show(struct cli *cli, const struct args *args)
{
    enum output output;
    struct reply reply;
    struct err err = {0};
    int code;

    if (output_from(args, &output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    code = cli_get(cli, job_target(cli, args->rest[0], ""), &reply);
    if (code != CLI_OK)
        return code;
    if (output == OUTPUT_TABLE)
        print_job(cli, reply.doc);
    else
        print_doc(reply.doc, output, stdout);
    return CLI_OK;
}

/* ---- why ---- */

static void print_ahead(struct cli *cli, const struct json *list)
{
    struct grid grid = {.columns = 4};

    if (json_len(list) == 0)
        return;
    printf("\nAhead of it:\n");
    JSON_EACH(list, it) {
        const char *user = json_get_string(it, "user");

        grid_add(&grid, arena_printf(&cli->arena, "  %s", json_string_or(json_get(it, "name"), "")));
        grid_add(&grid, user ? user : "anonymous");
        grid_add(&grid, arena_printf(&cli->arena, "%s GPU", view_ordinal(cli, it)));
        grid_add(&grid, json_string_or(json_get(it, "why"), ""));
    }
    grid_print(&grid, stdout);
    grid_done(&grid);
}

static void print_frees(struct cli *cli, const struct json *list)
{
    struct grid grid = {.columns = 4};

    if (json_len(list) == 0)
        return;
    printf("\nWhat would free it:\n");
    JSON_EACH(list, it) {
        const char *user = json_get_string(it, "user");

        grid_add(&grid, arena_printf(&cli->arena, "  %s", json_string_or(json_get(it, "name"), "")));
        grid_add(&grid, user ? user : "anonymous");
        grid_add(&grid, json_string_or(json_get(it, "how"), ""));
        grid_add(&grid, view_until(cli, json_get(it, "when"), NULL, NULL));
    }
    grid_print(&grid, stdout);
    grid_done(&grid);
}

/* Of one without a position: it has started, is over, or cannot start. */
static void print_reason(const struct json *doc, const char *name)
{
    const char *reason = json_string_or(json_get(doc, "reason"), ""),
               *state = json_string_or(json_get(doc, "state"), "");

    if (*state && *reason)
        printf("%s is %s: %s.\n", name, state, reason);
    else
        printf("%s is %s.\n", name, *state ? state : "not waiting");
}

int verb_why(struct cli *cli, const struct args *args)
{
    enum output output;
    struct reply reply;
    struct err err = {0};
    const struct json *doc;
    int code;

    if (output_from(args, &output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    code = cli_get(cli, job_target(cli, args->rest[0], "why"), &reply);
    if (code != CLI_OK)
        return code;
    doc = reply.doc;
    if (output != OUTPUT_TABLE) {
        print_doc(doc, output, stdout);
        return CLI_OK;
    }
    if (json_is(json_get(doc, "position"), JSON_INT))
        printf("%s is number %" PRId64 " in the queue: %s.\n", args->rest[0],
               json_int(json_get(doc, "position"), 0), json_string_or(json_get(doc, "reason"), "it waits"));
    else
        print_reason(doc, args->rest[0]);
    if (json_string(json_get(doc, "startEstimate")))
        printf("It should start %s.\n", view_until(cli, json_get(doc, "startEstimate"),
                                                   json_get(doc, "startLow"), json_get(doc, "startHigh")));
    print_ahead(cli, json_get(doc, "ahead"));
    print_frees(cli, json_get(doc, "frees"));
    return CLI_OK;
}

/* ---- doing ---- */

static int act(struct cli *cli, const char *id, const char *what, const struct json *body, const char *done)
{
    struct reply reply;
    int code =
        cli_send(cli, "POST", job_target(cli, id, what), body ? body : json_new_object(&cli->arena), &reply);

    if (code == CLI_OK)
        printf("%s: %s\n", json_string_or(json_get(reply.doc, "name"), id), done);
    return code;
}

int verb_cancel(struct cli *cli, const struct args *args)
{
    int worst = CLI_OK;

    for (int i = 0; i < args->count; i++) {
        int code = act(cli, args->rest[i], "cancel", NULL, "cancelled");

        worst = code != CLI_OK ? code : worst;
    }
    return worst;
}

/* What the claim does is said by the daemon: it knows who is asked to stop. */
int verb_claim(struct cli *cli, const struct args *args)
{
    struct reply reply;
    int code =
        cli_send(cli, "POST", job_target(cli, args->rest[0], "claim"), json_new_object(&cli->arena), &reply);

    if (code == CLI_OK)
        printf("%s: claimed; %s\n", json_string_or(json_get(reply.doc, "name"), args->rest[0]),
               json_string_or(json_get(reply.doc, "claim"), ""));
    return code;
}

int verb_priority(struct cli *cli, const struct args *args)
{
    struct json *body = json_new_object(&cli->arena);
    int64_t priority;

    if (!str_to_int(str_from(args->rest[1]), &priority))
        return cli_usage_error(args->verb, "N must be a whole number, not '%s'", args->rest[1]);
    json_set_int(&cli->arena, body, "priority", priority);
    return act(cli, args->rest[0], "priority", body, "priority changed");
}
