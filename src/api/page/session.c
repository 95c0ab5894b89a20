/* Sessions and the links that begin them. Both are kept in the store under the hash of their secret, with the
 * identity of whoever asked for the link; what has ended is removed when the next one is made. */
#include "api/auth.h"
#include "api/credentials.h"
#include "api/page/assets.h"
#include "api/page/page.h"
#include "api/rest/rest.h"
#include "base/clock.h"
#include "base/file.h"

#include <openssl/crypto.h>

#define CODES_TABLE  SIGNIN_CODES_TABLE
#define SECRET_BYTES 24
#define SECRET_MAX   (2 * SECRET_BYTES + 1)

/* Cookies know no ports: two daemons of one machine must not take each other's. */
static const char *cookie_name(const struct http_req *req, struct arena *arena)
{
    const char *host = http_req_header(req, "X-Forwarded-Host");
    const char *port;

    host = host ? host : http_req_header(req, "Host");
    port = host ? strrchr(host, ':') : NULL;
    if (!port || strspn(port + 1, "0123456789") != strlen(port + 1) || strlen(port + 1) > 5)
        return "berth";
    return arena_printf(arena, "berth-%s", port + 1);
}

/* The value of a cookie that can be one of ours; {NULL, 0}: none. */
static struct str cookie_value(const struct http_req *req, struct arena *arena)
{
    const char *name = cookie_name(req, arena), *header = http_req_header(req, "Cookie");
    struct str rest = str_from(header), part, key;

    while (rest.s && str_split(&rest, ';', &part)) {
        part = str_trim(part);
        str_split(&part, '=', &key);
        if (str_is(key, name) && part.s && part.len == 2 * SECRET_BYTES)
            return part;
    }
    return (struct str){0};
}

static void secret_hash(struct str secret, char hash[65])
{
    char text[SECRET_MAX] = "";

    if (secret.len < sizeof(text))
        memcpy(text, secret.s, secret.len);
    auth_token_hash(text, hash);
    OPENSSL_cleanse(text, sizeof(text));
}

/* What a session's page must send along: made of its secret, so nothing more is kept. */
static const char *csrf_of(struct str secret, struct arena *arena)
{
    char hash[65];

    auth_token_hash(arena_printf(arena, "csrf:%.*s", STR_ARG(secret)), hash);
    return arena_strdup(arena, hash);
}

static struct json *entry_of(struct call *call, const char *table, struct str secret)
{
    char hash[65];

    secret_hash(secret, hash);
    return credential_entry(call->store, table, hash, call->arena, call->now);
}

struct json *page_session_entry(struct call *call, char key[65])
{
    struct str secret = cookie_value(call->req, call->arena);

    if (!secret.s)
        return NULL;
    secret_hash(secret, key);
    return credential_entry(call->store, SESSIONS_TABLE, key, call->arena, call->now);
}

struct sweep {
    struct call *call;
    const char *user;
    size_t left, ended, mine;
    const char *hashes[64]; /* of those that have ended; the rest goes next time */
    const char *oldest;     /* hash of the user's that ends first */
    int64_t oldest_expires;
};

static void visit(void *arg, const char *key, struct str value)
{
    struct sweep *sweep = arg;
    CLEANUP(arena_done) struct arena arena = {0};
    struct json *entry = NULL;
    int64_t expires;

    if (json_parse(value, &arena, &entry, NULL, NULL) < 0 ||
        !clock_parse(json_str(json_get(entry, "expires")), &expires) || expires <= sweep->call->now) {
        if (sweep->ended < ARRAY_LEN(sweep->hashes))
            sweep->hashes[sweep->ended++] = arena_strdup(sweep->call->arena, key);
        return;
    }
    sweep->left++;
    if (!streq(json_get_string(entry, "user"), sweep->user))
        return;
    if (sweep->mine++ == 0 || expires < sweep->oldest_expires) {
        sweep->oldest = arena_strdup(sweep->call->arena, key);
        sweep->oldest_expires = expires;
    }
}

/* Nobody's links keep others from signing in: who has many loses the oldest of their own. -1: all together
 * are too many. */
static int make_room(struct call *call, const char *table, const char *user, size_t each, size_t max)
{
    struct sweep sweep = {.call = call, .user = user};

    store_values(call->store, table, visit, &sweep);
    for (size_t i = 0; i < sweep.ended; i++)
        store_value_set(call->store, table, sweep.hashes[i], (struct str){0});
    if (sweep.mine >= each) {
        store_value_set(call->store, table, sweep.oldest, (struct str){0});
        return 0;
    }
    if (sweep.left < max)
        return 0;
    return failure_set(&call->failure, call->arena, 429, "TooManyRequests",
                       "there are %zu open sign-ins already; wait until some have ended", sweep.left);
}

static void keep(struct call *call, const char *table, const char *secret, const struct json *entry)
{
    char hash[65];

    secret_hash(str_from(secret), hash);
    credential_keep(call, table, hash, entry);
}

static void set_url(struct call *call, struct json *answer, const char *member, const char *base,
                    const char *code)
{
    const char *prefix = call->api->config.path_prefix;

    if (base)
        json_set_string(call->arena, answer, member,
                        arena_printf(call->arena, "%s%s/#signin=%s", base, prefix ? prefix : "", code));
    else
        json_set(call->arena, answer, member, *json_new_null(call->arena));
}

void page_links_add(struct call *call, const char *id)
{
    struct json *doc = NULL, *entry = json_new_object(call->arena), *groups;
    struct json *answer = json_new_object(call->arena), *status = json_new_object(call->arena);
    const struct api_hooks *hooks = &call->api->config.hooks;
    const char *user = call->who.user, *asked;
    char code[SECRET_MAX], time[CLOCK_TEXT_MAX];

    (void)id;
    if (call->req->body.len && rest_body(call, &doc) < 0) {
        rest_fail(call);
        return;
    }
    asked = json_get_string(doc, "user");
    if (asked && !streq(asked, user)) {
        if (!access_is_admin(&call->who)) {
            failure_set(&call->failure, call->arena, 403, "Forbidden",
                        "only an admin makes links for other users");
            rest_fail(call);
            return;
        }
        user = asked;
    }
    if (make_room(call, CODES_TABLE, user, PAGE_CODES_EACH, PAGE_CODES_MAX) < 0) {
        rest_fail(call);
        return;
    }
    groups = json_set_array(call->arena, entry, "groups");
    for (unsigned i = 0; streq(user, call->who.user) && i < call->who.own_groups; i++)
        json_push_string(call->arena, groups, call->who.groups[i]);
    random_hex(code, SECRET_BYTES);
    credential_fill(call, entry, user, PAGE_CODE_TTL_SEC);
    if (call->by.id) /* the session it becomes ends with the caller's credential, too */
        json_set_string(call->arena, entry, "until", clock_format(call->by.expires, time));
    keep(call, CODES_TABLE, code, entry);
    if (hooks->status)
        hooks->status(hooks->arg, call->arena, status);
    json_set_string(call->arena, answer, "code", code);
    json_set_string(call->arena, answer, "user", user);
    json_set(call->arena, answer, "expires", *json_get(entry, "expires"));
    set_url(call, answer, "http", json_get_string(status, "http"), code);
    set_url(call, answer, "https", json_get_string(status, "https"), code);
    rest_reply(call, 201, answer);
}

/* What the page is to know of its reader. */
static struct json *session_doc(struct call *call, const struct identity *who, const char *via,
                                struct str secret)
{
    struct json *doc = json_new_object(call->arena);
    bool known = access_is_known(who);

    json_set_string(call->arena, doc, "user", known ? who->user : NULL);
    json_set_bool(call->arena, doc, "admin", access_is_admin(who));
    json_set_string(call->arena, doc, "via", via);
    json_set_string(call->arena, doc, "csrf", secret.s ? csrf_of(secret, call->arena) : NULL);
    json_set_bool(call->arena, doc, "sees", known || page_anonymous_may(call));
    json_set_string(call->arena, doc, "assets", page_asset_folder);
    json_set_string(call->arena, doc, "version", BERTH_VERSION);
    return doc;
}

static const char *via_of(const struct call *call)
{
    const struct http_peer *peer = call->req->peer;

    if (call->session)
        return "session";
    if (!access_is_known(&call->who))
        return "anonymous";
    return http_req_header(call->req, "Authorization") ? "token"
           : peer->unix_socket                         ? "socket"
                                                       : "certificate";
}

void page_session_get(struct call *call, const char *id)
{
    (void)id;
    rest_reply(call, 200,
               session_doc(call, &call->who, via_of(call),
                           call->session ? cookie_value(call->req, call->arena) : (struct str){0}));
}

/* The prefix under which a proxy shows us, else the configured one. */
static const char *cookie_path(const struct call *call)
{
    const char *given = http_req_header(call->req, "X-Forwarded-Prefix");
    const char *prefix = given ? given : call->api->config.path_prefix;
    size_t len = prefix ? strlen(prefix) : 0;

    while (len > 0 && prefix[len - 1] == '/')
        len--;
    if (len == 0 || len > 200 || prefix[0] != '/' ||
        strspn(prefix, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/_.~-") < len)
        return "/";
    return arena_printf(call->arena, "%.*s/", (int)len, prefix);
}

static void set_cookie(struct call *call, const char *value, long long max_age)
{
    const char *proto = http_req_header(call->req, "X-Forwarded-Proto");
    bool secure = call->req->peer->tls || (proto && strcasecmp(proto, "https") == 0);

    call->cookie = arena_printf(call->arena, "%s=%s; Path=%s; Max-Age=%lld; HttpOnly; SameSite=Strict%s",
                                cookie_name(call->req, call->arena), value, cookie_path(call), max_age,
                                secure ? "; Secure" : "");
}

/* A session from the entry of its code: of the same user and parent, and no longer than what made the code.
 */
static struct json *make_session(struct call *call, const struct json *code)
{
    struct json *entry = json_new_object(call->arena);
    const struct json *parent = json_get(code, "parent");
    int64_t until;

    call->by = (struct call_by){.id = json_string(parent), .expires = INT64_MAX};
    if (clock_parse(json_str(json_get(code, "until")), &until))
        call->by.expires = until;
    credential_fill(call, entry, json_string_or(json_get(code, "user"), ""), PAGE_SESSION_TTL_SEC);
    json_set(call->arena, entry, "groups", *json_get(code, "groups"));
    return entry;
}

static long long seconds_left(const struct call *call, const struct json *entry)
{
    int64_t expires = call->now;

    (void)clock_parse(json_str(json_get(entry, "expires")), &expires);
    return (expires - call->now) / NSEC_PER_SEC;
}

void page_session_add(struct call *call, const char *id)
{
    char secret[SECRET_MAX], hash[65];
    struct json *doc, *entry;
    struct str code;
    int taken;

    (void)id;
    if (rest_body(call, &doc) < 0) {
        rest_fail(call);
        return;
    }
    code = json_str(json_get(doc, "code"));
    entry = code.s && code.len == 2 * SECRET_BYTES ? entry_of(call, CODES_TABLE, code) : NULL;
    if (!entry) {
        failure_set(&call->failure, call->arena, 401, "Unauthorized",
                    "it is not known, was used already, or is older than %d minutes", PAGE_CODE_TTL_SEC / 60);
        rest_fail(call);
        return;
    }
    taken = auth_take_entry(call, entry); /* before anything is written: the call may have to wait here */
    if (taken > 0)
        return;
    if (taken < 0 ||
        make_room(call, SESSIONS_TABLE, call->who.user, PAGE_SESSIONS_EACH, PAGE_SESSIONS_MAX) < 0) {
        rest_fail(call);
        return;
    }
    secret_hash(code, hash);
    store_value_set(call->store, CODES_TABLE, hash, (struct str){0}); /* once is enough */
    random_hex(secret, SECRET_BYTES);
    entry = make_session(call, entry);
    keep(call, SESSIONS_TABLE, secret, entry);
    set_cookie(call, secret, seconds_left(call, entry));
    rest_reply(call, 201,
               session_doc(call, &call->who, "session", str_from(arena_strdup(call->arena, secret))));
}

void page_session_end(struct call *call, const char *id)
{
    struct str secret = cookie_value(call->req, call->arena);
    char hash[65];

    (void)id;
    if (secret.s) {
        secret_hash(secret, hash);
        store_value_set(call->store, SESSIONS_TABLE, hash, (struct str){0});
    }
    set_cookie(call, "", 0);
    rest_reply(call, 200, json_new_object(call->arena));
}

/* ---- other sites, and people without a name ---- */

static int refuse(struct call *call, const char *why)
{
    failure_set(&call->failure, call->arena, 403, "Forbidden", "%s", why);
    rest_fail(call);
    return -1;
}

/* Whether an Origin ("https://lab:5443") is the host that was asked for. */
static bool same_origin(const struct http_req *req, const char *origin)
{
    const char *host = http_req_header(req, "X-Forwarded-Host"), *at = strstr(origin, "://");

    host = host ? host : http_req_header(req, "Host");
    return at && host && strcasecmp(at + 3, host) == 0;
}

static int check_site(struct call *call)
{
    const char *site = http_req_header(call->req, "Sec-Fetch-Site");
    const char *origin = http_req_header(call->req, "Origin");

    if (site && !streq(site, "same-origin") && !streq(site, "none"))
        return refuse(call, "the request comes from another site's page");
    if (origin && !same_origin(call->req, origin))
        return refuse(call, "the request comes from another site's page");
    return 0;
}

static int check_csrf(struct call *call)
{
    const char *sent = http_req_header(call->req, "X-Berth-CSRF");
    const char *want = csrf_of(cookie_value(call->req, call->arena), call->arena);

    if (sent && strlen(sent) == strlen(want) && CRYPTO_memcmp(sent, want, strlen(want)) == 0)
        return 0;
    return refuse(call, "the X-Berth-CSRF header is missing or wrong; reload the page");
}

bool page_guard(struct call *call)
{
    const char *method = call->req->method;
    bool safe = streq(method, "GET") || streq(method, "HEAD") || streq(method, "OPTIONS");

    /* Who brings a token, or comes by the socket, is no browser acting on somebody else's word. */
    if (http_req_header(call->req, "Authorization") || call->req->peer->unix_socket)
        return true;
    if (safe && !http_req_header(call->req, "Upgrade"))
        return true;
    if (check_site(call) < 0)
        return false;
    return safe || !call->session || check_csrf(call) == 0;
}

static bool is_own_host(const struct api *api, const char *header)
{
    struct str host = str_from(header);
    const char *colon = strrchr(header, ':');
    bool v6 = header[0] == '[';

    if (colon && (!v6 || colon[-1] == ']'))
        host.len = (size_t)(colon - header);
    if (v6 || str_ieq(host, STR("localhost")) || strspn(header, "0123456789.") >= host.len)
        return true;
    for (const char *const *name = api->config.names; name && *name; name++)
        if (str_ieq(host, str_from(*name)))
            return true;
    return false;
}

bool page_anonymous_may(const struct call *call)
{
    const struct http_req *req = call->req;
    const char *host = http_req_header(req, "Host");

    switch (call->api->config.anonymous) {
    case API_ANONYMOUS_QUEUE:
        return true;
    case API_ANONYMOUS_LOOPBACK:
        /* Not what a proxy brings from elsewhere, nor a foreign name that somebody's DNS points here. */
        return req->peer->loopback && !http_req_header(req, "X-Forwarded-For") &&
               !http_req_header(req, "Forwarded") && host && is_own_host(call->api, host);
    case API_ANONYMOUS_NONE:
        break;
    }
    return false;
}
