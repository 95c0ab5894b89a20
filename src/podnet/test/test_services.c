/* Services in real namespaces: who is reached by their addresses, and what is left of them. */
#include "podnet/netlink.h"
#include "podnet/nft_services.h"
#include "podnet/test/box.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#define SERVICE_IP 0x0a600014 /* 10.96.0.20 */
#define TRIES      40         /* one of two is missed in all of them once in 10^12 runs */

struct fixture {
    struct podnet *net;
    struct result a, b, c;
    int servers[2];
    struct podnet_endpoint endpoints[2];
    struct podnet_service service;
};

static void setup(struct fixture *f)
{
    *f = (struct fixture){.net = open_net(NULL)};
    f->a = add_ok(f->net, "a");
    f->b = add_ok(f->net, "b");
    f->c = add_ok(f->net, "c");
    f->servers[0] = listen_in(f->a.netns, INADDR_ANY, 80);
    f->servers[1] = listen_in(f->b.netns, INADDR_ANY, 81);
    f->endpoints[0] = (struct podnet_endpoint){f->a.ip, 80};
    f->endpoints[1] = (struct podnet_endpoint){f->b.ip, 81};
    f->service = (struct podnet_service){.ip.s_addr = htonl(SERVICE_IP),
                                         .proto = PODNET_TCP,
                                         .port = 8080,
                                         .node_port = 30080,
                                         .endpoints = f->endpoints,
                                         .len = 2};
}

static void teardown(struct fixture *f)
{
    close(f->servers[0]);
    close(f->servers[1]);
    destroy_net(f->net);
}

static void serve(struct fixture *f)
{
    struct err err = {0};

    if (podnet_services(f->net, &f->service, 1, NULL, NULL, &err) < 0)
        fail_msg("%s", err.msg);
}

/* Which of the two servers a connection came to. */
static int whom(struct fixture *f, const char *netns, uint32_t ip, uint16_t port)
{
    struct pollfd polls[2] = {{f->servers[0], POLLIN, 0}, {f->servers[1], POLLIN, 0}};
    int fd = -1, which;

    assert_int_equal(try_connect(netns, ip, port, &fd), 0);
    assert_int_equal(poll(polls, 2, 10000), 1);
    which = polls[1].revents ? 1 : 0;
    talk(fd, f->servers[which]);
    close(fd);
    return which;
}

static void check_both_reached(struct fixture *f, const char *netns, uint32_t ip, uint16_t port)
{
    unsigned seen = 0;

    for (int i = 0; i < TRIES && seen != 3; i++)
        seen |= 1u << whom(f, netns, ip, port);
    assert_int_equal(seen, 3);
}

static void test_connections_go_to_all_endpoints(void **state)
{
    struct fixture f;

    (void)state;
    setup(&f);
    serve(&f);
    check_both_reached(&f, f.c.netns, SERVICE_IP, 8080);
    check_both_reached(&f, f.a.netns, SERVICE_IP, 8080); /* itself among them */
    check_both_reached(&f, NULL, INADDR_LOOPBACK, 30080);
    check_both_reached(&f, f.c.netns, ntohl(podnet_gateway(f.net).s_addr), 30080);
    teardown(&f);
}

static void test_sticky_service_keeps_to_one_endpoint(void **state)
{
    struct fixture f;
    int first;

    (void)state;
    setup(&f);
    f.service.sticky = true;
    serve(&f);
    first = whom(&f, f.c.netns, SERVICE_IP, 8080);
    for (int i = 0; i < TRIES; i++)
        assert_int_equal(whom(&f, f.c.netns, SERVICE_IP, 8080), first);
    teardown(&f);
}

static void test_changed_endpoints_are_followed(void **state)
{
    struct fixture f;
    int fd;

    (void)state;
    setup(&f);
    serve(&f);
    f.service.endpoints = &f.endpoints[1];
    f.service.len = 1;
    serve(&f);
    for (int i = 0; i < 10; i++)
        assert_int_equal(whom(&f, f.c.netns, SERVICE_IP, 8080), 1);
    f.service.len = 0;
    serve(&f);
    assert_int_equal(try_connect(f.c.netns, SERVICE_IP, 8080, &fd), ECONNREFUSED);
    assert_int_equal(try_connect(NULL, INADDR_LOOPBACK, 30080, &fd), ECONNREFUSED);
    teardown(&f);
}

static void test_services_outlive_the_daemon_and_are_removed_with_the_last(void **state)
{
    struct fixture f;
    struct err err = {0};
    int nf, fd;

    (void)state;
    setup(&f);
    serve(&f);
    podnet_free(f.net);
    check_both_reached(&f, f.c.netns, SERVICE_IP, 8080);
    f.net = open_net(NULL);
    nf = nl_open(NETLINK_NETFILTER, &err);
    assert_int_equal(nft_services_whole(nf, "berth0", NULL), 1);
    assert_int_equal(podnet_services(f.net, NULL, 0, NULL, NULL, &err), 0);
    assert_int_equal(nft_services_whole(nf, "berth0", NULL), 0);
    assert_int_equal(try_connect(NULL, INADDR_LOOPBACK, 30080, &fd), ECONNREFUSED);
    close(nf);
    teardown(&f);
}

static void on_refused(void *arg, size_t at, const struct err *err)
{
    struct result *r = arg;

    assert_int_equal(at, 0);
    r->called = true;
    r->code = err->code;
    snprintf(r->msg, sizeof(r->msg), "%s", err->msg);
}

static void test_taken_node_port_is_told_and_left_alone(void **state)
{
    struct fixture f;
    struct result told = {0};
    struct err err = {0};
    int other;

    (void)state;
    setup(&f);
    other = listen_in(NULL, INADDR_ANY, 30080);
    assert_int_equal(podnet_services(f.net, &f.service, 1, on_refused, &told, &err), 0);
    assert_true(told.called);
    assert_int_equal(told.code, ERR_EXISTS);
    assert_non_null(strstr(told.msg, "node port 30080/tcp is taken"));
    reach(NULL, INADDR_LOOPBACK, 30080, other);
    check_both_reached(&f, f.c.netns, SERVICE_IP, 8080);
    close(other);
    teardown(&f);
}

static void test_many_services_fit(void **state)
{
    static struct podnet_service all[PODNET_SERVICES_MAX + 1];
    struct fixture f;
    struct err err = {0};

    (void)state;
    setup(&f);
    for (size_t i = 0; i < ARRAY_LEN(all); i++) {
        all[i] = f.service;
        all[i].ip.s_addr = htonl(SERVICE_IP + (uint32_t)i);
        all[i].node_port = 0;
    }
    if (podnet_services(f.net, all, PODNET_SERVICES_MAX, NULL, NULL, &err) < 0)
        fail_msg("%s", err.msg);
    check_both_reached(&f, f.c.netns, SERVICE_IP + PODNET_SERVICES_MAX - 1, 8080);
    assert_int_equal(podnet_services(f.net, all, PODNET_SERVICES_MAX + 1, NULL, NULL, &err), -1);
    assert_int_equal(err.code, ERR_LIMIT);
    teardown(&f);
}

static void note_refusal(void *arg, size_t at, const struct err *err)
{
    if (at != 1)
        fail_msg("%s", err->msg);
    *(struct err *)arg = *err;
}

static void test_network_without_a_bridge_has_node_ports_alone(void **state)
{
    struct podnet *net = open_net(&(struct podnet_config){.mode = PODNET_HOST});
    int server = listen_in(NULL, INADDR_LOOPBACK, 8080);
    struct podnet_endpoint to = {{htonl(INADDR_LOOPBACK)}, 8080, NULL};
    struct podnet_service services[] = {
        {.proto = PODNET_TCP, .port = 80, .node_port = 30081, .endpoints = &to, .len = 1},
        {.proto = PODNET_UDP, .port = 53, .node_port = 30053, .endpoints = &to, .len = 1},
    };
    struct err err = {0}, refused = {0};

    (void)state;
    assert_false(podnet_has_services(net));
    assert_int_equal(podnet_services(net, services, 2, note_refusal, &refused, &err), 0);
    assert_int_equal(refused.code, ERR_UNSUPPORTED);
    reach(NULL, INADDR_LOOPBACK, 30081, server);
    podnet_free(net); /* with what it carries */
    close(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_connections_go_to_all_endpoints),
        cmocka_unit_test(test_sticky_service_keeps_to_one_endpoint),
        cmocka_unit_test(test_changed_endpoints_are_followed),
        cmocka_unit_test(test_services_outlive_the_daemon_and_are_removed_with_the_last),
        cmocka_unit_test(test_taken_node_port_is_told_and_left_alone),
        cmocka_unit_test(test_many_services_fit),
        cmocka_unit_test(test_network_without_a_bridge_has_node_ports_alone),
    };

    return BOX_RUN(tests);
}
