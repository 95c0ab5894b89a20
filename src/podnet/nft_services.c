/* nft_services - see nft_services.h. Elements are sent without asking for an answer each: an error comes
 * unasked, and thousands of answers would not fit into the socket. */
#include "podnet/nft_services.h"

#include "base/mem.h"
#include "podnet/nft.h"
#include "podnet/nft_msg.h"

#include <arpa/inet.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/ip_icmp.h>
#include <string.h>

enum { SET_BALANCE = 1, SET_STICKY, SET_REFUSED };
static const char *const set_names[] = {
    [SET_BALANCE] = "balance", [SET_STICKY] = "sticky", [SET_REFUSED] = "refused"};

#define HASH_SEED 0x62657274

/* Parts of a concatenation fill four bytes each. */
struct key {
    uint32_t ip;
    uint8_t proto, pad[3];
    uint16_t port, pad2;
    uint32_t slot; /* the machine's byte order; not in `refused` */
};
struct target {
    uint32_t ip;
    uint16_t port, pad;
};
#define REFUSED_KEY offsetof(struct key, slot)

static char *table_name(const char *bridge)
{
    return mem_printf("%s-services", bridge);
}

/* ---- sets ---- */

static void put_set(struct nl_batch *b, const char *table, uint32_t id)
{
    uint32_t type = NFT_TYPE_PAIR(NFT_TYPE_PAIR(NFT_TYPE_IPADDR, NFT_TYPE_INET_PROTO), NFT_TYPE_INET_SERVICE);
    bool map = id != SET_REFUSED;

    nft_begin(b, NFT_MSG_NEWSET, NLM_F_CREATE | NLM_F_ACK);
    nl_attr_str(b, NFTA_SET_TABLE, table);
    nl_attr_str(b, NFTA_SET_NAME, set_names[id]);
    nl_attr_be32(b, NFTA_SET_FLAGS, map ? NFT_SET_MAP : 0);
    nl_attr_be32(b, NFTA_SET_KEY_TYPE, map ? NFT_TYPE_PAIR(type, NFT_TYPE_MARK) : type);
    nl_attr_be32(b, NFTA_SET_KEY_LEN, map ? sizeof(struct key) : REFUSED_KEY);
    if (map) {
        nl_attr_be32(b, NFTA_SET_DATA_TYPE, NFT_TYPE_PAIR(NFT_TYPE_IPADDR, NFT_TYPE_INET_SERVICE));
        nl_attr_be32(b, NFTA_SET_DATA_LEN, sizeof(struct target));
    }
    nl_attr_be32(b, NFTA_SET_ID, id);
}

static void put_element(struct nl_batch *b, const struct key *key, const struct nft_endpoint *to)
{
    struct target target = {0};
    size_t at = nl_nest(b, NFTA_LIST_ELEM);

    nft_value(b, NFTA_SET_ELEM_KEY, key, to ? sizeof(*key) : REFUSED_KEY);
    if (to) {
        target.ip = htonl(to->ip);
        target.port = htons(to->port);
        nft_value(b, NFTA_SET_ELEM_DATA, &target, sizeof(target));
    }
    nl_nest_end(b, at);
}

static void put_service(struct nl_batch *b, const char *table, const struct nft_service *service)
{
    uint32_t id = !service->len ? SET_REFUSED : service->sticky ? SET_STICKY : SET_BALANCE;
    struct key key = {.ip = htonl(service->ip), .proto = service->proto, .port = htons(service->port)};
    size_t at, used = service->len < NFT_SLOTS ? service->len : NFT_SLOTS;

    if (!service->len && !service->ip)
        return; /* nobody listens there, which refuses by itself */
    nft_begin(b, NFT_MSG_NEWSETELEM, NLM_F_CREATE);
    nl_attr_str(b, NFTA_SET_ELEM_LIST_TABLE, table);
    nl_attr_str(b, NFTA_SET_ELEM_LIST_SET, set_names[id]);
    nl_attr_be32(b, NFTA_SET_ELEM_LIST_SET_ID, id);
    at = nl_nest(b, NFTA_SET_ELEM_LIST_ELEMENTS);
    if (!used)
        put_element(b, &key, NULL);
    for (uint32_t slot = 0; used && slot < NFT_SLOTS; slot++) {
        key.slot = slot;
        put_element(b, &key, &service->endpoints[slot % used]);
    }
    nl_nest_end(b, at);
}

/* ---- rules ---- */

static void load_zero(struct nl_batch *b, uint32_t reg)
{
    struct nft_expr e = nft_expr(b, "immediate");
    uint32_t zero = 0;

    nl_attr_be32(b, NFTA_IMMEDIATE_DREG, reg);
    nft_value(b, NFTA_IMMEDIATE_DATA, &zero, sizeof(zero));
    nft_expr_end(b, e);
}

static void load_slot(struct nl_batch *b, bool sticky, uint32_t reg)
{
    struct nft_expr e;

    if (sticky) {
        nft_payload(b, NFT_PAYLOAD_NETWORK_HEADER, NFT_SADDR, 4, NFT_REG32_08);
        e = nft_expr(b, "hash");
        nl_attr_be32(b, NFTA_HASH_SREG, NFT_REG32_08);
        nl_attr_be32(b, NFTA_HASH_DREG, reg);
        nl_attr_be32(b, NFTA_HASH_LEN, 4);
        nl_attr_be32(b, NFTA_HASH_MODULUS, NFT_SLOTS);
        nl_attr_be32(b, NFTA_HASH_SEED, HASH_SEED);
        nl_attr_be32(b, NFTA_HASH_TYPE, NFT_HASH_JENKINS);
    } else {
        e = nft_expr(b, "numgen");
        nl_attr_be32(b, NFTA_NG_DREG, reg);
        nl_attr_be32(b, NFTA_NG_MODULUS, NFT_SLOTS);
        nl_attr_be32(b, NFTA_NG_TYPE, NFT_NG_RANDOM);
    }
    nft_expr_end(b, e);
}

static void lookup(struct nl_batch *b, uint32_t id)
{
    struct nft_expr e = nft_expr(b, "lookup");

    nl_attr_str(b, NFTA_LOOKUP_SET, set_names[id]);
    nl_attr_be32(b, NFTA_LOOKUP_SREG, NFT_REG_1);
    if (id != SET_REFUSED)
        nl_attr_be32(b, NFTA_LOOKUP_DREG, NFT_REG_1);
    nl_attr_be32(b, NFTA_LOOKUP_SET_ID, id);
    nft_expr_end(b, e);
}

static void load_key(struct nl_batch *b, bool node_port)
{
    if (node_port)
        load_zero(b, NFT_REG32_00);
    else
        nft_payload(b, NFT_PAYLOAD_NETWORK_HEADER, NFT_DADDR, 4, NFT_REG32_00);
    nft_meta(b, NFT_META_L4PROTO, NFT_REG32_01);
    nft_payload(b, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, NFT_REG32_02);
}

static void put_dnat(struct nl_batch *b, const char *table, const char *chain, const char *bridge,
                     bool node_port, bool sticky)
{
    size_t rule = nft_rule(b, table, chain);

    if (node_port)
        nft_match_local(b);
    else if (bridge)
        nft_match_dev(b, NFT_META_IIFNAME, NFT_CMP_EQ, bridge);
    load_key(b, node_port);
    load_slot(b, sticky, NFT_REG32_03);
    lookup(b, sticky ? SET_STICKY : SET_BALANCE);
    nft_dnat(b);
    nl_nest_end(b, rule);
}

/* TCP gets a reset: of ICMP messages the kernel sends one client about one a second. */
static void put_reject(struct nl_batch *b, const char *table, const char *chain, bool tcp)
{
    size_t rule = nft_rule(b, table, chain);
    struct nft_expr e;

    if (tcp) {
        nft_meta(b, NFT_META_L4PROTO, NFT_REG_1);
        nft_cmp(b, NFT_CMP_EQ, &(uint8_t){IPPROTO_TCP}, 1);
    }
    load_key(b, false);
    lookup(b, SET_REFUSED);
    e = nft_expr(b, "reject");
    nl_attr_be32(b, NFTA_REJECT_TYPE, tcp ? NFT_REJECT_TCP_RST : NFT_REJECT_ICMP_UNREACH);
    nl_attr_u8(b, NFTA_REJECT_ICMP_CODE, tcp ? 0 : ICMP_PORT_UNREACH);
    nft_expr_end(b, e);
    nl_nest_end(b, rule);
}

void nft_put_services(struct nl_batch *b, const char *bridge, const struct nft_service *services, size_t len)
{
    CLEANUP(free) char *table = table_name(bridge);

    nft_mark(b, NFNL_MSG_BATCH_BEGIN);
    nft_table_msg(b, NFT_MSG_NEWTABLE, NLM_F_CREATE, table); /* so that there is one to remove */
    nft_table_msg(b, NFT_MSG_DELTABLE, 0, table);
    nft_table_msg(b, NFT_MSG_NEWTABLE, NLM_F_CREATE, table);
    for (uint32_t id = SET_BALANCE; id <= SET_REFUSED; id++)
        put_set(b, table, id);
    for (size_t i = 0; i < len; i++)
        put_service(b, table, &services[i]);
    nft_chain(b, table, "prerouting", "nat", NF_INET_PRE_ROUTING, NF_IP_PRI_NAT_DST);
    nft_chain(b, table, "output", "nat", NF_INET_LOCAL_OUT, NF_IP_PRI_NAT_DST);
    nft_chain(b, table, "incoming", "filter", NF_INET_PRE_ROUTING, NF_IP_PRI_FILTER); /* no route is needed */
    nft_chain(b, table, "local", "filter", NF_INET_LOCAL_OUT, NF_IP_PRI_FILTER);
    for (int i = 0; i < 4; i++) {
        put_dnat(b, table, "prerouting", bridge, i & 2, i & 1);
        put_dnat(b, table, "output", NULL, i & 2, i & 1);
    }
    for (int tcp = 1; tcp >= 0; tcp--) {
        put_reject(b, table, "incoming", tcp);
        put_reject(b, table, "local", tcp);
    }
}

int nft_services_set(int fd, const char *bridge, const struct nft_service *services, size_t len,
                     struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};

    nft_put_services(&batch, bridge, services, len);
    if (nft_transact(fd, &batch, 0, err) < 0)
        return err_prefix(err, "nf_tables table of services");
    return 0;
}

int nft_services_del(int fd, const char *bridge, struct err *err)
{
    CLEANUP(free) char *table = table_name(bridge);

    return nft_table_del(fd, table, err);
}

int nft_services_there(int fd, const char *bridge, struct err *err)
{
    CLEANUP(free) char *table = table_name(bridge);

    return nft_table_there(fd, table, err);
}
