#include "cli/tool.h"

#include "base/file.h"
#include "base/mem.h"
#include "cli/image_tools.h"

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define LAYERS_SEEN 512
#define INPUT_MAX   32768 /* fits into a pipe at once */

extern char **environ;

bool tool_exists(const char *name)
{
    CLEANUP(free) char *path = mem_strdup(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
    struct str rest = str_from(path), part;

    while (str_split(&rest, ':', &part)) {
        CLEANUP(free) char *full = mem_printf("%.*s/%s", STR_ARG(part), name);

        if (access(full, X_OK) == 0)
            return true;
    }
    return false;
}

void tool_arg(const char **argv, const char *arg)
{
    size_t n = 0;

    while (argv[n])
        n++;
    if (n + 1 < TOOL_ARGS_MAX)
        argv[n] = arg;
}

/* ---- what it says ---- */

struct speech {
    bool tty;
    struct tool_error *error;
    struct buf line; /* of which nothing has been shown; "" in the middle of one that is shown */
    bool shown;      /* the beginning of this line is on the terminal */
    uint64_t seen[LAYERS_SEEN];
    size_t seen_len;
};

static const char *const failures[] = {"Error: ", "time=\""};

/* Whether a line that begins so tells of a failure; maybe: it is too short to say. */
static bool is_failure(struct str line, bool *maybe)
{
    *maybe = false;
    for (size_t i = 0; i < ARRAY_LEN(failures); i++) {
        struct str want = str_from(failures[i]);

        if (str_starts(line, failures[i]))
            return true;
        if (line.len < want.len && memcmp(line.s, want.s, line.len) == 0)
            *maybe = true;
    }
    return false;
}

/* "Error: why", or time="…" level=fatal msg="why" with quotes escaped. */
static void keep_failure(struct tool_error *error, struct str line)
{
    const char *at = memmem(line.s, line.len, "msg=\"", 5);
    size_t len = 0;

    if (at)
        line = (struct str){at + 5, line.len - (size_t)(at + 5 - line.s)};
    else if (str_starts(line, failures[0]))
        line = (struct str){line.s + strlen(failures[0]), line.len - strlen(failures[0])};
    line = str_trim(line);
    if (at && str_ends(line, "\""))
        line.len--;
    for (size_t i = 0; i < line.len && len + 1 < sizeof(error->text); i++) {
        if (line.s[i] == '\\' && i + 1 < line.len)
            i++;
        error->text[len++] = (unsigned char)line.s[i] < ' ' ? ' ' : line.s[i];
    }
    error->text[len] = '\0';
}

static bool is_new(struct speech *speech, struct str layer)
{
    uint64_t hash = str_hash(layer);

    for (size_t i = 0; i < speech->seen_len; i++)
        if (speech->seen[i] == hash)
            return false;
    if (speech->seen_len < LAYERS_SEEN)
        speech->seen[speech->seen_len++] = hash;
    return true;
}

/* Not on a terminal: a line for each layer, once, and nothing of the rest of a copy. */
static void show_plain(struct speech *speech, struct str line)
{
    static const char *const left_out[] = {"Resolving ", "Getting image ", "Copying config ",
                                           "Writing manifest ", "Storing signatures"};
    static const char blob[] = "Copying blob ";

    for (size_t i = 0; i < ARRAY_LEN(left_out); i++)
        if (str_starts(line, left_out[i]))
            return;
    if (!str_starts(line, blob)) {
        fprintf(stderr, "%.*s\n", STR_ARG(line));
        return;
    }
    line = (struct str){line.s + strlen(blob), line.len - strlen(blob)};
    if (line.len > 19)
        line.len = 19;
    if (is_new(speech, line))
        fprintf(stderr, "layer %.*s: copying\n", STR_ARG(line));
}

static void end_line(struct speech *speech)
{
    struct str line = buf_view(&speech->line);
    bool maybe;

    if (!speech->shown && is_failure(line, &maybe))
        keep_failure(speech->error, line);
    else if (speech->tty)
        fprintf(stderr, "%.*s\n", STR_ARG(line));
    else
        show_plain(speech, line);
    buf_clear(&speech->line);
    speech->shown = false;
}

static void hear(struct speech *speech, struct str data)
{
    bool maybe;

    for (size_t i = 0; i < data.len; i++) {
        if (data.s[i] == '\n') {
            end_line(speech);
            continue;
        }
        buf_putc(&speech->line, data.s[i]);
    }
    /* A terminal has what is not a line yet as well, unless it may become the words of a failure. */
    if (speech->tty && speech->line.len &&
        (speech->shown || (!is_failure(buf_view(&speech->line), &maybe) && !maybe))) {
        fprintf(stderr, "%.*s", STR_ARG(buf_view(&speech->line)));
        buf_clear(&speech->line);
        speech->shown = true;
    }
}

static void listen_to(int fd, struct speech *speech)
{
    char block[4096];
    ssize_t n;

    while ((n = read(fd, block, sizeof(block))) > 0 || (n < 0 && errno == EINTR))
        if (n > 0)
            hear(speech, (struct str){block, (size_t)n});
    if (speech->line.len)
        end_line(speech);
    buf_done(&speech->line);
}

/* ---- running it ---- */

static int input_of(const char *text)
{
    int ends[2];

    if (!text)
        return open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (strlen(text) > INPUT_MAX || pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    if (write(ends[1], text, strlen(text)) != (ssize_t)strlen(text)) {
        close(ends[0]);
        ends[0] = -1;
    }
    close(ends[1]);
    return ends[0];
}

/* Progress bars are drawn for terminals only, so what it writes to is one when ours is. */
static int make_ends(bool tty, int ends[2])
{
    struct termios raw;
    struct winsize size;

    if (!tty)
        return pipe2(ends, O_CLOEXEC);
    if (ioctl(2, TIOCGWINSZ, &size) < 0)
        return -1;
    if (!size.ws_col)
        size = (struct winsize){.ws_row = 24, .ws_col = 80};
    if (openpty(&ends[0], &ends[1], NULL, NULL, &size) < 0)
        return -1;
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    if (tcgetattr(ends[1], &raw) == 0) {
        cfmakeraw(&raw);
        tcsetattr(ends[1], TCSANOW, &raw);
    }
    return 0;
}

static int spawn(const char *const *argv, int in, int err, bool quiet, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t defaults;
    int rc;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in, 0);
    posix_spawn_file_actions_adddup2(&actions, err, 2);
    if (quiet)
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_init(&attr);
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGINT);
    posix_spawnattr_setsigdefault(&attr, &defaults);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
    rc = posix_spawnp(pid, argv[0], &actions, &attr, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    return rc;
}

int tool_run(const char *const *argv, const char *in, bool quiet, struct tool_error *error)
{
    CLEANUP(fd_close) int fd = input_of(in);
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    struct speech speech = {.tty = isatty(2), .error = error};
    int status = 0, ends[2], rc;
    pid_t pid;

    error->text[0] = '\0';
    if (make_ends(speech.tty, ends) < 0)
        return 127;
    fflush(stdout);
    sigaction(SIGINT, &ignore, &before);
    rc = spawn(argv, fd, ends[1], quiet, &pid);
    close(ends[1]);
    if (rc == 0)
        listen_to(ends[0], &speech);
    close(ends[0]);
    while (rc == 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    sigaction(SIGINT, &before, NULL);
    if (rc != 0)
        return 127;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- why it failed ---- */

/* The first row that fits decides. `%s` is the registry. */
static const struct reason {
    const char *words;
    int code;
    const char *sentence;
} reasons[] = {
    {"image not known", CLI_NOT_FOUND, "there is no such image here; berth build makes it"},
    {"invalid reference format", CLI_FAILED, "that is no name of an image"},
    {"no space left on device", CLI_FAILED, "the disk is full"},
    {"disk quota exceeded", CLI_FAILED, "your quota of the disk is used up"},
    {"manifest unknown", CLI_NOT_FOUND, "registry %s has no such image"},
    {"name unknown", CLI_NOT_FOUND, "registry %s has no such image"},
    {"invalid username/password", CLI_DENIED, "registry %s does not take that name and password"},
    {"unauthorized", CLI_DENIED, "registry %s wants another name or password: berth login %s"},
    {"authentication required", CLI_DENIED, "registry %s wants another name or password: berth login %s"},
    {"denied", CLI_DENIED, "registry %s does not allow it to you: berth login %s"},
    {"HTTP response to HTTPS client", CLI_FAILED,
     "registry %s speaks plain HTTP only; an admin can allow that (registries: insecure)"},
    {"x509:", CLI_FAILED,
     "nobody here vouches for the certificate of registry %s; an admin can give its CA (registries: "
     "ca:FILE)"},
    {"no such host", CLI_FAILED, "registry %s cannot be reached: there is no such host"},
    {"connection refused", CLI_FAILED, "registry %s cannot be reached: connection refused"},
    {"connection reset", CLI_FAILED, "registry %s ended the connection"},
    {"no route to host", CLI_FAILED, "registry %s cannot be reached: no route to host"},
    {"unreachable", CLI_FAILED, "registry %s cannot be reached: the network is unreachable"},
    {"timeout", CLI_FAILED, "registry %s does not answer"},
    {"deadline exceeded", CLI_FAILED, "registry %s does not answer"},
    {"toomanyrequests", CLI_FAILED, "registry %s has had too many requests; try again later"},
};

/* "… docker://lab:5000/me/net:v2: why": the registry that was asked. */
static const char *host_in(struct cli *cli, const char *text)
{
    const char *at = strstr(text, "docker://");

    return at ? image_host_of(cli, arena_strndup(&cli->arena, at + 9, strcspn(at + 9, "\"' "))) : NULL;
}

int tool_fail(struct cli *cli, const struct tool_error *error, const char *host, const char *what, ...)
{
    CLEANUP(buf_done) struct buf text = {0};
    const struct reason *reason = NULL;
    const char *named = host_in(cli, error->text);
    va_list ap;

    va_start(ap, what);
    buf_vprintf(&text, what, ap);
    va_end(ap);
    host = named ? named : host;
    for (size_t i = 0; !reason && host && i < ARRAY_LEN(reasons); i++)
        if (strcasestr(error->text, reasons[i].words))
            reason = &reasons[i];
    if (!reason)
        return cli_fail(CLI_FAILED, "%s%s%s", text.data, error->text[0] ? ": " : "", error->text);
    buf_puts(&text, ": ");
    for (const char *c = reason->sentence; *c; c++) {
        if (c[0] == '%' && c[1] == 's') {
            buf_puts(&text, host);
            c++;
        } else {
            buf_putc(&text, *c);
        }
    }
    return cli_fail(reason->code, "%s", text.data);
}
