/* What all modes of the shim need: its configuration, records, sockets and the start of the OCI runtime. */
#include "shim/shim.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static ssize_t read_file(const char *path, char *ret, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n = -1;

    if (fd < 0)
        return -1;
    while (len < size && (n = read(fd, ret + len, size - len)) > 0)
        len += (size_t)n;
    close(fd);
    return n < 0 ? -1 : (ssize_t)len;
}

int conf_read(struct shim_conf *conf, const char *path)
{
    ssize_t n = read_file(path, conf->text, sizeof(conf->text) - 1);

    if (n < 0)
        return -1;
    if ((size_t)n == sizeof(conf->text) - 1) {
        errno = EFBIG;
        return -1;
    }
    conf->len = (size_t)n;
    conf->text[n] = '\0';
    return 0;
}

const char *conf_get(const struct shim_conf *conf, const char *key)
{
    size_t key_len = strlen(key);

    for (size_t at = 0; at < conf->len; at += strlen(conf->text + at) + 1)
        if (strncmp(conf->text + at, key, key_len) == 0 && conf->text[at + key_len] == '=')
            return conf->text + at + key_len + 1;
    return NULL;
}

int64_t conf_int(const struct shim_conf *conf, const char *key, int64_t fallback)
{
    const char *text = conf_get(conf, key);

    return text ? strtoll(text, NULL, 10) : fallback;
}

static int64_t now(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t now_real(void)
{
    return now(CLOCK_REALTIME);
}

int64_t now_mono(void)
{
    return now(CLOCK_MONOTONIC);
}

bool write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        data += n;
        len -= (size_t)n;
    }
    return true;
}

int record_write(const char *name, const char *text, size_t len)
{
    static const char temp[] = "exit.tmp";
    int fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool written;
    int sys;

    if (fd < 0)
        return -1;
    written = write_all(fd, text, len);
    sys = errno;
    close(fd);
    if (written && rename(temp, name) == 0)
        return 0;
    sys = written ? errno : sys;
    unlink(temp);
    errno = sys;
    return -1;
}

uint64_t counter_read(const char *path, const char *key)
{
    char text[1024];
    size_t key_len = strlen(key);
    ssize_t n = path ? read_file(path, text, sizeof(text) - 1) : -1;

    if (n < 0)
        return 0;
    text[n] = '\0';
    for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (strncmp(line, key, key_len) == 0 && line[key_len] == ' ')
            return strtoull(line + key_len + 1, NULL, 10);
    return 0;
}

pid_t pidfile_read(const char *path)
{
    char text[24];
    ssize_t n = read_file(path, text, sizeof(text) - 1);

    if (n <= 0)
        return 0;
    text[n] = '\0';
    return (pid_t)strtol(text, NULL, 10);
}

bool last_line(const char *path, char *ret, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t end;
    ssize_t n;
    char *line;

    if (fd < 0)
        return false;
    end = lseek(fd, 0, SEEK_END);
    n = pread(fd, ret, size - 1, end > (off_t)(size - 1) ? end - (off_t)(size - 1) : 0);
    close(fd);
    while (n > 0 && ret[n - 1] == '\n')
        n--;
    if (n <= 0)
        return false;
    ret[n] = '\0';
    line = strrchr(ret, '\n');
    if (line)
        memmove(ret, line + 1, strlen(line + 1) + 1);
    return true;
}

int sock_listen(const char *name, int type)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -1;
    strncpy(addr.sun_path, name, sizeof(addr.sun_path) - 1);
    unlink(name);
    if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 || chmod(name, 0600) < 0 || listen(fd, 64) < 0) {
        int sys = errno;

        close(fd);
        errno = sys;
        return -1;
    }
    return fd;
}

int sock_take_fd(int sock)
{
    char byte[256];
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    struct iovec iov = {byte, sizeof(byte)};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    struct cmsghdr *head;
    int fd = -1;

    if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) < 0)
        return -1;
    head = CMSG_FIRSTHDR(&msg);
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
        head->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&fd, CMSG_DATA(head), sizeof(int));
    return fd;
}

int sock_send(int sock, const struct shim_msg *msg, const char *data, size_t len, int pass_fd)
{
    struct iovec iov[2] = {{(void *)msg, sizeof(*msg)}, {(void *)data, len}};
    union {
        char space[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct msghdr head = {.msg_iov = iov, .msg_iovlen = len ? 2 : 1};

    if (pass_fd >= 0) {
        struct cmsghdr *cmsg;

        head.msg_control = &control;
        head.msg_controllen = sizeof(control);
        cmsg = CMSG_FIRSTHDR(&head);
        cmsg->cmsg_level = SOL_SOCKET;
        cmsg->cmsg_type = SCM_RIGHTS;
        cmsg->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(cmsg), &pass_fd, sizeof(int));
    }
    return sendmsg(sock, &head, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -1 : 0;
}

void tty_resize(int fd, unsigned rows, unsigned cols)
{
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)cols};

    ioctl(fd, TIOCSWINSZ, &size);
}

bool oci_sealed(void)
{
    int seals = fcntl(SHIM_FD_OCI, F_GET_SEALS);

    return seals > 0 && (seals & F_SEAL_WRITE);
}

struct start {
    const char *const *argv;
    const int *fds;
    const char *hide;
};

/* Runs in the parent's memory, on a stack of its own: only system calls, nothing of the parent may change. */
static int child_exec(void *arg)
{
    static const char *const env[] = {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                                      NULL};
    static const char sorry[] = "cannot execute the OCI runtime\n";
    const struct start *start = arg;
    sigset_t none;

    for (int i = 0; i < 3; i++)
        if (start->fds[i] >= 0)
            dup2(start->fds[i], i);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    /* Slave, not private: what the host mounts later must still reach containers that asked for it. */
    if (start->hide && unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) == 0)
        umount2(start->hide, MNT_DETACH);
    if (oci_sealed())
        execveat(SHIM_FD_OCI, "", (char *const *)start->argv, (char *const *)env, AT_EMPTY_PATH);
    execve(start->argv[0], (char *const *)start->argv, (char *const *)env);
    write_all(2, sorry, sizeof(sorry) - 1);
    _exit(127);
}

/* As vfork does it: half of fork's time, and we go on when it has executed the program. */
pid_t oci_spawn(const char *const *argv, const int fds[3], const char *hide)
{
    static char stack[16384] __attribute__((aligned(16)));
    struct start start = {argv, fds, hide};

    return clone(child_exec, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, &start);
}
