#include "net/tls_bio.h"

#include "base/mem.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>

struct tls_bio {
    int fd;
    bool eof;
    struct buf *batch; /* NULL: not collecting */
    struct buf held;   /* what the socket did not take; goes before everything else */
};

static ssize_t send_some(int fd, const void *data, size_t len)
{
    ssize_t sent;

    do
        sent = send(fd, data, len, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent;
}

static int bio_write(BIO *bio, const char *data, int len)
{
    struct tls_bio *tls = BIO_get_data(bio);
    ssize_t sent;

    BIO_clear_retry_flags(bio);
    if (len <= 0)
        return 0;
    if (tls->batch || tls->held.len > 0) {
        buf_add(tls->batch ? tls->batch : &tls->held, data, (size_t)len);
        return len;
    }
    sent = send_some(tls->fd, data, (size_t)len);
    if (sent < 0 && errno == EAGAIN)
        BIO_set_retry_write(bio);
    return (int)sent;
}

static int bio_read(BIO *bio, char *data, int len)
{
    struct tls_bio *tls = BIO_get_data(bio);
    ssize_t got;

    BIO_clear_retry_flags(bio);
    do
        got = recv(tls->fd, data, (size_t)len, 0);
    while (got < 0 && errno == EINTR);
    if (got < 0 && errno == EAGAIN)
        BIO_set_retry_read(bio);
    tls->eof |= got == 0;
    return (int)got;
}

static long bio_ctrl(BIO *bio, int cmd, long num, void *ptr)
{
    const struct tls_bio *tls = BIO_get_data(bio);

    (void)num, (void)ptr;
    if (cmd == BIO_CTRL_EOF) /* tells the end of the stream from an error */
        return tls->eof;
    return cmd == BIO_CTRL_FLUSH;
}

static int bio_destroy(BIO *bio)
{
    struct tls_bio *tls = BIO_get_data(bio);

    if (tls)
        buf_done(&tls->held);
    free(tls);
    BIO_set_data(bio, NULL);
    return 1;
}

static BIO_METHOD *method;

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "berth socket");
    if (!method)
        return;
    BIO_meth_set_write(method, bio_write);
    BIO_meth_set_read(method, bio_read);
    BIO_meth_set_ctrl(method, bio_ctrl);
    BIO_meth_set_destroy(method, bio_destroy);
}

BIO *tls_bio_new(int fd)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct tls_bio *tls;
    BIO *bio;

    pthread_once(&once, make_method);
    bio = method ? BIO_new(method) : NULL;
    if (!bio)
        return NULL;
    tls = NEW(struct tls_bio);
    tls->fd = fd;
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    return bio;
}

void tls_bio_batch(BIO *bio, struct buf *batch)
{
    struct tls_bio *tls = BIO_get_data(bio);

    tls->batch = batch;
}

/* Sends from the front of buf; what is left stays there. */
static int send_buf(int fd, struct buf *buf)
{
    ssize_t sent;

    if (buf->len == 0)
        return 1;
    sent = send_some(fd, buf->data, buf->len);
    if (sent < 0)
        return errno == EAGAIN ? 0 : -1;
    buf_drop(buf, (size_t)sent);
    return buf->len == 0;
}

int tls_bio_flush(BIO *bio)
{
    struct tls_bio *tls = BIO_get_data(bio);
    struct buf *batch = TAKE_PTR(tls->batch);
    int result = send_buf(tls->fd, &tls->held);

    if (result > 0)
        buf_done(&tls->held);
    if (!batch)
        return result;
    if (result > 0)
        result = send_buf(tls->fd, batch);
    if (result == 0)
        buf_str(&tls->held, buf_view(batch));
    buf_clear(batch);
    return result;
}

size_t tls_bio_held(BIO *bio)
{
    const struct tls_bio *tls = BIO_get_data(bio);

    return tls->held.len;
}
