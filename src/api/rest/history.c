/* Finished jobs, as JSON or CSV, and who used how much. */
#include "api/rest/past.h"
#include "api/share.h"
#include "base/clock.h"

#define USAGE_MS   (INT64_C(28) * 86400 * 1000) /* when no from= is given */
#define CURSOR_MAX 48
#define UNSENT_MAX (1 << 20) /* bytes of a CSV that the client has not read: the rest waits */

/* ---- CSV: a page is read, sent, and the next one read when the client has taken most of it ---- */

struct csv {
    struct call *call;
    struct queue_history_query query;
    size_t left; /* lines that are still wanted; 0: all */
    struct queue_past *read;
    char after[CURSOR_MAX];
    bool begun;
};

static void csv_next(struct csv *csv);

static void csv_on_gone(struct http_req *req)
{
    struct csv *csv = req->user;

    queue_past_cancel(TAKE_PTR(csv->read));
    http_abandon(req);
}

static void csv_on_drain(struct http_req *req)
{
    csv_next(req->user);
}

static void csv_fail(struct csv *csv, const struct err *err)
{
    csv->call->req->gone = NULL;
    if (csv->begun)
        http_abandon(csv->call->req); /* the client sees that it is not whole */
    else
        rest_past_fail(csv->call, err);
}

static void csv_begin(struct csv *csv)
{
    static const struct http_header headers[] = {{"Cache-Control", "no-store"}};
    CLEANUP(buf_done) struct buf head = {0};

    csv->begun = true;
    http_stream_begin(csv->call->req, 200, "text/csv; charset=utf-8", headers, ARRAY_LEN(headers));
    queue_history_csv_head(&head);
    http_stream_write(csv->call->req, buf_view(&head));
}

static void csv_on_page(void *arg, struct queue_answer *answer, const struct err *err)
{
    struct csv *csv = arg;
    struct http_req *req = csv->call->req;
    bool more = answer->next && (!csv->left || csv->left > answer->count);

    csv->read = NULL;
    if (err) {
        csv_fail(csv, err);
        return;
    }
    if (!csv->begun)
        csv_begin(csv);
    http_stream_write(req, buf_view(&answer->text));
    if (!more) {
        req->gone = NULL;
        http_stream_end(req);
        return;
    }
    if (csv->left)
        csv->left -= answer->count;
    snprintf(csv->after, sizeof(csv->after), "%s", answer->next);
    csv->query.after = csv->after;
    if (http_stream_unsent(req) > UNSENT_MAX)
        http_stream_on_drain(req, csv_on_drain);
    else
        csv_next(csv);
}

static void csv_next(struct csv *csv)
{
    struct queue_reader reader = {share_person(csv->call), csv_on_page, csv};
    struct queue_past *read = NULL;
    struct err err = {0};

    csv->query.limit = csv->left && csv->left < QUEUE_HISTORY_MAX ? csv->left : QUEUE_HISTORY_MAX;
    if (queue_history(csv->call->api->config.queue, &csv->call->who, &csv->query, &reader, &read, &err) < 0)
        csv_fail(csv, &err);
    else if (read) /* else it has been answered */
        csv->read = read;
}

static void reply_csv(struct call *call, const struct queue_history_query *query)
{
    struct csv *csv = arena_zalloc(call->arena, sizeof(*csv));

    *csv = (struct csv){.call = call, .query = *query, .left = query->limit};
    csv->query.csv = true;
    call->req->user = csv;
    call->req->gone = csv_on_gone;
    csv_next(csv);
}

/* ---- asking ---- */

static int read_query(struct call *call, struct queue_history_query *query)
{
    const char *limit = query_string(call, "limit");
    const char *const *states;
    int64_t n = 0;

    if (rest_states(call, &states) < 0)
        return -1;
    if (*limit && (!str_to_int(str_from(limit), &n) || n < 1))
        return failure_set(&call->failure, call->arena, 422, "Invalid",
                           "limit: must be a number above 0, not '%s'", limit);
    *query = (struct queue_history_query){
        .user = *query_string(call, "user") ? query_string(call, "user") : NULL,
        .states = states,
        .limit = (size_t)n,
        .mine = query_bool(call, "mine"),
        .after = *query_string(call, "after") ? query_string(call, "after") : NULL,
    };
    if (rest_query_time(call, "from", 0, &query->from_ms) < 0)
        return -1;
    return rest_query_time(call, "to", 0, &query->to_ms);
}

static bool has_queue(struct call *call)
{
    if (call->api->config.queue)
        return true;
    failure_set(&call->failure, call->arena, 503, "ServiceUnavailable", "this server has no queue");
    rest_fail(call);
    return false;
}

void rest_history(struct call *call, const char *id)
{
    const char *format = query_string(call, "format");
    struct queue_history_query query;
    struct queue_past *read = NULL;
    struct err err = {0};
    int result;

    (void)id;
    if (!has_queue(call))
        return;
    if (read_query(call, &query) < 0) {
        rest_fail(call);
        return;
    }
    if (*format && !streq(format, "json") && !streq(format, "csv")) {
        failure_set(&call->failure, call->arena, 422, "Invalid", "format: must be json or csv, not '%s'",
                    format);
        rest_fail(call);
        return;
    }
    if (streq(format, "csv")) {
        reply_csv(call, &query);
        return;
    }
    query.limit = query.limit < QUEUE_HISTORY_MAX ? query.limit : QUEUE_HISTORY_MAX;
    call->at_once = true; /* all of it is on the disk */
    result = queue_history(call->api->config.queue, &call->who, &query, rest_past_new(call, rest_past_reply),
                           &read, &err);
    rest_past_begun(call, result, read, &err);
}

void rest_usage(struct call *call, const char *id)
{
    const char *by = query_string(call, "by");
    int64_t now = call->now / NSEC_PER_MSEC, from, to;
    struct queue_past *read = NULL;
    struct err err = {0};
    int result;

    (void)id;
    if (!has_queue(call))
        return;
    if (*by && !streq(by, "week") && !streq(by, "day")) {
        failure_set(&call->failure, call->arena, 422, "Invalid", "by: must be week or day, not '%s'", by);
        rest_fail(call);
        return;
    }
    if (rest_query_time(call, "to", now, &to) < 0 ||
        rest_query_time(call, "from", to - USAGE_MS, &from) < 0) {
        rest_fail(call);
        return;
    }
    call->at_once = true; /* all of it is on the disk */
    result = queue_usage(call->api->config.queue, from, to, streq(by, "day"),
                         rest_past_new(call, rest_past_reply), &read, &err);
    rest_past_begun(call, result, read, &err);
}
