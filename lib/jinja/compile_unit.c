/* compile_unit.c - a whole template: parse, compile the root and the blocks, keep what the machine needs. */
#include "base/vec.h"
#include "jinja/compiler.h"

#define COMPILE_ROOM 64 /* bytes of the tree for each byte of the source, beyond the memory of a render */

int compile_step(struct compiler *c, size_t n)
{
    if (c->arena.total > c->r->limits->memory_bytes + COMPILE_ROOM * c->tmpl->source.len)
        return raise_limit(c->r, "memory");
    return charge(c->r, n);
}

/* Blocks anywhere in the tree, in order; the names must differ. */
static int find_blocks(struct compiler *c, struct node *node)
{
    for (; node; node = node->next) {
        if (node->kind == N_EXTENDS)
            c->have_extends = true;
        if (compile_step(c, node->kind == N_BLOCK ? c->blocks.len + 1 : 1) < 0)
            return -1;
        if (node->kind == N_BLOCK) {
            VEC_EACH(&c->blocks, other) {
                if (str_eq((*other)->name, node->name))
                    return c_fail(c, JINJA_ASSERTION_ERROR, node->line, "block '%.*s' defined twice",
                                  STR_ARG(node->name));
            }
            cvec_push(c, &c->blocks, node);
        }
        if (node->kind < N_OUTPUT || node->kind == N_OUTPUT || node->kind == N_SET || node->kind == N_DO)
            continue;
        if (node->kind == N_IF) {
            if (find_blocks(c, node->b) < 0 || find_blocks(c, node->c) < 0 || find_blocks(c, node->d) < 0)
                return -1;
        } else if (find_blocks(c, node->c) < 0 || (node->kind == N_FOR && find_blocks(c, node->d) < 0)) {
            return -1;
        }
    }
    return 0;
}

static void declare_special(struct compiler *c, const char *name, enum opcode op, uint32_t a)
{
    struct centry *entry = declare_param(c, str_from(name));

    entry->slot = add_slot(c, str_from(name));
    emit(c, op, a, 0, 0, 1);
    emit(c, OP_STORE, entry->slot, 0, 0, -1);
}

static int compile_function(struct compiler *c, struct node *body, enum func_kind kind,
                            const struct node *block, unsigned mentions, struct func **ret)
{
    struct cfunc f;
    int failed;

    compile_func_begin(c, &f, kind, block ? block->name : STR(""));
    scope_push(c);
    c->scope->escape = c->r->opt->autoescape;
    if (kind == FUNC_ROOT) {
        c->scope->toplevel = c->scope->rootlevel = true;
        c->scope->check_output = c->have_extends;
    } else {
        c->scope->block = block->name;
    }
    if (mentions & MENTION_SELF)
        declare_special(c, "self", OP_SELF, 0);
    if (mentions & MENTION_SUPER && block)
        declare_special(c, "super", OP_SUPER, add_str(c, block->name));
    sym_visit_list(c, body);
    scope_enter(c);
    failed = compile_statements(c, body);
    scope_pop(c);
    compile_func_end(c, &f);
    *ret = c->funcs.v[c->funcs.len - 1];
    return failed;
}

static int compile_all(struct compiler *c, struct node *body, unsigned mentions)
{
    cvec_reserve(c, &c->names, 32);
    cvec_reserve(c, &c->texts, 64);
    cvec_reserve(c, &c->consts, 64);
    cvec_reserve(c, &c->attrs, 32);
    if (find_blocks(c, body) < 0 || compile_function(c, body, FUNC_ROOT, NULL, mentions, &c->tmpl->root) < 0)
        return -1;
    VEC_EACH(&c->blocks, at) {
        const struct node *block = *at;
        struct func *func;

        c->exited = false;
        mentions =
            (block->flags & NF_SELF ? MENTION_SELF : 0) | (block->flags & NF_SUPER ? MENTION_SUPER : 0);
        if (compile_function(c, block->c, FUNC_BLOCK, block, mentions, &func) < 0)
            return -1;
        cvec_push(c, &c->block_funcs, func);
    }
    return c->r->failed ? -1 : 0;
}

#define KEEP(c, vec) keep_array(&(c)->tmpl->arena, (vec)->v, (vec)->len * sizeof(*(vec)->v))

static void *keep_array(struct arena *arena, const void *data, size_t size)
{
    void *copy = arena_alloc(arena, size ? size : 1);

    if (size)
        memcpy(copy, data, size);
    return copy;
}

static void keep_all(struct compiler *c)
{
    struct jinja_template *t = c->tmpl;

    t->funcs = KEEP(c, &c->funcs);
    t->nfuncs = (uint32_t)c->funcs.len;
    t->blocks = KEEP(c, &c->block_funcs);
    t->nblocks = (uint32_t)c->block_funcs.len;
    t->needs = KEEP(c, &c->needs);
    t->nneeds = (uint32_t)c->needs.len;
    t->texts = KEEP(c, &c->texts);
    t->consts = KEEP(c, &c->consts);
    t->attrs = KEEP(c, &c->attrs);
    t->calls = KEEP(c, &c->calls);
    t->natives = KEEP(c, &c->natives);
    t->locals = KEEP(c, &c->locals);
    t->nnames = (uint32_t)c->names.len;
    t->names = arena_alloc(&t->arena, (c->names.len + 1) * sizeof(*t->names));
    for (size_t i = 0; i < c->names.len; i++)
        t->names[i] = c->names.v[i].text;
}

static void compiler_done(struct compiler *c)
{
    arena_done(&c->arena);
}

int compile_template(struct run *r, struct jinja_template *tmpl, uint32_t *line, const char **at)
{
    struct compiler c = {.r = r, .tmpl = tmpl};
    struct parser p = {.c = &c, .r = r, .arena = &c.arena, .tmpl = tmpl};
    struct node *body = NULL;
    unsigned mentions = 0;
    int failed;

    arena_expect(&c.arena, (8 << 10) + tmpl->source.len * 10); /* the tree of a usual template */
    lexer_init(&p.lx, r, r->opt, tmpl->source);
    *at = NULL;
    failed = parse_template(&p, &body, &mentions);
    if (failed) {
        *line = p.err_line ? p.err_line : p.lx.line;
        *at = p.err_at ? p.err_at : p.lx.at;
    } else {
        c.slices = p.slices;
        failed = compile_all(&c, body, mentions);
        *line = c.err_line;
    }
    if (!failed)
        keep_all(&c);
    compiler_done(&c);
    return failed;
}
