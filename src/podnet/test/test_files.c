/* The texts a pod finds in /etc. */
#include "base/file.h"
#include "base/mem.h"
#include "base/test/test.h"
#include "podnet/files.h"

#include <stdlib.h>

static const char host_text[] = "# made by hand\n"
                                "domain old.example\n"
                                "search lab.example example\n"
                                "nameserver 127.0.0.1\n"
                                "nameserver 192.0.2.1\n"
                                "nameserver 2001:db8::1%eth0\n"
                                "options ndots:2 edns0\n"
                                "; the end";

static char *resolv(const struct podnet_dns *dns, bool own_netns, const char *fallback)
{
    struct buf text = {0};
    struct err err = {0};

    assert_int_equal(podnet_resolv_conf(&text, str_from(host_text), dns, own_netns, fallback, &err), 0);
    return buf_take(&text);
}

static void test_pod_gets_the_hosts_servers_but_those_on_its_loopback(void **state)
{
    struct podnet_dns dns = {0};
    CLEANUP(free) char *text = resolv(&dns, true, NULL);

    (void)state;
    assert_string_equal(text, "search lab.example example\n"
                              "nameserver 192.0.2.1\nnameserver 2001:db8::1%eth0\n"
                              "options ndots:2 edns0\n");
}

static void test_pod_in_the_hosts_network_keeps_loopback_servers(void **state)
{
    struct podnet_dns dns = {0};
    CLEANUP(free) char *text = resolv(&dns, false, NULL);

    (void)state;
    assert_non_null(strstr(text, "nameserver 127.0.0.1\n"));
}

static void test_dns_config_is_merged_behind_and_options_replace(void **state)
{
    static const char *const servers[] = {"192.0.2.1", "192.0.2.9", "192.0.2.10", NULL};
    static const char *const searches[] = {"svc.example", "example", NULL};
    static const struct podnet_dns_option options[] = {{"ndots", "5"}, {"rotate", NULL}};
    struct podnet_dns dns = {PODNET_DNS_DEFAULT, servers, searches, options, 2};
    CLEANUP(free) char *text = resolv(&dns, true, NULL);

    (void)state;
    assert_string_equal(text, "search lab.example example svc.example\n"
                              "nameserver 192.0.2.1\nnameserver 2001:db8::1%eth0\nnameserver 192.0.2.9\n"
                              "options ndots:5 edns0 rotate\n");
}

static void test_policy_none_takes_nothing_from_the_host(void **state)
{
    static const char *const servers[] = {"192.0.2.9", NULL};
    struct podnet_dns dns = {.policy = PODNET_DNS_NONE, .nameservers = servers};
    CLEANUP(free) char *text = resolv(&dns, true, "10.0.2.3");

    (void)state;
    assert_string_equal(text, "nameserver 192.0.2.9\n");
}

static void test_policy_none_without_server_is_refused(void **state)
{
    struct podnet_dns dns = {.policy = PODNET_DNS_NONE};
    struct buf text = {0};
    struct err err = {0};

    (void)state;
    assert_int_equal(podnet_resolv_conf(&text, str_from(host_text), &dns, true, NULL, &err), -1);
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(text.len, 0);
}

static void test_text_cannot_add_lines(void **state)
{
    static const char *const searches[] = {"a\nnameserver 192.0.2.66", NULL};
    static const char *const servers[] = {"192.0.2.9\n", NULL};
    static const struct podnet_dns_option options[] = {{"a b", NULL}};
    struct podnet_dns dns[] = {
        {.searches = searches}, {.nameservers = servers}, {.options = options, .options_len = 1}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(dns); i++) {
        struct buf text = {0};
        struct err err = {0};

        assert_int_equal(podnet_resolv_conf(&text, str_from(host_text), &dns[i], true, NULL, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
    }
}

static void test_fallback_stands_in_for_a_host_with_only_loopback_servers(void **state)
{
    struct podnet_dns dns = {0};
    struct buf text = {0};

    (void)state;
    assert_int_equal(podnet_resolv_conf(&text, STR("nameserver 127.0.0.1\n"), &dns, true, "10.0.2.3", NULL),
                     0);
    assert_string_equal(text.data, "nameserver 10.0.2.3\n");
    buf_done(&text);
}

static void write_at(const char *root, const char *path, const char *text)
{
    CLEANUP(free) char *full = mem_printf("%s%s", root, path);
    CLEANUP(free) char *folder = mem_strdup(full);

    *strrchr(folder, '/') = '\0';
    assert_int_equal(dir_make(folder, 0700, NULL), 0);
    assert_int_equal(file_write_atomic(full, str_from(text), 0600, NULL), 0);
}

static void test_resolved_stub_leads_to_the_real_file(void **state)
{
    char root[] = "/tmp/berth-files-XXXXXX";
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(free) char *rm = NULL;

    (void)state;
    assert_non_null(mkdtemp(root));
    assert_int_equal(podnet_host_resolv(root, &text, NULL), 0); /* none: empty */
    assert_int_equal(text.len, 0);
    write_at(root, "/etc/resolv.conf", "nameserver 127.0.0.53\noptions edns0\n");
    write_at(root, "/run/systemd/resolve/resolv.conf", "nameserver 192.0.2.1\n");
    assert_int_equal(podnet_host_resolv(root, &text, NULL), 0);
    assert_string_equal(text.data, "nameserver 192.0.2.1\n");
    rm = mem_printf("rm -r %s", root);
    assert_int_equal(system(rm), 0); /* NOLINT(cert-env33-c) */
}

static void test_hosts_file_is_as_the_kubelet_writes_it(void **state)
{
    static const char *const names[] = {"foo.local", "bar.local", NULL};
    struct podnet_host_alias alias = {"192.0.2.3", names};
    struct podnet_hosts hosts = {.ip = "10.88.0.2",
                                 .hostname = "web",
                                 .fqdn = "web.sub.ns.svc.cluster.local",
                                 .aliases = &alias,
                                 .aliases_len = 1};
    CLEANUP(buf_done) struct buf text = {0};

    (void)state;
    assert_int_equal(podnet_hosts_file(&text, &hosts, NULL), 0);
    assert_non_null(strstr(text.data, "\n127.0.0.1\tlocalhost\n"));
    assert_non_null(strstr(text.data, "\n10.88.0.2\tweb.sub.ns.svc.cluster.local\tweb\n"));
    assert_non_null(
        strstr(text.data, "\n# Entries added by HostAliases.\n192.0.2.3\tfoo.local\tbar.local\n"));
}

static void test_hosts_file_in_the_hosts_network_is_the_hosts(void **state)
{
    struct podnet_hosts hosts = {.hostname = "web", .host_file = "127.0.0.1 localhost"};
    CLEANUP(buf_done) struct buf text = {0};

    (void)state;
    assert_int_equal(podnet_hosts_file(&text, &hosts, NULL), 0);
    assert_string_equal(text.data, "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n");
}

static void test_alias_that_is_no_name_is_refused(void **state)
{
    static const char *const names[] = {"foo\n192.0.2.66 bank", NULL};
    struct podnet_host_alias aliases[] = {{"192.0.2.3", names}, {"example", NULL}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(aliases); i++) {
        struct podnet_hosts hosts = {.hostname = "web", .aliases = &aliases[i], .aliases_len = 1};
        struct buf text = {0};
        struct err err = {0};

        assert_int_equal(podnet_hosts_file(&text, &hosts, &err), -1);
        assert_int_equal(err.code, ERR_INVALID);
    }
}

static void test_host_name_is_cut_to_63_characters_and_ends_well(void **state)
{
    char name[PODNET_HOSTNAME_MAX + 1];
    char longer[] = "a23456789-123456789-123456789-123456789-123456789-123456789-12-zzzz";

    (void)state;
    podnet_hostname(name, longer, NULL);
    assert_string_equal(name, "a23456789-123456789-123456789-123456789-123456789-123456789-12");
    podnet_hostname(name, "pod-1", "given");
    assert_string_equal(name, "given");
}

static void test_cluster_dns_policies_mean_the_hosts(void **state)
{
    enum podnet_dns_policy policy;
    struct err err = {0};

    (void)state;
    assert_int_equal(podnet_dns_policy("ClusterFirst", &policy, &err), 0);
    assert_int_equal(policy, PODNET_DNS_DEFAULT);
    assert_int_equal(podnet_dns_policy("None", &policy, &err), 0);
    assert_int_equal(policy, PODNET_DNS_NONE);
    assert_int_equal(podnet_dns_policy("Magic", &policy, &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pod_gets_the_hosts_servers_but_those_on_its_loopback),
        cmocka_unit_test(test_pod_in_the_hosts_network_keeps_loopback_servers),
        cmocka_unit_test(test_dns_config_is_merged_behind_and_options_replace),
        cmocka_unit_test(test_policy_none_takes_nothing_from_the_host),
        cmocka_unit_test(test_policy_none_without_server_is_refused),
        cmocka_unit_test(test_text_cannot_add_lines),
        cmocka_unit_test(test_fallback_stands_in_for_a_host_with_only_loopback_servers),
        cmocka_unit_test(test_resolved_stub_leads_to_the_real_file),
        cmocka_unit_test(test_hosts_file_is_as_the_kubelet_writes_it),
        cmocka_unit_test(test_hosts_file_in_the_hosts_network_is_the_hosts),
        cmocka_unit_test(test_alias_that_is_no_name_is_refused),
        cmocka_unit_test(test_host_name_is_cut_to_63_characters_and_ends_well),
        cmocka_unit_test(test_cluster_dns_policies_mean_the_hosts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
