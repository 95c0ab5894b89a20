/* /dev/null of a shim's own. crun gives the standard streams that it is started with to the container's user,
 * who may then change their mode or hand them on: they must never be the machine's. So each shim has a device
 * file that nobody else sees. It is made in a tmpfs that is mounted nowhere and unlinked at once: folders of
 * containers may be on a file system where devices do not work (nodev), as /run most often is. */
#include "shim/shim.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define NULL_DEVICE makedev(1, 3)

int nulls_new(void)
{
    int context = fsopen("tmpfs", FSOPEN_CLOEXEC);
    int fd = -1;

    if (context >= 0 && fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) == 0)
        fd = fsmount(context, FSMOUNT_CLOEXEC, 0);
    if (context >= 0)
        close(context);
    return fd;
}

static int device_in(int folder)
{
    char name[32];
    int fd;

    snprintf(name, sizeof(name), "null-%d", (int)getpid());
    unlinkat(folder, name, 0);
    if (mknodat(folder, name, S_IFCHR | 0600, NULL_DEVICE) < 0)
        return -1;
    fd = openat(folder, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    unlinkat(folder, name, 0);
    if (fd >= 0)
        fchmod(fd, 0666); /* past the umask */
    return fd;
}

/* Where there can be no device: nothing to read, nothing can be written. */
static int empty_file(void)
{
    int fd = memfd_create("null", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd >= 0)
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
    return fd;
}

int null_new(int nulls)
{
    int fd = nulls >= 0 ? device_in(nulls) : -1;

    if (fd < 0)
        fd = device_in(AT_FDCWD);
    return fd >= 0 ? fd : empty_file();
}
