/* Templates are rendered by berth-render (renderer.h), or in this process where there is none: in tests. Then
 * there is one Jinja environment for all templates, and what was compiled is kept until the template
 * changes. */
#include "base/mem.h"
#include "base/yaml.h"
#include "objects/object_doc.h"
#include "tasks/internal.h"
#include "tasks/render_wire.h"
#include "tasks/renderer.h"

#define COMPILED_MAX 256 /* templates kept compiled */

struct compiled {
    int64_t rv;
    struct jinja_template *template;
};

void render_init(struct tasks *tasks)
{
    tasks->env = render_environment(false, false);
    if (tasks->config.render_program)
        tasks->renderer = renderer_new(tasks->config.loop, tasks->config.render_program);
    tasks->config.render_program = NULL; /* was borrowed */
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
    renderer_free(tasks->renderer);
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

/* ---- in this process ---- */

static int render_here(struct tasks *tasks, const struct object *object, const struct json *values,
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

static int render_text_here(struct tasks *tasks, const char *name, struct str text, const struct json *values,
                            unsigned flags, struct arena *arena, struct buf *out, struct failure *failure)
{
    CLEANUP(jinja_free) struct jinja *own = flags & RENDER_STRICT ? render_environment(true, false) : NULL;
    CLEANUP(jinja_template_free) struct jinja_template *template = NULL;
    struct jinja_error error = {0};

    template = jinja_compile(own ? own : tasks->env, name, text, &error);
    if (!template ||
        (!(flags & RENDER_CHECK) && jinja_render(template, values, tasks->scratch, out, &error) < 0))
        return jinja_failure(&error, arena, failure);
    return 0;
}

/* ---- in a process of its own ---- */

/* Takes the job's text, or says why there is none. */
static int finish_job(struct render_job *job, struct arena *arena, struct buf *out, struct failure *failure)
{
    int result = 0;

    if (!job->failed) {
        *out = job->out;
        job->out = (struct buf){0};
    } else if (job->error.kind != JINJA_OK) {
        result = jinja_failure(&job->error, arena, failure);
    } else if (job->err.code == ERR_LIMIT) {
        result = failure_set(failure, arena, 422, "Invalid", "the template could not be rendered: %s",
                             job->err.msg);
    } else {
        result = failure_from_err(failure, arena, &job->err);
    }
    render_job_free(job);
    return result;
}

static struct str text_of(const struct object *template)
{
    return json_str(json_at(object_doc(template), "spec.template"));
}

int render_template(struct tasks *tasks, const struct object *object, const struct json *values,
                    struct arena *arena, struct buf *out, struct failure *failure)
{
    struct render_job *job;

    if (!tasks->renderer)
        return render_here(tasks, object, values, arena, out, failure);
    job = render_job_new(object->name, text_of(object), values, RENDER_BRIEF);
    renderer_wait(tasks->renderer, job);
    return finish_job(job, arena, out, failure);
}

int render_check(struct tasks *tasks, const char *name, struct str text, struct arena *arena,
                 struct failure *failure)
{
    CLEANUP(buf_done) struct buf none = {0};
    struct render_job *job;

    if (!tasks->renderer)
        return render_text_here(tasks, name, text, NULL, RENDER_CHECK, arena, &none, failure);
    job = render_job_new(name, text, NULL, RENDER_CHECK | RENDER_BRIEF);
    renderer_wait(tasks->renderer, job);
    return finish_job(job, arena, &none, failure);
}

struct rendering {
    struct arena *arena;
    struct failure *failure;
    tasks_rendered done;
    void *arg;
};

static void on_rendered(void *arg, struct render_job *job)
{
    struct rendering *rendering = arg;
    struct buf out = {0};
    int result = finish_job(job, rendering->arena, &out, rendering->failure);

    rendering->done(rendering->arg, result, &out);
    buf_done(&out);
}

static void render_later(struct tasks *tasks, const char *person, struct render_job *job, struct arena *arena,
                         struct failure *failure, tasks_rendered done, void *arg)
{
    struct rendering *rendering = arena_alloc(arena, sizeof(*rendering));
    struct buf none = {0};
    struct err err = {0};

    *rendering = (struct rendering){arena, failure, done, arg};
    if (renderer_start(tasks->renderer, person, job, on_rendered, rendering, &err) == 0)
        return;
    render_job_free(job);
    failure_from_err(failure, arena, &err);
    done(arg, -1, &none);
}

void render_template_then(struct tasks *tasks, const char *person, const struct object *object,
                          const struct json *values, struct arena *arena, struct failure *failure,
                          tasks_rendered done, void *arg)
{
    struct buf out = {0};

    if (tasks->renderer) {
        render_later(tasks, person, render_job_new(object->name, text_of(object), values, 0), arena, failure,
                     done, arg);
        return;
    }
    done(arg, render_here(tasks, object, values, arena, &out, failure), &out);
    buf_done(&out);
}

void tasks_render(struct tasks *tasks, const char *person, struct str text, const struct json *values,
                  bool strict, struct arena *arena, struct failure *failure, tasks_rendered done, void *arg)
{
    unsigned flags = strict ? RENDER_STRICT : 0;
    struct buf out = {0};

    if (tasks->renderer) {
        render_later(tasks, person, render_job_new("template", text, values, flags), arena, failure, done,
                     arg);
        return;
    }
    done(arg, render_text_here(tasks, "template", text, values, flags, arena, &out, failure), &out);
    buf_done(&out);
}

int tasks_documents(struct str text, struct arena *arena, struct json **ret, struct failure *failure)
{
    struct err err = {0};

    if (yaml_parse(text, arena, ret, NULL, &err) < 0)
        return failure_set(failure, arena, 422, "Invalid", "the template rendered to broken YAML: %s",
                           err.msg);
    return 0;
}
