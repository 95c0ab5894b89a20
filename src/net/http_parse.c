/* A head is looked at twice. http_scan_head goes over each byte once as it arrives, so that a head in
 * small pieces costs no more than one in a single piece and rubbish is refused at its first bad byte.
 * When the head is complete, http_parse_request splits it in place; it may rely on every CR standing
 * before a LF and the reverse, and on there being no control characters but HTAB. */
#include "net/http_parse.h"

#include "base/cleanup.h"

#include <assert.h>
#include <strings.h>

enum { C_TOKEN = 1, C_TARGET = 2, C_HOST = 4, C_TEXT = 8, C_HEX = 16 };

/* What a byte may be part of: a token, a target, a Host, any text of a head (VCHAR, SP, HTAB, obs-text). */
static const uint8_t class_of[256] = {
    ['\t'] = C_TEXT,
    [' '] = C_TEXT,
    ['!'] = C_TOKEN | C_TARGET | C_HOST | C_TEXT,
    ['"'] = C_TARGET | C_TEXT,
    ['#'] = C_TOKEN | C_TEXT,
    ['$' ... '\''] = C_TOKEN | C_TARGET | C_HOST | C_TEXT,
    ['(' ... ')'] = C_TARGET | C_HOST | C_TEXT,
    ['*' ... '+'] = C_TOKEN | C_TARGET | C_HOST | C_TEXT,
    [','] = C_TARGET | C_HOST | C_TEXT,
    ['-' ... '.'] = C_TOKEN | C_TARGET | C_HOST | C_TEXT,
    ['/'] = C_TARGET | C_TEXT,
    ['0' ... '9'] = C_TOKEN | C_TARGET | C_HOST | C_TEXT | C_HEX,
    [':' ... ';'] = C_TARGET | C_HOST | C_TEXT,
    ['<'] = C_TARGET | C_TEXT,
    ['='] = C_TARGET | C_HOST | C_TEXT,
    ['>' ... '@'] = C_TARGET | C_TEXT,
    ['A' ... 'F'] = C_TOKEN | C_TARGET | C_HOST | C_TEXT | C_HEX,
    ['G' ... 'Z'] = C_TOKEN | C_TARGET | C_HOST | C_TEXT,
    ['['] = C_TARGET | C_HOST | C_TEXT,
    ['\\'] = C_TARGET | C_TEXT,
    [']'] = C_TARGET | C_HOST | C_TEXT,
    ['^' ... '`'] = C_TOKEN | C_TARGET | C_TEXT,
    ['a' ... 'f'] = C_TOKEN | C_TARGET | C_HOST | C_TEXT | C_HEX,
    ['g' ... 'z'] = C_TOKEN | C_TARGET | C_HOST | C_TEXT,
    ['{'] = C_TARGET | C_TEXT,
    ['|'] = C_TOKEN | C_TARGET | C_TEXT,
    ['}'] = C_TARGET | C_TEXT,
    ['~'] = C_TOKEN | C_TARGET | C_HOST | C_TEXT,
    [128 ... 255] = C_TEXT,
};

static bool is(char c, unsigned classes)
{
    return class_of[(unsigned char)c] & classes;
}

static bool all_are(const char *s, size_t len, unsigned classes)
{
    for (size_t i = 0; i < len; i++)
        if (!is(s[i], classes))
            return false;
    return true;
}

static int refuse(int status, const char **why, const char *text)
{
    *why = text;
    return status;
}

ssize_t http_scan_head(const char *data, size_t len, size_t *at, const char **why)
{
    size_t i = *at;

    for (; i < len; i++) {
        if (i > 0 && data[i - 1] == '\r' && data[i] != '\n')
            return -refuse(1, why, "a CR without LF in the head");
        if (is(data[i], C_TEXT) || data[i] == '\r')
            continue;
        if (data[i] != '\n')
            return -refuse(1, why, "a control character in the head");
        if (i == 0 || data[i - 1] != '\r')
            return -refuse(1, why, "a LF without CR in the head");
        if (i >= 3 && data[i - 2] == '\n') {
            *at = 0;
            return (ssize_t)i + 1;
        }
    }
    *at = i;
    return 0;
}

/* The line at *rest, which ends with a NUL then; *rest is what follows it. */
static struct str take_line(struct str *rest)
{
    const char *cr = memchr(rest->s, '\r', rest->len);
    struct str line;

    assert(cr && (size_t)(cr - rest->s) + 2 <= rest->len);
    line = (struct str){rest->s, (size_t)(cr - rest->s)};
    *(char *)cr = '\0';
    *rest = (struct str){cr + 2, rest->len - line.len - 2};
    return line;
}

static int parse_version(struct str version, struct http_head *head, const char **why)
{
    if (version.len != 8 || memcmp(version.s, "HTTP/", 5) != 0 || version.s[6] != '.' || version.s[5] < '0' ||
        version.s[5] > '9' || version.s[7] < '0' || version.s[7] > '9')
        return refuse(400, why, "no HTTP version after the target");
    if (version.s[5] == '0')
        return refuse(400, why, "HTTP/0.9 is not spoken here");
    if (version.s[5] != '1' || version.s[7] > '1')
        return refuse(505, why, "only HTTP/1.1 and HTTP/1.0 are spoken here");
    head->minor = version.s[7] - '0';
    return 0;
}

/* Splits the target. authority is set for the absolute form only. */
static int parse_target(struct str target, struct http_head *head, struct str *authority, const char **why)
{
    char *path = (char *)target.s, *query;

    if (target.len == 0 || !all_are(target.s, target.len, C_TARGET))
        return refuse(400, why, "a character in the target that must be %-encoded");
    if (str_is(target, "*")) {
        if (!streq(head->method, "OPTIONS"))
            return refuse(400, why, "the target * is for OPTIONS only");
    } else if (path[0] != '/') {
        size_t skip = strncasecmp(path, "http://", 7) == 0    ? 7
                      : strncasecmp(path, "https://", 8) == 0 ? 8
                                                              : 0;
        char *end = path + skip + strcspn(path + skip, "/?");

        if (skip == 0)
            return refuse(400, why, "the target is no path");
        *authority = (struct str){path + skip, (size_t)(end - path) - skip};
        if (authority->len == 0 || !all_are(authority->s, authority->len, C_HOST))
            return refuse(400, why, "no host in the target");
        if (*end == '/') {
            path = end;
        } else { /* "http://host?query": the path is "/", and there is room for it before '?' */
            memmove((char *)authority->s - 1, authority->s, authority->len);
            authority->s--;
            path = end - 1;
            *path = '/';
        }
    }
    query = strchr(path, '?');
    if (query)
        *query++ = '\0';
    head->path = path;
    head->query = query ? query : "";
    return 0;
}

static int parse_request_line(struct str line, struct http_head *head, struct str *authority,
                              const char **why)
{
    const char *end = line.s + line.len, *space = memchr(line.s, ' ', line.len), *second;
    struct str method, target;
    int status;

    method = (struct str){line.s, space ? (size_t)(space - line.s) : line.len};
    if (method.len == 0 || method.len > HTTP_METHOD_MAX || !all_are(method.s, method.len, C_TOKEN))
        return refuse(400, why, "no valid method");
    if (!space || !(second = memchr(space + 1, ' ', (size_t)(end - space - 1))))
        return refuse(400, why, "no HTTP version in the request line");
    *(char *)space = '\0';
    *(char *)second = '\0';
    head->method = method.s;
    if (str_is(method, "PRI"))
        return refuse(400, why, "HTTP/2 is not spoken here");
    target = (struct str){space + 1, (size_t)(second - space - 1)};
    status = parse_version((struct str){second + 1, (size_t)(end - second - 1)}, head, why);
    if (status == 0)
        status = parse_target(target, head, authority, why);
    return status;
}

static int parse_header_line(struct str line, struct http_head *head, const char **why)
{
    char *colon = memchr(line.s, ':', line.len), *value, *end = (char *)line.s + line.len;

    if (is(line.s[0], C_TEXT) && (line.s[0] == ' ' || line.s[0] == '\t'))
        return refuse(400, why, "a folded header line");
    if (!colon || colon == line.s || !all_are(line.s, (size_t)(colon - line.s), C_TOKEN))
        return refuse(400, why, "a header line without a valid name");
    if (head->header_count == HTTP_HEADERS_MAX)
        return refuse(431, why, "too many header lines");
    *colon = '\0';
    value = colon + 1;
    while (*value == ' ' || *value == '\t')
        value++;
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        *--end = '\0';
    head->headers[head->header_count++] = (struct http_header){line.s, value};
    return 0;
}

/* Whether a comma-separated list has that word. */
static bool list_has(const char *list, const char *word)
{
    struct str rest = str_from(list), item;

    while (str_split(&rest, ',', &item))
        if (str_ieq(str_trim(item), str_from(word)))
            return true;
    return false;
}

/* What the headers that frame the message say, gathered before it is judged. */
struct framing {
    const char *length, *coding, *expect, *host;
    bool close, keep_alive, upgrade, protocol;
};

static int gather(const struct http_head *head, struct framing *ret, const char **why)
{
    for (size_t i = 0; i < head->header_count; i++) {
        const char *name = head->headers[i].name, *value = head->headers[i].value;
        const char **once = NULL;

        switch (name[0] | 0x20) { /* most headers are none of these */
        case 'c':
            if (strcasecmp(name, "Content-Length") == 0) {
                once = &ret->length;
            } else if (strcasecmp(name, "Connection") == 0) {
                ret->close |= list_has(value, "close");
                ret->keep_alive |= list_has(value, "keep-alive");
                ret->upgrade |= list_has(value, "upgrade");
            }
            break;
        case 'e':
            if (strcasecmp(name, "Expect") == 0)
                once = &ret->expect;
            break;
        case 'h':
            if (strcasecmp(name, "Host") == 0)
                once = &ret->host;
            break;
        case 't':
            if (strcasecmp(name, "Transfer-Encoding") == 0)
                once = &ret->coding;
            break;
        case 'u':
            if (strcasecmp(name, "Upgrade") == 0)
                ret->protocol = value[0] != '\0';
            break;
        default:
            break;
        }
        if (once && *once)
            return refuse(400, why, "a header that may come once came twice");
        if (once)
            *once = value;
    }
    return 0;
}

/* Content-Length and Transfer-Encoding; the same for requests and answers. */
static int judge_length(const struct framing *framing, struct http_head *head, const char **why)
{
    if (framing->coding) {
        if (framing->length)
            return refuse(400, why, "both Content-Length and Transfer-Encoding");
        if (head->minor == 0)
            return refuse(400, why, "Transfer-Encoding in HTTP/1.0");
        if (strcasecmp(framing->coding, "chunked") != 0) {
            struct str rest = str_from(framing->coding), item;

            while (str_split(&rest, ',', &item)) {
                item = str_trim(item);
                if (item.len > 0 && all_are(item.s, item.len, C_TOKEN) && !str_ieq(item, STR("chunked")))
                    return refuse(501, why, "a transfer coding that is not known here");
            }
            return refuse(400, why, "a bad Transfer-Encoding");
        }
        head->chunked = true;
    }
    if (framing->length) {
        struct str digits = str_from(framing->length);

        for (size_t i = 0; i < digits.len; i++)
            if (digits.s[i] < '0' || digits.s[i] > '9')
                return refuse(400, why, "a bad Content-Length");
        if (!str_to_uint(digits, &head->length) || head->length > INT64_MAX)
            return refuse(400, why, "a bad Content-Length");
        head->has_length = true;
    }
    return 0;
}

static int judge_request(const struct framing *framing, struct str authority, struct http_head *head,
                         const char **why)
{
    struct str host = str_from(framing->host);
    int status = judge_length(framing, head, why);

    if (status != 0)
        return status;
    if (!framing->host && head->minor > 0)
        return refuse(400, why, "no Host header");
    if (framing->host && !all_are(host.s, host.len, C_HOST))
        return refuse(400, why, "a bad Host header");
    if (authority.s && framing->host && !str_ieq(authority, host))
        return refuse(400, why, "Host and target name different hosts");
    if (framing->expect && head->minor > 0) {
        if (strcasecmp(framing->expect, "100-continue") != 0)
            return refuse(417, why, "an expectation that is not known here");
        head->expect_continue = true;
    }
    head->keep_alive = !framing->close && (head->minor > 0 || framing->keep_alive);
    head->upgrade = head->minor > 0 && framing->upgrade && framing->protocol;
    return 0;
}

static int parse_headers(struct str *rest, struct http_head *head, struct framing *framing, const char **why)
{
    struct str line;
    int status;

    while ((line = take_line(rest)).len > 0) {
        status = parse_header_line(line, head, why);
        if (status != 0)
            return status;
    }
    return gather(head, framing, why);
}

int http_parse_request(char *data, size_t len, struct http_head *ret, const char **why)
{
    struct str rest = {data, len}, authority = {0};
    struct framing framing = {0};
    int status;

    ret->method = ret->path = ret->query = "";
    ret->status = ret->minor = 0;
    ret->header_count = 0;
    ret->chunked = ret->has_length = ret->keep_alive = ret->expect_continue = ret->upgrade = false;
    ret->length = 0;
    if (len >= 2 && data[0] == '\r')
        take_line(&rest); /* one empty line before a request is the leftover of some clients' bodies */
    status = parse_request_line(take_line(&rest), ret, &authority, why);
    if (status == 0)
        status = parse_headers(&rest, ret, &framing, why);
    if (status == 0)
        status = judge_request(&framing, authority, ret, why);
    return status;
}

int http_parse_answer(char *data, size_t len, struct http_head *ret, const char **why)
{
    struct str rest = {data, len}, line = take_line(&rest);
    struct framing framing = {0};
    int status;

    memset(ret, 0, sizeof(*ret));
    ret->method = ret->path = ret->query = "";
    if (line.len < 12 || line.s[8] != ' ' || (line.len > 12 && line.s[12] != ' '))
        return refuse(400, why, "no HTTP status line");
    status = parse_version((struct str){line.s, 8}, ret, why);
    if (status != 0)
        return status;
    for (int i = 9; i < 12; i++) {
        if (line.s[i] < '0' || line.s[i] > '9')
            return refuse(400, why, "no HTTP status line");
        ret->status = ret->status * 10 + line.s[i] - '0';
    }
    if (ret->status < 100)
        return refuse(400, why, "no HTTP status line");
    status = parse_headers(&rest, ret, &framing, why);
    if (status == 0)
        status = judge_length(&framing, ret, why);
    ret->keep_alive = !framing.close && (ret->minor > 0 || framing.keep_alive);
    ret->upgrade = framing.upgrade && framing.protocol;
    return status;
}

/* Chunked bodies, a byte at a time except for the data itself. */
enum {
    CHUNK_SIZE,
    CHUNK_EXT,
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    CHUNKED_DONE,
};

static int hex_value(char c)
{
    return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

static const char *size_byte(struct http_chunked *c, char byte)
{
    if (is(byte, C_HEX)) {
        if (c->digits++ == 15) /* 60 bits: no overflow, and longer than any body */
            return "a chunk size that is too large";
        c->left = c->left << 4 | (unsigned)hex_value(byte);
        return NULL;
    }
    if (c->digits == 0 || (byte != ';' && byte != '\r'))
        return "a bad chunk size";
    c->state = byte == ';' ? CHUNK_EXT : CHUNK_SIZE_LF;
    return NULL;
}

static const char *ext_byte(struct http_chunked *c, char byte)
{
    if (byte == '\r')
        c->state = CHUNK_SIZE_LF;
    else if (!is(byte, C_TEXT))
        return "a control character in a chunk extension";
    if (++c->ext > HTTP_CHUNK_EXT_MAX)
        return "too many chunk extensions";
    return NULL;
}

static const char *trailer_byte(struct http_chunked *c, char byte)
{
    if (++c->trailer > HTTP_TRAILER_MAX)
        return "too large a trailer";
    if (byte == '\r') {
        if (c->state == TRAILER_NAME && c->line > 0)
            return "a bad trailer";
        c->state = TRAILER_LF;
    } else if (c->state == TRAILER_NAME) {
        if (byte == ':' && c->line > 0)
            c->state = TRAILER_VALUE;
        else if (!is(byte, C_TOKEN))
            return "a bad trailer";
        c->line++;
    } else if (!is(byte, C_TEXT)) {
        return "a control character in a trailer";
    }
    return NULL;
}

static const char *chunked_byte(struct http_chunked *c, char byte)
{
    switch (c->state) {
    case CHUNK_SIZE:
        return size_byte(c, byte);
    case CHUNK_EXT:
        return ext_byte(c, byte);
    case CHUNK_SIZE_LF:
        c->state = c->left > 0 ? CHUNK_DATA : TRAILER_NAME;
        c->digits = 0;
        return byte == '\n' ? NULL : "a CR without LF behind a chunk size";
    case CHUNK_DATA_CR:
        c->state = CHUNK_DATA_LF;
        return byte == '\r' ? NULL : "a chunk longer than its size";
    case CHUNK_DATA_LF:
        c->state = CHUNK_SIZE;
        return byte == '\n' ? NULL : "a chunk longer than its size";
    case TRAILER_NAME:
    case TRAILER_VALUE:
        return trailer_byte(c, byte);
    case TRAILER_LF:
        c->state = c->line > 0 ? TRAILER_NAME : CHUNKED_DONE;
        c->line = 0;
        return byte == '\n' ? NULL : "a CR without LF in a trailer";
    default:
        return "bytes after the end of a chunked body";
    }
}

enum http_chunked_result http_chunked_next(struct http_chunked *chunked, struct str *data, struct str *piece,
                                           const char **why)
{
    while (chunked->state != CHUNKED_DONE) {
        const char *bad;

        if (data->len == 0)
            return HTTP_CHUNKED_MORE;
        if (chunked->state == CHUNK_DATA) {
            *piece = (struct str){data->s, data->len < chunked->left ? data->len : chunked->left};
            *data = (struct str){data->s + piece->len, data->len - piece->len};
            chunked->left -= piece->len;
            if (chunked->left == 0)
                chunked->state = CHUNK_DATA_CR;
            return HTTP_CHUNKED_PIECE;
        }
        bad = chunked_byte(chunked, data->s[0]);
        if (bad) {
            *why = bad;
            return HTTP_CHUNKED_BAD;
        }
        *data = (struct str){data->s + 1, data->len - 1};
    }
    return HTTP_CHUNKED_END;
}
