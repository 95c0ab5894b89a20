/* Starts shims: asks the process that forks them (src/shim/serve.c), which is started with the first one. */
#include "base/mem.h"
#include "runtime/runtime_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define FDS_MAX 5

static int set_actions(posix_spawn_file_actions_t *actions, int control, int oci)
{
    int rc = posix_spawn_file_actions_addchdir_np(actions, "/");

    for (int fd = 0; fd < 3 && rc == 0; fd++)
        rc = posix_spawn_file_actions_addopen(actions, fd, "/dev/null", O_RDWR, 0);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(actions, control, SHIM_FD_CONTROL);
    if (rc == 0 && oci >= 0)
        rc = posix_spawn_file_actions_adddup2(actions, oci, SHIM_FD_OCI);
    else if (rc == 0)
        rc = posix_spawn_file_actions_addopen(actions, SHIM_FD_OCI, "/dev/null", O_RDWR, 0);
    return rc;
}

static int spawn(struct runtime *rt, int control, struct err *err)
{
    char title[SERVE_TITLE_ROOM] = ""; /* room for what its children are called */
    const char *const argv[] = {"berth-shim", "serve", title, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int rc;

    memset(title, ' ', sizeof(title) - 1);
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    rc = set_actions(&actions, control, rt->oci_fd);
    if (rc == 0)
        rc = posix_spawn(&rt->nursery_pid, rt->shim_path, &actions, &attr, (char *const *)argv,
                         (char *const[]){NULL});
    posix_spawnattr_destroy(&attr);
    posix_spawn_file_actions_destroy(&actions);
    return rc ? err_errno(err, rc, "start '%s'", rt->shim_path) : 0;
}

static int nursery_start(struct runtime *rt, struct err *err)
{
    CLEANUP(fd_close) int ours = -1, theirs = -1;
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return err_errno(err, errno, "make a socket pair");
    ours = pair[0];
    /* Out of the way of the numbers it gets in the child: a duplicate onto itself would stay close-on-exec.
     */
    theirs = fcntl(pair[1], F_DUPFD_CLOEXEC, SHIM_FD_OCI + 1);
    close(pair[1]);
    if (theirs < 0)
        return err_errno(err, errno, "make a socket pair");
    if (spawn(rt, theirs, err) < 0)
        return -1;
    rt->nursery = take_fd(&ours);
    rt->nursery_turn++;
    return 0;
}

void nursery_end(struct runtime *rt)
{
    if (rt->nursery < 0)
        return;
    fd_close(rt->nursery);
    rt->nursery = -1;
    kill(rt->nursery_pid, SIGKILL); /* not reaped yet, so the pid is its own */
    while (waitpid(rt->nursery_pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static int ask(const struct runtime *rt, const struct serve_head *head, const char *text, size_t len,
               const int *fds, size_t fds_len)
{
    struct iovec iov[2] = {{(void *)head, sizeof(*head)}, {(void *)text, len}};
    union {
        char space[CMSG_SPACE(sizeof(int) * FDS_MAX)];
        struct cmsghdr align;
    } space = {0};
    struct msghdr msg = {.msg_iov = iov,
                         .msg_iovlen = 2,
                         .msg_control = &space,
                         .msg_controllen = CMSG_SPACE(sizeof(int) * fds_len)};
    struct cmsghdr *cmsg = CMSG_FIRSTHDR(&msg);
    ssize_t n;

    cmsg->cmsg_level = SOL_SOCKET;
    cmsg->cmsg_type = SCM_RIGHTS;
    cmsg->cmsg_len = CMSG_LEN(sizeof(int) * fds_len);
    memcpy(CMSG_DATA(cmsg), fds, sizeof(int) * fds_len);
    do
        n = sendmsg(rt->nursery, &msg, MSG_NOSIGNAL | MSG_DONTWAIT); /* one that does not read is replaced */
    while (n < 0 && errno == EINTR);
    return n < 0 ? -1 : 0;
}

int nursery_shim(struct runtime *rt, const char *dir, const char *const *words, const int *stdio, int control,
                 struct err *err)
{
    CLEANUP(fd_close) int dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fds[FDS_MAX] = {dir_fd, control};
    struct serve_head head = {0};
    char text[SERVE_TEXT_MAX];
    size_t len = 0, n = 2;

    if (dir_fd < 0)
        return err_errno(err, errno, "open '%s'", dir);
    for (; *words; words++) {
        size_t part = strlen(*words) + 1;

        if (len + part > sizeof(text))
            return err_set(err, ERR_INVALID, "'%s' is too long", *words);
        memcpy(text + len, *words, part);
        len += part;
    }
    for (int i = 0; i < 3 && stdio; i++)
        if (stdio[i] >= 0) {
            head.stdio |= 1U << i;
            fds[n++] = stdio[i];
        }
    for (int tries = 0; tries < 2; tries++) { /* somebody may have killed it */
        if (rt->nursery < 0 && nursery_start(rt, err) < 0)
            return -1;
        if (ask(rt, &head, text, len, fds, n) == 0)
            return 0;
        err_errno(err, errno, "ask berth-shim for another one");
        nursery_end(rt);
    }
    return -1;
}
