/* How a task stands follows from what it owns: Jobs with their pods, TrainingJobs, pods. Changes are noted
 * while they are told and looked at, at the end of the turn, once for each task. */
#include "base/clock.h"
#include "base/mem.h"
#include "objects/names.h"
#include "tasks/internal.h"

struct tasks_life {
    struct tasks *tasks; /* NULL: gone */
    unsigned refs;
};

enum task_phase { TASK_PENDING, TASK_RUNNING, TASK_PREEMPTED, TASK_SUCCEEDED, TASK_FAILED };
static const char *const task_phase_names[] = {"Pending", "Running", "Preempted", "Succeeded", "Failed"};

struct view {
    struct tasks *tasks;
    struct arena *arena;
    size_t count[TASK_FAILED + 1], total;
    double done; /* sum of the shares */
    bool has_run;
    const char *reason[TASK_FAILED + 1]; /* of the first in that phase */
};

static void add(struct view *view, enum task_phase phase, double done, const char *reason)
{
    view->count[phase]++;
    view->total++;
    view->done += phase == TASK_SUCCEEDED ? 1 : done;
    view->has_run |= phase == TASK_RUNNING || phase == TASK_SUCCEEDED;
    if (!view->reason[phase])
        view->reason[phase] = reason;
}

static const struct json *condition(const struct json *doc, const char *type)
{
    JSON_EACH(json_at(doc, "status.conditions"), it)
        if (streq(json_get_string(it, "type"), type) && streq(json_get_string(it, "status"), "True"))
            return it;
    return NULL;
}

static const char *message_of(const struct json *condition, const char *fallback)
{
    const char *message = json_get_string(condition, "message");

    return message && *message ? message : json_string_or(json_get(condition, "reason"), fallback);
}

/* ---- pods ---- */

/* Why a pod that does not run yet waits. */
static const char *waiting_reason(const struct view *view, const struct json *pod)
{
    JSON_EACH(json_at(pod, "status.conditions"), it)
        if (streq(json_get_string(it, "type"), SCHEDULED_CONDITION) &&
            streq(json_get_string(it, "status"), "False"))
            return message_of(it, "it waits for a place");
    JSON_EACH(json_at(pod, "status.containerStatuses"), it) {
        const struct json *waiting = json_at(it, "state.waiting");
        const char *reason = json_get_string(waiting, "reason"),
                   *message = json_get_string(waiting, "message");

        if (reason)
            return message && *message ? arena_printf(view->arena, "%s: %s", reason, message) : reason;
    }
    return "it waits for a place";
}

/* "Error: exit code 3", or what the pod itself says. */
static const char *end_reason(const struct view *view, const struct json *pod)
{
    const char *message = json_at_string(pod, "status.message");

    if (message && *message)
        return message;
    JSON_EACH(json_at(pod, "status.containerStatuses"), it) {
        const struct json *ended = json_at(it, "state.terminated");
        long long code = json_int(json_get(ended, "exitCode"), 0);

        if (ended && code)
            return arena_printf(view->arena, "container \"%s\" ended with exit code %lld (%s)",
                                json_string_or(json_get(it, "name"), ""), code,
                                json_string_or(json_get(ended, "reason"), "Error"));
    }
    return "its pod failed";
}

static enum task_phase pod_phase(const struct json *pod)
{
    const char *phase = json_at_string(pod, "status.phase");

    if (streq(phase, "Succeeded"))
        return TASK_SUCCEEDED;
    if (condition(pod, "DisruptionTarget"))
        return TASK_PREEMPTED;
    return streq(phase, "Failed") ? TASK_FAILED : streq(phase, "Running") ? TASK_RUNNING : TASK_PENDING;
}

static const char *pod_reason(const struct view *view, const struct json *pod, enum task_phase phase)
{
    switch (phase) {
    case TASK_FAILED:
        return end_reason(view, pod);
    case TASK_PREEMPTED:
        return message_of(condition(pod, "DisruptionTarget"), "it made room for another");
    case TASK_PENDING:
        return waiting_reason(view, pod);
    default:
        return phase == TASK_RUNNING ? "it runs" : "it is done";
    }
}

/* ---- jobs ---- */

struct pods {
    struct view *view;
    bool running, preempted, failed, any;
    const char *why_waiting, *why_preempted, *why_failed;
};

static void see_pod(void *arg, const struct object *object)
{
    struct pods *pods = arg;
    const struct json *doc;
    enum task_phase phase;

    if (object->kind->id != KIND_POD)
        return;
    doc = object_json(object, pods->view->arena);
    phase = pod_phase(doc);
    pods->any = true;
    if (phase != TASK_PENDING)
        pods->view->has_run |= phase != TASK_PREEMPTED;
    if (phase == TASK_RUNNING) {
        pods->running = true;
    } else if (phase == TASK_PREEMPTED) {
        pods->preempted = true;
        pods->why_preempted = pod_reason(pods->view, doc, phase);
    } else if (phase == TASK_FAILED) {
        pods->failed = true;
        pods->why_failed = pod_reason(pods->view, doc, phase);
    } else if (phase == TASK_PENDING) {
        pods->why_waiting = pod_reason(pods->view, doc, phase);
    }
}

static void see_job(struct view *view, const struct object *object)
{
    const struct json *doc = object_json(object, view->arena), *failed = condition(doc, "Failed");
    struct pods pods = {.view = view};
    int64_t completions = json_int(json_at(doc, "spec.completions"), 1),
            succeeded = json_int(json_at(doc, "status.succeeded"), 0);
    double done = completions > 0 ? (double)succeeded / (double)completions : 0;

    store_parts(view->tasks->store, object, see_pod, &pods);
    view->has_run |= succeeded > 0 || json_int(json_at(doc, "status.failed"), 0) > 0;
    if (condition(doc, "Complete"))
        add(view, TASK_SUCCEEDED, 1, "it is done");
    else if (failed)
        add(view, TASK_FAILED, done,
            pods.why_failed ? pods.why_failed : message_of(failed, "its job failed"));
    else if (pods.running)
        add(view, TASK_RUNNING, done, "it runs");
    else if (pods.preempted)
        add(view, TASK_PREEMPTED, done, pods.why_preempted);
    else if (json_bool(json_at(doc, "spec.suspend")))
        add(view, TASK_PENDING, done, "its job is suspended");
    else
        add(view, TASK_PENDING, done, pods.why_waiting ? pods.why_waiting : "it waits for its pods");
}

static void see_training(struct view *view, const struct object *object)
{
    static const struct {
        const char *name;
        enum task_phase phase;
    } phases[] = {
        {"Running", TASK_RUNNING},     {"Stopping", TASK_RUNNING}, {"Preempted", TASK_PREEMPTED},
        {"Succeeded", TASK_SUCCEEDED}, {"Failed", TASK_FAILED},    {"Cancelled", TASK_FAILED},
    };
    const struct json *doc = object_json(object, view->arena);
    const char *name = json_at_string(doc, "status.phase");
    int64_t epochs = json_int(json_at(doc, "spec.maxEpochs"), 0);
    enum task_phase phase = TASK_PENDING;

    for (size_t i = 0; i < ARRAY_LEN(phases); i++)
        if (streq(phases[i].name, name))
            phase = phases[i].phase;
    add(view, phase, epochs > 0 ? (double)json_int(json_at(doc, "status.epochsDone"), 0) / (double)epochs : 0,
        json_string_or(json_at(doc, "status.reason"), "it waits"));
}

static void see_dependent(void *arg, const struct object *object)
{
    struct view *view = arg;

    if (object->kind->id == KIND_JOB) {
        see_job(view, object);
    } else if (object->kind->id == KIND_TRAINING_JOB) {
        see_training(view, object);
    } else if (object->kind->id == KIND_POD) {
        const struct json *doc = object_json(object, view->arena);
        enum task_phase phase = pod_phase(doc);

        add(view, phase, 0, pod_reason(view, doc, phase));
    }
}

/* ---- the whole ---- */

static size_t runnable(const struct json *doc)
{
    size_t n = 0;

    JSON_EACH(json_at(doc, "status.objects"), it) {
        const char *kind = json_get_string(it, "kind");

        n += streq(kind, "Job") || streq(kind, "TrainingJob") || streq(kind, "Pod");
    }
    return n;
}

static enum task_phase judge(struct view *view, const struct json *doc)
{
    if (view->count[TASK_FAILED])
        return TASK_FAILED;
    if (view->total < runnable(doc)) {
        view->reason[TASK_FAILED] = "what it ran has been deleted";
        return TASK_FAILED;
    }
    if (view->count[TASK_SUCCEEDED] == view->total) {
        view->reason[TASK_SUCCEEDED] = view->total ? "it is done" : "it has nothing to run";
        return TASK_SUCCEEDED;
    }
    if (view->count[TASK_RUNNING])
        return TASK_RUNNING;
    return view->count[TASK_PREEMPTED] ? TASK_PREEMPTED : TASK_PENDING;
}

struct outcome {
    enum task_phase phase;
    const char *reason;
    double progress;
    bool has_run;
};

static void set_time(struct arena *arena, struct json *status, const char *key)
{
    char time[CLOCK_TEXT_MAX];

    if (!json_get(status, key))
        json_set_string(arena, status, key, clock_format(clock_now(), time));
}

static bool edit_status(void *arg, struct arena *arena, struct json *doc)
{
    const struct outcome *outcome = arg;
    struct json *status = json_need_object(arena, doc, "status"), *before = json_copy(arena, status);

    if (outcome->has_run || outcome->phase == TASK_RUNNING)
        set_time(arena, status, "startTime");
    if (outcome->phase >= TASK_SUCCEEDED)
        set_time(arena, status, "completionTime");
    json_set_string(arena, status, "phase", task_phase_names[outcome->phase]);
    json_set_string(arena, status, "reason", outcome->reason);
    json_set(arena, status, "progress", json_of_real(outcome->progress));
    json_set(arena, status, "observedGeneration",
             json_of_int(json_int(json_at(doc, "metadata.generation"), 1)));
    return !json_equal(before, status);
}

/* A training job says who takes its place while it stops; afterwards it says what it waits for. */
static const char *preempted_reason(const struct json *doc, const char *reason)
{
    const char *before = json_at_string(doc, "status.reason");

    return streq(json_at_string(doc, "status.phase"), "Running") && before &&
                   starts_with(before, "preempted by ")
               ? before
               : reason;
}

static void look(struct tasks *tasks, const char *uid)
{
    CLEANUP(arena_done) struct arena arena = {0};
    const struct object *task = store_by_uid(tasks->store, uid);
    struct view view = {.tasks = tasks, .arena = &arena};
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .subresource = "status"};
    struct outcome outcome;
    struct written written;
    const struct json *doc;

    if (!task) {
        callbacks_state(tasks, uid, "Deleted", "it has been deleted", false);
        return;
    }
    doc = object_json(task, &arena);
    if (task->deleting || pod_is_over(doc))
        return;
    store_parts(tasks->store, task, see_dependent, &view);
    outcome.phase = judge(&view, doc);
    outcome.reason = view.reason[outcome.phase] ? view.reason[outcome.phase] : "";
    if (outcome.phase == TASK_PREEMPTED)
        outcome.reason = preempted_reason(doc, outcome.reason);
    else if (outcome.phase == TASK_PENDING && streq(json_at_string(doc, "status.phase"), "Preempted"))
        outcome.phase = TASK_PREEMPTED; /* until it runs again, also when the pod that had to go is gone */
    outcome.progress = outcome.phase == TASK_SUCCEEDED ? 1 : view.total ? view.done / (double)view.total : 0;
    outcome.has_run = view.has_run;
    registry_edit_object(tasks->registry, &write, task, edit_status, &outcome, &written);
    callbacks_state(tasks, uid, task_phase_names[outcome.phase], outcome.reason, view.has_run);
}

static void look_at_all(void *arg)
{
    struct tasks_life *life = arg;
    struct tasks *tasks = life->tasks;
    struct map *dirty;
    struct str key;
    void *value;
    size_t at = 0;

    if (--life->refs == 0)
        free(life);
    if (!tasks)
        return;
    dirty = tasks->dirty;
    tasks->dirty = map_new();
    tasks->looking = false;
    while (map_next(dirty, &at, &key, &value)) {
        CLEANUP(free) char *uid = mem_strndup(key.s, key.len);

        look(tasks, uid);
    }
    map_free(dirty);
}

static void note(struct tasks *tasks, struct str uid)
{
    map_set(tasks->dirty, uid, tasks);
    if (tasks->looking)
        return;
    tasks->looking = true;
    tasks->life->refs++;
    loop_later(tasks->config.loop, look_at_all, tasks->life);
}

/* ---- changes ---- */

static const struct object *owner_of(struct tasks *tasks, const struct object *object, int kind)
{
    const struct object *owner = store_controller(tasks->store, object);

    return owner && owner->kind->id == kind ? owner : NULL;
}

static void changed(void *arg, const struct store_event *event)
{
    struct tasks *tasks = arg;
    const struct object *object = event->object, *task = NULL;

    switch (object->kind->id) {
    case KIND_TASK:
        if (event->op != STORE_MODIFIED)
            note(tasks, str_from(object->uid));
        return;
    case KIND_POD:
        task = owner_of(tasks, object, KIND_JOB);
        task = owner_of(tasks, task ? task : object, KIND_TASK);
        break;
    case KIND_JOB:
    case KIND_TRAINING_JOB:
        task = owner_of(tasks, object, KIND_TASK);
        break;
    default:
        return;
    }
    if (task)
        note(tasks, str_from(task->uid));
}

void status_init(struct tasks *tasks)
{
    tasks->dirty = map_new();
    tasks->life = NEW(struct tasks_life);
    *tasks->life = (struct tasks_life){tasks, 1};
    store_watch(tasks->store, 0, NULL, store_revision(tasks->store), changed, NULL, tasks, &tasks->watch,
                NULL); /* from now on: cannot be too old */
    OBJECTS_EACH(store_list(tasks->store, KIND_TASK, NULL), it)
        note(tasks, str_from((*it)->uid));
}

void status_done(struct tasks *tasks)
{
    store_unwatch(tasks->watch);
    tasks->life->tasks = NULL;
    if (--tasks->life->refs == 0)
        free(tasks->life);
    map_free(tasks->dirty);
}
