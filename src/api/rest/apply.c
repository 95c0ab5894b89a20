/* POST /v1/apply: manifests (YAML, several documents) as people have them. Each is put right where it can
 * be, with a warning per slip, and applied (server-side apply under the name "berth"). */
#include "api/rest/rest.h"
#include "base/yaml.h"
#include "objects/lenient.h"

/* NULL with the failure set when we have none such. */
static const struct kind *find_kind(struct call *call, const struct json *doc)
{
    const char *api_version = json_string_or(json_get(doc, "apiVersion"), "");
    const char *name = json_string_or(json_get(doc, "kind"), "");

    for (size_t i = 0; i < kind_count; i++)
        if (kinds[i].stored && streq(kinds[i].name, name) && streq(kind_api_version(&kinds[i]), api_version))
            return &kinds[i];
    if (!*name)
        failure_bad_request(&call->failure, call->arena, "kind: missing");
    else
        failure_set(&call->failure, call->arena, 404, "NotFound",
                    "no matches for kind \"%s\" in version \"%s\"", name, api_version);
    return NULL;
}

/* Slips in field names are told by their place, before anything is changed. */
static int check_fields(struct call *call, const struct kind *kind, const struct json *doc)
{
    CLEANUP(schema_report_done) struct schema_report report = {0};
    struct json *copy = json_copy(call->arena, doc);
    struct err err = {0};

    if (schema_check(kind_schema(kind), call->arena, copy, false, &report, &err) < 0)
        return failure_bad_request(&call->failure, call->arena, "%s", err.msg);
    if (report.unknown_count)
        return failure_bad_request(&call->failure, call->arena, "%s", report.unknown.data);
    return 0;
}

static int apply_one(struct call *call, struct json *doc, struct json *item, struct json *warnings)
{
    const char *given = json_at_string(doc, "metadata.namespace"), *ns = query_string(call, "namespace"),
               *name;
    struct write write = {
        .who = &call->who,
        .manager = "berth",
        .subresource = "",
        .validation = FIELDS_STRICT,
        .dry_run = query_bool(call, "dryRun"),
        .force = true,
        .now = call->now,
        .arena = call->arena,
        .warnings = warnings,
        .failure = &call->failure,
    };
    CLEANUP(written_done) struct written written = {0};
    struct access access = {.verb = "patch", .subresource = ""};
    const struct object *before;
    const struct kind *kind = find_kind(call, doc);
    int64_t rv;

    if (!kind)
        return -1;
    name = json_string_or(json_at(doc, "metadata.name"), "");
    ns = !kind->namespaced             ? ""
         : given                       ? given
         : *ns                         ? ns
         : access_is_admin(&call->who) ? "default"
                                       : call->who.user;
    json_set_string(call->arena, item, "kind", kind->name);
    json_set_string(call->arena, item, "apiVersion", kind_api_version(kind));
    json_set_string(call->arena, item, "resource",
                    *kind->group ? arena_printf(call->arena, "%s.%s", kind->singular, kind->group)
                                 : kind->singular);
    if (kind->namespaced)
        json_set_string(call->arena, item, "namespace", ns);
    json_set_string(call->arena, item, "name", name);
    if (!*name)
        return failure_bad_request(&call->failure, call->arena, "metadata.name: missing");
    if (check_fields(call, kind, doc) < 0)
        return -1;
    before = store_get(call->store, kind->id, ns, name);
    rv = before ? before->rv : 0;
    access.kind = kind;
    access.ns = ns;
    access.name = before ? name : "";
    access.verb = before ? "patch" : "create";
    if (access_check(call->registry, &call->who, &access, call->arena, &call->failure) < 0 ||
        registry_patch(call->registry, &write, kind, ns, name, PATCH_APPLY, doc, &written) < 0)
        return -1;
    json_set_string(call->arena, item, "result",
                    written.created                              ? "created"
                    : written.object->rv == rv && !write.dry_run ? "unchanged"
                                                                 : "configured");
    return 0;
}

/* A List stands for its items. */
static void expand(struct call *call, const struct json *docs, struct json *out)
{
    JSON_EACH(docs, it) {
        if (streq(json_get_string(it, "kind"), "List"))
            expand(call, json_get(it, "items"), out);
        else
            json_push(call->arena, out, *it);
    }
}

void rest_apply(struct call *call, const char *id)
{
    struct json *docs, *all = json_new_array(call->arena), *answer = json_new_object(call->arena), *items,
                       *first;
    struct err err = {0};
    size_t i = 0;

    (void)id;
    if (yaml_parse(call->req->body, call->arena, &docs, NULL, &err) < 0) {
        failure_bad_request(&call->failure, call->arena, "the manifest could not be read: %s", err.msg);
        call_fail(call);
        return;
    }
    expand(call, docs, all);
    if (!json_len(all)) {
        failure_bad_request(&call->failure, call->arena, "the manifest has no objects");
        call_fail(call);
        return;
    }
    first = json_new_array(call->arena);
    lenient_separators(call->req->body, call->arena, first);
    items = json_set_array(call->arena, answer, "items");
    JSON_EACH(all, doc) {
        struct json *item = json_push_object(call->arena, items);
        struct json *warnings = i++ ? json_new_array(call->arena) : first;

        call->failure = (struct failure){0};
        lenient_fix(call->arena, doc, warnings);
        if (apply_one(call, doc, item, warnings) < 0)
            json_set(call->arena, item, "status", *failure_to_json(&call->failure, call->arena));
        json_set(call->arena, item, "warnings", *warnings);
    }
    call->failure = (struct failure){0};
    call_about_all(call, items);
    call_reply_json(call, 200, answer);
}
