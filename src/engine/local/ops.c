/* What the API asks of pods: logs, commands, the main process' streams, ports. */
#include "base/clock.h"
#include "base/file.h"
#include "engine/local/internal.h"
#include "engine/log_reader.h"

#define STREAMS_POD_MAX 64
#define STREAMS_MAX     512

/* ---- who is asked ---- */

static struct local_run *find(void *arg, const struct pod_ref *ref, const char *container)
{
    const struct local_pod *pod = local_find(arg, ref->uid);

    return pod ? pod_run(pod, container) : NULL;
}

static int running(void *arg, const struct pod_ref *ref, const char *container, struct local_run **ret,
                   struct err *err)
{
    struct local_run *run = find(arg, ref, container);

    if (!run || !run->container || run->pod->facts.ctrs[run->at].state != CTR_RUNNING)
        return pod_err_not_running(err, container);
    *ret = run;
    return 0;
}

static int check(void *arg, const struct pod_ref *ref, const char *container, struct err *err)
{
    const struct local_pod *pod = local_find(arg, ref->uid);
    struct local_run *run;

    if (container)
        return running(arg, ref, container, &run, err);
    for (size_t i = 0; pod && i < pod->facts.len; i++)
        if (pod->facts.ctrs[i].state == CTR_RUNNING)
            return 0;
    return pod_err_no_sandbox(err, ref->name);
}

/* ---- logs ---- */

struct pod_log {
    struct local_engine *engine;
    struct pod_log *next, **prev;
    struct log_reader *reader;
    struct local_run *run; /* NULL: it has ended, or nobody follows */
};

static void unlink_log(struct pod_log *log)
{
    if (!log->prev)
        return;
    *log->prev = log->next;
    if (log->next)
        log->next->prev = log->prev;
    log->prev = NULL;
}

/* Which run's log; -1: none. */
static int which_run(const struct local_pod *pod, const struct ctr *ctr, bool previous)
{
    bool begun = ctr_alive(ctr) || ctr->state == CTR_EXITED;

    if (previous && ctr->state == CTR_EXITED && plan_restart_at(&pod->facts, ctr))
        return ctr->restarts;
    if (previous || !begun)
        return ctr->last.there ? ctr->restarts - 1 : -1;
    return ctr->restarts;
}

static const char *waits_for(const struct local_pod *pod, const struct ctr *ctr)
{
    if (ctr->state == CTR_STUCK)
        return ctr_stuck_reason(ctr, clock_now());
    return ctr->init || plan_initialized(&pod->facts) ? "ContainerCreating" : "PodInitializing";
}

static void make_log_folder(const char *path)
{
    CLEANUP(free) char *folder = mem_strdup(path);

    *strrchr(folder, '/') = '\0';
    dir_make(folder, 0700, NULL);
}

static int log_open(void *arg, const struct pod_ref *ref, const struct pod_log_options *options,
                    const struct pod_log_events *events, void *events_arg, struct pod_log **ret,
                    struct err *err)
{
    struct local_engine *engine = arg;
    struct local_run *run = find(arg, ref, options->container);
    CLEANUP(free) char *path = NULL;
    const struct ctr *ctr;
    struct pod_log *log;
    int number;

    if (!run)
        return pod_err_waiting(err, options->container, ref->name, "ContainerCreating");
    ctr = &run->pod->facts.ctrs[run->at];
    number = which_run(run->pod, ctr, options->previous);
    if (number < 0)
        return options->previous
                   ? pod_err_no_previous(err, options->container, ref->name)
                   : pod_err_waiting(err, options->container, ref->name, waits_for(run->pod, ctr));
    path = start_log_path(run->pod, ctr->name, number);
    if (options->follow &&
        ctr_alive(ctr)) /* its shim makes it with the first output; changes are to be seen */
        make_log_folder(path);
    log = NEW(struct pod_log);
    log->engine = engine;
    log->reader = log_reader_new(engine->logs, path, options, events, events_arg);
    if (options->follow && ctr_alive(ctr) && number == ctr->restarts) {
        log->run = run;
        log->next = engine->readers;
        log->prev = &engine->readers;
        if (log->next)
            log->next->prev = &log->next;
        engine->readers = log;
    } else {
        log_reader_finish(log->reader);
    }
    *ret = log;
    return 0;
}

static void log_pause(struct pod_log *log, bool pause)
{
    log_reader_pause(log->reader, pause);
}

static void log_free(struct pod_log *log)
{
    unlink_log(log);
    log_reader_free(log->reader);
    free(log);
}

void ops_ended(struct local_run *run)
{
    struct pod_log *next;

    for (struct pod_log *log = run->pod->engine->readers; log; log = next) {
        next = log->next;
        if (log->run == run) {
            unlink_log(log);
            log_reader_finish(log->reader);
        }
    }
}

/* ---- exec and attach ---- */

struct pod_stream {
    struct local_engine *engine;
    char uid[40]; /* of its pod, which may be gone before the stream is */
    struct runtime_stream *stream;
    const struct pod_stream_events *events;
    void *arg;
    bool attach, over;
};

static void ops_on_output(void *arg, struct runtime_stream *s, int fd, const char *data, size_t len)
{
    struct pod_stream *stream = arg;

    (void)s;
    stream->events->output(stream->arg, fd, (struct str){data, len});
}

static void ops_on_writable(void *arg, struct runtime_stream *s)
{
    struct pod_stream *stream = arg;

    (void)s;
    stream->events->writable(stream->arg);
}

static void ops_on_ended(void *arg, struct runtime_stream *s, const struct runtime_exit *how)
{
    struct pod_stream *stream = arg;

    (void)s;
    stream->over = true;
    stream->events->ended(stream->arg, stream->attach || !how ? 0 : how->code, NULL);
}

static void ops_on_failed(void *arg, struct runtime_stream *s, const char *sentence)
{
    struct pod_stream *stream = arg;
    struct err err = {0};

    (void)s;
    stream->over = true;
    err_set(&err, ERR_INTERNAL, "%s", sentence);
    stream->events->ended(stream->arg, 0, &err);
}

static const struct runtime_stream_events stream_events = {ops_on_output, ops_on_writable, ops_on_ended,
                                                           ops_on_failed};

static int exec_open(void *arg, const struct pod_ref *ref, const struct pod_exec *exec,
                     const struct pod_stream_events *events, void *events_arg, struct pod_stream **ret,
                     struct err *err)
{
    struct runtime_exec what = {
        .args = exec->argv, .tty = exec->tty, .stdin_open = exec->in, .rows = exec->rows, .cols = exec->cols};
    CLEANUP(free) struct pod_stream *stream = NEW(struct pod_stream);
    struct local_engine *engine = arg;
    struct local_run *run = NULL;
    int result;

    if (running(arg, ref, exec->container, &run, err) < 0 || !run)
        return -1;
    if (run->pod->streams >= STREAMS_POD_MAX || engine->streams >= STREAMS_MAX)
        return err_set(err, ERR_LIMIT,
                       "too many commands and terminals at once: at most %d in a pod, %d in all",
                       STREAMS_POD_MAX, STREAMS_MAX);
    stream->events = events;
    stream->arg = events_arg;
    stream->attach = exec->argv == NULL;
    if (stream->attach)
        result = runtime_attach(run->container, exec->in, exec->out || exec->err, &stream_events, stream,
                                &stream->stream, err);
    else
        result = runtime_exec(run->container, &what, &stream_events, stream, &stream->stream, err);
    if (result < 0)
        return -1;
    if (stream->attach && exec->tty && exec->rows)
        runtime_stream_resize(stream->stream, exec->rows, exec->cols);
    stream->engine = engine;
    snprintf(stream->uid, sizeof(stream->uid), "%s", ref->uid);
    run->pod->streams++;
    engine->streams++;
    *ret = TAKE_PTR(stream);
    return 0;
}

static size_t stream_write(struct pod_stream *stream, struct str data)
{
    return stream->over ? data.len : runtime_stream_write(stream->stream, data.s, data.len);
}

static void stream_close_stdin(struct pod_stream *stream)
{
    runtime_stream_close_stdin(stream->stream);
}

static void stream_resize(struct pod_stream *stream, uint16_t rows, uint16_t cols)
{
    if (!stream->over)
        runtime_stream_resize(stream->stream, rows, cols);
}

static void stream_pause(struct pod_stream *stream, bool pause)
{
    runtime_stream_pause(stream->stream, pause);
}

static void stream_free(struct pod_stream *stream)
{
    struct local_pod *pod = local_find(stream->engine, stream->uid);

    if (pod && pod->streams) /* it may be here for the second time */
        pod->streams--;
    stream->engine->streams--;
    runtime_stream_free(stream->stream);
    free(stream);
}

/* ---- ports ---- */

struct pod_dial {
    struct dial *dial;
    void (*done)(void *arg, int fd, const struct err *err);
    void *arg;
};

static void dialled(void *arg, int fd, const struct err *err)
{
    CLEANUP(free) struct pod_dial *dial = arg;

    dial->done(dial->arg, fd, err);
}

static int dial_open(void *arg, const struct pod_ref *ref, uint16_t port,
                     void (*done)(void *done_arg, int fd, const struct err *err), void *done_arg,
                     struct pod_dial **ret, struct err *err)
{
    struct pod_dial *dial;

    if (check(arg, ref, NULL, err) < 0)
        return -1;
    dial = NEW(struct pod_dial);
    dial->done = done;
    dial->arg = done_arg;
    dial->dial = dial_new(local_find(arg, ref->uid), port, dialled, dial);
    *ret = dial;
    return 0;
}

static void dial_give_up(struct pod_dial *dial)
{
    dial_cancel(dial->dial);
    free(dial);
}

void ops_init(struct local_engine *engine)
{
    engine->pod_ops = (struct pod_ops){
        .arg = engine,
        .check = check,
        .log = log_open,
        .log_pause = log_pause,
        .log_free = log_free,
        .exec = exec_open,
        .stream_write = stream_write,
        .stream_close_stdin = stream_close_stdin,
        .stream_resize = stream_resize,
        .stream_pause = stream_pause,
        .stream_free = stream_free,
        .dial = dial_open,
        .dial_cancel = dial_give_up,
        .usage = usage_of_pod,
        .node_usage = usage_of_node,
    };
}

void ops_done(struct local_engine *engine)
{
    while (engine->readers)
        unlink_log(engine->readers);
}
