/* berth-shim - one per container; see proto.h and docs/adr. Started by berthd:
 *
 *   berth-shim serve TITLE     forks shims: "run ID" is that of a container, "exec ID NUMBER" of a command in
 * it berth-shim pause           first process of a pod's pid namespace: reaps, ends on TERM
 *
 * Everything else a shim needs is in a file of its container's folder, so nothing a user can name is on its
 * command line. */
#include "shim/shim.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void shim_close_others(bool keep_stdio)
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
    if (argc == 2 && strcmp(argv[1], "try") == 0) /* in the container that shows that containers work */
        return 0;
    if (argc == 3 && strcmp(argv[1], "serve") == 0) {
        shim_close_others(false);
        if (!oci_sealed())
            open("/dev/null", O_RDWR | O_CLOEXEC); /* so that its number is not given to what is received */
        return shim_serve(argv[0], (size_t)(argv[2] + strlen(argv[2]) - argv[0]));
    }
    write_all(2, usage, sizeof(usage) - 1);
    return 2;
}
