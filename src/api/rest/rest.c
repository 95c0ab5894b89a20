#include "api/rest/rest.h"

#include "api/page/page.h"
#include "base/clock.h"
#include "base/yaml.h"
#include "loop/loop.h"
#include "objects/object_doc.h"

#include <malloc.h>

int rest_body(struct call *call, struct json **ret)
{
    struct err err = {0};

    /* JSON is YAML as far as our reader goes, but has the better messages. */
    if (call->req->body.len && call->req->body.s[0] == '{') {
        if (json_parse(call->req->body, call->arena, ret, NULL, &err) == 0)
            return 0;
    } else if (yaml_parse_one(call->req->body, call->arena, ret, &err) == 0) {
        if (json_is(*ret, JSON_OBJECT))
            return 0;
        err_set(&err, ERR_INVALID, "it is a %s, not an object", json_type_name(*ret));
    }
    return failure_bad_request(&call->failure, call->arena, "the body could not be read: %s", err.msg);
}

void rest_reply(struct call *call, int status, const struct json *doc)
{
    call->no_store = true;
    call_reply_json(call, status, doc);
}

void rest_fail(struct call *call)
{
    struct json *doc = json_new_object(call->arena), *details;

    json_set_string(call->arena, doc, "error", call->failure.message);
    json_set_int(call->arena, doc, "code", call->failure.code);
    details = json_set_object(call->arena, doc, "details");
    if (call->failure.causes)
        json_set(call->arena, details, "causes", *call->failure.causes);
    rest_reply(call, call->failure.code, doc);
}

void rest_fail_err(struct call *call, const struct err *err)
{
    failure_from_err(&call->failure, call->arena, err);
    rest_fail(call);
}

static void rest_status(struct call *call, const char *id)
{
    struct json *doc = json_new_object(call->arena);
    struct json *counts;
    struct store_stats stats;

    (void)id;
    store_stats(call->store, &stats);
    json_set_string(call->arena, doc, "version", BERTH_VERSION);
    json_set_int(call->arena, doc, "uptimeSec", (clock_monotonic() - call->api->started) / NSEC_PER_SEC);
    json_set_int(call->arena, doc, "revision", store_revision(call->store));
    json_set_int(call->arena, doc, "storeBytes", (int64_t)stats.memory_bytes);
    json_set_int(call->arena, doc, "commits", (int64_t)stats.commits);
    json_set_int(call->arena, doc, "lastCommitMicros", stats.last_commit_ns / 1000);
    json_set_int(call->arena, doc, "longestTurnMicros", loop_longest_turn(call->api->config.loop) / 1000);
    json_set_int(call->arena, doc, "documentsParsed", (int64_t)object_parse_count());
    json_set_int(call->arena, doc, "documentsBytes", (int64_t)object_docs_bytes());
    counts = json_set_object(call->arena, doc, "objects");
    for (size_t i = 0; i < kind_count; i++)
        if (kinds[i].stored) {
            size_t n = store_count(call->store, kinds[i].id, NULL);

            if (n)
                json_set_int(call->arena, counts, kinds[i].plural, (int64_t)n);
        }
    if (call->api->config.hooks.status)
        call->api->config.hooks.status(call->api->config.hooks.arg, call->arena, doc);
    call_reply_json(call, 200, doc);
}

enum rest_who {
    REST_ANY,   /* everybody */
    REST_VIEW,  /* everybody known, and others where the setting `anonymous` says so */
    REST_KNOWN, /* everybody known */
    REST_ADMIN,
};

static const struct rest_route {
    const char *method;
    const char *path; /* '*' takes a segment as id, '**' one or two (NAME, NAMESPACE/NAME) */
    enum rest_who who;
    void (*handle)(struct call *call, const char *id);
} routes[] = {
    {"GET", "/v1/openapi.json", REST_ANY, rest_openapi},
    {"GET", "/v1/status", REST_KNOWN, rest_status},
    {"GET", "/v1/backup", REST_ADMIN, rest_backup},
    {"POST", "/v1/apply", REST_KNOWN, rest_apply},
    {"GET", "/v1/users", REST_ADMIN, rest_users_list},
    {"POST", "/v1/users", REST_ADMIN, rest_users_add},
    {"GET", "/v1/tokens", REST_KNOWN, rest_tokens_list},
    {"POST", "/v1/tokens", REST_KNOWN, rest_tokens_add},
    {"DELETE", "/v1/tokens/*", REST_KNOWN, rest_tokens_revoke},
    {"POST", "/v1/kubeconfig", REST_KNOWN, rest_kubeconfig},
    {"GET", "/v1/task-templates", REST_KNOWN, rest_templates_list},
    {"POST", "/v1/task-templates", REST_ADMIN, rest_templates_add},
    {"GET", "/v1/task-templates/*", REST_KNOWN, rest_templates_show},
    {"PUT", "/v1/task-templates/*", REST_ADMIN, rest_templates_put},
    {"DELETE", "/v1/task-templates/*", REST_ADMIN, rest_templates_delete},
    {"GET", "/v1/task-definitions", REST_KNOWN, rest_definitions_list},
    {"POST", "/v1/task-definitions", REST_KNOWN, rest_definitions_add},
    {"GET", "/v1/task-definitions/**/schema", REST_KNOWN, rest_definitions_schema},
    {"GET", "/v1/task-definitions/**", REST_KNOWN, rest_definitions_show},
    {"PUT", "/v1/task-definitions/**", REST_KNOWN, rest_definitions_put},
    {"DELETE", "/v1/task-definitions/**", REST_KNOWN, rest_definitions_delete},
    {"GET", "/v1/jobs", REST_KNOWN, rest_jobs_list},
    {"POST", "/v1/jobs", REST_KNOWN, rest_jobs_add},
    {"GET", "/v1/jobs/**/logs", REST_KNOWN, rest_jobs_logs},
    {"POST", "/v1/jobs/**/rerun", REST_KNOWN, rest_jobs_rerun},
    {"GET", "/v1/jobs/**", REST_KNOWN, rest_jobs_show},
    {"DELETE", "/v1/jobs/**", REST_KNOWN, rest_jobs_delete},
    {"POST", "/v1/render", REST_KNOWN, rest_render},
    {"GET", "/v1/queue", REST_VIEW, rest_queue_list},
    {"GET", "/v1/queue/stream", REST_VIEW, rest_queue_stream},
    {"GET", "/v1/queue/**/why", REST_VIEW, rest_queue_why},
    {"GET", "/v1/queue/**/logs", REST_KNOWN, rest_queue_logs},
    {"POST", "/v1/queue/**/cancel", REST_KNOWN, rest_queue_cancel},
    {"POST", "/v1/queue/**/priority", REST_KNOWN, rest_queue_priority},
    {"POST", "/v1/queue/**/claim", REST_KNOWN, rest_queue_claim},
    {"POST", "/v1/queue/**/rerun", REST_KNOWN, rest_queue_rerun},
    {"GET", "/v1/queue/**", REST_VIEW, rest_queue_show},
    {"GET", "/v1/nodes", REST_VIEW, rest_nodes},
    {"GET", "/v1/nodes/timeline", REST_VIEW, rest_nodes_timeline},
    {"GET", "/v1/history", REST_VIEW, rest_history},
    {"GET", "/v1/usage", REST_VIEW, rest_usage},
    {"GET", "/v1/inbox", REST_KNOWN, rest_inbox_list},
    {"POST", "/v1/inbox/seen", REST_KNOWN, rest_inbox_seen},
    {"GET", "/v1/notify", REST_KNOWN, rest_notify_show},
    {"PUT", "/v1/notify", REST_KNOWN, rest_notify_set},
    {"POST", "/v1/notify/test", REST_KNOWN, rest_notify_test},
    {"GET", "/api/state", REST_VIEW, rest_old_state},
    {"GET", "/describe/**", REST_KNOWN, rest_old_describe},
    {"GET", "/v1/page/session", REST_ANY, page_session_get},
    {"POST", "/v1/page/session", REST_ANY, page_session_add},
    {"DELETE", "/v1/page/session", REST_ANY, page_session_end},
    {"POST", "/v1/page/links", REST_KNOWN, page_links_add},
    {"GET", "/v1/train/options", REST_VIEW, page_train_options},
};

/* The text before the rest of the pattern, as id; NULL: it does not match. */
static const char *match_id(struct arena *arena, const char *path, size_t segments, const char *rest)
{
    size_t path_len = strlen(path), rest_len = strlen(rest), len, slashes = 0;
    CLEANUP(buf_done) struct buf text = {0};

    if (path_len <= rest_len || !streq(path + path_len - rest_len, rest))
        return NULL;
    len = path_len - rest_len;
    for (size_t i = 0; i < len; i++)
        slashes += path[i] == '/';
    if (slashes >= segments || path[0] == '/' || path[len - 1] == '/' ||
        !buf_url_decode(&text, (struct str){path, len}, false) || memchr(text.data, '\0', text.len))
        return NULL;
    return arena_strndup(arena, text.data, text.len);
}

static bool path_matches(struct arena *arena, const char *pattern, const char *path, const char **id)
{
    const char *star = strchr(pattern, '*');
    size_t len = star ? (size_t)(star - pattern) : 0;

    *id = "";
    if (!star)
        return streq(pattern, path);
    if (strncmp(pattern, path, len) != 0)
        return false;
    *id =
        star[1] == '*' ? match_id(arena, path + len, 2, star + 2) : match_id(arena, path + len, 1, star + 1);
    return *id != NULL;
}

static bool may(const struct call *call, enum rest_who who)
{
    switch (who) {
    case REST_ANY:
        return true;
    case REST_VIEW:
        return access_is_known(&call->who) || page_anonymous_may(call);
    case REST_KNOWN:
        return access_is_known(&call->who);
    case REST_ADMIN:
        break;
    }
    return access_is_admin(&call->who);
}

bool rest_handle(struct call *call)
{
    bool known_path = false;

    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        const struct rest_route *route = &routes[i];
        const char *id;

        if (!path_matches(call->arena, route->path, call->req->path, &id))
            continue;
        known_path = true;
        if (!streq(route->method, call->req->method))
            continue;
        if (!may(call, route->who)) {
            failure_set(&call->failure, call->arena, 403, "Forbidden",
                        "forbidden: User \"%s\" cannot %s path \"%s\"", call->who.user, route->method,
                        call->req->path);
            rest_fail(call);
        } else {
            route->handle(call, id);
        }
        return true;
    }
    if (!known_path)
        return call->api->config.hooks.rest &&
               call->api->config.hooks.rest(call->api->config.hooks.arg, call);
    failure_set(&call->failure, call->arena, 405, "MethodNotAllowed", "%s cannot be done at %s",
                call->req->method, call->req->path);
    rest_fail(call);
    return true;
}
