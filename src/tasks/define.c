/* Templates and definitions: their rules, their form in REST, how a name finds its definition. */
#include "base/file.h"
#include "tasks/internal.h"
#include "tasks/values.h"

#define NAME_MAX_BYTES 200
#define SLUG_MAX       63
#define EXAMPLE        "example"

/* Names in the guide's form, and in the object. */
static const char *const keys[][2] = {
    {"creator", "creator"},
    {"task_template_name", "taskTemplateName"},
    {"description", "description"},
    {"user_values_description", "userValuesDescription"},
    {"user_values_example", "userValuesExample"},
    {"system_values", "systemValues"},
    {"overridable_values", "overridableValues"},
    {"application", "application"},
};

static bool truthy(const struct json *value)
{
    const char *text = json_string(value);

    if (text)
        return streq(text, "true") || streq(text, "1") || streq(text, "yes");
    return json_bool(value) || json_int(value, 0) != 0;
}

static bool is_text_key(const char *key)
{
    return !strstr(key, "alues"); /* values may be objects as well */
}

int tasks_definition_doc(const struct json *form, struct arena *arena, struct json **ret,
                         struct failure *failure)
{
    struct json *doc = json_new_object(arena), *spec = json_new_object(arena), *meta;
    const char *name = json_string_or(json_get(form, "name"), ""), *slug;
    char unique[9];

    if (!*name || strlen(name) > NAME_MAX_BYTES)
        return failure_set(failure, arena, 422, "Invalid", "name: a task definition's name has 1 to %d bytes",
                           NAME_MAX_BYTES);
    if (truthy(json_get(form, "append_uuid")) || truthy(json_get(form, "appendUuid"))) {
        random_hex(unique, 4);
        name = arena_printf(arena, "%s-%s", name, unique);
        slug = values_slug(name, strlen(name), arena);
        if (strlen(slug) > SLUG_MAX)
            slug = arena_printf(arena, "%s-%s", values_slug(name, SLUG_MAX - 9, arena), unique);
    } else {
        slug = values_slug(name, SLUG_MAX, arena);
    }
    if (!*slug)
        return failure_set(failure, arena, 422, "Invalid", "name: '%s' has no letter to make a name of",
                           name);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct json *value = json_get(form, keys[i][0]);

        value = value ? value : json_get(form, keys[i][1]);
        if (!value || json_is(value, JSON_NULL))
            continue;
        if (is_text_key(keys[i][1]) && !json_is(value, JSON_STRING))
            return failure_set(failure, arena, 422, "Invalid", "%s: must be text, not a %s", keys[i][0],
                               json_type_name(value));
        json_set(arena, spec, keys[i][1], *value);
    }
    json_set_string(arena, spec, "name", name);
    json_set_string(arena, doc, "apiVersion", "berth.dev/v1");
    json_set_string(arena, doc, "kind", "TaskDefinition");
    meta = json_set_object(arena, doc, "metadata");
    json_set_string(arena, meta, "name", slug);
    json_set(arena, doc, "spec", *spec);
    *ret = doc;
    return 0;
}

struct json *tasks_definition_form(const struct object *definition, bool system, struct arena *arena)
{
    const struct json *doc = object_json(definition, arena), *spec = json_get(doc, "spec");
    struct json *form = json_new_object(arena);

    json_set(arena, form, "name",
             *json_new_string(arena, json_string_or(json_get(spec, "name"), definition->name)));
    json_set_string(arena, form, "id", definition->name);
    json_set_string(arena, form, "namespace", definition->ns);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        const struct json *value = json_get(spec, keys[i][1]);

        if (!system && streq(keys[i][0], "system_values"))
            continue;
        json_set(arena, form, keys[i][0], value ? *value : *json_new_null(arena));
    }
    json_set(arena, form, "created", *json_at(doc, "metadata.creationTimestamp"));
    json_set_string(
        arena, form, "schema",
        arena_printf(arena, "/v1/task-definitions/%s/schema?namespace=%s", definition->name, definition->ns));
    return form;
}

struct json *tasks_schema(const struct object *definition, struct arena *arena)
{
    const struct json *spec = json_get(object_json(definition, arena), "spec");
    struct json *description = NULL, *example = NULL, *schema;

    values_read(json_get(spec, "userValuesDescription"), arena, &description, NULL);
    values_read(json_get(spec, "userValuesExample"), arena, &example, NULL);
    schema = values_schema(description, example, arena);
    json_set(arena, schema, "title",
             *json_new_string(arena, json_string_or(json_get(spec, "name"), definition->name)));
    return schema;
}

/* ---- finding ---- */

static bool is_named(const struct object *definition, const char *name, struct arena *arena)
{
    const char *given;

    if (streq(definition->name, name))
        return true;
    given = json_string(json_at(object_json(definition, arena), "spec.name"));
    return streq(given, name);
}

/* In one namespace: the object's name is the name's slug, or cut from it. */
static const struct object *find_in(struct tasks *tasks, const char *ns, const char *name,
                                    struct arena *arena)
{
    const struct object *found = store_get(tasks->store, KIND_TASK_DEFINITION, ns, name);

    if (!found)
        found = store_get(tasks->store, KIND_TASK_DEFINITION, ns, values_slug(name, SLUG_MAX, arena));
    if (found && is_named(found, name, arena))
        return found;
    OBJECTS_EACH(store_list(tasks->store, KIND_TASK_DEFINITION, ns), it)
        if (is_named(*it, name, arena))
            return *it;
    return NULL;
}

const struct object *tasks_find_definition(struct tasks *tasks, const char *ns, const char *name,
                                           struct arena *arena, struct failure *failure)
{
    const char *slash = strchr(name, '/');
    const struct object *found;

    if (slash) {
        found = find_in(tasks, arena_strndup(arena, name, (size_t)(slash - name)), slash + 1, arena);
        if (!found)
            failure_set(failure, arena, 404, "NotFound", "there is no task definition \"%s\"", name);
        return found;
    }
    /* Anybody could register that name elsewhere, and have their command run by whoever mistypes one. */
    found = find_in(tasks, ns, name, arena);
    if (!found)
        found = find_in(tasks, "default", name, arena);
    if (!found)
        failure_set(failure, arena, 404, "NotFound",
                    "there is no task definition \"%s\" in namespace \"%s\"%s: one of another namespace is "
                    "named as NAMESPACE/NAME",
                    name, ns, streq(ns, "default") ? "" : " or \"default\"");
    return found;
}

/* ---- rules ---- */

/* The example must make objects; it is judged as a task of that namespace would be. */
static int try_example(struct tasks *tasks, const struct object *template, const struct json *spec,
                       const char *ns, struct arena *arena, struct failure *failure)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct tasks_request request = {.ns = ns};
    struct filled filled = {.task_def = json_string_or(json_get(spec, "name"), EXAMPLE)};
    struct json *values, *docs;
    struct err err = {0};

    if (values_read(json_get(spec, "userValuesExample"), arena, &values, &err) < 0)
        return failure_set(failure, arena, 422, "Invalid", "user_values_example: %s", err.msg);
    if (!json_len(values))
        return 0;
    if (fill_values(tasks, spec, values, EXAMPLE, json_string_or(json_get(spec, "creator"), ""), false, arena,
                    &filled, NULL, failure) < 0 ||
        render_template(tasks, template, filled.values, arena, &text, failure) < 0 ||
        tasks_documents(buf_view(&text), arena, &docs, failure) < 0 ||
        check_documents(tasks, &request, docs, arena, failure) < 0)
        return failure_set(failure, arena, 422, "Invalid", "the example values do not work: %s",
                           failure->message);
    return 0;
}

static int admit_definition(struct tasks *tasks, const struct write *write, const char *ns, struct json *doc)
{
    const struct json *spec = json_get(doc, "spec");
    const char *name = json_string_or(json_get(spec, "taskTemplateName"), "");
    static const char *const yaml[][2] = {{"userValuesDescription", "user_values_description"},
                                          {"systemValues", "system_values"}};
    const struct object *template;
    struct json *values;
    struct err err = {0};

    if (!*name)
        return failure_set(write->failure, write->arena, 422, "Invalid", "task_template_name: missing");
    template = store_get(tasks->store, KIND_TASK_TEMPLATE, "", name);
    if (!template)
        return failure_set(write->failure, write->arena, 422, "Invalid", "there is no task template \"%s\"",
                           name);
    for (size_t i = 0; i < ARRAY_LEN(yaml); i++)
        if (values_read(json_get(spec, yaml[i][0]), write->arena, &values, &err) < 0)
            return failure_set(write->failure, write->arena, 422, "Invalid", "%s: %s", yaml[i][1], err.msg);
    if (json_len(json_get(spec, "overridableValues")) > VALUES_PATHS_MAX)
        return failure_set(write->failure, write->arena, 422, "Invalid",
                           "overridable_values: more than %d paths", VALUES_PATHS_MAX);
    return try_example(tasks, template, spec, ns, write->arena, write->failure);
}

int define_admit(void *arg, const struct write *write, const struct kind *kind, const char *ns,
                 struct json *doc, const struct object *old)
{
    struct tasks *tasks = arg;
    const struct json *before = old ? json_get(object_json(old, write->arena), "spec") : NULL;

    if (kind->id != KIND_TASK_TEMPLATE && kind->id != KIND_TASK_DEFINITION)
        return 0;
    if (before && json_equal(before, json_get(doc, "spec"))) /* labels and the like */
        return 0;
    if (kind->id == KIND_TASK_DEFINITION)
        return admit_definition(tasks, write, ns, doc);
    return render_check(tasks, json_string_or(json_at(doc, "metadata.name"), "template"),
                        json_str(json_at(doc, "spec.template")), write->arena, write->failure);
}
