/* GET …/log: an answer in pieces. The engine is paused while the client has LOG_HIGH unread bytes. */
#include "api/kube/stream.h"
#include "base/clock.h"

#define LOG_HIGH (512 << 10)

struct log_call {
    struct http_req *req;
    const struct pod_ops *ops;
    struct pod_log *log;
    bool paused;
};

static void on_gone(struct http_req *req)
{
    struct log_call *l = req->user;

    l->ops->log_free(l->log);
    http_abandon(req);
}

static void on_drain(struct http_req *req)
{
    struct log_call *l = req->user;

    l->paused = false;
    l->ops->log_pause(l->log, false);
}

static void on_data(void *arg, struct str data)
{
    struct log_call *l = arg;

    http_stream_write(l->req, data);
    if (!l->paused && http_stream_unsent(l->req) > LOG_HIGH) {
        l->paused = true;
        l->ops->log_pause(l->log, true);
        http_stream_on_drain(l->req, on_drain);
    }
}

/* A log that breaks off is an answer that breaks off. */
static void on_end(void *arg, const struct err *err)
{
    struct log_call *l = arg;

    l->ops->log_free(l->log);
    if (err)
        http_abandon(l->req);
    else
        http_stream_end(l->req);
}

static int64_t number(const struct call *call, const char *name)
{
    int64_t value;

    return str_to_int(str_from(query_string(call, name)), &value) ? value : -1;
}

/* The numbers have been checked before. */
static int read_options(struct call *call, const char *container, struct pod_log_options *ret)
{
    const char *since = query_string(call, "sinceTime");
    int64_t seconds = number(call, "sinceSeconds");

    *ret = (struct pod_log_options){
        .container = container,
        .previous = query_bool(call, "previous"),
        .follow = query_bool(call, "follow") && !query_bool(call, "previous"),
        .timestamps = query_bool(call, "timestamps"),
        .since = INT64_MIN,
        .tail = number(call, *query_string(call, "tail") ? "tail" : "tailLines"),
        .limit_bytes = number(call, "limitBytes"),
    };
    if (seconds > 0)
        ret->since = seconds < call->now / NSEC_PER_SEC ? call->now - seconds * NSEC_PER_SEC : INT64_MIN;
    if (*since && !clock_parse(str_from(since), &ret->since))
        return failure_bad_request(&call->failure, call->arena,
                                   "sinceTime: '%s' is no time as RFC 3339 writes it", since);
    return 0;
}

void log_begin(struct call *call, const struct object *pod, const char *container)
{
    static const struct pod_log_events events = {on_data, on_end};
    const struct pod_ops *ops = call->api->config.pod_ops;
    struct log_call *l = arena_zalloc(call->arena, sizeof(*l));
    struct pod_ref ref = stream_pod_ref(pod, call->arena);
    struct pod_log_options options;
    struct err err = {0};

    if (read_options(call, container, &options) < 0) {
        call_fail(call);
        return;
    }
    *l = (struct log_call){.req = call->req, .ops = ops};
    if (ops->log(ops->arg, &ref, &options, &events, l, &l->log, &err) < 0) {
        call_fail_err(call, &err);
        return;
    }
    call->req->user = l;
    call->req->gone = on_gone;
    http_stream_begin(call->req, 200, "text/plain", NULL, 0);
}
