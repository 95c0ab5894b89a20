/* One container: its image, its run, its end. Reports of the image store and the runtime change the pod's
 * facts; what follows from them is the plan's. */
#include "base/clock.h"
#include "base/file.h"
#include "engine/local/internal.h"
#include "engine/log_line.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#define TERM_SEC        2 /* from TERM to KILL, at least, when preStop took all of the grace */
#define SIGNAL_NAME_MAX 64
#define GRACE_SEC_MAX   (INT64_C(10) * 365 * 86400) /* more is as good as for ever, and fits a time */

static struct ctr *ctr_of(const struct local_run *run)
{
    return &run->pod->facts.ctrs[run->at];
}

/* ---- start ---- */

static void stuck(struct local_run *run, const char *reason, const struct err *err)
{
    struct ctr *ctr = ctr_of(run);
    bool mount = streq(reason, START_MOUNT_ERROR);

    pod_event(run->pod, "Warning", mount ? "FailedMount" : "Failed", "%s%s",
              mount ? "" : "Error: ", err->msg);
    ctr_stuck(ctr, mount ? "CreateContainerConfigError" : reason, err->msg, clock_now());
    if (mount)
        ctr->retry_at = clock_now() + LOCAL_RETRY_SEC * NSEC_PER_SEC;
}

static void begin(struct local_run *run)
{
    struct ctr *ctr = ctr_of(run);
    const char *reason = NULL;
    struct err err = {0};

    if (run->pod->facts.deleting || *run->pod->facts.fail_reason || run->pod->sandbox != SANDBOX_READY ||
        run->pod->engine->going_down) {
        ctr->state = CTR_NONE;
    } else if (!pause_alive(run->pod)) {
        ctr->state = CTR_NONE;
        err_set(&err, ERR_UNAVAILABLE, "the process that holds the pod's namespace has ended");
        sandbox_paused(run->pod, &err);
    } else if (start_container(run, &reason, &err) == 0) {
        ctr->state = CTR_STARTING;
        pod_event(run->pod, "Normal", "Created", "Created container: %s", ctr->name);
    } else {
        stuck(run, reason, &err);
    }
    opens_free(TAKE_PTR(run->opens));
    pod_queue(run->pod);
}

void run_begin(struct local_run *run)
{
    struct err err = {0};
    int result;

    ctr_of(run)->state = CTR_PULLING;
    result = opens_begin(run, begin, &err);
    if (result > 0)
        begin(run);
    else if (result < 0)
        stuck(run, START_MOUNT_ERROR, &err);
    pod_queue(run->pod);
}

/* ---- what the runtime reports ---- */

static void running(struct local_run *run)
{
    struct ctr *ctr = ctr_of(run);
    bool known = ctr->state == CTR_RUNNING; /* by an earlier daemon */

    ctr_started(ctr, run->started);
    probes_start(run, known);
    pod_queue(run->pod);
}

static void post_start_over(struct local_run *run, const char *why)
{
    if (!why) {
        running(run);
        return;
    }
    pod_event(run->pod, "Warning", "FailedPostStartHook", "PostStartHook failed: %s", why);
    ctr_started(ctr_of(run), run->started); /* never ready: it ends at once */
    pod_queue(run->pod);
    run_stop(run, json_int(json_at(run->pod->doc, "spec.terminationGracePeriodSeconds"), LOCAL_GRACE_SEC));
}

/* As long as postStart is at work the container is shown as being created. */
static void run_on_started(void *arg, struct runtime_container *c, pid_t pid, int64_t time)
{
    struct local_run *run = arg;
    struct ctr *ctr = ctr_of(run);
    bool news = ctr->state != CTR_RUNNING;

    (void)c;
    (void)pid;
    run->started = time;
    pod_queue(run->pod); /* before the event, so that both are one commit of the store */
    if (news)
        pod_event(run->pod, "Normal", "Started", "Started container %s", ctr->name);
    if (!news || run->stopping ||
        !hook_start(run, json_at(ctr->spec, "lifecycle.postStart"), -1, post_start_over))
        running(run);
}

/* The last lines of the log, for containers that say so and failed without a message. */
static char *last_lines(const struct local_run *run)
{
    const struct ctr *ctr = ctr_of(run);
    CLEANUP(free) char *path = start_log_path(run->pod, ctr->name, ctr->restarts);
    CLEANUP(buf_done) struct buf out = {0};
    size_t from;

    log_line_tail(path, &out);
    if (!out.len)
        return NULL;
    from = out.len > LOCAL_TAIL_BYTES ? out.len - LOCAL_TAIL_BYTES : 0;
    while (from && from < out.len && ((unsigned char)out.data[from] & 0xc0) == 0x80)
        from++;
    return mem_strndup(out.data + from, utf8_valid_len((struct str){out.data + from, out.len - from}));
}

/* What the container left in its termination message file; more than a page is cut. */
static char *read_message(const struct local_run *run, bool failed)
{
    const struct ctr *ctr = ctr_of(run);
    CLEANUP(free) char *path = start_message_path(run);
    CLEANUP(fd_close) int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    char text[LOCAL_MESSAGE_BYTES];
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text));

    if (n > 0)
        return mem_strndup(text, utf8_valid_len((struct str){text, (size_t)n}));
    if (failed && streq(json_get_string(ctr->spec, "terminationMessagePolicy"), "FallbackToLogsOnError"))
        return last_lines(run);
    return NULL;
}

static void run_on_exited(void *arg, struct runtime_container *c, const struct runtime_exit *how)
{
    struct local_run *run = arg;
    struct ctr *ctr = ctr_of(run);
    CLEANUP(free) char *message = read_message(run, how->code != 0);
    /* What was told to end with the machine has not completed, whatever it says. */
    int code = how->code == 0 && run->stopping && run->pod->engine->going_down ? 128 + SIGTERM : how->code;
    const char *reason = how->oom ? "OOMKilled" : code == 0 ? "Completed" : "Error";

    (void)c;
    if (how->end == RUNTIME_END_LOST)
        reason = "ContainerStatusUnknown";
    if (how->end == RUNTIME_END_VANISHED && run->pod->facts.policy == RESTART_NEVER)
        facts_fail(&run->pod->facts, "NodeReboot", "The machine was started anew while the pod ran");
    probes_stop(run);
    hook_free(TAKE_PTR(run->hook));
    run->stopping = false;
    settle_anew(run->pod);
    ctr_exited(ctr, code, how->signal, reason, message, how->started,
               how->finished ? how->finished : clock_now());
    ops_ended(run);
    if (plan_restart_at(&run->pod->facts, ctr) > clock_now() && ctr->quick)
        pod_event(run->pod, "Warning", "BackOff", "Back-off restarting failed container %s in pod %s_%s(%s)",
                  ctr->name, run->pod->name, run->pod->ns, run->pod->uid);
    pod_queue(run->pod);
}

static void run_on_failed(void *arg, struct runtime_container *c, const char *sentence)
{
    struct local_run *run = arg;
    struct ctr *ctr = ctr_of(run);
    int64_t now = clock_now();

    (void)c;
    pod_event(run->pod, "Warning", "Failed", "Error: %s", sentence);
    settle_anew(run->pod);
    /* As containerd has it: a run that could not be started has ended with 128. */
    ctr_exited(ctr, 128, 0, "StartError", sentence, now, now);
    run->stopping = false;
    ops_ended(run);
    pod_queue(run->pod);
}

const struct runtime_events run_events = {run_on_started, run_on_exited, run_on_failed};

/* ---- the end ---- */

/* "15", "SIGUSR1", "USR1", "SIGRTMIN+3"; anything else is TERM. */
static int signal_of(const char *name)
{
    int64_t n;

    if (!name || !*name)
        return SIGTERM;
    if (str_to_int(str_from(name), &n))
        return n > 0 && n <= SIGRTMAX ? (int)n : SIGTERM;
    if (starts_with(name, "SIG"))
        name += 3;
    if (starts_with(name, "RTMIN+") && str_to_int(str_from(name + 6), &n))
        return n >= 0 && n <= SIGRTMAX - SIGRTMIN ? SIGRTMIN + (int)n : SIGTERM;
    for (int signo = 1; signo < SIGRTMIN; signo++)
        if (streq(sigabbrev_np(signo), name))
            return signo;
    return SIGTERM;
}

/* A daemon that took the container up does not hold its image: it was written down at the start. */
static int stop_signal(const struct local_run *run)
{
    CLEANUP(free) char *path = start_signal_path(run);
    CLEANUP(buf_done) struct buf text = {0};

    if (run->image)
        return signal_of(run->image->config.stop_signal);
    return !path || file_read(path, SIGNAL_NAME_MAX, &text, NULL) < 0 ? SIGTERM : signal_of(text.data);
}

static void stop_now(struct local_run *run)
{
    int64_t left = run->stop_by - clock_monotonic();

    if (run->container)
        runtime_stop(run->container, stop_signal(run), left > 0 ? left : 0);
}

static void pre_stop_over(struct local_run *run, const char *why)
{
    int64_t least = clock_monotonic() + TERM_SEC * NSEC_PER_SEC;

    if (why)
        pod_event(run->pod, "Warning", "FailedPreStopHook", "PreStopHook failed: %s", why);
    if (run->stop_by < least)
        run->stop_by = least;
    stop_now(run);
}

void run_stop(struct local_run *run, int64_t grace_sec)
{
    int64_t by;

    if (!run->container)
        return;
    if (grace_sec > GRACE_SEC_MAX)
        grace_sec = GRACE_SEC_MAX;
    by = clock_monotonic() + grace_sec * NSEC_PER_SEC;
    if (run->stopping) {
        if (by < run->stop_by) { /* the grace was shortened */
            run->stop_by = by;
            if (!run->hook || grace_sec <= 0)
                stop_now(run);
        }
        return;
    }
    run->stopping = true;
    run->stop_by = by;
    probes_stop(run);
    if (!run->probe_failed) /* which has told */
        pod_event(run->pod, "Normal", "Killing", "Stopping container %s", ctr_of(run)->name);
    if (grace_sec <= 0 || ctr_of(run)->state != CTR_RUNNING ||
        !hook_start(run, json_at(ctr_of(run)->spec, "lifecycle.preStop"), grace_sec, pre_stop_over)) {
        hook_free(TAKE_PTR(run->hook));
        stop_now(run);
    }
}

void run_free(struct local_run *run)
{
    probes_stop(run);
    hook_free(TAKE_PTR(run->hook));
    opens_free(TAKE_PTR(run->opens));
    if (run->pull)
        image_pull_cancel(run->pull);
    run->pull = NULL;
    image_drop(run->image);
    run->image = NULL;
    pull_share_reset(&run->share);
}
