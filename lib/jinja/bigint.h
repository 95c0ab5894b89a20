/* bigint - whole numbers of any size up to the render's limit, computed by OpenSSL's BIGNUM. What fits in 64
 * bits is JV_INT, never one of these. A value lies in the render's arena as sign and magnitude; a BIGNUM
 * lives no longer than the operation that needs it, so that nothing is left when a render fails half-way. */
#pragma once

#include "jinja/run.h"

struct big {
    bool neg;
    uint32_t len;
    uint8_t bytes[]; /* the magnitude, lowest byte first, the highest not zero */
};

/* Both operands are JV_BOOL, JV_INT or JV_BIG. */
int big_arith(struct run *r, enum arith op, struct jv a, struct jv b, struct jv *ret); /* not DIV */
int big_cmp(struct jv a, struct jv b);
int big_cmp_double(struct jv a, double b);    /* b is finite */
bool big_to_double(struct jv v, double *ret); /* false: overflow */
int big_truediv(struct run *r, struct jv a, struct jv b, struct jv *ret);
int big_from_double(struct run *r, double d, struct jv *ret); /* d is finite */
/* Digits of that base, no signs or separators; -1 raised LimitError. */
int big_from_digits(struct run *r, const uint8_t *digits, size_t n, unsigned base, bool neg, struct jv *ret);
int big_put(struct run *r, struct buf *buf, struct jv v, unsigned base, bool upper);
int64_t big_bit_length(struct jv v);
int64_t big_bit_count(struct jv v); /* of the magnitude */
