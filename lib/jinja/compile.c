/* compile.c - statements to instructions: jinja2/compiler.py, with slots for Python's local variables and
 * functions for its nested functions. */
#include "base/vec.h"
#include "jinja/compiler.h"

#include <stdio.h>

static int compile_body(struct compiler *c, const struct node *node);

int(c_fail)(struct compiler *c, enum jinja_kind kind, uint32_t line, const char *fmt, ...)
{
    char text[JINJA_MESSAGE_MAX];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    c->err_line = line;
    return raise(c->r, kind, "%s", text);
}

/* ---- emitting ---- */

uint32_t here(const struct compiler *c)
{
    return (uint32_t)c->func->code.len;
}

uint32_t emit(struct compiler *c, enum opcode op, uint32_t a, unsigned b, uint32_t cc, int stack)
{
    struct cfunc *f = c->func;

    if (cc > UINT16_MAX) { /* more slots than an instruction can name */
        raise_limit(c->r, "template size");
        cc = 0;
    }
    if (b > UINT8_MAX) { /* more functions in one another than an instruction can name */
        raise_limit(c->r, "nesting");
        b = 0;
    }
    cvec_push(c, &f->code,
              (struct cinsn){.insn = {.op = (uint8_t)op, .b = (uint8_t)b, .c = (uint16_t)cc, .a = a},
                             .line = f->line,
                             .offset = f->offset});
    f->depth = (uint32_t)((int64_t)f->depth + stack);
    if (f->depth > f->max_depth)
        f->max_depth = f->depth;
    return (uint32_t)f->code.len - 1;
}

void patch(struct compiler *c, uint32_t at)
{
    c->func->code.v[at].insn.a = here(c);
}

void set_line(struct compiler *c, const struct node *node)
{
    c->func->line = node->line;
    c->func->offset = node->col;
}

uint32_t add_const(struct compiler *c, struct jv v)
{
    cvec_push(c, &c->consts, v);
    return (uint32_t)c->consts.len - 1;
}

uint32_t add_str(struct compiler *c, struct str s)
{
    return add_const(c, jv_str(s));
}

void *cvec_grow(struct compiler *c, const void *v, size_t len, size_t *cap, size_t need, size_t size)
{
    size_t more = *cap ? *cap * 2 : 8;
    void *grown;

    *cap = more < need ? need : more;
    grown = arena_alloc(&c->arena, *cap * size);
    if (len)
        memcpy(grown, v, len * size);
    return grown;
}

uint32_t add_attr(struct compiler *c, struct str name)
{
    size_t look = c->attrs.len < 32 ? c->attrs.len : 32;

    for (size_t i = 0; i < look; i++)
        if (str_eq(c->attrs.v[i].name, name))
            return (uint32_t)i;
    cvec_push(c, &c->attrs,
              (struct attr){.name = name,
                            .on_dict = method_find((struct jv){.type = JV_DICT}, name),
                            .private_ = name.len && name.s[0] == '_'});
    return (uint32_t)c->attrs.len - 1;
}

uint32_t add_method(struct compiler *c, struct str name)
{
    uint32_t at = add_attr(c, name);
    struct attr *attr = &c->attrs.v[at];

    attr->on_str = method_find((struct jv){.type = JV_STR}, name);
    attr->on_list = method_find((struct jv){.type = JV_LIST}, name);
    return at;
}

uint32_t add_slot(struct compiler *c, struct str name)
{
    cvec_push(c, &c->func->slot_names, name);
    return (uint32_t)c->func->slot_names.len - 1;
}

static void *keep(struct compiler *c, const void *data, size_t size)
{
    void *copy = arena_alloc(&c->tmpl->arena, size ? size : 1);

    if (size)
        memcpy(copy, data, size);
    return copy;
}

struct func *compile_func_begin(struct compiler *c, struct cfunc *f, enum func_kind kind, struct str name)
{
    *f = (struct cfunc){.outer = c->func, .line = c->func ? c->func->line : 1};
    f->func = arena_zalloc(&c->tmpl->arena, sizeof(*f->func));
    f->func->tmpl = c->tmpl;
    f->func->kind = kind;
    f->func->name = name;
    if (c->func)
        c->func->func->captured = true;
    c->func = f;
    cvec_reserve(c, &f->code, kind == FUNC_ROOT ? 256 : 32);
    return f->func;
}

static void func_keep(struct compiler *c, struct cfunc *f)
{
    struct func *func = f->func;

    emit(c, OP_END, 0, 0, 0, 0);
    func->ncode = (uint32_t)f->code.len;
    func->code = arena_alloc(&c->tmpl->arena, f->code.len * sizeof(*func->code));
    func->lines = arena_alloc(&c->tmpl->arena, f->code.len * sizeof(*func->lines));
    func->offsets = arena_alloc(&c->tmpl->arena, f->code.len * sizeof(*func->offsets));
    for (size_t i = 0; i < f->code.len; i++) {
        func->code[i] = f->code.v[i].insn;
        func->lines[i] = f->code.v[i].line;
        func->offsets[i] = f->code.v[i].offset;
    }
    func->slot_names = keep(c, f->slot_names.v, f->slot_names.len * sizeof(*f->slot_names.v));
    func->nslots = (uint32_t)f->slot_names.len;
    func->nstack = f->max_depth + 2;
    cvec_push(c, &c->funcs, func);
    c->func = f->outer;
}

void compile_func_end(struct compiler *c, struct cfunc *f)
{
    func_keep(c, f);
}

/* ---- loops ---- */

static int compile_test_func(struct compiler *c, const struct node *node)
{
    struct cfunc f;
    uint32_t item, no;
    int failed;

    compile_func_begin(c, &f, FUNC_TEST, STR("for"));
    scope_push(c);
    item = add_slot(c, STR("item"));
    sym_target_params(c, node->a);
    sym_visit(c, node->e);
    for (struct centry *e = c->scope->first; e; e = e->next)
        if (e->load == LOAD_PARAM)
            e->slot = add_slot(c, c->names.v[e->name].text);
    scope_enter(c);
    set_line(c, node->e);
    emit(c, OP_LOAD, item, 0, 0, 1);
    failed = compile_store(c, node->a) < 0 || compile_expr(c, node->e) < 0;
    no = emit(c, OP_JUMP_FALSE, 0, 0, 0, -1);
    emit(c, OP_LOAD, item, 0, 0, 1);
    emit(c, OP_RETURN, 0, 0, 0, -1);
    patch(c, no);
    scope_pop(c);
    compile_func_end(c, &f);
    return failed ? -1 : 0;
}

static void close_loop(struct compiler *c, struct cloop *loop)
{
    c->func->loop = loop->up;
    VEC_EACH(&loop->breaks, at)
        patch(c, *at);
}

/* What is iterated is on the stack. */
static int compile_loop(struct compiler *c, const struct node *node)
{
    struct cloop loop = {.up = c->func->loop, .open = (uint32_t)c->func->open.len};
    struct centry *loop_entry = NULL;
    uint32_t empty = 0, loop_slot = 0, skip;
    int failed;

    if (node->d) {
        empty = add_slot(c, STR(""));
        emit(c, OP_CONST, add_const(c, JV_OF_BOOL(true)), 0, 0, 1);
        emit(c, OP_STORE, empty, 0, 0, -1);
    }
    scope_push(c);
    if (node->flags & NF_EXTENDED)
        loop_entry = declare_param(c, STR("loop"));
    sym_target_params(c, node->a);
    sym_visit_list(c, node->c);
    for (struct centry *e = c->scope->first; e; e = e->next)
        if (e->load == LOAD_PARAM)
            e->slot = add_slot(c, c->names.v[e->name].text);
    if (loop_entry)
        loop_slot = loop_entry->slot;
    set_line(c, node);
    emit(c, OP_FOR, 0, (node->flags & NF_EXTENDED ? 1 : 0) | (node->flags & NF_RECURSIVE ? 2 : 0), loop_slot,
         0);
    cvec_push(c, &c->func->open, 'i');
    c->func->loop = &loop;
    loop.next_at = emit(c, OP_NEXT, 0, 0, 0, 1);
    failed = compile_store(c, node->a) < 0;
    scope_enter(c);
    failed = failed || compile_body(c, node->c) < 0;
    if (node->d)
        emit(c, OP_CLEAR, empty, 0, 0, 0);
    emit(c, OP_JUMP, loop.next_at, 0, 0, 0);
    (void)vec_pop(&c->func->open);
    c->func->depth--;
    patch(c, loop.next_at);
    close_loop(c, &loop);
    scope_leave(c);
    scope_pop(c);
    if (node->d && !failed) {
        skip = emit(c, OP_JUMP_SET, 0, 0, empty, 0);
        c->func->code.v[skip].insn.b = 1; /* jumps when it is clear */
        scope_push(c);
        sym_visit_list(c, node->d);
        scope_enter(c);
        failed = compile_body(c, node->d) < 0;
        scope_leave(c);
        scope_pop(c);
        patch(c, skip);
    }
    return failed ? -1 : 0;
}

static int compile_recursive(struct compiler *c, const struct node *node)
{
    struct cfunc f;
    uint32_t test = 0;
    int failed;

    compile_func_begin(c, &f, FUNC_LOOP, STR("loop"));
    scope_push(c)->buffered = true;
    add_slot(c, STR("items"));
    add_slot(c, STR("depth"));
    set_line(c, node);
    emit(c, OP_LOAD, 0, 0, 0, 1);
    failed = node->e && compile_test_func(c, node) < 0;
    test = (uint32_t)c->funcs.len - 1;
    if (node->e)
        emit(c, OP_FOR_TEST, test, 0, 0, 0);
    failed = failed || compile_loop(c, node) < 0;
    scope_pop(c);
    compile_func_end(c, &f);
    if (failed || compile_expr(c, node->b) < 0)
        return -1;
    set_line(c, node);
    emit(c, OP_RECURSE, (uint32_t)c->funcs.len - 1, c->scope->escape, 0, 0);
    emit(c, OP_OUT, 0, 0, 0, -1);
    return 0;
}

static int compile_for(struct compiler *c, const struct node *node)
{
    if (node->bad_line)
        return c_fail(c, JINJA_ASSERTION_ERROR, node->bad_line,
                      "Can't assign to special loop variable in for-loop target");
    set_line(c, node);
    if (node->flags & NF_RECURSIVE)
        return compile_recursive(c, node);
    if (node->e && compile_test_func(c, node) < 0)
        return -1;
    if (node->e) {
        uint32_t test = (uint32_t)c->funcs.len - 1;

        if (compile_expr(c, node->b) < 0)
            return -1;
        emit(c, OP_FOR_TEST, test, 0, 0, 0);
        return compile_loop(c, node);
    }
    return compile_expr(c, node->b) < 0 ? -1 : compile_loop(c, node);
}

static int compile_break(struct compiler *c, const struct node *node)
{
    struct cloop *loop = c->func->loop;
    uint32_t depth = c->func->depth;

    if (!loop)
        return c_fail(c, JINJA_SYNTAX_ERROR, node->line,
                      node->kind == N_BREAK ? "'break' outside loop" : "'continue' not properly in loop");
    for (size_t i = c->func->open.len; i-- > loop->open + 1;) {
        emit(c, c->func->open.v[i] == 'c' ? OP_CAPTURE_END : OP_POP, 0, 0, 0, 0);
        if (c->func->open.v[i] == 'c')
            emit(c, OP_POP, 0, 0, 0, 0);
    }
    if (node->kind == N_CONTINUE) {
        emit(c, OP_JUMP, loop->next_at, 0, 0, 0);
    } else {
        emit(c, OP_POP, 0, 0, 0, 0);
        cvec_push(c, &loop->breaks, emit(c, OP_JUMP, 0, 0, 0, 0));
    }
    c->func->depth = depth;
    return 0;
}

/* ---- macros ---- */

static int compile_defaults(struct compiler *c, const struct node *node)
{
    const struct node *fallback = node->b;
    uint32_t plain = node->n, at = 0, skip;

    for (const struct node *d = node->b; d; d = d->next)
        plain--;
    for (const struct node *arg = node->a; arg; arg = arg->next, at++) {
        struct centry *entry = find_entry(c, arg->name);

        skip = emit(c, OP_JUMP_SET, 0, 0, entry->slot, 0);
        if (at < plain) {
            emit(c, OP_UNDEF_PARAM, add_str(c, arg->name), 0, 0, 1);
        } else if (fallback) {
            if (compile_expr(c, fallback) < 0)
                return -1;
            fallback = fallback->next;
        }
        emit(c, OP_STORE, entry->slot, 0, 0, -1);
        patch(c, skip);
    }
    return 0;
}

static void macro_param(struct compiler *c, const char *name, bool *flag)
{
    struct centry *entry = declare_param(c, str_from(name));

    entry->slot = add_slot(c, str_from(name));
    *flag = true;
}

static int macro_signature(struct compiler *c, const struct node *node, struct func *func)
{
    unsigned special = node->flags;
    uint32_t at = 0, plain = node->n;

    for (const struct node *d = node->b; d; d = d->next)
        plain--;
    func->nargs = node->n;
    func->args = arena_alloc(&c->tmpl->arena, (node->n + 1) * sizeof(*func->args));
    for (const struct node *arg = node->a; arg; arg = arg->next, at++) {
        struct centry *entry = declare_param(c, arg->name);

        entry->slot = add_slot(c, arg->name);
        func->args[at] = arg->name;
        if (str_is(arg->name, "caller")) {
            func->explicit_caller = true;
            if (special & NF_CALLER && at < plain)
                return c_fail(c, JINJA_ASSERTION_ERROR, node->line,
                              "When defining macros or call blocks the special \"caller\" argument must be "
                              "omitted or be given a default.");
        }
        if (str_is(arg->name, "kwargs"))
            special &= ~(unsigned)NF_KWARGS;
        if (str_is(arg->name, "varargs"))
            special &= ~(unsigned)NF_VARARGS;
    }
    func->caller = (special & NF_CALLER) != 0;
    if (func->caller && !func->explicit_caller)
        macro_param(c, "caller", &func->caller);
    if (special & NF_KWARGS)
        macro_param(c, "kwargs", &func->kwargs);
    if (special & NF_VARARGS)
        macro_param(c, "varargs", &func->varargs);
    return 0;
}

/* The function is the last of c->funcs then. */
static int compile_macro_func(struct compiler *c, const struct node *node, enum func_kind kind)
{
    struct cfunc f;
    struct func *func;
    int failed;

    func = compile_func_begin(c, &f, kind, kind == FUNC_MACRO ? node->name : STR("caller"));
    scope_push(c)->check_output = false;
    c->scope->buffered = true;
    set_line(c, node);
    failed = macro_signature(c, node, func) < 0;
    if (!failed) {
        sym_visit_list(c, node->b);
        sym_visit_list(c, node->c);
        scope_enter(c);
        failed = compile_defaults(c, node) < 0 || compile_body(c, node->c) < 0;
    }
    scope_pop(c);
    compile_func_end(c, &f);
    return failed ? -1 : 0;
}

static int compile_macro(struct compiler *c, const struct node *node)
{
    struct centry *entry;

    if (compile_macro_func(c, node, FUNC_MACRO) < 0)
        return -1;
    entry = find_entry(c, node->name);
    set_line(c, node);
    emit(c, OP_MACRO, (uint32_t)c->funcs.len - 1, 0, 0, 1);
    emit(c, OP_STORE, entry->slot, 0, 0, -1);
    if (c->scope->toplevel)
        emit(c, OP_EXPORT, entry->name, node->name.s[0] != '_', entry->slot, 0);
    return 0;
}

static int compile_call_block(struct compiler *c, const struct node *node)
{
    const struct node *callee = node->d->a;

    if (compile_macro_func(c, node, FUNC_CALLER) < 0)
        return -1;
    set_line(c, node);
    if (compile_expr(c, callee->kind == N_GETATTR ? callee->a : callee) < 0)
        return -1;
    if (compile_call(c, node->d, true) < 0)
        return -1;
    emit(c, OP_OUT, 0, 0, 0, -1);
    return 0;
}

/* ---- captures and scopes ---- */

/* The body's output as a value. */
static int compile_capture(struct compiler *c, const struct node *body, unsigned markup)
{
    emit(c, OP_CAPTURE, 0, 0, 0, 1);
    cvec_push(c, &c->func->open, 'c');
    if (compile_body(c, body) < 0)
        return -1;
    (void)vec_pop(&c->func->open);
    emit(c, OP_CAPTURE_END, 0, markup, 0, 0);
    return 0;
}

/* A chain of filters whose innermost has no value of its own. */
static int compile_filter_chain(struct compiler *c, const struct node *node)
{
    VEC(const struct node *) chain = {0};
    int failed = 0;

    for (; node; node = node->a)
        vec_push(&chain, node);
    while (chain.len && !failed)
        failed = compile_filter_call(c, vec_pop(&chain));
    vec_done(&chain);
    return failed;
}

static void visit_filters(struct compiler *c, const struct node *filter)
{
    for (; filter; filter = filter->a) {
        sym_visit_list(c, filter->b);
        for (const struct node *kw = filter->c; kw; kw = kw->next)
            sym_visit(c, kw->a);
        if (filter->d)
            sym_visit(c, filter->d);
        if (filter->e)
            sym_visit(c, filter->e);
    }
}

static int compile_filter_block(struct compiler *c, const struct node *node)
{
    scope_push(c)->buffered = true;
    visit_filters(c, node->a);
    sym_visit_list(c, node->c);
    scope_enter(c);
    if (compile_capture(c, node->c, c->scope->escape) < 0)
        return -1;
    set_line(c, node);
    if (compile_filter_chain(c, node->a) < 0)
        return -1;
    emit(c, OP_OUT, 0, 0, 0, -1);
    scope_leave(c);
    scope_pop(c);
    return 0;
}

static int compile_set_block(struct compiler *c, const struct node *node)
{
    scope_push(c)->check_output = false;
    c->scope->buffered = true;
    sym_visit_list(c, node->c);
    if (node->b)
        visit_filters(c, node->b);
    scope_enter(c);
    if (compile_capture(c, node->c, node->b ? c->scope->escape : 2) < 0)
        return -1;
    set_line(c, node);
    if (node->b && compile_filter_chain(c, node->b) < 0)
        return -1;
    if (node->b)
        emit(c, OP_CAPTURE_END, 0, 3, 0, 0); /* marks it where the context escapes */
    scope_leave(c);
    scope_pop(c);
    return compile_store(c, node->a);
}

/* Whether one of these targets has the name of `target`. */
static bool set_later(const struct node *targets, const struct node *target)
{
    for (; targets; targets = targets->next)
        if (targets->kind == N_NAME ? str_eq(targets->name, target->name) : set_later(targets->a, target))
            return true;
    return false;
}

static int compile_with(struct compiler *c, const struct node *node)
{
    const struct node **targets;
    uint32_t count = 0;

    /* values are evaluated outside, all before the scope's own names are seen */
    for (const struct node *v = node->b; v; v = v->next)
        if (compile_expr(c, v) < 0)
            return -1;
    scope_push(c);
    for (const struct node *t = node->a; t; t = t->next)
        sym_target_params(c, t);
    sym_visit_list(c, node->c);
    for (struct centry *e = c->scope->first; e; e = e->next)
        if (e->load == LOAD_PARAM)
            e->slot = add_slot(c, c->names.v[e->name].text);
    scope_enter(c);
    targets = arena_alloc(&c->arena, (node->n + 1) * sizeof(struct node *));
    for (const struct node *t = node->a; t && count < node->n; t = t->next)
        targets[count++] = t;
    for (uint32_t i = count; i-- > 0;) {
        const struct node *t = targets[i];

        if (compile_step(c, count - i) < 0)
            return -1;
        if (t->kind == N_NAME && set_later(t->next, t)) /* the last of a name counts */
            emit(c, OP_POP, 0, 0, 0, -1);
        else if (compile_store(c, t) < 0)
            return -1;
    }
    if (compile_body(c, node->c) < 0)
        return -1;
    scope_leave(c);
    scope_pop(c);
    return 0;
}

static int compile_autoescape(struct compiler *c, const struct node *node)
{
    scope_push(c);
    sym_visit(c, node->a);
    sym_visit_list(c, node->c);
    scope_enter(c);
    if (compile_expr(c, node->a) < 0)
        return -1;
    if (node->a->kind == N_CONST)
        c->scope->escape = (uint8_t)(jv_truth(c->r, node->a->val) > 0);
    else
        c->scope->escape = 2;
    emit(c, OP_ESCAPE_ON, 0, 0, 0, 0);
    cvec_push(c, &c->func->open, 'e');
    if (compile_body(c, node->c) < 0)
        return -1;
    (void)vec_pop(&c->func->open);
    emit(c, OP_ESCAPE_OFF, 0, 0, 0, -1);
    scope_leave(c);
    scope_pop(c);
    return 0;
}

static int compile_branch(struct compiler *c, const struct node *body)
{
    bool soft = c->scope->soft, root = c->scope->rootlevel;
    int failed;

    c->scope->soft = true;
    c->scope->rootlevel = false;
    failed = compile_body(c, body);
    c->scope->soft = soft;
    c->scope->rootlevel = root;
    return failed;
}

static int compile_if(struct compiler *c, const struct node *node)
{
    VEC(uint32_t) ends = {0};
    const struct node *branch = node;
    bool soft = c->scope->soft;
    int failed = 0;

    do {
        uint32_t skip;

        set_line(c, branch);
        c->scope->soft = true;
        failed = compile_expr(c, branch->a);
        c->scope->soft = soft;
        skip = emit(c, OP_JUMP_FALSE, 0, 0, 0, -1);
        failed = failed || compile_branch(c, branch->b) < 0;
        branch = branch == node ? node->c : branch->next;
        if (branch || node->d)
            vec_push(&ends, emit(c, OP_JUMP, 0, 0, 0, 0));
        patch(c, skip);
    } while (branch && !failed);
    failed = failed || (node->d && compile_branch(c, node->d) < 0);
    VEC_EACH(&ends, at)
        patch(c, *at);
    vec_done(&ends);
    return failed ? -1 : 0;
}

/* ---- assignments ---- */

static int check_namespaces(struct compiler *c, const struct node *target)
{
    struct node name = *target;

    if (target->kind == N_TUPLE) {
        for (const struct node *item = target->a; item; item = item->next)
            if (check_namespaces(c, item) < 0)
                return -1;
        return 0;
    }
    if (target->kind != N_NSREF)
        return 0;
    name.kind = N_NAME;
    if (compile_expr(c, &name) < 0)
        return -1;
    emit(c, OP_NS_CHECK, 0, 0, 0, -1);
    return 0;
}

static int compile_set(struct compiler *c, const struct node *node)
{
    set_line(c, node);
    if (check_namespaces(c, node->a) < 0 || compile_expr(c, node->b) < 0)
        return -1;
    return compile_store(c, node->a);
}

/* ---- other templates ---- */

static int compile_block(struct compiler *c, const struct node *node)
{
    uint32_t skip = 0;
    bool check = c->scope->toplevel && c->extends_so_far > 0 && !c->known_extends;

    if (c->scope->toplevel && c->known_extends)
        return 0;
    set_line(c, node);
    if (check)
        skip = emit(c, OP_JUMP_CHILD, 0, 0, 0, 0);
    if (node->flags & NF_SCOPED)
        emit(c, OP_LOCALS, add_locals(c), 0, 0, 1);
    emit(c, OP_BLOCK, add_str(c, node->name),
         (node->flags & NF_SCOPED ? 1 : 0) | (node->flags & NF_REQUIRED ? 2 : 0), 0,
         node->flags & NF_SCOPED ? -1 : 0);
    if (check)
        patch(c, skip);
    return 0;
}

static int compile_extends(struct compiler *c, const struct node *node)
{
    set_line(c, node);
    if (!c->scope->toplevel)
        return c_fail(c, JINJA_ASSERTION_ERROR, node->line, "cannot use extend from a non top-level scope");
    if (c->extends_so_far > 0) {
        emit(c, OP_EXTENDS_TWICE, 0, 0, 0, 0);
        if (c->known_extends) {
            c->exited = true;
            return 0;
        }
    }
    if (compile_expr(c, node->a) < 0)
        return -1;
    emit(c, OP_EXTENDS, 0, 0, 0, -1);
    if (c->scope->rootlevel)
        c->known_extends = true;
    c->extends_so_far++;
    return 0;
}

static int compile_include(struct compiler *c, const struct node *node)
{
    bool context = (node->flags & NF_CONTEXT) != 0;

    set_line(c, node);
    if (compile_expr(c, node->a) < 0)
        return -1;
    if (context)
        emit(c, OP_LOCALS, add_locals(c), 0, 0, 1);
    emit(c, OP_INCLUDE, 0, (context ? 1 : 0) | (node->flags & NF_IGNORE ? 2 : 0), 0, context ? -2 : -1);
    return 0;
}

static int compile_module(struct compiler *c, const struct node *node)
{
    bool context = (node->flags & NF_CONTEXT) != 0;

    set_line(c, node);
    if (compile_expr(c, node->a) < 0)
        return -1;
    if (context)
        emit(c, OP_LOCALS, add_locals(c), 0, 0, 1);
    emit(c, OP_IMPORT, 0, context, 0, context ? -1 : 0);
    return 0;
}

static void store_import(struct compiler *c, struct str name)
{
    struct centry *entry = find_entry(c, name);

    emit(c, OP_STORE, entry->slot, 0, 0, -1);
    if (c->scope->toplevel)
        emit(c, OP_EXPORT, entry->name, name.s[0] == '_' ? 0 : 2, entry->slot, 0);
}

static int compile_import(struct compiler *c, const struct node *node)
{
    if (compile_module(c, node) < 0)
        return -1;
    if (node->kind == N_IMPORT) {
        store_import(c, node->name);
        return 0;
    }
    for (const struct node *name = node->b; name; name = name->next) {
        emit(c, OP_IMPORT_NAME, add_str(c, name->name), 0, 0, 1);
        store_import(c, name->key);
    }
    emit(c, OP_POP, 0, 0, 0, -1);
    return 0;
}

static int compile_do(struct compiler *c, const struct node *node)
{
    set_line(c, node);
    if (compile_expr(c, node->a) < 0)
        return -1;
    emit(c, OP_POP, 0, 0, 0, -1);
    return 0;
}

static int (*const compilers[])(struct compiler *c, const struct node *node) = {
    [N_OUTPUT] = compile_output,
    [N_FOR] = compile_for,
    [N_IF] = compile_if,
    [N_SET] = compile_set,
    [N_SETBLOCK] = compile_set_block,
    [N_MACRO] = compile_macro,
    [N_CALLBLOCK] = compile_call_block,
    [N_FILTERBLOCK] = compile_filter_block,
    [N_WITH] = compile_with,
    [N_BLOCK] = compile_block,
    [N_EXTENDS] = compile_extends,
    [N_INCLUDE] = compile_include,
    [N_IMPORT] = compile_import,
    [N_FROM] = compile_import,
    [N_AUTOESCAPE] = compile_autoescape,
    [N_DO] = compile_do,
    [N_BREAK] = compile_break,
    [N_CONTINUE] = compile_break,
};

static int compile_body(struct compiler *c, const struct node *node)
{
    for (; node && !c->exited; node = node->next)
        if (compile_step(c, 1) < 0 || compilers[node->kind](c, node) < 0)
            return -1;
    return 0;
}

int compile_statements(struct compiler *c, const struct node *body)
{
    return compile_body(c, body);
}
