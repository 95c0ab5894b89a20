#include "runtime/sweeper.h"

#include "base/mem.h"
#include "base/vec.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define GONE ".gone-" /* before the names of folders that are to go */

struct sweeper {
    char *dir;
    void (*fn)(const char *path);
    pthread_t thread;
    bool has_thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock: */
    VEC(char *) paths;
    bool ending;
};

static void *work(void *arg)
{
    struct sweeper *sweeper = arg;

    pthread_mutex_lock(&sweeper->lock);
    for (;;) {
        while (sweeper->paths.len == 0 && !sweeper->ending)
            pthread_cond_wait(&sweeper->changed, &sweeper->lock);
        if (sweeper->paths.len == 0)
            break;
        CLEANUP(free) char *path = sweeper->paths.v[--sweeper->paths.len];

        pthread_mutex_unlock(&sweeper->lock);
        sweeper->fn(path);
        pthread_mutex_lock(&sweeper->lock);
    }
    pthread_mutex_unlock(&sweeper->lock);
    return NULL;
}

/* What the last one did not come to. */
static void find_left(struct sweeper *sweeper)
{
    DIR *list = opendir(sweeper->dir);
    const struct dirent *entry;

    while (list && (entry = readdir(list)))
        if (strncmp(entry->d_name, GONE, strlen(GONE)) == 0)
            vec_push(&sweeper->paths, mem_printf("%s/%s", sweeper->dir, entry->d_name));
    if (list)
        closedir(list);
}

struct sweeper *sweeper_new(const char *dir, void (*fn)(const char *path))
{
    struct sweeper *sweeper = NEW(struct sweeper);
    sigset_t all, before;

    sweeper->dir = mem_strdup(dir);
    sweeper->fn = fn;
    pthread_mutex_init(&sweeper->lock, NULL);
    pthread_cond_init(&sweeper->changed, NULL);
    find_left(sweeper);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the loop's */
    sweeper->has_thread = pthread_create(&sweeper->thread, NULL, work, sweeper) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return sweeper;
}

void sweeper_free(struct sweeper *sweeper)
{
    if (!sweeper)
        return;
    pthread_mutex_lock(&sweeper->lock);
    sweeper->ending = true;
    pthread_cond_signal(&sweeper->changed);
    pthread_mutex_unlock(&sweeper->lock);
    if (sweeper->has_thread)
        pthread_join(sweeper->thread, NULL);
    VEC_EACH(&sweeper->paths, it)
        free(*it);
    vec_done(&sweeper->paths);
    pthread_cond_destroy(&sweeper->changed);
    pthread_mutex_destroy(&sweeper->lock);
    free(sweeper->dir);
    free(sweeper);
}

void sweeper_take(struct sweeper *sweeper, const char *path)
{
    const char *name = strrchr(path, '/');
    CLEANUP(free) char *place = mem_printf("%s/" GONE "%s", sweeper->dir, name ? name + 1 : path);

    if (!sweeper->has_thread || rename(path, place) < 0) {
        sweeper->fn(path);
        return;
    }
    pthread_mutex_lock(&sweeper->lock);
    vec_push(&sweeper->paths, TAKE_PTR(place));
    pthread_cond_signal(&sweeper->changed);
    pthread_mutex_unlock(&sweeper->lock);
}
