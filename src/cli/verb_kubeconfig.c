/* berth kubeconfig: the caller's own, or (for admins) that of a user. */
#include "cli/cli.h"

int verb_kubeconfig(struct cli *cli, const struct args *args)
{
    struct json *body = json_new_object(&cli->arena);
    const char *user = args_get(args, "user");
    struct reply reply;
    int code;

    if (user)
        json_set_string(&cli->arena, body, "user", user);
    code = cli_send(cli, "POST", "/v1/kubeconfig", body, &reply);
    if (code != CLI_OK)
        return code;
    return hand_out_kubeconfig(json_get_string(reply.doc, "kubeconfig"), args_get(args, "file"));
}
