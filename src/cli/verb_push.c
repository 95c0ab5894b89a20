/* berth push: what berth build made, to a registry. */
#include "cli/image_tools.h"

/* What is at the registry now is what its name means from now on. */
static void forget_local(struct cli *cli, const char *name)
{
    CLEANUP(buf_done) struct buf target = {0};
    struct reply reply;

    buf_puts(&target, "/v1/images?local=1&name=");
    buf_url_encode(&target, str_from(name));
    (void)cli_ask(cli, &(struct call){.method = "DELETE", .target = target.data}, &reply);
}

int image_push(struct cli *cli, struct image_tools *tools, const char *name, const char *dest)
{
    const char *argv[TOOL_ARGS_MAX];
    const char *host = image_host_of(cli, dest);
    struct tool_error error;

    if (!tool_exists("buildah"))
        return cli_fail(CLI_FAILED, "buildah is not installed here: apt install buildah");
    buildah_args(cli, tools, argv);
    tool_arg(argv, "push");
    tool_arg(argv, arena_printf(&cli->arena, "--authfile=%s", tools->auth));
    if (json_bool(json_get(image_registry(tools, host), "insecure")))
        tool_arg(argv, "--tls-verify=false");
    if (tools->cert_dir)
        tool_arg(argv, arena_printf(&cli->arena, "--cert-dir=%s", tools->cert_dir));
    tool_arg(argv, image_full_name(cli, name));
    tool_arg(argv, arena_printf(&cli->arena, "docker://%s", image_full_name(cli, dest)));
    if (tool_run(argv, NULL, false, &error) != 0)
        return streq(name, dest) ? tool_fail(cli, &error, host, "'%s' was not pushed", name)
                                 : tool_fail(cli, &error, host, "'%s' was not pushed to '%s'", name, dest);
    if (streq(image_full_name(cli, name), image_full_name(cli, dest)))
        forget_local(cli, name);
    return CLI_OK;
}

int verb_push(struct cli *cli, const struct args *args)
{
    const char *name = args->rest[0], *dest = args->count > 1 ? args->rest[1] : NULL;
    struct image_tools tools = {0};
    int code = image_tools_open(cli, &tools);

    if (code != CLI_OK)
        return code;
    if (!dest && streq(image_host_of(cli, name), "docker.io") && tools.push_to)
        dest = arena_printf(&cli->arena, "%s/%s", tools.push_to, name);
    code = image_push(cli, &tools, name, dest ? dest : name);
    image_tools_done(&tools);
    if (code == CLI_OK)
        printf("pushed %s\n", dest ? dest : name);
    return code;
}
