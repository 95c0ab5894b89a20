/* The blocking client in a thread of its own against the server over real sockets: TCP, unix, TLS. */
#include "base/clock.h"
#include "base/mem.h"
#include "net/client.h"
#include "net/test/certs.h"
#include "net/test/fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

static char dir[64];

static const char *in_dir(const char *name)
{
    static char paths[8][128];
    static unsigned next;
    char *path = paths[next++ % 8];

    snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
    return path;
}

static int make_dir(void **state)
{
    static const char *const orgs[] = {"dev", "ops", NULL};

    (void)state;
    snprintf(dir, sizeof(dir), "/tmp/berth-net-XXXXXX");
    if (!mkdtemp(dir))
        return -1;
    certs_make(dir, "ca", NULL, "the CA", NULL);
    certs_make(dir, "server", "ca", "server", NULL);
    certs_make(dir, "alice", "ca", "alice", orgs);
    certs_make(dir, "nobody", "ca", NULL, orgs);
    certs_make(dir, "rogue-ca", NULL, "the CA", NULL);
    certs_make(dir, "rogue", "rogue-ca", "alice", orgs);
    return 0;
}

static int remove_dir(void **state)
{
    static const char *const names[] = {"ca", "server", "alice", "nobody", "rogue-ca", "rogue"};

    (void)state;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char file[64];

        snprintf(file, sizeof(file), "%s.pem", names[i]);
        unlink(in_dir(file));
        snprintf(file, sizeof(file), "%s.key", names[i]);
        unlink(in_dir(file));
    }
    return rmdir(dir);
}

/* What the thread does and what it got; the test looks at it afterwards. */
struct job {
    struct fixture *f;
    struct client_config config;
    void (*fn)(struct job *job, struct client *client);
    int result, status;
    struct err err;
    struct buf text;
    char url[128];
};

static int setup(void **state)
{
    struct job *job = NEW(struct job);
    struct err err = {0};

    job->f = fixture_new(NULL);
    assert_int_equal(http_listen_tcp(job->f->server, "127.0.0.1:0", NULL, &err), 0);
    snprintf(job->url, sizeof(job->url), "http://%s", http_server_addr(job->f->server, 0));
    job->config.url = job->url;
    *state = job;
    return 0;
}

static int teardown(void **state)
{
    struct job *job = *state;

    fixture_free(job->f);
    buf_done(&job->text);
    free(job);
    return 0;
}

static void listen_tls(struct job *job)
{
    struct http_tls *tls = NULL;
    struct err err = {0};

    assert_int_equal(http_tls_new(in_dir("server.pem"), in_dir("server.key"), in_dir("ca.pem"), &tls, &err),
                     0);
    assert_int_equal(http_listen_tcp(job->f->server, "127.0.0.1:0", tls, &err), 0);
    http_tls_free(tls);
    snprintf(job->url, sizeof(job->url), "https://%s", http_server_addr(job->f->server, 1));
    job->config.ca_path = in_dir("ca.pem");
}

static void stop(void *arg)
{
    loop_stop(arg);
}

static void *work(void *arg)
{
    struct job *job = arg;
    struct client *client = client_new(&job->config);

    job->fn(job, client);
    client_free(client);
    loop_post(job->f->loop, stop, job->f->loop);
    return NULL;
}

static void run(struct job *job, void (*fn)(struct job *job, struct client *client))
{
    pthread_t thread;
    struct err err = {0};

    job->fn = fn;
    buf_clear(&job->text);
    job->err = (struct err){0};
    job->result = 0;
    assert_int_equal(pthread_create(&thread, NULL, work, job), 0);
    assert_int_equal(loop_run(job->f->loop, &err), 0);
    pthread_join(thread, NULL);
}

static void ask(struct job *job, struct client *client, const char *method, const char *target,
                struct str body)
{
    struct client_answer answer = {0};

    if (job->result != 0)
        return; /* an earlier one has failed */
    job->result = client_do(client, method, target, NULL, 0, body, &answer, &job->err);
    if (job->result == 0) {
        job->status = answer.status;
        buf_str(&job->text, buf_view(&answer.body));
    }
    client_answer_done(&answer);
}

static void get_hello(struct job *job, struct client *client)
{
    ask(job, client, "GET", "/hello", STR(""));
}

static void expect_hello(struct job *job)
{
    run(job, get_hello);
    if (job->result != 0)
        fail_msg("%s", job->err.msg);
    assert_int_equal(job->status, 200);
    assert_string_equal(job->text.data, "hello");
}

static void get_many(struct job *job, struct client *client)
{
    ask(job, client, "GET", "/hello", STR(""));
    ask(job, client, "POST", "/x?y", STR("body"));
    ask(job, client, "HEAD", "/hello", STR(""));
    ask(job, client, "GET", "/a", STR(""));
}

static void test_client_keeps_its_connection(void **state)
{
    struct job *job = *state;

    run(job, get_many);
    assert_int_equal(job->result, 0);
    assert_string_equal(job->text.data, "helloPOST /x ?y [body]GET /a ? []");
    assert_true(starts_with(job->f->peer, "127.0.0.1:"));
    assert_int_equal(job->f->requests, 4);
}

static void send_large(struct job *job, struct client *client)
{
    struct buf body = {0};

    memset(buf_reserve(&body, 4 << 20), 'b', 4 << 20);
    body.len = 4 << 20;
    ask(job, client, "POST", "/", buf_view(&body));
    ask(job, client, "GET", "/big", STR(""));
    buf_done(&body);
}

static void test_large_bodies_go_both_ways(void **state)
{
    struct job *job = *state;

    run(job, send_large);
    assert_string_equal(job->err.msg, "");
    assert_int_equal(job->result, 0);
    assert_int_equal(job->text.len, 11 + (4 << 20) + (9 << 20));
}

static void test_large_bodies_go_both_ways_over_tls(void **state)
{
    struct job *job = *state;

    listen_tls(job);
    run(job, send_large);
    assert_string_equal(job->err.msg, "");
    assert_int_equal(job->result, 0);
    assert_int_equal(job->text.len, 11 + (4 << 20) + (9 << 20));
}

static void post_too_large(struct job *job, struct client *client)
{
    CLEANUP(free) char *body = mem_zalloc(HTTP_BODY_MAX + 1);

    ask(job, client, "POST", "/", (struct str){body, HTTP_BODY_MAX + 1});
}

static void test_early_refusal_of_a_body_is_seen(void **state)
{
    struct job *job = *state;

    run(job, post_too_large);
    assert_int_equal(job->result, 0);
    assert_int_equal(job->status, 413);
}

static int add_piece(void *arg, struct str data)
{
    struct job *job = arg;

    buf_str(&job->text, data);
    return job->text.len >= 6 ? -1 : 0;
}

static void write_stream(void *arg)
{
    struct fixture *f = arg;

    http_stream_write(f->held[0], STR("abc"));
    http_stream_write(f->held[0], STR("def"));
}

static void handle_then_write(void *arg, struct http_req *req)
{
    struct fixture *f = arg;

    fixture_handle(f, req);
    if (streq(req->path, "/stream"))
        write_stream(f);
}

static void get_stream(struct job *job, struct client *client)
{
    job->result =
        client_stream(client, "GET", "/stream", NULL, 0, STR(""), &job->status, add_piece, job, &job->err);
}

static void test_stream_comes_in_pieces_and_can_be_left(void **state)
{
    struct job *job = *state;

    job->f->server->handler = handle_then_write;
    run(job, get_stream);
    assert_int_equal(job->result, 0);
    assert_int_equal(job->status, 200);
    assert_string_equal(job->text.data, "abcdef");
    while (job->f->gone == 0)
        loop_turn(job->f->loop, 1000, NULL);
}

static void get_twice_with_a_pause(struct job *job, struct client *client)
{
    struct pollfd poll_fd = {.events = POLLIN};

    ask(job, client, "GET", "/hello", STR(""));
    poll_fd.fd = client_fd(client);
    poll(&poll_fd, 1, 5000); /* until the server closes the idle connection */
    ask(job, client, "POST", "/hello", STR(""));
}

static void test_connection_closed_meanwhile_is_made_again(void **state)
{
    struct job *job = *state;

    job->f->server->config.idle_timeout_ms = 10;
    run(job, get_twice_with_a_pause);
    assert_int_equal(job->result, 0);
    assert_string_equal(job->text.data, "hellohello");
}

static void test_connection_closed_meanwhile_is_made_again_over_tls(void **state)
{
    struct job *job = *state;

    listen_tls(job);
    job->f->server->config.idle_timeout_ms = 10;
    run(job, get_twice_with_a_pause);
    assert_string_equal(job->text.data, "hellohello");
}

static void test_unix_socket_has_the_mode_asked_for(void **state)
{
    struct job *job = *state;
    struct err err = {0};
    struct stat st;

    assert_int_equal(http_listen_unix(job->f->server, in_dir("sock"), 0620, &err), 0);
    assert_int_equal(stat(in_dir("sock"), &st), 0);
    assert_int_equal(st.st_mode & 0777, 0620);
    snprintf(job->url, sizeof(job->url), "unix:%s", in_dir("sock"));
    run(job, get_hello);
    assert_string_equal(job->text.data, "hello");
    assert_string_equal(job->f->peer, "unix|plain|-|-");
}

static struct http_peer seen_peer;

static void remember_peer(void *arg, struct http_req *req)
{
    (void)arg;
    seen_peer = *req->peer;
    http_reply(req, 200, NULL, NULL, 0, STR("hello"));
}

static void test_unix_peer_has_credentials(void **state)
{
    struct job *job = *state;

    job->f->server->handler = remember_peer;
    assert_int_equal(http_listen_unix(job->f->server, in_dir("sock"), 0600, NULL), 0);
    snprintf(job->url, sizeof(job->url), "unix:%s", in_dir("sock"));
    expect_hello(job);
    assert_true(seen_peer.unix_socket);
    assert_int_equal(seen_peer.uid, getuid());
    assert_int_equal(seen_peer.gid, getgid());
    assert_int_equal(seen_peer.pid, getpid());
    assert_false(seen_peer.loopback);
}

static void test_tcp_peer_has_none(void **state)
{
    struct job *job = *state;

    job->f->server->handler = remember_peer;
    expect_hello(job);
    assert_false(seen_peer.unix_socket);
    assert_true(seen_peer.loopback);
    assert_int_equal(seen_peer.uid, (uid_t)-1);
}

static void test_stale_unix_socket_is_replaced_and_a_live_one_is_not(void **state)
{
    struct job *job = *state;
    struct http_server *other = http_server_new(job->f->loop, NULL, fixture_handle, job->f);
    struct err err = {0};

    assert_int_equal(http_listen_unix(job->f->server, in_dir("sock"), 0600, &err), 0);
    assert_int_equal(http_listen_unix(other, in_dir("sock"), 0600, &err), -1);
    assert_int_equal(err.code, ERR_EXISTS);
    /* A socket file without a server: what a crash leaves. */
    assert_int_equal(rename(in_dir("sock"), in_dir("sock2")), 0);
    http_server_free(job->f->server);
    job->f->server = http_server_new(job->f->loop, NULL, fixture_handle, job->f);
    assert_int_equal(http_listen_unix(other, in_dir("sock2"), 0600, &err), 0);
    http_server_free(other);
    assert_int_equal(access(in_dir("sock2"), F_OK), -1);
}

static void test_other_file_in_place_of_the_socket_stays(void **state)
{
    struct job *job = *state;
    struct err err = {0};

    assert_int_equal(http_listen_unix(job->f->server, in_dir("ca.pem"), 0600, &err), -1);
    assert_int_equal(err.code, ERR_EXISTS);
    assert_int_equal(access(in_dir("ca.pem"), F_OK), 0);
}

static void test_tls_without_a_client_certificate(void **state)
{
    struct job *job = *state;

    listen_tls(job);
    expect_hello(job);
    assert_non_null(strstr(job->f->peer, "|tls|-|-"));
}

static void test_tls_with_a_client_certificate(void **state)
{
    struct job *job = *state;

    listen_tls(job);
    job->config.cert_path = in_dir("alice.pem");
    job->config.key_path = in_dir("alice.key");
    expect_hello(job);
    assert_non_null(strstr(job->f->peer, "|tls|alice|dev"));
}

static void expect_refused(struct job *job, const char *cert, const char *key)
{
    listen_tls(job);
    job->config.cert_path = in_dir(cert);
    job->config.key_path = in_dir(key);
    run(job, get_hello);
    assert_int_equal(job->result, -1);
    assert_int_equal(job->err.code, ERR_UNAVAILABLE);
    assert_int_equal(job->f->requests, 0);
}

static void test_certificate_of_another_ca_is_refused(void **state)
{
    expect_refused(*state, "rogue.pem", "rogue.key");
}

static void test_certificate_without_a_name_is_refused(void **state)
{
    expect_refused(*state, "nobody.pem", "nobody.key");
}

static void test_server_of_another_ca_is_not_believed(void **state)
{
    struct job *job = *state;

    listen_tls(job);
    job->config.ca_path = in_dir("rogue-ca.pem");
    run(job, get_hello);
    assert_int_equal(job->result, -1);
    assert_int_equal(job->err.code, ERR_UNAVAILABLE);
    assert_int_equal(job->f->requests, 0);
}

static void send_plain(struct job *job, struct client *client)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CLEANUP(fd_close) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ssize_t len;

    (void)client;
    addr.sin_port =
        htons((uint16_t)atoi(strrchr(job->url, ':') + 1)); /* NOLINT(cert-err34-c): our own text */
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
        send(fd, GET("/"), strlen(GET("/")), MSG_NOSIGNAL) < 0)
        return;
    len = recv(fd, buf_reserve(&job->text, 4096), 4096, MSG_WAITALL);
    job->text.len = len > 0 ? (size_t)len : 0;
    job->text.data[job->text.len] = '\0';
}

static void test_plain_http_on_a_tls_port_gets_a_hint(void **state)
{
    struct job *job = *state;

    listen_tls(job);
    run(job, send_plain);
    assert_true(starts_with(job->text.data, "HTTP/1.0 400 "));
}

static void offer_h2(struct job *job, struct client *client)
{
    static const unsigned char h2[] = "\x02h2", both[] = "\x02h2\x08http/1.1";
    const unsigned char *alpn = job->status ? both : h2, *got = NULL;
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CLEANUP(fd_close) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    SSL_CTX *ctx = SSL_CTX_new(TLS_client_method());
    SSL *ssl = SSL_new(ctx);
    unsigned len = 0;

    (void)client;
    addr.sin_port =
        htons((uint16_t)atoi(strrchr(job->url, ':') + 1)); /* NOLINT(cert-err34-c): our own text */
    job->result = -1;
    SSL_set_alpn_protos(ssl, alpn, job->status ? sizeof(both) - 1 : sizeof(h2) - 1);
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0 && SSL_set_fd(ssl, fd) == 1)
        job->result = SSL_connect(ssl) == 1 ? 0 : -1;
    SSL_get0_alpn_selected(ssl, &got, &len);
    buf_add(&job->text, got, len);
    SSL_free(ssl);
    SSL_CTX_free(ctx);
}

static void test_alpn_is_http_1_1_or_nothing(void **state)
{
    struct job *job = *state;

    listen_tls(job);
    job->status = 0;
    run(job, offer_h2);
    assert_int_equal(job->result, -1);
    job->status = 1;
    run(job, offer_h2);
    assert_int_equal(job->result, 0);
    assert_string_equal(job->text.data, "http/1.1");
}

static void upgrade(struct job *job, struct client *client)
{
    const struct http_header headers[] = {{"Connection", "Upgrade"}, {"Upgrade", "echo"}};
    struct client_answer answer = {0};
    char back[64 << 10], sent[64 << 10];

    job->result = client_upgrade(client, "GET", "/upgrade", headers, 2, &answer, &job->err);
    job->status = answer.status;
    client_answer_done(&answer);
    memset(sent, 'e', sizeof(sent));
    for (int i = 0; i < 32 && job->result == 0; i++) {
        size_t got = 0;

        job->result = client_write(client, (struct str){sent, sizeof(sent)}, &job->err);
        while (job->result == 0 && got < sizeof(sent)) {
            ssize_t len = client_read(client, back, sizeof(back), &job->err);

            if (len <= 0) {
                job->result = -1;
                return;
            }
            got += (size_t)len;
        }
    }
}

static void test_upgraded_connection_echoes(void **state)
{
    struct job *job = *state;

    run(job, upgrade);
    assert_int_equal(job->result, 0);
    assert_int_equal(job->status, 101);
    assert_int_equal(job->f->upgraded_got.len, 32 * (64 << 10));
}

static void test_upgraded_connection_echoes_over_tls(void **state)
{
    struct job *job = *state;

    listen_tls(job);
    run(job, upgrade);
    assert_int_equal(job->result, 0);
    assert_int_equal(job->status, 101);
    assert_int_equal(job->f->upgraded_got.len, 32 * (64 << 10));
}

static void test_connections_over_the_limit_get_503(void **state)
{
    struct job *job = *state;

    job->f->server->config.conns_max = 1; /* the fixture's own */
    run(job, get_hello);
    assert_int_equal(job->result, 0);
    assert_int_equal(job->status, 503);
}

static void test_nobody_listening_is_unavailable(void **state)
{
    struct job *job = *state;

    snprintf(job->url, sizeof(job->url), "unix:%s", in_dir("nothing"));
    run(job, get_hello);
    assert_int_equal(job->result, -1);
    assert_int_equal(job->err.code, ERR_UNAVAILABLE);
    snprintf(job->url, sizeof(job->url), "http://127.0.0.1:1");
    run(job, get_hello);
    assert_int_equal(job->err.code, ERR_UNAVAILABLE);
    snprintf(job->url, sizeof(job->url), "gopher://x");
    run(job, get_hello);
    assert_int_equal(job->err.code, ERR_INVALID);
}

static void test_bad_addresses_and_files_are_refused(void **state)
{
    struct job *job = *state;
    struct http_tls *tls = NULL;
    struct err err = {0};

    assert_int_equal(http_listen_tcp(job->f->server, "127.0.0.1", NULL, &err), -1);
    assert_int_equal(http_listen_tcp(job->f->server, "127.0.0.1:", NULL, &err), -1);
    assert_int_equal(http_listen_tcp(job->f->server, "127.0.0.1:http", NULL, &err), -1);
    assert_int_equal(http_listen_tcp(job->f->server, http_server_addr(job->f->server, 0), NULL, &err), -1);
    assert_int_equal(err.code, ERR_SYSTEM);
    assert_int_equal(http_tls_new(in_dir("none"), in_dir("server.key"), NULL, &tls, &err), -1);
    assert_int_equal(http_tls_new(in_dir("server.pem"), in_dir("alice.key"), NULL, &tls, &err), -1);
    assert_int_equal(http_tls_new(in_dir("server.pem"), in_dir("server.key"), in_dir("none"), &tls, &err),
                     -1);
    assert_null(http_server_addr(job->f->server, 1));
}

static void test_all_addresses_take_ipv4(void **state)
{
    struct job *job = *state;
    struct err err = {0};

    assert_int_equal(http_listen_tcp(job->f->server, ":0", NULL, &err), 0);
    snprintf(job->url, sizeof(job->url), "http://127.0.0.1%s",
             strrchr(http_server_addr(job->f->server, 1), ':'));
    job->f->server->handler = remember_peer;
    expect_hello(job);
    assert_true(seen_peer.loopback);
}

static void test_running_out_of_descriptors_neither_spins_nor_loses(void **state)
{
    struct job *job = *state;
    struct rlimit old, low;
    int64_t end = clock_monotonic() + 50 * NSEC_PER_MSEC;
    int turns = 0, spare = dup(0);
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    CLEANUP(fd_close) int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    addr.sin_port =
        htons((uint16_t)atoi(strrchr(job->url, ':') + 1)); /* NOLINT(cert-err34-c): our own text */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    low = old;
    low.rlim_cur = (rlim_t)(fd > spare ? fd : spare) + 1;
    close(spare);
    spare = dup(0); /* the lowest free one; none is left below the limit */
    assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (; clock_monotonic() < end; turns++)
        loop_turn(job->f->loop, 50, NULL);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
    close(spare);
    assert_true(turns < 10);
    assert_int_equal(job->f->server->conn_count, 1); /* the fixture's own */
    end = clock_monotonic() + 2 * NSEC_PER_SEC;
    while (job->f->server->conn_count < 2 && clock_monotonic() < end)
        loop_turn(job->f->loop, 50, NULL);
    assert_int_equal(job->f->server->conn_count, 2);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_client_keeps_its_connection),
        TEST(test_large_bodies_go_both_ways),
        TEST(test_large_bodies_go_both_ways_over_tls),
        TEST(test_early_refusal_of_a_body_is_seen),
        TEST(test_stream_comes_in_pieces_and_can_be_left),
        TEST(test_connection_closed_meanwhile_is_made_again),
        TEST(test_connection_closed_meanwhile_is_made_again_over_tls),
        TEST(test_unix_socket_has_the_mode_asked_for),
        TEST(test_unix_peer_has_credentials),
        TEST(test_tcp_peer_has_none),
        TEST(test_stale_unix_socket_is_replaced_and_a_live_one_is_not),
        TEST(test_other_file_in_place_of_the_socket_stays),
        TEST(test_tls_without_a_client_certificate),
        TEST(test_tls_with_a_client_certificate),
        TEST(test_certificate_of_another_ca_is_refused),
        TEST(test_certificate_without_a_name_is_refused),
        TEST(test_server_of_another_ca_is_not_believed),
        TEST(test_plain_http_on_a_tls_port_gets_a_hint),
        TEST(test_alpn_is_http_1_1_or_nothing),
        TEST(test_upgraded_connection_echoes),
        TEST(test_upgraded_connection_echoes_over_tls),
        TEST(test_connections_over_the_limit_get_503),
        TEST(test_nobody_listening_is_unavailable),
        TEST(test_bad_addresses_and_files_are_refused),
        TEST(test_all_addresses_take_ipv4),
        TEST(test_running_out_of_descriptors_neither_spins_nor_loses),
    };

    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
