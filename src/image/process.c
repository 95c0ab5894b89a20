/* process.c - the store's child processes: finding programs, starting them, and the one that deletes folders.
 */
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "image/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>

#define LOG_MODULE     "image"
#define REMOVE_AT_ONCE 64 /* arguments of one remover */

char *store_program(const char *given, const char *name, bool beside_us)
{
    CLEANUP(free) char *path = mem_strdup(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
    char self[PATH_MAX] = "";
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash = n > 0 ? strrchr(self, '/') : NULL, *found;
    struct str rest, part;

    if (given)
        return access(given, X_OK) == 0 ? mem_strdup(given) : NULL;
    if (beside_us && slash) {
        const char *const places[] = {"%s/%s", "%s/../libexec/berth/%s", "%s/../image/%s"};

        *slash = '\0';
        for (size_t i = 0; i < ARRAY_LEN(places); i++) {
            found = mem_printf(places[i], self, name);
            if (access(found, X_OK) == 0)
                return found;
            free(found);
        }
    }
    rest = str_from(path);
    while (str_split(&rest, ':', &part)) {
        found = mem_printf("%.*s/%s", STR_ARG(part), name);
        if (part.len > 0 && part.s[0] == '/' && access(found, X_OK) == 0)
            return found;
        free(found);
    }
    return NULL;
}

int store_spawn(const char *const *argv, int *out, pid_t *ret, struct err *err)
{
    CLEANUP(fd_close) int read_end = -1;
    CLEANUP(fd_close) int write_end = -1;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t none, all;
    int ends[2], rc;

    if (out && pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return err_errno(err, errno, "make a pipe");
    if (out) {
        read_end = ends[0];
        write_end = ends[1];
        fcntl(write_end, F_SETFL, 0); /* the child writes whole lines, and may wait for us */
    }
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attr, 0);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setsigdefault(&attr, &all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (out)
        posix_spawn_file_actions_adddup2(&actions, write_end, STDOUT_FILENO);
    else
        posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    rc = posix_spawn(ret, argv[0], &actions, &attr, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    if (rc != 0)
        return err_errno(err, rc, "start '%s'", argv[0]);
    if (out)
        *out = take_fd(&read_end);
    return 0;
}

static void on_remover(void *arg, pid_t pid, int status)
{
    struct images *images = arg;

    (void)pid;
    loop_child_free(TAKE_PTR(images->remover_child));
    images->remover = 0;
    if (status != 0)
        log_warn("not everything in '%s/trash' could be deleted", images->dir);
    store_empty_trash(images);
}

void store_empty_trash(struct images *images)
{
    const char *argv[REMOVE_AT_ONCE + 3] = {images->helper, "remove"};
    size_t argc = 2;
    struct err err = {0};

    if (images->remover || !images->helper || images->trash.len == 0)
        return;
    while (argc < REMOVE_AT_ONCE + 2 && images->trash.len > 0)
        argv[argc++] = vec_pop(&images->trash);
    if (store_spawn(argv, NULL, &images->remover, &err) == 0)
        images->remover_child = loop_child_new(images->loop, images->remover, on_remover, images, &err);
    if (!images->remover_child)
        images->remover = 0; /* the next one is another try */
    if (err.code)
        log_warn("deleting from '%s/trash': %s", images->dir, err.msg);
    while (argc > 2)
        free((void *)(uintptr_t)argv[--argc]);
}

/* A folder on another file system is only renamed, and deleted where it is. */
void images_discard(struct images *images, const char *path)
{
    CLEANUP(free) char *to = NULL;
    char random[17];
    int rc;

    random_hex(random, 8);
    to = mem_printf("%s/trash/%s", images->dir, random);
    rc = rename(path, to);
    if (rc < 0 && errno == EXDEV) {
        free(to);
        to = mem_printf("%s.%s.trash", path, random);
        rc = rename(path, to);
    }
    if (rc == 0) {
        vec_push(&images->trash, TAKE_PTR(to));
        store_empty_trash(images);
    } else if (errno != ENOENT) {
        log_warn("cannot throw away '%s': %s", path, strerror(errno));
    }
}
