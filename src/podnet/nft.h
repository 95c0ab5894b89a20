/* nft - the one nf_tables table of a pod network: outbound NAT, published ports, and a guard.
 *
 *     table ip berth0 {
 *         map ports { type inet_proto . inet_service : ipv4_addr . inet_service }
 *         chain prerouting  { nat, dstnat:  fib daddr type local  dnat to meta l4proto . th dport map @ports
 * } chain output      { nat, dstnat:  the same } chain postrouting { nat, srcnat:  from the subnet, not to
 * the bridge: masquerade from the subnet to the bridge, port published: masquerade from 127.0.0.0/8 to the
 * bridge: masquerade } chain guard       { filter, raw:  from the bridge to 127.0.0.0/8: drop }
 *     }
 *
 * The guard: 127.0.0.1 can only be sent to a pod with route_localnet on the bridge, and that alone would let
 * pods reach what listens on the host's loopback. */
#pragma once

#include "base/err.h"
#include "podnet/addr.h"

#include <stddef.h>
#include <stdint.h>

struct nl_batch;

struct nft_port {
    uint8_t proto; /* IPPROTO_TCP, IPPROTO_UDP */
    uint16_t host_port;
    uint32_t ip; /* the machine's byte order */
    uint16_t pod_port;
};
struct nft_ports {
    struct nft_port *v;
    size_t len, cap;
};

/* fd: nl_open(NETLINK_NETFILTER). Replaces a table of that name at once, with these ports in the map. */
int nft_table_set(int fd, const char *table, const struct subnet *subnet, const struct nft_ports *ports,
                  struct err *err);
/* 1: there is a table of that name with all its rules; 0: none, or some of them are gone; -1: the question
 * failed. */
int nft_table_whole(int fd, const char *table, struct err *err);
int nft_table_del(int fd, const char *table, struct err *err); /* none is fine */
/* Adds to ret what the map has; no table is fine. */
int nft_ports_list(int fd, const char *table, struct nft_ports *ret, struct err *err);
int nft_port_add(int fd, const char *table, const struct nft_port *port, struct err *err);
int nft_port_del(int fd, const char *table, const struct nft_port *port, struct err *err); /* none is fine */

/* For tests: the messages that the calls above send. */
void nft_put_table(struct nl_batch *batch, const char *table, const struct subnet *subnet,
                   const struct nft_ports *ports);
