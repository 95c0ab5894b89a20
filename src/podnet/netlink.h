/* netlink - messages to the kernel's network tables, built and read with libmnl: a batch of them is sent at
 * once and every answer is looked at. */
#pragma once

#include "base/buf.h"
#include "base/err.h"

#include <libmnl/libmnl.h>

#define NL_MESSAGE_MAX 8192 /* bytes that one message may have */

/* Messages that are sent together. Zero-initialised is empty. */
struct nl_batch {
    struct buf buf;      /* the finished messages, and room for the one being built */
    struct nlmsghdr *at; /* the one being built, or NULL */
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

/* A new message with its family's own header, to which mnl_attr_put() and its kin add attributes until the
 * next is begun. NLM_F_REQUEST is added. */
struct nlmsghdr *nl_begin(struct nl_batch *batch, uint16_t type, uint16_t flags, const void *head,
                          size_t head_len);
void nl_end(struct nl_batch *batch); /* of the last message; nl_send and nl_dump do it themselves */

/* A socket of NETLINK_ROUTE, NETLINK_NETFILTER …, in the calling thread's namespace; -1 with errno in err. */
int nl_open(int protocol, struct err *err);
/* A nonblocking socket that hears what anybody changes, of these groups (RTNLGRP_…, NFNLGRP_…). */
int nl_listen(int protocol, const int *groups, size_t len, struct err *err);
uint32_t nl_port(int fd); /* what the kernel calls the socket: nlmsg_pid of changes made by it */
/* Sends the batch and reads all answers; empties it. Fails with the first error, in the kernel's words where
 * it has some; err->sys is the errno. *ret_failed (may be NULL) gets the place of that message, from 0. */
int nl_send(int fd, struct nl_batch *batch, uint32_t *ret_failed, struct err *err);
/* Sends the one message of the batch, a dump, and calls fn for each message of the answer: of one reading in
 * which the table did not change, as far as that can be had. */
typedef void (*nl_fn)(void *arg, const struct nlmsghdr *msg);
int nl_dump(int fd, struct nl_batch *batch, nl_fn fn, void *arg, struct err *err);
/* Of nl_listen: calls fn for each message that has come; false: some were lost. */
bool nl_heard(int fd, nl_fn fn, void *arg);

/* The attributes behind a family header of head_len bytes, by type into table[max + 1], NULL where absent;
 * false: the message is shorter than that header. */
bool nl_attrs(const struct nlmsghdr *msg, size_t head_len, const struct nlattr **table, uint16_t max);
uint32_t nl_u32(const struct nlattr *attr);                        /* 0 when NULL */
void nl_string(const struct nlattr *attr, char *ret, size_t size); /* "" when NULL; cut to fit */
