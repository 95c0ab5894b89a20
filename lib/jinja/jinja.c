/* jinja.c - environments, templates and renders: what jinja.h promises. */
#include "jinja/jinja.h"

#include "base/clock.h"
#include "base/mem.h"
#include "jinja/env.h"
#include "jinja/objects.h"
#include "jinja/vm.h"

#include <stdio.h>

#define KIB 1024ULL
#define MIB (1024ULL * 1024)

static const struct jinja_limits default_limits = {
    .fuel = 10000000,
    .output_bytes = 16 * MIB,
    .string_bytes = 16 * MIB,
    .memory_bytes = 64 * MIB,
    .range_items = 100000,
    .int_bits = 64 * KIB,
    .template_bytes = MIB,
    .call_depth = 200,
    .nesting = 200,
    .wall_ms = 5000,
};

#define CALL_DEPTH_MAX 2000 /* what the C stack of a thread (1 MiB and more) carries */
#define NESTING_MAX    1000
#define COMPILE_SLICE  16384 /* likewise, of compiling */
#define STEPS_PER_BYTE 8     /* of a source, that compiling may take beyond the fuel of a render */
#define FIRST_SLICE    1024  /* steps before the first look at the clock */

struct jinja_scratch {
    struct arena arena;
    struct buf text;
};

static void set_limits(struct jinja_limits *l)
{
    const struct jinja_limits *d = &default_limits;

    l->fuel = l->fuel && l->fuel < INT64_MAX ? l->fuel : d->fuel;
    l->output_bytes = l->output_bytes ? l->output_bytes : d->output_bytes;
    l->string_bytes = l->string_bytes ? l->string_bytes : d->string_bytes;
    l->string_bytes = l->string_bytes > INT32_MAX ? INT32_MAX : l->string_bytes;
    l->memory_bytes = l->memory_bytes ? l->memory_bytes : d->memory_bytes;
    l->range_items = l->range_items ? l->range_items : d->range_items;
    l->int_bits = l->int_bits ? l->int_bits : d->int_bits;
    l->template_bytes = l->template_bytes ? l->template_bytes : d->template_bytes;
    l->template_bytes = l->template_bytes > INT32_MAX ? INT32_MAX : l->template_bytes;
    l->call_depth = l->call_depth ? l->call_depth : d->call_depth;
    l->call_depth = l->call_depth > CALL_DEPTH_MAX ? CALL_DEPTH_MAX : l->call_depth;
    l->nesting = l->nesting ? l->nesting : d->nesting;
    l->nesting = l->nesting > NESTING_MAX ? NESTING_MAX : l->nesting;
    l->wall_ms = l->wall_ms ? l->wall_ms : d->wall_ms;
}

struct jinja *jinja_new(const struct jinja_options *options)
{
    struct jinja *env = NEW(struct jinja);

    if (options)
        env->options = *options;
    set_limits(&env->options.limits);
    return env;
}

void jinja_template_free(struct jinja_template *tmpl)
{
    if (!tmpl)
        return;
    arena_done(&tmpl->arena);
    free(tmpl->error);
    free(tmpl);
}

void jinja_free(struct jinja *env)
{
    if (!env)
        return;
    while (env->first) {
        struct jinja_template *next = env->first->next;

        jinja_template_free(env->first);
        env->first = next;
    }
    free(env);
}

/* ---- compiling ---- */

/* Line ends become \n; one at the end goes unless it is to stay. */
static struct str normal_source(struct arena *arena, struct str source, bool keep_trailing)
{
    char *copy = arena_alloc(arena, source.len + 1);
    size_t n = 0;

    if (!memchr(source.s, '\r', source.len)) {
        memcpy(copy, source.s, source.len);
        n = source.len;
    } else {
        for (size_t i = 0; i < source.len; i++) {
            copy[n++] = source.s[i] == '\r' ? '\n' : source.s[i];
            if (source.s[i] == '\r' && i + 1 < source.len && source.s[i + 1] == '\n')
                i++;
        }
    }
    if (n && copy[n - 1] == '\n' && !keep_trailing)
        n--;
    copy[n] = '\0';
    return (struct str){copy, n};
}

/* Not all of it: it is kilobytes. */
static void error_clear(struct jinja_error *error)
{
    error->kind = JINJA_OK;
    error->chain_len = 0;
    error->at.line = error->at.column = 0;
    error->at.template_name[0] = error->at.function[0] = '\0';
    error->message[0] = error->source_line[0] = '\0';
}

static void place_error(struct jinja_error *err, const struct jinja_template *tmpl, uint32_t line,
                        const char *at)
{
    snprintf(err->at.template_name, sizeof(err->at.template_name), "%.*s", STR_ARG(tmpl->name));
    err->at.line = line ? line : 1;
    if (at && at >= tmpl->source.s && at <= tmpl->source.s + tmpl->source.len) {
        const char *nl = memrchr(tmpl->source.s, '\n', (size_t)(at - tmpl->source.s));

        err->at.column = (uint32_t)(at - (nl ? nl + 1 : tmpl->source.s)) + 1;
    }
    error_source_line(err, tmpl->source, err->at.line);
}

static int compile_source(const struct jinja *env, struct jinja_template *tmpl, struct str source,
                          struct jinja_error *err)
{
    struct run r = {
        .env = env, .opt = &env->options, .limits = &env->options.limits, .arena = &tmpl->arena, .err = err};
    uint32_t line = 1;
    const char *at = NULL;
    int failed;

    r.fuel_left = (int64_t)env->options.limits.fuel + STEPS_PER_BYTE * (int64_t)source.len;
    r.fuel = COMPILE_SLICE;
    r.wall_ms = env->options.limits.wall_ms;
    if (source.len > env->options.limits.template_bytes) {
        tmpl->source = STR("");
        failed = raise_limit(&r, "template size");
    } else if (!utf8_valid(source)) {
        tmpl->source = STR("");
        failed = raise(&r, JINJA_SYNTAX_ERROR, "the template is not valid UTF-8");
    } else {
        tmpl->source = normal_source(&tmpl->arena, source, env->options.keep_trailing_newline);
        failed = compile_template(&r, tmpl, &line, &at);
    }
    buf_done(&r.scratch);
    if (failed)
        place_error(err, tmpl, line, at);
    return failed;
}

static struct jinja_template *new_template(const struct jinja *env, const char *name, size_t source_len)
{
    struct jinja_template *tmpl = NEW(struct jinja_template);

    if (source_len <= env->options.limits.template_bytes)
        arena_expect(&tmpl->arena, (1 << 10) + source_len * 5); /* the source and its code, usually */
    tmpl->env = env;
    tmpl->name = str_from(arena_strdup(&tmpl->arena, name));
    return tmpl;
}

struct jinja_template *jinja_compile(const struct jinja *env, const char *name, struct str source,
                                     struct jinja_error *error)
{
    struct jinja_template *tmpl = new_template(env, name, source.len);

    error_clear(error);
    if (compile_source(env, tmpl, source, error) == 0)
        return tmpl;
    jinja_template_free(tmpl);
    return NULL;
}

const struct jinja_template *env_find(const struct jinja *env, const struct jinja_template *self,
                                      struct str name)
{
    for (const struct jinja_template *t = env->first; t; t = t->next)
        if (str_eq(t->name, name))
            return t;
    return self && str_eq(self->name, name) ? self : NULL;
}

const struct jinja_template *jinja_find(const struct jinja *env, const char *name)
{
    const struct jinja_template *tmpl = env_find(env, NULL, str_from(name));

    return tmpl && !tmpl->error ? tmpl : NULL;
}

const struct jinja_template *jinja_add(struct jinja *env, const char *name, struct str source,
                                       struct jinja_error *error)
{
    const struct jinja_template *known = env_find(env, NULL, str_from(name));
    struct jinja_template *tmpl;

    error_clear(error);
    if (known) {
        if (known->error)
            *error = *known->error;
        return known->error ? NULL : known;
    }
    tmpl = new_template(env, name, source.len);
    if (env->last)
        env->last->next = tmpl;
    else
        env->first = tmpl;
    env->last = tmpl;
    if (compile_source(env, tmpl, source, error) == 0)
        return tmpl;
    tmpl->error = mem_dup(error, sizeof(*error));
    return NULL;
}

/* ---- rendering ---- */

struct jinja_scratch *jinja_scratch_new(void)
{
    return NEW(struct jinja_scratch);
}

void jinja_scratch_free(struct jinja_scratch *scratch)
{
    if (!scratch)
        return;
    arena_done(&scratch->arena);
    buf_done(&scratch->text);
    free(scratch);
}

static int report_missing(struct run *r)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (!r->missing || r->missing->len == 0)
        return 0;
    for (uint32_t i = 0; i < r->missing->len; i++) {
        buf_puts(&text, i ? "; " : "");
        buf_str(&text, jv_view(r->missing->v[i]));
    }
    return raise(r, JINJA_UNDEFINED_ERROR, "%s", text.data);
}

static int run_template(struct run *r, const struct jinja_template *tmpl, const struct json *values)
{
    struct jinja_options const *opt = r->opt;
    struct scope_chain root = {0};
    int failed;

    if (values && values->type == JSON_OBJECT)
        root.vars = jv_from_json(r, values).dict;
    if (opt->all_missing && r->strict)
        r->missing = list_new(r, 4);
    failed = template_run(r, ctx_new(r, tmpl, root.vars ? &root : NULL), tmpl);
    if (failed == 0)
        failed = report_missing(r);
    return failed;
}

int jinja_render(const struct jinja_template *tmpl, const struct json *values, struct jinja_scratch *scratch,
                 struct buf *out, struct jinja_error *error)
{
    struct jinja_scratch own = {0}, *use = scratch ? scratch : &own;
    const struct jinja_options *opt = &tmpl->env->options;
    struct run r = {.env = tmpl->env,
                    .opt = opt,
                    .limits = &opt->limits,
                    .arena = &use->arena,
                    .out = out,
                    .out_start = out->len,
                    .err = error,
                    .scratch = use->text};
    int failed;

    error_clear(error);
    arena_reset(&use->arena);
    r.strict = opt->undefined == JINJA_UNDEFINED_STRICT;
    r.fuel_left = (int64_t)opt->limits.fuel;
    r.fuel = r.fuel_left < FIRST_SLICE ? r.fuel_left : FIRST_SLICE;
    r.fuel_left -= r.fuel;
    r.wall_ms = opt->limits.wall_ms;
    failed = run_template(&r, tmpl, values);
    if (failed)
        out->len = r.out_start;
    buf_reserve(out, 1)[0] = '\0';
    use->text = r.scratch;
    use->text.len = 0;
    if (!scratch) {
        arena_done(&own.arena);
        buf_done(&own.text);
    }
    return failed;
}

int jinja_render_json(const struct jinja_template *tmpl, struct str values, struct jinja_scratch *scratch,
                      struct buf *out, struct jinja_error *error)
{
    struct arena arena = {0};
    struct json *doc = NULL;
    struct err err = {0};
    char *copy = arena_strndup(&arena, values.s, values.len);
    int failed;

    if (json_parse_in_place(copy, values.len, &arena, &doc, &err) < 0 || !json_is(doc, JSON_OBJECT)) {
        *error = (struct jinja_error){.kind = JINJA_VALUE_ERROR};
        snprintf(error->message, sizeof(error->message), "the values are no JSON object%s%.*s",
                 err.msg[0] ? ": " : "", 200, err.msg);
        failed = -1;
    } else {
        failed = jinja_render(tmpl, doc, scratch, out, error);
    }
    arena_done(&arena);
    return failed;
}

/* ---- telling ---- */

static void put_place(const struct jinja_place *place, const char *lead, struct buf *buf)
{
    buf_printf(buf, "  %s %s, line %u", lead, place->template_name, place->line);
    if (place->column)
        buf_printf(buf, ", column %u", place->column);
    if (place->function[0])
        buf_printf(buf, ", in %s", place->function);
    buf_putc(buf, '\n');
}

void jinja_error_text(const struct jinja_error *error, struct buf *buf)
{
    buf_printf(buf, "%s: %s\n", jinja_kind_name(error->kind), error->message);
    if (!error->at.line)
        return;
    put_place(&error->at, "in", buf);
    if (error->source_line[0])
        buf_printf(buf, "    %s\n", error->source_line);
    for (uint32_t i = 0; i < error->chain_len; i++)
        put_place(&error->chain[i], "called from", buf);
}

struct json *jinja_needs(const struct jinja_template *tmpl, struct arena *arena)
{
    struct json *list = json_new_array(arena);

    for (uint32_t i = 0; i < tmpl->nneeds; i++)
        if (!global_find(tmpl->needs[i]))
            json_push(arena, list, json_of_str(arena, tmpl->needs[i]));
    return list;
}
