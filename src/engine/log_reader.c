/* A reader holds one file open and reads it to its end. Which file comes next is asked of the folder then:
 * the file that is open is LOG or LOG.K by now (compared by inode), so the next one is LOG.(K-1). Since the
 * writer may have added to a file between our last read and its renaming, a file that was found renamed is
 * read once more.
 *
 * Work is done in slices from a timer of no delay, so that a large log does not hold up the loop, and never
 * from inside a call. */
#include "engine/log_reader.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/vec.h"
#include "engine/log_tail.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#define READ_SIZE (64 << 10)
#define SLICE     4 /* reads before others get their turn */
#define POLL_NS   (500 * NSEC_PER_MSEC)

struct log_watch {
    struct loop *loop;
    int fd; /* of inotify; -1: none */
    struct loop_io *io;
    struct log_reader *readers; /* the followers */
};

struct log_reader {
    struct log_watch *watch;
    struct log_reader *next, **prev; /* among the watch's; prev NULL: not one of them */
    int wd;                          /* of the folder; -1: none, so it polls */
    char *path;
    const char *base; /* of path */
    struct pod_log_options options;
    struct pod_log_events events;
    void *arg;
    struct loop_timer *timer;
    int fd; /* -1: no file yet */
    struct buf in, out;
    int64_t left; /* of limit_bytes; -1: no limit */
    bool begun;   /* the place to begin was found */
    bool renamed; /* the file that is open is not the current one any more */
    bool mid_line;
    bool skip; /* the rest of an entry that is too long */
    bool finish, paused, ended;
    bool busy, dead; /* inside a callback; freed there */
};

/* ---- the watch ---- */

static void wake(struct log_reader *r, int64_t delay)
{
    if (!r->paused && !r->ended)
        loop_timer_set(r->timer, delay);
}

static void log_reader_on_inotify(void *arg, uint32_t events)
{
    struct log_watch *watch = arg;
    char data[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
    ssize_t len;

    (void)events;
    while ((len = read(watch->fd, data, sizeof(data))) > 0)
        for (char *at = data; at < data + len;) {
            const struct inotify_event *event = (void *)at;

            for (struct log_reader *r = watch->readers; r; r = r->next)
                if ((event->mask & IN_Q_OVERFLOW) ||
                    (r->wd == event->wd && event->len && starts_with(event->name, r->base)))
                    wake(r, 0);
            at += sizeof(*event) + event->len;
        }
}

struct log_watch *log_watch_new(struct loop *loop)
{
    struct log_watch *watch = NEW(struct log_watch);

    watch->loop = loop;
    watch->fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    if (watch->fd >= 0)
        watch->io = loop_io_new(loop, watch->fd, EPOLLIN, log_reader_on_inotify, watch);
    return watch;
}

void log_watch_free(struct log_watch *watch)
{
    if (!watch)
        return;
    loop_io_free(watch->io);
    fd_close(watch->fd);
    free(watch);
}

static void watch_join(struct log_reader *r)
{
    CLEANUP(free) char *copy = mem_strdup(r->path);

    r->next = r->watch->readers;
    r->prev = &r->watch->readers;
    if (r->next)
        r->next->prev = &r->next;
    r->watch->readers = r;
    if (r->watch->fd >= 0)
        r->wd = inotify_add_watch(r->watch->fd, dirname(copy), IN_MODIFY | IN_CREATE | IN_MOVED_TO);
}

static void watch_leave(struct log_reader *r)
{
    if (!r->prev)
        return;
    *r->prev = r->next;
    if (r->next)
        r->next->prev = r->prev;
    r->prev = NULL;
    if (r->wd < 0)
        return;
    for (const struct log_reader *it = r->watch->readers; it; it = it->next)
        if (it->wd == r->wd)
            return; /* the kernel has one per folder */
    inotify_rm_watch(r->watch->fd, r->wd);
}

/* ---- files ---- */

/* LOG for 0, else LOG.K. */
static char *file_name(const struct log_reader *r, int k)
{
    return k == 0 ? mem_strdup(r->path) : mem_printf("%s.%d", r->path, k);
}

static int open_file(const struct log_reader *r, int k)
{
    CLEANUP(free) char *name = file_name(r, k);

    return open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

static bool same_file(int fd, int other)
{
    struct stat a, b;

    return fd >= 0 && other >= 0 && fstat(fd, &a) == 0 && fstat(other, &b) == 0 && a.st_ino == b.st_ino &&
           a.st_dev == b.st_dev;
}

/* Which K the open file has by now: -1 none (it was deleted). *ret_oldest: the largest K there is. */
static int place_of(const struct log_reader *r, int *ret_oldest)
{
    int place = -1;

    *ret_oldest = -1;
    for (int k = 0; k <= LOG_FILES_MAX; k++) {
        CLEANUP(fd_close) int fd = open_file(r, k);

        if (fd < 0 && k > 0)
            break;
        if (fd >= 0)
            *ret_oldest = k;
        if (place < 0 && same_file(r->fd, fd))
            place = k;
    }
    return place;
}

static void use_file(struct log_reader *r, int fd)
{
    fd_close(r->fd);
    r->fd = fd;
    r->renamed = false;
    buf_clear(&r->in); /* entries are not split between files */
    r->skip = false;
}

/* The file after the one that is open. False: there is none (yet). */
static bool next_file(struct log_reader *r)
{
    for (int tries = 0; tries < LOG_FILES_MAX; tries++) {
        int oldest, place = place_of(r, &oldest), wanted = place > 0 ? place - 1 : oldest;
        CLEANUP(fd_close) int fd = -1;

        if (place == 0 || wanted < 0)
            return false;
        fd = open_file(r, wanted);
        if (fd < 0)
            return false; /* LOG between renaming and making anew */
        if (same_file(fd, r->fd) || place_of(r, &oldest) != place)
            continue; /* renamed meanwhile */
        use_file(r, take_fd(&fd));
        return true;
    }
    return false;
}

/* The oldest file, or the one in which the lines asked for begin. From the newest to the oldest; a file that
 * is renamed meanwhile comes twice. */
static void find_begin(struct log_reader *r)
{
    struct log_tail tail = {.left = r->options.tail};
    bool tailing = r->options.tail >= 0;

    for (int k = 0; k <= LOG_FILES_MAX && !tail.done; k++) {
        int fd = open_file(r, k);

        if (fd < 0 && k > 0)
            break;
        if (fd < 0)
            continue;
        if (same_file(fd, r->fd)) {
            fd_close(fd);
            continue;
        }
        if (tailing && lseek(fd, log_tail_find(&tail, fd), SEEK_SET) < 0) {
            fd_close(fd); /* no file that can be read twice */
            continue;
        }
        use_file(r, fd);
    }
    r->begun = r->fd >= 0;
}

/* ---- entries ---- */

static bool wanted(const struct log_reader *r, const struct log_entry *entry)
{
    int64_t time;

    if (r->options.since == INT64_MIN)
        return true;
    return clock_parse((struct str){entry->time, entry->time_len}, &time) && time >= r->options.since;
}

static void add(struct log_reader *r, const char *data, size_t len)
{
    if (r->left >= 0 && (int64_t)len > r->left)
        len = (size_t)r->left;
    buf_add(&r->out, data, len);
    if (r->left >= 0)
        r->left -= (int64_t)len;
}

static void take_entry(struct log_reader *r, const char *line, size_t len)
{
    struct log_entry entry;

    if (!log_entry_parse(line, len, &entry) || !wanted(r, &entry))
        return;
    if (r->options.timestamps && !r->mid_line) {
        add(r, entry.time, entry.time_len);
        add(r, " ", 1);
    }
    add(r, entry.text, entry.text_len);
    r->mid_line = entry.tag == 'P';
    if (!r->mid_line)
        add(r, "\n", 1);
}

/* The complete entries of what was read. */
static void take_entries(struct log_reader *r)
{
    const char *at = r->in.data, *end = at + r->in.len, *newline;

    while (at < end && r->left != 0 && (newline = memchr(at, '\n', (size_t)(end - at)))) {
        if (!r->skip)
            take_entry(r, at, (size_t)(newline - at));
        r->skip = false;
        at = newline + 1;
    }
    buf_drop(&r->in, (size_t)(at - r->in.data));
    if (r->in.len > LOG_ENTRY_MAX) {
        buf_clear(&r->in);
        r->skip = true;
    }
}

/* ---- working ---- */

static void free_now(struct log_reader *r)
{
    watch_leave(r);
    loop_timer_free(r->timer);
    fd_close(r->fd);
    buf_done(&r->in);
    buf_done(&r->out);
    free(r->path);
    free(r);
}

/* False: the reader was freed by the one who was told. */
static bool give(struct log_reader *r)
{
    if (r->out.len == 0)
        return true;
    r->busy = true;
    r->events.data(r->arg, buf_view(&r->out));
    r->busy = false;
    buf_clear(&r->out);
    if (r->dead)
        free_now(r);
    else
        return true;
    return false;
}

static void end(struct log_reader *r, const struct err *err)
{
    r->ended = true;
    watch_leave(r);
    loop_timer_stop(r->timer);
    r->events.end(r->arg, err);
}

/* 1: there may be more at once, 0: all was read that is there, -1: it cannot be read. */
static int read_some(struct log_reader *r)
{
    ssize_t len;

    if (!r->begun)
        find_begin(r);
    if (r->fd < 0)
        return 0;
    len = read(r->fd, buf_reserve(&r->in, READ_SIZE), READ_SIZE);
    if (len < 0)
        return errno == EINTR ? 1 : -1;
    if (len > 0) {
        r->in.len += (size_t)len;
        take_entries(r);
        return 1;
    }
    if (r->renamed)
        return next_file(r);
    r->renamed = place_of(r, &(int){0}) != 0;
    return r->renamed;
}

static void log_reader_on_timer(void *arg)
{
    struct log_reader *r = arg;
    bool finish = r->finish;
    struct err err = {0};
    int more = 1;

    for (int i = 0; i < SLICE && more > 0 && r->left != 0; i++)
        more = read_some(r);
    if (more < 0)
        err_errno(&err, errno, "read '%s'", r->path);
    if (!give(r))
        return;
    if (more < 0)
        end(r, &err);
    else if (r->left == 0 || (more == 0 && (!r->options.follow || finish)))
        end(r, NULL);
    else if (more > 0)
        wake(r, 0);
    else if (r->wd < 0)
        wake(r, POLL_NS);
}

struct log_reader *log_reader_new(struct log_watch *watch, const char *path,
                                  const struct pod_log_options *options, const struct pod_log_events *events,
                                  void *arg)
{
    struct log_reader *r = NEW(struct log_reader);
    const char *slash;

    r->watch = watch;
    r->path = mem_strdup(path);
    slash = strrchr(r->path, '/');
    r->base = slash ? slash + 1 : r->path;
    r->options = *options;
    r->events = *events;
    r->arg = arg;
    r->left = options->limit_bytes;
    r->fd = r->wd = -1;
    r->timer = loop_timer_new(watch->loop, log_reader_on_timer, r);
    if (options->follow)
        watch_join(r);
    wake(r, 0);
    return r;
}

void log_reader_finish(struct log_reader *r)
{
    r->finish = true;
    wake(r, 0);
}

void log_reader_pause(struct log_reader *r, bool pause)
{
    if (r->paused == pause)
        return;
    r->paused = pause;
    if (pause)
        loop_timer_stop(r->timer);
    else
        wake(r, 0);
}

void log_reader_free(struct log_reader *r)
{
    if (r && r->busy)
        r->dead = true;
    else if (r)
        free_now(r);
}
