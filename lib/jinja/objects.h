/* objects - what the machine makes besides plain values: contexts, macros, loops, modules, blocks. */
#pragma once

#include "jinja/code.h"
#include "jinja/run.h"

/* Variables of outer contexts, innermost first. */
struct scope_chain {
    struct jdict *vars;
    const struct scope_chain *up;
};

/* The blocks of one name, the most derived first. */
struct block_stack {
    struct str name;
    struct block_entry {
        const struct func *func;
        struct block_entry *next;
    } * first;
    struct block_stack *next;
};

struct ctx {
    const struct scope_chain *parent;
    struct jdict *vars;
    struct jdict *exported;
    struct block_stack *blocks;
    struct unit *units;
    const struct jinja_template *tmpl;
    bool autoescape;
};

/* A template at work in a context. */
struct unit {
    struct ctx *ctx;
    const struct jinja_template *tmpl;
    const struct jinja_template *parent; /* what it extends, once that is known */
    struct jv *cache;                    /* by name: what the context has; JV_MISSING: not looked up */
    struct unit *next;
};

struct jmacro {
    const struct func *func;
    struct frame *frame; /* where it was made */
    bool autoescape;
};

struct jloop {
    struct jiter it;
    struct jv iterable;
    struct jv after, current, before, changed;
    int64_t index0, length; /* length -1: not known yet */
    int64_t depth0;
    const struct func *recurse; /* NULL: not recursive */
    struct frame *frame;
};

struct jmodule {
    struct str name, body;
    struct jdict *exported;
};

struct jblock {
    struct str name;
    struct unit *unit;
    const struct block_entry *at;
};

struct module_cache {
    const struct jinja_template *tmpl;
    struct jmodule *module;
    struct module_cache *next;
};

int64_t loop_length(struct run *r, struct jloop *loop);
int loop_begin(struct run *r, struct jv iterable, struct jv *ret);
int loop_next(struct run *r, struct jloop *loop, struct jv *ret);                  /* as iter_next */
int loop_attr(struct run *r, struct jloop *loop, struct str name, struct jv *ret); /* 1, 0 none, -1 */
struct str module_text(const struct jmodule *module);
int put_object(struct run *r, struct buf *buf, struct jv v); /* repr of what is no plain value */

/* The machine. */
int vm_run(struct run *r, struct frame *frame, struct jv *ret);
int macro_call(struct run *r, struct jmacro *macro, struct call *c, struct jv *ret);
int loop_call(struct run *r, struct jloop *loop, struct jv iterable, struct jv *ret);
int recurse_call(struct run *r, const struct func *func, struct frame *outer, struct jv iterable,
                 int64_t depth, struct jv *ret);
int block_call(struct run *r, struct jblock *block, struct jv *ret);
/* Runs func in a frame of its own; prepared: slots already filled from the front. */
int func_run(struct run *r, const struct func *func, struct unit *unit, struct frame *outer,
             const struct jv *first, uint32_t nfirst, struct jv *ret);

/* Contexts and templates. */
struct unit *unit_of(struct run *r, struct ctx *ctx, const struct jinja_template *tmpl);
struct ctx *ctx_new(struct run *r, const struct jinja_template *tmpl, const struct scope_chain *parent);
struct ctx *ctx_derived(struct run *r, struct ctx *ctx, struct jdict *locals, bool same_blocks);
void ctx_lookup(struct run *r, struct unit *unit, struct str name, struct jv *ret);
int ctx_export(struct run *r, struct unit *unit, struct str name, struct jv v, bool exported, bool discard);
int template_run(struct run *r, struct ctx *ctx, const struct jinja_template *tmpl);
int do_extends(struct run *r, struct unit *unit, struct jv name);
int do_include(struct run *r, struct unit *unit, struct jv name, struct jdict *locals, bool ignore_missing);
int do_import(struct run *r, struct unit *unit, struct jv name, struct jdict *locals, struct jv *ret);
int do_block(struct run *r, struct unit *unit, struct str name, struct jdict *locals, bool required);
struct jv make_super(struct run *r, struct unit *unit, struct str name, const struct func *current);
int self_attr(struct run *r, struct jblock *self, struct str name, struct jv *ret);
int block_attr(struct run *r, struct jblock *block, struct str name, struct jv *ret);
