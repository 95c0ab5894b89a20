/* services - what podnet_services was told last, in the kernel's table and in sockets that keep node ports
 * from others. Such a socket is bound and does not listen: without endpoints a connection is refused. */
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

int podnet_services(struct podnet *net, const struct podnet_service *services, size_t len,
                    podnet_refused_fn refused, void *arg, struct err *err)
{
    struct service_list old = net->services;

    if (net->mode != PODNET_BRIDGE || !net->dnat)
        return len ? err_set(err, ERR_UNSUPPORTED, "services need the bridge and NAT: %s",
                             podnet_mode_text(net))
                   : 0;
    if (len > PODNET_SERVICES_MAX)
        return err_set(err, ERR_LIMIT, "services have more than %d ports", PODNET_SERVICES_MAX);
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
