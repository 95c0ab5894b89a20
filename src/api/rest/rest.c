#include "api/rest/rest.h"

#include "api/page/page.h"
#include "base/clock.h"
#include "base/yaml.h"
#include "loop/loop.h"
#include "objects/object_doc.h"
#include "registry/access_table.h"

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

static bool is_absent(const struct json *value)
{
    return !value || json_is(value, JSON_NULL);
}

int rest_string(struct call *call, const struct json *doc, const char *key, const char **ret)
{
    const struct json *value = json_get(doc, key);

    *ret = json_string(value);
    if (*ret || is_absent(value))
        return 0;
    return failure_bad_request(&call->failure, call->arena, "%s must be a string", key);
}

int rest_bool(struct call *call, const struct json *doc, const char *key, bool *ret)
{
    const struct json *value = json_get(doc, key);

    if (json_is(value, JSON_BOOL))
        *ret = json_bool(value);
    else if (!is_absent(value))
        return failure_bad_request(&call->failure, call->arena, "%s must be true or false", key);
    return 0;
}

int rest_int(struct call *call, const struct json *doc, const char *key, int64_t max, int64_t *ret)
{
    const struct json *value = json_get(doc, key);

    if (is_absent(value))
        return 0;
    *ret = json_int(value, 0);
    if (json_is(value, JSON_INT) && *ret >= 1 && *ret <= max)
        return 0;
    return failure_bad_request(&call->failure, call->arena, "%s must be a whole number from 1 to %lld", key,
                               (long long)max);
}

void rest_reply(struct call *call, int status, const struct json *doc)
{
    call->no_store = true;
    call_reply_json(call, status, doc);
}

struct json *rest_failure(const struct call *call, const struct failure *failure)
{
    struct json *doc = json_new_object(call->arena), *details;

    json_set_string(call->arena, doc, "error", failure->message);
    json_set_int(call->arena, doc, "code", failure->code);
    json_set_string(call->arena, doc, "requestId", call->req->id);
    details = json_set_object(call->arena, doc, "details");
    if (failure->causes)
        json_set(call->arena, details, "causes", *failure->causes);
    return doc;
}

void rest_fail(struct call *call)
{
    rest_reply(call, call->failure.code, rest_failure(call, &call->failure));
}

void rest_fail_err(struct call *call, const struct err *err)
{
    failure_from_err(&call->failure, call->arena, err);
    rest_fail(call);
}

void rest_not_allowed(struct call *call)
{
    CLEANUP(buf_done) struct buf methods = {0};

    access_path_methods(call->req->path, &methods);
    call->allow = arena_strndup(call->arena, methods.data ? methods.data : "", methods.len);
    failure_set(&call->failure, call->arena, 405, "MethodNotAllowed", "%s is not allowed at %s: use %s",
                call->req->method, call->req->path, call->allow);
    rest_fail(call);
}

bool rest_serves(const struct call *call)
{
    return streq(call->req->path, "/v1") || starts_with(call->req->path, "/v1/");
}

void rest_not_found(struct call *call)
{
    failure_set(&call->failure, call->arena, 404, "NotFound", "path %s not found: see /v1/openapi.json",
                call->req->path);
    rest_fail(call);
}

/* The table of who may what, as it is. */
static void rest_access(struct call *call, const char *id)
{
    struct json *doc = json_new_object(call->arena), *list = json_set_array(call->arena, doc, "paths"), *row;

    (void)id;
    for (size_t i = 0; i < access_path_count; i++) {
        row = json_push_object(call->arena, list);
        json_set_string(call->arena, row, "method", access_paths[i].method);
        json_set_string(call->arena, row, "path", access_paths[i].path);
        json_set_string(call->arena, row, "who", access_who_name(access_paths[i].who));
    }
    list = json_set_array(call->arena, doc, "kinds");
    for (size_t i = 0; i < access_grant_count; i++) {
        const struct kind *kind = kind_by_id(access_grants[i].kind);

        row = json_push_object(call->arena, list);
        json_set_string(call->arena, row, "group", kind->group);
        json_set_string(call->arena, row, "resource", kind->plural);
        json_set(call->arena, row, "members", *access_verbs(access_grants[i].member, call->arena));
        json_set(call->arena, row, "everybody", *access_verbs(access_grants[i].anybody, call->arena));
    }
    rest_reply(call, 200, doc);
}

static void set_checks(struct call *call, struct json *doc)
{
    const struct api_hooks *hooks = &call->api->config.hooks;
    struct api_check checks[API_CHECKS_MAX];
    size_t count = hooks->checks ? hooks->checks(hooks->arg, call->arena, checks, API_CHECKS_MAX) : 0;
    struct json *list = json_set_array(call->arena, doc, "checks"), *row;

    for (size_t i = 0; i < count; i++) {
        row = json_push_object(call->arena, list);
        json_set_string(call->arena, row, "name", checks[i].name);
        json_set_string(call->arena, row, "state", api_check_name(checks[i].state));
        if (*checks[i].text)
            json_set_string(call->arena, row, "text", checks[i].text);
        if (checks[i].fix)
            json_set_string(call->arena, row, "fix", checks[i].fix);
    }
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
    set_checks(call, doc);
    if (call->api->config.hooks.status)
        call->api->config.hooks.status(call->api->config.hooks.arg, call->arena, doc);
    call->at_once = true; /* asked when the disk is in trouble */
    call_reply_json(call, 200, doc);
}

/* Who may is in registry/access_table.c: a route without a row there is not reached. */
static const struct rest_route {
    const char *method;
    const char *path; /* '*' takes a segment as id, '**' one or two (NAME, NAMESPACE/NAME) */
    void (*handle)(struct call *call, const char *id);
} routes[] = {
    {"GET", "/v1/openapi.json", rest_openapi},
    {"GET", "/v1/status", rest_status},
    {"GET", "/metrics", rest_metrics},
    {"GET", "/v1/backup", rest_backup},
    {"POST", "/v1/prune", rest_prune},
    {"POST", "/v1/apply", rest_apply},
    {"GET", "/v1/access", rest_access},
    {"GET", "/v1/users", rest_users_list},
    {"POST", "/v1/users", rest_users_add},
    {"GET", "/v1/users/*", rest_users_show},
    {"PATCH", "/v1/users/*", rest_users_change},
    {"DELETE", "/v1/users/*", rest_users_remove},
    {"GET", "/v1/tokens", rest_tokens_list},
    {"POST", "/v1/tokens", rest_tokens_add},
    {"DELETE", "/v1/tokens/*", rest_tokens_revoke},
    {"POST", "/v1/kubeconfig", rest_kubeconfig},
    {"GET", "/v1/certificates", rest_certificates_list},
    {"POST", "/v1/certificates/*/renew", rest_certificates_renew},
    {"DELETE", "/v1/certificates/*", rest_certificates_revoke},
    {"GET", "/v1/task-templates", rest_templates_list},
    {"POST", "/v1/task-templates", rest_templates_add},
    {"GET", "/v1/task-templates/*", rest_templates_show},
    {"PUT", "/v1/task-templates/*", rest_templates_put},
    {"DELETE", "/v1/task-templates/*", rest_templates_delete},
    {"GET", "/v1/task-definitions", rest_definitions_list},
    {"POST", "/v1/task-definitions", rest_definitions_add},
    {"GET", "/v1/task-definitions/**/schema", rest_definitions_schema},
    {"GET", "/v1/task-definitions/**", rest_definitions_show},
    {"PUT", "/v1/task-definitions/**", rest_definitions_put},
    {"DELETE", "/v1/task-definitions/**", rest_definitions_delete},
    {"GET", "/v1/jobs", rest_jobs_list},
    {"POST", "/v1/jobs", rest_jobs_add},
    {"GET", "/v1/jobs/**/logs", rest_jobs_logs},
    {"POST", "/v1/jobs/**/rerun", rest_jobs_rerun},
    {"GET", "/v1/jobs/**", rest_jobs_show},
    {"DELETE", "/v1/jobs/**", rest_jobs_delete},
    {"POST", "/v1/render", rest_render},
    {"GET", "/v1/queue", rest_queue_list},
    {"GET", "/v1/queue/stream", rest_queue_stream},
    {"GET", "/v1/queue/**/why", rest_queue_why},
    {"GET", "/v1/queue/**/logs", rest_queue_logs},
    {"POST", "/v1/queue/**/cancel", rest_queue_cancel},
    {"POST", "/v1/queue/**/priority", rest_queue_priority},
    {"POST", "/v1/queue/**/claim", rest_queue_claim},
    {"POST", "/v1/queue/**/rerun", rest_queue_rerun},
    {"GET", "/v1/queue/**", rest_queue_show},
    {"GET", "/v1/nodes", rest_nodes},
    {"GET", "/v1/nodes/timeline", rest_nodes_timeline},
    {"GET", "/v1/history", rest_history},
    {"GET", "/v1/usage", rest_usage},
    {"GET", "/v1/inbox", rest_inbox_list},
    {"POST", "/v1/inbox/seen", rest_inbox_seen},
    {"GET", "/v1/notify", rest_notify_show},
    {"PUT", "/v1/notify", rest_notify_set},
    {"POST", "/v1/notify/test", rest_notify_test},
    {"GET", "/api/state", rest_old_state},
    {"GET", "/describe/**", rest_old_describe},
    {"GET", "/v1/page/session", page_session_get},
    {"POST", "/v1/page/session", page_session_add},
    {"DELETE", "/v1/page/session", page_session_end},
    {"POST", "/v1/page/links", page_links_add},
    {"GET", "/v1/train/options", page_train_options},
};

/* The decoded id of a path; NULL: it is none. */
static const char *decode_id(struct arena *arena, struct str id)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (!id.len)
        return "";
    if (!buf_url_decode(&text, id, false) || memchr(text.data, '\0', text.len))
        return NULL;
    return arena_strndup(arena, text.data, text.len);
}

static bool is_method(const char *method, const struct call *call)
{
    return streq(method, call->req->method);
}

bool rest_handle(struct call *call)
{
    bool known_path = false;

    for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
        const struct rest_route *route = &routes[i];
        const char *id;
        struct str raw;

        if (!access_pattern(route->path, call->req->path, &raw) || !(id = decode_id(call->arena, raw)))
            continue;
        known_path = true;
        if (!is_method(route->method, call))
            continue;
        route->handle(call, id);
        return true;
    }
    if (!known_path)
        return call->api->config.hooks.rest &&
               call->api->config.hooks.rest(call->api->config.hooks.arg, call);
    rest_not_allowed(call);
    return true;
}
