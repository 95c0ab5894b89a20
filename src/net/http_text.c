/* The parts of HTTP that are text and tables. */
#include "base/cleanup.h"
#include "net/http.h"

#include <strings.h>

static const struct {
    int status;
    const char *text;
} texts[] = {
    {100, "Continue"},
    {101, "Switching Protocols"},
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {206, "Partial Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {303, "See Other"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

const char *http_status_text(int status)
{
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (texts[i].status == status)
            return texts[i].text;
    return "Unknown";
}

const char *http_req_header(const struct http_req *req, const char *name)
{
    for (size_t i = 0; i < req->header_count; i++)
        if (strcasecmp(req->headers[i].name, name) == 0)
            return req->headers[i].value;
    return NULL;
}

/* One decoded name or value in the arena; NULL when it cannot be decoded. */
static const char *decode(const struct http_req *req, struct str raw)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (!buf_url_decode(&text, raw, true) || memchr(text.data ? text.data : "", '\0', text.len))
        return NULL;
    return arena_strndup(req->arena, text.data, text.len);
}

static bool name_matches(struct str raw, const char *name)
{
    CLEANUP(buf_done) struct buf text = {0};

    if (!memchr(raw.s, '%', raw.len) && !memchr(raw.s, '+', raw.len))
        return str_is(raw, name);
    return buf_url_decode(&text, raw, true) && str_is(buf_view(&text), name);
}

const char *http_query(const struct http_req *req, const char *name, size_t n)
{
    struct str rest = str_from(req->query), pair;

    while (str_split(&rest, '&', &pair)) {
        const char *equals = memchr(pair.s, '=', pair.len);
        struct str key = {pair.s, equals ? (size_t)(equals - pair.s) : pair.len};
        struct str value = {equals ? equals + 1 : "", equals ? pair.len - key.len - 1 : 0};

        if (!name_matches(key, name) || n-- > 0)
            continue;
        return decode(req, value);
    }
    return NULL;
}
