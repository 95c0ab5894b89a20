/* Host, X-Forwarded-Host and Cookie, each a line: who has no session's secret in a cookie is nobody. */
#include "api/auth.h"
#include "api/page/page.h"
#include "base/clock.h"

#include <stdint.h>
#include <stdlib.h>

static const char secret[] = "0123456789abcdef0123456789abcdef0123456789abcdef";
static struct api api;

static void start(void)
{
    struct store *store = NULL;
    struct err err = {0};
    char hash[65];

    if (store_open(":memory:", loop_new(), &store, &err) < 0)
        abort();
    api.config.registry = registry_new(store);
    auth_token_hash(secret, hash);
    store_value_set(store, "sessions", hash,
                    str_from("{\"user\":\"ann\",\"groups\":[\"lab\"],\"expires\":\"2026-01-02T00:00:00Z\"}"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"Host", "X-Forwarded-Host", "Cookie"};
    CLEANUP(arena_done) struct arena arena = {0};
    struct str rest = {(const char *)data, size}, line;
    struct http_header headers[ARRAY_LEN(names)];
    struct http_req req = {.method = "GET", .path = "/", .query = "", .headers = headers, .arena = &arena};
    struct call call = {.api = &api, .req = &req, .arena = &arena};
    const struct json *entry;
    char key[65];

    if (!api.config.registry)
        start();
    while (req.header_count < ARRAY_LEN(names) && rest.s && str_split(&rest, '\n', &line)) {
        char *value = arena_strndup(&arena, line.s, line.len);

        if (line.len) /* an empty line: without that header */
            headers[req.header_count] = (struct http_header){names[req.header_count], value};
        else
            headers[req.header_count] = (struct http_header){"X-None", ""};
        req.header_count++;
    }
    call.store = registry_store(api.config.registry);
    clock_parse(str_from("2026-01-01T00:00:00Z"), &call.now);
    entry = page_session_entry(&call, key);
    if (entry) {
        const char *cookie = http_req_header(&req, "Cookie");

        if (!cookie || !strstr(cookie, secret) || !streq(json_get_string(entry, "user"), "ann"))
            abort();
        clock_parse(str_from("2026-01-03T00:00:00Z"), &call.now);
        if (page_session_entry(&call, key))
            abort();
    }
    return 0;
}
