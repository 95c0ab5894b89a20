/* berth train, also under the name run-scheduler: a training job from options (objects/train_options.h). */
#include "base/buf.h"
#include "cli/follow.h"
#include "cli/queue_view.h"
#include "objects/train_options.h"

#include <unistd.h>

struct train {
    const struct verb *verb;
    struct json *spec;
    const char *name, *ns;
    bool dry_run, follow, json;
};

void train_usage(const struct verb *verb, FILE *out)
{
    fprintf(out, "Usage: %s%s [OPTIONS] job_name\n\n%s.\n\nOptions (--opt VALUE or --opt=VALUE):\n",
            verb->link ? "" : "berth ", verb->name, verb->summary);
    for (const struct train_option *it = train_options; it->name; it++) {
        CLEANUP(buf_done) struct buf left = {0};

        buf_printf(&left, "--%s %s", it->name, it->arg);
        fprintf(out, "  %-44s %s", left.data, it->help);
        if (it->fallback)
            fprintf(out, " (%s)", it->fallback);
        fputc('\n', out);
    }
    fputs("  --namespace NS                               the namespace (yours)\n"
          "  --dry-run                                    check, estimate and print, but submit nothing\n"
          "  --follow                                     stay and print its log; Ctrl-C detaches\n"
          "  --json                                       print the answer as JSON\n"
          "  --server URL, --data DIR, -h, --help         as everywhere\n\n"
          "Your ~/datasets is mounted at /data. The job's output: scheduler-get-logs ID.\n",
          out);
}

/* Paths are those of the caller's folder, not of the daemon's. */
static const char *absolute(struct cli *cli, const char *path)
{
    CLEANUP(free) char *cwd = path[0] == '/' || !path[0] ? NULL : getcwd(NULL, 0);

    return cwd ? arena_printf(&cli->arena, "%s/%s", cwd, path) : path;
}

static bool is_folder(const struct train_option *option)
{
    return streq(option->field, "customDir") || streq(option->field, "snapshotsDir");
}

/* Our own options. False: it is none of them. */
static bool own_option(struct cli *cli, struct train *train, struct str name, const char *value, bool *took)
{
    static const struct {
        const char *name;
        size_t offset;
    } flags[] = {{"dry-run", offsetof(struct train, dry_run)},
                 {"follow", offsetof(struct train, follow)},
                 {"json", offsetof(struct train, json)}};

    for (size_t i = 0; i < ARRAY_LEN(flags); i++)
        if (str_is(name, flags[i].name)) {
            *(bool *)((char *)train + flags[i].offset) = true;
            *took = false;
            return true;
        }
    *took = true;
    if (str_is(name, "namespace"))
        train->ns = value;
    else if (str_is(name, "server"))
        cli->server = value;
    else if (str_is(name, "data"))
        cli->data_flag = value;
    else
        return false;
    return true;
}

static int take_option(struct cli *cli, struct train *train, const char *word, const char *next,
                       bool *took_next)
{
    struct str name = str_from(word + 2);
    const char *equals = strchr(word, '='), *value = equals ? equals + 1 : next;
    const struct train_option *option;
    struct err err = {0};
    bool took = true;

    if (equals)
        name.len = (size_t)(equals - word) - 2;
    *took_next = false;
    if (!own_option(cli, train, name, value, &took)) {
        option = train_option_find(name);
        if (!option)
            return cli_usage_error(train->verb, "unknown option '--%.*s'", STR_ARG(name));
        if (!value)
            return cli_usage_error(train->verb, "--%.*s needs a value (%s)", STR_ARG(name), option->help);
        if (train_option_text(&cli->arena, train->spec, option,
                              str_from(is_folder(option) ? absolute(cli, value) : value), &err) < 0)
            return cli_usage_error(train->verb, "%s", err.msg);
    } else if (took && !value) {
        return cli_usage_error(train->verb, "--%.*s needs a value", STR_ARG(name));
    }
    *took_next = took && !equals;
    return CLI_OK;
}

static int take_words(struct cli *cli, struct train *train, int argc, char **argv)
{
    bool only_names = false;

    for (int i = 0; i < argc; i++) {
        bool took_next = false;
        int code = CLI_OK;

        if (!only_names && streq(argv[i], "--")) {
            only_names = true;
        } else if (!only_names && starts_with(argv[i], "--")) {
            code = take_option(cli, train, argv[i], argv[i + 1], &took_next);
        } else if (!only_names && argv[i][0] == '-' && argv[i][1]) {
            code = cli_usage_error(train->verb, "unknown option '%s'", argv[i]);
        } else if (train->name) {
            code = cli_usage_error(train->verb, "there is one job name, but '%s' comes after '%s'", argv[i],
                                   train->name);
        } else {
            train->name = argv[i];
        }
        if (code != CLI_OK)
            return code;
        i += took_next;
    }
    return train->name ? CLI_OK : cli_usage_error(train->verb, "the job's name is missing");
}

static void say_submitted(struct cli *cli, const struct train *train, const struct json *job)
{
    const char *id = json_string_or(json_get(job, "id"), ""),
               *name = json_string_or(json_get(job, "name"), "");
    const char *reason = json_get_string(job, "reason");

    printf("%s submitted, job ID %s\n", name, id);
    if (json_is(json_get(job, "position"), JSON_INT))
        printf("number %lld in the queue%s%s\n", (long long)json_int(json_get(job, "position"), 0),
               reason && reason[0] ? ": " : "", reason ? reason : "");
    if (train->verb->link)
        printf("state: scheduler-state   log: scheduler-get-logs %s   end: scheduler-cancel-job %s\n", id,
               id);
    else
        printf("state: berth show %s   log: berth logs -f %s   end: berth cancel %s\n", name, name, name);
    (void)cli;
}

static void say_dry_run(struct cli *cli, const struct json *doc)
{
    if (json_is(json_get(doc, "position"), JSON_INT))
        printf("# it would be number %lld in the queue and start %s\n",
               (long long)json_int(json_get(doc, "position"), 0),
               view_until(cli, json_get(doc, "startEstimate"), json_get(doc, "startLow"),
                          json_get(doc, "startHigh")));
    fputs(json_string_or(json_get(doc, "yaml"), ""), stdout);
}

int verb_train(struct cli *cli, const struct args *args)
{
    struct train train = {.verb = args->verb, .spec = json_new_object(&cli->arena)};
    struct json *body = json_new_object(&cli->arena);
    struct reply reply;
    int code;

    for (int i = 0; i < args->count && !streq(args->rest[i], "--"); i++)
        if (streq(args->rest[i], "--help") || streq(args->rest[i], "-h")) {
            verb_usage(args->verb, stdout);
            return CLI_OK;
        }
    code = take_words(cli, &train, args->count, args->rest);
    if (code != CLI_OK)
        return code;
    json_set_string(&cli->arena, body, "job_name", train.name);
    if (train.ns)
        json_set_string(&cli->arena, body, "namespace", train.ns);
    json_set(&cli->arena, body, "spec", *train.spec);
    code = cli_send(cli, "POST", train.dry_run ? "/v1/train?dryRun=1" : "/v1/train", body, &reply);
    if (code != CLI_OK)
        return code;
    if (train.json)
        print_doc(reply.doc, OUTPUT_JSON, stdout);
    else if (train.dry_run)
        say_dry_run(cli, reply.doc);
    else
        say_submitted(cli, &train, reply.doc);
    fflush(stdout);
    if (!train.follow || train.dry_run)
        return CLI_OK;
    return follow_job(cli, json_string_or(json_get(reply.doc, "id"), ""),
                      json_string_or(json_get(reply.doc, "name"), ""), false);
}
