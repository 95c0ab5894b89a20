/* One Jinja environment for all templates; what was compiled is kept until the template changes. Limits are
 * small enough that a render cannot hold up the loop for long. */
#include "base/mem.h"
#include "base/yaml.h"
#include "tasks/internal.h"

#define COMPILED_MAX 256 /* templates kept compiled */

struct compiled {
    int64_t rv;
    struct jinja_template *template;
};

static struct jinja *environment(bool strict)
{
    struct jinja_options options = {
        .undefined = strict ? JINJA_UNDEFINED_STRICT : JINJA_UNDEFINED_DEFAULT,
        .all_missing = strict,
        .extensions = JINJA_EXT_DO | JINJA_EXT_LOOPCONTROLS,
        .extras = JINJA_EXTRA_ALL,
        .keep_trailing_newline = true,
        .limits = {.fuel = TASKS_FUEL,
                   .output_bytes = TASKS_OUTPUT_MAX,
                   .string_bytes = TASKS_OUTPUT_MAX,
                   .memory_bytes = 4 * TASKS_OUTPUT_MAX,
                   .wall_ms = TASKS_WALL_MS},
    };

    return jinja_new(&options);
}

void render_init(struct tasks *tasks)
{
    tasks->env = environment(false);
    tasks->scratch = jinja_scratch_new();
    tasks->compiled = map_new();
}

static void compiled_free(struct compiled *compiled)
{
    jinja_template_free(compiled->template);
    free(compiled);
}

static void forget_all(struct tasks *tasks)
{
    struct str key;
    void *value;
    size_t at = 0;

    while (map_next(tasks->compiled, &at, &key, &value))
        compiled_free(value);
    map_free(tasks->compiled);
    tasks->compiled = NULL;
}

void render_done(struct tasks *tasks)
{
    forget_all(tasks);
    jinja_scratch_free(tasks->scratch);
    jinja_free(tasks->env);
}

static int jinja_failure(const struct jinja_error *error, struct arena *arena, struct failure *failure)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct json *cause;

    jinja_error_text(error, &text);
    while (text.len && text.data[text.len - 1] == '\n')
        text.data[--text.len] = '\0';
    failure_set(failure, arena, 422, "Invalid", "the template could not be rendered: %s", text.data);
    failure->causes = json_new_array(arena);
    cause = json_push_object(arena, failure->causes);
    json_set_string(arena, cause, "reason", jinja_kind_name(error->kind));
    json_set_string(arena, cause, "message", error->message);
    json_set_string(
        arena, cause, "field",
        arena_printf(arena, "%s:%u:%u", error->at.template_name, error->at.line, error->at.column));
    return -1;
}

static struct jinja_template *template_of(struct tasks *tasks, const struct object *object,
                                          struct arena *arena, struct failure *failure)
{
    struct compiled *compiled = map_get(tasks->compiled, str_from(object->name));
    struct jinja_error error = {0};
    struct jinja_template *template;

    if (compiled && compiled->rv == object->rv)
        return compiled->template;
    template = jinja_compile(tasks->env, object->name,
                             json_str(json_at(object_json(object, arena), "spec.template")), &error);
    if (!template) {
        jinja_failure(&error, arena, failure);
        return NULL;
    }
    if (!compiled) {
        if (map_len(tasks->compiled) >= COMPILED_MAX) {
            forget_all(tasks);
            tasks->compiled = map_new();
        }
        compiled = NEW(struct compiled);
        map_set(tasks->compiled, str_from(object->name), compiled);
    } else {
        jinja_template_free(compiled->template);
    }
    *compiled = (struct compiled){object->rv, template};
    return template;
}

int render_template(struct tasks *tasks, const struct object *object, const struct json *values,
                    struct arena *arena, struct buf *out, struct failure *failure)
{
    struct jinja_error error = {0};
    const struct jinja_template *template = template_of(tasks, object, arena, failure);

    if (!template)
        return -1;
    if (jinja_render(template, values, tasks->scratch, out, &error) < 0)
        return jinja_failure(&error, arena, failure);
    return 0;
}

int render_check(struct tasks *tasks, const char *name, struct str text, struct arena *arena,
                 struct failure *failure)
{
    CLEANUP(jinja_template_free) struct jinja_template *template = NULL;
    struct jinja_error error = {0};

    template = jinja_compile(tasks->env, name, text, &error);
    return template ? 0 : jinja_failure(&error, arena, failure);
}

int tasks_render(struct tasks *tasks, struct str text, const struct json *values, bool strict,
                 struct arena *arena, struct buf *out, struct failure *failure)
{
    CLEANUP(jinja_free) struct jinja *own = strict ? environment(true) : NULL;
    CLEANUP(jinja_template_free) struct jinja_template *template = NULL;
    struct jinja_error error = {0};

    template = jinja_compile(own ? own : tasks->env, "template", text, &error);
    if (!template || jinja_render(template, values, tasks->scratch, out, &error) < 0)
        return jinja_failure(&error, arena, failure);
    return 0;
}

int tasks_documents(struct str text, struct arena *arena, struct json **ret, struct failure *failure)
{
    struct err err = {0};

    if (yaml_parse(text, arena, ret, NULL, &err) < 0)
        return failure_set(failure, arena, 422, "Invalid", "the template rendered to broken YAML: %s",
                           err.msg);
    return 0;
}
