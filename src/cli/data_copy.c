/* Copying. What was interrupted goes on where it ended, after both sides have compared what is there; a file
 * appears under its name when it is whole and its sum is right. */
#include "base/file.h"
#include "base/mem.h"
#include "cli/data.h"
#include "net/client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

DEFINE_CLEANUP(EVP_MD_CTX *, EVP_MD_CTX_free);

static const char *words_at_end(const struct data *data)
{
    return data->begun ? " (went on from an earlier try)" : "";
}

/* What was said about a file is forgotten with it: there may be millions. */
static struct arena memory_begin(struct data *data)
{
    struct arena kept = data->cli->arena;

    data->cli->arena = (struct arena){0};
    return kept;
}

static void memory_end(struct data *data, struct arena kept)
{
    arena_done(&data->cli->arena);
    data->cli->arena = kept;
}

/* Whether both have the same bytes; they are of the same size. */
static int same_sum(struct data *data, int fd, const char *local, const char *remote, int64_t size, bool *ret)
{
    CLEANUP(EVP_MD_CTX_free) EVP_MD_CTX *sum = data_sum_new();
    struct json *doc;
    int code = data_ask(data, "sum", remote, &doc);

    if (code == CLI_OK)
        *ret = data_sum_add(data, sum, fd, size, local) == size &&
               streq(data_sum_text(data, sum), json_get_string(doc, "sum"));
    return code;
}

/* ---- put ---- */

/* Whether the file is there already, byte for byte. */
static int is_there(struct data *data, int fd, const char *local, const char *remote, int64_t size, bool *ret)
{
    struct json *doc;
    int code = data_ask(data, "stat", remote, &doc);

    *ret = false;
    if (code != CLI_OK || !streq(json_get_string(doc, "type"), "file") ||
        json_int(json_get(doc, "size"), -1) != size)
        return code;
    return same_sum(data, fd, local, remote, size, ret);
}

/* How much of the file an earlier try has left there; sum is of that much afterwards. */
static int find_part(struct data *data, int fd, const char *local, const char *remote, int64_t size,
                     EVP_MD_CTX *sum, int64_t *ret)
{
    struct json *doc;
    int code = data_ask(data, "part", remote, &doc);
    int64_t have = code == CLI_OK ? json_int(json_get(doc, "have"), 0) : 0;

    *ret = 0;
    lseek(fd, 0, SEEK_SET);
    if (code != CLI_OK || have == 0 || have > size)
        return code;
    if (data_sum_add(data, sum, fd, have, local) == have &&
        streq(data_sum_text(data, sum), json_get_string(doc, "sum"))) {
        *ret = have;
    } else {
        EVP_DigestInit_ex(sum, EVP_sha256(), NULL);
        lseek(fd, 0, SEEK_SET);
    }
    return CLI_OK;
}

/* An answer before the end is a refusal. */
static bool is_refused(const struct data *data)
{
    return data->input.len > 0 || client_readable(data->cli->client);
}

static int send_bytes(struct data *data, int fd, EVP_MD_CTX *sum, const char *name, int64_t from,
                      int64_t size)
{
    int64_t done = from;
    struct err err = {0};

    while (done < size && !is_refused(data)) {
        ssize_t n = read(fd, data->block, size - done > DATA_BLOCK ? DATA_BLOCK : (size_t)(size - done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return cli_fail(CLI_FAILED, "read '%s': %s", name, strerror(errno));
        if (n == 0)
            return cli_fail(CLI_FAILED, "'%s' became shorter while it was read", name);
        EVP_DigestUpdate(sum, data->block, (size_t)n);
        if (client_write(data->cli->client, (struct str){data->block, (size_t)n}, &err) < 0)
            return data_broken(&err);
        done += n;
        data_show(data, name, "", done, size, false);
    }
    return CLI_OK;
}

static int send_file(struct data *data, int fd, EVP_MD_CTX *sum, const char *local, const char *remote,
                     const struct stat *st, int64_t from)
{
    struct arena *arena = &data->cli->arena;
    struct json *request = data_request(data, "put", remote), *last = json_new_object(arena), *doc;
    int code;

    json_set_int(arena, request, "from", from);
    json_set_int(arena, request, "size", st->st_size);
    json_set_int(arena, request, "mode", st->st_mode & 0777);
    json_set_int(arena, request, "mtime", st->st_mtim.tv_sec);
    data->begun = from;
    code = data_send(data, request);
    if (code == CLI_OK)
        code = send_bytes(data, fd, sum, local, from, st->st_size);
    if (code == CLI_OK && !is_refused(data)) {
        json_set_string(arena, last, "sum", data_sum_text(data, sum));
        code = data_send(data, last);
    }
    return code == CLI_OK ? data_answer(data, &doc) : code;
}

static int put_file(struct data *data, const char *local, const char *remote, bool inside)
{
    CLEANUP(fd_close) int fd = open(local, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    CLEANUP(EVP_MD_CTX_free) EVP_MD_CTX *sum = data_sum_new();
    int64_t from = 0;
    bool same = false;
    struct stat st;
    int code;

    if (fd < 0 && inside) {
        data_leave_out(data, local, strerror(errno));
        return CLI_OK;
    }
    if (fd < 0 || fstat(fd, &st) < 0)
        return cli_fail(errno == ENOENT ? CLI_NOT_FOUND : CLI_FAILED, "open '%s': %s", local,
                        strerror(errno));
    code = is_there(data, fd, local, remote, st.st_size, &same);
    data->skipped += same;
    if (same)
        return CLI_OK;
    if (code == CLI_OK)
        code = find_part(data, fd, local, remote, st.st_size, sum, &from);
    if (code == CLI_OK)
        code = send_file(data, fd, sum, local, remote, &st, from);
    if (code == CLI_OK) {
        data_show(data, local, words_at_end(data), st.st_size, st.st_size, true);
        data->files++;
        data->bytes += st.st_size - from;
    }
    return code;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int put_path(struct data *data, const char *local, const char *remote, int depth);

static int put_folder(struct data *data, const char *local, const char *remote, int depth)
{
    DIR *dir = opendir(local);
    VEC(char *) names = {0};
    struct dirent *entry;
    struct json *doc;
    int code;

    if (!dir && depth > 0) {
        data_leave_out(data, local, strerror(errno));
        return CLI_OK;
    }
    if (!dir)
        return cli_fail(CLI_FAILED, "open '%s': %s", local, strerror(errno));
    while ((entry = readdir(dir)))
        if (!streq(entry->d_name, ".") && !streq(entry->d_name, "..") &&
            !ends_with(entry->d_name, ".berth-part"))
            vec_push(&names, mem_strdup(entry->d_name));
    closedir(dir);
    if (names.len)
        qsort(names.v, names.len, sizeof(*names.v), by_name);
    code = data_ask(data, "mkdir", remote, &doc);
    VEC_EACH(&names, it) {
        CLEANUP(free) char *from = mem_printf("%s/%s", local, *it), *to = mem_printf("%s/%s", remote, *it);

        if (code == CLI_OK)
            code = put_path(data, from, to, depth + 1);
        free(*it);
    }
    vec_done(&names);
    return code;
}

/* In a folder, what cannot be copied is left out; what was named itself must be copied. */
static int put_entry(struct data *data, const char *local, const char *remote, int depth)
{
    const char *why = NULL;
    struct stat st = {0}, link = {0};

    if (depth > DATA_DEPTH_MAX)
        return cli_fail(CLI_FAILED, "'%s' is too deep", local);
    if (lstat(local, &link) < 0 || stat(local, &st) < 0)
        why = strerror(errno);
    else if (!utf8_valid(str_from(local)))
        why = "its name is no UTF-8";
    else if (S_ISLNK(link.st_mode) && S_ISDIR(st.st_mode) && depth > 0)
        why = "it is a link to a folder";
    else if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
        why = "it is no file";
    if (why && depth > 0) {
        data_leave_out(data, local, why);
        return CLI_OK;
    }
    if (why)
        return cli_fail(access(local, F_OK) < 0 ? CLI_NOT_FOUND : CLI_FAILED, "'%s': %s",
                        data_shown(data->cli, local), why);
    return S_ISDIR(st.st_mode) ? put_folder(data, local, remote, depth)
                               : put_file(data, local, remote, depth > 0);
}

static int put_path(struct data *data, const char *local, const char *remote, int depth)
{
    struct arena kept = memory_begin(data);
    int code = put_entry(data, local, remote, depth);

    memory_end(data, kept);
    return code;
}

int data_put(struct data *data, const char *local, const char *remote)
{
    return put_path(data, local, remote, 0);
}

/* ---- get ---- */

static const char *part_of(struct data *data, const char *path)
{
    const char *slash = strrchr(path, '/');

    return arena_printf(&data->cli->arena, "%.*s.%s.berth-part", slash ? (int)(slash - path) + 1 : 0, path,
                        slash ? slash + 1 : path);
}

static int receive(struct data *data, int fd, EVP_MD_CTX *sum, const char *name, int64_t from, int64_t size)
{
    int64_t done = from;

    while (done < size) {
        size_t n;
        ssize_t written;

        if (!data->input.len && data_fill(data) != CLI_OK)
            return CLI_FAILED;
        n = (int64_t)data->input.len < size - done ? data->input.len : (size_t)(size - done);
        written = write(fd, data->input.data, n);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return cli_fail(CLI_FAILED, "write '%s': %s", name, strerror(errno));
        EVP_DigestUpdate(sum, data->input.data, (size_t)written);
        buf_drop(&data->input, (size_t)written);
        done += written;
        data_show(data, name, "", done, size, false);
    }
    return CLI_OK;
}

static int finish_get(int fd, const char *part, const char *local, const struct json *head)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = json_int(json_get(head, "mtime"), 0)}};

    if (fchmod(fd, (mode_t)json_int(json_get(head, "mode"), 0644) & 0777) < 0 || futimens(fd, times) < 0 ||
        rename(part, local) < 0)
        return cli_fail(CLI_FAILED, "write '%s': %s", local, strerror(errno));
    return CLI_OK;
}

/* How much of what an earlier try has left here is the file's beginning; sum is of that much. */
static int compare_part(struct data *data, int fd, EVP_MD_CTX *sum, const char *remote, const char *local,
                        int64_t *ret)
{
    struct json *request = data_request(data, "sum", remote), *doc;
    struct stat st;
    int code;

    *ret = 0;
    if (fstat(fd, &st) < 0 || st.st_size == 0)
        return CLI_OK;
    json_set_int(&data->cli->arena, request, "first", st.st_size);
    code = data_send(data, request);
    if (code == CLI_OK)
        code = data_answer(data, &doc);
    if (code != CLI_OK)
        return code;
    if (data_sum_add(data, sum, fd, st.st_size, local) == st.st_size &&
        json_int(json_get(doc, "size"), 0) == st.st_size &&
        streq(data_sum_text(data, sum), json_get_string(doc, "sum"))) {
        *ret = st.st_size;
        return CLI_OK;
    }
    EVP_DigestInit_ex(sum, EVP_sha256(), NULL);
    if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return cli_fail(CLI_FAILED, "write '%s': %s", local, strerror(errno));
    return CLI_OK;
}

static int get_bytes(struct data *data, int fd, const char *remote, const char *local, struct json **head)
{
    CLEANUP(EVP_MD_CTX_free) EVP_MD_CTX *sum = data_sum_new();
    struct json *request = data_request(data, "get", remote), *end;
    int64_t size;
    int code = compare_part(data, fd, sum, remote, local, &data->begun);

    if (code != CLI_OK)
        return code;
    json_set_int(&data->cli->arena, request, "from", data->begun);
    code = data_send(data, request);
    if (code == CLI_OK)
        code = data_answer(data, head);
    if (code != CLI_OK)
        return code;
    size = json_int(json_get(*head, "size"), 0);
    if (json_int(json_get(*head, "from"), 0) != data->begun)
        return cli_fail(CLI_FAILED, "'%s' became shorter: run it again", remote);
    code = receive(data, fd, sum, local, data->begun, size);
    if (code == CLI_OK)
        code = data_answer(data, &end);
    if (code == CLI_OK && !streq(data_sum_text(data, sum), json_get_string(end, "sum"))) {
        if (ftruncate(fd, 0) < 0)
            return cli_fail(CLI_FAILED, "write '%s': %s", local, strerror(errno));
        code = cli_fail(CLI_FAILED, "'%s' came damaged: run it again", remote);
    }
    data->bytes += size - data->begun;
    return code;
}

static int same_here(struct data *data, const char *local, const char *remote, int64_t size, bool *ret)
{
    CLEANUP(fd_close) int fd = open(local, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat st;

    *ret = false;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size != size)
        return CLI_OK;
    return same_sum(data, fd, local, remote, size, ret);
}

static int get_file(struct data *data, const char *remote, const char *local, int64_t size)
{
    const char *part = part_of(data, local);
    CLEANUP(fd_close) int fd = -1;
    struct json *head = NULL;
    bool same;
    int code = same_here(data, local, remote, size, &same);

    if (code != CLI_OK || same) {
        data->skipped += same;
        return code;
    }
    fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return cli_fail(CLI_FAILED, "write '%s': %s", local, strerror(errno));
    code = get_bytes(data, fd, remote, local, &head);
    if (code == CLI_OK)
        code = finish_get(fd, part, local, head);
    if (code == CLI_OK) {
        int64_t total = json_int(json_get(head, "size"), 0);

        data_show(data, local, words_at_end(data), total, total, true);
        data->files++;
    }
    return code;
}

int data_get_file(struct data *data, const char *remote, const char *local, int64_t size)
{
    struct arena kept = memory_begin(data);
    int code = get_file(data, remote, local, size);

    memory_end(data, kept);
    return code;
}

/* A name from the other side must not lead out of the folder we write to. */
static bool stays_inside(const char *path)
{
    return path[0] != '/' && !streq(path, "..") && !starts_with(path, "../") && !strstr(path, "/../") &&
           !ends_with(path, "/..");
}

int data_get_folder(struct data *data, const char *remote, const char *local)
{
    struct json *items = json_new_array(&data->cli->arena);
    struct err err = {0};
    int code = data_list(data, remote, true, items);

    if (code == CLI_OK && dir_make(local, 0777, &err) < 0)
        code = cli_fail(CLI_FAILED, "%s", err.msg);
    JSON_EACH(items, it) {
        const char *path = json_string_or(json_get(it, "path"), ""), *type = json_get_string(it, "type");
        CLEANUP(free) char *to = mem_printf("%s/%s", local, path);
        CLEANUP(free) char *from = mem_printf("%s/%s", remote, path);

        if (code != CLI_OK || !stays_inside(path))
            continue;
        if (streq(type, "dir")) {
            if (dir_make(to, 0777, &err) < 0)
                code = cli_fail(CLI_FAILED, "%s", err.msg);
        } else if (streq(type, "file")) {
            code = data_get_file(data, from, to, json_int(json_get(it, "size"), 0));
        } else {
            data_leave_out(data, path, streq(type, "link") ? "it is a link to a folder" : "it is no file");
        }
    }
    return code;
}
