/* attr.c - a.b, a[b] and a[b:c:d]. Attributes are Python's, as far as a sandbox shows them: methods, a few
 * properties, and the names with underscores that must not be reached. */
#include "jinja/bigint.h"
#include "jinja/methods.h"
#include "jinja/objects.h"
#include "jinja/unicode.h"

/* What every Python object has. */
static const char *const dunders[] = {
    "__class__",   "__delattr__", "__dir__",           "__doc__",          "__eq__",
    "__format__",  "__ge__",      "__getattribute__",  "__getstate__",     "__gt__",
    "__hash__",    "__init__",    "__init_subclass__", "__le__",           "__lt__",
    "__ne__",      "__new__",     "__reduce__",        "__reduce_ex__",    "__repr__",
    "__setattr__", "__sizeof__",  "__str__",           "__subclasshook__",
};
static const char *const number_dunders[] = {
    "__abs__",   "__add__",      "__bool__",       "__ceil__",  "__divmod__",  "__float__",
    "__floor__", "__floordiv__", "__getnewargs__", "__int__",   "__mod__",     "__mul__",
    "__neg__",   "__pos__",      "__pow__",        "__radd__",  "__rdivmod__", "__rfloordiv__",
    "__rmod__",  "__rmul__",     "__round__",      "__rpow__",  "__rsub__",    "__rtruediv__",
    "__sub__",   "__truediv__",  "__trunc__",      "__index__", "__and__",     "__or__",
    "__xor__",
};
static const char *const sequence_dunders[] = {
    "__add__",     "__contains__", "__getitem__",    "__iter__",          "__len__",
    "__mul__",     "__rmul__",     "__getnewargs__", "__reversed__",      "__setitem__",
    "__delitem__", "__iadd__",     "__imul__",       "__class_getitem__",
};
static const char *const dict_dunders[] = {
    "__contains__", "__getitem__", "__iter__",    "__len__",           "__or__", "__ror__", "__ior__",
    "__reversed__", "__setitem__", "__delitem__", "__class_getitem__",
};
static const char *const func_dunders[] = {
    "__call__",        "__name__",    "__self__",       "__module__",   "__qualname__", "__text_signature__",
    "__code__",        "__globals__", "__closure__",    "__defaults__", "__dict__",     "__wrapped__",
    "__annotations__", "__func__",    "__kwdefaults__", "__builtins__",
};
static const char *const object_dunders[] = {"__dict__", "__module__", "__weakref__"};
static const char *const loop_dunders[] = {"__call__", "__iter__", "__len__", "__next__"};

static bool listed(const char *const *names, size_t n, struct str name)
{
    for (size_t i = 0; i < n; i++)
        if (str_is(name, names[i]))
            return true;
    return false;
}

#define LISTED(names, name) listed((names), ARRAY_LEN(names), (name))

static bool has_dunder(struct jv obj, struct str name)
{
    if (name.len < 5 || name.s[0] != '_' || name.s[1] != '_')
        return false;
    if (LISTED(dunders, name))
        return true;
    switch (obj.type) {
    case JV_BOOL:
    case JV_INT:
    case JV_BIG:
    case JV_FLOAT:
        return LISTED(number_dunders, name);
    case JV_NONE:
        return str_is(name, "__bool__");
    case JV_UNDEF:
        return LISTED(number_dunders, name) || LISTED(loop_dunders, name) || str_is(name, "__getitem__");
    case JV_STR:
        if (jv_is_markup(obj) && (str_is(name, "__html__") || str_is(name, "__html_format__")))
            return true;
        return LISTED(sequence_dunders, name) || str_is(name, "__mod__") || str_is(name, "__rmod__");
    case JV_LIST:
    case JV_TUPLE:
    case JV_RANGE:
    case JV_BYTES:
        return LISTED(sequence_dunders, name);
    case JV_DICT:
    case JV_VIEW:
        return LISTED(dict_dunders, name);
    case JV_METHOD:
    case JV_FUNC:
        return LISTED(func_dunders, name);
    case JV_NS:
        return false;
    case JV_LOOP:
        return LISTED(object_dunders, name) || LISTED(loop_dunders, name);
    case JV_SELF:
        return LISTED(object_dunders, name) || str_is(name, "__getitem__");
    case JV_CYCLER:
        return LISTED(object_dunders, name) || str_is(name, "__next__");
    default:
        return LISTED(object_dunders, name) || str_is(name, "__call__");
    }
}

static struct jv bind_method(struct run *r, struct jv self, const struct native *fn)
{
    struct jmethod *method = run_alloc(r, sizeof(*method));

    method->self = self;
    method->fn = fn;
    return (struct jv){.type = JV_METHOD, .method = method};
}

static int number_attr(struct jv obj, struct str name, struct jv *ret)
{
    bool is_float = obj.type == JV_FLOAT;

    if (str_is(name, "real") || (str_is(name, "numerator") && !is_float))
        *ret = obj.type == JV_BOOL ? JV_OF_INT(obj.b) : obj;
    else if (str_is(name, "imag"))
        *ret = is_float ? JV_OF_REAL(0) : JV_OF_INT(0);
    else if (str_is(name, "denominator") && !is_float)
        *ret = JV_OF_INT(1);
    else
        return 0;
    return 1;
}

static int macro_attr(struct run *r, const struct jmacro *macro, struct str name, struct jv *ret)
{
    const struct func *f = macro->func;

    if (str_is(name, "name")) {
        *ret = f->kind == FUNC_CALLER ? JV_OF_NONE : jv_str(f->name);
    } else if (str_is(name, "arguments")) {
        struct jlist *args = list_new(r, f->nargs);

        for (uint32_t i = 0; i < f->nargs; i++)
            list_push(r, args, jv_str(f->args[i]));
        *ret = jv_tuple(args);
    } else if (str_is(name, "catch_kwargs")) {
        *ret = JV_OF_BOOL(f->kwargs);
    } else if (str_is(name, "catch_varargs")) {
        *ret = JV_OF_BOOL(f->varargs);
    } else if (str_is(name, "caller")) {
        *ret = JV_OF_BOOL(f->caller);
    } else if (str_is(name, "explicit_caller")) {
        *ret = JV_OF_BOOL(f->explicit_caller);
    } else {
        return 0;
    }
    return 1;
}

static int cycler_attr(struct run *r, struct jv obj, struct str name, struct jv *ret)
{
    struct jcycler *cycler = obj.cycler;

    if (str_is(name, "current")) {
        *ret = cycler->items->v[cycler->pos];
        return 1;
    }
    if (str_is(name, "pos") || str_is(name, "items")) {
        *ret = name.s[0] == 'p' ? JV_OF_INT(cycler->pos) : jv_tuple(cycler->items);
        return 1;
    }
    (void)r;
    return 0;
}

static int range_attr(const struct jrange *range, struct str name, struct jv *ret)
{
    if (str_is(name, "start"))
        *ret = JV_OF_INT(range->start);
    else if (str_is(name, "stop"))
        *ret = JV_OF_INT(range->stop);
    else if (str_is(name, "step"))
        *ret = JV_OF_INT(range->step);
    else
        return 0;
    return 1;
}

static int object_attr(struct run *r, struct jv obj, struct str name, struct jv *ret)
{
    switch (obj.type) {
    case JV_BOOL:
    case JV_INT:
    case JV_BIG:
    case JV_FLOAT:
        return number_attr(obj, name, ret);
    case JV_TUPLE:
        if (!(obj.flags & JV_GROUP) || !(str_is(name, "grouper") || str_is(name, "list")))
            return 0;
        *ret = obj.list->v[name.s[0] == 'l'];
        return 1;
    case JV_NS:
        return dict_get_str(r, obj.dict, name, ret);
    case JV_LOOP:
        return loop_attr(r, obj.loop, name, ret);
    case JV_MACRO:
        return macro_attr(r, obj.macro, name, ret);
    case JV_CYCLER:
        return cycler_attr(r, obj, name, ret);
    case JV_JOINER:
        if (!str_is(name, "sep") && !str_is(name, "used"))
            return 0;
        *ret = name.s[0] == 's' ? obj.joiner->sep : JV_OF_BOOL(obj.joiner->used);
        return 1;
    case JV_MODULE:
        return dict_get_str(r, obj.module->exported, name, ret);
    case JV_BLOCK:
        return block_attr(r, obj.block, name, ret);
    case JV_RANGE:
        return range_attr(obj.range, name, ret);
    default:
        return 0;
    }
}

int attr_lookup(struct run *r, struct jv obj, struct str name, struct jv *ret)
{
    const struct native *fn = method_find(obj, name);

    if (fn) {
        *ret = bind_method(r, obj, fn);
        return 1;
    }
    return object_attr(r, obj, name, ret);
}

static struct jv unsafe(struct run *r, struct jv obj, struct str name)
{
    struct jv v = undef_hint(r, "access to attribute '%.*s' of '%s' object is unsafe.", STR_ARG(name),
                             jv_type_name(obj));

    v.undef->kind = UNDEF_SECURITY;
    return v;
}

/* Private and internal names that exist are refused. 1 refused or found, 0 there is none. */
static int safe_attr(struct run *r, struct jv obj, struct str name, struct jv *ret)
{
    int found = attr_lookup(r, obj, name, ret);

    if (found == 1 && name.len && name.s[0] == '_') {
        *ret = unsafe(r, obj, name);
        return 1;
    }
    if (found != 0)
        return found;
    if (obj.type == JV_FUNC && obj.func->name[0] != 'r') { /* the others are classes */
        if (str_is(name, "mro")) {
            *ret = unsafe(r, obj, name);
            return 1;
        }
        if (obj.func->name[0] == 'd' && (found = attr_lookup(r, jv_dict(dict_new(r, 0)), name, ret)) != 0)
            return found;
    }
    if (obj.type == JV_ITER && (str_is(name, "gi_frame") || str_is(name, "gi_code"))) {
        *ret = unsafe(r, obj, name);
        return 1;
    }
    if (!has_dunder(obj, name))
        return 0;
    *ret = unsafe(r, obj, name);
    return 1;
}

static int undef_access(struct run *r, struct jv obj, struct jv *ret)
{
    if (!r->missing || !undef_is_strict(r, obj))
        return raise_undef(r, obj);
    *ret = obj;
    return undef_use(r, obj);
}

int get_attr(struct run *r, struct jv obj, struct str name, struct jv *ret)
{
    struct jv key = jv_str(name);
    int found;

    if (obj.type == JV_UNDEF) {
        if (name.len >= 4 && has_dunder(obj, name)) {
            *ret = unsafe(r, obj, name);
            return 0;
        }
        if (name.len >= 4 && name.s[0] == '_' && name.s[1] == '_' && str_ends(name, "__")) {
            return raise_undef(r, obj); /* __getattr__ refuses it, __getitem__ raises */
        }
        return undef_access(r, obj, ret);
    }
    found = safe_attr(r, obj, name, ret);
    if (found == 0)
        found = item_lookup(r, obj, key, ret);
    if (found == 0)
        *ret = undef_member(r, obj, key);
    return found < 0 ? -1 : 0;
}

/* ---- items ---- */

static int list_item(struct run *r, struct jv obj, struct jv key, struct jv *ret)
{
    int64_t i;

    if (!jv_is_int(key) || key.type == JV_BIG)
        return 0;
    i = jv_small(key);
    if (i < 0)
        i += obj.list->len;
    if (i < 0 || i >= obj.list->len)
        return 0;
    list_expand(r, obj.list);
    *ret = obj.list->v[i];
    return 1;
}

static int str_item(struct run *r, struct jv obj, struct jv key, struct jv *ret)
{
    struct str s = jv_view(obj);
    size_t start, next;
    int64_t i;

    if (!jv_is_int(key) || key.type == JV_BIG || charge(r, s.len / 64) < 0)
        return r->failed ? -1 : 0;
    i = jv_small(key);
    if (i < 0)
        i += (int64_t)utf8_count(s);
    if (i < 0 || i >= (int64_t)s.len)
        return 0;
    start = utf8_offset(s, (size_t)i);
    if (start >= s.len)
        return 0;
    next = utf8_offset((struct str){s.s + start, s.len - start}, 1);
    *ret = jv_str((struct str){s.s + start, next});
    ret->flags = obj.flags & JV_MARKUP;
    return 1;
}

static int range_item(struct jv obj, struct jv key, struct jv *ret)
{
    int64_t i;

    if (!jv_is_int(key) || key.type == JV_BIG)
        return 0;
    i = jv_small(key);
    if (i < 0)
        i += obj.range->len;
    if (i < 0 || i >= obj.range->len)
        return 0;
    *ret = JV_OF_INT(obj.range->start + i * obj.range->step);
    return 1;
}

int item_lookup(struct run *r, struct jv obj, struct jv key, struct jv *ret)
{
    uint64_t unused;

    switch (obj.type) {
    case JV_DICT:
        if (key.type == JV_LIST || key.type == JV_DICT || key.type == JV_TUPLE) {
            bool failed = r->failed;

            if (!failed && jv_hash(r, key, &unused) < 0) { /* unhashable: Jinja2 swallows the TypeError */
                if (r->err->kind != JINJA_TYPE_ERROR)
                    return -1;
                r->failed = false;
                *r->err = (struct jinja_error){0};
                return 0;
            }
        }
        return dict_get(r, obj.dict, key, ret);
    case JV_LIST:
    case JV_TUPLE:
        return list_item(r, obj, key, ret);
    case JV_STR:
        return str_item(r, obj, key, ret);
    case JV_RANGE:
        return range_item(obj, key, ret);
    case JV_SELF:
        return key.type == JV_STR ? self_attr(r, obj.block, jv_view(key), ret) : 0;
    default:
        return 0;
    }
}

int get_item(struct run *r, struct jv obj, struct jv key, struct jv *ret)
{
    int found;

    if (obj.type == JV_UNDEF)
        return undef_access(r, obj, ret);
    found = item_lookup(r, obj, key, ret);
    if (found == 0 && key.type == JV_STR)
        found = safe_attr(r, obj, jv_view(key), ret);
    if (found == 0)
        *ret = undef_member(r, obj, key);
    return found < 0 ? -1 : 0;
}

/* ---- slices ---- */

struct slice {
    int64_t start, step, count;
};

static int slice_index(struct run *r, struct jv v, int64_t fallback, int64_t len, int64_t low, int64_t high,
                       int64_t *ret)
{
    if (v.type == JV_NONE) {
        *ret = fallback;
        return 0;
    }
    if (v.type == JV_UNDEF || !jv_is_int(v))
        return raise(r, JINJA_TYPE_ERROR,
                     "slice indices must be integers or None or have an __index__ method");
    if (to_index(r, v, ret) < 0)
        return -1;
    if (*ret < 0)
        *ret += len;
    *ret = *ret < low ? low : *ret > high ? high : *ret;
    return 0;
}

static int slice_of(struct run *r, int64_t len, struct jv start, struct jv stop, struct jv step,
                    struct slice *ret)
{
    int64_t from, to, by = 1, n;

    if (step.type != JV_NONE) {
        if (!jv_is_int(step))
            return raise(r, JINJA_TYPE_ERROR,
                         "slice indices must be integers or None or have an __index__ method");
        if (to_index(r, step, &by) < 0)
            return -1;
    }
    if (by == 0)
        return raise(r, JINJA_VALUE_ERROR, "slice step cannot be zero");
    if (by > 0) {
        if (slice_index(r, start, 0, len, 0, len, &from) < 0 ||
            slice_index(r, stop, len, len, 0, len, &to) < 0)
            return -1;
        n = from < to ? (to - from - 1) / by + 1 : 0;
    } else {
        if (slice_index(r, start, len - 1, len, -1, len - 1, &from) < 0 ||
            slice_index(r, stop, -1, len, -1, len - 1, &to) < 0)
            return -1;
        n = to < from ? (from - to - 1) / -by + 1 : 0;
    }
    *ret = (struct slice){from, by, n};
    return 0;
}

static int slice_str(struct run *r, struct jv obj, const struct slice *s, struct jv *ret)
{
    struct str text = jv_view(obj);
    size_t from, to;
    uint32_t *starts;
    struct text t;

    if (s->count == 0) {
        *ret = JV_LIT("");
        ret->flags = obj.flags;
        return 0;
    }
    if (s->step == 1) {
        if (charge(r, text.len / 64) < 0)
            return -1;
        from = utf8_offset(text, (size_t)s->start);
        to = utf8_offset((struct str){text.s + from, text.len - from}, (size_t)s->count);
        *ret = jv_str((struct str){text.s + from, to});
        ret->flags = obj.flags;
        return 0;
    }
    if (charge(r, text.len) < 0)
        return -1;
    starts = run_alloc(r, (text.len + 1) * sizeof(*starts));
    to = 0;
    for (size_t i = 0; i < text.len; i++)
        if (((unsigned char)text.s[i] & 0xc0) != 0x80)
            starts[to++] = (uint32_t)i;
    starts[to] = (uint32_t)text.len;
    t = text_begin(r);
    for (int64_t i = 0; i < s->count; i++) {
        int64_t at = s->start + i * s->step;

        buf_add(&r->scratch, text.s + starts[at], starts[at + 1] - starts[at]);
    }
    if (text_end(&t, ret) < 0)
        return -1;
    ret->flags = obj.flags;
    return 0;
}

static int slice_list(struct run *r, struct jv obj, const struct slice *s, struct jv *ret)
{
    struct jlist *list;

    if (check_items(r, s->count) < 0)
        return -1;
    list_expand(r, obj.list);
    list = list_new(r, (size_t)s->count);
    for (int64_t i = 0; i < s->count; i++)
        list->v[i] = obj.list->v[s->start + i * s->step];
    list->len = (uint32_t)s->count;
    *ret = obj.type == JV_LIST ? jv_list(list) : jv_tuple(list);
    return 0;
}

static int slice_range(struct run *r, struct jv obj, const struct slice *s, struct jv *ret)
{
    struct jrange *range = RUN_NEW(r, struct jrange);

    int64_t span;

    range->start = obj.range->start + s->start * obj.range->step;
    if (__builtin_mul_overflow(obj.range->step, s->step, &range->step)) /* there is no second one */
        range->step = 1;
    range->len = s->count;
    if (__builtin_mul_overflow(s->count, range->step, &span) ||
        __builtin_add_overflow(range->start, span, &range->stop))
        range->stop = range->step > 0 ? INT64_MAX : INT64_MIN;
    *ret = (struct jv){.type = JV_RANGE, .range = range};
    return 0;
}

int get_slice(struct run *r, struct jv obj, struct jv start, struct jv stop, struct jv step, struct jv *ret)
{
    struct slice s;
    int64_t len;

    if (obj.type == JV_UNDEF)
        return undef_access(r, obj, ret);
    if (obj.type == JV_DICT)
        return raise(r, JINJA_TYPE_ERROR, "unhashable type: 'slice'");
    if (obj.type != JV_STR && obj.type != JV_LIST && obj.type != JV_TUPLE && obj.type != JV_RANGE)
        return raise(r, JINJA_TYPE_ERROR, "'%s' object is not subscriptable", jv_type_name(obj));
    len = jv_len(r, obj);
    if (len < 0 || slice_of(r, len, start, stop, step, &s) < 0)
        return -1;
    if (obj.type == JV_STR)
        return slice_str(r, obj, &s, ret);
    return obj.type == JV_RANGE ? slice_range(r, obj, &s, ret) : slice_list(r, obj, &s, ret);
}
