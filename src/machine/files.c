/* berth-files: answers requests for files, with the rights of this process and no others. */
#include "machine/files.h"

#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define BLOCK      (256 << 10)
#define LOCK_TRIES 50
#define LOCK_USEC  100000

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
    if (err->sys == ENOENT)
        json_set_bool(&files->arena, doc, "missing", true);
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

/* The next line, without its end. -1: none comes, or one that is too long. */
static int take_line(struct files *files, char **ret, size_t *ret_len)
{
    const char *end;

    while (!files->input.len || !(end = memchr(files->input.data, '\n', files->input.len)))
        if (files->input.len > FILES_LINE_MAX || fill(files) < 0)
            return -1;
    *ret_len = (size_t)(end - files->input.data);
    *ret = mem_strndup(files->input.data, *ret_len);
    buf_drop(&files->input, *ret_len + 1);
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

static void describe(struct arena *arena, struct json *doc, const struct stat *st)
{
    json_set_string(arena, doc, "type", type_of(st));
    json_set_int(arena, doc, "size", S_ISREG(st->st_mode) ? st->st_size : 0);
    json_set_int(arena, doc, "mode", st->st_mode & 07777);
    json_set_int(arena, doc, "mtime", st->st_mtim.tv_sec);
}

static int do_stat(struct files *files, const struct json *request, const char *path, struct err *err)
{
    struct json *doc = json_new_object(&files->arena);
    struct stat st;

    (void)request;
    if (stat(path, &st) == 0)
        describe(&files->arena, doc, &st);
    else if (errno == ENOENT || errno == ENOTDIR)
        json_set_string(&files->arena, doc, "type", "none");
    else
        return err_errno(err, errno, "look at '%s'", path);
    return answer(files, doc);
}

static int open_file(const char *path, int *fd, struct stat *st, struct err *err)
{
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (*fd < 0 || fstat(*fd, st) < 0)
        return err_errno(err, errno, "open '%s'", path);
    return S_ISREG(st->st_mode) ? 0 : err_set(err, ERR_INVALID, "'%s' is no file", path);
}

static int do_sum(struct files *files, const struct json *request, const char *path, struct err *err)
{
    CLEANUP(fd_close) int fd = -1;
    struct json *doc = json_new_object(&files->arena);
    EVP_MD_CTX *sum;
    struct stat st;
    char text[65];
    int64_t size;

    if (open_file(path, &fd, &st, err) < 0)
        return -1;
    sum = sum_begin();
    size = sum_file(files, fd, json_int(json_get(request, "first"), -1), sum);
    sum_text(sum, text);
    EVP_MD_CTX_free(sum);
    if (size < 0)
        return err_errno(err, errno, "read '%s'", path);
    json_set_int(&files->arena, doc, "size", size);
    json_set_string(&files->arena, doc, "sum", text);
    return answer(files, doc);
}

struct listing {
    struct files *files;
    bool deep;
    int64_t unnamed, unread;
};

static int list_folder(struct listing *list, const char *path, const char *shown, int depth, struct err *err);

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_entry(struct listing *list, const char *path, const char *shown, int depth, struct err *err)
{
    CLEANUP(arena_done) struct arena arena = {0}; /* there may be very many */
    struct json *doc;
    struct stat st;
    bool link = false;

    if (lstat(path, &st) < 0)
        return 0;
    if (!utf8_valid(str_from(shown))) {
        list->unnamed++;
        return 0;
    }
    /* Not followed when it goes deep: it may lead round. */
    if (S_ISLNK(st.st_mode) && stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        link = list->deep;
    doc = json_new_object(&arena);
    json_set_string(&arena, doc, "path", shown);
    describe(&arena, doc, &st);
    if (link)
        json_set_string(&arena, doc, "type", "link");
    if (answer(list->files, doc) < 0)
        return -1;
    return list->deep && !link && S_ISDIR(st.st_mode) ? list_folder(list, path, shown, depth + 1, err) : 0;
}

static int list_folder(struct listing *list, const char *path, const char *shown, int depth, struct err *err)
{
    DIR *dir = depth < FILES_DEPTH_MAX ? opendir(path) : NULL;
    VEC(char *) names = {0};
    struct dirent *entry;
    int result = 0;

    if (!dir && depth > 0 && depth < FILES_DEPTH_MAX) {
        list->unread++;
        return 0;
    }
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
            result = list_entry(list, full, name, depth, err);
        free(*it);
    }
    vec_done(&names);
    return result;
}

static int do_list(struct files *files, const struct json *request, const char *path, struct err *err)
{
    struct json *end = json_new_object(&files->arena);
    struct listing list = {.files = files, .deep = json_bool(json_get(request, "deep"))};
    const char *slash = strrchr(path, '/');
    struct stat st;
    int result;

    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) /* a file is listed as itself */
        result = list_entry(&list, path, slash ? slash + 1 : path, 0, err);
    else
        result = list_folder(&list, path, "", 0, err);
    if (result < 0)
        return -1;
    json_set_bool(&files->arena, end, "end", true);
    json_set_int(&files->arena, end, "unnamed", list.unnamed);
    json_set_int(&files->arena, end, "unread", list.unread);
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
    CLEANUP(fd_close) int fd = open(part_path(files, path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
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

/* A put under way. Once it has failed the caller knows, and what still comes is thrown away. */
struct put {
    const char *path, *part;
    int64_t from, size;
    int fd;
    bool failed;
    EVP_MD_CTX *sum;
};

static int put_failed(struct files *files, struct put *put, const struct err *err)
{
    if (put->failed)
        return 0;
    put->failed = true;
    return answer_err(files, err);
}

/* Two at the same file would write into each other's bytes. Who was cut off is gone in a moment; who has
 * ended meanwhile has moved the part to its place, where nobody may write to it any more. */
static int lock_part(struct put *put, struct err *err)
{
    struct stat ours, there;

    for (int i = 0; i < LOCK_TRIES; i++) {
        fd_close(put->fd);
        put->fd = open(put->part, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
        if (put->fd < 0)
            return err_errno(err, errno, "write '%s'", put->path);
        if (flock(put->fd, LOCK_EX | LOCK_NB) == 0 && fstat(put->fd, &ours) == 0 &&
            lstat(put->part, &there) == 0 && ours.st_ino == there.st_ino && ours.st_dev == there.st_dev)
            return 0;
        usleep(LOCK_USEC);
    }
    return err_set(err, ERR_CONFLICT, "'%s' is being put by somebody else now", put->path);
}

static int check_space(const struct put *put, struct err *err)
{
    int64_t need = put->size - put->from, have;
    struct statvfs fs;

    if (fstatvfs(put->fd, &fs) < 0)
        return 0;
    have = (int64_t)(fs.f_bavail * fs.f_frsize);
    if (need <= have)
        return 0;
    if (put->from == 0)
        unlink(put->part);
    return err_set(err, ERR_LIMIT, "'%s' does not fit: %lld MB are to come, %lld MB are free", put->path,
                   (long long)(need / 1000000), (long long)(have / 1000000));
}

static int open_part(struct files *files, struct put *put, struct err *err)
{
    struct stat st;

    if (put->from < 0 || put->from > put->size)
        return err_set(err, ERR_INVALID, "'%s': there is no such part of a file", put->path);
    if (stat(put->path, &st) == 0 && !S_ISREG(st.st_mode))
        return err_set(err, ERR_CONFLICT, "'%s' is there and no file", put->path);
    if (make_parents(put->path, err) < 0)
        return -1;
    if (lock_part(put, err) < 0)
        return -1;
    if (sum_file(files, put->fd, put->from, put->sum) != put->from || ftruncate(put->fd, put->from) < 0)
        return err_set(err, ERR_CONFLICT, "'%s': what was there before is gone", put->path);
    return check_space(put, err);
}

/* -1: the caller is gone; what came stays for the next try. */
static int take_bytes(struct files *files, struct put *put)
{
    int64_t left = put->size - put->from;

    while (left > 0) {
        struct err err = {0};
        ssize_t n;

        if (!files->input.len && fill(files) < 0)
            return -1;
        n = (int64_t)files->input.len < left ? (ssize_t)files->input.len : (ssize_t)left;
        if (!put->failed)
            n = write(put->fd, files->input.data, (size_t)n);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            err_errno(&err, errno, "write '%s'", put->path);
            if (err.sys == ENOSPC || err.sys == EDQUOT || err.sys == EFBIG)
                unlink(put->part); /* nothing is to stay full because of it */
            if (put_failed(files, put, &err) < 0)
                return -1;
            continue;
        }
        EVP_DigestUpdate(put->sum, files->input.data, (size_t)n);
        buf_drop(&files->input, (size_t)n);
        left -= n;
    }
    return 0;
}

/* The name is on the disk only when its folder is. Where a file system does not sync folders, it does by
 * itself. */
static int sync_folder(const char *path, struct err *err)
{
    CLEANUP(free) char *copy = mem_strdup(path);
    CLEANUP(fd_close) int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0 && errno == EACCES) /* it may be written and not read */
        return 0;
    if (fd < 0 || (fsync(fd) < 0 && errno != EINVAL && errno != EROFS))
        return err_errno(err, errno, "sync the folder of '%s'", path);
    return 0;
}

static int finish_put(const struct json *request, int fd, const char *part, const char *path, struct err *err)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_NOW}, {.tv_sec = json_int(json_get(request, "mtime"), 0)}};

    if (fchmod(fd, (mode_t)json_int(json_get(request, "mode"), 0644) & 0777) < 0 || futimens(fd, times) < 0 ||
        fsync(fd) < 0)
        return err_errno(err, errno, "finish '%s'", path);
    if (rename(part, path) < 0)
        return err_errno(err, errno, "put '%s' in its place", path);
    return sync_folder(path, err);
}

/* The line after the bytes. */
static int check_sum(struct files *files, const struct put *put, struct str line, struct err *err)
{
    struct json *doc = NULL;
    char text[65];

    sum_text(put->sum, text);
    if (json_parse(line, &files->arena, &doc, NULL, err) < 0)
        return -1;
    if (streq(text, json_get_string(doc, "sum")))
        return 0;
    unlink(put->part);
    return err_set(err, ERR_INVALID, "'%s': its checksum is wrong; put it again", put->path);
}

static int run_put(struct files *files, struct put *put, const struct json *request)
{
    CLEANUP(free) char *line = NULL;
    struct err err = {0};
    size_t len;

    if (open_part(files, put, &err) < 0 && put_failed(files, put, &err) < 0)
        return -1;
    if (take_bytes(files, put) < 0 || take_line(files, &line, &len) < 0)
        return -1;
    if (put->failed)
        return 0;
    if (check_sum(files, put, (struct str){line, len}, &err) < 0 ||
        finish_put(request, put->fd, put->part, put->path, &err) < 0)
        return put_failed(files, put, &err);
    return answer_ok(files);
}

static int do_put(struct files *files, const struct json *request, const char *path, struct err *err)
{
    struct put put = {
        .path = path,
        .part = part_path(files, path),
        .from = json_int(json_get(request, "from"), 0),
        .size = json_int(json_get(request, "size"), 0),
        .fd = -1,
        .sum = sum_begin(),
    };
    int result;

    (void)err;
    if (put.size < 0 || put.size > FILES_SIZE_MAX || put.from < 0 || put.from > put.size)
        put.size = put.from = -1; /* nothing can follow */
    result = run_put(files, &put, request);
    fd_close(put.fd);
    EVP_MD_CTX_free(put.sum);
    return result;
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
    CLEANUP(fd_close) int fd = -1;
    struct json *doc = json_new_object(&files->arena), *end = json_new_object(&files->arena);
    int64_t from = json_int(json_get(request, "from"), 0);
    EVP_MD_CTX *sum;
    struct stat st;
    char text[65];
    int result;

    if (open_file(path, &fd, &st, err) < 0)
        return -1;
    if (from < 0 || from > st.st_size)
        from = 0;
    sum = sum_begin();
    if (sum_file(files, fd, from, sum) != from) {
        EVP_MD_CTX_free(sum);
        return err_errno(err, errno, "read '%s'", path);
    }
    describe(&files->arena, doc, &st);
    json_set_int(&files->arena, doc, "from", from);
    result = answer(files, doc);
    if (result == 0)
        result = send_file(files, fd, st.st_size - from, sum);
    sum_text(sum, text);
    EVP_MD_CTX_free(sum);
    json_set_string(&files->arena, end, "sum", text);
    return result < 0 ? -1 : answer(files, end);
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
    int result = 0;

    umask(022);
    while (result == 0) {
        CLEANUP(free) char *line = NULL;
        size_t len;

        if (take_line(&files, &line, &len) < 0)
            break;
        result = serve_line(&files, (struct str){line, len});
    }
    result = result < 0 || files.input.len > FILES_LINE_MAX;
    buf_done(&files.input);
    arena_done(&files.arena);
    free(files.block);
    return result;
}
