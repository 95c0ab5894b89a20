/* The programs around a container: found on PATH, started without a shell, spoken to over sockets. */
#include "base/file.h"
#include "base/json.h"
#include "base/mem.h"
#include "runtime/runtime_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#define OCI_SEAL_MAX (64 << 20)
#define OCI_FD_MIN   10
#define MEMFD_EXEC   0x10U /* MFD_EXEC of Linux 6.3, not in every header */

static const char search_path[] = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

int oci_find(const char *name, char **ret, struct err *err)
{
    const char *env = getenv("PATH");
    /* runc is in /usr/sbin, which is not on every PATH. */
    CLEANUP(free) char *all = mem_printf("%s:%s", env ? env : "", search_path);
    struct str rest = str_from(all), dir;

    if (strchr(name, '/')) {
        if (name[0] != '/')
            return err_set(err, ERR_INVALID, "'%s' must be an absolute path", name);
        if (access(name, X_OK) < 0)
            return err_errno(err, errno, "'%s'", name);
        *ret = mem_strdup(name);
        return 0;
    }
    while (str_split(&rest, ':', &dir)) {
        CLEANUP(free) char *path = mem_printf("%.*s/%s", STR_ARG(dir), name);

        if (dir.len > 0 && path[0] == '/' && access(path, X_OK) == 0) {
            *ret = TAKE_PTR(path);
            return 0;
        }
    }
    return err_set(err, ERR_NOT_FOUND, "'%s' is not installed (not on PATH)", name);
}

int oci_seal(const char *path)
{
    CLEANUP(fd_close) int from = open(path, O_RDONLY | O_CLOEXEC), fd = -1;
    struct stat st;

    if (from < 0 || fstat(from, &st) < 0 || st.st_size <= 0 || st.st_size > OCI_SEAL_MAX)
        return -1;
    fd = memfd_create("crun", MFD_CLOEXEC | MFD_ALLOW_SEALING | MEMFD_EXEC);
    if (fd < 0 && errno == EINVAL) /* older kernels know no files that may not be executed */
        fd = memfd_create("crun", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || sendfile(fd, from, NULL, (size_t)st.st_size) != st.st_size ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE) < 0)
        return -1;
    return fcntl(fd, F_DUPFD_CLOEXEC, OCI_FD_MIN); /* out of the way of those that the shim gets */
}

void oci_conf(struct buf *conf, const char *key, const char *value)
{
    if (!value)
        return;
    buf_puts(conf, key);
    buf_putc(conf, '=');
    buf_add(conf, value, strlen(value) + 1);
}

void oci_conf_int(struct buf *conf, const char *key, int64_t value)
{
    buf_puts(conf, key);
    buf_putc(conf, '=');
    buf_int(conf, value);
    buf_putc(conf, '\0');
}

void oci_conf_common(const struct runtime *rt, struct buf *conf, const char *dir)
{
    oci_conf(conf, "runtime", rt->oci_path);
    oci_conf(conf, "root", rt->oci_root);
    oci_conf(conf, "bundle", dir);
    if (rt->host.crun)
        oci_conf(conf, "hide", cgroup_hide(rt->cgroup));
}

int oci_write(const char *dir, const char *name, struct str data, struct err *err)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", dir, name);
    CLEANUP(fd_close) int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return err_errno(err, errno, "create '%s'", path);
    while (data.len > 0) {
        ssize_t n = write(fd, data.s, data.len);

        if (n <= 0)
            return err_errno(err, n < 0 ? errno : EIO, "write '%s'", path);
        data = (struct str){data.s + n, data.len - (size_t)n};
    }
    return 0;
}

int oci_connect(const char *dir, int *ret)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    CLEANUP(fd_close) int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(fd_close) int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    /* A folder's path may be longer than a socket's can be. */
    snprintf(addr.sun_path, sizeof(addr.sun_path), "/proc/self/fd/%d/shim.sock", dir_fd);
    if (dir_fd < 0 || fd < 0 || connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        return -1;
    *ret = take_fd(&fd);
    return 0;
}

int oci_send(int control, const struct shim_msg *msg, const char *data, size_t len)
{
    struct iovec iov[2] = {{(void *)msg, sizeof(*msg)}, {(void *)data, len}};
    struct msghdr head = {.msg_iov = iov, .msg_iovlen = len ? 2 : 1};

    return sendmsg(control, &head, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -1 : 0;
}

ssize_t oci_recv(int control, struct shim_msg *msg, char *data, size_t size, int *fd)
{
    struct iovec iov[2] = {{msg, sizeof(*msg)}, {data, size}};
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } space;
    struct msghdr head = {
        .msg_iov = iov, .msg_iovlen = 2, .msg_control = &space, .msg_controllen = sizeof(space)};
    const struct cmsghdr *cmsg;
    ssize_t n;
    int got = -1;

    memset(msg, 0, sizeof(*msg));
    do
        n = recvmsg(control, &head, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        errno = ECONNRESET;
    if (n <= 0)
        return -1;
    cmsg = CMSG_FIRSTHDR(&head);
    if (cmsg && cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS &&
        cmsg->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&got, CMSG_DATA(cmsg), sizeof(got));
    if (fd)
        *fd = got;
    else
        fd_close(got);
    return n > (ssize_t)sizeof(*msg) ? n - (ssize_t)sizeof(*msg) : 0;
}
