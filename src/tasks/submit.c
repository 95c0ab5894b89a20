/* From filled values to objects. Everything is tried first (dry runs through the registry), then made in one
 * turn of the loop, which is one commit; what fails even so is taken back in the same turn. */
#include "base/clock.h"
#include "base/file.h"
#include "base/vec.h"
#include "objects/names.h"
#include "registry/access.h"
#include "tasks/internal.h"
#include "tasks/values.h"

#define RANDOM_BYTES 4

static const char *make_release(struct tasks *tasks, const char *ns, const char *task_def,
                                struct arena *arena)
{
    const char *slug = values_slug(task_def, TASKS_RELEASE_MAX - 2 * RANDOM_BYTES - 1, arena), *release;
    char unique[2 * RANDOM_BYTES + 1];

    do {
        random_hex(unique, RANDOM_BYTES);
        release = arena_printf(arena, "%s-%s", *slug ? slug : "task", unique);
    } while (store_get(tasks->store, KIND_TASK, ns, release));
    return release;
}

static struct write write_of(const struct tasks_request *request, bool dry_run)
{
    return (struct write){
        .who = request->who,
        .by = request->by,
        .manager = "berth-tasks",
        .validation = FIELDS_STRICT,
        .dry_run = dry_run,
        .now = request->now,
        .arena = request->arena,
        .failure = request->failure,
    };
}

/* ---- rendering ---- */

static int check_values(const struct tasks_request *request)
{
    CLEANUP(buf_done) struct buf text = {0};

    json_write(&text, request->values);
    if (text.len > TASKS_VALUES_MAX)
        return failure_set(request->failure, request->arena, 422, "Invalid",
                           "the filled values are longer than %d bytes", TASKS_VALUES_MAX);
    return 0;
}

static int find_definition(struct tasks *tasks, const struct tasks_request *request, struct filled *filled,
                           const struct json **spec)
{
    const char *name = json_string_or(json_get(request->values, "taskDef"), ""), *template;

    if (!*name)
        return failure_set(request->failure, request->arena, 422, "Invalid",
                           "taskDef: missing; it names the task definition to run");
    filled->definition = tasks_find_definition(tasks, request->ns, name, request->arena, request->failure);
    if (!filled->definition) {
        if (request->failure->code == 404)
            request->failure->code = 422; /* the address was right, the values are not */
        return -1;
    }
    *spec = json_get(object_json(filled->definition, request->arena), "spec");
    filled->task_def = json_string_or(json_get(*spec, "name"), filled->definition->name);
    template = json_string_or(json_get(*spec, "taskTemplateName"), "");
    filled->template = store_get(tasks->store, KIND_TASK_TEMPLATE, "", template);
    if (!filled->template)
        return failure_set(request->failure, request->arena, 422, "Invalid",
                           "there is no task template \"%s\" any more, which task definition \"%s\" uses",
                           template, filled->task_def);
    return 0;
}

/* ---- making ---- */

static void set_label(struct json *doc, const char *release, struct arena *arena)
{
    struct json *meta = json_need_object(arena, doc, "metadata");

    if (meta && json_need_object(arena, meta, "labels"))
        label_set(arena, doc, TASK_LABEL, release);
}

static bool is_work(const struct json *doc)
{
    int kind = check_kind(doc)->id;

    return kind == KIND_JOB || kind == KIND_TRAINING_JOB || kind == KIND_POD;
}

/* The name in the label `user` of what is rendered: an admin runs the task for somebody. NULL: none. */
static const char *run_for(const struct json *docs)
{
    static const char *const places[] = {"metadata.labels", "spec.template.metadata.labels"};

    JSON_EACH(docs, it)
        for (size_t i = 0; i < ARRAY_LEN(places) && is_work(it); i++) {
            const char *user = json_get_string(json_at(it, places[i]), USER_LABEL);

            if (user && *user)
                return user;
        }
    return NULL;
}

/* A task and all that it runs are one person's. */
static void set_user(struct json *docs, const char *user, struct arena *arena)
{
    JSON_EACH(docs, it)
        if (is_work(it) && !label_get(it, USER_LABEL))
            label_set(arena, it, USER_LABEL, user);
}

static int may_create(struct tasks *tasks, const struct tasks_request *request, const struct kind *kind)
{
    struct access access = {
        .verb = "create", .kind = kind, .subresource = "", .ns = request->ns, .name = "", .path = ""};

    return access_check(tasks->registry, request->by ? request->by : request->who, &access, request->arena,
                        request->failure);
}

static int try_all(struct tasks *tasks, const struct tasks_request *request, const struct json *docs)
{
    struct write write = write_of(request, true);

    JSON_EACH(docs, it) {
        const struct kind *kind = check_kind(it);
        CLEANUP(written_done) struct written written = {0};

        if (may_create(tasks, request, kind) < 0 ||
            registry_create(tasks->registry, &write, kind, request->ns, json_copy(request->arena, it),
                            &written) < 0)
            return -1;
    }
    return 0;
}

static const char *link_of(const struct kind *kind, const char *ns, const char *name, struct arena *arena)
{
    return arena_printf(arena, "/%s/%s/namespaces/%s/%s/%s", *kind->group ? "apis" : "api",
                        kind_api_version(kind), ns, kind->plural, name);
}

static struct json *list_objects(const struct tasks_request *request, const struct json *docs)
{
    struct json *list = json_new_array(request->arena);

    JSON_EACH(docs, it) {
        const struct kind *kind = check_kind(it);
        const char *name = json_at_string(it, "metadata.name");
        struct json *entry = json_push_object(request->arena, list);

        json_set_string(request->arena, entry, "apiVersion", kind_api_version(kind));
        json_set_string(request->arena, entry, "kind", kind->name);
        json_set_string(request->arena, entry, "namespace", request->ns);
        json_set_string(request->arena, entry, "name", name);
        json_set_string(request->arena, entry, "link", link_of(kind, request->ns, name, request->arena));
    }
    return list;
}

static struct json *task_doc(const struct tasks_request *request, const struct filled *filled,
                             const struct tasks_made *made, const char *user)
{
    struct arena *arena = request->arena;
    struct json *doc = json_new_object(arena), *meta, *spec, *status;

    json_set_string(arena, doc, "apiVersion", "berth.dev/v1");
    json_set_string(arena, doc, "kind", "Task");
    meta = json_set_object(arena, doc, "metadata");
    json_set_string(arena, meta, "name", made->release);
    if (user)
        label_set(arena, doc, USER_LABEL, user);
    spec = json_set_object(arena, doc, "spec");
    json_set_string(arena, spec, "taskDef", filled->task_def);
    json_set_string(arena, spec, "definition",
                    arena_printf(arena, "%s/%s", filled->definition->ns, filled->definition->name));
    json_set_string(arena, spec, "taskTemplateName", filled->template->name);
    json_set_string(arena, spec, "application", filled->application);
    json_set_string(arena, spec, "creator", filled->creator);
    if (request->rerun_of)
        json_set_string(arena, spec, "rerunOf", request->rerun_of);
    json_set(arena, spec, "values", *filled->shown);
    status = json_set_object(arena, doc, "status");
    json_set_string(arena, status, "phase", "Pending");
    json_set_string(arena, status, "reason", "its objects have been made");
    json_set(arena, status, "progress", json_of_real(0));
    json_set(arena, status, "objects", *made->objects);
    return doc;
}

static void set_owner(struct json *doc, const struct object *task, struct arena *arena)
{
    struct json *owners = json_set_array(arena, json_get(doc, "metadata"), "ownerReferences");
    struct json *owner = json_push_object(arena, owners);

    json_set_string(arena, owner, "apiVersion", "berth.dev/v1");
    json_set_string(arena, owner, "kind", "Task");
    json_set_string(arena, owner, "name", task->name);
    json_set_string(arena, owner, "uid", task->uid);
    json_set_bool(arena, owner, "controller", true);
    json_set_bool(arena, owner, "blockOwnerDeletion", true);
}

static void take_back(struct tasks *tasks, const struct tasks_request *request, const struct object *task,
                      const struct json *docs, size_t made)
{
    struct failure ignored = {0};
    struct write write = write_of(request, false);
    struct delete_options options = {.propagation = PROPAGATE_BACKGROUND};
    struct written written;

    write.who = NULL;
    write.failure = &ignored;
    for (size_t i = 0; i < made; i++) {
        const struct json *doc = json_item(docs, i);

        registry_delete(tasks->registry, &write, check_kind(doc), request->ns,
                        json_at_string(doc, "metadata.name"), &options, &written);
    }
    registry_delete(tasks->registry, &write, task->kind, task->ns, task->name, &options, &written);
}

static int make_all(struct tasks *tasks, const struct tasks_request *request, struct json *docs,
                    const struct filled *filled, struct tasks_made *made)
{
    struct write write = write_of(request, false);
    CLEANUP(object_unref) struct object *task = NULL;
    struct written written;
    size_t count = 0;

    if (registry_create(tasks->registry, &write, kind_by_id(KIND_TASK), request->ns,
                        task_doc(request, filled, made, run_for(docs)), &written) < 0)
        return -1;
    task = object_ref(written.object);
    JSON_EACH(docs, it) {
        set_owner(it, task, request->arena);
        if (registry_create(tasks->registry, &write, check_kind(it), request->ns, it, &written) < 0) {
            take_back(tasks, request, task, docs, count);
            return -1;
        }
        count++;
    }
    callbacks_add(tasks, task, filled->callbacks, filled->task_def, filled->creator);
    callbacks_state(tasks, task->uid, "Pending", "its objects have been made", false);
    made->task = store_get(tasks->store, KIND_TASK, task->ns, task->name);
    return 0;
}

/* ---- from values to objects ---- */

struct submission {
    struct tasks *tasks;
    struct tasks_request request;
    struct filled filled;
    struct object *definition, *template; /* they may be deleted meanwhile */
    struct tasks_made made;
    struct failure ignored; /* of the text without system values */
    tasks_submitted done;
    void *arg;
};

static struct str text_of(const struct submission *s, const struct buf *text)
{
    return (struct str){arena_strndup(s->request.arena, text->data ? text->data : "", text->len), text->len};
}

/* A definition's system values are for those who could write them. */
static bool sees_system(const struct submission *s)
{
    const struct tasks_request *request = &s->request;
    struct access access = {.verb = "update",
                            .kind = s->definition->kind,
                            .subresource = "",
                            .ns = s->definition->ns,
                            .name = s->definition->name,
                            .path = ""};

    return access_allowed(s->tasks->registry, request->by ? request->by : request->who, &access);
}

static int make_objects(struct submission *s, const struct buf *text)
{
    const struct tasks_request *request = &s->request;
    struct arena *arena = request->arena;
    struct json *docs;

    s->made.yaml = s->made.shown = text_of(s, text);
    if (tasks_documents(s->made.yaml, arena, &docs, request->failure) < 0 ||
        check_documents(s->tasks, request, docs, arena, request->failure) < 0)
        return -1;
    JSON_EACH(docs, it)
        set_label(it, s->made.release, arena);
    if (run_for(docs))
        set_user(docs, run_for(docs), arena);
    if (try_all(s->tasks, request, docs) < 0)
        return -1;
    s->made.objects = list_objects(request, docs);
    return request->dry_run ? 0 : make_all(s->tasks, request, docs, &s->filled, &s->made);
}

/* The answer may end the request, and s with it. */
static void submit_end(struct submission *s, int result)
{
    struct object *definition = s->definition, *template = s->template;

    s->done(s->arg, result, &s->made);
    object_unref(definition);
    object_unref(template);
}

static void submit_on_hidden(void *arg, int result, struct buf *text)
{
    struct submission *s = arg;

    s->made.shown =
        result == 0 ? text_of(s, text) : STR("# not shown: the task definition has values of its own\n");
    submit_end(s, 0);
}

static void submit_on_rendered(void *arg, int result, struct buf *text)
{
    struct submission *s = arg;

    if (result == 0)
        result = make_objects(s, text);
    if (result == 0 && s->request.dry_run && !sees_system(s))
        render_template_then(s->tasks, s->request.who->user, s->template, s->filled.hidden, s->request.arena,
                             &s->ignored, submit_on_hidden, s);
    else
        submit_end(s, result);
}

static int fill(struct submission *s)
{
    const struct tasks_request *request = &s->request;
    const struct json *spec;

    if (check_values(request) < 0 || find_definition(s->tasks, request, &s->filled, &spec) < 0)
        return -1;
    s->made.release = make_release(s->tasks, request->ns, s->filled.task_def, request->arena);
    if (fill_values(s->tasks, spec, request->values, s->made.release, request->who->user, true,
                    request->arena, &s->filled, request->warnings, request->failure) < 0)
        return -1;
    if (request->rerun_uid)
        callbacks_inherit(s->tasks, request->rerun_uid, request->arena, s->filled.callbacks);
    return 0;
}

void tasks_submit(struct tasks *tasks, const struct tasks_request *request, tasks_submitted done, void *arg)
{
    struct submission *s = arena_zalloc(request->arena, sizeof(*s));

    s->tasks = tasks;
    s->request = *request;
    s->done = done;
    s->arg = arg;
    if (fill(s) < 0) {
        done(arg, -1, &s->made);
        return;
    }
    s->filled.definition = s->definition = object_ref(s->filled.definition);
    s->filled.template = s->template = object_ref(s->filled.template);
    render_template_then(tasks, request->who->user, s->template, s->filled.values, request->arena,
                         request->failure, submit_on_rendered, s);
}
