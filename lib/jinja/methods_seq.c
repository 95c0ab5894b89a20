/* methods_seq.c - methods of lists, tuples, dicts, numbers and the rest, and the global functions. */
#include "jinja/bigint.h"
#include "jinja/methods.h"
#include "jinja/unicode.h"

#include <math.h>

/* ---- lists ---- */

static int list_append(struct run *r, struct call *c, struct jv *ret)
{
    if (check_items(r, 1) < 0)
        return -1;
    list_push(r, c->self.list, c->a[0]);
    *ret = JV_OF_NONE;
    return 0;
}

static int list_clear(struct run *r, struct call *c, struct jv *ret)
{
    (void)r;
    c->self.list->len = 0;
    c->self.list->src = NULL;
    *ret = JV_OF_NONE;
    return 0;
}

static int list_copy(struct run *r, struct call *c, struct jv *ret)
{
    struct jlist *copy;

    if (iter_list(r, c->self, &copy) < 0)
        return -1;
    *ret = jv_list(copy);
    return 0;
}

static int seq_count(struct run *r, struct call *c, struct jv *ret)
{
    struct jlist *list = c->self.list;
    int64_t n = 0;

    list_expand(r, list);
    for (uint32_t i = 0; i < list->len; i++) {
        int same = jv_same(list->v[i], c->a[0]) ? 1 : jv_eq(r, list->v[i], c->a[0]);

        if (same < 0 || charge(r, 1) < 0)
            return -1;
        n += same;
    }
    *ret = JV_OF_INT(n);
    return 0;
}

static int list_extend(struct run *r, struct call *c, struct jv *ret)
{
    struct jlist *more;

    if (iter_list(r, c->a[0], &more) < 0)
        return -1;
    for (uint32_t i = 0; i < more->len; i++)
        list_push(r, c->self.list, more->v[i]);
    *ret = JV_OF_NONE;
    return 0;
}

static int seq_index(struct run *r, struct call *c, struct jv *ret)
{
    struct jlist *list = c->self.list;
    int64_t start, stop;

    if (arg_int(r, c, 1, 0, &start) < 0 || arg_int(r, c, 2, INT64_MAX / 4, &stop) < 0)
        return -1;
    list_expand(r, list);
    start = start < 0 ? (start + list->len < 0 ? 0 : start + list->len) : start;
    stop = stop < 0 ? stop + list->len : stop;
    for (int64_t i = start; i < list->len && i < stop; i++) {
        int same = jv_same(list->v[i], c->a[0]) ? 1 : jv_eq(r, list->v[i], c->a[0]);

        if (same < 0 || charge(r, 1) < 0)
            return -1;
        if (same) {
            *ret = JV_OF_INT(i);
            return 0;
        }
    }
    if (c->self.type == JV_TUPLE)
        return raise(r, JINJA_VALUE_ERROR, "tuple.index(x): x not in tuple");
    return raise(r, JINJA_VALUE_ERROR, "%s is not in list", repr_brief(r, c->a[0]));
}

static int list_insert(struct run *r, struct call *c, struct jv *ret)
{
    struct jlist *list = c->self.list;
    int64_t at;

    if (arg_int(r, c, 0, 0, &at) < 0 || check_items(r, 1 + list->len / 16) < 0)
        return -1;
    at = at < 0 ? (at + list->len < 0 ? 0 : at + list->len) : at > list->len ? list->len : at;
    list_push(r, list, JV_OF_NONE);
    memmove(&list->v[at + 1], &list->v[at], (list->len - 1 - (size_t)at) * sizeof(*list->v));
    list->v[at] = c->a[1];
    *ret = JV_OF_NONE;
    return 0;
}

static void remove_at(struct jlist *list, int64_t at)
{
    memmove(&list->v[at], &list->v[at + 1], (list->len - 1 - (size_t)at) * sizeof(*list->v));
    list->len--;
}

static int list_pop(struct run *r, struct call *c, struct jv *ret)
{
    struct jlist *list = c->self.list;
    int64_t at;

    if (arg_int(r, c, 0, -1, &at) < 0)
        return -1;
    if (list->len == 0)
        return raise(r, JINJA_INDEX_ERROR, "pop from empty list");
    at = at < 0 ? at + list->len : at;
    if (at < 0 || at >= list->len)
        return raise(r, JINJA_INDEX_ERROR, "pop index out of range");
    list_expand(r, list);
    *ret = list->v[at];
    remove_at(list, at);
    return 0;
}

static int list_remove(struct run *r, struct call *c, struct jv *ret)
{
    struct jv at;

    c->a[1] = c->a[2] = JV_NULL;
    if (seq_index(r, c, &at) < 0)
        return -1;
    remove_at(c->self.list, at.i);
    *ret = JV_OF_NONE;
    return 0;
}

static int list_reverse(struct run *r, struct call *c, struct jv *ret)
{
    struct jlist *list = c->self.list;

    list_expand(r, list);
    for (uint32_t i = 0, j = list->len; i + 1 < j; i++, j--) {
        struct jv v = list->v[i];

        list->v[i] = list->v[j - 1];
        list->v[j - 1] = v;
    }
    *ret = JV_OF_NONE;
    return charge(r, list->len);
}

static int list_sort(struct run *r, struct call *c, struct jv *ret)
{
    struct jlist *list = c->self.list, *keys;
    bool reverse;

    if (c->npos)
        return raise(r, JINJA_TYPE_ERROR, "sort() takes no positional arguments");
    if (arg_bool(r, c, 1, false, &reverse) < 0)
        return -1;
    list_expand(r, list);
    if (iter_list(r, c->self, &keys) < 0)
        return -1;
    if (c->a[0].type != JV_MISSING && c->a[0].type != JV_NONE)
        for (uint32_t i = 0; i < keys->len; i++) {
            struct jv item = keys->v[i];
            struct call one = {.pos = &item, .npos = 1};

            if (call_value(r, c->a[0], &one, &keys->v[i]) < 0)
                return -1;
        }
    if (list->len != keys->len) /* by the key, which may be a macro */
        return raise_error(r, JINJA_VALUE_ERROR, "list modified during sort");
    *ret = JV_OF_NONE;
    return sort_values(r, list->v, keys->v, list->len, reverse);
}

const struct native list_methods[] = {
    {"append", list_append, "/object", 1},
    {"clear", list_clear, "", 0},
    {"copy", list_copy, "", 0},
    {"count", seq_count, "/value", 1},
    {"extend", list_extend, "/iterable", 1},
    {"index", seq_index, "/value start stop", 1},
    {"insert", list_insert, "/index object", 2},
    {"pop", list_pop, "/index", 0},
    {"remove", list_remove, "/value", 1},
    {"reverse", list_reverse, "", 0},
    {"sort", list_sort, "key reverse", 0},
};
const size_t list_methods_len = ARRAY_LEN(list_methods);

const struct native tuple_methods[] = {{"count", seq_count, "/value", 1},
                                       {"index", seq_index, "/value start stop", 1}};
const size_t tuple_methods_len = ARRAY_LEN(tuple_methods);

/* ---- dicts ---- */

static int dict_clear_method(struct run *r, struct call *c, struct jv *ret)
{
    (void)r;
    dict_clear(c->self.dict);
    *ret = JV_OF_NONE;
    return 0;
}

static int dict_copy_method(struct run *r, struct call *c, struct jv *ret)
{
    *ret = jv_dict(dict_copy(r, c->self.dict));
    return charge(r, c->self.dict->len);
}

static int dict_fromkeys(struct run *r, struct call *c, struct jv *ret)
{
    struct jdict *dict = dict_new(r, 4);
    struct jiter it;
    struct jv key;
    int more;

    if (iter_init(r, c->a[0], &it) < 0)
        return -1;
    while ((more = iter_next(r, &it, &key)) == 1)
        if (charge(r, 1) < 0 || dict_set(r, dict, key, c->a[1].type == JV_MISSING ? JV_OF_NONE : c->a[1]) < 0)
            return -1;
    *ret = jv_dict(dict);
    return more;
}

static int dict_get_method(struct run *r, struct call *c, struct jv *ret)
{
    int found = dict_get(r, c->self.dict, c->a[0], ret);

    if (found == 0)
        *ret = c->a[1].type == JV_MISSING ? JV_OF_NONE : c->a[1];
    return found < 0 ? -1 : 0;
}

static int dict_view(struct run *r, struct call *c, struct jv *ret)
{
    (void)r;
    *ret = (struct jv){.type = JV_VIEW, .dict = c->self.dict};
    ret->flags = c->fn->name[0] == 'i' ? JV_VIEW_ITEMS : c->fn->name[0] == 'v' ? JV_VIEW_VALUES : 0;
    return 0;
}

static int dict_pop(struct run *r, struct call *c, struct jv *ret)
{
    int found = dict_del(r, c->self.dict, c->a[0], ret);

    if (found < 0)
        return -1;
    if (found == 0 && c->a[1].type == JV_MISSING)
        return raise(r, JINJA_KEY_ERROR, "%s", repr_brief(r, c->a[0]));
    if (found == 0)
        *ret = c->a[1];
    return 0;
}

static int dict_popitem(struct run *r, struct call *c, struct jv *ret)
{
    struct jdict *dict = c->self.dict;

    if (dict->len == 0)
        return raise(r, JINJA_KEY_ERROR, "'popitem(): dictionary is empty'");
    dict_expand(r, dict);
    *ret = jv_pair(r, dict->v[dict->len - 1].key, dict->v[dict->len - 1].value);
    dict_del_at(r, dict, dict->len - 1);
    return 0;
}

static int dict_setdefault(struct run *r, struct call *c, struct jv *ret)
{
    int found = dict_get(r, c->self.dict, c->a[0], ret);

    if (found != 0)
        return found < 0 ? -1 : 0;
    *ret = c->a[1].type == JV_MISSING ? JV_OF_NONE : c->a[1];
    return dict_set(r, c->self.dict, c->a[0], *ret);
}

static int update_pairs(struct run *r, struct jdict *dict, struct jv pairs)
{
    struct jiter it;
    struct jlist *pair;
    struct jv item;
    int more, at = 0;

    if (iter_init(r, pairs, &it) < 0)
        return -1;
    while ((more = iter_next(r, &it, &item)) == 1) {
        if (!jv_is_iterable(item))
            return raise(r, JINJA_TYPE_ERROR,
                         "cannot convert dictionary update sequence element #%d to a sequence", at);
        if (iter_list(r, item, &pair) < 0)
            return -1;
        if (pair->len != 2)
            return raise(r, JINJA_VALUE_ERROR,
                         "dictionary update sequence element #%d has length %u; 2 is required", at,
                         pair->len);
        if (dict_set(r, dict, pair->v[0], pair->v[1]) < 0)
            return -1;
        at++;
    }
    return more;
}

static int update_dict(struct run *r, struct jdict *dict, struct jdict *from)
{
    dict_expand(r, from);
    for (uint32_t i = 0; i < from->len; i++)
        if (charge(r, 1) < 0 || dict_set(r, dict, from->v[i].key, from->v[i].value) < 0)
            return -1;
    return 0;
}

int dict_update(struct run *r, struct jdict *dict, struct call *c, const char *what)
{
    if (c->npos > 1)
        return raise(r, JINJA_TYPE_ERROR, "%s expected at most 1 argument, got %u", what, c->npos);
    if (c->npos && c->pos[0].type == JV_UNDEF)
        return raise_undef(r, c->pos[0]);
    if (c->npos && c->pos[0].type == JV_DICT) {
        if (update_dict(r, dict, c->pos[0].dict) < 0)
            return -1;
    } else if (c->npos && update_pairs(r, dict, c->pos[0]) < 0) {
        return -1;
    }
    for (uint32_t i = 0; i < c->nkw; i++)
        if (charge(r, 1) < 0 || dict_set(r, dict, c->kwname[i], c->kwval[i]) < 0)
            return -1;
    return 0;
}

static int dict_update_method(struct run *r, struct call *c, struct jv *ret)
{
    *ret = JV_OF_NONE;
    return dict_update(r, c->self.dict, c, "update");
}

const struct native dict_methods[] = {
    {"clear", dict_clear_method, "", 0},
    {"copy", dict_copy_method, "", 0},
    {"fromkeys", dict_fromkeys, "/iterable value", 1},
    {"get", dict_get_method, "/key default", 1},
    {"items", dict_view, "", 0},
    {"keys", dict_view, "", 0},
    {"pop", dict_pop, "/key default", 1},
    {"popitem", dict_popitem, "", 0},
    {"setdefault", dict_setdefault, "/key default", 1},
    {"update", dict_update_method, "*", 0},
    {"values", dict_view, "", 0},
};
const size_t dict_methods_len = ARRAY_LEN(dict_methods);

static int view_isdisjoint(struct run *r, struct call *c, struct jv *ret)
{
    struct jiter it;
    struct jv item;
    int more = 0, in = 0;

    if (iter_init(r, c->a[0], &it) < 0)
        return -1;
    while (in == 0 && (more = iter_next(r, &it, &item)) == 1)
        in = charge(r, 1) < 0 ? -1 : jv_contains(r, c->self, item);
    *ret = JV_OF_BOOL(in == 0);
    return in < 0 || more < 0 ? -1 : 0;
}

const struct native view_methods[] = {{"isdisjoint", view_isdisjoint, "/other", 1}};
const size_t view_methods_len = ARRAY_LEN(view_methods);

/* ---- numbers ---- */

static int int_bit_length(struct run *r, struct call *c, struct jv *ret)
{
    (void)r;
    *ret = JV_OF_INT(big_bit_length(c->self));
    return 0;
}

static int int_bit_count(struct run *r, struct call *c, struct jv *ret)
{
    (void)r;
    *ret = JV_OF_INT(big_bit_count(c->self));
    return 0;
}

static int int_self(struct run *r, struct call *c, struct jv *ret)
{
    (void)r;
    *ret = c->self.type == JV_BOOL ? JV_OF_INT(c->self.b) : c->self;
    return 0;
}

static int int_ratio(struct run *r, struct call *c, struct jv *ret)
{
    if (int_self(r, c, ret) < 0)
        return -1;
    *ret = jv_pair(r, *ret, JV_OF_INT(1));
    return 0;
}

const struct native int_methods[] = {
    {"as_integer_ratio", int_ratio, "", 0},
    {"bit_count", int_bit_count, "", 0},
    {"bit_length", int_bit_length, "", 0},
    {"conjugate", int_self, "", 0},
};
const size_t int_methods_len = ARRAY_LEN(int_methods);

static int float_is_integer(struct run *r, struct call *c, struct jv *ret)
{
    (void)r;
    *ret = JV_OF_BOOL(isfinite(c->self.d) && floor(c->self.d) == c->self.d);
    return 0;
}

static int float_hex(struct run *r, struct call *c, struct jv *ret)
{
    struct text t = text_begin(r);
    double d = c->self.d;
    uint64_t bits;
    int exponent;

    memcpy(&bits, &d, sizeof(bits));
    if (!isfinite(d)) {
        put_float(&r->scratch, d);
    } else {
        exponent = (int)(bits >> 52 & 0x7ff);
        buf_printf(&r->scratch, "%s0x%d.%013llxp%+d", signbit(d) ? "-" : "", exponent != 0,
                   (unsigned long long)(bits & ((UINT64_C(1) << 52) - 1)),
                   d == 0     ? 0
                   : exponent ? exponent - 1023
                              : -1022);
        if (d == 0) {
            r->scratch.len = t.start;
            buf_puts(&r->scratch, signbit(d) ? "-0x0.0p+0" : "0x0.0p+0");
        }
    }
    return text_end(&t, ret);
}

static int float_ratio(struct run *r, struct call *c, struct jv *ret)
{
    struct jv num, den = JV_OF_INT(1);
    double d = c->self.d;

    if (!isfinite(d))
        return raise(r, isnan(d) ? JINJA_VALUE_ERROR : JINJA_OVERFLOW_ERROR,
                     "cannot convert %s to integer ratio", isnan(d) ? "NaN" : "Infinity");
    while (floor(d) != d) {
        d *= 2;
        if (num_arith(r, ARITH_MUL, den, JV_OF_INT(2), &den) < 0)
            return -1;
    }
    if (num_from_double(r, d, &num) < 0)
        return -1;
    *ret = jv_pair(r, num, den);
    return 0;
}

const struct native float_methods[] = {
    {"as_integer_ratio", float_ratio, "", 0},
    {"conjugate", int_self, "", 0},
    {"hex", float_hex, "", 0},
    {"is_integer", float_is_integer, "", 0},
};
const size_t float_methods_len = ARRAY_LEN(float_methods);

/* ---- range, cycler, bytes ---- */

static int range_count(struct run *r, struct call *c, struct jv *ret)
{
    int in = jv_contains(r, c->self, c->a[0]);

    *ret = JV_OF_INT(in > 0);
    return in < 0 ? -1 : 0;
}

static int range_index(struct run *r, struct call *c, struct jv *ret)
{
    int in = jv_contains(r, c->self, c->a[0]);

    if (in == 0)
        return raise(r, JINJA_VALUE_ERROR, "%s is not in range", repr_brief(r, c->a[0]));
    if (in > 0)
        *ret = JV_OF_INT(
            ((c->a[0].type == JV_FLOAT ? (int64_t)c->a[0].d : jv_small(c->a[0])) - c->self.range->start) /
            c->self.range->step);
    return in < 0 ? -1 : 0;
}

const struct native range_methods[] = {{"count", range_count, "/value", 1},
                                       {"index", range_index, "/value", 1}};
const size_t range_methods_len = ARRAY_LEN(range_methods);

static int cycler_next(struct run *r, struct call *c, struct jv *ret)
{
    struct jcycler *cycler = c->self.cycler;

    (void)r;
    *ret = cycler->items->v[cycler->pos];
    cycler->pos = (cycler->pos + 1) % cycler->items->len;
    return 0;
}

static int cycler_reset(struct run *r, struct call *c, struct jv *ret)
{
    (void)r;
    c->self.cycler->pos = 0;
    *ret = JV_OF_NONE;
    return 0;
}

const struct native cycler_methods[] = {{"next", cycler_next, "", 0}, {"reset", cycler_reset, "", 0}};
const size_t cycler_methods_len = ARRAY_LEN(cycler_methods);

static int bytes_decode(struct run *r, struct call *c, struct jv *ret)
{
    (void)r;
    *ret = jv_str(jv_view(c->self));
    return 0;
}

const struct native bytes_methods[] = {{"decode", bytes_decode, "encoding errors", 0}};
const size_t bytes_methods_len = ARRAY_LEN(bytes_methods);

const struct native *method_find(struct jv self, struct str name)
{
    const struct native *fn = NULL;

    switch (self.type) {
    case JV_STR:
        if (self.flags & JV_MARKUP)
            fn = native_find(markup_methods, markup_methods_len, name);
        return fn ? fn : native_find(str_methods, str_methods_len, name);
    case JV_LIST:
        return native_find(list_methods, list_methods_len, name);
    case JV_TUPLE:
        return native_find(tuple_methods, tuple_methods_len, name);
    case JV_DICT:
        return native_find(dict_methods, dict_methods_len, name);
    case JV_BOOL:
    case JV_INT:
    case JV_BIG:
        return native_find(int_methods, int_methods_len, name);
    case JV_FLOAT:
        return native_find(float_methods, float_methods_len, name);
    case JV_VIEW:
        return self.flags & JV_VIEW_VALUES ? NULL : native_find(view_methods, view_methods_len, name);
    case JV_RANGE:
        return native_find(range_methods, range_methods_len, name);
    case JV_CYCLER:
        return native_find(cycler_methods, cycler_methods_len, name);
    case JV_BYTES:
        return native_find(bytes_methods, bytes_methods_len, name);
    default:
        return NULL;
    }
}
