#include "daemon/reserve.h"

#include "base/clock.h"
#include "base/mem.h"
#include "loop/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define FILE_NAME "reserve"
#define TRY_NAME  "reserve.try"
#define LOOK_SEC  60

struct reserve {
    struct loop_timer *timer;
    char *data_dir, *path;
};

/* Bytes that everybody may still write; -1: not known. */
static int64_t free_bytes(const char *dir)
{
    struct statvfs fs;

    return statvfs(dir, &fs) < 0 ? -1 : (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
}

/* Tried, since what a file system says is free is not always free for us. */
static bool has_room(const char *data_dir)
{
    CLEANUP(free) char *path = mem_printf("%s/" TRY_NAME, data_dir);
    CLEANUP(fd_close) int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    bool full = fd < 0 ? errno == ENOSPC || errno == EDQUOT
                       : fallocate(fd, 0, 0, RESERVE_NEED) < 0 && (errno == ENOSPC || errno == EDQUOT);

    if (fd >= 0)
        unlink(path);
    return !full;
}

bool reserve_room(const char *data_dir, char text[ERR_MSG_MAX])
{
    CLEANUP(free) char *path = mem_printf("%s/" FILE_NAME, data_dir);

    if (has_room(data_dir) || (unlink(path) == 0 && has_room(data_dir)))
        return true;
    (void)snprintf(text, ERR_MSG_MAX, "the disk of '%s' is full: waiting until %d KiB are free to start",
                   data_dir, RESERVE_NEED >> 10);
    return false;
}

/* Without a file system that can set blocks aside at once there is none. */
static void make(const struct reserve *reserve)
{
    CLEANUP(fd_close) int fd = -1;

    if (access(reserve->path, F_OK) == 0 ||
        free_bytes(reserve->data_dir) < (int64_t)RESERVE_TIMES * RESERVE_BYTES)
        return;
    fd = open(reserve->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && fallocate(fd, 0, 0, RESERVE_BYTES) < 0)
        unlink(reserve->path);
}

static void reserve_on_timer(void *arg)
{
    struct reserve *reserve = arg;

    make(reserve);
    loop_timer_set(reserve->timer, LOOK_SEC * NSEC_PER_SEC);
}

struct reserve *reserve_new(struct loop *loop, const char *data_dir)
{
    struct reserve *reserve = NEW(struct reserve);

    reserve->data_dir = mem_strdup(data_dir);
    reserve->path = mem_printf("%s/" FILE_NAME, data_dir);
    reserve->timer = loop_timer_new(loop, reserve_on_timer, reserve);
    loop_timer_set(reserve->timer, NSEC_PER_SEC);
    return reserve;
}

void reserve_free(struct reserve *reserve)
{
    if (!reserve)
        return;
    loop_timer_free(reserve->timer);
    free(reserve->data_dir);
    free(reserve->path);
    free(reserve);
}
