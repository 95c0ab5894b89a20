/* /v1/jobs: tasks are started, listed, shown, read, repeated and deleted. */
#include "api/rest/tasks.h"

#include "api/idempotency.h"
#include "api/kube/stream.h"
#include "base/vec.h"
#include "base/yaml.h"
#include "objects/names.h"
#include "tasks/values.h"

#define LIST_LIMIT     500
#define LIST_LIMIT_MAX 5000

const char *rest_task_ns(struct call *call)
{
    const char *ns = query_string(call, "namespace");

    if (*ns)
        return ns;
    return access_is_admin(&call->who) ? "default" : call->who.user;
}

bool rest_task_may(struct call *call, const char *verb, int kind, const char *subresource, const char *ns,
                   const char *name)
{
    struct access access = {.verb = verb,
                            .kind = kind_by_id(kind),
                            .subresource = subresource,
                            .ns = ns,
                            .name = name,
                            .path = ""};

    return access_check(call->registry, &call->who, &access, call->arena, &call->failure) == 0;
}

struct write rest_task_write(struct call *call)
{
    return (struct write){
        .who = &call->who,
        .manager = "berth-tasks",
        .dry_run = query_bool(call, "dryRun"),
        .now = call->now,
        .arena = call->arena,
        .failure = &call->failure,
        .warnings = call->warnings,
    };
}

/* ---- finding ---- */

/* What a caller may not see is not there. */
static bool visible(struct call *call, const struct object *task)
{
    struct failure kept = call->failure;
    bool may = rest_task_may(call, "get", KIND_TASK, "", task->ns, task->name);

    call->failure = kept;
    return may;
}

static const struct object *find_name(struct call *call, const char *id)
{
    const char *slash = strchr(id, '/'), *ns = query_string(call, "namespace");
    const struct object *found;

    if (slash)
        return store_get(call->store, KIND_TASK, arena_strndup(call->arena, id, (size_t)(slash - id)),
                         slash + 1);
    if (*ns)
        return store_get(call->store, KIND_TASK, ns, id);
    found = store_get(call->store, KIND_TASK, rest_task_ns(call), id);
    if (found)
        return found;
    OBJECTS_EACH(store_list(call->store, KIND_TASK, NULL), it)
        if (streq((*it)->name, id) && visible(call, *it))
            return *it;
    found = store_by_uid(call->store, id);
    return found && found->kind->id == KIND_TASK ? found : NULL;
}

static const struct object *find_task(struct call *call, const char *id)
{
    const struct object *found = find_name(call, id);

    if (found && visible(call, found))
        return found;
    failure_set(&call->failure, call->arena, 404, "NotFound", "there is no task \"%s\"", id);
    return NULL;
}

/* ---- starting ---- */

static void reply_made(struct call *call, const struct tasks_made *made, bool dry_run)
{
    struct json *doc = json_new_object(call->arena);
    const char *accept = http_req_header(call->req, "Accept");
    struct buf text = {0};

    if (dry_run && accept && starts_with(accept, "application/yaml")) {
        buf_str(&text, made->shown);
        call_reply(call, 200, "application/yaml", &text);
        return;
    }
    if (dry_run) {
        json_set_string(call->arena, doc, "task_id", made->release);
        json_set_bool(call->arena, doc, "dryRun", true);
        json_set(call->arena, doc, "yaml", json_of_str(call->arena, made->shown));
        rest_queue_estimate(call, made->yaml, rest_task_ns(call), doc);
        if (made->shown.s != made->yaml.s) /* it tells the image */
            json_remove(doc, "job");
    } else {
        doc = tasks_show(call->api->config.tasks, made->task, false, call->arena);
    }
    json_set(call->arena, doc, "objects", *made->objects);
    rest_reply(call, dry_run ? 200 : 201, doc);
}

struct submitting {
    struct call *call;
    bool dry_run;
};

static void rest_on_submitted(void *arg, int result, const struct tasks_made *made)
{
    const struct submitting *submitting = arg;

    if (result < 0) {
        rest_fail(submitting->call);
        return;
    }
    if (!submitting->dry_run)
        idempotency_made(submitting->call, made->task->uid);
    reply_made(submitting->call, made, submitting->dry_run);
}

/* What an earlier request with the same key has made. */
static void reply_again(struct call *call, const char *uid)
{
    const struct object *task = store_by_uid(call->store, uid);
    struct json *doc, *full;

    if (!task || task->kind->id != KIND_TASK) {
        failure_set(&call->failure, call->arena, 410, "Gone",
                    "the task that this Idempotency-Key made was deleted");
        rest_fail(call);
        return;
    }
    doc = tasks_show(call->api->config.tasks, task, false, call->arena);
    full = tasks_show(call->api->config.tasks, task, true, call->arena);
    if (json_get(full, "objects"))
        json_set(call->arena, doc, "objects", *json_get(full, "objects"));
    call->replayed = true;
    rest_reply(call, 201, doc);
}

static void submit(struct call *call, const char *ns, struct json *values, const struct object *again)
{
    struct identity *owner = arena_zalloc(call->arena, sizeof(*owner)); /* the answer comes later */
    struct tasks_request request = {
        .who = &call->who,
        .by = &call->who,
        .ns = arena_strdup(call->arena, ns),
        .values = values,
        .rerun_of = again ? arena_strdup(call->arena, again->name) : NULL,
        .rerun_uid = again ? arena_strdup(call->arena, again->uid) : NULL,
        .dry_run = query_bool(call, "dryRun"),
        .now = call->now,
        .arena = call->arena,
        .failure = &call->failure,
        .warnings = call->warnings,
    };
    struct submitting *submitting = arena_alloc(call->arena, sizeof(*submitting));
    const char *made = NULL;
    int begun = idempotency_begin(call, &made);

    if (begun < 0)
        rest_fail(call);
    if (begun > 0)
        reply_again(call, made);
    if (begun != 0)
        return;
    if (again)
        request.who = identity_again(&call->who, work_rights(object_json(again, call->arena)), owner);
    if (!request.who) {
        failure_set(&call->failure, call->arena, 409, "Conflict",
                    "nothing says whose task \"%s\" is: it cannot be run again", again->name);
        rest_fail(call);
        return;
    }
    *submitting = (struct submitting){call, request.dry_run};
    tasks_submit(call->api->config.tasks, &request, rest_on_submitted, submitting);
}

void rest_jobs_add(struct call *call, const char *id)
{
    const char *ns = rest_task_ns(call);
    struct json *values;

    (void)id;
    if (!rest_task_may(call, "create", KIND_JOB, "", ns, "") || rest_body(call, &values) < 0)
        rest_fail(call);
    else
        submit(call, ns, values, NULL);
}

void rest_jobs_rerun(struct call *call, const char *id)
{
    const struct object *task = find_task(call, id);
    struct json *changes = json_new_object(call->arena), *doc;

    if (!task || !rest_task_may(call, "create", KIND_JOB, "", task->ns, "") ||
        !rest_task_may(call, "delete", KIND_TASK, "", task->ns, task->name) || /* one's own, or an admin */
        (call->req->body.len && rest_body(call, &changes) < 0)) {
        rest_fail(call);
        return;
    }
    doc = json_at(object_json(task, call->arena), "spec.values");
    submit(call, task->ns, values_merge(call->arena, doc, changes), task);
}

/* ---- showing ---- */

void rest_jobs_show(struct call *call, const char *id)
{
    const struct object *task = find_task(call, id);

    if (!task)
        rest_fail(call);
    else
        rest_reply(call, 200, tasks_show(call->api->config.tasks, task, true, call->arena));
}

static const char *const filters[][2] = {{"creator", "creator"},  {"application", "application"},
                                         {"taskDef", "task_def"}, {"task_def", "task_def"},
                                         {"status", "status"},    {"user", "user"}};

/* "a,b" is one or the other. */
static bool listed(struct str choices, const char *value)
{
    struct str choice;

    while (str_split(&choices, ',', &choice))
        if (str_is(choice, value))
            return true;
    return false;
}

static bool wanted(const struct call *call, const struct json *shown)
{
    for (size_t i = 0; i < ARRAY_LEN(filters); i++) {
        const char *choice = query_string(call, filters[i][0]);

        if (*choice && !listed(str_from(choice), json_string_or(json_get(shown, filters[i][1]), "")))
            return false;
    }
    return true;
}

static int newest_first(const void *a, const void *b)
{
    const struct json *left = *(struct json *const *)a, *right = *(struct json *const *)b;
    int order = strcmp(json_string_or(json_get(right, "submitted"), ""),
                       json_string_or(json_get(left, "submitted"), ""));

    return order ? order
                 : strcmp(json_string_or(json_get(left, "task_id"), ""),
                          json_string_or(json_get(right, "task_id"), ""));
}

static int list_limit(struct call *call, int64_t *ret)
{
    const char *text = query_string(call, "limit");

    *ret = LIST_LIMIT;
    if (*text && (!str_to_int(str_from(text), ret) || *ret < 1 || *ret > LIST_LIMIT_MAX))
        return failure_bad_request(&call->failure, call->arena, "limit not in 1..%d", LIST_LIMIT_MAX);
    return 0;
}

void rest_jobs_list(struct call *call, const char *id)
{
    struct json *doc = json_new_object(call->arena), *jobs = json_new_array(call->arena);
    const char *ns = query_string(call, "namespace"), *after = query_string(call, "after"), *next = NULL;
    VEC(struct json *) found = {0};
    struct store_slice slice;
    int64_t limit;
    bool past = !*after;

    (void)id;
    if (list_limit(call, &limit) < 0) {
        rest_fail(call);
        return;
    }
    slice = call_list(call, KIND_TASK, *ns ? ns : NULL);
    OBJECTS_EACH(slice, it) {
        struct json *shown;

        if (!visible(call, *it))
            continue;
        shown = tasks_show(call->api->config.tasks, *it, false, call->arena);
        if (wanted(call, shown))
            vec_push(&found, shown);
    }
    if (found.len)
        qsort(found.v, found.len, sizeof(*found.v), newest_first);
    VEC_EACH(&found, it) {
        if (!past) {
            past = streq(json_get_string(*it, "task_id"), after);
        } else if ((int64_t)json_len(jobs) < limit) {
            json_push(call->arena, jobs, **it);
        } else {
            next = json_get_string(json_item(jobs, json_len(jobs) - 1), "task_id");
            break;
        }
    }
    vec_done(&found);
    json_set(call->arena, doc, "jobs", *jobs);
    json_set(call->arena, doc, "next", *json_new_string(call->arena, next));
    rest_reply(call, 200, doc);
}

/* ---- logs ---- */

struct newest {
    struct call *call;
    const struct object *pod;
    struct str created;
};

static void see_pod(void *arg, const struct object *object)
{
    struct newest *newest = arg;
    struct str created;

    if (object->kind->id == KIND_JOB || object->kind->id == KIND_TRAINING_JOB) {
        store_parts(newest->call->store, object, see_pod, newest);
        return;
    }
    if (object->kind->id != KIND_POD)
        return;
    created = json_str(json_at(object_json(object, newest->call->arena), "metadata.creationTimestamp"));
    if (!newest->pod || str_cmp(created, newest->created) > 0) {
        newest->pod = object;
        newest->created = created;
    }
}

static int check_numbers(struct call *call)
{
    static const char *const names[] = {"tail", "tailLines", "limitBytes", "sinceSeconds"};
    int64_t n;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const char *text = query_string(call, names[i]);

        if (*text && (!str_to_int(str_from(text), &n) || n < 0))
            return failure_bad_request(&call->failure, call->arena, "%s: '%s' is no number from 0 up",
                                       names[i], text);
    }
    return 0;
}

void rest_jobs_logs(struct call *call, const char *id)
{
    const struct object *task = find_task(call, id);
    struct newest newest = {.call = call};
    const char *container = query_string(call, "container");

    if (!task || check_numbers(call) < 0) {
        rest_fail(call);
        return;
    }
    store_parts(call->store, task, see_pod, &newest);
    if (!newest.pod) {
        failure_set(&call->failure, call->arena, 409, "Conflict", "task \"%s\" has no pod (yet): %s",
                    task->name,
                    json_string_or(json_at(object_json(task, call->arena), "status.reason"), "it waits"));
        rest_fail(call);
        return;
    }
    if (!rest_task_may(call, "get", KIND_POD, "log", newest.pod->ns, newest.pod->name)) {
        rest_fail(call);
        return;
    }
    if (!*container)
        container = json_at_string(object_json(newest.pod, call->arena), "spec.containers.0.name");
    if (!call->api->config.pod_ops) {
        failure_set(&call->failure, call->arena, 503, "ServiceUnavailable", "no node agent runs here");
        rest_fail(call);
        return;
    }
    log_begin(call, newest.pod, container);
}

/* ---- deleting ---- */

void rest_jobs_delete(struct call *call, const char *id)
{
    const struct object *task = find_task(call, id);
    struct write write = rest_task_write(call);
    struct delete_options options = {.propagation = PROPAGATE_BACKGROUND};
    struct json *doc = json_new_object(call->arena);
    struct written written;

    if (!task || !rest_task_may(call, "delete", KIND_TASK, "", task->ns, task->name)) {
        rest_fail(call);
        return;
    }
    json_set_string(call->arena, doc, "task_id", task->name);
    json_set_string(call->arena, doc, "namespace", task->ns);
    json_set_string(call->arena, doc, "status", "deleted");
    if (registry_delete(call->registry, &write, task->kind, task->ns, arena_strdup(call->arena, task->name),
                        &options, &written) < 0)
        rest_fail(call);
    else
        rest_reply(call, 200, doc);
}
