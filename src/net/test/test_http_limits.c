/* What one client can take from the others. */
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "net/test/fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>

static struct fixture *listening(const struct http_config *config)
{
    struct fixture *f = fixture_new(config);
    struct err err = {0};

    assert_int_equal(http_listen_tcp(f->server, "127.0.0.1:0", NULL, &err), 0);
    return f;
}

/* From that address of this machine. */
static int connect_from(struct fixture *f, const char *from)
{
    struct sockaddr_in to = {.sin_family = AF_INET}, own = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    inet_pton(AF_INET, from, &own.sin_addr);
    to.sin_port = htons((uint16_t)atoi(strrchr(http_server_addr(f->server, 0), ':') + 1));
    assert_int_equal(bind(fd, (struct sockaddr *)&own, sizeof(own)), 0);
    if (connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
        assert_int_equal(errno, EINPROGRESS);
    for (int i = 0; i < 4; i++)
        assert_int_equal(loop_turn(f->loop, 0, NULL), 0);
    return fd;
}

static void say(struct fixture *f, int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
    for (int i = 0; i < 4; i++)
        assert_int_equal(loop_turn(f->loop, 0, NULL), 0);
}

/* What came so far; "" with *closed when the server has left. */
static const char *heard(int fd, bool *closed)
{
    static char text[4096];
    ssize_t len = recv(fd, text, sizeof(text) - 1, MSG_DONTWAIT);

    *closed = len == 0 || (len < 0 && errno == ECONNRESET);
    text[len > 0 ? len : 0] = '\0';
    return text;
}

static void test_idle_connection_makes_room_for_one_of_the_same_address(void **state)
{
    struct fixture *f = listening(&(struct http_config){.conns_loopback = 4});
    int fds[6];
    bool closed;

    (void)state;
    for (int i = 0; i < 6; i++)
        fds[i] = connect_from(f, "127.0.0.1");
    for (int i = 0; i < 2; i++) {
        heard(fds[i], &closed);
        assert_true(closed);
    }
    for (int i = 2; i < 6; i++) {
        say(f, fds[i], GET("/hello"));
        assert_true(starts_with(heard(fds[i], &closed), "HTTP/1.1 200 "));
    }
    for (int i = 0; i < 6; i++)
        fd_close(fds[i]);
    fixture_free(f);
}

static void test_connections_with_requests_stay_and_one_more_is_refused(void **state)
{
    struct fixture *f = listening(&(struct http_config){.conns_loopback = 4});
    int fds[6];
    bool closed;

    (void)state;
    for (int i = 0; i < 4; i++) {
        fds[i] = connect_from(f, "127.0.0.1");
        say(f, fds[i], GET("/hold"));
    }
    fds[4] = connect_from(f, "127.0.0.1");
    say(f, fds[4], GET("/hello"));
    assert_non_null(strstr(heard(fds[4], &closed), "503 Service Unavailable\r\n"));
    fds[5] = connect_from(f, "127.0.0.2");
    say(f, fds[5], GET("/hello"));
    assert_true(starts_with(heard(fds[5], &closed), "HTTP/1.1 200 "));
    assert_int_equal(f->gone, 0);
    for (int i = 0; i < 6; i++)
        fd_close(fds[i]);
    fixture_free(f);
}

static void test_full_server_closes_an_idle_connection_of_who_has_most(void **state)
{
    /* one of them is the fixture's own */
    struct fixture *f = listening(&(struct http_config){.conns_max = 6});
    int many[4], few[2];
    bool closed;

    (void)state;
    for (int i = 0; i < 4; i++)
        many[i] = connect_from(f, "127.0.0.1");
    few[0] = connect_from(f, "127.0.0.2");
    few[1] = connect_from(f, "127.0.0.2");
    heard(many[0], &closed);
    assert_true(closed);
    for (int i = 0; i < 2; i++) {
        say(f, few[i], GET("/hello"));
        assert_true(starts_with(heard(few[i], &closed), "HTTP/1.1 200 "));
    }
    for (int i = 0; i < 4; i++)
        fd_close(many[i]);
    for (int i = 0; i < 2; i++)
        fd_close(few[i]);
    fixture_free(f);
}

/* ---- bodies ---- */

static bool by_header(void *arg, struct http_req *req, struct http_caller *ret)
{
    const char *who = http_req_header(req, "Who");

    (void)arg;
    if (!who) {
        http_reply(req, 401, "text/plain", NULL, 0, STR("who?"));
        return false;
    }
    snprintf(ret->name, sizeof(ret->name), "%s", who);
    ret->reserve = streq(who, "admin");
    ret->body_max = streq(who, "library") ? 1 << 20 : 0;
    return true;
}

#define LARGE(who)                                                                                           \
    "POST / HTTP/1.1\r\nHost: h\r\n" who "Content-Length: 2000000\r\nExpect: 100-continue\r\n\r\n"

static void test_large_body_of_nobody_is_refused_before_it_is_read(void **state)
{
    struct fixture *f = fixture_new(&(struct http_config){.admit = by_header});

    (void)state;
    fixture_ask(f, LARGE(""),
                "HTTP/1.1 401 Unauthorized\r\nContent-Type: text/plain\r\n"
                "Connection: close\r\nContent-Length: 4\r\n\r\nwho?");
    assert_true(f->eof);
    assert_int_equal(f->requests, 0);
    fixture_connect(f);
    fixture_ask(f, "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n",
                "HTTP/1.1 401 Unauthorized\r\nContent-Type: text/plain\r\n"
                "Connection: close\r\nContent-Length: 4\r\n\r\nwho?");
    fixture_connect(f);
    fixture_ask(f, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
                OK_HEAD(14) "POST / ? [abc]");
    fixture_free(f);
}

static void test_caller_with_less_room_is_refused_at_once(void **state)
{
    struct fixture *f = fixture_new(&(struct http_config){.admit = by_header});

    (void)state;
    fixture_send(f, STR(LARGE("Who: library\r\n")));
    fixture_turn(f);
    assert_true(starts_with(f->got.data, "HTTP/1.1 413 "));
    fixture_free(f);
}

static void test_bodies_of_one_caller_leave_room_for_others(void **state)
{
    struct fixture *f = fixture_new(&(struct http_config){.admit = by_header});
    struct share *mine = http_share_get(f->server, "me", false);

    (void)state;
    mine->bytes = HTTP_BODIES_EACH; /* as if other connections had sent them */
    f->server->large_bytes = HTTP_BODIES_EACH;
    fixture_send(f, STR(LARGE("Who: me\r\n") "x"));
    fixture_turn(f);
    assert_non_null(strstr(f->got.data, "HTTP/1.1 429 "));
    fixture_connect(f);
    fixture_ask(f, LARGE("Who: you\r\n") "x", "HTTP/1.1 100 Continue\r\n\r\n");
    assert_int_equal(f->server->large_bytes, HTTP_BODIES_EACH + 1);
    mine->bytes = 0;
    http_share_put(f->server, mine);
    fixture_free(f);
}

static void test_large_bodies_of_all_leave_a_reserve(void **state)
{
    struct fixture *f = fixture_new(&(struct http_config){.admit = by_header});

    (void)state;
    f->server->large_bytes = HTTP_BODIES_MAX - HTTP_BODIES_RESERVE;
    fixture_send(f, STR(LARGE("Who: me\r\n") "x"));
    fixture_turn(f);
    assert_non_null(strstr(f->got.data, "HTTP/1.1 503 "));
    fixture_connect(f);
    fixture_ask(f, LARGE("Who: admin\r\n") "x", "HTTP/1.1 100 Continue\r\n\r\n");
    fixture_connect(f);
    fixture_ask(f, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
                OK_HEAD(14) "POST / ? [abc]");
    fixture_free(f);
}

static void test_body_that_drips_is_cut_off(void **state)
{
    struct fixture *f = fixture_new(&(struct http_config){.body_timeout_ms = 50});
    int64_t end = clock_monotonic() + 5 * NSEC_PER_SEC;

    (void)state;
    fixture_send(f, STR("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n"));
    while (!f->eof && clock_monotonic() < end) {
        if (send(f->fd, "x", 1, MSG_NOSIGNAL) < 0)
            break;
        loop_turn(f->loop, 2, NULL);
        fixture_turn(f);
    }
    assert_true(starts_with(f->got.data ? f->got.data : "", "HTTP/1.1 408 "));
    fixture_free(f);
}

/* ---- lines ---- */

static void test_request_that_waited_for_others_has_its_own_time(void **state)
{
    struct fixture *f = fixture_new(&(struct http_config){.head_timeout_ms = 200});
    int64_t end;
    size_t answered = 0;

    (void)state;
    for (int i = 0; i < HTTP_PIPELINE_MAX; i++)
        fixture_send(f, STR(GET("/quiet")));
    fixture_send(f, STR("GET /qu"));
    fixture_turn(f);
    fixture_send(f, STR("iet HTTP/1.1\r\n"));
    fixture_turn(f);
    end = clock_monotonic() + 250 * NSEC_PER_MSEC;
    while (clock_monotonic() < end)
        loop_turn(f->loop, 10, NULL);
    while (answered < HTTP_PIPELINE_MAX)
        http_reply(f->held[answered++], 204, NULL, NULL, 0, STR(""));
    fixture_turn(f);
    fixture_send(f, STR("Host: h\r\n\r\n"));
    fixture_turn(f);
    assert_int_equal(f->held_count, HTTP_PIPELINE_MAX + 1);
    assert_null(strstr(f->got.data, "408"));
    fixture_free(f);
}

static void test_requests_that_wait_are_bounded_by_their_bytes(void **state)
{
    struct fixture *f = fixture_new(NULL);
    CLEANUP(buf_done) struct buf text = {0};

    (void)state;
    buf_puts(&text, "GET /quiet HTTP/1.1\r\nHost: h\r\nX: ");
    memset(buf_reserve(&text, 60000), 'x', 60000);
    text.len += 60000;
    buf_puts(&text, "\r\n\r\n");
    for (size_t left = 40 * text.len, at = 0; left > 0;) {
        ssize_t len = send(f->fd, text.data + at, text.len - at, MSG_NOSIGNAL);

        loop_turn(f->loop, 0, NULL);
        if (len < 0)
            break; /* nothing more is read */
        at = (at + (size_t)len) % text.len;
        left -= (size_t)len;
    }
    assert_in_range(f->held_count, HTTP_PIPELINE_BYTES / 60100, HTTP_PIPELINE_BYTES / 60000 + 1);
    assert_true(f->conn->line_bytes < HTTP_PIPELINE_BYTES + HTTP_HEAD_MAX);
    fixture_free(f);
}

static void test_request_behind_one_of_http_1_0_waits(void **state)
{
    struct fixture *f = fixture_new(NULL);

    (void)state;
    fixture_ask(f, "GET /hold HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /hello HTTP/1.0\r\n\r\n", "");
    assert_int_equal(f->requests, 1);
    http_stream_begin(f->held[0], 200, "text/plain", NULL, 0);
    http_stream_write(f->held[0], STR("all"));
    http_stream_end(f->held[0]);
    fixture_expect(f, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\nall");
    assert_true(f->eof);
    assert_int_equal(f->requests, 1);
    fixture_free(f);
}

static void test_what_one_turn_writes_to_a_stream_may_be_large(void **state)
{
    struct fixture *f = fixture_new(NULL);
    CLEANUP(free) char *data = mem_zalloc(12 << 20);

    (void)state;
    fixture_send(f, STR(GET("/stream")));
    fixture_turn(f);
    http_stream_write(f->held[0], (struct str){data, 12 << 20});
    loop_turn(f->loop, 0, NULL);
    http_stream_write(f->held[0], STR("and more"));
    fixture_turn(f);
    assert_int_equal(f->gone, 0);
    assert_true(f->got.len > 12 << 20);
    fixture_free(f);
}

static void test_socket_of_a_successor_stays(void **state)
{
    char dir[] = "/tmp/berth-net-XXXXXX";
    CLEANUP(free) char *path = NULL;
    struct fixture *first = fixture_new(NULL), *second = fixture_new(NULL);
    struct err err = {0};
    struct stat st;

    (void)state;
    assert_non_null(mkdtemp(dir));
    path = mem_printf("%s/sock", dir);
    assert_int_equal(http_listen_unix(first->server, path, 0600, &err), 0);
    http_server_stop(first->server, 1000, NULL, NULL);
    assert_int_equal(http_listen_unix(second->server, path, 0600, &err), 0);
    fixture_free(first);
    assert_int_equal(stat(path, &st), 0);
    fixture_free(second);
    assert_int_equal(stat(path, &st), -1);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_connection_makes_room_for_one_of_the_same_address),
        cmocka_unit_test(test_connections_with_requests_stay_and_one_more_is_refused),
        cmocka_unit_test(test_full_server_closes_an_idle_connection_of_who_has_most),
        cmocka_unit_test(test_large_body_of_nobody_is_refused_before_it_is_read),
        cmocka_unit_test(test_caller_with_less_room_is_refused_at_once),
        cmocka_unit_test(test_bodies_of_one_caller_leave_room_for_others),
        cmocka_unit_test(test_large_bodies_of_all_leave_a_reserve),
        cmocka_unit_test(test_body_that_drips_is_cut_off),
        cmocka_unit_test(test_request_that_waited_for_others_has_its_own_time),
        cmocka_unit_test(test_requests_that_wait_are_bounded_by_their_bytes),
        cmocka_unit_test(test_request_behind_one_of_http_1_0_waits),
        cmocka_unit_test(test_what_one_turn_writes_to_a_stream_may_be_large),
        cmocka_unit_test(test_socket_of_a_successor_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
