/* berth token create|list|revoke, berth token --web, berth cert list|renew|revoke. */
#include "base/buf.h"
#include "cli/cli.h"

#include <inttypes.h>
#include <unistd.h>

#define DEFAULT_TTL_SEC (INT64_C(30) * 86400)

int verb_token_create(struct cli *cli, const struct args *args)
{
    struct json *body = json_new_object(&cli->arena);
    const char *ttl = args_get(args, "ttl"), *token;
    int64_t ttl_sec = DEFAULT_TTL_SEC;
    enum output output;
    struct reply reply;
    struct err err = {0};
    int code;

    if (output_from(args, &output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    if (ttl && !parse_ttl(ttl, &ttl_sec))
        return cli_usage_error(args->verb, "--ttl must be a time such as 30d, 12h or 90m, not '%s'", ttl);
    if (args_has(args, "user"))
        json_set_string(&cli->arena, body, "user", args_get(args, "user"));
    json_set_int(&cli->arena, body, "ttlSec", ttl_sec);
    for (size_t i = 0; i < args->values.len; i++)
        if (streq(args->values.v[i].option->name, "group"))
            json_push_string(&cli->arena,
                             json_get(body, "groups") ? json_get(body, "groups")
                                                      : json_set_array(&cli->arena, body, "groups"),
                             args->values.v[i].value);
    if (args_has(args, "description"))
        json_set_string(&cli->arena, body, "description", args_get(args, "description"));
    code = cli_send(cli, "POST", "/v1/tokens", body, &reply);
    if (code != CLI_OK)
        return code;
    if (output != OUTPUT_TABLE) {
        print_doc(reply.doc, output, stdout);
        return CLI_OK;
    }
    token = json_get_string(reply.doc, "token");
    if (!token)
        return cli_fail(CLI_FAILED, "the daemon sent no token");
    fprintf(stderr, "token %s made; it is shown this once\n", json_string_or(json_get(reply.doc, "id"), ""));
    printf("%s\n", token);
    return CLI_OK;
}

int verb_token_list(struct cli *cli, const struct args *args)
{
    static const struct column columns[] = {{"ID", "id", CELL_TEXT},
                                            {"USER", "user", CELL_TEXT},
                                            {"AGE", "created", CELL_AGE},
                                            {"EXPIRES", "expires", CELL_TEXT},
                                            {"DESCRIPTION", "description", CELL_TEXT}};

    return cli_list(cli, args, "/v1/tokens", "items", columns, ARRAY_LEN(columns));
}

/* Takes credentials back by their id. */
static int revoke_all(struct cli *cli, const struct args *args, const char *folder, const char *what)
{
    int worst = CLI_OK;

    for (int i = 0; i < args->count; i++) {
        CLEANUP(buf_done) struct buf target = {0};
        struct reply reply;
        int64_t more;
        int code;

        buf_puts(&target, folder);
        buf_url_encode(&target, str_from(args->rest[i]));
        code = cli_send(cli, "DELETE", target.data, NULL, &reply);
        worst = code != CLI_OK ? code : worst;
        if (code != CLI_OK)
            continue;
        more = json_int(json_get(reply.doc, "credentials"), 1) - 1;
        printf("%s %s revoked", what, args->rest[i]);
        if (more > 0)
            printf(", with %lld that it made", (long long)more);
        puts("");
    }
    return worst;
}

int verb_token_revoke(struct cli *cli, const struct args *args)
{
    return revoke_all(cli, args, "/v1/tokens/", "token");
}

int verb_cert_revoke(struct cli *cli, const struct args *args)
{
    return revoke_all(cli, args, "/v1/certificates/", "certificate");
}

int verb_cert_list(struct cli *cli, const struct args *args)
{
    static const struct column columns[] = {{"ID", "id", CELL_TEXT},
                                            {"USER", "user", CELL_TEXT},
                                            {"GROUPS", "groups", CELL_LIST},
                                            {"AGE", "created", CELL_AGE},
                                            {"EXPIRES", "expires", CELL_TEXT}};

    return cli_list(cli, args, "/v1/certificates", "items", columns, ARRAY_LEN(columns));
}

int verb_cert_renew(struct cli *cli, const struct args *args)
{
    CLEANUP(buf_done) struct buf target = {0};
    struct reply reply;
    int code;

    buf_puts(&target, "/v1/certificates/");
    buf_url_encode(&target, str_from(args->rest[0]));
    buf_puts(&target, "/renew");
    code = cli_send(cli, "POST", target.data, NULL, &reply);
    if (code != CLI_OK)
        return code;
    return hand_out_kubeconfig(json_get_string(reply.doc, "kubeconfig"), args_get(args, "file"));
}

const char *page_link(struct cli *cli, const char *user, int *code)
{
    struct json *body = json_new_object(&cli->arena);
    const char *url;
    struct reply reply;

    if (user)
        json_set_string(&cli->arena, body, "user", user);
    *code = cli_send(cli, "POST", "/v1/page/links", body, &reply);
    if (*code != CLI_OK)
        return NULL;
    url = json_get_string(reply.doc, "http");
    return url ? url : json_get_string(reply.doc, "https");
}

int verb_token(struct cli *cli, const struct args *args)
{
    const char *url;
    int code;

    if (!args_has(args, "web"))
        return cli_usage_error(args->verb, "say --web, or one of token create, list, revoke");
    url = page_link(cli, args_get(args, "user"), &code);
    if (code != CLI_OK)
        return code;
    if (!url)
        return cli_fail(CLI_FAILED, "the daemon has no HTTP address: start it with --http or --https");
    if (isatty(STDOUT_FILENO))
        fputs("Open this in a browser; it works once, for 15 minutes:\n", stderr);
    printf("%s\n", url);
    return CLI_OK;
}
