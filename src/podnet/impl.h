/* impl - what the files of podnet share. Not for others. */
#pragma once

#include "base/map.h"
#include "base/vec.h"
#include "podnet/addr.h"
#include "podnet/nft.h"
#include "podnet/nft_services.h"
#include "podnet/podnet.h"
#include "podnet/worker.h"

#include <net/if.h>

#define ALIAS_PREFIX                                                                                         \
    "berth:" /* of a pod's link on the host: then the id, and its address where it has moved */
#define NET_SPARES_KEPT    16 /* namespaces of pods that are gone */
#define PODNET_PORTS_MAX   4096
#define PODNET_PROXIED_MAX 1024 /* connections through the proxy */

/* slirp4netns gives every pod the same ones. */
#define SLIRP_IP         0x0a000264 /* 10.0.2.100 */
#define SLIRP_NAMESERVER "10.0.2.3"
#define SLIRP_GATEWAY    0x0a000202 /* 10.0.2.2 */

enum pod_state { POD_ADDING, POD_UP, POD_REMOVING };

struct pod_waiter {
    podnet_add_fn fn;
    void *arg;
};

struct slirp;

struct pod {
    struct podnet_pod pub; /* id and netns are the pod's own strings */
    struct podnet *net;
    enum pod_state state;
    bool remove_next; /* asked for while it was being added */
    uint32_t ip;      /* 0 where the pool has no part in it */
    uint32_t home;    /* the address that its link and namespace were made with and are called by */
    VEC(struct pod_waiter) waiters;
    struct slirp *slirp;
};

/* A namespace that waits for a pod. */
struct net_spare {
    uint32_t home, ip;
};

struct port_proxy;

struct published {
    struct pod *pod;
    struct podnet_port port;
    int hold; /* bound to the host port; -1: another process had it when the daemon came back */
    struct port_proxy *proxy; /* NULL: by DNAT */
};

/* A port of a service, or a node port (ip 0), as the kernel has it. */
struct service_entry {
    uint32_t ip;
    uint8_t proto;
    uint16_t port;
    bool sticky;
    int fd;                   /* bound to the node port; -1: none */
    struct port_proxy *proxy; /* carries the node port's connections; NULL: the kernel does */
    struct nft_endpoint *endpoints;
    size_t len;
};
struct service_list {
    struct service_entry *v;
    size_t len, cap;
};

struct podnet {
    struct loop *loop;
    enum podnet_mode mode;
    char bridge[IF_NAMESIZE];
    int bridge_index; /* the helper thread's, once that runs */
    uint32_t mtu;
    char *run_dir, *netns_dir, *slirp_path;
    struct slirp *leaving; /* told to end */
    struct subnet subnet;
    struct addr_pool pool;
    uint32_t gateway, host_ip;
    bool dnat; /* the table is there: ports by it */
    bool proxy;
    int home;                 /* the host's namespace */
    int rt, nf;               /* netlink sockets of the loop's thread */
    int worker_rt, worker_nf; /* the helper thread's */
    struct loop_timer *check, *soon, *first_spares;
    unsigned checking; /* looks under way */
    bool check_again, rules_lost;
    int64_t checked;        /* when the last look began, monotonic */
    int rt_heard, nf_heard; /* what others change */
    struct loop_io *rt_io, *nf_io;
    podnet_mended_fn mended;
    void *mended_arg;
    struct buf trouble;
    struct worker *worker;
    struct map *pods;             /* id → struct pod */
    VEC(struct net_spare) spares; /* the oldest first */
    size_t spares_wanted, spares_coming;
    VEC(struct published *) ports;
    struct service_list services;
    VEC(struct podnet_dial *) dials;
    size_t proxied; /* connections */
    struct buf mode_text, warning;
};

/* ---- pods.c ---- */
bool podnet_id_valid(const char *id);
struct pod *pod_new(struct podnet *net, const char *id, uint32_t home,
                    uint32_t ip);       /* in the map; not UP yet */
void pod_free(struct pod *pod);         /* out of the map, address given back */
char *pod_alias(const struct pod *pod); /* of its link; free it */
/* Of a bridge by its address, since it may be there before the pod; else by its id. */
char *pod_netns_path(const struct podnet *net, const char *id, uint32_t home);
void net_spares_make(struct podnet *net);               /* until there are enough */
void net_spare_drop(struct podnet *net, uint32_t home); /* its namespace is gone, or is to go */
void net_spares_free(struct podnet *net);

/* ---- ports.c ---- */
void ports_drop_pod(struct podnet *net, const struct pod *pod); /* takes all of its ports back */
void ports_restore(struct podnet *net, const struct nft_ports *ports);
/* The table anew, with all ports that are published by it. */
int ports_rebuild(struct podnet *net, struct err *err);
void ports_free(struct podnet *net); /* leaves the kernel's entries */
/* Binds the host's port (TCP: listens), for as long as the descriptor is open. */
int port_hold(const struct podnet_port *port, struct err *err);
/* Who has that port of the host, " by process 12 (nginx)" or " by pod a"; "" when unknown. */
void port_holder(const struct podnet_port *port, struct buf *ret);

/* ---- services.c ---- */
int services_rebuild(struct podnet *net, struct err *err); /* the kernel's table anew; none: removed */
void services_free(struct service_list *list);             /* leaves the kernel's table */
void services_drop_pod(struct podnet *net, const struct pod *pod);

/* ---- check.c ---- */
void net_check_start(struct podnet *net); /* podnet_check now and then */
void net_check_soon(struct podnet *net);  /* something was heard of */
void net_check_stop(struct podnet *net);
/* -1: it cannot be set, with errno; 1: it was not; 0: it was. */
int net_forwarding(const char *name);
/* In the helper thread: the bridge is there, up, with its address. *made: it was gone; *changed: it was not
 * as it should be. Both may be NULL. */
int net_bridge_mend(struct podnet *net, bool *made, bool *changed, struct err *err);

/* ---- watch.c: what the kernel tells of ---- */
void net_watch_start(struct podnet *net);
void net_watch_stop(struct podnet *net);

/* ---- dial.c ---- */
/* As podnet_dial, to any address (the machine's byte order) as seen inside the pod; pod NULL: the host. */
struct podnet_dial *dial_pod(struct podnet *net, const struct pod *pod, uint32_t ip, uint16_t port,
                             podnet_dial_fn fn, void *arg);
void dials_free(struct podnet *net);

/* ---- proxy.c ---- */
struct proxy_target {
    const struct pod *pod; /* NULL: connected from the host's namespace */
    uint32_t ip;           /* as seen there, in the machine's byte order */
    uint16_t port;
};
/* Takes connections from listen_fd (listening, nonblocking; borrowed); they are refused until it leads
 * somewhere. */
struct port_proxy *port_proxy_new(struct podnet *net, int listen_fd);
void port_proxy_lead(struct port_proxy *proxy, const struct proxy_target *targets, size_t len, bool sticky);
void port_proxy_drop_pod(struct port_proxy *proxy,
                         const struct pod *pod); /* no longer a target; NULL is fine */
void port_proxy_free(struct port_proxy *proxy);  /* NULL is fine; its connections end */

/* ---- slirp.c ---- */
char *slirp_find(void); /* on PATH; NULL: none. Free it */
/* Starts one for the pod's namespace, or takes over the one that is there; ready is called once, from the
 * loop. */
typedef void (*slirp_fn)(void *arg, const struct err *err);
struct slirp *slirp_start(struct podnet *net, const char *id, const char *netns, slirp_fn ready, void *arg);
void slirp_stop(struct slirp *slirp);  /* ends the process and forgets it; NULL is fine */
void slirp_leave(struct slirp *slirp); /* forgets it, it goes on; NULL is fine */
void slirps_free(struct podnet *net);  /* forgets those that are still ending */
