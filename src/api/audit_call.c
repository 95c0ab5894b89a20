/* What the audit log says of a request, once its answer is known. */
#include "api/audit.h"
#include "api/call.h"
#include "base/clock.h"
#include "registry/access_table.h"

#define PATH_SHOWN_MAX 1024 /* bytes */

static const char *const how_names[] = {
    [HOW_ANONYMOUS] = "anonymous", [HOW_SOCKET] = "socket",   [HOW_CERTIFICATE] = "certificate",
    [HOW_TOKEN] = "token",         [HOW_SESSION] = "session", [HOW_JOB] = "job",
};

/* Requests that ask with a body, and change nothing. */
static bool only_asks(const struct call *call)
{
    return streq(call->req->path, "/v1/render") || strstr(call->req->path, "/selfsubject") ||
           http_query(call->req, "dryRun", 0);
}

static bool is_about_secrets(const struct call *call)
{
    return strstr(call->req->path, "/secrets") || http_query(call->req, "secrets", 0);
}

static bool is_worth_it(const struct call *call, int status)
{
    const char *method = call->req->method;
    bool reads = streq(method, "GET") || streq(method, "HEAD");

    if (audit_wants_all(call->api->config.audit) || status == 401 || status == 403 || status == 101)
        return true;
    if (call->by.how == HOW_JOB) /* reports of training scripts, several a second */
        return false;
    return reads ? is_about_secrets(call) : !only_asks(call);
}

void call_audit(struct call *call, int status)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct json *line;
    char time[CLOCK_TEXT_MAX];

    if (!call->api->config.audit || !is_worth_it(call, status))
        return;
    line = json_new_object(call->arena);
    json_set_string(call->arena, line, "time", clock_format(clock_now(), time));
    json_set_string(call->arena, line, "id", call->req->id);
    json_set_string(call->arena, line, "user", call->who.user);
    json_set_string(call->arena, line, "how", how_names[call->by.how]);
    json_set_string(call->arena, line, "credential", call->by.id);
    json_set_string(call->arena, line, "address", call->req->peer->address);
    json_set_string(call->arena, line, "method", call->req->method);
    json_set_string(call->arena, line, "path",
                    arena_strndup(call->arena, call->req->path, strnlen(call->req->path, PATH_SHOWN_MAX)));
    json_set_string(call->arena, line, "object", call->object);
    json_set_bool(call->arena, line, "dryRun", query_bool(call, "dryRun"));
    json_set_int(call->arena, line, "status", status);
    json_write(&text, line);
    audit_line(call->api->config.audit, buf_view(&text));
}
