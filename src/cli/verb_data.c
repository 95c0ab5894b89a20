/* berth data put, get, ls: files to and from the caller's home or scratch on the machine of the daemon, with
 * the caller's rights there. The protocol is in machine/files.h. What was interrupted goes on where it ended,
 * after both sides have compared what is there; a file appears under its name when it is whole and its sum is
 * right. */
#include "base/file.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "net/client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BLOCK     (256 << 10)
#define LINE_MAX_ (1 << 20)
#define DEPTH_MAX 64

struct data {
    struct cli *cli;
    struct buf input;
    char *block;
    bool tty;
    int64_t files, bytes, skipped; /* moved, and what was there already */
    struct timespec shown;
    int64_t begun; /* bytes, at the start of this file */
};

/* ---- the line ---- */

static int broken(struct data *data, const struct err *err)
{
    (void)data;
    return cli_fail(CLI_FAILED, "the connection ended: run it again to go on where it stopped%s%s",
                    err->msg[0] ? ": " : "", err->msg);
}

static int fill(struct data *data)
{
    struct err err = {0};
    ssize_t n = client_read(data->cli->client, buf_reserve(&data->input, BLOCK), BLOCK, &err);

    if (n <= 0)
        return broken(data, &err);
    data->input.len += (size_t)n;
    return CLI_OK;
}

static int read_answer(struct data *data, struct json **ret)
{
    const char *end, *sentence;
    struct err err = {0};
    int code;

    while (!data->input.len || !(end = memchr(data->input.data, '\n', data->input.len))) {
        if (data->input.len > LINE_MAX_)
            return cli_fail(CLI_FAILED, "the daemon's answer makes no sense");
        code = fill(data);
        if (code != CLI_OK)
            return code;
    }
    if (json_parse((struct str){data->input.data, (size_t)(end - data->input.data)}, &data->cli->arena, ret,
                   NULL, &err) < 0)
        return cli_fail(CLI_FAILED, "the daemon's answer makes no sense: %s", err.msg);
    buf_drop(&data->input, (size_t)(end - data->input.data) + 1);
    sentence = json_get_string(*ret, "error");
    return sentence ? cli_fail(CLI_FAILED, "%s", sentence) : CLI_OK;
}

static int send_request(struct data *data, const struct json *request)
{
    CLEANUP(buf_done) struct buf line = {0};
    struct err err = {0};

    json_write(&line, request);
    buf_putc(&line, '\n');
    return client_write(data->cli->client, buf_view(&line), &err) < 0 ? broken(data, &err) : CLI_OK;
}

static struct json *request_new(struct data *data, const char *op, const char *path)
{
    struct json *doc = json_new_object(&data->cli->arena);

    json_set_string(&data->cli->arena, doc, "op", op);
    json_set_string(&data->cli->arena, doc, "path", path);
    return doc;
}

static int ask(struct data *data, const char *op, const char *path, struct json **ret)
{
    int code = send_request(data, request_new(data, op, path));

    return code == CLI_OK ? read_answer(data, ret) : code;
}

/* ---- sums and progress ---- */

static EVP_MD_CTX *sum_new(void)
{
    EVP_MD_CTX *sum = EVP_MD_CTX_new();

    EVP_DigestInit_ex(sum, EVP_sha256(), NULL);
    return sum;
}

static const char *sum_text(struct data *data, EVP_MD_CTX *sum)
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *copy = EVP_MD_CTX_new();
    char *text = arena_zalloc(&data->cli->arena, 65);

    EVP_MD_CTX_copy_ex(copy, sum);
    EVP_DigestFinal_ex(copy, raw, NULL);
    EVP_MD_CTX_free(copy);
    for (size_t i = 0; i < 32; i++)
        snprintf(text + 2 * i, 3, "%02x", raw[i]);
    return text;
}

/* Up to max bytes (max < 0: all) from where fd stands; how many there were. */
static int64_t sum_add(struct data *data, EVP_MD_CTX *sum, int fd, int64_t max)
{
    int64_t done = 0;

    while (max < 0 || done < max) {
        ssize_t n = read(fd, data->block, max < 0 || max - done > BLOCK ? BLOCK : (size_t)(max - done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        EVP_DigestUpdate(sum, data->block, (size_t)n);
        done += n;
    }
    return done;
}

/* One line a file on a terminal that is written over, and its last state stays. */
static void show(struct data *data, const char *name, int64_t done, int64_t total, bool last)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    if (!last && (!data->tty || (now.tv_sec == data->shown.tv_sec &&
                                 now.tv_nsec - data->shown.tv_nsec < 200 * 1000 * 1000)))
        return;
    data->shown = now;
    fprintf(stderr, "%s%s  %.1f of %.1f MB%s%s", data->tty ? "\r" : "", name, (double)done / 1e6,
            (double)total / 1e6, data->begun && last ? " (went on from an earlier try)" : "",
            last ? "\n" : "\033[K");
}

static const char *part_of(struct data *data, const char *path)
{
    const char *slash = strrchr(path, '/');

    return arena_printf(&data->cli->arena, "%.*s.%s.berth-part", slash ? (int)(slash - path) + 1 : 0, path,
                        slash ? slash + 1 : path);
}

/* ---- put ---- */

/* Whether the file is there already, byte for byte. */
static int is_there(struct data *data, const char *remote, int64_t size, const char *sum, bool *ret)
{
    struct json *doc;
    int code = ask(data, "stat", remote, &doc);

    *ret = false;
    if (code != CLI_OK || !streq(json_get_string(doc, "type"), "file") ||
        json_int(json_get(doc, "size"), -1) != size)
        return code;
    code = ask(data, "sum", remote, &doc);
    if (code == CLI_OK)
        *ret = streq(json_get_string(doc, "sum"), sum);
    return code;
}

/* How much of the file an earlier try has left there. */
static int find_part(struct data *data, int fd, const char *remote, int64_t size, int64_t *ret)
{
    struct json *doc;
    EVP_MD_CTX *sum;
    int code = ask(data, "part", remote, &doc);
    int64_t have = code == CLI_OK ? json_int(json_get(doc, "have"), 0) : 0;

    *ret = 0;
    if (code != CLI_OK || have == 0 || have > size)
        return code;
    sum = sum_new();
    lseek(fd, 0, SEEK_SET);
    if (sum_add(data, sum, fd, have) == have && streq(sum_text(data, sum), json_get_string(doc, "sum")))
        *ret = have;
    EVP_MD_CTX_free(sum);
    return CLI_OK;
}

static int send_bytes(struct data *data, int fd, const char *name, int64_t from, int64_t size)
{
    int64_t done = from;
    struct err err = {0};

    lseek(fd, from, SEEK_SET);
    while (done < size) {
        ssize_t n = read(fd, data->block, size - done > BLOCK ? BLOCK : (size_t)(size - done));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return cli_fail(CLI_FAILED, "'%s' became shorter while it was read", name);
        if (client_write(data->cli->client, (struct str){data->block, (size_t)n}, &err) < 0)
            return broken(data, &err);
        done += n;
        show(data, name, done, size, false);
    }
    return CLI_OK;
}

static int put_file(struct data *data, const char *local, const char *remote, const struct stat *st)
{
    CLEANUP(fd_close) int fd = open(local, O_RDONLY | O_CLOEXEC);
    struct arena *arena = &data->cli->arena;
    EVP_MD_CTX *sum = sum_new();
    struct json *request, *doc;
    const char *text;
    int64_t size, from = 0;
    bool same = false;
    int code;

    if (fd < 0) {
        EVP_MD_CTX_free(sum);
        return cli_fail(errno == ENOENT ? CLI_NOT_FOUND : CLI_FAILED, "open '%s': %s", local,
                        strerror(errno));
    }
    size = sum_add(data, sum, fd, -1);
    text = sum_text(data, sum);
    EVP_MD_CTX_free(sum);
    code = is_there(data, remote, size, text, &same);
    if (same) {
        data->skipped++;
        return CLI_OK;
    }
    if (code == CLI_OK)
        code = find_part(data, fd, remote, size, &from);
    if (code != CLI_OK)
        return code;
    request = request_new(data, "put", remote);
    json_set_int(arena, request, "from", from);
    json_set_int(arena, request, "size", size);
    json_set_int(arena, request, "mode", st->st_mode & 0777);
    json_set_int(arena, request, "mtime", st->st_mtim.tv_sec);
    json_set_string(arena, request, "sum", text);
    data->begun = from;
    code = send_request(data, request);
    if (code == CLI_OK)
        code = send_bytes(data, fd, local, from, size);
    if (code == CLI_OK)
        code = read_answer(data, &doc);
    if (code == CLI_OK) {
        show(data, local, size, size, true);
        data->files++;
        data->bytes += size - from;
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

    if (!dir)
        return cli_fail(CLI_FAILED, "open '%s': %s", local, strerror(errno));
    while ((entry = readdir(dir)))
        if (!streq(entry->d_name, ".") && !streq(entry->d_name, "..") &&
            !ends_with(entry->d_name, ".berth-part"))
            vec_push(&names, mem_strdup(entry->d_name));
    closedir(dir);
    if (names.len)
        qsort(names.v, names.len, sizeof(*names.v), by_name);
    code = ask(data, "mkdir", remote, &doc);
    VEC_EACH(&names, it) {
        CLEANUP(free) char *from = mem_printf("%s/%s", local, *it), *to = mem_printf("%s/%s", remote, *it);

        if (code == CLI_OK)
            code = put_path(data, from, to, depth + 1);
        free(*it);
    }
    vec_done(&names);
    return code;
}

static int put_path(struct data *data, const char *local, const char *remote, int depth)
{
    struct stat st;

    if (depth > DEPTH_MAX)
        return cli_fail(CLI_FAILED, "'%s' is too deep", local);
    if (!utf8_valid(str_from(local))) {
        fprintf(stderr, "berth: left out, its name is no UTF-8: %s\n", local);
        return CLI_OK;
    }
    if (lstat(local, &st) < 0 || (S_ISLNK(st.st_mode) && stat(local, &st) < 0))
        return cli_fail(errno == ENOENT ? CLI_NOT_FOUND : CLI_FAILED, "open '%s': %s", local,
                        strerror(errno));
    if (S_ISDIR(st.st_mode))
        return put_folder(data, local, remote, depth);
    if (!S_ISREG(st.st_mode)) {
        fprintf(stderr, "berth: left out, it is no file: %s\n", local);
        return CLI_OK;
    }
    return put_file(data, local, remote, &st);
}

/* ---- get ---- */

static int receive(struct data *data, int fd, EVP_MD_CTX *sum, const char *name, int64_t from, int64_t size)
{
    int64_t done = from;

    while (done < size) {
        size_t n;
        ssize_t written;

        if (!data->input.len && fill(data) != CLI_OK)
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
        show(data, name, done, size, false);
    }
    return CLI_OK;
}

static int finish_get(struct data *data, int fd, const char *part, const char *local, const struct json *head)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = json_int(json_get(head, "mtime"), 0)}};

    (void)data;
    if (fchmod(fd, (mode_t)json_int(json_get(head, "mode"), 0644) & 0777) < 0 || futimens(fd, times) < 0 ||
        rename(part, local) < 0)
        return cli_fail(CLI_FAILED, "write '%s': %s", local, strerror(errno));
    return CLI_OK;
}

static int get_bytes(struct data *data, int fd, EVP_MD_CTX *sum, const char *remote, const char *local,
                     struct json **head)
{
    struct json *request = request_new(data, "get", remote), *end;
    struct stat st = {0};
    int64_t from;
    int code;

    fstat(fd, &st);
    json_set_int(&data->cli->arena, request, "from", st.st_size);
    code = send_request(data, request);
    if (code == CLI_OK)
        code = read_answer(data, head);
    if (code != CLI_OK)
        return code;
    from = json_int(json_get(*head, "from"), 0);
    if (sum_add(data, sum, fd, from) != from || ftruncate(fd, from) < 0)
        return cli_fail(CLI_FAILED, "write '%s': %s", local, strerror(errno));
    data->begun = from;
    code = receive(data, fd, sum, local, from, json_int(json_get(*head, "size"), 0));
    if (code == CLI_OK)
        code = read_answer(data, &end);
    if (code == CLI_OK && !streq(sum_text(data, sum), json_get_string(end, "sum"))) {
        if (ftruncate(fd, 0) < 0)
            return CLI_FAILED;
        code = cli_fail(CLI_FAILED, "'%s' has changed since an earlier try: run it again", remote);
    }
    data->bytes += json_int(json_get(*head, "size"), 0) - from;
    return code;
}

static int same_here(struct data *data, const char *local, const char *remote, int64_t size, bool *ret)
{
    CLEANUP(fd_close) int fd = open(local, O_RDONLY | O_CLOEXEC);
    struct json *doc;
    struct stat st;
    EVP_MD_CTX *sum;
    int code;

    *ret = false;
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size != size)
        return CLI_OK;
    code = ask(data, "sum", remote, &doc);
    sum = sum_new();
    sum_add(data, sum, fd, -1);
    *ret = code == CLI_OK && streq(sum_text(data, sum), json_get_string(doc, "sum"));
    EVP_MD_CTX_free(sum);
    return code;
}

static int get_file(struct data *data, const char *remote, const char *local, int64_t size)
{
    const char *part = part_of(data, local);
    CLEANUP(fd_close) int fd = -1;
    struct json *head = NULL;
    EVP_MD_CTX *sum;
    bool same;
    int code = same_here(data, local, remote, size, &same);

    if (code != CLI_OK || same) {
        data->skipped += same;
        return code;
    }
    fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return cli_fail(CLI_FAILED, "write '%s': %s", local, strerror(errno));
    sum = sum_new();
    code = get_bytes(data, fd, sum, remote, local, &head);
    EVP_MD_CTX_free(sum);
    if (code == CLI_OK)
        code = finish_get(data, fd, part, local, head);
    if (code == CLI_OK) {
        int64_t total = json_int(json_get(head, "size"), 0);

        show(data, local, total, total, true);
        data->files++;
    }
    return code;
}

/* All of a folder's entries are read before the first of them is fetched: the connection has one user. */
static int read_list(struct data *data, const char *remote, bool deep, struct json *items)
{
    struct json *request = request_new(data, "list", remote), *entry = NULL;
    int code;

    json_set_bool(&data->cli->arena, request, "deep", deep);
    code = send_request(data, request);
    while (code == CLI_OK) {
        code = read_answer(data, &entry);
        if (code != CLI_OK || !entry || json_bool(json_get(entry, "end")))
            return code;
        json_push(&data->cli->arena, items, *entry);
    }
    return code;
}

/* A name from the other side must not lead out of the folder we write to. */
static bool stays_inside(const char *path)
{
    return path[0] != '/' && !streq(path, "..") && !starts_with(path, "../") && !strstr(path, "/../") &&
           !ends_with(path, "/..");
}

static int get_folder(struct data *data, const char *remote, const char *local)
{
    struct json *items = json_new_array(&data->cli->arena);
    struct err err = {0};
    int code = read_list(data, remote, true, items);

    if (code == CLI_OK && dir_make(local, 0777, &err) < 0)
        code = cli_fail(CLI_FAILED, "%s", err.msg);
    JSON_EACH(items, it) {
        const char *path = json_string_or(json_get(it, "path"), ""), *type = json_get_string(it, "type");
        CLEANUP(free) char *to = mem_printf("%s/%s", local, path);
        CLEANUP(free) char *from = mem_printf("%s/%s", remote, path);

        if (code != CLI_OK || !stays_inside(path))
            continue;
        if (streq(type, "dir") && dir_make(to, 0777, &err) < 0)
            code = cli_fail(CLI_FAILED, "%s", err.msg);
        else if (streq(type, "file"))
            code = get_file(data, from, to, json_int(json_get(it, "size"), 0));
    }
    return code;
}

/* ---- the verbs ---- */

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

static int open_data(struct cli *cli, struct data *data)
{
    *data = (struct data){.cli = cli, .block = mem_alloc(BLOCK), .tty = isatty(2)};
    return cli_upgrade(cli, "/v1/files");
}

static void close_data(struct data *data)
{
    buf_done(&data->input);
    free(data->block);
    client_free(TAKE_PTR(data->cli->client)); /* it is no HTTP any more */
}

static void say_sum(const struct data *data)
{
    printf("%lld files, %.1f MB moved", (long long)data->files, (double)data->bytes / 1e6);
    if (data->skipped)
        printf("; %lld were there already", (long long)data->skipped);
    putchar('\n');
}

int verb_data_put(struct cli *cli, const struct args *args)
{
    const char *word = args->count > 1 ? args->rest[1] : "", *remote = remote_path(cli, word), *local;
    struct data data;
    struct json *doc;
    int code = open_data(cli, &data);

    local = args->rest[0];
    if (code == CLI_OK)
        code = ask(&data, "stat", remote, &doc);
    if (code == CLI_OK && (streq(json_get_string(doc, "type"), "dir") || ends_with(remote, "/")))
        remote = arena_printf(&cli->arena, "%s/%s", remote, base_of(cli, local));
    if (code == CLI_OK)
        code = put_path(&data, local, remote, 0);
    if (code == CLI_OK)
        say_sum(&data);
    close_data(&data);
    return code;
}

int verb_data_get(struct cli *cli, const struct args *args)
{
    const char *remote = remote_path(cli, args->rest[0]), *local = args->count > 1 ? args->rest[1] : ".";
    struct data data;
    struct json *doc = NULL;
    struct stat st;
    int code = open_data(cli, &data);

    if (code == CLI_OK)
        code = ask(&data, "stat", remote, &doc);
    if (code == CLI_OK && stat(local, &st) == 0 && S_ISDIR(st.st_mode))
        local = arena_printf(&cli->arena, "%s/%s", local, base_of(cli, remote));
    if (code == CLI_OK && streq(json_get_string(doc, "type"), "dir"))
        code = get_folder(&data, remote, local);
    else if (code == CLI_OK && streq(json_get_string(doc, "type"), "file"))
        code = get_file(&data, remote, local, json_int(json_get(doc, "size"), 0));
    else if (code == CLI_OK)
        code = cli_fail(CLI_NOT_FOUND, "there is no '%s'", args->rest[0]);
    if (code == CLI_OK)
        say_sum(&data);
    close_data(&data);
    return code;
}

int verb_data_ls(struct cli *cli, const struct args *args)
{
    const char *remote = remote_path(cli, args->count ? args->rest[0] : "");
    struct grid grid = {.columns = 3};
    struct json *items = json_new_array(&cli->arena);
    struct data data;
    int code = open_data(cli, &data);

    if (code == CLI_OK)
        code = read_list(&data, remote, args_has(args, "recursive"), items);
    close_data(&data);
    if (code != CLI_OK)
        return code;
    JSON_EACH(items, it) {
        time_t mtime = (time_t)json_int(json_get(it, "mtime"), 0);
        char time[32] = "";
        struct tm tm;

        strftime(time, sizeof(time), "%Y-%m-%d %H:%M", localtime_r(&mtime, &tm));
        grid_add(&grid, arena_printf(&cli->arena, "%" PRId64, json_int(json_get(it, "size"), 0)));
        grid_add(&grid, arena_strdup(&cli->arena, time));
        grid_add(&grid, arena_printf(&cli->arena, "%s%s", json_string_or(json_get(it, "path"), ""),
                                     streq(json_get_string(it, "type"), "dir") ? "/" : ""));
    }
    grid_print(&grid, stdout);
    grid_done(&grid);
    return CLI_OK;
}
