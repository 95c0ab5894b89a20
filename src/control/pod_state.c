/* A pod's state is read in the order in which it comes to be: over, being deleted, on no node, running,
 * stuck, pulling, starting. Containers are looked at in their order, init containers first; the first with
 * something to say is the one that is told of. */
#include "control/pod_state.h"

#include "control/util.h"
#include "objects/names.h"

#include <stdio.h>

#define PULLING_PREFIX "pulling image "

bool pod_state_is_stuck(const char *reason)
{
    static const char *const reasons[] = {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
        "CreateContainerConfigError",
        "PreStartHookError",
        "PreCreateHookError",
        "CreateContainerError",
        "RunContainerError",
        "PostStartHookError",
        "StartError",
        "CreatePodSandboxError",
    };

    for (size_t i = 0; i < ARRAY_LEN(reasons); i++)
        if (streq(reason, reasons[i]))
            return true;
    return false;
}

/* Copies what fits, whole characters only. */
static void set_text(char text[POD_STATE_TEXT_MAX], const char *from)
{
    struct str part = str_from(from ? from : "");

    if (part.len >= POD_STATE_TEXT_MAX)
        part.len = POD_STATE_TEXT_MAX - 1;
    part.len = utf8_valid_len(part);
    memcpy(text, part.s, part.len);
    text[part.len] = '\0';
}

__attribute__((format(printf, 2, 3))) static void print_text(char text[POD_STATE_TEXT_MAX], const char *fmt,
                                                             ...)
{
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, POD_STATE_TEXT_MAX, fmt, ap);
    va_end(ap);
    text[utf8_valid_len(str_from(text))] = '\0';
}

/* ---- over ---- */

/* The last line that is not blank. */
static struct str last_line(const char *message)
{
    struct str rest = str_from(message), line, last = {"", 0};

    while (str_split(&rest, '\n', &line)) {
        while (line.len && (line.s[line.len - 1] == ' ' || line.s[line.len - 1] == '\r'))
            line.len--;
        if (line.len)
            last = line;
    }
    return last;
}

void pod_state_end_text(const struct pod_state *state, const char *line, char text[POD_STATE_TEXT_MAX])
{
    struct str last = last_line(line && *line ? line : state->message);
    char how[64];

    if (state->exit_code < 0) {
        set_text(text, state->text);
        return;
    }
    if (state->oom)
        snprintf(how, sizeof(how), "out of memory (killed, exit code %d)", state->exit_code);
    else if (state->signal)
        snprintf(how, sizeof(how), "killed by signal %d", state->signal);
    else
        snprintf(how, sizeof(how), "exit code %d", state->exit_code);
    print_text(text, "%s%s%.*s", how, last.len ? ": " : "", (int)last.len, last.s);
}

/* The end of the container that failed, or of the first main container. */
static const struct json *ended_container(const struct json *status)
{
    static const char *const lists[] = {"initContainerStatuses", "containerStatuses"};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        JSON_EACH(json_get(status, lists[i]), it)
            if (json_int(json_at(it, "state.terminated.exitCode"), 0) != 0)
                return json_at(it, "state.terminated");
    return json_at(status, "containerStatuses.0.state.terminated");
}

static int64_t last_end(const struct json *status)
{
    int64_t last = 0;

    JSON_EACH(json_get(status, "containerStatuses"), it) {
        int64_t at = time_of(json_at(it, "state.terminated.finishedAt"), 0);

        last = at > last ? at : last;
    }
    return last;
}

static void read_over(const struct json *status, bool failed, struct pod_state *ret)
{
    const struct json *end = ended_container(status);
    const char *why = json_string_or(json_get(status, "reason"), "");
    const char *message = json_string_or(json_get(status, "message"), "");

    ret->kind = POD_STATE_OVER;
    ret->failed = failed;
    ret->since = last_end(status);
    if (end) {
        ret->exit_code = (int)json_int(json_get(end, "exitCode"), 0);
        ret->signal = (int)json_int(json_get(end, "signal"), 0);
        ret->reason = json_string_or(json_get(end, "reason"), "");
        ret->oom = streq(ret->reason, "OOMKilled");
        ret->message = json_string_or(json_get(end, "message"), "");
        if (ret->exit_code || failed)
            pod_state_end_text(ret, NULL, ret->text);
    }
    if (*why) { /* the pod as a whole was ended: its containers only followed */
        ret->reason = why;
        print_text(ret->text, "%s%s%s", why, *message ? ": " : "", message);
    }
}

/* ---- on its way ---- */

struct waiting {
    const char *reason, *message, *image;
};

/* The first container that waits for something of that kind. */
static bool find_waiting(const struct json *status, bool stuck, struct waiting *ret)
{
    static const char *const lists[] = {"initContainerStatuses", "containerStatuses"};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        JSON_EACH(json_get(status, lists[i]), it) {
            const struct json *waiting = json_at(it, "state.waiting");
            const struct json *before = json_at(it, "lastState.terminated");

            if (!waiting)
                continue;
            *ret = (struct waiting){json_string_or(json_get(waiting, "reason"), ""),
                                    json_string_or(json_get(waiting, "message"), ""),
                                    json_string_or(json_get(it, "image"), "")};
            if (streq(ret->reason, "CrashLoopBackOff") &&
                streq(json_get_string(before, "reason"), "StartError")) {
                ret->reason = "StartError";
                ret->message = json_string_or(json_get(before, "message"), "");
            }
            if (pod_state_is_stuck(ret->reason) == stuck && (stuck || *ret->message))
                return true;
        }
    return false;
}

static bool is_pull(const char *reason)
{
    return streq(reason, "ErrImagePull") || streq(reason, "ImagePullBackOff") ||
           streq(reason, "ErrImageNeverPull");
}

static void read_stuck(const struct json *status, const struct waiting *waiting, struct pod_state *ret)
{
    const struct json *cannot = condition_find(status, POD_CANNOT_START);
    int64_t bound = time_of(json_get(condition_find(status, SCHEDULED_CONDITION), "lastTransitionTime"),
                            time_of(json_get(status, "startTime"), 0));

    ret->kind = POD_STATE_STUCK;
    ret->reason = waiting->reason;
    ret->since = streq(json_get_string(cannot, "status"), "True")
                     ? time_of(json_get(cannot, "lastTransitionTime"), bound)
                     : bound;
    if (is_pull(waiting->reason))
        print_text(ret->text, "cannot pull image %s%s%s", waiting->image, *waiting->message ? ": " : "",
                   waiting->message);
    else
        set_text(ret->text, *waiting->message ? waiting->message : waiting->reason);
}

static int64_t first_start(const struct json *status)
{
    int64_t first = 0;

    JSON_EACH(json_get(status, "containerStatuses"), it) {
        int64_t at = time_of(json_at(it, "state.running.startedAt"),
                             time_of(json_at(it, "state.terminated.startedAt"),
                                     time_of(json_at(it, "lastState.terminated.startedAt"), 0)));

        first = at && (!first || at < first) ? at : first;
    }
    return first;
}

static bool any_runs(const struct json *statuses, const char **name)
{
    JSON_EACH(statuses, it)
        if (json_at(it, "state.running")) {
            *name = json_string_or(json_get(it, "name"), "");
            return true;
        }
    return false;
}

static void read_running(const struct json *status, struct pod_state *ret)
{
    struct waiting waiting;

    ret->kind = POD_STATE_RUNNING;
    ret->since = first_start(status);
    if (find_waiting(status, true, &waiting) || find_waiting(status, false, &waiting)) {
        ret->reason = waiting.reason;
        set_text(ret->text, waiting.message);
    }
}

static void read_starting(const struct json *status, struct pod_state *ret)
{
    const char *name = "";
    struct waiting waiting;

    ret->kind = POD_STATE_STARTING;
    set_text(ret->text, "creating its containers");
    if (any_runs(json_get(status, "initContainerStatuses"), &name)) {
        print_text(ret->text, "init container %s is running", name);
    } else if (find_waiting(status, false, &waiting)) {
        ret->kind = starts_with(waiting.message, PULLING_PREFIX) ? POD_STATE_PULLING : POD_STATE_STARTING;
        ret->reason = waiting.reason;
        set_text(ret->text, waiting.message);
    }
}

static void read_bound(const struct json *status, struct pod_state *ret)
{
    bool begun = streq(json_get_string(status, "phase"), "Running");
    const char *name = "";
    struct waiting waiting;
    bool runs = begun && any_runs(json_get(status, "containerStatuses"), &name);

    if (!runs && find_waiting(status, true, &waiting))
        read_stuck(status, &waiting, ret);
    else if (begun) /* perhaps between two runs of its containers */
        read_running(status, ret);
    else
        read_starting(status, ret);
}

void pod_state_read(const struct json *doc, struct pod_state *ret)
{
    const struct json *status = json_get(doc, "status");
    const char *phase = json_string_or(json_get(status, "phase"), "Pending");
    const struct json *scheduled = condition_find(status, SCHEDULED_CONDITION);

    *ret = (struct pod_state){.reason = "", .message = "", .exit_code = -1};
    if (pod_phase_is_over(phase)) {
        read_over(status, streq(phase, "Failed"), ret);
    } else if (json_at(doc, "metadata.deletionTimestamp")) {
        int64_t by = time_of(json_at(doc, "metadata.deletionTimestamp"), 0);
        int64_t grace = json_int(json_at(doc, "metadata.deletionGracePeriodSeconds"), 0);

        ret->kind = POD_STATE_STOPPING;
        ret->since = clock_after(by, grace > 0 ? -grace : 0);
        ret->since = ret->since > 0 ? ret->since : 0;
    } else if (!json_at_string(doc, "spec.nodeName") || !*json_at_string(doc, "spec.nodeName")) {
        ret->kind = POD_STATE_PENDING;
        if (streq(json_get_string(scheduled, "status"), "False")) {
            ret->reason = json_string_or(json_get(scheduled, "reason"), "");
            set_text(ret->text, json_string_or(json_get(scheduled, "message"), ""));
        }
    } else {
        read_bound(status, ret);
    }
}

void pod_state_pulling_text(const char *image, int percent, char text[POD_STATE_TEXT_MAX])
{
    if (percent < 0)
        print_text(text, PULLING_PREFIX "%s", image);
    else
        print_text(text, PULLING_PREFIX "%s: %d %%", image, percent);
}
