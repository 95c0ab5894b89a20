/* Watches: a stream of lines, one per change. What is there at the start is noted when the request comes and
 * sent once it is durable; the store tells the rest, each after its commit.
 *
 * Nothing is written ahead of the client by more than WATCH_HIGH: what is there at the start goes out in
 * pieces, and who falls behind stops listening to the store and resumes where it was once the socket has
 * drained. Where the store has forgotten that revision by then, the client is told to list anew (410). */
#include "api/kube/kube.h"
#include "api/share.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/vec.h"
#include "objects/table.h"

#define LOG_MODULE        "watch"

#define BOOKMARK_INTERVAL (60 * NSEC_PER_SEC)
#define WATCH_HIGH        (1 << 20) /* unsent bytes at which it waits for the client */
#define INITIAL_SEC       300       /* that what is there at the start may take */

struct call_watch {
    struct call *call;
    struct route route;
    struct selector *selector;
    enum form form;
    enum table_include include;
    struct store_watch *watch; /* NULL: not begun, or waiting for the client */
    struct loop_timer *timeout, *bookmark, *initial_timer;
    VEC(struct object *) initial; /* what is there at the start */
    size_t initial_at;            /* as far as it was sent */
    struct share_hold hold;       /* of these bytes */
    struct buf line;
    int64_t from;
    int64_t told; /* revision up to which everything was told */
    bool columns_sent;
    bool bookmarks;
    bool initial_end; /* the end of what is there at the start is to be told */
    bool gone;
    struct call_watch *next, **prev;
};

static void unlink_watch(struct call_watch *w)
{
    if (w->prev) {
        *w->prev = w->next;
        if (w->next)
            w->next->prev = w->prev;
        w->prev = NULL;
    }
}

static void drop_initial(struct call_watch *w)
{
    for (; w->initial_at < w->initial.len; w->initial_at++)
        object_unref(w->initial.v[w->initial_at]);
    vec_done(&w->initial);
    w->initial_at = 0;
    loop_timer_free(TAKE_PTR(w->initial_timer));
    share_give(&w->hold);
}

static void release(struct call_watch *w)
{
    unlink_watch(w);
    drop_initial(w);
    store_unwatch(w->watch);
    w->watch = NULL;
    loop_timer_free(w->timeout);
    loop_timer_free(w->bookmark);
    w->timeout = w->bookmark = NULL;
    buf_done(&w->line);
}

static void end_watch(struct call_watch *w)
{
    struct http_req *req = w->call->req;

    release(w);
    http_stream_end(req);
}

size_t kube_watches(const struct api *api)
{
    size_t count = 0;

    for (const struct call_watch *it = api->watches; it; it = it->next)
        count++;
    return count;
}

void kube_end_watches(struct api *api)
{
    while (api->watches)
        end_watch(api->watches);
}

static void on_gone(struct http_req *req)
{
    struct call_watch *w = req->user;

    if (!w->prev) {
        w->gone = true; /* the stream has not begun: watch_start releases it */
        return;
    }
    release(w);
    http_abandon(req);
}

static bool selects(const struct call_watch *w, const struct object *object)
{
    return selector_matches(w->selector, object) && access_shows(w->call->registry, &w->call->who, object);
}

/* The state an object had, under the revision at which it left the selection. */
static const struct object *as_left(struct arena *arena, const struct object *before, int64_t rv)
{
    struct json *doc = object_json(before, arena);

    json_set_string(arena, json_get(doc, "metadata"), "resourceVersion",
                    arena_printf(arena, "%lld", (long long)rv));
    return object_new(before->kind, arena, doc);
}

static void add_line(struct call_watch *w, struct buf *out, const char *type, const struct object *object)
{
    buf_printf(out, "{\"type\":\"%s\",\"object\":", type);
    switch (w->form) {
    case FORM_TABLE: {
        char meta[64];

        snprintf(meta, sizeof(meta), "{\"resourceVersion\":\"%lld\"}", (long long)object->rv);
        table_begin(out, object->kind, str_from(meta), !w->columns_sent);
        table_row(out, object, w->include, clock_now());
        table_end(out);
        w->columns_sent = true;
        break;
    }
    case FORM_PARTIAL:
        buf_puts(out, "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":");
        buf_add(out, object->text + object->meta_at, object->meta_len);
        buf_putc(out, '}');
        break;
    default:
        buf_add(out, object->text, object->text_len);
    }
    buf_puts(out, "}\n");
}

static void add_bookmark(struct call_watch *w, struct buf *out, int64_t revision, bool initial_end)
{
    const struct kind *kind = w->route.kind;

    if (w->form == FORM_TABLE) {
        buf_printf(out,
                   "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Table\",\"apiVersion\":\"meta.k8s.io/"
                   "v1\",\"metadata\":{"
                   "\"resourceVersion\":\"%lld\"},\"columnDefinitions\":null,\"rows\":[{\"cells\":[],"
                   "\"object\":{\"kind\":"
                   "\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/"
                   "v1\",\"metadata\":{\"resourceVersion\":\"%lld\","
                   "\"creationTimestamp\":null%s}}}]}}\n",
                   (long long)revision, (long long)revision,
                   initial_end ? ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}" : "");
        return;
    }
    buf_printf(out,
               "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"%s\",\"apiVersion\":\"%s\",\"metadata\":{"
               "\"resourceVersion\":"
               "\"%lld\",\"creationTimestamp\":null%s}}}\n",
               kind->name, kind_api_version(kind), (long long)revision,
               initial_end ? ",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}" : "");
}

static void go_on(struct call_watch *w);

static void send_line(struct call_watch *w)
{
    http_stream_write(w->call->req, buf_view(&w->line));
    buf_clear(&w->line);
}

/* Called once for each time that it waits. */
static void on_drain(struct http_req *req)
{
    struct call_watch *w = req->user;

    if (w->prev) /* else it is over */
        go_on(w);
}

static void wait_for_client(struct call_watch *w)
{
    store_unwatch(TAKE_PTR(w->watch));
    http_stream_on_drain(w->call->req, on_drain);
}

static void on_event(void *arg, const struct store_event *event)
{
    static const char *const names[] = {"ADDED", "MODIFIED", "DELETED"};
    struct call_watch *w = arg;
    bool was = event->before && selects(w, event->before);
    bool is = event->op != STORE_DELETED && selects(w, event->object);

    w->told = event->rv;
    if (event->op == STORE_MODIFIED && was && !is) {
        CLEANUP(arena_done) struct arena arena = {0};
        struct object *left = (struct object *)as_left(&arena, event->before, event->rv);

        add_line(w, &w->line, "DELETED", left);
        object_unref(left);
    } else if (event->op == STORE_MODIFIED && !was && is) {
        add_line(w, &w->line, "ADDED", event->object);
    } else if (event->op == STORE_DELETED ? was : is) {
        add_line(w, &w->line, names[event->op], event->object);
    } else {
        return;
    }
    send_line(w);
    if (http_stream_unsent(w->call->req) > WATCH_HIGH)
        wait_for_client(w);
}

static void on_idle(void *arg, int64_t revision)
{
    struct call_watch *w = arg;

    if (revision > w->told)
        w->told = revision;
}

static void on_bookmark(void *arg)
{
    struct call_watch *w = arg;

    if (w->watch) { /* else there is more to tell first */
        add_bookmark(w, &w->line, w->told, false);
        send_line(w);
    }
    loop_timer_set(w->bookmark, BOOKMARK_INTERVAL);
}

static void on_timeout(void *arg)
{
    end_watch(arg);
}

/* 410: one event that says so, then the end; clients list anew. */
static void send_expired(struct call_watch *w, int64_t from)
{
    struct call *call = w->call;
    struct buf line = {0};

    failure_set(&call->failure, call->arena, 410, "Expired", "too old resource version: %lld (%lld)",
                (long long)from, (long long)store_oldest(call->store));
    buf_puts(&line, "{\"type\":\"ERROR\",\"object\":");
    json_write(&line, failure_to_json(&call->failure, call->arena));
    buf_puts(&line, "}\n");
    http_stream_write(call->req, buf_view(&line));
    buf_done(&line);
    end_watch(w);
}

/* The next piece of what is there at the start; then what the store tells. */
static void go_on(struct call_watch *w)
{
    struct call *call = w->call;
    struct err err = {0};

    while (w->initial_at < w->initial.len) {
        struct object *object = w->initial.v[w->initial_at++];

        add_line(w, &w->line, "ADDED", object);
        object_unref(object);
        if (w->line.len > HTTP_STREAM_PIECE)
            send_line(w);
        if (http_stream_unsent(call->req) > WATCH_HIGH) {
            wait_for_client(w);
            return;
        }
    }
    drop_initial(w);
    if (w->initial_end)
        add_bookmark(w, &w->line, w->from, true);
    w->initial_end = false;
    if (w->line.len)
        send_line(w);
    if (store_watch(call->store, w->route.kind->id, *w->route.ns ? w->route.ns : NULL, w->told, on_event,
                    on_idle, w, &w->watch, &err) < 0)
        send_expired(w, w->told);
}

static void watch_start(struct call *call, const struct err *failed)
{
    struct call_watch *w = call->req->user;
    const char *seconds = query_string(call, "timeoutSeconds");
    int64_t timeout;

    if (w->gone) {
        release(w);
        http_abandon(call->req);
        return;
    }
    if (failed) {
        release(w);
        call_fail_err(call, failed);
        return;
    }
    w->next = call->api->watches;
    w->prev = &call->api->watches;
    if (w->next)
        w->next->prev = &w->next;
    call->api->watches = w;
    http_stream_begin(call->req, 200, "application/json", NULL, 0);
    if (str_to_int(str_from(seconds), &timeout) && timeout > 0) {
        w->timeout = loop_timer_new(call->api->config.loop, on_timeout, w);
        loop_timer_set(w->timeout, (timeout > 86400 ? 86400 : timeout) * NSEC_PER_SEC);
    }
    if (w->bookmarks) {
        w->bookmark = loop_timer_new(call->api->config.loop, on_bookmark, w);
        loop_timer_set(w->bookmark, BOOKMARK_INTERVAL);
    }
    if (w->initial.len) { /* what it holds is not held for ever */
        w->initial_timer = loop_timer_new(call->api->config.loop, on_timeout, w);
        loop_timer_set(w->initial_timer, INITIAL_SEC * NSEC_PER_SEC);
    }
    go_on(w);
}

/* ADDED for everything that is there now. What fits into a socket is nobody's burden. */
static int gather(struct call_watch *w)
{
    size_t bytes = 0;

    struct call *call = w->call;
    const char *ns = *w->route.ns ? w->route.ns : NULL;
    struct store_slice slice = call->at_once
                                   ? store_list_durable(call->store, w->route.kind->id, ns, call->arena)
                                   : store_list(call->store, w->route.kind->id, ns);

    OBJECTS_EACH(slice, it)
        if (selects(w, *it)) {
            vec_push(&w->initial, object_ref(*it));
            bytes += (*it)->text_len;
        }
    w->from = call->at_once ? store_durable_revision(call->store) : store_revision(call->store);
    if (bytes <= WATCH_HIGH || share_take(w->call, SHARE_LIST_BYTES, bytes, &w->hold) == 0)
        return 0;
    drop_initial(w);
    return -1;
}

static int initial_events(struct call *call, bool *ret)
{
    const char *text = query_string(call, "sendInitialEvents");
    struct field_errors errors = {.arena = call->arena};

    *ret = streq(text, "true") || streq(text, "1");
    if (!*text)
        return 0;
    if (!streq(query_string(call, "resourceVersionMatch"), "NotOlderThan"))
        field_forbidden(&errors, "resourceVersionMatch", "%s",
                        "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    return field_errors_finish(&errors, &call->failure, "meta.k8s.io", "ListOptions", "");
}

static int start_revision(struct call *call, int64_t *ret)
{
    const char *text = query_string(call, "resourceVersion");

    *ret = 0;
    if (!*text || (str_to_int(str_from(text), ret) && *ret >= 0))
        return 0;
    return failure_bad_request(&call->failure, call->arena,
                               "resourceVersion: Invalid value: \"%s\": must be a whole number", text);
}

void watch_begin(struct call *call, const struct route *route)
{
    struct call_watch *w = arena_zalloc(call->arena, sizeof(*w));
    bool initial;

    w->call = call;
    w->route = *route;
    if (accept_form(call, &w->form) < 0 || table_include_of(call, w->form, &w->include) < 0 ||
        list_selector(call, route, &w->selector) < 0 || initial_events(call, &initial) < 0 ||
        start_revision(call, &w->from) < 0) {
        call_fail(call);
        return;
    }
    w->bookmarks = query_bool(call, "allowWatchBookmarks");
    call_reads_durable(call);
    if (w->from == 0 || initial) {
        if (gather(w) < 0) {
            call_fail(call);
            return;
        }
        w->initial_end = initial && w->bookmarks;
    }
    w->told = w->from;
    call->req->user = w;
    call->req->gone = on_gone;
    call_when_durable(call, watch_start);
}
