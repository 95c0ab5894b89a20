/* GET /v1/queue/stream: the queue as server-sent events, first whole, then what changes, and what is new in
 * the caller's inbox. A reader who falls behind is not told every change: once it has caught up it gets the
 * whole queue again. The whole goes out in pieces, one a turn and as the reader takes them; what changes
 * meanwhile is told after it. */
#include "api/rest/rest.h"
#include "api/share.h"
#include "base/clock.h"
#include "base/map.h"
#include "notify/inbox.h"
#include "queue/queue.h"

#define BEAT_INTERVAL (5 * NSEC_PER_SEC)
#define BEHIND_BYTES  (1 << 20) /* unread bytes from which changes are held back */

struct rest_stream {
    struct call *call;
    struct queue_watch *watch;
    struct inbox_watch *inbox; /* NULL: the caller has none */
    struct loop_timer *beat;
    struct share_hold hold;
    struct queue_listing *listing; /* the whole, on its way: nothing else is written; NULL: none is */
    struct loop_timer *more;       /* its next piece */
    struct map *missed;            /* rows that have changed meanwhile: uid → `upserted` or `removed` */
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
    loop_timer_free(s->beat);
    loop_timer_free(s->more);
    s->beat = s->more = NULL;
    queue_listing_free(s->listing);
    s->listing = NULL;
    map_free(s->missed);
    s->missed = NULL;
    share_give(&s->hold);
}

size_t rest_streams(const struct api *api)
{
    size_t count = 0;

    for (const struct rest_stream *it = api->streams; it; it = it->next)
        count++;
    return count;
}

void rest_end_streams(struct api *api)
{
    while (api->streams) {
        struct http_req *req = api->streams->call->req;

        release(api->streams);
        http_stream_end(req);
    }
}

static void queue_stream_on_gone(struct http_req *req)
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

/* So that a reader tells a calm queue from a broken connection. */
static void send_beat(struct rest_stream *s)
{
    CLEANUP(buf_done) struct buf text = {0};
    char time[CLOCK_TEXT_MAX];

    buf_printf(&text, "event: beat\ndata: {\"time\":\"%s\"}\n\n", clock_format_milli(clock_now(), time));
    http_stream_write(s->call->req, buf_view(&text));
}

static void queue_stream_on_inbox(void *arg, const char *user)
{
    struct rest_stream *s = arg;

    if (!s->behind && !s->listing && streq(user, rest_inbox_user(&s->call->who)))
        send_inbox(s);
}

static void send_change(struct rest_stream *s, const struct queue_change *change)
{
    struct queue *queue = s->call->api->config.queue;
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *doc = json_new_object(&arena), *upsert, *removed;
    char time[CLOCK_TEXT_MAX];

    json_set_int(&arena, doc, "revision", (int64_t)change->revision);
    json_set_string(&arena, doc, "time", clock_format_milli(clock_now(), time));
    json_set(&arena, doc, "capacity", *queue_capacity(queue, &arena));
    upsert = json_new_array(&arena);
    removed = json_new_array(&arena);
    for (size_t i = 0; i < change->upsert_len; i++) {
        struct json *job;
        struct err err = {0};

        if (queue_job(queue, &s->call->who, change->upsert[i], NULL, &arena, &job, &err) == 0)
            json_push(&arena, upsert, *job);
    }
    for (size_t i = 0; i < change->remove_len; i++)
        json_push_string(&arena, removed, change->remove[i]);
    json_set(&arena, doc, "upsert", *upsert);
    json_set(&arena, doc, "remove", *removed);
    send_event(s, "change", change->revision, doc);
}

/* ---- the whole ---- */

static const char upserted[] = "upserted", removed[] = "removed"; /* the last word about a row counts */

static void note_missed(struct rest_stream *s, const struct queue_change *change)
{
    for (size_t i = 0; i < change->upsert_len; i++)
        map_set(s->missed, str_from(change->upsert[i]), (void *)upserted);
    for (size_t i = 0; i < change->remove_len; i++)
        map_set(s->missed, str_from(change->remove[i]), (void *)removed);
}

static void send_missed(struct rest_stream *s)
{
    CLEANUP(map_free) struct map *missed = TAKE_PTR(s->missed);
    CLEANUP(arena_done) struct arena arena = {0};
    size_t len = map_len(missed), at = 0;
    const char **upsert = arena_alloc(&arena, sizeof(*upsert) * (len + 1));
    const char **remove = arena_alloc(&arena, sizeof(*remove) * (len + 1));
    struct queue_change change = {queue_revision(s->call->api->config.queue), upsert, 0, remove, 0};
    struct str key;
    void *value;

    while (map_next(missed, &at, &key, &value)) {
        const char *uid = arena_strndup(&arena, key.s, key.len);

        if (value == upserted)
            upsert[change.upsert_len++] = uid;
        else
            remove[change.remove_len++] = uid;
    }
    if (len)
        send_change(s, &change);
}

static void queue_stream_on_drain(struct http_req *req);

static void send_piece(void *arg)
{
    struct rest_stream *s = arg;
    CLEANUP(buf_done) struct buf text = {0};
    bool more = queue_listing_next(s->listing, &text);

    if (!more)
        buf_puts(&text, "\n\n");
    http_stream_write(s->call->req, buf_view(&text));
    if (more) {
        if (http_stream_unsent(s->call->req) > BEHIND_BYTES)
            http_stream_on_drain(s->call->req, queue_stream_on_drain);
        else
            loop_timer_set(s->more, 0);
        return;
    }
    queue_listing_free(TAKE_PTR(s->listing));
    send_missed(s);
    send_inbox(s);
    send_beat(s);
}

static void send_whole(struct rest_stream *s)
{
    struct queue *queue = s->call->api->config.queue;
    CLEANUP(buf_done) struct buf text = {0};

    buf_printf(&text, "event: queue\nid: %llu\ndata: ", (unsigned long long)queue_revision(queue));
    http_stream_write(s->call->req, buf_view(&text));
    s->listing = queue_listing_new(queue, &s->call->who, NULL);
    s->missed = map_new();
    send_piece(s);
}

static void queue_stream_on_drain(struct http_req *req)
{
    struct rest_stream *s = req->user;

    s->behind = false;
    if (!s->watch)
        return;
    if (s->listing)
        send_piece(s);
    else
        send_whole(s);
}

static void queue_stream_on_change(void *arg, const struct queue_change *change)
{
    struct rest_stream *s = arg;

    if (s->behind)
        return;
    if (s->listing) {
        note_missed(s, change);
    } else if (http_stream_unsent(s->call->req) > BEHIND_BYTES) {
        s->behind = true;
        http_stream_on_drain(s->call->req, queue_stream_on_drain);
    } else {
        send_change(s, change);
    }
}

static void queue_stream_on_beat(void *arg)
{
    struct rest_stream *s = arg;

    if (!s->listing && !s->behind)
        send_beat(s);
    loop_timer_set(s->beat, BEAT_INTERVAL);
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
    s->watch = queue_watch(call->api->config.queue, queue_stream_on_change, s);
    s->beat = loop_timer_new(call->api->config.loop, queue_stream_on_beat, s);
    loop_timer_set(s->beat, BEAT_INTERVAL);
    s->more = loop_timer_new(call->api->config.loop, send_piece, s);
    if (call->api->config.inbox && access_is_known(&call->who))
        s->inbox = inbox_watch(call->api->config.inbox, queue_stream_on_inbox, s);
    send_whole(s);
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
    call->req->gone = queue_stream_on_gone;
    call_when_durable(call, stream_start);
}
