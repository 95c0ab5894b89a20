/* echo - how fast an upgraded connection of `hello` echoes: blocks of 16 kB, a few of them under way.
 *
 *     echo https://127.0.0.1:8443 ca.pem [MB] [blocks under way] */
#include "base/clock.h"
#include "net/client.h"

#include <stdio.h>

#define BLOCK (16 << 10)

static int turn(struct client *client, int blocks, struct err *err)
{
    static char data[BLOCK], back[64 << 10];
    size_t left = (size_t)blocks * BLOCK;

    for (int i = 0; i < blocks; i++)
        if (client_write(client, (struct str){data, BLOCK}, err) < 0)
            return -1;
    while (left > 0) {
        ssize_t len = client_read(client, back, left < sizeof(back) ? left : sizeof(back), err);

        if (len <= 0)
            return -1;
        left -= (size_t)len;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const struct http_header headers[] = {{"Connection", "Upgrade"}, {"Upgrade", "echo"}};
    struct client_config config = {.url = argc > 1 ? argv[1] : "", .ca_path = argc > 2 ? argv[2] : NULL};
    CLEANUP(client_free) struct client *client = client_new(&config);
    struct client_answer answer = {0};
    struct err err = {0};
    int64_t start = clock_monotonic(), mb = 1024, blocks = 8;

    if (argc > 3)
        str_to_int(str_from(argv[3]), &mb);
    if (argc > 4)
        str_to_int(str_from(argv[4]), &blocks);
    if (client_upgrade(client, "GET", "/echo", headers, 2, &answer, &err) < 0 || answer.status != 101) {
        fprintf(stderr, "echo: %s\n", err.msg);
        return 1;
    }
    client_answer_done(&answer);
    for (int64_t i = 0; i < (mb << 20) / BLOCK / blocks; i++)
        if (turn(client, (int)blocks, &err) < 0) {
            fprintf(stderr, "echo: %s\n", err.msg);
            return 1;
        }
    printf("%.0f MB/s each way\n", (double)mb / ((double)(clock_monotonic() - start) / 1e9));
    return 0;
}
