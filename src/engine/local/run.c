/* One container: its image, its run, its end. Reports of the image store and the runtime change the pod's
 * facts; what follows from them is the plan's. */
#include "base/clock.h"
#include "base/file.h"
#include "engine/local/internal.h"

#include <errno.h>
#include <signal.h>

static struct ctr *ctr_of(const struct run *run)
{
    return &run->pod->facts.ctrs[run->at];
}

/* ---- start ---- */

void run_begin(struct run *run)
{
    struct ctr *ctr = ctr_of(run);
    const char *reason = NULL;
    struct err err = {0};

    if (start_container(run, &reason, &err) == 0) {
        ctr->state = CTR_STARTING;
        pod_event(run->pod, "Normal", "Created", "Created container: %s", ctr->name);
    } else {
        bool mount = streq(reason, "ContainerCreating");

        pod_event(run->pod, "Warning", mount ? "FailedMount" : "Failed", "%s%s",
                  mount ? "" : "Error: ", err.msg);
        ctr_stuck(ctr, reason, mount ? NULL : err.msg, clock_now());
        if (mount)
            ctr->retry_at = clock_now() + LOCAL_RETRY_SEC * NSEC_PER_SEC;
    }
    engine_queue(run->pod);
}

/* ---- what the runtime reports ---- */

static void on_started(void *arg, struct runtime_container *c, pid_t pid, int64_t time)
{
    struct run *run = arg;
    struct ctr *ctr = ctr_of(run);
    bool news = ctr->state != CTR_RUNNING;

    (void)c;
    (void)pid;
    ctr_started(ctr, time);
    if (news)
        pod_event(run->pod, "Normal", "Started", "Started container %s", ctr->name);
    probes_start(run);
    engine_queue(run->pod);
}

/* What the container left in its termination message file. */
static char *read_message(const struct run *run)
{
    const struct ctr *ctr = ctr_of(run);
    CLEANUP(free) char *dir = start_dir(run->pod, ctr->name, ctr->restarts);
    CLEANUP(free) char *path = mem_printf("%s/termination-log", dir);
    CLEANUP(buf_done) struct buf text = {0};

    if (file_read(path, LOCAL_MESSAGE_BYTES, &text, NULL) < 0 || !text.len)
        return NULL;
    return mem_strndup(text.data, utf8_valid_len(buf_view(&text)));
}

static void on_exited(void *arg, struct runtime_container *c, const struct runtime_exit *how)
{
    struct run *run = arg;
    struct ctr *ctr = ctr_of(run);
    CLEANUP(free) char *message = read_message(run);
    const char *reason = how->oom ? "OOMKilled" : how->code == 0 ? "Completed" : "Error";

    (void)c;
    if (how->end == RUNTIME_END_LOST)
        reason = "ContainerStatusUnknown";
    if (how->end == RUNTIME_END_VANISHED && run->pod->facts.policy == RESTART_NEVER)
        facts_fail(&run->pod->facts, "NodeReboot", "The machine was started anew while the pod ran");
    probes_stop(run);
    runtime_stream_free(TAKE_PTR(run->pre_stop));
    if (run->pre_stop_timer)
        loop_timer_stop(run->pre_stop_timer);
    run->stopping = false;
    ctr_exited(ctr, how->code, how->signal, reason, message, how->started,
               how->finished ? how->finished : clock_now());
    ops_ended(run);
    if (plan_restart_at(&run->pod->facts, ctr) > clock_now() && ctr->quick)
        pod_event(run->pod, "Warning", "BackOff", "Back-off restarting failed container %s in pod %s_%s(%s)",
                  ctr->name, run->pod->name, run->pod->ns, run->pod->uid);
    engine_queue(run->pod);
}

static void on_failed(void *arg, struct runtime_container *c, const char *sentence)
{
    struct run *run = arg;
    struct ctr *ctr = ctr_of(run);
    int64_t now = clock_now();

    (void)c;
    pod_event(run->pod, "Warning", "Failed", "Error: %s", sentence);
    /* As containerd has it: a run that could not be started has ended with 128. */
    ctr_exited(ctr, 128, 0, "StartError", sentence, now, now);
    run->stopping = false;
    ops_ended(run);
    engine_queue(run->pod);
}

const struct runtime_events run_events = {on_started, on_exited, on_failed};

/* ---- the end ---- */

static void stop_now(struct run *run)
{
    int64_t left = run->stop_by - clock_monotonic();
    int signo = SIGTERM;
    const char *wanted = run->image ? run->image->config.stop_signal : NULL;
    int64_t n;

    if (wanted && str_to_int(str_from(wanted), &n) && n > 0 && n < 65)
        signo = (int)n;
    else if (streq(wanted, "SIGINT"))
        signo = SIGINT;
    else if (streq(wanted, "SIGQUIT"))
        signo = SIGQUIT;
    if (run->container)
        runtime_stop(run->container, signo, left > 0 ? left : 0);
}

static void pre_stop_over(void *arg)
{
    struct run *run = arg;

    runtime_stream_free(TAKE_PTR(run->pre_stop));
    loop_timer_stop(run->pre_stop_timer);
    stop_now(run);
}

static void pre_stop_ended(void *arg, struct runtime_stream *s, const struct runtime_exit *how)
{
    (void)s;
    (void)how;
    loop_timer_set(((struct run *)arg)->pre_stop_timer, 0);
}

static void pre_stop_failed(void *arg, struct runtime_stream *s, const char *sentence)
{
    struct run *run = arg;

    (void)s;
    pod_event(run->pod, "Warning", "FailedPreStopHook", "PreStopHook failed: %s", sentence);
    loop_timer_set(run->pre_stop_timer, 0);
}

/* True: a hook is at work, TERM comes after it. */
static bool pre_stop(struct run *run, int64_t grace_sec)
{
    static const struct runtime_stream_events events = {.ended = pre_stop_ended, .failed = pre_stop_failed};
    const struct json *hook = json_at(ctr_of(run)->spec, "lifecycle.preStop");
    const struct json *command = json_at(hook, "exec.command");
    int64_t sec = json_int(json_at(hook, "sleep.seconds"), 0);
    const char *argv[64];
    struct runtime_exec exec = {.args = argv};
    size_t n = 0;

    if (!hook || grace_sec <= 0 || ctr_of(run)->state != CTR_RUNNING)
        return false;
    JSON_EACH(command, it)
        if (n + 1 < ARRAY_LEN(argv))
            argv[n++] = json_string_or(it, "");
    argv[n] = NULL;
    if (n && runtime_exec(run->container, &exec, &events, run, &run->pre_stop, NULL) < 0)
        return false;
    if (!n && sec <= 0)
        return false;
    if (!run->pre_stop_timer)
        run->pre_stop_timer = loop_timer_new(run->pod->engine->loop, pre_stop_over, run);
    loop_timer_set(run->pre_stop_timer, (n || sec > grace_sec ? grace_sec : sec) * NSEC_PER_SEC);
    return true;
}

void run_stop(struct run *run, int64_t grace_sec)
{
    int64_t by = clock_monotonic() + grace_sec * NSEC_PER_SEC;

    if (!run->container)
        return;
    if (run->stopping) {
        if (by < run->stop_by) { /* the grace was shortened */
            run->stop_by = by;
            if (!run->pre_stop || grace_sec <= 0)
                stop_now(run);
        }
        return;
    }
    run->stopping = true;
    run->stop_by = by;
    probes_stop(run);
    pod_event(run->pod, "Normal", "Killing", "Stopping container %s", ctr_of(run)->name);
    if (!pre_stop(run, grace_sec))
        stop_now(run);
}

void run_free(struct run *run)
{
    probes_stop(run);
    runtime_stream_free(TAKE_PTR(run->pre_stop));
    loop_timer_free(run->pre_stop_timer);
    run->pre_stop_timer = NULL;
    if (run->pull)
        image_pull_cancel(run->pull);
    run->pull = NULL;
    image_drop(run->image);
    run->image = NULL;
}
