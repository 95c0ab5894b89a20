/* file.c - whole-file helpers and random bytes. */
#include "base/file.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/random.h>

#define READ_STEP ((size_t)64 << 10)

static int read_fd(int fd, const char *path, size_t max, struct buf *ret, struct err *err)
{
    CLEANUP(buf_done) struct buf buf = {0};
    struct stat st;
    ssize_t n;

    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        if ((uintmax_t)st.st_size > max)
            return err_set(err, ERR_LIMIT, "'%s' is larger than %zu bytes", path, max);
        buf_reserve(&buf, (size_t)st.st_size + 1);
    }
    for (;;) {
        if (buf.cap - buf.len < 2)
            buf_reserve(&buf, READ_STEP);
        n = read(fd, buf.data + buf.len, buf.cap - buf.len - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, errno, "read '%s'", path);
        if (n == 0)
            break;
        buf.len += (size_t)n;
        if (buf.len > max)
            return err_set(err, ERR_LIMIT, "'%s' is larger than %zu bytes", path, max);
    }
    buf.data[buf.len] = '\0';
    buf_done(ret);
    *ret = buf;
    buf = (struct buf){0};
    return 0;
}

int file_read(const char *path, size_t max, struct buf *ret, struct err *err)
{
    CLEANUP(fd_close) int fd = -1;

    if (streq(path, "-"))
        return read_fd(STDIN_FILENO, "standard input", max, ret, err);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(err, errno, "open '%s'", path);
    return read_fd(fd, path, max, ret, err);
}

static int write_all(int fd, struct str data)
{
    while (data.len) {
        ssize_t n = write(fd, data.s, data.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        data = (struct str){data.s + n, data.len - (size_t)n};
    }
    return 0;
}

static char *dir_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return mem_strdup(".");
    return mem_strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

static int sync_dir(const char *path, struct err *err)
{
    CLEANUP(free) char *dir = dir_of(path);
    CLEANUP(fd_close) int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    /* EINVAL: a file system that cannot sync folders; there is nothing more to do. */
    if (fd < 0 || (fsync(fd) < 0 && errno != EINVAL))
        return err_errno(err, errno, "sync folder '%s'", dir);
    return 0;
}

static int write_temp(int fd, const char *temp, struct str data, mode_t mode, struct err *err)
{
    if (write_all(fd, data) < 0)
        return err_errno(err, errno, "write '%s'", temp);
    if (fchmod(fd, mode) < 0) /* past the umask */
        return err_errno(err, errno, "set mode of '%s'", temp);
    if (fsync(fd) < 0)
        return err_errno(err, errno, "sync '%s'", temp);
    return 0;
}

static int write_anew(const char *path, struct str data, mode_t mode, struct err *err)
{
    CLEANUP(free) char *temp = NULL;
    CLEANUP(fd_close) int fd = -1;
    char random[17];

    random_hex(random, 8);
    temp = mem_printf("%s.%s.tmp", path, random);
    fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode & 0600);
    if (fd < 0)
        return err_errno(err, errno, "create '%s'", temp);
    if (write_temp(fd, temp, data, mode, err) < 0) {
        unlink(temp);
        return -1;
    }
    if (rename(temp, path) < 0) {
        int sys = errno;

        unlink(temp);
        return err_errno(err, sys, "rename '%s' to '%s'", temp, path);
    }
    return sync_dir(path, err);
}

/* Into what is there: renaming over it would take a device or a pipe away from everybody who uses it. */
static int write_into(const char *path, int flags, struct str data, struct err *err)
{
    CLEANUP(fd_close) int fd = open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC | flags);

    if (fd < 0)
        return err_errno(err, errno, "open '%s'", path);
    return write_all(fd, data) < 0 ? err_errno(err, errno, "write '%s'", path) : 0;
}

/* A name of a descriptor that this process has: there is nothing to be replaced. */
static bool names_descriptor(const char *path)
{
    return starts_with(path, "/proc/self/fd/") || starts_with(path, "/dev/fd/");
}

/* What the link at path names, as a path that can be opened from here; NULL: not readable. */
static char *link_target(const char *path)
{
    CLEANUP(free) char *dir = dir_of(path);
    char text[PATH_MAX];
    ssize_t len = readlink(path, text, sizeof(text));

    if (len < 0 || (size_t)len == sizeof(text))
        return NULL;
    return text[0] == '/' ? mem_strndup(text, (size_t)len) : mem_printf("%s/%.*s", dir, (int)len, text);
}

/* Whoever can put a link into a folder that root writes to must not decide what root overwrites. */
static int follow(const char *path, const struct stat *link, struct stat *ret, char **target, struct err *err)
{
    if (link->st_uid != 0 && link->st_uid != geteuid())
        return err_set(err, ERR_FORBIDDEN, "'%s' is a symbolic link of user %u: it is not followed", path,
                       (unsigned)link->st_uid);
    *target = link_target(path);
    if (!*target)
        return err_errno(err, errno, "read the link '%s'", path);
    if (names_descriptor(*target))
        return 0;
    if (lstat(*target, ret) < 0) {
        ret->st_mode = S_IFREG;
        return errno == ENOENT ? 0 : err_errno(err, errno, "'%s'", *target);
    }
    if (S_ISLNK(ret->st_mode))
        return err_set(err, ERR_INVALID, "'%s' is a link to '%s', which is a link as well", path, *target);
    return 0;
}

int file_write_atomic(const char *path, struct str data, mode_t mode, struct err *err)
{
    CLEANUP(free) char *target = NULL;
    struct stat st;

    if (names_descriptor(path))
        return write_into(path, O_TRUNC, data, err);
    if (lstat(path, &st) < 0)
        return errno == ENOENT ? write_anew(path, data, mode, err) : err_errno(err, errno, "'%s'", path);
    if (S_ISLNK(st.st_mode)) {
        if (follow(path, &st, &st, &target, err) < 0)
            return -1;
        if (names_descriptor(target))
            return write_into(target, O_TRUNC, data, err);
        path = target;
    }
    if (S_ISREG(st.st_mode))
        return write_anew(path, data, mode, err);
    return write_into(path, O_NOFOLLOW, data, err);
}

static int make_one(const char *path, mode_t mode, struct err *err)
{
    struct stat st;

    if (mkdir(path, mode) == 0)
        return 0;
    if (errno == EEXIST && stat(path, &st) == 0) {
        if (S_ISDIR(st.st_mode))
            return 0;
        return err_errno(err, ENOTDIR, "make folder '%s'", path);
    }
    return err_errno(err, errno, "make folder '%s'", path);
}

int dir_make(const char *path, mode_t mode, struct err *err)
{
    CLEANUP(free) char *part = mem_strdup(path);
    struct stat st;

    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return 0;
    for (char *at = part; *at; at++) {
        if (*at != '/' || at == part)
            continue;
        *at = '\0';
        if ((stat(part, &st) < 0 || !S_ISDIR(st.st_mode)) && make_one(part, mode, err) < 0)
            return -1;
        *at = '/';
    }
    return make_one(path, mode, err);
}

static uint64_t random_seed; /* 0: the kernel's bytes; else the state of a splitmix64 generator */

void random_use(uint64_t seed)
{
    random_seed = seed;
}

static void repeatable_bytes(unsigned char *ret, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        uint64_t z = random_seed += UINT64_C(0x9e3779b97f4a7c15);

        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        ret[i] = (unsigned char)(z >> 56);
    }
}

void random_bytes(void *ret, size_t len)
{
    char *at = ret;

    if (random_seed) {
        repeatable_bytes(ret, len);
        return;
    }
    while (len) {
        ssize_t n = getrandom(at, len, 0);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            abort(); /* every kernel we run on has it */
        at += n;
        len -= (size_t)n;
    }
}

static void write_hex(char *ret, const unsigned char *bytes, size_t len)
{
    static const char hex[] = "0123456789abcdef";

    for (size_t i = 0; i < len; i++) {
        *ret++ = hex[bytes[i] >> 4];
        *ret++ = hex[bytes[i] & 15];
    }
    *ret = '\0';
}

void random_hex(char *ret, size_t len)
{
    unsigned char bytes[64];

    ret[0] = '\0';
    while (len) {
        size_t n = len < sizeof(bytes) ? len : sizeof(bytes);

        random_bytes(bytes, n);
        write_hex(ret, bytes, n);
        ret += 2 * n;
        len -= n;
    }
}

void random_uuid(char ret[37])
{
    static const unsigned char parts[] = {4, 2, 2, 2, 6};
    unsigned char bytes[16];
    const unsigned char *from = bytes;

    random_bytes(bytes, sizeof(bytes));
    bytes[6] = (unsigned char)((bytes[6] & 0x0f) | 0x40);
    bytes[8] = (unsigned char)((bytes[8] & 0x3f) | 0x80);
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        write_hex(ret, from, parts[i]);
        from += parts[i];
        ret += 2 * (size_t)parts[i];
        *ret++ = '-';
    }
    ret[-1] = '\0';
}
