/* loop - runs a command N times, P at once, as fast as it can; "%d" in its arguments is the number of the
 * run. Prints runs per second and the median and 90th percentile of one run in milliseconds, as JSON.
 *
 *     loop [-u MOUNT] N P COMMAND ARGUMENT…
 *
 * -u takes a mount out of the commands' view (crun refuses hybrid cgroups otherwise). */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RUNS_MAX 10000
#define ARGS_MAX 64

extern char **environ;

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static pid_t start(char **argv, int number)
{
    static char text[ARGS_MAX][4096];
    char *args[ARGS_MAX + 1];
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    int i = 0;

    for (; i < ARGS_MAX && argv[i]; i++) {
        const char *mark = strstr(argv[i], "%d");

        if (mark)
            snprintf(text[i], sizeof(text[i]), "%.*s%d%s", (int)(mark - argv[i]), argv[i], number, mark + 2);
        args[i] = mark ? text[i] : argv[i];
    }
    args[i] = NULL;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, 1, 2); /* what goes on running must not hold the caller's */
    if (posix_spawnp(&pid, args[0], &actions, NULL, args, environ) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    return pid;
}

int main(int argc, char **argv)
{
    static double begun[RUNS_MAX], took[RUNS_MAX];
    static pid_t pids[RUNS_MAX];
    int runs, parallel, started = 0, ended = 0, failed = 0;
    double first;

    if (argc > 3 && strcmp(argv[1], "-u") == 0) {
        if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) < 0)
            perror("loop: mount namespace");
        (void)umount2(argv[2], MNT_DETACH);
        argv += 2;
        argc -= 2;
    }
    runs = argc > 3 ? atoi(argv[1]) : 0;
    parallel = argc > 3 ? atoi(argv[2]) : 0;
    if (runs < 1 || runs > RUNS_MAX || parallel < 1) {
        fprintf(stderr, "usage: loop [-u MOUNT] N P COMMAND...\n");
        return 2;
    }
    first = now();
    while (ended < runs) {
        int status = 0;
        pid_t pid;

        for (; started < runs && started - ended < parallel; started++) {
            begun[started] = now();
            pids[started] = start(argv + 3, started);
            if (pids[started] < 0) {
                fprintf(stderr, "loop: cannot start %s\n", argv[3]);
                return 1;
            }
        }
        pid = wait(&status);
        for (int i = 0; i < started; i++)
            if (pids[i] == pid) {
                took[ended++] = now() - begun[i];
                failed += status != 0;
                pids[i] = 0;
            }
    }
    first = now() - first;
    qsort(took, (size_t)runs, sizeof(*took), by_size);
    printf("{\"per_s\": %.1f, \"p50\": %.2f, \"p90\": %.2f, \"failed\": %d}\n", runs * 1e3 / first,
           took[runs / 2], took[runs * 9 / 10], failed);
    return failed ? 1 : 0;
}
