/* Finished jobs, as JSON or CSV, and who used how much. */
#include "api/rest/rest.h"
#include "base/clock.h"
#include "queue/queue.h"

#define STATES_MAX  16
#define USAGE_MS    (INT64_C(28) * 86400 * 1000) /* when no from= is given */
#define CSV_PAGES   100                          /* of QUEUE_HISTORY_MAX jobs each, in one CSV answer */
#define CSV_COLUMNS ARRAY_LEN(csv_columns)

static const char *const csv_columns[] = {
    "id",          "kind",     "namespace",   "name",          "user",          "state",      "reason",
    "priority",    "gpus",     "memoryMiB",   "submitted",     "started",       "finished",   "epochsDone",
    "epochsTotal", "restarts", "lostSeconds", "peakMemoryMiB", "waitedSeconds", "ranSeconds", "gpuHours",
    "image"};

/* Quoted where needed; text that a spreadsheet would take for a formula gets a ' before it. */
static void csv_cell(struct buf *out, const struct json *value)
{
    struct str text = json_str(value);

    if (!text.s) {
        if (value && !json_is(value, JSON_NULL))
            json_write(out, value);
        return;
    }
    buf_putc(out, '"');
    if (text.len && strchr("=+-@\t\r", text.s[0]))
        buf_putc(out, '\'');
    for (size_t i = 0; i < text.len; i++) {
        if (text.s[i] == '"')
            buf_putc(out, '"');
        buf_putc(out, text.s[i]);
    }
    buf_putc(out, '"');
}

static void csv_rows(struct buf *out, const struct json *jobs)
{
    JSON_EACH(jobs, job) {
        for (size_t i = 0; i < CSV_COLUMNS; i++) {
            if (i)
                buf_putc(out, ',');
            csv_cell(out, json_get(job, csv_columns[i]));
        }
        buf_puts(out, "\r\n");
    }
}

/* All pages up to the limit that was asked for. */
static void reply_csv(struct call *call, struct queue_history_query *query)
{
    size_t left = query->limit ? query->limit : (size_t)CSV_PAGES * QUEUE_HISTORY_MAX;
    struct buf text = {0};
    struct err err = {0};

    for (size_t i = 0; i < CSV_COLUMNS; i++)
        buf_printf(&text, "%s%s", i ? "," : "", csv_columns[i]);
    buf_puts(&text, "\r\n");
    while (left > 0) {
        struct json *doc;

        query->limit = left < QUEUE_HISTORY_MAX ? left : QUEUE_HISTORY_MAX;
        if (queue_history(call->api->config.queue, &call->who, query, call->arena, &doc, &err) < 0) {
            buf_done(&text);
            rest_fail_err(call, &err);
            return;
        }
        csv_rows(&text, json_get(doc, "jobs"));
        left -= query->limit;
        query->after = json_get_string(doc, "next");
        if (!query->after)
            break;
    }
    call->no_store = true;
    call_reply(call, 200, "text/csv; charset=utf-8", &text);
}

static int read_query(struct call *call, struct queue_history_query *query)
{
    struct str rest = str_from(query_string(call, "state")), part;
    const char **states = arena_zalloc(call->arena, (STATES_MAX + 1) * sizeof(*states));
    const char *limit = query_string(call, "limit");
    size_t count = 0;
    int64_t n = 0;

    while (rest.len && count < STATES_MAX && str_split(&rest, ',', &part))
        if (part.len)
            states[count++] = arena_strndup(call->arena, part.s, part.len);
    if (*limit && (!str_to_int(str_from(limit), &n) || n < 1))
        return failure_set(&call->failure, call->arena, 422, "Invalid",
                           "limit: must be a number above 0, not '%s'", limit);
    *query = (struct queue_history_query){
        .user = *query_string(call, "user") ? query_string(call, "user") : NULL,
        .states = count ? states : NULL,
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
    struct err err = {0};
    struct json *doc;

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
    if (queue_history(call->api->config.queue, &call->who, &query, call->arena, &doc, &err) < 0)
        rest_fail_err(call, &err);
    else
        rest_reply(call, 200, doc);
}

void rest_usage(struct call *call, const char *id)
{
    const char *by = query_string(call, "by");
    int64_t now = call->now / NSEC_PER_MSEC, from, to;
    struct err err = {0};
    struct json *doc;

    (void)id;
    if (!has_queue(call))
        return;
    if (*by && !streq(by, "week") && !streq(by, "day")) {
        failure_set(&call->failure, call->arena, 422, "Invalid", "by: must be week or day, not '%s'", by);
        rest_fail(call);
    } else if (rest_query_time(call, "to", now, &to) < 0 ||
               rest_query_time(call, "from", to - USAGE_MS, &from) < 0) {
        rest_fail(call);
    } else if (queue_usage(call->api->config.queue, from, to, streq(by, "day"), call->arena, &doc, &err) <
               0) {
        rest_fail_err(call, &err);
    } else {
        rest_reply(call, 200, doc);
    }
}
