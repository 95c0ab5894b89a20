/* berth login and logout: a registry's password goes to the daemon, which keeps it for this user's pods,
 * builds and pushes. It is read from the terminal or from standard input, never from an argument. */
#include "base/file.h"
#include "base/mem.h"
#include "cli/image_tools.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

#define PASSWORD_MAX 16384
#define CHECK_TIME   "--command-timeout=30s" /* that a registry has to answer */

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signo)
{
    (void)signo;
    interrupted = 1; /* read() ends, and the terminal gets its echo back */
}

static int read_line(const char *prompt, bool hidden, char text[PASSWORD_MAX])
{
    struct sigaction action = {.sa_handler = on_interrupt}, before;
    struct termios old, quiet;
    bool tty = isatty(0), quieted = false;
    size_t len = 0;
    char c;

    sigaction(SIGINT, &action, &before);
    if (tty) {
        fputs(prompt, stderr);
        if (hidden && tcgetattr(0, &old) == 0) {
            quieted = true;
            quiet = old;
            quiet.c_lflag &= ~(tcflag_t)ECHO;
            tcsetattr(0, TCSAFLUSH, &quiet);
        }
    }
    while (len + 1 < PASSWORD_MAX && read(0, &c, 1) == 1 && c != '\n')
        text[len++] = c;
    while (len > 0 && text[len - 1] == '\r')
        len--;
    text[len] = '\0';
    if (quieted) {
        tcsetattr(0, TCSAFLUSH, &old);
        fputc('\n', stderr);
    }
    sigaction(SIGINT, &before, NULL);
    if (interrupted)
        exit(128 + SIGINT);
    return len > 0 ? 0 : -1;
}

/* Asks the registry whether they are right; skopeo says what is wrong. */
static int check(struct cli *cli, const char *registry, const char *user, const char *password)
{
    const char *argv[TOOL_ARGS_MAX] = {"skopeo", CHECK_TIME, "login"};
    struct image_tools tools = {0};
    struct tool_error error;
    int code;

    if (!tool_exists("skopeo")) {
        fputs("berth: skopeo is not installed here, so the password was not tried\n", stderr);
        return CLI_OK;
    }
    code = image_tools_open(cli, &tools);
    if (code != CLI_OK)
        return code;
    tool_arg(argv, arena_printf(&cli->arena, "--authfile=%s/login.json", tools.dir));
    tool_arg(argv, arena_printf(&cli->arena, "--username=%s", user));
    tool_arg(argv, "--password-stdin");
    if (json_bool(json_get(image_registry(&tools, registry), "insecure")))
        tool_arg(argv, "--tls-verify=false");
    if (tools.cert_dir)
        tool_arg(argv, arena_printf(&cli->arena, "--cert-dir=%s", tools.cert_dir));
    tool_arg(argv, registry);
    if (tool_run(argv, password, true, &error) != 0)
        code = tool_fail(cli, &error, registry, "the password was not kept (--no-check keeps it untried)");
    image_tools_done(&tools);
    return code;
}

/* "https://lab:5000/", as other programs want it, is lab:5000. */
static const char *registry_of(struct cli *cli, const char *word)
{
    word = starts_with(word, "https://") ? word + 8 : starts_with(word, "http://") ? word + 7 : word;
    return arena_strndup(&cli->arena, word, ends_with(word, "/") ? strlen(word) - 1 : strlen(word));
}

int verb_login(struct cli *cli, const struct args *args)
{
    const char *registry = registry_of(cli, args->rest[0]), *user = args_get(args, "username");
    struct json *body = json_new_object(&cli->arena);
    static char name[PASSWORD_MAX], password[PASSWORD_MAX];
    struct reply reply;
    int code = CLI_OK;

    if (!user && args_has(args, "password-stdin"))
        return cli_usage_error(args->verb, "--password-stdin needs -u USER");
    if (!user) {
        if (read_line("User: ", false, name) < 0)
            return cli_usage_error(args->verb, "needs -u USER");
        user = name;
    }
    if (read_line("Password: ", true, password) < 0)
        return cli_fail(CLI_FAILED, "no password was given");
    if (!args_has(args, "no-check"))
        code = check(cli, registry, user, password);
    if (code == CLI_OK) {
        json_set_string(&cli->arena, body, "registry", registry);
        json_set_string(&cli->arena, body, "user", user);
        json_set_string(&cli->arena, body, "password", password);
        json_set_bool(&cli->arena, body, "machine", args_has(args, "machine"));
        code = cli_send(cli, "POST", "/v1/logins", body, &reply);
    }
    explicit_bzero(password, sizeof(password));
    if (code == CLI_OK)
        printf("Berth knows the password of %s at %s now\n", user, registry);
    return code;
}

int verb_logout(struct cli *cli, const struct args *args)
{
    CLEANUP(buf_done) struct buf target = {0};
    struct reply reply;
    int code;

    buf_printf(&target, "/v1/logins?machine=%d&registry=", args_has(args, "machine"));
    buf_url_encode(&target, str_from(registry_of(cli, args->rest[0])));
    code = cli_send(cli, "DELETE", target.data, NULL, &reply);
    if (code == CLI_OK)
        printf("Berth has forgotten the password at %s\n", args->rest[0]);
    return code;
}
