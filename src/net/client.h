/* client - a blocking HTTP/1.1 client for the command line: unix socket, TCP or TLS; one connection,
 * kept alive. */
#pragma once

#include "base/buf.h"
#include "base/err.h"
#include "net/http.h"

struct client;

struct client_config {
    const char *url;       /* "unix:/run/berth/berth.sock", "http://127.0.0.1:5336", "https://host:5443" */
    const char *ca_path;   /* PEM; NULL: the system's */
    const char *cert_path; /* client certificate and key; NULL: none */
    const char *key_path;
    const char *token; /* bearer token; NULL: none */
    int timeout_sec;   /* per request without a byte; 0: 30 */
};

struct client *client_new(const struct client_config *config);
void client_free(struct client *client);
DEFINE_CLEANUP(struct client *, client_free);

/* Sends and reads the whole answer. ERR_UNAVAILABLE: nobody listens there. Other statuses than 2xx are
 * answers too. headers of the answer are borrowed until the next call. */
struct client_answer {
    int status;
    struct buf body;
    struct http_header headers[HTTP_HEADERS_MAX];
    size_t header_count;
};
void client_answer_done(struct client_answer *answer);
int client_do(struct client *client, const char *method, const char *target,
              const struct http_header *headers, size_t header_count, struct str body,
              struct client_answer *ret, struct err *err);
/* The same, with the body given to `piece` as it comes (watch, logs); piece returns -1 to stop, which is
 * no error. *ret_status is set before the first piece. Between pieces there is no timeout. */
int client_stream(struct client *client, const char *method, const char *target,
                  const struct http_header *headers, size_t header_count, struct str body, int *ret_status,
                  int (*piece)(void *arg, struct str data), void *arg, struct err *err);
/* Asks for an upgrade. After a 101 the bytes go through client_read and client_write. */
int client_upgrade(struct client *client, const char *method, const char *target,
                   const struct http_header *headers, size_t header_count, struct client_answer *ret,
                   struct err *err);
/* client_fd is for poll(); client_pending tells of bytes that were read off it already. */
int client_fd(const struct client *client);
bool client_pending(const struct client *client);
/* Whether client_read would give something at once (its end, too). Never waits; bytes of TLS itself do not
 * count. */
bool client_readable(struct client *client);
ssize_t client_read(struct client *client, void *data, size_t len, struct err *err); /* 0: end */
int client_write(struct client *client, struct str data, struct err *err);           /* all of it */
