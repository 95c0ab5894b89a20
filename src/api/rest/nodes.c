/* The cards: who is on them now, and who was. */
#include "api/rest/past.h"
#include "base/clock.h"

#define TIMELINE_MS (INT64_C(6) * 3600 * 1000) /* when no from= is given */

int rest_query_time(struct call *call, const char *name, int64_t fallback, int64_t *ret)
{
    const char *text = query_string(call, name);
    int64_t ns;

    *ret = fallback;
    if (!*text)
        return 0;
    if (!clock_parse(str_from(text), &ns))
        return failure_set(&call->failure, call->arena, 422, "Invalid",
                           "%s: '%s' is no time such as 2026-01-02T03:04:05Z", name, text);
    *ret = ns / NSEC_PER_MSEC;
    return 0;
}

static bool has_queue(struct call *call)
{
    if (call->api->config.queue)
        return true;
    failure_set(&call->failure, call->arena, 503, "ServiceUnavailable", "this server has no queue");
    rest_fail(call);
    return false;
}

void rest_nodes(struct call *call, const char *id)
{
    (void)id;
    if (!has_queue(call))
        return;
    call_mark(call, queue_mark(call->api->config.queue));
    rest_reply(call, 200, queue_nodes(call->api->config.queue, call->arena));
}

void rest_nodes_timeline(struct call *call, const char *id)
{
    int64_t now = call->now / NSEC_PER_MSEC, from, to;
    struct queue_past *read = NULL;
    struct err err = {0};
    int result;

    (void)id;
    if (!has_queue(call))
        return;
    if (rest_query_time(call, "to", now, &to) < 0 ||
        rest_query_time(call, "from", to - TIMELINE_MS, &from) < 0) {
        rest_fail(call);
        return;
    }
    call->at_once = true; /* all of it is on the disk */
    result =
        queue_timeline(call->api->config.queue, from, to, rest_past_new(call, rest_past_reply), &read, &err);
    rest_past_begun(call, result, read, &err);
}
