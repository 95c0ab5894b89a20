/* Where manifests come from, and how long things last. */
#include "base/file.h"
#include "cli/cli.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

void manifests_done(struct manifests *manifests)
{
    vec_done(&manifests->files);
}

static int add_file(struct cli *cli, struct manifests *manifests, const char *path, struct err *err)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (manifests->files.len >= MANIFEST_FILES_MAX)
        return err_set(err, ERR_LIMIT, "more than %d files", MANIFEST_FILES_MAX);
    if (file_read(path, MANIFEST_MAX, &text, err) < 0)
        return -1;
    vec_push(&manifests->files,
             (struct manifest){arena_strdup(&cli->arena, path),
                               {arena_strndup(&cli->arena, text.data ? text.data : "", text.len), text.len}});
    return 0;
}

static int is_manifest(const struct dirent *entry)
{
    return entry->d_name[0] != '.' && (ends_with(entry->d_name, ".yaml") ||
                                       ends_with(entry->d_name, ".yml") || ends_with(entry->d_name, ".json"));
}

static int add_folder(struct cli *cli, struct manifests *manifests, const char *path, struct err *err)
{
    struct dirent **entries = NULL;
    int count = scandir(path, &entries, is_manifest, alphasort), result = 0;

    if (count < 0)
        return err_errno(err, errno, "read the folder '%s'", path);
    if (count == 0)
        result = err_set(err, ERR_NOT_FOUND, "'%s' has no .yaml, .yml or .json file", path);
    for (int i = 0; i < count; i++) {
        if (result == 0)
            result =
                add_file(cli, manifests, arena_printf(&cli->arena, "%s/%s", path, entries[i]->d_name), err);
        free(entries[i]);
    }
    free(entries);
    return result;
}

int manifests_add(struct cli *cli, struct manifests *manifests, const char *path, struct err *err)
{
    struct stat st;

    if (!streq(path, "-") && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return add_folder(cli, manifests, path, err);
    return add_file(cli, manifests, path, err);
}

bool parse_ttl(const char *text, int64_t *ret_sec)
{
    static const struct {
        char unit;
        int64_t sec;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}, {'w', 7 * 86400}};
    struct str number = str_from(text);
    int64_t n, unit = 0; /* a number alone could mean anything */

    for (size_t i = 0; number.len && i < ARRAY_LEN(units); i++)
        if (text[number.len - 1] == units[i].unit) {
            unit = units[i].sec;
            number.len--;
            break;
        }
    if (!unit || !str_to_int(number, &n) || n <= 0 || n > INT64_MAX / (7 * 86400))
        return false;
    *ret_sec = n * unit;
    return true;
}
