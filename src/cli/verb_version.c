/* berth version and berth help. */
#include "cli/cli.h"

int verb_version(struct cli *cli, const struct args *args)
{
    struct json *doc = json_new_object(&cli->arena);
    struct place place = cli_place(cli, NULL);
    const char *daemon = NULL, *kubernetes = NULL;
    enum output output;
    struct reply reply;
    struct err err = {0};

    if (output_from(args, &output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    /* without a daemon, the own version is the answer and no error */
    if (cli->server || socket_answers(place.socket, NULL)) {
        if (cli_get(cli, "/v1/status", &reply) == CLI_OK)
            daemon = json_get_string(reply.doc, "version");
        if (daemon && cli_get(cli, "/version", &reply) == CLI_OK)
            kubernetes = json_get_string(reply.doc, "gitVersion");
    }
    json_set_string(&cli->arena, doc, "berth", BERTH_VERSION);
    json_set_string(&cli->arena, doc, "berthd", daemon);
    json_set_string(&cli->arena, doc, "kubernetesApi", kubernetes);
    if (output != OUTPUT_TABLE) {
        print_doc(doc, output, stdout);
        return CLI_OK;
    }
    printf("berth %s\nberthd %s\n", BERTH_VERSION, daemon ? daemon : "not running");
    if (kubernetes)
        printf("Kubernetes API %s\n", kubernetes);
    return CLI_OK;
}

int verb_help(struct cli *cli, const struct args *args)
{
    const struct verb *verb;
    int words;

    (void)cli;
    if (args->count == 0) {
        program_usage(stdout);
        return CLI_OK;
    }
    verb = verb_find(args->count, args->rest, &words);
    if (!verb)
        return cli_fail(CLI_USAGE, "there is no verb '%s': see 'berth help'", args->rest[0]);
    verb_usage(verb, stdout);
    return CLI_OK;
}
