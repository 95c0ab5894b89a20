/* Columns of pods, jobs and our own kinds. What a pod's Status cell says is put together from phase,
 * conditions and container states the way kubectl users know it. */
#include "base/clock.h"
#include "objects/condition.h"
#include "objects/names.h"
#include "objects/rules.h"
#include "objects/table.h"

/* ---- pods ---- */

struct pod_summary {
    int64_t ready, total, restarts;
    const char *status;       /* in the arena or the document */
    const char *last_restart; /* RFC 3339; NULL: none */
};

static bool condition_is_true(const struct json *status, const char *type)
{
    JSON_EACH(json_get(status, "conditions"), condition)
        if (streq(json_get_string(condition, "type"), type))
            return streq(json_get_string(condition, "status"), "True");
    return false;
}

static const char *non_empty(const char *s)
{
    return s && *s ? s : NULL;
}

/* An init container that keeps running beside the others (a sidecar). */
static bool is_sidecar(const struct json *spec, const char *name)
{
    JSON_EACH(json_get(spec, "initContainers"), container)
        if (streq(json_get_string(container, "name"), name))
            return streq(json_get_string(container, "restartPolicy"), "Always");
    return false;
}

static void count_restarts(const struct json *container, int64_t *restarts, const char **last)
{
    const char *finished = json_at_string(container, "lastState.terminated.finishedAt");
    int64_t now_last = 0, time;

    *restarts += json_int(json_get(container, "restartCount"), 0);
    if (!finished || !clock_parse(str_from(finished), &time))
        return;
    if (!*last || !clock_parse(str_from(*last), &now_last) || time > now_last)
        *last = finished;
}

/* "Error", "Signal:9", "ExitCode:3" */
static const char *terminated_text(const struct json *terminated, const char *prefix, struct arena *arena)
{
    const char *reason = non_empty(json_get_string(terminated, "reason"));
    long long signal = json_int(json_get(terminated, "signal"), 0);
    long long code = json_int(json_get(terminated, "exitCode"), 0);

    if (reason)
        return arena_printf(arena, "%s%s", prefix, reason);
    return signal ? arena_printf(arena, "%sSignal:%lld", prefix, signal)
                  : arena_printf(arena, "%sExitCode:%lld", prefix, code);
}

/* What an init container that is not done yet makes of the pod's status; NULL when it is done. */
static const char *init_text(const struct json *spec, const struct json *container, size_t index,
                             struct pod_summary *sum, struct arena *arena)
{
    const struct json *terminated = json_at(container, "state.terminated");
    const char *waiting = non_empty(json_at_string(container, "state.waiting.reason"));

    if (terminated && json_int(json_get(terminated, "exitCode"), 0) == 0)
        return NULL;
    if (json_bool(json_get(container, "started")) && is_sidecar(spec, json_get_string(container, "name"))) {
        sum->ready += json_bool(json_get(container, "ready"));
        return NULL;
    }
    if (terminated)
        return terminated_text(terminated, "Init:", arena);
    if (waiting && !streq(waiting, "PodInitializing"))
        return arena_printf(arena, "Init:%s", waiting);
    return arena_printf(arena, "Init:%zu/%zu", index, json_len(json_get(spec, "initContainers")));
}

static void summarize_containers(const struct json *status, struct pod_summary *sum, struct arena *arena)
{
    const struct json *containers = json_get(status, "containerStatuses");
    bool running = false;

    for (size_t i = json_len(containers); i-- > 0;) {
        const struct json *container = json_item(containers, i);
        const char *waiting = non_empty(json_at_string(container, "state.waiting.reason"));
        const struct json *terminated = json_at(container, "state.terminated");

        count_restarts(container, &sum->restarts, &sum->last_restart);
        if (waiting) {
            sum->status = waiting;
        } else if (terminated) {
            sum->status = terminated_text(terminated, "", arena);
        } else if (json_bool(json_get(container, "ready")) && json_at(container, "state.running")) {
            running = true;
            sum->ready++;
        }
    }
    if (running && streq(sum->status, "Completed"))
        sum->status = condition_is_true(status, "Ready") ? "Running" : "NotReady";
}

/* Init containers first: the first that is not done decides, and the ones behind it have not started. */
static bool summarize_init(const struct json *spec, const struct json *status, struct pod_summary *sum,
                           struct pod_summary *sidecars, struct arena *arena)
{
    size_t index = 0;

    JSON_EACH(json_get(status, "initContainerStatuses"), container) {
        const char *text;

        count_restarts(container, &sum->restarts, &sum->last_restart);
        if (is_sidecar(spec, json_get_string(container, "name")))
            count_restarts(container, &sidecars->restarts, &sidecars->last_restart);
        text = init_text(spec, container, index++, sum, arena);
        if (text) {
            sum->status = text;
            return true;
        }
    }
    return false;
}

static const char *pod_phase_text(const struct json *status)
{
    const char *reason = non_empty(json_get_string(status, "reason"));

    if (streq(json_get_string(condition_find(status, SCHEDULED_CONDITION), "reason"), "SchedulingGated"))
        return "SchedulingGated";
    return reason ? reason : json_string_or(json_get(status, "phase"), "");
}

static struct pod_summary summarize_pod(const struct json *doc, struct arena *arena)
{
    const struct json *spec = json_get(doc, "spec"), *status = json_get(doc, "status");
    const char *phase = json_string_or(json_get(status, "phase"), "");
    struct pod_summary sum = {.total = (int64_t)json_len(json_get(spec, "containers"))}, sidecars = {0};

    sum.status = pod_phase_text(status);
    JSON_EACH(json_get(spec, "initContainers"), container)
        sum.total += streq(json_get_string(container, "restartPolicy"), "Always");
    if (!summarize_init(spec, status, &sum, &sidecars, arena) || condition_is_true(status, "Initialized")) {
        sum.restarts = sidecars.restarts;
        sum.last_restart = sidecars.last_restart;
        summarize_containers(status, &sum, arena);
    }
    if (json_at(doc, "metadata.deletionTimestamp")) {
        if (streq(json_get_string(status, "reason"), "NodeLost"))
            sum.status = "Unknown";
        else if (!pod_phase_is_over(phase))
            sum.status = "Terminating";
    }
    return sum;
}

static void pod_ready(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    struct pod_summary sum = summarize_pod(doc, ctx->arena);

    buf_printf(out, "\"%lld/%lld\"", (long long)sum.ready, (long long)sum.total);
}

static void pod_status(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    cell_string(out, summarize_pod(doc, ctx->arena).status);
}

static void pod_restarts(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    struct pod_summary sum = summarize_pod(doc, ctx->arena);

    if (sum.restarts && sum.last_restart)
        buf_printf(out, "\"%lld (%c%s%c ago)\"", (long long)sum.restarts, TABLE_AGE_MARK, sum.last_restart,
                   TABLE_AGE_MARK);
    else
        buf_printf(out, "\"%lld\"", (long long)sum.restarts);
}

static void pod_ip(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    const char *ip = non_empty(json_at_string(doc, "status.podIPs.0.ip"));

    (void)ctx;
    cell_string(out, ip ? ip : non_empty(json_at_string(doc, "status.podIP")));
}

static void pod_readiness_gates(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    const struct json *gates = json_at(doc, "spec.readinessGates");
    int open = 0;

    (void)ctx;
    if (!json_len(gates)) {
        cell_string(out, NULL);
        return;
    }
    JSON_EACH(gates, gate)
        open += condition_is_true(json_get(doc, "status"), json_get_string(gate, "conditionType"));
    buf_printf(out, "\"%d/%zu\"", open, json_len(gates));
}

const struct column columns_pod[] = {
    NAME_COLUMN,
    {.name = "Ready",
     .type = "string",
     .cell = pod_ready,
     .doc = "Containers that are ready, of all containers."},
    {.name = "Status", .type = "string", .cell = pod_status, .doc = "What the pod is doing, in one word."},
    {.name = "Restarts",
     .type = "string",
     .cell = pod_restarts,
     .doc = "How often containers were restarted, and when last."},
    AGE_COLUMN,
    {.name = "IP", .type = "string", .priority = 1, .cell = pod_ip, .doc = "Address of the pod."},
    {.name = "Node",
     .type = "string",
     .priority = 1,
     .path = "spec.nodeName",
     .none = "<none>",
     .doc = "Node the pod is bound to."},
    {.name = "Nominated Node",
     .type = "string",
     .priority = 1,
     .path = "status.nominatedNodeName",
     .none = "<none>",
     .doc = "Node on which room is being made for the pod."},
    {.name = "Readiness Gates",
     .type = "string",
     .priority = 1,
     .cell = pod_readiness_gates,
     .doc = "Extra conditions that are met, of those the pod waits for."},
};

const char *pod_row_conditions(const struct json *doc)
{
    const char *phase = json_at_string(doc, "status.phase");

    if (streq(phase, "Succeeded"))
        return "[{\"type\":\"Completed\",\"status\":\"True\",\"reason\":\"Succeeded\","
               "\"message\":\"The pod has completed successfully.\"}]";
    if (streq(phase, "Failed"))
        return "[{\"type\":\"Completed\",\"status\":\"True\",\"reason\":\"Failed\","
               "\"message\":\"The pod failed.\"}]";
    return NULL;
}

/* ---- jobs ---- */

static void job_status(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    const struct json *status = json_get(doc, "status");
    const char *text = "Running";

    (void)ctx;
    if (condition_is_true(status, "Complete"))
        text = "Complete";
    else if (condition_is_true(status, "Failed"))
        text = "Failed";
    else if (json_at(doc, "metadata.deletionTimestamp"))
        text = "Terminating";
    else if (condition_is_true(status, "Suspended"))
        text = "Suspended";
    else if (condition_is_true(status, "FailureTarget"))
        text = "FailureTarget";
    cell_string(out, text);
}

static void job_completions(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    const struct json *completions = json_at(doc, "spec.completions");
    long long succeeded = json_int(json_at(doc, "status.succeeded"), 0);
    long long parallelism = json_int(json_at(doc, "spec.parallelism"), 0);

    (void)ctx;
    if (completions)
        buf_printf(out, "\"%lld/%lld\"", succeeded, (long long)json_int(completions, 0));
    else if (parallelism > 1)
        buf_printf(out, "\"%lld/1 of %lld\"", succeeded, parallelism);
    else
        buf_printf(out, "\"%lld/1\"", succeeded);
}

static void job_duration(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    const char *start = json_at_string(doc, "status.startTime");
    const char *end = json_at_string(doc, "status.completionTime");
    int64_t started, ended;
    char text[CLOCK_TEXT_MAX];

    (void)ctx;
    if (!start)
        cell_string(out, "");
    else if (end && clock_parse(str_from(start), &started) && clock_parse(str_from(end), &ended))
        cell_string(out, clock_age(ended - started, text));
    else
        cell_age(out, start);
}

void cell_containers(const struct json *containers, const char *key, struct buf *out)
{
    CLEANUP(buf_done) struct buf text = {0};

    JSON_EACH(containers, container) {
        if (container != containers->items->v)
            buf_putc(&text, ',');
        buf_puts(&text, json_string_or(json_get(container, key), ""));
    }
    json_write_string(out, buf_view(&text));
}

static void job_containers(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    (void)ctx;
    cell_containers(json_at(doc, "spec.template.spec.containers"), "name", out);
}

static void job_images(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    (void)ctx;
    cell_containers(json_at(doc, "spec.template.spec.containers"), "image", out);
}

/* One term of matchExpressions: "k in (a,b)", "k notin (a)", "k", "!k"; values sorted. */
static const char *expression_text(struct arena *arena, const struct json *expression)
{
    const char *key = json_string_or(json_get(expression, "key"), "");
    const char *op = json_string_or(json_get(expression, "operator"), "");
    struct json *values = json_new_object(arena);
    CLEANUP(buf_done) struct buf text = {0};

    if (!streq(op, "In") && !streq(op, "NotIn"))
        return streq(op, "DoesNotExist") ? arena_printf(arena, "!%s", key) : key;
    JSON_EACH(json_get(expression, "values"), value)
        json_set_bool(arena, values, json_string_or(value, ""), true);
    json_sort_members(values);
    JSON_EACH_MEMBER(values, value)
        buf_printf(&text, "%s%s", text.len ? "," : "", value->key);
    return arena_printf(arena, "%s %s (%s)", key, streq(op, "In") ? "in" : "notin",
                        text.data ? text.data : "");
}

/* All terms, in the order of their keys. */
static void job_selector(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    struct json *terms = json_new_object(ctx->arena);
    CLEANUP(buf_done) struct buf text = {0};
    int i = 0;

    JSON_EACH_MEMBER(json_at(doc, "spec.selector.matchLabels"), label)
        json_set_string(ctx->arena, terms, label->key,
                        arena_printf(ctx->arena, "%s=%s", label->key, json_string_or(&label->value, "")));
    JSON_EACH(json_at(doc, "spec.selector.matchExpressions"), expression)
        json_set_string(
            ctx->arena, terms,
            arena_printf(ctx->arena, "%s %03d", json_string_or(json_get(expression, "key"), ""), i++),
            expression_text(ctx->arena, expression));
    json_sort_members(terms);
    JSON_EACH_MEMBER(terms, term)
        buf_printf(&text, "%s%s", text.len ? "," : "", json_string(&term->value));
    cell_string(out, text.len ? text.data : NULL);
}

const struct column columns_job[] = {
    NAME_COLUMN,
    {.name = "Status", .type = "string", .cell = job_status, .doc = "How the job stands."},
    {.name = "Completions",
     .type = "string",
     .cell = job_completions,
     .doc = "Pods that succeeded, of those wanted."},
    {.name = "Duration",
     .type = "string",
     .cell = job_duration,
     .doc = "Time the job took or has taken so far."},
    AGE_COLUMN,
    {.name = "Containers",
     .type = "string",
     .priority = 1,
     .cell = job_containers,
     .doc = "Names of the template's containers."},
    {.name = "Images",
     .type = "string",
     .priority = 1,
     .cell = job_images,
     .doc = "Images of the template's containers."},
    {.name = "Selector",
     .type = "string",
     .priority = 1,
     .cell = job_selector,
     .doc = "Which pods are the job's."},
};

/* ---- training jobs, task templates, task definitions ---- */

static void training_progress(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    const struct json *max = json_at(doc, "spec.maxEpochs");
    long long done = json_int(json_at(doc, "status.epochsDone"), 0);

    (void)ctx;
    if (max)
        buf_printf(out, "\"%lld/%lld\"", done, (long long)json_int(max, 0));
    else
        buf_printf(out, "\"%lld\"", done);
}

/* A count, or the list of cards. */
static void training_gpus(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    const struct json *gpus = json_at(doc, "status.gpus");

    (void)ctx;
    if (json_is(gpus, JSON_ARRAY))
        buf_printf(out, "%zu", json_len(gpus));
    else
        buf_printf(out, "%lld", (long long)json_int(gpus, 0));
}

static void training_eta(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    const char *eta = json_at_string(doc, "status.eta");
    const char *phase = json_at_string(doc, "status.phase");

    (void)ctx;
    if (!eta || pod_phase_is_over(phase) || streq(phase, "Cancelled"))
        cell_string(out, "");
    else
        cell_until(out, eta);
}

static void training_position(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    const struct json *position = json_at(doc, "status.position");

    (void)ctx;
    if (json_is(position, JSON_INT))
        buf_printf(out, "\"%lld\"", (long long)json_int(position, 0));
    else
        cell_string(out, "");
}

static void training_user(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    (void)ctx;
    cell_string(out, work_user(doc));
}

const struct column columns_training_job[] = {
    NAME_COLUMN,
    {.name = "State", .type = "string", .path = "status.phase", .doc = "How the job stands."},
    {.name = "Progress", .type = "string", .cell = training_progress, .doc = "Epochs done, of all epochs."},
    {.name = "GPUs", .type = "integer", .cell = training_gpus, .doc = "Cards the job runs on now."},
    {.name = "ETA", .type = "string", .cell = training_eta, .doc = "Estimated time until the job is done."},
    AGE_COLUMN,
    {.name = "Position",
     .type = "string",
     .priority = 1,
     .cell = training_position,
     .doc = "Place in the queue while it waits."},
    {.name = "User", .type = "string", .priority = 1, .cell = training_user, .doc = "Who submitted the job."},
    {.name = "Reason",
     .type = "string",
     .priority = 1,
     .path = "status.reason",
     .doc = "Why the job is where it is, in one sentence."},
};

const struct column columns_task_template[] = {
    NAME_COLUMN,
    {.name = "Description", .type = "string", .path = "spec.description", .doc = "What the template is for."},
    AGE_COLUMN,
};

static void task_progress(const struct json *doc, struct column_ctx *ctx, struct buf *out)
{
    const struct json *progress = json_at(doc, "status.progress");
    double share = json_is(progress, JSON_REAL) ? progress->real : (double)json_int(progress, 0);

    (void)ctx;
    buf_printf(out, "\"%d%%\"", (int)(share * 100));
}

const struct column columns_task[] = {
    NAME_COLUMN,
    {.name = "TaskDef", .type = "string", .path = "spec.taskDef", .doc = "Task definition it came from."},
    {.name = "State", .type = "string", .path = "status.phase", .doc = "How the task stands."},
    {.name = "Progress", .type = "string", .cell = task_progress, .doc = "Share that is done."},
    {.name = "Creator", .type = "string", .path = "spec.creator", .doc = "Who it is for."},
    AGE_COLUMN,
    {.name = "Reason",
     .type = "string",
     .priority = 1,
     .path = "status.reason",
     .doc = "Why the task is where it is, in one sentence."},
};

const struct column columns_task_definition[] = {
    NAME_COLUMN,
    {.name = "Template", .type = "string", .path = "spec.taskTemplateName", .doc = "Task template it fills."},
    {.name = "Creator", .type = "string", .path = "spec.creator", .doc = "Who wrote it."},
    {.name = "Application",
     .type = "string",
     .path = "spec.application",
     .doc = "Application its jobs belong to."},
    AGE_COLUMN,
};
