/* berth up: starts berthd in a session of its own, with its log in the data folder, and waits for its ready
 * line on a pipe. When the pipe ends first, the daemon's last words are in the log. */
#include "base/file.h"
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>

#define LOG_TAIL_MAX (4 << 10)
#define READY_MAX    2048

struct up {
    bool foreground, help;
    const char *config_file;
    char **argv; /* of berthd; NULL-terminated */
};

/* Value of --name VALUE or --name=VALUE at argv[*i]; moves *i. NULL: another option. */
static const char *option_value(char **argv, int count, int *i, const char *name)
{
    const char *word = argv[*i];
    size_t len = strlen(name);

    if (!word || !starts_with(word, name))
        return NULL;
    if (word[len] == '=')
        return word + len + 1;
    if (word[len] || *i + 1 >= count)
        return NULL;
    return argv[++*i];
}

/* berthd checks its own options; here only what says where it will be is looked at. */
static void read_args(struct cli *cli, const struct args *args, struct up *up)
{
    int out = 1;

    up->argv = arena_zalloc(&cli->arena, sizeof(char *) * ((size_t)args->count + 4));
    if (cli->data_flag) {
        up->argv[out++] = arena_strdup(&cli->arena, "--data");
        up->argv[out++] = arena_strdup(&cli->arena, cli->data_flag);
    }
    for (int i = 0; i < args->count; i++) {
        int first = i;
        const char *data = option_value(args->rest, args->count, &i, "--data");
        const char *config = data ? NULL : option_value(args->rest, args->count, &i, "--config");

        if (streq(args->rest[first], "--foreground")) {
            up->foreground = true;
            continue;
        }
        up->help |= streq(args->rest[first], "--help") || streq(args->rest[first], "-h");
        cli->data_flag = data ? data : cli->data_flag;
        up->config_file = config ? config : up->config_file;
        for (int j = first; j <= i; j++)
            up->argv[out++] = args->rest[j];
    }
}

/* berthd beside this program, in the build tree, or on PATH. */
char *find_berthd(struct cli *cli)
{
    static const char *const beside[] = {"berthd", "../sbin/berthd", "../daemon/berthd"};
    char self[4096];
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash;

    self[len > 0 ? len : 0] = '\0';
    slash = strrchr(self, '/');
    for (size_t i = 0; slash && i < ARRAY_LEN(beside); i++) {
        char *path = arena_printf(&cli->arena, "%.*s/%s", (int)(slash - self), self, beside[i]);
        struct stat st;

        if (stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0)
            return path;
    }
    return arena_strdup(&cli->arena, "berthd");
}

_Noreturn static void become_berthd(char **argv, int ready_fd, int log_fd)
{
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    setsid();
    if (null_fd < 0 || dup2(null_fd, STDIN_FILENO) < 0 || dup2(ready_fd, STDOUT_FILENO) < 0 ||
        dup2(log_fd, STDERR_FILENO) < 0)
        _exit(127);
    execvp(argv[0], argv);
    dprintf(STDERR_FILENO, "cannot run %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

/* Reads up to the first line's end; false when the pipe ended before. */
static bool read_line(int fd, char *line, size_t size)
{
    size_t len = 0;

    while (len + 1 < size) {
        ssize_t n = read(fd, line + len, 1);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        if (line[len] == '\n') {
            line[len] = '\0';
            return true;
        }
        len++;
    }
    return false;
}

/* The last line that the daemon wrote since `from`, without its name. */
static const char *last_words(struct cli *cli, const char *log_path, off_t from)
{
    CLEANUP(fd_close) int fd = open(log_path, O_RDONLY | O_CLOEXEC);
    char *text = arena_zalloc(&cli->arena, LOG_TAIL_MAX + 1), *end, *start;
    off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    ssize_t n;

    if (size - from > LOG_TAIL_MAX)
        from = size - LOG_TAIL_MAX;
    n = fd < 0 ? 0 : pread(fd, text, LOG_TAIL_MAX, from);
    end = text + (n > 0 ? n : 0);
    while (end > text && end[-1] == '\n')
        *--end = '\0';
    start = strrchr(text, '\n');
    start = start ? start + 1 : text;
    if (end == text)
        return "it said nothing";
    return starts_with(start, "berthd: ") ? start + strlen("berthd: ") : start;
}

/* The word behind " NAME " in the ready line; NULL when absent or "off". */
static const char *ready_word(struct cli *cli, const char *line, const char *name)
{
    const char *at = strstr(line, name), *word;

    if (!at)
        return NULL;
    at += strlen(name);
    word = arena_strndup(&cli->arena, at, strcspn(at, " "));
    return streq(word, "off") ? NULL : word;
}

/* NULL where the daemon that was just started does not give one. */
static const char *sign_in_link(struct cli *cli, const char *socket)
{
    struct json *body = json_new_object(&cli->arena);
    struct reply reply;
    CLEANUP(buf_done) struct buf text = {0};
    struct call call = {.method = "POST", .target = "/v1/page/links"};
    const char *url;

    if (!socket)
        return NULL;
    cli->server = arena_printf(&cli->arena, "unix:%s", socket);
    json_write(&text, body);
    call.body = buf_view(&text);
    if (cli_ask(cli, &call, &reply) != CLI_OK || reply.status != 201)
        return NULL;
    url = json_get_string(reply.doc, "http");
    return url ? url : json_get_string(reply.doc, "https");
}

static void say_ready(struct cli *cli, const char *line, const struct place *place, const char *log_path)
{
    const char *http = ready_word(cli, line, " http "), *https = ready_word(cli, line, " https ");
    const char *version = ready_word(cli, line, "berthd "),
               *link = sign_in_link(cli, ready_word(cli, line, " socket "));

    printf("Berth %s is running.\n", version ? version : BERTH_VERSION);
    if (link)
        printf(
            "  page      %s\n            (signs you in, once, within 15 minutes; later: berth token --web)\n",
            link);
    else if (http)
        printf("  page      %s/\n", http);
    if (https)
        printf("  kubectl   %s\n", https);
    printf("  data      %s\n  log       %s\n", place->data_dir, log_path);
    puts("\nWhat to type next:");
    if (https)
        printf("  export KUBECONFIG=%s/admin.kubeconfig\n  kubectl get nodes\n", place->data_dir);
    puts("  berth apply -f job.yaml\n  berth status\n  berth down");
}

static int start(struct cli *cli, const struct up *up, const struct place *place)
{
    const char *log_path = arena_printf(&cli->arena, "%s/berthd.log", place->data_dir);
    CLEANUP(fd_close) int log_fd = -1, read_fd = -1, write_fd = -1;
    char line[READY_MAX];
    struct err err = {0};
    off_t log_start;
    int fds[2], status = 0;
    pid_t pid;

    if (dir_make(place->data_dir, 0711, &err) < 0)
        return cli_fail(CLI_FAILED, "%s", err.msg);
    log_fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log_fd < 0 || pipe2(fds, O_CLOEXEC) < 0)
        return cli_fail(CLI_FAILED, "open '%s': %s", log_path, strerror(errno));
    read_fd = fds[0];
    write_fd = fds[1];
    log_start = lseek(log_fd, 0, SEEK_END);
    fflush(stdout);
    pid = fork();
    if (pid < 0)
        return cli_fail(CLI_FAILED, "start a process: %s", strerror(errno));
    if (pid == 0)
        become_berthd(up->argv, write_fd, log_fd);
    fd_close(take_fd(&write_fd));
    if (isatty(STDERR_FILENO))
        fputs("starting berthd ...\r", stderr);
    if (!read_line(read_fd, line, sizeof(line))) {
        waitpid(pid, &status, 0);
        return cli_fail(CLI_FAILED, "berthd did not start: %s (its log is %s)",
                        last_words(cli, log_path, log_start), log_path);
    }
    say_ready(cli, line, place, log_path);
    return CLI_OK;
}

int verb_up(struct cli *cli, const struct args *args)
{
    struct up up = {.foreground = false};
    struct place place;
    pid_t pid = 0;

    read_args(cli, args, &up);
    if (up.help) {
        verb_usage(args->verb, stdout);
        return CLI_OK;
    }
    place = cli_place(cli, up.config_file);
    if (socket_answers(place.socket, &pid)) {
        printf("Berth is running already (process %d, socket %s).\n", (int)pid, place.socket);
        return CLI_OK;
    }
    up.argv[0] = find_berthd(cli);
    if (!up.foreground)
        return start(cli, &up, &place);
    execvp(up.argv[0], up.argv);
    return cli_fail(CLI_FAILED, "cannot run %s: %s", up.argv[0], strerror(errno));
}
