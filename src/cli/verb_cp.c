/* berth cp: a tar here and a tar in the container, the archive between them through exec. What comes from a
 * container is unpacked into a fresh folder first (cp_place.h). */
#include "base/buf.h"
#include "base/mem.h"
#include "cli/cp_place.h"
#include "cli/verb_exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;

/* One side of the copy. */
struct side {
    const char *pod; /* as target_find reads it; NULL: this machine */
    char *path;
};

/* "POD:PATH", POD as target_find takes it; everything else, also "./a:b" and "/a:b", is a path here. */
static struct side read_side(struct cli *cli, const char *word)
{
    const char *colon = strchr(word, ':');
    struct side side = {0};

    if (!colon || word[0] == '/' || word[0] == '.' || colon == word) {
        side.path = arena_strdup(&cli->arena, word);
    } else {
        side.pod = arena_strndup(&cli->arena, word, (size_t)(colon - word));
        side.path = arena_strdup(&cli->arena, colon + 1);
    }
    for (size_t len = strlen(side.path); len > 1 && side.path[len - 1] == '/'; len--)
        side.path[len - 1] = '\0';
    return side;
}

static const char *base_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

static const char *folder_of(struct cli *cli, const char *path)
{
    const char *slash = strrchr(path, '/');

    if (!slash)
        return ".";
    return slash == path ? "/" : arena_strndup(&cli->arena, path, (size_t)(slash - path));
}

/* sed for tar: the first part of each name becomes `to`; what symbolic links point at stays. */
static const char *rename_rule(struct cli *cli, const char *from, const char *to)
{
    CLEANUP(buf_done) struct buf rule = {0};

    buf_puts(&rule, "--transform=s,^");
    for (; *from; from++) {
        if (strchr(".*[]^$\\,", *from))
            buf_putc(&rule, '\\');
        buf_putc(&rule, *from);
    }
    buf_puts(&rule, "\\(/\\|$\\),");
    for (; *to; to++) {
        if (strchr("\\&,", *to))
            buf_putc(&rule, '\\');
        buf_putc(&rule, *to);
    }
    buf_puts(&rule, "\\1,rhS");
    return arena_strndup(&cli->arena, rule.data, rule.len);
}

/* Our own tar with a pipe at its stdin (0) or stdout (1). */
static int start_tar(const char *const *argv, int which, pid_t *ret_pid, int *ret_fd)
{
    posix_spawn_file_actions_t actions;
    int fds[2], rc;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return cli_fail(CLI_FAILED, "pipe: %s", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[which], which);
    rc = posix_spawnp(ret_pid, "tar", &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[which]);
    *ret_fd = fds[!which];
    if (rc == 0)
        return CLI_OK;
    close(*ret_fd);
    return cli_fail(CLI_FAILED, "tar: %s", strerror(rc));
}

/* The code of the worse of the two: the remote command's, else our tar's. */
static int finish(int code, int remote_code, pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (code != CLI_OK)
        return code;
    if (remote_code != 0)
        return cli_fail(CLI_FAILED, "tar in the container ended with %d", remote_code);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? CLI_OK
                                                         : cli_fail(CLI_FAILED, "tar failed on this machine");
}

static int upload(struct cli *cli, struct remote remote, const char *from, const char *to)
{
    const char *test[] = {"test", "-d", to, NULL};
    const char *unpack[] = {"tar", "-xmf", "-", "-C", NULL, NULL};
    const char *pack[] = {"tar", "-cf", "-", "-C", folder_of(cli, from), NULL, "--", base_of(from), NULL};
    struct stat st;
    int code, remote_code = 0, fd = -1;
    pid_t pid = 0;

    if (stat(from, &st) < 0)
        return cli_fail(errno == ENOENT ? CLI_NOT_FOUND : CLI_FAILED, "%s: %s", from, strerror(errno));
    remote.argv = test;
    code = remote_run(cli, &remote, &remote_code);
    if (code != CLI_OK)
        return code;
    if (remote_code == 0)
        to = arena_printf(&cli->arena, "%s/%s", to, base_of(from));
    unpack[4] = folder_of(cli, to);
    pack[5] = rename_rule(cli, base_of(from), base_of(to));
    code = start_tar(pack, 1, &pid, &fd);
    if (code != CLI_OK)
        return code;
    remote.argv = unpack;
    remote.in = true;
    remote.in_fd = fd;
    code = remote_run(cli, &remote, &remote_code);
    close(fd);
    return finish(code, remote_code, pid);
}

/* Of what the pod sends only the file or folder that was asked for is taken. */
static int receive(struct cli *cli, struct remote remote, const char *const *pack, const char *const *unpack)
{
    int code, remote_code = 0, fd = -1;
    pid_t pid = 0;

    code = start_tar(unpack, 0, &pid, &fd);
    if (code != CLI_OK)
        return code;
    remote.argv = pack;
    remote.out_fd = fd;
    code = remote_run(cli, &remote, &remote_code);
    close(fd);
    return finish(code, remote_code, pid);
}

static int download(struct cli *cli, struct remote remote, const char *from, const char *to)
{
    const char *base = streq(from, "/") ? "." : base_of(from), *fresh, *top;
    bool whole = streq(base, "."); /* what is in the folder goes with it */
    const char *pack[] = {"tar", "cf", "-", "-C", folder_of(cli, from), "--", base, NULL};
    const char *unpack[] = {"tar", "-xf", "-", "--no-same-owner", "--no-same-permissions", "-C", NULL,
                            "--",  base,  NULL};
    int code, placed = CLI_OK;
    struct stat st;

    if (streq(base, ".."))
        return cli_fail(CLI_USAGE, "%s: name the folder instead of '..'", from);
    if (stat(to, &st) == 0 && S_ISDIR(st.st_mode) && !whole)
        to = arena_printf(&cli->arena, "%s/%s", to, base);
    fresh = cp_fresh(cli, folder_of(cli, to));
    if (!fresh)
        return CLI_FAILED;
    top = unpack[6] = arena_printf(&cli->arena, "%s/copy", fresh); /* an archive may change its mode */
    code = mkdir(top, 0700) < 0 ? cli_fail(CLI_FAILED, "%s: %s", top, strerror(errno))
                                : receive(cli, remote, pack, unpack);
    /* What came before an error is worth having. */
    if (code == CLI_OK || lstat(arena_printf(&cli->arena, "%s/%s", top, base), &st) == 0)
        placed = whole ? cp_place(fresh, "copy", to) : cp_place(top, base, to);
    cp_fresh_end();
    return code != CLI_OK ? code : placed;
}

int verb_cp(struct cli *cli, const struct args *args)
{
    struct side from = read_side(cli, args->rest[0]), to = read_side(cli, args->rest[1]);
    const struct side *there = from.pod ? &from : &to;
    struct remote remote = {.container = args_get(args, "container"), .out_fd = 1, .err_fd = 2};
    struct target target;
    int code;

    if (!from.pod == !to.pod)
        return cli_usage_error(args->verb, "one of the two must be POD:PATH");
    if (!from.path[0] || !to.path[0])
        return cli_usage_error(args->verb, "a path is missing");
    code = target_find_live(cli, args, there->pod, &target);
    if (code != CLI_OK)
        return code;
    remote.ns = target.ns;
    remote.pod = target.pod;
    return from.pod ? download(cli, remote, from.path, to.path) : upload(cli, remote, from.path, to.path);
}
