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

static void test_attributes_come_back_as_they_were_put(void **state)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    struct ifinfomsg head = {.ifi_index = 7};
    const struct nlattr *attr[IFLA_LINKINFO + 1], *info[IFLA_INFO_KIND + 1];
    char name[IF_NAMESIZE], kind[16];
    size_t at;

    (void)state;
    nl_begin(&batch, RTM_NEWLINK, NLM_F_ACK, &head, sizeof(head));
    nl_attr_str(&batch, IFLA_IFNAME, "abc");  /* 4 bytes */
    nl_attr_str(&batch, IFLA_QDISC, "abcde"); /* 6 bytes: padded */
    nl_attr_u32(&batch, IFLA_MTU, 1500);
    at = nl_nest(&batch, IFLA_LINKINFO);
    nl_attr_str(&batch, IFLA_INFO_KIND, "veth");
    nl_nest_end(&batch, at);

    assert_int_equal(first(&batch)->nlmsg_len, batch.buf.len);
    assert_int_equal(batch.acks, 1);
    assert_true(nl_parse_msg(first(&batch), sizeof(head), attr, IFLA_LINKINFO));
    nl_string(attr[IFLA_IFNAME], name, sizeof(name));
    assert_string_equal(name, "abc");
    assert_int_equal(nl_len(attr[IFLA_QDISC]), 6);
    assert_int_equal(nl_u32(attr[IFLA_MTU]), 1500);
    nl_parse(info, IFLA_INFO_KIND, nl_data(attr[IFLA_LINKINFO]), nl_len(attr[IFLA_LINKINFO]));
    nl_string(info[IFLA_INFO_KIND], kind, sizeof(kind));
    assert_string_equal(kind, "veth");
}

static void test_absent_attribute_reads_as_nothing(void **state)
{
    char text[8] = "x";

    (void)state;
    nl_string(NULL, text, sizeof(text));
    assert_string_equal(text, "");
    assert_int_equal(nl_u32(NULL), 0);
}

static void test_attribute_longer_than_its_message_is_not_read(void **state)
{
    const struct {
        struct nlattr attr;
        uint32_t value;
    } good = {{8, IFLA_MTU}, 1}, longer = {{100, IFLA_MTU}, 1}, shorter = {{2, IFLA_MTU}, 1};
    const struct nlattr *table[IFLA_MTU + 1];

    (void)state;
    nl_parse(table, IFLA_MTU, &good, sizeof(good));
    assert_non_null(table[IFLA_MTU]);
    nl_parse(table, IFLA_MTU, &longer, sizeof(longer));
    assert_null(table[IFLA_MTU]);
    nl_parse(table, IFLA_MTU, &shorter, sizeof(shorter));
    assert_null(table[IFLA_MTU]);
    nl_parse(table, IFLA_MTU, &good, 3);
    assert_null(table[IFLA_MTU]);
}

static void test_long_string_is_cut(void **state)
{
    CLEANUP(nl_batch_done) struct nl_batch batch = {0};
    struct ifinfomsg head = {0};
    const struct nlattr *attr[IFLA_IFNAME + 1];
    char name[4];

    (void)state;
    nl_begin(&batch, RTM_NEWLINK, 0, &head, sizeof(head));
    nl_attr_str(&batch, IFLA_IFNAME, "abcdef");
    assert_true(nl_parse_msg(first(&batch), sizeof(head), attr, IFLA_IFNAME));
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
        cmocka_unit_test(test_attributes_come_back_as_they_were_put),
        cmocka_unit_test(test_absent_attribute_reads_as_nothing),
        cmocka_unit_test(test_attribute_longer_than_its_message_is_not_read),
        cmocka_unit_test(test_long_string_is_cut),
        cmocka_unit_test(test_link_name_tells_the_address),
        cmocka_unit_test(test_table_is_one_transaction),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
