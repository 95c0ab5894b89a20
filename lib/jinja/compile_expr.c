/* compile_expr.c - expressions to instructions. Left-deep chains are emitted from the bottom up in a loop. */
#include "base/vec.h"
#include "jinja/compiler.h"

static int compile_list(struct compiler *c, const struct node *node)
{
    for (; node; node = node->next)
        if (compile_expr(c, node) < 0)
            return -1;
    return 0;
}

static int compile_name(struct compiler *c, const struct node *node)
{
    struct centry *entry = c->names.v[node->id].entry;
    unsigned hops;

    if (!entry || entry->in_ctx) {
        emit(c, OP_LOAD_CTX, node->id, 0, 0, 1);
        return 0;
    }
    hops = hops_to(c, entry);
    if (hops)
        emit(c, OP_LOAD_OUTER, entry->slot, hops, 0, 1);
    else
        emit(c, OP_LOAD, entry->slot, 0, 0, 1);
    return 0;
}

/* a < b < c: b is evaluated once, and what follows a false one not at all. */
static int compile_compare(struct compiler *c, const struct node *node)
{
    VEC(uint32_t) exits = {0};
    int failed = 0;
    uint32_t end;

    for (const struct node *op = node->b; op && !failed; op = op->next) {
        failed = compile_expr(c, op->a);
        if (!op->next) {
            emit(c, (enum opcode)op->op, 0, 0, 0, -1);
            break;
        }
        emit(c, OP_COMPARE_KEEP, 0, op->op, 0, 0);
        vec_push(&exits, emit(c, OP_JUMP_FALSE_KEEP, 0, 0, 0, -1));
    }
    if (exits.len && !failed) {
        end = emit(c, OP_JUMP, 0, 0, 0, 0);
        VEC_EACH(&exits, at)
            patch(c, *at);
        emit(c, OP_SWAP, 0, 0, 0, 1);
        emit(c, OP_POP, 0, 0, 0, -1);
        patch(c, end);
    }
    vec_done(&exits);
    return failed;
}

static int compile_cond(struct compiler *c, const struct node *node)
{
    bool soft = c->scope->soft;
    uint32_t other, end;

    c->scope->soft = true;
    if (compile_expr(c, node->a) < 0)
        return -1;
    other = emit(c, OP_JUMP_FALSE, 0, 0, 0, -1);
    if (compile_expr(c, node->b) < 0)
        return -1;
    end = emit(c, OP_JUMP, 0, 0, 0, -1);
    patch(c, other);
    if (node->c) {
        if (compile_expr(c, node->c) < 0)
            return -1;
    } else {
        emit(c, OP_UNDEF_COND, 0, 0, 0, 1);
    }
    patch(c, end);
    c->scope->soft = soft;
    return 0;
}

static int compile_slice(struct compiler *c, const struct node *slice)
{
    const struct node *parts[] = {slice->a, slice->b, slice->c};

    for (size_t i = 0; i < 3; i++) {
        if (!parts[i])
            emit(c, OP_CONST, add_const(c, JV_OF_NONE), 0, 0, 1);
        else if (compile_expr(c, parts[i]) < 0)
            return -1;
    }
    emit(c, OP_SLICE, 0, c->folding, 0, -3);
    return 0;
}

static int compile_getitem(struct compiler *c, const struct node *node)
{
    if (node->b->kind == N_SLICE)
        return compile_slice(c, node->b);
    if (compile_expr(c, node->b) < 0)
        return -1;
    emit(c, OP_GETITEM, 0, 0, 0, -1);
    return 0;
}

/* Pushes the arguments and describes them. The stack effect of the call itself is -count. */
static int compile_args(struct compiler *c, const struct node *node, bool caller, uint32_t *ret, int *count)
{
    struct call_info info = {.npos = node->n, .dyn_args = node->d != NULL, .dyn_kwargs = node->e != NULL};
    uint32_t at = 0;

    for (const struct node *kw = node->c; kw; kw = kw->next)
        info.nkw++;
    info.nkw += caller;
    info.kwnames = arena_alloc(&c->tmpl->arena, (info.nkw + 1) * sizeof(*info.kwnames));
    if (compile_list(c, node->b) < 0)
        return -1;
    for (const struct node *kw = node->c; kw; kw = kw->next) {
        info.kwnames[at++] = jv_str(kw->name);
        if (compile_expr(c, kw->a) < 0)
            return -1;
    }
    if (caller) {
        info.kwnames[at] = JV_LIT("caller");
        emit(c, OP_MACRO, (uint32_t)c->funcs.len - 1, 0, 0, 1);
    }
    if ((node->d && compile_expr(c, node->d) < 0) || (node->e && compile_expr(c, node->e) < 0))
        return -1;
    *count = (int)(info.npos + info.nkw + info.dyn_args + info.dyn_kwargs);
    cvec_push(c, &c->calls, info);
    *ret = (uint32_t)c->calls.len - 1;
    return 0;
}

int compile_filter_call(struct compiler *c, const struct node *node)
{
    bool test = node->kind == N_TEST;
    const struct native *fn = test ? test_find(node->name) : filter_find(c->r->opt, node->name);
    uint32_t call;
    int count;

    if (test && !node->b && !node->c && !node->d && !node->e &&
        (str_is(node->name, "defined") || str_is(node->name, "undefined"))) {
        emit(c, OP_DEFINED, 0, node->name.s[0] == 'u', 0, 0);
        return 0;
    }
    if (!fn && !c->scope->soft)
        return c_fail(c, JINJA_ASSERTION_ERROR, node->line, "No %s named '%.*s'.", test ? "test" : "filter",
                      STR_ARG(node->name));
    if (compile_args(c, node, false, &call, &count) < 0)
        return -1;
    if (!fn) {
        emit(c, OP_NO_FILTER, add_str(c, node->name), test, 0, -count);
        return 0;
    }
    cvec_push(c, &c->natives, fn);
    if (c->natives.len > UINT16_MAX)
        return raise_limit(c->r, "template size");
    emit(c, test ? OP_TEST : OP_FILTER, call, 0, (uint32_t)c->natives.len - 1, -count);
    return 0;
}

/* The callee is on the stack, or its object when it is a method. */
int compile_call(struct compiler *c, const struct node *node, bool caller)
{
    bool method = node->a->kind == N_GETATTR;
    uint32_t call, attr = method ? add_method(c, node->a->name) : 0;
    int count;

    if (attr > UINT16_MAX) {
        method = false;
        emit(c, OP_GETATTR, attr, 0, 0, 0);
    }
    if (compile_args(c, node, caller, &call, &count) < 0)
        return -1;
    emit(c, method ? OP_CALL_METHOD : OP_CALL, call, 0, method ? attr : 0, -count);
    return 0;
}

/* The operation of a node whose left side is on the stack. */
static int compile_above(struct compiler *c, const struct node *node)
{
    uint32_t skip;

    switch ((enum node_kind)node->kind) {
    case N_BINARY:
        if (compile_expr(c, node->b) < 0)
            return -1;
        emit(c, (enum opcode)(OP_ADD + node->op), 0, 0, 0, -1);
        return 0;
    case N_AND:
    case N_OR:
        if (node->a->kind == N_CONST && (jv_truth(c->r, node->a->val) > 0) == (node->kind == N_OR))
            return 0; /* Jinja2 does not look at the other side, not even for unknown filters */
        skip = emit(c, node->kind == N_AND ? OP_JUMP_FALSE_KEEP : OP_JUMP_TRUE_KEEP, 0, 0, 0, -1);
        if (compile_expr(c, node->b) < 0)
            return -1;
        patch(c, skip);
        return 0;
    case N_NOT:
        emit(c, OP_NOT, 0, 0, 0, 0);
        return 0;
    case N_NEG:
    case N_POS:
        emit(c, node->kind == N_NEG ? OP_NEG : OP_POS, 0, 0, 0, 0);
        return 0;
    case N_COMPARE:
        return compile_compare(c, node);
    case N_GETATTR:
        emit(c, OP_GETATTR, add_attr(c, node->name), 0, 0, 0);
        return 0;
    case N_GETITEM:
        return compile_getitem(c, node);
    case N_CALL:
        return compile_call(c, node, false);
    case N_FILTER:
    case N_TEST:
        return compile_filter_call(c, node);
    default:
        return 0;
    }
}

static bool has_left(const struct node *node)
{
    switch ((enum node_kind)node->kind) {
    case N_BINARY:
    case N_AND:
    case N_OR:
    case N_NOT:
    case N_NEG:
    case N_POS:
    case N_COMPARE:
    case N_GETATTR:
    case N_GETITEM:
    case N_CALL:
    case N_FILTER:
    case N_TEST:
        return node->a != NULL;
    default:
        return false;
    }
}

static int compile_leaf(struct compiler *c, const struct node *node)
{
    switch ((enum node_kind)node->kind) {
    case N_CONST:
        emit(c, OP_CONST, add_const(c, node->val), 0, 0, 1);
        return 0;
    case N_NAME:
        return compile_name(c, node);
    case N_TUPLE:
    case N_LIST:
        if (compile_list(c, node->a) < 0)
            return -1;
        emit(c, node->kind == N_LIST ? OP_LIST : OP_TUPLE, node->n, 0, 0, 1 - (int)node->n);
        return 0;
    case N_DICT:
        if (compile_list(c, node->a) < 0)
            return -1;
        emit(c, OP_DICT, node->n, 0, 0, 1 - 2 * (int)node->n);
        return 0;
    case N_CONCAT:
        if (compile_list(c, node->a) < 0)
            return -1;
        emit(c, OP_CONCAT, node->n, c->scope->escape == 1, 0, 1 - (int)node->n);
        return 0;
    case N_COND:
        return compile_cond(c, node);
    case N_SLICE: /* several subscripts, one of them a slice */
        emit(c, OP_CONST, add_const(c, JV_OF_NONE), 0, 0, 1);
        return 0;
    default:
        return c_fail(c, JINJA_SYNTAX_ERROR, node->line, "unexpected expression");
    }
}

static bool is_constant(struct compiler *c, const struct node *node);

static bool all_constant(struct compiler *c, const struct node *list)
{
    for (; list; list = list->next)
        if (!is_constant(c, list))
            return false;
    return true;
}

/* The node and what hangs on it beside its left side. */
static bool is_constant_here(struct compiler *c, const struct node *node)
{
    if (compile_step(c, 1) < 0 || node->kind == N_NAME || node->kind == N_CALL)
        return false;
    return all_constant(c, node->b) && all_constant(c, node->c) && all_constant(c, node->d) &&
           all_constant(c, node->e);
}

/* Whether Jinja2 computes it while compiling: then a slice of what has no slices is undefined. The left side
 * may be as long as the template: it is gone through in a loop. */
static bool is_constant(struct compiler *c, const struct node *node)
{
    for (; node; node = node->a)
        if (!is_constant_here(c, node) || (node->a && !all_constant(c, node->a->next)))
            return false;
    return true;
}

/* How many of the spine, counted from its end, are constant at most: those below are, then. A subscript alone
 * does not count: it may be undefined, which is no constant. */
static size_t count_folded(struct compiler *c, const struct node *leaf, const struct node *const *spine,
                           size_t n)
{
    size_t folded = 0;

    if (!is_constant(c, leaf))
        return 0;
    for (size_t i = n; i-- > 0;) {
        if (!is_constant_here(c, spine[i]) || !all_constant(c, spine[i]->a->next))
            break;
        if (spine[i]->kind != N_GETITEM)
            folded = n - i;
    }
    return folded;
}

#define SPINE_SHORT 8

int compile_expr(struct compiler *c, const struct node *node)
{
    const struct node *few[SPINE_SHORT], **spine = few;
    size_t n = 0, cap = SPINE_SHORT, folded = 0;
    bool folding = c->folding;
    int failed;

    /* a method call leaves out its attribute: OP_CALL_METHOD has it */
    for (; has_left(node); node = node->kind == N_CALL && node->a->kind == N_GETATTR ? node->a->a : node->a) {
        if (n == cap) {
            const struct node **grown = arena_alloc(&c->arena, cap * 4 * sizeof(*grown));

            memcpy(grown, spine, n * sizeof(*grown));
            spine = grown;
            cap *= 4;
        }
        spine[n++] = node;
    }
    if (compile_step(c, n + 1) < 0)
        return -1;
    if (c->slices && !folding)
        folded = count_folded(c, node, spine, n);
    c->folding = folding || folded > 0;
    folded = n - folded;
    failed = compile_leaf(c, node);
    while (n && !failed) {
        if (n == folded)
            c->folding = folding;
        node = spine[--n];
        c->func->offset = node->col;
        failed = compile_above(c, node);
    }
    c->folding = folding;
    return failed;
}

/* ---- targets ---- */

static int store_name(struct compiler *c, const struct node *node)
{
    struct centry *entry = c->names.v[node->id].entry;

    emit(c, OP_STORE, entry->slot, 0, 0, -1);
    if (c->scope->toplevel)
        emit(c, OP_EXPORT, entry->name, node->name.s[0] != '_', entry->slot, 0);
    return 0;
}

int compile_store(struct compiler *c, const struct node *target)
{
    if (target->kind == N_NAME)
        return store_name(c, target);
    if (target->kind == N_NSREF) {
        struct node name = *target;

        name.kind = N_NAME;
        if (compile_name(c, &name) < 0)
            return -1;
        emit(c, OP_NS_SET, add_str(c, target->key), 0, 0, -2);
        return 0;
    }
    emit(c, OP_UNPACK, target->n, 0, 0, (int)target->n - 1);
    for (const struct node *item = target->a; item; item = item->next)
        if (compile_store(c, item) < 0)
            return -1;
    return 0;
}

/* ---- output ---- */

static void output_text(struct compiler *c, struct str text)
{
    if (text.len == 0)
        return;
    cvec_push(c, &c->texts, text);
    emit(c, OP_TEXT, (uint32_t)c->texts.len - 1, 0, 0, 0);
}

/* {{ name }} and {{ name.attr }} of the context, as one instruction. */
static bool output_short(struct compiler *c, const struct node *item)
{
    const struct node *name = item->kind == N_GETATTR ? item->a : item;
    struct centry *entry;
    uint32_t attr = 0;

    if (name->kind != N_NAME || c->scope->escape != 0)
        return false;
    entry = c->names.v[name->id].entry;
    if (entry && !entry->in_ctx)
        return false;
    if (item->kind == N_GETATTR && (attr = add_attr(c, item->name)) > UINT16_MAX)
        return false;
    emit(c, item->kind == N_GETATTR ? OP_OUT_CTX_ATTR : OP_OUT_CTX, name->id, 0, attr, 0);
    return true;
}

int compile_output(struct compiler *c, const struct node *node)
{
    uint32_t skip = 0, line, next_line;
    bool check = c->scope->check_output, constant;

    if (check && c->known_extends)
        return 0;
    if (check)
        skip = emit(c, OP_JUMP_CHILD, 0, 0, 0, 0);
    for (const struct node *item = node->a; item; item = item->next) {
        if (item->kind == N_TEXT) {
            output_text(c, item->name);
            continue;
        }
        if (item->kind == N_CONST && item->val.type == JV_STR && c->scope->escape == 0) {
            output_text(c, jv_view(item->val));
            continue;
        }
        line = c->func->line;
        next_line = item->line;
        set_line(c, item);
        if (output_short(c, item))
            continue;
        constant = is_constant(c, item);
        c->folding = constant && c->slices;
        if (compile_expr(c, item) < 0)
            return -1;
        c->folding = false;
        if (constant) /* Jinja2 made it text and noted no line */
            next_line = line;
        emit(c, OP_OUT, 0, c->scope->escape, 0, -1);
        c->func->line = next_line;
    }
    if (check)
        patch(c, skip);
    return 0;
}
