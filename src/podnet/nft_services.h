/* nft_services - the nf_tables table that leads from addresses of services to their pods.
 *
 *     table ip berth0-services {
 *         map balance { type ipv4_addr . inet_proto . inet_service . mark : ipv4_addr . inet_service }
 *         map sticky  { the same }
 *         set refused { type ipv4_addr . inet_proto . inet_service }
 *         chain prerouting { nat, dstnat:  from the bridge: dnat by daddr . l4proto . dport . random
 *                                          to this machine: dnat by 0.0.0.0 . l4proto . dport . random }
 *         chain output     { nat, dstnat:  the same, whoever sends it }
 *         chain incoming, local { filter:  to one of refused: reject }
 *     }
 *
 * Each port of a service has NFT_SLOTS entries, shared out evenly among its endpoints; the last part of the
 * key is a random number below NFT_SLOTS, or for sticky services a hash of the sender's address. Node ports
 * are the entries with address 0.0.0.0. */
#pragma once

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NFT_SLOTS 60 /* endpoints of one port that are used; 60 is shared evenly by 1 to 6, 10, 12, 15 … */

struct nl_batch;

struct nft_endpoint {
    uint32_t ip; /* the machine's byte order, as all here */
    uint16_t port;
};
struct nft_service {
    uint32_t ip; /* 0: a port of this machine */
    uint8_t proto;
    uint16_t port;
    bool sticky;
    const struct nft_endpoint *endpoints;
    size_t len; /* 0: connections are refused (of those with an address) */
};

/* Replaces the table of that bridge at once. */
int nft_services_set(int fd, const char *bridge, const struct nft_service *services, size_t len,
                     struct err *err);
int nft_services_del(int fd, const char *bridge, struct err *err);   /* none is fine */
int nft_services_whole(int fd, const char *bridge, struct err *err); /* as nft_table_whole */
bool nft_services_is(const char *table, const char *bridge);         /* that name is its table's */

/* For tests: the messages that nft_services_set sends. */
void nft_put_services(struct nl_batch *batch, const char *bridge, const struct nft_service *services,
                      size_t len);
