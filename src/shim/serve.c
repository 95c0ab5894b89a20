/* The process that shims are forked from: small and with everything it needs in memory, so that a shim is
 * there in a tenth of the time that a program takes to be started. It does nothing else, and ends with
 * berthd; shims go on, as children of nobody.
 *
 * A request is one message: a struct serve_head, then words each ended by a NUL ("run", ID or "exec", ID,
 * NUMBER), and descriptors: the container's folder, the shim's end of its control socket, then those of 0, 1
 * and 2 that the head names. */
#include "shim/shim.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define FDS_MAX   5
#define WORDS_MAX 3

struct request {
    struct serve_head head;
    char text[SERVE_TEXT_MAX + 1];
    const char *words[WORDS_MAX];
    size_t words_len;
    int fds[FDS_MAX];
    size_t fds_len;
};

static void take_fds(struct request *r, struct msghdr *head)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(head); c; c = CMSG_NXTHDR(head, c)) {
        size_t n = c->cmsg_len > CMSG_LEN(0) ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int) : 0;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || n > FDS_MAX)
            continue;
        memcpy(r->fds, CMSG_DATA(c), n * sizeof(int));
        r->fds_len = n;
    }
}

/* False: berthd is gone. */
static bool receive(struct request *r)
{
    struct iovec iov[2] = {{&r->head, sizeof(r->head)}, {r->text, SERVE_TEXT_MAX}};
    union {
        char space[CMSG_SPACE(sizeof(int) * FDS_MAX)];
        struct cmsghdr align;
    } space;
    struct msghdr head = {
        .msg_iov = iov, .msg_iovlen = 2, .msg_control = &space, .msg_controllen = sizeof(space)};
    ssize_t n;

    memset(r, 0, sizeof(*r));
    do
        n = recvmsg(SHIM_FD_CONTROL, &head, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return false;
    take_fds(r, &head);
    for (char *at = r->text, *end = r->text + (n - (ssize_t)sizeof(r->head));
         at < end && r->words_len < WORDS_MAX; at += strlen(at) + 1)
        r->words[r->words_len++] = at;
    return true;
}

static bool take_stdio(const struct request *r, int nulls)
{
    int null = null_new(nulls);
    size_t at = 2;

    for (int fd = 0; fd < 3; fd++) {
        bool given = r->head.stdio >> fd & 1;

        if ((given && at >= r->fds_len) || dup2(given ? r->fds[at++] : null, fd) < 0)
            return false;
    }
    return true;
}

/* For who looks at the list of processes. */
static void set_title(char *title, size_t room, const struct request *r)
{
    memset(title, 0, room);
    snprintf(title, room, "berth-shim %s %s", r->words[0], r->words[1]);
}

static int become(const struct request *r, int nulls, char *title, size_t room)
{
    bool run = r->words_len == 2 && strcmp(r->words[0], "run") == 0;
    bool exec = r->words_len == 3 && strcmp(r->words[0], "exec") == 0;

    if ((!run && !exec) || r->fds_len < 2 || fchdir(r->fds[0]) < 0 || !take_stdio(r, nulls) ||
        dup2(r->fds[1], SHIM_FD_CONTROL) < 0 || setsid() < 0)
        return 1;
    signal(SIGCHLD, SIG_DFL);
    set_title(title, room, r);
    shim_close_others(true);
    return run ? shim_run(r->words[1]) : shim_exec(r->words[1], r->words[2]);
}

int shim_serve(char *title, size_t room)
{
    static struct request request;
    int nulls = nulls_new();

    signal(SIGCHLD, SIG_IGN); /* nobody waits for them */
    while (receive(&request)) {
        pid_t pid = fork();

        if (pid == 0)
            _exit(become(&request, nulls, title, room));
        for (size_t i = 0; i < request.fds_len; i++) /* where there was no fork, this tells berthd */
            close(request.fds[i]);
    }
    return 0;
}
