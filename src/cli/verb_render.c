/* berth render: a template and its values to text, without a daemon. */
#include "base/file.h"
#include "base/yaml.h"
#include "cli/cli.h"
#include "jinja/jinja.h"

#define INPUT_MAX (16 << 20)

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* JSON as it is (1.0 stays a float), anything else as YAML. */
static int read_values(struct cli *cli, const char *path, struct json **ret, struct err *err)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct err no_json = {0};

    if (file_read(path, INPUT_MAX, &text, err) < 0)
        return -1;
    if (json_parse(buf_view(&text), &cli->arena, ret, NULL, &no_json) < 0 &&
        yaml_parse_one(buf_view(&text), &cli->arena, ret, err) < 0)
        return err_prefix(err, "%s", path);
    if (!json_is(*ret, JSON_OBJECT))
        return err_set(err, ERR_INVALID, "%s: values must be a map of names", path);
    return 0;
}

static void read_options(const struct args *args, struct jinja_options *ret)
{
    *ret = (struct jinja_options){.extensions = JINJA_EXT_DO | JINJA_EXT_LOOPCONTROLS};
    ret->trim_blocks = args_has(args, "trim-blocks");
    ret->lstrip_blocks = args_has(args, "lstrip-blocks");
    ret->keep_trailing_newline = args_has(args, "keep-trailing-newline");
    ret->undefined = args_has(args, "strict") ? JINJA_UNDEFINED_STRICT : JINJA_UNDEFINED_DEFAULT;
    ret->extras = args_has(args, "extras") ? JINJA_EXTRA_ALL : 0;
}

static int say_error(const struct jinja_error *error, const char *path)
{
    CLEANUP(buf_done) struct buf text = {0};
    const char *rest;

    jinja_error_text(error, &text);
    rest = strchr(text.data, '\n');
    if (!error->at.line)
        return cli_fail(CLI_FAILED, "%s: %s: %s", path, jinja_kind_name(error->kind), error->message);
    cli_fail(CLI_FAILED, "%s: %s, line %u: %s", path, jinja_kind_name(error->kind), error->at.line,
             error->message);
    fputs(rest ? rest + 1 : "", stderr);
    return CLI_FAILED;
}

static int print_needs(struct cli *cli, const struct jinja_template *tmpl)
{
    JSON_EACH(jinja_needs(tmpl, &cli->arena), it)
        puts(json_string(it));
    return CLI_OK;
}

static int render(struct cli *cli, const struct args *args, const char *path, struct str source)
{
    struct jinja_options options;
    CLEANUP(jinja_free) struct jinja *env = NULL;
    CLEANUP(buf_done) struct buf out = {0};
    const struct jinja_template *tmpl;
    struct json *values = NULL;
    struct jinja_error error;
    struct err err = {0};

    read_options(args, &options);
    env = jinja_new(&options);
    tmpl = jinja_add(env, base_name(path), source, &error);
    if (!tmpl)
        return say_error(&error, path);
    if (args_has(args, "needs"))
        return print_needs(cli, tmpl);
    if (args_has(args, "values") && read_values(cli, args_get(args, "values"), &values, &err) < 0)
        return cli_fail(CLI_FAILED, "%s", err.msg);
    if (jinja_render(tmpl, values, NULL, &out, &error) < 0)
        return say_error(&error, path);
    return fwrite(out.data, 1, out.len, stdout) == out.len ? CLI_OK : CLI_FAILED;
}

int verb_render(struct cli *cli, const struct args *args)
{
    CLEANUP(buf_done) struct buf source = {0};
    const char *path = args_get(args, "template");
    struct err err = {0};

    if (!path)
        return cli_usage_error(args->verb, "--template FILE is missing");
    if (file_read(path, INPUT_MAX, &source, &err) < 0)
        return cli_fail(CLI_FAILED, "%s", err.msg);
    return render(cli, args, path, buf_view(&source));
}
