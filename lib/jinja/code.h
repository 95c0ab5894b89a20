/* code - a compiled template: functions of instructions for the machine in vm.c. Read-only once made. */
#pragma once

#include "jinja/run.h"

enum opcode {
    OP_END,
    /* output */
    OP_TEXT,         /* a: text */
    OP_OUT,          /* pops; b: 0 as it is, 1 escaped, 2 by the context */
    OP_OUT_CTX,      /* a: name; prints it */
    OP_OUT_CTX_ATTR, /* a: name, c: attr */
    /* values */
    OP_CONST,      /* a: const */
    OP_LOAD,       /* a: slot */
    OP_LOAD_OUTER, /* a: slot, b: functions outwards */
    OP_LOAD_CTX,   /* a: name */
    OP_STORE,      /* a: slot */
    OP_CLEAR,      /* a: slot */
    OP_COPY,       /* a: slot from slot c, b: functions outwards */
    OP_RESOLVE,    /* slot c from the context; a: name */
    OP_EXPORT,     /* slot c to the context; a: name, b: 1 exported, 0 not */
    OP_POP,
    OP_SWAP,
    OP_LIST,    /* a: items */
    OP_TUPLE,   /* a: items */
    OP_DICT,    /* a: pairs */
    OP_GETATTR, /* a: attr */
    OP_GETITEM,
    OP_SLICE,       /* b: 1 a failure is undefined */
    OP_UNDEF_COND,  /* the inline if without else */
    OP_UNDEF_PARAM, /* a: const name */
    /* operators */
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_FLOORDIV,
    OP_MOD,
    OP_POW,
    OP_NEG,
    OP_POS,
    OP_NOT,
    OP_CONCAT, /* a: items, b: markup */
    OP_EQ,
    OP_NE,
    OP_LT,
    OP_LE,
    OP_GT,
    OP_GE,
    OP_IN,
    OP_NOTIN,
    OP_COMPARE_KEEP, /* b: opcode; a b -> b result */
    OP_DEFINED,      /* b: 1 negated */
    /* jumps; a: target */
    OP_JUMP,
    OP_JUMP_FALSE,
    OP_JUMP_FALSE_KEEP, /* or pops */
    OP_JUMP_TRUE_KEEP,
    OP_JUMP_CHILD, /* when an extends has run */
    OP_JUMP_SET,   /* slot c is set */
    /* loops */
    OP_FOR,      /* pops what to iterate, pushes an iterator; b: extended, c: slot of loop */
    OP_FOR_TEST, /* a: function */
    OP_NEXT,     /* pushes an item or pops and jumps to a */
    OP_UNPACK,   /* a: items */
    OP_RECURSE,  /* a: function; pops what to iterate, pushes text */
    /* calls */
    OP_CALL,        /* a: call */
    OP_CALL_METHOD, /* a: call, c: attr */
    OP_FILTER,      /* a: call, c: native */
    OP_TEST,
    OP_NO_FILTER, /* a: const name, b: 1 test */
    OP_MACRO,     /* a: function */
    OP_RETURN,
    /* blocks and templates */
    OP_CAPTURE,
    OP_CAPTURE_END, /* b: 1 markup, 2 by the context */
    OP_NS_CHECK,
    OP_NS_SET,    /* a: const name; pops namespace, value */
    OP_ESCAPE_ON, /* pops; pushes what was */
    OP_ESCAPE_OFF,
    OP_LOCALS, /* a: locals */
    OP_BLOCK,  /* a: const name, b: 1 scoped (pops locals), 2 required */
    OP_EXTENDS,
    OP_EXTENDS_TWICE,
    OP_INCLUDE,     /* b: 1 with context (pops locals), 2 ignore missing */
    OP_IMPORT,      /* b: 1 with context */
    OP_IMPORT_NAME, /* a: const name; keeps the module */
    OP_SELF,
    OP_SUPER, /* a: const name */
};

struct insn {
    uint8_t op, b;
    uint16_t c;
    uint32_t a;
};

enum func_kind { FUNC_ROOT, FUNC_BLOCK, FUNC_MACRO, FUNC_CALLER, FUNC_LOOP, FUNC_TEST };

struct func {
    const struct jinja_template *tmpl;
    enum func_kind kind;
    struct str name;
    struct insn *code;
    uint32_t *lines;   /* beside code: the template's line */
    uint32_t *offsets; /* and the place in its source */
    uint32_t ncode, nslots, nstack;
    struct str *slot_names;
    bool captured; /* functions inside may use its slots later */
    /* macros: arguments are the first slots, then caller, kwargs, varargs as far as used */
    uint32_t nargs;
    struct str *args;
    bool caller, kwargs, varargs, explicit_caller;
};

/* A name after a dot, with the methods of that name looked up. */
struct attr {
    struct str name;
    const struct native *on_str, *on_dict, *on_list;
    bool private_;
};

struct call_info {
    uint32_t npos, nkw;
    struct jv *kwnames;
    bool dyn_args, dyn_kwargs;
};

struct locals_info {
    uint32_t n;
    struct {
        struct str name;
        uint8_t hops;
        bool from_ctx;
        uint32_t slot;
    } * v;
};

struct jinja_template {
    const struct jinja *env;
    struct arena arena;
    struct str name, source;
    struct func **funcs;
    struct func *root;
    struct func **blocks;
    uint32_t nfuncs, nblocks, nnames;
    struct str *texts;
    struct jv *consts;
    struct str *names;
    struct str *needs; /* names it takes from its values or from Jinja2 */
    uint32_t nneeds;
    struct attr *attrs;
    struct call_info *calls;
    const struct native **natives;
    struct locals_info *locals;
    struct jinja_error *error; /* it does not compile; else NULL */
    struct jinja_template *next;
};

/* The name of a local file: the root of all. Fills tmpl; -1 raised, with line and offset of the place. */
int compile_template(struct run *r, struct jinja_template *tmpl, uint32_t *line, const char **at);
