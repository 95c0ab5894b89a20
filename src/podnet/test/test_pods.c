/* Pods in real namespaces. All of it happens in a network and mount namespace of this test's own, so the
 * machine's network is not touched and no packet leaves. Skipped where that is not allowed. */
#include "base/clock.h"
#include "base/file.h"
#include "base/test/test.h"
#include "loop/loop.h"
#include "podnet/link.h"
#include "podnet/netlink.h"
#include "podnet/netns.h"
#include "podnet/nft.h"
#include "podnet/podnet.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <net/ethernet.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <netpacket/packet.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>

static char run_dir[] = "/tmp/berth-podnet-XXXXXX";
static int home; /* the namespace that stands for the host */
static struct loop *loop;

/* ---- helpers ---- */

static struct podnet *open_net(const struct podnet_config *more)
{
    struct podnet_config config = more ? *more : (struct podnet_config){0};
    struct podnet *net = NULL;
    struct err err = {0};

    config.run_dir = run_dir;
    if (podnet_open(loop, &config, &net, &err) < 0)
        fail_msg("%s", err.msg);
    return net;
}

static void destroy_net(struct podnet *net)
{
    struct err err = {0};

    if (podnet_destroy(net, &err) < 0)
        fail_msg("%s", err.msg);
    podnet_free(net);
}

struct result {
    bool called;
    struct in_addr ip;
    char netns[256];
    int fd;
    enum err_code code;
    char msg[ERR_MSG_MAX];
};

static void take_err(struct result *r, const struct err *err)
{
    r->called = true;
    r->code = err ? err->code : ERR_NONE;
    (void)snprintf(r->msg, sizeof(r->msg), "%s", err ? err->msg : "");
}

static void on_added(void *arg, const struct podnet_pod *pod, const struct err *err)
{
    struct result *r = arg;

    take_err(r, err);
    if (pod) {
        r->ip = pod->ip;
        (void)snprintf(r->netns, sizeof(r->netns), "%s", pod->netns ? pod->netns : "");
    }
}

static void on_removed(void *arg, const struct err *err)
{
    take_err(arg, err);
}

static void on_dialed(void *arg, int fd, const struct err *err)
{
    take_err(arg, err);
    ((struct result *)arg)->fd = fd;
}

static void wait_called(const struct result *r)
{
    while (!r->called)
        assert_int_equal(loop_turn(loop, 20000, NULL), 0);
}

static struct result add(struct podnet *net, const char *id)
{
    struct result r = {0};

    podnet_add(net, id, on_added, &r);
    assert_false(r.called);
    wait_called(&r);
    return r;
}

static struct result add_ok(struct podnet *net, const char *id)
{
    struct result r = add(net, id);

    if (r.code)
        fail_msg("%s", r.msg);
    return r;
}

static void remove_ok(struct podnet *net, const char *id)
{
    struct result r = {0};

    podnet_remove(net, id, on_removed, &r);
    wait_called(&r);
    if (r.code)
        fail_msg("%s", r.msg);
}

/* The loop turns while we wait: the proxy is in it. */
static bool wait_fd(int fd, short events)
{
    for (int i = 0; i < 300; i++) {
        struct pollfd p = {fd, events, 0};

        if (poll(&p, 1, 0) > 0)
            return true;
        assert_int_equal(loop_turn(loop, 10, NULL), 0);
    }
    return false;
}

static int socket_in(const char *netns, int type, int proto)
{
    int fd;

    if (netns) {
        CLEANUP(fd_close) int ns = open(netns, O_RDONLY | O_CLOEXEC);

        assert_true(ns >= 0);
        assert_int_equal(setns(ns, CLONE_NEWNET), 0);
    }
    fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, proto);
    assert_int_equal(setns(home, CLONE_NEWNET), 0);
    assert_true(fd >= 0);
    return fd;
}

static int listen_in(const char *netns, uint32_t ip, uint16_t port)
{
    int fd = socket_in(netns, SOCK_STREAM, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ip)};

    assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, 16), 0);
    return fd;
}

/* 0 or the errno with which it failed. */
static int try_connect(const char *netns, uint32_t ip, uint16_t port, int *ret)
{
    int fd = socket_in(netns, SOCK_STREAM, 0), sys = 0;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(ip)};
    socklen_t len = sizeof(sys);

    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS)
        sys = errno;
    else if (!wait_fd(fd, POLLOUT))
        sys = ETIMEDOUT;
    else
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &sys, &len);
    if (sys)
        close(fd);
    else
        *ret = fd;
    return sys;
}

/* A word goes over, and the same comes back in capitals. Returns the client's address as the server saw it.
 */
static uint32_t talk(int client, int server)
{
    struct sockaddr_in from;
    socklen_t len = sizeof(from);
    char text[16] = "";
    int peer;

    assert_true(wait_fd(server, POLLIN));
    peer = accept4(server, (struct sockaddr *)&from, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(peer >= 0);
    assert_int_equal(write(client, "hello", 5), 5);
    assert_true(wait_fd(peer, POLLIN));
    assert_int_equal(read(peer, text, sizeof(text)), 5);
    assert_int_equal(write(peer, "HELLO", 5), 5);
    assert_true(wait_fd(client, POLLIN));
    assert_int_equal(read(client, text, sizeof(text)), 5);
    assert_memory_equal(text, "HELLO", 5);
    close(peer);
    close(client);
    return ntohl(from.sin_addr.s_addr);
}

static uint32_t reach(const char *netns, uint32_t ip, uint16_t port, int server)
{
    int fd = -1, sys = try_connect(netns, ip, port, &fd);

    if (sys)
        fail_msg("connect from %s to %08x: %s", netns ? netns : "host", ip, strerror(sys));
    return talk(fd, server);
}

static struct podnet_port tcp(uint16_t host_port, uint16_t pod_port)
{
    return (struct podnet_port){.proto = PODNET_TCP, .host_port = host_port, .pod_port = pod_port};
}

static void publish_ok(struct podnet *net, const char *id, struct podnet_port port)
{
    struct err err = {0};

    if (podnet_publish(net, id, &port, &err) < 0)
        fail_msg("%s", err.msg);
}

static size_t count_links(void)
{
    struct links links = {0};
    int rt = nl_open(NETLINK_ROUTE, NULL);
    size_t n;

    assert_int_equal(link_list(rt, &links, NULL), 0);
    n = links.len;
    vec_done(&links);
    close(rt);
    return n;
}

static size_t count_files(const char *name)
{
    CLEANUP(free) char *path = mem_printf("%s/%s", run_dir, name);
    DIR *dir = opendir(path);
    size_t n = 0;

    if (!dir)
        return 0;
    for (struct dirent *e; (e = readdir(dir));)
        n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

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
    assert_int_equal(podnet_len(net), 0);
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
    podnet_unpublish(net, "a", &port);
    assert_int_equal(try_connect(NULL, INADDR_LOOPBACK, 8080, &fd), ECONNREFUSED);
    publish_ok(net, "a", port);
    reach(NULL, INADDR_LOOPBACK, 8080, server);
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
    assert_int_equal(podnet_port_free(net, &port, &err), 0);
    publish_ok(net, "a", other);
    assert_int_equal(podnet_publish(net, "b", &other, &err), -1);
    assert_int_equal(err.code, ERR_EXISTS);
    assert_string_equal(err.msg, "host port 9091/tcp is taken by pod 'a'");
    assert_int_equal(podnet_port_free(net, &other, &err), -1);
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

/* ---- many, again, and after ---- */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

#define MANY 200

static void test_two_hundred_pods_come_and_go(void **state)
{
    struct podnet *net = open_net(NULL);
    static struct result r[MANY];
    static int64_t adds[MANY], removes[MANY];
    int64_t start, all;
    char id[16];

    (void)state;
    for (int i = 0; i < MANY; i++) { /* one by one, for the times */
        (void)snprintf(id, sizeof(id), "pod-%d", i);
        start = clock_monotonic();
        r[i] = add_ok(net, id);
        adds[i] = clock_monotonic() - start;
    }
    assert_int_equal(podnet_len(net), MANY);
    for (int i = 0; i < MANY; i++) {
        (void)snprintf(id, sizeof(id), "pod-%d", i);
        start = clock_monotonic();
        remove_ok(net, id);
        removes[i] = clock_monotonic() - start;
    }
    qsort(adds, MANY, sizeof(adds[0]), by_value);
    qsort(removes, MANY, sizeof(removes[0]), by_value);
    start = clock_monotonic();
    for (int i = 0; i < MANY; i++) { /* all at once */
        (void)snprintf(id, sizeof(id), "pod-%d", i);
        r[i] = (struct result){0};
        podnet_add(net, id, on_added, &r[i]);
    }
    for (int i = 0; i < MANY; i++) {
        wait_called(&r[i]);
        assert_int_equal(r[i].code, ERR_NONE);
    }
    all = clock_monotonic() - start;
    print_message("add p50 %.2f p99 %.2f ms, remove p50 %.2f p99 %.2f ms, %d at once %.0f ms\n",
                  (double)adds[MANY / 2] / 1e6, (double)adds[MANY * 99 / 100] / 1e6,
                  (double)removes[MANY / 2] / 1e6, (double)removes[MANY * 99 / 100] / 1e6, MANY,
                  (double)all / 1e6);
    destroy_net(net);
}

static void test_everything_is_found_again_after_a_restart(void **state)
{
    struct podnet *net = open_net(NULL);
    struct result a = add_ok(net, "a"), b = add_ok(net, "b"), c;
    int server = listen_in(a.netns, INADDR_ANY, 80);
    struct podnet_port port = {0};
    const char *id = NULL;
    size_t at = 0;

    (void)state;
    publish_ok(net, "a", tcp(8080, 80));
    podnet_free(net);
    reach(NULL, INADDR_LOOPBACK, 8080, server); /* also while nobody is there */

    net = open_net(NULL);
    assert_int_equal(podnet_len(net), 2);
    assert_int_equal(podnet_get(net, "a")->ip.s_addr, a.ip.s_addr);
    assert_string_equal(podnet_get(net, "b")->netns, b.netns);
    assert_true(podnet_next_port(net, &at, &id, &port));
    assert_string_equal(id, "a");
    assert_int_equal(port.host_port, 8080);
    assert_int_equal(port.pod_port, 80);
    assert_false(podnet_next_port(net, &at, &id, &port));
    publish_ok(net, "a", tcp(8080, 80));
    reach(b.netns, ntohl(a.ip.s_addr), 80, server);
    reach(NULL, INADDR_LOOPBACK, 8080, server);
    c = add_ok(net, "c");
    assert_int_not_equal(c.ip.s_addr, a.ip.s_addr);
    assert_int_not_equal(c.ip.s_addr, b.ip.s_addr);
    close(server);
    destroy_net(net);
}

static void test_strays_are_removed_at_start(void **state)
{
    CLEANUP(free) char *pin = mem_printf("%s/netns/stray", run_dir);
    struct podnet *net = open_net(NULL);
    struct link_pod link = {0};
    int rt = nl_open(NETLINK_ROUTE, NULL), ns, nl;
    size_t links;

    (void)state;
    links = count_links();
    /* A daemon that died in the middle of podnet_add: link, no alias. */
    link = (struct link_pod){(int)if_nametoindex("berth0"), 0x0a580707, 1500};
    assert_int_equal(netns_make(home, pin, &ns, &nl, NULL), 0);
    assert_int_equal(link_pod_add(rt, ns, &link, NULL), 0);
    assert_int_equal(count_links(), links + 1);
    close(ns);
    close(nl);
    close(rt);
    podnet_free(net);
    net = open_net(NULL);
    assert_int_equal(podnet_len(net), 0);
    assert_int_equal(count_links(), links);
    assert_int_equal(count_files("netns"), 0);
    destroy_net(net);
}

static void test_destroy_leaves_nothing(void **state)
{
    size_t before = count_links();
    struct podnet *net = open_net(NULL);
    struct nft_ports ports = {0};
    int nf = nl_open(NETLINK_NETFILTER, NULL);

    (void)state;
    add_ok(net, "a");
    publish_ok(net, "a", tcp(8080, 80));
    assert_int_equal(nft_ports_list(nf, "berth0", &ports, NULL), 0);
    assert_int_equal(ports.len, 1);
    destroy_net(net);
    ports.len = 0;
    assert_int_equal(nft_ports_list(nf, "berth0", &ports, NULL), 0);
    assert_int_equal(ports.len, 0);
    assert_int_equal(count_links(), before);
    assert_int_equal(count_files("netns"), 0);
    vec_done(&ports);
    close(nf);
}

/* ---- other modes ---- */

static void test_slirp_pod_has_a_network_and_ports(void **state)
{
    struct podnet_config config = {.mode = PODNET_SLIRP, .run_dir = run_dir};
    struct podnet *net = NULL;
    struct result a, r = {0};
    struct err err = {0};
    int server;

    (void)state;
    if (podnet_open(loop, &config, &net, &err) < 0) {
        print_message("slirp4netns: %s\n", err.msg);
        skip();
    }
    assert_string_equal(podnet_mode_text(net), "slirp4netns");
    a = add_ok(net, "a");
    assert_int_equal(ntohl(a.ip.s_addr), 0x0a000264);
    server = listen_in(a.netns, INADDR_ANY, 80);
    publish_ok(net, "a", tcp(8080, 80));
    reach(NULL, INADDR_LOOPBACK, 8080, server);
    podnet_dial(net, "a", 80, on_dialed, &r);
    wait_called(&r);
    talk(r.fd, server);
    podnet_free(net); /* restart: the same slirp4netns goes on */
    net = open_net(&config);
    assert_int_equal(podnet_len(net), 1);
    publish_ok(net, "a", tcp(8080, 80));
    reach(NULL, INADDR_LOOPBACK, 8080, server);
    close(server);
    remove_ok(net, "a");
    assert_int_equal(count_files("slirp"), 0);
    assert_int_equal(count_files("netns"), 0);
    podnet_free(net);
}

static void test_host_mode_gives_the_machines_network(void **state)
{
    struct podnet *net = open_net(&(struct podnet_config){.mode = PODNET_HOST});
    struct result a = add_ok(net, "a");
    struct podnet_port same = tcp(8080, 8080), differs = tcp(8081, 80);
    struct err err = {0};

    (void)state;
    assert_string_equal(a.netns, "");
    assert_int_equal(ntohl(a.ip.s_addr), INADDR_LOOPBACK); /* this namespace has no other */
    assert_int_equal(podnet_publish(net, "a", &same, &err), 0);
    assert_int_equal(podnet_publish(net, "a", &differs, &err), -1);
    assert_int_equal(err.code, ERR_UNSUPPORTED);
    remove_ok(net, "a");
    podnet_free(net);
}

static void in_child_without_rights(void)
{
    struct podnet_config config = {.run_dir = run_dir, .slirp_path = "/nonexistent"};
    struct podnet *net = NULL;
    struct err err = {0};

    if (setgid(65534) < 0 || setuid(65534) < 0)
        _exit(2);
    loop = loop_new();
    if (podnet_open(loop, &config, &net, &err) < 0)
        _exit(3);
    _exit(podnet_mode(net) == PODNET_HOST && strstr(podnet_mode_text(net), "no bridge: ") ? 0 : 4);
}

static void test_without_rights_it_is_the_hosts_network_and_says_why(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    assert_int_equal(chmod(run_dir, 0777), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        in_child_without_rights();
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* ---- */

static int lo_up(void)
{
    int rt = nl_open(NETLINK_ROUTE, NULL), status = rt < 0 ? -1 : link_lo_up(rt, NULL);

    fd_close(rt);
    return status;
}

static void remove_run_dir(void)
{
    static const char *const folders[] = {"netns", "slirp", "outside", "second"};

    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        CLEANUP(free) char *path = mem_printf("%s/%s", run_dir, folders[i]);

        rmdir(path);
    }
    if (rmdir(run_dir) < 0)
        print_message("left: %s\n", run_dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pods_reach_each_other),
        cmocka_unit_test(test_pods_ping_each_other_and_the_host),
        cmocka_unit_test(test_pods_reach_the_outside_with_the_hosts_address),
        cmocka_unit_test(test_firewall_that_drops_forwarded_packets_lets_pods_through),
        cmocka_unit_test(test_added_pod_is_given_again_and_removed_one_is_gone),
        cmocka_unit_test(test_calls_on_one_pod_are_done_in_their_order),
        cmocka_unit_test(test_bad_ids_are_refused),
        cmocka_unit_test(test_subnet_without_free_address_says_so),
        cmocka_unit_test(test_subnet_that_the_host_uses_is_refused_or_avoided),
        cmocka_unit_test(test_published_port_is_reached_from_everywhere),
        cmocka_unit_test(test_published_port_is_reached_through_the_proxy),
        cmocka_unit_test(test_port_of_one_address_is_not_on_the_others),
        cmocka_unit_test(test_udp_port_is_published),
        cmocka_unit_test(test_taken_port_names_who_has_it),
        cmocka_unit_test(test_pod_cannot_reach_the_hosts_loopback),
        cmocka_unit_test(test_dial_reaches_a_listener_on_the_pods_loopback),
        cmocka_unit_test(test_two_hundred_pods_come_and_go),
        cmocka_unit_test(test_everything_is_found_again_after_a_restart),
        cmocka_unit_test(test_strays_are_removed_at_start),
        cmocka_unit_test(test_destroy_leaves_nothing),
        cmocka_unit_test(test_slirp_pod_has_a_network_and_ports),
        cmocka_unit_test(test_host_mode_gives_the_machines_network),
        cmocka_unit_test(test_without_rights_it_is_the_hosts_network_and_says_why),
    };
    int failed;

    if (unshare(CLONE_NEWNET | CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        lo_up() < 0) {
        printf("SKIPPED: own network namespace: %s\n", strerror(errno));
        return 77;
    }
    home = netns_here(NULL);
    loop = loop_new();
    if (home < 0 || !loop || !mkdtemp(run_dir))
        return 1;
    failed = cmocka_run_group_tests(tests, NULL, NULL);
    loop_free(loop);
    close(home);
    remove_run_dir();
    return failed;
}
