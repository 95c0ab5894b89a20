/* Kinds that are questions: what may I do, who am I, how much is used. */
#include "api/kube/kube.h"
#include "base/clock.h"

static void reply_review(struct call *call, const struct kind *kind, struct json *doc)
{
    struct json *answer = json_new_object(call->arena);
    char time[CLOCK_TEXT_MAX];
    struct json *meta;

    json_set_string(call->arena, answer, "kind", kind->name);
    json_set_string(call->arena, answer, "apiVersion", kind_api_version(kind));
    meta = json_set_object(call->arena, answer, "metadata");
    if (kind->id == KIND_SELF_SUBJECT_REVIEW)
        json_set_string(call->arena, meta, "creationTimestamp", clock_format(call->now, time));
    else
        json_set(call->arena, meta, "creationTimestamp", *json_new_null(call->arena));
    JSON_EACH_MEMBER(doc, it)
        if (!streq(it->key, "kind") && !streq(it->key, "apiVersion") && !streq(it->key, "metadata"))
            json_set(call->arena, answer, it->key, it->value);
    call_reply_json(call, 201, answer);
}

static struct str attribute(const struct json *attributes, const char *key)
{
    struct str value = json_str(json_get(attributes, key));

    return value.s ? value : STR("");
}

/* A kind by its plural in whatever version of the group we serve. */
static const struct kind *kind_of(struct str group, struct str plural)
{
    for (size_t i = 0; i < kind_count; i++)
        if (str_is(group, kinds[i].group) && str_is(plural, kinds[i].plural))
            return &kinds[i];
    return NULL;
}

static bool review_access(struct call *call, const struct json *spec, const char **reason)
{
    const struct json *resource = json_get(spec, "resourceAttributes");
    const struct json *path = json_get(spec, "nonResourceAttributes");
    struct access access = {.subresource = "", .ns = "", .name = ""};

    *reason = "";
    if (path) {
        access.verb = json_string_or(json_get(path, "verb"), "");
        access.path = json_string_or(json_get(path, "path"), "");
        return access_allowed(call->registry, &call->who, &access);
    }
    access.verb = attribute(resource, "verb").s;
    access.ns = attribute(resource, "namespace").s;
    access.name = attribute(resource, "name").s;
    access.subresource = attribute(resource, "subresource").s;
    access.kind = kind_of(attribute(resource, "group"), attribute(resource, "resource"));
    if (access_is_admin(&call->who))
        return true;
    if (!access.kind) {
        *reason = "no such resource is served here";
        return false;
    }
    return access_allowed(call->registry, &call->who, &access);
}

static int check_access_spec(struct call *call, const struct kind *kind, const struct json *spec)
{
    const struct json *resource = json_get(spec, "resourceAttributes"),
                      *path = json_get(spec, "nonResourceAttributes");
    struct field_errors errors = {.arena = call->arena};

    if (resource && path)
        field_invalid(&errors, "spec.nonResourceAttributes", path, "%s",
                      "cannot be specified in combination with resourceAttributes");
    else if (!resource && !path)
        field_invalid(&errors, "spec.resourceAttributes", json_new_string(call->arena, "null"), "%s",
                      "exactly one of nonResourceAttributes or resourceAttributes must be specified");
    return field_errors_finish(&errors, &call->failure, kind->group, "", "");
}

static void access_review(struct call *call, const struct kind *kind, struct json *doc)
{
    struct json *status = json_set_object(call->arena, doc, "status");
    const char *reason;

    if (check_access_spec(call, kind, json_get(doc, "spec")) < 0) {
        call_fail(call);
        return;
    }
    json_set_bool(call->arena, status, "allowed", review_access(call, json_get(doc, "spec"), &reason));
    if (*reason)
        json_set_string(call->arena, status, "reason", reason);
    reply_review(call, kind, doc);
}

static void rules_review(struct call *call, const struct kind *kind, struct json *doc)
{
    const char *ns = json_string_or(json_at(doc, "spec.namespace"), "");
    struct json *status, *paths, *rule;

    if (!*ns) {
        failure_bad_request(&call->failure, call->arena, "no namespace on request");
        call_fail(call);
        return;
    }
    json_set_object(call->arena, doc, "spec");
    status = json_set_object(call->arena, doc, "status");
    json_set(call->arena, status, "resourceRules",
             *access_rules(call->registry, &call->who, ns, call->arena));
    paths = json_set_array(call->arena, status, "nonResourceRules");
    rule = json_push_object(call->arena, paths);
    json_push_string(call->arena, json_set_array(call->arena, rule, "verbs"),
                     access_is_admin(&call->who) ? "*" : "get");
    rule = json_item(paths, 0);
    paths = json_set_array(call->arena, rule, "nonResourceURLs");
    if (access_is_admin(&call->who)) {
        json_push_string(call->arena, paths, "*");
    } else {
        static const char *const urls[] = {"/api",   "/api/*",   "/apis",      "/apis/*", "/healthz",
                                           "/livez", "/openapi", "/openapi/*", "/readyz", "/version"};

        for (size_t i = 0; i < ARRAY_LEN(urls); i++)
            json_push_string(call->arena, paths, urls[i]);
    }
    json_set_bool(call->arena, status, "incomplete", false);
    reply_review(call, kind, doc);
}

static void self_review(struct call *call, const struct kind *kind, struct json *doc)
{
    struct json *status = json_set_object(call->arena, doc, "status");
    struct json *user = json_set_object(call->arena, status, "userInfo");
    struct json *groups;

    json_set_string(call->arena, user, "username", call->who.user);
    groups = json_set_array(call->arena, user, "groups");
    for (unsigned i = 0; i < call->who.group_count; i++)
        json_push_string(call->arena, groups, call->who.groups[i]);
    reply_review(call, kind, doc);
}

void review_handle(struct call *call, const struct route *route)
{
    const struct kind *kind = route->kind;
    const char *duplicates = NULL;
    struct err err = {0};
    struct json *doc;

    if (kind->id == KIND_BINDING) {
        pod_binding(call, route);
        return;
    }
    if (kind->id == KIND_POD_METRICS || kind->id == KIND_NODE_METRICS) {
        metrics_handle(call, route);
        return;
    }
    if (body_decode(call, kind, &doc, &duplicates) < 0) {
        call_fail(call);
        return;
    }
    if (schema_check(kind_schema(kind), call->arena, doc, true, NULL, &err) < 0) {
        failure_bad_request(&call->failure, call->arena, "%s in version \"%s\" cannot be handled as a %s: %s",
                            kind->name, kind->version, kind->name, err.msg);
        call_fail(call);
        return;
    }
    if (kind->id == KIND_SELF_SUBJECT_ACCESS_REVIEW)
        access_review(call, kind, doc);
    else if (kind->id == KIND_SELF_SUBJECT_RULES_REVIEW)
        rules_review(call, kind, doc);
    else
        self_review(call, kind, doc);
}
