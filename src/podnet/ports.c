/* ports - published ports. By DNAT an entry of the nf_tables map is all there is: packets never come here,
 * and it works while the daemon does not run. The listening socket only keeps others off the port and lets
 * `ss -ltnp` say whose it is. Where DNAT does not work, or for one address of the host alone, the socket is
 * the proxy's. */
#define LOG_MODULE "podnet"
#include "base/log.h"
#include "podnet/impl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

static bool same_port(const struct podnet_port *a, const struct podnet_port *b)
{
    return a->proto == b->proto && a->host_port == b->host_port && a->host_ip.s_addr == b->host_ip.s_addr;
}

static bool clash(const struct podnet_port *a, const struct podnet_port *b)
{
    return a->proto == b->proto && a->host_port == b->host_port &&
           (a->host_ip.s_addr == b->host_ip.s_addr || !a->host_ip.s_addr || !b->host_ip.s_addr);
}

static struct published *find(const struct podnet *net, const struct podnet_port *port)
{
    VEC_EACH(&net->ports, it)
        if (clash(&(*it)->port, port))
            return *it;
    return NULL;
}

static bool wants_proxy(const struct podnet *net, const struct podnet_port *port)
{
    return !net->dnat || net->proxy || port->host_ip.s_addr;
}

static const char *proto_name(const struct podnet_port *port)
{
    return port->proto == PODNET_UDP ? "udp" : "tcp";
}

static int taken(const struct podnet_port *port, int sys, struct err *err)
{
    CLEANUP(buf_done) struct buf who = {0};

    if (sys != EADDRINUSE)
        return err_errno(err, sys, "take host port %u/%s", port->host_port, proto_name(port));
    port_holder(port, &who);
    return err_set(err, ERR_EXISTS, "host port %u/%s is taken%s", port->host_port, proto_name(port),
                   who.len ? who.data : "");
}

int port_hold(const struct podnet_port *port, struct err *err)
{
    bool tcp = port->proto == PODNET_TCP;
    CLEANUP(fd_close)
    int fd = socket(AF_INET, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(port->host_port), .sin_addr = port->host_ip};
    int on = 1;

    if (fd < 0)
        return err_errno(err, errno, "make a socket");
    /* Old connections of whoever had the port before must not keep us off. Two such sockets can both bind,
     * but only one can listen. For UDP that option would let both have it. */
    if (tcp)
        (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || (tcp && listen(fd, SOMAXCONN) < 0))
        return taken(port, errno, err);
    return take_fd(&fd);
}

static void published_free(struct published *p)
{
    port_proxy_free(p->proxy);
    fd_close(p->hold);
    free(p);
}

static struct nft_port map_entry(const struct published *p)
{
    return (struct nft_port){(uint8_t)p->port.proto, p->port.host_port, p->pod->ip, p->port.pod_port};
}

static struct published *remember(struct podnet *net, struct pod *pod, const struct podnet_port *port,
                                  int hold)
{
    struct published *p = NEW(struct published);

    p->pod = pod;
    p->port = *port;
    p->hold = hold;
    vec_push(&net->ports, p);
    return p;
}

static int check(struct podnet *net, const struct pod *pod, const char *id, const struct podnet_port *port,
                 struct err *err)
{
    if (!pod || pod->state != POD_UP)
        return err_set(err, ERR_NOT_FOUND, "pod '%s' has no network", id);
    if (!port->host_port || !port->pod_port || (port->proto != PODNET_TCP && port->proto != PODNET_UDP))
        return err_set(err, ERR_INVALID, "ports are 1 to 65535, tcp or udp");
    if (net->mode == PODNET_HOST && port->host_port != port->pod_port)
        return err_set(err, ERR_UNSUPPORTED, "host port %u cannot lead to %u: pods are in the host's network",
                       port->host_port, port->pod_port);
    if (net->mode != PODNET_HOST && port->proto == PODNET_UDP && wants_proxy(net, port))
        return err_set(err, ERR_UNSUPPORTED, "host port %u/udp needs NAT: %s", port->host_port,
                       net->dnat ? "not for one address alone" : podnet_mode_text(net));
    if (net->ports.len >= PODNET_PORTS_MAX)
        return err_set(err, ERR_LIMIT, "%d ports are published already", PODNET_PORTS_MAX);
    return 0;
}

int podnet_publish(struct podnet *net, const char *id, const struct podnet_port *port, struct err *err)
{
    struct pod *pod = map_get(net->pods, str_from(id));
    struct published *p = find(net, port);
    struct nft_port entry;
    int hold;

    if (check(net, pod, id, port, err) < 0)
        return -1;
    if (p && p->pod == pod && same_port(&p->port, port) && p->port.pod_port == port->pod_port)
        return 0;
    if (p)
        return err_set(err, ERR_EXISTS, "host port %u/%s is taken by pod '%s'", port->host_port,
                       proto_name(port), p->pod->pub.id);
    if (net->mode == PODNET_HOST) {
        remember(net, pod, port, -1); /* the pod itself will take it */
        return 0;
    }
    hold = port_hold(port, err);
    if (hold < 0)
        return -1;
    p = remember(net, pod, port, hold);
    if (wants_proxy(net, port)) {
        struct proxy_target to = {pod, ntohl(pod->pub.ip.s_addr), port->pod_port};

        p->proxy = port_proxy_new(net, hold);
        port_proxy_lead(p->proxy, &to, 1, false);
        return 0;
    }
    entry = map_entry(p);
    /* Somebody may have flushed all rules: then the table is made again, this port in it. */
    if (nft_port_add(net->nf, net->bridge, &entry, NULL) < 0 && ports_rebuild(net, err) < 0) {
        published_free(vec_pop(&net->ports));
        return -1;
    }
    return 0;
}

static void take_back(struct podnet *net, size_t at)
{
    struct published *p = net->ports.v[at];
    struct nft_port entry = map_entry(p);
    struct err err = {0};

    if (net->dnat && !p->proxy && nft_port_del(net->nf, net->bridge, &entry, &err) < 0)
        log_warn("%s", err.msg);
    vec_remove(&net->ports, at);
    published_free(p);
}

void ports_drop_pod(struct podnet *net, const struct pod *pod)
{
    for (size_t i = net->ports.len; i-- > 0;)
        if (net->ports.v[i]->pod == pod)
            take_back(net, i);
}

void ports_restore(struct podnet *net, const struct nft_ports *ports)
{
    VEC_EACH(ports, it) {
        struct podnet_port port = {it->proto, {0}, it->host_port, it->pod_port};
        struct pod *pod = NULL;
        struct err err = {0};
        struct str key;
        void *value;
        size_t at = 0;
        int hold;

        while (!pod && map_next(net->pods, &at, &key, &value))
            pod = ((struct pod *)value)->ip == it->ip ? value : NULL;
        if (!pod)
            continue;
        hold = port_hold(&port, &err);
        if (hold < 0)
            log_warn("pod '%s': %s", pod->pub.id, err.msg);
        remember(net, pod, &port, hold);
    }
}

int ports_rebuild(struct podnet *net, struct err *err)
{
    struct nft_ports ports = {0};
    int status;

    VEC_EACH(&net->ports, it)
        if (!(*it)->proxy)
            vec_push(&ports, map_entry(*it));
    status = nft_table_set(net->nf, net->bridge, &net->subnet, &ports, err);
    vec_done(&ports);
    return status;
}

void ports_free(struct podnet *net)
{
    VEC_EACH(&net->ports, it)
        published_free(*it);
    vec_done(&net->ports);
}
