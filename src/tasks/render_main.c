/* berth-render: started by the daemon, which speaks to it on descriptor 0. */
#include "tasks/render_wire.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

int main(void)
{
    int type;
    socklen_t len = sizeof(type);

    if (getsockopt(STDIN_FILENO, SOL_SOCKET, SO_TYPE, &type, &len) < 0) {
        puts("berth-render is started by berthd: it renders templates for it.");
        return 2;
    }
    _exit(render_serve(STDIN_FILENO)); /* what it holds goes with it, and nothing is to be looked for */
}
