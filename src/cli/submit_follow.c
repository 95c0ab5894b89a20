/* Staying with a Job: what happens to its pod before it runs, its log, its end. May last for days, so what is
 * asked again and again is forgotten again; and a daemon that is restarted meanwhile is waited for. */
#include "base/clock.h"
#include "base/mem.h"
#include "cli/submit.h"
#include "net/client.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define LOOK_MSEC   250
#define CALM_LOOKS  40 /* then every second */
#define AWAY_SEC    600
#define EVENTS_SEEN 256
#define NAME_LEN    256

struct follow {
    struct cli *cli;
    struct cli look; /* its arena lives for one look */
    const char *ns, *name;
    char pod[NAME_LEN]; /* the newest */
    char phase[32];
    char container[NAME_LEN];
    char shown[NAME_LEN]; /* the pod whose log was shown */
    int64_t log_bytes;    /* of it */
    int64_t restarts;     /* of its container: each has a log of its own */
    bool log_whole;       /* it was read to its end after the pod had ended */
    uint64_t seen[EVENTS_SEEN];
    size_t seen_len;
    int64_t away_since; /* 0: the daemon is there */
};

static char detach_text[640]; /* what the signal handler writes */

static void on_interrupt(int signo)
{
    (void)signo;
    _exit(write(2, detach_text, strlen(detach_text)) < 0 ? CLI_FAILED : CLI_OK);
}

/* ---- asking ---- */

/* NULL: not now. */
static struct json *ask(struct follow *f, const char *target, int *status)
{
    struct reply reply = {0};
    struct err err = {0};

    if (cli_try(&f->look, &(struct call){.method = "GET", .target = target}, &reply, &err) < 0) {
        if (!f->away_since) {
            f->away_since = clock_monotonic();
            fprintf(stderr, "== %s does not answer; waiting for it\n", f->look.where);
        }
        return NULL;
    }
    f->away_since = 0;
    *status = reply.status;
    return reply.doc;
}

/* "/api/v1/namespaces/NS/KIND?SELECTOR=KEY%3DNAME" */
static const char *target_of(struct follow *f, const char *kind, const char *selector, const char *key,
                             const char *name)
{
    CLEANUP(buf_done) struct buf target = {0};

    buf_printf(&target, "/api/v1/namespaces/%s/%s?%s=", f->ns, kind, selector);
    buf_url_encode(&target, str_from(key));
    buf_puts(&target, "%3D");
    buf_url_encode(&target, str_from(name));
    return arena_strndup(&f->look.arena, target.data, target.len);
}

static void copy(char to[NAME_LEN], const char *from)
{
    snprintf(to, NAME_LEN, "%s", from);
}

/* Finds the newest pod of the Job; its document, NULL: none. */
static const struct json *look_at_pod(struct follow *f)
{
    const struct json *best = NULL;
    int status = 0;
    struct json *doc =
        ask(f, target_of(f, "pods", "labelSelector", "batch.kubernetes.io/job-name", f->name), &status);
    const char *time = "";
    int64_t restarts;

    JSON_EACH(json_get(doc, "items"), it) {
        const char *made = json_string_or(json_at(it, "metadata.creationTimestamp"), "");

        if (strcmp(made, time) >= 0) {
            time = made;
            best = it;
        }
    }
    if (!best)
        return NULL;
    restarts = json_int(json_at(best, "status.containerStatuses.0.restartCount"), 0);
    copy(f->pod, json_string_or(json_at(best, "metadata.name"), ""));
    copy(f->container, json_string_or(json_at(best, "spec.containers.0.name"), ""));
    if (restarts != f->restarts)
        f->log_bytes = 0;
    f->restarts = restarts;
    snprintf(f->phase, sizeof(f->phase), "%s", json_string_or(json_at(best, "status.phase"), "Pending"));
    return best;
}

/* ---- events ---- */

static int by_revision(const void *a, const void *b)
{
    int64_t n[2] = {0, 0};

    (void)str_to_int(json_str(json_at(*(const struct json *const *)a, "metadata.resourceVersion")), &n[0]);
    (void)str_to_int(json_str(json_at(*(const struct json *const *)b, "metadata.resourceVersion")), &n[1]);
    return n[0] < n[1] ? -1 : n[0] > n[1];
}

static bool is_new(struct follow *f, const char *message)
{
    uint64_t hash = str_hash(str_from(message));

    for (size_t i = 0; i < f->seen_len && i < EVENTS_SEEN; i++)
        if (f->seen[i] == hash)
            return false;
    f->seen[f->seen_len++ % EVENTS_SEEN] = hash;
    return true;
}

/* What happens to the pod before it runs: scheduling, pulls. */
static void show_events(struct follow *f)
{
    VEC(const struct json *) events = {0};
    int status = 0;
    struct json *doc =
        ask(f, target_of(f, "events", "fieldSelector", "involvedObject.name", f->pod), &status);

    JSON_EACH(json_get(doc, "items"), it)
        vec_push(&events, it);
    if (events.len)
        qsort(events.v, events.len, sizeof(*events.v), by_revision);
    VEC_EACH(&events, it) {
        const char *message = json_string_or(json_get(*it, "message"), "");

        if (is_new(f, message))
            cli_say(stderr, "   %s: %s\n", json_string_or(json_get(*it, "reason"), ""), message);
    }
    vec_done(&events);
}

/* ---- the log ---- */

struct log {
    struct follow *follow;
    int status;
    int64_t skip; /* bytes that were shown before the daemon went away */
};

static int print_piece(void *arg, struct str data)
{
    struct log *log = arg;
    int64_t skip = log->skip < (int64_t)data.len ? log->skip : (int64_t)data.len;

    if (log->status != 200)
        return 0;
    log->skip -= skip;
    data = (struct str){data.s + skip, data.len - (size_t)skip};
    log->follow->log_bytes += (int64_t)data.len;
    fwrite(data.s, 1, data.len, stdout);
    fflush(stdout);
    return 0;
}

/* To its end, which is the pod's, or to that of the connection. */
static void follow_log(struct follow *f)
{
    struct log log = {.follow = f, .skip = f->log_bytes};
    CLEANUP(buf_done) struct buf target = {0};
    struct err err = {0};
    struct reply reply;

    buf_printf(&target, "/api/v1/namespaces/%s/pods/%s/log?follow=true&container=%s", f->ns, f->pod,
               f->container);
    client_free(TAKE_PTR(f->cli->client));
    if (cli_ask(f->cli, &(struct call){.method = "GET", .target = "/version"}, &reply) == CLI_OK &&
        client_stream(f->cli->client, "GET", target.data, NULL, 0, (struct str){0}, &log.status, print_piece,
                      &log, &err) == 0)
        f->log_whole = !streq(f->phase, "Running");
    client_free(TAKE_PTR(f->cli->client));
}

static void show_log(struct follow *f)
{
    if (!streq(f->pod, f->shown)) {
        show_events(f);
        printf("== log of %s\n", f->pod);
        copy(f->shown, f->pod);
        f->log_bytes = 0;
        f->log_whole = false;
    }
    follow_log(f);
}

/* ---- the end ---- */

bool job_is_finished(const struct json *job, const struct json **how)
{
    JSON_EACH(json_at(job, "status.conditions"), it)
        if (streq(json_get_string(it, "status"), "True") && (streq(json_get_string(it, "type"), "Complete") ||
                                                             streq(json_get_string(it, "type"), "Failed"))) {
            *how = it;
            return true;
        }
    return false;
}

/* The status of the container that failed first of the last pod; 0: none did. */
static int failed_container(const struct json *pod, const struct json **ret)
{
    JSON_EACH(json_at(pod, "status.containerStatuses"), it) {
        int64_t code = json_int(json_at(it, "state.terminated.exitCode"), 0);

        if (code != 0) {
            *ret = it;
            return code > 0 && code < 256 ? (int)code : CLI_FAILED;
        }
    }
    return 0;
}

/* Its exit status is the job's. */
static int say_end(struct follow *f, const struct json *pod, const struct json *how)
{
    const struct json *container = NULL;
    int code;

    if (streq(json_get_string(how, "type"), "Complete")) {
        printf("== job %s: Complete\n", f->name);
        return CLI_OK;
    }
    code = failed_container(pod, &container);
    if (code)
        cli_say(stdout, "== job %s: Failed: container %s ended with status %d (%s)\n", f->name,
                json_string_or(json_get(container, "name"), ""), code,
                json_string_or(json_at(container, "state.terminated.reason"), "Error"));
    else
        cli_say(stdout, "== job %s: Failed: %s\n", f->name,
                json_string_or(json_get(how, "message"), json_string_or(json_get(how, "reason"), "")));
    return code ? code : CLI_FAILED;
}

/* One look; true: it is over, and *code what to end with. */
static bool look(struct follow *f, int *code)
{
    const struct json *pod = look_at_pod(f), *how = NULL, *job;
    int status = 0;
    bool over;

    if (pod && streq(f->phase, "Pending"))
        show_events(f);
    job =
        ask(f, arena_printf(&f->look.arena, "/apis/batch/v1/namespaces/%s/jobs/%s", f->ns, f->name), &status);
    if (f->away_since) {
        *code = CLI_UNREACHABLE;
        return clock_monotonic() - f->away_since > AWAY_SEC * NSEC_PER_SEC;
    }
    if (status == 404) {
        *code = cli_fail(CLI_NOT_FOUND, "job '%s' was deleted", f->name);
        return true;
    }
    over = job_is_finished(job, &how);
    if (pod && !streq(f->phase, "Pending") && (!streq(f->pod, f->shown) || !f->log_whole)) {
        show_log(f);
        return false; /* and then see how it ended */
    }
    if (over)
        *code = say_end(f, pod, how);
    return over;
}

int submit_follow(struct cli *cli, const char *ns, const char *name)
{
    struct follow *f = NEW(struct follow);
    int code;

    *f = (struct follow){.cli = cli, .ns = ns, .name = name};
    snprintf(detach_text, sizeof(detach_text),
             "\nberth: job '%.200s' goes on without you\n  berth logs -f -n %.63s job/%.200s\n", name, ns,
             name);
    signal(SIGINT, on_interrupt);
    code = cli_again(cli, &f->look);
    for (int i = 0; code == CLI_OK && !look(f, &code); i++) {
        code = CLI_OK;
        arena_reset(&f->look.arena);
        usleep((i < CALM_LOOKS ? LOOK_MSEC : 1000) * 1000);
    }
    cli_done(&f->look);
    free(f);
    return code;
}
