/* A connection whose other end is a process with the rights of the caller: bytes both ways over a socket
 * pair, with neither side running away from the other. Who the caller is on this machine is looked up in a
 * thread, since a directory service may hang; the process is started without a copy of this one's memory,
 * which takes longer the larger the daemon is. */
#include "base/mem.h"
#include "loop/offload.h"
#include "machine/internal.h"
#include "machine/sendq.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK       (256 << 10)
#define UNSENT_MAX  (4 << 20) /* to the caller, before we stop reading from the process */
#define QUEUE_MAX   (1 << 20) /* to the process, before we stop reading from the caller */
#define STACK_BYTES (64 << 10)

struct relay {
    struct machine *machine;
    struct call *call; /* to be answered, until the process is there */
    uid_t uid;
    struct http_conn *conn;
    int fd;
    pid_t pid;
    struct loop_io *io;
    struct loop_child *child;
    struct sendq queue; /* to the process */
    bool paused;
    bool over; /* only the process is still to end */
};

static void relay_free(struct relay *relay)
{
    struct machine *machine = relay->machine;

    for (size_t i = 0; i < machine->relays.len; i++)
        if (machine->relays.v[i] == relay) {
            vec_remove(&machine->relays, i);
            break;
        }
    loop_child_free(relay->child);
    free(relay);
}

/* Lets go of the connection and tells the process to end. */
static void relay_cut(struct relay *relay)
{
    relay->over = true;
    loop_io_free(TAKE_PTR(relay->io));
    fd_close(take_fd(&relay->fd));
    if (relay->conn)
        http_conn_close(TAKE_PTR(relay->conn));
    sendq_done(&relay->queue);
    if (relay->child)
        kill(relay->pid, SIGKILL);
}

/* What is left waits for the end of the process: it may hang in a file system, and nobody is to wait for it.
 */
static void relay_end(struct relay *relay)
{
    relay_cut(relay);
    if (!relay->child)
        relay_free(relay);
}

static void set_events(struct relay *relay)
{
    bool reading = http_conn_unsent(relay->conn) < UNSENT_MAX;
    bool writing = sendq_len(&relay->queue) > 0;

    loop_io_set(relay->io, (reading ? EPOLLIN : 0U) | (writing ? EPOLLOUT : 0U));
}

static void flush(struct relay *relay)
{
    sendq_flush(&relay->queue, relay->fd);
    if (relay->paused && sendq_len(&relay->queue) < QUEUE_MAX / 2) {
        relay->paused = false;
        http_conn_pause(relay->conn, false);
    }
}

static void on_io(void *arg, uint32_t events)
{
    struct relay *relay = arg;
    CLEANUP(free) char *block = NULL;
    ssize_t n;

    if (events & EPOLLOUT)
        flush(relay);
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
        block = mem_alloc(BLOCK);
        n = recv(relay->fd, block, BLOCK, MSG_DONTWAIT);
        if (n > 0) {
            http_conn_write(relay->conn, (struct str){block, (size_t)n});
        } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
            relay_end(relay); /* what was written still leaves */
            return;
        }
    }
    set_events(relay);
}

static void on_data(void *arg, struct str data)
{
    struct relay *relay = arg;

    sendq_add(&relay->queue, data);
    flush(relay);
    if (!relay->paused && sendq_len(&relay->queue) > QUEUE_MAX) {
        relay->paused = true;
        http_conn_pause(relay->conn, true);
    }
    set_events(relay);
}

static void on_drained(void *arg)
{
    set_events(arg);
}

static void on_closed(void *arg, const char *why)
{
    (void)why;
    relay_end(arg);
}

static const struct http_conn_ops ops = {.data = on_data, .drained = on_drained, .closed = on_closed};

static void on_child(void *arg, pid_t pid, int status)
{
    struct relay *relay = arg;

    (void)pid;
    (void)status;
    loop_child_free(TAKE_PTR(relay->child));
    if (relay->over)
        relay_free(relay); /* otherwise the end of its output ends the rest */
}

/* ---- start ---- */

struct launch {
    const struct person *person;
    const char *helper;
    char *const *env;
    int fd;
};

/* In the child, which runs in our memory on a stack of its own: only system calls, nothing may change. It
 * goes to the home folder by itself, since that may be on a file server that hangs. */
static int become(void *arg)
{
    const struct launch *l = arg;
    char name[] = "berth-files";
    char *const argv[] = {name, NULL};
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (dup2(l->fd, STDIN_FILENO) < 0 || dup2(l->fd, STDOUT_FILENO) < 0)
        _exit(126);
    if (geteuid() == 0 && (syscall(SYS_setgroups, l->person->groups_len, l->person->groups) < 0 ||
                           syscall(SYS_setresgid, l->person->gid, l->person->gid, l->person->gid) < 0 ||
                           syscall(SYS_setresuid, l->person->uid, l->person->uid, l->person->uid) < 0))
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* another user's process forgets it */
    if (chdir("/") < 0)
        _exit(126);
    execve(l->helper, argv, l->env);
    _exit(127);
}

/* Goes on when the program is executed. Signals wait meanwhile: the child must not handle ours. */
static pid_t start_process(struct launch *launch)
{
    static char stack[STACK_BYTES] __attribute__((aligned(16)));
    sigset_t all, before;
    pid_t pid;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = clone(become, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, launch);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}

static int start(struct relay *relay, const struct person *person, struct err *err)
{
    CLEANUP(fd_close) int theirs = -1;
    CLEANUP(free) char *home = mem_printf("HOME=%s", person->home);
    char *env[] = {home, (char[]){"PATH=/usr/bin:/bin"}, (char[]){"LC_ALL=C.UTF-8"}, NULL};
    struct launch launch = {.person = person, .helper = relay->machine->files_helper, .env = env};
    int ends[2];

    if (!launch.helper)
        return err_set(err, ERR_NOT_FOUND, "the program berth-files is missing");
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return err_errno(err, errno, "make a socket");
    relay->fd = ends[0];
    theirs = ends[1];
    launch.fd = theirs;
    fcntl(relay->fd, F_SETFL, O_NONBLOCK);
    relay->pid = start_process(&launch);
    if (relay->pid < 0)
        return err_errno(err, errno, "start '%s'", launch.helper);
    relay->child = loop_child_new(relay->machine->loop, relay->pid, on_child, relay, err);
    if (relay->child)
        return 0;
    kill(relay->pid, SIGKILL);
    (void)waitpid(relay->pid, NULL, 0);
    return -1;
}

static void give_up(struct relay *relay, const struct err *err)
{
    call_fail_err(TAKE_PTR(relay->call), err);
    relay_end(relay);
}

static void look_up(void *work)
{
    person_look_up(work);
}

static void on_looked_up(void *owner, void *work)
{
    CLEANUP(free) struct person *person = work;
    struct relay *relay = owner;
    struct err err = {0};

    if (!person)
        err_set(&err, ERR_UNAVAILABLE, "the directory of users does not answer");
    if (!person || start(relay, person, &err) < 0) {
        give_up(relay, &err);
        return;
    }
    relay->conn = http_upgrade(TAKE_PTR(relay->call)->req, MACHINE_PROTOCOL, NULL, 0, &ops, relay);
    relay->io = loop_io_new(relay->machine->loop, relay->fd, EPOLLIN, on_io, relay);
}

void files_route(struct machine *machine, struct call *call)
{
    CLEANUP(free) struct person *person = NEW(struct person);
    struct relay *relay;
    struct err err = {0};
    size_t own = 0;

    if (person_of(call, person, &err) < 0) {
        call_fail_err(call, &err);
        return;
    }
    for (size_t i = 0; i < machine->relays.len; i++) /* also those whose process has not ended yet */
        own += machine->relays.v[i]->uid == person->uid;
    if (share_used_up(call, "connections for files", own, FILES_PERSON_MAX, machine->relays.len, FILES_MAX))
        return;
    relay = NEW(struct relay);
    *relay = (struct relay){.machine = machine, .fd = -1, .call = call, .uid = person->uid};
    vec_push(&machine->relays, relay);
    if (offload_run(machine->offload, OFFLOAD_SEC, look_up, on_looked_up, free, relay, person, &err) < 0) {
        err.code = ERR_UNAVAILABLE;
        give_up(relay, &err);
    } else {
        (void)TAKE_PTR(person);
    }
}

void relays_end(struct machine *machine)
{
    while (machine->relays.len > 0) {
        struct relay *relay = vec_pop(&machine->relays);

        relay->conn = NULL; /* the server is gone, and its connections with it */
        relay_cut(relay);
        relay_free(relay); /* the process dies with us at the latest */
    }
    vec_done(&machine->relays);
}
