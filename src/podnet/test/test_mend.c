/* What others remove is noticed and made again, for pods that run and for new ones. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "podnet/link.h"
#include "podnet/netlink.h"
#include "podnet/netns.h"
#include "podnet/nft.h"
#include "podnet/nft_msg.h"
#include "podnet/test/box.h"

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/wait.h>

#define SERVICE_IP 0x0a600014 /* 10.96.0.20 */
#define NOTICE_SEC 5

struct fixture {
    struct podnet *net;
    struct result a, b;
    int server, rt, nf;
    struct buf said;
};

static void on_mended(void *arg, const char *sentence, bool failed)
{
    struct fixture *f = arg;

    buf_printf(&f->said, "%s%s\n", failed ? "FAILED " : "", sentence);
}

static void publish_service(struct fixture *f)
{
    struct podnet_endpoint to = {f->a.ip, 80};
    struct podnet_service service = {.ip.s_addr = htonl(SERVICE_IP),
                                     .proto = PODNET_TCP,
                                     .port = 8080,
                                     .node_port = 30080,
                                     .endpoints = &to,
                                     .len = 1};
    struct err err = {0};

    if (podnet_services(f->net, &service, 1, NULL, NULL, &err) < 0)
        fail_msg("%s", err.msg);
}

static void setup(struct fixture *f)
{
    *f = (struct fixture){.net = open_net(&(struct podnet_config){.spares = 2})};
    f->a = add_ok(f->net, "a");
    f->b = add_ok(f->net, "b");
    f->server = listen_in(f->a.netns, INADDR_ANY, 80);
    f->rt = nl_open(NETLINK_ROUTE, NULL);
    f->nf = nl_open(NETLINK_NETFILTER, NULL);
    publish_ok(f->net, "a", tcp(8080, 80));
    publish_service(f);
    podnet_on_mended(f->net, on_mended, f);
}

static void teardown(struct fixture *f)
{
    close(f->server);
    close(f->rt);
    close(f->nf);
    buf_done(&f->said);
    destroy_net(f->net);
}

static void wait_said(struct fixture *f, const char *words)
{
    int64_t end = clock_monotonic() + NOTICE_SEC * NSEC_PER_SEC;

    while (!f->said.len || !strstr(f->said.data, words)) {
        if (clock_monotonic() > end)
            fail_msg("'%s' was not said within %d s: %s", words, NOTICE_SEC, f->said.len ? f->said.data : "");
        assert_int_equal(loop_turn(loop, 100, NULL), 0);
    }
    if (strstr(f->said.data, "FAILED"))
        fail_msg("%s", f->said.data);
}

/* From pod to pod, by the published port, by the service and its node port; the host's end, too. */
static void check_whole(struct fixture *f)
{
    reach(f->b.netns, ntohl(f->a.ip.s_addr), 80, f->server);
    reach(NULL, ntohl(f->a.ip.s_addr), 80, f->server);
    reach(NULL, INADDR_LOOPBACK, 8080, f->server);
    reach(f->b.netns, SERVICE_IP, 8080, f->server);
    reach(NULL, INADDR_LOOPBACK, 30080, f->server);
    assert_null(podnet_trouble(f->net));
}

static void check_new_pod(struct fixture *f, const char *id)
{
    struct result c = add_ok(f->net, id);

    reach(c.netns, ntohl(f->a.ip.s_addr), 80, f->server);
    remove_ok(f->net, id);
}

static void remove_link(struct fixture *f, const char *name)
{
    struct err err = {0};

    if (link_del(f->rt, 0, name, &err) < 0)
        fail_msg("%s", err.msg);
}

static void test_removed_bridge_is_made_again_with_its_pods(void **state)
{
    struct fixture f;

    (void)state;
    setup(&f);
    remove_link(&f, "berth0");
    wait_said(&f,
              "bridge berth0 was gone and has been made again; 2 running pods are attached to berth0 again");
    check_whole(&f);
    check_new_pod(&f, "c");
    teardown(&f);
}

static void test_pod_that_comes_before_the_repair_gets_its_network(void **state)
{
    struct fixture f;

    (void)state;
    setup(&f);
    for (int i = 0; i < 4; i++) { /* with those that were made ahead, and without */
        char id[8];

        (void)snprintf(id, sizeof(id), "new-%d", i);
        remove_link(&f, "berth0");
        (void)add_ok(f.net, id);
    }
    wait_said(&f, "attached to berth0 again");
    check_whole(&f);
    teardown(&f);
}

static void test_removed_link_of_a_pod_is_made_again(void **state)
{
    struct fixture f;
    char name[IF_NAMESIZE];

    (void)state;
    setup(&f);
    link_pod_name(ntohl(f.b.ip.s_addr), name);
    remove_link(&f, name);
    wait_said(&f, "the network link of 1 running pod was gone and made again");
    check_whole(&f);
    teardown(&f);
}

static void test_bridge_without_its_address_gets_it_back(void **state)
{
    struct fixture f;
    struct err err = {0};

    (void)state;
    setup(&f);
    if (link_addr_del(f.rt, (int)if_nametoindex("berth0"), ntohl(podnet_gateway(f.net).s_addr), 16, &err) < 0)
        fail_msg("%s", err.msg);
    wait_said(&f, "bridge berth0 was down or had lost its address and is set up again");
    check_whole(&f);
    teardown(&f);
}

static void flush_rules(struct fixture *f, const char *table)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    struct err err = {0};

    nft_mark(&batch, NFNL_MSG_BATCH_BEGIN);
    mnl_attr_put_strz(nft_begin(&batch, NFT_MSG_DELRULE, NLM_F_ACK), NFTA_RULE_TABLE, table);
    if (nft_transact(f->nf, &batch, 0, &err) < 0)
        fail_msg("%s", err.msg);
}

static void test_removed_tables_and_rules_are_made_again(void **state)
{
    static const char *const tables[] = {"berth0", "berth0-services"};
    struct fixture f;

    (void)state;
    setup(&f);
    for (size_t i = 0; i < ARRAY_LEN(tables); i++) {
        assert_int_equal(nft_table_del(f.nf, tables[i], NULL), 0);
        wait_said(&f, "the nf_tables rules of berth0 were removed and have been made again");
        buf_clear(&f.said);
        check_whole(&f);
        flush_rules(&f, tables[i]); /* the table stays */
        wait_said(&f, "the nf_tables rules of berth0 were removed and have been made again");
        buf_clear(&f.said);
        check_whole(&f);
    }
    teardown(&f);
}

static void test_own_changes_call_for_no_repair(void **state)
{
    struct fixture f;
    struct result checked = {0};

    (void)state;
    setup(&f);
    for (int i = 0; i < 20; i++)
        check_new_pod(&f, "c");
    publish_service(&f);
    podnet_check(f.net, on_removed, &checked);
    wait_called(&checked);
    assert_int_equal(checked.code, ERR_NONE);
    assert_int_equal(f.said.len, 0);
    teardown(&f);
}

static void test_restart_without_the_bridge_keeps_pods_and_their_subnet(void **state)
{
    struct fixture f;

    (void)state;
    setup(&f);
    destroy_net(f.net);
    f.net = open_net(&(struct podnet_config){.subnet = "10.90.0.0/20"});
    close(f.server);
    f.a = add_ok(f.net, "a");
    f.b = add_ok(f.net, "b");
    f.server = listen_in(f.a.netns, INADDR_ANY, 80);
    publish_ok(f.net, "a", tcp(8080, 80));
    publish_service(&f);
    podnet_free(f.net);
    remove_link(&f, "berth0");

    f.net = open_net(NULL);
    assert_int_equal(count_pods(f.net), 2);
    assert_int_equal(podnet_get(f.net, "a")->ip.s_addr, f.a.ip.s_addr);
    publish_ok(f.net, "a", tcp(8080, 80));
    publish_service(&f);
    check_whole(&f);
    check_new_pod(&f, "c");
    teardown(&f);
}

/* A process in the pod, as a container of it. */
static pid_t process_in(const char *netns)
{
    pid_t pid = fork();

    if (pid == 0) {
        int fd = open(netns, O_RDONLY | O_CLOEXEC);

        if (fd < 0 || setns(fd, CLONE_NEWNET) < 0)
            _exit(1);
        close_range(3, ~0U, 0); /* the ports that are held here are not its */
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    return pid;
}

static bool in_namespace(pid_t pid, const char *netns)
{
    CLEANUP(free) char *path = mem_printf("/proc/%d/ns/net", (int)pid);
    struct stat a, b;

    return stat(path, &a) == 0 && stat(netns, &b) == 0 && a.st_ino == b.st_ino;
}

static void test_lost_pins_are_taken_from_the_pods_processes(void **state)
{
    struct fixture f;
    pid_t pids[2];
    struct err err = {0};
    char ip[INET_ADDRSTRLEN];

    (void)state;
    for (int restart = 0; restart < 3; restart++) {
        setup(&f);
        pids[0] = process_in(f.a.netns);
        pids[1] = process_in(f.b.netns);
        while (!in_namespace(pids[0], f.a.netns) || !in_namespace(pids[1], f.b.netns))
            usleep(1000);
        if (restart)
            podnet_free(TAKE_PTR(f.net));
        (void)netns_unpin(f.a.netns, NULL);
        (void)netns_unpin(f.b.netns, NULL);
        if (restart == 2) /* the worst of it */
            remove_link(&f, "berth0");
        if (restart) {
            f.net = open_net(&(struct podnet_config){.subnet = "10.88.0.0/16"});
            podnet_on_mended(f.net, on_mended, &f);
        }
        inet_ntop(AF_INET, &f.a.ip, ip, sizeof(ip));
        if (podnet_rescue(f.net, "a", pids[0], ip, &err) < 0 ||
            podnet_rescue(f.net, "b", pids[1], "", &err) < 0)
            fail_msg("%s", err.msg);
        assert_int_equal(podnet_rescue(f.net, "nobody", getpid(), "10.88.0.200", &err), -1);
        assert_int_equal(podnet_get(f.net, "a")->ip.s_addr, f.a.ip.s_addr);
        if (restart == 2)
            wait_said(&f, "2 running pods are attached to berth0 again");
        publish_ok(f.net, "a", tcp(8080, 80));
        publish_service(&f);
        check_whole(&f);
        check_new_pod(&f, "c");
        for (int i = 0; i < 2; i++) {
            kill(pids[i], SIGKILL);
            waitpid(pids[i], NULL, 0);
        }
        teardown(&f);
    }
}

/* The bridge is gone, and with the pins all that names the pods' namespaces; another subnet has become free
 * meanwhile. */
static void test_subnet_is_kept_where_nothing_on_the_host_tells_it(void **state)
{
    CLEANUP(free) char *file = mem_printf("%s/pod-subnet", run_dir);
    struct podnet_config kept = {.subnet_file = file};
    static const char *const bad[] = {"", "\n", "nonsense\n", "10.88.0.0/33\n", "10.96.0.0"};
    const struct subnet others = {0x0a5b0100, 24};
    struct podnet_config first = {.subnet = "10.91.0.0/20", .subnet_file = file};
    struct err err = {0};
    struct fixture f;
    char ip[INET_ADDRSTRLEN];
    pid_t pid;

    (void)state;
    setup(&f);
    destroy_net(f.net);
    close(f.server);
    f.net = open_net(&first);
    f.a = add_ok(f.net, "a");
    pid = process_in(f.a.netns);
    while (!in_namespace(pid, f.a.netns))
        usleep(1000);
    podnet_free(TAKE_PTR(f.net));
    (void)netns_unpin(f.a.netns, NULL);
    remove_link(&f, "berth0");

    f.net = open_net(&kept);
    assert_string_equal(podnet_mode_text(f.net), "bridge berth0, 10.91.0.0/20, NAT by nf_tables");
    inet_ntop(AF_INET, &f.a.ip, ip, sizeof(ip));
    if (podnet_rescue(f.net, "a", pid, ip, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(podnet_get(f.net, "a")->ip.s_addr, f.a.ip.s_addr);
    f.server = listen_in(podnet_get(f.net, "a")->netns, INADDR_ANY, 80);
    check_new_pod(&f, "c");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);

    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        destroy_net(f.net);
        assert_int_equal(file_write_atomic(file, str_from(bad[i]), 0600, NULL), 0);
        f.net = open_net(&kept);
        assert_string_equal(podnet_mode_text(f.net), "bridge berth0, 10.88.0.0/16, NAT by nf_tables");
    }
    /* What others have a route to by now is not taken. */
    destroy_net(f.net);
    assert_int_equal(file_write_atomic(file, str_from("10.91.0.0/20\n"), 0600, NULL), 0);
    assert_int_equal(link_bridge_add(f.rt, "other", others.base + 1, 1500, NULL), 0);
    assert_int_equal(link_bridge_up(f.rt, (int)if_nametoindex("other"), &others, others.base + 1, NULL), 0);
    f.net = open_net(&kept);
    assert_string_equal(podnet_mode_text(f.net), "bridge berth0, 10.88.0.0/16, NAT by nf_tables");
    remove_link(&f, "other");
    assert_int_equal(unlink(file), 0);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_removed_bridge_is_made_again_with_its_pods),
        cmocka_unit_test(test_pod_that_comes_before_the_repair_gets_its_network),
        cmocka_unit_test(test_removed_link_of_a_pod_is_made_again),
        cmocka_unit_test(test_bridge_without_its_address_gets_it_back),
        cmocka_unit_test(test_removed_tables_and_rules_are_made_again),
        cmocka_unit_test(test_own_changes_call_for_no_repair),
        cmocka_unit_test(test_restart_without_the_bridge_keeps_pods_and_their_subnet),
        cmocka_unit_test(test_lost_pins_are_taken_from_the_pods_processes),
        cmocka_unit_test(test_subnet_is_kept_where_nothing_on_the_host_tells_it),
    };

    return BOX_RUN(tests);
}
