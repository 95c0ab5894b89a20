/* netlink - see netlink.h.
 *
 * rtnetlink and nf_tables both do their work inside the sender's sendmsg, so every answer is in the
 * socket when that returns: answers are read without waiting, and a lost one cannot hang us. */
#include "podnet/netlink.h"

#include "base/mem.h"

#include <errno.h>
#include <sys/socket.h>

#define NL_BUFFER_BYTES (8 << 20)
#define READ_MAX        (256 << 10) /* dumps come in pieces of at most this */

static struct nlmsghdr *current(struct nl_batch *batch)
{
    return (struct nlmsghdr *)(void *)(batch->buf.data + batch->start);
}

static void add_padded(struct nl_batch *batch, const void *data, size_t len)
{
    static const char zero[NLA_ALIGNTO];

    if (len)
        buf_add(&batch->buf, data, len);
    buf_add(&batch->buf, zero, NLA_ALIGN(len) - len);
    current(batch)->nlmsg_len = (uint32_t)(batch->buf.len - batch->start);
}

void nl_begin(struct nl_batch *batch, uint16_t type, uint16_t flags, const void *head, size_t head_len)
{
    struct nlmsghdr msg = {
        .nlmsg_len = sizeof(msg),
        .nlmsg_type = type,
        .nlmsg_flags = flags | NLM_F_REQUEST,
        .nlmsg_seq = ++batch->count,
    };

    batch->start = batch->buf.len;
    buf_add(&batch->buf, &msg, sizeof(msg));
    add_padded(batch, head, head_len);
    if (flags & NLM_F_ACK)
        batch->acks++;
}

void nl_attr(struct nl_batch *batch, uint16_t type, const void *data, size_t len)
{
    struct nlattr attr = {.nla_len = (uint16_t)(NLA_HDRLEN + len), .nla_type = type};

    buf_add(&batch->buf, &attr, sizeof(attr));
    add_padded(batch, data, len);
}

void nl_attr_u8(struct nl_batch *batch, uint16_t type, uint8_t value)
{
    nl_attr(batch, type, &value, sizeof(value));
}

void nl_attr_u32(struct nl_batch *batch, uint16_t type, uint32_t value)
{
    nl_attr(batch, type, &value, sizeof(value));
}

void nl_attr_be32(struct nl_batch *batch, uint16_t type, uint32_t value)
{
    nl_attr_u32(batch, type, __builtin_bswap32(value));
}

void nl_attr_str(struct nl_batch *batch, uint16_t type, const char *s)
{
    nl_attr(batch, type, s, strlen(s) + 1);
}

size_t nl_nest(struct nl_batch *batch, uint16_t type)
{
    size_t at = batch->buf.len;

    nl_attr(batch, type | NLA_F_NESTED, NULL, 0);
    return at;
}

void nl_nest_end(struct nl_batch *batch, size_t at)
{
    struct nlattr *attr = (struct nlattr *)(void *)(batch->buf.data + at);

    attr->nla_len = (uint16_t)(batch->buf.len - at);
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

static int send_all(int fd, const struct nl_batch *batch, struct err *err)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    ssize_t n;

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
    batch->start = batch->count = batch->acks = 0;
}

/* The kernel's sentence in an NLMSG_ERROR, or "". */
static void error_words(const struct nlmsghdr *msg, char *ret, size_t size)
{
    const struct nlmsgerr *e = NLMSG_DATA(msg);
    const struct nlattr *table[NLMSGERR_ATTR_MSG + 1];
    size_t skip = sizeof(*e);

    ret[0] = '\0';
    if (!(msg->nlmsg_flags & NLM_F_ACK_TLVS))
        return;
    if (!(msg->nlmsg_flags & NLM_F_CAPPED))
        skip += e->msg.nlmsg_len - sizeof(e->msg);
    if (nl_parse_msg(msg, NLMSG_ALIGN(skip), table, NLMSGERR_ATTR_MSG))
        nl_string(table[NLMSGERR_ATTR_MSG], ret, size);
}

static int set_error(const struct nlmsghdr *msg, struct err *err)
{
    const struct nlmsgerr *e = NLMSG_DATA(msg);
    char words[200];

    error_words(msg, words, sizeof(words));
    if (words[0])
        return err_errno(err, -e->error, "netlink: %s", words);
    return err_errno(err, -e->error, "netlink");
}

static bool is_error(const struct nlmsghdr *msg)
{
    return msg->nlmsg_type == NLMSG_ERROR && msg->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr));
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
        uint32_t left = n < 0 ? 0 : (uint32_t)n;

        for (struct nlmsghdr *msg = (void *)data; NLMSG_OK(msg, left); msg = NLMSG_NEXT(msg, left)) {
            if (!is_error(msg))
                continue;
            got++;
            if (((struct nlmsgerr *)NLMSG_DATA(msg))->error == 0 || failed)
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

/* One reading of a dump: 1 when the table changed meanwhile. */
static int read_dump(int fd, char *data, nl_fn fn, void *arg, struct err *err)
{
    bool changed = false;

    for (;;) {
        ssize_t n = recv(fd, data, READ_MAX, 0);
        uint32_t left;

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return err_errno(err, errno, "read from netlink");
        if (n == 0)
            return err_set(err, ERR_SYSTEM, "netlink: the answer broke off");
        left = (uint32_t)n;
        for (struct nlmsghdr *msg = (void *)data; NLMSG_OK(msg, left); msg = NLMSG_NEXT(msg, left)) {
            changed |= (msg->nlmsg_flags & NLM_F_DUMP_INTR) != 0;
            if (msg->nlmsg_type == NLMSG_DONE)
                return changed;
            if (is_error(msg))
                return set_error(msg, err);
            fn(arg, msg);
        }
    }
}

/* A changed table is not read again: the callers look for what is theirs, and nobody else changes that. */
int nl_dump(int fd, struct nl_batch *batch, nl_fn fn, void *arg, struct err *err)
{
    CLEANUP(free) char *data = mem_alloc(READ_MAX);
    int status = send_all(fd, batch, err);

    clear(batch);
    if (status < 0)
        return -1;
    return read_dump(fd, data, fn, arg, err) < 0 ? -1 : 0;
}

void nl_parse(const struct nlattr **table, uint16_t max, const void *data, size_t len)
{
    const char *at = data;

    memset(table, 0, (max + (size_t)1) * sizeof(*table));
    while (len >= NLA_HDRLEN) {
        const struct nlattr *attr = (const void *)at;
        size_t step = NLA_ALIGN(attr->nla_len);
        uint16_t type = attr->nla_type & NLA_TYPE_MASK;

        if (attr->nla_len < NLA_HDRLEN || attr->nla_len > len)
            return;
        if (type <= max)
            table[type] = attr;
        if (step >= len)
            return;
        at += step;
        len -= step;
    }
}

bool nl_parse_msg(const struct nlmsghdr *msg, size_t head_len, const struct nlattr **table, uint16_t max)
{
    size_t skip = NLMSG_HDRLEN + NLMSG_ALIGN(head_len);

    if (msg->nlmsg_len < NLMSG_HDRLEN + head_len)
        return false;
    if (skip > msg->nlmsg_len)
        skip = msg->nlmsg_len;
    nl_parse(table, max, (const char *)msg + skip, msg->nlmsg_len - skip);
    return true;
}

uint32_t nl_u32(const struct nlattr *attr)
{
    uint32_t value = 0;

    if (attr && nl_len(attr) >= sizeof(value))
        memcpy(&value, nl_data(attr), sizeof(value));
    return value;
}

void nl_string(const struct nlattr *attr, char *ret, size_t size)
{
    size_t len = attr ? strnlen(nl_data(attr), nl_len(attr)) : 0;

    if (len >= size)
        len = size - 1;
    if (len)
        memcpy(ret, nl_data(attr), len);
    ret[len] = '\0';
}
