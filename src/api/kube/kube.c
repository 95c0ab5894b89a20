/* From path and method to the function that answers. */
#include "api/kube/kube.h"

#include "base/clock.h"
#include "objects/lenient.h"
#include "objects/openapi.h"

#include <sys/utsname.h>

#define SEGMENTS_MAX 16
#define BODY_MAX     3145728 /* bytes of a request about objects, as Kubernetes has it */

static const struct method {
    const char *http;
    const char *verb, *collection_verb;
    unsigned bit, collection_bit;
    void (*one)(struct call *call, const struct route *route);
    void (*collection)(struct call *call, const struct route *route);
} methods[] = {
    {"GET", "get", "list", VERB_GET, VERB_LIST, object_get, collection_list},
    {"HEAD", "get", "list", VERB_GET, VERB_LIST, object_get, collection_list},
    {"POST", "create", "create", VERB_CREATE, VERB_CREATE, object_create, object_create},
    {"PUT", "update", NULL, VERB_UPDATE, 0, object_update, NULL},
    {"PATCH", "patch", NULL, VERB_PATCH, 0, object_patch, NULL},
    {"DELETE", "delete", "deletecollection", VERB_DELETE, VERB_DELETE_COLLECTION, object_delete,
     collection_delete},
};

static const struct method *method_of(const char *http)
{
    for (size_t i = 0; i < ARRAY_LEN(methods); i++)
        if (streq(methods[i].http, http))
            return &methods[i];
    return NULL;
}

/* The decoded segments of a path. -1: not a path we could have. */
static int split_path(struct arena *arena, const char *path, const char *segments[SEGMENTS_MAX])
{
    struct str rest = str_from(path + 1), part;
    int count = 0;

    while (str_split(&rest, '/', &part)) {
        CLEANUP(buf_done) struct buf text = {0};

        if (!part.len && !rest.len)
            break;
        if (count == SEGMENTS_MAX || !buf_url_decode(&text, part, false) ||
            memchr(buf_view(&text).s, '/', text.len))
            return -1;
        segments[count++] = arena_strndup(arena, buf_view(&text).s, text.len);
    }
    return count;
}

/* Segments after the group and version. */
static bool find_route(const char *group, const char *version, const char **segments, int count,
                       struct route *ret)
{
    struct str g = str_from(group), v = str_from(version);

    *ret = (struct route){.ns = "", .name = ""};
    if (count >= 3 && streq(segments[0], "namespaces") &&
        !(count == 3 && *group == 0 && kind_subresource(kind_by_id(KIND_NAMESPACE), str_from(segments[2])))) {
        ret->ns = segments[1];
        segments += 2;
        count -= 2;
    }
    if (count < 1 || count > 3)
        return false;
    ret->published = !*group && streq(version, "v1") && streq(segments[0], LENIENT_JOBS);
    ret->kind = ret->published ? kind_by_id(KIND_JOB) : kind_by_plural(g, v, str_from(segments[0]));
    if (!ret->kind || (*ret->ns && !ret->kind->namespaced))
        return false;
    if (count > 1)
        ret->name = segments[1];
    if (count > 2) {
        ret->sub = kind_subresource(ret->kind, str_from(segments[2]));
        if (!ret->sub)
            return false;
    }
    /* A namespaced object has a namespace. */
    return !(ret->kind->namespaced && *ret->name && !*ret->ns);
}

static void not_allowed(struct call *call)
{
    failure_generic(&call->failure, call->arena, 405, "MethodNotAllowed",
                    "the server does not allow this method on the requested resource");
    call_fail(call);
}

static void dispatch(struct call *call, const struct route *route)
{
    const struct method *method = method_of(call->req->method);
    unsigned offered = route->sub ? route->sub->verbs : route->kind->verbs;
    bool one = *route->name;
    bool watch = method && method->bit == VERB_GET && !one && query_bool(call, "watch");
    struct access access = {
        .kind = route->kind,
        .subresource = route->sub ? route->sub->name : "",
        .ns = route->ns,
        .name = route->name,
    };
    unsigned bit;

    if (!method || (!one && !method->collection) || (one && method->bit == VERB_CREATE && !route->sub) ||
        (!one && method->bit != VERB_GET && route->kind->namespaced && !*route->ns)) {
        not_allowed(call);
        return;
    }
    call->route =
        (struct traffic_route){.kind = route->kind, .watch = watch, .one = one, .sub = route->sub != NULL};
    bit = watch ? VERB_WATCH : one ? method->bit : method->collection_bit;
    access.verb = watch ? "watch" : one ? method->verb : method->collection_verb;
    if (access_check(call->registry, &call->who, &access, call->arena, &call->failure) < 0) {
        call_fail(call);
        return;
    }
    if (!(offered & bit)) {
        not_allowed(call);
        return;
    }
    if (call->req->body.len > BODY_MAX) {
        failure_set(&call->failure, call->arena, 413, "RequestEntityTooLarge",
                    "Request entity too large: limit is %d", BODY_MAX);
        call_fail(call);
        return;
    }
    if (!route->kind->stored)
        review_handle(call, route);
    else if (route->sub && pod_subresource(call, route))
        return;
    else if (watch)
        watch_begin(call, route);
    else if (one)
        method->one(call, route);
    else
        method->collection(call, route);
}

static void reply_text(struct call *call, const char *content_type, struct str text)
{
    struct buf body = {0};

    if (!text.s) {
        call_not_found(call);
        return;
    }
    buf_str(&body, text);
    call_reply(call, 200, content_type, &body);
}

/* "/api" and "/apis": the aggregated form where it is asked for. */
static void discovery_root(struct call *call, const char *root)
{
    const char *accept = http_req_header(call->req, "Accept");
    struct str rest = str_from(accept), item;

    while (str_split(&rest, ',', &item)) {
        char *text = arena_strndup(call->arena, item.s, item.len);

        if (strstr(text, "g=apidiscovery.k8s.io") && strstr(text, "as=APIGroupDiscoveryList")) {
            const char *version = strstr(text, "v=v2beta1") ? "v2beta1" : "v2";
            struct str doc = discovery_aggregated(root, version);

            if (doc.s) {
                reply_text(
                    call,
                    arena_printf(call->arena,
                                 "application/json;g=apidiscovery.k8s.io;v=%s;as=APIGroupDiscoveryList",
                                 version),
                    doc);
                return;
            }
        } else if (strstr(text, "application/json") || strstr(text, "*/*")) {
            break;
        }
    }
    reply_text(call, "application/json", discovery_legacy_root(root));
}

static void openapi(struct call *call, const char **segments, int count)
{
    CLEANUP(buf_done) struct buf path = {0};

    if (count == 2 && streq(segments[1], "v2")) {
        reply_text(call, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", openapi_v2_protobuf());
        return;
    }
    if (count >= 2 && streq(segments[1], "v3")) {
        for (int i = 2; i < count; i++)
            buf_printf(&path, "%s%s", i > 2 ? "/" : "", segments[i]);
        reply_text(call, "application/json",
                   count == 2 ? openapi_v3_index() : openapi_v3_document(path.data));
        return;
    }
    reply_text(call, NULL, (struct str){0});
}

static void version(struct call *call)
{
    struct json *doc = json_new_object(call->arena);
    struct utsname machine;

    uname(&machine);
    json_set_string(call->arena, doc, "major", "1");
    json_set_string(call->arena, doc, "minor", "33");
    json_set_string(call->arena, doc, "gitVersion", "v1.33.0-berth." BERTH_VERSION);
    json_set_string(call->arena, doc, "gitCommit", "");
    json_set_string(call->arena, doc, "gitTreeState", "clean");
    json_set_string(call->arena, doc, "buildDate", "1970-01-01T00:00:00Z");
    json_set_string(call->arena, doc, "goVersion", "");
    json_set_string(call->arena, doc, "compiler", "c");
    json_set_string(call->arena, doc, "platform",
                    streq(machine.machine, "aarch64") ? "linux/arm64" : "linux/amd64");
    call_reply_json(call, 200, doc);
}

static bool is_health(const char *path)
{
    return streq(path, "/healthz") || streq(path, "/readyz") || streq(path, "/livez");
}

static bool is_excluded(const struct call *call, const char *name)
{
    const char *value;

    for (size_t i = 0; (value = http_query(call->req, "exclude", i)); i++)
        if (streq(value, name))
            return true;
    return false;
}

/* "[+]disk ok", as Kubernetes' servers write it, and "[!]" for what is wrong without being fatal. Why, is for
 * those who are known. */
static bool write_checks(struct call *call, struct buf *out)
{
    const struct api_hooks *hooks = &call->api->config.hooks;
    struct api_check checks[API_CHECKS_MAX];
    size_t count = hooks->checks ? hooks->checks(hooks->arg, call->arena, checks, API_CHECKS_MAX) : 0;
    bool good = true;

    buf_puts(out, "[+]ping ok\n");
    for (size_t i = 0; i < count; i++) {
        const char *text = access_is_known(&call->who) ? checks[i].text : "reason withheld";

        if (is_excluded(call, checks[i].name))
            buf_printf(out, "[+]%s excluded: ok\n", checks[i].name);
        else if (checks[i].state == API_CHECK_OK)
            buf_printf(out, "[+]%s ok\n", checks[i].name);
        else if (checks[i].state == API_CHECK_WARN)
            buf_printf(out, "[!]%s warning: %s\n", checks[i].name, text);
        else {
            buf_printf(out, "[-]%s failed: %s\n", checks[i].name, text);
            good = false;
        }
    }
    return good;
}

/* Alive is who answers; ready is who can do what it is there for. Neither waits for the disk: what it last
 * said is a fact among the others. */
static void health(struct call *call)
{
    const char *name = call->req->path + 1;
    struct buf body = {0};
    bool good = true;

    call->at_once = call->no_store = true;
    if (streq(name, "readyz"))
        good = write_checks(call, &body);
    else
        buf_puts(&body, "[+]ping ok\n");
    if (!good || query_bool(call, "verbose")) {
        buf_printf(&body, "%s check %s\n", name, good ? "passed" : "failed");
    } else {
        buf_clear(&body);
        buf_puts(&body, "ok");
    }
    call_reply(call, good ? 200 : 503, "text/plain; charset=utf-8", &body);
}

/* "/api/state" is the old queue page's. */
bool kube_serves(const struct call *call)
{
    static const char *const roots[] = {"/api", "/apis", "/openapi"};
    const char *path = call->req->path;

    if (streq(path, "/api/state") || starts_with(path, "/api/state/"))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
        size_t len = strlen(roots[i]);

        if (strncmp(path, roots[i], len) == 0 && (path[len] == '/' || !path[len]))
            return true;
    }
    return streq(path, "/version") || is_health(path);
}

bool kube_handle(struct call *call)
{
    const char *path = call->req->path;
    const char *segments[SEGMENTS_MAX];
    struct access access = {.verb = "get", .subresource = "", .ns = "", .name = "", .path = path};
    struct route route;
    int count = split_path(call->arena, path, segments);
    int skip;

    if (count < 0 && starts_with(path, "/api")) {
        call_not_found(call);
        return true;
    }
    if (count < 1 || (!streq(segments[0], "api") && !streq(segments[0], "apis") &&
                      !streq(segments[0], "openapi") && !streq(path, "/version") && !is_health(path)))
        return false;
    /* "/api/state" is the old queue page's. */
    if (streq(segments[0], "api") && count >= 2 && streq(segments[1], "state"))
        return false;
    skip = streq(segments[0], "api") ? 2 : 3;
    if (count > skip && !streq(segments[0], "openapi")) {
        const char *group = skip == 2 ? "" : segments[1];

        if (find_route(group, segments[skip - 1], segments + skip, count - skip, &route)) {
            dispatch(call, &route);
            return true;
        }
    }
    if (access_check(call->registry, &call->who, &access, call->arena, &call->failure) < 0) {
        call_fail(call);
        return true;
    }
    if (!streq(call->req->method, "GET") && !streq(call->req->method, "HEAD") && count <= skip)
        not_allowed(call);
    else if (skip == 3 && streq(segments[0], "apis") && count > 1 && !discovery_legacy_group(segments[1]).s)
        call_page_not_found(call);
    else if (is_health(path))
        health(call);
    else if (streq(path, "/version"))
        version(call);
    else if (streq(segments[0], "openapi"))
        openapi(call, segments, count);
    else if (count == 1)
        discovery_root(call, streq(segments[0], "api") ? "/api" : "/apis");
    else if (skip == 2 && count == 2)
        reply_text(call, "application/json", discovery_legacy_resources("", segments[1]));
    else if (skip == 3 && count == 2)
        reply_text(call, "application/json", discovery_legacy_group(segments[1]));
    else if (skip == 3 && count == 3)
        reply_text(call, "application/json", discovery_legacy_resources(segments[1], segments[2]));
    else
        reply_text(call, NULL, (struct str){0});
    return true;
}
