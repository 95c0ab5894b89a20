/* sendq - see sendq.h. What was sent is dropped in pieces of DROP_BYTES: a writer that is as fast as the
 * reader never lets the queue drain, and its memory must not grow with all that has passed. */
#include "machine/sendq.h"

#include <errno.h>
#include <sys/socket.h>

#define DROP_BYTES (512 << 10)

void sendq_done(struct sendq *q)
{
    buf_done(&q->buf);
    q->at = 0;
}

void sendq_add(struct sendq *q, struct str data)
{
    buf_str(&q->buf, data);
}

void sendq_flush(struct sendq *q, int fd)
{
    while (sendq_len(q) > 0) {
        ssize_t n = send(fd, q->buf.data + q->at, sendq_len(q), MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        q->at += (size_t)n;
    }
    if (sendq_len(q) == 0 || q->at >= DROP_BYTES) {
        buf_drop(&q->buf, q->at);
        q->at = 0;
    }
}
