/* strformat.c - "{}".format(): fields, their items and indices (attributes as the sandbox allows), and the
 * format mini-language. */
#include "jinja/bigint.h"
#include "jinja/run.h"
#include "jinja/unicode.h"

#include <math.h>
#include <stdio.h>

struct fspec {
    uint32_t fill;
    char align, sign, grouping, type; /* 0: not given */
    bool alt, zero, no_minus_zero, has_precision, has_width;
    int64_t width, precision;
};

static bool is_align(char c)
{
    return c == '<' || c == '>' || c == '=' || c == '^';
}

static int read_number(struct run *r, const char **at, const char *end, int64_t *ret)
{
    *ret = 0;
    for (; *at < end && **at >= '0' && **at <= '9'; ++*at) {
        *ret = *ret * 10 + (**at - '0');
        if (*ret > INT32_MAX)
            return raise(r, JINJA_VALUE_ERROR, "Too many decimal digits in format string");
    }
    return 0;
}

static int bad_spec(struct run *r, struct str spec, struct jv v)
{
    return raise(r, JINJA_VALUE_ERROR, "Invalid format specifier '%.*s' for object of type '%s'",
                 STR_ARG(spec), jv_type_name(v));
}

static int parse_spec(struct run *r, struct str text, struct jv v, struct fspec *s)
{
    const char *at = text.s, *end = text.s + text.len, *next = at;

    *s = (struct fspec){.fill = ' '};
    if (at < end) {
        uint32_t cp = utf8_next(&next, end);

        if (next < end && is_align(*next)) {
            s->fill = cp;
            s->align = *next;
            at = next + 1;
        } else if (is_align(*at)) {
            s->align = *at++;
        }
    }
    if (at < end && (*at == '+' || *at == '-' || *at == ' '))
        s->sign = *at++;
    if (at < end && *at == 'z') {
        s->no_minus_zero = true;
        at++;
    }
    if (at < end && *at == '#') {
        s->alt = true;
        at++;
    }
    if (at < end && *at == '0' && !s->align) {
        s->zero = true;
        s->fill = '0';
        s->align = v.type == JV_STR ? '<' : '=';
        at++;
    } else if (at < end && *at == '0') {
        s->fill = s->fill == ' ' && text.len && text.s[0] != ' ' ? '0' : s->fill;
        at++;
    }
    s->has_width = at < end && *at >= '0' && *at <= '9';
    if (read_number(r, &at, end, &s->width) < 0)
        return -1;
    if (at < end && (*at == ',' || *at == '_')) {
        s->grouping = *at++;
        if (at < end && (*at == ',' || *at == '_'))
            return raise(r, JINJA_VALUE_ERROR, "Cannot specify both ',' and '_'.");
    }
    if (at < end && *at == '.') {
        at++;
        if (at >= end || *at < '0' || *at > '9')
            return raise(r, JINJA_VALUE_ERROR, "Format specifier missing precision");
        s->has_precision = true;
        if (read_number(r, &at, end, &s->precision) < 0)
            return -1;
    }
    if (at < end)
        s->type = *at++;
    return at < end ? bad_spec(r, text, v) : 0;
}

static void put_fill_char(struct buf *buf, uint32_t cp, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        unicode_put(buf, cp);
}

/* sign and prefix stay before '=' padding */
static int put_aligned(struct run *r, struct buf *buf, const struct fspec *s, char fallback, const char *lead,
                       struct str body)
{
    int64_t pad = s->width - (int64_t)(strlen(lead) + utf8_count(body)), left;
    char align = s->align ? s->align : fallback;

    if (run_text_fits(r, s->width) < 0)
        return -1;
    pad = pad < 0 ? 0 : pad;
    left = align == '<' ? 0 : align == '^' ? pad / 2 : pad;
    if (align != '=')
        put_fill_char(buf, s->fill, left);
    buf_puts(buf, lead);
    if (align == '=')
        put_fill_char(buf, s->fill, pad);
    buf_add(buf, body.s, body.len);
    if (align != '=')
        put_fill_char(buf, s->fill, pad - left);
    return 0;
}

/* Separators into the digits; with '=' and zero fill, zeros up to the width get them, too. */
static void put_grouped(struct buf *to, const struct fspec *s, struct str digits, int64_t min_width,
                        unsigned group)
{
    CLEANUP(buf_done) struct buf reversed = {0};
    size_t n = 0, i = digits.len;

    while (i > 0 || (int64_t)reversed.len < min_width) {
        if (n && n % group == 0) {
            if (i == 0 && (int64_t)reversed.len + 1 >= min_width && (int64_t)reversed.len >= min_width)
                break;
            buf_putc(&reversed, s->grouping);
        }
        buf_putc(&reversed, i > 0 ? digits.s[--i] : '0');
        n++;
    }
    for (size_t k = reversed.len; k-- > 0;)
        buf_putc(to, reversed.data[k]);
}

static int put_number(struct run *r, struct buf *buf, const struct fspec *s, bool negative,
                      const char *prefix, struct str digits, struct str rest, unsigned group)
{
    CLEANUP(buf_done) struct buf body = {0};
    char lead[4] = {0};
    int64_t min_width = 0;

    snprintf(lead, sizeof(lead), "%s%s",
             negative         ? "-"
             : s->sign == '+' ? "+"
             : s->sign == ' ' ? " "
                              : "",
             prefix);
    if (s->grouping) {
        if (s->fill == '0' && s->align == '=')
            min_width = s->width - (int64_t)strlen(lead) - (int64_t)rest.len;
        if (run_text_fits(r, min_width) < 0)
            return -1;
        put_grouped(&body, s, digits, min_width, group);
    } else {
        buf_add(&body, digits.s, digits.len);
    }
    buf_add(&body, rest.s, rest.len);
    return put_aligned(r, buf, s, '>', lead, buf_view(&body));
}

static int format_float(struct run *r, struct buf *buf, const struct fspec *s, struct jv v);

static int unknown_code(struct run *r, const struct fspec *s, struct jv v)
{
    return raise(r, JINJA_VALUE_ERROR, "Unknown format code '%c' for object of type '%s'", s->type,
                 jv_type_name(v));
}

static int format_int(struct run *r, struct buf *buf, const struct fspec *s, struct jv v)
{
    CLEANUP(buf_done) struct buf digits = {0};
    unsigned base = s->type == 'b' ? 2 : s->type == 'o' ? 8 : s->type == 'x' || s->type == 'X' ? 16 : 10;
    const char *prefix = !s->alt || base == 10 ? ""
                         : base == 2           ? "0b"
                         : base == 8           ? "0o"
                         : s->type == 'X'      ? "0X"
                                               : "0x";
    bool negative;
    char text[4] = {0};
    int64_t cp;
    size_t n;

    if (s->type && strchr("eEfFgG%", s->type))
        return format_float(r, buf, s, v);
    if (s->type && !strchr("bcdnoxX", s->type))
        return unknown_code(r, s, v);
    if (s->has_precision)
        return raise(r, JINJA_VALUE_ERROR, "Precision not allowed in integer format specifier");
    if (s->grouping == ',' && s->type && s->type != 'd')
        return raise(r, JINJA_VALUE_ERROR, "Cannot specify ',' with '%c'.", s->type);
    if (s->type == 'c') {
        if (s->sign)
            return raise(r, JINJA_VALUE_ERROR, "Sign not allowed with integer format specifier 'c'");
        if (to_index(r, v, &cp) < 0)
            return -1;
        if (cp < 0 || cp > 0x10ffff)
            return raise(r, JINJA_OVERFLOW_ERROR, "%%c arg not in range(0x110000)");
        n = utf8_put(text, (uint32_t)cp);
        return put_aligned(r, buf, s, '<', "", (struct str){text, n});
    }
    if (put_int_base(r, &digits, v, base, s->type == 'X') < 0)
        return -1;
    negative = digits.data[0] == '-';
    return put_number(r, buf, s, negative, prefix,
                      (struct str){digits.data + negative, digits.len - negative}, STR(""),
                      base == 10 ? 3 : 4);
}

/* repr's digits: what an empty type gives. */
static void general_text(struct buf *text, const struct fspec *s, double d)
{
    if (!s->has_precision) {
        put_float(text, d);
        return;
    }
    buf_printf(text, "%.*g", (int)(s->precision ? s->precision : 1), d);
    if (!strpbrk(text->data, ".e") && text->len < (size_t)(s->precision ? s->precision : 1) + 1)
        buf_puts(text, ".0");
    /* an integer that fills the precision has an exponent in Python */
    if (!strpbrk(text->data, ".e") && (int64_t)text->len >= s->precision) {
        text->len = 0;
        buf_printf(text, "%.*e", (int)(s->precision ? s->precision - 1 : 0), d);
        char *e = strchr(text->data, 'e'), *p = e;

        while (memchr(text->data, '.', (size_t)(e - text->data)) && (p[-1] == '0' || p[-1] == '.') &&
               p[-2] != 'e') {
            p--;
            if (*p == '.')
                break;
        }
        memmove(p, e, strlen(e) + 1);
        text->len = strlen(text->data);
    }
}

static int format_float(struct run *r, struct buf *buf, const struct fspec *s, struct jv v)
{
    CLEANUP(buf_done) struct buf text = {0};
    size_t whole = 0;
    char fmt[16], type = s->type == '%' ? 'f' : s->type == 'n' ? 'g' : s->type;
    double d;
    bool negative;

    if (!num_to_double(v, &d))
        return raise(r, JINJA_OVERFLOW_ERROR, "int too large to convert to float");
    if (type && !strchr("eEfFgG", type))
        return unknown_code(r, s, v);
    if (s->has_precision && s->precision > 100000)
        return raise(r, JINJA_VALUE_ERROR, "precision too big");
    d = s->type == '%' ? d * 100 : d;
    negative = signbit(d) != 0 && !isnan(d);
    d = fabs(d);
    if (isnan(d) || isinf(d)) {
        buf_puts(&text, isnan(d) ? (type == 'E' || type == 'F' || type == 'G' ? "NAN" : "nan")
                                 : (type == 'E' || type == 'F' || type == 'G' ? "INF" : "inf"));
    } else if (!type) {
        general_text(&text, s, d);
    } else {
        snprintf(fmt, sizeof(fmt), "%%%s.*%c", s->alt ? "#" : "", type);
        buf_printf(&text, fmt, (int)(s->has_precision ? s->precision : 6), d);
    }
    if (s->no_minus_zero && negative && strtod(text.data, NULL) == 0)
        negative = false;
    if (s->type == '%')
        buf_putc(&text, '%');
    while (whole < text.len && text.data[whole] >= '0' && text.data[whole] <= '9')
        whole++;
    return put_number(r, buf, s, negative, "", (struct str){text.data, whole},
                      (struct str){text.data + whole, text.len - whole}, 3);
}

static int format_str(struct run *r, struct buf *buf, const struct fspec *s, struct jv v)
{
    struct str text = jv_view(v);

    if (s->type && s->type != 's')
        return unknown_code(r, s, v);
    if (s->sign)
        return raise(r, JINJA_VALUE_ERROR, "%s not allowed in string format specifier",
                     s->sign == ' ' ? "Space" : "Sign");
    if (s->alt)
        return raise(r, JINJA_VALUE_ERROR, "Alternate form (#) not allowed in string format specifier");
    if (s->grouping)
        return raise(r, JINJA_VALUE_ERROR, "Cannot specify '%c' with 's'.", s->grouping);
    if (s->align == '=')
        return raise(r, JINJA_VALUE_ERROR, "'=' alignment not allowed in string format specifier");
    if (s->has_precision)
        text.len = utf8_offset(text, (size_t)s->precision);
    return put_aligned(r, buf, s, '<', "", text);
}

int put_format_spec(struct run *r, struct buf *buf, struct jv v, struct str spec)
{
    struct fspec s;

    if (spec.len == 0)
        return put_str(r, buf, v);
    if (v.type != JV_STR && !jv_is_number(v)) {
        const char *name = v.type == JV_UNDEF && r->strict ? "StrictUndefined" : jv_type_name(v);

        return raise(r, JINJA_TYPE_ERROR, "unsupported format string passed to %s.__format__", name);
    }
    if (parse_spec(r, spec, v, &s) < 0)
        return -1;
    if (v.type == JV_STR)
        return format_str(r, buf, &s, v);
    return v.type == JV_FLOAT ? format_float(r, buf, &s, v) : format_int(r, buf, &s, v);
}

/* ---- fields ---- */

struct fields {
    struct call *c;
    struct jv mapping; /* of format_map; JV_MISSING: none */
    int64_t next;      /* automatic number; -1 once numbers are given */
    bool markup, manual;
};

static int field_value(struct run *r, struct fields *f, struct str name, struct jv *ret)
{
    int64_t index;
    int found = 0;

    if (name.len == 0) {
        if (f->manual)
            return raise(r, JINJA_VALUE_ERROR,
                         "cannot switch from manual field specification to automatic field numbering");
        index = f->next++;
    } else if (str_to_int(name, &index) && *name.s != '-') {
        if (f->next > 0)
            return raise(r, JINJA_VALUE_ERROR,
                         "cannot switch from automatic field numbering to manual field specification");
        f->manual = true;
    } else {
        if (f->mapping.type == JV_DICT)
            found = dict_get(r, f->mapping.dict, jv_str(name), ret);
        for (uint32_t i = 0; f->mapping.type == JV_MISSING && i < f->c->nkw; i++)
            if (str_eq(jv_view(f->c->kwname[i]), name)) {
                *ret = f->c->kwval[i];
                return 0;
            }
        if (f->mapping.type != JV_DICT && f->mapping.type != JV_MISSING)
            return raise(r, JINJA_TYPE_ERROR, "'%s' object is not subscriptable", jv_type_name(f->mapping));
        return found == 1 ? 0 : raise(r, JINJA_KEY_ERROR, "%s", repr_brief(r, jv_str(name)));
    }
    if (f->mapping.type != JV_MISSING || index >= f->c->npos)
        return raise(r, JINJA_INDEX_ERROR, "Replacement index %lld out of range for positional args tuple",
                     (long long)index);
    *ret = f->c->pos[index];
    return 0;
}

/* name(.attr|[item])* */
static int field_path(struct run *r, struct fields *f, struct str path, struct jv *ret)
{
    size_t i = 0, start;
    int64_t index;
    struct str part;

    while (i < path.len && path.s[i] != '.' && path.s[i] != '[')
        i++;
    if (field_value(r, f, (struct str){path.s, i}, ret) < 0)
        return -1;
    while (i < path.len) {
        bool item = path.s[i] == '[';

        if (!item && path.s[i] != '.')
            return raise(r, JINJA_VALUE_ERROR, "Only '.' or '[' may follow ']' in format field specifier");
        start = ++i;
        while (i < path.len && (item ? path.s[i] != ']' : path.s[i] != '.' && path.s[i] != '['))
            i++;
        if (item && i >= path.len)
            return raise(r, JINJA_VALUE_ERROR, "Missing ']' in format string");
        part = (struct str){path.s + start, i - start};
        if (part.len == 0)
            return raise(r, JINJA_VALUE_ERROR, "Empty attribute in format string");
        i += item;
        if (!item ? get_attr(r, *ret, part, ret) < 0
                  : get_item(r, *ret,
                             str_to_int(part, &index) && *part.s != '-' ? JV_OF_INT(index) : jv_str(part),
                             ret) < 0)
            return -1;
    }
    return 0;
}

static int put_fields(struct run *r, struct buf *buf, struct fields *f, struct str fmt, int depth);

static int convert_field(struct run *r, char conversion, struct jv *v)
{
    struct text t = text_begin(r);

    if (!conversion)
        return 0;
    if (conversion == 's')
        return to_str(r, *v, v);
    if (conversion != 'r' && conversion != 'a')
        return raise(r, JINJA_VALUE_ERROR, "Unknown conversion specifier %c", conversion);
    if (put_repr(r, &r->scratch, *v) < 0)
        return -1;
    return text_end(&t, v);
}

/* Into markup the result is escaped, unless the value is markup itself. */
static int put_escaped_field(struct run *r, struct buf *buf, struct jv v, struct str spec)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (jv_is_markup(v) && spec.len)
        return raise(r, JINJA_VALUE_ERROR, "Unsupported format specification for Markup.");
    if (put_format_spec(r, &text, v, spec) < 0)
        return -1;
    if (jv_is_markup(v) || v.type == JV_MODULE)
        buf_add(buf, text.data, text.len);
    else
        put_escaped(buf, buf_view(&text));
    return 0;
}

static int put_field(struct run *r, struct buf *buf, struct fields *f, struct str field, int depth)
{
    CLEANUP(buf_done) struct buf spec = {0};
    size_t i = 0, name_end;
    char conversion = '\0';
    int bracket = 0;
    struct jv v;

    for (; i < field.len && (bracket || (field.s[i] != '!' && field.s[i] != ':')); i++)
        bracket = field.s[i] == '[' ? 1 : field.s[i] == ']' ? 0 : bracket;
    name_end = i;
    if (i < field.len && field.s[i] == '!') {
        if (i + 1 >= field.len)
            return raise(r, JINJA_VALUE_ERROR, "end of string while looking for conversion specifier");
        conversion = field.s[i + 1];
        i += 2;
        if (i < field.len && field.s[i] != ':')
            return raise(r, JINJA_VALUE_ERROR, "expected ':' after conversion specifier");
    }
    if (field_path(r, f, (struct str){field.s, name_end}, &v) < 0 || convert_field(r, conversion, &v) < 0)
        return -1;
    if (i < field.len &&
        put_fields(r, &spec, f, (struct str){field.s + i + 1, field.len - i - 1}, depth + 1) < 0)
        return -1;
    return f->markup ? put_escaped_field(r, buf, v, buf_view(&spec))
                     : put_format_spec(r, buf, v, buf_view(&spec));
}

/* The end of the field that starts at i, behind its brace; 0: it has none. */
static size_t field_end(struct str fmt, size_t i)
{
    int depth = 1;

    for (; i < fmt.len; i++) {
        depth += fmt.s[i] == '{' ? 1 : fmt.s[i] == '}' ? -1 : 0;
        if (depth == 0)
            return i;
    }
    return 0;
}

static int put_fields(struct run *r, struct buf *buf, struct fields *f, struct str fmt, int depth)
{
    size_t i = 0, end;

    if (depth > 2)
        return raise(r, JINJA_VALUE_ERROR, "Max string recursion exceeded");
    while (i < fmt.len) {
        char c = fmt.s[i];

        if (run_text_fits(r, (int64_t)buf->len) < 0 || charge(r, 1) < 0)
            return -1;
        if (c != '{' && c != '}') {
            buf_putc(buf, c);
            i++;
        } else if (i + 1 < fmt.len && fmt.s[i + 1] == c && depth == 0) {
            buf_putc(buf, c);
            i += 2;
        } else if (c == '}') {
            return raise(r, JINJA_VALUE_ERROR, "Single '}' encountered in format string");
        } else {
            end = field_end(fmt, i + 1);
            if (!end)
                return raise(r, JINJA_VALUE_ERROR,
                             i + 1 < fmt.len ? "expected '}' before end of string"
                                             : "Single '{' encountered in format string");
            if (put_field(r, buf, f, (struct str){fmt.s + i + 1, end - i - 1}, depth) < 0)
                return -1;
            i = end + 1;
        }
    }
    return 0;
}

int format_method(struct run *r, struct jv fmt, struct call *c, struct jv mapping, struct jv *ret)
{
    struct fields f = {.c = c, .mapping = mapping, .markup = jv_is_markup(fmt)};
    CLEANUP(buf_done) struct buf text = {0};

    if (put_fields(r, &text, &f, jv_view(fmt), 0) < 0 || run_copy(r, buf_view(&text), ret) < 0)
        return -1;
    ret->flags = fmt.flags & JV_MARKUP;
    return 0;
}
