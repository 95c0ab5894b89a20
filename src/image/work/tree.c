/* tree.c - a container can nest folders deeper than we have descriptors. So below DEPTH_MAX a folder is moved
 * up into the one that is being deleted and has its turn in the next round. */
#include "image/work/tree.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define DEPTH_MAX 64

struct removal {
    int top; /* the folder that is being deleted */
    bool moved;
};

static void dir_close(DIR *dir)
{
    if (dir)
        closedir(dir);
}
DEFINE_CLEANUP(DIR *, dir_close);

static int remove_one(struct removal *r, int dir, const char *name, int depth, struct err *err);

static int move_up(struct removal *r, int dir, const char *name, struct err *err)
{
    char random[17], to[32];

    random_hex(random, 8);
    snprintf(to, sizeof(to), "deep-%s", random);
    if (renameat(dir, name, r->top, to) < 0)
        return err_errno(err, errno, "move '%s'", name);
    r->moved = true;
    return 0;
}

static int remove_entries(struct removal *r, int fd, int depth, struct err *err)
{
    int again = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* with a position of its own */
    CLEANUP(dir_close) DIR *list = again < 0 ? NULL : fdopendir(again);
    struct dirent *entry;

    if (!list)
        return err_errno(err, errno, "list a folder");
    while ((entry = readdir(list)) != NULL) {
        if (streq(entry->d_name, ".") || streq(entry->d_name, ".."))
            continue;
        if (remove_one(r, fd, entry->d_name, depth, err) < 0)
            return -1;
    }
    return 0;
}

/* A folder that is open for deleting its entries; never one that something is mounted on. */
static int open_folder(int dir, const char *name, struct err *err)
{
    CLEANUP(fd_close) int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct statx st;

    if (fd < 0 || statx(fd, "", AT_EMPTY_PATH, STATX_TYPE, &st) < 0)
        return err_errno(err, errno, "open '%s'", name);
    if (st.stx_attributes & STATX_ATTR_MOUNT_ROOT)
        return err_set(err, ERR_CONFLICT, "'%s' is a mount point", name);
    return take_fd(&fd);
}

static int remove_empty(int dir, const char *name, struct err *err)
{
    if (unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return err_errno(err, errno, "remove '%s'", name);
    return 0;
}

static int remove_folder(struct removal *r, int dir, const char *name, int depth, struct err *err)
{
    CLEANUP(fd_close) int fd = -1;

    if (depth > DEPTH_MAX)
        return move_up(r, dir, name, err);
    fd = open_folder(dir, name, err);
    if (fd < 0 || remove_entries(r, fd, depth + 1, err) < 0)
        return -1;
    return remove_empty(dir, name, err);
}

/* 1: removed. 0: a folder. */
static int remove_file(int dir, const char *name, struct err *err)
{
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 1;
    if (errno != EISDIR && errno != EPERM)
        return err_errno(err, errno, "remove '%s'", name);
    return 0;
}

static int remove_one(struct removal *r, int dir, const char *name, int depth, struct err *err)
{
    int done = remove_file(dir, name, err);

    if (done != 0)
        return done < 0 ? -1 : 0;
    return remove_folder(r, dir, name, depth, err);
}

int tree_remove(int dir, const char *name, struct err *err)
{
    int done = remove_file(dir, name, err);
    CLEANUP(fd_close) int fd = -1;
    struct removal r;

    if (done != 0)
        return done < 0 ? -1 : 0;
    fd = open_folder(dir, name, err);
    if (fd < 0)
        return -1;
    r = (struct removal){.top = fd};
    do {
        r.moved = false;
        if (remove_entries(&r, fd, 0, err) < 0)
            return -1;
    } while (r.moved);
    return remove_empty(dir, name, err);
}
