#include "base/mem.h"
#include "objects/names.h"
#include "tasks/internal.h"

#include <ctype.h>

struct tasks *tasks_new(const struct tasks_config *config)
{
    struct tasks *tasks = NEW(struct tasks);

    tasks->config = *config;
    tasks->registry = config->registry;
    tasks->store = registry_store(config->registry);
    render_init(tasks);
    registry_add_admission(tasks->registry, define_admit, tasks);
    status_init(tasks);
    if (config->notify)
        callbacks_reconcile(tasks);
    return tasks;
}

void tasks_free(struct tasks *tasks)
{
    if (!tasks)
        return;
    status_done(tasks);
    render_done(tasks);
    free(tasks);
}

static void set_or_null(struct json *shown, const char *key, const struct json *value, struct arena *arena)
{
    json_set(arena, shown, key, value ? *value : *json_new_null(arena));
}

static void show_links(struct json *shown, const struct object *task, struct arena *arena)
{
    static const char *const links[][2] = {{"self", ""}, {"logs", "/logs"}, {"rerun", "/rerun"}};
    struct json *list = json_set_object(arena, shown, "links");

    for (size_t i = 0; i < ARRAY_LEN(links); i++)
        json_set_string(arena, list, links[i][0],
                        arena_printf(arena, "/v1/jobs/%s%s?namespace=%s", task->name, links[i][1], task->ns));
}

struct json *tasks_show(struct tasks *tasks, const struct object *task, bool full, struct arena *arena)
{
    /* from the spec, and from the values */
    static const char *const spec_keys[][2] = {{"task_def", "taskDef"},
                                               {"definition", "definition"},
                                               {"task_template_name", "taskTemplateName"},
                                               {"application", "application"},
                                               {"creator", "creator"},
                                               {"rerun_of", "rerunOf"}};
    static const char *const value_keys[] = {"name", "description"};
    static const char *const times[][2] = {{"started", "startTime"}, {"finished", "completionTime"}};
    const struct json *doc = object_json(task, arena), *spec = json_get(doc, "spec"),
                      *status = json_get(doc, "status"), *values = json_get(spec, "values");
    struct json *shown = json_new_object(arena);
    char *phase = arena_strdup(arena, json_string_or(json_get(status, "phase"), "Pending"));

    for (char *p = phase; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    json_set_string(arena, shown, "task_id", task->name);
    json_set_string(arena, shown, "namespace", task->ns);
    json_set_string(arena, shown, "uid", task->uid);
    for (size_t i = 0; i < ARRAY_LEN(spec_keys); i++)
        set_or_null(shown, spec_keys[i][0], json_get(spec, spec_keys[i][1]), arena);
    for (size_t i = 0; i < ARRAY_LEN(value_keys); i++)
        set_or_null(shown, value_keys[i], json_get(values, value_keys[i]), arena);
    set_or_null(shown, "user", json_get(json_at(doc, "metadata.annotations"), OWNER_ANNOTATION), arena);
    json_set_string(arena, shown, "status", task->deleting ? "deleted" : phase);
    set_or_null(shown, "reason", json_get(status, "reason"), arena);
    set_or_null(shown, "progress", json_get(status, "progress"), arena);
    set_or_null(shown, "submitted", json_at(doc, "metadata.creationTimestamp"), arena);
    for (size_t i = 0; i < ARRAY_LEN(times); i++)
        set_or_null(shown, times[i][0], json_get(status, times[i][1]), arena);
    show_links(shown, task, arena);
    if (full) {
        set_or_null(shown, "objects", json_get(status, "objects"), arena);
        set_or_null(shown, "values", values, arena);
        json_set(arena, shown, "callbacks",
                 tasks->config.notify ? *callbacks_show(tasks, task->uid, arena) : *json_new_array(arena));
    }
    return shown;
}
