/* POST /v1/train and the older POST /submit: options become a TrainingJob in the submitter's namespace. */
#include "api/auth.h"
#include "api/idempotency.h"
#include "api/rest/rest.h"
#include "api/train/internal.h"
#include "api/users.h"
#include "objects/names.h"
#include "objects/train_options.h"
#include "queue/queue.h"

#define NAMES_MAX       1000 /* jobs of one name */
#define NAME_ANNOTATION "berth.dev/job-name"

/* A user's own namespace is made when it is first needed, as `berth user add` makes it. Somebody who only
 * tries something gets none. */
static int need_namespace(struct call *call, const char *ns, bool dry_run)
{
    if (!streq(ns, call->who.user) || store_get(call->store, KIND_NAMESPACE, "", ns))
        return 0;
    return dry_run ? 0 : user_provision(call, ns);
}

/* "net", or "net-2" where there is a net already: people give one name to many attempts. */
static int free_name(struct call *call, const char *ns, const char *text, const char **ret)
{
    const char *base = train_object_name(call->arena, text);

    if (!*base)
        return failure_bad_request(&call->failure, call->arena,
                                   "job_name must have a letter or a digit in it: it names the job");
    for (int i = 1; i < NAMES_MAX; i++) {
        *ret = i == 1 ? base : arena_printf(call->arena, "%s-%d", base, i);
        if (!store_get(call->store, KIND_TRAINING_JOB, ns, *ret))
            return 0;
    }
    return failure_set(&call->failure, call->arena, 409, "AlreadyExists",
                       "there are %d jobs called '%s': delete old ones or take another name", NAMES_MAX,
                       base);
}

static struct json *make_doc(struct call *call, const struct train_request *request, const char *ns,
                             const char *name)
{
    struct json *doc = json_new_object(call->arena), *meta;

    json_set_string(call->arena, doc, "apiVersion", "berth.dev/v1");
    json_set_string(call->arena, doc, "kind", "TrainingJob");
    meta = json_set_object(call->arena, doc, "metadata");
    json_set_string(call->arena, meta, "name", name);
    json_set_string(call->arena, meta, "namespace", ns);
    if (request->labels)
        json_set(call->arena, meta, "labels", *request->labels);
    if (starts_with(call->who.user, "system:") && access_is_admin(&call->who) &&
        !json_get(json_get(meta, "labels"), "user"))
        json_set_string(call->arena, json_need_object(call->arena, meta, "labels"), USER_LABEL, ADMIN_USER);
    if (!streq(request->name, name))
        json_set_string(call->arena, json_set_object(call->arena, meta, "annotations"), NAME_ANNOTATION,
                        request->name);
    json_set(call->arena, doc, "spec", *request->spec);
    return doc;
}

/* ---- answers ---- */

/* What the job was given, for the end of the request. */
struct submitted {
    struct train *train;
    const char *uid, *ns, *name;
    bool older;
};

static void answer_job(struct call *call, const struct err *failed)
{
    const struct submitted *s = call->req->user;
    struct json *job = NULL;
    struct err err = {0};

    if (failed) {
        rest_fail_err(call, failed);
        return;
    }
    if (s->train->config.queue)
        queue_see(s->train->config.queue, s->uid);
    if (!s->train->config.queue ||
        queue_job(s->train->config.queue, &call->who, s->uid, NULL, call->arena, &job, &err) < 0) {
        job = json_new_object(call->arena);
        json_set_string(call->arena, job, "id", s->uid);
        json_set_string(call->arena, job, "kind", "TrainingJob");
        json_set_string(call->arena, job, "namespace", s->ns);
        json_set_string(call->arena, job, "name", s->name);
        json_set_string(call->arena, job, "state", "Pending");
    }
    if (s->older)
        json_set_string(call->arena, job, "jobid", s->uid);
    call_reply_json(call, 201, job);
}

/* What an earlier request with the same key has made. */
static int answer_again(struct train *train, struct call *call, const char *uid, bool older)
{
    const struct object *job = store_by_uid(call->store, uid);
    struct submitted *s = arena_zalloc(call->arena, sizeof(*s));

    if (!job || job->kind->id != KIND_TRAINING_JOB)
        return failure_set(&call->failure, call->arena, 410, "Gone",
                           "the training job that this Idempotency-Key made was deleted");
    *s = (struct submitted){train, uid, arena_strdup(call->arena, job->ns),
                            arena_strdup(call->arena, job->name), older};
    call->replayed = true;
    call->req->user = s;
    call_when_durable(call, answer_job);
    return 0;
}

static int answer_dry_run(struct train *train, struct call *call, const struct object *object)
{
    struct json *doc = json_copy(call->arena, object_json(object, call->arena)), *answer = NULL;
    CLEANUP(buf_done) struct buf yaml = {0};
    struct err err = {0};

    if (!train->config.queue)
        return failure_set(&call->failure, call->arena, 503, "ServiceUnavailable",
                           "there is no queue on this server");
    if (queue_dry_run(train->config.queue, &call->who, doc, call->arena, &answer, &err) < 0)
        return failure_from_err(&call->failure, call->arena, &err);
    json_remove(json_get(doc, "metadata"), "managedFields");
    json_remove(json_get(doc, "metadata"), "uid");
    json_remove(json_get(doc, "metadata"), "creationTimestamp");
    json_remove(json_get(doc, "metadata"), "generation");
    json_remove(json_get(doc, "metadata"), "resourceVersion");
    json_remove(doc, "status");
    json_set(call->arena, answer, "manifest", *json_copy(call->arena, doc));
    call_write_yaml(&yaml, doc);
    json_set(call->arena, answer, "yaml", json_of_str(call->arena, buf_view(&yaml)));
    call_reply_json(call, 200, answer);
    return 0;
}

/* ---- the way ---- */

/* The caller of /submit says whose job it is; only an admin may say somebody else. */
static int take_username(struct call *call, const struct train_request *request)
{
    if (!request->username || !*request->username || streq(request->username, call->who.user))
        return 0;
    if (!access_is_admin(&call->who))
        return failure_set(&call->failure, call->arena, 403, "Forbidden",
                           "username is '%s', but you are '%s': leave it out", request->username,
                           call->who.user);
    return auth_as(call, request->username);
}

/* 1: the call goes on later. */
static int submit(struct train *train, struct call *call, bool older)
{
    const struct kind *kind = kind_by_id(KIND_TRAINING_JOB);
    struct train_request request;
    CLEANUP(written_done) struct written written = {0};
    struct write write = {.who = &call->who,
                          .manager = "berth",
                          .dry_run = query_bool(call, "dryRun"),
                          .space_to_come = true,
                          .now = call->now,
                          .arena = call->arena,
                          .warnings = call->warnings,
                          .failure = &call->failure};
    struct access access = {.verb = "create", .kind = kind, .subresource = "", .name = ""};
    struct submitted *s = arena_zalloc(call->arena, sizeof(*s));
    struct err err = {0};
    struct json *body;
    const char *ns, *name, *made = NULL;
    int taken;

    if (rest_body(call, &body) < 0)
        return -1;
    if (train_request_read(call->arena, body, &request, &err) < 0)
        return failure_from_err(&call->failure, call->arena, &err);
    taken = take_username(call, &request);
    if (taken != 0)
        return taken;
    ns = request.ns && *request.ns ? request.ns : access_is_admin(&call->who) ? "default" : call->who.user;
    access.ns = ns;
    taken = idempotency_begin(call, &made);
    if (taken < 0)
        return -1;
    if (taken > 0)
        return answer_again(train, call, made, older);
    if (access_check(call->registry, &call->who, &access, call->arena, &call->failure) < 0 ||
        need_namespace(call, ns, write.dry_run) < 0 || free_name(call, ns, request.name, &name) < 0 ||
        registry_create(call->registry, &write, kind, ns, make_doc(call, &request, ns, name), &written) < 0)
        return -1;
    if (write.dry_run)
        return answer_dry_run(train, call, written.object);
    *s = (struct submitted){train, arena_strdup(call->arena, written.object->uid), ns, name, older};
    idempotency_made(call, s->uid);
    call->req->user = s;
    call_when_durable(call, answer_job);
    return 0;
}

void train_submit(struct train *train, struct call *call, bool older)
{
    if (!access_is_known(&call->who))
        failure_set(&call->failure, call->arena, 401, "Unauthorized",
                    "who submits is not known: use the socket, a token or a client certificate");
    else if (!streq(call->req->method, "POST"))
        failure_set(&call->failure, call->arena, 405, "MethodNotAllowed", "%s cannot be done at %s",
                    call->req->method, call->req->path);
    else if (submit(train, call, older) >= 0)
        return;
    rest_fail(call);
}

bool train_rest(void *arg, struct call *call)
{
    bool older = streq(call->req->path, "/submit");

    if (!older && !streq(call->req->path, "/v1/train"))
        return false;
    train_submit(arg, call, older);
    return true;
}
