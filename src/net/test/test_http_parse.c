#include "base/mem.h"
#include "base/test/test.h"
#include "net/http_parse.h"

#include <string.h>

#define HOST "Host: h\r\n"

/* Scans and parses text as a request: 0, a status, or -1 when the head is not complete. */
static int parse(const char *text, size_t len, struct http_head *head, char **keep)
{
    const char *why = NULL;
    size_t at = 0;
    ssize_t got = http_scan_head(text, len, &at, &why);
    int status;

    *keep = NULL;
    if (got == 0)
        return -1;
    if (got < 0) {
        assert_non_null(why);
        return 400;
    }
    *keep = mem_strndup(text, (size_t)got);
    status = http_parse_request(*keep, (size_t)got, head, &why);
    assert_true((status == 0) == (why == NULL));
    return status;
}

static const struct {
    const char *text;
    const char *method, *path, *query;
    bool keep_alive;
} good[] = {
    {"GET / HTTP/1.1\r\n" HOST "\r\n", "GET", "/", "", true},
    {"GET /a/b?c=d&e HTTP/1.1\r\n" HOST "\r\n", "GET", "/a/b", "c=d&e", true},
    {"GET /a?b?c HTTP/1.1\r\n" HOST "\r\n", "GET", "/a", "b?c", true},
    {"GET // HTTP/1.1\r\n" HOST "\r\n", "GET", "//", "", true},
    {"GET /%2e%00/é HTTP/1.1\r\n" HOST "\r\n", NULL, NULL, NULL, false},
    {"GET /%2e/{|}\"<> HTTP/1.1\r\n" HOST "\r\n", "GET", "/%2e/{|}\"<>", "", true},
    {"\r\nGET / HTTP/1.1\r\n" HOST "\r\n", "GET", "/", "", true},
    {"GET / HTTP/1.0\r\n\r\n", "GET", "/", "", false},
    {"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET", "/", "", true},
    {"GET / HTTP/1.1\r\n" HOST "Connection: foo, Close\r\n\r\n", "GET", "/", "", false},
    {"M-SEARCH!#$ /x HTTP/1.1\r\n" HOST "\r\n", "M-SEARCH!#$", "/x", "", true},
    {"OPTIONS * HTTP/1.1\r\n" HOST "\r\n", "OPTIONS", "*", "", true},
    {"GET http://h/p?q HTTP/1.1\r\n" HOST "\r\n", "GET", "/p", "q", true},
    {"GET HTTPS://h HTTP/1.1\r\n" HOST "\r\n", "GET", "/", "", true},
    {"GET http://h?q=1 HTTP/1.1\r\n" HOST "\r\n", "GET", "/", "q=1", true},
    {"GET http://H:8080/ HTTP/1.1\r\nHost: h:8080\r\n\r\n", "GET", "/", "", true},
    {"GET / HTTP/1.1\r\nHost:\r\n\r\n", "GET", "/", "", true},
    {"GET / HTTP/1.1\r\nHost: [::1]:80\r\nA: \t b c \t\r\nB:\r\n\r\n", "GET", "/", "", true},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 007\r\n\r\n", "POST", "/", "", true},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: Chunked\r\n\r\n", "POST", "/", "", true},
};

static void test_good_requests_are_understood(void **state)
{
    struct http_head head = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        CLEANUP(free) char *keep = NULL;
        int status = parse(good[i].text, strlen(good[i].text), &head, &keep);

        if (!good[i].method) {
            assert_int_equal(status, 400);
            continue;
        }
        if (status != 0)
            fail_msg("%s gives %d", good[i].text, status);
        assert_string_equal(head.method, good[i].method);
        assert_string_equal(head.path, good[i].path);
        assert_string_equal(head.query, good[i].query);
        assert_int_equal(head.keep_alive, good[i].keep_alive);
    }
}

static const struct {
    const char *text;
    int status;
} bad[] = {
    /* the request line */
    {"GET /\r\n\r\n", 400},
    {"GET / HTTP/0.9\r\n\r\n", 400},
    {"GET / HTTP/1.2\r\n" HOST "\r\n", 505},
    {"GET / HTTP/3.0\r\n" HOST "\r\n", 505},
    {"GET / http/1.1\r\n" HOST "\r\n", 400},
    {"GET / HTTP/1.1 \r\n" HOST "\r\n", 400},
    {"GET / HTTP/11\r\n" HOST "\r\n", 400},
    {"GET  / HTTP/1.1\r\n" HOST "\r\n", 400},
    {" GET / HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET\t/ HTTP/1.1\r\n" HOST "\r\n", 400},
    {"G(T / HTTP/1.1\r\n" HOST "\r\n", 400},
    {"G\xc3\x84T / HTTP/1.1\r\n" HOST "\r\n", 400},
    {"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1\r\n" HOST "\r\n", 400},
    {"/ HTTP/1.1\r\n" HOST "\r\n", 400},
    {"\r\n\r\n", 400},
    {"PRI * HTTP/2.0\r\n\r\n", 400},
    {"GET /a#b HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET a HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET * HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET ftp://h/ HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http:/// HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http://u@h/ HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET http://other/ HTTP/1.1\r\n" HOST "\r\n", 400},
    {"CONNECT h:80 HTTP/1.1\r\n" HOST "\r\n", 400},
    {"GET /\x7f HTTP/1.1\r\n" HOST "\r\n", 400},
    /* line ends */
    {"GET / HTTP/1.1\n" HOST "\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: h\n\r\n", 400},
    {"GET / HTTP/1.1\rHost: h\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\r\n" HOST "\r\n", 400},
    {"\nGET / HTTP/1.1\r\n" HOST "\r\n", 400},
    {"\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n", 400},
    /* header lines */
    {"GET / HTTP/1.1\r\n" HOST "A: b\r\n c\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST "A: b\r\n\tc\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n " HOST "\r\n", 400},
    {"GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST "A\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST ": a\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST "A@: b\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST "\xc3\x84: b\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST "A: \x01\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST "A: \x7f\r\n\r\n", 400},
    /* Host */
    {"GET / HTTP/1.1\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400},
    {"GET / HTTP/1.0\r\n" HOST HOST "\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400},
    {"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400},
    /* how long the body is */
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1, 1\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: +1\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: -1\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 0x1\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1 1\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 9223372036854775808\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 18446744073709551616\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\ncontent-length: 1\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, chunked\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: \"chunked\"\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n", 501},
    {"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n", 501},
    {"POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", 400},
    {"POST / HTTP/1.1\r\n" HOST "Content-Length: 1\r\nExpect: 200-ok\r\n\r\n", 417},
};

static void test_bad_requests_are_refused(void **state)
{
    struct http_head head = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        CLEANUP(free) char *keep = NULL;
        int status = parse(bad[i].text, strlen(bad[i].text), &head, &keep);

        if (status != bad[i].status)
            fail_msg("%s gives %d", bad[i].text, status);
    }
}

static void test_nul_bytes_are_refused(void **state)
{
    static const char texts[][40] = {"GET /\0 HTTP/1.1\r\nHost: h\r\n\r\n",
                                     "GET / HTTP/1.1\r\nHost: h\0\r\n\r\n"};
    struct http_head head = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        CLEANUP(free) char *keep = NULL;

        assert_int_equal(parse(texts[i], sizeof(texts[i]), &head, &keep), 400);
    }
}

static void test_split_at_every_byte_gives_the_same_head(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        size_t len = strlen(good[i].text);

        for (size_t split = 0; split < len && good[i].method; split++) {
            const char *why = NULL;
            size_t at = 0;

            assert_int_equal(http_scan_head(good[i].text, split, &at, &why), 0);
            assert_int_equal(http_scan_head(good[i].text, len, &at, &why), len);
        }
    }
}

static void test_refusal_comes_with_the_first_bad_byte(void **state)
{
    const char *why = NULL;
    size_t at = 0;

    (void)state;
    assert_int_equal(http_scan_head("GET /", 5, &at, &why), 0);
    assert_int_equal(http_scan_head("GET /\n", 6, &at, &why), -1);
    at = 0;
    assert_int_equal(http_scan_head("\x16\x03\x01", 3, &at, &why), -1); /* a TLS client */
}

static void test_headers_are_split_and_trimmed(void **state)
{
    static const char text[] = "GET / HTTP/1.1\r\nHost: h\r\nA:b\r\nC: \t d e \t \r\nF:\r\n\r\n";
    CLEANUP(free) char *keep = NULL;
    struct http_head head = {0};

    (void)state;
    assert_int_equal(parse(text, sizeof(text) - 1, &head, &keep), 0);
    assert_int_equal(head.header_count, 4);
    assert_string_equal(head.headers[1].name, "A");
    assert_string_equal(head.headers[1].value, "b");
    assert_string_equal(head.headers[2].value, "d e");
    assert_string_equal(head.headers[3].value, "");
}

static void test_framing_headers_are_read(void **state)
{
    static const char length[] =
        "POST / HTTP/1.1\r\n" HOST "content-LENGTH: 42\r\nExpect: 100-Continue\r\n\r\n";
    static const char upgrade[] =
        "GET / HTTP/1.1\r\n" HOST "Connection: keep-alive, Upgrade\r\nUpgrade: x\r\n\r\n";
    static const char half[] = "GET / HTTP/1.1\r\n" HOST "Upgrade: x\r\n\r\n";
    struct http_head head = {0};
    char *keep;

    (void)state;
    assert_int_equal(parse(length, sizeof(length) - 1, &head, &keep), 0);
    assert_true(head.has_length && head.expect_continue && !head.chunked && !head.upgrade);
    assert_int_equal(head.length, 42);
    free(keep);
    assert_int_equal(parse(upgrade, sizeof(upgrade) - 1, &head, &keep), 0);
    assert_true(head.upgrade);
    free(keep);
    assert_int_equal(parse(half, sizeof(half) - 1, &head, &keep), 0);
    assert_false(head.upgrade);
    free(keep);
}

static void test_too_many_headers_are_refused(void **state)
{
    CLEANUP(buf_done) struct buf text = {0};
    CLEANUP(free) char *keep = NULL;
    struct http_head head = {0};

    (void)state;
    buf_puts(&text, "GET / HTTP/1.1\r\n" HOST);
    for (int i = 0; i < HTTP_HEADERS_MAX; i++)
        buf_printf(&text, "A%d: x\r\n", i);
    buf_puts(&text, "\r\n");
    assert_int_equal(parse(text.data, text.len, &head, &keep), 431);
}

static void test_answers_are_understood(void **state)
{
    static const struct {
        const char *text;
        int status; /* 0: bad */
    } rows[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", 200},
        {"HTTP/1.1 200\r\n\r\n", 200},
        {"HTTP/1.0 404 Not Found\r\n\r\n", 404},
        {"HTTP/1.1 2x0 OK\r\n\r\n", 0},
        {"HTTP/1.1 020 OK\r\n\r\n", 0},
        {"HTTP/2.0 200 OK\r\n\r\n", 0},
        {"HTTP/1.1 2000\r\n\r\n", 0},
        {"ICY 200 OK\r\n\r\n", 0},
        {"\r\n\r\n", 0},
    };
    struct http_head head = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        CLEANUP(free) char *keep = mem_strdup(rows[i].text);
        const char *why = NULL;
        int bad_status = http_parse_answer(keep, strlen(keep), &head, &why);

        assert_int_equal(bad_status == 0 ? head.status : 0, rows[i].status);
    }
}

/* Decodes text in two parts: the result, and what was in it. */
static enum http_chunked_result decode(const char *text, size_t split, struct buf *ret, size_t *rest_len)
{
    struct http_chunked chunked = {0};
    struct str parts[2] = {{text, split}, {text + split, strlen(text) - split}};
    enum http_chunked_result result = HTTP_CHUNKED_MORE;

    *rest_len = 0;
    buf_clear(ret);
    for (int i = 0; i < 2; i++) {
        struct str piece;
        const char *why = NULL;

        while ((result = http_chunked_next(&chunked, &parts[i], &piece, &why)) == HTTP_CHUNKED_PIECE)
            buf_str(ret, piece);
        if (result == HTTP_CHUNKED_BAD) {
            assert_non_null(why);
            return result;
        }
        if (result == HTTP_CHUNKED_END)
            *rest_len += parts[i].len;
    }
    return result;
}

static void test_chunked_bodies_are_joined_wherever_they_are_split(void **state)
{
    static const struct {
        const char *text, *body;
        size_t rest;
    } rows[] = {
        {"0\r\n\r\n", "", 0},
        {"3\r\nabc\r\n0\r\n\r\n", "abc", 0},
        {"3\r\nabc\r\n00a;x=\"y\"\r\n0123456789\r\n0;z\r\n\r\nGET", "abc0123456789", 3},
        {"1\r\n\n\r\n0\r\nA: b\r\nC:\r\n\r\n", "\n", 0},
        {"A\r\n0123456789\r\n0\r\n\r\n", "0123456789", 0},
    };
    CLEANUP(buf_done) struct buf body = {0};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        for (size_t split = 0; split <= strlen(rows[i].text); split++) {
            size_t rest;

            assert_int_equal(decode(rows[i].text, split, &body, &rest), HTTP_CHUNKED_END);
            assert_true(str_is(buf_view(&body), rows[i].body));
            assert_int_equal(rest, rows[i].rest);
        }
}

static void test_bad_chunked_bodies_are_refused(void **state)
{
    static const char *const rows[] = {
        "\r\n",
        "g\r\n",
        "-1\r\n",
        "0x1\r\n",
        " 1\r\n",
        "1 \r\n",
        "1\n",
        "1\rx",
        "1;a\x01\r\n",
        "1;a\nb\r\n",
        "1\r\nab\r\n",
        "1\r\na\n",
        "1\r\na\rx",
        "1000000000000000\r\n",
        "ffffffffffffffffff\r\n",
        "0000000000000000\r\n",
        "0\r\nA\r\n\r\n",
        "0\r\n A: b\r\n\r\n",
        "0\r\n: b\r\n\r\n",
        "0\r\nA: b\n\r\n",
        "0\r\nA: \x02\r\n\r\n",
        "0\r\n\rx",
        "0\r\n\n",
    };
    CLEANUP(buf_done) struct buf body = {0};
    size_t rest;

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (decode(rows[i], 0, &body, &rest) != HTTP_CHUNKED_BAD)
            fail_msg("%s is taken", rows[i]);
}

static void test_chunk_extensions_and_trailers_have_limits(void **state)
{
    CLEANUP(buf_done) struct buf text = {0}, body = {0};
    size_t rest;

    (void)state;
    for (int i = 0; i < HTTP_CHUNK_EXT_MAX; i++)
        buf_puts(&text, "1;x\r\na\r\n"); /* two counted bytes per chunk */
    assert_int_equal(decode(text.data, 0, &body, &rest), HTTP_CHUNKED_BAD);
    buf_clear(&text);
    buf_puts(&text, "0\r\n");
    for (int i = 0; i < HTTP_TRAILER_MAX / 4; i++)
        buf_puts(&text, "A: b\r\n");
    assert_int_equal(decode(text.data, 0, &body, &rest), HTTP_CHUNKED_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_requests_are_understood),
        cmocka_unit_test(test_bad_requests_are_refused),
        cmocka_unit_test(test_nul_bytes_are_refused),
        cmocka_unit_test(test_split_at_every_byte_gives_the_same_head),
        cmocka_unit_test(test_refusal_comes_with_the_first_bad_byte),
        cmocka_unit_test(test_headers_are_split_and_trimmed),
        cmocka_unit_test(test_framing_headers_are_read),
        cmocka_unit_test(test_too_many_headers_are_refused),
        cmocka_unit_test(test_answers_are_understood),
        cmocka_unit_test(test_chunked_bodies_are_joined_wherever_they_are_split),
        cmocka_unit_test(test_bad_chunked_bodies_are_refused),
        cmocka_unit_test(test_chunk_extensions_and_trailers_have_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
