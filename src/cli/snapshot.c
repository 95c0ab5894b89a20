#include "cli/snapshot.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <ftw.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define IGNORE_BYTES_MAX (64 << 10)

struct snapshot {
    VEC(const char *) patterns;
    struct buf ignore_text;
    struct buf path;   /* from the project's folder */
    struct stat store; /* the folder of snapshots, which may lie in the project's */
    struct snapshot_stats stats;
    struct err *err;
};

static const char *const never[] = {
    ".git",  "__pycache__",   ".venv", "venv", "node_modules",      ".mypy_cache",
    "*.pyc", ".pytest_cache", ".hg",   ".svn", ".ipynb_checkpoints"};

static int read_ignore(struct snapshot *s, const char *from)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", from, SNAPSHOT_IGNORE);
    char *save = NULL;

    if (access(path, F_OK) < 0)
        return 0;
    if (file_read(path, IGNORE_BYTES_MAX, &s->ignore_text, s->err) < 0)
        return -1;
    if (!s->ignore_text.data)
        return 0;
    for (char *line = strtok_r(s->ignore_text.data, "\r\n", &save); line;
         line = strtok_r(NULL, "\r\n", &save)) {
        size_t len = strlen(line);

        if (len == 0 || line[0] == '#')
            continue;
        if (s->patterns.len >= SNAPSHOT_IGNORE_MAX)
            return err_set(s->err, ERR_LIMIT, "%s has more than %d lines", path, SNAPSHOT_IGNORE_MAX);
        if (len > 1 && line[len - 1] == '/')
            line[len - 1] = '\0';
        vec_push(&s->patterns, line[0] == '/' ? line + 1 : line);
    }
    return 0;
}

static bool ignored(const struct snapshot *s, const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(never); i++)
        if (fnmatch(never[i], name, 0) == 0)
            return true;
    VEC_EACH(&s->patterns, it)
        if (fnmatch(*it, strchr(*it, '/') ? s->path.data : name, FNM_PATHNAME) == 0)
            return true;
    return false;
}

static int failed(struct snapshot *s, const char *what)
{
    return err_errno(s->err, errno, "cannot %s %s", what, s->path.data);
}

/* By reference where the file system can, else by copying. */
static int copy_bytes(int in, int out)
{
    ssize_t n;

    if (ioctl(out, FICLONE, in) == 0)
        return 0;
    while ((n = copy_file_range(in, NULL, out, NULL, 1 << 30, 0)) > 0)
        ;
    if (n == 0)
        return 0;
    if (errno != EXDEV && errno != EINVAL && errno != EOPNOTSUPP && errno != ENOSYS)
        return -1;
    for (;;) {
        char block[64 << 10];
        ssize_t have = read(in, block, sizeof(block));

        if (have <= 0)
            return have < 0 ? -1 : 0;
        for (ssize_t at = 0, put; at < have; at += put)
            if ((put = write(out, block + at, (size_t)(have - at))) < 0)
                return -1;
    }
}

static int copy_file(struct snapshot *s, int from, int to, const char *name, const struct stat *st)
{
    CLEANUP(fd_close) int in = openat(from, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    CLEANUP(fd_close) int out = -1;

    if (in < 0)
        return failed(s, "read");
    out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st->st_mode & 0777);
    if (out < 0 || copy_bytes(in, out) < 0)
        return failed(s, "copy");
    return 0;
}

static int copy_link(struct snapshot *s, int from, int to, const char *name)
{
    char target[4096];
    ssize_t len = readlinkat(from, name, target, sizeof(target) - 1);

    if (len < 0)
        return failed(s, "read the link");
    target[len] = '\0';
    return symlinkat(target, to, name) < 0 ? failed(s, "copy the link") : 0;
}

static int copy_folder(struct snapshot *s, int from, int to, int depth);

static int copy_entry(struct snapshot *s, int from, int to, const char *name, int depth)
{
    struct stat st;

    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return failed(s, "look at");
    if (st.st_dev == s->store.st_dev && st.st_ino == s->store.st_ino) {
        s->stats.skipped++;
        return 0;
    }
    if (++s->stats.files > SNAPSHOT_FILES_MAX)
        return err_set(s->err, ERR_LIMIT,
                       "the folder has more than %d files: name what the job does not need in %s",
                       SNAPSHOT_FILES_MAX, SNAPSHOT_IGNORE);
    if (S_ISREG(st.st_mode)) {
        s->stats.bytes += st.st_size;
        if (s->stats.bytes > SNAPSHOT_BYTES_MAX)
            return err_set(
                s->err, ERR_LIMIT,
                "the folder has more than %lld MB: name data and results in %s, and give them to the job "
                "by ~/datasets (/data)",
                (long long)(SNAPSHOT_BYTES_MAX >> 20), SNAPSHOT_IGNORE);
        return copy_file(s, from, to, name, &st);
    }
    if (S_ISLNK(st.st_mode))
        return copy_link(s, from, to, name);
    if (S_ISDIR(st.st_mode)) {
        CLEANUP(fd_close) int in = openat(from, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
        CLEANUP(fd_close) int out = -1;

        if (in < 0 || mkdirat(to, name, (st.st_mode & 0777) | 0700) < 0)
            return failed(s, "copy the folder");
        out = openat(to, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return out < 0 ? failed(s, "open") : copy_folder(s, in, out, depth + 1);
    }
    s->stats.skipped++; /* sockets, devices */
    return 0;
}

static int copy_folder(struct snapshot *s, int from, int to, int depth)
{
    DIR *dir = fdopendir(fcntl(from, F_DUPFD_CLOEXEC, 3));
    size_t len = s->path.len;
    int result = 0;

    if (!dir)
        return failed(s, "list");
    if (depth > SNAPSHOT_DEPTH_MAX)
        result = err_set(s->err, ERR_LIMIT, "folders are nested deeper than %d", SNAPSHOT_DEPTH_MAX);
    for (const struct dirent *it; result == 0 && (it = readdir(dir));) {
        if (streq(it->d_name, ".") || streq(it->d_name, ".."))
            continue;
        buf_printf(&s->path, "%s%s", len ? "/" : "", it->d_name);
        if (ignored(s, it->d_name))
            s->stats.skipped++;
        else
            result = copy_entry(s, from, to, it->d_name, depth);
        s->path.len = len;
        s->path.data[len] = '\0';
    }
    closedir(dir);
    return result;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)st;
    (void)type;
    (void)where;
    return remove(path);
}

int snapshot_take(const char *from, const char *to, struct snapshot_stats *ret, struct err *err)
{
    struct snapshot s = {.err = err};
    CLEANUP(fd_close) int in = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(fd_close) int out = -1;
    int result;

    if (in < 0)
        return err_errno(err, errno, "cannot open the folder %s", from);
    if (dir_make(to, 0700, err) < 0)
        return -1;
    out = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (out < 0)
        return err_errno(err, errno, "cannot open %s", to);
    if (fstatat(out, "..", &s.store, 0) < 0)
        return err_errno(err, errno, "look at the folder of %s", to);
    result = read_ignore(&s, from);
    if (result == 0)
        result = copy_folder(&s, in, out, 0);
    if (result < 0)
        nftw(to, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    *ret = s.stats;
    vec_done(&s.patterns);
    buf_done(&s.ignore_text);
    buf_done(&s.path);
    return result;
}
