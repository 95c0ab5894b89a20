/* ast - a template as a tree, from the parser to the compiler. Lives in the compiler's own arena; strings
 * point into the template's source or arena. Lists are linked by `next`. */
#pragma once

#include "jinja/code.h"
#include "jinja/run.h"

enum node_kind {
    /* expressions */
    N_CONST,   /* val */
    N_NAME,    /* name */
    N_NSREF,   /* name . key, as a target */
    N_TUPLE,   /* a: items */
    N_LIST,    /* a: items */
    N_DICT,    /* a: key, value, key, value */
    N_BINARY,  /* a op b; op: enum arith */
    N_AND,     /* a, b */
    N_OR,      /* a, b */
    N_NOT,     /* a */
    N_NEG,     /* a */
    N_POS,     /* a */
    N_COMPARE, /* a, then b: operands with op (enum opcode) */
    N_CONCAT,  /* a: items */
    N_GETATTR, /* a . name */
    N_GETITEM, /* a [b] */
    N_SLICE,   /* a : b : c, each may be NULL */
    N_CALL,    /* a ( b args, c keywords, d *args, e **kwargs ) */
    N_FILTER,  /* a | name ( b, c, d, e ); a NULL: of a block */
    N_TEST,    /* a is name ( b, c, d, e ) */
    N_COND,    /* b if a else c; c NULL */
    N_KEYWORD, /* name = a */
    N_TEXT,    /* name: the text */
    /* statements */
    N_OUTPUT,      /* a: items */
    N_FOR,         /* a target, b iter, c body, d else, e test */
    N_IF,          /* a test, b body, c elif (N_IF), d else */
    N_SET,         /* a target, b value */
    N_SETBLOCK,    /* a target, b filter or NULL, c body */
    N_MACRO,       /* name, a args (N_NAME), b defaults, c body */
    N_CALLBLOCK,   /* the same, and d: the call */
    N_FILTERBLOCK, /* a filter, c body */
    N_WITH,        /* a targets, b values, c body */
    N_BLOCK,       /* name, c body */
    N_EXTENDS,     /* a */
    N_INCLUDE,     /* a */
    N_IMPORT,      /* a, name */
    N_FROM,        /* a, b: N_KEYWORD name, key: alias */
    N_AUTOESCAPE,  /* a, c body */
    N_DO,          /* a */
    N_BREAK,
    N_CONTINUE,
};

enum node_flag {
    NF_RECURSIVE = 1 << 0, /* for */
    NF_EXTENDED = 1 << 1,  /* for: has a loop variable */
    NF_SCOPED = 1 << 2,    /* block */
    NF_REQUIRED = 1 << 3,  /* block */
    NF_CONTEXT = 1 << 4,   /* include, import: with context */
    NF_IGNORE = 1 << 5,    /* include: ignore missing */
    NF_STORE = 1 << 6,     /* name, tuple: a target */
    NF_CALLER = 1 << 7,    /* macro: its body speaks of caller, ... */
    NF_KWARGS = 1 << 8,
    NF_VARARGS = 1 << 9,
    NF_SELF = 1 << 10, /* block: speaks of self, super */
    NF_SUPER = 1 << 11,
};

struct node {
    uint8_t kind, op;
    uint16_t flags;
    uint32_t line, col;
    uint32_t n;        /* items of the list at a, or arguments at b */
    uint32_t bad_line; /* for: where `loop` is assigned to; 0 nowhere */
    uint32_t id;       /* name: its place among the compiler's names */
    struct node *next;
    struct node *a, *b, *c, *d, *e;
    struct str name, key;
    struct jv val;
};

enum tok_type {
    T_EOF,
    T_DATA,
    T_VAR_BEGIN,
    T_VAR_END,
    T_BLOCK_BEGIN,
    T_BLOCK_END,
    T_NAME,
    T_STRING,
    T_INTEGER,
    T_FLOAT,
    T_ADD,
    T_SUB,
    T_DIV,
    T_FLOORDIV,
    T_MUL,
    T_MOD,
    T_POW,
    T_TILDE,
    T_LBRACKET,
    T_RBRACKET,
    T_LPAREN,
    T_RPAREN,
    T_LBRACE,
    T_RBRACE,
    T_EQ,
    T_NE,
    T_GT,
    T_GTEQ,
    T_LT,
    T_LTEQ,
    T_ASSIGN,
    T_DOT,
    T_COLON,
    T_PIPE,
    T_COMMA,
    T_SEMICOLON,
};

struct tok {
    uint8_t type;
    uint32_t line;
    const char *at;  /* in the source */
    struct str text; /* of names, strings (decoded) and data */
    struct jv val;   /* of numbers */
};

#define BALANCE_MAX 1000

struct lexer {
    struct run *r; /* for errors, limits and the template's arena */
    const struct jinja_options *opt;
    const char *start, *at, *end;
    const char *line_start;
    uint32_t line;
    enum { LEX_ROOT, LEX_BLOCK, LEX_VARIABLE, LEX_RAW } state;
    bool line_starting;
    uint32_t balance_len;
    char balance[BALANCE_MAX];
};

void lexer_init(struct lexer *lx, struct run *r, const struct jinja_options *opt, struct str source);
int lexer_next(struct lexer *lx, struct tok *ret); /* -1 raised */
const char *tok_describe(struct run *r, const struct tok *tok);
const char *tok_type_name(enum tok_type type);

/* What a part of the tree speaks of: names with a meaning of their own. */
enum mention {
    MENTION_LOOP = 1,
    MENTION_CALLER = 2,
    MENTION_KWARGS = 4,
    MENTION_VARARGS = 8,
    MENTION_SELF = 16,
    MENTION_SUPER = 32,
    MENTION_SCOPED_BLOCK = 64,
};

struct compiler;
uint32_t name_id(struct compiler *c, struct str name);

struct parser {
    struct compiler *c; /* keeps the names */
    struct lexer lx;
    struct tok tok, ahead;
    bool has_ahead;
    struct run *r;
    struct arena *arena; /* of the tree */
    struct jinja_template *tmpl;
    uint32_t depth;
    struct node *operand; /* parsed, not yet taken by the operators; and the line it starts at */
    uint32_t operand_line;
    unsigned mentions, stored;
    uint32_t loop_store_line;
    bool slices;            /* there are some */
    struct tag_stack *tags; /* open tags and what would end them */
    uint32_t err_line;
    const char *err_at; /* where in the source */
};

/* The statements of the whole template; -1 raised, with err_line and err_at set. */
int parse_template(struct parser *p, struct node **ret, unsigned *mentions);

/* Shared by the parser's two files. */
int p_fail(struct parser *p, uint32_t line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
#define p_fail(...) (p_fail(__VA_ARGS__), err_minus_one_())
int p_next(struct parser *p);
int p_skip_two(struct parser *p);
int p_look(struct parser *p, struct tok **ret);
int p_expect(struct parser *p, enum tok_type type); /* and moves on */
int p_expect_name(struct parser *p, const char *name);
static inline bool p_is_name(const struct tok *tok, const char *name)
{
    return tok->type == T_NAME && tok->text.len == strlen(name) &&
           memcmp(tok->text.s, name, tok->text.len) == 0;
}
int p_skip_name(struct parser *p, const char *name); /* 1 skipped, 0 not there, -1 raised */
int p_enter(struct parser *p);
struct node *p_node(struct parser *p, enum node_kind kind, uint32_t line);
void p_mention(struct parser *p, struct str name, bool store);

enum parse_flag { PF_NO_COND = 1, PF_SIMPLE = 2, PF_PARENS = 4, PF_NS = 8 };
int parse_expression(struct parser *p, unsigned flags, struct node **ret);
int parse_tuple(struct parser *p, unsigned flags, struct node **ret);
int parse_target(struct parser *p, unsigned flags, struct node **ret);
int parse_target_name(struct parser *p, struct node **ret);
int parse_filters(struct parser *p, struct node *node, bool start_inline, struct node **ret);
