/* nft - see nft.h. nf_tables takes a batch whole or not at all, so a table is replaced without a moment
 * in which there is none. Its numbers are big-endian, except those that expressions load (marks, ct status,
 * address types), which are the machine's. */
#include "podnet/nft.h"

#include "base/vec.h"
#include "podnet/nft_msg.h"

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

static void put_map(struct nl_batch *b, const char *table)
{
    nft_begin(b, NFT_MSG_NEWSET, NLM_F_CREATE | NLM_F_ACK);
    nl_attr_str(b, NFTA_SET_TABLE, table);
    nl_attr_str(b, NFTA_SET_NAME, MAP_NAME);
    nl_attr_be32(b, NFTA_SET_FLAGS, NFT_SET_MAP);
    nl_attr_be32(b, NFTA_SET_KEY_TYPE, NFT_TYPE_PAIR(NFT_TYPE_INET_PROTO, NFT_TYPE_INET_SERVICE));
    nl_attr_be32(b, NFTA_SET_KEY_LEN, 8);
    nl_attr_be32(b, NFTA_SET_DATA_TYPE, NFT_TYPE_PAIR(NFT_TYPE_IPADDR, NFT_TYPE_INET_SERVICE));
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

static void put_element(struct nl_batch *b, const struct nft_port *port, bool with_data)
{
    struct map_key key = {.proto = port->proto, .port = htons(port->host_port)};
    struct map_data data = {.ip = htonl(port->ip), .port = htons(port->pod_port)};
    size_t at = nl_nest(b, NFTA_LIST_ELEM);

    nft_value(b, NFTA_SET_ELEM_KEY, &key, sizeof(key));
    if (with_data)
        nft_value(b, NFTA_SET_ELEM_DATA, &data, sizeof(data));
    nl_nest_end(b, at);
}

static void put_elements(struct nl_batch *b, int what, const char *table, const struct nft_port *ports,
                         size_t n)
{
    size_t at;

    nft_begin(b, what, (what == NFT_MSG_NEWSETELEM ? NLM_F_CREATE : 0) | NLM_F_ACK);
    nl_attr_str(b, NFTA_SET_ELEM_LIST_TABLE, table);
    nl_attr_str(b, NFTA_SET_ELEM_LIST_SET, MAP_NAME);
    at = nl_nest(b, NFTA_SET_ELEM_LIST_ELEMENTS);
    for (size_t i = 0; i < n; i++)
        put_element(b, &ports[i], what == NFT_MSG_NEWSETELEM);
    nl_nest_end(b, at);
}

static void match_published(struct nl_batch *b)
{
    struct nft_expr e = nft_expr(b, "ct");
    uint32_t zero = 0;

    nl_attr_be32(b, NFTA_CT_DREG, NFT_REG_1);
    nl_attr_be32(b, NFTA_CT_KEY, NFT_CT_STATUS);
    nft_expr_end(b, e);
    nft_mask(b, IPS_DST_NAT);
    nft_cmp(b, NFT_CMP_NEQ, &zero, sizeof(zero));
}

static void do_masquerade(struct nl_batch *b)
{
    nft_expr_end(b, nft_expr(b, "masq"));
}

static void do_drop(struct nl_batch *b)
{
    struct nft_expr e = nft_expr(b, "immediate");
    size_t data, verdict;

    nl_attr_be32(b, NFTA_IMMEDIATE_DREG, NFT_REG_VERDICT);
    data = nl_nest(b, NFTA_IMMEDIATE_DATA);
    verdict = nl_nest(b, NFTA_DATA_VERDICT);
    nl_attr_be32(b, NFTA_VERDICT_CODE, NF_DROP);
    nl_nest_end(b, verdict);
    nl_nest_end(b, data);
    nft_expr_end(b, e);
}

/* Protocol and destination port, side by side, are looked up; address and port come out side by side. */
static void do_dnat_by_map(struct nl_batch *b)
{
    struct nft_expr e;

    nft_meta(b, NFT_META_L4PROTO, NFT_REG32_00);
    nft_payload(b, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, NFT_REG32_01);
    e = nft_expr(b, "lookup");
    nl_attr_str(b, NFTA_LOOKUP_SET, MAP_NAME);
    nl_attr_be32(b, NFTA_LOOKUP_SREG, NFT_REG_1);
    nl_attr_be32(b, NFTA_LOOKUP_DREG, NFT_REG_1);
    nl_attr_be32(b, NFTA_LOOKUP_SET_ID, 1);
    nft_expr_end(b, e);
    nft_dnat(b);
}

/* ---- the table ---- */

static void put_rules(struct nl_batch *b, const char *table, const struct subnet *subnet)
{
    static const char *const dnat_chains[] = {"prerouting", "output"};
    size_t rule;

    for (size_t i = 0; i < ARRAY_LEN(dnat_chains); i++) {
        rule = nft_rule(b, table, dnat_chains[i]);
        nft_match_local(b);
        do_dnat_by_map(b);
        nl_nest_end(b, rule);
    }
    rule = nft_rule(b, table, "postrouting");
    nft_match_ip(b, NFT_SADDR, subnet->base, subnet->prefix);
    nft_match_dev(b, NFT_META_OIFNAME, NFT_CMP_NEQ, table);
    do_masquerade(b);
    nl_nest_end(b, rule);

    rule = nft_rule(b, table, "postrouting");
    nft_match_dev(b, NFT_META_OIFNAME, NFT_CMP_EQ, table);
    nft_match_ip(b, NFT_SADDR, subnet->base, subnet->prefix);
    match_published(b);
    do_masquerade(b);
    nl_nest_end(b, rule);

    rule = nft_rule(b, table, "postrouting");
    nft_match_dev(b, NFT_META_OIFNAME, NFT_CMP_EQ, table);
    nft_match_ip(b, NFT_SADDR, UINT32_C(127) << 24, 8);
    do_masquerade(b);
    nl_nest_end(b, rule);

    rule = nft_rule(b, table, "guard");
    nft_match_dev(b, NFT_META_IIFNAME, NFT_CMP_EQ, table);
    nft_match_ip(b, NFT_DADDR, UINT32_C(127) << 24, 8);
    do_drop(b);
    nl_nest_end(b, rule);
}

void nft_put_table(struct nl_batch *b, const char *table, const struct subnet *subnet,
                   const struct nft_ports *ports)
{
    nft_mark(b, NFNL_MSG_BATCH_BEGIN);
    nft_table_msg(b, NFT_MSG_NEWTABLE, NLM_F_CREATE, table); /* so that there is one to remove */
    nft_table_msg(b, NFT_MSG_DELTABLE, 0, table);
    nft_table_msg(b, NFT_MSG_NEWTABLE, NLM_F_CREATE, table);
    put_map(b, table);
    for (size_t i = 0; ports && i < ports->len; i++)
        put_elements(b, NFT_MSG_NEWSETELEM, table, &ports->v[i], 1);
    nft_chain(b, table, "prerouting", "nat", NF_INET_PRE_ROUTING, NF_IP_PRI_NAT_DST);
    nft_chain(b, table, "output", "nat", NF_INET_LOCAL_OUT, NF_IP_PRI_NAT_DST);
    nft_chain(b, table, "postrouting", "nat", NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC);
    nft_chain(b, table, "guard", "filter", NF_INET_PRE_ROUTING, NF_IP_PRI_RAW);
    put_rules(b, table, subnet);
    nft_mark(b, NFNL_MSG_BATCH_END);
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

int nft_table_there(int fd, const char *table, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    struct err why = {0};

    nft_table_msg(&batch, NFT_MSG_GETTABLE, 0, table);
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

    nft_mark(&batch, NFNL_MSG_BATCH_BEGIN);
    nft_table_msg(&batch, NFT_MSG_DELTABLE, 0, table);
    if (nft_transact(fd, &batch, ENOENT, err) < 0)
        return err_prefix(err, "remove nf_tables table '%s'", table);
    return 0;
}

int nft_port_add(int fd, const char *table, const struct nft_port *port, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};

    nft_mark(&batch, NFNL_MSG_BATCH_BEGIN);
    put_elements(&batch, NFT_MSG_NEWSETELEM, table, port, 1);
    if (nft_transact(fd, &batch, 0, err) < 0)
        return err_prefix(err, "publish port %u in nf_tables", port->host_port);
    return 0;
}

int nft_port_del(int fd, const char *table, const struct nft_port *port, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};

    nft_mark(&batch, NFNL_MSG_BATCH_BEGIN);
    put_elements(&batch, NFT_MSG_DELSETELEM, table, port, 1);
    if (nft_transact(fd, &batch, ENOENT, err) < 0)
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

    nft_begin(&batch, NFT_MSG_GETSETELEM, NLM_F_DUMP);
    nl_attr_str(&batch, NFTA_SET_ELEM_LIST_TABLE, table);
    nl_attr_str(&batch, NFTA_SET_ELEM_LIST_SET, MAP_NAME);
    if (nl_dump(fd, &batch, on_elements, ret, &why) == 0 || why.code == ERR_NOT_FOUND)
        return 0;
    if (err)
        *err = why;
    return err_prefix(err, "list published ports");
}
