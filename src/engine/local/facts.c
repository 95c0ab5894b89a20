#include "engine/local/facts.h"

#include "base/clock.h"
#include "base/mem.h"
#include "control/pod_state.h"
#include "objects/names.h"

#include <stdio.h>

#define QUICK_MAX 30 /* more do not make the back-off longer */

static int64_t time_at(const struct json *value, const char *path)
{
    int64_t t;

    return clock_parse(json_str(json_at(value, path)), &t) ? t : 0;
}

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

static void set_text(char **text, const char *from)
{
    char *copied = from && *from ? mem_strdup(from) : NULL;

    free(*text);
    *text = copied;
}

/* "berth://ID" */
static const char *bare_id(const char *text)
{
    return text && starts_with(text, "berth://") ? text + strlen("berth://") : "";
}

static void read_end(struct ctr_end *end, const struct json *terminated)
{
    if (!terminated)
        return;
    end->there = true;
    end->code = (int)json_int(json_get(terminated, "exitCode"), 0);
    end->signal = (int)json_int(json_get(terminated, "signal"), 0);
    copy(end->reason, sizeof(end->reason), json_get_string(terminated, "reason"));
    set_text(&end->message, json_get_string(terminated, "message"));
    end->started = time_at(terminated, "startedAt");
    end->finished = time_at(terminated, "finishedAt");
    copy(end->id, sizeof(end->id), bare_id(json_get_string(terminated, "containerID")));
}

/* Seconds of "back-off 20s restarting …" or "back-off 2m40s …"; 0: it says something else. */
static int64_t read_backoff(const char *text)
{
    static const char prefix[] = "back-off ";
    int64_t total = 0, n = 0;

    if (!starts_with(text, prefix))
        return 0;
    for (const char *p = text + sizeof(prefix) - 1; *p && *p != ' ' && n < BACKOFF_MAX_SEC * 10; p++) {
        if (*p >= '0' && *p <= '9') {
            n = n * 10 + *p - '0';
            continue;
        }
        if (*p != 'm' && *p != 's')
            return 0;
        total += *p == 'm' ? n * 60 : n;
        n = 0;
    }
    return total;
}

/* How many ends in a row the back-off counts: as the stored message says ("back-off 20s …"), else as many as
 * there were restarts, unless the last run was long enough to begin anew. */
static unsigned read_quick(const struct json *status, int restarts)
{
    const char *text = json_string_or(json_at(status, "state.waiting.message"), "");
    int64_t ran = time_at(status, "lastState.terminated.finishedAt") -
                  time_at(status, "lastState.terminated.startedAt");
    int64_t told = read_backoff(text);
    unsigned n = 1;

    if (told > 0) {
        while (n < QUICK_MAX && backoff_sec(n) < told)
            n++;
        return n;
    }
    if (restarts > 0 && ran >= BACKOFF_RESET_SEC * NSEC_PER_SEC)
        return 1;
    return restarts > QUICK_MAX ? QUICK_MAX : (unsigned)restarts;
}

/* What was stored. A container that ran then is taken for running until the runtime says otherwise. */
static void read_status(struct ctr *ctr, const struct json *statuses)
{
    JSON_EACH(statuses, it) {
        const struct json *running = json_at(it, "state.running");
        const char *waiting = json_at_string(it, "state.waiting.reason");

        if (!streq(json_get_string(it, "name"), ctr->name))
            continue;
        ctr->restarts = (int)json_int(json_get(it, "restartCount"), 0);
        ctr->quick = read_quick(it, ctr->restarts);
        copy(ctr->image_id, sizeof(ctr->image_id), json_get_string(it, "imageID"));
        copy(ctr->id, sizeof(ctr->id), bare_id(json_get_string(it, "containerID")));
        ctr->ready = json_bool(json_get(it, "ready"));
        ctr->begun = json_bool(json_get(it, "started"));
        read_end(&ctr->last, json_at(it, "lastState.terminated"));
        read_end(&ctr->end, json_at(it, "state.terminated"));
        if (running) {
            ctr->state = CTR_RUNNING;
            ctr->started = time_at(running, "startedAt");
        } else if (ctr->end.there) {
            ctr->state = CTR_EXITED;
        } else if (ctr->last.there && streq(json_at_string(it, "state.waiting.reason"), "CrashLoopBackOff")) {
            /* it waited for its next run; any other reason is of a run that is being made */
            ctr->end = ctr->last;
            ctr->end.message = mem_strdup(ctr->last.message);
            ctr->state = CTR_EXITED;
        } else if (waiting && pod_state_is_stuck(waiting)) { /* so that it is shown until something moves */
            copy(ctr->reason, sizeof(ctr->reason), waiting);
            set_text(&ctr->message, json_at_string(it, "state.waiting.message"));
            ctr->failures = 1;
        }
        return;
    }
}

static void add_all(struct facts *facts, const struct json *pod, const char *list, const char *statuses,
                    bool init)
{
    JSON_EACH(json_at(pod, list), it) {
        struct ctr *ctr;

        if (facts->len == FACTS_CONTAINERS_MAX)
            return;
        ctr = &facts->ctrs[facts->len++];
        copy(ctr->name, sizeof(ctr->name), json_get_string(it, "name"));
        ctr->spec = it;
        ctr->percent = -1;
        ctr->init = init;
        ctr->sidecar = init && streq(json_get_string(it, "restartPolicy"), "Always");
        read_status(ctr, json_at(pod, statuses));
    }
}

static void read_pod(struct facts *facts, const struct json *pod)
{
    const char *policy = json_string_or(json_at(pod, "spec.restartPolicy"), "Always");
    int64_t deadline = json_int(json_at(pod, "spec.activeDeadlineSeconds"), 0);

    facts->policy = streq(policy, "Never")       ? RESTART_NEVER
                    : streq(policy, "OnFailure") ? RESTART_ON_FAILURE
                                                 : RESTART_ALWAYS;
    facts->deleting = json_at(pod, "metadata.deletionTimestamp") != NULL;
    facts->ended = pod_is_over(pod);
    if (!facts->start_time)
        facts->start_time = time_at(pod, "status.startTime");
    facts->deadline = deadline > 0 && facts->start_time ? facts->start_time + deadline * NSEC_PER_SEC : 0;
}

void facts_init(struct facts *facts, const struct json *pod)
{
    size_t len = json_len(json_at(pod, "spec.initContainers")) + json_len(json_at(pod, "spec.containers"));

    *facts = (struct facts){0};
    facts->ctrs = mem_zalloc((len + 1) * sizeof(*facts->ctrs));
    add_all(facts, pod, "spec.initContainers", "status.initContainerStatuses", true);
    add_all(facts, pod, "spec.containers", "status.containerStatuses", false);
    copy(facts->pod_ip, sizeof(facts->pod_ip), json_at_string(pod, "status.podIP"));
    read_pod(facts, pod);
}

void facts_refresh(struct facts *facts, const struct json *pod)
{
    static const char *const lists[] = {"spec.initContainers", "spec.containers"};

    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        JSON_EACH(json_at(pod, lists[i]), it) {
            struct ctr *ctr = facts_find(facts, json_get_string(it, "name"));

            if (ctr)
                ctr->spec = it;
        }
    read_pod(facts, pod);
}

void facts_done(struct facts *facts)
{
    for (size_t i = 0; i < facts->len; i++) {
        free(facts->ctrs[i].message);
        free(facts->ctrs[i].end.message);
        free(facts->ctrs[i].last.message);
    }
    free(facts->ctrs);
    free(facts->fail_message);
    free(facts->no_sandbox_message);
    *facts = (struct facts){0};
}

struct ctr *facts_find(const struct facts *facts, const char *name)
{
    for (size_t i = 0; name && i < facts->len; i++)
        if (streq(facts->ctrs[i].name, name))
            return &facts->ctrs[i];
    return NULL;
}

int64_t backoff_sec(unsigned failures)
{
    int64_t sec = BACKOFF_FIRST_SEC;

    if (failures == 0)
        return 0;
    for (unsigned i = 1; i < failures && sec < BACKOFF_MAX_SEC; i++)
        sec *= 2;
    return sec < BACKOFF_MAX_SEC ? sec : BACKOFF_MAX_SEC;
}

void ctr_stuck(struct ctr *ctr, const char *reason, const char *message, int64_t now)
{
    ctr->state = CTR_STUCK;
    ctr->failures++;
    ctr->stuck_at = now;
    ctr->retry_at = now + backoff_sec(ctr->failures) * NSEC_PER_SEC;
    copy(ctr->reason, sizeof(ctr->reason), reason);
    set_text(&ctr->message, message);
}

const char *ctr_stuck_reason(const struct ctr *ctr, int64_t now)
{
    if (streq(ctr->reason, "ErrImagePull") && now >= ctr->stuck_at + STUCK_SHOWN_SEC * NSEC_PER_SEC)
        return "ImagePullBackOff";
    return ctr->reason;
}

void ctr_started(struct ctr *ctr, int64_t time)
{
    ctr->state = CTR_RUNNING;
    ctr->failures = 0;
    ctr->started = time;
}

void ctr_exited(struct ctr *ctr, int code, int signal, const char *reason, const char *message,
                int64_t started, int64_t finished)
{
    struct ctr_end *end = &ctr->end;

    free(end->message);
    *end = (struct ctr_end){.there = true, .code = code, .signal = signal, .finished = finished};
    end->started = started ? started : ctr->started;
    copy(end->reason, sizeof(end->reason), reason);
    set_text(&end->message, message);
    copy(end->id, sizeof(end->id), ctr->id);
    ctr->quick = end->started && finished - end->started >= BACKOFF_RESET_SEC * NSEC_PER_SEC ? 0 : ctr->quick;
    ctr->state = CTR_EXITED;
    ctr->ready = ctr->begun = false;
}

void ctr_again(struct ctr *ctr)
{
    free(ctr->last.message);
    ctr->last = ctr->end;
    ctr->end = (struct ctr_end){0};
    ctr->restarts++;
    ctr->quick++;
    ctr->failures = 0;
    ctr->state = CTR_NONE;
}

void facts_fail(struct facts *facts, const char *reason, const char *message)
{
    if (*facts->fail_reason)
        return;
    copy(facts->fail_reason, sizeof(facts->fail_reason), reason);
    set_text(&facts->fail_message, message);
}

void facts_no_sandbox(struct facts *facts, const char *reason, const char *message)
{
    facts->sandbox = false;
    copy(facts->no_sandbox, sizeof(facts->no_sandbox), reason);
    set_text(&facts->no_sandbox_message, message);
}

void facts_sandbox_ready(struct facts *facts)
{
    facts->sandbox = true;
    facts->no_sandbox[0] = '\0';
    set_text(&facts->no_sandbox_message, NULL);
}

bool facts_stuck(const struct facts *facts, const struct ctr *ctr, int64_t now, const char **reason,
                 const char **message)
{
    if (ctr->state == CTR_RUNNING || ctr->state == CTR_EXITED)
        return false;
    if (!facts->sandbox && *facts->no_sandbox) {
        *reason = facts->no_sandbox;
        *message = facts->no_sandbox_message;
        return true;
    }
    if (!ctr->failures || (ctr->state == CTR_PULLING && ctr->percent >= 0))
        return false;
    *reason = ctr_stuck_reason(ctr, now);
    *message = ctr->message;
    return true;
}
