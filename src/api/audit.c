#define LOG_MODULE "audit"
#include "api/audit.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

struct audit {
    char *path;
    size_t limit;
    unsigned files;
    bool all;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct buf waiting; /* under the lock, as are these */
    size_t lost;
    bool end, reopen;
    int fd; /* the thread's, as are these */
    size_t size;
    _Atomic bool failed; /* said so already */
};

static int open_file(struct audit *audit, struct err *err)
{
    struct stat st;
    int fd = open(audit->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);

    if (fd < 0)
        return err_errno(err, errno, "open the audit log '%s'", audit->path);
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        close(fd);
        return err_set(err, ERR_INVALID, "the audit log '%s' is no file", audit->path);
    }
    audit->fd = fd;
    audit->size = (size_t)st.st_size;
    return 0;
}

/* FILE → FILE.1 → FILE.2 …; the last one goes. */
static void rotate(struct audit *audit)
{
    for (unsigned i = audit->files - 1; i > 0; i--) {
        CLEANUP(free) char *to = mem_printf("%s.%u", audit->path, i);
        CLEANUP(free) char *from = i > 1 ? mem_printf("%s.%u", audit->path, i - 1) : mem_strdup(audit->path);

        (void)rename(from, to);
    }
    if (audit->files == 1)
        (void)unlink(audit->path);
}

static void write_all(struct audit *audit, struct str text)
{
    while (text.len > 0) {
        ssize_t n = write(audit->fd, text.s, text.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            if (!audit->failed)
                log_error("cannot write '%s': %s; entries are lost until it works again", audit->path,
                          strerror(errno));
            audit->failed = true;
            return;
        }
        audit->failed = false;
        audit->size += (size_t)n;
        text = (struct str){text.s + n, text.len - (size_t)n};
    }
}

static void reopen_file(struct audit *audit)
{
    struct err err = {0};

    if (audit->fd >= 0)
        close(audit->fd);
    audit->fd = -1;
    if (open_file(audit, &err) < 0 && !audit->failed) {
        log_error("%s", err.msg);
        audit->failed = true;
    }
}

static void put_lines(struct audit *audit, struct str lines)
{
    struct str line;

    while (lines.len > 0 && str_split(&lines, '\n', &line)) {
        struct str whole = {line.s, line.len + 1}; /* with its end */

        if (audit->fd >= 0 && audit->size > 0 && audit->size + whole.len > audit->limit) {
            rotate(audit);
            reopen_file(audit);
        }
        if (audit->fd < 0)
            reopen_file(audit);
        if (audit->fd >= 0)
            write_all(audit, whole);
    }
}

static void *audit_run(void *arg)
{
    struct audit *audit = arg;
    bool end = false;

    while (!end) {
        struct buf lines;
        bool reopen;

        pthread_mutex_lock(&audit->lock);
        while (!audit->waiting.len && !audit->end && !audit->reopen)
            pthread_cond_wait(&audit->more, &audit->lock);
        if (audit->lost)
            buf_printf(&audit->waiting, "{\"lost\":%zu}\n", audit->lost);
        audit->lost = 0;
        lines = audit->waiting;
        audit->waiting = (struct buf){0};
        end = audit->end;
        reopen = audit->reopen;
        audit->reopen = false;
        pthread_mutex_unlock(&audit->lock);
        if (reopen)
            reopen_file(audit);
        put_lines(audit, buf_view(&lines));
        buf_done(&lines);
    }
    return NULL;
}

static void audit_release(struct audit *audit)
{
    if (audit->fd >= 0)
        close(audit->fd);
    pthread_mutex_destroy(&audit->lock);
    pthread_cond_destroy(&audit->more);
    buf_done(&audit->waiting);
    free(audit->path);
    free(audit);
}

int audit_open(const struct audit_config *config, struct audit **ret, struct err *err)
{
    struct audit *audit = NEW(struct audit);
    sigset_t all, before;
    int failed;

    audit->path = mem_strdup(config->path);
    audit->limit = config->bytes ? config->bytes : AUDIT_BYTES;
    audit->files = config->files ? config->files : AUDIT_FILES;
    audit->all = config->all;
    audit->fd = -1;
    pthread_mutex_init(&audit->lock, NULL);
    pthread_cond_init(&audit->more, NULL);
    if (open_file(audit, err) < 0) {
        audit_release(audit);
        return -1;
    }
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the loop's */
    failed = pthread_create(&audit->thread, NULL, audit_run, audit);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        audit_release(audit);
        return err_errno(err, failed, "start a thread");
    }
    *ret = audit;
    return 0;
}

void audit_free(struct audit *audit)
{
    if (!audit)
        return;
    pthread_mutex_lock(&audit->lock);
    audit->end = true;
    pthread_cond_signal(&audit->more);
    pthread_mutex_unlock(&audit->lock);
    pthread_join(audit->thread, NULL);
    audit_release(audit);
}

bool audit_in_trouble(const struct audit *audit)
{
    return audit->failed;
}

bool audit_wants_all(const struct audit *audit)
{
    return audit->all;
}

void audit_line(struct audit *audit, struct str line)
{
    pthread_mutex_lock(&audit->lock);
    if (audit->waiting.len + line.len >= AUDIT_WAITING_MAX) {
        audit->lost++;
    } else {
        buf_str(&audit->waiting, line);
        buf_putc(&audit->waiting, '\n');
    }
    pthread_cond_signal(&audit->more);
    pthread_mutex_unlock(&audit->lock);
}

void audit_reopen(struct audit *audit)
{
    if (!audit)
        return;
    pthread_mutex_lock(&audit->lock);
    audit->reopen = true;
    pthread_cond_signal(&audit->more);
    pthread_mutex_unlock(&audit->lock);
}
