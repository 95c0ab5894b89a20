/* netlink - see netlink.h.
 *
 * rtnetlink and nf_tables both do their work inside the sender's sendmsg, so every answer is in the
 * socket when that returns: answers are read without waiting, and a lost one cannot hang us. */
#include "podnet/netlink.h"

#include "base/mem.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define NL_BUFFER_BYTES (8 << 20)
#define READ_MAX        (256 << 10) /* dumps come in pieces of at most this */
#define DUMP_READINGS   16          /* of a table that changes while it is read */

void nl_end(struct nl_batch *batch)
{
    if (!batch->at)
        return;
    assert(batch->at->nlmsg_len <= NL_MESSAGE_MAX);
    batch->buf.len += NLMSG_ALIGN(batch->at->nlmsg_len);
    batch->at = NULL;
}

struct nlmsghdr *nl_begin(struct nl_batch *batch, uint16_t type, uint16_t flags, const void *head,
                          size_t head_len)
{
    nl_end(batch);
    batch->at = mnl_nlmsg_put_header(buf_reserve(&batch->buf, NL_MESSAGE_MAX));
    batch->at->nlmsg_type = type;
    batch->at->nlmsg_flags = flags | NLM_F_REQUEST;
    batch->at->nlmsg_seq = ++batch->count;
    memcpy(mnl_nlmsg_put_extra_header(batch->at, head_len), head, head_len);
    if (flags & NLM_F_ACK)
        batch->acks++;
    return batch->at;
}

int nl_open(int protocol, struct err *err)
{
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol);
    int on = 1, room = NL_BUFFER_BYTES;

    if (fd < 0)
        return err_errno(err, errno, "open a netlink socket");
    /* A table is sent as one batch, and each of its messages is answered before the first answer is read. */
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof(room));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
    /* Both only make answers better: short, and with words. */
    (void)setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &on, sizeof(on));
    (void)setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof(on));
    return fd;
}

int nl_listen(int protocol, const int *groups, size_t len, struct err *err)
{
    CLEANUP(fd_close) int fd = nl_open(protocol, err);
    struct sockaddr_nl own = {.nl_family = AF_NETLINK};

    if (fd < 0)
        return -1;
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || bind(fd, (struct sockaddr *)&own, sizeof(own)) < 0)
        return err_errno(err, errno, "listen to netlink");
    for (size_t i = 0; i < len; i++)
        if (setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &groups[i], sizeof(groups[i])) < 0)
            return err_errno(err, errno, "listen to group %d of netlink", groups[i]);
    return take_fd(&fd);
}

uint32_t nl_port(int fd)
{
    struct sockaddr_nl own = {0};
    socklen_t len = sizeof(own);

    return getsockname(fd, (struct sockaddr *)&own, &len) == 0 ? own.nl_pid : 0;
}

bool nl_heard(int fd, nl_fn fn, void *arg)
{
    char data[32768] __attribute__((aligned(NLMSG_ALIGNTO)));
    ssize_t n;

    while ((n = recv(fd, data, sizeof(data), MSG_DONTWAIT)) > 0 || (n < 0 && errno == EINTR)) {
        int left = n < 0 ? 0 : (int)n;

        for (const struct nlmsghdr *msg = (void *)data; mnl_nlmsg_ok(msg, left);
             msg = mnl_nlmsg_next(msg, &left))
            fn(arg, msg);
    }
    return n == 0 || errno == EAGAIN;
}

static int send_all(int fd, struct nl_batch *batch, struct err *err)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    ssize_t n;

    nl_end(batch);
    do
        n = sendto(fd, batch->buf.data, batch->buf.len, 0, (struct sockaddr *)&kernel, sizeof(kernel));
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return err_errno(err, errno, "send over netlink");
    return 0;
}

static void clear(struct nl_batch *batch)
{
    buf_clear(&batch->buf);
    batch->count = batch->acks = 0;
}

/* The kernel's sentence in an NLMSG_ERROR, or "". */
static void error_words(const struct nlmsghdr *msg, char *ret, size_t size)
{
    const struct nlmsgerr *e = mnl_nlmsg_get_payload(msg);
    const struct nlattr *attr;
    size_t skip = sizeof(*e);

    ret[0] = '\0';
    if (!(msg->nlmsg_flags & NLM_F_ACK_TLVS))
        return;
    if (!(msg->nlmsg_flags & NLM_F_CAPPED))
        skip += mnl_nlmsg_get_payload_len(&e->msg);
    mnl_attr_for_each(attr, msg, skip)
        if (mnl_attr_get_type(attr) == NLMSGERR_ATTR_MSG)
            nl_string(attr, ret, size);
}

static int set_error(const struct nlmsghdr *msg, struct err *err)
{
    const struct nlmsgerr *e = mnl_nlmsg_get_payload(msg);
    char words[200];

    error_words(msg, words, sizeof(words));
    if (words[0])
        return err_errno(err, -e->error, "netlink: %s", words);
    return err_errno(err, -e->error, "netlink");
}

static bool is_error(const struct nlmsghdr *msg)
{
    return msg->nlmsg_type == NLMSG_ERROR && mnl_nlmsg_get_payload_len(msg) >= sizeof(struct nlmsgerr);
}

int nl_send(int fd, struct nl_batch *batch, uint32_t *ret_failed, struct err *err)
{
    char data[16384] __attribute__((aligned(NLMSG_ALIGNTO)));
    uint32_t acks = batch->acks, got = 0;
    bool failed = false;
    ssize_t n;

    if (send_all(fd, batch, err) < 0) {
        clear(batch);
        return -1;
    }
    clear(batch);
    while ((n = recv(fd, data, sizeof(data), MSG_DONTWAIT)) > 0 || (n < 0 && errno == EINTR)) {
        int left = n < 0 ? 0 : (int)n;

        for (const struct nlmsghdr *msg = (void *)data; mnl_nlmsg_ok(msg, left);
             msg = mnl_nlmsg_next(msg, &left)) {
            if (!is_error(msg))
                continue;
            got++;
            if (((const struct nlmsgerr *)mnl_nlmsg_get_payload(msg))->error == 0 || failed)
                continue;
            failed = true;
            if (ret_failed)
                *ret_failed = msg->nlmsg_seq - 1;
            (void)set_error(msg, err);
        }
    }
    if (failed)
        return -1;
    if (got < acks)
        return err_set(err, ERR_INTERNAL, "netlink: %u of %u answers came", got, acks);
    return 0;
}

/* One reading of a dump into ret: 1 when the table changed meanwhile. */
static int read_dump(int fd, char *data, struct buf *ret, struct err *err)
{
    bool changed = false;

    for (;;) {
        ssize_t n = recv(fd, data, READ_MAX, 0);
        int left;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, errno, "read from netlink");
        if (n == 0)
            return err_set(err, ERR_SYSTEM, "netlink: the answer broke off");
        left = (int)n;
        for (const struct nlmsghdr *msg = (void *)data; mnl_nlmsg_ok(msg, left);
             msg = mnl_nlmsg_next(msg, &left)) {
            changed |= (msg->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
            if (msg->nlmsg_type == NLMSG_DONE)
                return changed;
            if (is_error(msg))
                return set_error(msg, err);
            buf_str(ret, (struct str){(const char *)msg, msg->nlmsg_len});
            while (ret->len % NLMSG_ALIGNTO)
                buf_putc(ret, 0);
        }
    }
}

/* The kernel counts its way through a table: when somebody else's entry goes while it is read, one of ours
 * may be left out. So it is read again until it stood still, or has been read often enough. */
int nl_dump(int fd, struct nl_batch *batch, nl_fn fn, void *arg, struct err *err)
{
    CLEANUP(free) char *data = mem_alloc(READ_MAX);
    CLEANUP(buf_done) struct buf answer = {0};
    int changed = 1, left;

    for (int i = 0; changed == 1 && i < DUMP_READINGS; i++) {
        buf_clear(&answer);
        if (send_all(fd, batch, err) < 0 || (changed = read_dump(fd, data, &answer, err)) < 0) {
            clear(batch);
            return -1;
        }
    }
    clear(batch);
    left = (int)answer.len;
    for (const struct nlmsghdr *msg = (void *)answer.data; left > 0 && mnl_nlmsg_ok(msg, left);
         msg = mnl_nlmsg_next(msg, &left))
        fn(arg, msg);
    return 0;
}

bool nl_attrs(const struct nlmsghdr *msg, size_t head_len, const struct nlattr **table, uint16_t max)
{
    const struct nlattr *attr;

    memset(table, 0, (max + (size_t)1) * sizeof(*table));
    if (mnl_nlmsg_get_payload_len(msg) < head_len)
        return false;
    mnl_attr_for_each(attr, msg, head_len) {
        uint16_t type = mnl_attr_get_type(attr);

        if (type <= max)
            table[type] = attr;
    }
    return true;
}

uint32_t nl_u32(const struct nlattr *attr)
{
    return attr ? mnl_attr_get_u32(attr) : 0;
}

void nl_string(const struct nlattr *attr, char *ret, size_t size)
{
    (void)snprintf(ret, size, "%.*s", attr ? (int)mnl_attr_get_payload_len(attr) : 0,
                   attr ? mnl_attr_get_str(attr) : "");
}
