/* netlink - messages to the kernel's network tables: building them, sending a batch, reading answers. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <linux/netlink.h>
#include <stdbool.h>
#include <stdint.h>

/* Messages that are sent together. Zero-initialised is empty; buf_done(&batch.buf) releases. */
struct nl_batch {
    struct buf buf;
    size_t start; /* of the message being built */
    uint32_t count;
    uint32_t acks; /* how many answers to expect */
};
static inline void nl_batch_done(struct nl_batch *batch)
{
    buf_done(&batch->buf);
}
static inline void nl_batch_done_cleanup_(struct nl_batch *batch)
{
    nl_batch_done(batch);
}

/* A new message with its family's own header; attributes follow. NLM_F_REQUEST is added. */
void nl_begin(struct nl_batch *batch, uint16_t type, uint16_t flags, const void *head, size_t head_len);
void nl_attr(struct nl_batch *batch, uint16_t type, const void *data, size_t len);
void nl_attr_u8(struct nl_batch *batch, uint16_t type, uint8_t value);
void nl_attr_u32(struct nl_batch *batch, uint16_t type, uint32_t value);
void nl_attr_be32(struct nl_batch *batch, uint16_t type, uint32_t value);
void nl_attr_str(struct nl_batch *batch, uint16_t type, const char *s);
size_t nl_nest(struct nl_batch *batch, uint16_t type); /* what nl_nest_end takes */
void nl_nest_end(struct nl_batch *batch, size_t at);

/* A socket of NETLINK_ROUTE, NETLINK_NETFILTER …, in the calling thread's namespace; -1 with errno in err. */
int nl_open(int protocol, struct err *err);
/* Sends the batch and reads all answers; empties it. Fails with the first error, in the kernel's words where
 * it has some; err->sys is the errno. *ret_failed (may be NULL) gets the place of that message, from 0. */
int nl_send(int fd, struct nl_batch *batch, uint32_t *ret_failed, struct err *err);
/* Sends the one message of the batch, a dump, and calls fn for each message of the answer. */
typedef void (*nl_fn)(void *arg, const struct nlmsghdr *msg);
int nl_dump(int fd, struct nl_batch *batch, nl_fn fn, void *arg, struct err *err);

/* Attributes by type into table[max + 1], NULL where absent. Malformed ones end it. */
void nl_parse(const struct nlattr **table, uint16_t max, const void *data, size_t len);
/* Those of a message, after a family header of head_len bytes; false: too short. */
bool nl_parse_msg(const struct nlmsghdr *msg, size_t head_len, const struct nlattr **table, uint16_t max);
static inline const void *nl_data(const struct nlattr *attr)
{
    return (const char *)attr + NLA_HDRLEN;
}
static inline size_t nl_len(const struct nlattr *attr)
{
    return attr->nla_len - (size_t)NLA_HDRLEN;
}
uint32_t nl_u32(const struct nlattr *attr);                        /* 0 when NULL or short */
void nl_string(const struct nlattr *attr, char *ret, size_t size); /* "" when NULL; cut to fit */
