/* number.c - Python's arithmetic: 64-bit integers while they fit, then bigint; floats by C's doubles. */
#include "jinja/bigint.h"
#include "jinja/run.h"
#include "jinja/unicode.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

bool num_to_double(struct jv v, double *ret)
{
    if (v.type == JV_FLOAT)
        *ret = v.d;
    else if (v.type == JV_BIG)
        return big_to_double(v, ret);
    else
        *ret = (double)jv_small(v);
    return true;
}

static int int_cmp_double(int64_t a, double b)
{
    double whole;

    if (b >= 9223372036854775808.0)
        return -1;
    if (b < -9223372036854775808.0)
        return 1;
    whole = trunc(b);
    if (a != (int64_t)whole)
        return a < (int64_t)whole ? -1 : 1;
    return b > whole ? -1 : b < whole ? 1 : 0;
}

int num_cmp(struct jv a, struct jv b)
{
    if (a.type == JV_FLOAT && b.type == JV_FLOAT)
        return isnan(a.d) || isnan(b.d) ? 2 : a.d < b.d ? -1 : a.d > b.d;
    if (a.type == JV_FLOAT) {
        int order = num_cmp(b, a);

        return order == 2 ? 2 : -order;
    }
    if (b.type == JV_FLOAT) {
        if (isnan(b.d))
            return 2;
        if (isinf(b.d))
            return b.d > 0 ? -1 : 1;
        return a.type == JV_BIG ? big_cmp_double(a, b.d) : int_cmp_double(jv_small(a), b.d);
    }
    if (a.type == JV_BIG || b.type == JV_BIG)
        return big_cmp(a, b);
    return jv_small(a) < jv_small(b) ? -1 : jv_small(a) > jv_small(b);
}

static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;

    return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

static int64_t floor_mod(int64_t a, int64_t b)
{
    int64_t m = a % b;

    return m != 0 && (m < 0) != (b < 0) ? m + b : m;
}

/* 1 done, 0 does not fit, -1 raised. */
static int small_arith(struct run *r, enum arith op, int64_t a, int64_t b, struct jv *ret)
{
    int64_t n = 0;

    switch (op) {
    case ARITH_ADD:
        if (__builtin_add_overflow(a, b, &n))
            return 0;
        break;
    case ARITH_SUB:
        if (__builtin_sub_overflow(a, b, &n))
            return 0;
        break;
    case ARITH_MUL:
        if (__builtin_mul_overflow(a, b, &n))
            return 0;
        break;
    case ARITH_FLOORDIV:
    case ARITH_MOD:
        if (b == 0)
            return raise(r, JINJA_ZERO_DIVISION_ERROR, "integer division or modulo by zero");
        if (b == -1)
            return op == ARITH_MOD ? (*ret = JV_OF_INT(0), 1) : small_arith(r, ARITH_SUB, 0, a, ret);
        n = op == ARITH_MOD ? floor_mod(a, b) : floor_div(a, b);
        break;
    default:
        return 0;
    }
    *ret = JV_OF_INT(n);
    return 1;
}

static double float_mod(double a, double b)
{
    double m = fmod(a, b);

    if (m != 0)
        return (b < 0) != (m < 0) ? m + b : m;
    return copysign(0.0, b);
}

static double float_floordiv(double a, double b)
{
    double m = fmod(a, b), div = (a - m) / b, whole;

    if (m != 0 && (b < 0) != (m < 0))
        div -= 1.0;
    if (div == 0)
        return copysign(0.0, a / b);
    whole = floor(div);
    return div - whole > 0.5 ? whole + 1.0 : whole;
}

static int float_pow(struct run *r, double a, double b, struct jv *ret)
{
    double d;

    if (a == 0 && b < 0)
        return raise(r, JINJA_ZERO_DIVISION_ERROR, "0.0 cannot be raised to a negative power");
    if (a < 0 && isfinite(a) && isfinite(b) && floor(b) != b)
        return raise(r, JINJA_TYPE_ERROR, "complex numbers are not supported");
    d = pow(a, b);
    if (isinf(d) && isfinite(a) && isfinite(b))
        return raise(r, JINJA_OVERFLOW_ERROR, "(34, 'Numerical result out of range')");
    *ret = JV_OF_REAL(d);
    return 0;
}

static int float_arith(struct run *r, enum arith op, double a, double b, struct jv *ret)
{
    if ((op == ARITH_DIV || op == ARITH_FLOORDIV || op == ARITH_MOD) && b == 0)
        return raise(r, JINJA_ZERO_DIVISION_ERROR, "%s",
                     op == ARITH_DIV        ? "float division by zero"
                     : op == ARITH_FLOORDIV ? "float floor division by zero"
                                            : "float modulo");
    switch (op) {
    case ARITH_ADD:
        *ret = JV_OF_REAL(a + b);
        return 0;
    case ARITH_SUB:
        *ret = JV_OF_REAL(a - b);
        return 0;
    case ARITH_MUL:
        *ret = JV_OF_REAL(a * b);
        return 0;
    case ARITH_DIV:
        *ret = JV_OF_REAL(a / b);
        return 0;
    case ARITH_FLOORDIV:
        *ret = JV_OF_REAL(float_floordiv(a, b));
        return 0;
    case ARITH_MOD:
        *ret = JV_OF_REAL(float_mod(a, b));
        return 0;
    default:
        return float_pow(r, a, b, ret);
    }
}

static int both_doubles(struct run *r, struct jv a, struct jv b, double *x, double *y)
{
    if (!num_to_double(a, x) || !num_to_double(b, y))
        return raise(r, JINJA_OVERFLOW_ERROR, "int too large to convert to float");
    return 0;
}

static bool exact_double(struct jv v)
{
    return v.type != JV_BIG && jv_small(v) <= (INT64_C(1) << 53) && jv_small(v) >= -(INT64_C(1) << 53);
}

static bool is_negative(struct jv v)
{
    return v.type == JV_BIG ? v.big->neg : jv_small(v) < 0;
}

int num_arith(struct run *r, enum arith op, struct jv a, struct jv b, struct jv *ret)
{
    double x, y;
    int done;

    if (a.type == JV_FLOAT || b.type == JV_FLOAT)
        return both_doubles(r, a, b, &x, &y) < 0 ? -1 : float_arith(r, op, x, y, ret);
    if (op == ARITH_DIV) {
        if (!exact_double(a) || !exact_double(b))
            return big_truediv(r, a, b, ret);
        if (jv_small(b) == 0)
            return raise(r, JINJA_ZERO_DIVISION_ERROR, "division by zero");
        *ret = JV_OF_REAL((double)jv_small(a) / (double)jv_small(b));
        return 0;
    }
    if (op == ARITH_POW && is_negative(b))
        return both_doubles(r, a, b, &x, &y) < 0 ? -1 : float_pow(r, x, y, ret);
    if (a.type != JV_BIG && b.type != JV_BIG) {
        done = small_arith(r, op, jv_small(a), jv_small(b), ret);
        if (done != 0)
            return done < 0 ? -1 : 0;
    }
    return big_arith(r, op, a, b, ret);
}

int num_neg(struct run *r, struct jv v, struct jv *ret)
{
    if (v.type == JV_FLOAT) {
        *ret = JV_OF_REAL(-v.d);
        return 0;
    }
    return num_arith(r, ARITH_SUB, JV_OF_INT(0), v, ret);
}

int num_abs(struct run *r, struct jv v, struct jv *ret)
{
    if (v.type == JV_FLOAT) {
        *ret = JV_OF_REAL(fabs(v.d));
        return 0;
    }
    if (is_negative(v))
        return num_neg(r, v, ret);
    *ret = v.type == JV_BOOL ? JV_OF_INT(v.b) : v;
    return 0;
}

int num_from_double(struct run *r, double d, struct jv *ret)
{
    if (isnan(d))
        return raise(r, JINJA_VALUE_ERROR, "cannot convert float NaN to integer");
    if (isinf(d))
        return raise(r, JINJA_OVERFLOW_ERROR, "cannot convert float infinity to integer");
    return big_from_double(r, d, ret);
}

/* ---- reading ---- */

static struct str trim_space(struct str s)
{
    const char *at = s.s, *end = s.s + s.len, *p;

    while (at < end) {
        p = at;
        if (!unicode_is(utf8_next(&p, end), UNI_SPACE))
            break;
        at = p;
    }
    while (end > at) {
        p = end;
        if (!unicode_is(utf8_before(at, &p), UNI_SPACE))
            break;
        end = p;
    }
    return (struct str){at, (size_t)(end - at)};
}

static int digit_value(uint32_t cp)
{
    if (cp < 0x80) {
        if (cp >= '0' && cp <= '9')
            return (int)cp - '0';
        cp |= 0x20;
        return cp >= 'a' && cp <= 'z' ? (int)cp - 'a' + 10 : -1;
    }
    return unicode_is(cp, UNI_DECIMAL) ? unicode_of(cp)->decimal : -1;
}

static int base_prefix(struct str s)
{
    if (s.len < 2 || s.s[0] != '0')
        return 0;
    switch (s.s[1] | 0x20) {
    case 'x':
        return 16;
    case 'o':
        return 8;
    case 'b':
        return 2;
    default:
        return 0;
    }
}

static bool all_zero(const uint8_t *digits, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (digits[i])
            return false;
    return true;
}

/* Digits with single underscores between them. Their number; 0 when it is no number. */
static size_t read_digits(struct str s, int base, bool after_prefix, uint8_t *digits)
{
    const char *at = s.s, *end = s.s + s.len;
    bool was_digit = after_prefix;
    size_t n = 0;

    while (at < end) {
        uint32_t cp = utf8_next(&at, end);
        int d = digit_value(cp);

        if (cp == '_' && was_digit) {
            was_digit = false;
            continue;
        }
        if (d < 0 || d >= base)
            return 0;
        digits[n++] = (uint8_t)d;
        was_digit = true;
    }
    return was_digit ? n : 0;
}

int num_parse_int(struct run *r, struct str s, int base, struct jv *ret)
{
    uint8_t stack[64], *digits = stack;
    bool neg = false, prefixed = false;
    uint64_t small = 0;
    size_t n;

    s = trim_space(s);
    if (s.len && (*s.s == '+' || *s.s == '-')) {
        neg = *s.s == '-';
        s = (struct str){s.s + 1, s.len - 1};
    }
    prefixed = base_prefix(s) && (base == 0 || base == base_prefix(s));
    if (prefixed) {
        base = base_prefix(s);
        s = (struct str){s.s + 2, s.len - 2};
    }
    if (s.len > sizeof(stack))
        digits = run_alloc(r, s.len);
    n = read_digits(s, base ? base : 10, prefixed, digits);
    if (n == 0 || (base == 0 && digits[0] == 0 && !all_zero(digits, n)))
        return 0;
    if (n > 4300 && (base == 0 || base == 10))
        return raise(r, JINJA_VALUE_ERROR, "Exceeds the limit (4300 digits) for integer string conversion");
    if (n > 12)
        return big_from_digits(r, digits, n, (unsigned)(base ? base : 10), neg, ret) < 0 ? -1 : 1;
    for (size_t i = 0; i < n; i++)
        small = small * (unsigned)(base ? base : 10) + digits[i];
    *ret = JV_OF_INT(neg ? -(int64_t)small : (int64_t)small);
    return 1;
}

/* Only what Python's float() reads: no hexadecimal, underscores between digits only. */
static bool float_syntax(const char *p)
{
    bool digits = false;

    if (*p == '+' || *p == '-')
        p++;
    if (strcasecmp(p, "inf") == 0 || strcasecmp(p, "infinity") == 0 || strcasecmp(p, "nan") == 0)
        return true;
    for (; *p >= '0' && *p <= '9'; p++)
        digits = true;
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9'; p++)
            digits = true;
    if (!digits)
        return false;
    if (*p == 'e' || *p == 'E') {
        p++;
        if (*p == '+' || *p == '-')
            p++;
        if (*p < '0' || *p > '9')
            return false;
        while (*p >= '0' && *p <= '9')
            p++;
    }
    return *p == '\0';
}

bool num_parse_float(struct str s, double *ret)
{
    CLEANUP(buf_done) struct buf text = {0};
    const char *at, *end;
    uint32_t last = 0;

    s = trim_space(s);
    at = s.s;
    end = s.s + s.len;
    while (at < end) {
        uint32_t cp = utf8_next(&at, end);
        int d = cp >= 0x80 || (cp >= '0' && cp <= '9') ? digit_value(cp) : -1;

        if (cp == '_' ? last > '9' || last < '0' || at == end || *at < '0' || *at > '9' : cp >= 0x80 && d < 0)
            return false;
        last = d >= 0 ? (uint32_t)d + '0' : cp;
        if (cp != '_')
            buf_putc(&text, (char)last);
    }
    if (!text.data || strlen(text.data) != text.len || !float_syntax(text.data))
        return false;
    *ret = strtod(text.data, NULL);
    return true;
}

/* ---- rounding ---- */

static int round_float(struct run *r, double d, int64_t digits, struct jv *ret)
{
    char text[400];
    double rounded;

    if (!isfinite(d) || digits > 323) {
        *ret = JV_OF_REAL(d);
        return 0;
    }
    if (digits < -308) {
        *ret = JV_OF_REAL(copysign(0.0, d));
        return 0;
    }
    if (digits >= 0) {
        snprintf(text, sizeof(text), "%.*f", (int)(digits < 340 ? digits : 340), d);
        rounded = fabs(d) < 1e40 ? strtod(text, NULL) : d;
    } else {
        /* the decimal with fewer digits that lies nearest: printed with an exponent, half to even */
        int exponent;
        double scale = pow(10, (double)-digits), q = d / scale, even = nearbyint(q);

        if (fabs(q - floor(q) - 0.5) > 1e-9 || fabs(q) > 1e15) {
            snprintf(text, sizeof(text), "%.30e", d);
            exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
            if (exponent + digits < 0) {
                rounded = fabs(d) > 0.5 * scale ? copysign(scale, d) : copysign(0.0, d);
                *ret = JV_OF_REAL(rounded);
                return 0;
            }
            snprintf(text, sizeof(text), "%.*e", (int)(exponent + digits), d);
            rounded = strtod(text, NULL);
        } else {
            rounded = even * scale;
        }
    }
    if (isinf(rounded))
        return raise(r, JINJA_OVERFLOW_ERROR, "rounded value too large to represent");
    *ret = JV_OF_REAL(rounded);
    return 0;
}

static int round_int(struct run *r, struct jv v, int64_t digits, struct jv *ret)
{
    struct jv scale, quot, rest, twice;
    int order;

    if (digits >= 0) {
        *ret = v.type == JV_BOOL ? JV_OF_INT(v.b) : v;
        return 0;
    }
    if (-digits > 25000)
        return raise_limit(r, "integer size");
    if (num_arith(r, ARITH_POW, JV_OF_INT(10), JV_OF_INT(-digits), &scale) < 0 ||
        num_arith(r, ARITH_FLOORDIV, v, scale, &quot) < 0 || num_arith(r, ARITH_MOD, v, scale, &rest) < 0 ||
        num_arith(r, ARITH_ADD, rest, rest, &twice) < 0)
        return -1;
    order = num_cmp(twice, scale);
    if (order == 0) { /* half: to even */
        if (num_arith(r, ARITH_MOD, quot, JV_OF_INT(2), &rest) < 0)
            return -1;
        order = rest.i ? 1 : -1;
    }
    if (order > 0 && num_arith(r, ARITH_ADD, quot, JV_OF_INT(1), &quot) < 0)
        return -1;
    return num_arith(r, ARITH_MUL, quot, scale, ret);
}

int num_round(struct run *r, struct jv v, struct jv digits, struct jv *ret)
{
    int64_t n;

    if (!jv_is_number(v))
        return raise(r, JINJA_TYPE_ERROR, "type %s doesn't define __round__ method",
                     v.type == JV_UNDEF && r->strict ? "StrictUndefined" : jv_type_name(v));
    if (to_index(r, digits, &n) < 0)
        return -1;
    return v.type == JV_FLOAT ? round_float(r, v.d, n, ret) : round_int(r, v, n, ret);
}

int to_index(struct run *r, struct jv v, int64_t *ret)
{
    if (v.type == JV_BIG)
        *ret = v.big->neg ? INT64_MIN / 4 : INT64_MAX / 4;
    else if (jv_is_int(v))
        *ret = jv_small(v);
    else
        return raise(r, JINJA_TYPE_ERROR, "'%s' object cannot be interpreted as an integer",
                     v.type == JV_UNDEF && undef_is_strict(r, v) ? "StrictUndefined" : jv_type_name(v));
    if (*ret > INT64_MAX / 4)
        *ret = INT64_MAX / 4;
    if (*ret < INT64_MIN / 4)
        *ret = INT64_MIN / 4;
    return 0;
}

/* ---- writing ---- */

int put_int(struct run *r, struct buf *buf, struct jv v)
{
    if (v.type == JV_BIG)
        return big_put(r, buf, v, 10, false);
    buf_int(buf, jv_small(v));
    return 0;
}

int put_int_base(struct run *r, struct buf *buf, struct jv v, unsigned base, bool upper)
{
    return base == 10 ? put_int(r, buf, v) : big_put(r, buf, v, base, upper);
}

/* The fewest digits that read back the same, as "d.ddde±x" in text. */
static void shortest(double d, char *text, size_t size)
{
    int first = fabs(d) < 2.3e-308 ? 0 : 14;

    for (int digits = first; digits <= 16; digits++) {
        snprintf(text, size, "%.*e", digits, d);
        if (strtod(text, NULL) == d)
            return;
    }
}

/* Short decimals without printf: n / 10^k is correctly rounded as long as both are exact, so the first k for
 * which it gives d back has the fewest digits. */
static bool put_short_float(struct buf *buf, double d)
{
    static const double powers[] = {1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10};
    double n;

    if (!(d >= 1e-4 && d < 1e11))
        return false;
    for (int k = 0; k <= 10; k++) {
        n = nearbyint(d * powers[k]);
        if (n >= 1e15)
            return false;
        if (n / powers[k] != d)
            continue;
        char digits[24], *p = digits + sizeof(digits);
        uint64_t whole = (uint64_t)n;

        for (int i = 0; i < (k ? k : 1); i++) {
            *--p = (char)(k ? '0' + whole % 10 : '0');
            whole = k ? whole / 10 : whole;
        }
        *--p = '.';
        do {
            *--p = (char)('0' + whole % 10);
        } while (whole /= 10);
        buf_add(buf, p, (size_t)(digits + sizeof(digits) - p));
        return true;
    }
    return false;
}

void put_float(struct buf *buf, double d)
{
    char text[40], digits[24] = "0", *e;
    int exponent, n = 0;

    if (isnan(d) || isinf(d)) {
        buf_puts(buf, isnan(d) ? "nan" : d < 0 ? "-inf" : "inf");
        return;
    }
    if (signbit(d))
        buf_putc(buf, '-');
    if (put_short_float(buf, fabs(d)))
        return;
    shortest(fabs(d), text, sizeof(text));
    e = strchr(text, 'e');
    exponent = (int)strtol(e + 1, NULL, 10);
    for (char *p = text; p < e; p++)
        if (*p >= '0' && *p <= '9')
            digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0')
        n--;
    if (exponent < -4 || exponent >= 16) {
        buf_putc(buf, digits[0]);
        if (n > 1)
            buf_putc(buf, '.');
        buf_add(buf, digits + 1, (size_t)n - 1);
        buf_printf(buf, "e%c%02d", exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    if (exponent < 0) {
        buf_puts(buf, "0.");
        for (int i = -1; i > exponent; i--)
            buf_putc(buf, '0');
        buf_add(buf, digits, (size_t)n);
        return;
    }
    for (int i = 0; i <= exponent || i < n || i == exponent + 1; i++) {
        if (i == exponent + 1)
            buf_putc(buf, '.');
        buf_putc(buf, i < n ? digits[i] : '0');
    }
}
