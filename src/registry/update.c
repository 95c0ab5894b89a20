/* Updates and patches: a new document takes the place of a stored one. What the server alone decides
 * (uid, creation, deletion, generation) is carried over; a write that changes nothing gets no revision. */
#include "base/clock.h"
#include "registry/internal.h"

static const char modified[] =
    "the object has been modified; please apply your changes to the latest version and try again";

static void carry(struct arena *arena, struct json *meta, const struct json *old_meta, const char *key)
{
    const struct json *value = json_get(old_meta, key);

    if (value)
        json_set(arena, meta, key, *json_copy(arena, value));
    else
        json_remove(meta, key);
}

/* What an update cannot touch comes from the stored object. */
static void carry_metadata(const struct write *write, struct json *meta, const struct json *old_meta)
{
    static const char *const kept[] = {"creationTimestamp", "generation", "deletionTimestamp",
                                       "deletionGracePeriodSeconds"};

    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        carry(write->arena, meta, old_meta, kept[i]);
    json_remove(meta, "selfLink");
    if (!json_string_or(json_get(meta, "uid"), "")[0])
        carry(write->arena, meta, old_meta, "uid");
    if (!json_get(meta, "managedFields"))
        carry(write->arena, meta, old_meta, "managedFields");
    if (json_string_or(json_get(meta, "generateName"), "")[0] == 0)
        carry(write->arena, meta, old_meta, "generateName");
}

static struct str key_of(const struct json_member *member)
{
    return (struct str){member->key, member->key_len};
}

/* What belongs to neither metadata nor status: spec, data and the like. */
static bool is_content(const struct json_member *member)
{
    return !str_is(key_of(member), "metadata") && !str_is(key_of(member), "status");
}

/* All of doc but metadata, status and the type comes from old: a write to /status. */
static void carry_all_but_status(const struct write *write, struct json *doc, const struct json *old_doc)
{
    JSON_EACH_MEMBER(old_doc, it)
        if (is_content(it))
            json_set_str(write->arena, doc, key_of(it), *json_copy(write->arena, &it->value));
    for (size_t i = 0; i < json_len(doc);) {
        const struct json_member *member = &doc->members->v[i];

        if (!is_content(member) || json_get_str(old_doc, key_of(member)) ||
            !json_remove_str(doc, key_of(member)))
            i++;
    }
    carry(write->arena, json_get(doc, "metadata"), json_get(old_doc, "metadata"), "ownerReferences");
}

/* Same metadata, whatever the revision and whoever owns the fields. */
static bool same_metadata(const struct json *a, const struct json *b)
{
    static const char *const ignored[] = {"resourceVersion", "managedFields"};
    size_t len_a = json_len(a), len_b = json_len(b);

    for (size_t i = 0; i < ARRAY_LEN(ignored); i++) {
        len_a -= json_get(a, ignored[i]) != NULL;
        len_b -= json_get(b, ignored[i]) != NULL;
    }
    if (len_a != len_b)
        return false;
    JSON_EACH_MEMBER(a, it)
        if (!str_is(key_of(it), "resourceVersion") && !str_is(key_of(it), "managedFields") &&
            !json_equal(&it->value, json_get_str(b, key_of(it))))
            return false;
    return true;
}

static bool same_content(const struct json *a, const struct json *b)
{
    if (json_len(a) != json_len(b))
        return false;
    JSON_EACH_MEMBER(a, it) {
        const struct json *other = json_get_str(b, key_of(it));

        if (!other)
            return false;
        if (str_is(key_of(it), "metadata") ? !same_metadata(&it->value, other)
                                           : !json_equal(&it->value, other))
            return false;
    }
    return true;
}

static bool spec_changed(const struct json *doc, const struct json *old_doc)
{
    JSON_EACH_MEMBER(doc, it)
        if (is_content(it) && !json_equal(&it->value, json_get_str(old_doc, key_of(it))))
            return true;
    JSON_EACH_MEMBER(old_doc, it)
        if (is_content(it) && !json_get_str(doc, key_of(it)))
            return true;
    return false;
}

/* An object on its way out that nothing holds any more. */
static bool deletion_complete(const struct kind *kind, const struct json *doc)
{
    const struct json *meta = json_get(doc, "metadata");

    if (!json_get(meta, "deletionTimestamp") || json_len(json_get(meta, "finalizers")))
        return false;
    if (kind->id == KIND_NAMESPACE && json_len(json_at(doc, "spec.finalizers")))
        return false;
    return json_int(json_get(meta, "deletionGracePeriodSeconds"), 0) == 0;
}

static int check_preconditions(const struct write *write, const struct object *old, const struct json *meta,
                               bool patched)
{
    const struct kind *kind = old->kind;
    const char *rv = json_string_or(json_get(meta, "resourceVersion"), "");
    const char *uid = json_string_or(json_get(meta, "uid"), "");
    int64_t revision;

    /* A patch that names another uid is an attempt to change it, which the rules refuse. */
    if (*uid && !streq(uid, old->uid) && !patched)
        return failure_conflict(
            write->failure, write->arena, kind->group, kind->plural, old->name,
            arena_printf(write->arena, "Precondition failed: UID in precondition: %s, UID in object meta: %s",
                         uid, old->uid));
    if ((!*rv || streq(rv, "0")) && kind->id == KIND_LEASE && !patched && write->who) {
        struct field_errors errors = {.arena = write->arena};

        field_invalid(&errors, "metadata.resourceVersion", json_new_string(write->arena, ""), "%s",
                      "must be specified for an update");
        return field_errors_finish(&errors, write->failure, kind->group, kind->plural, old->name);
    }
    if (!*rv || streq(rv, "0"))
        return 0;
    if (!str_to_int(str_from(rv), &revision)) {
        struct field_errors errors = {.arena = write->arena};

        field_invalid(&errors, "metadata.resourceVersion", json_get(meta, "resourceVersion"), "%s",
                      "must be specified for an update");
        return field_errors_finish(&errors, write->failure, kind->group, kind->name, old->name);
    }
    if (revision != old->rv)
        return failure_conflict(write->failure, write->arena, kind->group, kind->plural, old->name, modified);
    return 0;
}

/* What an edit of Berth's own has made of the document must be a valid one, wherever it differs from what was
 * stored. Rules about changes do not apply: binding a pod sets a field that nobody else may touch. */
static int check_edited(const struct write *write, const struct kind *kind, const struct rule_ctx *ctx,
                        struct json *doc, struct field_errors *errors)
{
    struct err err = {0};

    if (schema_check(kind_schema(kind), write->arena, doc, false, NULL, &err) < 0)
        return failure_bad_request(write->failure, write->arena,
                                   "%s in version \"%s\" cannot be handled as a %s: %s", kind->name,
                                   kind->version, kind->name, err.msg);
    if (kind->validate)
        kind->validate(ctx, doc, NULL, errors);
    return 0;
}

int registry_replace(struct registry *registry, const struct write *write, enum write_scope scope,
                     const struct object *old, const struct json *old_doc, struct json *doc,
                     struct written *ret)
{
    const struct kind *kind = old->kind;
    struct rule_ctx ctx = write_ctx(write, old->name);
    struct field_errors errors = {.arena = write->arena};
    struct json *meta = json_need_object(write->arena, doc, "metadata");
    const struct json *old_meta = json_get(old_doc, "metadata");
    char time[CLOCK_TEXT_MAX];
    bool owners_given, content_changed;

    if (check_preconditions(write, old, meta, write->patched) < 0)
        return -1;
    if (kind->namespaced)
        json_set_string(write->arena, meta, "namespace", old->ns);
    carry_metadata(write, meta, old_meta);
    if (scope == SCOPE_STATUS)
        carry_all_but_status(write, doc, old_doc);
    if (owner_carry(write, kind, doc, old_doc) < 0 ||
        owner_check_references(registry, write, kind, old->ns, doc, old_doc) < 0)
        return -1;
    if (kind->defaults)
        kind->defaults(&ctx, doc);
    if (scope == SCOPE_STATUS)
        kind_prepare_status(kind, doc);
    if (scope == SCOPE_MAIN || (scope == SCOPE_ALL && !kind->has_status))
        kind_prepare(kind, &ctx, doc, old_doc);
    if (scope != SCOPE_STATUS && registry_admit_all(registry, write, kind, old->ns, doc, old) < 0)
        return -1;
    object_check_metadata(kind, &ctx, doc, old_doc, &errors);
    owner_check_priority(write, kind, doc, old_doc, &errors);
    if (scope == SCOPE_STATUS && kind->validate_status)
        kind->validate_status(&ctx, doc, old_doc, &errors);
    content_changed = scope != SCOPE_STATUS && spec_changed(doc, old_doc);
    if (scope == SCOPE_ALL && !write->who) {
        if (content_changed && check_edited(write, kind, &ctx, doc, &errors) < 0)
            return -1;
    } else if (scope != SCOPE_STATUS && kind->validate) {
        kind->validate(&ctx, doc, old_doc, &errors);
    }
    if (field_errors_finish(&errors, write->failure, kind->group, kind->name, old->name) < 0)
        return -1;
    if (scope != SCOPE_STATUS)
        write_warn(write, kind, &ctx, doc, old_doc);
    if (kind->has_generation && !kind->generation_stays && !write->keep_generation && content_changed)
        json_set_int(write->arena, meta, "generation", json_int(json_get(old_meta, "generation"), 0) + 1);
    /* Ownership alone may be written too: kubectl moves it from one manager to another. */
    owners_given = !json_equal(json_get(meta, "managedFields"), json_get(old_meta, "managedFields"));
    if (write->who && !write->applied) {
        struct apply_request request = write_request(write, kind, time);

        managed_fields_update(&request, write->arena, old_doc, doc);
    }
    if (deletion_complete(kind, doc)) {
        registry_drop(registry, write, old, doc, ret);
        return 0;
    }
    if (!owners_given && same_content(doc, old_doc)) {
        *ret = (struct written){.object = old};
        return 0;
    }
    registry_commit(registry, write, kind, doc, ret);
    return 0;
}

/* /finalize of a namespace: an update that may also change the finalizers of its spec. */
static void keep_status(const struct write *write, const struct object *old, struct json *doc)
{
    const struct json *status = json_get(object_doc(old), "status");

    if (status)
        json_set(write->arena, doc, "status", *json_copy(write->arena, status));
}

int registry_update(struct registry *registry, const struct write *write, const struct kind *kind,
                    const char *ns, const char *name, struct json *doc, struct written *ret)
{
    const struct object *old = store_get(registry->store, kind->id, ns, name);
    struct json *meta;
    const char *given;

    *ret = (struct written){0};
    if (write_decode(write, kind, doc) < 0)
        return -1;
    meta = json_need_object(write->arena, doc, "metadata");
    given = json_string_or(json_get(meta, "name"), "");
    if (*given && !streq(given, name))
        return failure_bad_request(write->failure, write->arena,
                                   "the name of the object (%s) does not match the name on the URL (%s)",
                                   given, name);
    given = json_string_or(json_get(meta, "namespace"), "");
    if (*given && !streq(given, ns))
        return failure_bad_request(
            write->failure, write->arena, "%s",
            "the namespace of the provided object does not match the namespace sent on the request");
    if (!json_string_or(json_get(meta, "name"), "")[0])
        return failure_bad_request(
            write->failure, write->arena,
            "the name of the object (%s based on URL) was undeterminable: name must be provided", name);
    if (!old && kind->id == KIND_LEASE && !*write->subresource)
        return registry_create(registry, write, kind, ns, doc, ret);
    if (!old)
        return registry_missing(write, kind, name);
    if (write->subresource && streq(write->subresource, "finalize")) {
        keep_status(write, old, doc);
        return registry_replace(registry, write, SCOPE_ALL, old, object_json(old, write->arena), doc, ret);
    }
    return registry_replace(registry, write, write_scope_of(write, kind), old, object_json(old, write->arena),
                            doc, ret);
}

/* Server-side apply of something that is not there creates it. */
static int apply_new(struct registry *registry, const struct write *write, const struct kind *kind,
                     const char *ns, const char *name, struct json *patch, struct written *ret)
{
    struct write create = *write;
    char time[CLOCK_TEXT_MAX];
    struct apply_request request = write_request(write, kind, time);
    struct json *doc;

    if (write->subresource && *write->subresource)
        return registry_missing(write, kind, name);
    if (patch_apply(&request, write->arena, NULL, patch, &doc, write->failure) < 0)
        return -1;
    create.applied = true;
    if (json_string_or(json_at(doc, "metadata.uid"), "")[0]) {
        struct field_errors errors = {.arena = write->arena};

        field_invalid(&errors, "metadata.uid", json_at(doc, "metadata.uid"), "%s", "field is immutable");
        return field_errors_finish(&errors, write->failure, kind->group, kind->name, name);
    }
    if (registry_create(registry, &create, kind, ns, doc, ret) < 0)
        return -1;
    return 0;
}

static int check_applied(const struct write *write, const struct kind *kind, const char *ns, const char *name,
                         struct json *patch)
{
    const struct json *meta = json_get(patch, "metadata");
    const char *given = json_string_or(json_get(meta, "name"), name);
    const char *api_version = json_string_or(json_get(patch, "apiVersion"), "");
    const char *kind_name = json_string_or(json_get(patch, "kind"), "");
    char time[CLOCK_TEXT_MAX];
    struct apply_request request = write_request(write, kind, time);

    if (!streq(api_version, kind_api_version(kind)) || !streq(kind_name, kind->name))
        return failure_bad_request(write->failure, write->arena, "invalid object type: %s%s, Kind=%s",
                                   strchr(api_version, '/') ? "" : "/", api_version, kind_name);

    if (!streq(given, name))
        return failure_bad_request(write->failure, write->arena,
                                   "the name of the object (%s) does not match the name on the URL (%s)",
                                   given, name);
    given = json_string_or(json_get(meta, "namespace"), ns);
    if (!streq(given, ns))
        return failure_bad_request(
            write->failure, write->arena, "%s",
            "the namespace of the provided object does not match the namespace sent on the request");
    return patch_apply_check(&request, write->arena, patch, write->failure) < 0
               ? -1
               : write_decode(write, kind, patch);
}

static int patch_document(const struct write *write, const struct kind *kind, enum patch_type type,
                          struct json *doc, struct json *patch)
{
    switch (type) {
    case PATCH_JSON:
        return patch_json(write->arena, doc, patch, write->failure);
    case PATCH_MERGE:
        return patch_merge(write->arena, doc, patch, write->failure);
    default:
        return patch_strategic(kind_schema(kind), write->arena, doc, patch, write->failure);
    }
}

/* Unknown members that a patch brought in, worded as Kubernetes does for patches. */
static int patched_decode(const struct write *write, const struct kind *kind, struct json *doc,
                          const struct json *patch)
{
    const char *prefix = arena_printf(write->arena, "cannot be handled as a %s: ", kind->name);
    struct failure *failure = write->failure;
    const char *mark;

    if (write_decode(write, kind, doc) == 0)
        return 0;
    mark = strstr(failure->message, prefix);
    if (mark) {
        struct field_errors errors = {.arena = write->arena};

        field_invalid(&errors, "patch", patch, "%s", mark + strlen(prefix));
        return field_errors_finish(&errors, failure, "", "", "");
    }
    return -1;
}

int registry_patch(struct registry *registry, const struct write *write, const struct kind *kind,
                   const char *ns, const char *name, enum patch_type type, struct json *patch,
                   struct written *ret)
{
    const struct object *old = store_get(registry->store, kind->id, ns, name);
    struct write inner = *write;
    struct json *old_doc, *doc;
    char time[CLOCK_TEXT_MAX];

    *ret = (struct written){0};
    if (type == PATCH_APPLY) {
        struct apply_request request = write_request(write, kind, time);

        if (check_applied(write, kind, ns, name, patch) < 0)
            return -1;
        json_set_string(write->arena, json_need_object(write->arena, patch, "metadata"), "name", name);
        if (!old)
            return apply_new(registry, write, kind, ns, name, patch, ret);
        old_doc = object_json(old, write->arena);
        if (patch_apply(&request, write->arena, old_doc, patch, &doc, write->failure) < 0)
            return -1;
        inner.applied = inner.patched = true;
        return registry_replace(registry, &inner, write_scope_of(write, kind), old, old_doc, doc, ret);
    }
    if (!old)
        return registry_missing(write, kind, name);
    old_doc = object_json(old, write->arena);
    doc = object_json(old, write->arena);
    if (patch_document(write, kind, type, doc, patch) < 0)
        return -1;
    inner.patched = true;
    if (patched_decode(&inner, kind, doc, patch) < 0)
        return -1;
    if (kind->namespaced && !streq(json_at_string(doc, "metadata.namespace"), ns))
        return failure_bad_request(
            write->failure, write->arena, "%s",
            "the namespace of the provided object does not match the namespace sent on the request");
    if (!streq(json_at_string(doc, "metadata.name"), name))
        return failure_bad_request(write->failure, write->arena,
                                   "the name of the object (%s) does not match the name on the URL (%s)",
                                   json_string_or(json_at(doc, "metadata.name"), ""), name);
    return registry_replace(registry, &inner, write_scope_of(write, kind), old, old_doc, doc, ret);
}

int registry_edit_object(struct registry *registry, const struct write *write, const struct object *object,
                         registry_edit edit, void *arg, struct written *ret)
{
    const struct object *old = store_get(registry->store, object->kind->id, object->ns, object->name);
    struct json *doc;

    *ret = (struct written){0};
    if (!old || !streq(old->uid, object->uid))
        return registry_missing(write, object->kind, object->name);
    doc = object_json(old, write->arena);
    if (!edit(arg, write->arena, doc)) {
        ret->object = old;
        return 0;
    }
    json_remove(json_get(doc, "metadata"), "resourceVersion");
    return registry_replace(registry, write, SCOPE_ALL, old, object_doc(old), doc, ret);
}
