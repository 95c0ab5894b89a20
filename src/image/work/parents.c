/* parents.c - folders that a layer has files in but does not describe. They are made with plain rights, and
 * overlayfs shows the rights of the topmost layer that has a folder: without more, a layer that only brings
 * tmp/x would take /tmp from everybody but root. So they get owner and mode of the folder that the layers
 * below have there. A layer is shared by images; that their bases differ in this is not known to happen. */
#include "base/file.h"
#include "base/mem.h"
#include "image/work/unpack.h"
#include "image/work/work.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_layer(const struct work *work, const struct image_manifest *manifest, size_t i)
{
    CLEANUP(free) char *fs = record_layer_path(work->dir, manifest->layers[i].digest, "/fs");

    return open(fs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* A folder of the layer; links on the way stay in it, and the last part is none. */
static int open_below(int root, const char *path)
{
    struct open_how how = {
        .flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };

    return (int)syscall(SYS_openat2, root, path, &how, sizeof(how));
}

/* Owner and mode of the nearest folder below layer i; false: none has it, or it is hidden by something else.
 */
static bool find_below(const int *roots, size_t i, const char *path, struct stat *ret)
{
    while (i-- > 0) {
        CLEANUP(fd_close) int fd = open_below(roots[i], path);

        if (fd >= 0)
            return fstat(fd, ret) == 0;
        if (errno != ENOENT)
            return false;
    }
    return false;
}

static int adopt_one(const int *roots, size_t i, const char *path, struct fail *fail)
{
    CLEANUP(fd_close) int fd = open_below(roots[i], path);
    struct stat mine, theirs;

    if (fd < 0 || fstat(fd, &mine) < 0 || !find_below(roots, i, path, &theirs))
        return 0;
    if ((mine.st_uid != theirs.st_uid || mine.st_gid != theirs.st_gid) && geteuid() == 0 &&
        fchown(fd, theirs.st_uid, theirs.st_gid) < 0)
        return err_errno(&fail->err, errno, "set the owner of '%.200s'", path);
    if (((mine.st_mode ^ theirs.st_mode) & 07777) && fchmod(fd, theirs.st_mode & 07777) < 0)
        return err_errno(&fail->err, errno, "set the mode of '%.200s'", path);
    return 0;
}

static int adopt_layer(const struct work *work, const struct image_manifest *manifest, const int *roots,
                       size_t i, struct fail *fail)
{
    CLEANUP(free) char *file = record_layer_path(work->dir, manifest->layers[i].digest, "/implied");
    CLEANUP(buf_done) struct buf paths = {0};

    if (access(file, F_OK) < 0)
        return 0; /* it describes all its folders */
    if (file_read(file, UNPACK_NAMES_MAX, &paths, &fail->err) < 0)
        return -1;
    for (size_t at = 0; at < paths.len; at += strlen(paths.data + at) + 1)
        if (adopt_one(roots, i, paths.data + at, fail) < 0)
            return -1;
    return 0;
}

int parents_adopt(const struct work *work, const struct image_manifest *manifest, struct fail *fail)
{
    CLEANUP(free) int *roots = mem_alloc((manifest->layers_len + 1) * sizeof(*roots));
    size_t opened = 0;
    int result = 0;

    for (; opened < manifest->layers_len && result == 0; opened++) {
        roots[opened] = open_layer(work, manifest, opened);
        if (roots[opened] < 0)
            result = err_errno(&fail->err, errno, "open layer %s", manifest->layers[opened].digest);
        else
            result = adopt_layer(work, manifest, roots, opened, fail);
    }
    while (opened > 0)
        fd_close(roots[--opened]);
    return result;
}
