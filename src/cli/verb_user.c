/* berth user add|list|disable|enable|remove. */
#include "base/file.h"
#include "base/yaml.h"
#include "cli/cli.h"

#include <errno.h>
#include <sys/stat.h>

int hand_out_kubeconfig(const char *text, const char *path)
{
    struct err err = {0};

    if (!text)
        return cli_fail(CLI_FAILED, "the daemon sent no kubeconfig");
    if (!path) {
        fputs(text, stdout);
        return CLI_OK;
    }
    if (file_write_atomic(path, str_from(text), 0600, &err) < 0)
        return cli_fail(CLI_FAILED, "%s", err.msg);
    fprintf(stderr, "wrote %s\n", path);
    return CLI_OK;
}

static int write_in(struct cli *cli, const char *dir, const char *name, struct str text)
{
    const char *path = arena_printf(&cli->arena, "%s/%s", dir, name);
    struct err err = {0};

    if (file_write_atomic(path, text, 0600, &err) < 0)
        return cli_fail(CLI_FAILED, "%s", err.msg);
    fprintf(stderr, "wrote %s\n", path);
    return CLI_OK;
}

/* The certificate and the key as files beside the kubeconfig, which then names them. */
static int hand_out_files(struct cli *cli, const char *text, const char *dir)
{
    static const char *const parts[][3] = {
        {"client-certificate-data", "client-certificate", "user.crt"},
        {"client-key-data", "client-key", "user.key"},
    };
    struct json *doc, *user;
    CLEANUP(buf_done) struct buf out = {0};
    int code = CLI_OK;

    if (!text || yaml_parse_one(str_from(text), &cli->arena, &doc, NULL) < 0 ||
        !(user = json_get(json_item(json_get(doc, "users"), 0), "user")))
        return cli_fail(CLI_FAILED, "the daemon sent no kubeconfig");
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return cli_fail(CLI_FAILED, "make '%s': %s", dir, strerror(errno));
    for (size_t i = 0; i < ARRAY_LEN(parts) && code == CLI_OK; i++) {
        CLEANUP(buf_done) struct buf raw = {0};

        if (!buf_base64_decode(&raw, json_str(json_get(user, parts[i][0]))))
            return cli_fail(CLI_FAILED, "the daemon's kubeconfig has no %s", parts[i][0]);
        json_remove(user, parts[i][0]);
        json_set_string(&cli->arena, user, parts[i][1], parts[i][2]);
        code = write_in(cli, dir, parts[i][2], buf_view(&raw));
    }
    yaml_write(&out, doc);
    return code == CLI_OK ? write_in(cli, dir, "user.config", buf_view(&out)) : code;
}

/* What happened, and what follows where the machine does not know the name. */
static void say_added(const struct json *doc, const char *name)
{
    if (json_bool(json_get(doc, "created")))
        fprintf(stderr, "user %s added\n", name);
    else
        fprintf(stderr, "user %s exists already; this is a new kubeconfig\n", name);
    if (json_get(doc, "account") && !json_bool(json_get(doc, "account")))
        fprintf(stderr,
                "user %s has no account on this machine: pods of %s wait until there is one (useradd), and "
                "nobody comes in as %s by the unix socket\n",
                name, name, name);
}

int verb_user_add(struct cli *cli, const struct args *args)
{
    struct json *body = json_new_object(&cli->arena), *groups;
    const char *file = args_get(args, "kubeconfig");
    enum output output;
    struct reply reply;
    struct err err = {0};
    int code;

    if (output_from(args, &output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    json_set_string(&cli->arena, body, "name", args->rest[0]);
    groups = json_set_array(&cli->arena, body, "groups");
    for (size_t i = 0; i < args->values.len; i++)
        if (streq(args->values.v[i].option->name, "group"))
            json_push_string(&cli->arena, groups, args->values.v[i].value);
    code = cli_send(cli, "POST", "/v1/users", body, &reply);
    if (code != CLI_OK)
        return code;
    if (output == OUTPUT_JSON || output == OUTPUT_YAML) {
        print_doc(reply.doc, output, stdout);
        return CLI_OK;
    }
    say_added(reply.doc, args->rest[0]);
    if (args_has(args, "files"))
        return hand_out_files(cli, json_get_string(reply.doc, "kubeconfig"), args_get(args, "files"));
    return hand_out_kubeconfig(json_get_string(reply.doc, "kubeconfig"), file);
}

int verb_user_list(struct cli *cli, const struct args *args)
{
    static const struct column columns[] = {
        {"NAME", "name", CELL_TEXT},          {"STATE", "state", CELL_TEXT},
        {"GROUPS", "groups", CELL_LIST},      {"TOKENS", "tokens", CELL_TEXT},
        {"CERTS", "certificates", CELL_TEXT}, {"SESSIONS", "sessions", CELL_TEXT},
        {"PODS", "pods", CELL_TEXT},          {"JOBS", "jobs", CELL_TEXT},
    };

    return cli_list(cli, args, "/v1/users", "items", columns, ARRAY_LEN(columns));
}

static const char *user_target(struct cli *cli, const char *name)
{
    CLEANUP(buf_done) struct buf target = {0};

    buf_puts(&target, "/v1/users/");
    buf_url_encode(&target, str_from(name));
    return arena_strdup(&cli->arena, target.data);
}

static int change_users(struct cli *cli, const struct args *args, bool disabled)
{
    struct json *body = json_new_object(&cli->arena);
    int worst = CLI_OK;

    json_set_bool(&cli->arena, body, "disabled", disabled);
    for (int i = 0; i < args->count; i++) {
        struct reply reply;
        int code = cli_send(cli, "PATCH", user_target(cli, args->rest[i]), body, &reply);

        if (code == CLI_OK)
            printf("user %s %s\n", args->rest[i], disabled ? "disabled" : "enabled");
        worst = code != CLI_OK ? code : worst;
    }
    return worst;
}

int verb_user_disable(struct cli *cli, const struct args *args)
{
    return change_users(cli, args, true);
}

int verb_user_enable(struct cli *cli, const struct args *args)
{
    return change_users(cli, args, false);
}

int verb_user_remove(struct cli *cli, const struct args *args)
{
    int worst = CLI_OK;

    if (!args_has(args, "yes"))
        return cli_usage_error(args->verb,
                               "this deletes the namespace of the user with all jobs, claims and data in it: "
                               "say --yes, or use berth user disable");
    for (int i = 0; i < args->count; i++) {
        struct reply reply;
        int code = cli_send(cli, "DELETE", user_target(cli, args->rest[i]), NULL, &reply);

        if (code == CLI_OK)
            printf("user %s removed, with %lld credentials\n", args->rest[i],
                   (long long)json_int(json_get(reply.doc, "credentials"), 0));
        worst = code != CLI_OK ? code : worst;
    }
    return worst;
}
