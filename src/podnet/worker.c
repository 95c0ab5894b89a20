/* worker - see worker.h. Finished tasks wake the loop by an eventfd of our own, so that freeing the worker
 * takes back what has not been told yet. */
#include "podnet/worker.h"

#include "base/mem.h"
#include "loop/loop.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

struct task_list {
    struct net_task *first, **end;
};

struct worker {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct task_list urgent, normal, finished;
    bool stop;
    int event;
    struct loop_io *io;
};

static void list_init(struct task_list *list)
{
    list->first = NULL;
    list->end = &list->first;
}

static void list_add(struct task_list *list, struct net_task *task)
{
    task->next = NULL;
    *list->end = task;
    list->end = &task->next;
}

static struct net_task *list_take(struct task_list *list)
{
    struct net_task *task = list->first;

    if (task) {
        list->first = task->next;
        if (!list->first)
            list->end = &list->first;
    }
    return task;
}

static void wake(struct worker *w)
{
    uint64_t one = 1;

    while (write(w->event, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

static void *work(void *arg)
{
    struct worker *w = arg;

    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        struct net_task *task = list_take(&w->urgent);

        if (!task)
            task = list_take(&w->normal);
        if (!task) {
            pthread_cond_wait(&w->more, &w->lock);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        task->run(task);
        pthread_mutex_lock(&w->lock);
        if (!w->finished.first)
            wake(w);
        list_add(&w->finished, task);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static void on_event(void *arg, uint32_t events)
{
    struct worker *w = arg;
    uint64_t count;
    struct net_task *task, *next;

    (void)events;
    while (read(w->event, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
    pthread_mutex_lock(&w->lock);
    task = w->finished.first;
    list_init(&w->finished);
    pthread_mutex_unlock(&w->lock);
    for (; task; task = next) {
        next = task->next;
        task->done(task);
    }
}

static int start_thread(struct worker *w)
{
    sigset_t all, old;
    int status;

    /* Signals are the loop's. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    status = pthread_create(&w->thread, NULL, work, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return status;
}

int worker_new(struct loop *loop, struct worker **ret, struct err *err)
{
    struct worker *w = NEW(struct worker);
    int status;

    list_init(&w->urgent);
    list_init(&w->normal);
    list_init(&w->finished);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->more, NULL);
    w->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    status = w->event < 0 ? errno : start_thread(w);
    if (status) {
        fd_close(w->event);
        free(w);
        return err_errno(err, status, "start the network's helper thread");
    }
    w->io = loop_io_new(loop, w->event, EPOLLIN, on_event, w);
    *ret = w;
    return 0;
}

static void drop_all(struct task_list *list)
{
    struct net_task *task;

    while ((task = list_take(list)))
        task->drop(task);
}

void worker_free(struct worker *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    loop_io_free(w->io);
    close(w->event);
    drop_all(&w->urgent);
    drop_all(&w->normal);
    drop_all(&w->finished);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->more);
    free(w);
}

void worker_push(struct worker *w, struct net_task *task)
{
    pthread_mutex_lock(&w->lock);
    list_add(task->urgent ? &w->urgent : &w->normal, task);
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
}
