/* format.c - "..." % values: Python's printf. Into markup, values are escaped. */
#include "jinja/bigint.h"
#include "jinja/run.h"
#include "jinja/unicode.h"

#include <math.h>
#include <stdio.h>

#define PRECISION_MAX 400 /* digits of a float that are asked of C at once */

struct spec {
    bool left, plus, space, zero, alt, has_precision;
    int64_t width, precision;
    char type;
};

struct args {
    struct jv values; /* as given */
    struct jlist *tuple;
    uint32_t at;
    bool single, used, markup;
};

static int next_arg(struct run *r, struct args *a, struct jv *ret)
{
    if (a->tuple) {
        if (a->at >= a->tuple->len)
            return raise(r, JINJA_TYPE_ERROR, "not enough arguments for format string");
        *ret = a->tuple->v[a->at++];
        return 0;
    }
    if (a->used)
        return raise(r, JINJA_TYPE_ERROR, "not enough arguments for format string");
    a->used = true;
    *ret = a->values;
    return 0;
}

/* ---- numbers ---- */

/* sign, prefix and digits, padded */
static int put_padded(struct run *r, struct buf *buf, const struct spec *s, const char *sign,
                      const char *prefix, struct str digits)
{
    int64_t pad = s->width - (int64_t)(strlen(sign) + strlen(prefix) + utf8_count(digits));

    if (run_text_fits(r, s->width) < 0)
        return -1;
    for (int64_t i = 0; i < pad && !s->left && !s->zero; i++)
        buf_putc(buf, ' ');
    buf_puts(buf, sign);
    buf_puts(buf, prefix);
    for (int64_t i = 0; i < pad && !s->left && s->zero; i++)
        buf_putc(buf, '0');
    buf_add(buf, digits.s, digits.len);
    for (int64_t i = 0; i < pad && s->left; i++)
        buf_putc(buf, ' ');
    return 0;
}

static const char *sign_of(const struct spec *s, bool negative)
{
    return negative ? "-" : s->plus ? "+" : s->space ? " " : "";
}

static int put_int_spec(struct run *r, struct buf *buf, const struct spec *s, struct jv v)
{
    CLEANUP(buf_done) struct buf digits = {0};
    CLEANUP(buf_done) struct buf zeros = {0};
    unsigned base = s->type == 'x' || s->type == 'X' ? 16 : s->type == 'o' ? 8 : 10;
    const char *prefix = !s->alt || base == 10 ? "" : base == 8 ? "0o" : s->type == 'X' ? "0X" : "0x";
    bool negative;

    if (put_int_base(r, &digits, v, base, s->type == 'X') < 0)
        return -1;
    negative = digits.data[0] == '-';
    if (run_text_fits(r, s->precision) < 0)
        return -1;
    for (int64_t i = (int64_t)digits.len - negative; s->has_precision && i < s->precision; i++)
        buf_putc(&zeros, '0');
    buf_add(&zeros, digits.data + negative, digits.len - negative);
    return put_padded(r, buf, s, sign_of(s, negative), prefix, buf_view(&zeros));
}

static int put_float_spec(struct run *r, struct buf *buf, const struct spec *s, double d)
{
    int64_t precision = s->has_precision ? s->precision : 6, extra = 0;
    bool upper = s->type >= 'A' && s->type <= 'Z';
    CLEANUP(buf_done) struct buf text = {0};
    struct spec plain = *s;
    char fmt[16];

    if (precision > INT32_MAX || run_text_fits(r, precision) < 0)
        return raise(r, JINJA_VALUE_ERROR, "precision too big");
    if (isnan(d) || isinf(d)) {
        plain.zero = false;
        return put_padded(r, buf, isnan(d) ? &plain : s, sign_of(s, !isnan(d) && d < 0), "",
                          str_from(isnan(d) ? (upper ? "NAN" : "nan") : (upper ? "INF" : "inf")));
    }
    if (precision > PRECISION_MAX + 700) { /* beyond that only zeros follow */
        extra = precision - (PRECISION_MAX + 700);
        precision = PRECISION_MAX + 700;
    }
    snprintf(fmt, sizeof(fmt), "%%%s.*%c", s->alt ? "#" : "", s->type);
    buf_printf(&text, fmt, (int)precision, fabs(d));
    if (extra && (s->type == 'f' || s->type == 'F'))
        for (; extra; extra--)
            buf_putc(&text, '0');
    return put_padded(r, buf, s, sign_of(s, signbit(d)), "", buf_view(&text));
}

/* ---- one conversion ---- */

static int put_text(struct run *r, struct buf *buf, const struct spec *s, struct str text)
{
    struct spec plain = *s;

    plain.zero = false;
    if (s->has_precision)
        text.len = utf8_offset(text, (size_t)(s->precision < 0 ? 0 : s->precision));
    return put_padded(r, buf, &plain, "", "", text);
}

static void put_ascii(struct buf *buf, struct str s)
{
    const char *at = s.s, *end = s.s + s.len;

    while (at < end) {
        uint32_t cp = utf8_next(&at, end);

        if (cp < 0x80)
            buf_putc(buf, (char)cp);
        else
            buf_printf(buf, cp <= 0xff ? "\\x%02x" : cp <= 0xffff ? "\\u%04x" : "\\U%08x", cp);
    }
}

static int convert_text(struct run *r, struct buf *buf, const struct spec *s, const struct args *a,
                        struct jv v)
{
    struct text t = text_begin(r);
    struct jv text;

    if (s->type == 's') {
        text_drop(&t);
        if (a->markup ? to_escaped(r, v, &text) < 0 : to_str(r, v, &text) < 0)
            return -1;
        return put_text(r, buf, s, jv_view(text));
    }
    if (put_repr(r, &r->scratch, v) < 0 || text_end(&t, &text) < 0)
        return -1;
    if (s->type == 'a') {
        t = text_begin(r);
        put_ascii(&r->scratch, jv_view(text));
        if (text_end(&t, &text) < 0)
            return -1;
    }
    if (a->markup && to_escaped(r, text, &text) < 0)
        return -1;
    return put_text(r, buf, s, jv_view(text));
}

static int convert_char(struct run *r, struct buf *buf, const struct spec *s, struct jv v)
{
    char text[4] = {0};
    int64_t cp;
    size_t n;

    if (v.type == JV_STR) {
        if (utf8_count(jv_view(v)) != 1)
            return raise(r, JINJA_TYPE_ERROR, "%%c requires int or char");
        return put_text(r, buf, s, jv_view(v));
    }
    if (!jv_is_int(v))
        return raise(r, JINJA_TYPE_ERROR, "%%c requires int or char");
    if (to_index(r, v, &cp) < 0)
        return -1;
    if (cp < 0 || cp > 0x10ffff)
        return raise(r, JINJA_OVERFLOW_ERROR, "%%c arg not in range(0x110000)");
    n = utf8_put(text, (uint32_t)cp);
    return put_text(r, buf, s, (struct str){text, n});
}

static int convert_number(struct run *r, struct buf *buf, const struct spec *s, const struct args *a,
                          struct jv v)
{
    bool whole = strchr("diu", s->type) != NULL, base = strchr("oxX", s->type) != NULL;
    double d;

    if (v.type == JV_UNDEF && !base)
        return raise_undef(r, v);
    if (a->markup && base) /* the escaping helper has __int__ and __float__ only */
        return raise(r, JINJA_TYPE_ERROR, "%%%c format: an integer is required, not _MarkupEscapeHelper",
                     s->type);
    if (!jv_is_number(v) || (base && v.type == JV_FLOAT)) {
        if (a->markup && v.type == JV_STR) {
            if (whole && num_parse_int(r, jv_view(v), 10, &v) == 1)
                return put_int_spec(r, buf, s, v);
            if (!whole && num_parse_float(jv_view(v), &d))
                return put_float_spec(r, buf, s, d);
            return raise(r, JINJA_VALUE_ERROR, "invalid literal");
        }
        if (whole || base)
            return raise(r, JINJA_TYPE_ERROR, "%%%c format: %s is required, not %s", s->type,
                         whole ? "a real number" : "an integer", jv_type_name(v));
        return raise(r, JINJA_TYPE_ERROR, "must be real number, not %s", jv_type_name(v));
    }
    if (whole || base) {
        if (v.type == JV_FLOAT && num_from_double(r, v.d, &v) < 0)
            return -1;
        return put_int_spec(r, buf, s, v);
    }
    if (!num_to_double(v, &d))
        return raise(r, JINJA_OVERFLOW_ERROR, "int too large to convert to float");
    return put_float_spec(r, buf, s, d);
}

static int convert(struct run *r, struct buf *buf, const struct spec *s, const struct args *a, struct jv v)
{
    switch (s->type) {
    case 's':
    case 'r':
    case 'a':
        return convert_text(r, buf, s, a, v);
    case 'c':
        return convert_char(r, buf, s, v);
    default:
        return convert_number(r, buf, s, a, v);
    }
}

/* ---- the format string ---- */

static int star_or_number(struct run *r, struct args *a, const char **at, const char *end, int64_t *ret)
{
    struct jv v;

    *ret = 0;
    if (*at < end && **at == '*') {
        ++*at;
        if (next_arg(r, a, &v) < 0)
            return -1;
        if (!jv_is_int(v))
            return raise(r, JINJA_TYPE_ERROR, "* wants int");
        return to_index(r, v, ret);
    }
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        *ret = *ret * 10 + (**at - '0');
        if (*ret > INT32_MAX)
            return raise(r, JINJA_VALUE_ERROR, "width too big");
    }
    return 0;
}

static void read_flags(struct spec *s, const char **at, const char *end)
{
    for (; *at < end; ++*at) {
        switch (**at) {
        case '-':
            s->left = true;
            break;
        case '+':
            s->plus = true;
            break;
        case ' ':
            s->space = true;
            break;
        case '#':
            s->alt = true;
            break;
        case '0':
            s->zero = true;
            break;
        default:
            return;
        }
    }
}

/* "%(name)": the value of that key. */
static int named_arg(struct run *r, struct args *a, const char **at, const char *end, struct jv *ret)
{
    const char *start = ++*at;
    struct jv key;
    int depth = 1, found;

    for (; *at < end && depth; ++*at)
        depth += **at == '(' ? 1 : **at == ')' ? -1 : 0;
    if (depth)
        return raise(r, JINJA_VALUE_ERROR, "incomplete format key");
    if (a->values.type == JV_UNDEF)
        return raise_undef(r, a->values);
    if (a->values.type != JV_DICT)
        return raise(r, JINJA_TYPE_ERROR, "format requires a mapping");
    key = jv_str((struct str){start, (size_t)(*at - 1 - start)});
    found = dict_get(r, a->values.dict, key, ret);
    if (found == 0)
        return raise(r, JINJA_KEY_ERROR, "%s", repr_brief(r, key));
    a->used = true;
    return found < 0 ? -1 : 0;
}

static int one_conversion(struct run *r, struct buf *buf, struct args *a, const char **at, const char *end)
{
    struct spec s = {0};
    struct jv v = JV_NULL;

    if (*at < end && **at == '(' && named_arg(r, a, at, end, &v) < 0)
        return -1;
    read_flags(&s, at, end);
    if (star_or_number(r, a, at, end, &s.width) < 0)
        return -1;
    if (s.width < 0) {
        s.left = true;
        s.width = -s.width;
    }
    if (*at < end && **at == '.') {
        ++*at;
        s.has_precision = true;
        if (star_or_number(r, a, at, end, &s.precision) < 0)
            return -1;
        s.precision = s.precision < 0 ? 0 : s.precision;
    }
    while (*at < end && strchr("hlL", **at))
        ++*at;
    if (*at >= end)
        return raise(r, JINJA_VALUE_ERROR, "incomplete format");
    s.type = *(*at)++;
    if (s.type == '%') {
        buf_putc(buf, '%');
        return 0;
    }
    if (!s.type || !strchr("srcdiuoxXeEfFgGa", s.type))
        return raise(r, JINJA_VALUE_ERROR, "unsupported format character '%c' (0x%x)", s.type,
                     (unsigned char)s.type);
    if (v.type == JV_MISSING && next_arg(r, a, &v) < 0)
        return -1;
    if (s.left)
        s.zero = false;
    return convert(r, buf, &s, a, v);
}

static int put_percent(struct run *r, struct buf *buf, struct str fmt, struct args *a)
{
    const char *at = fmt.s, *end = fmt.s + fmt.len, *pct;

    while ((pct = memchr(at, '%', (size_t)(end - at)))) {
        buf_add(buf, at, (size_t)(pct - at));
        at = pct + 1;
        if (one_conversion(r, buf, a, &at, end) < 0 || run_text_fits(r, (int64_t)buf->len) < 0 ||
            charge(r, 1) < 0)
            return -1;
    }
    buf_add(buf, at, (size_t)(end - at));
    if (a->tuple
            ? a->at < a->tuple->len
            : !a->used && a->values.type != JV_DICT && a->values.type != JV_LIST &&
                  a->values.type != JV_RANGE && a->values.type != JV_BYTES && !(a->values.type == JV_UNDEF))
        return raise(r, JINJA_TYPE_ERROR, "not all arguments converted during string formatting");
    return 0;
}

int format_percent(struct run *r, struct jv fmt, struct jv values, struct jv *ret)
{
    struct args a = {.values = values, .markup = jv_is_markup(fmt)};
    CLEANUP(buf_done) struct buf text = {0};

    if (values.type == JV_TUPLE) {
        list_expand(r, values.list);
        a.tuple = values.list;
    }
    if (put_percent(r, &text, jv_view(fmt), &a) < 0 || run_copy(r, buf_view(&text), ret) < 0)
        return -1;
    ret->flags = fmt.flags & JV_MARKUP;
    return 0;
}
