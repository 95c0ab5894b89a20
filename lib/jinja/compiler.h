/* compiler - what compile.c (statements), compile_expr.c and symbols.c share. */
#pragma once

#include "base/vec.h"
#include "jinja/ast.h"
#include "jinja/code.h"

enum load_kind { LOAD_PARAM, LOAD_RESOLVE, LOAD_ALIAS, LOAD_UNDEFINED };

struct cscope;

/* A name as a scope knows it; Jinja2's idtracking decides which of these exist. */
struct centry {
    struct centry *shadow; /* the same name further out */
    struct centry *next;   /* in the same scope, in order */
    struct cscope *scope;
    uint32_t name;
    enum load_kind load;
    struct centry *alias;
    uint32_t slot;
    bool stored, in_ctx; /* in_ctx: never stored, so read from the context where it is used */
};

struct cname {
    struct str text;
    struct centry *entry; /* innermost */
    bool needed;
};

struct cinsn {
    struct insn insn;
    uint32_t line, offset;
};

/* A function being compiled. */
/* As vec_push, in the compiler's arena: no malloc of its own, nothing to free. */
#define cvec_reserve(c, vec, n)                                                                              \
    ((vec)->cap >= (n)                                                                                       \
         ? (void)0                                                                                           \
         : (void)((vec)->v = cvec_grow((c), (vec)->v, (vec)->len, &(vec)->cap, (n), sizeof(*(vec)->v))))
#define cvec_push(c, vec, ...) (cvec_reserve(c, vec, (vec)->len + 1), (vec)->v[(vec)->len++] = (__VA_ARGS__))

struct cfunc {
    struct cfunc *outer;
    struct func *func;
    VEC(struct cinsn) code;
    VEC(struct str) slot_names;
    uint32_t depth, max_depth; /* of the operand stack */
    VEC(uint8_t) open;         /* what break has to close: 'i' iterator, 'c' capture */
    struct cloop *loop;
    uint32_t line, offset;
};

struct cloop {
    struct cloop *up;
    uint32_t open; /* cfunc.open without this loop */
    uint32_t next_at;
    VEC(uint32_t) breaks;
};

struct cscope {
    struct cscope *parent;
    struct cfunc *func;
    struct centry *first, *last;
    bool toplevel, rootlevel, soft, check_output, buffered;
    uint8_t escape; /* 0 off, 1 on, 2 by the context */
    struct str block;
};

struct compiler {
    struct run *r;
    struct jinja_template *tmpl;
    struct arena arena; /* of the tree and of scopes */
    struct cscope *scope;
    struct cfunc *func;
    VEC(struct cname) names;
    uint32_t *name_index, name_mask;
    VEC(struct str) needs;
    VEC(struct str) texts;
    VEC(struct jv) consts;
    VEC(struct attr) attrs;
    VEC(struct call_info) calls;
    VEC(const struct native *) natives;
    VEC(struct locals_info) locals;
    VEC(struct func *) funcs;
    VEC(struct node *) blocks;
    VEC(struct func *) block_funcs;
    bool known_extends, exited, have_extends;
    bool slices;  /* there are some */
    bool folding; /* in what Jinja2 evaluates while compiling */
    unsigned extends_so_far;
    uint32_t err_line, err_offset;
};

int c_fail(struct compiler *c, enum jinja_kind kind, uint32_t line, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
#define c_fail(...) (c_fail(__VA_ARGS__), err_minus_one_())

/* Takes n steps of compiling. -1: a limit is reached. */
int compile_step(struct compiler *c, size_t n);

/* emitting */
uint32_t emit(struct compiler *c, enum opcode op, uint32_t a, unsigned b, uint32_t cc, int stack);
void patch(struct compiler *c, uint32_t at); /* the jump at `at` goes here */
uint32_t here(const struct compiler *c);
void set_line(struct compiler *c, const struct node *node);
uint32_t add_const(struct compiler *c, struct jv v);
uint32_t add_str(struct compiler *c, struct str s);
void *cvec_grow(struct compiler *c, const void *v, size_t len, size_t *cap, size_t need, size_t size);
uint32_t add_attr(struct compiler *c, struct str name);
uint32_t add_method(struct compiler *c, struct str name); /* one that is called */
uint32_t add_slot(struct compiler *c, struct str name);

/* names and scopes */
struct cscope *scope_push(struct compiler *c); /* inner() */
void scope_pop(struct compiler *c);
void scope_enter(struct compiler *c); /* emits what the frame's names start with */
void scope_leave(struct compiler *c);
struct centry *declare_param(struct compiler *c, struct str name);
void sym_visit(struct compiler *c, const struct node *node);      /* one node of the frame */
void sym_visit_list(struct compiler *c, const struct node *node); /* and its siblings */
void sym_target_params(struct compiler *c, const struct node *target);
struct centry *find_entry(struct compiler *c, struct str name);
uint32_t add_locals(struct compiler *c);
unsigned hops_to(const struct compiler *c, const struct centry *entry);

/* expressions; all leave one value */
int compile_expr(struct compiler *c, const struct node *node);
int compile_filter_call(struct compiler *c, const struct node *node); /* its value is on the stack */
int compile_call(struct compiler *c, const struct node *node, bool caller);
int compile_store(struct compiler *c, const struct node *target); /* pops the value */
int compile_output(struct compiler *c, const struct node *node);

/* functions and statements */
struct func *compile_func_begin(struct compiler *c, struct cfunc *f, enum func_kind kind, struct str name);
void compile_func_end(struct compiler *c, struct cfunc *f); /* it is the last of c->funcs then */
int compile_statements(struct compiler *c, const struct node *body);
