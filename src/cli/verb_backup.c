/* berth backup, berth restore. */
#include "base/buf.h"
#include "cli/cli.h"
#include "net/client.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

struct saving {
    int fd, status;
    int64_t bytes;
    struct buf refusal;
    int error;
};

static int write_all(int fd, struct str data)
{
    while (data.len > 0) {
        ssize_t n = write(fd, data.s, data.len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        data.s += n;
        data.len -= (size_t)n;
    }
    return 0;
}

static int save_piece(void *arg, struct str data)
{
    struct saving *saving = arg;

    if (saving->status != 200) {
        buf_str(&saving->refusal, data);
        return 0;
    }
    if (write_all(saving->fd, data) < 0) {
        saving->error = errno;
        return -1;
    }
    saving->bytes += (int64_t)data.len;
    return 0;
}

static int fetch(struct cli *cli, int fd, int64_t *ret_bytes)
{
    struct saving saving = {.fd = fd};
    struct reply who;
    struct err err = {0};
    int code = cli_whoami(cli, &who); /* connects, and says it where nobody listens */

    if (code != CLI_OK)
        return code;
    if (client_stream(cli->client, "GET", "/v1/backup", NULL, 0, (struct str){0}, &saving.status, save_piece,
                      &saving, &err) < 0)
        code = cli_fail(CLI_FAILED, "%s", err.msg);
    else if (saving.error)
        code = cli_fail(CLI_FAILED, "write: %s", strerror(saving.error));
    else if (saving.status != 200)
        code = cli_refused(cli, saving.status, buf_view(&saving.refusal));
    buf_done(&saving.refusal);
    *ret_bytes = saving.bytes;
    return code;
}

int verb_backup(struct cli *cli, const struct args *args)
{
    const char *path = args->rest[0], *part = arena_printf(&cli->arena, "%s.part", path);
    int64_t bytes = 0;
    int fd, code;

    if (streq(path, "-"))
        return fetch(cli, STDOUT_FILENO, &bytes);
    fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return cli_fail(CLI_FAILED, "create '%s': %s", part, strerror(errno));
    code = fetch(cli, fd, &bytes);
    if (code == CLI_OK && (fsync(fd) < 0 || rename(part, path) < 0))
        code = cli_fail(CLI_FAILED, "write '%s': %s", path, strerror(errno));
    close(fd);
    if (code == CLI_OK)
        fprintf(stderr, "wrote %s (%lld bytes)\n", path, (long long)bytes);
    else
        unlink(part);
    return code;
}

int verb_restore(struct cli *cli, const struct args *args)
{
    struct place place = cli_place(cli, NULL);
    char *berthd = find_berthd(cli);

    if (cli->server && !cli->data_flag)
        return cli_fail(CLI_USAGE,
                        "say which data folder to restore into, on the daemon's own machine: berth restore "
                        "--data DIR %s",
                        args->rest[0]);
    fprintf(stderr, "restoring into %s\n", place.data_dir);
    execlp(berthd, berthd, "--data", place.data_dir, "--restore", args->rest[0], (char *)NULL);
    return cli_fail(CLI_FAILED, "run '%s': %s", berthd, strerror(errno));
}
