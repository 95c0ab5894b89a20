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

#define HASH_SEED     0x62657274
#define SERVICE_RULES 12 /* that nft_put_services makes */

/* Parts of a concatenation fill four bytes each. */
struct service_key {
    uint32_t ip;
    uint8_t proto, pad[3];
    uint16_t port, pad2;
    uint32_t slot; /* the machine's byte order; not in `refused` */
};
struct service_target {
    uint32_t ip;
    uint16_t port, pad;
};
#define REFUSED_KEY offsetof(struct service_key, slot)

static char *table_name(const char *bridge)
{
    return mem_printf("%s-services", bridge);
}

/* ---- sets ---- */

static void put_set(struct nl_batch *b, const char *table, uint32_t id)
{
    CLEANUP(nftnl_set_free) struct nftnl_set *set = nft_set(table, set_names[id], id);
    uint32_t type = NFT_TYPE_PAIR(NFT_TYPE_PAIR(NFT_TYPE_IPADDR, NFT_TYPE_INET_PROTO), NFT_TYPE_INET_SERVICE);

    if (id == SET_REFUSED)
        nft_set_put(b, set, type, REFUSED_KEY, 0, 0);
    else
        nft_set_put(b, set, NFT_TYPE_PAIR(type, NFT_TYPE_MARK), sizeof(struct service_key),
                    NFT_TYPE_PAIR(NFT_TYPE_IPADDR, NFT_TYPE_INET_SERVICE), sizeof(struct service_target));
}

static void put_service(struct nl_batch *b, const char *table, const struct nft_service *service)
{
    uint32_t id = !service->len ? SET_REFUSED : service->sticky ? SET_STICKY : SET_BALANCE;
    CLEANUP(nftnl_set_free) struct nftnl_set *set = nft_set(table, set_names[id], id);
    struct service_key key = {
        .ip = htonl(service->ip), .proto = service->proto, .port = htons(service->port)};
    size_t used = service->len < NFT_SLOTS ? service->len : NFT_SLOTS;

    if (!service->len && !service->ip)
        return; /* nobody listens there, which refuses by itself */
    if (!used)
        nft_elem(set, &key, REFUSED_KEY, NULL, 0);
    for (uint32_t slot = 0; used && slot < NFT_SLOTS; slot++) {
        const struct nft_endpoint *to = &service->endpoints[slot % used];
        struct service_target target = {.ip = htonl(to->ip), .port = htons(to->port)};

        key.slot = slot;
        nft_elem(set, &key, sizeof(key), &target, sizeof(target));
    }
    nft_elems_put(b, NFT_MSG_NEWSETELEM, NLM_F_CREATE, set);
}

/* ---- rules ---- */

static void load_slot(struct nftnl_rule *rule, bool sticky, uint32_t reg)
{
    if (sticky) {
        nft_payload(rule, NFT_PAYLOAD_NETWORK_HEADER, NFT_SADDR, 4, NFT_REG32_08);
        NFT_EXPR(rule, "hash", {NFTNL_EXPR_HASH_SREG, NFT_REG32_08}, {NFTNL_EXPR_HASH_DREG, reg},
                 {NFTNL_EXPR_HASH_LEN, 4}, {NFTNL_EXPR_HASH_MODULUS, NFT_SLOTS},
                 {NFTNL_EXPR_HASH_SEED, HASH_SEED}, {NFTNL_EXPR_HASH_TYPE, NFT_HASH_JENKINS});
    } else {
        NFT_EXPR(rule, "numgen", {NFTNL_EXPR_NG_DREG, reg}, {NFTNL_EXPR_NG_MODULUS, NFT_SLOTS},
                 {NFTNL_EXPR_NG_TYPE, NFT_NG_RANDOM});
    }
}

static void load_key(struct nftnl_rule *rule, bool node_port)
{
    if (node_port) /* address 0.0.0.0 */
        NFT_EXPR(rule, "immediate", {NFTNL_EXPR_IMM_DREG, NFT_REG32_00}, {NFTNL_EXPR_IMM_DATA, 0});
    else
        nft_payload(rule, NFT_PAYLOAD_NETWORK_HEADER, NFT_DADDR, 4, NFT_REG32_00);
    nft_meta(rule, NFT_META_L4PROTO, NFT_REG32_01);
    nft_payload(rule, NFT_PAYLOAD_TRANSPORT_HEADER, 2, 2, NFT_REG32_02);
}

static void put_dnat(struct nl_batch *b, const char *table, const char *chain, const char *bridge,
                     bool node_port, bool sticky)
{
    struct nftnl_rule *rule = nft_rule(table, chain);
    uint32_t id = sticky ? SET_STICKY : SET_BALANCE;

    if (node_port)
        nft_match_local(rule);
    else if (bridge)
        nft_match_dev(rule, NFT_META_IIFNAME, NFT_CMP_EQ, bridge);
    load_key(rule, node_port);
    load_slot(rule, sticky, NFT_REG32_03);
    nft_lookup(rule, set_names[id], id, true);
    nft_dnat(rule);
    nft_rule_put(b, rule);
}

/* TCP gets a reset: of ICMP messages the kernel sends one client about one a second. */
static void put_reject(struct nl_batch *b, const char *table, const char *chain, bool tcp)
{
    struct nftnl_rule *rule = nft_rule(table, chain);
    struct nftnl_expr *reject;

    if (tcp) {
        nft_meta(rule, NFT_META_L4PROTO, NFT_REG_1);
        nft_cmp(rule, NFT_CMP_EQ, &(uint8_t){IPPROTO_TCP}, 1);
    }
    load_key(rule, false);
    nft_lookup(rule, set_names[SET_REFUSED], SET_REFUSED, false);
    reject = NFT_EXPR(rule, "reject",
                      {NFTNL_EXPR_REJECT_TYPE, tcp ? NFT_REJECT_TCP_RST : NFT_REJECT_ICMP_UNREACH});
    nftnl_expr_set_u8(reject, NFTNL_EXPR_REJECT_CODE, tcp ? 0 : ICMP_PORT_UNREACH);
    nft_rule_put(b, rule);
}

void nft_put_services(struct nl_batch *b, const char *bridge, const struct nft_service *services, size_t len)
{
    CLEANUP(free) char *table = table_name(bridge);

    nft_table_renew(b, table);
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

int nft_services_whole(int fd, const char *bridge, struct err *err)
{
    CLEANUP(free) char *table = table_name(bridge);

    return nft_rules_there(fd, table, SERVICE_RULES, err);
}

bool nft_services_is(const char *table, const char *bridge)
{
    CLEANUP(free) char *own = table_name(bridge);

    return streq(table, own);
}
