#include "engine/packed.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#define CHUNK          (64 << 10)
#define RUNS_BYTES_MAX (256 << 10) /* as kept.c has it */
#define LOCK_TRIES     100         /* each time the file that was locked had just been removed */

static const char *const endings[] = {".gz", ".pack", ".log"}; /* in the order of their text */

static char *path_of(const char *folder, const char *name, const char *ending)
{
    return mem_printf("%s/%s%s", folder, name, ending);
}

static bool exists(const char *folder, const char *name, const char *ending)
{
    CLEANUP(free) char *path = path_of(folder, name, ending);

    return access(path, F_OK) == 0;
}

int packed_lock(const char *folder, const char *name, bool wait, struct err *err)
{
    CLEANUP(free) char *path = path_of(folder, name, ".runs");

    for (int i = 0; i < LOCK_TRIES; i++) {
        int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
        struct stat st;

        if (fd < 0)
            return err_errno(err, errno, "open '%s'", path);
        if (flock(fd, wait ? LOCK_EX : LOCK_EX | LOCK_NB) < 0) {
            err_errno(err, errno, "lock '%s'", path);
            close(fd);
            return -1;
        }
        if (fstat(fd, &st) == 0 && st.st_nlink > 0)
            return fd;
        close(fd); /* it was removed while we waited */
    }
    return err_set(err, ERR_CONFLICT, "lock '%s': it is removed again and again", path);
}

/* ---- compressing ---- */

static int deflate_file(int in, int out, const char *path, struct err *err)
{
    CLEANUP(free) char *piece = mem_alloc(CHUNK);
    int copy = fcntl(out, F_DUPFD_CLOEXEC, 3);
    gzFile gz = copy < 0 ? NULL : gzdopen(copy, "wb6");
    ssize_t n = 0;
    bool ok = gz;

    if (!gz)
        return err_errno(err, errno, "write '%s'", path);
    while (ok && (n = read(in, piece, CHUNK)) > 0)
        ok = gzwrite(gz, piece, (unsigned)n) == (int)n;
    ok = gzclose(gz) == Z_OK && ok && n == 0;
    return ok && fsync(out) == 0 ? 0 : err_errno(err, errno ? errno : EIO, "write '%s'", path);
}

/* NAME.pack becomes NAME.gz, with the lock. */
static int finish_pack(const char *folder, const char *name, struct err *err)
{
    CLEANUP(free) char *from = path_of(folder, name, ".pack"), *made = path_of(folder, name, ".gz.new");
    CLEANUP(free) char *to = path_of(folder, name, ".gz");
    CLEANUP(fd_close) int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    CLEANUP(fd_close) int out = -1;
    struct stat st;

    if (in < 0 || fstat(in, &st) < 0)
        return err_errno(err, errno, "open '%s'", from);
    if (access(to, F_OK) != 0) {
        out = open(made, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (out < 0)
            return err_errno(err, errno, "open '%s'", made);
        if (deflate_file(in, out, made, err) < 0 ||
            futimens(out, (const struct timespec[]){st.st_atim, st.st_mtim}) < 0 || rename(made, to) < 0) {
            unlink(made);
            return err && err->code ? -1 : err_errno(err, errno, "rename '%s'", made);
        }
    }
    unlink(from);
    return 0;
}

/* A copy that was cut off is begun again: until then nothing of it moves. */
static bool is_being_copied(int runs)
{
    CLEANUP(map_free) struct map *open_runs = map_new();
    CLEANUP(free) char *text = mem_zalloc(RUNS_BYTES_MAX + 1);
    ssize_t n = pread(runs, text, RUNS_BYTES_MAX, 0);
    struct str rest = {text, n > 0 ? (size_t)n : 0}, line, uid, start;

    while (rest.len && str_split(&rest, '\n', &line)) {
        if (!line.len || !str_split(&line, ' ', &uid) || !str_split(&line, ' ', &start))
            continue;
        if (line.len)
            map_remove(open_runs, uid);
        else
            map_set(open_runs, uid, text);
    }
    return map_len(open_runs) > 0;
}

/* True: it is compressed now. One that was compressed before stays as it is, with its new text beside it. */
static bool pack(const char *folder, const char *name)
{
    CLEANUP(free) char *log = path_of(folder, name, ".log"), *to = path_of(folder, name, ".pack");
    CLEANUP(fd_close) int lock = packed_lock(folder, name, false, NULL);

    if (lock < 0)
        return false;
    if (!exists(folder, name, ".pack")) {
        if (is_being_copied(lock) || exists(folder, name, ".gz") || rename(log, to) < 0)
            return false;
    }
    return finish_pack(folder, name, NULL) == 0;
}

/* ---- what is there ---- */

struct kept_log {
    char *name;
    int64_t bytes, written; /* seconds */
    bool plain, half;       /* NAME.log, NAME.pack are there */
};

static int by_age(const void *a, const void *b)
{
    const struct kept_log *x = *(struct kept_log *const *)a, *y = *(struct kept_log *const *)b;

    return x->written != y->written ? (x->written < y->written ? -1 : 1) : strcmp(x->name, y->name);
}

typedef VEC(struct kept_log *) log_list;

/* The name that a file is of; false: it is none of ours. */
static bool split_name(const char *file, struct str *name, size_t *ending)
{
    for (*ending = 0; *ending < ARRAY_LEN(endings); ++*ending)
        if (ends_with(file, endings[*ending])) {
            *name = (struct str){file, strlen(file) - strlen(endings[*ending])};
            return name->len > 0;
        }
    return false;
}

static void scan(const char *folder, log_list *ret)
{
    CLEANUP(map_free) struct map *by_name = map_new();
    DIR *dir = opendir(folder);
    const struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        struct kept_log *log;
        struct stat st;
        struct str name;
        size_t ending;

        if (!split_name(entry->d_name, &name, &ending) ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode))
            continue;
        log = map_get(by_name, name);
        if (!log) {
            log = NEW(struct kept_log);
            log->name = mem_strndup(name.s, name.len);
            map_set(by_name, name, log);
            vec_push(ret, log);
        }
        log->bytes += st.st_size;
        log->written = st.st_mtim.tv_sec > log->written ? st.st_mtim.tv_sec : log->written;
        log->plain = log->plain || ending == 2;
        log->half = log->half || ending == 1;
    }
    if (dir)
        closedir(dir);
    if (ret->len)
        qsort(ret->v, ret->len, sizeof(*ret->v), by_age);
}

static int64_t size_of(const char *folder, const char *name)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        CLEANUP(free) char *path = path_of(folder, name, endings[i]);
        struct stat st;

        if (lstat(path, &st) == 0)
            bytes += st.st_size;
    }
    return bytes;
}

static bool remove_log(const char *folder, const char *name)
{
    CLEANUP(fd_close) int lock = packed_lock(folder, name, false, NULL);
    CLEANUP(free) char *runs = path_of(folder, name, ".runs");

    if (lock < 0)
        return false;
    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        CLEANUP(free) char *path = path_of(folder, name, endings[i]);

        unlink(path);
    }
    unlink(runs);
    return true;
}

void packed_tidy(const char *folder, const struct packed_rules *rules, struct packed_totals *ret)
{
    log_list logs = {0};
    int64_t now = rules->now / NSEC_PER_SEC, total = 0;

    *ret = (struct packed_totals){0};
    scan(folder, &logs);
    VEC_EACH(&logs, it) {
        struct kept_log *log = *it;

        if (!rules->alive(rules->arg, log->name) &&
            (log->half || (log->plain && now - log->written >= PACKED_AFTER_SEC)) &&
            pack(folder, log->name)) {
            ret->packed++;
            log->bytes = size_of(folder, log->name);
        }
        total += log->bytes;
    }
    VEC_EACH(&logs, it) {
        struct kept_log *log = *it;
        bool old = rules->sec && now - log->written >= rules->sec,
             much = rules->bytes && total > rules->bytes;

        if ((old || much) && !rules->alive(rules->arg, log->name) && remove_log(folder, log->name)) {
            ret->removed++;
            total -= log->bytes;
        } else {
            ret->count++;
        }
        free(log->name);
        free(log);
    }
    vec_done(&logs);
    ret->bytes = total;
}

/* ---- reading ---- */

bool packed_is(const char *folder, const char *name)
{
    return exists(folder, name, ".gz") || exists(folder, name, ".pack");
}

static int unnamed(const char *folder)
{
    CLEANUP(free) char *path = path_of(folder, ".reading-XXXXXX", "");
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    if (fd < 0 && (fd = mkostemp(path, O_CLOEXEC)) >= 0)
        unlink(path);
    return fd;
}

/* Text or gzip alike; `left` is what may still come. */
static int add_text(const char *path, int out, int64_t *left, struct err *err)
{
    CLEANUP(free) char *piece = mem_alloc(CHUNK);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    gzFile gz = fd < 0 ? NULL : gzdopen(fd, "rb");
    int n = 0;

    if (!gz) {
        if (fd >= 0)
            close(fd);
        return fd < 0 && errno == ENOENT ? 0 : err_errno(err, errno, "open '%s'", path);
    }
    while (*left > 0 && (n = gzread(gz, piece, CHUNK)) > 0) {
        if (write(out, piece, (size_t)n) != n) {
            n = -1;
            break;
        }
        *left -= n;
    }
    if (gzclose_r(gz) != Z_OK && n >= 0)
        n = -1;
    return n < 0 ? err_errno(err, errno ? errno : EIO, "read '%s'", path) : 0;
}

/* With the lock. */
static int gather(const char *folder, const char *name, int out, struct err *err)
{
    int64_t left = PACKED_READ_MAX;
    bool whole = exists(folder, name, ".gz");

    for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
        CLEANUP(free) char *path = path_of(folder, name, endings[i]);

        if (streq(endings[i], ".pack") && whole)
            continue; /* it is in NAME.gz */
        if (add_text(path, out, &left, err) < 0)
            return -1;
    }
    return lseek(out, 0, SEEK_SET) < 0 ? err_errno(err, errno, "read the log") : 0;
}

int packed_open(const char *folder, const char *name, int *ret_fd, struct err *err)
{
    CLEANUP(fd_close) int lock = packed_lock(folder, name, true, err);
    int out;

    if (lock < 0)
        return -1;
    out = unnamed(folder);
    if (out < 0)
        return err_errno(err, errno, "make a file in '%s'", folder);
    if (gather(folder, name, out, err) < 0) {
        close(out);
        return -1;
    }
    *ret_fd = out;
    return 0;
}
