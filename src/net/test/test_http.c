#include "base/clock.h"
#include "base/mem.h"
#include "net/test/fixture.h"

#include <stdio.h>
#include <sys/socket.h>

static int setup(void **state)
{
    *state = fixture_new(NULL);
    return 0;
}

static int teardown(void **state)
{
    fixture_free(*state);
    return 0;
}

static void test_connection_is_kept_alive(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 3; i++)
        fixture_ask(f, GET("/hello"), HELLO);
    assert_false(f->eof);
}

static void test_request_in_single_bytes_is_understood(void **state)
{
    static const char text[] = "POST /x?q HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(text) - 1; i++) {
        fixture_send(f, (struct str){text + i, 1});
        loop_turn(f->loop, 0, NULL);
    }
    fixture_expect(f, OK_HEAD(16) "POST /x ?q [abc]");
    assert_null(f->conn->in.data);
}

static void test_pipelined_requests_of_one_read_share_a_turn(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, STR(GET("/hello") GET("/a") GET("/hello")));
    loop_turn(f->loop, 0, NULL);
    assert_int_equal(f->requests, 3);
    fixture_expect(f, HELLO OK_HEAD(11) "GET /a ? []" HELLO);
}

static void test_answers_leave_in_the_order_of_requests(void **state)
{
    struct fixture *f = *state;

    fixture_ask(f, GET("/hold") GET("/hold") GET("/stream") GET("/hello"), "");
    assert_int_equal(f->requests, 4);
    http_stream_write(f->held[2], STR("abc"));
    http_reply(f->held[1], 200, "text/plain", NULL, 0, STR("2"));
    fixture_expect(f, "");
    http_reply(f->held[0], 200, "text/plain", NULL, 0, STR("1"));
    fixture_expect(f, OK_HEAD(1) "1" OK_HEAD(1) "2"
                                                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
                                                "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
    http_stream_write(f->held[2], STR("d"));
    http_stream_end(f->held[2]);
    fixture_expect(f, "1\r\nd\r\n0\r\n\r\n" HELLO);
}

static void test_pipeline_has_a_limit_and_goes_on_later(void **state)
{
    struct fixture *f = *state;
    size_t answered = 0;

    for (int i = 0; i < HTTP_PIPELINE_MAX + 5; i++)
        fixture_send(f, STR(GET("/quiet")));
    fixture_turn(f);
    assert_int_equal(f->requests, HTTP_PIPELINE_MAX);
    while (answered < f->held_count) {
        http_reply(f->held[answered++], 204, NULL, NULL, 0, STR(""));
        fixture_turn(f);
    }
    assert_int_equal(answered, HTTP_PIPELINE_MAX + 5);
}

static void test_unread_answers_stop_further_requests(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 10; i++)
        fixture_send(f, STR(GET("/big")));
    for (int i = 0; i < 10; i++)
        loop_turn(f->loop, 0, NULL);
    assert_int_equal(f->requests, 1);
    fixture_turn(f);
    assert_int_equal(f->requests, 10);
    assert_int_equal(f->conn->unsent, 0);
}

static void test_expect_continue_is_answered_before_the_body(void **state)
{
    struct fixture *f = *state;

    fixture_ask(f, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n",
                "HTTP/1.1 100 Continue\r\n\r\n");
    fixture_ask(f, "ab", OK_HEAD(13) "POST / ? [ab]");
}

#define REFUSED(line, len, text)                                                                             \
    "HTTP/1.1 " line                                                                                         \
    "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\nContent-Length: " #len              \
    "\r\n\r\n" text "\n"

static void test_expect_continue_with_too_large_a_body_is_refused_at_once(void **state)
{
    struct fixture *f = *state;

    fixture_ask(f, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 16777217\r\nExpect: 100-continue\r\n\r\n",
                REFUSED("413 Content Too Large", 41, "Content Too Large: the body is too large"));
    assert_true(f->eof);
    assert_int_equal(f->requests, 0);
}

static void test_head_answers_length_without_body(void **state)
{
    fixture_ask(*state, "HEAD /hello HTTP/1.1\r\nHost: h\r\n\r\n" GET("/hello"), OK_HEAD(5) HELLO);
    fixture_ask(*state, "HEAD /big HTTP/1.1\r\nHost: h\r\n\r\n", OK_HEAD(9437184));
}

static void test_head_of_a_stream_has_no_body(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, STR("HEAD /stream HTTP/1.1\r\nHost: h\r\n\r\n"));
    fixture_turn(f);
    http_stream_write(f->held[0], STR("x"));
    http_stream_end(f->held[0]);
    fixture_expect(f, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n");
    fixture_ask(f, GET("/hello"), HELLO);
}

static void test_204_has_neither_body_nor_length(void **state)
{
    struct fixture *f = *state;

    fixture_ask(f, GET("/quiet"), "");
    http_reply(f->held[0], 204, NULL, NULL, 0, STR("ignored"));
    fixture_expect(f, "HTTP/1.1 204 No Content\r\n\r\n");
}

static void test_chunked_body_is_joined(void **state)
{
    fixture_ask(*state,
                "POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
                "3\r\nabc\r\n2;x\r\nde\r\n0\r\nT: v\r\n\r\n" GET("/hello"),
                OK_HEAD(17) "POST /c ? [abcde]" HELLO);
}

static void test_chunked_body_over_the_limit_is_refused(void **state)
{
    struct fixture *f = fixture_new(&(struct http_config){.body_max = 4});

    (void)state;
    fixture_ask(f, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\n", "");
    fixture_ask(f, "de", REFUSED("413 Content Too Large", 41, "Content Too Large: the body is too large"));
    assert_true(f->eof);
    fixture_free(f);
}

static void test_bad_chunk_is_refused(void **state)
{
    struct fixture *f = *state;

    fixture_ask(f, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
                REFUSED("400 Bad Request", 30, "Bad Request: a bad chunk size"));
    assert_true(f->eof);
}

static void test_bad_request_is_refused_after_earlier_answers(void **state)
{
    struct fixture *f = *state;

    fixture_ask(f, GET("/hold") "GET / HTTP/1.1\r\n\r\n" GET("/hello"), "");
    assert_int_equal(f->requests, 1);
    http_reply(f->held[0], 200, "text/plain", NULL, 0, STR("1"));
    fixture_expect(f, OK_HEAD(1) "1" REFUSED("400 Bad Request", 28, "Bad Request: no Host header"));
    assert_true(f->eof);
}

static void test_head_that_is_too_large_is_refused(void **state)
{
    struct fixture *f = *state;
    CLEANUP(free) char *filler = mem_alloc(HTTP_HEAD_MAX);

    memset(filler, 'a', HTTP_HEAD_MAX);
    fixture_send(f, STR("GET /"));
    fixture_send(f, (struct str){filler, HTTP_HEAD_MAX});
    fixture_turn(f);
    assert_true(starts_with(f->got.data, "HTTP/1.1 431 "));
    assert_true(f->eof);
}

static void test_http_1_0_closes_unless_asked_not_to(void **state)
{
    struct fixture *f = *state;

    fixture_ask(
        f, "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\n"
        "hello");
    assert_false(f->eof);
    fixture_ask(
        f, "GET /hello HTTP/1.0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 5\r\n\r\n"
        "hello");
    assert_true(f->eof);
}

static void test_stream_to_http_1_0_ends_with_the_connection(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, STR("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
    fixture_turn(f);
    http_stream_write(f->held[0], STR("abc"));
    http_stream_end(f->held[0]);
    fixture_expect(f, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nabc");
    assert_true(f->eof);
}

static void test_gone_is_called_when_the_client_leaves(void **state)
{
    struct fixture *f = *state;

    fixture_ask(f, GET("/hold") GET("/stream"), "");
    close(f->fd);
    f->fd = -1;
    for (int i = 0; i < 3; i++)
        loop_turn(f->loop, 0, NULL);
    assert_int_equal(f->gone, 2);
    assert_int_equal(f->server->conn_count, 0);
}

static void test_answer_reaches_a_client_that_has_only_closed_its_side(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, STR(GET("/quiet")));
    shutdown(f->fd, SHUT_WR);
    fixture_expect(f, "");
    http_reply(f->held[0], 200, "text/plain", NULL, 0, STR("late"));
    fixture_expect(f, OK_HEAD(4) "late");
    assert_true(f->eof);
    assert_int_equal(f->server->conn_count, 0);
}

static void test_answer_after_the_client_has_gone_only_releases(void **state)
{
    struct fixture *f = *state;

    fixture_ask(f, GET("/quiet") GET("/quiet"), "");
    connection_fail(f->conn, "test");
    fixture_turn(f);
    assert_int_equal(f->server->conn_count, 1);
    http_reply(f->held[1], 200, NULL, NULL, 0, STR("x"));
    http_stream_begin(f->held[0], 200, NULL, NULL, 0);
    http_stream_write(f->held[0], STR("x"));
    http_stream_end(f->held[0]);
    fixture_expect(f, "");
    assert_true(f->eof);
    assert_int_equal(f->server->conn_count, 0);
}

static void test_abandoned_request_drops_the_connection(void **state)
{
    struct fixture *f = *state;

    fixture_ask(f, GET("/quiet"), "");
    http_abandon(f->held[0]);
    fixture_expect(f, "");
    assert_true(f->eof);
}

static void test_slow_reader_of_a_stream_is_cut_off(void **state)
{
    struct fixture *f = *state;
    CLEANUP(free) char *data = mem_zalloc(1 << 20);
    int written = 0;

    fixture_send(f, STR(GET("/stream")));
    fixture_turn(f);
    for (; f->gone == 0 && written < 20; written++) {
        http_stream_write(f->held[0], (struct str){data, 1 << 20});
        loop_turn(f->loop, 0, NULL);
    }
    assert_int_equal(f->gone, 1);
    assert_in_range(written, 8, 10);
    assert_int_equal(f->server->conn_count, 0);
}

static unsigned drains;

static void on_drain(struct http_req *req)
{
    (void)req;
    drains++;
}

static void test_drain_callback_comes_once_when_there_is_room(void **state)
{
    struct fixture *f = *state;
    CLEANUP(free) char *data = mem_zalloc(4 << 20);

    drains = 0;
    fixture_send(f, STR(GET("/stream")));
    fixture_turn(f);
    http_stream_write(f->held[0], (struct str){data, 4 << 20});
    http_stream_on_drain(f->held[0], on_drain);
    loop_turn(f->loop, 0, NULL);
    assert_int_equal(drains, 0);
    assert_true(http_stream_unsent(f->held[0]) > 1 << 20);
    fixture_turn(f);
    assert_int_equal(drains, 1);
    assert_int_equal(http_stream_unsent(f->held[0]), 0);
}

#define ASK_UPGRADE "GET /upgrade HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n"
#define UPGRADED                                                                                             \
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\nX-A: b  X-Evil: 1\r\n\r\n"

static void test_upgraded_connection_carries_bytes_both_ways(void **state)
{
    struct fixture *f = *state;

    fixture_ask(f, ASK_UPGRADE "early", UPGRADED "early");
    fixture_ask(f, "GET / HTTP/1.1\r\n", "GET / HTTP/1.1\r\n");
    assert_true(f->drained > 0);
    http_conn_write(f->upgraded, STR("bye"));
    http_conn_close(f->upgraded);
    fixture_expect(f, "bye");
    assert_true(f->eof);
}

static void test_paused_connection_is_not_read(void **state)
{
    struct fixture *f = *state;

    fixture_ask(f, ASK_UPGRADE, UPGRADED);
    http_conn_pause(f->upgraded, true);
    fixture_ask(f, "abc", "");
    http_conn_pause(f->upgraded, false);
    fixture_expect(f, "abc");
}

static void test_end_of_upgraded_connection_is_told(void **state)
{
    struct fixture *f = *state;

    fixture_ask(f, ASK_UPGRADE, UPGRADED);
    shutdown(f->fd, SHUT_WR);
    fixture_turn(f);
    assert_string_equal(f->closed, "end of stream");
    assert_true(f->eof);
    assert_int_equal(f->server->conn_count, 0);
}

static void test_refused_upgrade_goes_on_with_http(void **state)
{
    fixture_ask(*state,
                "GET /hello HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n" GET("/hello"),
                HELLO HELLO);
}

static void test_upgrade_nobody_asked_for_is_refused(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, STR(GET("/hello") GET("/upgrade") GET("/upgrade") GET("/hello")));
    fixture_turn(f);
    assert_true(starts_with(f->got.data, HELLO "HTTP/1.1 400 Bad Request\r\n"));
    assert_true(ends_with(f->got.data, HELLO));
    assert_string_equal(f->closed, "the client did not ask for an upgrade");
    assert_int_equal(f->refusals, 2);
    assert_false(f->eof);
}

static void test_upgrade_after_the_client_has_left_is_told(void **state)
{
    struct fixture *f = *state;

    f->upgrade_later = true;
    fixture_ask(f, ASK_UPGRADE, "");
    connection_fail(f->conn, "test");
    fixture_turn(f);
    fixture_upgrade(f, f->held[0]);
    http_conn_write(f->upgraded, STR("x"));
    fixture_turn(f);
    assert_string_equal(f->closed, "test");
    assert_int_equal(f->server->conn_count, 0);
}

static void test_large_answer_is_complete(void **state)
{
    struct fixture *f = *state;

    fixture_send(f, STR(GET("/big")));
    fixture_turn(f);
    assert_true(starts_with(f->got.data, OK_HEAD(9437184) "xxx"));
    assert_int_equal(f->got.len, sizeof(OK_HEAD(9437184)) - 1 + 9437184);
}

static void test_body_memory_grows_with_what_arrives(void **state)
{
    struct fixture *f = *state;

    fixture_ask(f, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 16777216\r\n\r\nabc", "");
    assert_true(f->conn->last->body.cap <= 256 << 10);
}

static void test_bodies_of_all_requests_have_a_limit(void **state)
{
    struct fixture *f = *state;

    fixture_ask(f, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nabc", "");
    assert_int_equal(f->server->small_bytes, 3);
    f->server->small_bytes += HTTP_SMALL_BODIES_MAX - 3; /* as if others had sent them */
    fixture_send(f, STR("d"));
    fixture_turn(f);
    assert_true(starts_with(f->got.data, "HTTP/1.1 503 "));
    f->server->small_bytes -= HTTP_SMALL_BODIES_MAX - 3;
    assert_int_equal(f->server->small_bytes, 0);
}

static void wait_for(struct fixture *f, int ms)
{
    int64_t end = clock_monotonic() + ms * NSEC_PER_MSEC;

    while (clock_monotonic() < end && !f->eof) {
        loop_turn(f->loop, 5, NULL);
        fixture_turn(f);
    }
}

static void test_slow_clients_are_timed_out(void **state)
{
    static const struct {
        const char *sent, *answer;
    } rows[] = {
        {"GET / HT", "HTTP/1.1 408 "},
        {"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nab", "HTTP/1.1 408 "},
        {"", ""},
        {GET("/hello"), "HTTP/1.1 200 "},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct fixture *f = fixture_new(
            &(struct http_config){.head_timeout_ms = 20, .body_timeout_ms = 20, .idle_timeout_ms = 20});

        fixture_send(f, str_from(rows[i].sent));
        wait_for(f, 2000);
        assert_true(f->eof);
        assert_true(starts_with(f->got.data ? f->got.data : "", rows[i].answer));
        fixture_free(f);
    }
}

static void test_client_that_does_not_read_is_dropped(void **state)
{
    struct fixture *f = fixture_new(&(struct http_config){.write_timeout_ms = 20});
    int64_t end = clock_monotonic() + 2 * NSEC_PER_SEC;

    (void)state;
    fixture_send(f, STR(GET("/big")));
    while (f->server->conn_count > 0 && clock_monotonic() < end)
        loop_turn(f->loop, 5, NULL);
    assert_int_equal(f->server->conn_count, 0);
    fixture_free(f);
}

static void test_open_request_is_not_timed_out(void **state)
{
    struct fixture *f = fixture_new(&(struct http_config){.head_timeout_ms = 10, .idle_timeout_ms = 10});

    (void)state;
    fixture_send(f, STR(GET("/stream")));
    wait_for(f, 60);
    assert_false(f->eof);
    http_stream_end(f->held[0]);
    wait_for(f, 2000);
    assert_true(f->eof);
    fixture_free(f);
}

static void set_true(void *arg)
{
    *(bool *)arg = true;
}

static void test_stop_lets_answers_finish_and_ends_streams(void **state)
{
    struct fixture *f = *state;
    bool done = false;

    fixture_ask(f, GET("/quiet"), "");
    http_server_stop(f->server, 60000, set_true, &done);
    fixture_expect(f, "");
    assert_false(done);
    http_reply(f->held[0], 200, "text/plain", NULL, 0, STR("1"));
    fixture_expect(
        f, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: 1\r\n\r\n1");
    assert_true(f->eof);
    shutdown(f->fd, SHUT_RDWR);
    fixture_turn(f);
    assert_true(done);
}

static void test_stop_ends_streams_and_idle_connections(void **state)
{
    struct fixture *f = *state;
    bool done = false;
    int idle = f->fd;

    f->fd = -1;
    fixture_turn(f);
    fixture_connect(f);
    fixture_send(f, STR(GET("/stream")));
    fixture_turn(f);
    buf_clear(&f->got);
    http_server_stop(f->server, 60000, set_true, &done);
    fixture_expect(f, "0\r\n\r\n");
    assert_true(f->eof);
    assert_int_equal(f->gone, 1);
    close(idle);
    shutdown(f->fd, SHUT_RDWR);
    fixture_turn(f);
    assert_true(done);
}

static void test_stop_cuts_what_does_not_end_in_time(void **state)
{
    struct fixture *f = *state;
    bool done = false;

    fixture_ask(f, GET("/hold"), "");
    http_server_stop(f->server, 1, set_true, &done);
    while (!done)
        loop_turn(f->loop, 5, NULL);
    assert_int_equal(f->gone, 1);
    fixture_turn(f);
    assert_true(f->eof);
}

static void test_stop_without_connections_is_done_soon(void **state)
{
    struct fixture *f = *state;
    bool done = false;

    close(f->fd);
    f->fd = -1;
    loop_turn(f->loop, 0, NULL);
    loop_turn(f->loop, 0, NULL);
    http_server_stop(f->server, 60000, set_true, &done);
    assert_false(done);
    loop_turn(f->loop, 100, NULL);
    assert_true(done);
}

static void test_server_that_is_freed_tells_open_requests(void **state)
{
    struct fixture *f = fixture_new(NULL);

    (void)state;
    fixture_ask(f, GET("/hold") GET("/quiet") GET("/stream"), "");
    http_server_free(f->server);
    f->server = NULL;
    assert_int_equal(f->gone, 2);
    fixture_free(f);
}

static void test_query_values_are_decoded(void **state)
{
    struct arena arena = {0};
    struct http_req req = {.query = "a=1&b=x%20y+z&a=2&c&%64=e&bad=%zz&=v", .arena = &arena};

    (void)state;
    assert_string_equal(http_query(&req, "a", 0), "1");
    assert_string_equal(http_query(&req, "a", 1), "2");
    assert_null(http_query(&req, "a", 2));
    assert_string_equal(http_query(&req, "b", 0), "x y z");
    assert_string_equal(http_query(&req, "c", 0), "");
    assert_string_equal(http_query(&req, "d", 0), "e");
    assert_null(http_query(&req, "bad", 0));
    assert_null(http_query(&req, "nope", 0));
    arena_done(&arena);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_connection_is_kept_alive),
        TEST(test_request_in_single_bytes_is_understood),
        TEST(test_pipelined_requests_of_one_read_share_a_turn),
        TEST(test_answers_leave_in_the_order_of_requests),
        TEST(test_pipeline_has_a_limit_and_goes_on_later),
        TEST(test_unread_answers_stop_further_requests),
        TEST(test_expect_continue_is_answered_before_the_body),
        TEST(test_expect_continue_with_too_large_a_body_is_refused_at_once),
        TEST(test_head_answers_length_without_body),
        TEST(test_head_of_a_stream_has_no_body),
        TEST(test_204_has_neither_body_nor_length),
        TEST(test_chunked_body_is_joined),
        cmocka_unit_test(test_chunked_body_over_the_limit_is_refused),
        TEST(test_bad_chunk_is_refused),
        TEST(test_bad_request_is_refused_after_earlier_answers),
        TEST(test_head_that_is_too_large_is_refused),
        TEST(test_http_1_0_closes_unless_asked_not_to),
        TEST(test_stream_to_http_1_0_ends_with_the_connection),
        TEST(test_gone_is_called_when_the_client_leaves),
        TEST(test_answer_reaches_a_client_that_has_only_closed_its_side),
        TEST(test_answer_after_the_client_has_gone_only_releases),
        TEST(test_abandoned_request_drops_the_connection),
        TEST(test_slow_reader_of_a_stream_is_cut_off),
        TEST(test_drain_callback_comes_once_when_there_is_room),
        TEST(test_upgraded_connection_carries_bytes_both_ways),
        TEST(test_paused_connection_is_not_read),
        TEST(test_end_of_upgraded_connection_is_told),
        TEST(test_refused_upgrade_goes_on_with_http),
        TEST(test_upgrade_nobody_asked_for_is_refused),
        TEST(test_upgrade_after_the_client_has_left_is_told),
        TEST(test_large_answer_is_complete),
        TEST(test_body_memory_grows_with_what_arrives),
        TEST(test_bodies_of_all_requests_have_a_limit),
        cmocka_unit_test(test_slow_clients_are_timed_out),
        cmocka_unit_test(test_client_that_does_not_read_is_dropped),
        cmocka_unit_test(test_open_request_is_not_timed_out),
        TEST(test_stop_lets_answers_finish_and_ends_streams),
        TEST(test_stop_ends_streams_and_idle_connections),
        TEST(test_stop_cuts_what_does_not_end_in_time),
        TEST(test_stop_without_connections_is_done_soon),
        cmocka_unit_test(test_server_that_is_freed_tells_open_requests),
        cmocka_unit_test(test_query_values_are_decoded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
