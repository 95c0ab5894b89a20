/* fixture - a server whose client is the test itself: one end of a socket pair is served, the test
 * reads and writes the other and turns the loop. */
#pragma once

#include "base/test/test.h"
#include "net/http_priv.h"

#define HELD_MAX (HTTP_PIPELINE_MAX + 8)

/* Handlers by path: /hello, /echo (says what it got), /hold (keeps the request in held[]), /quiet (the
 * same, but does not ask to be told), /stream (begins one and holds it), /big (9 MB), /upgrade (echo). */
struct fixture {
    struct loop *loop;
    struct http_server *server;
    struct connection *conn; /* as the server sees it; stale once it has closed */
    int fd;                  /* the client's end */
    struct buf got;          /* what came, without Date lines */
    bool eof;
    unsigned requests;
    struct http_req *held[HELD_MAX];
    size_t held_count;
    unsigned gone, drained;
    struct http_conn *upgraded;   /* the last one */
    struct http_conn *handles[4]; /* all of them; `closed` closes them in this order */
    unsigned upgrades;
    bool upgrade_later; /* /upgrade only holds the request */
    unsigned refusals;  /* calls of `closed` */
    struct buf upgraded_got;
    char closed[64];
    char peer[256];
};

struct fixture *fixture_new(const struct http_config *config);
void fixture_free(struct fixture *f);
void fixture_handle(void *arg, struct http_req *req);
void fixture_upgrade(struct fixture *f, struct http_req *req);
void fixture_connect(struct fixture *f); /* another connection; the old one is closed */
void fixture_send(struct fixture *f, struct str data);
void fixture_turn(struct fixture *f); /* turns the loop until nothing happens any more; fills got */
/* Sends, turns, and compares all that came since the last call. */
void fixture_expect(struct fixture *f, const char *text);
void fixture_ask(struct fixture *f, const char *request, const char *answer);

#define OK_HEAD(len) "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: " #len "\r\n\r\n"
#define HELLO        OK_HEAD(5) "hello"
#define GET(path)    "GET " path " HTTP/1.1\r\nHost: h\r\n\r\n"
