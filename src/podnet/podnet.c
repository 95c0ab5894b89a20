/* podnet - see podnet.h. Here: which way of networking works, and what is there from before.
 *
 * Threads: the loop's thread owns every struct. The helper thread (worker) reads of struct podnet only what
 * never changes after podnet_open, and owns worker_rt and worker_nf. */
#define LOG_MODULE "podnet"
#include "podnet/podnet.h"

#include "base/file.h"
#include "base/log.h"
#include "loop/loop.h"
#include "podnet/forward.h"
#include "podnet/impl.h"
#include "podnet/link.h"
#include "podnet/netlink.h"
#include "podnet/netns.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>

#define SUBNET_FILE_MAX 64
#define GONE_TRIES      400 /* of 5 ms: how long podnet_destroy waits for the kernel */

static void warn(struct podnet *net, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void warn(struct podnet *net, const char *fmt, ...)
{
    va_list ap;

    if (net->warning.len)
        buf_puts(&net->warning, "; ");
    va_start(ap, fmt);
    buf_vprintf(&net->warning, fmt, ap);
    va_end(ap);
}

/* ---- what the host has ---- */

struct host_net {
    struct links links;
    struct link_routes routes;
    struct link_addrs addrs;
};

static void host_done(struct host_net *host)
{
    vec_done(&host->links);
    vec_done(&host->routes);
    vec_done(&host->addrs);
}

static inline void host_done_cleanup_(struct host_net *host)
{
    host_done(host);
}

static int host_read(int rt, struct host_net *ret, struct err *err)
{
    if (link_list(rt, &ret->links, err) < 0 || link_routes(rt, &ret->routes, err) < 0)
        return -1;
    return link_addrs(rt, &ret->addrs, err);
}

static const struct link *link_at(const struct host_net *host, int index)
{
    VEC_EACH(&host->links, it)
        if (it->index == index)
            return it;
    return NULL;
}

static int default_device(const struct host_net *host)
{
    VEC_EACH(&host->routes, it)
        if (it->dest.prefix == 0 && it->oif)
            return it->oif;
    return 0;
}

/* The machine's own address: that of the device by which it reaches others. */
static uint32_t own_address(const struct host_net *host)
{
    int device = default_device(host);

    VEC_EACH(&host->addrs, it)
        if (it->index == device)
            return it->ip;
    return INADDR_LOOPBACK;
}

/* ---- the subnet ---- */

static const struct link_route *route_into(const struct host_net *host, int bridge,
                                           const struct subnet *subnet)
{
    VEC_EACH(&host->routes, it)
        if (it->dest.prefix > 0 && (!bridge || it->oif != bridge) && subnet_overlaps(&it->dest, subnet))
            return it;
    return NULL;
}

static int free_subnet(const struct host_net *host, struct subnet *ret, struct err *err)
{
    static const struct {
        uint32_t first;
        int prefix;
        unsigned count;
    } rows[] = {{0x0a580000, 16, 40}, {0xac140000, 16, 12}, {0xc0a8c800, 24, 1}};
    static const struct subnet services = {0x0a600000, 16}; /* their addresses, 10.96.0.0/16 */

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (unsigned n = 0; n < rows[i].count; n++) {
            *ret = (struct subnet){rows[i].first + (n << 16), rows[i].prefix};
            if (!subnet_overlaps(ret, &services) && !route_into(host, 0, ret))
                return 0;
        }
    return err_set(err, ERR_CONFLICT, "the host has routes into every subnet that pods could have: set one");
}

/* A link of a pod of ours: on our bridge, or on none since that is gone, with its namespace pinned here. */
static bool is_pod_link(const struct podnet *net, const struct link *link, uint32_t *ip)
{
    CLEANUP(free) char *path = NULL;

    if (!link_pod_parse(link->name, ip))
        return false;
    if (net->bridge_index && link->master == net->bridge_index)
        return true;
    path = pod_netns_path(net, NULL, *ip);
    return link->master == 0 && netns_pinned(path);
}

/* What a pod says of the subnet that it is in: asked in a thread of its own. */
struct subnet_question {
    const struct podnet *net;
    char *path;
    struct subnet ret;
    bool found;
};

static int read_subnet(void *arg)
{
    struct subnet_question *q = arg;
    CLEANUP(fd_close) int nl = nl_open(NETLINK_ROUTE, NULL);
    struct link_addrs addrs = {0};

    if (nl < 0 || link_addrs(nl, &addrs, NULL) < 0)
        return -1;
    VEC_EACH(&addrs, it)
        if (it->prefix >= ADDR_PREFIX_MIN && it->prefix <= ADDR_PREFIX_MAX) {
            q->ret = (struct subnet){it->ip & subnet_mask(it->prefix), it->prefix};
            q->found = true;
        }
    vec_done(&addrs);
    return 0;
}

static void *ask_subnet(void *arg)
{
    struct subnet_question *q = arg;

    (void)netns_run(q->net->home, q->path, read_subnet, q);
    return NULL;
}

/* The subnet of pods that are there, which the bridge would say if it had not been removed. */
static bool pods_subnet(const struct podnet *net, const struct host_net *host, struct subnet *ret)
{
    struct subnet_question q = {.net = net};

    VEC_EACH(&host->links, it) {
        pthread_t thread;
        uint32_t ip;

        if (q.found || !it->alias[0] || !is_pod_link(net, it, &ip))
            continue;
        q.path = pod_netns_path(net, NULL, ip);
        if (pthread_create(&thread, NULL, ask_subnet, &q) == 0)
            pthread_join(thread, NULL);
        free(q.path);
        q.found &= subnet_has(&q.ret, ip);
    }
    if (q.found)
        *ret = q.ret;
    return q.found;
}

/* The subnet of the last start: pods that run may live in it with nothing left on the host that says so. Sets
 * err where there is a file and it does not say one. */
static bool kept_subnet(const char *path, struct subnet *ret, struct err *err)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (!path || access(path, F_OK) < 0 || file_read(path, SUBNET_FILE_MAX, &text, err) < 0)
        return false;
    buf_putc(&text, '\0');
    text.data[strcspn(text.data, "\n")] = '\0';
    return subnet_parse(text.data, ret, err) == 0;
}

static void keep_subnet(const char *path, const struct subnet *subnet)
{
    CLEANUP(free) char *line = NULL;
    char text[ADDR_TEXT_MAX];
    struct err err = {0};
    struct subnet had;

    if (!path || (kept_subnet(path, &had, NULL) && had.base == subnet->base && had.prefix == subnet->prefix))
        return;
    line = mem_printf("%s/%d\n", addr_text(subnet->base, text), subnet->prefix);
    if (file_write_atomic(path, str_from(line), 0600, &err) < 0)
        log_warn("%s", err.msg);
}

/* Sets net->subnet: as told, as the pods or the bridge have it, as it was, or a free one. */
static int choose_subnet(struct podnet *net, const struct host_net *host, const struct podnet_config *config,
                         struct err *err)
{
    const char *wanted = config->subnet;
    struct err unread = {0};
    const struct link_addr *have = NULL;
    const struct link_route *route;
    char text[ADDR_TEXT_MAX];
    struct subnet theirs;
    bool pods = pods_subnet(net, host, &theirs);

    VEC_EACH(&host->addrs, it)
        if (net->bridge_index && it->index == net->bridge_index)
            have = it;
    if (!wanted && pods) {
        net->subnet = theirs;
        return 0;
    }
    if (!wanted && have && have->prefix >= ADDR_PREFIX_MIN && have->prefix <= ADDR_PREFIX_MAX) {
        net->subnet = (struct subnet){have->ip & subnet_mask(have->prefix), have->prefix};
        return 0;
    }
    if (!wanted && kept_subnet(config->subnet_file, &net->subnet, &unread) &&
        !route_into(host, net->bridge_index, &net->subnet))
        return 0;
    if (unread.code)
        log_warn("%s: %s", config->subnet_file, unread.msg);
    if (!wanted)
        return free_subnet(host, &net->subnet, err);
    if (subnet_parse(wanted, &net->subnet, err) < 0)
        return -1;
    route = route_into(host, net->bridge_index, &net->subnet);
    if (route) {
        const struct link *link = link_at(host, route->oif);

        return err_set(err, ERR_CONFLICT, "subnet %s: the host has a route to %s/%d by %s", wanted,
                       addr_text(route->dest.base, text), route->dest.prefix,
                       link ? link->name : "a gateway");
    }
    if (pods && (theirs.prefix != net->subnet.prefix || theirs.base != net->subnet.base))
        return err_set(err, ERR_CONFLICT, "subnet %s: pods still live in that of %s/%d on %s", wanted,
                       addr_text(theirs.base, text), theirs.prefix, net->bridge);
    if (have && (have->prefix != net->subnet.prefix || !subnet_has(&net->subnet, have->ip)))
        return link_addr_del(net->rt, net->bridge_index, have->ip, have->prefix, err);
    return 0;
}

/* ---- the bridge ---- */

static void set_sysctl(struct podnet *net, const char *name, const char *what)
{
    if (net_forwarding(name) < 0)
        warn(net, "%s: cannot set net.ipv4.%s: %s", what, name, strerror(errno));
}

static int find_bridge(struct podnet *net, const struct host_net *host, struct err *err)
{
    VEC_EACH(&host->links, it) {
        if (!streq(it->name, net->bridge))
            continue;
        if (!streq(it->kind, "bridge"))
            return err_set(err, ERR_CONFLICT, "there is a device %s and it is no bridge", net->bridge);
        net->bridge_index = it->index;
    }
    return 0;
}

static int make_bridge(struct podnet *net, struct err *err)
{
    if (!net->bridge_index) {
        if (link_bridge_add(net->rt, net->bridge, net->gateway, net->mtu, err) < 0)
            return -1;
        net->bridge_index = (int)if_nametoindex(net->bridge);
        if (!net->bridge_index)
            return err_errno(err, errno, "find bridge %s", net->bridge);
    }
    return link_bridge_up(net->rt, net->bridge_index, &net->subnet, net->gateway, err);
}

static void make_nat(struct podnet *net)
{
    CLEANUP(free) char *localnet = mem_printf("conf/%s/route_localnet", net->bridge);
    struct nft_ports had = {0}, keep = {0};
    struct err err = {0};

    net->nf = nl_open(NETLINK_NETFILTER, &err);
    if (net->nf >= 0 && nft_ports_list(net->nf, net->bridge, &had, &err) == 0) {
        VEC_EACH(&had, it)
            if (addr_pool_claim(&net->pool, it->ip))
                addr_pool_give(&net->pool, it->ip); /* no pod has it */
            else
                vec_push(&keep, *it);
        net->dnat = nft_table_set(net->nf, net->bridge, &net->subnet, &keep, &err) == 0;
    }
    if (net->dnat) {
        /* Only now: the table's guard is what makes this safe. */
        set_sysctl(net, localnet, "published ports do not work by 127.0.0.1");
        ports_restore(net, &keep);
    } else {
        warn(net, "no NAT, so pods reach only this machine, and ports are published by a proxy: %s", err.msg);
    }
    vec_done(&had);
    vec_done(&keep);
}

/* "berth:ID" or "berth:ID ADDRESS"; false: neither. */
static bool parse_alias(const char *alias, uint32_t home, char id[PODNET_ID_MAX + 1], uint32_t *ip)
{
    struct str rest = str_from(alias), word;
    char text[ADDR_TEXT_MAX];
    struct in_addr addr;

    if (!str_starts(rest, ALIAS_PREFIX))
        return false;
    rest = (struct str){rest.s + strlen(ALIAS_PREFIX), rest.len - strlen(ALIAS_PREFIX)};
    *ip = home;
    if (!str_split(&rest, ' ', &word) || word.len == 0 || word.len > PODNET_ID_MAX)
        return false;
    snprintf(id, PODNET_ID_MAX + 1, "%.*s", STR_ARG(word));
    if (rest.len == 0)
        return podnet_id_valid(id);
    snprintf(text, sizeof(text), "%.*s", STR_ARG(rest));
    if (inet_pton(AF_INET, text, &addr) != 1)
        return false;
    *ip = ntohl(addr.s_addr);
    return podnet_id_valid(id);
}

static bool restore_link(struct podnet *net, const struct link *link, uint32_t home)
{
    char id[PODNET_ID_MAX + 1];
    uint32_t ip;

    if (!parse_alias(link->alias, home, id, &ip) || map_get(net->pods, str_from(id)) ||
        !addr_pool_claim(&net->pool, home))
        return false;
    if (ip != home && !addr_pool_claim(&net->pool, ip)) {
        addr_pool_give(&net->pool, home);
        return false;
    }
    pod_new(net, id, home, ip)->state = POD_UP;
    return true;
}

/* Links of the bridge become pods again; those that are not complete go. One whose namespace is not pinned
 * any more waits for podnet_rescue: the pod may run. */
static void restore_links(struct podnet *net, const struct host_net *host)
{
    VEC_EACH(&host->links, it) {
        struct err err = {0};
        uint32_t home;

        if (!is_pod_link(net, it, &home))
            continue;
        if (restore_link(net, it, home)) {
            if ((it->master != net->bridge_index || !it->up) &&
                (link_attach(net->rt, it->index, net->bridge_index, &err) < 0 ||
                 link_pod_mark(net->rt, home, it->alias, &err) < 0))
                log_warn("%s", err.msg);
            continue;
        }
        log_info("removing stray link %s", it->name);
        if (link_del(net->rt, it->index, it->name, &err) < 0)
            log_warn("%s", err.msg);
    }
}

static void ignore_ready(void *arg, const struct err *err)
{
    struct pod *pod = arg;

    if (err) {
        log_warn("%s", err->msg);
        slirp_stop(TAKE_PTR(pod->slirp));
    }
}

/* Pins without a link go; with slirp4netns they are the pods. */
static void restore_pins(struct podnet *net)
{
    DIR *dir = opendir(net->netns_dir);

    if (!dir)
        return;
    for (struct dirent *e; (e = readdir(dir));) {
        CLEANUP(free) char *path = NULL;
        struct err err = {0};
        uint32_t ip;

        if (e->d_name[0] == '.' ||
            (net->mode == PODNET_BRIDGE && link_pod_parse(e->d_name, &ip) && addr_pool_has(&net->pool, ip)))
            continue;
        path = pod_netns_path(net, e->d_name, 0);
        if (net->mode == PODNET_SLIRP && podnet_id_valid(e->d_name) && netns_pinned(path)) {
            struct pod *pod = pod_new(net, e->d_name, 0, 0);

            pod->state = POD_UP;
            pod->slirp = slirp_start(net, pod->pub.id, path, ignore_ready, pod);
            continue;
        }
        log_debug("removing stray namespace %s", path);
        if (netns_unpin(path, &err) < 0)
            log_warn("%s", err.msg);
    }
    closedir(dir);
}

static int open_bridge(struct podnet *net, const struct podnet_config *config, const struct host_net *host,
                       struct err *err)
{
    char text[ADDR_TEXT_MAX];

    net->mode = PODNET_BRIDGE;
    if (find_bridge(net, host, err) < 0 || choose_subnet(net, host, config, err) < 0)
        return -1;
    net->gateway = net->subnet.base + 1;
    if (make_bridge(net, err) < 0)
        return -1;
    keep_subnet(config->subnet_file, &net->subnet);
    addr_pool_init(&net->pool, &net->subnet);
    restore_links(net, host);
    set_sysctl(net, "ip_forward", "pods reach only this machine");
    make_nat(net);
    forward_allow(net->bridge);
    buf_printf(&net->mode_text, "bridge %s, %s/%d, %s", net->bridge, addr_text(net->subnet.base, text),
               net->subnet.prefix, net->dnat ? "NAT by nf_tables" : "no NAT");
    return 0;
}

/* ---- the other ways ---- */

/* Whether this process may make namespaces, and set up what is in them. In a thread of its own, which takes
 * what it did with it.
 */
struct net_probe {
    struct podnet *net;
    struct err err;
    bool failed;
};

static void *probe_netns(void *arg)
{
    struct net_probe *probe = arg;
    CLEANUP(free) char *path = mem_printf("%s/.probe", probe->net->netns_dir);
    int ns, nl;

    probe->failed = netns_make(probe->net->home, path, &ns, &nl, &probe->err) < 0;
    if (!probe->failed) {
        probe->failed = link_lo_up(nl, &probe->err) < 0;
        close(ns);
        close(nl);
        (void)netns_unpin(path, NULL);
    }
    return NULL;
}

static int open_slirp(struct podnet *net, const struct podnet_config *config, struct err *err)
{
    CLEANUP(free) char *folder = mem_printf("%s/slirp", net->run_dir);
    struct net_probe probe = {.net = net};
    pthread_t thread;
    int status;

    net->mode = PODNET_SLIRP;
    net->bridge_index = 0; /* of a bridge that we found but cannot use */
    net->gateway = SLIRP_GATEWAY;
    net->slirp_path = config->slirp_path ? mem_strdup(config->slirp_path) : slirp_find();
    if (!net->slirp_path || access(net->slirp_path, X_OK) < 0)
        return err_set(err, ERR_UNSUPPORTED, "slirp4netns is not installed");
    if (dir_make(folder, 0700, err) < 0)
        return -1;
    status = pthread_create(&thread, NULL, probe_netns, &probe);
    if (status)
        return err_errno(err, status, "start a thread");
    pthread_join(thread, NULL);
    if (probe.failed)
        return err_set(err, ERR_UNSUPPORTED, "%s", probe.err.msg);
    return 0;
}

static int choose_mode(struct podnet *net, const struct podnet_config *config, const struct host_net *host,
                       struct err *err)
{
    struct err no_bridge = {0}, no_slirp = {0};

    if (config->mode == PODNET_AUTO || config->mode == PODNET_BRIDGE) {
        if (open_bridge(net, config, host, &no_bridge) == 0)
            return 0;
        if (no_bridge.code == ERR_CONFLICT || no_bridge.code == ERR_INVALID ||
            config->mode == PODNET_BRIDGE) {
            if (no_bridge.code != ERR_CONFLICT && no_bridge.code != ERR_INVALID)
                no_bridge.code = ERR_UNSUPPORTED;
            *err = no_bridge;
            return -1;
        }
    }
    if (config->mode != PODNET_HOST) {
        if (open_slirp(net, config, &no_slirp) == 0) {
            buf_printf(&net->mode_text, "slirp4netns%s%s%s", no_bridge.code ? " (no bridge: " : "",
                       no_bridge.msg, no_bridge.code ? ")" : "");
            return 0;
        }
        if (config->mode == PODNET_SLIRP) {
            *err = no_slirp;
            return -1;
        }
    }
    net->mode = PODNET_HOST;
    net->gateway = 0;
    buf_puts(&net->mode_text, "the host's network");
    if (config->mode != PODNET_HOST)
        buf_printf(&net->mode_text, " (no bridge: %s; no slirp4netns: %s)", no_bridge.msg, no_slirp.msg);
    return 0;
}

/* ---- opening and closing ---- */

static int check_config(const struct podnet_config *config, const char *bridge, struct err *err)
{
    size_t len = strlen(bridge);

    if (len < 1 || len >= IF_NAMESIZE || strpbrk(bridge, "/: %") || streq(bridge, ".") || streq(bridge, ".."))
        return err_set(err, ERR_INVALID, "'%s' is no name of a bridge", bridge);
    if (config->mtu && (config->mtu < 576 || config->mtu > 65535))
        return err_set(err, ERR_INVALID, "mtu %d is not in 576..65535", config->mtu);
    if (config->run_dir && config->run_dir[0] != '/')
        return err_set(err, ERR_INVALID, "'%s' is no absolute path", config->run_dir);
    return 0;
}

static void net_on_first(void *arg)
{
    net_spares_make(arg);
}

int podnet_open(struct loop *loop, const struct podnet_config *config, struct podnet **ret, struct err *err)
{
    CLEANUP(podnet_free) struct podnet *net = NEW(struct podnet);
    CLEANUP(host_done) struct host_net host = {0};
    const char *bridge = config->bridge ? config->bridge : "berth0";
    const struct link *device;

    net->loop = loop;
    net->home = net->rt = net->nf = net->worker_rt = net->worker_nf = net->rt_heard = net->nf_heard = -1;
    net->proxy = config->proxy;
    net->pods = map_new();
    net->run_dir = mem_strdup(config->run_dir ? config->run_dir : "/run/berth");
    net->netns_dir = mem_printf("%s/netns", net->run_dir);
    if (check_config(config, bridge, err) < 0)
        return -1;
    memcpy(net->bridge, bridge, strlen(bridge) + 1);
    if (dir_make(net->netns_dir, 0711, err) < 0 || (net->home = netns_here(err)) < 0 ||
        (net->rt = nl_open(NETLINK_ROUTE, err)) < 0 || (net->worker_rt = nl_open(NETLINK_ROUTE, err)) < 0 ||
        host_read(net->rt, &host, err) < 0)
        return -1;
    device = link_at(&host, default_device(&host));
    net->mtu = config->mtu ? (uint32_t)config->mtu : device && device->mtu >= 576 ? device->mtu : 1500;
    net->host_ip = own_address(&host);
    if (choose_mode(net, config, &host, err) < 0)
        return -1;
    if (net->mode != PODNET_HOST)
        restore_pins(net);
    if (worker_new(loop, &net->worker, err) < 0)
        return -1;
    net_check_start(net);
    net->spares_wanted = config->spares > 0 ? (size_t)config->spares : 0;
    /* After podnet_rescue: addresses of pods that run are not to be given to others. */
    net->first_spares = loop_timer_new(loop, net_on_first, net);
    loop_timer_set(net->first_spares, 0);
    *ret = TAKE_PTR(net);
    return 0;
}

static void pods_free(struct podnet *net)
{
    for (;;) {
        size_t at = 0;
        struct str key;
        void *pod;

        if (!map_next(net->pods, &at, &key, &pod))
            return;
        pod_free(pod);
    }
}

void podnet_free(struct podnet *net)
{
    if (!net)
        return;
    worker_free(net->worker); /* first: its tasks point at the rest */
    net_spares_free(net);
    ports_free(net);
    services_free(&net->services);
    dials_free(net);
    pods_free(net);
    slirps_free(net);
    map_free(net->pods);
    addr_pool_done(&net->pool);
    fd_close(net->home);
    fd_close(net->rt);
    fd_close(net->nf);
    fd_close(net->worker_rt);
    fd_close(net->worker_nf);
    net_check_stop(net);
    loop_timer_free(net->first_spares);
    buf_done(&net->trouble);
    free(net->run_dir);
    free(net->netns_dir);
    free(net->slirp_path);
    buf_done(&net->mode_text);
    buf_done(&net->warning);
    free(net);
}

/* The kernel removes a namespace's link by itself, a little later; the rest is removed one by one. */
static int remove_links(struct podnet *net, struct err *err)
{
    CLEANUP(host_done) struct host_net host = {0};

    for (int tries = 0; tries < GONE_TRIES; tries++) {
        uint32_t ip;
        bool some = false;

        host.links.len = 0;
        if (link_list(net->rt, &host.links, err) < 0)
            return -1;
        VEC_EACH(&host.links, it)
            some |= is_pod_link(net, it, &ip);
        if (!some)
            return 0;
        usleep(5000);
    }
    VEC_EACH(&host.links, it) {
        uint32_t ip;

        if (is_pod_link(net, it, &ip) && link_del(net->rt, it->index, it->name, err) < 0)
            return -1;
    }
    return 0;
}

int podnet_destroy(struct podnet *net, struct err *err)
{
    struct str key;
    void *value;
    size_t at = 0;

    net_check_stop(net);
    loop_timer_stop(net->first_spares);
    worker_free(TAKE_PTR(net->worker));
    net_spares_free(net);
    ports_free(net);
    while (map_next(net->pods, &at, &key, &value))
        slirp_stop(TAKE_PTR(((struct pod *)value)->slirp));
    pods_free(net);
    if (net->mode == PODNET_HOST)
        return 0;
    net->mode = PODNET_BRIDGE; /* so that every pin is a stray */
    restore_pins(net);
    rmdir(net->netns_dir);
    if (!net->bridge_index)
        return 0;
    forward_forget(net->bridge);
    if (remove_links(net, err) < 0 || (net->nf >= 0 && (nft_table_del(net->nf, net->bridge, err) < 0 ||
                                                        nft_services_del(net->nf, net->bridge, err) < 0)))
        return -1;
    return link_del(net->rt, net->bridge_index, net->bridge, err);
}

/* ---- what the run folder has lost ---- */

struct alias_search {
    const char *id;
    uint32_t home, ip;
};

/* Where the pod's link says it is; 0: it has none. */
static void find_alias(struct podnet *net, struct alias_search *s)
{
    struct links links = {0};
    char id[PODNET_ID_MAX + 1];
    uint32_t home, ip;

    if (link_list(net->rt, &links, NULL) == 0)
        VEC_EACH(&links, it)
            if (link_pod_parse(it->name, &home) && subnet_has(&net->subnet, home) &&
                parse_alias(it->alias, home, id, &ip) && streq(id, s->id)) {
                s->home = home;
                s->ip = ip;
            }
    vec_done(&links);
}

static bool claim(struct podnet *net, uint32_t ip)
{
    VEC_EACH(&net->spares, it)
        if (it->ip == ip || it->home == ip) {
            net_spare_drop(net, it->home);
            break;
        }
    return addr_pool_claim(&net->pool, ip);
}

static struct pod *rescue_new(struct podnet *net, const char *id, const char *ip, struct err *err)
{
    struct alias_search at = {.id = id};
    struct in_addr addr;

    find_alias(net, &at);
    if (!at.home && inet_pton(AF_INET, ip, &addr) == 1)
        at.home = at.ip = ntohl(addr.s_addr);
    if (!at.home || !subnet_has(&net->subnet, at.ip)) {
        (void)err_set(err, ERR_CONFLICT, "pod '%s' runs, but its address is not known", id);
        return NULL;
    }
    if (!claim(net, at.home)) {
        at.home = 0;
    } else if (at.ip != at.home && !claim(net, at.ip)) {
        addr_pool_give(&net->pool, at.home);
        at.home = 0;
    }
    if (!at.home) {
        (void)err_set(err, ERR_CONFLICT, "pod '%s' runs, but another one has its address", id);
        return NULL;
    }
    return pod_new(net, id, at.home, at.ip);
}

bool podnet_whole(const struct podnet *net, const char *id)
{
    const struct podnet_pod *pod = podnet_get(net, id);

    return pod && (!pod->netns || netns_pinned(pod->netns));
}

int podnet_rescue(struct podnet *net, const char *id, pid_t pid, const char *ip, struct err *err)
{
    struct pod *pod = map_get(net->pods, str_from(id));
    bool is_new = !pod;

    if (net->mode != PODNET_BRIDGE || (pod && (pod->state != POD_UP || netns_pinned(pod->pub.netns))))
        return 0;
    if (!podnet_id_valid(id))
        return err_set(err, ERR_INVALID, "'%s' is no id of a pod", id);
    if (dir_make(net->netns_dir, 0711, err) < 0)
        return -1;
    if (!pod)
        pod = rescue_new(net, id, ip, err);
    if (!pod)
        return -1;
    if (netns_pin(net->home, pid, pod->pub.netns, err) < 0) {
        if (is_new)
            pod_free(pod);
        return -1;
    }
    pod->state = POD_UP;
    net_check_soon(net);
    return 1;
}

enum podnet_mode podnet_mode(const struct podnet *net)
{
    return net->mode;
}

const char *podnet_mode_text(const struct podnet *net)
{
    return net->mode_text.data;
}

const char *podnet_warning(const struct podnet *net)
{
    return net->warning.len ? net->warning.data : NULL;
}

const char *podnet_nameserver(const struct podnet *net)
{
    return net->mode == PODNET_SLIRP ? SLIRP_NAMESERVER : NULL;
}

struct in_addr podnet_gateway(const struct podnet *net)
{
    return (struct in_addr){htonl(net->gateway)};
}
