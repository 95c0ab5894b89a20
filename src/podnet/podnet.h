/* podnet - a network namespace and an address for every pod of this machine.
 *
 * Pods sit on one bridge and reach the outside by NAT. Everything is done over netlink by one helper
 * thread, which is the only one that ever changes its namespace; the loop never waits. What the kernel
 * holds is the truth: namespaces are pinned at RUN_DIR/netns/ID, the host's end of a pod's link is named
 * after its address and carries the id, published ports are entries of one nf_tables map. All of it
 * works on while no daemon runs, and podnet_open finds it again. (Pins are mounts: the daemon must be in the
 * machine's own mount namespace, else they end with it.)
 *
 * Where the machine forbids that, pods get slirp4netns, or the host's network: podnet_mode says which.
 *
 * Ids are as the runtime's: 1 to PODNET_ID_MAX letters, digits, '.', '_' and '-', beginning with a letter
 * or digit. All calls are the loop thread's. Callbacks never come from inside the call. */
#pragma once

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/err.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PODNET_ID_MAX   128
#define PODNET_PODS_MAX 1000   /* a Linux bridge has at most 1023 ports */
#define PODNET_IFNAME   "eth0" /* in the pod; "tap0" with slirp4netns */

struct loop;
struct podnet;
struct podnet_dial;

/* ---- the network ---- */

enum podnet_mode {
    PODNET_AUTO,   /* in a config only: the first of the following that works */
    PODNET_BRIDGE, /* own namespace, address on the bridge, NAT; ports by DNAT in the kernel */
    PODNET_SLIRP,  /* own namespace, user-mode network; pods do not see each other; ports by a proxy here */
    PODNET_HOST,   /* the host's namespace: pods share its ports */
};

struct podnet_config {
    const char *bridge; /* NULL: "berth0". At most 15 characters; the nf_tables table has the same name */
    const char *subnet; /* "10.88.0.0/16", prefix 16 to 28; NULL: the one that pods or the bridge have, else
                           the one in subnet_file, else the first of 10.88.0.0/16 to 10.127.0.0/16,
                           172.20.0.0/16 to 172.31.0.0/16 and 192.168.200.0/24; of these two only one that no
                           route of the host touches */
    const char *subnet_file; /* keeps the subnet for when the bridge and run_dir are gone while pods run;
                                NULL: it is not kept */
    int mtu;                 /* 0: that of the default route's device, else 1500 */
    const char *run_dir;     /* NULL: "/run/berth"; must be gone after a reboot */
    int spares;              /* namespaces to have ready for the next pods, on a bridge */
    enum podnet_mode mode;
    const char *slirp_path; /* NULL: slirp4netns from PATH */
    bool proxy;             /* publish ports by the proxy also where DNAT works */
};

/* Makes or finds the bridge, the NAT rules and the pods that are there. Waits (start-up only).
 * ERR_INVALID: a bad config. ERR_CONFLICT: the host has a route into the subnet, or pods live in another
 * one. ERR_UNSUPPORTED: the mode that config insists on does not work here (AUTO never fails so). */
int podnet_open(struct loop *loop, const struct podnet_config *config, struct podnet **ret, struct err *err);
/* NULL is fine. Pods and published ports stay (those of the proxy stop working); no callback comes any more.
 */
void podnet_free(struct podnet *net);
DEFINE_CLEANUP(struct podnet *, podnet_free);
/* Removes all pods, the bridge and the rules, waiting. The network is of no use afterwards: podnet_free. */
int podnet_destroy(struct podnet *net, struct err *err);

enum podnet_mode podnet_mode(const struct podnet *net); /* never AUTO */
/* For `berth doctor`: "bridge berth0, 10.88.0.0/16, NAT by nf_tables", "slirp4netns (no bridge: …)". */
const char *podnet_mode_text(const struct podnet *net);
/* Something works less well than it should, and why (no NAT, ports only while the daemon runs); NULL: no. */
const char *podnet_warning(const struct podnet *net);
/* A name server that pods have in this mode, whatever the host has: for podnet_resolv_conf; NULL: none. */
const char *podnet_nameserver(const struct podnet *net);
/* The host, as pods reach it; 0.0.0.0 in HOST mode. */
struct in_addr podnet_gateway(const struct podnet *net);

typedef void (*podnet_done_fn)(void *arg, const struct err *err); /* err is NULL: it worked */
/* Looks whether all that was set up is still there, and makes it again: the bridge and its address, the links
 * of pods, rules (whoever reloads a firewall with `flush ruleset` takes them away), forwarding (which Docker
 * shuts when it starts). Done without being asked as soon as the kernel tells of such a change, and every
 * PODNET_CHECK_SEC. fn may be NULL. */
#define PODNET_CHECK_SEC 30
void podnet_check(struct podnet *net, podnet_done_fn fn, void *arg);
/* Calls fn when something had to be put right, with a sentence that says what; failed: it could not be. One
 * at a time; NULL: nobody. */
typedef void (*podnet_mended_fn)(void *arg, const char *sentence, bool failed);
void podnet_on_mended(struct podnet *net, podnet_mended_fn fn, void *arg);
/* What the last look found and could not put right; NULL: nothing. */
const char *podnet_trouble(const struct podnet *net);

/* ---- pods ---- */

struct podnet_pod {
    const char *id;
    const char *netns; /* path of the pinned namespace; NULL in HOST mode */
    struct in_addr ip; /* in HOST mode the machine's own */
    char ip_text[INET_ADDRSTRLEN];
};

/* pod is NULL when err is not; both are borrowed for the call. */
typedef void (*podnet_add_fn)(void *arg, const struct podnet_pod *pod, const struct err *err);
/* A namespace with lo and eth0 up, an address and a default route. A pod that is there already is given as
 * it is. ERR_LIMIT: no address is left, or PODNET_PODS_MAX. ERR_CONFLICT: it is being removed. */
void podnet_add(struct podnet *net, const char *id, podnet_add_fn fn, void *arg);

/* With its published ports. No such pod is fine. fn may be NULL. Adds and removes of one id are
 * done in the order of the calls. */
void podnet_remove(struct podnet *net, const char *id, podnet_done_fn fn, void *arg);
/* The same, of a pod whose processes are gone and had no rights over their network (no CAP_NET_ADMIN, no
 * sysctls): where no socket is left its namespace may be kept and be another pod's, with another address. */
void podnet_leave(struct podnet *net, const char *id, podnet_done_fn fn, void *arg);

/* A pod that runs, and of which the run folder has lost the namespace: pins that of its process `pid` again.
 * ip: the address it had, for when its link is gone too; "" where that is not known. A pod that is whole is
 * left as it is: 0; else 1. ERR_CONFLICT: another pod has that address, or the process is in the host's
 * network. */
int podnet_rescue(struct podnet *net, const char *id, pid_t pid, const char *ip, struct err *err);

bool podnet_whole(const struct podnet *net, const char *id); /* its namespace is pinned */

/* NULL: there is none (or it is not ready yet). Borrowed until the next call that changes something. */
const struct podnet_pod *podnet_get(const struct podnet *net, const char *id);
/* size_t at = 0; while ((pod = podnet_next(net, &at))) ...; no changes meanwhile. Those podnet_open found
 * are in it: remove the ones nobody knows. */
const struct podnet_pod *podnet_next(const struct podnet *net, size_t *at);

/* ---- ports ---- */

enum podnet_proto { PODNET_TCP = 6, PODNET_UDP = 17 }; /* as in IP */

struct podnet_port {
    enum podnet_proto proto;
    struct in_addr
        host_ip; /* 0.0.0.0: all addresses of the machine. Others are served by the proxy, TCP only */
    uint16_t host_port;
    uint16_t pod_port;
};

/* host_port of the machine leads to pod_port of the pod, also by 127.0.0.1 and from other pods. The port is
 * held by a listening socket of this process, so nobody else gets it. The same call again is fine.
 * ERR_EXISTS: the port is taken, and by whom. ERR_NOT_FOUND: no such pod. ERR_INVALID: port 0.
 * ERR_UNSUPPORTED: UDP by the proxy. In HOST mode only host_port == pod_port works, and nothing is done. */
int podnet_publish(struct podnet *net, const char *id, const struct podnet_port *port, struct err *err);

/* ---- services ---- */

#define PODNET_SERVICES_MAX 512 /* ports of all services together */

struct podnet_endpoint {
    struct in_addr ip;
    uint16_t port;
    const char
        *pod; /* its id; NULL: none of ours, the address is enough. Only looked at where there is no NAT */
};
struct podnet_service {
    struct in_addr ip; /* 0.0.0.0: none, only the node port */
    enum podnet_proto proto;
    uint16_t port, node_port; /* node_port 0: none */
    bool sticky; /* a sender always gets the same endpoint, as long as the endpoints are the same */
    const struct podnet_endpoint *endpoints; /* none: connections are refused */
    size_t len;
};
/* Service number `at` has no node port. ERR_EXISTS: somebody else has it, and who. ERR_UNSUPPORTED: UDP
 * without NAT. */
typedef void (*podnet_refused_fn)(void *arg, size_t at, const struct err *err);
/* Whether services have addresses of their own here: only a bridge with NAT has that. Elsewhere there are
 * node ports only (TCP), and this process carries their connections. */
bool podnet_has_services(const struct podnet *net);
/* Replaces all services at once: connections to one of them lead to its endpoints in turn, from pods and from
 * this machine; node ports by every address of the machine. They go on while the daemon does not run, where
 * podnet_has_services. ERR_LIMIT. */
int podnet_services(struct podnet *net, const struct podnet_service *services, size_t len,
                    podnet_refused_fn refused, void *arg, struct err *err);

/* ---- connections into a pod ---- */

/* fd: connected, nonblocking, close-on-exec, the callee's; -1 with err: ERR_UNAVAILABLE nobody listens there,
 * ERR_TIMEOUT after PODNET_DIAL_SEC, ERR_NOT_FOUND no such pod. The handle is gone by then. */
#define PODNET_DIAL_SEC 10
typedef void (*podnet_dial_fn)(void *arg, int fd, const struct err *err);
/* TCP to 127.0.0.1:port inside the pod. */
struct podnet_dial *podnet_dial(struct podnet *net, const char *id, uint16_t port, podnet_dial_fn fn,
                                void *arg);
void podnet_dial_cancel(struct podnet_dial *dial); /* NULL is fine; no callback then */
