/* link - bridge, pod links, addresses and routes over rtnetlink. Addresses are in the machine's byte order;
 * fd is an nl_open(NETLINK_ROUTE) socket and says which namespace is meant. */
#pragma once

#include "base/err.h"
#include "base/vec.h"
#include "podnet/addr.h"

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#define LINK_POD_NAME  "eth0" /* in the pod */
#define LINK_ALIAS_MAX 256

struct link {
    int index;
    int master; /* index of its bridge; 0: none */
    uint32_t mtu;
    bool up;
    char name[IF_NAMESIZE];
    char kind[16]; /* "bridge", "veth", ""… */
    char alias[LINK_ALIAS_MAX];
};
struct links {
    struct link *v;
    size_t len, cap;
};
int link_list(int fd, struct links *ret, struct err *err); /* adds to ret; vec_done it */

struct link_route {
    struct subnet dest; /* any prefix; 0: default */
    int oif;            /* 0: none */
};
struct link_routes {
    struct link_route *v;
    size_t len, cap;
};
int link_routes(int fd, struct link_routes *ret, struct err *err); /* IPv4, of all tables but local */

struct link_addr {
    int index;
    uint32_t ip;
    int prefix;
};
struct link_addrs {
    struct link_addr *v;
    size_t len, cap;
};
int link_addrs(int fd, struct link_addrs *ret, struct err *err);

/* Makes a bridge that is up. ERR_EXISTS: there is something of that name. */
int link_bridge_add(int fd, const char *name, uint32_t ip, uint32_t mtu, struct err *err);
/* Up, with that address (there already is fine). */
int link_bridge_up(int fd, int index, const struct subnet *subnet, uint32_t ip, struct err *err);
int link_addr_del(int fd, int index, uint32_t ip, int prefix, struct err *err);
int link_del(int fd, int index, const char *name,
             struct err *err); /* by index, or 0 and name; none is fine */

/* A pair: the host's end on the bridge, up, named after the address; eth0 in the namespace. */
struct link_pod {
    int bridge;
    uint32_t ip;
    uint32_t mtu;
};
int link_pod_add(int fd, int netns_fd, const struct link_pod *pod, struct err *err);
/* In the pod's namespace: lo and eth0 up, its address, the default route. */
int link_pod_setup(int fd, uint32_t ip, int prefix, uint32_t gateway, struct err *err);
/* Puts the alias on the host's end: the pod is complete. */
int link_pod_mark(int fd, uint32_t ip, const char *alias, struct err *err);
/* In the pod's namespace: another address in place of the one it has. */
int link_pod_move(int fd, uint32_t from, uint32_t to, int prefix, uint32_t gateway, struct err *err);
int link_lo_up(int fd, struct err *err); /* only that */
/* The host's end on the bridge (again), up. */
int link_attach(int fd, int index, int bridge, struct err *err);
void link_pod_name(uint32_t ip, char ret[IF_NAMESIZE]);
bool link_pod_parse(const char *name, uint32_t *ret_ip);
