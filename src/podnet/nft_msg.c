/* nft_msg - see nft_msg.h. */
#include "podnet/nft_msg.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>

void nft_begin(struct nl_batch *b, int what, uint16_t flags)
{
    struct nfgenmsg head = {.nfgen_family = NFPROTO_IPV4, .version = NFNETLINK_V0};

    nl_begin(b, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | what), flags, &head, sizeof(head));
}

void nft_mark(struct nl_batch *b, uint16_t what)
{
    struct nfgenmsg head = {
        .nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};

    nl_begin(b, what, 0, &head, sizeof(head));
}

void nft_table_msg(struct nl_batch *b, int what, uint16_t flags, const char *table)
{
    nft_begin(b, what, flags | NLM_F_ACK);
    nl_attr_str(b, NFTA_TABLE_NAME, table);
}

void nft_chain(struct nl_batch *b, const char *table, const char *name, const char *type, uint32_t hook,
               int32_t priority)
{
    size_t at;

    nft_begin(b, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_ACK);
    nl_attr_str(b, NFTA_CHAIN_TABLE, table);
    nl_attr_str(b, NFTA_CHAIN_NAME, name);
    at = nl_nest(b, NFTA_CHAIN_HOOK);
    nl_attr_be32(b, NFTA_HOOK_HOOKNUM, hook);
    nl_attr_be32(b, NFTA_HOOK_PRIORITY, (uint32_t)priority);
    nl_nest_end(b, at);
    nl_attr_be32(b, NFTA_CHAIN_POLICY, NF_ACCEPT);
    nl_attr_str(b, NFTA_CHAIN_TYPE, type);
}

void nft_value(struct nl_batch *b, uint16_t type, const void *value, size_t len)
{
    size_t at = nl_nest(b, type);

    nl_attr(b, NFTA_DATA_VALUE, value, len);
    nl_nest_end(b, at);
}

size_t nft_rule(struct nl_batch *b, const char *table, const char *chain)
{
    nft_begin(b, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | NLM_F_ACK);
    nl_attr_str(b, NFTA_RULE_TABLE, table);
    nl_attr_str(b, NFTA_RULE_CHAIN, chain);
    return nl_nest(b, NFTA_RULE_EXPRESSIONS);
}

struct nft_expr nft_expr(struct nl_batch *b, const char *name)
{
    struct nft_expr e;

    e.elem = nl_nest(b, NFTA_LIST_ELEM);
    nl_attr_str(b, NFTA_EXPR_NAME, name);
    e.data = nl_nest(b, NFTA_EXPR_DATA);
    return e;
}

void nft_expr_end(struct nl_batch *b, struct nft_expr e)
{
    nl_nest_end(b, e.data);
    nl_nest_end(b, e.elem);
}

void nft_meta(struct nl_batch *b, uint32_t key, uint32_t reg)
{
    struct nft_expr e = nft_expr(b, "meta");

    nl_attr_be32(b, NFTA_META_DREG, reg);
    nl_attr_be32(b, NFTA_META_KEY, key);
    nft_expr_end(b, e);
}

void nft_payload(struct nl_batch *b, uint32_t base, uint32_t offset, uint32_t len, uint32_t reg)
{
    struct nft_expr e = nft_expr(b, "payload");

    nl_attr_be32(b, NFTA_PAYLOAD_DREG, reg);
    nl_attr_be32(b, NFTA_PAYLOAD_BASE, base);
    nl_attr_be32(b, NFTA_PAYLOAD_OFFSET, offset);
    nl_attr_be32(b, NFTA_PAYLOAD_LEN, len);
    nft_expr_end(b, e);
}

void nft_mask(struct nl_batch *b, uint32_t mask)
{
    struct nft_expr e = nft_expr(b, "bitwise");
    uint32_t zero = 0;

    nl_attr_be32(b, NFTA_BITWISE_SREG, NFT_REG_1);
    nl_attr_be32(b, NFTA_BITWISE_DREG, NFT_REG_1);
    nl_attr_be32(b, NFTA_BITWISE_LEN, sizeof(mask));
    nft_value(b, NFTA_BITWISE_MASK, &mask, sizeof(mask));
    nft_value(b, NFTA_BITWISE_XOR, &zero, sizeof(zero));
    nft_expr_end(b, e);
}

void nft_cmp(struct nl_batch *b, uint32_t op, const void *value, size_t len)
{
    struct nft_expr e = nft_expr(b, "cmp");

    nl_attr_be32(b, NFTA_CMP_SREG, NFT_REG_1);
    nl_attr_be32(b, NFTA_CMP_OP, op);
    nft_value(b, NFTA_CMP_DATA, value, len);
    nft_expr_end(b, e);
}

/* Interface names are compared with all their 16 bytes. */
void nft_match_dev(struct nl_batch *b, uint32_t meta_key, uint32_t op, const char *name)
{
    char padded[IF_NAMESIZE] = "";

    memcpy(padded, name, strnlen(name, IF_NAMESIZE - 1));
    nft_meta(b, meta_key, NFT_REG_1);
    nft_cmp(b, op, padded, sizeof(padded));
}

void nft_match_ip(struct nl_batch *b, uint32_t offset, uint32_t base, int prefix)
{
    uint32_t ip = htonl(base);

    nft_payload(b, NFT_PAYLOAD_NETWORK_HEADER, offset, 4, NFT_REG_1);
    nft_mask(b, htonl(subnet_mask(prefix)));
    nft_cmp(b, NFT_CMP_EQ, &ip, sizeof(ip));
}

void nft_match_local(struct nl_batch *b)
{
    struct nft_expr e = nft_expr(b, "fib");
    uint32_t local = RTN_LOCAL;

    nl_attr_be32(b, NFTA_FIB_DREG, NFT_REG_1);
    nl_attr_be32(b, NFTA_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
    nl_attr_be32(b, NFTA_FIB_FLAGS, NFTA_FIB_F_DADDR);
    nft_expr_end(b, e);
    nft_cmp(b, NFT_CMP_EQ, &local, sizeof(local));
}

void nft_dnat(struct nl_batch *b)
{
    struct nft_expr e = nft_expr(b, "nat");

    nl_attr_be32(b, NFTA_NAT_TYPE, NFT_NAT_DNAT);
    nl_attr_be32(b, NFTA_NAT_FAMILY, NFPROTO_IPV4);
    nl_attr_be32(b, NFTA_NAT_REG_ADDR_MIN, NFT_REG32_00);
    nl_attr_be32(b, NFTA_NAT_REG_PROTO_MIN, NFT_REG32_01);
    nl_attr_be32(b, NFTA_NAT_FLAGS, NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED);
    nft_expr_end(b, e);
}

int nft_transact(int fd, struct nl_batch *b, int gone, struct err *err)
{
    struct err why = {0};

    nft_mark(b, NFNL_MSG_BATCH_END);
    if (nl_send(fd, b, NULL, &why) == 0 || (gone && why.sys == gone))
        return 0;
    if (err)
        *err = why;
    return -1;
}
