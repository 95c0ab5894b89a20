/* tests.c - what may stand behind `is`. */
#include "jinja/filters.h"
#include "jinja/run.h"

static int answer(int result, struct jv *ret)
{
    *ret = JV_OF_BOOL(result > 0);
    return result < 0 ? -1 : 0;
}

/* One row per plain question. */
static int test_type(struct run *r, struct call *c, struct jv *ret)
{
    struct jv v = c->self;
    const char *name = c->fn->name;
    bool yes = false;

    (void)r;
    switch (name[0]) {
    case 'b': /* boolean */
        yes = v.type == JV_BOOL;
        break;
    case 'c': /* callable */
        yes = v.type == JV_METHOD || v.type == JV_FUNC || v.type == JV_MACRO || v.type == JV_JOINER ||
              v.type == JV_LOOP || v.type == JV_BLOCK || v.type == JV_UNDEF;
        break;
    case 'd': /* defined */
        yes = v.type != JV_UNDEF;
        break;
    case 'e': /* escaped */
        yes = jv_is_markup(v) || v.type == JV_MODULE;
        break;
    case 'f': /* false, float */
        yes = name[1] == 'a' ? v.type == JV_BOOL && !v.b : v.type == JV_FLOAT;
        break;
    case 'i': /* integer, iterable */
        yes = name[1] == 'n' ? v.type == JV_INT || v.type == JV_BIG : jv_is_iterable(v);
        break;
    case 'm': /* mapping */
        yes = v.type == JV_DICT;
        break;
    case 'n': /* none, number */
        yes = name[1] == 'o' ? v.type == JV_NONE : jv_is_number(v);
        break;
    case 's': /* string, sequence */
        yes = name[1] == 't'
                  ? v.type == JV_STR
                  : v.type == JV_STR || v.type == JV_LIST || v.type == JV_TUPLE || v.type == JV_DICT ||
                        v.type == JV_RANGE || v.type == JV_BYTES || v.type == JV_UNDEF;
        break;
    case 't': /* true */
        yes = v.type == JV_BOOL && v.b;
        break;
    default: /* undefined */
        yes = v.type == JV_UNDEF;
        break;
    }
    *ret = JV_OF_BOOL(yes);
    return 0;
}

static int test_iterable(struct run *r, struct call *c, struct jv *ret)
{
    if (c->self.type == JV_UNDEF && undef_use(r, c->self) < 0)
        return -1;
    return answer(jv_is_iterable(c->self), ret);
}

static int test_sequence(struct run *r, struct call *c, struct jv *ret)
{
    if (c->self.type == JV_UNDEF && undef_is_strict(r, c->self))
        return answer(0, ret);
    return test_type(r, c, ret);
}

static int test_compare(struct run *r, struct call *c, struct jv *ret)
{
    switch (c->fn->name[0]) {
    case '=':
    case 'e':
        return answer(jv_eq(r, c->self, c->a[0]), ret);
    case '!':
    case 'n': {
        int same = jv_eq(r, c->self, c->a[0]);

        return answer(same < 0 ? -1 : !same, ret);
    }
    case '<':
    case 'l':
        return answer(jv_cmp(r, c->self, c->a[0],
                             c->fn->name[1] == '=' || str_is(str_from(c->fn->name), "le") ? CMP_LE : CMP_LT),
                      ret);
    default:
        return answer(jv_cmp(r, c->self, c->a[0],
                             c->fn->name[1] == '=' || str_is(str_from(c->fn->name), "ge") ? CMP_GE : CMP_GT),
                      ret);
    }
}

static int test_in(struct run *r, struct call *c, struct jv *ret)
{
    return answer(jv_contains(r, c->a[0], c->self), ret);
}

static int test_sameas(struct run *r, struct call *c, struct jv *ret)
{
    (void)r;
    return answer(jv_same(c->self, c->a[0]), ret);
}

/* value % n == rest */
static int modulo_is(struct run *r, struct jv v, struct jv n, int rest, struct jv *ret)
{
    struct jv m;

    if (arith(r, ARITH_MOD, v, n, &m) < 0)
        return -1;
    return answer(jv_eq(r, m, JV_OF_INT(rest)), ret);
}

static int test_divisibleby(struct run *r, struct call *c, struct jv *ret)
{
    return modulo_is(r, c->self, c->a[0], 0, ret);
}

static int test_even(struct run *r, struct call *c, struct jv *ret)
{
    return modulo_is(r, c->self, JV_OF_INT(2), c->fn->name[0] == 'o', ret);
}

static int test_lower(struct run *r, struct call *c, struct jv *ret)
{
    struct call on = {0};
    const char *method = c->fn->name[0] == 'l' ? "islower" : "isupper";

    if (to_str(r, c->self, &on.self) < 0)
        return -1;
    return native_call(r, native_find(str_methods, str_methods_len, str_from(method)), &on, ret);
}

/* `x is filter`: a lookup in a dict, so x must be hashable. */
static int test_known(struct run *r, struct call *c, struct jv *ret)
{
    uint64_t unused;

    if (jv_hash(r, c->self, &unused) < 0)
        return -1;
    *ret = JV_OF_BOOL(c->self.type == JV_STR &&
                      (c->fn->name[0] == 'f' ? filter_find(r->opt, jv_view(c->self)) != NULL
                                             : test_find(jv_view(c->self)) != NULL));
    return 0;
}

static const struct native tests[] = {
    {"!=", test_compare, "/other", 1},
    {"<", test_compare, "/other", 1},
    {"<=", test_compare, "/other", 1},
    {"==", test_compare, "/other", 1},
    {">", test_compare, "/other", 1},
    {">=", test_compare, "/other", 1},
    {"boolean", test_type, "", 0},
    {"callable", test_type, "", 0},
    {"defined", test_type, "", 0},
    {"divisibleby", test_divisibleby, "num", 1},
    {"eq", test_compare, "/other", 1},
    {"equalto", test_compare, "/other", 1},
    {"escaped", test_type, "", 0},
    {"even", test_even, "", 0},
    {"false", test_type, "", 0},
    {"filter", test_known, "", 0},
    {"float", test_type, "", 0},
    {"ge", test_compare, "/other", 1},
    {"greaterthan", test_compare, "/other", 1},
    {"gt", test_compare, "/other", 1},
    {"in", test_in, "seq", 1},
    {"integer", test_type, "", 0},
    {"iterable", test_iterable, "", 0},
    {"le", test_compare, "/other", 1},
    {"lessthan", test_compare, "/other", 1},
    {"lower", test_lower, "", 0},
    {"lt", test_compare, "/other", 1},
    {"mapping", test_type, "", 0},
    {"ne", test_compare, "/other", 1},
    {"none", test_type, "", 0},
    {"number", test_type, "", 0},
    {"odd", test_even, "", 0},
    {"sameas", test_sameas, "other", 1},
    {"sequence", test_sequence, "", 0},
    {"string", test_type, "", 0},
    {"test", test_known, "", 0},
    {"true", test_type, "", 0},
    {"undefined", test_type, "", 0},
    {"upper", test_lower, "", 0},
};

const struct native *test_find(struct str name)
{
    return native_find(tests, ARRAY_LEN(tests), name);
}

int test_call(struct run *r, struct str name, struct call *c, struct jv *ret)
{
    const struct native *fn = test_find(name);

    if (!fn)
        return raise(r, JINJA_RUNTIME_ERROR, "No test named '%.*s'.", STR_ARG(name));
    return native_call(r, fn, c, ret);
}
