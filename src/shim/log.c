/* The container's log in Kubernetes' CRI format. Each read of output becomes whole entries: lines as F, what
 * has no newline yet as P. So nothing waits in memory, and the file says exactly what came, and when.
 *
 * Entries gather in `out` and go to the file together. A write that fails or is cut short is taken back
 * (ftruncate), so that entries stay whole; its bytes of output are counted, and the count is told in the log
 * with the first entry that can be written again. The container is never held up by a full disk. */
#include "shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define STAMP_LEN 30 /* 2026-01-02T03:04:05.123456789Z */
#define HEAD_MAX  64 /* of an entry: time, stream, tag, spaces, newline */

static void put_digits(char *at, int width, int64_t n)
{
    for (int i = width - 1; i >= 0; i--, n /= 10)
        at[i] = (char)('0' + n % 10);
}

/* Days since 1970 to year, month, day; gmtime would look for a time zone. (Hinnant's civil_from_days.) */
static void put_date(char *at, int64_t days)
{
    int64_t z = days + 719468, era = z / 146097, doe = z - era * 146097;
    int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
    int64_t month = mp < 10 ? mp + 3 : mp - 9;

    put_digits(at, 4, yoe + era * 400 + (month <= 2));
    at[4] = '-';
    put_digits(at + 5, 2, month);
    at[7] = '-';
    put_digits(at + 8, 2, doy - (153 * mp + 2) / 5 + 1);
}

static void put_stamp(struct shim_log *log, char *at, int64_t now)
{
    int64_t second = now / 1000000000;

    if (second != log->second) {
        char *p = log->prefix;
        int64_t rest = second % 86400;

        put_date(p, second / 86400);
        p[10] = 'T';
        put_digits(p + 11, 2, rest / 3600);
        p[13] = ':';
        put_digits(p + 14, 2, rest / 60 % 60);
        p[16] = ':';
        put_digits(p + 17, 2, rest % 60);
        p[19] = '.';
        log->second = second;
    }
    memcpy(at, log->prefix, 20);
    put_digits(at + 20, 9, now % 1000000000);
    at[29] = 'Z';
}

/* Containers that say nothing have none. */
static bool make_folders(const char *path)
{
    char text[4096];
    int n = snprintf(text, sizeof(text), "%s", path);
    char *slash = n > 0 && (size_t)n < sizeof(text) ? strrchr(text, '/') : NULL;

    if (!slash || slash == text)
        return false;
    *slash = '\0';
    if (mkdir(text, 0700) == 0 || errno == EEXIST)
        return true;
    return errno == ENOENT && make_folders(text) && mkdir(text, 0700) == 0;
}

static int open_file(struct shim_log *log)
{
    const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW;
    struct stat st;

    log->fd = open(log->path, flags, 0640);
    if (log->fd < 0 && errno == ENOENT && make_folders(log->path))
        log->fd = open(log->path, flags, 0640);
    if (log->fd < 0) {
        log->errnum = errno;
        return -1;
    }
    log->size = fstat(log->fd, &st) == 0 ? st.st_size : 0;
    return 0;
}

void log_open(struct shim_log *log, const char *path, int64_t max, unsigned files)
{
    memset(log, 0, offsetof(struct shim_log, out));
    log->fd = -1;
    log->path = path;
    log->max = max;
    log->files = files ? files : 2;
    log->second = -1;
}

static void forget(struct shim_log *log, int errnum)
{
    log->dropped += (int64_t)log->payload;
    log->missing += (int64_t)log->payload;
    log->errnum = errnum;
    log->len = log->payload = 0;
}

/* Writes what is gathered; false when it could not be and is forgotten. */
static bool flush(struct shim_log *log)
{
    if (log->len == 0)
        return true;
    if (log->fd < 0 && open_file(log) < 0) {
        forget(log, log->errnum);
        return false;
    }
    errno = ENOSPC; /* a short write has no errno */
    if (!write_all(log->fd, log->out, log->len)) {
        int sys = errno;

        /* Where even that fails the torn entry stays; readers skip what is no entry. */
        if (ftruncate(log->fd, log->size) < 0)
            sys = errno;
        forget(log, sys);
        return false;
    }
    log->size += (int64_t)log->len;
    log->len = log->payload = 0;
    return true;
}

/* log.N-1 goes, …, log.1 becomes log.2, log becomes log.1. With one file only, that one is begun anew. */
static void rotate(struct shim_log *log)
{
    char from[4096], to[4096];

    for (unsigned n = log->files - 1; n > 0; n--) {
        snprintf(to, sizeof(to), "%s.%u", log->path, n);
        if (n > 1)
            snprintf(from, sizeof(from), "%s.%u", log->path, n - 1);
        if (rename(n > 1 ? from : log->path, to) < 0 && n == 1)
            return; /* go on with the file that is there rather than lose it */
    }
    if (log->files == 1 && unlink(log->path) < 0)
        return;
    close(log->fd);
    log->fd = -1;
    log->size = 0;
    open_file(log);
}

static void add_entry(struct shim_log *log, const char *stream, char tag, const char *data, size_t len,
                      size_t payload, int64_t now)
{
    size_t total = STAMP_LEN + 1 + 6 + 3 + len + 1;
    char *at;

    if (log->max > 0 && log->size + (int64_t)(log->len + total) > log->max &&
        log->size + (int64_t)log->len > 0 && flush(log))
        rotate(log);
    if (log->len + total > sizeof(log->out))
        flush(log);
    at = log->out + log->len;
    put_stamp(log, at, now);
    at[30] = ' ';
    memcpy(at + 31, stream, 6);
    at[37] = ' ';
    at[38] = tag;
    at[39] = ' ';
    memcpy(at + 40, data, len);
    at[40 + len] = '\n';
    log->len += total;
    log->payload += payload;
}

/* Tells how much is missing, as soon as a line can be written. */
static bool catch_up(struct shim_log *log, int64_t now)
{
    char text[HEAD_MAX + 128];
    int n;

    if (log->missing == 0)
        return true;
    n = snprintf(text, sizeof(text), "berth: %lld bytes of output dropped: %s", (long long)log->missing,
                 strerrordesc_np(log->errnum));
    add_entry(log, "stderr", 'F', text, (size_t)n, 0, now);
    if (!flush(log))
        return false;
    log->missing = 0;
    return true;
}

void log_add(struct shim_log *log, const char *stream, const char *data, size_t len, int64_t now)
{
    if (!log->path)
        return;
    if (!catch_up(log, now)) {
        log->dropped += (int64_t)len;
        log->missing += (int64_t)len;
        return;
    }
    while (len > 0) {
        const char *end = memchr(data, '\n', len);
        size_t n = end ? (size_t)(end - data) : len, taken = n + (end != NULL);

        add_entry(log, stream, end ? 'F' : 'P', data, n, taken, now);
        data += taken;
        len -= taken;
    }
    flush(log);
}

void log_close(struct shim_log *log)
{
    if (log->path)
        catch_up(log, now_real());
    if (log->fd >= 0)
        close(log->fd);
    log->fd = -1;
}
