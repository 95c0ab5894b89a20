/* berth delete -f FILE | KIND NAME... | KIND -l LABELS | KIND --all. Returns when the daemon has accepted the
 * deletion; an object with a grace period may be there a little longer. */
#include "base/buf.h"
#include "base/yaml.h"
#include "cli/cli.h"

struct deletion {
    struct cli *cli;
    const struct args *args;
    const char *ns;
};

static int delete_one(struct deletion *deletion, const struct resource *resource, const char *ns,
                      const char *name)
{
    static const char body[] = "{\"propagationPolicy\":\"Background\"}";
    struct call call = {.method = "DELETE",
                        .target = resource_path(deletion->cli, resource, ns, name),
                        .body = {body, sizeof(body) - 1}};
    struct reply reply;
    int code = cli_ask(deletion->cli, &call, &reply);

    if (code != CLI_OK)
        return code;
    if (reply.status == 404 && args_has(deletion->args, "ignore-not-found"))
        return CLI_OK;
    code = reply_exit(&reply);
    if (code != CLI_OK)
        return cli_fail(code, "%s", reply_message(deletion->cli, &reply));
    printf("%s \"%s\" deleted\n", resource_title(deletion->cli, resource), name);
    return CLI_OK;
}

/* ---- what manifests name ---- */

static int delete_doc(struct deletion *deletion, const char *file, const struct json *doc)
{
    const char *kind = json_get_string(doc, "kind"), *name = json_at_string(doc, "metadata.name");
    const char *ns = json_at_string(doc, "metadata.namespace");
    struct resource resource;
    int code;

    if (streq(kind, "List")) {
        int worst = CLI_OK;

        JSON_EACH(json_get(doc, "items"), it) {
            code = delete_doc(deletion, file, it);
            worst = code != CLI_OK ? code : worst;
        }
        return worst;
    }
    if (!kind || !name)
        return cli_fail(CLI_FAILED, "%s: a document has no kind or no metadata.name", file);
    code = resource_of(deletion->cli, json_string_or(json_get(doc, "apiVersion"), "v1"), kind, &resource);
    if (code != CLI_OK)
        return code;
    return delete_one(deletion, &resource, ns ? ns : deletion->ns, name);
}

static int delete_file(struct deletion *deletion, const struct manifest *file)
{
    struct json *docs;
    struct err err = {0};
    int worst = CLI_OK;

    if (yaml_parse(file->text, &deletion->cli->arena, &docs, NULL, &err) < 0)
        return cli_fail(CLI_FAILED, "%s: %s", file->name, err.msg);
    JSON_EACH(docs, it) {
        int code = delete_doc(deletion, file->name, it);

        if (code == CLI_UNREACHABLE)
            return code;
        worst = code != CLI_OK ? code : worst;
    }
    return worst;
}

static int delete_manifests(struct deletion *deletion)
{
    const struct args *args = deletion->args;
    struct manifests manifests = {{0}};
    struct err err = {0};
    int code = CLI_OK;

    for (size_t i = 0; code == CLI_OK && i < args->values.len; i++)
        if (streq(args->values.v[i].option->name, "filename") &&
            manifests_add(deletion->cli, &manifests, args->values.v[i].value, &err) < 0)
            code = cli_fail(err.code == ERR_NOT_FOUND ? CLI_NOT_FOUND : CLI_FAILED, "%s", err.msg);
    for (size_t i = 0; code != CLI_UNREACHABLE && i < manifests.files.len; i++) {
        int one = delete_file(deletion, &manifests.files.v[i]);

        code = one != CLI_OK ? one : code;
    }
    manifests_done(&manifests);
    return code;
}

/* ---- what words name ---- */

static int delete_selected(struct deletion *deletion, const struct resource *resource)
{
    const char *selector = args_get(deletion->args, "selector");
    CLEANUP(buf_done) struct buf target = {0};
    struct reply reply;
    int code;

    buf_puts(&target, resource_path(deletion->cli, resource, deletion->ns, NULL));
    if (selector) {
        buf_puts(&target, "?labelSelector=");
        buf_url_encode(&target, str_from(selector));
    }
    code = cli_get(deletion->cli, target.data, &reply);
    if (code != CLI_OK)
        return code;
    if (json_len(json_get(reply.doc, "items")) == 0)
        fputs("No resources found\n", stderr);
    JSON_EACH(json_get(reply.doc, "items"), it) {
        int one =
            delete_one(deletion, resource, deletion->ns, json_string_or(json_at(it, "metadata.name"), ""));

        code = one != CLI_OK ? one : code;
    }
    return code;
}

static int delete_words(struct deletion *deletion)
{
    const struct args *args = deletion->args;
    const char *slash = strchr(args->rest[0], '/');
    const char *word =
        slash ? arena_strndup(&deletion->cli->arena, args->rest[0], (size_t)(slash - args->rest[0]))
              : args->rest[0];
    bool selected = args_has(args, "selector") || args_has(args, "all");
    struct resource resource;
    int code;

    if (!slash && selected == (args->count > 1))
        return cli_usage_error(args->verb, "needs either names, or -l or --all");
    code = resource_find(deletion->cli, word, &resource);
    if (code != CLI_OK)
        return code;
    if (slash)
        return delete_one(deletion, &resource, deletion->ns, slash + 1);
    if (selected)
        return delete_selected(deletion, &resource);
    for (int i = 1; i < args->count; i++) {
        int one = delete_one(deletion, &resource, deletion->ns, args->rest[i]);

        code = one != CLI_OK ? one : code;
    }
    return code;
}

int verb_delete(struct cli *cli, const struct args *args)
{
    struct deletion deletion = {.cli = cli, .args = args};
    int code = CLI_OK;

    if (args_has(args, "filename") == (args->count > 0))
        return cli_usage_error(args->verb, "needs either -f FILE, or KIND and names");
    deletion.ns = cli_namespace(cli, args, &code);
    if (!deletion.ns)
        return code;
    return args_has(args, "filename") ? delete_manifests(&deletion) : delete_words(&deletion);
}
