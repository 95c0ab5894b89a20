/* berth build: buildah makes an image of a Dockerfile, as the caller (other users than root in a user
 * namespace of their own), and the daemon takes it into its images. */
#include "base/file.h"
#include "base/mem.h"
#include "cli/image_tools.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int missing_buildah(void)
{
    return cli_fail(CLI_FAILED, "buildah is not installed here: apt install buildah");
}

/* What to try when a user's build fails at once. */
static void hint(void)
{
    if (geteuid() != 0 && !tool_exists("newuidmap"))
        fputs("berth: builds of users need newuidmap: apt install uidmap\n", stderr);
}

/* The words of a line that are no options; at most two are counted. */
static int count_words(struct str line)
{
    struct str word;
    int n = 0;

    while (line.s && str_split(&line, ' ', &word)) {
        word = str_trim(word);
        if (word.len > 0 && !str_starts(word, "--"))
            n++;
    }
    return n;
}

/* "COPY ./model.py" lacks its target, as in the guide: it is taken to be the working folder. Gives the file
 * to build from. */
static const char *repair_dockerfile(struct cli *cli, const struct image_tools *tools, const char *path)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(buf_done) struct buf fixed = {0};
    struct str rest, line, tail;
    bool changed = false, goes_on = false;

    if (file_read(path, MANIFEST_MAX, &text, NULL) < 0)
        return path; /* buildah says what is wrong with it */
    rest = buf_view(&text);
    while (str_split(&rest, '\n', &line)) {
        buf_str(&fixed, line);
        tail = str_trim(line);
        if (!goes_on && (str_starts(tail, "COPY ") || str_starts(tail, "ADD ")) && !str_ends(tail, "\\") &&
            !memchr(tail.s, '[', tail.len) && !memchr(tail.s, '<', tail.len) && count_words(tail) == 2) {
            fprintf(stderr, "warning: %s: '%.*s' has no target; './' is taken\n", path, STR_ARG(tail));
            buf_puts(&fixed, " ./");
            changed = true;
        }
        goes_on = str_ends(tail, "\\");
        buf_putc(&fixed, '\n');
    }
    if (!changed)
        return path;
    path = arena_printf(&cli->arena, "%s/Dockerfile", tools->dir);
    return file_write_atomic(path, buf_view(&fixed), 0600, NULL) < 0 ? NULL : path;
}

int image_build(struct cli *cli, struct image_tools *tools, const struct args *args, const char *dir,
                const char *name)
{
    const char *argv[TOOL_ARGS_MAX], *file = args_get(args, "file");
    struct tool_error error;
    int code;

    if (!tool_exists("buildah"))
        return missing_buildah();
    buildah_args(cli, tools, argv);
    tool_arg(argv, "build");
    tool_arg(argv, "--isolation=chroot");
    tool_arg(argv, args_has(args, "no-cache") ? "--no-cache" : "--layers");
    tool_arg(argv, arena_printf(&cli->arena, "--authfile=%s", tools->auth));
    if (tools->cert_dir)
        tool_arg(argv, arena_printf(&cli->arena, "--cert-dir=%s", tools->cert_dir));
    for (size_t i = 0; i < args->values.len; i++)
        if (streq(args->values.v[i].option->name, "build-arg"))
            tool_arg(argv, arena_printf(&cli->arena, "--build-arg=%s", args->values.v[i].value));
    if (!file)
        file = arena_printf(&cli->arena, "%s/Dockerfile", dir);
    if (args_has(args, "file") || access(file, F_OK) == 0)
        file = repair_dockerfile(cli, tools, file);
    else
        file = NULL; /* a Containerfile, perhaps */
    if (file)
        tool_arg(argv, arena_printf(&cli->arena, "--file=%s", file));
    tool_arg(argv, arena_printf(&cli->arena, "--tag=%s", image_full_name(cli, name)));
    tool_arg(argv, "--");
    tool_arg(argv, dir);
    code = tool_run(argv, NULL, false, &error);
    if (code == 127)
        return missing_buildah();
    if (code != 0) {
        hint();
        return tool_fail(cli, &error, NULL, "the build of '%s' failed", name);
    }
    return CLI_OK;
}

int image_hand_over(struct cli *cli, struct image_tools *tools, const char *name)
{
    const char *argv[TOOL_ARGS_MAX];
    const char *path = image_tools_archive(cli);
    struct tool_error error;
    int code;

    if (!path)
        return CLI_FAILED;
    buildah_args(cli, tools, argv);
    tool_arg(argv, "push");
    tool_arg(argv, "--quiet");
    tool_arg(argv, "--disable-compression");
    tool_arg(argv, image_full_name(cli, name));
    tool_arg(argv, arena_printf(&cli->arena, "oci-archive:%s", path));
    if (tool_run(argv, NULL, true, &error) != 0)
        return tool_fail(cli, &error, "", "the image '%s' was not packed", name);
    code = image_upload(cli, path, name);
    unlink(path);
    return code;
}

/* The folder's name, as far as it can be one of an image. */
static const char *name_of_folder(struct cli *cli, const char *dir)
{
    char path[PATH_MAX];
    char *name;

    if (!realpath(dir, path) || !strrchr(path, '/')[1])
        return NULL;
    name = arena_strdup(&cli->arena, strrchr(path, '/') + 1);
    for (char *c = name; *c; c++) {
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c + 'a' - 'A') : *c;
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-", *c))
            *c = '-';
    }
    return name[0] == '-' ? NULL : name;
}

int verb_build(struct cli *cli, const struct args *args)
{
    const char *dir = args->count ? args->rest[0] : ".", *name = args_get(args, "tag");
    struct image_tools tools = {0};
    struct stat st;
    int code;

    if (stat(dir, &st) < 0 || !S_ISDIR(st.st_mode))
        return cli_fail(CLI_NOT_FOUND, "'%s' is no folder", dir);
    if (!name)
        name = name_of_folder(cli, dir);
    if (!name)
        return cli_usage_error(args->verb, "needs -t NAME");
    code = image_tools_open(cli, &tools);
    if (code == CLI_OK)
        code = image_build(cli, &tools, args, dir, name);
    if (code == CLI_OK && !args_has(args, "no-import"))
        code = image_hand_over(cli, &tools, name);
    image_tools_done(&tools);
    if (code == CLI_OK)
        printf("built %s\n", name);
    return code;
}
