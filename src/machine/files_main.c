/* berth-files: started by the daemon with the caller's rights; files.h has what it understands. */
#include "machine/files.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    if (argc > 1) {
        puts("berth-files is started by berthd: it serves `berth data`.");
        return strcmp(argv[1], "--help") == 0 ? 0 : 2;
    }
    signal(SIGPIPE, SIG_IGN);
    return files_serve(STDIN_FILENO, STDOUT_FILENO);
}
