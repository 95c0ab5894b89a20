/* services - what podnet_services was told last, in the kernel's table and in sockets that keep node ports
 * from others. Such a socket is bound and does not listen: without endpoints a connection is refused. Where
 * there is no NAT the sockets listen, and this process carries what comes; services then have no address. */
#define LOG_MODULE "podnet"
#include "base/log.h"
#include "podnet/impl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

static void entry_done(struct service_entry *entry)
{
    free(entry->endpoints);
}

static int hold(const struct podnet_service *service, struct err *err)
{
    bool tcp = service->proto == PODNET_TCP;
    struct podnet_port port = {.proto = service->proto, .host_port = service->node_port};
    CLEANUP(fd_close) int fd = socket(AF_INET, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(service->node_port)};
    CLEANUP(buf_done) struct buf who = {0};

    if (fd < 0)
        return err_errno(err, errno, "make a socket");
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0)
        return take_fd(&fd);
    port_holder(&port, &who);
    return err_set(err, ERR_EXISTS, "node port %u/%s is taken%s", service->node_port, tcp ? "tcp" : "udp",
                   who.len ? who.data : "");
}

/* Takes the socket over from the list of before, where it has one. */
static int keep_or_hold(struct service_list *old, const struct podnet_service *service, struct err *err)
{
    VEC_EACH(old, it)
        if (it->fd >= 0 && it->port == service->node_port && it->proto == service->proto)
            return take_fd(&it->fd);
    return hold(service, err);
}

static void add(struct service_list *list, const struct podnet_service *service, uint32_t ip, uint16_t port,
                int fd)
{
    struct service_entry entry = {.ip = ip,
                                  .proto = (uint8_t)service->proto,
                                  .port = port,
                                  .sticky = service->sticky,
                                  .fd = fd,
                                  .len = service->len < NFT_SLOTS ? service->len : NFT_SLOTS};

    entry.endpoints = mem_zalloc((entry.len + 1) * sizeof(*entry.endpoints));
    for (size_t i = 0; i < entry.len; i++)
        entry.endpoints[i] =
            (struct nft_endpoint){ntohl(service->endpoints[i].ip.s_addr), service->endpoints[i].port};
    vec_push(list, entry);
}

void services_free(struct service_list *list)
{
    VEC_EACH(list, it) {
        port_proxy_free(it->proxy);
        fd_close(it->fd);
        entry_done(it);
    }
    vec_done(list);
}

int services_rebuild(struct podnet *net, struct err *err)
{
    struct {
        struct nft_service *v;
        size_t len, cap;
    } all = {0};
    int status;

    VEC_EACH(&net->services, it)
        vec_push(&all, (struct nft_service){it->ip, it->proto, it->port, it->sticky, it->endpoints, it->len});
    status = all.len ? nft_services_set(net->nf, net->bridge, all.v, all.len, err)
                     : nft_services_del(net->nf, net->bridge, err);
    vec_done(&all);
    return status;
}

/* ---- by the proxy ---- */

bool podnet_has_services(const struct podnet *net)
{
    return net->mode == PODNET_BRIDGE && net->dnat;
}

static void lead(struct podnet *net, struct port_proxy *proxy, const struct podnet_service *service)
{
    struct proxy_target *targets = mem_zalloc((service->len + 1) * sizeof(*targets));

    for (size_t i = 0; i < service->len; i++) {
        const struct podnet_endpoint *to = &service->endpoints[i];
        const struct pod *pod = to->pod ? map_get(net->pods, str_from(to->pod)) : NULL;

        if (pod && pod->state != POD_UP)
            pod = NULL;
        targets[i] = (struct proxy_target){pod, ntohl(pod ? pod->pub.ip.s_addr : to->ip.s_addr), to->port};
    }
    port_proxy_lead(proxy, targets, service->len, service->sticky);
    free(targets);
}

/* The node port of before, with its connections, or a new one. */
static int take_node_port(struct podnet *net, struct service_list *old, const struct podnet_service *service,
                          struct service_entry *ret, struct err *err)
{
    struct podnet_port port = {.proto = PODNET_TCP, .host_port = service->node_port};

    if (service->proto != PODNET_TCP)
        return err_set(err, ERR_UNSUPPORTED, "node port %u/udp needs NAT: %s", service->node_port,
                       podnet_mode_text(net));
    *ret = (struct service_entry){.proto = PODNET_TCP, .port = service->node_port, .fd = -1};
    VEC_EACH(old, it)
        if (it->proxy && it->port == service->node_port) {
            ret->fd = take_fd(&it->fd);
            ret->proxy = TAKE_PTR(it->proxy);
            return 0;
        }
    ret->fd = port_hold(&port, err);
    if (ret->fd < 0)
        return -1;
    ret->proxy = port_proxy_new(net, ret->fd);
    return 0;
}

static int proxy_services(struct podnet *net, const struct podnet_service *services, size_t len,
                          podnet_refused_fn refused, void *arg)
{
    struct service_list old = net->services;

    net->services = (struct service_list){0};
    for (size_t i = 0; i < len; i++) {
        struct service_entry entry;
        struct err why = {0};

        if (!services[i].node_port)
            continue;
        if (take_node_port(net, &old, &services[i], &entry, &why) < 0) {
            if (refused)
                refused(arg, i, &why);
            continue;
        }
        lead(net, entry.proxy, &services[i]);
        vec_push(&net->services, entry);
    }
    services_free(&old);
    return 0;
}

void services_drop_pod(struct podnet *net, const struct pod *pod)
{
    VEC_EACH(&net->services, it)
        port_proxy_drop_pod(it->proxy, pod);
}

/* ---- all ---- */

int podnet_services(struct podnet *net, const struct podnet_service *services, size_t len,
                    podnet_refused_fn refused, void *arg, struct err *err)
{
    struct service_list old = net->services;

    if (len > PODNET_SERVICES_MAX)
        return err_set(err, ERR_LIMIT, "services have more than %d ports", PODNET_SERVICES_MAX);
    if (!podnet_has_services(net))
        return proxy_services(net, services, len, refused, arg);
    net->services = (struct service_list){0};
    for (size_t i = 0; i < len; i++) {
        struct err why = {0};
        int fd;

        if (services[i].ip.s_addr)
            add(&net->services, &services[i], ntohl(services[i].ip.s_addr), services[i].port, -1);
        if (!services[i].node_port)
            continue;
        fd = keep_or_hold(&old, &services[i], &why);
        if (fd >= 0)
            add(&net->services, &services[i], 0, services[i].node_port, fd);
        else if (refused)
            refused(arg, i, &why);
    }
    services_free(&old);
    return services_rebuild(net, err);
}
