/* forward - see forward.h. By the iptables program, whichever of its two kinds the host uses; once at start.
 */
#define LOG_MODULE "podnet"
#include "podnet/forward.h"

#include "base/buf.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#define OUTPUT_MAX (1 << 20)

/* Exit status of the program with its output in *ret; -1: there is no such program. */
static int run(const char *const *argv, struct buf *ret)
{
    posix_spawn_file_actions_t files;
    int out[2], status = -1;
    ssize_t n;
    pid_t pid;

    if (pipe2(out, O_CLOEXEC) < 0)
        return -1;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
    posix_spawn_file_actions_adddup2(&files, out[1], 1);
    posix_spawn_file_actions_adddup2(&files, 0, 2);
    status = posix_spawnp(&pid, argv[0], &files, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&files);
    close(out[1]);
    if (status == 0) {
        do {
            n = read(out[0], buf_reserve(ret, 4096), 4096);
            ret->len += n > 0 ? (size_t)n : 0;
        } while ((n > 0 || (n < 0 && errno == EINTR)) && ret->len < OUTPUT_MAX);
        fd_close(take_fd(&out[0])); /* one that has more to say does not wait for us */
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    } else {
        status = -1;
    }
    fd_close(out[0]);
    return status;
}

static int rule(const char *command, const char *direction, const char *bridge)
{
    const char *argv[] = {"iptables", "-w",      "5",         command, "FORWARD", direction, bridge,
                          "-m",       "comment", "--comment", "berth", "-j",      "ACCEPT",  NULL};
    CLEANUP(buf_done) struct buf out = {0};

    return run(argv, &out);
}

static const char *const directions[] = {"-i", "-o"};

static bool drops(void)
{
    static const char *const argv[] = {"iptables", "-w", "5", "-S", "FORWARD", NULL};
    CLEANUP(buf_done) struct buf out = {0};

    return run(argv, &out) == 0 && str_starts(buf_view(&out), "-P FORWARD DROP");
}

void forward_allow(const char *bridge)
{
    if (!drops())
        return;
    for (size_t i = 0; i < ARRAY_LEN(directions); i++)
        if (rule("-C", directions[i], bridge) != 0 && rule("-I", directions[i], bridge) != 0)
            log_warn("the host's firewall drops forwarded packets, and no rule can be added for %s", bridge);
}

void forward_forget(const char *bridge)
{
    if (!drops())
        return;
    for (size_t i = 0; i < ARRAY_LEN(directions); i++)
        (void)rule("-D", directions[i], bridge);
}
