#include "cli/follow.h"

#include "base/buf.h"
#include "cli/queue_view.h"
#include "net/client.h"
#include "objects/names.h"

#include <errno.h>
#include <signal.h>
#include <unistd.h>

#define LOOK_MSEC 500 /* between looks at a job that waits */

static char detach_text[512]; /* what the signal handler writes */

static void on_interrupt(int signo)
{
    (void)signo;
    if (write(2, detach_text, strlen(detach_text)) < 0)
        _exit(CLI_FAILED);
    _exit(CLI_OK);
}

static bool is_over(const char *state)
{
    return pod_phase_is_over(state) || streq(state, "Cancelled");
}

static bool waits(const char *state)
{
    return streq(state, "Pending") || streq(state, "Preempted");
}

int print_job_log(struct cli *cli, const char *id, bool follow, const char *tail)
{
    CLEANUP(buf_done) struct buf target = {0};
    struct reply reply = {0};
    int code = cli_get(cli, job_target(cli, id, ""), &reply); /* connects, and says what is wrong */

    if (code != CLI_OK)
        return code;
    buf_printf(&target, "%s?follow=%s", job_target(cli, id, "logs"), follow ? "true" : "false");
    if (tail) {
        buf_puts(&target, "&tail=");
        buf_url_encode(&target, str_from(tail));
    }
    return cli_print(cli, target.data);
}

/* Says a new state or reason once. */
static void say_state(struct cli *cli, const struct json *job, struct buf *last)
{
    CLEANUP(buf_done) struct buf text = {0};
    const char *state = json_string_or(json_get(job, "state"), "?");

    buf_printf(&text, "%s", state);
    if (json_is(json_get(job, "position"), JSON_INT))
        buf_printf(&text, ", number %lld in the queue", (long long)json_int(json_get(job, "position"), 0));
    if (json_get_string(job, "reason") && json_get_string(job, "reason")[0])
        buf_printf(&text, ": %s", json_get_string(job, "reason"));
    if (last->len && str_eq(buf_view(last), buf_view(&text)))
        return;
    cli_say(stderr, "== %s%s%s\n", text.data,
            waits(state) && json_string(json_get(job, "startEstimate")) ? "; starts " : "",
            waits(state) && json_string(json_get(job, "startEstimate"))
                ? view_until(cli, json_get(job, "startEstimate"), NULL, NULL)
                : "");
    buf_clear(last);
    buf_str(last, buf_view(&text));
}

/* Until it runs or is over, which may be days: each look is forgotten. */
static int wait_for_start(struct cli *cli, const char *id, bool quiet)
{
    CLEANUP(buf_done) struct buf last = {0};
    struct cli look;
    bool over = false;
    int code = cli_again(cli, &look);

    while (code == CLI_OK && !over) {
        struct reply job;

        code = cli_get(&look, job_target(&look, id, ""), &job);
        if (code == CLI_OK && !quiet)
            say_state(&look, job.doc, &last);
        over = code != CLI_OK || !waits(json_string_or(json_get(job.doc, "state"), ""));
        arena_reset(&look.arena);
        if (!over)
            usleep(LOOK_MSEC * 1000);
    }
    cli_done(&look);
    return code;
}

int follow_job(struct cli *cli, const char *id, const char *name, bool quiet)
{
    struct sigaction action = {.sa_handler = on_interrupt};
    struct reply job;
    const char *state;
    int code;

    snprintf(
        detach_text, sizeof(detach_text),
        "\n== detached; %.60s goes on\n   its log:   berth logs -f %.60s\n   to end it: berth cancel %.60s\n",
        name, name, name);
    sigaction(SIGINT, &action, NULL);
    code = wait_for_start(cli, id, quiet);
    /* the stream goes on over preemptions and ends with the job */
    if (code == CLI_OK && (code = print_job_log(cli, id, true, NULL)) == CLI_OK)
        code = cli_get(cli, job_target(cli, id, ""), &job);
    signal(SIGINT, SIG_DFL);
    if (code != CLI_OK)
        return code;
    state = json_get_string(job.doc, "state");
    if (!state)
        return cli_fail(CLI_FAILED, "the daemon's answer has no state");
    if (!quiet || !streq(state, "Succeeded"))
        cli_say(stderr, "== %s %s%s%s\n", name, state, json_get_string(job.doc, "reason") ? ": " : "",
                json_string_or(json_get(job.doc, "reason"), ""));
    return !is_over(state) || streq(state, "Succeeded") ? CLI_OK : CLI_FAILED;
}
