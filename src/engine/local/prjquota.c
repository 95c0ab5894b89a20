/* quotactl_fd is what newer kernels have (5.14); older ones want the device, which mountinfo names.
 * Q_SETQUOTA and Q_GETQUOTA work on both file systems; whether limits are enforced only Q_XGETQSTATV says:
 * ext4 counts with the feature alone, and enforces when it is mounted so. */
#include "engine/local/prjquota.h"

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/dqblk_xfs.h>
#include <linux/fs.h>
#include <linux/quota.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#ifndef SYS_quotactl_fd
#define SYS_quotactl_fd 443
#endif
#define MOUNTINFO_MAX (16 << 20)
#define PROJECT(cmd)  ((int)((unsigned)(cmd) << SUBCMDSHIFT | PRJQUOTA))
#define QUOTA_BLOCK   1024 /* what limits are counted in */

struct prjquota {
    int fd; /* of a folder there */
    char *device;
    struct prjquota_calls calls;
};

/* ---- the real calls ---- */

static int real_quotactl(int fd, const char *device, int command, uint32_t id, void *arg)
{
    int result = (int)syscall(SYS_quotactl_fd, fd, command, id, arg);

    if (result < 0 && errno == ENOSYS && *device)
        result = (int)syscall(SYS_quotactl, command, device, id, arg);
    return result;
}

static int real_ioctl(int fd, unsigned long request, void *arg)
{
    return ioctl(fd, request, arg);
}

static const struct prjquota_calls real_calls = {real_quotactl, real_ioctl};

/* ---- the file system ---- */

/* The device that is mounted there, as mountinfo has it: the field behind " - TYPE ". */
static char *device_of(dev_t dev)
{
    CLEANUP(buf_done) struct buf text = {0};
    char wanted[32];
    struct str rest, line, field;

    snprintf(wanted, sizeof(wanted), "%u:%u", major(dev), minor(dev));
    if (file_read("/proc/self/mountinfo", MOUNTINFO_MAX, &text, NULL) < 0)
        return mem_strdup("");
    rest = buf_view(&text);
    while (str_split(&rest, '\n', &line)) {
        bool same = false;

        for (int i = 0; str_split(&line, ' ', &field) && !str_is(field, "-"); i++)
            same |= i == 2 && str_is(field, wanted);
        if (same && str_split(&line, ' ', &field) && str_split(&line, ' ', &field))
            return mem_strndup(field.s, field.len);
    }
    return mem_strdup("");
}

static int check_enforced(const struct prjquota *quota, const char *dir, struct err *err)
{
    struct fs_quota_statv state = {.qs_version = FS_QSTATV_VERSION1};

    if (quota->calls.quotactl(quota->fd, quota->device, PROJECT(Q_XGETQSTATV), 0, &state) < 0)
        return err_set(err, ERR_UNSUPPORTED, "the file system of '%s' has no project quotas: %s", dir,
                       errno == ENOSYS || errno == ENOTTY || errno == ESRCH ? "they are off"
                                                                            : strerror(errno));
    if (!(state.qs_flags & FS_QUOTA_PDQ_ENFD))
        return err_set(err, ERR_UNSUPPORTED, "the file system of '%s' does not enforce project quotas", dir);
    return 0;
}

int prjquota_open(const char *dir, const struct prjquota_calls *calls, struct prjquota **ret, struct err *err)
{
    CLEANUP(prjquota_free) struct prjquota *quota = NEW(struct prjquota);
    struct stat st;
    uint32_t id;

    quota->calls = calls ? *calls : real_calls;
    quota->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (quota->fd < 0 || fstat(quota->fd, &st) < 0)
        return err_errno(err, errno, "open '%s'", dir);
    quota->device = device_of(st.st_dev);
    if (check_enforced(quota, dir, err) < 0 || prjquota_id_of(quota, quota->fd, &id, err) < 0)
        return -1;
    *ret = TAKE_PTR(quota);
    return 0;
}

struct prjquota *prjquota_dup(const struct prjquota *quota)
{
    struct prjquota *copy = NEW(struct prjquota);

    *copy = *quota;
    copy->fd = fcntl(quota->fd, F_DUPFD_CLOEXEC, 3); /* -1: its calls fail */
    copy->device = mem_strdup(quota->device);
    return copy;
}

void prjquota_free(struct prjquota *quota)
{
    if (!quota)
        return;
    fd_close(quota->fd);
    free(quota->device);
    free(quota);
}

/* ---- numbers ---- */

int prjquota_id_of(const struct prjquota *quota, int fd, uint32_t *ret, struct err *err)
{
    struct fsxattr attr = {0};

    if (quota->calls.ioctl(fd, FS_IOC_FSGETXATTR, &attr) < 0)
        return err_errno(err, errno, "ask for a project id");
    *ret = attr.fsx_projid;
    return 0;
}

static int mark(const struct prjquota *quota, int fd, uint32_t id, bool folder, struct err *err)
{
    struct fsxattr attr = {0};

    if (quota->calls.ioctl(fd, FS_IOC_FSGETXATTR, &attr) < 0)
        return err_errno(err, errno, "ask for a project id");
    if (attr.fsx_projid == id && (!folder || (attr.fsx_xflags & FS_XFLAG_PROJINHERIT)))
        return 0;
    attr.fsx_projid = id;
    if (folder)
        attr.fsx_xflags |= FS_XFLAG_PROJINHERIT;
    if (quota->calls.ioctl(fd, FS_IOC_FSSETXATTR, &attr) < 0)
        return err_errno(err, errno, "set project id %u", id);
    return 0;
}

int prjquota_mark(const struct prjquota *quota, int fd, uint32_t id, struct err *err)
{
    return mark(quota, fd, id, true, err);
}

static int mark_below(const struct prjquota *quota, int fd, uint32_t id, dev_t dev, int depth,
                      struct err *err);

/* Links, sockets, pipes and devices keep their number: they take no room. Users may work in the tree
 * meanwhile, so nothing is followed, nothing waited for, and what has gone is fine. */
static int mark_entry(const struct prjquota *quota, int at, const char *name, uint32_t id, dev_t dev,
                      int depth, struct err *err)
{
    CLEANUP(fd_close) int fd = -1;
    struct stat st;

    if (fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev != dev ||
        (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode)))
        return 0;
    fd = openat(at, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_dev != dev)
        return 0;
    if (S_ISDIR(st.st_mode))
        return mark_below(quota, fd, id, dev, depth + 1, err);
    return S_ISREG(st.st_mode) ? mark(quota, fd, id, false, err) : 0;
}

/* The folder first: what is made in it from then on has the number already. */
static int mark_below(const struct prjquota *quota, int fd, uint32_t id, dev_t dev, int depth,
                      struct err *err)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3), result;
    const struct dirent *entry;
    DIR *dir;

    if (depth > PRJQUOTA_DEPTH_MAX || copy < 0) {
        fd_close(copy);
        return copy < 0 ? err_errno(err, errno, "copy a descriptor") : 0;
    }
    result = mark(quota, fd, id, true, err);
    dir = fdopendir(copy);
    if (!dir) {
        close(copy);
        return err_errno(err, errno, "read a folder");
    }
    while (result == 0 && (entry = readdir(dir)))
        if (!streq(entry->d_name, ".") && !streq(entry->d_name, ".."))
            result = mark_entry(quota, copy, entry->d_name, id, dev, depth, err);
    closedir(dir);
    return result;
}

int prjquota_mark_tree(const struct prjquota *quota, int fd, uint32_t id, struct err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return err_errno(err, errno, "look at a folder");
    return mark_below(quota, fd, id, st.st_dev, 0, err);
}

/* ---- limits ---- */

int prjquota_limit(const struct prjquota *quota, uint32_t id, int64_t bytes, struct err *err)
{
    struct if_dqblk limits = {.dqb_valid = QIF_BLIMITS};

    limits.dqb_bhardlimit = ((uint64_t)bytes + QUOTA_BLOCK - 1) / QUOTA_BLOCK;
    if (quota->calls.quotactl(quota->fd, quota->device, PROJECT(Q_SETQUOTA), id, &limits) < 0)
        return err_errno(err, errno, "set the quota of project %u", id);
    return 0;
}

int prjquota_use(const struct prjquota *quota, uint32_t id, struct prjquota_use *ret, struct err *err)
{
    struct if_dqblk got = {0};

    if (quota->calls.quotactl(quota->fd, quota->device, PROJECT(Q_GETQUOTA), id, &got) < 0) {
        if (errno == ENOENT || errno == ESRCH) { /* xfs: nobody has that number yet */
            *ret = (struct prjquota_use){0};
            return 0;
        }
        return err_errno(err, errno, "read the quota of project %u", id);
    }
    *ret = (struct prjquota_use){(int64_t)got.dqb_curspace, (int64_t)got.dqb_bhardlimit * QUOTA_BLOCK,
                                 (int64_t)got.dqb_curinodes};
    return 0;
}
