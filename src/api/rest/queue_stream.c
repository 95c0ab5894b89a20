/* GET /v1/queue/stream: the queue as server-sent events, first whole, then what changes, and what is new in
 * the caller's inbox. A reader who falls behind is not told every change: once it has caught up it gets the
 * whole queue again. */
#include "api/rest/rest.h"
#include "api/share.h"
#include "base/clock.h"
#include "notify/inbox.h"
#include "queue/queue.h"

#define PING_INTERVAL (15 * NSEC_PER_SEC)
#define BEHIND_BYTES  (1 << 20) /* unread bytes from which changes are held back */

struct rest_stream {
    struct call *call;
    struct queue_watch *watch;
    struct inbox_watch *inbox; /* NULL: the caller has none */
    struct loop_timer *ping;
    struct share_hold hold;
    bool behind, gone;
    struct rest_stream *next, **prev;
};

static void release(struct rest_stream *s)
{
    if (s->prev) {
        *s->prev = s->next;
        if (s->next)
            s->next->prev = s->prev;
        s->prev = NULL;
    }
    queue_unwatch(s->watch);
    s->watch = NULL;
    inbox_unwatch(s->inbox);
    s->inbox = NULL;
    loop_timer_free(s->ping);
    s->ping = NULL;
    share_give(&s->hold);
}

void rest_end_streams(struct api *api)
{
    while (api->streams) {
        struct http_req *req = api->streams->call->req;

        release(api->streams);
        http_stream_end(req);
    }
}

static void on_gone(struct http_req *req)
{
    struct rest_stream *s = req->user;

    if (!s->watch) {
        s->gone = true; /* not begun: stream_start ends it */
        return;
    }
    release(s);
    http_abandon(req);
}

/* data: never has a newline in it, since JSON is written on one line. */
static void send_event(struct rest_stream *s, const char *event, uint64_t revision, const struct json *doc)
{
    CLEANUP(buf_done) struct buf text = {0};

    buf_printf(&text, "event: %s\nid: %llu\ndata: ", event, (unsigned long long)revision);
    json_write(&text, doc);
    buf_puts(&text, "\n\n");
    http_stream_write(s->call->req, buf_view(&text));
}

static void send_whole(struct rest_stream *s)
{
    struct queue *queue = s->call->api->config.queue;
    CLEANUP(buf_done) struct buf text = {0};

    buf_printf(&text, "event: queue\nid: %llu\ndata: ", (unsigned long long)queue_revision(queue));
    queue_list(queue, &s->call->who, &(struct queue_filter){0}, &text);
    buf_puts(&text, "\n\n");
    http_stream_write(s->call->req, buf_view(&text));
}

/* How much is new in the caller's inbox, and the newest of it. Has no id: it is no state of the queue. */
static void send_inbox(struct rest_stream *s)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf text = {0};
    struct json *doc;

    if (!s->inbox)
        return;
    doc = inbox_list(s->call->api->config.inbox, rest_inbox_user(&s->call->who), true, 1, &arena);
    buf_puts(&text, "event: inbox\ndata: ");
    json_write(&text, doc);
    buf_puts(&text, "\n\n");
    http_stream_write(s->call->req, buf_view(&text));
}

static void on_inbox(void *arg, const char *user)
{
    struct rest_stream *s = arg;

    if (!s->behind && streq(user, rest_inbox_user(&s->call->who)))
        send_inbox(s);
}

static void on_drain(struct http_req *req)
{
    struct rest_stream *s = req->user;

    s->behind = false;
    if (!s->watch)
        return;
    send_whole(s);
    send_inbox(s);
}

/* Milliseconds are enough. */
static const char *time_text(char text[CLOCK_TEXT_MAX])
{
    size_t len = strlen(clock_format_micro(clock_now(), text));

    memcpy(text + len - 4, "Z", 2);
    return text;
}

static void on_change(void *arg, const struct queue_change *change)
{
    struct rest_stream *s = arg;
    struct queue *queue = s->call->api->config.queue;
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc, *upsert, *removed;
    char time[CLOCK_TEXT_MAX];

    if (s->behind)
        return;
    if (http_stream_unsent(s->call->req) > BEHIND_BYTES) {
        s->behind = true;
        http_stream_on_drain(s->call->req, on_drain);
        return;
    }
    doc = json_new_object(&arena);
    json_set_int(&arena, doc, "revision", (int64_t)change->revision);
    json_set_string(&arena, doc, "time", time_text(time));
    json_set(&arena, doc, "capacity", *queue_capacity(queue, &arena));
    upsert = json_new_array(&arena);
    removed = json_new_array(&arena);
    for (size_t i = 0; i < change->upsert_len; i++) {
        struct json *job;
        struct err err = {0};

        if (queue_job(queue, &s->call->who, change->upsert[i], &arena, &job, &err) == 0)
            json_push(&arena, upsert, *job);
    }
    for (size_t i = 0; i < change->remove_len; i++)
        json_push_string(&arena, removed, change->remove[i]);
    json_set(&arena, doc, "upsert", *upsert);
    json_set(&arena, doc, "remove", *removed);
    send_event(s, "change", change->revision, doc);
}

static void on_ping(void *arg)
{
    struct rest_stream *s = arg;

    http_stream_write(s->call->req, STR(": ping\n\n"));
    loop_timer_set(s->ping, PING_INTERVAL);
}

static void stream_start(struct call *call, const struct err *failed)
{
    /* Proxies that would gather the events are told not to. */
    static const struct http_header headers[] = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}};
    struct rest_stream *s = call->req->user;

    if (s->gone) {
        release(s);
        http_abandon(call->req);
        return;
    }
    if (failed) {
        release(s);
        rest_fail_err(call, failed);
        return;
    }
    s->next = call->api->streams;
    s->prev = &call->api->streams;
    if (s->next)
        s->next->prev = &s->next;
    call->api->streams = s;
    http_stream_begin(call->req, 200, "text/event-stream", headers, ARRAY_LEN(headers));
    s->watch = queue_watch(call->api->config.queue, on_change, s);
    s->ping = loop_timer_new(call->api->config.loop, on_ping, s);
    loop_timer_set(s->ping, PING_INTERVAL);
    send_whole(s);
    if (call->api->config.inbox && access_is_known(&call->who))
        s->inbox = inbox_watch(call->api->config.inbox, on_inbox, s);
    send_inbox(s);
}

void rest_queue_stream(struct call *call, const char *id)
{
    struct rest_stream *s = arena_zalloc(call->arena, sizeof(*s));

    (void)id;
    if (!call->api->config.queue)
        failure_set(&call->failure, call->arena, 503, "ServiceUnavailable", "this server has no queue");
    if (!call->api->config.queue || share_take(call, SHARE_STREAMS, 1, &s->hold) < 0) {
        rest_fail(call);
        return;
    }
    s->call = call;
    call->req->user = s;
    call->req->gone = on_gone;
    call_when_durable(call, stream_start);
}
