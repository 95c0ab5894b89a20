/* berth notify: where what happens to the caller's jobs is sent. */
#include "base/buf.h"
#include "cli/cli.h"

#define LINE_MAX_BYTES 4096

static const char *target(struct cli *cli, const struct args *args, const char *what)
{
    CLEANUP(buf_done) struct buf text = {0};

    buf_printf(&text, "/v1/notify%s", what);
    if (args_has(args, "user")) {
        buf_puts(&text, "?user=");
        buf_url_encode(&text, str_from(args_get(args, "user")));
    }
    return arena_strndup(&cli->arena, text.data, text.len);
}

static const char *list_text(struct cli *cli, const struct json *list)
{
    CLEANUP(buf_done) struct buf text = {0};

    JSON_EACH(list, it)
        buf_printf(&text, "%s%s", text.len ? ", " : "", json_string_or(it, ""));
    return arena_strndup(&cli->arena, text.data ? text.data : "", text.len);
}

static void print_settings(struct cli *cli, const struct json *doc)
{
    static const char *const channels[] = {"mail", "webhook", "command"};
    bool any = false;

    for (size_t i = 0; i < ARRAY_LEN(channels); i++) {
        const char *value = json_get_string(doc, channels[i]);

        any = any || value;
        if (value)
            printf("%-8s %s\n", channels[i], value);
    }
    if (json_bool(json_get(doc, "off")))
        puts("off: nothing is sent (turn it on: berth notify set mail=... | webhook=... | command=...)");
    else if (!any)
        puts("nothing is sent: berth notify set mail=... | webhook=... | command=...");
    else
        printf("%-8s %s\n", "kinds", list_text(cli, json_get(doc, "kinds")));
    if (any && json_bool(json_get(doc, "default")))
        puts("These are this server's defaults.");
    JSON_EACH(json_get(doc, "waiting"), it)
        printf("%lld to %s not delivered yet%s%s\n", (long long)json_int(json_get(it, "messages"), 0),
               json_string_or(json_get(it, "to"), ""), *json_string_or(json_get(it, "why"), "") ? ": " : "",
               json_string_or(json_get(it, "why"), ""));
}

static int show_reply(struct cli *cli, const struct args *args, const struct reply *reply)
{
    enum output output;
    struct err err = {0};

    if (output_from(args, &output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    if (output == OUTPUT_JSON || output == OUTPUT_YAML)
        print_doc(reply->doc, output, stdout);
    else
        print_settings(cli, reply->doc);
    return CLI_OK;
}

int verb_notify(struct cli *cli, const struct args *args)
{
    struct reply reply;
    int code = cli_get(cli, target(cli, args, ""), &reply);

    return code == CLI_OK ? show_reply(cli, args, &reply) : code;
}

/* The first line of standard input, for what is not to be seen in a list of processes. */
static const char *line_from_stdin(struct cli *cli)
{
    char line[LINE_MAX_BYTES] = "";

    if (!fgets(line, sizeof(line), stdin))
        return "";
    line[strcspn(line, "\r\n")] = '\0';
    return arena_strdup(&cli->arena, line);
}

int verb_notify_set(struct cli *cli, const struct args *args)
{
    struct json *body = json_new_object(&cli->arena);
    struct reply reply;
    int code;

    for (int i = 0; i < args->count; i++) {
        const char *equals = strchr(args->rest[i], '='), *value = equals ? equals + 1 : "";
        const char *name = equals
                               ? arena_strndup(&cli->arena, args->rest[i], (size_t)(equals - args->rest[i]))
                               : args->rest[i];

        if (!equals)
            return cli_usage_error(args->verb, "'%s': must be NAME=VALUE, such as mail=ann@lab.example",
                                   name);
        if (streq(value, "-"))
            value = line_from_stdin(cli);
        if (*value)
            json_set_string(&cli->arena, body, name, value);
        else
            json_set_string(&cli->arena, body, name, NULL);
    }
    code = cli_send(cli, "PUT", target(cli, args, ""), body, &reply);
    return code == CLI_OK ? show_reply(cli, args, &reply) : code;
}

int verb_notify_off(struct cli *cli, const struct args *args)
{
    struct json *body = json_new_object(&cli->arena);
    struct reply reply;
    int code;

    json_set_bool(&cli->arena, body, "off", true);
    code = cli_send(cli, "PUT", target(cli, args, ""), body, &reply);
    if (code == CLI_OK)
        puts("messages are off; 'berth inbox' still shows everything");
    return code;
}

int verb_notify_test(struct cli *cli, const struct args *args)
{
    struct reply reply;
    int code = cli_send(cli, "POST", target(cli, args, "/test"), NULL, &reply);

    if (code == CLI_OK)
        puts("a test message is on its way; 'berth notify' says when it cannot be delivered");
    return code;
}
