#include "api/kube/portforward.h"
#include "stream_util.h"

#include <sys/socket.h>

/* One pod with a target that is the other end of a socket pair. */
struct setup {
    struct loop *loop;
    struct pod_ops ops;
    struct fake_conn conn;
    struct wire *wire;
    struct spdy *client;
    struct buf in;
    void (*done)(void *arg, int fd, const struct err *err);
    void *done_arg;
    unsigned dials, cancels;
    uint16_t port;
    int target; /* ours; -1: none */
};

static int fake_dial(void *arg, const struct pod_ref *pod, uint16_t port,
                     void (*done)(void *done_arg, int fd, const struct err *err), void *done_arg,
                     struct pod_dial **ret, struct err *err)
{
    struct setup *t = arg;

    (void)pod;
    (void)err;
    t->done = done;
    t->done_arg = done_arg;
    t->port = port;
    t->dials++;
    *ret = (struct pod_dial *)(void *)t;
    return 0;
}

static void fake_cancel(struct pod_dial *dial)
{
    ((struct setup *)(void *)dial)->cancels++;
}

static void set_up(struct setup *t, bool websocket)
{
    struct portforward_config config = {.pod = {"default", "web", "uid"}, .websocket = websocket};

    *t = (struct setup){.loop = loop_new(), .client = spdy_new(), .target = -1};
    t->ops = (struct pod_ops){.arg = t, .dial = fake_dial, .dial_cancel = fake_cancel};
    config.loop = t->loop;
    config.ops = &t->ops;
    t->wire = portforward_new(&config);
    wire_open(t->wire, &fake_io, &t->conn);
}

static void tear_down(struct setup *t)
{
    if (!t->conn.closed)
        wire_gone(t->wire);
    fd_close(t->target);
    spdy_free(t->client);
    buf_done(&t->in);
    buf_done(&t->conn.out);
    loop_free(t->loop);
}

static void send_in(struct setup *t)
{
    wire_input(t->wire, buf_view(&t->in));
    buf_clear(&t->in);
}

static void connect_target(struct setup *t)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    t->target = pair[0];
    t->done(t->done_arg, pair[1], NULL);
}

static void turn(struct setup *t)
{
    for (int i = 0; i < 4; i++)
        assert_int_equal(loop_turn(t->loop, 0, NULL), 0);
}

static void open_pair(struct setup *t)
{
    open_stream(t->client, &t->in, 1, true, "error", "80", "0");
    open_stream(t->client, &t->in, 3, false, "data", "80", "0");
    send_in(t);
}

static void assert_target_gets(struct setup *t, const char *text)
{
    char got[64] = "";

    assert_int_equal(recv(t->target, got, sizeof(got) - 1, MSG_DONTWAIT), strlen(text));
    assert_string_equal(got, text);
}

static void test_bytes_both_ways_and_both_ends(void **state)
{
    struct setup t;

    (void)state;
    set_up(&t, false);
    open_pair(&t);
    assert_int_equal(t.port, 80);
    spdy_data(&t.in, 3, false, STR("early "));
    send_in(&t);
    connect_target(&t);
    spdy_data(&t.in, 3, true, STR("hello"));
    send_in(&t);
    assert_target_gets(&t, "early hello");
    assert_int_equal(send(t.target, "answer", 6, 0), 6);
    turn(&t);
    shutdown(t.target, SHUT_WR);
    turn(&t);
    assert_frames(&t.conn, "reply 1\nreply 3\ndata 3 [answer]\ndata 3 fin []\ndata 1 fin []\n");
    tear_down(&t);
}

static void test_the_tunnel_may_be_cut_anywhere(void **state)
{
    CLEANUP(spdy_free) struct spdy *client = spdy_new();
    CLEANUP(buf_done) struct buf in = {0};

    (void)state;
    open_stream(client, &in, 1, true, "error", "80", "0");
    open_stream(client, &in, 3, false, "data", "80", "0");
    spdy_data(&in, 3, false, STR("hello"));
    for (size_t cut = 0; cut <= in.len; cut++) {
        struct setup t;

        set_up(&t, true);
        websocket_frame(&t.in, WEBSOCKET_BINARY, true, (struct str){in.data, cut});
        websocket_frame(&t.in, WEBSOCKET_BINARY, true, STR(""));
        websocket_frame(&t.in, WEBSOCKET_BINARY, true, (struct str){in.data + cut, in.len - cut});
        send_in(&t);
        assert_int_equal(t.dials, 1);
        connect_target(&t);
        assert_target_gets(&t, "hello");
        tear_down(&t);
    }
}

static void test_a_refused_connection_is_a_sentence_on_the_error_stream(void **state)
{
    struct setup t;

    (void)state;
    set_up(&t, false);
    open_pair(&t);
    t.done(t.done_arg, -1, &(struct err){.code = ERR_UNAVAILABLE, .msg = "connection refused"});
    assert_frames(&t.conn,
                  "reply 1\nreply 3\ndata 3 fin []\ndata 1 fin [error forwarding port 80 to pod web, uid "
                  "uid: connection refused]\n");
    tear_down(&t);
}

static void test_a_reset_abandons_the_connection(void **state)
{
    struct setup t;
    char byte;

    (void)state;
    set_up(&t, false);
    open_pair(&t);
    connect_target(&t);
    spdy_rst_stream(&t.in, 3, 5);
    send_in(&t);
    assert_int_equal(recv(t.target, &byte, 1, 0), 0);
    assert_frames(&t.conn, "reply 1\nreply 3\ndata 1 fin []\n");
    tear_down(&t);
}

static void test_a_client_that_leaves_cancels_what_is_dialled(void **state)
{
    struct setup t;

    (void)state;
    set_up(&t, false);
    open_pair(&t);
    wire_gone(t.wire);
    assert_int_equal(t.cancels, 1);
    tear_down(&t);
}

static void test_streams_that_make_no_sense_are_refused(void **state)
{
    struct setup t;

    (void)state;
    set_up(&t, false);
    open_stream(t.client, &t.in, 1, false, "data", "0", "1");
    open_stream(t.client, &t.in, 3, false, "data", "x", "2");
    open_stream(t.client, &t.in, 5, false, "stdin", "80", "3");
    open_stream(t.client, &t.in, 7, false, "error", "80", "4");
    open_stream(t.client, &t.in, 9, false, "error", "80", "4");
    open_stream(t.client, &t.in, 11, false, "data", "81", "4");
    send_in(&t);
    assert_frames(&t.conn, "rst 1 1\nrst 3 1\nrst 5 1\nreply 7\nrst 9 1\nrst 11 1\n");
    assert_int_equal(t.dials, 0);
    tear_down(&t);
}

static void test_one_client_has_so_many_connections(void **state)
{
    struct setup t;
    char request[16];

    (void)state;
    set_up(&t, false);
    for (uint32_t i = 0; i < PORTFORWARD_MAX; i++) {
        snprintf(request, sizeof(request), "%u", i);
        open_stream(t.client, &t.in, 2 * i + 1, true, "error", "80", request);
    }
    send_in(&t);
    buf_clear(&t.conn.out);
    open_stream(t.client, &t.in, 2 * PORTFORWARD_MAX + 1, true, "error", "80", "more");
    send_in(&t);
    assert_int_equal(t.conn.out.len, 16); /* one RST_STREAM */
    assert_int_equal(t.conn.out.data[15], 3);
    tear_down(&t);
}

static void test_a_target_that_does_not_read_pauses_the_client(void **state)
{
    CLEANUP(buf_done) struct buf big = {0};
    struct setup t;
    size_t got = 0;
    ssize_t len;

    (void)state;
    memset(buf_reserve(&big, 1 << 20), 'x', 1 << 20);
    big.len = 1 << 20;
    set_up(&t, false);
    open_pair(&t);
    connect_target(&t);
    spdy_data(&t.in, 3, true, buf_view(&big));
    send_in(&t);
    assert_true(t.conn.paused);
    while (got < big.len) {
        while ((len = recv(t.target, buf_reserve(&t.in, 65536), 65536, MSG_DONTWAIT)) > 0)
            got += (size_t)len;
        turn(&t);
    }
    assert_false(t.conn.paused);
    assert_int_equal(got, big.len);
    assert_int_equal(recv(t.target, buf_reserve(&t.in, 1), 1, 0), 0);
    tear_down(&t);
}

static void test_a_client_that_does_not_read_pauses_the_target(void **state)
{
    struct setup t;

    (void)state;
    set_up(&t, false);
    open_pair(&t);
    connect_target(&t);
    t.conn.unsent = WIRE_HIGH + 1;
    assert_int_equal(send(t.target, "one", 3, 0), 3);
    turn(&t);
    assert_int_equal(send(t.target, "two", 3, 0), 3);
    shutdown(t.target, SHUT_WR);
    turn(&t);
    assert_frames(&t.conn, "reply 1\nreply 3\ndata 3 [one]\n");
    t.conn.unsent = 0;
    wire_drained(t.wire);
    turn(&t);
    assert_frames(&t.conn, "reply 1\nreply 3\ndata 3 [one]\ndata 3 [two]\ndata 3 fin []\ndata 1 fin []\n");
    tear_down(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_both_ways_and_both_ends),
        cmocka_unit_test(test_the_tunnel_may_be_cut_anywhere),
        cmocka_unit_test(test_a_refused_connection_is_a_sentence_on_the_error_stream),
        cmocka_unit_test(test_a_reset_abandons_the_connection),
        cmocka_unit_test(test_a_client_that_leaves_cancels_what_is_dialled),
        cmocka_unit_test(test_streams_that_make_no_sense_are_refused),
        cmocka_unit_test(test_one_client_has_so_many_connections),
        cmocka_unit_test(test_a_target_that_does_not_read_pauses_the_client),
        cmocka_unit_test(test_a_client_that_does_not_read_pauses_the_target),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
