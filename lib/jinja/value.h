/* value - what template expressions compute with: Python's values in 16 bytes each.
 *
 * Everything a value points at lives in the render's arena, in the compiled template or in the caller's
 * JSON, all of which outlive the render; nothing is freed singly. Strings are views. Lists and dicts of the
 * caller's JSON are wrapped when first touched, their members when they are listed or changed, so the
 * caller's tree never changes. */
#pragma once

#include "base/json.h"

struct run;
struct jlist;
struct jdict;

enum jv_type {
    JV_MISSING, /* no value at all: an unset slot, an argument that was not given */
    JV_UNDEF,
    JV_NONE,
    JV_BOOL,
    JV_INT,
    JV_BIG, /* integers beyond 64 bits, always normalised */
    JV_FLOAT,
    JV_STR,
    JV_LIST,
    JV_TUPLE,
    JV_DICT,
    JV_RANGE,
    JV_VIEW, /* dict.keys(), .values(), .items() */
    JV_ITER, /* generators and other one-shot iterators */
    JV_NS,
    JV_LOOP,
    JV_MACRO,
    JV_METHOD, /* bound */
    JV_FUNC,   /* a global function */
    JV_CYCLER,
    JV_JOINER,
    JV_MODULE,
    JV_SELF,
    JV_BLOCK,
    JV_BYTES,
};

enum jv_flag {
    JV_MARKUP = 1, /* JV_STR: safe for HTML */
    JV_GROUP = 2,  /* JV_TUPLE: of groupby, with names */
    JV_NAMED = 4,  /* JV_UNDEF: s, len is the name; else undef */
    JV_LAX = 8,    /* JV_UNDEF: the plain kind, also in a strict environment */
    JV_VIEW_VALUES = 16,
    JV_VIEW_ITEMS = 32,
    JV_SET = 64, /* JV_VIEW: a set of its own, what keys() - other gives */
};

struct jv {
    uint8_t type;
    uint8_t flags;
    uint32_t len; /* bytes of JV_STR, JV_BYTES */
    union {
        bool b;
        int64_t i;
        double d;
        const char *s;
        const struct big *big;
        struct jlist *list; /* JV_LIST, JV_TUPLE */
        struct jdict *dict; /* JV_DICT, JV_VIEW, JV_NS */
        struct jundef *undef;
        struct jrange *range;
        struct jiter *iter;
        struct jloop *loop;
        struct jmacro *macro;
        struct jmethod *method;
        const struct native *func;
        struct jcycler *cycler;
        struct jjoiner *joiner;
        struct jmodule *module;
        struct jblock *block; /* JV_BLOCK, JV_SELF */
    };
};

struct jlist {
    struct jv *v;
    uint32_t len, cap;
    const struct json *src; /* not looked into yet */
};

struct jentry {
    struct jv key, value;
};

struct jdict {
    struct jentry *v;
    uint32_t len, cap;
    uint32_t *index; /* 1 + place in v, open addressing; NULL while small */
    uint32_t mask;
    const struct json *src; /* not looked into yet; len is right all the same */
};

enum undef_kind { UNDEF_ERROR, UNDEF_SECURITY, UNDEF_TYPE /* what using it raises */ };

struct jundef {
    struct str hint; /* "" none */
    struct jv obj;   /* JV_MISSING: none */
    struct jv name;
    enum undef_kind kind;
};

struct jrange {
    int64_t start, stop, step;
    int64_t len;
};

struct jmethod {
    struct jv self;
    const struct native *fn;
};

struct jcycler {
    struct jlist *items;
    uint32_t pos;
};

struct jjoiner {
    struct jv sep;
    bool used;
};

/* ---- making ---- */

#define JV_NULL       ((struct jv){.type = JV_MISSING})
#define JV_OF_NONE    ((struct jv){.type = JV_NONE})
#define JV_OF_BOOL(x) ((struct jv){.type = JV_BOOL, .b = (x)})
#define JV_OF_INT(x)  ((struct jv){.type = JV_INT, .i = (x)})
#define JV_OF_REAL(x) ((struct jv){.type = JV_FLOAT, .d = (x)})

static inline struct jv jv_str(struct str s)
{
    return (struct jv){.type = JV_STR, .len = (uint32_t)s.len, .s = s.s};
}
static inline size_t jv_text_len(struct jv v)
{
    return v.type == JV_STR || v.type == JV_BYTES ? v.len : 0;
}
static inline struct str jv_view(struct jv v) /* of a string */
{
    return (struct str){v.s, v.len};
}
#define JV_LIT(literal) jv_str(STR(literal))

struct jv jv_from_json(struct run *r, const struct json *json);
struct jlist *list_new(struct run *r, size_t cap);
void list_push(struct run *r, struct jlist *list, struct jv v);
void list_expand(struct run *r, struct jlist *list); /* makes v readable */
struct jv jv_list(struct jlist *list);
struct jv jv_tuple(struct jlist *list);
struct jv jv_pair(struct run *r, struct jv a, struct jv b); /* a tuple */

struct jdict *dict_new(struct run *r, size_t cap);
void dict_expand(struct run *r, struct jdict *dict);
/* 1 found, 0 not there, -1 raised (a key that cannot be hashed). */
int dict_get(struct run *r, struct jdict *dict, struct jv key, struct jv *ret);
bool dict_get_str(struct run *r, struct jdict *dict, struct str key, struct jv *ret);
int dict_set(struct run *r, struct jdict *dict, struct jv key, struct jv value); /* -1 raised */
int dict_del(struct run *r, struct jdict *dict, struct jv key, struct jv *ret);  /* as dict_get */
void dict_del_at(struct run *r, struct jdict *dict, uint32_t at);
void dict_clear(struct jdict *dict);
struct jdict *dict_copy(struct run *r, struct jdict *dict);
struct jv jv_dict(struct jdict *dict);

/* ---- asking ---- */

static inline bool jv_is_int(struct jv v) /* as Python: bool is one */
{
    return v.type == JV_INT || v.type == JV_BOOL || v.type == JV_BIG;
}
static inline bool jv_is_number(struct jv v)
{
    return jv_is_int(v) || v.type == JV_FLOAT;
}
static inline bool jv_is_markup(struct jv v)
{
    return v.type == JV_STR && (v.flags & JV_MARKUP) != 0;
}
/* The int64 of a bool or int. */
static inline int64_t jv_small(struct jv v)
{
    return v.type == JV_BOOL ? v.b : v.i;
}
const char *jv_type_name(struct jv v); /* Python's: "int", "dict" */
/* "int object", "None", "jinja2.utils.Namespace object": as Jinja2 names it in messages. */
const char *jv_object_name(struct jv v);

int jv_truth(struct run *r, struct jv v);           /* 1, 0, -1 raised */
int jv_eq(struct run *r, struct jv a, struct jv b); /* 1, 0, -1 raised */
bool jv_same(struct jv a, struct jv b);             /* Python's `is` */
/* Whether `a op b`; op is "<", "<=", ">" or ">=". -1 raised. */
enum jv_cmp { CMP_LT, CMP_LE, CMP_GT, CMP_GE };
int jv_cmp(struct run *r, struct jv a, struct jv b, enum jv_cmp op);
int jv_contains(struct run *r, struct jv seq, struct jv item); /* item in seq */
/* Characters or items; -1 raised TypeError. */
int64_t jv_len(struct run *r, struct jv v);
int jv_hash(struct run *r, struct jv v, uint64_t *ret);
