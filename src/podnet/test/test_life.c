/* Many pods, restarts, strays, and machines that allow less, in real namespaces. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "podnet/forward.h"
#include "podnet/link.h"
#include "podnet/netlink.h"
#include "podnet/netns.h"
#include "podnet/nft.h"
#include "podnet/test/box.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

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
    assert_int_equal(count_pods(net), MANY);
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
    struct podnet_port port = tcp(8080, 80);
    struct err err = {0};

    (void)state;
    publish_ok(net, "a", tcp(8080, 80));
    podnet_free(net);
    reach(NULL, INADDR_LOOPBACK, 8080, server); /* also while nobody is there */

    net = open_net(NULL);
    assert_int_equal(count_pods(net), 2);
    assert_int_equal(podnet_get(net, "a")->ip.s_addr, a.ip.s_addr);
    assert_string_equal(podnet_get(net, "b")->netns, b.netns);
    assert_int_equal(podnet_publish(net, "b", &port, &err), -1);
    assert_string_equal(err.msg, "host port 8080/tcp is taken by pod 'a'");
    publish_ok(net, "a", tcp(8080, 80));
    reach(b.netns, ntohl(a.ip.s_addr), 80, server);
    reach(NULL, INADDR_LOOPBACK, 8080, server);
    c = add_ok(net, "c");
    assert_int_not_equal(c.ip.s_addr, a.ip.s_addr);
    assert_int_not_equal(c.ip.s_addr, b.ip.s_addr);
    close(server);
    destroy_net(net);
}

static void test_rules_that_somebody_flushed_are_made_again(void **state)
{
    struct podnet *net = open_net(NULL);
    struct result a = add_ok(net, "a"), checked = {0};
    int server = listen_in(a.netns, INADDR_ANY, 80), nf = nl_open(NETLINK_NETFILTER, NULL);

    (void)state;
    publish_ok(net, "a", tcp(8080, 80));
    assert_int_equal(nft_table_del(nf, "berth0", NULL), 0);
    podnet_check(net, on_removed, &checked);
    wait_called(&checked);
    assert_int_equal(checked.code, ERR_NONE);
    reach(NULL, INADDR_LOOPBACK, 8080, server);
    assert_int_equal(nft_table_del(nf, "berth0", NULL), 0);
    publish_ok(net, "a", tcp(8081, 80)); /* this finds it, too */
    reach(NULL, INADDR_LOOPBACK, 8080, server);
    reach(NULL, INADDR_LOOPBACK, 8081, server);
    close(server);
    close(nf);
    destroy_net(net);
}

#define OWN_LINKS   60
#define CROWD_LINKS 40

struct crowd {
    pthread_t thread;
    atomic_bool over;
};

/* Links of others come and go. */
static void *crowd_run(void *arg)
{
    struct crowd *crowd = arg;
    int rt = nl_open(NETLINK_ROUTE, NULL);
    char name[IF_NAMESIZE];

    while (!crowd->over) {
        for (int i = 0; i < CROWD_LINKS; i++) {
            snprintf(name, sizeof(name), "other%d", i);
            (void)link_bridge_add(rt, name, 0x0a010000 + (uint32_t)i, 1500, NULL);
        }
        for (int i = 0; i < CROWD_LINKS; i++) {
            snprintf(name, sizeof(name), "other%d", i);
            (void)link_del(rt, 0, name, NULL);
        }
    }
    close(rt);
    return NULL;
}

static void test_a_list_leaves_out_nothing_while_others_change_theirs(void **state)
{
    int rt = nl_open(NETLINK_ROUTE, NULL);
    struct crowd crowd = {0};
    char name[IF_NAMESIZE];

    (void)state;
    for (int i = 0; i < OWN_LINKS; i++) {
        snprintf(name, sizeof(name), "own%d", i);
        assert_int_equal(link_bridge_add(rt, name, 0x0a020000 + (uint32_t)i, 1500, NULL), 0);
    }
    assert_int_equal(pthread_create(&crowd.thread, NULL, crowd_run, &crowd), 0);
    for (int round = 0; round < 200; round++) {
        struct links links = {0};
        int found = 0;

        assert_int_equal(link_list(rt, &links, NULL), 0);
        VEC_EACH(&links, it)
            found += starts_with(it->name, "own");
        vec_done(&links);
        assert_int_equal(found, OWN_LINKS);
    }
    crowd.over = true;
    pthread_join(crowd.thread, NULL);
    for (int i = 0; i < OWN_LINKS; i++) {
        snprintf(name, sizeof(name), "own%d", i);
        assert_int_equal(link_del(rt, 0, name, NULL), 0);
    }
    close(rt);
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
    assert_int_equal(count_pods(net), 0);
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
    assert_int_equal(count_pods(net), 1);
    publish_ok(net, "a", tcp(8080, 80));
    reach(NULL, INADDR_LOOPBACK, 8080, server);
    close(server);
    remove_ok(net, "a");
    assert_int_equal(count_files("slirp"), 0);
    assert_int_equal(count_files("netns"), 0);
    podnet_free(net);
}

static void test_without_a_bridge_node_ports_are_carried_to_pods_in_turn(void **state)
{
    struct podnet_config config = {.mode = PODNET_SLIRP, .run_dir = run_dir};
    struct podnet *net = NULL;
    struct result a, b;
    struct podnet_endpoint to[2];
    struct podnet_service service = {
        .proto = PODNET_TCP, .port = 80, .node_port = 30080, .endpoints = to, .len = 2};
    struct err err = {0};
    int servers[2], fd = -1;

    (void)state;
    if (podnet_open(loop, &config, &net, &err) < 0) {
        print_message("slirp4netns: %s\n", err.msg);
        skip();
    }
    assert_false(podnet_has_services(net));
    a = add_ok(net, "a");
    b = add_ok(net, "b");
    servers[0] = listen_in(a.netns, INADDR_ANY, 80);
    servers[1] = listen_in(b.netns, INADDR_ANY, 80);
    to[0] = (struct podnet_endpoint){a.ip, 80, "a"};
    to[1] = (struct podnet_endpoint){b.ip, 80, "b"};
    assert_int_equal(podnet_services(net, &service, 1, NULL, NULL, &err), 0);
    reach(NULL, INADDR_LOOPBACK, 30080, servers[0]);
    reach(NULL, INADDR_LOOPBACK, 30080, servers[1]);
    assert_int_equal(podnet_services(net, &service, 1, NULL, NULL, &err), 0); /* the same port goes on */
    remove_ok(net, "a");
    reach(NULL, INADDR_LOOPBACK, 30080, servers[1]);
    reach(NULL, INADDR_LOOPBACK, 30080, servers[1]);
    assert_int_equal(podnet_services(net, NULL, 0, NULL, NULL, &err), 0);
    assert_int_equal(try_connect(NULL, INADDR_LOOPBACK, 30080, &fd), ECONNREFUSED);
    close(servers[0]);
    close(servers[1]);
    remove_ok(net, "b");
    podnet_free(net);
}

/* More than is read of it, so that it never comes to its end by itself. */
static void test_a_firewall_of_very_many_rules_holds_up_nothing(void **state)
{
    static const char script[] = "#!/bin/sh\necho '-P FORWARD ACCEPT'\nexec head -c 3000000 /dev/zero\n";
    CLEANUP(free) char *folder = mem_printf("%s/bin", run_dir), *file = mem_printf("%s/iptables", folder);
    CLEANUP(free) char *before = mem_strdup(getenv("PATH")), *path = mem_printf("%s:%s", folder, before);
    struct err err = {0};

    (void)state;
    assert_int_equal(mkdir(folder, 0755), 0);
    assert_int_equal(file_write_atomic(file, str_from(script), 0755, &err), 0);
    setenv("PATH", path, 1);
    alarm(20);
    forward_allow("berth0");
    alarm(0);
    setenv("PATH", before, 1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_hundred_pods_come_and_go),
        cmocka_unit_test(test_everything_is_found_again_after_a_restart),
        cmocka_unit_test(test_rules_that_somebody_flushed_are_made_again),
        cmocka_unit_test(test_a_list_leaves_out_nothing_while_others_change_theirs),
        cmocka_unit_test(test_a_list_leaves_out_nothing_while_others_change_theirs),
        cmocka_unit_test(test_strays_are_removed_at_start),
        cmocka_unit_test(test_destroy_leaves_nothing),
        cmocka_unit_test(test_slirp_pod_has_a_network_and_ports),
        cmocka_unit_test(test_without_a_bridge_node_ports_are_carried_to_pods_in_turn),
        cmocka_unit_test(test_a_firewall_of_very_many_rules_holds_up_nothing),
        cmocka_unit_test(test_host_mode_gives_the_machines_network),
        cmocka_unit_test(test_without_rights_it_is_the_hosts_network_and_says_why),
    };

    return BOX_RUN(tests);
}
