/* A definition in the guide's form, a newline of "---", filled values: registered and run (a dry run, then
 * for real) against the shipped templates and one that uses everything. What is made must be whole: a task
 * with all its objects. */
#include "base/yaml.h"
#include "tasks/tasks.h"

#include <stdint.h>

static struct registry *registry;
static struct store *store;
static struct loop *loop;
static struct tasks *tasks;
static struct policy *policy;

static const char everything[] =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ global.release }}'}\ndata:\n"
    "  global: '{{ configs.get(\"global\") }}'\n  dataset: '{{ configs.get(\"dataset\") }}'\n"
    "  process: '{{ configs.get(\"process\") }}'\n";

static struct json *make(int kind, const char *text, struct arena *arena)
{
    struct failure failure = {0};
    struct write write = {.arena = arena, .failure = &failure};
    struct written written;
    struct json *doc = NULL;

    if (yaml_parse_one(str_from(text), arena, &doc, NULL) < 0)
        abort();
    if (kind == KIND_TASK_TEMPLATE)
        json_set_string(arena, json_set_object(arena, doc, "spec"), "template", everything);
    if (registry_create(registry, &write, kind_by_id(kind), "", doc, &written) < 0)
        abort();
    return doc;
}

static void start(void)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct err err = {0};

    loop = loop_new();
    if (store_open(":memory:", loop, &store, &err) < 0 || policy_new(NULL, 0, &policy, &err) < 0)
        abort();
    registry = registry_new(store);
    make(KIND_NAMESPACE, "metadata: {name: default}", &arena);
    tasks = tasks_new(&(struct tasks_config){.loop = loop, .registry = registry, .policy = policy});
    if (tasks_ship(tasks, &err) < 0)
        abort();
    make(KIND_TASK_TEMPLATE, "metadata: {name: everything}", &arena);
}

static void forget(int kind, const char *name, struct arena *arena)
{
    struct failure failure = {0};
    struct write write = {.arena = arena, .failure = &failure};
    struct delete_options options = {.propagation = PROPAGATE_BACKGROUND};
    struct written written;

    registry_delete(registry, &write, kind_by_id(kind), "default", name, &options, &written);
}

struct submitted {
    int result;
    struct tasks_made made;
};

static void note_submitted(void *arg, int result, const struct tasks_made *made)
{
    *(struct submitted *)arg = (struct submitted){result, *made};
}

static void run(struct json *values, const struct identity *who, struct arena *arena)
{
    struct failure failure = {0};
    struct tasks_request request = {.who = who,
                                    .ns = "default",
                                    .values = json_copy(arena, values),
                                    .dry_run = true,
                                    .arena = arena,
                                    .failure = &failure};
    struct submitted submitted;
    struct tasks_made made;
    bool dry;

    tasks_submit(tasks, &request, note_submitted, &submitted);
    dry = submitted.result == 0;
    if (!dry && !failure.code)
        abort();
    request.dry_run = false;
    request.values = values;
    failure = (struct failure){0};
    tasks_submit(tasks, &request, note_submitted, &submitted);
    made = submitted.made;
    if (submitted.result < 0) {
        if (dry)
            abort();
        return;
    }
    if (!made.task || !tasks_show(tasks, made.task, true, arena))
        abort();
    JSON_EACH(made.objects, it) {
        for (size_t i = 0; i < kind_count; i++)
            if (kinds[i].stored && streq(kinds[i].name, json_get_string(it, "kind"))) {
                if (!store_get(store, kinds[i].id, "default", json_get_string(it, "name")))
                    abort();
                forget(kinds[i].id, json_get_string(it, "name"), arena);
            }
    }
    forget(KIND_TASK, made.release, arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct identity who = {
        .user = "root", .groups = {"system:masters", "system:authenticated"}, .group_count = 2};
    struct str text = {(const char *)data, size};
    const char *cut = size ? memmem(data, size, "\n---\n", 5) : NULL;
    struct json *form = NULL, *values = NULL, *doc;
    struct failure failure = {0};
    struct write write = {.arena = &arena, .failure = &failure, .who = &who};
    struct written written;

    if (!tasks)
        start();
    if (!cut || size > 65536 ||
        yaml_parse_one((struct str){text.s, (size_t)(cut - text.s)}, &arena, &form, NULL) < 0 ||
        yaml_parse_one((struct str){cut + 5, size - (size_t)(cut - text.s) - 5}, &arena, &values, NULL) < 0 ||
        !json_is(values, JSON_OBJECT) || tasks_definition_doc(form, &arena, &doc, &failure) < 0)
        return 0;
    if (registry_create(registry, &write, kind_by_id(KIND_TASK_DEFINITION), "default", doc, &written) < 0)
        return 0;
    tasks_schema(written.object, &arena);
    tasks_definition_form(written.object, true, &arena);
    json_set_string(&arena, values, "taskDef", written.object->name);
    run(values, &who, &arena);
    forget(KIND_TASK_DEFINITION, json_at_string(doc, "metadata.name"), &arena);
    for (int i = 0; i < 3; i++)
        loop_turn(loop, 0, NULL);
    return 0;
}
