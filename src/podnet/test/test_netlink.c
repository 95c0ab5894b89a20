/* Messages to the kernel and back, without a kernel. */
#include "base/test/test.h"
#include "podnet/link.h"
#include "podnet/netlink.h"
#include "podnet/nft.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>

static const struct nlmsghdr *first(const struct nl_batch *batch)
{
    return (const void *)batch->buf.data;
}

static void test_messages_follow_one_another(void **state)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    struct ifinfomsg head = {.ifi_index = 7};
    const struct nlattr *attr[IFLA_MTU + 1];
    const struct nlmsghdr *msg;
    char name[IF_NAMESIZE];
    int left;

    (void)state;
    mnl_attr_put_strz(nl_begin(&batch, RTM_NEWLINK, NLM_F_ACK, &head, sizeof(head)), IFLA_IFNAME, "abcde");
    for (uint32_t i = 0; i < 10; i++) /* more than the first room holds */
        mnl_attr_put_u32(nl_begin(&batch, RTM_NEWLINK, 0, &head, sizeof(head)), IFLA_MTU, 1500 + i);
    nl_end(&batch);

    assert_int_equal(batch.count, 11);
    assert_int_equal(batch.acks, 1);
    msg = first(&batch);
    left = (int)batch.buf.len;
    assert_true(nl_attrs(msg, sizeof(head), attr, IFLA_MTU));
    nl_string(attr[IFLA_IFNAME], name, sizeof(name));
    assert_string_equal(name, "abcde");
    for (uint32_t i = 0; i < 10; i++) {
        msg = mnl_nlmsg_next(msg, &left);
        assert_true(mnl_nlmsg_ok(msg, left));
        assert_int_equal(msg->nlmsg_seq, i + 2);
        assert_true(nl_attrs(msg, sizeof(head), attr, IFLA_MTU));
        assert_null(attr[IFLA_IFNAME]);
        assert_int_equal(nl_u32(attr[IFLA_MTU]), 1500 + i);
    }
    assert_int_equal(left, msg->nlmsg_len);
}

static void test_absent_attribute_reads_as_nothing(void **state)
{
    char text[8] = "x";

    (void)state;
    nl_string(NULL, text, sizeof(text));
    assert_string_equal(text, "");
    assert_int_equal(nl_u32(NULL), 0);
}

static void test_message_without_its_header_has_no_attributes(void **state)
{
    struct nlmsghdr msg = {.nlmsg_len = sizeof(msg)};
    const struct nlattr *attr[IFLA_MTU + 1];

    (void)state;
    assert_false(nl_attrs(&msg, sizeof(struct ifinfomsg), attr, IFLA_MTU));
    assert_null(attr[IFLA_MTU]);
}

static void test_long_string_is_cut(void **state)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    struct ifinfomsg head = {0};
    const struct nlattr *attr[IFLA_IFNAME + 1];
    char name[4];

    (void)state;
    mnl_attr_put_strz(nl_begin(&batch, RTM_NEWLINK, 0, &head, sizeof(head)), IFLA_IFNAME, "abcdef");
    assert_true(nl_attrs(batch.at, sizeof(head), attr, IFLA_IFNAME));
    nl_string(attr[IFLA_IFNAME], name, sizeof(name));
    assert_string_equal(name, "abc");
}

static void test_link_name_tells_the_address(void **state)
{
    static const char *const others[] = {"bv0a58000", "bv0a5800021", "bv0A580002", "veth1", "bvxx580002", ""};
    char name[IF_NAMESIZE];
    uint32_t ip = 0;

    (void)state;
    link_pod_name(0x0a580002, name);
    assert_string_equal(name, "bv0a580002");
    assert_true(link_pod_parse(name, &ip));
    assert_int_equal(ip, 0x0a580002);
    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        assert_false(link_pod_parse(others[i], &ip));
}

static void test_table_is_one_transaction(void **state)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    struct subnet subnet = {0x0a580000, 16};
    struct nft_ports ports = {0};
    const struct nlmsghdr *msg;
    uint32_t left, count = 0;
    uint16_t last = 0;

    (void)state;
    vec_push(&ports, (struct nft_port){6, 8080, 0x0a580002, 80});
    nft_put_table(&batch, "berth0", &subnet, &ports);
    vec_done(&ports);
    left = (uint32_t)batch.buf.len;
    assert_int_equal(first(&batch)->nlmsg_type, NFNL_MSG_BATCH_BEGIN);
    for (msg = first(&batch); NLMSG_OK(msg, left); msg = NLMSG_NEXT(msg, left)) {
        count++;
        last = msg->nlmsg_type;
    }
    assert_int_equal(left, 0);
    assert_int_equal(last, NFNL_MSG_BATCH_END);
    assert_int_equal(count, batch.count);
    assert_int_equal(batch.acks, count - 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_follow_one_another),
        cmocka_unit_test(test_absent_attribute_reads_as_nothing),
        cmocka_unit_test(test_message_without_its_header_has_no_attributes),
        cmocka_unit_test(test_long_string_is_cut),
        cmocka_unit_test(test_link_name_tells_the_address),
        cmocka_unit_test(test_table_is_one_transaction),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
