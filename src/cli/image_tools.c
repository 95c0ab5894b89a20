/* Passwords are in a file of mode 0600 in a folder of mode 0700 while a program runs that needs them: never
 * in an argument or in the environment. */
#include "cli/image_tools.h"

#include "base/file.h"
#include "base/mem.h"
#include "net/client.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROTOCOL       "berth-stream"
#define FRAME          (1 << 18)
#define SHOW_BYTES     (64 << 20) /* between two lines about an upload */
#define SHOW_TTY_BYTES (4 << 20)  /* the same where the line is written over */

extern char **environ;

/* ---- names ---- */

const char *image_host_of(struct cli *cli, const char *name)
{
    const char *slash = strchr(name, '/');
    const char *host = slash ? arena_strndup(&cli->arena, name, (size_t)(slash - name)) : "";

    return strchr(host, '.') || strchr(host, ':') || streq(host, "localhost") ? host : "docker.io";
}

const char *image_full_name(struct cli *cli, const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *tag = strchr(slash ? slash : name, ':') || strchr(name, '@') ? "" : ":latest";

    if (strchr(name, '/') &&
        (!streq(image_host_of(cli, name), "docker.io") || starts_with(name, "docker.io/")))
        return arena_printf(&cli->arena, "%s%s", name, tag);
    return arena_printf(&cli->arena, "docker.io/%s%s%s", slash ? "" : "library/", name, tag);
}

const struct json *image_registry(const struct image_tools *tools, const char *host)
{
    JSON_EACH(json_get(tools->doc, "registries"), it)
        if (streq(json_get_string(it, "host"), host))
            return it;
    return NULL;
}

/* ---- files ---- */

static void write_registries(struct buf *out, const struct json *doc)
{
    buf_puts(out, "unqualified-search-registries = [\"docker.io\"]\nshort-name-mode = \"disabled\"\n");
    JSON_EACH(json_get(doc, "registries"), it) {
        const char *host = json_string_or(json_get(it, "host"), ""), *mirror = json_get_string(it, "mirror");

        buf_printf(out, "[[registry]]\nprefix = \"%s\"\nlocation = \"%s\"\ninsecure = %s\n", host, host,
                   json_bool(json_get(it, "insecure")) ? "true" : "false");
        if (mirror)
            buf_printf(out, "[[registry.mirror]]\nlocation = \"%s\"\ninsecure = %s\n", mirror,
                       json_bool(json_get(it, "mirrorInsecure")) ? "true" : "false");
    }
}

/* buildah and skopeo take certificates as a folder with files *.crt. */
static int write_cas(struct cli *cli, struct image_tools *tools, struct err *err)
{
    CLEANUP(buf_done) struct buf text = {0};

    JSON_EACH(json_get(tools->doc, "registries"), it)
        if (json_get_string(it, "ca"))
            buf_printf(&text, "%s\n", json_get_string(it, "ca"));
    if (!text.len)
        return 0;
    tools->cert_dir = tools->dir;
    return file_write_atomic(arena_printf(&cli->arena, "%s/ca.crt", tools->dir), buf_view(&text), 0600, err);
}

static int write_files(struct cli *cli, struct image_tools *tools, struct err *err)
{
    CLEANUP(buf_done) struct buf auth = {0};
    CLEANUP(buf_done) struct buf registries = {0};
    const struct json *config = json_get(tools->doc, "config");
    int result;

    if (config)
        json_write(&auth, config);
    else
        buf_puts(&auth, "{\"auths\":{}}");
    write_registries(&registries, tools->doc);
    tools->auth = arena_printf(&cli->arena, "%s/auth.json", tools->dir);
    tools->registries_conf = arena_printf(&cli->arena, "%s/registries.conf", tools->dir);
    result = file_write_atomic(tools->auth, buf_view(&auth), 0600, err);
    explicit_bzero(auth.data, auth.len);
    if (result == 0)
        result = file_write_atomic(tools->registries_conf, buf_view(&registries), 0600, err);
    return result == 0 ? write_cas(cli, tools, err) : -1;
}

/* ---- what goes at the end, also when a signal is the end ---- */

static char *doomed[16]; /* files, then their folders */
static volatile sig_atomic_t doomed_len;

static void remove_doomed(void)
{
    for (int i = 0; i < doomed_len; i++)
        if (unlink(doomed[i]) < 0)
            rmdir(doomed[i]);
}

static void on_signal(int number)
{
    remove_doomed();
    signal(number, SIG_DFL);
    raise(number);
}

static void catch_signals(void (*handler)(int number))
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction now;

    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            signal(numbers[i], handler);
}

/* A folder of mode 0700 that goes at the end with the files of those names. */
static const char *make_folder(struct cli *cli, const char *in, const char *const *names, size_t len)
{
    char *dir = arena_printf(&cli->arena, "%s/berth-XXXXXX", in);

    assert((size_t)doomed_len + len + 1 <= ARRAY_LEN(doomed));
    if (!mkdtemp(dir))
        return NULL;
    for (size_t i = 0; i < len; i++) {
        doomed[doomed_len] = arena_printf(&cli->arena, "%s/%s", dir, names[i]);
        doomed_len++;
    }
    doomed[doomed_len] = dir;
    doomed_len++;
    return dir;
}

/* Passwords go where memory is, images to a disk. */
static const char *disk_folder(void)
{
    const char *tmp = getenv("TMPDIR");

    return tmp && tmp[0] == '/' ? tmp : "/var/tmp";
}

int image_tools_open(struct cli *cli, struct image_tools *ret)
{
    static const char *const names[] = {"auth.json", "registries.conf", "login.json", "Dockerfile", "ca.crt"};
    const char *run = getenv("XDG_RUNTIME_DIR");
    struct image_tools tools = {0};
    struct reply reply;
    struct err err = {0};
    int code = cli_get(cli, "/v1/logins?secrets=1", &reply);

    if (code != CLI_OK)
        return code;
    tools.doc = reply.doc;
    tools.push_to = json_get_string(reply.doc, "pushTo");
    if (!run || access(run, W_OK) < 0)
        run = getenv("TMPDIR") ? disk_folder() : "/tmp";
    catch_signals(on_signal);
    tools.dir = make_folder(cli, run, names, ARRAY_LEN(names));
    if (!tools.dir)
        return cli_fail(CLI_FAILED, "make a folder in %s: %s", run, strerror(errno));
    *ret = tools;
    if (write_files(cli, ret, &err) < 0) {
        image_tools_done(ret);
        return cli_fail(CLI_FAILED, "%s", err.msg);
    }
    return CLI_OK;
}

const char *image_tools_archive(struct cli *cli)
{
    static const char *const names[] = {"image.tar"};
    const char *dir = make_folder(cli, disk_folder(), names, ARRAY_LEN(names));

    if (dir)
        return arena_printf(&cli->arena, "%s/image.tar", dir);
    cli_fail(CLI_FAILED, "make a folder in %s: %s", disk_folder(), strerror(errno));
    return NULL;
}

void image_tools_done(struct image_tools *tools)
{
    if (!tools->dir)
        return;
    remove_doomed();
    doomed_len = 0;
    catch_signals(SIG_DFL);
    tools->dir = NULL;
}

/* ---- programs ---- */

/* What builds keep (layers, for the next build) is the caller's, apart from podman's. */
void buildah_args(struct cli *cli, const struct image_tools *tools, const char **argv)
{
    const char *store = getenv("BERTH_BUILD_STORE"), *home = getenv("HOME"), *xdg = getenv("XDG_DATA_HOME"),
               *run = getenv("XDG_RUNTIME_DIR");

    if (!store && geteuid() == 0)
        store = "/var/lib/berth/build";
    else if (!store && xdg && xdg[0] == '/')
        store = arena_printf(&cli->arena, "%s/berth/build", xdg);
    else if (!store)
        store = arena_printf(&cli->arena, "%s/.local/share/berth/build", home ? home : "");
    memset(argv, 0, TOOL_ARGS_MAX * sizeof(*argv));
    tool_arg(argv, "buildah");
    tool_arg(argv, arena_printf(&cli->arena, "--root=%s", store));
    if (run && access(run, W_OK) == 0)
        tool_arg(argv, arena_printf(&cli->arena, "--runroot=%s/berth-build", run));
    else
        tool_arg(argv, arena_printf(&cli->arena, "--runroot=%s/berth-build-%u",
                                    geteuid() == 0 ? "/run" : "/tmp", (unsigned)geteuid()));
    tool_arg(argv, arena_printf(&cli->arena, "--registries-conf=%s", tools->registries_conf));
    tool_arg(argv, "--log-level=error");
}

/* ---- to the daemon ---- */

static void take_line(struct image_lines *lines, const char *line)
{
    if (starts_with(line, "ok ")) {
        lines->ok = true;
    } else if (starts_with(line, "fail ")) {
        lines->failed = true;
        if (lines->tty)
            fputs("\r\033[K", stderr);
        cli_fail(0, "%s", line + strlen("fail "));
    } else if (lines->tty && starts_with(line, "layer ")) {
        bool last = ends_with(line, ": done") || ends_with(line, ": already here");

        fprintf(stderr, "\r%s\033[K%s", line, last ? "\n" : "");
    } else {
        fprintf(stderr, "%s\n", line);
    }
}

struct image_lines image_lines_new(void)
{
    return (struct image_lines){.tty = isatty(2)};
}

int image_lines_take(void *arg, struct str data)
{
    struct image_lines *lines = arg;
    char *end;

    buf_str(&lines->rest, data);
    while (lines->rest.len && (end = memchr(lines->rest.data, '\n', lines->rest.len))) {
        *end = '\0';
        text_tame(lines->rest.data, (size_t)(end - lines->rest.data));
        take_line(lines, lines->rest.data);
        buf_drop(&lines->rest, (size_t)(end - lines->rest.data) + 1);
    }
    return 0;
}

static int send_frames(struct client *client, int fd, int64_t total, struct err *err)
{
    CLEANUP(free) char *block = mem_alloc(FRAME + 4);
    int64_t done = 0, shown = 0;
    bool tty = isatty(2);
    ssize_t n;

    do {
        do
            n = read(fd, block + 4, FRAME);
        while (n < 0 && errno == EINTR);
        if (n < 0)
            return err_errno(err, errno, "read the archive");
        for (int i = 0; i < 4; i++)
            block[i] = (char)(unsigned char)((size_t)n >> (24 - 8 * i));
        if (client_write(client, (struct str){block, (size_t)n + 4}, err) < 0)
            return -1;
        done += n;
        if (done - shown >= (tty ? SHOW_TTY_BYTES : SHOW_BYTES)) {
            shown = done;
            fprintf(stderr, "%ssent %lld", tty ? "\r" : "", (long long)(done / 1000000));
            if (total > done) /* else a pipe, or a folder on its way through tar */
                fprintf(stderr, " of %lld", (long long)(total / 1000000));
            fprintf(stderr, " MB%s", tty ? "\033[K" : "\n");
        }
    } while (n > 0);
    if (tty && shown)
        fputs("\r\033[K", stderr);
    return 0;
}

/* A folder is sent as tar packs it. */
static int open_archive(const char *path, pid_t *tar, int64_t *size)
{
    const char *argv[] = {"tar", "-cf", "-", "-C", path, ".", NULL};
    posix_spawn_file_actions_t actions;
    struct stat st;
    int ends[2];

    *tar = 0;
    if (stat(path, &st) < 0)
        return -1;
    *size = st.st_size;
    if (!S_ISDIR(st.st_mode))
        return open(path, O_RDONLY | O_CLOEXEC);
    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    errno = posix_spawnp(tar, "tar", &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (errno != 0) {
        close(ends[0]);
        return -1;
    }
    return ends[0];
}

static int upgrade(struct cli *cli, const char *target)
{
    static const struct http_header headers[] = {
        {"Connection", "Upgrade"}, {"Upgrade", PROTOCOL}, {"User-Agent", "berth/" BERTH_VERSION}};
    struct client_answer answer = {.status = 0};
    struct err err = {0};
    int code = CLI_OK;

    if (client_upgrade(cli->client, "GET", target, headers, ARRAY_LEN(headers), &answer, &err) < 0)
        return cli_fail(CLI_FAILED, "%s", err.msg);
    if (answer.status != 101)
        code = cli_refused(cli, answer.status, buf_view(&answer.body));
    client_answer_done(&answer);
    return code;
}

int cli_upgrade(struct cli *cli, const char *target)
{
    struct reply reply;
    int code = cli_get(cli, "/version", &reply); /* connects */

    return code == CLI_OK ? upgrade(cli, target) : code;
}

int image_upload(struct cli *cli, const char *path, const char *name)
{
    CLEANUP(buf_done) struct buf target = {0};
    CLEANUP(fd_close) int fd = -1;
    struct image_lines lines = image_lines_new();
    struct err err = {0};
    char block[4096];
    int64_t size = 0;
    pid_t tar = 0;
    ssize_t n;
    int code;

    fd = open_archive(path, &tar, &size);
    if (fd < 0)
        return cli_fail(errno == ENOENT ? CLI_NOT_FOUND : CLI_FAILED, "open '%s': %s", path, strerror(errno));
    buf_puts(&target, "/v1/images/import?name=");
    buf_url_encode(&target, str_from(name));
    buf_puts(&target, lines.tty ? "&progress=1" : "");
    code = cli_upgrade(cli, target.data);
    if (code == CLI_OK) {
        bool sent = send_frames(cli->client, fd, size, &err) == 0;

        while ((n = client_read(cli->client, block, sizeof(block), sent ? &err : NULL)) > 0)
            image_lines_take(&lines, (struct str){block, (size_t)n});
        if (!lines.ok)
            code = lines.failed ? CLI_FAILED
                                : cli_fail(CLI_FAILED, "the daemon did not take '%s': %s", path,
                                           err.msg[0] ? err.msg : "the connection ended");
    }
    if (tar > 0) {
        kill(tar, SIGPIPE);
        waitpid(tar, NULL, 0);
    }
    buf_done(&lines.rest);
    client_free(TAKE_PTR(cli->client)); /* it is no HTTP any more */
    return code;
}
