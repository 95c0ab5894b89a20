/* sendq - bytes on their way to a socket that takes them when it can. Zero-initialised is empty. */
#pragma once

#include "base/buf.h"

struct sendq {
    struct buf buf;
    size_t at; /* bytes at its front that were sent */
};

void sendq_done(struct sendq *q); /* leaves it empty and usable */
static inline void sendq_done_cleanup_(struct sendq *q)
{
    sendq_done(q);
}
void sendq_add(struct sendq *q, struct str data);
void sendq_flush(struct sendq *q, int fd); /* as much as the socket takes now; errors show at its other end */
static inline size_t sendq_len(const struct sendq *q)
{
    return q->buf.len - q->at;
}
