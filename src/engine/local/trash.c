/* Trees of files that are to go: by rm in a process of its own, since a volume may hold millions of files.
 * One at a time; what comes meanwhile is gathered for the next. Each is renamed first, to .gone-N-NAME beside
 * it: its name is free at once, and what is not through when the daemon ends is found by its next start. */
#include "engine/local/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#define TRASH_AT_ONCE 200 /* paths of one rm */
#define PREFIX        ".gone-"
#define NAMES_MAX     1000 /* tries for a name that nothing has */

extern char **environ;

static void empty(struct local_engine *engine);

static void emptied(void *arg, pid_t pid, int status)
{
    struct local_engine *engine = arg;

    (void)pid;
    (void)status;
    loop_child_free(engine->trash_rm);
    engine->trash_rm = NULL;
    empty(engine);
    if (!engine->trash_rm) /* what is left of a folder still counts for its number */
        claims_sweep(engine);
}

static void empty(struct local_engine *engine)
{
    static const char *const words[] = {"rm", "-rf", "--one-file-system", "--"};
    const char *argv[ARRAY_LEN(words) + TRASH_AT_ONCE + 1];
    size_t n = engine->trash.len < TRASH_AT_ONCE ? engine->trash.len : TRASH_AT_ONCE, at = 0;
    pid_t pid;

    if (n == 0 || engine->trash_rm)
        return;
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        argv[at++] = words[i];
    for (size_t i = 0; i < n; i++)
        argv[at++] = engine->trash.v[i];
    argv[at] = NULL;
    if (posix_spawnp(&pid, "rm", NULL, NULL, (char *const *)(uintptr_t)argv, environ) == 0)
        engine->trash_rm = loop_child_new(engine->loop, pid, emptied, engine, NULL);
    for (size_t i = 0; i < n; i++)
        free(engine->trash.v[i]);
    engine->trash.len -= n;
    memmove(engine->trash.v, engine->trash.v + n, engine->trash.len * sizeof(*engine->trash.v));
}

bool trash_is(const char *name)
{
    return starts_with(name, PREFIX);
}

void sandbox_remove_tree(struct local_engine *engine, const char *path)
{
    const char *name = strrchr(path, '/') + 1;
    char *aside = NULL;

    if (access(path, F_OK) < 0)
        return;
    for (unsigned n = 0; !trash_is(name) && !aside && n < NAMES_MAX; n++) {
        CLEANUP(free)
        char *free_name =
            mem_printf("%.*s" PREFIX "%u-%s", (int)(name - path), path, engine->trash_last++, name);

        if (renameat2(AT_FDCWD, path, AT_FDCWD, free_name, RENAME_NOREPLACE) == 0)
            aside = TAKE_PTR(free_name);
        else if (errno != EEXIST)
            break;
    }
    vec_push(&engine->trash, aside ? aside : mem_strdup(path));
    empty(engine);
}

void trash_done(struct local_engine *engine)
{
    loop_child_free(engine->trash_rm);
    engine->trash_rm = NULL;
    VEC_EACH(&engine->trash, it)
        free(*it);
    vec_done(&engine->trash);
}
