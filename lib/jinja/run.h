/* run - one render: its memory, output, limits, and the error it may end with.
 *
 * What can fail returns -1 (or a value below 0) after raise(). Memory never fails where it is asked for:
 * sizes are checked before, and passing the total stops the render at the next step. */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "jinja/jinja.h"
#include "jinja/value.h"

struct code;
struct unit;

/* A function at work: for the call chain of errors, and for what it captured. */
struct frame {
    struct frame *up;
    struct unit *unit;
    const struct func *func;
    struct jv *slots;
    struct frame *outer; /* the frame of the function around it, for closures */
    const struct insn *pc;
};

struct run {
    const struct jinja *env;
    const struct jinja_options *opt;
    const struct jinja_limits *limits;
    struct arena *arena;
    struct buf *out;
    size_t out_start; /* output before this is the caller's */
    struct jinja_error *err;
    struct frame *frame;
    struct jv *stack, *stack_end; /* room for slots and operands of calls */
    int64_t fuel;                 /* until the next look at the limits */
    int64_t fuel_left;            /* after that */
    int64_t deadline;             /* monotonic ns; 0: not set yet, small renders ask no clock */
    uint32_t wall_ms;
    unsigned depth;
    char *tail, *tail_end; /* the string that can grow in place, and its room */
    struct module_cache *modules;
    struct jlist *missing; /* what was used though undefined, where that is gathered; else NULL */
    struct buf scratch;    /* for text being made; free between uses */
    bool failed, strict;
};

int raise_error(struct run *r, enum jinja_kind kind, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int raise_limit(struct run *r, const char *what);
int raise_undef(struct run *r, struct jv undef);                /* what using it amounts to */
#define raise(...) (raise_error(__VA_ARGS__), err_minus_one_()) /* the C library has a raise() of its own */

int run_refuel(struct run *r);
/* Takes n steps. -1: a limit is reached. */
static inline int charge(struct run *r, size_t n)
{
    r->fuel -= (int64_t)n;
    return r->fuel < 0 ? run_refuel(r) : 0;
}
#define TEXT_STEP 8           /* bytes of text that are a step, where each of them is looked at */
int run_enter(struct run *r); /* one level deeper; -1: too deep */
static inline void run_leave(struct run *r)
{
    r->depth--;
}

void *run_alloc(struct run *r, size_t size);
void *run_zalloc(struct run *r, size_t size);
#define RUN_NEW(r, type) ((type *)run_zalloc((r), sizeof(type)))

/* Room for a string of len bytes; NULL raised LimitError. */
char *run_string(struct run *r, size_t len);
int run_copy(struct run *r, struct str s, struct jv *ret); /* a string value of its own */
int run_concat(struct run *r, struct str a, struct str b, struct jv *ret);
/* Whether n elements, or n bytes of text, may be made. -1 raised LimitError. */
int check_items(struct run *r, int64_t n);
int run_text_fits(struct run *r, int64_t n);

/* Whether a buffer text is written to may grow on: r->scratch, the output, or one of its own. Loops that add
 * to it ask before each element. `bytes` of text are charged. */
int run_room(struct run *r, const struct buf *buf, size_t bytes);

/* Text being made piece by piece: r->scratch from `start` on, so that uses may nest. */
struct text {
    struct run *r;
    size_t start;
};
static inline struct text text_begin(struct run *r)
{
    return (struct text){r, r->scratch.len};
}
int text_end(struct text *t, struct jv *ret); /* the string; -1 too large. Gives the room back */
void text_drop(struct text *t);
static inline struct str text_view(const struct text *t)
{
    return (struct str){t->r->scratch.data ? t->r->scratch.data + t->start : "",
                        t->r->scratch.len - t->start};
}
/* Whether the text is within the limit still; loops that add to it ask now and then. */
int text_check(struct text *t);

/* ---- undefined ---- */

struct jv undef_name(struct str name);                                /* 'x' is undefined */
struct jv undef_member(struct run *r, struct jv obj, struct jv name); /* obj has no attribute name */
struct jv undef_hint(struct run *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline bool undef_is_strict(const struct run *r, struct jv v)
{
    return r->strict && !(v.flags & JV_LAX);
}

/* Using it as if it were empty: 0, or -1 raised in a strict environment. */
int undef_use(struct run *r, struct jv v);

/* ---- printing ---- */

int put_str(struct run *r, struct buf *buf, struct jv v);  /* str(v) */
int put_repr(struct run *r, struct buf *buf, struct jv v); /* repr(v) */
void put_repr_str(struct buf *buf, struct str s);
void put_float(struct buf *buf, double d);
void put_escaped(struct buf *buf, struct str s);             /* & < > ' " */
int to_str(struct run *r, struct jv v, struct jv *ret);      /* str(v); strings stay as they are */
int to_soft_str(struct run *r, struct jv v, struct jv *ret); /* the same, markup stays markup */
int to_escaped(struct run *r, struct jv v, struct jv *ret);  /* markupsafe.escape */
const char *repr_brief(struct run *r, struct jv v);          /* for messages; in the arena */

/* ---- output ---- */

int out_more(struct run *r, const char *s, size_t len);
static inline int out_add(struct run *r, const char *s, size_t len)
{
    struct buf *out = r->out;

    if (out->cap - out->len > len) {
        memcpy(out->data + out->len, s, len);
        out->len += len;
        return 0;
    }
    return out_more(r, s, len);
}

/* ---- iterating ---- */

enum iter_kind {
    ITER_LIST,
    ITER_REVERSED,
    ITER_STR,
    ITER_KEYS,
    ITER_VALUES,
    ITER_ITEMS,
    ITER_RANGE,
    ITER_EMPTY,
    ITER_LAZY, /* next() makes them */
};

struct jiter {
    enum iter_kind kind;
    const char *name; /* Python's type name */
    struct jlist *list;
    struct jdict *dict;
    struct str str;
    int64_t at, left, step;
    uint32_t seen_len; /* of dict, to notice changes */
    int (*next)(struct run *r, struct jiter *it, struct jv *ret);
    struct jv source; /* of lazy ones: what they draw from, once opened */
    struct jiter *inner;
    void *state;
    bool done;
};

/* -1 raised TypeError: cannot be iterated. */
int iter_open(struct run *r, struct jv v, struct jiter **ret);
int iter_init(struct run *r, struct jv v, struct jiter *it);    /* the same, in place */
int iter_next(struct run *r, struct jiter *it, struct jv *ret); /* 1 item, 0 end, -1 raised */
struct jv iter_lazy(struct run *r, const char *name, struct jv source,
                    int (*next)(struct run *, struct jiter *, struct jv *), void *state);
struct jv jv_iter(struct jiter *it);
int iter_list(struct run *r, struct jv v, struct jlist **ret); /* all of it, as a new list */
bool jv_is_iterable(struct jv v);

/* ---- calling ---- */

#define NATIVE_ARGS_MAX 8

struct call {
    struct jv self;
    const struct jv *pos;
    uint32_t npos;
    const struct jv *kwname, *kwval;
    uint32_t nkw;
    const struct native *fn;
    struct jv a[NATIVE_ARGS_MAX]; /* bound: JV_MISSING where not given */
};

/* A function written in C: a filter, a test, a method or a global. */
struct native {
    const char *name;
    int (*fn)(struct run *r, struct call *c, struct jv *ret);
    /* Names of the arguments, "sep maxsplit"; a leading "/" when they can not be named in a call; "*" for
     * functions that look at pos and kw themselves. */
    const char *params;
    uint8_t min; /* so many must be given */
};

int native_call(struct run *r, const struct native *fn, struct call *c, struct jv *ret);
int call_value(struct run *r, struct jv fn, struct call *c, struct jv *ret);
const struct native *native_find(const struct native *table, size_t n, struct str name); /* sorted tables */

const struct native *filter_find(const struct jinja_options *opt, struct str name);
const struct native *test_find(struct str name);
const struct native *global_find(struct str name);
const struct native *method_find(struct jv self, struct str name);
int filter_call(struct run *r, struct str name, struct call *c, struct jv *ret);
int test_call(struct run *r, struct str name, struct call *c, struct jv *ret);

/* ---- attributes and items ---- */

int get_attr(struct run *r, struct jv obj, struct str name, struct jv *ret); /* obj.name */
int get_item(struct run *r, struct jv obj, struct jv key, struct jv *ret);   /* obj[key] */
int get_slice(struct run *r, struct jv obj, struct jv start, struct jv stop, struct jv step, struct jv *ret);
/* obj[key] as Python: 1, 0 no such item (or not subscriptable), -1 raised. */
int item_lookup(struct run *r, struct jv obj, struct jv key, struct jv *ret);
/* Python's attributes alone: 1, 0 none, -1 raised. */
int attr_lookup(struct run *r, struct jv obj, struct str name, struct jv *ret);

/* ---- numbers ---- */

enum arith { ARITH_ADD, ARITH_SUB, ARITH_MUL, ARITH_DIV, ARITH_FLOORDIV, ARITH_MOD, ARITH_POW };
int arith(struct run *r, enum arith op, struct jv a, struct jv b, struct jv *ret);
int num_arith(struct run *r, enum arith op, struct jv a, struct jv b, struct jv *ret); /* of two numbers */
int num_neg(struct run *r, struct jv v, struct jv *ret);
int num_abs(struct run *r, struct jv v, struct jv *ret);
int num_cmp(struct jv a, struct jv b);                        /* -1, 0, 1; 2 with a nan */
bool num_to_double(struct jv v, double *ret);                 /* false: too large */
int num_from_double(struct run *r, double d, struct jv *ret); /* truncated; raises for inf, nan */
/* Whole-string numbers as Python's int(s, base) and float(s). 1, 0 it is none, -1 raised. */
int num_parse_int(struct run *r, struct str s, int base, struct jv *ret);
bool num_parse_float(struct str s, double *ret);
int num_round(struct run *r, struct jv v, struct jv digits, struct jv *ret); /* round(v, digits) */
int put_int(struct run *r, struct buf *buf, struct jv v);                    /* decimal */
int put_int_base(struct run *r, struct buf *buf, struct jv v, unsigned base, bool upper);

/* An index for C: ints and bools; beyond int64 it is clamped. -1 raised TypeError. */
int to_index(struct run *r, struct jv v, int64_t *ret);

/* ---- formatting ---- */

int format_percent(struct run *r, struct jv fmt, struct jv args, struct jv *ret);
int format_method(struct run *r, struct jv fmt, struct call *c, struct jv mapping, struct jv *ret);
int put_format_spec(struct run *r, struct buf *buf, struct jv v, struct str spec);
int put_json(struct run *r, struct buf *buf, struct jv v, const char *indent, bool has_indent,
             bool sort_keys);
int put_pprint(struct run *r, struct buf *buf, struct jv v);
int sort_values(struct run *r, struct jv *items, struct jv *keys, size_t n, bool reverse);
