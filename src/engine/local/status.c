#include "engine/local/status.h"

#include "base/clock.h"
#include "control/pod_state.h"
#include "control/util.h"
#include "objects/names.h"

static void set_time(struct arena *arena, struct json *object, const char *key, int64_t t)
{
    char text[CLOCK_TEXT_MAX];

    if (t)
        json_set_string(arena, object, key, clock_format(t, text));
    else
        json_set(arena, object, key, *json_new_null(arena));
}

static void write_end(struct arena *arena, struct json *state, const struct ctr_end *end)
{
    struct json *terminated = json_set_object(arena, state, "terminated");

    json_set_int(arena, terminated, "exitCode", end->code);
    if (end->signal)
        json_set_int(arena, terminated, "signal", end->signal);
    json_set_string(arena, terminated, "reason", end->reason);
    if (end->message)
        json_set_string(arena, terminated, "message", end->message);
    set_time(arena, terminated, "startedAt", end->started);
    set_time(arena, terminated, "finishedAt", end->finished);
    if (*end->id)
        json_set_string(arena, terminated, "containerID", arena_printf(arena, "berth://%s", end->id));
}

static void write_waiting(struct arena *arena, struct json *state, const char *reason, const char *message)
{
    struct json *waiting = json_set_object(arena, state, "waiting");

    json_set_string(arena, waiting, "reason", reason);
    if (message)
        json_set_string(arena, waiting, "message", message);
}

/* The back-off that a container with several ends waits for. */
static void write_crash_loop(struct arena *arena, struct json *state, const struct ctr *ctr,
                             const struct json *pod)
{
    int64_t sec = backoff_sec(ctr->quick);
    const char *wait = sec < 60 ? arena_printf(arena, "%llds", (long long)sec)
                                : arena_printf(arena, "%lldm%llds", (long long)sec / 60, (long long)sec % 60);

    write_waiting(arena, state, "CrashLoopBackOff",
                  arena_printf(arena, "back-off %s restarting failed container=%s pod=%s_%s(%s)", wait,
                               ctr->name, json_string_or(json_at(pod, "metadata.name"), ""),
                               json_string_or(json_at(pod, "metadata.namespace"), ""),
                               json_string_or(json_at(pod, "metadata.uid"), "")));
}

/* A container that has not run yet. */
static void write_start(struct arena *arena, struct json *state, const struct facts *facts,
                        const struct ctr *ctr, int64_t now)
{
    bool ours = ctr->init ? ctr->state != CTR_NONE : plan_initialized(facts); /* to be started now */
    const char *reason, *message;
    char text[POD_STATE_TEXT_MAX];

    if (facts_stuck(facts, ctr, now, &reason, &message)) {
        write_waiting(arena, state, reason, message);
    } else if (ctr->state == CTR_PULLING && ctr->fetching) {
        pod_state_pulling_text(json_string_or(json_get(ctr->spec, "image"), ""), ctr->percent, text);
        write_waiting(arena, state, "ContainerCreating", text);
    } else {
        write_waiting(arena, state, ours ? "ContainerCreating" : "PodInitializing", NULL);
    }
}

static void write_state(struct arena *arena, struct json *out, const struct facts *facts,
                        const struct ctr *ctr, const struct pod_plan *plan, const struct json *pod,
                        int64_t now)
{
    struct json *state = json_set_object(arena, out, "state"), *last;
    const struct ctr_end *previous = &ctr->last;
    bool going = !facts->deleting && !*facts->fail_reason && !facts->ended && !plan->over;
    int64_t again = going ? plan_restart_at(facts, ctr) : 0;

    switch (ctr->state) {
    case CTR_RUNNING:
        set_time(arena, json_set_object(arena, state, "running"), "startedAt", ctr->started);
        break;
    case CTR_EXITED:
        if (again > now && ctr->quick) {
            write_crash_loop(arena, state, ctr, pod);
            previous = &ctr->end;
        } else {
            write_end(arena, state, &ctr->end);
        }
        break;
    default:
        write_start(arena, state, facts, ctr, now);
        break;
    }
    last = json_set_object(arena, out, "lastState");
    if (previous->there)
        write_end(arena, last, previous);
}

static void write_ctr(struct arena *arena, struct json *list, const struct facts *facts,
                      const struct ctr *ctr, const struct pod_plan *plan, const struct json *pod, int64_t now)
{
    struct json *out = json_push_object(arena, list);
    bool running = ctr->state == CTR_RUNNING;

    json_set_string(arena, out, "name", ctr->name);
    write_state(arena, out, facts, ctr, plan, pod, now);
    json_set_bool(arena, out, "ready",
                  ctr->init && !ctr->sidecar ? ctr->state == CTR_EXITED && ctr->end.code == 0
                                             : running && ctr->ready);
    json_set_int(arena, out, "restartCount", ctr->restarts);
    json_set_string(arena, out, "image", json_string_or(json_get(ctr->spec, "image"), ""));
    json_set_string(arena, out, "imageID", ctr->image_id);
    if (*ctr->id)
        json_set_string(arena, out, "containerID", arena_printf(arena, "berth://%s", ctr->id));
    json_set_bool(arena, out, "started", running && ctr->begun);
}

static void write_list(struct arena *arena, struct json *status, const char *key, bool init,
                       const struct facts *facts, const struct pod_plan *plan, const struct json *pod,
                       int64_t now)
{
    struct json *list = json_new_array(arena);

    for (size_t i = 0; i < facts->len; i++)
        if (facts->ctrs[i].init == init)
            write_ctr(arena, list, facts, &facts->ctrs[i], plan, pod, now);
    if (list->len)
        json_set(arena, status, key, *list);
}

/* "containers with unready status: [a b]", or NULL when all are ready. */
static const char *unready(struct arena *arena, const struct facts *facts)
{
    CLEANUP(buf_done) struct buf text = {0};

    for (size_t i = 0; i < facts->len; i++) {
        const struct ctr *ctr = &facts->ctrs[i];

        if (!ctr->init && !(ctr->state == CTR_RUNNING && ctr->ready))
            buf_printf(&text, "%s%s", text.len ? " " : "containers with unready status: [", ctr->name);
    }
    if (!text.len)
        return NULL;
    buf_putc(&text, ']');
    return arena_strndup(arena, text.data, text.len);
}

static const char *uninitialized(struct arena *arena, const struct facts *facts)
{
    CLEANUP(buf_done) struct buf text = {0};

    for (size_t i = 0; i < facts->len && facts->ctrs[i].init; i++)
        if (!(facts->ctrs[i].state == CTR_EXITED && facts->ctrs[i].end.code == 0) && !facts->ctrs[i].sidecar)
            buf_printf(&text, "%s%s", text.len ? " " : "containers with incomplete status: [",
                       facts->ctrs[i].name);
    buf_putc(&text, ']');
    return arena_strndup(arena, text.data, text.len);
}

/* Where something runs it has one, also while a new daemon has not looked yet. */
static bool has_sandbox(const struct facts *facts)
{
    bool alive = false;

    for (size_t i = 0; i < facts->len; i++)
        alive = alive || ctr_alive(&facts->ctrs[i]);
    return facts->sandbox || alive;
}

static void write_conditions(struct arena *arena, struct json *status, const struct facts *facts,
                             const char *phase, int64_t now)
{
    const char *why = unready(arena, facts);
    bool done = streq(phase, "Succeeded"), failed = streq(phase, "Failed");
    const char *ready = !done && !failed && !why ? "True" : "False";
    const char *reason = done ? "PodCompleted" : failed ? "PodFailed" : why ? "ContainersNotReady" : NULL;

    condition_set(arena, status, "PodReadyToStartContainers", has_sandbox(facts) ? "True" : "False", NULL,
                  NULL, now);
    if (plan_initialized(facts) || done)
        condition_set(arena, status, "Initialized", "True", done ? "PodCompleted" : NULL, NULL, now);
    else
        condition_set(arena, status, "Initialized", "False", "ContainersNotInitialized",
                      uninitialized(arena, facts), now);
    condition_set(arena, status, "Ready", ready, reason, done || failed ? NULL : why, now);
    condition_set(arena, status, "ContainersReady", ready, reason, done || failed ? NULL : why, now);
    condition_set(arena, status, SCHEDULED_CONDITION, "True", NULL, NULL, now);
}

/* One condition keeps since when the pod cannot start. */
static void write_stuck(struct arena *arena, struct json *status, const struct facts *facts,
                        const struct pod_plan *plan, int64_t now)
{
    const char *reason, *message;

    for (size_t i = 0; i < facts->len && !facts->deleting && !plan->over; i++)
        if (facts_stuck(facts, &facts->ctrs[i], now, &reason, &message)) {
            condition_set(arena, status, POD_CANNOT_START, "True", reason, message, now);
            return;
        }
    if (condition_find(status, POD_CANNOT_START))
        condition_set(arena, status, POD_CANNOT_START, "False", NULL, NULL, now);
}

static void write_ip(struct arena *arena, struct json *status, const char *key, const char *list,
                     const char *ip)
{
    if (!*ip)
        return;
    json_set_string(arena, status, key, ip);
    json_set_string(arena, json_push_object(arena, json_set_array(arena, status, list)), "ip", ip);
}

void status_write(struct arena *arena, struct json *doc, const struct facts *facts,
                  const struct pod_plan *plan, int64_t now)
{
    struct json *status = json_need_object(arena, doc, "status");
    const char *phase = plan->phase ? plan->phase : json_string_or(json_get(status, "phase"), "Pending");

    json_set_string(arena, status, "phase", phase);
    if (*facts->fail_reason && streq(phase, "Failed")) {
        json_set_string(arena, status, "reason", facts->fail_reason);
        if (facts->fail_message)
            json_set_string(arena, status, "message", facts->fail_message);
    }
    write_conditions(arena, status, facts, phase, now);
    write_stuck(arena, status, facts, plan, now);
    write_ip(arena, status, "hostIP", "hostIPs", facts->host_ip);
    write_ip(arena, status, "podIP", "podIPs", facts->pod_ip);
    if (facts->start_time)
        set_time(arena, status, "startTime", facts->start_time);
    write_list(arena, status, "initContainerStatuses", true, facts, plan, doc, now);
    write_list(arena, status, "containerStatuses", false, facts, plan, doc, now);
}
