#include "api/call.h"

#include "api/rest/rest.h"
#include "base/clock.h"
#include "base/yaml.h"

#define DISK_RETRY_SEC "5"

#define WARNINGS_MAX   64 /* headers of one answer */

struct pending {
    struct call *call;
    struct http_req *req;
    int status;
    const char *content_type;
    struct buf body;
    struct http_header headers[WARNINGS_MAX + 6];
    size_t header_count;
};

struct call *call_new(struct api *api, struct http_req *req)
{
    struct call *call = arena_zalloc(req->arena, sizeof(*call));

    call->api = api;
    call->registry = api->config.registry;
    call->store = registry_store(call->registry);
    call->req = req;
    call->arena = req->arena;
    call->now = clock_now();
    call->began = clock_monotonic();
    call->warnings = json_new_array(req->arena);
    call->by.expires = INT64_MAX;
    return call;
}

/* Warning headers are quoted strings of printable text. */
static char *warning_value(struct arena *arena, struct str text)
{
    CLEANUP(buf_done) struct buf out = {0};

    buf_puts(&out, "299 - \"");
    for (size_t i = 0; i < text.len; i++) {
        char c = text.s[i];

        if (c == '"' || c == '\\')
            buf_putc(&out, '\\');
        buf_putc(&out, (unsigned char)c < 0x20 || c == 0x7f ? ' ' : c);
    }
    buf_putc(&out, '"');
    return arena_strndup(arena, out.data, out.len);
}

static void add_headers(struct call *call, struct pending *pending)
{
    JSON_EACH(call->warnings, it)
        if (pending->header_count < WARNINGS_MAX)
            pending->headers[pending->header_count++] =
                (struct http_header){"Warning", warning_value(call->arena, json_str(it))};
    if (call->no_store)
        pending->headers[pending->header_count++] = (struct http_header){"Cache-Control", "no-store"};
    if (call->replayed)
        pending->headers[pending->header_count++] = (struct http_header){"Idempotency-Replayed", "true"};
    if (call->cookie)
        pending->headers[pending->header_count++] = (struct http_header){"Set-Cookie", call->cookie};
    if (call->allow)
        pending->headers[pending->header_count++] = (struct http_header){"Allow", call->allow};
    if (call->failure.code == 401)
        pending->headers[pending->header_count++] = (struct http_header){"WWW-Authenticate", "Bearer"};
    if (call->failure.retry_after)
        pending->headers[pending->header_count++] =
            (struct http_header){"Retry-After", arena_printf(call->arena, "%d", call->failure.retry_after)};
}

/* call->failure as those expect it who ask there. */
static struct json *failure_doc(const struct call *call)
{
    return starts_with(call->req->path, "/v1/") ? rest_failure(call, &call->failure)
                                                : failure_to_json(&call->failure, call->arena);
}

static void send_pending(void *arg, const struct err *err)
{
    struct pending *pending = arg;
    struct buf body = pending->body; /* what is in the request's arena goes with the answer */

    if (err) {
        struct failure failure = {0};

        failure_from_err(&failure, pending->call->arena, err);
        pending->call->failure = failure;
        buf_clear(&body);
        json_write(&body, failure_doc(pending->call));
        buf_putc(&body, '\n');
        pending->status = failure.code;
        pending->content_type = "application/json";
        pending->header_count = 0;
        if (failure.code == 503) /* the disk is full: clients of Kubernetes wait by this and try again */
            pending->headers[pending->header_count++] = (struct http_header){"Retry-After", DISK_RETRY_SEC};
    }
    http_reply_buf(pending->req, pending->status, pending->content_type, pending->headers,
                   pending->header_count, &body);
}

static uint64_t needs_of(const struct call *call)
{
    return call->marked ? call->mark : store_mark(call->store);
}

bool call_reads_durable(struct call *call)
{
    call->at_once = http_is_first(call->req);
    return call->at_once;
}

struct store_slice call_list(struct call *call, int kind, const char *ns)
{
    return call_reads_durable(call) ? store_list_durable(call->store, kind, ns, call->arena)
                                    : store_list(call->store, kind, ns);
}

void call_mark(struct call *call, uint64_t mark)
{
    if (!http_is_first(call->req))
        return;
    call->marked = true;
    call->mark = mark;
}

void call_reply(struct call *call, int status, const char *content_type, struct buf *body)
{
    struct pending *pending = arena_zalloc(call->arena, sizeof(*pending));

    pending->call = call;
    pending->req = call->req;
    pending->status = status;
    pending->content_type = content_type;
    pending->body = *body;
    *body = (struct buf){0};
    add_headers(call, pending);
    if (call->at_once)
        send_pending(pending, NULL);
    else
        store_defer_until(call->store, needs_of(call), send_pending, pending);
}

void call_reply_json(struct call *call, int status, const struct json *doc)
{
    struct buf body = {0};

    if (status < 300 && !call->object && streq(call->req->method, "POST"))
        call_about(call, doc);
    if (query_bool(call, "pretty"))
        json_write_pretty(&body, doc, 2);
    else
        json_write(&body, doc);
    buf_putc(&body, '\n');
    call_reply(call, status, "application/json", &body);
}

static void sort_deep(struct json *value)
{
    JSON_EACH(value, it)
        sort_deep(it);
    JSON_EACH_MEMBER(value, it)
        sort_deep(&it->value);
    if (json_is(value, JSON_OBJECT))
        json_sort_members(value);
}

void call_write_yaml(struct buf *out, struct json *doc)
{
    sort_deep(doc);
    yaml_write(out, doc);
}

void call_fail(struct call *call)
{
    struct json *doc = failure_doc(call);
    const char *accept = http_req_header(call->req, "Accept");
    struct buf body = {0};

    if (!accept || !starts_with(accept, "application/yaml")) {
        call_reply_json(call, call->failure.code, doc);
        return;
    }
    call_write_yaml(&body, doc);
    call_reply(call, call->failure.code, "application/yaml", &body);
}

void call_not_found(struct call *call)
{
    failure_generic(&call->failure, call->arena, 404, "NotFound",
                    "the server could not find the requested resource");
    call_fail(call);
}

void call_page_not_found(struct call *call)
{
    struct buf body = {0};

    buf_puts(&body, "404 page not found\n");
    call_reply(call, 404, "text/plain; charset=utf-8", &body);
}

void call_fail_err(struct call *call, const struct err *err)
{
    failure_from_err(&call->failure, call->arena, err);
    call_fail(call);
}

struct waiting {
    struct call *call;
    void (*fn)(struct call *call, const struct err *err);
};

static void run_waiting(void *arg, const struct err *err)
{
    struct waiting *waiting = arg;

    waiting->fn(waiting->call, err);
}

void call_when_durable(struct call *call, void (*fn)(struct call *call, const struct err *err))
{
    struct waiting *waiting = arena_alloc(call->arena, sizeof(*waiting));

    *waiting = (struct waiting){call, fn};
    if (call->at_once)
        fn(call, NULL);
    else
        store_defer_until(call->store, needs_of(call), run_waiting, waiting);
}

const char *query_string(const struct call *call, const char *name)
{
    const char *value = http_query(call->req, name, 0);

    return value ? value : "";
}

bool query_bool(const struct call *call, const char *name)
{
    const char *value = http_query(call->req, name, 0);

    return value && strcasecmp(value, "false") != 0 && !streq(value, "0");
}
