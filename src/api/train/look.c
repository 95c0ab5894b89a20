#include "api/train/look.h"

#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>

#define STACK_BYTES (256 << 10)

/* Shared by the loop and the threads; the last of them frees it. */
struct looks {
    pthread_mutex_t lock;
    pthread_cond_t done;
    struct map *hanging; /* who → how many, as an address */
    unsigned count, refs;
};

struct look {
    struct looks *looks;
    void (*fn)(void *work);
    void (*drop)(void *work);
    void *work;
    char *who;
    bool done, left; /* left: nobody waits; both under the lock */
};

static void look_free(struct look *look)
{
    free(look->who);
    free(look);
}

struct looks *train_looks_new(void)
{
    struct looks *looks = NEW(struct looks);
    pthread_condattr_t attr;

    pthread_mutex_init(&looks->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&looks->done, &attr);
    pthread_condattr_destroy(&attr);
    looks->hanging = map_new();
    looks->refs = 1;
    return looks;
}

/* Unlocks. */
static void release(struct looks *looks)
{
    bool last = --looks->refs == 0;

    pthread_mutex_unlock(&looks->lock);
    if (!last)
        return;
    pthread_mutex_destroy(&looks->lock);
    pthread_cond_destroy(&looks->done);
    map_free(looks->hanging);
    free(looks);
}

void train_looks_free(struct looks *looks)
{
    if (!looks)
        return;
    pthread_mutex_lock(&looks->lock);
    release(looks);
}

static void count_hanging(struct looks *looks, const char *who, int by)
{
    uintptr_t count = (uintptr_t)map_get(looks->hanging, str_from(who)) + (uintptr_t)by;

    if (count)
        map_set(looks->hanging, str_from(who), (void *)count);
    else
        map_remove(looks->hanging, str_from(who));
}

int64_t train_looks_deadline(struct looks *looks, const char *who)
{
    int64_t ms = LOOK_MS;

    pthread_mutex_lock(&looks->lock);
    if (map_get(looks->hanging, str_from(who)))
        ms = LOOK_HANGING_MS;
    else if (map_len(looks->hanging) > 0)
        ms = LOOK_OTHERS_MS;
    pthread_mutex_unlock(&looks->lock);
    return clock_monotonic() + ms * NSEC_PER_MSEC;
}

static void *look_thread(void *arg)
{
    struct look *look = arg;
    struct looks *looks = look->looks;

    look->fn(look->work);
    pthread_mutex_lock(&looks->lock);
    looks->count--;
    if (look->left) {
        count_hanging(looks, look->who, -1);
        pthread_mutex_unlock(&looks->lock);
        look->drop(look->work);
        look_free(look);
        pthread_mutex_lock(&looks->lock);
    } else {
        look->done = true;
        pthread_cond_broadcast(&looks->done);
    }
    release(looks);
    return NULL;
}

static bool start(struct look *look)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    int failed;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the loop's */
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    failed = pthread_create(&thread, &attr, look_thread, look);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !failed;
}

static bool wait_for(struct look *look, int64_t deadline)
{
    const struct timespec until = {deadline / NSEC_PER_SEC, deadline % NSEC_PER_SEC};

    while (!look->done)
        if (pthread_cond_timedwait(&look->looks->done, &look->looks->lock, &until) == ETIMEDOUT)
            break;
    return look->done;
}

bool train_look(struct looks *looks, const char *who, int64_t deadline, void (*fn)(void *work),
                void (*drop)(void *work), void *work)
{
    struct look *look = NEW(struct look);
    bool done;

    *look = (struct look){.looks = looks, .fn = fn, .drop = drop, .work = work};
    look->who = mem_strdup(who);
    pthread_mutex_lock(&looks->lock);
    if ((uintptr_t)map_get(looks->hanging, str_from(look->who)) >= LOOKS_EACH || looks->count >= LOOKS_MAX ||
        !start(look)) {
        pthread_mutex_unlock(&looks->lock);
        drop(work);
        look_free(look);
        return false;
    }
    looks->count++;
    looks->refs++;
    done = wait_for(look, deadline);
    if (!done) {
        look->left = true;
        count_hanging(looks, look->who, 1);
    }
    pthread_mutex_unlock(&looks->lock);
    if (done)
        look_free(look);
    return done;
}
