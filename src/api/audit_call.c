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

/* Requests that ask with a body, and change nothing. A query proves nothing: not every route knows dryRun. */
static bool only_asks(const struct call *call)
{
    return streq(call->req->path, "/v1/render") ||
           starts_with(call->req->path, "/apis/authorization.k8s.io/") ||
           starts_with(call->req->path, "/apis/authentication.k8s.io/");
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

/* What an answer under /v1 is about, where the path does not say it: whose credential, which object. */
void call_about(struct call *call, const struct json *answer)
{
    static const char *const pairs[][2] = {
        {"namespace", "name"}, {"namespace", "task_id"}, {"user", "id"}, {NULL, "name"}};

    for (size_t i = 0; i < ARRAY_LEN(pairs) && !call->object; i++) {
        const char *of = pairs[i][0] ? json_get_string(answer, pairs[i][0]) : "";
        const char *name = json_get_string(answer, pairs[i][1]);

        if (of && name)
            call->object = arena_printf(call->arena, "%s%s%s", of, *of ? "/" : "", name);
    }
}

/* Of several, as many as a line holds. */
void call_about_all(struct call *call, const struct json *answers)
{
    CLEANUP(buf_done) struct buf text = {0};

    JSON_EACH(answers, it) {
        const char *ns = json_get_string(it, "namespace"), *name = json_string_or(json_get(it, "name"), "");

        if (text.len + strlen(name) > PATH_SHOWN_MAX) {
            buf_puts(&text, " …");
            break;
        }
        buf_printf(&text, "%s%s %s%s%s", text.len ? ", " : "", json_string_or(json_get(it, "kind"), ""),
                   ns ? ns : "", ns ? "/" : "", name);
    }
    if (text.len)
        call->object = arena_strndup(call->arena, text.data, text.len);
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
