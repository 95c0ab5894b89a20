/* tree.c - a container can nest folders deeper than we have descriptors. So below DEPTH_MAX a folder is moved
 * up beside the one that is being deleted and has its turn afterwards. */
#include "image/work/tree.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "base/vec.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#define DEPTH_MAX 64

struct removal {
    int top; /* where deep folders are moved to */
    dev_t dev;
    VEC(char *) deep;
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
    char random[17];
    char *to;

    random_hex(random, 8);
    to = mem_printf("deep-%s", random);
    vec_push(&r->deep, to);
    if (renameat(dir, name, r->top, to) < 0)
        return err_errno(err, errno, "move '%s'", name);
    return 0;
}

static int remove_entries(struct removal *r, int fd, int depth, struct err *err)
{
    CLEANUP(dir_close) DIR *list = fdopendir(dup(fd));
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

static int remove_folder(struct removal *r, int dir, const char *name, int depth, struct err *err)
{
    CLEANUP(fd_close) int fd = -1;
    struct stat st;

    if (depth > DEPTH_MAX)
        return move_up(r, dir, name, err);
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return err_errno(err, errno, "open '%s'", name);
    if (st.st_dev != r->dev)
        return err_set(err, ERR_CONFLICT, "'%s' is a mount point", name);
    if (remove_entries(r, fd, depth + 1, err) < 0)
        return -1;
    if (unlinkat(dir, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
        return err_errno(err, errno, "remove '%s'", name);
    return 0;
}

static int remove_one(struct removal *r, int dir, const char *name, int depth, struct err *err)
{
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return err_errno(err, errno, "remove '%s'", name);
    return remove_folder(r, dir, name, depth, err);
}

int tree_remove(int dir, const char *name, struct err *err)
{
    struct removal r = {.top = dir};
    struct stat st;
    int result;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT ? 0 : err_errno(err, errno, "look at '%s'", name);
    r.dev = st.st_dev;
    result = remove_one(&r, dir, name, 0, err);
    while (r.deep.len > 0) {
        char *deep = vec_pop(&r.deep);

        if (result == 0)
            result = remove_one(&r, dir, deep, 0, err);
        free(deep);
    }
    vec_done(&r.deep);
    return result;
}
