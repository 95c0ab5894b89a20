/* preload - stands between berthd and the kernel (LD_PRELOAD), for tests of faults.
 *
 * TORTURE_CONTROL is a file of struct control: syncs that are slow or fail, and a clock that is wrong.
 * TORTURE_RECORD is a file to which every change of the database's files is appended, in the order in which
 * the process makes them: struct entry, then `len` bytes. powerloss.py reads it. What the driver appends
 * itself (OP_NOTE) stands after everything that came before it.
 *
 * Children do not get it: the variable is taken away at once. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

struct control {
    int32_t sync_ms;      /* how long a sync takes longer */
    int32_t sync_fails;   /* how many of the next ones fail with EIO */
    int64_t clock_offset; /* nanoseconds */
};

enum { OP_WRITE = 1, OP_TRUNCATE, OP_SYNC, OP_UNLINK, OP_NOTE };
struct entry {
    uint32_t op, len;
    uint64_t file; /* which: the number of its inode */
    int64_t at;    /* offset, or the new length */
    char name[64]; /* the last part of its path */
};

static struct control *control;
static int record = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("TORTURE_CONTROL"), *to = getenv("TORTURE_RECORD");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;

    if (fd >= 0) {
        control = mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (control == MAP_FAILED)
            control = NULL;
        close(fd);
    }
    if (to) {
        fd = open(to, O_WRONLY | O_APPEND | O_CLOEXEC);
        record = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 500);
        if (fd >= 0)
            close(fd);
    }
    unsetenv("LD_PRELOAD");
}

/* The name of one of the database's files; NULL: another one. */
static const char *database_name(const char *path)
{
    const char *name = strrchr(path, '/');

    name = name ? name + 1 : path;
    return strncmp(name, "berth.db", 8) == 0 && strlen(name) < 60 ? name : NULL;
}

static const char *name_of(int fd, char *buf, size_t size, struct stat *st)
{
    char link[40];
    ssize_t len;

    if (record < 0 || fd < 0 || fd == record)
        return NULL;
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    len = readlink(link, buf, size - 1);
    if (len <= 0 || stat(link, st) < 0)
        return NULL;
    buf[len] = '\0';
    return database_name(buf);
}

static void note(uint32_t op, const char *name, uint64_t file, int64_t at, const void *data, size_t len)
{
    struct entry entry = {.op = op, .len = (uint32_t)len, .file = file, .at = at};
    struct iovec iov[2] = {{&entry, sizeof(entry)}, {(void *)(uintptr_t)data, len}};
    int saved = errno;

    strncpy(entry.name, name, sizeof(entry.name) - 1);
    if (writev(record, iov, 2) < 0)
        abort();
    errno = saved;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

/* A change and its record are one: what is recorded before something else happened before it. */
static ssize_t written(int fd, const void *data, size_t len, off_t at,
                       ssize_t (*fn)(int, const void *, size_t, off_t))
{
    char path[4096];
    struct stat st;
    const char *name = name_of(fd, path, sizeof(path), &st);
    ssize_t n;

    if (!name)
        return fn(fd, data, len, at);
    pthread_mutex_lock(&lock);
    n = fn(fd, data, len, at);
    if (n > 0)
        note(OP_WRITE, name, st.st_ino, at, data, (size_t)n);
    pthread_mutex_unlock(&lock);
    return n;
}

ssize_t pwrite(int fd, const void *data, size_t len, off_t at)
{
    return written(fd, data, len, at, REAL(pwrite));
}

ssize_t pwrite64(int fd, const void *data, size_t len, off_t at)
{
    return written(fd, data, len, at, REAL(pwrite));
}

static int cut(int fd, off_t len)
{
    char path[4096];
    struct stat st;
    const char *name = name_of(fd, path, sizeof(path), &st);
    int result;

    pthread_mutex_lock(&lock);
    result = REAL(ftruncate)(fd, len);
    if (name && result == 0)
        note(OP_TRUNCATE, name, st.st_ino, len, "", 0);
    pthread_mutex_unlock(&lock);
    return result;
}

int ftruncate(int fd, off_t len)
{
    return cut(fd, len);
}

int ftruncate64(int fd, off_t len)
{
    return cut(fd, len);
}

static int synced(int fd, int (*fn)(int))
{
    char path[4096];
    struct stat st;
    const char *name = name_of(fd, path, sizeof(path), &st);
    int result;

    if (control && control->sync_ms > 0)
        usleep((useconds_t)control->sync_ms * 1000);
    if (control && control->sync_fails > 0) {
        __atomic_fetch_sub(&control->sync_fails, 1, __ATOMIC_RELAXED);
        errno = EIO;
        return -1;
    }
    result = fn(fd);
    if (name && result == 0)
        note(OP_SYNC, name, st.st_ino, 0, "", 0);
    return result;
}

int fsync(int fd)
{
    return synced(fd, REAL(fsync));
}

int fdatasync(int fd)
{
    return synced(fd, REAL(fdatasync));
}

int unlink(const char *path)
{
    const char *name = record >= 0 ? database_name(path) : NULL;
    int result = REAL(unlink)(path);

    if (name && result == 0)
        note(OP_UNLINK, name, 0, 0, "", 0);
    return result;
}

int clock_gettime(clockid_t id, struct timespec *ret)
{
    int result = REAL(clock_gettime)(id, ret);
    int64_t now;

    if (result == 0 && id == CLOCK_REALTIME && control && control->clock_offset) {
        now = (int64_t)ret->tv_sec * 1000000000 + ret->tv_nsec + control->clock_offset;
        ret->tv_sec = now / 1000000000;
        ret->tv_nsec = now % 1000000000;
    }
    return result;
}
