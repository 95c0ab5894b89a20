/* netns - see netns.h. A thread that cannot come home to its namespace would do everything else in the
 * wrong one, so that ends the process. */
#define LOG_MODULE "podnet"
#include "podnet/netns.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "podnet/netlink.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SELF_NS      "/proc/thread-self/ns/net"
#define SOCKSTAT_MAX 4096

int netns_here(struct err *err)
{
    int fd = open(SELF_NS, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return err_errno(err, errno, "open '%s'", SELF_NS);
    return fd;
}

static void go_home(int home)
{
    if (setns(home, CLONE_NEWNET) == 0)
        return;
    log_error("cannot return to the host's network namespace: %s", strerror(errno));
    abort();
}

/* Unprivileged users in the pod may ping and take ports below 1024, as other container engines have it. */
static void set_sysctls(void)
{
    static const struct {
        const char *path, *text;
    } rows[] = {
        {"/proc/sys/net/ipv4/ping_group_range", "0 2147483647"},
        {"/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(fd_close) int fd = open(rows[i].path, O_WRONLY | O_CLOEXEC);

        /* A read-only /proc/sys only means that the pod has the kernel's defaults. */
        if (fd >= 0 && write(fd, rows[i].text, strlen(rows[i].text)) < 0)
            log_debug("write '%s': %s", rows[i].path, strerror(errno));
    }
}

/* In the new namespace. */
static int pin_and_open(const char *path, int *ret_ns, int *ret_netlink, struct err *err)
{
    CLEANUP(fd_close) int ns = -1;
    int nl;

    if (mount(SELF_NS, path, NULL, MS_BIND, NULL) < 0)
        return err_errno(err, errno, "pin a network namespace at '%s'", path);
    ns = netns_here(err);
    if (ns < 0)
        return -1;
    nl = nl_open(NETLINK_ROUTE, err);
    if (nl < 0)
        return -1;
    set_sysctls();
    *ret_ns = take_fd(&ns);
    *ret_netlink = nl;
    return 0;
}

int netns_make(int home, const char *path, int *ret_ns, int *ret_netlink, struct err *err)
{
    int file, status;

    if (netns_unpin(path, err) < 0)
        return -1;
    file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return err_errno(err, errno, "make '%s'", path);
    close(file);
    if (unshare(CLONE_NEWNET) < 0) {
        int sys = errno;

        unlink(path);
        return err_errno(err, sys, "make a network namespace");
    }
    status = pin_and_open(path, ret_ns, ret_netlink, err);
    go_home(home);
    if (status < 0)
        (void)netns_unpin(path, NULL);
    return status;
}

bool netns_pinned(const char *path)
{
    struct statfs fs;

    return statfs(path, &fs) == 0 && fs.f_type == NSFS_MAGIC;
}

int netns_pin(int home, pid_t pid, const char *path, struct err *err)
{
    char source[64];
    struct stat theirs, own;
    int file;

    (void)snprintf(source, sizeof(source), "/proc/%d/ns/net", (int)pid);
    if (stat(source, &theirs) < 0 || fstat(home, &own) < 0)
        return err_errno(err, errno, "find the network namespace of process %d", (int)pid);
    if (theirs.st_ino == own.st_ino && theirs.st_dev == own.st_dev)
        return err_set(err, ERR_CONFLICT, "process %d is in the host's network", (int)pid);
    if (netns_unpin(path, err) < 0)
        return -1;
    file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0)
        return err_errno(err, errno, "make '%s'", path);
    close(file);
    if (mount(source, path, NULL, MS_BIND, NULL) < 0) {
        int sys = errno;

        unlink(path);
        return err_errno(err, sys, "pin a network namespace at '%s'", path);
    }
    return 0;
}

int netns_unpin(const char *path, struct err *err)
{
    /* EINVAL: a file that nothing is mounted on. */
    while (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
        ;
    if (errno != EINVAL && errno != ENOENT)
        return err_errno(err, errno, "unpin '%s'", path);
    if (unlink(path) < 0 && errno != ENOENT)
        return err_errno(err, errno, "remove '%s'", path);
    return 0;
}

int netns_socket(int home, const char *path, int type, struct err *err)
{
    CLEANUP(fd_close) int ns = open(path, O_RDONLY | O_CLOEXEC);
    int fd, sys;

    if (ns < 0)
        return err_errno(err, errno, "open '%s'", path);
    if (setns(ns, CLONE_NEWNET) < 0)
        return err_errno(err, errno, "enter '%s'", path);
    fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    sys = errno;
    go_home(home);
    if (fd < 0)
        return err_errno(err, sys, "make a socket in '%s'", path);
    return fd;
}

int netns_run(int home, const char *path, int (*fn)(void *arg), void *arg)
{
    CLEANUP(fd_close) int ns = open(path, O_RDONLY | O_CLOEXEC);
    int result;

    if (ns < 0 || setns(ns, CLONE_NEWNET) < 0)
        return -1;
    result = fn(arg);
    go_home(home);
    return result;
}

/* "TCP: inuse 0 orphan 0 tw 0 alloc 3 mem 1": the first three are the namespace's own. */
static bool line_idle(struct str line)
{
    static const char *const own[] = {"inuse", "orphan", "tw"};
    struct str key, value;

    str_split(&line, ' ', &key); /* the protocol */
    if (str_is(key, "sockets:"))
        return true;
    while (str_split(&line, ' ', &key) && str_split(&line, ' ', &value))
        for (size_t i = 0; i < ARRAY_LEN(own); i++)
            if (str_is(key, own[i]) && !str_is(value, "0"))
                return false;
    return true;
}

bool netns_idle(void)
{
    static const char *const files[] = {"/proc/thread-self/net/sockstat", "/proc/thread-self/net/sockstat6"};

    for (size_t i = 0; i < ARRAY_LEN(files); i++) {
        CLEANUP(buf_done) struct buf text = {0};
        struct str rest, line;

        if (file_read(files[i], SOCKSTAT_MAX, &text, NULL) < 0) {
            if (i == 0)
                return false;
            continue; /* no IPv6 here */
        }
        rest = buf_view(&text);
        while (str_split(&rest, '\n', &line))
            if (!line_idle(line))
                return false;
    }
    return true;
}
