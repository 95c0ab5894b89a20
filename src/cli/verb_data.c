/* berth data put, get, ls: files to and from the caller's home or scratch on the machine of the daemon, with
 * the caller's rights there. */
#include "cli/data.h"

#include <inttypes.h>
#include <sys/stat.h>
#include <time.h>

/* "scratch:a/b" is below ~/scratch, "home:a" below the home, as is a relative path. */
static const char *remote_path(struct cli *cli, const char *word)
{
    if (starts_with(word, "scratch:"))
        return arena_printf(&cli->arena, "scratch/%s", word + strlen("scratch:"));
    if (starts_with(word, "home:"))
        word += strlen("home:");
    return word[0] ? word : ".";
}

static const char *base_of(struct cli *cli, const char *path)
{
    char *copy = arena_strdup(&cli->arena, path), *slash;

    for (size_t len = strlen(copy); len > 1 && copy[len - 1] == '/'; len--)
        copy[len - 1] = '\0';
    slash = strrchr(copy, '/');
    return slash && slash[1] ? slash + 1 : copy;
}

/* What was left out makes the whole no success, though all the rest is there. */
static int say_sum(const struct data *data)
{
    printf("%lld files, %s moved", (long long)data->files, data_size(data->cli, data->bytes));
    if (data->skipped)
        printf("; %lld were there already", (long long)data->skipped);
    if (data->left_out)
        printf("; %lld were left out", (long long)data->left_out);
    putchar('\n');
    return data->left_out ? CLI_FAILED : CLI_OK;
}

int verb_data_put(struct cli *cli, const struct args *args)
{
    const char *word = args->count > 1 ? args->rest[1] : "", *remote = remote_path(cli, word), *local;
    struct data data;
    struct json *doc;
    int code = data_open(cli, &data);

    local = args->rest[0];
    if (code == CLI_OK)
        code = data_ask(&data, "stat", remote, &doc);
    if (code == CLI_OK && (streq(json_get_string(doc, "type"), "dir") || ends_with(remote, "/")))
        remote = arena_printf(&cli->arena, "%s%s%s", remote, ends_with(remote, "/") ? "" : "/",
                              base_of(cli, local));
    if (code == CLI_OK)
        code = data_put(&data, local, remote);
    if (code == CLI_OK)
        code = say_sum(&data);
    data_close(&data);
    return code;
}

int verb_data_get(struct cli *cli, const struct args *args)
{
    const char *remote = remote_path(cli, args->rest[0]), *local = args->count > 1 ? args->rest[1] : ".";
    struct data data;
    struct json *doc = NULL;
    struct stat st;
    int code = data_open(cli, &data);

    if (code == CLI_OK)
        code = data_ask(&data, "stat", remote, &doc);
    if (code == CLI_OK && stat(local, &st) == 0 && S_ISDIR(st.st_mode))
        local = arena_printf(&cli->arena, "%s/%s", local, base_of(cli, remote));
    if (code == CLI_OK && streq(json_get_string(doc, "type"), "dir"))
        code = data_get_folder(&data, remote, local);
    else if (code == CLI_OK && streq(json_get_string(doc, "type"), "file"))
        code = data_get_file(&data, remote, local, json_int(json_get(doc, "size"), 0));
    else if (code == CLI_OK)
        code = cli_fail(CLI_NOT_FOUND, "there is no '%s'", args->rest[0]);
    if (code == CLI_OK)
        code = say_sum(&data);
    data_close(&data);
    return code;
}

/* As ls -F has it. */
static const char *mark_of(const struct json *entry)
{
    const char *type = json_get_string(entry, "type");

    return streq(type, "dir") ? "/" : streq(type, "link") ? "@" : "";
}

int verb_data_ls(struct cli *cli, const struct args *args)
{
    const char *remote = remote_path(cli, args->count ? args->rest[0] : "");
    struct grid grid = {.columns = 3};
    struct json *items = json_new_array(&cli->arena);
    struct data data;
    int code = data_open(cli, &data);

    if (code == CLI_OK)
        code = data_list(&data, remote, args_has(args, "recursive"), items);
    data_close(&data);
    if (code != CLI_OK)
        return code;
    JSON_EACH(items, it) {
        time_t mtime = (time_t)json_int(json_get(it, "mtime"), 0);
        char time[32] = "";
        struct tm tm;

        if (localtime_r(&mtime, &tm)) /* no year has so many digits */
            strftime(time, sizeof(time), "%Y-%m-%d %H:%M", &tm);
        grid_add(&grid, arena_printf(&cli->arena, "%" PRId64, json_int(json_get(it, "size"), 0)));
        grid_add(&grid, arena_strdup(&cli->arena, time));
        grid_add(&grid, arena_printf(&cli->arena, "%s%s",
                                     data_shown(cli, json_string_or(json_get(it, "path"), "")), mark_of(it)));
    }
    grid_print(&grid, stdout);
    grid_done(&grid);
    return CLI_OK;
}
