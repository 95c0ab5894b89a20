/* /v1/openapi.json: made from a table of operations and the schemas of openapi_schemas.c (YAML text, since
 * that is what people read). tests/e2e/test_openapi.py holds it against the routes and the answers. */
#include "api/rest/openapi.h"

#include "base/yaml.h"

static const struct operation {
    const char *method, *path, *tag, *summary;
    const char *query;    /* "name", "name:integer", "name:boolean", separated by spaces; "" none */
    const char *request;  /* schema; NULL: no body */
    int status;           /* of success */
    const char *response; /* schema; "text", "events", "gzip": no JSON; "any": an object */
    const char *errors;   /* statuses beside 401 and 403 */
} operations[] = {
    {"get", "/v1/openapi.json", "server", "This document", "", NULL, 200, "any", ""},
    {"get", "/v1/status", "server", "Version, addresses, what the daemon holds", "", NULL, 200, "Status", ""},
    {"get", "/metrics", "server", "Numbers for Prometheus", "", NULL, 200, "text", ""},
    {"get", "/v1/backup", "server", "A backup as a gzipped tar: objects, history, tokens, certificates", "",
     NULL, 200, "gzip", "409 503"},
    {"post", "/v1/prune", "server", "Let finished work go now, by the policy or by these limits (admins)",
     "dryRun:boolean", "Prune", 200, "Pruned", "400 422"},
    {"post", "/v1/apply", "server", "Create or change what manifests describe", "namespace dryRun:boolean",
     "Manifests", 200, "Applied", "400"},
    {"get", "/v1/access", "server", "The table of who may do what", "", NULL, 200, "any", ""},
    {"get", "/v1/users", "users", "List users", "", NULL, 200, "UserList", ""},
    {"post", "/v1/users", "users", "Add a user with a namespace and a certificate", "", "NewUser", 201,
     "User", "200 400 409 422 429 503"},
    {"get", "/v1/users/{id}", "users", "Show a user", "", NULL, 200, "UserState", "404"},
    {"patch", "/v1/users/{id}", "users", "Disable or enable a user, set their groups", "", "UserChange", 200,
     "UserState", "400 404 409"},
    {"delete", "/v1/users/{id}", "users", "Remove a user: credentials, work, namespace", "", NULL, 200, "any",
     "404 409"},
    {"get", "/v1/tokens", "users", "List tokens", "user", NULL, 200, "TokenList", ""},
    {"post", "/v1/tokens", "users", "Make a token; it is shown this once", "", "NewToken", 201, "Token",
     "400 422 429"},
    {"delete", "/v1/tokens/{id}", "users", "Make a token and all it made invalid", "", NULL, 200, "any",
     "404"},
    {"post", "/v1/kubeconfig", "users", "A kubeconfig for the caller, or (admins) for `user`", "",
     "NewKubeconfig", 201, "Kubeconfig", "400 429 503"},
    {"get", "/v1/certificates", "users", "List client certificates", "user", NULL, 200, "TokenList", ""},
    {"post", "/v1/certificates/{id}/renew", "users",
     "A new certificate of the same family; `self`: of the one the request comes with", "", NULL, 201,
     "Kubeconfig", "404 429 503"},
    {"delete", "/v1/certificates/{id}", "users", "Make a certificate, its family and all they made invalid",
     "", NULL, 200, "any", "404"},
    {"get", "/v1/page/session", "users", "Who is signed in to the page", "", NULL, 200, "any", ""},
    {"post", "/v1/page/session", "users", "Sign in to the page", "", "any", 201, "any", "400 401 429"},
    {"delete", "/v1/page/session", "users", "Sign out of the page", "", NULL, 200, "any", ""},
    {"post", "/v1/page/links", "users", "A link that signs a browser in", "", NULL, 201, "any", "400"},

    {"get", "/v1/task-templates", "tasks", "List task templates", "", NULL, 200, "TaskTemplateList", ""},
    {"post", "/v1/task-templates", "tasks", "Make a task template (admins)", "dryRun:boolean",
     "NewTaskTemplate", 201, "TaskTemplate", "400 409 422"},
    {"get", "/v1/task-templates/{name}", "tasks", "Show a task template", "", NULL, 200, "TaskTemplate",
     "404"},
    {"put", "/v1/task-templates/{name}", "tasks", "Make or replace a task template (admins)",
     "dryRun:boolean", "NewTaskTemplate", 200, "TaskTemplate", "201 400 409 422"},
    {"delete", "/v1/task-templates/{name}", "tasks", "Delete a task template (admins)", "dryRun:boolean",
     NULL, 200, "any", "404"},
    {"get", "/v1/task-definitions", "tasks", "List task definitions",
     "creator application task_template_name namespace", NULL, 200, "TaskDefinitionList", ""},
    {"post", "/v1/task-definitions", "tasks", "Register a task definition; its example is tried",
     "namespace dryRun:boolean", "NewTaskDefinition", 201, "TaskDefinition", "400 404 409 422"},
    {"get", "/v1/task-definitions/{name}", "tasks", "Show a task definition", "namespace", NULL, 200,
     "TaskDefinition", "404 409"},
    {"put", "/v1/task-definitions/{name}", "tasks", "Replace a task definition", "namespace dryRun:boolean",
     "NewTaskDefinition", 200, "TaskDefinition", "400 404 409 422"},
    {"delete", "/v1/task-definitions/{name}", "tasks", "Delete a task definition", "namespace dryRun:boolean",
     NULL, 200, "any", "404 409"},
    {"get", "/v1/task-definitions/{name}/schema", "tasks", "What is to be filled in, as JSON Schema",
     "namespace", NULL, 200, "any", "404 409"},
    {"get", "/v1/jobs", "tasks", "List tasks, newest first",
     "creator application taskDef status user namespace limit:integer after", NULL, 200, "TaskList", "400"},
    {"post", "/v1/jobs", "tasks", "Start a task from filled values", "namespace dryRun:boolean",
     "FilledValues", 201, "NewTask", "200 400 404 409 410 422"},
    {"get", "/v1/jobs/{id}", "tasks", "Show a task: state, values, objects, callbacks", "namespace", NULL,
     200, "Task", "404"},
    {"delete", "/v1/jobs/{id}", "tasks", "Delete a task and what it made", "namespace dryRun:boolean", NULL,
     200, "any", "404 409"},
    {"get", "/v1/jobs/{id}/logs", "tasks", "What the task's newest pod has written",
     "namespace container follow:boolean tail:integer timestamps:boolean", NULL, 200, "text",
     "400 404 409 503"},
    {"post", "/v1/jobs/{id}/rerun", "tasks", "Start a task again, with changed values",
     "namespace dryRun:boolean", "ChangedValues", 201, "NewTask", "200 400 404 409 410 422"},
    {"post", "/v1/render", "tasks", "Render a Jinja text with values", "", "RenderRequest", 200, "Rendered",
     "400 404 422"},

    {"get", "/v1/queue", "queue", "Running and waiting jobs, in queue order", "user state", NULL, 200,
     "Queue", "400 422"},
    {"get", "/v1/queue/stream", "queue", "Changes of the queue as server-sent events", "", NULL, 200,
     "events", ""},
    {"get", "/v1/queue/{id}", "queue", "A job with its history", "", NULL, 200, "Job", "404 409"},
    {"get", "/v1/queue/{id}/why", "queue", "Why a job waits", "", NULL, 200, "any", "404 409"},
    {"get", "/v1/queue/{id}/logs", "queue", "What a job has written",
     "follow:boolean tail:integer previous:boolean", NULL, 200, "text", "400 404 409 503"},
    {"post", "/v1/queue/{id}/cancel", "queue", "Cancel a job", "", NULL, 200, "Job", "404 409"},
    {"post", "/v1/queue/{id}/priority", "queue", "Change a job's priority", "", "Priority", 200, "Job",
     "400 404 409 422"},
    {"post", "/v1/queue/{id}/claim", "queue", "Claim a place for a job", "", NULL, 200, "Job", "404 409 422"},
    {"post", "/v1/queue/{id}/rerun", "queue", "Run a job again", "", NULL, 200, "Job", "201 404 409 422"},
    {"post", "/v1/train", "queue", "Start a training job from run-scheduler's options", "dryRun:boolean",
     "any", 201, "any", "200 400 404 409 410 422"},
    {"get", "/v1/train/options", "queue", "run-scheduler's options", "", NULL, 200, "any", ""},
    {"post", "/v1/train/{id}/log", "queue", "Metrics of a training job", "", "any", 200, "any",
     "400 404 409 422"},
    {"get", "/v1/nodes", "queue", "Machines and their cards", "", NULL, 200, "NodeList", ""},
    {"get", "/v1/nodes/timeline", "queue", "Who had which card when", "from to", NULL, 200, "any", "400"},
    {"get", "/v1/history", "queue", "Finished jobs, newest first",
     "user mine state from to limit:integer after format", NULL, 200, "any", "400 422"},
    {"get", "/v1/usage", "queue", "GPU hours by user", "from to by", NULL, 200, "any", "400"},

    {"get", "/v1/inbox", "inbox", "What happened to the caller's work, newest first",
     "user unseen:boolean limit:integer", NULL, 200, "Inbox", "422 503"},
    {"post", "/v1/inbox/seen", "inbox", "Mark items as seen, up to an id or all", "user", "InboxSeen", 200,
     "InboxUnseen", "400 422 503"},
    {"get", "/v1/notify", "inbox", "Where what happens is sent", "user", NULL, 200, "Notify", "503"},
    {"put", "/v1/notify", "inbox", "Change where what happens is sent; members that are absent stay", "user",
     "NewNotify", 200, "Notify", "400 503"},
    {"post", "/v1/notify/test", "inbox", "Send a test message to all that is set", "user", NULL, 200,
     "Notify", "404 503"},

    {"get", "/v1/images", "machine", "Images of this machine", "", NULL, 200, "any", "503"},
    {"delete", "/v1/images", "machine", "Remove an image", "name local:boolean", NULL, 200, "any",
     "400 404 409 422 503"},
    {"post", "/v1/images/pull", "machine", "Pull an image", "name progress:boolean", NULL, 200, "text",
     "503"},
    {"post", "/v1/images/gc", "machine", "Remove images that nobody uses (admins)", "", NULL, 200, "any",
     "400 503"},
    {"get", "/v1/images/import", "machine", "Take an image in over an upgraded connection",
     "name progress:boolean", NULL, 200, "any", "400 404 409 422 426 503"},
    {"get", "/v1/logins", "machine", "Registries one is signed in to", "secrets:boolean", NULL, 200, "any",
     "503"},
    {"post", "/v1/logins", "machine", "Sign in to a registry", "", "any", 200, "any",
     "201 400 404 422 502 503"},
    {"delete", "/v1/logins", "machine", "Sign out of a registry", "registry machine:boolean", NULL, 200,
     "any", "400 404 422 503"},
    {"get", "/v1/files", "machine", "The caller's files, over an upgraded connection", "", NULL, 200, "any",
     "400 404 409 422 426 503"},
};

static struct json *ref_to(struct arena *arena, const char *schema)
{
    struct json *ref = json_new_object(arena);

    if (streq(schema, "any"))
        json_set_string(arena, ref, "type", "object");
    else
        json_set_string(arena, ref, "$ref", arena_printf(arena, "#/components/schemas/%s", schema));
    return ref;
}

static void add_content(struct arena *arena, struct json *at, const char *type, const struct json *schema)
{
    struct json *content = json_set_object(arena, at, "content");

    json_set(arena, json_set_object(arena, content, type), "schema", *schema);
}

static void add_parameter(struct arena *arena, struct json *list, struct str name, const char *in,
                          const char *type)
{
    struct json *parameter = json_push_object(arena, list);

    json_set(arena, parameter, "name", json_of_str(arena, name));
    json_set_string(arena, parameter, "in", in);
    if (streq(in, "path"))
        json_set_bool(arena, parameter, "required", true);
    json_set_string(arena, json_set_object(arena, parameter, "schema"), "type", type);
}

static struct json *parameters_of(struct arena *arena, const struct operation *operation)
{
    struct json *list = json_new_array(arena);
    struct str rest = str_from(operation->query), word, name;
    const char *open = strchr(operation->path, '{'), *close = open ? strchr(open, '}') : NULL;

    if (close)
        add_parameter(arena, list, (struct str){open + 1, (size_t)(close - open) - 1}, "path", "string");
    while (rest.len && str_split(&rest, ' ', &word)) {
        str_split(&word, ':', &name);
        add_parameter(arena, list, name, "query", word.s ? arena_strndup(arena, word.s, word.len) : "string");
    }
    return list;
}

static void add_answer(struct arena *arena, struct json *responses, const char *status,
                       const struct operation *operation)
{
    static const char *const types[][2] = {
        {"text", "text/plain"}, {"events", "text/event-stream"}, {"gzip", "application/gzip"}};
    struct json *answer = json_set_object(arena, responses, status);
    struct json text = {0};

    if (status[0] != '2') {
        json_set_string(arena, answer, "description", "Refused, with the reason");
        add_content(arena, answer, "application/json", ref_to(arena, "Error"));
        return;
    }
    json_set_string(arena, answer, "description", "Done");
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (streq(operation->response, types[i][0])) {
            text = *json_new_object(arena);
            json_set_string(arena, &text, "type", "string");
            add_content(arena, answer, types[i][1], &text);
            return;
        }
    add_content(arena, answer, "application/json", ref_to(arena, operation->response));
}

static struct json *operation_doc(struct arena *arena, const struct operation *operation)
{
    struct json *doc = json_new_object(arena), *responses, *body;
    struct str rest = str_from(operation->errors), status;

    json_push_string(arena, json_set_array(arena, doc, "tags"), operation->tag);
    json_set_string(arena, doc, "summary", operation->summary);
    json_set(arena, doc, "parameters", *parameters_of(arena, operation));
    if (operation->request) {
        body = json_set_object(arena, doc, "requestBody");
        json_set_bool(arena, body, "required",
                      !streq(operation->request, "ChangedValues") && !streq(operation->request, "InboxSeen"));
        add_content(arena, body,
                    streq(operation->request, "Manifests") ? "application/yaml" : "application/json",
                    ref_to(arena, operation->request));
    }
    responses = json_new_object(arena);
    add_answer(arena, responses, arena_printf(arena, "%d", operation->status), operation);
    while (rest.len && str_split(&rest, ' ', &status))
        add_answer(arena, responses, arena_strndup(arena, status.s, status.len), operation);
    add_answer(arena, responses, "401", operation);
    add_answer(arena, responses, "403", operation);
    json_set(arena, doc, "responses", *responses);
    return doc;
}

struct json *openapi_v1(struct arena *arena)
{
    struct json *doc = json_new_object(arena), *info, *paths, *schemas = NULL, *security;

    json_set_string(arena, doc, "openapi", "3.0.3");
    info = json_set_object(arena, doc, "info");
    json_set_string(arena, info, "title", "Berth");
    json_set_string(arena, info, "version", BERTH_VERSION);
    json_set_string(arena, info, "description",
                    "Berth's own addresses. The Kubernetes API beside them is described at /openapi/v3.");
    paths = json_new_object(arena);
    for (size_t i = 0; i < ARRAY_LEN(operations); i++) {
        struct json *path = json_need_object(arena, paths, operations[i].path);

        json_set(arena, path, operations[i].method, *operation_doc(arena, &operations[i]));
    }
    json_set(arena, doc, "paths", *paths);
    if (yaml_parse_one(str_from(openapi_schemas), arena, &schemas, NULL) == 0)
        json_set(arena, json_set_object(arena, doc, "components"), "schemas", *schemas);
    security = json_set_object(arena, json_get(doc, "components"), "securitySchemes");
    security = json_set_object(arena, security, "token");
    json_set_string(arena, security, "type", "http");
    json_set_string(arena, security, "scheme", "bearer");
    security = json_push_object(arena, json_set_array(arena, doc, "security"));
    json_set_array(arena, security, "token");
    return doc;
}

void rest_openapi(struct call *call, const char *id)
{
    (void)id;
    call_reply_json(call, 200, openapi_v1(call->arena));
}
