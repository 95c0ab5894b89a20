/* run.c - errors, limits and memory of a render. */
#include "jinja/run.h"

#include "base/clock.h"
#include "jinja/code.h"

#include <stdio.h>

#define FUEL_SLICE 32768 /* steps between looks at memory and clock */

static const char *const kind_names[] = {
    [JINJA_OK] = "OK",
    [JINJA_SYNTAX_ERROR] = "TemplateSyntaxError",
    [JINJA_ASSERTION_ERROR] = "TemplateAssertionError",
    [JINJA_UNDEFINED_ERROR] = "UndefinedError",
    [JINJA_SECURITY_ERROR] = "SecurityError",
    [JINJA_NOT_FOUND] = "TemplateNotFound",
    [JINJA_RUNTIME_ERROR] = "TemplateRuntimeError",
    [JINJA_FILTER_ARGUMENT_ERROR] = "FilterArgumentError",
    [JINJA_TYPE_ERROR] = "TypeError",
    [JINJA_VALUE_ERROR] = "ValueError",
    [JINJA_KEY_ERROR] = "KeyError",
    [JINJA_INDEX_ERROR] = "IndexError",
    [JINJA_ATTRIBUTE_ERROR] = "AttributeError",
    [JINJA_ASSERT_ERROR] = "AssertionError",
    [JINJA_PYTHON_RUNTIME_ERROR] = "RuntimeError",
    [JINJA_ZERO_DIVISION_ERROR] = "ZeroDivisionError",
    [JINJA_OVERFLOW_ERROR] = "OverflowError",
    [JINJA_RECURSION_ERROR] = "RecursionError",
    [JINJA_LIMIT_ERROR] = "LimitError",
};

const char *jinja_kind_name(enum jinja_kind kind)
{
    return kind_names[kind];
}

/* Cuts a sentence that was too long for its buffer between characters. */
static void cut_utf8(char *text)
{
    text[utf8_valid_len(str_from(text))] = '\0';
}

int raise_error(struct run *r, enum jinja_kind kind, const char *fmt, ...)
{
    va_list ap;

    if (r->failed)
        return -1;
    r->failed = true;
    r->err->kind = kind;
    va_start(ap, fmt);
    vsnprintf(r->err->message, sizeof(r->err->message), fmt, ap);
    va_end(ap);
    cut_utf8(r->err->message);
    return -1;
}

int raise_limit(struct run *r, const char *what)
{
    return raise(r, JINJA_LIMIT_ERROR, "the limit of %s is reached", what);
}

int raise_undef(struct run *r, struct jv v)
{
    const struct jundef *u;

    if (v.flags & JV_NAMED)
        return raise(r, JINJA_UNDEFINED_ERROR, "'%.*s' is undefined", STR_ARG(jv_view(v)));
    u = v.undef;
    if (u->hint.len)
        return raise(r,
                     u->kind == UNDEF_SECURITY ? JINJA_SECURITY_ERROR
                     : u->kind == UNDEF_TYPE   ? JINJA_TYPE_ERROR
                                               : JINJA_UNDEFINED_ERROR,
                     "%.*s", STR_ARG(u->hint));
    if (u->name.type != JV_STR)
        return raise(r, JINJA_UNDEFINED_ERROR, "%s has no element %s", jv_object_name(u->obj),
                     repr_brief(r, u->name));
    return raise(r, JINJA_UNDEFINED_ERROR, "'%s' has no attribute %s", jv_object_name(u->obj),
                 repr_brief(r, u->name));
}

/* Notes what is missing, once each. */
static int gather_missing(struct run *r, struct jv v)
{
    struct jinja_error *err = r->err, saved = *err;
    struct jv text;

    raise_undef(r, v);
    r->failed = false;
    text = jv_str(str_from(arena_strdup(r->arena, err->message)));
    *err = saved;
    for (uint32_t i = 0; i < r->missing->len; i++)
        if (str_eq(jv_view(r->missing->v[i]), jv_view(text)))
            return 0;
    list_push(r, r->missing, text);
    return charge(r, r->missing->len);
}

int undef_use(struct run *r, struct jv v)
{
    if (!undef_is_strict(r, v))
        return 0;
    return r->missing ? gather_missing(r, v) : raise_undef(r, v);
}

int run_refuel(struct run *r)
{
    int64_t slice;

    if (r->failed)
        return -1;
    if (r->arena->total > r->limits->memory_bytes)
        return raise_limit(r, "memory");
    if (!r->deadline && r->wall_ms)
        r->deadline = clock_monotonic() + r->wall_ms * NSEC_PER_MSEC;
    else if (r->deadline && clock_monotonic() > r->deadline)
        return raise_limit(r, "time");
    r->fuel_left += r->fuel;
    if (r->fuel_left <= 0)
        return raise_limit(r, "steps");
    slice = r->fuel_left < FUEL_SLICE ? r->fuel_left : FUEL_SLICE;
    r->fuel_left -= slice;
    r->fuel = slice;
    return 0;
}

int run_enter(struct run *r)
{
    if (r->depth >= r->limits->call_depth * 2 + r->limits->nesting)
        return raise(r, JINJA_RECURSION_ERROR, "maximum recursion depth exceeded");
    r->depth++;
    return 0;
}

void *run_alloc(struct run *r, size_t size)
{
    void *p = arena_alloc(r->arena, size);

    if (r->arena->total > r->limits->memory_bytes && r->fuel > 0) {
        r->fuel_left += r->fuel; /* stop at the next step */
        r->fuel = 0;
    }
    return p;
}

void *run_zalloc(struct run *r, size_t size)
{
    return memset(run_alloc(r, size), 0, size);
}

int run_text_fits(struct run *r, int64_t n)
{
    if (n > 0 && (uint64_t)n > r->limits->string_bytes)
        return raise_limit(r, "string size");
    return 0;
}

int run_room(struct run *r, const struct buf *buf, size_t bytes)
{
    uint64_t most = buf == &r->scratch ? r->limits->memory_bytes : r->limits->string_bytes;

    if (buf == r->out ? buf->len - r->out_start > r->limits->output_bytes : buf->len > most)
        return raise_limit(r, buf == r->out ? "output size" : buf == &r->scratch ? "memory" : "string size");
    return charge(r, 1 + bytes / TEXT_STEP);
}

int check_items(struct run *r, int64_t n)
{
    if (n > 0 && (uint64_t)n > r->limits->memory_bytes / sizeof(struct jv))
        return raise_limit(r, "memory");
    return charge(r, n > 0 ? (size_t)n : 0);
}

char *run_string(struct run *r, size_t len)
{
    if (len > INT32_MAX || run_text_fits(r, (int64_t)len) < 0) {
        (void)run_text_fits(r, INT64_MAX);
        return NULL;
    }
    if (r->arena->total + len > r->limits->memory_bytes + (1 << 20)) {
        raise_limit(r, "memory");
        return NULL;
    }
    r->fuel -= (int64_t)(len / 64);
    return run_alloc(r, len);
}

int run_copy(struct run *r, struct str s, struct jv *ret)
{
    char *copy = run_string(r, s.len);

    if (!copy)
        return -1;
    if (s.len)
        memcpy(copy, s.s, s.len);
    *ret = jv_str((struct str){copy, s.len});
    return 0;
}

/* The string made last can grow where it lies: `s = s ~ x` in a loop costs no more than what it adds. */
int run_concat(struct run *r, struct str a, struct str b, struct jv *ret)
{
    size_t len = a.len + b.len, room;
    char *to;

    if (b.len == 0 || a.len == 0) {
        *ret = jv_str(a.len ? a : b);
        return 0;
    }
    if (r->tail && a.s + a.len == r->tail && (size_t)(r->tail_end - r->tail) >= b.len) {
        if (run_text_fits(r, (int64_t)len) < 0)
            return -1;
        memcpy(r->tail, b.s, b.len);
        r->tail += b.len;
        *ret = jv_str((struct str){a.s, len});
        return 0;
    }
    if (run_text_fits(r, (int64_t)len) < 0)
        return -1;
    room = len < 64 ? len : len * 2;
    if (room > r->limits->string_bytes)
        room = len;
    to = run_string(r, room);
    if (!to)
        return -1;
    memcpy(to, a.s, a.len);
    memcpy(to + a.len, b.s, b.len);
    if (room > len) {
        r->tail = to + len;
        r->tail_end = to + room;
    }
    *ret = jv_str((struct str){to, len});
    return 0;
}

int text_check(struct text *t)
{
    if (run_text_fits(t->r, (int64_t)(t->r->scratch.len - t->start)) < 0) {
        text_drop(t);
        return -1;
    }
    return 0;
}

int text_end(struct text *t, struct jv *ret)
{
    int failed = run_copy(t->r, text_view(t), ret);

    text_drop(t);
    return failed;
}

void text_drop(struct text *t)
{
    t->r->scratch.len = t->start;
}

int out_more(struct run *r, const char *s, size_t len)
{
    if (r->out->len - r->out_start + len > r->limits->output_bytes)
        return raise_limit(r, "output size");
    buf_add(r->out, s, len);
    return 0;
}

struct jv undef_name(struct str name)
{
    return (struct jv){.type = JV_UNDEF, .flags = JV_NAMED, .len = (uint32_t)name.len, .s = name.s};
}

struct jv undef_member(struct run *r, struct jv obj, struct jv name)
{
    struct jundef *u = RUN_NEW(r, struct jundef);

    u->obj = obj;
    u->name = name;
    return (struct jv){.type = JV_UNDEF, .undef = u};
}

struct jv undef_hint(struct run *r, const char *fmt, ...)
{
    struct jundef *u = RUN_NEW(r, struct jundef);
    char text[JINJA_MESSAGE_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    u->hint = str_from(arena_strdup(r->arena, text));
    return (struct jv){.type = JV_UNDEF, .undef = u};
}
