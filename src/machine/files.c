/* berth-files: answers requests for files, with the rights of this process and no others. */
#include "machine/files.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK (256 << 10)

struct files {
    int in, out;
    struct buf input; /* read, not used yet */
    struct arena arena;
    char *block;
};

/* ---- bytes ---- */

static int send_all(struct files *files, struct str data)
{
    while (data.len > 0) {
        ssize_t n = write(files->out, data.s, data.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        data = (struct str){data.s + n, data.len - (size_t)n};
    }
    return 0;
}

static int answer(struct files *files, const struct json *doc)
{
    CLEANUP(buf_done) struct buf line = {0};

    json_write(&line, doc);
    buf_putc(&line, '\n');
    return send_all(files, buf_view(&line));
}

static int answer_err(struct files *files, const struct err *err)
{
    struct json *doc = json_new_object(&files->arena);

    json_set_string(&files->arena, doc, "error", utf8_valid(str_from(err->msg)) ? err->msg : "it failed");
    return answer(files, doc);
}

static int answer_ok(struct files *files)
{
    struct json *doc = json_new_object(&files->arena);

    json_set_bool(&files->arena, doc, "ok", true);
    return answer(files, doc);
}

static int fill(struct files *files)
{
    ssize_t n;

    do
        n = read(files->in, buf_reserve(&files->input, BLOCK), BLOCK);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return -1;
    files->input.len += (size_t)n;
    return 0;
}

/* ---- sums ---- */

static void sum_text(EVP_MD_CTX *sum, char text[65])
{
    unsigned char raw[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *copy = EVP_MD_CTX_new();

    EVP_MD_CTX_copy_ex(copy, sum);
    EVP_DigestFinal_ex(copy, raw, NULL);
    EVP_MD_CTX_free(copy);
    for (size_t i = 0; i < 32; i++)
        snprintf(text + 2 * i, 3, "%02x", raw[i]);
}

static EVP_MD_CTX *sum_begin(void)
{
    EVP_MD_CTX *sum = EVP_MD_CTX_new();

    EVP_DigestInit_ex(sum, EVP_sha256(), NULL);
    return sum;
}

/* The first `max` bytes of a file (max < 0: all); returns how many there were. */
static int64_t sum_file(struct files *files, int fd, int64_t max, EVP_MD_CTX *sum)
{
    int64_t done = 0;

    while (max < 0 || done < max) {
        size_t want = max < 0 || max - done > BLOCK ? BLOCK : (size_t)(max - done);
        ssize_t n = read(fd, files->block, want);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        EVP_DigestUpdate(sum, files->block, (size_t)n);
        done += n;
    }
    return done;
}

/* ---- looking ---- */

static const char *type_of(const struct stat *st)
{
    return S_ISREG(st->st_mode) ? "file" : S_ISDIR(st->st_mode) ? "dir" : "other";
}

static void describe(struct files *files, struct json *doc, const struct stat *st)
{
    json_set_string(&files->arena, doc, "type", type_of(st));
    json_set_int(&files->arena, doc, "size", S_ISREG(st->st_mode) ? st->st_size : 0);
    json_set_int(&files->arena, doc, "mode", st->st_mode & 07777);
    json_set_int(&files->arena, doc, "mtime", st->st_mtim.tv_sec);
}

static int do_stat(struct files *files, const struct json *request, const char *path, struct err *err)
{
    struct json *doc = json_new_object(&files->arena);
    struct stat st;

    (void)request;
    if (stat(path, &st) == 0)
        describe(files, doc, &st);
    else if (errno == ENOENT)
        json_set_string(&files->arena, doc, "type", "none");
    else
        return err_errno(err, errno, "look at '%s'", path);
    return answer(files, doc);
}

static int do_sum(struct files *files, const struct json *request, const char *path, struct err *err)
{
    CLEANUP(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct json *doc = json_new_object(&files->arena);
    EVP_MD_CTX *sum;
    char text[65];
    int64_t size;

    (void)request;
    if (fd < 0)
        return err_errno(err, errno, "open '%s'", path);
    sum = sum_begin();
    size = sum_file(files, fd, -1, sum);
    sum_text(sum, text);
    EVP_MD_CTX_free(sum);
    if (size < 0)
        return err_errno(err, errno, "read '%s'", path);
    json_set_int(&files->arena, doc, "size", size);
    json_set_string(&files->arena, doc, "sum", text);
    return answer(files, doc);
}

static int list_folder(struct files *files, const char *path, const char *shown, bool deep, int depth,
                       struct err *err);

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_entry(struct files *files, const char *path, const char *shown, bool deep, int depth,
                      struct err *err)
{
    struct json *doc;
    struct stat st;
    int result;

    if (lstat(path, &st) < 0 || !utf8_valid(str_from(shown)))
        return 0;
    if (S_ISLNK(st.st_mode) && stat(path, &st) == 0 && S_ISDIR(st.st_mode) && deep)
        return 0; /* not followed: it may lead round */
    doc = json_new_object(&files->arena);
    json_set_string(&files->arena, doc, "path", shown);
    describe(files, doc, &st);
    result = answer(files, doc);
    if (result == 0 && deep && S_ISDIR(st.st_mode))
        result = list_folder(files, path, shown, deep, depth + 1, err);
    return result;
}

static int list_folder(struct files *files, const char *path, const char *shown, bool deep, int depth,
                       struct err *err)
{
    DIR *dir = depth < FILES_DEPTH_MAX ? opendir(path) : NULL;
    VEC(char *) names = {0};
    struct dirent *entry;
    int result = 0;

    if (!dir)
        return depth >= FILES_DEPTH_MAX ? err_set(err, ERR_LIMIT, "'%s' is too deep", path)
                                        : err_errno(err, errno, "read '%s'", path);
    while ((entry = readdir(dir)))
        if (!streq(entry->d_name, ".") && !streq(entry->d_name, "..") &&
            !ends_with(entry->d_name, ".berth-part"))
            vec_push(&names, mem_strdup(entry->d_name));
    closedir(dir);
    if (names.len)
        qsort(names.v, names.len, sizeof(*names.v), by_name);
    VEC_EACH(&names, it) {
        CLEANUP(free) char *full = mem_printf("%s/%s", path, *it);
        CLEANUP(free) char *name = shown[0] ? mem_printf("%s/%s", shown, *it) : mem_strdup(*it);

        if (result == 0)
            result = list_entry(files, full, name, deep, depth, err);
        free(*it);
    }
    vec_done(&names);
    return result;
}

static int do_list(struct files *files, const struct json *request, const char *path, struct err *err)
{
    struct json *end = json_new_object(&files->arena);

    if (list_folder(files, path, "", json_bool(json_get(request, "deep")), 0, err) < 0)
        return -1;
    json_set_bool(&files->arena, end, "end", true);
    return answer(files, end);
}

/* ---- putting ---- */

static int make_parents(const char *path, struct err *err)
{
    CLEANUP(free) char *folder = mem_strdup(path);
    char *slash = strrchr(folder, '/');

    if (!slash || slash == folder)
        return 0;
    *slash = '\0';
    return dir_make(folder, 0777, err);
}

static int do_mkdir(struct files *files, const struct json *request, const char *path, struct err *err)
{
    (void)request;
    return dir_make(path, 0777, err) < 0 ? -1 : answer_ok(files);
}

static const char *part_path(struct files *files, const char *path)
{
    const char *slash = strrchr(path, '/');

    return arena_printf(&files->arena, "%.*s" FILES_PART, slash ? (int)(slash - path) + 1 : 0, path,
                        slash ? slash + 1 : path);
}

static int do_part(struct files *files, const struct json *request, const char *path, struct err *err)
{
    CLEANUP(fd_close) int fd = open(part_path(files, path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct json *doc = json_new_object(&files->arena);
    EVP_MD_CTX *sum = sum_begin();
    char text[65];
    int64_t have;

    (void)request;
    (void)err;
    have = fd >= 0 ? sum_file(files, fd, -1, sum) : 0;
    sum_text(sum, text);
    EVP_MD_CTX_free(sum);
    json_set_int(&files->arena, doc, "have", have > 0 ? have : 0);
    json_set_string(&files->arena, doc, "sum", text);
    return answer(files, doc);
}

/* The bytes of a put: all are taken off the connection, also after a failure, which is told then. */
static int take_bytes(struct files *files, int fd, int64_t left, EVP_MD_CTX *sum, struct err *err)
{
    int result = 0;

    while (left > 0) {
        size_t n;
        ssize_t written;

        if (!files->input.len && fill(files) < 0)
            _exit(1); /* the caller is gone; what came stays for the next try */
        n = (int64_t)files->input.len < left ? files->input.len : (size_t)left;
        written = result == 0 ? write(fd, files->input.data, n) : (ssize_t)n;
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0) {
            result = err_errno(err, errno, "write");
            written = (ssize_t)n;
        }
        EVP_DigestUpdate(sum, files->input.data, (size_t)written);
        buf_drop(&files->input, (size_t)written);
        left -= written;
    }
    return result;
}

static int finish_put(const struct json *request, int fd, const char *part, const char *path, struct err *err)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = json_int(json_get(request, "mtime"), 0)}};

    if (fchmod(fd, (mode_t)json_int(json_get(request, "mode"), 0644) & 0777) < 0 || futimens(fd, times) < 0 ||
        fsync(fd) < 0)
        return err_errno(err, errno, "finish '%s'", path);
    if (rename(part, path) < 0)
        return err_errno(err, errno, "put '%s' in its place", path);
    return 0;
}

static int do_put(struct files *files, const struct json *request, const char *path, struct err *err)
{
    const char *part = part_path(files, path);
    int64_t from = json_int(json_get(request, "from"), 0), size = json_int(json_get(request, "size"), 0);
    EVP_MD_CTX *sum = sum_begin();
    CLEANUP(fd_close) int fd = -1;
    char text[65];
    int result = make_parents(path, err);

    if (result == 0) {
        fd = open(part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            result = err_errno(err, errno, "write '%s'", path);
        else if (sum_file(files, fd, from, sum) != from || ftruncate(fd, from) < 0)
            result = err_set(err, ERR_CONFLICT, "'%s': what was there before is gone", path);
    }
    if (result < 0)
        take_bytes(files, open("/dev/null", O_WRONLY | O_CLOEXEC), size - from, sum, &(struct err){0});
    else
        result = take_bytes(files, fd, size - from, sum, err);
    sum_text(sum, text);
    EVP_MD_CTX_free(sum);
    if (result == 0 && !streq(text, json_get_string(request, "sum"))) {
        unlink(part);
        result = err_set(err, ERR_INVALID, "'%s': its checksum is wrong; put it again", path);
    }
    if (result == 0)
        result = finish_put(request, fd, part, path, err);
    return result < 0 ? -1 : answer_ok(files);
}

/* ---- getting ---- */

static int send_file(struct files *files, int fd, int64_t left, EVP_MD_CTX *sum)
{
    while (left > 0) {
        ssize_t n = read(fd, files->block, left > BLOCK ? BLOCK : (size_t)left);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1; /* it has shrunk: the promised bytes cannot come, so the connection ends */
        EVP_DigestUpdate(sum, files->block, (size_t)n);
        if (send_all(files, (struct str){files->block, (size_t)n}) < 0)
            return -1;
        left -= n;
    }
    return 0;
}

static int do_get(struct files *files, const struct json *request, const char *path, struct err *err)
{
    CLEANUP(fd_close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct json *doc = json_new_object(&files->arena), *end = json_new_object(&files->arena);
    int64_t from = json_int(json_get(request, "from"), 0);
    EVP_MD_CTX *sum;
    struct stat st;
    char text[65];

    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, errno, "open '%s'", path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, ERR_INVALID, "'%s' is no file", path);
    if (from < 0 || from > st.st_size)
        from = 0;
    sum = sum_begin();
    from = sum_file(files, fd, from, sum);
    sum_text(sum, text);
    describe(files, doc, &st);
    json_set_int(&files->arena, doc, "from", from);
    json_set_string(&files->arena, doc, "head", text);
    if (answer(files, doc) < 0 || send_file(files, fd, st.st_size - from, sum) < 0)
        _exit(1);
    sum_text(sum, text);
    EVP_MD_CTX_free(sum);
    json_set_string(&files->arena, end, "sum", text);
    return answer(files, end);
}

/* ---- requests ---- */

static const struct {
    const char *op;
    /* -1 with err set: the caller is told. -1 without: nobody listens any more. */
    int (*run)(struct files *files, const struct json *request, const char *path, struct err *err);
} ops[] = {
    {"stat", do_stat}, {"sum", do_sum}, {"list", do_list}, {"mkdir", do_mkdir},
    {"part", do_part}, {"put", do_put}, {"get", do_get},
};

static int serve_line(struct files *files, struct str line)
{
    struct err err = {0};
    struct json *request = NULL;
    const char *path, *op;

    arena_reset(&files->arena);
    if (json_parse(line, &files->arena, &request, NULL, &err) < 0)
        return answer_err(files, &err);
    path = json_string_or(json_get(request, "path"), "");
    op = json_string_or(json_get(request, "op"), "");
    if (!path[0])
        path = ".";
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++)
        if (streq(ops[i].op, op)) {
            if (ops[i].run(files, request, path, &err) == 0)
                return 0;
            return err.msg[0] ? answer_err(files, &err) : -1;
        }
    err_set(&err, ERR_INVALID, "'%s' is not known here", op);
    return answer_err(files, &err);
}

int files_serve(int in, int out)
{
    struct files files = {.in = in, .out = out, .block = mem_alloc(BLOCK)};
    int status = 0;

    umask(022);
    for (;;) {
        const char *end = files.input.len ? memchr(files.input.data, '\n', files.input.len) : NULL;
        CLEANUP(free) char *line = NULL;
        size_t len;

        if (!end) {
            if (files.input.len > FILES_LINE_MAX) {
                status = 1;
                break;
            }
            if (fill(&files) < 0)
                break;
            continue;
        }
        len = (size_t)(end - files.input.data);
        line = mem_strndup(files.input.data, len);
        buf_drop(&files.input, len + 1);
        if (serve_line(&files, (struct str){line, len}) < 0) {
            status = 1;
            break;
        }
    }
    buf_done(&files.input);
    arena_done(&files.arena);
    free(files.block);
    return status;
}
