#include "loop/offload.h"

#include "base/clock.h"
#include "base/mem.h"
#include "loop/loop.h"

#include <pthread.h>
#include <signal.h>

/* Shared by the loop and the threads; the last of them frees it. */
struct offload {
    pthread_mutex_t lock;
    struct loop *loop; /* NULL: closed */
    unsigned refs;
    struct offload_job *jobs; /* the loop's: those waited for */
};

struct offload_job {
    struct offload *offload;
    struct offload_job *next, **prev;
    struct loop_timer *timer;
    bool left; /* nobody waits; under the lock */
    offload_work_fn fn;
    offload_done_fn done;
    offload_drop_fn drop;
    void *owner, *work;
};

struct offload *offload_new(struct loop *loop)
{
    struct offload *offload = NEW(struct offload);

    pthread_mutex_init(&offload->lock, NULL);
    offload->loop = loop;
    offload->refs = 1;
    return offload;
}

/* Unlocks. */
static void release(struct offload *offload)
{
    bool last = --offload->refs == 0;

    pthread_mutex_unlock(&offload->lock);
    if (last) {
        pthread_mutex_destroy(&offload->lock);
        free(offload);
    }
}

/* The loop's part of a job ends. */
static void unlink_job(struct offload_job *job)
{
    *job->prev = job->next;
    if (job->next)
        job->next->prev = job->prev;
    loop_timer_free(job->timer);
}

static void offload_on_done(void *arg)
{
    struct offload_job *job = arg;
    struct offload *offload = job->offload;

    pthread_mutex_lock(&offload->lock);
    if (job->left) { /* its time was up, or all was closed, between the post and now */
        pthread_mutex_unlock(&offload->lock);
        job->drop(job->work);
    } else {
        pthread_mutex_unlock(&offload->lock);
        unlink_job(job);
        job->done(job->owner, job->work);
    }
    free(job);
    pthread_mutex_lock(&offload->lock);
    release(offload);
}

static void offload_on_late(void *arg)
{
    struct offload_job *job = arg;
    struct offload *offload = job->offload;
    __typeof__(job->done) done = job->done;
    void *owner = job->owner;

    unlink_job(job);
    pthread_mutex_lock(&offload->lock);
    job->left = true; /* the thread's from the unlock on, which may free it at once */
    pthread_mutex_unlock(&offload->lock);
    done(owner, NULL);
}

static void *run(void *arg)
{
    struct offload_job *job = arg;
    struct offload *offload = job->offload;
    bool left;

    job->fn(job->work);
    pthread_mutex_lock(&offload->lock);
    left = job->left;
    if (!left)
        loop_post(offload->loop, offload_on_done, job); /* with the reference */
    pthread_mutex_unlock(&offload->lock);
    if (left) {
        job->drop(job->work);
        free(job);
        pthread_mutex_lock(&offload->lock);
        release(offload);
    }
    return NULL;
}

static int start_thread(struct offload_job *job)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, before;
    int failed;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are the loop's */
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, 512 << 10);
    failed = pthread_create(&thread, &attr, run, job);
    pthread_attr_destroy(&attr);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

int offload_run(struct offload *offload, int64_t limit_sec, offload_work_fn fn, offload_done_fn done,
                offload_drop_fn drop, void *owner, void *work, struct err *err)
{
    struct offload_job *job;
    int failed;

    pthread_mutex_lock(&offload->lock);
    if (offload->refs > OFFLOAD_MAX) {
        pthread_mutex_unlock(&offload->lock);
        return err_set(err, ERR_LIMIT, "%d look-ups hang already: is a file server or directory away?",
                       OFFLOAD_MAX);
    }
    offload->refs++;
    pthread_mutex_unlock(&offload->lock);
    job = NEW(struct offload_job);
    *job = (struct offload_job){
        .offload = offload, .fn = fn, .done = done, .drop = drop, .owner = owner, .work = work};
    failed = start_thread(job);
    if (failed) {
        free(job);
        pthread_mutex_lock(&offload->lock);
        release(offload);
        return err_errno(err, failed, "start a thread");
    }
    job->next = offload->jobs;
    job->prev = &offload->jobs;
    if (job->next)
        job->next->prev = &job->next;
    offload->jobs = job;
    job->timer = loop_timer_new(offload->loop, offload_on_late, job);
    loop_timer_set(job->timer, limit_sec * NSEC_PER_SEC);
    return 0;
}

void offload_close(struct offload *offload)
{
    if (!offload)
        return;
    pthread_mutex_lock(&offload->lock);
    while (offload->jobs) {
        struct offload_job *job = offload->jobs;

        unlink_job(job);
        job->left = true;
    }
    offload->loop = NULL;
    release(offload);
}
