/* Request bodies: JSON, YAML or protobuf to a document; write and delete options. */
#include "api/kube/kube.h"
#include "base/yaml.h"

#define MANAGER_MAX 128 /* bytes of a field manager's name */

/* "application/json; charset=utf-8" → "application/json" */
static struct str media_type(const struct http_req *req)
{
    struct str rest = str_from(http_req_header(req, "Content-Type")), type;

    if (!str_split(&rest, ';', &type))
        return STR("application/json");
    return str_trim(type);
}

static int decode_any(struct call *call, struct str type, struct json **ret, const char **duplicates,
                      struct err *err)
{
    struct str body = call->req->body;

    if (str_is(type, "application/json") || str_ends(type, "+json")) {
        CLEANUP(buf_done) struct buf dups = {0};

        if (json_parse(body, call->arena, ret, &dups, err) < 0)
            return -1;
        if (dups.len && duplicates)
            *duplicates = arena_strndup(call->arena, dups.data, dups.len);
        return 0;
    }
    if (str_is(type, "application/vnd.kubernetes.protobuf"))
        return schema_from_protobuf(body, call->arena, ret, err);
    return yaml_parse_one(body, call->arena, ret, err);
}

int body_decode(struct call *call, const struct kind *kind, struct json **ret, const char **duplicates)
{
    static const char *const accepted[] = {"application/json", "application/yaml",
                                           "application/vnd.kubernetes.protobuf"};
    struct str type = media_type(call->req);
    struct err err = {0};
    bool known = false;

    for (size_t i = 0; i < ARRAY_LEN(accepted); i++)
        known |= str_is(type, accepted[i]);
    if (!known)
        return failure_set(&call->failure, call->arena, 415, "UnsupportedMediaType",
                           "the body of the request was in an unknown format - accepted media types include: "
                           "application/json, application/yaml, application/vnd.kubernetes.protobuf");
    if (decode_any(call, type, ret, duplicates, &err) < 0)
        return failure_bad_request(&call->failure, call->arena,
                                   "the object provided is unrecognized (must be of type %s): %s", kind->name,
                                   err.msg);
    return 0;
}

/* The options object that Kubernetes names in its refusals. */
static const char *options_kind(const struct call *call)
{
    static const char *const names[][2] = {{"PUT", "UpdateOptions"},
                                           {"PATCH", "PatchOptions"},
                                           {"DELETE", "DeleteOptions"},
                                           {"POST", "CreateOptions"}};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (streq(call->req->method, names[i][0]))
            return names[i][1];
    return "ListOptions";
}

static int field_validation(struct call *call, enum field_validation *ret)
{
    const char *text = query_string(call, "fieldValidation");

    *ret = streq(text, "Strict") ? FIELDS_STRICT : streq(text, "Ignore") ? FIELDS_IGNORE : FIELDS_WARN;
    if (*text && !streq(text, "Strict") && !streq(text, "Ignore") && !streq(text, "Warn")) {
        static const char *const choices[] = {"", "Ignore", "Strict", "Warn", NULL};
        struct field_errors errors = {.arena = call->arena};

        field_unsupported(&errors, "fieldValidation", json_new_string(call->arena, text), choices);
        return field_errors_finish(&errors, &call->failure, "meta.k8s.io", options_kind(call), "");
    }
    return 0;
}

static int dry_run(struct call *call, const char *text, bool *ret)
{
    *ret = streq(text, "All");
    if (*text && !*ret) {
        const char *value = arena_printf(call->arena, "[]string{\"%s\"}", text);
        struct json *causes = json_new_array(call->arena), *cause = json_push_object(call->arena, causes);
        const char *message =
            arena_printf(call->arena, "Unsupported value: %s: supported values: \"All\"", value);

        json_set_string(call->arena, cause, "reason", "FieldValueNotSupported");
        json_set_string(call->arena, cause, "message", message);
        json_set_string(call->arena, cause, "field", "dryRun");
        failure_set(&call->failure, call->arena, 422, "Invalid", "%s.meta.k8s.io \"\" is invalid: dryRun: %s",
                    options_kind(call), message);
        call->failure.group = "meta.k8s.io";
        call->failure.kind = options_kind(call);
        call->failure.causes = causes;
        return -1;
    }
    return 0;
}

/* Names of field managers are printable and short. */
static int check_manager(struct call *call, const char *manager)
{
    struct field_errors errors = {.arena = call->arena};
    size_t at = 0;

    if (strlen(manager) > MANAGER_MAX)
        field_too_long(&errors, "fieldManager", MANAGER_MAX);
    while (manager[at] && (unsigned char)manager[at] >= ' ' && manager[at] != 0x7f)
        at++;
    if (manager[at])
        field_invalid(&errors, "fieldManager", json_new_string(call->arena, manager),
                      "invalid character U+%04X (at position %zu)", (unsigned)(unsigned char)manager[at], at);
    return field_errors_finish(&errors, &call->failure, "meta.k8s.io", options_kind(call), "");
}

/* Who writes, where it was not said: the first word of the user agent. */
static const char *manager_of(struct call *call, const char *fallback)
{
    const char *given = query_string(call, "fieldManager");
    const char *agent = http_req_header(call->req, "User-Agent");

    if (*given)
        return given;
    if (fallback)
        return fallback;
    if (!agent || !*agent)
        return "unknown";
    return arena_strndup(call->arena, agent, strcspn(agent, "/ "));
}

int body_write(struct call *call, struct write *ret, const struct route *route, const char *default_manager)
{
    *ret = (struct write){
        .who = &call->who,
        .manager = manager_of(call, default_manager),
        .subresource = route->sub ? route->sub->name : "",
        .force = query_bool(call, "force"),
        .now = call->now,
        .arena = call->arena,
        .warnings = call->warnings,
        .failure = &call->failure,
    };
    if (check_manager(call, ret->manager) < 0 || field_validation(call, &ret->validation) < 0)
        return -1;
    /* Options of a deletion are all in its body, or all in the query. */
    if (streq(call->req->method, "DELETE"))
        return 0;
    return dry_run(call, query_string(call, "dryRun"), &ret->dry_run);
}

static int propagation(struct call *call, const char *text, enum propagation *ret)
{
    static const char *const choices[] = {"Foreground", "Background", "Orphan", "nil", NULL};
    static const enum propagation values[] = {PROPAGATE_FOREGROUND, PROPAGATE_BACKGROUND, PROPAGATE_ORPHAN};
    struct field_errors errors = {.arena = call->arena};

    for (size_t i = 0; i < ARRAY_LEN(values); i++)
        if (streq(text, choices[i])) {
            *ret = values[i];
            return 0;
        }
    field_unsupported(&errors, "propagationPolicy", json_new_string(call->arena, text), choices);
    return field_errors_finish(&errors, &call->failure, "meta.k8s.io", "DeleteOptions", "");
}

static int delete_query(struct call *call, struct delete_options *ret)
{
    const char *grace = query_string(call, "gracePeriodSeconds");
    const char *policy = query_string(call, "propagationPolicy");

    if (*grace) {
        ret->has_grace = true;
        if (!str_to_int(str_from(grace), &ret->grace_sec))
            return failure_bad_request(&call->failure, call->arena,
                                       "strconv.ParseInt: parsing \"%s\": invalid syntax", grace);
    }
    if (*policy && propagation(call, policy, &ret->propagation) < 0)
        return -1;
    if (query_bool(call, "orphanDependents"))
        ret->propagation = PROPAGATE_ORPHAN;
    return 0;
}

int body_delete_options(struct call *call, struct delete_options *ret, bool *ret_dry_run)
{
    struct json *doc, *value;
    struct err err = {0};

    *ret = (struct delete_options){0};
    if (!call->req->body.len)
        return dry_run(call, query_string(call, "dryRun"), ret_dry_run) < 0 || delete_query(call, ret) < 0
                   ? -1
                   : 0;
    if (decode_any(call, media_type(call->req), &doc, NULL, &err) < 0 ||
        schema_check(schema_type_find("DeleteOptions"), call->arena, doc, true, NULL, &err) < 0)
        return failure_bad_request(&call->failure, call->arena,
                                   "DeleteOptions in version \"v1\" cannot be handled as a DeleteOptions: %s",
                                   err.msg);
    if (!streq(json_string_or(json_get(doc, "kind"), "DeleteOptions"), "DeleteOptions"))
        return failure_bad_request(&call->failure, call->arena,
                                   "no kind \"%s\" is registered for version \"%s\" in scheme "
                                   "\"pkg/runtime/scheme.go:110\"",
                                   json_get_string(doc, "kind"),
                                   json_string_or(json_get(doc, "apiVersion"), ""));
    if ((value = json_get(doc, "gracePeriodSeconds"))) {
        ret->has_grace = true;
        ret->grace_sec = json_int(value, 0);
    }
    if ((value = json_get(doc, "propagationPolicy")) &&
        propagation(call, json_string_or(value, ""), &ret->propagation) < 0)
        return -1;
    if (value && json_get(doc, "orphanDependents")) {
        struct field_errors errors = {.arena = call->arena};

        field_invalid(&errors, "propagationPolicy", value, "%s",
                      "orphanDependents and deletionPropagation cannot be both set");
        return field_errors_finish(&errors, &call->failure, "meta.k8s.io", "DeleteOptions", "");
    }
    if (json_bool(json_get(doc, "orphanDependents")))
        ret->propagation = PROPAGATE_ORPHAN;
    if (dry_run(call, json_string_or(json_item(json_get(doc, "dryRun"), 0), ""), ret_dry_run) < 0)
        return -1;
    ret->uid = json_at_string(doc, "preconditions.uid");
    ret->resource_version = json_at_string(doc, "preconditions.resourceVersion");
    return 0;
}
