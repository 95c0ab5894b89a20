/* The conversation with a process blocks, in a thread of loop/offload. Processes that are idle wait on a
 * small stack, which threads and the loop share under a lock. */
#include "tasks/renderer.h"

#include "base/clock.h"
#include "base/mem.h"
#include "base/vec.h"
#include "loop/loop.h"
#include "loop/offload.h"
#include "tasks/render_wire.h"
#include "tasks/tasks.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define IDLE_MAX RENDERER_AT_ONCE

struct process {
    pid_t pid;
    int fd;
    bool used; /* it has answered before */
};

/* What threads reach: it lives until the last of them has ended. */
struct pool {
    pthread_mutex_t lock;
    char *program;
    struct process idle[IDLE_MAX];
    size_t idle_len, refs;
    bool closed;
};

struct waiting {
    struct waiting *next;
    char *person;
    struct render_job *job;
    struct pool *pool;
    renderer_done done;
    void *arg;
};

/* One that runs: a thread has `waiting`, unless it is NULL. */
struct turn {
    struct renderer *renderer;
    struct waiting *waiting;
    char *person;
    renderer_done done;
    void *arg;
};

struct renderer {
    struct pool *pool;
    struct offload *offload;
    struct waiting *head, **tail;
    size_t waiting;
    struct turn turns[RENDERER_AT_ONCE];
};

/* ---- jobs ---- */

struct render_job *render_job_new(const char *name, struct str text, const struct json *values,
                                  unsigned flags)
{
    struct render_job *job = NEW(struct render_job);

    job->flags = flags;
    buf_add(&job->name, name, strnlen(name, JINJA_NAME_MAX - 1));
    /* one byte more than may be is enough to be refused for its length */
    buf_add(&job->text, text.s, text.len < RENDER_TEXT_MAX + 1 ? text.len : RENDER_TEXT_MAX + 1);
    if (values)
        json_write(&job->values, values);
    else
        buf_puts(&job->values, "{}");
    return job;
}

void render_job_free(struct render_job *job)
{
    if (!job)
        return;
    buf_done(&job->name);
    buf_done(&job->text);
    buf_done(&job->values);
    buf_done(&job->out);
    free(job);
}

/* ---- processes ---- */

static void process_end(struct process *process)
{
    close(process->fd);
    kill(process->pid, SIGKILL);
    while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}

static int process_start(const char *program, struct process *ret, struct err *err)
{
    char name[] = "berth-render", path[] = "PATH=/usr/bin:/bin";
    char *const argv[] = {name, NULL}, *const env[] = {path, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    int ends[2], rc;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return err_errno(err, errno, "make a socket");
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    rc = posix_spawn(&ret->pid, program, &actions, &attributes, argv, env);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    close(ends[1]);
    if (rc != 0) {
        close(ends[0]);
        return err_errno(err, rc, "start '%s'", program);
    }
    ret->fd = ends[0];
    ret->used = false;
    return 0;
}

static bool is_alive(const struct process *process)
{
    struct pollfd poll_fd = {.fd = process->fd, .events = POLLIN};

    return poll(&poll_fd, 1, 0) == 0; /* it says nothing unless asked, and hangs up at its end */
}

static int process_take(struct pool *pool, struct process *ret, struct err *err)
{
    pthread_mutex_lock(&pool->lock);
    while (pool->idle_len > 0) {
        *ret = pool->idle[--pool->idle_len];
        if (is_alive(ret)) {
            pthread_mutex_unlock(&pool->lock);
            return 0;
        }
        process_end(ret);
    }
    pthread_mutex_unlock(&pool->lock);
    return process_start(pool->program, ret, err);
}

static void process_give(struct pool *pool, struct process *process)
{
    bool kept;

    pthread_mutex_lock(&pool->lock);
    kept = !pool->closed && pool->idle_len < IDLE_MAX;
    if (kept)
        pool->idle[pool->idle_len++] = *process;
    pthread_mutex_unlock(&pool->lock);
    if (!kept)
        process_end(process);
}

/* ---- one conversation ---- */

/* Waits until the descriptor is ready. -1: the time is over. */
static int ready(int fd, short events, int64_t deadline)
{
    struct pollfd poll_fd = {.fd = fd, .events = events};

    for (;;) {
        int64_t left = deadline - clock_monotonic();
        int n = left > 0 ? poll(&poll_fd, 1, (int)(left / NSEC_PER_MSEC) + 1) : 0;

        if (n > 0)
            return 0;
        if (n == 0 || errno != EINTR)
            return -1;
    }
}

static int send_all(int fd, const void *data, size_t len, int64_t deadline)
{
    const char *at = data;

    while (len > 0) {
        ssize_t n = ready(fd, POLLOUT, deadline) < 0 ? -1 : send(fd, at, len, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN)
            continue;
        if (n <= 0)
            return -1;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static int recv_all(int fd, void *data, size_t len, int64_t deadline)
{
    char *at = data;

    while (len > 0) {
        ssize_t n;

        errno = ETIMEDOUT;
        n = ready(fd, POLLIN, deadline) < 0 ? -1 : recv(fd, at, len, MSG_DONTWAIT);
        if (n < 0 && errno == EAGAIN)
            continue;
        if (n <= 0)
            return -1;
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static void tame_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    text[utf8_valid_len(str_from(text))] = '\0';
}

static void tame_place(struct jinja_place *place)
{
    tame_text(place->template_name, sizeof(place->template_name));
    tame_text(place->function, sizeof(place->function));
}

/* What comes from a process that a template may have got hold of is data, not a struct to believe. */
static int tame(struct jinja_error *error)
{
    if ((int)error->kind <= JINJA_OK || (int)error->kind > JINJA_LIMIT_ERROR ||
        error->chain_len > JINJA_CHAIN_MAX)
        return -1;
    tame_text(error->message, sizeof(error->message));
    tame_text(error->source_line, sizeof(error->source_line));
    tame_place(&error->at);
    for (uint32_t i = 0; i < error->chain_len; i++)
        tame_place(&error->chain[i]);
    return 0;
}

static int ask(const struct process *process, struct render_job *job, int64_t deadline)
{
    struct render_head head = {.magic = RENDER_MAGIC,
                               .error_size = sizeof(struct jinja_error),
                               .flags = job->flags,
                               .name_len = (uint32_t)job->name.len,
                               .text_len = (uint32_t)job->text.len,
                               .values_len = (uint32_t)job->values.len};
    struct render_answer answer;
    int fd = process->fd;

    if (send_all(fd, &head, sizeof(head), deadline) < 0 ||
        send_all(fd, job->name.data, job->name.len, deadline) < 0 ||
        send_all(fd, job->text.data, job->text.len, deadline) < 0 ||
        send_all(fd, job->values.data, job->values.len, deadline) < 0 ||
        recv_all(fd, &answer, sizeof(answer), deadline) < 0 || answer.magic != RENDER_MAGIC)
        return -1;
    job->failed = answer.failed != 0;
    if (job->failed) {
        if (answer.len != sizeof(job->error) || recv_all(fd, &job->error, sizeof(job->error), deadline) < 0)
            return -1;
        return tame(&job->error);
    }
    if (answer.len > TASKS_OUTPUT_MAX ||
        recv_all(fd, buf_reserve(&job->out, (size_t)answer.len + 1), answer.len, deadline) < 0)
        return -1;
    job->out.len = answer.len;
    job->out.data[answer.len] = '\0';
    return utf8_valid(buf_view(&job->out)) ? 0 : -1;
}

static void converse(struct pool *pool, struct render_job *job)
{
    int64_t deadline = clock_monotonic() + RENDERER_KILL_MS * NSEC_PER_MSEC;
    struct process process;
    bool again;

    if (job->values.len > RENDER_VALUES_MAX) {
        job->failed = true;
        err_set(&job->err, ERR_LIMIT, "the values are longer than %d bytes", RENDER_VALUES_MAX);
        return;
    }
    do {
        if (process_take(pool, &process, &job->err) < 0) {
            job->failed = true;
            return;
        }
        if (ask(&process, job, deadline) == 0) {
            process.used = true;
            process_give(pool, &process);
            return;
        }
        /* one that ended while it was idle is no fault of this render: a fresh one tells */
        again = process.used && clock_monotonic() < deadline;
        process_end(&process);
        buf_clear(&job->out);
    } while (again);
    job->failed = true;
    job->error.kind = JINJA_OK;
    err_set(&job->err, ERR_LIMIT, "rendering took too much time or memory and was ended");
}

/* ---- the pool ---- */

static struct pool *pool_ref(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->refs++;
    pthread_mutex_unlock(&pool->lock);
    return pool;
}

static void pool_unref(struct pool *pool)
{
    bool last;

    pthread_mutex_lock(&pool->lock);
    last = --pool->refs == 0;
    pthread_mutex_unlock(&pool->lock);
    if (!last)
        return;
    for (size_t i = 0; i < pool->idle_len; i++)
        process_end(&pool->idle[i]);
    pthread_mutex_destroy(&pool->lock);
    free(pool->program);
    free(pool);
}

static void pool_close(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    pool->closed = true;
    while (pool->idle_len > 0)
        process_end(&pool->idle[--pool->idle_len]);
    pthread_mutex_unlock(&pool->lock);
}

/* ---- whose turn it is ---- */

static void waiting_free(struct waiting *waiting)
{
    pool_unref(waiting->pool);
    render_job_free(waiting->job);
    free(waiting->person);
    free(waiting);
}

static void run_waiting(void *work)
{
    struct waiting *waiting = work;

    converse(waiting->pool, waiting->job);
}

static void drop_waiting(void *work)
{
    waiting_free(work);
}

static void renderer_next(struct renderer *renderer);

static void renderer_on_done(void *owner, void *work)
{
    struct turn turn = *(struct turn *)owner;
    struct renderer *renderer = turn.renderer;
    struct waiting *waiting = work;
    struct render_job *job = waiting ? TAKE_PTR(waiting->job) : NULL;

    *(struct turn *)owner = (struct turn){0};
    free(turn.person);
    if (waiting) {
        waiting_free(waiting);
    } else { /* the thread hangs with what it has */
        job = NEW(struct render_job);
        job->failed = true;
        err_set(&job->err, ERR_TIMEOUT, "rendering did not end in time");
    }
    turn.done(turn.arg, job);
    renderer_next(renderer);
}

static bool is_active(const struct renderer *renderer, const char *person)
{
    for (size_t i = 0; i < RENDERER_AT_ONCE; i++)
        if (renderer->turns[i].person && streq(renderer->turns[i].person, person))
            return true;
    return false;
}

/* Takes the first out of the queue whose person has none running. */
static struct waiting *take_next(struct renderer *renderer)
{
    for (struct waiting **at = &renderer->head; *at; at = &(*at)->next)
        if (!is_active(renderer, (*at)->person)) {
            struct waiting *found = *at;

            *at = found->next;
            if (!*at)
                renderer->tail = at;
            renderer->waiting--;
            return found;
        }
    return NULL;
}

static void renderer_next(struct renderer *renderer)
{
    for (size_t i = 0; i < RENDERER_AT_ONCE; i++) {
        struct turn *turn = &renderer->turns[i];
        struct waiting *waiting;
        struct err err = {0};

        if (turn->person || !(waiting = take_next(renderer)))
            continue;
        *turn = (struct turn){renderer, waiting, mem_strdup(waiting->person), waiting->done, waiting->arg};
        if (offload_run(renderer->offload, 2 * RENDERER_KILL_MS / 1000, run_waiting, renderer_on_done,
                        drop_waiting, turn, waiting, &err) == 0)
            continue;
        waiting->job->failed = true;
        waiting->job->err = err;
        renderer_on_done(turn, waiting);
        return;
    }
}

int renderer_start(struct renderer *renderer, const char *person, struct render_job *job, renderer_done done,
                   void *arg, struct err *err)
{
    struct waiting *waiting;
    size_t own = 0;

    for (const struct waiting *it = renderer->head; it; it = it->next)
        own += streq(it->person, person);
    if (own >= RENDERER_PERSON_MAX || renderer->waiting >= RENDERER_MAX)
        return err_set(err, ERR_UNAVAILABLE, "too many templates wait to be rendered; try again in a moment");
    waiting = NEW(struct waiting);
    waiting->person = mem_strdup(person);
    waiting->job = job;
    waiting->pool = pool_ref(renderer->pool);
    waiting->done = done;
    waiting->arg = arg;
    *renderer->tail = waiting;
    renderer->tail = &waiting->next;
    renderer->waiting++;
    renderer_next(renderer);
    return 0;
}

void renderer_wait(struct renderer *renderer, struct render_job *job)
{
    converse(renderer->pool, job);
}

struct renderer *renderer_new(struct loop *loop, const char *program)
{
    struct renderer *renderer = NEW(struct renderer);

    renderer->tail = &renderer->head;
    renderer->offload = offload_new(loop);
    renderer->pool = NEW(struct pool);
    renderer->pool->refs = 1;
    renderer->pool->program = mem_strdup(program);
    pthread_mutex_init(&renderer->pool->lock, NULL);
    return renderer;
}

void renderer_free(struct renderer *renderer)
{
    if (!renderer)
        return;
    while (renderer->head) {
        struct waiting *next = renderer->head->next;

        waiting_free(renderer->head);
        renderer->head = next;
    }
    pool_close(renderer->pool);
    offload_close(renderer->offload);
    for (size_t i = 0; i < RENDERER_AT_ONCE; i++)
        free(renderer->turns[i].person);
    pool_unref(renderer->pool);
    free(renderer);
}
