/* Reads and actions of the queue, and the two addresses of the old queue page. What may be seen and done is
 * judged by the queue itself; here paths and bodies become calls and errors become statuses. */
#include "queue/queue.h"

#include "api/rest/past.h"
#include "api/share.h"
#include "base/yaml.h"

#define STATES_MAX 16
#define UNSENT_MAX (1 << 20) /* bytes of a list that the client has not read: the rest waits */

static struct queue *need_queue(struct call *call)
{
    struct queue *queue = call->api->config.queue;

    if (!queue) {
        failure_set(&call->failure, call->arena, 503, "ServiceUnavailable", "this server has no queue");
        rest_fail(call); /* the call has gone after it */
    }
    return queue;
}

/* ERR_INVALID of the queue is about what was asked for, not about its form. */
static void fail(struct call *call, const struct err *err)
{
    failure_from_err(&call->failure, call->arena, err);
    if (err->code == ERR_INVALID)
        call->failure.code = 422;
    rest_fail(call);
}

/* What is to be done with a job, once it is known which one an address means. */
struct meant {
    struct queue_reader reader;
    struct call *call;
    struct queue_past *read;
    const char *id, *uid; /* uid: in memory; NULL: it is not */
    rest_job_fn fn;
};

static void meant_on_gone(struct http_req *req)
{
    struct meant *meant = req->user;

    queue_past_cancel(TAKE_PTR(meant->read));
    http_abandon(req);
}

static void meant_on_recalled(void *arg, struct queue_answer *answer, const struct err *err)
{
    struct meant *meant = arg;
    struct call *call = meant->call;
    const char *uid = answer->uid ? arena_strdup(call->arena, answer->uid) : meant->uid;
    struct err none = {0};

    call->req->gone = NULL;
    if (err) {
        rest_past_fail(call, err);
    } else if (!uid) {
        err_set(&none, ERR_NOT_FOUND, "there is no job '%s'", meant->id);
        fail(call, &none);
    } else {
        meant->fn(call, meant->id, uid, answer->row ? json_copy(call->arena, answer->row) : NULL);
    }
}

void rest_queue_with(struct call *call, const char *id, rest_job_fn fn)
{
    struct queue *queue = need_queue(call);
    struct queue_past *read = NULL;
    const char *uid = NULL;
    struct err err = {0};
    struct meant *meant;

    if (!queue)
        return;
    if (queue_find(queue, id, call->who.user, call->arena, &uid, &err) < 0 && err.code != ERR_NOT_FOUND) {
        fail(call, &err);
        return;
    }
    if (uid && !queue_is_past(queue, uid)) {
        fn(call, id, uid, NULL);
        return;
    }
    meant = arena_zalloc(call->arena, sizeof(*meant));
    *meant = (struct meant){.call = call, .id = id, .uid = uid, .fn = fn};
    meant->reader = (struct queue_reader){share_person(call), meant_on_recalled, meant};
    call->req->user = meant;
    call->req->gone = meant_on_gone;
    if (queue_recall(queue, &call->who, uid ? uid : id, &meant->reader, &read, &err) < 0) {
        call->req->gone = NULL;
        rest_past_fail(call, &err);
    } else if (read) {
        meant->read = read;
    }
}

/* "Running,Pending" as a NULL-terminated list in the arena; NULL: all. */
int rest_states(struct call *call, const char *const **ret)
{
    struct str rest = str_from(query_string(call, "state")), part;
    const char **list = arena_zalloc(call->arena, (STATES_MAX + 1) * sizeof(*list)), *fault;
    size_t count = 0;

    while (rest.len && count < STATES_MAX && str_split(&rest, ',', &part))
        if (part.len)
            list[count++] = arena_strndup(call->arena, part.s, part.len);
    fault = queue_states_fault(list, call->arena);
    if (fault)
        return failure_set(&call->failure, call->arena, 422, "Invalid", "%s", fault);
    *ret = count ? list : NULL;
    return 0;
}

/* A list of more than one piece, in the call's arena. Each piece is sent before the next is made, one a turn:
 * others have theirs in between, and the client reads meanwhile. */
struct listing_reply {
    struct call *call;
    struct queue_listing *listing; /* NULL: the client has left before it began */
    struct buf first;
    struct loop_timer *rest;
};

static void listing_done(struct listing_reply *reply)
{
    queue_listing_free(TAKE_PTR(reply->listing));
    loop_timer_free(TAKE_PTR(reply->rest));
    buf_done(&reply->first);
}

static void listing_gone(struct http_req *req)
{
    struct listing_reply *reply = req->user;
    bool begun = reply->rest;

    listing_done(reply);
    if (begun)
        http_abandon(req);
}

static void listing_go_on(void *arg);

static void listing_drained(struct http_req *req)
{
    listing_go_on(req->user);
}

static void listing_go_on(void *arg)
{
    struct listing_reply *reply = arg;
    struct http_req *req = reply->call->req;
    CLEANUP(buf_done) struct buf piece = reply->first;
    bool more = reply->first.len || queue_listing_next(reply->listing, &piece);

    reply->first = (struct buf){0};
    if (!more)
        buf_putc(&piece, '\n');
    http_stream_write(req, buf_view(&piece));
    if (!more) {
        listing_done(reply);
        http_stream_end(req);
    } else if (http_stream_unsent(req) > UNSENT_MAX) {
        http_stream_on_drain(req, listing_drained);
    } else {
        loop_timer_set(reply->rest, 0);
    }
}

static void listing_begin(struct call *call, const struct err *failed)
{
    static const struct http_header headers[] = {{"Cache-Control", "no-store"}};
    struct listing_reply *reply = call->req->user;

    if (!reply->listing) {
        http_abandon(call->req);
    } else if (failed) {
        listing_done(reply);
        rest_fail_err(call, failed);
    } else {
        reply->rest = loop_timer_new(call->api->config.loop, listing_go_on, reply);
        http_stream_begin(call->req, 200, "application/json", headers, ARRAY_LEN(headers));
        listing_go_on(reply);
    }
}

void rest_queue_list(struct call *call, const char *id)
{
    const char *user = query_string(call, "user");
    struct queue_filter filter = {.user = *user ? user : NULL};
    struct queue *queue = need_queue(call);
    struct listing_reply *reply;

    (void)id;
    if (!queue)
        return;
    if (rest_states(call, &filter.states) < 0) {
        rest_fail(call);
        return;
    }
    reply = arena_zalloc(call->arena, sizeof(*reply));
    reply->call = call;
    reply->listing = queue_listing_new(queue, &call->who, &filter);
    call_mark(call, queue_mark(queue));
    if (queue_listing_next(reply->listing, &reply->first)) {
        call->req->user = reply;
        call->req->gone = listing_gone;
        call_when_durable(call, listing_begin);
        return;
    }
    queue_listing_free(reply->listing);
    buf_putc(&reply->first, '\n');
    call->no_store = true;
    call_reply(call, 200, "application/json", &reply->first);
}

void rest_queue_show(struct call *call, const char *id)
{
    struct queue *queue = need_queue(call);
    struct queue_past *read = NULL;
    struct err err = {0};
    int result;

    if (!queue)
        return;
    result =
        queue_show(queue, &call->who, id, call->who.user, rest_past_new(call, rest_past_reply), &read, &err);
    rest_past_begun(call, result, read, &err);
}

static void why(struct call *call, const char *id, const char *uid, const struct json *last)
{
    struct queue *queue = call->api->config.queue;
    struct err err = {0};
    struct json *doc;
    int result = queue_why(queue, &call->who, uid, last, call->arena, &doc, &err);

    (void)id;
    call_mark(call, queue_mark(queue));
    if (result < 0)
        fail(call, &err);
    else
        rest_reply(call, 200, doc);
}

void rest_queue_why(struct call *call, const char *id)
{
    rest_queue_with(call, id, why);
}

/* The job after an action. One that has gone with it is told by its id. */
static void reply_job(struct call *call, int status, const char *uid, const struct json *last)
{
    struct err err = {0};
    struct json *doc;

    if (queue_job(call->api->config.queue, &call->who, uid, last, call->arena, &doc, &err) < 0) {
        doc = json_new_object(call->arena);
        json_set_string(call->arena, doc, "id", uid);
    }
    rest_reply(call, status, doc);
}

static void act(struct call *call, const char *uid, const struct json *last,
                int (*fn)(struct queue *queue, const struct identity *who, const char *uid, struct err *err))
{
    struct err err = {0};

    if (fn(call->api->config.queue, &call->who, uid, &err) < 0)
        fail(call, &err);
    else
        reply_job(call, 200, uid, last);
}

static void cancel(struct call *call, const char *id, const char *uid, const struct json *last)
{
    (void)id;
    act(call, uid, last, queue_cancel);
}

/* The job after it, with what the claim does. */
static void claim(struct call *call, const char *id, const char *uid, const struct json *last)
{
    struct queue *queue = call->api->config.queue;
    struct err err = {0};
    const char *said;
    struct json *doc;

    (void)id, (void)last;
    if (queue_claim(queue, &call->who, uid, call->arena, &said, &err) < 0 ||
        queue_job(queue, &call->who, uid, NULL, call->arena, &doc, &err) < 0) {
        fail(call, &err);
        return;
    }
    json_set_string(call->arena, doc, "claim", said);
    rest_reply(call, 200, doc);
}

void rest_queue_cancel(struct call *call, const char *id)
{
    rest_queue_with(call, id, cancel);
}

void rest_queue_claim(struct call *call, const char *id)
{
    rest_queue_with(call, id, claim);
}

static void set_priority(struct call *call, const char *id, const char *uid, const struct json *last)
{
    struct err err = {0};
    struct json *doc, *value;

    (void)id;
    if (queue_check_change(call->api->config.queue, &call->who, uid, &err) < 0) {
        fail(call, &err);
        return;
    }
    if (rest_body(call, &doc) < 0) {
        rest_fail(call);
        return;
    }
    value = json_get(doc, "priority");
    if (queue_set_priority(call->api->config.queue, &call->who, uid,
                           json_is(value, JSON_INT) ? value->integer : INT64_MAX, &err) < 0)
        fail(call, &err);
    else
        reply_job(call, 200, uid, last);
}

void rest_queue_priority(struct call *call, const char *id)
{
    rest_queue_with(call, id, set_priority);
}

static void rerun(struct call *call, const char *id, const char *uid, const struct json *last)
{
    struct err err = {0};
    const char *made;

    (void)id;
    (void)last;
    if (queue_rerun(call->api->config.queue, &call->who, uid, call->arena, &made, &err) < 0)
        fail(call, &err);
    else
        reply_job(call, 201, made, NULL);
}

void rest_queue_rerun(struct call *call, const char *id)
{
    rest_queue_with(call, id, rerun);
}

/* ---- where rendered objects would stand ---- */

/* A Job's pod; others stand for themselves. */
static struct json *queued_doc(struct call *call, struct json *doc, const char *ns)
{
    const char *kind = json_string_or(json_get(doc, "kind"), "");
    struct json *pod, *meta;

    if (streq(kind, "Job")) {
        pod = json_copy(call->arena, json_at(doc, "spec.template"));
        if (!json_is(pod, JSON_OBJECT))
            return NULL;
        json_set_string(call->arena, pod, "kind", "Pod");
    } else if (streq(kind, "Pod") || streq(kind, "TrainingJob")) {
        pod = doc;
    } else {
        return NULL;
    }
    meta = json_need_object(call->arena, pod, "metadata");
    if (meta)
        json_set_string(call->arena, meta, "namespace", ns);
    return meta ? pod : NULL;
}

void rest_queue_estimate(struct call *call, struct str yaml, const char *ns, struct json *answer)
{
    struct queue *queue = call->api->config.queue;
    struct json *docs = NULL, *found;
    struct err err = {0};

    if (!queue || yaml_parse(yaml, call->arena, &docs, NULL, &err) < 0)
        return;
    JSON_EACH(docs, doc) {
        struct json *queued = queued_doc(call, doc, ns);

        if (!queued || queue_dry_run(queue, &call->who, queued, call->arena, &found, &err) < 0)
            continue;
        JSON_EACH_MEMBER(found, it)
            json_set(call->arena, answer, it->key, it->value);
        return;
    }
}

/* ---- the old queue page ---- */

static void copy_as(struct call *call, struct json *to, const char *key, const struct json *from,
                    const char *member)
{
    const struct json *value = json_get(from, member);

    json_set(call->arena, to, key, value ? *value : *json_new_null(call->arena));
}

void rest_old_state(struct call *call, const char *id)
{
    static const struct {
        const char *key, *member;
    } members[] = {
        {"name", "name"},
        {"user", "user"},
        {"status", "state"},
        {"date_created", "submitted"},
        {"date_started", "started"},
        {"num_gpu", "gpus"},
        {"user_priority", "priority"},
        {"user_ordinal", "ordinal"},
        {"global_ordinal", "globalOrdinal"},
        {"utilization_mem", "utilizationMem"},
        {"utilization_compute", "utilizationCompute"},
    };
    static const char *const running[] = {"Starting", "Running", "Stopping", NULL};
    struct queue *queue = need_queue(call);
    struct json *doc, *list = json_new_array(call->arena);

    (void)id;
    if (!queue)
        return;
    call_mark(call, queue_mark(queue));
    doc = queue_list_json(queue, &call->who, &(struct queue_filter){.states = running}, call->arena);
    JSON_EACH(json_get(doc, "jobs"), job) {
        struct json *row = json_push_object(call->arena, list);

        for (size_t i = 0; i < ARRAY_LEN(members); i++)
            copy_as(call, row, members[i].key, job, members[i].member);
        if (json_is(json_get(row, "utilization_mem"), JSON_NULL))
            json_set(call->arena, row, "utilization_date", *json_new_null(call->arena));
        else
            copy_as(call, row, "utilization_date", doc, "time");
    }
    rest_reply(call, 200, list);
}

/* Members that are null are not worth a line. */
static void drop_nulls(struct json *value)
{
    JSON_EACH(value, it)
        drop_nulls(it);
    if (!json_is(value, JSON_OBJECT))
        return;
    for (size_t i = value->len; i > 0; i--) {
        struct json_member *member = &value->members->v[i - 1];

        if (json_is(&member->value, JSON_NULL))
            json_remove(value, member->key);
        else
            drop_nulls(&member->value);
    }
}

static void describe(struct call *call, const char *id, const char *uid, const struct json *last)
{
    struct queue *queue = call->api->config.queue;
    const struct object *object;
    struct err err = {0};
    struct json *doc, *job;
    struct buf text = {0};

    if (!queue_may(queue, &call->who, uid, false)) {
        failure_set(&call->failure, call->arena, 403, "Forbidden",
                    "only the owner and admins see what a pod is made of");
        rest_fail(call);
        return;
    }
    object = store_by_uid(call->store, uid);
    if (!object || queue_job(queue, &call->who, uid, last, call->arena, &job, &err) < 0) {
        failure_set(&call->failure, call->arena, 404, "NotFound", "there is no pod \"%s\"", id);
        rest_fail(call);
        return;
    }
    doc = object_json(object, call->arena);
    json_remove(json_get(doc, "metadata"), "managedFields");
    drop_nulls(doc);
    call_write_yaml(&text, doc);
    drop_nulls(job);
    buf_puts(&text, "---\n");
    call_write_yaml(&text, job);
    call->no_store = true;
    call_reply(call, 200, "text/plain; charset=utf-8", &text);
}

void rest_old_describe(struct call *call, const char *id)
{
    rest_queue_with(call, id, describe);
}
