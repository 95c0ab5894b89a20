#include "base/cleanup.h"
#include "base/test/test.h"
#include "notify/policy.h"

#include <netinet/in.h>

static struct policy *make(const char *entry)
{
    struct policy *policy = NULL;
    struct err err = {0};

    assert_int_equal(policy_new(&entry, entry ? 1 : 0, &policy, &err), 0);
    return policy;
}

static bool allows(const char *entry, const char *host)
{
    struct policy *policy = make(entry);
    bool result = policy_allows_host(policy, str_from(host));

    policy_free(policy);
    return result;
}

static void test_only_public_addresses_without_a_setting(void **state)
{
    static const char *const bad[] = {
        "127.0.0.1",      "localhost", "10.1.2.3",        "192.168.0.1", "172.31.0.1", "169.254.169.254",
        "0.0.0.0",        "::1",       "[::1]",           "fe80::1",     "fd00::1",    "::ffff:127.0.0.1",
        "64:ff9b::a00:1", "224.0.0.1", "255.255.255.255", "100.64.0.1"};
    static const char *const good[] = {"93.184.216.34", "2606:4700::1", "172.32.0.1", "hooks.example"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(allows(NULL, bad[i]));
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_true(allows(NULL, good[i]));
}

static void test_a_setting_opens_what_it_names_and_no_more(void **state)
{
    (void)state;
    assert_true(allows("loopback", "127.8.8.8"));
    assert_true(allows("loopback", "::1"));
    assert_false(allows("loopback", "10.0.0.1"));
    assert_true(allows("private", "10.0.0.1"));
    assert_false(allows("private", "127.0.0.1"));
    assert_false(allows("private", "169.254.169.254"));
    assert_true(allows("10.1.0.0/16", "10.1.255.1"));
    assert_false(allows("10.1.0.0/16", "10.2.0.1"));
    assert_true(allows("10.1.0.0/17", "10.1.127.1"));
    assert_false(allows("10.1.0.0/17", "10.1.128.1"));
    assert_true(allows("10.1.2.3", "10.1.2.3"));
    assert_true(allows("fd12::/16", "fd12::9"));
    assert_true(allows("all", "127.0.0.1"));
    assert_true(allows("all", "fe80::1"));
}

static void test_the_address_connected_to_is_judged(void **state)
{
    struct policy *policy = make(NULL);
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sockaddr local = {.sa_family = AF_UNIX};

    (void)state;
    assert_false(policy_allows(policy, (struct sockaddr *)&v4));
    assert_false(policy_allows(policy, (struct sockaddr *)&v6));
    assert_false(policy_allows(policy, &local));
    v4.sin_addr.s_addr = htonl(0x08080808);
    assert_true(policy_allows(policy, (struct sockaddr *)&v4));
    policy_free(policy);
}

static void test_wrong_entries_are_named(void **state)
{
    static const char *const wrong[] = {"10.0.0.0/33", "nonsense", "1.2.3/8", "::/129", ""};
    struct policy *policy = NULL;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct err err = {0};

        assert_int_equal(policy_new(&wrong[i], 1, &policy, &err), -1);
        assert_non_null(strstr(err.msg, wrong[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_public_addresses_without_a_setting),
        cmocka_unit_test(test_a_setting_opens_what_it_names_and_no_more),
        cmocka_unit_test(test_the_address_connected_to_is_judged),
        cmocka_unit_test(test_wrong_entries_are_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
