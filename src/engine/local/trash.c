/* Trees of files that are to go: by rm in a process of its own, since a volume may hold millions of files.
 * One at a time; what comes meanwhile is gathered for the next. What is not begun when the daemon ends is
 * found by its next start. */
#include "engine/local/internal.h"

#include <spawn.h>
#include <unistd.h>

#define TRASH_AT_ONCE 200 /* paths of one rm */

extern char **environ;

static void empty(struct local_engine *engine);

static void emptied(void *arg, pid_t pid, int status)
{
    struct local_engine *engine = arg;

    (void)pid;
    (void)status;
    loop_child_free(engine->trash_rm);
    engine->trash_rm = NULL;
    claims_sweep(engine);
    empty(engine);
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

void sandbox_remove_tree(struct local_engine *engine, const char *path)
{
    if (access(path, F_OK) < 0)
        return;
    vec_push(&engine->trash, mem_strdup(path));
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
