/* How it works: the text is cut into sign, digits, fraction and suffix; the digits become whole nanos in
 * 128 bits, anything finer is rounded away from zero, anything larger saturates. Written is always the
 * canonical form: no fraction, the largest suffix of the family that loses nothing. */
#include "objects/quantity.h"

#define NANOS        ((__int128)1000000000)
#define NANOS_MAX    ((__int128)(~(unsigned __int128)0 >> 1))
#define EXPONENT_MAX 10000 /* beyond it everything but zero saturates, or rounds up to one nano */
#define TEXT_MAX     4096

static const struct suffix {
    const char *text;
    enum quantity_format format;
    int exponent; /* of 10, or of 2 for BINARY_SI */
} suffixes[] = {
    {"", QUANTITY_DECIMAL_SI, 0},   {"n", QUANTITY_DECIMAL_SI, -9}, {"u", QUANTITY_DECIMAL_SI, -6},
    {"m", QUANTITY_DECIMAL_SI, -3}, {"k", QUANTITY_DECIMAL_SI, 3},  {"M", QUANTITY_DECIMAL_SI, 6},
    {"G", QUANTITY_DECIMAL_SI, 9},  {"T", QUANTITY_DECIMAL_SI, 12}, {"P", QUANTITY_DECIMAL_SI, 15},
    {"E", QUANTITY_DECIMAL_SI, 18}, {"Ki", QUANTITY_BINARY_SI, 10}, {"Mi", QUANTITY_BINARY_SI, 20},
    {"Gi", QUANTITY_BINARY_SI, 30}, {"Ti", QUANTITY_BINARY_SI, 40}, {"Pi", QUANTITY_BINARY_SI, 50},
    {"Ei", QUANTITY_BINARY_SI, 60},
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* "", "Mi", "e3", "E-2" */
static bool suffix_parse(struct str text, struct suffix *ret)
{
    int64_t n;

    for (const struct suffix *s = suffixes; s < suffixes + sizeof(suffixes) / sizeof(suffixes[0]); s++)
        if (str_is(text, s->text)) {
            *ret = *s;
            return true;
        }
    if (text.len < 2 || (text.s[0] != 'e' && text.s[0] != 'E'))
        return false;
    text = (struct str){text.s + 1, text.len - 1};
    if (text.s[0] == '+' && text.len > 1 && is_digit(text.s[1]))
        text = (struct str){text.s + 1, text.len - 1};
    if (!str_to_int(text, &n))
        return false;
    *ret = (struct suffix){"", QUANTITY_DECIMAL_EXPONENT,
                           n > EXPONENT_MAX    ? EXPONENT_MAX
                           : n < -EXPONENT_MAX ? -EXPONENT_MAX
                                               : (int)n};
    return true;
}

static __int128 mul_sat(__int128 a, __int128 b)
{
    __int128 r;

    if (!__builtin_mul_overflow(a, b, &r))
        return r;
    return (a < 0) == (b < 0) ? NANOS_MAX : -NANOS_MAX;
}

static __int128 add_sat(__int128 a, __int128 b)
{
    __int128 r;

    if (!__builtin_add_overflow(a, b, &r))
        return r;
    return a > 0 ? NANOS_MAX : -NANOS_MAX;
}

/* a / b, away from zero; b > 0 */
static __int128 div_up(__int128 a, __int128 b)
{
    __int128 q = a / b;

    if (a % b)
        q += a > 0 ? 1 : -1;
    return q;
}

/* digits × 10^exponent in nanos, not negative. A fraction of a nano counts as one. */
static __int128 decimal_nanos(struct str whole, struct str fraction, int exponent)
{
    __int128 n = 0;
    bool more = false;
    int scale = exponent + 9; /* of the digit before the point */

    for (size_t i = 0; i < whole.len + fraction.len; i++) {
        int digit = (i < whole.len ? whole.s[i] : fraction.s[i - whole.len]) - '0';
        int64_t place =
            (int64_t)whole.len - 1 - (int64_t)i + scale; /* power of ten of this digit, in nanos */

        if (place >= 0)
            n = add_sat(mul_sat(n, 10), digit);
        else
            more |= digit != 0;
    }
    /* powers of ten that no digit stood for */
    for (int64_t left = scale - (int64_t)fraction.len; left > 0 && n && n < NANOS_MAX; left--)
        n = mul_sat(n, 10);
    return more ? add_sat(n, 1) : n;
}

/* digits × 2^exponent in nanos. The digits are read as (whole × 10^k + fraction) / 10^k. */
static __int128 binary_nanos(struct str whole, struct str fraction, int exponent)
{
    __int128 limit = ((((__int128)1 << 63) - 1) * NANOS);
    __int128 n = 0, rest = 0, unit = 1, result;
    size_t used = fraction.len < 18 ? fraction.len : 18; /* digits below are under a nano, or rounded */
    bool more = false;

    for (size_t i = 0; i < whole.len; i++)
        n = add_sat(mul_sat(n, 10), whole.s[i] - '0');
    for (size_t i = 0; i < fraction.len; i++) {
        if (i < used) {
            rest = rest * 10 + (fraction.s[i] - '0');
            unit *= 10;
        } else {
            more |= fraction.s[i] != '0';
        }
    }
    result = mul_sat(mul_sat(n, (__int128)1 << exponent), NANOS);
    if (result >= limit)
        return limit;
    /* rest/unit × 2^exponent × 10^9, without leaving 128 bits: whole part first, remainder after */
    rest = (rest + more) << exponent; /* < 10^18 × 2^60 */
    result = add_sat(result, rest / unit * NANOS);
    result = add_sat(result, div_up(rest % unit * NANOS, unit));
    return result < limit ? result : limit;
}

bool quantity_parse(struct str text, struct quantity *ret)
{
    const char *p = text.s, *end = text.s + text.len;
    struct str whole, fraction = {p, 0};
    struct suffix suffix;
    bool negative = false;

    if (!text.len || text.len > TEXT_MAX)
        return false;
    if (*p == '+' || *p == '-')
        negative = *p++ == '-';
    whole.s = p;
    while (p < end && is_digit(*p))
        p++;
    whole.len = (size_t)(p - whole.s);
    if (p < end && *p == '.') {
        fraction.s = ++p;
        while (p < end && is_digit(*p))
            p++;
        fraction.len = (size_t)(p - fraction.s);
    }
    if (whole.len + fraction.len == 0 || !suffix_parse((struct str){p, (size_t)(end - p)}, &suffix))
        return false;
    while (whole.len && *whole.s == '0')
        whole = (struct str){whole.s + 1, whole.len - 1};
    ret->format = suffix.format;
    if (suffix.format == QUANTITY_BINARY_SI) {
        ret->nanos = binary_nanos(whole, fraction, suffix.exponent);
        if (ret->nanos > 0 && ret->nanos < NANOS)
            ret->format = QUANTITY_DECIMAL_SI;
    } else {
        ret->nanos = decimal_nanos(whole, fraction, suffix.exponent);
    }
    if (negative)
        ret->nanos = -ret->nanos;
    return true;
}

bool quantity_from_json(const struct json *value, struct quantity *ret)
{
    struct buf text = {0};
    bool ok;

    if (!value)
        return false;
    switch (value->type) {
    case JSON_STRING:
        return quantity_parse(json_str(value), ret);
    case JSON_INT:
        *ret = quantity_of_int(value->integer);
        return true;
    case JSON_BIG:
        return quantity_parse((struct str){value->string, value->len}, ret);
    case JSON_REAL:
        json_write(&text, value);
        ok = quantity_parse(buf_view(&text), ret);
        buf_done(&text);
        return ok;
    default:
        return false;
    }
}

static char *put_text(const char *s, char *at)
{
    size_t len = strlen(s);

    memcpy(at, s, len + 1);
    return at;
}

/* Returns the end of what it wrote. */
static char *put_int128(__int128 n, char *at)
{
    unsigned __int128 u = n < 0 ? -(unsigned __int128)n : (unsigned __int128)n;
    char digits[40];
    int len = 0;

    do
        digits[len++] = (char)('0' + (int)(u % 10));
    while (u /= 10);
    if (n < 0)
        *at++ = '-';
    while (len)
        *at++ = digits[--len];
    *at = 0;
    return at;
}

static const char *suffix_text(enum quantity_format format, int exponent)
{
    for (const struct suffix *s = suffixes; s < suffixes + sizeof(suffixes) / sizeof(suffixes[0]); s++)
        if (s->format == format && s->exponent == exponent)
            return s->text;
    return "";
}

char *quantity_format(const struct quantity *q, char text[QUANTITY_TEXT_MAX])
{
    __int128 n = q->nanos;
    int exponent = -9;

    if (n == 0)
        return put_text("0", text);
    if (q->format == QUANTITY_BINARY_SI && n % NANOS == 0 && (n >= 1024 * NANOS || n <= -1024 * NANOS)) {
        n /= NANOS;
        for (exponent = 0; n % 1024 == 0 && exponent < 60; exponent += 10)
            n /= 1024;
        put_text(exponent ? suffix_text(QUANTITY_BINARY_SI, exponent) : "", put_int128(n, text));
        return text;
    }
    while (n % 1000 == 0 && (exponent < 18 || q->format == QUANTITY_DECIMAL_EXPONENT)) {
        n /= 1000;
        exponent += 3;
    }
    if (q->format == QUANTITY_DECIMAL_EXPONENT && exponent)
        put_int128(exponent, put_text("e", put_int128(n, text)) + 1);
    else
        put_text(suffix_text(QUANTITY_DECIMAL_SI, exponent), put_int128(n, text));
    return text;
}

int quantity_cmp(const struct quantity *a, const struct quantity *b)
{
    return (a->nanos > b->nanos) - (a->nanos < b->nanos);
}

void quantity_add(struct quantity *a, const struct quantity *b)
{
    if (a->nanos == 0)
        a->format = b->format;
    a->nanos = add_sat(a->nanos, b->nanos);
}

void quantity_sub(struct quantity *a, const struct quantity *b)
{
    if (a->nanos == 0)
        a->format = b->format;
    a->nanos = add_sat(a->nanos, -b->nanos);
}

void quantity_round_up(struct quantity *q)
{
    q->nanos = mul_sat(div_up(q->nanos, NANOS), NANOS);
}

static int64_t scaled(const struct quantity *q, __int128 unit)
{
    __int128 n = div_up(q->nanos, unit);

    return n > INT64_MAX ? INT64_MAX : n < INT64_MIN ? INT64_MIN : (int64_t)n;
}

int64_t quantity_value(const struct quantity *q)
{
    return scaled(q, NANOS);
}

int64_t quantity_milli(const struct quantity *q)
{
    return scaled(q, NANOS / 1000);
}

struct quantity quantity_of_int(int64_t n)
{
    return (struct quantity){.nanos = (__int128)n * NANOS, .format = QUANTITY_DECIMAL_SI};
}
