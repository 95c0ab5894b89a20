/* berth - the command line. Options may stand before the verb, too. */
#include "cli/cli.h"

#include <signal.h>
#include <stdlib.h>

/* Takes the common options that stand before the verb; returns the place of the verb in argv. */
static int leading_options(struct cli *cli, int argc, char **argv)
{
    int i = 1;

    for (; i < argc && argv[i][0] == '-'; i++) {
        if (streq(argv[i], "--server") && i + 1 < argc)
            cli->server = argv[++i];
        else if (starts_with(argv[i], "--server="))
            cli->server = argv[i] + strlen("--server=");
        else if (streq(argv[i], "--data") && i + 1 < argc)
            cli->data_flag = argv[++i];
        else if (starts_with(argv[i], "--data="))
            cli->data_flag = argv[i] + strlen("--data=");
        else
            break;
    }
    return i;
}

static int unknown_verb(char **argv)
{
    const char *near = verb_nearest(argv[0]);

    if (argv[0][0] == '-')
        return cli_fail(CLI_USAGE, "unknown option '%s': see 'berth help'", argv[0]);
    if (verb_is_group(argv[0])) {
        cli_fail(CLI_USAGE, "'%s' needs one of these:", argv[0]);
        for (const struct verb *verb = verbs; verb->name; verb++)
            if (starts_with(verb->name, argv[0]) && verb->name[strlen(argv[0])] == ' ')
                fprintf(stderr, "  berth %-14s %s\n", verb->name, verb->summary);
        return CLI_USAGE;
    }
    if (near)
        return cli_fail(CLI_USAGE, "there is no verb '%s': did you mean 'berth %s'?", argv[0], near);
    return cli_fail(CLI_USAGE, "there is no verb '%s': see 'berth help'", argv[0]);
}

static int run(struct cli *cli, const struct verb *verb, int argc, char **argv)
{
    struct args args;
    struct err err = {0};
    int code;

    if (args_parse(verb, argc, argv, &args, &err) < 0)
        code = cli_usage_error(verb, "%s", err.msg);
    else if (args_has(&args, "help")) {
        verb_usage(verb, stdout);
        code = CLI_OK;
    } else {
        cli->server = args_has(&args, "server") ? args_get(&args, "server") : cli->server;
        cli->data_flag = args_has(&args, "data") ? args_get(&args, "data") : cli->data_flag;
        code = verb->run(cli, &args);
    }
    args_done(&args);
    return code;
}

/* Called under the name of another program, it is that one. */
static const struct verb *verb_of_name(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    for (const struct verb *verb = link_verbs; verb->name; verb++)
        if (streq(verb->name, name))
            return verb;
    return NULL;
}

static int dispatch(struct cli *cli, int argc, char **argv)
{
    const struct verb *verb = argc > 0 ? verb_of_name(argv[0]) : NULL;
    int at, words = 1;

    if (verb)
        return run(cli, verb, argc, argv);
    at = leading_options(cli, argc, argv);
    if (at >= argc) {
        program_usage(stderr);
        return CLI_USAGE;
    }
    if (streq(argv[at], "--help") || streq(argv[at], "-h")) {
        program_usage(stdout);
        return CLI_OK;
    }
    if (streq(argv[at], "--version")) {
        printf("berth %s\n", BERTH_VERSION);
        return CLI_OK;
    }
    if (streq(argv[at], "__complete"))
        return complete_words(argc - at - 1, argv + at + 1);
    verb = verb_find(argc - at, argv + at, &words);
    if (!verb)
        return unknown_verb(argv + at);
    return run(cli, verb, argc - at - words + 1, argv + at + words - 1);
}

int main(int argc, char **argv)
{
    struct cli cli = {
        .server = getenv("BERTH_SERVER"), .ca_path = getenv("BERTH_CA"), .token = getenv("BERTH_TOKEN")};
    int code;

    signal(SIGPIPE, SIG_IGN); /* a closed connection is an error to report; a closed stdout is seen below */
    code = dispatch(&cli, argc, argv);
    if (fflush(stdout) != 0 && code == CLI_OK)
        code = CLI_FAILED;
    cli_done(&cli);
    return code;
}
