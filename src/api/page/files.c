/* The page's files: compressed as they are in the program, or unpacked for the rare client that does not take
 * gzip. The folder's name is a hash of all of it, so what is below it never changes. */
#include "api/page/assets.h"
#include "api/page/page.h"

#include <zlib.h>

#define CSP                                                                                                  \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "    \
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "      \
    "trusted-types 'none'"

static const struct page_asset *find(const char *name)
{
    for (size_t i = 0; i < page_asset_count; i++)
        if (streq(page_assets[i].name, name))
            return &page_assets[i];
    return NULL;
}

static bool takes_gzip(const struct http_req *req)
{
    const char *accept = http_req_header(req, "Accept-Encoding");
    struct str rest = str_from(accept), part, name;

    while (rest.s && str_split(&rest, ',', &part)) {
        part = str_trim(part);
        str_split(&part, ';', &name);
        if (str_ieq(str_trim(name), STR("gzip")))
            return !part.s || !(str_is(str_trim(part), "q=0") || str_is(str_trim(part), "q=0.0"));
    }
    return false;
}

static void unpack(const struct page_asset *asset, struct arena *arena, struct buf *out)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)asset->gzip, .avail_in = (uInt)asset->gzip_len};
    char *text = arena_alloc(arena, asset->len + 1);

    stream.next_out = (Bytef *)text;
    stream.avail_out = (uInt)asset->len;
    if (inflateInit2(&stream, 16 + MAX_WBITS) == Z_OK) {
        inflate(&stream, Z_FINISH);
        inflateEnd(&stream);
    }
    buf_add(out, text, asset->len - stream.avail_out);
}

static void send_asset(struct call *call, const struct page_asset *asset, bool forever)
{
    struct http_header headers[] = {
        {"ETag", asset->etag},
        {"Cache-Control", forever ? "public, max-age=31536000, immutable" : "no-cache"},
        {"Vary", "Accept-Encoding"},
        {"Content-Security-Policy", CSP},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Content-Encoding", "gzip"},
    };
    const char *known = http_req_header(call->req, "If-None-Match");
    CLEANUP(buf_done) struct buf text = {0};

    if (known && strstr(known, asset->etag)) {
        http_reply(call->req, 304, NULL, headers, ARRAY_LEN(headers) - 1, (struct str){0});
    } else if (takes_gzip(call->req)) {
        http_reply(call->req, 200, asset->type, headers, ARRAY_LEN(headers),
                   (struct str){(const char *)asset->gzip, asset->gzip_len});
    } else {
        unpack(asset, call->arena, &text);
        http_reply_buf(call->req, 200, asset->type, headers, ARRAY_LEN(headers) - 1, &text);
    }
}

bool page_handle(struct call *call)
{
    const char *path = call->req->path;
    const struct page_asset *asset = NULL;
    bool index = streq(path, "/") || streq(path, "/index.html");

    if (index)
        asset = find("index.html");
    else if (starts_with(path, page_asset_folder))
        asset = find(path + strlen(page_asset_folder));
    else if (streq(path, "/favicon.ico"))
        asset = find("icon.svg");
    if (!asset)
        return false;
    if (!streq(call->req->method, "GET") && !streq(call->req->method, "HEAD")) {
        failure_set(&call->failure, call->arena, 405, "MethodNotAllowed", "%s cannot be done at %s",
                    call->req->method, path);
        call_fail(call);
        return true;
    }
    send_asset(call, asset, !index && !streq(path, "/favicon.ico"));
    return true;
}

bool page_strip_prefix(struct call *call)
{
    const char *prefix = call->api->config.path_prefix, *path = call->req->path;
    size_t len = prefix ? strlen(prefix) : 0;
    struct http_header location = {"Location", NULL};

    if (!len || strncmp(path, prefix, len) != 0 || (path[len] && path[len] != '/'))
        return true;
    if (path[len]) {
        call->req->path = path + len;
        return true;
    }
    location.value = arena_printf(call->arena, "%s/", prefix);
    http_reply(call->req, 308, "text/plain", &location, 1, STR("the page is one '/' further\n"));
    return false;
}
