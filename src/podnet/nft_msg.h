/* nft_msg - the messages of nf_tables that podnet's tables are made of, with libnftnl for rules, sets and
 * their elements. A transaction is everything between two marks. */
#pragma once

#include "podnet/addr.h"
#include "podnet/netlink.h"

#include <libnftnl/expr.h>
#include <libnftnl/rule.h>
#include <libnftnl/set.h>

#define NFT_SADDR 12 /* places in the IPv4 header */
#define NFT_DADDR 16

/* How the nft program numbers types, six bits each in a concatenation; only for its listings. */
#define NFT_TYPE_IPADDR       7
#define NFT_TYPE_INET_PROTO   12
#define NFT_TYPE_INET_SERVICE 13
#define NFT_TYPE_MARK         19
#define NFT_TYPE_PAIR(a, b)   ((a) << 6 | (b))

struct nlmsghdr *nft_begin(struct nl_batch *b, int what, uint16_t flags);
void nft_mark(struct nl_batch *b, uint16_t what); /* NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END */
void nft_table_msg(struct nl_batch *b, int what, uint16_t flags, const char *table);
void nft_table_renew(struct nl_batch *b, const char *table); /* begins: there is an empty one of that name */
void nft_chain(struct nl_batch *b, const char *table, const char *name, const char *type, uint32_t hook,
               int32_t priority);
/* Ends the transaction and sends it; `gone` is the errno that is as good as success. */
int nft_transact(int fd, struct nl_batch *b, int gone, struct err *err);

/* 1: the table has that many rules; 0: fewer, or there is no such table; -1: the question failed. */
int nft_rules_there(int fd, const char *table, size_t rules, struct err *err);

/* A set or map, to be made or to carry elements. */
struct nftnl_set *nft_set(const char *table, const char *name, uint32_t id);
DEFINE_CLEANUP(struct nftnl_set *, nftnl_set_free);
void nft_set_put(struct nl_batch *b, struct nftnl_set *set, uint32_t key_type, uint32_t key_len,
                 uint32_t data_type, uint32_t data_len); /* data_len 0: no map */
void nft_elem(struct nftnl_set *set, const void *key, uint32_t key_len, const void *data, uint32_t data_len);
void nft_elems_put(struct nl_batch *b, int what, uint16_t flags, struct nftnl_set *set);

/* A rule grows by expressions; nft_rule_put adds its message to the batch and frees it. */
struct nftnl_rule *nft_rule(const char *table, const char *chain);
void nft_rule_put(struct nl_batch *b, struct nftnl_rule *rule);
struct nft_part {
    uint16_t attr; /* NFTNL_EXPR_… */
    uint32_t value;
};
struct nftnl_expr *nft_expr(struct nftnl_rule *rule, const char *name, const struct nft_part *parts,
                            size_t len);
#define NFT_EXPR(rule, name, ...)                                                                            \
    nft_expr(rule, name, (const struct nft_part[]){__VA_ARGS__},                                             \
             sizeof((const struct nft_part[]){__VA_ARGS__}) / sizeof(struct nft_part))
void nft_meta(struct nftnl_rule *rule, uint32_t key, uint32_t reg);
void nft_payload(struct nftnl_rule *rule, uint32_t base, uint32_t offset, uint32_t len, uint32_t reg);
void nft_mask(struct nftnl_rule *rule, uint32_t mask); /* these and the following by NFT_REG_1 */
void nft_cmp(struct nftnl_rule *rule, uint32_t op, const void *value, uint32_t len);
void nft_match_dev(struct nftnl_rule *rule, uint32_t meta_key, uint32_t op, const char *name);
void nft_match_ip(struct nftnl_rule *rule, uint32_t offset, uint32_t base, int prefix);
void nft_match_local(struct nftnl_rule *rule); /* an address of this machine is the destination */
void nft_lookup(struct nftnl_rule *rule, const char *set, uint32_t id, bool map);
/* DNAT to the address in the first and the port in the second of the 32-bit registers. */
void nft_dnat(struct nftnl_rule *rule);
