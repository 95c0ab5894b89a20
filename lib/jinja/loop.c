/* loop.c - the `loop` of a for statement: jinja2.runtime.LoopContext. It may look one item ahead, or take
 * all that is left to know the length. */
#include "jinja/objects.h"

#include <stdio.h>

int loop_begin(struct run *r, struct jv iterable, struct jv *ret)
{
    struct jloop *loop = RUN_NEW(r, struct jloop);

    loop->iterable = iterable;
    loop->index0 = -1;
    loop->length = -1;
    if (iter_init(r, iterable, &loop->it) < 0)
        return -1;
    *ret = (struct jv){.type = JV_LOOP, .loop = loop};
    return 0;
}

int loop_next(struct run *r, struct jloop *loop, struct jv *ret)
{
    struct jv item = loop->after;
    int more = 1;

    loop->after = JV_NULL;
    if (item.type == JV_MISSING)
        more = iter_next(r, &loop->it, &item);
    if (more != 1)
        return more;
    loop->index0++;
    loop->before = loop->current;
    loop->current = item;
    *ret = item;
    return 1;
}

int64_t loop_length(struct run *r, struct jloop *loop)
{
    struct jlist *rest;

    if (loop->length >= 0)
        return loop->length;
    if (loop->iterable.type != JV_ITER && loop->iterable.type != JV_LOOP) {
        loop->length = jv_len(r, loop->iterable);
        return loop->length;
    }
    if (iter_list(r, jv_iter(&loop->it), &rest) < 0 || iter_init(r, jv_list(rest), &loop->it) < 0)
        return -1;
    loop->length = (int64_t)rest->len + loop->index0 + 1 + (loop->after.type != JV_MISSING);
    return loop->length;
}

/* The next item without moving to it: 1, 0 none, -1 raised. */
static int peek(struct run *r, struct jloop *loop)
{
    int more = 1;

    if (loop->after.type == JV_MISSING)
        more = iter_next(r, &loop->it, &loop->after);
    if (more == 0)
        loop->after = JV_NULL;
    return more;
}

static int near_item(struct run *r, struct jloop *loop, bool next, struct jv *ret)
{
    int more;

    if (!next) {
        *ret = loop->index0 == 0 ? undef_hint(r, "there is no previous item") : loop->before;
        return 1;
    }
    more = peek(r, loop);
    if (more < 0)
        return -1;
    *ret = more ? loop->after : undef_hint(r, "there is no next item");
    return 1;
}

static int loop_cycle(struct run *r, struct call *c, struct jv *ret)
{
    if (c->nkw)
        return raise(r, JINJA_TYPE_ERROR, "LoopContext.cycle() got an unexpected keyword argument");
    if (!c->npos)
        return raise(r, JINJA_TYPE_ERROR, "no items for cycling given");
    *ret = c->pos[(uint64_t)c->self.loop->index0 % c->npos];
    return 0;
}

static int loop_changed(struct run *r, struct call *c, struct jv *ret)
{
    struct jlist *values = list_new(r, c->npos);
    struct jv now = jv_tuple(values);
    int same = 0;

    for (uint32_t i = 0; i < c->npos; i++)
        list_push(r, values, c->pos[i]);
    if (c->self.loop->changed.type != JV_MISSING)
        same = jv_eq(r, c->self.loop->changed, now);
    if (same < 0)
        return -1;
    c->self.loop->changed = now;
    *ret = JV_OF_BOOL(!same);
    return 0;
}

static const struct native loop_methods[] = {{"changed", loop_changed, "*", 0},
                                             {"cycle", loop_cycle, "*", 0}};

static int method_of(struct run *r, struct jloop *loop, struct str name, struct jv *ret)
{
    const struct native *fn = native_find(loop_methods, ARRAY_LEN(loop_methods), name);
    struct jmethod *method;

    if (!fn)
        return 0;
    method = RUN_NEW(r, struct jmethod);
    method->self = (struct jv){.type = JV_LOOP, .loop = loop};
    method->fn = fn;
    *ret = (struct jv){.type = JV_METHOD, .method = method};
    return 1;
}

int loop_attr(struct run *r, struct jloop *loop, struct str name, struct jv *ret)
{
    static const char *const names[] = {"index",     "index0", "first",  "last",     "length",  "revindex",
                                        "revindex0", "depth",  "depth0", "previtem", "nextitem"};
    int64_t length = 0;
    size_t at = 0;
    int more;

    while (at < ARRAY_LEN(names) && !str_is(name, names[at]))
        at++;
    if (at >= 4 && at <= 6 && (length = loop_length(r, loop)) < 0)
        return -1;
    switch (at) {
    case 0:
        *ret = JV_OF_INT(loop->index0 + 1);
        return 1;
    case 1:
        *ret = JV_OF_INT(loop->index0);
        return 1;
    case 2:
        *ret = JV_OF_BOOL(loop->index0 == 0);
        return 1;
    case 3:
        more = peek(r, loop);
        *ret = JV_OF_BOOL(more == 0);
        return more < 0 ? -1 : 1;
    case 4:
        *ret = JV_OF_INT(length);
        return 1;
    case 5:
        *ret = JV_OF_INT(length - loop->index0);
        return 1;
    case 6:
        *ret = JV_OF_INT(length - loop->index0 - 1);
        return 1;
    case 7:
        *ret = JV_OF_INT(loop->depth0 + 1);
        return 1;
    case 8:
        *ret = JV_OF_INT(loop->depth0);
        return 1;
    case 9:
    case 10:
        return near_item(r, loop, at == 10, ret);
    default:
        return method_of(r, loop, name, ret);
    }
}

int recurse_call(struct run *r, const struct func *func, struct frame *outer, struct jv iterable,
                 int64_t depth, struct jv *ret)
{
    struct jv first[2] = {iterable, JV_OF_INT(depth)}, unused;
    size_t start = r->out->len;

    if (func_run(r, func, outer->unit, outer, first, 2, &unused) < 0 ||
        run_copy(r, (struct str){r->out->data ? r->out->data + start : "", r->out->len - start}, ret) < 0)
        return -1;
    r->out->len = start;
    ret->flags = outer->unit->ctx->autoescape ? JV_MARKUP : 0;
    return 0;
}

int loop_call(struct run *r, struct jloop *loop, struct jv iterable, struct jv *ret)
{
    if (!loop->recurse)
        return raise(r, JINJA_TYPE_ERROR,
                     "The loop must have the 'recursive' marker to be called recursively.");
    return recurse_call(r, loop->recurse, loop->frame, iterable, loop->depth0 + 1, ret);
}

int put_object(struct run *r, struct buf *buf, struct jv v)
{
    int64_t n;

    switch (v.type) {
    case JV_LOOP:
        n = loop_length(r, v.loop);
        if (n < 0)
            return -1;
        buf_printf(buf, "<LoopContext %lld/%lld>", (long long)v.loop->index0 + 1, (long long)n);
        return 0;
    case JV_MACRO:
        if (v.macro->func->kind == FUNC_CALLER) {
            buf_puts(buf, "<Macro anonymous>");
            return 0;
        }
        buf_puts(buf, "<Macro ");
        put_repr_str(buf, v.macro->func->name);
        buf_putc(buf, '>');
        return 0;
    case JV_MODULE:
        buf_printf(buf, "<TemplateModule '%.*s'>", STR_ARG(v.module->name));
        return 0;
    case JV_SELF:
        buf_printf(buf, "<TemplateReference '%.*s'>", STR_ARG(v.block->unit->ctx->tmpl->name));
        return 0;
    case JV_METHOD:
        buf_printf(buf, "<built-in method %s of %s object>", v.method->fn->name,
                   jv_type_name(v.method->self));
        return 0;
    case JV_FUNC:
        buf_printf(buf, "<%s %s>", v.func->name[0] == 'r' ? "function" : "class", v.func->name);
        return 0;
    default:
        buf_printf(buf, "<%s object>", jv_type_name(v));
        return 0;
    }
}
