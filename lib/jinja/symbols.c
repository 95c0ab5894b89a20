/* symbols.c - which names a frame has and where their values come from: jinja2/idtracking.py.
 *
 * Scopes are entered and left like a stack, so each name keeps a list of its entries, innermost first. The
 * branches of an `if` share their frame's entries: what only some of them store starts from the outside. */
#include "jinja/compiler.h"

/* Seeded by where the compiler lies; nothing shows the order. */
static uint32_t name_hash(const struct compiler *c, struct str name)
{
    uint64_t h = (uintptr_t)c ^ name.len;

    for (size_t i = 0; i < name.len; i++)
        h = (h ^ (unsigned char)name.s[i]) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32);
}

uint32_t name_id(struct compiler *c, struct str name)
{
    uint32_t i;

    if ((c->names.len + 1) * 2 > c->name_mask) {
        uint32_t size = c->name_mask ? (c->name_mask + 1) * 4 : 64;

        c->name_mask = size - 1;
        c->name_index = arena_zalloc(&c->arena, size * sizeof(*c->name_index));
        for (uint32_t k = 0; k < c->names.len; k++) {
            for (i = name_hash(c, c->names.v[k].text) & c->name_mask; c->name_index[i];)
                i = (i + 1) & c->name_mask;
            c->name_index[i] = k + 1;
        }
    }
    for (i = name_hash(c, name) & c->name_mask; c->name_index[i]; i = (i + 1) & c->name_mask)
        if (str_eq(c->names.v[c->name_index[i] - 1].text, name))
            return c->name_index[i] - 1;
    cvec_push(c, &c->names, (struct cname){.text = name});
    c->name_index[i] = (uint32_t)c->names.len;
    return (uint32_t)c->names.len - 1;
}

struct cscope *scope_push(struct compiler *c)
{
    struct cscope *scope = arena_zalloc(&c->arena, sizeof(*scope));

    scope->parent = c->scope;
    scope->func = c->func;
    if (c->scope) {
        scope->check_output = c->scope->check_output;
        scope->buffered = c->scope->buffered;
        scope->escape = c->scope->escape;
        scope->block = c->scope->block;
    }
    c->scope = scope;
    return scope;
}

void scope_pop(struct compiler *c)
{
    for (struct centry *e = c->scope->first; e; e = e->next)
        c->names.v[e->name].entry = e->shadow;
    c->scope = c->scope->parent;
}

static struct centry *define(struct compiler *c, uint32_t name, enum load_kind load, struct centry *alias)
{
    struct centry *entry = c->names.v[name].entry;

    if (!entry || entry->scope != c->scope) {
        entry = arena_zalloc(&c->arena, sizeof(*entry));
        entry->shadow = c->names.v[name].entry;
        entry->scope = c->scope;
        entry->name = name;
        c->names.v[name].entry = entry;
        if (c->scope->last)
            c->scope->last->next = entry;
        else
            c->scope->first = entry;
        c->scope->last = entry;
    }
    entry->load = load;
    entry->alias = alias;
    return entry;
}

struct centry *declare_param(struct compiler *c, struct str name)
{
    struct centry *entry = define(c, name_id(c, name), LOAD_PARAM, NULL);

    entry->stored = true;
    return entry;
}

static void sym_load(struct compiler *c, uint32_t id)
{
    if (!c->names.v[id].entry)
        define(c, id, LOAD_RESOLVE, NULL);
}

static void sym_store(struct compiler *c, uint32_t id)
{
    struct centry *entry = c->names.v[id].entry;

    if (!entry || entry->scope != c->scope)
        entry = define(c, id, entry ? LOAD_ALIAS : LOAD_UNDEFINED, entry);
    entry->stored = true;
}

struct centry *find_entry(struct compiler *c, struct str name)
{
    return c->names.v[name_id(c, name)].entry;
}

void sym_target_params(struct compiler *c, const struct node *target)
{
    if (target->kind == N_NAME)
        declare_param(c, target->name);
    else if (target->kind == N_NSREF)
        sym_load(c, target->id);
    else
        for (const struct node *item = target->a; item; item = item->next)
            sym_target_params(c, item);
}

void sym_visit_list(struct compiler *c, const struct node *node)
{
    for (; node; node = node->next)
        sym_visit(c, node);
}

/* What an if's branches store that the frame did not store before them. */
static void visit_if(struct compiler *c, const struct node *node)
{
    VEC(bool) before = {0};
    uint32_t at = 0;

    sym_visit(c, node->a);
    for (struct centry *e = c->scope->first; e; e = e->next)
        vec_push(&before, e->stored);
    if (compile_step(c, before.len) < 0) {
        vec_done(&before);
        return;
    }
    sym_visit_list(c, node->b);
    for (const struct node *elif = node->c; elif; elif = elif->next) {
        sym_visit(c, elif->a);
        sym_visit_list(c, elif->b);
    }
    sym_visit_list(c, node->d);
    for (struct centry *e = c->scope->first; e; e = e->next, at++) {
        if (!e->stored || (at < before.len && before.v[at]))
            continue;
        e->load = e->shadow ? LOAD_ALIAS : LOAD_RESOLVE;
        e->alias = e->shadow;
    }
    vec_done(&before);
}

static void visit_call_parts(struct compiler *c, const struct node *node)
{
    sym_visit_list(c, node->b);
    for (const struct node *kw = node->c; kw; kw = kw->next)
        sym_visit(c, kw->a);
    if (node->d)
        sym_visit(c, node->d);
    if (node->e)
        sym_visit(c, node->e);
}

/* Expressions: the left spine in a loop, the rest recursively. */
static void visit_expr(struct compiler *c, const struct node *node)
{
    while (node) {
        switch ((enum node_kind)node->kind) {
        case N_NAME:
            if (node->flags & NF_STORE)
                sym_store(c, node->id);
            else
                sym_load(c, node->id);
            return;
        case N_NSREF:
            sym_load(c, node->id);
            return;
        case N_TUPLE:
        case N_LIST:
        case N_DICT:
        case N_CONCAT:
            sym_visit_list(c, node->a);
            return;
        case N_BINARY:
        case N_AND:
        case N_OR:
        case N_GETITEM:
            sym_visit(c, node->b);
            break;
        case N_COMPARE:
            for (const struct node *op = node->b; op; op = op->next)
                sym_visit(c, op->a);
            break;
        case N_SLICE:
        case N_COND:
            if (node->b)
                sym_visit(c, node->b);
            if (node->c)
                sym_visit(c, node->c);
            break;
        case N_CALL:
        case N_FILTER:
        case N_TEST:
            visit_call_parts(c, node);
            break;
        default:
            break;
        }
        node = node->a;
    }
}

void sym_visit(struct compiler *c, const struct node *node)
{
    if (compile_step(c, 1) < 0)
        return;
    switch ((enum node_kind)node->kind) {
    case N_OUTPUT:
        sym_visit_list(c, node->a);
        return;
    case N_IF:
        visit_if(c, node);
        return;
    case N_FOR:
        sym_visit(c, node->b);
        return;
    case N_MACRO:
        sym_store(c, name_id(c, node->name));
        return;
    case N_IMPORT:
        sym_visit(c, node->a);
        sym_store(c, name_id(c, node->name));
        return;
    case N_FROM:
        sym_visit(c, node->a);
        for (const struct node *name = node->b; name; name = name->next)
            sym_store(c, name_id(c, name->key));
        return;
    case N_SET:
        sym_visit(c, node->b);
        sym_visit(c, node->a);
        return;
    case N_SETBLOCK:
    case N_FILTERBLOCK:
    case N_EXTENDS:
    case N_INCLUDE:
    case N_DO:
        sym_visit(c, node->a);
        return;
    case N_CALLBLOCK:
        sym_visit(c, node->d);
        return;
    case N_WITH:
        sym_visit_list(c, node->b);
        return;
    case N_BLOCK:
    case N_AUTOESCAPE:
    case N_TEXT:
    case N_CONST:
    case N_BREAK:
    case N_CONTINUE:
        return;
    default:
        visit_expr(c, node);
        return;
    }
}

unsigned hops_to(const struct compiler *c, const struct centry *entry)
{
    unsigned hops = 0;

    for (struct cfunc *f = c->func; f && f != entry->scope->func; f = f->outer)
        hops++;
    return hops;
}

/* The functions between here and the entry's keep their slots for us. */
static void mark_captured(struct compiler *c, unsigned hops)
{
    struct cfunc *f = c->func;

    for (; hops; hops--) {
        f = f->outer;
        f->func->captured = true;
    }
}

void scope_enter(struct compiler *c)
{
    for (struct centry *e = c->scope->first; e; e = e->next) {
        struct str name = c->names.v[e->name].text;
        unsigned hops;

        if (e->load == LOAD_RESOLVE && !c->names.v[e->name].needed) {
            c->names.v[e->name].needed = true;
            cvec_push(c, &c->needs, name);
        }
        if (e->load == LOAD_RESOLVE && !e->stored) {
            e->in_ctx = true;
            continue;
        }
        if (e->load == LOAD_PARAM)
            continue;
        e->slot = add_slot(c, name);
        if (e->load == LOAD_UNDEFINED) {
            emit(c, OP_CLEAR, e->slot, 0, 0, 0);
        } else if (e->load == LOAD_RESOLVE || e->alias->in_ctx) {
            emit(c, OP_RESOLVE, e->name, 0, e->slot, 0);
        } else {
            hops = hops_to(c, e->alias);
            mark_captured(c, hops);
            emit(c, OP_COPY, e->slot, hops, e->alias->slot, 0);
        }
    }
}

void scope_leave(struct compiler *c)
{
    for (struct centry *e = c->scope->first; e; e = e->next)
        if (!e->in_ctx)
            emit(c, OP_CLEAR, e->slot, 0, 0, 0);
}

/* All names stored here or further out, for includes and scoped blocks. */
uint32_t add_locals(struct compiler *c)
{
    struct locals_info info = {0};
    size_t cap = 0;

    for (const struct cscope *s = c->scope; s; s = s->parent)
        for (const struct centry *e = s->first; e; e = e->next) {
            if (compile_step(c, 1) < 0)
                break;
            if (!e->stored || e->in_ctx || c->names.v[e->name].entry != e)
                continue;
            if (info.n == cap) {
                void *grown = arena_alloc(&c->tmpl->arena, (cap = cap ? cap * 2 : 8) * sizeof(*info.v));

                if (info.n)
                    memcpy(grown, info.v, info.n * sizeof(*info.v));
                info.v = grown;
            }
            info.v[info.n].name = c->names.v[e->name].text;
            if (hops_to(c, e) > UINT8_MAX) {
                raise_limit(c->r, "nesting");
                break;
            }
            info.v[info.n].hops = (uint8_t)hops_to(c, e);
            mark_captured(c, info.v[info.n].hops);
            info.v[info.n].slot = e->slot;
            info.n++;
        }
    cvec_push(c, &c->locals, info);
    return (uint32_t)c->locals.len - 1;
}
