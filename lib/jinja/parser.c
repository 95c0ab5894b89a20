/* parser.c - expressions. The grammar, its line numbers and its messages follow jinja2/parser.py; chains
 * of operators and postfixes are loops here, so only real nesting costs stack, and that is limited. */
#include "jinja/ast.h"

#include <stdio.h>

int(p_fail)(struct parser *p, uint32_t line, const char *fmt, ...)
{
    char text[JINJA_MESSAGE_MAX];
    va_list ap;

    if (p->r->failed)
        return -1;
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    p->err_line = line;
    p->err_at = p->tok.at;
    return raise(p->r, JINJA_SYNTAX_ERROR, "%s", text);
}

int p_next(struct parser *p)
{
    uint32_t line = p->tok.line;

    if (p->has_ahead) {
        p->tok = p->ahead;
        p->has_ahead = false;
    } else if (lexer_next(&p->lx, &p->tok) < 0) {
        p->err_line = p->lx.line;
        p->err_at = p->lx.at;
        return -1;
    }
    if (p->tok.type == T_EOF && line)
        p->tok.line = line; /* Jinja2's end has the line of what stands before it */
    return 0;
}

int p_skip_two(struct parser *p)
{
    return p_next(p) < 0 ? -1 : p_next(p);
}

int p_look(struct parser *p, struct tok **ret)
{
    if (!p->has_ahead) {
        if (lexer_next(&p->lx, &p->ahead) < 0) {
            p->err_line = p->lx.line;
            p->err_at = p->lx.at;
            return -1;
        }
        p->has_ahead = true;
    }
    *ret = &p->ahead;
    return 0;
}

static int expected(struct parser *p, const char *what)
{
    if (p->tok.type == T_EOF)
        return p_fail(p, p->tok.line, "unexpected end of template, expected '%s'.", what);
    return p_fail(p, p->tok.line, "expected token '%s', got '%s'", what, tok_describe(p->r, &p->tok));
}

int p_expect(struct parser *p, enum tok_type type)
{
    return p->tok.type == type ? p_next(p) : expected(p, tok_type_name(type));
}

int p_expect_name(struct parser *p, const char *name)
{
    return p_is_name(&p->tok, name) ? p_next(p) : expected(p, name);
}

int p_skip_name(struct parser *p, const char *name)
{
    if (!p_is_name(&p->tok, name))
        return 0;
    return p_next(p) < 0 ? -1 : 1;
}

int p_enter(struct parser *p)
{
    if (++p->depth <= p->r->limits->nesting * 2)
        return 0;
    p->err_line = p->tok.line;
    p->err_at = p->tok.at;
    return raise_limit(p->r, "nesting");
}

struct node *p_node(struct parser *p, enum node_kind kind, uint32_t line)
{
    struct node *node = arena_alloc(p->arena, sizeof(*node));

    *node = (struct node){.kind = (uint8_t)kind, .line = line, .col = (uint32_t)(p->tok.at - p->lx.start)};
    return node;
}

void p_mention(struct parser *p, struct str name, bool store)
{
    static const struct {
        const char *name;
        unsigned bit;
    } names[] = {{"loop", MENTION_LOOP},       {"caller", MENTION_CALLER}, {"kwargs", MENTION_KWARGS},
                 {"varargs", MENTION_VARARGS}, {"self", MENTION_SELF},     {"super", MENTION_SUPER}};

    if (name.len < 4 || name.len > 7 || !strchr("lckvs", name.s[0]))
        return;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (names[i].name[0] != name.s[0] || !str_is(name, names[i].name))
            continue;
        if (store)
            p->stored |= names[i].bit;
        else
            p->mentions |= names[i].bit & ~p->stored;
    }
}

static int binary(struct parser *p, enum node_kind kind, struct node *left, struct node *right, uint32_t line,
                  struct node **ret)
{
    struct node *node = p_node(p, kind, line);

    node->a = left;
    node->b = right;
    *ret = node;
    return 0;
}

/* ---- primaries ---- */

static int name_or_literal(struct parser *p, unsigned flags, struct node **ret)
{
    struct tok tok = p->tok;
    struct str s = tok.text;
    struct node *node;

    if (p_next(p) < 0)
        return -1;
    node = p_node(p, N_CONST, tok.line);
    node->col = (uint32_t)(tok.at - p->lx.start);
    *ret = node;
    if (str_is(s, "true") || str_is(s, "True") || str_is(s, "false") || str_is(s, "False")) {
        node->val = JV_OF_BOOL((s.s[0] | 0x20) == 't');
    } else if (str_is(s, "none") || str_is(s, "None")) {
        node->val = JV_OF_NONE;
    } else if (flags & PF_NS && p->tok.type == T_DOT) {
        if (p_next(p) < 0)
            return -1;
        node->kind = N_NSREF;
        node->name = s;
        node->id = name_id(p->c, s);
        node->key = p->tok.text;
        return p_expect(p, T_NAME);
    } else {
        node->kind = N_NAME;
        node->name = s;
        node->id = name_id(p->c, s);
        if (!(flags & PF_SIMPLE))
            p_mention(p, s, false);
    }
    return 0;
}

static int string_literal(struct parser *p, struct node **ret)
{
    struct node *node = p_node(p, N_CONST, p->tok.line);
    struct str s = p->tok.text;

    if (p_next(p) < 0)
        return -1;
    while (p->tok.type == T_STRING) {
        char *joined = arena_alloc(p->r->arena, s.len + p->tok.text.len + 1);

        if (charge(p->r, s.len / 16) < 0)
            return -1;
        memcpy(joined, s.s, s.len);
        memcpy(joined + s.len, p->tok.text.s, p->tok.text.len);
        s = (struct str){joined, s.len + p->tok.text.len};
        if (p_next(p) < 0)
            return -1;
    }
    node->val = jv_str(s);
    *ret = node;
    return 0;
}

static int parse_items(struct parser *p, enum tok_type close, bool pairs, struct node *list)
{
    struct node **tail = &list->a;

    if (p_next(p) < 0)
        return -1;
    while (p->tok.type != close) {
        if (list->n && p_expect(p, T_COMMA) < 0)
            return -1;
        if (p->tok.type == close)
            break;
        if (parse_expression(p, 0, tail) < 0)
            return -1;
        tail = &(*tail)->next;
        if (pairs) {
            if (p_expect(p, T_COLON) < 0 || parse_expression(p, 0, tail) < 0)
                return -1;
            tail = &(*tail)->next;
        }
        list->n++;
    }
    return p_next(p);
}

static int parse_primary(struct parser *p, unsigned flags, struct node **ret)
{
    struct node *node;

    switch (p->tok.type) {
    case T_NAME:
        return name_or_literal(p, flags, ret);
    case T_STRING:
        return string_literal(p, ret);
    case T_INTEGER:
    case T_FLOAT:
        *ret = node = p_node(p, N_CONST, p->tok.line);
        node->val = p->tok.val;
        return p_next(p);
    case T_LPAREN:
        if (p_next(p) < 0 || parse_tuple(p, PF_PARENS, ret) < 0)
            return -1;
        return p_expect(p, T_RPAREN);
    case T_LBRACKET:
        *ret = node = p_node(p, N_LIST, p->tok.line);
        return parse_items(p, T_RBRACKET, false, node);
    case T_LBRACE:
        *ret = node = p_node(p, N_DICT, p->tok.line);
        return parse_items(p, T_RBRACE, true, node);
    default:
        return p_fail(p, p->tok.line, "unexpected '%s'", tok_describe(p->r, &p->tok));
    }
}

/* Jinja2 means to end tuples before `in` and `recursive`, too, but its test for them never holds. */
static bool tuple_ends(const struct parser *p)
{
    return p->tok.type == T_VAR_END || p->tok.type == T_BLOCK_END || p->tok.type == T_RPAREN;
}

int parse_tuple(struct parser *p, unsigned flags, struct node **ret)
{
    uint32_t line = p->tok.line;
    struct node *first = NULL, **tail = &first, *tuple;
    uint32_t n = 0;
    bool is_tuple = false;

    for (;;) {
        if (n && p_expect(p, T_COMMA) < 0)
            return -1;
        if (tuple_ends(p))
            break;
        if ((flags & PF_SIMPLE ? parse_primary(p, flags, tail)
                               : parse_expression(p, flags & PF_NO_COND, tail)) < 0)
            return -1;
        tail = &(*tail)->next;
        n++;
        if (p->tok.type != T_COMMA)
            break;
        is_tuple = true;
        line = p->tok.line;
    }
    if (!is_tuple && n) {
        *ret = first;
        return 0;
    }
    if (!is_tuple && !(flags & PF_PARENS))
        return p_fail(p, p->tok.line, "Expected an expression, got '%s'", tok_describe(p->r, &p->tok));
    *ret = tuple = p_node(p, N_TUPLE, line);
    tuple->a = first;
    tuple->n = n;
    return 0;
}

/* ---- postfixes ---- */

static int slice_part(struct parser *p, struct node **ret)
{
    if (p->tok.type == T_RBRACKET || p->tok.type == T_COMMA || p->tok.type == T_COLON)
        return 0;
    return parse_expression(p, 0, ret);
}

static int parse_subscribed(struct parser *p, struct node **ret)
{
    uint32_t line = p->tok.line;
    struct node *start = NULL, *slice;

    if (p->tok.type != T_COLON) {
        if (parse_expression(p, 0, &start) < 0)
            return -1;
        if (p->tok.type != T_COLON) {
            *ret = start;
            return 0;
        }
    }
    *ret = slice = p_node(p, N_SLICE, line);
    p->slices = true;
    slice->a = start;
    if (p_next(p) < 0 || slice_part(p, &slice->b) < 0)
        return -1;
    if (p->tok.type != T_COLON)
        return 0;
    if (p_next(p) < 0)
        return -1;
    if (p->tok.type == T_COLON)
        return p_fail(p, p->tok.line, "unexpected ':'");
    return slice_part(p, &slice->c);
}

static int parse_bracket(struct parser *p, struct node *item, uint32_t line)
{
    struct node *first = NULL, **tail = &first, *tuple;
    uint32_t n = 0;

    while (p->tok.type != T_RBRACKET) {
        if (n && p_expect(p, T_COMMA) < 0)
            return -1;
        if (parse_subscribed(p, tail) < 0)
            return -1;
        tail = &(*tail)->next;
        n++;
    }
    if (n == 1) {
        item->b = first;
        return p_next(p);
    }
    item->b = tuple = p_node(p, N_TUPLE, line);
    tuple->a = first;
    tuple->n = n;
    return p_next(p);
}

static int parse_subscript(struct parser *p, struct node **node)
{
    struct tok tok = p->tok;
    struct node *outer = p_node(p, N_GETITEM, tok.line), *index;

    outer->a = *node;
    *node = outer;
    if (p_next(p) < 0)
        return -1;
    if (tok.type == T_LBRACKET)
        return parse_bracket(p, outer, tok.line);
    if (p->tok.type == T_NAME) {
        outer->kind = N_GETATTR;
        outer->name = p->tok.text;
        return p_next(p);
    }
    if (p->tok.type != T_INTEGER) {
        uint32_t line = p->tok.line;

        return p_next(p) < 0 ? -1 : p_fail(p, line, "expected name or number");
    }
    outer->b = index = p_node(p, N_CONST, p->tok.line);
    index->val = p->tok.val;
    return p_next(p);
}

static int parse_keyword(struct parser *p, struct node **ret)
{
    struct node *kw = p_node(p, N_KEYWORD, p->tok.line);

    kw->name = p->tok.text;
    *ret = kw;
    if (p_skip_two(p) < 0)
        return -1;
    return parse_expression(p, 0, &kw->a);
}

/* One argument; call->n counts the plain ones, tails are where lists go on. */
static int parse_arg(struct parser *p, struct node *call, struct node ***args, struct node ***kwargs,
                     uint32_t line)
{
    struct tok *ahead;
    bool ok;

    if (p->tok.type == T_MUL) {
        ok = !call->d && !call->e;
        if (!ok)
            return p_fail(p, line, "invalid syntax for function call expression");
        return p_next(p) < 0 ? -1 : parse_expression(p, 0, &call->d);
    }
    if (p->tok.type == T_POW) {
        if (call->e)
            return p_fail(p, line, "invalid syntax for function call expression");
        return p_next(p) < 0 ? -1 : parse_expression(p, 0, &call->e);
    }
    if (p->tok.type == T_NAME) {
        if (p_look(p, &ahead) < 0)
            return -1;
        if (ahead->type == T_ASSIGN) {
            if (call->e)
                return p_fail(p, line, "invalid syntax for function call expression");
            if (parse_keyword(p, *kwargs) < 0)
                return -1;
            *kwargs = &(**kwargs)->next;
            return 0;
        }
    }
    if (call->d || call->e || call->c)
        return p_fail(p, line, "invalid syntax for function call expression");
    if (parse_expression(p, 0, *args) < 0)
        return -1;
    *args = &(**args)->next;
    call->n++;
    return 0;
}

static int parse_call_args(struct parser *p, struct node *call)
{
    struct node **args = &call->b, **kwargs = &call->c;
    uint32_t line = p->tok.line;
    bool first = true;

    if (p_expect(p, T_LPAREN) < 0)
        return -1;
    while (p->tok.type != T_RPAREN) {
        if (!first) {
            if (p_expect(p, T_COMMA) < 0)
                return -1;
            if (p->tok.type == T_RPAREN)
                break;
        }
        first = false;
        if (parse_arg(p, call, &args, &kwargs, line) < 0)
            return -1;
    }
    return p_next(p);
}

static int parse_call(struct parser *p, struct node **node)
{
    struct node *call = p_node(p, N_CALL, p->tok.line);

    call->a = *node;
    *node = call;
    return parse_call_args(p, call);
}

static int parse_postfix(struct parser *p, struct node **node)
{
    for (;;) {
        int failed;

        if (p->tok.type == T_DOT || p->tok.type == T_LBRACKET)
            failed = parse_subscript(p, node);
        else if (p->tok.type == T_LPAREN)
            failed = parse_call(p, node);
        else
            return 0;
        if (failed < 0)
            return -1;
    }
}

/* "name" or "name.name": filters and tests. */
static int dotted_name(struct parser *p, struct str *ret)
{
    *ret = p->tok.text;
    if (p_expect(p, T_NAME) < 0)
        return -1;
    while (p->tok.type == T_DOT) {
        if (p_next(p) < 0)
            return -1;
        *ret = str_from(arena_printf(p->r->arena, "%.*s.%.*s", STR_ARG(*ret), STR_ARG(p->tok.text)));
        if (p_expect(p, T_NAME) < 0)
            return -1;
    }
    return 0;
}

int parse_filters(struct parser *p, struct node *node, bool start_inline, struct node **ret)
{
    while (p->tok.type == T_PIPE || start_inline) {
        struct node *filter;

        if (!start_inline && p_next(p) < 0)
            return -1;
        filter = p_node(p, N_FILTER, p->tok.line);
        filter->a = node;
        if (dotted_name(p, &filter->name) < 0)
            return -1;
        if (p->tok.type == T_LPAREN && parse_call_args(p, filter) < 0)
            return -1;
        node = filter;
        start_inline = false;
    }
    *ret = node;
    return 0;
}

static bool starts_test_arg(const struct tok *tok)
{
    switch (tok->type) {
    case T_NAME:
        return !p_is_name(tok, "else") && !p_is_name(tok, "or") && !p_is_name(tok, "and");
    case T_STRING:
    case T_INTEGER:
    case T_FLOAT:
    case T_LBRACKET:
    case T_LBRACE:
        return true;
    default:
        return false;
    }
}

static int parse_test(struct parser *p, struct node **node)
{
    struct node *test = p_node(p, N_TEST, p->tok.line);
    int negated;

    test->a = *node;
    *node = test;
    if (p_next(p) < 0 || (negated = p_skip_name(p, "not")) < 0 || dotted_name(p, &test->name) < 0)
        return -1;
    if (p->tok.type == T_LPAREN) {
        if (parse_call_args(p, test) < 0)
            return -1;
    } else if (starts_test_arg(&p->tok)) {
        if (p_is_name(&p->tok, "is"))
            return p_fail(p, p->tok.line, "You cannot chain multiple tests with is");
        if (parse_primary(p, 0, &test->b) < 0 || parse_postfix(p, &test->b) < 0)
            return -1;
        test->n = 1;
    }
    if (negated) {
        *node = p_node(p, N_NOT, test->line);
        (*node)->a = test;
    }
    return 0;
}

static int parse_filter_expr(struct parser *p, struct node **node)
{
    for (;;) {
        int failed;

        if (p->tok.type == T_PIPE)
            failed = parse_filters(p, *node, false, node);
        else if (p_is_name(&p->tok, "is"))
            failed = parse_test(p, node);
        else if (p->tok.type == T_LPAREN)
            failed = parse_call(p, node);
        else
            return 0;
        if (failed < 0)
            return -1;
    }
}

/* ---- operators, tightest first ---- */

/* The line at which the expression being parsed starts. */
static uint32_t start_line(const struct parser *p)
{
    return p->operand ? p->operand_line : p->tok.line;
}

static int parse_unary(struct parser *p, bool with_filter, struct node **ret)
{
    enum tok_type type = (enum tok_type)p->tok.type;

    if (p->operand) { /* parse_expression has it already */
        *ret = p->operand;
        p->operand = NULL;
        return 0;
    }
    if (p_enter(p) < 0)
        return -1;
    if (type == T_SUB || type == T_ADD) {
        struct node *node = p_node(p, type == T_SUB ? N_NEG : N_POS, p->tok.line);

        *ret = node;
        if (p_next(p) < 0 || parse_unary(p, false, &node->a) < 0)
            return -1;
    } else if (parse_primary(p, 0, ret) < 0) {
        return -1;
    }
    if (parse_postfix(p, ret) < 0 || (with_filter && parse_filter_expr(p, ret) < 0))
        return -1;
    p->depth--;
    return 0;
}

static int parse_pow(struct parser *p, struct node **ret)
{
    uint32_t line = start_line(p);
    struct node *left, *right = NULL;

    if (parse_unary(p, true, &left) < 0)
        return -1;
    while (p->tok.type == T_POW) {
        if (p_next(p) < 0 || parse_unary(p, true, &right) < 0)
            return -1;
        binary(p, N_BINARY, left, right, line, &left);
        left->op = ARITH_POW;
        line = p->tok.line;
    }
    *ret = left;
    return 0;
}

static int arith_of(enum tok_type type)
{
    switch (type) {
    case T_MUL:
        return ARITH_MUL;
    case T_DIV:
        return ARITH_DIV;
    case T_FLOORDIV:
        return ARITH_FLOORDIV;
    case T_MOD:
        return ARITH_MOD;
    case T_ADD:
        return ARITH_ADD;
    case T_SUB:
        return ARITH_SUB;
    default:
        return -1;
    }
}

static int parse_math2(struct parser *p, struct node **ret)
{
    uint32_t line = start_line(p);
    struct node *left, *right = NULL;

    if (parse_pow(p, &left) < 0)
        return -1;
    while (p->tok.type == T_MUL || p->tok.type == T_DIV || p->tok.type == T_FLOORDIV ||
           p->tok.type == T_MOD) {
        int op = arith_of((enum tok_type)p->tok.type);

        if (p_next(p) < 0 || parse_pow(p, &right) < 0)
            return -1;
        binary(p, N_BINARY, left, right, line, &left);
        left->op = (uint8_t)op;
        line = p->tok.line;
    }
    *ret = left;
    return 0;
}

static int parse_concat(struct parser *p, struct node **ret)
{
    uint32_t line = start_line(p);
    struct node *concat, **tail;

    if (parse_math2(p, ret) < 0)
        return -1;
    if (p->tok.type != T_TILDE)
        return 0;
    concat = p_node(p, N_CONCAT, line);
    concat->a = *ret;
    concat->n = 1;
    tail = &concat->a->next;
    while (p->tok.type == T_TILDE) {
        if (p_next(p) < 0 || parse_math2(p, tail) < 0)
            return -1;
        tail = &(*tail)->next;
        concat->n++;
    }
    *ret = concat;
    return 0;
}

static int parse_math1(struct parser *p, struct node **ret)
{
    uint32_t line = start_line(p);
    struct node *left, *right = NULL;

    if (parse_concat(p, &left) < 0)
        return -1;
    while (p->tok.type == T_ADD || p->tok.type == T_SUB) {
        int op = arith_of((enum tok_type)p->tok.type);

        if (p_next(p) < 0 || parse_concat(p, &right) < 0)
            return -1;
        binary(p, N_BINARY, left, right, line, &left);
        left->op = (uint8_t)op;
        line = p->tok.line;
    }
    *ret = left;
    return 0;
}

/* The opcode of the comparison that starts here, 0 none, -1 raised; moves behind it. */
static int compare_op(struct parser *p)
{
    static const uint8_t ops[] = {
        [T_EQ] = OP_EQ, [T_NE] = OP_NE, [T_GT] = OP_GT, [T_GTEQ] = OP_GE, [T_LT] = OP_LT, [T_LTEQ] = OP_LE};
    struct tok *ahead;

    if (p->tok.type >= T_EQ && p->tok.type <= T_LTEQ) {
        int op = ops[p->tok.type];

        return p_next(p) < 0 ? -1 : op;
    }
    if (p_is_name(&p->tok, "in"))
        return p_next(p) < 0 ? -1 : OP_IN;
    if (p_is_name(&p->tok, "not")) {
        if (p_look(p, &ahead) < 0)
            return -1;
        if (p_is_name(ahead, "in"))
            return p_skip_two(p) < 0 ? -1 : OP_NOTIN;
    }
    return 0;
}

static int parse_compare(struct parser *p, struct node **ret)
{
    uint32_t line = start_line(p);
    struct node *left, *compare = NULL, **tail = NULL;
    int op;

    if (parse_math1(p, &left) < 0)
        return -1;
    while ((op = compare_op(p)) > 0) {
        if (!compare) {
            compare = p_node(p, N_COMPARE, line);
            compare->a = left;
            tail = &compare->b;
        }
        if (parse_math1(p, tail) < 0)
            return -1;
        if ((*tail)->next)
            return raise(p->r, JINJA_SYNTAX_ERROR, "internal error");
        struct node *operand = p_node(p, N_KEYWORD, (*tail)->line);

        operand->op = (uint8_t)op;
        operand->a = *tail;
        *tail = operand;
        tail = &operand->next;
        compare->n++;
        compare->line = p->tok.line;
    }
    *ret = compare ? compare : left;
    return op;
}

static int parse_not(struct parser *p, struct node **ret)
{
    struct node *node;

    if (p->operand || !p_is_name(&p->tok, "not"))
        return parse_compare(p, ret);
    if (p_enter(p) < 0)
        return -1;
    *ret = node = p_node(p, N_NOT, p->tok.line);
    if (p_next(p) < 0 || parse_not(p, &node->a) < 0)
        return -1;
    p->depth--;
    return 0;
}

/* Operands with that word between them, from left to right. */
static int parse_chain(struct parser *p, const char *word, enum node_kind kind,
                       int (*operand)(struct parser *p, struct node **ret), struct node **ret)
{
    uint32_t line = start_line(p);
    struct node *left, *right = NULL;
    int more;

    if (operand(p, &left) < 0)
        return -1;
    while ((more = p_skip_name(p, word)) == 1) {
        if (operand(p, &right) < 0)
            return -1;
        binary(p, kind, left, right, line, &left);
        line = p->tok.line;
    }
    *ret = left;
    return more;
}

static int parse_and(struct parser *p, struct node **ret)
{
    return parse_chain(p, "and", N_AND, parse_not, ret);
}

static int parse_or(struct parser *p, struct node **ret)
{
    return parse_chain(p, "or", N_OR, parse_and, ret);
}

static bool ends_expression(enum tok_type type)
{
    return type == T_VAR_END || type == T_BLOCK_END || type == T_COMMA || type == T_RPAREN ||
           type == T_RBRACKET || type == T_COLON || type == T_RBRACE;
}

/* Most expressions are one operand: that is parsed first, and the operators only where one follows. */
int parse_expression(struct parser *p, unsigned flags, struct node **ret)
{
    uint32_t line = p->tok.line, depth = p->depth;
    int more;

    if (p_enter(p) < 0)
        return -1;
    if (!p_is_name(&p->tok, "not")) {
        if (parse_unary(p, true, ret) < 0)
            return -1;
        if (ends_expression((enum tok_type)p->tok.type)) {
            p->depth = depth;
            return 0;
        }
        p->operand = *ret;
        p->operand_line = line;
    }
    if (parse_or(p, ret) < 0)
        return -1;
    if (flags & PF_NO_COND) {
        p->depth = depth;
        return 0;
    }
    while ((more = p_skip_name(p, "if")) == 1) {
        struct node *cond = p_node(p, N_COND, line);
        int has_else;

        if (p_enter(p) < 0)
            return -1;
        cond->b = *ret;
        if (parse_or(p, &cond->a) < 0 || (has_else = p_skip_name(p, "else")) < 0 ||
            (has_else && parse_expression(p, 0, &cond->c) < 0))
            return -1;
        *ret = cond;
        line = p->tok.line;
    }
    p->depth = depth;
    return more;
}

/* ---- targets ---- */

static int mark_target(struct parser *p, struct node *node)
{
    static const char *const kinds[] = {
        [N_CONST] = "const",     [N_LIST] = "list",       [N_DICT] = "dict",   [N_BINARY] = "add",
        [N_GETATTR] = "getattr", [N_GETITEM] = "getitem", [N_CALL] = "call",   [N_FILTER] = "filter",
        [N_TEST] = "test",       [N_COND] = "condexpr",   [N_NOT] = "not",     [N_NEG] = "neg",
        [N_COMPARE] = "compare", [N_CONCAT] = "concat",   [N_SLICE] = "slice", [N_AND] = "and",
        [N_OR] = "or",           [N_POS] = "pos",         [N_TEXT] = NULL};

    if (node->kind == N_NAME) {
        node->flags |= NF_STORE;
        if (str_is(node->name, "loop") && !p->loop_store_line)
            p->loop_store_line = node->line;
        p_mention(p, node->name, true);
        return 0;
    }
    if (node->kind == N_NSREF) {
        p_mention(p, node->name, false);
        return 0;
    }
    if (node->kind != N_TUPLE)
        return p_fail(p, node->line, "can't assign to '%s'",
                      kinds[node->kind] ? kinds[node->kind] : "expression");
    for (struct node *item = node->a; item; item = item->next)
        if (item->kind != N_NAME && item->kind != N_NSREF && item->kind != N_TUPLE)
            return p_fail(p, node->line, "can't assign to 'tuple'");
        else if (mark_target(p, item) < 0)
            return -1;
    return 0;
}

int parse_target(struct parser *p, unsigned flags, struct node **ret)
{
    if (parse_tuple(p, flags | PF_SIMPLE, ret) < 0)
        return -1;
    return mark_target(p, *ret);
}

int parse_target_name(struct parser *p, struct node **ret)
{
    struct node *node = p_node(p, N_NAME, p->tok.line);

    node->name = p->tok.text;
    *ret = node;
    if (p_expect(p, T_NAME) < 0)
        return -1;
    node->id = name_id(p->c, node->name);
    return mark_target(p, node);
}
