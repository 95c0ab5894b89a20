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

#define MAP_NAME        "ports"
#define MAP_ID          1
#define TABLE_RULES     6 /* that nft_put_table makes */

#define LOOPBACK        (UINT32_C(127) << 24)
#define LOOPBACK_PREFIX 8

/* Parts of a concatenation fill four bytes each. */
struct map_key {
    uint8_t proto, pad[3];
    uint16_t port, pad2;
};
struct map_data {
    uint32_t ip;
    uint16_t port, pad;
};

static void put_port(struct nl_batch *b, int what, const char *table, const struct nft_port *port)
{
    CLEANUP(nftnl_set_free) struct nftnl_set *set = nft_set(table, MAP_NAME, MAP_ID);
    struct map_key key = {.proto = port->proto, .port = htons(port->host_port)};
    struct map_data data = {.ip = htonl(port->ip), .port = htons(port->pod_port)};
    bool new = what == NFT_MSG_NEWSETELEM;

    nft_elem(set, &key, sizeof(key), new ? &data : NULL, sizeof(data));
    nft_elems_put(b, what, (new ? NLM_F_CREATE : 0) | NLM_F_ACK, set);
}

/* ---- the table ---- */

static void put_map(struct nl_batch *b, const char *table)
{
    CLEANUP(nftnl_set_free) struct nftnl_set *set = nft_set(table, MAP_NAME, MAP_ID);

    nft_set_put(b, set, NFT_TYPE_PAIR(NFT_TYPE_INET_PROTO, NFT_TYPE_INET_SERVICE), sizeof(struct map_key),
                NFT_TYPE_PAIR(NFT_TYPE_IPADDR, NFT_TYPE_INET_SERVICE), sizeof(struct map_data));
}

/* Protocol and destination port, side by side, are looked up; address and port come out side by side. */
static void put_dnat(struct nl_batch *b, const char *table, const char *chain)
{
    struct nftnl_rule *rule = nft_rule(table, chain);

    nft_match_local(rule);
    nft_meta(rule, NFT_META_L4PROTO, NFT_REG32_00);
    nft_payload(rule, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, NFT_REG32_01);
    nft_lookup(rule, MAP_NAME, MAP_ID, true);
    nft_dnat(rule);
    nft_rule_put(b, rule);
}

static void match_published(struct nftnl_rule *rule)
{
    uint32_t zero = 0;

    NFT_EXPR(rule, "ct", {NFTNL_EXPR_CT_DREG, NFT_REG_1}, {NFTNL_EXPR_CT_KEY, NFT_CT_STATUS});
    nft_mask(rule, IPS_DST_NAT);
    nft_cmp(rule, NFT_CMP_NEQ, &zero, sizeof(zero));
}

/* Masquerades what goes out over the bridge, or past it, and comes from that subnet. */
static void put_masquerade(struct nl_batch *b, const char *table, uint32_t dev_op, uint32_t base, int prefix,
                           bool published)
{
    struct nftnl_rule *rule = nft_rule(table, "postrouting");

    nft_match_dev(rule, NFT_META_OIFNAME, dev_op, table);
    nft_match_ip(rule, NFT_SADDR, base, prefix);
    if (published)
        match_published(rule);
    nft_expr(rule, "masq", NULL, 0);
    nft_rule_put(b, rule);
}

static void put_guard(struct nl_batch *b, const char *table)
{
    struct nftnl_rule *rule = nft_rule(table, "guard");

    nft_match_dev(rule, NFT_META_IIFNAME, NFT_CMP_EQ, table);
    nft_match_ip(rule, NFT_DADDR, LOOPBACK, LOOPBACK_PREFIX);
    NFT_EXPR(rule, "immediate", {NFTNL_EXPR_IMM_DREG, NFT_REG_VERDICT}, {NFTNL_EXPR_IMM_VERDICT, NF_DROP});
    nft_rule_put(b, rule);
}

void nft_put_table(struct nl_batch *b, const char *table, const struct subnet *subnet,
                   const struct nft_ports *ports)
{
    nft_table_renew(b, table);
    put_map(b, table);
    for (size_t i = 0; ports && i < ports->len; i++)
        put_port(b, NFT_MSG_NEWSETELEM, table, &ports->v[i]);
    nft_chain(b, table, "prerouting", "nat", NF_INET_PRE_ROUTING, NF_IP_PRI_NAT_DST);
    nft_chain(b, table, "output", "nat", NF_INET_LOCAL_OUT, NF_IP_PRI_NAT_DST);
    nft_chain(b, table, "postrouting", "nat", NF_INET_POST_ROUTING, NF_IP_PRI_NAT_SRC);
    nft_chain(b, table, "guard", "filter", NF_INET_PRE_ROUTING, NF_IP_PRI_RAW);
    put_dnat(b, table, "prerouting");
    put_dnat(b, table, "output");
    put_masquerade(b, table, NFT_CMP_NEQ, subnet->base, subnet->prefix, false);
    put_masquerade(b, table, NFT_CMP_EQ, subnet->base, subnet->prefix, true);
    put_masquerade(b, table, NFT_CMP_EQ, LOOPBACK, LOOPBACK_PREFIX, false);
    put_guard(b, table);
    nft_mark(b, NFNL_MSG_BATCH_END);
    nl_end(b);
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

int nft_table_whole(int fd, const char *table, struct err *err)
{
    return nft_rules_there(fd, table, TABLE_RULES, err);
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
    put_port(&batch, NFT_MSG_NEWSETELEM, table, port);
    if (nft_transact(fd, &batch, 0, err) < 0)
        return err_prefix(err, "publish port %u in nf_tables", port->host_port);
    return 0;
}

int nft_port_del(int fd, const char *table, const struct nft_port *port, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};

    nft_mark(&batch, NFNL_MSG_BATCH_BEGIN);
    put_port(&batch, NFT_MSG_DELSETELEM, table, port);
    if (nft_transact(fd, &batch, ENOENT, err) < 0)
        return err_prefix(err, "take back port %u in nf_tables", port->host_port);
    return 0;
}

/* ---- reading the map ---- */

static int on_element(struct nftnl_set_elem *elem, void *arg)
{
    struct nft_ports *ports = arg;
    uint32_t key_len = 0, data_len = 0;
    const struct map_key *key = nftnl_set_elem_get(elem, NFTNL_SET_ELEM_KEY, &key_len);
    const struct map_data *data = nftnl_set_elem_get(elem, NFTNL_SET_ELEM_DATA, &data_len);

    if (key && data && key_len >= sizeof(*key) && data_len >= sizeof(*data))
        vec_push(ports, (struct nft_port){key->proto, ntohs(key->port), ntohl(data->ip), ntohs(data->port)});
    return 0;
}

static void on_elements(void *arg, const struct nlmsghdr *msg)
{
    CLEANUP(nftnl_set_free) struct nftnl_set *set = nft_set("", "", 0);

    if (nftnl_set_elems_nlmsg_parse(msg, set) == 0)
        nftnl_set_elem_foreach(set, on_element, arg);
}

int nft_ports_list(int fd, const char *table, struct nft_ports *ret, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    CLEANUP(nftnl_set_free) struct nftnl_set *set = nft_set(table, MAP_NAME, MAP_ID);
    struct err why = {0};

    nft_elems_put(&batch, NFT_MSG_GETSETELEM, NLM_F_DUMP, set);
    if (nl_dump(fd, &batch, on_elements, ret, &why) == 0 || why.code == ERR_NOT_FOUND)
        return 0;
    if (err)
        *err = why;
    return err_prefix(err, "list published ports");
}
