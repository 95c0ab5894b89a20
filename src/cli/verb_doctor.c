/* berth doctor: what the daemon that is talked to says of itself, and, where it is on this machine, one check
 * a row of checks[]. A check never changes anything. */
#include "base/buf.h"
#include "base/file.h"
#include "cli/cli.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>

#define DISK_FAIL_MIB      200
#define DISK_WARN_MIB      2048
#define PROGRAM_OUTPUT_MAX (16 << 10)
#define MOUNTINFO_MAX      (16 << 20)
#define EARLIEST_TIME      1735689600 /* 2025-01-01: a clock before that was never set */

enum verdict { OK, INFO, WARN, FAIL };
static const char *const verdict_names[] = {[OK] = "ok", [INFO] = "info", [WARN] = "warn", [FAIL] = "fail"};

struct finding {
    enum verdict verdict;
    const char *text; /* in the arena */
    const char *fix;  /* NULL: nothing to do */
};

struct check {
    const char *name;
    struct finding (*run)(struct cli *cli, const struct place *place, const char *detail);
    const char *detail;
    const char *daemons; /* the daemon's own check of the same: its trouble comes first; NULL: it has none */
    bool anywhere;       /* makes sense also where the daemon is on another machine */
};

extern char **environ;

#define FOUND(cli, verdict_, fix_, ...)                                                                      \
    ((struct finding){.verdict = (verdict_), .text = arena_printf(&(cli)->arena, __VA_ARGS__), .fix = (fix_)})

/* The first program of that name on PATH, or NULL. */
static const char *find_program(struct cli *cli, const char *name)
{
    const char *path = getenv("PATH");
    struct str rest = str_from(path ? path : "/usr/bin:/bin"), dir;

    while (str_split(&rest, ':', &dir)) {
        char *file = arena_printf(&cli->arena, "%.*s/%s", STR_ARG(dir), name);

        if (dir.len && access(file, X_OK) == 0)
            return file;
    }
    return NULL;
}

/* What a program prints on stdout, up to a limit; "" when it could not be run. In the arena. */
static const char *program_output(struct cli *cli, const char *path, const char *const *argv)
{
    CLEANUP(fd_close) int read_fd = -1;
    posix_spawn_file_actions_t actions;
    char *text = arena_zalloc(&cli->arena, PROGRAM_OUTPUT_MAX + 1);
    size_t len = 0;
    ssize_t n;
    pid_t pid;
    int fds[2], failed;

    if (pipe2(fds, O_CLOEXEC) < 0)
        return "";
    read_fd = fds[0];
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    failed = posix_spawn(&pid, path, &actions, NULL, (char **)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(fds[1]);
    if (failed)
        return "";
    while (len < PROGRAM_OUTPUT_MAX && (n = read(read_fd, text + len, PROGRAM_OUTPUT_MAX - len)) > 0)
        len += (size_t)n;
    waitpid(pid, NULL, 0);
    return text;
}

/* ---- the checks ---- */

/* Asks the daemon how it is: its finding about itself, and *ret the answer; NULL: there is none. */
static struct finding ask_daemon(struct cli *cli, const struct place *place, const struct json **ret)
{
    struct reply reply;

    *ret = NULL;
    if (!cli->server && !socket_answers(place->socket, NULL))
        return FOUND(cli, WARN, "berth up, or set BERTH_SERVER", "nobody listens on %s", place->socket);
    if (cli_ask(cli, &(struct call){.method = "GET", .target = "/v1/status"}, &reply) != CLI_OK)
        return FOUND(cli, FAIL,
                     cli->server ? "is berthd running there, and is its https address open to this machine?"
                                 : "berth down; berth up",
                     "%s does not answer", cli->server ? cli->server : place->socket);
    if (reply.status != 200)
        return FOUND(cli, FAIL, "ask an admin for access, or berth login", "%s", reply_message(cli, &reply));
    *ret = reply.doc;
    return FOUND(cli, OK, NULL, "version %s at %s", json_string_or(json_get(reply.doc, "version"), "?"),
                 cli->where);
}

/* What the daemon says about one of its parts; NULL: it has no such check. */
static const struct json *daemon_check(const struct json *status, const char *name)
{
    JSON_EACH(json_get(status, "checks"), it)
        if (name && streq(json_get_string(it, "name"), name))
            return it;
    return NULL;
}

static struct finding daemon_finding(struct cli *cli, const struct json *check)
{
    const char *state = json_string_or(json_get(check, "state"), "ok");
    const char *text = json_string_or(json_get(check, "text"), "");

    return FOUND(cli,
                 streq(state, "fail")   ? FAIL
                 : streq(state, "warn") ? WARN
                                        : OK,
                 json_get_string(check, "fix"), "%s", *text ? text : "the daemon finds nothing wrong");
}

/* Whether pods run, as the daemon says; without one, what would keep them from it. */
static struct finding agent_finding(struct cli *cli, const struct json *status)
{
    const struct json *check = daemon_check(status, "runtime");
    const char *text = json_get_string(status, "agent");
    struct finding finding;

    if (!text && geteuid() != 0)
        return FOUND(cli, INFO, "start berthd as root", "pods do not run: containers need root");
    if (!text)
        return FOUND(cli, INFO, NULL, "told when the daemon runs");
    if (!check || streq(json_get_string(check, "state"), "ok"))
        return FOUND(cli, OK, NULL, "%s", text);
    finding = daemon_finding(cli, check);
    finding.text = arena_printf(&cli->arena, "%s; %s", text, finding.text);
    return finding;
}

static struct finding check_kubectl(struct cli *cli, const struct place *place, const char *detail)
{
    static const char *const argv[] = {"kubectl", "version", "--client", NULL};
    const char *path = find_program(cli, "kubectl"), *version;
    int minor;

    (void)place;
    (void)detail;
    if (!path)
        return FOUND(cli, WARN, "apt-get install kubernetes-client", "not on PATH");
    version = strstr(program_output(cli, path, argv), "v1.");
    if (!version)
        return FOUND(cli, WARN, "kubectl version --client", "%s does not say its version", path);
    minor = (int)strtol(version + 3, NULL, 10);
    if (minor < 20)
        return FOUND(cli, WARN, "install kubectl 1.20 or later", "%s is version 1.%d", path, minor);
    return FOUND(cli, OK, NULL, "%s, version 1.%d", path, minor);
}

static struct finding check_data(struct cli *cli, const struct place *place, const char *detail)
{
    struct stat st;

    (void)detail;
    if (stat(place->data_dir, &st) < 0) {
        if (errno == ENOENT)
            return FOUND(cli, OK, NULL, "%s will be made by the first start", place->data_dir);
        return FOUND(cli, FAIL, "give another folder with --data", "%s: %s", place->data_dir,
                     strerror(errno));
    }
    if (!S_ISDIR(st.st_mode))
        return FOUND(cli, FAIL, "give another folder with --data", "%s is no folder", place->data_dir);
    if (st.st_uid != geteuid())
        return FOUND(cli, INFO, NULL, "%s belongs to uid %u", place->data_dir, st.st_uid);
    if (st.st_mode & 022)
        return FOUND(cli, FAIL, arena_printf(&cli->arena, "chmod go-w '%s'", place->data_dir),
                     "others may write to %s", place->data_dir);
    if (access(place->data_dir, W_OK) < 0)
        return FOUND(cli, FAIL, "give another folder with --data", "%s: %s", place->data_dir,
                     strerror(errno));
    return FOUND(cli, OK, NULL, "%s is private and writable", place->data_dir);
}

/* The data folder, or the nearest above it that is there. */
static const char *data_place(struct cli *cli, const struct place *place)
{
    char *dir = arena_strdup(&cli->arena, place->data_dir), *slash;

    while (access(dir, F_OK) < 0 && (slash = strrchr(dir, '/')))
        *slash = '\0';
    return *dir ? dir : "/";
}

static struct finding check_disk(struct cli *cli, const struct place *place, const char *detail)
{
    const char *dir = data_place(cli, place);
    struct statvfs fs;
    unsigned long long mib;

    (void)detail;
    if (statvfs(dir, &fs) < 0)
        return FOUND(cli, WARN, NULL, "cannot be told: %s", strerror(errno));
    mib = (unsigned long long)fs.f_bavail * fs.f_frsize >> 20;
    if (mib < DISK_WARN_MIB)
        return FOUND(cli, mib < DISK_FAIL_MIB ? FAIL : WARN, "make room, or move the data folder with --data",
                     "%llu MiB free at %s", mib, dir);
    return FOUND(cli, OK, NULL, "%llu GiB free at %s", mib >> 10, dir);
}

/* The mount that a path is on, from mountinfo: type and options of the file system; false: not found. */
static bool find_mount(struct cli *cli, const char *path, struct str *type, struct str *options,
                       struct str *at)
{
    CLEANUP(buf_done) struct buf read = {0};
    char *text, *dir = realpath(path, NULL);
    struct str rest, line;
    size_t best = 0;

    if (!dir || file_read("/proc/self/mountinfo", MOUNTINFO_MAX, &read, NULL) < 0) {
        free(dir);
        return false;
    }
    text = arena_strndup(&cli->arena, read.data ? read.data : "", read.len);
    rest = (struct str){text, read.len};
    while (str_split(&rest, '\n', &line)) {
        struct str field = {0}, place = {0}, kind, source;

        for (int i = 0; str_split(&line, ' ', &field) && !str_is(field, "-"); i++)
            if (i == 4)
                place = field;
        if (!str_split(&line, ' ', &kind) || !str_split(&line, ' ', &source) || place.len < best ||
            strncmp(dir, place.s, place.len) != 0 ||
            (place.len > 1 && dir[place.len] && dir[place.len] != '/'))
            continue;
        best = place.len;
        *type = kind;
        *options = line;
        *at = place;
    }
    free(dir);
    return best > 0;
}

static bool has_option(struct str options, const char *name)
{
    struct str one;

    while (str_split(&options, ',', &one))
        if (str_is(one, name))
            return true;
    return false;
}

/* Whether a claim cannot outgrow its size: project quotas, which only a mount option switches on. */
static struct finding check_claims(struct cli *cli, const struct place *place, const char *detail)
{
    struct str type, options, at;
    bool ext4, xfs;

    (void)detail;
    if (!find_mount(cli, data_place(cli, place), &type, &options, &at))
        return FOUND(cli, INFO, NULL, "cannot be told: mountinfo has no line for %s", place->data_dir);
    ext4 = str_is(type, "ext4");
    xfs = str_is(type, "xfs");
    if ((ext4 || xfs) && (has_option(options, "prjquota") || has_option(options, "pquota")))
        return FOUND(cli, OK, NULL, "%.*s with project quotas: sizes are enforced", STR_ARG(type));
    if (!ext4 && !xfs)
        return FOUND(cli, INFO, NULL, "sizes are measured: %.*s at %.*s has no project quotas", STR_ARG(type),
                     STR_ARG(at));
    return FOUND(
        cli, INFO,
        ext4 ? "to enforce them: tune2fs -O quota,project -Q prjquota DEVICE while it is not mounted, "
               "then mount it with -o prjquota"
             : "to enforce them: mount it anew with -o prjquota",
        "sizes are measured: %.*s at %.*s is mounted without project quotas", STR_ARG(type), STR_ARG(at));
}

static struct finding check_cgroup(struct cli *cli, const struct place *place, const char *detail)
{
    struct statfs fs;

    (void)place;
    (void)detail;
    if (statfs("/sys/fs/cgroup", &fs) < 0)
        return FOUND(cli, WARN, "mount cgroups: limits need them", "no /sys/fs/cgroup");
    if (fs.f_type == CGROUP2_SUPER_MAGIC)
        return FOUND(cli, OK, NULL, "version 2");
    return FOUND(cli, INFO, NULL, "version 1 or hybrid: works, version 2 is what Debian has by default");
}

static struct finding check_program(struct cli *cli, const struct place *place, const char *name)
{
    const char *path = find_program(cli, name);

    (void)place;
    if (!path)
        return FOUND(cli, INFO, arena_printf(&cli->arena, "apt-get install %s", name), "not installed");
    return FOUND(cli, OK, NULL, "%s", path);
}

static struct finding check_gpus(struct cli *cli, const struct place *place, const char *detail)
{
    (void)place;
    (void)detail;
    if (access("/proc/driver/nvidia/version", F_OK) == 0)
        return FOUND(cli, OK, NULL, "the NVIDIA driver is loaded");
    return FOUND(cli, INFO, "berth up --gpus NxMIB declares cards", "no NVIDIA driver");
}

static struct finding check_clock(struct cli *cli, const struct place *place, const char *detail)
{
    struct timex state = {.modes = 0};
    time_t now = time(NULL);

    (void)place;
    (void)detail;
    if (now < EARLIEST_TIME)
        return FOUND(cli, FAIL, "set it: certificates would be invalid elsewhere",
                     "it says %lld s after 1970", (long long)now);
    if (adjtimex(&state) == TIME_ERROR)
        return FOUND(cli, INFO, NULL, "not synchronised with a time server");
    return FOUND(cli, OK, NULL, "synchronised");
}

static struct finding check_port(struct cli *cli, const struct place *place, const char *port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CLEANUP(fd_close) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int yes = 1;

    if (cli->client || socket_answers(place->socket, NULL))
        return FOUND(cli, OK, NULL, "the daemon runs");
    addr.sin_port = htons((uint16_t)strtoul(port, NULL, 10));
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 ||
        bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0)
        return FOUND(cli, WARN, "give other addresses with --http and --https", "%s", strerror(errno));
    return FOUND(cli, OK, NULL, "free");
}

static const struct check checks[] = {
    {"kubectl", check_kubectl, .anywhere = true},
    {"data folder", check_data, NULL},
    {"disk", check_disk, .daemons = "disk"},
    {"claims", check_claims, NULL},
    {"cgroups", check_cgroup, NULL},
    {"crun", check_program, "crun"},
    {"runc", check_program, "runc"},
    {"skopeo", check_program, "skopeo"},
    {"buildah", check_program, "buildah"},
    {"gpus", check_gpus, .daemons = "gpus"},
    {"clock", check_clock, NULL},
    {"port 5336", check_port, "5336"},
    {"port 5443", check_port, "5443"},
};

/* Where findings go. */
struct report {
    struct cli *cli;
    struct json *items;
    enum output output;
    bool failed;
};

static void report_add(struct report *report, const char *name, struct finding finding)
{
    struct arena *arena = &report->cli->arena;
    struct json *item = json_push_object(arena, report->items);

    report->failed |= finding.verdict == FAIL;
    json_set_string(arena, item, "check", name);
    json_set_string(arena, item, "result", verdict_names[finding.verdict]);
    json_set_string(arena, item, "text", finding.text);
    if (finding.fix)
        json_set_string(arena, item, "fix", finding.fix);
    if (report->output == OUTPUT_TABLE)
        cli_say(stdout, "%-5s %-12s %s%s%s\n", verdict_names[finding.verdict], name, finding.text,
                finding.fix ? ": " : "", finding.fix ? finding.fix : "");
}

/* A daemon behind a socket, or a loopback address, is on this machine. */
static bool is_here(const struct cli *cli, const struct json *status)
{
    static const char *const local[] = {"/", "http://127.", "https://127.", "http://localhost",
                                        "https://localhost"};

    if (!status)
        return !cli->server;
    for (size_t i = 0; i < ARRAY_LEN(local); i++)
        if (starts_with(cli->where, local[i]))
            return true;
    return false;
}

static bool has_row(const char *daemons)
{
    for (const struct check *check = checks; check < checks + ARRAY_LEN(checks); check++)
        if (streq(check->daemons, daemons))
            return true;
    return streq(daemons, "runtime"); /* the agent's line */
}

static void look_around(struct report *report, const struct place *place, const struct json *status,
                        bool here)
{
    for (const struct check *check = checks; check < checks + ARRAY_LEN(checks); check++) {
        const struct json *said = daemon_check(status, check->daemons);

        if (said && (!here || !streq(json_get_string(said, "state"), "ok")))
            report_add(report, check->name, daemon_finding(report->cli, said));
        else if (here || check->anywhere)
            report_add(report, check->name, check->run(report->cli, place, check->detail));
    }
    JSON_EACH(json_get(status, "checks"), it)
        if (!has_row(json_get_string(it, "name")))
            report_add(report, json_string_or(json_get(it, "name"), "?"), daemon_finding(report->cli, it));
    if (!here)
        report_add(report, "machine",
                   FOUND(report->cli, INFO, "run berth doctor there",
                         "the daemon is on another machine: its programs, "
                         "ports and folders are not looked at"));
}

int verb_doctor(struct cli *cli, const struct args *args)
{
    struct place place = cli_place(cli, NULL);
    struct json *doc = json_new_object(&cli->arena);
    struct report report = {.cli = cli, .items = json_set_array(&cli->arena, doc, "items")};
    const struct json *status;
    struct finding finding;
    struct err err = {0};

    if (output_from(args, &report.output, &err) < 0)
        return cli_usage_error(args->verb, "%s", err.msg);
    if (!cli->server && !cli->data_flag && socket_answers("/run/berth/berth.sock", NULL))
        place.socket = "/run/berth/berth.sock";
    finding = ask_daemon(cli, &place, &status);
    if (status && json_get_string(status, "dataDir") && is_here(cli, status))
        place.data_dir = json_get_string(status, "dataDir");
    report_add(&report, "daemon", finding);
    report_add(&report, "agent", agent_finding(cli, status));
    look_around(&report, &place, status, is_here(cli, status));
    if (report.output != OUTPUT_TABLE)
        print_doc(doc, report.output, stdout);
    return report.failed ? CLI_FAILED : CLI_OK;
}
