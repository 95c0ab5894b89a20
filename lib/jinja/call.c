/* call.c - binding arguments as Python does, and calling whatever can be called. */
#include "jinja/objects.h"
#include "jinja/vm.h"

const struct native *native_find(const struct native *table, size_t n, struct str name)
{
    size_t low = 0, high = n;

    while (low < high) {
        size_t mid = (low + high) / 2;
        int order = name.len ? (unsigned char)table[mid].name[0] - (unsigned char)name.s[0] : 1;

        if (order == 0)
            order = str_cmp(str_from(table[mid].name), name);

        if (order == 0)
            return &table[mid];
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

/* The place of a name among params; -1 none. */
static int param_place(const char *params, struct str name)
{
    struct str rest = str_from(params), one;
    int at = 0;

    for (; str_split(&rest, ' ', &one); at++)
        if (str_eq(one, name))
            return at;
    return -1;
}

static unsigned param_count(const char *params)
{
    unsigned n = *params ? 1 : 0;

    for (; *params; params++)
        n += *params == ' ';
    return n;
}

static int bind_keywords(struct run *r, const struct native *fn, struct call *c, const char *params)
{
    for (uint32_t i = 0; i < c->nkw; i++) {
        struct str name = jv_view(c->kwname[i]);
        int at = fn->params[0] == '/' ? -1 : param_place(params, name);

        if (at < 0)
            return raise(r, JINJA_TYPE_ERROR, "%s() got an unexpected keyword argument '%.*s'", fn->name,
                         STR_ARG(name));
        if (c->a[at].type != JV_MISSING)
            return raise(r, JINJA_TYPE_ERROR, "%s() got multiple values for argument '%.*s'", fn->name,
                         STR_ARG(name));
        c->a[at] = c->kwval[i];
    }
    return 0;
}

/* Functions go through the text they are given at least once. */
static int charge_text(struct run *r, const struct call *c)
{
    size_t bytes = jv_text_len(c->self);

    for (uint32_t i = 0; i < c->npos; i++)
        bytes += jv_text_len(c->pos[i]);
    for (uint32_t i = 0; i < c->nkw; i++)
        bytes += jv_text_len(c->kwval[i]);
    return charge(r, bytes / TEXT_STEP);
}

int native_call(struct run *r, const struct native *fn, struct call *c, struct jv *ret)
{
    const char *params = fn->params[0] == '/' ? fn->params + 1 : fn->params;
    unsigned count;

    c->fn = fn;
    if (charge_text(r, c) < 0)
        return -1;
    if (params[0] == '*')
        return fn->fn(r, c, ret);
    /* c->a is all JV_MISSING where the call starts */
    if (c->npos > fn->min && c->npos > (count = param_count(params)))
        return raise(r, JINJA_TYPE_ERROR, "%s() takes at most %u argument%s (%u given)", fn->name, count,
                     count == 1 ? "" : "s", c->npos);
    for (unsigned i = 0; i < c->npos; i++)
        c->a[i] = c->pos[i];
    if (c->nkw && bind_keywords(r, fn, c, params) < 0)
        return -1;
    for (unsigned i = 0; i < fn->min; i++)
        if (c->a[i].type == JV_MISSING)
            return raise(r, JINJA_TYPE_ERROR, "%s() missing %u required argument(s)", fn->name, fn->min);
    return fn->fn(r, c, ret);
}

/* ---- *args and **kwargs ---- */

static int add_kwargs(struct run *r, struct jv v, struct jlist *names, struct jlist *values)
{
    if (v.type != JV_DICT)
        return raise(r, JINJA_TYPE_ERROR, "argument after ** must be a mapping, not %s", jv_type_name(v));
    dict_expand(r, v.dict);
    if (charge(r, v.dict->len) < 0)
        return -1;
    for (uint32_t i = 0; i < v.dict->len; i++) {
        if (v.dict->v[i].key.type != JV_STR)
            return raise(r, JINJA_TYPE_ERROR, "keywords must be strings");
        for (uint32_t k = 0; k < names->len; k++)
            if (str_eq(jv_view(names->v[k]), jv_view(v.dict->v[i].key)))
                return raise(r, JINJA_TYPE_ERROR, "got multiple values for keyword argument '%.*s'",
                             STR_ARG(jv_view(names->v[k])));
        list_push(r, names, v.dict->v[i].key);
        list_push(r, values, v.dict->v[i].value);
    }
    return 0;
}

int gather_dynamic(struct run *r, const struct call_info *info, const struct jv *args, struct call *c)
{
    const struct jv *dynamic = args + info->npos + info->nkw;
    struct jlist *pos = list_new(r, info->npos), *names = list_new(r, info->nkw),
                 *values = list_new(r, info->nkw);

    for (uint32_t i = 0; i < info->npos; i++)
        list_push(r, pos, args[i]);
    for (uint32_t i = 0; i < info->nkw; i++) {
        list_push(r, names, info->kwnames[i]);
        list_push(r, values, args[info->npos + i]);
    }
    if (info->dyn_args) {
        struct jiter it;
        struct jv item;
        int more;

        if (iter_init(r, *dynamic++, &it) < 0)
            return -1;
        while ((more = iter_next(r, &it, &item)) == 1) {
            list_push(r, pos, item);
            if (charge(r, 1) < 0)
                return -1;
        }
        if (more < 0)
            return -1;
    }
    if (info->dyn_kwargs && add_kwargs(r, *dynamic, names, values) < 0)
        return -1;
    c->pos = pos->v;
    c->npos = pos->len;
    c->kwname = names->v;
    c->kwval = values->v;
    c->nkw = names->len;
    return 0;
}

/* ---- macros ---- */

/* Takes the keyword argument out; JV_MISSING: not given. */
static struct jv take_keyword(const struct call *c, bool *taken, struct str name)
{
    for (uint32_t i = 0; i < c->nkw; i++)
        if (!taken[i] && str_eq(jv_view(c->kwname[i]), name)) {
            taken[i] = true;
            return c->kwval[i];
        }
    return JV_NULL;
}

static int macro_kwargs(struct run *r, const struct func *func, struct call *c, const bool *taken,
                        struct jv *slot)
{
    struct jdict *rest = func->kwargs ? dict_new(r, c->nkw) : NULL;

    for (uint32_t i = 0; i < c->nkw; i++) {
        if (taken[i])
            continue;
        if (!rest) {
            if (str_is(jv_view(c->kwname[i]), "caller"))
                return raise(r, JINJA_TYPE_ERROR,
                             "macro '%.*s' was invoked with two values for the special caller argument. This "
                             "is most likely a bug.",
                             STR_ARG(func->name));
            return raise(r, JINJA_TYPE_ERROR, "macro '%.*s' takes no keyword argument '%.*s'",
                         STR_ARG(func->name), STR_ARG(jv_view(c->kwname[i])));
        }
        if (dict_set(r, rest, c->kwname[i], c->kwval[i]) < 0)
            return -1;
    }
    if (rest)
        *slot = jv_dict(rest);
    return 0;
}

static struct jv rest_args(struct run *r, const struct call *c, uint32_t from)
{
    struct jlist *rest = list_new(r, c->npos > from ? c->npos - from : 0);

    for (uint32_t i = from; i < c->npos; i++)
        list_push(r, rest, c->pos[i]);
    return jv_tuple(rest);
}

static int macro_bind(struct run *r, const struct func *func, struct call *c, struct jv *slots, uint32_t *n)
{
    bool small[16] = {0}, *taken = c->nkw > 16 ? run_zalloc(r, c->nkw) : small;
    bool found_caller = c->npos >= func->nargs && func->explicit_caller;
    uint32_t at = 0;

    for (; at < func->nargs; at++) {
        if (at < c->npos) {
            slots[at] = c->pos[at];
            continue;
        }
        slots[at] = take_keyword(c, taken, func->args[at]);
        if (str_is(func->args[at], "caller"))
            found_caller = true;
    }
    if (func->caller && !found_caller) {
        struct jv caller = take_keyword(c, taken, STR("caller"));

        if (caller.type == JV_MISSING || caller.type == JV_NONE)
            caller = undef_hint(r, "No caller defined");
        slots[at++] = caller;
    }
    if (macro_kwargs(r, func, c, taken, &slots[at]) < 0)
        return -1;
    at += func->kwargs;
    if (func->varargs)
        slots[at++] = rest_args(r, c, func->nargs);
    else if (c->npos > func->nargs)
        return raise(r, JINJA_TYPE_ERROR, "macro '%.*s' takes not more than %u argument(s)",
                     STR_ARG(func->name), func->nargs);
    *n = at;
    return 0;
}

int macro_call(struct run *r, struct jmacro *macro, struct call *c, struct jv *ret)
{
    const struct func *func = macro->func;
    bool escape = r->frame ? r->frame->unit->ctx->autoescape : macro->autoescape;
    struct jv small[16], *slots = func->nargs > 12 ? run_alloc(r, (func->nargs + 4) * sizeof(*slots)) : small;
    size_t start = r->out->len;
    struct jv unused;
    uint32_t n;

    if (macro_bind(r, func, c, slots, &n) < 0 ||
        func_run(r, func, macro->frame->unit, macro->frame, slots, n, &unused) < 0 ||
        run_copy(r, (struct str){r->out->data ? r->out->data + start : "", r->out->len - start}, ret) < 0)
        return -1;
    r->out->len = start;
    ret->flags = escape ? JV_MARKUP : 0;
    return 0;
}

/* ---- everything ---- */

static int joiner_call(struct run *r, struct call *c, struct jjoiner *joiner, struct jv *ret)
{
    if (c->npos || c->nkw)
        return raise(r, JINJA_TYPE_ERROR, "Joiner.__call__() takes 1 positional argument but %u were given",
                     1 + c->npos + c->nkw);
    *ret = joiner->used ? joiner->sep : JV_LIT("");
    joiner->used = true;
    return 0;
}

static int loop_call_args(struct run *r, struct jloop *loop, struct call *c, struct jv *ret)
{
    if (c->npos + c->nkw != 1)
        return raise(r, JINJA_TYPE_ERROR, "LoopContext.__call__() takes 1 argument");
    return loop_call(r, loop, c->npos ? c->pos[0] : c->kwval[0], ret);
}

int call_value(struct run *r, struct jv fn, struct call *c, struct jv *ret)
{
    switch (fn.type) {
    case JV_METHOD:
        c->self = fn.method->self;
        return native_call(r, fn.method->fn, c, ret);
    case JV_FUNC:
        return native_call(r, fn.func, c, ret);
    case JV_MACRO:
        return macro_call(r, fn.macro, c, ret);
    case JV_LOOP:
        return loop_call_args(r, fn.loop, c, ret);
    case JV_JOINER:
        return joiner_call(r, c, fn.joiner, ret);
    case JV_BLOCK:
        if (c->npos || c->nkw)
            return raise(r, JINJA_TYPE_ERROR,
                         "BlockReference.__call__() takes 1 positional argument but %u were given",
                         1 + c->npos);
        return block_call(r, fn.block, ret);
    case JV_UNDEF:
        return raise_undef(r, fn);
    default:
        return raise(r, JINJA_TYPE_ERROR, "'%s' object is not callable", jv_type_name(fn));
    }
}
