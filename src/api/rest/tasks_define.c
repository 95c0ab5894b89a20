/* /v1/task-templates, /v1/task-definitions, /v1/render. */
#include "api/rest/tasks.h"

/* ---- templates ---- */

static struct json *template_form(struct call *call, const struct object *template, bool full)
{
    const struct json *doc = object_json(template, call->arena), *spec = json_get(doc, "spec");
    struct json *form = json_new_object(call->arena);
    static const char *const keys[][2] = {
        {"description", "description"}, {"required_values", "requiredValues"}, {"template", "template"}};

    json_set_string(call->arena, form, "name", template->name);
    for (size_t i = 0; i < ARRAY_LEN(keys) - !full; i++) {
        const struct json *value = json_get(spec, keys[i][1]);

        json_set(call->arena, form, keys[i][0], value ? *value : *json_new_null(call->arena));
    }
    json_set(call->arena, form, "created", *json_at(doc, "metadata.creationTimestamp"));
    return form;
}

void rest_templates_list(struct call *call, const char *id)
{
    struct json *doc = json_new_object(call->arena), *items = json_new_array(call->arena);
    struct store_slice slice = call_list(call, KIND_TASK_TEMPLATE, NULL);

    (void)id;
    OBJECTS_EACH(slice, it)
        json_push(call->arena, items, *template_form(call, *it, false));
    json_set(call->arena, doc, "task_templates", *items);
    rest_reply(call, 200, doc);
}

static const struct object *find_template(struct call *call, const char *name)
{
    const struct object *found = store_get(call->store, KIND_TASK_TEMPLATE, "", name);

    if (!found)
        failure_set(&call->failure, call->arena, 404, "NotFound", "there is no task template \"%s\"", name);
    return found;
}

void rest_templates_show(struct call *call, const char *id)
{
    const struct object *template = find_template(call, id);

    if (!template)
        rest_fail(call);
    else
        rest_reply(call, 200, template_form(call, template, true));
}

/* {"name", "template", "description", "required_values"} as an object. */
static int template_doc(struct call *call, const char *name, struct json **ret)
{
    struct json *form, *doc = json_new_object(call->arena), *spec;
    const struct json *values;

    if (rest_body(call, &form) < 0)
        return -1;
    if (!*name)
        name = json_string_or(json_get(form, "name"), "");
    if (!*name)
        return failure_set(&call->failure, call->arena, 422, "Invalid", "name: missing");
    if (!json_str(json_get(form, "template")).len)
        return failure_set(&call->failure, call->arena, 422, "Invalid",
                           "template: missing; it is the Jinja text");
    json_set_string(call->arena, json_set_object(call->arena, doc, "metadata"), "name", name);
    spec = json_set_object(call->arena, doc, "spec");
    json_set(call->arena, spec, "template", *json_get(form, "template"));
    if (json_string(json_get(form, "description")))
        json_set(call->arena, spec, "description", *json_get(form, "description"));
    values = json_get(form, "required_values");
    if (values && !json_is(values, JSON_NULL))
        json_set(call->arena, spec, "requiredValues", *values);
    *ret = doc;
    return 0;
}

void rest_templates_add(struct call *call, const char *id)
{
    struct write write = rest_task_write(call);
    CLEANUP(written_done) struct written written = {0};
    struct json *doc;

    (void)id;
    if (template_doc(call, "", &doc) < 0 ||
        registry_create(call->registry, &write, kind_by_id(KIND_TASK_TEMPLATE), "", doc, &written) < 0)
        rest_fail(call);
    else
        rest_reply(call, 201, template_form(call, written.object, true));
}

void rest_templates_put(struct call *call, const char *id)
{
    const struct kind *kind = kind_by_id(KIND_TASK_TEMPLATE);
    bool there = store_get(call->store, KIND_TASK_TEMPLATE, "", id) != NULL;
    struct write write = rest_task_write(call);
    CLEANUP(written_done) struct written written = {0};
    struct json *doc;

    if (template_doc(call, id, &doc) < 0 ||
        (there ? registry_update(call->registry, &write, kind, "", id, doc, &written)
               : registry_create(call->registry, &write, kind, "", doc, &written)) < 0)
        rest_fail(call);
    else
        rest_reply(call, there ? 200 : 201, template_form(call, written.object, true));
}

static void delete_object(struct call *call, const struct object *object)
{
    struct write write = rest_task_write(call);
    struct delete_options options = {0};
    struct json *doc = json_new_object(call->arena);
    struct written written;

    json_set_string(call->arena, doc, "name", object->name);
    json_set_bool(call->arena, doc, "deleted", true);
    if (registry_delete(call->registry, &write, object->kind, object->ns,
                        arena_strdup(call->arena, object->name), &options, &written) < 0)
        rest_fail(call);
    else
        rest_reply(call, 200, doc);
}

void rest_templates_delete(struct call *call, const char *id)
{
    const struct object *template = find_template(call, id);

    if (!template)
        rest_fail(call);
    else
        delete_object(call, template);
}

/* ---- definitions ---- */

/* Values that users do not see are for those who could write them. */
static bool sees_system(struct call *call, const struct object *definition)
{
    struct failure kept = call->failure;
    bool may = rest_task_may(call, "update", KIND_TASK_DEFINITION, "", definition->ns, definition->name);

    call->failure = kept;
    return may;
}

static struct json *definition_form(struct call *call, const struct object *definition)
{
    return tasks_definition_form(definition, sees_system(call, definition), call->arena);
}

void rest_definitions_list(struct call *call, const char *id)
{
    static const char *const filters[] = {"creator", "application", "task_template_name", "namespace"};
    struct json *doc = json_new_object(call->arena), *items = json_new_array(call->arena);
    struct store_slice slice = call_list(call, KIND_TASK_DEFINITION, NULL);

    (void)id;
    OBJECTS_EACH(slice, it) {
        struct json *form = definition_form(call, *it);
        bool wanted = true;

        for (size_t i = 0; i < ARRAY_LEN(filters); i++)
            if (*query_string(call, filters[i]) &&
                !streq(query_string(call, filters[i]), json_get_string(form, filters[i])))
                wanted = false;
        if (wanted)
            json_push(call->arena, items, *form);
    }
    json_set(call->arena, doc, "task_definitions", *items);
    rest_reply(call, 200, doc);
}

static const struct object *find_definition(struct call *call, const char *id)
{
    const char *ns = query_string(call, "namespace");

    if (*ns && !strchr(id, '/'))
        id = arena_printf(call->arena, "%s/%s", ns, id);
    return tasks_find_definition(call->api->config.tasks, rest_task_ns(call), id, call->arena,
                                 &call->failure);
}

void rest_definitions_show(struct call *call, const char *id)
{
    const struct object *definition = find_definition(call, id);

    if (!definition)
        rest_fail(call);
    else
        rest_reply(call, 200, definition_form(call, definition));
}

void rest_definitions_schema(struct call *call, const char *id)
{
    const struct object *definition = find_definition(call, id);

    if (!definition)
        rest_fail(call);
    else
        rest_reply(call, 200, tasks_schema(definition, call->arena));
}

void rest_definitions_add(struct call *call, const char *id)
{
    const char *ns = rest_task_ns(call);
    struct write write = rest_task_write(call);
    CLEANUP(written_done) struct written written = {0};
    struct json *form, *doc;

    (void)id;
    if (!rest_task_may(call, "create", KIND_TASK_DEFINITION, "", ns, "") || rest_body(call, &form) < 0 ||
        tasks_definition_doc(form, call->arena, &doc, &call->failure) < 0) {
        rest_fail(call);
        return;
    }
    if (registry_create(call->registry, &write, kind_by_id(KIND_TASK_DEFINITION), ns, doc, &written) < 0) {
        if (call->failure.code == 409)
            failure_set(&call->failure, call->arena, 409, "AlreadyExists",
                        "there is a task definition \"%s\" already: choose another name, or set append_uuid",
                        json_string_or(json_at(doc, "spec.name"), ""));
        rest_fail(call);
        return;
    }
    rest_reply(call, 201, definition_form(call, written.object));
}

void rest_definitions_put(struct call *call, const char *id)
{
    const struct object *there = find_definition(call, id);
    struct write write = rest_task_write(call);
    CLEANUP(written_done) struct written written = {0};
    struct json *form, *doc;

    if (!there || !rest_task_may(call, "update", KIND_TASK_DEFINITION, "", there->ns, there->name) ||
        rest_body(call, &form) < 0) {
        rest_fail(call);
        return;
    }
    json_remove(form, "append_uuid");
    json_set_string(call->arena, form, "name",
                    json_string_or(json_at(object_json(there, call->arena), "spec.name"), there->name));
    if (tasks_definition_doc(form, call->arena, &doc, &call->failure) < 0) {
        rest_fail(call);
        return;
    }
    json_set_string(call->arena, json_get(doc, "metadata"), "name", there->name);
    if (registry_update(call->registry, &write, there->kind, there->ns,
                        arena_strdup(call->arena, there->name), doc, &written) < 0)
        rest_fail(call);
    else
        rest_reply(call, 200, definition_form(call, written.object));
}

void rest_definitions_delete(struct call *call, const char *id)
{
    const struct object *definition = find_definition(call, id);

    if (!definition ||
        !rest_task_may(call, "delete", KIND_TASK_DEFINITION, "", definition->ns, definition->name))
        rest_fail(call);
    else
        delete_object(call, definition);
}

/* ---- rendering ---- */

static void rest_on_rendered(void *arg, int result, struct buf *out)
{
    struct call *call = arg;
    const char *accept = http_req_header(call->req, "Accept");
    struct json *answer = json_new_object(call->arena);

    if (result < 0) {
        rest_fail(call);
        return;
    }
    if (accept && starts_with(accept, "text/plain")) {
        call_reply(call, 200, "text/plain; charset=utf-8", out);
        return;
    }
    json_set(call->arena, answer, "output", json_of_str(call->arena, buf_view(out)));
    rest_reply(call, 200, answer);
}

void rest_render(struct call *call, const char *id)
{
    struct json *form;
    const struct json *values;
    struct str text;

    (void)id;
    if (rest_body(call, &form) < 0) {
        rest_fail(call);
        return;
    }
    text = json_str(json_get(form, "template"));
    if (json_get_string(form, "task_template_name")) {
        const struct object *template = find_template(call, json_get_string(form, "task_template_name"));

        if (!template) {
            rest_fail(call);
            return;
        }
        text = json_str(json_at(object_json(template, call->arena), "spec.template"));
    }
    values = json_get(form, "values");
    if (!text.s || (values && !json_is(values, JSON_OBJECT))) {
        failure_set(&call->failure, call->arena, 422, "Invalid", "%s",
                    text.s ? "values: must be an object" : "template: missing; it is the Jinja text");
        rest_fail(call);
        return;
    }
    tasks_render(call->api->config.tasks, call->who.user, text, values, json_bool(json_get(form, "strict")),
                 call->arena, &call->failure, rest_on_rendered, call);
}
