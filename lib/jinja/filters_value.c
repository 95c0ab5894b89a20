/* filters_value.c - filters of single values, and finding any filter by its name. */
#include "jinja/bigint.h"
#include "jinja/filters.h"

#include <math.h>
#include <stdio.h>

static int filter_abs(struct run *r, struct call *c, struct jv *ret)
{
    if (!jv_is_number(c->self))
        return raise(r, JINJA_TYPE_ERROR, "bad operand type for abs(): '%s'", jv_type_name(c->self));
    return num_abs(r, c->self, ret);
}

static int filter_attr(struct run *r, struct call *c, struct jv *ret)
{
    struct str name;
    struct jv unused;
    int found;

    if (arg_str(r, c, 0, &name) < 0)
        return -1;
    if (c->self.type == JV_UNDEF)
        return get_attr(r, c->self, name, ret);
    if (name.len && name.s[0] == '_')
        return get_attr(r, c->self, name, ret) < 0 ? -1
               : ret->type == JV_UNDEF             ? 0
                                                   : (*ret = undef_member(r, c->self, c->a[0]), 0);
    found = attr_lookup(r, c->self, name, &unused);
    if (found == 1)
        return get_attr(r, c->self, name, ret);
    *ret = undef_member(r, c->self, c->a[0]);
    return found;
}

static int filter_default(struct run *r, struct call *c, struct jv *ret)
{
    struct jv fallback = c->a[0].type == JV_MISSING ? JV_LIT("") : c->a[0];
    bool falsy;
    int truth;

    if (arg_bool(r, c, 1, false, &falsy) < 0)
        return -1;
    *ret = c->self;
    if (c->self.type == JV_UNDEF) {
        *ret = fallback;
        return 0;
    }
    if (!falsy)
        return 0;
    truth = jv_truth(r, c->self);
    if (truth == 0)
        *ret = fallback;
    return truth < 0 ? -1 : 0;
}

/* int(float(v)): 1, 0 the default is to be taken, -1 raised. */
static int int_of_float(struct run *r, struct jv v, struct jv *ret)
{
    double d;

    if (v.type == JV_FLOAT)
        d = v.d;
    else if (v.type != JV_STR || !num_parse_float(jv_view(v), &d))
        return 0;
    if (!isfinite(d))
        return v.type == JV_FLOAT && isinf(d)
                   ? raise(r, JINJA_OVERFLOW_ERROR, "cannot convert float infinity to integer")
                   : 0;
    return num_from_double(r, d, ret) < 0 ? -1 : 1;
}

static int filter_int(struct run *r, struct call *c, struct jv *ret)
{
    struct jv fallback = c->a[0].type == JV_MISSING ? JV_OF_INT(0) : c->a[0];
    int64_t base = 10;
    int done = 0;

    if (c->self.type == JV_UNDEF)
        return raise_undef(r, c->self);
    if (c->a[1].type != JV_MISSING && jv_is_int(c->a[1]) && to_index(r, c->a[1], &base) < 0)
        return -1;
    if (jv_is_int(c->self)) {
        *ret = c->self.type == JV_BOOL ? JV_OF_INT(c->self.b) : c->self;
        return 0;
    }
    if (c->self.type == JV_STR && (base == 0 || (base >= 2 && base <= 36)) &&
        (c->a[1].type == JV_MISSING || jv_is_int(c->a[1])))
        done = num_parse_int(r, jv_view(c->self), (int)base, ret);
    if (done < 0 && r->err->kind == JINJA_VALUE_ERROR) { /* too many digits: a ValueError that is swallowed */
        r->failed = false;
        *r->err = (struct jinja_error){0};
        done = 0;
    }
    if (done == 0)
        done = int_of_float(r, c->self, ret);
    if (done == 0)
        *ret = fallback;
    return done < 0 ? -1 : 0;
}

static int filter_float(struct run *r, struct call *c, struct jv *ret)
{
    double d;

    if (c->self.type == JV_UNDEF)
        return raise_undef(r, c->self);
    if (jv_is_number(c->self)) {
        if (!num_to_double(c->self, &d))
            return raise(r, JINJA_OVERFLOW_ERROR, "int too large to convert to float");
        *ret = JV_OF_REAL(d);
        return 0;
    }
    if (c->self.type == JV_STR && num_parse_float(jv_view(c->self), &d))
        *ret = JV_OF_REAL(d);
    else
        *ret = c->a[0].type == JV_MISSING ? JV_OF_REAL(0) : c->a[0];
    return 0;
}

static int round_away(struct run *r, struct jv v, struct jv digits, bool up, struct jv *ret)
{
    struct jv scale, scaled;

    if (arith(r, ARITH_POW, JV_OF_INT(10), digits, &scale) < 0 || arith(r, ARITH_MUL, v, scale, &scaled) < 0)
        return -1;
    if (!jv_is_number(scaled))
        return raise(r, JINJA_TYPE_ERROR, "must be real number, not %s", jv_type_name(scaled));
    if (scaled.type == JV_FLOAT && num_from_double(r, up ? ceil(scaled.d) : floor(scaled.d), &scaled) < 0)
        return -1;
    return arith(r, ARITH_DIV, scaled, scale, ret);
}

static int filter_round(struct run *r, struct call *c, struct jv *ret)
{
    struct jv digits = c->a[0].type == JV_MISSING ? JV_OF_INT(0) : c->a[0];
    struct str method = STR("common");

    if (c->a[1].type != JV_MISSING)
        method = c->a[1].type == JV_STR ? jv_view(c->a[1]) : STR("");
    if (!str_is(method, "common") && !str_is(method, "ceil") && !str_is(method, "floor"))
        return raise(r, JINJA_FILTER_ARGUMENT_ERROR, "method must be common, ceil or floor");
    if (!str_is(method, "common"))
        return round_away(r, c->self, digits, method.s[0] == 'c', ret);
    if (digits.type == JV_NONE) {
        struct jv rounded;

        if (num_round(r, c->self, JV_OF_INT(0), &rounded) < 0)
            return -1;
        *ret = rounded;
        return rounded.type == JV_FLOAT ? num_from_double(r, rounded.d, ret) : 0;
    }
    return num_round(r, c->self, digits, ret);
}

static int filter_filesizeformat(struct run *r, struct call *c, struct jv *ret)
{
    static const char letters[] = "kMGTPEZY";
    struct text t = text_begin(r);
    double bytes, base, unit;
    bool binary;
    size_t i = 0;

    if (arg_bool(r, c, 0, false, &binary) < 0)
        return -1;
    if (c->self.type == JV_UNDEF)
        return raise_undef(r, c->self);
    if (jv_is_number(c->self)) {
        if (!num_to_double(c->self, &bytes))
            return raise(r, JINJA_OVERFLOW_ERROR, "int too large to convert to float");
    } else if (c->self.type != JV_STR) {
        return raise(r, JINJA_TYPE_ERROR, "float() argument must be a string or a real number, not '%s'",
                     jv_type_name(c->self));
    } else if (!num_parse_float(jv_view(c->self), &bytes)) {
        return raise(r, JINJA_VALUE_ERROR, "could not convert string to float: %s", repr_brief(r, c->self));
    }
    base = binary ? 1024 : 1000;
    if (bytes == 1) {
        buf_puts(&r->scratch, "1 Byte");
        return text_end(&t, ret);
    }
    if (bytes < base) {
        struct jv whole;

        if (num_from_double(r, bytes, &whole) < 0 || put_int(r, &r->scratch, whole) < 0)
            return -1;
        buf_puts(&r->scratch, " Bytes");
        return text_end(&t, ret);
    }
    for (unit = base * base; i < 7 && !(bytes < unit); i++)
        unit *= base;
    if (isnan(bytes) || isinf(bytes)) {
        put_float(&r->scratch, bytes);
        buf_putc(&r->scratch, ' ');
    } else {
        buf_printf(&r->scratch, "%.1f ", base * bytes / unit);
    }
    buf_printf(&r->scratch, "%c%s", binary && i == 0 ? 'K' : letters[i], binary ? "iB" : "B");
    return text_end(&t, ret);
}

static int filter_tojson(struct run *r, struct call *c, struct jv *ret)
{
    struct text t = text_begin(r);
    struct str indent = {0};
    int64_t width = 0;
    bool has = c->a[0].type != JV_MISSING && c->a[0].type != JV_NONE;
    char *spaces;

    if (has && c->a[0].type == JV_STR) {
        indent = jv_view(c->a[0]);
    } else if (has) {
        if (to_index(r, c->a[0], &width) < 0 || run_text_fits(r, width) < 0)
            return -1;
        spaces = run_string(r, width < 0 ? 0 : (size_t)width);
        if (!spaces)
            return -1;
        memset(spaces, ' ', width < 0 ? 0 : (size_t)width);
        indent = (struct str){spaces, width < 0 ? 0 : (size_t)width};
    }
    if (put_json(r, &r->scratch, c->self, has ? arena_strndup(r->arena, indent.s, indent.len) : NULL, has,
                 true) < 0) {
        text_drop(&t);
        return -1;
    }
    if (text_end(&t, ret) < 0)
        return -1;
    ret->flags = JV_MARKUP;
    return 0;
}

static int filter_pprint(struct run *r, struct call *c, struct jv *ret)
{
    struct text t = text_begin(r);

    if (put_pprint(r, &r->scratch, c->self) < 0) {
        text_drop(&t);
        return -1;
    }
    return text_end(&t, ret);
}

const struct native value_filters[] = {
    {"abs", filter_abs, "", 0},
    {"attr", filter_attr, "name", 1},
    {"d", filter_default, "default_value boolean", 0},
    {"default", filter_default, "default_value boolean", 0},
    {"filesizeformat", filter_filesizeformat, "binary", 0},
    {"float", filter_float, "default", 0},
    {"int", filter_int, "default base", 0},
    {"pprint", filter_pprint, "", 0},
    {"round", filter_round, "precision method", 0},
    {"tojson", filter_tojson, "indent", 0},
};
const size_t value_filters_len = ARRAY_LEN(value_filters);

const struct native *filter_find(const struct jinja_options *opt, struct str name)
{
    const struct native *fn = native_find(value_filters, value_filters_len, name);

    fn = fn ? fn : native_find(text_filters, text_filters_len, name);
    fn = fn ? fn : native_find(seq_filters, seq_filters_len, name);
    fn = fn ? fn : native_find(lazy_filters, lazy_filters_len, name);
    return fn ? fn : extra_find(opt->extras, name);
}

int filter_call(struct run *r, struct str name, struct call *c, struct jv *ret)
{
    const struct native *fn = filter_find(r->opt, name);

    if (!fn)
        return raise(r, JINJA_RUNTIME_ERROR, "No filter named '%.*s'.", STR_ARG(name));
    return native_call(r, fn, c, ret);
}
