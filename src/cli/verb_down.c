/* berth down: SIGTERM to whoever listens on the socket (the kernel says who), else to the process named in
 * DATA/berthd.pid, and a wait until it is gone. */
#include "base/file.h"
#include "cli/cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>

#define STOP_WAIT_SEC 30

/* The process of the pid file, if that is a berthd; else 0. */
static pid_t pid_from_file(struct cli *cli, const char *data_dir)
{
    CLEANUP(buf_done) struct buf text = {0}, comm = {0};
    int64_t pid;

    if (file_read(arena_printf(&cli->arena, "%s/berthd.pid", data_dir), 64, &text, NULL) < 0)
        return 0;
    while (text.len && text.data[text.len - 1] == '\n')
        text.data[--text.len] = '\0';
    if (!str_to_int(buf_view(&text), &pid) || pid <= 1 || pid > INT32_MAX ||
        file_read(arena_printf(&cli->arena, "/proc/%d/comm", (int)pid), 64, &comm, NULL) < 0 ||
        !streq(comm.data, "berthd\n"))
        return 0;
    return (pid_t)pid;
}

int verb_down(struct cli *cli, const struct args *args)
{
    struct place place = cli_place(cli, NULL);
    CLEANUP(fd_close) int pid_fd = -1;
    struct pollfd wait = {.events = POLLIN};
    pid_t pid = 0;

    (void)args;
    if (cli->server && starts_with(cli->server, "unix:"))
        place.socket = cli->server + strlen("unix:");
    if (!socket_answers(place.socket, &pid) || pid == 0)
        pid = pid_from_file(cli, place.data_dir);
    if (pid == 0) {
        printf("Berth is not running (nobody listens on %s).\n", place.socket);
        return CLI_OK;
    }
    pid_fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pid_fd < 0 || syscall(SYS_pidfd_send_signal, pid_fd, SIGTERM, NULL, 0) < 0) {
        if (errno == ESRCH)
            return CLI_OK;
        return cli_fail(errno == EPERM ? CLI_DENIED : CLI_FAILED, "cannot stop process %d: %s", (int)pid,
                        strerror(errno));
    }
    wait.fd = pid_fd;
    if (poll(&wait, 1, STOP_WAIT_SEC * 1000) != 1)
        return cli_fail(CLI_FAILED, "process %d has not ended within %d s of SIGTERM", (int)pid,
                        STOP_WAIT_SEC);
    puts("Berth has stopped.");
    return CLI_OK;
}
