/* bigint.c - schoolbook arithmetic: sizes are limited to a few thousand limbs. */
#include "jinja/bigint.h"

#include "jinja/run.h"

#include <math.h>
#include <stdio.h>

#define INT_DIGITS_MAX 4300 /* CPython's sys.int_info.default_max_str_digits */

/* An operand of any integer type, without allocating. */
struct view {
    bool neg;
    uint32_t len;
    const uint32_t *limb;
    uint32_t own[2];
};

static void view_of(struct jv v, struct view *ret)
{
    int64_t n;
    uint64_t m;

    if (v.type == JV_BIG) {
        ret->neg = v.big->neg;
        ret->len = v.big->len;
        ret->limb = v.big->limb;
        return;
    }
    n = jv_small(v);
    m = n < 0 ? ~(uint64_t)n + 1 : (uint64_t)n;
    ret->neg = n < 0;
    ret->own[0] = (uint32_t)m;
    ret->own[1] = (uint32_t)(m >> 32);
    ret->len = ret->own[1] ? 2 : ret->own[0] ? 1 : 0;
    ret->limb = ret->own;
}

static struct big *big_new(struct run *r, size_t len)
{
    struct big *b;

    if (len * 32 > r->limits->int_bits + 64) {
        raise_limit(r, "integer size");
        return NULL;
    }
    b = run_zalloc(r, sizeof(*b) + (len ? len : 1) * sizeof(uint32_t));
    b->len = (uint32_t)len;
    return b;
}

/* The value, as a small int where it fits. */
static struct jv normal(struct big *b)
{
    uint64_t m;

    while (b->len && b->limb[b->len - 1] == 0)
        b->len--;
    if (b->len > 2)
        return (struct jv){.type = JV_BIG, .big = b};
    m = b->len > 1 ? (uint64_t)b->limb[1] << 32 | b->limb[0] : b->len ? b->limb[0] : 0;
    if (m <= INT64_MAX)
        return JV_OF_INT(b->neg ? -(int64_t)m : (int64_t)m);
    if (b->neg && m == (uint64_t)INT64_MAX + 1)
        return JV_OF_INT(INT64_MIN);
    return (struct jv){.type = JV_BIG, .big = b};
}

static int mag_cmp(const struct view *a, const struct view *b)
{
    if (a->len != b->len)
        return a->len < b->len ? -1 : 1;
    for (uint32_t i = a->len; i-- > 0;)
        if (a->limb[i] != b->limb[i])
            return a->limb[i] < b->limb[i] ? -1 : 1;
    return 0;
}

static int mag_add(struct run *r, const struct view *a, const struct view *b, bool neg, struct jv *ret)
{
    uint32_t n = (a->len > b->len ? a->len : b->len) + 1;
    struct big *sum = big_new(r, n);
    uint64_t carry = 0;

    if (!sum)
        return -1;
    for (uint32_t i = 0; i < n; i++) {
        carry += (i < a->len ? a->limb[i] : 0) + (uint64_t)(i < b->len ? b->limb[i] : 0);
        sum->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    sum->neg = neg;
    *ret = normal(sum);
    return 0;
}

/* |a| - |b|, with the sign turned when |b| is larger. */
static int mag_sub(struct run *r, const struct view *a, const struct view *b, bool neg, struct jv *ret)
{
    bool swap = mag_cmp(a, b) < 0;
    const struct view *x = swap ? b : a, *y = swap ? a : b;
    struct big *diff = big_new(r, x->len);
    int64_t borrow = 0;

    if (!diff)
        return -1;
    for (uint32_t i = 0; i < x->len; i++) {
        borrow += (int64_t)x->limb[i] - (i < y->len ? y->limb[i] : 0);
        diff->limb[i] = (uint32_t)borrow;
        borrow >>= 32;
    }
    diff->neg = neg != swap;
    *ret = normal(diff);
    return 0;
}

static int add(struct run *r, struct view *a, struct view *b, struct jv *ret)
{
    return a->neg == b->neg ? mag_add(r, a, b, a->neg, ret) : mag_sub(r, a, b, a->neg, ret);
}

static int mul(struct run *r, const struct view *a, const struct view *b, struct jv *ret)
{
    struct big *prod = big_new(r, (size_t)a->len + b->len);

    if (!prod || charge(r, (size_t)a->len * b->len / 8) < 0)
        return -1;
    for (uint32_t i = 0; i < a->len; i++) {
        uint64_t carry = 0;

        for (uint32_t j = 0; j < b->len; j++) {
            carry += (uint64_t)a->limb[i] * b->limb[j] + prod->limb[i + j];
            prod->limb[i + j] = (uint32_t)carry;
            carry >>= 32;
        }
        prod->limb[i + b->len] = (uint32_t)carry;
    }
    prod->neg = a->neg != b->neg;
    *ret = normal(prod);
    return 0;
}

static uint32_t div_small(struct big *b, uint32_t by)
{
    uint64_t rest = 0;

    for (uint32_t i = b->len; i-- > 0;) {
        rest = rest << 32 | b->limb[i];
        b->limb[i] = (uint32_t)(rest / by);
        rest %= by;
    }
    while (b->len && b->limb[b->len - 1] == 0)
        b->len--;
    return (uint32_t)rest;
}

static void shift_left(const struct view *v, unsigned bits, uint32_t *to, uint32_t len)
{
    for (uint32_t i = len; i-- > 0;) {
        uint32_t high = i < v->len ? v->limb[i] : 0, low = i && i - 1 < v->len ? v->limb[i - 1] : 0;

        to[i] = bits ? high << bits | low >> (32 - bits) : high;
    }
}

/* Takes q * v from the limbs of u that start at j; true when it was too much. */
static bool take_product(uint32_t *u, const uint32_t *v, uint32_t n, uint64_t q)
{
    uint64_t carry = 0;
    int64_t borrow = 0;

    for (uint32_t i = 0; i < n; i++) {
        carry += q * v[i];
        borrow += (int64_t)u[i] - (uint32_t)carry;
        u[i] = (uint32_t)borrow;
        borrow >>= 32;
        carry >>= 32;
    }
    borrow += (int64_t)u[n] - (int64_t)carry;
    u[n] = (uint32_t)borrow;
    return borrow < 0;
}

static void add_back(uint32_t *u, const uint32_t *v, uint32_t n)
{
    uint64_t carry = 0;

    for (uint32_t i = 0; i < n; i++) {
        carry += (uint64_t)u[i] + v[i];
        u[i] = (uint32_t)carry;
        carry >>= 32;
    }
    u[n] += (uint32_t)carry;
}

/* Knuth's algorithm D. u has b->len + quot->len limbs; the rest stays in it, shifted. */
static void divide_long(uint32_t *u, const uint32_t *v, uint32_t n, struct big *quot)
{
    for (uint32_t j = quot->len; j-- > 0;) {
        uint64_t top = (uint64_t)u[j + n] << 32 | u[j + n - 1];
        uint64_t q = top / v[n - 1], rest = top % v[n - 1];

        while (q > UINT32_MAX || q * v[n - 2] > (rest << 32 | u[j + n - 2])) {
            q--;
            rest += v[n - 1];
            if (rest > UINT32_MAX)
                break;
        }
        if (take_product(u + j, v, n, q)) {
            q--;
            add_back(u + j, v, n);
        }
        quot->limb[j] = (uint32_t)q;
    }
}

/* |a| / |b|, truncated; b is not 0. */
static int mag_divmod(struct run *r, const struct view *a, const struct view *b, struct big **quot,
                      struct big **rest)
{
    unsigned bits;
    uint32_t *u, *v;

    *quot = big_new(r, a->len >= b->len ? a->len - b->len + 1 : 1);
    *rest = big_new(r, a->len > b->len ? a->len + 1 : b->len + 1);
    if (!*quot || !*rest || charge(r, (size_t)b->len * (*quot)->len / 8) < 0)
        return -1;
    if (mag_cmp(a, b) < 0) {
        memcpy((*rest)->limb, a->limb, a->len * sizeof(uint32_t));
        (*rest)->len = a->len;
        (*quot)->len = 0;
        return 0;
    }
    if (b->len == 1) {
        memcpy((*quot)->limb, a->limb, a->len * sizeof(uint32_t));
        (*quot)->len = a->len;
        (*rest)->limb[0] = div_small(*quot, b->limb[0]);
        (*rest)->len = 1;
        return 0;
    }
    bits = (unsigned)__builtin_clz(b->limb[b->len - 1]);
    u = run_zalloc(r, (a->len + 1) * sizeof(uint32_t));
    v = run_zalloc(r, b->len * sizeof(uint32_t));
    shift_left(a, bits, u, a->len + 1);
    shift_left(b, bits, v, b->len);
    divide_long(u, v, b->len, *quot);
    (*rest)->len = b->len;
    for (uint32_t i = 0; i < b->len; i++)
        (*rest)->limb[i] = bits ? u[i] >> bits | (uint32_t)((uint64_t)u[i + 1] << (32 - bits)) : u[i];
    return 0;
}

int big_divmod(struct run *r, struct jv a, struct jv b, struct jv *quotient, struct jv *rest)
{
    struct view x, y;
    struct big *q, *m;

    view_of(a, &x);
    view_of(b, &y);
    if (y.len == 0)
        return raise(r, JINJA_ZERO_DIVISION_ERROR, "integer division or modulo by zero");
    if (mag_divmod(r, &x, &y, &q, &m) < 0)
        return -1;
    q->neg = x.neg != y.neg;
    m->neg = x.neg;
    *quotient = normal(q);
    *rest = normal(m);
    if (x.neg != y.neg && !(rest->type == JV_INT && rest->i == 0)) {
        if (big_arith(r, ARITH_SUB, *quotient, JV_OF_INT(1), quotient) < 0 ||
            big_arith(r, ARITH_ADD, *rest, b, rest) < 0)
            return -1;
    }
    return 0;
}

static int power(struct run *r, struct jv base, struct jv exponent, struct jv *ret)
{
    struct jv result = JV_OF_INT(1);
    int64_t n, bits = big_bit_length(base);

    if (exponent.type == JV_BIG) {
        if (bits <= 1 && exponent.type == JV_BIG) {
            n = exponent.big->limb[0] & 1;
            return bits == 0 || n || jv_small(base) == 1 ? (*ret = base, 0) : (*ret = JV_OF_INT(1), 0);
        }
        return raise_limit(r, "integer size");
    }
    n = jv_small(exponent);
    if (bits > 1 && (n > (int64_t)r->limits->int_bits || (bits - 1) * n > (int64_t)r->limits->int_bits))
        return raise_limit(r, "integer size");
    for (;;) {
        if (n & 1 && big_arith(r, ARITH_MUL, result, base, &result) < 0)
            return -1;
        n >>= 1;
        if (n == 0)
            break;
        if (big_arith(r, ARITH_MUL, base, base, &base) < 0)
            return -1;
    }
    *ret = result;
    return 0;
}

int big_arith(struct run *r, enum arith op, struct jv a, struct jv b, struct jv *ret)
{
    struct view x, y;
    struct jv other;

    view_of(a, &x);
    view_of(b, &y);
    switch (op) {
    case ARITH_ADD:
        return add(r, &x, &y, ret);
    case ARITH_SUB:
        y.neg = !y.neg;
        return add(r, &x, &y, ret);
    case ARITH_MUL:
        return mul(r, &x, &y, ret);
    case ARITH_FLOORDIV:
        return big_divmod(r, a, b, ret, &other);
    case ARITH_MOD:
        return big_divmod(r, a, b, &other, ret);
    default:
        return power(r, a, b, ret);
    }
}

int big_cmp(struct jv a, struct jv b)
{
    struct view x, y;
    int order;

    view_of(a, &x);
    view_of(b, &y);
    if (x.neg != y.neg)
        return x.len == 0 && y.len == 0 ? 0 : x.neg ? -1 : 1;
    order = mag_cmp(&x, &y);
    return x.neg ? -order : order;
}

int64_t big_bit_length(struct jv v)
{
    struct view x;

    view_of(v, &x);
    return x.len ? (int64_t)x.len * 32 - __builtin_clz(x.limb[x.len - 1]) : 0;
}

/* Bit `at` of x and whether any lower one is set. */
static bool bit_at(const struct view *x, int64_t at)
{
    return at >= 0 && (x->limb[at / 32] >> (at % 32) & 1);
}

static bool any_below(const struct view *x, int64_t at)
{
    for (int64_t i = 0; i < at / 32; i++)
        if (x->limb[i])
            return true;
    return at > 0 && at % 32 && (x->limb[at / 32] & ((1U << (at % 32)) - 1)) != 0;
}

bool big_to_double(struct jv v, double *ret)
{
    struct view x;
    int64_t bits = big_bit_length(v), drop = bits - 53;
    uint64_t top = 0;

    view_of(v, &x);
    for (int64_t i = bits - 1; i >= 0 && i >= drop; i--)
        top = top << 1 | bit_at(&x, i);
    if (drop > 0 && bit_at(&x, drop - 1) && (top & 1 || any_below(&x, drop - 1)))
        top++;
    *ret = ldexp((double)top, (int)(drop > 0 ? (drop > 4096 ? 4096 : drop) : 0));
    if (x.neg)
        *ret = -*ret;
    return isfinite(*ret);
}

int big_cmp_double(const struct big *a, double b)
{
    struct jv v = {.type = JV_BIG, .big = a};
    struct view x;
    double d;
    int exponent;

    if (a->neg != (b < 0))
        return a->neg ? -1 : 1;
    (void)frexp(b, &exponent);
    if (big_bit_length(v) != exponent)
        return (big_bit_length(v) < exponent ? -1 : 1) * (a->neg ? -1 : 1);
    view_of(v, &x);
    d = 0;
    for (uint32_t i = x.len; i-- > 0;) { /* exact as long as it equals b's leading bits */
        double limb = ldexp((double)x.limb[i], (int)i * 32), left = fabs(b) - d;

        if (limb > left)
            return a->neg ? -1 : 1;
        d += limb;
        if (left - limb >= ldexp(1, (int)i * 32))
            return a->neg ? 1 : -1;
    }
    return fabs(b) > d ? (a->neg ? 1 : -1) : 0;
}

/* Correctly rounded: scale so that the quotient has 64 or more bits, divide, round once. */
int big_truediv(struct run *r, struct jv a, struct jv b, struct jv *ret)
{
    int64_t shift = big_bit_length(b) - big_bit_length(a) + 66;
    struct jv scale, quot, rest;
    double d;

    if (big_bit_length(b) == 0)
        return raise(r, JINJA_ZERO_DIVISION_ERROR, "division by zero");
    if (big_bit_length(a) == 0) {
        *ret = JV_OF_REAL(0);
        return 0;
    }
    if (big_arith(r, ARITH_POW, JV_OF_INT(2), JV_OF_INT(shift < 0 ? -shift : shift), &scale) < 0 ||
        big_arith(r, ARITH_MUL, shift > 0 ? a : b, scale, shift > 0 ? &a : &b) < 0 ||
        big_divmod(r, a, b, &quot, &rest) < 0)
        return -1;
    if (!(rest.type == JV_INT && rest.i == 0)) { /* a sticky bit for the rounding */
        if (big_arith(r, ARITH_MUL, quot, JV_OF_INT(2), &quot) < 0 ||
            big_arith(r, ARITH_ADD, quot, JV_OF_INT(1), &quot) < 0)
            return -1;
        shift++;
    }
    if (!big_to_double(quot, &d))
        return raise(r, JINJA_OVERFLOW_ERROR, "integer division result too large for a float");
    d = ldexp(d, (int)-shift);
    if (!isfinite(d))
        return raise(r, JINJA_OVERFLOW_ERROR, "integer division result too large for a float");
    *ret = JV_OF_REAL(d);
    return 0;
}

int big_from_double(struct run *r, double d, struct jv *ret)
{
    int exponent;
    double m = frexp(trunc(fabs(d)), &exponent);
    struct jv scale, digits = JV_OF_INT((int64_t)ldexp(m, 53));

    if (exponent <= 62) {
        *ret = JV_OF_INT((int64_t)d);
        return 0;
    }
    if (big_arith(r, ARITH_POW, JV_OF_INT(2), JV_OF_INT(exponent - 53), &scale) < 0)
        return -1;
    if (d < 0)
        digits.i = -digits.i;
    return big_arith(r, ARITH_MUL, digits, scale, ret);
}

int big_from_digits(struct run *r, const uint8_t *digits, size_t n, unsigned base, bool neg, struct jv *ret)
{
    struct big *b;
    uint32_t used = 0;

    if (n * 6 > r->limits->int_bits * 3 + 256)
        return raise_limit(r, "integer size");
    b = big_new(r, n * 6 / 32 + 2);
    if (!b || charge(r, n * n / 256) < 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        uint64_t carry = digits[i];

        for (uint32_t j = 0; j < used; j++) {
            carry += (uint64_t)b->limb[j] * base;
            b->limb[j] = (uint32_t)carry;
            carry >>= 32;
        }
        if (carry)
            b->limb[used++] = (uint32_t)carry;
    }
    b->len = used;
    b->neg = neg;
    *ret = normal(b);
    return 0;
}

int big_put(struct run *r, struct buf *buf, struct jv v, unsigned base, bool upper)
{
    const char *letters = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    struct view x;
    struct big *b;
    size_t start;

    view_of(v, &x);
    if (base == 10 && x.len * 9.633 > INT_DIGITS_MAX + 10)
        return raise(r, JINJA_VALUE_ERROR, "Exceeds the limit (%d digits) for integer string conversion",
                     INT_DIGITS_MAX);
    b = big_new(r, x.len);
    if (!b || charge(r, (size_t)x.len * x.len / 8) < 0)
        return -1;
    memcpy(b->limb, x.limb, x.len * sizeof(uint32_t));
    if (x.neg)
        buf_putc(buf, '-');
    start = buf->len;
    do {
        buf_putc(buf, letters[div_small(b, base)]);
    } while (b->len);
    if (base == 10 && buf->len - start > INT_DIGITS_MAX)
        return raise(r, JINJA_VALUE_ERROR, "Exceeds the limit (%d digits) for integer string conversion",
                     INT_DIGITS_MAX);
    for (size_t i = start, j = buf->len - 1; i < j; i++, j--) {
        char c = buf->data[i];

        buf->data[i] = buf->data[j];
        buf->data[j] = c;
    }
    return 0;
}
