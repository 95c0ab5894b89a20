/* berth-shim - one per container; see proto.h and docs/adr. Started by berthd in the container's folder:
 *
 *   berth-shim run ID          the shim of a container; leaves its parent at once
 *   berth-shim exec ID NUMBER  one command in it; leaves its parent, too
 *   berth-shim pause           first process of a pod's pid namespace: reaps, ends on TERM
 *
 * Everything else it needs is in a file of that folder, so nothing a user can name is on its command line. */
#include "shim/shim.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* 0, 1 and 2 are there, SHIM_FD_CONTROL and SHIM_FD_OCI are ours, nothing else is open. */
static void close_others(bool keep_stdio)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    for (int fd = 0; fd < 3 && null >= 0; fd++)
        if (!keep_stdio || fcntl(fd, F_GETFD) < 0)
            dup2(null, fd);
    fcntl(SHIM_FD_CONTROL, F_SETFD, FD_CLOEXEC);
    if (!oci_sealed())
        close(SHIM_FD_OCI); /* something of the starter's */
    else
        fcntl(SHIM_FD_OCI, F_SETFD, FD_CLOEXEC);
    close_range(SHIM_FD_OCI + 1, ~0U, 0);
}

/* The starter gets its child back at once; the shim itself belongs to nobody. */
static bool leave_parent(void)
{
    pid_t pid = fork();

    if (pid < 0)
        _exit(1);
    if (pid > 0)
        _exit(0);
    return setsid() >= 0;
}

static int pause_here(void)
{
    sigset_t mask;
    int signo;

    sigemptyset(&mask);
    sigaddset(&mask, SIGTERM);
    sigaddset(&mask, SIGINT);
    sigaddset(&mask, SIGCHLD);
    sigprocmask(SIG_BLOCK, &mask, NULL);
    while (sigwait(&mask, &signo) == 0) {
        if (signo != SIGCHLD)
            return 0;
        while (waitpid(-1, NULL, WNOHANG) > 0)
            ;
    }
    return 1;
}

int main(int argc, char **argv)
{
    static const char usage[] = "berth-shim is started by berthd; see docs/adr in its source\n";

    if (argc == 2 && strcmp(argv[1], "pause") == 0)
        return pause_here();
    if (argc == 3 && strcmp(argv[1], "run") == 0) {
        close_others(false);
        return leave_parent() ? shim_run(argv[2]) : 1;
    }
    if (argc == 4 && strcmp(argv[1], "exec") == 0) {
        close_others(true);
        return leave_parent() ? shim_exec(argv[2], argv[3]) : 1;
    }
    write_all(2, usage, sizeof(usage) - 1);
    return 2;
}
