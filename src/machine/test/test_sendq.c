/* Bytes on their way to a slow socket. */
#include "base/test/test.h"
#include "machine/sendq.h"

#include <sys/socket.h>
#include <unistd.h>

#define PIECE (64 << 10)

/* Reads up to n bytes, each of which must be the next of the sequence. */
static void read_some(int fd, size_t n, uint8_t *next)
{
    static uint8_t data[PIECE];
    ssize_t got = recv(fd, data, n, MSG_DONTWAIT);

    for (ssize_t i = 0; i < got; i++)
        assert_int_equal(data[i], (*next)++);
}

static void test_queue_that_never_drains_stays_small_and_in_order(void **state)
{
    CLEANUP(sendq_done) struct sendq q = {0};
    static char piece[PIECE];
    uint8_t next = 0;
    int fds[2];

    (void)state;
    for (size_t i = 0; i < sizeof(piece); i++)
        piece[i] = (char)(uint8_t)i; /* a multiple of 256 */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    for (int i = 0; i < 16; i++)
        sendq_add(&q, (struct str){piece, sizeof(piece)});
    for (int i = 0; i < 2000; i++) { /* 125 MiB pass */
        sendq_add(&q, (struct str){piece, sizeof(piece)});
        sendq_flush(&q, fds[0]);
        assert_true(sendq_len(&q) > 0);
        for (size_t left = PIECE; left > 0; left -= PIECE / 4)
            read_some(fds[1], PIECE / 4, &next);
    }
    assert_true(q.buf.cap < (8 << 20));
    close(fds[0]);
    close(fds[1]);
}

static void test_drained_queue_is_empty(void **state)
{
    CLEANUP(sendq_done) struct sendq q = {0};
    int fds[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    sendq_add(&q, STR("abc"));
    assert_int_equal(sendq_len(&q), 3);
    sendq_flush(&q, fds[0]);
    assert_int_equal(sendq_len(&q), 0);
    assert_int_equal(q.buf.len, 0);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_queue_that_never_drains_stays_small_and_in_order),
        cmocka_unit_test(test_drained_queue_is_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
