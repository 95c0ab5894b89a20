/* watch - what the kernel tells of changes that others make to bridge, links, addresses, forwarding and
 * rules. Only what may concern us calls for a look (check.c), and that decides. */
#define LOG_MODULE "podnet"
#include "base/log.h"
#include "loop/loop.h"
#include "podnet/impl.h"
#include "podnet/link.h"
#include "podnet/netlink.h"

#include <linux/netconf.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>

#define NAME_ATTR     1        /* of every message of nf_tables: the table */
#define FORWARD_TABLE "filter" /* iptables', see forward.h */

static bool is_live(const struct podnet *net, uint32_t home)
{
    struct str key;
    void *value;
    size_t at = 0;

    VEC_EACH(&net->spares, it)
        if (it->home == home)
            return true;
    while (map_next(net->pods, &at, &key, &value)) {
        const struct pod *pod = value;

        if (pod->home == home && pod->state == POD_UP)
            return true;
    }
    return false;
}

/* The bridge gone or down; a pod's link gone, down, or off its bridge. Own changes are made while a pod is
 * not up yet, or no more. */
static bool link_concerns(const struct podnet *net, const struct nlmsghdr *msg)
{
    const struct ifinfomsg *head = mnl_nlmsg_get_payload(msg);
    const struct nlattr *attr[IFLA_MASTER + 1];
    char name[IF_NAMESIZE];
    uint32_t home;

    if (!nl_attrs(msg, sizeof(*head), attr, IFLA_MASTER))
        return false;
    nl_string(attr[IFLA_IFNAME], name, sizeof(name));
    if (msg->nlmsg_type == RTM_NEWLINK && (head->ifi_flags & IFF_UP) &&
        (streq(name, net->bridge) || attr[IFLA_MASTER]))
        return false;
    return streq(name, net->bridge) ||
           (link_pod_parse(name, &home) && subnet_has(&net->subnet, home) && is_live(net, home));
}

static bool address_concerns(const struct podnet *net, const struct nlmsghdr *msg)
{
    const struct nlattr *attr[IFA_LABEL + 1];
    char name[IF_NAMESIZE];

    if (!nl_attrs(msg, sizeof(struct ifaddrmsg), attr, IFA_LABEL))
        return false;
    nl_string(attr[IFA_LABEL], name, sizeof(name));
    return streq(name, net->bridge);
}

static bool forwarding_concerns(const struct nlmsghdr *msg)
{
    const struct nlattr *attr[NETCONFA_FORWARDING + 1];

    return nl_attrs(msg, sizeof(struct netconfmsg), attr, NETCONFA_FORWARDING) &&
           (int)nl_u32(attr[NETCONFA_IFINDEX]) == NETCONFA_IFINDEX_ALL && attr[NETCONFA_FORWARDING] &&
           !nl_u32(attr[NETCONFA_FORWARDING]);
}

static void on_route_message(void *arg, const struct nlmsghdr *msg)
{
    struct podnet *net = arg;
    bool concerns = false;

    switch (msg->nlmsg_type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
        concerns = link_concerns(net, msg);
        break;
    case RTM_DELADDR:
        concerns = address_concerns(net, msg);
        break;
    case RTM_NEWNETCONF:
        concerns = forwarding_concerns(msg);
        break;
    default:
        break;
    }
    if (concerns)
        net_check_soon(net);
}

static bool is_own_port(const struct podnet *net, uint32_t port)
{
    return port == nl_port(net->nf) || (net->worker_nf >= 0 && port == nl_port(net->worker_nf));
}

/* Something of ours: it is made again in any case. What forward_allow looks at: that may have to be
 * done again. */
static void on_rule_message(void *arg, const struct nlmsghdr *msg)
{
    struct podnet *net = arg;
    const struct nlattr *attr[NAME_ATTR + 1];
    char table[NFT_TABLE_MAXNAMELEN];
    int what = NFNL_MSG_TYPE(msg->nlmsg_type);

    if (NFNL_SUBSYS_ID(msg->nlmsg_type) != NFNL_SUBSYS_NFTABLES || what == NFT_MSG_NEWGEN ||
        is_own_port(net, msg->nlmsg_pid) || !nl_attrs(msg, sizeof(struct nfgenmsg), attr, NAME_ATTR))
        return;
    nl_string(attr[NAME_ATTR], table, sizeof(table));
    if (streq(table, net->bridge) || nft_services_is(table, net->bridge)) {
        net->rules_lost = true;
        net_check_soon(net);
    } else if (streq(table, FORWARD_TABLE) && what != NFT_MSG_NEWRULE) {
        net_check_soon(net);
    }
}

static void net_on_route_io(void *arg, uint32_t events)
{
    struct podnet *net = arg;

    (void)events;
    if (!nl_heard(net->rt_heard, on_route_message, net))
        net_check_soon(net);
}

static void net_on_rule_io(void *arg, uint32_t events)
{
    struct podnet *net = arg;

    (void)events;
    if (!nl_heard(net->nf_heard, on_rule_message, net))
        net_check_soon(net);
}

void net_watch_start(struct podnet *net)
{
    static const int route_groups[] = {RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV4_NETCONF},
                     rule_groups[] = {NFNLGRP_NFTABLES};
    struct err err = {0};

    net->rt_heard = nl_listen(NETLINK_ROUTE, route_groups, ARRAY_LEN(route_groups), &err);
    if (net->rt_heard >= 0)
        net->rt_io = loop_io_new(net->loop, net->rt_heard, EPOLLIN, net_on_route_io, net);
    if (net->dnat)
        net->nf_heard = nl_listen(NETLINK_NETFILTER, rule_groups, ARRAY_LEN(rule_groups), &err);
    if (net->nf_heard >= 0)
        net->nf_io = loop_io_new(net->loop, net->nf_heard, EPOLLIN, net_on_rule_io, net);
    if (err.code)
        log_warn("changes of the network are noticed every %d s only: %s", PODNET_CHECK_SEC, err.msg);
}

void net_watch_stop(struct podnet *net)
{
    loop_io_free(TAKE_PTR(net->rt_io));
    loop_io_free(TAKE_PTR(net->nf_io));
    fd_close(take_fd(&net->rt_heard));
    fd_close(take_fd(&net->nf_heard));
}
