/* Creates, and the steps that all writes share. A write goes: fields against the schema, defaults,
 * admission, rules, ownership of fields, revision, store. Nothing is stored before all of them agree. */
#include "base/clock.h"
#include "base/file.h"
#include "registry/internal.h"

struct registry *registry_new(struct store *store)
{
    struct registry *registry = NEW(struct registry);

    registry->store = store;
    return registry;
}

void registry_free(struct registry *registry)
{
    if (!registry)
        return;
    vec_done(&registry->admissions);
    free(registry);
}

struct store *registry_store(const struct registry *registry)
{
    return registry->store;
}

void registry_add_admission(struct registry *registry, registry_admit admit, void *arg)
{
    struct admission admission = {admit, arg};

    vec_push(&registry->admissions, admission);
}

int registry_admit_all(struct registry *registry, const struct write *write, const struct kind *kind,
                       const char *ns, struct json *doc, const struct object *old)
{
    VEC_EACH(&registry->admissions, it)
        if (it->admit(it->arg, write, kind, ns, doc, old) < 0) {
            failure_concerns(write->failure, write->arena, kind->group, kind->name,
                             json_at_string(doc, "metadata.name"));
            return -1;
        }
    return 0;
}

int64_t write_now(const struct write *write)
{
    return write->now ? write->now : clock_now();
}

enum write_scope write_scope_of(const struct write *write, const struct kind *kind)
{
    if (write->subresource && streq(write->subresource, "status"))
        return SCOPE_STATUS;
    return kind->has_status ? SCOPE_MAIN : SCOPE_ALL;
}

int registry_missing(const struct write *write, const struct kind *kind, const char *name)
{
    return failure_not_found(write->failure, write->arena, kind->group, kind->plural, name);
}

/* The one sentence about repeated and unknown members, in the decoder's words. */
static char *strict_problems(const struct write *write, const struct schema_report *report)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct str rest = str_from(write->duplicates), path;

    while (str_split(&rest, ',', &path))
        if (path.len)
            buf_printf(&text, "%sduplicate field \"%.*s\"", text.len ? ", " : "", STR_ARG(path));
    if (report->unknown_count)
        buf_printf(&text, "%s%s", text.len ? ", " : "", report->unknown.data);
    return text.len ? arena_strndup(write->arena, text.data, text.len) : NULL;
}

static void add_warnings(const struct write *write, char *problems)
{
    struct str rest = str_from(problems);

    while (rest.len) {
        const char *comma = memmem(rest.s, rest.len, ", ", 2);
        size_t len = comma ? (size_t)(comma - rest.s) : rest.len;

        json_push(write->arena, write->warnings, json_of_str(write->arena, (struct str){rest.s, len}));
        rest.s += comma ? len + 2 : len;
        rest.len -= comma ? len + 2 : len;
    }
}

static int decode_failed(const struct write *write, const struct kind *kind, const char *why)
{
    return failure_bad_request(write->failure, write->arena,
                               "%s in version \"%s\" cannot be handled as a %s: %s", kind->name,
                               kind->version, kind->name, why);
}

/* "core", "batch": what Kubernetes calls the group inside. */
static struct str group_package(const struct kind *kind)
{
    return *kind->group ? (struct str){kind->group, strcspn(kind->group, ".")} : STR("core");
}

static bool is_some_kind(const char *api_version, const char *name)
{
    if (streq(api_version, "v1") && streq(name, "List"))
        return true;
    for (size_t i = 0; i < kind_count; i++)
        if (streq(kinds[i].name, name) && streq(kind_api_version(&kinds[i]), api_version))
            return true;
    return false;
}

/* A document of another type than the path's. */
static int check_type_meta(const struct write *write, const struct kind *kind, const struct json *doc)
{
    const char *api_version = json_string_or(json_get(doc, "apiVersion"), "");
    const char *name = json_string_or(json_get(doc, "kind"), "");
    const char *slash, *version;

    if (!*api_version)
        api_version = kind_api_version(kind);
    if (!*name)
        name = kind->name;
    if (streq(api_version, kind_api_version(kind)) && streq(name, kind->name))
        return 0;
    slash = strchr(api_version, '/');
    version = slash ? slash + 1 : api_version;
    if (is_some_kind(api_version, name))
        return failure_bad_request(
            write->failure, write->arena,
            "%s in version \"%s\" cannot be handled as a %s: converting (%s.%s) to (%.*s.%s): unknown "
            "conversion",
            name, version, kind->name, version, name, STR_ARG(group_package(kind)), kind->name);
    return failure_bad_request(
        write->failure, write->arena,
        "%s in version \"%s\" cannot be handled as a %s: no kind \"%s\" is registered for version "
        "\"%s\" in scheme \"pkg/runtime/scheme.go:110\"",
        name, version, kind->name, name, api_version);
}

int write_decode(const struct write *write, const struct kind *kind, struct json *doc)
{
    struct schema_report report = {.sorted = write->patched};
    struct err err = {0};
    char *problems;

    if (json_is(doc, JSON_NULL))
        *doc = *json_new_object(write->arena);
    if (!json_is(doc, JSON_OBJECT))
        return failure_bad_request(
            write->failure, write->arena,
            "the object provided is unrecognized (must be of type %s): it is a JSON %s", kind->name,
            json_type_name(doc));
    if (check_type_meta(write, kind, doc) < 0)
        return -1;
    if (schema_check(kind_schema(kind), write->arena, doc, true, &report, &err) < 0) {
        schema_report_done(&report);
        return decode_failed(write, kind, err.msg);
    }
    problems = strict_problems(write, &report);
    schema_report_done(&report);
    if (!problems || write->validation == FIELDS_IGNORE)
        return 0;
    if (write->validation == FIELDS_STRICT)
        return decode_failed(write, kind, arena_printf(write->arena, "strict decoding error: %s", problems));
    if (write->warnings)
        add_warnings(write, problems);
    return 0;
}

/* The namespace must be there and must not be on its way out. */
static int check_namespace(struct registry *registry, const struct write *write, const struct kind *kind,
                           const char *ns, struct json *meta)
{
    const char *given = json_get_string(meta, "namespace");
    const struct object *space;

    if (!kind->namespaced) {
        if (given && *given)
            return failure_bad_request(
                write->failure, write->arena,
                "the namespace of the provided object does not match the namespace sent on the request");
        json_remove(meta, "namespace");
        return 0;
    }
    if (given && *given && !streq(given, ns))
        return failure_bad_request(
            write->failure, write->arena,
            "the namespace of the provided object does not match the namespace sent on the request");
    json_set_string(write->arena, meta, "namespace", ns);
    space = store_get(registry->store, KIND_NAMESPACE, "", ns);
    if (!space && write->dry_run && write->space_to_come)
        return 0;
    if (!space)
        return failure_not_found(write->failure, write->arena, "", "namespaces", ns);
    if (space->deleting) {
        struct json *cause;

        failure_forbidden(
            write->failure, write->arena, kind->group, kind->plural,
            json_string_or(json_get(meta, "name"), ""),
            arena_printf(write->arena,
                         "unable to create new content in namespace %s because it is being terminated", ns));
        write->failure->causes = json_new_array(write->arena);
        cause = json_push_object(write->arena, write->failure->causes);
        json_set_string(write->arena, cause, "reason", "NamespaceTerminating");
        json_set_string(write->arena, cause, "message",
                        arena_printf(write->arena, "namespace %s is being terminated", ns));
        json_set_string(write->arena, cause, "field", "metadata.namespace");
        return -1;
    }
    return 0;
}

char *object_generate_name(struct arena *arena, const char *base)
{
    uint8_t random[NAME_TAIL_LEN];

    random_bytes(random, sizeof(random));
    return object_name_after(arena, base, random);
}

/* What only the server may say about a new object. */
static void stamp(const struct write *write, const struct kind *kind, struct json *meta)
{
    char uid[37], time[CLOCK_TEXT_MAX];
    const char *base = json_get_string(meta, "generateName");
    static const char *const server_only[] = {"resourceVersion", "deletionTimestamp",
                                              "deletionGracePeriodSeconds", "selfLink"};

    for (size_t i = 0; i < ARRAY_LEN(server_only); i++)
        json_remove(meta, server_only[i]);
    random_uuid(uid);
    json_set_string(write->arena, meta, "uid", uid);
    json_set_string(write->arena, meta, "creationTimestamp", clock_format(write_now(write), time));
    if (kind->has_generation)
        json_set_int(write->arena, meta, "generation", 1);
    if (base && *base && !json_string_or(json_get(meta, "name"), "")[0])
        json_set_string(write->arena, meta, "name", object_generate_name(write->arena, base));
}

static int check_new(struct registry *registry, const struct write *write, const struct kind *kind,
                     const char *ns, const char *name)
{
    const struct object *there = store_get(registry->store, kind->id, ns, name);

    if (!there)
        return 0;
    failure_exists(write->failure, write->arena, kind->group, kind->plural, name);
    if (there->deleting)
        write->failure->message =
            arena_printf(write->arena, "object is being deleted: %s", write->failure->message);
    return -1;
}

struct rule_ctx write_ctx(const struct write *write, const char *name)
{
    return (struct rule_ctx){
        .arena = write->arena,
        .now = write_now(write),
        .name = name,
        .warnings = write->who ? write->warnings : NULL,
    };
}

void write_warn(const struct write *write, const struct kind *kind, const struct rule_ctx *ctx,
                const struct json *doc, const struct json *old)
{
    if (kind->warnings && write->warnings && write->who)
        kind->warnings(ctx, doc, old, write->warnings);
}

void registry_commit(struct registry *registry, const struct write *write, const struct kind *kind,
                     struct json *doc, struct written *ret)
{
    struct json *meta = json_get(doc, "metadata");
    struct object *object;

    if (write->dry_run) {
        const struct object *there =
            store_get(registry->store, kind->id, json_string_or(json_get(meta, "namespace"), ""),
                      json_get_string(meta, "name"));

        if (there)
            json_set_string(write->arena, meta, "resourceVersion",
                            arena_printf(write->arena, "%lld", (long long)there->rv));
        ret->object = ret->dry = object_new(kind, write->arena, doc);
        return;
    }
    json_set_string(write->arena, meta, "resourceVersion",
                    arena_printf(write->arena, "%lld", (long long)store_next_revision(registry->store)));
    object = object_new(kind, write->arena, doc);
    object_doc_keep(object, doc);
    ret->object = object;
    store_put(registry->store, object);
}

void written_done(struct written *written)
{
    object_unref(TAKE_PTR(written->dry));
}

struct apply_request write_request(const struct write *write, const struct kind *kind, char *time)
{
    return (struct apply_request){
        .type = kind_schema(kind),
        .api_version = kind_api_version(kind),
        .manager = write->manager ? write->manager : "berth",
        .subresource = write->subresource ? write->subresource : "",
        .now = clock_format(write_now(write), time),
        .force = write->force,
    };
}

int registry_create(struct registry *registry, const struct write *write, const struct kind *kind,
                    const char *ns, struct json *doc, struct written *ret)
{
    struct rule_ctx ctx = write_ctx(write, NULL);
    struct field_errors errors = {.arena = write->arena};
    char time[CLOCK_TEXT_MAX];
    struct json *meta;

    *ret = (struct written){0};
    if (write_decode(write, kind, doc) < 0)
        return -1;
    meta = json_need_object(write->arena, doc, "metadata");
    if (check_namespace(registry, write, kind, ns, meta) < 0)
        return -1;
    if (json_string_or(json_get(meta, "resourceVersion"), "")[0] && !write->applied)
        return failure_set(write->failure, write->arena, 500, "", "%s",
                           "resourceVersion should not be set on objects to be created");
    stamp(write, kind, meta);
    if (owner_stamp(registry, write, kind, doc) < 0 ||
        owner_check_references(registry, write, kind, ns, doc, NULL) < 0)
        return -1;
    ctx.name = json_string_or(json_get(meta, "name"), "");
    if (kind->defaults)
        kind->defaults(&ctx, doc);
    kind_prepare(kind, &ctx, doc, NULL);
    if (registry_admit_all(registry, write, kind, ns, doc, NULL) < 0)
        return -1;
    object_check_metadata(kind, &ctx, doc, NULL, &errors);
    owner_check_priority(write, kind, doc, NULL, &errors);
    if (kind->validate)
        kind->validate(&ctx, doc, NULL, &errors);
    if (field_errors_finish(&errors, write->failure, kind->group, kind->name, ctx.name) < 0)
        return -1;
    if (check_new(registry, write, kind, ns, ctx.name) < 0)
        return -1;
    write_warn(write, kind, &ctx, doc, NULL);
    if (write->who && !write->applied) {
        struct apply_request request = write_request(write, kind, time);

        managed_fields_update(&request, write->arena, NULL, doc);
    }
    registry_commit(registry, write, kind, doc, ret);
    ret->created = true;
    return 0;
}
