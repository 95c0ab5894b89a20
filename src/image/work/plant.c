/* plant.c - a layer's entries on disk. Each is made through a descriptor of its folder, which openat2 finds
 * with the layer's folder as the root, so that neither links nor ".." in them lead out. A later entry of the
 * same name takes the place of an earlier one, as with tar. */
#include "image/work/plant.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "image/work/tree.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#define SPACE_EVERY_BYTES (INT64_C(32) << 20)
#define SPACE_EVERY_FILES 4096
#define PROGRESS_EVERY    (100 * NSEC_PER_MSEC)
#define XATTR_MAX         65536

struct folder_time {
    char *path;
    struct timespec times[2];
};

struct plant {
    int root;
    const struct unpack_options *options;
    struct unpack_counts counts;
    int64_t bytes_at_check;
    int64_t next_progress;
    bool owners; /* we may give files away */
    int parent;  /* folder of the last entry, and its path: most entries are neighbours */
    char *parent_path;
    VEC(struct folder_time) folders;
    VEC(char *) implied; /* paths of folders that were made because something lies in them */
    size_t names_bytes;  /* of both */
};

struct plant *plant_new(int root, const struct unpack_options *options)
{
    struct plant *plant = NEW(struct plant);

    plant->root = root;
    plant->options = options;
    plant->owners = geteuid() == 0;
    plant->parent = -1;
    return plant;
}

static void forget_parent(struct plant *plant)
{
    fd_close(take_fd(&plant->parent));
    free(TAKE_PTR(plant->parent_path));
}

void plant_free(struct plant *plant)
{
    if (!plant)
        return;
    forget_parent(plant);
    VEC_EACH(&plant->folders, it)
        free(it->path);
    vec_done(&plant->folders);
    VEC_EACH(&plant->implied, it)
        free(*it);
    vec_done(&plant->implied);
    free(plant);
}

/* ---- limits and progress ---- */

static int check_space(struct plant *plant, struct fail *fail)
{
    struct statvfs fs;

    plant->bytes_at_check = plant->counts.bytes;
    if (fstatvfs(plant->root, &fs) < 0)
        return err_errno(&fail->err, errno, "ask for disk space");
    if ((int64_t)(fs.f_bavail * fs.f_frsize) < plant->options->reserve_bytes)
        return fail_set(fail, IMAGE_FAIL_NO_SPACE, "the disk is too full to unpack the image");
    return 0;
}

int plant_count(struct plant *plant, struct fail *fail)
{
    if (++plant->counts.files > plant->options->files_max)
        return fail_set(fail, IMAGE_FAIL_LIMIT, "a layer has more than %lld files",
                        (long long)plant->options->files_max);
    return plant->counts.files % SPACE_EVERY_FILES == 1 ? check_space(plant, fail) : 0;
}

void plant_progress(struct plant *plant, int64_t consumed)
{
    int64_t now;

    if (!plant->options->progress)
        return;
    now = clock_monotonic();
    if (now < plant->next_progress)
        return;
    plant->next_progress = now + PROGRESS_EVERY;
    plant->options->progress(plant->options->arg, consumed);
}

/* The path of a folder, to be kept to the end. NULL: they are too many. */
static char *keep_name(struct plant *plant, const char *path, struct fail *fail)
{
    size_t len = strlen(path) + 1;

    if (len > UNPACK_NAMES_MAX - plant->names_bytes) {
        fail_set(fail, IMAGE_FAIL_LIMIT, "the names of a layer's folders have more than %d bytes",
                 UNPACK_NAMES_MAX);
        return NULL;
    }
    plant->names_bytes += len;
    return mem_strdup(path);
}

/* ---- folders of names ---- */

static int open_inside(int root, const char *path)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_CLOEXEC,
        .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV,
    };

    return (int)syscall(SYS_openat2, root, path[0] ? path : ".", &how, sizeof(how));
}

static bool is_whiteout(int dir, const char *name)
{
    struct stat st;

    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISCHR(st.st_mode) && st.st_rdev == 0;
}

/* The folder hides what lower layers have there. Without CAP_SYS_ADMIN only the name for user mounts works.
 */
static int set_opaque(int dir, const char *name, struct fail *fail)
{
    CLEANUP(fd_close) int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0)
        return err_errno(&fail->err, errno, "open '%s'", name);
    if (fsetxattr(fd, "trusted.overlay.opaque", "y", 1, 0) < 0 &&
        fsetxattr(fd, "user.overlay.opaque", "y", 1, 0) < 0)
        return err_errno(&fail->err, errno, "mark '%s' as opaque", name);
    return 0;
}

/* A folder that the tar does not describe. Where the name was deleted by this layer, it hides the older one.
 */
static int make_folder(int dir, const char *name, struct fail *fail)
{
    bool deleted;

    if (mkdirat(dir, name, 0755) == 0)
        return 0;
    deleted = errno == EEXIST && is_whiteout(dir, name);
    if (deleted && unlinkat(dir, name, 0) == 0 && mkdirat(dir, name, 0755) == 0)
        return set_opaque(dir, name, fail);
    if (errno == EEXIST)
        return fail_set(fail, IMAGE_FAIL_INVALID, "a layer has files below '%s', which is no folder", name);
    return err_errno(&fail->err, errno, "make folder '%s'", name);
}

/* It counts as an entry of the layer: one name of 4096 bytes can stand for two thousand folders. */
static int imply_folder(struct plant *plant, int dir, const char *name, const char *path, struct fail *fail)
{
    char *kept;

    if (plant_count(plant, fail) < 0 || make_folder(dir, name, fail) < 0)
        return -1;
    kept = keep_name(plant, path, fail);
    if (!kept)
        return -1;
    vec_push(&plant->implied, kept);
    return 0;
}

static int make_parents(struct plant *plant, const char *path, struct fail *fail)
{
    CLEANUP(free) char *part = mem_strdup(path);
    CLEANUP(fd_close) int dir = open_inside(plant->root, "");

    for (char *at = part; dir >= 0; at++) {
        char *end = strchrnul(at, '/'), kept = *end;
        int next;

        *end = '\0';
        next = open_inside(plant->root, part);
        if (next < 0 && (errno == ENOENT || errno == ENOTDIR)) {
            if (imply_folder(plant, dir, at, part, fail) < 0)
                return -1;
            next = open_inside(plant->root, part);
        }
        if (next < 0)
            return fail_set(fail, IMAGE_FAIL_INVALID, "a layer's folder '%.200s' cannot be reached: %s", part,
                            strerror(errno));
        close(dir);
        dir = next;
        *end = kept;
        if (!kept)
            return take_fd(&dir);
        at = end;
    }
    return err_errno(&fail->err, errno, "open the layer's folder");
}

/* The folder of path, and *base, its last part. The descriptor stays plant's. */
static int find_parent(struct plant *plant, const char *path, const char **base, struct fail *fail)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;

    *base = slash ? slash + 1 : path;
    if (plant->parent >= 0 && strlen(plant->parent_path) == len && memcmp(plant->parent_path, path, len) == 0)
        return plant->parent;
    forget_parent(plant);
    plant->parent_path = mem_strndup(path, len);
    plant->parent = open_inside(plant->root, plant->parent_path);
    if (plant->parent < 0 && len > 0)
        plant->parent = make_parents(plant, plant->parent_path, fail);
    else if (plant->parent < 0)
        return err_errno(&fail->err, errno, "open the layer's folder");
    return plant->parent;
}

/* Makes room for a new entry. Folders go with everything in them. */
static int clear_place(int dir, const char *name, struct fail *fail)
{
    if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
        return 0;
    return tree_remove(dir, name, &fail->err);
}

/* ---- owners, modes, attributes, times ---- */

static void entry_times(struct archive_entry *from, struct timespec times[2])
{
    struct timespec mtime = {.tv_nsec = UTIME_NOW};

    if (archive_entry_mtime_is_set(from))
        mtime = (struct timespec){archive_entry_mtime(from), archive_entry_mtime_nsec(from)};
    times[0] = times[1] = mtime;
}

/* overlayfs keeps its own notes in trusted.overlay.* and user.overlay.*: a layer that brings some could point
 * anywhere. So: user attributes but those, and capabilities. */
static bool wanted_xattr(const char *name)
{
    return streq(name, "security.capability") ||
           (starts_with(name, "user.") && !starts_with(name, "user.overlay."));
}

static int set_xattrs(int fd, struct archive_entry *from, struct fail *fail)
{
    const char *name;
    const void *value;
    size_t len;

    archive_entry_xattr_reset(from);
    while (archive_entry_xattr_next(from, &name, &value, &len) == ARCHIVE_OK) {
        if (!name || !wanted_xattr(name) || len > XATTR_MAX)
            continue;
        /* A file system without them, or without room for them, is no reason to refuse an image. */
        if (fsetxattr(fd, name, value, len, 0) < 0 && errno != ENOTSUP && errno != EPERM && errno != E2BIG &&
            errno != ENOSPC)
            return err_errno(&fail->err, errno, "set attribute %.100s", name);
    }
    return 0;
}

static int set_owner_mode(struct plant *plant, int fd, struct archive_entry *from, struct fail *fail)
{
    if (plant->owners && fchown(fd, (uid_t)archive_entry_uid(from), (gid_t)archive_entry_gid(from)) < 0)
        return err_errno(&fail->err, errno, "set an owner");
    if (fchmod(fd, archive_entry_perm(from) & 07777) < 0) /* after the owner, whose change clears setuid */
        return err_errno(&fail->err, errno, "set a mode");
    return set_xattrs(fd, from, fail);
}

/* ---- files ---- */

int plant_file(struct plant *plant, const struct unpack_entry *entry, struct fail *fail)
{
    const char *base;
    int dir = find_parent(plant, entry->path, &base, fail), fd;

    if (dir < 0)
        return -1;
    fd = openat(dir, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST) {
        if (clear_place(dir, base, fail) < 0)
            return -1;
        fd = openat(dir, base, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    }
    if (fd < 0)
        return err_errno(&fail->err, errno, "create '%.200s'", entry->path);
    return fd;
}

int plant_data(struct plant *plant, int fd, const void *block, size_t len, int64_t offset, struct fail *fail)
{
    const char *at = block;

    plant->counts.bytes += (int64_t)len;
    if (plant->counts.bytes > plant->options->bytes_max)
        return fail_set(fail, IMAGE_FAIL_LIMIT, "a layer unpacks to more than %lld bytes",
                        (long long)plant->options->bytes_max);
    if (plant->counts.bytes - plant->bytes_at_check > SPACE_EVERY_BYTES && check_space(plant, fail) < 0)
        return -1;
    while (len > 0) {
        ssize_t n = pwrite(fd, at, len, offset);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(&fail->err, errno, "write a file of a layer");
        at += n;
        offset += n;
        len -= (size_t)n;
    }
    return 0;
}

int plant_file_end(struct plant *plant, int fd, struct archive_entry *from, struct fail *fail)
{
    struct timespec times[2];
    struct stat st;

    /* Holes at the end of sparse files. */
    if (fstat(fd, &st) == 0 && st.st_size < archive_entry_size(from) &&
        ftruncate(fd, archive_entry_size(from)) < 0)
        return err_errno(&fail->err, errno, "set the size of a file");
    if (set_owner_mode(plant, fd, from, fail) < 0)
        return -1;
    entry_times(from, times);
    if (futimens(fd, times) < 0)
        return err_errno(&fail->err, errno, "set the time of a file");
    return 0;
}

/* ---- everything else ---- */

static int make_dir(int dir, const char *base, struct fail *fail)
{
    struct stat st;
    bool deleted;

    if (mkdirat(dir, base, 0700) == 0)
        return 0;
    if (errno != EEXIST || fstatat(dir, base, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return err_errno(&fail->err, errno, "make folder '%s'", base);
    if (S_ISDIR(st.st_mode))
        return 0;
    deleted = is_whiteout(dir, base);
    if (clear_place(dir, base, fail) < 0)
        return -1;
    if (mkdirat(dir, base, 0700) < 0)
        return err_errno(&fail->err, errno, "make folder '%s'", base);
    return deleted ? set_opaque(dir, base, fail) : 0;
}

static int plant_folder(struct plant *plant, const struct unpack_entry *entry, struct archive_entry *from,
                        struct fail *fail)
{
    struct folder_time folder = {0};
    CLEANUP(fd_close) int fd = -1;
    const char *base;
    int dir;

    if (!entry->path[0]) {
        fd = openat(plant->root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    } else {
        dir = find_parent(plant, entry->path, &base, fail);
        if (dir < 0 || make_dir(dir, base, fail) < 0)
            return -1;
        fd = openat(dir, base, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd < 0)
        return err_errno(&fail->err, errno, "open '%.200s'", entry->path);
    if (set_owner_mode(plant, fd, from, fail) < 0)
        return -1;
    folder.path = keep_name(plant, entry->path, fail);
    if (!folder.path)
        return -1;
    entry_times(from, folder.times);
    vec_push(&plant->folders, folder);
    return 0;
}

static int plant_symlink(struct plant *plant, int dir, const char *base, const char *target,
                         struct archive_entry *from, struct fail *fail)
{
    struct timespec times[2];

    if (symlinkat(target, dir, base) < 0)
        return err_errno(&fail->err, errno, "make link '%s'", base);
    if (plant->owners && fchownat(dir, base, (uid_t)archive_entry_uid(from), (gid_t)archive_entry_gid(from),
                                  AT_SYMLINK_NOFOLLOW) < 0)
        return err_errno(&fail->err, errno, "set an owner");
    entry_times(from, times);
    utimensat(dir, base, times, AT_SYMLINK_NOFOLLOW);
    return 0;
}

/* To a file or link of this layer; devices here are whiteouts, and folders cannot be linked. */
static int plant_hardlink(struct plant *plant, int dir, const char *base, const char *target,
                          struct fail *fail)
{
    const char *slash = strrchr(target, '/');
    CLEANUP(free) char *folder = mem_strndup(target, slash ? (size_t)(slash - target) : 0);
    const char *name = slash ? slash + 1 : target;
    CLEANUP(fd_close) int from = open_inside(plant->root, folder);
    struct stat st;

    if (from < 0 || !name[0] || fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode)))
        return fail_set(fail, IMAGE_FAIL_INVALID,
                        "a layer links '%.100s' to '%.200s', which it does not have", base, target);
    if (linkat(from, name, dir, base, 0) < 0)
        return err_errno(&fail->err, errno, "link '%s'", base);
    return 0;
}

static int plant_fifo(struct plant *plant, int dir, const char *base, struct archive_entry *from,
                      struct fail *fail)
{
    if (mkfifoat(dir, base, 0600) < 0)
        return err_errno(&fail->err, errno, "make pipe '%s'", base);
    if (plant->owners && fchownat(dir, base, (uid_t)archive_entry_uid(from), (gid_t)archive_entry_gid(from),
                                  AT_SYMLINK_NOFOLLOW) < 0)
        return err_errno(&fail->err, errno, "set an owner");
    if (fchmodat(dir, base, archive_entry_perm(from) & 07777, 0) < 0)
        return err_errno(&fail->err, errno, "set a mode");
    return 0;
}

/* Deletes what lower layers have. What this layer itself has by that name stays, and hides theirs. */
static int plant_whiteout(int dir, const char *base, struct fail *fail)
{
    struct stat st;

    if (fstatat(dir, base, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return S_ISDIR(st.st_mode) ? set_opaque(dir, base, fail) : 0;
    if (mknodat(dir, base, S_IFCHR, makedev(0, 0)) < 0)
        return err_errno(&fail->err, errno, "mark '%s' as deleted", base);
    return 0;
}

static int plant_opaque(struct plant *plant, const char *path, struct fail *fail)
{
    const char *base;
    struct stat st;
    int dir;

    if (!path[0]) /* of the whole layer */
        return set_opaque(plant->root, ".", fail);
    dir = find_parent(plant, path, &base, fail);
    if (dir < 0)
        return -1;
    if (fstatat(dir, base, &st, AT_SYMLINK_NOFOLLOW) < 0 || is_whiteout(dir, base)) {
        if (make_folder(dir, base, fail) < 0)
            return -1;
    }
    return set_opaque(dir, base, fail);
}

int plant_other(struct plant *plant, const struct unpack_entry *entry, struct archive_entry *from,
                struct fail *fail)
{
    const char *base;
    int dir;

    if (entry->kind == UNPACK_SKIP)
        return 0;
    if (entry->kind == UNPACK_FOLDER)
        return plant_folder(plant, entry, from, fail);
    if (entry->kind == UNPACK_OPAQUE)
        return plant_opaque(plant, entry->path, fail);
    dir = find_parent(plant, entry->path, &base, fail);
    if (dir < 0)
        return -1;
    if (entry->kind == UNPACK_WHITEOUT)
        return plant_whiteout(dir, base, fail);
    /* A link to itself would delete what it is to become. */
    if (entry->kind == UNPACK_HARDLINK && streq(entry->path, entry->target))
        return 0;
    if (clear_place(dir, base, fail) < 0)
        return -1;
    switch (entry->kind) {
    case UNPACK_SYMLINK:
        return plant_symlink(plant, dir, base, entry->target, from, fail);
    case UNPACK_HARDLINK:
        return plant_hardlink(plant, dir, base, entry->target, fail);
    default:
        return plant_fifo(plant, dir, base, from, fail);
    }
}

/* Implied folders that no entry describes later. */
static void tell_implied(struct plant *plant, struct buf *ret)
{
    CLEANUP(map_free) struct map *described = map_new();

    VEC_EACH(&plant->folders, it)
        map_set(described, str_from(it->path), plant);
    VEC_EACH(&plant->implied, it) {
        const char *path = *it;

        if (path && !map_get(described, str_from(path)))
            buf_add(ret, path, strlen(path) + 1);
    }
}

void plant_end(struct plant *plant, struct unpack_counts *ret)
{
    for (size_t i = plant->folders.len; i > 0; i--) {
        const struct folder_time *folder = &plant->folders.v[i - 1];
        CLEANUP(fd_close) int dir = open_inside(plant->root, folder->path);

        /* It may have been replaced meanwhile; a time is not worth failing for. */
        if (dir >= 0)
            utimensat(dir, ".", folder->times, 0);
    }
    if (plant->options->implied && plant->implied.len)
        tell_implied(plant, plant->options->implied);
    *ret = plant->counts;
}
