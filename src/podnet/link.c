/* link - see link.h. A pod's link takes two batches: one here makes both ends at once (the peer is born
 * in the pod's namespace), one there sets it up and gives it address and route. The alias comes last and says
 * that all of it is done. */
#include "podnet/link.h"

#include "podnet/netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <stdio.h>
#include <sys/ioctl.h>

#define ACK    (NLM_F_ACK)
#define CREATE (NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL)

/* ---- reading ---- */

static void on_link(void *arg, const struct nlmsghdr *msg)
{
    struct links *links = arg;
    const struct ifinfomsg *head = mnl_nlmsg_get_payload(msg);
    const struct nlattr *attr[IFLA_IFALIAS + 1], *info;
    struct link link = {0};

    if (msg->nlmsg_type != RTM_NEWLINK || !nl_attrs(msg, sizeof(*head), attr, IFLA_IFALIAS))
        return;
    link.index = head->ifi_index;
    link.up = head->ifi_flags & IFF_UP;
    link.master = (int)nl_u32(attr[IFLA_MASTER]);
    link.mtu = nl_u32(attr[IFLA_MTU]);
    nl_string(attr[IFLA_IFNAME], link.name, sizeof(link.name));
    nl_string(attr[IFLA_IFALIAS], link.alias, sizeof(link.alias));
    if (attr[IFLA_LINKINFO])
        mnl_attr_for_each_nested(info, attr[IFLA_LINKINFO])
            if (mnl_attr_get_type(info) == IFLA_INFO_KIND)
                nl_string(info, link.kind, sizeof(link.kind));
    vec_push(links, link);
}

int link_list(int fd, struct links *ret, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    struct ifinfomsg head = {.ifi_family = AF_UNSPEC};
    struct nlmsghdr *msg = nl_begin(&batch, RTM_GETLINK, NLM_F_DUMP, &head, sizeof(head));

    mnl_attr_put_u32(msg, IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
    if (nl_dump(fd, &batch, on_link, ret, err) < 0)
        return err_prefix(err, "list links");
    return 0;
}

static void on_route(void *arg, const struct nlmsghdr *msg)
{
    struct link_routes *routes = arg;
    const struct rtmsg *head = mnl_nlmsg_get_payload(msg);
    const struct nlattr *attr[RTA_OIF + 1];

    if (msg->nlmsg_type != RTM_NEWROUTE || !nl_attrs(msg, sizeof(*head), attr, RTA_OIF) ||
        head->rtm_family != AF_INET || head->rtm_table == RT_TABLE_LOCAL || head->rtm_dst_len > 32)
        return;
    vec_push(routes, (struct link_route){{ntohl(nl_u32(attr[RTA_DST])), head->rtm_dst_len},
                                         (int)nl_u32(attr[RTA_OIF])});
}

int link_routes(int fd, struct link_routes *ret, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    struct rtmsg head = {.rtm_family = AF_INET};

    nl_begin(&batch, RTM_GETROUTE, NLM_F_DUMP, &head, sizeof(head));
    if (nl_dump(fd, &batch, on_route, ret, err) < 0)
        return err_prefix(err, "list routes");
    return 0;
}

static void on_addr(void *arg, const struct nlmsghdr *msg)
{
    struct link_addrs *addrs = arg;
    const struct ifaddrmsg *head = mnl_nlmsg_get_payload(msg);
    const struct nlattr *attr[IFA_LOCAL + 1];

    if (msg->nlmsg_type != RTM_NEWADDR || !nl_attrs(msg, sizeof(*head), attr, IFA_LOCAL) ||
        head->ifa_family != AF_INET)
        return;
    vec_push(addrs, (struct link_addr){(int)head->ifa_index,
                                       ntohl(nl_u32(attr[attr[IFA_LOCAL] ? IFA_LOCAL : IFA_ADDRESS])),
                                       head->ifa_prefixlen});
}

int link_addrs(int fd, struct link_addrs *ret, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    struct ifaddrmsg head = {.ifa_family = AF_INET};

    nl_begin(&batch, RTM_GETADDR, NLM_F_DUMP, &head, sizeof(head));
    if (nl_dump(fd, &batch, on_addr, ret, err) < 0)
        return err_prefix(err, "list addresses");
    return 0;
}

/* ---- changing ---- */

/* A locally administered address that says the same as the IPv4 one: a pod that gets an address anew does
 * not meet its neighbours' stale tables. `end` tells the two ends of a link apart. */
static void mac_for(uint32_t ip, uint8_t end, uint8_t ret[6])
{
    ret[0] = 0x02;
    ret[1] = end;
    for (int i = 0; i < 4; i++)
        ret[2 + i] = (uint8_t)(ip >> (24 - 8 * i));
}

static void put_mac(struct nlmsghdr *msg, uint32_t ip, uint8_t end)
{
    uint8_t mac[6];

    mac_for(ip, end, mac);
    mnl_attr_put(msg, IFLA_ADDRESS, sizeof(mac), mac);
}

int link_bridge_add(int fd, const char *name, uint32_t ip, uint32_t mtu, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    struct ifinfomsg head = {.ifi_family = AF_UNSPEC, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    struct nlattr *info;
    struct nlmsghdr *msg = nl_begin(&batch, RTM_NEWLINK, CREATE, &head, sizeof(head));

    mnl_attr_put_strz(msg, IFLA_IFNAME, name);
    mnl_attr_put_u32(msg, IFLA_MTU, mtu);
    put_mac(msg, ip, 0); /* else it changes as pods come and go */
    info = mnl_attr_nest_start(msg, IFLA_LINKINFO);
    mnl_attr_put_strz(msg, IFLA_INFO_KIND, "bridge");
    mnl_attr_nest_end(msg, info);
    if (nl_send(fd, &batch, NULL, err) < 0)
        return err_prefix(err, "make bridge %s", name);
    return 0;
}

static void put_addr(struct nl_batch *batch, uint16_t type, uint16_t flags, int index, uint32_t ip,
                     int prefix)
{
    struct ifaddrmsg head = {
        .ifa_family = AF_INET, .ifa_prefixlen = (uint8_t)prefix, .ifa_index = (uint32_t)index};
    struct nlmsghdr *msg = nl_begin(batch, type, flags, &head, sizeof(head));

    mnl_attr_put_u32(msg, IFA_LOCAL, htonl(ip));
    mnl_attr_put_u32(msg, IFA_ADDRESS, htonl(ip));
    if (type == RTM_NEWADDR)
        mnl_attr_put_u32(msg, IFA_BROADCAST, htonl(ip | ~subnet_mask(prefix)));
}

static void put_up(struct nl_batch *batch, int index)
{
    struct ifinfomsg head = {
        .ifi_family = AF_UNSPEC, .ifi_index = index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};

    nl_begin(batch, RTM_NEWLINK, ACK, &head, sizeof(head));
}

int link_bridge_up(int fd, int index, const struct subnet *subnet, uint32_t ip, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};

    put_up(&batch, index);
    put_addr(&batch, RTM_NEWADDR, ACK | NLM_F_CREATE | NLM_F_REPLACE, index, ip, subnet->prefix);
    if (nl_send(fd, &batch, NULL, err) < 0)
        return err_prefix(err, "address of the bridge");
    return 0;
}

int link_addr_del(int fd, int index, uint32_t ip, int prefix, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};

    put_addr(&batch, RTM_DELADDR, ACK, index, ip, prefix);
    return nl_send(fd, &batch, NULL, err);
}

int link_del(int fd, int index, const char *name, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    struct ifinfomsg head = {.ifi_family = AF_UNSPEC, .ifi_index = index};
    struct err why = {0};
    struct nlmsghdr *msg = nl_begin(&batch, RTM_DELLINK, ACK, &head, sizeof(head));

    if (!index)
        mnl_attr_put_strz(msg, IFLA_IFNAME, name);
    if (nl_send(fd, &batch, NULL, &why) == 0 || why.sys == ENODEV)
        return 0;
    if (err)
        *err = why;
    return err_prefix(err, "remove link %s", name ? name : "");
}

void link_pod_name(uint32_t ip, char ret[IF_NAMESIZE])
{
    (void)snprintf(ret, IF_NAMESIZE, "bv%08x", ip);
}

bool link_pod_parse(const char *name, uint32_t *ret_ip)
{
    char again[IF_NAMESIZE];
    unsigned ip = 0;

    if (!starts_with(name, "bv") || strlen(name) != 10)
        return false;
    for (const char *c = name + 2; *c; c++) {
        const char *digit = strchr("0123456789abcdef", *c);

        if (!digit)
            return false;
        ip = ip << 4 | (unsigned)(digit - "0123456789abcdef");
    }
    link_pod_name(ip, again);
    *ret_ip = ip;
    return streq(name, again);
}

static void put_pair(struct nl_batch *batch, int netns_fd, const struct link_pod *pod)
{
    struct ifinfomsg head = {.ifi_family = AF_UNSPEC, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    char name[IF_NAMESIZE];
    struct nlattr *info, *data, *end;
    struct nlmsghdr *msg;

    link_pod_name(pod->ip, name);
    msg = nl_begin(batch, RTM_NEWLINK, CREATE, &head, sizeof(head));
    mnl_attr_put_strz(msg, IFLA_IFNAME, name);
    mnl_attr_put_u32(msg, IFLA_MTU, pod->mtu);
    mnl_attr_put_u32(msg, IFLA_MASTER, (uint32_t)pod->bridge);
    put_mac(msg, pod->ip, 0xfe);
    info = mnl_attr_nest_start(msg, IFLA_LINKINFO);
    mnl_attr_put_strz(msg, IFLA_INFO_KIND, "veth");
    data = mnl_attr_nest_start(msg, IFLA_INFO_DATA);
    end = mnl_attr_nest_start(msg, VETH_INFO_PEER);
    (void)mnl_nlmsg_put_extra_header(msg, sizeof(struct ifinfomsg));
    mnl_attr_put_strz(msg, IFLA_IFNAME, LINK_POD_NAME);
    mnl_attr_put_u32(msg, IFLA_MTU, pod->mtu);
    mnl_attr_put_u32(msg, IFLA_NET_NS_FD, (uint32_t)netns_fd);
    put_mac(msg, pod->ip, 1);
    mnl_attr_nest_end(msg, end);
    mnl_attr_nest_end(msg, data);
    mnl_attr_nest_end(msg, info);
}

int link_pod_add(int fd, int netns_fd, const struct link_pod *pod, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};

    put_pair(&batch, netns_fd, pod);
    if (nl_send(fd, &batch, NULL, err) < 0)
        return err_prefix(err, "make the pod's link");
    return 0;
}

static void put_way(struct nl_batch *batch, int index, uint32_t ip, int prefix, uint32_t gateway)
{
    struct rtmsg route = {
        .rtm_family = AF_INET,
        .rtm_table = RT_TABLE_MAIN,
        .rtm_protocol = RTPROT_STATIC,
        .rtm_scope = RT_SCOPE_UNIVERSE,
        .rtm_type = RTN_UNICAST,
    };
    struct nlmsghdr *msg;

    put_addr(batch, RTM_NEWADDR, CREATE, index, ip, prefix);
    msg = nl_begin(batch, RTM_NEWROUTE, CREATE, &route, sizeof(route));
    mnl_attr_put_u32(msg, RTA_GATEWAY, htonl(gateway));
    mnl_attr_put_u32(msg, RTA_OIF, (uint32_t)index);
}

int link_pod_move(int fd, uint32_t from, uint32_t to, int prefix, uint32_t gateway, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    struct ifreq eth0 = {.ifr_name = LINK_POD_NAME};

    if (ioctl(fd, SIOCGIFINDEX, &eth0) < 0)
        return err_errno(err, errno, "find the pod's " LINK_POD_NAME);
    put_addr(&batch, RTM_DELADDR, ACK, eth0.ifr_ifindex, from, prefix); /* the route goes with it */
    put_way(&batch, eth0.ifr_ifindex, to, prefix, gateway);
    if (nl_send(fd, &batch, NULL, err) < 0)
        return err_prefix(err, "give the pod's link another address");
    return 0;
}

int link_pod_setup(int fd, uint32_t ip, int prefix, uint32_t gateway, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    struct ifreq eth0 = {.ifr_name = LINK_POD_NAME};

    if (ioctl(fd, SIOCGIFINDEX, &eth0) < 0)
        return err_errno(err, errno, "find the pod's " LINK_POD_NAME);
    put_up(&batch, 1);
    put_up(&batch, eth0.ifr_ifindex); /* not at birth: the kernel opens a peer before it has an other end */
    put_way(&batch, eth0.ifr_ifindex, ip, prefix, gateway);
    if (nl_send(fd, &batch, NULL, err) < 0)
        return err_prefix(err, "set up the pod's link");
    return 0;
}

int link_pod_mark(int fd, uint32_t ip, const char *alias, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    struct ifinfomsg head = {.ifi_family = AF_UNSPEC};
    char name[IF_NAMESIZE];
    struct nlattr *info, *data;
    struct nlmsghdr *msg;

    link_pod_name(ip, name);
    msg = nl_begin(&batch, RTM_NEWLINK, ACK, &head, sizeof(head));
    mnl_attr_put_strz(msg, IFLA_IFNAME, name);
    mnl_attr_put_strz(msg, IFLA_IFALIAS, alias);
    /* Hairpin: where bridged packets pass netfilter (bridge-nf-call-iptables), a pod that connects to its own
     * published port gets its packet back through the port it came from. */
    info = mnl_attr_nest_start(msg, IFLA_LINKINFO);
    mnl_attr_put_strz(msg, IFLA_INFO_SLAVE_KIND, "bridge");
    data = mnl_attr_nest_start(msg, IFLA_INFO_SLAVE_DATA);
    mnl_attr_put_u8(msg, IFLA_BRPORT_MODE, 1);
    mnl_attr_nest_end(msg, data);
    mnl_attr_nest_end(msg, info);
    if (nl_send(fd, &batch, NULL, err) < 0)
        return err_prefix(err, "name the pod's link");
    return 0;
}

int link_attach(int fd, int index, int bridge, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    struct ifinfomsg head = {
        .ifi_family = AF_UNSPEC, .ifi_index = index, .ifi_flags = IFF_UP, .ifi_change = IFF_UP};
    struct nlmsghdr *msg = nl_begin(&batch, RTM_NEWLINK, ACK, &head, sizeof(head));

    mnl_attr_put_u32(msg, IFLA_MASTER, (uint32_t)bridge);
    if (nl_send(fd, &batch, NULL, err) < 0)
        return err_prefix(err, "attach the pod's link");
    return 0;
}

int link_lo_up(int fd, struct err *err)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};

    put_up(&batch, 1);
    if (nl_send(fd, &batch, NULL, err) < 0)
        return err_prefix(err, "set the pod's loopback up");
    return 0;
}
