/* disk - see disk.h. A tree is walked down by name and up by the descriptors that are kept of the upper
 * levels; below them by "..", which is believed only if it is the folder we came from. */
#include "base/disk.h"

#include "base/cleanup.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/vec.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

int64_t disk_mark(int64_t total_bytes)
{
    int64_t part = total_bytes / 100 * DISK_MARK_PERCENT;

    return part < DISK_MARK_BYTES ? part : DISK_MARK_BYTES;
}

int64_t disk_keep(int64_t total_bytes)
{
    int64_t mark = disk_mark(total_bytes);

    return mark + mark / 4;
}

/* ---- trees ---- */

#define KEPT_MAX   64 /* levels whose descriptors stay open */
#define TREE_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct level {
    int fd; /* -1: closed, below the levels that are kept */
    ino_t ino;
    size_t first; /* of its folders that are still to be visited: names from there to the end */
};

struct tree {
    VEC(struct level) levels;
    VEC(char *) names;
    dev_t dev;
    int64_t bytes;
};

static struct level *deepest(struct tree *tree)
{
    return &tree->levels.v[tree->levels.len - 1];
}

static void pop_level(struct tree *tree)
{
    struct level level = vec_pop(&tree->levels);

    fd_close(level.fd);
    while (tree->names.len > level.first)
        free(vec_pop(&tree->names));
}

static void count_entries(struct tree *tree, DIR *dir)
{
    const struct dirent *entry;
    struct stat st;

    while ((entry = readdir(dir))) {
        if (streq(entry->d_name, ".") || streq(entry->d_name, ".."))
            continue;
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (S_ISDIR(st.st_mode)) /* counted when it is entered */
            vec_push(&tree->names, mem_strdup(entry->d_name));
        else
            tree->bytes += (int64_t)st.st_blocks * 512;
    }
}

/* Counts what is in the folder, which becomes the deepest level. fd is taken over. */
static void enter(struct tree *tree, int fd)
{
    CLEANUP(fd_close) int own = fd;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    DIR *dir = copy < 0 ? NULL : fdopendir(copy);
    struct stat st;

    if (!dir)
        fd_close(copy);
    if (!dir || fstat(fd, &st) < 0 || st.st_dev != tree->dev) {
        if (dir)
            closedir(dir);
        return;
    }
    tree->bytes += (int64_t)st.st_blocks * 512;
    if (tree->levels.len > KEPT_MAX)
        fd_close(take_fd(&deepest(tree)->fd));
    vec_push(&tree->levels, (struct level){take_fd(&own), st.st_ino, tree->names.len});
    count_entries(tree, dir);
    closedir(dir);
}

/* Up to the folder above; where that is another one by now, to the deepest that is kept. */
static void leave(struct tree *tree)
{
    int up = openat(deepest(tree)->fd, "..", TREE_FLAGS);
    struct stat st;

    pop_level(tree);
    if (tree->levels.len > 0 && deepest(tree)->fd < 0 && up >= 0 && fstat(up, &st) == 0 &&
        st.st_dev == tree->dev && st.st_ino == deepest(tree)->ino)
        deepest(tree)->fd = take_fd(&up);
    fd_close(up);
    while (tree->levels.len > 0 && deepest(tree)->fd < 0)
        pop_level(tree);
}

int64_t disk_tree_bytes(const char *path)
{
    int fd = open(path, TREE_FLAGS), next;
    struct tree tree = {0};
    struct stat st;

    if (fd < 0)
        return lstat(path, &st) < 0 ? 0 : (int64_t)st.st_blocks * 512; /* of a file */
    if (fstat(fd, &st) == 0)
        tree.dev = st.st_dev;
    enter(&tree, fd);
    while (tree.levels.len > 0) {
        CLEANUP(free) char *name = NULL;

        if (tree.names.len == deepest(&tree)->first) {
            leave(&tree);
            continue;
        }
        name = vec_pop(&tree.names);
        next = openat(deepest(&tree)->fd, name, TREE_FLAGS);
        if (next >= 0)
            enter(&tree, next);
    }
    vec_done(&tree.names);
    vec_done(&tree.levels);
    return tree.bytes;
}
