/* http_parse - HTTP/1.1 messages as bytes, without I/O: where a head ends, what it says, and what is
 * inside a chunked body. Used by the server and the client, and by the fuzz target.
 *
 * Strict: see http.h. Functions that can refuse return the HTTP status to refuse with and set *why to
 * a constant sentence. */
#pragma once

#include "base/str.h"
#include "net/http.h"

#define HTTP_METHOD_MAX    32        /* bytes of a method's name */
#define HTTP_CHUNK_EXT_MAX (4 << 10) /* bytes of chunk extensions in one body */
#define HTTP_TRAILER_MAX   (8 << 10) /* bytes of the trailer section */

/* Looks for the end of the head that starts at data. *at is how far earlier calls have looked (0 at
 * first). Returns the length of the head with its empty line, 0 when it is not complete yet, or -1
 * when it holds what no head may hold (NUL, control characters, a CR or LF alone): *why is set. */
ssize_t http_scan_head(const char *data, size_t len, size_t *at, const char **why);

struct http_head {
    const char *method, *path, *query; /* requests */
    int status;                        /* answers */
    int minor;                         /* 0 or 1 of HTTP/1.x */
    struct http_header headers[HTTP_HEADERS_MAX];
    size_t header_count;
    bool chunked, has_length;
    uint64_t length;
    bool keep_alive;      /* what version and Connection say */
    bool expect_continue; /* Expect: 100-continue */
    bool upgrade;         /* Connection: upgrade with an Upgrade header */
};

/* Reads a head that http_scan_head found. The strings of *ret point into data, where NULs are
 * written. Returns 0 or the status. *ret is valid as far as it got also when refused: method is
 * never NULL. */
int http_parse_request(char *data, size_t len, struct http_head *ret, const char **why);
/* The same for an answer; not 0: it cannot be understood. */
int http_parse_answer(char *data, size_t len, struct http_head *ret, const char **why);

/* A chunked body. Zero-initialised is at its start. */
struct http_chunked {
    uint64_t left; /* of this chunk */
    uint8_t state;
    uint8_t digits;
    uint32_t ext, trailer, line; /* bytes so far */
};

enum http_chunked_result {
    HTTP_CHUNKED_MORE,  /* all is used up, more must come */
    HTTP_CHUNKED_PIECE, /* *piece holds bytes of the body; call again */
    HTTP_CHUNKED_END,   /* the body is complete; *data is what follows it */
    HTTP_CHUNKED_BAD,   /* 400 */
};

/* Takes from the front of *data. */
enum http_chunked_result http_chunked_next(struct http_chunked *chunked, struct str *data, struct str *piece,
                                           const char **why);
