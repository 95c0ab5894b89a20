/* One object: get, create, update, patch, delete; and the forms of an answer. */
#include "api/kube/kube.h"
#include "base/clock.h"
#include "base/yaml.h"
#include "objects/lenient.h"
#include "objects/table.h"

int accept_form(struct call *call, enum form *ret)
{
    const char *accept = http_req_header(call->req, "Accept");
    struct str rest = str_from(accept), item;

    *ret = FORM_JSON;
    if (!accept || !*accept)
        return 0;
    while (str_split(&rest, ',', &item)) {
        const char *text = arena_strndup(call->arena, str_trim(item).s, str_trim(item).len);

        if (starts_with(text, "application/json") && strstr(text, "as=Table") &&
            (strstr(text, "v=v1;") || strstr(text, "v=v1beta1") || ends_with(text, "v=v1"))) {
            *ret = FORM_TABLE;
            return 0;
        }
        if (starts_with(text, "application/json") && strstr(text, "as=PartialObjectMetadata")) {
            *ret = FORM_PARTIAL;
            return 0;
        }
        if (strstr(text, "as="))
            continue;
        if (starts_with(text, "application/json") || starts_with(text, "*/*") ||
            starts_with(text, "application/*"))
            return 0;
        if (starts_with(text, "application/yaml")) {
            *ret = FORM_YAML;
            return 0;
        }
    }
    if (strstr(accept, "as="))
        return failure_set(&call->failure, call->arena, 406, "NotAcceptable",
                           "only the following media types are accepted: application/json, application/yaml, "
                           "application/vnd.kubernetes.protobuf");
    return failure_generic(
        &call->failure, call->arena, 406, "NotAcceptable",
        "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf");
}

int table_include_of(struct call *call, enum form form, enum table_include *ret)
{
    const char *text = query_string(call, "includeObject");

    if (form == FORM_TABLE && *text && !streq(text, "None") && !streq(text, "Object") &&
        !streq(text, "Metadata"))
        return failure_bad_request(
            &call->failure, call->arena,
            "Unable to convert to Table as requested: includeObject: Invalid value: \"%s\": must be "
            "'Metadata', 'Object', 'None', or empty",
            text);
    if (ret)
        *ret = streq(text, "None") ? TABLE_NONE : streq(text, "Object") ? TABLE_OBJECT : TABLE_METADATA;
    return 0;
}

/* A version that is not there yet cannot be read. */
static int check_get_revision(struct call *call)
{
    const char *text = query_string(call, "resourceVersion");
    int64_t revision;

    if (!*text)
        return 0;
    if (!str_to_int(str_from(text), &revision) || revision < 0)
        return failure_set(
            &call->failure, call->arena, 500, "",
            "resourceVersion: Invalid value: \"%s\": strconv.ParseUint: parsing \"%s\": invalid syntax", text,
            text);
    return revision > store_revision(call->store) ? revision_too_large(call, revision) : 0;
}

int revision_too_large(struct call *call, int64_t revision)
{
    struct json *cause;

    failure_set(&call->failure, call->arena, 504, "Timeout",
                "Too large resource version: %lld, current: %lld", (long long)revision,
                (long long)store_revision(call->store));
    call->failure.retry_after = 1;
    call->failure.causes = json_new_array(call->arena);
    cause = json_push_object(call->arena, call->failure.causes);
    json_set_string(call->arena, cause, "reason", "ResourceVersionTooLarge");
    json_set_string(call->arena, cause, "message", "Too large resource version");
    return -1;
}

static void write_partial(struct buf *body, const struct object *object)
{
    buf_puts(body, "{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"meta.k8s.io/v1\",\"metadata\":");
    buf_add(body, object->text + object->meta_at, object->meta_len);
    buf_putc(body, '}');
}

void object_reply(struct call *call, int status, const struct object *object, enum form form)
{
    const char *type = "application/json";
    enum table_include include = TABLE_METADATA;
    struct buf body = {0};

    if (status == 201)
        call->object = arena_printf(call->arena, "%s%s%s", object->ns, *object->ns ? "/" : "", object->name);
    switch (form) {
    case FORM_TABLE:
        table_include_of(call, FORM_JSON, &include);
        table_begin(
            &body, object->kind,
            str_from(arena_printf(call->arena, "{\"resourceVersion\":\"%lld\"}", (long long)object->rv)),
            true);
        table_row(&body, object, include, call->now);
        table_end(&body);
        break;
    case FORM_YAML:
        call_write_yaml(&body, object_json(object, call->arena));
        type = "application/yaml";
        break;
    case FORM_PARTIAL:
        write_partial(&body, object);
        break;
    default:
        if (query_bool(call, "pretty"))
            json_write_pretty(&body, object_json(object, call->arena), 2);
        else
            buf_add(&body, object->text, object->text_len);
        buf_putc(&body, '\n');
    }
    call_reply(call, status, type, &body);
}

/* The resource of a version has objects of that version. */
static void reply(struct call *call, const struct route *route, int status, const struct object *object,
                  enum form form)
{
    struct buf body = {0};
    struct json *doc;

    if (!route->published || form != FORM_JSON) {
        object_reply(call, status, object, form);
        return;
    }
    doc = json_copy(call->arena, object_json(object, call->arena));
    json_set_string(call->arena, doc, "apiVersion", "v1");
    json_write(&body, doc);
    buf_putc(&body, '\n');
    call_reply(call, status, "application/json", &body);
}

void object_get(struct call *call, const struct route *route)
{
    const struct object *object;
    enum form form;

    if (accept_form(call, &form) < 0 || table_include_of(call, form, NULL) < 0 ||
        check_get_revision(call) < 0) {
        call_fail(call);
        return;
    }
    object = call_reads_durable(call)
                 ? store_get_durable(call->store, route->kind->id, route->ns, route->name)
                 : store_get(call->store, route->kind->id, route->ns, route->name);
    if (!object) {
        failure_not_found(&call->failure, call->arena, route->kind->group, route->kind->plural, route->name);
        call_fail(call);
        return;
    }
    reply(call, route, 200, object, form);
}

static void answer_written(struct call *call, const struct route *route, int status, struct written *written,
                           enum form form)
{
    reply(call, route, status, written->object, form);
    written_done(written);
}

static int decode(struct call *call, const struct route *route, struct json **ret, const char **duplicates)
{
    if (body_decode(call, route->kind, ret, duplicates) < 0)
        return -1;
    if (route->published)
        lenient_fix(call->arena, *ret, call->warnings);
    return 0;
}

void object_create(struct call *call, const struct route *route)
{
    struct written written;
    struct write write;
    struct json *doc;
    enum form form;

    if (accept_form(call, &form) < 0 || body_write(call, &write, route, NULL) < 0 ||
        decode(call, route, &doc, &write.duplicates) < 0 ||
        registry_create(call->registry, &write, route->kind, route->ns, doc, &written) < 0)
        call_fail(call);
    else
        answer_written(call, route, 201, &written, form);
}

void object_update(struct call *call, const struct route *route)
{
    struct written written;
    struct write write;
    struct json *doc;
    enum form form;

    if (accept_form(call, &form) < 0 || body_write(call, &write, route, NULL) < 0 ||
        decode(call, route, &doc, &write.duplicates) < 0 ||
        registry_update(call->registry, &write, route->kind, route->ns, route->name, doc, &written) < 0)
        call_fail(call);
    else
        answer_written(call, route, written.created ? 201 : 200, &written, form);
}

static int decode_patch(struct call *call, const struct route *route, enum patch_type type, struct json **ret,
                        const char **duplicates)
{
    CLEANUP(buf_done) struct buf dups = {0};
    struct err err = {0};

    if (type == PATCH_APPLY) {
        if (yaml_parse_one(call->req->body, call->arena, ret, &err) < 0)
            return failure_bad_request(&call->failure, call->arena, "error decoding YAML: %s", err.msg);
        if (route->published)
            lenient_fix(call->arena, *ret, call->warnings);
        return 0;
    }
    if (json_parse(call->req->body, call->arena, ret, &dups, &err) < 0)
        return failure_bad_request(&call->failure, call->arena, "error decoding patch: %s", err.msg);
    if (dups.len)
        *duplicates = arena_strndup(call->arena, dups.data, dups.len);
    if (route->published)
        lenient_fix_patch(call->arena, *ret, call->warnings);
    return 0;
}

static int patch_options(struct call *call, enum patch_type type)
{
    struct field_errors errors = {.arena = call->arena};

    if (type == PATCH_APPLY && !*query_string(call, "fieldManager"))
        field_required(&errors, "fieldManager", "%s", "is required for apply patch");
    if (type != PATCH_APPLY && http_query(call->req, "force", 0))
        field_forbidden(&errors, "force", "%s", "may not be specified for non-apply patch");
    return field_errors_finish(&errors, &call->failure, "meta.k8s.io", "PatchOptions", "");
}

void object_patch(struct call *call, const struct route *route)
{
    struct written written;
    enum patch_type type;
    struct write write;
    struct json *patch;
    enum form form;

    if (!patch_type_of(http_req_header(call->req, "Content-Type"), &type)) {
        failure_generic(&call->failure, call->arena, 415, "UnsupportedMediaType",
                        "415: Unsupported Media Type");
        call_fail(call);
        return;
    }
    if (accept_form(call, &form) < 0 || patch_options(call, type) < 0 ||
        body_write(call, &write, route, NULL) < 0 ||
        decode_patch(call, route, type, &patch, &write.duplicates) < 0 ||
        registry_patch(call->registry, &write, route->kind, route->ns, route->name, type, patch, &written) <
            0)
        call_fail(call);
    else
        answer_written(call, route, written.created ? 201 : 200, &written, form);
}

/* Kinds whose deletion is answered with the object; others get a Status. */
static bool answers_object(const struct kind *kind)
{
    static const int ids[] = {KIND_POD, KIND_SERVICE,        KIND_SERVICE_ACCOUNT, KIND_PVC,
                              KIND_PV,  KIND_RESOURCE_QUOTA, KIND_STORAGE_CLASS};

    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        if (ids[i] == kind->id)
            return true;
    return false;
}

static void reply_deleted(struct call *call, const struct object *object)
{
    struct json *doc = json_new_object(call->arena);
    struct json *details;

    json_set_string(call->arena, doc, "kind", "Status");
    json_set_string(call->arena, doc, "apiVersion", "v1");
    json_set_object(call->arena, doc, "metadata");
    json_set_string(call->arena, doc, "status", "Success");
    details = json_set_object(call->arena, doc, "details");
    json_set_string(call->arena, details, "name", object->name);
    if (*object->kind->group)
        json_set_string(call->arena, details, "group", object->kind->group);
    json_set_string(call->arena, details, "kind", object->kind->plural);
    json_set_string(call->arena, details, "uid", object->uid);
    call_reply_json(call, 200, doc);
}

void object_delete(struct call *call, const struct route *route)
{
    struct delete_options options;
    struct written written;
    struct write write;
    enum form form;

    if (accept_form(call, &form) < 0 || body_write(call, &write, route, NULL) < 0 ||
        body_delete_options(call, &options, &write.dry_run) < 0 ||
        registry_delete(call->registry, &write, route->kind, route->ns, route->name, &options, &written) < 0)
        call_fail(call);
    else if (written.deleted && !answers_object(route->kind))
        reply_deleted(call, written.object);
    else
        answer_written(call, route, 200, &written, form == FORM_TABLE ? FORM_JSON : form);
}
