/* parser_stmt.c - statements: one function each, named in a table by its tag. */
#include "jinja/ast.h"
#include "jinja/unicode.h"

/* The tags that are open, innermost first. */
struct tag_stack {
    struct tag_stack *up;
    struct str tag;
    const char *const *ends; /* tags that would end the body; NULL before it */
};

static int parse_body(struct parser *p, struct node **ret);

/* ---- messages of unknown and missing tags ---- */

static void put_ends(struct buf *buf, const char *const *ends)
{
    for (size_t i = 0; ends[i]; i++)
        buf_printf(buf, "%s'%s'", i ? " or " : "", ends[i]);
}

/* tag NULL: the template has ended. */
static int fail_unknown(struct parser *p, const struct str *tag, uint32_t line)
{
    CLEANUP(buf_done) struct buf text = {0};
    const struct tag_stack *looking = p->tags, *open = p->tags;
    bool known = false;

    while (looking && !looking->ends)
        looking = looking->up;
    for (const struct tag_stack *t = looking; tag && t; t = t->up)
        for (size_t i = 0; t->ends && t->ends[i]; i++)
            known = known || str_is(*tag, t->ends[i]);
    if (tag)
        buf_printf(&text, "Encountered unknown tag '%.*s'.", STR_ARG(*tag));
    else
        buf_puts(&text, "Unexpected end of template.");
    if (looking) {
        buf_puts(&text, known ? " You probably made a nesting mistake. Jinja is expecting this tag, but "
                                "currently looking for "
                              : " Jinja was looking for the following tags: ");
        put_ends(&text, looking->ends);
        buf_putc(&text, '.');
    }
    if (open)
        buf_printf(&text, " The innermost block that needs to be closed is '%.*s'.", STR_ARG(open->tag));
    return p_fail(p, line, "%s", text.data);
}

static bool at_end(const struct parser *p, const char *const *ends)
{
    for (size_t i = 0; ends[i]; i++)
        if (p_is_name(&p->tok, ends[i]))
            return true;
    return false;
}

/* The statements up to one of `ends`, which stays the current token. */
static int parse_statements(struct parser *p, const char *const *ends, struct node **ret)
{
    p->tags->ends = ends;
    if (p->tok.type == T_COLON && p_next(p) < 0)
        return -1;
    if (p_expect(p, T_BLOCK_END) < 0 || parse_body(p, ret) < 0)
        return -1;
    if (p->tok.type == T_EOF)
        return fail_unknown(p, NULL, p->tok.line);
    p->tags->ends = NULL;
    return 0;
}

/* The same, and the end tag is skipped. */
static int parse_until(struct parser *p, const char *end, struct node **ret)
{
    const char *ends[] = {end, NULL};

    if (parse_statements(p, ends, ret) < 0)
        return -1;
    return p_next(p);
}

/* ---- scopes of special names ---- */

struct mention_scope {
    unsigned mentions, stored;
    uint32_t loop_store_line;
};

static struct mention_scope mention_begin(struct parser *p)
{
    struct mention_scope saved = {p->mentions, p->stored, p->loop_store_line};

    p->mentions = p->stored = 0;
    p->loop_store_line = 0;
    return saved;
}

/* What was spoken of inside; joined to what is outside unless `hidden`. */
static unsigned mention_end(struct parser *p, struct mention_scope saved, bool hidden)
{
    unsigned inside = p->mentions;

    p->mentions = saved.mentions | (hidden ? inside & MENTION_SCOPED_BLOCK : inside & ~saved.stored);
    p->stored = saved.stored | (hidden ? 0 : p->stored);
    if (saved.loop_store_line)
        p->loop_store_line = saved.loop_store_line;
    return inside;
}

/* ---- statements ---- */

static int parse_for(struct parser *p, struct node **ret)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    struct node *node = p_node(p, N_FOR, p->tok.line);
    struct mention_scope outer = mention_begin(p), head;
    unsigned in_body;
    int more;

    *ret = node;
    if (p_next(p) < 0 || parse_target(p, 0, &node->a) < 0 || p_expect_name(p, "in") < 0 ||
        parse_tuple(p, PF_NO_COND, &node->b) < 0 || (more = p_skip_name(p, "if")) < 0 ||
        (more && parse_expression(p, 0, &node->e) < 0) || (more = p_skip_name(p, "recursive")) < 0)
        return -1;
    if (more)
        node->flags |= NF_RECURSIVE | NF_EXTENDED;
    head = mention_begin(p);
    if (parse_statements(p, ends, &node->c) < 0)
        return -1;
    in_body = mention_end(p, head, false);
    if (in_body & (MENTION_LOOP | MENTION_SCOPED_BLOCK))
        node->flags |= NF_EXTENDED;
    more = p_is_name(&p->tok, "else");
    if (p_next(p) < 0 || (more && parse_until(p, "endfor", &node->d) < 0))
        return -1;
    node->bad_line = p->loop_store_line;
    (void)mention_end(p, outer, false);
    return 0;
}

static int parse_if(struct parser *p, struct node **ret)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct node *node = p_node(p, N_IF, p->tok.line), **tail = &node->c, *first = node;

    *ret = node;
    if (p_next(p) < 0)
        return -1;
    for (;;) {
        if (parse_tuple(p, PF_NO_COND, &node->a) < 0 || parse_statements(p, ends, &node->b) < 0)
            return -1;
        if (p_is_name(&p->tok, "else"))
            return p_next(p) < 0 ? -1 : parse_until(p, "endif", &first->d);
        if (p_is_name(&p->tok, "endif"))
            return p_next(p);
        if (p_next(p) < 0)
            return -1;
        *tail = node = p_node(p, N_IF, p->tok.line);
        tail = &node->next;
    }
}

static int parse_set(struct parser *p, struct node **ret)
{
    struct node *node = p_node(p, N_SET, p->tok.line);

    *ret = node;
    if (p_next(p) < 0 || parse_target(p, PF_NS, &node->a) < 0)
        return -1;
    if (p->tok.type == T_ASSIGN)
        return p_next(p) < 0 ? -1 : parse_tuple(p, 0, &node->b);
    node->kind = N_SETBLOCK;
    if (parse_filters(p, NULL, false, &node->b) < 0)
        return -1;
    return parse_until(p, "endset", &node->c);
}

static int parse_with(struct parser *p, struct node **ret)
{
    struct node *node = p_node(p, N_WITH, p->tok.line), **targets = &node->a, **values = &node->b;

    *ret = node;
    if (p_next(p) < 0)
        return -1;
    while (p->tok.type != T_BLOCK_END) {
        if (node->n && p_expect(p, T_COMMA) < 0)
            return -1;
        if (parse_target(p, 0, targets) < 0 || p_expect(p, T_ASSIGN) < 0 ||
            parse_expression(p, 0, values) < 0)
            return -1;
        targets = &(*targets)->next;
        values = &(*values)->next;
        node->n++;
    }
    return parse_until(p, "endwith", &node->c);
}

static int parse_autoescape(struct parser *p, struct node **ret)
{
    struct node *node = p_node(p, N_AUTOESCAPE, p->tok.line);

    *ret = node;
    if (p_next(p) < 0 || parse_expression(p, 0, &node->a) < 0)
        return -1;
    return parse_until(p, "endautoescape", &node->c);
}

static bool is_blank(struct str s)
{
    const char *at = s.s, *end = s.s + s.len;

    while (at < end)
        if (!unicode_is(utf8_next(&at, end), UNI_SPACE))
            return false;
    return true;
}

static int check_required(struct parser *p, const struct node *block)
{
    for (const struct node *n = block->c; n; n = n->next) {
        if (n->kind != N_OUTPUT)
            return p_fail(p, p->tok.line, "Required blocks can only contain comments or whitespace");
        for (const struct node *item = n->a; item; item = item->next)
            if (item->kind != N_TEXT || !is_blank(item->name))
                return p_fail(p, p->tok.line, "Required blocks can only contain comments or whitespace");
    }
    return 0;
}

static int parse_block(struct parser *p, struct node **ret)
{
    struct node *node = p_node(p, N_BLOCK, p->tok.line);
    struct mention_scope outer;
    unsigned inside;
    int more;

    *ret = node;
    if (p_next(p) < 0)
        return -1;
    node->name = p->tok.text;
    if (p_expect(p, T_NAME) < 0 || (more = p_skip_name(p, "scoped")) < 0)
        return -1;
    node->flags |= more ? NF_SCOPED : 0;
    if ((more = p_skip_name(p, "required")) < 0)
        return -1;
    node->flags |= more ? NF_REQUIRED : 0;
    if (p->tok.type == T_SUB)
        return p_fail(p, p->tok.line,
                      "Block names in Jinja have to be valid Python identifiers and may not contain hyphens, "
                      "use an underscore instead.");
    outer = mention_begin(p);
    if (parse_until(p, "endblock", &node->c) < 0)
        return -1;
    inside = mention_end(p, outer, true);
    node->flags |= (inside & MENTION_SELF ? NF_SELF : 0) | (inside & MENTION_SUPER ? NF_SUPER : 0);
    if (node->flags & NF_SCOPED)
        p->mentions |= MENTION_SCOPED_BLOCK;
    if (node->flags & NF_REQUIRED && check_required(p, node) < 0)
        return -1;
    if (p->tok.type == T_NAME && str_eq(p->tok.text, node->name))
        return p_next(p);
    return 0;
}

static int parse_extends(struct parser *p, struct node **ret)
{
    struct node *node = p_node(p, N_EXTENDS, p->tok.line);

    *ret = node;
    return p_next(p) < 0 ? -1 : parse_expression(p, 0, &node->a);
}

/* "with context", "without context": 1 taken, 0 not there. */
static int parse_context(struct parser *p, struct node *node)
{
    struct tok *ahead;
    bool with = p_is_name(&p->tok, "with");

    if (!with && !p_is_name(&p->tok, "without"))
        return 0;
    if (p_look(p, &ahead) < 0)
        return -1;
    if (!p_is_name(ahead, "context"))
        return 0;
    node->flags = (uint16_t)((node->flags & ~NF_CONTEXT) | (with ? NF_CONTEXT : 0));
    return p_skip_two(p) < 0 ? -1 : 1;
}

static int parse_include(struct parser *p, struct node **ret)
{
    struct node *node = p_node(p, N_INCLUDE, p->tok.line);
    struct tok *ahead;

    *ret = node;
    node->flags = NF_CONTEXT;
    if (p_next(p) < 0 || parse_expression(p, 0, &node->a) < 0)
        return -1;
    if (p_is_name(&p->tok, "ignore")) {
        if (p_look(p, &ahead) < 0)
            return -1;
        if (p_is_name(ahead, "missing")) {
            node->flags |= NF_IGNORE;
            if (p_skip_two(p) < 0)
                return -1;
        }
    }
    return parse_context(p, node) < 0 ? -1 : 0;
}

static int parse_import(struct parser *p, struct node **ret)
{
    struct node *node = p_node(p, N_IMPORT, p->tok.line), *target;

    *ret = node;
    if (p_next(p) < 0 || parse_expression(p, 0, &node->a) < 0 || p_expect_name(p, "as") < 0 ||
        parse_target_name(p, &target) < 0)
        return -1;
    node->name = target->name;
    return parse_context(p, node) < 0 ? -1 : 0;
}

static int parse_imported(struct parser *p, struct node **ret)
{
    struct node *target, *entry = p_node(p, N_KEYWORD, p->tok.line);
    int more;

    *ret = entry;
    entry->name = entry->key = p->tok.text;
    if (p->tok.text.len && p->tok.text.s[0] == '_') {
        p->err_line = p->tok.line;
        p->err_at = p->tok.at;
        return raise(p->r, JINJA_ASSERTION_ERROR, "names starting with an underline can not be imported");
    }
    if (p_expect(p, T_NAME) < 0 || (more = p_skip_name(p, "as")) < 0)
        return -1;
    if (!more) {
        p_mention(p, entry->name, true);
        return 0;
    }
    if (parse_target_name(p, &target) < 0)
        return -1;
    entry->key = target->name;
    return 0;
}

static int parse_from(struct parser *p, struct node **ret)
{
    struct node *node = p_node(p, N_FROM, p->tok.line), **tail = &node->b;
    int done;

    *ret = node;
    if (p_next(p) < 0 || parse_expression(p, 0, &node->a) < 0 || p_expect_name(p, "import") < 0)
        return -1;
    for (;;) {
        if (node->b && p_expect(p, T_COMMA) < 0)
            return -1;
        if (p->tok.type != T_NAME)
            return p_expect(p, T_NAME);
        if ((done = parse_context(p, node)) != 0)
            return done < 0 ? -1 : 0;
        if (parse_imported(p, tail) < 0)
            return -1;
        tail = &(*tail)->next;
        if ((done = parse_context(p, node)) != 0)
            return done < 0 ? -1 : 0;
        if (p->tok.type != T_COMMA)
            return 0;
    }
}

static int parse_signature(struct parser *p, struct node *node)
{
    struct node **args = &node->a, **defaults = &node->b;

    if (p_expect(p, T_LPAREN) < 0)
        return -1;
    while (p->tok.type != T_RPAREN) {
        uint32_t store_line = p->loop_store_line;

        if (node->n && p_expect(p, T_COMMA) < 0)
            return -1;
        if (parse_target_name(p, args) < 0)
            return -1;
        p->loop_store_line = store_line;
        args = &(*args)->next;
        node->n++;
        if (p->tok.type == T_ASSIGN) {
            if (p_next(p) < 0 || parse_expression(p, 0, defaults) < 0)
                return -1;
            defaults = *defaults ? &(*defaults)->next : defaults;
        } else if (node->b) {
            return p_fail(p, p->tok.line, "non-default argument follows default argument");
        }
    }
    return p_next(p);
}

static int parse_macro_body(struct parser *p, struct node *node, const char *end)
{
    struct mention_scope outer = mention_begin(p);
    unsigned inside;

    if (parse_until(p, end, &node->c) < 0)
        return -1;
    inside = mention_end(p, outer, false);
    node->flags |= (inside & MENTION_CALLER ? NF_CALLER : 0) | (inside & MENTION_KWARGS ? NF_KWARGS : 0) |
                   (inside & MENTION_VARARGS ? NF_VARARGS : 0);
    return 0;
}

static int parse_macro(struct parser *p, struct node **ret)
{
    struct node *node = p_node(p, N_MACRO, p->tok.line), *name;

    *ret = node;
    if (p_next(p) < 0 || parse_target_name(p, &name) < 0 || parse_signature(p, node) < 0)
        return -1;
    node->name = name->name;
    return parse_macro_body(p, node, "endmacro");
}

static int parse_call_block(struct parser *p, struct node **ret)
{
    struct node *node = p_node(p, N_CALLBLOCK, p->tok.line);

    *ret = node;
    if (p_next(p) < 0 || (p->tok.type == T_LPAREN && parse_signature(p, node) < 0) ||
        parse_expression(p, 0, &node->d) < 0)
        return -1;
    if (node->d->kind != N_CALL)
        return p_fail(p, node->line, "expected call");
    return parse_macro_body(p, node, "endcall");
}

static int parse_filter_block(struct parser *p, struct node **ret)
{
    struct node *node = p_node(p, N_FILTERBLOCK, p->tok.line);

    *ret = node;
    if (p_next(p) < 0 || parse_filters(p, NULL, true, &node->a) < 0)
        return -1;
    return parse_until(p, "endfilter", &node->c);
}

static int parse_print(struct parser *p, struct node **ret)
{
    struct node *node = p_node(p, N_OUTPUT, p->tok.line), **tail = &node->a;

    *ret = node;
    if (p_next(p) < 0)
        return -1;
    while (p->tok.type != T_BLOCK_END) {
        if (node->a && p_expect(p, T_COMMA) < 0)
            return -1;
        if (parse_expression(p, 0, tail) < 0)
            return -1;
        tail = *tail ? &(*tail)->next : tail;
    }
    return 0;
}

static int parse_do(struct parser *p, struct node **ret)
{
    struct node *node = p_node(p, N_DO, p->tok.line);

    *ret = node;
    return p_next(p) < 0 ? -1 : parse_tuple(p, 0, &node->a);
}

static int parse_break(struct parser *p, struct node **ret)
{
    *ret = p_node(p, p_is_name(&p->tok, "break") ? N_BREAK : N_CONTINUE, p->tok.line);
    return p_next(p);
}

static const struct {
    const char *tag;
    int (*parse)(struct parser *p, struct node **ret);
    unsigned extension;
} statements[] = {
    {"if", parse_if, 0},
    {"for", parse_for, 0},
    {"set", parse_set, 0},
    {"block", parse_block, 0},
    {"extends", parse_extends, 0},
    {"print", parse_print, 0},
    {"macro", parse_macro, 0},
    {"include", parse_include, 0},
    {"from", parse_from, 0},
    {"import", parse_import, 0},
    {"with", parse_with, 0},
    {"autoescape", parse_autoescape, 0},
    {"call", parse_call_block, 0},
    {"filter", parse_filter_block, 0},
    {"do", parse_do, JINJA_EXT_DO},
    {"break", parse_break, JINJA_EXT_LOOPCONTROLS},
    {"continue", parse_break, JINJA_EXT_LOOPCONTROLS},
};

static int parse_statement(struct parser *p, struct node **ret)
{
    struct tag_stack tag = {p->tags, p->tok.text, NULL};

    if (p->tok.type != T_NAME)
        return p_fail(p, p->tok.line, "tag name expected");
    for (size_t i = 0; i < ARRAY_LEN(statements); i++) {
        if (statements[i].tag[0] != p->tok.text.s[0] || !str_is(p->tok.text, statements[i].tag) ||
            (statements[i].extension && !(p->lx.opt->extensions & statements[i].extension)))
            continue;
        if (p_enter(p) < 0)
            return -1;
        p->tags = &tag; /* cppcheck-suppress autoVariables ; taken back below, or all ends */
        if (statements[i].parse(p, ret) < 0)
            return -1;
        p->tags = tag.up;
        p->depth--;
        return 0;
    }
    return fail_unknown(p, &p->tok.text, p->tok.line);
}

static void add_output(struct parser *p, struct node **output, struct node ***tail, struct node *item)
{
    if (!*output) {
        *output = **tail = p_node(p, N_OUTPUT, item->line);
        (*output)->a = item;
        *tail = &(**tail)->next;
        (*output)->b = item; /* the last */
        return;
    }
    (*output)->b->next = item;
    (*output)->b = item;
}

static int parse_body(struct parser *p, struct node **ret)
{
    struct node *output = NULL, **tail = ret, *item;

    *ret = NULL;
    for (;;) {
        switch (p->tok.type) {
        case T_EOF:
            return 0;
        case T_DATA:
            item = p_node(p, N_TEXT, p->tok.line);
            item->name = p->tok.text;
            add_output(p, &output, &tail, item);
            if (p_next(p) < 0)
                return -1;
            break;
        case T_VAR_BEGIN:
            if (p_next(p) < 0 || parse_tuple(p, 0, &item) < 0 || p_expect(p, T_VAR_END) < 0)
                return -1;
            add_output(p, &output, &tail, item);
            break;
        default:
            output = NULL;
            if (p_next(p) < 0)
                return -1;
            if (p->tags && p->tags->ends && at_end(p, p->tags->ends))
                return 0;
            if (parse_statement(p, tail) < 0)
                return -1;
            tail = *tail ? &(*tail)->next : tail;
            if (p_expect(p, T_BLOCK_END) < 0)
                return -1;
            break;
        }
    }
}

int parse_template(struct parser *p, struct node **ret, unsigned *mentions)
{
    if (p_next(p) < 0 || parse_body(p, ret) < 0)
        return -1;
    *mentions = p->mentions;
    return 0;
}
