/* Pods, their ports and connections into them, in real namespaces. */
#include "base/clock.h"
#include "base/mem.h"
#include "podnet/link.h"
#include "podnet/netlink.h"
#include "podnet/nft.h"
#include "podnet/test/box.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* ---- the bridge ---- */

static void test_pods_reach_each_other(void **state)
{
    struct podnet *net = open_net(NULL);
    struct result a = add_ok(net, "a"), b = add_ok(net, "b");
    int server = listen_in(b.netns, INADDR_ANY, 80);

    (void)state;
    assert_int_equal(podnet_mode(net), PODNET_BRIDGE);
    assert_null(podnet_warning(net));
    assert_int_equal(reach(a.netns, ntohl(b.ip.s_addr), 80, server), ntohl(a.ip.s_addr));
    assert_int_equal(reach(NULL, ntohl(b.ip.s_addr), 80, server), ntohl(podnet_gateway(net).s_addr));
    close(server);
    destroy_net(net);
}

static void test_pods_ping_each_other_and_the_host(void **state)
{
    struct podnet *net = open_net(NULL);
    struct result a = add_ok(net, "a"), b = add_ok(net, "b");
    struct in_addr targets[] = {b.ip, podnet_gateway(net), a.ip, {htonl(INADDR_LOOPBACK)}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        CLEANUP(fd_close) int fd = socket_in(a.netns, SOCK_DGRAM, IPPROTO_ICMP);
        struct icmphdr echo = {.type = ICMP_ECHO, .un.echo.sequence = 1};
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr = targets[i]};

        assert_int_equal(sendto(fd, &echo, sizeof(echo), 0, (struct sockaddr *)&to, sizeof(to)),
                         sizeof(echo));
        assert_true(wait_fd(fd, POLLIN));
        assert_true(recv(fd, &echo, sizeof(echo), 0) > 0);
        assert_int_equal(echo.type, ICMP_ECHOREPLY);
    }
    destroy_net(net);
}

/* A second network stands for the outside: its one pod must see the host's address, not the pod's. */
static void check_outside(void)
{
    struct podnet_config outside = {.bridge = "outside0", .subnet = "192.168.77.0/24"};
    struct podnet *net = open_net(NULL), *out = NULL;
    CLEANUP(free) char *folder = mem_printf("%s/outside", run_dir);
    struct result a = add_ok(net, "a"), o;
    int server;

    outside.run_dir = folder;
    assert_int_equal(podnet_open(loop, &outside, &out, NULL), 0);
    o = add_ok(out, "o");
    server = listen_in(o.netns, INADDR_ANY, 80);
    assert_int_equal(reach(a.netns, ntohl(o.ip.s_addr), 80, server), ntohl(podnet_gateway(out).s_addr));
    close(server);
    destroy_net(out);
    destroy_net(net);
}

static void test_pods_reach_the_outside_with_the_hosts_address(void **state)
{
    (void)state;
    check_outside();
}

/* As Docker and ufw set it. NOLINTBEGIN(cert-env33-c) */
static void test_firewall_that_drops_forwarded_packets_lets_pods_through(void **state)
{
    (void)state;
    if (system("iptables -P FORWARD DROP 2>/dev/null") != 0) {
        print_message("iptables does not work here\n");
        skip();
    }
    check_outside();
    assert_int_not_equal(system("iptables -S FORWARD | grep -q berth"), 0); /* nothing is left */
    assert_int_equal(system("iptables -P FORWARD ACCEPT"), 0);
}
/* NOLINTEND(cert-env33-c) */

static void test_added_pod_is_given_again_and_removed_one_is_gone(void **state)
{
    struct podnet *net = open_net(NULL);
    struct result a = add_ok(net, "a"), again = add_ok(net, "a");

    (void)state;
    assert_int_equal(a.ip.s_addr, again.ip.s_addr);
    assert_non_null(podnet_get(net, "a"));
    remove_ok(net, "a");
    remove_ok(net, "a");
    assert_null(podnet_get(net, "a"));
    assert_int_not_equal(access(a.netns, F_OK), 0);
    again = add_ok(net, "a");
    assert_int_not_equal(a.ip.s_addr, again.ip.s_addr); /* the old one rests */
    destroy_net(net);
}

static void leave_ok(struct podnet *net, const char *id)
{
    struct result r = {0};

    podnet_leave(net, id, on_removed, &r);
    wait_called(&r);
    assert_int_equal(r.code, ERR_NONE);
    assert_null(podnet_get(net, id));
}

static void test_idle_namespace_is_another_pods_with_another_address(void **state)
{
    const struct podnet_config config = {.spares = 1};
    struct podnet *net = open_net(&config);
    struct result a = add_ok(net, "a"), b, c, *again, *other;
    const char *id;
    int server;

    (void)state;
    leave_ok(net, "a");
    b = add_ok(net, "b");
    c = add_ok(net, "c");
    again = streq(b.netns, a.netns) ? &b : &c;
    other = again == &b ? &c : &b;
    id = again == &b ? "b" : "c";
    assert_string_equal(again->netns, a.netns);
    assert_int_not_equal(again->ip.s_addr, a.ip.s_addr);
    server = listen_in(again->netns, INADDR_ANY, 80);
    assert_int_equal(reach(other->netns, ntohl(again->ip.s_addr), 80, server), ntohl(other->ip.s_addr));
    /* A daemon that starts anew knows its address. */
    podnet_free(net);
    net = open_net(&config);
    assert_non_null(podnet_get(net, id));
    assert_int_equal(podnet_get(net, id)->ip.s_addr, again->ip.s_addr);
    assert_string_equal(podnet_get(net, id)->netns, a.netns);
    /* With a socket in it, it goes. */
    leave_ok(net, id);
    assert_int_not_equal(access(a.netns, F_OK), 0);
    close(server);
    destroy_net(net);
}

static void test_calls_on_one_pod_are_done_in_their_order(void **state)
{
    struct podnet *net = open_net(NULL);
    struct result first = {0}, second = {0}, gone = {0}, refused = {0};

    (void)state;
    podnet_add(net, "a", on_added, &first);
    podnet_add(net, "a", on_added, &second);
    podnet_remove(net, "a", on_removed, &gone);
    podnet_add(net, "a", on_added, &refused);
    wait_called(&gone);
    wait_called(&refused);
    assert_int_equal(first.code, ERR_NONE);
    assert_int_equal(second.code, ERR_NONE);
    assert_true(second.called);
    assert_int_equal(refused.code, ERR_CONFLICT);
    assert_int_equal(count_pods(net), 0);
    destroy_net(net);
}

static void test_bad_ids_are_refused(void **state)
{
    static const char *const bad[] = {"", "../x", ".hidden", "a/b", "a b"};
    struct podnet *net = open_net(NULL);

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_int_equal(add(net, bad[i]).code, ERR_INVALID);
    destroy_net(net);
}

static void test_subnet_without_free_address_says_so(void **state)
{
    struct podnet *net = open_net(&(struct podnet_config){.subnet = "10.99.0.0/28"});
    struct result r;
    char id[8];

    (void)state;
    for (int i = 0; i < 13; i++) {
        (void)snprintf(id, sizeof(id), "p%d", i);
        add_ok(net, id);
    }
    r = add(net, "more");
    assert_int_equal(r.code, ERR_LIMIT);
    assert_string_equal(r.msg, "all 13 addresses of the pod network are taken");
    remove_ok(net, "p3");
    add_ok(net, "more");
    destroy_net(net);
}

static void test_subnet_that_the_host_uses_is_refused_or_avoided(void **state)
{
    struct podnet *first = open_net(NULL), *second = NULL;
    CLEANUP(free) char *folder = mem_printf("%s/second", run_dir);
    struct podnet_config config = {.bridge = "second0", .run_dir = folder, .subnet = "10.88.128.0/24"};
    struct err err = {0};

    (void)state;
    assert_int_equal(podnet_open(loop, &config, &second, &err), -1);
    assert_int_equal(err.code, ERR_CONFLICT);
    assert_string_equal(err.msg, "subnet 10.88.128.0/24: the host has a route to 10.88.0.0/16 by berth0");
    config.subnet = NULL;
    assert_int_equal(podnet_open(loop, &config, &second, &err), 0);
    assert_string_equal(podnet_mode_text(second), "bridge second0, 10.89.0.0/16, NAT by nf_tables");
    destroy_net(second);
    destroy_net(first);
}

/* ---- ports ---- */

static void check_published(struct podnet *net)
{
    struct result a = add_ok(net, "a"), b = add_ok(net, "b");
    struct podnet_port port = tcp(8080, 80);
    uint32_t gateway = ntohl(podnet_gateway(net).s_addr);
    int server = listen_in(a.netns, INADDR_ANY, 80), fd;

    publish_ok(net, "a", port);
    publish_ok(net, "a", port); /* again is fine */
    reach(NULL, INADDR_LOOPBACK, 8080, server);
    reach(NULL, gateway, 8080, server);
    reach(b.netns, gateway, 8080, server);
    reach(a.netns, gateway, 8080, server); /* its own */
    remove_ok(net, "a");
    assert_int_equal(try_connect(NULL, INADDR_LOOPBACK, 8080, &fd), ECONNREFUSED);
    close(server);
}

static void test_published_port_is_reached_from_everywhere(void **state)
{
    struct podnet *net = open_net(NULL);

    (void)state;
    check_published(net);
    destroy_net(net);
}

static void test_published_port_is_reached_through_the_proxy(void **state)
{
    struct podnet *net = open_net(&(struct podnet_config){.proxy = true});

    (void)state;
    check_published(net);
    destroy_net(net);
}

static void test_proxy_without_descriptors_rests_and_goes_on(void **state)
{
    struct podnet *net = open_net(&(struct podnet_config){.proxy = true});
    struct result a = add_ok(net, "a");
    int server = listen_in(a.netns, INADDR_ANY, 80), client = socket_in(NULL, SOCK_STREAM, 0), none;
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(8080), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct rlimit limit, low;
    int64_t start;

    (void)state;
    publish_ok(net, "a", tcp(8080, 80));
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = dup(client);
    low = (struct rlimit){(rlim_t)none, limit.rlim_max};
    close(none);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    (void)connect(client, (struct sockaddr *)&to, sizeof(to));
    start = clock_monotonic();
    for (int i = 0; i < 4; i++)
        assert_int_equal(loop_turn(loop, 1000, NULL), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_true(clock_monotonic() - start > 150 * NSEC_PER_MSEC);
    talk(client, server);
    close(server);
    destroy_net(net);
}

/* Turns the loop until it has nothing to do; false: it never rests. */
static bool comes_to_rest(void)
{
    int64_t end = clock_monotonic() + 10 * NSEC_PER_SEC, before;

    do {
        before = clock_monotonic();
        assert_int_equal(loop_turn(loop, 100, NULL), 0);
    } while (clock_monotonic() - before < 90 * NSEC_PER_MSEC && clock_monotonic() < end);
    return clock_monotonic() < end;
}

/* The pod has ended its side and takes nothing; the client has sent more than the pipe holds, and ended. */
static void test_proxy_rests_while_a_pod_takes_nothing(void **state)
{
    struct podnet *net = open_net(&(struct podnet_config){.proxy = true});
    struct result a = add_ok(net, "a");
    int server = listen_in(a.netns, INADDR_ANY, 80), client, pod, left = 1;
    char block[4096] = {0};
    size_t sent = 0, got = 0;
    ssize_t n;

    (void)state;
    publish_ok(net, "a", tcp(8080, 80));
    assert_int_equal(try_connect(NULL, INADDR_LOOPBACK, 8080, &client), 0);
    assert_true(wait_fd(server, POLLIN));
    pod = accept4(server, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_int_equal(shutdown(pod, SHUT_WR), 0);
    do { /* until all is full */
        while ((n = send(client, block, sizeof(block), MSG_NOSIGNAL)) > 0)
            sent += (size_t)n;
        assert_true(comes_to_rest());
    } while (send(client, block, 1, MSG_NOSIGNAL) == 1 && ++sent);
    while (left > 0) { /* and the last byte has left the client */
        while ((n = recv(pod, block, sizeof(block), 0)) > 0 && ioctl(client, SIOCOUTQ, &left) == 0 &&
               left > 0)
            got += (size_t)n;
        got += n > 0 ? (size_t)n : 0;
        assert_true(comes_to_rest());
        assert_int_equal(ioctl(client, SIOCOUTQ, &left), 0);
    }
    assert_int_equal(shutdown(client, SHUT_WR), 0);
    assert_true(comes_to_rest());
    while (wait_fd(pod, POLLIN) && (n = recv(pod, block, sizeof(block), 0)) != 0)
        got += n > 0 ? (size_t)n : 0;
    assert_int_equal(got, sent); /* it goes on where it was */
    close(pod);
    close(client);
    close(server);
    destroy_net(net);
}

static void test_port_of_one_address_is_not_on_the_others(void **state)
{
    struct podnet *net = open_net(NULL);
    struct result a = add_ok(net, "a");
    struct podnet_port port = tcp(8080, 80);
    int server = listen_in(a.netns, INADDR_ANY, 80), fd;

    (void)state;
    port.host_ip.s_addr = htonl(INADDR_LOOPBACK);
    publish_ok(net, "a", port);
    reach(NULL, INADDR_LOOPBACK, 8080, server);
    assert_int_equal(try_connect(NULL, ntohl(podnet_gateway(net).s_addr), 8080, &fd), ECONNREFUSED);
    close(server);
    destroy_net(net);
}

static void test_udp_port_is_published(void **state)
{
    struct podnet *net = open_net(NULL);
    struct result a = add_ok(net, "a");
    struct podnet_port port = {.proto = PODNET_UDP, .host_port = 5353, .pod_port = 53};
    CLEANUP(fd_close) int server = socket_in(a.netns, SOCK_DGRAM, 0);
    CLEANUP(fd_close) int client = socket_in(NULL, SOCK_DGRAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(53)};
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(5353), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char text[8];

    (void)state;
    assert_int_equal(bind(server, (struct sockaddr *)&at, sizeof(at)), 0);
    publish_ok(net, "a", port);
    assert_int_equal(sendto(client, "hi", 2, 0, (struct sockaddr *)&to, sizeof(to)), 2);
    assert_true(wait_fd(server, POLLIN));
    assert_int_equal(recv(server, text, sizeof(text), 0), 2);
    destroy_net(net);
}

static void test_taken_port_names_who_has_it(void **state)
{
    struct podnet *net = open_net(NULL);
    int server = listen_in(NULL, INADDR_LOOPBACK, 9090);
    struct podnet_port port = tcp(9090, 80), other = tcp(9091, 80);
    char expected[100];
    struct err err = {0};

    (void)state;
    add_ok(net, "a");
    add_ok(net, "b");
    (void)snprintf(expected, sizeof(expected), "host port 9090/tcp is taken by process %d (", getpid());
    assert_int_equal(podnet_publish(net, "a", &port, &err), -1);
    assert_int_equal(err.code, ERR_EXISTS);
    assert_true(starts_with(err.msg, expected));
    close(server);
    publish_ok(net, "a", other);
    assert_int_equal(podnet_publish(net, "b", &other, &err), -1);
    assert_int_equal(err.code, ERR_EXISTS);
    assert_string_equal(err.msg, "host port 9091/tcp is taken by pod 'a'");
    destroy_net(net);
}

/* What root in a pod can do: a datagram to 127.0.0.1:7070, put on the wire to the bridge by hand. */
static void send_to_loopback(const char *netns, struct in_addr from, uint32_t gateway)
{
    struct {
        struct iphdr ip;
        struct udphdr udp;
        char text[4];
    } packet = {
        .ip = {.version = 4, .ihl = 5, .tot_len = htons(32), .ttl = 64, .protocol = IPPROTO_UDP},
        .udp = {.source = htons(1), .dest = htons(7070), .len = htons(12)},
        .text = "psst",
    };
    struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_IP), .sll_halen = 6};
    struct ifreq eth0 = {.ifr_name = "eth0"};
    CLEANUP(fd_close) int ns = open(netns, O_RDONLY | O_CLOEXEC);
    CLEANUP(fd_close) int fd = -1;
    const uint16_t *word = (const void *)&packet.ip;
    uint32_t sum = 0;

    assert_int_equal(setns(ns, CLONE_NEWNET), 0);
    fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(setns(home, CLONE_NEWNET), 0);
    assert_int_equal(ioctl(fd, SIOCGIFINDEX, &eth0), 0);
    to.sll_ifindex = eth0.ifr_ifindex;
    to.sll_addr[0] = 2;
    memcpy(to.sll_addr + 2, &(uint32_t){htonl(gateway)}, 4); /* the bridge's address says the same */
    packet.ip.saddr = from.s_addr;
    packet.ip.daddr = htonl(INADDR_LOOPBACK);
    for (size_t i = 0; i < sizeof(packet.ip) / 2; i++)
        sum += word[i];
    packet.ip.check = (uint16_t) ~(sum + (sum >> 16));
    assert_int_equal(sendto(fd, &packet, sizeof(packet), 0, (struct sockaddr *)&to, sizeof(to)),
                     sizeof(packet));
}

static void test_pod_cannot_reach_the_hosts_loopback(void **state)
{
    struct podnet *net = open_net(NULL);
    struct result a = add_ok(net, "a");
    uint32_t gateway = ntohl(podnet_gateway(net).s_addr);
    CLEANUP(fd_close) int server = socket_in(NULL, SOCK_DGRAM, 0);
    CLEANUP(fd_close) int nf = nl_open(NETLINK_NETFILTER, NULL);
    struct sockaddr_in at = {
        .sin_family = AF_INET, .sin_port = htons(7070), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct pollfd p = {server, POLLIN, 0};

    (void)state;
    assert_int_equal(bind(server, (struct sockaddr *)&at, sizeof(at)), 0);
    send_to_loopback(a.netns, a.ip, gateway);
    assert_int_equal(poll(&p, 1, 100), 0);
    /* It is the table that holds it off. */
    assert_int_equal(nft_table_del(nf, "berth0", NULL), 0);
    send_to_loopback(a.netns, a.ip, gateway);
    assert_int_equal(poll(&p, 1, 3000), 1);
    destroy_net(net);
}

/* ---- dials ---- */

static void test_dial_reaches_a_listener_on_the_pods_loopback(void **state)
{
    struct podnet *net = open_net(NULL);
    struct result a = add_ok(net, "a"), r = {0}, none = {0}, nobody = {0}, cancelled = {0};
    int server = listen_in(a.netns, INADDR_LOOPBACK, 8888);

    (void)state;
    podnet_dial(net, "a", 8888, on_dialed, &r);
    podnet_dial(net, "a", 8889, on_dialed, &none);
    podnet_dial(net, "x", 8888, on_dialed, &nobody);
    podnet_dial_cancel(podnet_dial(net, "a", 8888, on_dialed, &cancelled));
    assert_false(r.called);
    wait_called(&r);
    wait_called(&none);
    wait_called(&nobody);
    assert_int_equal(r.code, ERR_NONE);
    assert_int_equal(talk(r.fd, server), INADDR_LOOPBACK);
    assert_int_equal(none.code, ERR_UNAVAILABLE);
    assert_string_equal(none.msg, "connect to 127.0.0.1:8889 in pod 'a': Connection refused");
    assert_int_equal(nobody.code, ERR_NOT_FOUND);
    assert_false(cancelled.called);
    close(server);
    destroy_net(net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pods_reach_each_other),
        cmocka_unit_test(test_pods_ping_each_other_and_the_host),
        cmocka_unit_test(test_pods_reach_the_outside_with_the_hosts_address),
        cmocka_unit_test(test_firewall_that_drops_forwarded_packets_lets_pods_through),
        cmocka_unit_test(test_added_pod_is_given_again_and_removed_one_is_gone),
        cmocka_unit_test(test_idle_namespace_is_another_pods_with_another_address),
        cmocka_unit_test(test_calls_on_one_pod_are_done_in_their_order),
        cmocka_unit_test(test_bad_ids_are_refused),
        cmocka_unit_test(test_subnet_without_free_address_says_so),
        cmocka_unit_test(test_subnet_that_the_host_uses_is_refused_or_avoided),
        cmocka_unit_test(test_published_port_is_reached_from_everywhere),
        cmocka_unit_test(test_published_port_is_reached_through_the_proxy),
        cmocka_unit_test(test_proxy_without_descriptors_rests_and_goes_on),
        cmocka_unit_test(test_proxy_rests_while_a_pod_takes_nothing),
        cmocka_unit_test(test_port_of_one_address_is_not_on_the_others),
        cmocka_unit_test(test_udp_port_is_published),
        cmocka_unit_test(test_taken_port_names_who_has_it),
        cmocka_unit_test(test_pod_cannot_reach_the_hosts_loopback),
        cmocka_unit_test(test_dial_reaches_a_listener_on_the_pods_loopback),
    };

    return BOX_RUN(tests);
}
