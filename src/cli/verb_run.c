/* berth run -- COMMAND: this folder, as it is now, as a job. */
#include "base/buf.h"
#include "base/file.h"
#include "cli/follow.h"
#include "cli/queue_view.h"
#include "cli/snapshot.h"
#include "objects/train_options.h"

#include <stdlib.h>
#include <unistd.h>

#define GPUS_MAX 1024

/* Options that are those of run-scheduler under a shorter name. */
static const char *const same[][2] = {
    {"image", "image_name"},      {"gpu-memory", "estimated_memory"},
    {"epochs", "max_epochs"},     {"hours", "est_nhours"},
    {"priority", "priority"},     {"cpu", "cpu"},
    {"memory", "memory"},         {"port", "port_mapping"},
    {"batch-size", "batch_size"}, {"set-size", "training_set_size"},
};

static int add_options(struct cli *cli, const struct args *args, struct json *spec)
{
    struct err err = {0};

    for (size_t i = 0; i < ARRAY_LEN(same); i++) {
        const char *value = args_get(args, same[i][0]);

        if (value && train_option_text(&cli->arena, spec, train_option_find(str_from(same[i][1])),
                                       str_from(value), &err) < 0)
            return cli_usage_error(args->verb, "--%s: %s", same[i][0], err.msg);
    }
    VEC_EACH(&args->values, it)
        if (streq(it->option->name, "env") &&
            train_option_text(&cli->arena, spec, train_option_find(STR("env")), str_from(it->value), &err) <
                0)
            return cli_usage_error(args->verb, "%s", err.msg);
    return CLI_OK;
}

static int add_gpus(struct cli *cli, const struct args *args, struct json *spec)
{
    const char *text = args_get(args, "gpus");
    int64_t gpus = 1;

    if (text && (!str_to_int(str_from(text), &gpus) || gpus < 0 || gpus > GPUS_MAX))
        return cli_usage_error(args->verb, "--gpus must be a number from 0 to %d, not '%s'", GPUS_MAX, text);
    json_set_int(&cli->arena, spec, "minGPUs", gpus);
    json_set_int(&cli->arena, spec, "maxGPUs", gpus);
    return CLI_OK;
}

/* Named after the folder, with four random letters, so that the same can run twice. */
static const char *job_name(struct cli *cli, const struct args *args, const char *folder)
{
    const char *slash = strrchr(folder, '/'), *name = args_get(args, "name");
    char random[5];

    if (name)
        return name;
    random_hex(random, 2);
    name = train_object_name(&cli->arena, slash && slash[1] ? slash + 1 : "job");
    return arena_printf(&cli->arena, "%.40s-%s", name[0] ? name : "job", random);
}

/* Where this user's snapshots lie. */
static const char *snapshot_path(struct cli *cli, const char *name)
{
    const char *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    char random[9];

    random_hex(random, 4);
    if (xdg && xdg[0] == '/')
        return arena_printf(&cli->arena, "%s/berth/runs/%s-%s", xdg, name, random);
    return arena_printf(&cli->arena, "%s/.local/share/berth/runs/%s-%s", home ? home : "/tmp", name, random);
}

static int take_snapshot(struct cli *cli, const char *folder, const char *to)
{
    struct snapshot_stats stats = {0};
    struct err err = {0};

    (void)cli;
    if (snapshot_take(folder, to, &stats, &err) < 0)
        return cli_fail(CLI_FAILED, "%s", err.msg);
    fprintf(stderr, "== snapshot of %s: %lld files, %.1f MB\n", folder, (long long)stats.files,
            (double)stats.bytes / 1e6);
    return CLI_OK;
}

int verb_run(struct cli *cli, const struct args *args)
{
    struct json *body = json_new_object(&cli->arena), *spec = json_new_object(&cli->arena), *command;
    CLEANUP(free) char *folder = realpath(args_has(args, "dir") ? args_get(args, "dir") : ".", NULL);
    const char *name, *to;
    struct reply reply;
    int code;

    if (!folder)
        return cli_fail(CLI_FAILED, "there is no folder '%s'",
                        args_has(args, "dir") ? args_get(args, "dir") : ".");
    code = add_gpus(cli, args, spec);
    if (code == CLI_OK)
        code = add_options(cli, args, spec);
    if (code == CLI_OK)
        code = cli_get(cli, "/v1/status", &reply); /* before a copy is made in vain */
    if (code != CLI_OK)
        return code;
    name = job_name(cli, args, folder);
    to = snapshot_path(cli, name);
    code = take_snapshot(cli, folder, to);
    if (code != CLI_OK)
        return code;
    json_set_string(&cli->arena, spec, "customDir", to);
    json_set_string(&cli->arena, spec, "workingDir", "/custom");
    command = json_set_array(&cli->arena, spec, "command");
    for (int i = 0; i < args->count; i++)
        json_push_string(&cli->arena, command, args->rest[i]);
    json_set_string(&cli->arena, body, "job_name", name);
    if (args_has(args, "namespace"))
        json_set_string(&cli->arena, body, "namespace", args_get(args, "namespace"));
    json_set(&cli->arena, body, "spec", *spec);
    code = cli_send(cli, "POST", "/v1/train", body, &reply);
    if (code != CLI_OK)
        return code;
    name = json_string_or(json_get(reply.doc, "name"), name);
    if (args_has(args, "detach")) {
        printf("%s\n", name);
        fprintf(stderr, "its log: berth logs -f %s   to end it: berth cancel %s\n", name, name);
        return CLI_OK;
    }
    fprintf(stderr, "== %s submitted; Ctrl-C detaches, it goes on\n", name);
    return follow_job(cli, json_string_or(json_get(reply.doc, "id"), name), name, false);
}
