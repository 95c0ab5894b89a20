/* nft_msg - the messages of nf_tables that podnet's tables are made of. A transaction is everything between
 * two marks; a rule is open until nl_nest_end of what nft_rule gave, and has expressions; an expression is
 * open from nft_expr to nft_expr_end. */
#pragma once

#include "podnet/addr.h"
#include "podnet/netlink.h"

#define NFT_SADDR 12 /* places in the IPv4 header */
#define NFT_DADDR 16

/* How the nft program numbers types, six bits each in a concatenation; only for its listings. */
#define NFT_TYPE_IPADDR       7
#define NFT_TYPE_INET_PROTO   12
#define NFT_TYPE_INET_SERVICE 13
#define NFT_TYPE_MARK         19
#define NFT_TYPE_PAIR(a, b)   ((a) << 6 | (b))

void nft_begin(struct nl_batch *b, int what, uint16_t flags);
void nft_mark(struct nl_batch *b, uint16_t what); /* NFNL_MSG_BATCH_BEGIN, NFNL_MSG_BATCH_END */
void nft_table_msg(struct nl_batch *b, int what, uint16_t flags, const char *table);
void nft_chain(struct nl_batch *b, const char *table, const char *name, const char *type, uint32_t hook,
               int32_t priority);
void nft_value(struct nl_batch *b, uint16_t type, const void *value, size_t len);
/* Ends the transaction and sends it; `gone` is the errno that is as good as success. */
int nft_transact(int fd, struct nl_batch *b, int gone, struct err *err);

struct nft_expr {
    size_t elem, data;
};
size_t nft_rule(struct nl_batch *b, const char *table, const char *chain);
struct nft_expr nft_expr(struct nl_batch *b, const char *name);
void nft_expr_end(struct nl_batch *b, struct nft_expr e);
void nft_meta(struct nl_batch *b, uint32_t key, uint32_t reg);
void nft_payload(struct nl_batch *b, uint32_t base, uint32_t offset, uint32_t len, uint32_t reg);
void nft_mask(struct nl_batch *b, uint32_t mask); /* these and the following by NFT_REG_1 */
void nft_cmp(struct nl_batch *b, uint32_t op, const void *value, size_t len);
void nft_match_dev(struct nl_batch *b, uint32_t meta_key, uint32_t op, const char *name);
void nft_match_ip(struct nl_batch *b, uint32_t offset, uint32_t base, int prefix);
void nft_match_local(struct nl_batch *b); /* an address of this machine is the destination */
/* DNAT to the address in the first and the port in the second of the 32-bit registers. */
void nft_dnat(struct nl_batch *b);
