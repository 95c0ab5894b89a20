/* berth apply -f FILE: the daemon reads the text, corrects common slips and stores; this prints what it did.
 */
#include "base/buf.h"
#include "cli/cli.h"

struct apply {
    struct cli *cli;
    const struct args *args;
    enum output output;
    const char *target;
    struct json *items; /* of all files, for -o json and yaml */
    bool failed;
};

static const char *item_title(struct cli *cli, const struct json *item)
{
    return arena_printf(&cli->arena, "%s/%s", json_string_or(json_get(item, "resource"), "object"),
                        json_string_or(json_get(item, "name"), ""));
}

static void print_item(struct apply *apply, const char *file, size_t number, const struct json *item)
{
    const struct json *status = json_get(item, "status");
    const char *title = item_title(apply->cli, item);

    JSON_EACH(json_get(item, "warnings"), it)
        cli_say(stderr, "warning: %s:doc %zu: %s\n", file, number, json_string_or(it, ""));
    if (status) {
        apply->failed = true;
        cli_say(stderr, "Error: %s:doc %zu: %s\n", file, number,
                json_string_or(json_get(status, "message"), "the daemon refused it"));
    } else if (apply->output == OUTPUT_NAME) {
        printf("%s\n", title);
    } else if (apply->output == OUTPUT_TABLE) {
        printf("%s %s%s\n", title, json_string_or(json_get(item, "result"), "applied"),
               args_has(apply->args, "dry-run") ? " (dry run)" : "");
    }
}

static int apply_file(struct apply *apply, const struct manifest *file)
{
    struct call call = {
        .method = "POST", .target = apply->target, .content_type = "application/yaml", .body = file->text};
    const char *name = streq(file->name, "-") ? "stdin" : file->name;
    struct reply reply;
    size_t number = 0;
    int code = cli_ask(apply->cli, &call, &reply);

    if (code != CLI_OK)
        return code;
    if (!json_get(reply.doc, "items")) {
        fflush(stdout);
        cli_say(stderr, "Error: %s: %s\n", name, reply_message(apply->cli, &reply));
        return reply_exit(&reply) == CLI_OK ? CLI_FAILED : reply_exit(&reply);
    }
    JSON_EACH(json_get(reply.doc, "items"), it) {
        print_item(apply, name, ++number, it);
        json_push(&apply->cli->arena, apply->items, *it);
    }
    if (number == 0)
        fprintf(stderr, "warning: %s: no documents\n", name);
    return CLI_OK;
}

/* Without -n the daemon takes the caller's namespace. */
static const char *apply_target(struct cli *cli, const struct args *args)
{
    CLEANUP(buf_done) struct buf target = {0};

    buf_printf(&target, "/v1/apply?dryRun=%d", args_has(args, "dry-run"));
    if (args_has(args, "namespace")) {
        buf_puts(&target, "&namespace=");
        buf_url_encode(&target, str_from(args_get(args, "namespace")));
    }
    return arena_strdup(&cli->arena, target.data);
}

static int apply_all(struct apply *apply, const struct manifests *manifests)
{
    int worst = CLI_OK;

    for (size_t i = 0; i < manifests->files.len; i++) {
        int code = apply_file(apply, &manifests->files.v[i]);

        if (code == CLI_UNREACHABLE)
            return code;
        worst = code != CLI_OK ? code : worst;
    }
    if (apply->output == OUTPUT_JSON || apply->output == OUTPUT_YAML) {
        struct json *doc = json_new_object(&apply->cli->arena);

        json_set(&apply->cli->arena, doc, "items", *apply->items);
        print_doc(doc, apply->output, stdout);
    }
    return worst == CLI_OK && apply->failed ? CLI_FAILED : worst;
}

int verb_apply(struct cli *cli, const struct args *args)
{
    struct apply apply = {.cli = cli, .args = args, .items = json_new_array(&cli->arena)};
    struct manifests manifests = {{0}};
    struct err err = {0};
    int code = CLI_OK;

    if (output_from(args, &apply.output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    if (!args_has(args, "filename"))
        return cli_usage_error(args->verb, "needs -f FILE");
    for (size_t i = 0; code == CLI_OK && i < args->values.len; i++)
        if (streq(args->values.v[i].option->name, "filename") &&
            manifests_add(cli, &manifests, args->values.v[i].value, &err) < 0)
            code = cli_fail(err.code == ERR_NOT_FOUND ? CLI_NOT_FOUND : CLI_FAILED, "%s", err.msg);
    apply.target = apply_target(cli, args);
    if (code == CLI_OK)
        code = apply_all(&apply, &manifests);
    manifests_done(&manifests);
    return code;
}
