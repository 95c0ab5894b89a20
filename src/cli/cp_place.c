/* cp_place - see cp_place.h. Works by descriptors of real folders (O_NOFOLLOW), so that a link which an
 * earlier copy has left at the target cannot lead elsewhere. */
#include "cli/cp_place.h"

#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>

extern char **environ;

static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
static char fresh_path[PATH_MAX];

/* ---- the fresh folder ---- */

static void on_signal(int number)
{
    static char program[] = "/bin/rm", force[] = "-rf", end[] = "--";
    static char *const argv[] = {program, force, end, fresh_path, NULL};

    if (fork() == 0) { /* only calls that a signal's handler may make */
        setsid();
        execve(program, argv, environ);
        _exit(127);
    }
    signal(number, SIG_DFL);
    raise(number);
}

static void catch_signals(void (*handler)(int number))
{
    struct sigaction now;

    for (size_t i = 0; i < ARRAY_LEN(ending); i++)
        if (sigaction(ending[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            signal(ending[i], handler);
}

const char *cp_fresh(struct cli *cli, const char *beside)
{
    char *path = arena_printf(&cli->arena, "%s/.berth-cp-XXXXXX", beside);

    if (strlen(path) >= sizeof(fresh_path)) {
        cli_fail(CLI_FAILED, "%s: the path is too long", beside);
        return NULL;
    }
    if (!mkdtemp(path)) {
        cli_fail(CLI_FAILED, "cannot make a folder in %s: %s", beside, strerror(errno));
        return NULL;
    }
    memcpy(fresh_path, path, strlen(path) + 1);
    catch_signals(on_signal);
    return path;
}

void cp_fresh_end(void)
{
    const char *const argv[] = {"rm", "-rf", "--", fresh_path, NULL};
    pid_t pid;

    if (posix_spawn(&pid, "/bin/rm", NULL, NULL, (char *const *)(uintptr_t)argv, environ) == 0)
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    catch_signals(SIG_DFL);
}

/* ---- folders ---- */

/* What is done with each entry of a folder. */
struct walk {
    int (*fn)(const struct walk *walk, int dir, const char *name);
    size_t depth; /* of the entries below the top of the copy */
    int to;       /* where they are moved */
};

static int each_entry(const struct walk *walk, int dir)
{
    int copy = fcntl(dir, F_DUPFD_CLOEXEC, 3);
    DIR *list = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *entry;
    int code = CLI_OK;

    if (!list) {
        fd_close(copy);
        return cli_fail(CLI_FAILED, "read a folder: %s", strerror(errno));
    }
    while (code == CLI_OK && (entry = readdir(list)))
        if (!streq(entry->d_name, ".") && !streq(entry->d_name, ".."))
            code = walk->fn(walk, dir, entry->d_name);
    closedir(list);
    return code;
}

static int open_folder(int dir, const char *name)
{
    return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* ---- cleaning ---- */

/* Whether a link `depth` real folders below the top of the copy stays in it. Steps up are exact only at the
 * beginning: behind a name they may start from wherever another link has led. */
static bool stays_inside(const char *target, size_t depth)
{
    struct str rest = str_from(target), part;
    bool named = false;

    if (target[0] == '/')
        return false;
    while (str_split(&rest, '/', &part)) {
        if (part.len == 0 || str_eq(part, STR(".")))
            continue;
        if (!str_eq(part, STR(".."))) {
            named = true;
            continue;
        }
        if (named || depth == 0)
            return false;
        depth--;
    }
    return true;
}

static void skip(int dir, const char *name, const char *why)
{
    cli_say(stderr, "skipped %s: %s\n", name, why);
    unlinkat(dir, name, 0);
}

static int clean_folder(int dir, const char *name, size_t depth);

static int clean_entry(const struct walk *walk, int dir, const char *name)
{
    size_t depth = walk->depth;
    char target[PATH_MAX];
    struct stat st;
    ssize_t len;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return cli_fail(CLI_FAILED, "%s: %s", name, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return clean_folder(dir, name, depth);
    if (S_ISREG(st.st_mode)) {
        if ((st.st_mode & 07000) && fchmodat(dir, name, st.st_mode & 0777, 0) < 0)
            return cli_fail(CLI_FAILED, "%s: %s", name, strerror(errno));
        return CLI_OK;
    }
    if (!S_ISLNK(st.st_mode)) {
        skip(dir, name, "neither a file nor a folder");
        return CLI_OK;
    }
    len = readlinkat(dir, name, target, sizeof(target) - 1);
    target[len > 0 ? len : 0] = '\0';
    if (len <= 0 || depth == 0 || !stays_inside(target, depth - 1))
        skip(dir, name, "a link that leads out of what is copied");
    return CLI_OK;
}

static int clean_folder(int dir, const char *name, size_t depth)
{
    CLEANUP(fd_close) int fd = -1;
    struct stat st;

    if (depth >= CP_DEPTH_MAX)
        return cli_fail(CLI_FAILED, "%s: more than %d folders in one another", name, CP_DEPTH_MAX);
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
        fchmodat(dir, name, (st.st_mode & 0777) | S_IRWXU, 0) < 0 || (fd = open_folder(dir, name)) < 0)
        return cli_fail(CLI_FAILED, "%s: %s", name, strerror(errno));
    return each_entry(&(struct walk){.fn = clean_entry, .depth = depth + 1}, fd);
}

/* ---- moving ---- */

static int move_below(const struct walk *walk, int from, const char *name);

static int move_entry(int from, const char *name, int to, const char *to_name)
{
    struct stat new, old;
    bool there = fstatat(to, to_name, &old, AT_SYMLINK_NOFOLLOW) == 0;

    if (fstatat(from, name, &new, AT_SYMLINK_NOFOLLOW) < 0)
        return cli_fail(CLI_FAILED, "%s: %s", name, strerror(errno));
    if (there && S_ISDIR(new.st_mode) && S_ISDIR(old.st_mode)) {
        CLEANUP(fd_close) int below = open_folder(from, name);
        CLEANUP(fd_close) int into = open_folder(to, to_name);

        return below < 0 || into < 0 ? cli_fail(CLI_FAILED, "%s: %s", to_name, strerror(errno))
                                     : each_entry(&(struct walk){.fn = move_below, .to = into}, below);
    }
    if (there && S_ISDIR(new.st_mode))
        return cli_fail(CLI_FAILED, "%s is there already and is no folder", to_name);
    if (there && !S_ISREG(old.st_mode) && !S_ISLNK(old.st_mode))
        return cli_fail(CLI_FAILED, "%s is there already and is no file", to_name);
    if (renameat(from, name, to, to_name) < 0)
        return cli_fail(CLI_FAILED, "%s: %s", to_name, strerror(errno));
    return CLI_OK;
}

static int move_below(const struct walk *walk, int from, const char *name)
{
    return move_entry(from, name, walk->to, name);
}

int cp_place(const char *dir, const char *name, const char *to)
{
    const char *slash = strrchr(to, '/');
    CLEANUP(free) char *folder = slash ? mem_strndup(to, slash == to ? 1 : (size_t)(slash - to)) : NULL;
    CLEANUP(fd_close) int from = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    CLEANUP(fd_close) int into = open(folder ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct stat st;
    int code;

    if (from < 0 || into < 0)
        return cli_fail(CLI_FAILED, "open the folder of %s: %s", to, strerror(errno));
    code = clean_entry(&(struct walk){0}, from, name);
    if (code != CLI_OK)
        return code;
    if (fstatat(from, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return cli_fail(CLI_FAILED, "%s: it is neither a file nor a folder", name);
    return move_entry(from, name, into, slash ? slash + 1 : to);
}
