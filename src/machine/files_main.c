/* berth-files: started by the daemon with the caller's rights; files.h has what it understands. */
#include "machine/files.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Paths that are not absolute are below it. It may be on a file server that hangs: nobody else waits here. */
static void go_home(void)
{
    const char *home = getenv("HOME");

    if (home && chdir(home) < 0)
        (void)!chdir("/");
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        puts("berth-files is started by berthd: it serves `berth data`.");
        return strcmp(argv[1], "--help") == 0 ? 0 : 2;
    }
    signal(SIGPIPE, SIG_IGN);
    go_home();
    return files_serve(STDIN_FILENO, STDOUT_FILENO);
}
