/* context.c - the variables a template sees, and the templates it names: include, import, extends, blocks. */
#include "jinja/env.h"
#include "jinja/objects.h"

struct ctx *ctx_new(struct run *r, const struct jinja_template *tmpl, const struct scope_chain *parent)
{
    struct ctx *ctx = RUN_NEW(r, struct ctx);

    ctx->parent = parent;
    ctx->tmpl = tmpl;
    ctx->autoescape = r->opt->autoescape;
    for (uint32_t i = tmpl->nblocks; i-- > 0;) {
        struct block_stack *stack = RUN_NEW(r, struct block_stack);

        stack->name = tmpl->blocks[i]->name;
        stack->first = RUN_NEW(r, struct block_entry);
        stack->first->func = tmpl->blocks[i];
        stack->next = ctx->blocks;
        ctx->blocks = stack;
    }
    return ctx;
}

static const struct scope_chain *chain(struct run *r, struct jdict *vars, const struct scope_chain *up)
{
    struct scope_chain *scope = run_alloc(r, sizeof(*scope));

    scope->vars = vars;
    scope->up = up;
    return scope;
}

/* What ctx sees, and locals before it. */
static const struct scope_chain *chain_of(struct run *r, struct ctx *ctx, struct jdict *locals)
{
    const struct scope_chain *up = ctx->parent;

    if (ctx->vars && ctx->vars->len)
        up = chain(r, dict_copy(r, ctx->vars), up);
    if (locals && locals->len)
        up = chain(r, locals, up);
    return up;
}

struct ctx *ctx_derived(struct run *r, struct ctx *ctx, struct jdict *locals, bool same_blocks)
{
    struct ctx *inner = RUN_NEW(r, struct ctx);

    inner->parent = chain_of(r, ctx, locals);
    inner->tmpl = ctx->tmpl;
    inner->autoescape = ctx->autoescape;
    inner->blocks = same_blocks ? ctx->blocks : NULL;
    return inner;
}

struct unit *unit_of(struct run *r, struct ctx *ctx, const struct jinja_template *tmpl)
{
    struct unit *unit;

    for (unit = ctx->units; unit; unit = unit->next)
        if (unit->tmpl == tmpl)
            return unit;
    unit = RUN_NEW(r, struct unit);
    unit->ctx = ctx;
    unit->tmpl = tmpl;
    unit->cache = run_zalloc(r, (tmpl->nnames + 1) * sizeof(*unit->cache));
    unit->next = ctx->units;
    ctx->units = unit;
    return unit;
}

void ctx_lookup(struct run *r, struct unit *unit, struct str name, struct jv *ret)
{
    const struct native *global;
    struct jv v;

    if (unit->ctx->vars && dict_get_str(r, unit->ctx->vars, name, &v)) {
        *ret = v;
        return;
    }
    for (const struct scope_chain *s = unit->ctx->parent; s; s = s->up)
        if (s->vars && dict_get_str(r, s->vars, name, &v)) {
            *ret = v;
            return;
        }
    global = global_find(name);
    *ret = global ? (struct jv){.type = JV_FUNC, .func = global} : undef_name(name);
}

int ctx_export(struct run *r, struct unit *unit, struct str name, struct jv v, bool exported, bool discard)
{
    struct ctx *ctx = unit->ctx;
    struct jv unused;

    if (!ctx->vars)
        ctx->vars = dict_new(r, 4);
    if (dict_set(r, ctx->vars, jv_str(name), v) < 0)
        return -1;
    if (exported) {
        if (!ctx->exported)
            ctx->exported = dict_new(r, 4);
        if (dict_set(r, ctx->exported, jv_str(name), JV_OF_NONE) < 0)
            return -1;
    } else if (discard && ctx->exported) {
        (void)dict_del(r, ctx->exported, jv_str(name), &unused);
    }
    for (struct unit *u = ctx->units; u; u = u->next)
        memset(u->cache, 0, u->tmpl->nnames * sizeof(*u->cache));
    return 0;
}

int template_run(struct run *r, struct ctx *ctx, const struct jinja_template *tmpl)
{
    struct unit *unit = unit_of(r, ctx, tmpl);
    struct jv unused;

    unit->parent = NULL;
    if (func_run(r, tmpl->root, unit, NULL, NULL, 0, &unused) < 0)
        return -1;
    if (unit->parent) {
        const struct jinja_template *parent = unit->parent;
        int failed;

        if (run_enter(r) < 0)
            return -1;
        failed = template_run(r, ctx, parent);
        run_leave(r);
        return failed;
    }
    return 0;
}

/* ---- finding templates ---- */

static int template_error(struct run *r, const struct jinja_template *tmpl)
{
    if (!r->failed) {
        r->failed = true;
        *r->err = *tmpl->error;
    }
    return -1;
}

/* 1 found, 0 there is none, -1 raised. */
static int lookup(struct run *r, struct jv name, const struct jinja_template **ret)
{
    if (name.type == JV_UNDEF)
        return raise_undef(r, name);
    if (name.type != JV_STR)
        return raise(r, JINJA_TYPE_ERROR, "expected str, got %s", jv_type_name(name));
    *ret = env_find(r->env, r->frame ? r->frame->func->tmpl : NULL, jv_view(name));
    if (!*ret)
        return 0;
    return (*ret)->error ? template_error(r, *ret) : 1;
}

static int not_found(struct run *r, struct jv name)
{
    return raise(r, JINJA_NOT_FOUND, "%s",
                 name.type == JV_STR ? arena_strndup(r->arena, name.s, name.len < 200 ? name.len : 200)
                                     : repr_brief(r, name));
}

static int get_template(struct run *r, struct jv name, const struct jinja_template **ret)
{
    int found = lookup(r, name, ret);

    return found == 0 ? not_found(r, name) : found < 0 ? -1 : 0;
}

/* A name, or a list of names of which the first that exists is taken. As lookup. */
static int select_template(struct run *r, struct jv names, const struct jinja_template **ret)
{
    struct jiter it;
    struct jv name;
    int more, found;

    if (names.type == JV_STR || names.type == JV_UNDEF)
        return lookup(r, names, ret);
    if (iter_init(r, names, &it) < 0)
        return -1;
    while ((more = iter_next(r, &it, &name)) == 1) {
        if (name.type == JV_UNDEF)
            continue;
        found = lookup(r, name, ret);
        if (found != 0)
            return found;
    }
    return more;
}

/* ---- include, import ---- */

static int run_included(struct run *r, struct ctx *ctx, const struct jinja_template *tmpl)
{
    int failed;

    if (run_enter(r) < 0)
        return -1;
    failed = template_run(r, ctx, tmpl);
    run_leave(r);
    return failed;
}

static const struct scope_chain *globals_of(const struct ctx *ctx)
{
    (void)ctx;
    return NULL;
}

/* The template run on its own, once a render. */
static int default_module(struct run *r, const struct jinja_template *tmpl, struct jmodule **ret);

static int make_module(struct run *r, struct ctx *ctx, const struct jinja_template *tmpl,
                       struct jmodule **ret)
{
    struct jmodule *module = RUN_NEW(r, struct jmodule);
    size_t start = r->out->len;
    struct jv body, v;

    if (run_included(r, ctx, tmpl) < 0)
        return -1;
    if (run_copy(r, (struct str){r->out->data ? r->out->data + start : "", r->out->len - start}, &body) < 0)
        return -1;
    r->out->len = start;
    module->name = tmpl->name;
    module->body = jv_view(body);
    module->exported = dict_new(r, 4);
    for (uint32_t i = 0; ctx->exported && i < ctx->exported->len; i++) {
        struct jv name = ctx->exported->v[i].key;

        if (dict_get_str(r, ctx->vars, jv_view(name), &v) && dict_set(r, module->exported, name, v) < 0)
            return -1;
    }
    *ret = module;
    return 0;
}

static int default_module(struct run *r, const struct jinja_template *tmpl, struct jmodule **ret)
{
    struct module_cache *cached;

    for (cached = r->modules; cached; cached = cached->next)
        if (cached->tmpl == tmpl) {
            *ret = cached->module;
            return 0;
        }
    if (make_module(r, ctx_new(r, tmpl, globals_of(NULL)), tmpl, ret) < 0)
        return -1;
    cached = RUN_NEW(r, struct module_cache);
    cached->tmpl = tmpl;
    cached->module = *ret;
    cached->next = r->modules;
    r->modules = cached;
    return 0;
}

int do_include(struct run *r, struct unit *unit, struct jv name, struct jdict *locals, bool ignore_missing)
{
    const struct jinja_template *tmpl = NULL;
    struct jmodule *module = NULL;
    struct ctx *ctx;
    int found = select_template(r, name, &tmpl);

    if (found < 0 && ignore_missing && r->err->kind == JINJA_NOT_FOUND) {
        r->failed = false;
        *r->err = (struct jinja_error){0};
        return 0;
    }
    if (found <= 0 || !tmpl)
        return found == 0 && !ignore_missing ? not_found(r, name) : found;
    if (!locals) {
        if (default_module(r, tmpl, &module) < 0)
            return -1;
        return out_add(r, module->body.s, module->body.len);
    }
    ctx = ctx_new(r, tmpl, chain_of(r, unit->ctx, locals));
    return run_included(r, ctx, tmpl);
}

int do_import(struct run *r, struct unit *unit, struct jv name, struct jdict *locals, struct jv *ret)
{
    const struct jinja_template *tmpl = NULL;
    struct jmodule *module = NULL;

    if (get_template(r, name, &tmpl) < 0 || !tmpl)
        return -1;
    if (locals ? make_module(r, ctx_new(r, tmpl, chain_of(r, unit->ctx, locals)), tmpl, &module) < 0
               : default_module(r, tmpl, &module) < 0)
        return -1;
    *ret = (struct jv){.type = JV_MODULE, .module = module};
    return 0;
}

/* ---- inheritance ---- */

static struct block_stack *find_block(struct ctx *ctx, struct str name)
{
    for (struct block_stack *b = ctx->blocks; b; b = b->next)
        if (str_eq(b->name, name))
            return b;
    return NULL;
}

int do_extends(struct run *r, struct unit *unit, struct jv name)
{
    const struct jinja_template *tmpl = NULL;
    struct ctx *ctx = unit->ctx;

    if (get_template(r, name, &tmpl) < 0 || !tmpl)
        return -1;
    unit->parent = tmpl;
    for (uint32_t i = 0; i < tmpl->nblocks; i++) {
        struct block_stack *stack = find_block(ctx, tmpl->blocks[i]->name);
        struct block_entry *entry = RUN_NEW(r, struct block_entry), **tail;

        if (charge(r, 4) < 0)
            return -1;
        entry->func = tmpl->blocks[i];
        if (!stack) {
            stack = RUN_NEW(r, struct block_stack);
            stack->name = tmpl->blocks[i]->name;
            stack->next = ctx->blocks;
            ctx->blocks = stack;
        }
        for (tail = &stack->first; *tail; tail = &(*tail)->next)
            ;
        *tail = entry;
    }
    return 0;
}

int do_block(struct run *r, struct unit *unit, struct str name, struct jdict *locals, bool required)
{
    struct block_stack *stack = find_block(unit->ctx, name);
    struct ctx *ctx = unit->ctx;
    struct jv unused;

    if (!stack || !stack->first)
        return raise(r, JINJA_KEY_ERROR, "'%.*s'", STR_ARG(name));
    if (required && !stack->first->next)
        return raise(r, JINJA_RUNTIME_ERROR, "Required block '%.*s' not found", STR_ARG(name));
    if (locals)
        ctx = ctx_derived(r, ctx, locals, true);
    return func_run(r, stack->first->func, unit_of(r, ctx, stack->first->func->tmpl), NULL, NULL, 0, &unused);
}

static struct jv make_block(struct run *r, struct unit *unit, struct str name, const struct block_entry *at)
{
    struct jblock *block = RUN_NEW(r, struct jblock);

    block->name = name;
    block->unit = unit;
    block->at = at;
    return (struct jv){.type = JV_BLOCK, .block = block};
}

struct jv make_super(struct run *r, struct unit *unit, struct str name, const struct func *current)
{
    struct block_stack *stack = find_block(unit->ctx, name);
    const struct block_entry *at = stack ? stack->first : NULL;

    while (at && at->func != current)
        at = at->next;
    if (at && at->next)
        return make_block(r, unit, name, at->next);
    return undef_hint(r, "there is no parent block called '%.*s'.", STR_ARG(name));
}

int block_call(struct run *r, struct jblock *block, struct jv *ret)
{
    struct unit *unit = unit_of(r, block->unit->ctx, block->at->func->tmpl);
    size_t start = r->out->len;
    struct jv unused;

    if (func_run(r, block->at->func, unit, NULL, NULL, 0, &unused) < 0 ||
        run_copy(r, (struct str){r->out->data ? r->out->data + start : "", r->out->len - start}, ret) < 0)
        return -1;
    r->out->len = start;
    ret->flags = unit->ctx->autoescape ? JV_MARKUP : 0;
    return 0;
}

int self_attr(struct run *r, struct jblock *self, struct str name, struct jv *ret)
{
    struct block_stack *stack = find_block(self->unit->ctx, name);

    if (!stack)
        return 0;
    *ret = make_block(r, self->unit, stack->name, stack->first);
    return 1;
}

int block_attr(struct run *r, struct jblock *block, struct str name, struct jv *ret)
{
    if (str_is(name, "name")) {
        *ret = jv_str(block->name);
        return 1;
    }
    if (!str_is(name, "super"))
        return 0;
    *ret = block->at->next ? make_block(r, block->unit, block->name, block->at->next)
                           : undef_hint(r, "there is no parent block called '%.*s'.", STR_ARG(block->name));
    return 1;
}

struct str module_text(const struct jmodule *module)
{
    return module->body;
}
