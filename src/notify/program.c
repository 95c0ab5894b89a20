/* The thread owns everything but `cancelled`, `over` and the child's pid, which are under the lock: whoever
 * comes second, the thread that is done or the loop that cancels, frees it. */
#include "notify/program.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES (512 << 10) /* directory services take some */
#define GROUPS_MAX  256
#define TAIL_BYTES  4096 /* of the output, of which the last line is shown */
#define ENV_MAX     32
#define PIPE_BYTES  (64 << 10) /* what a pipe holds */

struct program_account {
    uid_t uid;
    gid_t gid;
    gid_t groups[GROUPS_MAX];
    int groups_len;
    char name[64], home[512];
};

struct program {
    struct loop *loop;
    program_fn fn;
    void *arg;
    char *user, *input;
    size_t input_len;
    char *argv[PROGRAM_ARGS_MAX + 1];
    char *env[ENV_MAX + 1];
    int64_t timeout_sec;
    struct program_end end;
    char tail[TAIL_BYTES];
    size_t tail_len;
    pthread_mutex_t lock; /* guards what follows */
    pid_t pid;            /* 0: none */
    bool cancelled;
};

static void program_free(struct program *program)
{
    for (char **it = program->argv; *it; it++)
        free(*it);
    for (char **it = program->env; *it; it++)
        free(*it);
    pthread_mutex_destroy(&program->lock);
    free(program->user);
    free(program->input);
    free(program);
}

/* ---- in the thread ---- */

static int not_started(struct program *program, const char *fmt, const char *what)
{
    program->end.started = false;
    snprintf(program->end.why, sizeof(program->end.why), fmt, what);
    return -1;
}

static int find_account(struct program *program, struct program_account *ret)
{
    struct passwd entry, *found = NULL;
    char text[16384];

    *ret = (struct program_account){.uid = geteuid(), .gid = getegid(), .home = "/"};
    if (!program->user)
        return 0;
    if (getpwnam_r(program->user, &entry, text, sizeof(text), &found) != 0 || !found)
        return not_started(program, "user '%s' has no account on this machine", program->user);
    if (entry.pw_uid == 0)
        return not_started(program, "commands are not run as '%s'", program->user);
    if (geteuid() != 0 && geteuid() != entry.pw_uid)
        return not_started(program, "this daemon is not root's, so it cannot run commands as '%s'",
                           program->user);
    ret->uid = entry.pw_uid;
    ret->gid = entry.pw_gid;
    ret->groups_len = GROUPS_MAX;
    snprintf(ret->name, sizeof(ret->name), "%s", entry.pw_name);
    snprintf(ret->home, sizeof(ret->home), "%s", entry.pw_dir);
    if (getgrouplist(entry.pw_name, entry.pw_gid, ret->groups, &ret->groups_len) < 0)
        ret->groups_len = GROUPS_MAX; /* more than that: the first ones */
    return 0;
}

static bool set_limit(int which, rlim_t value)
{
    const struct rlimit limit = {value, value};

    return setrlimit((__rlimit_resource_t)which, &limit) == 0;
}

/* In the child, where only system calls are safe: the daemon has threads. */
static void become(const struct program *program, const struct program_account *account, int in, int out)
{
    sigset_t none;

    sigemptyset(&none);
    signal(SIGPIPE, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(out, STDERR_FILENO) < 0)
        _exit(126);
    if (program->user && !(set_limit(RLIMIT_CPU, PROGRAM_CPU_SEC) && set_limit(RLIMIT_AS, PROGRAM_MEMORY) &&
                           set_limit(RLIMIT_FSIZE, PROGRAM_FILE) && set_limit(RLIMIT_NOFILE, PROGRAM_FILES) &&
                           set_limit(RLIMIT_CORE, 0)))
        _exit(126);
    if (program->user && geteuid() == 0 &&
        (syscall(SYS_setgroups, account->groups_len, account->groups) < 0 ||
         syscall(SYS_setresgid, account->gid, account->gid, account->gid) < 0 ||
         syscall(SYS_setresuid, account->uid, account->uid, account->uid) < 0))
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* another user's process forgets it */
    umask(077);
    if (chdir(account->home) < 0 && chdir("/") < 0)
        _exit(126);
    execve(program->argv[0], program->argv, program->env);
    _exit(127);
}

static void add_env(struct program *program, const char *name, const char *value)
{
    size_t at = 0;

    while (program->env[at])
        at++;
    if (at < ENV_MAX)
        program->env[at] = mem_printf("%s=%s", name, value);
}

/* The child's pid, or -1. Its stdin and its output are in *in and *out then. */
static pid_t spawn(struct program *program, const struct program_account *account, int *in, int *out)
{
    int inputs[2] = {-1, -1}, outputs[2] = {-1, -1};
    pid_t pid = -1;

    if (pipe2(inputs, O_CLOEXEC) == 0 && pipe2(outputs, O_CLOEXEC) == 0) {
        pthread_mutex_lock(&program->lock);
        pid = program->cancelled ? -1 : fork();
        if (pid == 0)
            become(program, account, inputs[0], outputs[1]);
        program->pid = pid > 0 ? pid : 0;
        pthread_mutex_unlock(&program->lock);
    }
    fd_close(inputs[0]);
    fd_close(outputs[1]);
    *in = inputs[1];
    *out = outputs[0];
    if (pid > 0) {
        fcntl(*in, F_SETFL, O_NONBLOCK);
        fcntl(*out, F_SETFL, O_NONBLOCK);
        return pid;
    }
    fd_close(*in);
    fd_close(*out);
    return -1;
}

static void keep_tail(struct program *program, const char *data, size_t len)
{
    if (len >= TAIL_BYTES) {
        data += len - TAIL_BYTES;
        len = TAIL_BYTES;
    }
    if (program->tail_len + len > TAIL_BYTES) {
        size_t drop = program->tail_len + len - TAIL_BYTES;

        memmove(program->tail, program->tail + drop, program->tail_len - drop);
        program->tail_len -= drop;
    }
    memcpy(program->tail + program->tail_len, data, len);
    program->tail_len += len;
}

/* What has been written and not read, a pipe's worth at most: a program that never stops writing has a
 * deadline like others. */
static void read_output(struct program *program, int *out)
{
    char data[4096];
    ssize_t n = 0;

    for (size_t got = 0; got < PIPE_BYTES; got += (size_t)n) {
        n = read(*out, data, sizeof(data));
        if (n <= 0)
            break;
        keep_tail(program, data, (size_t)n);
    }
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        fd_close(take_fd(out));
}

static void write_input(struct program *program, int *in, size_t *given)
{
    ssize_t n = write(*in, program->input + *given, program->input_len - *given);

    *given += n > 0 ? (size_t)n : 0;
    if (*given == program->input_len || (n < 0 && errno != EAGAIN && errno != EINTR))
        fd_close(take_fd(in));
}

/* Hands over the input and reads the output until the program has ended, whoever else has its output open;
 * false: the time is over. */
static bool talk(struct program *program, pid_t pid, int *in, int *out, int64_t deadline)
{
    CLEANUP(fd_close) int ended = pidfd_open(pid, 0);
    size_t given = 0;

    for (;;) {
        struct pollfd fds[3] = {
            {.fd = *out, .events = POLLIN}, {.fd = *in, .events = POLLOUT}, {.fd = ended, .events = POLLIN}};
        int64_t left = (deadline - clock_monotonic()) / NSEC_PER_MSEC;

        if (left <= 0 || ended < 0 || poll(fds, 3, (int)left + 1) == 0)
            return false;
        if (*in >= 0 && fds[1].revents)
            write_input(program, in, &given);
        if (*out >= 0 && (fds[0].revents || fds[2].revents))
            read_output(program, out);
        if (fds[2].revents)
            return true;
    }
}

/* The last line that is not empty, without what a terminal would act on. */
static void last_line(const struct program *program, char *ret, size_t size)
{
    size_t end = program->tail_len, start, len = 0;

    while (end > 0 && (unsigned char)program->tail[end - 1] <= ' ')
        end--;
    start = end;
    while (start > 0 && program->tail[start - 1] != '\n')
        start--;
    for (; start < end && len + 1 < size; start++)
        ret[len++] = (unsigned char)program->tail[start] < ' ' || program->tail[start] == 0x7f
                         ? ' '
                         : program->tail[start];
    ret[len] = '\0';
}

static void say_end(struct program *program, bool late, int status)
{
    char line[PROGRAM_WHY_MAX / 2] = "", how[PROGRAM_WHY_MAX / 2];

    program->end.started = true;
    program->end.status = !late && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    last_line(program, line, sizeof(line));
    if (late)
        snprintf(how, sizeof(how), "took longer than %lld s", (long long)program->timeout_sec);
    else if (WIFEXITED(status))
        snprintf(how, sizeof(how), "ended with exit code %d", WEXITSTATUS(status));
    else
        snprintf(how, sizeof(how), "was ended by signal %d", WTERMSIG(status));
    snprintf(program->end.why, sizeof(program->end.why), "%s%s%s", how, *line ? ": " : "", line);
}

static void program_run(struct program *program)
{
    int64_t deadline = clock_monotonic() + program->timeout_sec * NSEC_PER_SEC;
    struct program_account account;
    int in = -1, out = -1, status = 0;
    bool late;
    pid_t pid;

    if (find_account(program, &account) < 0)
        return;
    add_env(program, "PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin");
    add_env(program, "HOME", account.home);
    if (program->user) {
        add_env(program, "USER", account.name);
        add_env(program, "LOGNAME", account.name);
    }
    pid = spawn(program, &account, &in, &out);
    if (pid < 0) {
        not_started(program, "could not be started: %s", strerror(errno));
        program->end.started = true; /* for lack of something: it may go well later */
        program->end.status = -1;
        return;
    }
    late = !talk(program, pid, &in, &out, deadline);
    fd_close(in);
    fd_close(out);
    kill(-pid, SIGKILL); /* and what it left behind */
    /* Not under the lock: one that hangs in the kernel (a home folder whose server is gone) dies late, and
     * the loop may want to cancel it meanwhile. */
    while (waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT) < 0 && errno == EINTR)
        ;
    pthread_mutex_lock(&program->lock);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    program->pid = 0; /* nobody kills who has it next */
    pthread_mutex_unlock(&program->lock);
    say_end(program, late, status);
}

static void program_done(void *arg)
{
    struct program *program = arg;
    bool cancelled;

    pthread_mutex_lock(&program->lock); /* until the thread has let go of it */
    cancelled = program->cancelled;
    pthread_mutex_unlock(&program->lock);
    if (!cancelled)
        program->fn(program->arg, &program->end);
    program_free(program);
}

static void *program_thread(void *arg)
{
    struct program *program = arg;
    bool cancelled;

    program_run(program);
    pthread_mutex_lock(&program->lock);
    cancelled = program->cancelled;
    if (!cancelled)
        loop_post(program->loop, program_done, program);
    pthread_mutex_unlock(&program->lock);
    if (cancelled)
        program_free(program);
    return NULL;
}

/* ---- in the loop ---- */

static bool start_thread(struct program *program)
{
    pthread_attr_t attr;
    pthread_t thread;
    sigset_t all, old;
    int rc;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    rc = pthread_create(&thread, &attr, program_thread, program);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    return rc == 0;
}

struct program *program_start(struct loop *loop, const struct program_spec *spec, program_fn fn, void *arg)
{
    struct program *program = NEW(struct program);

    program->loop = loop;
    program->fn = fn;
    program->arg = arg;
    program->user = mem_strdup(spec->user);
    program->input = mem_strndup(spec->input.s ? spec->input.s : "", spec->input.len);
    program->input_len = spec->input.len;
    program->timeout_sec = spec->timeout_sec ? spec->timeout_sec : PROGRAM_TIMEOUT_SEC;
    for (size_t i = 0; i < PROGRAM_ARGS_MAX && spec->argv[i]; i++)
        program->argv[i] = mem_strdup(spec->argv[i]);
    for (size_t i = 0; spec->env && i < ENV_MAX - 4 && spec->env[i]; i++)
        program->env[i] = mem_strdup(spec->env[i]);
    pthread_mutex_init(&program->lock, NULL);
    if (!start_thread(program)) {
        program->end.started = true;
        program->end.status = -1;
        snprintf(program->end.why, sizeof(program->end.why), "no thread could be started");
        loop_post(loop, program_done, program);
    }
    return program;
}

void program_cancel(struct program *program)
{
    pthread_mutex_lock(&program->lock);
    program->cancelled = true;
    if (program->pid > 0)
        kill(-program->pid, SIGKILL);
    pthread_mutex_unlock(&program->lock);
}
