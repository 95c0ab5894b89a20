/* addr - an IPv4 subnet and which of its addresses are taken. Addresses here are in the machine's byte order.
 */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

#define ADDR_PREFIX_MIN 16
#define ADDR_PREFIX_MAX 28
#define ADDR_TEXT_MAX   16

struct subnet {
    uint32_t base;
    int prefix;
};

/* "10.88.0.0/16". ERR_INVALID: no subnet, bits behind the prefix, a prefix out of the limits above. */
int subnet_parse(const char *text, struct subnet *ret, struct err *err);
uint32_t subnet_mask(int prefix);
static inline bool subnet_has(const struct subnet *s, uint32_t ip)
{
    return (ip & subnet_mask(s->prefix)) == s->base;
}
bool subnet_overlaps(const struct subnet *a, const struct subnet *b);
char *addr_text(uint32_t ip, char ret[ADDR_TEXT_MAX]); /* returns ret */

/* Hands out base + 2 and up (base + 1 is the bridge), going on where it stopped, so that an address that was
 * just given back rests for as long as others are free: connections to the old pod do not reach a new one. */
struct addr_pool {
    struct subnet subnet;
    uint32_t size;
    uint32_t next; /* place to look at first */
    uint32_t taken;
    uint8_t *bits;
};

void addr_pool_init(struct addr_pool *pool, const struct subnet *subnet);
void addr_pool_done(struct addr_pool *pool);
bool addr_pool_take(struct addr_pool *pool, uint32_t *ret); /* false: all are taken */
bool addr_pool_claim(struct addr_pool *pool, uint32_t ip);  /* that one; false: taken, or none to hand out */
bool addr_pool_has(const struct addr_pool *pool, uint32_t ip); /* taken by somebody */
void addr_pool_give(struct addr_pool *pool, uint32_t ip);
