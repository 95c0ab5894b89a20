/* berth get KIND [NAME...] | KIND/NAME... - what kubectl get prints, from the same Table answers. */
#include "cli/cli.h"

#define TABLE "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"

struct get {
    struct cli *cli;
    const struct args *args;
    enum output output;
    const char *ns; /* NULL: all */
    bool all;
};

static void print_name(struct get *get, const struct resource *resource, const struct json *doc)
{
    printf("%s/%s\n", resource_title(get->cli, resource), json_string_or(json_at(doc, "metadata.name"), ""));
}

static void print_reply(struct get *get, const struct resource *resource, const struct json *doc,
                        bool headers)
{
    const struct json *items = json_get(doc, "items");

    if (get->output == OUTPUT_NAME) {
        JSON_EACH(items, it)
            print_name(get, resource, it);
        if (!items)
            print_name(get, resource, doc);
    } else if (get->output == OUTPUT_JSON || get->output == OUTPUT_YAML) {
        print_doc(doc, get->output, stdout);
    } else if (json_len(json_get(doc, "rows")) == 0) {
        if (get->ns && resource->namespaced)
            fprintf(stderr, "No resources found in %s namespace.\n", get->ns);
        else
            fputs("No resources found\n", stderr);
    } else {
        print_table(get->cli, doc, get->output == OUTPUT_WIDE, get->all && resource->namespaced, headers,
                    stdout);
    }
}

static void add_query(struct buf *target, const char *name, const char *value)
{
    if (!value)
        return;
    buf_printf(target, "%s%s=", strchr(target->data, '?') ? "&" : "?", name);
    buf_url_encode(target, str_from(value));
}

static int get_one(struct get *get, const struct resource *resource, const char *name, bool headers)
{
    CLEANUP(buf_done) struct buf target = {0};
    bool table = get->output == OUTPUT_TABLE || get->output == OUTPUT_WIDE;
    struct reply reply;
    int code;

    buf_puts(&target, resource_path(get->cli, resource, get->ns, name));
    if (!name) {
        add_query(&target, "labelSelector", args_get(get->args, "selector"));
        add_query(&target, "fieldSelector", args_get(get->args, "field-selector"));
    }
    code = cli_call(get->cli,
                    &(struct call){.method = "GET", .target = target.data, .accept = table ? TABLE : NULL},
                    &reply);
    if (code == CLI_OK)
        print_reply(get, resource, reply.doc, headers);
    return code;
}

/* KIND/NAME ... : each word names an object. */
static int get_pairs(struct get *get)
{
    int worst = CLI_OK;

    for (int i = 0; i < get->args->count; i++) {
        const char *slash = strchr(get->args->rest[i], '/');
        struct resource resource;
        int code;

        if (!slash)
            return cli_usage_error(get->args->verb, "'%s' is not KIND/NAME", get->args->rest[i]);
        code = resource_find(
            get->cli,
            arena_strndup(&get->cli->arena, get->args->rest[i], (size_t)(slash - get->args->rest[i])),
            &resource);
        if (code == CLI_OK)
            code = get_one(get, &resource, slash + 1, !args_has(get->args, "no-headers"));
        worst = code != CLI_OK ? code : worst;
    }
    return worst;
}

int verb_get(struct cli *cli, const struct args *args)
{
    struct get get = {.cli = cli, .args = args, .all = args_has(args, "all-namespaces")};
    bool headers = !args_has(args, "no-headers");
    struct resource resource;
    struct err err = {0};
    int code = CLI_OK;

    if (output_from(args, &get.output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    if (get.all && args->count > 1)
        return cli_usage_error(args->verb, "a name cannot be looked for in all namespaces");
    if (!get.all) {
        get.ns = cli_namespace(cli, args, &code);
        if (!get.ns)
            return code;
    }
    if (strchr(args->rest[0], '/'))
        return get_pairs(&get);
    code = resource_find(cli, args->rest[0], &resource);
    if (code != CLI_OK)
        return code;
    if (args->count == 1)
        return get_one(&get, &resource, NULL, headers);
    for (int i = 1; i < args->count; i++) {
        int one = get_one(&get, &resource, args->rest[i], headers && i == 1);

        code = one != CLI_OK ? one : code;
    }
    return code;
}
