/* compare.c - equality, order, membership and hashes, as Python has them. */
#include "jinja/bigint.h"
#include "jinja/run.h"
#include "jinja/unicode.h"
#include "jinja/value.h"

#include <math.h>

static int lists_eq(struct run *r, struct jlist *a, struct jlist *b)
{
    int same = 1;

    if (a == b)
        return 1;
    if (a->len != b->len)
        return 0;
    if (run_enter(r) < 0 || charge(r, a->len) < 0)
        return -1;
    list_expand(r, a);
    list_expand(r, b);
    for (uint32_t i = 0; same == 1 && i < a->len && i < b->len; i++)
        same = jv_same(a->v[i], b->v[i]) ? 1 : jv_eq(r, a->v[i], b->v[i]);
    run_leave(r);
    return same;
}

static int dicts_eq(struct run *r, struct jdict *a, struct jdict *b)
{
    int same = 1;

    if (a == b)
        return 1;
    if (a->len != b->len)
        return 0;
    if (run_enter(r) < 0 || charge(r, a->len) < 0)
        return -1;
    dict_expand(r, a);
    for (uint32_t i = 0; same == 1 && i < a->len; i++) {
        struct jv other = JV_NULL;

        same = dict_get(r, b, a->v[i].key, &other);
        if (same == 1)
            same = jv_same(a->v[i].value, other) ? 1 : jv_eq(r, a->v[i].value, other);
    }
    run_leave(r);
    return same;
}

/* dict.keys() and .items() compare as sets. */
static int views_eq(struct run *r, struct jv a, struct jv b)
{
    if ((a.flags | b.flags) & JV_VIEW_VALUES)
        return 0;
    if (a.flags & JV_VIEW_ITEMS)
        return b.flags & JV_VIEW_ITEMS ? dicts_eq(r, a.dict, b.dict) : a.dict->len == 0 && b.dict->len == 0;
    if (b.flags & JV_VIEW_ITEMS)
        return a.dict->len == 0 && b.dict->len == 0;
    if (a.dict->len != b.dict->len)
        return 0;
    dict_expand(r, a.dict);
    for (uint32_t i = 0; i < a.dict->len; i++) {
        struct jv other;
        int same = dict_get(r, b.dict, a.dict->v[i].key, &other);

        if (same != 1)
            return same;
    }
    return 1;
}

static int ranges_eq(const struct jrange *a, const struct jrange *b)
{
    return a->len == b->len && (a->len == 0 || (a->start == b->start && (a->len == 1 || a->step == b->step)));
}

int jv_eq(struct run *r, struct jv a, struct jv b)
{
    if (a.type == JV_UNDEF || b.type == JV_UNDEF) {
        if (a.type == JV_UNDEF && undef_is_strict(r, a))
            return raise_undef(r, a);
        if (b.type == JV_UNDEF && undef_is_strict(r, b))
            return raise_undef(r, b);
        return a.type == b.type;
    }
    if (jv_is_number(a) && jv_is_number(b))
        return num_cmp(a, b) == 0;
    if (a.type != b.type)
        return 0;
    switch (a.type) {
    case JV_NONE:
        return 1;
    case JV_STR:
    case JV_BYTES:
        if (charge(r, a.len / 128) < 0)
            return -1;
        return str_eq(jv_view(a), jv_view(b));
    case JV_LIST:
    case JV_TUPLE:
        return lists_eq(r, a.list, b.list);
    case JV_DICT:
        return dicts_eq(r, a.dict, b.dict);
    case JV_VIEW:
        return views_eq(r, a, b);
    case JV_RANGE:
        return ranges_eq(a.range, b.range);
    case JV_METHOD:
        return a.method->fn == b.method->fn && jv_same(a.method->self, b.method->self);
    default:
        return a.i == b.i;
    }
}

static int raise_order(struct run *r, struct jv a, struct jv b, enum jv_cmp op)
{
    static const char *const names[] = {"<", "<=", ">", ">="};

    return raise(r, JINJA_TYPE_ERROR, "'%s' not supported between instances of '%s' and '%s'", names[op],
                 jv_type_name(a), jv_type_name(b));
}

static bool order_holds(int order, enum jv_cmp op)
{
    switch (op) {
    case CMP_LT:
        return order < 0;
    case CMP_LE:
        return order <= 0;
    case CMP_GT:
        return order > 0;
    default:
        return order >= 0;
    }
}

static int lists_cmp(struct run *r, struct jlist *a, struct jlist *b, enum jv_cmp op)
{
    int result = -2;

    if (run_enter(r) < 0)
        return -1;
    list_expand(r, a);
    list_expand(r, b);
    for (uint32_t i = 0; result == -2 && i < a->len && i < b->len; i++) {
        int same = jv_same(a->v[i], b->v[i]) ? 1 : jv_eq(r, a->v[i], b->v[i]);

        if (charge(r, 1) < 0)
            same = -1;
        if (same < 0)
            result = -1;
        else if (same == 0)
            result = jv_cmp(r, a->v[i], b->v[i], op);
    }
    run_leave(r);
    if (result != -2)
        return result;
    return order_holds(a->len < b->len ? -1 : a->len > b->len, op);
}

/* Subsets, for dict.keys() and .items(). */
static int views_cmp(struct run *r, struct jv a, struct jv b, enum jv_cmp op)
{
    struct jv small = op == CMP_LT || op == CMP_LE ? a : b, large = op == CMP_LT || op == CMP_LE ? b : a;

    if ((op == CMP_LT || op == CMP_GT) && small.dict->len >= large.dict->len)
        return 0;
    dict_expand(r, small.dict);
    for (uint32_t i = 0; i < small.dict->len; i++) {
        struct jv other;
        int found = dict_get(r, large.dict, small.dict->v[i].key, &other);

        if (found == 1 && small.flags & JV_VIEW_ITEMS)
            found = jv_eq(r, small.dict->v[i].value, other);
        if (found != 1)
            return found;
    }
    return 1;
}

int jv_cmp(struct run *r, struct jv a, struct jv b, enum jv_cmp op)
{
    int order;

    if (a.type == JV_UNDEF)
        return raise_undef(r, a);
    if (b.type == JV_UNDEF)
        return raise_undef(r, b);
    if (jv_is_number(a) && jv_is_number(b)) {
        order = num_cmp(a, b);
        return order == 2 ? 0 : order_holds(order, op);
    }
    if (a.type != b.type)
        return raise_order(r, a, b, op);
    switch (a.type) {
    case JV_STR:
    case JV_BYTES:
        if (charge(r, (a.len < b.len ? a.len : b.len) / 128) < 0)
            return -1;
        return order_holds(str_cmp(jv_view(a), jv_view(b)), op);
    case JV_LIST:
    case JV_TUPLE:
        return lists_cmp(r, a.list, b.list, op);
    case JV_VIEW:
        if (!((a.flags | b.flags) & JV_VIEW_VALUES) && (a.flags & JV_VIEW_ITEMS) == (b.flags & JV_VIEW_ITEMS))
            return views_cmp(r, a, b, op);
        break;
    default:
        break;
    }
    return raise_order(r, a, b, op);
}

static int range_contains(struct run *r, struct jv seq, struct jv item)
{
    const struct jrange *range = seq.range;
    int64_t offset;
    double whole;

    if (item.type == JV_FLOAT && modf(item.d, &whole) == 0 && fabs(item.d) < 9e15)
        item = JV_OF_INT((int64_t)item.d);
    if (item.type != JV_INT && item.type != JV_BOOL) {
        if (item.type == JV_UNDEF && undef_is_strict(r, item) && range->len)
            return raise_undef(r, item);
        return 0;
    }
    if (range->len == 0 || __builtin_sub_overflow(jv_small(item), range->start, &offset))
        return 0;
    if (range->step == -1) /* the least number divided by it has no place */
        return offset <= 0 && offset > -range->len;
    return offset % range->step == 0 && offset / range->step >= 0 && offset / range->step < range->len;
}

static int pair_in_items(struct run *r, struct jdict *dict, struct jv item)
{
    struct jv value;
    int found;

    if (item.type != JV_TUPLE || item.list->len != 2)
        return 0;
    list_expand(r, item.list);
    found = dict_get(r, dict, item.list->v[0], &value);
    return found == 1 ? jv_eq(r, value, item.list->v[1]) : found;
}

static int text_contains(struct run *r, struct jv seq, struct jv item)
{
    if (item.type != seq.type) {
        if (seq.type == JV_BYTES)
            return raise(r, JINJA_TYPE_ERROR, "a bytes-like object is required, not '%s'",
                         jv_type_name(item));
        return raise(r, JINJA_TYPE_ERROR, "'in <string>' requires string as left operand, not %s",
                     item.type == JV_UNDEF && r->strict ? "StrictUndefined" : jv_type_name(item));
    }
    if (charge(r, seq.len / 16) < 0)
        return -1;
    return item.len == 0 || (item.len <= seq.len && memmem(seq.s, seq.len, item.s, item.len) != NULL);
}

/* By iterating. */
static int drawn_contains(struct run *r, struct jv seq, struct jv item)
{
    struct jiter it;
    struct jv v;
    int more, same;

    if (iter_init(r, seq, &it) < 0)
        return -1;
    while ((more = iter_next(r, &it, &v)) == 1) {
        same = jv_same(v, item) ? 1 : jv_eq(r, v, item);
        if (same != 0 || charge(r, 1) < 0)
            return same != 0 ? same : -1;
    }
    return more;
}

int jv_contains(struct run *r, struct jv seq, struct jv item)
{
    struct jv unused;

    switch (seq.type) {
    case JV_STR:
    case JV_BYTES:
        return text_contains(r, seq, item);
    case JV_DICT:
        return dict_get(r, seq.dict, item, &unused);
    case JV_VIEW:
        if (seq.flags & JV_VIEW_ITEMS)
            return pair_in_items(r, seq.dict, item);
        return seq.flags & JV_VIEW_VALUES ? drawn_contains(r, seq, item)
                                          : dict_get(r, seq.dict, item, &unused);
    case JV_RANGE:
        return range_contains(r, seq, item);
    case JV_UNDEF:
        return undef_use(r, seq);
    default:
        if (!jv_is_iterable(seq))
            return raise(r, JINJA_TYPE_ERROR, "argument of type '%s' is not iterable", jv_type_name(seq));
        return drawn_contains(r, seq, item);
    }
}

static uint64_t mix(uint64_t h)
{
    h ^= h >> 32;
    h *= UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static uint64_t hash_double(double d)
{
    uint64_t bits;

    if (d == floor(d) && fabs(d) < 9e18)
        return mix((uint64_t)(int64_t)d);
    memcpy(&bits, &d, sizeof(bits));
    return mix(bits);
}

static int hash_tuple(struct run *r, struct jlist *list, uint64_t *ret)
{
    uint64_t hash = list->len, one;

    if (run_enter(r) < 0 || charge(r, list->len) < 0)
        return -1;
    list_expand(r, list);
    for (uint32_t i = 0; i < list->len; i++) {
        if (jv_hash(r, list->v[i], &one) < 0)
            return -1;
        hash = mix(hash * 31 + one);
    }
    run_leave(r);
    *ret = hash;
    return 0;
}

int jv_hash(struct run *r, struct jv v, uint64_t *ret)
{
    double d;

    switch (v.type) {
    case JV_STR:
    case JV_BYTES:
        *ret = str_hash(jv_view(v));
        return v.len > 256 ? charge(r, v.len / 64) : 0;
    case JV_BOOL:
    case JV_INT:
        *ret = mix((uint64_t)jv_small(v));
        return 0;
    case JV_FLOAT:
        *ret = hash_double(v.d);
        return 0;
    case JV_BIG:
        *ret = num_to_double(v, &d) ? hash_double(d) : 7;
        return 0;
    case JV_TUPLE:
        return hash_tuple(r, v.list, ret);
    case JV_UNDEF:
        *ret = 3;
        return undef_use(r, v);
    case JV_NONE:
        *ret = 5;
        return 0;
    case JV_RANGE:
        *ret = mix((uint64_t)v.range->len);
        return 0;
    case JV_LIST:
    case JV_DICT:
    case JV_NS:
        if (v.type != JV_NS)
            return raise(r, JINJA_TYPE_ERROR, "unhashable type: '%s'", jv_type_name(v));
        break;
    case JV_VIEW:
        if (!(v.flags & JV_VIEW_VALUES))
            return raise(r, JINJA_TYPE_ERROR, "unhashable type: '%s'", jv_type_name(v));
        break;
    default:
        break;
    }
    *ret = mix((uint64_t)v.i);
    return 0;
}
