/* What training scripts call. Answers are those of the original scheduler where its library looks at them:
 * that of has_to_stop only. All calls may come from several processes of a job, more than once and out of
 * order. */
#include "api/auth.h"
#include "api/rest/rest.h"
#include "api/train/internal.h"
#include "objects/names.h"
#include "queue/queue.h"

#include <math.h>
#include <openssl/crypto.h>
#include <stdlib.h>

#define EPOCHS_MAX   UINT32_MAX
#define DURATION_MAX (366.0 * 86400)
#define MEMORY_MAX   (1LL << 30) /* MiB */
#define NUMBER_MAX   64

/* ---- who ---- */

static bool has_token(struct train *train, const struct call *call, const char *job)
{
    const char *header = http_req_header(call->req, "Authorization"), *token;
    struct str given;

    if (!header || strncasecmp(header, "Bearer ", 7) != 0)
        return false;
    given = str_trim(str_from(header + 7));
    token = train_token(train, call->arena, job);
    return given.len == strlen(token) && CRYPTO_memcmp(given.s, token, given.len) == 0;
}

/* A pod of the job that has the caller's address, and has not ended: its address is another's then. Loopback
 * and unix sockets have none of their own. */
static bool is_pod_of(const struct call *call, const char *job)
{
    const struct http_peer *peer = call->req->peer;
    const char *colon = peer->address ? strrchr(peer->address, ':') : NULL;
    const struct object *owner = store_by_uid(call->store, job);
    struct store_slice pods;
    struct str ip;

    if (!owner || peer->unix_socket || peer->loopback || !colon)
        return false;
    ip = (struct str){peer->address, (size_t)(colon - peer->address)};
    pods = store_list(call->store, KIND_POD, NULL);
    OBJECTS_EACH(pods, it) {
        CLEANUP(arena_done) struct arena arena = {0};
        const struct json *doc = object_json(*it, &arena);

        if (str_eq(json_str(json_at(doc, "status.podIP")), ip) && !pod_is_over(doc) &&
            !json_bool(json_at(doc, "spec.hostNetwork")))
            return object_controls(owner, *it);
    }
    return false;
}

/* 1: the call goes on later. */
static int check_caller(struct train *train, struct call *call, const char *job)
{
    int identified;

    if (has_token(train, call, job) ||
        (!http_req_header(call->req, "Authorization") && is_pod_of(call, job))) {
        call->by = (struct call_by){.how = HOW_JOB, .id = job, .expires = INT64_MAX};
        return 0;
    }
    identified = auth_identify(call);
    if (identified != 0)
        return identified;
    if (access_is_known(&call->who) && queue_may(train->config.queue, &call->who, job, true))
        return 0;
    return failure_set(&call->failure, call->arena, 403, "Forbidden",
                       "this call needs the job's token ($BERTH_TOKEN) or must come from one of its pods");
}

/* ---- bodies ---- */

/* Numbers may come as text; what is none is NAN. */
static double number(const struct json *body, const char *key)
{
    const struct json *value = json_get(body, key);
    char text[NUMBER_MAX + 1], *end;
    double d;

    if (json_is(value, JSON_REAL))
        return value->real;
    if (json_is(value, JSON_INT))
        return (double)value->integer;
    if (!json_is(value, JSON_STRING) || !value->len || value->len > NUMBER_MAX)
        return NAN;
    snprintf(text, sizeof(text), "%s", value->string);
    d = strtod(text, &end);
    return *end || !isfinite(d) ? NAN : d;
}

static double bounded(double d, double max)
{
    return !(d > 0) ? 0 : d > max ? max : d;
}

/* An empty body is an empty object. */
static int read_body(struct call *call, struct json **ret)
{
    struct err err = {0};

    if (call->req->body.len > TRAIN_BODY_MAX)
        return failure_set(&call->failure, call->arena, 413, "RequestEntityTooLarge",
                           "the body has %zu bytes, %d are the most", call->req->body.len, TRAIN_BODY_MAX);
    if (!call->req->body.len) {
        *ret = json_new_object(call->arena);
        return 0;
    }
    if (json_parse(call->req->body, call->arena, ret, NULL, &err) < 0)
        return failure_bad_request(&call->failure, call->arena, "the body could not be read: %s", err.msg);
    if (!json_is(*ret, JSON_OBJECT))
        return failure_bad_request(&call->failure, call->arena, "the body is a %s, not an object",
                                   json_type_name(*ret));
    return 0;
}

/* ---- the calls ---- */

struct library_call {
    struct train *train;
    struct call *call;
    const char *job; /* uid */
    const struct json *body;
};

static int has_to_stop(struct library_call *c, struct err *err)
{
    const char *text = http_query(c->call->req, "epoch", 0);
    struct buf answer = {0};
    int64_t epoch = -1;
    bool stop = false;

    if (text && (!str_to_int(str_from(text), &epoch) || epoch < 0))
        return err_set(err, ERR_INVALID, "epoch must be a whole number, not '%.64s'", text);
    if (queue_has_to_stop(c->train->config.queue, c->job, epoch, &stop, err) < 0)
        return -1;
    buf_putc(&answer, stop ? '1' : '0');
    call_reply(c->call, 200, "text/plain", &answer);
    return 0;
}

static void answer_done(struct library_call *c)
{
    struct buf answer = {0};

    buf_puts(&answer, "{}");
    call_reply(c->call, 200, "application/json", &answer);
}

static int profiling(struct library_call *c, struct err *err)
{
    struct queue_profile profile = {
        .rank = (uint32_t)bounded(number(c->body, "rank"), UINT16_MAX),
        .gpus = (uint32_t)bounded(number(c->body, "numgpu"), UINT16_MAX),
        .iterations = (uint64_t)bounded(number(c->body, "iternum"), 1e15),
        .iteration_s = bounded(number(c->body, "meandur"), DURATION_MAX),
        .epoch_s = bounded(number(c->body, "epochDur"), DURATION_MAX),
        .memory_mib = (int64_t)bounded(number(c->body, "gpumem"), (double)MEMORY_MAX),
    };

    if (queue_profile(c->train->config.queue, c->job, &profile, err) < 0)
        return -1;
    answer_done(c);
    return 0;
}

/* meanIterDuration, endTime, gpuUsage, gpuMemUsage */
static int end_profiling(struct library_call *c, struct err *err)
{
    struct queue_profile profile = {
        .iteration_s = bounded(number(c->body, "meanIterDuration"), DURATION_MAX),
        .memory_mib = (int64_t)bounded(number(c->body, "gpuMemUsage"), (double)MEMORY_MAX),
    };

    if (queue_profile(c->train->config.queue, c->job, &profile, err) < 0)
        return -1;
    answer_done(c);
    return 0;
}

static int end_epoch(struct library_call *c, struct err *err)
{
    double done = number(c->body, "done");

    if (!(done >= 0 && done <= (double)EPOCHS_MAX && done == floor(done)))
        return err_set(err, ERR_INVALID, "\"done\" must be the number of epochs done so far");
    if (queue_epoch_done(c->train->config.queue, c->job, (uint32_t)done, 0, err) < 0)
        return -1;
    answer_done(c);
    return 0;
}

static int signal_end(struct library_call *c, struct err *err)
{
    if (queue_signal_end(c->train->config.queue, c->job, err) < 0)
        return -1;
    answer_done(c);
    return 0;
}

static int log_metrics(struct library_call *c, struct err *err)
{
    uint32_t rank = (uint32_t)bounded(number(c->body, "rank"), UINT16_MAX);

    if (!json_is(json_get(c->body, "records"), JSON_ARRAY))
        return err_set(err, ERR_INVALID, "\"records\" must be a list");
    if (queue_log_metrics(c->train->config.queue, c->job, rank, json_get(c->body, "records"), err) < 0)
        return -1;
    answer_done(c);
    return 0;
}

static const struct library_route {
    const char *method;
    const char *before, *after; /* the job's id stands between them */
    bool more;                  /* another segment, which says nothing, may follow */
    int (*run)(struct library_call *call, struct err *err);
} routes[] = {
    {"GET", "/has_to_stop/", "", false, has_to_stop},
    {"POST", "/profiling/", "", false, profiling},
    {"POST", "/end_epoch/", "", false, end_epoch},
    {"POST", "/signal_end/", "", false, signal_end},
    {"POST", "/signal_end_profiling/", "", true, end_profiling},
    {"POST", "/v1/train/", "/log", false, log_metrics},
};

/* The id in a path of that route, decoded; NULL: another path. */
static const char *match(const struct library_route *route, struct call *call)
{
    CLEANUP(buf_done) struct buf id = {0};
    const char *path = call->req->path, *at, *slash;
    struct str text;

    if (!starts_with(path, route->before))
        return NULL;
    at = path + strlen(route->before);
    text = (struct str){at, strlen(at)};
    if (route->more && (slash = strchr(at, '/')) && !strchr(slash + 1, '/'))
        text.len = (size_t)(slash - at);
    if (!str_ends(text, route->after))
        return NULL;
    text.len -= strlen(route->after);
    if (!text.len || memchr(text.s, '/', text.len) || !buf_url_decode(&id, text, false))
        return NULL;
    return arena_strndup(call->arena, id.data, id.len);
}

static int run(struct train *train, struct call *call, const struct library_route *route, const char *id)
{
    struct library_call c = {.train = train, .call = call};
    struct err err = {0};
    struct json *body = NULL;
    int identified;
    bool found;

    if (!streq(call->req->method, route->method))
        return failure_set(&call->failure, call->arena, 405, "MethodNotAllowed", "%s cannot be done at %s",
                           call->req->method, call->req->path);
    if (!train->config.queue)
        return failure_set(&call->failure, call->arena, 503, "ServiceUnavailable",
                           "there is no queue on this server");
    /* Nobody has said yet who they are: only what is at hand is looked at, and strangers do not learn what
     * there is. */
    found = queue_find_queued(train->config.queue, id, call->arena, &c.job, &err) == 0;
    identified = check_caller(train, call, found ? c.job : id);
    if (identified != 0)
        return identified;
    if (!found)
        return failure_from_err(&call->failure, call->arena, &err);
    if (streq(route->method, "POST") && read_body(call, &body) < 0)
        return -1;
    c.body = body;
    return route->run(&c, &err) < 0 ? failure_from_err(&call->failure, call->arena, &err) : 0;
}

bool train_is_library(struct call *call)
{
    for (size_t i = 0; i < ARRAY_LEN(routes); i++)
        if (match(&routes[i], call))
            return true;
    return false;
}

bool train_library(void *arg, struct call *call)
{
    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        const char *id = match(&routes[i], call);

        if (!id)
            continue;
        if (run(arg, call, &routes[i], id) < 0)
            rest_fail(call);
        return true;
    }
    return false;
}
