/* bigint.c - see bigint.h. Every operation first bounds the size of its result and takes steps for the work,
 * then computes. OpenSSL fails for want of memory only, which ends the process as in base/mem.h. */
#include "jinja/bigint.h"

#include "base/mem.h"

#include <math.h>
#include <openssl/bn.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

#define INT_DIGITS_MAX 4300 /* CPython's sys.int_info.default_max_str_digits */

DEFINE_CLEANUP(BIGNUM *, BN_free);
DEFINE_CLEANUP(BN_CTX *, BN_CTX_free);

static void must(bool done)
{
    if (!done)
        mem_exhausted();
}

static BIGNUM *bn_new(void)
{
    BIGNUM *bn = BN_new();

    must(bn);
    return bn;
}

static BN_CTX *bn_ctx_new(void)
{
    BN_CTX *ctx = BN_CTX_new();

    must(ctx);
    return ctx;
}

/* The value of any integer type. */
static BIGNUM *bn_of(struct jv v)
{
    const uint8_t *bytes;
    uint8_t own[sizeof(uint64_t)];
    size_t len = sizeof(own);
    bool neg;
    BIGNUM *bn;

    if (v.type == JV_BIG) {
        neg = v.big->neg;
        bytes = v.big->bytes;
        len = v.big->len;
    } else {
        int64_t n = jv_small(v);
        uint64_t m = n < 0 ? ~(uint64_t)n + 1 : (uint64_t)n;

        neg = n < 0;
        for (size_t i = 0; i < len; i++)
            own[i] = (uint8_t)(m >> (8 * i));
        bytes = own;
    }
    bn = BN_lebin2bn(bytes, (int)len, NULL);
    must(bn);
    BN_set_negative(bn, neg);
    return bn;
}

/* Whether a result of that many bits may be made, and the steps that making it takes. */
static int afford(struct run *r, int64_t bits, int64_t steps)
{
    return bits > (int64_t)r->limits->int_bits + 64 ? raise_limit(r, "integer size")
                                                    : charge(r, (size_t)steps);
}

/* The work of a product or a quotient of operands with so many bits, as steps. */
static int64_t product_steps(int64_t a_bits, int64_t b_bits)
{
    return (a_bits / 64 + 1) * (b_bits / 64 + 1) / 8;
}

/* The value in the arena, as a small int where it fits. */
static int give(struct run *r, const BIGNUM *bn, struct jv *ret)
{
    int len = BN_num_bytes(bn);
    uint8_t small[sizeof(uint64_t)];
    struct big *big;
    uint64_t m = 0;

    if (len <= (int)sizeof(small)) {
        must(BN_bn2lebinpad(bn, small, sizeof(small)) >= 0);
        for (size_t i = 0; i < sizeof(small); i++)
            m |= (uint64_t)small[i] << (8 * i);
        if (m <= (uint64_t)INT64_MAX + BN_is_negative(bn)) {
            *ret = JV_OF_INT(BN_is_negative(bn) ? (int64_t)(~m + 1) : (int64_t)m);
            return 0;
        }
    }
    if (afford(r, (int64_t)len * 8, 0) < 0)
        return -1;
    big = run_alloc(r, sizeof(*big) + (size_t)len);
    big->neg = BN_is_negative(bn);
    big->len = (uint32_t)len;
    must(BN_bn2lebinpad(bn, big->bytes, len) >= 0);
    *ret = (struct jv){.type = JV_BIG, .big = big};
    return 0;
}

/* Truncated division is made floored: a remainder has the divisor's sign. */
static int divide(struct run *r, struct jv a, struct jv b, struct jv *quotient, struct jv *rest)
{
    CLEANUP(BN_free) BIGNUM *x = bn_of(a), *y = bn_of(b), *q = bn_new(), *m = bn_new();
    CLEANUP(BN_CTX_free) BN_CTX *ctx = bn_ctx_new();

    if (BN_is_zero(y))
        return raise(r, JINJA_ZERO_DIVISION_ERROR, "integer division or modulo by zero");
    if (afford(r, BN_num_bits(x), product_steps(BN_num_bits(x), BN_num_bits(y))) < 0)
        return -1;
    must(BN_div(q, m, x, y, ctx));
    if (!BN_is_zero(m) && BN_is_negative(m) != BN_is_negative(y))
        must(BN_sub_word(q, 1) && BN_add(m, m, y));
    if (quotient && give(r, q, quotient) < 0)
        return -1;
    return rest ? give(r, m, rest) : 0;
}

static int power(struct run *r, struct jv base, struct jv exponent, struct jv *ret)
{
    CLEANUP(BN_free) BIGNUM *x = bn_of(base), *n = bn_of(exponent), *result = bn_new();
    CLEANUP(BN_CTX_free) BN_CTX *ctx = bn_ctx_new();
    int64_t bits = BN_num_bits(x), limit = (int64_t)r->limits->int_bits;

    if (bits <= 1 && !BN_is_zero(n)) { /* 0, 1, -1: of any power */
        BN_set_negative(x, BN_is_negative(x) && BN_is_odd(n));
        return give(r, x, ret);
    }
    if (bits > 1 &&
        (exponent.type == JV_BIG || jv_small(exponent) > limit || (bits - 1) * jv_small(exponent) > limit))
        return raise_limit(r, "integer size");
    bits *= jv_small(exponent);
    if (charge(r, (size_t)product_steps(bits, bits)) < 0)
        return -1;
    must(BN_exp(result, x, n, ctx));
    return give(r, result, ret);
}

static int multiply(struct run *r, struct jv a, struct jv b, struct jv *ret)
{
    CLEANUP(BN_free) BIGNUM *x = bn_of(a), *y = bn_of(b), *result = bn_new();
    CLEANUP(BN_CTX_free) BN_CTX *ctx = bn_ctx_new();
    int64_t x_bits = BN_num_bits(x), y_bits = BN_num_bits(y);

    if (afford(r, x_bits + y_bits, product_steps(x_bits, y_bits)) < 0)
        return -1;
    must(BN_mul(result, x, y, ctx));
    return give(r, result, ret);
}

int big_arith(struct run *r, enum arith op, struct jv a, struct jv b, struct jv *ret)
{
    CLEANUP(BN_free) BIGNUM *x = NULL, *y = NULL;

    switch (op) {
    case ARITH_MUL:
        return multiply(r, a, b, ret);
    case ARITH_FLOORDIV:
        return divide(r, a, b, ret, NULL);
    case ARITH_MOD:
        return divide(r, a, b, NULL, ret);
    case ARITH_POW:
        return power(r, a, b, ret);
    default:
        x = bn_of(a);
        y = bn_of(b);
        must(op == ARITH_ADD ? BN_add(x, x, y) : BN_sub(x, x, y));
        return give(r, x, ret);
    }
}

int big_cmp(struct jv a, struct jv b)
{
    CLEANUP(BN_free) BIGNUM *x = bn_of(a), *y = bn_of(b);

    return BN_cmp(x, y);
}

int64_t big_bit_length(struct jv v)
{
    CLEANUP(BN_free) BIGNUM *x = bn_of(v);

    return BN_num_bits(x);
}

int64_t big_bit_count(struct jv v)
{
    CLEANUP(BN_free) BIGNUM *x = bn_of(v);
    int64_t n = 0;

    for (int i = BN_num_bits(x) - 1; i >= 0; i--)
        n += BN_is_bit_set(x, i);
    return n;
}

/* The nearest double, half to even: of the highest 64 bits the lowest stands for all below it, which a
 * double's 53 leave room for. Infinite where it is too large. */
static double bn_to_double(const BIGNUM *bn)
{
    CLEANUP(BN_free) BIGNUM *top = bn_new();
    int drop = BN_num_bits(bn) > 64 ? BN_num_bits(bn) - 64 : 0;
    uint8_t bytes[sizeof(uint64_t)];
    uint64_t m = 0;
    double d;

    must(BN_rshift(top, bn, drop) && BN_bn2lebinpad(top, bytes, sizeof(bytes)) >= 0);
    for (size_t i = 0; i < sizeof(bytes); i++)
        m |= (uint64_t)bytes[i] << (8 * i);
    for (int i = 0; i < drop && !(m & 1); i++)
        m |= (uint64_t)BN_is_bit_set(bn, i);
    d = ldexp((double)m, drop);
    return BN_is_negative(bn) ? -d : d;
}

bool big_to_double(struct jv v, double *ret)
{
    CLEANUP(BN_free) BIGNUM *x = bn_of(v);

    *ret = bn_to_double(x);
    return isfinite(*ret);
}

/* What is before the point of d, exactly. */
static BIGNUM *bn_of_double(double d)
{
    int exponent;
    double m = frexp(trunc(d), &exponent);
    BIGNUM *bn = bn_of(JV_OF_INT((int64_t)ldexp(m, 53)));

    must(exponent > 53 ? BN_lshift(bn, bn, exponent - 53) : BN_rshift(bn, bn, 53 - exponent));
    return bn;
}

/* a does not fit in 64 bits, and a double as large as that has nothing behind the point. */
int big_cmp_double(struct jv a, double b)
{
    CLEANUP(BN_free) BIGNUM *x = bn_of(a), *y = bn_of_double(b);

    return BN_cmp(x, y);
}

int big_from_double(struct run *r, double d, struct jv *ret)
{
    CLEANUP(BN_free) BIGNUM *x = bn_of_double(d);

    return give(r, x, ret);
}

/* Correctly rounded: scale so that the quotient has 65 or more bits, divide, note a rest, round once. */
int big_truediv(struct run *r, struct jv a, struct jv b, struct jv *ret)
{
    CLEANUP(BN_free) BIGNUM *x = bn_of(a), *y = bn_of(b), *q = bn_new(), *m = bn_new();
    CLEANUP(BN_CTX_free) BN_CTX *ctx = bn_ctx_new();
    int shift = BN_num_bits(y) - BN_num_bits(x) + 66;
    double d;

    if (BN_is_zero(y))
        return raise(r, JINJA_ZERO_DIVISION_ERROR, "division by zero");
    if (charge(r, (size_t)product_steps(BN_num_bits(x), BN_num_bits(y))) < 0)
        return -1;
    must(shift > 0 ? BN_lshift(x, x, shift) : BN_lshift(y, y, -shift));
    must(BN_div(q, m, x, y, ctx));
    if (!BN_is_zero(m))
        must(BN_set_bit(q, 0));
    d = ldexp(bn_to_double(q), -shift);
    if (!isfinite(d))
        return raise(r, JINJA_OVERFLOW_ERROR, "integer division result too large for a float");
    *ret = JV_OF_REAL(copysign(d, BN_is_negative(x) != BN_is_negative(y) ? -1 : 1)); /* zeros have signs */
    return 0;
}

int big_from_digits(struct run *r, const uint8_t *digits, size_t n, unsigned base, bool neg, struct jv *ret)
{
    CLEANUP(BN_free) BIGNUM *x = bn_new();

    if (n * 6 > r->limits->int_bits * 3 + 256)
        return raise_limit(r, "integer size");
    if (charge(r, n * n / 256) < 0)
        return -1;
    for (size_t i = 0; i < n; i++)
        must(BN_mul_word(x, base) && BN_add_word(x, digits[i]));
    BN_set_negative(x, neg);
    return give(r, x, ret);
}

static int put_decimal(struct run *r, struct buf *buf, const BIGNUM *bn)
{
    char *text;

    if (BN_num_bits(bn) > INT_DIGITS_MAX * 10 / 3 + 10)
        return raise(r, JINJA_VALUE_ERROR, "Exceeds the limit (%d digits) for integer string conversion",
                     INT_DIGITS_MAX);
    text = BN_bn2dec(bn);
    must(text);
    if (strlen(text) - BN_is_negative(bn) > INT_DIGITS_MAX) {
        OPENSSL_free(text);
        return raise(r, JINJA_VALUE_ERROR, "Exceeds the limit (%d digits) for integer string conversion",
                     INT_DIGITS_MAX);
    }
    buf_puts(buf, text);
    OPENSSL_free(text);
    return 0;
}

/* Base 2, 8 or 16: as many bits a digit. */
int big_put(struct run *r, struct buf *buf, struct jv v, unsigned base, bool upper)
{
    const char *letters = upper ? "0123456789ABCDEF" : "0123456789abcdef";
    CLEANUP(BN_free) BIGNUM *x = bn_of(v);
    int bits = BN_num_bits(x), each = base == 16 ? 4 : base == 8 ? 3 : 1;

    if (charge(r, (size_t)product_steps(bits, bits)) < 0)
        return -1;
    if (base == 10)
        return put_decimal(r, buf, x);
    if (BN_is_negative(x))
        buf_putc(buf, '-');
    for (int at = bits ? (bits - 1) / each * each : 0; at >= 0; at -= each) {
        unsigned digit = 0;

        for (int i = each - 1; i >= 0; i--)
            digit = digit << 1 | (unsigned)BN_is_bit_set(x, at + i);
        buf_putc(buf, letters[digit]);
    }
    return 0;
}
