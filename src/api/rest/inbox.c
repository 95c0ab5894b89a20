/* What happened to the caller's work: reading it, noting what has been read, and where it is sent. */
#include "notify/inbox.h"

#include "api/rest/rest.h"
#include "base/clock.h"
#include "notify/deliver.h"
#include "objects/names.h"

#define LIMIT_DEFAULT 50

const char *rest_inbox_user(const struct identity *who)
{
    /* the admin of this machine works under the name of root */
    return starts_with(who->user, "system:") && access_is_admin(who) ? ADMIN_USER : who->user;
}

/* Whose inbox is meant: one's own, or for admins that of `user=`. */
static int whose(struct call *call, const char **ret)
{
    const char *own = rest_inbox_user(&call->who), *user = query_string(call, "user");

    if (!call->api->config.inbox || !call->api->config.deliver)
        return failure_set(&call->failure, call->arena, 503, "ServiceUnavailable",
                           "this server keeps no inbox");
    if (*user && !streq(user, own) && !access_is_admin(&call->who))
        return failure_set(&call->failure, call->arena, 403, "Forbidden",
                           "the inbox of '%s' is theirs alone: only admins can read or change it", user);
    *ret = *user ? user : own;
    return 0;
}

void rest_inbox_list(struct call *call, const char *id)
{
    const char *limit = query_string(call, "limit"), *user;
    int64_t n = LIMIT_DEFAULT;

    (void)id;
    if (whose(call, &user) < 0) {
        rest_fail(call);
    } else if (*limit && (!str_to_int(str_from(limit), &n) || n < 1)) {
        failure_set(&call->failure, call->arena, 422, "Invalid", "limit: must be a number above 0, not '%s'",
                    limit);
        rest_fail(call);
    } else {
        rest_reply(
            call, 200,
            inbox_list(call->api->config.inbox, user, query_bool(call, "unseen"), (size_t)n, call->arena));
    }
}

/* {"id": N}: all up to that one; without a body all. */
void rest_inbox_seen(struct call *call, const char *id)
{
    struct json *body = NULL, *out = json_new_object(call->arena);
    const struct json *up_to;
    const char *user;

    (void)id;
    if (whose(call, &user) < 0 || (call->req->body.len && rest_body(call, &body) < 0)) {
        rest_fail(call);
        return;
    }
    up_to = json_get(body, "id");
    if (up_to && !json_is(up_to, JSON_INT)) {
        failure_set(&call->failure, call->arena, 422, "Invalid", "id: must be the number of an item");
        rest_fail(call);
        return;
    }
    inbox_see(call->api->config.inbox, user, json_int(up_to, INT64_MAX));
    json_set_int(call->arena, out, "unseen", (int64_t)inbox_unseen(call->api->config.inbox, user));
    rest_reply(call, 200, out);
}

/* ---- where it is sent ---- */

void rest_notify_show(struct call *call, const char *id)
{
    const char *user;

    (void)id;
    if (whose(call, &user) < 0)
        rest_fail(call);
    else
        rest_reply(call, 200, deliver_show(call->api->config.deliver, user, call->arena));
}

void rest_notify_set(struct call *call, const char *id)
{
    struct json *body = NULL;
    const char *user;
    struct err err = {0};

    (void)id;
    if (whose(call, &user) < 0 || rest_body(call, &body) < 0)
        rest_fail(call);
    else if (deliver_set(call->api->config.deliver, user, body, &err) < 0)
        rest_fail_err(call, &err);
    else
        rest_reply(call, 200, deliver_show(call->api->config.deliver, user, call->arena));
}

void rest_notify_test(struct call *call, const char *id)
{
    const char *user;
    struct err err = {0};

    (void)id;
    if (whose(call, &user) < 0)
        rest_fail(call);
    else if (deliver_test(call->api->config.deliver, user, call->now / NSEC_PER_MSEC, &err) < 0)
        rest_fail_err(call, &err);
    else
        rest_reply(call, 200, deliver_show(call->api->config.deliver, user, call->arena));
}
