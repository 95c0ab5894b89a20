/* batch.c - see batch.h. */
#include "jinja/batch.h"

#include "jinja/jinja.h"

#include <stdlib.h>

static void read_options(const struct json *from, struct jinja_options *ret)
{
    *ret = (struct jinja_options){0};
    ret->trim_blocks = json_bool(json_get(from, "trim_blocks"));
    ret->lstrip_blocks = json_bool(json_get(from, "lstrip_blocks"));
    ret->keep_trailing_newline = json_bool(json_get(from, "keep_trailing_newline"));
    ret->autoescape = json_bool(json_get(from, "autoescape"));
    ret->all_missing = json_bool(json_get(from, "all_missing"));
    if (streq(json_get_string(from, "undefined"), "strict"))
        ret->undefined = JINJA_UNDEFINED_STRICT;
    JSON_EACH(json_get(from, "extensions"), it) {
        if (streq(json_string(it), "do"))
            ret->extensions |= JINJA_EXT_DO;
        if (streq(json_string(it), "loopcontrols"))
            ret->extensions |= JINJA_EXT_LOOPCONTROLS;
    }
    if (json_bool(json_get(from, "extras")))
        ret->extras = JINJA_EXTRA_ALL;
}

static void add_templates(struct jinja *env, const struct json *templates)
{
    struct jinja_error ignored; /* kept in the environment, raised by who names the template */

    JSON_EACH_MEMBER(templates, it)
        (void)jinja_add(env, it->key, json_str(&it->value), &ignored);
}

static int render(const struct json *request, struct buf *out, struct jinja_error *error)
{
    struct jinja_options options;
    CLEANUP(jinja_free) struct jinja *env = NULL;
    const struct jinja_template *tmpl;

    read_options(json_get(request, "options"), &options);
    env = jinja_new(&options);
    tmpl = jinja_add(env, "main", json_str(json_get(request, "template")), error);
    add_templates(env, json_get(request, "templates"));
    return tmpl ? jinja_render(tmpl, json_get(request, "context"), NULL, out, error) : -1;
}

static void answer_error(struct arena *arena, struct json *answer, const struct jinja_error *error)
{
    json_set_string(arena, answer, "error", jinja_kind_name(error->kind));
    json_set_int(arena, answer, "line", error->at.line);
    json_set_int(arena, answer, "column", error->at.column);
    json_set_string(arena, answer, "message", error->message);
    if (error->at.template_name[0] && !streq(error->at.template_name, "main"))
        json_set_string(arena, answer, "template", error->at.template_name);
}

static void protocol_error(struct arena *arena, struct json *answer, const char *message)
{
    json_set(arena, answer, "id", (struct json){.type = JSON_NULL});
    json_set_string(arena, answer, "error", "ProtocolError");
    json_set_string(arena, answer, "message", message);
}

static void answer_line(struct str line, struct buf *text)
{
    CLEANUP(arena_done) struct arena arena = {0};
    CLEANUP(buf_done) struct buf out = {0};
    struct json *request = NULL, *answer = json_new_object(&arena);
    struct jinja_error error = {0};
    struct err err = {0};

    if (json_parse(line, &arena, &request, NULL, &err) < 0) {
        protocol_error(&arena, answer, err.msg);
    } else if (!json_string(json_get(request, "template"))) {
        protocol_error(&arena, answer, "the request has no template");
    } else {
        json_set(&arena, answer, "id",
                 json_get(request, "id") ? *json_get(request, "id") : (struct json){.type = JSON_NULL});
        if (render(request, &out, &error) < 0)
            answer_error(&arena, answer, &error);
        else
            json_set(&arena, answer, "output", json_of_str(&arena, buf_view(&out)));
    }
    json_write(text, answer);
    buf_putc(text, '\n');
}

int jinja_batch(FILE *in, FILE *out)
{
    CLEANUP(free) char *line = NULL;
    CLEANUP(buf_done) struct buf text = {0};
    size_t cap = 0;
    ssize_t len;

    while ((len = getline(&line, &cap, in)) >= 0) {
        while (len && (line[len - 1] == '\n' || line[len - 1] == '\r'))
            len--;
        buf_clear(&text);
        answer_line((struct str){line, (size_t)len}, &text);
        if (fwrite(text.data, 1, text.len, out) != text.len || fflush(out) != 0)
            return -1;
    }
    return 0;
}
