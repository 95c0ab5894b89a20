/* nft - see nft.h. nf_tables takes a batch whole or not at all, so a table is replaced without a moment
 * in which there is none. Its numbers are big-endian, except those that expressions load (marks, ct status,
 * address types), which are the machine's. */
#include "podnet/nft.h"

#include "base/vec.h"
#include "podnet/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_nat.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/ip.h>

#define MAP_NAME "ports"

/* How the nft program numbers types, six bits each in a concatenation; only for its listings. */
#define TYPE_IPADDR       7
#define TYPE_INET_PROTO   12
#define TYPE_INET_SERVICE 13
#define TYPE_PAIR(a, b)   ((a) << 6 | (b))

/* ---- messages ---- */

static void begin(struct nl_batch *b, int what, uint16_t flags)
{
    struct nfgenmsg head = {.nfgen_family = NFPROTO_IPV4, .version = NFNETLINK_V0};

    nl_begin(b, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | what), flags, &head, sizeof(head));
}

static void batch_mark(struct nl_batch *b, uint16_t what)
{
    struct nfgenmsg head = {
        .nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0, .res_id = htons(NFNL_SUBSYS_NFTABLES)};

    nl_begin(b, what, 0, &head, sizeof(head));
}

static void put_table_msg(struct nl_batch *b, int what, uint16_t flags, const char *table)
{
    begin(b, what, flags | NLM_F_ACK);
    nl_attr_str(b, NFTA_TABLE_NAME, table);
}

static void put_chain(struct nl_batch *b, const char *table, const char *name, const char *type,
                      uint32_t hook, int32_t priority)
{
    size_t at;

    begin(b, NFT_MSG_NEWCHAIN, NLM_F_CREATE | NLM_F_ACK);
    nl_attr_str(b, NFTA_CHAIN_TABLE, table);
    nl_attr_str(b, NFTA_CHAIN_NAME, name);
    at = nl_nest(b, NFTA_CHAIN_HOOK);
    nl_attr_be32(b, NFTA_HOOK_HOOKNUM, hook);
    nl_attr_be32(b, NFTA_HOOK_PRIORITY, (uint32_t)priority);
    nl_nest_end(b, at);
    nl_attr_be32(b, NFTA_CHAIN_POLICY, NF_ACCEPT);
    nl_attr_str(b, NFTA_CHAIN_TYPE, type);
}

static void put_map(struct nl_batch *b, const char *table)
{
    begin(b, NFT_MSG_NEWSET, NLM_F_CREATE | NLM_F_ACK);
    nl_attr_str(b, NFTA_SET_TABLE, table);
    nl_attr_str(b, NFTA_SET_NAME, MAP_NAME);
    nl_attr_be32(b, NFTA_SET_FLAGS, NFT_SET_MAP);
    nl_attr_be32(b, NFTA_SET_KEY_TYPE, TYPE_PAIR(TYPE_INET_PROTO, TYPE_INET_SERVICE));
    nl_attr_be32(b, NFTA_SET_KEY_LEN, 8);
    nl_attr_be32(b, NFTA_SET_DATA_TYPE, TYPE_PAIR(TYPE_IPADDR, TYPE_INET_SERVICE));
    nl_attr_be32(b, NFTA_SET_DATA_LEN, 8);
    nl_attr_be32(b, NFTA_SET_ID, 1);
}

/* Parts of a concatenation fill four bytes each. */
struct map_key {
    uint8_t proto, pad[3];
    uint16_t port, pad2;
};
struct map_data {
    uint32_t ip;
    uint16_t port, pad;
};

static void put_value(struct nl_batch *b, uint16_t type, const void *value, size_t len)
{
    size_t at = nl_nest(b, type);

    nl_attr(b, NFTA_DATA_VALUE, value, len);
    nl_nest_end(b, at);
}

static void put_element(struct nl_batch *b, const struct nft_port *port, bool with_data)
{
    struct map_key key = {.proto = port->proto, .port = htons(port->host_port)};
    struct map_data data = {.ip = htonl(port->ip), .port = htons(port->pod_port)};
    size_t at = nl_nest(b, NFTA_LIST_ELEM);

    put_value(b, NFTA_SET_ELEM_KEY, &key, sizeof(key));
    if (with_data)
        put_value(b, NFTA_SET_ELEM_DATA, &data, sizeof(data));
    nl_nest_end(b, at);
}

static void put_elements(struct nl_batch *b, int what, const char *table, const struct nft_port *ports,
                         size_t n)
{
    size_t at;

    begin(b, what, (what == NFT_MSG_NEWSETELEM ? NLM_F_CREATE : 0) | NLM_F_ACK);
    nl_attr_str(b, NFTA_SET_ELEM_LIST_TABLE, table);
    nl_attr_str(b, NFTA_SET_ELEM_LIST_SET, MAP_NAME);
    at = nl_nest(b, NFTA_SET_ELEM_LIST_ELEMENTS);
    for (size_t i = 0; i < n; i++)
        put_element(b, &ports[i], what == NFT_MSG_NEWSETELEM);
    nl_nest_end(b, at);
}

/* ---- rules: an open rule is a list of expressions ---- */

static size_t rule_begin(struct nl_batch *b, const char *table, const char *chain)
{
    begin(b, NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND | NLM_F_ACK);
    nl_attr_str(b, NFTA_RULE_TABLE, table);
    nl_attr_str(b, NFTA_RULE_CHAIN, chain);
    return nl_nest(b, NFTA_RULE_EXPRESSIONS);
}

struct expr {
    size_t elem, data;
};

static struct expr expr_begin(struct nl_batch *b, const char *name)
{
    struct expr e;

    e.elem = nl_nest(b, NFTA_LIST_ELEM);
    nl_attr_str(b, NFTA_EXPR_NAME, name);
    e.data = nl_nest(b, NFTA_EXPR_DATA);
    return e;
}

static void expr_end(struct nl_batch *b, struct expr e)
{
    nl_nest_end(b, e.data);
    nl_nest_end(b, e.elem);
}

static void expr_meta(struct nl_batch *b, uint32_t key, uint32_t reg)
{
    struct expr e = expr_begin(b, "meta");

    nl_attr_be32(b, NFTA_META_DREG, reg);
    nl_attr_be32(b, NFTA_META_KEY, key);
    expr_end(b, e);
}

static void expr_payload(struct nl_batch *b, uint32_t base, uint32_t offset, uint32_t len, uint32_t reg)
{
    struct expr e = expr_begin(b, "payload");

    nl_attr_be32(b, NFTA_PAYLOAD_DREG, reg);
    nl_attr_be32(b, NFTA_PAYLOAD_BASE, base);
    nl_attr_be32(b, NFTA_PAYLOAD_OFFSET, offset);
    nl_attr_be32(b, NFTA_PAYLOAD_LEN, len);
    expr_end(b, e);
}

static void expr_mask(struct nl_batch *b, uint32_t mask)
{
    struct expr e = expr_begin(b, "bitwise");
    uint32_t zero = 0;

    nl_attr_be32(b, NFTA_BITWISE_SREG, NFT_REG_1);
    nl_attr_be32(b, NFTA_BITWISE_DREG, NFT_REG_1);
    nl_attr_be32(b, NFTA_BITWISE_LEN, sizeof(mask));
    put_value(b, NFTA_BITWISE_MASK, &mask, sizeof(mask));
    put_value(b, NFTA_BITWISE_XOR, &zero, sizeof(zero));
    expr_end(b, e);
}

static void expr_cmp(struct nl_batch *b, uint32_t op, const void *value, size_t len)
{
    struct expr e = expr_begin(b, "cmp");

    nl_attr_be32(b, NFTA_CMP_SREG, NFT_REG_1);
    nl_attr_be32(b, NFTA_CMP_OP, op);
    put_value(b, NFTA_CMP_DATA, value, len);
    expr_end(b, e);
}

/* Interface names are compared with all their 16 bytes. */
static void match_dev(struct nl_batch *b, uint32_t meta_key, uint32_t op, const char *name)
{
    char padded[IF_NAMESIZE] = "";

    memcpy(padded, name, strnlen(name, IF_NAMESIZE - 1));
    expr_meta(b, meta_key, NFT_REG_1);
    expr_cmp(b, op, padded, sizeof(padded));
}

static void match_ip(struct nl_batch *b, uint32_t offset, uint32_t base, int prefix)
{
    uint32_t ip = htonl(base);

    expr_payload(b, NFT_PAYLOAD_NETWORK_HEADER, offset, 4, NFT_REG_1);
    expr_mask(b, htonl(subnet_mask(prefix)));
    expr_cmp(b, NFT_CMP_EQ, &ip, sizeof(ip));
}

static void match_published(struct nl_batch *b)
{
    struct expr e = expr_begin(b, "ct");
    uint32_t zero = 0;

    nl_attr_be32(b, NFTA_CT_DREG, NFT_REG_1);
    nl_attr_be32(b, NFTA_CT_KEY, NFT_CT_STATUS);
    expr_end(b, e);
    expr_mask(b, IPS_DST_NAT);
    expr_cmp(b, NFT_CMP_NEQ, &zero, sizeof(zero));
}

static void match_local_dest(struct nl_batch *b)
{
    struct expr e = expr_begin(b, "fib");
    uint32_t local = RTN_LOCAL;

    nl_attr_be32(b, NFTA_FIB_DREG, NFT_REG_1);
    nl_attr_be32(b, NFTA_FIB_RESULT, NFT_FIB_RESULT_ADDRTYPE);
    nl_attr_be32(b, NFTA_FIB_FLAGS, NFTA_FIB_F_DADDR);
    expr_end(b, e);
    expr_cmp(b, NFT_CMP_EQ, &local, sizeof(local));
}

static void do_masquerade(struct nl_batch *b)
{
    expr_end(b, expr_begin(b, "masq"));
}

static void do_drop(struct nl_batch *b)
{
    struct expr e = expr_begin(b, "immediate");
    size_t data, verdict;

    nl_attr_be32(b, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    data = nl_nest(b, NFTA_IMMEDIATE_DATA);
    verdict = nl_nest(b, NFTA_DATA_VERDICT);
    nl_attr_be32(b, NFTA_VERDICT_CODE, NF_DROP);
    nl_nest_end(b, verdict);
    nl_nest_end(b, data);
    expr_end(b, e);
}

/* Protocol and destination port, side by side, are looked up; address and port come out side by side. */
static void do_dnat_by_map(struct nl_batch *b)
{
    struct expr e;

    expr_meta(b, NFT_META_L4PROTO, NFT_REG32_00);
    expr_payload(b, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, NFT_REG32_01);
    e = expr_begin(b, "lookup");
    nl_attr_str(b, NFTA_LOOKUP_SET, MAP_NAME);
    nl_attr_be32(b, NFTA_LOOKUP_SREG, NFT_REG_1);
    nl_attr_be32(b, NFTA_LOOKUP_DREG, NFT_REG_1);
    nl_attr_be32(b, NFTA_LOOKUP_SET_ID, 1);
    expr_end(b, e);
    e = expr_begin(b, "nat");
    nl_attr_be32(b, NFTA_NAT_TYPE, NFT_NAT_DNAT);
    nl_attr_be32(b, NFTA_NAT_FAMILY, NFPROTO_IPV4);
    nl_attr_be32(b, NFTA_NAT_REG_ADDR_MIN, NFT_REG32_00);
    nl_attr_be32(b, NFTA_NAT_REG_PROTO_MIN, NFT_REG32_01);
    nl_attr_be32(b, NFTA_NAT_FLAGS, NF_NAT_RANGE_MAP_IPS | NF_NAT_RANGE_PROTO_SPECIFIED);
    expr_end(b, e);
}

/* ---- the table ---- */

#define SADDR 12 /* places in the IPv4 header */
#define DADDR 16

static void put_rules(struct nl_batch *b, const char *table, const struct subnet *subnet)
{
    static const char *const dnat_chains[] = {"prerouting", "output"};
    size_t rule;

    for (size_t i = 0; i < ARRAY_LEN(dnat_chains); i++) {
        rule = rule_begin(b, table, dnat_chains[i]);
        match_local_dest(b);
        do_dnat_by_map(b);
        nl_nest_end(b, rule);
    }
    rule = rule_begin(b, table, "postrouting");
    match_ip(b, SADDR, subnet->base, subnet->prefix);
    match_dev(b, NFT_META_OIFNAME, NFT_CMP_NEQ, table);
    do_masquerade(b);
    nl_nest_end(b, rule);

    rule = rule_begin(b, table, "postrouting");
    match_dev(b, NFT_META_OIFNAME, NFT_CMP_EQ, table);
    match_ip(b, SADDR, subnet->base, subnet->prefix);
    match_published(b);
    do_masquerade(b);
    nl_nest_end(b, rule);

    rule = rule_begin(b, table, "postrouting");
    match_dev(b, NFT_META_OIFNAME, NFT_CMP_EQ, table);
    match_ip(b, SADDR, UINT32_C(127) << 24, 8);
    do_masquerade(b);
    nl_nest_end(b, rule);

    rule = rule_begin(b, table, "guard");
    match_dev(b, NFT_META_IIFNAME, NFT_CMP_EQ, table);
    match_ip(b, DADDR, UINT32_C(127) << 24, 8);
    do_drop(b);
    nl_nest_end(b, rule);
}

void nft_put_table(struct nl_batch *b, const char *table, const struct subnet *subnet,
                   const struct nft_ports *ports)
{
    batch_mark(b, NFNL_MSG_BATCH_BEGIN);
    put_table_msg(b, NFT_MSG_NEWTABLE, NLM_F_CREATE, table); /* so that there is one to remove */
    put_table_msg(b, NFT_MSG_DELTABLE, 0, table);
    put_table_msg(b, NFT_MSG_NEWTABLE, NLM_F_CREATE, table);
    put_map(b, table);
    for (size_t i = 0; ports && i < ports->len; i++)
        put_elements(b, NFT_MSG_NEWSETELEM, table, &ports->v[i], 1);
    put_chain(b, table, "prerouting", "nat", NF_INET_PRE_ROUTING, NF_IP_PRI_NAT_DST);
    put_chain(b, table, "output", "nat", NF_INET_LOCAL_OUT, NF_IP_PRI_NAT_DST);
    put_chain(b, table, "postrouting", "nat", NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC);
    put_chain(b, table, "guard", "filter", NF_INET_PRE_ROUTING, NF_IP_PRI_RAW);
    put_rules(b, table, subnet);
    batch_mark(b, NFNL_MSG_BATCH_END);
}

int nft_table_set(int fd, const char *table, const struct subnet *subnet, const struct nft_ports *ports,
                  struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    uint32_t failed = 0;

    nft_put_table(&batch, table, subnet, ports);
    if (nl_send(fd, &batch, &failed, err) < 0)
        return err_prefix(err, "nf_tables table '%s', message %u", table, failed);
    return 0;
}

/* Sends b as a whole transaction; `gone` is the errno that is as good as success. */
static int transact(int fd, struct nl_batch *b, int gone, struct err *err)
{
    struct err why = {0};

    batch_mark(b, NFNL_MSG_BATCH_END);
    if (nl_send(fd, b, NULL, &why) == 0 || (gone && why.sys == gone))
        return 0;
    if (err)
        *err = why;
    return -1;
}

int nft_table_there(int fd, const char *table, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    struct err why = {0};

    put_table_msg(&batch, NFT_MSG_GETTABLE, 0, table);
    if (nl_send(fd, &batch, NULL, &why) == 0)
        return 1;
    if (why.sys == ENOENT)
        return 0;
    if (err)
        *err = why;
    return -1;
}

int nft_table_del(int fd, const char *table, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};

    batch_mark(&batch, NFNL_MSG_BATCH_BEGIN);
    put_table_msg(&batch, NFT_MSG_DELTABLE, 0, table);
    if (transact(fd, &batch, ENOENT, err) < 0)
        return err_prefix(err, "remove nf_tables table '%s'", table);
    return 0;
}

int nft_port_add(int fd, const char *table, const struct nft_port *port, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};

    batch_mark(&batch, NFNL_MSG_BATCH_BEGIN);
    put_elements(&batch, NFT_MSG_NEWSETELEM, table, port, 1);
    if (transact(fd, &batch, 0, err) < 0)
        return err_prefix(err, "publish port %u in nf_tables", port->host_port);
    return 0;
}

int nft_port_del(int fd, const char *table, const struct nft_port *port, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};

    batch_mark(&batch, NFNL_MSG_BATCH_BEGIN);
    put_elements(&batch, NFT_MSG_DELSETELEM, table, port, 1);
    if (transact(fd, &batch, ENOENT, err) < 0)
        return err_prefix(err, "take back port %u in nf_tables", port->host_port);
    return 0;
}

/* ---- reading the map ---- */

static bool get_value(const struct nlattr *nest, void *ret, size_t len)
{
    const struct nlattr *data[NFTA_DATA_VALUE + 1];

    if (!nest)
        return false;
    nl_parse(data, NFTA_DATA_VALUE, nl_data(nest), nl_len(nest));
    if (!data[NFTA_DATA_VALUE] || nl_len(data[NFTA_DATA_VALUE]) < len)
        return false;
    memcpy(ret, nl_data(data[NFTA_DATA_VALUE]), len);
    return true;
}

static void on_elements(void *arg, const struct nlmsghdr *msg)
{
    struct nft_ports *ports = arg;
    const struct nlattr *list[NFTA_SET_ELEM_LIST_ELEMENTS + 1];
    const char *at;
    size_t left;

    if (!nl_parse_msg(msg, sizeof(struct nfgenmsg), list, NFTA_SET_ELEM_LIST_ELEMENTS) ||
        !list[NFTA_SET_ELEM_LIST_ELEMENTS])
        return;
    at = nl_data(list[NFTA_SET_ELEM_LIST_ELEMENTS]);
    left = nl_len(list[NFTA_SET_ELEM_LIST_ELEMENTS]);
    while (left >= NLA_HDRLEN) {
        const struct nlattr *item = (const void *)at, *elem[NFTA_SET_ELEM_DATA + 1];
        size_t step = NLA_ALIGN(item->nla_len);
        struct map_key key;
        struct map_data data;

        if (item->nla_len < NLA_HDRLEN || item->nla_len > left)
            return;
        nl_parse(elem, NFTA_SET_ELEM_DATA, nl_data(item), nl_len(item));
        if (get_value(elem[NFTA_SET_ELEM_KEY], &key, sizeof(key)) &&
            get_value(elem[NFTA_SET_ELEM_DATA], &data, sizeof(data)))
            vec_push(ports, (struct nft_port){key.proto, ntohs(key.port), ntohl(data.ip), ntohs(data.port)});
        if (step >= left)
            return;
        at += step;
        left -= step;
    }
}

int nft_ports_list(int fd, const char *table, struct nft_ports *ret, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    struct err why = {0};

    begin(&batch, NFT_MSG_GETSETELEM, NLM_F_DUMP);
    nl_attr_str(&batch, NFTA_SET_ELEM_LIST_TABLE, table);
    nl_attr_str(&batch, NFTA_SET_ELEM_LIST_SET, MAP_NAME);
    if (nl_dump(fd, &batch, on_elements, ret, &why) == 0 || why.code == ERR_NOT_FOUND)
        return 0;
    if (err)
        *err = why;
    return err_prefix(err, "list published ports");
}
