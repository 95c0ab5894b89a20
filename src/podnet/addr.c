/* addr - see addr.h. A bit for each address of the subnet. */
#include "podnet/addr.h"

#include "base/mem.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#define FIRST 2 /* 0 is the subnet itself, 1 the bridge */

uint32_t subnet_mask(int prefix)
{
    return prefix == 0 ? 0 : UINT32_MAX << (32 - prefix);
}

int subnet_parse(const char *text, struct subnet *ret, struct err *err)
{
    const char *slash = strchr(text, '/');
    char ip[ADDR_TEXT_MAX];
    struct in_addr addr;
    int64_t prefix;
    struct subnet s;

    if (!slash || slash - text >= (ptrdiff_t)sizeof(ip) || !str_to_int(str_from(slash + 1), &prefix))
        return err_set(err, ERR_INVALID, "'%s' is no subnet (like 10.88.0.0/16)", text);
    memcpy(ip, text, (size_t)(slash - text));
    ip[slash - text] = '\0';
    if (inet_pton(AF_INET, ip, &addr) != 1)
        return err_set(err, ERR_INVALID, "'%s' is no subnet (like 10.88.0.0/16)", text);
    if (prefix < ADDR_PREFIX_MIN || prefix > ADDR_PREFIX_MAX)
        return err_set(err, ERR_INVALID, "subnet '%s': the prefix must be %d to %d", text, ADDR_PREFIX_MIN,
                       ADDR_PREFIX_MAX);
    s = (struct subnet){ntohl(addr.s_addr), (int)prefix};
    if (s.base & ~subnet_mask(s.prefix))
        return err_set(err, ERR_INVALID, "subnet '%s' has bits set behind its prefix", text);
    *ret = s;
    return 0;
}

bool subnet_overlaps(const struct subnet *a, const struct subnet *b)
{
    uint32_t mask = subnet_mask(a->prefix < b->prefix ? a->prefix : b->prefix);

    return ((a->base ^ b->base) & mask) == 0;
}

char *addr_text(uint32_t ip, char ret[ADDR_TEXT_MAX])
{
    (void)snprintf(ret, ADDR_TEXT_MAX, "%u.%u.%u.%u", ip >> 24, ip >> 16 & 255, ip >> 8 & 255, ip & 255);
    return ret;
}

void addr_pool_init(struct addr_pool *pool, const struct subnet *subnet)
{
    *pool = (struct addr_pool){.subnet = *subnet, .size = ~subnet_mask(subnet->prefix) + 1, .next = FIRST};
    pool->bits = mem_zalloc(pool->size / 8);
}

void addr_pool_done(struct addr_pool *pool)
{
    free(pool->bits);
    *pool = (struct addr_pool){0};
}

static bool bit_get(const struct addr_pool *pool, uint32_t at)
{
    return pool->bits[at / 8] >> at % 8 & 1;
}

bool addr_pool_take(struct addr_pool *pool, uint32_t *ret)
{
    uint32_t last = pool->size - 2; /* the one behind it is the broadcast address */

    for (uint32_t tries = last - FIRST + 1; tries > 0; tries--) {
        uint32_t at = pool->next;

        pool->next = at >= last ? FIRST : at + 1;
        if (!bit_get(pool, at)) {
            *ret = pool->subnet.base + at;
            return addr_pool_claim(pool, *ret);
        }
    }
    return false;
}

bool addr_pool_claim(struct addr_pool *pool, uint32_t ip)
{
    uint32_t at = ip - pool->subnet.base;

    if (!subnet_has(&pool->subnet, ip) || at < FIRST || at > pool->size - 2 || bit_get(pool, at))
        return false;
    pool->bits[at / 8] |= (uint8_t)(1 << at % 8);
    pool->taken++;
    return true;
}

bool addr_pool_has(const struct addr_pool *pool, uint32_t ip)
{
    return subnet_has(&pool->subnet, ip) && bit_get(pool, ip - pool->subnet.base);
}

void addr_pool_give(struct addr_pool *pool, uint32_t ip)
{
    uint32_t at = ip - pool->subnet.base;

    if (!subnet_has(&pool->subnet, ip) || !bit_get(pool, at))
        return;
    pool->bits[at / 8] &= (uint8_t) ~(1 << at % 8);
    pool->taken--;
}
