/* nft_msg - see nft_msg.h. */
#include "podnet/nft_msg.h"

#include "base/mem.h"
#include "base/str.h"

#include <arpa/inet.h>
#include <errno.h>
#include <libnftnl/chain.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <string.h>

struct nlmsghdr *nft_begin(struct nl_batch *b, int what, uint16_t flags)
{
    struct nfgenmsg head = {.nfgen_family = NFPROTO_IPV4, .version = NFNETLINK_V0};

    return nl_begin(b, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | what), flags, &head, sizeof(head));
}

void nft_mark(struct nl_batch *b, uint16_t what)
{
    struct nfgenmsg head = {
        .nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};

    nl_begin(b, what, 0, &head, sizeof(head));
}

void nft_table_msg(struct nl_batch *b, int what, uint16_t flags, const char *table)
{
    mnl_attr_put_strz(nft_begin(b, what, flags | NLM_F_ACK), NFTA_TABLE_NAME, table);
}

void nft_table_renew(struct nl_batch *b, const char *table)
{
    nft_mark(b, NFNL_MSG_BATCH_BEGIN);
    nft_table_msg(b, NFT_MSG_NEWTABLE, NLM_F_CREATE, table); /* so that there is one to remove */
    nft_table_msg(b, NFT_MSG_DELTABLE, 0, table);
    nft_table_msg(b, NFT_MSG_NEWTABLE, NLM_F_CREATE, table);
}

void nft_chain(struct nl_batch *b, const char *table, const char *name, const char *type, uint32_t hook,
               int32_t priority)
{
    struct nlmsghdr *msg = nft_begin(b, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_ACK);
    struct nlattr *at;

    mnl_attr_put_strz(msg, NFTA_CHAIN_TABLE, table);
    mnl_attr_put_strz(msg, NFTA_CHAIN_NAME, name);
    at = mnl_attr_nest_start(msg, NFTA_CHAIN_HOOK);
    mnl_attr_put_u32(msg, NFTA_HOOK_HOOKNUM, htonl(hook));
    mnl_attr_put_u32(msg, NFTA_HOOK_PRIORITY, htonl((uint32_t)priority));
    mnl_attr_nest_end(msg, at);
    mnl_attr_put_strz(msg, NFTA_CHAIN_TYPE, type);
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

struct rule_count {
    const char *table;
    size_t len;
};

static void on_rule(void *arg, const struct nlmsghdr *msg)
{
    struct rule_count *count = arg;
    const struct nlattr *attr[NFTA_RULE_TABLE + 1];
    char table[NFT_TABLE_MAXNAMELEN];

    if (!nl_attrs(msg, sizeof(struct nfgenmsg), attr, NFTA_RULE_TABLE))
        return;
    nl_string(attr[NFTA_RULE_TABLE], table, sizeof(table));
    count->len += streq(table, count->table);
}

int nft_rules_there(int fd, const char *table, size_t rules, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    struct rule_count count = {.table = table};
    struct err why = {0};

    nft_table_msg(&batch, NFT_MSG_GETTABLE, 0, table);
    if (nl_send(fd, &batch, NULL, &why) == 0) {
        mnl_attr_put_strz(nft_begin(&batch, NFT_MSG_GETRULE, NLM_F_DUMP), NFTA_RULE_TABLE, table);
        if (nl_dump(fd, &batch, on_rule, &count, &why) == 0)
            return count.len >= rules;
    }
    if (why.sys == ENOENT)
        return 0;
    if (err)
        *err = why;
    return -1;
}

/* ---- sets ---- */

static void *there(void *allocated)
{
    if (!allocated)
        mem_exhausted();
    return allocated;
}

struct nftnl_set *nft_set(const char *table, const char *name, uint32_t id)
{
    struct nftnl_set *set = there(nftnl_set_alloc());

    nftnl_set_set_str(set, NFTNL_SET_TABLE, table);
    nftnl_set_set_str(set, NFTNL_SET_NAME, name);
    nftnl_set_set_u32(set, NFTNL_SET_ID, id);
    return set;
}

void nft_set_put(struct nl_batch *b, struct nftnl_set *set, uint32_t key_type, uint32_t key_len,
                 uint32_t data_type, uint32_t data_len)
{
    nftnl_set_set_u32(set, NFTNL_SET_FLAGS, data_len ? NFT_SET_MAP : 0);
    nftnl_set_set_u32(set, NFTNL_SET_KEY_TYPE, key_type);
    nftnl_set_set_u32(set, NFTNL_SET_KEY_LEN, key_len);
    if (data_len) {
        nftnl_set_set_u32(set, NFTNL_SET_DATA_TYPE, data_type);
        nftnl_set_set_u32(set, NFTNL_SET_DATA_LEN, data_len);
    }
    nftnl_set_nlmsg_build_payload(nft_begin(b, NFT_MSG_NEWSET, NLM_F_CREATE | NLM_F_ACK), set);
}

void nft_elem(struct nftnl_set *set, const void *key, uint32_t key_len, const void *data, uint32_t data_len)
{
    struct nftnl_set_elem *elem = there(nftnl_set_elem_alloc());

    nftnl_set_elem_set(elem, NFTNL_SET_ELEM_KEY, key, key_len);
    if (data)
        nftnl_set_elem_set(elem, NFTNL_SET_ELEM_DATA, data, data_len);
    nftnl_set_elem_add(set, elem);
}

void nft_elems_put(struct nl_batch *b, int what, uint16_t flags, struct nftnl_set *set)
{
    nftnl_set_elems_nlmsg_build_payload(nft_begin(b, what, flags), set);
}

/* ---- rules ---- */

struct nftnl_rule *nft_rule(const char *table, const char *chain)
{
    struct nftnl_rule *rule = there(nftnl_rule_alloc());

    nftnl_rule_set_str(rule, NFTNL_RULE_TABLE, table);
    nftnl_rule_set_str(rule, NFTNL_RULE_CHAIN, chain);
    return rule;
}

void nft_rule_put(struct nl_batch *b, struct nftnl_rule *rule)
{
    nftnl_rule_nlmsg_build_payload(nft_begin(b, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | NLM_F_ACK),
                                   rule);
    nftnl_rule_free(rule);
}

struct nftnl_expr *nft_expr(struct nftnl_rule *rule, const char *name, const struct nft_part *parts,
                            size_t len)
{
    struct nftnl_expr *expr = there(nftnl_expr_alloc(name));

    for (size_t i = 0; i < len; i++)
        nftnl_expr_set_u32(expr, parts[i].attr, parts[i].value);
    nftnl_rule_add_expr(rule, expr);
    return expr;
}

void nft_meta(struct nftnl_rule *rule, uint32_t key, uint32_t reg)
{
    NFT_EXPR(rule, "meta", {NFTNL_EXPR_META_KEY, key}, {NFTNL_EXPR_META_DREG, reg});
}

void nft_payload(struct nftnl_rule *rule, uint32_t base, uint32_t offset, uint32_t len, uint32_t reg)
{
    NFT_EXPR(rule, "payload", {NFTNL_EXPR_PAYLOAD_BASE, base}, {NFTNL_EXPR_PAYLOAD_OFFSET, offset},
             {NFTNL_EXPR_PAYLOAD_LEN, len}, {NFTNL_EXPR_PAYLOAD_DREG, reg});
}

void nft_mask(struct nftnl_rule *rule, uint32_t mask)
{
    NFT_EXPR(rule, "bitwise", {NFTNL_EXPR_BITWISE_SREG, NFT_REG_1}, {NFTNL_EXPR_BITWISE_DREG, NFT_REG_1},
             {NFTNL_EXPR_BITWISE_LEN, sizeof(mask)}, {NFTNL_EXPR_BITWISE_MASK, mask},
             {NFTNL_EXPR_BITWISE_XOR, 0});
}

void nft_cmp(struct nftnl_rule *rule, uint32_t op, const void *value, uint32_t len)
{
    struct nftnl_expr *expr =
        NFT_EXPR(rule, "cmp", {NFTNL_EXPR_CMP_SREG, NFT_REG_1}, {NFTNL_EXPR_CMP_OP, op});

    nftnl_expr_set(expr, NFTNL_EXPR_CMP_DATA, value, len);
}

/* Interface names are compared with all their 16 bytes. */
void nft_match_dev(struct nftnl_rule *rule, uint32_t meta_key, uint32_t op, const char *name)
{
    char padded[IF_NAMESIZE] = "";

    memcpy(padded, name, strnlen(name, IF_NAMESIZE - 1));
    nft_meta(rule, meta_key, NFT_REG_1);
    nft_cmp(rule, op, padded, sizeof(padded));
}

void nft_match_ip(struct nftnl_rule *rule, uint32_t offset, uint32_t base, int prefix)
{
    uint32_t ip = htonl(base);

    nft_payload(rule, NFT_PAYLOAD_NETWORK_HEADER, offset, 4, NFT_REG_1);
    nft_mask(rule, htonl(subnet_mask(prefix)));
    nft_cmp(rule, NFT_CMP_EQ, &ip, sizeof(ip));
}

void nft_match_local(struct nftnl_rule *rule)
{
    uint32_t local = RTN_LOCAL;

    NFT_EXPR(rule, "fib", {NFTNL_EXPR_FIB_DREG, NFT_REG_1}, {NFTNL_EXPR_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE},
             {NFTNL_EXPR_FIB_FLAGS, NFTA_FIB_F_DADDR});
    nft_cmp(rule, NFT_CMP_EQ, &local, sizeof(local));
}

void nft_lookup(struct nftnl_rule *rule, const char *set, uint32_t id, bool map)
{
    struct nftnl_expr *expr =
        NFT_EXPR(rule, "lookup", {NFTNL_EXPR_LOOKUP_SREG, NFT_REG_1}, {NFTNL_EXPR_LOOKUP_SET_ID, id});

    nftnl_expr_set_str(expr, NFTNL_EXPR_LOOKUP_SET, set);
    if (map)
        nftnl_expr_set_u32(expr, NFTNL_EXPR_LOOKUP_DREG, NFT_REG_1);
}

void nft_dnat(struct nftnl_rule *rule)
{
    NFT_EXPR(rule, "nat", {NFTNL_EXPR_NAT_TYPE, NFT_NAT_DNAT}, {NFTNL_EXPR_NAT_FAMILY, NFPROTO_IPV4},
             {NFTNL_EXPR_NAT_REG_ADDR_MIN, NFT_REG32_00}, {NFTNL_EXPR_NAT_REG_PROTO_MIN, NFT_REG32_01},
             {NFTNL_EXPR_NAT_FLAGS, NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED});
}
