/* One epoll descriptor carries everything: callers' descriptors, a signalfd, a pidfd per child and an
 * eventfd for loop_post. Timers sit in a heap whose first one bounds the wait.
 *
 * A turn waits once, then runs the ready descriptors, the timers that are due and what loop_later
 * asked for. epoll hands out pointers to loop_io, so one that is freed inside a turn is only marked
 * then and released when no event of that turn can point to it any more. */
#include "loop/loop.h"

#include "base/clock.h"
#include "base/heap.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "base/vec.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

#define LOOP_EVENTS_MAX 256 /* taken from epoll at once */
#define LOOP_LATER_MAX  8   /* rounds of loop_later in one turn; then descriptors get their chance again */

struct loop_io {
    struct loop *loop;
    loop_io_fn fn; /* NULL: freed inside this turn */
    void *arg;
    struct loop_io *next_dead;
    int fd;
    uint32_t events;
};

struct loop_timer {
    struct loop *loop;
    loop_timer_fn fn;
    void *arg;
    int64_t at;
    uint64_t seq; /* timers of the same moment fire in the order they were set */
    size_t place;
};

struct loop_child {
    struct loop_io *io;
    loop_child_fn fn;
    void *arg;
    int fd;
    pid_t pid;
};

struct call {
    void (*fn)(void *arg);
    void *arg;
};
typedef VEC(struct call) calls;

struct signal_handler {
    void (*fn)(void *arg, int signo);
    void *arg;
};

struct loop {
    int epoll_fd, signal_fd, post_fd;
    struct clock_virtual *clock; /* NULL: turns wait */
    int64_t now;
    bool stop, in_turn;
    struct heap timers;
    uint64_t timer_seq;
    struct loop_io *dead;
    struct loop_io *signal_io, *post_io;
    calls later;
    int64_t longest; /* turn, in nanoseconds of processor time */
    struct histogram turns;
    sigset_t signals;
    struct signal_handler handlers[_NSIG];
    pthread_mutex_t post_lock; /* guards `posted` */
    calls posted;
};

static bool timer_before(const void *left, const void *right)
{
    const struct loop_timer *a = left, *b = right;

    return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

static void run_posted(void *arg, uint32_t events)
{
    struct loop *loop = arg;
    calls taken;
    uint64_t count;

    (void)events;
    while (read(loop->post_fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
    pthread_mutex_lock(&loop->post_lock);
    taken = loop->posted;
    loop->posted = (calls){0};
    pthread_mutex_unlock(&loop->post_lock);
    for (size_t i = 0; i < taken.len; i++)
        taken.v[i].fn(taken.v[i].arg);
    vec_done(&taken);
}

struct loop *loop_new(void)
{
    struct loop *loop = NEW(struct loop);

    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->post_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->signal_fd = -1;
    if (loop->epoll_fd < 0 || loop->post_fd < 0) {
        perror("loop");
        abort();
    }
    loop->now = clock_monotonic();
    heap_init(&loop->timers, timer_before, offsetof(struct loop_timer, place));
    pthread_mutex_init(&loop->post_lock, NULL);
    sigemptyset(&loop->signals);
    loop->post_io = loop_io_new(loop, loop->post_fd, EPOLLIN, run_posted, loop);
    return loop;
}

static void free_dead(struct loop *loop)
{
    while (loop->dead) {
        struct loop_io *io = loop->dead;

        loop->dead = io->next_dead;
        free(io);
    }
}

/* One round: what is asked for meanwhile waits for the next one. */
static void run_later(struct loop *loop)
{
    calls round = loop->later;

    loop->later = (calls){0};
    for (size_t i = 0; i < round.len; i++)
        round.v[i].fn(round.v[i].arg);
    if (!loop->later.v) { /* keep the memory for the next round */
        round.len = 0;
        loop->later = round;
    } else {
        vec_done(&round);
    }
}

void loop_free(struct loop *loop)
{
    if (!loop)
        return;
    for (int round = 0; round < LOOP_LATER_MAX && loop->later.len > 0; round++)
        run_later(loop);
    loop_io_free(loop->post_io);
    loop_io_free(loop->signal_io);
    free_dead(loop);
    fd_close(loop->signal_fd);
    fd_close(loop->post_fd);
    fd_close(loop->epoll_fd);
    heap_done(&loop->timers);
    vec_done(&loop->later);
    vec_done(&loop->posted);
    pthread_mutex_destroy(&loop->post_lock);
    free(loop);
}

static int wait_ms(const struct loop *loop, int timeout_ms)
{
    const struct loop_timer *first = heap_first(&loop->timers);
    int64_t ms;

    if (loop->later.len > 0)
        return 0;
    if (!first)
        return timeout_ms;
    ms = first->at - clock_monotonic();
    ms = ms <= 0 ? 0 : (ms + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC;
    if (ms > INT_MAX)
        ms = INT_MAX;
    return timeout_ms >= 0 && timeout_ms < ms ? timeout_ms : (int)ms;
}

static void run_timers(struct loop *loop)
{
    struct loop_timer *timer;

    while ((timer = heap_first(&loop->timers)) && timer->at <= loop->now) {
        heap_remove(&loop->timers, timer);
        timer->place = HEAP_OUT;
        timer->fn(timer->arg);
    }
}

/* To the first timer, or as far as the turn may wait. */
static void jump(struct loop *loop, int timeout_ms)
{
    const struct loop_timer *first = heap_first(&loop->timers);
    int64_t step = timeout_ms >= 0 ? timeout_ms * NSEC_PER_MSEC : first ? INT64_MAX : 0;

    if (loop->later.len > 0)
        return;
    if (first && first->at - loop->clock->monotonic < step)
        step = first->at - loop->clock->monotonic;
    if (step <= 0)
        return;
    loop->clock->monotonic += step;
    loop->clock->now += step;
}

void loop_use_clock(struct loop *loop, struct clock_virtual *clock)
{
    loop->clock = clock;
    loop->now = clock_monotonic();
}

static int64_t thread_time(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (int64_t)ts.tv_sec * NSEC_PER_SEC + ts.tv_nsec;
}

int64_t loop_longest_turn(struct loop *loop)
{
    int64_t longest = loop->longest;

    loop->longest = 0;
    return longest;
}

const struct histogram *loop_turns(const struct loop *loop)
{
    return &loop->turns;
}

int loop_turn(struct loop *loop, int timeout_ms, struct err *err)
{
    struct epoll_event events[LOOP_EVENTS_MAX];
    int64_t start, took;
    int count;

    assert(!loop->in_turn);
    count = epoll_wait(loop->epoll_fd, events, LOOP_EVENTS_MAX, loop->clock ? 0 : wait_ms(loop, timeout_ms));
    if (count < 0) {
        if (errno != EINTR)
            return err_errno(err, errno, "epoll_wait");
        count = 0;
    }
    if (loop->clock && count == 0)
        jump(loop, timeout_ms);
    loop->now = clock_monotonic();
    start = thread_time();
    loop->in_turn = true;
    for (int i = 0; i < count; i++) {
        struct loop_io *io = events[i].data.ptr;

        if (io->fn)
            io->fn(io->arg, events[i].events);
    }
    run_timers(loop);
    for (int round = 0; round < LOOP_LATER_MAX && loop->later.len > 0; round++)
        run_later(loop);
    free_dead(loop);
    loop->in_turn = false;
    took = thread_time() - start;
    loop->longest = took > loop->longest ? took : loop->longest;
    histogram_add(&loop->turns, &histogram_latency, clock_monotonic() - loop->now);
    return 0;
}

int loop_run(struct loop *loop, struct err *err)
{
    int result = 0;

    while (!loop->stop && result == 0)
        result = loop_turn(loop, -1, err);
    loop->stop = false;
    return result;
}

void loop_stop(struct loop *loop)
{
    loop->stop = true;
}

int64_t loop_now(const struct loop *loop)
{
    return loop->now;
}

struct loop_io *loop_io_new(struct loop *loop, int fd, uint32_t events, loop_io_fn fn, void *arg)
{
    struct loop_io *io = NEW(struct loop_io);
    struct epoll_event event = {.events = events, .data.ptr = io};

    *io = (struct loop_io){.loop = loop, .fn = fn, .arg = arg, .fd = fd, .events = events};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0) {
        /* A bad descriptor is our own mistake; the kernel's limit on watches is as final as no memory. */
        perror("loop: epoll_ctl");
        abort();
    }
    return io;
}

void loop_io_set(struct loop_io *io, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = io};

    if (io->events == events)
        return;
    io->events = events;
    epoll_ctl(io->loop->epoll_fd, EPOLL_CTL_MOD, io->fd, &event);
}

void loop_io_free(struct loop_io *io)
{
    if (!io)
        return;
    assert(io->fn);
    epoll_ctl(io->loop->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
    io->fn = NULL;
    io->next_dead = io->loop->dead;
    io->loop->dead = io;
    if (!io->loop->in_turn)
        free_dead(io->loop);
}

struct loop_timer *loop_timer_new(struct loop *loop, loop_timer_fn fn, void *arg)
{
    struct loop_timer *timer = NEW(struct loop_timer);

    *timer = (struct loop_timer){.loop = loop, .fn = fn, .arg = arg, .place = HEAP_OUT};
    return timer;
}

void loop_timer_set(struct loop_timer *timer, int64_t delay_ns)
{
    int64_t now = clock_monotonic(); /* loop->now may be old when a callback takes long */

    timer->at = delay_ns > INT64_MAX - now ? INT64_MAX : now + delay_ns;
    timer->seq = timer->loop->timer_seq++;
    if (timer->place == HEAP_OUT)
        heap_push(&timer->loop->timers, timer);
    else
        heap_moved(&timer->loop->timers, timer);
}

void loop_timer_stop(struct loop_timer *timer)
{
    if (timer->place == HEAP_OUT)
        return;
    heap_remove(&timer->loop->timers, timer);
    timer->place = HEAP_OUT;
}

bool loop_timer_active(const struct loop_timer *timer)
{
    return timer->place != HEAP_OUT;
}

void loop_timer_free(struct loop_timer *timer)
{
    if (!timer)
        return;
    loop_timer_stop(timer);
    free(timer);
}

void loop_later(struct loop *loop, void (*fn)(void *arg), void *arg)
{
    vec_push(&loop->later, (struct call){fn, arg});
}

static void on_signal(void *arg, uint32_t events)
{
    struct loop *loop = arg;
    struct signalfd_siginfo info;

    (void)events;
    while (read(loop->signal_fd, &info, sizeof(info)) == sizeof(info)) {
        const struct signal_handler *handler = &loop->handlers[info.ssi_signo];

        if (handler->fn)
            handler->fn(handler->arg, (int)info.ssi_signo);
    }
}

int loop_signal(struct loop *loop, int signo, void (*fn)(void *arg, int signo), void *arg, struct err *err)
{
    sigset_t one;
    int fd, rc;

    if (signo <= 0 || signo >= _NSIG)
        return err_set(err, ERR_INVALID, "no signal %d", signo);
    sigemptyset(&one);
    sigaddset(&one, signo);
    if ((rc = pthread_sigmask(SIG_BLOCK, &one, NULL)) != 0)
        return err_errno(err, rc, "block signal %d", signo);
    sigaddset(&loop->signals, signo);
    fd = signalfd(loop->signal_fd, &loop->signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return err_errno(err, errno, "signalfd");
    loop->signal_fd = fd;
    if (!loop->signal_io)
        loop->signal_io = loop_io_new(loop, fd, EPOLLIN, on_signal, loop);
    loop->handlers[signo] = (struct signal_handler){fn, arg};
    return 0;
}

static void on_child(void *arg, uint32_t events)
{
    struct loop_child *child = arg;
    int status = -1; /* stays when somebody else has reaped it: neither exited nor signaled */
    pid_t got;

    (void)events;
    do
        got = waitpid(child->pid, &status, WNOHANG);
    while (got < 0 && errno == EINTR);
    if (got == 0)
        return;
    loop_io_free(TAKE_PTR(child->io));
    child->fn(child->arg, child->pid, status);
}

struct loop_child *loop_child_new(struct loop *loop, pid_t pid, loop_child_fn fn, void *arg, struct err *err)
{
    struct loop_child *child;
    int fd = pidfd_open(pid, 0); /* close-on-exec by itself */

    if (fd < 0) {
        err_errno(err, errno, "pidfd_open %d", (int)pid);
        return NULL;
    }
    child = NEW(struct loop_child);
    *child = (struct loop_child){.fn = fn, .arg = arg, .fd = fd, .pid = pid};
    child->io = loop_io_new(loop, fd, EPOLLIN, on_child, child);
    return child;
}

void loop_child_free(struct loop_child *child)
{
    if (!child)
        return;
    loop_io_free(child->io);
    fd_close(child->fd);
    free(child);
}

void loop_post(struct loop *loop, void (*fn)(void *arg), void *arg)
{
    const uint64_t one = 1;
    bool wake;

    pthread_mutex_lock(&loop->post_lock);
    wake = loop->posted.len == 0;
    vec_push(&loop->posted, (struct call){fn, arg});
    pthread_mutex_unlock(&loop->post_lock);
    /* Fails only when the counter is full, and then the loop wakes anyway. */
    while (wake && write(loop->post_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}
