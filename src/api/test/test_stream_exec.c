#include "base/clock.h"
#include "stream_util.h"

#define OK_STATUS "{\"metadata\":{},\"status\":\"Success\"}"

struct setup {
    struct loop *loop;
    struct fake_pod pod;
    struct fake_conn conn;
    struct wire *wire;
};

static void set_up(struct setup *t, int version, bool websocket, bool tty)
{
    static const char *const argv[] = {"cat", NULL};
    struct stream_exec_config config = {
        .pod = {"default", "web", "uid"},
        .exec = {.container = "c", .argv = argv, .tty = tty, .in = true, .out = true, .err = !tty},
        .version = version,
        .websocket = websocket};
    struct stream_exec *session;

    *t = (struct setup){.loop = loop_new()};
    fake_pod_init(&t->pod);
    config.loop = t->loop;
    config.ops = &t->pod.ops;
    session = stream_exec_new(&config, &t->wire);
    wire_open(t->wire, &fake_io, &t->conn);
    stream_exec_begin(session);
}

static void tear_down(struct setup *t)
{
    if (!t->conn.closed)
        wire_gone(t->wire);
    assert_int_equal(t->pod.freed, t->pod.started);
    buf_done(&t->conn.out);
    buf_done(&t->pod.in);
    loop_free(t->loop);
}

/* All of it in two pieces. */
static void feed_cut(struct setup *t, struct str data, size_t cut)
{
    if (cut > 0)
        wire_input(t->wire, (struct str){data.s, cut});
    if (!t->conn.closed && cut < data.len)
        wire_input(t->wire, (struct str){data.s + cut, data.len - cut});
}

static void client_message(struct buf *out, const char *bytes, size_t len)
{
    websocket_frame(out, WEBSOCKET_BINARY, true, (struct str){bytes, len});
}

static void test_websocket_channels_cut_at_every_byte(void **state)
{
    CLEANUP(buf_done) struct buf in = {0};

    (void)state;
    client_message(&in, "\0hello", 6);
    client_message(&in, "\4{\"Width\":80,\"Height\":24}\n", 25);
    websocket_frame(&in, WEBSOCKET_PING, true, STR("p"));
    client_message(&in, "\xff\0", 2);
    for (size_t cut = 0; cut < in.len; cut++) {
        struct setup t;

        set_up(&t, 5, true, true);
        feed_cut(&t, buf_view(&in), cut);
        assert_string_equal(t.pod.in.data, "hello");
        assert_true(t.pod.in_closed);
        assert_int_equal(t.pod.exec.cols, 80);
        assert_int_equal(t.pod.exec.rows, 24);
        t.pod.events.output(t.pod.arg, 1, STR("out"));
        t.pod.events.ended(t.pod.arg, 0, NULL);
        assert_true(t.conn.closed);
        assert_int_equal(t.conn.out.len, 3 + 6 + 3 + sizeof(OK_STATUS) - 1 + 4);
        assert_memory_equal(t.conn.out.data, "\x8a\1p\x82\4\1out\x82\x23\3" OK_STATUS "\x88\2\x03\xe8",
                            t.conn.out.len);
        tear_down(&t);
    }
}

static void test_a_terminal_starts_with_its_size_and_follows_it(void **state)
{
    CLEANUP(buf_done) struct buf in = {0};
    struct setup t;

    (void)state;
    set_up(&t, 5, true, true);
    assert_int_equal(t.pod.started, 0);
    client_message(&in, "\4{\"Width\":101,\"Height\":33}\n\4", 27);
    client_message(&in, "\4{\"Width\":90,\"Height\":20}\n", 26);
    wire_input(t.wire, buf_view(&in));
    assert_int_equal(t.pod.started, 1);
    assert_int_equal(t.pod.exec.rows, 33);
    assert_int_equal(t.pod.exec.cols, 101);
    assert_int_equal(t.pod.rows, 20);
    assert_int_equal(t.pod.cols, 90);
    tear_down(&t);
}

static void stop_loop(void *arg)
{
    loop_stop(arg);
}

static void test_a_terminal_without_a_size_starts_too(void **state)
{
    struct loop_timer *late;
    struct setup t;

    (void)state;
    set_up(&t, 5, true, true);
    late = loop_timer_new(t.loop, stop_loop, t.loop);
    loop_timer_set(late, (STREAM_SIZE_MSEC + 1) * NSEC_PER_MSEC);
    assert_int_equal(loop_run(t.loop, NULL), 0);
    assert_int_equal(t.pod.started, 1);
    assert_int_equal(t.pod.exec.rows, 0);
    loop_timer_free(late);
    tear_down(&t);
}

static void test_much_input_before_the_size_does_not_hold_up_the_start(void **state)
{
    CLEANUP(buf_done) struct buf in = {0};
    CLEANUP(free) char *much = calloc(1, WIRE_HIGH + 2);
    struct loop_timer *late;
    struct setup t;

    (void)state;
    set_up(&t, 5, true, true);
    client_message(&in, much, WIRE_HIGH + 2);
    wire_input(t.wire, buf_view(&in));
    assert_true(t.conn.paused);
    late = loop_timer_new(t.loop, stop_loop, t.loop);
    loop_timer_set(late, (STREAM_SIZE_MSEC + 1) * NSEC_PER_MSEC);
    assert_int_equal(loop_run(t.loop, NULL), 0);
    assert_int_equal(t.pod.started, 1);
    loop_timer_free(late);
    tear_down(&t);
}

static void spdy_streams(struct spdy *client, struct buf *in, bool stderr_too)
{
    open_stream(client, in, 1, false, "error", NULL, NULL);
    open_stream(client, in, 3, false, "stdin", NULL, NULL);
    open_stream(client, in, 5, false, "stdout", NULL, NULL);
    if (stderr_too)
        open_stream(client, in, 7, false, "stderr", NULL, NULL);
}

static void test_spdy_streams_cut_at_every_byte(void **state)
{
    CLEANUP(spdy_free) struct spdy *client = spdy_new();
    CLEANUP(buf_done) struct buf in = {0};

    (void)state;
    spdy_streams(client, &in, true);
    spdy_data(&in, 3, false, STR("hel"));
    spdy_ping(&in, 1);
    spdy_data(&in, 3, true, STR("lo"));
    for (size_t cut = 0; cut < in.len; cut++) {
        struct setup t;

        set_up(&t, 4, false, false);
        feed_cut(&t, buf_view(&in), cut);
        assert_string_equal(t.pod.in.data, "hello");
        assert_true(t.pod.in_closed);
        t.pod.events.output(t.pod.arg, 2, STR("oops"));
        t.pod.events.ended(t.pod.arg, 3, NULL);
        assert_frames(
            &t.conn,
            "reply 1\nreply 3\nreply 5\nreply 7\nping 1\ndata 7 [oops]\ndata 5 fin []\ndata 7 fin []\n"
            "data 1 fin [{\"metadata\":{},\"status\":\"Failure\",\"message\":\"command terminated with "
            "non-zero exit code: command terminated with exit code 3\",\"reason\":\"NonZeroExitCode\","
            "\"details\":{\"causes\":[{\"reason\":\"ExitCode\",\"message\":\"3\"}]}}]\ngoaway 7 0\n");
        assert_true(t.conn.closed);
        tear_down(&t);
    }
}

static void test_the_command_starts_when_all_streams_are_there(void **state)
{
    CLEANUP(spdy_free) struct spdy *client = spdy_new();
    CLEANUP(buf_done) struct buf in = {0};
    struct setup t;

    (void)state;
    set_up(&t, 4, false, false);
    spdy_streams(client, &in, false);
    wire_input(t.wire, buf_view(&in));
    assert_int_equal(t.pod.started, 0);
    buf_clear(&in);
    open_stream(client, &in, 7, false, "stderr", NULL, NULL);
    wire_input(t.wire, buf_view(&in));
    assert_int_equal(t.pod.started, 1);
    tear_down(&t);
}

static void test_before_version_4_the_status_is_a_sentence(void **state)
{
    CLEANUP(spdy_free) struct spdy *client = spdy_new();
    CLEANUP(buf_done) struct buf in = {0};
    struct setup t;

    (void)state;
    set_up(&t, 2, false, false);
    spdy_streams(client, &in, true);
    wire_input(t.wire, buf_view(&in));
    buf_clear(&t.conn.out);
    t.pod.events.ended(t.pod.arg, 3, NULL);
    assert_frames(&t.conn,
                  "data 5 fin []\ndata 7 fin []\ndata 1 fin [command terminated with non-zero exit code: "
                  "command terminated with exit code 3]\ngoaway 7 0\n");
    tear_down(&t);
}

static void test_a_refusal_goes_out_on_the_error_channel(void **state)
{
    struct setup t;

    (void)state;
    set_up(&t, 5, true, false);
    t.pod.events.ended(t.pod.arg, 0, &(struct err){.code = ERR_INTERNAL, .msg = "no \"x\""});
    assert_non_null(strstr(t.conn.out.data + 4, "\"reason\":\"InternalError\""));
    assert_non_null(strstr(t.conn.out.data + 4, "error executing command in container: no \\\"x\\\""));
    tear_down(&t);
}

static void test_streams_nobody_asked_for_are_refused(void **state)
{
    CLEANUP(spdy_free) struct spdy *client = spdy_new();
    CLEANUP(buf_done) struct buf in = {0};
    struct setup t;

    (void)state;
    set_up(&t, 4, false, false);
    open_stream(client, &in, 1, false, "error", NULL, NULL);
    open_stream(client, &in, 3, false, "error", NULL, NULL);
    open_stream(client, &in, 5, false, "resize", NULL, NULL);
    open_stream(client, &in, 7, false, "nonsense", NULL, NULL);
    wire_input(t.wire, buf_view(&in));
    assert_frames(&t.conn, "reply 1\nrst 3 3\nrst 5 3\nrst 7 1\n");
    tear_down(&t);
}

static void test_stream_ids_that_do_not_grow_end_the_connection(void **state)
{
    static const uint32_t bad[] = {2, 3, 1};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CLEANUP(spdy_free) struct spdy *client = spdy_new();
        CLEANUP(buf_done) struct buf in = {0};
        struct setup t;

        set_up(&t, 4, false, false);
        open_stream(client, &in, 3, false, "error", NULL, NULL);
        open_stream(client, &in, bad[i], false, "stdin", NULL, NULL);
        wire_input(t.wire, buf_view(&in));
        assert_frames(&t.conn, "reply 3\ngoaway 3 1\n");
        assert_true(t.conn.closed);
        tear_down(&t);
    }
}

static void test_a_slow_client_pauses_the_command(void **state)
{
    struct setup t;

    (void)state;
    set_up(&t, 5, true, false);
    t.conn.unsent = WIRE_HIGH;
    t.pod.events.output(t.pod.arg, 1, STR("x"));
    assert_false(t.pod.paused);
    t.conn.unsent = WIRE_HIGH + 1;
    t.pod.events.output(t.pod.arg, 1, STR("x"));
    assert_true(t.pod.paused);
    t.conn.unsent = 0;
    wire_drained(t.wire);
    assert_false(t.pod.paused);
    tear_down(&t);
}

static void test_a_command_that_does_not_read_pauses_the_client(void **state)
{
    CLEANUP(buf_done) struct buf in = {0};
    struct setup t;

    (void)state;
    set_up(&t, 5, true, false);
    t.pod.in_room = 2;
    client_message(&in, "\0hello", 6);
    client_message(&in, "\xff\0", 2);
    wire_input(t.wire, buf_view(&in));
    assert_true(t.conn.paused);
    assert_false(t.pod.in_closed);
    t.pod.in_room = 2;
    t.pod.events.writable(t.pod.arg);
    assert_true(t.conn.paused);
    t.pod.in_room = 100;
    t.pod.events.writable(t.pod.arg);
    assert_false(t.conn.paused);
    assert_string_equal(t.pod.in.data, "hello");
    assert_true(t.pod.in_closed);
    tear_down(&t);
}

static void test_a_client_that_floods_pings_is_not_read_until_it_reads(void **state)
{
    CLEANUP(buf_done) struct buf in = {0};
    struct setup t;

    (void)state;
    set_up(&t, 5, true, false);
    websocket_frame(&in, WEBSOCKET_PING, true, STR(""));
    t.conn.unsent = WIRE_FULL + 1;
    wire_input(t.wire, buf_view(&in));
    assert_true(t.conn.paused);
    t.conn.unsent = 0;
    wire_drained(t.wire);
    assert_false(t.conn.paused);
    tear_down(&t);
}

static void test_a_close_frame_is_answered_with_its_code(void **state)
{
    CLEANUP(buf_done) struct buf in = {0};
    struct setup t;

    (void)state;
    set_up(&t, 5, true, false);
    websocket_close_frame(&in, true, 1001, "bye");
    client_message(&in, "\0late", 5);
    wire_input(t.wire, buf_view(&in));
    assert_true(t.conn.closed);
    assert_memory_equal(t.conn.out.data, "\x88\2\x03\xe9", 4);
    assert_int_equal(t.pod.in.len, 0);
    tear_down(&t);
}

static void test_broken_frames_end_with_1002(void **state)
{
    struct setup t;

    (void)state;
    set_up(&t, 5, true, false);
    wire_input(t.wire, STR("\x82\x01x")); /* not masked */
    assert_true(t.conn.closed);
    assert_memory_equal(t.conn.out.data + 2, "\x03\xea", 2);
    tear_down(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_websocket_channels_cut_at_every_byte),
        cmocka_unit_test(test_a_terminal_starts_with_its_size_and_follows_it),
        cmocka_unit_test(test_a_terminal_without_a_size_starts_too),
        cmocka_unit_test(test_much_input_before_the_size_does_not_hold_up_the_start),
        cmocka_unit_test(test_spdy_streams_cut_at_every_byte),
        cmocka_unit_test(test_the_command_starts_when_all_streams_are_there),
        cmocka_unit_test(test_before_version_4_the_status_is_a_sentence),
        cmocka_unit_test(test_a_refusal_goes_out_on_the_error_channel),
        cmocka_unit_test(test_streams_nobody_asked_for_are_refused),
        cmocka_unit_test(test_stream_ids_that_do_not_grow_end_the_connection),
        cmocka_unit_test(test_a_slow_client_pauses_the_command),
        cmocka_unit_test(test_a_command_that_does_not_read_pauses_the_client),
        cmocka_unit_test(test_a_client_that_floods_pings_is_not_read_until_it_reads),
        cmocka_unit_test(test_a_close_frame_is_answered_with_its_code),
        cmocka_unit_test(test_broken_frames_end_with_1002),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
