/* ops.c - + - * / // % ** between values of any types: numbers, and what else Python lets them mean. */
#include "jinja/run.h"
#include "jinja/vm.h"

static const char *const op_names[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};

static int unsupported(struct run *r, enum arith op, struct jv a, struct jv b)
{
    return raise(r, JINJA_TYPE_ERROR, "unsupported operand type(s) for %s: '%s' and '%s'", op_names[op],
                 jv_type_name(a), jv_type_name(b));
}

static int repeat_str(struct run *r, struct jv s, int64_t n, struct jv *ret)
{
    char *to;

    if (n <= 0 || s.len == 0) {
        *ret = JV_LIT("");
        ret->flags = s.flags;
        return 0;
    }
    if (n > INT32_MAX || run_text_fits(r, n * (int64_t)s.len) < 0)
        return run_text_fits(r, INT64_MAX);
    to = run_string(r, (size_t)n * s.len);
    if (!to)
        return -1;
    if (s.len == 1)
        memset(to, *s.s, (size_t)n);
    else
        for (int64_t i = 0; i < n; i++)
            memcpy(to + i * s.len, s.s, s.len);
    *ret = jv_str((struct str){to, (size_t)n * s.len});
    ret->flags = s.flags;
    return 0;
}

static int repeat_list(struct run *r, struct jv v, int64_t n, struct jv *ret)
{
    struct jlist *list;

    n = n < 0 ? 0 : n;
    if (n > INT32_MAX)
        return raise_limit(r, "memory");
    if (check_items(r, n * v.list->len) < 0)
        return -1;
    list_expand(r, v.list);
    list = list_new(r, (size_t)n * v.list->len);
    for (int64_t i = 0; i < n && v.list->len; i++)
        memcpy(list->v + i * v.list->len, v.list->v, v.list->len * sizeof(*list->v));
    list->len = (uint32_t)(n * v.list->len);
    *ret = v.type == JV_LIST ? jv_list(list) : jv_tuple(list);
    return 0;
}

static int multiply(struct run *r, struct jv a, struct jv b, struct jv *ret)
{
    struct jv seq = jv_is_int(b) ? a : b, times = jv_is_int(b) ? b : a;
    int64_t n;

    if (!jv_is_int(times)) {
        if (seq.type == JV_STR || seq.type == JV_LIST || seq.type == JV_TUPLE || times.type == JV_STR ||
            times.type == JV_LIST || times.type == JV_TUPLE)
            return raise(r, JINJA_TYPE_ERROR, "can't multiply sequence by non-int of type '%s'",
                         jv_type_name(a.type == JV_STR || a.type == JV_LIST || a.type == JV_TUPLE ? b : a));
        return unsupported(r, ARITH_MUL, a, b);
    }
    if (to_index(r, times, &n) < 0)
        return -1;
    if (seq.type == JV_STR)
        return repeat_str(r, seq, n, ret);
    if (seq.type == JV_LIST || seq.type == JV_TUPLE)
        return repeat_list(r, seq, n, ret);
    return unsupported(r, ARITH_MUL, a, b);
}

/* With markup on one side the other is escaped. */
static int add_strings(struct run *r, struct jv a, struct jv b, struct jv *ret)
{
    bool markup = jv_is_markup(a) || jv_is_markup(b);

    if (markup && (to_escaped(r, a, &a) < 0 || to_escaped(r, b, &b) < 0))
        return -1;
    if (run_concat(r, jv_view(a), jv_view(b), ret) < 0)
        return -1;
    ret->flags = markup ? JV_MARKUP : 0;
    return 0;
}

static int add_lists(struct run *r, struct jv a, struct jv b, struct jv *ret)
{
    struct jlist *list;

    if (check_items(r, (int64_t)a.list->len + b.list->len) < 0)
        return -1;
    list_expand(r, a.list);
    list_expand(r, b.list);
    list = list_new(r, (size_t)a.list->len + b.list->len);
    if (a.list->len)
        memcpy(list->v, a.list->v, a.list->len * sizeof(*list->v));
    if (b.list->len)
        memcpy(list->v + a.list->len, b.list->v, b.list->len * sizeof(*list->v));
    list->len = a.list->len + b.list->len;
    *ret = a.type == JV_LIST ? jv_list(list) : jv_tuple(list);
    return 0;
}

static int add(struct run *r, struct jv a, struct jv b, struct jv *ret)
{
    if (a.type == JV_STR && b.type == JV_STR)
        return add_strings(r, a, b, ret);
    if (a.type == b.type && (a.type == JV_LIST || a.type == JV_TUPLE))
        return add_lists(r, a, b, ret);
    if (a.type == JV_STR && !jv_is_markup(a))
        return raise(r, JINJA_TYPE_ERROR, "can only concatenate str (not \"%s\") to str", jv_type_name(b));
    if (a.type == JV_LIST || a.type == JV_TUPLE)
        return raise(r, JINJA_TYPE_ERROR, "can only concatenate %s (not \"%s\") to %s", jv_type_name(a),
                     jv_type_name(b), jv_type_name(a));
    return unsupported(r, ARITH_ADD, a, b);
}

static bool is_set_like(struct jv v)
{
    return v.type == JV_VIEW && !(v.flags & JV_VIEW_VALUES);
}

/* keys() - other, items() - other, and the other way round where that is a view. */
static int subtract(struct run *r, struct jv a, struct jv b, struct jv *ret)
{
    struct jdict *set = dict_new(r, 4), *minus = dict_new(r, 4);
    struct jiter it;
    struct jv item, unused;
    int more, in;

    if (iter_init(r, b, &it) < 0)
        return -1;
    while ((more = iter_next(r, &it, &item)) == 1)
        if (charge(r, 1) < 0 || dict_set(r, minus, item, JV_OF_NONE) < 0)
            return -1;
    if (more < 0 || iter_init(r, a, &it) < 0)
        return -1;
    while ((more = iter_next(r, &it, &item)) == 1) {
        in = charge(r, 1) < 0 ? -1 : dict_get(r, minus, item, &unused);
        if (in < 0 || (in == 0 && dict_set(r, set, item, JV_OF_NONE) < 0))
            return -1;
    }
    *ret = (struct jv){.type = JV_VIEW, .flags = JV_SET, .dict = set};
    return more;
}

int arith(struct run *r, enum arith op, struct jv a, struct jv b, struct jv *ret)
{
    if (jv_is_number(a) && jv_is_number(b))
        return num_arith(r, op, a, b, ret);
    if (a.type == JV_STR && op == ARITH_MOD)
        return format_percent(r, a, b, ret);
    if (a.type == JV_UNDEF)
        return raise_undef(r, a);
    if (b.type == JV_UNDEF)
        return raise_undef(r, b);
    if (op == ARITH_ADD)
        return add(r, a, b, ret);
    if (op == ARITH_SUB && (is_set_like(a) || is_set_like(b)) && jv_is_iterable(a) && jv_is_iterable(b))
        return subtract(r, a, b, ret);
    if (op == ARITH_MUL)
        return multiply(r, a, b, ret);
    return unsupported(r, op, a, b);
}

int unary(struct run *r, bool neg, struct jv v, struct jv *ret)
{
    if (v.type == JV_UNDEF)
        return raise_undef(r, v);
    if (!jv_is_number(v))
        return raise(r, JINJA_TYPE_ERROR, "bad operand type for unary %s: '%s'", neg ? "-" : "+",
                     jv_type_name(v));
    if (neg)
        return num_neg(r, v, ret);
    *ret = v.type == JV_BOOL ? JV_OF_INT(v.b) : v;
    return 0;
}
