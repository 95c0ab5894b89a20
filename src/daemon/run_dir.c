#include "daemon/run_dir.h"

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <unistd.h>

#define LOG_MODULE "agent"
#define OPTIONS    "mode=0711,size=10%"

static bool in_memory(const char *path)
{
    struct statfs fs;

    return statfs(path, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

static bool is_empty(const char *path)
{
    DIR *dir = opendir(path);
    const struct dirent *entry;
    bool empty = true;

    while (dir && empty && (entry = readdir(dir)))
        empty = streq(entry->d_name, ".") || streq(entry->d_name, "..");
    if (dir)
        closedir(dir);
    return empty;
}

int run_dir_make(const char *path, struct err *err)
{
    CLEANUP(free) char *containers = mem_printf("%s/containers", path);

    if (dir_make(path, 0711, err) < 0)
        return -1;
    if (in_memory(path) || !is_empty(containers))
        return 0;
    /* It works on a disk as well, only slower. */
    if (mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, OPTIONS) < 0)
        log_warn("'%s' is on a disk, and no tmpfs can be mounted there: %s", path, strerror(errno));
    return 0;
}

bool run_dir_unmounted(const char *path)
{
    return !in_memory(path) && is_empty(path);
}

void run_dir_leave(const char *path)
{
    CLEANUP(free) char *containers = mem_printf("%s/containers", path);

    if (is_empty(containers) && umount2(path, UMOUNT_NOFOLLOW) == 0)
        rmdir(path);
}
