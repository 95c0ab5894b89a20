/* vm.c - the machine: a stack of values, one function of instructions at a time. Macros, blocks, includes
 * and recursive loops call vm_run again; how deep is limited. */
#include "jinja/vm.h"

#include "base/str.h"
#include "jinja/code.h"
#include "jinja/objects.h"
#include "jinja/run.h"

#include <stdio.h>

/* ---- where an error happened ---- */

static void place_of(const struct frame *frame, struct jinja_place *ret)
{
    static const char *const kinds[] = {[FUNC_ROOT] = "",       [FUNC_BLOCK] = "block",
                                        [FUNC_MACRO] = "macro", [FUNC_CALLER] = "call block",
                                        [FUNC_LOOP] = "loop",   [FUNC_TEST] = "loop condition"};
    const struct func *func = frame->func;
    uint32_t at = (uint32_t)(frame->pc - func->code);
    const char *source = func->tmpl->source.s, *p = source + func->offsets[at], *nl;

    snprintf(ret->template_name, sizeof(ret->template_name), "%.*s", STR_ARG(func->tmpl->name));
    ret->line = func->lines[at];
    nl = memrchr(source, '\n', (size_t)(p - source));
    ret->column = (uint32_t)(p - (nl ? nl + 1 : source)) + 1;
    if (func->kind == FUNC_MACRO || func->kind == FUNC_BLOCK)
        snprintf(ret->function, sizeof(ret->function), "%s '%.*s'", kinds[func->kind], STR_ARG(func->name));
    else
        snprintf(ret->function, sizeof(ret->function), "%s", kinds[func->kind]);
}

void error_source_line(struct jinja_error *err, struct str source, uint32_t line)
{
    struct str rest = source, text = {"", 0};

    for (uint32_t i = 0; i < line; i++)
        if (!str_split(&rest, '\n', &text))
            return;
    if (text.len >= sizeof(err->source_line))
        text.len = sizeof(err->source_line) - 1;
    text.len = utf8_valid_len(text);
    memcpy(err->source_line, text.s, text.len);
    err->source_line[text.len] = '\0';
}

static int failed_in(struct run *r, const struct frame *frame)
{
    struct jinja_error *err = r->err;

    if (!err->at.line) {
        place_of(frame, &err->at);
        error_source_line(err, frame->func->tmpl->source, err->at.line);
    } else if (err->chain_len < JINJA_CHAIN_MAX) {
        place_of(frame, &err->chain[err->chain_len++]);
    }
    return -1;
}

/* ---- pieces of instructions ---- */

/* Printing without a detour over a string. */
static int out_value(struct run *r, struct jv v, unsigned escape)
{
    struct text t;
    struct str s;
    int failed;

    if (escape == 1 || (escape == 2 && r->frame->unit->ctx->autoescape)) {
        if (to_escaped(r, v, &v) < 0)
            return -1;
        return out_add(r, v.s, v.len);
    }
    switch (v.type) {
    case JV_STR:
        return out_add(r, v.s, v.len);
    case JV_UNDEF:
        return undef_use(r, v);
    case JV_INT: {
        char digits[24], *p = digits + sizeof(digits);
        uint64_t n = v.i < 0 ? ~(uint64_t)v.i + 1 : (uint64_t)v.i;

        do {
            *--p = (char)('0' + n % 10);
        } while (n /= 10);
        if (v.i < 0)
            *--p = '-';
        return out_add(r, p, (size_t)(digits + sizeof(digits) - p));
    }
    default:
        break;
    }
    t = text_begin(r);
    failed = put_str(r, &r->scratch, v);
    s = text_view(&t);
    failed = failed < 0 ? -1 : out_add(r, s.s, s.len);
    text_drop(&t);
    return failed;
}

static int concat(struct run *r, const struct jv *v, uint32_t n, bool markup, struct jv *ret)
{
    struct jv all = JV_LIT(""), one;

    if (markup) { /* as soon as one is markup, the others are escaped */
        markup = false;
        for (uint32_t i = 0; i < n; i++)
            markup = markup || jv_is_markup(v[i]) || v[i].type == JV_MODULE;
    }
    for (uint32_t i = 0; i < n; i++) {
        if ((markup ? to_escaped(r, v[i], &one) : to_str(r, v[i], &one)) < 0 ||
            run_concat(r, jv_view(all), jv_view(one), &all) < 0)
            return -1;
    }
    all.flags = markup ? JV_MARKUP : 0;
    *ret = all;
    return 0;
}

static int compare(struct run *r, enum opcode op, struct jv a, struct jv b, struct jv *ret)
{
    int result;

    switch (op) {
    case OP_EQ:
    case OP_NE:
        result = jv_eq(r, a, b);
        if (op == OP_NE && result >= 0)
            result = !result;
        break;
    case OP_IN:
    case OP_NOTIN:
        result = jv_contains(r, b, a);
        if (op == OP_NOTIN && result >= 0)
            result = !result;
        break;
    default:
        result = jv_cmp(r, a, b, (enum jv_cmp)(op - OP_LT));
        break;
    }
    *ret = JV_OF_BOOL(result > 0);
    return result < 0 ? -1 : 0;
}

static int build_dict(struct run *r, const struct jv *v, uint32_t pairs, struct jv *ret)
{
    struct jdict *dict = dict_new(r, pairs);

    for (uint32_t i = 0; i < pairs; i++)
        if (dict_set(r, dict, v[2 * i], v[2 * i + 1]) < 0)
            return -1;
    *ret = jv_dict(dict);
    return 0;
}

static struct jlist *build_list(struct run *r, const struct jv *v, uint32_t n)
{
    struct jlist *list = list_new(r, n);

    if (n)
        memcpy(list->v, v, n * sizeof(*v));
    list->len = n;
    return list;
}

/* The items of v in place of it, last on top. */
static int unpack(struct run *r, struct jv *sp, uint32_t n)
{
    struct jiter it;
    struct jv v = *sp, item;
    uint32_t got = 0;
    int more;

    if ((v.type == JV_TUPLE || v.type == JV_LIST) && v.list->len == n) {
        list_expand(r, v.list);
        for (uint32_t i = 0; i < n; i++)
            sp[n - 1 - i] = v.list->v[i];
        return 0;
    }
    if (!jv_is_iterable(v))
        return raise(r, JINJA_TYPE_ERROR, "cannot unpack non-iterable %s object", jv_type_name(v));
    if (iter_init(r, v, &it) < 0)
        return -1;
    while ((more = iter_next(r, &it, &item)) == 1) {
        if (got == n)
            return raise(r, JINJA_VALUE_ERROR, "too many values to unpack (expected %u)", n);
        sp[n - 1 - got++] = item;
    }
    if (more < 0)
        return -1;
    if (got < n)
        return raise(r, JINJA_VALUE_ERROR, "not enough values to unpack (expected %u, got %u)", n, got);
    return 0;
}

static int capture_end(struct run *r, struct jv mark, bool markup, struct jv *ret)
{
    size_t start = (size_t)mark.i;
    struct str text = {r->out->data ? r->out->data + start : "", r->out->len - start};

    if (run_copy(r, text, ret) < 0)
        return -1;
    r->out->len = start;
    ret->flags = markup ? JV_MARKUP : 0;
    return 0;
}

static struct jdict *build_locals(struct run *r, const struct frame *frame, const struct locals_info *info)
{
    struct jdict *dict = dict_new(r, info->n);

    for (uint32_t i = 0; i < info->n; i++) {
        const struct frame *f = frame;
        struct jv v;

        for (unsigned hops = info->v[i].hops; hops; hops--)
            f = f->outer;
        v = f->slots[info->v[i].slot];
        if (v.type != JV_MISSING)
            (void)dict_set(r, dict, jv_str(info->v[i].name), v);
    }
    return dict;
}

/* The next item a loop's condition lets through. */
static int test_next(struct run *r, struct jiter *it, struct jv *ret)
{
    const struct jmacro *test = it->state;
    struct jv item, kept;
    int more;

    while ((more = iter_next(r, it->inner, &item)) == 1) {
        kept = JV_NULL;
        if (func_run(r, test->func, test->frame->unit, test->frame, &item, 1, &kept) < 0)
            return -1;
        if (kept.type != JV_MISSING) {
            *ret = kept;
            return 1;
        }
    }
    return more;
}

static int make_test(struct run *r, struct frame *frame, const struct func *func, struct jv *v)
{
    struct jmacro *test = RUN_NEW(r, struct jmacro);
    struct jiter *inner;

    test->func = func;
    test->frame = frame;
    if (iter_open(r, *v, &inner) < 0)
        return -1;
    *v = iter_lazy(r, "generator", JV_NULL, test_next, test);
    v->iter->inner = inner;
    return 0;
}

static int make_loop(struct run *r, struct frame *frame, const struct insn *pc, struct jv *v)
{
    if (!(pc->b & 1)) {
        struct jiter *it;

        if (iter_open(r, *v, &it) < 0)
            return -1;
        *v = jv_iter(it);
        return 0;
    }
    if (loop_begin(r, *v, v) < 0)
        return -1;
    if (pc->b & 2) {
        v->loop->recurse = frame->func;
        v->loop->frame = frame->outer;
        v->loop->depth0 = frame->slots[1].i;
    }
    frame->slots[pc->c] = *v;
    return 0;
}

static int next_item(struct run *r, struct jv top, struct jv *ret)
{
    return top.type == JV_LOOP ? loop_next(r, top.loop, ret) : iter_next(r, top.iter, ret);
}

static struct jv make_macro(struct run *r, struct frame *frame, const struct func *func)
{
    struct jmacro *macro = RUN_NEW(r, struct jmacro);

    macro->func = func;
    macro->frame = frame;
    macro->autoescape = frame->unit->ctx->autoescape;
    return (struct jv){.type = JV_MACRO, .macro = macro};
}

static int ns_check(struct run *r, struct jv v)
{
    if (v.type == JV_NS)
        return 0;
    return raise(r, JINJA_RUNTIME_ERROR, "cannot assign attribute on non-namespace object");
}

static int import_name(struct run *r, const struct frame *frame, struct jv module, struct str name,
                       struct jv *ret)
{
    if (dict_get_str(r, module.module->exported, name, ret))
        return 0;
    *ret = undef_hint(
        r, "the template '%.*s' (imported on line %u in '%.*s') does not export the requested name '%.*s'",
        STR_ARG(module.module->name), frame->func->lines[frame->pc - frame->func->code],
        STR_ARG(frame->func->tmpl->name), STR_ARG(name));
    return 0;
}

/* Arguments lie behind the callee or the value: positional, named, *args, **kwargs. */
static int gather(struct run *r, const struct call_info *info, const struct jv *args, struct call *c)
{
    c->pos = args;
    c->npos = info->npos;
    c->kwname = info->kwnames;
    c->kwval = args + info->npos;
    c->nkw = info->nkw;
    if (!info->dyn_args && !info->dyn_kwargs)
        return 0;
    return gather_dynamic(r, info, args, c);
}

static int call_args(struct run *r, const struct call_info *info, struct jv *sp, struct jv **base)
{
    (void)r;
    *base = sp - (info->npos + info->nkw + info->dyn_args + info->dyn_kwargs);
    return 0;
}

static int op_call(struct run *r, const struct call_info *info, struct jv *base)
{
    struct call c = {0};

    if (gather(r, info, base + 1, &c) < 0)
        return -1;
    return call_value(r, *base, &c, base);
}

static int op_method(struct run *r, const struct call_info *info, const struct attr *attr, struct jv *base)
{
    struct jv obj = *base;
    const struct native *fn = obj.type == JV_DICT   ? attr->on_dict
                              : obj.type == JV_STR  ? attr->on_str
                              : obj.type == JV_LIST ? attr->on_list
                                                    : NULL;
    struct call c = {.self = obj};

    if (!fn) {
        if (get_attr(r, obj, attr->name, base) < 0)
            return -1;
        return op_call(r, info, base);
    }
    if (gather(r, info, base + 1, &c) < 0)
        return -1;
    return native_call(r, fn, &c, base);
}

static int op_native(struct run *r, const struct call_info *info, const struct native *fn, struct jv *base)
{
    struct call c = {.self = *base};

    if (gather(r, info, base + 1, &c) < 0)
        return -1;
    return native_call(r, fn, &c, base);
}

static int attr_of(struct run *r, struct jv obj, const struct attr *attr, struct jv *ret)
{
    if (obj.type == JV_DICT && !attr->on_dict && !attr->private_) {
        if (!dict_get_str(r, obj.dict, attr->name, ret))
            *ret = undef_member(r, obj, jv_str(attr->name));
        return 0;
    }
    return get_attr(r, obj, attr->name, ret);
}

static int small_math(enum opcode op, struct jv a, struct jv b, struct jv *ret)
{
    int64_t n;

    if (a.type != JV_INT || b.type != JV_INT)
        return 0;
    if (op == OP_ADD ? __builtin_add_overflow(a.i, b.i, &n) : __builtin_sub_overflow(a.i, b.i, &n))
        return 0;
    *ret = JV_OF_INT(n);
    return 1;
}

/* What a slice that Jinja2 computes while compiling cannot do is undefined. */
static int slice(struct run *r, struct jv *sp, bool folding)
{
    struct jv obj = *sp;

    if (get_slice(r, obj, sp[1], sp[2], sp[3], sp) == 0)
        return 0;
    if (!folding || r->strict || obj.type == JV_UNDEF || r->err->kind != JINJA_TYPE_ERROR)
        return -1;
    r->failed = false;
    *r->err = (struct jinja_error){0};
    *sp = undef_hint(r, "'%s' object is not subscriptable", jv_type_name(obj));
    sp->undef->kind = UNDEF_TYPE; /* where that fails it computes again, at run time */
    return 0;
}

static const struct frame *outwards(const struct frame *frame, unsigned hops)
{
    for (; hops; hops--)
        frame = frame->outer;
    return frame;
}

static struct jv or_undefined(struct jv v, struct str name)
{
    return v.type == JV_MISSING ? undef_name(name) : v;
}

static inline struct jv from_ctx(struct run *r, struct unit *unit, uint32_t name)
{
    if (unit->cache[name].type == JV_MISSING)
        ctx_lookup(r, unit, unit->tmpl->names[name], &unit->cache[name]);
    return unit->cache[name];
}

/* Rarer instructions, out of the main switch. Returns how far sp moves; -100 raised. */
#define SLOW_FAILED (-100)
static int slow_op(struct run *r, struct frame *frame, const struct insn *pc, struct jv *sp)
{
    const struct jinja_template *t = frame->func->tmpl;
    struct unit *unit = frame->unit;
    struct jv v;

    switch ((enum opcode)pc->op) {
    case OP_RESOLVE:
        frame->slots[pc->c] = JV_NULL;
        v = from_ctx(r, unit, pc->a);
        if (!(v.type == JV_UNDEF && v.flags & JV_NAMED && v.s == t->names[pc->a].s))
            frame->slots[pc->c] = v;
        return 0;
    case OP_EXPORT:
        return ctx_export(r, unit, t->names[pc->a], frame->slots[pc->c], pc->b == 1, pc->b == 2) < 0
                   ? SLOW_FAILED
                   : 0;
    case OP_UNDEF_COND:
        sp[1] = undef_hint(r,
                           "the inline if-expression on line %u in '%.*s' evaluated to false and no else "
                           "section was defined.",
                           frame->func->lines[pc - frame->func->code], STR_ARG(t->name));
        sp[1].flags |= JV_LAX;
        return 1;
    case OP_UNDEF_PARAM:
        sp[1] = undef_hint(r, "parameter '%.*s' was not provided", STR_ARG(jv_view(t->consts[pc->a])));
        return 1;
    case OP_FOR_TEST:
        return make_test(r, frame, t->funcs[pc->a], sp) < 0 ? SLOW_FAILED : 0;
    case OP_RECURSE:
        return recurse_call(r, t->funcs[pc->a], frame, *sp, 0, sp) < 0 ? SLOW_FAILED : 0;
    case OP_NO_FILTER:
        return raise(r, JINJA_RUNTIME_ERROR, "No %s named '%.*s' found.", pc->b ? "test" : "filter",
                     STR_ARG(jv_view(t->consts[pc->a]))) < 0
                   ? SLOW_FAILED
                   : 0;
    case OP_NS_CHECK:
        return ns_check(r, *sp) < 0 ? SLOW_FAILED : -1;
    case OP_NS_SET:
        if (ns_check(r, *sp) < 0 || dict_set(r, sp->dict, t->consts[pc->a], sp[-1]) < 0)
            return SLOW_FAILED;
        return -2;
    case OP_ESCAPE_ON: {
        int on = jv_truth(r, *sp);

        *sp = JV_OF_BOOL(unit->ctx->autoescape);
        unit->ctx->autoescape = on > 0;
        return on < 0 ? SLOW_FAILED : 0;
    }
    case OP_ESCAPE_OFF:
        unit->ctx->autoescape = sp->b;
        return -1;
    case OP_LOCALS:
        sp[1] = jv_dict(build_locals(r, frame, &t->locals[pc->a]));
        return 1;
    case OP_BLOCK:
        if (do_block(r, unit, jv_view(t->consts[pc->a]), pc->b & 1 ? sp->dict : NULL, (pc->b & 2) != 0) < 0)
            return SLOW_FAILED;
        return pc->b & 1 ? -1 : 0;
    case OP_EXTENDS:
        return do_extends(r, unit, *sp) < 0 ? SLOW_FAILED : -1;
    case OP_EXTENDS_TWICE:
        if (!unit->parent)
            return 0;
        raise(r, JINJA_RUNTIME_ERROR, "extended multiple times");
        return SLOW_FAILED;
    case OP_INCLUDE:
        v = pc->b & 1 ? sp[-1] : *sp;
        if (do_include(r, unit, v, pc->b & 1 ? sp->dict : NULL, (pc->b & 2) != 0) < 0)
            return SLOW_FAILED;
        return pc->b & 1 ? -2 : -1;
    case OP_IMPORT:
        v = pc->b & 1 ? sp[-1] : *sp;
        if (do_import(r, unit, v, pc->b & 1 ? sp->dict : NULL, pc->b & 1 ? sp - 1 : sp) < 0)
            return SLOW_FAILED;
        return pc->b & 1 ? -1 : 0;
    case OP_IMPORT_NAME:
        return import_name(r, frame, *sp, jv_view(t->consts[pc->a]), sp + 1) < 0 ? SLOW_FAILED : 1;
    case OP_SELF: {
        struct jblock *self = RUN_NEW(r, struct jblock);

        self->unit = unit;
        sp[1] = (struct jv){.type = JV_SELF, .block = self};
        return 1;
    }
    case OP_SUPER:
        sp[1] = make_super(r, unit, jv_view(t->consts[pc->a]), frame->func);
        return 1;
    default:
        raise(r, JINJA_RUNTIME_ERROR, "internal error: unknown instruction");
        return SLOW_FAILED;
    }
}

int vm_run(struct run *r, struct frame *frame, struct jv *ret)
{
    const struct func *func = frame->func;
    const struct jinja_template *t = func->tmpl;
    const struct insn *pc = func->code;
    struct unit *unit = frame->unit;
    struct jv *slots = frame->slots, *sp = slots + func->nslots - 1, *base;
    int n;

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        if ((call) < 0)                                                                                      \
            goto fail;                                                                                       \
    } while (0)

    for (;; pc++) {
        frame->pc = pc;
        if (--r->fuel < 0)
            TRY(run_refuel(r));
        switch ((enum opcode)pc->op) {
        case OP_END:
            return 0;
        case OP_TEXT:
            TRY(out_add(r, t->texts[pc->a].s, t->texts[pc->a].len));
            continue;
        case OP_OUT:
            if (sp->type == JV_STR && pc->b == 0)
                TRY(out_add(r, sp->s, sp->len));
            else
                TRY(out_value(r, *sp, pc->b));
            sp--;
            continue;
        case OP_OUT_CTX:
            TRY(out_value(r, from_ctx(r, unit, pc->a), 0));
            continue;
        case OP_OUT_CTX_ATTR:
            TRY(attr_of(r, from_ctx(r, unit, pc->a), &t->attrs[pc->c], sp + 1));
            TRY(out_value(r, sp[1], 0));
            continue;
        case OP_CONST:
            *++sp = t->consts[pc->a];
            continue;
        case OP_LOAD:
            *++sp = or_undefined(slots[pc->a], func->slot_names[pc->a]);
            continue;
        case OP_LOAD_OUTER: {
            const struct frame *f = outwards(frame, pc->b);

            *++sp = or_undefined(f->slots[pc->a], f->func->slot_names[pc->a]);
            continue;
        }
        case OP_LOAD_CTX:
            *++sp = from_ctx(r, unit, pc->a);
            continue;
        case OP_STORE:
            slots[pc->a] = *sp--;
            continue;
        case OP_CLEAR:
            slots[pc->a] = JV_NULL;
            continue;
        case OP_COPY:
            slots[pc->a] = outwards(frame, pc->b)->slots[pc->c];
            continue;
        case OP_POP:
            sp--;
            continue;
        case OP_SWAP: {
            struct jv top = *sp;

            *sp = sp[-1];
            sp[-1] = top;
            continue;
        }
        case OP_LIST:
        case OP_TUPLE: {
            struct jlist *list = build_list(r, sp - pc->a + 1, pc->a);

            sp -= pc->a;
            *++sp = pc->op == OP_LIST ? jv_list(list) : jv_tuple(list);
            continue;
        }
        case OP_DICT:
            base = sp - 2 * (size_t)pc->a + 1;
            TRY(build_dict(r, base, pc->a, base));
            sp = base;
            continue;
        case OP_GETATTR:
            TRY(attr_of(r, *sp, &t->attrs[pc->a], sp));
            continue;
        case OP_GETITEM:
            sp--;
            TRY(get_item(r, *sp, sp[1], sp));
            continue;
        case OP_SLICE:
            sp -= 3;
            TRY(slice(r, sp, pc->b));
            continue;
        case OP_ADD:
        case OP_SUB:
            sp--;
            if (!small_math((enum opcode)pc->op, *sp, sp[1], sp))
                TRY(arith(r, (enum arith)(pc->op - OP_ADD), *sp, sp[1], sp));
            continue;
        case OP_MUL:
        case OP_DIV:
        case OP_FLOORDIV:
        case OP_MOD:
        case OP_POW:
            sp--;
            TRY(arith(r, (enum arith)(pc->op - OP_ADD), *sp, sp[1], sp));
            continue;
        case OP_NEG:
        case OP_POS:
            TRY(unary(r, pc->op == OP_NEG, *sp, sp));
            continue;
        case OP_NOT:
            TRY(n = jv_truth(r, *sp));
            *sp = JV_OF_BOOL(!n);
            continue;
        case OP_CONCAT:
            base = sp - pc->a + 1;
            TRY(concat(r, base, pc->a, pc->b, base));
            sp = base;
            continue;
        case OP_EQ:
        case OP_NE:
        case OP_LT:
        case OP_LE:
        case OP_GT:
        case OP_GE:
        case OP_IN:
        case OP_NOTIN:
            sp--;
            TRY(compare(r, (enum opcode)pc->op, *sp, sp[1], sp));
            continue;
        case OP_COMPARE_KEEP: {
            struct jv right = *sp;

            TRY(compare(r, (enum opcode)pc->b, sp[-1], right, sp));
            sp[-1] = right;
            continue;
        }
        case OP_DEFINED:
            *sp = JV_OF_BOOL((sp->type != JV_UNDEF) != pc->b);
            continue;
        case OP_JUMP:
            pc = func->code + pc->a - 1;
            continue;
        case OP_JUMP_FALSE:
            TRY(n = jv_truth(r, *sp));
            sp--;
            if (!n)
                pc = func->code + pc->a - 1;
            continue;
        case OP_JUMP_FALSE_KEEP:
        case OP_JUMP_TRUE_KEEP:
            TRY(n = jv_truth(r, *sp));
            if (n == (pc->op == OP_JUMP_TRUE_KEEP))
                pc = func->code + pc->a - 1;
            else
                sp--;
            continue;
        case OP_JUMP_CHILD:
            if (unit->parent)
                pc = func->code + pc->a - 1;
            continue;
        case OP_JUMP_SET:
            if ((slots[pc->c].type != JV_MISSING) != pc->b)
                pc = func->code + pc->a - 1;
            continue;
        case OP_FOR:
            TRY(make_loop(r, frame, pc, sp));
            continue;
        case OP_NEXT:
            TRY(n = next_item(r, *sp, sp + 1));
            if (n) {
                sp++;
            } else {
                sp--;
                pc = func->code + pc->a - 1;
            }
            continue;
        case OP_UNPACK:
            TRY(unpack(r, sp, pc->a));
            sp += (int64_t)pc->a - 1;
            continue;
        case OP_CALL:
            TRY(call_args(r, &t->calls[pc->a], sp, &base));
            TRY(op_call(r, &t->calls[pc->a], base));
            sp = base;
            continue;
        case OP_CALL_METHOD:
            TRY(call_args(r, &t->calls[pc->a], sp, &base));
            TRY(op_method(r, &t->calls[pc->a], &t->attrs[pc->c], base));
            sp = base;
            continue;
        case OP_FILTER:
        case OP_TEST:
            TRY(call_args(r, &t->calls[pc->a], sp, &base));
            TRY(op_native(r, &t->calls[pc->a], t->natives[pc->c], base));
            sp = base;
            continue;
        case OP_MACRO:
            *++sp = make_macro(r, frame, t->funcs[pc->a]);
            continue;
        case OP_RETURN:
            *ret = *sp;
            return 0;
        case OP_CAPTURE:
            *++sp = JV_OF_INT((int64_t)r->out->len);
            continue;
        case OP_CAPTURE_END:
            if (pc->b == 3) {
                if (unit->ctx->autoescape && sp->type == JV_STR)
                    sp->flags |= JV_MARKUP;
                continue;
            }
            TRY(capture_end(r, *sp, pc->b == 2 ? unit->ctx->autoescape : pc->b == 1, sp));
            continue;
        default:
            n = slow_op(r, frame, pc, sp);
            if (n == SLOW_FAILED)
                goto fail;
            sp += n;
            continue;
        }
    }
fail:
    return failed_in(r, frame);
#undef TRY
}

/* Room for a function's slots and operands: on the machine's stack, or in the arena where functions made
 * inside may outlive it. */
int func_run(struct run *r, const struct func *func, struct unit *unit, struct frame *outer,
             const struct jv *first, uint32_t nfirst, struct jv *ret)
{
    size_t need = (size_t)func->nslots + func->nstack;
    struct jv *stack = r->stack, *stack_end = r->stack_end;
    struct frame local, *frame = &local;
    int failed;

    if (r->depth >= r->limits->call_depth)
        return raise(r, JINJA_RECURSION_ERROR, "maximum recursion depth exceeded");
    if (check_items(r, (int64_t)need / 16) < 0)
        return -1;
    if (func->captured) {
        frame = run_alloc(r, sizeof(*frame));
        *frame = (struct frame){.slots = run_alloc(r, need * sizeof(struct jv))};
    } else {
        if ((size_t)(r->stack_end - r->stack) < need) {
            size_t size = need + 1024;

            r->stack = run_alloc(r, size * sizeof(struct jv));
            r->stack_end = r->stack + size;
        }
        local = (struct frame){.slots = r->stack};
        r->stack += need;
    }
    frame->unit = unit;
    frame->func = func;
    frame->outer = outer;
    frame->up = r->frame;
    frame->pc = func->code;
    if (nfirst)
        memcpy(frame->slots, first, nfirst * sizeof(*first));
    if (func->nslots > nfirst)
        memset(frame->slots + nfirst, 0, (func->nslots - nfirst) * sizeof(struct jv));
    r->frame = frame;
    r->depth++;
    failed = vm_run(r, frame, ret);
    r->depth--;
    r->frame = frame->up;
    r->stack = stack;
    r->stack_end = stack_end;
    return failed;
}
